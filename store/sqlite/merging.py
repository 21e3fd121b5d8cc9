"""Making one entity of two, and taking that back.

In one transaction the kept entity gets the names, mentions and relations of the other (loops and
doubles are dropped), which is closed and leads to it: naming it again means the kept one. The
record in the audit has every row that was written or closed. Undoing a merge puts back exactly
these and leaves all that was written since.
"""

import json
from typing import Any

from core.errors import InvalidInput, NotFound
from core.types import Merge, NewEntity
from entity_resolve import differ_by_number
from store.sqlite.entity_rows import HOLDING_EDGES
from store.sqlite.history import holds_undo
from store.sqlite.relation_rows import RelationRows
from store.sqlite.statements import (
    ENDS,
    LATEST_ENTITY,
    fetch_all,
    fetch_named,
    fetch_one,
    near_names,
    to_json,
)
from text import words

# --- SQL: writing ----------------------------------------------------------------------


# An edge of a chunk that an update replaces goes on from its next version.
MOVE_EDGE = """
    INSERT INTO relations (
        source_id, target_id, relation, weight, properties_json, source, confidence, created_at,
        valid_from, valid_until, evidence_chunk_id
    )
    SELECT iif(source_id = :old, :new, source_id), iif(target_id = :old, :new, target_id),
        relation, weight, properties_json, source, confidence, created_at,
        max(valid_from, :at), valid_until, evidence_chunk_id
    FROM relations WHERE id = :id RETURNING id
"""

TWIN_RELATION = """
    SELECT id FROM relations
    WHERE source_id = :source_id AND target_id = :target_id AND relation = :relation
    AND (valid_until IS NULL OR valid_until > :now)
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
# What was forgotten since, by itself or with all that showed it, stays forgotten.
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


# --- Writing ---------------------------------------------------------------------------


class Merging(RelationRows):
    """One entity made of two, and that taken back."""

    def merge_entities(self, keep: str, duplicate: str, reason: str) -> Merge | None:
        """Move names, mentions and relations to `keep` and close the other; None if that was done.

        The audit keeps every row that was written or closed, for undo_merge.
        """
        into, gone = self.known_entity(keep), self.known_entity(duplicate)
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
            "aliases": self._move_names(into["id"], gone["id"]),
            "mentions": self._move_mentions(into["id"], gone["id"]),
            "relations": self._move_relations(into["id"], gone["id"]),
            "closed": gone["seq"],
            "version": self._complete(into, gone),
        }
        sql = "UPDATE entities SET valid_until = max(:at, valid_from), superseded_by = :id"
        sql += " WHERE seq = :seq"
        self.db.execute(sql, {"at": self.now, "id": into["id"], "seq": gone["seq"]})
        detail = {"keep": into["id"], "duplicate": gone["id"], **done}
        self.audit("merge", "entity", into["id"], reason, to_json(detail))
        self.write_audits()
        return Merge(self.last_audit or 0, len(done["relations"]), len(done["mentions"]))

    def known_entity(self, entity_id: str) -> dict[str, Any]:
        known = fetch_named(self.db, LATEST_ENTITY, words.identity(entity_id))
        if known is None:
            near = ", ".join(near_names(self.db, entity_id)) or "-"
            raise NotFound("missing.entity", id=entity_id, near=near)
        return known

    def _move_names(self, into: str, gone: str) -> list[str]:
        """Give one entity the other's names; the keys that were new to it."""
        sql = """
            INSERT OR IGNORE INTO aliases
            SELECT key, ?, alias, iif(role = 'code', 'code', 'alias'), valid_from
            FROM aliases WHERE entity_id = ? RETURNING key
        """
        return [row[0] for row in fetch_all(self.db, sql, (into, gone))]

    def _move_mentions(self, into: str, gone: str) -> list[int]:
        sql = """
            INSERT OR IGNORE INTO mentions
            SELECT ?, chunk_seq, origin FROM mentions WHERE entity_id = ? RETURNING chunk_seq
        """
        moved = [row[0] for row in fetch_all(self.db, sql, (into, gone))]
        self._linked_late(moved)
        return moved

    def _move_relations(self, into: str, gone: str) -> list[dict[str, Any]]:
        """Open each relation of one entity anew with the other, but for loops and doubles."""
        moved = []
        for (edge,) in fetch_all(self.db, HOLDING_EDGES, {"node": gone, "at": self.now}):
            before = fetch_named(self.db, "SELECT * FROM relations WHERE id = ?", edge) or {}
            ends = {end: into if before[end] == gone else before[end] for end in ENDS}
            twin = fetch_one(self.db, TWIN_RELATION, {**before, **ends, "now": self.now})
            new = None
            if ends["source_id"] != ends["target_id"] and twin is None:
                step = {"old": gone, "new": into, "at": self.now, "id": edge}
                new = fetch_one(self.db, MOVE_EDGE, step)
            shown = self._copy_evidence(edge, new or twin) if new or twin else []
            self._close_relation(edge, self.now)
            ended = before["valid_until"]
            moved.append({"old": edge, "ended": ended, "new": new, "twin": twin, "shown": shown})
        return moved

    def _copy_evidence(self, old: int, new: int) -> list[int]:
        sql = """
            INSERT OR IGNORE INTO evidence
            SELECT ?, chunk_seq FROM evidence WHERE relation_id = ? RETURNING chunk_seq
        """
        return [row[0] for row in fetch_all(self.db, sql, (new, old))]

    def _complete(self, into: dict[str, Any], gone: dict[str, Any]) -> list[int] | None:
        """Let what is kept say what only the other said; its closed and its open version."""
        properties = json.loads(gone["properties_json"]) | json.loads(into["properties_json"])
        plain, named = into["kind"] == "concept", gone["name"] != gone["id"]
        self.put_entity(
            NewEntity(
                into["id"],
                kind=gone["kind"] if plain else None,
                name=gone["name"] if into["name"] == into["id"] and named else None,
                summary=None if into["summary"] else gone["summary"] or None,
                properties=properties,
            ),
            into["source"],
            self.now,
        )
        seq = self.known_entity(into["id"])["seq"]
        return None if seq == into["seq"] else [into["seq"], seq]

    def undo_merge(self, audit_id: int) -> int:
        """Put back every row as it was before a merge; 0 if that was done already."""
        audit = fetch_named(
            self.db, "SELECT * FROM audit WHERE id = ? AND action = 'merge'", audit_id
        )
        if audit is None:
            raise NotFound("missing.merge", id=audit_id)
        sql = "SELECT 1 FROM audit WHERE action = 'undo' AND target_id = ?"
        if fetch_one(self.db, sql, (str(audit_id),)):
            return 0
        done = json.loads(audit["detail_json"])
        if not holds_undo("merge", done):
            raise InvalidInput(
                "undo.lacking", id=audit_id, action="merge", target=audit["target_id"]
            )
        for each in reversed(done["relations"]):
            self._put_relation_back(each, audit_id)
        taken = (done["keep"], json.dumps(done["aliases"]))
        self.db.execute(UNDO_ALIASES, taken)
        moved = {"keep": done["keep"], "moved": json.dumps(done["mentions"]), "merge": audit_id}
        self.db.execute(UNDO_MENTIONS, moved)
        if done["version"]:
            self._put_version_back(*done["version"])
        self.db.execute(REOPEN_ENTITY, (done["closed"],))
        self.audit("undo", "merge", str(audit_id), "", "{}")
        return 1

    def _put_relation_back(self, moved: dict[str, Any], merge: int) -> None:
        """Open a relation as it was; its successor goes unless it was changed or said since."""
        kept = moved["new"] or moved["twin"]
        opened = {"old": moved["old"], "ended": moved["ended"], "kept": kept, "merge": merge}
        self.db.execute(REOPEN_RELATION, opened)
        self.db.execute(UNDO_EVIDENCE, (kept, json.dumps(moved["shown"])))
        successor = {"id": moved["new"], "ended": moved["ended"], "merge": merge}
        self.db.execute(UNDO_RELATION, successor)

    def _put_version_back(self, old: int, new: int) -> None:
        sql = "DELETE FROM entities WHERE seq = ? AND valid_until IS NULL RETURNING seq"
        if fetch_all(self.db, sql, (new,)):
            self.db.execute(REOPEN_ENTITY, (old,))
