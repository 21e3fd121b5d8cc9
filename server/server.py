"""The server: token, socket, memory, in this order, then serve until a signal comes.

The socket comes before the database, so that a second server leaves without touching the file.
"""

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from access import address
from access.auth import load_token
from config import VERSION, Config
from core.files import make_private
from core.terminal import say, shown
from memory import Memory
from mnelo_locale import message

if TYPE_CHECKING:
    from server.tools import Toolset
    from server.transport import Hosts

log = logging.getLogger("mnelo.server")


def run(given: Namespace, config: Config) -> int:
    """Serve as the command line asks; the exit status."""
    token = load_token(config, given.auth_token_file, os.environ)
    listener = address.listen(config, token, 0 if given.port == 0 else config.server_port)
    _log_to_stderr(debug=config.debug)
    for file in (config.home / "logs").glob("*.log"):  # a service's are made by the system
        make_private(file)
    _leave_on_signals()
    with listener, Memory(config=config) as memory, _toolsets(memory, config) as sets:
        memory.keep()
        _serve(memory, sets, config, listener, token, sse=given.transport == "sse")
    log.info(message("server.stopped"))
    return 0


@contextmanager
def _toolsets(memory: Memory, config: Config) -> "Iterator[list[Toolset]]":
    """The tools that the settings ask for, and what runs in the background for them."""
    from server.tools import core

    sets = [core(memory, config)] if "core" in config.server_toolsets else []
    if "timeline" not in config.server_toolsets:
        yield sets
        return
    from server.timeline_tools import timeline_tools

    with closing(memory.timeline()) as timeline:
        timeline.keep()
        yield [*sets, timeline_tools(timeline, config)]


def _serve(
    memory: Memory,
    sets: "Sequence[Toolset]",
    config: Config,
    listener: socket.socket,
    token: str | None,
    *,
    sse: bool,
) -> None:
    """Answer requests until a signal comes."""
    # Imported when needed: whoever is refused, or only checks, need not wait for MCP's libraries.
    from server.metrics import Metrics
    from server.tools import build_server
    from server.transport import App, serve

    metrics = Metrics(memory.stats)
    app = App(
        build_server(memory, sets, metrics.count),
        sse=sse,
        hosts=_hosts(config, listener),
        token=token,
        max_bytes=config.limits_request_bytes,
        health=_health(memory),
        metrics=metrics.page,
    )
    url = address.url(*listener.getsockname()[:2]) + ("/sse" if sse else "/mcp")
    ready = message("server.ready", url=url, version=VERSION, database=memory.path)
    asyncio.run(serve(app, listener, lambda: log.info(ready)))


def check(given: Namespace, config: Config) -> int:
    """Whether a memory can be stored and found with these settings, in a file of its own."""
    _leave_on_signals()
    fact = "mnelo --check stored this line 北门"
    load_token(config, given.auth_token_file, os.environ)
    with (
        tempfile.TemporaryDirectory(prefix="mnelo-check-") as folder,
        Memory(Path(folder, "memory.db"), config=config) as memory,
    ):
        stored = memory.remember(content=fact)
        hits = memory.recall(query=fact)["hits"]
    found = stored["chunk_id"] in [hit["chunk_id"] for hit in hits]
    say(message("server.check_ok" if found else "server.check_lost"))
    return 0 if found else 1


def _leave_on_signals() -> None:
    """Until requests are served, a signal ends the process where it is, and in silence."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: sys.exit(0))


def _health(memory: Memory) -> Callable[[], dict[str, Any]]:
    """What /health answers to those who may know: which server this is, and which file it has."""
    started = time.monotonic()
    return lambda: {
        "name": "mnelo",
        "status": "ok",
        "version": VERSION,
        "database": str(memory.path),
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - started, 1),
    }


class Lines(logging.StreamHandler):  # type: ignore[type-arg]
    """What is logged, as a terminal may show it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))


def _log_to_stderr(*, debug: bool) -> None:
    """One line for each event; of the libraries only what somebody should look at."""
    logging.basicConfig(handlers=[Lines()])
    logging.getLogger("mnelo").setLevel(logging.DEBUG if debug else logging.INFO)
    # The SDK warns of every request that a client gets wrong; the client gets the error too.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)


def _hosts(config: Config, listener: socket.socket) -> "Hosts":
    from server.transport import LOOPBACK, Hosts

    bound = str(listener.getsockname()[0])
    names = LOOPBACK | {config.server_host.lower(), bound}
    if ipaddress.ip_address(bound).is_loopback:
        return Hosts(names)
    return Hosts(names | {socket.gethostname().lower()}, remote=True)
