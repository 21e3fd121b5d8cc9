"""mnelo's command line: one program, one command for each thing to do.

`mn.py COMMAND --help` says what a command does, and what its exit status means.
"""

import argparse
import inspect
import io
import json
import os
import sys
from collections.abc import Callable, Sequence

import _root
import doctor as doctors
from errors import MneloError
from mnelo_locale import message

sys.path.append(str(_root.ROOT / "api"))  # for the client that asks the server

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a timer's locale may not know every sign
    command: Command = given.command
    try:
        return command(given)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mn.py", description=__doc__, formatter_class=_Plain)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    asked = _add(commands, doctor)
    asked.add_argument("--fix", action="store_true", help="mend what can be mended")
    return parser


_Plain = argparse.RawDescriptionHelpFormatter


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", command: Command
) -> argparse.ArgumentParser:
    """A command under its function's name; its docstring is the help."""
    about = inspect.getdoc(command) or ""
    first = about.partition("\n")[0]
    parser = commands.add_parser(
        command.__name__, help=first, description=about, formatter_class=_Plain
    )
    parser.add_argument(
        "--db", type=os.path.abspath, help="the database file, instead of the configured one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.set_defaults(command=command)
    return parser


# --- The commands ----------------------------------------------------------------------


def doctor(given: argparse.Namespace) -> int:
    """Look for whatever is wrong with file, model, settings, permissions, service and port.

    With --fix it mends what can be mended safely, and says so: permissions, indexes, vectors,
    rows that belong to nothing. No memory is ever deleted.

    Exit status: 0 nothing is wrong (any more); 1 something is, each with what to do about it;
    2 the file cannot be used.
    """
    config, broken = doctors.settings(given.db)
    found = doctors.examine(config, broken, fix=given.fix)
    if given.json:
        print(json.dumps(found.as_json(), ensure_ascii=False))
        return found.exit_status
    for sentence in found.mended:
        print(f"🔧 {sentence}")
    for each in found.findings:
        mark = "🔴" if each.severity == "error" else "⚠️"
        where = "" if each.where in each.what else f"{each.where}: "
        print(f"{mark} {where}{each.what} → {each.fix}")
    print(message("doctor.found" if found.findings else "doctor.sound", count=len(found.findings)))
    return found.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
