"""What the index knows of each chunk beside its words and vectors, and which chunks are neighbours.

A chunk is a row, and stays in its row. Each kind of number (importance, length, time, ...) is one
array over all rows. The chunks of a session are linked in the session's order, so that neighbours
can be looked up when a question is asked.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.types import IndexRow, Scope, in_batches, milliseconds
from index.names import Names
from index.postings import HALVES, Part, Places, Rows

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

NEIGHBOURS = ((1, 0.5), (2, 0.25))  # places away in the session, and what its words count
UNNAMED = "default"  # the session of whoever names none: its chunks have no neighbours
SPARE = 64  # free rows that are kept, so that seldom all rows must be copied
MIN_CHANGES = 1024  # fewer changed rows are never worth a new index

_TYPES: dict[str, Any] = {
    "seq": np.int64,
    "place": np.int64,
    "source": np.int32,
    "speaker": np.int32,
    "session": np.int32,
    "thread": np.int32,
    "stamp": np.int64,
    "since": np.int64,
    "until": np.int64,
    "importance": np.float32,
    "length": np.float32,
    "around": np.float32,
    "flags": np.uint8,
    "before": np.int32,
    "after": np.int32,
    "live": np.bool_,
}
_TIMES = {"timestamp": "stamp", "valid_from": "since", "valid_until": "until"}
"""Fields by what an IndexRow calls them."""
NO_ROW = -1  # as an index it leads to the last element of an array, which stands for no chunk


@dataclass(frozen=True, slots=True)
class Shift:
    """Which chunks stand `size` places apart in their session."""

    size: int
    weight: float
    adjacent: Floats  # by rows: the weight where the later chunk is also `size` rows later; else 0
    distant: tuple[Rows, Rows]
    """The rows of all other pairs: the earlier chunks, and the later ones."""


@dataclass(frozen=True, slots=True)
class Averages:
    """Average lengths in words."""

    own: float
    around: float  # of a chunk together with its neighbours
    thread: float  # of a session
    median: float


class Fields:
    """The numbers of all chunks, by rows. Not safe for threads by itself."""

    def __init__(self, *, past: bool) -> None:
        """`past` also keeps closed chunks, for questions about another time, without neighbours."""
        self.past = past
        self.names, self.sessions = Names(), Names()
        self.count = self.rev = self.changes = 0
        """`changes` grows with each change: what was computed of all rows is valid until then."""
        self._dead = 0
        self._orders: dict[int, list[tuple[int, int, int]]] = {}
        self.arrays = _arrays(0)
        """Each kind of number, with free rows and one more element that stands for no chunk."""
        self._row_of = np.full(1, NO_ROW, np.int32)  # by seq
        self.thread_lengths = np.zeros(1, np.float32)
        self._lengths: Counter[float] = Counter()  # how many chunks have each length
        self._averages: Averages | None = None
        self._shifts: list[Shift] | None = None
        self._years: tuple[int, int] | None = None

    # -- filling and changing --

    def load(self, rows: Iterable[IndexRow]) -> list[Part]:
        """Fill the rows, sorted by session, timestamp and place; the terms of all chunks."""
        parts = [self.append(block) for block in in_batches(rows)]
        self._resize(self.count + SPARE)
        self._link_all()
        return parts

    def field(self, name: str) -> NDArray[Any]:
        """A kind of number, by rows."""
        return self.arrays[name][: self.count]

    def append(self, rows: Sequence[IndexRow]) -> Part:
        """Add chunks as the last rows; returns their terms."""
        at = slice(self.count, self.count + len(rows))
        terms = _terms(rows)
        if at.stop >= len(self.arrays["seq"]):
            self._resize(max(at.stop, 2 * self.count) + SPARE)
        self.count = at.stop
        self.rev = max(self.rev, *(row.rev for row in rows))
        self._write(at, rows, _count_words(terms))
        return terms

    def _write(self, at: slice, rows: Sequence[IndexRow], length: Floats) -> None:
        """Fill in the numbers of some rows."""
        columns = zip(*rows, strict=True)
        given: dict[str, Sequence[Any]] = dict(zip(IndexRow._fields, columns, strict=True))
        for name in ("seq", "place", "flags", "importance"):
            self.arrays[name][at] = given[name]
        for name, field in _TIMES.items():
            self.arrays[field][at] = milliseconds(given[name])
        self.arrays["source"][at] = self.names.of_sources(given["source"])
        self.arrays["speaker"][at] = self.names.of_speakers(given["speaker"])
        self.arrays["session"][at] = self.sessions.numbers(given["session_id"])
        unnamed = [self.past or session == UNNAMED for session in given["session_id"]]
        thread = np.where(unnamed, NO_ROW, self.arrays["session"][at])
        self.arrays["thread"][at] = thread
        self.arrays["length"][at] = self.arrays["around"][at] = length
        self.arrays["before"][at] = self.arrays["after"][at] = NO_ROW
        self.arrays["live"][at] = True
        self._row_of = _with_room(self._row_of, max(given["seq"], default=0) + 2, NO_ROW)
        self._row_of[self.arrays["seq"][at]] = np.arange(at.start, at.stop)
        self._lengths.update(length.tolist())
        self.thread_lengths = _with_room(self.thread_lengths, len(self.sessions) + 1, 0)
        np.add.at(self.thread_lengths, thread, np.where(unnamed, 0, length))

    def _link_all(self) -> None:
        """Link all rows, which are sorted by session and time."""
        thread, rows = self.field("thread"), np.arange(self.count, dtype=np.int32)
        joined = np.flatnonzero((thread[1:] == thread[:-1]) & (thread[1:] != NO_ROW))
        self.field("after")[joined] = rows[1:][joined]
        self.field("before")[joined + 1] = rows[joined]
        self._measure(rows)

    def drop(self, seq: int, rev: int) -> None:
        """Remove a chunk, if it is here: it was closed, or its new values follow."""
        self.rev = max(self.rev, rev)
        self.changes += 1
        self._averages = self._shifts = self._years = None
        for row in self.rows_of([seq]).tolist():
            self._unlink(row)
            length, thread = float(self.arrays["length"][row]), self.arrays["thread"][row]
            self._lengths[length] -= 1
            if thread != NO_ROW:
                self.thread_lengths[thread] -= length
            self.arrays["live"][row] = False
            self.arrays["around"][row] = 0
            self._row_of[seq] = NO_ROW
            self._dead += 1

    def needs_rebuild(self) -> bool:
        """Whether so much has changed that a new index is faster."""
        return self.changes > max(MIN_CHANGES, self.count // 8)

    def _resize(self, room: int) -> None:
        """Make room for so many rows, one array at a time, to save memory."""
        for name, values in _arrays(room).items():
            values[: self.count] = self.arrays[name][: self.count]
            self.arrays[name] = values

    def _order(self, thread: int) -> list[tuple[int, int, int]]:
        """The sorted rows of a session, each with the numbers that it is sorted by."""
        if thread not in self._orders:
            rows = np.flatnonzero((self.field("thread") == thread) & self.field("live"))
            self._orders[thread] = sorted(map(self._position, rows.tolist()))
        return self._orders[thread]

    def _position(self, row: int) -> tuple[int, int, int]:
        return int(self.arrays["stamp"][row]), int(self.arrays["place"][row]), row

    def link(self, row: int) -> None:
        """Link a row with those before and after it in its session."""
        thread = int(self.arrays["thread"][row])
        if thread == NO_ROW:
            return
        order, position = self._order(thread), self._position(row)
        if position not in order[-1:]:  # a list that was just made has it already
            at = bisect_left(order, position)
            if order[at : at + 1] != [position]:
                order.insert(at, position)
        at = bisect_left(order, position)
        before = order[at - 1][2] if at else NO_ROW
        after = order[at + 1][2] if at + 1 < len(order) else NO_ROW
        self._join(before, row)
        self._join(row, after)
        self._measure(self._near(row))

    def _unlink(self, row: int) -> None:
        thread = int(self.arrays["thread"][row])
        if thread == NO_ROW:
            return
        order = self._order(thread)
        order.remove(self._position(row))
        near = self._near(row)
        self._join(int(self.arrays["before"][row]), int(self.arrays["after"][row]))
        self.arrays["before"][row] = self.arrays["after"][row] = NO_ROW
        self._measure(near)

    def _join(self, earlier: int, later: int) -> None:
        if earlier != NO_ROW:
            self.arrays["after"][earlier] = later
        if later != NO_ROW:
            self.arrays["before"][later] = earlier

    def _near(self, row: int) -> Rows:
        """A row and its neighbours."""
        near = self.neighbours(np.array([row], np.int32)).ravel()
        there: Rows = near[near != NO_ROW].astype(np.int32)
        return there

    def neighbours(self, rows: Rows | Places) -> Places:
        """Shape (5, rows): each row, then the next, the previous, the next but one, and so on."""
        before, after = self.arrays["before"], self.arrays["after"]
        near = np.empty((5, len(rows)), np.intp)
        near[0], near[1], near[2] = rows, after[rows], before[rows]
        near[3], near[4] = after[near[1]], before[near[2]]
        return near

    def _measure(self, rows: Rows) -> None:
        """Compute the length of rows together with their neighbours."""
        length = self.arrays["length"]
        self.arrays["around"][rows] = length[self.neighbours(rows)].sum(0)

    # -- which rows --

    @property
    def size(self) -> int:
        """How many chunks are here."""
        return self.count - self._dead

    def rows_of(self, seqs: Sequence[int] | NDArray[np.int64]) -> Rows:
        """The rows of chunks, without those that are not here."""
        found = self.located(np.asarray(seqs, np.int64))
        return found[found >= 0]

    def located(self, seqs: NDArray[np.int64]) -> Rows:
        """The row of each chunk; -1 for one that is not here."""
        found: Rows = self._row_of[np.minimum(seqs, len(self._row_of) - 1)]
        return found

    def seqs_of(self, rows: Rows) -> list[int]:
        seqs: list[int] = self.field("seq")[rows].tolist()
        return seqs

    def population(self, asof: str | None) -> Mask | None:
        """The rows that are valid now, or at a moment; None for all."""
        if asof is not None:
            (at,) = milliseconds([asof])
            past: Mask = (self.field("since") <= at) & (self.field("until") > at)
            past &= self.field("live")
            return past
        live: Mask = self.field("live")
        return live if self._dead else None

    def within(self, scope: Scope, only: Collection[int] | None) -> Mask | None:
        """The rows in a scope and, if given, among the chunks `only`; None for all."""
        conditions = [self.population(scope.asof)]
        if scope.source is not None:
            conditions.append(np.isin(self.field("source"), self.names.same(scope.source)))
        if scope.session_id is not None:
            conditions.append(self.field("session") == self.sessions.known(scope.session_id))
        if scope.time_from is not None:
            conditions.append(self.field("stamp") >= milliseconds([scope.time_from])[0])
        if scope.time_to is not None:
            conditions.append(self.field("stamp") <= milliseconds([scope.time_to])[0])
        if scope.min_importance is not None:
            conditions.append(self.field("importance") >= scope.min_importance)
        if only is not None:
            named = np.zeros(self.count, np.bool_)
            named[self.rows_of(list(only))] = True
            conditions.append(named)
        given = [each for each in conditions if each is not None]
        if len(given) < 2:
            return given[0] if given else None
        found: Mask = np.logical_and.reduce(given)
        return found

    def dated(self, rows: Rows | slice, spans: Sequence[tuple[str, str]]) -> Mask:
        """Which of the rows have their time in one of the half-open spans."""
        stamp = self.field("stamp")[rows]
        found = np.zeros(len(stamp), np.bool_)
        for span in spans:
            start, end = milliseconds(span)
            found |= (stamp >= start) & (stamp < end)
        return found

    def years(self) -> tuple[int, int]:
        """The first and the last year that a chunk is about."""
        if self._years is None:
            stamp = self.field("stamp")[self.field("live")]
            ends = (stamp.min(), stamp.max()) if len(stamp) else ()
            years = [moment.astype("M8[ms]").astype(object).year for moment in ends]
            self._years = (years[0], years[1]) if years else (1, 1)
        return self._years

    def named_with(self, rows: Rows, part: str) -> Mask:
        """Which rows have a source or session whose name contains a folded text."""
        source, session = self.field("source")[rows], self.field("session")[rows]
        sources = self.names.having(part, set(source.tolist()))
        sessions = self.sessions.having(part, set(session.tolist()))
        found: Mask = np.isin(source, sources) | np.isin(session, sessions)
        return found

    def in_threads(self, threads: Places) -> Mask:
        """A mask of session numbers; its last element, for rows without a session, is False."""
        these = np.zeros(len(self.sessions) + 1, np.bool_)
        these[threads] = True
        these[NO_ROW] = False
        return these

    # -- averages and neighbours, until the next change --

    @property
    def median_length(self) -> float:
        return self.averages().median

    def averages(self) -> Averages:
        if self._averages is None:
            threads = self.thread_lengths[self.thread_lengths > 0]
            self._averages = Averages(
                sum(length * count for length, count in self._lengths.items()) / max(self.size, 1),
                float(self.field("around").sum(dtype=np.float64)) / max(self.size, 1),
                float(threads.mean(dtype=np.float64)) if len(threads) else 1.0,
                _median(self._lengths),
            )
        return self._averages

    def shifts(self) -> list[Shift]:
        """The pairs of neighbours, by how far they stand apart."""
        if self._shifts is None:
            self._shifts = [self._shift(*each) for each in NEIGHBOURS]
        return self._shifts

    def _shift(self, size: int, weight: float) -> Shift:
        rows = np.arange(self.count, dtype=np.int32)
        later = rows
        for _ in range(size):
            later = self.arrays["after"][later]
        adjacent = later == rows + size
        distant = np.flatnonzero((later != NO_ROW) & ~adjacent).astype(np.int32)
        weights = np.float32(weight) * adjacent[: max(self.count - size, 0)]
        return Shift(size, weight, weights, (distant, later[distant]))


def _terms(rows: Sequence[IndexRow]) -> Part:
    """The terms of some chunks, put together."""
    terms = np.frombuffer(b"".join([row.terms for row in rows]), "<u4")
    halves = np.frombuffer(b"".join([row.weights for row in rows]), np.uint8)
    return Part(terms, halves, np.array([len(row.weights) for row in rows], np.int32))


def _count_words(part: Part) -> Floats:
    """The length of each chunk in words."""
    so_far = np.append(0, np.cumsum(part.weights, dtype=np.int64))
    found: Floats = np.diff(so_far[np.append(0, np.cumsum(part.sizes))]).astype(np.float32)
    found /= HALVES
    return found


def _arrays(count: int) -> dict[str, NDArray[Any]]:
    """Empty arrays for so many rows, and one more element that stands for no chunk."""
    fields = {name: np.zeros(count + 1, kind) for name, kind in _TYPES.items()}
    fields["before"][-1] = fields["after"][-1] = NO_ROW
    return fields


def _with_room(values: NDArray[Any], size: int, empty: int) -> NDArray[Any]:
    """The values, or a longer copy where there are fewer than `size`."""
    if len(values) >= size:
        return values
    grown = np.full(max(size, 2 * len(values)), empty, values.dtype)
    grown[: len(values)] = values
    return grown


def _median(lengths: Mapping[float, int]) -> float:
    """The median of all lengths, given how many have each; 1 where there are none."""
    each = sorted(length for length, count in lengths.items() if count)
    ends = np.cumsum([lengths[length] for length in each])
    if not each:
        return 1.0
    middle = np.searchsorted(ends, [(ends[-1] - 1) // 2, ends[-1] // 2], side="right")
    return float(each[middle[0]] + each[middle[1]]) / 2
