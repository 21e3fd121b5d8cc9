"""The store's facade: closed writes, each one transaction."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import apsw

from config import Config
from core import timestamps
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
from store.sqlite.checks import (
    CHECK_STEPS,
    CHECKS,
    EACH_INDEX,
    ROUNDS_BEYOND,
    broken_index,
    each_cue_fault,
    each_fault,
)
from store.sqlite.connections import Connections
from store.sqlite.cue_snapshots import drop_cues, drop_unused_cues
from store.sqlite.erase import (
    ERASED,
    Erasing,
    Found,
    drop_unused,
    erase_entities,
    erase_some,
    to_erase,
)
from store.sqlite.next_vectors import NextVectors
from store.sqlite.purge import PURGES
from store.sqlite.recall_counts import (
    COUNT_CHUNKS,
    COUNT_ENTITIES,
    INSERT_LOG,
    log_row,
    recalled_rows,
)
from store.sqlite.repair import BATCH_REINDEXED, CHUNKS_TO_REINDEX, REMOVE_ORPHANS, index_again
from store.sqlite.row_changes import noting_changes
from store.sqlite.statements import (
    CHANGED_ALL,
    MARK,
    PUT_META,
    TEXT_INDEXES,
    fetch_all,
    fetch_one,
    forget_changes,
    log,
    reading,
    to_json,
)
from store.sqlite.undo import read_history, undo_record
from store.sqlite.vectors import MEND, make_vectors_table, model_of, record_model, vector_checks
from store.sqlite.writer import Writer

KEPT_CHANGES = 20_000  # rows of what was changed; who is further behind reads everything again
MOST_TERMS = 200_000  # whose numbers are kept in memory: some 20 MB


# --- The store -------------------------------------------------------------------------


class SqliteStore(Connections):
    """The file, as a store: each public write is one transaction.

    Safe for use by many threads; several processes may have the same file open. Raises
    StoreError, with a sentence that names the file, where it cannot be used.
    """

    @classmethod
    def of(cls, config: Config) -> "SqliteStore":
        """The configured file, opened as the settings say."""
        return cls(
            config.database_path,
            busy_seconds=config.database_busy_seconds,
            synchronous=config.database_synchronous,
            cache_mb=config.database_cache_mb,
        )

    @contextmanager
    def writing(self, client: str, *, undoable: bool = False) -> Iterator["Writer"]:
        """A transaction of what a client asked for, with all that follows from it.

        Of an undoable one the last record of the audit tells which rows it changed, and how.
        """
        with (
            self.transaction() as db,
            noting_changes(db) if undoable else nullcontext() as note,
        ):
            spellings = self.indexes.spellings(db, starts=True)
            if spellings is not self._spelled or len(self._terms) > MOST_TERMS:
                self._terms.clear()  # names that are read anew tell that rows were removed
                self._spelled = spellings
            writer = Writer(db, timestamps.now(), client, self._terms, spellings)
            yield writer
            writer.finish()
            if note is not None:
                note(writer.transaction.last_audit)
        self._read_cues()

    def _read_cues(self) -> None:
        """Read the cues of what was written, after it: nobody waits for it, nor is it undone.

        Where that fails, all is written and the chunks wait for the next who reads cues.
        """
        if (held := self.indexes.cues) is None:
            return
        try:
            held.index_more(self, wait=False)
        except Exception as error:
            log.warning("memories still wait for cues: %s", error)

    def put_chunks(self, chunks: Sequence[NewChunk], client: str) -> list[StoredChunk]:
        """Store memories, or find them stored, with all that hangs on them."""
        indexed = [Indexed(chunk.content) for chunk in chunks]
        with self.writing(client) as writer:
            return writer.put_chunks(chunks, indexed)

    def replace_chunk(
        self, chunk_id: str, change: Change, reason: str, client: str
    ) -> tuple[str, str]:
        """Close the current version and open the next; ids of the new and the closed one.

        The ids are the same where the change changes nothing.
        """
        indexed = None if change.content is None else Indexed(change.content)
        with self.writing(client, undoable=True) as writer:
            return writer.replace(chunk_id, change, indexed, reason)

    def close_chunk(
        self, chunk_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        """Forget a memory; how many chunks and how many relations were closed."""
        with self.writing(client, undoable=True) as writer:
            return writer.forget_chunk(chunk_id, reason, cascade)

    def written_index(self) -> Index:
        """The live index with what was just written.

        It is read on the connection that wrote, which still has those pages in memory.
        """
        with self._explained(), self._write_lock:
            return self.indexes.current(self._db, past=False).index

    def put_relation(self, relation: NewRelation, client: str) -> tuple[int, str]:
        """Store a relation; its id and what was done."""
        with self.writing(client, undoable=True) as writer:
            return writer.relations.put(relation, source="manual", about=writer.now)

    def close_entity(
        self, entity_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        with self.writing(client, undoable=True) as writer:
            return writer.forget_entity(entity_id, reason, cascade)

    def close_relation(self, relation_id: int, reason: str, client: str) -> int:
        with self.writing(client, undoable=True) as writer:
            return writer.relations.forget(relation_id, reason)

    def merge_entities(self, keep: str, duplicate: str, reason: str, client: str) -> Merge | None:
        """Make two entities one; None where they are already."""
        with self.writing(client) as writer:
            return writer.merging.merge(keep, duplicate, reason)

    def undo_merge(self, audit_id: int, client: str) -> int:
        """Take a merge back; how many were."""
        with self.writing(client) as writer:
            return writer.merging.undo(audit_id)

    def undo(self, audit_id: int, client: str) -> dict[str, Any]:
        """Put every row back that a recorded action changed; what was undone, and its record."""
        with self.writing(client) as writer:
            return undo_record(writer, audit_id)

    def history(self, limit: int, target: str | None, action: str | None) -> list[dict[str, Any]]:
        """The newest records of the audit, of one target or action where that is named."""
        with self.view() as view:
            return read_history(view.db, limit, target, action)

    def adopt_model(self, model: Model) -> Model:
        """Record the model of an untouched file; the one it has, if another was first."""
        with self.transaction() as db:
            if (known := model_of(db)) is not None:
                return known
            record_model(db, model)
            make_vectors_table(db, "vectors", model.dim)
            return replace(model, mark=fetch_one(db, MARK))

    def put_noise(self, noise: Noise) -> None:
        """Record what the file's model makes of unrelated texts, for a file that does not know."""
        with self.transaction() as db:
            db.execute(PUT_META, ("embedding_noise", json.dumps(noise), timestamps.now()))

    def put_vectors(self, rows: Sequence[tuple[int, Vectors]], made_by: str) -> int:
        """Give waiting chunks their vectors; how many still waited and were live.

        None do where the file has another model by now than the one of the mark `made_by`.
        """
        with self.writing("") as writer:
            if writer.mark != made_by:
                return 0
            return sum(writer.vectors.fill(seq, vectors) for seq, vectors in rows)

    def repair_vectors(self, *, dry_run: bool) -> dict[str, int]:
        """Mend what the invariant forbids; how many rows of each kind were found.

        Chunks without vectors are marked as pending, vectors without a chunk and windows
        without a vector removed, and marks of closed chunks put right.
        """
        with self.transaction() as db:
            found = {name: len(fetch_all(db, sql)) for name, sql in vector_checks(db).items()}
            if not dry_run:
                for name, sql in vector_checks(db).items():
                    for row in fetch_all(db, sql):
                        db.execute(MEND[name], row)
                if any(found.values()):
                    db.execute(CHANGED_ALL)
            return found

    def log_recalls(self, entries: Sequence[LogEntry]) -> None:
        """Write recall_log, and count each returned row as recalled; for one thread only.

        On a connection of its own: while it waits for another process, memories must not wait
        behind it for their turn to wait.
        """
        if self._log_db is None:
            with self._explained():
                self._log_db = self._connect()
        db = self._log_db
        with self._begun(db):
            db.executemany(INSERT_LOG, map(log_row, entries))
            for sql, prefix in ((COUNT_CHUNKS, ""), (COUNT_ENTITIES, "entity:")):
                db.executemany(sql, recalled_rows(entries, prefix))

    def check(self) -> dict[str, int]:
        """How many rows break what the file promises, by fault; all 0 in a sound one."""
        return self.look_over()[0]

    def look_over(
        self, seconds: float = float("inf"), *, whole: bool = True
    ) -> tuple[dict[str, int], bool]:
        """The faults that check() counts, and whether the time sufficed to look for all of them.

        It only reads, each fault as of its own moment, so that nobody waits: neither writers nor
        whoever brings in the log. Without `whole` an index of a table is not compared with it.
        """
        end, faults = time.monotonic() + seconds, dict[str, int]()
        with self.view() as view:
            db = view.db
            db.set_progress_handler(lambda: time.monotonic() > end, CHECK_STEPS)
            try:
                for name, count in each_fault(db, "integrity_check" if whole else "quick_check"):
                    faults[name] = count
                    if time.monotonic() > end:
                        return faults, False
            except apsw.InterruptError:
                return faults, False
            finally:
                db.set_progress_handler(None)
        return faults, True

    def reindex(self) -> int:
        """Write anew what the text indexes lack, hold wrongly or cannot read; how many rows.

        In transactions of some hundred chunks each, so that it may run beside a server; what an
        end in the middle leaves is lacking, and found so the next time.
        """
        removed = self._unindex()
        with self.view() as view:
            lacking = sorted(
                {row[0] for sql in CHUNKS_TO_REINDEX for row in fetch_all(view.db, sql)}
            )
        for start in range(0, len(lacking), BATCH_REINDEXED):
            with self.writing("") as writer:
                for seq in lacking[start : start + BATCH_REINDEXED]:
                    index_again(writer, seq)
        return removed + len(lacking)

    def _unindex(self) -> int:
        """Empty the text indexes that cannot be read, and drop rows that are of no such chunk."""
        with self.view() as view:  # before others would wait for it
            broken = [table for table in TEXT_INDEXES if broken_index(view.db, table)]
            misread = any(count for _, count in each_cue_fault(view.db))
        with self.transaction() as db:
            if misread:
                drop_cues(db)
            for table in broken:
                db.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
            removed = 0
            for _, table, key in EACH_INDEX:
                wrong = fetch_all(db, CHECKS[f"wrongly in {table}"])
                db.executemany(f"DELETE FROM {table} WHERE {key} = ?", wrong)
                removed += len(wrong)
            return removed

    def remove_orphans(self) -> int:
        """Remove what belongs to a chunk, a relation or an entity that never was; how many rows.

        A round of which the person said more than there is becomes all theirs.
        """
        with self.transaction() as db:
            for seq, content in fetch_all(db, ROUNDS_BEYOND):
                db.execute("UPDATE turns SET asked = ? WHERE chunk_seq = ?", (len(content), seq))
            return sum(len(fetch_all(db, sql)) for sql in REMOVE_ORPHANS)

    def checkpoint(self, seconds: float = 0.05) -> bool:
        """Bring the write-ahead log into the file and empty it; False while somebody uses it.

        Waits that long for readers, and writers wait with it. Afterwards, until the next write,
        the one file is the whole memory.
        """
        with self._keeping() as db:
            db.set_busy_timeout(int(seconds * 1000))
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
            return True

    def trim_logs(self, log_rows: int, audit_rows: int) -> int:
        """Drop the oldest rows beyond these numbers, a thousand at a time; how many."""
        dropped = 0
        limits = {"recall_log": log_rows, "audit": audit_rows, "changes": KEPT_CHANGES}
        for table, rows in limits.items():
            count = 1
            while count:
                with self.transaction() as db:
                    count = len(fetch_all(db, TRIM[table], (rows,)))
                dropped += count
        return dropped

    def purge(self, before: str, stop: Callable[[], bool]) -> int:
        """Remove for good what was closed before a moment, in small steps; how many rows went.

        `stop` is asked between them, and may take its time to let others write; what is left
        then goes the next time.
        """
        removed = 0
        for purging in PURGES:
            for rows in self._aged(purging.found, before, stop):
                with self.writing("") as writer:
                    removed += purging.remove(writer.db, rows, before)
        if removed:
            with self.transaction() as db:
                drop_unused_cues(db)
                forget_changes(db)
        return removed

    def _aged(self, sql: str, before: str, stop: Callable[[], bool]) -> Iterator[list[int]]:
        """The numbers of rows that may be old enough, some at a time, in their order."""
        after = 0
        while not stop():
            with self.view() as view:
                bound = {"before": before, "after": after, "most": PURGED_AT_ONCE}
                rows = [row[0] for row in fetch_all(view.db, sql, bound)]
            if not rows:
                return
            yield rows
            after = rows[-1]

    def erasing(self, what: "Erasing") -> "Found":
        """What an erasure would remove; NotFound where there is nothing of that name."""
        with self.view() as view, reading(view.db):
            return to_erase(view.db, what)

    def erase(self, what: "Erasing", client: str) -> Counter[str]:
        """Remove rows, their history and all that is known of them; how many of each kind.

        The bytes are gone after finish_erasing, and a file that waits for it knows.
        """
        done, more = Counter[str](), True
        with self.transaction() as db:
            db.execute(PUT_META, (ERASED, "1", timestamps.now()))
        while more:
            with self._overwriting(), self.writing(client) as writer:
                step = erase_some(writer, what)
            done += step
            more = step["memories"] > 0
        with self._overwriting(), self.writing(client) as writer:
            done += erase_entities(writer, what)
            writer.transaction.audit("erase", what.kind, what.shown, "", to_json(dict(done)))
        return done

    @contextmanager
    def _overwriting(self) -> Iterator[None]:
        """Let SQLite overwrite what is deleted, until VACUUM leaves nothing of it."""
        self._db.pragma("secure_delete", True)
        try:
            yield
        finally:
            self._db.pragma("secure_delete", False)

    def waits_for_erasing(self) -> bool:
        """Whether something was erased whose bytes may still be in the file."""
        with self.view() as view:
            return fetch_one(view.db, "SELECT 1 FROM meta WHERE key = ?", (ERASED,)) is not None

    def finish_erasing(self, seconds: float) -> bool:
        """Write the file anew without what was erased; False while others are using it.

        It waits that long for them. It can be called again, and needs the file's size once more.
        """
        # Of a change of model that was broken off, vectors of what was erased may be left.
        NextVectors(self).drop(next_too=False)
        with self._overwriting(), self.writing("") as writer:
            drop_unused(writer.db)
        with self._keeping() as db:
            db.set_busy_timeout(int(seconds * 1000))
            try:
                for table in TEXT_INDEXES:
                    db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
                db.execute("VACUUM")
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                db.execute("DELETE FROM meta WHERE key = ?", (ERASED,))
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
        return True

    def optimize(self) -> None:
        """Let SQLite bring its statistics up to date where that pays."""
        with self._keeping() as db:
            db.pragma("optimize")


# --- Vectors ---------------------------------------------------------------------------


_TRIM = """
    DELETE FROM {0} WHERE id IN (
        SELECT id FROM {0} WHERE id <= (SELECT max(id) FROM {0}) - ? ORDER BY id LIMIT 1000
    ) RETURNING id
"""
TRIM = {table: _TRIM.format(table) for table in ("recall_log", "audit", "changes")}


# --- Purge and erase -------------------------------------------------------------------


PURGED_AT_ONCE = 100  # rows of one transaction, while which other writers wait
