"""An export holds everything, and importing it gives the same memory again, whatever happens."""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

import export_db
import import_db
import serving
from config import Config
from core.errors import InvalidInput
from exports import Lines, exported, lines, settings, taken_in, written
from hash_embedder import HashEmbedder
from inside import sqlite_of
from memories import Open
from memory import Memory
from store.sqlite.store import SqliteStore
from transfer import importing
from transfer import records as records_module


def total(done: importing.Imported, outcome: str) -> int:
    return sum(counts[outcome] for counts in done.counts.values())


def faults(database: Path) -> dict[str, int]:
    with closing(SqliteStore(database)) as store:
        return {name: count for name, count in store.upkeep.check()[0].items() if count}


def fill(memory: Memory) -> list[str]:
    """20 memories, 6 entities with aliases, 8 relations, 3 updates and 2 forgets."""
    ids = []
    for number in range(20):
        entity = {
            "id": f"boat {number % 6}",
            "kind": "boat",
            "name": f"The Heron {number % 6}",
            "aliases": [f"heron-{number % 6}", "sh600089"],
            "properties": {"z": number % 6, "a": {"deep": [1, 2.5, None]}},
        }
        stored = memory.remember(
            f"On day {number} boat {number % 6} met 小明 in the harbour.\nIt rained. 🟢",
            entities=[entity],
            tags=["Weather", f"day{number}"],
            session_id="log",
            importance=number / 20,
            timestamp=f"2026-07-{number + 1:02}T10:00:00+08:00" if number % 2 else "",
        )
        ids.append(stored["chunk_id"])
    for number in range(8):
        memory.relate(
            f"boat {number % 6}",
            f"boat {(number + 1) % 6}",
            f"tows{number}",
            weight=0.5,
            valid_until="2031-01-01" if number == 7 else "",
            evidence_chunk_id=ids[number],
            properties={"rope": number},
        )
    for number in range(3):
        memory.update(ids[number], new_content=f"New text {number}", new_properties={"x": [1]})
    for number in (5, 6):
        memory.forget(ids[number], reason="wrong")
    memory.recall("harbour")
    memory.stats()  # the log of recalls is written, and with it how often each was returned
    return ids


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all kinds of rows, a merge among them. No test writes to it."""
    path = tmp_path_factory.mktemp("source") / "memory.db"
    config = Config.load({}, database_path=str(path))
    with Memory(config=config, load_model=lambda recorded: HashEmbedder()) as memory:
        memory.wait_for_model(10)
        fill(memory)
        memory.remember("Otto met Otto Brandt.", entities=["Otto", {"id": "O", "name": "Otto B"}])
        memory.relate("Otto", "boat 1", "owns")
        memory.relate("O", "boat 2", "owns")
        memory.merge_entities("Otto", "O")
    return path


# --- There and back --------------------------------------------------------------------


@pytest.mark.parametrize("vectors", [False, True])
def test_an_export_of_what_was_imported_is_the_same_to_the_byte(
    source: Path, tmp_path: Path, vectors: bool
) -> None:
    first = exported(source, vectors=vectors)
    done = taken_in(first, tmp_path / "new.db")
    assert done.problems == done.conflicts == []
    assert exported(tmp_path / "new.db", vectors=vectors) == first
    assert faults(tmp_path / "new.db") == {}


def test_an_export_has_everything_that_is_the_owners(source: Path) -> None:
    records = lines(exported(source))
    assert records[0]["format"] == "mnelo-export"
    kinds = [record["type"] for record in records]
    assert kinds.count("chunk") == 24
    assert kinds.count("entity") == 8
    assert kinds.count("audit") > 40
    closed = [each for each in records if each["type"] == "chunk" and each["valid_until"]]
    assert sum(each["superseded_by"] is not None for each in closed) == 3
    assert sum(each["superseded_by"] is None for each in closed) == 2
    assert any(each["recall_count"] for each in records if each["type"] == "chunk")
    assert any(each["evidence"] for each in records if each["type"] == "relation")
    names = [name["alias"] for each in records for name in each.get("names", ())]
    assert "heron-3" in names


def test_importing_ones_own_export_adds_nothing(tmp_path: Path, open_memory: Open) -> None:
    memory = open_memory()
    fill(memory)
    before = exported(memory.path)
    done = taken_in(before, memory.path)
    assert (total(done, "new"), total(done, "conflict"), total(done, "refused")) == (0, 0, 0)
    assert total(done, "there") == len(lines(before)) - 1
    assert exported(memory.path) == before


def test_recall_answers_as_on_the_source(source: Path, tmp_path: Path) -> None:
    taken_in(exported(source, vectors=True), tmp_path / "new.db")
    answers = []
    for path in (source, tmp_path / "new.db"):
        with Memory(
            config=Config.load(database_path=str(path)),
            load_model=lambda recorded: HashEmbedder(),
        ) as memory:
            memory.wait_for_model(10)
            memory.store.log_recalls = lambda entries: None  # type: ignore[method-assign]
            queries = ("harbour", "heron-3 rain", "小明", "who owns boat 1", "New text")
            found = [memory.recall(query, graph_hops=3)["hits"] for query in queries]
            found.append(memory.recall("rained", asof="2026-07-12")["hits"])
            nodes = memory.graph_query("heron-2") | {"asof": "now"}
            answers.append((found, nodes))
    assert answers[0] == answers[1]
    assert all(answers[0][0])


def test_nothing_that_was_imported_can_be_undone(source: Path, tmp_path: Path) -> None:
    """What another file says was done is history here, and no order to change rows."""
    taken_in(exported(source), tmp_path / "other.db")
    before = exported(tmp_path / "other.db")
    with Memory(config=settings(tmp_path / "other.db")) as memory:
        records = memory.history(500)
        assert {"merge", "update", "forget", "relate"} <= {each["action"] for each in records}
        assert not any(each["can_undo"] for each in records)
        for each in records:
            with pytest.raises(InvalidInput):
                memory.undo(each["audit_id"])
        (merge,) = [each["audit_id"] for each in records if each["action"] == "merge"]
        with pytest.raises(InvalidInput, match="does not hold what an undo needs"):
            memory.undo_merge(merge)
    assert exported(tmp_path / "other.db") == before


def test_numbers_from_outside_are_renumbered_and_cost_no_memory(tmp_path: Path) -> None:
    at = {"timestamp": "2026-07-01T10:00:00.000Z", "created_at": "2026-07-01T10:00:00.000Z"}
    at["valid_from"] = at["timestamp"]
    records: Lines = [
        {"type": "chunk", "id": f"chunk_20260701T100000000Z_{n:012x}", "content": f"kettle {n}"}
        | at
        | {"seq": seq}
        for n, seq in enumerate((3, 1 << 48, 300_000_000))
    ]
    ends = {"type": "relation", "source_id": records[0]["id"], "target_id": records[1]["id"]}
    del at["timestamp"]
    records.append(ends | at | {"id": 1 << 48, "relation": "beside"})
    assert total(taken_in(written(records), tmp_path / "memory.db"), "new") == 4
    with Memory(config=settings(tmp_path / "memory.db")) as memory:
        assert len(memory.recall("kettle", strategy="meta_only")["hits"]) == 3
        with sqlite_of(memory).reader() as db:
            assert list(db.execute("SELECT seq FROM chunks")) == [(3,), (4,), (5,)]
            assert list(db.execute("SELECT id FROM relations")) == [(1,)]


ORDERS = {
    "columns": ["chunks", [1], None, {"1 FROM chunks; UPDATE chunks SET content = 'x'; --": 1}],
    "before": ["chunks", [1], {"content = 'x', valid_until": None}, {}],
    "table": ["chunks SET content = 'x'; --", [1], {"valid_until": None}, {}],
    "attach": ["tags", [1, "x"], None, {"1; ATTACH 'other.db' AS o; DELETE FROM o.t; --": 1}],
    "unwatched": ["meta", ["dim"], {"value": "1"}, {}],
    "key": ["chunks", [], {"valid_until": None}, {}],
    "value": ["chunks", [1], {"valid_until": {"a": 1}}, {}],
    "no list": ["chunks", 1, {"valid_until": None}, {}],
    "short": ["chunks"],
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_audit_record_is_never_executed_neither_from_an_export_nor_from_the_file(
    tmp_path: Path, order: str
) -> None:
    detail = {"rows": [ORDERS[order]], "after": {"chunk": 1, "relation": 0, "change": 1}}
    record = {
        "type": "audit",
        "at": "2026-07-01T10:00:00.000Z",
        "action": "update",
        "target_kind": "chunk",
        "target_id": "x",
        "detail": detail,
    }
    with Memory(config=settings(tmp_path / "memory.db")) as memory:
        memory.remember("The ferry leaves at nine")
    done = taken_in(written([record]), tmp_path / "memory.db")
    assert total(done, "new") == 1
    before = exported(tmp_path / "memory.db")
    with Memory(config=settings(tmp_path / "memory.db")) as memory:
        number = memory.history(1)[0]["audit_id"]
        with pytest.raises(InvalidInput, match="undo"):
            memory.undo(number)
        with sqlite_of(memory).transaction() as db:
            sql = "UPDATE audit SET detail_json = ? WHERE id = ?"
            db.execute(sql, (json.dumps(detail), number))
        assert not memory.history(1)[0]["can_undo"]
        with pytest.raises(InvalidInput, match="does not hold what an undo needs"):
            memory.undo(number)
    assert exported(tmp_path / "memory.db") == before


def test_what_was_imported_beside_other_rows_is_known_again(tmp_path: Path) -> None:
    """Also a merge that was taken back, whose record is found by the number that it has here."""
    with Memory(config=settings(tmp_path / "source.db")) as memory:
        fill(memory)
        memory.remember("Otto met Otto Brandt.", entities=["Otto", {"id": "O", "name": "Otto B"}])
        memory.relate("O", "boat 2", "owns")
        merged = memory.merge_entities("Otto", "O")["audit_id"]
        assert merged
        assert memory.undo_merge(merged) == 1
        memory.relate("Otto", "boat 1", "owns", weight=0.1)
        memory.relate("Otto", "boat 1", "owns", weight=0.2)
    with Memory(config=settings(tmp_path / "other.db")) as memory:
        for number in range(30):
            memory.remember(f"Something else {number}", entities=[f"thing {number}"])
            memory.relate(f"thing {number}", "thing 0", "beside")
    content = exported(tmp_path / "source.db")
    assert total(taken_in(content, tmp_path / "other.db"), "new") == len(lines(content)) - 1
    both = exported(tmp_path / "other.db")
    again = taken_in(content, tmp_path / "other.db")
    assert total(again, "there") == len(lines(content)) - 1
    assert exported(tmp_path / "other.db") == both
    assert faults(tmp_path / "other.db") == {}


def test_a_line_that_stands_twice_is_imported_once(source: Path, tmp_path: Path) -> None:
    header, *records = exported(source).splitlines(keepends=True)
    twice = b"".join(line for record in records for line in (record, record))
    done = taken_in(twice, tmp_path / "new.db")
    assert total(done, "new") == total(done, "there") == len(records)
    assert exported(tmp_path / "new.db") == header + b"".join(records)


def test_vectors_are_taken_only_where_they_are_of_the_same_model(
    source: Path, tmp_path: Path
) -> None:
    content = exported(source, vectors=True)
    other = HashEmbedder()
    other.name = "test/other"
    config = Config.load(database_path=str(tmp_path / "other.db"))
    with Memory(config=config, load_model=lambda recorded: other) as memory:
        memory.wait_for_model(10)
    assert not taken_in(content, tmp_path / "other.db").vectors
    assert taken_in(content, tmp_path / "none.db").vectors
    with Memory(config=settings(tmp_path / "other.db")) as memory:
        assert memory.stats()["vectors"] == 0
        assert memory.stats()["pending"] == memory.stats()["chunks"]["active"]
    with Memory(config=settings(tmp_path / "none.db")) as memory:
        assert memory.stats()["pending"] == 0
        assert memory.stats()["embedder"]["model"] == "test/hash"


def test_vectors_wait_where_the_file_changes_its_model_meanwhile(
    source: Path, tmp_path: Path
) -> None:
    """A batch that comes after the change must not put vectors of two models side by side."""
    header, *records = lines(exported(source, vectors=True))
    chunks = [
        records_module.read_record("chunk", {name: each[name] for name in each if name != "type"})
        for each in records
        if each["type"] == "chunk" and each["valid_until"] is None
    ]
    model = importing._model_in(header)
    assert model
    with closing(SqliteStore(tmp_path / "new.db")) as store:
        mark = store.adopt_model(model).mark
        for made_by, batch in ((mark, chunks[:2]), ("of another time", chunks[2:4])):
            store.intake(set(), made_by).put("chunk", batch)
        with store.view() as view:
            assert (view.vector_count(), view.pending_count()) == (2, 2)


@pytest.mark.parametrize("mode", ["warn", "redact", "refuse", "off"])
def test_the_guard_looks_at_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
    monkeypatch.setenv("MNELO_MEMORY_GUARD_MODE", "off")
    with Memory(tmp_path / "m.db", config=settings(tmp_path / "m.db")) as memory:
        memory.remember(f"the key is {secret}", tags=["a", secret])
        entity = {"id": "door", "aliases": [secret], "properties": {"key": secret}}
        memory.remember("an innocent one", entities=[entity])
    content = exported(tmp_path / "m.db")
    monkeypatch.setenv("MNELO_MEMORY_GUARD_MODE", mode)
    done = taken_in(content, tmp_path / "new.db")
    kept = (tmp_path / "new.db").read_bytes()
    assert (secret.encode() in kept) == (mode in ("warn", "off"))
    assert done.secrets == ([] if mode in ("refuse", "off") else ["api_key"])
    assert total(done, "refused") == (2 if mode == "refuse" else 0)
    assert all(secret not in problem.reason for problem in done.problems)
    assert not faults(tmp_path / "new.db")
    again = taken_in(content, tmp_path / "new.db")
    assert total(again, "new") == 0


def test_vectors_of_another_length_are_refused(source: Path, tmp_path: Path) -> None:
    records = lines(exported(source, vectors=True))
    with_vectors = [at for at, each in enumerate(records) if each.get("vectors")]
    records[with_vectors[0]]["vectors"] = ["AACAPw=="]  # one number
    done = taken_in(written(records), tmp_path / "new.db")
    assert with_vectors[0] + 1 in [each.line for each in done.problems]
    assert done.counts["chunk"]["refused"] == 1
    assert faults(tmp_path / "new.db") == {}


# --- Merging ---------------------------------------------------------------------------


def test_two_files_become_one_and_each_row_keeps_its_id(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Memory(config=settings(tmp_path / f"{name}.db")) as memory:
            memory.remember(
                f"Anna of file {name} likes tea.",
                entities=[{"id": "Anna", "aliases": [f"Annie {name}"]}],
                relations=[{"source_id": "Anna", "target_id": name, "relation": "likes"}],
            )
            memory.remember("The ferry is late.", entities=[f"only {name}"])
    content = exported(tmp_path / "two.db")
    done = taken_in(content, tmp_path / "one.db")
    assert done.problems == []
    assert done.counts["chunk"] == {"new": 2, "there": 0, "conflict": 0, "refused": 0}
    assert done.counts["entity"]["conflict"] == 1, "Anna is there, since another moment"
    assert len(done.conflicts) == 1
    assert faults(tmp_path / "one.db") == {}
    with Memory(config=settings(tmp_path / "one.db")) as memory:
        assert memory.stats()["chunks"]["active"] == 4
        assert set(memory.show_entity("Anna")["aliases"]) == {"Annie one", "Annie two"}
        assert {edge["target_id"] for edge in memory.show_entity("Anna")["relations"]} == {
            "one",
            "two",
        }
        found = {hit["content"] for hit in memory.recall("Annie two", graph_hops=2)["hits"]}
        assert "Anna of file two likes tea." in found
    again = taken_in(content, tmp_path / "one.db")
    assert total(again, "new") == 0


def test_names_of_either_file_are_found_in_the_texts_of_the_other(tmp_path: Path) -> None:
    with Memory(config=settings(tmp_path / "one.db")) as memory:
        memory.remember("Known here.", entities=["Quentin"])
        old = memory.remember("Rosalind came by.")["chunk_id"]
    with Memory(config=settings(tmp_path / "two.db")) as memory:
        memory.remember("Known there.", entities=["Rosalind"])
        new = memory.remember("Quentin called.")["chunk_id"]
    taken_in(exported(tmp_path / "two.db"), tmp_path / "one.db")
    mentions = {
        each["id"]: each["mentions"]
        for each in lines(exported(tmp_path / "one.db"))
        if each["type"] == "chunk"
    }
    assert mentions[old] == {"Rosalind": "found"}
    assert mentions[new] == {"Quentin": "found"}


def test_what_is_there_stays_as_it_is_and_what_differs_is_named(tmp_path: Path) -> None:
    with Memory(config=settings(tmp_path / "m.db")) as memory:
        kept = memory.remember("The kettle is red.", entities=["kettle"])["chunk_id"]
        gone = memory.remember("The kettle is cold.")["chunk_id"]
        content = exported(memory.path)
        memory.forget(gone)
    records = lines(content)
    at = next(n for n, each in enumerate(records) if each.get("id") == kept)
    records[at]["content"] = "The kettle is blue."
    done = taken_in(written(records), tmp_path / "m.db")
    assert [each.line for each in done.conflicts] == [at + 1]
    assert total(done, "new") == 0
    with Memory(config=settings(tmp_path / "m.db")) as memory:
        assert memory.show_chunk(kept)["content"] == "The kettle is red."
        assert memory.show_chunk(gone)["valid_until"], "what was forgotten stays forgotten"


# --- Bad lines -------------------------------------------------------------------------


def some_records(tmp_path: Path) -> Lines:
    with Memory(config=settings(tmp_path / "some.db")) as memory:
        for number in range(4):
            memory.remember(f"Note {number}")
    return [each for each in lines(exported(tmp_path / "some.db")) if each["type"] == "chunk"]


@pytest.mark.parametrize("strict", [False, True])
def test_good_lines_of_a_damaged_file_are_imported_and_each_bad_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strict: bool
) -> None:
    one, two, three, four = map(json.dumps, some_records(tmp_path))
    lacking, empty = json.loads(two), json.loads(two) | {"content": None}
    del lacking["content"]
    file = tmp_path / "damaged.jsonl"
    parts = (
        "\ufeff" + one,
        "",
        '{"type":"chunk"',
        two + three,
        json.dumps(lacking),
        json.dumps(empty),
        '{"type": "cloud"}',
        '{"type": ["chunk"]}',
        "[1]",
        json.dumps(json.loads(two) | {"importance": float("nan")}),
        three,
        four,  # without an end of line
    )
    file.write_bytes("\r\n".join(parts).encode() + b"")
    options = ["--strict"] if strict else []
    assert import_db.main([str(file), "--db", str(tmp_path / "new.db"), "--json", *options]) == 1
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert [each["line"] for each in said["problems"]] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert "content" in said["problems"][2]["reason"]
    assert "content" in said["problems"][3]["reason"]
    assert "entity, chunk, relation, audit" in said["problems"][4]["reason"]
    assert err.count("\n") == 8
    assert said["imported"] is not strict
    if strict:
        assert not (tmp_path / "new.db").exists()
        return
    with Memory(config=settings(tmp_path / "new.db")) as memory:
        kept = {json.loads(each)["content"] for each in (one, three, four)}
        assert {hit["content"] for hit in memory.recall("Note")["hits"]} == kept
    assert faults(tmp_path / "new.db") == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "chunk_1"}, "id of a memory"),
        ({"timestamp": "yesterday"}, "ISO 8601"),
        ({"valid_until": "2001-01-01T00:00:00Z"}, "is not after valid_from"),
        ({"importance": 2}, "importance"),
        ({"seq": 0}, "seq"),
        ({"metadata": [1]}, "metadata"),
        ({"mentions": {"Anna": "guessed"}}, "mentions"),
        ({"vectors": ["!"]}, "base64"),
        ({"colour": "red"}, "colour"),
        ({"superseded_by": "chunk_20260701T020304567Z_0123456789ab"}, "not closed"),
    ],
)
def test_a_record_that_cannot_be_is_refused_by_field(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    record = some_records(tmp_path)[0] | change
    done = taken_in(written([record]), tmp_path / "new.db")
    assert len(done.problems) == 1
    assert said in str(done.problems[0])
    assert done.counts["chunk"]["refused"] == 1


ODD: Sequence[Any] = (
    *("", " ", "a", " a", "a  b", "a\n", "\n", "\u200b", "\ud800", "\x00", "Ａ", "é", "e\u0301"),
    *("x" * 65, "x" * 257, "x" * 2000, "given", "5", "true", "null", "[]", "{}"),
    *(None, True, 0, 1, -1, 5, 0.0, -0.0, 0.5, 1.0, 1.5, float("inf"), 1 << 63),
    *("2026-07-01", "2026-07-01T00:00:00.000Z", "2026-07-01 00:00:00.000Z", "2026-07-01T24:00:00Z"),
    *("2026-07-01T00:00:00.000+00:00Z", "2026-02-30T00:00:00.000Z", "0001-01-01T00:00:00.000Z"),
    *("chunk_20260701T020304567Z_0123456789ab", "chunk_20260701T020304567Z_0123456789ab\n"),
    *([], ["a"], [" a"], [1], [None], ["a", "\ud800"], ["chunk_20260701T020304567Z_0123456789ab"]),
    *({}, {"a": 1}, {"a": "\ud800"}, {"\ud800": 1}, {"a": [1]}, {"a": float("inf")}, {"a": None}),
    *({"a": "given"}, {"Ａ": "found"}, {"a": "guessed"}, {"": "given"}),
)


def test_no_value_is_taken_unread_that_reading_would_refuse_or_change() -> None:
    """What tells quickly that a value is as an export writes it must know as much as the reader."""
    quick = 0
    for record in (
        *records_module.RECORDS.values(),
        records_module.ENTITY_VERSION,
        records_module.ENTITY_NAME,
    ):
        for name, argument, test in record._fields:
            for value in ODD:
                if test(value):
                    read = argument.read_given(name, value)
                    assert (type(read), repr(read)) == (type(value), repr(value)), name
                    quick += 1
    assert quick > 200


def test_what_refers_to_nothing_is_said_and_leaves_no_fault(tmp_path: Path, source: Path) -> None:
    records = lines(exported(source))
    after = {each["superseded_by"] for each in records if each["type"] == "chunk"} - {None}
    kept = [
        each
        for each in records
        if each.get("id") not in after and not (each["type"] == "entity" and each["id"] == "boat 1")
    ]
    done = taken_in(written(kept), tmp_path / "new.db")
    said = "\n".join(map(str, done.problems))
    assert "boat 1" in said
    assert all(each in said for each in after)
    assert faults(tmp_path / "new.db") == {}
    assert done.counts["relation"]["refused"] > 0


def test_a_file_that_was_cut_off_between_lines_is_noticed(tmp_path: Path, source: Path) -> None:
    whole = exported(source).splitlines(keepends=True)
    done = taken_in(b"".join(whole[:-5]), tmp_path / "new.db")
    assert len(done.problems) == 1
    assert str(len(whole) - 1) in str(done.problems[0])


def test_a_loop_of_versions_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    one, two, *_ = some_records(tmp_path)
    for record, other in ((one, two), (two, one)):
        record |= {"valid_until": record["valid_from"], "superseded_by": other["id"]}
    with pytest.raises(InvalidInput, match="leads back"):
        taken_in(written([one, two]), tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_second_export_in_the_same_file_is_left_out(tmp_path: Path, source: Path) -> None:
    content = exported(source)
    done = taken_in(content + content, tmp_path / "new.db")
    assert [each.line for each in done.problems] == [content.count(b"\n") + 1]
    assert exported(tmp_path / "new.db") == content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not an export"),
        (b"dear diary\n", "is not an export"),
        (b"\x00\xff" * 100, "is not an export"),
        (b'{"type": "header", "format": "mnelo-export", "version": 99}\n', "version 99"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    assert import_db.main([str(tmp_path / "file"), "--db", str(tmp_path / "new.db")]) == 1
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "new.db").exists()


# --- The scripts -----------------------------------------------------------------------


def test_a_dry_run_says_what_would_come_and_makes_no_file(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(source)
    file, database = str(source.with_suffix(".jsonl")), tmp_path / "new.db"
    assert import_db.main([file, "--db", str(database), "--dry-run"]) == 0
    assert "versions of memories: 24 new, 0 there already" in capsys.readouterr().out
    assert list(tmp_path.glob("*.db*")) == []
    assert import_db.main([file, "--db", str(database)]) == 0
    before = exported(database)
    capsys.readouterr()
    assert import_db.main([file, "--db", str(database), "--dry-run"]) == 0
    assert "versions of memories: 0 new, 24 there already" in capsys.readouterr().out
    assert exported(database) == before


def test_an_export_goes_to_stdout_and_what_is_said_of_it_does_not(
    source: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert export_db.main(["--db", str(source), "--json"]) == 0
    out, err = capfdbinary.readouterr()
    assert out == exported(source)
    assert json.loads(err)["records"]["chunk"] == 24


def test_an_export_is_private_and_replaces_only_when_it_is_complete(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("the last one")
    assert export_db.main(["--db", str(tmp_path / "none.db"), "--to", str(target)]) == 1
    assert "no database" in capsys.readouterr().err
    assert target.read_text() == "the last one"
    assert not (tmp_path / "none.db").exists()
    assert export_db.main(["--db", str(source), "--to", str(target)]) == 0
    assert target.read_bytes() == exported(source)
    if sys.platform != "win32":
        assert target.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.glob(".*")] == []
    assert export_db.main(["--db", str(source), "--to", str(source)]) == 1
    assert export_db.main(["--db", str(source), "--to", str(tmp_path / "no" / "x")]) == 1
    assert "cannot be written" in capsys.readouterr().err


# --- Beside others, and killed ---------------------------------------------------------


@pytest.fixture(scope="module")
def long_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some hundred memories with versions, entities and relations."""
    path = tmp_path_factory.mktemp("long") / "memory.db"
    with Memory(config=settings(path)) as memory:
        items = [
            {
                "content": f"Entry {number} of the log, near buoy {number % 40}",
                "session_id": f"s{number % 7}",
                "entities": [f"buoy {number % 40}"],
                "relations": [
                    {"source_id": f"buoy {number % 40}", "target_id": "sea", "relation": "in"}
                ],
            }
            for number in range(450)
        ]
        stored = memory.remember_many(items)
        for each in stored[::25]:
            memory.update(each["chunk_id"], new_content=f"Corrected {each['chunk_id']}")
    exported(path)
    return path.with_suffix(".jsonl")


@pytest.mark.skipif(not serving.FORKS, reason="a process needs too long to start")
def test_others_write_while_an_import_runs(tmp_path: Path, long_export: Path) -> None:
    database = tmp_path / "m.db"
    with Memory(config=settings(database)) as memory:
        memory.remember("First.")
        run = serving.processes().Process(
            target=import_db.main, args=([str(long_export), "--db", str(database)],)
        )
        run.start()
        mine = 0
        while run.is_alive():
            memory.remember(f"Meanwhile {mine}", entities=[f"mine {mine}"])
            mine += 1
            time.sleep(0.03)
        run.join()
        assert run.exitcode == 0
        assert mine > 0
        assert memory.stats()["chunks"]["active"] == 451 + mine
        # What the running process has in memory is up to date too.
        assert memory.recall("Entry 333 of the log")["hits"][0]["content"].startswith("Entry 333 ")
        assert len(memory.graph_query("buoy 3", max_hops=1)["nodes"]) > 1
    assert faults(database) == {}


def test_a_file_that_changes_after_it_was_judged_is_not_taken_in(
    tmp_path: Path, long_export: Path
) -> None:
    content = long_export.read_bytes()
    file, database = tmp_path / "changing.jsonl", tmp_path / "m.db"
    file.write_bytes(content)
    told = []

    def change(done: int, whole: int) -> None:
        told.append(done)
        with file.open("r+b") as changed:
            changed.write(content.replace(b'"importance":0.5', b'"importance":9.5'))

    with pytest.raises(InvalidInput, match=r"changing\.jsonl"):
        importing.import_file(
            file, settings(database), strict=False, dry_run=False, progress=change
        )
    assert told
    assert faults(database) == {}
    assert all(record.get("importance", 0.5) == 0.5 for record in lines(exported(database)))
    taken_in(content, database)
    assert exported(database) == content


def killed_imports(file: Path, database: Path, times: int, seed: int) -> Sequence[int]:
    """How many memories were there after each import that was killed."""
    random, counts = Random(seed), []  # noqa: S311 - moments, not secrets
    for _ in range(times):
        process = serving.processes().Process(
            target=import_db.main, args=([str(file), "--db", str(database)],)
        )
        process.start()
        time.sleep(random.uniform(0, 0.5))
        process.kill()
        process.join()
        if database.exists() and database.stat().st_size:
            with closing(SqliteStore(database)) as store, store.view() as view:
                assert not any(store.upkeep.check()[0].values())
                counts.append(view.counts()["chunks"]["total"])
    return counts


def outlives_kills(file: Path, tmp_path: Path, times: int, seed: int) -> None:
    counts = killed_imports(file, tmp_path / "m.db", times, seed)
    assert list(counts) == sorted(counts), "nothing that was there is lost"
    assert import_db.main([str(file), "--db", str(tmp_path / "m.db")]) == 0
    assert exported(tmp_path / "m.db") == file.read_bytes()
    assert faults(tmp_path / "m.db") == {}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_import_is_finished_by_the_next(tmp_path: Path, long_export: Path) -> None:
    outlives_kills(long_export, tmp_path, 6, seed=1)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("seed", range(3))
def test_imports_killed_twenty_times_each(tmp_path: Path, long_export: Path, seed: int) -> None:
    outlives_kills(long_export, tmp_path, 20, seed)
