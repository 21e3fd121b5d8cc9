"""Writing anew what is derived from memories, and removing what belongs to nothing.

What the checks (checks.py) find missing in an index is made again from the memory's text. Rows
without the chunk, entity or relation that they belong to are removed.
"""

from index.analysis import Indexed
from store.sqlite.checks import CHECKS, EACH_INDEX
from store.sqlite.statements import fetch_all
from store.sqlite.writer import Writer

BATCH_REINDEXED = 100  # chunks of one transaction, while which other writers wait

CHUNKS_TO_REINDEX = (
    *(CHECKS[f"not in {index[1]}"] for index in EACH_INDEX),
    CHECKS["halved postings"],
)

# Whether a chunk is live, its source and session, and where its place is known from: from itself if
# it has terms, else from the version before.
CHUNK_TO_INDEX = """
    SELECT valid_until IS NULL, source, session_id, coalesce(
        (SELECT chunk_seq FROM postings WHERE chunk_seq = c.seq),
        (SELECT max(seq) FROM chunks o WHERE o.superseded_by = c.id)
    )
    FROM chunks c WHERE seq = ?
"""

_REMOVE_ORPHANS = "DELETE FROM {0} WHERE {1} NOT IN (SELECT {3} FROM {2}) RETURNING 1"
REMOVE_ORPHANS = [
    _REMOVE_ORPHANS.format(*each)
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
    texts = writer.texts
    for live, source, session_id, before in fetch_all(writer.db, CHUNK_TO_INDEX, (seq,)):
        text, metadata = writer.transaction.searchable(seq)
        if not live:
            texts.drop_pieces(seq, live=False)
        texts.index(seq, Indexed(text), metadata, source, session_id, before, live=bool(live))
