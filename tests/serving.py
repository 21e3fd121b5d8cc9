"""The real server as a process of its own, for tests that talk to it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = (str(ROOT / "mcp_server.py"),)
START_SECONDS = 20

_STUCK = """
import sys, time
sys.path.insert(0, sys.argv.pop(1))
import mcp_server, server

class Stuck(server.Memory):
    def recall(self, query):
        print("asked", file=sys.stderr, flush=True)
        time.sleep(30)

server.Memory = Stuck
raise SystemExit(mcp_server.main())
"""
STUCK = ("-c", _STUCK, str(ROOT))
"""The server with a recall that says so when it is asked, and then takes half a minute."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server; `home` is its MNELO_HOME and its HOME as well."""

    url: str
    home: Path
    process: "subprocess.Popen[bytes]"

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://").rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stderr(self) -> str:
        """All that the server has said so far."""
        return _stderr(self.home).read_text("utf-8")

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(self.url + "/health", timeout=5) as reply:  # noqa: S310
            return dict(json.load(reply))

    def end(self, sign: signal.Signals = signal.SIGTERM, seconds: float = 20) -> int:
        """Send the signal; the exit status, which must come within that time."""
        self.process.send_signal(sign)
        return self.process.wait(seconds)


@contextmanager
def serving(
    home: Path, *arguments: str, program: Sequence[str] = SERVER, **env: str
) -> Iterator[Served]:
    """A server on a free port, unless `arguments` name one, until the block is left."""
    port = () if "--port" in arguments else ("--port", "0")
    command = [sys.executable, *program, *port, *arguments]
    with _stderr(home).open("wb") as stderr:
        process = subprocess.Popen(command, env=environment(home, env), stderr=stderr, cwd=home)
    try:
        yield Served(_await_url(home, process), home, process)
    finally:
        process.kill()
        process.wait()


def run(home: Path, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """A server that is expected to leave by itself, after it has left."""
    return subprocess.run(
        [sys.executable, *SERVER, *arguments],
        env=environment(home, env),
        capture_output=True,
        encoding="utf-8",
        cwd=home,
        timeout=START_SECONDS,
        check=False,
    )


def environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """No setting of the machine's own, and no model: these tests are about the server."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MN")}
    return {
        **own,
        "HOME": str(home),
        "MNELO_HOME": str(home),
        "MNELO_MEMORY_LANG": "en",
        "MNELO_MEMORY_EMBEDDER_MODEL": "none",
        **extra,
    }


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stderr(home: Path) -> Path:
    return home / "stderr.txt"


def _await_url(home: Path, process: "subprocess.Popen[bytes]") -> str:
    """The URL of the ready line; raises AssertionError with what was said instead of it."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        said = _stderr(home).read_text("utf-8")
        if found := re.search(r"🟢 MCP server ready: (http://\S+)/(?:sse|mcp) ", said):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {said}")
