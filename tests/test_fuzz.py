"""Hostile values at every entry for text: one line that a person understands, or it is done.

Nothing that is refused is stored. The values are picked at random, the same ones in every run;
with --long others for half an hour at each entry.
"""

import asyncio
import inspect
import json
import math
import re
import string
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import apsw
import pytest
from mcp import Client, MCPError
from mcp.types import TextContent

from access.validation import contract
from config import Config
from core import timestamps
from core.errors import MneloError
from crash_worker import look
from exports import exported, lines, taken_in, written
from memory import Memory
from mnelo_client import MneloClient
from mnelo_client import MneloError as ClientError
from server import tools
from server.timeline_tools import timeline_tools
from server.tools import build_server
from serving import serving
from text import dates
from timeline import arguments
from transfer.formats import READERS, Bad, mnemosyne

LONG_SECONDS = 1800.0
INTERNAL = re.compile(
    r"Traceback|File \"|\.py\b|apsw|SQLITE|SQL logic|no such (?:table|column)|object at 0x"
    r"|NoneType|unhashable|validation errors? for|internal error|KeyError|TypeError|ValueError"
)
"""What nobody but a programmer understands."""


def judge(said: str) -> None:
    """A refusal is one line of characters that print, without a word from inside."""
    assert said
    assert said.isprintable(), ascii(said)
    assert not INTERNAL.search(said), said
    assert len(said) < 2000, said[:200]


# --- Hostile values --------------------------------------------------------------------

TEXTS = (
    *(
        "",
        " ",
        "\x00",
        "a\x00b",
        "\ud800",
        "a\udfffb",
        "\u202eabc",
        "a\u200b",
        "\x1b[2J\x07",
        "\x9b1m",
    ),
    *("'; DROP TABLE chunks; --", '" OR 1=1 --', "%", "_", "*", 'a" NEAR "b', "x' UNION SELECT 1"),
    *("../../etc/passwd", "/dev/zero", "C:\\con", "file:///etc/passwd", "~/.ssh/id_rsa", "${HOME}"),
    *("null", "true", "NaN", "[]", "{}", '{"a":', "[" * 500, "1e999", "-0", "0x10", "9" * 400),
    *("chunk_20260701T000000000Z_0123456789ab", "entity:Ann", "entity:", "chunk_", "Ann"),
    *("2026-02-30", "2026-07-01T25:00", "0000-00-00", "9999-12-31T23:59:59.999Z", "-1", "明天"),
    *("👩‍👩‍👧‍👦" * 40, "é" * 300, "e\u0301" * 300, "ﷺ" * 30, "\ufdfa" * 20, "北" * 70_000),
    *("a" * 257, "a\nb", "a\r\nb", "a\u2028b", "\ufeff", "{0}", "%s%n", "<script>", "{{7*7}}"),
)
NUMBERS = (0, -1, 1, 5, 1.5, 1 << 31, 1 << 63, -(1 << 63) - 1, 1e308, 5e-324, -0.0, True, False)
NO_JSON = (
    *(math.nan, math.inf, -math.inf, 10**5000, b"bytes", print, {1, 2}, 1j, range(3), Path("a")),
    *({(1, 2): 3}, {1: 2}, "\ud800", slice(1), len, ["a", print]),
)


def hostile(random: Random, *, plain: bool, depth: int = 0) -> Any:
    """Any value; `plain` ones are of JSON."""
    kind = random.random()
    if kind < 0.5:
        return random.choice(TEXTS)
    if kind < 0.62:
        return random.choice(NUMBERS)
    if kind < 0.66:
        return "".join(random.choices(string.printable + "北門\u202e\x85", k=random.randrange(40)))
    if kind < 0.7 or depth > 3:
        return None
    if kind < 0.75:
        return nested(random.choice((3, 101, 200)))
    if kind < 0.8 and not plain:
        return random.choice(NO_JSON)
    several = range(random.choice((0, 1, 2, 5, 5, 201)))
    if kind < 0.9:
        return [hostile(random, plain=plain, depth=depth + 1 + len(several)) for _ in several]
    keys = ("id", "source_id", "target_id", "relation", "summary", "tags", "category", "colour")
    some = random.sample((*keys, *TEXTS[:6]), 3)
    return {key: hostile(random, plain=plain, depth=depth + 1) for key in some}


def nested(levels: int) -> Any:
    value: Any = []
    for level in range(levels):
        value = {"in": value} if level % 2 else [value]
    return value


def changed(random: Random, good: dict[str, Any], names: list[str], *, plain: bool) -> Any:
    """Good arguments of which one or two are hostile, or missing."""
    given = dict(good)
    for name in random.sample(names, min(len(names), random.choice((1, 1, 2)))):
        if random.random() < 0.05:
            given.pop(name, None)
        else:
            given[name] = hostile(random, plain=plain)
    return given


# --- What may not change ---------------------------------------------------------------

COUNTS = """
    SELECT (SELECT count(*) FROM chunks), (SELECT count(*) FROM entities),
        (SELECT count(*) FROM aliases), (SELECT count(*) FROM relations),
        (SELECT count(*) FROM tags), (SELECT count(*) FROM timeline), (SELECT count(*) FROM audit)
"""


@pytest.fixture
def stocked(tmp_path: Path) -> Iterator[Memory]:
    """A memory with something in every table."""
    with Memory(tmp_path / "memory.db", config=Config.load({}, embedder_model="none")) as memory:
        stored = memory.remember("the red boat", entities=["Ann"], tags=["sea"])
        memory.relate("Ann", "boat", "owns", evidence_chunk_id=stored["chunk_id"])
        yield memory


@contextmanager
def unchanged_if_refused(memory: Memory) -> Iterator[Callable[[str], None]]:
    """Gives what is called with a refusal: judges it, and that it left every table as it was."""
    with closing(apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        before = list(db.execute(COUNTS))

        def refused(said: str) -> None:
            judge(said)
            assert list(db.execute(COUNTS)) == before, said

        yield refused


# --- Memory ----------------------------------------------------------------------------

CHUNK, ENTITY = "chunk_20260701T000000000Z_0123456789ab", "Ann"
METHODS: dict[str, dict[str, Any]] = {
    "remember": {"content": "x"},
    "remember_many": {"items": [{"content": "y"}]},
    "relate": {"source_id": "a", "target_id": "b", "relation": "knows"},
    "forget": {"target_id": ENTITY},
    "update": {"old_id": CHUNK, "new_content": "z"},
    "recall": {"query": "boat"},
    "graph_query": {"start_node": ENTITY},
    "show_chunk": {"chunk_id": CHUNK},
    "show_entity": {"entity_id": ENTITY},
    "find_duplicates": {},
    "merge_entities": {"keep": ENTITY, "duplicate": "boat"},
    "undo_merge": {"audit_id": 1},
    "undo": {"audit_id": 1},
    "history": {},
}
"""Each public method that takes text or numbers from outside, with the least it needs."""


def fuzz_memory(memory: Memory, random: Random, count: int) -> None:
    for _ in range(count):
        method = random.choice(list(METHODS))
        function = getattr(memory, method)
        names = list(inspect.signature(function).parameters)
        given = changed(random, METHODS[method], names, plain=False)
        if METHODS[method].keys() - given.keys():
            continue  # Python itself says what is missing
        with unchanged_if_refused(memory) as refused:
            try:
                function(**given)
            except MneloError as error:
                refused(str(error))
    assert memory.recall("boat")["hits"]


# --- All seventeen tools ---------------------------------------------------------------

ENTRY = {"summary": "s", "tags": list("abcde"), "category": "other", "context_text": "more"}
LEAST: dict[str, dict[str, Any]] = {
    **{f"memory_{name}": METHODS[name] for name in ("remember", "recall", "relate", "forget")},
    **{f"memory_{name}": METHODS[name] for name in ("update", "graph_query")},
    "memory_write": {"data": ENTRY},
    "memory_query": {"query": "boat"},
    "memory_get_context": {"timeline_id": CHUNK},
    "memory_write_context": {"timeline_id": CHUNK, "context_text": "more"},
    "memory_get_groups": {"entry_id": CHUNK},
    "memory_get_group_members": {"group_id": "group_1"},
}


def accepted(config: Config) -> dict[str, list[str]]:
    """The arguments of each of the seventeen tools."""
    both = {**contract(config).tools, **arguments.contract(config).tools}
    return {tool: list(table.fields) for tool, table in both.items()}


def asked(random: Random, tool: str, names: list[str]) -> dict[str, Any]:
    """Arguments that JSON can say: a NaN arrives as null, half a character not at all."""
    good = LEAST.get(tool, {})
    if tool == "memory_write" and random.random() < 0.7:
        return {"data": changed(random, ENTRY, [*ENTRY, "is_time_sensitive"], plain=True)}
    given = changed(random, good, names or ["colour"], plain=True)
    if random.random() < 0.05:
        given[random.choice(TEXTS[7:20])] = 1
    return dict(json.loads(re.sub(r"\\ud[89a-f]..", "?", json.dumps(given))))


def fuzz_tools(memory: Memory, random: Random, count: int) -> None:
    timeline = memory.timeline()
    sets = [tools.core(memory, memory.config), timeline_tools(timeline, memory.config)]
    known = accepted(memory.config)
    assert len(known) == 17

    async def session() -> None:
        async with Client(build_server(memory, sets)) as client:
            for _ in range(count):
                tool = random.choice(list(known))
                given = asked(random, tool, known[tool])
                with unchanged_if_refused(memory) as refused:
                    try:
                        result = await client.call_tool(tool, given)
                    except MCPError as error:
                        judge(str(error))
                        continue
                    (block,) = result.content
                    assert isinstance(block, TextContent)
                    if result.is_error:
                        refused(sentence(block.text))

    asyncio.run(session())
    timeline.close()


def sentence(said: str) -> str:
    """What a tool says; those of the timeline say it in JSON, with a code."""
    if not said.startswith('{"error":'):
        return said
    error = json.loads(said)["error"]
    assert error["code"] != "internal", said
    return str(error["message"])


# --- The client ------------------------------------------------------------------------


def fuzz_client(client: MneloClient, random: Random, count: int) -> None:
    for _ in range(count):
        method = random.choice(("remember", "recall", "relate", "forget", "update", "graph_query"))
        function = getattr(client, method)
        names = list(inspect.signature(function).parameters)
        given = changed(random, METHODS[method], names, plain=True)
        if METHODS[method].keys() - given.keys():
            continue
        try:
            function(**given)
        except ClientError as error:
            judge(str(error))
    assert client.recall("kettle")


# --- Files and settings ----------------------------------------------------------------

EDGE = {"from": "a", "to": "b", "relationType": "knows", "type": "relation"}
NOTE = {"type": "entity", "name": "a", "entityType": "t", "observations": ["o"]}
TOLD = {"memory": "m", "content": "m", "user_id": "u", "created_at": 1, "metadata": {"a": 1}}
SPOKEN = {"uuid": "u", "name": "n", "chat_messages": [{"text": "t", "sender": "human"}]}
NODE = {"message": {"author": {"role": "user"}, "content": {"parts": ["hello"]}}, "parent": None}
TALK = {"id": "i", "title": "t", "mapping": {"n": NODE}, "current_node": "n", "create_time": 1}
FORMS: tuple[dict[str, Any], ...] = (EDGE, NOTE, TOLD, SPOKEN, NODE, TALK)


def hostile_file(random: Random) -> bytes:
    """What may be an export of some program, with something else in one place."""
    form = dict(random.choice(FORMS))
    inner = random.choice(list(form))
    if isinstance(form[inner], dict) and random.random() < 0.6:
        form[inner] = changed(random, form[inner], list(form[inner]), plain=True)
    else:
        form = changed(random, form, list(form), plain=True)
    whole = random.choice(
        (
            form,
            [form],
            {"results": [form]},
            {"memories": [form]},
            {"relations": [form], "results": []},
        )
    )
    raw = json.dumps(whole, ensure_ascii=False).encode(errors="surrogatepass")
    if random.random() < 0.2:
        at = random.randrange(len(raw))
        raw = raw[:at] + bytes([random.randrange(256)]) + raw[at + 1 :]
    return raw


def fuzz_importers(memory: Memory, random: Random, count: int) -> None:
    file = memory.path.with_name("export.json")
    readers = [*READERS.values(), mnemosyne]
    for _ in range(count):
        file.write_bytes(hostile_file(random))
        for reader in readers:
            try:
                found = list(reader(file))
            except MneloError as error:
                judge(str(error))
            else:
                for each in found:
                    if isinstance(each, Bad):
                        judge(str(each))
                    else:
                        assert isinstance(each.item, dict)


def fuzz_export_lines(memory: Memory, random: Random, count: int) -> None:
    """One record has something else in one place: it is refused by its line, or it is taken."""
    good = lines(exported(memory.path))
    target = memory.path.with_name("other.db")
    for _ in range(count):
        records = [dict(each) for each in good]
        at = random.randrange(len(records))
        records[at] = changed(random, records[at], list(records[at]), plain=True)
        try:
            done = taken_in(broken(records), target, dry_run=True)
        except MneloError as error:
            judge(str(error))
        else:
            for problem in (*done.problems, *done.conflicts):
                judge(str(problem))
    assert not target.exists()


def broken(records: list[dict[str, Any]]) -> bytes:
    try:
        return written(records)
    except UnicodeEncodeError:  # half a character
        return b"".join(json.dumps(each).encode() + b"\n" for each in records)


def fuzz_settings(_memory: Memory, random: Random, count: int) -> None:
    names = [each.name for each in fields(Config) if each.metadata]
    for _ in range(count):
        value = hostile(random, plain=True)
        try:
            Config.load({}, **{random.choice(names): value})
        except MneloError as error:
            judge(str(error))


def fuzz_dates(_memory: Memory, random: Random, count: int) -> None:
    home = timezone.utc
    pieces = (
        "last ",
        "in ",
        "上个月",
        "2026-",
        "13",
        "/",
        "周",
        "years ago",
        "Q9",
        "明天",
        "٣",
        " ",
    )
    for _ in range(count):
        text = "".join(random.choices((*pieces, *TEXTS[:40]), k=random.randrange(1, 9)))
        now = timestamps.stamp(datetime(2026, 7, 1, tzinfo=home))
        dates.named(text[:4096], now, home, lambda: (1900, 2030))


# --- Runs ------------------------------------------------------------------------------

Fuzz = Callable[[Memory, Random, int], None]
ENTRIES: dict[str, tuple[Fuzz, int]] = {
    "Memory": (fuzz_memory, 500),
    "the tools": (fuzz_tools, 400),
    "importers": (fuzz_importers, 150),
    "lines of an export": (fuzz_export_lines, 80),
    "settings": (fuzz_settings, 400),
    "dates in a question": (fuzz_dates, 300),
}
each_entry = pytest.mark.parametrize("entry", ENTRIES)


@each_entry
def test_no_value_brings_up_anything_but_one_plain_line(stocked: Memory, entry: str) -> None:
    fuzz, count = ENTRIES[entry]
    fuzz(stocked, Random(1), count)  # noqa: S311
    assert not any(stocked.store.upkeep.check()[0].values())


def test_no_value_brings_the_client_anything_but_one_plain_line(tmp_path: Path) -> None:
    with serving(tmp_path) as served, MneloClient(served.url + "/mcp") as client:
        client.remember("the kettle")
        fuzz_client(client, Random(2), 120)  # noqa: S311
        assert "Traceback" not in served.stderr()
    assert look(tmp_path / "memory.db", "SELECT count(*) > 0 FROM chunks") == [(1,)]


@pytest.mark.long
@pytest.mark.timeout(2 * LONG_SECONDS)
@each_entry
def test_no_value_brings_up_anything_else_in_half_an_hour(stocked: Memory, entry: str) -> None:
    fuzz, count = ENTRIES[entry]
    end = time.monotonic() + LONG_SECONDS
    while time.monotonic() < end:
        seed = SystemRandom().randrange(1 << 32)
        print(f"seed {seed}")
        fuzz(stocked, Random(seed), count)  # noqa: S311
