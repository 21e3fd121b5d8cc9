"""The connections of the port: who has to wait, who gives way, and who never does."""

import asyncio
import errno
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client

from server import connections
from serving import ROOT, Served, serving

FEW = connections.LEAST  # places of the servers here, with as many in reserve
HELD = 3 * FEW
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POSTING = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
STREAM = b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n"

WAITING = {
    "silent": b"",
    "half a header": HEAD[:-9],
    "half a body": b"POST /mcp HTTP/1.1\r\n" + POSTING,
    "half a message": b"POST /messages/?session_id=" + b"0" * 32 + b" HTTP/1.1\r\n" + POSTING,
    "answered and kept alive": HEAD + b"\r\n",
    "answered, but half a body": HEAD + b"Content-Length: 99\r\n\r\n{",
    "half of the next header": HEAD + b"\r\n" + HEAD,
}
ANSWERED = [sent for name, sent in WAITING.items() if "header" not in name and HEAD in sent]
ANSWERED += [WAITING["half of the next header"]]
KINDS = pytest.mark.parametrize("sent", WAITING.values(), ids=WAITING)


def small(**values: float) -> tuple[str, ...]:
    """The server, with these values of connections.py."""
    lines = [f"connections.{name} = {value}" for name, value in values.items()]
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    given = "sys.argv.pop(1)\nimport mcp_server; from server import connections"
    return "-c", "\n".join([path, given, *lines, "raise SystemExit(mcp_server.main())"]), "-"


FEW_PLACES = small(CONNECTIONS=FEW, RESERVE=FEW, ASK_SECONDS=600)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of few places that waits long."""
    with serving(tmp_path_factory.mktemp("few"), program=FEW_PLACES) as served:
        yield served


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of many places that waits hardly at all."""
    with serving(tmp_path_factory.mktemp("hasty"), program=small(ASK_SECONDS=0.2)) as served:
        yield served


def connect(server: Served, sent: bytes = b"") -> socket.socket:
    """A connection that has sent something, has its answer if one is due, and says no more."""
    connection = socket.create_connection((server.host, server.port), timeout=20)
    connection.sendall(sent)
    if sent in ANSWERED:
        said = b""
        while not said.endswith(b"}"):
            said += connection.recv(1 << 16)
    return connection


@contextmanager
def held(server: Served, sent: bytes, count: int = HELD) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect(server, sent)) for _ in range(count)]


def rest(connection: socket.socket) -> bytes:
    """All that still comes until the server ends the connection."""
    said = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            said += part
    return said


def working(server: Served, meanwhile: Callable[[], None]) -> list[dict[str, Any]]:
    """What a client's calls return over one session of /sse, before, while and after."""

    async def session() -> list[dict[str, Any]]:
        answers = []
        async with Client(sse_client(server.url + "/sse")) as client:
            for number in range(5):
                told = {"content": f"mark {number} of {time.monotonic_ns()}"}
                result = await client.call_tool("memory_remember", told)
                answers.append(dict(result.structured_content or {}))
                if number in (1, 3):
                    await asyncio.to_thread(meanwhile)
        return answers

    return asyncio.run(session())


# --- The oldest gives way --------------------------------------------------------------


@KINDS
def test_however_many_wait_a_session_goes_on_and_a_new_one_begins(few: Served, sent: bytes) -> None:
    """255 silent sockets once kept everybody out, /health too, without end."""
    with ExitStack() as stack:

        def meanwhile() -> None:
            stack.enter_context(held(few, sent))
            assert few.health()["name"] == "mnelo"

        answers = working(few, meanwhile)
        assert [answer["status"] for answer in answers] == ["stored"] * 5
        assert working(few, lambda: None)


@KINDS
def test_of_those_that_wait_the_oldest_goes_first(few: Served, sent: bytes) -> None:
    with connect(few, sent) as first, held(few, sent, 2 * FEW - 1) as others:
        assert few.health()
        rest(first)  # it ends
        others[-1].setblocking(False)
        with pytest.raises(BlockingIOError):  # it is open, and has nothing to say
            others[-1].recv(1 << 16)


def test_streams_keep_their_places_and_the_reserve_is_for_health_and_their_messages(
    tmp_path: Path,
) -> None:
    """Whoever opens all the streams there may be stops new ones, and nothing else."""
    with ExitStack() as stack:
        alone = stack.enter_context(serving(tmp_path, program=FEW_PLACES))

        def meanwhile() -> None:
            answers = [b"http/1.1 200"]
            while answers[-1].startswith(b"http/1.1 200"):
                stream = stack.enter_context(connect(alone, STREAM))
                answers.append(stream.recv(1 << 16).lower())
            assert answers[-1].startswith(b"http/1.1 503")
            assert b"connection: close" in answers[-1]
            assert b"retry-after: 1" in answers[-1]
            stack.enter_context(held(alone, b""))
            assert alone.health()["name"] == "mnelo"
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert httpx2.post(alone.url + "/mcp", json=ping).status_code == 503

        answers = working(alone, meanwhile)

    assert [answer["status"] for answer in answers] == ["stored"] * 5


# --- Time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [each for name, each in WAITING.items() if "alive" not in name],
    ids=[name for name in WAITING if "alive" not in name],
)
def test_what_does_not_come_in_time_ends_the_connection(hasty: Served, sent: bytes) -> None:
    before = hasty.stderr()
    with connect(hasty, sent) as connection:
        rest(connection)  # returns when the server has ended it

    assert hasty.stderr() == before


@pytest.mark.parametrize("start", [HEAD, b"POST /mcp HTTP/1.1\r\n" + POSTING])
def test_a_client_that_sends_a_byte_now_and_then_gets_no_more_time(
    hasty: Served, start: bytes
) -> None:
    with connect(hasty, start + b"X") as connection:
        connection.settimeout(0.05)
        while True:
            try:
                connection.sendall(b"x")
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break


def test_a_stream_and_a_quiet_connection_between_two_requests_are_not_hurried(
    hasty: Served,
) -> None:
    with connect(hasty, HEAD + b"\r\n") as quiet, connect(hasty, STREAM) as stream:
        assert stream.recv(1 << 16).startswith(b"HTTP/1.1 200")
        with connect(hasty) as silent:
            assert rest(silent) == b""  # by now the time of both would be over, too
        quiet.sendall(HEAD + b"\r\n")
        assert quiet.recv(1 << 16).startswith(b"HTTP/1.1 200")
        stream.setblocking(False)
        with suppress(BlockingIOError):
            assert stream.recv(1 << 16)


def test_a_client_that_does_not_read_is_left(tmp_path: Path) -> None:
    # What is asked for comes back in the answer.
    asking = b'{"jsonrpc":"2.0","id":1,"method":"%s"}' % (b"x" * 500_000)
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(asking)
    program = small(UNREAD_SECONDS=0.2)
    with serving(tmp_path, program=program) as server, socket.socket() as deaf:
        for size in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            deaf.setsockopt(socket.SOL_SOCKET, size, 4096)
        deaf.settimeout(20)
        deaf.connect((server.host, server.port))
        with pytest.raises(ConnectionError):
            ask_without_end(deaf, head + asking)


def ask_without_end(connection: socket.socket, sent: bytes) -> None:
    while True:
        connection.sendall(sent)


# --- Refusals --------------------------------------------------------------------------

REFUSED = {
    "another host": b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "another page": HEAD + b"Origin: http://evil.example\r\n\r\n",
    "nothing there": b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another method": b"DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no message": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\n\r\n{}",
    "another session": b"POST /messages/?session_id=" + b"0" * 32 + b" HTTP/1.1\r\n"
    b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 41\r\n\r\n"
    b'{"jsonrpc":"2.0","id":10,"method":"ping"}',
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_a_refusal_ends_the_connection(few: Served, sent: bytes) -> None:
    """Refused requests once stayed open for 65 s each, and 254 of them kept everybody out."""
    with connect(few, sent) as connection:
        said = rest(connection)  # returns when the server has ended it

    assert said.startswith(b"HTTP/1.1 4")
    assert b"\r\nconnection: close\r\n" in said.lower()


def test_a_refused_client_that_is_still_sending_sees_the_refusal(few: Served) -> None:
    """A connection that is ended under a client's hands is reset: it would read nothing."""
    head = b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: %d\r\n\r\n" % (3 << 20)
    with connect(few, head) as connection:
        for _ in range(3):
            connection.sendall(b"x" * (1 << 20))
        assert rest(connection).startswith(b"HTTP/1.1 421")


def test_nonsense_in_a_body_ends_the_connection_and_leaves_nothing_in_the_log(few: Served) -> None:
    """uvicorn once tried to answer such a request twice, with a traceback for each."""
    before = few.stderr()
    for host in (b"localhost", b"evil.example"):
        head = b"POST /mcp HTTP/1.1\r\nHost: " + host + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
        for body in (b"ZZZZ\r\n", b"5\r\nabcdeZZ\r\n"):
            with connect(few, head + body) as connection:
                rest(connection)
    upgrade = HEAD + b"Connection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    for sent in (b"\0\1\2\r\n\r\n", b"\x16\x03\x01 TLS\r\n\r\n", upgrade):
        with connect(few, sent) as connection:
            assert rest(connection)

    assert few.stderr() == before


# --- Descriptors -----------------------------------------------------------------------

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")


@UNIX
@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "asked"),
    [
        (1024, 1 << 20, 256, None),
        (256, 1 << 20, 256, 384),
        (256, -1, 256, 384),
        (-1, -1, 256, None),
        (256, 300, 172, 300),
        (256, 256, 128, None),
        (64, 64, 8, None),
    ],
)
def test_connections_stay_below_the_descriptors_with_room_for_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int, asked: int | None
) -> None:
    """macOS gives 256 at first, which were as many as the connections that were let in."""
    import resource

    given = []
    infinite = resource.RLIM_INFINITY
    limits = tuple(infinite if each == -1 else each for each in (soft, hard))
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: given.append(wanted))

    assert connections.most_connections() == allowed
    assert given == ([(asked, limits[1])] if asked else [])


@UNIX
def test_a_limit_that_cannot_be_raised_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise it")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", refuse)

    assert connections.most_connections() == 128


def test_running_out_of_descriptors_is_one_line_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It once was a traceback for each try: 3 MB of log in 6 s."""
    clock = iter([0.0, 0.0, 1.0, 30.0, 59.0, 59.9, 60.0, 60.0, 61.0, 119.0])
    complaints = connections.Complaints(lambda: next(clock))
    with closing(asyncio.new_event_loop()) as loop:
        for number in (errno.EMFILE, errno.ENFILE) * 5:
            complaints(loop, {"message": "accept", "exception": OSError(number, "too many")})
        said = [record.getMessage() for record in caplog.records]
        assert [each[:21] for each in said] == ["No descriptor is free"] * 2
        complaints(loop, {"message": "another fault"})
    assert caplog.records[-1].getMessage() == "another fault"
