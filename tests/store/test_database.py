"""A file from anywhere: it is refused by name, and nothing that it says is done."""

import os
import re
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from config import ROOT
from core.errors import StoreError
from hash_embedder import HashEmbedder
from inside import look_for_faults, sqlite_of, view_of
from memories import Open, sound
from memory import Memory
from store.opening import inspect
from store.sqlite import copies, hardening
from store.sqlite.file_check import is_log_lost
from store.sqlite.statements import APPLICATION_ID
from store.sqlite.store import SqliteStore


def test_no_connection_of_a_memory_reaches_another_file(open_memory: Open, tmp_path: Path) -> None:
    store = sqlite_of(open_memory())
    sql = f"ATTACH '{tmp_path / 'other.db'}' AS other"
    with store.write_connection() as db, pytest.raises(apsw.SQLError, match="too many attached"):
        db.execute(sql)
    with store.reader() as db, pytest.raises(apsw.SQLError, match="too many attached"):
        db.execute(sql)
    with store.keeping() as db, pytest.raises(apsw.SQLError, match="too many attached"):
        db.execute(sql)


def _change(memory: Memory, sql: str) -> None:
    with sqlite_of(memory).transaction() as db:
        db.execute(sql)


TIMES = {
    "chunks": "UPDATE chunks SET {0} = replace({0}, ':', '>') WHERE seq = 7",
    "relations": "UPDATE relations SET {0} = '2026-02-30T00:00:00.000Z' WHERE id = 7",
}


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *[("chunks", name) for name in ("timestamp", "valid_from")],
        ("relations", "valid_from"),
    ],
)
def test_a_time_that_is_none_ends_no_process_and_its_row_is_named(
    open_memory: Open, table: str, column: str
) -> None:
    """Of more than 500 texts NumPy ends the process over one that is no time."""
    memory = open_memory()
    memory.remember_many([{"content": f"The kettle sang at {n} sharp"} for n in range(520)])
    for number in range(520):
        memory.relate(f"kettle {number}", "kitchen", "in")
    _change(memory, TIMES[table].format(column))
    again = open_memory()
    with pytest.raises(StoreError, match=f"Row 7 of the table {table} has"):
        again.recall("kettle")
    faults = {name: count for name, count in look_for_faults(again).items() if count}
    assert faults == {f"no time in {table} (row 7)": 1}


def test_a_text_that_is_not_the_one_that_was_stored_is_noticed(open_memory: Open) -> None:
    memory = open_memory()
    for text in ("the first of May", "the second of May"):
        memory.remember(text)
    _change(memory, "UPDATE chunks SET content = 'the third of May' WHERE seq = 2")
    faults = {name: count for name, count in look_for_faults(memory).items() if count}
    assert faults == {"changed texts (row 2)": 1}


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE postings SET terms = x'ffffffff', weights = x'02'",
        "UPDATE postings SET terms = x'ff', weights = x'0202'",
        "UPDATE postings SET terms = x'ff'",
        "UPDATE postings SET flags = 300",
        "UPDATE postings SET flags = -1, place = -9223372036854775808",
        "UPDATE meta SET value = '99999999999999' WHERE key = 'embedding_dim'",
        "UPDATE meta SET value = '-1' WHERE key = 'embedding_dim'",
        "UPDATE meta SET value = 'wide' WHERE key = 'embedding_dim'",
        "UPDATE windows SET chunk_seq = 9223372036854775807 WHERE seq = 1",
        "DELETE FROM meta WHERE key = 'embedding_dim'",
        "DELETE FROM meta WHERE key = 'embedding_model'",
        "DELETE FROM meta WHERE key = 'embedding_unrelated'",
    ],
)
def test_no_number_of_the_file_asks_for_memory_or_ends_in_a_traceback(
    open_memory: Open, sql: str
) -> None:
    memory = open_memory(model=HashEmbedder())
    for number in range(3):
        memory.remember(f"The kettle sang at {number}")
    with sqlite_of(memory).write_connection() as db:
        db.pragma("foreign_keys", False)
    _change(memory, sql)
    with suppress(StoreError):  # a sentence is as good as an answer
        again = open_memory(model=HashEmbedder())
        again.recall("kettle")
        again.stats()


@pytest.mark.parametrize("seq", [3_000_000_000, 1 << 48, 1 << 62])
def test_a_file_with_a_huge_number_is_answered_in_little_memory(
    open_memory: Open, seq: int
) -> None:
    memory = open_memory(model=HashEmbedder())
    memory.remember("The first kettle", entities=["kettle"])
    with sqlite_of(memory).transaction() as db:
        for table in ("chunks", "relations", "entities"):
            db.execute("INSERT OR REPLACE INTO sqlite_sequence VALUES (?, ?)", (table, seq))
    tracemalloc.start()
    for text in ("The second kettle", "The third kettle"):
        memory.remember(text, entities=["kettle"])
    memory.relate("kettle", "kitchen", "in")
    again = open_memory(model=HashEmbedder())
    for each in (memory, again):
        found = each.recall("kettle", graph_hops=1)["hits"]
        assert {"The first kettle", "The third kettle"} <= {hit.get("content") for hit in found}
        assert each.recall("kettle", asof="2099-01-01")["hits"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    memory.forget(found[0]["chunk_id"])
    assert len(again.recall("kettle")["hits"]) < len(found) + 1
    assert sound(again)


# --- What does not belong --------------------------------------------------------------

PLANTED = {
    "the trigger evil": "CREATE TRIGGER evil AFTER INSERT ON chunks BEGIN DELETE FROM tags; END",
    "the view searchable": """
        DROP VIEW searchable;
        CREATE VIEW searchable AS
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i AS seq, '' AS content, '' AS metadata FROM n
    """,
    "the trigger mention_deleted": """
        DROP TRIGGER mention_deleted;
        CREATE TRIGGER mention_deleted AFTER DELETE ON mentions BEGIN DELETE FROM chunks; END
    """,
    "the table tags": """
        DROP TABLE tags;
        CREATE TABLE tags (chunk_seq INTEGER, tag TEXT, PRIMARY KEY (chunk_seq, tag))
    """,
    "the table evil": "CREATE TABLE evil (x)",
    "the table vectors_chunks": "CREATE VIRTUAL TABLE vectors_chunks USING fts5 (x)",
    "the index evil": "CREATE INDEX evil ON chunks (upper(content))",
    "lacks chunks_pending": "DROP INDEX chunks_pending",
    "lacks entity_named": "DROP TRIGGER entity_named",
    "lacks searchable": "DROP VIEW searchable",
    "version its schema has (-5)": "PRAGMA user_version = -5",
    "version its schema has (0)": "PRAGMA user_version = 0",
}


def _planted(path: Path, sql: str) -> bytes:
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()
    return path.read_bytes()


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_not_ours_in_a_schema_is_refused_by_name_and_not_run(
    open_memory: Open, tmp_path: Path, what: str
) -> None:
    memory = open_memory()
    memory.remember("The ferry leaves at nine", tags=["ferry"])
    memory.close()
    before = _planted(memory.path, PLANTED[what])
    for opened in (open_memory, lambda: inspect(memory.path)):
        with pytest.raises(StoreError, match=re.escape(what)):
            opened()
    with pytest.raises(StoreError, match=re.escape(what)):
        copies.examine(memory.path, memory.path, lambda: False)
    assert memory.path.read_bytes() == before


@pytest.mark.parametrize("what", ["the trigger evil", "the table evil"])
def test_an_older_file_is_looked_at_before_it_is_brought_up_to_date(
    tmp_path: Path, what: str
) -> None:
    db = apsw.Connection(str(tmp_path / "memory.db"))
    db.execute((ROOT / "tests" / "support" / "schema_1.sql").read_text("utf-8"))
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("user_version", 1)
    db.close()
    before = _planted(tmp_path / "memory.db", PLANTED[what])
    with pytest.raises(StoreError, match=what):
        SqliteStore(tmp_path / "memory.db")
    content = (tmp_path / "memory.db").read_bytes()
    assert content[100:] == before[100:]  # but for the mark of the log, in the header


def test_a_file_with_two_names_is_refused_and_so_is_what_is_no_file(
    open_memory: Open, tmp_path: Path
) -> None:
    memory = open_memory()
    memory.close()
    (tmp_path / "other.db").hardlink_to(memory.path)
    for path in (memory.path, tmp_path / "other.db"):
        with pytest.raises(StoreError, match="has another name, too"):
            SqliteStore(path)
    (tmp_path / "other.db").unlink()
    SqliteStore(memory.path).close()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.db")
        with pytest.raises(StoreError, match="no regular file"):
            SqliteStore(tmp_path / "pipe.db")


def test_sqlite_3_40_knows_every_word_of_the_schema(open_memory: Open) -> None:
    """Debian 12 has that one; where a word is unknown it opens no table at all."""
    text = (ROOT / "schema.sql").read_text("utf-8")
    for newer in (
        r"group_concat\([^()]*order by",
        r"\bconcat(_ws)?\(",
        r"\b(jsonb|unistr)\w*\(",
    ):
        assert not re.search(newer, text, re.IGNORECASE)
    memory = open_memory()
    memory.remember("The ferry leaves at nine", tags=["b", "A"])
    memory.close()
    db = sqlite3.connect(memory.path)
    assert db.execute("SELECT content FROM chunks").fetchall() == [("The ferry leaves at nine",)]
    assert db.execute("SELECT metadata FROM searchable").fetchall() == [("A\nb",)]
    db.close()


def test_what_is_searched_beside_a_text_is_what_it_was(open_memory: Open) -> None:
    """Tags, then every value of the properties, then the context in its order."""
    before = """
        SELECT seq, concat_ws(
            char(10),
            (SELECT group_concat(tag, char(10)) FROM tags WHERE chunk_seq = seq),
            (SELECT group_concat(atom, char(10)) FROM json_tree(metadata_json)
                WHERE atom IS NOT NULL),
            (SELECT group_concat(text, '' ORDER BY part) FROM contexts WHERE chunk_seq = seq)
        ) FROM chunks
    """
    memory = open_memory()
    memory.remember("plain")
    memory.remember("tagged", tags=["b", "a"])
    memory.remember("empty")
    with sqlite_of(memory).transaction() as db:
        put = "UPDATE chunks SET metadata_json = ? WHERE seq = ?"
        db.execute(put, ('{"x": [1, 2.5, null, true, ""], "y": "z"}', 2))
        db.execute(put, ('{"x": ""}', 3))
        db.execute("INSERT INTO timeline VALUES (2, 'notes', NULL), (3, 'notes', NULL)")
        db.execute("INSERT INTO contexts VALUES (2, 1, 'end.'), (2, 0, 'Begin, '), (3, 0, 'x')")
        assert list(db.execute("SELECT seq, metadata FROM searchable")) == list(db.execute(before))


def test_a_view_that_became_endless_since_the_file_was_opened_ends(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardening, "MOST_TURNS", 1)
    memory = open_memory()
    memory.remember("The C++ ferry leaves at nine", tags=["x"])
    _planted(memory.path, PLANTED["the view searchable"])
    with pytest.raises(StoreError, match="cannot be used"), view_of(memory) as view:
        view.texts([1])
    with pytest.raises(StoreError, match="cannot be used"):
        memory.remember("new", tags=["x"])


# --- The log ---------------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from core.types import NewChunk
from store.sqlite.store import SqliteStore
store = SqliteStore(Path(sys.argv[2]))
for number in range(20):
    store.put_chunks([NewChunk(f"kettle {number}", "t", "s", 0.5, None)], "test")
os._exit(9)
"""


@pytest.mark.parametrize("left", [None, 0, 0.5, 1])
def test_a_log_that_is_missing_or_cut_after_a_kill_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: float | None
) -> None:
    path = tmp_path / "memory.db"
    SqliteStore(path).close()
    subprocess.run([sys.executable, "-c", KILLED, str(ROOT), str(path)], check=False)
    wal = path.with_name(path.name + "-wal")
    if left is None:
        wal.unlink()
    else:
        os.truncate(wal, int(wal.stat().st_size * left))
    lost = left != 1
    store, again = SqliteStore(path), SqliteStore(path)
    assert (store.log_lost, again.log_lost) == (lost, False)
    assert ("is missing or cut short" in caplog.text) == lost
    with store.reader() as db:
        assert (list(db.execute("SELECT count(*) FROM chunks")) == [(20,)]) != lost
    store.close()
    again.close()
    assert not is_log_lost(path)


# --- Closing ---------------------------------------------------------------------------

COUNTS = """
    WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    SELECT max(i) FROM n
"""


def test_a_memory_is_closed_though_a_thread_still_reads(open_memory: Open) -> None:
    memory = open_memory()
    reading = threading.Event()
    counted: list[object] = []

    def read() -> None:
        with sqlite_of(memory).reader() as db:
            reading.set()
            counted.extend(db.execute(COUNTS, (2_000_000,)))

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.wait(10)
    memory.close()
    thread.join()
    assert counted == [(2_000_000,)]
