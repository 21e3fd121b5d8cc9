"""The vectors of the file: where vec0 keeps them, and the model that made them.

vec0 has the only vectors of the file. The index in memory reads its blocks as such, since its
look-up of single rows is slow.
"""

import json
from collections.abc import Callable, Iterator, Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from core import timestamps
from core.types import Model, Vectors
from index.postings import Rows
from store.sqlite.statements import PUT_META, fetch_all, fetch_one, has_vectors

# --- The index in memory ---------------------------------------------------------------


def all_vectors(
    db: apsw.Connection, located: Callable[[NDArray[np.int64]], Rows]
) -> tuple[int, Iterator[tuple[Vectors, Rows]]]:
    """How many vectors there are of chunks that are somewhere; and these, block by block."""
    if not (dim := dimension_of(db)):
        return 0, iter(())
    found = db.execute(EVERY_PLACE)
    places = np.array(list(found), np.int64).reshape(-1, 3)
    places[:, 0] = located(places[:, 0])
    places = places[places[:, 0] >= 0]
    return len(places), _vectors_by_block(db, places, dim) if len(places) else iter(())


def _vectors_by_block(
    db: apsw.Connection, places: NDArray[np.int64], dim: int
) -> Iterator[tuple[Vectors, Rows]]:
    """The vectors at places of vec0's blocks, in the order of the blocks, and their owners."""
    blocks, starts = np.unique(places[:, 1], return_index=True)
    for block, part in zip(blocks.tolist(), np.split(places, starts[1:]), strict=True):
        whole = np.frombuffer(fetch_one(db, BLOCK, (block,)), np.float32).reshape(-1, dim)
        yield whole[part[:, 2]], part[:, 0].astype(np.int32)


def dimension_of(db: apsw.Connection) -> int:
    """How many dimensions the file's vectors have; 0 where it has no model yet."""
    return int(fetch_one(db, "SELECT value FROM meta WHERE key = 'embedding_dim'") or 0)


def _vectors_at(db: apsw.Connection, places: Sequence[tuple[int, int, int]], dim: int) -> Vectors:
    """The vectors at some places of vec0's blocks, read without its slow look-up of single rows."""
    vectors = np.empty((len(places), dim), np.float32)
    if not places:
        return vectors
    block = places[0][1]
    with db.blob_open("main", "vectors_vector_chunks00", "vectors", block, False) as blob:
        for at, (_, wanted, offset) in enumerate(places):
            if wanted != block:
                blob.reopen(block := wanted)
            blob.seek(offset * dim * vectors.itemsize)
            blob.read_into(vectors[at])
    return vectors


def vectors_of(db: apsw.Connection, seq: int) -> Vectors | None:
    """The windows of a chunk; None while it waits for them."""
    dim = dimension_of(db)
    places = fetch_all(db, PLACES_OF_CHUNK, (seq,)) if dim else []
    return _vectors_at(db, places, dim) if places else None


# --- Vectors ---------------------------------------------------------------------------


WINDOWS_OF_CHUNK = "SELECT seq FROM windows WHERE chunk_seq = ?"

# vec0 keeps vectors in blocks of a table of its own, and where each row's is in another.
EVERY_PLACE = """
    SELECT w.chunk_seq, r.chunk_id, r.chunk_offset
    FROM windows w JOIN vectors_rowids r ON r.rowid = w.seq ORDER BY r.chunk_id
"""
BLOCK = "SELECT vectors FROM vectors_vector_chunks00 WHERE rowid = ?"

PLACES_OF_CHUNK = """
    SELECT w.chunk_seq, r.chunk_id, r.chunk_offset
    FROM windows w JOIN vectors_rowids r ON r.rowid = w.seq
    WHERE w.chunk_seq = ? ORDER BY w.part
"""


def model_of(db: apsw.Connection, prefix: str = "embedding") -> Model | None:
    sql = "SELECT key, value, value || ' ' || updated_at FROM meta WHERE key GLOB ? || '_*'"
    rows = {key.removeprefix(f"{prefix}_"): each for key, *each in fetch_all(db, sql, (prefix,))}
    if not rows:
        return None
    noise = json.loads(rows["noise"][0]) if "noise" in rows else []
    (name, version), (dim, _), (unrelated, _) = rows["model"], rows["dim"], rows["unrelated"]
    pairs = tuple((mean, deviation) for mean, deviation in noise)
    return Model(name, int(dim), float(unrelated), pairs, version)


def record_model(db: apsw.Connection, model: Model, prefix: str = "embedding") -> None:
    recorded = {
        "model": model.name,
        "dim": model.dim,
        "unrelated": model.unrelated,
        "noise": json.dumps(model.noise),
    }
    now = timestamps.now()
    for key, value in recorded.items():
        db.execute(PUT_META, (f"{prefix}_{key}", str(value), now))


def make_vectors_table(db: apsw.Connection, table: str, dim: int) -> None:
    # The dimension is a number of ours; vec0 takes no bound parameter here.
    width = f"embedding float[{int(dim)}]"
    db.execute(f"CREATE VIRTUAL TABLE {table} USING vec0 ({width}, live integer)")


_UNMARKED = "SELECT seq FROM chunks c WHERE c.valid_until IS NULL AND c.pending = 0"

VECTOR_CHECKS = {
    "orphans": "SELECT rowid FROM vectors EXCEPT SELECT seq FROM windows",
    "windows": "SELECT seq FROM windows EXCEPT SELECT rowid FROM vectors",
    "marks": """
        SELECT v.rowid FROM vectors v JOIN windows w ON w.seq = v.rowid
        JOIN chunks c ON c.seq = w.chunk_seq WHERE v.live <> (c.valid_until IS NULL)
    """,
    "unmarked": _UNMARKED
    + " AND seq NOT IN (SELECT chunk_seq FROM windows WHERE seq IN (SELECT rowid FROM vectors))",
}
"""For each fault that vectors can have, the statement that finds its rows."""


def vector_checks(db: apsw.Connection) -> dict[str, str]:
    return VECTOR_CHECKS if has_vectors(db) else {"unmarked": _UNMARKED}


MEND = {
    "orphans": "DELETE FROM vectors WHERE rowid = ?",
    "windows": "DELETE FROM windows WHERE seq = ?",
    "marks": "UPDATE vectors SET live = 1 - live WHERE rowid = ?",
    "unmarked": "UPDATE chunks SET pending = 1 WHERE seq = ?",
}
