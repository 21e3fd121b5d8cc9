"""Ordering what the lanes found: a weighted sum of features of each chunk.

Reciprocal ranks keep the order in which a lane found chunks, but not how well each one fits. So
every chunk that was found gets a few features, each from about 0 to 1 (cosines in standard
deviations). Their weights are round and the same for English, Chinese and every model
(docs/BENCHMARKS.md). Hits show the weighted features as "evidence".
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from core.results import Lane
from index.chunks import QUESTION, TELLS_TIME, Index
from index.fields import Floats, Mask
from index.postings import Rows
from recall.query import Query, Ranking, dated
from text import words

Places = NDArray[np.intp]
"""Rows as numpy takes them fastest."""

WEIGHTS = {
    "words": 4.0,
    "own_words": 0.3,
    "session_words": 1.0,
    "answer": 1.5,
    "date": 3.0,
    "meaning": 0.5,
    "session_meaning": 1.0,
    "named": 2.0,
    "linked": 2.0,
    "length": 1.5,
    "question": -0.5,
    "when": 2.0,
}
"""Weight of each feature at its maximum. A question is seldom an answer, so it loses."""

_RELATIVE = 4  # so many, from the first on, are divided by the highest that any chunk has
_COLUMN = np.array(list(WEIGHTS.values()), np.float32)[:, None]


def features(query: Query, rankings: Mapping[Lane, Ranking], rows: Rows) -> Floats:
    """The weighted features of some rows: float32, one line for each of WEIGHTS.

    A feature that no lane has measured is 0.
    """
    found = np.zeros((len(WEIGHTS), len(rows)), np.float32)
    named = dict(zip(WEIGHTS, found, strict=True))
    index, places = query.index, rows.astype(np.intp)
    with index.lock:
        if (meta := rankings.get("meta")) and meta.scores is not None:
            named["words"][:] = of_rows(meta.scores, places, index)
            _put_words(named, query, places)
            named["session_words"][:] = index.threads(query.numbers, rows, _population(query))
            if query.spans:
                named["date"][:] = dated(query, rows)
        if (vector := rankings.get("vector")) and vector.meaning is not None:
            standard = vector.meaning.standard
            named["meaning"][:] = of_rows(standard, places, index)
            named["session_meaning"][:] = index.best_of_thread(standard, rows)
        for lane, feature in _FEATURE_OF_LANE.items():
            if (other := rankings.get(lane)) and other.scores is not None:
                named[feature][:] = of_rows(other.scores, places, index)
        _put_text(named, query, places)
    found[:_RELATIVE] /= found[:_RELATIVE].max(axis=1, initial=1e-9, keepdims=True)
    found *= _COLUMN
    return found


_FEATURE_OF_LANE: dict[Lane, str] = {"entity": "named", "graph": "linked"}


def _population(query: Query) -> Mask | None:
    return query.index.population(query.scope.asof)


def _put_words(named: dict[str, Floats], query: Query, rows: Places) -> None:
    """Set the features of a row's own words, and of the words of a question just before it."""
    index, own = query.index, query.lexical.own
    before = index.field("before").take(rows).astype(np.intp)
    named["own_words"][:] = of_rows(own, rows, index)
    # Before the first of a session is row -1, where the flags of some other row are read.
    asked = index.field("flags")[before] & QUESTION
    asked[before < 0] = 0
    np.multiply(of_rows(own, before, index), asked, out=named["answer"])


def _put_text(named: dict[str, Floats], query: Query, rows: Places) -> None:
    """Set the features of the text itself: its length, whether it asks, whether it says when."""
    index, flags = query.index, query.index.field("flags").take(rows)
    length = index.field("length").take(rows)
    np.minimum(length / np.float32(max(index.median_length, 1.0)), 1, out=named["length"])
    named["question"][:] = flags & QUESTION
    if words.asks_when(query.text):
        named["when"][:] = (flags & TELLS_TIME) // TELLS_TIME


def of_rows(values: Floats, rows: Places, index: Index) -> Floats:
    """The values of some rows; 0 for a row that came after they were computed."""
    if len(values) >= index.count:
        return values.take(rows)
    inside = (rows >= 0) & (rows < len(values))
    found = np.zeros(len(rows), np.float32)
    found[inside] = values[rows[inside]]
    return found
