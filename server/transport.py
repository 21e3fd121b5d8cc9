"""One port for every MCP client: /sse with /messages/, /mcp, /health and /metrics.

`App` checks who asks and for what, and hands the request to its route. `OpenRequests` keeps
each one in a cancel scope, so that a shutdown can end it in good order; a refusal ends its
connection. `SseSession` mends what clients of the old SSE transport do: they resume without a
handshake after a restart, ask without end, or stop reading.
"""

import asyncio
import ipaddress
import json
import logging
import os
import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
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
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.auth import verify_bearer
from core.errors import MneloError
from mnelo_locale import message
from server import connections

log = logging.getLogger("mnelo.transport")

Incoming = SessionMessage | Exception
Source = ObjectReceiveStream[Incoming]
Sink = ObjectSendStream[SessionMessage]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
OWN_SITES = ("same-origin", "none")  # a page of this server, or a person at the address bar
MAX_IN_FLIGHT = 256  # requests of one SSE session that may wait for their replies
MAX_WAITING = 192  # messages that may wait to be taken, all but the first of each SSE session
TOO_MANY = -32010
"""The error code of a request beyond them; the SDK has a meaning of its own for -32000."""
READ_SECONDS = 30.0  # how long an SSE client may leave a message unread
FULL_SECONDS = 5.0  # the same for a client with MAX_IN_FLIGHT requests waiting: it holds up others
RETRY = b"retry: 500\r\n"
"""Tells SSE clients to come back half a second after a restart; of themselves they wait 3 s."""
DRAIN_SECONDS = 0.5
"""What a request gets to finish when the server ends; a stream, which never would, gets none."""
LINGER_SECONDS = 2.0  # how long a refused client may go on sending, so that it sees the refusal
EXIT_SECONDS = 1.8  # when the process ends whatever still runs, such as a call stuck in its thread


# --- Who may ask -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names this server goes by. A web page that is after it comes under another one.

    A page may point its own name at this machine (DNS rebinding), and then sends that name.
    An address in figures cannot be pointed anywhere, so a remote server answers to any.
    A page may ask where it comes from this server itself: from the same host and port.
    """

    names: frozenset[str]
    remote: bool = False

    def refuse(self, headers: Headers) -> Response | None:
        """The refusal of a request for another host, or from another's web page."""
        hosts = [_hostname(value) for value in headers.getlist("host")]
        known = hosts and (hosts[0] in self.names or (self.remote and _is_address(hosts[0])))
        if len(hosts) != 1 or not known:
            return _error(421, "this server does not go by that Host")
        own = [f"{scheme}://{headers['host'].lower()}" for scheme in ("http", "https")]
        pages = headers.getlist("origin")
        # What a browser says even where it leaves out the Origin: an image, a link, a form.
        sites = headers.getlist("sec-fetch-site")
        if all(page.lower() in own for page in pages) and all(site in OWN_SITES for site in sites):
            return None
        return _error(403, "web pages of that Origin may not ask")


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
    """One response on its way out, and how far it and its request have come.

    A refusal ends its connection: whoever is refused must not hold a place.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._heard = False
        self._refuses = False
        self.started = False
        self.done = False

    async def receive(self) -> Message:
        part = await self._receive()
        self._heard = not part.get("more_body")
        return part

    async def send(self, part: Message) -> None:
        ends = part["type"] == "http.response.body" and not part.get("more_body")
        if part["type"] == "http.response.start" and part["status"] >= 400:
            self._refuses = True
            part = {**part, "headers": [*part["headers"], (b"connection", b"close")]}
        elif self._refuses and ends:
            await self._send({**part, "more_body": True})
            await self._hear_out()
            part = {"type": "http.response.body", "body": b""}
        # Afterwards: a part whose sending is cancelled has not left.
        await self._send(part)
        self.started = True
        self.done = ends

    async def _hear_out(self) -> None:
        """Read what still comes: a client whose connection closes meanwhile sees no refusal."""
        with anyio.move_on_after(LINGER_SECONDS):
            while not self._heard:
                await self.receive()

    async def finish(self, scope: Scope) -> None:
        """End a response that was broken off, so that the client sees its end and no fault."""
        if not self.started:
            self._heard = True  # what still comes is not waited for
            again = {"Retry-After": "1"}
            await _error(503, "the server is ending", again)(scope, self.receive, self.send)
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
        reply = Reply(receive, send)
        running = self._streams if scope["method"] == "GET" else self._others
        if not self._closing:
            with anyio.CancelScope() as cancel:
                running.add(cancel)
                try:
                    # A client that goes in the middle of its request is no fault.
                    with suppress(ClientDisconnect):
                        await app(scope, reply.receive, reply.send)
                finally:
                    running.discard(cancel)
        await reply.finish(scope)

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


def _read(app: ASGIApp, max_bytes: int) -> ASGIApp:
    """The app, given messages in one piece and mended; what is none is refused before it."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        body = await _whole(Headers(scope=scope), receive, max_bytes)
        if body is None:
            await _error(413, "the request is too large")(scope, receive, send)
            return
        body = _mend(body)
        try:
            types.jsonrpc_message_adapter.validate_json(body, by_name=False)
        except ValueError:
            await _no_message(body)(scope, receive, send)
            return
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return parts.pop() if parts else await receive()

        await app(scope, replay, send)

    return answer


async def _whole(headers: Headers, receive: Receive, max_bytes: int) -> bytes | None:
    """The body; None where it is too long. Raises ClientDisconnect where it does not all come."""
    said = headers.get("content-length", "0")
    if len(said) > 18 or int(said) > max_bytes:
        return None
    body = bytearray()
    more = True
    while more:
        part = await receive()
        if part["type"] != "http.request":
            raise ClientDisconnect
        body += part.get("body", b"")
        if len(body) > max_bytes:
            return None
        more = part.get("more_body", False)
    return bytes(body)


def _no_message(body: bytes) -> Response:
    """The refusal of a body in one plain sentence: what the SDK says is not for people."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        code, reason = types.PARSE_ERROR, message("server.no_json")
    else:
        code, reason = types.INVALID_REQUEST, message("server.no_message")
    error = {"code": code, "message": reason}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)


def _acceptable(stream: ASGIApp, single: ASGIApp) -> ASGIApp:
    """Streamable HTTP in the form that the client takes: a stream of events, else one object."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        wanted = ", ".join(Headers(scope=scope).getlist("accept")).lower() or "*/*"
        kinds = {each.partition(";")[0].strip() for each in wanted.split(",")}
        if kinds & {"text/event-stream", "text/*", "*/*"}:
            app, accept = stream, b"application/json, text/event-stream"
        elif kinds & {"application/json", "application/*"}:
            app, accept = single, b"application/json"
        else:
            await _error(406, message("server.accept"))(scope, receive, send)
            return
        others = [header for header in scope["headers"] if header[0] != b"accept"]
        await app({**scope, "headers": [*others, (b"accept", accept)]}, receive, send)

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


_ENDPOINT = re.compile(rb"event: endpoint\r?\ndata: [^?\s]*\?(\S+)")


def _session_of(query: bytes) -> str:
    return QueryParams(query).get("session_id", "").lower()


class SseRoutes:
    """GET /sse opens a session; POST /messages/ brings its messages."""

    def __init__(self, server: Server[Any], max_bytes: int) -> None:
        self._server = server
        self._sse = SseServerTransport("/messages/", max_request_body_size=max_bytes)
        self._waiting: Counter[str] = Counter()
        self._open: set[str] = set()

    def is_of_open_session(self, scope: Scope) -> bool:
        """Whether the request brings a message of a client whose stream is open."""
        return scope["method"] == "POST" and _session_of(scope["query_string"]) in self._open

    async def open(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = ""

        async def hasten(part: Message) -> None:
            nonlocal session
            if found := _ENDPOINT.match(part.get("body", b"")):
                session = _session_of(found[1])
                self._open.add(session)
                part = {**part, "body": RETRY + part["body"]}
            await send(part)

        try:
            with anyio.CancelScope() as whole:
                async with self._sse.connect_sse(scope, receive, hasten) as (incoming, outgoing):
                    await SseSession(self._server, whole.cancel).run(incoming, outgoing)
        finally:
            self._open.discard(session)

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = _session_of(scope["query_string"])
        if self._waiting[session] and self._waiting.total() >= MAX_WAITING:
            # A client that asks without reading must not take the memory of the others.
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
        self._http = [
            StreamableHTTPSessionManager(
                server, json_response=single, stateless=True, max_request_body_size=max_bytes
            )
            for single in (False, True)
        ]
        post = _read(_acceptable(*(each.handle_request for each in self._http)), max_bytes)
        self._routes: dict[str, dict[str, ASGIApp]] = {
            "/mcp": {"POST": post},
            "/health": {"GET": self._answer_health, "HEAD": self._answer_health},
            "/metrics": {"GET": self._answer_metrics},
        }
        self._sse = SseRoutes(server, max_bytes) if sse else None
        if self._sse:
            # Clients that speak the newer transport try it at the URL they were given.
            self._routes["/sse"] = {"GET": self._sse.open, "POST": post}
            self._routes["/messages"] = {"POST": _read(self._sse.post, max_bytes)}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Must be entered while requests are answered."""
        async with AsyncExitStack() as stack:
            for each in self._http:
                await stack.enter_async_context(each.run())
            yield

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
        if path != "/health" and not self._is_trusted(headers):
            return _unauthorized(tried="authorization" in headers)
        if not self._has_room(path, scope):
            return _error(503, "too many requests are at work", {"Retry-After": "1"})
        allowed = {"Allow": ", ".join(methods)}
        return methods.get(scope["method"]) or _error(405, "not that method", allowed)

    def _is_trusted(self, headers: Headers) -> bool:
        bearer = headers.getlist("authorization")
        return not self._token or verify_bearer(bearer, self._token)

    def _has_room(self, path: str, scope: Scope) -> bool:
        """Whether the request may be answered beside the others that are at work."""
        connection: connections.Connection | None = scope.get("state", {}).get("connection")
        if not connection:  # the app is served by something else
            return True
        if path == "/messages" and self._sse and self._sse.is_of_open_session(scope):
            connection.kept = True
        return path == "/health" or connection.kept or not connection.crowded

    async def _answer_health(self, scope: Scope, receive: Receive, send: Send) -> None:
        health = self._health()
        if not self._is_trusted(Headers(scope=scope)):
            health = {name: health[name] for name in ("name", "status")}
        await JSONResponse(health)(scope, receive, send)

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
            http=connections.Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=65,
            timeout_graceful_shutdown=1,
            limit_concurrency=connections.most_connections(),
            backlog=connections.ACCEPTED,
            h11_max_incomplete_event_size=65536,
        )
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            # Only what is accepted in one go is to be little, not what the system keeps.
            each.listen(connections.QUEUE)
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
    asyncio.get_running_loop().set_exception_handler(connections.Complaints())
    async with app.running():
        await HttpServer(app, on_ready).serve([listener])


def _worth_a_line(record: logging.LogRecord) -> bool:
    """All but what clients bring about at will: nonsense, or requests that they do not read."""
    return not record.getMessage().startswith(UNWORTHY)


UNWORTHY = (
    "Invalid HTTP request",
    "Unsupported upgrade request",
    "No supported WebSocket library",
    "ASGI callable returned without completing",
    "Cancel ",
)
