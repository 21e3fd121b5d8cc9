"""Take an export of mnelo into a memory; what is there already stays as it is.

Needs no server, and may run beside one. A bad line is reported and the others are imported,
unless --strict is given; the exit status is 1 where anything was wrong. A run that was
interrupted can simply be run again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from mnelo_locale import message
from text.guard import Guard
from transfer import importing


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="import_db.py", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="what export_db.py wrote")
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--strict", action="store_true", help="import nothing if a line is wrong")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be imported")
    parser.add_argument("--json", action="store_true", help="say what was done as one JSON object")
    arguments = parser.parse_args(argv)
    try:
        config = Config.load(database_path=arguments.db)
        with importing.progress_bar() as progress:
            done = importing.import_file(
                Path(arguments.file),
                config,
                strict=arguments.strict,
                dry_run=arguments.dry_run,
                progress=progress,
            )
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    for each in (*done.problems, *done.conflicts):
        print(each, file=sys.stderr)
    if arguments.json:
        print(json.dumps(_told(done), ensure_ascii=False))
    else:
        _say(done, arguments.file, config)
    return 1 if done.problems else 0


def _told(done: importing.Imported) -> dict[str, object]:
    return {
        "imported": done.wrote,
        "records": done.counts,
        "problems": [{"line": each.line, "reason": each.reason} for each in done.problems],
        "conflicts": [each.line for each in done.conflicts],
        "secrets": done.secrets,
    }


def _say(done: importing.Imported, file: str, config: Config) -> None:
    said = "transfer.imported" if done.wrote else "transfer.would"
    print(message(said, file=file, path=config.database_path))
    for kind, counts in done.counts.items():
        print("  " + message("transfer.count", kind=message(f"transfer.kind_{kind}"), **counts))
    if done.wrote and done.counts["chunk"]["new"] and not done.vectors:
        print(message("transfer.without_vectors"))
    if done.secrets:
        print(Guard(config.guard_mode).told(done.secrets)["notice"])


if __name__ == "__main__":
    raise SystemExit(main())
