"""Write the whole memory to a text file: JSON lines that import_db.py takes in again.

Needs no server, and may run beside one. docs/EXPORT.md describes the format.
"""

import argparse
import json
import sys
from collections.abc import Sequence

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from mnelo_locale import message
from transfer import exporting, importing


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="export_db.py", description=__doc__)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--to", metavar="FILE", default="-", help="where to; - is stdout (default)")
    parser.add_argument("--vectors", action="store_true", help="with the vectors of memories")
    parser.add_argument("--json", action="store_true", help="say what was written as JSON")
    arguments = parser.parse_args(argv)
    try:
        database = Config.load(database_path=arguments.db).database_path
        with importing.progress_bar() as progress:
            counts = exporting.export(
                database, arguments.to, vectors=arguments.vectors, progress=progress
            )
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    # Where the export itself goes to stdout, all else has to go elsewhere.
    out = sys.stderr if arguments.to == "-" else sys.stdout
    if arguments.json:
        print(json.dumps({"file": arguments.to, "records": counts}, ensure_ascii=False), file=out)
    else:
        print(message("transfer.exported", to=arguments.to, **counts), file=out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
