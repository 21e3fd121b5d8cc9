"""Removing for good what was closed long ago.

Once a day, a hundred rows a transaction, oldest first, with a pause between two. A version goes
after those that lead to it. Whatever a relation still hangs on stays, and so does a merged entity
while what it became is there. A relation that was over when it was written was never closed and
stays. An id of a purged version leads nowhere. The audit still says what was done to which id, and
no undo reaches back that far.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import apsw

from store.sqlite.statements import (
    LAST_CHANGE,
    NEXT_REV,
    TEXT_INDEXES,
    UNUSED_NAME_WORDS,
    fetch_all,
    fetch_one,
    forget_changes,
    has_vectors,
)
from store.sqlite.vectors import WINDOWS_OF_CHUNK

# --- Purge and erase -------------------------------------------------------------------


VERSIONS = """
    WITH RECURSIVE
        older (id) AS (
            VALUES (?1)
            UNION SELECT c.id FROM older JOIN chunks c ON c.superseded_by = older.id
        ),
        newer (id) AS (
            VALUES (?1)
            UNION SELECT c.superseded_by FROM newer JOIN chunks c ON c.id = newer.id
            WHERE c.superseded_by IS NOT NULL
        )
    SELECT c.id, c.seq FROM chunks c WHERE c.id IN (SELECT id FROM older UNION SELECT id FROM newer)
    ORDER BY c.seq
"""
"""All versions of the memory that one id belongs to, oldest first."""

# A relation goes on to name a chunk that is there, where another one shows it.
SHOWN_BY_ANOTHER = """
    UPDATE relations SET evidence_chunk_id = (
        SELECT c.id FROM evidence v JOIN chunks c ON c.seq = v.chunk_seq
        WHERE v.relation_id = relations.id AND c.seq <> :seq ORDER BY c.seq LIMIT 1
    )
    WHERE id IN (SELECT relation_id FROM evidence WHERE chunk_seq = :seq)
    AND evidence_chunk_id = (SELECT id FROM chunks WHERE seq = :seq)
"""


def versions_of(db: apsw.Connection, chunk_id: str) -> dict[str, int]:
    """The ids and seqs of all versions of a memory, oldest first; none where it is not there."""
    return dict(fetch_all(db, VERSIONS, (chunk_id,)))


OF_CHUNK = (
    *("windows", "postings", "cue_postings", "turns", "tags", "mentions", "evidence"),
    *("timeline_groups", "merged_vectors", "contexts", "timeline"),
)
"""The tables whose rows are of a chunk and go with it."""


def remove_chunk(db: apsw.Connection, seq: int) -> None:
    """Remove one version and all that is of it."""
    if has_vectors(db):
        # Since 0.1.9 vec0 leaves zeros in its block where a vector was.
        windows = fetch_all(db, WINDOWS_OF_CHUNK, (seq,))
        db.executemany("DELETE FROM vectors WHERE rowid = ?", windows)
    db.execute(SHOWN_BY_ANOTHER, {"seq": seq})
    for table in OF_CHUNK:
        db.execute(f"DELETE FROM {table} WHERE chunk_seq = ?", (seq,))
    for table in TEXT_INDEXES:
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (seq,))
    db.execute("DELETE FROM chunks WHERE seq = ?", (seq,))


def keep_rev(db: apsw.Connection, rev: int) -> None:
    """Keep the number of the last change above all that anybody saw, though its row is gone."""
    sql = "UPDATE postings SET rev = ? WHERE chunk_seq = (SELECT max(chunk_seq) FROM postings)"
    db.execute(sql, (rev,))
    if not db.changes():  # no row is left to keep it
        forget_changes(db)


def remove_relation(db: apsw.Connection, relation_id: int) -> None:
    db.execute("DELETE FROM evidence WHERE relation_id = ?", (relation_id,))
    db.execute("DELETE FROM relations WHERE id = ?", (relation_id,))


# -- what is old --


# One that was over when it was written was told so: that is no closing.
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
_AGED_RECORDS = """
    SELECT id FROM audit WHERE at < :before AND id > :after
    AND (detail_json ->> 'rows' IS NOT NULL OR detail_json ->> 'closed' IS NOT NULL)
    ORDER BY id LIMIT :most
"""
_WITHOUT_UNDO = """
    UPDATE audit SET detail_json = json_remove(
        detail_json, '$.rows', '$.after',
        '$.closed', '$.aliases', '$.mentions', '$.relations', '$.version'
    )
    WHERE id = ?
"""
# A version that is still led to, by an older one or by a relation, stays.
_CHUNK_MAY_GO = """
    SELECT c.seq FROM chunks c WHERE c.seq = :key AND c.valid_until < :before
    AND NOT EXISTS (SELECT 1 FROM chunks o WHERE o.superseded_by = c.id)
    AND NOT EXISTS (SELECT 1 FROM relations r WHERE r.source_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM relations r WHERE r.target_id = c.id)
"""
# The last version stays while a relation hangs on it, or while it leads to what it was merged into.
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
"""An older version of an entity that is there may go at once; a merged one leads on."""


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
        if fetch_one(db, _CHUNK_MAY_GO, {"key": seq, "before": before}):
            forget_records(
                db, "chunk", [fetch_one(db, "SELECT id FROM chunks WHERE seq = ?", (seq,))]
            )
            remove_chunk(db, seq)
            removed += 1
    if removed:
        keep_rev(db, rev)
        # No current search shows closed chunks: their mentions need not be read anew each time.
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
    """Take from records of that age what an undo would need, of which rows may be gone."""
    db.executemany(_WITHOUT_UNDO, [(each,) for each in ids])
    return 0


def remove_names(db: apsw.Connection, entity_id: str) -> None:
    """Remove what leads to an entity of which no version is left."""
    db.execute("DELETE FROM mentions WHERE entity_id = ?", (entity_id,))
    sql = "DELETE FROM aliases WHERE entity_id = ? RETURNING key"
    db.executemany(UNUSED_NAME_WORDS, fetch_all(db, sql, (entity_id,)))


def forget_records(db: apsw.Connection, kind: str, targets: Iterable[str]) -> None:
    """Leave of records about something only that it was done, when and by whom."""
    sql = "UPDATE audit SET reason = '', detail_json = '{}' WHERE target_kind = ? AND target_id = ?"
    db.executemany(sql, [(kind, target) for target in targets])


PURGES = (
    _Purging(_AGED_RECORDS, _purge_records),
    _Purging(_AGED_RELATIONS, _purge_relations),
    _Purging(_AGED_CHUNKS, _purge_chunks),
    _Purging(_AGED_ENTITIES, _purge_entities),
)
