"""Looking for new names in the texts that were there before them.

A few are looked for in the transaction that brings them. The others wait, and are looked for once
it is over: outside of any transaction, so that no writer waits. Then their mentions are written in
a short one. What a kill leaves is found by whoever writes next, and when the file is opened.
"""

from store.sqlite.name_search import (
    Unread,
    put_unread_names,
    seqs_with_name,
    unread_names,
)
from store.sqlite.open_file import OpenFile
from store.sqlite.statements import fetch_all, log, to_json

READ_BETWEEN = 20_000  # texts read between two transactions: about what a kill undoes

# What was found, of what is still there: others have written meanwhile.
PUT_FOUND = """
    INSERT OR IGNORE INTO mentions
    SELECT a.entity_id, c.seq, 'found' FROM aliases a, json_each(:seqs) k
    JOIN chunks c ON c.seq = k.value AND c.valid_until IS NULL WHERE a.key = :key
    RETURNING chunk_seq
"""
CHANGED_CHUNK = "INSERT INTO changes (kind, what) VALUES ('chunk', ?)"


class UnreadNames:
    """Looks for the names that wait."""

    def __init__(self, database: OpenFile) -> None:
        self._database = database

    def read(self) -> None:
        """Look for all of them. Where that fails they wait for the next who writes or opens."""
        try:
            while self._read_some():
                pass
        except Exception as error:
            log.warning("new names still wait to be looked for: %s", error)

    def _read_some(self) -> bool:
        """Look for as many as are looked for at once; whether there were any."""
        with self._database.reader() as db:
            waiting = iter(unread_names(db))
            found: dict[Unread, list[int]] = {}
            left = READ_BETWEEN
            while left > 0 and (name := next(waiting, None)):
                found[name], count = seqs_with_name(db, *name)
                left -= count
        if not found:
            return False
        with self._database.transaction() as db:
            still = unread_names(db)
            put_unread_names(db, [name for name in still if name not in found])
            for key, last in set(still).intersection(found):
                bound = {"key": key, "seqs": to_json(found[key, last])}
                db.executemany(CHANGED_CHUNK, fetch_all(db, PUT_FOUND, bound))
        return True
