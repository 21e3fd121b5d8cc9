"""Postings in memory: for each term the chunks that have it among their own words.

The bulk is one sorted block; what is added later waits in short lists beside it. Rows are the
places of chunks in an index (index.py), weights how often a chunk has the term.
"""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Weights = NDArray[np.float32]

HALVES = 2  # weights are kept as whole halves: a word of the metadata counts half a word


class Postings:
    """Term numbers to rows and weights. Not safe for threads by itself."""

    def __init__(self, terms: NDArray[np.uint32], rows: Rows, weights: NDArray[np.uint8]) -> None:
        """Takes three arrays of one length, a posting each, in any order."""
        order = np.argsort(terms, kind="stable")
        self._rows, self._weights = rows[order], weights[order]
        self._terms, starts = np.unique(terms[order], return_index=True)
        self._starts = np.append(starts, len(terms))
        self._added: dict[int, tuple[list[int], list[int]]] = {}

    def add(self, row: int, terms: NDArray[np.uint32], weights: NDArray[np.uint8]) -> None:
        """The terms of one more chunk, each once."""
        for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
            rows, halves = self._added.setdefault(term, ([], []))
            rows.append(row)
            halves.append(weight)

    def of(self, term: int) -> tuple[Rows, Weights]:
        """The rows that have a term, each once, and how often: float32, in words."""
        at = int(np.searchsorted(self._terms, term))
        if at < len(self._terms) and self._terms[at] == term:
            block = slice(self._starts[at], self._starts[at + 1])
        else:
            block = slice(0, 0)
        rows, halves = self._rows[block], self._weights[block]
        if added := self._added.get(term):
            rows = np.append(rows, np.array(added[0], np.int32))
            halves = np.append(halves, np.array(added[1], np.uint8))
        return rows, halves.astype(np.float32) / np.float32(HALVES)
