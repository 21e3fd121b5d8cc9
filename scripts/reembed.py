"""Give every memory vectors of another embedding model, while a server may be running.

The old vectors answer until the new ones take their place in one step. A run that was ended at
any moment is gone on with by the next one.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

import _root
import embedder
from admin import reembedding
from admin.reembedding import Plan
from config import Config
from core.terminal import as_json, complain, say
from mnelo_locale import message

INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="reembed.py", description=__doc__)
    about = "the model to change to, instead of the configured one"
    parser.add_argument("--model", metavar="NAME", help=about)
    _root.add_options(parser, "--db")
    about = "say what would be done and what it takes, change nothing"
    parser.add_argument("--dry-run", action="store_true", help=about)
    parser.add_argument("--json", action="store_true", help="say it as one JSON object")
    try:
        return _root.run(_run, parser, argv)
    except KeyboardInterrupt:
        complain(message("reembed.stopped"))
        return INTERRUPTED


def _run(given: argparse.Namespace) -> None:
    done = _reembed(given)
    if given.json:
        say(as_json(done))


def _reembed(given: argparse.Namespace) -> dict[str, Any]:
    config = settings = Config.load(database_path=given.db)
    if given.model is not None:  # what the settings say of another model's size is not meant
        named = {"embedder_model": given.model, "embedder_dim": 0}
        config = Config.load(database_path=given.db, **named)
    tell = (lambda line: None) if given.json else say
    model = reembedding.choose(config, named=given.model is not None)
    plan = reembedding.plan(config, model)
    tell(_sentence(plan, config))
    values = _values(plan)
    reembedding.refuse_full(config, plan)
    if given.dry_run:
        tell(message("reembed.dry_run"))
        return {**values, "state": "done already" if plan.done else "to be done"}
    with tqdm(total=plan.left, disable=plan.done or not plan.left) as bar:
        waiting = reembedding.run(config, plan, bar.update)
    if not plan.done:
        tell(message("reembed.done", count=plan.texts, model=model.name, dim=model.dim))
    if waiting:
        tell(message("notice.pending", count=waiting))
    if not embedder.suits(settings, model):
        tell(message("reembed.set", model=model.name, dim=model.dim))
    return {**values, "state": "done already" if plan.done else "done", "pending": waiting}


def _sentence(plan: Plan, config: Config) -> str:
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
