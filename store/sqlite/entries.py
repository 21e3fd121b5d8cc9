"""Entries of the timeline: chunks with five tags, a context in segments, and a merged vector."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from core import timestamps
from core.errors import NotFound, StoreError
from core.types import StoredChunk, Vectors, milliseconds
from index.analysis import Indexed
from index.chunks import UNSPACED
from index.postings import Rows
from store.sqlite.nul import begin_alike
from store.sqlite.open_file import OpenFile
from store.sqlite.statements import (
    PUT_META,
    SEGMENTS,
    detail_json,
    fetch_all,
    fetch_one,
    last_version,
    misread_is_damage,
    reading,
    to_json,
)
from store.sqlite.vectors import all_vectors, dimension_of
from store.sqlite.writer import Writer
from store.types import EntryMatrix, EntryRow, NewEntry

GROUPED = "timeline_groups"
"""Of meta: how and when groups were last looked for, as JSON."""
EXPIRED = "expired"

_LIVE_ENTRY = "timeline t CROSS JOIN chunks c ON c.seq = t.chunk_seq AND c.valid_until IS NULL"

SAME_ENTRIES = """
    SELECT c.seq, c.id, c.pending FROM chunks c JOIN timeline t ON t.chunk_seq = c.seq
    WHERE c.content_hash = :hash AND c.valid_until IS NULL AND c.content = :content
    AND t.category = :category AND (t.expires_at IS NOT NULL) = :expires
    AND (t.expires_at IS NULL OR t.expires_at > :now)
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:tags) g LEFT JOIN tags x
        ON x.chunk_seq = c.seq AND x.tag = g.value COLLATE BINARY WHERE x.tag IS NULL
    )
"""
PUT_ENTRY = "INSERT INTO timeline VALUES (?, ?, ?)"
PUT_CONTEXT = "INSERT INTO contexts VALUES (?, ?, ?)"
PUT_MERGED = "INSERT OR REPLACE INTO merged_vectors VALUES (?, ?, ?)"
LAST_SEGMENTS = "SELECT text FROM contexts WHERE chunk_seq = ? ORDER BY part DESC LIMIT ?"
SEGMENT_COUNT = "SELECT count(*) FROM contexts WHERE chunk_seq = ?"

_ENTRY = """
    SELECT c.seq, c.id, c.content,
        (SELECT json_group_array(tag) FROM tags WHERE chunk_seq = c.seq),
        t.category, c.created_at, t.expires_at,
        (SELECT count(*) FROM contexts WHERE chunk_seq = c.seq),
        (SELECT json_group_array(group_id) FROM timeline_groups WHERE chunk_seq = c.seq)
    FROM {0} JOIN timeline t ON t.chunk_seq = c.seq WHERE c.valid_until IS NULL
"""
ENTRIES_AT = _ENTRY.format("json_each(?) i CROSS JOIN chunks c ON c.seq = i.value")
ENTRY_OF = _ENTRY.format("chunks c") + " AND c.id = ?"
ENTRIES_OF_GROUP = (
    _ENTRY.format("timeline_groups g CROSS JOIN chunks c ON c.seq = g.chunk_seq")
    + " AND g.group_id = ? ORDER BY c.seq"
)
GROUPS = """
    SELECT g.group_id, json_group_array(g.chunk_seq) FROM timeline_groups g
    JOIN chunks c ON c.seq = g.chunk_seq AND c.valid_until IS NULL GROUP BY g.group_id
"""

# What the matrix in memory goes by: every change of a chunk, and entries that were erased.
ENTRIES_LATEST = "SELECT (SELECT max(rev) FROM postings), (SELECT count(*) FROM timeline)"
ENTRIES_NOW = f"SELECT count(*), sum(c.seq), max(c.seq) FROM {_LIVE_ENTRY}"
MATRIX = f"""
    SELECT t.chunk_seq, t.expires_at, p.flags & {UNSPACED} > 0, m.embedding FROM {_LIVE_ENTRY}
    JOIN merged_vectors m ON m.chunk_seq = t.chunk_seq JOIN postings p ON p.chunk_seq = t.chunk_seq
    WHERE m.made_by = ? ORDER BY t.chunk_seq
"""
UNMERGED = f"""
    SELECT c.seq, c.content, (SELECT json_group_array(tag) FROM tags WHERE chunk_seq = c.seq)
    FROM {_LIVE_ENTRY} LEFT JOIN merged_vectors m ON m.chunk_seq = t.chunk_seq AND m.made_by = ?
    WHERE m.chunk_seq IS NULL ORDER BY c.seq LIMIT ?
"""
UNMERGED_COUNT = f"""
    SELECT count(*) FROM {_LIVE_ENTRY}
    LEFT JOIN merged_vectors m ON m.chunk_seq = t.chunk_seq AND m.made_by = ?
    WHERE m.chunk_seq IS NULL
"""
LASTING = f"""
    SELECT c.seq, c.id, c.content, c.created_at FROM {_LIVE_ENTRY}
    WHERE t.expires_at IS NULL ORDER BY c.created_at, c.seq
"""
OVERDUE = f"SELECT c.seq, c.id FROM {_LIVE_ENTRY} WHERE t.expires_at <= ? ORDER BY c.seq"
CLEAR_EXPIRY = """
    UPDATE timeline SET expires_at = NULL WHERE chunk_seq = :seq AND expires_at <= :now
    AND EXISTS (SELECT 1 FROM chunks WHERE seq = :seq AND valid_until IS NULL)
"""
SET_EXPIRY = """
    UPDATE timeline SET expires_at = :at WHERE chunk_seq = :seq AND expires_at IS NULL
    AND EXISTS (SELECT 1 FROM chunks WHERE seq = :seq AND valid_until IS NULL)
"""
ENTRY_COUNTS = f"""
    SELECT count(*), coalesce(sum(t.expires_at IS NOT NULL), 0),
        coalesce(sum(t.expires_at <= :now), 0),
        (SELECT count(*) FROM {_LIVE_ENTRY} JOIN contexts x ON x.chunk_seq = c.seq)
    FROM {_LIVE_ENTRY}
"""
CATEGORIES = f"SELECT t.category, count(*) FROM {_LIVE_ENTRY} GROUP BY t.category"


class EntryReads:
    """What one read connection knows of entries."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def get(self, entry_id: str) -> EntryRow:
        latest = str(last_version(self._db, entry_id)["id"])
        for row in fetch_all(self._db, ENTRY_OF, (latest,)):
            return _entry(row)
        live = "SELECT 1 FROM chunks WHERE id = ? AND valid_until IS NULL"
        raise NotFound(
            "missing.entry" if fetch_one(self._db, live, (latest,)) else "missing.forgotten",
            id=entry_id,
        )

    def at(self, seqs: Iterable[int]) -> list[EntryRow]:
        return [_entry(row) for row in fetch_all(self._db, ENTRIES_AT, (to_json(list(seqs)),))]

    def of_group(self, group_id: str) -> list[EntryRow]:
        return [_entry(row) for row in fetch_all(self._db, ENTRIES_OF_GROUP, (group_id,))]

    def segments(self, seq: int, limit: int, offset: int) -> list[str]:
        return [row[0] for row in fetch_all(self._db, SEGMENTS, (seq, limit, offset))]

    def groups(self) -> dict[str, set[int]]:
        return {group: set(json.loads(seqs)) for group, seqs in fetch_all(self._db, GROUPS)}

    def last_grouping(self) -> dict[str, Any]:
        grouping: dict[str, Any] = json.loads(
            fetch_one(self._db, "SELECT value FROM meta WHERE key = ?", (GROUPED,)) or "{}"
        )
        return grouping

    def revision(self) -> tuple[int | None, int]:
        ((rev, entries),) = fetch_all(self._db, ENTRIES_LATEST)
        return rev, entries

    def membership(self) -> tuple[int, int | None, int | None]:
        ((count, total, last),) = fetch_all(self._db, ENTRIES_NOW)
        return count, total, last

    def matrix(self, made_by: str) -> EntryMatrix:
        rows = fetch_all(self._db, MATRIX, (made_by,))
        seqs, expires, kinds, blobs = zip(*rows, strict=True) if rows else ((), (), (), ())
        dim = dimension_of(self._db)
        for seq, blob in zip(seqs, blobs, strict=True):
            if len(blob) != 4 * dim:
                raise StoreError("store.bad_row", table="merged_vectors", key=seq)
        vectors = np.frombuffer(b"".join(blobs), "<f4").reshape(len(rows), dim)
        return EntryMatrix(
            np.array(seqs, np.int64),
            milliseconds(expires, "timeline", seqs),
            np.array(kinds, np.intp),
            vectors,
            waiting=self.membership()[0] - len(rows),
        )

    def unmerged(self, made_by: str, limit: int) -> list[tuple[int, str, list[str]]]:
        found = fetch_all(self._db, UNMERGED, (made_by, limit))
        return [(seq, summary, json.loads(tags)) for seq, summary, tags in found]

    def unmerged_count(self, made_by: str) -> int:
        return int(fetch_one(self._db, UNMERGED_COUNT, (made_by,)))

    def lasting(self) -> tuple[list[tuple[int, str, str]], Vectors]:
        with reading(self._db), misread_is_damage(self._db):
            rows = fetch_all(self._db, LASTING)
            order = {row[0]: at for at, row in enumerate(rows)}
            found = np.zeros((len(rows), dimension_of(self._db)), np.float32)

            def located(seqs: NDArray[np.int64]) -> Rows:
                return np.array([order.get(seq, -1) for seq in seqs.tolist()], np.int32)

            for vectors, owners in all_vectors(self._db, located)[1]:
                found[owners] = vectors
        there = np.flatnonzero(found.any(axis=1))
        return [rows[at][:3] for at in there.tolist()], found[there]

    def counts(self) -> dict[str, Any]:
        ((entries, sensitive, overdue, parts),) = fetch_all(
            self._db, ENTRY_COUNTS, {"now": timestamps.now()}
        )
        return {
            "entries": entries,
            "time_sensitive": sensitive,
            "overdue": overdue,
            "segments": parts,
            "categories": dict(fetch_all(self._db, CATEGORIES)),
        }

    def settings_table(self) -> dict[str, str]:
        rows = fetch_all(self._db, "SELECT CAST(key AS BLOB), CAST(value AS BLOB) FROM config")
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in rows}


class EntryWrites:
    """Stores, completes, groups and ends entries."""

    def __init__(self, database: OpenFile) -> None:
        self._database = database

    def put(self, entry: NewEntry, client: str) -> StoredChunk:
        chunk, indexed = entry.chunk, Indexed(entry.chunk.content)
        with self._database.writing(client) as writer:
            for seq, chunk_id, waits in _same_entries(writer, entry, indexed.hash):
                writer.transaction.audit(
                    "remember", "chunk", chunk_id, "", detail_json("status", "exists")
                )
                return StoredChunk(seq, chunk_id, False, [], bool(waits))
            seq, chunk_id, waits = writer.put_new(chunk, indexed.hash)
            writer.write_chunks()
            writer.db.execute(PUT_ENTRY, (seq, entry.category, entry.expires_at))
            add_context(writer.db, seq, entry.context)
            if entry.merged is not None and chunk.made_by == writer.model_version:
                _put_merged(writer.db, seq, entry.merged, writer.model_version)
            return writer.complete_chunk(chunk, indexed, (seq, chunk_id, waits, True))

    def add_context(self, entry_id: str, segments: Sequence[str], client: str) -> tuple[str, bool]:
        """Add segments to an entry's context; its current id, and whether they were new.

        What its context ends with already is not added again.
        """
        with self._database.writing(client) as writer:
            row = writer.transaction.live_version(entry_id)
            db, seq = writer.db, row["seq"]
            if not fetch_one(db, "SELECT 1 FROM timeline WHERE chunk_seq = ?", (seq,)):
                raise NotFound("missing.entry", id=entry_id)
            last = [text for (text,) in fetch_all(db, LAST_SEGMENTS, (seq, len(segments)))]
            if last[::-1] == list(segments):
                return row["id"], False
            add_context(db, seq, segments)
            text, metadata = writer.transaction.searchable(seq)
            writer.texts.index(seq, Indexed(text), metadata, row["source"], row["session_id"], seq)
            writer.transaction.audit(
                "context", "chunk", row["id"], "", detail_json("segments", len(segments))
            )
            return row["id"], True

    def put_merged(self, rows: Sequence[tuple[int, Vectors]], made_by: str) -> int:
        live = "SELECT 1 FROM chunks WHERE seq = ? AND valid_until IS NULL"
        with self._database.writing("") as writer:
            if made_by != writer.model_version:
                return 0
            alive = [row for row in rows if fetch_one(writer.db, live, (row[0],))]
            for seq, merged in alive:
                _put_merged(writer.db, seq, merged, made_by)
                writer.transaction.changed(seq)
            return len(alive)

    def put_groups(self, groups: Mapping[str, Iterable[int]], found_by: str) -> None:
        rows = [(group, seq) for group, seqs in groups.items() for seq in seqs]
        sql = "INSERT INTO timeline_groups SELECT ?1, chunk_seq FROM timeline WHERE chunk_seq = ?2"
        with self._database.transaction() as db:
            db.execute("DELETE FROM timeline_groups")
            db.executemany(sql, rows)
            db.execute(PUT_META, (GROUPED, found_by, timestamps.now()))

    def expire(self, entry: tuple[int, str], at: str, reason: str, client: str) -> bool:
        seq, chunk_id = entry
        with self._database.writing(client) as writer:
            writer.db.execute(SET_EXPIRY, {"at": at, "seq": seq})
            marked = writer.db.changes() > 0
            if marked:
                writer.transaction.changed(seq)
                writer.transaction.audit(
                    "mark", "chunk", chunk_id, reason, detail_json("expires_at", at)
                )
            return marked

    def close_overdue(self, client: str) -> int:
        """Close every entry whose time is over; how many. Each may be undone, and then lasts."""
        closed = 0
        with self._database.reader() as db:
            overdue = fetch_all(db, OVERDUE, (timestamps.now(),))
        for seq, chunk_id in overdue:
            with self._database.writing(client, undoable=True) as writer:
                writer.db.execute(CLEAR_EXPIRY, {"seq": seq, "now": writer.now})
                if writer.db.changes():  # else somebody else did something with it meanwhile
                    closed += writer.forget_chunk(chunk_id, EXPIRED, cascade=True)[0]
        return closed


def _same_entries(
    writer: Writer, entry: NewEntry, content_hash: int
) -> Iterator[tuple[int, str, int]]:
    same = {
        "hash": content_hash,
        "content": entry.chunk.content,
        "category": entry.category,
        "expires": entry.expires_at is not None,
        "tags": to_json(entry.chunk.tags),
        "now": writer.now,
    }
    context = "".join(entry.context)
    for found in fetch_all(writer.db, SAME_ENTRIES, same):
        parts = fetch_all(writer.db, SEGMENTS, (found[0], -1, 0))
        if begin_alike("".join(text for (text,) in parts), context, len(context)):
            yield found


def add_context(db: apsw.Connection, seq: int, segments: Sequence[str]) -> None:
    first = int(fetch_one(db, SEGMENT_COUNT, (seq,)))
    db.executemany(PUT_CONTEXT, [(seq, at, text) for at, text in enumerate(segments, first)])


def _put_merged(db: apsw.Connection, seq: int, merged: Vectors, made_by: str) -> None:
    db.execute(PUT_MERGED, (seq, made_by, np.asarray(merged, "<f4").tobytes()))


def _entry(row: Sequence[Any]) -> EntryRow:
    seq, chunk_id, summary, tags, category, created, expires, segments, groups = row
    read, ids = json.loads(tags), json.loads(groups)
    return EntryRow(seq, chunk_id, summary, read, category, created, expires, segments, ids)
