"""Say in nine lines how server, memory, model, backups and disk are, for a person or a timer.

Nothing is changed, started or loaded. The report is also kept in cron/output of the home folder.
Exit status: 0 all is well; 1 something needs a look, and its line says what; 2 the server does
not answer, or the file cannot be read.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence

import _root
from admin import health
from config import Config
from core.errors import MneloError
from core.terminal import as_json, complain, say
from mnelo_locale import message

sys.path.append(str(_root.ROOT / "api"))  # for the client that asks the server


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(
        prog="health_check.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.add_argument("--no-report", dest="report", action="store_false", help="keep no report")
    parser.add_argument(
        "--db", type=os.path.abspath, help="the database file, instead of the configured one"
    )
    given = parser.parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a timer's locale may not know every sign
    try:
        config = Config.load(database_path=given.db)
    except MneloError as error:
        complain(error)
        return 2
    report = health.look(config)
    if given.json:
        say(as_json(report.as_json()))
    else:
        say("\n".join(report.lines))
    if given.report:
        _keep(report, config)
    return report.exit_status


def _keep(report: health.Report, config: Config) -> None:
    try:
        health.write_report(report, config.home)
    except OSError as error:
        folder, reason = error.filename or config.home, error.strerror
        complain(message("check.report", folder=folder, reason=reason))


if __name__ == "__main__":
    raise SystemExit(main())
