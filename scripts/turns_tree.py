"""Conversations as a tree of files, one a round, to read and edit by hand: export the rounds that
are remembered, import what was changed. {root}/{session}/{YYYY-MM-DD}/{round}.json; names that
a file system could take amiss are percent-encoded. A file that is gone forgets nothing unless
--prune says so."""

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import _root
from core.errors import InvalidInput, MneloError
from core.terminal import complain, say
from mnelo_locale import message
from recall.turns import Turn, TurnMemory, as_object, of_object

PLAIN = re.compile("[a-z0-9_\u3400-\u4dbf\u4e00-\u9fff-]")
"""Characters that every file system keeps as they are, whatever it does about case."""
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)
MAX_NAME_BYTES = 200  # bytes of a name; a longer one is cut, and told apart by a hash
DAY = len("2026-07-01")


def main(argv: Sequence[str] | None = None) -> int:
    parser = _root.Parser(prog="turns_tree.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("export", "import"):
        command = commands.add_parser(name)
        command.add_argument("--root", required=True, type=Path, help="the folder of the tree")
        command.add_argument(
            "--db", help="the database file; else memory.db in the root, else the configured one"
        )
        command.add_argument("--dry-run", action="store_true", help="say what would be done")
        if name == "import":
            command.add_argument(
                "--prune", action="store_true", help="forget rounds that have no file any more"
            )
    given = parser.parse_args(argv)
    own = given.root / "memory.db"  # where TurnMemory(root) keeps it
    try:
        with TurnMemory(db=given.db or (own if own.exists() else None)) as memory:
            tree = Tree(given.root, memory, dry_run=given.dry_run)
            if given.command == "export":
                tree.write()
            else:
                tree.read(prune=given.prune)
    except (MneloError, OSError) as error:
        complain(error)
        return 1
    say(message("tree.dry_run" if given.dry_run else "tree.done", **tree.done))
    return 1 if tree.refused else 0


# --- Names -----------------------------------------------------------------------------


def encoded(name: str) -> str:
    """A name as that of a file or folder, the same on every file system; no two are alike.

    >>> encoded("chat-42"), encoded("../x"), encoded("CON"), encoded("con"), encoded("周会.")
    ('chat-42', '%2e%2e%2fx', '%43%4f%4e', '%63on', '周会%2e')
    """
    parts = [char if PLAIN.match(char) else _percent(char) for char in name]
    if RESERVED.fullmatch(name):
        parts[0] = _percent(name[0])
    safe = "".join(parts)
    if len(safe.encode()) <= MAX_NAME_BYTES:
        return safe
    digest = blake2b(name.encode(), digest_size=16).hexdigest()
    return safe.encode()[: MAX_NAME_BYTES // 2].decode(errors="ignore") + "~" + digest


def _percent(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode())


# --- The tree --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    text: str
    turn: Turn


class Tree:
    """The files of the rounds of one memory. What is refused is said on standard error."""

    def __init__(self, root: Path, memory: TurnMemory, *, dry_run: bool = False) -> None:
        self._root, self._memory, self._dry_run = root.absolute(), memory, dry_run
        self.done = {"written": 0, "removed": 0, "remembered": 0, "forgotten": 0}
        self.refused = 0

    def path(self, turn: Turn) -> Path:
        """Where a round's file lies."""
        day = turn.timestamp[:DAY]
        return self._root / encoded(turn.session_id) / day / f"{encoded(turn.round_id)}.json"

    def write(self) -> None:
        """Bring every file in step with the memory, but for those that were changed by hand."""
        if not self._dry_run:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = {each.path: each for each in self._files()}
        new = {self.path(turn): _text(turn) for turn in self._live()}
        old = {path: file.text for path, file in there.items()}
        for path in sorted(path for path in new.keys() | old if new.get(path) != old.get(path)):
            if path in there and not self._is_known(there[path].turn):
                self._refuse("tree.edited", path)
            elif not self._is_plain(path):
                self._refuse("tree.link", path)
            elif path in new:
                self._put(path, new[path])
            else:
                self._remove(path)

    def read(self, *, prune: bool) -> None:
        """Take in what differs; InvalidInput where --prune would forget all for want of files."""
        live = {(turn.session_id, turn.round_id): turn for turn in self._live()}
        files = sorted(self._files(), key=lambda each: _order(each.turn))
        if prune and not files:
            raise InvalidInput("tree.empty", root=self._root)
        for each in files:
            turn = each.turn
            known = live.get((turn.session_id, turn.round_id))
            if known is None or as_object(known) != as_object(turn):
                self._take(each, known)
        kept = {(each.turn.session_id, each.turn.round_id) for each in files}
        gone = sorted(live.keys() - kept)
        if prune and self.refused:
            self._refuse("tree.not_pruned", self._root)  # a file that cannot be read is not gone
        elif prune and gone:
            self.done["forgotten"] = len(gone) if self._dry_run else self._memory.forget(gone)

    def _take(self, file: _File, known: Turn | None) -> None:
        try:
            checked = self._memory.checked(file.turn)
            if known and _says(checked, known):
                return  # a time that is spelled otherwise, or a secret that was taken out
            if not self._dry_run:
                self._memory.remember(**as_object(file.turn))
        except InvalidInput as error:
            self._refuse("tree.wrong", file.path, error=error)
        else:
            self._count("remembered")

    # -- inside --

    def _live(self) -> Iterator[Turn]:
        for session in self._memory.sessions():
            yield from self._memory.turns(session)

    def _is_known(self, turn: Turn) -> bool:
        """Whether a file says what some version of its round said, so that nothing is lost."""
        versions = self._memory.versions(turn.session_id, turn.round_id)
        if as_object(turn) in map(as_object, versions):
            return True
        try:
            checked = self._memory.checked(turn)
        except InvalidInput:
            return False
        return any(_says(checked, version) for version in versions)

    def _files(self) -> Iterator[_File]:
        """Every round's file, read; nothing that a symbolic link leads to."""
        for session in _entries(self._root):
            for day in _entries(session):
                for path in _entries(day):
                    if path.suffix == ".json" and (file := self._read(path)):
                        yield file

    def _read(self, path: Path) -> _File | None:
        if not self._is_plain(path):
            self._refuse("tree.link", path)
            return None
        try:
            text = path.read_text("utf-8-sig")  # some editors put a mark before it
            turn = of_object(_object(text))
        except (OSError, ValueError, InvalidInput, RecursionError) as error:
            self._refuse("tree.wrong", path, error=error)
            return None
        place = path.relative_to(self._root).parts
        if (place[0], path.stem) != (encoded(turn.session_id), encoded(turn.round_id)):
            self._refuse("tree.misplaced", path)
            return None
        return _File(path, text, turn)

    def _is_plain(self, path: Path) -> bool:
        """Whether no part of a path below the root is a symbolic link, or no file or folder."""
        for part in (path, *path.parents):
            if part == self._root:
                return True
            try:
                mode = part.lstat().st_mode
            except FileNotFoundError:
                continue
            if not (stat.S_ISREG(mode) if part == path else stat.S_ISDIR(mode)):
                return False
        return False

    def _put(self, path: Path, text: str) -> None:
        self._count("written")
        if self._dry_run:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode())
        part.replace(path)

    def _remove(self, path: Path) -> None:
        self._count("removed")
        if not self._dry_run:
            path.unlink()

    def _count(self, what: str) -> None:
        self.done[what] += 1

    def _refuse(self, reason: str, path: Path, **values: object) -> None:
        self.refused += 1
        complain(message(reason, path=path, **values))


def _says(checked: Turn, stored: Turn) -> bool:
    """Whether a round says what is stored; one without a time takes any."""
    when = checked.timestamp or stored.timestamp
    return as_object(replace(checked, timestamp=when)) == as_object(stored)


def _order(turn: Turn) -> tuple[str, int, str]:
    """As the rounds were: of one time by their numbers."""
    number = int(turn.round_id) if turn.round_id.isdecimal() else 0
    return turn.timestamp, number, turn.round_id


def _text(turn: Turn) -> str:
    return json.dumps(as_object(turn), ensure_ascii=False, indent=2) + "\n"


def _object(text: str) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise InvalidInput("tree.no_object")
    return data


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder, in order; nothing where it is none, or a symbolic link below it."""
    try:
        return sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError:
        return []


if __name__ == "__main__":
    raise SystemExit(main())
