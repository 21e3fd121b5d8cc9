"""Take an export of mnelo into a memory; what is there already stays as it is.

Needs no server, and may run beside one. A bad line is reported and the others are imported,
unless --strict is given; the exit status is 1 where anything was wrong. A run that was
interrupted can simply be run again.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import _root
from config import Config
from core.terminal import as_json, complain, say
from mnelo_locale import message
from text.guard import Guard
from transfer import importing


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="import_db.py", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="what export_db.py wrote")
    _root.add_options(parser, "--db")
    parser.add_argument("--strict", action="store_true", help="import nothing if a line is wrong")
    _root.add_options(parser, "--dry-run", "--json")
    return _root.run(_import, parser, argv)


def _import(given: argparse.Namespace) -> int:
    config, file = Config.load(database_path=given.db), Path(given.file)
    options = {"strict": given.strict, "dry_run": given.dry_run}
    with importing.progress_bar() as progress:
        done = importing.import_file(file, config, **options, progress=progress)
    for each in (*done.problems, *done.conflicts):
        complain(each)
    if given.json:
        say(as_json(_as_json(done, config)))
    else:
        _say(done, given.file, config)
    return 1 if done.problems else 0


def _as_json(done: importing.Imported, config: Config) -> dict[str, object]:
    told = Guard(config.guard_mode).notice(done.secrets)
    return {
        "imported": done.wrote,
        "records": done.counts,
        "problems": [{"line": each.line, "reason": each.reason} for each in done.problems],
        "conflicts": [each.line for each in done.conflicts],
        "secrets": told.get("secrets", []),
        **({"notice": told["notice"]} if "notice" in told else {}),
    }


def _say(done: importing.Imported, file: str, config: Config) -> None:
    said = "transfer.imported" if done.wrote else "transfer.would"
    say(message(said, file=file, path=config.database_path))
    for kind, counts in done.counts.items():
        say("  " + message("transfer.count", kind=message(f"transfer.kind_{kind}"), **counts))
    if done.wrote and done.counts["chunk"]["new"] and not done.vectors:
        say(message("transfer.without_vectors"))
    if done.secrets:
        say(Guard(config.guard_mode).notice(done.secrets)["notice"])


if __name__ == "__main__":
    raise SystemExit(main())
