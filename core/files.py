"""Files of ours, for their owner's eyes alone, which are regular files and nothing else.

A link, a pipe, a device or a folder that stands in the place of one is never read, written to or
replaced by accident: what is asked for then fails with an OSError that says so.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from filelock import FileLock

from mnelo_locale import message

PRIVATE = 0o600
_SAFELY = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opening a pipe would wait for its other end; Windows would change line ends."""


def refuse_irregular(path: Path, *, follow: bool = False) -> None:
    """Raise OSError where something has that name and is no regular file.

    A link is none, unless with `follow` one that leads to a regular file.
    """
    with suppress(FileNotFoundError):
        _refuse(os.stat(path, follow_symlinks=follow), path)


def is_regular(path: Path) -> bool:
    """Whether a regular file has that name, and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _refuse(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, message("files.irregular"), str(path))


def _opened(path: Path, flags: int, *, follow: bool = False) -> int:
    """A regular file, opened; looked at before, since opening a device does things, and after."""
    refuse_irregular(path, follow=follow)
    safely = _SAFELY if follow else _SAFELY | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags | safely, PRIVATE)
    try:
        _refuse(os.fstat(handle), path)
    except OSError:
        os.close(handle)
        raise
    return handle


def reading(path: Path, *, follow: bool = True) -> BinaryIO:
    """A regular file to read, or with `follow` one that a link leads to."""
    return open(
        path, "rb", opener=lambda name, flags: _opened(Path(name), os.O_RDONLY, follow=follow)
    )


def appending(path: Path) -> BinaryIO:
    """A file to add to, made if need be; others could read or lock it before, and no longer can."""
    handle = _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    _make_private(handle)
    return os.fdopen(handle, "ab")


def make_private(path: Path) -> None:
    """Keep others from a file of ours that is there already, if it is one."""
    with suppress(OSError):
        handle = _opened(path, os.O_RDONLY)
        _make_private(handle)
        os.close(handle)


def _make_private(handle: int) -> None:
    if os.name == "posix" and stat.S_IMODE(os.fstat(handle).st_mode) != PRIVATE:
        with suppress(PermissionError):  # another user's, who has to mend it
            os.fchmod(handle, PRIVATE)


class PrivateLock(FileLock):
    """A lock file that only its owner can open, and that follows no link to a file to empty it."""

    def __init__(self, path: Path, timeout: float = -1) -> None:
        super().__init__(path, timeout, PRIVATE, thread_local=False)
        self._path = path

    def acquire(self, *arguments: Any, **named: Any) -> Any:
        appending(self._path).close()
        return super().acquire(*arguments, **named)


@contextmanager
def replacing(target: Path) -> Iterator[IO[str]]:
    """A new file for text; once it is complete, and not before, it takes the place of another."""
    refuse_irregular(target)
    number, part = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        _make_private(number)
        with open(number, "w", encoding="utf-8", newline="\n") as out:
            yield out
            out.flush()
            os.fsync(number)
        refuse_irregular(target)  # again: much time may have passed
        os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise


def stream(path: Path) -> IO[str] | None:
    """What is written through, as /dev/stdout or a pipe is; None where a name means a file."""
    with suppress(FileNotFoundError):
        if _is_stream(os.stat(path)):
            handle = os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))
            return os.fdopen(handle, "w", encoding="utf-8", newline="\n")
    return None


def _is_stream(found: os.stat_result) -> bool:
    return stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode)
