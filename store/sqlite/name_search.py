"""Which older texts have a name in them that is new, and the names not yet looked for.

These are a row of `meta`, so that a kill loses none of them.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice

import apsw

from core import timestamps
from store.sqlite.nul import quoted
from store.sqlite.statements import (
    PUT_META,
    bounds_of_prefix,
    fetch_one,
    to_json,
    trigrams_of,
)
from text import words

MAX_BACKFILL = 1000  # texts searched for a name that is new
READ_AT_ONCE = 1000  # texts read for new names in the transaction that brings them

Unread = tuple[str, int]
"""A name's key, and the last chunk that was there before it."""

UNREAD = "SELECT value FROM meta WHERE key = 'unread_names'"
DROP_UNREAD = "DELETE FROM meta WHERE key = 'unread_names'"

# Live texts that may have a piece of a name in them, newest first; for a piece of one or two
# characters by the beginnings of trigrams.
_HAVING = """
    SELECT s.seq, s.content || char(10) || s.metadata
    FROM ({0}) found CROSS JOIN searchable s ON s.seq = found.seq
    WHERE EXISTS (SELECT 1 FROM chunks c WHERE c.seq = found.seq AND c.valid_until IS NULL)
"""
HAVING_PIECE = _HAVING.format("""
    SELECT rowid AS seq FROM trigrams
    WHERE trigrams MATCH :trigrams AND rowid <= :last ORDER BY rowid DESC
""")
HAVING_SHORT_PIECE = _HAVING.format("""
    SELECT DISTINCT doc AS seq FROM trigram_terms
    WHERE term >= :low AND term < :high AND doc <= :last ORDER BY seq DESC
""")


def unread_names(db: apsw.Connection) -> list[Unread]:
    """The names that wait, the oldest first."""
    return [(key, last) for key, last in json.loads(fetch_one(db, UNREAD) or "[]")]


def put_unread_names(db: apsw.Connection, names: Sequence[Unread]) -> None:
    """Let these names wait, and no others."""
    if names:
        db.execute(PUT_META, ("unread_names", to_json(names), timestamps.now()))
    else:
        db.execute(DROP_UNREAD)


def seqs_with_name(db: apsw.Connection, key: str, last: int) -> tuple[list[int], int]:
    """The live chunks up to `last` that have a name in their text, and how many were read."""
    # By one piece of it, since a text may have more spaces between its words.
    literal = key.split(".")[0] if any(words.codes(key)) else max(key.split(" "), key=len)
    texts = islice(_having(db, literal, last), MAX_BACKFILL)
    read = [(seq, words.has_folded_name(text, key)) for seq, text in texts]
    return [seq for seq, has_name in read if has_name], len(read)


def _having(db: apsw.Connection, piece: str, last: int) -> Iterator[tuple[int, str]]:
    """Live chunks up to `last` that have a folded piece in them, and their folded texts."""
    low, high = bounds_of_prefix(piece)
    trigrams = " AND ".join(map(quoted, trigrams_of(piece)))
    bound = {"trigrams": trigrams, "low": low, "high": high, "last": last}
    for seq, text in db.execute(HAVING_PIECE if trigrams else HAVING_SHORT_PIECE, bound):
        if piece in (folded := words.fold(text)):
            yield seq, folded
