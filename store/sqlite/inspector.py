"""A file as it is, for looking without a trace."""

from collections.abc import Iterator
from pathlib import Path

import apsw

from core.errors import StoreError
from core.types import is_chunk_id
from store.sqlite import schema_check
from store.sqlite.file_check import examine
from store.sqlite.migrations import SCHEMA_VERSION
from store.sqlite.statements import APPLICATION_ID, PENDING, fetch_all, fetch_one
from store.sqlite.store import SqliteStore

KINDS = """
    SELECT kind, count(*) FROM entities WHERE valid_until IS NULL
    GROUP BY kind COLLATE NOCASE ORDER BY 2 DESC, kind
"""

NEWEST_TEXTS = """
    SELECT id, concat_ws(char(10), content,
        (SELECT group_concat(text, char(10)) FROM contexts WHERE chunk_seq = seq))
    FROM chunks WHERE valid_until IS NULL ORDER BY seq DESC LIMIT ?
"""


class Inspector(SqliteStore):
    """A file as it is, be it of an older schema or damaged; for the health check and the doctor.

    Opening it makes and migrates nothing, and reading brings no log into the file. Only what is
    opened for `mending` may be written to.
    """

    def __init__(self, path: Path, *, mending: bool = False, busy_seconds: float = 5.0) -> None:
        self._mending = mending
        super().__init__(path, busy_seconds=busy_seconds)

    def _open(self) -> apsw.Connection:
        self._writable = examine(self.path)
        # Else the last one out would bring in a log that somebody has left.
        self.read_only = not self._writable or (not self._mending and self.sizes()["wal_bytes"] > 0)
        self._begin()
        db = self.connect(reader=not self._mending)
        try:
            self._recognise(db)
        except BaseException:
            self.close()
            raise
        return db

    def _read_only_connection(self) -> apsw.Connection:
        if not self._writable:
            return super()._read_only_connection()
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(self.path.as_uri() + "?mode=ro", flags)

    def _recognise(self, db: apsw.Connection) -> None:
        self.version = int(db.pragma("user_version"))
        if db.pragma("application_id") != APPLICATION_ID:
            raise StoreError("store.foreign", path=self.path)
        if not 1 <= self.version <= SCHEMA_VERSION:
            super()._recognise(db)
        schema_check.refuse_strange(db, self.path, older=self.version < SCHEMA_VERSION)

    def kinds(self) -> list[tuple[str, int]]:
        with self.reader() as db:
            return fetch_all(db, KINDS)

    def waiting_since(self) -> str | None:
        sql = PENDING.replace("count(*)", "min(id)")
        with self.reader() as db:
            chunk_id = fetch_one(db, sql) or ""
        return written_at(chunk_id) if is_chunk_id(chunk_id) else None

    def first_written(self) -> str | None:
        with self.reader() as db:
            first: str | None = fetch_one(db, "SELECT created_at FROM chunks ORDER BY seq LIMIT 1")
            return first

    def newest_texts(self, limit: int) -> Iterator[tuple[str, str]]:
        with self.reader() as db:
            yield from db.execute(NEWEST_TEXTS, (limit,))


def written_at(chunk_id: str) -> str:
    """The time that a chunk's id begins with, as it is stored.

    >>> written_at("chunk_20260701T020304567Z_0123456789ab")
    '2026-07-01T02:03:04.567Z'
    """
    digits = chunk_id.split("_")[1]
    return (
        f"{digits[:4]}-{digits[4:6]}-{digits[6:11]}:{digits[11:13]}:{digits[13:15]}.{digits[15:]}"
    )
