"""The doctor: each fault is provoked, found, told with what to do, and gone after --fix."""

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
import sqlite_vec

import mn
from admin import doctor
from admin.doctor import Examined, Finding
from config import ROOT, Config
from hash_embedder import HashEmbedder
from inside import look_for_faults
from memory import Memory
from mnelo_client import MneloClient
from serving import Served, environment, free_port, serving
from store.sqlite.checks import broken_index as _broken_index
from store.sqlite.inspector import Inspector
from store.sqlite.statements import APPLICATION_ID

private = pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter")


@pytest.fixture(autouse=True)
def no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the machine's own is looked at."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with live and closed memories, entities, relations and vectors."""
    path = tmp_path_factory.mktemp("template") / "memory.db"
    with Memory(path, config=Config.load({}), load_model=lambda recorded: HashEmbedder()) as memory:
        memory.wait_for_model(None)
        ids = [
            memory.remember(f"the boat {n} is red", entities=["Ann"], tags=["t"])["chunk_id"]
            for n in range(8)
        ]
        memory.update(ids[0], new_content="the boat 0 is blue")
        memory.forget(ids[1])
        memory.relate("Ann", "boat", "owns")
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in a private home where no server runs and no model is wanted."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    shutil.copyfile(template, home / "memory.db")
    (home / "memory.db").chmod(0o600)
    return home / "memory.db"


def look(database: Path | None = None, *, fix: bool = False) -> Examined:
    config, broken = doctor.settings(str(database) if database else None)
    return doctor.examine(config, broken, fix=fix)


def only(examined: Examined) -> Finding:
    (finding,) = examined.findings
    assert finding.what
    assert finding.fix
    return finding


def names(examined: Examined) -> set[str]:
    return {each.name for each in examined.findings}


def change(path: Path, *statements: str) -> None:
    """Change a file behind mnelo's back."""
    with closing(apsw.Connection(str(path))) as db:
        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        for each in statements:
            db.execute(each)


def sound(path: Path) -> bool:
    with Memory(path, config=Config.load(embedder_model="none")) as memory:
        return not any(look_for_faults(memory).values())


def test_of_a_sound_memory_nothing_is_said_and_nothing_is_changed(path: Path) -> None:
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert look() == Examined([], [], usable=True)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [each.name for each in path.parent.iterdir()] == ["memory.db"]


def test_an_index_that_others_write_to_meanwhile_is_sound(path: Path) -> None:
    config = Config.load(embedder_model="none")
    with (
        Memory(path, config=config) as memory,
        closing(Inspector(path)) as file,
        file.view() as view,
    ):
        for number in range(5):
            assert _broken_index(view.db, "trigrams") == 0
            for each in range(40):  # commits, after some of which FTS5 merges its segments
                memory.remember(f"the boat {number} is {each}")


# --- What can be mended in the file ----------------------------------------------------

MENDABLE = {
    "indexes": [
        "DELETE FROM postings WHERE chunk_seq = 3",
        "DELETE FROM trigrams WHERE rowid = 4",
        "DELETE FROM closed_trigrams WHERE rowid = 1",
        "INSERT INTO closed_trigrams (rowid, text) VALUES (4, 'x')",
        "INSERT INTO trigrams (rowid, text) VALUES (999, 'x')",
        "UPDATE postings SET weights = x'01' WHERE chunk_seq = 3",
        "UPDATE trigrams_data SET block = zeroblob(length(block)) WHERE id > 1000",
    ],
    "rows": [
        "INSERT INTO tags VALUES (999, 'x')",
        "INSERT INTO mentions VALUES ('ghost', 3, 'found')",
        "INSERT INTO mentions VALUES ('Ann', 999, 'found')",
        "INSERT INTO aliases VALUES ('ghost', 'ghost', 'ghost', 'id', '2020-01-01T00:00:00.000Z')",
        "INSERT INTO evidence VALUES (999, 3)",
    ],
    "vectors": [
        "DELETE FROM windows WHERE chunk_seq = 3",
        "DELETE FROM vectors WHERE rowid = 3",
        "UPDATE vectors SET live = 1 - live WHERE rowid = 5",
        "INSERT INTO vectors (rowid, embedding, live) VALUES (999, zeroblob(256), 1)",
    ],
}
EACH = [(name, statement) for name, statements in MENDABLE.items() for statement in statements]


@pytest.mark.parametrize(("name", "statement"), EACH)
def test_what_is_wrong_in_the_file_is_found_and_mended(
    path: Path, name: str, statement: str
) -> None:
    change(path, statement)
    found = look()
    assert names(found) == {name}
    assert all(each.fixable and each.where == str(path) for each in found.findings)
    assert found.exit_status == 1
    mended = look(fix=True)
    assert (list(mended.findings), mended.exit_status) == ([], 0)
    assert mended.mended
    assert sound(path)


def test_everything_at_once_is_mended_and_recall_finds_all_again(path: Path) -> None:
    statements = [each for each in MENDABLE["indexes"] if "zeroblob" not in each]
    change(path, *statements, *MENDABLE["rows"], *MENDABLE["vectors"])
    assert names(look()) == set(MENDABLE)
    assert look(fix=True).findings == []
    with Memory(path, config=Config.load(embedder_model="none")) as memory:
        assert len(memory.recall("boat red", top_k=20)["hits"]) >= 6
        hits = memory.recall("boat 3", top_k=1)["hits"]
        assert hits[0]["content"] == "the boat 3 is red"
        assert memory.recall("oat 2 is", strategy="meta_only", top_k=1)["hits"]


def test_a_new_version_keeps_its_place_in_the_rebuilt_index(path: Path) -> None:
    sql = "SELECT chunk_seq, place FROM postings ORDER BY chunk_seq"
    with closing(apsw.Connection(str(path))) as db:
        before = list(db.execute(sql))
        assert (9, 1) in before
        db.execute("DELETE FROM postings")
    assert look(fix=True).findings == []
    with closing(apsw.Connection(str(path))) as db:
        assert list(db.execute(sql)) == before


def test_no_memory_is_ever_deleted_by_mending(path: Path) -> None:
    sql = "SELECT seq, id, content, valid_from, valid_until FROM chunks ORDER BY seq"
    with closing(apsw.Connection(str(path))) as db:
        before = list(db.execute(sql))
    change(path, *[each for _, each in EACH if "zeroblob" not in each])
    look(fix=True)
    with closing(apsw.Connection(str(path))) as db:
        assert list(db.execute(sql)) == before


def test_memories_without_vectors_get_them_where_the_model_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    home = tmp_path / "home"
    with Memory() as memory:
        memory.remember("a note without a vector")
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "offline")
    assert look().findings == [], "they may wait for an hour"
    old = "UPDATE chunks SET id = 'chunk_20200101T000000000Z_0123456789ab'"
    change(home / "memory.db", old)
    assert names(look()) == {"pending"}
    assert look(fix=True).findings == []
    with Memory(config=Config.load(embedder_model="none")) as memory:
        assert (memory.stats()["vectors"], memory.stats()["pending"]) == (1, 0)


def test_an_older_file_is_brought_up_to_date(path: Path) -> None:
    path.unlink()
    with closing(apsw.Connection(str(path))) as db:
        db.execute((ROOT / "tests" / "support" / "schema_1.sql").read_text("utf-8"))
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", 1)
    path.chmod(0o600)
    assert only(look()).name == "older"
    with closing(apsw.Connection(str(path))) as db:
        assert db.pragma("user_version") == 1, "looking migrates nothing"
    assert look(fix=True).findings == []
    assert sound(path)


def test_a_log_that_nobody_brings_in_is_found_and_brought_in(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE chunks SET importance = 0.7")
        copies = {end: path.with_name("memory.db" + end).read_bytes() for end in ("", "-wal")}
    for end, content in copies.items():
        path.with_name("memory.db" + end).write_bytes(content)
        path.with_name("memory.db" + end).chmod(0o600)
    assert only(look()).name == "log"
    assert path.with_name("memory.db-wal").read_bytes() == copies["-wal"]
    assert look(fix=True).findings == []
    assert not path.with_name("memory.db-wal").exists()
    with closing(apsw.Connection(str(path))) as db:
        assert list(db.execute("SELECT DISTINCT importance FROM chunks")) == [(0.7,)]


def test_what_killed_programs_left_is_removed_when_it_is_old(path: Path) -> None:
    folder = path.parent / "backups"
    folder.mkdir(mode=0o700)
    left = [
        folder / ".memory-20260101T000000Z.db.part",
        path.parent / ".memory.db.restore",
    ]
    others = [folder / ".part", path.parent / "notes.restore"]
    for each in [*left, *others]:
        each.touch()
    assert look().findings == []
    old = time.time() - 2 * doctor.LEFT_AFTER
    for each in [*left, *others]:
        os.utime(each, (old, old))
    assert {each.where for each in look().findings} == set(map(str, left))
    assert look(fix=True).findings == []
    assert [each.exists() for each in [*left, *others]] == [False, False, True, True]


# --- What cannot be mended -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("history", "UPDATE chunks SET superseded_by = 'gone' WHERE seq = 2"),
        (
            "history",
            "UPDATE entities SET valid_until = '1999-01-01T00:00:00.000Z' WHERE id = 'Ann'",
        ),
        ("no_vectors", "DROP TABLE vectors"),
        ("pages", "PRAGMA writable_schema = on"),
    ],
)
def test_what_is_wrong_with_memories_themselves_is_told_and_left(
    path: Path, name: str, statement: str
) -> None:
    change(path, statement)
    if name == "pages":
        _damage_a_page(path)
    found = only(look())
    assert (found.name, found.severity, found.fixable) == (name, "error", False)
    assert "backup" in found.fix
    assert look(fix=True).mended == []


def _damage_a_page(path: Path) -> None:
    """Let an index say what its table does not."""
    with closing(apsw.Connection(str(path))) as db:
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'chunks_source'"
        ((root,),) = db.execute(sql)
        size = db.pragma("page_size")
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        page = bytearray(file.read(size))
        at = page.rindex(b"manual")
        page[at : at + 6] = b"nobody"
        file.seek((root - 1) * size)
        file.write(page)


def _missing(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _foreign(path: Path) -> None:
    path.write_text("dear diary " * 100)


def _cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _newer(path: Path) -> None:
    change(path, "PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_missing, "there is no"),
        (_empty, "is empty"),
        (_foreign, "is not a mnelo memory"),
        (_cut_short, "cut short"),
        (_newer, "newer mnelo"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_and_left(
    path: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(path)
    before = path.read_bytes() if path.exists() else None
    for fix in (False, True):
        found = look(fix=fix)
        assert found.exit_status == 2
        assert said in only(found).what
    assert (path.read_bytes() if path.exists() else None) == before


# --- Settings, token, permissions ------------------------------------------------------


@private
def test_what_others_may_read_is_closed_to_them(path: Path, tmp_path: Path) -> None:
    home = path.parent
    token = tmp_path / ".config" / "mnelo" / "auth_token"
    token.parent.mkdir(parents=True)
    token.write_text("secret-of-the-tests")
    copy = home / "backups" / "memory-20260101T000000Z.db"
    copy.parent.mkdir()
    files = [path, home / "config.toml", token, copy]
    for each in files:
        each.touch()
        each.chmod(0o644)
    for each in (home, copy.parent):
        each.chmod(0o755)
    found = look()
    assert {each.where for each in found.findings} == set(map(str, [*files, home, copy.parent]))
    assert all("chmod" in each.fix for each in found.findings)
    assert [each.where for each in found.findings if each.severity == "error"] == [str(token)]
    assert look(fix=True).findings == []
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["[server]\nportt = 1\n", "[recall]\nrrf_k = 0\n", "port ="])
def test_settings_that_cannot_be_used_are_said_and_the_rest_is_looked_at(
    path: Path, text: str
) -> None:
    file = path.parent / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    change(path, "DELETE FROM trigrams WHERE rowid = 4")
    found = {each.name: each for each in look().findings}
    assert {"config", "indexes"} <= set(found)
    assert str(file) in found["config"].what
    assert found["config"].severity == "error"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "no token"), (b"a b", "space"), (b"\xff", "not UTF-8"), (b"12345", "guessed")],
)
def test_a_token_that_no_server_takes_is_said(
    path: Path, tmp_path: Path, content: bytes, said: str
) -> None:
    token = tmp_path / ".config" / "mnelo" / "auth_token"
    token.parent.mkdir(parents=True)
    token.write_bytes(content)
    token.chmod(0o600)
    found = only(look())
    assert (found.name, found.where) == ("token", str(token))
    assert said in found.what


def test_a_model_that_is_not_the_files_own_or_not_here_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "BAAI/bge-small-en-v1.5")
    found = only(look())
    assert found.name == "model"
    assert "the file holds vectors of test/hash" in found.what
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "auto")
    assert only(look()).name == "no_files"
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "models"))
    (tmp_path / "models" / "models--test--hash").mkdir(parents=True)
    assert look().findings == []
    assert doctor._possible("auto", "")[0] == "BAAI/bge-small-zh-v1.5"


def test_a_model_that_does_not_load_is_said_after_all(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "auto")
    done = look(fix=True)
    assert names(done) == {"no_files"}
    assert "test/hash is no model" in done.mended[0]


# --- Service and port ------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="the unit is systemd's")
def test_a_service_that_starts_nothing_or_does_not_run_is_said(path: Path, tmp_path: Path) -> None:
    unit = tmp_path / ".config" / "systemd" / "user" / "mnelo.service"
    unit.parent.mkdir(parents=True)
    unit.write_text('[Service]\nExecStart=:"/no where/python" "/100%% mnelo/mcp_server.py"\n')
    found = only(look())
    assert (found.name, found.where) == ("service", str(unit))
    assert "/no where/python" in found.what
    unit.write_text(f"[Service]\nExecStart={sys.executable} {ROOT / 'mcp_server.py'}\n")
    assert only(look()).name == "stopped"


def test_the_command_of_a_service_is_read_from_either_sort_of_file(tmp_path: Path) -> None:
    unit, agent = tmp_path / "mnelo.service", tmp_path / "ai.mnelo.mcp.plist"
    unit.write_text('[Service]\nExecStart=:"/my python" "100%% x"\n')
    assert doctor.command_of(unit) == ["/my python", "100% x"]
    strings = "<array><string>/my python</string><string>100% x</string></array>"
    agent.write_text(
        f'<plist version="1.0"><dict><key>ProgramArguments</key>{strings}</dict></plist>'
    )
    assert doctor.command_of(agent) == ["/my python", "100% x"]
    agent.write_text("no plist")
    assert doctor.command_of(agent) == []


def test_a_port_that_another_program_has_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("access.running.ASK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(silent.getsockname()[1]))
        assert "does not answer" in only(look()).what
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(bound.getsockname()[1]))
        assert "is taken" in only(look()).what
    monkeypatch.setenv("MNELO_MEMORY_SERVER_HOST", "0.0.0.0")  # noqa: S104
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    assert "allow_remote" in only(look()).what


# --- Beside a server -------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served")
    home.chmod(0o700)
    with serving(home) as running:
        with MneloClient(running.url + "/mcp") as client:
            for number in range(6):
                client.remember(f"the boat {number} is red")
            client.recall("boat")
        yield running


@pytest.fixture
def aimed(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    for name, value in environment(served.home, {}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(served.port))
    return served


def test_a_server_goes_on_with_what_was_mended_beside_it(aimed: Served) -> None:
    assert look().findings == []
    path = aimed.home / "memory.db"
    change(
        path,
        "DELETE FROM trigrams WHERE rowid = 4",
        "UPDATE postings SET weights = x'', terms = x'', rev = rev + 99 WHERE chunk_seq = 4",
        "DELETE FROM postings WHERE chunk_seq = 5",
        *MENDABLE["rows"],
    )
    with MneloClient(aimed.url + "/mcp") as client:
        asked: dict[str, Any] = {"strategy": "meta_only", "top_k": 1}
        assert client.recall("boat 3", **asked)[0]["content"] != "the boat 3 is red"
        assert names(look()) == {"indexes", "rows"}
        assert look(fix=True).findings == []
        assert client.recall("boat 3", **asked)[0]["content"] == "the boat 3 is red"
        client.remember("written after it was mended")
    assert look().findings == []


def test_looking_waits_for_nobody_who_writes(aimed: Served) -> None:
    with closing(apsw.Connection(str(aimed.home / "memory.db"))) as db:
        db.execute("BEGIN IMMEDIATE")
        assert look().findings == []
        db.execute("ROLLBACK")


def test_a_server_without_its_model_or_for_others_is_said(
    aimed: Served, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(aimed.home, {}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(aimed.port))
    assert str(aimed.home) in only(look(path)).what
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "auto")
    assert "no model is wanted" in only(look()).what


# --- The command -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "nothing", "closed"),
    [("en", "Nothing is wrong.", "Mended"), ("zh", "没有发现问题。", "已修复")],
)
def test_the_command_says_what_is_wrong_and_mends_it(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    language: str,
    nothing: str,
    closed: str,
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", language)
    assert mn.main(["doctor"]) == 0
    assert capsys.readouterr().out == nothing + "\n"
    change(path, "DELETE FROM trigrams WHERE rowid = 4")
    assert mn.main(["doctor"]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("⚠️")
    assert "python3 scripts/mn.py doctor --fix" in first
    assert mn.main(["doctor", "--fix"]) == 0
    assert closed in capsys.readouterr().out


def test_the_command_speaks_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(path, "DELETE FROM trigrams WHERE rowid = 4")
    assert mn.main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (finding,) = told["findings"]
    assert {"what", "severity", "where", "fix", "fixable"} <= set(finding)
    assert (told["exit_status"], told["usable"], told["mended"]) == (1, True, [])
    assert mn.main(["doctor", "--json", "--db", str(path.with_name("none.db"))]) == 2
    assert not json.loads(capsys.readouterr().out)["usable"]
    assert not path.with_name("none.db").exists()


def test_help_says_what_the_exit_status_means(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        mn.main(["doctor", "--help"])
    assert "Exit status: 0" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_locks_and_logs_that_others_can_open_are_named_and_mended(path: Path) -> None:
    logs = path.parent / "logs"
    logs.mkdir(mode=0o700)
    names = ("memory.db.keeper", "memory.db.reembed", "server.lock", "logs/server.log")
    for name in names:
        (path.parent / name).touch()
        (path.parent / name).chmod(0o644)
    named = {each.where for each in look().findings if each.name == "mode"}
    assert named == {str(path.parent / name) for name in names}
    look(fix=True)
    assert {(path.parent / name).stat().st_mode & 0o777 for name in names} == {0o600}


def test_what_can_be_read_is_written_into_a_new_file_and_counted(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(path, "CREATE TRIGGER evil AFTER INSERT ON chunks BEGIN DELETE FROM tags; END")
    assert "the trigger evil" in only(look(path)).what
    assert mn.main(["doctor", "--db", str(path), "--salvage", str(tmp_path / "saved.db")]) == 0
    said = capsys.readouterr().out
    assert "rows saved, 0 lost" in said
    assert str(tmp_path / "saved.db") in said
    assert mn.main(["doctor", "--db", str(path), "--salvage", str(tmp_path / "saved.db")]) == 2
    assert "is there already" in capsys.readouterr().err
