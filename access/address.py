"""Where the server listens, and the URL under which its clients reach it."""

import errno
import ipaddress
import socket
import sys

from config import Config
from core.errors import MneloError


class HostRefused(MneloError):
    """The server may not listen under that host."""


class PortTaken(MneloError):
    """The server cannot listen on that port."""


def listen(config: Config, token: str | None, port: int) -> socket.socket:
    """A listening socket for the configured host, which is this machine alone or allowed."""
    host = config.server_host
    found = _resolve(host)
    local = all(ipaddress.ip_address(each).is_loopback for _, each in found)
    if not local and not (config.server_allow_remote and token):
        raise HostRefused("server.remote", host=host)
    family, address = found[0]
    try:
        return _bind(family, address, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTaken("server.taken", host=host, port=port) from None
        raise PortTaken("server.bind", host=host, port=port, reason=error.strerror) from None


def url(host: str, port: int) -> str:
    """The URL of a host, in brackets where that is an IPv6 address.

    >>> url("127.0.0.1", 8086), url("::1", 8086)
    ('http://127.0.0.1:8086', 'http://[::1]:8086')
    """
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reachable(host: str) -> str:
    """The host to connect to: one that stands for every address of a machine is none itself.

    >>> reachable("0.0.0.0"), reachable("::"), reachable("localhost")
    ('127.0.0.1', '::1', 'localhost')
    """
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound here


def _resolve(host: str) -> list[tuple[int, str]]:
    """The addresses of a host, IPv4 first."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HostRefused("server.host", host=host, reason=reason) from None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return [(family, str(address[0]).partition("%")[0]) for family, *_, address in found]


def _bind(family: int, address: str, port: int) -> socket.socket:
    # Named as TCP, or asyncio leaves its small packets waiting for each other: 40 ms a call.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            # Without it a restart fails while old connections linger; two servers still cannot
            # share the port, since the second `listen` fails.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener
