"""From four rankings to what a caller reads: hits, reasons, and a reply within its budget."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import words
from evidence import evidence
from fusion import DIGITS, RANK_DIGITS, ordered, rrf, stock_boost
from index import Floats
from lanes import ENTITY, FoundEntity, Node, Query, Ranking
from postings import Rows
from results import Hit, Lane
from rows import ChunkRow, EntityRow
from store import View

Scores = NDArray[np.float64]

SEEN = 20  # of each lane, those that may become a seed of the graph
MOST_ENTITIES = 2  # entity hits beyond top_k
LEAST_CONTENT = 20  # tokens below which a shortened memory says too little to be shown


@dataclass(frozen=True, slots=True)
class Fusion:
    """How rankings become one; see config.py for each."""

    k: int
    weights: Mapping[Lane, float]
    boost: float
    by_evidence: bool

    def of_one_lane(self) -> "Fusion":
        """The same where there is nothing to weigh one lane against."""
        return replace(self, weights=dict.fromkeys(self.weights, 1.0), by_evidence=False)


@dataclass(frozen=True, slots=True)
class Fused:
    """Every chunk that a lane found, best first, and every entity."""

    rankings: Mapping[Lane, Ranking]
    fusion: Fusion
    rows: Rows
    scores: Scores
    rrf: Scores
    pieces: Mapping[str, Floats]
    """Each piece of evidence; none where the order is that of the ranks."""
    entities: Mapping[str, float]
    """The fused score of each entity, best first."""


def fuse(query: Query, rankings: Mapping[Lane, Ranking], fusion: Fusion) -> Fused:
    """RRF over chunks and over entities, each among their own; then the chunks by evidence."""
    counted = _counted(rankings)
    rows, ranked = _ranked(counted, fusion)
    pieces = evidence(query, counted, rows) if fusion.by_evidence else {}
    scores: Scores = np.add.reduce(list(pieces.values()), dtype=np.float64) if pieces else ranked
    best = ordered(scores, rows, query.index, DIGITS if pieces else RANK_DIGITS)
    return Fused(
        counted,
        fusion,
        rows[best],
        scores[best],
        ranked[best],
        {name: values[best] for name, values in pieces.items()},
        _ranked_entities(counted, fusion),
    )


def _counted(rankings: Mapping[Lane, Ranking]) -> dict[Lane, Ranking]:
    """The rankings without faint finds, unless there are no others."""
    solid = any(len(each.rows) and not each.faint for each in rankings.values())
    return {
        lane: replace(each, rows=each.rows[:0]) if solid and each.faint else each
        for lane, each in rankings.items()
    }


def _ranked(rankings: Mapping[Lane, Ranking], fusion: Fusion) -> tuple[Rows, Scores]:
    """Every row that a lane found, and its fused score."""
    lists = [each.rows for each in rankings.values()]
    rows = np.unique(np.concatenate(lists)) if lists else np.zeros(0, np.int32)
    scores = np.zeros(len(rows))
    for lane, each in rankings.items():
        ranks = np.arange(1, len(each.rows) + 1)
        scores[np.searchsorted(rows, each.rows)] += fusion.weights[lane] / (fusion.k + ranks)
    return rows, scores


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
    """What the lanes so far found best: chunks, then entities."""
    first = {lane: replace(each, rows=each.rows[:SEEN]) for lane, each in rankings.items()}
    rows, scores = _ranked(first, fusion)
    best = rows[ordered(scores, rows, query.index, RANK_DIGITS)[:most]]
    return [*query.index.seqs_of(best), *list(_ranked_entities(rankings, fusion))[:most]]


# --- Hits ------------------------------------------------------------------------------


def hits(view: View, query: Query, fused: Fused, *, top_k: int, explain: bool) -> list[Hit]:
    """The best chunks, and among them at most two entities that take no chunk's place."""
    found = _chunks(view, query, fused, top_k, explain=explain)
    entities = [] if query.scope.only_chunks else _entities(view, query, fused, explain=explain)
    for entity in entities:
        _place(entity, found, by_evidence=bool(fused.pieces))
    return found


def _place(entity: Hit, found: list[Hit], *, by_evidence: bool) -> None:
    """Put an entity before the first hit whose ranks are weaker, and give it that hit's score."""
    rank = entity["rrf_score"]
    weaker = [place for place, hit in enumerate(found) if hit["rrf_score"] < rank]
    place = weaker[0] if weaker else len(found)
    if by_evidence and found:
        entity["score"] = found[min(place, len(found) - 1)]["score"]
    found.insert(place, entity)


def _chunks(view: View, query: Query, fused: Fused, top_k: int, *, explain: bool) -> list[Hit]:
    seqs = query.index.seqs_of(fused.rows)
    places = {seq: place for place, seq in enumerate(seqs)}
    found: list[ChunkRow] = []
    # What somebody closes meanwhile is passed over.
    for start in range(0, len(seqs), top_k):
        found += view.chunks(seqs[start : start + top_k], query.scope)
        if len(found) >= top_k:
            break
    hits = [_hit(row, places[row.seq], query, fused) for row in found[:top_k]]
    if explain:
        for row, hit in zip(found, hits, strict=False):
            hit["explain"] = _reasons(view, query, fused, row, places[row.seq])
    return hits


def _hit(row: ChunkRow, place: int, query: Query, fused: Fused) -> Hit:
    lanes = _ranks(fused, int(fused.rows[place]))
    hit: dict[str, Any] = {
        "chunk_id": row.id,
        "content": row.content,
        "source": row.source,
        "timestamp": row.timestamp,
        "importance": row.importance,
        "method": min(lanes, key=lambda lane: lanes[lane]),
        "lanes": lanes,
        "score": round(float(fused.scores[place]), 6),
        "rrf_score": round(float(fused.rrf[place]), 6),
    }
    return cast("Hit", hit | _measures(query, fused, int(fused.rows[place])))


def _ranks(fused: Fused, row: int) -> dict[Lane, int]:
    """The rank of a row in each lane that found it, from 1."""
    return {
        lane: int(at[0]) + 1
        for lane, ranking in fused.rankings.items()
        if len(at := np.flatnonzero(ranking.rows == row))
    }


def _measures(query: Query, fused: Fused, row: int) -> dict[str, float]:
    """Cosine and distance, where there is a vector, and how much of the query the words make up."""
    found = {}
    vector = fused.rankings.get("vector")
    if vector and vector.meaning is not None and row < len(vector.meaning.cosine):
        cosine = float(vector.meaning.cosine[row])
        if cosine >= -1.001:
            # For vectors of length 1, distance squared is 2 - 2 cosine.
            distance = max(0.0, 2 - 2 * cosine) ** 0.5
            found = {"similarity": round(cosine, 4), "distance": round(distance, 4)}
    share = query.lexical.share
    return found | {"match": round(float(share[row]), 3) if row < len(share) else 0.0}


def _reasons(view: View, query: Query, fused: Fused, row: ChunkRow, place: int) -> dict[str, Any]:
    """For each lane its rank, what that adds, and why; and each piece of evidence."""
    at = int(fused.rows[place])
    reasons: dict[str, Any] = {}
    for lane, rank in _ranks(fused, at).items():
        because = [
            *_words(query, row, lane),
            *_named(view, fused.rankings[lane].because.get(at, ())),
        ]
        reasons[lane] = _reason(fused.fusion.weights[lane], rank, because, fused.fusion)
    if fused.pieces:
        values = {name: round(float(piece[place]), 3) for name, piece in fused.pieces.items()}
        reasons["evidence"] = {name: value for name, value in values.items() if value}
    return reasons


def _reason(weight: float, rank: int, because: Sequence[str], fusion: Fusion) -> dict[str, Any]:
    score = round(weight / (fusion.k + rank), 6)
    return {"rank": rank, "score": score, "because": list(dict.fromkeys(because))}


def _words(query: Query, row: ChunkRow, lane: Lane) -> list[str]:
    """The words of the query that a chunk found by words has, and the time that it names."""
    if lane != "meta":
        return []
    terms = set(words.stems(words.index_terms(row.content)))
    present = [term for term in query.terms if words.stems([term])[0] in terms]
    times = [each.words for each in query.spans if each.start <= row.timestamp < each.end]
    return [*present, *times]


def _named(view: View, because: Sequence[Node]) -> list[str]:
    """Reasons as they are shown: a chunk on the way by its id."""
    ids = view.chunk_ids(node for node in because if isinstance(node, int))
    return [node if isinstance(node, str) else ids.get(node, "") for node in because]


def _entities(view: View, query: Query, fused: Fused, *, explain: bool) -> list[Hit]:
    keys = list(fused.entities)
    rows = view.entities([key[len(ENTITY) :] for key in keys], query.scope)
    shown = [key for key in keys if key[len(ENTITY) :] in rows][:MOST_ENTITIES]
    return [
        _entity_hit(view, rows[key[len(ENTITY) :]], key, fused, explain=explain) for key in shown
    ]


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


def fit(found: Sequence[Hit], max_tokens: int, query: str) -> list[Hit]:
    """Whole hits in order as far as the budget reaches; then one shortened around its match.

    Counts the JSON that is sent; 0 means no limit. The first hit is always there.
    """
    if not max_tokens:
        return list(found)
    kept: list[Hit] = []
    left = max_tokens
    for hit in found:
        cost = _cost(hit)
        if cost > left:
            room = left - (cost - words.tokens(hit["content"]))
            if not kept or room >= LEAST_CONTENT:
                kept.append(_shortened(hit, max(room, LEAST_CONTENT), query))
            break
        kept.append(hit)
        left -= cost
    return kept


def _cost(hit: Hit) -> int:
    return words.tokens(json.dumps(hit, ensure_ascii=False))


def _shortened(hit: Hit, room: int, query: str) -> Hit:
    """The stretch of a content that holds most of the query's terms, in about `room` tokens."""
    content = hit["content"]
    start = _match(content, query)
    size = len(content) * room // max(words.tokens(content), 1)
    start = max(0, min(start - size // 4, len(content) - size))
    cut = content[start : start + size]
    while words.tokens(cut) > room:  # the stretch is denser than the whole
        cut = cut[: len(cut) * 9 // 10]
    cut = ("…" if start else "") + cut + ("…" if start + len(cut) < len(content) else "")
    return cast("Hit", {**hit, "content": cut, "truncated": True})


def _match(content: str, query: str) -> int:
    """Where the first word of the query stands in a text as it is stored; 0 if nowhere."""
    places = []
    for term in words.query_terms(query):
        if found := re.search(re.escape(term), content, re.IGNORECASE):
            places.append((-len(term), found.start()))
    return min(places)[1] if places else 0
