"""One entity, one node: finding doubles, merging them, and taking a merge back."""

import random
from collections.abc import Sequence
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resolve_entities
from core.errors import InvalidInput, NotFound
from core.types import EntityNames
from entity_resolve import differ_by_number, find, numbers, squash
from memory import Memory

TABLES = ("entities", "aliases", "mentions", "relations", "evidence", "chunks", "tags")


def entity(name: str, *aliases: str, kind: str = "company", mentions: int = 0) -> EntityNames:
    return EntityNames(name, kind, (name, name, *aliases), mentions)


def pairs(entities: Sequence[EntityNames]) -> set[tuple[str, str, str]]:
    return {(each.keep, each.duplicate, each.reason) for each in find(entities)[0]}


def dump(memory: Memory) -> dict[str, list[Any]]:
    """Every row of every table that a merge may touch."""
    db = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {
            table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608
            for table in TABLES
        }
    finally:
        db.close()


# --- Finding ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        (entity("Blue Heron"), entity("blueheron"), "name"),
        (entity("Blue-Heron Ltd."), entity("ＢＬＵＥ  heron ltd"), "name"),
        (entity("Café Noir"), entity("cafe noir"), "name"),
        (entity("Q.L.S."), entity("QLS"), "name"),
        (entity("特变 电工"), entity("特变电工"), "name"),
        (entity("sh600089", "特变电工", "TBEA"), entity("TBEA"), "alias"),
        (entity("sh600089", "特变电工"), entity("特变电工"), "alias"),
        (entity("sh600089", kind="stock"), entity("600089.SH", kind="stock"), "code"),
        (entity("SH600089", kind="stock"), entity("600089", kind="stock"), "code"),
        (entity("Kweichow Moutai"), entity("Kweichow Mouttai"), "spelling"),
        (entity("北京协和医院"), entity("北京协和医"), "spelling"),
    ],
)
def test_two_that_may_be_one_are_found(one: EntityNames, other: EntityNames, reason: str) -> None:
    assert {(frozenset(each[:2]), each[2]) for each in pairs([one, other])} == {
        (frozenset({one.id, other.id}), reason)
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("QLS-2", "QLS 3"),
        ("QLS", "QLS-2"),
        ("Pump 7", "Pump 8"),
        ("第一医院", "第二医院"),
        ("Phase II", "Phase III"),
        ("Terminal One", "Terminal Two"),
        ("sh600089", "sz600089"),
        ("sh600089", "sh600519"),
        ("Building A on Main Street 14", "Building A on Main Street 41"),
        ("2024", "2025"),
    ],
)
def test_what_differs_by_a_number_is_never_a_pair(wordless: Memory, one: str, other: str) -> None:
    shared = [entity(one, "the same alias"), entity(other, "the same alias")]
    assert pairs(shared) == set()
    wordless.remember("both", entities=[one, other])
    with pytest.raises(InvalidInput, match="differ by a number"):
        wordless.merge_entities(one, other)
    assert wordless.stats()["entities"]["active"] == 2


def test_different_names_are_no_pair() -> None:
    names = ["Acme", "Acre", "Bolt", "Bold Industries", "Leeds", "Ann", "Anna", "北门", "南门"]
    assert pairs([entity(name) for name in names]) == set()


def test_the_one_more_often_mentioned_is_kept() -> None:
    rare, common = entity("blueheron", mentions=1), entity("Blue Heron", mentions=9)
    assert pairs([rare, common]) == {("Blue Heron", "blueheron", "name")}


def test_the_pair_is_found_among_thousands_in_bounded_time() -> None:
    letters = random.Random(3)  # noqa: S311 - any names will do
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    word = ("".join(letters.choices(syllables, k=3)) for _ in range(6000))
    names = {f"{first} {next(word)}" for first in word}
    many = [entity(name) for name in sorted(names)]
    found, complete = find([*many, entity(many[7].id + "s")], seconds=60)
    assert (many[7].id, many[7].id + "s") in {(each.keep, each.duplicate) for each in found}
    assert complete


def test_a_search_that_runs_out_of_time_says_so(
    wordless: Memory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = [entity(f"number {n}", "everyone") for n in range(2000)]
    assert find(crowd, seconds=0.0)[1] is False
    assert find(crowd[:3], seconds=5.0)[1] is True


def test_a_name_made_to_be_slow_is_not() -> None:
    slow = [entity("_ " * 5000), entity("_ " * 4999 + "x"), entity("a" * 200), entity("a" * 199)]
    assert find(slow)[1] is True


@given(st.text(min_size=1, max_size=30))
def test_a_name_never_differs_from_itself(name: str) -> None:
    assert not differ_by_number([name], [name])
    assert numbers(name) == numbers(name.upper().lower())
    assert squash(squash(name)) == squash(name)


# --- Merging ---------------------------------------------------------------------------


@pytest.fixture
def doubled(wordless: Memory) -> Memory:
    """A memory in which one company has two nodes."""
    one = {"id": "Blue Heron", "aliases": ["BH"]}
    two = {"id": "blueheron-ltd", "kind": "company", "summary": "makes nets", "aliases": ["Heron"]}
    wordless.remember("Blue Heron pays on Fridays", entities=[one])
    wordless.remember("the nets are late", entities=[two])
    wordless.relate("Blue Heron", "Leeds", "based_in")
    wordless.relate("blueheron-ltd", "Leeds", "based_in")
    wordless.relate("blueheron-ltd", "Ann", "employs", weight=0.5)
    wordless.relate("blueheron-ltd", "Blue Heron", "same_as")
    said = wordless.remember("Ann said so")["chunk_id"]
    wordless.relate("blueheron-ltd", "Ann", "employs", weight=0.5, evidence_chunk_id=said)
    return wordless


def test_a_merge_moves_names_mentions_and_relations(doubled: Memory) -> None:
    done = doubled.merge_entities("Blue Heron", "blueheron-ltd", reason="one firm")
    assert (done["merged"], done["relations"]) == (1, 3)
    for spelling in ("Blue Heron", "BH", "Heron", "BLUEHERON-LTD"):
        graph = doubled.graph_query(spelling)
        first = graph["nodes"][0]
        said = (first["id"], first["kind"], first["summary"])
        assert said == ("Blue Heron", "company", "makes nets")
        edges = [
            (edge["source_id"], edge["relation"], edge["target_id"]) for edge in graph["edges"]
        ]
        assert sorted(edges) == [
            ("Blue Heron", "based_in", "Leeds"),
            ("Blue Heron", "employs", "Ann"),
        ], "no loop, no double"
    hits = doubled.recall("Heron", strategy="entity_only")["hits"]
    assert {"Blue Heron pays on Fridays", "the nets are late"} <= {hit["content"] for hit in hits}
    assert doubled.merge_entities("Blue Heron", "blueheron-ltd")["merged"] == 0
    assert doubled.stats()["entities"]["active"] == 3


def test_an_undone_merge_leaves_every_row_as_it_was(doubled: Memory) -> None:
    before = dump(doubled)
    audit_id = doubled.merge_entities("Blue Heron", "blueheron-ltd")["audit_id"]
    assert audit_id is not None
    assert dump(doubled) != before
    assert doubled.undo_merge(audit_id) == 1
    assert dump(doubled) == before
    assert doubled.undo_merge(audit_id) == 0
    assert dump(doubled) == before


def test_undo_keeps_what_was_said_after_the_merge(doubled: Memory) -> None:
    audit_id = doubled.merge_entities("Blue Heron", "blueheron-ltd")["audit_id"]
    assert audit_id is not None
    doubled.relate("Blue Heron", "Ann", "employs", weight=0.9)
    doubled.relate("Blue Heron", "York", "moved_to")
    doubled.undo_merge(audit_id)
    edges = doubled.graph_query("Blue Heron", max_hops=1)["edges"]
    kept = {(edge["target_id"], edge["weight"]) for edge in edges}
    assert {("York", 1.0), ("Ann", 0.9)} <= kept
    assert doubled.graph_query("blueheron-ltd")["nodes"][0]["id"] == "blueheron-ltd"


def test_undo_keeps_a_relation_that_was_said_again_after_the_merge(doubled: Memory) -> None:
    """It was taken for one that only the merge had made, and deleted."""
    audit_id = doubled.merge_entities("Blue Heron", "blueheron-ltd")["audit_id"]
    assert audit_id is not None
    again = doubled.relate("Blue Heron", "Ann", "employs", weight=0.5)
    assert again["status"] == "exists"
    doubled.undo_merge(audit_id)
    for node in ("Blue Heron", "blueheron-ltd"):
        edges = doubled.graph_query(node, max_hops=1)["edges"]
        assert ("employs", "Ann") in {(edge["relation"], edge["target_id"]) for edge in edges}


def test_undo_brings_nothing_back_that_was_forgotten_after_the_merge(doubled: Memory) -> None:
    """The relation that the merge had moved was forgotten, and the one it came from came back."""
    said = doubled.remember("blueheron-ltd rents a quay in Hull")["chunk_id"]
    doubled.relate("blueheron-ltd", "Hull", "rents_in", evidence_chunk_id=said)
    audit_id = doubled.merge_entities("Blue Heron", "blueheron-ltd")["audit_id"]
    assert audit_id is not None
    edges = doubled.graph_query("Blue Heron", max_hops=1)["edges"]
    (employs,) = (edge["id"] for edge in edges if edge["relation"] == "employs")
    doubled.forget(employs, target_kind="relation")
    doubled.forget(said)
    doubled.undo_merge(audit_id)
    for node in ("Blue Heron", "blueheron-ltd"):
        edges = doubled.graph_query(node, max_hops=1)["edges"]
        assert not {"employs", "rents_in"} & {edge["relation"] for edge in edges}


def test_undo_keeps_a_mention_that_was_given_after_the_merge(doubled: Memory) -> None:
    audit_id = doubled.merge_entities("Blue Heron", "blueheron-ltd")["audit_id"]
    assert audit_id is not None
    doubled.remember("the nets are late", entities=["Blue Heron"])
    doubled.undo_merge(audit_id)
    hits = doubled.recall("Blue Heron", strategy="entity_only")["hits"]
    assert "the nets are late" in [hit["content"] for hit in hits]


def test_a_merged_entity_named_again_is_the_other(doubled: Memory) -> None:
    doubled.merge_entities("Blue Heron", "blueheron-ltd")
    assert doubled.remember("more nets", entities=["blueheron-ltd"])["entities"] == ["Blue Heron"]
    doubled.relate("blueheron-ltd", "Hull", "ships_to")
    assert "Hull" in {node["id"] for node in doubled.graph_query("Blue Heron")["nodes"]}


def test_what_cannot_be_merged_is_refused_by_name(doubled: Memory) -> None:
    before = dump(doubled)
    with pytest.raises(NotFound, match="no entity Nobody"):
        doubled.merge_entities("Blue Heron", "Nobody")
    with pytest.raises(InvalidInput, match="one entity already"):
        doubled.merge_entities("Blue Heron", "BLUE  heron")
    with pytest.raises(InvalidInput, match="keep has a control"):
        doubled.merge_entities("x\n", "Blue Heron")
    with pytest.raises(NotFound, match="No merge of entities has the record 9999"):
        doubled.undo_merge(9999)
    doubled.forget("Ann", target_kind="entity", cascade=False)
    with pytest.raises(NotFound, match="Ann has been forgotten"):
        doubled.merge_entities("Blue Heron", "Ann")
    assert {**dump(doubled), "entities": []} == {**before, "entities": []}


def test_the_script_lists_merges_and_undoes(
    doubled: Memory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doubled.remember("a double", entities=["BlueHeron"])
    path = str(doubled.path)
    doubled.close()
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    assert resolve_entities.main(["--db", path]) == 0
    assert "Blue Heron <- BlueHeron  (1.00, name)" in capsys.readouterr().out
    assert resolve_entities.main(["--db", path, "--merge", "Blue Heron", "BlueHeron"]) == 0
    said = capsys.readouterr().out
    record = said.rsplit("--undo ", 1)[1].rstrip(".\n")
    assert resolve_entities.main(["--db", path, "--merge", "Blue Heron", "BlueHeron"]) == 0
    assert "one already" in capsys.readouterr().out
    assert resolve_entities.main(["--db", path, "--undo", record]) == 0
    assert "1 merges were undone" in capsys.readouterr().out
    assert resolve_entities.main(["--db", path, "--merge", "Blue Heron", "Nobody"]) == 1
    assert "no entity Nobody" in capsys.readouterr().err
