"""The index of cues in memory, kept up to date.

It is brought up to date before each recall like the index of words, and read anew where rows are
gone. For a question with `asof` an index of that moment is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from core.types import milliseconds
from store.sqlite.statements import LIVE_CHUNK, fetch_all, is_behind, misread_is_damage, to_json
from store.types import CueExtractor, CueSettings

if TYPE_CHECKING:
    from index.cue_index import CueIndex, CueRow


CUE_NUMBERS = "SELECT q.cue, q.id FROM json_each(?) k CROSS JOIN cues q ON q.cue = k.value"

# What the index in memory goes by: a change of chunks, a new row, cues that were all read again,
# and changes only for whether rows are gone of which nothing tells any more.
CUES_LATEST = """
    SELECT (SELECT coalesce(max(rev), 0) FROM postings),
        (SELECT coalesce(max(chunk_seq), 0) FROM cue_postings),
        (SELECT updated_at FROM meta WHERE key = 'cues'),
        (SELECT coalesce(max(id), 0) FROM changes)
"""
_CUE_ROW = f"""
    SELECT c.seq, p.place, c.session_id, c.timestamp, q.cues
    FROM {{0}} JOIN chunks c ON c.seq = q.chunk_seq JOIN postings p ON p.chunk_seq = q.chunk_seq
    WHERE {LIVE_CHUNK}
"""
EVERY_CUE_ROW = _CUE_ROW.format("cue_postings q")
NEW_CUE_ROWS = _CUE_ROW.format("cue_postings q") + " AND q.chunk_seq > :seq"
CHANGED_CUE_ROWS = _CUE_ROW.format("cue_postings q") + " AND p.rev > :rev"
CHANGED_CLOSED = """
    SELECT c.seq FROM postings p JOIN chunks c ON c.seq = p.chunk_seq
    WHERE p.rev > ? AND c.valid_until IS NOT NULL
"""


class _Seen(NamedTuple):
    """As of when something was read: see CUES_LATEST."""

    rev: int
    last: int
    read_at: str | None
    change: int


class CueSnapshots:
    """The index of cues in memory, of what is live or was at one moment."""

    def __init__(self, settings: CueSettings) -> None:
        self._settings = settings
        self.lock = threading.RLock()
        self._index: CueIndex | None = None
        self._seen = _Seen(0, 0, None, 0)
        self._past: tuple[str, _Seen, CueIndex] | None = None

    @property
    def extractor(self) -> CueExtractor:
        return self._settings.extractor

    def current(self, db: apsw.Connection, asof: str | None) -> CueIndex:
        """The index as of the last commit of anybody, or of a moment; under its lock."""
        with misread_is_damage(db):
            return self._current(db, asof)

    def _current(self, db: apsw.Connection, asof: str | None) -> CueIndex:
        latest = _Seen(*fetch_all(db, CUES_LATEST)[0])
        if asof is not None:
            if self._past is None or self._past[:2] != (asof, latest):
                self._past = asof, latest, self._load(db, asof)
            return self._past[2]
        index, seen = self._index, self._seen
        lost = latest.read_at != seen.read_at or is_behind(db, seen.change)
        if index is None or index.needs_rebuild() or lost:
            index = self._index = self._load(db, None)
        elif latest != seen:
            self._refresh(db, index)
        self._seen = latest
        return index

    def _load(self, db: apsw.Connection, asof: str | None) -> CueIndex:
        from index.cue_index import CueIndex

        rows = _cue_rows(db, EVERY_CUE_ROW, {"asof": asof})
        return CueIndex(rows, int(60_000 * self._settings.pause_minutes))

    def _refresh(self, db: apsw.Connection, index: CueIndex) -> None:
        for (seq,) in fetch_all(db, CHANGED_CLOSED, (self._seen.rev,)):
            index.remove(seq)
        bound = {"asof": None, "rev": self._seen.rev, "seq": self._seen.last}
        for sql in (CHANGED_CUE_ROWS, NEW_CUE_ROWS):
            for row in _cue_rows(db, sql, bound):
                if row.seq not in index:
                    index.add(row)


def _cue_rows(db: apsw.Connection, sql: str, bound: dict[str, Any]) -> list[CueRow]:
    from index.cue_index import CueRow

    rows = fetch_all(db, sql, bound)
    stamps = milliseconds([row[3] for row in rows], "chunks", [row[0] for row in rows]).tolist()
    return [
        CueRow(seq, place, session, stamp, cues)
        for (seq, place, session, _, cues), stamp in zip(rows, stamps, strict=True)
    ]


def cue_numbers(db: apsw.Connection, cues: Iterable[str]) -> dict[str, int]:
    return dict(fetch_all(db, CUE_NUMBERS, (to_json(list(cues)),)))


def drop_cues(db: apsw.Connection) -> None:
    """Drop all that was read of cues: whoever recalls by them reads them again."""
    for sql in ("cue_postings", "cues", "meta WHERE key = 'cues'"):
        db.execute(f"DELETE FROM {sql}")


def drop_unused_cues(db: apsw.Connection) -> None:
    """Remove words that no chunk's cues have any more."""
    used = np.unique(all_cues(db))
    known = np.array([row[0] for row in db.execute("SELECT id FROM cues")], np.int64)
    unused = [(each,) for each in np.setdiff1d(known, used).tolist()]
    db.executemany("DELETE FROM cues WHERE id = ?", unused)


def all_cues(db: apsw.Connection) -> NDArray[np.uint32]:
    """The numbers of all chunks' cues, one after the other; of a damaged row what can be read."""
    rows = (row[0] for row in db.execute("SELECT cues FROM cue_postings"))
    return np.frombuffer(b"".join(row[: len(row) & ~3] for row in rows), "<u4")
