"""Find entities that may be one and the same, merge two of them, or take a merge back.

Without options it lists the candidates, surest first, and changes nothing.
"""

import argparse
from collections.abc import Sequence

import _root
from config import Config
from core.terminal import say
from memory import Memory
from mnelo_locale import message


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="resolve_entities.py", description=__doc__)
    parser.add_argument("--kind", default="", help="only entities of this kind")
    parser.add_argument("--merge", nargs=2, metavar=("KEEP", "DUPLICATE"), help="make two one")
    parser.add_argument("--undo", type=int, metavar="RECORD", help="take a merge back")
    _root.add_options(parser, "--db")
    return _root.run(_run, parser, argv)


def _run(given: argparse.Namespace) -> None:
    config = Config.load(database_path=given.db, warm_up_embedder=False)
    with Memory(config=config) as memory:
        if given.undo is not None:
            say(message("resolve.undone", count=memory.undo_merge(given.undo)))
        elif given.merge:
            _merge(memory, *given.merge)
        else:
            _list(memory, given.kind)


def _merge(memory: Memory, keep: str, duplicate: str) -> None:
    done = memory.merge_entities(keep, duplicate)
    if done["merged"]:
        say(message("resolve.merged", keep=keep, duplicate=duplicate, **done))
    else:
        say(message("resolve.nothing"))


def _list(memory: Memory, kind: str) -> None:
    found = memory.find_duplicates(kind)
    for each in found["candidates"]:
        say(message("resolve.candidate", **each))
    say(message("resolve.found", count=len(found["candidates"])))
    if found["partial"]:
        say(message("resolve.partial"))


if __name__ == "__main__":
    raise SystemExit(main())
