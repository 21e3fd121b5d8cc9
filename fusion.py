"""One ranking out of several: reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009)."""

from collections.abc import Iterable, Mapping, Sequence


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


def best_first(scores: Mapping[str, float], times: Mapping[str, str]) -> list[str]:
    """Keys by score; the newer first where scores are equal, then by id.

    >>> best_first({"b": 1.0, "a": 1.0, "c": 1.0}, {"a": "2025", "b": "2026", "c": "2025"})
    ['b', 'a', 'c']
    """
    keys = sorted(scores)
    keys.sort(key=lambda key: times.get(key, ""), reverse=True)
    # Sums of the same terms in another order differ in the last digit: that is no difference.
    return sorted(keys, key=lambda key: round(scores[key], 9), reverse=True)
