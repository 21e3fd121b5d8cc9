"""Where the server may listen."""

import socket

import pytest

from access import address
from config import Config


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_with_one_address_beyond_this_machine_is_not_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    """One loopback address among a name's addresses once could have been taken for enough."""
    addresses = ["127.0.0.1", "192.0.2.7"][::order]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    with pytest.raises(address.HostRefused, match="is not this machine alone"):
        address.listen(Config.load({}, server_host="mybox"), None, 0)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("token", [None, "s3cret-of-the-tests"])
def test_another_address_needs_both_the_setting_and_a_token(
    allowed: bool, token: str | None
) -> None:
    config = Config.load(
        {"MNELO_MEMORY_SERVER_ALLOW_REMOTE": str(allowed).lower()},
        server_host="0.0.0.0",  # noqa: S104
    )
    if allowed and token:
        address.listen(config, token, 0).close()
        return
    with pytest.raises(address.HostRefused, match="is not this machine alone"):
        address.listen(config, token, 0)
