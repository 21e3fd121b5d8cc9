"""The log of recalls: written after the answer, by a thread of its own, never failing a recall."""

import logging
import queue
import threading

from core.types import LogEntry
from store import Store

log = logging.getLogger("mnelo")

_AT_ONCE = 100  # entries of one transaction
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
            while len(batch) < _AT_ONCE and not self._entries.empty():
                batch.append(self._entries.get())
            going_on = None not in batch
            try:
                self._store.log_recalls([entry for entry in batch if entry is not None])
            except Exception as error:
                log.warning("recall_log was not written: %s", error)
            finally:
                for _ in batch:
                    self._entries.task_done()
