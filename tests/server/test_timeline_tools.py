"""The timeline's tools over the wire: a real client of each transport, in Chinese."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

from serving import SERVER, Served, environment, run, serving

TEN = [
    *("memory_write", "memory_query", "memory_get_context", "memory_write_context"),
    *("memory_get_groups", "memory_list_groups", "memory_get_group_members"),
    *("memory_rebuild_groups", "memory_init", "memory_status"),
]
BOTH = {"MNELO_MEMORY_SERVER_TOOLSETS": "core,timeline"}
TALK = "## 行程\n\n周五早上七点的高铁，住在虹桥。\n\n```\nG101 07:00\n```\n"
TRIPS = [
    ("用户周五要去上海出差", ["出差", "上海", "周五", "行程", "工作"]),
    ("用户周五去上海出差三天", ["出差", "上海", "周五", "行程", "工作"]),
    ("用户这周五到上海出差", ["出差", "上海", "周五", "行程", "工作"]),
    ("用户周五出发去上海出差", ["出差", "上海", "周五", "行程", "工作"]),
]
COFFEE = ("用户最喜欢的咖啡是手冲耶加雪菲", ["咖啡", "偏好", "手冲", "饮料", "口味"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with both sets of tools and an offline model."""
    home = tmp_path_factory.mktemp("timeline")
    settings = BOTH | {"MNELO_MEMORY_EMBEDDER_MODEL": "offline", "VELLUM_DAEMON_INTERVAL": "1"}
    with serving(home, **settings) as served:
        yield served


class Person:
    """Calls tools one after another; what fails is in `refused`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.refused: list[dict[str, str]] = []

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        (block,) = result.content
        told: dict[str, Any] = json.loads(block.text)  # type: ignore[union-attr]
        if result.is_error:
            self.refused.append(told["error"])
        else:
            assert told == result.structured_content
        return told


def talk(transport: Any, say: Callable[[Person, Client], Awaitable[None]]) -> None:
    async def session() -> None:
        async with Client(transport) as client:
            await say(Person(client), client)

    asyncio.run(session())


def entry(summary: str, tags: list[str], **more: Any) -> dict[str, Any]:
    return {"summary": summary, "tags": tags, "category": "conversation", **more}


def test_a_new_user_finds_a_way_through_all_ten_tools(server: Served) -> None:
    async def say(call: Person, client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[7:] == TEN
        assert len(names) == 17
        while not (await call("memory_init"))["vectors"]:
            time.sleep(0.1)
        trip, coffee = await write_entries(call)
        await ask(call, coffee)
        await read_context(call, trip)
        await look_at_groups(call, trip, coffee)
        status = await call("memory_status")
        assert (status["entries"], status["segments"], status["pending"]) == (5, 2, 0)
        assert call.refused == []
        hits = (await client.call_tool("memory_recall", {"query": "静安"})).structured_content
        assert hits is not None
        assert hits["hits"][0]["chunk_id"] == trip

    talk(sse_client(server.url + "/sse"), say)


async def write_entries(call: Person) -> tuple[str, str]:
    """The ids of a trip with a context and of a taste, beside three more about the trip."""
    first = json.dumps(entry(*TRIPS[0], context_text=TALK), ensure_ascii=False)
    trip = await call("memory_write", data=first)
    for each in TRIPS[1:]:
        await call("memory_write", data=entry(*each))
    coffee = await call("memory_write", data=entry(*COFFEE))
    return trip["timeline_id"], coffee["timeline_id"]


async def ask(call: Person, coffee: str) -> None:
    found = (await call("memory_query", query="用户喜欢喝什么咖啡？"))["results"]
    assert [each["timeline_id"] for each in found] == [coffee]
    assert found[0]["score"] > 0.15
    assert found[0]["cosine"] > found[0]["score"]
    assert (await call("memory_query", query="量子力学的薛定谔方程"))["results"] == []
    two = await call("memory_query", query="什么时候去上海出差", top_k=2)
    assert len(two["results"]) == 2


async def read_context(call: Person, trip: str) -> None:
    told = await call("memory_get_context", timeline_id=trip)
    assert told["segments"][0]["text"] == TALK
    await call("memory_write_context", timeline_id=trip, context_text="后来改住静安。")
    more = await call("memory_get_context", timeline_id=trip, offset=1)
    assert more["segments"] == [{"index": 1, "text": "后来改住静安。"}]
    assert more["has_more"] is False


async def look_at_groups(call: Person, trip: str, coffee: str) -> None:
    assert (await call("memory_rebuild_groups"))["status"] == "rebuilt"
    (group,) = (await call("memory_list_groups"))["groups"]
    members = (await call("memory_get_group_members", group_id=group["group_id"]))["members"]
    assert [each["summary"] for each in members] == [summary for summary, _ in TRIPS]
    of_trip = (await call("memory_get_groups", entry_id=trip))["groups"]
    assert of_trip[0] == {"group_id": group["group_id"], "members": 4}
    assert (await call("memory_get_groups", entry_id=coffee))["groups"] == []


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("memory_write", {}, "invalid_argument", "data"),
    ("memory_write", {"data": "{oops"}, "invalid_argument", "data"),
    ("memory_write", {"data": entry("x", ["一"])}, "invalid_argument", "data.tags"),
    ("memory_write", {"data": entry("字" * 201, COFFEE[1])}, "invalid_argument", "data.summary"),
    ("memory_query", {"query": "x", "top_k": 0}, "invalid_argument", "top_k"),
    ("memory_query", {"query": "x", "score_threshold": 2}, "invalid_argument", "score_threshold"),
    ("memory_query", {"query": "x", "limit": 3}, "invalid_argument", "limit"),
    ("memory_get_context", {"timeline_id": "chunk_x"}, "not_found", "chunk_x"),
    ("memory_get_context", {"timeline_id": "x", "offset": -1}, "invalid_argument", "offset"),
    (
        "memory_write_context",
        {"timeline_id": "chunk_x", "context_text": "y"},
        "not_found",
        "chunk_x",
    ),
    ("memory_get_groups", {"entry_id": "chunk_x"}, "not_found", "chunk_x"),
    ("memory_get_group_members", {"group_id": "nowhere"}, "not_found", "nowhere"),
    ("memory_rebuild_groups", {"threshold": "high"}, "invalid_argument", "threshold"),
    ("memory_status", {"all": True}, "invalid_argument", "all"),
]


def test_every_failure_is_json_with_a_code_and_a_sentence(server: Served) -> None:
    async def say(call: Person, client: Client) -> None:
        for tool, arguments, code, named in REFUSED:
            await call(tool, **arguments)
            assert len(call.refused) == 1, (tool, arguments)
            error = call.refused.pop()
            assert error.keys() == {"code", "message"}
            assert error["code"] == code, (tool, arguments, error)
            assert named in error["message"]
            assert len(error["message"].splitlines()) == 1
        await call("memory_status")
        assert call.refused == []

    talk(server.url + "/mcp", say)


def test_the_bridge_offers_them_as_well(server: Served) -> None:
    bridge = StdioServerParameters(
        command=sys.executable,
        args=[*SERVER, "--transport", "stdio", "--port", str(server.port)],
        env={**os.environ, **environment(server.home, BOTH)},
    )

    async def say(call: Person, client: Client) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools][7:] == TEN
        assert (await call("memory_status"))["database"]

    talk(bridge, say)


def test_either_set_can_be_had_alone_and_by_default_there_are_seven(tmp_path: Path) -> None:
    listed: list[list[str]] = []

    async def say(call: Person, client: Client) -> None:
        listed.append([tool.name for tool in (await client.list_tools()).tools])

    for number, settings in enumerate(({}, {"MNELO_MEMORY_SERVER_TOOLSETS": "timeline"})):
        home = tmp_path / str(number)
        home.mkdir()
        with serving(home, **settings) as served:
            talk(served.url + "/mcp", say)
            assert served.end() == 0
    assert [len(names) for names in listed] == [7, 10]
    assert listed[1] == TEN


def test_a_wrong_set_of_tools_stops_the_start_with_one_line(tmp_path: Path) -> None:
    told = run(tmp_path, MNELO_MEMORY_SERVER_TOOLSETS="core,vellum")
    assert told.returncode == 2
    assert told.stderr.splitlines() == [
        "Setting MNELO_MEMORY_SERVER_TOOLSETS is 'core,vellum'; allowed: a list of core, timeline."
    ]


def test_the_variables_of_the_older_tool_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "vellum" / "vellum.db"
    settings = BOTH | {
        "VELLUM_DB_PATH": str(path),
        "VELLUM_DEDUP_ENABLE": "true",
        "VELLUM_DEDUP_THRESHOLD": "0.95",
        "VELLUM_DAEMON_INTERVAL": "60",
        "VELLUM_DEFAULT_TTL_DAYS": "7",
        "VELLUM_CHUNK_SIZE": "500",
        "VELLUM_CONTEXT_SEPARATORS": r'["\n"]',
    }

    async def say(call: Person, client: Client) -> None:
        status = await call("memory_status")
        assert status["database"] == str(path)
        shown = {name: status["settings"][name] for name in WANTED}
        assert shown == WANTED

    with serving(tmp_path, **settings) as served:
        talk(served.url + "/mcp", say)


WANTED = {
    "dedup_enable": True,
    "dedup_threshold": 0.95,
    "daemon_interval": 60,
    "default_ttl_days": 7,
    "chunk_size": 500,
    "context_separators": ["\n"],
}


def test_upkeep_groups_what_was_written_without_being_asked(server: Served) -> None:
    async def say(call: Person, client: Client) -> None:
        while not (await call("memory_init"))["vectors"]:
            time.sleep(0.1)
        written = [
            await call(
                "memory_write",
                data=entry(f"港口{word}开放", ["港口", "开放", "里加", "船", "时间"]),
            )
            for word in ("每天", "天天", "全天", "整天")
        ]
        deadline = time.monotonic() + 30
        last = written[-1]["timeline_id"]
        while not (await call("memory_get_groups", entry_id=last))["groups"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        upkeep = (await call("memory_status"))["upkeep"]
        assert upkeep["keeping"] is True
        assert {"sweep", "vectors", "groups"} <= upkeep.keys()

    talk(server.url + "/mcp", say)
