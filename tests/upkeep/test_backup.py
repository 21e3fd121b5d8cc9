"""Backups and the way back: what was acknowledged is in one of them, at every moment."""

import gzip
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

import backup_db
import crash_worker
import restore_db
from config import ROOT, Config
from core.errors import BackupError, MneloError, StoreBusy, StoreError
from crash_worker import look, open_file
from inside import look_for_faults
from memories import Open
from memory import Memory
from mnelo_client import MneloClient
from moments import eventually
from serving import free_port, serving
from store.sqlite import copies, migrations, statements
from unprivileged import not_root
from upkeep import backup
from upkeep.backup import Backup
from upkeep.keeper import AGAIN_SECONDS, Keeper

NAME = re.compile(r"memory-\d{8}T\d{6}Z(-\d+)?\.db(\.gz)?")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home that scripts find, with a port at which no server is."""
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def write(path: Path, *texts: str) -> None:
    with open_file(path) as memory:
        memory.remember_many([{"content": text, "entities": ["team"]} for text in texts])


def texts(path: Path) -> set[str]:
    """The live texts of a file that is sound, as a program that opens it finds them."""
    with open_file(path) as memory:
        assert not any(look_for_faults(memory).values()), look_for_faults(memory)
        live = look(path, "SELECT content FROM chunks WHERE valid_until IS NULL")
    return {row[0] for row in live}


def plain(file: Path, to: Path) -> Path:
    """What a backup holds, compressed or not, as a file of its own."""
    to.parent.mkdir(exist_ok=True)
    to.write_bytes(
        gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    )
    return to


def make(path: Path, folder: Path, *, compress: bool = False, keep: int = 7) -> Backup:
    return backup.make(path, folder, compress=compress, keep=keep)[0]


def names(folder: Path) -> list[str]:
    """All that is in a folder but its lock."""
    return sorted(each.name for each in folder.iterdir() if each.name != ".backup.lock")


def one_line(said: str) -> str:
    assert said.count("\n") == 1, said
    return said.strip()


# --- While others write ----------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_documented_ways_have_all_that_the_running_server_acknowledged(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = {f"note {number}" for number in range(50)}
    settings = {"KEEPER_IDLE_SECONDS": "0.3", "KEEPER_INTERVAL_SECONDS": "1"}
    settings |= {"BACKUP_EVERY_HOURS": "1", "BACKUP_FOLDER": str(home / "by itself")}
    with (
        serving(
            home, **{f"MNELO_MEMORY_{key}": value for key, value in settings.items()}
        ) as served,
        MneloClient(served.url + "/sse") as client,
    ):
        for note in notes:
            client.remember(note)
        assert backup_db.main(["--json"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert made["memories"] == 50
        assert texts(plain(Path(made["file"]), tmp_path / "a" / "memory.db")) == notes
        # A plain copy, as soon as the statistics say that the one file is the whole memory.
        assert eventually(lambda: bool(client.stats()["db"]["whole"]))
        shutil.copyfile(home / "memory.db", tmp_path / "plain.db")
        assert texts(tmp_path / "plain.db") == notes
        assert eventually(lambda: client.stats()["backup"]["last"] is not None)
        assert client.stats()["backup"]["last"] in names(home / "by itself")
        _assert_restore_is_refused(home, served.process.pid, served.port, capsys, monkeypatch)
        client.remember("after the backup")
        client.close()
        served.end()
    assert restore_db.main(["latest"]) == 0
    kept = re.search(r"What was there before is (.*)\.\n", capsys.readouterr().out)
    assert texts(home / "memory.db") == notes
    assert kept is not None
    assert texts(Path(kept[1])) == notes | {"after the backup"}


def _assert_restore_is_refused(
    home: Path,
    pid: int,
    port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its name where it can be asked, by the keeper's lock, and by SQLite's alone."""
    before = (home / "memory.db").stat()
    assert restore_db.main(["latest"]) == 1
    assert f"Another program has {home / 'memory.db'} open" in one_line(capsys.readouterr().err)
    with monkeypatch.context() as patch:
        patch.setenv("MNELO_MEMORY_SERVER_PORT", str(port))
        assert restore_db.main(["latest"]) == 1
    assert f"(process {pid}) has {home / 'memory.db'} open" in one_line(capsys.readouterr().err)
    (home / "memory.db.keeper").rename(home / "elsewhere")
    assert restore_db.main(["latest"]) == 1
    assert f"Another program has {home / 'memory.db'} open" in one_line(capsys.readouterr().err)
    after = (home / "memory.db").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not [name for name in names(home) if "restore" in name]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no forkserver")
def test_backups_while_four_processes_write_are_sound_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    open_file(path).close()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["crash_worker"])
    journals = [tmp_path / f"{number}.jsonl" for number in range(4)]
    writers = [
        context.Process(target=crash_worker.write, args=(path, journal, seed))
        for seed, journal in enumerate(journals)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        for writer in writers:
            writer.start()
    try:
        assert eventually(lambda: all(len(_acknowledged([each])) > 5 for each in journals))
        for compress in (False, True, False):
            known = _acknowledged(journals)
            made = make(path, tmp_path / "backups", compress=compress)
            copy = plain(made.path, tmp_path / "copies" / f"{made.path.name}.db")
            assert known <= {row[0] for row in look(copy, "SELECT id FROM chunks")}
            texts(copy)
    finally:
        for writer in writers:
            writer.kill()
            writer.join()


def _acknowledged(journals: list[Path]) -> set[str]:
    """The ids of all memories that the writers were told are stored."""
    lines = [
        json.loads(line)
        for journal in journals
        if journal.exists()
        for line in journal.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]
    results = [line["result"] for line in lines if "result" in line]
    flat = [
        each for result in results for each in (result if isinstance(result, list) else [result])
    ]
    return {each["chunk_id"] for each in flat if isinstance(each, dict) and "chunk_id" in each}


# --- Making them -----------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
def test_a_backup_is_private_read_back_and_has_the_model_and_its_vectors(
    memory: Memory, tmp_path: Path, compress: bool
) -> None:
    memory.remember_many([{"content": f"note {number}"} for number in range(20)])
    made, counts = backup.make(memory.path, tmp_path / "b", compress=compress, keep=7)
    assert NAME.fullmatch(made.path.name)
    assert made.path.suffix == (".gz" if compress else ".db")
    assert (made.bytes, backup.latest(tmp_path / "b", "memory")) == (
        made.path.stat().st_size,
        made,
    )
    assert abs(datetime.now(timezone.utc) - made.taken) < timedelta(minutes=10)
    assert backup.verify(made.path) == counts
    assert (counts.memories, counts.closed, counts.schema) == (20, 0, migrations.SCHEMA_VERSION)
    with open_file(plain(made.path, tmp_path / "c" / "memory.db")) as copy:
        assert copy.stats()["vectors"] == 20
        assert copy.recall("note 7")["hits"][0]["content"] == "note 7"
    assert names(tmp_path / "b") == [made.path.name]
    if sys.platform != "win32":
        assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
        assert made.path.stat().st_mode & 0o777 == 0o600


def test_the_newest_stay_and_nothing_else_is_touched(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    memory.remember("note")
    others = [
        *("memory-old.db", "other-20200101T000000Z.db", "memory-20200101T000000Z.db.bak"),
        *("memory-20209901T000000Z.db", ".memory-x.db.part", "notes.txt"),
        ".other-20200101T000000Z.db.part",
    ]
    for name in (*others, "memory-20200101T000000Z.db", "memory-20200102T000000Z.db.gz"):
        (folder / name).write_text(name)
    (folder / ".memory-20200101T000000Z.db.part").write_text("left by a run that was killed")
    (folder / "memory-20200103T000000Z.db").mkdir()
    made = [make(memory.path, folder, keep=3).path.name for _ in range(2)]
    expected = [*others, *made, "memory-20200102T000000Z.db.gz", "memory-20200103T000000Z.db"]
    assert names(folder) == sorted(expected)
    assert all((folder / name).read_text() == name for name in others)
    made += [make(memory.path, folder, keep=3, compress=True).path.name for _ in range(5)]
    assert len(set(made)) == 7, "none ever takes another's name"
    assert [each.path.name for each in backup.all_in(folder, "memory")] == made[-3:]


def test_a_clock_that_was_ahead_costs_no_new_backup(memory: Memory, tmp_path: Path) -> None:
    memory.remember("note")
    for year in (2190, 2191):
        shutil.copyfile(
            make(memory.path, tmp_path).path, tmp_path / f"memory-{year}0101T000000Z.db"
        )
    assert not backup.is_due(tmp_path, "memory", 1)
    made = make(memory.path, tmp_path, keep=1)
    assert [each.path for each in backup.all_in(tmp_path, "memory")] == [made.path]


def test_a_file_of_an_older_schema_is_backed_up_as_it_is_and_brought_up_to_date_by_restoring(
    home: Path,
) -> None:
    path = home / "memory.db"
    db = apsw.Connection(str(path))
    db.execute((ROOT / "tests" / "support" / "schema_1.sql").read_text("utf-8"))
    db.pragma("application_id", statements.APPLICATION_ID)
    db.pragma("user_version", 1)
    db.close()
    made, counts = backup.make(path, home / "backups", compress=False, keep=7)
    assert counts.schema == 1
    assert look(path, "SELECT user_version FROM pragma_user_version") == [(1,)]
    path.unlink()
    backup.restore(made.path, Config.load())
    assert look(path, "SELECT user_version FROM pragma_user_version") == [
        (migrations.SCHEMA_VERSION,)
    ]


def test_whenever_it_is_told_to_stop_nothing_is_left_and_the_last_one_stays(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "BATCH_PAGES", 20)
    monkeypatch.setattr(backup, "BLOCK", 1 << 16)
    memory.remember_many([{"content": f"note {number} " * 50} for number in range(100)])
    last = make(memory.path, tmp_path / "b")
    asked = 0
    while True:
        asked += 1
        left = iter(range(asked))
        try:
            backup.make(
                memory.path,
                tmp_path / "b",
                compress=True,
                keep=1,
                stop=lambda left=left: next(left, None) is None,  # type: ignore[misc]
            )
            break
        except MneloError as error:
            assert error.msg_id == "backup.stopped"  # noqa: PT017
        assert names(tmp_path / "b") == [last.path.name]
    assert asked > 20
    assert len(names(tmp_path / "b")) == 1


def test_a_full_disk_leaves_the_last_backup_and_nothing_half_made(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("note")
    last = make(memory.path, tmp_path / "b")
    target = copies._target

    def full(path: Path) -> apsw.Connection:
        db = target(path)
        db.pragma("max_page_count", 10)
        return db

    monkeypatch.setattr(copies, "_target", full)
    with pytest.raises(BackupError) as caught:
        make(memory.path, tmp_path / "b", keep=1)
    assert str(caught.value) == (
        f"No backup was made in {tmp_path / 'b'}: No space left on device."
        " Earlier ones are untouched."
    )
    assert names(tmp_path / "b") == [last.path.name]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "{0}/file"], "{0}/file is no folder; backups need one."),
        (["--to", "{0}/file/b"], "No backup was made in {0}/file/b: Not a directory. Earlier"),
        (["--db", "{0}/none.db"], "There is no database {0}/none.db to back up."),
        (["--db", "{0}/file"], "{0}/file is not a mnelo memory."),
        (["--db", "{0}"], "{0} cannot be opened: "),
        (["--db", "{0}/foreign.db"], "{0}/foreign.db is not a mnelo memory."),
        (["--db", "{0}/newer.db"], "{0}/newer.db was written by a newer mnelo"),
        (["--db", "{0}/empty.db"], "{0}/empty.db is not a mnelo memory."),
        (["--keep", "0"], "Setting backup.keep is '0'; allowed: "),
    ],
)
def test_what_cannot_be_backed_up_is_refused_in_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    write(home / "memory.db", "note")
    _strange_files(home)
    before = {each: each.read_bytes() for each in home.iterdir()}
    assert backup_db.main([each.format(home) for each in arguments]) == 1
    assert one_line(capsys.readouterr().err).startswith(said.format(home))
    assert {each: each.read_bytes() for each in home.iterdir() if each.is_file()} == before
    assert not (home / "backups").exists() or not names(home / "backups")


def _strange_files(home: Path) -> None:
    """What somebody may take for a memory or a backup."""
    (home / "file").write_text("dear diary " * 100)
    (home / "empty.db").write_bytes(b"")
    db = apsw.Connection(str(home / "foreign.db"))
    db.execute("CREATE TABLE chunks (valid_until)")
    db.close()
    shutil.copyfile(home / "memory.db", home / "newer.db")
    db = apsw.Connection(str(home / "newer.db"))
    db.pragma("user_version", migrations.SCHEMA_VERSION + 1)
    db.close()


def test_a_damaged_database_is_said_to_be_so_and_costs_no_backup(home: Path) -> None:
    path = home / "memory.db"
    write(path, *(f"note {number}" for number in range(50)))
    last = make(path, home / "backups")
    content = path.read_bytes()
    path.write_bytes(content[:8192] + bytes(4096) + content[12288:])
    with pytest.raises(StoreError, match=f"{re.escape(str(path))} is damaged"):
        make(path, home / "backups", keep=1)
    assert names(home / "backups") == [last.path.name]


@pytest.fixture
def guarded() -> Iterator[Path]:
    """A home whose database and folder may only be read, also where tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="mnelo-test-"))
    write(folder / "memory.db", "note")
    (folder / "memory.db").chmod(0o444)
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    folder.chmod(0o555)
    with not_root():
        yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter")
def test_what_may_only_be_read_is_backed_up_to_where_one_may_write(guarded: Path) -> None:
    path = guarded / "memory.db"
    with pytest.raises(BackupError) as caught:
        make(path, guarded / "backups")
    assert str(caught.value) == (
        f"No backup was made in {guarded / 'backups'}: Permission denied."
        " Earlier ones are untouched."
    )
    assert backup.verify(make(path, guarded / "open").path).memories == 1
    assert sorted(each.name for each in guarded.iterdir()) == ["memory.db", "open"]


# --- The keeper ------------------------------------------------------------------------


def test_one_is_made_when_the_newest_is_too_old_and_else_not(
    open_memory: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "home" / "backups"
    memory = open_memory(backup_every_hours=1, backup_compress=True, backup_keep=2)
    memory.remember("note")
    state = {"folder": str(folder), "last": None, "taken": None, "age_s": None, "every_hours": 1.0}
    assert memory.stats()["backup"] == state
    keeper, now = Keeper(memory.store, memory.config), time.monotonic()
    keeper._tick(now + 100)
    (first,) = names(folder)
    assert "backup" in keeper.report()
    state = memory.stats()["backup"]
    assert state["last"] == first
    assert 0 <= state["age_s"] < 60
    keeper._tick(now + 200)
    assert names(folder) == [first], "it is young enough"
    (folder / first).rename(folder / "memory-20200101T000000Z.db.gz")
    keeper._tick(now + 300)
    assert len(names(folder)) == 2


def test_a_backup_that_fails_is_told_in_one_line_and_not_tried_at_once_again(
    open_memory: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "file"
    folder.write_text("no folder")
    memory = open_memory(backup_every_hours=1, backup_folder=str(folder))
    keeper, now = Keeper(memory.store, memory.config), time.monotonic()
    said = f"{folder} is no folder; backups need one."
    for seconds in (100, 200, 300):
        keeper._tick(now + seconds)
        assert keeper.report()["failed"] == {"backup": said}
    assert caplog.messages == [f"backup: {said}"]
    folder.unlink()
    keeper._tick(now + 100 + AGAIN_SECONDS)
    assert "failed" not in keeper.report()
    assert len(names(folder)) == 1


def test_a_server_that_ends_breaks_a_backup_off_and_leaves_nothing_of_it(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "BATCH_PAGES", 1)
    copying = threading.Event()
    make = backup.make

    def slowly(*arguments: Any, stop: Callable[[], bool], **more: Any) -> object:
        def wait() -> bool:
            copying.set()
            time.sleep(0.05)
            return stop()

        return make(*arguments, stop=wait, **more)

    monkeypatch.setattr(backup, "make", slowly)
    memory = open_memory(keeper_interval_seconds=1, backup_every_hours=1)
    memory.remember_many([{"content": f"note {number} " * 99} for number in range(100)])
    memory.keep()
    assert copying.wait(20)
    memory.close()
    assert not names(tmp_path / "home" / "backups")
    assert wal_bytes_beside(memory.path) == 0, "and the log went into the file all the same"


def wal_bytes_beside(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


# --- The way back ----------------------------------------------------------------------


def test_a_restore_brings_back_what_was_and_keeps_what_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "memory.db"
    write(path, "first")
    assert backup_db.main(["--compress"]) == 0
    write(path, "second")
    made = backup.latest(home / "backups", "memory")
    assert made is not None
    for wanted in ("latest", made.path.name, str(made.path)):
        assert restore_db.main([wanted, "--check"]) == 0
        assert "1 memories" in one_line(capsys.readouterr().out.splitlines(keepends=True)[-1])
        assert restore_db.main([wanted]) == 0
        assert texts(path) == {"first"}
    kept = sorted(home.glob("memory.db.before-restore-*"))
    assert [texts(each) for each in kept] == [{"first", "second"}, {"first"}, {"first"}]
    if sys.platform != "win32":
        assert {each.stat().st_mode & 0o777 for each in (path, *kept)} == {0o600}
    assert restore_db.main([str(kept[0])]) == 0, "a restore can be taken back"
    assert texts(path) == {"first", "second"}


def test_a_restore_makes_the_file_where_there_is_none_and_loses_no_log_of_a_lost_one(
    home: Path, tmp_path: Path
) -> None:
    path = home / "deeper" / "memory.db"
    write(tmp_path / "memory.db", "first")
    made = make(tmp_path / "memory.db", tmp_path / "b")
    config = Config.load(database_path=str(path))
    assert backup.restore(made.path, config).kept is None
    assert texts(path) == {"first"}
    path.unlink()
    just_begun = apsw.Connection(str(path))
    just_begun.pragma("journal_mode", "wal")
    just_begun.close()
    assert path.stat().st_size
    backup.restore(made.path, config)
    assert texts(path) == {"first"}
    path.unlink()
    path.with_name("memory.db-wal").write_bytes(b"who knows")
    done = backup.restore(made.path, config)
    assert done.kept is not None
    assert done.kept.with_name(done.kept.name + "-wal").read_bytes() == b"who knows"
    assert texts(path) == {"first"}


def live(path: Path, to: Path) -> None:
    """Write to a file and take it away with its log, as a kill would leave both."""
    with open_file(path) as memory:
        memory.remember("in the log")
        for end in ("", "-wal"):
            shutil.copyfile(path.with_name(path.name + end), to.with_name(to.name + end))


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without"])
def test_the_log_of_a_server_that_was_killed_goes_into_what_is_kept(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", _no_links)
    write(tmp_path / "memory.db", "first")
    made = make(tmp_path / "memory.db", home / "backups")
    live(tmp_path / "memory.db", home / "memory.db")
    done = backup.restore(made.path, Config.load())
    assert texts(home / "memory.db") == {"first"}
    assert done.kept is not None
    assert set(names(home)) - {"memory.db.keeper"} == {"backups", "memory.db", done.kept.name}
    assert texts(done.kept) == {"first", "in the log"}


def _no_links(self: Path, target: object) -> None:
    raise OSError(95, "Operation not supported")


def test_a_damaged_file_is_kept_with_its_log_under_one_name(home: Path, tmp_path: Path) -> None:
    path = home / "memory.db"
    write(tmp_path / "memory.db", "first")
    made = make(tmp_path / "memory.db", home / "backups")
    live(tmp_path / "memory.db", path)
    sound, log = path.read_bytes(), (home / "memory.db-wal").read_bytes()
    path.write_bytes(b"x" * 4096 + sound[4096:])
    done = backup.restore(made.path, Config.load())
    assert texts(path) == {"first"}
    assert done.kept is not None
    assert done.kept.read_bytes() == b"x" * 4096 + sound[4096:]
    assert done.kept.with_name(done.kept.name + "-wal").read_bytes() == log
    with pytest.raises(BackupError, match=r"Beside .* lies a log with a part of its content"):
        backup.restore(done.kept, Config.load())
    done.kept.write_bytes(sound)
    assert texts(done.kept) == {"first", "in the log"}


def broken(good: bytes) -> dict[str, tuple[bytes, str]]:
    """Files that must not be restored, and what is said of them."""
    packed = gzip.compress(good)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    hole = good[:8192] + bytes(4096) + good[12288:]
    return {
        "cut.db": (good[: len(good) // 2], "is damaged"),
        "hole.db": (hole, "is damaged"),
        "cut.db.gz": (packed[:-20], "is damaged"),
        "flipped.db.gz": (bytes(flipped), "is damaged"),
        "text.db": (b"dear diary " * 500, "is not a mnelo memory"),
        "text.db.gz": (gzip.compress(b"dear diary " * 500), "is not a mnelo memory"),
        "nothing.db": (b"", "is not a mnelo memory"),
        "empty.db.gz": (gzip.compress(b""), "is not a mnelo memory"),
    }


def test_what_is_no_whole_backup_is_refused_and_nothing_changes(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "memory.db"
    write(path, "first", *(f"note {number}" for number in range(50)))
    files = broken(path.read_bytes())
    for name, (content, _) in files.items():
        (home / name).write_bytes(content)
    _strange_files(home)
    said = {name: reason for name, (_, reason) in files.items()} | {
        "foreign.db": "is not a mnelo memory",
        "newer.db": "was written by a newer mnelo",
        "memory.db": "is the database itself",
    }
    before, stood = {each: each.read_bytes() for each in home.iterdir()}, path.stat().st_ino
    for name, reason in said.items():
        for more in ([], ["--check"] if name != "memory.db" else []):
            assert restore_db.main([str(home / name), *more]) == 1
            assert f"{home / name} {reason}" in one_line(capsys.readouterr().err)
    for wanted in ("latest", "none.db", "", "~nobody-of-that-name/x", "a\0b"):
        assert restore_db.main([wanted]) == 1
        assert "There is no backup" in one_line(capsys.readouterr().err)
    left = {each: each.read_bytes() for each in home.iterdir() if each.suffix != ".keeper"}
    assert left == before
    assert path.stat().st_ino == stood


def test_a_foreign_database_in_the_place_is_not_replaced(home: Path, tmp_path: Path) -> None:
    write(tmp_path / "memory.db", "first")
    made = make(tmp_path / "memory.db", tmp_path / "b")
    write(home / "memory.db", "note")
    _strange_files(home)
    (home / "foreign.db").replace(home / "memory.db")
    before = (home / "memory.db").read_bytes()
    with pytest.raises(StoreError, match="is not a mnelo memory"):
        backup.restore(made.path, Config.load())
    assert (home / "memory.db").read_bytes() == before


def test_no_idle_reader_is_overlooked(home: Path) -> None:
    path = home / "memory.db"
    write(path, "first")
    made = make(path, home / "backups")
    reader = "import sys, apsw; db = apsw.Connection(sys.argv[1], apsw.SQLITE_OPEN_READONLY); "
    reader += "print(*db.execute('SELECT count(*) FROM chunks'), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", reader, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"(1,)\n"
        with pytest.raises(StoreBusy, match="Another program has"):
            backup.restore(made.path, Config.load())
        process.communicate()
    assert backup.restore(made.path, Config.load()).counts.memories == 1


def test_who_waited_for_the_old_file_cannot_write_beside_the_new_one(home: Path) -> None:
    path = home / "memory.db"
    write(path, "first")
    made = make(path, home / "backups")
    late = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)  # holds no lock yet
    backup.restore(made.path, Config.load())
    with pytest.raises(apsw.ReadOnlyError):
        late.pragma("journal_mode", "wal")
    late.close()
    assert texts(path) == {"first"}


# --- Kills -----------------------------------------------------------------------------

_KILLED = """
import json, os, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from upkeep import backup; from store.sqlite import copies
from config import Config

FILES = {backup.__file__, copies.__file__}

def work(job):
    config = Config.load({"MNELO_HOME": job["home"]}, server_port=job["port"])
    if job["do"] == "make":
        backup.make(config.database_path, config.backup_folder, compress=job["pack"], keep=2)
    else:
        backup.restore(backup.find("latest", config.backup_folder, "memory"), config)

def child(job):
    steps, within = 0, []
    def trace(frame, event, value):
        nonlocal steps
        if frame.f_code.co_filename not in FILES:
            return None
        steps += 1
        if frame.f_code.co_name == "_swap":
            within.append(steps)
        if steps == job["at"]:
            os.kill(os.getpid(), 9)
        return trace
    sys.settrace(trace)
    work(job)
    sys.settrace(None)
    return {"steps": steps, "first": within[0] if within else 1, "last": (within or [steps])[-1]}

for line in sys.stdin:
    job, (read, write) = json.loads(line), os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, json.dumps(child(job)).encode())
        os._exit(0)
    if job["after"]:
        time.sleep(job["after"])
        os.kill(pid, 9)
    status = os.waitpid(pid, 0)[1]
    os.close(write)
    print(json.dumps({"killed": status == 9, **json.loads(os.read(read, 99) or "{}")}), flush=True)
    os.close(read)
"""


@dataclass
class Killer:
    """Runs a backup or a restore in a process that dies before a step, or after a time."""

    process: "subprocess.Popen[str]"
    port: int

    def run(self, home: Path, do: str, *, at: int = 0, after: float = 0) -> dict[str, int]:
        job = {"home": str(home), "do": do, "at": at, "after": after, "port": self.port}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({**job, "pack": at % 2 == 1}) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    command = [sys.executable, "-c", _KILLED, str(ROOT)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        yield Killer(process, free_port())


EARLY = {f"early {number}" for number in range(30)}
LATE = EARLY | {"in the log"}


@pytest.fixture(scope="module")
def killed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a backup, and a database that has more, some of it in its log."""
    folder = tmp_path_factory.mktemp("kills")
    (folder / "home").mkdir()
    write(folder / "memory.db", *EARLY)
    made = make(folder / "memory.db", folder / "home" / "backups")
    made.path.rename(made.path.with_name("memory-20200101T000000Z.db"))
    live(folder / "memory.db", folder / "home" / "memory.db")
    return folder / "home"


def kill_at_random(
    killer: Killer,
    killed_home: Path,
    tmp_path: Path,
    do: str,
    kills: int,
    judge: Callable[..., None],
) -> int:
    """As many kills, each in a home of its own; how many came in time.

    One of three before any step, one while the file is being replaced, one by time.
    """
    random, killed = Random(f"{do} {kills}"), 0  # noqa: S311
    shutil.copytree(killed_home, tmp_path / "whole")
    began = time.monotonic()
    whole = killer.run(tmp_path / "whole", do)
    took = time.monotonic() - began
    assert whole["steps"] > 100
    for number in range(kills):
        home = tmp_path / f"{number}"
        shutil.copytree(killed_home, home)
        moments: list[dict[str, Any]] = [
            {"at": random.randint(1, whole["steps"])},
            {"at": random.randint(whole["first"], whole["last"])},
            {"after": random.uniform(0, took)},
        ]
        killed += killer.run(home, do, **moments[number % 3])["killed"]
        judge(killer, home)
    return killed


def judge_backup(killer: Killer, home: Path) -> None:
    """The database has all, each backup is whole, the last good one stays, a new run succeeds."""
    for each in backup.all_in(home / "backups", "memory"):
        assert backup.verify(each.path).memories in (len(EARLY), len(LATE))
    assert "memory-20200101T000000Z.db" in names(home / "backups")
    assert not killer.run(home, "make")["killed"]
    assert texts(home / "memory.db") == LATE
    last = backup.latest(home / "backups", "memory")
    assert last is not None
    assert texts(plain(last.path, home / "copy" / "memory.db")) == LATE
    assert all(NAME.fullmatch(name) for name in names(home / "backups"))
    assert len(names(home / "backups")) == 2


def judge_restore(killer: Killer, home: Path) -> None:
    """A database is there, old or new; what the old one had is there or kept, after a rerun too."""
    assert (home / "memory.db").stat().st_size
    copy = shutil.copytree(home, home.with_name(f"{home.name} opened"))
    found = texts(copy / "memory.db")
    assert found in (EARLY, LATE)
    assert found == LATE or LATE in map(texts, kept_in(copy))
    assert not killer.run(home, "restore")["killed"]
    assert texts(home / "memory.db") == EARLY
    assert LATE in map(texts, kept_in(home))
    assert set(names(home)) - {"backups", "memory.db", "memory.db.keeper"} == {
        each.name for each in kept_in(home)
    }


def kept_in(home: Path) -> list[Path]:
    return sorted(home.glob("memory.db.before-restore-*Z")) + sorted(
        home.glob("memory.db.before-restore-*Z-?")
    )


JUDGES = {"make": judge_backup, "restore": judge_restore}
kills = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")


@kills
@pytest.mark.parametrize("do", JUDGES)
def test_kills_at_random_moments_lose_nothing(
    killer: Killer, killed_home: Path, tmp_path: Path, do: str
) -> None:
    assert kill_at_random(killer, killed_home, tmp_path, do, 6, JUDGES[do]) > 2


@kills
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("do", JUDGES)
def test_many_kills_at_random_moments_lose_nothing(
    killer: Killer, killed_home: Path, tmp_path: Path, do: str, show: Callable[[object], None]
) -> None:
    killed = kill_at_random(killer, killed_home, tmp_path, do, 60, JUDGES[do])
    show(f"60 runs of {do}, {killed} killed before they were done: nothing lost")
