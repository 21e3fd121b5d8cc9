"""One ranking out of several: reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.chunks import Index
from index.fields import Floats
from index.matrix import nth_highest
from index.postings import Rows

DIGITS = 5  # of a chunk's score, such as BM25 or a sum of features
RANK_DIGITS = 9  # of a sum of reciprocal ranks


def rrf(rankings: Iterable[Sequence[str]], k: int = 60) -> dict[str, float]:
    """Each ranking adds 1 / (k + rank) to what it holds, ranks from 1.

    >>> a, b, c = ["doc1", "doc5", "doc2"], ["doc2", "doc1", "doc7"], ["doc5", "doc9", "doc1"]
    >>> {key: round(score, 4) for key, score in rrf([a, b, c]).items()}["doc1"]
    0.0484
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + 1 / (k + rank)
    return scores


def stock_boost(rank: int, strength: float = 0.05) -> float:
    """What a stock gains when the query names it whole: strength / sqrt(rank).

    >>> stock_boost(1), stock_boost(4)
    (0.05, 0.025)
    """
    return strength / float(rank**0.5)


def best_rows(scores: Floats, index: Index, limit: int) -> Rows:
    """The rows with a score, best first; the newer first where scores are equal."""
    found = np.flatnonzero(scores > 0)
    if len(found) > limit:
        values = scores if len(found) == len(scores) else scores[found]
        # Scores that are equal once they are rounded differ by less than twice a last digit.
        found = found[values >= nth_highest(values, limit) - 2 * 10.0**-DIGITS]
    return found[ordered(scores[found], found, index)[:limit]].astype(np.int32)


def ordered(
    scores: NDArray[np.floating[Any]],
    rows: NDArray[np.integer[Any]],
    index: Index,
    digits: int = DIGITS,
) -> NDArray[np.intp]:
    """The places of some rows by score; the newer first where scores are equal, then the later.

    Sums of the same terms in another order differ in the last digit: that is no difference.
    """
    stamp, seq = index.field("stamp")[rows], index.field("seq")[rows]
    return np.lexsort((-seq, -stamp, -np.round(scores, digits)))
