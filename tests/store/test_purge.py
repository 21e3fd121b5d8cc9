"""Purging: what was closed long enough ago is gone for good, and nothing else is."""

import threading
import time
from pathlib import Path

import pytest

import serving
from core import timestamps
from core.errors import InvalidInput
from crash_worker import look, open_file
from embedding.passages import passage
from hash_embedder import HashEmbedder
from inside import sqlite_of
from memories import Open, live, sound
from memory import Memory
from moments import moment, never
from store.sqlite import upkeep
from upkeep import keeper

OF_CHUNKS = {
    "chunks": "seq",
    "postings": "chunk_seq",
    "tags": "chunk_seq",
    "mentions": "chunk_seq",
    "evidence": "chunk_seq",
    "windows": "chunk_seq",
    "trigrams": "rowid",
    "closed_trigrams": "rowid",
}


def seqs(memory: Memory) -> dict[str, set[int]]:
    """Which chunks each table has rows of."""
    db = sqlite_of(memory).connect(reader=True)
    return {
        table: {row[0] for row in db.execute(f"SELECT {column} FROM {table}")}  # noqa: S608
        for table, column in OF_CHUNKS.items()
    }


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "BATCH_PURGED", 2)


def test_what_is_due_is_gone_from_every_table_and_what_is_not_due_stays(memory: Memory) -> None:
    due = memory.remember(
        "the due one of Anna",
        tags=["old"],
        entities=["Anna"],
        relations=[{"source_id": "Anna", "target_id": "Riga", "relation": "left"}],
    )["chunk_id"]
    kept = memory.remember("Anna is still here", entities=["Anna"])["chunk_id"]
    memory.forget(due)
    before = moment()
    late = memory.remember("forgotten, but lately")["chunk_id"]
    memory.forget(late)
    current = live(memory)
    assert (
        memory.store.upkeep.purge(before, never) == 2
    )  # the memory, and the relation it alone showed
    assert all(1 not in rows for rows in seqs(memory).values())
    assert seqs(memory)["chunks"] == {2, 3}
    assert live(memory) == current
    assert sound(memory)
    record = memory.history(target=due)
    assert {(each["target"], each["reason"], str(each["detail"])) for each in record} == {
        (due, "", "{}")
    }
    with pytest.raises(InvalidInput, match="does not hold what an undo needs"):
        memory.undo(record[0]["audit_id"])
    assert memory.store.upkeep.purge(before, never) == 0
    assert memory.show_chunk(kept)["valid_until"] is None
    assert memory.show_chunk(late)["valid_until"] is not None


def test_the_vectors_of_what_was_purged_leave_no_bytes(memory: Memory) -> None:
    words = "a vector nobody else has"
    memory.forget(memory.remember(words)["chunk_id"])
    memory.remember("another one")
    blocks = "SELECT vectors FROM vectors_vector_chunks00"
    vector = (
        HashEmbedder()
        .query(passage(words, "manual", timestamps.now(), timestamps.zone(memory.config.timezone)))
        .tobytes()
    )
    assert any(vector in row[0] for row in look(memory.path, blocks))
    memory.store.upkeep.purge(moment(), never)
    assert not any(vector in row[0] for row in look(memory.path, blocks))


def test_versions_go_oldest_first_and_a_purge_can_be_stopped_and_taken_up(memory: Memory) -> None:
    ids = [memory.remember("version 0")["chunk_id"]]
    for number in range(1, 8):
        ids.append(memory.update(ids[-1], new_content=f"version {number}")["new_chunk_id"])
    asked = 0

    def soon() -> bool:
        nonlocal asked
        asked += 1
        return asked > 8

    before = moment()
    memory.store.upkeep.purge(before, soon)
    left = sorted(seqs(memory)["chunks"])
    assert 1 < len(left) < 8
    assert left == list(range(left[0], 9)), "the oldest went first"
    assert sound(memory)
    memory.store.upkeep.purge(before, never)
    assert seqs(memory)["chunks"] == {8}
    assert sound(memory)
    shown = memory.show_chunk(ids[-1])
    assert (shown["content"], shown["older_versions"]) == ("version 7", [])
    assert memory.update(ids[-1], new_content="version 8")["supersedes"] == ids[-1]


def test_a_row_that_a_live_row_needs_stays(memory: Memory) -> None:
    linked = memory.remember("the first version")["chunk_id"]
    memory.update(linked, new_content="the second version")
    memory.forget(linked)  # with its relations
    held = memory.remember("held by a relation")["chunk_id"]
    memory.relate(held, "Anna", "is_about")
    memory.forget(held, cascade=False)
    memory.remember("Ann is Anna", entities=["Ann"])
    memory.merge_entities("Anna", "Ann")
    over = memory.relate("Anna", "Oslo", "lived_in", valid_until="2001-01-01")["relation_id"]
    memory.store.upkeep.purge(moment(), never)
    assert {row[1] for row in look(memory.path, "SELECT 1, content FROM chunks")} == {
        "held by a relation",
        "Ann is Anna",
    }
    assert look(memory.path, "SELECT 1 FROM relations WHERE id = ?", (over,))
    result = memory.remember("Ann again", entities=["Ann"])
    assert result["entities"] == ["Anna"], "who was merged leads on"
    assert sound(memory)


def test_an_entity_goes_with_its_names_and_a_live_one_loses_only_old_versions(
    memory: Memory,
) -> None:
    memory.remember("of both", entities=[{"id": "Otto", "aliases": ["Ottokar"]}, "Anna"])
    memory.remember("more", entities=[{"id": "Anna", "summary": "keeps the key"}])
    memory.forget("Otto", target_kind="entity")
    memory.store.upkeep.purge(moment(), never)
    entities = look(memory.path, "SELECT id, summary FROM entities")
    assert entities == [("Anna", "keeps the key")]
    assert not look(memory.path, "SELECT 1 FROM aliases WHERE entity_id = 'Otto'")
    assert not look(memory.path, "SELECT 1 FROM name_words WHERE key LIKE 'otto%'")
    assert not look(memory.path, "SELECT 1 FROM mentions WHERE entity_id = 'Otto'")
    assert sound(memory)


def test_a_relation_that_a_live_memory_shows_names_that_one_then(memory: Memory) -> None:
    told = [{"source_id": "Anna", "target_id": "Riga", "relation": "lives_in"}]
    first = memory.remember("Anna lives in Riga", relations=told)["chunk_id"]
    second = memory.remember("Riga is where Anna lives", relations=told)["chunk_id"]
    memory.forget(first)
    memory.store.upkeep.purge(moment(), never)
    (edge,) = memory.graph_query("Anna")["edges"]
    assert edge["evidence_chunk_id"] == second


def test_others_that_have_the_file_open_follow_and_miss_no_later_write(
    memory: Memory, open_memory: Open
) -> None:
    other = open_memory(model=HashEmbedder())
    for number in range(6):
        chunk_id = memory.remember(f"harbour note {number}", entities=["harbour"])["chunk_id"]
        if number % 2:
            memory.forget(chunk_id)

    def found(asof: str = "") -> list[str]:
        hits = other.recall("harbour note", top_k=20, asof=asof)["hits"]
        return sorted(hit["content"] for hit in hits if hit["chunk_id"].startswith("chunk_"))

    past = moment()
    assert len(found()) == len(found(past)) == 3
    memory.store.upkeep.purge(past, never)
    assert len(found()) == len(found(past)) == 3
    memory.remember("harbour note 7")
    assert "harbour note 7" in found()
    # Where not even one memory is left.
    for row in look(memory.path, "SELECT id FROM chunks"):
        memory.forget(row[0])
    assert found() == []
    memory.store.upkeep.purge(moment(), never)
    memory.remember("harbour note 8")
    assert found() == ["harbour note 8"]
    assert sound(memory)


def test_recall_of_the_past_goes_on_while_a_purge_is_half_done(memory: Memory) -> None:
    for number in range(6):
        memory.forget(memory.remember(f"quay {number}", entities=["quay"])["chunk_id"])
    memory.remember("the quay is open", entities=["quay"])
    sqlite_of(memory).snapshots._snapshots.clear()
    past, seen = moment(), []

    def between() -> bool:
        seen.append([hit["content"] for hit in memory.recall("quay", asof=past)["hits"]])
        return False

    memory.store.upkeep.purge(past, between)
    assert len(seen) > 3
    assert all("the quay is open" in contents for contents in seen)


def test_what_is_written_while_a_purge_is_half_done_is_seen_by_others(
    memory: Memory, open_memory: Open
) -> None:
    other = open_memory(model=HashEmbedder())
    memory.remember("the quay is open")
    memory.forget(memory.remember("the last change of all")["chunk_id"])
    assert len(other.recall("quay")["hits"]) == 1
    steps = []

    def between() -> bool:
        if len(look(memory.path, "SELECT 1 FROM chunks")) == 1:
            memory.remember("the quay is closed")
            steps.append([hit["content"] for hit in other.recall("quay")["hits"]])
        return False

    memory.store.upkeep.purge(moment(), between)
    assert [sorted(contents) for contents in steps] == [["the quay is closed", "the quay is open"]]


# --- The keeper ------------------------------------------------------------------------


def purging(memory: Memory) -> keeper.Keeper:
    kept = keeper.Keeper(memory.store, memory.config)
    kept._tick(time.monotonic() + 100)
    return kept


def test_nothing_is_purged_unless_it_is_asked_for(open_memory: Open) -> None:
    memory = open_memory()
    memory.forget(memory.remember("kept for ever")["chunk_id"])
    assert "purge" not in purging(memory).report()
    assert len(seqs(memory)["chunks"]) == 1


def test_the_keeper_purges_what_is_older_than_the_days_that_are_set(open_memory: Open) -> None:
    memory = open_memory(keeper_purge_days=1)
    memory.forget(memory.remember("of the day before")["chunk_id"])
    memory.forget(memory.remember("of today")["chunk_id"])
    db = sqlite_of(memory)._db
    db.execute("UPDATE chunks SET valid_from = '2020', valid_until = '2020-01-02' WHERE seq = 1")
    kept = purging(memory)
    assert "purge" in kept.report()
    assert "failed" not in kept.report()
    assert seqs(memory)["chunks"] == {2}
    kept._config = memory.config
    kept._tick(time.monotonic() + 200)
    assert seqs(memory)["chunks"] == {2}


# --- kill -9 ---------------------------------------------------------------------------


def purge_for_ever(path: str, before: str) -> None:
    """Purge in small steps, slowly enough to be killed between and within them."""
    upkeep.BATCH_PURGED = 1
    memory, stop = open_file(Path(path)), threading.Event()
    Path(path).with_suffix(".begun").touch()
    memory.store.upkeep.purge(before, lambda: stop.wait(0.002))
    memory.close()


@pytest.mark.skipif(not serving.FORKS, reason="there is no SIGKILL")
@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.long)])
def test_a_purge_that_is_killed_loses_nothing_and_is_taken_up(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "memory.db"
    with open_file(path) as memory:
        memory.remember("what stays", tags=["t"], entities=["hub"])
        current = live(memory)
    for kill in range(kills):
        with open_file(path) as memory:
            for number in range(12):
                note = f"note {kill}, {number}"
                chunk_id = memory.remember(note, tags=["t"])["chunk_id"]
                memory.relate(chunk_id, "hub", "at")
                memory.update(chunk_id, new_content=f"{note}, better")
                memory.forget(chunk_id)
        serving.killed(path, purge_for_ever, moment(), within=0.3)
        with open_file(path) as memory:
            assert live(memory) == current
            assert sound(memory)
    with open_file(path) as memory:
        memory.store.upkeep.purge(moment(), never)
        assert live(memory) == current
        assert sound(memory)
        assert seqs(memory)["chunks"] == {1}
        assert not look(path, "SELECT 1 FROM relations")


def test_a_version_that_an_older_one_leads_to_stays_while_that_one_does(memory: Memory) -> None:
    first = memory.remember("held by a relation of the past")["chunk_id"]
    memory.relate(first, "Anna", "was_about", valid_until="2001-01-01")
    memory.update(first, new_content="the next version")
    memory.forget(first, cascade=False)
    memory.store.upkeep.purge(moment(), never)
    assert look(memory.path, "SELECT source_id FROM relations") == [(first,)]
    texts = [row[0] for row in look(memory.path, "SELECT content FROM chunks ORDER BY seq")]
    assert texts == ["held by a relation of the past", "the next version"]
    assert sound(memory)


def test_a_memory_that_a_relation_ends_at_stays(memory: Memory) -> None:
    held = memory.remember("the end of a relation")["chunk_id"]
    memory.relate("Anna", held, "wrote")
    memory.forget(held, cascade=False)
    memory.store.upkeep.purge(moment(), never)
    assert look(memory.path, "SELECT content FROM chunks") == [("the end of a relation",)]
    assert sound(memory)


def test_an_entity_that_another_was_merged_into_stays_while_that_one_does(memory: Memory) -> None:
    memory.remember("both", entities=["Anna", "Ann", "Annie"])
    memory.merge_entities("Ann", "Annie")
    memory.forget("Ann", target_kind="entity")
    memory.store.upkeep.purge(moment(), never)
    known = look(memory.path, "SELECT id FROM entities ORDER BY id")
    assert known == [("Ann",), ("Anna",), ("Annie",)]
    assert sound(memory)


def test_a_record_that_is_old_enough_cannot_be_undone_any_more_though_its_rows_stay(
    memory: Memory,
) -> None:
    memory.relate("Anna", "Riga", "lives_in")
    (record,) = memory.history(1)
    memory.store.upkeep.purge(moment(), never)
    with pytest.raises(InvalidInput, match="does not hold what an undo needs"):
        memory.undo(record["audit_id"])
