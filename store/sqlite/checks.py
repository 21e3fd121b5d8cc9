"""What a sound file promises, and the statements that find what breaks it.

Each check is one statement, whose rows are the faults. The text indexes and the pages are checked
by SQLite itself.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apsw
import numpy as np

from index.analysis import hash_of
from store.sqlite.cue_snapshots import all_cues
from store.sqlite.nul import max_length
from store.sqlite.statements import (
    SINCE_EVER,
    TEXT_INDEXES,
    fetch_all,
    fetch_one,
    has_vectors,
    reading,
)
from store.sqlite.vectors import VECTOR_CHECKS

CHECK_STEPS = 10_000  # of SQLite's machine, after which a check looks at the clock: some 0.1 ms

_UNINDEXED = """
    SELECT seq FROM chunks WHERE {0} EXCEPT SELECT {2} FROM {1}
"""
_MISPLACED = """
    SELECT {2} FROM {1} EXCEPT SELECT seq FROM chunks WHERE {0}
"""
EACH_INDEX = (
    ("1", "postings", "chunk_seq"),
    ("valid_until IS NULL", "trigrams", "rowid"),
    ("valid_until IS NOT NULL", "closed_trigrams", "rowid"),
)

CHECKS = {
    **{f"not in {index[1]}": _UNINDEXED.format(*index) for index in EACH_INDEX},
    **{f"wrongly in {index[1]}": _MISPLACED.format(*index) for index in EACH_INDEX},
    "halved postings": """
        SELECT chunk_seq FROM postings WHERE length(terms) <> 4 * length(weights)
    """,
    "two next versions": """
        SELECT superseded_by FROM chunks WHERE superseded_by IS NOT NULL
        GROUP BY superseded_by HAVING count(*) > 1
    """,
    "lost next version": """
        SELECT c.id FROM chunks c LEFT JOIN chunks n ON n.id = c.superseded_by
        WHERE c.superseded_by IS NOT NULL AND (n.id IS NULL OR c.valid_until IS NULL)
    """,
    "backward validity": """
        SELECT id FROM chunks WHERE valid_until < valid_from
        UNION ALL SELECT id FROM entities WHERE valid_until < valid_from
        UNION ALL SELECT id FROM relations WHERE valid_until < valid_from
    """,
    "mentions of nobody": """
        SELECT entity_id FROM mentions EXCEPT SELECT id FROM entities
    """,
    "names of nobody": "SELECT entity_id FROM aliases EXCEPT SELECT id FROM entities",
    "windows without vectors table": """
        SELECT seq FROM windows
        WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'vectors')
    """,
}

# Only where memories are found by cues.
CUE_CHECKS = {
    "not in cue_postings": """
        SELECT seq FROM chunks WHERE seq < (SELECT max(chunk_seq) FROM cue_postings)
        EXCEPT SELECT chunk_seq FROM cue_postings
    """,
    "halved cues": "SELECT chunk_seq FROM cue_postings WHERE length(cues) % 4 <> 0",
}
ROUNDS_BEYOND = f"""
    SELECT t.chunk_seq, c.content FROM turns t JOIN chunks c ON c.seq = t.chunk_seq
    WHERE t.asked NOT BETWEEN 0 AND {max_length("c.content")}
"""


TIMES = {
    "chunks": ("seq", "timestamp", "created_at", "valid_from", "valid_until", "last_recalled"),
    "entities": ("seq", "created_at", "updated_at", "valid_from", "valid_until", "last_recalled"),
    "aliases": ("key", "valid_from"),
    "relations": ("id", "created_at", "valid_from", "valid_until"),
    "timeline": ("chunk_seq", "expires_at"),
    "audit": ("id", "at"),
    "recall_log": ("id", "created_at"),
}
"""Of each table what names a row, and the columns that are times."""
_NO_TIME = f"""
    {{0}} IS NOT NULL
    AND (strftime('%Y-%m-%dT%H:%M:%fZ', {{0}}) IS NOT {{0}} OR {{0}} < '{SINCE_EVER}')
"""
WITHOUT_TIME = {
    f"no time in {table}": f"SELECT {key} FROM {table} WHERE "
    + " OR ".join(map(_NO_TIME.format, columns))
    for table, (key, *columns) in TIMES.items()
}
"""What finds the rows that have something else where a time belongs."""
TEXTS = "SELECT seq, content_hash, CAST(content AS BLOB) FROM chunks"
NAMED_ROWS = 5  # of a fault that names rows


def _changed_texts(db: apsw.Connection) -> list[int]:
    """The chunks whose text is no longer the one that was stored."""
    return [seq for seq, known, text in db.execute(TEXTS) if hash_of(text) != known]


def _first_column(db: apsw.Connection, sql: str) -> list[Any]:
    return [row[0] for row in db.execute(sql)]


def _each_named_fault(db: apsw.Connection) -> Iterator[tuple[str, int]]:
    """Faults whose rows are named, since somebody has to look at each."""
    found: dict[str, list[Any]] = {}
    for name, sql in WITHOUT_TIME.items():
        found[name] = _read_or(partial(_first_column, db, sql))
    found["changed texts"] = _read_or(partial(_changed_texts, db))
    for name, rows in found.items():
        shown = f" (row {', '.join(map(str, rows[:NAMED_ROWS]))})" if rows else ""
        yield name + shown, len(rows)


def _read_or(read: Callable[[], list[Any]]) -> list[Any]:
    """The rows of a fault; one that is unknown where they cannot be read."""
    try:
        return read()
    except (apsw.CorruptError, UnicodeDecodeError):
        return ["?"]


def each_cue_fault(db: apsw.Connection) -> Iterator[tuple[str, int]]:
    """Faults of the cues that were read, if any were."""
    if not _count(db, "SELECT 1 FROM cue_postings LIMIT 1"):
        return
    for name, sql in CUE_CHECKS.items():
        yield name, _count(db, sql)
    try:
        known = [row[0] for row in db.execute("SELECT id FROM cues")]
        yield "cues of no word", len(np.setdiff1d(all_cues(db), known))
    except apsw.CorruptError:
        yield "cues of no word", 1


def broken_index(db: apsw.Connection, table: str) -> int:
    """FTS5's own check of one of its tables, which only reads: 1 where it fails."""
    return int(_problems(db, f"integrity_check({table})") != [])


def _problems(db: apsw.Connection, pragma: str) -> list[str]:
    """What one of SQLite's own checks finds, as of one moment."""
    try:
        with reading(db):
            for table in TEXT_INDEXES:
                # Without this the check would not see what other connections wrote to it.
                fetch_one(db, f"SELECT rowid FROM {table}")
            return [row[0] for row in fetch_all(db, f"PRAGMA {pragma}") if row[0] != "ok"]
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]


def each_fault(db: apsw.Connection, pages: str) -> Iterator[tuple[str, int]]:
    """Each fault with its number of rows, the quickest to find first."""
    checks = CHECKS | VECTOR_CHECKS if has_vectors(db) else CHECKS
    for name, sql in checks.items():
        yield name, _count(db, sql)
    if _count(db, "SELECT 1 FROM turns LIMIT 1"):
        yield "rounds beyond their text", _count(db, ROUNDS_BEYOND)
    yield from _each_named_fault(db)
    yield from each_cue_fault(db)
    indexes = {table: _problems(db, f"{pages}({table})") for table in TEXT_INDEXES}
    for table, problems in indexes.items():
        yield f"index of {table}", int(problems != [])
    # SQLite reports a broken text index here as well.
    yield "pages", len(set(_problems(db, pages)).difference(*indexes.values()))
    yield "references", _count(db, "PRAGMA foreign_key_check")


def _count(db: apsw.Connection, sql: str) -> int:
    try:
        return len(fetch_all(db, sql))
    except apsw.CorruptError:
        return 1
