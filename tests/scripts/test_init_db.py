"""A file is made, or looked at, and what is no memory is left alone."""

from pathlib import Path

import pytest

import init_db
import repair_vectors
from config import Config
from hash_embedder import HashEmbedder
from memories import Open
from memory import Memory


def test_init_db_makes_the_file_and_says_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "offline")
    assert init_db.main([]) == 0
    first = capsys.readouterr().out
    assert f"Made {tmp_path / 'home' / 'memory.db'}." in first
    assert "Schema 6: 0 memories, 0 entities, 0 relations." in first
    assert "(384 dimensions)" in first
    with Memory(config=Config.load(embedder_model="none")) as memory:
        memory.remember("the red boat", entities=["boat"])
    assert init_db.main([]) == 0
    again = capsys.readouterr().out
    assert "Found" in again
    assert "1 memories, 1 entities" in again


def test_init_db_without_a_model_says_what_still_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    assert init_db.main(["--db", str(tmp_path / "m.db")]) == 0
    assert "No embedding model" in capsys.readouterr().out


def test_init_db_may_leave_the_model_to_the_servers_first_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], open_memory: Open
) -> None:
    """A file that is made so is open to any model, though the settings ask for one."""
    path = tmp_path / "m.db"
    assert init_db.main(["--db", str(path), "--no-model"]) == 0
    assert "left alone" in capsys.readouterr().out
    memory = open_memory(model=HashEmbedder(), path=path)
    assert memory.stats()["embedder"]["state"] == "ready"
    assert memory.remember("the red boat")["embedding"] == "stored"


def test_init_db_may_be_asked_for_a_missing_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.db"
    command = ["--db", str(path), "--no-model", "--if-missing"]
    assert init_db.main(command) == 0
    before = path.stat()
    capsys.readouterr()
    assert init_db.main(command) == 0
    assert capsys.readouterr().out == ""
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_script_speaks_the_readers_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh")
    assert init_db.main(["--db", str(tmp_path / "m.db")]) == 0
    assert "已创建" in capsys.readouterr().out


@pytest.mark.parametrize("script", [init_db, repair_vectors])
def test_a_script_refuses_a_file_that_is_not_ours_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: object
) -> None:
    (tmp_path / "diary.txt").write_text("dear diary " * 100)
    assert script.main(["--db", str(tmp_path / "diary.txt")]) == 1  # type: ignore[attr-defined]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "is not a mnelo memory" in said
    assert (tmp_path / "diary.txt").read_text().startswith("dear diary")
