"""Groups of entries that are alike: found by clique percolation, bounded in time and memory.

Time (`group_seconds`) and the number of cliques have bounds; beyond them the last groups stay, and
`memory_list_groups`, `memory_status` and the call itself say so. A group keeps its id while half of
it stays.
"""

import json
import secrets
import threading
import time
from typing import Any

from core import timestamps
from core.types import milliseconds
from index.calibration import Zeros
from mnelo_locale import message
from store import Store
from store.types import EntryMatrix
from timeline import communities
from timeline.settings import Settings


class Grouping:
    """Finds the groups of all entries, one search at a time; a failed one leaves the old groups."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._failed = ""

    def notice(self) -> dict[str, str]:
        """Why the groups are out of date, where the last search did not end."""
        return {"notice": self._failed} if self._failed else {}

    def rebuild(
        self, matrix: EntryMatrix, zeros: Zeros, settings: Settings, threshold: float | None
    ) -> dict[str, Any]:
        """Find the groups of the entries in a matrix and store them; what came of it."""
        least = settings.group_threshold if threshold is None else threshold
        how = {"k": settings.group_k, "threshold": least}
        with self._lock:
            started = time.monotonic()
            try:
                found = self._found(matrix, zeros, how, started + settings.group_seconds)
            except communities.TooDense as reached:
                self._failed = message(
                    "timeline.too_dense", seconds=settings.group_seconds, **vars(reached)
                )
                return {"status": "timed_out", **how, "notice": self._failed}
            self._failed = ""
            report = how | {
                "entries": len(matrix.seqs),
                "grouped": len(set().union(*found)),
                "group_count": len(found),
                "seconds": round(time.monotonic() - started, 3),
                "built_at": timestamps.now(),
            }
            self._put(found, report)
            return {"status": "rebuilt", **report}

    def _found(
        self, matrix: EntryMatrix, zeros: Zeros, how: dict[str, Any], deadline: float
    ) -> list[set[int]]:
        there = matrix.expires > milliseconds([timestamps.now()])[0]
        seqs = matrix.seqs[there].tolist()
        alike = (matrix.vectors[there], matrix.scripts[there], zeros)
        near = communities.edges(*alike, how["threshold"], deadline)
        return [
            {seqs[at] for at in members}
            for members in communities.communities(near, how["k"], deadline)
        ]

    def _put(self, found: list[set[int]], report: dict[str, Any]) -> None:
        with self._store.view() as view:
            before = view.entries.groups()
        ids = communities.stable_ids(before, found, lambda: f"group_{secrets.token_hex(4)}")
        self._store.entries.put_groups(dict(zip(ids, found, strict=True)), json.dumps(report))
