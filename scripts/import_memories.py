"""Take in what another program has stored: its memories, notes or conversations.

A second run adds nothing. A bad record is reported and the others are imported; the exit status
is then 1. docs/EXPORT.md says what becomes of each format.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import _root
from config import Config
from core.errors import InvalidInput
from transfer import formats, importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="import_memories.py", description=__doc__)
    about = "the program or format: " + ", ".join(formats.READERS)
    parser.add_argument(
        "--from",
        dest="format",
        required=True,
        choices=formats.READERS,
        metavar="F",
        help=about,
    )
    parser.add_argument("path", metavar="PATH", type=Path, help="its file or folder")
    _root.add_options(parser, "--db", "--dry-run", "--json")
    return _root.run(_import, parser, argv)


def _import(given: argparse.Namespace) -> int:
    if not given.path.exists():
        raise InvalidInput("importers.no_file", path=given.path)
    config = Config.load(database_path=given.db)
    return importers.run(formats.READERS[given.format](given.path), config, given)


if __name__ == "__main__":
    raise SystemExit(main())
