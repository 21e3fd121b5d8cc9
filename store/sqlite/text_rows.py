"""Writing what a text is found by: terms, places, pieces."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from core.types import AT_ONCE
from index.analysis import Indexed
from store.sqlite.changes import Changes
from store.sqlite.statements import PLACE, TERM_NUMBERS, fetch_all, fetch_one, to_json

# --- SQL: writing ----------------------------------------------------------------------


LIVE_HASHES = """
    SELECT c.content_hash FROM json_each(?) k CROSS JOIN chunks c
    WHERE c.content_hash = k.value AND c.valid_until IS NULL
"""

PUT_POSTINGS = "INSERT OR REPLACE INTO postings VALUES (?, ?, ?, ?, ?, ?, ?)"


# --- Writing ---------------------------------------------------------------------------


class TextRows(Changes):
    """What a text is found by."""

    def index(
        self,
        seq: int,
        indexed: Indexed,
        metadata: str,
        source: str,
        session_id: str,
        before: int | None,
    ) -> None:
        """Write what a live chunk is found by; `before` is what had its place, if any did."""
        self.pieces[seq] = indexed.pieces(metadata)
        self.last_indexed = max(self.last_indexed, seq)
        weights = indexed.weights(metadata, source, session_id)
        self.put_postings(seq, indexed, weights, before)

    def put_postings(
        self, seq: int, indexed: Indexed, weights: Mapping[str, int], before: int | None
    ) -> None:
        """Write a chunk's terms; it takes the place of the version before, or of itself."""
        place = seq if before is None else self._place(before) or seq
        numbers = self._term_numbers(weights)
        terms = np.array([numbers[term] for term in weights], "<u4").tobytes()
        row = (seq, self.rev, place, indexed.flags, indexed.speaker, terms)
        self._postings[seq] = (*row, bytes(weights.values()))
        if len(self._postings) >= AT_ONCE:
            self.write_postings()

    def _place(self, seq: int) -> int | None:
        """The place of a chunk in its session, if it has terms yet."""
        written = self._postings.get(seq)
        place: int | None = written[2] if written else fetch_one(self.db, PLACE, (seq,))
        return place

    def write_postings(self) -> None:
        self.db.executemany(PUT_POSTINGS, self._postings.values())
        self._postings = {}

    def look_up(self, terms: Iterable[str]) -> None:
        """Learn the numbers of all these terms that have one, at once."""
        known, absent = self._terms, self._no_terms
        missing = {term for term in terms if term not in known and term not in absent}
        if missing:
            self._terms.update(fetch_all(self.db, TERM_NUMBERS, {"terms": to_json(list(missing))}))
            self._no_terms.update(missing)

    def look_for(self, hashes: Sequence[int]) -> None:
        """Learn which of these texts may be stored already, at once."""
        self._hashes.update(row[0] for row in fetch_all(self.db, LIVE_HASHES, (to_json(hashes),)))

    def _term_numbers(self, terms: Iterable[str]) -> Mapping[str, int]:
        """The number of each term among others; a new one for a new term."""
        for term in self._unknown(terms):
            self._last_term += 1
            self._terms[term] = self._new_terms[term] = self._last_term
        return self._terms

    def _unknown(self, terms: Iterable[str]) -> list[str]:
        """Those of the terms that no text has so far, nor had."""
        known = self._terms
        missing = [term for term in terms if term not in known]
        if missing:
            self.look_up(missing)
        return [term for term in missing if term not in known]
