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
from typing import Any

import _root  # noqa: F401 - makes the modules one folder up importable
from core.errors import MneloError

RETRIEVAL = "--retrieval"
PARTS = {
    RETRIEVAL: (
        "benchmark_retrieval",
        "how well questions find what answers them, in files of conversations",
    ),
    "--serve": (
        "benchmark_serve",
        "how long a client waits for the server's answers, embedding included",
    ),
    "--timeline": (
        "benchmark_timeline",
        "how long the timeline's tools take, and how its groups are found",
    ),
}
"""The module of each part, which is loaded only when it is asked for, and what it measures."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    asked = next((PARTS[each][0] for each in PARTS if each in arguments), "benchmark_speed")
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
    for option, (_, about) in PARTS.items():
        files = option == RETRIEVAL
        kind: dict[str, Any] = {"action": "store_true"}
        if files:
            kind = {"nargs": "+", "type": Path, "metavar": "FILE"}
        more = f"({option}{' FILE' if files else ''} --help tells its own options)"
        parser.add_argument(option, help=f"{about} {more}", **kind)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the report there too")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
