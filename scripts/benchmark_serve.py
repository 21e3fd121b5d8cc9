"""What a client waits for: questions put to the real server over SSE, their embedding included.

The memories and the questions are those of benchmark_speed.py, in a throwaway file. The server
runs as a process of its own and is asked through MneloClient, one question after the other:
anew, and once more. In between each is embedded, and answered, in this process: what is left
over is the way to the server and back. Times are of the wall.
"""

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from _root import ROOT

sys.path.insert(1, str(ROOT / "api"))  # the client is one file, to be copied anywhere
import benchmark_speed as speed
from benchmark_corpus import Question
from memory import Memory
from mnelo_client import MneloClient

START_SECONDS = 60  # until the server accepts, and until its model is loaded
END_SECONDS = 10
ADDRESS = re.compile(r"http://\S+/sse")
COLUMNS = ("p50", "p95", "p99")
ROWS = {
    "uncached": "a new question over SSE",
    "kept": "the same again, its vector kept",
    "embedding": "its embedding alone, in process",
    "in_process": "answered in process, vector kept",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--chunks", default=6300, help="memories to make up", **speed.COUNT)
    parser.add_argument("--queries", default=100, help="questions to ask", **speed.COUNT)
    parser.add_argument("--top-k", default=10, help="memories per answer", **speed.COUNT)
    parser.add_argument(
        "--embedder",
        choices=speed.MODELS,
        default="offline",
        help="no model, the one that came with the installation, or the pure Python one",
    )
    parser.add_argument("--seed", type=int, default=1, help="another one makes other memories")
    parser.set_defaults(baseline=False)


def run(args: argparse.Namespace) -> speed.Report:
    """Measure, print it as a table and return the figures."""
    with _ended_by_signals(), TemporaryDirectory(prefix="mnelo-benchmark-") as folder:
        trial = speed.Trial(args, Path(folder))
        seeded = speed.stored(trial)
        with _serving(trial) as served:
            report = {"config": _conditions(trial), **seeded, **_asked(trial, served)}
    print("\n".join(_markdown(report)))
    return report


def _conditions(trial: speed.Trial) -> speed.Report:
    names = ("chunks", "queries", "top_k", "embedder", "seed")
    model = trial.model
    return {
        **{name: getattr(trial.args, name) for name in names},
        "model": model.name if model else "",
        "dim": model.dim if model else 0,
        "cpus": os.cpu_count(),
    }


# --- The server ------------------------------------------------------------------------


class Served(NamedTuple):
    """A running server, and when its process was started, by time.perf_counter."""

    url: str
    token: str
    started: float


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that no server and no folder is left behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _serving(trial: speed.Trial) -> Iterator[Served]:
    """The server on the trial's file, until the block is left, in whatever way."""
    token, said = secrets.token_hex(16), trial.folder / "server.log"
    database = str(trial.folder / "memory.db")
    command = [sys.executable, str(ROOT / "mcp_server.py"), "--port", "0", "--db", database]
    started = time.perf_counter()
    with said.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own server
            [*command, "--transport", "sse"], env=_environment(trial, token), stderr=log
        )
    try:
        yield Served(_address(process, said), token, started)
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(trial: speed.Trial, token: str) -> dict[str, str]:
    """The defaults, whatever is set outside, with what the trial's own speed.settings change."""
    config = speed.settings(trial.args, trial.folder)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("MN")},
        "MNELO_HOME": str(trial.folder),
        "MNELO_AUTH_TOKEN": token,
        "MNELO_MEMORY_EMBEDDER_MODEL": config.embedder_model,
        "MNELO_MEMORY_LIMITS_TOP_K": str(config.limits_top_k),
    }


def _address(process: "subprocess.Popen[bytes]", said: Path) -> str:
    """Where the server says that it accepts; RuntimeError with what it says instead."""
    _awaited(lambda: process.poll() is not None or ADDRESS.search(said.read_text("utf-8")))
    found = ADDRESS.search(said.read_text("utf-8"))
    if not found:
        raise RuntimeError(f"the server did not start: {said.read_text('utf-8')}")
    return found[0]


def _awaited(look: Callable[[], Any]) -> Any:
    """What `look` finds as soon as it finds anything; None after a minute."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.01)
    return None


# --- Asking ----------------------------------------------------------------------------


def _asked(trial: speed.Trial, served: Served) -> speed.Report:
    """Every question, once the server has its model and has answered some others."""
    with trial.open() as memory, MneloClient(served.url, token=served.token) as client:

        def ask(question: Question) -> list[dict[str, Any]]:
            return client.recall(question.text, top_k=trial.args.top_k)

        _await_model(trial, client)
        ready, first = time.perf_counter() - served.started, speed.Stopwatch()
        for question in trial.warm_up:
            first.time(ask, question)
            trial.answer(memory, question)
        watches = _side_by_side(trial, memory, ask)
    way = np.subtract(watches["kept"].wall, watches["in_process"].wall)
    return {
        "ready_s": round(ready, 3),
        "first_ms": round(first.wall[0], 3),
        **{name: watch.summary() for name, watch in watches.items() if watch.wall},
        "way_ms": round(float(np.median(way)), 3),
    }


def _side_by_side(
    trial: speed.Trial, memory: Memory, ask: Callable[[Question], Sequence[Any]]
) -> dict[str, speed.Stopwatch]:
    """Each question in every way in turn, so that what else the machine does slows all alike."""
    watches = {name: speed.Stopwatch() for name in ROWS}
    for question in tqdm(trial.fresh, desc="asking", unit=" questions"):
        watches["uncached"].time(ask, question)
        watches["kept"].time(ask, question)
        if trial.model:
            watches["embedding"].time(lambda each: [trial.vector(each)], question)
        trial.answer(memory, question)  # this process keeps its vector, too
        watches["in_process"].time(trial.answer, memory, question)
    return watches


def _await_model(trial: speed.Trial, client: MneloClient) -> None:
    def settled() -> str:
        state = str(client.stats()["embedder"]["state"])
        return state if state in ("ready", "off") else ""

    state = _awaited(settled)
    if trial.model and state != "ready":
        raise RuntimeError(f"the server's model is {state or 'still loading'}")


# --- The table -------------------------------------------------------------------------


def _markdown(report: speed.Report) -> Iterator[str]:
    """The report as a person reads it, in Markdown."""
    config = report["config"]
    yield (
        f"{config['chunks']} memories, {config['queries']} questions, top {config['top_k']}, "
        f"model {config['model'] or 'none'}.\n"
    )
    yield from speed.heading("ms", (*COLUMNS, ""))
    for name, about in ROWS.items():
        if name in report:
            yield speed.row(name, (*(report[name][f"{column}_ms"] for column in COLUMNS), about))
    yield (
        f"\nThe way to the server and back takes {report['way_ms']:.2f} ms. Its model was loaded "
        f"{report['ready_s']:.2f} s after the start; the first question took "
        f"{report['first_ms']:.2f} ms."
    )
