"""mnelo's memory from any Python program. Copy this one file: it needs only the `mcp` package.

    client = MneloClient()
    client.remember("The depot in Riga opens on Mondays", source="travel")
    for hit in client.recall("when does Riga open?"):
        print(hit["content"])

The methods are the server's seven tools, with the same arguments and defaults. One session
stays open in the background. When the server was restarted it is opened anew, and the call
that got lost is made again: mnelo folds what it has stored already, so nothing is there
twice. Several threads may use one client at the same time.
"""

import asyncio
import inspect
import json
import logging
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, CallToolResult, Implementation, TextContent

# The SDK logs what this client reports as an error or mends; a program that has not set up
# any logging should not find that on its terminal.
logging.getLogger("mcp.client").addHandler(logging.NullHandler())

URL = "http://127.0.0.1:8086/sse"
TOKEN_VARIABLES = ("MNELO_AUTH_TOKEN", "MNEOLO_AUTH_TOKEN")
DEFAULT_FILE = "~/.config/mnelo/auth_token"
RESTART_SECONDS = 3.0
"""How long a server that just went away may take to come back."""
PAUSE_SECONDS = 0.3
REFUSED = (401, 413, 503)
"""HTTP answers after which a session is of no more use."""

SENTENCES = {
    "unreachable": {
        "en": "mnelo at {url} cannot be reached: {reason}.",
        "zh": "无法连接 {url} 上的 mnelo：{reason}。",
    },
    "unauthorized": {
        "en": "mnelo at {url} wants another token; give it as MneloClient(token=...), in "
        "MNELO_AUTH_TOKEN or in ~/.config/mnelo/auth_token.",
        "zh": "{url} 上的 mnelo 需要正确的令牌；请通过 MneloClient(token=...)、"
        "MNELO_AUTH_TOKEN 或 ~/.config/mnelo/auth_token 提供。",
    },
    "silent": {
        "en": "mnelo at {url} has not answered within {seconds:g} s.",
        "zh": "{url} 上的 mnelo 在 {seconds:g} 秒内没有应答。",
    },
    "large": {
        "en": "The request is larger than mnelo at {url} accepts.",
        "zh": "请求超过了 {url} 上的 mnelo 所能接受的大小。",
    },
    "closed": {"en": "This MneloClient is closed.", "zh": "此 MneloClient 已关闭。"},
}


def _say(key: str, **values: object) -> str:
    names = (os.environ.get(name) for name in ("MNELO_MEMORY_LANG", "LC_ALL", "LANG"))
    language = next((name for name in names if name), "en")[:2].lower()
    texts = SENTENCES[key]
    return texts.get(language, texts["en"]).format(**values)


class MneloError(Exception):
    """mnelo said no; the text is its sentence."""


class MneloUnavailable(MneloError, ConnectionError):
    """mnelo cannot be reached, wants another token, or does not answer."""


class _Lost(MneloUnavailable):
    """The session ended under the call."""


# --- One session -----------------------------------------------------------------------


class _Session:
    """One MCP session. It is opened and closed in one task, as its cancel scopes require."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        self._is_sse = url.rstrip("/").endswith("/sse")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client: Client | None = None
        self._opened = asyncio.Event()
        self._stop = asyncio.Event()
        self._status = 0
        self._reason = "the connection was closed"
        self._task = asyncio.create_task(self._hold())

    @property
    def over(self) -> bool:
        return self._stop.is_set() or self._task.done()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        await self._opened.wait()
        if self._client is None:
            raise self._fault(MneloUnavailable)
        if self.over:
            raise self._fault(_Lost)
        try:
            return await self._client.call_tool(tool, dict(arguments))
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or self.over:
                self.end()
                raise self._fault(_Lost) from None
            raise MneloError(str(error)) from None

    def end(self) -> None:
        self._stop.set()
        if self._client is None:
            # Still being opened, maybe for ever: it does not look at the event.
            self._task.cancel()

    async def ended(self) -> None:
        await asyncio.wait([self._task])

    async def _hold(self) -> None:
        name = Implementation(name="mnelo-client", version="1")
        try:
            async with Client(self._transport(), client_info=name) as self._client:
                self._opened.set()
                await self._stop.wait()
        except Exception as error:
            self._reason = str(_root(error)) or type(_root(error)).__name__
        finally:
            self._opened.set()

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        if self._is_sse:
            async with sse_client(
                self._url, self._headers, httpx_client_factory=self._http
            ) as streams:
                yield streams
        else:
            async with (
                self._http(self._headers) as http,
                streamable_http_client(self._url, http_client=http) as streams,
            ):
                yield streams

    def _http(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers=headers,
            timeout=timeout or httpx2.Timeout(30, read=300),
            auth=auth,
            event_hooks={"response": [self._note]},
        )

    async def _note(self, response: httpx2.Response) -> None:
        """End the session where HTTP refuses: over SSE the call would wait for its reply."""
        if response.status_code in REFUSED or (self._is_sse and response.is_error):
            self._status = response.status_code
            self.end()

    def _fault(self, kind: type[MneloError]) -> MneloError:
        """Why the session ended, or never began, as an error of that kind or a better one."""
        if self._status == 401:
            return MneloUnavailable(_say("unauthorized", url=self._url))
        if self._status == 413:
            return MneloError(_say("large", url=self._url))
        reason = f"HTTP {self._status}" if self._status else self._reason
        return kind(_say("unreachable", url=self._url, reason=reason))


def _root(error: BaseException) -> BaseException:
    """The first error in a group of groups."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


# --- The background --------------------------------------------------------------------


class _Line:
    """A thread with an event loop, and the session that is open in it."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        self._url = url
        self._token = token
        self._timeout = timeout
        self._session: _Session | None = None
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="mnelo-client", daemon=True
        )
        self._thread.start()
        started.wait()

    def request(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """The tool's result; called from any thread but the line's own."""
        answer = asyncio.run_coroutine_threadsafe(self._in_time(tool, arguments), self._loop)
        try:
            return answer.result()
        except CancelledError:
            raise MneloError(_say("closed")) from None
        finally:
            # Of use only where the wait was broken off, by Ctrl-C for one.
            answer.cancel()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        # The garbage collector may call this in any thread.
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self, started: threading.Event) -> None:
        # Not asyncio.run: it starts one more thread to end with, which Python 3.12 forbids
        # while it ends itself.
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self._live(started))
        loop.close()

    async def _live(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        started.set()
        await self._stop.wait()
        if self._session:
            self._session.end()
            await self._session.ended()
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    async def _in_time(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        try:
            return await asyncio.wait_for(self._ask(tool, arguments), self._timeout)
        except asyncio.TimeoutError:
            self._drop()
            silent = _say("silent", url=self._url, seconds=self._timeout)
            raise MneloUnavailable(silent) from None

    async def _ask(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        try:
            return await self._current().call(tool, arguments)
        except _Lost:
            patience = self._loop.time() + RESTART_SECONDS
        while True:
            try:
                return await self._current().call(tool, arguments)
            except MneloUnavailable:
                if self._loop.time() > patience:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)

    def _current(self) -> _Session:
        """The open session, or a new one in place of one that is over."""
        if self._session is None or self._session.over:
            self._session = _Session(self._url, self._token)
        return self._session

    def _drop(self) -> None:
        if self._session:
            self._session.end()


# --- The client ------------------------------------------------------------------------


class MneloClient:
    """The seven tools of a running mnelo server as methods.

    The token is the argument, else MNELO_AUTH_TOKEN, else what ~/.config/mnelo/auth_token
    holds, as for the server. A URL that ends in /sse is spoken to over SSE, any other one,
    such as .../mcp, over Streamable HTTP. `timeout` is in seconds and for each call.
    """

    def __init__(self, sse_url: str = URL, token: str | None = None, timeout: float = 30.0) -> None:
        line = _Line(sse_url, token or _find_token(), timeout)
        self._line = line
        # Closes the line when this client is closed or gone, or else when Python ends.
        self._closing = weakref.finalize(self, line.close)

    def __enter__(self) -> "MneloClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session; a second time does nothing."""
        self._closing()

    def remember(
        self,
        content: str,
        source: str = "manual",
        importance: float = 0.5,
        entities: list[dict[str, Any] | str] | None = None,
        relations: list[dict[str, Any]] | None = None,
        tags: list[str] | None = None,
        session_id: str = "default",
        timestamp: str = "",
    ) -> str:
        """Store one fact; the id of its chunk."""
        return str(self._call("remember", locals())["chunk_id"])

    def recall(
        self,
        query: str,
        top_k: int = 5,
        graph_hops: int = 2,
        filters: dict[str, Any] | None = None,
        strategy: str = "rrf",
        asof: str = "",
        explain: bool = False,
        max_tokens: int = 8000,
    ) -> list[dict[str, Any]]:
        """The memories that answer the query, best first."""
        return list(self._call("recall", locals())["hits"])

    def relate(
        self,
        source_id: str,
        target_id: str,
        relation: str,
        weight: float = 1.0,
        valid_from: str = "",
        valid_until: str = "",
        evidence_chunk_id: str = "",
        properties: dict[str, Any] | None = None,
    ) -> int:
        """Tie two entities together; the id of the relation."""
        return int(self._call("relate", locals())["relation_id"])

    def forget(
        self,
        target_id: str,
        target_kind: str = "chunk",
        reason: str = "outdated",
        cascade: bool = True,
    ) -> dict[str, Any]:
        """Close a memory, an entity or a relation; how much was closed."""
        return self._call("forget", locals())

    def update(
        self,
        old_id: str,
        new_content: str = "",
        reason: str = "updated",
        new_importance: float | None = None,
        new_properties: dict[str, Any] | None = None,
    ) -> str:
        """Replace a memory by a newer version; the id of that one."""
        return str(self._call("update", locals())["new_chunk_id"])

    def graph_query(
        self,
        start_node: str,
        max_hops: int = 3,
        edge_types: list[str] | None = None,
        asof: str = "",
        limit: int = 200,
    ) -> dict[str, Any]:
        """What an entity is tied to: nodes and edges."""
        return self._call("graph_query", locals())

    def stats(self) -> dict[str, Any]:
        """How much the memory holds, and which of its lanes work."""
        return self._call("stats", locals())

    def _call(self, method: str, values: Mapping[str, Any]) -> dict[str, Any]:
        if not self._closing.alive:
            raise MneloError(_say("closed"))
        given = _without_defaults(getattr(MneloClient, method), values)
        result = self._line.request(f"memory_{method}", given)
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        if result.is_error:
            raise MneloError(" ".join(texts))
        return dict(result.structured_content or json.loads(texts[0]))


def _without_defaults(method: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What the caller chose: the server knows its defaults, and its settings may lower them."""
    return {name: values[name] for name, each in _defaults(method).items() if values[name] != each}


@cache
def _defaults(method: Callable[..., Any]) -> dict[str, Any]:
    """The arguments of a method and their defaults, kept: to look them up takes a while."""
    parameters = inspect.signature(method).parameters
    return {name: each.default for name, each in parameters.items() if name != "self"}


def _find_token() -> str | None:
    for variable in TOKEN_VARIABLES:
        if token := os.environ.get(variable, "").strip():
            return token
    try:
        return Path(DEFAULT_FILE).expanduser().read_text("utf-8-sig").strip() or None
    except (OSError, UnicodeDecodeError):
        # Without a token: a server that wants one says so.
        return None
