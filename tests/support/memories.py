"""The memory of a test: how it is opened, and what is in its file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from inside import look_for_faults, sqlite_of
from memory import Memory

Open = Callable[..., Memory]
"""Opens the test's memory; see the fixture open_memory."""

TABLES = {
    "chunks": "seq, id, content, content_hash, source, session_id, timestamp, importance,"
    " metadata_json, created_at, valid_from, valid_until, superseded_by, pending",
    "entities": "seq, id, key, kind, name, summary, properties_json, source, importance,"
    " created_at, updated_at, valid_from, valid_until, superseded_by",
    "aliases": "*",
    "name_words": "*",
    "mentions": "*",
    "relations": "*",
    "evidence": "*",
    "tags": "*",
    "windows": "*",
    "postings": "chunk_seq, place, flags, speaker, terms, weights",
    "trigrams": "rowid",
    "closed_trigrams": "rowid",
    "trigram_terms": "*",
    "closed_trigram_terms": "*",
    "vectors": "rowid, embedding, live",
}


def dump(memory: Memory) -> dict[str, list[Any]]:
    """All that the file holds of memories and links, whoever wrote it when."""
    view = sqlite_of(memory).connect(reader=True)
    return {
        table: sorted(view.execute(f"SELECT {columns} FROM {table}"), key=repr)  # noqa: S608
        for table, columns in TABLES.items()
    }


def live(memory: Memory) -> dict[str, list[Any]]:
    """All that is live, and what hangs on it."""
    tables = dump(memory)
    chunks = {row[0] for row in tables["chunks"] if row[11] is None}
    return {
        "chunks": [row for row in tables["chunks"] if row[0] in chunks],
        "tags": [row for row in tables["tags"] if row[0] in chunks],
        "postings": [row for row in tables["postings"] if row[0] in chunks],
        "trigrams": tables["trigrams"],
        "vectors": [row for row in tables["vectors"] if row[2] == 1],
        "entities": [row for row in tables["entities"] if row[12] is None],
        "relations": [row[:9] for row in tables["relations"] if row[10] is None],
    }


def sound(memory: Memory) -> bool:
    return not any(look_for_faults(memory).values())


def files(path: Path) -> dict[str, bytes]:
    """The file and what SQLite keeps beside it."""
    return {each.name: each.read_bytes() for each in path.parent.glob(path.name + "*")}


def traces(path: Path, *pieces: str | bytes) -> list[tuple[str, str | bytes]]:
    """In which files which of the pieces is."""
    wanted = {piece: piece.encode() if isinstance(piece, str) else piece for piece in pieces}
    return [
        (name, piece)
        for name, content in files(path).items()
        for piece, sought in wanted.items()
        if sought in content
    ]
