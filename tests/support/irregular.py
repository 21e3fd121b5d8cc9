"""What can stand in the place of a file of ours without being one."""

import os
from collections.abc import Callable
from pathlib import Path

PRECIOUS = "what somebody else wrote"


def link(path: Path) -> None:
    """To a file of somebody else's."""
    victim = path.with_name("precious")
    victim.write_text(PRECIOUS)
    path.symlink_to(victim)


def dead_link(path: Path) -> None:
    """To a file that would be made."""
    path.symlink_to(path.with_name("nowhere"))


def pipe(path: Path) -> None:
    """Nobody reads from it or writes to it: to open it is to wait for ever."""
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text(PRECIOUS)


IRREGULAR: list[Callable[[Path], None]] = [link, dead_link, pipe, folder]


def state(path: Path) -> list[tuple[str, int, str]]:
    """All that lies in the folder of a file and below: names, kinds, links, and texts."""
    found = []
    for each in sorted(path.parent.rglob("*")):
        said = os.readlink(each) if each.is_symlink() else ""
        text = each.read_text() if each.is_file() and each.name in ("precious", "inside") else ""
        found.append((str(each), os.lstat(each).st_mode, said + text))
    return found
