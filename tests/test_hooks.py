"""The git hooks, end to end: real commits in repositories of their own, and a live folder."""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from config import ROOT
from live_sync import restart_command

HOOKS = sorted((ROOT / ".githooks").iterdir())
SHELL = [*HOOKS, ROOT / ".ci" / "run", *sorted((ROOT / "scripts").glob("*.sh"))]
PYTHON = Path(".venv", "bin", "python")
NEEDED = (
    *("core/__init__.py", "core/errors.py", "i18n_messages.py", "mnelo_locale.py"),
    "scripts/_root.py",
)
HEALTH = """\
echo "one line of health"
echo "home ${MNELO_HOME:-none} git ${GIT_DIR:-none}"
exit ${HEALTH:-0}
"""
"""The live folder's check, for a shell: it stands in for the live Python, and starts sooner."""

BACKUP = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{7,}")


@dataclass
class Repository:
    """A checkout with the hooks in force, and its live folder."""

    root: Path
    live: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.env | env,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def git(self, *arguments: str, **env: str) -> str:
        """What git and its hooks say."""
        done = self.run("git", *arguments, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def quietly(self, *arguments: str) -> str:
        """As `git`, without the hooks."""
        return self.git("-c", "core.hooksPath=/nowhere", *arguments)

    def commit(
        self, files: dict[str, str | None], told: str = "change", *more: str, **env: str
    ) -> str:
        """Write or remove the files and commit all; what git and its hooks say."""
        for path, text in files.items():
            file = self.root / path
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
        self.git("add", "--all")
        return self.git("commit", "--allow-empty", "-m", told, *more, **env)

    def hook(self, name: str = "post-commit", *arguments: str, **env: str) -> tuple[int, str]:
        """A hook, run by hand: git says nothing of how post-commit ended."""
        done = self.run(str(self.root / ".githooks" / name), *arguments, **env)
        return done.returncode, done.stdout + done.stderr

    @property
    def code(self) -> dict[str, str]:
        """The live folder's files, without what is not code."""
        return {
            path: text
            for path, text in _files(self.live).items()
            if not path.startswith((".", "memory.db"))
        }

    @property
    def backups(self) -> list[Path]:
        folder = self.live / ".sync-backups"
        return sorted(folder.iterdir()) if folder.exists() else []


def _files(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): file.read_text("utf-8")
        for file in folder.rglob("*")
        if file.is_file() and ".venv" not in file.parts
    }


def _environment(home: Path, live: Path) -> dict[str, str]:
    path = {"PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    people = {
        f"GIT_{who}_{what}": "a@b.c"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true"}
    more = {
        "HOME": str(home),
        "LIVE_ROOT": str(live),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**path, **people, **git, **more}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, and a live folder that has what was committed."""
    folder = tmp_path_factory.mktemp("template")
    root, live = folder / "checkout", folder / "live"
    for path in (
        *NEEDED,
        "scripts/live_sync.py",
        *(f".githooks/{each.name}" for each in HOOKS),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, root / path)
    (root / ".githooks" / "pre-commit").unlink()
    (root / "mcp_server.py").write_text("version = 1\n")
    (root / "memory.py").write_text("version = 1\n")
    (root / "scripts" / "health_check.py").write_text(HEALTH)
    python = os.path.realpath(sys.executable)  # not a program that looks for one
    for place, program in ((folder / "bin" / "python3", python), (live / PYTHON, "/bin/sh")):
        place.parent.mkdir(parents=True)
        place.symlink_to(program)
    (live / "mcp_server.py").write_text("version = 0\n")
    (live / "memory.db").write_text("precious")
    (live / "config.toml").write_text("# mine\n")
    repository = Repository(root, live, _environment(folder, live))
    repository.git("init", "-q", "-b", "main")
    repository.git("config", "core.hooksPath", ".githooks")
    repository.commit({})
    return folder


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Repository:
    for name in ("bin", "checkout", "live"):
        shutil.copytree(template / name, tmp_path / name, symlinks=True)
    live = tmp_path / "live"
    shutil.rmtree(live / ".sync-backups", ignore_errors=True)
    return Repository(tmp_path / "checkout", live, _environment(tmp_path, live))


# --- What goes where -------------------------------------------------------------------


def test_the_first_commit_brings_the_whole_tree(template: Path) -> None:
    live = template / "live"
    assert (live / "memory.py").read_text() == "version = 1\n"
    assert (live / "mcp_server.py").read_text() == "version = 1\n"
    assert (live / "scripts" / "health_check.py").read_text() == HEALTH
    (backup,) = (live / ".sync-backups").iterdir()
    assert _files(backup) == {"mcp_server.py": "version = 0\n"}


def test_a_commit_brings_code_to_the_same_place_and_nothing_else(repository: Repository) -> None:
    code = {
        "memory.py": "version = 2\n",
        "schema.sql": "-- 2\n",
        "tool.sh": "echo\n",
        "api/mnelo_client.py": "client = 2\n",
        "scripts/importers/mail.py": "mail = 2\n",
    }
    before = repository.code
    other = {
        "tests/test_memory.py": "x",
        "tests/helper.py": "x",
        "scripts/tests/test_a.py": "x",
        "docs/a.py": "x",
        "README.md": "x",
        "config.toml": "x",
        "requirements.txt": "x",
        "memory.db": "x",
        ".hidden.py": "x",
        "scripts/.hidden/a.py": "x",
        "api/run.sh": "x",
    }
    said = repository.commit({**code, **other})
    assert f"Live folder {repository.live}: {len(code)} files changed." in said
    assert repository.code == {**before, **code}
    assert (repository.live / "memory.db").read_text() == "precious"
    assert stat.S_IMODE((repository.live / "tool.sh").stat().st_mode) == 0o700
    assert stat.S_IMODE((repository.live / "memory.py").stat().st_mode) == 0o600


def test_no_test_file_ever_lands_in_the_live_folder(repository: Repository) -> None:
    repository.commit({"tests/test_a.py": "x", "tests/conftest.py": "x"})
    assert not list(repository.live.rglob("test_a.py")) + list(repository.live.rglob("conftest.py"))
    assert repository.backups == []


def test_what_was_committed_is_brought_and_not_what_is_being_edited(
    repository: Repository,
) -> None:
    repository.commit({"memory.py": "version = 2\n"}, "first")
    (repository.root / "memory.py").write_text("broken(\n")
    (repository.root / "scratch.py").write_text("x\n")
    (repository.root / "mcp_server.py").write_text("version = 2\n")
    repository.git("commit", "-m", "one file", "mcp_server.py")
    assert repository.code["memory.py"] == repository.code["mcp_server.py"] == "version = 2\n"
    assert "scratch.py" not in repository.code


def test_removed_and_renamed_files_leave_and_are_backed_up(repository: Repository) -> None:
    repository.commit({"old.py": "old\n", "scripts/gone.py": "gone\n"})
    repository.git("mv", "old.py", "new.py")
    said = repository.commit({"scripts/gone.py": None})
    assert "remove old.py" in said
    assert "copy new.py" in said
    assert {"new.py"} == {path for path in repository.code if path in ("old.py", "new.py")}
    assert "scripts/gone.py" not in repository.code
    assert _files(repository.backups[-1]) == {"old.py": "old\n", "scripts/gone.py": "gone\n"}


def test_any_name_is_brought_and_removed(repository: Repository) -> None:
    odd = ("a b.py", 'it\'s "so".py', "记忆.py", "two\nlines.py", "-x.py", "a\\b.py", "tab\t.py")
    names = {*odd, *(f"scripts/{name}" for name in odd)}
    said = repository.commit({name: f"{name}\n" for name in names})
    assert said.count("copy ") == 2 * len(odd)
    assert {name: f"{name}\n" for name in names}.items() <= repository.code.items()
    repository.commit(dict.fromkeys(names))
    assert not names & set(repository.code)


def test_earlier_versions_are_kept_privately_under_time_and_commit(
    repository: Repository,
) -> None:
    repository.commit({"memory.py": "version = 2\n", "scripts/new.sh": "echo\n"})
    (backup,) = repository.backups
    assert BACKUP.fullmatch(backup.name)
    assert backup.name.endswith(repository.git("rev-parse", "--short", "HEAD").strip())
    assert _files(backup) == {"memory.py": "version = 1\n"}
    repository.commit({"scripts/new.sh": "echo 2\n"})
    for entry in (repository.live / ".sync-backups").rglob("*"):
        assert stat.S_IMODE(entry.stat().st_mode) == (0o700 if entry.is_dir() else 0o600)


def test_where_nothing_changes_nothing_is_touched_or_said(repository: Repository) -> None:
    times = {file: file.stat().st_mtime_ns for file in repository.live.rglob("*")}
    said = repository.commit({"README.md": "x", "docs/a.md": "x"})
    assert repository.hook() == (0, "")
    assert not re.search("copy|remove|health|server", said)
    assert {file: file.stat().st_mtime_ns for file in repository.live.rglob("*")} == times


def test_a_file_that_is_equal_already_is_not_touched(repository: Repository) -> None:
    (repository.live / "equal.py").write_text("x\n")
    before = (repository.live / "equal.py").stat()
    said = repository.commit({"equal.py": "x\n"})
    assert (repository.live / "equal.py").stat().st_mtime_ns == before.st_mtime_ns
    assert "equal.py" not in said.partition("create mode")[0]
    assert repository.backups == []


@pytest.fixture
def flat(repository: Repository) -> Repository:
    """A repository whose modules lie flat beside each other, in the live folder too."""
    repository.commit({"store.py": "old\n", "turns.py": "old\n"})
    (repository.live / "mine.py").write_text("mine\n")
    return repository


PACKED: dict[str, str | None] = {
    "store.py": None,
    "turns.py": None,
    "store/__init__.py": "new\n",
    "store/sqlite/a.py": "new\n",
    "recall/__init__.py": "new\n",
}
"""A commit that puts packages in the place of flat modules."""


def _packed(repository: Repository) -> bool:
    """Whether the live folder has the packages and, of the flat modules, only the person's own."""
    places = ("store", "recall", "turns.py", "store.py", "mine.py")
    found = {path: text for path, text in repository.code.items() if path.startswith(places)}
    return found == {**{path: text for path, text in PACKED.items() if text}, "mine.py": "mine\n"}


def test_packages_take_the_place_of_modules_and_a_restart_is_asked_for(flat: Repository) -> None:
    (flat.live / "__pycache__").mkdir()
    (flat.live / "__pycache__" / "turns.cpython-311.pyc").touch()
    assert "Restart" in flat.commit(PACKED)
    assert _packed(flat)
    assert not (flat.live / "__pycache__").exists()
    assert "Restart" in flat.commit({"store/sqlite/a.py": "newer\n"})


def test_a_package_that_a_commit_takes_away_is_gone_with_its_folder(flat: Repository) -> None:
    flat.commit(PACKED)
    assert "Restart" in flat.commit({"store/__init__.py": None, "store/sqlite/a.py": None})
    assert not (flat.live / "store").exists()


def test_a_live_folder_without_the_packages_is_brought_all_of_them(flat: Repository) -> None:
    """A pull with --rebase brought them to the checkout, and git ran no hook for it."""
    for path, text in PACKED.items():
        (flat.root / path).parent.mkdir(parents=True, exist_ok=True)
        (flat.root / path).write_text(text) if text else (flat.root / path).unlink()
    flat.git("add", "--all")
    flat.quietly("commit", "-m", "packages")
    said = flat.commit({"memory.py": "version = 2\n"})
    assert _packed(flat)
    assert "remove turns.py" in said
    assert flat.code["memory.py"] == "version = 2\n"
    assert "remove" not in flat.commit({"memory.py": "version = 3\n"})


# --- Which commits ---------------------------------------------------------------------


@pytest.mark.parametrize("told", ["docs [skip-sync]", "a\n\nlong\n[Skip-SYNC] story"])
def test_skip_sync_anywhere_in_the_message_skips(repository: Repository, told: str) -> None:
    repository.commit({"memory.py": "version = 2\n"}, told)
    assert repository.code["memory.py"] == "version = 1\n"
    assert repository.backups == []


def test_an_amend_brings_its_files_and_takes_back_those_it_dropped(
    repository: Repository,
) -> None:
    repository.commit({"memory.py": "version = 2\n", "dropped.py": "x\n"})
    assert "dropped.py" in repository.code
    repository.commit({"memory.py": "version = 3\n", "dropped.py": None}, "again", "--amend")
    assert repository.code["memory.py"] == "version = 3\n"
    assert "dropped.py" not in repository.code


def _branch(repository: Repository) -> None:
    """A branch `side` with a change of its own that is not in the live folder; main checked out."""
    repository.quietly("checkout", "-q", "-b", "side")
    (repository.root / "side.py").write_text("x\n")
    (repository.root / "memory.py").write_text("version = 5\n")
    repository.git("add", "--all")
    repository.quietly("commit", "-m", "side")
    repository.quietly("checkout", "-q", "main")


@pytest.mark.parametrize("how", ["--ff-only", "--no-ff"])
def test_a_merge_brings_what_it_merged(repository: Repository, how: str) -> None:
    _branch(repository)
    said = repository.git("merge", how, "side")
    assert "copy side.py" in said
    assert repository.code["side.py"] == "x\n"
    assert repository.code["memory.py"] == "version = 5\n"


def test_a_merge_that_a_commit_concludes_is_compared_with_its_first_parent(
    repository: Repository,
) -> None:
    _branch(repository)
    repository.commit({"memory.py": "version = 6\n"})
    assert repository.run("git", "merge", "side").returncode == 1
    repository.commit({"memory.py": "version = 7\n"})
    assert repository.code["side.py"] == "x\n"
    assert repository.code["memory.py"] == "version = 7\n"


def test_a_squashed_merge_is_brought_when_it_is_committed(repository: Repository) -> None:
    _branch(repository)
    repository.git("merge", "--squash", "side")
    assert "side.py" not in repository.code
    repository.git("commit", "-m", "squashed")
    assert repository.code["side.py"] == "x\n"


def test_a_pull_brings_what_was_pulled(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", str(repository.root), str(tmp_path / "other"))
    other = Repository(tmp_path / "other", repository.live, repository.env)
    other.commit({"memory.py": "version = 2\n", "pulled.py": "x\n"})
    repository.git("pull", "-q", "--no-rebase", str(other.root), "main")
    assert repository.code["memory.py"] == "version = 2\n"
    assert repository.code["pulled.py"] == "x\n"


def test_a_commit_in_a_worktree_is_brought(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", "-b", "tree", str(tmp_path / "tree"))
    tree = Repository(tmp_path / "tree", repository.live, repository.env)
    tree.commit({"memory.py": "version = 2\n"})
    assert repository.code["memory.py"] == "version = 2\n"
    folder = str(repository.root / ".git" / "worktrees" / "tree")
    (tree.root / "memory.py").write_text("version = 3\n")
    tree.git("commit", "-a", "-m", "by name", GIT_DIR=folder, GIT_WORK_TREE=str(tree.root))
    assert repository.code["memory.py"] == "version = 3\n"


def test_commits_of_a_detached_head_and_of_a_rebase_are_brought(repository: Repository) -> None:
    _branch(repository)
    repository.quietly("checkout", "-q", "--detach")
    repository.commit({"detached.py": "x\n"})
    assert repository.code["detached.py"] == "x\n"
    base = repository.git("rev-parse", "HEAD").strip()
    repository.quietly("checkout", "-q", "side")
    repository.git("rebase", "-q", base)
    assert repository.code["side.py"] == "x\n"


# --- Which live folder -----------------------------------------------------------------


def test_without_a_live_folder_or_its_code_nothing_is_done_or_said(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("nowhere", "empty"):
        assert repository.hook(LIVE_ROOT=str(tmp_path / place)) == (0, "")
    assert not (tmp_path / "nowhere").exists()
    assert not list((tmp_path / "empty").iterdir())


def test_a_live_folder_that_is_the_checkout_is_said_in_one_line(
    repository: Repository,
) -> None:
    status, said = repository.hook(LIVE_ROOT=str(repository.root))
    assert status == 0
    assert said.count("\n") == 1
    assert "nothing to copy" in said
    assert not (repository.root / ".sync-backups").exists()


def test_git_config_names_the_live_folder_where_the_environment_does_not(
    repository: Repository,
) -> None:
    repository.env.pop("LIVE_ROOT")
    repository.git("config", "mnelo.liveRoot", "~/live")
    repository.commit({"memory.py": "version = 2\n"})
    assert repository.code["memory.py"] == "version = 2\n"


def test_the_default_live_folder_is_in_the_home(repository: Repository, tmp_path: Path) -> None:
    repository.env.pop("LIVE_ROOT")
    (tmp_path / ".hermes").mkdir()
    repository.live = repository.live.rename(tmp_path / ".hermes" / "memory")
    said = repository.commit({"memory.py": "version = 2\n"})
    assert repository.code["memory.py"] == "version = 2\n"
    assert "home none" in said


# --- What goes wrong -------------------------------------------------------------------


def test_a_failure_puts_everything_back(repository: Repository) -> None:
    (repository.live / "scripts" / "importers").write_text("a file where a folder must be\n")
    before, modes = _files(repository.live), (repository.live / "memory.py").stat().st_mode
    said = repository.commit({"memory.py": "2\n", "new.py": "x\n", "scripts/importers/a.py": "x\n"})
    assert "was left as it was" in said
    assert "one line of health" not in said
    assert _files(repository.live) == before
    assert (repository.live / "memory.py").stat().st_mode == modes
    status, said = repository.hook()
    assert (status, said.count("\n")) == (1, 1)
    (repository.live / "scripts" / "importers").unlink()
    assert repository.hook()[0] == 0
    assert repository.code["memory.py"] == "2\n"


def test_a_link_in_the_live_folder_leads_no_write_out_of_it(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "memory.py").write_text("mine\n")
    (repository.live / "api").symlink_to(tmp_path / "outside")
    (repository.live / "memory.py").unlink()
    (repository.live / "memory.py").symlink_to(tmp_path / "outside" / "memory.py")
    said = repository.commit({"api/a.py": "x\n", "schema.sql": "x\n"})
    assert "api/a.py lead out" in said
    assert "schema.sql" not in repository.code
    (repository.live / "api").unlink()
    repository.commit({"memory.py": "version = 2\n"})
    assert _files(tmp_path / "outside") == {"memory.py": "mine\n"}
    assert repository.code["memory.py"] == "version = 2\n"


def test_a_link_in_the_checkout_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (repository.root / "memory.py").unlink()
    (repository.root / "memory.py").symlink_to(tmp_path / "secret")
    (repository.root / "new.py").symlink_to(tmp_path / "secret")
    repository.commit({})
    assert not {"memory.py", "new.py"} & set(repository.code)


def test_the_live_check_is_shown_and_a_degraded_one_fails_the_hook(
    repository: Repository,
) -> None:
    repository.quietly("commit", "--allow-empty", "-m", "none")
    for health, status in (("0", 0), ("1", 1), ("2", 0), ("3", 1)):
        (repository.root / "memory.py").write_text(f"health = {health}\n")
        repository.quietly("commit", "-a", "--amend", "-m", "change")
        ended, said = repository.hook(HEALTH=health)
        assert ended == status
        assert "    one line of health\n" in said
        assert f"home {repository.live} git none" in said
        assert repository.code["memory.py"] == f"health = {health}\n"


def test_a_commit_stands_when_the_check_fails(repository: Repository) -> None:
    repository.commit({"memory.py": "version = 2\n"}, "kept", HEALTH="1")
    assert "kept" in repository.git("log", "-1")


def test_without_a_venv_it_is_said_that_nothing_was_checked(repository: Repository) -> None:
    shutil.rmtree(repository.live / ".venv")
    assert "scripts/install.sh makes it" in repository.commit({"memory.py": "version = 2\n"})
    assert repository.code["memory.py"] == "version = 2\n"


def test_a_restart_is_asked_for_once_where_the_server_has_read_the_code(
    repository: Repository,
) -> None:
    assert "Restart" not in repository.commit({"scripts/a.py": "x\n", "api/a.py": "x\n"})
    assert repository.commit({"memory.py": "x\n", "a.py": "x\n"}).count("Restart") == 1
    assert repository.commit({"schema.sql": "x\n", "scripts/a.py": "y\n"}).count("Restart") == 1


def test_the_restart_command_is_that_of_the_platform() -> None:
    darwin = "launchctl kickstart -k gui/$(id -u)/ai.mnelo.mcp"
    assert restart_command("darwin", has_systemd=False) == darwin
    assert restart_command("linux", has_systemd=True) == "systemctl --user restart mnelo"
    assert "mcp_server.py" in restart_command("linux", has_systemd=False)


def test_changed_requirements_are_left_to_the_installer(repository: Repository) -> None:
    assert "install.sh" in repository.commit({"requirements.txt": "x\n"})
    assert "requirements.txt" not in repository.code


# --- pre-commit ------------------------------------------------------------------------


@pytest.fixture
def refusing(repository: Repository) -> Callable[[dict[str, str]], tuple[int, str]]:
    """pre-commit with programs of our own as ruff and mypy, which say how they were called."""
    shutil.copy(ROOT / ".githooks" / "pre-commit", repository.root / ".githooks" / "pre-commit")

    def commit(programs: dict[str, str]) -> tuple[int, str]:
        for name, text in programs.items():
            program = repository.root / ".venv" / "bin" / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/sh\necho {name} $*\n{text}\n")
            program.chmod(0o755)
        done = repository.run("git", "commit", "--allow-empty", "-m", "x", LIVE_ROOT="/nowhere")
        return done.returncode, done.stderr + done.stdout

    return commit


def test_pre_commit_without_its_programs_says_how_to_get_them(
    refusing: Callable[[dict[str, str]], tuple[int, str]],
) -> None:
    status, said = refusing({})
    assert status == 1
    assert said.count("\n") == 1
    assert "pip install -r requirements-dev.txt" in said


def test_pre_commit_lets_only_clean_code_pass(
    refusing: Callable[[dict[str, str]], tuple[int, str]],
) -> None:
    format_fails = 'case "$*" in format*) exit 1 ;; esac'
    assert refusing({"ruff": "exit 1", "mypy": ""})[0] == 1
    assert refusing({"ruff": format_fails})[0] == 1
    assert refusing({"ruff": "", "mypy": "exit 1"})[0] == 1
    status, said = refusing({"mypy": ""})
    assert status == 0
    assert re.search(r"ruff check.*\nruff format.*--check.*\nmypy", said)


# --- The shell that they are written in ------------------------------------------------


@pytest.mark.parametrize("script", SHELL, ids=lambda script: script.name)
def test_a_shell_script_keeps_to_what_old_bash_knows(script: Path) -> None:
    text = script.read_text("utf-8")
    newer = (
        r"\$\{\w+(,,?|\^\^?)\}|declare -A|local -A|mapfile|readarray|&>>|\|&|\$\{\w+@|local -n|;;&"
    )
    assert re.findall(newer, text) == []
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0  # noqa: S607
    assert os.access(script, os.X_OK)


def test_shellcheck_finds_nothing() -> None:
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shellcheck = shutil.which("shellcheck", path=places)
    assert shellcheck, "no shellcheck: pip install -r requirements-dev.txt"
    done = subprocess.run([shellcheck, *SHELL], capture_output=True, text=True, check=False)
    assert done.stdout == ""
