"""Every chunk in memory, as far as finding and ordering need it.

An `Index` is made from rows of the file in one go and then kept up to date row by row; the
store does both (store.py). It knows each chunk's own words, its vectors, what it was said in
and by whom, and which chunks of its session come before and after it.

A chunk's words also speak for its neighbours: BM25 is computed over each chunk's own words and,
for less, those of the chunks one and two places away in its session. Neighbours are looked up
when a question is asked, so an update or a forget changes only the chunk's own postings.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.types import IndexRow, Scope, Vectors, in_blocks, milliseconds
from index.matrix import NOWHERE, Matrix
from index.postings import HALVES, Found, Part, Places, Postings, Rows
from index.quantized import Codes
from text import words

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Located = Callable[[NDArray[np.int64]], Rows]
Parts = Iterator[tuple[Vectors, Rows]]

K1, B = 1.2, 0.75  # BM25's usual constants (Robertson and Zaragoza, 2009)
NEIGHBOURS = ((1, 0.5), (2, 0.25))  # places away in the session, and what its words count
LENT = np.array([1.0] + [weight for _, weight in NEIGHBOURS for _ in range(2)], np.float32)
"""What its words count for a chunk itself and, both ways, for its neighbours."""
QUESTION, TELLS_TIME, UNSPACED = 1, 2, 4  # flags of a text
NOBODY = "manual"  # the source of whoever names none
UNNAMED = "default"  # the session of whoever names none: its chunks follow no thread
FREQUENT = 20  # a term in more than one of so many chunks is looked at in all of them
AT_ONCE = 1 << 20  # frequencies, of each chunk and term, that have room at once: 4 MB
EXACT_BELOW = 5_000  # vectors that are kept as they are: 8 MB of 384 dimensions
LEARNT = 16  # blocks of vectors from whose mean codes begin
LEAST_DEVIATION = 1e-3  # of cosines: where all are equally near, none is nearer than others
SPARE = 64  # rows that there is room for before everything is moved
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
    "around": np.float32,
    "flags": np.uint8,
    "before": np.int32,
    "after": np.int32,
    "live": np.bool_,
}
_TIMES = {"timestamp": "stamp", "valid_from": "since", "valid_until": "until"}
"""Fields by what an IndexRow calls them."""
_NONE = -1  # as an index it leads to the last element, which stands for no chunk


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
class _Shift:
    """The links to what comes so many places later in a session, by rows."""

    size: int
    weight: float
    straight: Floats
    """The weight where the later chunk stands just `size` rows further; 0 elsewhere."""
    crooked: tuple[Rows, Rows]
    """All other links, from and to."""


@dataclass(frozen=True, slots=True)
class _Averages:
    """What follows from the lengths of all chunks, in words."""

    own: float
    around: float
    """Of chunks, each together with its neighbours."""
    thread: float
    """Of sessions."""
    median: float


class Index:
    """Chunks by rows; a row never changes its place. One lock guards it: `with index.lock`."""

    def __init__(
        self,
        rows: Iterable[IndexRow],
        vectors: Callable[[Located], tuple[int, Parts]],
        *,
        past: bool = False,
    ) -> None:
        """Rows are sorted by session, timestamp and place, gone through once and not kept.

        `vectors` is told how to find rows by seqs; it gives how many vectors there are, and in
        parts all of them and whose row each is.

        `past` keeps closed chunks too, for questions about another time; they lend no words.
        """
        self.lock = threading.RLock()
        self.past = past
        self.names, self.sessions = Names(), Names()
        self.count = self.rev = self.changes = 0
        """Grows with each change: what was computed of all rows holds while it stays."""
        self.model = ""
        """The mark of the model that made the vectors; only its own are compared with them."""
        self._dead = 0
        self._orders: dict[int, list[tuple[int, int, int]]] = {}
        self._fields = _fields(0)
        self._row_of = np.full(1, _NONE, np.int32)  # by seq
        self._thread_lengths = np.zeros(1, np.float32)
        self._lengths: Counter[float] = Counter()  # how many chunks have each length
        parts = [self._append(block) for block in in_blocks(rows)]
        self._resize(self.count + SPARE)
        self._link_all()
        self._postings = Postings(parts)
        self._matrix = _matrix(*vectors(self.located))
        self._scratch = np.zeros(0, np.float32)
        self._averages: _Averages | None = None
        self._shifts: list[_Shift] | None = None
        self._years: tuple[int, int] | None = None

    # -- being made and kept up to date --

    def field(self, name: str) -> NDArray[Any]:
        """One number of each row."""
        return self._fields[name][: self.count]

    def _append(self, rows: Sequence[IndexRow]) -> Part:
        """Put some chunks behind all others; their terms."""
        at = slice(self.count, self.count + len(rows))
        terms = _terms(rows)
        if at.stop >= len(self._fields["seq"]):
            self._resize(max(at.stop, 2 * self.count) + SPARE)
        self.count = at.stop
        self.rev = max(self.rev, *(row.rev for row in rows))
        self._write(at, rows, _count_words(terms))
        return terms

    def _write(self, at: slice, rows: Sequence[IndexRow], length: Floats) -> None:
        """Put the numbers of some chunks into their rows."""
        columns = zip(*rows, strict=True)
        given: dict[str, Sequence[Any]] = dict(zip(IndexRow._fields, columns, strict=True))
        for name in ("seq", "place", "flags", "importance"):
            self._fields[name][at] = given[name]
        for name, field in _TIMES.items():
            self._fields[field][at] = milliseconds(given[name])
        self._fields["source"][at] = self.names.of_sources(given["source"])
        self._fields["speaker"][at] = self.names.of_speakers(given["speaker"])
        self._fields["session"][at] = self.sessions.numbers(given["session_id"])
        unnamed = [self.past or session == UNNAMED for session in given["session_id"]]
        thread = np.where(unnamed, _NONE, self._fields["session"][at])
        self._fields["thread"][at] = thread
        self._fields["length"][at] = self._fields["around"][at] = length
        self._fields["before"][at] = self._fields["after"][at] = _NONE
        self._fields["live"][at] = True
        self._row_of = _with_room(self._row_of, max(given["seq"], default=0) + 2, _NONE)
        self._row_of[self._fields["seq"][at]] = np.arange(at.start, at.stop)
        self._lengths.update(length.tolist())
        self._thread_lengths = _with_room(self._thread_lengths, len(self.sessions) + 1, 0)
        np.add.at(self._thread_lengths, thread, np.where(unnamed, 0, length))

    def _link_all(self) -> None:
        """Rows are sorted by session and time: who stands next to whom follows from that."""
        thread, rows = self.field("thread"), np.arange(self.count, dtype=np.int32)
        joined = np.flatnonzero((thread[1:] == thread[:-1]) & (thread[1:] != _NONE))
        self.field("after")[joined] = rows[1:][joined]
        self.field("before")[joined + 1] = rows[joined]
        self._measure(rows)

    def add(self, row: IndexRow, vectors: Vectors | None) -> None:
        """One more chunk, or the news of one that is here."""
        self.drop(row.seq, row.rev)
        at = self.count
        part = self._append([row])
        self._postings.add(at, part.terms, part.weights)
        if vectors is not None:
            self._matrix.add(at, vectors)
        self._link(at)

    def drop(self, seq: int, rev: int) -> None:
        """A chunk that was closed, or that comes anew; nothing where it is not here."""
        self.rev = max(self.rev, rev)
        self.changes += 1
        self._averages = self._shifts = self._years = None
        for row in self.rows_of([seq]).tolist():
            self._unlink(row)
            length, thread = float(self._fields["length"][row]), self._fields["thread"][row]
            self._lengths[length] -= 1
            if thread != _NONE:
                self._thread_lengths[thread] -= length
            self._fields["live"][row] = False
            self._fields["around"][row] = 0
            self._row_of[seq] = _NONE
            self._dead += 1

    def worn(self) -> bool:
        """Whether so much was changed that a new index is better."""
        return self.changes > max(LEAST_REBUILD, self.count // 8)

    def _resize(self, room: int) -> None:
        """Make room for so many rows, one kind of number after the other."""
        for name, values in _fields(room).items():
            values[: self.count] = self._fields[name][: self.count]
            self._fields[name] = values

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
        self._measure(self._near(row))

    def _unlink(self, row: int) -> None:
        thread = int(self._fields["thread"][row])
        if thread == _NONE:
            return
        order = self._order(thread)
        order.remove(self._position(row))
        near = self._near(row)
        self._join(int(self._fields["before"][row]), int(self._fields["after"][row]))
        self._fields["before"][row] = self._fields["after"][row] = _NONE
        self._measure(near)

    def _join(self, earlier: int, later: int) -> None:
        if earlier != _NONE:
            self._fields["after"][earlier] = later
        if later != _NONE:
            self._fields["before"][later] = earlier

    def _near(self, row: int) -> Rows:
        """A row and its neighbours."""
        near = self._neighbours(np.array([row], np.int32)).ravel()
        there: Rows = near[near != _NONE].astype(np.int32)
        return there

    def _neighbours(self, rows: Rows | Places) -> Places:
        """Rows with what stands one and two places after and before each, (5, rows)."""
        before, after = self._fields["before"], self._fields["after"]
        near = np.empty((5, len(rows)), np.intp)
        near[0], near[1], near[2] = rows, after[rows], before[rows]
        near[3], near[4] = after[near[1]], before[near[2]]
        return near

    def _measure(self, rows: Rows) -> None:
        """Add up how long some rows are together with their neighbours."""
        length = self._fields["length"]
        self._fields["around"][rows] = length[self._neighbours(rows)].sum(0)

    # -- which rows --

    @property
    def size(self) -> int:
        """How many chunks are here."""
        return self.count - self._dead

    def rows_of(self, seqs: Sequence[int] | NDArray[np.int64]) -> Rows:
        """The rows of those chunks that are here, in their order."""
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
        """The rows that count, now or at a moment; None where all do."""
        if asof is not None:
            (at,) = milliseconds([asof])
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

    # -- words --

    def lexical(self, terms: Sequence[int | None], population: Mask | None) -> Lexical:
        """BM25 over the chunks of the population; a term of None stands in no chunk."""
        found, idf = self._having(terms, population)
        own, share = self._own(found, idf), np.zeros(self.count, np.float32)
        np.add.at(share, found.rows, (idf / np.float32(idf.sum() + 1e-9))[found.term])
        return Lexical(own if self.past else self._with_neighbours(found, idf), own, share)

    def having(self, terms: Sequence[int | None], within: Mask | None) -> Rows:
        """The rows that have all of some terms among their own."""
        found = self._postings.of(() if None in terms else terms)
        if within is not None:
            found = found.of_rows(within)
        if not found.counts.all() or not len(found.counts):
            return np.zeros(0, np.int32)
        rarest, *others = np.argsort(found.counts, kind="stable").tolist()
        rows = found.of_terms(rarest, rarest + 1).rows
        for other in others:
            having = found.of_terms(other, other + 1).rows
            at = np.minimum(np.searchsorted(having, rows), len(having) - 1)
            rows = rows[having[at] == rows]
            if not len(rows):
                break
        return rows.astype(np.int32)

    def named_with(self, rows: Rows, part: str) -> Mask:
        """Which rows have a source or a session with a folded text in its name."""
        source, session = self.field("source")[rows], self.field("session")[rows]
        sources = self.names.having(part, set(source.tolist()))
        sessions = self.sessions.having(part, set(session.tolist()))
        found: Mask = np.isin(source, sources) | np.isin(session, sessions)
        return found

    def _having(self, terms: Sequence[int | None], population: Mask | None) -> tuple[Found, Floats]:
        """The postings of some terms, and the weight (IDF) of each term."""
        found, size = self._postings.of(terms), self.count
        if population is not None:
            found, size = found.of_rows(population), int(np.count_nonzero(population))
        return found, _idf(found.counts, size)

    def _own(self, found: Found, idf: Floats) -> Floats:
        """BM25 of each chunk's own words."""
        score = np.zeros(self.count, np.float32)
        norm = _norm(self.field("length")[found.rows], self._average().own)
        np.add.at(score, found.rows, _saturated(idf[found.term], found.weights, norm))
        return score

    def _with_neighbours(self, found: Found, idf: Floats) -> Floats:
        """BM25, a chunk's frequency of each term being its own and its neighbours'."""
        score = np.zeros(self.count + 1, np.float32)  # the last one stands for no chunk
        frequent = found.counts * FREQUENT > self.count
        if frequent.any():
            norm = _norm(self.field("around"), self._average().around)
            for place in np.flatnonzero(frequent).tolist():
                near = self._everywhere(found.of_terms(place, place + 1))
                score[:-1] += _saturated(idf[place : place + 1], near, norm)
            found = found.of_others(frequent)
        portion = max(1, AT_ONCE // len(score))
        for start in range(0, len(idf), portion):
            part = found.of_terms(start, start + portion)
            if len(part.rows):
                self._lend(score, part, idf[part.term], start)
        near_score: Floats = score[:-1]
        return near_score

    def _everywhere(self, found: Found) -> Floats:
        """How often all chunks have one term, their own words and their neighbours' together."""
        near = np.zeros(self.count, np.float32)
        near[found.rows] = found.weights
        total: Floats = near.copy()
        for shift in self._shifted():
            total[shift.size :] += near[: -shift.size] * shift.straight
            total[: -shift.size] += near[shift.size :] * shift.straight
            start, end = shift.crooked
            if len(start):
                total[end] += np.float32(shift.weight) * near[start]
                total[start] += np.float32(shift.weight) * near[end]
        return total

    def _lend(self, score: Floats, found: Found, idf: Floats, first: int) -> None:
        """Add what some terms, from the `first` on, say of the chunks that have them nearby.

        Frequencies are added up in a cell for each term and chunk. What has several ways to it
        counts once, since a cell is empty again when it has been read.
        """
        near = self._neighbours(found.rows)
        cells = near + (found.term - first) * len(score)
        room = (int(found.term[-1]) - first + 1) * len(score)
        if room > len(self._scratch):
            self._scratch = np.zeros(room, np.float32)
        scratch = self._scratch
        for way, weight in zip(cells, LENT, strict=True):
            scratch[way] += weight * found.weights
        frequency = np.empty(near.shape, np.float32)
        for at, way in enumerate(cells):
            frequency[at] = scratch[way]
            scratch[way] = 0
        norm = _norm(self._fields["around"][near], self._average().around)
        np.add.at(score, near.ravel(), _saturated(idf, frequency, norm).ravel())

    def threads(self, terms: Sequence[int | None], rows: Rows, population: Mask | None) -> Floats:
        """BM25 of the sessions that rows belong to, each session one long text."""
        found, idf = self._having(terms, population)
        thread = self.field("thread")
        asked = thread[rows].astype(np.intp)
        mine = np.flatnonzero(self._these(asked))
        lookup = np.full(len(self.sessions) + 1, len(mine))
        lookup[mine] = np.arange(len(mine))
        at = lookup.take(thread[found.rows])
        width = len(mine) + 1  # the last one stands for every other session, and for none
        counts = np.bincount(found.term * width + at, found.weights, len(idf) * width)
        norm = _norm(np.append(self._thread_lengths[mine], np.float32(0)), self._average().thread)
        frequency = counts.astype(np.float32).reshape(len(idf), width)
        score: Floats = _saturated(idf[:, None], frequency, norm).sum(0)[lookup[asked]]
        alone = asked == _NONE
        if alone.any():
            score[alone] = self._own(found, idf)[rows[alone]]
        return score

    def _these(self, threads: Places) -> Mask:
        """Which numbers are those of some sessions; the last element is for what has none."""
        these = np.zeros(len(self.sessions) + 1, np.bool_)
        these[threads] = True
        these[_NONE] = False
        return these

    # -- vectors --

    def meaning(self, query: Vectors, population: Mask | None, within: Mask | None) -> Meaning:
        """Cosines with a unit vector, float32 of shape (dimension,).

        Of very many chunks they are near ones; those of the best within a scope are nearer.
        """
        cosine = self._matrix.cosines(query, self.count, within)
        known = cosine > NOWHERE
        if population is not None:
            known &= population
        return Meaning(cosine, _standard(cosine, known))

    def best_of_thread(self, values: Floats, rows: Rows) -> Floats:
        """The highest value in the session of each of some rows.

        Rows may have come since the values were computed.
        """
        thread = self.field("thread")
        asked = thread[rows].astype(np.intp)
        mine = self._these(asked)
        members = np.flatnonzero(mine.take(thread[: len(values)]))
        members = members[self.field("live")[members]]
        best = np.full(len(mine), -np.inf, np.float32)
        np.maximum.at(best, thread[members], values[members])
        together: Floats = best[asked]
        alone = ~np.isfinite(together)
        if alone.any():
            own = np.append(values, np.float32(0))[np.minimum(rows[alone], len(values))]
            together[alone] = own
        return together

    # -- what follows from lengths and links --

    @property
    def median_length(self) -> float:
        return self._average().median

    def _average(self) -> _Averages:
        if self._averages is None:
            threads = self._thread_lengths[self._thread_lengths > 0]
            self._averages = _Averages(
                sum(length * count for length, count in self._lengths.items()) / max(self.size, 1),
                float(self.field("around").sum(dtype=np.float64)) / max(self.size, 1),
                float(threads.mean(dtype=np.float64)) if len(threads) else 1.0,
                _median(self._lengths),
            )
        return self._averages

    def _shifted(self) -> list[_Shift]:
        if self._shifts is None:
            self._shifts = [self._shift(*each) for each in NEIGHBOURS]
        return self._shifts

    def _shift(self, size: int, weight: float) -> _Shift:
        rows = np.arange(self.count, dtype=np.int32)
        later = rows
        for _ in range(size):
            later = self._fields["after"][later]
        straight = later == rows + size
        crooked = np.flatnonzero((later != _NONE) & ~straight).astype(np.int32)
        weights = np.float32(weight) * straight[: max(self.count - size, 0)]
        return _Shift(size, weight, weights, (crooked, later[crooked]))


class Names:
    """Names as numbers: 0, 1, ... in the order in which they became known."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._named: dict[str, list[int]] = {}  # without names that are their own keys
        self._same: dict[str, list[int]] = {}  # of sources

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, name: str) -> int:
        """The number of a name; a new one for a new name."""
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._numbers)
            key = words.name_key(name)
            self._keys.append(name if key == name else key)  # one text in memory, not two
            if key != name:
                self._named.setdefault(key, []).append(known)
        return known

    def numbers(self, names: Sequence[str]) -> list[int]:
        """The number of each of many names."""
        numbers = {name: self.number(name) for name in dict.fromkeys(names)}
        return [numbers[name] for name in names]

    def of_sources(self, names: Sequence[str]) -> list[int]:
        """The number of each of many sources, which are also found in other cases."""
        for name in dict.fromkeys(names):
            same = self._same.setdefault(_ascii_lower(name), [])
            if self.number(name) not in same:
                same.append(self.number(name))
        return self.numbers(names)

    def of_speakers(self, names: Sequence[str]) -> list[int]:
        """The number of each of many speakers, whom nothing tells apart but their keys."""
        keys = {name: words.name_key(name) for name in dict.fromkeys(names)}
        return self.numbers([name if keys[name] == NOBODY else keys[name] for name in names])

    def having(self, part: str, numbers: Iterable[int]) -> list[int]:
        """Those of the numbers whose name has a folded text in it."""
        return [number for number in numbers if part in self._keys[number]]

    def known(self, name: str) -> int:
        return self._numbers.get(name, _NONE)

    def same(self, source: str) -> list[int]:
        """The numbers of a source in whatever case, as SQLite's NOCASE has it."""
        return self._same.get(_ascii_lower(source), [])

    def named(self, keys: Iterable[str]) -> list[list[int]]:
        """For each of the keys (words.name_keys) that is a name: the numbers it has."""
        groups = []
        for key in keys:
            itself = [self._numbers[key]] if key in self._numbers and key != NOBODY else []
            groups.append(itself + self._named.get(key, []))
        return [group for group in groups if group]


def _ascii_lower(text: str) -> str:
    return text.encode().lower().decode()


def _terms(rows: Sequence[IndexRow]) -> Part:
    """The terms of some chunks."""
    terms = np.frombuffer(b"".join([row.terms for row in rows]), "<u4")
    halves = np.frombuffer(b"".join([row.weights for row in rows]), np.uint8)
    return Part(terms, halves, np.array([len(row.weights) for row in rows], np.int32))


def _count_words(part: Part) -> Floats:
    """How many words each of some chunks has."""
    so_far = np.append(0, np.cumsum(part.weights, dtype=np.int64))
    found: Floats = np.diff(so_far[np.append(0, np.cumsum(part.sizes))]).astype(np.float32)
    found /= HALVES
    return found


def _fields(count: int) -> dict[str, NDArray[Any]]:
    """Room for the numbers of so many rows, and one more that stands for no chunk."""
    fields = {name: np.zeros(count + 1, kind) for name, kind in _FIELDS.items()}
    fields["before"][-1] = fields["after"][-1] = _NONE
    return fields


def _with_room(values: NDArray[Any], size: int, empty: int) -> NDArray[Any]:
    """The values, or a copy that has room for so many."""
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


def _idf(having: Places, size: int) -> Floats:
    """The weight of terms, of which so many of `size` chunks have each; above 0 for any."""
    rarity = (size - having + 0.5) / (having + 0.5)
    return np.log1p(rarity, dtype=np.float64).astype(np.float32)


def _saturated(idf: Floats, frequency: Floats, norm: Floats) -> Floats:
    """BM25's share of a term."""
    found: Floats = idf * np.float32(K1 + 1) * frequency / (frequency + norm)
    return found


def _norm(length: Floats, average: float) -> Floats:
    """BM25's K1 * (1 - B + B * length / average), for texts of these lengths."""
    found: Floats = np.float32(K1 * B / max(average, 1e-9)) * length
    found += np.float32(K1 * (1 - B))
    return found


def _matrix(count: int, parts: Parts) -> Matrix | Codes:
    """So many vectors, which come in parts; of very many their codes."""
    first = list(parts if count <= EXACT_BELOW else islice(parts, LEARNT))
    first = first or [(np.zeros((0, 0), np.float32), np.zeros(0, np.int32))]
    vectors, owners = (np.concatenate(some) for some in zip(*first, strict=True))
    first.clear()
    if count <= EXACT_BELOW:
        return Matrix(vectors, owners)
    held = Codes(vectors, owners)
    for more, whose in parts:
        held.extend(more, whose)
    return held


def _standard(values: Floats, known: Mask) -> Floats:
    """Values in standard deviations above the mean of the known ones; 0 for all others."""
    count = int(np.count_nonzero(known))
    if not count:
        return np.zeros(len(values), np.float32)
    standard: Floats = values - (
        values if count == len(values) else values[known]
    ).sum() / np.float32(count)
    if count < len(values):
        standard *= known
    deviation = float(standard @ standard / count) ** 0.5
    standard *= np.float32(1 / max(deviation, LEAST_DEVIATION))
    return standard
