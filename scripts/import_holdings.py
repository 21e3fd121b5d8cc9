"""Take in snapshots of stock positions: the files state/holdings_*.json in mnelo's home.

A second run adds nothing.
"""

import argparse
import sys
from collections.abc import Sequence

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from mnelo_locale import message
from transfer import formats, importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="import_holdings.py", description=__doc__)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be imported")
    parser.add_argument("--json", action="store_true", help="say what was done as one JSON object")
    arguments = parser.parse_args(argv)
    try:
        config = Config.load(database_path=arguments.db)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    folder = config.home / "state"
    if not any(folder.glob("holdings_*.json")):
        print(message("importers.no_holdings", folder=folder), file=sys.stderr)
        return 1
    found = formats.holdings(folder)
    return importers.run(found, config, dry_run=arguments.dry_run, as_json=arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
