"""The file: made once however many open it, refused by name when it is not ours."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest

from config import ROOT, Config
from core import timestamps
from core.errors import NotFound, StoreBusy, StoreError
from core.types import NewChunk, NewRelation, Scope, new_chunk_id
from crash_worker import look
from hash_embedder import HashEmbedder
from inside import look_for_faults, sqlite_of
from memories import Open
from memory import Memory
from serving import processes
from store.sqlite import migrations, schema_check
from store.sqlite.store import SqliteStore


def schema(path: Path) -> list[tuple[str, str]]:
    db = apsw.Connection(str(path))
    try:
        return list(db.execute("SELECT name, sql FROM sqlite_master ORDER BY name"))
    finally:
        db.close()


# --- Opening ---------------------------------------------------------------------------


def test_a_new_file_has_every_table_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "memory.db"
    SqliteStore(path).close()
    names = {name for name, _ in schema(path)}
    assert {"chunks", "entities", "relations", "recall_log", "meta", "postings", "audit"} <= names
    assert path.stat().st_mode & 0o777 == 0o600


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    SqliteStore(path).close()
    before = path.read_bytes()
    SqliteStore(path).close()
    assert path.read_bytes() == before


def _text(path: Path) -> None:
    path.write_text("dear diary, " * 500)


def _foreign(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES ('x')")
    db.close()


def _newer(path: Path) -> None:
    SqliteStore(path).close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()


def _cut(path: Path) -> None:
    SqliteStore(path).close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def _scribbled(path: Path) -> None:
    SqliteStore(path).close()
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = os.urandom(64)
    path.write_bytes(content)


def _stub(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_text, "is not a mnelo memory"),
        (_foreign, "is not a mnelo memory"),
        (_newer, "written by a newer mnelo"),
        (_cut, "is damaged"),
        (_scribbled, "is damaged"),
        (_stub, "is damaged"),
        (lambda path: path.mkdir(), "is a folder"),
    ],
)
def test_what_is_not_ours_is_refused_by_name_and_left_as_it_was(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "memory.db"
    make(path)
    before = None if path.is_dir() else path.read_bytes()
    with pytest.raises(StoreError, match=said) as refusal:
        SqliteStore(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert before is None or path.read_bytes() == before


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path / "file" / "memory.db")


def test_an_empty_file_becomes_a_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch()
    SqliteStore(path).close()
    assert len(schema(path)) > 20


def _open_and_write(path: Path, start: float, number: int) -> None:
    time.sleep(max(0.0, start - time.time()))
    memory = SqliteStore(path, busy_seconds=30)
    memory.put_chunks([NewChunk(f"note {number}", "t", "s", 0.5, None)], "test")
    memory.close()


def test_several_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    context = processes()
    start = time.time() + 0.5
    workers = [
        context.Process(target=_open_and_write, args=(path, start, number)) for number in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 6
    opened = SqliteStore(path)
    with opened.view() as view:
        assert view.counts()["chunks"]["active"] == 6
    opened.close()


KILLED = """
import os, signal, sys
import apsw
sys.path.insert(0, sys.argv[2])
from store.sqlite.store import SqliteStore
from pathlib import Path
steps = 0
def trace(cursor, sql, bindings):
    global steps
    steps += 1
    if steps == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return True
apsw.connection_hooks.append(lambda db: db.set_exec_trace(trace))
SqliteStore(Path(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("step", [3, 9, 15, 25, 40])
def test_a_kill_while_the_file_is_made_blocks_nothing(tmp_path: Path, step: int) -> None:
    path = tmp_path / "memory.db"
    done = subprocess.run([sys.executable, "-c", KILLED, path, ROOT, str(step)], check=False)
    assert done.returncode == -signal.SIGKILL
    SqliteStore(path).close()
    fresh = tmp_path / "fresh.db"
    SqliteStore(fresh).close()
    assert schema(path) == schema(fresh)


# --- Migrations ------------------------------------------------------------------------


def _add_colour(db: apsw.Connection) -> None:
    db.execute("ALTER TABLE chunks ADD COLUMN colour TEXT")


def _fail(db: apsw.Connection) -> None:
    db.execute("CREATE TABLE half_done (x)")
    raise RuntimeError("the step failed")


def test_an_older_file_is_brought_up_to_date_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    old = SqliteStore(path)
    old.put_chunks([NewChunk("kept", "t", "s", 0.5, None)], "test")
    old.close()
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, _add_colour))
    monkeypatch.setattr(schema_check, "refuse_strange", lambda *given, **how: None)
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", migrations.SCHEMA_VERSION + 1)
    SqliteStore(path).close()
    db = apsw.Connection(str(path))
    assert list(db.execute("SELECT content, colour FROM chunks")) == [("kept", None)]
    assert db.pragma("user_version") == migrations.SCHEMA_VERSION
    db.close()


def test_a_step_that_fails_leaves_neither_its_table_nor_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    SqliteStore(path).close()
    before = schema(path)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, _fail))
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", (version := migrations.SCHEMA_VERSION) + 1)
    with pytest.raises(RuntimeError, match="the step failed"):
        SqliteStore(path)
    assert schema(path) == before
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == version
    db.close()


# --- Writing beside others -------------------------------------------------------------


def test_a_writer_that_is_held_up_says_so_and_goes_on_afterwards(open_memory: Open) -> None:
    memory = open_memory(database_busy_seconds=0.2)
    memory.remember("before")
    other = apsw.Connection(str(memory.path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=r"did not finish within 0\.2 s"):
        memory.remember("meanwhile")
    assert memory.recall("before")["hits"], "readers are not held up"
    other.execute("ROLLBACK")
    other.close()
    memory.remember("after")
    assert memory.stats()["chunks"]["active"] == 2


def test_another_process_sees_a_memory_on_its_next_call(open_memory: Open) -> None:
    first, second = open_memory(model=HashEmbedder()), open_memory(model=HashEmbedder())
    first.remember("the red boat")
    for strategy in ("vector_only", "meta_only"):
        assert second.recall("red boat", strategy=strategy)["hits"]
    second.forget(second.recall("red boat")["hits"][0]["chunk_id"])
    assert first.recall("red boat")["hits"] == []


def test_full_synchronous_is_what_the_setting_says(open_memory: Open) -> None:
    for setting, number in (("NORMAL", 1), ("FULL", 2)):
        memory = open_memory(database_synchronous=setting)
        assert sqlite_of(memory)._db.pragma("synchronous") == number
        memory.close()


def _make_ids(now: str) -> list[str]:
    return [new_chunk_id(now) for _ in range(2500)]


def test_ids_of_many_processes_differ_even_in_the_same_millisecond() -> None:
    with processes().Pool(4) as pool:
        made = pool.map(_make_ids, [timestamps.now()] * 4)
    assert len({each for ids in made for each in ids}) == 10_000


# --- Terms -----------------------------------------------------------------------------


def _terms(path: Path) -> list[set[str]]:
    """The terms that the file says each chunk has."""
    numbers = dict(look(path, "SELECT id, term FROM terms"))
    rows = look(path, "SELECT terms FROM postings ORDER BY chunk_seq")
    return [{numbers[at] for at in np.frombuffer(row[0], "<u4").tolist()} for row in rows]


def _note(content: str, *relations: NewRelation) -> NewChunk:
    return NewChunk(content, "manual", "default", 0.5, None, relations=relations)


def test_what_was_rolled_back_leaves_no_term_behind(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    memory = SqliteStore(path)
    unfounded = NewRelation("a", "b", "r", evidence_chunk_id=new_chunk_id(timestamps.now()))
    with pytest.raises(NotFound):
        memory.put_chunks([_note("red boat"), _note("boat tea", unfounded)], "test")
    memory.put_chunks([_note("tea boat"), _note("blue boat")], "test")
    assert _terms(path) == [{"tea", "boat"}, {"blue", "boat"}]
    memory.close()


def test_two_that_have_a_file_open_agree_on_its_terms(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    one, other = SqliteStore(path), SqliteStore(path)
    for store_in, text in ((one, "red boat"), (other, "red tea"), (one, "tea cup"), (other, "cup")):
        store_in.put_chunks([_note(text)], "test")
    assert _terms(path) == [{"red", "boat"}, {"red", "tea"}, {"tea", "cup"}, {"cup"}]
    assert not any(one.upkeep.check()[0].values())
    one.close()
    other.close()


def test_a_later_version_that_gets_a_tag_keeps_the_place_of_the_first(open_memory: Open) -> None:
    memory = open_memory(model=None)
    first = memory.remember("the gate code is 4711")["chunk_id"]
    memory.update(first, new_content="the gate code is 4712")
    again = memory.remember("the gate code is 4712", tags=["house"])
    assert again["status"] == "exists"
    assert look(memory.path, "SELECT chunk_seq, place FROM postings") == [(1, 1), (2, 1)]


# --- Upkeep ----------------------------------------------------------------------------


def test_repair_mends_vectors_that_are_out_of_step(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder())
    ids = [memory.remember(f"note {number}")["chunk_id"] for number in range(4)]
    memory.forget(ids[3])
    db = sqlite_of(memory)._db
    blob = np.ones(64, np.float32).tobytes()
    db.execute("INSERT INTO vectors (rowid, embedding, live) VALUES (900, ?, 1)", (blob,))
    db.execute("DELETE FROM vectors WHERE rowid = 2")
    db.execute("UPDATE vectors SET live = 1 WHERE rowid = 4")
    found = {"orphans": 1, "windows": 1, "marks": 1, "unmarked": 1}
    assert memory.store.upkeep.repair_vectors(dry_run=True) == found
    assert memory.store.upkeep.repair_vectors(dry_run=True) == found, "a dry run mends nothing"
    assert memory.store.upkeep.repair_vectors(dry_run=False) == found
    assert sum(memory.store.upkeep.repair_vectors(dry_run=True).values()) == 0
    assert memory.fill_pending() == 1
    hits = memory.recall("note", strategy="vector_only")["hits"]
    assert {hit["chunk_id"] for hit in hits} == set(ids[:3])


def test_every_live_memory_has_a_vector_or_waits_for_one(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder())
    ids = [memory.remember(f"note {number}")["chunk_id"] for number in range(6)]
    memory.update(ids[0], new_content="changed")
    memory.update(ids[1], new_importance=0.9)
    memory.forget(ids[2])
    sql = """
        SELECT count(*) FROM chunks c WHERE valid_until IS NULL AND pending = 0
        AND NOT EXISTS (SELECT 1 FROM windows w JOIN vectors v ON v.rowid = w.seq
                        WHERE w.chunk_seq = c.seq AND v.live = 1)
    """
    assert list(sqlite_of(memory)._db.execute(sql)) == [(0,)]
    assert memory.stats()["vectors"] == 5


def test_a_scope_without_conditions_is_current() -> None:
    assert Scope().current
    assert not Scope(tag="x").current
    assert Scope(tag="x").only_chunks
    assert not Scope(asof="2026", kind="stock").only_chunks


def test_the_settings_reach_the_store(tmp_path: Path) -> None:
    config = Config.load({}, embedder_model="none", database_busy_seconds=1.5)
    with Memory(tmp_path / "m.db", config=config) as memory:
        assert sqlite_of(memory)._busy_ms == 1500


def test_a_sound_file_has_no_fault_and_each_kind_of_damage_is_counted(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder())
    ids = [memory.remember(f"note {n}", entities=["team"])["chunk_id"] for n in range(6)]
    memory.update(ids[0], new_content="changed")
    memory.forget(ids[1])
    sound = look_for_faults(memory)
    assert len(sound) > 15
    assert sum(sound.values()) == 0
    db = sqlite_of(memory)._db
    damage = {
        "not in postings": "DELETE FROM postings WHERE chunk_seq = 3",
        "wrongly in closed_trigrams": "INSERT INTO closed_trigrams (rowid, text) VALUES (4, 'x')",
        "marks": "UPDATE vectors SET live = 1 - live WHERE rowid = 5",
        "mentions of nobody": "INSERT INTO mentions VALUES ('ghost', 3, 'found')",
        "backward validity": "UPDATE entities SET valid_until = '1999' WHERE id = 'team'",
        "lost next version": "UPDATE chunks SET superseded_by = 'gone' WHERE seq = 6",
    }
    for fault, statement in damage.items():
        db.execute(statement)
        assert look_for_faults(memory)[fault] == 1, fault


def test_a_memory_does_not_wait_behind_the_log_of_recalls(open_memory: Open) -> None:
    memory = open_memory(database_busy_seconds=2.0)
    memory.remember("before")
    other = apsw.Connection(str(memory.path))
    other.execute("BEGIN IMMEDIATE")
    memory.recall("before")  # its log waits for the other program now
    for _ in range(30):
        assert not sqlite_of(memory)._write_lock.locked()
        time.sleep(0.01)
    other.execute("ROLLBACK")
    other.close()
    assert memory.stats()["recall_24h"]["count"] == 1
