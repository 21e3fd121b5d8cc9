"""Take in snapshots of stock positions: the files state/holdings_*.json in mnelo's home.

A second run adds nothing.
"""

import argparse
from collections.abc import Sequence

import _root
from config import Config
from core.errors import InvalidInput
from transfer import formats, importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="import_holdings.py", description=__doc__)
    _root.add_options(parser, "--db", "--dry-run", "--json")
    return _root.run(_import, parser, argv)


def _import(given: argparse.Namespace) -> int:
    config = Config.load(database_path=given.db)
    folder = config.home / "state"
    if not any(folder.glob("holdings_*.json")):
        raise InvalidInput("importers.no_holdings", folder=folder)
    return importers.run(formats.holdings(folder), config, given)


if __name__ == "__main__":
    raise SystemExit(main())
