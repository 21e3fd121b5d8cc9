"""The index in memory answers as a fresh reading of the file would, whatever was changed."""

import json
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import apsw
import numpy as np
import pytest
import sqlite_vec

from config import ROOT, Config
from core import timestamps
from core.types import Scope, Vectors
from hash_embedder import HashEmbedder
from index import chunks as chunks_module
from index import fields as fields_module
from index.analysis import hash_of
from index.chunks import Index
from index.matrix import nth_highest
from index.names import Names
from index.postings import Part, Postings
from inside import look_for_faults, view_of
from memories import Open
from memory import Memory
from recall import lanes
from recall import query as query_module
from store.sqlite import migrations, snapshots, statements
from store.sqlite.view import View
from text import words

CLOSE = 1e-4
DAY = "2024-05-01T10:00:00Z"
Measures = dict[str, dict[int, float]]


def held(memory: Memory, *, past: bool = False) -> Index:
    """The index that recalls use, after it has heard the news."""
    with memory.store.view() as view:
        return view.snapshot(past=past).index


def fresh(memory: Memory, *, past: bool = False) -> Index:
    """The index as a process would read it that has just opened the file."""
    with view_of(memory) as view:
        return snapshots.load_snapshot(view.db, past).index


def numbers(memory: Memory, query: str) -> list[int | None]:
    with memory.store.view() as view:
        return view.term_numbers(list(dict.fromkeys(words.stems(words.query_terms(query)))))


def contents(memory: Memory, query: str, **arguments: Any) -> list[str]:
    hits = memory.recall(query, **{"top_k": 20, **arguments})["hits"]
    return [hit["content"] for hit in hits if hit["chunk_id"].startswith("chunk_")]


def answers(memory: Memory, queries: Iterable[str], **arguments: Any) -> dict[str, float]:
    """What each query finds with its score, best first."""
    return {
        f"{query} {place} {hit['chunk_id']}": hit["score"]
        for query in queries
        for place, hit in enumerate(memory.recall(query, top_k=20, **arguments)["hits"])
    }


def moment() -> str:
    """A moment after everything so far and before everything to come."""
    time.sleep(0.003)
    now = timestamps.now()
    time.sleep(0.003)
    return now


# --- Kept up to date row by row --------------------------------------------------------

VOCABULARY = ("red", "boats", "kettle", "attic", "painted", "北门", "周会", "600089", "why?", "é")
SESSIONS = ("default", "north", "south")
TIMES = (DAY, "2024-05-01T10:00:00.001Z", "2023-01-31T10:00:00Z", "")


class Reluctant(HashEmbedder):
    """Fails over some texts until it is told not to, so that their memories wait for vectors."""

    willing = False

    def passages(self, texts: Sequence[str]) -> Vectors:
        if not self.willing and any("kettle" in text for text in texts):
            raise ValueError("not now")
        return super().passages(texts)


def measures(index: Index, terms: list[int | None], vector: Vectors, asof: str | None) -> Measures:
    """All that an index says of each chunk that counts, by its seq."""
    with index.lock:
        population = index.population(asof)
        counted = np.ones(index.count, np.bool_) if population is None else population
        rows = np.flatnonzero(counted).astype(np.int32)
        lexical = index.lexical(terms, population)
        meaning = index.meaning(vector, population, population)
        seqs = np.append(index.field("seq"), 0)  # the last one is for no neighbour
        values = {
            "score": lexical.score[rows],
            "own": lexical.own[rows],
            "share": lexical.share[rows],
            "thread": index.threads(terms, rows, population),
            "cosine": meaning.cosine[rows],
            "standard": meaning.standard[rows],
            "best of thread": index.best_of_thread(meaning.standard, rows),
            "before": seqs[index.field("before")[rows]],
            "after": seqs[index.field("after")[rows]],
        }
        values |= {
            name: index.field(name)[rows] for name in ("place", "stamp", "length", "importance")
        }
        at = index.seqs_of(rows)
        return {name: dict(zip(at, each.tolist(), strict=True)) for name, each in values.items()}


def assert_same(memory: Memory, query: str, moments: Sequence[str]) -> None:
    terms, vector = numbers(memory, query), HashEmbedder().query(query)
    asked: list[tuple[bool, str | None]] = [(False, None), *((True, each) for each in moments)]
    for past, asof in asked:
        kept, read = held(memory, past=past), fresh(memory, past=past)
        assert kept.rev == read.rev
        one, other = (measures(each, terms, vector, asof) for each in (kept, read))
        for name in one:
            assert one[name] == pytest.approx(other[name], abs=CLOSE), (name, past, asof)


def change(
    memory: Memory,
    model: Reluctant | None,
    chance: Random,
    ids: list[str],
    sources: Sequence[str] = ("a", "b"),
) -> None:
    """One change of the kind that chance has it."""
    text = " ".join(chance.choices(VOCABULARY, k=chance.randint(1, 6)))
    kind = chance.choices(("remember", "update", "forget", "fill"), (8, 4, 2, 1))[0]
    if kind == "fill" and model:
        model.willing = True
        memory.fill_pending()
        model.willing = False
    elif kind in ("remember", "fill") or not ids:
        stored = memory.remember(
            text,
            source=chance.choice(sources),
            tags=chance.choice(([], ["red"], ["北门"])),
            session_id=chance.choice(SESSIONS),
            timestamp=chance.choice(TIMES),
        )
        ids.append(stored["chunk_id"])
    elif kind == "update":
        target = chance.choice(ids)
        some: list[dict[str, Any]] = [
            {"new_content": text},
            {"new_importance": chance.random()},
            {"new_properties": {"room": text}},
        ]
        new = memory.update(target, **chance.choice(some))["new_chunk_id"]
        ids[:] = [new if each == target else each for each in ids]
    else:
        target = chance.choice(ids)
        memory.forget(target)
        ids[:] = [each for each in ids if each != target]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(more, marks=pytest.mark.long) for more in range(2, 8))]
)
def test_an_index_kept_row_by_row_says_what_a_fresh_one_says(open_memory: Open, seed: int) -> None:
    chance, model = Random(seed), Reluctant(longest=30)  # noqa: S311 - any changes will do
    memory = open_memory(model=model)
    ids: list[str] = []
    moments = ["2024-05-01T10:00:00.000Z"]
    for step in range(36):
        change(memory, model, chance, ids)
        if step % 4 == 3:
            moments.append(moment())
            query = " ".join(chance.sample(VOCABULARY, 3))
            assert_same(memory, query, [chance.choice(moments), moments[-1]])
    assert not any(look_for_faults(memory).values())


def test_a_forgotten_memory_raises_no_session(open_memory: Open) -> None:
    # The best of a session was also looked for among dropped rows, whose measure is 0, while
    # that of the memories left may be below.
    memory = open_memory(model=HashEmbedder())
    memory.remember("zebra crossing", session_id="north")
    gone = memory.remember("attic kettle in use", session_id="north")["chunk_id"]
    memory.remember("attic kettle", session_id="south")
    held(memory)
    memory.forget(gone)
    assert_same(memory, "attic kettle", [])


def test_a_forgotten_memory_is_about_no_year(open_memory: Open) -> None:
    # Dropped rows had a year too, so that a date without one was looked for in the thirty years
    # before a time that was a slip and was forgotten.
    memory = open_memory(timezone="utc")
    memory.remember("swam a mile", timestamp="2023-05-04T10:00:00Z")
    slip = memory.remember("ran a mile", timestamp="2099-05-04T10:00:00Z")["chunk_id"]
    held(memory)
    memory.forget(slip)
    assert contents(memory, "what was on 4 May") == ["swam a mile"]


def test_forgotten_memories_hide_no_live_one_that_says_nearly_the_same(memory: Memory) -> None:
    # `similar` looked at the four nearest rows of the index, dropped ones among them.
    text = "The depot opens at seven in the morning on weekdays"
    live = memory.remember(f"{text}, says Ann")["chunk_id"]
    held(memory)
    for end in ("", "!", "!!", ".", "..", "?"):
        memory.forget(memory.remember(text + end)["chunk_id"])
    similar = memory.remember(f"{text}...").get("similar", [])
    assert [each["chunk_id"] for each in similar] == [live]


def test_what_one_said_and_was_forgotten_makes_nobody_common(wordless: Memory) -> None:
    # Of those who are named the one that said less counts more, and dropped rows counted as said.
    said = [wordless.remember(f"note {number}", source="Ann")["chunk_id"] for number in range(9)]
    wordless.remember_many([{"content": f"note {number}", "source": "Bob"} for number in range(3)])
    held(wordless)
    for chunk_id in said[1:]:
        wordless.forget(chunk_id)
    hits = wordless.recall("Ann Bob", strategy="entity_only")["hits"]
    assert [hit["source"] for hit in hits] == ["Ann", "Bob", "Bob", "Bob"]


# --- BM25 ------------------------------------------------------------------------------

Words = dict[str, float]
"""How often a memory has each of its terms."""
REACH = {0: 1.0, 1: 0.5, 2: 0.25}
"""What a memory's words count so many places away in its session."""


def own_words(text: str, session: str) -> Words:
    """A word of the text counts one, the name of the session half."""
    counted: Words = dict(Counter(words.stems(words.index_terms(text))))
    return counted if session == "default" else {**counted, session: 0.5}


def length(*texts: Words) -> float:
    return sum(sum(text.values()) for text in texts)


def mean(values: Iterable[float]) -> float:
    given = list(values)
    return sum(given) / len(given)


def bm25(weights: Words, frequencies: Words, relative_length: float) -> float:
    """By its definition: K1 is 1.2 and B .75."""
    return sum(
        weight
        * frequencies.get(term, 0.0)
        * 2.2
        / (frequencies.get(term, 0.0) + 1.2 * (1 - 0.75 + 0.75 * relative_length))
        for term, weight in weights.items()
    )


def together(texts: Iterable[tuple[float, Words]]) -> Words:
    """The words of several texts, each text's weighted."""
    total: Words = defaultdict(float)
    for weight, text in texts:
        for term, count in text.items():
            total[term] += weight * count
    return total


def slow_scores(
    sessions: Mapping[str, Sequence[tuple[int, Words]]], query: Sequence[str]
) -> dict[str, dict[int, float]]:
    """What an index says of each memory, by its seq, computed word by word."""
    everyone = [own for session in sessions.values() for _, own in session]
    idf: Words = {}
    for term in query:
        having = sum(term in own for own in everyone)
        idf[term] = math.log(1 + (len(everyone) - having + 0.5) / (having + 0.5))
    near: dict[int, list[tuple[float, Words]]] = {}
    for name, session in sessions.items():
        for at, (seq, own) in enumerate(session):
            places = range(max(0, at - 2), min(len(session), at + 3))
            others = [(REACH[abs(at - each)], session[each][1]) for each in places]
            near[seq] = [(1.0, own)] if name == "default" else others
    lengths = {seq: length(*(text for _, text in texts)) for seq, texts in near.items()}
    own_mean, near_mean = mean(map(length, everyone)), mean(lengths.values())
    wholes = {
        name: together((1.0, own) for _, own in session)
        for name, session in sessions.items()
        if name != "default"
    }
    whole_mean = mean(map(length, wholes.values()))
    found: dict[str, dict[int, float]] = {each: {} for each in ("score", "own", "share", "thread")}
    for name, session in sessions.items():
        for seq, own in session:
            found["score"][seq] = bm25(idf, together(near[seq]), lengths[seq] / near_mean)
            found["own"][seq] = bm25(idf, own, length(own) / own_mean)
            found["share"][seq] = sum(idf[term] for term in query if term in own) / length(idf)
            whole = wholes.get(name, {})
            found["thread"][seq] = (
                bm25(idf, whole, length(whole) / whole_mean) if whole else found["own"][seq]
            )
    return found


CHANCES = {"common": 0.6, "frequent": 0.2, "uneven": 0.05, "rare": 0.02, "北门": 0.1}


def scattered(chance: Random, count: int) -> list[dict[str, Any]]:
    """Memories of several sessions, out of order, with words of several frequencies."""
    made: list[dict[str, Any]] = []
    for number in range(count):
        some = [word for word, odds in CHANCES.items() for _ in range(3) if chance.random() < odds]
        text = " ".join([f"n{number}", *some, *["filler"] * chance.randint(0, 9)])
        when = timestamps.stamp(datetime(2024, 1, 1, tzinfo=timezone.utc) + number * timedelta(1))
        session = chance.choice(SESSIONS)
        made.append({"content": text, "session_id": session, "timestamp": when})
    chance.shuffle(made)
    return made


@pytest.mark.parametrize(
    ("many", "max_cells"),
    [
        (0, chunks_module.MAX_CELLS),
        (0, 1),
        (chunks_module.FREQUENT, chunks_module.MAX_CELLS),
        (10**9, 1),
    ],
)
def test_scores_are_bm25_over_own_and_neighbours_words(
    wordless: Memory, monkeypatch: pytest.MonkeyPatch, many: int, max_cells: int
) -> None:
    """The same whether a term is looked at in every row, in its own rows, or as it is frequent;
    and whether there is room for all terms at once or for one at a time."""
    monkeypatch.setattr(chunks_module, "FREQUENT", many)
    monkeypatch.setattr(chunks_module, "MAX_CELLS", max_cells)
    given = scattered(Random(1), 160)  # noqa: S311 - any texts will do
    ids = [each["chunk_id"] for each in wordless.remember_many(given[:100])]
    held(wordless)
    ids += [each["chunk_id"] for each in wordless.remember_many(given[100:])]
    for chunk_id in ids[::8]:
        wordless.forget(chunk_id)
    left = [each for at, each in enumerate(given, start=1) if (at - 1) % 8]
    seqs = {each["content"]: at for at, each in enumerate(given, start=1)}
    sessions: dict[str, list[tuple[int, Words]]] = {name: [] for name in SESSIONS}
    for each in sorted(left, key=lambda each: str(each["timestamp"])):
        own = own_words(each["content"], each["session_id"])
        sessions[each["session_id"]].append((seqs[each["content"]], own))
    query = "common frequent uneven rare 北门 north missing"
    expected = slow_scores(sessions, words.stems(words.query_terms(query)))
    vector = np.zeros(1, np.float32)
    for index_ in (held(wordless), fresh(wordless)):
        found = measures(index_, numbers(wordless, query), vector, None)
        for name, values in expected.items():
            assert found[name] == pytest.approx(values, abs=CLOSE), name


@pytest.mark.parametrize("terms", [100, 1 << 16, 1 << 20])
def test_postings_give_of_each_term_its_rows_in_order(terms: int) -> None:
    random = np.random.default_rng(terms)
    chunks = [np.unique(random.integers(1, terms, 30)).astype(np.uint32) for _ in range(300)]
    weights = [random.integers(1, 255, len(each)).astype(np.uint8) for each in chunks]
    parts = [
        Part(
            np.concatenate(chunks[start:end]),
            np.concatenate(weights[start:end]),
            np.array([len(each) for each in chunks[start:end]], np.int32),
        )
        for start, end in ((0, 100), (100, 101), (101, 250))
    ]
    postings = Postings(parts)
    assert not parts
    for row in range(250, 300):
        postings.add(row, chunks[row], weights[row])
    asked: list[int | None] = [*chunks[3].tolist(), None, terms + 1, *chunks[270][:9].tolist()]
    found = postings.of(asked)
    expected = [
        (place, row, float(halves[chunk == term][0]) / 2)
        for place, term in enumerate(asked)
        for row, (chunk, halves) in enumerate(zip(chunks, weights, strict=True))
        if term in chunk.tolist()
    ]
    got = zip(found.term.tolist(), found.rows.tolist(), found.weights.tolist(), strict=True)
    assert list(got) == expected
    assert found.counts.tolist() == [
        sum(place == at for place, _, _ in expected) for at in range(len(asked))
    ]


def test_names_are_found_by_key_and_sources_in_any_case() -> None:
    names = Names()
    sources = names.of_sources(["Ann", "ann", "manual", "Ann"])
    speakers = names.of_speakers(["Ann", "BEN", "Manual", "manual", ""])
    assert sources == [0, 1, 2, 0]
    assert len(set(speakers)) == 5
    assert speakers[0] in names.named(["ann"])[0]
    assert set(names.named(["ann"])[0]) == {0, 1}
    assert names.named(["ben", "carl", "manual"]) == [[speakers[1]], [speakers[2]]]
    assert names.same("ANN") == [0, 1]
    assert names.same("ben") == []
    assert names.having("nn", [0, 1, 2]) == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 5000])
def test_the_median_length_is_that_of_all_lengths(count: int) -> None:
    lengths = np.random.default_rng(count).integers(0, 90, count) / 2
    expected = float(np.median(lengths)) if count else 1.0
    assert fields_module._median({-3.0: 0, **Counter(lengths.tolist())}) == expected


@pytest.mark.parametrize("distinct", [1, 3, 40, 10**6])
@pytest.mark.parametrize("count", [1, 9, 10, 11, 700, 5003])
def test_the_best_are_those_that_sorting_all_would_put_first(count: int, distinct: int) -> None:
    values = np.random.default_rng(count).integers(0, distinct, count).astype(np.float32)
    for rank in (1, 10, 200):
        expected = -math.inf if count <= rank else float(np.sort(values)[-rank])
        assert nth_highest(values, rank) == expected


# --- Pieces as they stand --------------------------------------------------------------

PIECES = (
    *("门", "北门", "北门周会", "门北", "周-会", "上次是北门周会吗", "セン", "ｾﾝ", "é北"),
    *("sh600089", "600089", "600089建仓", "c++", "oat", "boat", "ed", "x", "boat,北门"),
)
NAMED = ("a", "北门", "北门周会 team", "boat")
TAGS: tuple[list[str], ...] = ([], [], ["北门"], ["Boats"])


@pytest.mark.parametrize("few", [0, 5, 50])
@pytest.mark.parametrize("past", [False, True])
def test_pieces_are_found_where_they_stand_in_text_tags_and_properties(
    wordless: Memory, monkeypatch: pytest.MonkeyPatch, few: int, past: bool
) -> None:
    """Whether the texts of few candidates are read or their trigrams are asked for, and never for
    the name of who said it or of the session."""
    monkeypatch.setattr(lanes, "MAX_READ", few)
    chance = Random(few)  # noqa: S311 - any texts will do
    beside = ("painted", "BOATS", "周会 ", "北门", "建仓 ", "café", "SH600089建仓", "C++ ", " ")
    ids: list[str] = []
    for _ in range(80):
        text = "".join(chance.choices((*PIECES, *beside), k=chance.randint(1, 5)))
        given: dict[str, Any] = {"source": chance.choice(NAMED)}
        given |= {"session_id": chance.choice(NAMED), "tags": chance.choice(TAGS)}
        ids.append(wordless.remember(f"n{len(ids)} {text}", **given)["chunk_id"])
    wordless.update(ids[5], new_properties={"room": "北门周会"})
    then = moment()
    for chunk_id in ids[::7]:
        wordless.forget(chunk_id)
    scope = Scope(asof=then, source="北门") if past else Scope()
    with view_of(wordless) as view:
        for text in (*PIECES, " ".join(PIECES)):
            query = asked(view, text, scope)
            pieces = words.literals(text)
            found = {
                each.piece: each.rows.tolist() for each in lanes._containing(view, query, pieces)
            }
            expected = {piece: standing(view, query, piece) for piece in pieces}
            assert {piece: sorted(rows) for piece, rows in found.items()} == {
                piece: rows for piece, rows in expected.items() if rows
            }


def asked(view: View, text: str, scope: Scope) -> query_module.Query:
    filters = {name: value for name, value in asdict(scope).items() if name != "asof"}
    question = query_module.Question(text, 100, 0, filters, "rrf", scope.asof, False, 0)
    bounds = query_module.Bounds(timezone.utc, lane_depth=200, fan_out=0)
    return query_module.Query(view, question, None, asked=timestamps.now(), bounds=bounds)


def standing(view: View, query: query_module.Query, piece: str) -> list[int]:
    """The rows in scope with a piece in their text that have it not as a word, by reading all."""
    held = query.index
    within = query.within()
    rows = np.arange(held.count) if within is None else np.flatnonzero(within)
    seqs = held.seqs_of(rows.astype(np.int32))
    texts = view.texts(seqs)
    (number,) = view.term_numbers(words.stems([piece]))
    alone = words.index_terms(piece) == [piece]
    whole = held.having([number], within).tolist() if alone else []
    return [
        row
        for row, seq in zip(rows.tolist(), seqs, strict=True)
        if piece in words.fold(texts[seq]) and row not in whole
    ]


@pytest.mark.parametrize("piece", ["oa", "oat", "boat", "boats sail"])
def test_of_a_piece_that_many_have_no_more_are_looked_at_than_are_wanted(
    wordless: Memory, piece: str
) -> None:
    wordless.remember_many([{"content": f"boats sail {number}"} for number in range(300)])
    seen: list[int] = []

    def wanted(seqs: list[int]) -> list[int]:
        seen.extend(seqs)
        return [seq for seq in seqs if seq % 2]

    with wordless.store.view() as view:
        everyone = view.containing(piece, Scope(), 1000)
        assert view.containing(piece, Scope(), 5, wanted) == everyone[:10:2]
    assert len(everyone) == 300
    assert len(seen) <= 25


# --- Neighbours ------------------------------------------------------------------------

LETTERS = "abcdefg"


def talk(memory: Memory, *, session: str = "talk", count: int = 7) -> dict[str, str]:
    """A session of memories of one moment, each with a word of its own; their ids by that word."""
    items = [
        {"content": f"word{letter} is said", "session_id": session, "timestamp": DAY}
        for letter in LETTERS[:count]
    ]
    stored = memory.remember_many(items)
    return {letter: each["chunk_id"] for letter, each in zip(LETTERS, stored, strict=False)}


def heard(memory: Memory, word: str, **filters: str) -> str:
    """The letters of the memories that a word finds, in the order of the alphabet."""
    found = contents(memory, word, strategy="meta_only", filters=filters)
    return "".join(sorted(text.split()[0][-1] for text in found))


def test_a_word_also_finds_the_two_memories_before_and_after(wordless: Memory) -> None:
    talk(wordless)
    assert [heard(wordless, f"word{letter}") for letter in "aceg"] == [
        "abc",
        "abcde",
        "cdefg",
        "efg",
    ]
    best = contents(wordless, "wordd", strategy="meta_only")
    assert best[0] == "wordd is said"
    assert set(best[1:3]) == {"wordc is said", "worde is said"}


def test_what_was_just_said_is_heard_at_once(wordless: Memory) -> None:
    talk(wordless, count=3)
    assert heard(wordless, "wordd") == ""
    wordless.remember("wordd is said", session_id="talk", timestamp=DAY)
    assert heard(wordless, "wordd") == "bcd"
    assert heard(wordless, "wordb") == "abcd"


def test_an_earlier_time_is_an_earlier_place(wordless: Memory) -> None:
    talk(wordless, count=3)
    wordless.remember("wordz is said", session_id="talk", timestamp="2024-04-01")
    assert heard(wordless, "wordz") == "abz"
    assert heard(wordless, "wordc") == "abc"


@pytest.mark.parametrize("change", [{"new_importance": 0.9}, {"new_properties": {"room": "hall"}}])
def test_an_update_keeps_the_place_between_neighbours_of_the_same_moment(
    open_memory: Open, change: dict[str, Any]
) -> None:
    one = open_memory()
    ids = talk(one)
    one.update(ids["d"], new_content="wordx is said")
    for memory in (one, open_memory()):
        assert heard(memory, "wordd") == ""
        assert heard(memory, "wordx") == "bcefx"
        assert [heard(memory, f"word{letter}") for letter in "bf"] == ["abcx", "efgx"]
    one.update(ids["d"], **change)
    for memory in (one, open_memory()):
        assert heard(memory, "wordx") == "bcefx"
        assert heard(memory, "wordc") == "abcex"


def test_forgetting_the_middle_one_joins_its_neighbours(wordless: Memory) -> None:
    ids = talk(wordless)
    assert heard(wordless, "wordb") == "abcd"
    wordless.forget(ids["c"])
    assert heard(wordless, "wordc") == ""
    assert heard(wordless, "wordb") == "abde"
    assert heard(wordless, "worde") == "bdefg"
    wordless.forget(ids["a"])
    wordless.forget(ids["g"])
    assert heard(wordless, "wordb") == "bde"
    assert heard(wordless, "wordf") == "def"


def test_memories_without_a_session_lend_each_other_nothing(wordless: Memory) -> None:
    talk(wordless, session="default")
    assert [heard(wordless, f"word{letter}") for letter in "adg"] == ["a", "d", "g"]


def test_sessions_lend_each_other_nothing(wordless: Memory) -> None:
    for at, letter in enumerate(LETTERS):
        session = f"talk{at % 2}"
        wordless.remember(f"word{letter} is said", session_id=session, timestamp=DAY)
    assert heard(wordless, "wordd") == "bdf"
    assert heard(wordless, "wordd", session_id="talk0") == ""


# --- Other processes, and an index made anew -----------------------------------


@pytest.mark.parametrize("lane", ["vector_only", "meta_only", "rrf"])
def test_what_another_process_changes_is_seen_by_the_next_recall(
    open_memory: Open, lane: str
) -> None:
    one, other = open_memory(model=HashEmbedder()), open_memory(model=HashEmbedder())

    def found(memory: Memory, text: str) -> bool:
        return text in contents(memory, text, strategy=lane)

    assert contents(one, "the kettle whistles", strategy=lane) == []
    chunk = other.remember("the kettle whistles", session_id="s")["chunk_id"]
    assert found(one, "the kettle whistles")
    one.remember("it is in the attic", session_id="s")
    assert found(other, "it is in the attic")
    other.update(chunk, new_content="a radio plays music")
    assert found(one, "a radio plays music")
    assert not found(one, "the kettle whistles")
    one.forget(chunk)
    assert not found(other, "a radio plays music")
    assert found(other, "it is in the attic")


# Pieces inside words count by their rarity. Dropped rows counted as memories there, so that some
# of these were answered in another order once the index was made anew.
QUERIES = ("red boats", "kettle 北门", "attic painted when?", "600089", "oat", "why? north b")


def test_an_index_that_needs_it_is_made_anew_and_answers_as_before(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, model = Random(7), Reluctant()  # noqa: S311 - any changes will do
    memory = open_memory(model=model)
    ids: list[str] = []
    for _ in range(30):
        change(memory, model, chance, ids)
    kept = held(memory)
    for _ in range(30):
        change(memory, model, chance, ids)
    then = moment()
    before = [answers(memory, QUERIES, asof=asof) for asof in ("", then)]
    assert held(memory) is kept
    monkeypatch.setattr(fields_module, "MIN_CHANGES", 2)
    after = [answers(memory, QUERIES, asof=asof) for asof in ("", then)]
    assert held(memory) is not kept
    for one, other in zip(after, before, strict=True):
        assert list(one) == list(other)
        assert one == pytest.approx(other, abs=0.001)
    new = held(memory)
    memory.remember("red boats")
    assert held(memory) is new


def test_an_index_needs_a_rebuild_only_after_changes_that_are_many_beside_it(
    wordless: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields_module, "MIN_CHANGES", 2)
    wordless.remember_many([{"content": f"boat {number}"} for number in range(80)])
    kept = held(wordless)
    for number in range(10):
        wordless.remember(f"red boat {number}")
    assert held(wordless) is kept
    wordless.remember_many([{"content": f"blue boat {number}"} for number in range(3)])
    held(wordless)
    assert held(wordless) is not kept
    assert len(contents(wordless, "boat", top_k=100)) == 93


# --- Codes of very many vectors --------------------------------------------------------


def test_with_codes_the_nearest_are_the_same_and_as_near(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"note {n} on {('boats', 'kettles', 'rain')[n % 3]} and {n * n}" for n in range(400)]
    memory = open_memory(model=HashEmbedder())
    ids = [
        stored["chunk_id"]
        for stored in memory.remember_many(
            [{"content": text, "source": f"s{n % 4}"} for n, text in enumerate(texts)]
        )
    ]
    memory.update(ids[7], new_content="a kettle that was changed")
    memory.forget(ids[8])
    now = timestamps.now()
    memory.forget(ids[9])
    asked: list[dict[str, Any]] = [{}, {"filters": {"source": "S1"}}, {"asof": now}]

    def nearest() -> list[list[tuple[str, float]]]:
        with Memory(memory.path, load_model=lambda recorded: HashEmbedder()) as other:
            other.wait_for_model(10)
            other.remember("a kettle stored after the codes were made")
            answers = [
                other.recall(query, strategy="vector_only", top_k=20, **how)["hits"]
                for query in ("kettles and 49", "rain", "a kettle")
                for how in asked
            ]
        return [[(hit["content"], hit["similarity"]) for hit in hits] for hits in answers]

    exact = nearest()
    monkeypatch.setattr("index.chunks.EXACT_BELOW", 100)
    for found, wanted in zip(nearest(), exact, strict=True):
        assert [near for _, near in found] == pytest.approx([near for _, near in wanted], abs=0.005)
        sure = {text for text, near in wanted if near > wanted[-1][1] + 0.005}
        assert sure <= {text for text, _ in found}


# --- Scope, before a lane's cut --------------------------------------------------------

DECOYS = 300
HERE, GONE, AHEAD = "2020-06-01T00:00:00Z", "2010-06-01T00:00:00Z", "2040-06-01T00:00:00Z"


def pair(when: str, **given: Any) -> list[dict[str, Any]]:
    """Two memories about a boat: one says so at length, and only a link leads to the other."""
    vessel = {"id": "vessel", "kind": "vessel", "name": "Heron"}
    about = {"timestamp": when, "entities": ["boat", vessel], **given}
    told = f"a boat, a boat and one more boat, in {when[:4]}"
    return [{"content": told, **about}, {"content": f"the keys hang here, {when[:4]}", **about}]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A pair in scope among hundreds of newer memories that fit better; another was forgotten."""
    path: Path = tmp_path_factory.mktemp("crowded") / "memory.db"
    config = Config.load({}, embedder_model=None, timezone="utc", recall_lane_depth=5)
    with Memory(path, config=config, load_model=lambda recorded: HashEmbedder()) as memory:
        memory.wait_for_model(10)
        near = {"source": "Trading", "session_id": "s2", "tags": ["sea"], "importance": 0.9}
        closed = memory.remember_many(pair(GONE))
        memory.remember_many([*pair(HERE, **near), *pair(AHEAD)])
        memory.remember_many(
            [{"content": "boat", "session_id": f"d{number}"} for number in range(DECOYS)]
        )
        held(memory)
        for each in closed:
            memory.forget(each["chunk_id"])
        yield memory


LANES = ("vector_only", "meta_only", "entity_only", "graph_only", "rrf")
SCOPES: list[tuple[str, dict[str, Any]]] = [
    ("2020", {"filters": {"source": "trading"}}),
    ("2020", {"filters": {"source": "TRADING"}}),
    ("2020", {"filters": {"session_id": "s2"}}),
    ("2020", {"filters": {"tag": "SEA"}}),
    ("2020", {"filters": {"kind": "Vessel", "time_to": "2030-01-01"}}),
    ("2020", {"filters": {"min_importance": 0.8}}),
    ("2020", {"filters": {"time_to": "2020-06-01"}}),
    ("2040", {"filters": {"time_from": "2040-06-01"}}),
    ("2020", {"filters": {"time_from": "2020-06-01", "time_to": "2020-06-01"}}),
    ("2010", {"asof": "2010-07-01"}),
    ("2010", {"asof": "2025-01-01", "filters": {"time_to": "2015-01-01"}}),
    ("2020", {"asof": "2025-01-01", "filters": {"tag": "sea", "kind": "vessel"}}),
]


def told(memory: Memory, lane: str, query: str = "boat", **arguments: Any) -> set[str]:
    return set(contents(memory, query, strategy=lane, **{"top_k": 2, **arguments}))


@pytest.mark.parametrize("lane", ["vector_only", "meta_only", "entity_only", "rrf"])
def test_without_a_scope_what_fits_better_fills_the_lane(crowded: Memory, lane: str) -> None:
    assert told(crowded, lane) == {"boat"}


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize(("year", "scope"), SCOPES)
def test_a_scope_holds_in_every_lane_before_its_cut(
    crowded: Memory, year: str, scope: dict[str, Any], lane: str
) -> None:
    mentioned, linked = (each["content"] for each in pair(f"{year}-06-01T00:00:00Z"))
    query = "Heron boat" if "kind" in scope.get("filters", {}) else "boat"
    found = told(crowded, lane, query, **scope)
    assert found <= {mentioned, linked}
    assert (linked if lane == "graph_only" else mentioned) in found


@pytest.mark.parametrize("lane", LANES)
def test_a_piece_inside_a_word_is_looked_for_in_scope_only(crowded: Memory, lane: str) -> None:
    found = told(crowded, lane, "oat", filters={"tag": "sea"})
    assert found <= {each["content"] for each in pair(HERE)}
    assert lane in ("vector_only", "entity_only") or found


@pytest.mark.parametrize("lane", LANES)
def test_what_was_closed_is_found_only_as_of_then(crowded: Memory, lane: str) -> None:
    closed = {each["content"] for each in pair(GONE)}
    assert told(crowded, lane, asof="2010-07-01") & closed
    for scope in ({}, {"asof": moment()}, {"filters": {"time_to": "2015-01-01"}}):
        assert not told(crowded, lane, **scope) & closed
    assert not told(crowded, lane, asof="2010-05-31")


def test_as_of_the_end_of_time_everything_that_is_live_holds(wordless: Memory) -> None:
    # The last moment there is stood in the index for the end of a memory that was not closed.
    wordless.remember("the kettle is in the attic")
    assert contents(wordless, "kettle", asof="9999-12-30") == ["the kettle is in the attic"]
    assert contents(wordless, "kettle", asof="9999-12-31") == ["the kettle is in the attic"]


def test_of_more_equals_than_a_lane_takes_the_newest_are_taken(open_memory: Open) -> None:
    # A lane was cut with argpartition, which takes any of those that are equal.
    memory = open_memory(model=HashEmbedder(), recall_lane_depth=5, timezone="utc")
    times = [
        f"2024-05-01T{hour:02}:{minute:02}:00.000Z" for hour in range(3) for minute in range(60)
    ]
    chance = Random(3)  # noqa: S311 - any order will do
    items = [{"content": "tea", "source": "Ann", "timestamp": each} for each in times]
    memory.remember_many(chance.sample(items, len(items)))
    for lane in ("meta_only", "vector_only", "entity_only", "rrf"):
        hits = memory.recall("tea Ann", strategy=lane, top_k=2)["hits"]
        assert [hit["timestamp"] for hit in hits] == times[:-3:-1], lane


# --- A file of the first version -------------------------------------------------------


def version_1(path: Path) -> None:
    """A file as the first version of the schema had it, with versions and one forgotten."""
    db = apsw.Connection(str(path))
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    model = HashEmbedder()
    recorded = {"model": model.name, "dim": str(model.dim), "unrelated": "0.1"}
    with db:
        db.execute((ROOT / "tests" / "support" / "schema_1.sql").read_text("utf-8"))
        db.pragma("application_id", statements.APPLICATION_ID)
        db.pragma("user_version", 1)
        for key, value in recorded.items():
            db.execute("INSERT INTO meta VALUES ('embedding_' || ?, ?, ?)", (key, value, DAY))
        db.execute("CREATE VIRTUAL TABLE vectors USING vec0 (embedding float[64], live integer)")
        for row in OLD_ROWS:
            _put_old(db, row)
    db.close()


_TIMES = [f"{year}-01-01T00:00:00.000Z" for year in (2020, 2021, 2022, 2023)]
OLD_ROWS: list[dict[str, Any]] = [
    {"content": "the gate code is 4711", "from": 0, "until": 1, "next": 2},
    {"content": "the gate code is 4712", "from": 1, "until": 2, "next": 4},
    {"content": "Melanie: Where is the café?", "from": 0, "session": "s1", "tag": "Trip"},
    {"content": "the gate code is 4713", "from": 2, "properties": {"room": "Attic"}},
    {"content": "the boat is sold", "from": 1, "until": 3},
    {"content": "项目周会改到北门, yesterday", "from": 1, "session": "s1", "source": "Anna"},
    {"content": "wir treffen uns 2024", "from": 1, "session": "s1", "waits": True},
]


def _old_id(seq: int) -> str:
    return f"chunk_20200101T000000000Z_{seq:012x}"


def _put_old(db: apsw.Connection, row: Mapping[str, Any]) -> None:
    ((seq,),) = db.execute("SELECT count(*) + 1 FROM chunks")
    until, following = row.get("until"), row.get("next")
    made = {
        "seq": seq,
        "id": _old_id(seq),
        "content": row["content"],
        "content_hash": hash_of(row["content"].encode()),
        "source": row.get("source", "manual"),
        "session_id": row.get("session", "default"),
        "timestamp": _TIMES[0 if following or "4713" in row["content"] else row["from"]],
        "importance": 0.5,
        "metadata_json": json.dumps(row.get("properties", {})),
        "created_at": _TIMES[0],
        "valid_from": _TIMES[row["from"]],
        "valid_until": None if until is None else _TIMES[until],
        "superseded_by": None if following is None else _old_id(following),
        "pending": int("waits" in row),
    }
    columns, marks = ", ".join(made), ", ".join(f":{name}" for name in made)
    db.execute(f"INSERT INTO chunks ({columns}) VALUES ({marks})", made)  # noqa: S608
    if "tag" in row:
        db.execute("INSERT INTO tags VALUES (?, ?)", (seq, row["tag"]))
    beside = "\n".join(
        [*([row["tag"]] if "tag" in row else []), *row.get("properties", {}).values()]
    )
    closed = "" if until is None else "closed_"
    terms = [" ".join(words.index_terms(text)) for text in (row["content"], beside)]
    text = f"{words.fold(row['content'])}\n{words.fold(beside)}\x03\x03"
    db.execute(
        f"INSERT INTO {closed}words (rowid, text, metadata) VALUES (?, ?, ?)",  # noqa: S608
        (seq, *terms),
    )
    db.execute(f"INSERT INTO {closed}trigrams (rowid, text) VALUES (?, ?)", (seq, text))  # noqa: S608
    if "waits" not in row:
        db.execute("INSERT INTO windows VALUES (?, ?, 0)", (seq, seq))
        vector = HashEmbedder().query(row["content"]).tobytes()
        db.execute(
            "INSERT INTO vectors (rowid, embedding, live) VALUES (?, ?, ?)",
            (seq, vector, int(until is None)),
        )


def look(path: Path, sql: str) -> list[Any]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute(sql))
    finally:
        db.close()


def schema(path: Path) -> dict[str, str]:
    """Every table, index and view with its SQL, without comments and in one line."""
    rows = look(path, "SELECT name, coalesce(sql, '') FROM sqlite_master")
    return {name: " ".join(re.sub(r"--[^\n]*", "", sql).split()) for name, sql in rows}


def postings(path: Path) -> dict[str, Any]:
    """For each text the first version of it, its flags, its speaker and its terms in halves."""
    terms = dict(look(path, "SELECT id, term FROM terms"))
    texts = dict(look(path, "SELECT seq, content FROM chunks"))
    rows = look(path, "SELECT chunk_seq, place, flags, speaker, terms, weights FROM postings")
    return {
        texts[seq]: (
            texts[place],
            flags,
            speaker,
            {
                terms[number]: halves
                for number, halves in zip(
                    np.frombuffer(numbers, "<u4").tolist(), weights, strict=True
                )
            },
        )
        for seq, place, flags, speaker, numbers, weights in rows
    }


@pytest.fixture
def old(tmp_path: Path) -> Path:
    version_1(tmp_path / "old.db")
    return tmp_path / "old.db"


def test_a_file_of_the_first_version_becomes_what_a_new_one_is(
    open_memory: Open, old: Path, tmp_path: Path
) -> None:
    memory = open_memory(path=old, model=HashEmbedder())
    open_memory(path=tmp_path / "new.db", model=HashEmbedder())
    assert look(old, "SELECT user_version FROM pragma_user_version") == [
        (migrations.SCHEMA_VERSION,)
    ]
    assert schema(old) == schema(tmp_path / "new.db")
    assert not any(look_for_faults(memory).values())
    revs = [rev for (rev,) in look(old, "SELECT rev FROM postings")]
    assert len(revs) == len(OLD_ROWS)
    assert min(revs) > 0
    assert min(revs) > 0


def test_its_terms_are_those_of_memories_that_are_written_now(
    open_memory: Open, old: Path, tmp_path: Path
) -> None:
    open_memory(path=old)
    new = open_memory(path=tmp_path / "new.db")
    code = new.remember("the gate code is 4711")["chunk_id"]
    new.update(code, new_content="the gate code is 4712")
    new.update(code, new_content="the gate code is 4713", new_properties={"room": "Attic"})
    new.forget(new.remember("the boat is sold")["chunk_id"])
    for row in OLD_ROWS:
        if "session" in row:
            given = {"source": row.get("source", "manual"), "session_id": row["session"]}
            tags = [row["tag"]] if "tag" in row else []
            new.remember(row["content"], tags=tags, **given)
    assert postings(old) == postings(tmp_path / "new.db")


def test_versions_share_the_place_of_the_first(open_memory: Open, old: Path) -> None:
    open_memory(path=old)
    places = look(old, "SELECT place FROM postings ORDER BY chunk_seq")
    assert [place for (place,) in places] == [1, 1, 3, 1, 5, 6, 7]


def test_everything_in_it_is_found(open_memory: Open, old: Path) -> None:
    memory = open_memory(path=old, model=HashEmbedder())
    for row in OLD_ROWS:
        live, then = "until" not in row, _TIMES[row["from"]]
        for lane in ("meta_only", "rrf"):
            query = row["content"].split()[-1]
            found = contents(memory, query, strategy=lane)
            assert (row["content"] in found) is live, row
            assert row["content"] in contents(memory, query, strategy=lane, asof=then), row
    assert contents(memory, "周会", strategy="meta_only")[0] == "项目周会改到北门, yesterday"
    by_tag_and_property = contents(memory, "attic trip", strategy="meta_only")[:2]
    assert set(by_tag_and_property) == {"Melanie: Where is the café?", "the gate code is 4713"}
    assert contents(memory, "gate code 4713", strategy="vector_only")[0] == "the gate code is 4713"
    assert contents(memory, "reffe", strategy="meta_only") == ["wir treffen uns 2024"]
    assert "项目周会改到北门, yesterday" in contents(memory, "café", strategy="meta_only")


def test_its_memories_are_found_by_cues_once_somebody_asks(open_memory: Open, old: Path) -> None:
    memory = open_memory(path=old, recall_lanes=["cue"])
    assert contents(memory, "café", strategy="cue_only") == ["Melanie: Where is the café?"]
    assert contents(memory, "4711", strategy="cue_only", asof=_TIMES[0]) == [
        "the gate code is 4711"
    ]
    assert not any(look_for_faults(memory).values())


def test_an_old_memory_is_updated_and_forgotten_like_any_other(
    open_memory: Open, old: Path
) -> None:
    memory = open_memory(path=old)
    memory.update(_old_id(1), new_content="the gate code is 4714")
    memory.forget(_old_id(3))
    assert contents(memory, "gate code") == ["the gate code is 4714"]
    assert contents(memory, "café") == []
    assert look(old, "SELECT place FROM postings WHERE chunk_seq = 8") == [(1,)]
    assert not any(look_for_faults(memory).values())


# --- Many at once ----------------------------------------------------------------------


def test_a_memory_stored_in_the_middle_of_a_recall_spoils_no_lane(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the query named a time, a mask of all rows there were now was put on scores of those
    # there had been before the texts were read, and the meta lane failed.
    memory.remember_many(
        [{"content": "the kettle whistles", "source": str(number)} for number in range(3)]
    )
    memory.forget(memory.remember("the kettle is gone")["chunk_id"])
    texts, stored = View.texts, list[str]()

    def interrupted(view: View, seqs: Iterable[int]) -> dict[int, str]:
        stored.append(memory.remember(f"one more, {len(stored)}")["chunk_id"])
        return texts(view, seqs)

    monkeypatch.setattr(View, "texts", interrupted)
    for query in ("kettle", "kettle on 4 May 2024"):
        answer = memory.recall(query)
        assert "lane" not in answer.get("notice", "")
        assert answer["hits"][0]["content"] == "the kettle whistles"
    assert stored


def test_a_row_that_came_since_the_vectors_were_compared_has_no_nearness(memory: Memory) -> None:
    # The last row there was stood for one that had come since: there was none, and an IndexError
    # went through to the caller; or all of its session was gone, and its score was -Infinity.
    memory.remember("rain on Sunday", session_id="other")
    chunk = memory.remember("the kettle is new", session_id="alone")["chunk_id"]
    before = held(memory).count
    memory.update(chunk, new_content="the kettle whistles")
    index = held(memory)
    (new,) = index.rows_of([int(index.field("seq")[-1])])
    for known in (0, before):
        assert index.best_of_thread(np.ones(known, np.float32), np.array([new])) == [0]


SECONDS = 1.0


def test_many_recall_while_others_write_and_nobody_fails(open_memory: Open) -> None:
    memory = open_memory(model=HashEmbedder())
    talk(memory, session="kept")
    queries = ["wordd is said", "what was said on 1 May 2024", "北门 wordd", "ordd", "when? wordb"]
    end = time.monotonic() + SECONDS

    def recall(number: int) -> set[str]:
        notices: set[str] = set()
        while time.monotonic() < end:
            for at, query in enumerate(queries):
                asof = timestamps.now() if (at + number) % 5 == 0 else ""
                answer = memory.recall(query, asof=asof, filters={"source": "manual"})
                assert asof or answer["hits"]
                notices.add(answer.get("notice", ""))
        return notices

    def write(number: int) -> set[str]:
        chance, ids = Random(number), list[str]()  # noqa: S311 - any changes will do
        while time.monotonic() < end:
            change(memory, None, chance, ids, [f"writer {number}"])
        return set()

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(recall if at < 5 else write, at) for at in range(8)]
    notices = set.union(*(each.result() for each in running))
    assert not [each for each in notices if "lane" in each]
    after = open_memory(model=HashEmbedder())
    for query in (*queries, *QUERIES):
        assert contents(memory, query) == contents(after, query)
    assert not any(look_for_faults(memory).values())
