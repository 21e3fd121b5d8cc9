"""The benchmark of retrieval: its arithmetic by hand, its rows on conversations of a few lines."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

import benchmark
from benchmark_datasets import Dataset, Refused, crossed, read_dataset, together
from benchmark_retrieval import (
    METRICS,
    Asked,
    Bm25,
    CachingEmbedder,
    chosen_rows,
    interval,
    measure,
    score,
    summary,
    unknown,
)
from config import ROOT
from core.types import Vectors
from hash_embedder import HashEmbedder
from text import words

Report = Callable[..., dict[str, Any]]

TALK = {
    "id": 7,
    "speakers": ["Ann", "Bo"],
    "sessions": {"1": "1:56 pm on 8 May, 2023", "2": "9:05 am on 1 June, 2023"},
    "turns": [
        {"id": "D1:1", "s": 1, "sp": "Ann", "text": "I planted tulips behind the garage."},
        {"id": "D1:2", "s": 1, "sp": "Bo", "text": "Nice!", "img": "a red bicycle"},
        {"id": "D2:1", "s": 2, "sp": "Ann", "text": "My brother moved to Lisbon."},
        {"id": "D2:2", "s": 2, "sp": "Bo", "text": "The piano needs tuning."},
    ],
    "qa": [
        {"q": "Where did Ann plant tulips?", "a": "garage", "cat": 4, "ev": ["D1:1"]},
        {"q": "When did the brother move to Lisbon?", "a": "June", "cat": 2, "ev": ["D2:1"]},
        {"q": "What colour is the helicopter?", "a": "red", "cat": 5, "ev": ["D1:2"]},
        {"q": "Is there any evidence?", "a": "no", "cat": 4, "ev": []},
    ],
}
OTHER_TALK = {
    "id": 8,
    "speakers": ["Cy", "Di"],
    "sessions": {"1": "12:01 am on 3 July, 2023"},
    "turns": [
        {"id": "D1:1", "s": 1, "sp": "Cy", "text": "The lighthouse is painted white."},
        {"id": "D1:2", "s": 1, "sp": "Di", "text": "I collect old coins."},
    ],
    "qa": [{"q": "What does Di collect?", "a": "coins", "cat": 1, "ev": ["D1:2"]}],
}
USER_ZH = {
    "id": "u0",
    "user": "小明",
    "turns": [
        {"id": "04-27/0", "day": "2023-04-27", "u": "我养了一只乌龟。", "r": "真可爱！"},
        {"id": "04-28/0", "day": "2023-04-28", "u": "今天去爬了泰山。", "r": "风景好吗？"},
        {"id": "04-29/0", "day": "2023-04-29", "u": "我买了钢琴。", "r": "祝贺你。"},
    ],
    "qa": [
        {"q": "我养了什么宠物？乌龟吗？", "ev": ["04-27/0"], "cat": "plain"},
        {"q": "我哪天去爬泰山？", "ev": ["04-28/0", "04-29/0"], "cat": "dated"},
    ],
}
USER_EN = {
    "id": "u0",
    "user": "Ming",
    "turns": [
        {"id": "04-27/0", "day": "2023-04-27", "u": "I keep a turtle.", "r": "How cute!"},
        {"id": "04-28/0", "day": "2023-04-28", "u": "I climbed Mount Tai.", "r": "A fine view?"},
    ],
    "qa": [{"q": "Which pet do I keep?", "ev": ["04-27/0"], "cat": "plain"}],
}


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    return written(tmp_path / "talks.json", {"conversations": [TALK, OTHER_TALK]})


@pytest.fixture
def chinese(tmp_path: Path) -> Path:
    return written(tmp_path / "chinese.json", {"users": [USER_ZH]})


@pytest.fixture
def english(tmp_path: Path) -> Path:
    return written(tmp_path / "english.json", {"users": [USER_EN]})


def written(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False), "utf-8")
    return path


def asked(*scores: float) -> list[Asked]:
    """Questions whose every measure came out as given, in two categories by turns."""
    kinds = ("odd", "even")
    return [Asked(kinds[at % 2], (each,) * len(METRICS), 4.0) for at, each in enumerate(scores)]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Run the command without a model; returns what it wrote."""

    def run(*arguments: str | Path) -> dict[str, Any]:
        path = tmp_path / "report.json"
        given = ["--retrieval", *map(str, arguments), "--model", "none", "--json", str(path)]
        assert benchmark.main(given) == 0
        told: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return told

    return run


def all_of(result: dict[str, Any], row: str) -> dict[str, float]:
    (found,) = [each for each in result["rows"] if each["row"] == row]
    every: dict[str, float] = found["categories"]["all"]
    return every


# --- The arithmetic --------------------------------------------------------------------


def test_the_measures_of_an_answer_are_those_counted_by_hand() -> None:
    found = ["x1", "b", "x2", "x3", "x4", "x5", "a", *(f"y{number}" for number in range(20)), "c"]
    # b is 2nd, a is 7th, c comes after the twentieth and d not at all.
    assert score(found, ["a", "b", "c", "d"]) == (0.0, 0.25, 0.5, 0.5, 1.0, 0.5)
    assert score(["a"], ["a"]) == (1.0,) * 6
    assert score([], ["a"]) == (0.0,) * 6
    assert score([*"abcdefghijk"], ["k"]) == (0.0, 0.0, 0.0, 1.0, 0.0, 1 / 11)


def test_an_interval_is_the_same_in_every_run_and_holds_the_mean() -> None:
    values = np.array([0.0, 1.0, 1.0, 0.5, 0.0, 1.0, 0.25, 1.0])
    low, high = interval(values)
    assert [low, high] == interval(values)
    assert 0.0 < low < values.mean() < high < 1.0
    assert interval(np.full(9, 0.5)) == [0.5, 0.5]
    many_low, many_high = interval(np.tile(values, 100))
    assert many_high - many_low < (high - low) / 5, "more questions, narrower"


def test_a_row_has_its_means_and_what_differs_question_by_question() -> None:
    row = summary(asked(1.0, 0.5, 0.0, 0.5), asked(0.0, 0.5, 0.0, 1.0))
    assert row["categories"]["all"] == {"n": 4, **dict.fromkeys(METRICS, 0.5)}
    assert row["categories"]["odd"] == {"n": 2, **dict.fromkeys(METRICS, 0.5)}
    assert row["difference"]["R@10"]["mean"] == 0.125
    assert row["cpu_ms_p50"] == 4.0
    same = summary(asked(1.0, 0.0, 0.3), asked(1.0, 0.0, 0.3))
    assert same["difference"]["R@1"] == {"mean": 0.0, "interval": [0.0, 0.0]}


def test_bm25_is_that_of_sqlite() -> None:
    texts = {
        "1": "The painter paints a painting of the harbour; painting takes time.",
        "2": "A harbour, a harbour! Boats in the harbour at night.",
        "3": "今天去爬了泰山，泰山真高。",
        "4": "Painters buy paint.",
        "5": "我养了一只乌龟。 The turtle sleeps at night.",
    }
    model = Bm25(texts)
    database = apsw.Connection("")
    database.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize='porter unicode61')")
    for text in texts.values():
        database.execute("INSERT INTO t VALUES (?)", (" ".join(words.index_terms(text)),))
    for query in ("painting of the harbours", "night boats", "泰山在哪里？", "乌龟 sleeping"):
        match = " OR ".join(f'"{term}"' for term in words.query_terms(query))
        found = database.execute("SELECT rowid, -bm25(t) FROM t WHERE t MATCH ?", (match,))
        assert model.scores(query) == pytest.approx({str(key): each for key, each in found})
    assert model.ask("harbour")[0] == "2"


# --- The data --------------------------------------------------------------------------


def test_a_conversation_is_read_with_date_and_speaker_or_bare(talks: Path) -> None:
    pool = read_dataset(talks).pools[0]
    first, second = pool.turns[:2]
    assert first.text == "[1:56 pm on 8 May, 2023] Ann: I planted tulips behind the garage."
    assert second.text == "[1:56 pm on 8 May, 2023] Bo: Nice! [shared image: a red bicycle]"
    assert (first.key, first.session) == ("7/D1:1", "7/1")
    assert (first.when, first.speaker) == ("2023-05-08T13:56:00", "Ann")
    assert [each.category for each in pool.questions] == ["single-hop", "temporal"]
    assert pool.unanswerable == ["What colour is the helicopter?"]
    bare = read_dataset(talks, bare=True).pools[0].turns[1]
    assert bare.text == "Nice! [shared image: a red bicycle]"


def test_a_user_is_read_with_date_and_name_or_bare(chinese: Path) -> None:
    pool = read_dataset(chinese).pools[0]
    assert pool.turns[0].text == "[2023-04-27] 小明: 我养了一只乌龟。\nAI: 真可爱！"
    assert pool.turns[0].when == "2023-04-27"
    assert pool.questions[1].evidence == ("u0/04-28/0", "u0/04-29/0")
    assert read_dataset(chinese, bare=True).pools[0].turns[0].text.startswith("我养了")


def test_a_limit_takes_questions_from_all_over_a_pool(talks: Path) -> None:
    assert [len(pool.questions) for pool in read_dataset(talks, limit=1).pools] == [1, 1]
    assert [len(pool.questions) for pool in read_dataset(talks, limit=9).pools] == [2, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"dialogues": []}', 'is of no known format: it has neither "conversations" nor "users"'),
        ("[1, 2]", "is of no known format"),
        ("not JSON", "cannot be read"),
        ('{"users": [{"id": 1}]}', "is not whole: KeyError: 'user'"),
        ('{"users": []}', "has no question with evidence"),
    ],
)
def test_a_file_that_is_none_of_these_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["--retrieval", str(path), "--model", "none"])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert f"{path} {said}" in told.err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--rows", "lanes,everything"], "no such row: everything"),
        (["--limit", "0"], "0 is no number of questions"),
        (["--cross"], "--cross needs two files of users"),
        (["--json", "/no/such/folder/x.json"], "/no/such/folder is no folder"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_before_the_work(
    talks: Path, capsys: pytest.CaptureFixture[str], option: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["--retrieval", str(talks), "--model", "none", *option])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


# --- The rows --------------------------------------------------------------------------


def test_the_script_prints_a_table_and_writes_the_report(talks: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(ROOT / "scripts" / "benchmark.py"), "--retrieval", str(talks)]
    options = ["--model", "none", "--rows", "baselines", "--json", str(path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "## talks, pool per: 6 memories, 3 questions" in done.stdout
    assert "| default | 100.0 (100.0 to 100.0) | 100.0 |" in done.stdout
    told = json.loads(path.read_text("utf-8"))
    about = {"benchmark": "retrieval", "model": "none", "text": "prefixed", "settings": {}}
    assert about.items() <= told.items()
    assert [(each["data"], each["pool"]) for each in told["results"]] == [
        ("talks", "per"),
        ("talks", "one"),
    ]
    row = told["results"][0]["rows"][0]
    assert row.keys() == {"row", "categories", "interval", "difference", "cpu_ms_p50"}
    assert row["categories"].keys() == {"all", "multi-hop", "single-hop", "temporal"}
    assert row["categories"]["all"].keys() == {"n", *METRICS}
    assert row["interval"].keys() == row["difference"].keys() == {"R@1", "R@10"}


def test_one_store_holds_what_the_pools_hold_apart(talks: Path, report: Report) -> None:
    dataset = read_dataset(talks)
    (whole,) = together(dataset)
    assert [len(pool.turns) for pool in (*dataset.pools, whole)] == [4, 2, 6]
    told = report(talks, "--pool", "one", "--rows", "default")
    (result,) = told["results"]
    assert (result["pool"], result["memories"], result["questions"]) == ("one", 6, 3)


def test_equal_turns_are_one_memory_that_is_the_evidence_of_both(
    tmp_path: Path, report: Report
) -> None:
    again = {**USER_EN["turns"][0], "id": "04-27/1"}  # type: ignore[dict-item]
    question = {"q": "Which turtle do I keep?", "ev": ["04-27/0", "04-27/1"], "cat": "plain"}
    user = {**USER_EN, "turns": [*USER_EN["turns"], again], "qa": [question]}
    told = report(written(tmp_path / "again.json", {"users": [user]}), "--rows", "baselines")
    for row in ("default", "BM25", "LIKE"):
        assert all_of(told["results"][0], row)["R@1"] == 1.0


def test_without_a_model_a_lane_switched_off_finds_no_more(chinese: Path, report: Report) -> None:
    told = report(chinese, "--rows", "lanes", "--pool", "per")
    (result,) = told["results"]
    names = {row["row"] for row in result["rows"]}
    assert {"default", "only meta", "without meta", "only graph"} <= names
    assert not {"only vector", "without vector", "no model"} & names
    assert all_of(result, "default")["R@10"] > 0.5
    assert all_of(result, "only meta")["R@10"] > 0.5
    assert all_of(result, "without meta")["R@20"] < all_of(result, "default")["R@20"]
    (off,) = [row for row in result["rows"] if row["row"] == "without meta"]
    assert off["difference"]["R@10"]["mean"] < 0


def test_with_a_model_there_are_rows_for_vectors_and_for_none(talks: Path) -> None:
    dataset = read_dataset(talks)
    every = chosen_rows(("rerank", "model", "baselines"), vectors=True)
    found = measure(dataset.pools, every, CachingEmbedder(HashEmbedder()), "talks")
    means = {row: summary(each, each)["categories"]["all"] for row, each in found.items()}
    assert means["rerank none"]["R@10"] == 1.0
    assert means["vectors"]["R@10"] == means["LIKE + vectors"]["R@10"] == 1.0
    assert means["no model"]["R@10"] > 0.5
    assert [len(each) for each in found.values()] == [3] * len(every)


def test_the_questions_of_one_language_go_to_the_other(
    chinese: Path, english: Path, report: Report
) -> None:
    over = crossed(read_dataset(chinese), read_dataset(english))
    assert over.name == "chinese asks english"
    assert [turn.speaker for turn in over.pools[0].turns] == ["Ming", "Ming"]
    assert [each.text for each in over.pools[0].questions] == ["我养了什么宠物？乌龟吗？"], (
        "the other question's evidence is not all there"
    )
    told = report(chinese, english, "--cross", "--rows", "default")
    assert [each["data"] for each in told["results"]] == [
        "chinese asks english",
        "english asks chinese",
    ]
    with pytest.raises(Refused, match="no users and turns in common"):
        crossed(read_dataset(chinese), Dataset("nobody", "users", []))


def test_knowing_nothing_is_counted_where_nothing_is_known(talks: Path, report: Report) -> None:
    (told,) = report(talks, "--unknown", "--limit", "3")["unknown"]
    counts = {group: each["n"] for group, each in told["recognised"].items()}
    assert counts == {"off-topic en": 6, "off-topic zh": 6, "no answer": 1, "of others": 3}
    assert told["recognised"]["off-topic zh"]["share"] == 1.0
    assert told["answerable"]["n"] == 3
    assert told["answerable"]["called_unknown"] < 1.0
    assert told["answerable"]["R@10"] == 1.0
    lost = told["answerable"]["R@10"] - told["answerable"]["R@10_without_weak"]
    assert told["answerable"]["R@10_lost"] == pytest.approx(lost)


def test_users_are_not_asked_each_others_questions(chinese: Path) -> None:
    told = unknown(read_dataset(chinese), None, 2)
    assert told["recognised"].keys() == {"off-topic en", "off-topic zh"}


# --- The vectors -----------------------------------------------------------------------


class Counting(HashEmbedder):
    """An embedder that knows how many texts it was given."""

    def __init__(self, name: str = "test/hash") -> None:
        super().__init__(name=name)
        self.texts = 0

    def query(self, text: str) -> Vectors:
        self.texts += 1
        return super().query(text)


def test_a_text_is_embedded_once_and_kept_in_a_file(tmp_path: Path) -> None:
    model, path = Counting(), tmp_path / "vectors.npz"
    cached = CachingEmbedder(model, path)
    first = cached.passages(["a boat", "a lamp", "a boat"])
    assert np.array_equal(first, HashEmbedder().passages(["a boat", "a lamp", "a boat"]))
    cached.query("a boat")
    assert model.texts == 3, "two passages, and the same text as a query"
    cached.save()
    again = CachingEmbedder(model, path)
    assert np.array_equal(again.passages(["a lamp", "a boat"]), first[[1, 0]])
    assert model.texts == 3
    assert again.passages([]).shape == (0, model.dim)


@pytest.mark.parametrize("wrong", ["another model", "no archive"])
def test_a_file_of_other_vectors_is_refused(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "vectors.npz"
    if wrong == "no archive":
        path.write_text("dear diary")
    else:
        other = CachingEmbedder(HashEmbedder(name="test/other"), path)
        other.query("a boat")
        other.save()
    said = "is no cache of vectors" if wrong == "no archive" else "test/other, not of test/hash"
    with pytest.raises(Refused, match=said):
        CachingEmbedder(HashEmbedder(), path)
