"""Taking back: after an undo the tables are as they were, or it is refused and nothing changes."""

import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apsw
import pytest

from core.errors import InvalidInput, MneloError, NotFound
from crash_worker import look
from hash_embedder import HashEmbedder
from inside import sqlite_of, view_of
from memories import Open, dump, sound
from memory import Memory

NOTE = "Anna keeps the key of the depot in Riga"


def last(memory: Memory, action: str | None = None) -> int:
    return int(memory.history(1, action=action)[0]["audit_id"])


def texts(memory: Memory, query: str, **asked: Any) -> list[str]:
    return [hit["content"] for hit in memory.recall(query, **asked)["hits"] if "content" in hit]


@pytest.fixture
def known(memory: Memory) -> dict[str, str]:
    """A few memories with all that may hang on them, and their ids."""
    key = memory.remember(
        NOTE,
        source="diary",
        tags=["keys"],
        entities=[{"id": "Anna", "aliases": ["Ana"], "kind": "person"}, "Riga"],
        relations=[{"source_id": "Anna", "target_id": "Riga", "relation": "lives_in"}],
    )["chunk_id"]
    ferry = memory.remember("The ferry leaves at nine", entities=["Anna"])["chunk_id"]
    memory.relate("Anna", "Otto", "knows")
    memory.relate(key, "Riga", "is_about", weight=0.5)
    return {"key": key, "ferry": ferry}


def relation(memory: Memory, name: str) -> int:
    found = memory.graph_query("Anna")["edges"]
    return next(int(edge["id"]) for edge in found if edge["relation"] == name)


ACTIONS: dict[str, Callable[[Memory, dict[str, str]], Any]] = {
    "forget a memory": lambda m, ids: m.forget(ids["key"]),
    "forget only a memory": lambda m, ids: m.forget(ids["key"], cascade=False),
    "forget an entity": lambda m, ids: m.forget("Anna", target_kind="entity"),
    "forget a relation": lambda m, ids: m.forget(relation(m, "knows"), target_kind="relation"),
    "forget what a memory is about": lambda m, ids: m.forget(
        relation(m, "is_about"), target_kind="relation"
    ),
    "update a text": lambda m, ids: m.update(ids["key"], new_content="Anna has no key in Oslo"),
    "update properties": lambda m, ids: m.update(ids["key"], new_properties={"place": "Oslo"}),
    "a new relation": lambda m, ids: m.relate(
        "Anna", "Riga", "left", evidence_chunk_id=ids["ferry"]
    ),
    "a relation of new entities": lambda m, ids: m.relate("depot", "The ferry", "near"),
    "a relation of new entities shown by a memory": lambda m, ids: m.relate(
        "depot", "Oslo", "near", evidence_chunk_id=ids["ferry"]
    ),
    "a changed relation": lambda m, ids: m.relate("Anna", "Otto", "knows", weight=0.25),
    "an earlier relation": lambda m, ids: m.relate(
        "Anna", "Otto", "knows", valid_until="2090-01-01", evidence_chunk_id=ids["key"]
    ),
    "a merge": lambda m, ids: m.merge_entities("Anna", "Otto"),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_after_an_undo_every_table_is_as_before(
    memory: Memory, known: dict[str, str], action: str
) -> None:
    before = dump(memory)
    recalled = texts(memory, "key depot Riga")
    ACTIONS[action](memory, known)
    assert dump(memory) != before
    record = last(memory)
    done = memory.undo(record)
    assert done["undone"] == record
    assert done["audit_id"] == last(memory, "undo")
    assert dump(memory) == before
    assert texts(memory, "key depot Riga") == recalled
    assert sound(memory)
    with pytest.raises(InvalidInput, match=f"Record {record} was undone already"):
        memory.undo(record)
    assert dump(memory) == before


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_done_can_be_undone_from_the_last_to_the_first(
    memory: Memory, known: dict[str, str], seed: int
) -> None:
    names = random.Random(seed).sample(list(ACTIONS), len(ACTIONS))  # noqa: S311
    done = []
    for name in names:
        before, newest = dump(memory), last(memory)
        with suppress(MneloError, StopIteration):  # what an earlier one has taken away
            ACTIONS[name](memory, known)
        if last(memory) > newest:
            done.append((last(memory), before, name))
    assert len(done) > 3
    for record, before, name in reversed(done):
        memory.undo(record)
        assert dump(memory) == before, name
    assert sound(memory)


def test_an_undo_is_seen_by_every_process_that_has_the_file_open(
    memory: Memory, open_memory: Open, known: dict[str, str]
) -> None:
    other = open_memory(model=HashEmbedder())
    assert texts(other, "Oslo") == []
    assert NOTE in texts(other, "Riga", asof="2099-01-01")
    memory.update(known["key"], new_content="Nothing but rain in Bergen")
    assert "Nothing but rain in Bergen" in texts(other, "rain Bergen")
    assert "Nothing but rain in Bergen" in texts(other, "rain Bergen", asof="2099-01-01")
    memory.undo(last(memory))
    for each in (memory, other):
        assert "Nothing but rain in Bergen" not in texts(each, "rain Bergen")
        assert "Nothing but rain in Bergen" not in texts(each, "rain", asof="2099-01-01")
        assert NOTE in texts(each, "key depot Riga")
    other.remember("Rain in Bergen again", entities=["Bergen"])
    assert "Rain in Bergen again" in texts(memory, "Bergen")
    assert sound(memory)


def test_a_memory_without_vectors_waits_for_them_again(open_memory: Open) -> None:
    wordless = open_memory()
    chunk_id = wordless.remember("still without a vector")["chunk_id"]
    wordless.forget(chunk_id)
    assert wordless.stats()["pending"] == 0
    wordless.undo(last(wordless))
    assert wordless.stats()["pending"] == 1
    assert sound(wordless)


def test_what_was_said_in_between_stays(memory: Memory, known: dict[str, str]) -> None:
    memory.forget(known["key"])
    record = last(memory)
    memory.remember("The depot was sold", entities=[{"id": "depot", "aliases": ["the key"]}])
    memory.undo(record)
    assert {NOTE, "The depot was sold"} <= set(texts(memory, "depot"))
    # Named since, and in its text: as if the memory had been there.
    assert NOTE in texts(memory, "the depot", strategy="entity_only")
    assert sound(memory)


FOR_ANOTHER_REASON: dict[str, Callable[[Memory, dict[str, str]], Any]] = {
    "told again": lambda m, ids: m.remember("The ferry leaves at nine", entities=["Riga"]),
    "shown again": lambda m, ids: m.relate("Riga", "Oslo", "by", evidence_chunk_id=ids["ferry"]),
    "not at all": lambda m, ids: None,
}


@pytest.mark.parametrize("reason", FOR_ANOTHER_REASON)
def test_a_mention_that_is_there_for_another_reason_by_now_stays(
    memory: Memory, known: dict[str, str], reason: str
) -> None:
    relation_id = memory.relate("Anna", "Riga", "left", evidence_chunk_id=known["ferry"])
    record = last(memory)
    FOR_ANOTHER_REASON[reason](memory, known)
    memory.undo(record)
    mentioned = {(row[0], row[1]) for row in dump(memory)["mentions"]}
    assert (("Riga", 2) in mentioned) == (reason != "not at all")
    assert relation_id["relation_id"] not in {row[0] for row in dump(memory)["relations"]}
    assert sound(memory)


LATER: dict[str, tuple[str, Callable[[Memory, dict[str, str]], Any], str]] = {
    "the text was remembered anew": (
        "forget a memory",
        lambda m, ids: m.remember(NOTE, source="diary"),
        "remember of chunk_",
    ),
    "the new version was updated": (
        "update a text",
        lambda m, ids: m.update(ids["key"], new_content="Anna has two keys"),
        "update of chunk_",
    ),
    "the new version was forgotten": (
        "update a text",
        lambda m, ids: m.forget(ids["key"]),
        "forget of chunk_",
    ),
    "the new version was said again": (
        "update a text",
        lambda m, ids: m.remember("Anna has no key in Oslo", source="diary"),
        "remember of chunk_",
    ),
    "something was related with the new version": (
        "update a text",
        lambda m, ids: m.relate(m.show_chunk(ids["key"])["newer_versions"][0], "Otto", "for"),
        "relate of ",
    ),
    "the entity was made again": (
        "forget an entity",
        lambda m, ids: m.remember("Anna is back", entities=["Anna"]),
        "entity of Anna",
    ),
    "the relation was said anew": (
        "forget a relation",
        lambda m, ids: m.relate("Anna", "Otto", "knows"),
        "relate of ",
    ),
    "an end of the relation was forgotten": (
        "forget a relation",
        lambda m, ids: m.forget("Otto", target_kind="entity"),
        "forget of Otto",
    ),
    "an end of the relation was updated": (
        "forget what a memory is about",
        lambda m, ids: m.update(ids["key"], new_content="Anna has one key"),
        "update of chunk_",
    ),
    "an end of a relation of the memory was forgotten": (
        "forget a memory",
        lambda m, ids: m.forget("Riga", target_kind="entity"),
        "forget of Riga",
    ),
    "the relation was said again": (
        "a new relation",
        lambda m, ids: m.relate("Anna", "Riga", "left"),
        "relate of ",
    ),
    "the relation was forgotten with an end": (
        "a new relation",
        lambda m, ids: m.forget("Anna", target_kind="entity"),
        "forget of Anna",
    ),
    "the relation was moved by a merge": (
        "a new relation",
        lambda m, ids: m.merge_entities("Otto", "Anna"),
        "merge of Otto",
    ),
    "the new entity was known earlier than it had seemed": (
        "a relation of new entities",
        lambda m, ids: m.remember("Long ago", entities=["depot"], timestamp="2001-01-01"),
        "remember of chunk_",
    ),
    "a memory is about the new entity": (
        "a relation of new entities",
        lambda m, ids: m.remember("The depot burned", entities=["depot"]),
        "remember of chunk_",
    ),
    "a memory was told again with the new entity": (
        "a relation of new entities shown by a memory",
        lambda m, ids: m.remember("The ferry leaves at nine", entities=["depot"]),
        "remember of chunk_",
    ),
    "the new entity has another name": (
        "a relation of new entities",
        lambda m, ids: m.remember("So it is", entities=[{"id": "depot", "aliases": ["shed"]}]),
        "remember of chunk_",
    ),
    "what two became was merged on": (
        "a merge",
        lambda m, ids: m.merge_entities("Riga", "Anna"),
        "merge of Riga",
    ),
}


@pytest.mark.parametrize("case", LATER)
def test_an_undo_that_later_actions_build_on_is_refused_and_names_one(
    memory: Memory, known: dict[str, str], case: str
) -> None:
    action, later, named = LATER[case]
    ACTIONS[action](memory, known)
    record = last(memory)
    later(memory, known)
    before, records = dump(memory), last(memory)
    with pytest.raises(InvalidInput, match=rf"^Record {record} \(.*: record \d+ \({named}") as said:
        memory.undo(record)
    assert dump(memory) == before
    assert last(memory) == records, "no record of what was not done"
    named_record = int(re.findall(r"record (\d+)", str(said.value))[0])
    assert record < named_record <= records


def test_once_the_later_action_is_undone_the_earlier_one_can_be(
    memory: Memory, known: dict[str, str]
) -> None:
    before = dump(memory)
    memory.update(known["key"], new_content="Anna has one key")
    first = last(memory)
    memory.update(known["key"], new_content="Anna has two keys")
    second = last(memory)
    memory.undo(second)
    memory.undo(first)
    assert dump(memory) == before


def test_what_has_no_undo_says_so(memory: Memory, known: dict[str, str]) -> None:
    memory.forget(known["key"])
    record = last(memory)
    memory.undo(record)
    undo = last(memory)
    relates = memory.relate("Anna", "Otto", "knows")
    assert relates["status"] == "exists"
    for number, said in (
        (undo, f"Record {undo} is itself an undo"),
        (last(memory, "remember"), "has no undo"),
        (last(memory, "entity"), "has no undo"),
        (last(memory, "relate"), "changed nothing"),
    ):
        with pytest.raises(InvalidInput, match=said):
            memory.undo(number)
    with pytest.raises(NotFound, match="There is no record 99999"):
        memory.undo(99999)
    with pytest.raises(InvalidInput, match="audit_id"):
        memory.undo(0)


def test_a_record_of_an_older_version_is_refused(memory: Memory, known: dict[str, str]) -> None:
    memory.forget(known["key"])
    record = last(memory)
    db = apsw.Connection(str(memory.path))
    db.execute(
        "UPDATE audit SET detail_json = '{\"edges_invalidated\": 2}' WHERE id = ?", (record,)
    )
    db.close()
    with pytest.raises(InvalidInput, match="does not hold what an undo needs"):
        memory.undo(record)


def test_a_forgotten_entity_can_be_remembered_again(memory: Memory, known: dict[str, str]) -> None:
    memory.forget("Anna", target_kind="entity")
    memory.remember("Anna came back", entities=["Anna"])
    assert memory.show_entity("Anna")["aliases"] == ["Ana"]
    assert sound(memory)


def test_the_history_tells_what_was_done_newest_first(
    memory: Memory, known: dict[str, str]
) -> None:
    memory.update(known["key"], new_content="Anna lost the key", reason="she rang")
    memory.forget(known["key"], reason="of no use")
    forgotten = last(memory)
    memory.undo(forgotten)
    newest = memory.history(3)
    assert [each["action"] for each in newest] == ["undo", "forget", "update"]
    undo, forget, update = newest
    assert (forget["undone_by"], forget["can_undo"]) == (undo["audit_id"], False)
    assert (update["undone_by"], update["can_undo"], update["reason"]) == (None, True, "she rang")
    assert update["detail"] == {"supersedes": known["key"]}
    assert not undo["can_undo"]
    # Under the id of any version.
    of_key = memory.history(target=known["key"])
    assert [each["action"] for each in of_key] == ["forget", "update", "remember"]
    assert {each["action"] for each in memory.history(action="relate")} == {"relate"}
    assert memory.history(target="Anna")[0]["kind"] == "entity"
    assert memory.history(target="nobody") == []
    for wrong in ({"limit": 0}, {"action": "destroy"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            memory.history(**wrong)


# --- What an undo leaves to others -----------------------------------------------------


def test_what_an_undo_removed_is_counted_by_no_process_any_more(
    wordless: Memory, open_memory: Open
) -> None:
    """It mentions nobody: a mention that went would have the other read everything anew."""
    other = open_memory()
    wordless.remember("the road to Bergen")
    changed = wordless.remember("nothing of the kind")["chunk_id"]
    wordless.update(changed, new_content="rain in Bergen")
    assert len(texts(other, "Bergen")) == 2
    wordless.undo(last(wordless))
    assert texts(other, "Bergen") == ["the road to Bergen"]
    with view_of(other) as view:
        assert view.snapshot().index.size == wordless.stats()["chunks"]["active"] == 2


def test_a_relation_that_an_undo_removed_leads_no_process_anywhere(
    memory: Memory, open_memory: Open, known: dict[str, str]
) -> None:
    other = open_memory(model=HashEmbedder())
    memory.remember("He waters the plants on Mondays", entities=["Okafor"])
    asked = {"strategy": "graph_only", "graph_hops": 2}
    memory.relate("Otto", "Okafor", "knows")
    assert "He waters the plants on Mondays" in texts(other, "Otto", **asked)
    memory.undo(last(memory))
    assert "He waters the plants on Mondays" not in texts(other, "Otto", **asked)


def test_a_new_entity_that_an_undo_removed_is_mentioned_by_nobody(
    memory: Memory, known: dict[str, str]
) -> None:
    memory.relate("Anna", "Zebulon", "knows")
    relate = last(memory)
    memory.remember("Zebulon sleeps in the stable")
    mentions = "SELECT count(*) FROM mentions WHERE entity_id = 'Zebulon'"
    assert look(memory.path, mentions) == [(1,)]
    memory.undo(relate)
    assert look(memory.path, mentions) == [(0,)]
    assert sound(memory)


def test_a_memory_whose_vectors_went_while_it_was_closed_waits_for_new_ones(
    memory: Memory, known: dict[str, str]
) -> None:
    memory.forget(known["ferry"])
    memory.embedding.close()
    with sqlite_of(memory).writing("") as writer:
        windows = (
            "SELECT w.rowid FROM windows w JOIN chunks c ON c.seq = w.chunk_seq WHERE c.id = ?"
        )
        for (window,) in list(writer.db.execute(windows, (known["ferry"],))):
            writer.db.execute("DELETE FROM vectors WHERE rowid = ?", (window,))
            writer.db.execute("DELETE FROM windows WHERE rowid = ?", (window,))
    memory.undo(last(memory))
    pending = "SELECT pending FROM chunks WHERE id = ?"
    assert look(memory.path, pending, (known["ferry"],)) == [(1,)]
