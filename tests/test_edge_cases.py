"""Faults that memory servers have had, each as a small story with the right ending."""

import json
import random
import string
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from config import Config
from core.errors import InvalidInput, NotFound
from core.results import Lane
from core.types import Scope, Vectors
from hash_embedder import HashEmbedder
from memories import Open
from memory import Memory
from recall.lanes import INDEPENDENT_LANES
from recall.query import Query, Ranking
from store.sqlite.view import View

LANES = ("vector_only", "meta_only", "entity_only", "graph_only", "rrf")


def contents(memory: Memory, query: str, **arguments: Any) -> list[str]:
    hits = memory.recall(query, **arguments)["hits"]
    return [hit["content"] for hit in hits if hit["chunk_id"].startswith("chunk_")]


def rows(memory: Memory, sql: str) -> list[tuple[Any, ...]]:
    db = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute(sql))
    finally:
        db.close()


def row_counts(memory: Memory) -> dict[str, int]:
    tables = ("chunks", "entities", "aliases", "mentions", "relations", "tags", "audit", "windows")
    return {table: rows(memory, f"SELECT count(*) FROM {table}")[0][0] for table in tables}  # noqa: S608


# --- Finding text, without any model ---------------------------------------------------


@pytest.mark.parametrize("query", ["周四", "周会", "二号楼", "周四 meeting", "下午三点", "会"])
def test_chinese_words_inside_a_sentence_are_found(wordless: Memory, query: str) -> None:
    wordless.remember("项目周会改到周四下午三点，地点在二号楼")
    wordless.remember("周末去植物园")
    assert contents(wordless, query)[0] == "项目周会改到周四下午三点，地点在二号楼"


PUNCTUATED = "Run the pre-build check at 40 GB/s, it's in step:two (v1.2)"


@pytest.mark.parametrize("query", ["pre-build", "GB/s", "it's", "step:two", "(v1.2", "^step"])
def test_punctuation_in_a_query_is_text_and_finds_it(wordless: Memory, query: str) -> None:
    wordless.remember(PUNCTUATED)
    assert contents(wordless, query) == [PUNCTUATED]


@pytest.mark.parametrize(
    "query", ['"unbalanced', "NOT", "AND OR", "*", 'a"b"c', "col:val -x", "NEAR("]
)
def test_search_syntax_in_a_query_is_text_and_finds_nothing_else(
    wordless: Memory, query: str
) -> None:
    wordless.remember(PUNCTUATED)
    assert wordless.recall(query)["hits"] == []


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("Python (async)", "notes on Python (async) tasks"),
        ("file*.py", "the pattern file*.py matches"),
        ("title:Python", "set title:Python in the header"),
        ('"hi', 'she said "hi there'),
        ("a-b", "the a-b test"),
        ("^x", "draw ^x upwards"),
        ("AND", "logic gates: AND, XOR"),
        ("NEAR(", "call NEAR( two )"),
        ("C++", "written in C++ mostly"),
        ("c#", "or C# at times"),
        ("back\\slash", "a back\\slash path"),
        ("it''s", "quote it''s twice"),
    ],
)
def test_what_looks_like_syntax_is_found_as_it_stands(
    wordless: Memory, query: str, wanted: str
) -> None:
    wordless.remember_many([{"content": "filler about something else"}, {"content": wanted}])
    assert contents(wordless, query)[0] == wanted


def test_percent_and_underscore_stand_for_themselves(wordless: Memory) -> None:
    for content in ("build is 100% green", "build is 1000 steps", "read_me file", "read-me file"):
        wordless.remember(content)
    wordless.relate("cfg_a", "x", "uses")
    wordless.relate("cfgXa", "y", "uses")
    assert contents(wordless, "100%") == ["build is 100% green"]
    assert contents(wordless, "read_me")[0] == "read_me file"
    assert contents(wordless, "%") == ["build is 100% green"]
    assert contents(wordless, "_") == ["read_me file"]
    assert contents(wordless, "__") == []
    assert [node["id"] for node in wordless.graph_query("cfg_a")["nodes"]] == ["cfg_a", "x"]


def test_a_percentage_does_not_find_a_longer_number(wordless: Memory) -> None:
    wordless.remember("progress is 50% done")
    wordless.remember("progress is 500 done")
    assert contents(wordless, "50%", strategy="meta_only") == ["progress is 50% done"]


def test_words_of_a_query_need_not_stand_together(wordless: Memory) -> None:
    wordless.remember("the red boat sails at dawn")
    assert contents(wordless, "boat dawn", strategy="meta_only") == ["the red boat sails at dawn"]


@pytest.mark.parametrize("query", ["600089", "0089", "sh6", "H600", "SH600089", "ｓｈ６０００８９"])
def test_a_piece_inside_a_word_is_found(wordless: Memory, query: str) -> None:
    wordless.remember("bought sh600089 again")
    wordless.remember("bought bread again")
    assert contents(wordless, query) == ["bought sh600089 again"]


def test_the_whole_word_comes_before_the_part_of_one_and_the_same_case_before_another(
    wordless: Memory,
) -> None:
    for content in ("a rowboat at noon", "a boat at noon", "a BOAT at noon"):
        wordless.remember(content)
    assert contents(wordless, "BOAT") == ["a BOAT at noon", "a boat at noon", "a rowboat at noon"]


@pytest.mark.parametrize("query", ["cafe", "CAFÉ", "ｃａｆｅ"])
def test_case_width_and_accents_do_not_matter_for_finding(wordless: Memory, query: str) -> None:
    wordless.remember("the Café Ｗｉｄｅ")
    (hit,) = wordless.recall(query)["hits"]
    assert hit["content"] == "the Café Ｗｉｄｅ"


@pytest.mark.parametrize("query", ["🎉", "👩‍👩‍👧"])
def test_an_emoji_is_found_and_comes_back_as_it_was(wordless: Memory, query: str) -> None:
    for content in ("shipped 🎉", "family 👩‍👩‍👧 photo", "one 👩 alone", "tabs\tand\u2028breaks"):
        wordless.remember(content)
    assert query in contents(wordless, query)[0]
    assert contents(wordless, "tabs") == ["tabs\tand\u2028breaks"]


def test_the_stock_note_is_found_by_words_alone(open_memory: Open) -> None:
    for memory in (open_memory(), open_memory(model=HashEmbedder())):
        memory.remember("sh600089 build at 18.96")
        memory.remember("sh600519 build at 1500")
        memory.remember("建设 discipline: never all at once")
        assert contents(memory, "sh600089 建仓")[0] == "sh600089 build at 18.96"
        memory.close()


@pytest.mark.parametrize("query", ["ab", "a", "茶", "绿茶", "喝绿茶"])
def test_short_queries_are_found(wordless: Memory, query: str) -> None:
    wordless.remember("zab zcafé 我喜欢喝绿茶")
    assert contents(wordless, query)


def test_text_with_a_nul_is_kept_and_found_behind_it(memory: Memory) -> None:
    memory.remember("before\x00after the storm")
    for strategy in ("meta_only", "vector_only"):
        assert contents(memory, "after the storm", strategy=strategy) == [
            "before\x00after the storm"
        ]


def test_half_a_character_is_replaced_on_every_path(memory: Memory) -> None:
    stored = memory.remember("half \ud83d pair")
    assert contents(memory, "half") == ["half \ufffd pair"]
    memory.update(stored["chunk_id"], new_content="whole \udc00 pair")
    assert contents(memory, "whole \udc00") == ["whole \ufffd pair"]
    with pytest.raises(InvalidInput, match="source_id has a control or invisible character"):
        memory.relate("a\ud800", "b", "likes")
    assert contents(memory, "pair") == ["whole \ufffd pair"]


# --- Forgetting, updating, remembering again -------------------------------------------


def test_what_was_forgotten_can_be_remembered_again_and_again(memory: Memory) -> None:
    ids = []
    for _ in range(5):
        ids.append(memory.remember("The staging key rotates on Mondays")["chunk_id"])
        memory.forget(ids[-1])
    last = memory.remember("The staging key rotates on Mondays")
    assert last["status"] == "stored"
    assert len({*ids, last["chunk_id"]}) == 6
    assert contents(memory, "staging key") == ["The staging key rotates on Mondays"]
    assert memory.stats()["chunks"] == {"total": 6, "active": 1, "deleted": 5}


def test_forgotten_memories_take_no_place_in_any_lane(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder())
    coffee = [f"coffee tasting note {number}: bright, citrus" for number in range(30)]
    stored = memory.remember_many([{"content": each, "entities": ["coffee"]} for each in coffee])
    for each in stored[:25]:
        memory.forget(each["chunk_id"])
    alive = set(coffee[25:])
    for _ in range(2):
        for lane in ("rrf", "vector_only", "meta_only", "entity_only"):
            assert set(contents(memory, "bright citrus coffee", strategy=lane)) == alive
        assert set(contents(memory, "bright citrus coffee", strategy="graph_only")) <= alive
        assert memory.store.upkeep.repair_vectors(dry_run=True) == dict.fromkeys(
            ("orphans", "windows", "marks", "unmarked"), 0
        )
        memory.close()
        memory = open_memory(model=HashEmbedder())


def test_ten_times_as_many_forgotten_neighbours_as_a_lane_is_deep_do_not_hide_the_live_one(
    open_memory: Open,
) -> None:
    memory = open_memory(model=HashEmbedder(), recall_lane_depth=20)
    gone = memory.remember_many([{"content": f"tea at five, {n}"} for n in range(200)])
    for each in gone:
        memory.forget(each["chunk_id"])
    memory.remember("tea at five, at last")
    for lane in ("vector_only", "meta_only"):
        assert contents(memory, "tea at five, 7", strategy=lane) == ["tea at five, at last"]


@pytest.mark.parametrize("with_model", [True, False])
def test_only_the_newest_text_answers_after_updates(open_memory: Open, with_model: bool) -> None:
    memory = open_memory(model=HashEmbedder() if with_model else None)
    chunk_id = memory.remember("The depot opens at seven")["chunk_id"]
    for hour in ("eight", "ten", "nine"):
        chunk_id = memory.update(chunk_id, new_content=f"The depot opens at {hour}")["new_chunk_id"]
    for lane in ("rrf", "meta_only", *(["vector_only"] if with_model else [])):
        for asked in ("opens at nine", "opens at seven"):
            assert contents(memory, asked, strategy=lane) == ["The depot opens at nine"]
    assert contents(memory, "seven", strategy="meta_only") == []


def test_an_update_while_the_model_is_away_gets_its_vector_when_it_is_back(
    open_memory: Open,
) -> None:
    memory = open_memory(model=HashEmbedder())
    chunk_id = memory.remember("The depot opens at seven")["chunk_id"]
    memory.close()
    memory = open_memory()
    new = memory.update(chunk_id, new_content="The depot opens at nine")["new_chunk_id"]
    assert memory.remember("the yard is closed")["embedding"] == "off"
    memory.close()
    memory = open_memory(model=HashEmbedder())
    hit = memory.recall("opens at nine", strategy="vector_only")["hits"][0]
    assert hit["chunk_id"] == new
    stats = memory.stats()
    assert (stats["vectors"], stats["pending"]) == (2, 0)


def test_a_blue_door_painted_green_is_no_longer_blue(memory: Memory) -> None:
    old = memory.remember("blue door")["chunk_id"]
    new = memory.update(old, new_content="green gate")["new_chunk_id"]
    (hit,) = memory.recall("green gate", strategy="vector_only")["hits"]
    assert hit["chunk_id"] == new
    found = memory.recall("blue door", strategy="vector_only")["hits"]
    assert old not in [hit["chunk_id"] for hit in found]


def test_the_vector_belongs_to_the_text_that_came_with_entities_and_relations(
    memory: Memory,
) -> None:
    for number in range(3):
        memory.remember(f"filler {number}")
    content = (
        "[2026-07-01] harbour crane number nine"  # said with its time, it is embedded as it is
    )
    stored = memory.remember(
        content,
        entities=["harbour", "crane"],
        relations=[{"source_id": "crane", "target_id": "harbour", "relation": "stands_in"}],
    )
    (hit, *_) = memory.recall(content, strategy="vector_only")["hits"]
    assert hit["chunk_id"] == stored["chunk_id"]
    assert hit["method"] == "vector"
    assert hit["distance"] == pytest.approx(0, abs=1e-3)


def test_a_row_deleted_from_outside_does_not_lend_its_vector_to_the_next(memory: Memory) -> None:
    memory.remember("the first text of all")
    other = apsw.Connection(str(memory.path))
    other.execute("PRAGMA foreign_keys = OFF; DELETE FROM chunks")
    other.close()
    second = memory.remember("something else entirely")["chunk_id"]
    for lane in ("vector_only", "meta_only"):
        hits = memory.recall("the first text of all", strategy=lane)["hits"]
        assert [hit["chunk_id"] for hit in hits] in ([second], [])
    memory.store.upkeep.repair_vectors(dry_run=False)
    assert sum(memory.store.upkeep.repair_vectors(dry_run=True).values()) == 0


def test_a_refused_write_leaves_nothing_behind(memory: Memory) -> None:
    before = row_counts(memory)
    bad: list[dict[str, Any]] = [
        {"content": "bad note", "entities": [{"id": "bad\nid", "kind": "x"}]},
        {"content": "bad note", "relations": [{"source_id": "a"}]},
        {
            "content": "bad note",
            "relations": [{"source_id": "a\t", "target_id": "b", "relation": "r"}],
        },
        {
            "content": "bad note",
            "relations": [{"source_id": "a", "target_id": "b", "relation": "r", "weight": 7}],
        },
        {
            "content": "bad note",
            "entities": ["x"],
            "relations": [
                {
                    "source_id": "a",
                    "target_id": "chunk_20260101T000000000Z_000000000000",
                    "relation": "r",
                }
            ],
        },
        {"content": "  \n\u200b "},
        {"content": "bad note", "timestamp": "next March"},
    ]
    for arguments in bad:
        with pytest.raises(Exception, match=r"entities|relations|content|timestamp|chunk_2026"):
            memory.remember(**arguments)
        assert row_counts(memory) == before
    memory.remember("good note")
    assert contents(memory, "bad note good", strategy="meta_only") == ["good note"]


def test_an_empty_relation_name_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="relation is blank"):
        memory.relate("a", "c", " ")
    assert memory.stats()["relations"]["total"] == 0


@pytest.mark.parametrize("importance", [True, float("nan"), "high", 5, -0.3, [0.5]])
def test_what_is_no_importance_is_refused_and_never_bent(memory: Memory, importance: Any) -> None:
    with pytest.raises(InvalidInput, match="importance must be a number from 0 to 1"):
        memory.remember("x", importance=importance)
    assert memory.stats()["chunks"]["total"] == 0


@pytest.mark.parametrize("top_k", [0, -1, 101, 4096, 4097, 1_000_000, 2**63, 2.5, True, "many"])
def test_a_limit_out_of_range_is_refused_with_the_range(memory: Memory, top_k: Any) -> None:
    with pytest.raises(InvalidInput, match="top_k must be a whole number from 1 to 100"):
        memory.recall("note", top_k=top_k)
    with pytest.raises(InvalidInput, match="max_hops must be a whole number from 0 to 5"):
        memory.graph_query("x", max_hops=top_k if top_k != 0 else -1)


@pytest.mark.parametrize(("top_k", "count"), [(1, 1), (12, 12), (13, 12), ("5", 5), (None, 5)])
def test_a_limit_in_range_is_kept_to(memory: Memory, top_k: Any, count: int) -> None:
    memory.remember_many([{"content": f"note {number}"} for number in range(12)])
    for strategy in ("rrf", "vector_only", "meta_only"):
        assert len(memory.recall("note", top_k=top_k, strategy=strategy)["hits"]) == count


def test_more_memories_than_vec0_answers_at_once_are_all_searched(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder(16), limits_top_k=1000)
    many = [{"content": f"grain {number}", "source": "sand"} for number in range(4500)]
    memory.remember_many([*many, {"content": "a lone pearl", "source": "sea"}])
    assert contents(memory, "a lone pearl", strategy="vector_only", top_k=1) == ["a lone pearl"]
    found = memory.recall("grain 7", strategy="vector_only", top_k=1000, max_tokens=0)["hits"]
    assert len(found) == 1000


def test_a_long_text_is_found_by_any_of_its_parts(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder(512))
    letters = random.Random(7)  # noqa: S311 - any letters will do
    filler = ". ".join("".join(letters.choices(string.ascii_lowercase, k=40)) for _ in range(90))
    memory.remember(f"{filler}. The heron nests by the weir. {filler}")
    for number in range(30):
        memory.remember(f"{number} {filler[number * 30 : number * 30 + 300]}")
    memory.fill_pending()
    hits = memory.recall("The heron nests by the weir", strategy="vector_only", top_k=1)["hits"]
    assert "The heron nests" in hits[0]["content"]


# --- Entities --------------------------------------------------------------------------


def test_naming_an_entity_again_keeps_what_is_not_said_anew(memory: Memory) -> None:
    full = {
        "id": "e",
        "kind": "stock",
        "name": "Moutai",
        "summary": "liquor",
        "aliases": ["b1"],
        "properties": {"quote": 'say "hi"', "n": 1},
    }
    memory.remember("one", entities=[full])
    memory.remember("two", entities=["E", {"id": "e", "properties": {"n": 2}}])
    (node,) = memory.graph_query("b1")["nodes"]
    assert node == {"id": "e", "kind": "stock", "name": "Moutai", "summary": "liquor", "hops": 0}
    sql = "SELECT properties_json FROM entities WHERE valid_until IS NULL"
    assert json.loads(rows(memory, sql)[0][0]) == {"quote": 'say "hi"', "n": 2}


def test_an_entity_changes_its_kind_and_the_old_one_stays_as_history(memory: Memory) -> None:
    memory.remember("one", entities=[{"id": "e", "kind": "concept"}])
    memory.remember("two", entities=[{"id": "e", "kind": "person", "name": "Eve"}])
    (node,) = memory.graph_query("e")["nodes"]
    assert (node["kind"], node["name"]) == ("person", "Eve")
    kinds = rows(memory, "SELECT kind, valid_until IS NULL FROM entities ORDER BY seq")
    assert kinds == [("concept", 0), ("person", 1)]


def test_an_entity_without_aliases_breaks_nothing(memory: Memory) -> None:
    memory.remember("a note", entities=[{"id": "Zed", "kind": "person", "aliases": None}])
    assert contents(memory, "Zed") == ["a note"]


@pytest.mark.parametrize("kind", ["person", "identity_fact"])
def test_a_forgotten_entity_can_come_back(memory: Memory, kind: str) -> None:
    memory.remember("one", entities=[{"id": "e", "kind": kind, "name": "Eve"}])
    memory.forget("e", target_kind="entity")
    assert memory.stats()["entities"]["active"] == 0
    memory.remember("two", entities=["e"])
    (node,) = memory.graph_query("Eve")["nodes"]
    assert (node["kind"], node["name"]) == (kind, "Eve")
    assert rows(memory, "SELECT count(*) FROM entities WHERE id = 'e'") == [(2,)]


def test_one_entity_has_one_node_however_it_is_spelled(memory: Memory) -> None:
    for spelling in ("QLS", "qls", " QLS ", "ＱＬＳ"):
        memory.remember(f"note by {spelling.strip()}!", entities=[spelling])
    memory.relate("Blue Heron", "QLS", "owns")
    memory.relate("blue  heron", "QLS-2", "owns")
    memory.relate("blue heron", "QLS 3", "owns")
    graph = memory.graph_query("BLUE HERON")
    assert [node["id"] for node in graph["nodes"]] == ["Blue Heron", "QLS", "QLS 3", "QLS-2"]
    assert memory.stats()["entities"]["total"] == 4


def test_ids_of_any_script_are_kept_as_first_spelled(memory: Memory) -> None:
    names = ["C#", "O'Neil & Co", "team/blue", "北门"]
    memory.remember("names", entities=names)
    for name in names:
        assert memory.graph_query(name)["nodes"][0]["id"] == name


# --- Lanes -----------------------------------------------------------------------------


def test_the_graph_finds_what_shares_an_entity_without_any_relation(open_memory: Open) -> None:
    for model in (None, HashEmbedder()):
        memory = open_memory(model=model)
        memory.remember("the audit is on Tuesday", entities=["e"], source="A")
        memory.remember("bring the blue folder", entities=["e"], source="B")
        found = contents(memory, "the audit is on Tuesday", strategy="graph_only")
        assert found == ["bring the blue folder"]
        memory.forget(memory.recall("blue folder")["hits"][0]["chunk_id"])
        memory.close()


def test_evidence_of_a_relation_links_its_memory(wordless: Memory) -> None:
    said = wordless.remember("they signed on Monday")["chunk_id"]
    wordless.relate("Acme", "Bolt", "bought", evidence_chunk_id=said)
    wordless.remember("Bolt makes screws")
    assert contents(wordless, "Acme", strategy="entity_only") == ["they signed on Monday"]
    assert contents(wordless, "Acme", strategy="graph_only", graph_hops=1) == []
    assert contents(wordless, "signed Monday", strategy="graph_only") == ["Bolt makes screws"]


def test_hops_are_counted(wordless: Memory) -> None:
    wordless.remember("alpha text", entities=["e1"])
    wordless.remember("omega text", entities=["e2"])
    wordless.relate("e1", "e2", "leads_to")
    found = {
        hops: contents(wordless, "alpha", strategy="graph_only", graph_hops=hops)
        for hops in range(4)
    }
    assert found == {0: [], 1: [], 2: [], 3: ["omega text"]}


def test_the_graph_returns_a_fact_even_when_no_other_memory_is_linked(wordless: Memory) -> None:
    fact = {"id": "identity:city", "kind": "identity_fact", "summary": "lives in Leeds"}
    wordless.remember("moved house last year", entities=[fact])
    (hit,) = wordless.recall("moved house", strategy="graph_only")["hits"]
    assert (hit["entity_id"], hit["content"]) == ("identity:city", "lives in Leeds")


@pytest.mark.parametrize("strategy", ["rrf", "entity_only"])
def test_an_alias_and_a_stock_are_found_by_the_entity_lane_alone_as_in_the_fusion(
    wordless: Memory, strategy: str
) -> None:
    stock = {"id": "sh600089", "kind": "stock", "name": "特变电工", "aliases": ["TBEA"]}
    wordless.remember("the target is 25", entities=[stock])
    for query in ("TBEA", "tbea outlook", "sh600089", "特变电工"):
        hits = wordless.recall(query, strategy=strategy)["hits"]
        assert {hit["chunk_id"].partition(":")[0] for hit in hits} >= {"entity"}
        assert "the target is 25" in [hit["content"] for hit in hits]


def test_no_lane_overwrites_what_another_said_of_a_hit(memory: Memory) -> None:
    memory.remember("the red boat sails")
    (hit,) = memory.recall("red boat")["hits"]
    assert set(hit["lanes"]) == {"vector", "meta"}
    assert "distance" in hit
    assert hit["score"] > hit["rrf_score"] > 0


def test_equal_scores_come_in_the_same_order_every_time(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder())
    for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN":
        memory.remember(f"the shelf holds jar {letter}", timestamp="2026-01-01")
    for _ in range(2):
        five = [contents(memory, "shelf jar", top_k=5) for _ in range(20)]
        ten = contents(memory, "shelf jar", top_k=10)
        assert five == [ten[:5]] * 20
        memory.close()
        memory = open_memory(model=HashEmbedder())
        assert contents(memory, "shelf jar", top_k=10) == ten


@pytest.mark.parametrize("late", ["vector", "meta", "entity"])
def test_a_lane_that_is_late_does_not_change_the_order(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, late: Lane
) -> None:
    for letter in "abcdefgh":
        memory.remember(f"the shelf holds jar {letter}", timestamp="2026-01-01", entities=["shelf"])
    in_time = memory.recall("shelf jar")
    lane = INDEPENDENT_LANES[late]

    def delayed(view: View, query: Query) -> Ranking:
        time.sleep(0.05)
        return lane(view, query)

    monkeypatch.setitem(INDEPENDENT_LANES, late, delayed)
    assert memory.recall("shelf jar") == in_time


def test_the_newer_comes_first_among_equals(wordless: Memory) -> None:
    for day in ("01", "03", "02"):
        wordless.remember("the same words", timestamp=f"2026-01-{day}", session_id=day)
    days = [hit["timestamp"][8:10] for hit in wordless.recall("same words")["hits"]]
    assert days == ["03", "02", "01"]


def test_two_files_in_one_folder_keep_apart(open_memory: Open) -> None:
    first = open_memory(model=HashEmbedder())
    second = open_memory(model=HashEmbedder(), path=first.path.with_name("b.db"))
    first.remember("only in the first")
    second.remember("only in the second")
    for lane in LANES:
        assert "only in the first" not in contents(second, "only in the first", strategy=lane)


# --- Models ----------------------------------------------------------------------------


def test_another_model_is_said_and_mixes_nothing(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder(64, "test/one"))
    memory.remember("the red boat")
    memory.close()
    for other in (HashEmbedder(32, "test/two"), HashEmbedder(64, "test/two")):
        memory = open_memory(model=other)
        stored = memory.remember(f"the blue boat of {other.dim}")
        assert stored["embedding"] == "off"
        reply = memory.recall("red boat")
        assert reply["hits"][0]["content"] == "the red boat"
        assert "vector" not in reply["hits"][0]["lanes"]
        assert "test/two" in reply["notice"]
        assert "test/one" in reply["notice"]
        assert "test/two" in memory.stats()["lanes"]["vector"]
        memory.close()
    memory = open_memory(model=HashEmbedder(64, "test/one"))
    assert len(contents(memory, "boat", strategy="vector_only")) == 3
    assert memory.stats()["pending"] == 0


def test_without_a_model_every_reply_says_so_and_the_other_lanes_answer(wordless: Memory) -> None:
    assert wordless.remember("the red boat", entities=["boat"])["embedding"] == "off"
    reply = wordless.recall("boat")
    assert reply["hits"]
    assert reply["notice"].startswith("Vectors are off")
    stats = wordless.stats()
    assert stats["pending"] == 1
    assert stats["embedder"]["state"] == "off"
    assert "embedder.model is none" in stats["lanes"]["vector"]


def test_a_model_that_takes_its_time_holds_nobody_up(tmp_path: Path) -> None:
    arrived = threading.Event()

    def load(recorded: str | None) -> HashEmbedder:
        arrived.wait(30)
        return HashEmbedder()

    config = Config.load(embedder_wait_seconds=0)
    with Memory(tmp_path / "memory.db", config=config, load_model=load) as memory:
        assert memory.remember("the red boat")["embedding"] == "pending"
        reply = memory.recall("boat")
        assert [hit["content"] for hit in reply["hits"]] == ["the red boat"]
        assert "still loading" in reply["notice"]
        assert "1 memories still wait" in reply["notice"]
        arrived.set()
        assert memory.wait_for_model(10)
        memory.fill_pending()
        assert contents(memory, "boat", strategy="vector_only") == ["the red boat"]
        assert "notice" not in memory.recall("boat")


def test_a_recall_first_embeds_the_memories_that_wait(open_memory: Open) -> None:
    memory = open_memory()
    memory.remember_many([{"content": f"grain {number}"} for number in range(40)])
    memory.close()
    memory = open_memory(model=HashEmbedder())
    found = memory.recall("grain 7", strategy="vector_only", top_k=40)
    assert len(found["hits"]) == 40
    assert "notice" not in found


def test_a_memory_that_fails_to_load_its_model_says_why(tmp_path: Path) -> None:
    def load(recorded: str | None) -> HashEmbedder:
        raise RuntimeError("no such device")

    with Memory(tmp_path / "memory.db", load_model=load) as memory:
        assert not memory.wait_for_model(10)
        assert memory.remember("the red boat")["embedding"] == "off"
        reply = memory.recall("boat")
        assert [hit["content"] for hit in reply["hits"]] == ["the red boat"]
        assert "no such device" in reply["notice"]


def test_a_part_of_an_ordinary_word_does_not_outweigh_what_was_meant(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder(512))
    memory.remember("my bicycle was repaired by Ann")
    for number in range(12):
        memory.remember(f"Meeting {number}: budget and gadgets")
    assert contents(memory, "who can get it repaired", top_k=1) == [
        "my bicycle was repaired by Ann"
    ]
    assert len(contents(memory, "get zzz", strategy="meta_only", top_k=20)) == 12


def test_defaults_keep_within_limits_that_are_set_lower(open_memory: Open) -> None:
    memory = open_memory(limits_hops=1, limits_top_k=3, limits_graph_nodes=2)
    memory.remember_many([{"content": f"note {n}", "entities": [f"e{n}"]} for n in range(5)])
    for number in range(4):
        memory.relate("e0", f"e{number + 1}", "next_to")
    assert len(contents(memory, "note")) == 3
    assert len(memory.graph_query("e0")["nodes"]) == 2
    with pytest.raises(InvalidInput, match="graph_hops must be a whole number from 0 to 1"):
        memory.recall("note", graph_hops=2)


class Choosy(HashEmbedder):
    """Fails over texts that it does not like."""

    def passages(self, texts: Sequence[str]) -> Vectors:
        if any("zebra" in text for text in texts):
            raise RuntimeError("no zebras")
        return super().passages(texts)


def test_a_model_that_fails_over_a_text_keeps_no_memory_from_being_stored(
    open_memory: Open,
) -> None:
    memory = open_memory(model=Choosy())
    assert memory.remember("the zebra crosses the road")["embedding"] == "pending"
    assert memory.remember("the horse stays")["embedding"] == "stored"
    reply = memory.recall("zebra")
    assert "the zebra crosses the road" in [hit["content"] for hit in reply["hits"]]
    assert "1 memories still wait" in reply["notice"]
    assert memory.remember("the donkey follows")["embedding"] == "stored"


def test_a_lane_that_keeps_failing_leaks_no_file_and_the_others_answer(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(view: View, query: Query) -> Ranking:
        raise RuntimeError("the lane is broken")

    memory.remember("the red boat")
    memory.recall("boat")
    monkeypatch.setitem(INDEPENDENT_LANES, "entity", fails)
    descriptors = Path("/proc/self/fd") if Path("/proc/self/fd").exists() else Path("/dev/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(100):
        assert contents(memory, "boat") == ["the red boat"]
    assert len(list(descriptors.iterdir())) <= before + 2


def test_forty_thousand_ids_are_no_more_than_four(memory: Memory) -> None:
    chunk_id = memory.remember("the red boat")["chunk_id"]
    many = [*(f"chunk_{number}" for number in range(40_000)), chunk_id]
    with memory.store.view() as view:
        assert [row.id for row in view.chunks(many, Scope())] == [chunk_id]
        assert view.entities(many, Scope()) == {}


def test_a_relation_that_fails_inside_a_memory_undoes_all_of_it_and_the_next_write_works(
    memory: Memory,
) -> None:
    good = {"source_id": "a", "target_id": "b", "relation": "knows"}
    bad = {**good, "evidence_chunk_id": "chunk_20260101T000000000Z_000000000000"}
    before = row_counts(memory)
    with pytest.raises(NotFound):
        memory.remember("half a memory", relations=[good, bad], entities=["c"], tags=["t"])
    assert row_counts(memory) == before
    assert memory.remember("a whole memory", relations=[good])["status"] == "stored"


@pytest.mark.parametrize("query", ["who am I", "我是谁", "user", "tell me about myself"])
def test_nobody_is_built_in_who_is_asked_about(wordless: Memory, query: str) -> None:
    fact = {"id": "identity:city", "kind": "identity_fact", "summary": "lives in Leeds"}
    wordless.remember("an unrelated sentence on kettles", entities=[fact])
    assert wordless.recall(query)["hits"] == []
