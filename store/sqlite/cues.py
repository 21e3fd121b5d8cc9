"""Cues of chunks, written and asked for.

Cues are read after a text is stored, before a short transaction of their own: nobody waits while a
dictionary loads, an extractor that fails keeps nothing from being stored, and no undo comes upon
them. Chunks get their cues in the order of their numbers, so one comparison tells what is missing,
because the lane was off or another process stored it. After a write up to 200 of these are read,
before a recall as many as two seconds allow, and what is read stays. An import that adds chunks
below the highest number has all above them read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from core.errors import StoreBusy
from store.sqlite.cue_snapshots import BEHIND, cue_numbers
from store.sqlite.statements import fetch_all, fetch_one, to_json
from store.sqlite.store import SqliteStore
from store.sqlite.view import View

if TYPE_CHECKING:
    from index.cue_index import CueHits, Edges


UNCUED = BEHIND.format("count(*)")
CUE_NAMES = "SELECT q.id, q.cue FROM json_each(?) k CROSS JOIN cues q ON q.id = k.value"


def recall_by_cues(
    view: View,
    text: str,
    limit: int,
    edges: Edges,
    *,
    asof: str | None = None,
    allowed: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
) -> CueHits:
    """The memories that a text's cues lead to, best first; see cues.CueIndex.search."""
    held = view.indexes.cues
    assert held is not None  # noqa: S101 - who has no settings for cues does not ask
    cues = held.reads(text)
    with held.lock, view.reading():
        known = cue_numbers(view.db, cues)
        index = held.current(view.db, asof)
        return index.search([known.get(cue) for cue in cues], limit, edges, allowed)


def cue_names(view: View, numbers: Iterable[int]) -> dict[int, str]:
    """What some cues are; an erased one is left out."""
    return dict(fetch_all(view.db, CUE_NAMES, (to_json(list(numbers)),)))


def uncued_count(view: View) -> int:
    """How many chunks, closed ones too, have no cues yet."""
    return int(fetch_one(view.db, UNCUED) or 0)


def index_cues(store: SqliteStore, seconds: float) -> int:
    """Write the cues of chunks that have none, as long as there is time; how many are left.

    What was written stays, so another call goes on from there. Whoever only reads, and whoever
    would have to wait too long for another process, leaves them.
    """
    held, deadline = None if store.read_only else store.indexes.cues, time.monotonic() + seconds
    with suppress(StoreBusy):
        if held:
            held.begin(store)
    left = _left(store)
    with suppress(StoreBusy):
        while held and left and time.monotonic() < deadline and held.index_more(store):
            left = _left(store)
    return left


def _left(store: SqliteStore) -> int:
    with store.view() as view:
        return uncued_count(view)
