"""Writing memories, and the whole of a transaction from its beginning to its end.

A Writer writes a memory's own row. All that hangs on it (terms, vectors, entities, relations) is
written by the parts of the Writer, which the rest of the store may use too. What they collect is
written by `finish`, in the one order that is quick.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from core.types import Change, NewChunk, StoredChunk, Vectors, new_chunk_id
from index.analysis import Indexed
from index.links import Spellings
from store.sqlite.entity_rows import EntityRows
from store.sqlite.merging import Merging
from store.sqlite.nul import begin_alike
from store.sqlite.relation_rows import RelationRows
from store.sqlite.statements import (
    PUT_TURN,
    detail_json,
    fetch_all,
    fetch_one,
    last_version,
    to_json,
)
from store.sqlite.text_rows import TextRows
from store.sqlite.transaction import Transaction
from store.sqlite.vector_rows import VectorRows
from store.sqlite.vectors import vectors_of

# Which of these texts may be stored already.
LIVE_HASHES = """
    SELECT c.content_hash FROM json_each(?) k CROSS JOIN chunks c
    WHERE c.content_hash = k.value AND c.valid_until IS NULL
"""
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

# What a forgotten chunk takes along: edges that end at it, and those with no other live evidence.
EDGES_OF_CHUNK = """
    SELECT id FROM relations WHERE source_id = :id OR target_id = :id
    UNION
    SELECT v.relation_id FROM evidence v WHERE v.chunk_seq = :seq AND NOT EXISTS (
        SELECT 1 FROM evidence o JOIN chunks c ON c.seq = o.chunk_seq
        WHERE o.relation_id = v.relation_id AND o.chunk_seq <> :seq AND c.valid_until IS NULL
    )
"""

# What the next version of a memory takes over from the one before; of the timeline, if it is an
# entry of it. What was read in the old text is read anew in the new one.
CARRIED = (
    "INSERT INTO tags SELECT :new, tag FROM tags WHERE chunk_seq = :old",
    """
    INSERT INTO mentions SELECT entity_id, :new, origin FROM mentions
    WHERE chunk_seq = :old AND origin <> 'found'
    """,
    "INSERT INTO evidence SELECT relation_id, :new FROM evidence WHERE chunk_seq = :old",
    "INSERT INTO timeline SELECT :new, category, expires_at FROM timeline WHERE chunk_seq = :old",
    "INSERT INTO contexts SELECT :new, part, text FROM contexts WHERE chunk_seq = :old",
    "INSERT INTO timeline_groups SELECT group_id, :new FROM timeline_groups WHERE chunk_seq = :old",
    """
    INSERT INTO merged_vectors SELECT n.seq, m.made_by, m.embedding
    FROM merged_vectors m JOIN chunks o ON o.seq = m.chunk_seq JOIN chunks n ON n.seq = :new
    WHERE m.chunk_seq = :old AND n.content = o.content
    """,
)
TURN_TO_CARRY = """
    SELECT t.round_id, t.asked, o.content, n.content
    FROM turns t JOIN chunks o ON o.seq = t.chunk_seq JOIN chunks n ON n.seq = :new
    WHERE t.chunk_seq = :old
"""


class Writer:
    """Writes `chunks` and `tags`, and has a part for each kind of rows that hang on them."""

    def __init__(
        self,
        db: apsw.Connection,
        now: str,
        client: str,
        terms: dict[str, int],
        spellings: Spellings,
    ) -> None:
        """`terms` are the numbers of terms, and `spellings` the names, that are known so far."""
        self.transaction = Transaction(db, now, client)
        self.db, self.now, self.model_version = db, now, self.transaction.model_version
        self.texts = TextRows(self.transaction, terms)
        self.vectors = VectorRows(self.transaction)
        self.entities = EntityRows(self.transaction, self.texts, spellings)
        self.relations = RelationRows(self.transaction, self.entities)
        self.merging = Merging(self.transaction, self.entities, self.relations)
        self._last_seq = self.transaction.seq_before
        self._chunks: list[dict[str, Any]] = []
        self._hashes: set[int] = set()  # of texts that may be stored already

    def finish(self) -> None:
        """Write what was collected: the last step of the transaction.

        FTS5 writes out what it holds before most other statements, so it comes after those.
        """
        self.texts.write_terms()
        self.relations.write()
        self.entities.write_name_words()
        self.vectors.write()
        self.transaction.write_audits()
        self.texts.write_pieces()
        self.entities.link_new_names()
        self.entities.write_mentions()

    # -- new memories --

    def put_chunks(
        self, chunks: Sequence[NewChunk], indexed: Sequence[Indexed]
    ) -> list[StoredChunk]:
        """Store memories, or find them stored: first their rows, then what hangs on each."""
        self.texts.look_up(term for text in indexed for term in text.terms)
        hashes = to_json([text.hash for text in indexed])
        self._hashes.update(row[0] for row in fetch_all(self.db, LIVE_HASHES, (hashes,)))
        places = list(map(self._find_or_put, chunks, indexed))
        self.write_chunks()
        return list(map(self.complete_chunk, chunks, indexed, places))

    def _find_or_put(self, chunk: NewChunk, indexed: Indexed) -> tuple[int, str, bool, bool]:
        """The seq and id of a memory, whether it waits for vectors, and whether it is new."""
        if indexed.hash in self._hashes:
            self.write_chunks()  # it may be one of these
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

    def put_new(self, chunk: NewChunk, content_hash: int) -> tuple[int, str, bool]:
        """Store a memory's row with the next ones; its seq and id, and if it waits for vectors."""
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
        vectors = self._fitting(chunk)
        return self._insert_chunk(row, vectors), chunk_id, vectors is None

    def _fitting(self, given: NewChunk | Change) -> Vectors | None:
        """The vectors that come with a text, if the file's model made them."""
        return given.vectors if given.made_by == self.model_version else None

    def _insert_chunk(self, row: dict[str, Any], vectors: Vectors | None) -> int:
        """Collect a new version and its vectors, or that it waits for them; its seq."""
        self._last_seq = seq = self._last_seq + 1
        self._chunks.append(row | {"seq": seq, "pending": vectors is None})
        if vectors is not None:
            self.vectors.put(seq, vectors)
        return seq

    def write_chunks(self) -> None:
        """Write the rows that were collected, before anything that refers to them."""
        self.db.executemany(INSERT_CHUNK, self._chunks)
        self._chunks = []

    def complete_chunk(
        self, chunk: NewChunk, indexed: Indexed, place: tuple[int, str, bool, bool]
    ) -> StoredChunk:
        """Write what hangs on a memory: tags, entities, relations, index and audit."""
        seq, chunk_id, waits, new = place
        self.tag(seq, chunk.tags)
        about = chunk.timestamp or self.now
        ids = [self.entities.put(entity, chunk.source, about) for entity in chunk.entities]
        self.entities.mention(seq, ids, "given")
        for relation in chunk.relations:
            said_by = (chunk_id, seq)
            self.relations.put(relation, source=chunk.source, about=about, said_by=said_by)
        self.entities.mention(seq, self.entities.named_in(indexed), "found")
        if new or chunk.tags:  # tags are searched too
            metadata = self.transaction.searchable(seq)[1] if chunk.tags else ""
            before = None if new else seq
            self.texts.index(seq, indexed, metadata, chunk.source, chunk.session_id, before)
        status = detail_json("status", "stored" if new else "exists")
        self.transaction.audit("remember", "chunk", chunk_id, "", status)
        return StoredChunk(seq, chunk_id, new, ids, waits)

    def tag(self, seq: int, tags: Iterable[str]) -> None:
        for tag in tags:
            self.db.execute("INSERT OR IGNORE INTO tags VALUES (?, ?)", (seq, tag))

    # -- next versions --

    def replace(
        self, chunk_id: str, change: Change, indexed: Indexed | None, reason: str
    ) -> tuple[str, str]:
        """Close the live version and open the next; the ids of the new and the closed one.

        The ids are the same where the change changes nothing.
        """
        old = self.transaction.live_version(chunk_id)
        known = json.loads(old["metadata_json"])
        properties = known | change.properties
        content = old["content"] if change.content is None else change.content
        importance = old["importance"] if change.importance is None else change.importance
        same_text = content == old["content"]
        if same_text and importance == old["importance"] and properties == known:
            return old["id"], old["id"]
        indexed = indexed if indexed is not None and not same_text else Indexed(content)
        new_id = new_chunk_id(self.now)
        kept = vectors_of(self.db, old["seq"]) if same_text else None
        closed_at = self._close_chunk(old["seq"], new_id)
        row = {
            "id": new_id,
            "content": content,
            "hash": indexed.hash,
            "importance": importance,
            "metadata": to_json(properties),
            "valid_from": closed_at,
        } | {name: old[name] for name in ("source", "session_id", "timestamp", "created_at")}
        seq = self._insert_chunk(row, self._fitting(change) if kept is None else kept)
        self.write_chunks()
        self._carry_over(old["seq"], seq, old["id"], new_id, closed_at)
        self.entities.mention(seq, self.entities.named_in(indexed), "found")
        metadata = self.transaction.searchable(seq)[1]
        self.texts.index(seq, indexed, metadata, old["source"], old["session_id"], old["seq"])
        detail = detail_json("supersedes", old["id"])
        self.transaction.audit("update", "chunk", new_id, reason, detail)
        return new_id, str(old["id"])

    def _carry_over(self, old: int, new: int, old_id: str, new_id: str, at: str) -> None:
        """Give the next version all that hangs on the one that it replaces."""
        bound = {"old": old, "new": new}
        for carry in CARRIED:
            self.db.execute(carry, bound)
        for round_id, asked, before, after in fetch_all(self.db, TURN_TO_CARRY, bound):
            # A text that no longer begins with what the person said is all theirs.
            same = begin_alike(before, after, asked + 1)
            self.db.execute(PUT_TURN, (new, round_id, asked if same else len(after)))
        for edge in self.relations.holding(old_id, at):
            self.relations.copy_evidence(edge, self.relations.move(edge, old_id, new_id, at))
            self.relations.close(edge, at)

    # -- forgetting --

    def forget_chunk(self, chunk_id: str, reason: str, cascade: bool) -> tuple[int, int]:
        """Close a memory; how many chunks and how many relations were closed."""
        row = last_version(self.db, chunk_id)
        if row["valid_until"] is not None:
            return 0, 0
        bound = {"id": row["id"], "seq": row["seq"]}
        edges = [each for (each,) in fetch_all(self.db, EDGES_OF_CHUNK, bound)] if cascade else []
        closed = sum(self.relations.close(edge, self.now) for edge in edges)
        self._close_chunk(row["seq"], None)
        detail = detail_json("edges_invalidated", closed)
        self.transaction.audit("forget", "chunk", row["id"], reason, detail)
        return 1, closed

    def _close_chunk(self, seq: int, superseded_by: str | None) -> str:
        """Close a version, for all that finds it; when it ended."""
        closing = {"seq": seq, "at": self.now, "next": superseded_by}
        closed_at = str(fetch_one(self.db, CLOSE_CHUNK, closing))
        self.texts.drop_pieces(seq, live=True)
        text, metadata = self.transaction.searchable(seq)
        self.texts.put_pieces(seq, Indexed(text).pieces(metadata), live=False)
        self.transaction.changed(seq)
        self.vectors.set_live(seq, False)
        return closed_at

    def forget_entity(self, entity_id: str, reason: str, cascade: bool) -> tuple[int, int]:
        """Close an entity; how many entities and how many relations were closed."""
        known = self.entities.known(entity_id)
        if known["valid_until"] is not None:
            return 0, 0
        edges = self.relations.holding(known["id"], self.now) if cascade else []
        closed = sum(self.relations.close(edge, self.now) for edge in edges)
        self.entities.close(known["seq"])
        detail = detail_json("edges_invalidated", closed)
        self.transaction.audit("forget", "entity", known["id"], reason, detail)
        return 1, closed
