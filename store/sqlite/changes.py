"""One transaction: what it writes at its end, and its records in the audit."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np

from core.errors import NotFound
from core.types import Vectors
from index.links import Spellings
from store.sqlite.statements import MARK, NEXT_REV, fetch_all, fetch_one, last_version, to_json

# --- SQL: writing ----------------------------------------------------------------------


_LAST = "(SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = '{0}')"
BEGINNING = f"""
    SELECT {_LAST.format("chunks")}, {NEXT_REV}, (SELECT coalesce(max(id), 0) FROM terms),
        {_LAST.format("windows")}, {_LAST.format("relations")}
"""
CHANGED = "UPDATE postings SET rev = ? WHERE chunk_seq = ?"

CLOSE_RELATION = """
    UPDATE relations SET valid_until = max(:at, valid_from)
    WHERE id = :id AND (valid_until IS NULL OR valid_until > :at) RETURNING id
"""

INSERT_AUDIT = """
    INSERT INTO audit (at, client, action, target_kind, target_id, reason, detail_json)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""


# --- Writing ---------------------------------------------------------------------------


class Changes:
    """The rows that one transaction writes at its end; all share one moment and one client."""

    def __init__(
        self,
        db: apsw.Connection,
        now: str,
        client: str,
        terms: dict[str, int],
        spellings: Spellings,
    ) -> None:
        """`terms` are numbers known so far, in the file or in this transaction; some are added.

        `spellings` tells what may be a name; names that are new are added."""
        self.db, self.now, self._client, self.spellings = db, now, client, spellings
        self.mark = str(fetch_one(db, MARK) or "")  # vectors of no other model are written
        self._terms = terms
        first, self.rev, *last = map(int, fetch_all(db, BEGINNING)[0])
        self._last_term, self.last_window, self.last_relation = last
        self.first_new = first  # what is above was not there before this transaction
        self.last_indexed = self._last_seq = self.first_new
        self._new_terms: dict[str, int] = {}
        self._no_terms: set[str] = set()  # looked up, and not in the file
        self._hashes: set[int] = set()  # of live texts, of those that are looked for
        self._chunks: list[dict[str, Any]] = []
        self._postings: dict[int, tuple[Any, ...]] = {}
        self._vectors: list[tuple[int, bytes]] = []
        self.windows: list[tuple[int, int, int]] = []
        self._audits: list[tuple[str, ...]] = []
        self.last_audit: int | None = None  # the last record that was written
        self.mentions: dict[tuple[str, int], str] = {}
        self.pieces: dict[int, str] = {}
        self.new_names: list[tuple[str, str, int]] = []
        self._named: set[tuple[str, str]] = set()
        self._keys: dict[str, set[str]] = {}  # all by which an entity is found
        self._name_words: set[tuple[str, str]] = set()
        self._entities: dict[str, dict[str, Any] | None] = {}  # the latest version of each
        self._relations: list[dict[str, Any]] = []
        self._related: set[tuple[str, str, str]] = set()  # by what is not written yet
        self._evidence: list[tuple[int, int]] = []
        self._live: dict[str, str] = {}
        self._known_from: dict[str, str] = {}

    def _linked_late(self, seqs: Iterable[int]) -> None:
        """Tell of new mentions of chunks that were there before (see links.py)."""
        late = [(seq,) for seq in sorted(seqs) if seq <= self.first_new]
        self.db.executemany("INSERT INTO changes (kind, what) VALUES ('chunk', ?)", late)

    def put_vectors(self, seq: int, vectors: Vectors) -> None:
        for part, vector in enumerate(vectors):
            self.last_window += 1
            self.windows.append((self.last_window, seq, part))
            self._vectors.append((self.last_window, np.asarray(vector, np.float32).tobytes()))

    def fill(self, seq: int, vectors: Vectors) -> bool:
        """Give a chunk its vectors if it is live and waits for them; whether it did."""
        sql = "UPDATE chunks SET pending = 0 WHERE seq = ? AND pending = 1 AND valid_until IS NULL"
        self.db.execute(sql, (seq,))
        waited = self.db.changes() > 0
        if waited:
            self.put_vectors(seq, vectors)
            self.changed(seq)
        return waited

    def mention(self, seq: int, entity_ids: Iterable[str], origin: str) -> None:
        """Link a chunk with entities; what was said of one weighs more than what was read."""
        for entity_id in entity_ids:
            linked = (entity_id, seq)
            if self.mentions.get(linked, "found") == "found":
                self.mentions[linked] = origin

    def live_version(self, chunk_id: str) -> dict[str, Any]:
        version = last_version(self.db, chunk_id)
        if version["valid_until"] is not None:
            raise NotFound("missing.forgotten", id=chunk_id)
        return version

    def searchable(self, seq: int) -> tuple[str, str]:
        sql = "SELECT content, metadata FROM searchable WHERE seq = ?"
        ((text, metadata),) = fetch_all(self.db, sql, (seq,))
        return text, metadata

    def changed(self, seq: int) -> None:
        """Let every index in memory read a chunk again."""
        self.db.execute(CHANGED, (self.rev, seq))

    def _close_relations(self, ids: Iterable[tuple[int]], at: str) -> int:
        """Close relations; how many of them held or would have."""
        return sum(self._close_relation(relation_id, at) for (relation_id,) in ids)

    def _close_relation(self, relation_id: int, at: str) -> int:
        return len(fetch_all(self.db, CLOSE_RELATION, {"id": relation_id, "at": at}))

    def audit(self, action: str, kind: str, target: str, reason: str, detail: str) -> None:
        """Note who did what; `detail` is JSON."""
        row = (self.now, self._client, action, kind, target, reason, detail)
        self._audits.append(row)

    def write_audits(self) -> None:
        if self._audits:
            self.db.executemany(INSERT_AUDIT, self._audits)
            self.last_audit = self.db.last_insert_rowid()
        self._audits = []

    def note(self, changes: Sequence["RowChange"]) -> None:
        """Add to the last record which rows were changed, for who wants them back as they were."""
        if self.last_audit is None:
            return
        chunk, relation, change = fetch_all(self.db, LATEST_NUMBERS)[0]
        after = {"chunk": chunk, "relation": relation, "change": change}
        noted = to_json({"rows": changes, "after": after})
        self.db.execute(NOTE, (noted, self.last_audit))


# --- Undo ------------------------------------------------------------------------------


LATEST_NUMBERS = """
    SELECT (SELECT coalesce(max(seq), 0) FROM chunks),
        (SELECT coalesce(max(id), 0) FROM relations), (SELECT coalesce(max(id), 0) FROM changes)
"""
NOTE = """
    UPDATE audit SET detail_json = json_patch(detail_json, ?) WHERE id = ? AND action <> 'remember'
"""


class RowChange(NamedTuple):
    """One row that an action made or changed; before is None where it made it."""

    table: str
    key: list[Any]
    before: dict[str, Any] | None
    after: dict[str, Any]
