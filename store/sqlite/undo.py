"""Putting back what one record of the audit changed.

An undo puts every row back as it was before an action, but refuses where something later builds on
what the action did: it then names the first later record, which has to be undone first.
"""

import json
from collections.abc import Sequence
from typing import Any

from core.errors import InvalidInput, NotFound
from index.analysis import Indexed
from store.sqlite.history import UNDONE_BY
from store.sqlite.removal import REMOVE_NAME_WORDS, remove_chunk
from store.sqlite.row_changes import WATCHED, RowChange, noted_changes, tells_undo
from store.sqlite.statements import (
    ENDS,
    MENTIONED,
    fetch_all,
    fetch_named,
    fetch_one,
    forget_changes,
    is_behind,
    to_json,
)
from store.sqlite.writer import Writer

RECORD = f"SELECT a.*, {UNDONE_BY} AS undone_by FROM audit a WHERE a.id = ?"
# The first later record of one of some targets, or that notes one of some rows. A row is looked for
# by its beginning (RowChange.noted_beginning).
FIRST_LATER_RECORD = f"""
    SELECT a.id, a.action, a.target_id, a.at FROM audit a
    WHERE a.id > :id AND a.action <> 'undo' AND {UNDONE_BY} IS NULL
    AND (
        EXISTS (
            SELECT 1 FROM json_each(:targets) t
            WHERE t.value ->> 0 = a.target_kind AND t.value ->> 1 = a.target_id
            OR t.value ->> 1 IN (a.detail_json ->> 'duplicate', a.detail_json ->> 'supersedes')
            OR (a.action = 'merge' AND t.value ->> 0 = 'relation' AND EXISTS (
                SELECT 1 FROM json_each(a.detail_json, '$.relations') m
                WHERE CAST(m.value ->> 'old' AS TEXT) = t.value ->> 1
            ))
            OR (a.action = 'remember' AND t.value ->> 0 = 'entity' AND EXISTS (
                SELECT 1 FROM chunks c JOIN mentions m ON m.chunk_seq = c.seq
                WHERE c.id = a.target_id AND m.entity_id = t.value ->> 1 AND m.origin <> 'found'
            ))
            OR (a.action = 'relate' AND t.value ->> 0 = 'entity' AND EXISTS (
                SELECT 1 FROM relations r WHERE r.id = CAST(a.target_id AS INTEGER)
                AND t.value ->> 1 IN (r.source_id, r.target_id)
            ))
        )
        OR EXISTS (SELECT 1 FROM json_each(:rows) r WHERE instr(a.detail_json, r.value))
    )
    ORDER BY a.id LIMIT 1
"""

_IS_NEW = """
    NOT EXISTS (SELECT 1 FROM entities o WHERE o.id = e.id AND o.seq <> e.seq)
"""
_AT_CHUNK = """
    SELECT r.id FROM chunks c JOIN relations r ON r.{0} = c.id WHERE c.seq = :key
"""
_AT_ENTITY = f"""
    SELECT r.id FROM entities e JOIN relations r ON r.{{0}} = e.id
    WHERE e.seq = :key AND (r.id > :relation OR {_IS_NEW})
"""
# What hangs on a row that an action made. The row cannot go with anything that the action did not
# make itself.
HANGING_ON = {
    "chunks": (
        ("tags", "SELECT chunk_seq, tag FROM tags WHERE chunk_seq = :key"),
        (
            "mentions",
            """
            SELECT entity_id, chunk_seq FROM mentions
            WHERE chunk_seq = :key AND origin <> 'found'
            """,
        ),
        ("evidence", "SELECT relation_id, chunk_seq FROM evidence WHERE chunk_seq = :key"),
        *(("relations", _AT_CHUNK.format(end)) for end in ENDS),
    ),
    "relations": (
        ("evidence", "SELECT relation_id, chunk_seq FROM evidence WHERE relation_id = :key"),
    ),
    "entities": (
        (
            "mentions",
            f"""
            SELECT m.entity_id, m.chunk_seq FROM entities e JOIN mentions m ON m.entity_id = e.id
            WHERE e.seq = :key AND m.origin <> 'found' AND (m.chunk_seq > :chunk OR {_IS_NEW})
            """,
        ),
        (
            "aliases",
            f"""
            SELECT a.key, a.entity_id FROM entities e JOIN aliases a ON a.entity_id = e.id
            WHERE e.seq = :key AND {_IS_NEW}
            """,
        ),
        *(("relations", _AT_ENTITY.format(end)) for end in ENDS),
    ),
}

# Entries of the timeline with one text are the same only if these are, too (see SAME_ENTRIES).
_AS_ENTRY = """
    (
        SELECT json_array(t.category, t.expires_at IS NULL, (
            SELECT json_group_array(tag) FROM tags WHERE chunk_seq = t.chunk_seq
        )) FROM timeline t WHERE t.chunk_seq = {0}.seq
    )
"""
# What was made since and is the same as what would be open again: a text, an entity or a relation.
SAME_MADE_SINCE = {
    "chunks": f"""
        SELECT 'chunk', n.id FROM chunks c JOIN chunks n ON n.content_hash = c.content_hash
        AND n.valid_until IS NULL AND n.content = c.content AND n.source = c.source
        AND n.session_id = c.session_id WHERE c.seq = :key AND n.seq > :chunk
        AND {_AS_ENTRY.format("n")} IS {_AS_ENTRY.format("c")}
        UNION
        SELECT 'chunk', n.id FROM turns t JOIN chunks c ON c.seq = t.chunk_seq
        JOIN chunks n ON n.session_id = c.session_id AND n.valid_until IS NULL AND n.seq <> c.seq
        JOIN turns o ON o.chunk_seq = n.seq AND o.round_id = t.round_id WHERE c.seq = :key
    """,
    "entities": """
        SELECT 'entity', n.id FROM entities c JOIN entities n
        ON n.key = c.key AND n.valid_until IS NULL AND n.seq <> c.seq WHERE c.seq = :key
    """,
    "relations": """
        SELECT 'relation', CAST(n.id AS TEXT) FROM relations c JOIN relations n
        ON n.source_id = c.source_id AND n.target_id = c.target_id AND n.relation = c.relation
        AND (n.valid_until IS NULL OR n.valid_until > :now)
        WHERE c.id = :key AND n.id > :relation
    """,
}
# Those ends of a relation that are closed.
DEAD_ENDS = """
    SELECT iif(o.id IN (SELECT id FROM chunks), 'chunk', 'entity'), o.id FROM (
        SELECT source_id AS id FROM relations WHERE id = :key
        UNION SELECT target_id FROM relations WHERE id = :key
    ) o
    WHERE NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = o.id AND c.valid_until IS NULL)
    AND NOT EXISTS (SELECT 1 FROM entities e WHERE e.id = o.id AND e.valid_until IS NULL)
"""

_OF_CHUNK = "SELECT 'chunk', id FROM chunks WHERE seq = "
TARGETS_OF_ROW = {
    "chunks": _OF_CHUNK + "?1",
    "tags": _OF_CHUNK + "?1 AND ?2 IS NOT NULL",
    "entities": "SELECT 'entity', id FROM entities WHERE seq = ?1",
    "aliases": "SELECT 'entity', ?2",
    "mentions": f"SELECT 'entity', ?1 UNION ALL {_OF_CHUNK} ?2",
    "relations": "SELECT 'relation', CAST(?1 AS TEXT)",
    "evidence": f"SELECT 'relation', CAST(?1 AS TEXT) UNION ALL {_OF_CHUNK} ?2",
}
"""For each table the audit's targets that a row belongs to, by the row's key."""

_OF_KEY = {
    table: " AND ".join(f"{name} = ?" for name in keys) for table, (keys, _) in WATCHED.items()
}
CURRENT = {
    table: f"SELECT {', '.join(columns) or '1'} FROM {table} WHERE {_OF_KEY[table]}"
    for table, (_, columns) in WATCHED.items()
}
REMOVE = {table: f"DELETE FROM {table} WHERE {where}" for table, where in _OF_KEY.items()}
RESTORE = {
    (table, column): f"UPDATE {table} SET {column} = ? WHERE {_OF_KEY[table]}"
    for table, (_, columns) in WATCHED.items()
    for column in columns
}
"""What reads, removes and restores a row of each table by its key: no word of them is stored."""

REPEATED_UNCHANGED = ("chunks", "relations")
"""The tables of what can be stored again without a change of any row: only the audit shows it."""

# Whether a mention has another reason by now: the memory was stored again, or is evidence of
# another relation of the entity.
MENTIONED_SINCE = """
    SELECT 1 FROM chunks c WHERE c.seq = :seq AND (
        EXISTS (
            SELECT 1 FROM audit a
            WHERE a.target_id = c.id AND a.action = 'remember' AND a.id > :id
        )
        OR EXISTS (
            SELECT 1 FROM evidence v JOIN relations r ON r.id = v.relation_id
            WHERE v.chunk_seq = c.seq AND :entity IN (r.source_id, r.target_id)
        )
    )
"""

MENTIONS_OF_NOBODY = "DELETE FROM mentions WHERE entity_id NOT IN (SELECT id FROM entities)"

# The live entities with some names: those that changed after a moment, or all if it is unknown.
NAMED_SINCE = """
    SELECT DISTINCT a.entity_id FROM json_each(:keys) k JOIN aliases a ON a.key = k.value
    JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL
    WHERE :since IS NULL
    OR a.entity_id IN (SELECT what FROM changes WHERE kind = 'entity' AND id > :since)
"""


def undo_record(writer: Writer, audit_id: int) -> dict[str, Any]:
    """Put every row back that a recorded action changed; what was undone, and its record."""
    record = fetch_named(writer.db, RECORD, audit_id)
    if record is None:
        raise NotFound("undo.unknown", id=audit_id)
    detail = json.loads(record["detail_json"])
    _refuse_undo(record, detail)
    undoing = _Undo(writer, record, detail)
    if record["action"] == "merge":
        undoing.refuse_merged_on()
        writer.merging.undo(audit_id)
    else:
        undoing.put_back()
        writer.transaction.audit("undo", record["action"], str(audit_id), "", "{}")
    writer.transaction.write_audits()
    return {
        "undone": audit_id,
        "action": record["action"],
        "kind": record["target_kind"],
        "target": record["target_id"],
        "audit_id": writer.transaction.last_audit,
    }


def _refuse_undo(record: dict[str, Any], detail: dict[str, Any]) -> None:
    """Raise InvalidInput for a record that cannot be undone, whatever the file holds."""
    named = {"id": record["id"], "action": record["action"], "target": record["target_id"]}
    if record["action"] == "undo":
        raise InvalidInput("undo.undo", id=record["id"])
    if record["action"] not in ("forget", "update", "relate", "merge"):
        raise InvalidInput("undo.no_undo", **named)
    if record["undone_by"] is not None:
        raise InvalidInput("undo.done", id=record["id"], by=record["undone_by"])
    if not tells_undo(record["action"], detail):
        empty = detail.get("rows") == []
        raise InvalidInput("undo.nothing" if empty else "undo.lacking", **named)


class _Undo:
    """Puts back what one record changed, or refuses where a later action builds on it."""

    def __init__(self, writer: Writer, record: dict[str, Any], detail: dict[str, Any]) -> None:
        self._writer, self._db, self._record = writer, writer.db, record
        self._rows = noted_changes(detail)
        self._after: dict[str, Any] = detail.get("after", {}) | {"now": writer.now}
        self._detail = detail
        self._own = {(row.table, *row.key) for row in self._rows}

    def refuse_merged_on(self) -> None:
        """Refuse where what two entities became was merged into another one."""
        kept = self._writer.entities.known(self._detail["keep"])
        if kept["superseded_by"]:
            self._refuse([("entity", kept["id"])])

    def put_back(self) -> None:
        made = [row for row in self._rows if row.before is None]
        changed = [row for row in self._rows if row.before is not None]
        self._refuse_built_on(made)
        for table in WATCHED:
            for row in made:
                if row.table == table and not self._stays(row):
                    self._remove(row)
        for row in changed:
            if not self._stays(row):
                self._restore(row)
        for row in changed:
            self._refuse_doubled(row)
        if made:
            forget_changes(self._db)

    # -- refusing --

    def _refuse_built_on(self, made: Sequence[RowChange]) -> None:
        for row in self._rows:
            if self._current(row) != row.after:
                self._refuse(self._targets(row), [row])
            if row.table == "entities" and row.before is not None:
                self._refuse_if(SAME_MADE_SINCE["entities"], row)
        repeated = [row for row in made if row.table in REPEATED_UNCHANGED]
        targets = [each for row in repeated for each in self._targets(row)]
        if self._record["action"] == "relate":
            targets.append(("relation", self._record["target_id"]))
            targets += self._memories_of_new(made)
        if later := self._later(targets):
            self._refuse_for(later)
        for row in made:
            for table, sql in HANGING_ON.get(row.table, ()):
                self._refuse_hanging(row, table, sql)

    def _memories_of_new(self, made: Sequence[RowChange]) -> list[tuple[str, str]]:
        """The memories that mention an entity that goes: each may have been stored again since."""
        if not any(row.table == "entities" for row in made):
            return []
        given = [row for row in made if row.table == "mentions" and row.after["origin"] != "found"]
        return [each for row in given for each in self._targets(row) if each[0] == "chunk"]

    def _refuse_hanging(self, row: RowChange, table: str, sql: str) -> None:
        for key in fetch_all(self._db, sql, self._bound(row)):
            if (table, *key) not in self._own:
                hangs = RowChange(table, list(key), None, {})
                self._refuse([*self._targets(hangs), *self._targets(row)], [row])

    def _refuse_doubled(self, row: RowChange) -> None:
        """Refuse where what is open again was also stored anew, or leads to what is closed."""
        if row.table == "chunks":
            self._refuse_if(SAME_MADE_SINCE["chunks"], row)
        elif row.table == "relations" and self._holds(row):
            self._refuse_if(SAME_MADE_SINCE["relations"], row)
            ends = fetch_all(self._db, DEAD_ENDS, {"key": row.key[0]})
            if later := self._later(ends):
                self._refuse_for(later)

    def _holds(self, row: RowChange) -> bool:
        until = (row.before or {}).get("valid_until")
        return "valid_until" in (row.before or {}) and (until is None or until > self._writer.now)

    def _refuse_if(self, sql: str, row: RowChange) -> None:
        if found := fetch_all(self._db, sql, self._bound(row)):
            self._refuse(found)

    def _refuse(self, targets: Sequence[tuple[str, str]], rows: Sequence[RowChange] = ()) -> None:
        if later := self._later(targets, rows):
            self._refuse_for(later)
        named = {"action": self._record["action"], "target": self._record["target_id"]}
        raise InvalidInput("undo.changed", id=self._record["id"], **named)

    def _refuse_for(self, later: tuple[int, str, str, str]) -> None:
        record, action, target, at = later
        own = {"id": self._record["id"], "action": self._record["action"]}
        raise InvalidInput("undo.later", **own, later=record, what=action, target=target, at=at)

    def _later(
        self, targets: Sequence[tuple[str, str]], rows: Sequence[RowChange] = ()
    ) -> tuple[int, str, str, str] | None:
        """The first later record of one of the targets, or that changed one of the rows."""
        bound = {
            "id": self._record["id"],
            "targets": to_json(targets),
            "rows": to_json([row.noted_beginning for row in rows]),
        }
        found: list[tuple[int, str, str, str]] = fetch_all(self._db, FIRST_LATER_RECORD, bound)
        return found[0] if found else None

    def _targets(self, row: RowChange) -> list[tuple[str, str]]:
        """The audit's targets that a row belongs to."""
        return fetch_all(self._db, TARGETS_OF_ROW[row.table], row.key)

    # -- putting back --

    def _bound(self, row: RowChange) -> dict[str, Any]:
        return self._after | {"key": row.key[0]}

    def _current(self, row: RowChange) -> dict[str, Any] | None:
        """What a row says now where the action wrote; None where it is gone."""
        found = fetch_all(self._db, CURRENT[row.table], row.key)
        if not found:
            return None
        here = dict(zip(WATCHED[row.table][1], found[0], strict=False))
        return {name: here[name] for name in row.after}

    def _stays(self, row: RowChange) -> bool:
        """Whether a mention is there for another reason by now."""
        if row.table != "mentions":
            return False
        entity, seq = row.key
        bound = {"id": self._record["id"], "entity": entity, "seq": seq}
        return fetch_one(self._db, MENTIONED_SINCE, bound) is not None

    def _remove(self, row: RowChange) -> None:
        if row.table == "chunks":
            remove_chunk(self._db, row.key[0])
        else:
            self._db.execute(REMOVE[row.table], row.key)
        if row.table == "aliases":
            self._db.execute(REMOVE_NAME_WORDS, (row.key[0],))
        if row.table == "entities":
            self._db.execute(MENTIONS_OF_NOBODY)

    def _restore(self, row: RowChange) -> None:
        for name, value in (row.before or {}).items():
            self._db.execute(RESTORE[row.table, name], (value, *row.key))
        if row.table == "chunks":
            self._reopen(row.key[0])

    def _reopen(self, seq: int) -> None:
        """Let searches of live memories find one again, also by names that are new since."""
        writer = self._writer
        text, metadata = writer.transaction.searchable(seq)
        indexed = Indexed(text)
        writer.texts.drop_pieces(seq, live=False)
        writer.texts.put_pieces(seq, indexed.pieces(metadata), live=True)
        writer.transaction.changed(seq)
        if not writer.vectors.set_live(seq, True):  # whatever became of them while it was closed
            self._db.execute("UPDATE chunks SET pending = 1 WHERE seq = ?", (seq,))
        names = to_json(writer.entities.names_in(indexed))
        since = None if is_behind(self._db, self._after["change"]) else self._after["change"]
        named = fetch_all(self._db, NAMED_SINCE, {"keys": names, "since": since})
        known = {row[0] for row in fetch_all(self._db, MENTIONED, (seq,))}
        writer.entities.mention(seq, [row[0] for row in named if row[0] not in known], "found")
