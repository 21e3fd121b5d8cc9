"""What keeps a file small, quick and sound: trimming, purging, checking, mending.

All of it runs beside a server: in short transactions, or reading each thing as of its own moment.
"""

import time
from collections.abc import Callable, Iterator

import apsw

from store.sqlite.checks import (
    CHECK_STEPS,
    CHECKS,
    EACH_INDEX,
    ROUNDS_BEYOND,
    broken_index,
    each_cue_fault,
    each_fault,
)
from store.sqlite.cue_snapshots import drop_cues, drop_unused_cues
from store.sqlite.database import Database
from store.sqlite.purge import PURGES
from store.sqlite.repair import BATCH_REINDEXED, CHUNKS_TO_REINDEX, REMOVE_ORPHANS, index_again
from store.sqlite.statements import CHANGED_ALL, TEXT_INDEXES, fetch_all, forget_changes
from store.sqlite.vectors import MEND, vector_checks

KEPT_CHANGES = 20_000  # rows of what was changed; who is further behind reads everything again
BATCH_PURGED = 100  # rows of one transaction, while which other writers wait

_TRIM = """
    DELETE FROM {0} WHERE id IN (
        SELECT id FROM {0} WHERE id <= (SELECT max(id) FROM {0}) - ? ORDER BY id LIMIT 1000
    ) RETURNING id
"""
TRIM = {table: _TRIM.format(table) for table in ("recall_log", "audit", "changes")}


class Upkeep:
    """Looks after an open file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def trim_logs(self, log_rows: int, audit_rows: int) -> int:
        dropped = 0
        limits = {"recall_log": log_rows, "audit": audit_rows, "changes": KEPT_CHANGES}
        for table, rows in limits.items():
            count = 1
            while count:
                with self._database.transaction() as db:
                    count = len(fetch_all(db, TRIM[table], (rows,)))
                dropped += count
        return dropped

    def optimize(self) -> bool:
        with self._database.keeping() as db:
            try:
                db.pragma("optimize")
            except apsw.BusyError:
                return False
            return True

    # -- purging --

    def purge(self, before: str, stop: Callable[[], bool]) -> int:
        removed = 0
        for purging in PURGES:
            for rows in self._aged(purging.found, before, stop):
                with self._database.writing("") as writer:
                    removed += purging.remove(writer.db, rows, before)
        if removed:
            with self._database.transaction() as db:
                drop_unused_cues(db)
                forget_changes(db)
        return removed

    def _aged(self, sql: str, before: str, stop: Callable[[], bool]) -> Iterator[list[int]]:
        """The numbers of rows that may be old enough, some at a time, in their order."""
        after = 0
        while not stop():
            with self._database.reader() as db:
                bound = {"before": before, "after": after, "most": BATCH_PURGED}
                rows = [row[0] for row in fetch_all(db, sql, bound)]
            if not rows:
                return
            yield rows
            after = rows[-1]

    # -- checking and mending --

    def check(
        self, seconds: float = float("inf"), *, whole: bool = True
    ) -> tuple[dict[str, int], bool]:
        """How many rows break what the file promises, by fault, all 0 in a sound one; and whether
        the time sufficed to look for all of them.

        It only reads, each fault as of its own moment, so that nobody waits: neither writers nor
        whoever brings in the log. Without `whole` an index of a table is not compared with it.
        """
        end, faults = time.monotonic() + seconds, dict[str, int]()
        with self._database.reader() as db:
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

    def repair_vectors(self, *, dry_run: bool) -> dict[str, int]:
        """Mend what the invariant forbids; how many rows of each kind were found.

        Chunks without vectors are marked as pending, vectors without a chunk and windows
        without a vector removed, and marks of closed chunks put right.
        """
        with self._database.transaction() as db:
            found = {name: len(fetch_all(db, sql)) for name, sql in vector_checks(db).items()}
            if not dry_run:
                for name, sql in vector_checks(db).items():
                    for row in fetch_all(db, sql):
                        db.execute(MEND[name], row)
                if any(found.values()):
                    db.execute(CHANGED_ALL)
            return found

    def reindex(self) -> int:
        """Write anew what the text indexes lack, hold wrongly or cannot read; how many rows.

        In transactions of some hundred chunks each, so that it may run beside a server; what an
        end in the middle leaves is lacking, and found so the next time.
        """
        removed = self._unindex()
        with self._database.reader() as db:
            lacking = sorted({row[0] for sql in CHUNKS_TO_REINDEX for row in fetch_all(db, sql)})
        for start in range(0, len(lacking), BATCH_REINDEXED):
            with self._database.writing("") as writer:
                for seq in lacking[start : start + BATCH_REINDEXED]:
                    index_again(writer, seq)
        return removed + len(lacking)

    def _unindex(self) -> int:
        """Empty the text indexes that cannot be read, and drop rows that are of no such chunk."""
        with self._database.reader() as db:  # before others would wait for it
            broken = [table for table in TEXT_INDEXES if broken_index(db, table)]
            misread = any(count for _, count in each_cue_fault(db))
        with self._database.transaction() as db:
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
        with self._database.transaction() as db:
            for seq, content in fetch_all(db, ROUNDS_BEYOND):
                db.execute("UPDATE turns SET asked = ? WHERE chunk_seq = ?", (len(content), seq))
            return sum(len(fetch_all(db, sql)) for sql in REMOVE_ORPHANS)
