"""The files of launchd and systemd: what they start, and that any path survives in them."""

import configparser
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

import config
import service_files
from core.errors import MneloError
from service_files import (
    Service,
    carried,
    exec_start,
    launchd,
    refuse_control_characters,
    systemd,
)
from units import setting, words

ANALYZE = shutil.which("systemd-analyze")
HARD = ["plain", 'a b%c"d', "$HOME ${x} $$", "back\\slash\\", "it's #1;=%n", "记忆\u3000库"]


def service(root: str, **env: str) -> Service:
    home = Path(root, "home")
    return Service(Path(root), home, carried(env, home))


# --- The environment -------------------------------------------------------------------


def test_the_service_has_the_settings_of_the_shell_that_installed_it() -> None:
    shell = {
        "HF_HOME": "/hf",
        "HUGGINGFACE_HUB_CACHE": "/hub",
        "FASTEMBED_CACHE_PATH": "/fe",
        "HF_ENDPOINT": "https://mirror",
        "HF_HUB_OFFLINE": "1",
        "MNELO_MEMORY_LANG": "zh",
        "MNELO_MEMORY_SERVER_PORT": "9000",
        "MNELO_MEMORY_DEBUG": "true",
        "VELLUM_CHUNK_SIZE": "900",
    }
    others = {"PATH": "/bin", "LANG": "de_DE", "EMPTY": "", "MNELO_MEMORY_TIMEZONE": ""}
    assert carried(shell | others, Path("/data")) == shell | {"MNELO_HOME": "/data"}


def test_no_token_is_written_down() -> None:
    shell = dict.fromkeys(
        ("MNELO_AUTH_TOKEN", "MNEOLO_AUTH_TOKEN", "MNELO_MEMORY_AUTH_TOKEN", "HF_TOKEN"), "secret"
    )
    each = Service(Path("/live"), Path("/home"), carried(shell, Path("/home")))
    for content in (*launchd(each).values(), *systemd(each).values()):
        assert b"secret" not in content


@pytest.mark.parametrize(
    ("shell", "lang"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh_CN.UTF-8"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "en_US.UTF-8"),
        ({}, None),
        ({"LANG": "zh_CN.UTF-8", "MNELO_MEMORY_LANG": "en"}, None),
    ],
)
def test_the_language_is_the_shells(shell: dict[str, str], lang: str | None) -> None:
    assert carried(shell, Path("/data")).get("LANG") == lang


def test_the_default_home_needs_no_variable() -> None:
    assert service_files.DEFAULT_HOME == config.HOME
    assert carried({}, Path(config.HOME).expanduser()) == {}
    assert carried({"MNELO_MEMORY_DIR": "/x"}, Path("/x")) == {"MNELO_HOME": "/x"}


def test_relative_folders_of_the_shell_stay_what_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = carried({"HF_HOME": "cache", "MNELO_MEMORY_CONFIG": "~/mine.toml"}, Path("/data"))
    assert found["HF_HOME"] == str(tmp_path / "cache")
    assert found["MNELO_MEMORY_CONFIG"] == str(tmp_path / "mine.toml")


# --- launchd ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", HARD)
def test_launchd_keeps_the_server_running_and_checks_it_daily(name: str) -> None:
    root = f"/live/{name}"
    files = launchd(service(root, HF_HOME="/a <b> & c"))
    assert set(files) == {"ai.mnelo.mcp.plist", "ai.mnelo.health.plist"}
    server = plistlib.loads(files["ai.mnelo.mcp.plist"])
    assert server == {
        "Label": "ai.mnelo.mcp",
        "ProgramArguments": [
            str(Path(root, ".venv/bin/python")),
            str(Path(root, "mcp_server.py")),
            "--transport",
            "sse",
        ],
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 10,
        "WorkingDirectory": str(Path(root, "home")),
        "StandardOutPath": str(Path(root, "home/logs/mcp.log")),
        "StandardErrorPath": str(Path(root, "home/logs/mcp.log")),
        "EnvironmentVariables": {"HF_HOME": "/a <b> & c", "MNELO_HOME": str(Path(root, "home"))},
        "Umask": 0o077,
    }
    health = plistlib.loads(files["ai.mnelo.health.plist"])
    assert health["Label"] == "ai.mnelo.health"
    assert health["ProgramArguments"][1] == str(Path(root, "scripts/health_check.py"))
    assert health["StartCalendarInterval"] == {"Hour": 9, "Minute": 0}
    assert not health.get("KeepAlive")


# --- systemd ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", HARD)
def test_a_path_comes_out_of_a_unit_as_it_went_in(name: str) -> None:
    root = f"/live/{name}"
    each = service(root, HF_HOME=root)
    unit = systemd(each)["mnelo.service"]
    (command,) = setting(unit, "ExecStart")
    assert command.startswith(":"), "or systemd would replace $name"
    found = words(command[1:])
    if found[0] == "/bin/sh":
        assert found[1:3] == ["-c", 'exec "$0" "$@"']
        found = found[3:]
    assert found == each.server
    env = dict(words(line)[0].split("=", 1) for line in setting(unit, "Environment"))
    assert env == each.env
    assert setting(unit, "WorkingDirectory") == [str(each.home).replace("%", "%%") + "/"]


def test_the_units_say_how_the_server_is_kept_running() -> None:
    files = {name: text.decode() for name, text in systemd(service("/live")).items()}
    assert set(files) == {"mnelo.service", "mnelo-health.service", "mnelo-health.timer"}
    for line in (
        *("Type=exec", "Restart=always", "RestartSec=5", "RestartPreventExitStatus=2"),
        *("UMask=0077", "WantedBy=default.target"),
    ):
        assert f"\n{line}\n" in files["mnelo.service"]
    assert "\nType=oneshot\n" in files["mnelo-health.service"]
    assert "scripts/health_check.py\n" in files["mnelo-health.service"]
    assert "SuccessExitStatus" not in files["mnelo-health.service"], "it would hide a degraded one"
    assert "\nOnCalendar=daily\nPersistent=true\n" in files["mnelo-health.timer"]
    for text in files.values():
        configparser.RawConfigParser(strict=False).read_string(text)


@pytest.mark.skipif(ANALYZE is None, reason="this machine has no systemd")
@pytest.mark.parametrize("name", HARD)
def test_systemd_itself_finds_the_programs_of_the_units(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    each = service(str(root), HF_HOME=name)
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / "home").mkdir()
    (root / ".venv" / "bin" / "python").symlink_to("/bin/true")
    service_files.write(systemd(each), tmp_path / "units", dry_run=False)
    units = sorted(map(str, (tmp_path / "units").iterdir()))
    assert ANALYZE
    verify = [ANALYZE, "verify", "--man=no", *units]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_whose_name_systemd_refuses_is_started_by_a_shell(tmp_path: Path) -> None:
    assert exec_start(["/100% b", "c"]) == ':"/100%% b" c'
    for name in ('a"b', "a'b", "a\\b"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nprintf '%s|' \"$@\"\n")
        program.chmod(0o700)
        command = words(exec_start([str(program), "$HOME", "two words"])[1:])
        assert command[0] == "/bin/sh"
        assert subprocess.check_output(command, text=True) == "$HOME|two words|"


# --- Writing them ----------------------------------------------------------------------


def test_only_files_whose_text_changes_are_written_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "units"
    command = ["--systemd", str(folder), "--live-root", "/live", "--home", "/data"]
    assert service_files.main([*command, "--dry-run"]) == 0
    assert capsys.readouterr().out.count("write ") == 3
    assert not folder.exists()
    assert service_files.main(command) == 0
    assert capsys.readouterr().out.count("write ") == 3
    times = {file: file.stat().st_mtime_ns for file in (folder, *folder.iterdir())}
    assert service_files.main(command) == 0
    assert capsys.readouterr().out == ""
    assert {file: file.stat().st_mtime_ns for file in (folder, *folder.iterdir())} == times
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", "9000")
    assert service_files.main(command) == 0
    said = capsys.readouterr().out
    assert "mnelo.service" in said
    assert "mnelo-health.timer" not in said


def test_what_no_service_file_can_hold_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_RECALL_PLACEHOLDERS", "a\nb")
    assert service_files.main(["--launchd", str(tmp_path / "agents")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("MNELO_MEMORY_RECALL_PLACEHOLDERS has a character")
    assert said.count("\n") == 1
    assert not (tmp_path / "agents").exists()
    with pytest.raises(MneloError, match="LIVE_ROOT"):
        refuse_control_characters(Service(Path("/a\nb"), Path("/data"), {}))
