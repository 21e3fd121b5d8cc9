"""Write the files by which launchd or systemd keeps the server running and checks it daily.

Only files whose text changes are written, and each of them is said, so that whoever calls this
knows whether the service has to be loaded anew. Needs the standard library alone.
"""

import argparse
import os
import plistlib
import re
import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _root
from core.errors import MneloError
from mnelo_locale import message

LABEL = "ai.mnelo.mcp"
HEALTH_LABEL = "ai.mnelo.health"
DEFAULT_HOME = "~/.hermes/memory"

CARRIED = {
    *("HF_HOME", "HUGGINGFACE_HUB_CACHE", "FASTEMBED_CACHE_PATH"),
    *("HF_ENDPOINT", "HF_HUB_OFFLINE"),
}
"""What the shell says of models; a service does not see the shell's environment."""

FOLDERS = {"HF_HOME", "HUGGINGFACE_HUB_CACHE", "FASTEMBED_CACHE_PATH", "MNELO_MEMORY_CONFIG"}
"""Variables whose relative paths mean the folder of the shell, which the service is not in."""


@dataclass(frozen=True, slots=True)
class Service:
    """What runs, where its data is, and what its environment says."""

    live_root: Path
    home: Path
    env: Mapping[str, str]

    @property
    def server(self) -> list[str]:
        return [*self._python("mcp_server.py"), "--transport", "sse"]

    @property
    def health(self) -> list[str]:
        return self._python("scripts/health_check.py")

    def _python(self, script: str) -> list[str]:
        return [str(self.live_root / ".venv" / "bin" / "python"), str(self.live_root / script)]


def carried(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables that the service is to have; never a token, which has a file of its own.

    MNELO_MEMORY_DIR is the older name of MNELO_HOME, which `home` stands for.
    """
    found = {
        name: value
        for name, value in sorted(env.items())
        if value and (name in CARRIED or name.startswith(("MNELO_MEMORY_", "VELLUM_")))
        if not name.endswith("_TOKEN") and name != "MNELO_MEMORY_DIR"
    }
    for name in FOLDERS & set(found):
        found[name] = os.path.abspath(os.path.expanduser(found[name]))
    if home != Path(DEFAULT_HOME).expanduser():
        found["MNELO_HOME"] = str(home)
    if "MNELO_MEMORY_LANG" not in found and (lang := env.get("LC_ALL") or env.get("LANG")):
        found["LANG"] = lang
    return found


def refuse_control_characters(service: Service) -> None:
    """Raise MneloError for a path or value that no line of a service file can hold."""
    texts = {"LIVE_ROOT": str(service.live_root), "MNELO_HOME": str(service.home), **service.env}
    for name, text in texts.items():
        if any(unicodedata.category(char) in ("Cc", "Cs") for char in text):
            raise MneloError("service.control", name=name)


# --- launchd ---------------------------------------------------------------------------


def launchd(service: Service) -> dict[str, bytes]:
    """The two agents of launchd, by their file names."""
    logs = service.home / "logs"
    server = _agent(service, LABEL, service.server, logs / "mcp.log")
    server |= {"RunAtLoad": True, "KeepAlive": True, "ThrottleInterval": 10}
    health = _agent(service, HEALTH_LABEL, service.health, logs / "health.log")
    health |= {"StartCalendarInterval": {"Hour": 9, "Minute": 0}}
    return {f"{each['Label']}.plist": plistlib.dumps(each) for each in (server, health)}


def _agent(service: Service, label: str, command: list[str], log: Path) -> dict[str, Any]:
    return {
        "Label": label,
        "ProgramArguments": command,
        "WorkingDirectory": str(service.home),
        "EnvironmentVariables": dict(service.env),
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
        "Umask": 0o077,
    }


# --- systemd ---------------------------------------------------------------------------

# A degraded report leaves the health unit failed on purpose: `systemctl --user --failed` shows
# it, and the timer goes on all the same.
_UNITS = {
    "mnelo.service": """\
[Unit]
Description=mnelo, the local memory of AI agents

[Service]
Type=exec
{settings}
Restart=always
RestartSec=5
# A wrong setting is not put right by another start.
RestartPreventExitStatus=2

[Install]
WantedBy=default.target
""",
    "mnelo-health.service": """\
[Unit]
Description=mnelo: daily check

[Service]
Type=oneshot
{settings}
""",
    "mnelo-health.timer": """\
[Unit]
Description=mnelo: daily check

[Timer]
OnCalendar=daily
Persistent=true

[Install]
WantedBy=timers.target
""",
}


def systemd(service: Service) -> dict[str, bytes]:
    """The units of `systemd --user`, by their file names."""
    commands = {"mnelo.service": service.server, "mnelo-health.service": service.health}
    return {
        name: unit.format(settings=_settings(service, commands.get(name, []))).encode()
        for name, unit in _UNITS.items()
    }


def _settings(service: Service, command: Sequence[str]) -> str:
    lines = [f"ExecStart={exec_start(command)}"]
    lines += [f"Environment={quoted(f'{name}={value}')}" for name, value in service.env.items()]
    # Taken as it stands to the end of the line: a backslash there would go on in the next one.
    lines += ["WorkingDirectory=" + str(service.home).replace("%", "%%") + "/", "UMask=0077"]
    return "\n".join(lines)


def exec_start(command: Sequence[str]) -> str:
    """The command as ExecStart wants it; the colon keeps systemd from replacing `$name`.

    >>> print(exec_start(["/my python", "100% $HOME"]))
    :"/my python" "100%% $HOME"
    """
    if command and set(command[0]) & set("\"'\\"):
        # systemd takes no such name for a program, but a shell can start it.
        command = ["/bin/sh", "-c", 'exec "$0" "$@"', *command]
    return ":" + " ".join(map(quoted, command))


def quoted(word: str) -> str:
    """A word of a systemd unit, in quotes where it needs them.

    >>> print(quoted("plain"), quoted('a "b" c'))
    plain "a \\"b\\" c"
    """
    text = word.replace("\\", r"\\").replace('"', r"\"").replace("%", "%%")
    return text if re.fullmatch(r"[\w./:=@+-]+", text, re.ASCII) else f'"{text}"'


# --- The command -----------------------------------------------------------------------


def write(files: Mapping[str, bytes], folder: Path, *, dry_run: bool) -> None:
    """Write the files that are not yet so, each at once and whole, and say which."""
    for name, content in files.items():
        file = folder / name
        if file.is_file() and file.read_bytes() == content:
            continue
        print(message("service.write", file=file))
        if not dry_run:
            folder.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(f".{name}.new")
            temporary.write_bytes(content)
            os.replace(temporary, file)


def await_server(seconds: float) -> bool:
    """Whether the server of these settings, and not another one, answers within that time."""
    # Imported here: this needs the server's own Python, which the rest does not.
    from access.auth import VARIABLES
    from access.running import find_server
    from config import Config

    config = Config.load()
    for name in VARIABLES:
        os.environ.pop(name, None)  # a service sees no shell: its token is that of the file
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if find_server(config).state == "ours":
            return True
        time.sleep(0.2)
    return False


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="service_files.py", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--launchd", metavar="FOLDER", type=Path, help=message("service.launchd"))
    what.add_argument("--systemd", metavar="FOLDER", type=Path, help=message("service.systemd"))
    what.add_argument("--await", metavar="SECONDS", type=float, help=message("service.await"))
    parser.add_argument("--live-root", type=Path, default=_root.ROOT, help=message("service.live"))
    parser.add_argument("--home", type=Path, help=message("service.home"))
    parser.add_argument("--dry-run", action="store_true", help=message("sync.dry_run"))
    given = parser.parse_args(argv)
    try:
        seconds = getattr(given, "await")
        if seconds is not None:
            return 0 if await_server(seconds) else 1
        live_root = given.live_root.expanduser().absolute()
        home = (given.home or Path(DEFAULT_HOME)).expanduser().absolute()
        service = Service(live_root, home, carried(os.environ, home))
        refuse_control_characters(service)
        files = launchd(service) if given.launchd else systemd(service)
        write(files, given.launchd or given.systemd, dry_run=given.dry_run)
    except (MneloError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
