"""Writing the vectors of chunks.

A text has one vector for each window of it. Both are collected, and written near the end of the
transaction.
"""

import numpy as np

from core.types import Vectors
from store.sqlite.statements import fetch_all, fetch_one, has_vectors
from store.sqlite.transaction import Transaction
from store.sqlite.vectors import WINDOWS_OF_CHUNK

LAST_WINDOW = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'windows'"
PUT_WINDOW = "INSERT INTO windows (seq, chunk_seq, part) VALUES (?, ?, ?)"
PUT_VECTOR = "INSERT INTO vectors (rowid, embedding, live) VALUES (?, ?, ?)"
SET_LIVE = "UPDATE vectors SET live = ? WHERE rowid = ?"
WAITS_NO_LONGER = """
    UPDATE chunks SET pending = 0 WHERE seq = ? AND pending = 1 AND valid_until IS NULL
"""


class VectorRows:
    """Writes `windows` and `vectors`."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction, self._db = transaction, transaction.db
        self._last_window = int(fetch_one(self._db, LAST_WINDOW))
        self._windows: list[tuple[int, int, int]] = []
        self._vectors: list[tuple[int, bytes, int]] = []

    def put(self, seq: int, vectors: Vectors, *, live: bool = True) -> None:
        """Write the vectors of a chunk that has none."""
        for part, vector in enumerate(vectors):
            self._last_window = window = self._last_window + 1
            self._windows.append((window, seq, part))
            stored = np.asarray(vector, np.float32).tobytes()
            self._vectors.append((window, stored, int(live)))

    def fill(self, seq: int, vectors: Vectors) -> bool:
        """Give a chunk its vectors if it is live and waits for them; whether it did."""
        self._db.execute(WAITS_NO_LONGER, (seq,))
        waited = self._db.changes() > 0
        if waited:
            self.put(seq, vectors)
            self._transaction.changed(seq)
        return waited

    def set_live(self, seq: int, live: bool) -> bool:
        """Mark the vectors of a chunk as live or closed; whether it has any."""
        windows = fetch_all(self._db, WINDOWS_OF_CHUNK, (seq,)) if has_vectors(self._db) else []
        self._db.executemany(SET_LIVE, [(int(live), window) for (window,) in windows])
        return bool(windows)

    def write(self) -> None:
        self._db.executemany(PUT_WINDOW, self._windows)
        self._db.executemany(PUT_VECTOR, self._vectors)
