"""Every argument of every tool with every wrong value, through Memory and over MCP: one line that
names it, nothing stored, and the next call works. The values are those of argument_table.py."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import apsw
import pytest
from mcp import Client
from mcp.types import CallToolResult, TextContent

import argument_table as table
from config import Config
from core.errors import InvalidInput, MneloError
from memory import Memory
from server import tools
from server.tools import build_server

MOST_OF_ONE = 12
"""Wrong values that are tried of each argument here; access/test_validation.py tries them all."""


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory with something in every table."""
    config = Config.load({}, embedder_model="none", timezone=table.ZONE)
    path = tmp_path_factory.mktemp("arguments") / "memory.db"
    with Memory(path, config=config) as memory:
        stored = memory.remember("the red boat", entities=["boat"], tags=["sea"])
        memory.relate("boat", "Ann", "belongs_to", evidence_chunk_id=stored["chunk_id"])
        yield memory


def counts(memory: Memory) -> dict[str, int]:
    """Rows of every table; the log of recalls apart, which grows with each good one."""
    db = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = [
            row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            name: list(db.execute(f"SELECT count(*) FROM {name}"))[0][0]  # noqa: RUF015, S608
            for name in tables
            if name != "recall_log" and not name.endswith("_terms") and name != "sqlite_sequence"
        }
    finally:
        db.close()


def ask(memory: Memory, tool: str, several: list[dict[str, Any]]) -> list[CallToolResult]:
    """Each set of arguments in a call of its own, in one session of a real MCP client."""

    async def session() -> list[CallToolResult]:
        async with Client(build_server(memory, [tools.core(memory, memory.config)])) as client:
            return [await client.call_tool(tool, arguments) for arguments in several]

    return asyncio.run(session())


def sentence(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def spread(values: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """A few values from all over a list."""
    return values[:: max(1, len(values) // MOST_OF_ONE)]


def travels(value: Any) -> bool:
    """Whether JSON can say this value; a NaN, for one, arrives as null."""
    try:
        said = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError):
        return False
    return bool(json.loads(said) == value) and len(said) < 1 << 20


@table.each_place
def test_a_wrong_value_is_refused_by_memory_and_changes_nothing(
    stocked: Memory, place: table.Place
) -> None:
    method = getattr(stocked, place.tool.removeprefix("memory_"))
    before = counts(stocked)
    for value, says in spread(place.takes.bad):
        with pytest.raises(InvalidInput) as refusal:
            method(**place.arguments(value))
        assert str(refusal.value).startswith(place.path)
        assert says in str(refusal.value)
    assert counts(stocked) == before
    assert stocked.recall("boat")["hits"]


@table.each_place
def test_a_wrong_value_is_refused_over_mcp_and_changes_nothing(
    stocked: Memory, place: table.Place
) -> None:
    before = counts(stocked)
    wrong = spread([each for each in place.takes.bad if travels(place.arguments(each[0]))])
    for (_, says), result in zip(
        wrong, ask(stocked, place.tool, [place.arguments(value) for value, _ in wrong]), strict=True
    ):
        assert result.is_error
        assert sentence(result).startswith(place.path)
        assert says in sentence(result)
        assert "\n" not in sentence(result)
    assert counts(stocked) == before
    (alive,) = ask(stocked, "memory_recall", [{"query": "boat"}])
    assert not alive.is_error


@table.each_place
def test_a_value_that_can_be_meant_is_never_refused_for_itself(
    stocked: Memory, place: table.Place
) -> None:
    method = getattr(stocked, place.tool.removeprefix("memory_"))
    for value, _ in place.takes.good[:MOST_OF_ONE]:
        try:
            method(**place.arguments(value))
        except MneloError as error:
            # An id that nobody has, or nothing to do, is another matter.
            assert not str(error).startswith(place.path + " ") or "whole number" in str(error)  # noqa: PT017


@pytest.mark.parametrize("tool", table.TOOLS)
def test_what_is_unknown_or_missing_is_named_over_mcp(stocked: Memory, tool: str) -> None:
    before = counts(stocked)
    least = table.LEAST[tool]
    unknown, *missing = ask(
        stocked,
        tool,
        [
            {**least, "colour": "red"},
            *({key: value for key, value in least.items() if key != left} for left in least),
        ],
    )
    assert unknown.is_error
    assert sentence(unknown).startswith(f"{tool} does not know colour; allowed: ")
    for left, result in zip(least, missing, strict=True):
        assert result.is_error
        assert sentence(result) == f"{left} is missing."
    assert counts(stocked) == before


@pytest.mark.parametrize("tool", table.TOOLS)
def test_an_unknown_argument_is_named_by_python_too(stocked: Memory, tool: str) -> None:
    method = getattr(stocked, tool.removeprefix("memory_"))
    with pytest.raises(TypeError, match="colour"):
        method(**table.LEAST[tool], colour="red")


def test_the_refusals_are_chinese_for_who_reads_chinese(
    stocked: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh")
    (result,) = ask(stocked, "memory_recall", [{"query": "boat", "top_k": 0}])
    assert sentence(result) == "top_k 必须是1 到 100 之间的整数，而不是 0。"
