"""Which rows an action changed, noted in its record of the audit, so that it can be undone.

While an action writes, SQLite watches the tables of WATCHED. The detail of its record then has
under `rows` what each row was before and after, and under `after` the highest numbers of that
moment: what has a higher one came later. A merge notes under other names what it did
(merging.py). A purge takes all that away from old records, of which rows may be gone, and an import
from every record: what another file says of its rows is not done to ours.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import apsw

from store.sqlite.statements import fetch_all, to_json

# What an action writes that can be undone, what hangs on others first: the key of each table, and
# the columns of its rows that ever change.
WATCHED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tags": (("chunk_seq", "tag"), ()),
    "evidence": (("relation_id", "chunk_seq"), ()),
    "mentions": (("entity_id", "chunk_seq"), ("origin",)),
    "aliases": (("key", "entity_id"), ("valid_from",)),
    "relations": (("id",), ("valid_from", "valid_until")),
    "entities": (("seq",), ("valid_from", "valid_until", "superseded_by")),
    "chunks": (("seq",), ("valid_until", "superseded_by")),
}

HIGHEST_NUMBERS = """
    SELECT (SELECT coalesce(max(seq), 0) FROM chunks),
        (SELECT coalesce(max(id), 0) FROM relations), (SELECT coalesce(max(id), 0) FROM changes)
"""
ADD_TO_DETAIL = """
    UPDATE audit SET detail_json = json_patch(detail_json, ?) WHERE id = ? AND action <> 'remember'
"""

_OF_ROWS = ("rows", "after")
_OF_MERGE = ("closed", "aliases", "mentions", "relations", "version")
TELLS_UNDO = "(detail_json ->> 'rows' IS NOT NULL OR detail_json ->> 'closed' IS NOT NULL)"
"""Whether a record of the audit may tell what an undo needs."""
FORGET_UNDO = f"""
    UPDATE audit SET detail_json = json_remove(
        detail_json, {", ".join(f"'$.{name}'" for name in (*_OF_ROWS, *_OF_MERGE))}
    )
    WHERE id = ?
"""


class RowChange(NamedTuple):
    """One row that an action made or changed; before is None where it made it."""

    table: str
    key: list[Any]
    before: dict[str, Any] | None
    after: dict[str, Any]

    @property
    def noted_beginning(self) -> str:
        """How the row begins where a record notes it, whatever happened to it."""
        start = json.dumps([self.table, self.key], ensure_ascii=False, separators=(",", ":"))
        return start.removesuffix("]") + ","


@contextmanager
def noting_changes(db: apsw.Connection) -> Iterator[Callable[[int | None], None]]:
    """Watch what is changed of memories and links; gives a way to note it in a record."""
    with closing(apsw.Session(db, "main")) as session:
        for table in WATCHED:
            session.attach(table)
        yield lambda audit_id: _note(db, audit_id, session.changeset())


def _note(db: apsw.Connection, audit_id: int | None, changeset: bytes) -> None:
    """Add to a record, if there is one, which rows were changed so far."""
    if audit_id is None:
        return
    changes = list(_row_changes(db, changeset))
    chunk, relation, change = fetch_all(db, HIGHEST_NUMBERS)[0]
    after = {"chunk": chunk, "relation": relation, "change": change}
    db.execute(ADD_TO_DETAIL, (to_json({"rows": changes, "after": after}), audit_id))


def _row_changes(db: apsw.Connection, changeset: bytes) -> Iterator[RowChange]:
    for each in apsw.Changeset.iter(changeset):
        keys, watched = WATCHED[each.name]
        columns = [row[1] for row in fetch_all(db, f"PRAGMA table_info({each.name})")]
        old, new = (dict(zip(columns, row or (), strict=False)) for row in (each.old, each.new))
        before, after = (
            {name: row[name] for name in watched if row and row[name] is not apsw.no_change}
            for row in (old, new)
        )
        if before or not old:
            key = [(old or new)[name] for name in keys]
            yield RowChange(each.name, key, before if old else None, after)


def noted_changes(detail: dict[str, Any]) -> list[RowChange]:
    """The rows that a record notes; none where it names anything that is not watched."""
    try:
        rows = [RowChange(*row) for row in detail.get("rows", ())]
        return rows if all(map(_is_watched, rows)) else []
    except (AttributeError, KeyError, TypeError):  # not written by us
        return []


def _is_watched(row: RowChange) -> bool:
    keys, columns = WATCHED[row.table]
    named = {*row.after, *(row.before or ())}
    values = [*row.key, *row.after.values(), *(row.before or {}).values()]
    return (
        len(row.key) == len(keys)
        and named.issubset(columns)
        and all(value is None or isinstance(value, int | str) for value in values)
    )


def tells_undo(action: str, detail: dict[str, Any]) -> bool:
    """Whether a record tells what an undo needs."""
    return "closed" in detail if action == "merge" else bool(noted_changes(detail))


def without_undo(action: str, detail: dict[str, Any]) -> dict[str, Any]:
    """A record's detail without what an undo goes by."""
    names = (*_OF_ROWS, *_OF_MERGE) if action == "merge" else _OF_ROWS
    return {key: value for key, value in detail.items() if key not in names}


def without_rows(detail: dict[str, Any]) -> dict[str, Any]:
    """What a person is shown of a record's detail."""
    return {key: value for key, value in detail.items() if key not in _OF_ROWS}
