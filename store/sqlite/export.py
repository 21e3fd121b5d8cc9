"""Every record of a file, for an export."""

import json
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import apsw

from core.types import LiveText
from store.sqlite.row_changes import without_undo
from store.sqlite.statements import SEGMENTS, fetch_all, read_json
from store.sqlite.vectors import vectors_of

RECORD_COUNTS = """
    SELECT (SELECT count(DISTINCT id) FROM entities), (SELECT count(*) FROM chunks),
        (SELECT count(*) FROM relations), (SELECT count(*) FROM audit)
"""

EXPORTED_ENTITIES = """
    SELECT id, seq, kind, name, summary, properties_json AS properties, source, importance,
        created_at, updated_at, valid_from, valid_until, superseded_by, recall_count, last_recalled
    FROM entities ORDER BY id, seq
"""
EXPORTED_NAMES = """
    SELECT key, alias, role, valid_from FROM aliases WHERE entity_id = ? ORDER BY key
"""
EXPORTED_CHUNKS = """
    SELECT seq, id, content, source, session_id, timestamp, importance, metadata_json AS metadata,
        created_at, valid_from, valid_until, superseded_by, recall_count, last_recalled,
        (SELECT json_group_array(tag ORDER BY tag) FROM tags WHERE chunk_seq = seq) AS tags,
        (SELECT json_group_object(entity_id, origin) FROM mentions WHERE chunk_seq = seq)
            AS mentions,
        (SELECT json_object('id', round_id, 'asked', asked) FROM turns WHERE chunk_seq = seq)
            AS round,
        (
            SELECT json_object('category', category, 'expires_at', expires_at)
            FROM timeline WHERE chunk_seq = seq
        ) AS entry
    FROM chunks ORDER BY id
"""
EXPORTED_RELATIONS = """
    SELECT id, source_id, target_id, relation, weight, properties_json AS properties, source,
        confidence, created_at, valid_from, valid_until, evidence_chunk_id,
        (
            SELECT json_group_array(c.id ORDER BY c.id) FROM evidence v
            JOIN chunks c ON c.seq = v.chunk_seq WHERE v.relation_id = relations.id
        ) AS evidence
    FROM relations ORDER BY source_id, target_id, relation, valid_from, created_at, id
"""
EXPORTED_AUDIT = """
    SELECT id, at, client, action, target_kind, target_id, reason, detail_json AS detail
    FROM audit ORDER BY at, id
"""


class RecordReads:
    """Everything that one read connection can see, record by record."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def counts(self) -> dict[str, int]:
        return dict(
            zip(
                ("entity", "chunk", "relation", "audit"),
                fetch_all(self._db, RECORD_COUNTS)[0],
                strict=True,
            )
        )

    def all(self, *, vectors: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every record with its type, by ids and times; numbers of rows are only carried along."""
        db = self._db
        for _, versions in groupby(_tables(db, EXPORTED_ENTITIES), itemgetter("id")):
            yield "entity", _exported_entity(db, list(versions))
        for row in _tables(db, EXPORTED_CHUNKS):
            beside = _exported_beside(db, row)
            chunk = read_json(row, "metadata", "tags", "mentions") | beside
            found = vectors_of(db, row["seq"]) if vectors else None
            yield "chunk", chunk if found is None else chunk | {"vectors": found}
        for row in _tables(db, EXPORTED_RELATIONS):
            yield "relation", read_json(row, "properties", "evidence")
        for row in _tables(db, EXPORTED_AUDIT):
            record = read_json(row, "detail")
            yield "audit", record | {"detail": without_undo(row["action"], record["detail"])}

    def texts_of_source(self, source: str) -> Iterator[tuple[str, str, str, bool]]:
        sql = """
            SELECT content, session_id, timestamp, valid_until IS NULL FROM chunks
            WHERE source = ? ORDER BY valid_until IS NULL, seq
        """
        for content, session_id, timestamp, live in self._db.execute(sql, (source,)):
            yield content, session_id, timestamp, bool(live)

    def live_texts(self) -> Iterator[LiveText]:
        sql = """
            SELECT id, content, source, session_id, timestamp,
                (SELECT json_group_array(entity_id) FROM mentions WHERE chunk_seq = seq)
            FROM chunks WHERE valid_until IS NULL ORDER BY seq
        """
        for chunk_id, content, source, session_id, timestamp, entities in self._db.execute(sql):
            known = json.loads(entities)
            yield LiveText(chunk_id, content, source, session_id, timestamp, known)


def _tables(db: apsw.Connection, sql: str) -> Iterator[dict[str, Any]]:
    """The rows one by one, by the names of their columns."""
    cursor = db.cursor()
    names: list[str] = []
    for row in cursor.execute(sql):
        names = names or [column[0] for column in cursor.get_description()]
        yield dict(zip(names, row, strict=True))


def _exported_beside(db: apsw.Connection, row: dict[str, Any]) -> dict[str, Any]:
    """What is taken out of a chunk's row: it is a round or an entry, which most are not."""
    turn, entry = row.pop("round"), row.pop("entry")
    found = {} if turn is None else {"round": json.loads(turn)}
    if entry is not None:
        context = [text for (text,) in fetch_all(db, SEGMENTS, (row["seq"], -1, 0))]
        found["entry"] = json.loads(entry) | {"context": context}
    return found


def _exported_entity(db: apsw.Connection, versions: list[dict[str, Any]]) -> dict[str, Any]:
    entity_id = versions[0]["id"]
    opened = [read_json(version, "properties") for version in versions]
    for version in opened:
        del version["id"]
    names = [
        dict(zip(("key", "alias", "role", "valid_from"), row, strict=True))
        for row in fetch_all(db, EXPORTED_NAMES, (entity_id,))
    ]
    return {"id": entity_id, "versions": opened, "names": names}
