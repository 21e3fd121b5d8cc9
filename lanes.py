"""The four lanes: each a small function from a read connection and a query to a ranking.

Vector, meta and entity stand alone; graph starts from what they found best and returns only
what it reached itself. A lane applies the scope before its cut and can say why it found a thing.
Chunks are meant by their rows in the index in memory (index.py), entities by "entity:" and id.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import words
from dates import Span
from fusion import DIGITS, best_rows, ordered
from index import UNSPACED, Floats, Index, Lexical, Mask, Meaning
from matrix import NOWHERE
from postings import Rows
from rows import Naming, Noise, Scope, Vectors, is_chunk_id
from store import View

SUBSTRING = 0.3  # what a piece inside a word counts, beside 1 for the whole word
DATED = 0.75  # what the day counts that the query names, beside 1 for the best words
CLOSENESS = {"day": 1.0, "week": 0.7, "month": 0.3, "year": 0.1}
"""How much of that a longer time counts."""
SPELLED = 1e-4  # what of two equal texts the closer spelling gains
FEW = 50  # texts that are read to look for a piece in, rather than asking for its trigrams
TIED = 50  # of so many best chunks, those with equal scores are compared by spelling
FLOOR = 0.0  # deviations above the mean of unrelated texts that a vector must reach
SEEDS = 5  # chunks, and entities, that the graph starts from
MOST_NAMES = 8  # entities whose memories the entity lane looks at
MOST_MENTIONS = 1000  # memories of one entity, newest first, that compete
ENOUGH = 20  # chunks reached, with which the graph goes no further
MOST_REACHED = 8  # nodes of one hop that the next one starts from, the heaviest
MOST_STEPS = 6  # relations each way that are followed from one node, the heaviest
ENTITY = "entity:"

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
        self.names = words.name_keys(text)
        self.index = view.index(past=scope.asof is not None)
        stems = list(dict.fromkeys(words.stems(self.terms)))
        self.numbers = view.term_numbers(stems)
        self._numbers = dict(zip(stems, self.numbers, strict=True))
        self.spans = spans(self.index)
        self._only = view.named_one_by_one(scope)
        self._lexical: Lexical | None = None
        self._within: tuple[int, Mask | None] | None = None

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


def vector_lane(view: View, query: Query) -> Ranking:
    """Chunks nearest in meaning."""
    if query.vector is None:
        return Ranking()
    index = query.index
    with index.lock:
        population, within = index.population(query.scope.asof), query.within()
        meaning = index.meaning(query.vector, population, within, view.cosines)
        near = _masked(meaning.cosine - NOWHERE, within)
        rows = best_rows(near, index, query.depth)
        if query.noise:  # what has no word of it and is no nearer than unrelated texts is no find
            matched = _fitted(query.lexical.own, index.count)[rows] > 0
            rows = rows[matched | (above_noise(query, meaning.cosine, rows) >= FLOOR)]
    return Ranking(rows, scores=meaning.standard, meaning=meaning)


def above_noise(query: Query, cosine: Floats, rows: Rows) -> Floats:
    """Cosines of rows in deviations above those of unrelated texts in such scripts."""
    asks = 2 * words.is_unspaced(query.text)
    noise = np.array(query.noise, np.float32)[[asks + 1, asks], :, None]
    mean, deviation = np.where(query.unspaced(rows), noise[0], noise[1])
    found: Floats = ((cosine[rows] - mean) / deviation).astype(np.float32)
    return found


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


def dated(query: Query, rows: Rows | slice) -> Floats:
    """How closely the query names the time of each row: 1 for its day, 0 where it does not."""
    found = np.zeros(len(query.index.field("stamp")[rows]), np.float32)
    for unit, closeness in CLOSENESS.items():
        spans = [(span.start, span.end) for span in query.spans if span.unit == unit]
        if spans:
            inside = query.index.dated(rows, spans)
            found = np.maximum(found, np.float32(closeness) * inside)
    return found


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
    groups = [_mentions(view, query, name.entity_id, MOST_MENTIONS) for name in names[:MOST_NAMES]]
    because: dict[int, tuple[str, ...]] = {}
    for name, rows in zip(names, groups, strict=False):
        for row in rows.tolist():
            because[row] = (*because.get(row, ()), name.entity_id)
    with query.index.lock:
        groups += _said_by(query)
        scores = np.zeros(query.index.count, np.float32)
        for rows in groups:
            scores[rows] += 1 / math.log2(2 + len(rows))
        named = _masked(scores, query.within())
        lexical = _fitted(query.lexical.score, query.index.count)
        tie = np.float32(1e-2) * lexical / max(float(lexical.max(initial=0)), 1e-9)
        order = np.where(named > 0, named + tie, 0)
        rows = best_rows(order, query.index, query.depth)
    entities = [_found_entity(name) for name in names[: query.depth]]
    share = named / max(float(named.max(initial=0)), 1e-9)
    return Ranking(rows, entities, scores=share, because=because)


def _mentions(view: View, query: Query, entity_id: str, most: int) -> Rows:
    """The rows in scope that mention an entity, the newest where there are very many."""
    seqs = view.mentions(entity_id, most)
    with query.index.lock:
        rows, within = query.index.rows_of(seqs), query.within()
        inside = rows if within is None else rows[within[rows]]
    if len(inside) < len(seqs) == most:  # closed ones must take no places
        return query.index.rows_of(view.mentioning(entity_id, query.scope, most))
    return inside


def _said_by(query: Query) -> list[Rows]:
    """For each source or speaker that the query names: the rows in scope that it said."""
    source, speaker = query.index.field("source"), query.index.field("speaker")
    within = query.within()
    groups = query.index.names.named(query.names)
    said = [np.isin(source, numbers) | np.isin(speaker, numbers) for numbers in groups]
    return [
        np.flatnonzero(each if within is None else each & within).astype(np.int32) for each in said
    ]


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
    like = view.names_like(terms, query.scope, query.depth) if terms else []
    found += [_named(each, whole=False) for each in like]
    return list({name.entity_id: name for name in reversed(found)}.values())[::-1]


def _named(naming: Naming, *, whole: bool) -> _Named:
    return _Named(naming.entity_id, naming.kind, naming.key, whole)


def _found_entity(name: _Named) -> FoundEntity:
    boosted = name.whole and name.kind.lower() == "stock"
    return FoundEntity(ENTITY + name.entity_id, (name.key,), name.key, boosted)


# --- Graph -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reached:
    weight: float
    path: tuple[Node, ...]


def graph_lane(view: View, query: Query, seeds: Sequence[Node]) -> Ranking:
    """What mentions and relations lead to from the seeds: nearest first, then heaviest.

    A step goes from a chunk to an entity it mentions, from an entity to a chunk that mentions
    it, or along a relation either way; each costs one hop. The weight of what is reached is
    that of the ways to it; a way over an entity that many mention says little. A seed counts as
    reached only from a chunk that was found better. No hop is taken once there are enough chunks.
    """
    order = {seed: rank for rank, seed in enumerate(seeds)}
    seen: set[Node] = set()
    frontier = {seed: _Reached(1.0, (seed,)) for seed in seeds}
    chunks: dict[int, _Reached] = {}
    entities: dict[str, tuple[Node, ...]] = {}
    for _ in range(query.hops):
        frontier = _live(view, query, _step(view, query, frontier, seen, order))
        seen |= frontier.keys()
        # Of equal weight the newer chunk, and then the entity that comes first by its id.
        by_id = sorted(frontier, key=lambda node: (isinstance(node, str), str(node)))
        by_id.sort(key=lambda node: (frontier[node].weight, _seq(node)), reverse=True)
        for node in by_id:
            if isinstance(node, int):
                chunks[node] = frontier[node]
            else:
                entities[node] = frontier[node].path
        if len(chunks) >= ENOUGH or not frontier:
            break
    kinds = view.entities([node[len(ENTITY) :] for node in entities], query.scope)
    shown = [
        FoundEntity(node, path) for node, path in entities.items() if node[len(ENTITY) :] in kinds
    ]
    return _reached(query, chunks, shown[: query.depth])


def _reached(
    query: Query, chunks: Mapping[int, _Reached], entities: Sequence[FoundEntity]
) -> Ranking:
    """The ranking of what the graph has reached, each chunk measured by its weight and its rank."""
    with query.index.lock:
        rows = query.index.rows_of(list(chunks)[: query.depth])
        scores = np.zeros(query.index.count, np.float32)
        found = zip(rows.tolist(), query.index.seqs_of(rows), strict=True)
        reached = {row: chunks[seq] for row, seq in found}
    for rank, (row, each) in enumerate(reached.items(), start=1):
        scores[row] = min(each.weight, 1.0) / math.sqrt(rank)
    because = {row: each.path for row, each in reached.items()}
    return Ranking(rows, entities, scores=scores, because=because)


def _seq(node: Node) -> int:
    return node if isinstance(node, int) else 0


def _step(
    view: View,
    query: Query,
    frontier: dict[Node, _Reached],
    seen: set[Node],
    order: dict[Node, int],
) -> dict[Node, _Reached]:
    """Every node one hop further, heaviest first and not too many."""
    reached: dict[Node, _Reached] = {}
    for node, key, weight in _neighbours(view, query, list(frontier)):
        so_far = frontier[node]
        if key not in seen and _may_reach(so_far.path[0], key, order):
            before = reached.get(key, _Reached(0.0, (*so_far.path, key)))
            reached[key] = _Reached(before.weight + so_far.weight * weight, before.path)
    heaviest = sorted(reached, key=lambda key: (-reached[key].weight, str(key)))[:MOST_REACHED]
    return {key: reached[key] for key in heaviest}


def _may_reach(origin: Node, key: Node, order: dict[Node, int]) -> bool:
    if key not in order:
        return True
    return isinstance(key, int) and isinstance(origin, int) and order[origin] < order[key]


def _neighbours(
    view: View, query: Query, nodes: Sequence[Node]
) -> Iterator[tuple[Node, Node, float]]:
    """Every step from some nodes: from where, to where, and what it weighs."""
    ids = view.chunk_ids(node for node in nodes if isinstance(node, int))
    for seq, entity_id in view.mentioned(ids, query.scope.asof) if ids else ():
        yield seq, ENTITY + entity_id, 1.0
    names = {node[len(ENTITY) :]: node for node in nodes if isinstance(node, str)}
    for name, seqs in _newest(view, query, list(names)).items():
        for seq in seqs:
            yield names[name], seq, 2 / (1 + math.log2(1 + len(seqs)))
    here: dict[str, Node] = {**names, **{chunk_id: seq for seq, chunk_id in ids.items()}}
    steps = view.steps(list(here), query.at, min(query.fan_out, MOST_STEPS))
    chunks = view.chunk_seqs([end for _, end, _ in steps if is_chunk_id(end)])
    for name, end, weight in steps:
        yield here[name], chunks.get(end, ENTITY + end), weight


def _newest(view: View, query: Query, names: Sequence[str]) -> dict[str, list[int]]:
    """The newest chunks in scope that mention each entity."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for name, seq in view.newest(names, ENOUGH) if names else ():
        found[name].append(seq)
    with query.index.lock:
        within = query.within()
        for name, seqs in found.items():
            rows = query.index.rows_of(seqs)
            inside = rows if within is None else rows[within[rows]]
            if len(inside) < len(seqs) == ENOUGH:  # closed ones must take no places
                found[name] = view.mentioning(name, query.scope, ENOUGH)
            else:
                found[name] = query.index.seqs_of(inside)
    return found


def _live(view: View, query: Query, reached: dict[Node, _Reached]) -> dict[Node, _Reached]:
    """Only what is live, and of chunks what is in scope."""
    with query.index.lock:
        within = query.within()
        rows = query.index.rows_of(node for node in reached if isinstance(node, int))
        rows = rows if within is None else rows[within[rows]]
        chunks = query.index.seqs_of(rows)
    names = [node[len(ENTITY) :] for node in reached if isinstance(node, str)]
    entities = view.entities(names, Scope(asof=query.scope.asof))
    live: set[Node] = {*chunks, *(ENTITY + entity_id for entity_id in entities)}
    return {node: each for node, each in reached.items() if node in live}
