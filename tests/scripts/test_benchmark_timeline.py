"""The benchmark of the timeline: what it makes up, tells and leaves behind; no times."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark
import benchmark_timeline
from benchmark_timeline import Entries, PlantedVectors
from index.calibration import similarity
from text.words import fold
from timeline.scale import measured, merged

FEW = ("--timeline", "--entries", "60", "--queries", "3", "--dim", "64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where temporary folders are made."""
    with pytest.MonkeyPatch.context() as patch:
        made = tmp_path_factory.mktemp("temporary")
        patch.setattr(tempfile, "tempdir", str(made))
        yield made


class Said(dict[str, Any]):
    """The report, and what was printed."""

    printed = ""


@pytest.fixture(scope="module")
def report(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Said:
    path = tmp_path_factory.mktemp("report") / "report.json"
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("builtins.print", lambda *told, **_: lines.append(" ".join(told)))
        assert benchmark.main([*FEW, "--json", str(path)]) == 0
    said = Said(json.loads(path.read_text("utf-8")))
    said.printed = "\n".join(lines)
    return said


# --- The report ------------------------------------------------------------------------


def test_the_report_has_every_figure_for_each_size(report: Said) -> None:
    assert set(report) == {"config", "sizes"}
    assert report["config"]["entries"] == [60]
    found = report["sizes"]["60"]
    assert set(found) == {
        *("fill_s", "planted", "query", "context", "rebuild", "degrees", "duplicates"),
        *("process", "write", "write_with_context", "query_after_write", "file_mb"),
    }
    for name in benchmark_timeline.ROWS:
        assert found[name]["empty_count"] == 0, name
        assert 0 < found[name]["p50_ms"] <= found[name]["p95_ms"]
        assert found[name]["cpu_p50_ms"] > 0
    assert found["query"]["found_pct"] == 100
    assert found["rebuild"]["status"] == "rebuilt"
    assert 0 < found["rebuild"]["largest"] <= found["rebuild"]["grouped"] < 60
    assert found["degrees"]["p50"] <= found["degrees"]["max"] < 60
    assert found["process"]["opened_mb"] >= 0
    assert found["duplicates"]["marked"] == found["planted"]["doubles"]


def test_it_is_printed_as_tables_and_sentences(report: Said) -> None:
    assert report.printed.startswith("60 entries, 3 calls, top 3, embedder vectors.\n")
    for name in benchmark_timeline.ROWS:
        assert f"\n| {name} " in report.printed
    for said in (" edges, degree p50 ", "\nGroups in ", "\nDoubles in ", " found their entry."):
        assert said in report.printed


def test_nothing_is_left_behind(report: Said, folder: Path) -> None:
    assert report
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("option", ["--entries", "--queries", "--top-k", "--dim"])
def test_an_impossible_number_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["--timeline", option, "0"])
    assert f"argument {option}: must be 1 or more" in capsys.readouterr().err


# --- What is made up -------------------------------------------------------------------


def test_a_seed_makes_the_same_entries_and_questions_again() -> None:
    first, again, other = Entries(80, 1), Entries(80, 1), Entries(80, 2)
    assert [first.entry(at) for at in range(80)] == [again.entry(at) for at in range(80)]
    assert first.entry(1) != other.entry(1)
    assert first.questions(20) == again.questions(20) != other.questions(20)
    assert first.placed() == again.placed()


def test_entries_are_as_the_tool_takes_them_and_no_two_are_the_same() -> None:
    made = Entries(600, 1)
    entries = [made.entry(at) for at in range(600)]
    assert len({(each["summary"], *each["tags"]) for each in entries}) == 600
    asked = made.questions(600)
    assert len({each.text for each in asked}) == len(asked) == 600 - made.doubles(600)
    assert len({made.summary(each.about) for each in asked}) == len(asked)
    for each in entries:
        assert len(each["summary"]) <= 200
        assert len({fold(tag) for tag in each["tags"]}) == 5
    contexts = [each["context_text"] for each in entries if "context_text" in each]
    assert {len(text) for text in contexts} == {benchmark_timeline.CONTEXT_CHARACTERS}
    assert len(set(contexts)) == 120
    assert "context_text" not in made.entry(0, with_context=False)


def test_entries_about_one_thing_are_near_and_doubles_nearly_the_same() -> None:
    made = Entries(200, 1)
    model = PlantedVectors(384, 1, made.placed())
    entries = [made.entry(at) for at in range(200)]
    vectors = np.stack(
        [merged(model.passages([each["summary"], *each["tags"]])) for each in entries]
    )
    likeness = similarity(vectors, vectors, float(measured(model, "").entries.mean()))
    things = np.array([-1 - at if of is None else of for at, of in enumerate(made.things[:200])])
    same, pairs = things[:, None] == things, np.triu(np.ones((200, 200), bool), 1)
    assert np.median(likeness[same & pairs]) == pytest.approx(0.65, abs=0.1)
    assert abs(np.median(likeness[~same & pairs])) < 0.1
    doubles = [at for at in range(200) if entries[at]["summary"].endswith("..")]
    assert made.doubles(200) >= len(doubles) > 0
    for at in doubles:
        of = next(other for other in entries if entries[at]["summary"] == other["summary"] + ".")
        one, two = model.passages([entries[at]["summary"], of["summary"]])
        assert one @ two > 0.98


def test_a_question_is_nearest_to_the_entry_it_asks_for() -> None:
    made = Entries(100, 1)
    model = PlantedVectors(384, 1, made.placed())
    summaries = [made.summary(at) for at in range(100)]
    vectors = model.passages(summaries)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    for text, about in made.questions(20):
        assert summaries[about].startswith(text[:-1])
        assert int(np.argmax(vectors @ model.query(text))) == about
    model.prepare(["which?"])
    assert np.array_equal(model.query("which?"), PlantedVectors(384, 1, {}).query("which?"))


def test_the_smallest_file_has_something_to_ask_for() -> None:
    made = Entries(1, 1)
    assert made.questions(5)[0].about == 0
    assert made.doubles(1) == 0
