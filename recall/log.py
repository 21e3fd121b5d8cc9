"""The log of recalls: written after the answer, by a thread of its own, never failing a recall."""

import logging
import queue
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.results import Hit
from core.types import LogEntry
from recall.query import Question
from store import Store

log = logging.getLogger("mnelo")

DETAILED = 5  # hits of a recall of which the log keeps how they were found
_BATCH_ENTRIES = 100  # of one transaction
_PAUSE = 0.2  # seconds in which more may come: a transaction costs more than an entry


class RecallLog:
    """Takes entries without waiting and writes them in batches, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: queue.Queue[LogEntry | None] = queue.Queue()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mnelo-recall-log", daemon=True)
        self._thread.start()

    def add(self, entry: LogEntry) -> None:
        self._entries.put(entry)

    def flush(self) -> None:
        """Return once everything added so far has been written or given up."""
        self._hurry.set()
        self._entries.join()
        self._hurry.clear()

    def close(self) -> None:
        self._hurry.set()
        self._entries.put(None)
        self._thread.join()

    def _run(self) -> None:
        going_on = True
        while going_on:
            batch = [self._entries.get()]
            self._hurry.wait(_PAUSE)
            while len(batch) < _BATCH_ENTRIES and not self._entries.empty():
                batch.append(self._entries.get())
            going_on = None not in batch
            try:
                self._store.log_recalls([entry for entry in batch if entry is not None])
            except Exception as error:
                log.warning("recall_log was not written: %s", error)
            finally:
                for _ in batch:
                    self._entries.task_done()


def log_entry(
    question: Question, found: Sequence[Hit], *, asked: str, seconds: float, client: str
) -> LogEntry:
    """What the log keeps of a recall: who asked what and when, and what was found how fast."""
    details = [
        {
            "rank": rank,
            "chunk_id": hit["chunk_id"],
            "method": hit["method"],
            "distance": hit.get("distance"),
            "rrf_score": hit["rrf_score"],
            "importance": hit["importance"],
        }
        for rank, hit in enumerate(found[:DETAILED], start=1)
    ]
    return LogEntry(
        query=question.query,
        strategy=question.strategy,
        results=[hit["chunk_id"] for hit in found],
        details=details,
        graph_hops=question.graph_hops,
        latency_ms=round(seconds * 1000, 3),
        client=client,
        created_at=asked,
    )


def latency(recalls: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """How long recalls took, and how many found nothing; of each its milliseconds and whether."""
    spent = [milliseconds for milliseconds, _ in recalls]
    p50, p95 = np.percentile(spent, [50, 95]) if spent else (0.0, 0.0)
    return {
        "count": len(recalls),
        "empty": sum(empty for _, empty in recalls),
        "p50_ms": round(float(p50), 2),
        "p95_ms": round(float(p95), 2),
    }
