"""The store: memories, entities and relations written to one file; its other parts beside them."""

import json
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

from core import timestamps
from core.files import PrivateLock
from core.types import (
    Change,
    LogEntry,
    Merge,
    Model,
    NewChunk,
    NewRelation,
    Noise,
    StoredChunk,
    Vectors,
)
from index.analysis import Indexed
from index.chunks import Index
from store.files import beside
from store.sqlite.cues import CueWrites
from store.sqlite.database import Database
from store.sqlite.entries import EntryWrites
from store.sqlite.erasure import Erasure
from store.sqlite.intake import Intake
from store.sqlite.migrations import SCHEMA_VERSION
from store.sqlite.next_vectors import NextVectors
from store.sqlite.recall_counts import (
    COUNT_CHUNKS,
    COUNT_ENTITIES,
    INSERT_LOG,
    log_row,
    recalled_rows,
)
from store.sqlite.statements import MODEL_VERSION, PUT_META, fetch_one
from store.sqlite.turns import TurnWrites
from store.sqlite.undo import undo_record
from store.sqlite.unread_names import UnreadNames
from store.sqlite.upkeep import Upkeep
from store.sqlite.vectors import make_vectors_table, model_of, record_model


class SqliteStore(Database):
    """The file, as a store: each public write is one transaction.

    Safe for use by many threads; several processes may have the same file open. Raises
    StoreError, with a sentence that names the file, where it cannot be used.
    """

    def __init__(self, path: Path, **settings: Any) -> None:
        """`settings` are those of Database."""
        self._log_db: apsw.Connection | None = None
        super().__init__(path, **settings)
        self.schema_version = SCHEMA_VERSION
        self.file = self
        self.cues = CueWrites(self, self.snapshots.cues)
        self._unread_names = UnreadNames(self)
        self.after_writing = self._follow_up
        if not self.read_only:
            self._unread_names.read()  # what a kill has left
        self.turns, self.entries = TurnWrites(self), EntryWrites(self)
        self.next_vectors, self.erasure = NextVectors(self), Erasure(self)
        self.upkeep = Upkeep(self)

    def _follow_up(self) -> None:
        """Do what a transaction left for afterwards, while which no other writer should wait."""
        self._unread_names.read()
        self.cues.index_new()

    def intake(self, listed: Set[str], made_by: str = "", records: int = 0) -> Intake:
        return Intake(self, listed, made_by, records)

    def job_lock(self, job: str) -> PrivateLock:
        return PrivateLock(beside(self.path, f".{job}"))

    # -- memories --

    def put_chunks(self, chunks: Sequence[NewChunk], client: str) -> list[StoredChunk]:
        indexed = [Indexed(chunk.content) for chunk in chunks]
        with self.writing(client) as writer:
            return writer.put_chunks(chunks, indexed)

    def replace_chunk(
        self, chunk_id: str, change: Change, reason: str, client: str
    ) -> tuple[str, str]:
        indexed = None if change.content is None else Indexed(change.content)
        with self.writing(client, undoable=True) as writer:
            return writer.replace(chunk_id, change, indexed, reason)

    def forget_chunk(
        self, chunk_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        with self.writing(client, undoable=True) as writer:
            return writer.forget_chunk(chunk_id, reason, cascade)

    def written_index(self) -> Index:
        """The live index with what was just written.

        It is read on the connection that wrote, which still has those pages in memory.
        """
        with self.write_connection() as db:
            return self.snapshots.current(db, past=False).index

    # -- entities and relations --

    def put_relation(self, relation: NewRelation, client: str) -> tuple[int, str]:
        with self.writing(client, undoable=True) as writer:
            return writer.relations.put(relation, source="manual", about=writer.now)

    def forget_relation(self, relation_id: int, reason: str, client: str) -> int:
        with self.writing(client, undoable=True) as writer:
            return writer.relations.forget(relation_id, reason)

    def forget_entity(
        self, entity_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        with self.writing(client, undoable=True) as writer:
            return writer.forget_entity(entity_id, reason, cascade)

    def merge_entities(self, keep: str, duplicate: str, reason: str, client: str) -> Merge | None:
        with self.writing(client) as writer:
            return writer.merging.merge(keep, duplicate, reason)

    def undo_merge(self, audit_id: int, client: str) -> int:
        with self.writing(client) as writer:
            return writer.merging.undo(audit_id)

    def undo(self, audit_id: int, client: str) -> dict[str, Any]:
        with self.writing(client) as writer:
            return undo_record(writer, audit_id)

    # -- the model, and the log of recalls --

    def adopt_model(self, model: Model) -> Model:
        with self.transaction() as db:
            if (known := model_of(db)) is not None:
                return known
            record_model(db, model)
            make_vectors_table(db, "vectors", model.dim)
            return replace(model, version=fetch_one(db, MODEL_VERSION))

    def put_noise(self, noise: Noise) -> None:
        """Record what the file's model makes of unrelated texts, for a file that does not know."""
        with self.transaction() as db:
            db.execute(PUT_META, ("embedding_noise", json.dumps(noise), timestamps.now()))

    def put_vectors(self, rows: Sequence[tuple[int, Vectors]], made_by: str) -> int:
        with self.writing("") as writer:
            if writer.model_version != made_by:
                return 0
            return sum(writer.vectors.fill(seq, vectors) for seq, vectors in rows)

    def log_recalls(self, entries: Sequence[LogEntry]) -> None:
        """Write recall_log, and count each returned row as recalled; for one thread only.

        On a connection of its own: while it waits for another process, memories must not wait
        behind it for their turn to wait.
        """
        if self._log_db is None:
            with self.explained():
                self._log_db = self.connect()
        db = self._log_db
        with self.begun(db):
            db.executemany(INSERT_LOG, map(log_row, entries))
            for sql, prefix in ((COUNT_CHUNKS, ""), (COUNT_ENTITIES, "entity:")):
                db.executemany(sql, recalled_rows(entries, prefix))
