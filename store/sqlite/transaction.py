"""What all writes of one transaction share.

Every part of a Writer (writer.py) is given the same Transaction. All rows that it changes bear the
same moment, and what it does is recorded in the audit under one client. Records are collected, and
written near the end of the transaction.
"""

from typing import Any

import apsw

from core.errors import NotFound
from store.sqlite.hardening import bounded
from store.sqlite.statements import MODEL_VERSION, NEXT_REV, fetch_all, fetch_one, last_version

BEFORE = f"""
    SELECT (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'chunks'), {NEXT_REV}
"""
SET_REV = "UPDATE postings SET rev = ? WHERE chunk_seq = ?"
INSERT_AUDIT = """
    INSERT INTO audit (at, client, action, target_kind, target_id, reason, detail_json)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""


class Transaction:
    """The connection, moment and client of all that is written together; writes the audit."""

    def __init__(self, db: apsw.Connection, now: str, client: str) -> None:
        self.db, self.now, self._client = db, now, client
        self.model_version = str(fetch_one(db, MODEL_VERSION) or "")
        """Of the file's model: vectors that another one made are not written."""
        self.seq_before: int
        """The highest seq of a chunk when the transaction began."""
        self.rev: int
        """The revision that all chunks get which it changes."""
        ((self.seq_before, self.rev),) = fetch_all(db, BEFORE)
        self.last_audit: int | None = None
        """The id of the last record that was written."""
        self._audits: list[tuple[str, ...]] = []

    def live_version(self, chunk_id: str) -> dict[str, Any]:
        """The live version of the memory that this id, of any version, belongs to."""
        version = last_version(self.db, chunk_id)
        if version["valid_until"] is not None:
            raise NotFound("missing.forgotten", id=chunk_id)
        return version

    def searchable(self, seq: int) -> tuple[str, str]:
        """The text that a chunk is found by, and what is searched beside it: tags and the like."""
        sql = "SELECT content, metadata FROM searchable WHERE seq = ?"
        with bounded(self.db):
            ((text, metadata),) = fetch_all(self.db, sql, (seq,))
        return text, metadata

    def changed(self, seq: int) -> None:
        """Let every index in memory read a chunk again."""
        self.db.execute(SET_REV, (self.rev, seq))

    def audit(self, action: str, kind: str, target: str, reason: str, detail: str) -> None:
        """Record what was done to what; `detail` is JSON."""
        row = (self.now, self._client, action, kind, target, reason, detail)
        self._audits.append(row)

    def write_audits(self) -> None:
        if self._audits:
            self.db.executemany(INSERT_AUDIT, self._audits)
            self.last_audit = self.db.last_insert_rowid()
        self._audits = []
