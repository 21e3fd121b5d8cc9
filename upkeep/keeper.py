"""Upkeep, in one background thread: the file stays small, quick, and whole in one piece.

The server starts it; of several processes on one file only one does it at a time, by a lock file
beside the database. When nobody has written for `idle_seconds`, and when the server stops, it
brings the write-ahead log into the file, so that a plain copy of `memory.db` is then complete.
Every `interval_seconds` it drops the oldest rows of the logs beyond their bounds, lets SQLite tune
itself, and purges or makes a backup where the settings ask for that and it is due. It gives way to
everybody: each step is short or can be stopped. `memory_stats` says when each was last done, or
why it failed.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from config import Config
from core import timestamps
from store import Store, StoredFile
from upkeep import backup
from upkeep.background import Upkeep

PATIENCE_SECONDS = 0.5
PURGE_SECONDS = 86_400.0  # how long after a purge the next one begins
BREATH_SECONDS = 0.02  # how long a purge leaves the file to others between two steps
AGAIN_SECONDS = 600.0  # how long after a failed backup or purge the next one is tried


class Keeper(Upkeep):
    """Brings the log of changes into the file when nobody writes, and trims and tunes the rest."""

    def __init__(self, store: Store, config: Config) -> None:
        super().__init__(store.job_lock("keeper"), "keeper")
        self._store, self._file = store, store.file
        self._idle = config.keeper_idle_seconds
        self._steps: dict[str, Callable[[], object]] = {
            "trim": lambda: store.upkeep.trim_logs(
                config.keeper_log_rows, config.keeper_audit_rows
            ),
            "optimize": store.upkeep.optimize,
        }
        self._interval = config.keeper_interval_seconds
        self._config = config
        self._quiet = (0, time.monotonic())
        self._next = time.monotonic() + self._interval
        self._next_backup = self._next_purge = 0.0

    def _leave(self) -> None:
        """The file is left whole, if nobody else is using it."""
        if self._file:
            self._do("checkpoint", self._file.checkpoint)

    def _tick(self, now: float) -> None:
        if self._file:
            self._keep_log_small(self._file, now)
        if now >= self._next:
            self._next = now + self._interval
            for name, step in self._steps.items():
                if not self._stop.is_set():
                    self._do(name, step)
            self._purge_if_due(now)
            if self._file:
                self._back_up_if_due(now)

    def _keep_log_small(self, file: StoredFile, now: float) -> None:
        if self._is_idle(file.sizes()["wal_bytes"], now):
            self._do("checkpoint", file.checkpoint)
        elif file.has_large_log():
            # Readers that never pause would let it grow without end.
            self._do("checkpoint", lambda: file.checkpoint(PATIENCE_SECONDS))

    def _is_idle(self, size: int, now: float) -> bool:
        """Whether there is something to bring into the file and nobody has written for a while."""
        if size != self._quiet[0]:
            self._quiet = (size, now)
        return size > 0 and now - self._quiet[1] >= self._idle

    def _purge_if_due(self, now: float) -> None:
        """Purge once a day what was closed long ago; an interrupted purge goes on the next time."""
        if self._config.keeper_purge_days and now >= self._next_purge and not self._stop.is_set():
            self._do("purge", self._purge)
            self._next_purge = now + (AGAIN_SECONDS if "purge" in self._failed else PURGE_SECONDS)

    def _purge(self) -> None:
        age = timedelta(days=self._config.keeper_purge_days)
        before = timestamps.stamp(datetime.now(timezone.utc) - age)
        self._store.upkeep.purge(before, lambda: self._stop.wait(BREATH_SECONDS))

    def _back_up_if_due(self, now: float) -> None:
        """Make a backup where the newest one is too old."""
        folder, hours = self._config.backup_folder, self._config.backup_every_hours
        path = self._store.path
        if hours and now >= self._next_backup and backup.is_due(folder, path.stem, hours):
            self._do("backup", self._back_up)
            self._next_backup = now + AGAIN_SECONDS if "backup" in self._failed else 0.0

    def _back_up(self) -> None:
        backup.make(
            self._store.path,
            self._config.backup_folder,
            compress=self._config.backup_compress,
            keep=self._config.backup_keep,
            stop=self._stop.is_set,
        )
