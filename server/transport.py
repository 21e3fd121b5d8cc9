"""One port for every MCP client: /sse with /messages/, /mcp, /health and /metrics.

`App` checks who asks and for what, and hands the request to its route. `OpenRequests` keeps
each one in a cancel scope, so that a shutdown can end it in good order. `SseSession` mends
what clients of the old SSE transport do: they resume without a handshake after a restart,
ask without end, or stop reading.
"""

import asyncio
import ipaddress
import logging
import os
import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any
from uuid import uuid4

import anyio
import uvicorn
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from anyio.to_thread import run_sync
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp.types.version import LATEST_HANDSHAKE_VERSION
from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.auth import verify_bearer
from core.errors import MneloError
from mnelo_locale import message

log = logging.getLogger("mnelo.transport")

Incoming = SessionMessage | Exception
Source = ObjectReceiveStream[Incoming]
Sink = ObjectSendStream[SessionMessage]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_CONNECTIONS = 256
MAX_IN_FLIGHT = 256  # requests of one SSE session that may wait for their replies
MAX_WAITING = MAX_CONNECTIONS * 3 // 4
"""Messages of one SSE session that may wait to be taken: each holds a connection."""
TOO_MANY = -32010
"""The error code of a request beyond them; the SDK has a meaning of its own for -32000."""
READ_SECONDS = 30.0  # how long an SSE client may leave a message unread
FULL_SECONDS = 5.0  # the same for a client with MAX_IN_FLIGHT requests waiting: it holds up others
RETRY = b"retry: 500\r\n"
"""Tells SSE clients to come back half a second after a restart; of themselves they wait 3 s."""
DRAIN_SECONDS = 0.5
"""What a request gets to finish when the server ends; a stream, which never would, gets none."""
EXIT_SECONDS = 1.8  # when the process ends whatever still runs, such as a call stuck in its thread


# --- Who may ask -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names this server goes by. A web page that is after it comes under another one.

    A page may point its own name at this machine (DNS rebinding), and then sends that name.
    An address in figures cannot be pointed anywhere, so a remote server answers to any.
    """

    names: frozenset[str]
    remote: bool = False

    def refuse(self, headers: Headers) -> Response | None:
        """The refusal of a request for another host, or from another's web page."""
        hosts = [_hostname(value) for value in headers.getlist("host")]
        known = hosts and (hosts[0] in self.names or (self.remote and _is_address(hosts[0])))
        if len(hosts) != 1 or not known:
            return _error(421, "this server does not go by that Host")
        for origin in headers.getlist("origin"):
            scheme, _, rest = origin.partition("://")
            page = _hostname(rest)
            if scheme not in ("http", "https") or page not in (*self.names, hosts[0]):
                return _error(403, "web pages of that Origin may not ask")
        return None


_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/@\s]+))(?::\d{1,5})?")


def _hostname(authority: str) -> str:
    """The host of `host:port`, or "" where that is something else.

    >>> _hostname("LOCALHOST:8086"), _hostname("[::1]:8086"), _hostname("a@b:1")
    ('localhost', '::1', '')
    """
    match = _AUTHORITY.fullmatch(authority.lower())
    return (match[1] or match[2]) if match else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": reason}, status, headers)


def _unauthorized(tried: bool) -> Response:
    # No word of OAuth, and no 401 where nothing is: clients would go and look for a login.
    challenge = 'Bearer realm="mnelo"' + (', error="invalid_token"' if tried else "")
    return _error(401, "a bearer token is needed", {"WWW-Authenticate": challenge})


# --- Open requests ---------------------------------------------------------------------


class Reply:
    """One response on its way out, and how far it has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.done = False

    async def send(self, part: Message) -> None:
        # Afterwards: a part whose sending is cancelled has not left.
        await self._send(part)
        self.started = True
        self.done = part["type"] == "http.response.body" and not part.get("more_body")

    async def finish(self, scope: Scope, receive: Receive) -> None:
        """End a response that was broken off, so that the client sees its end and no fault."""
        if not self.started:
            closing = {"Retry-After": "1", "Connection": "close"}
            await _error(503, "the server is ending", closing)(scope, receive, self.send)
        elif not self.done:
            # A client that has stopped reading is not waited for.
            with anyio.move_on_after(DRAIN_SECONDS):
                await self.send({"type": "http.response.body", "body": b""})


class OpenRequests:
    """The requests being answered, each in a cancel scope of its own."""

    def __init__(self) -> None:
        self._streams: set[anyio.CancelScope] = set()
        self._others: set[anyio.CancelScope] = set()
        self._closing = False

    async def answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send)
        running = self._streams if scope["method"] == "GET" else self._others
        if not self._closing:
            with anyio.CancelScope() as cancel:
                running.add(cancel)
                try:
                    await app(scope, receive, reply.send)
                finally:
                    running.discard(cancel)
        await reply.finish(scope, receive)

    def close(self) -> None:
        """Answer no more, end the streams now, and what else is open in a moment."""
        self._closing = True
        _cancel(self._streams)
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, _cancel, self._others)


def _cancel(scopes: set[anyio.CancelScope]) -> None:
    for scope in tuple(scopes):
        scope.cancel()


# --- Bodies ----------------------------------------------------------------------------

# An escape of JSON that is understood as it is, or (group 1) half a pair without its other half.
_ESCAPE = re.compile(
    rb"\\(?:[^u]|ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2}))", re.I | re.S
)


def _mend(body: bytes) -> bytes:
    r"""The same JSON, as long as before, with U+FFFD for halves of characters.

    Clients that cut a text in the middle of an emoji send them, and no parser takes them.

    >>> _mend(rb'"\ud83d! \ud83d\ude00 \\ud83d"') == rb'"\ufffd! \ud83d\ude00 \\ud83d"'
    True
    """
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], body)


def _mended(app: ASGIApp, max_bytes: int) -> ASGIApp:
    """The app, given bodies in one piece and mended; one that is too long it may refuse itself."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def whole() -> Message:
            part = await receive()
            body = part.get("body", b"")
            while part.get("more_body") and len(body) <= max_bytes:
                part = await receive()
                body += part.get("body", b"")
            return {**part, "body": _mend(body)} if part["type"] == "http.request" else part

        await app(scope, whole, send)

    return answer


# --- SSE -------------------------------------------------------------------------------


class SseSession:
    """One SSE client: its messages on their way to the MCP server, and the replies back."""

    def __init__(self, server: Server[Any], hang_up: Callable[[], None]) -> None:
        self._server = server
        self._hang_up = hang_up
        self._greeted = False
        self._greeting_id = f"mnelo-{uuid4().hex}"
        self._in_flight: Counter[types.RequestId] = Counter()
        self._sending = anyio.Lock(fast_acquire=True)

    async def run(self, incoming: Source, outgoing: Sink) -> None:
        """Serve the session until the client goes."""
        inbox, outbox = Inbox(self, incoming, outgoing), Outbox(self, outgoing)
        await self._server.run(inbox, outbox, self._server.create_initialization_options())

    async def take(self, incoming: Source, outgoing: Sink) -> list[Incoming]:
        """The client's next message, with the handshake that it left out before it."""
        item = await incoming.receive()
        while not self._admit(item):
            await self._deliver(outgoing, _too_many(item), FULL_SECONDS)
            item = await incoming.receive()
        return [*self._missing_handshake(item), item]

    async def give(self, item: SessionMessage, outgoing: Sink) -> None:
        """Send the client a message of the server."""
        # One after the other: a reply that waits for those before it to be read is still in
        # flight, and its time has not begun.
        async with self._sending:
            if not self._answers_greeting(item):
                await self._deliver(outgoing, item, READ_SECONDS)

    def _answers_greeting(self, item: SessionMessage) -> bool:
        """Whether the client must not see this reply; any reply makes room for a request."""
        reply = item.message
        if not isinstance(reply, types.JSONRPCResponse | types.JSONRPCError) or reply.id is None:
            return False
        self._settle(reply.id)
        return reply.id == self._greeting_id

    async def _deliver(self, outgoing: Sink, item: SessionMessage, seconds: float) -> None:
        with anyio.move_on_after(seconds) as limit:
            await outgoing.send(item)
        if limit.cancelled_caught:
            log.warning(message("server.stalled", seconds=seconds))
            self._hang_up()

    def _missing_handshake(self, item: Incoming) -> list[SessionMessage]:
        """What a client leaves out that resumes its old session after the server restarted.

        Such a client opens a new stream and carries on; to the server it has never said hello.
        """
        request = getattr(item, "message", None)
        if self._greeted or not isinstance(request, types.JSONRPCRequest):
            return []
        self._greeted = True
        if request.method in ("initialize", "server/discover") or _is_modern(request):
            return []
        log.info(message("server.resumed"))
        return _handshake(self._greeting_id)

    def _admit(self, item: Incoming) -> bool:
        """Whether the message may pass: each may but a request when too many are waiting."""
        content = getattr(item, "message", None)
        if (
            isinstance(content, types.JSONRPCNotification)
            and content.method == "notifications/cancelled"
        ):
            cancelled = (content.params or {}).get("requestId")
            if isinstance(cancelled, str | int):
                # A cancelled request is never answered.
                self._settle(cancelled)
        if not isinstance(content, types.JSONRPCRequest):
            return True
        if self._in_flight.total() >= MAX_IN_FLIGHT:
            return False
        self._in_flight[content.id] += 1
        return True

    def _settle(self, request_id: types.RequestId) -> None:
        # Counted, not only noted: a client may send the same id again and again.
        self._in_flight[request_id] -= 1
        if self._in_flight[request_id] <= 0:
            del self._in_flight[request_id]


class Inbox(ObjectReceiveStream[Incoming]):
    """What the MCP server reads: the client's messages that its session lets pass."""

    def __init__(self, session: SseSession, incoming: Source, outgoing: Sink) -> None:
        self._session = session
        self._incoming = incoming
        self._outgoing = outgoing
        self._next: list[Incoming] = []

    async def receive(self) -> Incoming:
        if not self._next:
            try:
                self._next = await self._session.take(self._incoming, self._outgoing)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                # A stream that closes under us means that the client went: no fault.
                raise anyio.EndOfStream from None
        return self._next.pop(0)

    async def aclose(self) -> None:
        await self._incoming.aclose()


class Outbox(ObjectSendStream[SessionMessage]):
    """Where the MCP server writes: what its session lets pass goes to the client."""

    def __init__(self, session: SseSession, outgoing: Sink) -> None:
        self._session = session
        self._outgoing = outgoing

    async def send(self, item: SessionMessage) -> None:
        await self._session.give(item, self._outgoing)

    async def aclose(self) -> None:
        await self._outgoing.aclose()


def _is_modern(request: types.JSONRPCRequest) -> bool:
    """Whether the request brings its own introduction, as those of 2026-07-28 do."""
    meta = (request.params or {}).get("_meta")
    return isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta


def _handshake(greeting_id: str) -> list[SessionMessage]:
    hello = types.JSONRPCRequest(
        jsonrpc="2.0",
        id=greeting_id,
        method="initialize",
        params={
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "mcp", "version": ""},
        },
    )
    ready = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
    return [SessionMessage(hello), SessionMessage(ready)]


def _too_many(item: Incoming) -> SessionMessage:
    error = types.ErrorData(code=TOO_MANY, message=message("server.busy", limit=MAX_IN_FLIGHT))
    request_id = getattr(getattr(item, "message", None), "id", None)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


class SseRoutes:
    """GET /sse opens a session; POST /messages/ brings its messages."""

    def __init__(self, server: Server[Any], max_bytes: int) -> None:
        self._server = server
        self._sse = SseServerTransport("/messages/", max_request_body_size=max_bytes)
        self._waiting: Counter[str] = Counter()

    async def open(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def hasten(part: Message) -> None:
            if part.get("body", b"").startswith(b"event: endpoint"):
                part = {**part, "body": RETRY + part["body"]}
            await send(part)

        with anyio.CancelScope() as whole:
            async with self._sse.connect_sse(scope, receive, hasten) as (incoming, outgoing):
                await SseSession(self._server, whole.cancel).run(incoming, outgoing)

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = QueryParams(scope["query_string"]).get("session_id", "")
        if self._waiting[session] >= MAX_WAITING:
            # A client that asks without reading must not take the connections of the others.
            await _error(429, "too many messages of this session wait")(scope, receive, send)
            return
        self._waiting[session] += 1
        try:
            await self._pass_on(scope, receive, send)
        finally:
            self._waiting[session] -= 1
            if not self._waiting[session]:
                del self._waiting[session]

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Raised after the 202, where the session ended meanwhile: there is nobody to tell.
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._sse.handle_post_message(scope, receive, send)


# --- The app ---------------------------------------------------------------------------


class App:
    """Everything that the port answers."""

    def __init__(
        self,
        server: Server[Any],
        *,
        sse: bool,
        hosts: Hosts,
        token: str | None,
        max_bytes: int,
        health: Callable[[], dict[str, Any]],
        metrics: Callable[[], tuple[bytes, str]],
    ) -> None:
        self._hosts = hosts
        self._token = token
        self._health = health
        self._metrics = metrics
        self._requests = OpenRequests()
        self._http = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=max_bytes
        )
        post = _mended(self._http.handle_request, max_bytes)
        self._routes: dict[str, dict[str, ASGIApp]] = {
            "/mcp": {"POST": post},
            "/health": {"GET": self._answer_health, "HEAD": self._answer_health},
            "/metrics": {"GET": self._answer_metrics},
        }
        if sse:
            routes = SseRoutes(server, max_bytes)
            # Clients that speak the newer transport try it at the URL they were given.
            self._routes["/sse"] = {"GET": routes.open, "POST": post}
            self._routes["/messages"] = {"POST": _mended(routes.post, max_bytes)}

    def running(self) -> AbstractAsyncContextManager[None]:
        """Must be entered while requests are answered."""
        return self._http.run()

    def close(self) -> None:
        """Let every open request come to its end."""
        self._requests.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._requests.answer(self._choose(scope), scope, receive, send)

    def _choose(self, scope: Scope) -> ASGIApp:
        """What answers the request: its route, or a refusal."""
        headers = Headers(scope=scope)
        path = scope["path"].rstrip("/")
        methods = self._routes.get(path, {})
        if refusal := self._hosts.refuse(headers):
            return refusal
        if not methods:
            return _error(404, "there is nothing here")
        bearer = headers.getlist("authorization")
        if self._token and path != "/health" and not verify_bearer(bearer, self._token):
            return _unauthorized(tried=bool(bearer))
        allowed = {"Allow": ", ".join(methods)}
        return methods.get(scope["method"]) or _error(405, "not that method", allowed)

    async def _answer_health(self, scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse(self._health())(scope, receive, send)

    async def _answer_metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # In a thread: it counts what is in the file.
            page, kind = await run_sync(self._metrics)
            answer = Response(page, media_type=kind)
        except MneloError as error:
            answer = _error(503, str(error))
        await answer(scope, receive, send)


# --- Serving ---------------------------------------------------------------------------


class HttpServer(uvicorn.Server):
    """uvicorn, but it says when it accepts, and a signal ends it in time and quietly."""

    def __init__(self, app: App, on_ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=65,
            timeout_graceful_shutdown=1,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=65536,
        )
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._app.close)
        backstop = threading.Timer(EXIT_SECONDS, os._exit, (0,))
        backstop.daemon = True
        backstop.start()


async def serve(app: App, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C; `on_ready` is called when the first can come."""
    logging.getLogger("uvicorn.error").addFilter(_worth_a_line)
    for each in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises the signal again when it is done, for whoever handled it before.
        signal.signal(each, lambda *_: None)
    async with app.running():
        await HttpServer(app, on_ready).serve([listener])


def _worth_a_line(record: logging.LogRecord) -> bool:
    """All but what clients bring about at will: too many of them, or some that do not read."""
    expected = ("Exceeded concurrency", "ASGI callable returned without completing", "Cancel ")
    return not record.getMessage().startswith(expected)
