"""Take in an export of Mnemosyne: one JSON object with memories, triples and facts.

A second run adds nothing. Its own embeddings are of another model and stay out.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import _root
from config import Config
from transfer import formats, importers


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="migrate_to_mnelo.py", description=__doc__)
    parser.add_argument("--file", metavar="F", type=Path, required=True, help="the export")
    later = "load no model: memories get their vectors later, by repair_vectors.py or a server"
    parser.add_argument("--skip-vectors", action="store_true", help=later)
    _root.add_options(parser, "--db", "--dry-run", "--json")
    return _root.run(_import, parser, argv)


def _import(given: argparse.Namespace) -> int:
    model = "none" if given.skip_vectors else None
    config = Config.load(database_path=given.db, embedder_model=model)
    return importers.run(formats.mnemosyne(given.file), config, given)


if __name__ == "__main__":
    raise SystemExit(main())
