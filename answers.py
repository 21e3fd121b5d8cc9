"""From fused ranks to what a caller reads: hits, reasons, and a reply within its budget."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import words
from fusion import best_first, rrf, stock_boost
from lanes import ENTITY, Found, Ranking
from results import Hit, Lane
from rows import ChunkRow, EntityRow

MOST_ENTITIES = 2  # entity hits beyond top_k
LEAST_CONTENT = 20  # tokens below which a shortened memory says too little to be shown


@dataclass(frozen=True, slots=True)
class Fused:
    """Every candidate with its score and, for each lane that found it, rank and reason."""

    scores: Mapping[str, float]
    found: Mapping[str, Mapping[Lane, tuple[int, Found]]]


def fuse(rankings: Mapping[Lane, Ranking], k: int, boost: float) -> Fused:
    """RRF over chunks and over entities, each among their own; plus what named stocks gain."""
    found: dict[str, dict[Lane, tuple[int, Found]]] = {}
    boosts: dict[str, float] = {}
    groups = _groups(rankings)
    for lane, lists in groups.items():
        for group in lists:
            for rank, each in enumerate(group, start=1):
                found.setdefault(each.key, {})[lane] = (rank, each)
                if each.boosted:
                    boosts[each.key] = stock_boost(rank, boost)
    keys = [[each.key for each in group] for lists in groups.values() for group in lists]
    scores = {key: score + boosts.get(key, 0.0) for key, score in rrf(keys, k).items()}
    return Fused(scores, found)


def _groups(rankings: Mapping[Lane, Ranking]) -> dict[Lane, tuple[list[Found], list[Found]]]:
    """Each lane's chunks and entities; faint finds only where all are."""
    solid = any(not each.faint for ranking in rankings.values() for each in ranking.chunks)
    return {
        lane: ([each for each in ranking.chunks if not (solid and each.faint)], ranking.entities)
        for lane, ranking in rankings.items()
    }


def hits(
    fused: Fused,
    chunks: Mapping[str, ChunkRow],
    entities: Mapping[str, EntityRow],
    *,
    top_k: int,
    explain: bool,
    k: int,
) -> list[Hit]:
    """The best chunks, and among them at most two entities that take no chunk's place."""
    times = {key: row.timestamp for key, row in chunks.items()}
    times |= {ENTITY + row.id: row.valid_from for row in entities.values()}
    ordered = best_first(fused.scores, times)
    kept = [key for key in ordered if key in chunks][:top_k]
    kept += [key for key in ordered if key.removeprefix(ENTITY) in entities][:MOST_ENTITIES]
    chosen = set(kept)
    rows: dict[str, ChunkRow | EntityRow] = dict(chunks)
    rows |= {ENTITY + row.id: row for row in entities.values()}
    return [_hit(key, rows[key], fused, explain=explain, k=k) for key in ordered if key in chosen]


def _hit(key: str, row: ChunkRow | EntityRow, fused: Fused, *, explain: bool, k: int) -> Hit:
    lanes = fused.found[key]
    score = round(fused.scores[key], 6)
    hit: dict[str, Any] = {
        "chunk_id": key,
        **_content(row),
        "importance": row.importance,
        "method": min(lanes, key=lambda lane: lanes[lane][0]),
        "lanes": {lane: rank for lane, (rank, _) in lanes.items()},
        "score": score,
        "rrf_score": score,
    }
    distances = [found.distance for _, found in lanes.values() if found.distance is not None]
    if distances:
        # For vectors of length 1, distance squared is 2 - 2 cosine.
        hit |= {
            "similarity": round(1 - distances[0] ** 2 / 2, 4),
            "distance": round(distances[0], 4),
        }
    if explain:
        hit["explain"] = {
            lane: {"rank": rank, "score": round(1 / (k + rank), 6), "because": list(found.because)}
            for lane, (rank, found) in lanes.items()
        }
    return cast("Hit", hit)


def _content(row: ChunkRow | EntityRow) -> dict[str, Any]:
    if isinstance(row, ChunkRow):
        return {"content": row.content, "source": row.source, "timestamp": row.timestamp}
    return {
        "content": row.summary or row.name,
        "source": f"entity:{row.kind}",
        "timestamp": row.valid_from,
        "entity_id": row.id,
        "entity_name": row.name,
        "entity_kind": row.kind,
    }


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
