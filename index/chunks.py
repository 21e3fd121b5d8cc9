"""The index: every chunk in memory, as far as search and ranking need it.

An `Index` is built from rows of the database at once, and then updated row by row; the store does
both. Words are scored by BM25, meaning by the cosine of vectors.

BM25 is computed over a chunk's own words and, with less weight, those of the chunks one and two
places away in its session. Neighbours are looked up at query time, so an update or a forget
changes only the chunk's own postings.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from core.types import IndexRow, Vectors
from index.fields import Fields, Floats, Mask
from index.matrix import NO_VECTOR, Matrix
from index.postings import Found, Places, Postings, Rows
from index.quantized import Codes
from index.row_numbers import NO_ROW

Located = Callable[[NDArray[np.int64]], Rows]
Parts = Iterator[tuple[Vectors, Rows]]

K1, B = 1.2, 0.75  # BM25's usual constants (Robertson and Zaragoza, 2009)
NEIGHBOUR_WEIGHTS = np.array((1, 0.5, 0.5, 0.25, 0.25), np.float32)
"""Of a chunk's own words and of its neighbours', in the order of Fields.neighbours."""
QUESTION, TELLS_TIME, UNSPACED = 1, 2, 4  # flags of a text
FREQUENT = 20  # a term that more than one in so many chunks has is scored in all chunks at once
MAX_CELLS = 1 << 20  # pairs of chunk and term scored at a time: 4 MB
EXACT_BELOW = 5_000  # up to so many vectors are kept as they are: 8 MB of 384 dimensions
TRAINING_BLOCKS = 16  # blocks of vectors from whose mean the codes are computed
MIN_DEVIATION = 1e-3  # of cosines: where all are equally near, none is nearer than others


@dataclass(frozen=True, slots=True)
class Lexical:
    """How well each chunk's words answer a query, by rows; float32, one number a row."""

    score: Floats  # BM25 of its own words and, for less, its neighbours'
    own: Floats  # BM25 of its own words alone
    share: Floats  # what part of the query's weight (IDF) its own words make up, 0 to 1


@dataclass(frozen=True, slots=True)
class Meaning:
    """How near each chunk is to a query's vector, by rows; float32, one number a row."""

    cosine: Floats  # of its best window; NO_VECTOR for a chunk without a vector
    standard: Floats
    """The same in standard deviations above the mean of all; 0 for a chunk without a vector."""


class Index(Fields):
    """Search and ranking over all chunks. One lock guards it: `with index.lock`."""

    def __init__(
        self,
        rows: Iterable[IndexRow],
        vectors: Callable[[Located], tuple[int, Parts]],
        *,
        past: bool = False,
    ) -> None:
        """`rows` are sorted by session, timestamp and place; they are read once and not kept.

        `vectors` gets a function from seqs to rows; it returns the number of all vectors, and in
        parts the vectors with the row of each.
        """
        super().__init__(past=past)
        self.lock = threading.RLock()
        self.model = ""
        """The version of the model that made the vectors; only its own are compared with them."""
        self._postings = Postings(self.load(rows))
        self._matrix = _matrix(*vectors(self.located))
        self._scratch = np.zeros(0, np.float32)

    def add(self, row: IndexRow, vectors: Vectors | None) -> None:
        """Add a chunk, or the new values of one that is here."""
        self.drop(row.seq, row.rev)
        at = self.count
        part = self.append([row])
        self._postings.add(at, part.terms, part.weights)
        if vectors is not None:
            self._matrix.add(at, vectors)
        self.link(at)

    # -- words --

    def lexical(self, terms: Sequence[int | None], population: Mask | None) -> Lexical:
        """BM25 over the chunks of the population; None is a term that no chunk has."""
        found, idf = self._having(terms, population)
        own, share = self._own(found, idf), np.zeros(self.count, np.float32)
        np.add.at(share, found.rows, (idf / np.float32(idf.sum() + 1e-9))[found.term])
        return Lexical(own if self.past else self._with_neighbours(found, idf), own, share)

    def having(self, terms: Sequence[int | None], within: Mask | None) -> Rows:
        """The rows whose own words include all terms."""
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

    def _having(self, terms: Sequence[int | None], population: Mask | None) -> tuple[Found, Floats]:
        """The postings of some terms, and the weight (IDF) of each term."""
        found, size = self._postings.of(terms), self.count
        if population is not None:
            found, size = found.of_rows(population), int(np.count_nonzero(population))
        return found, _idf(found.counts, size)

    def _own(self, found: Found, idf: Floats) -> Floats:
        """BM25 of each chunk's own words."""
        score = np.zeros(self.count, np.float32)
        norm = _norm(self.field("length")[found.rows], self.averages().own)
        np.add.at(score, found.rows, _saturated(idf[found.term], found.weights, norm))
        return score

    def _with_neighbours(self, found: Found, idf: Floats) -> Floats:
        """BM25 where the frequency of a term also counts the neighbours."""
        score = np.zeros(self.count + 1, np.float32)  # the last one stands for no chunk
        # By live chunks alone: terms of another order add up to another last digit.
        frequent = found.counts * FREQUENT > self.size
        if frequent.any():
            norm = _norm(self.field("around"), self.averages().around)
            for place in np.flatnonzero(frequent).tolist():
                near = self._frequencies(found.of_terms(place, place + 1))
                score[:-1] += _saturated(idf[place : place + 1], near, norm)
            found = found.of_others(frequent)
        portion = max(1, MAX_CELLS // (self.size + 1))
        for start in range(0, len(idf), portion):
            part = found.of_terms(start, start + portion)
            if len(part.rows):
                self._add_scores(score, part, idf[part.term], start)
        near_score: Floats = score[:-1]
        return near_score

    def _frequencies(self, found: Found) -> Floats:
        """How often each chunk and its neighbours have one term."""
        near = np.zeros(self.count, np.float32)
        near[found.rows] = found.weights
        total: Floats = near.copy()
        for shift in self.shifts():
            total[shift.size :] += near[: -shift.size] * shift.adjacent
            total[: -shift.size] += near[shift.size :] * shift.adjacent
            start, end = shift.distant
            if len(start):
                total[end] += np.float32(shift.weight) * near[start]
                total[start] += np.float32(shift.weight) * near[end]
        return total

    def _add_scores(self, score: Floats, found: Found, idf: Floats, first: int) -> None:
        """Add the scores of some terms, from `first` on, to the chunks that are near them.

        Frequencies are added up in one cell for each term and chunk. A chunk that is near several
        others is scored once, since its cell is emptied when it is read.
        """
        near = self.neighbours(found.rows)
        cells = near + (found.term - first) * len(score)
        room = (int(found.term[-1]) - first + 1) * len(score)
        if room > len(self._scratch):
            self._scratch = np.zeros(room, np.float32)
        scratch = self._scratch
        for cell, weight in zip(cells, NEIGHBOUR_WEIGHTS, strict=True):
            scratch[cell] += weight * found.weights
        frequency = np.empty(near.shape, np.float32)
        for at, cell in enumerate(cells):
            frequency[at] = scratch[cell]
            scratch[cell] = 0
        norm = _norm(self.arrays["around"][near], self.averages().around)
        np.add.at(score, near.ravel(), _saturated(idf, frequency, norm).ravel())

    def threads(self, terms: Sequence[int | None], rows: Rows, population: Mask | None) -> Floats:
        """BM25 of the session of each row, a session being one long text."""
        found, idf = self._having(terms, population)
        thread = self.field("thread")
        asked = thread[rows].astype(np.intp)
        mine = np.flatnonzero(self.in_threads(asked))
        lookup = np.full(len(self.sessions) + 1, len(mine))
        lookup[mine] = np.arange(len(mine))
        at = lookup.take(thread[found.rows])
        width = len(mine) + 1  # the last one stands for all other sessions
        counts = np.bincount(found.term * width + at, found.weights, len(idf) * width)
        norm = _norm(np.append(self.thread_lengths[mine], np.float32(0)), self.averages().thread)
        frequency = counts.astype(np.float32).reshape(len(idf), width)
        score: Floats = _saturated(idf[:, None], frequency, norm).sum(0)[lookup[asked]]
        alone = asked == NO_ROW
        if alone.any():
            score[alone] = self._own(found, idf)[rows[alone]]
        return score

    # -- vectors --

    def meaning(self, query: Vectors, population: Mask | None, within: Mask | None) -> Meaning:
        """Cosines with a unit vector, float32 of shape (dimension,).

        Of very many chunks they are estimates, which are finer for the best ones in the scope.
        """
        cosine = self._matrix.cosines(query, self.count, within)
        known = cosine > NO_VECTOR
        if population is not None:
            known &= population
        return Meaning(cosine, _standard(cosine, known))

    def best_of_thread(self, values: Floats, rows: Rows) -> Floats:
        """For each row the highest value in its session; rows may be newer than the values."""
        thread = self.field("thread")
        asked = thread[rows].astype(np.intp)
        mine = self.in_threads(asked)
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


def _idf(having: Places, size: int) -> Floats:
    """The weight of terms, above 0, by how many of `size` chunks have each."""
    rarity = (size - having + 0.5) / (having + 0.5)
    return np.log1p(rarity, dtype=np.float64).astype(np.float32)


def _saturated(idf: Floats, frequency: Floats, norm: Floats) -> Floats:
    """A term's part of a BM25 score."""
    found: Floats = idf * np.float32(K1 + 1) * frequency / (frequency + norm)
    return found


def _norm(length: Floats, average: float) -> Floats:
    """BM25's K1 * (1 - B + B * length / average), for texts of these lengths."""
    found: Floats = np.float32(K1 * B / max(average, 1e-9)) * length
    found += np.float32(K1 * (1 - B))
    return found


def _matrix(count: int, parts: Parts) -> Matrix | Codes:
    """The vectors as they are, or as codes where there are very many."""
    first = list(parts if count <= EXACT_BELOW else islice(parts, TRAINING_BLOCKS))
    first = first or [(np.zeros((0, 0), np.float32), np.zeros(0, np.int32))]
    vectors, owners = (np.concatenate(some) for some in zip(*first, strict=True))
    first.clear()
    if count <= EXACT_BELOW:
        return Matrix(vectors, owners)
    codes = Codes(vectors, owners)
    for more, whose in parts:
        codes.extend(more, whose)
    return codes


def _standard(values: Floats, known: Mask) -> Floats:
    """Values in standard deviations above the mean of the known ones; 0 for all others."""
    count = int(np.count_nonzero(known))
    if not count:
        return np.zeros(len(values), np.float32)
    whole = values if count == len(values) else values[known]
    standard: Floats = values - np.float32(whole.sum(dtype=np.float64) / count)
    if count < len(values):
        standard *= known
    # Exact enough that the order of the rows, which differs between processes, does not show.
    deviation = float(np.square(standard, dtype=np.float64).sum() / count) ** 0.5
    standard *= np.float32(1 / max(deviation, MIN_DEVIATION))
    return standard
