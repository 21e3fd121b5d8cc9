"""Erasing in an open file: rows first, in small steps, and then the bytes that they leave."""

from collections import Counter

import apsw

from core import timestamps
from store.sqlite.database import Database
from store.sqlite.erase import ERASED, drop_unused, erase_entities, erase_some, to_erase
from store.sqlite.hardening import let_vacuum
from store.sqlite.next_vectors import NextVectors
from store.sqlite.statements import PUT_META, TEXT_INDEXES, fetch_one, reading, to_json
from store.types import Erasing, Found


class Erasure:
    """Finds, erases and leaves no bytes; a file that was left in between knows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, what: Erasing) -> Found:
        with self._database.reader() as db, reading(db):
            return to_erase(db, what)

    def erase(self, what: Erasing, client: str) -> Counter[str]:
        done, more = Counter[str](), True
        with self._database.transaction() as db:
            db.execute(PUT_META, (ERASED, "1", timestamps.now()))
        while more:
            with self._database.overwriting(), self._database.writing(client) as writer:
                step = erase_some(writer, what)
            done += step
            more = step["memories"] > 0
        with self._database.overwriting(), self._database.writing(client) as writer:
            done += erase_entities(writer, what)
            writer.transaction.audit("erase", what.kind, what.shown, "", to_json(dict(done)))
        return done

    def is_unfinished(self) -> bool:
        with self._database.reader() as db:
            return fetch_one(db, "SELECT 1 FROM meta WHERE key = ?", (ERASED,)) is not None

    def finish(self, seconds: float) -> bool:
        """Write the file anew without what was erased; False while others are using it.

        It waits that long for them. It can be called again, and needs the file's size once more.
        """
        # Of a change of model that was broken off, vectors of what was erased may be left.
        NextVectors(self._database).drop(next_too=False)
        with self._database.overwriting(), self._database.writing("") as writer:
            drop_unused(writer.db)
        with self._database.keeping() as db:
            db.set_busy_timeout(int(seconds * 1000))
            try:
                for table in TEXT_INDEXES:
                    db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
                let_vacuum(db)
                db.execute("VACUUM")
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                db.execute("DELETE FROM meta WHERE key = ?", (ERASED,))
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
        return True
