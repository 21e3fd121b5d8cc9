"""The plain design that mnelo is measured beside: four lanes as one would first write them.

A float scan in vec0, LIKE for each term over text and metadata, a walk of two hops over all
relations, and LIKE over names; four threads on four connections; reciprocal rank fusion, k = 60.
It is the one place beside store/sqlite that has SQL: what is measured here is that SQL.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import sqlite_vec

import _root  # noqa: F401 - makes the modules one folder up importable
from config import LANES
from core.types import Vectors

TABLES = """
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, content TEXT, metadata TEXT, source TEXT, importance REAL,
        timestamp TEXT, valid_until TEXT
    );
    CREATE TABLE entities (id TEXT PRIMARY KEY, name TEXT, aliases TEXT);
    CREATE TABLE mentions (
        entity_id TEXT, chunk_id INTEGER, PRIMARY KEY (entity_id, chunk_id)
    ) WITHOUT ROWID;
    CREATE TABLE relations (
        source_id TEXT, target_id TEXT, relation TEXT, weight REAL, valid_until TEXT
    );
    CREATE INDEX relations_source ON relations (source_id);
    CREATE INDEX relations_target ON relations (target_id);
"""
VECTORS = "CREATE VIRTUAL TABLE vectors USING vec0 (embedding float[{}])"
PUT = {
    "chunks": "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, NULL)",
    "entities": "INSERT OR IGNORE INTO entities VALUES (?, ?, ?)",
    "mentions": "INSERT OR IGNORE INTO mentions VALUES (?, ?)",
    "relations": "INSERT INTO relations VALUES (?, ?, ?, ?, NULL)",
    "vectors": "INSERT INTO vectors (rowid, embedding) VALUES (?, ?)",
}
NEAREST = """
    SELECT c.id FROM vectors v JOIN chunks c ON c.id = v.rowid
    WHERE v.embedding MATCH ? AND k = 20 AND c.valid_until IS NULL ORDER BY v.distance
"""
REACHED = """
    SELECT r.target_id FROM json_each(:nodes) n JOIN relations r ON r.source_id = n.value
    WHERE r.valid_until IS NULL
    UNION ALL
    SELECT r.source_id FROM json_each(:nodes) n JOIN relations r ON r.target_id = n.value
    WHERE r.valid_until IS NULL
"""
MENTIONING = """
    SELECT DISTINCT c.id FROM json_each(?) n JOIN mentions m ON m.entity_id = n.value
    JOIN chunks c ON c.id = m.chunk_id WHERE c.valid_until IS NULL LIMIT 20
"""
ROWS = "SELECT * FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
_CONTAINING = """
    SELECT id FROM chunks WHERE valid_until IS NULL AND ({})
    ORDER BY importance DESC, id DESC LIMIT 20
"""
_NAMED = "SELECT id FROM entities WHERE {} LIMIT 20"
_EITHER = "{0} LIKE ? ESCAPE '\\' OR {1} LIKE ? ESCAPE '\\'"
SQLITE = apsw.sqlite_lib_version()
MAX_TERMS = 4


def _any_like(statement: str, *columns: str) -> list[str]:
    """The statement for one pattern in either column, for two patterns, and so on."""
    either = _EITHER.format(*columns)
    return [statement.format(" OR ".join([either] * count)) for count in range(1, MAX_TERMS + 1)]


CONTAINING = _any_like(_CONTAINING, "content", "metadata")
NAMED = _any_like(_NAMED, "name", "aliases")
TERM = re.compile(r"[\u3400-\u9fff]+|[A-Za-z0-9_]+")
Look = Callable[[str, Vectors | None], list[int]]


class Baseline:
    """Every vector compared, LIKE over every text and name, every relation followed for two hops.

    Four threads, each on a connection of its own; then the sum of 1 / (60 + rank).
    """

    def __init__(self, path: Path, dim: int | None) -> None:
        self._connections = [_connection(path) for _ in LANES]
        self._pool = ThreadPoolExecutor(len(LANES))
        self._size, self._dim = 0, dim
        db = self._connections[0]
        db.pragma("journal_mode", "wal")
        db.execute(TABLES + (VECTORS.format(dim) if dim else ""))

    def close(self) -> None:
        self._pool.shutdown()
        for db in self._connections:
            db.close()

    def put(self, items: Sequence[Mapping[str, Any]], vectors: Vectors | None) -> None:
        """Store the next memories."""
        first, db = self._size + 1, self._connections[0]
        self._size += len(items)
        with db:
            for number, item in enumerate(items, start=first):
                for table, rows in _plain_rows(number, item).items():
                    db.executemany(PUT[table], rows)
            if vectors is not None:
                given = [(first + at, vector.tobytes()) for at, vector in enumerate(vectors)]
                db.executemany(PUT["vectors"], given)

    def recall(self, question: str, vector: Vectors | None, top_k: int) -> list[int]:
        """The numbers of the best memories, whose rows have been read."""
        running = [self._pool.submit(look, question, vector) for look in self.lanes().values()]
        scores: dict[int, float] = {}
        for future in running:
            for rank, number in enumerate(future.result(), start=1):
                scores[number] = scores.get(number, 0.0) + 1 / (60 + rank)
        best = sorted(scores, key=lambda number: -scores[number])[:top_k]
        rows = {row[0]: row for row in self._connections[0].execute(ROWS, (json.dumps(best),))}
        return [number for number in best if number in rows]

    def lanes(self) -> dict[str, Look]:
        """How each lane looks."""
        lanes = (self._vector, self._graph, self._meta, self._entity)
        return dict(zip(LANES, lanes, strict=True))

    def _vector(self, question: str, vector: Vectors | None) -> list[int]:
        if vector is None or not self._dim:
            return []
        return [row[0] for row in self._connections[0].execute(NEAREST, (vector.tobytes(),))]

    def _graph(self, question: str, vector: Vectors | None) -> list[int]:
        db = self._connections[1]
        reached = dict.fromkeys(_like(db, NAMED, question))
        frontier = list(reached)
        for _ in range(2):
            rows = db.execute(REACHED, {"nodes": json.dumps(frontier)})
            frontier = [key for key in dict.fromkeys(row[0] for row in rows) if key not in reached]
            reached |= dict.fromkeys(frontier)
        return _mentioning(db, reached)

    def _meta(self, question: str, vector: Vectors | None) -> list[int]:
        return _like(self._connections[2], CONTAINING, question)

    def _entity(self, question: str, vector: Vectors | None) -> list[int]:
        db = self._connections[3]
        return _mentioning(db, _like(db, NAMED, question))


def _connection(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.pragma("cache_size", -64_000)
    db.pragma("synchronous", "NORMAL")
    return db


def _plain_rows(number: int, item: Mapping[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    metadata = json.dumps({"tags": item["tags"], "session": item["session_id"]})
    seen = (item["source"], item["importance"], item["timestamp"])
    about = [{"id": each} if isinstance(each, str) else each for each in item["entities"]]
    return {
        "chunks": [(number, item["content"], metadata, *seen)],
        "entities": [_named_row(entity) for entity in about],
        "mentions": [(entity["id"], number) for entity in about],
        "relations": [tuple(relation.values()) for relation in item["relations"]],
    }


def _named_row(entity: Mapping[str, Any]) -> tuple[Any, ...]:
    aliases = [entity["id"], *entity.get("aliases", ())]
    return entity["id"], entity.get("name", entity["id"]), json.dumps(aliases, ensure_ascii=False)


def _like(db: apsw.Connection, statements: Sequence[str], question: str) -> list[Any]:
    """What has any of the question's first terms in it."""
    terms = [term for term in TERM.findall(question) if len(term) > 1][:MAX_TERMS]
    escaped = [re.sub(r"([\\%_])", r"\\\1", term) for term in terms]
    bound = [f"%{term}%" for term in escaped for _ in range(2)]
    return [row[0] for row in db.execute(statements[len(terms) - 1], bound)] if terms else []


def _mentioning(db: apsw.Connection, entities: Iterable[str]) -> list[int]:
    return [row[0] for row in db.execute(MENTIONING, (json.dumps(list(entities)),))]
