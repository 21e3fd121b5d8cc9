"""Memories that say nearly the same as one that was just stored."""

import numpy as np

from core.results import Similar
from core.types import NewChunk, Scope
from embedding.model import FileModel
from index.calibration import scaled
from index.chunks import UNSPACED
from recall.fusion import best_rows
from store import Store
from text import words

MAX_SIMILAR = 3
SIMILAR_FROM = 0.8  # of the way from unrelated (0) to identical (1)


def similar(store: Store, model: FileModel, stored: NewChunk, seq: int) -> list[Similar]:
    """The live memories nearest to a stored one, by the scale that is the same for every model."""
    index = store.written_index()
    if stored.vectors is None or index.model != model.known.version:
        return []
    zeros = model.zeros[int(words.is_unspaced(stored.content))]
    with index.lock:
        live = index.field("live")
        cosines = index.meaning(stored.vectors[0], live, live).cosine
        unspaced = index.field("flags") & UNSPACED > 0
        scores = scaled(cosines, np.where(unspaced, zeros[1], zeros[0])) * live
        best = best_rows(scores, index, MAX_SIMILAR + 1)
        seqs = index.seqs_of(best)
        measured = zip(seqs, cosines[best].tolist(), scores[best].tolist(), strict=True)
    near = {
        other: (cosine, score)
        for other, cosine, score in measured
        if other != seq and score >= SIMILAR_FROM
    }
    if not near:
        return []
    with store.view() as view:
        rows = view.chunks(list(near)[:MAX_SIMILAR], Scope())
    return [_similar(row.id, *near[row.seq]) for row in rows]


def _similar(chunk_id: str, cosine: float, score: float) -> Similar:
    return Similar(chunk_id=chunk_id, similarity=round(cosine, 4), score=round(score, 4))
