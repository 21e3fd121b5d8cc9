"""kill -9 at any moment: what was acknowledged is there, the rest wholly or not at all.

Two judges look at each file whose writer was killed. The ledger holds what was acknowledged,
text by text. The twin is a second file that gets the same operations from a process that lives:
row for row both must say the same.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

import crash_worker
import serving
from config import Config
from crash_worker import Operation, look, open_file, perform
from inside import look_for_faults
from memory import Memory
from store.sqlite import migrations

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

KILLS_A_FILE = 25
Row = tuple[Any, ...]


# --- Writers ---------------------------------------------------------------------------


@pytest.fixture(name="processes", scope="module")
def running_processes() -> ForkServerContext:
    return serving.processes()


@dataclass
class Journal:
    """What the writers said, read on from where it was read last."""

    path: Path
    _read: int = 0

    def lines(self) -> list[dict[str, Any]]:
        """The new lines; one that was not finished counts as not said."""
        content = self.path.read_bytes() if self.path.exists() else b""
        new = content[self._read :]
        self._read = len(content)
        return [json.loads(line) for line in new.splitlines(keepends=True) if line[-1:] == b"\n"]

    def await_state(self, state: str) -> None:
        end = time.monotonic() + 30
        while f'{{"state": "{state}"}}\n'.encode() not in self._fresh():
            assert time.monotonic() < end, f"the writer is not {state}"
            time.sleep(0.002)

    def _fresh(self) -> bytes:
        return self.path.read_bytes()[self._read :] if self.path.exists() else b""


def kill_after(
    process: ForkServerProcess,
    journal: Journal,
    state: str,
    seconds: float,
    *,
    may_end: bool = False,
) -> None:
    """kill -9, that long after the writer has said where it is, if it is not done by then."""
    journal.await_state(state)
    time.sleep(seconds)
    process.kill()
    process.join()
    assert process.exitcode == -9 or (may_end and process.exitcode == 0), process.exitcode


# --- The ledger ------------------------------------------------------------------------


@dataclass
class Noted:
    """One acknowledged version of a memory."""

    content: str
    entities: set[str]
    tags: set[str]
    next: str | None = None
    live: bool = True


@dataclass
class Ledger:
    """What the writers were told was done, and nothing else."""

    notes: dict[str, Noted] = field(default_factory=dict)
    relations: dict[int, str] = field(default_factory=dict)
    merges: dict[int, str] = field(default_factory=dict)
    acknowledged: int = 0

    def write_down(self, operation: Operation, result: Any) -> None:
        self.acknowledged += 1
        given = operation["with"]
        take = getattr(self, f"_{operation['do']}", None)
        if take and "refused" not in result:
            take(given, result)

    def _remember(self, given: dict[str, Any], result: dict[str, Any]) -> None:
        tags = {tag.lower() for tag in given["tags"]}
        if result["status"] == "stored":
            entities = set(result["entities"])
            self.notes[result["chunk_id"]] = Noted(given["content"], entities, tags)
        elif result["chunk_id"] in self.notes:
            self.notes[result["chunk_id"]].tags |= tags

    def _remember_many(self, given: dict[str, Any], results: list[dict[str, Any]]) -> None:
        for item, result in zip(given["items"], results, strict=True):
            self._remember(item, result)

    def _update(self, given: dict[str, Any], result: dict[str, Any]) -> None:
        old = self.notes.get(result["supersedes"])
        if old is None or result["status"] == "unchanged":
            return
        old.next, old.live = result["new_chunk_id"], False
        content = given.get("new_content", old.content)
        self.notes[old.next] = Noted(content, old.entities, set(old.tags))

    def _forget(self, given: dict[str, Any], result: dict[str, Any]) -> None:
        if note := self._current(given["target_id"]):
            note.live = False

    def _current(self, chunk_id: str) -> Noted | None:
        """The last noted version of a memory."""
        while (note := self.notes.get(chunk_id)) and note.next in self.notes:
            chunk_id = note.next
        return note

    def _relate(self, given: dict[str, Any], result: dict[str, Any]) -> None:
        self.relations[result["relation_id"]] = given["relation"]

    def _merge(self, given: dict[str, Any], result: dict[str, Any]) -> None:
        if result["audit_id"]:
            self.merges[result["audit_id"]] = "merge"

    def leave_open(self, operation: Operation, path: Path) -> None:
        """Take from the file whether an operation that nobody acknowledged closed its memory."""
        given = operation["with"]
        note = self._current(given.get("old_id") or given.get("target_id") or "")
        for key, live, following in look(path, VERSIONS) if note else ():
            if self.notes.get(key) is note and note is not None:
                note.live, note.next = bool(live), following

    def lost(self, path: Path) -> list[str]:
        """What was acknowledged and is not in the file as it was given."""
        found = {row[0]: row[1] for row in look(path, "SELECT id, relation FROM relations")}
        gone = [f"relation {key}" for key, name in self.relations.items() if found.get(key) != name]
        audit = {row[0]: row[1] for row in look(path, "SELECT id, action FROM audit")}
        gone += [f"merge {key}" for key, name in self.merges.items() if audit.get(key) != name]
        rows = {str(row[0]): row[1:] for row in look(path, NOTES)}
        return gone + [
            key for key, note in self.notes.items() if not self._holds(note, rows.get(key))
        ]

    def _holds(self, note: Noted, row: Row | None) -> bool:
        if row is None:
            return False
        content, live, following, tags, entities = row
        return (
            (content, bool(live), following) == (note.content, note.live, note.next)
            and note.tags <= set(json.loads(tags))
            and note.entities <= set(json.loads(entities))
        )


VERSIONS = "SELECT id, valid_until IS NULL, superseded_by FROM chunks"
NOTES = """
    SELECT id, content, valid_until IS NULL, superseded_by,
        (SELECT json_group_array(lower(tag)) FROM tags WHERE chunk_seq = seq),
        (SELECT json_group_array(entity_id) FROM mentions WHERE chunk_seq = seq)
    FROM chunks
"""

# --- The twin --------------------------------------------------------------------------

CHUNK_ID = re.compile(r"chunk_\d{8}T\d{9}Z_[0-9a-f]{12}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

# All that does not depend on the clock or on a background thread.
TABLES = {
    "chunks": """
        SELECT seq, id, content, source, session_id, importance, metadata_json,
            valid_until IS NULL, superseded_by FROM chunks ORDER BY seq
    """,
    "tags": "SELECT chunk_seq, tag FROM tags ORDER BY 1, 2",
    "entities": """
        SELECT seq, id, key, kind, name, summary, properties_json, source,
            valid_until IS NULL, superseded_by FROM entities ORDER BY seq
    """,
    "aliases": "SELECT key, entity_id, alias, role FROM aliases ORDER BY 1, 2",
    "mentions": "SELECT entity_id, chunk_seq, origin FROM mentions ORDER BY 1, 2",
    "relations": """
        SELECT id, source_id, target_id, relation, weight, properties_json, source,
            valid_until IS NULL, evidence_chunk_id FROM relations ORDER BY id
    """,
    "evidence": "SELECT relation_id, chunk_seq FROM evidence ORDER BY 1, 2",
    "audit": """
        SELECT id, action, target_kind, target_id, reason, detail_json FROM audit ORDER BY id
    """,
}


def ids_of(path: Path) -> dict[int, str]:
    return dict(look(path, "SELECT seq, id FROM chunks"))


def dump(path: Path) -> dict[str, list[str]]:
    """Every row as text, with memories named by their place and without times."""
    places = {chunk_id: str(seq) for seq, chunk_id in ids_of(path).items()}

    def plain(row: Row) -> str:
        text = json.dumps(row, ensure_ascii=False)
        return MOMENT.sub("then", CHUNK_ID.sub(lambda found: places.get(found[0], "?"), text))

    return {table: [plain(row) for row in look(path, sql)] for table, sql in TABLES.items()}


class Twin:
    """The same operations on a file whose process lives."""

    def __init__(self, path: Path, other: Path) -> None:
        self._path, self._other = path, other
        home = {"MNELO_HOME": str(path.parent)}
        config = Config.load(home, database_path=str(path), embedder_model="none")
        self._memory = Memory(config=config)
        self._known: dict[str, str] = {}

    def do(self, operation: Operation, result: Any) -> None:
        text = json.dumps(operation)
        own = CHUNK_ID.sub(lambda found: self._known.get(found[0], found[0]), text)
        self._known |= zip(
            _chunks(result), _chunks(perform(self._memory, json.loads(own))), strict=False
        )

    def differs(self) -> dict[str, tuple[list[str], list[str]]]:
        """For each table that is not the same, the rows only the other has, and those it lacks."""
        mine, other = dump(self._path), dump(self._other)
        return {
            table: (
                [row for row in other[table] if row not in mine[table]],
                [row for row in mine[table] if row not in other[table]],
            )
            for table in mine
            if mine[table] != other[table]
        }

    def settle(self, in_flight: Operation | None) -> dict[str, Any]:
        """How the files differ, if the last operation is let be there or not, as it turned out."""
        wrong: dict[str, Any] = self.differs()
        if wrong and in_flight:
            self.do(in_flight, None)
            wrong = {"with it": after, "without it": wrong} if (after := self.differs()) else {}
        mine = ids_of(self._path)
        self._known = {theirs: mine.get(seq, "?") for seq, theirs in ids_of(self._other).items()}
        return wrong

    def close(self) -> None:
        self._memory.close()


def _chunks(result: Any) -> list[str]:
    """The ids of the memories that an operation made, in order."""
    results = result if isinstance(result, list) else [result]
    made = [each for each in results if isinstance(each, dict)]
    return [str(each.get("chunk_id") or each.get("new_chunk_id")) for each in made]


# --- Rounds ----------------------------------------------------------------------------


@dataclass
class Summary:
    seed: int
    kills: int = 0
    in_flight: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    inconsistent: list[str] = field(default_factory=list)

    def faults(self) -> str:
        """What was wrong, most of it, and the seed; empty where nothing was."""
        wrong = [*dict.fromkeys(self.lost), *self.inconsistent][:20]
        return "\n".join([f"{self}:", *wrong]) if wrong else ""

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.kills} kills, {self.in_flight} with an operation in "
            f"flight; {self.acknowledged} acknowledged writes checked, {len(self.lost)} lost, "
            f"{len(self.inconsistent)} inconsistent"
        )


class Rounds:
    """One file, its writers one after another, and the judges."""

    def __init__(self, folder: Path, processes: ForkServerContext, random: Random) -> None:
        self._path = folder / "memory.db"
        self._journal = Journal(folder / "journal.jsonl")
        self._processes, self._random = processes, random
        self._ledger = Ledger()
        self._twin = Twin(folder / "twin.db", self._path)

    def run(self, kills: int, longest: float, summary: Summary) -> None:
        """Kill writers that had up to `longest` seconds to write."""
        enough = summary.kills + kills
        while summary.kills < enough:
            summary.kills += 1
            self._kill("open", self._random.uniform(0, longest))
            if self._random.random() < 0.3:  # and again, while the next one mends what it finds
                summary.kills += 1
                self._kill("begun", self._random.uniform(0, 0.05), count=0)
            self._judge(summary)
        summary.acknowledged += self._ledger.acknowledged
        self._twin.close()

    def _kill(self, state: str, seconds: float, count: int = crash_worker.FOR_EVER) -> None:
        seed = self._random.randrange(2**32)
        arguments = (self._path, self._journal.path, seed, count)
        process = self._processes.Process(target=crash_worker.write, args=arguments)
        process.start()
        kill_after(process, self._journal, state, seconds, may_end=count == 0)

    def _judge(self, summary: Summary) -> None:
        memory = open_file(self._path)
        in_flight = self._replay()
        summary.in_flight += in_flight is not None
        if in_flight:
            self._ledger.leave_open(in_flight, self._path)
        summary.lost += [f"{self._path}: {each}" for each in self._ledger.lost(self._path)]
        summary.inconsistent += [f"{self._path}: {each}" for each in self._wrong(memory, in_flight)]
        memory.close()

    def _replay(self) -> Operation | None:
        """Write down what was acknowledged; the operation that was not, if any."""
        intent: Operation | None = None
        for line in self._journal.lines():
            if "intent" in line:
                intent = line["intent"]
            elif "result" in line and intent:
                self._ledger.write_down(intent, line["result"])
                self._twin.do(intent, line["result"])
                intent = None
        return intent

    def _wrong(self, memory: Memory, in_flight: Operation | None) -> Iterator[str]:
        if any(look_for_faults(memory).values()):
            yield f"check() found {look_for_faults(memory)}"
        if differences := self._twin.settle(in_flight):
            yield f"not wholly there and not wholly absent: {in_flight}: {differences}"
        content = f"written after the kill, {time.time_ns()}"
        operation = {"do": "remember", "with": {"content": content, "tags": []}}
        result = perform(memory, operation)
        self._ledger.write_down(operation, result)
        self._twin.do(operation, result)
        hits = memory.recall(content)["hits"]
        if result["chunk_id"] not in [hit["chunk_id"] for hit in hits]:
            yield "what was written after the kill is not found"


def kill_writers(folder: Path, processes: ForkServerContext, kills: int, longest: float) -> Summary:
    summary = Summary(SystemRandom().randrange(10**6))
    random = Random(summary.seed)  # noqa: S311
    while summary.kills < kills:
        each = folder / f"{summary.kills}"
        each.mkdir()
        rounds = Rounds(each, processes, random)
        rounds.run(min(KILLS_A_FILE, kills - summary.kills), longest, summary)
    return summary


def test_what_was_acknowledged_survives_kills_and_nothing_is_there_by_halves(
    tmp_path: Path, processes: ForkServerContext
) -> None:
    summary = kill_writers(tmp_path, processes, 20, 0.25)
    assert not summary.faults(), summary.faults()
    # One for each kill: most are killed while they write. How many more there are is chance.
    assert summary.acknowledged > 20
    assert summary.in_flight


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_what_was_acknowledged_survives_a_thousand_kills(
    tmp_path: Path, processes: ForkServerContext, show: Callable[[object], None]
) -> None:
    summary = kill_writers(tmp_path, processes, 1000, 0.6)
    show(summary)
    assert not summary.faults(), summary.faults()


# --- Files that are just being made, or brought up to date -----------------------------


def schema(path: Path) -> list[Row]:
    return look(path, "SELECT name, sql FROM sqlite_schema ORDER BY name")


def kill_makers(folder: Path, processes: ForkServerContext, kills: int) -> int:
    """Kill as many processes while they make a new file; how many had not got to its end."""
    random, unfinished = Random(kills), 0  # noqa: S311
    for number in range(kills):
        path = folder / f"{number}" / "memory.db"
        path.parent.mkdir()
        journal = Journal(path.with_name("journal.jsonl"))
        arguments = (path, journal.path, number, 0)
        process = processes.Process(target=crash_worker.write, args=arguments)
        process.start()
        kill_after(process, journal, "begun", random.uniform(0, 0.03), may_end=True)
        unfinished += {"state": "open"} not in journal.lines()
        with open_file(path) as memory:
            assert memory.remember("the first")["status"] == "stored"
            assert [hit["content"] for hit in memory.recall("first")["hits"]] == ["the first"]
            assert not any(look_for_faults(memory).values()), look_for_faults(memory)
        assert schema(path) == schema(folder / "0" / "memory.db")
    return unfinished


def test_a_kill_while_the_file_is_made_is_made_good_by_the_next_start(
    tmp_path: Path, processes: ForkServerContext
) -> None:
    assert kill_makers(tmp_path, processes, 10)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_hundred_kills_while_files_are_made_are_made_good(
    tmp_path: Path, processes: ForkServerContext, show: Callable[[object], None]
) -> None:
    unfinished = kill_makers(tmp_path, processes, 100)
    show(f"100 kills while a file was made, {unfinished} before it was done: all made good")


ROWS = 100


def old_file(path: Path) -> list[str]:
    """A file of the present schema with memories in it; their texts."""
    path.parent.mkdir()
    with open_file(path) as memory:
        texts = [f"memory {number} of 北门" for number in range(ROWS)]
        memory.remember_many([{"content": text, "entities": ["北门"]} for text in texts])
    return texts


def kill_migrations(folder: Path, processes: ForkServerContext, kills: int) -> int:
    """Kill as many migrations, and let the next start do them; how many were not done yet."""
    random, unfinished = Random(kills), 0  # noqa: S311
    slow = ROWS * crash_worker.STEP_SECONDS
    for number in range(kills):
        path = folder / f"{number}" / "memory.db"
        texts = old_file(path)
        journal = Journal(path.with_name("journal.jsonl"))
        arguments = (path, journal.path)
        process = processes.Process(target=crash_worker.migrate, args=arguments)
        process.start()
        kill_after(process, journal, "begun", random.uniform(0, 2 * slow), may_end=True)
        unfinished += {"found": True, "faults": 0} not in journal.lines()
        assert_whole(path, texts)
        process = processes.Process(target=crash_worker.migrate, args=arguments)
        process.start()
        process.join()
        assert {"found": True, "faults": 0} in journal.lines()
        assert_migrated(path, texts)
    return unfinished


def assert_whole(path: Path, texts: list[str]) -> None:
    """The file is of the old schema or of the new one, and nothing between."""
    ((version,),) = look(path, "SELECT user_version FROM pragma_user_version")
    steps = look(path, "SELECT name FROM pragma_table_info('chunks') WHERE name = 'mood'")
    steps += look(path, "SELECT name FROM sqlite_schema WHERE name = 'chunks_mood'")
    assert len(steps) == (0 if version == migrations.SCHEMA_VERSION else 2)
    contents = [row[0] for row in look(path, "SELECT content FROM chunks ORDER BY seq")]
    assert contents[:ROWS] == texts


def assert_migrated(path: Path, texts: list[str]) -> None:
    rows = look(path, "SELECT content, mood FROM chunks ORDER BY seq")
    assert rows[:ROWS] == [(text, "calm") for text in texts]
    ((links,),) = look(path, "SELECT count(*) FROM mentions WHERE chunk_seq <= ?", (ROWS,))
    assert links == ROWS
    version = migrations.SCHEMA_VERSION + 1  # the one that the worker's step leads to
    assert look(path, "SELECT user_version FROM pragma_user_version") == [(version,)]


def test_a_kill_during_a_migration_is_made_good_by_the_next_start(
    tmp_path: Path, processes: ForkServerContext
) -> None:
    assert kill_migrations(tmp_path, processes, 4)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_fifty_kills_during_migrations_are_made_good(
    tmp_path: Path, processes: ForkServerContext, show: Callable[[object], None]
) -> None:
    unfinished = kill_migrations(tmp_path, processes, 50)
    show(f"50 kills during a migration, {unfinished} before it was done: all made good")
