"""Make a backup of memory.db: a whole copy, read from end to end, while others may be writing.

Needs no server. The newest copies stay in the folder, as many as the settings or --keep say.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core import timestamps
from core.errors import MneloError
from mnelo_locale import message
from upkeep import backup


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backup_db.py", description=__doc__)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--to", metavar="FOLDER", help="the folder, instead of the configured one")
    parser.add_argument("--compress", action="store_true", default=None, help="compress with gzip")
    parser.add_argument("--keep", metavar="N", help="how many of the newest backups stay there")
    parser.add_argument("--json", action="store_true", help="say what was made as one JSON object")
    arguments = parser.parse_args(argv)
    try:
        config = Config.load(
            database_path=arguments.db,
            backup_folder=arguments.to,
            backup_compress=arguments.compress,
            backup_keep=arguments.keep,
        )
        made, counts = backup.make(
            config.database_path,
            config.backup_folder,
            compress=config.backup_compress,
            keep=config.backup_keep,
        )
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    held = asdict(counts)
    if arguments.json:
        taken = timestamps.stamp(made.taken)
        told = {"file": str(made.path), "bytes": made.bytes, "taken": taken, **held}
        print(json.dumps(told, ensure_ascii=False))
    else:
        del held["schema"]
        print(message("backup.made", file=made.path, mib=made.bytes / (1 << 20), **held))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
