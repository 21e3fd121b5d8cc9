"""What clients may show to people beside the tools: a few things to read, and two prompts.

Many clients show neither, so nothing else depends on them.
"""

import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

import anyio
from anyio.to_thread import run_sync
from mcp import MCPError, types
from mcp.server import ServerRequestContext

from core.errors import MneloError, NotFound
from memory import Memory
from mnelo_locale import message

log = logging.getLogger("mnelo.resources")

STATS = "memory://stats"
CHUNK = "memory://chunk/"
ENTITY = "memory://entity/"
JSON = "application/json"

PROMPTS = {"recall_first": ("topic",), "remember_session": ()}
"""Each prompt, and the arguments it needs."""

Context = ServerRequestContext[Any]
Page = types.PaginatedRequestParams | None


class Extras:
    """The handlers of MCP's requests for resources and prompts of one memory."""

    def __init__(self, memory: Memory, workers: anyio.CapacityLimiter) -> None:
        self._memory = memory
        self._workers = workers

    async def list_resources(self, ctx: Context, params: Page) -> types.ListResourcesResult:
        about = message("resource.stats")
        stats = types.Resource(uri=STATS, name="stats", description=about, mime_type=JSON)
        return types.ListResourcesResult(resources=[stats])

    async def list_templates(self, ctx: Context, params: Page) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(
                uri_template=beginning + "{id}",
                name=name,
                description=message(f"resource.{name}"),
                mime_type=JSON,
            )
            for name, beginning in (("chunk", CHUNK), ("entity", ENTITY))
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = params.uri
        try:
            read = partial(_read, self._memory, uri)
            found = await run_sync(read, abandon_on_cancel=True, limiter=self._workers)
        except MneloError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
        except Exception:
            log.exception("%s failed", uri)
            about = message("server.failed", tool=uri)
            raise MCPError(types.INTERNAL_ERROR, about, {"uri": uri}) from None
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type=JSON, text=text)]
        )

    async def list_prompts(self, ctx: Context, params: Page) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt(name) for name in PROMPTS])

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        given = {name: text.strip() for name, text in (params.arguments or {}).items()}
        if fault := _fault(params.name, given):
            raise MCPError(types.INVALID_PARAMS, fault)
        text = message(f"prompt.{params.name}", **given)
        asked = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(
            description=message(f"prompt.{params.name}_about"), messages=[asked]
        )


def _read(memory: Memory, uri: str) -> Mapping[str, Any]:
    """What a URI names; an id in it may be written as it is, or percent-encoded."""
    if uri == STATS:
        return memory.stats()
    if uri.startswith(CHUNK):
        return memory.show_chunk(unquote(uri.removeprefix(CHUNK)))
    if uri.startswith(ENTITY):
        return memory.show_entity(unquote(uri.removeprefix(ENTITY)))
    raise NotFound("resource.unknown", uri=uri)


def _prompt(name: str) -> types.Prompt:
    needed = [
        types.PromptArgument(
            name=each, description=message(f"prompt.{each}_argument"), required=True
        )
        for each in PROMPTS[name]
    ]
    return types.Prompt(
        name=name,
        title=message(f"prompt.{name}_title"),
        description=message(f"prompt.{name}_about"),
        arguments=needed,
    )


def _fault(name: str, given: Mapping[str, str]) -> str:
    """Why a prompt cannot be given; nothing where it can."""
    if name not in PROMPTS:
        return message("prompt.unknown", name=name)
    needed = PROMPTS[name]
    if unknown := sorted(set(given) - set(needed)):
        allowed = ", ".join(needed) or "-"
        return message("input.unknown", name=name, unknown=unknown[0], allowed=allowed)
    missing = [each for each in needed if not given.get(each)]
    return message("input.missing", name=missing[0]) if missing else ""
