"""What every connection gives up, since the file may have come from anywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import apsw

STEPS_A_TURN, MOST_TURNS = 1_000_000, 100  # of SQLite's machine: some seconds


def harden(db: apsw.Connection) -> None:
    """Let no statement reach another file, and what the schema says call only what is harmless."""
    db.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    trust_schema(db, False)
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    db.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)


def trust_schema(db: apsw.Connection, trusted: bool) -> None:
    """Whether triggers and views may use what is not known to be harmless."""
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, int(trusted))


@contextmanager
def bounded(db: apsw.Connection) -> Iterator[None]:
    """End what takes far longer than it can: a view may be another one since the file was opened.

    Raises InterruptError.
    """
    turns = count()
    db.set_progress_handler(lambda: next(turns) >= MOST_TURNS, STEPS_A_TURN, id=bounded)
    try:
        yield
    finally:
        db.set_progress_handler(None, id=bounded)


def let_vacuum(db: apsw.Connection) -> None:
    """VACUUM builds the new file as an attached one."""
    db.limit(apsw.SQLITE_LIMIT_ATTACHED, 1)


@contextmanager
def writing_inner_tables(db: apsw.Connection) -> Iterator[None]:
    """Let statements of ours write to the tables that vec0 keeps its rows in."""
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    try:
        yield
    finally:
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
