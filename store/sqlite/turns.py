"""Rounds of conversations."""

from collections.abc import Iterable
from dataclasses import dataclass

import apsw

from core.types import Change, NewChunk
from index.analysis import Indexed
from store.sqlite.statements import PUT_TURN, fetch_all, fetch_one, to_json
from store.sqlite.store import SqliteStore
from store.sqlite.view import View

# --- Cues ------------------------------------------------------------------------------


ROUND_AGAIN = "the same round again"
LAST_ROUND = """
    SELECT coalesce(max(CAST(t.round_id AS INTEGER)), 0) FROM chunks c
    JOIN turns t ON t.chunk_seq = c.seq WHERE c.session_id = ? AND c.valid_until IS NULL
"""
_TURN = """
    SELECT c.seq, c.id, c.session_id, t.round_id, c.content, t.asked, c.timestamp
    FROM {0} JOIN turns t ON t.chunk_seq = c.seq
"""
TURN_OF = (
    _TURN.format("chunks c")
    + """
    WHERE c.session_id = ? AND t.round_id = ? AND c.valid_until IS NULL
"""
)
TURN_VERSIONS = (
    _TURN.format("chunks c") + " WHERE c.session_id = ? AND t.round_id = ? ORDER BY c.seq"
)
TURNS_OF = (
    _TURN.format("chunks c JOIN postings p ON p.chunk_seq = c.seq")
    + """
    WHERE c.session_id = ? AND c.valid_until IS NULL ORDER BY c.timestamp, p.place
"""
)
TURNS_AT = (
    _TURN.format("json_each(?) i CROSS JOIN chunks c ON c.seq = i.value")
    + """
    WHERE c.valid_until IS NULL
"""
)
TURN_SESSIONS = """
    SELECT DISTINCT c.session_id FROM turns t JOIN chunks c ON c.seq = t.chunk_seq
    WHERE c.valid_until IS NULL ORDER BY c.session_id
"""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A round of a conversation as it is stored."""

    seq: int
    id: str
    session_id: str
    round_id: str
    content: str
    asked: int
    timestamp: str


# -- turns --


def put_turn(
    store: SqliteStore, chunk: NewChunk, round_id: str | None, asked: int, client: str
) -> str:
    """Store a round of a conversation, by default the next of its session; its id.

    The same round again closes the row that it had; without a time it keeps the one that it had,
    and the same text again changes nothing.
    """
    indexed = Indexed(chunk.content)
    with store.writing(client, undoable=round_id is not None) as writer:
        db = writer.db
        if round_id is None:
            round_id = _next_round(db, chunk.session_id)
        place = (chunk.session_id, round_id)
        old = next((TurnRow(*row) for row in fetch_all(db, TURN_OF, place)), None)
        if old and chunk.timestamp in (None, old.timestamp):
            writer.replace(old.id, Change(chunk.content), indexed, ROUND_AGAIN)
            seq = int(fetch_one(db, TURN_OF, place))
        else:
            if old:
                writer.forget_chunk(old.id, ROUND_AGAIN, cascade=True)
            seq, chunk_id, waits = writer.put_new(chunk, indexed.hash)
            writer.write_chunks()
            writer.complete_chunk(chunk, indexed, (seq, chunk_id, waits, True))
        db.execute(PUT_TURN, (seq, round_id, asked))
        return round_id


def _next_round(db: apsw.Connection, session_id: str) -> str:
    """The number after the highest of a session, of which SQLite knows up to 63 bits."""
    number = int(fetch_one(db, LAST_ROUND, (session_id,))) + 1
    while fetch_all(db, TURN_OF, (session_id, str(number))):
        number += 1
    return str(number)


def close_turns(store: SqliteStore, rounds: Iterable[tuple[str, str]], client: str) -> int:
    """Forget some rounds, each by its session and its own id; how many there were.

    Each in a transaction of its own, so that each can be undone.
    """
    count = 0
    for each in rounds:
        with store.writing(client, undoable=True) as writer:
            for _, chunk_id, *_rest in fetch_all(writer.db, TURN_OF, each):
                count += writer.forget_chunk(chunk_id, "deleted", cascade=True)[0]
    return count


def turns_of(view: View, session_id: str) -> list[TurnRow]:
    """The live rounds of a session, in the order in which they were."""
    return [TurnRow(*row) for row in fetch_all(view.db, TURNS_OF, (session_id,))]


def turns_at(view: View, seqs: Iterable[int]) -> list[TurnRow]:
    """Those of some chunks that are live rounds, in the order given."""
    return [TurnRow(*row) for row in fetch_all(view.db, TURNS_AT, (to_json(list(seqs)),))]


def turn_versions(view: View, session_id: str, round_id: str) -> list[TurnRow]:
    """Every version of a round, live or closed."""
    return [TurnRow(*row) for row in fetch_all(view.db, TURN_VERSIONS, (session_id, round_id))]


def turn_sessions(view: View) -> list[str]:
    """Every session that has a live round."""
    return [row[0] for row in fetch_all(view.db, TURN_SESSIONS)]
