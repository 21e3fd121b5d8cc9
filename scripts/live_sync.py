"""Bring the code of a checkout to the live folder, the copy that the server runs from.

install.sh copies a whole working tree (`--all`), the git hooks bring what was committed
(`--hook`). Either all of a run arrives or nothing of it. Needs the standard library alone, so
that any python3 can run it.
"""

from __future__ import annotations  # the system's python3 may be older than the server's

import argparse
import contextlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from _root import ROOT
from core.errors import MneloError
from mnelo_locale import message

ROOMS = (
    *("core", "access", "text", "index", "store", "embedding", "recall"),
    *("timeline", "upkeep", "transfer", "admin", "server"),
)
"""The folders that the server imports from."""

SUFFIXES = {
    "": (".py", ".sql", ".sh"),
    "api": (".py",),
    "scripts": (".py", ".sh"),
    **dict.fromkeys(ROOMS, (".py",)),
}
"""Which files live, by their topmost folder; folders below it count as well."""

INSTALLED_ONCE = ("requirements.txt", "config.toml.example")
"""Copied by an installation only: new requirements without their packages help nobody."""

NEVER = {"tests", "docs"}
DEFAULT_LIVE_ROOT = "~/.hermes/memory"
BACKUPS = ".sync-backups"
KEPT_BACKUPS = 5
LISTED = ".sync-files"
"""The live folder's list of what was brought there; what leaves the list is removed."""

HEALTH_SECONDS = 120
SERVER_DOWN = 2
"""What the check's status says of a server that does not run: no fault of the new code."""


class SyncFailed(MneloError):
    """Nothing was changed, or all of it was put back."""


@dataclass(frozen=True)
class Change:
    """A file that the live folder is to have; without content it is to have none there."""

    path: str
    content: bytes | None
    executable: bool = False

    def __str__(self) -> str:
        return message(
            "sync.remove" if self.content is None else "sync.copy", file=shown(self.path)
        )

    @property
    def needs_restart(self) -> bool:
        """Whether a running server goes on with what it has read of the old version."""
        top = self.path.split("/")[0] if "/" in self.path else ""
        return top in ("", *ROOMS) and self.path.endswith((".py", ".sql"))


def shown(path: str) -> str:
    """The path in one line, whatever characters it has."""
    return path if path.isprintable() else ascii(path)


# --- What lives ------------------------------------------------------------------------


def lives(path: str, *, installing: bool = False) -> bool:
    """Whether a file of the checkout has a copy at the same place in the live folder.

    >>> [lives(each) for each in ("memory.py", "api/mnelo_client.py", "scripts/more/a.sh")]
    [True, True, True]
    >>> [lives(each) for each in ("tests/test_memory.py", "README.md", "config.toml", "x/a.py")]
    [False, False, False, False]
    """
    *folders, name = path.split("/")
    if path in INSTALLED_ONCE:
        return installing
    if NEVER & set(folders) or any(part.startswith(".") for part in (*folders, name)):
        return False
    top = folders[0] if folders else ""
    return name.endswith(SUFFIXES.get(top, ())) and not name.startswith("memory.db")


def whole_checkout(checkout: Path) -> list[Change]:
    """Every file of the working tree that lives. Links are left out: they may lead anywhere."""
    found = []
    for top in SUFFIXES:
        for file in sorted((checkout / top).glob("**/*" if top else "*")):
            path = file.relative_to(checkout).as_posix()
            if lives(path, installing=True) and _is_plain(checkout, file):
                executable = bool(file.stat().st_mode & 0o100)
                found.append(Change(path, file.read_bytes(), _runs(path, executable)))
    return found


def _is_plain(checkout: Path, file: Path) -> bool:
    """Whether it is a file, and no link on its way leads out of the checkout."""
    return file.is_file() and file.resolve() == checkout.resolve() / file.relative_to(checkout)


def _runs(path: str, executable: bool) -> bool:
    return executable or path.endswith(".sh")


# --- What git says ---------------------------------------------------------------------


def git(*arguments: str) -> str:
    """What git prints, in the folder and repository of the hook; names as the disk has them."""
    return os.fsdecode(_git(*arguments))


def _git(*arguments: str) -> bytes:
    command = ["git", *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603
    except subprocess.CalledProcessError as error:
        said = os.fsdecode(error.stderr).strip().splitlines() or [str(error)]
        raise SyncFailed("sync.git", reason=said[0]) from None
    except OSError as error:
        raise SyncFailed("sync.git", reason=error.strerror) from None


def commit(name: str) -> str | None:
    """The commit that a name means, if it means one."""
    try:
        return git("rev-parse", "--verify", "--quiet", name + "^{commit}").strip()
    except SyncFailed:
        return None


def touched(olds: Iterable[str | None], new: str) -> set[str]:
    """The paths that differ between any of the old commits and the new one; None: no commit."""
    names: set[str] = set()
    for old in olds:
        names |= set(_tree(new)) if old is None else _differing(old, new)
    return names


def committed(names: Iterable[str], of: str) -> list[Change]:
    """What the live folder is to have in these places, as the commit has it."""
    tree, changes = _tree(of), []
    for path in sorted(filter(lives, names)):
        mode, blob = tree.get(path, ("", ""))
        if mode.startswith("100"):  # a file; others are links and submodules
            executable = _runs(path, mode == "100755")
            changes.append(Change(path, _git("cat-file", "blob", blob), executable))
        else:
            changes.append(Change(path, None))
    return changes


def _differing(old: str, new: str) -> set[str]:
    """The paths that two commits do not have in common; a renamed file is two of them."""
    fields = git("diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new).split("\0")
    return set(fields[1::2])


def _tree(of: str) -> dict[str, tuple[str, str]]:
    """Mode and blob of each path of a commit."""
    entries = (line.split("\t", 1) for line in git("ls-tree", "-r", "-z", of).split("\0") if line)
    return {path: (about.split()[0], about.split()[2]) for about, path in entries}


# --- The live folder -------------------------------------------------------------------


class Live:
    """The live folder; nothing is written outside it, wherever links in it lead."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def listed(self) -> set[str]:
        """What earlier runs brought here."""
        try:
            paths = json.loads((self.root / LISTED).read_text("utf-8"))
        except (OSError, ValueError):
            return set()
        if not isinstance(paths, list):
            return set()
        return {path for path in paths if isinstance(path, str) and lives(path, installing=True)}

    def bring(self, changes: Sequence[Change], label: str, *, dry_run: bool) -> list[Change]:
        """Make what is not yet so, and say each file; those files."""
        # Removals first: where case does not count, a.py that became A.py is one and the same file.
        order = sorted(changes, key=lambda change: change.content is not None)
        going = {change.path.lower() for change in order if change.content is None}
        try:
            pending = [
                change
                for change in order
                if not self._is_so(change) or (change.content and change.path.lower() in going)
            ]
            listing = self._listing(changes)
            if not dry_run and (pending or not self._is_so(listing)):
                self._apply([*pending, listing], label)
        except OSError as error:
            raise _failed(error) from None
        for change in pending:
            print(change)
        return pending

    def _is_so(self, change: Change) -> bool:
        target = self._inside(change.path)
        if change.content is None or not os.path.lexists(target):
            return change.content is None and not os.path.lexists(target)
        found = target.lstat()
        runs = bool(found.st_mode & 0o100)
        same = stat.S_ISREG(found.st_mode) and runs == change.executable
        return same and target.read_bytes() == change.content

    def _inside(self, path: str) -> Path:
        """The place of a path; refused where a link makes it lead out of the live folder."""
        target = self.root / path
        if not Path(os.path.realpath(target.parent)).is_relative_to(self.root):
            raise SyncFailed("sync.outside", file=shown(path), root=self.root)
        return target

    def _apply(self, changes: Sequence[Change], label: str) -> None:
        """Make all changes, after the earlier versions were backed up, or none."""
        backup = self._inside(f"{BACKUPS}/{_stamp()}-{label}/-").parent
        places = {self._inside(change.path): change for change in changes}
        run = _Run(backup)
        try:
            for place, change in places.items():
                run.back_up(place, change.path)
            for place, change in places.items():
                run.put(place, change)
        except BaseException as error:  # whoever interrupts it finds nothing half done either
            lost = run.roll_back()
            if isinstance(error, OSError):
                raise _failed(error, lost) from None
            raise
        self._prune()

    def _listing(self, changes: Sequence[Change]) -> Change:
        gone = {change.path for change in changes if change.content is None}
        paths = (self.listed() | {change.path for change in changes}) - gone
        return Change(LISTED, (json.dumps(sorted(paths), indent=0) + "\n").encode())

    def _prune(self) -> None:
        """Keep the newest backups; their names sort by time."""
        backups = sorted((self.root / BACKUPS).glob("*Z-*"))
        for backup in backups[:-KEPT_BACKUPS]:
            shutil.rmtree(backup, ignore_errors=True)


@dataclass(frozen=True)
class _Version:
    """What stands at a place: a file's content, or where a link leads."""

    content: bytes
    mode: int
    times: tuple[int, int] | None = None
    link: bool = False

    @classmethod
    def of(cls, place: Path) -> _Version | None:
        if not os.path.lexists(place):
            return None
        found = place.lstat()
        times = (found.st_atime_ns, found.st_mtime_ns)
        if stat.S_ISLNK(found.st_mode):
            return cls(os.fsencode(os.readlink(place)), 0, times, link=True)
        return cls(place.read_bytes(), stat.S_IMODE(found.st_mode), times)

    def write(self, place: Path) -> None:
        """Stand at the place at once and whole, or not at all."""
        temporary = place.with_name(f".sync-{os.getpid()}")
        try:
            temporary.unlink(missing_ok=True)
            self._make(temporary)
            os.replace(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)

    def _make(self, file: Path) -> None:
        if self.link:
            file.symlink_to(os.fsdecode(self.content))
        else:
            with file.open("xb") as stream:
                file.chmod(self.mode)
                stream.write(self.content)
                stream.flush()
                os.fsync(stream.fileno())
        if self.times:
            os.utime(file, ns=self.times, follow_symlinks=False)


class _Run:
    """One run: what stood where it changes something, and how to put that back."""

    def __init__(self, backup: Path) -> None:
        self._backup = backup
        self._before: dict[Path, _Version | None] = {}
        self._touched: list[Path] = []
        self._folders: list[Path] = []

    def back_up(self, place: Path, path: str) -> None:
        """Keep what stands at a place, if anything does."""
        before = self._before[place] = _Version.of(place)
        if before and path != LISTED:
            copy = self._backup / path
            self._make(copy.parent)
            replace(before, mode=0o600).write(copy)

    def put(self, place: Path, change: Change) -> None:
        self._touched.append(place)
        if change.content is None:
            place.unlink()
        else:
            self._make(place.parent)
            _Version(change.content, 0o700 if change.executable else 0o600).write(place)

    def roll_back(self) -> list[str]:
        """Put everything back; what could not be, whose backup then stays."""
        lost = []
        for place in reversed(self._touched):
            try:
                if before := self._before[place]:
                    before.write(place)
                elif os.path.lexists(place):
                    place.unlink()
            except OSError:
                lost.append(str(place))
        if not lost:
            shutil.rmtree(self._backup, ignore_errors=True)
            for folder in reversed(self._folders):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return lost

    def _make(self, folder: Path) -> None:
        """The folder, and those above it that are missing, for their owner alone."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700)
            self._folders.append(each)


def _stamp() -> str:
    now = datetime.now(timezone.utc)
    return f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z"


def _failed(error: OSError, lost: Sequence[str] = ()) -> SyncFailed:
    """What went wrong, and whether the live folder is as it was."""
    place, reason = shown(str(error.filename or "-")), error.strerror or str(error)
    if lost:
        return SyncFailed("sync.torn", file=place, reason=reason, lost=", ".join(map(shown, lost)))
    return SyncFailed("sync.failed", file=place, reason=reason)


# --- An installation -------------------------------------------------------------------


def install(live_root: Path, *, dry_run: bool) -> None:
    """Bring the whole working tree; what an earlier version had and this one has not goes."""
    live, changes = Live(live_root), whole_checkout(ROOT)
    gone = live.listed() - {change.path for change in changes}
    changes += [Change(path, None) for path in sorted(gone)]
    live.bring(changes, _label(), dry_run=dry_run)


def remove(live_root: Path, *, dry_run: bool) -> None:
    """Remove the code from the live folder, with its backups and list, and nothing else."""
    if not live_root.is_dir():
        return
    live = Live(live_root)
    paths = live.listed() | {change.path for change in whole_checkout(ROOT)}
    live.bring([Change(path, None) for path in sorted(paths)], _label(), dry_run=dry_run)
    if dry_run:
        return
    for folder in sorted({(live.root / path).parent for path in paths}, reverse=True):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty: somebody else has files there
            folder.rmdir()
    shutil.rmtree(live.root / BACKUPS, ignore_errors=True)
    (live.root / LISTED).unlink(missing_ok=True)


def _is_checkout(live_root: Path, checkout: Path) -> bool:
    """Whether the two are one folder, where nothing is to be copied; says so."""
    same = live_root.exists() and live_root.samefile(checkout)
    if same:
        print(message("sync.same", root=live_root))
    return same


def _label() -> str:
    """The short name of the checkout's commit, if it is a repository."""
    try:
        return git("-C", str(ROOT), "rev-parse", "--short", "HEAD").strip()
    except SyncFailed:
        return "install"


# --- A hook ----------------------------------------------------------------------------


def after(hook: str, arguments: Sequence[str]) -> int:
    """Bring what was just committed or merged, and see how the live server is; the exit status."""
    live_root = _live_root()
    squashed = hook == "post-merge" and list(arguments) == ["1"]  # nothing is committed yet
    if squashed or not (live_root / "mcp_server.py").is_file():
        return 0
    if _is_checkout(live_root, Path(git("rev-parse", "--show-toplevel")[:-1])):
        return 0
    if "[skip-sync]" in git("show", "-s", "--no-show-signature", "--format=%B", "HEAD").lower():
        print(message("sync.skipped"))
        return 0
    names = touched(_olds(hook), "HEAD")
    label = git("rev-parse", "--short", "HEAD").strip()
    brought = Live(live_root).bring(committed(names, "HEAD"), label, dry_run=False)
    if "requirements.txt" in names:
        print(message("sync.requirements"))
    if not brought:
        return 0
    print(message("sync.brought", root=live_root, count=len(brought)))
    if any(change.needs_restart for change in brought):
        has_systemd = shutil.which("systemctl") is not None
        command = restart_command(sys.platform, has_systemd=has_systemd)
        print(message("sync.restart", command=command))
    return _look_after(live_root)


def _live_root() -> Path:
    """The folder that the environment names, else this repository, else the default one."""
    named = os.environ.get("LIVE_ROOT")
    if not named:
        with contextlib.suppress(SyncFailed):  # git fails where nothing is set
            named = git("config", "--path", "--get", "mnelo.liveRoot")[:-1]
    return Path(os.path.abspath(os.path.expanduser(named or DEFAULT_LIVE_ROOT)))


def _olds(hook: str) -> set[str | None]:
    """The commits that the live folder may still have."""
    if hook == "post-merge":
        return {commit("ORIG_HEAD") or commit("HEAD^1")}
    # After an amend the commit before is no parent, and may have had files that are gone now.
    parent, before = commit("HEAD^1"), commit("HEAD@{1}")
    return {parent, before or parent}


def restart_command(platform: str, *, has_systemd: bool) -> str:
    """What makes the server read its code anew."""
    if platform == "darwin":
        return "launchctl kickstart -k gui/$(id -u)/ai.mnelo.mcp"
    if platform == "linux" and has_systemd:
        return "systemctl --user restart mnelo"
    return message("sync.by_hand")


def _look_after(live_root: Path) -> int:
    """Print what the live folder's own check says; 1 if it found something wrong with it."""
    program = [live_root / ".venv" / "bin" / "python", live_root / "scripts" / "health_check.py"]
    for file in program:
        if not file.exists():
            print(message("sync.unchecked", file=file))
            return 0
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    if live_root != Path(DEFAULT_LIVE_ROOT).expanduser():
        env.setdefault("MNELO_HOME", str(live_root))
    try:
        done = subprocess.run(  # noqa: S603
            program,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=HEALTH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(message("sync.check_failed", reason=error))
        return 1
    print(textwrap.indent(done.stdout, "    "), end="")
    return 0 if done.returncode in (0, SERVER_DOWN) else 1


# --- The command -----------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may be of bytes that are no text
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    parser = argparse.ArgumentParser(prog="live_sync.py", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--all", metavar="FOLDER", type=Path, help=message("sync.all"))
    what.add_argument("--remove", metavar="FOLDER", type=Path, help=message("sync.remove_help"))
    what.add_argument("--hook", choices=("post-commit", "post-merge"), help=message("sync.hook"))
    parser.add_argument("--dry-run", action="store_true", help=message("sync.dry_run"))
    parser.add_argument("arguments", nargs="*", help=message("sync.arguments"))
    given = parser.parse_args(argv)
    try:
        if given.hook:
            return after(given.hook, given.arguments)
        root = (given.all or given.remove).expanduser().absolute()
        if not _is_checkout(root, ROOT):
            (install if given.all else remove)(root, dry_run=given.dry_run)
    except SyncFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
