"""The benchmark of the served product: what it tells and what it leaves behind; no times."""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import benchmark
import benchmark_serve
from config import ROOT

FEW = ("--serve", "--chunks", "30", "--queries", "3")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made; nothing may be left in it."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    yield made
    assert list(made.iterdir()) == []


def report(tmp_path: Path, *options: str) -> dict[str, Any]:
    assert benchmark.main([*FEW, *options, "--json", str(tmp_path / "report.json")]) == 0
    return dict(json.loads((tmp_path / "report.json").read_text("utf-8")))


@pytest.mark.long
def test_a_model_is_asked_through_the_server_and_in_process(tmp_path: Path, folder: Path) -> None:
    told = report(tmp_path, "--embedder", "use")
    assert set(told) == {
        *("config", "seed_time_s", "ingest", "ready_s", "first_ms", "way_ms"),
        *("uncached", "kept", "embedding", "in_process"),
    }
    assert told["config"]["model"] == "universal-sentence-encoder-multilingual-3"
    assert told["config"]["dim"] == 512
    for way in benchmark_serve.ROWS:
        assert told[way]["empty_count"] == 0
        assert 0 < told[way]["p50_ms"] <= told[way]["p95_ms"] <= told[way]["p99_ms"]


def test_without_a_model_nothing_is_embedded(
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What is set outside, a token for one, is not for the server that is measured.
    monkeypatch.setenv("MNELO_AUTH_TOKEN", "another")
    monkeypatch.setenv("MNELO_MEMORY_LIMITS_TOP_K", "1")
    told = report(tmp_path, "--embedder", "none", "--top-k", "101")
    assert "embedding" not in told
    assert told["config"]["dim"] == 0
    printed = capsys.readouterr().out
    assert printed.startswith("30 memories, 3 questions, top 101, model none.\n")
    for row in ("uncached", "kept", "in_process"):
        assert f"\n| {row} " in printed


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to catch")
def test_a_signal_leaves_neither_a_server_nor_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "benchmark.py"), *FEW, "--embedder", "none"]
    with subprocess.Popen(
        [*command, "--queries", "5000"],
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:
        port = awaited_port(tmp_path)
        process.terminate()
        assert process.wait(30) == 143
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def awaited_port(folder: Path) -> int:
    """The port of the server that the benchmark has started."""
    end = time.monotonic() + 40
    while time.monotonic() < end:
        for said in folder.glob("*/server.log"):
            if found := benchmark_serve.ADDRESS.search(said.read_text("utf-8")):
                return int(found[0].removesuffix("/sse").rpartition(":")[2])
        time.sleep(0.05)
    raise AssertionError("no server was started")
