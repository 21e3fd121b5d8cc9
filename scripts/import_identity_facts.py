"""Read facts about the owner out of live memories, by the rules in [identity] of config.toml.

Each fact becomes an entity and a relation of `user`, shown by its memory. A second run adds
nothing.
"""

import argparse
from collections.abc import Sequence

import _root
from config import Config
from transfer import importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="import_identity_facts.py", description=__doc__)
    _root.add_options(parser, "--db", "--dry-run", "--json")
    return _root.run(_import, parser, argv)


def _import(given: argparse.Namespace) -> int:
    config = Config.load(database_path=given.db)
    return importers.run(importers.identity_facts(config), config, given)


if __name__ == "__main__":
    raise SystemExit(main())
