"""Every command that README and RUNBOOK show is run, and does what they say."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import ROOT, Config
from memory import Memory
from serving import Served, environment, serving
from upkeep import backup

DOCUMENTS = ("README.md", "docs/RUNBOOK.md")
BLOCK = re.compile(r"(<!-- ci: \w+ -->\n)?```bash\n(.*?)```", re.S)
ELSEWHERE = {
    "git config core.hooksPath .githooks",  # test_hooks.py
    "python3 scripts/restore_db.py latest",  # below, without the server
}
NO_MODEL = Config.load({}, embedder_model="none")
FOREIGN = ("claude", "hf")
"""Programs that the tests do not have: their own documents say what they take."""


def shown() -> list[str]:
    """The commands of all documents, each once; those that .ci/run takes out of README apart."""
    texts = [(ROOT / name).read_text("utf-8") for name in DOCUMENTS]
    blocks = [block for text in texts for mark, block in BLOCK.findall(text) if not mark]
    return list(dict.fromkeys(line for block in blocks for line in block.splitlines()))


def runs_here(command: str) -> bool:
    return command not in ELSEWHERE and command.split()[0] not in FOREIGN


def adapted(command: str) -> str:
    """The same at a size for tests; installing for real is tested in scripts/test_install.py."""
    if "scripts/install.sh" in command:
        return command if "--dry-run" in command else f"{command} --dry-run"
    return command.replace("--chunks 10000 --queries 100", "--chunks 100 --queries 10")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a memory and a backup in it, and `python3` and `python3.12` as programs."""
    home = tmp_path_factory.mktemp("home")
    with Memory(home / "memory.db", config=NO_MODEL) as memory:
        memory.remember("the depot in Riga opens on Mondays")
    backup.make(home / "memory.db", home / "backups", compress=False, keep=7)
    (home / "bin").mkdir()
    for name in ("python3", "python3.12"):
        (home / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (home / "bin" / name).chmod(0o755)
    home.chmod(0o700)
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with serving(home) as served:
        yield served


def run(home: Path, command: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """A command as a shell in the project's folder runs it, but for links to that folder."""
    path = {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "ROOT": str(ROOT), **env}
    within = re.sub(r"(?<=[ =])(scripts/)", r'"$ROOT"/\1', f" {command}")
    return subprocess.run(
        [str(shutil.which("bash")), "-c", within],
        env=environment(home, path),
        cwd=home,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the documents show commands of a Unix shell")
@pytest.mark.parametrize("command", [each for each in shown() if runs_here(each)])
def test_a_command_of_the_documents_works(home: Path, server: Served, command: str) -> None:
    ended = run(home, adapted(command), MNELO_MEMORY_SERVER_PORT=str(server.port))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="the documents show commands of a Unix shell")
def test_the_newest_backup_comes_back_as_the_runbook_says(tmp_path: Path, home: Path) -> None:
    there = tmp_path / "home"
    with Memory(there / "memory.db", config=NO_MODEL) as memory:
        memory.remember("the first")
        backup.make(there / "memory.db", there / "backups", compress=False, keep=7)
        memory.remember("the second")
    (there / "bin").symlink_to(home / "bin")
    assert "python3 scripts/restore_db.py latest" in shown()
    ended = run(there, "python3 scripts/restore_db.py latest")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with Memory(there / "memory.db", config=NO_MODEL) as memory:
        assert memory.stats()["chunks"]["active"] == 1


def test_what_is_not_run_is_still_shown() -> None:
    assert set(shown()) >= ELSEWHERE
    assert {command.split()[0] for command in shown()} >= set(FOREIGN)
