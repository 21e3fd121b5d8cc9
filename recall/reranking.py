"""Ordering what the lanes found by evidence: a weighted sum of what is known of each chunk.

Reciprocal ranks say who was found; they drop how well. Here each chunk that any lane found is
judged by a few measures, each of about 0 to 1 (cosines in standard deviations), with round
weights that hold for English and Chinese and for every model (docs/BENCHMARKS.md).
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
"""What a full measure of each piece of evidence counts; a question is seldom an answer."""

_OF_MOST = 4  # the first ones are measured by the highest of them
_COUNTS = np.array(list(WEIGHTS.values()), np.float32)[:, None]


def evidence(query: Query, rankings: Mapping[Lane, Ranking], rows: Rows) -> Floats:
    """Each piece of evidence for some rows, weighted: float32, a piece of WEIGHTS by rows.

    What no lane has measured is 0.
    """
    pieces = np.zeros((len(WEIGHTS), len(rows)), np.float32)
    named = dict(zip(WEIGHTS, pieces, strict=True))
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
        for lane, piece in _MEASURES.items():
            if (other := rankings.get(lane)) and other.scores is not None:
                named[piece][:] = of_rows(other.scores, places, index)
        _put_text(named, query, places)
    pieces[:_OF_MOST] /= pieces[:_OF_MOST].max(axis=1, initial=1e-9, keepdims=True)
    pieces *= _COUNTS
    return pieces


_MEASURES: dict[Lane, str] = {"entity": "named", "graph": "linked"}


def _population(query: Query) -> Mask | None:
    return query.index.population(query.scope.asof)


def _put_words(named: dict[str, Floats], query: Query, rows: Places) -> None:
    """Its own words alone, and those of a question just before."""
    index, own = query.index, query.lexical.own
    before = index.field("before").take(rows).astype(np.intp)
    named["own_words"][:] = of_rows(own, rows, index)
    # What stands before the first of a session is row -1, which has the flags of some other row.
    asked = index.field("flags")[before] & QUESTION
    asked[before < 0] = 0
    np.multiply(of_rows(own, before, index), asked, out=named["answer"])


def _put_text(named: dict[str, Floats], query: Query, rows: Places) -> None:
    """What the text is like: whether it says much, asks itself, and says when if that is asked."""
    index, flags = query.index, query.index.field("flags").take(rows)
    length = index.field("length").take(rows)
    np.minimum(length / np.float32(max(index.median_length, 1.0)), 1, out=named["length"])
    named["question"][:] = flags & QUESTION
    if words.asks_when(query.text):
        named["when"][:] = (flags & TELLS_TIME) // TELLS_TIME


def of_rows(values: Floats, rows: Places, index: Index) -> Floats:
    """The values of some rows; 0 for what has come since they were computed."""
    if len(values) >= index.count:
        return values.take(rows)
    inside = (rows >= 0) & (rows < len(values))
    found = np.zeros(len(rows), np.float32)
    found[inside] = values[rows[inside]]
    return found
