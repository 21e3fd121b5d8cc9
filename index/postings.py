"""Postings in memory: for each term the chunks that have it among their own words.

The bulk is one sorted block; what is added later waits in short lists beside it. Rows are the
places of chunks in an index, weights how often a chunk has the term.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Places = NDArray[np.intp]
"""Rows, or places in an array, in the type that needs no conversion as an index."""
Weights = NDArray[np.float32]

SPARSE, LEAST = 4, 1 << 20  # term numbers for each posting, and beside these, that cost no more
HALVES = 2  # weights are kept as whole halves: a word of the metadata counts half a word


@dataclass(frozen=True, slots=True)
class Found:
    """The postings of several terms, one term after the other, each with its rows in order."""

    rows: Places
    weights: Weights  # how often a row has the term, in words
    term: Places  # which of the terms it is: its place among them
    counts: Places  # how many rows have each of the terms

    def of_rows(self, kept: NDArray[np.bool_]) -> "Found":
        """Those of the postings that a mask of all rows keeps."""
        inside = kept[self.rows]
        term = self.term[inside]
        counts = np.bincount(term, minlength=len(self.counts))
        return Found(self.rows[inside], self.weights[inside], term, counts)

    def of_terms(self, start: int, end: int) -> "Found":
        """Those of the terms from one place to before another."""
        if start == 0 and end >= len(self.counts):
            return self
        at = slice(*np.searchsorted(self.term, (start, end)).tolist())
        return Found(self.rows[at], self.weights[at], self.term[at], self.counts)

    def of_others(self, terms: NDArray[np.bool_]) -> "Found":
        """Those of all other terms than the ones of a mask."""
        kept = ~terms[self.term]
        return Found(self.rows[kept], self.weights[kept], self.term[kept], self.counts)


class Part(NamedTuple):
    """The terms of chunks that follow one another: the first one's, each once, then the next's."""

    terms: NDArray[np.uint32]
    weights: NDArray[np.uint8]  # how often a chunk has each, in halves
    sizes: NDArray[np.int32]  # how many terms each chunk has


class Postings:
    """Term numbers to rows and weights. Not safe for threads by itself."""

    def __init__(self, parts: list[Part]) -> None:
        """Takes the terms of all chunks in the order of their rows.

        The list is emptied on the way, so that little is in memory twice.
        """
        self._numbered = _numbering(parts)
        if self._numbered is not None:
            places = [np.searchsorted(self._numbered, part.terms) for part in parts]
            parts[:] = [
                part._replace(terms=at.astype(np.uint32))
                for part, at in zip(parts, places, strict=True)
            ]
        counts = _counts(parts)
        starts = np.append(0, np.cumsum(counts))
        self._starts = starts.astype(np.uint32)
        self._rows = np.empty(starts[-1], np.int32)
        self._weights = np.empty(starts[-1], np.uint8)
        self._added: dict[int, tuple[array[int], array[int]]] = {}
        free, row = starts[:-1], 0
        parts.reverse()
        while parts:
            part = parts.pop()
            self._fill(part, row, free)
            row += len(part.sizes)

    def _fill(self, part: Part, row: int, free: Places) -> None:
        """Put some chunks, from a row on, behind the others that have their terms."""
        order = _order(part.terms)
        terms = part.terms[order]
        first = np.flatnonzero(np.append(True, terms[1:] != terms[:-1])[: len(terms)])
        each, sizes = terms[first], np.diff(np.append(first, len(terms)))
        at = np.arange(len(terms)) + np.repeat(free[each] - first, sizes)
        rows = np.arange(row, row + len(part.sizes), dtype=np.int32)
        self._rows[at] = np.repeat(rows, part.sizes)[order]
        self._weights[at] = part.weights[order]
        free[each] += sizes

    def _place(self, term: int, unknown: int) -> int:
        if self._numbered is None:
            return min(term, unknown)
        at = int(np.searchsorted(self._numbered, term))
        return at if at < len(self._numbered) and self._numbered[at] == term else unknown

    def add(self, row: int, terms: NDArray[np.uint32], weights: NDArray[np.uint8]) -> None:
        """The terms of one more chunk, each once; its row comes after all others."""
        for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
            if term not in self._added:
                self._added[term] = array("i"), array("B")
            rows, halves = self._added[term]
            rows.append(row)
            halves.append(weight)

    def of(self, terms: Sequence[int | None]) -> Found:
        """The postings of some terms; None is a term that no chunk has."""
        unknown = len(self._starts) - 2  # the last place, which no term has
        wanted = [unknown if term is None else self._place(term, unknown) for term in terms]
        at = np.array(wanted, np.intp)
        starts = self._starts[at].astype(np.intp)
        ends = self._starts[at + 1].astype(np.intp)
        rows: list[NDArray[np.int32]] = []
        halves: list[NDArray[np.uint8]] = []
        counts = ends - starts
        for place, (term, start, end) in enumerate(
            zip(terms, starts.tolist(), ends.tolist(), strict=True)
        ):
            rows.append(self._rows[start:end])
            halves.append(self._weights[start:end])
            if term is not None and (added := self._added.get(term)):
                rows.append(np.array(added[0], np.int32))
                halves.append(np.array(added[1], np.uint8))
                counts[place] += len(added[0])
        return Found(
            np.concatenate([_NO_ROWS, *rows], dtype=np.intp),
            np.concatenate([_NO_WEIGHTS, *halves]) * np.float32(1 / HALVES),
            np.repeat(np.arange(len(counts)), counts),
            counts,
        )


def _numbering(parts: Sequence[Part]) -> NDArray[np.uint32] | None:
    """The terms in order, where their numbers are too high for arrays as long as the highest."""
    highest = max((int(part.terms.max(initial=0)) for part in parts), default=0)
    if highest <= LEAST + SPARSE * sum(len(part.terms) for part in parts):
        return None
    return np.unique(np.concatenate([part.terms for part in parts]))


def _counts(parts: Sequence[Part]) -> Places:
    """How many chunks have each term, by its number, and a 0 at the end."""
    known = max((int(part.terms.max(initial=0)) for part in parts), default=0) + 1
    counts = np.zeros(known + 1, np.intp)
    for part in parts:
        np.add.at(counts, part.terms, 1)
    return counts


def _order(terms: NDArray[np.uint32]) -> Places:
    """The stable order of terms, by their lower half and then by their upper half.

    Numbers of 16 bits are sorted by counting, which is faster than comparing.
    """
    order = np.argsort(terms.astype(np.uint16), kind="stable")
    upper = (terms >> np.uint32(16)).astype(np.uint16)
    return order[np.argsort(upper[order], kind="stable")] if upper.any() else order


_NO_ROWS, _NO_WEIGHTS = np.zeros(0, np.int32), np.zeros(0, np.uint8)
