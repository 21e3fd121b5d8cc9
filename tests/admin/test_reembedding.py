"""Another embedding model over the same memories: nothing is lost, mixed up or in the way."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import apsw
import numpy as np
import pytest
from filelock import FileLock

import embedder
import reembed
from admin import reembedding
from config import Config
from core.errors import ModelError, StoreBusy, StoreError
from core.types import Model, Vectors
from crash_worker import look
from embedder import OFFLINE_E5, OFFLINE_USE, Embedder
from embedding.model import FileModel
from hash_embedder import HashEmbedder
from index import chunks
from inside import look_for_faults, sqlite_of
from memory import Memory
from serving import FORKS, processes
from store.sqlite.migrations import SCHEMA_VERSION

ANIMALS = ("otter", "heron", "badger", "lynx", "stoat", "raven", "adder", "trout")
PLACES = ("harbour", "orchard", "quarry", "library", "ferry", "bakery", "tunnel", "mill")
QUERIES = ("the otter at the mill", "a raven in the orchard", "seen near a quarry", "long list")
TABLES = "SELECT name FROM sqlite_schema WHERE name GLOB '*next_*' OR name GLOB '*old_*'"

needs_forks = pytest.mark.skipif(not FORKS, reason="processes are forked")


class Turned(HashEmbedder):
    """Another model: as good as the first one, and no vector of one means anything to the other."""

    def __init__(self, dim: int, name: str, seconds: float = 0.0) -> None:
        super().__init__(dim, name)
        self._seconds = seconds
        self.read: list[str] = []

    def passages(self, texts: Sequence[str]) -> Vectors:
        time.sleep(self._seconds * len(texts))
        self.read += texts
        return super().passages(texts)

    def query(self, text: str) -> Vectors:
        turned: Vectors = np.roll(super().query(text), 17)
        return turned


FIRST, TWIN = HashEmbedder(96, "test/first"), Turned(96, "test/twin")
SECOND = Turned(64, "test/second")
MODELS: dict[str, Embedder] = {model.name: model for model in (FIRST, TWIN, SECOND)}


def of_file(recorded: str | None) -> Embedder:
    """What a server loads that has no wish of its own."""
    return MODELS[recorded or FIRST.name]


def of_settings(recorded: str | None) -> Embedder:
    """What a server loads whose settings name the first model."""
    if recorded not in (None, FIRST.name):
        raise ModelError("model.differs", configured=FIRST.name, recorded=recorded)
    return FIRST


def settings(path: Path) -> Config:
    return Config.load(database_path=str(path), database_busy_seconds=30)


def opened(path: Path, load: Callable[[str | None], Embedder] = of_file) -> Memory:
    memory = Memory(path, config=settings(path), load_model=load)
    memory.wait_for_model(10)
    return memory


def fill(memory: Memory, count: int, items: int = 120) -> None:
    """Memories, of which some are changed and some forgotten, and one is a list."""
    texts = [
        f"{number}: a {ANIMALS[number % 8]} was seen near the {PLACES[number // 8 % 8]}"
        for number in range(count)
    ]
    texts.append("a long list: " + ", ".join(f"item {number}" for number in range(items)))
    stored = memory.remember_many([{"content": text, "source": "diary"} for text in texts])
    for number in range(0, 12, 3):
        memory.update(stored[number]["chunk_id"], new_content=f"{number}: an otter at the mill")
        memory.forget(stored[number + 1]["chunk_id"])
        memory.update(stored[number + 2]["chunk_id"], new_importance=0.9)
    memory.fill_pending()


def change(path: Path, model: Embedder) -> int:
    """Give a file another model, as the script does; how many memories then wait."""
    return reembedding.run(settings(path), reembedding.plan(settings(path), model))


def answers(memory: Memory, past: str) -> list[Any]:
    """What some questions find, now and as of a moment."""
    return [
        [(hit["chunk_id"], hit["content"]) for hit in found["hits"]]
        for query in QUERIES
        for strategy in ("vector_only", "rrf")
        for asof in ("", past)
        for found in [memory.recall(query, strategy=strategy, asof=asof, top_k=8)]
    ]


def moment(path: Path) -> str:
    """When everything had been stored and nothing changed."""
    ((at,),) = look(path, "SELECT max(created_at) FROM chunks")
    return str(at)


def assert_sound(memory: Memory, *, texts: int | None = None) -> None:
    """No fault, no text without vectors, closed ones included, and nothing left beside them."""
    assert not any(look_for_faults(memory).values()), look_for_faults(memory)
    assert look(memory.path, TABLES) == []
    assert look(memory.path, "SELECT key FROM meta WHERE key GLOB 'next_*'") == []
    without = "SELECT content FROM chunks WHERE seq NOT IN (SELECT chunk_seq FROM windows)"
    assert look(memory.path, without) == []
    if texts is not None:
        assert look(memory.path, "SELECT count(*) FROM chunks") == [(texts,)]


# --- There and back ----------------------------------------------------------------------


@pytest.mark.parametrize(("other", "exact_below"), [(SECOND, 100), (TWIN, chunks.EXACT_BELOW)])
def test_there_and_back_everything_is_found_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Turned, exact_below: int
) -> None:
    monkeypatch.setattr(chunks, "EXACT_BELOW", exact_below)
    path = tmp_path / "memory.db"
    with opened(path) as memory:
        fill(memory, 400)
        past, vectors = moment(path), memory.stats()["vectors"]
        before = answers(memory, past)
    assert change(path, other) == 0
    with opened(path) as memory:
        stats = memory.stats()
        assert stats["embedder"] == {"state": "ready", "model": other.name, "dim": other.dim}
        assert (stats["vectors"], stats["pending"]) == (vectors, 0)
        there = answers(memory, past)
        assert all(there), "vectors answer, also about the past"
        assert_sound(memory, texts=409)
    assert change(path, FIRST) == 0
    with opened(path) as memory:
        assert answers(memory, past) == before
        assert memory.stats()["vectors"] == vectors
        new = memory.remember("a walrus in the bathtub")["chunk_id"]
        assert memory.recall("walrus", strategy="vector_only")["hits"][0]["chunk_id"] == new
        assert_sound(memory, texts=410)


@pytest.mark.long
def test_the_models_that_need_no_network_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", OFFLINE_USE)
    monkeypatch.chdir(tmp_path)
    use = embedder.load(Config.load(), None)
    with Memory(tmp_path / "m.db", load_model=lambda recorded: use) as memory:
        memory.wait_for_model(None)
        fill(memory, 24, items=5)
        past = moment(memory.path)
        before = answers(memory, past)
    assert reembed.main(["--db", "m.db", "--model", OFFLINE_E5]) == 0
    said = capsys.readouterr().out
    assert "33 texts, closed versions too" in said
    assert f"all 33 texts are those of {OFFLINE_E5} (384 dimensions) now" in said
    assert f'set model = "{OFFLINE_E5}" or "auto"' in said
    with Memory(tmp_path / "m.db") as memory:
        memory.wait_for_model(None)
        notice = memory.recall("otter at the mill")["notice"]
        assert "the settings ask for" in notice, "words answer, and it is said why only they do"
        assert_sound(memory, texts=33)
    with Memory(tmp_path / "m.db", config=Config.load(embedder_model="auto")) as memory:
        memory.wait_for_model(None)
        assert memory.stats()["embedder"]["dim"] == 384
        assert all(answers(memory, past))
    assert reembed.main(["--db", "m.db", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["from"]["dim"], told["to"]["dim"]) == (384, 512)
    assert (told["state"], told["texts"], told["pending"]) == ("done", 33, 0)
    with Memory(tmp_path / "m.db", load_model=lambda recorded: use) as memory:
        memory.wait_for_model(None)
        assert answers(memory, past) == before
        assert_sound(memory, texts=33)
    assert reembed.main(["--db", "m.db"]) == 0
    assert f"vectors of {OFFLINE_USE} (512 dimensions) already" in capsys.readouterr().out


# --- Beside a running server ---------------------------------------------------------------


def _change_slowly(path: Path, name: str) -> None:
    """A run in a process of its own, which takes its time over each text."""
    MODELS[SECOND.name] = Turned(64, SECOND.name, seconds=0.002)
    change(path, MODELS[name])


def changing(path: Path, model: Embedder) -> Any:
    process = processes().Process(target=_change_slowly, args=(path, model.name))
    process.start()
    return process


@needs_forks
def test_whoever_reads_and_writes_meanwhile_is_answered_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with opened(path) as memory:
        fill(memory, 60)
        first = memory.remember("the walrus arrived")["chunk_id"]
        run, said, number = changing(path, SECOND), set[str](), 0
        while run.is_alive() or number < 5:
            number += 1
            time.sleep(0.01)  # the other process is to get ahead
            new = memory.remember(f"walrus number {number} in the bathtub")["chunk_id"]
            if number % 3 == 0:
                memory.update(new, new_content=f"walrus number {number} has left")
            if number % 5 == 0:
                memory.forget(new)
            answer = memory.recall("the walrus arrived")
            assert answer["hits"][0]["chunk_id"] == first
            said |= {answer["notice"]} if "notice" in answer else set()
        run.join()
        assert run.exitcode == 0
        assert not [each for each in said if "loading" not in each and "wait for" not in each]
        assert memory.wait_for_model(10)
        memory.fill_pending()
        stats = memory.stats()
        assert stats["embedder"]["model"] == SECOND.name, "the server took the new one up"
        assert stats["chunks"]["active"] == 56 + 1 + 1 + number - number // 5
        assert stats["pending"] == 0
        best = memory.recall("the walrus arrived", strategy="vector_only")["hits"][0]
        assert best["chunk_id"] == first
        assert best["distance"] < 1, "a vector of the other model would be farther away"
        assert not any(look_for_faults(memory).values())


@needs_forks
@pytest.mark.parametrize("other", [SECOND, TWIN])
def test_a_server_whose_settings_name_the_old_model_answers_without_vectors(
    tmp_path: Path, other: Turned
) -> None:
    path = tmp_path / "memory.db"
    with opened(path, of_settings) as memory:
        fill(memory, 20)
        past = moment(path)
        before = answers(memory, past)
        run = changing(path, other)
        run.join()
        assert run.exitcode == 0
        memory.wait_for_model(10)
        answer = memory.recall("the otter at the mill")
        assert answer["hits"]
        assert f"the settings ask for {FIRST.name}, the file holds vectors" in answer["notice"]
        assert memory.recall("otter", strategy="vector_only")["hits"] == []
        assert memory.remember("a walrus in the bathtub")["embedding"] == "off"
        state = memory.stats()["embedder"]
        assert (state["state"], state["model"]) == ("off", other.name)
        assert other.name in state["reason"]
        assert memory.recall("walrus")["hits"][0]["content"] == "a walrus in the bathtub"
        run = changing(path, FIRST)
        run.join()
        memory.wait_for_model(10)
        memory.forget(memory.recall("walrus", strategy="vector_only")["hits"][0]["chunk_id"])
        assert answers(memory, past) == before, "back again without a restart"
        assert_sound(memory)


class Overtaken(HashEmbedder):
    """The first model; while it embeds a text, somebody gives the file another one."""

    def __init__(self, path: Path) -> None:
        super().__init__(FIRST.dim, FIRST.name)
        self.path, self.at = path, ""

    def passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> Vectors:
        vector = super().query(text)
        if self.at and self.at in text:
            self.at = ""
            change(self.path, TWIN)
        return vector


@pytest.mark.parametrize("what", ["remember", "update", "recall", "fill"])
def test_a_vector_that_was_being_made_when_the_model_changed_is_not_used(
    tmp_path: Path, what: str
) -> None:
    path = tmp_path / "memory.db"
    model = Overtaken(path)
    with opened(path, lambda name: model if name in (None, FIRST.name) else TWIN) as memory:
        fill(memory, 12)
        old = memory.remember("the walrus arrived")["chunk_id"]
        model.at = "walrus"
        if what == "remember":
            assert memory.remember("a walrus in the bathtub")["embedding"] == "pending"
        elif what == "update":
            memory.update(old, new_content="the walrus left")
        elif what == "fill":
            memory.remember("a walrus in a long story " + "and so on " * 500)
        else:
            answer = memory.recall("the walrus arrived")
            assert answer["hits"][0]["chunk_id"] == old
            assert "still loading" in answer["notice"]
        memory.recall("anything else at all")
        assert memory.wait_for_model(10)
        memory.fill_pending()
        assert memory.stats()["embedder"]["model"] == TWIN.name
        assert_sound(memory)
        sql = """
            SELECT c.content, v.embedding FROM chunks c
            JOIN windows w ON w.chunk_seq = c.seq JOIN vectors v ON v.rowid = w.seq
            WHERE length(c.content) < 100
        """
        kept = list(sqlite_of(memory)._db.execute(sql))
        assert len(kept) > 12
        for text, vector in kept:
            assert TWIN.query(text) @ np.frombuffer(vector, np.float32) > 0.5, text


def test_the_query_of_one_model_is_never_taken_for_that_of_another() -> None:
    of_file = {
        model: FileModel(model, Model(model.name, model.dim, 0.0)) for model in (FIRST, TWIN)
    }
    for model in (FIRST, TWIN, FIRST):
        assert (of_file[model].query("walrus") == model.query("walrus")).all()


# --- Ended at any moment ---------------------------------------------------------------------


def _change_until(path: Path, last: int, counted: Any) -> None:
    """A run that dies by kill -9 before its statement number `last`; it counts them.

    Those of other threads depend on who is faster.
    """

    def count(*_: Any) -> bool:
        counted.value += threading.current_thread() is threading.main_thread()
        if counted.value == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    apsw.connection_hooks.append(lambda db: db.set_exec_trace(count))
    change(path, SECOND)


def _run_until(path: Path, last: int) -> tuple[int, int]:
    """How such a run ended, and how many statements it made."""
    counted = processes().Value("q", 0)
    run = processes().Process(target=_change_until, args=(path, last, counted))
    run.start()
    run.join()
    return run.exitcode or 0, counted.value


@needs_forks
@pytest.mark.parametrize(
    "kills", [pytest.param(6, id="some"), pytest.param(20, id="many", marks=pytest.mark.long)]
)
def test_a_run_that_was_killed_is_finished_by_the_next_one(tmp_path: Path, kills: int) -> None:
    empty = tmp_path / "memory.db"
    with opened(empty) as memory:
        fill(memory, 40)
        past = moment(empty)
        before = answers(memory, past)
    whole = empty.read_bytes()
    path = tmp_path / "whole.db"
    path.write_bytes(whole)
    status, statements = _run_until(path, 0)
    assert status == 0
    with opened(path) as memory:
        after = answers(memory, past)
    random = Random(kills)  # noqa: S311
    # The last few are only made where a thread was not ready yet.
    ends = [random.randrange(1, statements - 9) for _ in range(kills // 2)]
    ends += [statements - 9 - random.randrange(150) for _ in range(kills - len(ends))]
    for number, end in enumerate(ends):
        path = tmp_path / f"{number}.db"
        path.write_bytes(whole)
        assert _run_until(path, end)[0] == -signal.SIGKILL
        with opened(path) as memory:
            switched = memory.stats()["embedder"]["model"] == SECOND.name
            assert answers(memory, past) == (after if switched else before), end
            assert not any(look_for_faults(memory).values()), end
        assert change(path, SECOND) == 0
        with opened(path) as memory:
            assert answers(memory, past) == after, end
            assert_sound(memory, texts=49)


def test_a_run_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with opened(path) as memory:
        fill(memory, 60)

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    config = settings(path)
    with pytest.raises(KeyboardInterrupt):
        reembedding.run(config, reembedding.plan(config, SECOND), stop)
    planned = reembedding.plan(config, SECOND)
    assert (planned.begun, planned.texts, planned.left) == (True, 69, 69 - reembedding.BATCH_TEXTS)
    again = Turned(64, SECOND.name)
    made: list[int] = []
    reembedding.run(config, replace(planned, model=again), made.append)
    assert sum(made) == planned.left
    with opened(path) as memory:
        assert_sound(memory, texts=69)


@pytest.mark.parametrize("then", [TWIN, FIRST])
def test_a_run_that_is_given_up_leaves_nothing(tmp_path: Path, then: Embedder) -> None:
    path = tmp_path / "memory.db"
    with opened(path) as memory:
        fill(memory, 30)

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reembedding.run(settings(path), reembedding.plan(settings(path), SECOND), stop)
    assert change(path, then) == 0
    with opened(path) as memory:
        assert memory.stats()["embedder"]["model"] == then.name
        assert_sound(memory, texts=39)


# --- What may happen in between --------------------------------------------------------------


def test_a_text_that_is_changed_or_erased_takes_its_next_vectors_along(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with opened(path) as memory:
        ids = [memory.remember(f"note {number}")["chunk_id"] for number in range(4)]
        following, db = memory.store.next_vectors, sqlite_of(memory)._db
        following.begin(embedder.measured(SECOND))
        texts = following.texts(0, 10)
        following.put([(text, SECOND.passages([text.content])) for text in texts])
        for table in ("postings", "windows", "mentions", "tags"):
            db.execute(f"DELETE FROM {table} WHERE chunk_seq = 2")  # noqa: S608
        db.execute("DELETE FROM chunks WHERE seq = 2")
        db.execute("UPDATE chunks SET content = '' WHERE seq = 3")
        assert list(db.execute("SELECT rowid FROM next_vectors")) == [(1,), (4,)]
        ((block,),) = db.execute("SELECT vectors FROM next_vectors_vector_chunks00")
        kept = [SECOND.query(text.content).tobytes() in block for text in texts]
        assert kept == [True, False, False, True], "nothing is left of the others"
        following.put([(texts[1], SECOND.passages(["note 1"]))])
        memory.forget(ids[0])
        following.update_live()
        assert list(db.execute("SELECT rowid, live FROM next_vectors")) == [(1, 0), (4, 1)]


class Failing(Turned):
    """A model that fails over some texts."""

    def __init__(self, over: str) -> None:
        super().__init__(64, SECOND.name)
        self._over = over

    def passages(self, texts: Sequence[str]) -> Vectors:
        if any(self._over in text and "[" in text for text in texts):
            raise RuntimeError("too much")
        return super().passages(texts)


def test_a_text_that_the_model_fails_over_waits_and_the_others_are_changed(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with opened(path) as memory:
        for text in ("a note", "a poisonous note", "another note", "a third note"):
            memory.remember(text)
    assert change(path, Failing("poison")) == 1
    with opened(path) as memory:
        memory.fill_pending()
        assert_sound(memory, texts=4)


def test_a_model_that_fails_over_most_texts_does_not_take_over(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with opened(path) as memory:
        fill(memory, 30)
        before = answers(memory, moment(path))
    with pytest.raises(ModelError, match="failed over 39 texts"):
        change(path, Failing(" "))
    with opened(path) as memory:
        assert memory.stats()["embedder"]["model"] == FIRST.name
        assert answers(memory, moment(path)) == before


def test_a_file_without_any_model_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory(path, config=Config.load(embedder_model="none")) as memory:
        ids = [memory.remember(f"note {number}")["chunk_id"] for number in range(3)]
        memory.forget(ids[0])
    assert change(path, SECOND) == 0
    with opened(path) as memory:
        assert memory.recall("note 1", strategy="vector_only")["hits"][0]["chunk_id"] == ids[1]
        assert_sound(memory, texts=3)


# --- Refused ------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "home" / "memory.db"
    with opened(path) as memory:
        fill(memory, 12)
    before = look(path, "SELECT * FROM meta"), look(path, "SELECT name FROM sqlite_schema")
    yield path
    after = look(path, "SELECT * FROM meta"), look(path, "SELECT name FROM sqlite_schema")
    assert after == before, "nothing was changed"


def test_a_full_disk_is_seen_beforehand(small: Path) -> None:
    planned = reembedding.plan(settings(small), SECOND)
    assert planned.needed >= 32 << 20
    with pytest.raises(StoreError, match="20 MiB free, and about 32 are needed"):
        reembedding.run(settings(small), replace(planned, free=20 << 20))


def test_two_runs_at_once_are_refused(small: Path) -> None:
    planned = reembedding.plan(settings(small), SECOND)
    with FileLock(f"{small}.reembed"), pytest.raises(StoreBusy, match="Another reembed"):
        reembedding.run(settings(small), planned)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nonsense"], "nothing was changed: nonsense is no model that fastembed lists"),
        (["--model", "bge-small-zh-v1.5"], "the hub does not answer"),
        (["--model", "none"], "no model is wanted"),
        (["--db", "nowhere.db"], "There is no database nowhere.db"),
        ([], "test/first is no model that fastembed lists"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    small: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert reembed.main(arguments) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert said in told


def test_a_foreign_file_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "diary.txt").write_text("dear diary " * 100)
    assert reembed.main(["--db", str(tmp_path / "diary.txt")]) == 1
    assert "is not a mnelo memory" in capsys.readouterr().err
    assert (tmp_path / "diary.txt").read_text().startswith("dear diary")


def test_a_dry_run_changes_nothing(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reembed.main(["--model", OFFLINE_USE, "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["from"] == {"model": FIRST.name, "dim": FIRST.dim}
    assert told["to"] == {"model": OFFLINE_USE, "dim": 512}
    assert (told["state"], told["left"]) == ("to be done", 21)
    assert told["seconds"] > 0
    with closing(apsw.Connection(str(small))) as db:
        assert db.pragma("user_version") == SCHEMA_VERSION
