"""Small statements and pieces of SQL that reading and writing share."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import apsw

from core.errors import NotFound, StoreError
from core.types import EdgeRow, Scope
from text import words

log = logging.getLogger("mnelo")

APPLICATION_ID = 0x6D6E656C  # "mnel": tells our files from other programs'
MAX_NEAR_NAMES = 5  # that an error proposes for one that is unknown
SINCE_EVER = "0001-01-01T00:00:00.000Z"


# --- SQL: what is live -----------------------------------------------------------------


_LIVE = """
    CASE WHEN :asof IS NULL THEN {0}.valid_until IS NULL
    ELSE {0}.valid_from <= :asof AND ({0}.valid_until IS NULL OR {0}.valid_until > :asof) END
"""
LIVE_CHUNK = _LIVE.format("c")
LIVE_ENTITY = _LIVE.format("e")

# A relation may end, or begin, in the future: it holds at one moment, now or asof.
LIVE_RELATION = """
    r.valid_from <= :at AND (r.valid_until IS NULL OR r.valid_until > :at)
"""

IN_SCOPE = f"""
    {LIVE_CHUNK}
    AND (:source IS NULL OR c.source = :source COLLATE NOCASE)
    AND (:session_id IS NULL OR c.session_id = :session_id)
    AND (:time_from IS NULL OR c.timestamp >= :time_from)
    AND (:time_to IS NULL OR c.timestamp <= :time_to)
    AND (:min_importance IS NULL OR c.importance >= :min_importance)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM tags t WHERE t.chunk_seq = c.seq AND t.tag = :tag))
    AND (:kind IS NULL OR EXISTS (
        SELECT 1 FROM mentions m JOIN entities e ON e.id = m.entity_id
        WHERE m.chunk_seq = c.seq AND e.kind = :kind COLLATE NOCASE AND {LIVE_ENTITY}
    ))
"""


# --- SQL: searching --------------------------------------------------------------------


TERM_NUMBERS = """
    SELECT t.term, t.id FROM json_each(:terms) k JOIN terms t ON t.term = k.value
"""

PENDING = """
    SELECT count(*) FROM chunks INDEXED BY chunks_pending WHERE pending = 1 AND valid_until IS NULL
"""
ENDS = ("source_id", "target_id")
MODEL_VERSION = "SELECT value || ' ' || updated_at FROM meta WHERE key = 'embedding_model'"
OLDEST_CHANGE = "SELECT min(id) FROM changes"
LAST_CHANGE = "SELECT coalesce(max(id), 0) FROM changes"
SPELLED = "SELECT key FROM aliases WHERE entity_id = ?"
MENTIONED = "SELECT entity_id FROM mentions WHERE chunk_seq = ?"

NAMED = f"""
    SELECT e.id, e.kind, a.key FROM json_each(:keys) k JOIN aliases a ON a.key = k.value
    JOIN entities e ON e.id = a.entity_id
    WHERE {LIVE_ENTITY} AND (:asof IS NULL OR a.valid_from <= :asof)
    AND (:kind IS NULL OR e.kind = :kind COLLATE NOCASE)
    ORDER BY length(a.key) DESC, e.importance DESC, e.id, a.key
"""

EDGE_COLUMNS = """
    r.id, r.source_id, r.target_id, r.relation, r.weight, r.properties_json,
    r.valid_from, r.valid_until, r.evidence_chunk_id
"""


# --- SQL: writing ----------------------------------------------------------------------


CHUNK_VERSION = """
    SELECT seq, id, content, source, session_id, timestamp, importance, metadata_json, created_at,
        valid_from, valid_until, superseded_by
    FROM chunks WHERE id = ?
"""

# All versions of the memory that one id belongs to, oldest first.
VERSIONS = """
    WITH RECURSIVE
        older (id) AS (
            VALUES (?1)
            UNION SELECT c.id FROM older JOIN chunks c ON c.superseded_by = older.id
        ),
        newer (id) AS (
            VALUES (?1)
            UNION SELECT c.superseded_by FROM newer JOIN chunks c ON c.id = newer.id
            WHERE c.superseded_by IS NOT NULL
        )
    SELECT c.id, c.seq FROM chunks c WHERE c.id IN (SELECT id FROM older UNION SELECT id FROM newer)
    ORDER BY c.seq
"""

PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)"

# One transaction writes at a time, so a number above all others is above all that anybody saw.
NEXT_REV = "(SELECT coalesce(max(rev), 0) + 1 FROM postings)"

PLACE_OF_CHUNK = "SELECT place FROM postings WHERE chunk_seq = ?"

PUT_TURN = "INSERT OR REPLACE INTO turns VALUES (?, ?, ?)"

CHANGED_ALL = f"UPDATE postings SET rev = {NEXT_REV}"

LATEST_ENTITY = """
    SELECT seq, id, kind, name, summary, properties_json, source, importance, created_at,
        valid_from, valid_until, superseded_by
    FROM entities WHERE key = ? ORDER BY valid_until IS NULL DESC, seq DESC LIMIT 1
"""


# --- Small statements that reading and writing share ------------------------------------


def fetch_all(db: apsw.Connection, sql: str, bound: Any = ()) -> list[Any]:
    """Every row, read to the end, so that the statement holds no lock."""
    return list(db.execute(sql, bound))


def fetch_one(db: apsw.Connection, sql: str, bound: Any = ()) -> Any:
    """The first column of the first row, or None."""
    row = db.execute(sql, bound).fetchone()
    return None if row is None else row[0]


def fetch_named(db: apsw.Connection, sql: str, key: str | int) -> dict[str, Any] | None:
    """The one row that a key leads to, by the names of its columns."""
    cursor = db.execute(sql, (key,))
    for row in cursor:
        return dict(zip((column[0] for column in cursor.get_description()), row, strict=True))
    return None


def bound_scope(scope: Scope) -> dict[str, Any]:
    """A scope's conditions by their names, for IN_SCOPE."""
    return {name: getattr(scope, name) for name in Scope.__slots__}


def edge_of(row: Sequence[Any]) -> EdgeRow:
    """The relation that a row of EDGE_COLUMNS is."""
    relation_id, source, target, relation, weight, properties, *rest = row
    read = json.loads(properties) if properties != "{}" else {}
    return EdgeRow(relation_id, source, target, relation, weight, read, *rest)


def read_json(row: dict[str, Any], *columns: str) -> dict[str, Any]:
    """The row, with what is JSON in it read."""
    return row | {column: json.loads(row[column]) for column in columns}


def last_version(db: apsw.Connection, chunk_id: str) -> dict[str, Any]:
    """The last version of the memory that this id, of any version, belongs to."""
    while True:
        version = fetch_named(db, CHUNK_VERSION, chunk_id)
        if version is None:
            raise NotFound("missing.chunk", id=chunk_id)
        if version["superseded_by"] is None:
            return version
        chunk_id = version["superseded_by"]


def versions_of(db: apsw.Connection, chunk_id: str) -> dict[str, int]:
    """The ids and seqs of all versions of a memory, oldest first; none where it is not there."""
    return dict(fetch_all(db, VERSIONS, (chunk_id,)))


def has_vectors(db: apsw.Connection) -> bool:
    return has_table(db, "vectors")


def has_table(db: apsw.Connection, name: str) -> bool:
    # Asked by a statement, which sees a table that another connection has just made.
    return fetch_one(db, "SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)) is not None


def entity_id_of(db: apsw.Connection, reference: str, asof: str | None = None) -> str | None:
    """Ids come before names; a name that several entities share leads to none of them."""
    scope = bound_scope(Scope(asof=asof))
    sql = f"SELECT e.id FROM entities e WHERE e.key = :key AND {LIVE_ENTITY}"
    found = fetch_one(db, sql, scope | {"key": words.identity(reference)})
    if found is not None:
        return str(found)
    keys = words.lookup_keys({words.name_key(reference), *words.codes(words.fold(reference))})
    ids = {row[0] for row in fetch_all(db, NAMED, scope | {"keys": json.dumps(list(keys))})}
    return str(ids.pop()) if len(ids) == 1 else None


def near_names(db: apsw.Connection, reference: str) -> list[str]:
    """Ids of live entities with a name that resembles this one, for an error's hint."""
    wanted = trigrams_of(f" {words.fold(reference)} ")
    if not wanted:
        return []
    sql = """
        SELECT e.id, sum(instr(' ' || a.key || ' ', k.value) > 0) AS shared
        FROM aliases a JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL,
            json_each(?) k
        GROUP BY e.id, a.key HAVING shared * 3 > ? ORDER BY shared DESC, e.id LIMIT ?
    """
    rows = fetch_all(db, sql, (json.dumps(wanted), len(wanted), 4 * MAX_NEAR_NAMES))
    return list(dict.fromkeys(row[0] for row in rows))[:MAX_NEAR_NAMES]


to_json = json.JSONEncoder(ensure_ascii=False).encode
"""A value as JSON, its text as it stands."""


@lru_cache(maxsize=64)
def detail_json(name: str, value: str | int) -> str:
    """What nearly every row of the audit says beside what was done to what."""
    return to_json({name: value})


def bounds_of_prefix(text: str) -> tuple[str, str]:
    """The bounds between which all that begins with a text sorts."""
    return text, text[:-1] + chr(min(ord(text[-1]) + 1, 0x10FFFF))


def trigrams_of(text: str) -> list[str]:
    return list(dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2)))


# --- The index in memory ---------------------------------------------------------------


@contextmanager
def reading(db: apsw.Connection) -> Iterator[None]:
    """Several statements that see one moment of the file, and take its lock once."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


@contextmanager
def misread_is_damage(db: apsw.Connection) -> Iterator[None]:
    """Values that fit into no array were never written by us, whatever NumPy says of them."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise StoreError("store.damaged", path=db.filename, error=error) from error


def is_behind(db: apsw.Connection, change: int) -> bool:
    """Whether changes after that one are no longer in the file."""
    oldest = fetch_one(db, OLDEST_CHANGE)
    return oldest is not None and oldest > change + 1


# --- Timeline --------------------------------------------------------------------------


SEGMENTS = "SELECT text FROM contexts WHERE chunk_seq = ? ORDER BY part LIMIT ? OFFSET ?"


# --- Checking --------------------------------------------------------------------------


TEXT_INDEXES = ("trigrams", "closed_trigrams")


# --- Purge and erase -------------------------------------------------------------------


def forget_changes(db: apsw.Connection) -> None:
    """Let every process read everything anew: it cannot see which rows are no longer there."""
    sql = "INSERT INTO changes (kind, what) VALUES ('chunk', 0)"
    db.execute(sql)  # what comes after it is more than one beyond all that anybody has seen
    db.execute(sql)
    db.execute("DELETE FROM changes WHERE id < ?", (db.last_insert_rowid(),))
