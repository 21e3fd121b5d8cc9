"""What a recall is asked, and what every lane is given and gives: a query and a ranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.types import Noise, Scope, milliseconds
from embedding.vectors import QuestionVector
from index.chunks import UNSPACED, Lexical, Meaning
from index.fields import Floats, Mask
from index.postings import Rows
from store import View
from text import dates, words

CLOSENESS = {"day": 1.0, "week": 0.7, "month": 0.3, "year": 0.1}
"""What a time counts that the query names: a day fully, a longer time less."""
MAX_NAMES = 8  # entities whose memories the entity lane looks at
ENTITY = "entity:"

Numbers = NDArray[np.int64]
Node = int | str
"""A chunk's seq, or "entity:" and an entity's id."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a recall is asked: the checked arguments of the tool, and nothing else."""

    query: str
    top_k: int
    graph_hops: int
    filters: Mapping[str, Any]
    strategy: str
    asof: str | None
    explain: bool
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the settings say of every query."""

    zone: tzinfo
    """Whose days a query means."""
    lane_depth: int
    """How many chunks a lane gives; more where more are asked for."""
    fan_out: int
    """How many relations the graph follows from one node at most."""


class Query:
    """What every lane is given; each takes from it what it needs."""

    def __init__(
        self,
        view: View,
        question: Question,
        vector: QuestionVector | None,
        *,
        asked: str,
        bounds: Bounds,
    ) -> None:
        """`vector` is None where there is no model; `asked` is the moment of the question."""
        self.text = text = question.query
        self.scope = Scope(asof=question.asof, **question.filters)
        at = question.asof or asked
        self.moment = int(milliseconds([at])[0])  # at which relations must hold
        self.hops, self.fan_out = question.graph_hops, bounds.fan_out
        self.depth = 2 * question.top_k
        if question.strategy != "cue_only":  # each further find costs the cue lane the most
            self.depth = max(bounds.lane_depth, self.depth)
        held = view.snapshot(past=question.asof is not None)
        self.index, self.links = held.index, held.links
        if vector and vector.model.version != self.index.model:
            vector = None  # the file has another model since the question came
        self.vector = vector.vector if vector else None
        self.noise: Noise = vector.model.noise if vector else ()
        self.terms = words.query_terms(text)
        stems = list(dict.fromkeys(words.stems(self.terms)))
        self.numbers = view.term_numbers(stems)
        self._numbers = dict(zip(stems, self.numbers, strict=True))
        self.spans = dates.named(text, at, bounds.zone, self.index.years)
        self._only = view.chunks_with_tag_and_kind(self.scope)
        self._lexical: Lexical | None = None
        self._within: tuple[int, Mask | None] | None = None

    @cached_property
    def is_unspaced(self) -> bool:
        """Whether the text is in a script that puts no spaces between words."""
        return words.is_unspaced(self.text)

    @cached_property
    def literals(self) -> list[str]:
        """The pieces of the text that are also looked for as written, inside words too."""
        return words.literals(self.text)

    @cached_property
    def names(self) -> set[str]:
        """The parts of the text that may be names, for the lanes that look for some."""
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
        """The numbers of some terms in the index; those of the query are known already."""
        if self._numbers.keys() >= set(terms):
            return [self._numbers[term] for term in terms]
        return view.term_numbers(terms)

    def unspaced(self, rows: Rows) -> Mask:
        """Which of the rows are in a script of that kind."""
        found: Mask = self.index.field("flags")[rows] & UNSPACED > 0
        return found

    def within(self) -> Mask | None:
        """The rows in scope now; None where all are. To be called with the index's lock held."""
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
    """How well each row fits by the measure of this lane, for the reranking."""
    meaning: Meaning | None = None
    faint: bool = False
    """Whether only parts of ordinary words were found; that counts only if nothing better is."""
    because: Mapping[int, tuple[Node, ...]] = field(default_factory=dict)
    """Why some of the rows are here: words, names, or the path that led to them."""


# --- Measures that several need -------------------------------------------------------


def above_noise(query: Query, cosine: Floats, rows: Rows) -> Floats:
    """The cosines of rows, in standard deviations above those of unrelated texts.

    Unrelated texts are those of the same scripts as the query and the row.
    """
    asks = 2 * query.is_unspaced
    noise = np.array(query.noise, np.float32)[[asks + 1, asks], :, None]
    mean, deviation = np.where(query.unspaced(rows), noise[0], noise[1])
    found: Floats = ((cosine[rows] - mean) / deviation).astype(np.float32)
    return found


def dated(query: Query, rows: Rows | slice) -> Floats:
    """How closely the query names the time of each row: 1 for its day, 0 for not at all."""
    found = np.zeros(len(query.index.field("stamp")[rows]), np.float32)
    for unit, closeness in CLOSENESS.items():
        spans = [(span.start, span.end) for span in query.spans if span.unit == unit]
        if spans:
            inside = query.index.dated(rows, spans)
            found = np.maximum(found, np.float32(closeness) * inside)
    return found
