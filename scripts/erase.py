"""Erase something for real: a memory, an entity, or all that is from a source, with its history.

Shows what it will remove and asks before it does. A running server goes on; where it keeps the
file too busy to be written anew, stop it and run this again: it then finishes.
"""

import argparse
import glob
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import _root
from config import Config
from core.errors import InvalidInput, NotFound
from core.terminal import as_json, complain, say
from memory import Memory
from mnelo_locale import message
from store.types import Erasing, Found
from upkeep import backup

SHOWN_CHARACTERS = 70
PATIENCE_SECONDS = 5.0  # how long it waits for others to leave the file to it


def main(argv: Sequence[str] | None = None) -> int:
    return _root.run(_run, _parser(), argv)


def _run(given: argparse.Namespace) -> int:
    what = _what(given)
    config = Config.load(database_path=given.db, embedder_model="none", warm_up_embedder=False)
    if not config.database_path.exists():  # it would be made
        raise InvalidInput("erase.no_file", path=config.database_path)
    with Memory(config=config) as memory:
        done = _erase(memory, what, given)
    if given.json:
        say(as_json(done))
    return 0 if given.dry_run or done["finished"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = _root.Parser(prog="erase.py", description=__doc__)
    parser.add_argument("--chunk", metavar="ID", help="a memory, by the id of any version")
    parser.add_argument("--entity", metavar="ID", help="an entity with its names and relations")
    parser.add_argument("--source", metavar="NAME", help="all memories that are from a source")
    parser.add_argument("--session", metavar="ID", help="of the source, only those of a session")
    also = "with the entity also the memories that mention it"
    parser.add_argument("--with-memories", action="store_true", help=also)
    _root.add_options(parser, "--db")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    _root.add_options(parser, "--json")
    return parser


def _what(given: argparse.Namespace) -> Erasing:
    if [given.chunk, given.entity, given.source].count(None) != 2:
        raise InvalidInput("erase.what")
    if given.session is not None and given.source is None:
        raise InvalidInput("erase.only_with", option="--session", with_option="--source")
    if given.with_memories and given.entity is None:
        raise InvalidInput("erase.only_with", option="--with-memories", with_option="--entity")
    return Erasing(given.chunk, given.entity, given.source, given.session, given.with_memories)


def _erase(memory: Memory, what: Erasing, given: argparse.Namespace) -> dict[str, Any]:
    """Do what was asked, or finish what an earlier run began; what was found and done."""
    tell = (lambda text: None) if given.json else say
    copies = _copies(memory)
    done: dict[str, Any] = {"found": None, "erased": None, "finished": False}
    done["copies"] = [str(path) for path in copies]
    try:
        found = memory.store.erasure.find(what)
    except NotFound:
        if given.dry_run or not memory.store.erasure.is_unfinished():
            raise
    else:
        done["found"] = asdict(found)
        tell(_preview(found))
        if given.dry_run:
            return done
        _confirm(given)
        erased = memory.erase(what)
        kinds = ("memories", "versions", "entities", "relations")
        done["erased"] = {kind: erased.get(kind, 0) for kind in kinds}
        tell(message("erase.done", **done["erased"]))
    done["finished"] = memory.store.erasure.finish(PATIENCE_SECONDS)
    tell(message("erase.finished" if done["finished"] else "erase.waits", path=memory.path))
    tell(_told_of_copies(memory, copies))
    return done


def _preview(found: Found) -> str:
    lines = [message("erase.found", **{k: v for k, v in asdict(found).items() if k != "texts"})]
    for text in found.texts:
        line = " ".join(text.split())
        shown = line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
        lines.append(f"  - {shown}")
    if found.memories > len(found.texts):
        lines.append(message("erase.more", count=found.memories - len(found.texts)))
    return "\n".join(lines)


def _confirm(given: argparse.Namespace) -> None:
    if given.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("erase.refused")
    complain(message("erase.ask"), end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInput("erase.left")


def _copies(memory: Memory) -> list[Path]:
    """Backups in their folder, and what restores have kept beside the file."""
    path = memory.path
    backups = [each.path for each in backup.all_in(memory.config.backup_folder, path.stem)]
    kept = path.parent.glob(glob.escape(path.name) + ".before-restore-*")
    return backups + sorted(kept)


def _told_of_copies(memory: Memory, copies: Sequence[Path]) -> str:
    if not copies:
        return message("erase.no_copies", folder=memory.config.backup_folder)
    return "\n".join([message("erase.copies"), *(f"  {path}" for path in copies)])


if __name__ == "__main__":
    raise SystemExit(main())
