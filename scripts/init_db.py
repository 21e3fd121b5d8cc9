"""Make memory.db, or bring an older one up to date, and prepare the embedding model.

Safe to run again: it changes only what is not yet as it should be, and says what it found.
"""

import argparse
import sys
from collections.abc import Sequence

import _root  # noqa: F401 - makes the modules one folder up importable
from config import Config
from core.errors import MneloError
from memory import Memory
from mnelo_locale import message


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="init_db.py", description=__doc__)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    parser.add_argument("--no-model", action="store_true", help=message("init.no_model_help"))
    parser.add_argument("--if-missing", action="store_true", help=message("init.if_missing_help"))
    arguments = parser.parse_args(argv)
    try:
        # Without a model none is written down in the file either, so its first one is still open.
        model = "none" if arguments.no_model else None
        config = Config.load(database_path=arguments.db, embedder_model=model)
        found = config.database_path.exists()
        if found and arguments.if_missing:
            return 0
        with Memory(config=config) as memory:
            print(message("init.found" if found else "init.made", path=memory.path))
            memory.wait_for_model(None)
            _report(memory, no_model=arguments.no_model)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _report(memory: Memory, *, no_model: bool) -> None:
    stats = memory.stats()
    print(
        message(
            "init.counts",
            schema=stats["schema"],
            chunks=stats["chunks"]["active"],
            entities=stats["entities"]["active"],
            relations=stats["relations"]["active"],
        )
    )
    embedder = stats["embedder"]
    if no_model:
        print(message("init.model_later"))
    elif embedder["state"] == "ready":
        print(message("init.model", model=embedder["model"], dim=embedder["dim"]))
    else:
        print(message("init.no_model", reason=embedder["reason"]))
    if stats["pending"]:
        print(message("notice.pending", count=stats["pending"]))


if __name__ == "__main__":
    raise SystemExit(main())
