"""What can still be read of a damaged or strange file, written into a new one.

Only the rows that somebody wrote are taken, each by itself, so that a page that is lost costs no
more than its rows; where the table does not lead to a row, an index may. Terms, pieces and vectors
are made anew from the texts. Nothing of the old schema is used but its plain tables.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from core.errors import StoreError
from core.types import milliseconds
from index.analysis import hash_of
from store.files import beside
from store.sqlite.checks import TIMES
from store.sqlite.migrations import index_rest
from store.sqlite.schema_check import plain_tables
from store.sqlite.statements import fetch_all
from store.sqlite.store import SqliteStore
from store.types import Salvaged

BY_ROW = ("chunks", "entities", "relations", "audit", "turns", "timeline", "contexts")
WHOLE = ("tags", "aliases", "mentions", "evidence", "config")
"""Tables without numbers of rows, which are read from both ends."""

_UNREADABLE = (apsw.CorruptError, apsw.IOError, apsw.SQLError, apsw.FullError)

COLUMNS = "SELECT name FROM pragma_table_info(?)"
INDEXES = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql NOTNULL"
AS_BYTES = "CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) ELSE {0} END"
NUMBERS = {
    order: {table: f"SELECT rowid FROM {table} ORDER BY rowid {order}" for table in BY_ROW}
    for order in ("ASC", "DESC")
}
BY_INDEX = "SELECT rowid FROM {table} INDEXED BY {index}"
ONE_ROW = "SELECT {columns} FROM {table} WHERE rowid = ?"
EVERY_ROW = "SELECT {columns} FROM {table} ORDER BY 1 {order}"
PUT = "INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks}) RETURNING 1"
LOST_NEXT = """
    UPDATE chunks SET superseded_by = NULL
    WHERE superseded_by IS NOT NULL AND superseded_by NOT IN (SELECT id FROM chunks)
"""


class _Table(NamedTuple):
    """A table of ours: nothing that a file calls its own gets into a statement."""

    name: str
    columns: list[str]
    indexes: list[str]

    def row(self, values: Iterable[Any]) -> dict[str, Any]:
        texts = (
            each.decode(errors="replace") if isinstance(each, bytes) else each for each in values
        )
        return dict(zip(self.columns, texts, strict=True))


def salvage(path: Path, target: Path) -> Salvaged:
    """Write what can be read of a file into a new one; of each table the rows saved and lost."""
    if target.exists():
        raise StoreError("store.is_there", path=target)
    saved, lost = Counter[str](), Counter[str]()
    with closing(_opened(path)) as old:
        there = _plain_tables_of(old, path)
        with closing(SqliteStore(target)) as new:
            with new.writing("") as writer:
                for name in (*BY_ROW[:3], *WHOLE, *BY_ROW[3:]):
                    if name in there:
                        _take(old, writer.db, name, saved, lost)
                writer.db.execute(LOST_NEXT)
                index_rest(writer)
            new.upkeep.reindex()
            new.upkeep.remove_orphans()
    return {name: (saved[name], lost[name]) for name in there if name in (*BY_ROW, *WHOLE)}


def _opened(path: Path) -> apsw.Connection:
    log = beside(path, "-wal")
    alone = "&immutable=1" if not (log.exists() and log.stat().st_size) else ""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(path.as_uri() + "?mode=ro" + alone, flags)
    except apsw.Error as error:
        raise StoreError("store.unreadable", path=path, error=error) from error
    db.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    db.pragma("writable_schema", True)  # reads on where a line of the schema cannot be understood
    return db


def _plain_tables_of(db: apsw.Connection, path: Path) -> list[str]:
    try:
        there = plain_tables(db)
    except apsw.Error as error:
        raise StoreError("store.damaged", path=path, error=error) from error
    if "chunks" not in there:
        raise StoreError("store.foreign", path=path)
    return there


def _take(
    old: apsw.Connection,
    new: apsw.Connection,
    name: str,
    saved: Counter[str],
    lost: Counter[str],
) -> None:
    """Copy the rows of a table that can be read, and that a file of ours may have."""
    known = {row[0] for row in fetch_all(old, COLUMNS, (name,))}
    columns = [row[0] for row in fetch_all(new, COLUMNS, (name,)) if row[0] in known]
    table = _Table(name, columns, [row[0] for row in fetch_all(new, INDEXES, (name,))])
    marks = ", ".join(f":{column}" for column in table.columns)
    put = PUT.format(table=name, columns=", ".join(table.columns), marks=marks)
    rows = _rows_by_number(old, table) if name in BY_ROW else _rows_from_both_ends(old, table)
    for row in rows:
        kept = row is not None and _mended(name, row)
        done = False
        with suppress(apsw.ConstraintError, OverflowError):
            done = bool(kept) and fetch_all(new, put, row) != []
        # From both ends a row may come twice.
        (saved if done else lost)[name] += int(done or name in BY_ROW)


def _rows_by_number(db: apsw.Connection, table: _Table) -> Iterator[dict[str, Any] | None]:
    """Each row that anything leads to; None for one that cannot be read."""
    columns = ", ".join(map(AS_BYTES.format, table.columns))
    sql = ONE_ROW.format(columns=columns, table=table.name)
    for number in sorted(_numbers(db, table)):
        row = None
        with suppress(*_UNREADABLE):
            for values in db.execute(sql, (number,)):
                row = table.row(values)
        yield row


def _numbers(db: apsw.Connection, table: _Table) -> set[int]:
    found = set[int]()
    ways = [NUMBERS[order][table.name] for order in NUMBERS]
    ways += [BY_INDEX.format(table=table.name, index=index) for index in table.indexes]
    for sql in ways:
        with suppress(*_UNREADABLE):
            found.update(number for (number,) in db.execute(sql) if isinstance(number, int))
    return found


def _rows_from_both_ends(db: apsw.Connection, table: _Table) -> Iterator[dict[str, Any]]:
    columns = ", ".join(map(AS_BYTES.format, table.columns))
    for order in NUMBERS:
        with suppress(*_UNREADABLE):
            sql = EVERY_ROW.format(columns=columns, table=table.name, order=order)
            for values in db.execute(sql):
                yield table.row(values)


def _mended(name: str, row: dict[str, Any]) -> bool:
    """Put what is derived right, and a time that is none beside the others; False if none is."""
    if name == "chunks":
        row["content_hash"] = hash_of(str(row["content"]).encode())
        row["pending"] = 1
    columns = [each for each in TIMES.get(name, ("",))[1:] if row.get(each) is not None]
    good = [row[each] for each in columns if _is_time(row[each])]
    for each in columns:
        if not _is_time(row[each]):
            if not good:
                return False
            row[each] = max(good) if each == "valid_until" else min(good)
    return True


def _is_time(value: Any) -> bool:
    try:
        milliseconds([value])
    except StoreError:
        return False
    return True
