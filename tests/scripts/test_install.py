"""install.sh, run as a person runs it: into an empty home, again, elsewhere, and out of it."""

import hashlib
import json
import os
import plistlib
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from checkout import ROOMS
from config import ROOT, Config
from live_sync import lives, packages_in
from memory import Memory
from mnelo_client import MneloClient
from serving import free_port
from units import setting, words

SCRIPT = ROOT / "scripts" / "install.sh"
START_SECONDS = 30
NOTHING: Mapping[str, str] = {}

FLAT = (
    *("address", "answers", "auth", "backup", "bridge", "calibration", "certainty"),
    *("client_configs", "codes", "cues", "dates", "distinct", "doctor", "errors", "evidence"),
    *("file_check", "fusion", "graph", "groups", "guard", "health", "importers", "index"),
    *("indexing", "keeper", "lanes", "links", "matrix", "metrics", "postings", "recall_log"),
    *("reembedding", "resources", "results", "rows", "segments", "server", "store", "timeline"),
    *("timeline_arguments", "timeline_groups", "timeline_keeper", "timeline_scale"),
    *("timeline_settings", "timeline_tools", "timestamps", "tools", "transfer", "transport"),
    *("turns", "upkeep", "validation", "words"),
)
"""The modules that lay beside memory.py before there were packages."""

FAKES = {
    "uname": 'echo "${SYSTEM:-Linux}"',
    "loginctl": "echo Linger=no",
    # Without a manager by default, as in a container; else one that knows what was enabled.
    "systemctl": """
        [ -n "$MANAGER" ] || exit 1
        echo "systemctl $*" >>"$FAKES/log"
        case "$*" in
            *is-active*) [ -e "$FAKES/running" ] ;;
            *enable*) touch "$FAKES/running" ;;
            *disable*) rm -f "$FAKES/running" ;;
        esac""",
    "launchctl": """
        echo "launchctl $*" >>"$FAKES/log"
        label=$(basename "${3:-$2}" .plist)
        case "$1" in
            print) [ -e "$FAKES/${2##*/}" ] && echo "state = running" ;;
            bootstrap) touch "$FAKES/$label" ;;
            bootout) rm "$FAKES/${2##*/}" ;;
        esac""",
}
"""The programs that would change the machine that the tests run on."""


@dataclass
class Home:
    """A person's home with nothing in it, and what their shell says."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fakes = self.path.parent / f"fakes of {self.path.name}"
        fakes.mkdir(parents=True)
        self.path.mkdir()
        for name, text in FAKES.items():
            (fakes / name).write_text(f"#!/bin/sh\n{text}\n")
            (fakes / name).chmod(0o755)
        self.env |= {
            "HOME": str(self.path),
            "PATH": f"{fakes}:{os.environ['PATH']}",
            "FAKES": str(fakes),
            "PY_BIN": sys.executable,
            "LANG": "C.UTF-8",
            "SKIP_MODEL_DOWNLOAD": "1",
            "MNELO_MEMORY_EMBEDDER_MODEL": "none",
            "MNELO_MEMORY_SERVER_PORT": str(free_port()),
        }

    @property
    def live(self) -> Path:
        return self.path / ".hermes" / "memory"

    @property
    def units(self) -> Path:
        return self.path / ".config" / "systemd" / "user"

    @property
    def token(self) -> Path:
        return self.path / ".config" / "mnelo" / "auth_token"

    def log(self) -> list[str]:
        """What launchctl or systemctl were asked since the last time."""
        file = Path(self.env["FAKES"], "log")
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def run(
        self, *arguments: str, script: Path = SCRIPT, env: Mapping[str, str] = NOTHING
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", script, *arguments],  # noqa: S607
            cwd=self.path,
            env={**self.env, **env},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def install(self, *arguments: str, **env: str) -> str:
        done = self.run(*arguments, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def quick_venv(live: Path) -> None:
    """A .venv that has all packages at once: those of the Python that runs the tests."""
    folder = live / ".venv"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    content = (ROOT / "requirements.txt").read_bytes()
    stamp = f"{sys.version.split()[0]} {hashlib.sha256(content).hexdigest()}\n"
    (folder / ".mnelo-requirements").write_text(stamp)


def listing(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time and content of everything in a folder."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        about = path.lstat()
        plain = stat.S_ISREG(about.st_mode)
        content = hashlib.sha256(path.read_bytes()).hexdigest() if plain else ""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, content)
    return found


def code(folder: Path) -> dict[str, bytes]:
    """What lives of a checkout, or was brought from one."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    packages = packages_in(paths)
    return {
        name: path.read_bytes()
        for name, path in paths.items()
        if lives(name, packages, installing=True) and path.is_file()
    }


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, str]:
    """A home with an installation, and what was said on the way."""
    home = Home(tmp_path_factory.mktemp("install") / "it's a 家 $HOME")
    quick_venv(home.live)
    return home, home.install()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "some one")


# --- What an installation makes --------------------------------------------------------


def test_an_installation_has_the_code_and_nothing_else_of_the_checkout(
    installed: tuple[Home, str],
) -> None:
    live = installed[0].live
    assert code(live) == code(ROOT)
    top = {path.name for path in live.iterdir() if path.name not in code(live)}
    rooms = {room.name for room in ROOMS}
    assert top == rooms | {".venv", ".sync-files", "api", "scripts", "logs", "memory.db"}


def test_everything_is_for_its_owner_alone(installed: tuple[Home, str]) -> None:
    home = installed[0]
    given = {home.live, home.live.parent}
    made = {path for path in home.path.rglob("*") if ".venv" not in path.parts} - given
    for path in made:
        mode = stat.S_IMODE(path.stat().st_mode)
        runs = path.is_dir() or path.suffix == ".sh" or mode == 0o700
        assert mode == (0o700 if runs else 0o600), path
    assert home.token in made


def test_the_token_can_be_sent_and_the_settings_are_left_to_the_person(
    installed: tuple[Home, str],
) -> None:
    home = installed[0]
    assert re.fullmatch(r"[\w-]{43}\n", home.token.read_text())
    assert not (home.live / "config.toml").exists()


def test_the_person_is_told_how_to_start_and_connect(installed: tuple[Home, str]) -> None:
    home, said = installed
    (line,) = [line for line in said.splitlines() if line.endswith("--transport sse")]
    shell = ["bash", "-c", f"printf '%s\\n' {line}"]
    words_of_it = subprocess.check_output(shell, text=True, env=home.env).splitlines()
    python, server = home.live / ".venv" / "bin" / "python", home.live / "mcp_server.py"
    assert words_of_it == [str(python), str(server), "--transport", "sse"]
    for part in ("claude mcp add", "mcpServers", "core.hooksPath .githooks", "health_check.py"):
        assert part in said


def test_a_second_installation_changes_nothing(installed: tuple[Home, str]) -> None:
    home = installed[0]
    before = listing(home.path)
    home.install()
    assert listing(home.path) == before


def test_a_dry_run_of_an_uninstallation_changes_nothing(installed: tuple[Home, str]) -> None:
    home = installed[0]
    before = listing(home.path)
    said = home.install("--uninstall", "--dry-run")
    assert "remove mcp_server.py" in said
    assert "memory.db" in said.partition("these stay")[2]
    assert listing(home.path) == before


# --- The service as its unit states it -------------------------------------------------


@contextmanager
def started(home: Home) -> Iterator[str]:
    """The server as systemd would start it, until the block is left; its URL."""
    unit = (home.units / "mnelo.service").read_bytes()
    (command,) = setting(unit, "ExecStart")
    env = dict(words(line)[0].split("=", 1) for line in setting(unit, "Environment"))
    (folder,) = setting(unit, "WorkingDirectory")
    own = {"HOME": str(home.path), "PATH": os.environ["PATH"]}
    log = Path(home.env["FAKES"], "server.log")
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            words(command[1:]), env=own | env, cwd=folder.replace("%%", "%"), stderr=stderr
        )
    try:
        yield _await_ready(process, log)
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _await_ready(process: "subprocess.Popen[bytes]", log: Path) -> str:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"🟢 MCP server ready: (http://\S+)/sse ", log.read_text("utf-8")):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text("utf-8"))


@pytest.fixture(scope="module")
def served(installed: tuple[Home, str]) -> Iterator[tuple[Home, str]]:
    """The installation with its server running, and the server's URL."""
    with started(installed[0]) as url:
        yield installed[0], url


def test_the_service_serves_what_was_installed(served: tuple[Home, str]) -> None:
    home, url = served
    bearer = {"Authorization": f"Bearer {home.token.read_text().strip()}"}
    asked = urllib.request.Request(url + "/health", headers=bearer)  # noqa: S310
    with urllib.request.urlopen(asked, timeout=10) as reply:  # noqa: S310
        health = json.load(reply)
    assert health["database"] == str(home.live / "memory.db")
    assert url.endswith(":" + home.env["MNELO_MEMORY_SERVER_PORT"])


def test_the_installed_check_finds_the_service_healthy(served: tuple[Home, str]) -> None:
    home, _ = served
    program = [home.live / ".venv/bin/python", home.live / "scripts/health_check.py"]
    done = subprocess.run(program, env=home.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- Other ways to install -------------------------------------------------------------


def test_a_dry_run_says_each_step_and_changes_nothing(home: Home) -> None:
    before, checkout = listing(home.path), listing(ROOT / "scripts")
    said = home.install("--dry-run")
    for step in (".hermes/memory", "-m venv", "pip install", "copy memory.py", "memory.db"):
        assert step in said
    assert str(home.token) in said
    assert "mnelo.service" in said
    assert listing(home.path) == before
    assert listing(ROOT / "scripts") == checkout


def test_another_folder_for_the_code_is_the_home_of_the_data_too(
    home: Home, tmp_path: Path
) -> None:
    live = home.path / "else where" / "百分%n"
    quick_venv(live)
    (home.path / "install.sh").symlink_to(SCRIPT)
    done = home.run(
        script=Path("install.sh"),
        env={"LIVE_ROOT": "else where/百分%n/", "XDG_CONFIG_HOME": str(tmp_path / "x")},
    )
    assert done.returncode == 0, done.stderr
    assert (live / "memory.db").exists()
    assert code(live) == code(ROOT)
    unit = (tmp_path / "x" / "systemd" / "user" / "mnelo.service").read_bytes()
    assert [f"MNELO_HOME={live}"] in [words(line) for line in setting(unit, "Environment")]
    assert not home.live.exists()
    assert home.token.exists()
    assert "config mnelo.liveRoot" in done.stdout
    mn = [str(home.path / ".local" / "bin" / "mn"), "stats", "--json"]
    told = subprocess.run(mn, env=home.env, capture_output=True, check=True)
    assert json.loads(told.stdout)["db"]["path"] == str(live / "memory.db")


def test_an_upgrade_and_an_uninstallation_keep_what_is_the_persons_own(home: Home) -> None:
    """Code and data lie apart here; the code is of an older version, beside a script of theirs."""
    data, live = home.path / "data", home.live
    quick_venv(live)
    own = {
        data / "memory.db": "mine",
        data / "config.toml": "# mine",
        home.token: "my-own-token-of-some-length",
        live / "scripts" / "mine.py": "mine",
    }
    old = {live / "memory.py": "old", live / "renamed.py": "old"}
    listed = {live / ".sync-files": '["memory.py", "renamed.py"]'}
    for file, text in (own | old | listed).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    home.token.chmod(0o600)
    home.install(MNELO_HOME=str(data))
    assert code(live) == code(ROOT) | {"scripts/mine.py": b"mine"}
    (backup,) = (live / ".sync-backups").iterdir()
    assert {path.name: path.read_text() for path in backup.iterdir()} == {
        path.name: text for path, text in old.items()
    }
    before = listing(data)
    mn = home.path / ".local" / "bin" / "mn"
    assert mn.exists()
    said = home.install("--uninstall", MNELO_HOME=str(data))
    assert not mn.exists()
    assert [path for path in live.rglob("*") if path.is_file()] == [live / "scripts" / "mine.py"]
    assert list(home.units.iterdir()) == []
    assert listing(data) == before
    assert {file: file.read_text() for file in own} == own
    for kept in (data / "memory.db", data / "config.toml", data / "logs", home.token):
        assert f"   {kept}\n" in said


@pytest.fixture
def flat(home: Home) -> Home:
    """An installation of before there were packages, with a memory and a module of the person's."""
    quick_venv(home.live)
    kept = ("memory", "config", "mcp_server")
    for name in (*FLAT, *kept, "mine"):
        module = home.live / f"{name}.py"
        module.write_text("old = True\n")
        py_compile.compile(str(module))
    (home.live / ".sync-files").write_text(json.dumps([f"{name}.py" for name in (*FLAT, *kept)]))
    config = Config.load(database_path=str(home.live / "memory.db"), embedder_model="none")
    with Memory(config=config) as memory:
        memory.remember("The depot in Riga opens on Mondays")
    return home


def test_an_installation_of_flat_modules_is_upgraded_and_serves(flat: Home) -> None:
    said = flat.install()
    assert "remove turns.py" in said
    assert code(flat.live) == code(ROOT) | {"mine.py": b"old = True\n"}
    cached = {path.name.partition(".")[0] for path in flat.live.glob("__pycache__/*.pyc")}
    assert not cached & set(FLAT)
    assert "mine" in cached
    token = flat.token.read_text().strip()
    with started(flat) as url, MneloClient(url + "/sse", token=token) as client:
        (hit,) = client.recall("when does Riga open?")
        assert hit["content"] == "The depot in Riga opens on Mondays"
    before = listing(flat.live)
    flat.install()
    assert listing(flat.live) == before


def test_no_flat_module_can_be_imported_after_an_upgrade(flat: Home) -> None:
    flat.install()
    script = """
import importlib.util, sys
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    print(name, "package" if spec and spec.submodule_search_locations else spec)
"""
    python = flat.live / ".venv" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", script, *FLAT],
        cwd=flat.live,
        env=flat.env,
        capture_output=True,
        text=True,
        check=True,
    )
    rooms = {room.name for room in ROOMS}
    wanted = [f"{name} {'package' if name in rooms else None}" for name in FLAT]
    assert done.stdout.splitlines() == wanted


def test_another_program_called_mn_stays(installed: tuple[Home, str]) -> None:
    home, _ = installed
    mn = home.path / ".local" / "bin" / "mn"
    ours = mn.read_bytes()
    mn.write_text("#!/bin/sh\necho mine\n")
    assert f"{mn} is another program" in home.install()
    assert mn.read_text() == "#!/bin/sh\necho mine\n"
    mn.write_bytes(ours)


def test_a_checkout_may_be_the_live_folder(home: Home) -> None:
    shutil.copytree(ROOT, home.live, ignore=shutil.ignore_patterns(".*", "tests", "docs"))
    quick_venv(home.live)
    before = code(home.live)
    script = home.live / "scripts" / "install.sh"
    assert home.run(script=script).returncode == 0
    assert (home.live / "memory.db").exists()
    assert not (home.live / ".sync-files").exists()
    assert home.run("--uninstall", script=script).returncode == 0
    assert code(home.live) == before
    assert not (home.live / ".venv").exists()


def test_a_failed_pip_leaves_the_old_code_and_is_tried_again(home: Home) -> None:
    quick_venv(home.live)
    (home.live / ".venv" / ".mnelo-requirements").write_text("older\n")
    packages = next((home.live / ".venv").glob("lib/python*/site-packages"))
    (home.live / "memory.db").touch()
    (packages / "pip").mkdir()
    (packages / "pip" / "__init__.py").touch()
    (packages / "pip" / "__main__.py").write_text("import sys; print(sys.argv); sys.exit(1)\n")
    done = home.run()
    assert done.returncode == 1
    assert "pip could not install requirements.txt" in done.stderr
    assert not (home.live / "memory.py").exists()
    assert not (home.live / ".venv" / ".mnelo-requirements").exists()
    (packages / "pip" / "__main__.py").write_text("")
    home.install()
    assert (home.live / ".venv" / ".mnelo-requirements").exists()


# --- What goes wrong is said in one line -----------------------------------------------


@pytest.mark.parametrize("option", ["--frob", "-x", "now", ""])
def test_an_unknown_option_is_refused(home: Home, option: str) -> None:
    done = home.run(option)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert list(home.path.iterdir()) == []


def test_help_says_what_there_is(home: Home) -> None:
    said = home.install("--help")
    for word in ("--dry-run", "--uninstall", "LIVE_ROOT", "MNELO_HOME", "PY_BIN", "SKIP_MODEL"):
        assert word in said


@pytest.mark.parametrize(
    ("python", "told"),
    [
        ("/no/such/python", "PY_BIN=/no/such/python is not a Python 3.10 or newer"),
        ("old", "is not a Python 3.10 or newer"),
        ("bare", "apt install python3-venv"),
    ],
)
def test_a_python_that_will_not_do_is_refused(home: Home, python: str, told: str) -> None:
    fakes = Path(home.env["FAKES"])
    (fakes / "old").write_text("#!/bin/sh\nexit 1\n")
    bare = f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"\n'
    (fakes / "bare").write_text(bare)
    for name in ("old", "bare"):
        (fakes / name).chmod(0o755)
    done = home.run(env={"PY_BIN": python})
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(home.path.iterdir()) == []


def test_without_any_python_it_is_said_what_to_do(home: Home) -> None:
    fakes = Path(home.env["FAKES"])
    for name in ("python3.13", "python3.12", "python3.11", "python3.10", "python3"):
        (fakes / name).write_text("#!/bin/sh\nexit 127\n")
        (fakes / name).chmod(0o755)
    done = home.run(env={"PY_BIN": ""})
    assert done.returncode == 1
    assert done.stderr.startswith("install.sh: no Python 3.10 or newer found")
    (fakes / "python3.10").unlink()
    (fakes / "python3.10").symlink_to(sys.executable)
    assert "with python3.10" in home.install("--dry-run", PY_BIN="")


# --- launchd and systemd ---------------------------------------------------------------


@pytest.fixture
def managed(home: Home, served: tuple[Home, str]) -> Home:
    """A home whose server answers as soon as a manager is asked to start it."""
    home.env["MNELO_HOME"] = str(served[0].live)
    home.env["MNELO_MEMORY_SERVER_PORT"] = served[0].env["MNELO_MEMORY_SERVER_PORT"]
    home.token.parent.mkdir(parents=True)
    shutil.copy2(served[0].token, home.token)  # the server says only to those who have it
    quick_venv(home.live)
    return home


def test_without_a_manager_a_server_with_older_code_is_to_be_started_again(managed: Home) -> None:
    assert "stop the server that runs" in managed.install()
    assert "start the server yourself" in managed.install()


def test_launchd_loads_restarts_and_lets_go_of_the_service_as_needed(managed: Home) -> None:
    home = managed
    home.env["SYSTEM"] = "Darwin"
    domain = f"gui/{os.getuid()}"
    agents = home.path / "Library" / "LaunchAgents"
    both = ("ai.mnelo.mcp", "ai.mnelo.health")
    home.install()
    asked = [line for line in home.log() if " print " not in line]
    assert asked == [
        line
        for label in both
        for line in (
            f"launchctl enable {domain}/{label}",
            f"launchctl bootstrap {domain} {agents}/{label}.plist",
        )
    ]
    server = plistlib.loads((agents / "ai.mnelo.mcp.plist").read_bytes())
    assert server["ProgramArguments"][1] == str(home.live / "mcp_server.py")
    assert server["EnvironmentVariables"]["MNELO_HOME"] == home.env["MNELO_HOME"]
    before = listing(agents)
    home.install()
    assert {line.split()[1] for line in home.log()} == {"print"}
    assert listing(agents) == before
    (home.live / "memory.py").write_text("old")
    home.install()
    assert f"launchctl kickstart -k {domain}/ai.mnelo.mcp" in home.log()
    home.install(MNELO_MEMORY_TIMEZONE="utc")
    asked = [line.split()[1] for line in home.log() if " print " not in line]
    assert asked == ["bootout", "enable", "bootstrap"] * 2
    home.install("--uninstall")
    assert [line for line in home.log() if "bootout" in line] == [
        f"launchctl bootout {domain}/{label}" for label in both
    ]
    assert list(agents.iterdir()) == []


def test_systemd_starts_restarts_and_stops_the_service_as_needed(managed: Home) -> None:
    home = managed
    home.env |= {"SYSTEM": "Linux", "MANAGER": "1"}
    enable = "systemctl --user -q enable --now mnelo.service mnelo-health.timer"
    restart = "systemctl --user restart mnelo.service mnelo-health.timer"
    assert "loginctl enable-linger" in home.install()
    asked = home.log()
    assert asked.index("systemctl --user daemon-reload") < asked.index(enable)
    assert restart not in asked
    (home.live / "memory.py").write_text("old")
    assert home.run(env={"MNELO_MEMORY_SERVER_HOST": "a\nb"}).returncode == 1
    assert code(home.live) == code(ROOT)
    assert restart not in home.log()
    home.install()
    asked = home.log()
    assert restart in asked, "the code is new since the run before, which failed"
    assert "systemctl --user daemon-reload" not in asked
    home.install("--uninstall")
    asked = home.log()
    assert "systemctl --user -q disable --now mnelo.service mnelo-health.timer" in asked
    assert list(home.units.iterdir()) == []


# --- The whole of it -------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_installation_with_pip_serves(home: Home) -> None:
    said = home.install()
    assert "install the packages of requirements.txt" in said
    with started(home) as url, urllib.request.urlopen(url + "/health", timeout=10) as reply:  # noqa: S310
        assert json.load(reply)["name"] == "mnelo"
    before = listing(home.live / ".venv")
    assert "install the packages" not in home.install()
    assert listing(home.live / ".venv") == before


def test_nobodys_home_is_written_down_in_the_repository() -> None:
    homes = re.compile(r"(?<![\w.])/(Users|home)/(?!me/)[a-z_][\w.-]*/|(?<![\w.])/root/", re.I)
    own = {"tests", "docs", "scripts", "api", ".githooks", ".ci"}
    files = [*ROOT.glob("[!.]*"), *(path for name in own for path in (ROOT / name).rglob("*"))]
    for path in files:
        if path.is_file() and path.suffix != ".pyc" and path.name != Path(__file__).name:
            assert not homes.findall(path.read_text("utf-8", "replace")), path
