"""Whole copies of a file while others write, for backups."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import apsw
import sqlite_vec

from core.errors import StoreBusy, StoreError
from store.files import beside
from store.sqlite.file_check import may_write
from store.sqlite.migrations import SCHEMA_VERSION
from store.sqlite.statements import APPLICATION_ID, fetch_all, fetch_one
from store.types import Counts

BATCH_PAGES = 1000  # copied before it is asked again whether to stop
BATCH_STEPS = 10_000  # of SQLite's, in the same sense

COPIED = """
    SELECT
        (SELECT count(*) FROM chunks WHERE valid_until IS NULL),
        (SELECT count(*) FROM chunks WHERE valid_until IS NOT NULL),
        (SELECT count(*) FROM entities WHERE valid_until IS NULL),
        (SELECT count(*) FROM relations WHERE valid_until IS NULL)
"""


def copy(path: Path, target: Path, stop: Callable[[], bool]) -> Counts:
    """Copy a memory as of one moment into an empty file, while others write; what it then held.

    Raises StoreError, also where `stop` ends it, and OSError where the disk of `target` is full.
    """
    # Never through Python's own files: closing one would take the locks of the whole process.
    with _read_from(path), closing(_source(path)) as source, closing(_target(target)) as filled:
        source.execute("BEGIN")
        counts = _counts(source, path)
        with filled.backup("main", source, "main") as pages:
            while not pages.done:
                if stop():
                    raise StoreError("backup.stopped")
                pages.step(BATCH_PAGES)
        return counts


def examine(path: Path, shown: Path, stop: Callable[[], bool]) -> Counts:
    """Read a file that nobody writes to from end to end; what it holds.

    Raises StoreError, about the file `shown`, if anything is wrong with it.
    """
    with _read_from(shown), closing(_as_it_lies(path)) as db:
        db.set_progress_handler(stop, BATCH_STEPS)
        counts = _counts(db, shown)
        problem = fetch_one(db, "PRAGMA integrity_check(1)")
        if problem == "ok" and fetch_all(db, "PRAGMA foreign_key_check"):
            problem = "foreign_key_check"
        if problem != "ok":
            raise StoreError("store.damaged", path=shown, error=problem)
        return counts


@contextmanager
def exclusive(path: Path) -> Iterator[Callable[[BinaryIO], None]]:
    """Keep every other program from an existing file, whose log is brought in where that works.

    Raises StoreBusy while any has it open, even an idle one. Gives a way to copy the file's bytes:
    reading it otherwise would give up the lock.
    """
    with _read_from(path):
        if path.stat().st_size:  # SQLite would delete the log of an empty file
            _bring_log_in(path)
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
        file = apsw.VFSFile("", str(path), [flags, 0])
        try:
            # By the locks alone, which a file has even if nothing in it can be read.
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            file.xLock(apsw.SQLITE_LOCK_RESERVED)
            file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
            yield lambda out: _copy_bytes(file, out)
        finally:
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
            file.xClose()


def _bring_log_in(path: Path) -> None:
    """Make the file the whole memory, with nothing beside it; a damaged one stays as it is."""
    with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)) as db:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        try:
            if fetch_one(
                db, "SELECT 1 FROM sqlite_master LIMIT 1"
            ):  # one just begun may be anybody's
                _refuse_foreign(db, path)
            # Only the one who is alone may leave WAL, and then the log is in the file and gone.
            if db.pragma("journal_mode", "delete") != "delete":
                raise StoreBusy("store.in_use", path=path)
        except apsw.BusyError:
            raise
        except apsw.Error:  # exclusive's caller keeps the log beside the file
            return


def _copy_bytes(file: apsw.VFSFile, out: BinaryIO) -> None:
    size, block = file.xFileSize(), 1 << 20
    for at in range(0, size, block):
        out.write(file.xRead(min(block, size - at), at))


def _source(path: Path) -> apsw.Connection:
    """A connection that reads, to a file that others may be using or that may not be written."""
    log = beside(path, "-wal")
    name, flags = path.as_uri(), apsw.SQLITE_OPEN_READWRITE
    if not (may_write(path) and may_write(path.parent)):
        if not log.exists() or not log.stat().st_size:
            return _as_it_lies(path)
        name, flags = name + "?mode=ro", apsw.SQLITE_OPEN_READONLY
    db = apsw.Connection(name, flags | apsw.SQLITE_OPEN_URI)
    db.set_busy_timeout(5000)
    db.pragma("query_only", True)
    return db


def _target(path: Path) -> apsw.Connection:
    """A connection that fills an empty file of which nobody knows yet: nothing can be lost."""
    db = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
    db.pragma("journal_mode", "off")
    db.pragma("synchronous", "off")
    return db


def _as_it_lies(path: Path) -> apsw.Connection:
    """A connection to a file that nobody changes; nothing is made beside it."""
    name = path.as_uri() + "?mode=ro&immutable=1"
    db = apsw.Connection(name, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.enable_load_extension(False)
    return db


def _refuse_foreign(db: apsw.Connection, path: Path) -> None:
    if db.pragma("application_id") != APPLICATION_ID:
        raise StoreError("store.foreign", path=path)


def _counts(db: apsw.Connection, path: Path) -> Counts:
    """What a file of ours, of this schema or an older one, holds."""
    _refuse_foreign(db, path)
    schema = int(db.pragma("user_version"))
    if schema > SCHEMA_VERSION:
        raise StoreError("store.newer", path=path, version=schema, known=SCHEMA_VERSION)
    return Counts(schema, *fetch_all(db, COPIED)[0])


@contextmanager
def _read_from(path: Path) -> Iterator[None]:
    """Say what SQLite's errors mean for a file that is only read."""
    try:
        yield
    except apsw.BusyError:
        raise StoreBusy("store.in_use", path=path) from None
    except apsw.InterruptError:
        raise StoreError("backup.stopped") from None
    except apsw.NotADBError:
        raise StoreError("store.foreign", path=path) from None
    except apsw.FullError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
    except (apsw.CorruptError, apsw.SQLError) as error:  # a table that is not there
        raise StoreError("store.damaged", path=path, error=error) from error
    except apsw.Error as error:
        raise StoreError("store.unreadable", path=path, error=error) from error
