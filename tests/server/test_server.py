"""The server as a process: every test talks to a real one over its port."""

import asyncio
import http.client
import json
import logging
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import httpx2
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification, JSONRPCRequest
from starlette.datastructures import Headers

import mcp_server
from access.address import listen
from config import Config
from memory import Memory
from server import tools, transport
from server.server import Lines
from server.tools import build_server
from server.transport import Hosts
from serving import STUCK, Served, run, serving

T = TypeVar("T")
TOKEN = "s3cret-of-the-tests"  # noqa: S105
EVERYWHERE = "0.0.0.0"  # noqa: S104

TRANSPORTS = pytest.mark.parametrize("path", ["/sse", "/mcp"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without a token, for all tests that leave it as it is."""
    with serving(tmp_path_factory.mktemp("open")) as served:
        yield served


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a token, found in the variable under its old spelling."""
    with serving(tmp_path_factory.mktemp("guarded"), MNEOLO_AUTH_TOKEN=TOKEN) as served:
        yield served


# --- Speaking MCP ----------------------------------------------------------------------


def talk(url: str, say: Callable[[Client], Awaitable[T]], token: str = "", mode: str = "auto") -> T:
    """What `say` returns, which speaks to the server at this URL."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def session() -> T:
        async with httpx2.AsyncClient(headers=headers) as http:
            is_sse = url.endswith("/sse")
            transport = (
                sse_client(url, headers)
                if is_sse
                else streamable_http_client(url, http_client=http)
            )
            async with Client(transport, mode=mode) as client:
                return await say(client)

    return asyncio.run(session())


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


@TRANSPORTS
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_memory_can_be_stored_found_replaced_and_forgotten(
    server: Served, path: str, mode: str
) -> None:
    place = f"Depot {path} {mode}"

    async def life(client: Client) -> list[str]:
        first = await ask(client, "memory_remember", content=f"{place} opens on Mondays")
        second = await ask(
            client,
            "memory_update",
            old_id=first["chunk_id"],
            new_content=f"{place} opens on Fridays",
        )
        found = await ask(client, "memory_recall", query=place, top_k=1)
        gone = await ask(client, "memory_forget", target_id=second["new_chunk_id"])
        after = await ask(client, "memory_recall", query=f'"{place}"', top_k=1)
        assert gone["forgotten"] == 1
        assert all(place not in hit["content"] for hit in after["hits"])
        return [hit["content"] for hit in found["hits"]]

    assert talk(server.url + path, life, mode=mode) == [f"{place} opens on Fridays"]


@TRANSPORTS
def test_the_list_of_tools_stays_small_on_the_wire(server: Served, path: str) -> None:
    listing = post(server, path, request("tools/list"))

    compact = json.dumps(listing["result"], ensure_ascii=False, separators=(",", ":"))
    assert len(listing["result"]["tools"]) == 7
    assert len(compact.encode()) < 8000


def test_small_packets_do_not_wait_to_gather(tmp_path: Path) -> None:
    """Nagle's algorithm once held every reply over SSE back for 40 ms: asyncio turns it off only
    where a listener is named as TCP. How long a call takes, scripts/benchmark_serve.py measures."""
    config = Config.load({"MNELO_HOME": str(tmp_path)})

    async def accepted() -> int:
        taken = asyncio.get_running_loop().create_future()
        with closing(listen(config, None, 0)) as listener:
            serving_it = await asyncio.start_server(
                lambda _, out: taken.set_result(out), sock=listener
            )
            async with serving_it:
                _, writer = await asyncio.open_connection(*listener.getsockname())
                sock = (await taken).get_extra_info("socket")
                told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                (await taken).close()
                writer.close()
        return int(told)

    assert asyncio.run(accepted())


def test_two_hosts_are_none_and_a_remote_server_has_pages_of_its_own() -> None:
    local, remote = Hosts(frozenset({"localhost"})), Hosts(frozenset({"localhost"}), remote=True)
    twice = Headers(raw=[(b"host", b"localhost"), (b"host", b"elsewhere")])
    own = Headers({"host": "10.0.0.5:8086", "origin": "http://10.0.0.5:8086"})
    refused = local.refuse(twice)
    assert refused
    assert refused.status_code == 421
    assert local.refuse(own)
    assert remote.refuse(own) is None


# --- Speaking HTTP ---------------------------------------------------------------------


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: str


def send(server: Served, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
    """One plain HTTP request; `Content_Type="..."` sets that header."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(server.host, server.port, timeout=5)) as connection:
        connection.request(method, path, body, names)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read().decode())


def post(server: Served, path: str, message: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The reply to one JSON-RPC message that is sent over Streamable HTTP."""
    accept = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    answer = send(server, "POST", path, json.dumps(message), **accept, **headers)
    assert answer.status == 200, answer
    (data,) = [line[6:] for line in answer.body.splitlines() if line.startswith("data: ")]
    return dict(json.loads(data))


def test_health_answers_who_and_what_this_is(server: Served) -> None:
    health = server.health()

    assert health["name"] == "mnelo"
    assert health["status"] == "ok"
    assert health["pid"] == server.process.pid
    assert Path(health["database"]) == server.home / "memory.db"
    assert health["uptime_s"] >= 0
    assert health["version"]


@pytest.mark.parametrize("path", ["/health", "/metrics", "/sse", "/mcp", "/messages/", "/nothing"])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "10.0.0.1"]
)
def test_a_request_for_another_host_is_refused_on_every_path(
    server: Served, path: str, host: str
) -> None:
    assert send(server, "GET", path, Host=host).status == 421


@pytest.mark.parametrize("path", ["/health", "/metrics", "/sse", "/mcp", "/messages/", "/nothing"])
@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "http://127.0.0.1.evil.example", "http://127.0.0.1@evil.example"),
        *("null", "file://", "localhost", "chrome-extension://localhost"),
    ],
)
def test_a_web_page_from_elsewhere_is_refused_on_every_path(
    server: Served, path: str, origin: str
) -> None:
    assert send(server, "GET", path, Origin=origin).status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8086", "LOCALHOST:8086"])
def test_the_names_of_this_machine_are_welcome(server: Served, host: str) -> None:
    assert send(server, "GET", "/health", Host=host, Origin=f"http://{host}").status == 200


@pytest.mark.parametrize("path", ["/", "/register", "/.well-known/oauth-protected-resource"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_404_with_and_without_a_token(
    server: Served, guarded: Served, method: str, path: str
) -> None:
    """Where a 401 answered, clients took it for a sign of OAuth and went looking for a login."""
    assert send(server, method, path).status == 404
    assert send(guarded, method, path).status == 404


def test_a_remote_server_answers_to_addresses_but_to_no_other_name() -> None:
    """No web page can point an address elsewhere; but a page at one is still not ours."""
    hosts = transport.Hosts(frozenset({"mybox"}), remote=True)

    assert hosts.refuse(Headers({"host": "192.0.2.7:8086"})) is None
    assert hosts.refuse(Headers({"host": "MyBox:8086", "origin": "http://mybox:8086"})) is None
    assert hosts.refuse(Headers({"host": "mybox", "origin": "https://mybox"})) is None
    for headers in ({"host": "evil.example"}, {}):
        refusal = hosts.refuse(Headers(headers))
        assert refusal is not None
        assert refusal.status_code == 421
    refusal = hosts.refuse(Headers({"host": "192.0.2.7", "origin": "http://198.51.100.1"}))
    assert refusal is not None
    assert refusal.status_code == 403


# --- Web pages -------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/metrics", "/sse", "/mcp", "/messages/"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_page_of_another_port_of_this_machine_may_not_ask(
    server: Served, method: str, path: str
) -> None:
    """Any page of http://localhost:3000 could once call every tool, though not read the answer."""
    for page in ("http://localhost:3000", "http://localhost", f"http://127.0.0.1:{server.port}"):
        answer = send(server, method, path, Host=f"localhost:{server.port}", Origin=page)
        assert answer.status == 403, page
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("path", ["/health", "/metrics", "/sse", "/mcp"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "nonsense"])
def test_an_image_or_a_link_of_another_page_which_names_no_origin_may_not_ask_either(
    server: Served, path: str, site: str
) -> None:
    assert send(server, "GET", path, Sec_Fetch_Site=site).status == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_page_of_this_server_may_ask_and_a_person_at_the_address_bar(
    server: Served, site: str
) -> None:
    own = {"Host": f"localhost:{server.port}", "Sec_Fetch_Site": site}
    assert send(server, "GET", "/health", **own).status == 200
    own["Origin"] = f"http://localhost:{server.port}"
    assert post(server, "/mcp", request("tools/list"), **own)["result"]["tools"]


@pytest.mark.parametrize("name", ["origin", "sec-fetch-site"])
def test_each_of_two_headers_that_tell_of_a_page_is_judged(name: str) -> None:
    """It is not enough that the first one is ours."""
    good, bad = {"origin": (b"http://localhost", b"http://evil.example")}.get(
        name, (b"same-origin", b"cross-site")
    )
    hosts = transport.Hosts(frozenset({"localhost"}))
    for pair in ((good, bad), (bad, good)):
        headers = [(b"host", b"localhost"), *((name.encode(), each) for each in pair)]
        refusal = hosts.refuse(Headers(raw=headers))
        assert refusal is not None
        assert refusal.status_code == 403
    assert hosts.refuse(Headers(raw=[(b"host", b"localhost"), (name.encode(), good)])) is None


# --- In our words ----------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["application/json", "application/*", "application/json;q=0.9"])
@pytest.mark.parametrize("mode", ["legacy", "modern"])
def test_a_client_that_takes_only_json_gets_its_answer_as_json(
    server: Served, accept: str, mode: str
) -> None:
    headers = {"Content_Type": "application/json", "Accept": accept}
    asked = request("tools/list")
    if mode == "modern":
        headers |= {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/list"}
        prefix = "io.modelcontextprotocol/"
        asked["params"]["_meta"] = {
            prefix + "protocolVersion": "2026-07-28",
            prefix + "clientInfo": {"name": "test", "version": "1"},
            prefix + "clientCapabilities": {},
        }

    answer = send(server, "POST", "/mcp", json.dumps(asked), **headers)

    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json"), answer
    assert len(json.loads(answer.body)["result"]["tools"]) == 7


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*", "text/*", None])
def test_a_client_that_takes_a_stream_gets_one_whatever_else_it_names(
    server: Served, accept: str | None
) -> None:
    headers = {"Content_Type": "application/json"} | ({"Accept": accept} if accept else {})
    answer = send(server, "POST", "/mcp", json.dumps(request("tools/list")), **headers)

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")


def test_a_client_that_takes_neither_is_told_so_in_one_sentence(server: Served) -> None:
    headers = {"Content_Type": "application/json", "Accept": "text/html, image/png"}
    answer = send(server, "POST", "/mcp", json.dumps(request("tools/list")), **headers)

    assert answer.status == 406
    assert json.loads(answer.body)["error"].startswith("mnelo answers in application/json or ")


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        *((each, -32700) for each in ("[[[", "", "\ud800", "[" * 100_000, "{'a': 1}")),
        *((each, -32600) for each in ("{}", "[]", "5", '{"jsonrpc": "2.0", "id": {}}')),
        ('{"jsonrpc": "2.0", "id": 1, "method": 5, "params": []}', -32600),
    ],
)
def test_what_is_no_message_is_refused_in_our_own_words(
    server: Served, path: str, body: str, code: int
) -> None:
    """Clients once read of "8 validation errors for union[JSONRPCRequest,..."."""
    sent = body.encode("utf-8", "surrogatepass").decode("latin-1")
    kind = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    answer = send(server, "POST", path, sent, **kind)

    assert answer.status == 400
    error = json.loads(answer.body)["error"]
    assert error["code"] == code
    assert error["message"] in {
        "The request is no JSON that mnelo can read.",
        "The request is no JSON-RPC message: one object with jsonrpc, method and id.",
    }


def test_a_wrong_method_is_told_the_right_one(server: Served) -> None:
    answers = {path: send(server, "DELETE", path) for path in ("/mcp", "/sse", "/health")}

    assert {answer.status for answer in answers.values()} == {405}
    assert answers["/sse"].headers["Allow"] == "GET, POST"
    assert send(server, "GET", "/mcp").headers["Allow"] == "POST"


def test_an_oversized_request_is_refused_unread(server: Served) -> None:
    body = json.dumps(request("tools/list") | {"padding": "x" * (1 << 20)})

    for path in ("/mcp", "/sse", "/messages/?session_id=" + "0" * 32):
        assert send(server, "POST", path, body, Content_Type="application/json").status == 413


def test_a_request_that_does_not_say_how_large_it_is_is_refused_too(server: Served) -> None:
    kind = {"Content-Type": "application/json"}
    for path in ("/mcp", "/messages/?session_id=" + "0" * 32):
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
            body = iter([b'"' + b"x" * (1 << 20), b'"'])
            # The server may hang up before it has read all.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", path, body, kind, encode_chunked=True)
            assert connection.getresponse().status == 413


def test_a_form_of_a_web_page_cannot_pass_for_a_request(server: Served) -> None:
    body = json.dumps(request("tools/list"))

    assert send(server, "POST", "/mcp", body, Content_Type="text/plain").status == 400
    with raw_sse(server) as stream:
        assert send(server, "POST", stream.messages, body, Content_Type="text/plain").status == 400


# --- The token -------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/sse", "/mcp", "/messages/", "/metrics"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_there_is_only_401(guarded: Served, method: str, path: str) -> None:
    without = send(guarded, method, path)
    wrong = send(guarded, method, path, Authorization="Bearer wrong")

    assert without.status == wrong.status == 401
    assert without.headers["WWW-Authenticate"] == 'Bearer realm="mnelo"'
    assert wrong.headers["WWW-Authenticate"].endswith('error="invalid_token"')


def test_health_is_open_where_the_rest_needs_a_token_but_says_only_that_the_server_is_up(
    guarded: Served,
) -> None:
    """Whoever could reach the port was once told the path of the database."""
    assert guarded.health() == guarded.health("wrong") == {"name": "mnelo", "status": "ok"}

    assert guarded.health(TOKEN)["pid"] == guarded.process.pid
    assert Path(guarded.health(TOKEN)["database"]) == guarded.home / "memory.db"


@TRANSPORTS
def test_with_the_token_calls_are_answered(guarded: Served, path: str) -> None:
    stats = talk(guarded.url + path, lambda client: ask(client, "memory_stats"), TOKEN)

    assert stats


# --- SSE sessions ----------------------------------------------------------------------


class RawSse:
    """An SSE stream as bytes, for what no proper client does."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        self._connection.request("GET", "/sse")
        self._stream = self._connection.getresponse()
        self.messages = self._next("endpoint")

    def post(self, message: dict[str, Any], **headers: str) -> int:
        body = json.dumps(message)
        headers |= {"Content_Type": "application/json"}
        return send(self._server, "POST", self.messages, body, **headers).status

    def reply(self) -> dict[str, Any]:
        return dict(json.loads(self._next("message")))

    def close(self) -> None:
        self._connection.close()
        self._stream.close()

    def _next(self, event: str) -> str:
        while (line := self._stream.readline().decode().strip()) != f"event: {event}":
            assert line.startswith((":", "event", "data", "retry")) or not line
        return self._stream.readline().decode().strip().removeprefix("data: ")


@contextmanager
def raw_sse(server: Served) -> Iterator[RawSse]:
    with closing(RawSse(server)) as stream:
        yield stream


def test_a_session_that_resumes_without_a_handshake_is_made_good(server: Served) -> None:
    """After a restart many clients re-open the stream and carry on where they were."""
    with raw_sse(server) as stream:
        assert stream.post(request("tools/call", name="memory_stats", arguments={})) == 202
        reply = stream.reply()

    assert reply["id"] == 7
    assert not reply["result"]["isError"]
    assert reply["result"]["structuredContent"]


def test_a_message_for_a_session_that_is_gone_is_404(server: Served) -> None:
    with raw_sse(server) as stream:
        messages = stream.messages
        assert stream.post(request("ping")) == 202
    wanted = time.monotonic() + 5
    while time.monotonic() < wanted:
        answer = send(
            server, "POST", messages, json.dumps(request("ping")), Content_Type="application/json"
        )
        if answer.status == 404:
            return
    pytest.fail(f"still {answer.status}")


@pytest.mark.parametrize("session", ["", "?session_id=", "?session_id=wrong"])
def test_a_message_for_what_is_no_session_is_400(server: Served, session: str) -> None:
    body = json.dumps(request("ping"))
    answer = send(server, "POST", "/messages/" + session, body, Content_Type="application/json")

    assert answer.status == 400


def test_what_is_no_message_is_400_and_the_session_goes_on(server: Served) -> None:
    with raw_sse(server) as stream:
        assert stream.post({"neither": "this", "nor": "that"}) == 400
        assert stream.post(request("ping")) == 202
        assert stream.reply()["result"] == {}


def test_dropped_streams_and_bad_requests_leave_nothing_in_the_log(server: Served) -> None:
    before = len(server.stderr())
    for _ in range(3):
        with raw_sse(server) as stream:
            stream.post(request("initialize", **HELLO))
            stream.post({"neither": "this", "nor": "that"})
    send(server, "POST", "/messages/?session_id=wrong", "{}", Content_Type="application/json")
    send(server, "POST", "/mcp", "[[[", Content_Type="application/json")
    time.sleep(0.3)

    assert server.stderr()[before:] == ""


def test_with_streamable_http_alone_there_is_no_sse(tmp_path: Path) -> None:
    """And an IPv6 host is written as a URL wants it, where this machine has one."""
    host, written = ("::1", "[::1]") if _has_ipv6() else ("127.0.0.1", "127.0.0.1")
    with serving(tmp_path, "--transport", "streamable-http", "--host", host) as server:
        assert server.url == f"http://{written}:{server.port}"
        assert send(server, "GET", "/sse").status == 404
        assert send(server, "POST", "/messages/").status == 404
        assert talk(server.url + "/mcp", lambda client: ask(client, "memory_stats"))
        assert f"ready: {server.url}/mcp" in server.stderr()


def test_a_client_that_does_not_read_is_let_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transport, "READ_SECONDS", 0.05)

    async def stall() -> None:
        async with in_process_session() as session:
            await session.send("initialize", HELLO)
            with anyio.fail_after(5):
                await session.hung_up.wait()

    with caplog.at_level("WARNING", "mnelo"):
        asyncio.run(stall())
    assert "left its messages unread for 0.05 s" in caplog.text


def test_a_client_that_asks_without_end_is_told_to_wait() -> None:
    async def flood() -> tuple[Any, Any]:
        async with in_process_session() as session:
            await session.send("initialize", HELLO)
            await session.receive()
            call = {"name": "memory_recall", "arguments": {"query": "slow"}}
            for number in range(transport.MAX_IN_FLIGHT + 1):
                await session.send("tools/call", call, number)
            refused = await session.receive()
            # A request that is given up makes room for another.
            await session.cancel(0)
            await session.send("tools/list", {}, 100)
            answered = await session.receive()
            session.memory.go_on.set()
        return refused, answered

    refused, answered = asyncio.run(flood())
    assert refused.id == transport.MAX_IN_FLIGHT
    assert refused.error.code == transport.TOO_MANY
    assert refused.error.message.startswith(f"{transport.MAX_IN_FLIGHT} requests of")
    assert answered.id == 100
    assert answered.result["tools"]


HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Waiting:
    """A memory whose recall takes until it is told to go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def recall(self, query: str) -> dict[str, Any]:
        self.go_on.wait(20)
        return {"hits": []}

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        return lambda **_: {}


@dataclass(frozen=True, slots=True)
class InProcess:
    """An SSE session without the network: what is sent comes in, what is received goes out."""

    memory: Waiting
    hung_up: anyio.Event
    incoming: MemoryObjectSendStream[transport.Incoming]
    outgoing: MemoryObjectReceiveStream[SessionMessage]

    async def send(self, method: str, params: dict[str, Any], number: int = 0) -> None:
        asked = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
        await self.incoming.send(SessionMessage(asked))

    async def cancel(self, number: int) -> None:
        params = {"requestId": number}
        told = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
        await self.incoming.send(SessionMessage(told))

    async def receive(self) -> Any:
        with anyio.fail_after(5):
            return (await self.outgoing.receive()).message


@asynccontextmanager
async def in_process_session() -> AsyncIterator[InProcess]:
    memory = Waiting()
    given = cast(Memory, memory)
    server = build_server(given, [tools.core(given, Config.load({}))])
    to_session, incoming = anyio.create_memory_object_stream[transport.Incoming]()
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage]()
    hung_up = anyio.Event()
    session = transport.SseSession(server, hung_up.set)
    async with anyio.create_task_group() as tasks, to_session, from_session:
        tasks.start_soon(session.run, incoming, outgoing)
        yield InProcess(memory, hung_up, to_session, from_session)
        tasks.cancel_scope.cancel()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


# --- Start and end ---------------------------------------------------------------------


def test_the_tools_are_listed_while_the_model_is_still_looked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # a hub that takes calls and says nothing
        hub = f"http://127.0.0.1:{mute.getsockname()[1]}"
        env = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub, "MNELO_MEMORY_EMBEDDER_MODEL": "auto"}
        with serving(tmp_path, **env) as server:
            assert post(server, "/mcp", request("tools/list"))["result"]["tools"]
            stats = post(server, "/mcp", request("tools/call", name="memory_stats", arguments={}))
            assert stats["result"]["structuredContent"]["embedder"]["state"] == "loading"


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_soon_and_in_silence(tmp_path: Path, sign: signal.Signals) -> None:
    with serving(tmp_path) as server, raw_sse(server), raw_sse(server) as stream:
        stream.post(request("tools/list"))
        # A request that never comes to its end, and a connection that never begins one.
        half = socket.create_connection(("127.0.0.1", server.port))
        half.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        idle = socket.create_connection(("127.0.0.1", server.port))
        with half, idle:
            assert server.health()  # by now the server has read what came before
            assert server.end(sign, seconds=6) == 0
        said = [line.partition(": ")[2] for line in server.stderr().splitlines()]

    assert [line[:20] for line in said if "resumed" not in line] == [
        "🟢 MCP server ready: ",
        "MCP server stopped.",
    ]


def test_a_call_that_is_stuck_does_not_hold_up_the_end(tmp_path: Path) -> None:
    body = json.dumps(request("tools/call", name="memory_recall", arguments={"query": "x"}))
    with serving(tmp_path, program=STUCK) as server:
        with raw_sse(server) as stream:
            stream.post(json.loads(body))
            while "asked" not in server.stderr():
                time.sleep(0.02)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(20) == 0  # the call itself takes half a minute
        assert "Traceback" not in server.stderr()


def test_a_taken_port_is_one_line_and_status_3(server: Served, tmp_path: Path) -> None:
    second = run(tmp_path, "--port", str(server.port))

    assert second.returncode == 3
    assert second.stderr.count("\n") == 1
    assert second.stderr.startswith(f"Port {server.port} of 127.0.0.1 is taken;")
    assert not (tmp_path / "memory.db").exists()


def test_a_file_that_is_no_database_is_one_line_and_status_4(tmp_path: Path) -> None:
    (tmp_path / "memory.db").write_text("not a database, but long enough to look at" * 100)

    left = run(tmp_path, "--port", "0")

    assert left.returncode == 4
    assert left.stderr.count("\n") == 1
    assert "memory.db" in left.stderr


def test_check_stores_and_finds_in_a_file_of_its_own(tmp_path: Path) -> None:
    left = run(tmp_path, "--check")

    assert left.returncode == 0, left.stderr
    assert left.stdout == "mnelo works: a memory was stored and found again.\n"
    assert list(tmp_path.iterdir()) == []


# --- Refusals before anything is opened: the command, called in this process -------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of no one: neither the machine's nor the person's."""
    for name in ("HOME", "USERPROFILE", "MNELO_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("MNELO_MEMORY_LANG", "en")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "env", "sentence"),
    [
        ("--port 70000", {}, "Setting server.port is 70000; allowed: a whole number from 1"),
        ("--port -1", {}, "Setting server.port is -1;"),
        ("", {"MNELO_MEMORY_SERVER_PORT": "x"}, "Setting MNELO_MEMORY_SERVER_PORT is 'x';"),
        ("--auth-token-file nowhere", {}, "The token file nowhere cannot be read: No such"),
        (f"--host {EVERYWHERE}", {}, f"{EVERYWHERE} is not this machine alone;"),
        (f"--host {EVERYWHERE}", {"MNELO_AUTH_TOKEN": TOKEN}, f"{EVERYWHERE} is not this"),
        (
            f"--host {EVERYWHERE}",
            {"MNELO_MEMORY_SERVER_ALLOW_REMOTE": "true"},
            f"{EVERYWHERE} is not this machine alone;",
        ),
        ("--host 127.evil.example", {}, "The host 127.evil.example is not known here:"),
        (f"--host {EVERYWHERE}", {"MNELO_MEMORY_LANG": "zh"}, f"{EVERYWHERE} 不只是本机；"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    env: dict[str, str],
    sentence: str,
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    status = mcp_server.main(arguments.split())

    said = capsys.readouterr().err
    assert status == 2
    assert said.startswith(sentence)
    assert said.count("\n") == 1
    assert not (home / "memory.db").exists()


def test_a_wrong_setting_is_named_with_its_file_its_value_and_what_is_allowed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").write_text("[server]\nport = 'many'\n")

    assert mcp_server.main([]) == 2
    assert capsys.readouterr().err == (
        f"Setting server.port ({home}/config.toml) is 'many'; "
        "allowed: a whole number from 1 to 65535.\n"
    )


@pytest.mark.parametrize("reuse", [0, 1])
def test_a_port_that_is_listened_on_is_refused_however_it_was_bound(
    home: Path, capsys: pytest.CaptureFixture[str], reuse: int
) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert mcp_server.main(["--port", str(other.getsockname()[1])]) == 3


def test_a_port_that_is_bound_but_not_listened_on_is_taken_too(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        assert mcp_server.main(["--port", str(other.getsockname()[1])]) == 3

    assert "is taken" in capsys.readouterr().err


def test_the_log_shows_what_it_quotes_without_what_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = Lines()
    record = logging.LogRecord("mnelo", logging.INFO, "", 0, "no %s", ("\x1b[2J\x9b\u202e",), None)
    handler.emit(record)
    said = capsys.readouterr().err
    assert said.endswith("INFO mnelo: no \\u001b[2J\\u009b\\u202e\n")
