"""The server, and with it what the official conformance suite asks every server for.

    python3 tests/support/conformance_fixtures.py --port 8099

The suite calls tools, resources and prompts by names of its own, such as test_simple_text.
They are added in front of mnelo's; whatever is none of them goes to mnelo as it came.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)

import mcp_server
from server import tools

Context = ServerRequestContext[Any]
Listed = PaginatedRequestParams | None

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="


def text(words: str) -> TextContent:
    return TextContent(text=words)


def image() -> ImageContent:
    return ImageContent(data=PIXEL, mime_type="image/png")


def embedded(uri: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type="text/plain", text="embedded")
    return EmbeddedResource(resource=contents)


TOOLS: dict[str, list[ContentBlock]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [AudioContent(data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [embedded("test://embedded-resource")],
    "test_multiple_content_types": [
        *(text("Multiple content types test:"), image(), embedded("test://mixed-content-resource"))
    ],
    "test_error_handling": [text("This tool intentionally returns an error for testing")],
    "test_tool_with_progress": [text("done")],
}
PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}
TEXT, BINARY, TEMPLATE = "test://static-text", "test://static-binary", "test://template/{id}/data"


def prompt(name: str, given: dict[str, str]) -> list[ContentBlock]:
    if name == "test_simple_prompt":
        return [text("This is a simple prompt for testing.")]
    if name == "test_prompt_with_arguments":
        said = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
        return [text(said)]
    if name == "test_prompt_with_image":
        return [image(), text("Please look at this image.")]
    return [embedded(given["resourceUri"]), text("Please read this resource.")]


def resource(uri: str) -> TextResourceContents | BlobResourceContents | None:
    """What stands under that address; None where it is none of these."""
    if uri == TEXT:
        words = "This is the content of the static text resource."
        return TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    if uri == BINARY:
        return BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
    if uri.startswith("test://template/"):
        key = uri.split("/")[3]
        words = json.dumps({"id": key, "templateTest": True, "data": f"Data for ID: {key}"})
        return TextResourceContents(uri=uri, mime_type="application/json", text=words)
    return None


class WithFixtures(Server[Any]):
    """mnelo's MCP server with the fixtures in front of it."""

    def __init__(self, *arguments: Any, **handlers: Any) -> None:
        self._mnelo: dict[str, Callable[..., Any]] = handlers
        ours = {
            "on_list_tools": self.tools,
            "on_call_tool": self.call,
            "on_list_resources": self.resources,
            "on_list_resource_templates": self.templates,
            "on_read_resource": self.read,
            "on_list_prompts": self.prompts,
            "on_get_prompt": self.prompt,
        }
        super().__init__(*arguments, **{**handlers, **ours})

    async def tools(self, ctx: Context, params: Listed) -> ListToolsResult:
        listed: ListToolsResult = await self._mnelo["on_list_tools"](ctx, params)
        schema = {"type": "object", "properties": {}}
        added = [Tool(name=each, description="A fixture", input_schema=schema) for each in TOOLS]
        return ListToolsResult(tools=[*listed.tools, *added])

    async def call(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        name = params.name
        if name not in TOOLS:
            called: CallToolResult = await self._mnelo["on_call_tool"](ctx, params)
            return called
        if name == "test_tool_with_progress":
            for share in (0, 50, 100):
                await ctx.session.report_progress(share, 100)
        return CallToolResult(content=TOOLS[name], is_error=name == "test_error_handling")

    async def resources(self, ctx: Context, params: Listed) -> ListResourcesResult:
        listed: ListResourcesResult = await self._mnelo["on_list_resources"](ctx, params)
        added = [Resource(uri=each, name=each) for each in (TEXT, BINARY)]
        return ListResourcesResult(resources=[*listed.resources, *added])

    async def templates(self, ctx: Context, params: Listed) -> ListResourceTemplatesResult:
        listed: ListResourceTemplatesResult = await self._mnelo["on_list_resource_templates"](
            ctx, params
        )
        added = ResourceTemplate(uri_template=TEMPLATE, name="template")
        return ListResourceTemplatesResult(resource_templates=[*listed.resource_templates, added])

    async def read(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        if found := resource(str(params.uri)):
            return ReadResourceResult(contents=[found])
        contents: ReadResourceResult = await self._mnelo["on_read_resource"](ctx, params)
        return contents

    async def prompts(self, ctx: Context, params: Listed) -> ListPromptsResult:
        listed: ListPromptsResult = await self._mnelo["on_list_prompts"](ctx, params)
        added = [
            Prompt(
                name=name,
                description="A fixture",
                arguments=[PromptArgument(name=each, required=True) for each in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
        return ListPromptsResult(prompts=[*listed.prompts, *added])

    async def prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        if params.name not in PROMPTS:
            got: GetPromptResult = await self._mnelo["on_get_prompt"](ctx, params)
            return got
        blocks = prompt(params.name, params.arguments or {})
        return GetPromptResult(messages=[PromptMessage(role="user", content=b) for b in blocks])


if __name__ == "__main__":
    vars(tools)["Server"] = WithFixtures
    raise SystemExit(mcp_server.main())
