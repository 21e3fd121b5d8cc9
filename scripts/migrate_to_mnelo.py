"""Take in an export of Mnemosyne: one JSON object with memories, triples and facts.

A second run adds nothing. Its own embeddings are of another model and stay out.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from transfer import formats, importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="migrate_to_mnelo.py", description=__doc__)
    parser.add_argument("--file", metavar="F", type=Path, required=True, help="the export")
    told = "load no model: memories get their vectors later, by repair_vectors.py or a server"
    parser.add_argument("--skip-vectors", action="store_true", help=told)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be imported")
    parser.add_argument("--json", action="store_true", help="say what was done as one JSON object")
    arguments = parser.parse_args(argv)
    try:
        model = "none" if arguments.skip_vectors else None
        config = Config.load(database_path=arguments.db, embedder_model=model)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    found = formats.mnemosyne(arguments.file)
    return importers.run(found, config, dry_run=arguments.dry_run, as_json=arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
