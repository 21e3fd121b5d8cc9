"""What can be told of a database file before SQLite touches it."""

import errno
import glob
import os
import stat
import struct
from pathlib import Path

from core.errors import StoreError
from mnelo_locale import message
from store.files import beside

MAGIC = b"SQLite format 3\x00"
LOG_HEAD, FRAME_HEAD = 32, 24  # bytes of SQLite's log, and of each page in it


def examine(path: Path) -> bool:
    """Whether a database file may be written; a new one is made, what is not ours refused by name.

    Raises StoreError for a folder, a file that cannot be read, one of another program, and one
    that is cut short.
    """
    try:
        if path.is_dir():
            raise StoreError("store.folder", path=path)
        _refuse_other_names(path)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        writable = _may_write(path)
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise StoreError("store.unreadable", path=path, error=error.strerror) from None
    if header and not header.startswith(MAGIC):
        raise StoreError("store.foreign", path=path)
    if header and _cut_short(path, header):
        raise StoreError("store.damaged", path=path, error=message("store.cut"))
    return writable


def _refuse_other_names(path: Path) -> None:
    """Refuse what is no file, and a file that others may open under another name.

    A restore that was ended in the middle has given it one, which is never opened.
    """
    if not path.exists():
        return
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise StoreError("store.no_file", path=path)
    kept = path.parent.glob(glob.escape(path.name) + ".before-restore-*")
    if found.st_nlink > 1 and not any(each.samefile(path) for each in kept):
        raise StoreError("store.linked", path=path)


def _may_write(path: Path) -> bool:
    """Open the file for writing, and make it if it is not there, for its owner's eyes alone."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except PermissionError:
        if not path.exists():
            raise
        return False
    except OSError as error:
        if error.errno != errno.EROFS or not path.exists():
            raise
        return False
    # Beside a file that is written to, SQLite keeps its log.
    return may_write(path.parent)


def may_write(path: Path) -> bool:
    """Whether this process may write to a file or folder; the file is not opened for it."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def identity(path: Path) -> tuple[int, int] | None:
    """What tells this file from another one at the same path; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_log_lost(path: Path) -> bool:
    """Whether the log lacks what SQLite's own notes beside it say that it has.

    They are there until the last one who has the file open closes it: so this tells what became
    of a log after a kill, but not that file and log were parted after both were closed. A process
    that has the file open must not ask: closing the notes would give up its locks.
    """
    try:
        notes = beside(path, "-shm").read_bytes()[:100]
        log = beside(path, "-wal")
        there = log.stat().st_size if log.exists() else 0
    except OSError:
        return False
    if len(notes) < 100 or notes[:48] != notes[48:96]:
        return False
    _, _, _, begun, _, size, frames = struct.unpack("=3I2BH1I", notes[:20])
    (kept,) = struct.unpack("=I", notes[96:])
    page = (size & 0xFE00) + ((size & 1) << 16)
    return bool(begun) and frames > kept and there < LOG_HEAD + frames * (FRAME_HEAD + page)


def _cut_short(path: Path, header: bytes) -> bool:
    """Whether pages that the header counts are missing, with no log that could hold them."""
    wal = beside(path, "-wal")
    if len(header) < 100 or (wal.exists() and wal.stat().st_size):
        return len(header) < 100
    return path.stat().st_size < claimed_bytes(header)


def claimed_bytes(header: bytes) -> int:
    """How large a file is, by its first 100 bytes; 0 where they are not those of a database."""
    if len(header) < 100 or not header.startswith(MAGIC):
        return 0
    page = int.from_bytes(header[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
