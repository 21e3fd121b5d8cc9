"""What each tool promises, on a real file."""

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from core.errors import InvalidInput, MneloError, NotFound
from crash_worker import look
from hash_embedder import Failing, HashEmbedder
from memories import Open
from memory import CLIENT, Memory
from recall import search
from recall.hits import Fused, fuse
from recall.lanes import INDEPENDENT_LANES
from recall.query import Ranking


def contents(memory: Memory, query: str, **arguments: Any) -> list[str]:
    return [hit["content"] for hit in memory.recall(query, **arguments)["hits"]]


def rows(memory: Memory, sql: str, *bound: Any) -> list[tuple[Any, ...]]:
    """Read the file as any other SQLite user would."""
    db = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute(sql, bound))
    finally:
        db.close()


# --- remember --------------------------------------------------------------------------


def test_what_is_remembered_is_recalled_with_all_that_was_said_of_it(memory: Memory) -> None:
    stored = memory.remember(
        "sh600089 build at 18.96", source="trading", importance=0.9, timestamp="2026-07-01T10:00Z"
    )
    assert stored["status"] == "stored"
    assert stored["embedding"] == "stored"
    (hit,) = memory.recall("sh600089 build")["hits"]
    assert hit["chunk_id"] == stored["chunk_id"]
    assert (hit["content"], hit["source"]) == ("sh600089 build at 18.96", "trading")
    assert (hit["importance"], hit["timestamp"]) == (0.9, "2026-07-01T10:00:00.000Z")


def test_ids_sort_by_time_and_name_it(memory: Memory) -> None:
    ids = [memory.remember(f"note {number}")["chunk_id"] for number in range(3)]
    assert all(re.fullmatch(r"chunk_\d{8}T\d{9}Z_[0-9a-f]{12}", each) for each in ids)
    assert [each[:25] for each in ids] == sorted(each[:25] for each in ids)


def test_the_same_live_memory_is_folded_and_any_other_stored(memory: Memory) -> None:
    first = memory.remember("the gate code is 4711", source="home")
    again = memory.remember("the gate code is 4711", source="home")
    assert (again["status"], again["chunk_id"]) == ("exists", first["chunk_id"])
    others: list[dict[str, Any]] = [
        {"content": "the gate code is 4711 "},
        {"content": "the gate code is 4711", "source": "work"},
        {"content": "the gate code is 4711", "source": "home", "session_id": "s2"},
        {"content": "the gate code is 4711", "source": "home", "timestamp": "2020-01-01"},
    ]
    for other in others:
        assert memory.remember(**other)["status"] == "stored"
    assert memory.stats()["chunks"]["active"] == 5


def test_folding_adds_what_is_new_about_it(memory: Memory) -> None:
    memory.remember("the pump failed")
    memory.remember("the pump failed", tags=["urgent"], entities=["Pump 7"])
    assert contents(memory, "pump", filters={"tag": "urgent"}) == ["the pump failed"]
    assert contents(memory, "Pump 7", strategy="entity_only", filters={"tag": "urgent"})


def test_an_entity_given_for_a_memory_that_named_it_already_outlives_an_update(
    memory: Memory,
) -> None:
    """The link was there as one read in the text, and went when the name did."""
    memory.remember("Anna moved to Riga")
    chunk = memory.remember("Anna moved to Riga", entities=["Anna"])["chunk_id"]
    memory.update(chunk, new_content="She moved in May")
    assert "She moved in May" in contents(memory, "Anna", strategy="entity_only")


def test_remember_many_stores_all_or_none(memory: Memory) -> None:
    items: list[dict[str, Any]] = [{"content": f"item {number}"} for number in range(20)]
    assert [each["status"] for each in memory.remember_many(items)] == ["stored"] * 20
    with pytest.raises(InvalidInput, match=r"items\[1\]\.importance"):
        memory.remember_many([{"content": "good"}, {"content": "bad", "importance": 7}])
    with pytest.raises(InvalidInput, match=r"items\[1\] does not know colour"):
        memory.remember_many([{"content": "good"}, {"content": "bad", "colour": "red"}])
    assert memory.stats()["chunks"]["active"] == 20


def test_remember_tells_of_memories_that_say_nearly_the_same(memory: Memory) -> None:
    first = memory.remember("The depot opens at seven in the morning on weekdays")
    second = memory.remember("The depot opens at seven in the morning on weekdays!")
    assert [each["chunk_id"] for each in second["similar"]] == [first["chunk_id"]]
    assert 0.9 < second["similar"][0]["similarity"] <= 1.0
    assert "similar" not in memory.remember("猫在窗台上睡觉")


def test_an_entity_may_be_a_plain_string_and_is_then_a_concept(memory: Memory) -> None:
    stored = memory.remember("met the team", entities=["QLS", {"id": "Ann", "kind": "person"}])
    assert stored["entities"] == ["QLS", "Ann"]
    nodes = {
        node["id"]: node["kind"]
        for each in ("QLS", "Ann")
        for node in memory.graph_query(each)["nodes"]
    }
    assert nodes == {"QLS": "concept", "Ann": "person"}


def test_a_name_in_a_text_links_it_whichever_came_first(wordless: Memory) -> None:
    wordless.remember("Blue  Heron pays on Fridays")
    wordless.remember("特变电工在新疆建厂")
    wordless.remember("intro", entities=[{"id": "bh", "kind": "company", "name": "Blue Heron"}])
    wordless.remember("intro 2", entities=[{"id": "sh600089", "kind": "stock", "name": "特变电工"}])
    wordless.remember("the blue heron audit is in May")
    wordless.remember("600089.SH 涨停")
    wordless.remember("the heron is blue")
    only = {"strategy": "entity_only", "top_k": 10}
    assert set(contents(wordless, "Blue Heron", filters={"kind": "company"}, **only)) >= {
        "Blue  Heron pays on Fridays",
        "the blue heron audit is in May",
    }
    assert "the heron is blue" not in contents(
        wordless, "Blue Heron", filters={"kind": "company"}, **only
    )
    assert {"特变电工在新疆建厂", "600089.SH 涨停"} <= set(contents(wordless, "SH600089", **only))


def test_a_name_links_what_is_remembered_with_it_before_and_after(wordless: Memory) -> None:
    given = [{"id": "bh", "name": "Blue Heron"}, "topic:600089"]
    wordless.remember("Blue Heron pays on Fridays")
    wordless.remember_many(
        [
            {"content": "the blue heron audit, SH600089"},
            {"content": "intro", "entities": given},
            {"content": "Blue Heron moved"},
            {"content": "the heron is blue"},
        ]
    )
    sql = "SELECT entity_id, chunk_seq, origin FROM mentions ORDER BY 1, 2"
    assert look(wordless.path, sql) == [
        ("bh", 1, "found"),
        ("bh", 2, "found"),
        ("bh", 3, "given"),
        ("bh", 4, "found"),
        ("topic:600089", 2, "found"),
        ("topic:600089", 3, "given"),
    ]


# --- recall ----------------------------------------------------------------------------


def test_every_hit_says_which_lanes_found_it_and_at_what_rank(memory: Memory) -> None:
    memory.remember("the red boat sails at dawn", entities=["red boat"])
    hits = memory.recall("red boat")["hits"]
    chunk = next(hit for hit in hits if hit["chunk_id"].startswith("chunk_"))
    assert chunk["lanes"] == {"vector": 1, "meta": 1, "entity": 1}
    assert chunk["method"] in chunk["lanes"]
    config = memory.config
    weights = config.recall_vector_weight + config.recall_meta_weight + config.recall_entity_weight
    assert chunk["rrf_score"] == pytest.approx(weights / 61, abs=1e-6)
    assert chunk["score"] > chunk["rrf_score"]
    assert chunk["match"] == 1
    assert chunk["similarity"] == pytest.approx(1 - chunk["distance"] ** 2 / 2, abs=1e-3)
    assert "explain" not in chunk


def test_explain_tells_each_lanes_part_and_what_matched(memory: Memory) -> None:
    memory.remember("the red boat belongs to Ann", entities=["Ann"])
    memory.remember("Ann moved to Leeds", entities=["Ann"])
    hits = [hit for hit in memory.recall("red boat", explain=True)["hits"] if "match" in hit]
    reasons = {hit["content"]: hit["explain"] for hit in hits}
    assert reasons["the red boat belongs to Ann"]["meta"]["because"] == ["red", "boat"]
    path = reasons["Ann moved to Leeds"]["graph"]["because"]
    assert path[1] == "entity:Ann"
    assert path[0].startswith("chunk_")
    for hit in hits:
        pieces = hit["explain"].pop("evidence")
        assert sum(pieces.values()) == pytest.approx(hit["score"], abs=0.01)
        parts = hit["explain"].values()
        assert sum(part["score"] for part in parts) == pytest.approx(hit["rrf_score"], abs=1e-5)


def test_entities_share_the_ranking_but_take_no_chunks_place(wordless: Memory) -> None:
    for number in range(5):
        wordless.remember(f"QLS note {number}", entities=["QLS", "QLS East", "QLS West"])
    hits = wordless.recall("QLS", top_k=3)["hits"]
    entities = [hit for hit in hits if hit["chunk_id"].startswith("entity:")]
    assert len(hits) - len(entities) == 3
    assert len(entities) == 2
    assert entities[0]["entity_id"] == "QLS"
    assert entities[0]["content"] == "QLS"
    hits = wordless.recall("QLS", top_k=3, filters={"source": "manual"})["hits"]
    assert not [hit for hit in hits if hit["chunk_id"].startswith("entity:")]


def test_a_stock_named_whole_comes_first_and_a_part_of_its_name_gains_nothing(
    wordless: Memory,
) -> None:
    wordless.remember("a note", entities=[{"id": "sh600519", "kind": "stock", "name": "Moutai"}])
    for query in ("sh600519", "SH600519", "600519", "600519.SH", "moutai", "how is 600519 doing"):
        hit = wordless.recall(query)["hits"][0]
        assert hit["entity_id"] == "sh600519", query
        assert hit["rrf_score"] > 0.05
    assert all(hit["rrf_score"] < 0.05 for hit in wordless.recall("ou")["hits"])
    assert all(hit["rrf_score"] < 0.05 for hit in wordless.recall("mou")["hits"])
    assert not wordless.recall("sz600519", strategy="entity_only")["hits"]


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"source": "trading"}, {"boat one", "boat four"}),
    ({"source": "TRADING"}, {"boat one", "boat four"}),
    ({"session_id": "s2"}, {"boat two"}),
    ({"tag": "Sea"}, {"boat one", "boat three"}),
    ({"kind": "person"}, {"boat three", "boat four"}),
    ({"min_importance": 0.7}, {"boat one"}),
    ({"time_from": "2026-03-01"}, {"boat two", "boat three", "boat four"}),
    ({"time_to": "2026-02-28"}, {"boat one"}),
    ({"time_from": "2026-03-01", "time_to": "2026-03-01"}, {"boat two"}),
    ({"source": "trading", "kind": "person"}, {"boat four"}),
]


@pytest.mark.parametrize(("filters", "expected"), FILTERS)
@pytest.mark.parametrize(
    "strategy", ["rrf", "vector_only", "meta_only", "entity_only", "graph_only"]
)
def test_a_filter_holds_in_every_lane(
    open_memory: Open, filters: dict[str, Any], expected: set[str], strategy: str
) -> None:
    memory = open_memory(model=HashEmbedder(), timezone="utc")
    ann = {"id": "Ann", "kind": "person"}
    memory.remember_many(
        [
            {
                "content": "boat one",
                "source": "trading",
                "tags": ["sea"],
                "importance": 0.9,
                "timestamp": "2026-02-28T23:59:59Z",
                "entities": ["boat"],
            },
            {
                "content": "boat two",
                "session_id": "s2",
                "timestamp": "2026-03-01",
                "entities": ["boat"],
            },
            {"content": "boat three", "tags": ["SEA"], "entities": ["boat", ann]},
            {"content": "boat four", "source": "trading", "entities": ["boat", ann]},
        ]
    )
    hits = memory.recall("boat Ann", filters=filters, strategy=strategy, top_k=10)["hits"]
    found = {hit["content"] for hit in hits if hit["chunk_id"].startswith("chunk_")}
    if strategy == "graph_only":  # it returns what it reached beyond its seeds, so perhaps less
        assert found <= expected
    else:
        assert found == expected


def test_a_filter_cuts_before_the_limit_not_after(memory: Memory) -> None:
    memory.remember_many([{"content": f"tea number {number}"} for number in range(300)])
    memory.remember("green tea", source="kitchen")
    for strategy in ("rrf", "vector_only", "meta_only"):
        found = contents(memory, "tea number 7", filters={"source": "kitchen"}, strategy=strategy)
        assert found == ["green tea"]


def test_an_unknown_filter_is_refused_by_name(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="filters does not know colour; allowed: source, kind"):
        memory.recall("boat", filters={"colour": "red"})


def test_the_reply_keeps_to_its_budget(wordless: Memory) -> None:
    long = "x " * 3000 + "the needle is here" + " y" * 3000
    wordless.remember(long)
    for number in range(40):
        wordless.remember(f"needle note {number}: " + "some words " * 20)
    reply = wordless.recall("needle", top_k=40, max_tokens=1000)
    assert len(json.dumps(reply["hits"], ensure_ascii=False)) / 4 <= 1000
    assert 1 < len(reply["hits"]) < 41
    assert "did not fit into max_tokens" in reply["notice"]
    everything = wordless.recall("needle", top_k=41, max_tokens=0)
    assert long in [hit["content"] for hit in everything["hits"]]


def test_a_memory_too_long_for_the_budget_is_shown_around_its_match(wordless: Memory) -> None:
    wordless.remember("x " * 3000 + "the needle is here" + " y" * 3000)
    (hit,) = wordless.recall("needle", max_tokens=300)["hits"]
    assert hit["truncated"] is True
    assert "needle" in hit["content"]
    assert len(hit["content"]) < 1200


def test_a_query_that_nothing_matches_says_so(wordless: Memory) -> None:
    wordless.remember("the red boat")
    reply = wordless.recall("quantum chromodynamics")
    assert reply["hits"] == []
    assert reply["notice"].startswith("Nothing stored matches.")


def test_placeholder_queries_are_not_searched_for_and_the_list_can_be_changed(
    open_memory: Open,
) -> None:
    memory = open_memory()
    memory.remember("demo on Friday at 茶 house")
    reply = memory.recall("demo")
    assert reply["hits"] == []
    assert "placeholder" in reply["notice"]
    assert contents(memory, "demo Friday") == ["demo on Friday at 茶 house"]
    assert contents(memory, "茶") == ["demo on Friday at 茶 house"]
    assert memory.stats()["recall_24h"]["count"] == 2
    memory.close()
    again = open_memory(recall_placeholders="Café wibble")
    assert contents(again, "demo") == ["demo on Friday at 茶 house"]
    assert "placeholder" in again.recall(" CAFE  Wibble ")["notice"]


def test_a_recall_is_logged_after_the_answer_with_the_best_five(memory: Memory) -> None:
    for number in range(8):
        memory.remember(f"tea note {number}")
    token = CLIENT.set("tester")
    try:
        found = memory.recall("tea note", top_k=7)["hits"]
    finally:
        CLIENT.reset(token)
    assert memory.stats()["recall_24h"]["count"] == 1
    ((query, results, details, client, hops),) = rows(
        memory,
        "SELECT query, results_json, recall_details_json, client, graph_hops FROM recall_log",
    )
    assert (query, client, hops) == ("tea note", "tester", 2)
    assert json.loads(results) == [hit["chunk_id"] for hit in found]
    best = json.loads(details)
    assert [each["rank"] for each in best] == [1, 2, 3, 4, 5]
    assert set(best[0]) == {"rank", "chunk_id", "method", "distance", "rrf_score", "importance"}
    assert best[0]["chunk_id"] == found[0]["chunk_id"]
    counted = rows(memory, "SELECT count(*) FROM chunks WHERE recall_count = 1")
    assert counted == [(7,)]


def test_each_recall_counts_once_for_all_that_it_returned(wordless: Memory) -> None:
    wordless.remember("the red boat", entities=["boat"])
    wordless.remember("the blue kite", entities=["kite"])
    for query in ("boat", "kite", "boat", "boat"):
        wordless.recall(query)
    wordless.stats()  # which waits for the log
    counted = rows(
        wordless,
        "SELECT recall_count FROM chunks UNION ALL SELECT recall_count FROM entities ORDER BY 1",
    )
    assert counted == [(1,), (1,), (3,), (3,)]
    for last in (
        "SELECT max(last_recalled) FROM chunks",
        "SELECT max(last_recalled) FROM entities",
    ):
        assert rows(wordless, last) == rows(wordless, "SELECT max(created_at) FROM recall_log")


def test_what_is_closed_while_it_is_ranked_is_passed_over(
    wordless: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        wordless.remember(f"boat {number}", timestamp=f"2024-01-{number + 1:02}")

    def fuse_and_be_overtaken(*given: Any) -> Fused:
        fused = fuse(*given)
        for hit in best[:4]:
            wordless.forget(hit["chunk_id"])
        return fused

    best = wordless.recall("boat", top_k=12)["hits"]
    monkeypatch.setattr(search, "fuse", fuse_and_be_overtaken)
    found = wordless.recall("boat", top_k=3)["hits"]
    assert [hit["content"] for hit in found] == [hit["content"] for hit in best[4:7]]
    assert [hit["lanes"] for hit in found] == [hit["lanes"] for hit in best[4:7]]


def test_a_log_that_cannot_be_written_does_not_fail_the_answer(memory: Memory) -> None:
    memory.remember("the red boat")
    other = apsw.Connection(str(memory.path))
    other.execute("DROP TABLE recall_log")
    other.close()
    assert contents(memory, "boat") == ["the red boat"]


def test_a_lane_that_fails_leaves_the_others_to_answer_and_is_named(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.remember("the red boat")
    other = apsw.Connection(str(memory.path))
    other.execute("DROP TABLE name_words")
    other.close()
    reply = memory.recall("boat")
    assert [hit["content"] for hit in reply["hits"]] == ["the red boat"]
    assert "The entity lane failed" in reply["notice"]
    with pytest.raises(MneloError):
        memory.recall("boat", strategy="entity_only")


def test_lanes_in_one_thread_answer_as_lanes_side_by_side(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder(), recall_concurrent=True)
    for number in range(30):
        memory.remember(f"boat {number} of Ann", entities=["Ann", f"pier {number % 3}"])
    together = memory.recall("boat 7 pier 1", top_k=10)
    memory.close()
    alone = open_memory(model=HashEmbedder(), recall_concurrent=False)
    assert alone.recall("boat 7 pier 1", top_k=10) == together


def test_an_interrupted_recall_gives_no_view_back_that_a_lane_still_uses(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(model=HashEmbedder(), recall_concurrent=True)
    memory.remember("the red boat")
    going_on, ended = threading.Event(), threading.Event()

    def interrupted(*_: object) -> Ranking:
        assert going_on.wait(10)
        raise KeyboardInterrupt

    def slow(*_: object) -> Ranking:
        going_on.set()
        time.sleep(0.2)
        ended.set()
        return Ranking()

    monkeypatch.setitem(INDEPENDENT_LANES, "vector", interrupted)
    monkeypatch.setitem(INDEPENDENT_LANES, "meta", slow)
    with pytest.raises(KeyboardInterrupt):
        memory.recall("boat")
    assert ended.is_set()


@pytest.mark.parametrize(("setting", "at_three"), [("auto", True), ("on", True), ("off", False)])
def test_lanes_run_side_by_side_where_that_is_set_or_there_are_very_many_memories(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, setting: str, at_three: bool
) -> None:
    monkeypatch.setattr("recall.search.MAX_IN_TURN", 2)
    memory = open_memory(model=HashEmbedder(), recall_concurrent=setting)
    for name in ("boat", "pier"):
        memory.remember(f"the red {name}")
    assert contents(memory, "boat")[0] == "the red boat"
    assert lane_threads() == (setting == "on")
    memory.remember("the red kite")
    assert contents(memory, "kite")[0] == "the red kite"
    assert lane_threads() == at_three


def lane_threads() -> bool:
    return any(each.name.startswith("mnelo-lane") for each in threading.enumerate())


def test_a_lane_switched_off_is_not_used_and_refused_by_name(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder(), recall_lanes="meta,entity")
    memory.remember("the red boat", entities=["boat"])
    (hit, *_) = [h for h in memory.recall("boat")["hits"] if h["chunk_id"].startswith("chunk_")]
    assert set(hit["lanes"]) == {"meta", "entity"}
    with pytest.raises(InvalidInput, match="vector lane is switched off"):
        memory.recall("boat", strategy="vector_only")
    assert memory.stats()["lanes"]["vector"].startswith("off")


# --- relate and graph_query ------------------------------------------------------------


def test_relate_makes_entities_and_the_graph_shows_both_directions(memory: Memory) -> None:
    related = memory.relate("Ann", "Acme", "works_at", weight=0.8, properties={"since": 2020})
    assert related["status"] == "stored"
    for start in ("Ann", "Acme"):
        graph = memory.graph_query(start)
        (edge,) = graph["edges"]
        assert (edge["source_id"], edge["target_id"], edge["relation"]) == (
            "Ann",
            "Acme",
            "works_at",
        )
        assert (edge["id"], edge["weight"]) == (related["relation_id"], 0.8)
        assert edge["properties"] == {"since": 2020}
        assert {node["id"]: node["hops"] for node in graph["nodes"]}[start] == 0


def test_the_same_relation_again_is_changed_not_doubled(memory: Memory) -> None:
    first = memory.relate("a", "b", "likes")
    assert memory.relate("A", " b ", "likes") == {**first, "status": "exists"}
    changed = memory.relate("a", "b", "likes", weight=0.2)
    assert changed["status"] == "updated"
    (edge,) = memory.graph_query("a")["edges"]
    assert (edge["id"], edge["weight"]) == (changed["relation_id"], 0.2)
    assert memory.stats()["relations"] == {"total": 2, "active": 1, "deleted": 1}


def test_graph_query_is_bounded_nearest_first_and_follows_edge_types(memory: Memory) -> None:
    for number in range(6):
        memory.relate("hub", f"leaf {number}", "has", weight=number / 10)
        memory.relate(f"leaf {number}", f"far {number}", "owns")
    graph = memory.graph_query("hub", limit=4)
    assert [node["id"] for node in graph["nodes"]] == ["hub", "leaf 5", "leaf 4", "leaf 3"]
    assert (graph["truncated"], graph["total_nodes"]) == (True, 7)
    assert len(graph["edges"]) == graph["total_edges"] == 3
    assert memory.graph_query("hub")["total_nodes"] == 13
    only = memory.graph_query("hub", edge_types=["has"])
    assert {node["hops"] for node in only["nodes"]} == {0, 1}
    assert not only["truncated"]
    nothing = memory.graph_query("hub", max_hops=0)
    assert ([node["id"] for node in nothing["nodes"]], nothing["edges"]) == (["hub"], [])


def test_an_unknown_start_is_an_error_that_offers_near_names(memory: Memory) -> None:
    memory.relate("Blue Heron", "Leeds", "based_in")
    with pytest.raises(NotFound, match="no entity Blue Herron; near names: Blue Heron"):
        memory.graph_query("Blue Herron")
    with pytest.raises(NotFound, match="no memory with id"):
        memory.graph_query("chunk_20260101T000000000Z_000000000000")


def test_a_start_may_be_a_name_an_alias_a_code_or_a_memory(memory: Memory) -> None:
    stock = {"id": "sh600089", "kind": "stock", "name": "特变电工", "aliases": ["TBEA"]}
    stored = memory.remember("a note", entities=[stock])
    memory.relate("sh600089", "Xinjiang", "based_in")
    memory.relate(stored["chunk_id"], "sh600089", "is_about")
    for start in ("SH600089", "tbea", "特变电工", "600089", "600089.SH", "entity:sh600089"):
        assert memory.graph_query(start)["nodes"][0]["id"] == "sh600089"
    nodes = memory.graph_query(stored["chunk_id"])["nodes"]
    assert [(node["kind"], node["name"]) for node in nodes[:2]] == [
        ("chunk", "a note"),
        ("stock", "特变电工"),
    ]


def test_a_relation_may_end_and_the_past_still_shows_it(memory: Memory) -> None:
    memory.relate("Ann", "Acme", "works_at", valid_from="2020-01-01", valid_until="2022-01-01")
    memory.relate("Ann", "Bolt", "works_at", valid_from="2022-01-02")
    assert [edge["target_id"] for edge in memory.graph_query("Ann")["edges"]] == ["Bolt"]


def test_relations_given_with_a_memory_are_shown_by_it(memory: Memory) -> None:
    edge = {"source_id": "Ann", "target_id": "Acme", "relation": "works_at"}
    first = memory.remember("Ann works at Acme", relations=[edge])
    second = memory.remember("Ann is with Acme, she says", relations=[edge])
    (shown,) = memory.graph_query("Ann")["edges"]
    assert shown["evidence_chunk_id"] == first["chunk_id"]
    memory.forget(first["chunk_id"])
    assert len(memory.graph_query("Ann")["edges"]) == 1, "the second memory still says so"
    assert memory.forget(second["chunk_id"])["edges_invalidated"] == 1
    assert memory.graph_query("Ann")["edges"] == []


# --- forget ----------------------------------------------------------------------------


def test_forgetting_closes_and_a_second_time_does_nothing(memory: Memory) -> None:
    chunk_id = memory.remember("the old address")["chunk_id"]
    assert memory.forget(chunk_id) == {"forgotten": 1, "edges_invalidated": 0}
    assert contents(memory, "old address") == []
    assert memory.forget(chunk_id) == {"forgotten": 0, "edges_invalidated": 0}
    assert memory.stats()["chunks"] == {"total": 1, "active": 0, "deleted": 1}


def test_forgetting_what_never_was_is_an_error_that_names_it(memory: Memory) -> None:
    memory.relate("Ann", "Acme", "works_at")
    bad: list[tuple[dict[str, Any], str]] = [
        ({"target_id": "chunk_20260101T000000000Z_000000000000"}, "no memory with id chunk_2026"),
        ({"target_id": "Anne", "target_kind": "entity"}, "no entity Anne; near names: Ann"),
        ({"target_id": 999, "target_kind": "relation"}, "no relation with id 999"),
        ({"target_id": "x", "target_kind": "relation"}, "target_id must be a whole number"),
    ]
    for arguments, said in bad:
        with pytest.raises(MneloError, match=said):
            memory.forget(**arguments)


def test_forgetting_an_entity_hides_it_and_its_relations_but_no_memory(memory: Memory) -> None:
    memory.remember("Ann likes tea", entities=["Ann"])
    memory.relate("Ann", "Acme", "works_at")
    assert memory.forget("ann", target_kind="entity") == {"forgotten": 1, "edges_invalidated": 1}
    assert contents(memory, "Ann likes tea") == ["Ann likes tea"]
    assert contents(memory, "Ann", strategy="entity_only") == []
    assert memory.graph_query("Acme")["edges"] == []


def test_forgetting_without_cascade_leaves_relations_for_when_it_comes_back(memory: Memory) -> None:
    memory.relate("Ann", "Acme", "works_at")
    forgotten = memory.forget("Ann", target_kind="entity", cascade=False)
    assert forgotten == {"forgotten": 1, "edges_invalidated": 0}
    assert memory.graph_query("Acme")["edges"] == []
    memory.remember("Ann is back", entities=["Ann"])
    assert len(memory.graph_query("Acme")["edges"]) == 1


def test_a_relation_is_forgotten_by_number_or_text(memory: Memory) -> None:
    first = memory.relate("a", "b", "likes")["relation_id"]
    second = memory.relate("a", "c", "likes")["relation_id"]
    assert memory.forget(first, target_kind="relation")["forgotten"] == 1
    assert memory.forget(str(second), target_kind="relation")["forgotten"] == 1
    assert memory.forget(second, target_kind="relation")["forgotten"] == 0
    assert memory.graph_query("a")["edges"] == []


# --- update ----------------------------------------------------------------------------


def test_an_update_opens_the_next_version_with_all_that_belongs_to_it(memory: Memory) -> None:
    old = memory.remember(
        "The depot opens at seven",
        source="ops",
        importance=0.8,
        tags=["hours"],
        entities=["depot"],
        session_id="s1",
        timestamp="2026-01-01",
    )["chunk_id"]
    memory.relate(old, "gate", "is_about")
    updated = memory.update(old, new_content="The depot opens at nine", reason="new sign")
    assert updated["supersedes"] == old
    assert updated["status"] == "updated"
    new = updated["new_chunk_id"]
    filters = {"source": "ops", "tag": "hours", "session_id": "s1"}
    (hit,) = memory.recall("opens", filters=filters)["hits"]
    assert (hit["chunk_id"], hit["content"]) == (new, "The depot opens at nine")
    assert (hit["importance"], hit["timestamp"][:10]) == (0.8, "2026-01-01")
    assert contents(memory, "depot", strategy="entity_only") == ["The depot opens at nine", "depot"]
    (edge,) = memory.graph_query("gate")["edges"]
    assert edge["source_id"] == new
    assert rows(memory, "SELECT count(DISTINCT created_at) FROM chunks") == [(1,)]


def test_an_update_of_an_old_id_applies_to_the_current_version(memory: Memory) -> None:
    first = memory.remember("version one")["chunk_id"]
    second = memory.update(first, new_content="version two")["new_chunk_id"]
    third = memory.update(first, new_content="version three")
    assert third["supersedes"] == second
    assert contents(memory, "version") == ["version three"]
    assert memory.forget(first)["forgotten"] == 1
    assert contents(memory, "version") == []


def test_properties_are_merged_and_searched(memory: Memory) -> None:
    chunk_id = memory.remember("the blue folder")["chunk_id"]
    first = memory.update(chunk_id, new_properties={"shelf": "attic", "row": 3})
    memory.update(first["new_chunk_id"], new_properties={"row": 4})
    assert contents(memory, "attic", strategy="meta_only") == ["the blue folder"]
    ((kept,),) = rows(memory, "SELECT metadata_json FROM chunks WHERE valid_until IS NULL")
    assert json.loads(kept) == {"shelf": "attic", "row": 4}


def test_an_update_that_changes_nothing_says_so_and_one_without_anything_is_refused(
    memory: Memory,
) -> None:
    chunk_id = memory.remember("same", importance=0.5)["chunk_id"]
    unchanged = memory.update(chunk_id, new_content="same", new_importance=0.5)
    assert unchanged == {"new_chunk_id": chunk_id, "supersedes": chunk_id, "status": "unchanged"}
    with pytest.raises(InvalidInput, match="Nothing to update"):
        memory.update(chunk_id)


def test_what_was_forgotten_or_never_was_cannot_be_updated(memory: Memory) -> None:
    chunk_id = memory.remember("gone")["chunk_id"]
    memory.forget(chunk_id)
    with pytest.raises(NotFound, match=f"{chunk_id} has been forgotten"):
        memory.update(chunk_id, new_content="back")
    with pytest.raises(NotFound, match="no memory with id nope"):
        memory.update("nope", new_content="x")


# --- stats, history and threads --------------------------------------------------------


def test_stats_tells_what_is_stored_and_how_it_goes(memory: Memory) -> None:
    memory.remember("one", entities=["Ann"])
    memory.forget(memory.remember("two")["chunk_id"])
    memory.recall("one")
    memory.recall("zebra", strategy="meta_only")
    stats = memory.stats()
    assert stats["chunks"] == {"total": 2, "active": 1, "deleted": 1}
    assert stats["entities"] == {"total": 1, "active": 1, "deleted": 0}
    assert (stats["vectors"], stats["pending"]) == (1, 0)
    assert stats["embedder"] == {"state": "ready", "model": "test/hash", "dim": 64}
    assert stats["lanes"] == dict.fromkeys(("vector", "graph", "meta", "entity"), "on")
    assert stats["db"]["path"] == str(memory.path)
    assert stats["db"]["db_bytes"] + stats["db"]["wal_bytes"] > 0
    assert (stats["recall_24h"]["count"], stats["recall_24h"]["empty"]) == (2, 1)
    assert stats["recall_24h"]["p95_ms"] >= stats["recall_24h"]["p50_ms"] > 0


def test_who_changed_what_and_why_is_kept(memory: Memory) -> None:
    token = CLIENT.set("cursor")
    try:
        chunk_id = memory.remember("one")["chunk_id"]
        new = memory.update(chunk_id, new_content="two", reason="typo")["new_chunk_id"]
        memory.forget(new, reason="done")
    finally:
        CLIENT.reset(token)
    kept = rows(memory, "SELECT client, action, target_id, reason FROM audit ORDER BY id")
    assert kept == [
        ("cursor", "remember", chunk_id, ""),
        ("cursor", "update", new, "typo"),
        ("cursor", "forget", new, "done"),
    ]


def test_many_threads_write_and_read_one_memory(memory: Memory) -> None:
    start = threading.Barrier(8)

    def work(worker: int) -> None:
        start.wait()
        for number in range(10):
            memory.remember(f"worker {worker} note {number}", entities=["team"])
            assert memory.recall(f"worker {worker}", top_k=3)["hits"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert memory.stats()["chunks"]["active"] == 80
    assert memory.stats()["entities"]["total"] == 1


def test_one_memory_that_all_update_keeps_one_line_of_versions(memory: Memory) -> None:
    first = memory.remember("counter 0")["chunk_id"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: memory.update(first, new_content=f"counter {n}"), range(1, 25)))
    assert memory.stats()["chunks"] == {"total": 25, "active": 1, "deleted": 24}
    assert rows(memory, "SELECT count(DISTINCT superseded_by) FROM chunks") == [(24,)]


def test_what_was_stored_is_there_after_a_restart(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(model=HashEmbedder())
    memory.remember("the red boat", entities=["boat"])
    before = memory.recall("red boat")
    memory.close()
    assert not list(tmp_path.glob("memory.db-*")), "the whole memory is in the one file"
    assert open_memory(model=HashEmbedder()).recall("red boat") == before


def test_what_the_model_fails_over_keeps_no_later_memory_without_vectors(open_memory: Open) -> None:
    """The oldest 64 that waited were tried again and again, and nothing behind them ever was."""
    before = open_memory()
    before.remember_many([{"content": f"poison {number}"} for number in range(70)])
    before.remember("the ferry to Riga")
    memory = open_memory(model=Failing())
    assert memory.fill_pending() == 1
    assert memory.stats()["pending"] == 70
    (hit,) = memory.recall("the ferry to Riga", strategy="vector_only")["hits"]
    assert hit["content"] == "the ferry to Riga"
