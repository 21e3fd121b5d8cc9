"""Whether what was found is an answer at all: many questions have none in a memory.

The nearest of any number of texts is near by chance, so a cosine says something only beside
those of texts that have nothing to do with each other (rows.Noise, measured for each model), and
beside how many texts there were to choose from: of N draws of a normal distribution the highest
lies about sqrt(2 ln N) deviations above the mean. Words say something by what part of the
query's weight they make up. Both are added up for each memory that was found; where not even
the best one is certain, the hits are called weak (docs/BENCHMARKS.md has the measurements).
"""

import math
from collections.abc import Mapping

import numpy as np

from core.results import Lane
from index.fields import Floats
from index.matrix import NOWHERE
from index.postings import Rows
from recall.query import ENTITY, MOST_NAMES, Query, Ranking, above_noise, dated
from recall.reranking import of_rows
from text import words

SHARE = 0.23  # the part of the query that says as much as one deviation
FOREIGN = 2.0  # deviations allowed for words to a text in another script, which cannot have them
DATE = 2.0  # deviations that a time of the chunk says which the query names
CERTAIN = 1.8  # deviations above the best of so many unrelated texts
WORDS_ALONE = 0.9  # deviations of words that are certain where there are no vectors


def is_known(query: Query, rankings: Mapping[Lane, Ranking], rows: Rows) -> bool:
    """Whether any of the rows that were found, in ascending order, says enough to be an answer."""
    if not len(rows):
        return False
    with query.index.lock:
        share = of_rows(query.lexical.share, rows.astype(np.intp), query.index)
        near, least_told, certain = _meaning(query, rankings, rows)
        times = DATE * dated(query, rows) if query.spans else np.float32(0)
        for others in (None, _pieces, _names):  # each takes longer to find out, and only adds
            if others:
                _raise(share, rows, others(query, rankings))
            told = np.maximum(share / SHARE + times, least_told)
            if (near + told).max() >= certain:
                return True
    return False


def _meaning(
    query: Query, rankings: Mapping[Lane, Ranking], rows: Rows
) -> tuple[Floats, Floats, float]:
    """Deviations by each row's vector, the least that is allowed for its words, and how many are
    certain in all."""
    vector, index = rankings.get("vector"), query.index
    if vector is None or vector.meaning is None or not query.noise:
        nothing = np.zeros(1, np.float32)
        return nothing, nothing, WORDS_ALONE
    cosine = vector.meaning.cosine
    if len(cosine) < index.count:  # what has come since has no cosine yet
        cosine = np.append(cosine, np.full(index.count - len(cosine), NOWHERE, np.float32))
    near = np.where(cosine[rows] > NOWHERE, above_noise(query, cosine, rows), np.float32(0))
    foreign = query.unspaced(rows) != words.is_unspaced(query.text)
    chance = math.sqrt(2 * math.log(max(_size(query), 2)))
    return near, np.float32(FOREIGN) * foreign, CERTAIN + chance


def _size(query: Query) -> int:
    """How many chunks there were to choose from."""
    within = query.within()
    return query.index.count if within is None else int(np.count_nonzero(within))


def _raise(share: Floats, rows: Rows, others: Mapping[int, float]) -> None:
    """Let some of the rows have a higher share of the query, where they are among all rows."""
    given = np.fromiter(others, np.int32, len(others))
    values = np.fromiter(others.values(), np.float32, len(others))
    places = np.minimum(np.searchsorted(rows, given), len(rows) - 1)
    there = rows[places] == given
    places = places[there]
    share[places] = np.maximum(share[places], values[there])


def _pieces(query: Query, rankings: Mapping[Lane, Ranking]) -> dict[int, float]:
    """For rows that have pieces of the query inside longer words: what part of all pieces."""
    meta = rankings.get("meta")
    count = len(words.literals(query.text))
    return {row: len(inside) / count for row, inside in meta.because.items()} if meta else {}


def _names(query: Query, rankings: Mapping[Lane, Ranking]) -> dict[int, float]:
    """For rows that are about entities which the query names: what part of its terms they are."""
    entity = rankings.get("entity")
    if entity is None:
        return {}
    asked = set(words.stems(query.terms))
    named = {
        each.key.removeprefix(ENTITY): asked.intersection(words.stems(words.index_terms(each.name)))
        for each in entity.entities[:MOST_NAMES]
    }
    parts = {  # many rows are about the same ones
        names: len(set().union(*(named.get(str(name), ()) for name in names))) / max(len(asked), 1)
        for names in set(entity.because.values())
    }
    return {row: parts[names] for row, names in entity.because.items()}
