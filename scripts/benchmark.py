"""Measure mnelo on this machine: how fast it is, with --serve what a client of the server waits
for, with --timeline how fast the timeline's tools are, or with --retrieval how well it finds.

Everything happens in a temporary folder; no memory of yours is read or changed. The report goes
to standard output in Markdown, the progress to standard error.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import _root  # noqa: F401 - makes the modules one folder up importable
from core.errors import MneloError

RETRIEVAL, SERVE, TIMELINE = "--retrieval", "--serve", "--timeline"
PARTS = {
    RETRIEVAL: "benchmark_retrieval",
    SERVE: "benchmark_serve",
    TIMELINE: "benchmark_timeline",
}
"""The module with the options and the work of each part; only the one that is used is loaded."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    asked = next((PARTS[option] for option in PARTS if option in arguments), "benchmark_speed")
    part, parser = import_module(asked), _parser()
    part.add_arguments(parser)
    given = parser.parse_args(arguments)
    if given.json and not given.json.parent.is_dir():  # before the work, not after it
        parser.error(f"{given.json.parent} is no folder")
    try:
        report = part.run(given)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    if given.json:
        text = json.dumps(report, ensure_ascii=False, indent=2)
        given.json.write_text(text + "\n", "utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmark.py", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        RETRIEVAL,
        nargs="+",
        type=Path,
        metavar="FILE",
        help="how well questions find what answers them, in files of conversations "
        f"({RETRIEVAL} FILE --help tells its own options)",
    )
    parser.add_argument(
        SERVE,
        action="store_true",
        help="how long a client waits for the server's answers, embedding included "
        f"({SERVE} --help tells its own options)",
    )
    parser.add_argument(
        TIMELINE,
        action="store_true",
        help="how long the timeline's tools take, and how its groups are found "
        f"({TIMELINE} --help tells its own options)",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the report there too")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
