"""The MCP server's command: settings, token, socket, memory, in this order, then serve.

The socket comes before the database, so that a second server leaves without touching the
file. Exit status: 0 ended as asked, 1 the check failed, 2 a setting, the token or the host
cannot be used, 3 the port cannot be had, 4 the database cannot be used.
"""

import argparse
import asyncio
import errno
import io
import ipaddress
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from auth import load_token
from config import VERSION, Config
from errors import AuthError, ConfigError, MneloError, StoreError
from memory import Memory
from mnelo_locale import message
from tools import build_server
from transport import LOOPBACK, App, Hosts, serve

log = logging.getLogger("mnelo.server")


class HostRefused(MneloError):
    """The server may not listen under that host."""


class PortTaken(MneloError):
    """The server cannot listen on that port."""


STATUS: dict[type[MneloError], int] = {
    ConfigError: 2,
    AuthError: 2,
    HostRefused: 2,
    PortTaken: 3,
    StoreError: 4,
}


# --- The command -----------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status says how it ended."""
    for stream in (sys.stdout, sys.stderr):
        # Many a log file is opened in an encoding that has no 🟢 and no Chinese.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    given = _parser().parse_args(arguments)
    try:
        return _check(given) if given.check else _serve(given)
    except MneloError as error:
        print(error, file=sys.stderr)
        return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mcp_server.py", description=message("cli.server"))
    add = parser.add_argument
    transports = ("sse", "streamable-http")
    add("--transport", choices=transports, default="sse", help=message("cli.transport"))
    add("--host", help=message("cli.host"))
    add("--port", type=int, help=message("cli.port"))
    add("--db", metavar="FILE", help=message("cli.db"))
    add("--auth-token-file", metavar="FILE", type=Path, help=message("cli.auth_token_file"))
    add("--check", action="store_true", help=message("cli.check"))
    add("--version", action="version", version=f"mnelo {VERSION}")
    return parser


def _serve(given: argparse.Namespace) -> int:
    config = Config.load(
        database_path=given.db, server_host=given.host, server_port=given.port or None
    )
    token = load_token(config, given.auth_token_file, os.environ)
    listener = _listen(config, token, 0 if given.port == 0 else config.server_port)
    _log_to_stderr(debug=config.debug)
    _leave_on_signals()
    with listener, Memory(config=config) as memory:
        app = App(
            build_server(memory, config),
            sse=given.transport == "sse",
            hosts=_hosts(config, listener),
            token=token,
            most_bytes=config.limits_request_bytes,
            health=_health(memory),
        )
        url = _url(listener) + ("/sse" if given.transport == "sse" else "/mcp")
        ready = message("server.ready", url=url, version=VERSION, database=memory.path)
        asyncio.run(serve(app, listener, lambda: log.info(ready)))
    log.info(message("server.stopped"))
    return 0


def _check(given: argparse.Namespace) -> int:
    """Whether a memory can be stored and found with these settings, in a file of its own."""
    _leave_on_signals()
    fact = "mnelo --check stored this line 北门"
    with tempfile.TemporaryDirectory(prefix="mnelo-check-") as folder:
        config = Config.load(database_path=str(Path(folder, "memory.db")))
        load_token(config, given.auth_token_file, os.environ)
        with Memory(config=config) as memory:
            stored = memory.remember(content=fact)
            hits = memory.recall(query=fact)["hits"]
    found = stored["chunk_id"] in [hit["chunk_id"] for hit in hits]
    print(message("server.check_ok" if found else "server.check_lost"))
    return 0 if found else 1


def _leave_on_signals() -> None:
    """Until requests are served, a signal ends the process where it is, and in silence."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: sys.exit(0))


def _health(memory: Memory) -> Callable[[], dict[str, Any]]:
    """What /health answers: enough to tell this server and its file from any other."""
    started = time.monotonic()
    return lambda: {
        "name": "mnelo",
        "status": "ok",
        "version": VERSION,
        "database": str(memory.path),
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - started, 1),
    }


def _log_to_stderr(*, debug: bool) -> None:
    """One line for each event; of the libraries only what somebody should look at."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("mnelo").setLevel(logging.DEBUG if debug else logging.INFO)
    # The SDK warns of every request that a client gets wrong; the client is told as well.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)


# --- The socket ------------------------------------------------------------------------


def _listen(config: Config, token: str | None, port: int) -> socket.socket:
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


def _hosts(config: Config, listener: socket.socket) -> Hosts:
    address = str(listener.getsockname()[0])
    names = LOOPBACK | {config.server_host.lower(), address}
    if ipaddress.ip_address(address).is_loopback:
        return Hosts(names)
    return Hosts(names | {socket.gethostname().lower()}, remote=True)


def _url(listener: socket.socket) -> str:
    address, port, *_ = listener.getsockname()
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


if __name__ == "__main__":
    raise SystemExit(main())
