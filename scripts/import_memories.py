"""Take in what another program has stored: its memories, notes or conversations.

A second run adds nothing. A bad record is reported and the others are imported; the exit status
is then 1. docs/EXPORT.md says what becomes of each format.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from mnelo_locale import message
from transfer import formats, importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="import_memories.py", description=__doc__)
    told = "the program or format: " + ", ".join(formats.READERS)
    parser.add_argument(
        "--from", dest="format", required=True, choices=formats.READERS, metavar="F", help=told
    )
    parser.add_argument("path", metavar="PATH", type=Path, help="its file or folder")
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be imported")
    parser.add_argument("--json", action="store_true", help="say what was done as one JSON object")
    arguments = parser.parse_args(argv)
    if not arguments.path.exists():
        print(message("importers.no_file", path=arguments.path), file=sys.stderr)
        return 1
    try:
        config = Config.load(database_path=arguments.db)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    found = formats.READERS[arguments.format](arguments.path)
    return importers.run(found, config, dry_run=arguments.dry_run, as_json=arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
