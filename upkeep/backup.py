"""Backups: whole copies that are made while others write, and the way back from one.

A backup is SQLite's online copy, in pieces, of one read transaction: what was acknowledged before
it began is in it, and writers do not wait. It lies under a hidden name in its folder until it has
been read from end to end (pages, references, counts; a compressed one is unpacked and compared).
Then it takes its name, and only then do the oldest give way. One backup at a time works in a
folder, so whatever has a hidden name there is of a run that was killed. The file is never opened
past SQLite: closing such a handle would give up the locks of the whole process. Nothing migrates a
file for a backup.

A restore first unpacks and reads the backup beside the database. Then the old file has to leave WAL
mode, which SQLite allows to its only user: so an idle server is noticed too, and the log goes into
the file. Its locks, the keeper's and /health are looked at as well. Nothing can force a restore: a
server that goes on with the old file would lose what it writes. The old file gets a second name,
its log moves along where it could not be brought in, and the new file takes its name in one step.
Whoever had begun to open the old file cannot write, since SQLite notices that it moved. At every
moment a whole memory.db is there, and a run that was killed can be run again.
"""

import glob
import gzip
import hashlib
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO

from filelock import FileLock, Timeout

from access.running import find_server
from config import Config
from core import timestamps
from core.errors import BackupError, StoreBusy, StoreError
from store.files import SIDES, beside
from store.opening import FILE_COPIES, open_store
from store.types import Counts

STAMP = "%Y%m%dT%H%M%SZ"
BLOCK = 1 << 20  # bytes
LEVEL = 6  # of gzip
WAIT_SECONDS = 10.0  # how long one backup waits for another into the same folder
LATEST = "latest"
"""What SQLite puts beside a file; the last holds nothing of its own."""

Stop = Callable[[], bool]


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup: its file, the moment it was made in UTC, and the size of the file."""

    path: Path
    taken: datetime
    bytes: int


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: the backup it took, what that holds, and the old file, if one was."""

    file: Path
    counts: Counts
    kept: Path | None


# --- What there is ---------------------------------------------------------------------


def all_in(folder: Path, name: str) -> list[Backup]:
    """The backups of the database `name`.db in a folder, oldest first."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _form(name).fullmatch(entry.name)
            if match and entry.is_file(follow_symlinks=False):
                with suppress(ValueError):  # digits that are no date
                    taken = datetime.strptime(match[1], STAMP).replace(tzinfo=timezone.utc)
                    backup = Backup(folder / entry.name, taken, entry.stat().st_size)
                    found.append((taken, int(match[2] or 1), entry.name, backup))
    return [each[-1] for each in sorted(found, key=lambda each: each[:3])]


def _form(name: str) -> re.Pattern[str]:
    """What names look like: the moment, and a number above 1 for others of the same second."""
    return re.compile(re.escape(name) + r"-(\d{8}T\d{6}Z)(?:-(\d+))?\.db(?:\.gz)?", re.ASCII)


def latest(folder: Path, name: str) -> Backup | None:
    """The newest backup of the database `name`.db in a folder."""
    return next(reversed(all_in(folder, name)), None)


def is_due(folder: Path, name: str, hours: float) -> bool:
    """Whether no backup is younger than that; one from the future, by its name, does not count."""
    now = datetime.now(timezone.utc)
    return not any(
        now - timedelta(hours=hours) < each.taken <= now for each in all_in(folder, name)
    )


def state(folder: Path, name: str, hours: float) -> dict[str, Any]:
    """What memory_stats says: where, the newest, how old it is in seconds, how often they come."""
    said: dict[str, Any] = {"folder": str(folder), "last": None, "taken": None, "age_s": None}
    if last := latest(folder, name):
        age = datetime.now(timezone.utc) - last.taken
        said |= {"last": last.path.name, "taken": timestamps.stamp(last.taken)}
        said["age_s"] = round(age.total_seconds())
    return {**said, "every_hours": hours}


# --- Making one ------------------------------------------------------------------------


def make(
    database: Path, folder: Path, *, compress: bool, keep: int, stop: Stop = _never
) -> tuple[Backup, Counts]:
    """Copy the database into a folder while others write; the newest `keep` copies stay there.

    Raises BackupError or StoreError, also when `stop` says so; the older backups stay then.
    """
    database, folder = Path(os.path.abspath(database)), Path(os.path.abspath(folder))
    if not os.path.exists(database):  # also false where access is denied
        raise BackupError("backup.missing", path=database)
    with _errors_as("backup.failed", folder=folder), _folder_to_itself(folder):
        _sweep(folder, database.stem)
        taken = datetime.now(timezone.utc).replace(microsecond=0)
        try:
            counts, part = _part(database, folder, taken, compress, stop)
            path = _next_name(folder, database.stem, taken, compress)
            part.rename(path)
        except BaseException:
            _sweep(folder, database.stem)
            raise
        _sync_folder(folder)
        made = Backup(path, taken, path.stat().st_size)
        _rotate(all_in(folder, database.stem), made, keep)
    return made, counts


def _part(
    database: Path, folder: Path, taken: datetime, compress: bool, stop: Stop
) -> tuple[Counts, Path]:
    """A copy under a hidden name that has been read from end to end, and what it holds."""
    part = folder / f".{database.stem}-{taken.strftime(STAMP)}.db.part"
    _new_file(part).close()
    counts = FILE_COPIES.copy(database, part, stop)
    _sync(part)
    if FILE_COPIES.examine(part, database, stop) != counts:
        raise BackupError("backup.differs", path=part)
    if not compress:
        return counts, part
    packed = part.with_suffix(".gz.part")
    if _pack(part, packed, stop) != _digest(packed, stop):
        raise BackupError("backup.differs", path=packed)
    part.unlink()
    return counts, packed


def _pack(plain: Path, packed: Path, stop: Stop) -> bytes:
    """Compress a file into a new one; the digest of what was read."""
    digest = hashlib.sha256()
    with (
        plain.open("rb") as source,
        _new_file(packed) as target,
        gzip.GzipFile("", "wb", LEVEL, target, 0) as out,
    ):
        for block in _blocks(source, stop):
            digest.update(block)
            out.write(block)
    _sync(packed)
    return digest.digest()


def _digest(packed: Path, stop: Stop) -> bytes:
    """The digest of what a file holds; of one that cannot be unpacked none."""
    digest = hashlib.sha256()
    with suppress(EOFError, zlib.error, gzip.BadGzipFile), gzip.open(packed) as source:
        for block in _blocks(source, stop):
            digest.update(block)
        return digest.digest()
    return b""


def _blocks(source: IO[bytes] | gzip.GzipFile, stop: Stop) -> Iterator[bytes]:
    while block := source.read(BLOCK):
        if stop():
            raise BackupError("backup.stopped")
        yield block


def _next_name(folder: Path, name: str, taken: datetime, compress: bool) -> Path:
    """A name above all of the same second, so that it is new and sorts as the newest."""
    stamp = taken.strftime(STAMP)
    matches = filter(None, map(_form(name).fullmatch, os.listdir(folder)))
    number = max((int(each[2] or 1) for each in matches if each[1] == stamp), default=0) + 1
    numbered = f"{name}-{stamp}-{number}" if number > 1 else f"{name}-{stamp}"
    return folder / (numbered + (".db.gz" if compress else ".db"))


def _rotate(backups: list[Backup], made: Backup, keep: int) -> None:
    """Remove all but the newest; the one just made stays, whatever the clock says."""
    others = [each for each in backups if each.path != made.path]
    try:
        for each in others[: max(0, len(others) + 1 - keep)]:
            each.path.unlink()
    except OSError as error:
        raise BackupError("backup.not_rotated", path=made.path, reason=_reason(error)) from error


def _sweep(folder: Path, name: str) -> None:
    """Remove what a run that was killed has left; nobody else is at work in this folder."""
    form = re.compile(r"\." + re.escape(name) + r"-\d{8}T\d{6}Z\.db(?:\.gz)?\.part", re.ASCII)
    for each in os.listdir(folder):
        if form.fullmatch(each):
            (folder / each).unlink()


@contextmanager
def _folder_to_itself(folder: Path) -> Iterator[None]:
    """Make the folder, private to its owner, and let no other backup into it meanwhile."""
    if folder.exists() and not folder.is_dir():
        raise BackupError("backup.not_folder", folder=folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".backup.lock", timeout=WAIT_SECONDS, mode=0o600):
            yield
    except Timeout:
        raise BackupError("backup.busy", folder=folder) from None


@contextmanager
def _errors_as(sentence: str, **place: Path) -> Iterator[None]:
    """Say what the system's errors mean for a backup or a restore."""
    try:
        yield
    except (OSError, NotImplementedError) as error:  # the latter: no locks there
        raise BackupError(sentence, **place, reason=_reason(error)) from error


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# --- Reading one -----------------------------------------------------------------------


def verify(file: Path) -> Counts:
    """Read a backup from end to end; what it holds.

    Raises StoreError where it is damaged, not ours or newer.
    """
    file = Path(os.path.abspath(file))
    try:
        if not _is_packed(file):
            return FILE_COPIES.examine(file, file, _never)
        with tempfile.TemporaryDirectory(prefix="mnelo-verify-") as folder:
            return _unpacked(file, Path(folder, "plain.db"))
    except OSError as error:
        raise StoreError("store.unreadable", path=file, error=_reason(error)) from error


def _unpacked(file: Path, plain: Path) -> Counts:
    """Write a backup's plain form into a new file, and read that from end to end."""
    plain.unlink(missing_ok=True)
    try:
        with _opened(file) as source, _new_file(plain) as target:
            shutil.copyfileobj(source, target, BLOCK)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StoreError("store.damaged", path=file, error=error) from None
    _sync(plain)
    return FILE_COPIES.examine(plain, file, _never)


def _opened(file: Path) -> IO[bytes] | gzip.GzipFile:
    """The plain content of a backup."""
    return gzip.open(file) if _is_packed(file) else file.open("rb")


def _is_packed(file: Path) -> bool:
    """Whether a file is compressed, by its first bytes."""
    with file.open("rb") as source:
        return source.read(2) == b"\x1f\x8b"


# --- The way back ----------------------------------------------------------------------


def restore(file: Path, config: Config) -> Restored:
    """Put a backup in the place of the database, which is kept.

    Raises BackupError, StoreBusy or StoreError; the database is as it was then.
    """
    database = Path(os.path.abspath(config.database_path))
    _refuse_served(config, database)
    with _errors_as("restore.failed", path=database), _keepers_place(database):
        _refuse_half(file, database)
        # Links are followed here, and by SQLite: what takes the file's place lies beside it.
        path = Path(os.path.realpath(database))
        staged = path.with_name(f".{path.name}.restore")
        try:
            counts = _unpacked(file, staged)
            kept = _swap(staged, path)
        finally:
            staged.unlink(missing_ok=True)
    # As the next start will open it; an older schema is brought up to date.
    open_store(config, database).close()
    return Restored(file, counts, kept)


def find(wanted: str, folder: Path, name: str) -> Path:
    """The backup that is meant: a path, a name in the folder, or `latest`."""
    if wanted == LATEST:
        last = latest(folder, name)
        if last is None:
            raise BackupError("restore.none", folder=folder)
        return last.path
    places = [Path(os.path.abspath(os.path.expanduser(wanted))), folder / wanted]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise BackupError("restore.missing", file=wanted, folder=folder)
    return file


def _refuse_half(file: Path, database: Path) -> None:
    """Refuse what is no backup, or only a part of one."""
    if database.exists() and os.path.samefile(file, database):
        raise BackupError("restore.itself", file=file)
    if any(_has_content(beside(file, side)) for side in SIDES[:2]):
        raise BackupError("restore.log", file=file)


def _swap(staged: Path, path: Path) -> Path | None:
    """Let the staged file take the place of the old one; where that one is kept, if it was any."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with FILE_COPIES.exclusive(path) as copy:
        kept = _keep(path, copy)
        # Before the new file is there: to it, the old one's log would be a wrong one.
        for side in SIDES:
            beside(path, side).unlink(missing_ok=True)
        _sync_folder(path.parent)
        if sys.platform != "win32":
            staged.replace(path)
    if sys.platform == "win32":  # nothing takes the place of an open file there
        staged.replace(path)
    _sync_folder(path.parent)
    return kept


def _keep(path: Path, copy: Callable[[BinaryIO], None]) -> Path | None:
    """Give the old file, and a log that is still beside it, another name."""
    sides = [side for side in SIDES[:2] if _has_content(beside(path, side))]
    if not sides and not _has_content(path):
        return None
    kept = _name_to_keep(path)
    if _has_content(path) and not kept.exists():
        path.chmod(0o600)
        try:
            kept.hardlink_to(path)
        except OSError:  # not every file system has links
            part = kept.with_name(f".{path.name}.restore-kept")
            part.unlink(missing_ok=True)
            with _new_file(part) as out:
                copy(out)
            _sync(part)
            part.rename(kept)
    _sync_folder(path.parent)
    for side in sides:
        beside(path, side).replace(beside(kept, side))
    return kept


def _name_to_keep(path: Path) -> Path:
    """A new name, or the one that a run that was killed has already given to the file."""
    for each in path.parent.glob(glob.escape(path.name) + ".before-restore-*"):
        if os.path.samefile(each, path):
            return each
    stamp = datetime.now(timezone.utc).strftime(STAMP)
    kept = beside(path, f".before-restore-{stamp}")
    numbers = count(2)
    while any(os.path.lexists(beside(kept, side)) for side in ("", *SIDES)):
        kept = beside(path, f".before-restore-{stamp}-{next(numbers)}")
    return kept


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


@contextmanager
def _keepers_place(database: Path) -> Iterator[None]:
    """Hold what a server's keeper holds, so that none is running and none can begin."""
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with FileLock(beside(database, ".keeper"), timeout=0):
            yield
    except Timeout:
        raise StoreBusy("store.in_use", path=database) from None


def _refuse_served(config: Config, database: Path) -> None:
    """Refuse by name and process while the server at the configured port has the file.

    Whoever else has it open is noticed by its locks.
    """
    server = find_server(config)
    if server.state == "ours":
        pid = server.said.get("pid")
        raise StoreBusy("restore.served", path=database, url=server.url, pid=pid)


# --- Files -----------------------------------------------------------------------------


def _new_file(path: Path) -> BinaryIO:
    """A file that was not there before, for its owner's eyes alone."""
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | BINARY, 0o600), "wb")


BINARY = getattr(os, "O_BINARY", 0)  # Windows would change line ends otherwise


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make renames last; Windows cannot, and does not need to."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
