"""Writing what a text is found by.

A chunk is found by its terms (`terms`, `postings`) and by any piece of its text (`trigrams`, or
`closed_trigrams` once it is closed). Terms, postings and the pieces of live chunks are collected,
and written near the end of the transaction.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from index.analysis import Indexed
from store.sqlite.statements import PLACE_OF_CHUNK, TERM_NUMBERS, fetch_all, fetch_one, to_json
from store.sqlite.transaction import Transaction

BATCH_POSTINGS = 2000  # rows that are written together, or fewer at the end of a transaction

LAST_TERM = "SELECT coalesce(max(id), 0) FROM terms WHERE id < 1 << 31"  # postings have 4 bytes
PUT_TERM = "INSERT INTO terms (term, id) VALUES (?, ?)"
PUT_POSTINGS = "INSERT OR REPLACE INTO postings VALUES (?, ?, ?, ?, ?, ?, ?)"
PUT_PIECES = "INSERT INTO {0} (rowid, text) VALUES (?, ?)"
DROP_PIECES = "DELETE FROM {0} WHERE rowid = ?"


class TextRows:
    """Writes `terms`, `postings`, `trigrams` and `closed_trigrams`."""

    def __init__(self, transaction: Transaction, terms: dict[str, int]) -> None:
        """`terms` are numbers known so far, in the file or in this transaction; some are added."""
        self._transaction, self._db = transaction, transaction.db
        self._terms = terms
        self._absent: set[str] = set()  # looked up, and not in the file
        self._new_terms: dict[str, int] = {}
        self._last_term = int(fetch_one(self._db, LAST_TERM))
        self._postings: dict[int, tuple[int, int, int, int, str, bytes, bytes]] = {}
        self._pieces: dict[int, str] = {}
        self.last_indexed = transaction.seq_before
        """The highest seq of a chunk that has its terms."""

    def index(
        self,
        seq: int,
        indexed: Indexed,
        metadata: str,
        source: str,
        session_id: str,
        before: int | None,
        *,
        live: bool = True,
    ) -> None:
        """Write all that a chunk is found by; `before` is what had its place, if any did."""
        self.last_indexed = max(self.last_indexed, seq)
        weights = indexed.weights(metadata, source, session_id)
        self.put_postings(seq, indexed, weights, before)
        self.put_pieces(seq, indexed.pieces(metadata), live=live)

    def put_postings(
        self, seq: int, indexed: Indexed, weights: Mapping[str, int], before: int | None
    ) -> None:
        """Write a chunk's terms; it takes the place of the version before, or of itself."""
        place = seq if before is None else self._place(before) or seq
        numbers = self._numbers(weights)
        terms = np.array([numbers[term] for term in weights], "<u4").tobytes()
        row = (seq, self._transaction.rev, place, indexed.flags, indexed.speaker, terms)
        self._postings[seq] = (*row, bytes(weights.values()))
        if len(self._postings) >= BATCH_POSTINGS:
            self.write_postings()

    def _place(self, seq: int) -> int | None:
        """The place of a chunk in its session, if it has terms yet."""
        written = self._postings.get(seq)
        place: int | None = written[2] if written else fetch_one(self._db, PLACE_OF_CHUNK, (seq,))
        return place

    def look_up(self, terms: Iterable[str]) -> None:
        """Learn the numbers of all these terms that have one, at once."""
        known, absent = self._terms, self._absent
        missing = {term for term in terms if term not in known and term not in absent}
        if missing:
            self._terms.update(fetch_all(self._db, TERM_NUMBERS, {"terms": to_json(list(missing))}))
            self._absent.update(missing)

    def _numbers(self, terms: Iterable[str]) -> Mapping[str, int]:
        """The number of each term among others; a new one for a new term."""
        for term in self.unknown(terms):
            self._last_term += 1
            self._terms[term] = self._new_terms[term] = self._last_term
        return self._terms

    def unknown(self, terms: Iterable[str]) -> list[str]:
        """Those of the terms that no text has, nor ever had."""
        known = self._terms
        missing = [term for term in terms if term not in known]
        if missing:
            self.look_up(missing)
        return [term for term in missing if term not in known]

    def put_pieces(self, seq: int, pieces: str, *, live: bool) -> None:
        """Write the folded text in which pieces are looked for as they stand."""
        if live:
            self._pieces[seq] = pieces
        else:
            self._db.execute(PUT_PIECES.format("closed_trigrams"), (seq, pieces))

    def drop_pieces(self, seq: int, *, live: bool) -> None:
        table = "trigrams" if live else "closed_trigrams"
        self._db.execute(DROP_PIECES.format(table), (seq,))

    def write_terms(self) -> None:
        self._db.executemany(PUT_TERM, sorted(self._new_terms.items()))
        self.write_postings()

    def write_postings(self) -> None:
        self._db.executemany(PUT_POSTINGS, self._postings.values())
        self._postings = {}

    def write_pieces(self) -> None:
        """Write the pieces of live chunks, in place of those that a chunk had before."""
        known = [(seq,) for seq in self._pieces if seq <= self._transaction.seq_before]
        self._db.executemany(DROP_PIECES.format("trigrams"), known)
        self._db.executemany(PUT_PIECES.format("trigrams"), sorted(self._pieces.items()))
