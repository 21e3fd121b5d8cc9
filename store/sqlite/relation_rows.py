"""Writing relations between entities and memories, and which chunks are their evidence.

The same relation is stored once as long as it holds: told again with other values, it ends and a
new one begins. New relations and their evidence are collected, and written near the end of the
transaction, or before something else needs them.
"""

from typing import Any

from core.errors import NotFound
from core.types import NewRelation, is_chunk_id
from store.sqlite.entity_rows import EntityRows
from store.sqlite.statements import (
    EDGE_COLUMNS,
    ENDS,
    SINCE_EVER,
    detail_json,
    edge_of,
    fetch_all,
    fetch_one,
    to_json,
)
from store.sqlite.transaction import Transaction

LAST_RELATION = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'relations'"
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
HOLDING_AT_NODE = """
    SELECT id FROM relations WHERE (source_id = :node OR target_id = :node)
    AND (valid_until IS NULL OR valid_until > :at)
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
REOPEN_AT_OTHER_NODE = """
    INSERT INTO relations (
        source_id, target_id, relation, weight, properties_json, source, confidence, created_at,
        valid_from, valid_until, evidence_chunk_id
    )
    SELECT iif(source_id = :old, :new, source_id), iif(target_id = :old, :new, target_id),
        relation, weight, properties_json, source, confidence, created_at,
        max(valid_from, :at), valid_until, evidence_chunk_id
    FROM relations WHERE id = :id RETURNING id
"""
CLOSE_RELATION = """
    UPDATE relations SET valid_until = max(:at, valid_from)
    WHERE id = :id AND (valid_until IS NULL OR valid_until > :at) RETURNING id
"""
PUT_EVIDENCE = "INSERT OR IGNORE INTO evidence VALUES (?, ?)"
COPY_EVIDENCE = """
    INSERT OR IGNORE INTO evidence
    SELECT ?, chunk_seq FROM evidence WHERE relation_id = ? RETURNING chunk_seq
"""


class RelationRows:
    """Writes `relations` and `evidence`."""

    def __init__(self, transaction: Transaction, entities: EntityRows) -> None:
        self._transaction, self._entities = transaction, entities
        self._db, self._now = transaction.db, transaction.now
        self.last_id = int(fetch_one(self._db, LAST_RELATION))
        self._relations: list[dict[str, Any]] = []
        self._collected: set[tuple[str, str, str]] = set()  # ends and names of those
        self._evidence: list[tuple[int, int]] = []

    def put(
        self,
        relation: NewRelation,
        *,
        source: str,
        about: str,
        said_by: tuple[str, int] | None = None,
    ) -> tuple[int, str]:
        """Store a relation, or add to the same one that holds; its id and what was done.

        It begins at `about` if it does not say when. Its evidence is `said_by`, a live chunk by id
        and seq, if it names no other.
        """
        start = relation.valid_from or _starts(relation, about)
        row = {
            "source_id": self._endpoint(relation.source_id, source, start),
            "target_id": self._endpoint(relation.target_id, source, start),
            "relation": relation.relation,
            "weight": relation.weight,
            "properties": to_json(relation.properties),
            "source": source,
            "now": self._now,
            "valid_from": start,
            "valid_until": relation.valid_until,
        }
        if relation.evidence_chunk_id:
            version = self._transaction.live_version(relation.evidence_chunk_id)
            said_by = (version["id"], version["seq"])
        row["evidence"] = said_by[0] if said_by else None
        relation_id, status = self._find_or_insert(row, relation)
        if said_by:
            self._put_evidence(relation_id, row, said_by[1])
        detail = detail_json("status", status)
        self._transaction.audit("relate", "relation", str(relation_id), "", detail)
        return relation_id, status

    def _find_or_insert(self, row: dict[str, Any], given: NewRelation) -> tuple[int, str]:
        if (row["source_id"], row["target_id"], row["relation"]) in self._collected:
            self.write()
        found = fetch_all(self._db, SAME_RELATION, row)
        over = row["valid_until"] is not None and row["valid_until"] <= self._now
        if over and (known := fetch_one(self._db, SAME_PAST_RELATION, row)):
            return int(known), "exists"
        if over or not found:
            return self._insert(row), "stored, already over" if over else "stored"
        same = edge_of(found[0])
        if (
            same.weight == given.weight
            and same.valid_until == given.valid_until
            and given.valid_from in (None, same.valid_from)
            and same.properties == given.properties
        ):
            if row["valid_from"] < same.valid_from:
                sql = "UPDATE relations SET valid_from = ? WHERE id = ?"
                self._db.execute(sql, (row["valid_from"], same.id))
            return same.id, "exists"
        self.close(same.id, row["valid_from"])
        relation_id = self._insert(row)
        self.write()
        self.copy_evidence(same.id, relation_id)
        return relation_id, "updated"

    def _insert(self, row: dict[str, Any]) -> int:
        self.last_id += 1
        self._relations.append(row | {"id": self.last_id})
        self._collected.add((row["source_id"], row["target_id"], row["relation"]))
        return self.last_id

    def _put_evidence(self, relation_id: int, row: dict[str, Any], seq: int) -> None:
        """Record that a chunk says so, which also links it with the entities at both ends."""
        self._evidence.append((relation_id, seq))
        entities = [row[end] for end in ENDS if not is_chunk_id(row[end])]
        self._entities.mention(seq, entities, "evidence")

    def _endpoint(self, reference: str, source: str, about: str) -> str:
        """What a relation's end means: a live chunk, a known entity by any name, or a new one."""
        if is_chunk_id(reference):
            return str(self._transaction.live_version(reference)["id"])
        return self._entities.find_or_put(reference, source, about)

    def write(self) -> None:
        """Write the new relations, and then the evidence of these and others."""
        self._db.executemany(INSERT_RELATION, self._relations)
        self._db.executemany(PUT_EVIDENCE, self._evidence)
        self._relations, self._evidence = [], []
        self._collected.clear()

    def holding(self, node: str, at: str) -> list[int]:
        """The relations at a chunk or an entity that hold at a moment, or will."""
        return [row[0] for row in fetch_all(self._db, HOLDING_AT_NODE, {"node": node, "at": at})]

    def close(self, relation_id: int, at: str) -> int:
        """Let a relation end at a moment; 0 where it had ended by then."""
        return len(fetch_all(self._db, CLOSE_RELATION, {"id": relation_id, "at": at}))

    def move(self, relation_id: int, old: str, new: str, at: str) -> int:
        """Open a relation anew with another node in place of the old one; the new one's id."""
        moved = {"old": old, "new": new, "at": at, "id": relation_id}
        return int(fetch_one(self._db, REOPEN_AT_OTHER_NODE, moved))

    def copy_evidence(self, old: int, new: int) -> list[int]:
        """Give a relation the evidence of another one too; the chunks that were new to it."""
        return [row[0] for row in fetch_all(self._db, COPY_EVIDENCE, (new, old))]

    def forget(self, relation_id: int, reason: str) -> int:
        """Let a relation end now; 0 where it had ended."""
        if not fetch_one(self._db, "SELECT 1 FROM relations WHERE id = ?", (relation_id,)):
            raise NotFound("missing.relation", id=relation_id)
        closed = self.close(relation_id, self._now)
        if closed:
            self._transaction.audit("forget", "relation", str(relation_id), reason, "{}")
        return closed


def _starts(relation: NewRelation, about: str) -> str:
    """When a relation begins that does not say so; one already over then began at no known time."""
    over = relation.valid_until is not None and relation.valid_until <= about
    return SINCE_EVER if over else about
