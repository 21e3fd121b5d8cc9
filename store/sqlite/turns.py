"""Rounds of conversations: chunks with a round's id, and where the person's part of them ends."""

from collections.abc import Iterable

import apsw

from core.types import Change, NewChunk
from index.analysis import Indexed
from store.sqlite.open_file import OpenFile
from store.sqlite.statements import PUT_TURN, fetch_all, fetch_one, to_json
from store.types import TurnRow

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


class TurnReads:
    """What one read connection knows of rounds."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def of_session(self, session_id: str) -> list[TurnRow]:
        return [TurnRow(*row) for row in fetch_all(self._db, TURNS_OF, (session_id,))]

    def at(self, seqs: Iterable[int]) -> list[TurnRow]:
        return [TurnRow(*row) for row in fetch_all(self._db, TURNS_AT, (to_json(list(seqs)),))]

    def versions(self, session_id: str, round_id: str) -> list[TurnRow]:
        return [TurnRow(*row) for row in fetch_all(self._db, TURN_VERSIONS, (session_id, round_id))]

    def sessions(self) -> list[str]:
        return [row[0] for row in fetch_all(self._db, TURN_SESSIONS)]


class TurnWrites:
    """Stores and forgets rounds."""

    def __init__(self, database: OpenFile) -> None:
        self._database = database

    def put(self, chunk: NewChunk, round_id: str | None, asked: int, client: str) -> str:
        indexed = Indexed(chunk.content)
        with self._database.writing(client, undoable=round_id is not None) as writer:
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

    def close(self, rounds: Iterable[tuple[str, str]], client: str) -> int:
        """Forget some rounds, each by its session and its own id; how many there were.

        Each in a transaction of its own, so that each can be undone.
        """
        count = 0
        for each in rounds:
            with self._database.writing(client, undoable=True) as writer:
                for _, chunk_id, *_rest in fetch_all(writer.db, TURN_OF, each):
                    count += writer.forget_chunk(chunk_id, "deleted", cascade=True)[0]
        return count


def _next_round(db: apsw.Connection, session_id: str) -> str:
    """The number after the highest of a session, of which SQLite knows up to 63 bits."""
    number = int(fetch_one(db, LAST_ROUND, (session_id,))) + 1
    while fetch_all(db, TURN_OF, (session_id, str(number))):
        number += 1
    return str(number)
