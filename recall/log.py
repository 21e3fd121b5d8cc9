"""The log of recalls: written after the answer, by a thread of its own, never failing a recall."""

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.results import Hit
from core.types import LogEntry
from recall.query import Question
from store import Store

log = logging.getLogger("mnelo")

DETAILED = 5  # hits of a recall of which the log keeps how they were found
PATIENCE_SECONDS = 10.0  # how long anybody waits for the log
_BATCH_ENTRIES = 100  # of one transaction
_PAUSE = 0.2  # seconds in which more may come: a transaction costs more than an entry


class RecallLog:
    """Takes entries without waiting and writes them in batches, in order.

    The queue is one that a signal cannot leave locked, whatever it interrupts.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: queue.SimpleQueue[LogEntry | threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mnelo-recall-log", daemon=True)
        self._thread.start()

    def add(self, entry: LogEntry) -> None:
        self._entries.put(entry)

    def flush(self) -> None:
        """Return once everything added so far has been written or given up, or after a while."""
        written = threading.Event()
        self._entries.put(written)
        written.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """Write what was added, if that does not take too long."""
        self._entries.put(None)
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        going_on = True
        while going_on:
            batch, last = self._batch()
            going_on = last is not None
            try:
                if batch:
                    self._store.log_recalls(batch)
            except Exception as error:
                log.warning("recall_log was not written: %s", error)
            if isinstance(last, threading.Event):
                last.set()

    def _batch(self) -> tuple[list[LogEntry], LogEntry | threading.Event | None]:
        """Entries of one transaction, and what was read last: somebody may wait for no more."""
        batch: list[LogEntry] = []
        last = self._entries.get()
        end = time.monotonic() + _PAUSE
        while isinstance(last, LogEntry):
            batch.append(last)
            if len(batch) == _BATCH_ENTRIES:
                break
            try:
                last = self._entries.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
        return batch, last


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
