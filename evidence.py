"""Ordering what the lanes found by evidence: a weighted sum of what is known of each chunk.

Reciprocal ranks say who was found; they drop how well. Here each chunk that any lane found is
judged by a few measures, each of about 0 to 1 (cosines in standard deviations), with round
weights that hold for English and Chinese and for every model (docs/BENCHMARKS.md).
"""

from collections.abc import Mapping

import numpy as np

import words
from index import QUESTION, TELLS_TIME, Floats
from lanes import Query, Ranking, dated
from postings import Rows
from results import Lane

WEIGHTS = {
    "words": 4.0,
    "own_words": 0.3,
    "meaning": 0.5,
    "session_words": 1.0,
    "session_meaning": 1.0,
    "named": 2.0,
    "date": 3.0,
    "answer": 1.5,
    "when": 2.0,
    "length": 1.5,
    "question": -0.5,
    "linked": 2.0,
}
"""What a full measure of each piece of evidence counts; a question is seldom an answer."""


def evidence(query: Query, rankings: Mapping[Lane, Ranking], rows: Rows) -> dict[str, Floats]:
    """Each piece of evidence for some rows, weighted: float32, one number a row."""
    with query.index.lock:
        found: dict[str, Floats] = {}
        if (meta := rankings.get("meta")) and meta.scores is not None:
            found |= _of_words(query, meta.scores, rows)
        if (vector := rankings.get("vector")) and vector.meaning is not None:
            standard = vector.meaning.standard
            found["meaning"] = _at(standard, rows)
            found["session_meaning"] = query.index.best_of_thread(standard, rows)
        if (entity := rankings.get("entity")) and entity.scores is not None:
            found["named"] = _at(entity.scores, rows)
        if (graph := rankings.get("graph")) and graph.scores is not None:
            found["linked"] = _at(graph.scores, rows)
        found |= _of_text(query, rows)
        return {name: np.float32(WEIGHTS[name]) * values for name, values in found.items()}


def _of_words(query: Query, scores: Floats, rows: Rows) -> dict[str, Floats]:
    """The words with its neighbours' and without, the session's, and a question's just before."""
    index = query.index
    population = index.population(query.scope.asof)
    before = index.field("before")[rows]
    asked = (before >= 0) & (index.field("flags")[before] & QUESTION > 0)
    return {
        "words": _of_most(_at(scores, rows)),
        "own_words": _of_most(_at(query.lexical.own, rows)),
        "session_words": _of_most(index.threads(query.numbers, rows, population)),
        "answer": _of_most(np.where(asked, _at(query.lexical.own, before), 0)),
        "date": dated(query, rows),
    }


def _of_text(query: Query, rows: Rows) -> dict[str, Floats]:
    """What the text is like: whether it says much, asks itself, and says when if that is asked."""
    index, flags = query.index, query.index.field("flags")[rows]
    length = index.field("length")[rows] / np.float32(max(index.median_length, 1.0))
    found = {"length": np.minimum(length, 1).astype(np.float32)}
    found["question"] = (flags & QUESTION > 0).astype(np.float32)
    if words.asks_when(query.text):
        found["when"] = (flags & TELLS_TIME > 0).astype(np.float32)
    return found


def _at(values: Floats, rows: Rows) -> Floats:
    """The values of some rows; 0 for what has come since they were computed."""
    padded = np.append(values, np.float32(0))
    return padded[np.minimum(rows, len(values))]


def _of_most(values: Floats) -> Floats:
    """The values as parts of the highest of them."""
    found: Floats = (values / max(float(values.max(initial=0)), 1e-9)).astype(np.float32)
    return found
