"""A writer that is meant to be killed: it says what it will do, does it, and says what came of it.

Each operation is plain data, so that the tests can do the same ones again on a file whose
writer lived. The journal has one JSON line for each intent and one for each outcome.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import apsw

from config import Config
from core.errors import MneloError
from hash_embedder import HashEmbedder
from inside import look_for_faults, sqlite_of
from memory import Memory
from store.sqlite import migrations, schema_check

Operation = dict[str, Any]
"""The name of one of METHODS under "do", and its arguments under "with"."""

FOR_EVER = 1_000_000
STEP_SECONDS = 0.002  # of the slow migration, for each row

ENTITIES = (
    *("Anna", "Ana", "Otto Brandt", "O. Brandt", "Café Nord", "北门", "北门仓库", "C#"),
    *("team/blue", "O'Neil & Co", "Riga", "sh600089"),
)
WORDS = (
    *("depot", "opens", "Monday", "ferry", "harbour", "price", "rises", "the", "of", "and"),
    *("naïve", "🟢", "100%", "a_b", '"quoted"', "北京的仓库", "星期一开门", "涨价", "O'Neil"),
)
RELATIONS = ("works_at", "near", "owns")


def open_file(path: Path) -> Memory:
    """The memory as a program would open it, with the small embedder."""
    home = {"MNELO_HOME": str(path.parent)}
    config = Config.load(home, database_path=str(path), database_busy_seconds=30)
    memory = Memory(config=config, load_model=lambda recorded: HashEmbedder())
    memory.wait_for_model(10)
    return memory


def look(path: Path, sql: str, bound: Any = ()) -> list[tuple[Any, ...]]:
    """Rows of the file, seen from outside."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return list(db.execute(sql, bound))


# --- Operations ------------------------------------------------------------------------

METHODS: dict[str, Callable[..., Any]] = {
    "remember": Memory.remember,
    "remember_many": Memory.remember_many,
    "update": Memory.update,
    "forget": Memory.forget,
    "relate": Memory.relate,
    "merge": Memory.merge_entities,
    "undo": Memory.undo_merge,
    "recall": Memory.recall,
    "checkpoint": lambda memory: sqlite_of(memory).checkpoint(),
}


def perform(memory: Memory, operation: Operation) -> Any:
    """What an operation returns, or how it was refused."""
    try:
        return METHODS[operation["do"]](memory, **operation["with"])
    except MneloError as error:
        return {"refused": error.msg_id}


class Chooser:
    """Picks operations at random, on the memories and merges that are in the file."""

    def __init__(self, path: Path, random: Random) -> None:
        self._random = random
        live = "SELECT id FROM chunks WHERE valid_until IS NULL ORDER BY seq"
        self._chunks = [str(row[0]) for row in look(path, live)]
        merges = "SELECT id FROM audit WHERE action = 'merge' ORDER BY id"
        self._merges = [int(row[0]) for row in look(path, merges)]
        self._kinds: dict[str, tuple[int, Callable[[], dict[str, Any]]]] = {
            "remember": (30, self._memory),
            "remember_many": (6, lambda: {"items": [self._memory() for _ in range(3)]}),
            "update": (20, self._update),
            "forget": (10, self._forget),
            "relate": (12, self._relation),
            "merge": (5, self._merge),
            "undo": (4, lambda: {"audit_id": self._random.choice(self._merges or [1])}),
            "recall": (6, lambda: {"query": self._text(2)}),
            "checkpoint": (4, dict),
        }

    def choose(self) -> Operation:
        weights = [weight for weight, _ in self._kinds.values()]
        ((name, (_, arguments)),) = self._random.choices(list(self._kinds.items()), weights)
        return {"do": name, "with": arguments()}

    def learn(self, result: Any) -> None:
        """Take note of the memories and merges that there are now."""
        results = result if isinstance(result, list) else [result]
        for each in filter(lambda each: isinstance(each, dict), results):
            new = each.get("chunk_id") or each.get("new_chunk_id")
            self._chunks += [new] if new else []
            self._merges += [each["audit_id"]] if each.get("audit_id") else []

    def _text(self, most: int = 30) -> str:
        number = self._random.randrange(10**6)
        words = self._random.choices((*WORDS, *ENTITIES), k=self._random.randint(1, most))
        return f"{number} " + self._random.choice((" ", "\n", " — ")).join(words)

    def _memory(self) -> dict[str, Any]:
        dice = self._random.random()
        # Now and then one that gets its vectors later, and one that is there already, maybe.
        content = self._text(900 if dice < 0.03 else 30) if dice < 0.9 else "said again and again"
        return {
            "content": content,
            "source": self._random.choice(("home", "work")),
            "entities": self._random.sample(ENTITIES, self._random.randint(0, 3)),
            "tags": self._random.sample(("red", "Blue", "绿色"), self._random.randint(0, 2)),
            "relations": [self._relation() for _ in range(self._random.choice((0, 0, 1, 2)))],
            "timestamp": self._random.choice(("", "", "2025-03-01T10:00:00Z")),
        }

    def _relation(self) -> dict[str, Any]:
        source, target = self._random.sample(ENTITIES, 2)
        if self._chunks and self._random.random() < 0.2:
            target = self._random.choice(self._chunks)
        weight = self._random.choice((0.25, 0.5, 1.0))
        relation = self._random.choice(RELATIONS)
        return {"source_id": source, "target_id": target, "relation": relation, "weight": weight}

    def _update(self) -> dict[str, Any]:
        change: dict[str, Any] = self._random.choice(
            (
                {"new_content": self._text()},
                {"new_content": self._text()},
                {"new_importance": self._random.choice((0.1, 0.9))},
                {"new_properties": {"round": self._random.randrange(100)}},
            )
        )
        return {"old_id": self._any_chunk(), **change}

    def _forget(self) -> dict[str, Any]:
        if self._random.random() < 0.15:
            return {"target_id": self._random.choice(ENTITIES), "target_kind": "entity"}
        return {"target_id": self._any_chunk(), "cascade": self._random.random() < 0.7}

    def _merge(self) -> dict[str, Any]:
        keep, duplicate = self._random.sample(ENTITIES, 2)
        return {"keep": keep, "duplicate": duplicate}

    def _any_chunk(self) -> str:
        return self._random.choice(self._chunks or ["chunk_20250101T000000000Z_000000000000"])


# --- Processes -------------------------------------------------------------------------


class Journal:
    """Lines that outlive the process that wrote them."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, line: Mapping[str, Any]) -> None:
        os.write(self._file, (json.dumps(line, ensure_ascii=False) + "\n").encode())


def write(path: Path, journal: Path, seed: int, count: int = FOR_EVER) -> None:
    """Open the file and write until `count` operations are done, or somebody ends this."""
    say = Journal(journal).say
    say({"state": "begun"})
    memory = open_file(path)
    say({"state": "open"})
    chooser = Chooser(path, Random(seed))  # noqa: S311
    for _ in range(count):
        operation = chooser.choose()
        say({"intent": operation})
        result = perform(memory, operation)
        say({"result": result})
        chooser.learn(result)
    memory.close()


def _add_mood(db: apsw.Connection) -> None:
    """A migration of three steps, the second a slow one."""
    db.execute("ALTER TABLE chunks ADD COLUMN mood TEXT NOT NULL DEFAULT ''")
    for (seq,) in list(db.execute("SELECT seq FROM chunks")):
        db.execute("UPDATE chunks SET mood = 'calm' WHERE seq = ?", (seq,))
        time.sleep(STEP_SECONDS)
    db.execute("CREATE INDEX chunks_mood ON chunks (mood)")


def migrate(path: Path, journal: Path) -> None:
    """Open the file with a program whose schema is one step newer, and use it."""
    say = Journal(journal).say
    migrations.MIGRATIONS = (*migrations.MIGRATIONS, _add_mood)
    migrations.SCHEMA_VERSION += 1
    schema_check.refuse_strange = lambda *given, **how: None  # that step is none of ours
    say({"state": "begun"})
    memory = open_file(path)
    new = memory.remember("written after the migration")["chunk_id"]
    found = memory.recall("written after the migration")["hits"][0]["chunk_id"]
    say({"found": found == new, "faults": sum(look_for_faults(memory).values())})
    memory.close()
