"""Exports made, changed by the line and imported again."""

import json
from pathlib import Path
from typing import Any

from config import Config
from transfer import exporting, importing

Lines = list[dict[str, Any]]


def exported(database: Path, *, vectors: bool = False) -> bytes:
    to = database.with_suffix(".jsonl")
    exporting.export(database, str(to), vectors=vectors)
    return to.read_bytes()


def taken_in(
    content: bytes, database: Path, *, strict: bool = False, dry_run: bool = False
) -> importing.Imported:
    file = database.with_suffix(".in.jsonl")
    file.write_bytes(content)
    return importing.import_file(file, settings(database), strict=strict, dry_run=dry_run)


def settings(database: Path) -> Config:
    return Config.load(database_path=str(database), embedder_model="none")


def lines(content: bytes) -> Lines:
    return [json.loads(line) for line in content.splitlines()]


def written(records: Lines) -> bytes:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records).encode()
