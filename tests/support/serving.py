"""The real server as a process of its own, for tests that talk to it."""

import json
import multiprocessing
import os
import random
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, ForkServerProcess

ROOT = Path(__file__).resolve().parents[2]
SERVER = (str(ROOT / "mcp_server.py"),)
START_SECONDS = 20
FORKS = "forkserver" in multiprocessing.get_all_start_methods()
PRELOADED = ("crash_worker", "hypothesis", "mnelo_client", "pytest", "server.server")

_STUCK = """
import sys, time
sys.path.insert(0, sys.argv.pop(1))
import mcp_server; from server import server

class Stuck(server.Memory):
    def recall(self, query):
        print("asked", file=sys.stderr, flush=True)
        time.sleep(30)

server.Memory = Stuck
raise SystemExit(mcp_server.main())
"""
STUCK = ("-c", _STUCK, str(ROOT))
"""The server with a recall that says so when it is asked, and then takes half a minute."""


# --- Processes -------------------------------------------------------------------------


class Process(Protocol):
    """What is used of subprocess.Popen."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


@cache
def processes() -> "ForkServerContext":
    """Starts a process in milliseconds: each is forked from one that has everything loaded."""
    from multiprocessing import forkserver  # not every system has it

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


def killed(path: Path, target: Callable[..., None], *arguments: str, within: float) -> None:
    """Start a process and kill it at a random moment after it has begun."""
    begun = path.with_suffix(".begun")
    begun.unlink(missing_ok=True)
    process = processes().Process(target=target, args=(str(path), *arguments))
    process.start()
    end = time.monotonic() + 30
    while not begun.exists() and process.is_alive():
        assert time.monotonic() < end
        time.sleep(0.001)
    time.sleep(random.uniform(0, within))  # noqa: S311
    process.kill()
    process.join()


class Forked:
    """A program in a process of processes(), where its libraries need not be loaded again."""

    # Starting a process asks all others whether they have ended: only one thread may at a time.
    _lock = threading.Lock()

    def __init__(self, home: Path, command: Sequence[str], env: Mapping[str, str]) -> None:
        with self._lock:
            self._process: ForkServerProcess = processes().Process(
                target=_become, args=(home, command, dict(env)), daemon=True
            )
            self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a program", timeout or 0)
            time.sleep(0.005)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become(home: Path, command: Sequence[str], env: Mapping[str, str]) -> None:
    """Do what Python does with these arguments, in that environment and in that folder."""
    os.chdir(home)
    os.environ.clear()
    os.environ.update(env)
    with _stderr(home).open("ab") as stderr:
        os.dup2(stderr.fileno(), sys.stderr.fileno())
    if command[0] == "-c":
        sys.argv = ["-c", *command[2:]]
        exec(command[1], {"__name__": "__main__"})  # noqa: S102 - our own program
    else:
        sys.argv = list(command)
        runpy.run_path(command[0], run_name="__main__")


def _started(home: Path, command: Sequence[str], env: Mapping[str, str]) -> Process:
    """The process of a program; whatever it says is in a file in its home."""
    _stderr(home).write_bytes(b"")
    if FORKS:
        return Forked(home, command, env)
    with _stderr(home).open("ab") as stderr:
        return subprocess.Popen([sys.executable, *command], env=env, stderr=stderr, cwd=home)


# --- Servers ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Served:
    """A running server; `home` is its MNELO_HOME and its HOME as well."""

    url: str
    home: Path
    process: Process

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://").rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stderr(self) -> str:
        """All that the server has said so far."""
        return _stderr(self.home).read_text("utf-8")

    def health(self, token: str = "") -> dict[str, Any]:
        """What /health answers, to those who bring the token where one is given."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        asked = urllib.request.Request(self.url + "/health", headers=bearer)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=5) as reply:  # noqa: S310
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
    process = _started(home, (*program, *port, *arguments), environment(home, env))
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
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MN", "VELLUM_"))
    }
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


def _await_url(home: Path, process: Process) -> str:
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
