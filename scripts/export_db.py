"""Write the whole memory to a text file: JSON lines that import_db.py takes in again.

Needs no server, and may run beside one. docs/EXPORT.md describes the format.
"""

import argparse
import sys
from collections.abc import Sequence

import _root
from config import Config
from core.terminal import as_json, say
from mnelo_locale import message
from transfer import exporting, importing


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="export_db.py", description=__doc__)
    _root.add_options(parser, "--db")
    parser.add_argument("--to", metavar="FILE", default="-", help="where to; - is stdout (default)")
    parser.add_argument("--vectors", action="store_true", help="with the vectors of memories")
    parser.add_argument("--json", action="store_true", help="say what was written as JSON")
    return _root.run(_export, parser, argv)


def _export(given: argparse.Namespace) -> None:
    database = Config.load(database_path=given.db).database_path
    with importing.progress_bar() as progress:
        counts = exporting.export(database, given.to, vectors=given.vectors, progress=progress)
    # Where the export itself goes to stdout, all else has to go elsewhere.
    out = sys.stderr if given.to == "-" else sys.stdout
    if given.json:
        say(as_json({"file": given.to, "records": counts}), out)
    else:
        say(message("transfer.exported", to=given.to, **counts), out)


if __name__ == "__main__":
    raise SystemExit(main())
