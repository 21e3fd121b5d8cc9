"""Cues of chunks, found after they are stored and asked for in questions.

Chunks get their cues in the order of their numbers, so one comparison tells what is missing,
because the lane was off or another process stored it. Cues are found outside of any transaction,
since the first Chinese text takes a second in which no writer should wait, and then written in a
short one of their own, which no undo reaches. After a write up to 200 chunks are read, before a
recall as many as two seconds allow. An import that adds chunks below the highest number has all
above them read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING

import apsw
import numpy as np
from numpy.typing import NDArray

from core import timestamps
from core.errors import StoreBusy
from store.sqlite.cue_snapshots import CueSnapshots, cue_numbers
from store.sqlite.open_file import OpenFile
from store.sqlite.statements import PUT_META, fetch_all, fetch_one, log, reading, to_json
from store.types import CueExtractor

if TYPE_CHECKING:
    from index.cue_index import CueHits, Edges

BATCH_TEXTS = 200  # chunks of one transaction whose cues are written, while which others wait
CUES = "cues"
"""Of meta: what the cues in the file depend on, see CueExtractor.signature."""

_WITHOUT_CUES = """
    SELECT {0} FROM chunks
    WHERE seq > (SELECT coalesce(max(chunk_seq), 0) FROM cue_postings)
"""
WAITING_COUNT = _WITHOUT_CUES.format("count(*)")
NEXT_TEXTS = _WITHOUT_CUES.format("seq, content") + " ORDER BY seq LIMIT ?"
NEXT_SEQS = _WITHOUT_CUES.format("seq") + " ORDER BY seq LIMIT ?"
FOUND_BY = "SELECT value FROM meta WHERE key = 'cues'"
CUE_NAMES = "SELECT q.id, q.cue FROM json_each(?) k CROSS JOIN cues q ON q.id = k.value"


class CueReads:
    """What one read connection knows of cues."""

    def __init__(self, db: apsw.Connection, snapshots: CueSnapshots | None) -> None:
        self._db, self._snapshots = db, snapshots

    def search(
        self,
        text: str,
        limit: int,
        edges: Edges,
        *,
        asof: str | None = None,
        allowed: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
    ) -> CueHits:
        snapshots = self._snapshots
        assert snapshots is not None  # noqa: S101 - who has no settings for cues does not ask
        cues = snapshots.extractor(text)
        with snapshots.lock, reading(self._db):
            known = cue_numbers(self._db, cues)
            index = snapshots.current(self._db, asof)
            return index.search([known.get(cue) for cue in cues], limit, edges, allowed)

    def names(self, numbers: Iterable[int]) -> dict[int, str]:
        return dict(fetch_all(self._db, CUE_NAMES, (to_json(list(numbers)),)))

    def waiting_count(self) -> int:
        return _waiting_count(self._db)


class CueWrites:
    """Finds and writes the cues of chunks; does nothing where the settings ask for none."""

    def __init__(self, database: OpenFile, snapshots: CueSnapshots | None) -> None:
        self._database, self._snapshots = database, snapshots
        self._checked = False
        self._finding = threading.Lock()

    def index(self, seconds: float) -> int:
        """Write the cues of chunks that have none, as long as there is time; how many are left.

        What was written stays, so another call goes on from there. Whoever only reads, and whoever
        would have to wait too long for another process, leaves them.
        """
        deadline = time.monotonic() + seconds
        active = self._snapshots is not None and not self._database.read_only
        with suppress(StoreBusy):
            if active:
                self._drop_outdated()
        left = self._left()
        with suppress(StoreBusy):
            while active and left and time.monotonic() < deadline and self._index_batch():
                left = self._left()
        return left

    def index_new(self) -> None:
        """Find the cues of what was just written, unless another thread is at it.

        Where that fails, all is written and the chunks wait for the next who looks for cues.
        """
        if self._snapshots is None:
            return
        try:
            self._index_batch(wait=False)
        except Exception as error:
            log.warning("memories still wait for cues: %s", error)

    def _left(self) -> int:
        with self._database.reader() as db:
            return _waiting_count(db)

    def _extractor(self) -> CueExtractor:
        assert self._snapshots is not None  # noqa: S101 - asked by both who call this
        return self._snapshots.extractor

    def _drop_outdated(self) -> None:
        """Once: drop all cues that were found in another way than the settings say now."""
        if self._checked:
            return
        signature = self._extractor().signature
        with self._database.reader() as db:
            known = fetch_one(db, FOUND_BY)
        if known != signature:
            with self._database.transaction() as db:
                db.execute("DELETE FROM cue_postings")
                db.execute(PUT_META, (CUES, signature, timestamps.now()))
        self._checked = True

    def _index_batch(self, *, wait: bool = True) -> bool:
        """Find and write the cues of the oldest chunks that have none; False if there is no more.

        Without `wait` what another thread is at is left to it.
        """
        if not self._finding.acquire(blocking=wait):
            return False
        try:
            self._drop_outdated()
            with self._database.reader() as db:
                texts = fetch_all(db, NEXT_TEXTS, (BATCH_TEXTS,))
            extract = self._extractor()
            found = {seq: extract(text) for seq, text in texts}
            if not found:
                return False
            with self._database.transaction() as db:
                return _write(db, found, extract.signature)
        finally:
            self._finding.release()


def _waiting_count(db: apsw.Connection) -> int:
    return int(fetch_one(db, WAITING_COUNT) or 0)


def _write(db: apsw.Connection, found: Mapping[int, list[str]], signature: str) -> bool:
    """Write those cues that are still the next; False where others find them in another way."""
    if (known := fetch_one(db, FOUND_BY)) is None:  # all were dropped
        db.execute(PUT_META, (CUES, signature, timestamps.now()))
    elif known != signature:
        return False
    waiting = (row[0] for row in fetch_all(db, NEXT_SEQS, (len(found),)))
    due = list(takewhile(found.__contains__, waiting))
    cues = dict.fromkeys(cue for seq in due for cue in found[seq])
    numbers = cue_numbers(db, cues)
    for cue in cues:
        if cue not in numbers:
            db.execute("INSERT INTO cues (cue) VALUES (?)", (cue,))
            numbers[cue] = db.last_insert_rowid()
    rows = [(seq, np.array([numbers[cue] for cue in found[seq]], "<u4").tobytes()) for seq in due]
    db.executemany("INSERT INTO cue_postings VALUES (?, ?)", rows)
    return True
