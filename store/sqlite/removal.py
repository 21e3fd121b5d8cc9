"""Removing single rows for good, with all that hangs on them.

Purge, erase and undo decide what goes; what must go with it, and what others need to know of it,
is the same for all three.
"""

from collections.abc import Iterable

import apsw

from store.sqlite.statements import TEXT_INDEXES, fetch_all, forget_changes, has_vectors
from store.sqlite.vectors import WINDOWS_OF_CHUNK

OF_CHUNK = (
    *("windows", "postings", "cue_postings", "turns", "tags", "mentions", "evidence"),
    *("timeline_groups", "merged_vectors", "contexts", "timeline"),
)
"""The tables whose rows are of a chunk and go with it."""

# A relation goes on to name a chunk that is there, where another one is its evidence.
NAME_OTHER_EVIDENCE = """
    UPDATE relations SET evidence_chunk_id = (
        SELECT c.id FROM evidence v JOIN chunks c ON c.seq = v.chunk_seq
        WHERE v.relation_id = relations.id AND c.seq <> :seq ORDER BY c.seq LIMIT 1
    )
    WHERE id IN (SELECT relation_id FROM evidence WHERE chunk_seq = :seq)
    AND evidence_chunk_id = (SELECT id FROM chunks WHERE seq = :seq)
"""
REMOVE_NAME_WORDS = """
    DELETE FROM name_words WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM aliases WHERE key = ?1)
"""


def remove_chunk(db: apsw.Connection, seq: int) -> None:
    """Remove one version and all that is of it."""
    if has_vectors(db):
        # Since 0.1.9 vec0 leaves zeros in its block where a vector was.
        windows = fetch_all(db, WINDOWS_OF_CHUNK, (seq,))
        db.executemany("DELETE FROM vectors WHERE rowid = ?", windows)
    db.execute(NAME_OTHER_EVIDENCE, {"seq": seq})
    for table in OF_CHUNK:
        db.execute(f"DELETE FROM {table} WHERE chunk_seq = ?", (seq,))
    for table in TEXT_INDEXES:
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (seq,))
    db.execute("DELETE FROM chunks WHERE seq = ?", (seq,))


def keep_rev(db: apsw.Connection, rev: int) -> None:
    """Keep the latest revision, which others go by, though the row that had it may be gone."""
    sql = "UPDATE postings SET rev = ? WHERE chunk_seq = (SELECT max(chunk_seq) FROM postings)"
    db.execute(sql, (rev,))
    if not db.changes():  # no row is left to keep it
        forget_changes(db)


def remove_relation(db: apsw.Connection, relation_id: int) -> None:
    db.execute("DELETE FROM evidence WHERE relation_id = ?", (relation_id,))
    db.execute("DELETE FROM relations WHERE id = ?", (relation_id,))


def remove_names(db: apsw.Connection, entity_id: str) -> None:
    """Remove what leads to an entity of which no version is left."""
    db.execute("DELETE FROM mentions WHERE entity_id = ?", (entity_id,))
    sql = "DELETE FROM aliases WHERE entity_id = ? RETURNING key"
    db.executemany(REMOVE_NAME_WORDS, fetch_all(db, sql, (entity_id,)))


def forget_records(db: apsw.Connection, kind: str, targets: Iterable[str]) -> None:
    """Leave of records about something only that it was done, when and by whom."""
    sql = "UPDATE audit SET reason = '', detail_json = '{}' WHERE target_kind = ? AND target_id = ?"
    db.executemany(sql, [(kind, target) for target in targets])
