"""The lanes: each a small function from a read connection and a query to a ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.types import Naming, Scope
from index.fields import Floats, Mask
from index.matrix import NOWHERE
from index.postings import Rows
from recall.fusion import DIGITS, best_rows, ordered
from recall.query import (
    ENTITY,
    MOST_NAMES,
    FoundEntity,
    Node,
    Numbers,
    Query,
    Ranking,
    above_noise,
    dated,
)
from store import View, cue_names, recall_by_cues
from text import words

if TYPE_CHECKING:
    from index.cue_index import CueHits, Edges


SUBSTRING = 0.3  # what a piece inside a word counts, beside 1 for the whole word
DATED = 0.75  # what the day counts that the query names, beside 1 for the best words
SPELLED = 1e-4  # what of two equal texts the closer spelling gains
FEW = 50  # texts that are read to look for a piece in, rather than asking for its trigrams
TIED = 50  # of so many best chunks, those with equal scores are compared by spelling
FLOOR = 0.0  # deviations above the mean of unrelated texts that a vector must reach
SEEDS = 5  # chunks, and entities, that the graph starts from
MOST_MENTIONS = 1000  # memories of one entity, newest first, that compete
ENOUGH = 20  # chunks reached, with which the graph goes no further
MOST_REACHED = 8  # nodes of one hop that the next one starts from, the heaviest
MOST_STEPS = 12  # relations that are followed from one node, the heaviest
EXACT = 1 << 40  # parts of a weight


# --- Vector ----------------------------------------------------------------------------


def vector_lane(view: View, query: Query) -> Ranking:
    """Chunks nearest in meaning."""
    if query.vector is None:
        return Ranking()
    index = query.index
    with index.lock:
        population, within = index.population(query.scope.asof), query.within()
        meaning = index.meaning(query.vector, population, within)
        near = _masked(meaning.cosine - NOWHERE, within)
        rows = best_rows(near, index, query.depth)
        if query.noise:  # what has no word of it and is no nearer than unrelated texts is no find
            matched = _fitted(query.lexical.own, index.count)[rows] > 0
            rows = rows[matched | (above_noise(query, meaning.cosine, rows) >= FLOOR)]
    return Ranking(rows, scores=meaning.standard, meaning=meaning)


def _masked(scores: Floats, within: Mask | None) -> Floats:
    """The scores with 0 for every row out of scope."""
    return scores if within is None else scores * within[: len(scores)]


# --- Meta ------------------------------------------------------------------------------


def meta_lane(view: View, query: Query) -> Ranking:
    """Chunks whose text, tags or properties have the query's words, or pieces of it as they stand.

    Words rank by BM25, over a chunk's own and its neighbours'. A piece inside a longer word, and
    a piece of several terms that stands there as written, adds to it by its rarity; so does a
    time of the chunk that the query names. Of equal texts the closer spelling comes first. The
    `get` of a question is in every budget: where nothing better is found, such finds are faint.
    """
    lexical = query.lexical
    pieces = words.literals(query.text)
    faint = [piece for piece in pieces if len(pieces) > 1 and words.is_plain(piece)]
    solid = [piece for piece in pieces if piece not in faint]
    found = _containing(view, query, solid)
    only_parts = not found and not _any(lexical.score, query)
    if only_parts:
        found = _containing(view, query, faint)
    with query.index.lock:
        scores = _fitted(lexical.score, query.index.count).copy()
        for each in found:
            scores[each.rows] += np.float32(each.weight)
        scores = _masked(scores / max(float(scores.max(initial=0)), 1e-9), query.within())
        rows = best_rows(scores, query.index, max(query.depth, TIED))
    _spell(view, query, scores, rows[:TIED])
    with query.index.lock:
        if query.spans:
            rows = best_rows(_with_dates(query, scores), query.index, query.depth)
        else:  # only what is among the best anyway has gained
            rows = rows[ordered(scores[rows], rows, query.index)]
    return Ranking(rows[: query.depth], scores=scores, faint=only_parts, because=_because(found))


def _with_dates(query: Query, scores: Floats) -> Floats:
    """The scores with what a time adds that the query names."""
    return _masked(scores + np.float32(DATED) * dated(query, slice(len(scores))), query.within())


def _any(scores: Floats, query: Query) -> bool:
    """Whether any row in scope has a score, or a time that the query names."""
    if query.spans:
        return True
    with query.index.lock:
        return float(_masked(scores, query.within()).max(initial=0)) > 0


def _fitted(values: Floats, count: int) -> Floats:
    """The values for so many rows, of which some may have come since they were computed."""
    if len(values) == count:
        return values
    fitted = np.zeros(count, np.float32)
    fitted[: len(values)] = values[:count]
    return fitted


@dataclass(frozen=True, slots=True)
class _Inside:
    """The rows that have a piece as it stands, and what that is worth."""

    piece: str
    rows: Rows
    weight: float


def _containing(view: View, query: Query, pieces: Sequence[str]) -> list[_Inside]:
    """What is found by some pieces, each by itself.

    A piece that is one term is looked for inside other words only: where it is a word of its
    own, BM25 has counted it. Its rarity is BM25's, of the chunks that have it either way.
    """
    found: dict[str, _Inside] = {}
    having: dict[str, Rows] = {}
    for piece in sorted(pieces, key=len):
        whole = _whole(view, query, piece)
        if len(whole) >= query.depth:
            continue  # its whole words fill the lane, and parts of words come after them
        among = next((having[part] for part in having if part in piece), None)
        rows = _rows_with(view, query, piece, whole, among)
        if len(rows) + len(whole) <= FEW < query.depth:
            having[piece] = np.append(rows, np.array(whole, np.int32))
        if len(rows):
            rarity = (query.index.size + 0.5) / (len(rows) + len(whole) + 0.5)
            found[piece] = _Inside(piece, rows, SUBSTRING * math.log(1 + rarity))
    return [found[piece] for piece in pieces if piece in found]


def _because(found: Iterable[_Inside]) -> dict[int, tuple[str, ...]]:
    """The pieces that each row has."""
    because: dict[int, tuple[str, ...]] = {}
    for each in found:
        having: dict[int, tuple[str, ...]] = dict.fromkeys(each.rows.tolist(), (each.piece,))
        for row in because.keys() & having.keys():
            having[row] = (*because[row], each.piece)
        because |= having
    return because


def _whole(view: View, query: Query, piece: str) -> list[int]:
    """The rows in scope that have a piece as a word of its own, where it is one term."""
    if words.index_terms(piece) != [piece]:
        return []
    numbers = query.numbers_of(view, words.stems([piece]))
    with query.index.lock:
        whole: list[int] = query.index.having(numbers, query.within()).tolist()
        return whole


def _rows_with(
    view: View, query: Query, piece: str, whole: Collection[int], among: Rows | None
) -> Rows:
    """The first rows in scope, as they were stored, that have a piece as it stands.

    But for those of `whole`, which have it as a word. `among`: all that have a part of it, where
    they are few.
    """
    if among is not None:
        return _holding(view, query, piece, [row for row in among.tolist() if row not in whole])
    terms = words.index_terms(piece)
    pairs = [term for term in terms if len(term) == 2 and words.is_unspaced(term)]
    if pairs:  # what has the piece has all of these as terms
        rows, doubtful = _having(view, query, piece, pairs)
        unread = rows[doubtful]
        if len(unread) <= FEW:
            held = _holding(view, query, piece, unread.tolist())
            return rows[~doubtful | np.isin(rows, held)][: query.depth]

    def wanted(seqs: Sequence[int]) -> list[int]:
        with query.index.lock:
            rows, within = query.index.rows_of(seqs), query.within()
            inside = rows if within is None else rows[within[rows]]
            others = [row for row in inside.tolist() if row not in whole] if whole else inside
            return query.index.seqs_of(np.asarray(others, np.int32))

    return query.index.rows_of(view.containing(piece, query.scope, query.depth, wanted))


def _holding(view: View, query: Query, piece: str, rows: Sequence[int]) -> Rows:
    """Those of a few rows whose text has a piece as it stands, as they were stored."""
    seqs = sorted(query.index.seqs_of(np.array(rows, np.int32)))
    return query.index.rows_of(view.holding(piece, seqs, query.depth))


def _having(view: View, query: Query, piece: str, terms: Sequence[str]) -> tuple[Rows, Mask]:
    """The first rows in scope, as they were stored, that have all of some terms of a piece.

    And whether the text must be read to know that the piece stands there: several terms may
    stand apart, and one may only be in the name of who said it, or of the session.
    """
    numbers = query.numbers_of(view, terms)
    with query.index.lock:
        rows = query.index.having(numbers, query.within())
        order = np.argsort(query.index.field("seq")[rows])
        rows = rows[order[: query.depth + FEW]]
        if terms == [piece]:
            return rows, query.index.named_with(rows, piece)
    return rows, np.ones(len(rows), np.bool_)


def _spell(view: View, query: Query, scores: Floats, best: Rows) -> None:
    """Of the best rows with equal scores, let those gain that are spelled like the query."""
    values = np.round(scores[best], DIGITS)
    equal = values[1:] == values[:-1]
    if not equal.any():
        return
    repeated = best[np.append(equal, False) | np.append(False, equal)]
    seqs = query.index.seqs_of(repeated)
    texts, spelled = view.texts(seqs), query.text.split()
    gains = [sum(piece in texts.get(seq, "") for piece in spelled) for seq in seqs]
    scores[repeated] += np.float32(SPELLED) * np.array(gains, np.float32)


# --- Entity ----------------------------------------------------------------------------


def entity_lane(view: View, query: Query) -> Ranking:
    """The entities that the query names, and the chunks that mention them or that they said.

    Chunks that mention more of them, and rarer ones, come first; among equals those whose text
    has the query's words.
    """
    names = _names(view, query)
    entities = [_found_entity(name) for name in names[: query.depth]]
    with query.index.lock:
        about = [(name.entity_id, _mentions(query, name.entity_id)) for name in names[:MOST_NAMES]]
        groups = [rows for _, rows in about if len(rows)] + _said_by(query)
        if not groups:
            return Ranking(entities=entities)
        scores = np.zeros(query.index.count, np.float32)
        for rows in groups:
            scores[rows] += 1 / math.log2(2 + len(rows))
        named = np.flatnonzero(scores)
        lexical = _fitted(query.lexical.score, query.index.count)
        order = scores.copy()
        order[named] += 1e-2 * lexical[named] / max(float(lexical.max(initial=0)), 1e-9)
        rows = best_rows(order, query.index, query.depth)
        share = scores / scores.max()
    return Ranking(rows, entities, scores=share, because=_who(about, rows))


def _who(about: Sequence[tuple[str, Rows]], rows: Rows) -> dict[int, tuple[str, ...]]:
    """Which of the entities each of some rows mentions."""
    mentioned: dict[int, tuple[str, ...]] = {}
    shown = set(rows.tolist())
    for entity_id, group in about:
        for row in shown.intersection(group.tolist()):
            mentioned[row] = (*mentioned.get(row, ()), entity_id)
    return mentioned


def _mentions(query: Query, entity_id: str) -> Rows:
    """The rows in scope that mention an entity, the newest where there are very many."""
    node = query.links.known(entity_id)
    if node is None:  # it came to be since
        return np.zeros(0, np.int32)
    return query.index.located(query.links.mentioning([node], MOST_MENTIONS, _in_scope(query))[1])


def _in_scope(query: Query) -> Callable[[Numbers], Mask]:
    """Tells which chunks, by their seqs, are in scope."""
    within = query.within()

    def allowed(seqs: Numbers) -> Mask:
        rows = query.index.located(seqs)
        here: Mask = rows >= 0
        return here if within is None else here & within[rows]

    return allowed


def _said_by(query: Query) -> list[Rows]:
    """For each source or speaker that the query names: the rows in scope that it said."""
    source, speaker = query.index.field("source"), query.index.field("speaker")
    within = query.within()
    groups = query.index.names.named(query.names)
    said = [np.isin(source, numbers) | np.isin(speaker, numbers) for numbers in groups]
    rows = [np.flatnonzero(each if within is None else each & within) for each in said]
    return [each.astype(np.int32) for each in rows if len(each)]


@dataclass(frozen=True, slots=True)
class _Named:
    entity_id: str
    kind: str
    key: str
    whole: bool


def _names(view: View, query: Query) -> list[_Named]:
    """The entities named whole, longest name first; then those that share a word with the query."""
    keys = words.lookup_keys(query.names)
    found = [_named(naming, whole=True) for naming in view.named(keys, query.scope)]
    terms = [term for term in query.terms if not words.is_common(term)]
    like = view.names_like(terms, query.scope) if terms else []
    found += [_named(each, whole=False) for each in like]
    return list({name.entity_id: name for name in reversed(found)}.values())[::-1]


def _named(naming: Naming, *, whole: bool) -> _Named:
    return _Named(naming.entity_id, naming.kind, naming.key, whole)


def _found_entity(name: _Named) -> FoundEntity:
    boosted = name.whole and name.kind.lower() == "stock"
    return FoundEntity(ENTITY + name.entity_id, (name.key,), name.key, boosted)


# --- Cue -------------------------------------------------------------------------------


def cue_lane(view: View, query: Query, edges: Edges) -> Ranking:
    """Chunks that share distinctive cues with the query, and what edges lead to from there."""

    def allowed(seqs: Numbers) -> Mask:
        with query.index.lock:
            return _in_scope(query)(seqs)

    found = recall_by_cues(
        view,
        query.text,
        query.depth,
        edges,
        asof=query.scope.asof,
        allowed=None if query.scope.current else allowed,
    )
    with query.index.lock:
        seqs = np.array(found.seqs, np.int64)
        rows = query.index.located(seqs)
        there = rows >= 0  # what has come since is in no other lane either
        rows = rows[there].astype(np.int32)
        scores = np.zeros(query.index.count, np.float32)
        scores[rows] = np.array(found.scores, np.float32)[there]
    because = _Ways(view, found, dict(zip(rows.tolist(), seqs[there].tolist(), strict=True)))
    return Ranking(rows, scores=scores, because=because)


class _Ways(Mapping[int, "tuple[Node, ...]"]):
    """By row why the cue lane found it, looked up for those that are shown."""

    def __init__(self, view: View, found: CueHits, seqs: Mapping[int, int]) -> None:
        self._view, self._found, self._seqs = view, found, seqs

    def __len__(self) -> int:
        return len(self._seqs)

    def __iter__(self) -> Iterator[int]:
        return iter(self._seqs)

    def __getitem__(self, row: int) -> tuple[Node, ...]:
        way = self._found.way(self._seqs[row])
        path: tuple[Node, ...] = () if way.origin is None else (way.edge, way.origin)
        return (*path, *cue_names(self._view, way.cues).values())


# --- Graph -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reached:
    weight: float
    path: tuple[int, ...]
    """The nodes that led to it, from a seed on, and it itself."""


def graph_lane(view: View, query: Query, seeds: Sequence[Node]) -> Ranking:
    """What mentions and relations lead to from the seeds: nearest first, then heaviest.

    A step goes from a chunk to an entity it mentions, from an entity to a chunk that mentions
    it, or along a relation either way; each costs one hop. The weight of what is reached is
    that of the ways to it; a way over an entity that many mention says little. A seed counts as
    reached only from a chunk that was found better. No hop is taken once there are enough chunks.
    """
    with query.index.lock:
        nodes = [_node(query, seed) for seed in seeds]
        order = {node: rank for rank, node in enumerate(nodes) if node is not None}
        frontier = {node: _Reached(1.0, (node,)) for node in order}
        reached: dict[int, _Reached] = {}
        for _ in range(query.hops):
            frontier = _step(view, query, frontier, reached, order)
            reached |= frontier
            if not frontier or sum(node > 0 for node in reached) >= ENOUGH:
                break
        return _ranking(view, query, reached)


def _node(query: Query, seed: Node) -> int | None:
    """A seed as a node; None for an entity that came to be since the links were read."""
    return seed if isinstance(seed, int) else query.links.known(seed[len(ENTITY) :])


def _step(
    view: View,
    query: Query,
    frontier: Mapping[int, _Reached],
    seen: Collection[int],
    order: Mapping[int, int],
) -> dict[int, _Reached]:
    """Live nodes in scope one hop further: the heaviest, of equal weight the newer chunk."""
    nodes = list(frontier)
    places, others, weights = _ways(query, np.array(nodes, np.int64), list(frontier.values()))
    total: dict[int, int] = {}
    came: dict[int, int] = {}
    for at, node, weight in zip(places, others, weights, strict=True):
        if node in order and not _is_found_better(frontier[nodes[at]].path[0], node, order):
            continue
        if node in total:
            total[node] += weight
        elif node not in seen:
            total[node], came[node] = weight, nodes[at]
    heaviest = sorted(((weight, node) for node, weight in total.items()), reverse=True)
    live = _first_live(view, query, [node for _, node in heaviest])
    return {
        node: _Reached(total[node] / EXACT, (*frontier[came[node]].path, node)) for node in live
    }


def _ways(
    query: Query, nodes: Numbers, reached: Sequence[_Reached]
) -> tuple[list[int], list[int], list[int]]:
    """Every step from some nodes: the place of the one, the other, and what it weighs.

    Weights in whole parts of EXACT: their sums are the same in whatever order.
    """
    links, chunks, entities = query.links, np.flatnonzero(nodes > 0), np.flatnonzero(nodes < 0)
    mentions, mentioned = links.mentioned(nodes[chunks])
    newest, mentioning = links.mentioning(nodes[entities], ENOUGH, _in_scope(query))
    common = 2 / (1 + np.log2(1 + np.bincount(newest, minlength=1)))
    steps, others, weights = links.steps(nodes, query.moment, min(query.fan_out, MOST_STEPS))
    places = np.concatenate((chunks[mentions], entities[newest], steps))
    so_far = EXACT * np.array([each.weight for each in reached])
    weights = np.concatenate((np.ones(len(mentioned)), common[newest], weights)) * so_far[places]
    ends = np.concatenate((mentioned, mentioning, others))
    return places.tolist(), ends.tolist(), weights.astype(np.int64).tolist()


def _is_found_better(origin: int, seed: int, order: Mapping[int, int]) -> bool:
    """Whether a way from a seed may lead to another: both chunks, and it is the better one."""
    return origin > 0 and seed > 0 and order[origin] < order[seed]


def _first_live(view: View, query: Query, nodes: Sequence[int]) -> list[int]:
    """The first nodes that are live and, if they are chunks, in scope."""
    live: list[int] = []
    for start in range(0, len(nodes), 3 * MOST_REACHED):
        some = nodes[start : start + 3 * MOST_REACHED]
        chunks = [node for node in some if node > 0]
        here = set(np.array(chunks)[_in_scope(query)(np.array(chunks, np.int64))].tolist())
        here.update(_live_entities(view, query, [node for node in some if node < 0]))
        live += [node for node in some if node in here]
        if len(live) >= MOST_REACHED:
            break
    return live[:MOST_REACHED]


def _live_entities(view: View, query: Query, nodes: Sequence[int]) -> list[int]:
    """Those of the entities that are live, or were at the scope's moment."""
    if query.scope.asof is None:
        return [node for node in nodes if query.links.is_live(node)]
    ids = {query.links.entity_id(node): node for node in nodes}
    return [ids[each] for each in view.entities(ids, Scope(asof=query.scope.asof))]


def _ranking(view: View, query: Query, reached: Mapping[int, _Reached]) -> Ranking:
    """What the graph has reached, each chunk measured by its weight and its rank."""
    chunks = [node for node in reached if node > 0][: query.depth]
    rows = query.index.rows_of(chunks)
    scores = np.zeros(query.index.count, np.float32)
    because: dict[int, tuple[Node, ...]] = {}
    for rank, (row, chunk) in enumerate(zip(rows.tolist(), chunks, strict=True), start=1):
        scores[row] = min(reached[chunk].weight, 1.0) / math.sqrt(rank)
        because[row] = _shown(query, reached[chunk].path)
    ways = [_shown(query, each.path) for node, each in reached.items() if node < 0]
    entities = [FoundEntity(str(way[-1]), way) for way in ways[: query.depth]]
    if query.scope.kind is not None:
        kinds = view.entities([each.key[len(ENTITY) :] for each in entities], query.scope)
        entities = [each for each in entities if each.key[len(ENTITY) :] in kinds]
    return Ranking(rows, entities, scores=scores, because=because)


def _shown(query: Query, path: Sequence[int]) -> tuple[Node, ...]:
    """A path as others see it: chunks by seq, entities by "entity:" and id."""
    return tuple([node if node > 0 else ENTITY + query.links.entity_id(node) for node in path])
