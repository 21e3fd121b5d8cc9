"""Which server runs at the configured host and port."""

import http.client
import json
import os
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from access import address
from access.auth import load_token
from config import Config
from core.errors import AuthError

ASK_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class Server:
    """What is at the configured port: our server, one with another file, or something else.

    A locked one is mnelo, but takes another token, so that its file cannot be known.
    """

    url: str
    state: Literal["ours", "other_file", "locked", "foreign", "silent", "down"]
    said: Mapping[str, Any]  # what it answered to /health


def find_server(config: Config) -> Server:
    """Ask what listens at the configured host and port, for ASK_SECONDS at most."""
    host, port = address.reachable(config.server_host), config.server_port
    url = address.url(host, port)
    answers: queue.Queue[dict[str, Any] | Literal["silent", "down"]] = queue.Queue()
    # In a thread: no timeout ends a slow name lookup, or an answer that comes byte by byte.
    token = _token(config)
    threading.Thread(target=lambda: answers.put(_ask(host, port, token)), daemon=True).start()
    try:
        said = answers.get(timeout=ASK_SECONDS)
    except queue.Empty:
        said = "silent"
    if isinstance(said, str):
        return Server(url, said, {})
    if said.get("name") != "mnelo":
        return Server(url, "foreign", {})
    if keeps_to_itself(said):
        return Server(url, "locked", said)
    same = same_file(str(said.get("database")), config.database_path)
    return Server(url, "ours" if same else "other_file", said)


def _token(config: Config) -> str | None:
    """The token to ask with; one that cannot be used is for the server to complain of."""
    try:
        return load_token(config, None, os.environ)
    except AuthError:
        return None


def _ask(host: str, port: int, token: str | None) -> dict[str, Any] | Literal["silent", "down"]:
    """The answer to /health; an empty one where it is not from mnelo."""
    connection = http.client.HTTPConnection(host, port, timeout=ASK_SECONDS)
    try:
        said = _health(connection, {})
        # Only mnelo is shown the token: another program may stand at its port by chance.
        if token and keeps_to_itself(said):
            said = _health(connection, {"Authorization": f"Bearer {token}"})
    except TimeoutError:
        return "silent"
    except ConnectionRefusedError:
        return "down"
    except (http.client.HTTPException, ConnectionError, ValueError, RecursionError):
        return {}
    except OSError:  # no such host, or no way to it
        return "down"
    finally:
        connection.close()
    return said if isinstance(said, dict) else {}


def _health(connection: http.client.HTTPConnection, headers: Mapping[str, str]) -> Any:
    connection.request("GET", "/health", headers=dict(headers))
    return json.loads(connection.getresponse().read(1 << 16))


def keeps_to_itself(said: object) -> bool:
    """Whether mnelo answered that, but wants a token before it says which file it has."""
    return isinstance(said, dict) and said.get("name") == "mnelo" and "database" not in said


def same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to the same file, which need not exist yet."""
    return os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other))
