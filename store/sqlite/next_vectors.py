"""The vectors of another model, beside those in use until they take their place.

One transaction gives the new tables the names of the old ones (vec0 leaves it to others to rename
the tables that it keeps its rows in), records the model and lets chunks without a vector wait for
one. The old vectors are dropped last, in pieces. A text that is changed or erased meanwhile takes
its new vectors along, by a foreign key and two triggers.

Each adoption of a model has an id, the model's name and the moment. Vectors that are to be
written carry the id of the model that made them and are left out where the file has another one by
then. An index in memory is compared only with a query of its own id, and made anew when the
file's changes. So vectors of two models never meet, whatever their dimensions, in any process. A
server looks at the id before it uses its model: it loads the file's model if its settings allow
that, and else says that vectors are off.
"""

from collections.abc import Sequence

import apsw
import numpy as np

from core.types import Model, Vectors
from store.sqlite.open_file import OpenFile
from store.sqlite.statements import fetch_all, fetch_one, has_table, has_vectors
from store.sqlite.vectors import make_vectors_table, model_of, record_model
from store.types import WaitingText

BLOCK = 1024  # vectors, for which vec0 takes room at once
ROW_BYTES = 16  # of a vector in such a block, beside its dimensions
BESIDE_BYTES = 100  # what other tables and their indexes keep of a vector
BATCH_BLOCKS = 50  # of the old vectors, dropped in one transaction: some 100 MB

# Beside the vectors in use, those of another model. `live` is that of the vector: what was closed
# or opened since is found by it. A text that is erased or changed takes its vectors along, whose
# bytes vec0 would leave where they are.
NEXT_TABLES = """
    CREATE TABLE next_windows (
        seq       INTEGER PRIMARY KEY,
        chunk_seq INTEGER NOT NULL REFERENCES chunks (seq) ON DELETE CASCADE,
        part      INTEGER NOT NULL,
        live      INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX next_windows_chunk ON next_windows (chunk_seq);
    CREATE TRIGGER next_window_gone AFTER DELETE ON next_windows BEGIN
        UPDATE next_vectors SET embedding = zeroblob({0}) WHERE rowid = old.seq;
        DELETE FROM next_vectors WHERE rowid = old.seq;
    END;
    CREATE TRIGGER next_text_changed AFTER UPDATE OF content ON chunks BEGIN
        DELETE FROM next_windows WHERE chunk_seq = new.seq;
    END;
"""
DROP_NEXT_TABLES = """
    DROP TRIGGER next_text_changed;
    DROP TRIGGER next_window_gone;
    DROP TABLE next_windows;
"""

_WITHOUT_NEXT = "NOT EXISTS (SELECT 1 FROM next_windows w WHERE w.chunk_seq = c.seq)"
TEXTS_FOR_NEXT = f"""
    SELECT c.seq, c.content_hash, c.content, c.source, c.timestamp FROM chunks c
    WHERE c.seq > ? AND {_WITHOUT_NEXT} ORDER BY c.seq LIMIT ?
"""
LEFT_FOR_NEXT = "SELECT count(*), coalesce(sum(length(c.content)), 0) FROM chunks c WHERE {0}"
SOME_TEXTS = """
    SELECT c.seq, c.content_hash, c.content, c.source, c.timestamp FROM chunks c
    WHERE c.seq % max(1, (SELECT count(*) FROM chunks) / :most) = 0 ORDER BY c.seq LIMIT :most
"""

# Of a text that is still the one that was read.
PUT_NEXT_WINDOW = """
    INSERT INTO next_windows
    SELECT (SELECT coalesce(max(seq), 0) + 1 FROM next_windows), seq, :part, valid_until IS NULL
    FROM chunks WHERE seq = :seq AND content_hash = :hash RETURNING seq, live
"""
PUT_NEXT_VECTOR = "INSERT INTO next_vectors (rowid, embedding, live) VALUES (?, ?, ?)"

MARKED_WRONGLY = """
    SELECT w.seq FROM next_windows w JOIN chunks c ON c.seq = w.chunk_seq
    WHERE w.live <> (c.valid_until IS NULL)
"""
MARK_NEXT = (
    "UPDATE next_vectors SET live = 1 - live WHERE rowid = ?",
    "UPDATE next_windows SET live = 1 - live WHERE seq = ?",
)

# `windows` keeps its place, for its numbers are never used again.
SWITCH_WINDOWS = """
    DELETE FROM windows;
    INSERT INTO windows SELECT seq, chunk_seq, part FROM next_windows;
    UPDATE chunks SET pending = 0
    WHERE pending = 1 AND seq IN (SELECT chunk_seq FROM next_windows);
    UPDATE chunks SET pending = 1
    WHERE pending = 0 AND seq NOT IN (SELECT chunk_seq FROM next_windows);
"""

FORGET_NEXT = "DELETE FROM meta WHERE key GLOB 'next_*'"
FREE_BYTES = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
DROP_BLOCKS = """
    DELETE FROM {0}_vector_chunks00
    WHERE rowid IN (SELECT rowid FROM {0}_vector_chunks00 LIMIT ?) RETURNING 1
"""


class NextVectors:
    """The vectors of another model, which come to be beside the file's own and then replace them.

    Each step is one short transaction, and any may be the last: what it left is gone on with.
    """

    def __init__(self, database: OpenFile) -> None:
        self._database = database

    # -- looking --

    def model(self) -> Model | None:
        with self._database.reader() as db:
            return model_of(db, "next")

    def left(self, *, anew: bool) -> tuple[int, int]:
        with self._database.reader() as db:
            begun = has_table(db, "next_windows") and not anew
            sql = LEFT_FOR_NEXT.format(_WITHOUT_NEXT if begun else "1")
            ((texts, characters),) = fetch_all(db, sql)
        return texts, characters

    def sample(self, most: int) -> list[WaitingText]:
        with self._database.reader() as db:
            return [WaitingText(*row) for row in fetch_all(db, SOME_TEXTS, {"most": most})]

    def growth_bytes(self, windows: int, dim: int) -> int:
        blocks = -(-windows // BLOCK)
        needed = blocks * BLOCK * (4 * dim + ROW_BYTES) + windows * BESIDE_BYTES
        with self._database.reader() as db:
            return max(0, needed - int(fetch_one(db, FREE_BYTES)))

    # -- making them --

    def begin(self, model: Model) -> None:
        self.drop()
        with self._database.transaction() as db:
            record_model(db, model, "next")
            make_vectors_table(db, "next_vectors", model.dim)
            db.execute(NEXT_TABLES.format(4 * int(model.dim)))

    def texts(self, after: int, most: int) -> list[WaitingText]:
        with self._database.reader() as db:
            return [WaitingText(*row) for row in fetch_all(db, TEXTS_FOR_NEXT, (after, most))]

    def put(self, rows: Sequence[tuple[WaitingText, Vectors]]) -> None:
        with self._database.transaction() as db:
            for text, vectors in rows:
                for part, vector in enumerate(vectors):
                    window = {"part": part, "seq": text.seq, "hash": text.hash}
                    for seq, live in fetch_all(db, PUT_NEXT_WINDOW, window):
                        kept = np.asarray(vector, np.float32).tobytes()
                        db.execute(PUT_NEXT_VECTOR, (seq, kept, live))

    def update_live(self) -> None:
        with self._database.transaction() as db:
            _mark_next(db)

    def switch(self, model: Model) -> None:
        with self._database.transaction() as db:
            _mark_next(db)
            db.execute(SWITCH_WINDOWS)
            db.execute(DROP_NEXT_TABLES)
            if has_vectors(db):
                _rename_vectors(db, "vectors", "old_vectors")
            _rename_vectors(db, "next_vectors", "vectors")
            db.execute(FORGET_NEXT)
            record_model(db, model)

    def drop(self, *, next_too: bool = True) -> None:
        with self._database.transaction() as db:
            if next_too:
                if has_table(db, "next_windows"):
                    db.execute(DROP_NEXT_TABLES)
                db.execute(FORGET_NEXT)
        for table in ("old_vectors", "next_vectors") if next_too else ("old_vectors",):
            self._drop_vectors(table)

    def _drop_vectors(self, table: str) -> None:
        dropped = BATCH_BLOCKS
        while dropped == BATCH_BLOCKS:
            with self._database.transaction() as db:
                if not has_table(db, table):
                    return
                dropped = len(fetch_all(db, DROP_BLOCKS.format(table), (BATCH_BLOCKS,)))
        with self._database.transaction() as db:
            db.execute(f"DROP TABLE {table}")


def _mark_next(db: apsw.Connection) -> None:
    wrong = fetch_all(db, MARKED_WRONGLY)
    for sql in MARK_NEXT:
        db.executemany(sql, wrong)


def _rename_vectors(db: apsw.Connection, old: str, new: str) -> None:
    """Rename a vec0 table, and the tables that it keeps its rows in, which vec0 does not."""
    db.execute(f"ALTER TABLE {old} RENAME TO {new}")
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ? || '_*'"
    for (name,) in fetch_all(db, sql, (old,)):
        db.execute(f"ALTER TABLE {name} RENAME TO {new}{name.removeprefix(old)}")
