"""Erasing: what was erased is in no table and in no byte of the file; all else is as it was."""

import io
import json
import sys
from pathlib import Path

import apsw
import numpy as np
import pytest

import erase
import serving
from admin import reembedding
from config import Config
from core import timestamps
from crash_worker import look, open_file
from embedding.passages import passage
from hash_embedder import HashEmbedder
from inside import sqlite_of
from memories import Open, live, sound, traces
from memory import Memory
from mnelo_client import MneloClient
from serving import killed
from store.sqlite import erase as erase_module
from store.sqlite.next_vectors import NextVectors

HIDDEN = "Zanquibar ξψωφ hides the vault code 81-55-32 beneath the quillwort"
NEXT = "Zanquibar ξψωφ hides nothing any more, says the bramblewick"
FILLING = [f"The ferry number {number} leaves the harbour of Riga" for number in range(12)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at(memory: Memory, *arguments: str) -> int:
    return erase.main(["--db", str(memory.path), *arguments])


def said(memory: Memory) -> list[str]:
    return [row[0] for row in look(memory.path, "SELECT content FROM chunks ORDER BY seq")]


def vector(memory: Memory, text: str, source: str = "diary") -> bytes:
    return (
        HashEmbedder()
        .query(passage(text, source, timestamps.now(), timestamps.zone(memory.config.timezone)))
        .tobytes()
    )


@pytest.fixture
def secret(memory: Memory) -> str:
    """The id of a memory with a secret and a history, among others."""
    for text in FILLING[:6]:
        memory.remember(text, source="harbour", entities=["Riga"])
    told = [{"source_id": "Zanquibar", "target_id": "Riga", "relation": "hides_in"}]
    chunk_id = memory.remember(
        HIDDEN, source="diary", tags=["quillwort"], entities=["Riga"], relations=told
    )["chunk_id"]
    memory.update(chunk_id, new_properties={"seen": "quillwort"}, reason="the quillwort is old")
    memory.update(chunk_id, new_content=NEXT)
    memory.relate(chunk_id, "Riga", "is_about")
    for text in FILLING[6:]:
        memory.remember(text, source="harbour", entities=["Riga"])
    memory.forget(chunk_id, reason="quillwort, again")
    memory.undo(memory.history(1)[0]["audit_id"])
    memory.recall("who hides something")
    memory.stats()
    return str(chunk_id)


def test_vectors_that_a_broken_off_change_of_model_left_behind_are_gone_too(
    memory: Memory, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed between the switch and its last step leaves the replaced vectors."""
    second = HashEmbedder(dim=96, name="test/second")
    with monkeypatch.context() as patch:
        patch.setattr(NextVectors, "drop", lambda *_, **__: None)
        config = Config.load(database_path=str(memory.path))
        reembedding.run(config, reembedding.plan(config, second))
    old = vector(memory, HIDDEN)
    assert traces(memory.path, old)
    assert at(memory, "--chunk", secret, "--yes") == 0
    assert not traces(memory.path, old)


def test_a_memory_is_gone_with_all_its_versions_and_every_byte_of_it(
    memory: Memory, secret: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at(memory, "--entity", "Zanquibar", "--yes")
    memory.recall("what says the bramblewick")
    memory.stats()
    others = said(memory)[:6]
    vectors = [vector(memory, HIDDEN), vector(memory, NEXT)]
    words: list[str | bytes] = ["quillwort", "bramblewick", "ξψω", "81-55-32"]
    for each in (*words, *vectors):
        assert traces(memory.path, each), "or its absence would tell nothing"
    logged = "SELECT results_json FROM recall_log WHERE instr(results_json, ?)"
    ids = [secret, *memory.show_chunk(secret)["newer_versions"]]
    assert look(memory.path, logged, ids[-1:])
    capsys.readouterr()
    assert at(memory, "--chunk", secret, "--yes") == 0
    assert not any(look(memory.path, logged, (chunk_id,)) for chunk_id in ids)
    out = capsys.readouterr().out
    assert "1 memories in 3 versions and 0 entities" in out
    assert f"  - {NEXT}" in out
    assert "nothing of it is left there" in out
    # In this order: the words themselves may come from nowhere else.
    pieces = ["Zanquibar", "zanquibar", "quillwort", "bramblewick", "ξψω", "ψωφ", "81-55-32"]
    assert traces(memory.path, *pieces, *vectors, vectors[0][40:120]) == []
    assert not look(memory.path, "SELECT 1 FROM terms WHERE term IN ('zanquibar', 'quillwort')")
    for table in ("trigram_terms", "closed_trigram_terms"):
        db = sqlite_of(memory).connect(reader=True)
        assert not list(db.execute(f"SELECT 1 FROM {table} WHERE term IN ('zan', 'ψωφ')"))  # noqa: S608
    assert said(memory)[:6] == others == FILLING[:6]
    assert sound(memory)


def test_the_others_are_found_as_before_by_every_lane_and_new_ones_too(
    memory: Memory, open_memory: Open, secret: str
) -> None:
    other = open_memory(model=HashEmbedder())

    def found(query: str, strategy: str = "rrf") -> list[str]:
        hits = other.recall(query, strategy=strategy, top_k=20, max_tokens=100_000)["hits"]
        return sorted(hit["content"] for hit in hits if hit["chunk_id"].startswith("chunk_"))

    assert NEXT in found("bramblewick")
    asked = [("ferry harbour", lane) for lane in ("vector_only", "meta_only", "rrf")]
    before = [[each for each in found(*each) if each != NEXT] for each in asked]
    unchanged = {key: rows for key, rows in live(memory).items() if key == "vectors"}
    assert at(memory, "--chunk", secret, "--yes") == 0
    assert NEXT not in found("bramblewick", "meta_only")
    assert [found(*each) for each in asked] == before
    kept = live(memory)["vectors"]
    assert set(map(tuple, kept)) < set(map(tuple, unchanged["vectors"]))
    # Numbers of words that are gone may be given anew: who has the file open must not mix them up.
    other.remember("A quillwort and a marigold", source="garden")
    memory.remember("A bramblewick and a foxglove", source="garden")
    for each in ("quillwort", "marigold", "bramblewick", "foxglove"):
        assert any(each in text for text in found(each, "meta_only")), each
    numbers = {row[0] for row in look(memory.path, "SELECT id FROM terms")}
    for (terms,) in look(memory.path, "SELECT terms FROM postings"):
        assert numbers.issuperset(np.frombuffer(terms, "<u4").tolist())
    assert not any("marigold" in text for text in found("foxglove", "meta_only"))
    assert sound(memory)


def test_an_entity_is_gone_with_its_names_and_relations_but_not_what_mentions_it(
    memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.remember("She was seen", entities=[{"id": "Wilhelmina", "aliases": ["Billie Quirk"]}])
    memory.remember("in Oslo", entities=["Mina Quirkly"])
    memory.merge_entities("Wilhelmina", "Mina Quirkly", reason="Billie Quirk is the same")
    memory.relate("Wilhelmina", "Oslo", "lives_in")
    memory.relate("Otto", "Oslo", "lives_in")
    memory.recall("where is billie quirk")
    memory.recall("who lives in Oslo")
    memory.stats()
    assert at(memory, "--entity", "Mina Quirkly", "--yes") == 1
    assert "was merged into Wilhelmina" in capsys.readouterr().err
    assert at(memory, "--entity", "entity:wilhelmina", "--yes") == 0
    pieces = ["Wilhelmina", "wilhelmina", "Billie", "billie", "Mina Quirkly", "quirkly"]
    assert traces(memory.path, *pieces) == []
    assert said(memory) == ["She was seen", "in Oslo"]
    assert [row[0] for row in look(memory.path, "SELECT query FROM recall_log")] in (
        [],
        ["who lives in Oslo"],
    )
    assert look(memory.path, "SELECT source_id FROM relations") == [("Otto",)]
    assert sound(memory)


def test_with_memories_takes_along_what_mentions_an_entity(memory: Memory) -> None:
    told = memory.remember("It was Wilhelmina", entities=["Wilhelmina"])["chunk_id"]
    memory.update(told, new_content="It was she")
    memory.remember("It was Otto", entities=["Otto"])
    assert at(memory, "--entity", "Wilhelmina", "--with-memories", "--yes") == 0
    assert said(memory) == ["It was Otto"]
    assert traces(memory.path, "Wilhelmina", "It was she") == []


def test_everything_from_a_source_is_gone_and_what_others_tell_stays(memory: Memory) -> None:
    both = [{"source_id": "Anna", "target_id": "Riga", "relation": "lives_in"}]
    memory.remember("Anna lives in Riga", source="Leak", relations=both)
    memory.remember("Anna does live in Riga", source="diary", relations=both)
    only = [{"source_id": "Xaver Zobel", "target_id": "Riga", "relation": "fled_to"}]
    memory.remember("Zobel fled", source="leak", session_id="one", relations=only)
    memory.remember("Zobel fled again", source="leak", session_id="two")
    assert at(memory, "--source", "LEAK", "--session", "two", "--yes") == 0
    assert "Zobel fled again" not in said(memory)
    assert "Zobel fled" in said(memory)
    assert at(memory, "--source", "leak", "--yes") == 0
    assert said(memory) == ["Anna does live in Riga"]
    assert traces(memory.path, "Xaver", "xaver", "Zobel", "fled_to") == []
    (edge,) = memory.graph_query("Anna")["edges"]
    assert edge["relation"] == "lives_in"
    assert sound(memory)


def test_samples_of_rows_that_sqlite_keeps_for_itself_are_gone_too(
    memory: Memory, secret: str
) -> None:
    with sqlite_of(memory).writing("") as writer:
        writer.db.execute("ANALYZE")
    samples = "SELECT count(*) FROM sqlite_stat4 WHERE instr(sample, ?)"
    if not look(memory.path, "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4'"):
        pytest.skip("this SQLite keeps no samples")
    assert look(memory.path, samples, (b"Zanquibar",)) > [(0,)]
    assert at(memory, "--entity", "Zanquibar", "--yes") == 0
    assert look(memory.path, "SELECT count(*) FROM sqlite_stat4") == [(0,)]


def test_questions_that_name_an_erased_entity_are_gone_also_where_nothing_was_found(
    memory: Memory,
) -> None:
    memory.recall("where does Wilhelmina live")  # nobody knows her yet
    memory.recall("where is the ferry")
    memory.stats()
    memory.remember("She was seen", entities=["Wilhelmina"])
    assert at(memory, "--entity", "Wilhelmina", "--yes") == 0
    asked = [row[0] for row in look(memory.path, "SELECT query FROM recall_log")]
    assert asked == ["where is the ferry"]


def test_relations_that_only_an_erased_source_told_go_though_their_ends_stay(
    memory: Memory,
) -> None:
    memory.remember("Anna and Riga", source="diary", entities=["Anna", "Riga"])
    memory.relate("Anna", "Riga", "owns")  # a relation told by nobody's memory is manual
    both = [{"source_id": "Anna", "target_id": "Riga", "relation": "lives_in"}]
    memory.remember("Anna lives in Riga", source="diary", relations=both)
    assert at(memory, "--source", "manual", "--yes") == 1, "there is no memory of that source"
    memory.remember("a note")
    assert at(memory, "--source", "manual", "--yes") == 0
    assert look(memory.path, "SELECT relation FROM relations") == [("lives_in",)]
    assert sound(memory)


def test_a_relation_that_was_stored_by_itself_outlives_the_memories_that_tell_of_it(
    memory: Memory,
) -> None:
    memory.relate("Anna", "Riga", "lives_in")
    both = [{"source_id": "Anna", "target_id": "Riga", "relation": "lives_in"}]
    told = memory.remember("Anna lives in Riga", source="diary", relations=both)["chunk_id"]
    assert at(memory, "--chunk", told, "--yes") == 0
    (edge,) = memory.graph_query("Anna")["edges"]
    assert edge["relation"] == "lives_in"


# --- Asking ----------------------------------------------------------------------------


def test_a_dry_run_and_a_no_change_nothing_and_without_a_terminal_it_is_refused(
    memory: Memory,
    secret: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = said(memory)
    assert at(memory, "--source", "harbour", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "12 memories in 12 versions" in out
    assert "... and 9 more" in out
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert at(memory, "--chunk", secret) == 1
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    assert at(memory, "--chunk", secret) == 1
    assert capsys.readouterr().err.endswith("Nothing was erased.\n")
    assert said(memory) == before
    monkeypatch.setattr(sys, "stdin", Terminal("yes\n"))
    assert at(memory, "--chunk", secret) == 0
    assert said(memory) == FILLING


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Name one thing"),
        (["--chunk", "x", "--entity", "y"], "Name one thing"),
        (["--chunk", "x", "--session", "y"], "--session is for --source only"),
        (["--source", "x", "--with-memories"], "--with-memories is for --entity only"),
        (["--chunk", "chunk_20260101T000000000Z_000000000000"], "nothing to erase of the chunk"),
        (["--entity", "Nobody"], "nothing to erase of the entity 'Nobody'"),
        (["--source", "nowhere"], "nothing to erase of the source 'nowhere'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    memory: Memory, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert at(memory, *arguments, "--yes") == 1
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.db"
    assert erase.main(["--db", str(path), "--source", "x", "--yes"]) == 1
    assert "There is no memory at" in capsys.readouterr().err
    assert not path.exists()


def test_it_lists_the_copies_that_still_hold_it(
    memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    chunk_id = memory.remember("to be erased")["chunk_id"]
    backups = memory.config.backup_folder
    backups.mkdir(parents=True)
    copies = [
        backups / "memory-20260701T020304Z.db",
        memory.path.with_name("memory.db.before-restore-20260701T020304Z"),
    ]
    for each in copies:
        each.touch()
    assert at(memory, "--chunk", chunk_id, "--yes", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["copies"] == list(map(str, copies))
    assert (told["finished"], told["erased"]["memories"]) == (True, 1)
    again = memory.remember("to be erased, too")["chunk_id"]
    assert at(memory, "--chunk", again, "--yes") == 0
    out = capsys.readouterr().out
    assert "Backups and exports made before still hold it" in out
    assert all(f"  {each}" in out for each in copies)


# --- Beside others ---------------------------------------------------------------------


def test_while_somebody_reads_the_file_it_says_so_and_a_rerun_finishes(
    memory: Memory, secret: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "PATIENCE_SECONDS", 0.2)
    reader = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN")
    assert list(reader.execute("SELECT count(*) FROM chunks"))
    assert at(memory, "--chunk", secret, "--yes") == 1
    assert "Stop the server and run this again" in capsys.readouterr().out
    assert said(memory) == FILLING
    assert memory.store.erasure.is_unfinished()
    reader.close()
    assert at(memory, "--chunk", secret) == 0, "nothing is left to be asked about"
    assert "nothing of it is left there" in capsys.readouterr().out
    assert not memory.store.erasure.is_unfinished()
    assert traces(memory.path, "quillwort", "bramblewick") == []
    assert at(memory, "--chunk", secret) == 1
    assert "nothing to erase" in capsys.readouterr().err


def test_it_works_beside_a_running_server_which_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with serving.serving(home, MNELO_MEMORY_EMBEDDER_MODEL="none") as served:
        client = MneloClient(served.url + "/sse")
        for text in FILLING[:3]:
            client.remember(text, source="harbour")
        chunk_id = client.remember(HIDDEN, source="diary")
        assert client.recall("quillwort")[0]["chunk_id"] == chunk_id
        path = home / "memory.db"
        assert erase.main(["--db", str(path), "--chunk", chunk_id, "--yes"]) == 0
        assert traces(path, "quillwort", "81-55-32") == []
        assert all(hit["chunk_id"] != chunk_id for hit in client.recall("quillwort"))
        client.remember("Another quillwort grows", source="garden")
        assert client.recall("quillwort")[0]["content"] == "Another quillwort grows"


# --- kill -9 ---------------------------------------------------------------------------


def erase_source(path: str) -> None:
    """Erase in small steps, so that it may be killed between and within them."""
    erase_module.BATCH_MEMORIES = 2
    Path(path).with_suffix(".begun").touch()
    erase.main(["--db", path, "--source", "leak", "--yes", "--json"])


@pytest.mark.skipif(not serving.FORKS, reason="there is no SIGKILL")
@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.long)])
def test_an_erasure_that_is_killed_loses_nothing_else_and_a_rerun_finishes(
    tmp_path: Path, kills: int
) -> None:
    path = tmp_path / "memory.db"
    with open_file(path) as memory:
        kept = {memory.remember(text, entities=["Riga"])["chunk_id"] for text in FILLING}
    for kill in range(kills):
        with open_file(path) as memory:
            for number in range(40):
                text = f"quillwort {kill} {number}"
                memory.remember(text, source="leak", entities=["quillwort", "Riga"])
        killed(path, erase_source, within=0.25)
        with open_file(path) as memory:
            assert kept == {row[1] for row in live(memory)["chunks"] if row[4] != "leak"}
            assert sound(memory)
    again = erase.main(["--db", str(path), "--source", "leak", "--yes"])
    with open_file(path) as memory:
        assert again == 0 or not memory.store.erasure.is_unfinished(), (
            "the last one was not killed in time"
        )
        assert kept == {row[1] for row in live(memory)["chunks"]}
        assert len(memory.recall("ferry harbour", top_k=20)["hits"]) >= len(FILLING)
        assert sound(memory)
    assert traces(path, "quillwort") == []
