"""The timeline's upkeep, in one background thread: vectors, groups, what expires, what doubles.

Of several processes on one file only one does it at a time.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from filelock import FileLock, Timeout

import store
import timestamps
from calibration import scripts
from distinct import differs
from embedder import OfFile
from errors import MneloError
from file_check import beside
from groups import edges
from mnelo_locale import message
from store import SqliteStore
from timeline_settings import Settings

log = logging.getLogger("mnelo.timeline")

CLIENT = "timeline"
TICK_SECONDS = 0.5
QUIET_SECONDS = 2.0
"""How long nothing was written before groups are looked for."""
LATEST_SECONDS = 30.0
"""How long that is put off at most, while somebody writes all the time."""
LEAVE_SECONDS = 2.0
"""How long the end of the server waits for the step at hand."""
MERGED_AT_ONCE = 8  # entries, whose texts keep the model for a moment


class Steps(Protocol):
    """What is done for entries, each when it is due."""

    def merge(self, limit: int) -> int: ...
    def mark_duplicates(self) -> int: ...
    def regroup(self) -> dict[str, Any]: ...


class TimelineKeeper:
    """Gives waiting entries their vectors, groups them, closes what expires, marks what doubles."""

    def __init__(
        self,
        of: SqliteStore,
        settings: Callable[[], tuple[Settings, list[str]]],
        steps: Steps,
    ) -> None:
        self._store, self._settings, self._steps = of, settings, steps
        self._lock = FileLock(beside(of.path, ".timeline"), thread_local=False)
        self._stop = threading.Event()
        self._done: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._next_sweep = 0.0
        self._told: list[str] = []
        self._grouped = _Grouped()
        self._thread = threading.Thread(target=self._run, name="mnelo-timeline", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the step at hand."""
        self._stop.set()
        self._thread.join(LEAVE_SECONDS)
        self._lock.release()

    def report(self) -> dict[str, object]:
        """Whether this process does it, when each step was last done, and what failed."""
        failed = {"failed": dict(self._failed)} if self._failed else {}
        return {"keeping": self._lock.is_locked, **self._done, **failed}

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            if self._has_the_job():
                self._tick(time.monotonic())

    def _has_the_job(self) -> bool:
        """Whether no other process keeps these entries; who ends, or is killed, leaves it free."""
        if not self._lock.is_locked:
            try:
                self._lock.acquire(timeout=0)
            except (Timeout, OSError):
                return False
        return True

    def _tick(self, now: float) -> None:
        try:
            settings = self._read_settings()
            entries = self._entries()
        except MneloError as error:
            log.warning("%s", error)
            return
        if self._grouped.differs(entries):
            self._do("vectors", self._merge_all)
        if now >= self._next_sweep:
            self._next_sweep = now + settings.daemon_interval
            self._do("sweep", lambda: store.close_overdue(self._store, CLIENT))
            if settings.dedup_enable:
                self._do("dedup", self._steps.mark_duplicates)
        if self._grouped.is_due(now, entries):
            self._do("groups", lambda: self._group(entries))

    def _read_settings(self) -> Settings:
        """The settings in force; what is wrong in the table is logged once."""
        settings, wrong = self._settings()
        for sentence in set(wrong) - set(self._told):
            log.warning("%s", sentence)
        self._told = wrong
        return settings

    def _entries(self) -> object:
        """What differs whenever there are other entries, or other vectors of them."""
        with self._store.view() as view:
            return view.model_mark(), store.entries_now(view)

    def _merge_all(self) -> None:
        while not self._stop.is_set() and self._steps.merge(MERGED_AT_ONCE):
            pass

    def _group(self, entries: object) -> bool:
        if self._steps.regroup()["status"] == "off":
            return False  # and again: the model may be there by then
        self._grouped.entries = entries
        return True

    def _do(self, name: str, step: Callable[[], object]) -> None:
        if self._stop.is_set():
            return
        try:
            if step() is not False:
                self._done[name] = timestamps.now()
            self._failed.pop(name, None)
        except Exception as error:  # a model's library may raise anything; upkeep goes on
            if self._stop.is_set():  # the file was closed meanwhile
                return
            self._failed[name] = str(error) or type(error).__name__
            log.warning("%s: %s", name, self._failed[name])


class _Grouped:
    """Which entries were grouped last, and when others are to be."""

    def __init__(self) -> None:
        self.entries: object = None
        self._seen: object = None
        self._seen_at = self._first_at = 0.0

    def differs(self, entries: object) -> bool:
        return entries != self.entries

    def is_due(self, now: float, entries: object) -> bool:
        """At once the first time; then when nobody writes, or has done so for long."""
        if not self.differs(entries):
            self._seen = entries
            return False
        if self._seen == self.entries:
            self._first_at = now
        if entries != self._seen:
            self._seen, self._seen_at = entries, now
        quiet = now - self._seen_at >= QUIET_SECONDS
        return self.entries is None or quiet or now - self._first_at >= LATEST_SECONDS


# --- What says the same twice ----------------------------------------------------------


def mark_duplicates(of: SqliteStore, model: OfFile, settings: Settings) -> int:
    """Let entries expire whose summary says nearly what an older one says; how many.

    What differs in a number, date, weekday, code or negation is never taken for the same.
    """
    with of.view() as view:
        if view.model_mark() != model.known.mark:
            return 0
        rows, vectors = store.lasting(view)
    kinds = scripts([summary for _, _, summary in rows])
    near = edges(vectors, kinds, model.zeros, settings.dedup_threshold)
    gone: set[int] = set()
    until = timestamps.in_days(settings.default_ttl_days)
    for older, newer in _pairs(near):
        if older in gone or newer in gone or differs(rows[older][2], rows[newer][2]):
            continue
        reason = message("timeline.doubles", older=rows[older][1])
        if store.expire_entry(of, rows[newer][:2], until, reason, CLIENT):
            gone.add(newer)
    return len(gone)


def _pairs(near: list[int]) -> Iterator[tuple[int, int]]:
    """Each pair of a graph's edges, the smaller place first, in order."""
    for one, bits in enumerate(near):
        later = bits >> (one + 1)
        while later:
            lowest = later & -later
            yield one, one + lowest.bit_length()
            later ^= lowest
