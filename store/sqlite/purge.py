"""Removing for good what was closed long ago.

Old rows are found some at a time, and each batch is removed in a transaction of its own. A row
stays as long as something that is not old leads to it. Records of the audit stay too, but nothing
of that age can be undone any more.
"""

from collections.abc import Callable
from dataclasses import dataclass

import apsw

from store.sqlite.removal import (
    forget_records,
    keep_rev,
    remove_chunk,
    remove_names,
    remove_relation,
)
from store.sqlite.row_changes import FORGET_UNDO, TELLS_UNDO
from store.sqlite.statements import LAST_CHANGE, NEXT_REV, fetch_all, fetch_one

# A relation already ended when stored was never closed; keep it.
_AGED_RELATIONS = """
    SELECT id FROM relations
    WHERE valid_until < :before AND created_at <= valid_until AND id > :after
    ORDER BY id LIMIT :most
"""
_AGED_CHUNKS = """
    SELECT seq FROM chunks WHERE valid_until < :before AND seq > :after ORDER BY seq LIMIT :most
"""
_AGED_ENTITIES = """
    SELECT seq FROM entities WHERE valid_until < :before AND seq > :after ORDER BY seq LIMIT :most
"""
_AGED_RECORDS = f"""
    SELECT id FROM audit WHERE at < :before AND id > :after AND {TELLS_UNDO}
    ORDER BY id LIMIT :most
"""
# A version that an older one or a relation leads to stays.
_CHUNK_MAY_GO = """
    SELECT c.id FROM chunks c WHERE c.seq = :key AND c.valid_until < :before
    AND NOT EXISTS (SELECT 1 FROM chunks o WHERE o.superseded_by = c.id)
    AND NOT EXISTS (SELECT 1 FROM relations r WHERE r.source_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM relations r WHERE r.target_id = c.id)
"""
# An older version of an entity that is there may go at once. The last one stays while a relation
# hangs on it, while another entity was merged into it, and while what it was merged into is there.
_ENTITY_MAY_GO = """
    SELECT e.seq, e.id FROM entities e WHERE e.seq = :key AND e.valid_until < :before
    AND NOT EXISTS (SELECT 1 FROM entities k WHERE k.id = e.superseded_by)
    AND (
        EXISTS (SELECT 1 FROM entities o WHERE o.id = e.id AND o.seq > e.seq)
        OR NOT EXISTS (
            SELECT 1 FROM relations r WHERE r.source_id = e.id
            UNION ALL SELECT 1 FROM relations r WHERE r.target_id = e.id
            UNION ALL SELECT 1 FROM entities d WHERE d.superseded_by = e.id
        )
    )
"""


@dataclass(frozen=True, slots=True)
class _Purging:
    """One kind of row that is purged: how old ones are found, and how they are removed."""

    found: str
    remove: Callable[[apsw.Connection, list[int], str], int]


def _purge_relations(db: apsw.Connection, ids: list[int], before: str) -> int:
    sql = "SELECT 1 FROM relations WHERE id = ? AND valid_until < ?"
    old = [each for each in ids if fetch_one(db, sql, (each, before))]
    for relation_id in old:
        remove_relation(db, relation_id)
        forget_records(db, "relation", [str(relation_id)])
    return len(old)


def _purge_chunks(db: apsw.Connection, seqs: list[int], before: str) -> int:
    """Remove closed versions, oldest first, so that none leads to one that is gone."""
    rev, last = int(fetch_one(db, f"SELECT {NEXT_REV}")), int(fetch_one(db, LAST_CHANGE))
    removed = 0
    for seq in seqs:
        if chunk_id := fetch_one(db, _CHUNK_MAY_GO, {"key": seq, "before": before}):
            forget_records(db, "chunk", [chunk_id])
            remove_chunk(db, seq)
            removed += 1
    if removed:
        keep_rev(db, rev)
        # No current search shows closed chunks: nobody needs to read their mentions again.
        db.execute("DELETE FROM changes WHERE id > ? AND kind = 'chunk'", (last,))
    return removed


def _purge_entities(db: apsw.Connection, seqs: list[int], before: str) -> int:
    removed = 0
    for seq in seqs:
        for _, entity_id in fetch_all(db, _ENTITY_MAY_GO, {"key": seq, "before": before}):
            db.execute("DELETE FROM entities WHERE seq = ?", (seq,))
            if not fetch_one(db, "SELECT 1 FROM entities WHERE id = ?", (entity_id,)):
                remove_names(db, entity_id)
                forget_records(db, "entity", [entity_id])
            removed += 1
    return removed


def _purge_records(db: apsw.Connection, ids: list[int], before: str) -> int:
    """Take from records what an undo needs, since rows may be gone; no row is removed."""
    db.executemany(FORGET_UNDO, [(each,) for each in ids])
    return 0


PURGES = (
    _Purging(_AGED_RECORDS, _purge_records),
    _Purging(_AGED_RELATIONS, _purge_relations),
    _Purging(_AGED_CHUNKS, _purge_chunks),
    _Purging(_AGED_ENTITIES, _purge_entities),
)
