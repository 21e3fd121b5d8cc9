"""What a server that many agents share must stand: misuse, crowds, and ids of nothing.

Every test talks to a real server over its port, as clients do.
"""

import asyncio
import http.client
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from serving import ROOT, Served, serving

PROMPT_SECONDS = 4.0
"""How long a recall may take beside clients that misbehave; alone it takes 10 ms.

It is no measure of speed: what it is to notice, such as a client that holds every connection,
makes others wait for 5 s or for ever. It was 1.5 s until the suite had several workers."""
GROWTH_MB = 60
"""How much more memory the server may hold while they do."""
NOWHERE = "chunk_20260101T000000000Z_000000000000"

TRANSPORTS = pytest.mark.parametrize("path", ["/sse", "/mcp"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all: what one test does to it, the next must not notice."""
    with serving(tmp_path_factory.mktemp("shared")) as served:
        done(served, "memory_remember", content="The gate 北门 opens at six")
        yield served


# --- Speaking to it --------------------------------------------------------------------


def rpc(method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def post(server: Served, path: str, body: str, seconds: float = 10) -> tuple[int, str]:
    """Status and body of the answer to one request on a connection of its own."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Connection": "close",
    }
    with closing(http.client.HTTPConnection(server.host, server.port, timeout=seconds)) as line:
        line.request("POST", path, body.encode(), headers)
        answer = line.getresponse()
        return answer.status, answer.read().decode()


def result(server: Served, body: str) -> dict[str, Any]:
    """The result that a request over Streamable HTTP comes to."""
    status, text = post(server, "/mcp", body)
    assert status == 200, text
    (data,) = re.findall(r"^data: (\{.*)$", text, re.M)
    return dict(json.loads(data)["result"])


def done(server: Served, tool: str, **arguments: Any) -> dict[str, Any]:
    """What the tool returns; an error fails the test."""
    answer = result(server, rpc("tools/call", name=tool, arguments=arguments))
    assert not answer["isError"], answer["content"]
    return dict(answer["structuredContent"])


def refusal(server: Served, tool: str, **arguments: Any) -> str:
    """The sentence with which the tool says no."""
    answer = result(server, rpc("tools/call", name=tool, arguments=arguments))
    assert answer["isError"], answer
    return str(answer["content"][0]["text"])


def gather(server: Served, path: str, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The results of calls that are all sent at once in one session."""

    async def session() -> list[CallToolResult]:
        url = server.url + path
        async with httpx2.AsyncClient(timeout=30) as http:
            streams = (
                sse_client(url) if path == "/sse" else streamable_http_client(url, http_client=http)
            )
            async with Client(streams, mode="legacy") as client:
                waiting = [client.call_tool(tool, arguments) for tool, arguments in calls]
                return list(await asyncio.gather(*waiting))

    return asyncio.run(session())


def text_of(answer: CallToolResult) -> str:
    (block,) = answer.content
    assert isinstance(block, TextContent)
    return block.text


class Stream:
    """An SSE stream that is opened and then left alone, hardly able to hold what comes."""

    def __init__(self, server: Served) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.settimeout(10)
        self._socket.connect((server.host, server.port))
        self._socket.sendall(b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        said = ""
        while not (found := re.search(r"data: (\S+)\r?\n", said)):
            part = self._socket.recv(4096).decode()
            if not part:
                self.close()
                pytest.fail(f"no stream: {said}")
            said += part
        self.messages = found[1]
        self.greeting = said

    def close(self) -> None:
        self._socket.close()


# --- Clients that misbehave ------------------------------------------------------------


def megabytes(server: Served) -> float:
    """The memory that the server holds."""
    pid = server.process.pid
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        said = re.findall(r"VmRSS:\s+(\d+)", status.read_text())[0]
    else:
        said = subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)])  # noqa: S607
    return int(said) / 1024


class Neighbour(threading.Thread):
    """Another client, which recalls all the while and notes what it had to put up with."""

    def __init__(self, server: Served) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._leave = threading.Event()
        self.seconds: list[float] = []
        self.statuses: set[int] = set()
        self.failures: list[str] = []
        self.peak = 0.0

    def run(self) -> None:
        body = rpc("tools/call", name="memory_recall", arguments={"query": "北门"})
        while not self._leave.wait(0.03) or len(self.seconds) < 3:
            start = time.monotonic()
            try:
                status, text = post(self._server, "/mcp", body)
                assert status != 200 or "opens at six" in text
            except (OSError, AssertionError) as error:
                self.failures.append(repr(error))
            else:
                self.statuses.add(status)
            self.seconds.append(time.monotonic() - start)
            self.peak = max(self.peak, megabytes(self._server))

    def leave(self) -> None:
        self._leave.set()
        self.join(15)


@contextmanager
def unharmed(server: Served) -> Iterator[None]:
    """Whatever happens inside, others are served, memory stays bounded and the log clean."""
    before, said = megabytes(server), len(server.stderr())
    neighbour = Neighbour(server)
    neighbour.start()
    try:
        yield
    finally:
        neighbour.leave()
    assert neighbour.failures == []
    assert neighbour.statuses == {200}
    assert len(neighbour.seconds) >= 3
    assert max(neighbour.seconds) < PROMPT_SECONDS
    assert neighbour.peak - before < GROWTH_MB
    log = server.stderr()[said:]
    assert "Traceback" not in log
    assert "ERROR" not in log


def test_a_client_that_floods_and_never_reads_takes_nothing_from_the_others(
    server: Served,
) -> None:
    """Its requests once held every connection there was, and others were sent away for 5 s;
    and where all of them had the same id, nothing stopped them."""
    done(server, "memory_remember", content="kettle " * 9000)
    ask = {"query": "kettle", "max_tokens": 0}
    body = rpc("tools/call", name="memory_recall", arguments=ask)
    with unharmed(server), closing(Stream(server)) as stream:
        statuses: list[int] = []
        end = time.monotonic() + 15
        while statuses.count(429) < 20 and 404 not in statuses:
            assert time.monotonic() < end, set(statuses)
            statuses.append(post(server, stream.messages, body)[0])

    assert set(statuses) in ({202, 429}, {202, 404}, {202, 404, 429})


def test_sse_clients_are_told_to_come_back_soon_after_a_restart(server: Served) -> None:
    """Left to themselves they wait 3 s, and a call in that time finds no session."""
    with closing(Stream(server)) as stream:
        assert re.search(r"retry: 500\r\nevent: endpoint\r\ndata: \S+\r\n", stream.greeting)


def test_two_hundred_open_streams_hold_up_nobody(server: Served) -> None:
    with unharmed(server), ExitStack() as streams:
        for _ in range(200):
            streams.enter_context(closing(Stream(server)))
        time.sleep(0.5)
    with unharmed(server):
        time.sleep(0.5)


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "in pieces"])
@pytest.mark.parametrize("path", ["/mcp", "/messages/"])
def test_a_body_of_twenty_megabytes_is_refused_at_once(
    server: Served, path: str, counted: bool
) -> None:
    with unharmed(server), closing(Stream(server)) as stream:
        start = time.monotonic()
        answer = push(server, stream.messages if path == "/messages/" else path, counted)
        assert time.monotonic() - start < PROMPT_SECONDS
        time.sleep(0.4)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 413 ")


def push(server: Served, path: str, counted: bool) -> bytes:
    """Send a body of 20 MB and go on until that is refused; what the server says."""
    piece = b" " * (1 << 20)
    length = b"Content-Length: %d" % (20 << 20) if counted else b"Transfer-Encoding: chunked"
    with socket.create_connection((server.host, server.port), 10) as line:
        line.sendall(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n" % path.encode())
        line.sendall(b"Content-Type: application/json\r\n%s\r\n\r\n" % length)
        try:
            for _ in range(20):
                line.sendall(piece if counted else b"%x\r\n%s\r\n" % (len(piece), piece))
            return line.recv(4096)
        except ConnectionError:
            # The server hung up; its word may still be there to read.
            try:
                return line.recv(4096)
            except ConnectionError:
                return b""


def test_requests_that_trickle_in_letter_by_letter_hold_up_nobody(server: Served) -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + b"x" * 40
    with unharmed(server), ExitStack() as lines:
        slow = [
            lines.enter_context(socket.create_connection((server.host, server.port), 5))
            for _ in range(100)
        ]
        for letter in head[:30]:
            for line in slow:
                line.sendall(bytes([letter]))
            time.sleep(0.03)


# --- Many at once ----------------------------------------------------------------------


@TRANSPORTS
def test_ninety_writes_at_once_in_one_session_all_take_effect_once(
    server: Served, path: str
) -> None:
    first = done(server, "memory_remember", content=f"Watched over {path}")["chunk_id"]
    before = done(server, "memory_stats")
    ends = {"source_id": f"Anna {path}", "target_id": f"Depot {path}"}
    remembers = [{"content": f"Delivery {n} over {path}"} for n in range(50)]
    relates = [{**ends, "relation": f"verb {n % 4}"} for n in range(20)]
    updates = [{"old_id": first, "new_content": f"Watched {n} over {path}"} for n in range(20)]

    answers = gather(
        server,
        path,
        [
            *(("memory_remember", each) for each in remembers),
            *(("memory_relate", each) for each in relates),
            *(("memory_update", each) for each in updates),
        ],
    )

    assert [text_of(each) for each in answers if each.is_error] == []
    told = [each.structured_content or {} for each in answers]
    after = done(server, "memory_stats")
    assert len({each["chunk_id"] for each in told[:50]}) == 50
    assert live(after, "chunks") - live(before, "chunks") == 50
    assert live(after, "entities") - live(before, "entities") == 2
    assert live(after, "relations") - live(before, "relations") == 4
    assert len({each["relation_id"] for each in told[50:70]}) == 4
    assert len(versions(server, first)) == 21
    assert {each["new_chunk_id"] for each in told[70:]} == set(versions(server, first)[1:])


def live(stats: dict[str, Any], kind: str) -> int:
    return int(stats[kind]["active"])


def versions(server: Served, first: str) -> list[str]:
    """The ids of a memory's versions, oldest first; fails unless just the last one is live."""
    db = apsw.Connection(str(server.home / "memory.db"), flags=apsw.SQLITE_OPEN_READONLY)
    rows = {
        row[0]: row[1:] for row in db.execute("SELECT id, superseded_by, valid_until FROM chunks")
    }
    db.close()
    line = [first]
    while following := rows[line[-1]][0]:
        assert rows[line[-1]][1] is not None
        line.append(following)
    assert rows[line[-1]][1] is None
    assert [row[0] for row in rows.values()].count(line[-1]) == 1
    return line


def test_many_memories_in_a_row_are_all_accepted(server: Served) -> None:
    """There is no rate limit: an agent that imports a diary must not be told to come back."""

    async def session() -> set[str]:
        async with Client(sse_client(server.url + "/sse")) as client:
            stored = set()
            for number in range(120):
                content = {"content": f"Page {number} of the diary"}
                answer = await client.call_tool("memory_remember", content)
                assert not answer.is_error, answer
                stored.add((answer.structured_content or {})["chunk_id"])
            return stored

    assert len(asyncio.run(session())) == 120


# --- What is not there -----------------------------------------------------------------


def relation(**given: Any) -> dict[str, Any]:
    return {"source_id": "Anna", "target_id": "Depot", "relation": "runs", **given}


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("memory_remember", {"content": "x", "relations": [relation(target_id=NOWHERE)]}, NOWHERE),
        (
            "memory_remember",
            {"content": "x", "relations": [relation(evidence_chunk_id=NOWHERE)]},
            NOWHERE,
        ),
        ("memory_relate", relation(source_id=NOWHERE), NOWHERE),
        ("memory_relate", relation(target_id=NOWHERE), NOWHERE),
        ("memory_relate", relation(evidence_chunk_id=NOWHERE), NOWHERE),
        ("memory_update", {"old_id": NOWHERE, "new_content": "x"}, NOWHERE),
        ("memory_update", {"old_id": "nonsense", "new_content": "x"}, "nonsense"),
        ("memory_update", {"old_id": 7, "new_content": "x"}, "7"),
        ("memory_update", {"old_id": True, "new_content": "x"}, "true"),
        ("memory_update", {"old_id": 1.5, "new_content": "x"}, "1.5"),
        ("memory_forget", {"target_id": NOWHERE}, NOWHERE),
        ("memory_forget", {"target_id": "没有"}, "没有"),
        ("memory_forget", {"target_id": True}, "true"),
        ("memory_forget", {"target_id": 1.5}, "1.5"),
        ("memory_forget", {"target_id": "Nobody", "target_kind": "entity"}, "Nobody"),
        ("memory_forget", {"target_id": 1.5, "target_kind": "entity"}, "1.5"),
        ("memory_forget", {"target_id": 999999, "target_kind": "relation"}, "999999"),
        ("memory_forget", {"target_id": "abc", "target_kind": "relation"}, "abc"),
        ("memory_forget", {"target_id": -1, "target_kind": "relation"}, "-1"),
        ("memory_forget", {"target_id": 1.5, "target_kind": "relation"}, "1.5"),
        ("memory_forget", {"target_id": True, "target_kind": "relation"}, "true"),
        ("memory_graph_query", {"start_node": "Nobody"}, "Nobody"),
        ("memory_graph_query", {"start_node": NOWHERE}, NOWHERE),
    ],
)
def test_what_is_not_there_is_refused_by_its_id(
    server: Served, tool: str, arguments: dict[str, Any], named: str
) -> None:
    before = done(server, "memory_stats")

    assert named in refusal(server, tool, **arguments)

    after = done(server, "memory_stats")
    for kind in ("chunks", "entities", "relations"):
        assert after[kind] == before[kind]


def test_a_forgotten_memory_is_not_updated_and_forgetting_it_again_does_nothing(
    server: Served,
) -> None:
    chunk = done(server, "memory_remember", content="Soon to be forgotten")["chunk_id"]

    assert done(server, "memory_forget", target_id=chunk)["forgotten"] == 1
    assert done(server, "memory_forget", target_id=chunk)["forgotten"] == 0
    assert chunk in refusal(server, "memory_update", old_id=chunk, new_content="back again")


def test_a_forgotten_entity_or_relation_is_forgotten_once(server: Served) -> None:
    tied = done(server, "memory_relate", **relation(source_id="Otto", target_id="Pier"))
    for kind, target in (("relation", tied["relation_id"]), ("entity", "Otto")):
        told = [
            done(server, "memory_forget", target_id=target, target_kind=kind)["forgotten"]
            for _ in range(2)
        ]
        assert told == [1, 0], kind


# --- What is sent as it is -------------------------------------------------------------


def test_half_a_character_is_stored_as_a_replacement_and_breaks_nothing(server: Served) -> None:
    """Clients that cut a text in the middle of an emoji send what no file can hold."""
    body = rpc("tools/call", name="memory_remember", arguments={"content": "cut off CUT tail"})

    answer = result(server, body.replace("CUT", r"\ud83d"))

    assert not answer["isError"], answer
    (hit, *_) = done(server, "memory_recall", query="cut off tail", top_k=1)["hits"]
    assert hit["content"] == "cut off \ufffd tail"


def test_half_a_character_in_a_question_or_an_id_is_no_fault(server: Served) -> None:
    question = rpc("tools/call", name="memory_recall", arguments={"query": "CUT 北门"})
    target = rpc("tools/call", name="memory_forget", arguments={"target_id": "CUT"})

    assert not result(server, question.replace("CUT", r"\ud83d"))["isError"]
    assert result(server, target.replace("CUT", r"\ud83d"))["isError"]
    assert "Traceback" not in server.stderr()


@pytest.mark.parametrize(
    "content", ["walnut\0plum NUL", "汉" * 21845], ids=["NUL", "64 KiB of Chinese"]
)
def test_every_text_comes_back_as_it_was_stored(server: Served, content: str) -> None:
    chunk = done(server, "memory_remember", content=content)["chunk_id"]

    found = done(server, "memory_recall", query=content[:11], top_k=1, max_tokens=0)["hits"]

    assert [(hit["chunk_id"], hit["content"] == content) for hit in found] == [(chunk, True)]


def test_one_character_more_than_64_kib_is_refused_with_its_size(server: Served) -> None:
    assert "65538" in refusal(server, "memory_remember", content="汉" * 21846)


# --- The list --------------------------------------------------------------------------


def test_the_list_of_tools_is_one_that_every_client_can_read(server: Served) -> None:
    """Some clients refuse unions and references, others any list that takes up their context."""
    listing = result(server, rpc("tools/list"))

    compact = json.dumps(listing, ensure_ascii=False, separators=(",", ":"))
    assert len(listing["tools"]) == 7
    assert len(compact.encode()) < 8000
    assert not re.search(r'"(anyOf|oneOf|allOf|\$ref|\$defs)"', compact)
    for tool in listing["tools"]:
        assert tool["inputSchema"]["type"] == "object"
        assert len(tool["description"]) > 20


def test_the_fixtures_of_the_official_suite_stand_beside_the_tools(tmp_path: Path) -> None:
    """docs/TESTING.md says how to run the suite against them."""
    fixtures = str(ROOT / "tests" / "support" / "conformance_fixtures.py")
    with serving(tmp_path, program=[fixtures]) as served:
        names = [tool["name"] for tool in result(served, rpc("tools/list"))["tools"]]
        ours = done(served, "memory_remember", content="stored beside the fixtures")
        theirs = result(served, rpc("tools/call", name="test_simple_text", arguments={}))

    assert len([name for name in names if name.startswith("memory_")]) == 7
    assert len([name for name in names if name.startswith("test_")]) == 7
    assert ours["status"] == "stored"
    assert theirs["content"][0]["text"] == "This is a simple text response for testing."
