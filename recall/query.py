"""What every lane is given, and what it gives: a query and a ranking."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.types import Noise, Scope, Vectors, milliseconds
from index.chunks import UNSPACED, Index, Lexical, Meaning
from index.fields import Floats, Mask
from index.postings import Rows
from store import View
from text import words
from text.dates import Span

CLOSENESS = {"day": 1.0, "week": 0.7, "month": 0.3, "year": 0.1}
"""How much of that a longer time counts."""
MOST_NAMES = 8  # entities whose memories the entity lane looks at
ENTITY = "entity:"

Numbers = NDArray[np.int64]
Node = int | str
"""A chunk's seq, or "entity:" and an entity's id."""


class Query:
    """What every lane is given; each takes from it what it needs."""

    def __init__(
        self,
        view: View,
        text: str,
        scope: Scope,
        *,
        at: str,
        depth: int,
        hops: int,
        fan_out: int,
        vector: Vectors | None,
        noise: Noise,
        spans: Callable[[Index], Sequence[Span]],
    ) -> None:
        """`at` is the moment at which relations must hold; `vector` is the query's, None where
        there is no model, and `noise` its model's; `spans` finds the times that it names."""
        self.text, self.scope, self.at = text, scope, at
        self.depth, self.hops, self.fan_out = depth, hops, fan_out
        self.vector, self.noise = vector, noise
        self.terms = words.query_terms(text)
        held = view.held(past=scope.asof is not None)
        self.index, self.links = held.index, held.links
        self.moment = int(milliseconds([at])[0])
        stems = list(dict.fromkeys(words.stems(self.terms)))
        self.numbers = view.term_numbers(stems)
        self._numbers = dict(zip(stems, self.numbers, strict=True))
        self.spans = spans(self.index)
        self._only = view.named_one_by_one(scope)
        self._lexical: Lexical | None = None
        self._within: tuple[int, Mask | None] | None = None

    @cached_property
    def names(self) -> set[str]:
        """The stretches of the text that may be names, for the lanes that look for some."""
        return words.name_keys(self.text)

    @property
    def lexical(self) -> Lexical:
        """What the words say of every chunk, computed once."""
        with self.index.lock:
            if self._lexical is None:
                population = self.index.population(self.scope.asof)
                self._lexical = self.index.lexical(self.numbers, population)
            return self._lexical

    def numbers_of(self, view: View, terms: Sequence[str]) -> list[int | None]:
        """The numbers of some terms as the index keeps them, most of which the query has."""
        if self._numbers.keys() >= set(terms):
            return [self._numbers[term] for term in terms]
        return view.term_numbers(terms)

    def unspaced(self, rows: Rows) -> Mask:
        """Which of the rows are in a script that puts no spaces between words."""
        found: Mask = self.index.field("flags")[rows] & UNSPACED > 0
        return found

    def within(self) -> Mask | None:
        """The rows in scope, as of now; None where all are. Asked under the index's lock."""
        changes = self.index.changes
        if self._within is None or self._within[0] != changes:
            self._within = changes, self.index.within(self.scope, self._only)
        return self._within[1]


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """An entity that a lane found: "entity:" and its id, and why."""

    key: str
    because: tuple[Node, ...] = ()
    name: str = ""
    """The spelling that the query has of it."""
    boosted: bool = False
    """A stock whose code, name or alias is a whole token of the query."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a lane found, best first; entities are ranked apart and take no chunk's place."""

    rows: Rows = field(default_factory=lambda: np.zeros(0, np.int32))
    entities: Sequence[FoundEntity] = ()
    scores: Floats | None = None
    """The lane's measure of every row, for ordering by evidence."""
    meaning: Meaning | None = None
    faint: bool = False
    """Only parts of ordinary words, in a query of several: counts if nothing better is found."""
    because: Mapping[int, tuple[Node, ...]] = field(default_factory=dict)
    """Why some of the rows are here: words, names, or the way that led to them."""


# --- Vector ----------------------------------------------------------------------------


def above_noise(query: Query, cosine: Floats, rows: Rows) -> Floats:
    """Cosines of rows in deviations above those of unrelated texts in such scripts."""
    asks = 2 * words.is_unspaced(query.text)
    noise = np.array(query.noise, np.float32)[[asks + 1, asks], :, None]
    mean, deviation = np.where(query.unspaced(rows), noise[0], noise[1])
    found: Floats = ((cosine[rows] - mean) / deviation).astype(np.float32)
    return found


# --- Meta ------------------------------------------------------------------------------


def dated(query: Query, rows: Rows | slice) -> Floats:
    """How closely the query names the time of each row: 1 for its day, 0 where it does not."""
    found = np.zeros(len(query.index.field("stamp")[rows]), np.float32)
    for unit, closeness in CLOSENESS.items():
        spans = [(span.start, span.end) for span in query.spans if span.unit == unit]
        if spans:
            inside = query.index.dated(rows, spans)
            found = np.maximum(found, np.float32(closeness) * inside)
    return found
