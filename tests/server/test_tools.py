"""The seven tools as a client sees them, and what becomes of a call. No network here."""

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import CallToolResult, Implementation, TextContent

from config import Config
from core import results
from core.errors import InvalidInput
from memory import CLIENT, Memory
from server import tools

T = TypeVar("T")

NAMES = [
    *("memory_remember", "memory_recall", "memory_relate", "memory_forget", "memory_update"),
    *("memory_graph_query", "memory_stats"),
]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config.load({"MNELO_HOME": str(tmp_path), "MNELO_MEMORY_EMBEDDER_MODEL": "none"})


class StandIn:
    """In Memory's place where a test needs a fault that the real one does not have."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.clients: list[str] = []

    def recall(self, query: str) -> dict[str, Any]:
        self.go_on.wait(20)
        return {"hits": []}

    def stats(self) -> dict[str, Any]:
        self.clients.append(CLIENT.get())
        return {"chunks": 1}

    def forget(self, target_id: str) -> dict[str, Any]:
        raise RuntimeError(f"secret of /home/me/memory.db\n{target_id}")

    def update(self, old_id: str) -> dict[str, Any]:
        raise InvalidInput("input.missing", name=f"first line\n{old_id}")

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        return lambda **_: {}


def talk(
    memory: object, config: Config, say: Callable[[Client], Awaitable[T]], **options: Any
) -> T:
    """What `say` returns, which speaks to a server of this memory."""

    async def session() -> T:
        server = tools.build_server(
            cast(Memory, memory), [tools.core(cast(Memory, memory), config)]
        )
        async with Client(server, **options) as client:
            return await say(client)

    return asyncio.run(session())


def call(memory: object, config: Config, tool: str, **arguments: Any) -> CallToolResult:
    return talk(memory, config, lambda client: client.call_tool(tool, arguments))


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def listed(config: Config) -> list[dict[str, Any]]:
    listing = talk(StandIn(), config, lambda client: client.list_tools())
    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in listing.tools]


# --- The list --------------------------------------------------------------------------


def test_the_seven_tools_are_listed_in_their_order(config: Config) -> None:
    assert [tool["name"] for tool in listed(config)] == NAMES


def test_each_tool_has_a_title_a_short_description_and_all_four_hints(config: Config) -> None:
    for tool in listed(config):
        assert 20 < len(tool["description"]) < 200
        assert set(tool["annotations"]) == {
            *("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        }


def test_only_what_reads_is_called_reading_and_only_forget_destructive(config: Config) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in listed(config)}

    reading = {name for name, hint in hints.items() if hint["readOnlyHint"]}
    assert reading == {"memory_recall", "memory_graph_query", "memory_stats"}
    destroying = {name for name, hint in hints.items() if hint["destructiveHint"]}
    assert destroying == {"memory_forget"}


def test_the_schemas_are_plain_objects_that_every_client_understands(config: Config) -> None:
    for tool in listed(config):
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            assert schema["type"] == "object"
            words = json.dumps(schema)
            assert not any(word in words for word in ("anyOf", "oneOf", "allOf", "$ref"))
        assert tool["inputSchema"]["additionalProperties"] is False
        for name, argument in tool["inputSchema"]["properties"].items():
            assert argument["description"], f"{tool['name']}.{name}"
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])


def test_what_each_tool_says_to_return_is_what_memory_returns(config: Config) -> None:
    returned = {
        "memory_remember": results.Remembered,
        "memory_recall": results.Recalled,
        "memory_relate": results.Related,
        "memory_forget": results.Forgotten,
        "memory_update": results.Updated,
        "memory_graph_query": results.Graph,
    }
    for tool in listed(config):
        if kind := returned.get(tool["name"]):
            assert set(tool["outputSchema"]["properties"]) == set(kind.__annotations__)


def test_the_instructions_fit_into_what_clients_keep_of_them(config: Config) -> None:
    instructions = talk(StandIn(), config, instructions_of)

    assert len(instructions.encode()) < 2000
    for name in ("memory_recall", "memory_remember", "memory_update", "session_id"):
        assert name in instructions


async def instructions_of(client: Client) -> str:
    return str(client.instructions)


# --- A call ----------------------------------------------------------------------------


def test_a_result_says_the_same_as_text_and_as_structure(config: Config, memory: Memory) -> None:
    call(memory, config, "memory_remember", content="北门 opens at six", tags=["gate"])

    result = call(memory, config, "memory_recall", query="北门")

    assert not result.is_error
    assert json.loads(text_of(result)) == result.structured_content
    assert "北门 opens at six" in text_of(result)


def test_an_unknown_argument_is_refused_by_name(config: Config, memory: Memory) -> None:
    result = call(memory, config, "memory_recall", query="gate", limit=3)

    assert result.is_error
    assert text_of(result).startswith("memory_recall does not know limit; allowed: query, top_k")


def test_a_missing_argument_is_refused_by_name(config: Config, memory: Memory) -> None:
    result = call(memory, config, "memory_remember", source="trip")

    assert result.is_error
    assert text_of(result) == "content is missing."


def test_an_unknown_tool_is_a_protocol_error(config: Config, memory: Memory) -> None:
    async def refused(client: Client) -> MCPError:
        with pytest.raises(MCPError) as refusal:
            await client.call_tool("memory_erase")
        return refusal.value

    error = talk(memory, config, refused)

    assert (error.code, error.message) == (-32602, "There is no tool memory_erase.")


def test_a_refusal_by_memory_is_a_tool_error_of_one_line(config: Config) -> None:
    result = call(StandIn(), config, "memory_update", old_id="second line")

    assert result.is_error
    assert text_of(result) == "first line second line is missing."


def test_a_fault_inside_is_logged_whole_and_told_without_its_text(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "mnelo"):
        result = call(StandIn(), config, "memory_forget", target_id="chunk_1")

    assert result.is_error
    assert "secret" not in text_of(result)
    assert text_of(result).startswith("memory_forget failed inside mnelo; its log says why.")
    assert "RuntimeError: secret of /home/me/memory.db" in caplog.text
    assert "Traceback" in caplog.text


def test_a_slow_call_holds_up_no_other(config: Config) -> None:
    memory = StandIn()

    async def ask(client: Client) -> bool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "memory_recall", {"query": "slow"})
            await anyio.sleep(0.1)
            with anyio.fail_after(5):
                answer = await client.call_tool("memory_stats")
            waiting = not memory.go_on.is_set()
            memory.go_on.set()
        return waiting and answer.structured_content == {"chunks": 1}

    assert talk(memory, config, ask)


def test_a_call_that_its_client_gives_up_is_given_up_at_once(config: Config) -> None:
    memory = StandIn()

    async def give_up(client: Client) -> bool:
        with anyio.move_on_after(0.2) as patience:
            await client.call_tool("memory_recall", {"query": "slow"})
        with anyio.fail_after(5):
            await client.call_tool("memory_stats")
        memory.go_on.set()
        return patience.cancelled_caught

    assert talk(memory, config, give_up)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("name", "logged"),
    [("Claude Code", "Claude Code"), ("a\nb\x1b[31m", "ab[31m"), ("x" * 99, "x" * 64), ("", "mcp")],
)
def test_memory_learns_which_client_calls(
    config: Config, mode: str, name: str, logged: str
) -> None:
    memory = StandIn()
    client = Implementation(name=name, version="1")

    talk(memory, config, lambda each: each.call_tool("memory_stats"), client_info=client, mode=mode)

    assert memory.clients == [logged]
