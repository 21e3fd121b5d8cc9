"""Upkeep: the file is whole when nobody writes, the logs are bounded, and one process does it."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from core.errors import StoreError
from hash_embedder import HashEmbedder
from inside import sqlite_of
from irregular import IRREGULAR, state
from memories import Open
from memory import Memory
from moments import eventually
from store.sqlite import database
from upkeep.keeper import AGAIN_SECONDS, PURGE_SECONDS, Keeper


def wal_bytes(memory: Memory) -> int:
    return int(sqlite_of(memory).sizes()["wal_bytes"])


def test_a_plain_copy_is_complete_once_nobody_has_written_for_a_while(
    open_memory: Open, tmp_path: Path
) -> None:
    memory = open_memory(model=HashEmbedder(), keeper_idle_seconds=0.2)
    memory.keep()
    for number in range(50):
        memory.remember(f"note {number}", entities=["team"])
    assert wal_bytes(memory) > 0
    assert eventually(lambda: wal_bytes(memory) == 0)
    copy = tmp_path / "copy" / "memory.db"
    copy.parent.mkdir()
    shutil.copyfile(memory.path, copy)
    assert eventually(lambda: "checkpoint" in memory.stats()["upkeep"])
    restored = open_memory(model=HashEmbedder(), path=copy)
    assert restored.stats()["chunks"]["active"] == restored.stats()["vectors"] == 50


def test_the_log_goes_into_the_file_when_it_stops(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(keeper_idle_seconds=3600)
    memory.keep()
    beside = open_memory()  # a second user, so that closing alone would leave the log
    memory.remember("the last word")
    memory.close()
    assert wal_bytes(beside) == 0


def test_logs_keep_to_their_bounds(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(keeper_interval_seconds=1, keeper_log_rows=5, keeper_audit_rows=7)
    for number in range(30):
        memory.remember(f"note {number}")
        memory.recall(f"note {number}")
    memory.stats()
    memory.keep()

    def rows() -> tuple[int, int]:
        db = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            ((count,),) = db.execute("SELECT count(*) FROM recall_log")
            ((audit,),) = db.execute("SELECT count(*) FROM audit")
            return count, audit
        finally:
            db.close()

    assert eventually(lambda: rows() == (5, 7))
    assert memory.stats()["recall_24h"]["count"] == 5
    assert eventually(lambda: {"trim", "optimize"} <= set(memory.stats()["upkeep"]))
    assert not (tmp_path / "home" / "backups").exists(), "backups are made where they are asked for"


def test_one_process_at_a_time_keeps_the_file_and_another_takes_over(open_memory: Open) -> None:
    first, second = open_memory(), open_memory()
    first.keep()
    assert eventually(lambda: bool(first.stats()["upkeep"]["keeping"]))
    second.keep()
    time.sleep(1.2)
    assert not second.stats()["upkeep"]["keeping"]
    first.close()
    assert eventually(lambda: bool(second.stats()["upkeep"]["keeping"]))


def test_a_log_stays_as_long_as_somebody_has_just_written(open_memory: Open) -> None:
    """Each new write begins the wait anew; only then is the log brought into the file."""
    memory = open_memory(keeper_idle_seconds=10, keeper_interval_seconds=86_400)
    keeper, now = Keeper(memory.store, memory.config), time.monotonic()
    for seconds in (0, 9, 18):
        memory.remember(f"note {seconds}")
        keeper._tick(now + seconds)
        keeper._tick(now + seconds + 8.9)
        assert wal_bytes(memory) > 0
    keeper._tick(now + 18 + 10)
    assert wal_bytes(memory) == 0


def test_a_purge_that_failed_is_tried_again_the_same_day(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(keeper_purge_days=1, keeper_interval_seconds=1)
    tried: list[str] = []

    def purge(before: str, breathe: object) -> None:
        tried.append(before)
        if len(tried) == 1:
            raise StoreError("store.damaged", path=memory.path, error="-")

    monkeypatch.setattr(memory.store.upkeep, "purge", purge)
    keeper, now = Keeper(memory.store, memory.config), time.monotonic() + 100
    keeper._tick(now)
    assert "purge" in keeper.report()["failed"]  # type: ignore[operator]
    for seconds, times in (
        *((AGAIN_SECONDS - 2, 1), (AGAIN_SECONDS, 2), (2 * AGAIN_SECONDS, 2)),
        *((AGAIN_SECONDS + PURGE_SECONDS - 2, 2), (AGAIN_SECONDS + PURGE_SECONDS, 3)),
    ):
        keeper._tick(now + seconds)
        assert len(tried) == times
    assert "failed" not in keeper.report()


@pytest.mark.skipif(sys.platform == "win32", reason="neither modes nor pipes")
@pytest.mark.parametrize("irregular", IRREGULAR)
def test_a_keeper_whose_lock_is_no_file_says_so_and_touches_nothing(
    irregular: Callable[[Path], None], open_memory: Open, caplog: pytest.LogCaptureFixture
) -> None:
    memory = open_memory()
    lock = memory.path.with_name("memory.db.keeper")
    irregular(lock)
    before = state(lock)
    memory.keep()
    assert eventually(lambda: "lock" in memory.stats()["upkeep"].get("failed", {}))
    assert not memory.stats()["upkeep"]["keeping"]
    assert "not a regular file" in caplog.text
    assert [each for each in state(lock) if "-wal" not in each[0] and "-shm" not in each[0]] == [
        each for each in before if "-wal" not in each[0] and "-shm" not in each[0]
    ]


def test_a_memory_that_nobody_keeps_says_so(memory: Memory) -> None:
    assert memory.stats()["upkeep"] == {"keeping": False}


def test_a_checkpoint_gives_way_to_a_reader(open_memory: Open) -> None:
    memory = open_memory()
    memory.remember("note")
    reader = apsw.Connection(str(memory.path))
    reader.execute("BEGIN")
    list(reader.execute("SELECT count(*) FROM chunks"))
    memory.remember("another")
    assert sqlite_of(memory).checkpoint() is False
    memory.remember("and another")
    reader.execute("ROLLBACK")
    reader.close()
    assert sqlite_of(memory).checkpoint() is True
    assert wal_bytes(memory) == 0


def test_the_log_stays_bounded_while_readers_never_pause(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LARGE_LOG", 1 << 20)
    memory = open_memory(keeper_idle_seconds=3600)
    memory.keep()
    memory.remember("kettle")
    reading = threading.Event()
    reading.set()

    def read() -> None:
        while reading.is_set():
            memory.recall("kettle")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(6):
        memory.remember(f"{number} " + " ".join(f"w{number}x{n}" for n in range(7000)))
    bounded = eventually(lambda: wal_bytes(memory) <= 1 << 20)
    reading.clear()
    for reader in readers:
        reader.join()
    assert bounded


def test_the_log_stays_bounded_after_many_writes_without_any_upkeep(wordless: Memory) -> None:
    sizes = []
    for number in range(600):
        wordless.remember(f"note {number} " * 40)
        sizes.append(wal_bytes(wordless))
    written = sizes[49] / 50 * len(sizes)
    assert max(sizes) < written / 3, "the log goes into the file again and again"
    assert max(sizes) < 16 << 20


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_log_stays_bounded_after_20000_single_writes(wordless: Memory) -> None:
    for number in range(20_000):
        wordless.remember(f"note {number} " * 20)
        if number % 100 == 0:
            assert wal_bytes(wordless) <= 16 << 20


def test_tuning_gives_way_to_who_is_writing_without_a_word(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a busy server once said that another program did not finish within 30 s."""

    class Busy:
        def pragma(self, name: str) -> None:
            raise apsw.BusyError("database is locked")

    @contextmanager
    def keeping() -> Iterator[Busy]:
        yield Busy()

    monkeypatch.setattr(sqlite_of(memory), "keeping", keeping)
    assert memory.store.upkeep.optimize() is False
