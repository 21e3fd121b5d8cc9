"""MneloClient against the real server."""

import ast
import gc
import http.server
import inspect
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mnelo_client
from access.validation import contract
from config import Config
from mnelo_client import MneloClient, MneloError, MneloUnavailable
from serving import ROOT, Served, serving

TOKEN = "s3cret-of-the-tests"  # noqa: S105

USERS_EXAMPLE = """\
import sys; sys.path.insert(0, 'api')
from mnelo_client import MneloClient
c = MneloClient()
c.remember('sh600089 build at 18.96', source='trading', importance=0.9)
for h in c.recall('sh600089 建仓', top_k=5):
    print(h['method'], h['chunk_id'], h['content'][:60])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server with a token, for all tests that leave it as it is."""
    with serving(tmp_path_factory.mktemp("served"), MNELO_AUTH_TOKEN=TOKEN) as served:
        yield served


@pytest.fixture(params=["/sse", "/mcp"])
def client(server: Served, request: pytest.FixtureRequest) -> Iterator[MneloClient]:
    with MneloClient(server.url + request.param, TOKEN) as opened:
        yield opened


def write_token(home: Path) -> None:
    file = home / ".config/mnelo/auth_token"
    file.parent.mkdir(parents=True)
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)


def run_python(code: str, folder: Path) -> str:
    """What a program prints that has its own process and makes an error of any warning."""
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=30, check=False, cwd=folder
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


# --- The user's example ----------------------------------------------------------------


def test_the_users_example_works_and_ends_in_silence(server: Served, tmp_path: Path) -> None:
    """Word for word, but for the port: a test cannot count on 8086."""
    write_token(tmp_path)
    code = USERS_EXAMPLE.replace("MneloClient()", f"MneloClient({server.url + '/sse'!r})")

    printed = run_python(code, ROOT)

    method, chunk_id, content = printed.splitlines()[0].split(" ", 2)
    assert method in ("vector", "graph", "meta", "entity")
    assert chunk_id.startswith("chunk_")
    assert content == "sh600089 build at 18.96"


def test_the_default_is_the_servers_default() -> None:
    default = inspect.signature(MneloClient).parameters["sse_url"].default

    assert default == f"http://127.0.0.1:{Config.load({}).server_port}/sse"


def test_the_file_works_alone_in_any_folder(tmp_path: Path) -> None:
    shutil.copy(ROOT / "api" / "mnelo_client.py", tmp_path)
    code = "import mnelo_client; mnelo_client.MneloClient(); print(mnelo_client.__file__)"

    assert run_python(code, tmp_path).strip() == str(tmp_path / "mnelo_client.py")


def test_the_file_needs_nothing_but_the_standard_library() -> None:
    read = ast.parse((ROOT / "api" / "mnelo_client.py").read_text("utf-8"))
    imports = [each for each in ast.walk(read) if isinstance(each, ast.Import | ast.ImportFrom)]
    modules = {
        (each.module or "") if isinstance(each, ast.ImportFrom) else name.name
        for each in imports
        for name in each.names
    }

    assert modules
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names


# --- The seven methods -----------------------------------------------------------------


def test_each_method_returns_what_its_caller_needs(client: MneloClient) -> None:
    chunk_id = client.remember(
        "The Riga depot opens on Mondays", tags=["depot"], entities=["riga-depot"]
    )
    relation_id = client.relate("riga-depot", "latvia", "located_in")
    new_id = client.update(chunk_id, "The Riga depot opens on Fridays")
    hits = client.recall("Riga depot", top_k=1)
    graph = client.graph_query("riga-depot", max_hops=1)

    assert hits[0]["chunk_id"] == new_id != chunk_id
    assert hits[0]["content"] == "The Riga depot opens on Fridays"
    assert isinstance(relation_id, int)
    assert {node["id"] for node in graph["nodes"]} >= {"riga-depot", "latvia"}
    assert client.forget(new_id)["forgotten"] == 1
    assert client.forget(str(relation_id), target_kind="relation")["forgotten"] == 1
    assert "chunks" in client.stats()


def test_the_arguments_and_defaults_are_those_of_the_tools() -> None:
    tools = contract(Config.load({}))
    for name, fields in tools.tools.items():
        method = getattr(MneloClient, name.removeprefix("memory_"))
        parameters = dict(inspect.signature(method).parameters)
        del parameters["self"]
        assert list(parameters) == list(fields.fields), name
        for argument, field in fields.fields.items():
            default = parameters[argument].default
            assert (default is inspect.Parameter.empty) == field.required
            if not field.required and not callable(field.default) and default != "":
                assert default == field.default, f"{name}.{argument}"


def test_the_tools_own_sentence_is_the_errors_text(client: MneloClient) -> None:
    with pytest.raises(MneloError) as refusal:
        client.recall("anything at all", top_k=1000)

    assert str(refusal.value) == "top_k must be a whole number from 1 to 100, not 1000."
    assert not isinstance(refusal.value, MneloUnavailable)


def test_a_request_that_is_too_large_says_so_and_the_next_one_works(client: MneloClient) -> None:
    """Over SSE it was refused unseen, and the call waited for its time-out."""
    with pytest.raises(MneloError, match="larger than mnelo at http"):
        client.remember("x" * (2 << 20))

    assert client.recall("x") is not None


def test_threads_may_share_one_client(client: MneloClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: client.remember(f"{id(client)} {n}"), range(24)))

    assert len(set(ids)) == 24


def test_half_an_emoji_is_stored_as_the_server_mends_it(client: MneloClient) -> None:
    client.remember("a joke that was cut off \ud83d")

    assert client.recall("joke cut off", top_k=1)[0]["content"] == "a joke that was cut off \ufffd"


def test_what_json_cannot_say_is_refused_at_once(client: MneloClient) -> None:
    with pytest.raises(ValueError, match="JSON"):
        client.remember("x", importance=float("nan"))
    with pytest.raises(TypeError, match="JSON"):
        client.recall("x", filters={"tags": {"a set"}})
    assert "chunks" in client.stats()


# --- The token -------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["MNELO_AUTH_TOKEN", "MNEOLO_AUTH_TOKEN"])
@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_the_token_is_found_in_the_variables_that_the_server_reads(
    server: Served, monkeypatch: pytest.MonkeyPatch, path: str, variable: str
) -> None:
    monkeypatch.setenv(variable, TOKEN)

    with MneloClient(server.url + path) as client:
        assert "chunks" in client.stats()


def test_the_token_is_found_in_the_file_that_the_server_reads(
    server: Served, tmp_path: Path
) -> None:
    write_token(tmp_path)

    with MneloClient(server.url + "/sse") as client:
        assert "chunks" in client.stats()


@pytest.mark.parametrize("path", ["/sse", "/mcp"])
@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_wrong_token_is_told_where_the_right_one_goes(
    server: Served, path: str, token: str | None
) -> None:
    with (
        MneloClient(server.url + path, token) as client,
        pytest.raises(MneloUnavailable, match=r"wants another token; .*MNELO_AUTH_TOKEN"),
    ):
        client.stats()


# --- What a server may do --------------------------------------------------------------


class Scripted(http.server.ThreadingHTTPServer):
    """A server that answers calls as a test tells it to: `reply` gets each message posted."""

    daemon_threads = True

    def __init__(self, reply: Callable[["Scripted", dict[str, Any]], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply = reply
        self.endpoint = "/pre/fix/in?session_id=1"
        self.posted: list[dict[str, Any]] = []
        self.clients: set[Any] = set()
        self.stream: Any = None
        self.url = f"http://127.0.0.1:{self.server_port}"

    def say(self, text: str) -> None:
        self.stream.write(text.encode())
        self.stream.flush()

    def answer(self, number: int, **result: Any) -> None:
        self.say(f"data: {json.dumps(replied(number, result))}\n\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def do_GET(self) -> None:
        self.server.stream = self.wfile
        self._head(200, "text/event-stream")
        self.server.say(
            f": hello\r\nretry: 5\r\n\r\nevent: endpoint\r\ndata: {self.server.endpoint}\r\n\r\n"
        )
        while self.rfile.read(1):
            """Until the client goes."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append(message)
        self.server.clients.add(self.client_address)
        if self.path == "/mcp":
            self.server.stream = self.wfile
            self._head(200, "text/event-stream")
            self.close_connection = True
        else:
            assert self.path == "/pre/fix/in?session_id=1"
            self._head(202, "text/plain", "0")
        self.server.reply(self.server, message)

    def _head(self, status: int, kind: str, length: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length:
            self.send_header("Content-Length", length)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def replied(number: int, content: dict[str, Any]) -> dict[str, Any]:
    result = {"content": [], "structuredContent": content}
    return {"jsonrpc": "2.0", "id": number, "result": result}


@contextmanager
def scripted(reply: Callable[[Scripted, dict[str, Any]], None]) -> Iterator[Scripted]:
    with Scripted(reply) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_reply_may_come_in_any_way_that_event_streams_allow() -> None:
    def reply(server: Scripted, message: dict[str, Any]) -> None:
        first, second = json.dumps(replied(message["id"], {"chunks": "中文"})).split(", ", 1)
        server.say('data: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n')
        server.say("event: of another kind\ndata: no JSON at all\n\n: a comment\nid: 7\n\n")
        server.say(f"event:message\rdata:{first},\rdata: {second}\r\rid\r\r")

    with scripted(reply) as server, MneloClient(server.url + "/pre/fix/sse") as client:
        assert client.stats() == client.stats() == {"chunks": "中文"}
        assert len(server.clients) == 1


def test_a_connection_that_lay_unused_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server closes it after a while, and what is posted just then would be lost."""
    monkeypatch.setattr(mnelo_client, "KEPT_SECONDS", 0.05)
    with (
        scripted(lambda server, message: server.answer(message["id"], chunks=1)) as server,
        MneloClient(server.url + "/pre/fix/sse") as client,
    ):
        client.stats()
        time.sleep(0.3)
        client.stats()
        assert len(server.clients) == 2


def test_a_reply_to_a_post_may_be_an_event_stream() -> None:
    with (
        scripted(lambda server, message: server.answer(message["id"], chunks=1)) as server,
        MneloClient(server.url + "/mcp") as client,
    ):
        assert client.stats() == client.stats() == {"chunks": 1}


def test_each_reply_finds_its_call_whatever_their_order() -> None:
    def reply(server: Scripted, message: dict[str, Any]) -> None:
        if len(server.posted) == 3:
            for each in reversed(server.posted):
                server.answer(each["id"], hits=[each["params"]["arguments"]])

    with (
        scripted(reply) as server,
        MneloClient(server.url + "/sse") as client,
        ThreadPoolExecutor(3) as pool,
    ):
        assert [hits[0]["query"] for hits in pool.map(client.recall, "abc")] == ["a", "b", "c"]


def test_a_ping_is_answered_and_any_other_request_refused() -> None:
    def reply(server: Scripted, message: dict[str, Any]) -> None:
        if "params" in message:
            server.say('data: {"jsonrpc": "2.0", "id": "a", "method": "ping"}\n\n')
            server.say('data: {"jsonrpc": "2.0", "id": "b", "method": "roots/list"}\n\n')
        elif message["id"] == "b":
            server.answer(server.posted[0]["id"], forgotten=1)

    with scripted(reply) as server, MneloClient(server.url + "/sse") as client:
        assert client.forget("x") == {"forgotten": 1}
    assert server.posted[1] == {"jsonrpc": "2.0", "id": "a", "result": {}}
    assert server.posted[2]["error"]["code"] == -32601


def test_the_token_is_not_sent_where_a_server_points_to_another_host() -> None:
    with scripted(lambda *_: None) as server, MneloClient(server.url + "/sse", TOKEN) as client:
        server.endpoint = "http://elsewhere.invalid/in"
        with pytest.raises(MneloUnavailable, match="it names another host"):
            client.stats()


@pytest.mark.parametrize("url", ["localhost:8086/sse", "ftp://localhost/sse", "http://:1/mcp"])
def test_what_is_no_url_is_told_so(url: str) -> None:
    with MneloClient(url) as client, pytest.raises(MneloUnavailable, match="no http://"):
        client.stats()


# --- A server that is away -------------------------------------------------------------


def test_a_client_goes_on_after_the_server_was_restarted(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        clients = [MneloClient(server.url + path) for path in ("/sse", "/mcp")]
        written = [client.remember("written before the restart") for client in clients]
        assert server.end() == 0
    with serving(tmp_path, "--port", str(server.port)):
        for client in clients:
            with client:
                assert [hit["chunk_id"] for hit in client.recall("restart")] == written[:1]
                assert client.remember("written before the restart") == written[0] == written[1]


@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_no_server_is_one_clear_line_with_the_url(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}{path}"
        with MneloClient(url) as client, pytest.raises(ConnectionError) as error:
            client.stats()

    assert isinstance(error.value, MneloUnavailable)
    assert str(error.value).startswith(f"mnelo at {url} cannot be reached: ")
    assert "\n" not in str(error.value)


def test_a_server_that_stays_silent_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/sse"
        with (
            MneloClient(url, timeout=0.3) as client,
            pytest.raises(MneloUnavailable, match=r"has not answered within 0\.3 s"),
        ):
            client.stats()


@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_a_closed_client_says_so_and_may_be_closed_again(server: Served, path: str) -> None:
    client = MneloClient(server.url + path, TOKEN)
    client.stats()

    client.close()
    client.close()

    assert _threads() == []
    with pytest.raises(MneloError, match="This MneloClient is closed"):
        client.stats()


@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_a_client_that_nobody_holds_any_more_closes_itself(server: Served, path: str) -> None:
    client = MneloClient(server.url + path, TOKEN)
    client.stats()
    assert _threads() != []

    del client
    gc.collect()

    assert _threads() == []


@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_a_call_that_was_given_up_leaves_no_thread_and_no_socket(path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}{path}"
        with MneloClient(url, timeout=0.3) as client, pytest.raises(MneloUnavailable):
            client.stats()
        with silent.accept()[0] as served:
            served.settimeout(5)
            while served.recv(65536):
                """The request; then the client's end of it is closed."""

    assert _threads() == []


def test_ctrl_c_ends_the_wait_and_the_program(server: Served) -> None:
    code = f"""if True:
        import os, signal, sys, threading, time
        sys.path.insert(0, {str(ROOT / "api")!r})
        from mnelo_client import MneloClient
        client = MneloClient({server.url + "/sse"!r}, {TOKEN!r})
        client.stats()
        client._line._session._give = lambda *_: None
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
        threading.Timer(0.3, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
        try:
            client.stats()
        except KeyboardInterrupt:
            print("interrupted")
    """

    assert run_python(code, ROOT) == "interrupted\n"


def _threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "mnelo-client"]


def test_closing_ends_a_call_that_another_thread_waits_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        client = MneloClient(f"http://127.0.0.1:{silent.getsockname()[1]}/sse", timeout=20)
        waiting = pool.submit(client.stats)
        with silent.accept()[0]:
            client.close()
            with pytest.raises(MneloError):
                waiting.result(5)


def test_the_client_speaks_chinese_where_its_reader_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh_CN")
    client = MneloClient()
    client.close()

    with pytest.raises(MneloError, match="此 MneloClient 已关闭"):
        client.stats()
