"""Which files live, and how they get into a live folder: all of them or none."""

import json
import os
import stat
from pathlib import Path

import pytest

import live_sync
from checkout import CODE
from config import ROOT
from live_sync import Change, Live, SyncFailed, lives, whole_checkout

PACKAGES = {"core"}


@pytest.fixture
def live(tmp_path: Path) -> Live:
    (tmp_path / "live").mkdir()
    return Live(tmp_path / "live")


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of everything in a folder."""
    return {
        str(each.relative_to(folder)): (each.lstat().st_size, each.lstat().st_mtime_ns)
        for each in folder.rglob("*")
    }


@pytest.mark.parametrize(
    "path",
    [
        "memory.py",
        "schema.sql",
        "run.sh",
        "api/a.py",
        "api/b/c.py",
        "scripts/a.sh",
        "scripts/b/c.py",
        "core/a.py",
        "core/b/c.py",
    ],
)
def test_code_lives(path: str) -> None:
    assert lives(path, PACKAGES)


@pytest.mark.parametrize(
    "path",
    [
        *("tests/a.py", "tests/a/b.sql", "docs/a.py", "scripts/tests/a.py", "api/docs/a.py"),
        *(
            "README.md",
            "scripts/a.md",
            "config.toml",
            "memory.db",
            "memory.db-wal",
            "memory.db.sql",
        ),
        *(".a.py", ".githooks/a.sh", ".venv/a.py", "scripts/.a/b.py", "api/.a.py"),
        *("api/a.sh", "api/a.sql", "scripts/a.sql", "other/a.py", "a.txt", "py", "scripts/py"),
        *("core/a.sql", "core/a.sh", "core/tests/a.py", "core/.a.py", "other/core/a.py"),
    ],
)
def test_data_settings_documents_and_tests_do_not_live(path: str) -> None:
    assert not lives(path, PACKAGES)
    assert not lives(path, PACKAGES, installing=True)


def test_requirements_and_the_example_of_settings_come_with_an_installation_only() -> None:
    for path in ("requirements.txt", "config.toml.example"):
        assert lives(path, PACKAGES, installing=True)
        assert not lives(path, PACKAGES)


@pytest.mark.parametrize(
    ("path", "restarts"),
    [
        *(("memory.py", True), ("schema.sql", True), ("core/a.py", True), ("core/b/c.py", True)),
        *(("scripts/a.py", False), ("api/a.py", False), ("a.sh", False)),
    ],
)
def test_a_restart_is_needed_for_what_the_server_has_read(path: str, restarts: bool) -> None:
    assert Change(path, b"new").needs_restart is restarts
    assert Change(path, None).needs_restart is restarts


def test_the_whole_checkout_is_every_module_and_script_there_is() -> None:
    paths = {change.path for change in whole_checkout(ROOT)}
    shell = {f"scripts/{path.name}" for path in (ROOT / "scripts").glob("*.sh")}
    more = {"schema.sql", "requirements.txt", "config.toml.example"}
    assert paths == {path.relative_to(ROOT).as_posix() for path in CODE} | shell | more


def test_a_folder_that_is_a_package_lives_and_one_that_is_none_does_not(tmp_path: Path) -> None:
    for path in ("shelf/__init__.py", "shelf/deep/a.py", "loose/a.py", "tests/__init__.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    found = [change.path for change in whole_checkout(tmp_path)]
    assert found == ["shelf/__init__.py", "shelf/deep/a.py"]


def test_links_and_folders_of_a_checkout_are_left_out(tmp_path: Path) -> None:
    outside, checkout = tmp_path / "outside", tmp_path / "checkout"
    (outside / "sub").mkdir(parents=True)
    (outside / "a.py").write_text("secret")
    (checkout / "scripts" / "deep").mkdir(parents=True)
    (checkout / "folder.py").mkdir()
    (checkout / "linked.py").symlink_to(outside / "a.py")
    (checkout / "api").symlink_to(outside)
    (checkout / "scripts" / "linked").symlink_to(outside)
    (checkout / "scripts" / "deep" / "own.py").write_text("own")
    assert whole_checkout(checkout) == [Change("scripts/deep/own.py", b"own")]


def test_a_checkout_that_is_reached_through_a_link_is_whole(tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "a.py").write_text("a")
    (tmp_path / "link").symlink_to("checkout")
    assert whole_checkout(tmp_path / "link") == [Change("a.py", b"a")]


def test_a_second_time_nothing_is_written(live: Live) -> None:
    changes = [Change("a.py", b"1"), Change("scripts/b.sh", b"2", executable=True)]
    assert live.bring(changes, "x", dry_run=False) == changes
    before = listing(live.root)
    assert live.bring(changes, "x", dry_run=False) == []
    assert listing(live.root) == before


def test_a_name_that_only_changes_its_case_is_there_afterwards(live: Live) -> None:
    """Also where case does not count, so that the old name and the new one mean one file."""
    for old, new in (("a.py", "A.py"), ("B.py", "b.py")):
        live.bring([Change(old, b"1")], "x", dry_run=False)
        live.bring([Change(new, b"1"), Change(old, None)], "x", dry_run=False)
        assert [path.name for path in live.root.glob("[aAbB].py")] == [new]
        live.bring([Change(new, None)], "x", dry_run=False)


def test_a_dry_run_says_everything_and_changes_nothing(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    (live.root / "old.py").write_text("old")
    before = listing(live.root)
    live.bring([Change("api/a.py", b"1"), Change("old.py", None)], "x", dry_run=True)
    assert capsys.readouterr().out == "remove old.py\ncopy api/a.py\n"
    assert listing(live.root) == before


def test_the_last_five_backups_are_kept(live: Live) -> None:
    (live.root / ".sync-backups" / "my own").mkdir(parents=True)
    for number in range(9):
        live.bring([Change("a.py", f"{number}".encode())], "x", dry_run=False)
    own, *kept = sorted(live.root.glob(".sync-backups/*"), key=lambda each: "Z" in each.name)
    assert own.name == "my own"
    assert [(each / "a.py").read_text() for each in sorted(kept)] == list("34567")


def test_only_what_was_brought_is_removed_when_it_leaves_the_checkout(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (live.root / "scripts").mkdir()
    (live.root / "scripts" / "mine.py").write_text("mine")
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    for name in ("a.py", "scripts/b.py"):
        (checkout / name).write_text(name)
    monkeypatch.setattr(live_sync, "ROOT", checkout)
    assert live_sync.main(["--all", str(live.root)]) == 0
    (checkout / "scripts" / "b.py").unlink()
    assert live_sync.main(["--all", str(live.root)]) == 0
    found = {path for path in listing(live.root) if path.endswith(".py") and "Z-" not in path}
    assert found == {"a.py", "scripts/mine.py"}
    assert live_sync.main(["--remove", str(live.root)]) == 0
    assert set(listing(live.root)) == {"scripts", "scripts/mine.py"}


def test_a_damaged_list_removes_nothing_that_does_not_live(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (live.root / "memory.db").write_text("precious")
    (tmp_path / "outside.py").write_text("mine")
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(live_sync, "ROOT", tmp_path / "empty")
    listed = ["memory.db", "../outside.py", "scripts/../../outside.py", 5]
    for text in (json.dumps(listed).encode(), b"{", b'{"a.py": 1}', b"5", b"\xff"):
        (live.root / ".sync-files").write_bytes(text)
        assert live_sync.main(["--all", str(live.root)]) == 0
        assert (live.root / "memory.db").read_text() == "precious"
        assert (tmp_path / "outside.py").read_text() == "mine"


# --- A copy with other modules than the checkout ---------------------------------------


FLAT = {"memory.py": "old", "turns.py": "old", "store.py": "old", "mine.py": "mine"}
CACHES = ("memory.cpython-311.pyc", "turns.cpython-311.pyc", "store.cpython-311.opt-1.pyc")
PACKED = {"memory.py": "new", "store/__init__.py": "new", "store/sqlite/a.py": "new"}


@pytest.fixture
def upgraded(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """A copy of flat modules that were run, and a checkout that has packages in their place."""
    checkout = tmp_path / "checkout"
    monkeypatch.setattr(live_sync, "ROOT", checkout)
    for folder, files in ((live.root, FLAT), (checkout, PACKED)):
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    (live.root / "__pycache__").mkdir()
    for name in (*CACHES, "mine.cpython-311.pyc"):
        (live.root / "__pycache__" / name).touch()
    listed = [path for path in FLAT if path != "mine.py"]
    (live.root / ".sync-files").write_text(json.dumps(listed))
    return live


def files(live: Live) -> dict[str, str]:
    """The code of the live folder, without caches and backups."""
    code = {path.relative_to(live.root): path for path in live.root.rglob("*.py")}
    return {
        str(name): path.read_text() for name, path in code.items() if name.parts[0][0] not in "._"
    }


def cached(live: Live) -> set[str]:
    return {path.name for path in live.root.rglob("*.pyc")}


def test_an_upgrade_leaves_nothing_of_modules_that_became_packages(upgraded: Live) -> None:
    assert live_sync.main(["--all", str(upgraded.root)]) == 0
    assert files(upgraded) == {**PACKED, "mine.py": "mine"}
    assert cached(upgraded) == {"memory.cpython-311.pyc", "mine.cpython-311.pyc"}
    (backup,) = (upgraded.root / ".sync-backups").iterdir()
    assert {path.name for path in backup.iterdir()} == set(FLAT) - {"mine.py"}


def test_a_package_that_leaves_the_checkout_leaves_with_its_caches(
    upgraded: Live, tmp_path: Path
) -> None:
    assert live_sync.main(["--all", str(upgraded.root)]) == 0
    (upgraded.root / "store" / "__pycache__").mkdir()
    (upgraded.root / "store" / "__pycache__" / "__init__.cpython-311.pyc").touch()
    (tmp_path / "checkout" / "store").rename(tmp_path / "checkout" / "shelf")
    assert live_sync.main(["--all", str(upgraded.root)]) == 0
    assert not (upgraded.root / "store").exists()
    assert "shelf/sqlite/a.py" in files(upgraded)
    assert live_sync.main(["--remove", str(upgraded.root)]) == 0
    assert files(upgraded) == {"mine.py": "mine"}
    assert cached(upgraded) == {"mine.cpython-311.pyc"}


def test_an_upgrade_that_fails_is_put_back(upgraded: Live) -> None:
    (upgraded.root / "store").write_text("a file where a folder must be")
    before = listing(upgraded.root)
    assert live_sync.main(["--all", str(upgraded.root)]) == 1
    assert listing(upgraded.root) == before


def test_an_upgrade_that_is_interrupted_is_put_back(
    upgraded: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = listing(upgraded.root)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live_sync.main(["--all", str(upgraded.root)])
    assert listing(upgraded.root) == before


def test_an_upgrade_that_was_killed_is_completed_by_the_next(upgraded: Live) -> None:
    """The list of what was brought is written last, so it still names what has to go."""
    (upgraded.root / "store.py").unlink()
    (upgraded.root / "store").mkdir()
    (upgraded.root / "store" / "__init__.py").write_text("new")
    assert live_sync.main(["--all", str(upgraded.root)]) == 0
    assert files(upgraded) == {**PACKED, "mine.py": "mine"}
    assert "turns.cpython-311.pyc" not in cached(upgraded)


def test_caches_are_not_looked_for_where_a_link_leads_out(upgraded: Live, tmp_path: Path) -> None:
    (upgraded.root / "__pycache__").rename(tmp_path / "outside")
    (upgraded.root / "__pycache__").symlink_to(tmp_path / "outside")
    assert live_sync.main(["--all", str(upgraded.root)]) == 0
    assert len(list((tmp_path / "outside").iterdir())) == len(FLAT)


# --- All or nothing --------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["folder", "file for a folder"])
def test_all_of_a_run_is_put_back_when_one_file_fails(live: Live, wrong: str) -> None:
    (live.root / "a.py").write_text("old")
    (live.root / "a.py").chmod(0o640)
    (live.root / "gone.py").write_text("old")
    (live.root / "link.py").symlink_to("a.py")
    (live.root / "z.py").mkdir() if wrong == "folder" else (live.root / "scripts").write_text("x")
    before = listing(live.root)
    changes = [Change("a.py", b"new"), Change("gone.py", None), Change("link.py", b"new")]
    changes += [Change("api/new/n.py", b"new"), Change("scripts/n.py", b"new")]
    with pytest.raises(SyncFailed, match="left as it was"):
        live.bring([*changes, Change("z.py", b"new")], "x", dry_run=False)
    assert listing(live.root) == before
    assert stat.S_IMODE((live.root / "a.py").stat().st_mode) == 0o640
    assert os.readlink(live.root / "link.py") == "a.py"


def test_who_interrupts_a_run_finds_nothing_half_done(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    (live.root / "a.py").write_text("old")
    before = listing(live.root)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.bring([Change("a.py", b"new"), Change("b.py", b"new")], "x", dry_run=False)
    assert listing(live.root) == before


@pytest.mark.parametrize("linked", ["api", ".sync-backups"])
def test_nothing_is_written_where_a_link_leads_out(live: Live, tmp_path: Path, linked: str) -> None:
    (tmp_path / "outside").mkdir()
    (live.root / linked).symlink_to(tmp_path / "outside")
    (live.root / "a.py").write_text("old")
    with pytest.raises(SyncFailed, match="lead out"):
        live.bring([Change("a.py", b"new"), Change("api/b.py", b"new")], "x", dry_run=False)
    assert not list((tmp_path / "outside").iterdir())
    assert (live.root / "a.py").read_text() == "old"


def test_a_live_folder_that_is_a_link_itself_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    Live(tmp_path / "link").bring([Change("api/a.py", b"new")], "x", dry_run=False)
    assert (tmp_path / "real" / "api" / "a.py").read_text() == "new"


def test_the_checkout_itself_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("a")
    before = listing(tmp_path)
    monkeypatch.setattr(live_sync, "ROOT", tmp_path)
    for what in ("--all", "--remove"):
        assert live_sync.main([what, str(tmp_path)]) == 0
        assert "nothing to copy" in capsys.readouterr().out
    assert listing(tmp_path) == before
