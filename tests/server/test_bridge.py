"""The stdio bridge: as a process of its own, as clients start it, and in this one where a
test needs a server that does what mnelo's never would.
"""

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from config import Config
from irregular import IRREGULAR, state
from server import bridge
from serving import ROOT, SERVER, STUCK, Served, environment, free_port, serving

TOKEN = "s3cret-of-the-tests"  # noqa: S105
WRONG = {"MNELO_AUTH_TOKEN": "another-of-the-tests"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that listens already, for all tests that leave it as it is."""
    with serving(tmp_path_factory.mktemp("served")) as served:
        yield served


def request(method: str, number: int | str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HELLO = request(
    "initialize",
    0,
    protocolVersion="2025-06-18",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)


def remember(content: str, number: int | str = 1) -> dict[str, Any]:
    return request("tools/call", number, name="memory_remember", arguments={"content": content})


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in messages)


def command(port: int, *arguments: str) -> list[str]:
    bridging = ["--transport", "stdio", "--port", str(port), *arguments]
    return [sys.executable, "-W", "error", *SERVER, *bridging]


def start(home: Path, port: int, *arguments: str, **env: str) -> "subprocess.Popen[bytes]":
    """A bridge; no pipe of its has an encoding that could write Chinese."""
    narrow = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    return subprocess.Popen(
        command(port, *arguments),
        env=environment(home, {**narrow, **env}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: "subprocess.Popen[bytes]", sent: bytes = b"") -> tuple[dict[Any, Any], str]:
    """The replies by their ids, and what was said on stderr, once stdin has been closed."""
    out, said = process.communicate(sent, timeout=30)
    assert process.returncode == 0, said
    replies = [json.loads(line) for line in out.splitlines()]
    assert len({json.dumps(reply["id"]) for reply in replies}) == len(replies)
    return {reply["id"]: reply for reply in replies}, said.decode()


def pipe(
    home: Path, port: int, *messages: dict[str, Any], **env: str
) -> tuple[dict[Any, Any], str]:
    return finish(start(home, port, **env), lines(*messages))


def read(process: "subprocess.Popen[bytes]", *messages: dict[str, Any]) -> dict[str, Any]:
    """Send, and read one reply, of a bridge that goes on."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(lines(*messages))
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


def health(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
        return dict(json.load(reply))


@contextmanager
def ending_what_was_started(port: int) -> Iterator[None]:
    """A server that a bridge starts outlives the bridge, but not the test."""
    try:
        yield
    finally:
        with suppress(OSError):
            end(health(port)["pid"])


def end(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").exists() and " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} does not end")


# --- A server that runs ----------------------------------------------------------------


def test_every_reply_is_written_when_stdin_closes_right_after_the_requests(
    server: Served,
) -> None:
    replies, said = pipe(server.home, server.port, HELLO, remember("北门 opens at six", "one"))

    assert replies[0]["result"]["serverInfo"]["name"] == "mnelo"
    assert replies[0]["result"]["protocolVersion"] == "2025-06-18"
    assert replies["one"]["result"]["structuredContent"]["status"] in ("stored", "exists")
    assert said == ""


def test_text_of_any_script_comes_through_whatever_the_locale(server: Served) -> None:
    pipe(server.home, server.port, remember("仓库 naïve 🟢 \u2028 line"))
    asked = request("tools/call", 1, name="memory_recall", arguments={"query": "仓库"})
    replies, _ = pipe(server.home, server.port, asked)

    hits = replies[1]["result"]["structuredContent"]["hits"]
    assert hits[0]["content"] == "仓库 naïve 🟢 \u2028 line"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_clients_of_either_protocol_work_through_it(server: Served, mode: str) -> None:
    async def session() -> tuple[str, Any, Any]:
        program, *arguments = command(server.port)
        env = environment(server.home, {})
        parameters = StdioServerParameters(command=program, args=arguments, env=env)
        async with Client(parameters, mode=mode) as client:
            tools = (await client.list_tools()).tools
            given = {"content": f"via {mode}", "entities": ["北门"]}
            stored = await client.call_tool("memory_remember", given)
            # Its name goes into a header, which no Chinese fits in as it is.
            assert (await client.read_resource("memory://entity/北门")).contents
            return client.protocol_version, tools, stored.structured_content

    version, tools, stored = asyncio.run(session())

    assert version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
    assert len(tools) == 7
    assert stored["status"] == "stored"


def test_numbers_and_texts_are_different_ids_and_replies_need_no_order(server: Served) -> None:
    asked = [remember(f"thing {number}", number) for number in range(20)]
    replies, _ = pipe(server.home, server.port, *asked, remember("thing one", "1"))

    assert set(replies) == {*range(20), "1"}
    assert all("result" in reply for reply in replies.values())


def test_what_is_no_request_is_refused_by_the_server_and_the_rest_goes_on(server: Served) -> None:
    answer = {"jsonrpc": "2.0", "id": 5, "result": {}}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    sent = b"\n[[[\n" + lines(answer, note, remember("after it all", 6))

    replies, said = finish(start(server.home, server.port), sent)

    assert replies[None]["error"]["code"] == -32700
    assert "result" in replies[6]
    assert set(replies) == {None, 6}
    assert said == ""


def test_a_request_that_is_too_large_says_so(server: Served) -> None:
    replies, _ = pipe(server.home, server.port, remember("x" * (2 << 20)), remember("y", 2))

    assert replies[1]["error"]["message"].startswith("The request is larger than mnelo at http")
    assert "result" in replies[2]


def test_a_bridge_loads_nothing_of_the_servers_libraries(server: Served) -> None:
    code = (
        "import sys, mcp_server; mcp_server.main(sys.argv[1:]);"
        "heavy = {'mcp', 'uvicorn', 'starlette', 'anyio', 'apsw', 'numpy', 'memory', 'pydantic'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *command(server.port)[4:]],
        env=environment(server.home, {"PYTHONPATH": str(ROOT)}),
        input=lines(HELLO),
        capture_output=True,
        check=True,
        timeout=20,
    )

    assert b'"serverInfo"' in ran.stdout
    assert ran.stderr.decode().strip() == "[]"


def test_an_interrupt_ends_it_without_a_word(server: Served) -> None:
    process = start(server.home, server.port)
    assert "result" in read(process, HELLO)

    process.send_signal(signal.SIGINT)

    out, said = process.communicate(timeout=5)
    assert (out, said) == (b"", b"")
    assert server.health()


def test_a_client_that_no_longer_reads_ends_it_without_a_word(server: Served) -> None:
    process = start(server.home, server.port)
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with process.stdin, process.stderr:
        process.stdout.close()
        process.stdin.write(lines(HELLO))
        process.stdin.flush()
        assert process.wait(5) == 0
        assert process.stderr.read() == b""


def test_a_cancelled_request_is_given_up_and_gets_no_reply(tmp_path: Path) -> None:
    with serving(tmp_path, program=STUCK) as stuck:
        process = start(tmp_path, stuck.port)
        assert process.stdin
        asked = request("tools/call", 7, name="memory_recall", arguments={"query": "slow"})
        process.stdin.write(lines(asked))
        process.stdin.flush()
        while "asked" not in stuck.stderr():
            time.sleep(0.02)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        replies, said = finish(
            process, lines({**cancel, "params": {"requestId": 7}}, remember("next", 8))
        )

    assert set(replies) == {8}
    assert said == ""


# --- The token -------------------------------------------------------------------------


def test_the_token_is_found_as_the_server_finds_it(tmp_path: Path) -> None:
    file = tmp_path / ".config/mnelo/auth_token"
    file.parent.mkdir(parents=True)
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    with serving(tmp_path) as guarded:
        replies, said = pipe(tmp_path, guarded.port, HELLO)
        assert "result" in replies[0]
        assert said == ""

        replies, said = pipe(tmp_path, guarded.port, HELLO, remember("x"), **WRONG)

    told = f"mnelo at {guarded.url} wants another token; set MNELO_AUTH_TOKEN or write it to "
    assert replies[0]["error"]["message"].startswith(told)
    assert replies[1]["error"] == replies[0]["error"]
    assert said.startswith(told)
    assert said.count("\n") == 1


# --- A server that does not run yet, or no more -----------------------------------------


def test_it_starts_a_server_that_stays_and_another_when_that_is_gone(tmp_path: Path) -> None:
    port = free_port()
    with ending_what_was_started(port):
        process = start(tmp_path, port)
        assert "result" in read(process, HELLO, remember("kept for later", 1))
        read(process)
        first = health(port)

        assert Path(first["database"]) == tmp_path / "memory.db"
        assert os.getsid(first["pid"]) == first["pid"] != os.getsid(0)
        assert "🟢 MCP server ready" in (tmp_path / "logs/server.log").read_text("utf-8")

        end(first["pid"])
        asked = request("tools/call", 2, name="memory_recall", arguments={"query": "later"})
        found = read(process, asked)

        assert found["result"]["structuredContent"]["hits"][0]["content"] == "kept for later"
        second = health(port)["pid"]
        assert second != first["pid"]
        assert finish(process) == ({}, "")
        assert health(port)["pid"] == second


def test_two_bridges_at_once_start_one_server(tmp_path: Path) -> None:
    port = free_port()
    with ending_what_was_started(port):
        both = [start(tmp_path, port) for _ in range(2)]
        for process in both:
            assert process.stdin
            process.stdin.write(lines(HELLO))
            process.stdin.flush()
        for process in both:
            replies, said = finish(process)
            assert "result" in replies[0]
            assert said == ""

        log = (tmp_path / "logs/server.log").read_text("utf-8")
    assert log.count("MCP server ready") == 1
    assert "taken" not in log


def test_a_server_that_cannot_start_says_why_at_once(tmp_path: Path) -> None:
    (tmp_path / "memory.db").write_text("not a database, but long enough to look at" * 100)
    replies, said = pipe(tmp_path, free_port(), HELLO, remember("x"))

    told = replies[0]["error"]["message"]
    assert told.startswith("The mnelo server could not be started: ")
    assert "memory.db" in told
    assert replies[1]["error"]["message"] == told
    assert said == told + "\n"


def test_a_mnelo_with_another_database_is_one_clear_error(server: Served, tmp_path: Path) -> None:
    replies, said = pipe(tmp_path, server.port, HELLO, remember("for another file"))

    told = (
        f"mnelo at {server.url} has the database {server.home}/memory.db, "
        f"not {tmp_path}/memory.db; choose another --port or --db."
    )
    assert replies[0]["error"] == {"code": bridge.UNAVAILABLE, "message": told}
    assert replies[1]["error"]["message"] == told
    assert said == told + "\n"


def test_the_same_database_by_another_path_is_the_same(server: Served, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(server.home)
    other = str(tmp_path / "link" / "memory.db")

    replies, _ = finish(start(tmp_path, server.port, "--db", other), lines(HELLO))

    assert "result" in replies[0]


# --- In this process -------------------------------------------------------------------


def talk(port: int, home: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    config = Config.load({"MNELO_HOME": str(home)}, server_port=port)
    out = io.BytesIO()
    bridge.Bridge(bridge.Finder(config, None, None), None, out).pass_on(
        lines(*messages).splitlines(keepends=True)
    )
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_program_that_never_answers_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bridge, "START_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (reply,) = talk(port, tmp_path, HELLO)

    told = f"mnelo at http://127.0.0.1:{port} has not answered within 0.3 s; its log is {tmp_path}"
    assert reply["error"]["message"].startswith(told)
    assert capsys.readouterr().err.startswith(told)


def test_a_program_that_does_not_speak_http_is_not_mnelo(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_greet, args=(listener,))
        thread.start()
        (reply,) = talk(listener.getsockname()[1], tmp_path, HELLO)
        thread.join()

    assert "is not mnelo; end it or choose another --port." in reply["error"]["message"]


def _greet(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def pretending(answer: Answer) -> Iterator[int]:
    """The port of an HTTP server that answers every request that way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield other.server_port
        finally:
            other.shutdown()
            thread.join()


def tell(handler: BaseHTTPRequestHandler, status: int, body: object) -> None:
    handler.send_response(status)
    handler.end_headers()
    handler.wfile.write(json.dumps(body).encode())


def test_another_web_server_is_not_mnelo(tmp_path: Path) -> None:
    with pretending(lambda handler: tell(handler, 200, {"name": "other"})) as port:
        (reply,) = talk(port, tmp_path, HELLO)

    assert reply["error"]["message"].startswith(f"The program at http://127.0.0.1:{port} is not")


def test_a_request_that_is_lost_twice_is_not_tried_again(tmp_path: Path) -> None:
    posted = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/health":
            tell(handler, 200, {"name": "mnelo", "database": str(tmp_path / "memory.db")})
        else:
            posted.append(handler.path)

    with pretending(answer) as port:
        (reply,) = talk(port, tmp_path, HELLO)

    assert posted == ["/mcp", "/mcp"]
    assert "ended twice before it answered" in reply["error"]["message"]


def test_requests_after_the_handshake_name_its_version(tmp_path: Path) -> None:
    named = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/health":
            tell(handler, 200, {"name": "mnelo", "database": str(tmp_path / "memory.db")})
            return
        named.append(handler.headers["MCP-Protocol-Version"])
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        told = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18"}}
        handler.wfile.write(b"data: " + lines(told) + b"\r\n")

    with pretending(answer) as port:
        talk(port, tmp_path, HELLO, request("tools/list", 1), HELLO)

    assert sorted(named, key=str) == ["2025-06-18", None, None]


def test_a_server_that_is_ending_is_waited_for(tmp_path: Path) -> None:
    statuses = iter([503, 503, 200])

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/health":
            known = {"name": "mnelo", "database": str(tmp_path / "memory.db")}
            tell(handler, next(statuses, 200), known)
        else:
            tell(handler, 200, {"jsonrpc": "2.0", "id": "server-error", "result": {"fine": 1}})

    with pretending(answer) as port:
        (reply,) = talk(port, tmp_path, request("ping", 4))

    assert reply == {"jsonrpc": "2.0", "id": 4, "result": {"fine": 1}}
    assert next(statuses, None) is None


def test_progress_comes_through_before_the_reply(tmp_path: Path) -> None:
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/health":
            tell(handler, 200, {"name": "mnelo", "database": str(tmp_path / "memory.db")})
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for told in (progress, {"jsonrpc": "2.0", "id": 4, "result": {}}):
            handler.wfile.write(b": ping\r\n\r\ndata: " + lines(told).strip() + b"\r\n\r\n")

    with pretending(answer) as port:
        replies = talk(port, tmp_path, request("tools/call", 4))

    assert replies == [progress, {"jsonrpc": "2.0", "id": 4, "result": {}}]


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_its_lock_and_the_servers_logs_are_the_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask, and also those that were there before."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for file in (tmp_path / "server.lock", logs / "server.log", logs / "mcp.log"):
        file.touch()
        file.chmod(0o666)
    port = free_port()
    before = os.umask(0)
    try:
        with ending_what_was_started(port):
            process = start(tmp_path, port)
            assert 0 in finish(process, lines(HELLO))[0]
    finally:
        os.umask(before)
    private = [tmp_path / "server.lock", logs / "server.log", logs / "mcp.log"]
    private.append(tmp_path / "memory.db.keeper")
    assert {each.stat().st_mode & 0o777 for each in private if each.exists()} == {0o600}


@pytest.mark.skipif(sys.platform == "win32", reason="neither modes nor pipes")
@pytest.mark.parametrize("irregular", IRREGULAR)
@pytest.mark.parametrize("name", ["server.lock", "logs/server.log"])
def test_neither_lock_nor_log_is_written_where_no_file_is(
    name: str, irregular: Callable[[Path], None], tmp_path: Path
) -> None:
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    irregular(place)
    before = [each for each in state(place) if str(place.parent) in each[0]]
    answers = talk(free_port(), tmp_path, HELLO)
    assert "not a regular file" in answers[0]["error"]["message"]
    left = [each for each in state(place) if not each[0].endswith("server.lock")]
    assert left == [each for each in before if not each[0].endswith("server.lock")]
