"""The four lanes: each a small function from a read connection and a query to a ranking.

Vector, meta and entity stand alone; graph starts from what they found best and returns only
what it reached itself. A lane applies the scope before its cut and says why it found a thing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import words
from fusion import best_first
from rows import Naming, Scope, Vectors, is_chunk_id
from store import View

SUBSTRING = 0.3  # what a piece inside a word counts, beside about 1 for the whole word
TERM = 0.1  # what each word found counts at least: BM25 gives none to words of half the chunks
SEEDS = 5  # chunks, and entities, that the graph starts from
MOST_NAMES = 8  # entities whose memories the entity lane looks at
MOST_MENTIONS = 1000  # memories of one entity, newest first, that compete
MOST_REACHED = 200  # nodes of one hop that the next one starts from
ENTITY = "entity:"


@dataclass(frozen=True, slots=True)
class Query:
    """What every lane is given; each takes from it what it needs."""

    text: str
    scope: Scope
    at: str
    """The moment at which relations must hold."""
    depth: int
    hops: int
    fan_out: int
    vector: Callable[[], Vectors | None]
    """Makes the query's vector when it is asked for; None where there is no model."""


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk id, or "entity:" and an entity's id, and why it was found."""

    key: str
    because: tuple[str, ...] = ()
    distance: float | None = None
    faint: bool = False
    """Only a part of an ordinary word, in a query of several: counts if nothing better is found."""
    boosted: bool = False
    """A stock whose code, name or alias is a whole token of the query."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a lane found, best first; entities are ranked apart and take no chunk's place."""

    chunks: list[Found] = field(default_factory=list)
    entities: list[Found] = field(default_factory=list)


# --- Vector ----------------------------------------------------------------------------


def vector_lane(view: View, query: Query) -> Ranking:
    """Chunks nearest in meaning."""
    vector = query.vector()
    if vector is None:
        return Ranking()
    near = view.nearest(vector, query.scope, query.depth)
    return Ranking([Found(key, distance=distance) for key, distance in near])


# --- Meta ------------------------------------------------------------------------------


def meta_lane(view: View, query: Query) -> Ranking:
    """Chunks whose text, tags or properties have the query's words, or pieces of it as they stand.

    Words rank by BM25. A piece inside a longer word, and a piece of several terms that stands
    there as written, adds to it by its rarity; of equal texts the closer spelling comes first.
    The `get` of a question is in every budget: such finds are marked as faint.
    """
    terms = words.query_terms(query.text)
    pieces = words.literals(query.text)
    scores = dict(view.matching(terms, query.scope, query.depth))
    whole = set(scores)
    solid = set(scores)
    for piece in pieces:
        found, weight = _containing(view, query, piece)
        for key in found:
            scores[key] = scores.get(key, 0.0) + weight
        if len(pieces) == 1 or not words.is_plain(piece):
            solid.update(found)
    texts = view.texts(scores)
    spelled = query.text.split()
    for key, (text, _) in texts.items():
        if key in whole:
            scores[key] += TERM * len(_present(terms, text))
        scores[key] += 1e-6 * sum(piece in text for piece in spelled)
    best = best_first(scores, {key: time for key, (_, time) in texts.items()})[: query.depth]
    wanted = list(dict.fromkeys([*pieces, *terms]))
    return Ranking(
        [Found(key, _present(wanted, texts[key][0]), faint=key not in solid) for key in best]
    )


def _containing(view: View, query: Query, piece: str) -> tuple[list[str], float]:
    """The chunks that have a piece as it stands, and what that is worth.

    A piece that is one term is looked for inside other words only: where it is a word of its
    own, BM25 has counted it. Its rarity is BM25's, of the chunks that have it either way.
    """
    parts = words.index_terms(piece)
    word = parts[0] if len(parts) == 1 else ""
    whole = view.count(word) if word else 0
    if whole >= query.depth and query.scope.current:
        return [], 0.0  # its whole words fill the lane, and parts of words come after them
    found = view.containing(piece, query.scope, query.depth, but_term=word)
    count = len(found) + whole
    rarity = math.log(max(1.0, (view.live_count() - count + 0.5) / (count + 0.5)))
    return found, SUBSTRING * (rarity + TERM)


def _present(wanted: Iterable[str], text: str) -> tuple[str, ...]:
    folded = words.fold(text)
    return tuple(piece for piece in wanted if piece in folded)


# --- Entity ----------------------------------------------------------------------------


def entity_lane(view: View, query: Query) -> Ranking:
    """The entities that the query names, and the chunks that mention them.

    Chunks that mention more of them, and rarer ones, come first; among equals those whose text
    has the query's words.
    """
    names = _names(view, query)
    scores: dict[str, float] = {}
    because: dict[str, tuple[str, ...]] = {}
    for name in names[:MOST_NAMES]:
        mentioning = view.mentioning(name.entity_id, query.scope, MOST_MENTIONS)
        for key in mentioning:
            scores[key] = scores.get(key, 0.0) + 1 / math.log2(2 + len(mentioning))
            because[key] = (*because.get(key, ()), name.entity_id)
    if scores:
        matching = view.matching(words.query_terms(query.text), query.scope, MOST_MENTIONS)
        for rank, (key, _) in enumerate(matching):
            if key in scores:
                scores[key] += 1e-2 / (1 + rank)
    best = best_first(scores, _times(view, scores))[: query.depth]
    return Ranking(
        [Found(key, because[key]) for key in best],
        [_found_entity(name) for name in names[: query.depth]],
    )


@dataclass(frozen=True, slots=True)
class _Named:
    entity_id: str
    kind: str
    key: str
    whole: bool


def _names(view: View, query: Query) -> list[_Named]:
    """The entities named whole, longest name first; then those that share a word with the query."""
    keys = words.lookup_keys(words.name_keys(query.text))
    found = [_named(naming, whole=True) for naming in view.named(keys, query.scope)]
    for term in words.query_terms(query.text):
        if not words.is_common(term):
            like = view.names_like(term, query.scope, query.depth)
            found += [
                _named(each, whole=False) for each in like if words.starts_word(each.key, term)
            ]
    return list({name.entity_id: name for name in reversed(found)}.values())[::-1]


def _named(naming: Naming, *, whole: bool) -> _Named:
    return _Named(naming.entity_id, naming.kind, naming.key, whole)


def _found_entity(name: _Named) -> Found:
    boosted = name.whole and name.kind.lower() == "stock"
    return Found(ENTITY + name.entity_id, (name.key,), boosted=boosted)


def _times(view: View, keys: Iterable[str]) -> dict[str, str]:
    return {key: time for key, (_, time) in view.texts(keys).items()}


# --- Graph -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reached:
    weight: float
    path: tuple[str, ...]


def graph_lane(view: View, query: Query, seeds: Sequence[str]) -> Ranking:
    """What mentions and relations lead to from the seeds: nearest first, then heaviest.

    A step goes from a chunk to an entity it mentions, from an entity to a chunk that mentions
    it, or along a relation either way; each costs one hop. The weight of what is reached is
    that of the ways to it. A seed counts as reached only from a chunk that was found better.
    No hop is taken once there are enough chunks.
    """
    order = {seed: rank for rank, seed in enumerate(seeds)}
    seen: set[str] = set()
    frontier = {seed: _Reached(1.0, (seed,)) for seed in seeds}
    chunks: list[Found] = []
    entities: list[Found] = []
    for _ in range(query.hops):
        frontier = _live(view, query, _step(view, query, frontier, seen, order))
        seen |= frontier.keys()
        weights = {key: reached.weight for key, reached in frontier.items()}
        for key in best_first(weights, _times(view, frontier)):
            kept = chunks if is_chunk_id(key) else entities
            kept.append(Found(key, frontier[key].path))
        if len(chunks) >= query.depth or not frontier:
            break
    kinds = view.entities([found.key[len(ENTITY) :] for found in entities], query.scope)
    shown = [found for found in entities if found.key[len(ENTITY) :] in kinds]
    return Ranking(chunks[: query.depth], shown[: query.depth])


def _step(
    view: View,
    query: Query,
    frontier: dict[str, _Reached],
    seen: set[str],
    order: dict[str, int],
) -> dict[str, _Reached]:
    """Every node one hop further, heaviest first and not too many."""
    reached: dict[str, _Reached] = {}
    for node, so_far in frontier.items():
        for key, weight in _neighbours(view, query, node):
            if key not in seen and _may_reach(so_far.path[0], key, order):
                before = reached.get(key, _Reached(0.0, (*so_far.path, key)))
                reached[key] = _Reached(before.weight + so_far.weight * weight, before.path)
    heaviest = sorted(reached, key=lambda key: (-reached[key].weight, key))[:MOST_REACHED]
    return {key: reached[key] for key in heaviest}


def _may_reach(origin: str, key: str, order: dict[str, int]) -> bool:
    if key not in order:
        return True
    return is_chunk_id(key) and is_chunk_id(origin) and order[origin] < order[key]


def _neighbours(view: View, query: Query, node: str) -> list[tuple[str, float]]:
    if is_chunk_id(node):
        name, asof = node, query.scope.asof
        steps = [(ENTITY + each, 1.0) for each in view.mentioned(node, asof, query.fan_out)]
    else:
        name = node[len(ENTITY) :]
        steps = [(each, 1.0) for each in view.mentioning(name, query.scope, query.fan_out)]
    for edge in view.edges(name, query.at, query.fan_out):
        other = edge.target_id if edge.source_id == name else edge.source_id
        steps.append((other if is_chunk_id(other) else ENTITY + other, edge.weight))
    return steps


def _live(view: View, query: Query, reached: dict[str, _Reached]) -> dict[str, _Reached]:
    """Only what is live, and of chunks what is in scope."""
    chunks = view.chunks([key for key in reached if is_chunk_id(key)], query.scope)
    names = [key[len(ENTITY) :] for key in reached if not is_chunk_id(key)]
    entities = view.entities(names, Scope(asof=query.scope.asof))
    live = {*chunks, *(ENTITY + entity_id for entity_id in entities)}
    return {key: each for key, each in reached.items() if key in live}
