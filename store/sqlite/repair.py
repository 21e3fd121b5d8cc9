"""Writing anew what is derived from memories."""

from index.analysis import Indexed
from store.sqlite.checks import CHECKS, EACH_INDEX
from store.sqlite.statements import fetch_all
from store.sqlite.writer import PUT_PIECES, Writer

REINDEXED_AT_ONCE = 100  # chunks of one transaction, while which other writers wait

LACKING = (*(CHECKS[f"not in {index[1]}"] for index in EACH_INDEX), CHECKS["halved postings"])

AGAIN = """
    SELECT valid_until IS NULL, source, session_id, coalesce(
        (SELECT chunk_seq FROM postings WHERE chunk_seq = c.seq),
        (SELECT max(seq) FROM chunks o WHERE o.superseded_by = c.id)
    )
    FROM chunks c WHERE seq = ?
"""

_OF_NO = "DELETE FROM {0} WHERE {1} NOT IN (SELECT {3} FROM {2}) RETURNING 1"
REMOVE_ORPHANS = [
    _OF_NO.format(*each)
    for each in (
        ("tags", "chunk_seq", "chunks", "seq"),
        ("mentions", "chunk_seq", "chunks", "seq"),
        ("mentions", "entity_id", "entities", "id"),
        ("aliases", "entity_id", "entities", "id"),
        ("evidence", "chunk_seq", "chunks", "seq"),
        ("evidence", "relation_id", "relations", "id"),
        ("windows", "chunk_seq", "chunks", "seq"),
        ("cue_postings", "chunk_seq", "chunks", "seq"),
        ("turns", "chunk_seq", "chunks", "seq"),
        ("timeline", "chunk_seq", "chunks", "seq"),
        ("contexts", "chunk_seq", "timeline", "chunk_seq"),
        ("merged_vectors", "chunk_seq", "timeline", "chunk_seq"),
        ("timeline_groups", "chunk_seq", "timeline", "chunk_seq"),
    )
]


def index_again(writer: Writer, seq: int) -> None:
    """Write what a chunk is found by; it keeps its place, or takes that of the version before."""
    db = writer.db
    for live, source, session_id, before in fetch_all(db, AGAIN, (seq,)):
        text, metadata = writer.searchable(seq)
        indexed = Indexed(text)
        writer.put_postings(seq, indexed, indexed.weights(metadata, source, session_id), before)
        if live:
            writer.pieces[seq] = indexed.pieces(metadata)
        else:
            db.execute("DELETE FROM closed_trigrams WHERE rowid = ?", (seq,))
            pieces = indexed.pieces(metadata)
            db.execute(PUT_PIECES.format("closed_trigrams"), (seq, pieces))
