"""A file from anywhere: it is refused by name, and nothing that it says is done."""

import tracemalloc
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from core.errors import StoreError
from hash_embedder import HashEmbedder
from inside import look_for_faults, sqlite_of
from memories import Open, sound
from memory import Memory


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
