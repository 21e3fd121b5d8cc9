"""Entries in all that is done with a file: erased, purged, undone, mended, carried over."""

from pathlib import Path
from typing import Any

import apsw
import pytest

import erase
from admin import doctor, reembedding
from config import Config
from core.errors import InvalidInput
from crash_worker import look
from exports import exported, lines, taken_in, written
from hash_embedder import HashEmbedder
from inside import look_for_faults
from memories import Open, traces
from memory import Memory
from moments import moment, never
from serving import free_port
from timeline.timeline import Timeline
from transfer import records

OF_ENTRIES = ("timeline", "contexts", "merged_vectors", "timeline_groups")
SECRET: dict[str, Any] = {
    "summary": "The zanquibar code is bramblewick",
    "tags": ["zanquibar", "quillwort", "code", "door", "cellar"],
    "category": "knowledge",
    "context_text": "the ξψωφ was hidden by the quillwort",
}
KEPT: dict[str, Any] = {
    "summary": "A ferry leaves Riga at nine",
    "tags": ["ferry", "Riga", "door", "cellar", "timetable"],
    "category": "other",
    "context_text": "line\n\0break\n\n" + "and more of it. " * 200,
}


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    """Two entries, of which one is a secret, beside a memory that is none."""
    opened = open_memory(model=HashEmbedder(), timeline_group_k=2, timeline_group_threshold=0)
    opened.remember("the kettle is in the attic")
    for each in (SECRET, KEPT):
        opened.timeline().write(each)
    opened.timeline().rebuild_groups()
    return opened


def rows_of(path: Path, table: str) -> list[int]:
    sql = f"SELECT DISTINCT chunk_seq FROM {table} ORDER BY 1"  # noqa: S608
    return [row[0] for row in look(path, sql)]


def faults(memory: Memory) -> dict[str, int]:
    return {name: count for name, count in look_for_faults(memory).items() if count}


def id_of(timeline: Timeline, summary: str) -> str:
    results = timeline.query(summary, top_k=1, score_threshold=0)["results"]
    return str(results[0]["timeline_id"])


def everything(timeline: Timeline) -> list[tuple[object, ...]]:
    """What every entry says, without what is made of it."""
    with timeline._store.view() as view:
        return [
            (
                row.id,
                row.summary,
                row.tags,
                row.category,
                row.expires_at,
                *view.entries.segments(row.seq, -1, 0),
            )
            for row in view.entries.at(range(1, 50))
        ]


# --- Erased and purged -----------------------------------------------------------------


def test_an_entry_that_was_erased_leaves_no_row_and_no_byte(memory: Memory) -> None:
    timeline = memory.timeline()
    chosen = id_of(timeline, SECRET["summary"])
    new = memory.update(chosen, new_content="The zanquibar code is velvetleaf")["new_chunk_id"]
    pieces = ["zanquibar", "bramblewick", "quillwort", "ξψω"]
    assert all(traces(memory.path, piece) for piece in pieces)
    assert erase.main(["--db", str(memory.path), "--chunk", new, "--yes"]) == 0
    assert traces(memory.path, *pieces) == []
    assert [rows_of(memory.path, table) for table in OF_ENTRIES] == [[3]] * 4
    found = timeline.query("zanquibar code bramblewick", score_threshold=0)["results"]
    assert "zanquibar" not in str(found)
    assert id_of(timeline, KEPT["summary"])
    assert faults(memory) == {}


def test_a_purge_takes_all_that_is_of_a_closed_entry(memory: Memory) -> None:
    chosen = id_of(memory.timeline(), SECRET["summary"])
    memory.forget(chosen)
    assert rows_of(memory.path, "timeline") == [2, 3], "history stays until then"
    assert memory.store.upkeep.purge(moment(), never) == 1
    assert [rows_of(memory.path, table) for table in OF_ENTRIES] == [[3]] * 4
    assert faults(memory) == {}


# --- Undone ----------------------------------------------------------------------------


def test_an_update_that_is_undone_leaves_the_entry_as_it_was(memory: Memory) -> None:
    timeline = memory.timeline()
    before = everything(timeline)
    memory.update(id_of(timeline, KEPT["summary"]), new_content="A ferry leaves Oslo at ten")
    assert everything(timeline) != before
    memory.undo(memory.history(limit=1)[0]["audit_id"])
    assert everything(timeline) == before
    assert faults(memory) == {}
    assert id_of(timeline, KEPT["summary"])


def test_what_was_added_to_a_context_stands_in_the_way_of_an_undo(memory: Memory) -> None:
    """It would be lost with the version that it was added to."""
    timeline = memory.timeline()
    new = memory.update(id_of(timeline, KEPT["summary"]), new_content="A ferry leaves Oslo")
    (record,) = memory.history(limit=1)
    timeline.write_context(new["new_chunk_id"], "and back at night")
    with pytest.raises(InvalidInput, match="context"):
        memory.undo(record["audit_id"])
    assert "and back at night" in str(everything(timeline))


# --- Mended ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO timeline VALUES (999, 'other', NULL)",
        "INSERT INTO contexts VALUES (1, 0, 'of no entry')",
        "INSERT INTO merged_vectors VALUES (999, 'x', x'00')",
        "INSERT INTO timeline_groups VALUES ('group_x', 999)",
    ],
)
def test_the_doctor_finds_and_removes_rows_of_no_entry(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    before = everything(memory.timeline())
    db = apsw.Connection(str(memory.path))
    db.execute(statement)
    db.close()
    assert told(memory.path) == {"rows"}
    assert told(memory.path, fix=True) == told(memory.path) == set()
    assert everything(memory.timeline()) == before
    assert faults(memory) == {}


def told(path: Path, *, fix: bool = False) -> set[str]:
    config, broken = doctor.settings(str(path))
    found = doctor.examine(config, broken, fix=fix).findings
    return {each.name for each in found if each.name not in ("mode", "log", "stopped")}


# --- Another model ---------------------------------------------------------------------


def test_with_another_model_entries_are_merged_anew(memory: Memory, open_memory: Open) -> None:
    other = HashEmbedder(dim=32, name="test/other")
    config = Config.load(database_path=str(memory.path))
    reembedding.run(config, reembedding.plan(config, other))
    after = open_memory(model=other).timeline()
    assert after.status()["pending"] == 2
    (best, *_) = after.query(KEPT["summary"], score_threshold=0)["results"]
    assert best["summary"] == KEPT["summary"]
    cosines = other.passages([KEPT["summary"], *KEPT["tags"]]) @ other.query(KEPT["summary"])
    assert best["cosine"] == pytest.approx(float(cosines.mean()), abs=1e-4)
    assert after.status()["pending"] == 0


# --- Carried over ----------------------------------------------------------------------


def test_an_export_has_entries_and_an_import_gives_the_same(memory: Memory, tmp_path: Path) -> None:
    timeline = memory.timeline()
    timeline.write(KEPT | {"summary": "A boat leaves soon", "is_time_sensitive": True})
    memory.forget(id_of(timeline, SECRET["summary"]))
    first = exported(memory.path)
    (kept,) = [each for each in lines(first) if each.get("content") == KEPT["summary"]]
    assert "".join(kept["entry"]["context"]) == KEPT["context_text"]
    assert (kept["entry"]["category"], kept["entry"]["expires_at"]) == ("other", None)
    assert taken_in(first, tmp_path / "new.db").problems == []
    assert exported(tmp_path / "new.db") == first
    with Memory(tmp_path / "new.db", load_model=lambda _: HashEmbedder()) as other:
        other.wait_for_model(10)
        assert everything(other.timeline()) == everything(timeline)
        assert other.recall("break", strategy="meta_only")["hits"]
        assert faults(other) == {}
    older = [{k: v for k, v in each.items() if k != "entry"} for each in lines(first)]
    assert taken_in(written(older), tmp_path / "older.db").problems == []
    assert rows_of(tmp_path / "older.db", "timeline") == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "entry.category"),
        ({"category": "other", "expires_at": "soon"}, "entry.expires_at"),
        ({"category": "other", "context": "text"}, "entry.context"),
        ({"category": "other", "tags": []}, "tags"),
        ("other", "entry"),
    ],
)
def test_an_entry_that_cannot_be_is_one_line(wrong: object, said: str) -> None:
    at = "2026-07-01T02:03:04.567Z"
    record = {"id": "chunk_20260701T020304567Z_0123456789ab", "content": "four"}
    record |= dict.fromkeys(("timestamp", "created_at", "valid_from"), at)
    good = records.read_record("chunk", {**record, "entry": {"category": "other"}})
    assert good["entry"] == {"category": "other", "expires_at": None, "context": []}
    with pytest.raises(InvalidInput, match=said) as caught:
        records.read_record("chunk", {**record, "entry": wrong})
    assert "\n" not in str(caught.value)


def test_a_secret_in_a_context_is_taken_out_on_the_way_in(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.timeline().write(KEPT | {"context_text": "my password: Blau7Fuchs!"})
    given = exported(memory.path)
    monkeypatch.setenv("MNELO_MEMORY_GUARD_MODE", "redact")
    taken_in(given, tmp_path / "new.db")
    assert "Blau7Fuchs" in str(look(memory.path, "SELECT text FROM contexts"))
    assert "Blau7Fuchs" not in str(look(tmp_path / "new.db", "SELECT text FROM contexts"))
