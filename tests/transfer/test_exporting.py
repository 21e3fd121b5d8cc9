"""Where an export is written: into a regular file, or through a pipe or a device, else nowhere."""

import json
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import export_db
from config import Config
from irregular import IRREGULAR, pipe, state
from memory import Memory

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="neither pipes nor devices")


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    config = Config.load()
    with Memory(config=config) as memory:
        memory.remember("the kettle is in the attic")
    return config.database_path


def texts(exported: str) -> list[str]:
    records = [json.loads(line) for line in exported.splitlines()]
    return [each["content"] for each in records if each["type"] == "chunk"]


@pytest.mark.parametrize("irregular", [each for each in IRREGULAR if each is not pipe])
def test_an_export_replaces_no_link_and_no_folder(
    irregular: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out" / "export.jsonl"
    target.parent.mkdir()
    irregular(target)
    before = state(target)
    assert export_db.main(["--to", str(target)]) == 1
    assert "not a regular file" in capsys.readouterr().err
    assert state(target) == before


def test_an_export_goes_through_a_pipe_which_stays(tmp_path: Path) -> None:
    target = tmp_path / "pipe"
    os.mkfifo(target)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(target.read_text("utf-8")), daemon=True)
    reader.start()
    assert export_db.main(["--to", str(target)]) == 0
    reader.join(20)
    assert texts(read[0]) == ["the kettle is in the attic"]
    assert stat.S_ISFIFO(target.lstat().st_mode)


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_a_device_is_written_to_and_stays_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    devices = {name: os.lstat(name) for name in ("/dev/null", "/dev/full")}
    assert export_db.main(["--to", "/dev/null"]) == 0
    assert export_db.main(["--to", "/dev/full"]) == 1
    assert "No space left" in capsys.readouterr().err
    for name, before in devices.items():
        now = os.lstat(name)
        assert (now.st_mode, now.st_rdev, now.st_ino) == (
            before.st_mode,
            before.st_rdev,
            before.st_ino,
        )


@pytest.mark.parametrize("side", ["", "-wal", "-shm"])
def test_an_export_replaces_neither_the_database_nor_its_log(
    side: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Memory(database) as memory:
        memory.remember("in the log")
        place = database.with_name(database.name + side)
        before = place.stat().st_ino
        assert export_db.main(["--to", str(place)]) == 1
        assert "is the database itself" in capsys.readouterr().err
        assert place.stat().st_ino == before


def test_a_regular_file_gives_way_and_is_private(tmp_path: Path) -> None:
    target = tmp_path / "export.jsonl"
    target.write_text("older")
    target.chmod(0o666)
    assert export_db.main(["--to", str(target)]) == 0
    assert texts(target.read_text("utf-8")) == ["the kettle is in the attic"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
