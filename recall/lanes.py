"""The lanes: each a function from a view of the file and a query to a ranking.

A new lane is one more such function, named in INDEPENDENT_LANES at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from core.results import Lane
from core.types import Naming, Scope
from index.fields import Floats, Mask
from index.matrix import NO_VECTOR
from index.postings import Rows
from recall.fusion import DIGITS, best_rows, ordered
from recall.query import (
    ENTITY,
    MAX_NAMES,
    FoundEntity,
    Node,
    Numbers,
    Query,
    Ranking,
    above_noise,
    dated,
)
from store import View
from text import words

if TYPE_CHECKING:
    from index.cue_index import CueHits, Edges


SUBSTRING = 0.3  # weight of a piece inside a word, where a whole word has 1
DATED = 0.75  # what a day counts that the query names, where the best words count 1
SPELLED = 1e-4  # gain of a text that is spelled like the query, over one with an equal score
MAX_READ = 50  # if no more texts than these may have a piece, they are read: trigrams are slower
MAX_TIED = 50  # of so many best chunks, those with equal scores are compared by spelling
FLOOR = 0.0  # deviations above the mean of unrelated texts that a vector must reach
MAX_SEEDS = 5  # chunks, and entities, that the graph starts from
MAX_MENTIONS = 1000  # memories of one entity, newest first, that compete
ENOUGH = 20  # chunks reached, after which the graph takes no further hop
MAX_REACHED = 8  # nodes of one hop that the next one starts from, the heaviest
MAX_STEPS = 12  # relations that are followed from one node, the heaviest
EXACT = 1 << 40  # weights are whole numbers of this part of 1


# --- Vector ----------------------------------------------------------------------------


def vector_lane(view: View, query: Query) -> Ranking:
    """Chunks nearest in meaning."""
    if query.vector is None:
        return Ranking()
    index = query.index
    with index.lock:
        population, within = index.population(query.scope.asof), query.within()
        meaning = index.meaning(query.vector, population, within)
        near = _masked(meaning.cosine - NO_VECTOR, within)
        rows = best_rows(near, index, query.depth)
        if query.noise:  # Drop rows that share no word and are no nearer than unrelated texts.
            matched = _fitted(query.lexical.own, index.count)[rows] > 0
            rows = rows[matched | (above_noise(query, meaning.cosine, rows) >= FLOOR)]
    return Ranking(rows, scores=meaning.standard, meaning=meaning)


def _masked(scores: Floats, within: Mask | None) -> Floats:
    """The scores with 0 for every row out of scope."""
    return scores if within is None else scores * within[: len(scores)]


# --- Meta ------------------------------------------------------------------------------


def meta_lane(view: View, query: Query) -> Ranking:
    """Chunks with the query's words, or with pieces of it as written, in text, tags or properties.

    Words rank by BM25 over a chunk and its neighbours. A piece inside a longer word, or of
    several terms, adds to that by its rarity; so does a time of the chunk that the query names.
    Of equal texts the one that is spelled like the query comes first. Pieces that are ordinary
    words, as the `get` that is inside `budget`, are looked for only where nothing better is
    found, and what they find is faint.
    """
    lexical = query.lexical
    pieces = query.literals
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
        rows = best_rows(scores, query.index, max(query.depth, MAX_TIED))
    _spell(view, query, scores, rows[:MAX_TIED])
    with query.index.lock:
        if query.spans:
            rows = best_rows(_with_dates(query, scores), query.index, query.depth)
        else:  # only what is among the best anyway has gained
            rows = rows[ordered(scores[rows], rows, query.index)]
    return Ranking(rows[: query.depth], scores=scores, faint=only_parts, because=_because(found))


def _with_dates(query: Query, scores: Floats) -> Floats:
    """The scores, higher for chunks of a time that the query names."""
    return _masked(scores + np.float32(DATED) * dated(query, slice(len(scores))), query.within())


def _any(scores: Floats, query: Query) -> bool:
    """Whether any row in scope has a score, or a time that the query names."""
    if query.spans:
        return True
    with query.index.lock:
        return float(_masked(scores, query.within()).max(initial=0)) > 0


def _fitted(values: Floats, count: int) -> Floats:
    """The values for `count` rows; 0 for rows that came after the values were computed."""
    if len(values) == count:
        return values
    fitted = np.zeros(count, np.float32)
    fitted[: len(values)] = values[:count]
    return fitted


@dataclass(frozen=True, slots=True)
class _Inside:
    """The rows that have a piece as written, and what that adds to their scores."""

    piece: str
    rows: Rows
    weight: float


def _containing(view: View, query: Query, pieces: Sequence[str]) -> list[_Inside]:
    """The rows that each piece is found in.

    A piece that is one term is looked for only inside longer words: where it is a word of its
    own, BM25 has counted it. Its rarity is that of BM25, from all chunks that have it either way.
    """
    found: dict[str, _Inside] = {}
    having: dict[str, Rows] = {}
    for piece in sorted(pieces, key=len):
        whole = _whole(view, query, piece)
        if len(whole) >= query.depth:
            continue  # the rows with the whole word fill the lane, and rank above these
        among = next((having[part] for part in having if part in piece), None)
        rows = _rows_with(view, query, piece, whole, among)
        if len(rows) + len(whole) <= MAX_READ < query.depth:
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
    """The rows in scope that have a piece as a whole word, if the piece is one term."""
    if words.index_terms(piece) != [piece]:
        return []
    numbers = query.numbers_of(view, words.stems([piece]))
    with query.index.lock:
        whole: list[int] = query.index.having(numbers, query.within()).tolist()
        return whole


def _rows_with(
    view: View, query: Query, piece: str, whole: Collection[int], among: Rows | None
) -> Rows:
    """The oldest rows in scope that have a piece as written, except those of `whole`.

    Those have it as a word. `among` are all rows that have a part of the piece, if they are few.
    """
    if among is not None:
        return _holding(view, query, piece, [row for row in among.tolist() if row not in whole])
    terms = words.index_terms(piece)
    pairs = [term for term in terms if len(term) == 2 and words.is_unspaced(term)]
    if pairs:  # what has the piece has all of these as terms
        rows, doubtful = _having(view, query, piece, pairs)
        unread = rows[doubtful]
        if len(unread) <= MAX_READ:
            containing = _holding(view, query, piece, unread.tolist())
            return rows[~doubtful | np.isin(rows, containing)][: query.depth]

    def wanted(seqs: Sequence[int]) -> list[int]:
        with query.index.lock:
            rows, within = query.index.rows_of(seqs), query.within()
            inside = rows if within is None else rows[within[rows]]
            others = [row for row in inside.tolist() if row not in whole] if whole else inside
            return query.index.seqs_of(np.asarray(others, np.int32))

    return query.index.rows_of(view.containing(piece, query.scope, query.depth, wanted))


def _holding(view: View, query: Query, piece: str, rows: Sequence[int]) -> Rows:
    """Those of a few rows whose text has a piece as written, oldest first."""
    seqs = sorted(query.index.seqs_of(np.array(rows, np.int32)))
    return query.index.rows_of(view.filter_containing(piece, seqs, query.depth))


def _having(view: View, query: Query, piece: str, terms: Sequence[str]) -> tuple[Rows, Mask]:
    """The oldest rows in scope that have some terms of a piece, and which of them are in doubt.

    A row in doubt must be read to know whether it has the piece: several terms may stand apart,
    and one may be only in the name of the source or of the session.
    """
    numbers = query.numbers_of(view, terms)
    with query.index.lock:
        rows = query.index.having(numbers, query.within())
        order = np.argsort(query.index.field("seq")[rows])
        rows = rows[order[: query.depth + MAX_READ]]
        if terms == [piece]:
            return rows, query.index.named_with(rows, piece)
    return rows, np.ones(len(rows), np.bool_)


def _spell(view: View, query: Query, scores: Floats, best: Rows) -> None:
    """Raise the scores of rows that are spelled like the query, among rows with equal scores."""
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
    """The entities that the query names, and the chunks that mention them or are said by them.

    Chunks with more of them, or rarer ones, come first; among equals those with more of the
    query's words.
    """
    names = _names(view, query)
    entities = [_found_entity(name) for name in names[: query.depth]]
    with query.index.lock:
        about = [(name.entity_id, _mentions(query, name.entity_id)) for name in names[:MAX_NAMES]]
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
    """The rows in scope that mention an entity; only the newest where there are very many."""
    node = query.links.known(entity_id)
    if node is None:  # it came to be since
        return np.zeros(0, np.int32)
    return query.index.located(query.links.mentioning([node], MAX_MENTIONS, _in_scope(query))[1])


def _in_scope(query: Query) -> Callable[[Numbers], Mask]:
    """A function that tells which chunks are in scope, given by their seqs."""
    within = query.within()

    def allowed(seqs: Numbers) -> Mask:
        rows = query.index.located(seqs)
        here: Mask = rows >= 0
        return here if within is None else here & within[rows]

    return allowed


def _said_by(query: Query) -> list[Rows]:
    """The rows in scope of each source or speaker that the query names."""
    source, speaker = query.index.field("source"), query.index.field("speaker")
    within = query.within()
    groups = query.index.names.named(sorted(query.names))  # sums of another order differ
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
    """Entities whose whole name is in the query, longest first; then those that share a word."""
    keys = words.lookup_keys(query.names)
    found = [_named(naming, whole=True) for naming in view.entities_named(keys, query.scope)]
    terms = [term for term in query.terms if not words.is_common(term)]
    like = view.entities_named_like(terms, query.scope) if terms else []
    found += [_named(each, whole=False) for each in like]
    return list({name.entity_id: name for name in reversed(found)}.values())[::-1]


def _named(naming: Naming, *, whole: bool) -> _Named:
    return _Named(naming.entity_id, naming.kind, naming.key, whole)


def _found_entity(name: _Named) -> FoundEntity:
    boosted = name.whole and name.kind.lower() == "stock"
    return FoundEntity(ENTITY + name.entity_id, (name.key,), name.key, boosted)


# --- Cue -------------------------------------------------------------------------------


def cue_lane(view: View, query: Query, edges: Edges) -> Ranking:
    """Chunks that share distinctive cues with the query, and what edges from them lead to."""

    def allowed(seqs: Numbers) -> Mask:
        with query.index.lock:
            return _in_scope(query)(seqs)

    within = None if query.scope.current else allowed
    found = view.cues.search(query.text, query.depth, edges, asof=query.scope.asof, allowed=within)
    with query.index.lock:
        seqs = np.array(found.seqs, np.int64)
        rows = query.index.located(seqs)
        there = rows >= 0  # newer ones are not in the index yet, so no lane finds them
        rows = rows[there].astype(np.int32)
        scores = np.zeros(query.index.count, np.float32)
        scores[rows] = np.array(found.scores, np.float32)[there]
    because = _WhyFound(view, found, dict(zip(rows.tolist(), seqs[there].tolist(), strict=True)))
    return Ranking(rows, scores=scores, because=because)


class _WhyFound(Mapping[int, "tuple[Node, ...]"]):
    """Why the cue lane found each row; looked up only for rows that are shown."""

    def __init__(self, view: View, found: CueHits, seqs: Mapping[int, int]) -> None:
        self._view, self._found, self._seqs = view, found, seqs

    def __len__(self) -> int:
        return len(self._seqs)

    def __iter__(self) -> Iterator[int]:
        return iter(self._seqs)

    def __getitem__(self, row: int) -> tuple[Node, ...]:
        way = self._found.explain(self._seqs[row])
        path: tuple[Node, ...] = () if way.origin is None else (way.edge, way.origin)
        names = self._view.cues.names(way.cues)
        return (*path, *names.values())


# --- Graph -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reached:
    weight: float
    path: tuple[int, ...]
    """The nodes from a seed to it, both included."""


def graph_lane(view: View, query: Query, seeds: Sequence[Node]) -> Ranking:
    """What mentions and relations lead to from the seeds: nearest first, then heaviest.

    A step goes from a chunk to an entity it mentions, from an entity to a chunk that mentions
    it, or along a relation in either direction; each costs one hop. The weight of a node is the
    sum over the paths to it; a path through an entity that many mention weighs little. A seed
    counts as reached only from a chunk that ranks above it. The walk ends once it has reached
    enough chunks.
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
    """The heaviest live nodes in scope that are one hop further.

    Of equal ones the newer chunk, then the entity whose id sorts first: not the number of its
    node, which is the order in which this process came to know it.
    """
    nodes = list(frontier)
    places, others, weights = _steps(query, np.array(nodes, np.int64), list(frontier.values()))
    total: dict[int, int] = {}
    came: dict[int, int] = {}
    for at, node, weight in zip(places, others, weights, strict=True):
        if node in order and not _is_found_better(frontier[nodes[at]].path[0], node, order):
            continue
        if node in total:
            total[node] += weight
        elif node not in seen:
            total[node], came[node] = weight, nodes[at]
    live = _first_live(view, query, sorted(total, key=partial(_before, query, total)))
    return {
        node: _Reached(total[node] / EXACT, (*frontier[came[node]].path, node)) for node in live
    }


def _before(query: Query, weights: Mapping[int, int], node: int) -> tuple[int, int, str]:
    """What nodes are sorted by: only what the file says."""
    return (
        (-weights[node], -node, "")
        if node > 0
        else (-weights[node], 0, query.links.entity_id(node))
    )


def _steps(
    query: Query, nodes: Numbers, reached: Sequence[_Reached]
) -> tuple[list[int], list[int], list[int]]:
    """Every step from some nodes: the place of its start among them, its end, and its weight.

    Weights are whole numbers of 1 / EXACT, so that their sums do not depend on the order.
    """
    links, chunks, entities = query.links, np.flatnonzero(nodes > 0), np.flatnonzero(nodes < 0)
    mentions, mentioned = links.mentioned(nodes[chunks])
    newest, mentioning = links.mentioning(nodes[entities], ENOUGH, _in_scope(query))
    common = 2 / (1 + np.log2(1 + np.bincount(newest, minlength=1)))
    steps, others, weights = links.steps(nodes, query.moment, min(query.fan_out, MAX_STEPS))
    places = np.concatenate((chunks[mentions], entities[newest], steps))
    so_far = EXACT * np.array([each.weight for each in reached])
    weights = np.concatenate((np.ones(len(mentioned)), common[newest], weights)) * so_far[places]
    ends = np.concatenate((mentioned, mentioning, others))
    return places.tolist(), ends.tolist(), weights.astype(np.int64).tolist()


def _is_found_better(origin: int, seed: int, order: Mapping[int, int]) -> bool:
    """Whether a path may lead from one seed to another: both are chunks, the first ranks above."""
    return origin > 0 and seed > 0 and order[origin] < order[seed]


def _first_live(view: View, query: Query, nodes: Sequence[int]) -> list[int]:
    """The first nodes that are live and, if they are chunks, in scope."""
    live: list[int] = []
    for start in range(0, len(nodes), 3 * MAX_REACHED):
        some = nodes[start : start + 3 * MAX_REACHED]
        chunks = [node for node in some if node > 0]
        here = set(np.array(chunks)[_in_scope(query)(np.array(chunks, np.int64))].tolist())
        here.update(_live_entities(view, query, [node for node in some if node < 0]))
        live += [node for node in some if node in here]
        if len(live) >= MAX_REACHED:
            break
    return live[:MAX_REACHED]


def _live_entities(view: View, query: Query, nodes: Sequence[int]) -> list[int]:
    """Those of the entities that are live, or were at the scope's moment."""
    if query.scope.asof is None:
        return [node for node in nodes if query.links.is_live(node)]
    ids = {query.links.entity_id(node): node for node in nodes}
    return [ids[each] for each in view.entities(ids, Scope(asof=query.scope.asof))]


def _ranking(view: View, query: Query, reached: Mapping[int, _Reached]) -> Ranking:
    """What the graph has reached; a chunk's score is its weight, lowered by its rank."""
    chunks = [node for node in reached if node > 0][: query.depth]
    rows = query.index.rows_of(chunks)
    scores = np.zeros(query.index.count, np.float32)
    because: dict[int, tuple[Node, ...]] = {}
    for rank, (row, chunk) in enumerate(zip(rows.tolist(), chunks, strict=True), start=1):
        scores[row] = min(reached[chunk].weight, 1.0) / math.sqrt(rank)
        because[row] = _shown(query, reached[chunk].path)
    paths = [_shown(query, each.path) for node, each in reached.items() if node < 0]
    entities = [FoundEntity(str(path[-1]), path) for path in paths[: query.depth]]
    if query.scope.kind is not None:
        kinds = view.entities([each.key[len(ENTITY) :] for each in entities], query.scope)
        entities = [each for each in entities if each.key[len(ENTITY) :] in kinds]
    return Ranking(rows, entities, scores=scores, because=because)


def _shown(query: Query, path: Sequence[int]) -> tuple[Node, ...]:
    """A path with chunks as seqs, and entities as "entity:" and the id."""
    return tuple([node if node > 0 else ENTITY + query.links.entity_id(node) for node in path])


# --- The table of lanes ----------------------------------------------------------------

INDEPENDENT_LANES: dict[Lane, Callable[[View, Query], Ranking]] = {
    "vector": vector_lane,
    "meta": meta_lane,
    "entity": entity_lane,
}
"""The lanes that need nothing but the query; the graph starts from what they found."""
