"""Make memory.db, or bring an older one up to date, and prepare the embedding model.

Safe to run again: it changes only what is not yet as it should be, and says what it found.
"""

import argparse
from collections.abc import Sequence

import _root
from config import Config
from core.terminal import say
from memory import Memory
from mnelo_locale import message


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="init_db.py", description=__doc__)
    _root.add_options(parser, "--db")
    parser.add_argument("--no-model", action="store_true", help=message("init.no_model_help"))
    parser.add_argument("--if-missing", action="store_true", help=message("init.if_missing_help"))
    return _root.run(_make, parser, argv)


def _make(given: argparse.Namespace) -> None:
    # Without a model the file records none, and may still get any model later.
    model = "none" if given.no_model else None
    config = Config.load(database_path=given.db, embedder_model=model)
    found = config.database_path.exists()
    if found and given.if_missing:
        return
    with Memory(config=config) as memory:
        say(message("init.found" if found else "init.made", path=memory.path))
        memory.wait_for_model(None)
        _report(memory, no_model=given.no_model)


def _report(memory: Memory, *, no_model: bool) -> None:
    stats = memory.stats()
    counts = {kind: stats[kind]["active"] for kind in ("chunks", "entities", "relations")}
    say(message("init.counts", schema=stats["schema"], **counts))
    embedder = stats["embedder"]
    if no_model:
        say(message("init.model_later"))
    elif embedder["state"] == "ready":
        say(message("init.model", model=embedder["model"], dim=embedder["dim"]))
    else:
        say(message("init.no_model", reason=embedder["reason"]))
    if stats["pending"]:
        say(message("notice.pending", count=stats["pending"]))


if __name__ == "__main__":
    raise SystemExit(main())
