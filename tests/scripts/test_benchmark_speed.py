"""The benchmark of speed: what it makes up, what it counts and what it leaves behind; no times."""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark_speed
from benchmark_corpus import TAIL, ClusteredVectors, Corpus, Watched
from benchmark_plain import Baseline
from benchmark_speed import Stopwatch
from config import LANES

FIGURES = {
    *("p50_ms", "p95_ms", "p99_ms", "min_ms", "max_ms", "mean_ms", "stdev_ms"),
    *("cpu_p50_ms", "cpu_p95_ms", "empty_count", "empty_pct"),
}


def run(*options: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    benchmark_speed.add_arguments(parser)
    return benchmark_speed.run(parser.parse_args(options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where temporary folders are made."""
    with pytest.MonkeyPatch.context() as patch:
        made = tmp_path_factory.mktemp("temporary")
        patch.setattr(tempfile, "tempdir", str(made))
        yield made


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    return run("--chunks", "150", "--queries", "10", "--baseline")


# --- The report ------------------------------------------------------------------------


def test_the_report_has_every_figure(report: dict[str, Any]) -> None:
    assert set(report) == {
        *("config", "seed_time_s", "total_query_time_s", "recall", "uncached", "together"),
        *("sequential", "lanes", "shares", "words", "ingest", "rss_mb", "file_mb"),
        *("cold_start_s", "final_db_stats", "baseline"),
    }
    assert set(report["shares"]) == {*LANES, "fusion", "certainty", "hits"}
    assert min(report["shares"].values()) > 0
    for way in ("recall", "uncached", "together", "sequential"):
        assert set(report[way]) == FIGURES
        assert report[way]["empty_count"] == 0
    ratios = {f"{clock}_ratio_{at}" for clock in ("cpu", "wall") for at in ("p50", "p95")}
    assert set(report["baseline"]) == {*FIGURES, *ratios, "agreement", "lanes"}
    assert set(report["ingest"]) == {"chunks_per_s", "embed_s", "store_s"}
    assert report["config"]["chunks"] == 150
    assert report["file_mb"] > 0.1


def test_all_four_lanes_found_something(report: dict[str, Any]) -> None:
    assert set(report["lanes"]) == set(report["baseline"]["lanes"]) == set(LANES)
    for lane in LANES:
        assert report["lanes"][lane]["hits_pct"] > 0, lane


def test_what_was_made_up_is_in_the_file(report: dict[str, Any]) -> None:
    stats = report["final_db_stats"]
    assert stats["chunks"]["active"] == stats["vectors"] == 150
    assert stats["pending"] == 0
    assert 100 <= stats["entities"]["active"] <= 110
    assert 200 <= stats["relations"]["active"] <= 450


def test_both_designs_find_the_nearest_vectors(report: dict[str, Any]) -> None:
    agreement = report["baseline"]["agreement"]
    assert agreement["baseline_exact"] == 1.0
    assert agreement["nearest"] == 1.0
    assert 0.5 < agreement["exact"] <= 1
    assert 0 < agreement["answers"] <= 1


def test_nothing_is_left_behind(report: dict[str, Any], folder: Path) -> None:
    assert report
    assert list(folder.iterdir()) == []


def test_it_runs_without_a_model_and_prints_what_it_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run("--chunks", "40", "--queries", "2", "--embedder", "none")
    assert "baseline" not in report
    assert report["lanes"]["vector"]["hits_pct"] == 0
    assert report["lanes"]["meta"]["hits_pct"] > 0
    printed = capsys.readouterr().out
    assert printed.startswith("40 memories, 2 questions, top 10, embedder none (0).\n")
    for row in ("recall", "uncached", "together", "sequential", *LANES):
        assert f"\n| {row} " in printed
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("option", ["--chunks", "--queries", "--top-k", "--dim"])
def test_an_impossible_number_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(option, "0")
    assert f"argument {option}: must be 1 or more" in capsys.readouterr().err


# --- What is made up -------------------------------------------------------------------


def test_a_seed_makes_the_same_memories_and_questions_again() -> None:
    first, again, other = Corpus(150, 1), Corpus(150, 1), Corpus(150, 2)
    assert list(first.memories()) == list(again.memories()) != list(other.memories())
    assert first.questions(25) == again.questions(25) != other.questions(25)


def test_memories_hang_together() -> None:
    memories = [memory for batch in Corpus(1200, 1).memories() for memory in batch]
    assert len({memory["content"][-TAIL:] for memory in memories}) == 1200
    sessions = Counter(memory["session_id"] for memory in memories)
    assert set(sessions.values()) == {20}
    assert memories == sorted(memories, key=lambda memory: str(memory["timestamp"]))
    edges = [edge for memory in memories for edge in memory["relations"]]
    assert 2.5 * 1200 < len(edges) <= 3 * 1200
    (_, most), *_ = Counter(edge["target_id"] for edge in edges).most_common(1)
    assert most > 0.03 * len(edges), "much leads to one entity"
    assert any("sh600" in memory["content"] for memory in memories)


def test_no_entity_is_related_before_it_is_known() -> None:
    known: set[str] = set()
    for batch in Corpus(300, 1).memories():
        for memory in batch:
            about = memory["entities"]
            known |= {each if isinstance(each, str) else each["id"] for each in about}
            assert {edge["target_id"] for edge in memory["relations"]} <= known


def test_questions_differ_and_ask_for_what_is_there() -> None:
    corpus = Corpus(300, 1)
    questions = corpus.questions(64)
    assert len({each.text for each in questions}) == 64
    for words, name, _, chinese, *_ in zip(*[iter(questions)] * 8, strict=True):
        content = corpus.memory(words.about)["content"].lower()
        assert all(word in content for word in words.text.split())
        assert name.text == corpus.named(corpus.about(name.about)[0])
        assert chinese.text in corpus.memory(chinese.about)["content"]


def test_the_smallest_corpus_has_something_to_ask_for() -> None:
    corpus = Corpus(1, 1)
    assert [len(batch) for batch in corpus.memories()] == [1]
    assert len(corpus.questions(7)) == 7


def test_vectors_are_of_length_one_and_a_question_is_nearest_to_what_it_asks_for() -> None:
    texts = [f"text {number}" for number in range(50)]
    model = ClusteredVectors(50, 64, 1, {"which?": "text 7"})
    vectors = model.passages(texts)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert int(np.argmax(vectors @ model.query("which?"))) == 7
    assert np.array_equal(vectors, ClusteredVectors(50, 64, 1, {}).passages(texts))


def test_what_stands_before_a_text_changes_no_vector() -> None:
    model = Watched(ClusteredVectors(50, 64, 1, {}))
    text = "a text of more than forty characters, as all of the memories are"
    (stored,) = model.passages([f"[2024-01-01] somebody: {text}"])
    assert np.array_equal(model.taken([text, "another"])[0], stored)
    assert np.array_equal(model.taken([text])[0], stored), "made once more"


# --- What is counted -------------------------------------------------------------------


def test_statistics_of_known_times() -> None:
    watch = Stopwatch()
    watch.wall, watch.cpu = [float(number) for number in range(1, 102)], [4.0, 6.0]
    watch.empty = 2
    summary = watch.summary()
    assert [summary[f"p{each}_ms"] for each in (50, 95, 99)] == [51.0, 96.0, 100.0]
    assert (summary["min_ms"], summary["max_ms"], summary["mean_ms"]) == (1.0, 101.0, 51.0)
    assert summary["stdev_ms"] == 29.3
    assert (summary["cpu_p50_ms"], summary["cpu_p95_ms"]) == (5.0, 5.9)
    assert (summary["empty_count"], summary["empty_pct"]) == (2, 2.0)


def test_one_time_has_no_spread_and_an_empty_answer_is_counted() -> None:
    watch = Stopwatch()
    assert watch.time(list) == []
    assert watch.summary()["stdev_ms"] == 0.0
    assert watch.summary()["empty_pct"] == 100.0


def test_the_plain_design_finds_by_words_names_links_and_vectors(tmp_path: Path) -> None:
    baseline = Baseline(tmp_path / "plain.db", 2)
    told = {"tags": [], "session_id": "s", "source": "s", "importance": 0.5, "timestamp": ""}
    edge = {"source_id": "boat", "target_id": "harbour", "relation": "lies_in", "weight": 1.0}
    items = [
        {**told, "content": "It is red.", "entities": ["boat"], "relations": [edge]},
        {**told, "content": "It is deep.", "entities": ["harbour"], "relations": []},
        {**told, "content": "100% of it", "entities": [], "relations": []},
    ]
    vectors = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    baseline.put(items, vectors)
    found = {lane: look("boat deep", vectors[2]) for lane, look in baseline.lanes().items()}
    assert found["vector"] == [3, 2, 1]
    assert (found["meta"], found["entity"], found["graph"]) == ([2], [1], [1, 2])
    assert baseline.recall("boat deep", vectors[2], 2) == [1, 2]
    assert baseline.lanes()["meta"]("00%", None) == [3]
    assert baseline.lanes()["meta"]("?", None) == []
    baseline.close()
