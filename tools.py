"""The seven tools as MCP shows them, and the server that calls Memory for each.

What a tool accepts is in validation.py and what it returns in results.py. A call runs in a
worker thread, so that a slow one holds up nobody else's.
"""

import json
import logging
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

import resources
from config import VERSION, Config
from errors import MneloError
from memory import CLIENT, Memory
from mnelo_locale import message
from validation import Schema, contract

log = logging.getLogger("mnelo.tools")

WORKERS = 16
"""Calls that run at the same time; the others queue."""

INSTRUCTIONS = """\
mnelo is the long-term memory that all of this person's agents share.

- Before you answer about the past, earlier decisions, people or preferences, call \
memory_recall; ask in the words the memory would use, and in its language.
- When something worth knowing next month turns up, call memory_remember: one self-contained \
fact per call, with names and dates written out. Say who or what it is about in entities. Do \
not store secrets, nor what the project's own files say.
- When a stored fact has changed, call memory_update with its chunk_id; do not add one that \
contradicts it. memory_forget closes what should no longer be found. Both keep the history, \
which asof in memory_recall and memory_graph_query still reads.
- session_id, source and tags keep projects apart: set them when you store, and give them as \
filters when you recall.
- memory_relate and memory_graph_query tie people, projects and things together and walk \
those ties.
- A notice in a reply says what was not searched or not found; take it as it is. English and \
Chinese (中文) work alike, also mixed."""


# --- The tools -------------------------------------------------------------------------

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}
OBJECTS: Schema = {"type": "array", "items": OBJECT}


def _returns(**keys: Schema) -> Schema:
    """What a tool returns, by its main keys: clients read this list at every start."""
    return {"type": "object", "properties": keys}


GUARDED: dict[str, Schema] = {"secrets": {"type": "array"}, "notice": TEXT}


@dataclass(frozen=True, slots=True)
class Shown:
    """One tool: how it is described, and Memory's method of the same job."""

    method: str
    title: str
    description: str
    returns: Schema
    reads_only: bool = False
    destroys: bool = False

    @property
    def name(self) -> str:
        return f"memory_{self.method}"

    def listed(self, accepts: Schema) -> Tool:
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=accepts,
            output_schema=self.returns,
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads_only,
                destructive_hint=self.destroys,
                # Saying the same twice changes nothing: identical writes are folded.
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )


TOOLS = (
    Shown(
        "remember",
        "Remember",
        "Store one durable fact; an identical one is folded, similar ones are listed.",
        _returns(
            chunk_id=TEXT,
            status=TEXT,
            entities=TEXTS,
            embedding=TEXT,
            similar=OBJECTS,
            **GUARDED,
        ),
    ),
    Shown(
        "recall",
        "Recall",
        "Search by meaning, words, names and relations at once; best first.",
        _returns(hits=OBJECTS, notice=TEXT),
        reads_only=True,
    ),
    Shown(
        "relate",
        "Relate",
        "Say how two entities are related, and since when.",
        _returns(relation_id=COUNT, status=TEXT, **GUARDED),
    ),
    Shown(
        "forget",
        "Forget",
        "Close a memory, entity or relation; its history stays.",
        _returns(forgotten=COUNT, edges_invalidated=COUNT),
        destroys=True,
    ),
    Shown(
        "update",
        "Update",
        "Replace a memory by a newer version; its history stays.",
        _returns(new_chunk_id=TEXT, supersedes=TEXT, status=TEXT, **GUARDED),
    ),
    Shown(
        "graph_query",
        "Graph",
        "What an entity is tied to, along its relations both ways.",
        _returns(
            nodes=OBJECTS,
            edges=OBJECTS,
            asof=TEXT,
            truncated=FLAG,
            total_nodes=COUNT,
            total_edges=COUNT,
        ),
        reads_only=True,
    ),
    Shown(
        "stats",
        "Stats",
        "How much is stored, and which ways to search work.",
        OBJECT,
        reads_only=True,
    ),
)


# --- The server ------------------------------------------------------------------------


Answered = Callable[[str, Mapping[str, Any], Mapping[str, Any], float], None]
"""Told of each call that was answered: tool, arguments, result and seconds."""


def build_server(
    memory: Memory, config: Config, answered: Answered = lambda *_: None
) -> Server[Any]:
    """The MCP server of this memory; its transports are transport.py's business."""
    arguments = contract(config)
    accepts = {shown.name: arguments.schema(shown.name) for shown in TOOLS}
    methods = {shown.name: getattr(memory, shown.method) for shown in TOOLS}
    listing = ListToolsResult(tools=[shown.listed(accepts[shown.name]) for shown in TOOLS])
    workers = anyio.CapacityLimiter(WORKERS)
    extras = resources.Extras(memory, workers)

    async def list_tools(
        ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return listing

    async def call_tool(
        ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if params.name not in methods:
            raise MCPError(INVALID_PARAMS, message("server.no_tool", tool=params.name))
        CLIENT.set(_client_name(ctx))
        try:
            given = arguments.accept(params.name, params.arguments or {})
            call = partial(_timed, methods[params.name], params.name, given, answered)
            # A call that its client cancels runs on in its thread: there is no half a write.
            result = await run_sync(call, abandon_on_cancel=True, limiter=workers)
        except MneloError as error:
            return _failure(str(error))
        except Exception:
            log.exception("%s failed", params.name)
            return _failure(message("server.failed", tool=params.name))
        return _success(result)

    return Server(
        "mnelo",
        version=VERSION,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=extras.list_resources,
        on_list_resource_templates=extras.list_templates,
        on_read_resource=extras.read_resource,
        on_list_prompts=extras.list_prompts,
        on_get_prompt=extras.get_prompt,
        get_tool_input_schema=accepts.get,
    )


def _timed(
    method: Callable[..., Mapping[str, Any]],
    tool: str,
    given: Mapping[str, Any],
    answered: Answered,
) -> Mapping[str, Any]:
    start = time.perf_counter()
    result = method(**given)
    answered(tool, given, result, time.perf_counter() - start)
    return result


def _client_name(ctx: ServerRequestContext[Any]) -> str:
    """What the client calls itself, fit for one line of the audit log."""
    client = ctx.session.client_params
    name = client.client_info.name if client else ""
    return "".join(char for char in name if unicodedata.category(char)[0] != "C")[:64] or "mcp"


def _success(result: Mapping[str, Any]) -> CallToolResult:
    """The result in both forms: some clients show the model only one of them."""
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(text=text)], structured_content=dict(result))


def _failure(sentence: str) -> CallToolResult:
    line = " ".join(sentence.splitlines())
    return CallToolResult(content=[TextContent(text=line)], is_error=True)
