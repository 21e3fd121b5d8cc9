"""Which files live, and how they get into a live folder: all of them or none."""

import json
import os
import stat
from pathlib import Path

import pytest

import live_sync
from config import ROOT
from live_sync import Change, Live, SyncFailed, lives, whole_checkout


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
    ],
)
def test_code_lives(path: str) -> None:
    assert lives(path)


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
    ],
)
def test_data_settings_documents_and_tests_do_not_live(path: str) -> None:
    assert not lives(path)
    assert not lives(path, installing=True)


def test_requirements_and_the_example_of_settings_come_with_an_installation_only() -> None:
    for path in ("requirements.txt", "config.toml.example"):
        assert lives(path, installing=True)
        assert not lives(path)


def test_the_whole_checkout_is_every_module_and_script_there_is() -> None:
    paths = {change.path for change in whole_checkout(ROOT)}
    modules = {path.name for path in ROOT.glob("*.py")}
    scripts = {f"scripts/{path.name}" for path in (ROOT / "scripts").glob("*.[ps][yh]")}
    more = {"api/mnelo_client.py", "schema.sql", "requirements.txt", "config.toml.example"}
    assert modules | scripts | more <= paths
    assert not [path for path in paths if "test" in path or path.endswith(".md")]


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
