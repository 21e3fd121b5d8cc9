"""Whether what was found is an answer at all: many questions have none in a memory.

The nearest of any number of texts is near by chance, so a cosine says something only beside
those of texts that have nothing to do with each other (rows.Noise, measured for each model), and
beside how many texts there were to choose from: of N draws of a normal distribution the highest
lies about sqrt(2 ln N) deviations above the mean. Words say something by what part of the
query's weight they make up. Both are added up for each memory that was found; where not even
the best one is certain, the hits are called weak (docs/BENCHMARKS.md has the measurements).
"""

from collections.abc import Mapping

import numpy as np

import words
from index import Floats
from lanes import ENTITY, MOST_NAMES, Query, Ranking, above_noise, dated
from matrix import NOWHERE
from postings import Rows
from results import Lane

SHARE = 0.23  # the part of the query that says as much as one deviation
FOREIGN = 2.0  # deviations allowed for words to a text in another script, which cannot have them
DATE = 2.0  # deviations that a time of the chunk says which the query names
CERTAIN = 1.8  # deviations above the best of so many unrelated texts
WORDS_ALONE = 0.9  # deviations of words that are certain where there are no vectors


def is_known(query: Query, rankings: Mapping[Lane, Ranking], rows: Rows) -> bool:
    """Whether any of the rows that were found says enough to be an answer."""
    if not len(rows):
        return False
    with query.index.lock:
        told = _shares(query, rankings, rows) / SHARE + DATE * dated(query, rows)
        vector = rankings.get("vector")
        if vector is None or vector.meaning is None or not query.noise:
            return bool(told.max() >= WORDS_ALONE)
        cosine = np.append(vector.meaning.cosine, np.float32(NOWHERE))
        rows = np.minimum(rows, len(cosine) - 1)  # what has come since has no cosine yet
        near = np.where(cosine[rows] > NOWHERE, above_noise(query, cosine, rows), 0)
        foreign = query.unspaced(rows) != words.is_unspaced(query.text)
        told = np.maximum(told, np.where(foreign, FOREIGN, 0))
        chance = np.sqrt(2 * np.log(max(_size(query), 2)))
        return bool((near + told).max() - chance >= CERTAIN)


def _size(query: Query) -> int:
    """How many chunks there were to choose from."""
    within = query.within()
    return query.index.count if within is None else int(np.count_nonzero(within))


def _shares(query: Query, rankings: Mapping[Lane, Ranking], rows: Rows) -> Floats:
    """What part of the query each row has: in words, in pieces of words, or by being about it."""
    share = query.lexical.share
    found: Floats = np.append(share, np.float32(0))[np.minimum(rows, len(share))]
    others = _pieces(query, rankings) | _names(query, rankings)
    beside = np.array([others.get(row, 0.0) for row in rows.tolist()], np.float32)
    return np.maximum(found, beside)


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
    return {
        row: len(set().union(*(named.get(str(name), ()) for name in names))) / max(len(asked), 1)
        for row, names in entity.because.items()
    }
