"""Each lane finds what the other three, alone, miss; together they find all of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config import Config
from memories import Open
from memory import Memory
from recall.lanes import MAX_REACHED

QUESTIONS = {
    "vector": ("How do I get my automobile repaired?", "The garage fixed the brakes of my car"),
    "meta": ("6QQ", "locker 3 has the combination M1N6QQ80"),
    "entity": ("TBEA", "the target price is 25 by spring"),
    "graph": ("combination M1N6QQ80", "Mr. Okafor waters the plants on Mondays"),
}
"""For each lane a question, and the memory that it alone leads to."""

LOCKERS = ("QX41Z77P", "9KD02LMV", "TT58W3RA", "7ZB44YHC", "K3V9XX21", "P0D77EUA", "R8S15GJW")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory with the offline model, as a user has it."""
    path: Path = tmp_path_factory.mktemp("lanes") / "memory.db"
    config = Config.load({}, embedder_model="offline", recall_lane_depth=4)
    with Memory(path, config=config) as memory:
        memory.wait_for_model(60)
        stock = {"id": "sh600089", "kind": "stock", "name": "特变电工", "aliases": ["TBEA"]}
        items: list[dict[str, Any]] = [
            {"content": QUESTIONS["vector"][1]},
            {"content": QUESTIONS["meta"][1], "entities": ["Concierge"]},
            {"content": QUESTIONS["entity"][1], "entities": [stock]},
            {"content": QUESTIONS["graph"][1], "entities": ["Concierge"]},
        ]
        items += [
            {"content": f"Meeting {n}: budget, hiring and the office move"} for n in range(12)
        ]
        items += [{"content": f"locker {code[0]} has the combination {code}"} for code in LOCKERS]
        memory.remember_many(items)
        yield memory


def found(memory: Memory, question: str, lane: str) -> list[str]:
    hits = memory.recall(question, strategy=f"{lane}_only", top_k=1)["hits"]
    return [hit["content"] for hit in hits if hit["chunk_id"].startswith("chunk_")]


@pytest.mark.parametrize("lane", QUESTIONS)
def test_a_lane_alone_gives_its_own_right_answer(filled: Memory, lane: str) -> None:
    question, answer = QUESTIONS[lane]
    assert found(filled, question, lane) == [answer]


@pytest.mark.parametrize("lane", QUESTIONS)
def test_the_other_lanes_alone_miss_it(filled: Memory, lane: str) -> None:
    question, answer = QUESTIONS[lane]
    for other in QUESTIONS:
        if other != lane:
            assert answer not in found(filled, question, other), other


@pytest.mark.parametrize("lane", QUESTIONS)
def test_together_they_find_all_of_it(filled: Memory, lane: str) -> None:
    question, answer = QUESTIONS[lane]
    assert answer in [hit["content"] for hit in filled.recall(question, top_k=10)["hits"]]


@pytest.mark.parametrize("question", ["我的汽车在哪里修的？", "where was the car mended"])
def test_the_offline_model_finds_it_in_the_other_language(filled: Memory, question: str) -> None:
    assert found(filled, question, "vector") == [QUESTIONS["vector"][1]]


def test_a_rarer_name_counts_for_more(wordless: Memory) -> None:
    for number in range(9):
        wordless.remember(f"visit {number} of the harbour", entities=["Anna"])
    rare = wordless.remember("visit of the depot", entities=["Otto"])["chunk_id"]
    wordless.remember("the last visit of the harbour", entities=["Anna"])
    assert wordless.recall("Anna Otto", strategy="entity_only")["hits"][0]["chunk_id"] == rare


def test_of_equal_texts_the_one_spelled_like_the_question_comes_first(wordless: Memory) -> None:
    for first, then in (("POLISH", "Polish"), ("Welsh", "WELSH")):
        wordless.remember(f"the {first} one")
        wordless.remember(f"the {then} one")
        for asked in (first, then):
            assert found(wordless, asked, "meta") == [f"the {asked} one"]


# --- Steps of the graph ----------------------------------------------------------------


def chunks(memory: Memory, question: str, hops: int) -> list[str]:
    hits = memory.recall(question, strategy="graph_only", graph_hops=hops, top_k=50, max_tokens=0)
    return [hit["content"] for hit in hits["hits"] if hit["chunk_id"].startswith("chunk_")]


def test_a_hop_ends_at_the_heaviest_few_nodes(wordless: Memory) -> None:
    items = [{"content": f"ledger page {n}", "entities": ["Ann"]} for n in range(40)]
    wordless.remember_many(items)
    assert len(chunks(wordless, "Ann", 1)) == MAX_REACHED


def test_what_few_mention_leads_further_than_what_many_do(wordless: Memory) -> None:
    wordless.remember("the tide table", entities=["harbour master"])
    wordless.remember_many([{"content": f"page {n}", "entities": ["ledger"]} for n in range(15)])
    wordless.remember("lantern oil", entities=["ledger", "harbour master"])
    first, second, *_ = chunks(wordless, "lantern oil", 2)
    assert first == "the tide table"
    assert second.startswith("page")


def test_entities_of_one_weight_are_reached_in_the_order_of_their_ids(open_memory: Open) -> None:
    memory = open_memory()
    memory.remember("lantern oil", entities=["ledger"])
    memory.recall("lantern")  # what comes now is new to who has been asked before
    for name in ("zinc", "brass", "copper"):
        memory.relate("ledger", name, "lists")
    fresh = open_memory()
    for each in (memory, fresh):
        hits = each.recall("lantern oil", strategy="graph_only", graph_hops=2)["hits"]
        found = [hit["entity_id"] for hit in hits if "entity_id" in hit]
        assert found == ["ledger", "brass"]
