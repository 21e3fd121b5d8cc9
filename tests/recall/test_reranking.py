"""The order of what is found: ranks fused, then each piece of evidence, each by an example."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import LANES
from core.results import Cautioned, Hit
from core.types import Vectors
from hash_embedder import HashEmbedder
from i18n_messages import MESSAGES
from memories import Open
from memory import Memory
from recall import hits as hits_module
from recall.answerability import _raise
from recall.fusion import ordered, rrf
from recall.query import CLOSENESS
from recall.reranking import WEIGHTS, of_rows
from text import words

DAY = "2023-05-04T10:00:00Z"
FILL = ("so it went", "on and on", "and further")
"""Three texts keep two others of a session so far apart that neither lends the other words."""


def chunks(memory: Memory, query: str, **arguments: Any) -> list[dict[str, Any]]:
    """The memories that were found, without entities."""
    hits = memory.recall(query, **{"top_k": 50, **arguments})["hits"]
    return [dict(hit) for hit in hits if hit["chunk_id"].startswith("chunk_")]


def contents(memory: Memory, query: str, **arguments: Any) -> list[str]:
    return [hit["content"] for hit in chunks(memory, query, **arguments)]


def told(memory: Memory, *texts: str, **given: Any) -> list[str]:
    """Remember texts of one moment; their ids."""
    return [memory.remember(text, **{"timestamp": DAY, **given})["chunk_id"] for text in texts]


# --- Ranks -----------------------------------------------------------------------------

rankings = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4)


def test_the_documented_example_of_fusion() -> None:
    scores = rrf([["doc1", "doc5", "doc2"], ["doc2", "doc1", "doc7"], ["doc5", "doc9", "doc1"]])
    assert scores["doc1"] == pytest.approx(1 / 61 + 1 / 62 + 1 / 63)
    assert scores["doc9"] == pytest.approx(1 / 62)
    assert rrf([["a"], ["b", "a"]], k=1) == pytest.approx({"a": 1 / 2 + 1 / 3, "b": 1 / 2})


@given(rankings, st.permutations(range(4)), st.integers(1, 100))
def test_the_order_of_the_rankings_does_not_matter(
    given: list[list[str]], order: Sequence[int], k: int
) -> None:
    mixed = [given[at] for at in order if at < len(given)]
    assert rrf(mixed, k) == pytest.approx(rrf(given, k))


@given(rankings, st.integers(1, 100))
def test_nobody_scores_more_than_first_place_everywhere(given: list[list[str]], k: int) -> None:
    scores = rrf(given, k)
    assert scores.keys() == {key for ranking in given for key in ranking}
    assert all(0 < score <= len(given) / (k + 1) + 1e-12 for score in scores.values())


@given(rankings, st.data())
def test_to_rise_in_one_ranking_is_never_a_loss(
    given: list[list[str]], data: st.DataObject
) -> None:
    places = [(at, place) for at, each in enumerate(given) for place in range(1, len(each))]
    if places:
        at, place = data.draw(st.sampled_from(places))
        risen = [list(each) for each in given]
        risen[at].insert(place - 1, name := risen[at].pop(place))
        assert rrf(risen)[name] > rrf(given)[name]


CORPUS: list[dict[str, Any]] = [
    {"content": "the red boat belongs to Ann", "entities": ["Ann"]},
    {"content": "Ann: I moved to Leeds yesterday", "entities": ["Ann"], "session_id": "move"},
    {"content": "where is the boat?", "session_id": "move"},
    {"content": "in the harbour of Leeds", "session_id": "move", "entities": ["harbour"]},
    {"content": "红色的船在北门"},
    {"content": "boats and ships, red and blue", "source": "Ann", "tags": ["sea"]},
    {"content": "rain on Sunday", "timestamp": DAY},
    {"content": "nothing of that kind"},
]
QUERIES = ("red boat", "when did Ann move to Leeds?", "北门", "harbour", "what was on 4 May 2023?")


@pytest.fixture
def opened(open_memory: Open) -> Callable[..., Memory]:
    """The same few memories under whatever settings."""

    def opened(**given: Any) -> Memory:
        memory = open_memory(model=HashEmbedder(), timezone="utc", **given)
        memory.remember_many(CORPUS)
        return memory

    return opened


@pytest.mark.parametrize("weights", [{}, {"meta": 0.0}, {"vector": 10, "entity": 3, "graph": 0}])
def test_each_lanes_weight_counts_its_ranks(
    opened: Callable[..., Memory], weights: dict[str, float]
) -> None:
    set_ = {f"recall_{lane}_weight": weight for lane, weight in weights.items()}
    memory = opened(recall_rrf_k=7, **set_)
    for query in QUERIES:
        for hit in chunks(memory, query):
            expected = sum(
                getattr(memory.config, f"recall_{lane}_weight") / (7 + rank)
                for lane, rank in hit["lanes"].items()
            )
            assert hit["rrf_score"] == pytest.approx(expected, abs=2e-6)


def test_ranks_of_a_lane_of_no_weight_move_nobody(open_memory: Open) -> None:
    lanes = ["meta", "entity"]
    memory = open_memory(recall_meta_weight=0, recall_rerank="none", recall_lanes=lanes)
    texts = ["boats and more boats", "boats", "a note", "boats at sea"]
    about = {"a note": ["Ann"]}
    for text in texts:
        memory.remember(text, entities=about.get(text, ()), timestamp=DAY)
    found = chunks(memory, "boats Ann")
    assert [hit["content"] for hit in found] == ["a note", *[texts[at] for at in (3, 1, 0)]]
    assert [hit["rrf_score"] > 0 for hit in found] == [True, False, False, False]


def test_without_evidence_the_order_is_that_of_the_ranks(opened: Callable[..., Memory]) -> None:
    memory = opened(recall_rerank="none")
    for query in QUERIES:
        found = chunks(memory, query, explain=True)
        assert [hit["score"] for hit in found] == [hit["rrf_score"] for hit in found]
        assert [hit["score"] for hit in found] == sorted((h["score"] for h in found), reverse=True)
        assert not [hit for hit in found if "evidence" in hit["explain"]]


@pytest.mark.parametrize("lane", ["vector", "meta", "entity"])
def test_a_lane_alone_keeps_its_own_order(opened: Callable[..., Memory], lane: str) -> None:
    memory = opened(recall_meta_weight=0.0, recall_vector_weight=3.0)
    for query in QUERIES:
        found = chunks(memory, query, strategy=f"{lane}_only")
        assert [hit["lanes"][lane] for hit in found] == list(range(1, len(found) + 1))
        expected = [1 / (60 + rank) for rank in range(1, len(found) + 1)]
        assert [hit["score"] for hit in found] == pytest.approx(expected, abs=2e-6)


def test_ranks_are_told_apart_however_large_the_k(open_memory: Open) -> None:
    # Scores that differed by less than 1e-6 were taken as equal, and at k = 1000 those of
    # neighbouring ranks do; the newer then came first.
    memory = open_memory(recall_rrf_k=1000, recall_meta_weight=0.5, recall_rerank="none")
    texts = ["kettle" + " or so" * number for number in range(6)]
    told(memory, *texts)
    assert contents(memory, "kettle", strategy="meta_only") == texts
    assert contents(memory, "kettle") == texts


def test_evidence_may_put_the_second_before_the_first(open_memory: Open) -> None:
    texts = ["Ann swims home by boat", "Ann swims home yesterday", "a boat", "one boat"]
    by_rank = open_memory(recall_rerank="none")
    told(by_rank, *texts)
    by_evidence = open_memory()
    query = "when does Ann swim home by boat?"
    assert contents(by_rank, query)[:2] == texts[:2]
    assert contents(by_evidence, query)[:2] == [texts[1], texts[0]]


# --- Evidence, a piece at a time -------------------------------------------------------


NEARNESS = {"hither": 0.95, "yonder": 0.7}


class Compass(HashEmbedder):
    """Knows how near some words are to a question about a place, though they share no letter."""

    def query(self, text: str) -> Vectors:
        known = [near for word, near in NEARNESS.items() if word in text]
        if not known and "place" not in text:
            return super().query(text)
        near, axes = max(known, default=1.0), np.eye(2, self.dim, dtype=np.float32)
        found: Vectors = near * axes[0] + math.sqrt(1 - near * near) * axes[1]
        return found


def differing(
    memory: Memory, query: str, one: str, other: str
) -> tuple[dict[str, float], float, int]:
    """What the pieces of evidence of two memories differ by, their scores, and their places."""
    found = {hit["chunk_id"]: hit for hit in chunks(memory, query, explain=True)}
    for hit in found.values():
        assert sum(hit["explain"]["evidence"].values()) == pytest.approx(hit["score"], abs=0.01)
    pieces = [found[each]["explain"]["evidence"] for each in (one, other)]
    by = {
        name: pieces[0].get(name, 0) - pieces[1].get(name, 0) for name in {**pieces[0], **pieces[1]}
    }
    places = list(found)
    return (
        {name: value for name, value in by.items() if abs(value) > 0.002},
        found[one]["score"] - found[other]["score"],
        places.index(other) - places.index(one),
    )


Example = Callable[[Memory], tuple[str, str, str]]
"""Makes memories; a question, the one that should come first, and one that should not."""


def words_of_a_neighbour(memory: Memory) -> tuple[str, str, str]:
    near = ("boat shed", "red kettle here")
    far = ("red kettle there", "tree shed")
    ids = told(memory, *near, *FILL, *far, session_id="s")
    return "red boat", ids[1], ids[-2]


def words_of_its_own(memory: Memory) -> tuple[str, str, str]:
    """One says the word once; to the other two neighbours lend a half of it each."""
    one = ("so it went", "on and on", "all is red", "so it was", "on it went")
    other = ("and so on", "red it was", "all is blue", "it was red", "on they went")
    ids = told(memory, *one, *other, session_id="s")
    return "red", ids[2], ids[7]


def words_elsewhere_in_the_session(memory: Memory) -> tuple[str, str, str]:
    one = told(memory, "red kettle", *FILL, "boat shed", session_id="one")
    other = told(memory, "red kettle", *FILL, "tree shed", session_id="two")
    return "red boat", one[0], other[0]


def a_meaning(memory: Memory) -> tuple[str, str, str]:
    one, other = told(memory, "all is hither", "all is yonder", session_id="s")
    return "which place", one, other


def a_meaning_elsewhere_in_the_session(memory: Memory) -> tuple[str, str, str]:
    (one, _) = told(memory, "all is yonder", "all is hither", session_id="one")
    (other, _) = told(memory, "all is yonder", "yonder it was", session_id="two")
    return "which place", one, other


# A name of stopwords: as words of the question they count nothing.


def a_named_source(memory: Memory) -> tuple[str, str, str]:
    (one,), (other,) = (told(memory, "a mile", source=name) for name in ("Will Own", "Will Few"))
    return "what mile did Will Own do", one, other


def a_named_speaker(memory: Memory) -> tuple[str, str, str]:
    one, other = told(memory, "[1 pm] Will Own: a mile", "[1 pm] Will Few: a mile")
    return "what mile did Will Own do", one, other


def a_named_entity(memory: Memory) -> tuple[str, str, str]:
    (one,) = told(memory, "a mile", entities=["Will Own"])
    (other,) = told(memory, "a mile ", entities=["Will Few"])
    return "what mile did Will Own do", one, other


def a_date(question: str) -> Example:
    def make(memory: Memory) -> tuple[str, str, str]:
        (one,) = told(memory, "a mile")
        (other,) = told(memory, "a mile", timestamp="2023-06-04T10:00:00Z")
        return question, one, other

    return make


def an_answer(memory: Memory) -> tuple[str, str, str]:
    one = told(memory, "is the kettle new?", "behind a blue door", session_id="one")
    other = told(memory, "is the kettle new.", "behind a blue door", session_id="two")
    return "kettle", one[1], other[1]


def a_question(memory: Memory) -> tuple[str, str, str]:
    other, one = told(memory, "the kettle is new?", "the kettle is new.")
    return "kettle", one, other


def a_time_in_the_text(memory: Memory) -> tuple[str, str, str]:
    one, other = told(memory, "Ann swims yesterday", "Ann swims alone")
    return "when did Ann swim", one, other


def a_time_in_the_text_in_chinese(memory: Memory) -> tuple[str, str, str]:
    one, other = told(memory, "安娜昨天游泳", "安娜独自游泳")
    return "安娜什么时候游泳", one, other


def a_length(memory: Memory) -> tuple[str, str, str]:
    other, one = told(memory, "ok", "they all went out together")
    return "what was on 4 May 2023", one, other


def a_link(memory: Memory) -> tuple[str, str, str]:
    told(memory, "red kettle", entities=["attic"])
    (one,) = told(memory, "red keys", session_id="one", entities=["attic"])
    (other,) = told(memory, "red keys", session_id="two")
    return "red kettle", one, other


EXAMPLES: list[tuple[str, Example]] = [
    ("words", words_of_a_neighbour),
    ("own_words", words_of_its_own),
    ("session_words", words_elsewhere_in_the_session),
    ("meaning", a_meaning),
    ("session_meaning", a_meaning_elsewhere_in_the_session),
    ("named", a_named_source),
    ("named", a_named_speaker),
    ("named", a_named_entity),
    ("date", a_date("what mile on 4 May 2023")),
    ("date", a_date("what mile on 2023-05-04?")),
    ("date", a_date("2023年5月4日 mile")),
    ("answer", an_answer),
    ("question", a_question),
    ("when", a_time_in_the_text),
    ("when", a_time_in_the_text_in_chinese),
    ("length", a_length),
    ("linked", a_link),
]


def test_every_piece_of_evidence_has_its_example() -> None:
    assert {piece for piece, _ in EXAMPLES} == set(WEIGHTS)


ALL_OR_NOTHING = {"named", "date", "answer", "question", "when"}


@pytest.mark.parametrize(("piece", "make"), EXAMPLES)
def test_of_two_that_differ_in_one_piece_of_evidence_it_decides(
    open_memory: Open, piece: str, make: Example
) -> None:
    model = Compass() if "meaning" in piece else None
    memory = open_memory(model=model, timezone="utc")
    by, score, places = differing(memory, *make(memory))
    assert list(by) == [piece]
    assert by[piece] == pytest.approx(score, abs=0.002)
    assert by[piece] > 0
    assert places > 0
    if "meaning" not in piece:  # which is in deviations, and so has no highest value
        assert by[piece] < abs(WEIGHTS[piece]) + 0.001
    if piece in ALL_OR_NOTHING:
        assert by[piece] == pytest.approx(abs(WEIGHTS[piece]), abs=0.001)


TIMES = [
    *[(named, "day") for named in ("yesterday", "昨天", "last Thursday", "上周四", "5月4日")],
    *[(named, "week") for named in ("last week", "上周")],
    *[(named, "month") for named in ("in May 2023", "2023年5月")],
    *[(named, "year") for named in ("in 2023", "2023年")],
]


def test_a_closer_time_counts_more(open_memory: Open) -> None:
    memory = open_memory(timezone="utc")
    told(memory, "a mile")
    told(memory, "a mile", timestamp="2020-02-02")
    for named, unit in TIMES:
        day = 5 if named in ("yesterday", "昨天") else 10
        asked = {"asof": f"2023-05-{day:02}T12:00:00Z", "explain": True}
        pieces = [
            hit["explain"]["evidence"] for hit in chunks(memory, f"what mile {named}", **asked)
        ]
        expected = [WEIGHTS["date"] * CLOSENESS[unit], 0]
        assert [each.get("date", 0) for each in pieces] == pytest.approx(expected, abs=0.001), named


def test_who_is_not_asked_for_a_time_gains_nothing_by_telling_one(open_memory: Open) -> None:
    memory = open_memory()
    told(memory, "Ann swims yesterday", "Ann swims alone")
    for query in ("where does Ann swim", "安娜在哪里游泳 Ann"):
        found = chunks(memory, query, explain=True)
        assert not [hit for hit in found if "when" in hit["explain"]["evidence"]]


def test_only_the_memory_after_a_question_may_be_its_answer(open_memory: Open) -> None:
    memory = open_memory()
    told(memory, "is the kettle new?", "behind a blue door", "and further", session_id="s")
    found = chunks(memory, "kettle", explain=True)
    answers = {hit["content"] for hit in found if "answer" in hit["explain"]["evidence"]}
    assert answers == {"behind a blue door"}


def test_the_first_of_a_session_answers_no_question_of_another(open_memory: Open) -> None:
    memory = open_memory()
    memory.remember("the kettle stands in the attic", session_id="a")
    memory.remember("where is the kettle?", session_id="z")  # the last row of all
    hits = memory.recall("kettle", explain=True)["hits"]
    assert len(hits) == 2
    assert not [hit for hit in hits if "answer" in hit["explain"]["evidence"]]


def test_nobody_is_called_manual(wordless: Memory) -> None:
    # The source of whoever names none was a name like any other, so that a question about a
    # manual named every such memory.
    wordless.remember("lunch was good")
    wordless.remember("the manual of the pump is in a drawer", source="wiki")
    assert contents(wordless, "pump manual", strategy="entity_only") == []
    assert contents(wordless, "pump manual") == ["the manual of the pump is in a drawer"]


# --- Ties and entities -----------------------------------------------------------------


@pytest.mark.parametrize("rerank", ["evidence", "none"])
def test_among_equals_the_newest_comes_first(open_memory: Open, rerank: str) -> None:
    memory = open_memory(model=HashEmbedder(), recall_rerank=rerank, timezone="utc")
    hours = (7, 3, 9, 1, 8, 2)
    memory.remember_many([{"content": text} for text in ("rain on Sunday", "the boat is red")])
    for hour in hours:
        memory.remember("tea", source="Ann", timestamp=f"2023-05-04T{hour:02}:00:00Z")
    for query in ("tea", "what tea was there on 4 May 2023", "Ann", "te"):
        hits = [hit for hit in chunks(memory, query) if hit["content"] == "tea"]
        assert [int(hit["timestamp"][11:13]) for hit in hits] == sorted(hours, reverse=True), query


def test_where_all_are_equally_near_their_cosines_say_nothing(open_memory: Open) -> None:
    # Divided by a deviation of next to nothing, the last digits of equal cosines, which BLAS may
    # compute in different ways, became up to 0.06 each.
    memory = open_memory(model=HashEmbedder())
    for hour in range(1, 10):
        memory.remember("tea", source="Ann", timestamp=f"2023-05-04T{10 - hour:02}:00:00Z")
        hits = chunks(memory, "tea", explain=True)
        times = [hit["timestamp"] for hit in hits]
        assert times == sorted(times, reverse=True)
        meanings = [hit["explain"]["evidence"].get("meaning", 0.0) for hit in hits]
        assert meanings == pytest.approx([0.0] * hour, abs=0.005)


def test_a_last_digit_makes_no_difference_of_evidence(wordless: Memory) -> None:
    # Scores were rounded to 6 digits, but float32 has only 5 behind the point of such a sum: of
    # equal texts among a hundred others an older one came first.
    told(wordless, "tea", timestamp="2023-05-04T07:00:00Z")
    told(wordless, "tea", timestamp="2023-05-04T09:00:00Z")
    with wordless.store.view() as view:
        index = view.snapshot().index
    score = np.float32(8.38234)
    scores = np.array([np.nextafter(score, np.float32(9)), score], np.float32)
    assert ordered(scores, np.arange(2), index).tolist() == [1, 0]


def test_among_equals_of_one_moment_the_later_stored_comes_first(memory: Memory) -> None:
    ids = [told(memory, "tea", session_id=f"s{number}")[0] for number in range(5)]
    assert [hit["chunk_id"] for hit in chunks(memory, "tea")] == ids[::-1]


@pytest.mark.parametrize(("rerank", "boost"), [("evidence", 0.05), ("none", 0.0)])
def test_entities_stand_where_their_ranks_put_them_and_take_no_memorys_place(
    opened: Callable[..., Memory], rerank: str, boost: float
) -> None:
    memory = opened(recall_rerank=rerank, recall_stock_boost=boost)
    for number in range(4):
        stock = {"id": "sh600089", "kind": "stock", "name": "TBEA"}
        memory.remember(f"boat {number} of TBEA", entities=[stock, "harbour", "boat"])
    seen = 0
    for query in (*QUERIES, "TBEA boat", "harbour of TBEA"):
        for top_k in (1, 50):
            hits = memory.recall(query, top_k=top_k)["hits"]
            found = [hit["chunk_id"] for hit in hits if "entity_id" not in hit]
            anywhen = {"time_from": "0001-01-01"}  # which no entity can satisfy
            only = memory.recall(query, top_k=top_k, filters=anywhen)["hits"]
            assert found == [hit["chunk_id"] for hit in only]
            assert len(hits) - len(found) <= 2
            for place, hit in enumerate(hits):
                if "entity_id" in hit:
                    seen += 1
                    before = hits[:place]
                    after = [each for each in hits[place:] if "entity_id" not in each][:1]
                    assert all(each["rrf_score"] >= hit["rrf_score"] for each in before)
                    assert all(each["rrf_score"] < hit["rrf_score"] for each in after)
                    beside = (after or before[-1:] or [hit])[0]
                    assert hit["score"] == (beside if rerank == "evidence" else hit)["score"]
                    assert rerank == "evidence" or hit["score"] == hit["rrf_score"]
    assert seen > 5


# --- What words find, without any model ------------------------------------------------

FOUND = [
    ("bought sh600089 at 18.96", ["600089", "SH600089", "18.96"]),
    ("locker 3 opens with M1N6QQ80", ["6QQ", "n6qq8", "M1N6QQ80", "m1n6"]),
    ("项目周会改到周四下午三点", ["周会", "会", "周会改", "周四下午", "项目周会"]),
    ("特变电工今天涨停了", ["变电工", "涨停", "涨", "电工"]),
    ("部署 docker 镜像失败", ["docker失败", "镜像", "docker", "ＤＯＣＫＥＲ", "镜 docker"]),
    ("Ｗｉｄｅ ＡＢＣ１２３ form", ["abc123", "wide", "ＡＢＣ１２３", "bc12"]),
    ("crème brûlée at the café", ["creme", "BRULEE", "Café", "cafe\u0301", "rulé"]),
    ("🚀 launch went well 🎉", ["🚀", "🎉", "launch 🚀"]),
    ("the growth was 100% this year", ["100%", "100% growth"]),
    ("set snake_case_name to on", ["e_case_n", "snake_case_name", "case_"]),
    ('she said "so be it" twice', ['"so be it"', "twice"]),
    ("call O'Neil & Sons about C++", ["o'neil", "C++", "O'Neil & Sons"]),
    ("Mel painted a sunset by the lake", ["paintings", "paint", "PAINTED", "sunsets", "lakes"]),
    ("我的 laptop 放在 attic 里", ["laptop attic", "我的laptop", "放在attic"]),
    ("서울에서 만나요", ["서울", "만나", "울에"]),
    ("東京タワーの写真", ["タワー", "写真", "京"]),
    ("path C:\\temp\\new is full", ["C:\\temp", "temp\\new"]),
]
BESIDE = [
    *("1000 nails and 1001 screws", "snakeXcaseXname", "a boat", "上海的冬天", "sh600088 sold"),
    *("N6QX", "周末去植物园", "coffee", "said so", "the pain was over"),
]


@pytest.fixture
def texts(wordless: Memory) -> Memory:
    wordless.remember_many([{"content": text, "timestamp": DAY} for text, _ in FOUND])
    wordless.remember_many([{"content": text} for text in BESIDE])
    return wordless


def test_a_text_is_found_by_any_word_code_or_piece_of_it(texts: Memory) -> None:
    for text, queries in FOUND:
        for query in queries:
            for lane in ("rrf", "meta_only"):
                assert contents(texts, query, strategy=lane)[:1] == [text], (query, lane)


@pytest.mark.parametrize(
    ("query", "with_sign", "without"),
    [
        ("C++", "we read a long book about C++", "C#"),
        ("100%", "the cotton in the shirts was 100%", "100 nails"),
    ],
)
def test_a_sign_that_belongs_to_a_word_tells_it_from_the_bare_word(
    wordless: Memory, query: str, with_sign: str, without: str
) -> None:
    # `c++` was taken for its one term `c`, so that a text which has it as it stands gained nothing
    # by it over a shorter one with another `c`.
    told(wordless, with_sign, without)
    assert contents(wordless, query)[0] == with_sign


NOT_FOUND = [
    *[("100%", "1000 nails and 1001 screws"), ("e_case_n", "snakeXcaseXname")],
    *[("_", "a boat"), ("%", "a boat"), ("*", "a boat"), ("painted", "the pain was over")],
    *[("北门", "coffee"), ("周会", "上海的冬天"), ("600089", "sh600088 sold")],
]


def test_signs_stand_for_themselves_and_other_words_are_others(texts: Memory) -> None:
    for query, not_found in NOT_FOUND:
        assert not_found not in contents(texts, query), query


def test_a_question_of_words_that_say_nothing_is_still_answered(texts: Memory) -> None:
    texts.remember_many([{"content": "what it is to be"}, {"content": "这是什么的书"}])
    for query in ("what is it", "Is it?", "to be or not to be"):
        assert contents(texts, query)[0] == "what it is to be", query
    assert contents(texts, "是什么")[0] == "这是什么的书"


def test_a_word_is_found_by_its_other_forms(wordless: Memory) -> None:
    wordless.remember_many([{"content": f"they {form} it"} for form in ("walk", "swim", "sail")])
    for ending in ("", "s", "ed", "ing"):
        assert contents(wordless, f"walk{ending}") == ["they walk it"], ending


# --- The budget, and what came meanwhile -----------------------------------------------

NUMBER = -1.2345678901234567e-100
HIT: dict[str, Any] = {
    **dict.fromkeys(sorted(set(Hit.__annotations__) - {"explain", "content", "caution"}), ""),
    **dict.fromkeys(
        ("importance", "score", "rrf_score", "similarity", "distance", "match"), NUMBER
    ),
    "lanes": dict.fromkeys(LANES, 2000),
    "truncated": False,
    "weak": False,
}
"""As much as there can be in a hit beside its texts, but for a caution."""
CAUTIONS = ["", *MESSAGES["guard.caution"].values()]


def tokens(hit: Any) -> int:
    return words.tokens(json.dumps(hit, ensure_ascii=False))


@given(
    st.lists(st.text(st.characters(), max_size=900) | st.text('周\n"a\1', max_size=40), max_size=5),
    st.integers(1, 2000),
    st.sampled_from(CAUTIONS),
)
def test_hits_fit_where_the_tokens_of_each_add_up_to_no_more(
    contents: list[str], most: int, sentence: str
) -> None:
    caution: Cautioned = {"caution": sentence} if sentence else {}
    hits = [cast("Hit", {**HIT, "content": content}) for content in contents]
    marked = [cast("Hit", {**hit, **caution}) for hit in hits]
    shown = hits_module.fit(hits, most, "", lambda *_: caution)
    assert (shown == marked) == (sum(map(tokens, marked)) <= most)


@pytest.mark.parametrize("sentence", CAUTIONS)
def test_a_hit_has_no_more_beside_its_texts_than_is_allowed_for(sentence: str) -> None:
    texts = [each for each in HIT.values() if isinstance(each, str)]
    beside = len(json.dumps(HIT)) - len(json.dumps(texts))
    caution = tokens({"caution": sentence}) if sentence else 0
    assert beside / 4 + 1 + caution <= hits_module.MAX_BESIDE


def test_the_best_few_are_those_that_would_come_first_of_all(wordless: Memory) -> None:
    for number in range(60):
        wordless.remember(f"boat {number}", timestamp=f"2024-01-{1 + number % 9:02}")
    with wordless.store.view() as view:
        index = view.snapshot().index
    rows = np.arange(60, dtype=np.int32)
    scores = np.array([number * 7 % 5 for number in range(60)], np.float64)
    for most in (0, 1, 7, 59, 60, 61):
        best = hits_module._best(scores, rows, index, most, 5)
        assert best.tolist() == ordered(scores, rows, index)[:most].tolist()


def test_rows_that_came_after_a_measure_have_none(wordless: Memory) -> None:
    for number in range(4):
        wordless.remember(f"boat {number}")
    with wordless.store.view() as view:
        index = view.snapshot().index
    rows = np.array([3, -1, 0, 2], np.intp)
    measured = np.array([0.5, 0.25], np.float32)
    assert of_rows(measured, rows, index).tolist() == [0, 0, 0.5, 0]
    assert of_rows(measured[:0], rows, index).tolist() == [0, 0, 0, 0]


def test_a_higher_share_counts_for_its_own_row_only() -> None:
    share, rows = np.array([0.1, 0.2, 0.3], np.float32), np.array([2, 5, 9], np.int32)
    _raise(share, rows, {9: 0.5, 10: 1.0, 3: 0.75, 2: 0.05, 1: 1.0})
    assert share.tolist() == pytest.approx([0.1, 0.2, 0.5])
    _raise(share, rows, {})
    assert share.tolist() == pytest.approx([0.1, 0.2, 0.5])
