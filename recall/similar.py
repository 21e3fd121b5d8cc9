"""Memories that say nearly the same as one that was just stored."""

import numpy as np

from core.results import Similar
from core.types import NewChunk, Scope
from embedding.model import FileModel
from index.calibration import scaled
from index.chunks import UNSPACED
from recall.fusion import best_rows
from store import SqliteStore
from text import words

MAX_SIMILAR = 3
SIMILAR_FROM = 0.8  # of the way from unrelated (0) to identical (1)


def similar(store: SqliteStore, model: FileModel, stored: NewChunk, seq: int) -> list[Similar]:
    """The live memories nearest to a stored one, by the scale that is the same for every model."""
    index = store.written_index()
    if stored.vectors is None or index.model != model.known.mark:
        return []
    zeros = model.zeros[int(words.is_unspaced(stored.content))]
    with index.lock:
        live = index.field("live")
        cosine = index.meaning(stored.vectors[0], live, live).cosine
        unspaced = index.field("flags") & UNSPACED > 0
        score = scaled(cosine, np.where(unspaced, zeros[1], zeros[0])) * live
        near = best_rows(score, index, MAX_SIMILAR + 1)
        seqs = index.seqs_of(near)
        measured = zip(seqs, cosine[near].tolist(), score[near].tolist(), strict=True)
    told = {each: rest for each, *rest in measured if each != seq and rest[1] >= SIMILAR_FROM}
    if not told:
        return []
    with store.view() as view:
        rows = view.chunks(list(told)[:MAX_SIMILAR], Scope())
    return [
        Similar(chunk_id=row.id, similarity=round(cosine, 4), score=round(score, 4))
        for row, (cosine, score) in ((row, told[row.seq]) for row in rows)
    ]
