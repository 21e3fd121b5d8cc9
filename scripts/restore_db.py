"""Put a backup in the place of memory.db, once it has been read from end to end.

Stop the server first: nothing is changed while any program has the file open. What was there
before is kept beside it. A run that was interrupted can simply be run again.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from mnelo_locale import message
from upkeep import backup


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="restore_db.py", description=__doc__)
    told = "a backup (.db or .db.gz): a path, a name in the backup folder, or latest"
    parser.add_argument("file", metavar="FILE", help=told)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--check", action="store_true", help="only read the backup, change nothing")
    arguments = parser.parse_args(argv)
    try:
        config = Config.load(database_path=arguments.db)
        file = backup.find(arguments.file, config.backup_folder, config.database_path.stem)
        _check(file) if arguments.check else _restore(file, config)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _check(file: Path) -> None:
    print(message("restore.checked", file=file, **asdict(backup.verify(file))))


def _restore(file: Path, config: Config) -> None:
    done = backup.restore(file, config)
    held = asdict(done.counts)
    del held["schema"]
    print(message("restore.done", path=config.database_path, file=file, **held))
    if done.kept:
        print(message("restore.kept", kept=done.kept))


if __name__ == "__main__":
    raise SystemExit(main())
