"""Memories that were written without a model get their vectors."""

from pathlib import Path

import pytest

import repair_vectors
from config import Config
from memory import Memory


def test_repair_gives_vectors_to_what_was_written_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    path = tmp_path / "m.db"
    with Memory(path) as memory:
        memory.remember_many([{"content": f"note {number}"} for number in range(3)])
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "offline")
    assert repair_vectors.main(["--dry-run", "--db", str(path)]) == 0
    assert "3 memories wait" in capsys.readouterr().out
    with Memory(path, config=Config.load(embedder_model="none")) as memory:
        assert memory.stats()["vectors"] == 0, "a dry run changes nothing"
    assert repair_vectors.main(["--db", str(path)]) == 0
    assert "3 memories got their vectors." in capsys.readouterr().out
    assert repair_vectors.main(["--db", str(path)]) == 0
    assert "0 memories got their vectors." in capsys.readouterr().out


def test_repair_without_a_model_fails_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    path = tmp_path / "m.db"
    with Memory(path) as memory:
        memory.remember("note")
    assert repair_vectors.main(["--db", str(path)]) == 1
    assert "Vectors are off" in capsys.readouterr().err
