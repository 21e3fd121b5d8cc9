"""Every chunk in memory, as far as finding and ordering need it.

An `Index` is made from rows of the file in one go and then kept up to date row by row; the
store does both (store.py). It knows each chunk's own words, its vectors, what it was said in
and by whom, and which chunks of its session come before and after it.

A chunk's words also speak for its neighbours: BM25 is computed over each chunk's own words and,
for less, those of the chunks one and two places away in its session. Neighbours are looked up
when a question is asked, so an update or a forget changes only the chunk's own postings.
"""

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import words
from codes import Codes
from matrix import NOWHERE, Matrix
from postings import HALVES, Postings, Rows
from rows import IndexRow, Scope, Vectors

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Exact = Callable[[Sequence[int], Vectors], Floats]

K1, B = 1.2, 0.75  # BM25's usual constants (Robertson and Zaragoza, 2009)
NEIGHBOURS = ((1, 0.5), (2, 0.25))  # places away in the session, and what its words count
QUESTION, TELLS_TIME, UNSPACED = 1, 2, 4  # flags of a text
NOBODY = "manual"  # the source of whoever names none
UNNAMED = "default"  # the session of whoever names none: its chunks follow no thread
FREQUENT = 20  # a term in more than one of so many chunks is looked at in all of them
EXACT_BELOW = 20_000  # vectors that are kept as they are: 31 MB of 384 dimensions
COMPARED = 200  # chunks, the best by their codes, whose vectors are read and compared exactly
LEAST_DEVIATION = 1e-3  # of cosines: where all are equally near, none is nearer than others
LEAST_REBUILD = 1024  # changed rows that are never worth a new index

_FIELDS: dict[str, Any] = {
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
    "flags": np.uint8,
    "before": np.int32,
    "after": np.int32,
    "live": np.bool_,
}
_NONE = -1
NEVER = "10000-01-01T00:00:00.000Z"  # after the last moment that can be stored


@dataclass(frozen=True, slots=True)
class Lexical:
    """How well each chunk's words answer a query, by rows; float32, one number a row."""

    score: Floats
    """BM25 of its own words and, for less, its neighbours'."""
    own: Floats
    """BM25 of its own words alone."""
    share: Floats
    """What part of the query's weight (IDF) its own words make up, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """How near each chunk is to a query's vector, by rows; float32, one number a row."""

    cosine: Floats
    """Of its best window; NOWHERE for a chunk without a vector."""
    standard: Floats
    """The same in standard deviations above the mean of all; 0 for a chunk without a vector."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The links to what comes so many places later in a session."""

    size: int
    weight: float
    later: Rows
    earlier: Rows
    straight: Floats
    """1 where the later chunk stands just `size` rows further, where a shift leads to it."""
    crooked: tuple[Rows, Rows]
    """All other links, from and to."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """What follows from the chunks' lengths and their order in sessions."""

    steps: list[_Step]
    own_norm: Floats
    norm: Floats
    thread_norm: Floats
    median_length: float


class Index:
    """Chunks by rows; a row never changes its place. One lock guards it: `with index.lock`."""

    def __init__(
        self,
        rows: Iterable[IndexRow],
        vectors: Callable[[NDArray[np.int64]], tuple[Vectors, Rows]],
        *,
        past: bool = False,
    ) -> None:
        """`vectors` is given the seq of each row, and gives all vectors and whose row each is.

        `past` keeps closed chunks too, for questions about another time; they lend no words.
        """
        self.lock = threading.RLock()
        self.past = past
        self.names = Names()
        ordered = sorted(rows, key=lambda row: (row.session_id, row.timestamp, row.place))
        self.count = len(ordered)
        self.rev = max((row.rev for row in ordered), default=0)
        self._orders: dict[int, list[tuple[int, int, int]]] = {}
        self._layout: _Layout | None = None
        self._changes = self._dead = 0
        self._fields = {name: np.zeros(self.count, kind) for name, kind in _FIELDS.items()}
        self._write(slice(0, self.count), ordered)
        self._link_all()
        self._postings = Postings(*_postings(ordered))
        self._row_of = dict(zip(self.field("seq").tolist(), range(self.count), strict=True))
        found, owners = vectors(self.field("seq"))
        kind = Matrix if len(owners) <= EXACT_BELOW else Codes
        self._matrix: Matrix | Codes = kind(found, owners)
        self._buffer = np.zeros(self.count, np.float32)

    # -- being made and kept up to date --

    def field(self, name: str) -> NDArray[Any]:
        """One number of each row."""
        return self._fields[name][: self.count]

    def _write(self, at: slice, rows: Sequence[IndexRow]) -> None:
        """Put the numbers of some chunks into their rows."""
        for name in ("seq", "place", "flags", "importance"):
            self._fields[name][at] = [getattr(row, name) for row in rows]
        for name, times in (
            ("stamp", [row.timestamp for row in rows]),
            ("since", [row.valid_from for row in rows]),
            ("until", [row.valid_until or NEVER for row in rows]),
        ):
            self._fields[name][at] = _milliseconds(times)
        for name, field in (
            ("source", "source"),
            ("speaker", "speaker"),
            ("session_id", "session"),
        ):
            self._fields[field][at] = [self.names.number(getattr(row, name)) for row in rows]
        unnamed = [self.past or row.session_id == UNNAMED for row in rows]
        self._fields["thread"][at] = np.where(unnamed, _NONE, self._fields["session"][at])
        self._fields["length"][at] = [_length(row) for row in rows]
        for name, value in (("live", True), ("before", _NONE), ("after", _NONE)):
            self._fields[name][at] = value

    def _link_all(self) -> None:
        """Rows are sorted by session and time: who stands next to whom follows from that."""
        thread, rows = self.field("thread"), np.arange(self.count, dtype=np.int32)
        joined = np.flatnonzero((thread[1:] == thread[:-1]) & (thread[1:] != _NONE))
        self.field("after")[joined] = rows[1:][joined]
        self.field("before")[joined + 1] = rows[joined]

    def add(self, row: IndexRow, vectors: Vectors | None) -> None:
        """One more chunk, or the news of one that is here."""
        self.drop(row.seq, row.rev)
        at = self.count
        if at == len(self._fields["seq"]):
            self._grow()
        self.count += 1
        self._write(slice(at, at + 1), [row])
        self._row_of[row.seq] = at
        terms, _, halves = _postings([row])
        self._postings.add(at, terms, halves)
        if vectors is not None:
            self._matrix.add(at, vectors)
        self._link(at)

    def drop(self, seq: int, rev: int) -> None:
        """A chunk that was closed, or that comes anew; nothing where it is not here."""
        self.rev = max(self.rev, rev)
        self._changes += 1
        self._layout = None
        row = self._row_of.pop(seq, None)
        if row is not None:
            self._unlink(row)
            self._fields["live"][row] = False
            self._dead += 1

    def worn(self) -> bool:
        """Whether so much was changed that a new index is better."""
        return self._changes > max(LEAST_REBUILD, self.count // 8)

    def _grow(self) -> None:
        capacity = max(64, 2 * self.count)
        for name, old in self._fields.items():
            self._fields[name] = np.zeros(capacity, old.dtype)
            self._fields[name][: self.count] = old[: self.count]
        self._buffer = np.zeros(capacity, np.float32)

    def _order(self, thread: int) -> list[tuple[int, int, int]]:
        """The rows of a session in its order, each behind what it is sorted by."""
        if thread not in self._orders:
            rows = np.flatnonzero((self.field("thread") == thread) & self.field("live"))
            self._orders[thread] = sorted(map(self._position, rows.tolist()))
        return self._orders[thread]

    def _position(self, row: int) -> tuple[int, int, int]:
        return int(self._fields["stamp"][row]), int(self._fields["place"][row]), row

    def _link(self, row: int) -> None:
        """Put a row between those that come before and after it in its session."""
        thread = int(self._fields["thread"][row])
        if thread == _NONE:
            return
        order, position = self._order(thread), self._position(row)
        if position not in order[-1:]:  # it is there already where the order was just made
            at = bisect_left(order, position)
            if order[at : at + 1] != [position]:
                order.insert(at, position)
        at = bisect_left(order, position)
        before = order[at - 1][2] if at else _NONE
        after = order[at + 1][2] if at + 1 < len(order) else _NONE
        self._join(before, row)
        self._join(row, after)

    def _unlink(self, row: int) -> None:
        thread = int(self._fields["thread"][row])
        if thread == _NONE:
            return
        order = self._order(thread)
        order.remove(self._position(row))
        self._join(int(self._fields["before"][row]), int(self._fields["after"][row]))
        self._fields["before"][row] = self._fields["after"][row] = _NONE

    def _join(self, earlier: int, later: int) -> None:
        if earlier != _NONE:
            self._fields["after"][earlier] = later
        if later != _NONE:
            self._fields["before"][later] = earlier

    # -- which rows --

    @property
    def size(self) -> int:
        """How many chunks are here."""
        return self.count - self._dead

    def rows_of(self, seqs: Iterable[int]) -> Rows:
        """The rows of those chunks that are here, in their order."""
        found = (self._row_of.get(seq) for seq in seqs)
        return np.array([row for row in found if row is not None], np.int32)

    def located(self, seqs: NDArray[np.int64]) -> Rows:
        """The row of each chunk; -1 for one that is not here."""
        return np.array([self._row_of.get(seq, _NONE) for seq in seqs.tolist()], np.int32)

    def seqs_of(self, rows: Rows) -> list[int]:
        seqs: list[int] = self.field("seq")[rows].tolist()
        return seqs

    def population(self, asof: str | None) -> Mask | None:
        """The rows that count, now or at a moment; None where all do."""
        if asof is not None:
            (at,) = _milliseconds([asof])
            past: Mask = (self.field("since") <= at) & (self.field("until") > at)
            past &= self.field("live")
            return past
        live: Mask = self.field("live")
        return live if self._dead else None

    def within(self, scope: Scope, only: Collection[int] | None) -> Mask | None:
        """The rows that a scope allows; None where all are. `only`: chunks it names one by one."""
        conditions = [self.population(scope.asof)]
        if scope.source is not None:
            conditions.append(np.isin(self.field("source"), self.names.same(scope.source)))
        if scope.session_id is not None:
            conditions.append(self.field("session") == self.names.known(scope.session_id))
        if scope.time_from is not None:
            conditions.append(self.field("stamp") >= _milliseconds([scope.time_from])[0])
        if scope.time_to is not None:
            conditions.append(self.field("stamp") <= _milliseconds([scope.time_to])[0])
        if scope.min_importance is not None:
            conditions.append(self.field("importance") >= scope.min_importance)
        if only is not None:
            named = np.zeros(self.count, np.bool_)
            named[self.rows_of(only)] = True
            conditions.append(named)
        given = [each for each in conditions if each is not None]
        if not given:
            return None
        found: Mask = np.all(given, axis=0)
        return found

    def dated(self, rows: Rows, spans: Sequence[tuple[str, str]]) -> Mask:
        """Which of the rows have their time in one of the half-open spans."""
        stamp, found = self.field("stamp")[rows], np.zeros(len(rows), np.bool_)
        for span in spans:
            start, end = _milliseconds(span)
            found |= (stamp >= start) & (stamp < end)
        return found

    def years(self) -> tuple[int, int]:
        """The first and the last year that a chunk is about."""
        stamp = self.field("stamp")[self.field("live")]
        if not len(stamp):
            return 1, 1
        first, last = stamp.min().astype("M8[ms]"), stamp.max().astype("M8[ms]")
        return first.astype(object).year, last.astype(object).year

    # -- words --

    def lexical(self, terms: Sequence[int | None], population: Mask | None) -> Lexical:
        """BM25 over the chunks of the population; a term of None stands in no chunk."""
        size = self.count if population is None else int(np.count_nonzero(population))
        layout = self._laid_out()
        score, own, share = (np.zeros(self.count, np.float32) for _ in range(3))
        total = 1e-9
        for term in terms:
            rows, frequency = self._having(term, population)
            idf = _idf(len(rows), size)
            total += idf
            if len(rows):
                share[rows] += idf
                own[rows] += _saturated(idf, frequency, layout.own_norm[rows])
                if not self.past:
                    self._with_neighbours(score, rows, frequency, idf, layout)
        return Lexical(own if self.past else score, own, share / np.float32(total))

    def having(self, term: int | None, within: Mask | None) -> Rows:
        """The rows that have a term among their own words."""
        return self._having(term, within)[0]

    def _having(self, term: int | None, within: Mask | None) -> tuple[Rows, Floats]:
        if term is None:
            return np.zeros(0, np.int32), np.zeros(0, np.float32)
        rows, frequency = self._postings.of(term)
        if within is None:
            return rows, frequency
        kept = within[rows]
        return rows[kept], frequency[kept]

    def _with_neighbours(
        self, score: Floats, rows: Rows, frequency: Floats, idf: float, layout: _Layout
    ) -> None:
        """Add BM25 of one term, each chunk's frequency being its own and its neighbours'."""
        near = self._buffer[: self.count]
        near[rows] = frequency
        if len(rows) * FREQUENT > self.count:
            total = near.copy()
            for step in layout.steps:
                _lend_everywhere(total, near, step)
            score += _saturated(idf, total, layout.norm)
            near[:] = 0
            return
        touched = [rows]
        for step in layout.steps:
            for links in (step.later, step.earlier):
                to = links[rows]
                linked = to != _NONE
                near[to[linked]] += step.weight * frequency[linked]
                touched.append(to[linked])
        every = np.unique(np.concatenate(touched))
        score[every] += _saturated(idf, near[every], layout.norm[every])
        near[every] = 0

    def threads(self, terms: Sequence[int | None], rows: Rows, population: Mask | None) -> Floats:
        """BM25 of the sessions that rows belong to, each session one long text."""
        size = self.count if population is None else int(np.count_nonzero(population))
        layout = self._laid_out()
        thread = self.field("thread")
        mine, place = np.unique(thread[rows], return_inverse=True)
        lookup = np.full(len(self.names) + 1, _NONE, np.int32)  # the last one is for _NONE
        lookup[mine] = np.arange(len(mine))
        lookup[_NONE] = _NONE
        norm = layout.thread_norm[mine]
        scores = np.zeros(len(mine), np.float32)
        alone = thread[rows] == _NONE
        single = np.zeros(len(rows), np.float32)
        for term in terms:
            having, frequency = self._having(term, population)
            if not len(having):
                continue
            idf = _idf(len(having), size)
            at = lookup[thread[having]]
            inside = at != _NONE
            counts = np.bincount(at[inside], frequency[inside], len(mine)).astype(np.float32)
            scores += _saturated(idf, counts, norm)
            self._buffer[having] = frequency
            single += _saturated(idf, self._buffer[rows], layout.own_norm[rows])
            self._buffer[having] = 0
        return np.where(alone, single, scores[place])

    # -- vectors --

    def meaning(
        self, query: Vectors, population: Mask | None, within: Mask | None, exact: Exact
    ) -> Meaning:
        """Cosines with a unit vector, float32 of shape (dimension,).

        Of very many chunks they are near ones, but for the best of those within a scope: `exact`
        is given the seqs of those, and the query, and gives their cosines.
        """
        cosine = self._matrix.cosines(query, self.count)
        if isinstance(self._matrix, Codes):
            near = (cosine - np.float32(NOWHERE)) * (1 if within is None else within)
            best = np.argpartition(-near, min(COMPARED, self.count - 1))[:COMPARED]
            best = best[near[best] > 0]
            cosine[best] = exact(self.seqs_of(best.astype(np.int32)), query)
        known = cosine > NOWHERE if population is None else (cosine > NOWHERE) & population
        values = cosine[known]
        if not len(values):
            return Meaning(cosine, np.zeros(self.count, np.float32))
        deviation = max(float(values.std()), LEAST_DEVIATION)
        standard = (cosine - values.mean()) / np.float32(deviation)
        return Meaning(cosine, np.where(known, standard, np.float32(0)))

    def best_of_thread(self, values: Floats, rows: Rows) -> Floats:
        """The highest value in the session of each of some rows.

        Rows may have come since the values were computed.
        """
        thread, alone = self.field("thread"), np.append(values, np.float32(0))
        live = np.flatnonzero(self.field("live")[: len(values)])
        best = np.full(len(self.names) + 1, -np.inf, np.float32)
        np.maximum.at(best, thread[live], values[live])
        own = alone[np.minimum(rows, len(values))]
        together = best[thread[rows]]
        return np.where((thread[rows] == _NONE) | ~np.isfinite(together), own, together)

    # -- what follows from lengths and links --

    @property
    def median_length(self) -> float:
        return self._laid_out().median_length

    def _laid_out(self) -> _Layout:
        if self._layout is None:
            self._layout = self._lay_out()
        return self._layout

    def _lay_out(self) -> _Layout:
        length, live, thread = self.field("length"), self.field("live"), self.field("thread")
        steps = [] if self.past else [self._step(size, weight) for size, weight in NEIGHBOURS]
        around = length.copy()
        for step in steps:
            for links in (step.later, step.earlier):
                linked = links != _NONE
                around[linked] += length[links[linked]]
        inside = live & (thread != _NONE)
        threads = np.bincount(thread[inside], length[inside], len(self.names) + 1)
        return _Layout(
            steps,
            _norm(length, live),
            _norm(around, live),
            _norm(threads.astype(np.float32), threads > 0),
            float(np.median(length[live])) if live.any() else 1.0,
        )

    def _step(self, size: int, weight: float) -> _Step:
        later, earlier = (self._follow(name, size) for name in ("after", "before"))
        rows = np.arange(self.count, dtype=np.int32)
        straight = later == rows + size
        crooked = np.flatnonzero((later != _NONE) & ~straight).astype(np.int32)
        ends = (crooked, later[crooked])
        return _Step(size, weight, later, earlier, straight.astype(np.float32), ends)

    def _follow(self, name: str, size: int) -> Rows:
        links = self.field(name)
        found: Rows = links.copy()
        for _ in range(size - 1):
            found = np.where(found == _NONE, _NONE, links[found]).astype(np.int32)
        return found


class Names:
    """Sources, speakers and sessions as numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._same: dict[str, list[int]] = {}
        self._named: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, name: str) -> int:
        """The number of a name; a new one for a new name."""
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._numbers)
            self._same.setdefault(_ascii_lower(name), []).append(known)
            if name != NOBODY:
                self._named.setdefault(words.name_key(name), []).append(known)
        return known

    def known(self, name: str) -> int:
        return self._numbers.get(name, _NONE)

    def same(self, name: str) -> list[int]:
        """The numbers of a name in whatever case, as SQLite's NOCASE has it."""
        return self._same.get(_ascii_lower(name), [])

    def named(self, keys: Iterable[str]) -> list[list[int]]:
        """For each of the keys (words.name_keys) that is a name: the numbers it has."""
        return [self._named[key] for key in keys if key in self._named]


def _ascii_lower(text: str) -> str:
    return text.encode().lower().decode()


def _postings(
    rows: Sequence[IndexRow],
) -> tuple[NDArray[np.uint32], Rows, NDArray[np.uint8]]:
    """Terms, rows and weights of chunks, a posting each."""
    terms = np.frombuffer(b"".join(row.terms for row in rows), "<u4")
    halves = np.frombuffer(b"".join(row.weights for row in rows), np.uint8)
    places = np.arange(len(rows), dtype=np.int32)
    return terms, np.repeat(places, [len(row.weights) for row in rows]), halves


def _length(row: IndexRow) -> float:
    """How many words a chunk has."""
    return sum(row.weights) / HALVES


def _milliseconds(times: Sequence[str]) -> NDArray[np.int64]:
    """Stored times as numbers in the same order."""
    moments = np.array([time[:-1] for time in times], "M8[ms]")
    return moments.astype(np.int64)


def _idf(having: int, size: int) -> float:
    """The weight of a term that so many of `size` chunks have; above 0 for any."""
    return math.log(1 + (size - having + 0.5) / (having + 0.5))


def _saturated(idf: float, frequency: Floats, norm: Floats) -> Floats:
    """BM25's share of one term."""
    found: Floats = np.float32(idf * (K1 + 1)) * frequency / (frequency + norm)
    return found


def _norm(length: Floats, counted: Mask) -> Floats:
    """BM25's K1 * (1 - B + B * length / average), for texts of these lengths."""
    average = float(length[counted].mean()) if counted.any() else 1.0
    found: Floats = np.float32(K1) * (1 - B + B * length / np.float32(max(average, 1e-9)))
    return found


def _lend_everywhere(total: Floats, near: Floats, step: _Step) -> None:
    """Give every chunk its neighbours' frequencies of a term, both ways along one step."""
    size, weight = step.size, np.float32(step.weight)
    total[size:] += weight * near[:-size] * step.straight[:-size]
    total[:-size] += weight * near[size:] * step.straight[:-size]
    start, end = step.crooked
    total[end] += weight * near[start]
    total[start] += weight * near[end]
