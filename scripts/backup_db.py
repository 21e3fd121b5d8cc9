"""Make a backup of memory.db: a whole copy, read from end to end, while others may be writing.

Needs no server. The newest copies stay in the folder, as many as the settings or --keep say.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

import _root
from config import Config
from core import timestamps
from core.terminal import as_json, say
from mnelo_locale import message
from upkeep import backup


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="backup_db.py", description=__doc__)
    _root.add_options(parser, "--db")
    parser.add_argument("--to", metavar="FOLDER", help="the folder, instead of the configured one")
    parser.add_argument("--compress", action="store_true", default=None, help="compress with gzip")
    parser.add_argument("--keep", metavar="N", help="how many of the newest backups stay there")
    parser.add_argument("--json", action="store_true", help="say what was made as one JSON object")
    return _root.run(_back_up, parser, argv)


def _back_up(given: argparse.Namespace) -> None:
    config = Config.load(
        database_path=given.db,
        backup_folder=given.to,
        backup_compress=given.compress,
        backup_keep=given.keep,
    )
    made, found = backup.make(
        config.database_path,
        config.backup_folder,
        compress=config.backup_compress,
        keep=config.backup_keep,
    )
    counts = asdict(found)
    if given.json:
        taken = timestamps.stamp(made.taken)
        table = {"file": str(made.path), "bytes": made.bytes, "taken": taken, **counts}
        say(as_json(table))
    else:
        del counts["schema"]
        say(message("backup.made", file=made.path, mib=made.bytes / (1 << 20), **counts))


if __name__ == "__main__":
    raise SystemExit(main())
