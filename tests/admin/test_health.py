"""The daily check: nine lines that say how things are, and leave them as they are."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import apsw
import pytest

import health_check
from admin import health
from admin.health import Check, Report
from config import ROOT, Config
from core import timestamps
from hash_embedder import HashEmbedder
from irregular import IRREGULAR, state
from memory import Memory
from mnelo_client import MneloClient
from serving import Served, environment, free_port, serving

TOKEN = "only-for-these-tests"  # noqa: S105
NAMES = list(health.CHECKS)
MARKS = ("✅", "⚠️", "🔴")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that asks for the token in its home, with some memories."""
    home = tmp_path_factory.mktemp("served")
    secret = home / ".config" / "mnelo" / "auth_token"
    secret.parent.mkdir(parents=True)
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    with serving(home) as running:
        with MneloClient(running.url + "/mcp", TOKEN) as client:
            for number in range(6):
                entity = {"id": f"boat{number}", "kind": "ship" if number % 2 else "ferry"}
                client.remember(f"the red boat number {number}", entities=[entity])
            client.recall("red boat")
        yield running


@pytest.fixture
def aimed(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The shell of the served memory's owner."""
    for name, value in environment(served.home, {}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(served.port))
    return served


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory of some notes with vectors, in a home where no server runs."""
    home = tmp_path / "home"
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    with Memory(home / "memory.db", load_model=lambda recorded: HashEmbedder()) as memory:
        memory.wait_for_model(None)
        memory.remember_many([{"content": f"note {n}", "entities": [f"e{n}"]} for n in range(25)])
    return home / "memory.db"


def change(path: Path, statement: str, *rows: Any) -> None:
    """Change a file behind mnelo's back."""
    with closing(apsw.Connection(str(path))) as db:
        db.executemany(statement, rows or [()])


def found(name: str, **settings: Any) -> Check:
    """One of the nine, as it is now."""
    report = health.look(Config.load(**settings))
    assert [check.name for check in report.checks] == NAMES
    assert all("\n" not in line and line.startswith(MARKS) for line in report.lines)
    return next(check for check in report.checks if check.name == name)


def ago(hours: float) -> str:
    return timestamps.stamp(datetime.now(timezone.utc) - timedelta(hours=hours))


def recalls(path: Path, *times: str, results: str = "[]") -> None:
    sql = """
        INSERT INTO recall_log (query, strategy, results_json, recall_details_json, graph_hops,
            latency_ms, client, created_at) VALUES ('q', 'rrf', ?, '[]', 2, 12.5, 'test', ?)
    """
    change(path, sql, *[(results, each) for each in times])


# --- The nine lines --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", ["running at", "Stored", "p50"]), ("zh", ["运行于", "记忆 6/6", "次，空结果"])],
)
def test_a_running_server_is_told_in_nine_lines(
    aimed: Served,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    language: str,
    words: list[str],
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", language)
    assert health_check.main(["--no-report"]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert (len(lines), told.err) == (9, "")
    assert all(line.startswith("✅ ") for line in lines)
    assert all(word in told.out for word in words)
    assert f"pid {aimed.process.pid}" in lines[0]


def test_json_says_the_same_in_numbers(aimed: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert health_check.main(["--no-report", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["status"], told["exit_status"], len(told["lines"])) == ("ok", 0, 9)
    checks = {check["name"]: check for check in told["checks"]}
    assert list(checks) == NAMES
    assert checks["server"]["pid"] == aimed.process.pid
    assert checks["counts"]["chunks"]["active"] == 6
    assert checks["recall_24h"]["count"] == 1
    assert checks["kinds"]["top"] == {"ferry": 0.5, "ship": 0.5}
    assert checks["model"]["state"] == "off"
    assert checks["model"]["lanes"] == ["graph", "meta", "entity"]
    assert checks["integrity"]["faults"] == {}


# --- The server ------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "word"), [("en", "DOWN"), ("zh", "未运行")])
def test_a_server_that_is_down_is_said_and_the_file_is_read(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    language: str,
    word: str,
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", language)
    assert health_check.main(["--no-report"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert lines[0].startswith("🔴")
    assert word in lines[0]
    assert "25/25" in lines[2]
    assert "test/hash" in lines[6]


def test_what_starts_it_is_the_service_where_one_is_installed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named the server's own command, which would run beside an installed service."""

    def hint() -> str:
        return health.look(Config.load(database_path=str(path))).checks[0].hint

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    assert hint() == "start it: python3 mcp_server.py"
    agent = tmp_path / "Library" / "LaunchAgents" / "ai.mnelo.mcp.plist"
    unit = tmp_path / "systemd" / "user" / "mnelo.service"
    for each, start in ((agent, "launchctl bootstrap "), (unit, "systemctl --user start mnelo")):
        each.parent.mkdir(parents=True)
        each.touch()
        monkeypatch.setattr(health, "service_file", lambda each=each: each)
        assert hint().startswith(f"start it: {start}")


class _Greeting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"name": "greeter", "status": "ok"}')

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing to stderr."""


@contextmanager
def another_program() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _Greeting) as program:
        threading.Thread(target=program.serve_forever, daemon=True).start()
        yield program.server_port
        program.shutdown()


@contextmanager
def no_http() -> Iterator[int]:
    """A program that says what it likes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as program:

        def chat() -> None:
            client, _ = program.accept()
            with client:
                client.recv(1000)
                client.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        threading.Thread(target=chat, daemon=True).start()
        yield program.getsockname()[1]


@pytest.mark.parametrize("program", [another_program, no_http])
def test_another_program_at_the_port_is_no_server(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, program: Any
) -> None:
    with program() as port:
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(port))
        assert health_check.main(["--no-report"]) == 2
    assert "another program" in capsys.readouterr().out.splitlines()[0]


def test_a_port_that_accepts_and_says_nothing_is_not_waited_for(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("access.running.ASK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(silent.getsockname()[1]))
        assert health_check.main(["--no-report"]) == 2
    assert "does not answer" in capsys.readouterr().out.splitlines()[0]


def test_a_server_with_another_file_is_said(
    path: Path, aimed: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert health_check.main(["--no-report", "--db", str(path)]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("⚠️")
    assert str(aimed.home / "memory.db") in first


def test_the_same_file_by_another_path_is_the_same(
    aimed: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_AUTH_TOKEN", TOKEN)  # tmp_path is a home without a token file
    (tmp_path / "link.db").symlink_to(aimed.home / "memory.db")
    assert found("server", database_path=str(tmp_path / "link.db")).status == "ok"


# --- The model, asked of the server ----------------------------------------------------


def test_a_model_that_is_wanted_but_off_is_said_with_its_reason(
    aimed: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "auto")
    assert health_check.main(["--no-report"]) == 1
    assert "no model is wanted" in capsys.readouterr().out.splitlines()[6]


def test_a_server_that_wants_another_token_keeps_its_state_to_itself(
    aimed: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_AUTH_TOKEN", "another-of-the-tests")
    assert health_check.main(["--no-report"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("⚠️ 🔌 Server — running at http")
    assert "takes another token" in lines[0]


# --- Everything that degrades ----------------------------------------------------------


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_a_day_of_recalls_is_24_hours_wherever_one_is(
    path: Path, tmp_path: Path, zone: str
) -> None:
    recalls(path, ago(1), ago(30))
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "health_check.py", "--no-report", "--json"],
        cwd=tmp_path,
        # A timer's shell may know no more than ASCII.
        env={**os.environ, "TZ": zone, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["recall_24h"]["count"] == 1


def test_recalls_that_mostly_find_nothing_are_said_when_there_are_enough(path: Path) -> None:
    recalls(path, *[ago(1)] * 19)
    assert found("recall_24h").status == "ok"
    recalls(path, ago(1))
    assert found("recall_24h").status == "degraded"
    assert "20 empty (100 %)" in found("recall_24h").text
    recalls(path, *[ago(1)] * 20, results='["chunk"]')
    assert found("recall_24h").status == "ok"


def test_one_kind_of_nearly_all_entities_gets_a_mark_and_no_more(path: Path) -> None:
    assert found("kinds").status == "notice"
    assert health.EXIT["notice"] == 0
    change(path, "UPDATE entities SET kind = 'ship' WHERE seq % 3 = 0")
    assert found("kinds").status == "ok"
    assert "concept 68%, ship 32%" in found("kinds").text


def test_memories_that_wait_for_vectors_for_an_hour_are_said(path: Path) -> None:
    change(path, "UPDATE chunks SET pending = 1 WHERE seq = 3")
    assert found("counts").status == "ok"
    old = (datetime.now(timezone.utc) - timedelta(hours=2)).strftime("%Y%m%dT%H%M%S000Z")
    change(path, "UPDATE chunks SET id = ? WHERE seq = 3", (f"chunk_{old}_0123456789ab",))
    assert found("counts").status == "degraded"
    assert "for 2 h 0 min" in found("counts").hint
    assert found("counts", embedder_model="none").status == "ok"


def test_a_log_that_is_not_brought_in_is_said(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("wal_autocheckpoint", 0)
        db.execute("INSERT INTO contexts VALUES (0, 0, 'x')")
        assert "the file alone would miss" in found("wal").text
        assert found("wal").status == "ok"
        db.execute("INSERT INTO contexts VALUES (0, 1, hex(zeroblob(35 << 20)))")
        assert found("wal").status == "degraded"
    assert found("wal").values["file_is_whole"]


def test_a_disk_is_tight_by_itself_or_for_the_file(path: Path) -> None:
    assert health.is_tight(400 << 20, 1 << 20)
    assert not health.is_tight(600 << 20, 1 << 20)
    assert health.is_tight(3 << 30, 2 << 30)
    assert found("sizes").values["db_bytes"] == path.stat().st_size


def test_a_fault_in_the_file_is_named(path: Path) -> None:
    change(path, "DELETE FROM postings WHERE chunk_seq = 3")
    check = found("integrity")
    assert check.status == "fault"
    assert check.values["faults"] == {"not in postings": 1}
    assert check.line.startswith("🔴")


def test_a_file_that_is_too_large_is_checked_in_part(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.0)
    check = found("integrity")
    assert (check.status, check.values["complete"]) == ("ok", False)
    assert "scripts/mn.py doctor" in check.text


def test_backups_are_said_to_be_off_missing_fresh_or_overdue(path: Path, tmp_path: Path) -> None:
    assert "not switched on" in found("backup").text
    daily = {"backup_every_hours": 24}
    assert found("backup", **daily).status == "ok", "the first is not due yet"
    change(path, "UPDATE chunks SET created_at = ?", (ago(30),))
    assert found("backup", **daily).status == "degraded"
    folder = path.parent / "backups"
    folder.mkdir()
    for hours, status in ((60, "degraded"), (3, "ok")):
        taken = datetime.now(timezone.utc) - timedelta(hours=hours)
        shutil.copyfile(path, folder / taken.strftime("memory-%Y%m%dT%H%M%SZ.db"))
        assert found("backup", **daily).status == status
    assert "3 h 0 min old" in found("backup").text


# --- Leaving no trace ------------------------------------------------------------------


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        each.name: (each.stat().st_mtime_ns, each.read_bytes())
        for each in folder.iterdir()
        if each.is_file() and not each.name.endswith("-shm")
    }


@pytest.mark.parametrize("existing", [True, False])
def test_nothing_is_made_where_nothing_is(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    existing: bool,
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(free_port()))
    home = tmp_path / "home"
    if existing:
        home.mkdir()
    assert health_check.main(["--no-report"] if existing else []) == 2
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 9
    assert "there is no" in told.out.splitlines()[8]
    assert list(tmp_path.rglob("*")) == ([home] if existing else [])


def test_a_file_that_nobody_uses_stays_as_it_is(path: Path) -> None:
    before = listing(path.parent)
    found("integrity")
    assert listing(path.parent) == before


def test_a_log_that_a_killed_program_left_stays_where_it_is(path: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE chunks SET importance = 0.7")
        for each in ("memory.db", "memory.db-wal"):
            shutil.copyfile(path.with_name(each), left / each)
    before = listing(left)
    assert before["memory.db-wal"][1]
    check = found("integrity", database_path=str(left / "memory.db"))
    assert check.status == "ok"
    assert listing(left) == before


def test_whoever_writes_is_neither_waited_for_nor_held_up(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("BEGIN IMMEDIATE")
        assert found("integrity").status == "ok"
        db.execute("ROLLBACK")


def test_a_file_of_another_program_is_not_read(tmp_path: Path, path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary " * 100)
    check = found("integrity", database_path=str(tmp_path / "diary.txt"))
    assert check.status == "down"
    assert "is not a mnelo memory" in check.line


# --- The report ------------------------------------------------------------------------


def test_the_report_is_kept_for_its_owner_and_the_oldest_go(
    aimed: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = aimed.home / "cron" / "output"
    folder.mkdir(parents=True, mode=0o700)
    for suffix in ("txt", "json"):
        for minute in range(65):
            name = f"mnelo_daily_check_20200101_{minute // 60:02}{minute % 60:02}00.{suffix}"
            (folder / name).touch()
    assert health_check.main([]) == 0
    shown = capsys.readouterr().out.splitlines()
    texts = {}
    for suffix in ("txt", "json"):
        files = sorted(folder.glob(f"mnelo_daily_check_*.{suffix}"))
        assert len(files) == 60
        assert files[0].name == f"mnelo_daily_check_20200101_000600.{suffix}"
        assert files[-1].stat().st_mode & 0o777 == 0o600
        texts[suffix] = files[-1].read_text("utf-8")
    assert texts["txt"].splitlines() == json.loads(texts["json"])["lines"] == shown
    shutil.rmtree(aimed.home / "cron")
    assert health_check.main([]) == 0
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_report_that_cannot_be_written_is_one_line_and_no_fault(
    aimed: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    cron = aimed.home / "cron"
    shutil.rmtree(cron, ignore_errors=True)
    cron.write_text("a file is in the way")
    assert health_check.main([]) == 0
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "could not be written" in told.err
    cron.unlink()


def test_a_wrong_setting_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", "many")
    assert health_check.main([]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="neither modes nor pipes")
@pytest.mark.parametrize("irregular", IRREGULAR)
def test_a_report_replaces_nothing_that_is_no_file(
    irregular: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin.health.time.strftime", lambda form: "mnelo_daily_check_20260101_0")
    folder = tmp_path / "cron" / "output"
    folder.mkdir(parents=True)
    place = folder / "mnelo_daily_check_20260101_0.txt"
    irregular(place)
    before = state(place)
    with pytest.raises(OSError, match="not a regular file"):
        health.write_report(Report([Check("a", "ok", "all is well", "", {})]), tmp_path)
    assert state(place) == before


@pytest.mark.skipif(sys.platform == "win32", reason="neither modes nor pipes")
def test_a_link_among_the_reports_is_neither_counted_nor_removed(tmp_path: Path) -> None:
    folder = tmp_path / "cron" / "output"
    folder.mkdir(parents=True)
    names = [f"mnelo_daily_check_2020010{day}_000000.txt" for day in range(9)]
    for name in names:
        (folder / name).symlink_to(tmp_path / "elsewhere")
    for number in range(health.REPORTS):
        (folder / f"mnelo_daily_check_20210101_{number:06}.txt").touch()
    health.write_report(Report([Check("a", "ok", "all is well", "", {})]), tmp_path)
    reports = list(folder.glob("*.txt"))
    assert sum(not each.is_symlink() for each in reports) == health.REPORTS
    assert sum(each.is_symlink() for each in reports) == 9
