"""The command: the server on one port, or a bridge to it from stdin and stdout.

Exit status: 0 ended as asked, 1 the check failed, 2 a setting, the token or the host cannot
be used, 3 the port cannot be had, 4 the database cannot be used.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from access.address import HostRefused, PortTaken
from config import VERSION, Config
from core.errors import AuthError, ConfigError, MneloError, StoreError
from core.terminal import complain
from mnelo_locale import message
from server import client_configs

STATUS: dict[type[MneloError], int] = {
    ConfigError: 2,
    AuthError: 2,
    HostRefused: 2,
    PortTaken: 3,
    StoreError: 4,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status says how it ended."""
    for stream in (sys.stdout, sys.stderr):
        # Many a log file is opened in an encoding that has no 🟢 and no Chinese.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    given = _parser().parse_args(arguments)
    try:
        return _run(given)
    except MneloError as error:
        complain(error)
        return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 1)


def _run(given: argparse.Namespace) -> int:
    # Imported when needed: a bridge connects in less time than the server's libraries load in.
    config = Config.load(
        database_path=given.db, server_host=given.host, server_port=given.port or None
    )
    if given.print_config:
        return client_configs.run(given, config)
    if given.check:
        from server.server import check as run
    elif given.transport == "stdio":
        from server.bridge import run
    else:
        from server.server import run
    return run(given, config)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mcp_server.py", description=message("cli.server"))
    add = parser.add_argument
    transports = ("sse", "streamable-http", "stdio")
    add("--transport", choices=transports, default="sse", help=message("cli.transport"))
    add("--host", help=message("cli.host"))
    add("--port", type=int, help=message("cli.port"))
    add("--db", metavar="FILE", help=message("cli.db"))
    add("--auth-token-file", metavar="FILE", type=Path, help=message("cli.auth_token_file"))
    clients = (*client_configs.CLIENTS, "all")
    which = message("cli.print_config", clients=", ".join(clients))
    add("--print-config", choices=clients, metavar="CLIENT", help=which)
    add("--check", action="store_true", help=message("cli.check"))
    add("--version", action="version", version=f"mnelo {VERSION}")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
