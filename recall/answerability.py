"""Whether what was found answers the question at all: to many questions a memory has no answer.

Something is always nearest, so a cosine alone says little. It is compared with the cosines of
texts that have nothing to do with each other (core.types.Noise, measured for each model), and
with how many texts there were to choose from: the highest of N draws of a normal distribution
lies about sqrt(2 ln N) deviations above the mean. Words count by what part of the query's weight
they make up. Both are added up for each memory that was found. If even the best one does not
reach the bound, the hits are called weak (docs/BENCHMARKS.md has the measurements).
"""

import math
from collections.abc import Mapping

import numpy as np

from core.results import Lane
from index.fields import Floats
from index.matrix import NO_VECTOR
from index.postings import Rows
from recall.query import ENTITY, MAX_NAMES, Query, Ranking, above_noise, dated
from recall.reranking import of_rows
from text import words

SHARE = 0.23  # the part of the query that counts as much as one deviation
FOREIGN = 2.0  # what words count at least for a text in another script, which cannot share any
DATE = 2.0  # deviations that a chunk gets for a time that the query names
CERTAIN = 1.8  # deviations above the best of as many unrelated texts
WORDS_ALONE = 0.9  # deviations that words must reach where there are no vectors


def has_answer(query: Query, rankings: Mapping[Lane, Ranking], rows: Rows) -> bool:
    """Whether any of the rows that were found fits well enough to be an answer.

    `rows` are in ascending order.
    """
    if not len(rows):
        return False
    with query.index.lock:
        share = of_rows(query.lexical.share, rows.astype(np.intp), query.index)
        near, least, bound = _meaning(query, rankings, rows)
        times = DATE * dated(query, rows) if query.spans else np.float32(0)
        for others in (None, _pieces, _names):  # the slower ones last: each can only add
            if others:
                _raise(share, rows, others(query, rankings))
            by_words = np.maximum(share / SHARE + times, least)
            if (near + by_words).max() >= bound:
                return True
    return False


def _meaning(
    query: Query, rankings: Mapping[Lane, Ranking], rows: Rows
) -> tuple[Floats, Floats, float]:
    """For each row the deviations of its vector and the least that its words count; and the bound.

    The bound is what the sum of a row must reach.
    """
    vector, index = rankings.get("vector"), query.index
    if vector is None or vector.meaning is None or not query.noise:
        nothing = np.zeros(1, np.float32)
        return nothing, nothing, WORDS_ALONE
    cosine = vector.meaning.cosine
    if len(cosine) < index.count:  # what has come since has no cosine yet
        cosine = np.append(cosine, np.full(index.count - len(cosine), NO_VECTOR, np.float32))
    near = np.where(cosine[rows] > NO_VECTOR, above_noise(query, cosine, rows), np.float32(0))
    foreign = query.unspaced(rows) != query.is_unspaced
    chance = math.sqrt(2 * math.log(max(_size(query), 2)))
    return near, np.float32(FOREIGN) * foreign, CERTAIN + chance


def _size(query: Query) -> int:
    """How many chunks there were to choose from."""
    within = query.within()
    return query.index.count if within is None else int(np.count_nonzero(within))


def _raise(share: Floats, rows: Rows, others: Mapping[int, float]) -> None:
    """Raise the share of the query for those of the `others` that are among the rows."""
    given = np.fromiter(others, np.int32, len(others))
    values = np.fromiter(others.values(), np.float32, len(others))
    places = np.minimum(np.searchsorted(rows, given), len(rows) - 1)
    there = rows[places] == given
    places = places[there]
    share[places] = np.maximum(share[places], values[there])


def _pieces(query: Query, rankings: Mapping[Lane, Ranking]) -> dict[int, float]:
    """For rows that have pieces of the query inside longer words: which part of the pieces."""
    meta = rankings.get("meta")
    count = len(query.literals)
    return {row: len(inside) / count for row, inside in meta.because.items()} if meta else {}


def _names(query: Query, rankings: Mapping[Lane, Ranking]) -> dict[int, float]:
    """For rows about entities that the query names: which part of its terms the names make up."""
    entity = rankings.get("entity")
    if entity is None:
        return {}
    asked = set(words.stems(query.terms))
    named = {
        each.key.removeprefix(ENTITY): asked.intersection(words.stems(words.index_terms(each.name)))
        for each in entity.entities[:MAX_NAMES]
    }
    parts = {  # many rows are about the same ones
        names: len(set().union(*(named.get(str(name), ()) for name in names))) / max(len(asked), 1)
        for names in set(entity.because.values())
    }
    return {row: parts[names] for row, names in entity.because.items()}
