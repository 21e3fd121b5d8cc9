"""The daily check: nine questions to the server, the file and the disk, with a line for each.

Nothing is made, migrated, checkpointed, started or loaded, and nobody waits for it: the server is
asked over HTTP with a time limit, and the file is only read, without a write lock (FTS5's own check
runs as a `PRAGMA`). It looks for three seconds; of a large file it then says what it got to. Each
promise is looked at as of its own moment, so that the log can be brought in meanwhile. What each
line says is in `values` as well.
"""

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from access.auth import load_token
from access.running import Server, find_server
from config import ALL_LANES, Config
from core import files, terminal, timestamps
from core.errors import MneloError, StoreError
from mnelo_locale import message
from recall.log import latency
from store import Inspection
from store.opening import inspect
from upkeep import backup

Status = Literal["ok", "notice", "degraded", "fault", "down"]

MARKS: Mapping[Status, str] = {
    "ok": "✅",
    "notice": "⚠️",
    "degraded": "⚠️",
    "fault": "🔴",
    "down": "🔴",
}
EXIT: Mapping[Status, int] = {"ok": 0, "notice": 0, "degraded": 1, "fault": 1, "down": 2}
VERDICTS = ("ok", "degraded", "down")  # what an exit status means

STATS_SECONDS = 3.0  # for memory_stats
CHECK_SECONDS = 3.0  # for the file's own promises; a large file is then checked in part
BUSY_SECONDS = 0.5

LARGE_LOG = 64 << 20  # bytes of the write-ahead log: something keeps it from being brought in
MIN_FREE = 500 << 20  # bytes of the disk
MAX_WAIT = timedelta(hours=1)  # of a memory for its vectors
MIN_RECALLS, MIN_ENTITIES = 20, 20  # fewer tell nothing about shares
MAX_EMPTY, MAX_OF_A_KIND = 0.5, 0.7
TOP_KINDS = 3
REPORTS = 60  # kept of each kind


# --- The server ------------------------------------------------------------------------


class Unanswered(MneloError):
    """The server is there, but does not tell its statistics; the sentence says why."""


def ask_stats(config: Config, server: Server) -> dict[str, Any]:
    """memory_stats of a running server. Raises Unanswered, or AuthError for a bad token file."""
    # Imported here: it takes half a second, of use only where a server runs.
    import mnelo_client

    token = load_token(config, None, os.environ)
    try:
        with mnelo_client.MneloClient(f"{server.url}/mcp", token, STATS_SECONDS) as client:
            return client.stats()
    except mnelo_client.MneloError as error:
        raise Unanswered("check.unanswered", reason=error) from None


# --- The nine checks -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """One answer: its line without the mark, what to do if something is, and its numbers."""

    name: str
    status: Status
    text: str
    hint: str
    values: Mapping[str, Any]

    @property
    def line(self) -> str:
        """One line, whatever was put into it."""
        line = f"{MARKS[self.status]} {self.text}" + (f" → {self.hint}" if self.hint else "")
        return " ".join(line.split())

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "status": self.status, **self.values}


class Installation:
    """What is checked: the settings, the server, and the file, which is opened once."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.path = config.database_path
        self.server = find_server(config)
        self.now = datetime.now(timezone.utc)

    @cached_property
    def store(self) -> Inspection:
        """The file to read. Raises StoreError where it is not there or cannot be read."""
        return open_file(self.path)

    def close(self) -> None:
        if "store" in self.__dict__:
            self.store.close()


def open_file(path: Path) -> Inspection:
    """The file to read, if there is one. Raises StoreError."""
    try:
        if path.stat().st_size == 0:
            raise StoreError("check.empty", path=path)
    except OSError as error:
        raise StoreError("check.no_file", path=path, reason=error.strerror) from None
    return inspect(path, busy_seconds=BUSY_SECONDS)


def _server(asked: Installation) -> Check:
    server, said = asked.server, asked.server.said
    about = {name: said.get(name) for name in ("pid", "uptime_s", "version", "database")}
    values = {"state": server.state, "url": server.url, **about}
    text = message(
        f"check.server_{server.state}",
        url=server.url,
        pid=said.get("pid"),
        uptime=span(said.get("uptime_s")),
        version=said.get("version"),
        database=said.get("database"),
    )
    status: Status = "ok" if server.state == "ours" else "down"
    if server.state in ("other_file", "locked"):
        status = "degraded"
    start = _start_command()
    hint = "" if status == "ok" else message(f"check.hint_{server.state}", command=start)
    return Check("server", status, text, hint, values)


def _start_command() -> str:
    """What starts the server here: its service, where scripts/install.sh has made one."""
    file = service_file()
    if not file.exists():
        return "python3 mcp_server.py"
    if file.suffix == ".plist":
        return f"launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/{file.name}"
    return "systemctl --user start mnelo"


def service_file() -> Path:
    """Where the installation leaves the file that keeps the server running."""
    if sys.platform == "darwin":
        return Path("~/Library/LaunchAgents/ai.mnelo.mcp.plist").expanduser()
    settings = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(settings, "systemd", "user", "mnelo.service").expanduser()


def _wal(asked: Installation) -> Check:
    size = asked.store.file.sizes()["wal_bytes"]
    text = message("check.wal_open" if size else "check.wal_whole", size=readable(size))
    large = size > LARGE_LOG
    hint = message("check.hint_wal") if large else ""
    values = {"wal_bytes": size, "file_is_whole": size == 0}
    return Check("wal", "degraded" if large else "ok", text, hint, values)


def _counts(asked: Installation) -> Check:
    with asked.store.view() as view:
        counts = view.counts()
        vectors, pending = view.vector_count(), view.pending_count()
        by_cues = (
            "cue" in asked.config.recall_lanes and asked.store.version == asked.store.schema_version
        )
        uncued = {"without_cues": view.cues.waiting_count()} if by_cues else {}
    since = asked.store.waiting_since() if asked.config.embedder_model != "none" else None
    age = age_of(since, asked.now)
    late = age is not None and age > MAX_WAIT.total_seconds()
    shown = {name: f"{each['active']}/{each['total']}" for name, each in counts.items()}
    text = message("check.counts", **shown, vectors=vectors, pending=pending)
    text += message("check.cues", count=uncued["without_cues"]) if uncued else ""
    hint = message("check.hint_pending", age=span(age)) if late else ""
    values = {**counts, "vectors": vectors, "pending": pending, "pending_age_s": age, **uncued}
    return Check("counts", "degraded" if late else "ok", text, hint, values)


def _sizes(asked: Installation) -> Check:
    sizes, free = asked.store.file.sizes(), shutil.disk_usage(asked.path.parent).free
    text = message(
        "check.sizes",
        file=readable(sizes["db_bytes"]),
        log=readable(sizes["wal_bytes"]),
        free=readable(free),
    )
    tight = is_tight(free, sizes["db_bytes"])
    hint = message("check.hint_space") if tight else ""
    return Check("sizes", "degraded" if tight else "ok", text, hint, {**sizes, "free_bytes": free})


def is_tight(free: int, size: int) -> bool:
    """Whether the disk has too little left for the file: a copy of it must fit, and the log."""
    return free < max(MIN_FREE, 2 * size)


def _recall_24h(asked: Installation) -> Check:
    with asked.store.view() as view:
        recalls = latency(view.latencies(timestamps.stamp(asked.now - timedelta(days=1))))
    share = recalls["empty"] / recalls["count"] if recalls["count"] else 0.0
    text = message("check.recall_24h", percent=100 * share, **recalls)
    poor = recalls["count"] >= MIN_RECALLS and share > MAX_EMPTY
    hint = message("check.hint_empty") if poor else ""
    values = {**recalls, "empty_share": round(share, 4)}
    return Check("recall_24h", "degraded" if poor else "ok", text, hint, values)


def _kinds(asked: Installation) -> Check:
    kinds = asked.store.kinds()
    total = sum(count for _, count in kinds)
    shares = {kind: count / total for kind, count in kinds[:TOP_KINDS]}
    if not total:
        return Check("kinds", "ok", message("check.no_kinds"), "", {"total": 0, "top": {}})
    top = ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items())
    uneven = total >= MIN_ENTITIES and max(shares.values()) > MAX_OF_A_KIND
    text = message("check.kinds", top=top, total=total)
    hint = message("check.hint_kinds") if uneven else ""
    values = {"total": total, "top": {kind: round(share, 4) for kind, share in shares.items()}}
    # Worth a look, but nothing is broken.
    return Check("kinds", "notice" if uneven else "ok", text, hint, values)


def _model(asked: Installation) -> Check:
    if asked.server.state != "ours":
        return _model_of_file(asked)
    try:
        stats = ask_stats(asked.config, asked.server)
    except MneloError as error:
        text, hint = message("check.model_unknown"), str(error)
        return Check("model", "degraded", text, hint, {"state": "unknown", "reason": str(error)})
    model, wanted = stats["embedder"], asked.config.embedder_model != "none"
    on = [lane for lane in ALL_LANES if stats["lanes"].get(lane) == "on"]
    state = model["state"]
    text = message(
        "check.model",
        model=model.get("model", "-"),
        dim=model.get("dim", "-"),
        state=message(f"check.model_{state}"),
        lanes=", ".join(on) or "-",
    )
    off = state == "off" and wanted
    hints = [model.get("reason", "")] if off else []
    if (cue := stats["lanes"].get("cue", "on")) != "on":  # it is there only where it is wanted
        hints.append(message("check.cue_lane", state=cue))
    status: Status = "degraded" if hints else "ok"
    return Check("model", status, text, " ".join(hints), {**model, "lanes": on})


def _model_of_file(asked: Installation) -> Check:
    with asked.store.view() as view:
        model = view.model()
    values: dict[str, Any] = {"state": "unknown"}
    if model is None:
        return Check("model", "ok", message("check.no_model"), "", values)
    text = message("check.model_of_file", model=model.name, dim=model.dim)
    return Check("model", "ok", text, "", {**values, "model": model.name, "dim": model.dim})


def _backup(asked: Installation) -> Check:
    folder, hours = asked.config.backup_folder, asked.config.backup_every_hours
    last = backup.latest(folder, asked.path.stem)
    values: dict[str, Any] = {"folder": str(folder), "every_hours": hours}
    if last is None:
        text = message("check.backup_none" if hours else "check.backup_off", folder=folder)
        age = age_of(asked.store.first_written(), asked.now) or 0
        late = hours > 0 and age > 3600 * hours
        hint = message("check.hint_no_backup") if late else ""
        return Check("backup", "degraded" if late else "ok", text, hint, {**values, "last": None})
    age = max(0.0, (asked.now - last.taken).total_seconds())
    late = hours > 0 and age > 2 * 3600 * hours  # one may be missed: machines sleep
    text = message("check.backup", name=last.path.name, age=span(age), size=readable(last.bytes))
    values |= {"last": str(last.path), "taken": timestamps.stamp(last.taken), "age_s": round(age)}
    hint = message("check.hint_backup", hours=hours) if late else ""
    return Check("backup", "degraded" if late else "ok", text, hint, values)


def _integrity(asked: Installation) -> Check:
    file, began = asked.store, time.monotonic()
    if file.version < file.schema_version:
        text = message("check.older", version=file.version, known=file.schema_version)
        return Check("integrity", "notice", text, "", {"schema": file.version})
    faults, complete = file.upkeep.check(CHECK_SECONDS, whole=False)
    found = {name: count for name, count in faults.items() if count}
    seconds = time.monotonic() - began
    values = {"faults": found, "complete": complete, "checked": len(faults)}
    if found:
        shown = ", ".join(f"{name} {count}" for name, count in found.items())
        text, hint = message("check.broken", faults=shown), message("check.hint_broken")
        return Check("integrity", "fault", text, hint, values)
    said = "check.sound" if complete else "check.sound_so_far"
    return Check("integrity", "ok", message(said, count=len(faults), seconds=seconds), "", values)


CHECKS: Mapping[str, Callable[[Installation], Check]] = {
    "server": _server,
    "wal": _wal,
    "counts": _counts,
    "sizes": _sizes,
    "recall_24h": _recall_24h,
    "kinds": _kinds,
    "model": _model,
    "backup": _backup,
    "integrity": _integrity,
}
"""The nine, in the order of their lines."""


# --- The report ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """All nine, and what they come to."""

    checks: Sequence[Check]

    @property
    def exit_status(self) -> int:
        return max(EXIT[check.status] for check in self.checks)

    @property
    def lines(self) -> list[str]:
        return [check.line for check in self.checks]

    def as_json(self) -> dict[str, Any]:
        return {
            "status": VERDICTS[self.exit_status],
            "exit_status": self.exit_status,
            "checks": [check.as_json() for check in self.checks],
            "lines": self.lines,
        }


def look(config: Config) -> Report:
    """Ask all nine questions; a file that cannot be read is said in the lines that need it."""
    with closing(Installation(config)) as asked:
        return Report(list(_answers(asked)))


def _answers(asked: Installation) -> Iterator[Check]:
    for name, check in CHECKS.items():
        try:
            yield check(asked)
        except (MneloError, OSError) as error:
            reason = str(error) if name == "integrity" else message("check.see_last")
            text = message(f"check.unknown_{name}", reason=reason)
            yield Check(name, "down", text, "", {"reason": str(error)})


def write_report(report: Report, home: Path) -> None:
    """Write the report below the home folder, for its owner's eyes; of each kind 60 are kept.

    Raises OSError where that cannot be.
    """
    folder = home / "cron" / "output"
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)
    stem = time.strftime("mnelo_daily_check_%Y%m%d_%H%M%S")
    plain = terminal.shown("\n".join(report.lines))
    texts = {"txt": plain, "json": json.dumps(report.as_json(), indent=2)}
    for suffix, text in texts.items():
        with files.replacing(folder / f"{stem}.{suffix}") as out:
            out.write(text + "\n")
        reports = sorted(folder.glob(f"mnelo_daily_check_*.{suffix}"))
        for old in [each for each in reports if files.is_regular(each)][:-REPORTS]:
            old.unlink()


# --- Numbers for people ----------------------------------------------------------------


def readable(size: int) -> str:
    """A number of bytes.

    >>> readable(0), readable(1536), readable(5 << 30)
    ('0 B', '1.5 KB', '5.0 GB')
    """
    if size < 1024:
        return f"{size} B"
    power = min(int(math.log(size, 1024)), 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}B"


def span(seconds: float | None) -> str:
    """A stretch of time, in its two largest units.

    >>> span(59), span(3700), span(200_000)
    ('59 s', '1 h 1 min', '2 d 7 h')
    """
    whole = int(seconds or 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return message("check.days", days=days, hours=hours % 24)
    if hours:
        return message("check.hours", hours=hours, minutes=minutes % 60)
    if minutes:
        return message("check.minutes", minutes=minutes)
    return message("check.seconds", seconds=whole)


def age_of(moment: str | None, now: datetime) -> float | None:
    """Seconds since a stored time."""
    if moment is None:
        return None
    then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return round((now - then).total_seconds(), 1)
