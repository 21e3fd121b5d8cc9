"""Entries of the timeline: written, found by one merged vector, read, grouped, and kept."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from config import ROOT, Config
from core import timestamps
from core.errors import InvalidInput, NotFound
from hash_embedder import Failing, HashEmbedder
from index.calibration import scaled
from inside import sqlite_of
from memories import Open
from memory import Memory
from timeline.arguments import CATEGORIES
from timeline.keeper import CLIENT, LATEST_SECONDS, _Grouped
from timeline.scale import merged
from timeline.timeline import BATCH_ENTRIES, Timeline

TAGS = ["出差", "上海", "周五", "行程", "工作"]
TRIP: dict[str, Any] = {"summary": "用户周五要去上海出差", "tags": TAGS, "category": "conversation"}
PAST = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def timeline(memory: Memory) -> Timeline:
    return memory.timeline()


def entry(summary: str, *tags: str, **more: Any) -> dict[str, Any]:
    """An entry with these tags, and others until there are five."""
    five = [*tags, *(f"{summary[:8]}-{at}" for at in range(5 - len(tags)))]
    return {"summary": summary, "tags": five, "category": "knowledge", **more}


def summaries(answer: dict[str, Any], key: str = "results") -> list[str]:
    return [each["summary"] for each in answer[key]]


# --- Writing ---------------------------------------------------------------------------


def test_an_entry_is_written_as_an_object_or_as_its_json(timeline: Timeline) -> None:
    stored = timeline.write(TRIP)
    assert stored["status"] == "stored"
    assert stored["embedding"] == "stored"
    again = timeline.write(json.dumps(TRIP | {"is_time_sensitive": "false"}))
    assert again == stored | {"status": "exists"}


@pytest.mark.parametrize(
    "change",
    [
        {"tags": [*TAGS[:4], "旅行"]},
        {"category": "knowledge"},
        {"is_time_sensitive": True},
        {"summary": "用户周五要去上海出差。"},
        {"context_text": "住在虹桥"},
    ],
)
def test_whatever_differs_is_stored_beside_it(timeline: Timeline, change: dict[str, Any]) -> None:
    timeline.write(TRIP)
    assert timeline.write(TRIP | change)["status"] == "stored"
    assert timeline.status()["entries"] == 2


def test_an_entry_whose_context_has_grown_is_still_the_same(timeline: Timeline) -> None:
    first = timeline.write(TRIP | {"context_text": "第一段。"})
    timeline.write_context(first["timeline_id"], "第二段。")
    assert timeline.write(TRIP | {"context_text": "第一段。"})["status"] == "exists"
    assert timeline.write(TRIP)["status"] == "exists"
    assert timeline.write(TRIP | {"context_text": "第二段。"})["status"] == "stored"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{bad", "data must be an object, or its JSON as text; this is not JSON: "),
        ("[1]", "data must be an object, not [1]."),
        (5, "data must be an object, not 5."),
        (None, "data is missing."),
        ({"tags": TAGS, "category": "other"}, "data.summary is missing."),
        (TRIP | {"summary": "x" * 201}, "data.summary is 201 characters long; at most 200 "),
        (TRIP | {"summary": "猫" * 201}, "data.summary is 201 characters long; at most 200 "),
        (TRIP | {"tags": TAGS[:4]}, "data.tags must be exactly 5 different tags, not 4."),
        (TRIP | {"tags": [*TAGS, "x"]}, "data.tags must be exactly 5 different tags, not 6."),
        (TRIP | {"tags": ["a", "A", "b", "c", "d"]}, "data.tags must be exactly 5 different tags"),
        (
            TRIP | {"tags": ["a b", "Ａ  b", "c", "d", "e"]},
            "data.tags must be exactly 5 different tags, not 4.",
        ),
        (TRIP | {"tags": "a, b"}, 'data.tags must be a list, not "a, b".'),
        (TRIP | {"category": "travel"}, "data.category must be one of conversation, knowledge, "),
        (TRIP | {"is_time_sensitive": "soon"}, "data.is_time_sensitive must be true or false"),
        (TRIP | {"ttl": 3}, "data does not know ttl; allowed: summary, tags, context_text, "),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_stored(
    timeline: Timeline, data: Any, said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        timeline.write(data)
    assert str(caught.value).startswith(said)
    assert timeline.status()["entries"] == 0


def test_a_memory_with_the_words_of_an_entry_is_one_of_its_own(
    memory: Memory, timeline: Timeline
) -> None:
    """Else it would end with the entry, and its tags would be a sixth of that."""
    chunk = timeline.write(TRIP | {"is_time_sensitive": True})["timeline_id"]
    said = memory.remember(TRIP["summary"], source="timeline", tags=["extra"])
    assert said["status"] == "stored"
    (found,) = timeline.query(TRIP["summary"])["results"]
    assert (found["timeline_id"], sorted(found["tags"])) == (chunk, sorted(TAGS))
    expire(memory, chunk)
    assert memory.store.entries.close_overdue(CLIENT) == 1
    assert memory.show_chunk(said["chunk_id"])["valid_until"] is None
    assert memory.remember(TRIP["summary"], source="timeline")["chunk_id"] == said["chunk_id"]


def test_200_characters_are_allowed_of_any_script(timeline: Timeline) -> None:
    for text in ("猫" * 200, "x" * 200, "😀" * 200):
        assert (
            timeline.write(entry(text, "one", "two", "three", "four", "five"))["status"] == "stored"
        )


def test_secrets_in_an_entry_are_kept_out_where_the_settings_say_so(open_memory: Open) -> None:
    key = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
    redacting = open_memory(model=HashEmbedder(), guard_mode="redact").timeline()
    stored = redacting.write(TRIP | {"context_text": f"key {key}"})
    assert stored["secrets"]
    assert key not in str(redacting.get_context(stored["timeline_id"]))
    refusing = open_memory(model=HashEmbedder(), guard_mode="refuse").timeline()
    with pytest.raises(InvalidInput, match=r"data\.context_text"):
        refusing.write(TRIP | {"context_text": f"my key {key}"})
    with pytest.raises(InvalidInput, match="context_text"):
        refusing.write_context(stored["timeline_id"], key)


# --- Finding ---------------------------------------------------------------------------


def test_the_mean_of_six_vectors_scores_as_the_six_do() -> None:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(10_000, 6, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    query = vectors[0, 0]
    means = np.stack([merged(each) for each in vectors])
    separately = (vectors.astype(np.float64) @ query.astype(np.float64)).mean(axis=1)
    assert np.abs(means @ query - separately).max() < 1e-6
    assert not np.allclose(np.linalg.norm(means, axis=1), 1)


def test_the_reported_cosine_is_the_mean_over_summary_and_tags(timeline: Timeline) -> None:
    timeline.write(TRIP)
    (found,) = timeline.query("周五去哪里", score_threshold=0)["results"]
    model = HashEmbedder()
    cosines = model.passages([TRIP["summary"], *TAGS]) @ model.query("周五去哪里")
    assert found["cosine"] == pytest.approx(float(cosines.mean()), abs=1e-4)


def test_entries_that_fit_are_found_best_first_and_others_are_not(timeline: Timeline) -> None:
    trip = timeline.write(TRIP)["timeline_id"]
    timeline.write(entry("上海的天气很好", "上海", "天气"))
    timeline.write(entry("the cat sleeps on the sill", "cat", "sleep"))
    answer = timeline.query("用户周五要去上海出差", top_k=2)
    assert summaries(answer)[0] == TRIP["summary"]
    assert "the cat sleeps on the sill" not in summaries(answer)
    best = answer["results"][0]
    assert best["timeline_id"] == trip
    assert sorted(best["tags"]) == sorted(TAGS)
    assert (best["category"], best["is_time_sensitive"]) == ("conversation", False)
    assert best["score"] >= 0.15
    assert best["create_timestamp"].endswith("Z")
    assert len(timeline.query("上海", top_k=1, score_threshold=0)["results"]) == 1


def test_what_reaches_no_threshold_is_no_result_and_the_answer_says_how_near_it_was(
    timeline: Timeline,
) -> None:
    assert timeline.query("anything at all") == {
        "results": [],
        "notice": "Nothing stored matches.",
    }
    timeline.write(TRIP)
    answer = timeline.query("quantum chromodynamics", score_threshold=0.9)
    assert answer["results"] == []
    assert "asked for was 0.9" in answer["notice"]
    assert timeline.query(TRIP["summary"], score_threshold=0.2)["results"]


def test_the_score_is_the_same_scale_for_a_model_that_puts_all_texts_near(
    open_memory: Open,
) -> None:
    """E5 gives unrelated texts a cosine of 0.8: by raw ones 0.15 would let everything through."""
    timeline = open_memory(model=Crowded()).timeline()
    timeline.write(TRIP)
    timeline.write(entry("the cat sleeps on the sill", "cat", "sleep"))
    found = timeline.query("the cat sleeps on the sill", score_threshold=0.2)["results"]
    assert [each["summary"] for each in found] == ["the cat sleeps on the sill"]
    assert found[0]["cosine"] > 0.8
    far = timeline.query("the cat sleeps on the sill", score_threshold=0)["results"]
    assert all(each["cosine"] > 0.7 for each in far)


class Crowded(HashEmbedder):
    """A model whose vectors all have one direction in common, as E5's have."""

    def __init__(self) -> None:
        super().__init__(name="test/crowded")

    def query(self, text: str) -> Any:
        own = super().query(text) * np.float32(0.5)
        own = np.where(np.arange(self.dim) == 0, 0, own).astype(np.float32)
        own[0] = np.sqrt(1 - float(own @ own))
        return own


def test_recall_finds_entries_by_summary_tag_context_and_meaning(
    memory: Memory, timeline: Timeline
) -> None:
    timeline.write(TRIP | {"context_text": "住在虹桥的酒店，zeppelin。"})

    def hits(query: str, strategy: str = "rrf") -> list[str]:
        found = memory.recall(query, strategy=strategy)["hits"]
        return [hit["content"] for hit in found if not hit.get("weak")]

    assert hits("周五出差", "meta_only") == [TRIP["summary"]]
    assert hits("行程", "meta_only") == [TRIP["summary"]]
    assert hits("zeppelin", "meta_only") == [TRIP["summary"]]
    (hit,) = memory.recall(TRIP["summary"], strategy="vector_only")["hits"]
    assert hit["similarity"] == pytest.approx(1, abs=1e-3), "the vector is the summary's own"
    memory.remember("住在别处", source="notes")
    assert len(memory.recall("住在", filters={"source": "timeline"})["hits"]) == 1


def test_without_a_model_entries_are_found_by_their_words(wordless: Memory) -> None:
    timeline = wordless.timeline()
    assert timeline.write(TRIP | {"context_text": "zeppelin"})["embedding"] == "off"
    wordless.remember("a zeppelin too", source="timeline")
    answer = timeline.query("zeppelin")
    assert summaries(answer) == [TRIP["summary"]]
    assert answer["results"][0]["score"] is None
    assert "model" in answer["notice"]
    assert timeline.init()["vectors"] is False
    assert timeline.rebuild_groups()["status"] == "off"


def test_entries_written_before_there_was_a_model_get_their_vectors_later(
    open_memory: Open,
) -> None:
    early = open_memory().timeline()
    for at in range(12):
        early.write(entry(f"fact number {at} of the early days"))
    memory = open_memory(model=HashEmbedder())
    later = memory.timeline()
    assert later.status()["pending"] == 12
    memory.embedding.wake()
    wait(lambda: memory.stats()["pending"] == 0)
    (hit, *_) = memory.recall("fact number 3 of the early days", strategy="vector_only")["hits"]
    assert hit["similarity"] == pytest.approx(1, abs=1e-3), "made of the summary as it stands"
    answer = later.query("fact number 3 of the early days")
    assert "fact number 3 of the early days" in summaries(answer)
    assert "4" in answer["notice"]
    later.rebuild_groups()
    assert later.status()["pending"] == 0


def test_what_the_model_fails_over_keeps_no_other_entry_waiting(open_memory: Open) -> None:
    before = open_memory()
    for number in range(BATCH_ENTRIES + 1):
        before.timeline().write(entry(f"poison {number}"))
    before.timeline().write(entry("a ferry to Riga"))
    timeline = open_memory(model=Failing()).timeline()
    timeline.rebuild_groups()
    assert summaries(timeline.query("a ferry to Riga")) == ["a ferry to Riga"]
    assert timeline.status()["pending"] == BATCH_ENTRIES + 1


def test_a_question_that_the_model_fails_over_is_answered_by_words(open_memory: Open) -> None:
    """It was answered with an internal error, by memory_recall too."""
    memory = open_memory(model=Failing())
    timeline = memory.timeline()
    timeline.write(entry("a ferry to Riga"))
    assert summaries(timeline.query("the ferry, or poison?")) == ["a ferry to Riga"]
    for answer in (timeline.query("ferry poison"), memory.recall("ferry poison")):
        assert "The vector lane failed" in answer["notice"]
    assert memory.recall("ferry poison")["hits"]
    assert timeline.query("a ferry to Riga")["results"][0]["score"] > 0.15


# --- Contexts --------------------------------------------------------------------------


def test_a_context_is_read_in_segments_that_join_to_what_was_written(timeline: Timeline) -> None:
    text = "\n\n".join(f"## Part {at}\n\n" + "words of it. " * 60 for at in range(12))
    written = timeline.write(TRIP | {"context_text": text})
    chunk = written["timeline_id"]
    assert written["segments"] > 3
    assert timeline.get_context(chunk)["segments"][0]["text"].startswith("## Part 0")
    whole = timeline.get_context(chunk, limit=100)
    assert "".join(each["text"] for each in whole["segments"]) == text
    assert all(len(each["text"]) <= 1800 for each in whole["segments"])
    assert (whole["total"], whole["has_more"]) == (written["segments"], False)
    second = timeline.get_context(chunk, offset=1, limit=1)
    assert (second["segments"][0]["index"], second["has_more"]) == (1, True)
    assert timeline.get_context(chunk, offset=1000)["segments"] == []


def test_more_context_goes_behind_what_is_there_once(timeline: Timeline) -> None:
    chunk = timeline.write(TRIP | {"context_text": "one "})["timeline_id"]
    assert timeline.write_context(chunk, "two ")["added"] == 1
    assert timeline.write_context(chunk, "two ")["status"] == "exists"
    assert timeline.write_context(chunk, "three")["segments"] == 3
    parts = timeline.get_context(chunk, limit=9)["segments"]
    assert "".join(each["text"] for each in parts) == "one two three"


def test_context_that_was_added_is_searched_too(memory: Memory, timeline: Timeline) -> None:
    chunk = timeline.write(TRIP)["timeline_id"]
    assert memory.recall("zeppelin", strategy="meta_only")["hits"] == []
    timeline.write_context(chunk, "a zeppelin over the river")
    (hit,) = memory.recall("zeppelin", strategy="meta_only")["hits"]
    assert hit["chunk_id"] == chunk
    memory.forget(chunk)
    assert memory.recall("zeppelin", strategy="meta_only")["hits"] == []


@pytest.mark.parametrize("tool", ["get_context", "get_groups", "write_context"])
def test_what_is_no_entry_is_refused_by_its_id(
    memory: Memory, timeline: Timeline, tool: str
) -> None:
    more = ("text",) if tool == "write_context" else ()
    plain = memory.remember("no entry")["chunk_id"]
    with pytest.raises(NotFound, match=f"{plain} is no entry of the timeline"):
        getattr(timeline, tool)(plain, *more)
    with pytest.raises(NotFound, match="no memory with id chunk_x"):
        getattr(timeline, tool)("chunk_x", *more)
    gone = timeline.write(TRIP)["timeline_id"]
    memory.forget(gone)
    with pytest.raises(NotFound, match="has been forgotten"):
        getattr(timeline, tool)(gone, *more)


# --- With the other tools --------------------------------------------------------------


def test_an_updated_entry_is_an_entry_still(memory: Memory, timeline: Timeline) -> None:
    old = timeline.write(TRIP | {"context_text": "the whole talk", "is_time_sensitive": True})
    new = memory.update(old["timeline_id"], new_content="用户周六要去北京出差")["new_chunk_id"]
    found = timeline.query("用户周六要去北京出差", score_threshold=0)["results"]
    assert [each["timeline_id"] for each in found] == [new]
    assert found[0]["is_time_sensitive"]
    told = timeline.get_context(old["timeline_id"])
    assert (told["timeline_id"], told["segments"][0]["text"]) == (new, "the whole talk")
    with memory.store.view() as view:
        (row,) = view.entries.at([view.entries.get(new).seq])
    model = HashEmbedder()
    assert found[0]["cosine"] == pytest.approx(
        float((model.passages([row.summary, *row.tags]) @ model.query(row.summary)).mean()),
        abs=1e-4,
    )


def test_a_forgotten_entry_is_in_no_answer_and_undone_it_is_back(
    memory: Memory, timeline: Timeline
) -> None:
    chunk = timeline.write(TRIP)["timeline_id"]
    assert timeline.query(TRIP["summary"])["results"]
    memory.forget(chunk)
    assert timeline.query(TRIP["summary"])["results"] == []
    assert timeline.status()["entries"] == 0
    (record, *_) = memory.history(limit=1)
    memory.undo(record["audit_id"])
    assert summaries(timeline.query(TRIP["summary"])) == [TRIP["summary"]]


# --- Groups ----------------------------------------------------------------------------

HARBOUR = [
    f"the harbour of Riga {word}" for word in ("opens", "opens daily", "opened", "opens late")
]


def alike(timeline: Timeline, count: int = 4) -> list[str]:
    """Ids of entries that are all alike."""
    tags = ("harbour", "Riga", "ships", "opening", "trade")
    written = [timeline.write(entry(text, *tags)) for text in HARBOUR[:count]]
    return [each["timeline_id"] for each in written]


def test_entries_that_are_alike_are_a_group_and_others_are_in_none(timeline: Timeline) -> None:
    ids = alike(timeline)
    other = timeline.write(TRIP)["timeline_id"]
    built = timeline.rebuild_groups()
    assert (built["status"], built["group_count"], built["grouped"]) == ("rebuilt", 1, 4)
    (group,) = timeline.list_groups()["groups"]
    assert group["members"] == 4
    assert set(group["tags"]) <= {"harbour", "Riga", "ships", "opening", "trade"}
    members = timeline.get_group_members(group["group_id"])["members"]
    assert [each["timeline_id"] for each in members] == ids
    assert timeline.get_groups(ids[0])["groups"] == [{"group_id": group["group_id"], "members": 4}]
    assert timeline.get_groups(other)["groups"] == []
    (found, *_) = timeline.query(HARBOUR[0])["results"]
    assert found["group_ids"] == [group["group_id"]]


def test_three_entries_are_no_group_of_four_but_one_of_three(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder())
    alike(memory.timeline(), 3)
    assert memory.timeline().rebuild_groups()["group_count"] == 0
    three = open_memory(model=HashEmbedder(), timeline_group_k=3).timeline()
    assert three.rebuild_groups()["group_count"] == 1


def test_a_threshold_is_for_one_rebuild(timeline: Timeline) -> None:
    alike(timeline)
    assert timeline.rebuild_groups(threshold=1)["group_count"] == 0
    assert timeline.list_groups()["threshold"] == 1
    assert timeline.rebuild_groups()["threshold"] == 0.45
    with pytest.raises(InvalidInput, match="threshold"):
        timeline.rebuild_groups(threshold=1.5)


def test_a_group_keeps_its_id_when_it_grows_and_loses_who_is_forgotten(
    memory: Memory, timeline: Timeline
) -> None:
    ids = alike(timeline)
    timeline.rebuild_groups()
    (group,) = timeline.list_groups()["groups"]
    timeline.write(
        entry("the harbour of Riga opens early", "harbour", "Riga", "ships", "opening", "trade")
    )
    timeline.rebuild_groups()
    (grown,) = timeline.list_groups()["groups"]
    assert (grown["group_id"], grown["members"]) == (group["group_id"], 5)
    memory.forget(ids[0])
    members = timeline.get_group_members(group["group_id"])["members"]
    assert ids[0] not in [each["timeline_id"] for each in members]
    with pytest.raises(NotFound, match="There is no group nowhere"):
        timeline.get_group_members("nowhere")


def test_an_answer_has_so_many_groups_and_members_and_no_more(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike(timeline)
    for text in ("gamma", "delta", "sigma", "omega"):
        timeline.write(TRIP | {"summary": f"{TRIP['summary']} {text}"})
    timeline.rebuild_groups()
    (first, second) = timeline.list_groups()["groups"]
    monkeypatch.setattr("timeline.timeline.MAX_SHOWN", 1)
    assert timeline.list_groups()["groups"] == [first]
    told = timeline.get_group_members(second["group_id"])
    assert (told["total"], len(told["members"])) == (4, 1)


def test_where_time_is_too_short_the_last_groups_stay_and_it_is_said(open_memory: Open) -> None:
    """At a low threshold half of all pairs are alike, and there are cliques without number."""
    memory = open_memory(model=HashEmbedder(), timeline_group_seconds=0.1)
    timeline = memory.timeline()
    alike(timeline)
    assert timeline.rebuild_groups()["group_count"] == 1
    before = timeline.list_groups()
    for at in range(220):
        timeline.write(entry(f"{at * 7919} things of the kind {at * 104729}"))
    put_setting(memory, group_k="10")
    answer = timeline.rebuild_groups(threshold=0.1)
    assert answer["status"] == "timed_out"
    assert "longer than 0.1 s" in answer["notice"]
    after = timeline.list_groups()
    assert after["notice"] == timeline.status()["groups"]["notice"] == answer["notice"]
    assert after == before | {"notice": answer["notice"]}
    assert "notice" not in timeline.rebuild_groups(threshold=1)
    assert "notice" not in timeline.list_groups()


# --- What expires ----------------------------------------------------------------------


def test_a_time_sensitive_entry_ends_after_the_days_of_the_settings(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder(), timeline_default_ttl_days=0.001)
    timeline = memory.timeline()
    lasting, passing = timeline.write(TRIP), timeline.write(TRIP | {"is_time_sensitive": True})
    assert lasting["expires_at"] is None
    assert passing["expires_at"] > timestamps.now()
    assert memory.store.entries.close_overdue(CLIENT) == 0
    expire(memory, passing["timeline_id"])
    found = timeline.query(TRIP["summary"])["results"]
    assert [each["timeline_id"] for each in found] == [lasting["timeline_id"]]
    assert memory.store.entries.close_overdue(CLIENT) == 1
    shown = memory.show_chunk(passing["timeline_id"])
    assert shown["valid_until"], "closed, and still there"


def expire(memory: Memory, chunk_id: str) -> None:
    """Let an entry's time be over."""
    with sqlite_of(memory).transaction() as db:
        seq = db.execute("SELECT seq FROM chunks WHERE id = ?", (chunk_id,)).get
        db.execute("UPDATE timeline SET expires_at = ? WHERE chunk_seq = ?", (PAST, seq))
        db.execute(
            "UPDATE postings SET rev = (SELECT max(rev) + 1 FROM postings) WHERE chunk_seq = ?",
            (seq,),
        )


def test_an_entry_that_expired_can_be_brought_back_and_then_stays(
    memory: Memory, timeline: Timeline
) -> None:
    chunk = timeline.write(TRIP | {"is_time_sensitive": True})["timeline_id"]
    expire(memory, chunk)
    memory.store.entries.close_overdue(CLIENT)
    (record, *_) = memory.history(limit=1)
    assert (record["action"], record["reason"], record["client"]) == ("forget", "expired", CLIENT)
    memory.undo(record["audit_id"])
    assert memory.store.entries.close_overdue(CLIENT) == 0
    (found,) = timeline.query(TRIP["summary"])["results"]
    assert not found["is_time_sensitive"]


def test_an_entry_whose_time_is_over_is_not_found_by_its_words_either(wordless: Memory) -> None:
    timeline = wordless.timeline()
    chunk = timeline.write(TRIP | {"is_time_sensitive": True})["timeline_id"]
    assert summaries(timeline.query("上海出差")) == [TRIP["summary"]]
    expire(wordless, chunk)
    assert summaries(timeline.query("上海出差")) == []


def test_of_two_who_close_at_the_same_time_each_entry_is_closed_by_one(
    memory: Memory, timeline: Timeline, open_memory: Open
) -> None:
    for number in range(30):
        expire(
            memory,
            timeline.write(entry(f"thing {number}", is_time_sensitive=True))["timeline_id"],
        )
    both = [memory.store, open_memory(model=HashEmbedder()).store]
    with ThreadPoolExecutor(2) as threads:
        closed = threads.map(lambda each: each.entries.close_overdue(CLIENT), both)
    assert sum(closed) == 30
    assert timeline.status()["entries"] == 0


def test_an_entry_comes_back_beside_another_that_only_shares_its_summary(
    memory: Memory, timeline: Timeline
) -> None:
    memory.forget(timeline.write(TRIP)["timeline_id"])
    (record, *_) = memory.history(limit=1)
    timeline.write(TRIP | {"tags": [*TAGS[:4], "旅行"]})
    memory.undo(record["audit_id"])
    assert summaries(timeline.query(TRIP["summary"])) == [TRIP["summary"]] * 2
    memory.forget(record["target"])
    (record, *_) = memory.history(limit=1)
    timeline.write(TRIP)
    with pytest.raises(InvalidInput, match="builds on it"):
        memory.undo(record["audit_id"])


# --- What says the same twice ----------------------------------------------------------


@pytest.fixture
def scan(memory: Memory, timeline: Timeline) -> Callable[..., list[str]]:
    """The summaries that are marked once some entries were written, oldest first."""

    def scan(*texts: str, **more: Any) -> list[str]:
        for text in texts:
            timeline.write(entry(text, **more))
        timeline.mark_duplicates()
        with memory.store.view() as view:
            seqs = range(1, 100)
            return [row.summary for row in view.entries.at(seqs) if row.expires_at]

    return scan


def test_the_newer_of_two_that_say_the_same_becomes_time_sensitive(
    memory: Memory, timeline: Timeline, scan: Callable[..., list[str]]
) -> None:
    first, second = (
        "The depot in Riga is open on weekends",
        "The depot in Riga is open on weekends.",
    )
    assert scan(first, second, "Anna plays the cello") == [second]
    (record, *_) = memory.history(limit=1)
    assert (record["action"], record["client"]) == ("mark", CLIENT)
    assert "says nearly the same as chunk_" in record["reason"]
    assert timeline.mark_duplicates() == 0, "what is marked is not looked at again"


def test_a_double_that_was_brought_back_is_not_marked_again(
    memory: Memory, timeline: Timeline, scan: Callable[..., list[str]]
) -> None:
    (double,) = scan("The depot in Riga is open", "The depot in Riga is open.")
    (chunk,) = [each["target"] for each in memory.history(limit=9) if each["action"] == "mark"]
    expire(memory, chunk)
    memory.store.entries.close_overdue(CLIENT)
    memory.undo(memory.history(limit=1)[0]["audit_id"])
    assert timeline.mark_duplicates() == 0
    assert summaries(timeline.query(double, top_k=1)) == [double]
    assert scan("The depot in Riga is open!") == ["The depot in Riga is open!"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The database listens on port 5432", "The database listens on port 5433"),
        ("The weekly meeting is on Friday", "The weekly meeting is on Monday"),
        ("数据库的端口是 5432", "数据库的端口是 5433"),
        ("例会在周五下午举行", "例会在周一下午举行"),
        ("The backup does run at night here", "The backup does not run at night here"),
    ],
)
def test_two_that_differ_in_a_fact_both_stay(
    scan: Callable[..., list[str]], one: str, other: str
) -> None:
    assert scan(one, other) == []


def test_three_alike_leave_the_oldest(scan: Callable[..., list[str]]) -> None:
    text = "The depot in Riga is open on weekends"
    assert scan(text, text + ".", text + "!") == [text + ".", text + "!"]


def test_time_sensitive_entries_are_not_compared(
    scan: Callable[..., list[str]], memory: Memory
) -> None:
    text = "The depot in Riga is open on weekends"
    marked = scan(text, text + ".", is_time_sensitive=True)
    assert marked == [text, text + "."], "as they were written"
    assert not [each for each in memory.history(limit=9) if each["action"] == "mark"]


# --- Settings --------------------------------------------------------------------------


def put_setting(memory: Memory, **values: str) -> None:
    """What the user's text does with SQL."""
    with sqlite_of(memory).transaction() as db:
        db.executemany("INSERT OR REPLACE INTO config (key, value) VALUES (?, ?)", values.items())


def test_the_table_of_settings_comes_before_the_default_and_at_once(
    memory: Memory, timeline: Timeline
) -> None:
    assert timeline.status()["settings"]["dedup_enable"] is False
    put_setting(memory, dedup_enable="true", group_k="3", context_separators='["\\n"]')
    settings = timeline.status()["settings"]
    assert (settings["dedup_enable"], settings["group_k"]) == (True, 3)
    assert settings["context_separators"] == ("\n",)


def test_a_variable_comes_before_toml_before_the_table(
    tmp_path: Path, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("[timeline]\ngroup_k = 5\ndedup_threshold = 0.8\n")
    monkeypatch.setenv("VELLUM_DEDUP_THRESHOLD", "0.95")
    memory = open_memory(model=HashEmbedder())
    put_setting(memory, group_k="3", dedup_threshold="0.7", chunk_size="500")
    settings = memory.timeline().status()["settings"]
    assert (settings["dedup_threshold"], settings["group_k"], settings["chunk_size"]) == (
        0.95,
        5,
        500,
    )
    assert settings["group_threshold"] == 0.45


def test_what_is_wrong_in_the_table_is_told_and_has_no_effect(
    memory: Memory, timeline: Timeline
) -> None:
    put_setting(memory, group_k="many", colour="red", group_threshold="0.6")
    status = timeline.status()
    assert (status["settings"]["group_k"], status["settings"]["group_threshold"]) == (4, 0.6)
    assert [sentence.split(";")[0] for sentence in status["wrong_settings"]] == [
        "table config does not know colour",
        "Setting group_k (table config) is 'many'",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("context_separators", b"[" * 100_000),
        ("context_separators", b'["\\ud800"]'),
        ("context_separators", json.dumps(["x"] * 10_000).encode()),
        ("group_k", b"x" * 1_000_000),
        ("group_k", b"9" * 5000),
        ("group_k", b"\xff"),
        ("key" * 100_000, b"1"),
        ("a\nb\0", b"1"),
    ],
)
def test_whatever_is_in_the_table_the_tools_work_and_the_answer_is_short(
    memory: Memory, timeline: Timeline, key: str, value: bytes
) -> None:
    with sqlite_of(memory).transaction() as db:
        db.execute("INSERT INTO config VALUES (?, CAST(? AS TEXT))", (key, value))
    timeline.write(TRIP | {"context_text": "a sentence of it. " * 200})
    assert summaries(timeline.query(TRIP["summary"])) == [TRIP["summary"]]
    status = timeline.status()
    (said,) = status["wrong_settings"]
    assert said.isprintable()
    assert len(json.dumps(status).encode()) < 3000
    assert status["settings"]["group_k"] == 4


def test_upkeep_takes_up_what_is_set_while_it_runs(memory: Memory, timeline: Timeline) -> None:
    put_setting(memory, daemon_interval="80000")
    same = [timeline.write(TRIP | {"category": each}) for each in CATEGORIES[:3]]
    timeline.keep()
    try:
        wait(lambda: "groups" in timeline.status()["upkeep"])
        assert timeline.list_groups()["groups"] == []
        expire(memory, timeline.write(entry("a ferry", is_time_sensitive=True))["timeline_id"])
        put_setting(memory, daemon_interval="1", group_k="3")
        wait(lambda: timeline.status()["entries"] == len(same))
        wait(lambda: bool(timeline.list_groups()["groups"]))
    finally:
        timeline.close()


@pytest.mark.parametrize("switched_on", [True, False])
def test_upkeep_looks_for_doubles_where_that_is_switched_on(
    open_memory: Open, switched_on: bool
) -> None:
    settings = {"timeline_dedup_enable": switched_on, "timeline_daemon_interval": 1}
    timeline = open_memory(model=HashEmbedder(), **settings).timeline()
    for end in ("", "."):
        timeline.write(entry(f"The depot in Riga is open on weekends{end}"))
    timeline.keep()
    try:
        step = "dedup" if switched_on else "sweep"
        wait(lambda: step in timeline.status()["upkeep"])
        assert timeline.status()["time_sensitive"] == switched_on
    finally:
        timeline.close()


def test_how_alike_doubles_must_be_is_a_setting(memory: Memory, timeline: Timeline) -> None:
    for end in ("", " in spring"):
        timeline.write(entry(f"The depot in Riga is open on weekends{end}"))
    put_setting(memory, dedup_threshold="1")
    assert timeline.mark_duplicates() == 0
    put_setting(memory, dedup_threshold="0.5")
    assert timeline.mark_duplicates() == 1


def test_how_well_an_entry_must_fit_is_a_setting(memory: Memory, timeline: Timeline) -> None:
    timeline.write(TRIP)
    assert timeline.query("用户周五要去上海")["results"]
    put_setting(memory, score_threshold="1")
    assert timeline.query("用户周五要去上海")["results"] == []
    assert timeline.query("用户周五要去上海", score_threshold=0.1)["results"]


def test_groups_are_put_off_while_somebody_writes_but_not_for_ever() -> None:
    grouped = _Grouped()
    assert grouped.is_due(0.0, "first"), "at the start nothing is waited for"
    grouped.entries = "first"
    due = [at for at in range(1, 60) if grouped.is_due(at, f"written at {at}")]
    assert due[0] == 1 + LATEST_SECONDS
    grouped.entries = "all"
    grouped.is_due(100, "all")
    assert [grouped.is_due(at, "one more") for at in (101, 102, 103)] == [False, False, True]


def wait(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_segments_are_as_long_as_the_settings_say(memory: Memory, timeline: Timeline) -> None:
    put_setting(memory, chunk_size="100")
    written = timeline.write(TRIP | {"context_text": "a sentence of it. " * 50})
    parts = timeline.get_context(written["timeline_id"], limit=100)["segments"]
    assert len(parts) >= 9
    assert max(len(each["text"]) for each in parts) <= 100


# --- What is loaded --------------------------------------------------------------------

LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
from config import Config
from memory import Memory
with Memory(sys.argv[2], config=Config.load({}, embedder_model="none")) as memory:
    memory.keep()
    memory.remember("a fact")
    memory.recall("fact")
from server import tools; from server import server
tools.core(memory, memory.config)
print([name for name in sys.modules if name.startswith(
    ("timeline", "segments", "groups", "distinct", "regex", "networkx"))])
"""


def test_with_the_defaults_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(ROOT), str(tmp_path / "m.db")]
    told = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert told.stdout.strip() == "[]"


def test_similar_memories_are_told_with_cosine_and_score(memory: Memory) -> None:
    memory.remember("The depot in Riga is open on weekends")
    (similar,) = memory.remember("The depot in Riga is open on weekends!")["similar"]
    assert -1 <= similar["similarity"] <= 1
    assert 0.8 <= similar["score"] <= similar["similarity"]
    assert scaled(np.float32(similar["similarity"]), 0.0) == similar["similarity"]


def test_settings_of_the_config_are_the_ones_of_the_timeline() -> None:
    config = Config.load({"VELLUM_DEFAULT_TTL_DAYS": "7", "VELLUM_CHUNK_SIZE": "900"})
    assert (config.timeline_default_ttl_days, config.timeline_chunk_size) == (7, 900)
