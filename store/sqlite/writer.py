"""Writing memories: the whole of a transaction, from its beginning to its end."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from core.types import Change, NewChunk, StoredChunk, Vectors, new_chunk_id
from index.analysis import Indexed
from store.sqlite.entity_rows import HOLDING_EDGES
from store.sqlite.merging import MOVE_EDGE, Merging
from store.sqlite.relation_rows import COPY_EVIDENCE
from store.sqlite.statements import (
    detail_json,
    fetch_all,
    fetch_one,
    has_vectors,
    last_version,
    to_json,
)
from store.sqlite.vectors import WINDOWS_OF_CHUNK, vectors_of

# --- SQL: writing ----------------------------------------------------------------------


SAME_CHUNK = """
    SELECT seq, id, pending FROM chunks
    WHERE content_hash = :hash AND valid_until IS NULL AND content = :content
    AND source = :source AND session_id = :session_id
    AND (:timestamp IS NULL OR timestamp = :timestamp)
    AND NOT EXISTS (SELECT 1 FROM timeline t WHERE t.chunk_seq = chunks.seq)
    ORDER BY seq LIMIT 1
"""

INSERT_CHUNK = """
    INSERT INTO chunks (
        seq, id, content, content_hash, source, session_id, timestamp, importance, metadata_json,
        created_at, valid_from, pending
    ) VALUES (
        :seq, :id, :content, :hash, :source, :session_id, :timestamp, :importance, :metadata,
        :created_at, :valid_from, :pending
    )
"""

CLOSE_CHUNK = """
    UPDATE chunks SET valid_until = max(:at, valid_from), superseded_by = :next
    WHERE seq = :seq RETURNING valid_until
"""

PUT_TERM = "INSERT INTO terms (term, id) VALUES (?, ?)"

PUT_NAME_WORD = "INSERT OR IGNORE INTO name_words VALUES (?, ?)"
PUT_WINDOW = "INSERT INTO windows (seq, chunk_seq, part) VALUES (?, ?, ?)"
PUT_VECTOR = "INSERT INTO vectors (rowid, embedding, live) VALUES (?, ?, 1)"

PUT_PIECES = "INSERT INTO {0} (rowid, text) VALUES (?, ?)"

PUT_MENTION = """
    INSERT INTO mentions VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET origin = excluded.origin WHERE origin = 'found'
"""

# What a forgotten chunk takes along: edges that end at it, and those that only it had shown.
EDGES_OF_CHUNK = """
    SELECT id FROM relations WHERE source_id = :id OR target_id = :id
    UNION
    SELECT v.relation_id FROM evidence v WHERE v.chunk_seq = :seq AND NOT EXISTS (
        SELECT 1 FROM evidence o JOIN chunks c ON c.seq = o.chunk_seq
        WHERE o.relation_id = v.relation_id AND o.chunk_seq <> :seq AND c.valid_until IS NULL
    )
"""


# --- Writing ---------------------------------------------------------------------------


class Writer(Merging):
    """The steps of one transaction: all rows it writes share one moment and one client."""

    def finish(self) -> None:
        """Write what is written once for all: the last step of the transaction.

        FTS5 writes out what it holds before most other statements, so it comes after those.
        """
        self.db.executemany(PUT_TERM, sorted(self._new_terms.items()))
        self.write_postings()
        self._write_relations()
        self.db.executemany(PUT_NAME_WORD, sorted(self._name_words))
        self.db.executemany(PUT_WINDOW, self.windows)
        self.db.executemany(PUT_VECTOR, self._vectors)
        self.write_audits()
        known = [(seq,) for seq in self.pieces if seq <= self.first_new]
        self.db.executemany("DELETE FROM trigrams WHERE rowid = ?", known)
        self.db.executemany(PUT_PIECES.format("trigrams"), sorted(self.pieces.items()))
        for entity_id, key, last in self.new_names:
            self._link_texts(entity_id, key, last)
        rows = sorted((*linked, origin) for linked, origin in self.mentions.items())
        self.db.executemany(PUT_MENTION, rows)
        self._linked_late({seq for _, seq, _ in rows})

    def put_chunks(
        self, chunks: Sequence[NewChunk], indexed: Sequence[Indexed]
    ) -> list[StoredChunk]:
        """Store memories: first their rows, at once, then what hangs on each."""
        places = list(map(self._find_or_put, chunks, indexed))
        self.write_chunks()
        return list(map(self.complete_chunk, chunks, indexed, places))

    def _find_or_put(self, chunk: NewChunk, indexed: Indexed) -> tuple[int, str, bool, bool]:
        """The seq and id of a memory, whether it waits for vectors, and whether it is new."""
        if indexed.hash in self._hashes:
            self.write_chunks()  # it may be in one of these
            same = {
                "hash": indexed.hash,
                "content": chunk.content,
                "source": chunk.source,
                "session_id": chunk.session_id,
                "timestamp": chunk.timestamp,
            }
            for seq, chunk_id, waits in fetch_all(self.db, SAME_CHUNK, same):
                return seq, chunk_id, bool(waits), False
        self._hashes.add(indexed.hash)
        return *self.put_new(chunk, indexed.hash), True

    def complete_chunk(
        self, chunk: NewChunk, indexed: Indexed, place: tuple[int, str, bool, bool]
    ) -> StoredChunk:
        """Write what hangs on a memory: tags, entities, relations, index and audit."""
        seq, chunk_id, waits, new = place
        self.tag(seq, chunk.tags)
        about = chunk.timestamp or self.now
        ids = [self.put_entity(entity, chunk.source, about) for entity in chunk.entities]
        self.mention(seq, ids, "given")
        for relation in chunk.relations:
            self.put_relation(relation, source=chunk.source, about=about, said_by=(chunk_id, seq))
        self._link_names(seq, indexed.names(self.spellings.starts))
        if new or chunk.tags:  # tags are searched too
            metadata = self.searchable(seq)[1] if chunk.tags else ""
            before = None if new else seq
            self.index(seq, indexed, metadata, chunk.source, chunk.session_id, before)
        self.audit(
            "remember", "chunk", chunk_id, "", detail_json("status", "stored" if new else "exists")
        )
        return StoredChunk(seq, chunk_id, new, ids, waits)

    def put_new(self, chunk: NewChunk, content_hash: int) -> tuple[int, str, bool]:
        chunk_id = new_chunk_id(self.now)
        row = {
            "id": chunk_id,
            "content": chunk.content,
            "hash": content_hash,
            "source": chunk.source,
            "session_id": chunk.session_id,
            "timestamp": chunk.timestamp or self.now,
            "importance": chunk.importance,
            "metadata": "{}",
            "created_at": self.now,
            "valid_from": chunk.timestamp or self.now,
        }
        vectors = self._own(chunk)
        return self._insert_chunk(row, vectors), chunk_id, vectors is None

    def _own(self, given: NewChunk | Change) -> Vectors | None:
        """The vectors that come with a text if the file's model made them."""
        return given.vectors if given.made_by == self.mark else None

    def _insert_chunk(self, row: dict[str, Any], vectors: Vectors | None) -> int:
        """Note a new version and its vectors, or that it waits for them; its seq."""
        self._last_seq = seq = self._last_seq + 1
        self._chunks.append(row | {"seq": seq, "pending": vectors is None})
        if vectors is not None:
            self.put_vectors(seq, vectors)
        return seq

    def write_chunks(self) -> None:
        self.db.executemany(INSERT_CHUNK, self._chunks)
        self._chunks = []

    def tag(self, seq: int, tags: Iterable[str]) -> None:
        for tag in tags:
            self.db.execute("INSERT OR IGNORE INTO tags VALUES (?, ?)", (seq, tag))

    def replace(
        self, chunk_id: str, change: Change, indexed: Indexed | None, reason: str
    ) -> tuple[str, str]:
        old = self.live_version(chunk_id)
        properties = json.loads(old["metadata_json"]) | change.properties
        row: dict[str, Any] = {
            "content": old["content"] if change.content is None else change.content,
            "importance": old["importance"] if change.importance is None else change.importance,
            "metadata": to_json(properties),
        }
        same_text = row["content"] == old["content"]
        if (
            same_text
            and row["importance"] == old["importance"]
            and properties == json.loads(old["metadata_json"])
        ):
            return old["id"], old["id"]
        indexed = indexed if indexed is not None and not same_text else Indexed(row["content"])
        new_id = new_chunk_id(self.now)
        vectors = self._next_vectors(old["seq"], self._own(change), same_text)
        closed_at = self._close_chunk(old["seq"], self.now, new_id)
        row |= {
            "id": new_id,
            "hash": indexed.hash,
            "source": old["source"],
            "session_id": old["session_id"],
            "timestamp": old["timestamp"],
            "created_at": old["created_at"],
            "valid_from": closed_at,
        }
        seq = self._insert_chunk(row, vectors)
        self.write_chunks()
        self._carry_over(old["seq"], seq, old["id"], new_id, closed_at)
        self._link_names(seq, indexed.names(self.spellings.starts))
        metadata = self.searchable(seq)[1]
        self.index(seq, indexed, metadata, old["source"], old["session_id"], old["seq"])
        self.audit("update", "chunk", new_id, reason, detail_json("supersedes", old["id"]))
        return new_id, str(old["id"])

    def _carry_over(self, old: int, new: int, old_id: str, new_id: str, at: str) -> None:
        """Give the next version the tags, links and edges of the one it replaces.

        What was read in the old text is read anew in the new one.
        """
        self.db.execute("INSERT INTO tags SELECT ?, tag FROM tags WHERE chunk_seq = ?", (new, old))
        self.db.execute(
            """
            INSERT INTO mentions SELECT entity_id, ?, origin FROM mentions
            WHERE chunk_seq = ? AND origin <> 'found'
            """,
            (new, old),
        )
        self.db.execute(
            "INSERT INTO evidence SELECT relation_id, ? FROM evidence WHERE chunk_seq = ?",
            (new, old),
        )
        self._carry_turn(old, new)
        for carry in CARRIED:
            self.db.execute(carry, {"old": old, "new": new})
        for (edge,) in fetch_all(self.db, HOLDING_EDGES, {"node": old_id, "at": at}):
            moved = {"old": old_id, "new": new_id, "at": at, "id": edge}
            self.db.execute(COPY_EVIDENCE, (fetch_one(self.db, MOVE_EDGE, moved), edge))
            self._close_relation(edge, at)

    def _carry_turn(self, old: int, new: int) -> None:
        """A text that no longer begins with what the person said is all theirs."""
        bound = {"old": old, "new": new}
        # Not compared in SQL, where a text ends at its first NUL.
        for round_id, asked, before, after in fetch_all(self.db, TURN_TO_CARRY, bound):
            same = before[: asked + 1] == after[: asked + 1]
            self.db.execute(PUT_TURN, (new, round_id, asked if same else len(after)))

    def _next_vectors(self, old: int, vectors: Vectors | None, same_text: bool) -> Vectors | None:
        """The same text keeps its vectors; a new one has its own, or waits for them."""
        kept = vectors_of(self.db, old) if same_text else None
        return vectors if kept is None else kept

    def forget_chunk(self, chunk_id: str, reason: str, cascade: bool) -> tuple[int, int]:
        row = last_version(self.db, chunk_id)
        if row["valid_until"] is not None:
            return 0, 0
        edges = 0
        if cascade:
            bound = {"id": row["id"], "seq": row["seq"]}
            edges = self._close_relations(fetch_all(self.db, EDGES_OF_CHUNK, bound), self.now)
        self._close_chunk(row["seq"], self.now, None)
        self.audit("forget", "chunk", row["id"], reason, detail_json("edges_invalidated", edges))
        return 1, edges

    def _close_chunk(self, seq: int, at: str, superseded_by: str | None) -> str:
        closed_at = fetch_one(self.db, CLOSE_CHUNK, {"seq": seq, "at": at, "next": superseded_by})
        self.db.execute("DELETE FROM trigrams WHERE rowid = ?", (seq,))
        text, metadata = self.searchable(seq)
        pieces = Indexed(text).pieces(metadata)
        self.db.execute(PUT_PIECES.format("closed_trigrams"), (seq, pieces))
        self.changed(seq)
        if has_vectors(self.db):
            for (window,) in fetch_all(self.db, WINDOWS_OF_CHUNK, (seq,)):
                self.db.execute("UPDATE vectors SET live = 0 WHERE rowid = ?", (window,))
        return str(closed_at)


# --- Cues ------------------------------------------------------------------------------


PUT_TURN = "INSERT OR REPLACE INTO turns VALUES (?, ?, ?)"
TURN_TO_CARRY = """
    SELECT t.round_id, t.asked, o.content, n.content
    FROM turns t JOIN chunks o ON o.seq = t.chunk_seq JOIN chunks n ON n.seq = :new
    WHERE t.chunk_seq = :old
"""


# --- Timeline --------------------------------------------------------------------------


# What the next version of an entry takes over from the one before.
CARRIED = (
    "INSERT INTO timeline SELECT :new, category, expires_at FROM timeline WHERE chunk_seq = :old",
    "INSERT INTO contexts SELECT :new, part, text FROM contexts WHERE chunk_seq = :old",
    "INSERT INTO timeline_groups SELECT group_id, :new FROM timeline_groups WHERE chunk_seq = :old",
    """
    INSERT INTO merged_vectors SELECT n.seq, m.made_by, m.embedding
    FROM merged_vectors m JOIN chunks o ON o.seq = m.chunk_seq JOIN chunks n ON n.seq = :new
    WHERE m.chunk_seq = :old AND n.content = o.content
    """,
)
