"""Read facts about the owner out of live memories, by the rules in [identity] of config.toml.

Each fact becomes an entity and a relation of `user`, shown by its memory. A second run adds
nothing.
"""

import argparse
import sys
from collections.abc import Sequence

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from transfer import importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="import_identity_facts.py", description=__doc__)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be imported")
    parser.add_argument("--json", action="store_true", help="say what was done as one JSON object")
    arguments = parser.parse_args(argv)
    try:
        config = Config.load(database_path=arguments.db)
        found = importers.identity_facts(config)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    return importers.run(found, config, dry_run=arguments.dry_run, as_json=arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
