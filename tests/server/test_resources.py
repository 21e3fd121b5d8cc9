"""Resources and prompts, as a client reads them."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from mcp import Client, MCPError
from mcp.types import TextContent, TextResourceContents

from core.errors import NotFound
from memory import Memory
from server import tools
from server.tools import build_server
from serving import serving

T = TypeVar("T")


def talk(memory: Memory, say: Callable[[Client], Awaitable[T]]) -> T:
    async def session() -> T:
        async with Client(build_server(memory, [tools.core(memory, memory.config)])) as client:
            return await say(client)

    return asyncio.run(session())


def read(memory: Memory, uri: str) -> dict[str, Any]:
    """The JSON that a resource is."""
    (content,) = talk(memory, lambda client: client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert (content.uri, content.mime_type) == (uri, "application/json")
    return dict(json.loads(content.text))


def refused(memory: Memory, ask: Callable[[Client], Awaitable[object]]) -> MCPError:
    async def answer(client: Client) -> MCPError:
        with pytest.raises(MCPError) as refusal:
            await ask(client)
        return refusal.value

    return talk(memory, answer)


# --- Resources -------------------------------------------------------------------------


def test_statistics_are_listed_and_read(wordless: Memory) -> None:
    wordless.remember("the only one")
    listed = talk(wordless, lambda client: client.list_resources()).resources

    assert [resource.uri for resource in listed] == ["memory://stats"]
    assert all(resource.description for resource in listed)
    assert read(wordless, "memory://stats")["chunks"] == wordless.stats()["chunks"]


def test_memories_and_entities_are_listed_as_templates(wordless: Memory) -> None:
    templates = talk(wordless, lambda each: each.list_resource_templates()).resource_templates

    assert [each.uri_template for each in templates] == [
        *("memory://chunk/{id}", "memory://entity/{id}")
    ]
    assert all(each.description for each in templates)


def test_a_memory_shows_all_that_is_known_of_it(wordless: Memory) -> None:
    chunk_id = wordless.remember(
        "北门 opens at six",
        source="travel",
        importance=0.7,
        tags=["gate", "北"],
        session_id="trip",
        timestamp="2026-07-01T10:00:00Z",
    )["chunk_id"]

    shown = read(wordless, f"memory://chunk/{chunk_id}")

    created = shown.pop("created_at")
    assert created > "2026-07-01"
    assert shown == {
        "chunk_id": chunk_id,
        "content": "北门 opens at six",
        "source": "travel",
        "session_id": "trip",
        "timestamp": "2026-07-01T10:00:00.000Z",
        "importance": 0.7,
        "tags": ["gate", "北"],
        "properties": {},
        "valid_from": "2026-07-01T10:00:00.000Z",
        "valid_until": None,
        "older_versions": [],
        "newer_versions": [],
    }


def test_each_version_of_a_memory_shows_the_others_nearest_first(wordless: Memory) -> None:
    ids = [wordless.remember("version 0")["chunk_id"]]
    for number in range(1, 5):
        changed = wordless.update(
            ids[-1], new_content=f"version {number}", new_properties={"number": number}
        )
        ids.append(changed["new_chunk_id"])

    middle = read(wordless, f"memory://chunk/{ids[2]}")

    assert middle["older_versions"] == [ids[1], ids[0]]
    assert middle["newer_versions"] == [ids[3], ids[4]]
    assert middle["properties"] == {"number": 2}
    assert middle["valid_until"]
    assert wordless.show_chunk(ids[0])["newer_versions"] == ids[1:]
    assert wordless.show_chunk(ids[4])["older_versions"] == ids[3::-1]


def test_a_forgotten_memory_is_still_shown_with_its_end(wordless: Memory) -> None:
    chunk_id = wordless.remember("no longer so")["chunk_id"]
    wordless.forget(chunk_id)

    assert read(wordless, f"memory://chunk/{chunk_id}")["valid_until"]


def test_an_entity_shows_its_names_and_its_own_relations(wordless: Memory) -> None:
    wordless.remember(
        "the boat lies there",
        entities=[
            {
                "id": "boat",
                "kind": "ship",
                "name": "Hildegard",
                "summary": "a red boat",
                "aliases": ["小船", "Hilde"],
                "properties": {"tons": 3},
            }
        ],
    )
    wordless.relate("boat", "harbour", "lies_in", weight=0.5)
    wordless.relate("riga", "boat", "owns")
    wordless.relate("harbour", "riga", "part_of")

    shown = read(wordless, "memory://entity/boat")

    known = {key: shown[key] for key in ("entity_id", "kind", "name", "summary", "properties")}
    assert known == {
        "entity_id": "boat",
        "kind": "ship",
        "name": "Hildegard",
        "summary": "a red boat",
        "properties": {"tons": 3},
    }
    assert set(shown["aliases"]) == {"小船", "Hilde"}
    assert [relation["relation"] for relation in shown["relations"]] == ["owns", "lies_in"]


@pytest.mark.parametrize("name", ["C#", "team/blue", "100% sure?", "北门", "O'Neil & Co", "a%20b"])
@pytest.mark.parametrize("write", [quote, lambda name: quote(name, safe="")])
def test_an_entity_of_any_name_is_read_by_its_encoded_id(
    wordless: Memory, name: str, write: Callable[[str], str]
) -> None:
    wordless.remember("about it", entities=[name])

    assert read(wordless, "memory://entity/" + write(name))["entity_id"] == name


def test_an_entity_is_also_read_by_its_alias_written_as_it_is(wordless: Memory) -> None:
    wordless.remember("about it", entities=[{"id": "gate", "aliases": ["北门"]}])

    assert read(wordless, "memory://entity/北门")["entity_id"] == "gate"


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("memory://chunk/chunk_1", "There is no memory with id chunk_1."),
        ("memory://entity/harbor", "There is no entity harbor; near names: harbour."),
        ("memory://entity/", "start_node is blank; it needs some text."),
        ("memory://elsewhere", "There is no resource memory://elsewhere."),
        ("file:///etc/passwd", "There is no resource file:///etc/passwd."),
    ],
)
def test_what_is_not_there_is_a_proper_error(wordless: Memory, uri: str, sentence: str) -> None:
    wordless.remember("ships lie there", entities=["harbour"])

    error = refused(wordless, lambda client: client.read_resource(uri))

    assert (error.code, error.message) == (-32602, sentence)
    assert error.error.data == {"uri": uri}


def test_a_memorys_id_is_no_entity(wordless: Memory) -> None:
    chunk_id = wordless.remember("a memory")["chunk_id"]

    with pytest.raises(NotFound, match=f"There is no entity {chunk_id}"):
        wordless.show_entity(chunk_id)


def test_a_fault_inside_is_logged_and_told_without_its_text(
    wordless: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> dict[str, Any]:
        raise RuntimeError("secret of /home/me")

    monkeypatch.setattr(wordless, "stats", fail)
    with caplog.at_level(logging.ERROR, "mnelo"):
        error = refused(wordless, lambda client: client.read_resource("memory://stats"))

    assert error.code == -32603
    assert error.message.startswith("memory://stats failed inside mnelo; its log says why.")
    assert "secret" not in error.message
    assert "RuntimeError: secret of /home/me" in caplog.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_name_in_chinese_comes_through_http(tmp_path: Path, mode: str) -> None:
    async def session(url: str) -> str:
        async with Client(url, mode=mode) as client:
            await client.call_tool("memory_remember", {"content": "x", "entities": ["北门"]})
            (content,) = (await client.read_resource("memory://entity/北门")).contents
            assert isinstance(content, TextResourceContents)
            return content.text

    with serving(tmp_path) as server:
        text = asyncio.run(session(server.url + "/mcp"))

    assert json.loads(text)["entity_id"] == "北门"


# --- Prompts ---------------------------------------------------------------------------


def prompt(memory: Memory, name: str, **arguments: str) -> str:
    given = talk(memory, lambda client: client.get_prompt(name, arguments))
    (asked,) = given.messages
    assert asked.role == "user"
    assert isinstance(asked.content, TextContent)
    return asked.content.text


def test_two_prompts_are_listed_with_what_they_need(wordless: Memory) -> None:
    listed = talk(wordless, lambda client: client.list_prompts()).prompts

    assert {each.name: [one.name for one in each.arguments or []] for each in listed} == {
        "recall_first": ["topic"],
        "remember_session": [],
    }
    assert all(each.title and each.description for each in listed)
    assert all(one.required and one.description for each in listed for one in each.arguments or [])


def test_the_prompts_name_the_tools_that_there_are(wordless: Memory) -> None:
    recall = prompt(wordless, "recall_first", topic=" the {red} boat ")
    remember = prompt(wordless, "remember_session")

    assert recall.startswith("Before you answer anything about the {red} boat, call memory_recall")
    assert "memory_update" in remember
    assert "memory_remember" in remember


def test_the_prompts_speak_the_readers_language(
    wordless: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh")

    assert prompt(wordless, "recall_first", topic="北门").startswith(
        "在回答任何关于 北门 的内容之前"
    )
    assert prompt(wordless, "remember_session").startswith("通读本次对话")


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("recall_first", {}, "topic is missing."),
        ("recall_first", {"topic": "  "}, "topic is missing."),
        ("remember_session", {"topic": "x"}, "remember_session does not know topic; allowed: -."),
        ("forget_all", {}, "There is no prompt forget_all."),
    ],
)
def test_a_prompt_that_cannot_be_given_is_a_proper_error(
    wordless: Memory, name: str, arguments: dict[str, str], sentence: str
) -> None:
    error = refused(wordless, lambda client: client.get_prompt(name, arguments))

    assert (error.code, error.message) == (-32602, sentence)
