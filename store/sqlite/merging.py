"""Making one entity of two, and taking that back.

The kept entity gets the names, mentions and relations of the other, which is closed and leads to
it. The record of a merge in the audit says which rows were written or closed, so that a later undo
leaves all that was written since.
"""

import json
from typing import Any

from core.errors import InvalidInput, NotFound
from core.types import Merge, NewEntity
from entity_resolve import differ_by_number
from store.sqlite.entity_rows import EntityRows
from store.sqlite.relation_rows import RelationRows
from store.sqlite.row_changes import tells_undo
from store.sqlite.statements import ENDS, fetch_all, fetch_named, fetch_one, to_json
from store.sqlite.transaction import Transaction

TWIN_RELATION = """
    SELECT id FROM relations
    WHERE source_id = :source_id AND target_id = :target_id AND relation = :relation
    AND (valid_until IS NULL OR valid_until > :now)
"""
COPY_NAMES = """
    INSERT OR IGNORE INTO aliases
    SELECT key, ?, alias, iif(role = 'code', 'code', 'alias'), valid_from
    FROM aliases WHERE entity_id = ? RETURNING key
"""
COPY_MENTIONS = """
    INSERT OR IGNORE INTO mentions
    SELECT ?, chunk_seq, origin FROM mentions WHERE entity_id = ? RETURNING chunk_seq
"""
CLOSE_MERGED = """
    UPDATE entities SET valid_until = max(:at, valid_from), superseded_by = :into WHERE seq = :seq
"""

UNDO_ALIASES = """
    DELETE FROM aliases WHERE entity_id = ? AND key IN (SELECT value FROM json_each(?))
"""
UNDO_MENTIONS = """
    DELETE FROM mentions
    WHERE entity_id = :keep AND chunk_seq IN (SELECT value FROM json_each(:moved))
    AND NOT EXISTS (  -- said again since
        SELECT 1 FROM audit a JOIN chunks c ON c.id = a.target_id
        WHERE c.seq = chunk_seq AND a.action = 'remember' AND a.id > :merge
    )
"""
UNDO_EVIDENCE = """
    DELETE FROM evidence WHERE relation_id = ? AND chunk_seq IN (SELECT value FROM json_each(?))
"""
UNDO_RELATION = """
    DELETE FROM relations WHERE id = :id AND valid_until IS :ended
    AND NOT EXISTS (SELECT 1 FROM evidence WHERE relation_id = :id)
    AND NOT EXISTS (
        SELECT 1 FROM audit
        WHERE target_id = CAST(:id AS TEXT) AND action = 'relate' AND id > :merge
    )
"""
# What was forgotten since, by itself or with all its evidence, stays forgotten.
REOPEN_RELATION = """
    UPDATE relations SET valid_until = :ended WHERE id = :old AND NOT EXISTS (
        SELECT 1 FROM relations s WHERE s.id = :kept AND s.valid_until IS NOT :ended AND (
            EXISTS (
                SELECT 1 FROM audit WHERE target_id = CAST(s.id AS TEXT)
                AND action = 'forget' AND target_kind = 'relation' AND id > :merge
            )
            OR (
                SELECT count(*) > 0 AND count(*) FILTER (WHERE c.valid_until IS NULL) = 0
                FROM evidence v JOIN chunks c ON c.seq = v.chunk_seq WHERE v.relation_id = s.id
            )
        )
    )
"""
REOPEN_ENTITY = "UPDATE entities SET valid_until = NULL, superseded_by = NULL WHERE seq = ?"


class Merging:
    """Writes what a merge of two entities changes in all their rows, and what undoes it."""

    def __init__(
        self, transaction: Transaction, entities: EntityRows, relations: RelationRows
    ) -> None:
        self._transaction, self._entities, self._relations = transaction, entities, relations
        self._db, self._now = transaction.db, transaction.now

    def merge(self, keep: str, duplicate: str, reason: str) -> Merge | None:
        """Move names, mentions and relations to `keep` and close the other; None if that was done.

        The audit keeps which rows were written or closed, for undo.
        """
        into, gone = self._entities.known(keep), self._entities.known(duplicate)
        if gone["superseded_by"] == into["id"]:
            return None
        for entity in (into, gone):
            if entity["valid_until"] is not None:
                raise NotFound("missing.forgotten_entity", id=entity["id"])
        if into["id"] == gone["id"]:
            raise InvalidInput("merge.same", id=into["id"])
        if differ_by_number([into["id"], into["name"]], [gone["id"], gone["name"]]):
            raise InvalidInput("merge.number", keep=into["id"], duplicate=gone["id"])
        done = {
            "aliases": self._copy_names(into["id"], gone["id"]),
            "mentions": self._copy_mentions(into["id"], gone["id"]),
            "relations": self._move_relations(into["id"], gone["id"]),
            "closed": gone["seq"],
            "version": self._complete(into, gone),
        }
        closing = {"at": self._now, "into": into["id"], "seq": gone["seq"]}
        self._db.execute(CLOSE_MERGED, closing)
        detail = {"keep": into["id"], "duplicate": gone["id"], **done}
        self._transaction.audit("merge", "entity", into["id"], reason, to_json(detail))
        self._transaction.write_audits()
        merge_id = self._transaction.last_audit or 0
        return Merge(merge_id, len(done["relations"]), len(done["mentions"]))

    def _copy_names(self, into: str, gone: str) -> list[str]:
        """Give one entity the other's names too; the keys that were new to it."""
        return [row[0] for row in fetch_all(self._db, COPY_NAMES, (into, gone))]

    def _copy_mentions(self, into: str, gone: str) -> list[int]:
        """Let the chunks that mention one entity mention the other; which did not before."""
        copied = [row[0] for row in fetch_all(self._db, COPY_MENTIONS, (into, gone))]
        self._entities.note_mentioned(copied)
        return copied

    def _move_relations(self, into: str, gone: str) -> list[dict[str, Any]]:
        """Open each relation of one entity anew with the other, but for loops and doubles."""
        moved = []
        for edge in self._relations.holding(gone, self._now):
            before = fetch_named(self._db, "SELECT * FROM relations WHERE id = ?", edge) or {}
            ends = {end: into if before[end] == gone else before[end] for end in ENDS}
            twin = fetch_one(self._db, TWIN_RELATION, {**before, **ends, "now": self._now})
            new = None
            if ends["source_id"] != ends["target_id"] and twin is None:
                new = self._relations.move(edge, gone, into, self._now)
            kept = new or twin
            shown = self._relations.copy_evidence(edge, kept) if kept else []
            self._relations.close(edge, self._now)
            ended = before["valid_until"]
            moved.append({"old": edge, "ended": ended, "new": new, "twin": twin, "shown": shown})
        return moved

    def _complete(self, into: dict[str, Any], gone: dict[str, Any]) -> list[int] | None:
        """Let what is kept say what only the other said; its closed and its open version."""
        properties = json.loads(gone["properties_json"]) | json.loads(into["properties_json"])
        plain, named = into["kind"] == "concept", gone["name"] != gone["id"]
        self._entities.put(
            NewEntity(
                into["id"],
                kind=gone["kind"] if plain else None,
                name=gone["name"] if into["name"] == into["id"] and named else None,
                summary=None if into["summary"] else gone["summary"] or None,
                properties=properties,
            ),
            into["source"],
            self._now,
        )
        seq = self._entities.known(into["id"])["seq"]
        return None if seq == into["seq"] else [into["seq"], seq]

    def undo(self, audit_id: int) -> int:
        """Put back every row as it was before a merge; 0 if that was done already."""
        audit = fetch_named(
            self._db, "SELECT * FROM audit WHERE id = ? AND action = 'merge'", audit_id
        )
        if audit is None:
            raise NotFound("missing.merge", id=audit_id)
        sql = "SELECT 1 FROM audit WHERE action = 'undo' AND target_id = ?"
        if fetch_one(self._db, sql, (str(audit_id),)):
            return 0
        done = json.loads(audit["detail_json"])
        if not tells_undo("merge", done):
            raise InvalidInput(
                "undo.lacking", id=audit_id, action="merge", target=audit["target_id"]
            )
        for each in reversed(done["relations"]):
            self._put_relation_back(each, audit_id)
        taken = (done["keep"], json.dumps(done["aliases"]))
        self._db.execute(UNDO_ALIASES, taken)
        moved = {"keep": done["keep"], "moved": json.dumps(done["mentions"]), "merge": audit_id}
        self._db.execute(UNDO_MENTIONS, moved)
        if done["version"]:
            self._put_version_back(*done["version"])
        self._db.execute(REOPEN_ENTITY, (done["closed"],))
        self._transaction.audit("undo", "merge", str(audit_id), "", "{}")
        return 1

    def _put_relation_back(self, moved: dict[str, Any], merge: int) -> None:
        """Open a relation as it was; its successor goes unless it was changed or said since."""
        kept = moved["new"] or moved["twin"]
        opened = {"old": moved["old"], "ended": moved["ended"], "kept": kept, "merge": merge}
        self._db.execute(REOPEN_RELATION, opened)
        self._db.execute(UNDO_EVIDENCE, (kept, json.dumps(moved["shown"])))
        successor = {"id": moved["new"], "ended": moved["ended"], "merge": merge}
        self._db.execute(UNDO_RELATION, successor)

    def _put_version_back(self, old: int, new: int) -> None:
        sql = "DELETE FROM entities WHERE seq = ? AND valid_until IS NULL RETURNING seq"
        if fetch_all(self._db, sql, (new,)):
            self._db.execute(REOPEN_ENTITY, (old,))
