"""Give every memory vectors of another embedding model, while a server may be running.

The old vectors answer until the new ones take their place in one step. A run that was ended at
any moment is gone on with by the next one.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

import _root  # noqa: F401 - makes the modules one folder up importable
import embedder
from admin import reembedding
from admin.reembedding import Plan
from config import Config
from core.errors import MneloError
from mnelo_locale import message

INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="reembed.py", description=__doc__)
    told = "the model to change to, instead of the configured one"
    parser.add_argument("--model", metavar="NAME", help=told)
    parser.add_argument("--db", help="the database file, instead of the configured one")
    told = "say what would be done and what it takes, change nothing"
    parser.add_argument("--dry-run", action="store_true", help=told)
    parser.add_argument("--json", action="store_true", help="say it as one JSON object")
    arguments = parser.parse_args(argv)
    try:
        done = _reembed(arguments)
    except MneloError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(message("reembed.stopped"), file=sys.stderr)
        return INTERRUPTED
    if arguments.json:
        print(json.dumps(done, ensure_ascii=False))
    return 0


def _reembed(arguments: argparse.Namespace) -> dict[str, Any]:
    config = settings = Config.load(database_path=arguments.db)
    if arguments.model is not None:  # what the settings say of another model's size is not meant
        named = {"embedder_model": arguments.model, "embedder_dim": 0}
        config = Config.load(database_path=arguments.db, **named)
    say = (lambda line: None) if arguments.json else print
    model = reembedding.choose(config, named=arguments.model is not None)
    plan = reembedding.plan(config, model)
    say(_told(plan, config))
    told = _values(plan)
    reembedding.refuse_full(config, plan)
    if arguments.dry_run:
        say(message("reembed.dry_run"))
        return {**told, "state": "done already" if plan.done else "to be done"}
    with tqdm(total=plan.left, disable=plan.done or not plan.left) as bar:
        waiting = reembedding.run(config, plan, bar.update)
    if not plan.done:
        say(message("reembed.done", count=plan.texts, model=model.name, dim=model.dim))
    if waiting:
        say(message("notice.pending", count=waiting))
    if not embedder.suits(settings, model):
        say(message("reembed.set", model=model.name, dim=model.dim))
    return {**told, "state": "done already" if plan.done else "done", "pending": waiting}


def _told(plan: Plan, config: Config) -> str:
    new = {"model": plan.model.name, "dim": plan.model.dim}
    if plan.done:
        return message("reembed.already", path=config.database_path, **new)
    old = f"{plan.old.name} ({plan.old.dim})" if plan.old else "-"
    return message(
        "reembed.begun" if plan.begun else "reembed.plan",
        old=old,
        texts=plan.texts,
        left=plan.left,
        minutes=plan.seconds / 60,
        needed=plan.needed / (1 << 20),
        free=plan.free / (1 << 20),
        **new,
    )


def _values(plan: Plan) -> dict[str, Any]:
    old = {"model": plan.old.name, "dim": plan.old.dim} if plan.old else None
    return {
        "from": old,
        "to": {"model": plan.model.name, "dim": plan.model.dim},
        "texts": plan.texts,
        "left": 0 if plan.done else plan.left,
        "seconds": 0.0 if plan.done else round(plan.seconds, 3),
        "bytes_needed": 0 if plan.done else plan.needed,
        "bytes_free": plan.free,
    }


if __name__ == "__main__":
    raise SystemExit(main())
