"""In which row the chunk of each seq is.

Seqs are mostly dense, so one array answers. A file may have a few that are far above the number of
its chunks, and memory must grow with the chunks alone: those are in a table of their own.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]

NO_ROW = -1  # as an index it leads to the last element of an array, which stands for no chunk
SPARSE = 16  # elements of the array, at most, for each chunk
LEAST = 1 << 16  # elements that are never too many


class RowNumbers:
    """Seqs to rows. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._rows = np.full(1, NO_ROW, np.int32)  # by seq; the last stands for all others
        self._far: dict[int, int] = {}

    def put(self, seqs: Sequence[int], first: int) -> None:
        """Chunks in rows that follow one another, from the first on."""
        self._make_room(max(seqs, default=0) + 2, SPARSE * (first + len(seqs)) + LEAST)
        given, rows = np.array(seqs, np.int64), np.arange(first, first + len(seqs))
        near = (given >= 0) & (given < len(self._rows) - 1)
        self._rows[given[near]] = rows[near]
        self._far.update(zip(given[~near].tolist(), rows[~near].tolist(), strict=True))

    def _make_room(self, wanted: int, most: int) -> None:
        have = len(self._rows)
        if have >= min(wanted, most):
            return
        grown = np.full(min(max(wanted, 2 * have), most), NO_ROW, np.int32)
        grown[:have] = self._rows
        self._rows = grown
        for seq in [each for each in self._far if 0 <= each < len(grown) - 1]:
            grown[seq] = self._far.pop(seq)

    def drop(self, seq: int) -> None:
        if self._far.pop(seq, None) is None:
            self._rows[seq] = NO_ROW

    def of(self, seqs: NDArray[np.int64]) -> Rows:
        """The row of each; NO_ROW for one that is not here."""
        end = len(self._rows) - 1
        found: Rows = self._rows[np.clip(seqs, -1, end)]  # the last two places lead to no row
        if self._far:
            for place in np.flatnonzero((seqs >= end) | (seqs < 0)).tolist():
                found[place] = self._far.get(int(seqs[place]), NO_ROW)
        return found
