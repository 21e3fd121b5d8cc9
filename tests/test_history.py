"""Time: what held when, in one form, whatever zone a caller writes in."""

import itertools
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import apsw
import pytest

from core import timestamps
from core.errors import InvalidInput
from hash_embedder import HashEmbedder
from memories import Open
from memory import Memory

LANES = ("vector_only", "meta_only", "entity_only", "graph_only", "rrf")


def contents(memory: Memory, query: str, **arguments: Any) -> list[str]:
    hits = memory.recall(query, **arguments)["hits"]
    return [hit["content"] for hit in hits if hit["chunk_id"].startswith("chunk_")]


def moment() -> str:
    """A moment after everything so far and before everything to come."""
    time.sleep(0.003)
    now = timestamps.now()
    time.sleep(0.003)
    return now


@pytest.mark.parametrize("lane", ["vector_only", "meta_only", "entity_only", "rrf"])
def test_every_lane_answers_as_of_a_moment(open_memory: Open, lane: str) -> None:
    memory = open_memory(model=HashEmbedder())
    before = moment()
    chunk_id = memory.remember("the depot opens at seven", entities=["depot"])["chunk_id"]
    first = moment()
    memory.update(chunk_id, new_content="the depot opens at nine")
    second = moment()
    memory.forget(chunk_id)
    ask = {"query": "depot opens", "strategy": lane}
    assert contents(memory, **ask, asof=before) == []
    assert contents(memory, **ask, asof=first) == ["the depot opens at seven"]
    assert contents(memory, **ask, asof=second) == ["the depot opens at nine"]
    assert contents(memory, **ask) == []


def test_the_graph_lane_answers_as_of_a_moment(open_memory: Open) -> None:
    memory = open_memory(model=None)
    memory.remember("the audit is on Tuesday", entities=["e"])
    other = memory.remember("bring the blue folder", entities=["e"])["chunk_id"]
    both = moment()
    memory.forget(other)
    ask = {"query": "audit Tuesday", "strategy": "graph_only"}
    assert contents(memory, **ask) == []
    assert contents(memory, **ask, asof=both) == ["bring the blue folder"]


def test_a_forgotten_entity_is_still_named_in_the_past(wordless: Memory) -> None:
    wordless.remember("a note", entities=[{"id": "Ann", "kind": "person"}])
    then = moment()
    wordless.forget("Ann", target_kind="entity")
    assert contents(wordless, "Ann", strategy="entity_only") == []
    assert contents(wordless, "Ann", strategy="entity_only", asof=then) == ["a note"]
    assert wordless.graph_query("Ann", asof=then)["nodes"][0]["kind"] == "person"


def test_a_memory_about_the_past_is_valid_from_then(wordless: Memory) -> None:
    wordless.remember("Ann joined Acme", timestamp="2020-05-01", entities=["Ann"])
    assert contents(wordless, "Ann joined", asof="2020-04-30") == []
    assert contents(wordless, "Ann joined", asof="2020-05-01") == ["Ann joined Acme"]
    assert contents(wordless, "Ann", strategy="entity_only", asof="2021-01-01") == [
        "Ann joined Acme"
    ]


def test_an_earlier_memory_shows_that_an_entity_was_known_then(wordless: Memory) -> None:
    wordless.remember("later", timestamp="2022-01-01", entities=["Ann"])
    wordless.remember("earlier", timestamp="2020-01-01", entities=["Ann"])
    assert contents(wordless, "Ann", strategy="entity_only", asof="2020-06-01") == ["earlier"]


@pytest.mark.parametrize("asof", ["not-a-date", "next March", "2026-13-01", "2026-02-30", 5])
def test_a_time_that_is_none_is_refused(memory: Memory, asof: Any) -> None:
    memory.remember("a note", entities=["e"])
    with pytest.raises(InvalidInput, match="asof must be an ISO 8601 time"):
        memory.recall("note", asof=asof)
    with pytest.raises(InvalidInput, match="asof must be an ISO 8601 time"):
        memory.graph_query("e", asof=asof)


def test_times_compare_as_moments_however_they_are_written(open_memory: Open) -> None:
    memory = open_memory(timezone="utc")
    memory.remember("a note", timestamp="2026-07-01T02:00:00Z")
    for asof, there in (
        ("2026-07-01", True),
        ("2026-06-30", False),
        ("2026-07-01T10:00:00+08:00", True),
        ("2026-07-01T09:59:59.999+08:00", False),
        ("2026-07-01 02:00", True),
        ("2026-07-01T01:59:59.999Z", False),
        ("2026-06-30T22:00:00-04:00", True),
    ):
        assert bool(contents(memory, "note", asof=asof)) is there, asof


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Los_Angeles"])
def test_a_relations_end_means_the_same_in_every_zone(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        memory = open_memory()
        for name, shift in (("live", timedelta(hours=1)), ("over", timedelta(hours=-1))):
            end = datetime.now(timezone.utc) + shift
            forms = [
                end.isoformat(),
                end.astimezone(timezone(timedelta(hours=-2))).isoformat(),
                end.astimezone(timezone(timedelta(hours=8))).isoformat(timespec="seconds"),
                end.strftime("%Y-%m-%dT%H:%M:%SZ"),
                end.astimezone().replace(tzinfo=None).isoformat(),
            ]
            for number, form in enumerate(forms):
                related = memory.relate(name, f"{name} {number}", "until", valid_until=form)
                assert related["status"] == ("stored" if name == "live" else "stored, already over")
        assert len(memory.graph_query("live")["edges"]) == 5
        assert memory.graph_query("over")["edges"] == []
        two_hours_ago = timestamps.stamp(datetime.now(timezone.utc) - timedelta(hours=2))
        db = apsw.Connection(str(memory.path))
        ends = [row[0] for row in db.execute("SELECT valid_until FROM relations")]
        db.close()
        assert all(end.endswith("Z") and len(end) == 24 for end in ends)
        assert two_hours_ago < min(ends)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_interval_that_ends_before_it_begins_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match=r"valid_until .* is not after valid_from"):
        memory.relate("a", "b", "r", valid_from="2026-02-01", valid_until="2026-01-01")
    edge = {"source_id": "a", "target_id": "b", "relation": "r"}
    edge |= {"valid_from": "2026-02-01", "valid_until": "2026-01-01"}
    with pytest.raises(InvalidInput, match=r"relations\[0\]\.valid_until"):
        memory.remember("x", relations=[edge])
    assert memory.stats()["relations"]["total"] == 0


def test_the_graph_follows_validity_not_the_time_of_writing(open_memory: Open) -> None:
    memory = open_memory(timezone="utc")
    memory.relate("Ann", "Acme", "works_at", valid_from="2020-01-01", valid_until="2022-12-31")
    memory.relate("Ann", "Bolt", "works_at", valid_from="2023-01-01")
    memory.remember("Ann, Acme, Bolt", timestamp="2019-01-01", entities=["Ann", "Acme", "Bolt"])

    def employer(asof: str) -> list[str]:
        return [edge["target_id"] for edge in memory.graph_query("Ann", asof=asof)["edges"]]

    assert employer("2019-12-31") == []
    assert employer("2020-01-01") == ["Acme"]
    assert employer("2022-12-31") == ["Acme"]
    assert employer("2023-01-01") == ["Bolt"]


def test_versions_of_one_moment_neither_overlap_nor_run_backwards(memory: Memory) -> None:
    chunk_id = memory.remember("version 0")["chunk_id"]
    for number in range(1, 20):
        memory.update(chunk_id, new_content=f"version {number}")
    future = memory.remember("planned", timestamp="2999-01-01")["chunk_id"]
    memory.update(future, new_content="planned anew")
    memory.forget(future)
    db = apsw.Connection(str(memory.path))
    spans = list(db.execute("SELECT valid_from, valid_until FROM chunks ORDER BY seq"))
    db.close()
    assert all(end is None or start <= end for start, end in spans)
    versions = spans[:20]
    assert all(left[1] == right[0] for left, right in itertools.pairwise(versions))


def test_a_relation_closed_by_an_update_is_consistent_around_that_moment(memory: Memory) -> None:
    chunk_id = memory.remember("the report", entities=["r"])["chunk_id"]
    memory.relate(chunk_id, "desk", "lies_on")
    before = moment()
    new = memory.update(chunk_id, new_content="the new report")["new_chunk_id"]
    after = moment()
    (edge,) = memory.graph_query("desk", asof=before)["edges"]
    assert edge["source_id"] == chunk_id
    (edge,) = memory.graph_query("desk", asof=after)["edges"]
    assert edge["source_id"] == new


def test_both_the_time_it_is_about_and_the_time_of_writing_are_kept(memory: Memory) -> None:
    started = timestamps.now()
    chunk_id = memory.remember("long ago", timestamp="1999-12-31T23:00:00Z")["chunk_id"]
    memory.update(chunk_id, new_content="very long ago")
    db = apsw.Connection(str(memory.path))
    kept = list(db.execute("SELECT timestamp, created_at >= ? FROM chunks", (started,)))
    db.close()
    assert kept == [("1999-12-31T23:00:00.000Z", 1)] * 2
