"""The file: its one writing connection, a small pool of reading ones, and its transactions.

Reading connections are lent in sets of one a lane (a recall) or singly (everything else); the
pools are apart, so a borrower of a set that needs a single one cannot wait for itself. All
writing goes through `transaction`: threads of this process queue for the one connection, and
processes for SQLite's lock.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any

import apsw
import sqlite_vec

from core import timestamps
from core.errors import StoreBusy, StoreError
from index.links import Spellings
from mnelo_locale import message
from store.files import beside
from store.sqlite import migrations, schema_check
from store.sqlite.cue_snapshots import CueSnapshots
from store.sqlite.file_check import examine, identity, is_log_lost
from store.sqlite.hardening import harden, trust_schema
from store.sqlite.migrations import migrate
from store.sqlite.row_changes import noting_changes
from store.sqlite.snapshots import Snapshots
from store.sqlite.statements import APPLICATION_ID, fetch_one, has_table, log
from store.sqlite.view import View
from store.sqlite.writer import Writer
from store.types import CueSettings

CHECK_WHOLE_BELOW = 64 << 20  # bytes; larger files are checked whole by the health check
CLOSE_SECONDS = 5.0  # how long the connections that other threads use are waited for
LARGE_LOG = 16 << 20  # bytes; a write-ahead log that has grown beyond is brought in at once
OPEN_HERE = Counter[tuple[int, int] | None]()
"""How often this process has each file open."""
MAX_TERMS = 200_000  # whose numbers are kept in memory: some 20 MB


class Database:
    """An open file; what reads borrows a View, what writes is given a transaction."""

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float = 5.0,
        synchronous: str = "NORMAL",
        cache_mb: int = 64,
        lanes: Sequence[str] = ("vector", "graph", "meta", "entity"),
        reader_sets: int = 4,
        cues: CueSettings | None = None,
    ) -> None:
        """`cues` is how memories are found by cues; without it no cue is read or written."""
        self.path = path
        self._busy_ms = int(busy_seconds * 1000)
        self._synchronous = synchronous
        self._lanes = tuple(lanes)
        # A quarter for the writer: what a long transaction changes should not be written twice.
        self._writer_kib = cache_mb * 1024 // 4
        self._reader_kib = 3 * self._writer_kib // (1 + reader_sets * len(self._lanes))
        self._write_lock = threading.Lock()
        self._all: list[apsw.Connection] = []
        # None stands for a set that is made when it is first needed.
        self._sets: LifoQueue[dict[str, View] | None] = LifoQueue()
        for _ in range(reader_sets):
            self._sets.put(None)
        self._singles: LifoQueue[View] = LifoQueue()
        self.snapshots = Snapshots(CueSnapshots(cues) if cues else None)
        self._terms: dict[str, int] = {}  # numbers in the file, for who holds the write lock
        self._spelled: Spellings | None = None  # the names that were known with them
        self.after_writing: Callable[[], object] = lambda: None
        with self.explained():
            self._db = self._open()

    def close(self) -> None:
        """Close every connection; the last one out leaves the whole memory in the one file.

        One that another thread does not give back in time is left to that thread.
        """
        deadline = time.monotonic() + CLOSE_SECONDS
        for db in reversed(self._all):
            while not _closed(db) and time.monotonic() < deadline:
                time.sleep(0.01)
        if self._all:
            OPEN_HERE[self._identity] -= 1
        self._all.clear()

    def _begin(self) -> None:
        """Remember which file it is, and say where its log was lost before SQLite forgets it."""
        self._identity = identity(self.path)
        self.log_lost = not OPEN_HERE[self._identity] and is_log_lost(self.path)
        OPEN_HERE[self._identity] += 1
        if self.log_lost:
            log.warning("%s", message("store.log_lost", path=self.path))

    def _open(self) -> apsw.Connection:
        self.read_only = not examine(self.path)
        self._begin()
        db = self.connect()
        try:
            self._recognise(db)
            if not self.read_only:
                self._patiently(lambda: db.pragma("journal_mode", "wal"))
                self._patiently(lambda: migrate(db))
            if self.path.stat().st_size < CHECK_WHOLE_BELOW:
                refuse_damaged(db, self.path)
        except BaseException:
            self.close()
            raise
        return db

    def _recognise(self, db: apsw.Connection) -> None:
        application, version = db.pragma("application_id"), db.pragma("user_version")
        if application != APPLICATION_ID and fetch_one(db, "SELECT 1 FROM sqlite_master LIMIT 1"):
            raise StoreError("store.foreign", path=self.path)
        if version > migrations.SCHEMA_VERSION:
            raise StoreError(
                "store.newer", path=self.path, version=version, known=migrations.SCHEMA_VERSION
            )
        if version < 1 and application == APPLICATION_ID:
            raise StoreError("store.version", path=self.path, version=version)
        if self.read_only and version < migrations.SCHEMA_VERSION:
            raise StoreError("store.read_only", path=self.path)
        if self.read_only:
            schema_check.refuse_strange(db, self.path)

    def connect(self, *, reader: bool = False) -> apsw.Connection:
        if self.read_only:
            db = self._read_only_connection()
        else:  # never made here: a file that was deleted must not come back empty
            db = apsw.Connection(str(self.path), apsw.SQLITE_OPEN_READWRITE)
        self._all.append(db)
        db.set_busy_timeout(self._busy_ms)
        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        db.enable_load_extension(False)
        harden(db)
        # Plans that no value can change: else many a statement is planned anew for each value.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("cache_size", -(self._reader_kib if reader else self._writer_kib))
        db.pragma("foreign_keys", True)
        db.pragma("synchronous", self._synchronous)
        db.pragma("query_only", reader)
        db.pragma("journal_size_limit", LARGE_LOG)
        return db

    def _read_only_connection(self) -> apsw.Connection:
        """A connection that leaves no trace, to a file or in a folder that may not be written."""
        name = self.path.as_uri() + "?mode=ro"
        if not self.sizes()["wal_bytes"]:
            name += "&immutable=1"  # all is in the file, and no log can be made beside it
        return apsw.Connection(name, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)

    def _patiently(self, step: Any) -> None:
        """Run a step of opening again while another process holds the file.

        Changing to WAL does not wait by itself, and several processes may open at once.
        """
        deadline = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                step()
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    @contextmanager
    def views(self) -> Iterator[dict[str, View]]:
        with self.explained():
            views = self._sets.get()
            try:
                if views is None:
                    views = {lane: self._reader() for lane in self._lanes}
                yield views
            finally:
                self._sets.put(views)

    @contextmanager
    def view(self) -> Iterator[View]:
        with self.explained():
            try:
                view = self._singles.get_nowait()
            except Empty:
                view = self._reader()
            try:
                yield view
            finally:
                self._singles.put(view)

    @contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Borrow one reading connection; never waits."""
        with self.view() as view:
            yield view.db

    def _reader(self) -> View:
        return View(self.connect(reader=True), self.snapshots)

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Hold the write lock: threads queue for it here, processes for SQLite's."""
        with self._write_lock:
            try:
                with self.begun(self._db):
                    # Only while a model is changed does a trigger of ours write to a vec0 table.
                    trust_schema(self._db, has_table(self._db, "next_windows"))
                    yield self._db
            except BaseException:
                self._terms.clear()  # some may be in no file
                raise

    @contextmanager
    def writing(self, client: str, *, undoable: bool = False) -> Iterator[Writer]:
        """A transaction of what a client asked for, with all that follows from it.

        Of an undoable one the last record of the audit tells which rows it changed, and how.
        """
        with (
            self.transaction() as db,
            noting_changes(db) if undoable else nullcontext() as note,
        ):
            spellings = self.snapshots.spellings(db, starts=True)
            if spellings is not self._spelled or len(self._terms) > MAX_TERMS:
                self._terms.clear()  # names that are read anew tell that rows were removed
                self._spelled = spellings
            writer = Writer(db, timestamps.now(), client, self._terms, spellings)
            yield writer
            writer.finish()
            if note is not None:
                note(writer.transaction.last_audit)
        self.after_writing()

    @contextmanager
    def write_connection(self) -> Iterator[apsw.Connection]:
        """The writing connection, to read what it has just written; no transaction is begun."""
        with self.explained(), self._write_lock:
            yield self._db

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """Let SQLite overwrite what is deleted, until VACUUM leaves nothing of it."""
        self._db.pragma("secure_delete", True)
        try:
            yield
        finally:
            self._db.pragma("secure_delete", False)

    @contextmanager
    def begun(self, db: apsw.Connection) -> Iterator[None]:
        """A transaction that writes: commit on success, roll back on any exception."""
        with self.explained():
            self._refuse_to_lose()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # some errors have already rolled back
                    db.execute("ROLLBACK")
                raise

    def _refuse_to_lose(self) -> None:
        """Refuse to write where it could not be kept: to a file that may not be, or is gone."""
        if self.read_only:
            raise StoreError("store.read_only", path=self.path)
        if identity(self.path) != self._identity:
            raise StoreError("store.replaced", path=self.path)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say what SQLite's errors mean for the file."""
        try:
            yield
        except apsw.BusyError:
            seconds = self._busy_ms / 1000
            raise StoreBusy("store.busy", path=self.path, seconds=seconds) from None
        except (apsw.NotADBError, apsw.CorruptError, UnicodeDecodeError) as error:
            raise StoreError("store.damaged", path=self.path, error=error) from error
        except apsw.FullError as error:
            raise StoreError("store.full", path=self.path) from error
        except apsw.Error as error:
            raise StoreError("store.unreachable", path=self.path, error=error) from error

    @contextmanager
    def keeping(self) -> Iterator[apsw.Connection]:
        """A connection for upkeep, which gives way to everybody else."""
        with self.explained():
            db = self.connect()
            db.set_busy_timeout(50)
            try:
                yield db
            finally:
                with suppress(ValueError):  # all were closed meanwhile
                    self._all.remove(db)
                db.close()

    def sizes(self) -> dict[str, int]:
        wal = beside(self.path, "-wal")
        return {
            "db_bytes": self.path.stat().st_size,
            "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        }

    def has_large_log(self) -> bool:
        return self.sizes()["wal_bytes"] > LARGE_LOG

    def checkpoint(self, seconds: float = 0.05) -> bool:
        """Bring the write-ahead log into the file and empty it; False while somebody uses it.

        Waits that long for readers, and writers wait with it. Afterwards, until the next write,
        the one file is the whole memory.
        """
        with self.keeping() as db:
            db.set_busy_timeout(int(seconds * 1000))
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
            return True


def _closed(db: apsw.Connection) -> bool:
    """Close a connection; False while another thread uses it."""
    try:
        db.close()
    except apsw.ThreadingViolationError:
        return False
    return True


# --- Opening ---------------------------------------------------------------------------


def refuse_damaged(db: apsw.Connection, path: Path) -> None:
    if (problem := db.pragma("quick_check", 1)) != "ok":
        raise StoreError("store.damaged", path=path, error=problem)
