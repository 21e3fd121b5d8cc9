"""Whether a file's schema is ours: what else stands in it would be done whenever memories are.

A trigger runs with each write, and a view or a column may compute anything. So the tables, indexes,
views and triggers of a file are compared with those that schema.sql makes, word by word, but for
comments and spaces: older files came to theirs by other steps.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import apsw

from config import ROOT
from core.errors import StoreError
from store.sqlite.next_vectors import NEXT_TABLES
from store.sqlite.statements import fetch_all

_TOKENS = re.compile(r"--[^\n]*|\s+|('(?:[^']|'')*'|\"\w+\"|\w+|.)", re.DOTALL)
_DIMENSIONS = re.compile(r"\b(float\[|zeroblob\()\d+")
_VECTOR_TABLES = ("vectors", "next_vectors", "old_vectors")
_VECTORS = "CREATE VIRTUAL TABLE {0} USING vec0 (embedding float[0], live integer)"
_FTS = ("words", "closed_words", "trigrams", "closed_trigrams")  # two of them in old files only
_INNER = re.compile(
    rf"({'|'.join(_FTS)})_(data|idx|content|docsize|config)"
    rf"|({'|'.join(_VECTOR_TABLES)})_(chunks|info|rowids|auxiliary|vector_chunks\d\d"
    r"|metadatachunks\d\d|metadatatext\d\d)|sqlite_(sequence|stat[14])"
)
"""Tables that SQLite and its modules make for themselves."""


class _Object(NamedTuple):
    """A row of sqlite_schema."""

    kind: str
    name: str
    table: str
    sql: str | None

    @property
    def is_inner(self) -> bool:
        """Whether it is one of a module's own tables, or the index of a key."""
        if self.kind == "index" and self.name.startswith("sqlite_autoindex_"):
            return self.sql is None
        plain = _words(self.sql or "")[:2] == ("CREATE", "TABLE")
        return self.kind == "table" and plain and _INNER.fullmatch(self.name) is not None


SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"


@lru_cache(maxsize=1 << 8)
def _words(sql: str) -> tuple[str, ...]:
    """What a statement says; a dimension is any."""
    found = _TOKENS.findall(_DIMENSIONS.sub(r"\g<1>0", sql))
    return tuple(each.strip('"') if each[1:-1].isidentifier() else each for each in found if each)


@lru_cache(maxsize=1)
def _ours() -> tuple[dict[str, _Object], frozenset[str]]:
    """All that a file may have, by name, and the names of what each has."""
    db = apsw.Connection(":memory:")
    db.execute((ROOT / "schema.sql").read_text("utf-8"))
    needed = frozenset(each.name for each in _read(db) if not each.is_inner)
    db.execute(NEXT_TABLES.format(0))
    found = {each.name: each for each in _read(db)}
    db.close()
    for name in _VECTOR_TABLES:
        found[name] = _Object("table", name, name, _VECTORS.format(name))
    return found, needed


def _read(db: apsw.Connection) -> list[_Object]:
    return [_Object(*row) for row in fetch_all(db, SCHEMA)]


def refuse_strange(db: apsw.Connection, path: Path, *, older: bool = False) -> None:
    """Raise StoreError that names what is not ours in a file, or what it lacks.

    An older file has tables that were made otherwise; its triggers are as they are today.
    """
    ours, needed = _ours()
    here = _read(db)
    for each in here:
        known = ours.get(each.name)
        if each.is_inner or (older and each.name in _FTS):
            continue
        if known is None or not _is_alike(each, known, older):
            raise StoreError("store.strange", path=path, kind=each.kind, name=each.name)
    if not older and (lacking := needed.difference(each.name for each in here)):
        raise StoreError("store.lacking", path=path, name=min(lacking))


def _is_alike(here: _Object, known: _Object, older: bool) -> bool:
    made_otherwise = older and here.kind != "trigger"
    same = made_otherwise or _words(here.sql or "") == _words(known.sql or "")
    return same and (here.kind, here.table) == (known.kind, known.table)


def plain_tables(db: apsw.Connection) -> list[str]:
    """The tables of a file that hold rows and are no module's, under names of ours."""
    ours, _ = _ours()
    return [
        each.name
        for each in _read(db)
        if each.kind == "table" and each.name in ours and _words(each.sql or "")[1:2] == ("TABLE",)
    ]
