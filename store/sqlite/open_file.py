"""What each part of the store needs of the open file to write, and to look before it does."""

from contextlib import AbstractContextManager
from typing import Protocol

import apsw

from store.sqlite.writer import Writer


class OpenFile(Protocol):
    """An open file, as the parts of the store see it (database.py)."""

    read_only: bool

    def reader(self) -> AbstractContextManager[apsw.Connection]:
        """Borrow one reading connection; never waits."""

    def transaction(self) -> AbstractContextManager[apsw.Connection]:
        """Hold the write lock: commit on success, roll back on any exception."""

    def writing(self, client: str, *, undoable: bool = False) -> AbstractContextManager[Writer]:
        """A transaction of what a client asked for, with all that follows from it."""
