"""The timeline's upkeep, in one background thread: vectors, groups, what expires, what doubles.

Of several processes on one file only one does it at a time. The thread and its lock are its own,
not those of the file's upkeep, since a search for groups may take seconds. Groups are looked for at
start, when nobody has written for two seconds, and at the latest after thirty.

An expired entry is closed like one that was forgotten and may be undone; then it lasts. Of two
entries whose summaries reach `dedup_threshold` the newer expires in `default_ttl_days`, unless
text/differences.py finds a number, date, weekday, code or negation that only one has. A process
looks at a pair once, so what was brought back stays.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

from core import timestamps
from embedding.model import FileModel
from index.calibration import scripts
from mnelo_locale import message
from store import Store
from text.differences import difference, read
from timeline.communities import edges
from timeline.settings import Settings
from upkeep.background import Upkeep

CLIENT = "timeline"
QUIET_SECONDS = 2.0  # without writes before groups are searched
LATEST_SECONDS = 30.0  # the longest delay, while somebody writes all the time
BATCH_ENTRIES = 8  # entries, whose texts keep the model for a moment
MAX_FACTS = 10_000  # texts of which it is kept what they state, while doubles are looked for


class Steps(Protocol):
    """What is done for entries, each when it is due."""

    def merge(self, limit: int) -> int: ...
    def mark_duplicates(self) -> int: ...
    def regroup(self) -> dict[str, Any]: ...


class TimelineKeeper(Upkeep):
    """Gives waiting entries their vectors, groups them, closes what expires, marks what doubles."""

    def __init__(
        self,
        store: Store,
        settings: Callable[[], tuple[Settings, list[str]]],
        steps: Steps,
    ) -> None:
        super().__init__(store.job_lock("timeline"), "timeline")
        self._store, self._settings, self._steps = store, settings, steps
        self._swept_at = float("-inf")
        self._told: list[str] = []
        self._grouped = _Grouped()

    def _tick(self, now: float) -> None:
        self._do("look", lambda: self._look(now))

    def _look(self, now: float) -> bool:
        """Do what is due; False, since each step is reported by itself."""
        settings = self._read_settings()
        entries = self._entries(settings)
        if entries != self._grouped.entries:
            self._do("vectors", self._merge_all)
        if now >= self._swept_at + settings.daemon_interval:
            self._swept_at = now
            self._do("sweep", lambda: self._store.entries.close_overdue(CLIENT))
            if settings.dedup_enable:
                self._do("dedup", self._steps.mark_duplicates)
        if self._grouped.is_due(now, entries):
            self._do("groups", lambda: self._group(entries))
        return False

    def _read_settings(self) -> Settings:
        """The settings in force; what is wrong in the table is logged once."""
        settings, wrong = self._settings()
        for sentence in set(wrong) - set(self._told):
            self._log.warning("%s", sentence)
        self._told = wrong
        return settings

    def _entries(self, settings: Settings) -> object:
        """What differs whenever other groups may be found: of other entries or vectors, or so."""
        how = settings.group_k, settings.group_threshold
        with self._store.view() as view:
            return view.model_version(), view.entries.membership(), how

    def _merge_all(self) -> None:
        while not self._stop.is_set() and self._steps.merge(BATCH_ENTRIES):
            pass

    def _group(self, entries: object) -> bool:
        if self._steps.regroup()["status"] == "off":
            return False  # and again: the model may be there by then
        self._grouped.entries = entries
        return True

    def _do(self, name: str, step: Callable[[], object]) -> None:
        """Nothing more once the server ends, when the file may be closed at any moment."""

        def unless_stopped() -> object:
            try:
                return step()
            except Exception:
                if self._stop.is_set():
                    return False
                raise

        if not self._stop.is_set():
            super()._do(name, unless_stopped)


class _Grouped:
    """Which entries were grouped last, and when others are to be."""

    def __init__(self) -> None:
        self.entries: object = None
        self._seen: object = None
        self._seen_at = self._first_at = 0.0

    def is_due(self, now: float, entries: object) -> bool:
        """At once the first time; then when nobody writes, or has done so for long."""
        if entries == self.entries:
            self._seen = entries
            return False
        if self._seen == self.entries:
            self._first_at = now
        if entries != self._seen:
            self._seen, self._seen_at = entries, now
        quiet = now - self._seen_at >= QUIET_SECONDS
        return self.entries is None or quiet or now - self._first_at >= LATEST_SECONDS


# --- What says the same twice ----------------------------------------------------------


class Doubles:
    """Entries whose summary says nearly what an older one says.

    What differs in a number, date, weekday, code or negation is never taken for the same. What
    was compared once is not compared again, since the text of a version never changes.
    """

    def __init__(self) -> None:
        self._how: object = None
        self._compared: set[int] = set()

    def mark(self, store: Store, model: FileModel, settings: Settings) -> int:
        """Let the newer of each two expire; how many."""
        with store.view() as view:
            if view.model_version() != model.known.version:
                return 0
            rows, vectors = view.entries.lasting()
        how = model.known.version, settings.dedup_threshold
        compared = self._compared if how == self._how else set()
        known = [row[0] in compared for row in rows]
        if all(known):
            return 0
        kinds = scripts([summary for _, _, summary in rows])
        near = edges(vectors, kinds, model.zeros, settings.dedup_threshold)
        pairs = (each for each in _pairs(near) if not (known[each[0]] and known[each[1]]))
        marked = _let_expire(store, rows, pairs, timestamps.in_days(settings.default_ttl_days))
        self._how, self._compared = how, {row[0] for row in rows}
        return marked


def _let_expire(
    store: Store,
    rows: Sequence[tuple[int, str, str]],
    pairs: Iterable[tuple[int, int]],
    until: str,
) -> int:
    """Let the second of each pair end then, unless one of the two does or they differ."""
    facts = lru_cache(MAX_FACTS)(lambda place: read(rows[place][2]))
    gone: set[int] = set()
    for older, newer in pairs:
        if older in gone or newer in gone or difference(facts(older), facts(newer)):
            continue
        reason = message("timeline.doubles", older=rows[older][1])
        if store.entries.expire(rows[newer][:2], until, reason, CLIENT):
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
