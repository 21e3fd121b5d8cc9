"""Put vectors back in step with the memories: give vectors to those that have none, and remove
what belongs to none. Needed after a file was edited by hand or written without a model."""

import argparse
from collections.abc import Sequence

from tqdm import tqdm

import _root
from config import Config
from core.terminal import say
from memory import Memory
from mnelo_locale import message


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="repair_vectors.py", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="say what is wrong, change nothing")
    _root.add_options(parser, "--db")
    return _root.run(_repair, parser, argv)


def _repair(given: argparse.Namespace) -> None:
    # The model is loaded only when it is needed, so that a dry run gives no memory its vectors.
    config = Config.load(database_path=given.db, warm_up_embedder=False)
    with Memory(config=config) as memory:
        for fault, count in memory.store.upkeep.repair_vectors(dry_run=given.dry_run).items():
            if count:
                say(message(f"repair.{fault}", count=count))
        waiting = memory.stats()["pending"]
        if given.dry_run:
            say(message("repair.dry_run", count=waiting))
            return
        with tqdm(total=waiting, disable=not waiting) as bar:
            filled = memory.fill_pending(lambda count: bar.update(count - bar.n)) if waiting else 0
    say(message("repair.done", count=filled))


if __name__ == "__main__":
    raise SystemExit(main())
