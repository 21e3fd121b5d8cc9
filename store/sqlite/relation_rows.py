"""Writing relations between entities and memories."""

from typing import Any

from core.errors import NotFound
from core.types import NewEntity, NewRelation, is_chunk_id
from store.sqlite.entity_rows import EntityRows
from store.sqlite.statements import (
    EDGE_COLUMNS,
    SINCE_EVER,
    detail_json,
    edge_of,
    entity_id_of,
    fetch_all,
    fetch_one,
    to_json,
)
from text import words

# --- SQL: writing ----------------------------------------------------------------------


PUT_EVIDENCE = "INSERT OR IGNORE INTO evidence VALUES (?, ?)"

SAME_RELATION = f"""
    SELECT {EDGE_COLUMNS} FROM relations r
    WHERE r.source_id = :source_id AND r.target_id = :target_id AND r.relation = :relation
    AND (r.valid_until IS NULL OR r.valid_until > :now)
    ORDER BY r.id DESC LIMIT 1
"""

SAME_PAST_RELATION = """
    SELECT id FROM relations
    WHERE source_id = :source_id AND target_id = :target_id AND relation = :relation
    AND valid_from = :valid_from AND valid_until = :valid_until AND weight = :weight
"""

INSERT_RELATION = """
    INSERT INTO relations (
        id, source_id, target_id, relation, weight, properties_json, source, created_at,
        valid_from, valid_until, evidence_chunk_id
    ) VALUES (
        :id, :source_id, :target_id, :relation, :weight, :properties, :source, :now,
        :valid_from, :valid_until, :evidence
    )
"""

COPY_EVIDENCE = "INSERT INTO evidence SELECT ?, chunk_seq FROM evidence WHERE relation_id = ?"


# --- Writing ---------------------------------------------------------------------------


class RelationRows(EntityRows):
    """Relations between entities and memories."""

    def put_relation(
        self,
        relation: NewRelation,
        *,
        source: str,
        about: str,
        said_by: tuple[str, int] | None = None,
    ) -> tuple[int, str]:
        """Store a relation, or add to the same one that holds; its id and what was done.

        `about` is when it begins if it does not say; `said_by` is the live chunk, by id and seq,
        that says so if it names no other.
        """
        start = relation.valid_from or _starts(relation, about)
        row = {
            "source_id": self._endpoint(relation.source_id, source, start),
            "target_id": self._endpoint(relation.target_id, source, start),
            "relation": relation.relation,
            "weight": relation.weight,
            "properties": to_json(relation.properties),
            "source": source,
            "now": self.now,
            "valid_from": start,
            "valid_until": relation.valid_until,
        }
        if relation.evidence_chunk_id:
            version = self.live_version(relation.evidence_chunk_id)
            said_by = (version["id"], version["seq"])
        row["evidence"] = said_by[0] if said_by else None
        relation_id, status = self._merge_relation(row, relation)
        if said_by:
            self._show(relation_id, row, said_by[1])
        self.audit("relate", "relation", str(relation_id), "", detail_json("status", status))
        return relation_id, status

    def _merge_relation(self, row: dict[str, Any], given: NewRelation) -> tuple[int, str]:
        if (row["source_id"], row["target_id"], row["relation"]) in self._related:
            self._write_relations()
        found = fetch_all(self.db, SAME_RELATION, row)
        over = row["valid_until"] is not None and row["valid_until"] <= self.now
        if over and (known := fetch_one(self.db, SAME_PAST_RELATION, row)):
            return int(known), "exists"
        if over or not found:
            return self._insert_relation(row), "stored, already over" if over else "stored"
        same = edge_of(found[0])
        if (
            same.weight == given.weight
            and same.valid_until == given.valid_until
            and given.valid_from in (None, same.valid_from)
            and same.properties == given.properties
        ):
            if row["valid_from"] < same.valid_from:
                sql = "UPDATE relations SET valid_from = ? WHERE id = ?"
                self.db.execute(sql, (row["valid_from"], same.id))
            return same.id, "exists"
        self._close_relation(same.id, row["valid_from"])
        relation_id = self._insert_relation(row)
        self._write_relations()
        self.db.execute(COPY_EVIDENCE, (relation_id, same.id))
        return relation_id, "updated"

    def _insert_relation(self, row: dict[str, Any]) -> int:
        self.last_relation += 1
        self._relations.append(row | {"id": self.last_relation})
        self._related.add((row["source_id"], row["target_id"], row["relation"]))
        return self.last_relation

    def _write_relations(self) -> None:
        """Write new relations, and then what shows them and others."""
        self.db.executemany(INSERT_RELATION, self._relations)
        self.db.executemany(PUT_EVIDENCE, self._evidence)
        self._relations, self._evidence = [], []
        self._related.clear()

    def _show(self, relation_id: int, row: dict[str, Any], seq: int) -> None:
        """Record that a chunk says so, which also links it with both ends."""
        self._evidence.append((relation_id, seq))
        ends = [row[end] for end in ("source_id", "target_id") if not is_chunk_id(row[end])]
        self.mention(seq, ends, "evidence")

    def _endpoint(self, reference: str, source: str, about: str) -> str:
        """What a relation's end means: a live chunk, a known entity by any name, or a new one."""
        if is_chunk_id(reference):
            return str(self.live_version(reference)["id"])
        key = words.identity(reference)
        if (live := self._live.get(key)) is not None:
            return live
        known = entity_id_of(self.db, reference)
        if known is None:
            return self.put_entity(NewEntity(reference), source, about)
        if words.identity(known) == key:  # not by another name, which may come to mean others too
            self._live[key] = known
        return known

    def forget_relation(self, relation_id: int, reason: str) -> int:
        if not fetch_one(self.db, "SELECT 1 FROM relations WHERE id = ?", (relation_id,)):
            raise NotFound("missing.relation", id=relation_id)
        closed = self._close_relation(relation_id, self.now)
        if closed:
            self.audit("forget", "relation", str(relation_id), reason, "{}")
        return closed


def _starts(relation: NewRelation, about: str) -> str:
    """When a relation begins that does not say so; one already over then began at no known time."""
    over = relation.valid_until is not None and relation.valid_until <= about
    return SINCE_EVER if over else about
