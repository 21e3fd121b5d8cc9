"""Put a backup in the place of memory.db, once it has been read from end to end.

Stop the server first: nothing is changed while any program has the file open. What was there
before is kept beside it. A run that was interrupted can simply be run again.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import _root
from config import Config
from core.terminal import say
from mnelo_locale import message
from upkeep import backup


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="restore_db.py", description=__doc__)
    about = "a backup (.db or .db.gz): a path, a name in the backup folder, or latest"
    parser.add_argument("file", metavar="FILE", help=about)
    _root.add_options(parser, "--db")
    parser.add_argument("--check", action="store_true", help="only read the backup, change nothing")
    return _root.run(_run, parser, argv)


def _run(given: argparse.Namespace) -> None:
    config = Config.load(database_path=given.db)
    file = backup.find(given.file, config.backup_folder, config.database_path.stem)
    if given.check:
        say(message("restore.checked", file=file, **asdict(backup.verify(file))))
    else:
        _restore(file, config)


def _restore(file: Path, config: Config) -> None:
    done = backup.restore(file, config)
    counts = asdict(done.counts)
    del counts["schema"]
    say(message("restore.done", path=config.database_path, file=file, **counts))
    if done.kept:
        say(message("restore.kept", kept=done.kept))


if __name__ == "__main__":
    raise SystemExit(main())
