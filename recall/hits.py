"""From the rankings of the lanes to what a caller reads: hits, reasons, a reply of limited size."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from core.results import Cautioned, Hit, Lane
from core.types import ChunkRow, EntityRow
from index.chunks import Index
from index.fields import Floats
from index.matrix import NO_VECTOR
from index.postings import Rows
from recall.fusion import DIGITS, RANK_DIGITS, ordered, rrf, stock_boost
from recall.query import ENTITY, FoundEntity, Node, Query, Ranking
from recall.reranking import WEIGHTS, features, of_rows
from store import View
from text import words

Scores = NDArray[np.float64]
Caution = Callable[..., Cautioned]
"""What is to stand beside some texts that are shown, from them."""

SEED_DEPTH = 20  # of each lane, the best ones that may become a seed of the graph
MAX_ENTITIES = 2  # entity hits beyond top_k
MAX_BESIDE = 151  # tokens of a hit without its texts: at most 600 characters, and a part of one
MIN_CONTENT = 20  # tokens; a memory that is cut shorter says too little to be shown


@dataclass(frozen=True, slots=True)
class Fusion:
    """How rankings become one; see config.py for each."""

    k: int
    weights: Mapping[Lane, float]
    boost: float
    reranks: bool
    """Whether features decide the order of chunks, and not the ranks alone."""

    def of_one_lane(self) -> "Fusion":
        """The same for one lane alone, which has no other to be weighed against."""
        return replace(self, weights=dict.fromkeys(self.weights, 1.0), reranks=False)


@dataclass(frozen=True, slots=True)
class Fused:
    """Every chunk that a lane found, in the order of the rows, and every entity."""

    rankings: Mapping[Lane, Ranking]
    fusion: Fusion
    rows: Rows
    scores: Scores
    rrf: Scores
    features: Floats | None
    """The weighted features, one line for each of WEIGHTS; None where the ranks decide."""
    entities: Mapping[str, float]
    """The fused score of each entity, best first."""

    def best(self, index: Index, most: int) -> NDArray[np.intp]:
        """The places of the best rows in the arrays above, best first."""
        digits = RANK_DIGITS if self.features is None else DIGITS
        return _best(self.scores, self.rows, index, most, digits)


def fuse(query: Query, rankings: Mapping[Lane, Ranking], fusion: Fusion) -> Fused:
    """Chunks and entities, each ranked among themselves by RRF; then the chunks reranked."""
    counted = _counted(rankings)
    rows, ranked = _ranked(counted, fusion)
    weighed = features(query, counted, rows) if fusion.reranks else None
    scores: Scores = ranked if weighed is None else weighed.sum(axis=0, dtype=np.float64)
    entities = _ranked_entities(counted, fusion)
    return Fused(counted, fusion, rows, scores, ranked, weighed, entities)


def _best(scores: Scores, rows: Rows, index: Index, most: int, digits: int) -> NDArray[np.intp]:
    """The places of the best rows, in the order that all of them together have."""
    if len(rows) <= most:
        return ordered(scores, rows, index, digits)
    rounded = np.round(scores, digits)
    among = np.flatnonzero(rounded >= np.partition(rounded, -most)[-most])
    return among[ordered(scores[among], rows[among], index, digits)[:most]]


def _counted(rankings: Mapping[Lane, Ranking]) -> dict[Lane, Ranking]:
    """The rankings without faint ones, unless all are faint."""
    solid = any(len(each.rows) and not each.faint for each in rankings.values())
    return {
        lane: replace(each, rows=each.rows[:0]) if solid and each.faint else each
        for lane, each in rankings.items()
    }


def _ranked(
    rankings: Mapping[Lane, Ranking], fusion: Fusion, depth: int | None = None
) -> tuple[Rows, Scores]:
    """The rows that any lane has among its first, in ascending order, and their fused scores."""
    lists = {lane: each.rows[:depth] for lane, each in rankings.items() if len(each.rows)}
    if not lists:
        return np.zeros(0, np.int32), np.zeros(0)
    found = np.concatenate(list(lists.values()))
    gains = np.concatenate(
        [
            fusion.weights[lane] / np.arange(fusion.k + 1, fusion.k + 1 + len(rows))
            for lane, rows in lists.items()
        ]
    )
    order = np.argsort(found, kind="stable")
    found = found[order]
    new = np.ones(len(found), np.bool_)
    new[1:] = found[1:] != found[:-1]
    first = np.flatnonzero(new)
    return found[first], np.add.reduceat(gains[order], first)


def _ranked_entities(rankings: Mapping[Lane, Ranking], fusion: Fusion) -> dict[str, float]:
    """Every entity that a lane found with its fused score, best first; a named stock gains."""
    keys = [[each.key for each in ranking.entities] for ranking in rankings.values()]
    scores = rrf(keys, fusion.k)
    for ranking in rankings.values():
        for rank, each in enumerate(ranking.entities, start=1):
            if each.boosted:
                scores[each.key] += stock_boost(rank, fusion.boost)
    return dict(sorted(scores.items(), key=lambda item: (-round(item[1], 9), item[0])))


def seeds(rankings: Mapping[Lane, Ranking], query: Query, fusion: Fusion, most: int) -> list[Node]:
    """What the graph starts from: the best chunks of the lanes so far, then the best entities."""
    rows, scores = _ranked(rankings, fusion, SEED_DEPTH)
    best = rows[ordered(scores, rows, query.index, RANK_DIGITS)[:most]]
    return [*query.index.seqs_of(best), *list(_ranked_entities(rankings, fusion))[:most]]


# --- Hits ------------------------------------------------------------------------------


def hits(view: View, query: Query, fused: Fused, *, top_k: int, explain: bool) -> list[Hit]:
    """The best chunks, and among them at most two entities that take no chunk's place."""
    found = _chunks(view, query, fused, top_k, explain=explain)
    entities = [] if query.scope.only_chunks else _entities(view, query, fused, explain=explain)
    for entity in entities:
        _place(entity, found, reranked=fused.features is not None)
    return found


def _place(entity: Hit, found: list[Hit], *, reranked: bool) -> None:
    """Put an entity before the first hit whose ranks are weaker, and give it that hit's score."""
    rank = entity["rrf_score"]
    weaker = [place for place, hit in enumerate(found) if hit["rrf_score"] < rank]
    place = weaker[0] if weaker else len(found)
    if reranked and found:
        entity["score"] = found[min(place, len(found) - 1)]["score"]
    found.insert(place, entity)


def _chunks(view: View, query: Query, fused: Fused, top_k: int, *, explain: bool) -> list[Hit]:
    found, places = _shown(view, query, fused, top_k)
    rows = fused.rows[places]
    ranks = _ranks(fused, rows)
    scores, rrf = fused.scores[places].tolist(), fused.rrf[places].tolist()
    measures = _measures(query, fused, rows)
    hits = [_hit(*each) for each in zip(found, ranks, scores, rrf, measures, strict=True)]
    if explain:
        for hit, row, place, lanes in zip(hits, found, places.tolist(), ranks, strict=True):
            hit["explain"] = _reasons(view, query, fused, row, place, lanes)
    return hits


def _shown(
    view: View, query: Query, fused: Fused, top_k: int
) -> tuple[list[ChunkRow], NDArray[np.intp]]:
    """The best chunks as they are now, and their places among all that were found.

    Chunks that were closed meanwhile are left out.
    """
    most = top_k
    while True:
        places = fused.best(query.index, most)
        seqs = query.index.seqs_of(fused.rows[places])
        found = view.chunks(seqs, query.scope)[:top_k]
        if len(found) == top_k or most >= len(fused.rows):
            break
        most *= 2
    if len(found) < len(places):
        there = {row.seq for row in found}
        places = places[[seq in there for seq in seqs]]
    return found, places


def _hit(
    row: ChunkRow, lanes: dict[Lane, int], score: float, rrf: float, measures: dict[str, float]
) -> Hit:
    hit: dict[str, Any] = {
        "chunk_id": row.id,
        "content": row.content,
        "source": row.source,
        "timestamp": row.timestamp,
        "importance": row.importance,
        "method": min(lanes, key=lanes.__getitem__),
        "lanes": lanes,
        "score": round(score, 6),
        "rrf_score": round(rrf, 6),
        **measures,
    }
    return cast("Hit", hit)


def _ranks(fused: Fused, rows: Rows) -> list[dict[Lane, int]]:
    """For each of some rows its rank in each lane that found it, from 1."""
    found = np.concatenate([each.rows for each in fused.rankings.values()])
    starts = list(accumulate((len(each.rows) for each in fused.rankings.values()), initial=0))
    lanes = list(fused.rankings)
    ranks: list[dict[Lane, int]] = [{} for _ in range(len(rows))]
    for place in np.flatnonzero(rows[:, None] == found).tolist():
        hit, at = divmod(place, len(found))
        lane = bisect_right(starts, at) - 1
        ranks[hit][lanes[lane]] = at - starts[lane] + 1
    return ranks


def _measures(query: Query, fused: Fused, rows: Rows) -> list[dict[str, float]]:
    """Cosine and distance, where there is a vector, and the part of the query that words match."""
    with query.index.lock:
        share = of_rows(query.lexical.share, rows.astype(np.intp), query.index).tolist()
    vector = fused.rankings.get("vector")
    if vector is None or vector.meaning is None:
        return [{"match": round(match, 3)} for match in share]
    found: list[dict[str, float]] = []
    known = vector.meaning.cosine
    for row, match in zip(rows.tolist(), share, strict=True):
        measures = {}
        if row < len(known) and (cosine := float(known[row])) > NO_VECTOR:
            # For vectors of length 1, distance squared is 2 - 2 cosine.
            distance = max(0.0, 2 - 2 * cosine) ** 0.5
            measures = {"similarity": round(cosine, 4), "distance": round(distance, 4)}
        found.append(measures | {"match": round(match, 3)})
    return found


def _reasons(
    view: View, query: Query, fused: Fused, row: ChunkRow, place: int, lanes: Mapping[Lane, int]
) -> dict[str, Any]:
    """For each lane its rank, what that adds, and why; and the features, as `evidence`."""
    at = int(fused.rows[place])
    reasons: dict[str, Any] = {}
    for lane, rank in lanes.items():
        because = [
            *_words(query, row, lane),
            *_named(view, fused.rankings[lane].because.get(at, ())),
        ]
        reasons[lane] = _reason(fused.fusion.weights[lane], rank, because, fused.fusion)
    if fused.features is not None:
        values = zip(WEIGHTS, fused.features[:, place].tolist(), strict=True)
        reasons["evidence"] = {name: round(value, 3) for name, value in values if round(value, 3)}
    return reasons


def _reason(weight: float, rank: int, because: Sequence[str], fusion: Fusion) -> dict[str, Any]:
    score = round(weight / (fusion.k + rank), 6)
    return {"rank": rank, "score": score, "because": list(dict.fromkeys(because))}


def _words(query: Query, row: ChunkRow, lane: Lane) -> list[str]:
    """The query's words and times that a chunk has, where the meta lane found it."""
    if lane != "meta":
        return []
    terms = set(words.stems(words.index_terms(row.content)))
    present = [term for term in query.terms if words.stems([term])[0] in terms]
    times = [each.words for each in query.spans if each.start <= row.timestamp < each.end]
    return [*present, *times]


def _named(view: View, because: Sequence[Node]) -> list[str]:
    """Reasons as they are shown: a chunk by its id."""
    ids = view.chunk_ids(node for node in because if isinstance(node, int))
    return [node if isinstance(node, str) else ids.get(node, "") for node in because]


def _entities(view: View, query: Query, fused: Fused, *, explain: bool) -> list[Hit]:
    keys, found = list(fused.entities), list[Hit]()
    for start in range(0, len(keys), MAX_ENTITIES):
        some = keys[start : start + MAX_ENTITIES]
        rows = view.entities([key[len(ENTITY) :] for key in some], query.scope)
        for key in some:
            if row := rows.get(key[len(ENTITY) :]):
                found.append(_entity_hit(view, row, key, fused, explain=explain))
        if len(found) >= MAX_ENTITIES:
            break
    return found[:MAX_ENTITIES]


def _entity_hit(view: View, row: EntityRow, key: str, fused: Fused, *, explain: bool) -> Hit:
    found: dict[Lane, tuple[int, FoundEntity]] = {
        lane: (rank, each)
        for lane, ranking in fused.rankings.items()
        for rank, each in enumerate(ranking.entities, start=1)
        if each.key == key
    }
    score = round(fused.entities[key], 6)
    hit: dict[str, Any] = {
        "chunk_id": key,
        "content": row.summary or row.name,
        "source": f"entity:{row.kind}",
        "timestamp": row.valid_from,
        "entity_id": row.id,
        "entity_name": row.name,
        "entity_kind": row.kind,
        "importance": row.importance,
        "method": min(found, key=lambda lane: found[lane][0]),
        "lanes": {lane: rank for lane, (rank, _) in found.items()},
        "score": score,
        "rrf_score": score,
    }
    if explain:
        hit["explain"] = {
            lane: _reason(1.0, rank, _named(view, each.because), fused.fusion)
            for lane, (rank, each) in found.items()
        }
    return cast("Hit", hit)


# --- The budget ------------------------------------------------------------------------


def fit(found: Sequence[Hit], max_tokens: int, query: str, caution: Caution) -> list[Hit]:
    """Whole hits in order as far as the budget reaches; then one shortened around its match.

    Counts the JSON that is sent, cautions too; 0 means no limit. The first hit is always there.
    """
    marked = (_marked(hit, caution) for hit in found)
    if not max_tokens or _surely_fit(found, max_tokens):
        return list(marked)
    kept: list[Hit] = []
    left = max_tokens
    for hit in marked:
        cost = _cost(hit)
        if cost > left:
            room = left - (cost - words.tokens(hit["content"]))
            if not kept or room >= MIN_CONTENT:
                kept.append(_shortened(hit, max(room, MIN_CONTENT), query))
            break
        kept.append(hit)
        left -= cost
    return kept


def _marked(hit: Hit, caution: Caution) -> Hit:
    """The hit with a caution, if one of its texts asks for that."""
    said = caution(hit["content"], hit["source"], hit.get("entity_name", ""))
    return cast("Hit", {**hit, **said}) if said else hit


_json = json.JSONEncoder(ensure_ascii=False).encode


def _surely_fit(found: Sequence[Hit], max_tokens: int) -> bool:
    """Whether the hits fit even if all but their texts is as long as it can be.

    This is a quick answer: to write all numbers out takes long.
    """
    if any("explain" in hit for hit in found):
        return False
    texts = _json([each for hit in found for each in hit.values() if isinstance(each, str)])
    left = max_tokens - MAX_BESIDE * len(found)
    # A character is never more than one token, and characters are counted faster.
    return len(texts) <= left or words.tokens(texts) <= left


def _cost(hit: Hit) -> int:
    return words.tokens(_json(hit))


def _shortened(hit: Hit, room: int, query: str) -> Hit:
    """The hit with only the part of its content around the query's longest term that it has."""
    content = hit["content"]
    start = _match(content, query)
    size = len(content) * room // max(words.tokens(content), 1)
    start = max(0, min(start - size // 4, len(content) - size))
    cut = content[start : start + size]
    while words.tokens(cut) > room:  # this part is denser than the whole
        cut = cut[: len(cut) * 9 // 10]
    cut = ("…" if start else "") + cut + ("…" if start + len(cut) < len(content) else "")
    return cast("Hit", {**hit, "content": cut, "truncated": True})


def _match(content: str, query: str) -> int:
    """Where the longest term of the query that a text has stands in it; 0 if it has none."""
    places = []
    for term in words.query_terms(query):
        if found := re.search(re.escape(term), content, re.IGNORECASE):
            places.append((-len(term), found.start()))
    return min(places)[1] if places else 0
