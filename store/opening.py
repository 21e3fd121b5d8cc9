"""Which store a memory is kept in: today one SQLite file, whatever the settings say."""

from collections.abc import Callable, Sequence
from pathlib import Path

from config import LANES, Config
from store import FileCopies, Inspection, Store
from store.sqlite import copies
from store.sqlite.inspector import Inspector
from store.sqlite.salvage import salvage
from store.sqlite.store import SqliteStore
from store.types import CueSettings, Salvaged

SALVAGE: Callable[[Path, Path], Salvaged] = salvage
"""Writes what can be read of a file into a new one. Raises StoreError."""

FILE_COPIES: FileCopies = copies
"""How whole copies of a memory's file are made."""


def open_store(
    config: Config,
    path: Path | None = None,
    *,
    lanes: Sequence[str] = LANES,
    reader_sets: int = 4,
    cues: CueSettings | None = None,
) -> Store:
    """Open or make the memory at a path, by default the configured one.

    At most `reader_sets` recalls read at once, each with one View for each of `lanes`. Without
    `cues` none is found or asked for. Raises StoreError.
    """
    return SqliteStore(
        path or config.database_path,
        busy_seconds=config.database_busy_seconds,
        synchronous=config.database_synchronous,
        cache_mb=config.database_cache_mb,
        lanes=lanes,
        reader_sets=reader_sets,
        cues=cues,
    )


def inspect(path: Path, *, mending: bool = False, busy_seconds: float = 5.0) -> Inspection:
    """Open a memory that is there, as it is; written to only where `mending`. Raises StoreError."""
    return Inspector(path, mending=mending, busy_seconds=busy_seconds)
