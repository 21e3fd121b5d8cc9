"""The whole memory as one text file (docs/EXPORT.md).

A line is an entity with all its versions and names, a version of a memory with its tags and links,
or a relation with its evidence. Lines are sorted by ids and times, and carry the numbers of their
rows: by `seq` memories of one moment stand in order, and merges wrote down in the audit which rows
they moved, by number. The log of recalls and what is derived from texts are in no export.
"""

import base64
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from core import files, terminal
from core.errors import InvalidInput
from core.types import Model
from store.files import SIDES, beside
from store.opening import inspect
from transfer.records import FORMAT, VERSION, Progress


def export(
    database: Path, to: str, *, vectors: bool, progress: Progress = lambda done, of: None
) -> dict[str, int]:
    """Write everything in a file to another, or for `-` to stdout; how many records of each type.

    What was acknowledged before it began is in it; others may write meanwhile. A regular file of
    that name gives way only when the new one is complete, a link or folder never; to a pipe or
    device, such as /dev/stdout, it is written.
    """
    if not database.exists():
        raise InvalidInput("transfer.no_database", path=database)
    if to != "-" and Path(to).exists() and _is_database(to, database):
        raise InvalidInput("transfer.itself", file=to)
    with (
        closing(inspect(database)) as store,
        store.view() as view,
        view.reading(),
        _opened(to) as out,
    ):
        counts, model = view.records.counts(), view.model() if vectors else None
        whole = sum(counts.values())
        out.write(_line(_header(counts, store.schema_version, model)))
        for kind, record in view.records.all(vectors=vectors):
            out.write(_line({"type": kind, **_plain(record)}))
            progress(1, whole)
        return counts


def _header(counts: Mapping[str, int], schema: int, model: Model | None) -> dict[str, Any]:
    """The first line; the model, where its vectors follow, with what was measured of it."""
    fields = ("name", "dim", "unrelated", "noise")
    named = model and {name: getattr(model, name) for name in fields}
    header = {"type": "header", "format": FORMAT, "version": VERSION, "schema": schema}
    return {**header, "records": dict(counts), "model": named}


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its vectors, if any, as text."""
    if "vectors" not in record:
        return record
    windows = [base64.b64encode(each.astype("<f4").tobytes()) for each in record["vectors"]]
    return record | {"vectors": [each.decode() for each in windows]}


def _line(table: Mapping[str, Any]) -> str:
    return terminal.as_json(table, sort_keys=True, separators=(",", ":")) + "\n"


def _is_database(to: str, database: Path) -> bool:
    """Whether a file is the database, or its log."""
    places = [beside(database, side) for side in ("", *SIDES)]
    return any(each.exists() and os.path.samefile(to, each) for each in places)


@contextmanager
def _opened(to: str) -> Iterator[IO[str]]:
    """Where to write: stdout, a pipe or device, or a file that takes its name once complete."""
    target = Path(to).absolute()
    try:
        if to == "-":
            plain = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
            yield plain
            plain.detach().flush()
        else:
            with files.stream(target) or files.replacing(target) as out:
                yield out
    except OSError as error:
        raise InvalidInput("transfer.unwritable", file=to, error=error.strerror) from None
