"""The names of the files that lie beside a database, as far as anybody else needs them."""

from pathlib import Path

SIDES = ("-wal", "-journal", "-shm")
"""Ends of the names of those that belong to a database; the first two may hold what was written."""


def beside(path: Path, end: str) -> Path:
    """The file whose name is that of this one with an end: `-wal`, or `.keeper` for a lock."""
    return path.with_name(path.name + end)
