"""mnelo's memory from any Python program. Copy this one file: it needs nothing but Python.

    client = MneloClient()
    client.remember("The depot in Riga opens on Mondays", source="travel")
    for hit in client.recall("when does Riga open?"):
        print(hit["content"])

The methods are the server's seven tools, with the same arguments and defaults. One session
stays open in the background. When the server was restarted it is opened anew, and the call
that got lost is made again: mnelo folds what it has stored already, so nothing is there
twice. Several threads may use one client at the same time.
"""

import http.client
import inspect
import itertools
import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

URL = "http://127.0.0.1:8086/sse"
TOKEN_VARIABLES = ("MNELO_AUTH_TOKEN", "MNEOLO_AUTH_TOKEN")
DEFAULT_FILE = "~/.config/mnelo/auth_token"
RESTART_SECONDS = 3.0  # how long a server that just went away may take to come back
PAUSE_SECONDS = 0.3
KEPT_SECONDS = 30.0  # how long an unused connection is kept; the server closes it after 65 s
READ_SECONDS = 300.0
"""How long a connection may bring nothing at all: the server sends a sign of life every 15 s."""
CLOSED = "the connection was closed"
VERSION = "2026-07-28"  # the version of MCP that is spoken
INTRODUCTION = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "mnelo-client", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": dict[str, Any](),
}
"""What MCP wants with each request since that version, in place of a handshake."""

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


# --- The wire --------------------------------------------------------------------------


class _Connection(http.client.HTTPConnection):
    """A connection that sends the head and the body of a request in one piece."""

    body = b""

    def send(self, data: Any) -> None:
        body, self.body = self.body, b""
        super().send(data + body)

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.body = body
        self.request("POST", path, headers={**headers, "Content-Length": str(len(body))})


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    """The same with TLS."""


def _connection(url: str, seconds: float) -> tuple[_Connection, str]:
    """A connection, not yet open, to the host of the URL, and the path to ask it for."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is no http:// or https:// URL")
    kind = _SecureConnection if parts.scheme == "https" else _Connection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return kind(parts.hostname, parts.port or kind.default_port, timeout=seconds), path


def _events(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name and data of each event of a text/event-stream, as WHATWG's HTML has it."""
    name, data = "", list[str]()
    for line in lines:
        field, _, value = line.rstrip("\n").partition(":")
        if line == "\n":
            if data:
                yield name or "message", "\n".join(data)
            name, data = "", []
        elif field == "event":
            name = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))


def _lines(response: http.client.HTTPResponse) -> TextIOWrapper:
    """The response as lines of text, whichever of the three line ends it has."""
    return TextIOWrapper(response, "utf-8-sig", "replace")


def _encoded(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half an emoji has no UTF-8; what Python writes for it is JSON's own escape.
    return text.encode("utf-8", "backslashreplace")


# --- One session -----------------------------------------------------------------------


class _Post(NamedTuple):
    """A message on its way: the tool and the id of a call, or neither."""

    body: bytes
    tool: str = ""
    id: int | None = None


Answer = Mapping[str, Any] | MneloError | None
"""The server's message, why there will be none, or None where the session ended."""


class _Session:
    """One MCP session. Callers only wait: its threads open it, post, and read.

    Over SSE one thread listens and one posts; over Streamable HTTP, where a reply comes with
    the answer to its own post, as many post as calls are waiting.
    """

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._is_sse = url.rstrip("/").endswith("/sse")
        self._post_url = "" if self._is_sse else url
        self._token = {"Authorization": f"Bearer {token}"} if token else {}
        self._ids = itertools.count(1)
        self._waiting: dict[int, SimpleQueue[Answer]] = {}
        self._posts: SimpleQueue[_Post | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._sockets: dict[int, socket.socket] = {}
        self._opened = False
        self._status = 0
        self._reason = CLOSED
        self.over = False
        if self._is_sse:
            self._start(self._listen)

    def call(self, tool: str, arguments: Mapping[str, Any], end: float) -> Mapping[str, Any]:
        """The tool's result, which must come until `end` of time.monotonic()."""
        request_id = next(self._ids)
        params = {"name": tool, "arguments": arguments, "_meta": INTRODUCTION}
        body = _encoded(
            {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        )
        answer = self._waiting[request_id] = SimpleQueue()
        try:
            if self.over:
                raise self._fault()
            self._send(_Post(body, tool, request_id))
            left = min(max(end - time.monotonic(), 0), threading.TIMEOUT_MAX)
            return self._result(answer.get(timeout=left))
        except Empty:
            self.end()
            silent = _say("silent", url=self._url, seconds=self._timeout)
            raise MneloUnavailable(silent) from None
        finally:
            del self._waiting[request_id]

    def end(self, reason: str = CLOSED) -> None:
        """Hang up, and tell whoever waits; called from any thread, and more than once."""
        if not self.over:
            self._reason = reason
            self.over = True
        for each in tuple(self._sockets.values()):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for answer in tuple(self._waiting.values()):
            answer.put(None)
        for _ in self._threads:
            self._posts.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the threads of a session that was ended."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            # The garbage collector may end a session in any thread.
            if thread is not threading.current_thread():
                thread.join(max(end - time.monotonic(), 0))

    def _result(self, answer: Answer) -> Mapping[str, Any]:
        if answer is None:
            raise self._fault()
        if isinstance(answer, MneloError):
            raise answer
        if "error" in answer:
            raise MneloError(str(answer["error"].get("message")))
        return dict(answer["result"])

    def _fault(self) -> MneloError:
        """Why the session ended, or never began."""
        if self._status == 401:
            return MneloUnavailable(_say("unauthorized", url=self._url))
        kind = _Lost if self._opened else MneloUnavailable
        return kind(_say("unreachable", url=self._url, reason=self._reason))

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self.end(str(error) or type(error).__name__)

        thread = threading.Thread(target=run, name="mnelo-client", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _open(self, connection: _Connection) -> None:
        connection.connect()
        connection.sock.settimeout(READ_SECONDS)
        self._sockets[threading.get_ident()] = connection.sock
        if self.over:
            # It was ended before it could hang up on this connection.
            raise ConnectionError(CLOSED)

    def _listen(self) -> None:
        """Read what comes over SSE until it ends."""
        connection, path = _connection(self._url, self._timeout)
        with closing(connection):
            self._open(connection)
            headers = {**self._token, "Accept": "text/event-stream"}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            self._refuse(response.status)
            with _lines(response) as lines:
                for name, data in _events(lines):
                    if name == "endpoint":
                        self._begin(urljoin(self._url, data))
                    elif name == "message":
                        self._take(json.loads(data))
        raise ConnectionError(CLOSED)

    def _begin(self, post_url: str) -> None:
        """Post to that URL from now on."""
        if urlsplit(post_url)[:2] != urlsplit(self._url)[:2]:
            raise ConnectionError("it names another host, which must not see the token")
        if not self._opened:
            self._post_url = post_url
            self._opened = True
            self._start(self._post_all)

    def _send(self, post: _Post) -> None:
        if not self._is_sse and not self._idle.acquire(blocking=False):
            self._start(self._post_all)
        self._posts.put(post)

    def _post_all(self) -> None:
        connection, path = _connection(self._post_url, self._timeout)
        with closing(connection):
            while (post := self._next_post(connection)) and not self.over:
                if connection.sock is None:
                    self._open(connection)
                # A server that refuses may hang up before it has read all.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.post(path, self._headers(post), post.body)
                with connection.getresponse() as response:
                    self._receive(response, post)
                self._idle.release()

    def _next_post(self, connection: _Connection) -> _Post | None:
        try:
            return self._posts.get(timeout=KEPT_SECONDS)
        except Empty:
            connection.close()
            return self._posts.get()

    def _headers(self, post: _Post) -> Mapping[str, str]:
        headers = {**self._token, "Content-Type": "application/json"}
        if not self._is_sse:
            headers["Accept"] = "application/json, text/event-stream"
            headers["MCP-Protocol-Version"] = VERSION
            if post.tool:
                headers |= {"Mcp-Method": "tools/call", "Mcp-Name": post.tool}
        return headers

    def _receive(self, response: http.client.HTTPResponse, post: _Post) -> None:
        """Take what the answer to a post brings; over SSE that is nothing but its status."""
        kind = response.getheader("Content-Type", "")
        if kind.startswith("text/event-stream"):
            for _, data in _events(_lines(response)):
                self._take(json.loads(data))
        body = response.read()
        reply = json.loads(body) if kind.startswith("application/json") else {}
        if response.status == 413:
            self._give(post.id, MneloError(_say("large", url=self._url)))
        elif "jsonrpc" in reply:
            # A refusal that came before the server read the request does not know its id.
            self._take({**reply, "id": post.id})
        else:
            self._refuse(response.status)
        self._opened = True
        if not self._is_sse:
            self._give(post.id, None)

    def _refuse(self, status: int) -> None:
        if status >= 300:
            self._status = status
            raise ConnectionError(f"HTTP {status}")

    def _take(self, message: Mapping[str, Any]) -> None:
        """Hand a reply to its caller, and answer a request; notifications are not for us."""
        if "method" not in message:
            self._give(message.get("id"), message)
        elif "id" in message:
            unknown = {"error": {"code": -32601, "message": "Method not found"}}
            outcome = {"result": {}} if message["method"] == "ping" else unknown
            self._send(_Post(_encoded({"jsonrpc": "2.0", "id": message["id"], **outcome})))

    def _give(self, request_id: int | None, answer: Answer) -> None:
        if request_id is not None and (waiting := self._waiting.get(request_id)):
            waiting.put(answer)


# --- The background --------------------------------------------------------------------


class _Line:
    """The session that is open, or a new one where there is none any more."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        self._url = url
        self._token = token
        self._timeout = timeout
        self._session: _Session | None = None
        self._opening = threading.Lock()
        self._closed = threading.Event()

    def request(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tool's result; raises MneloError or one of its kinds."""
        try:
            return self._ask(tool, arguments, time.monotonic() + self._timeout)
        except MneloUnavailable:
            if self._closed.is_set():
                raise MneloError(_say("closed")) from None
            raise

    def close(self) -> None:
        self._closed.set()
        if self._session:
            self._session.end()
            self._session.join(5)

    def _ask(self, tool: str, arguments: Mapping[str, Any], end: float) -> Mapping[str, Any]:
        try:
            return self._current().call(tool, arguments, end)
        except _Lost:
            patience = min(time.monotonic() + RESTART_SECONDS, end)
        while True:
            try:
                return self._current().call(tool, arguments, end)
            except MneloUnavailable:
                left = patience - time.monotonic()
                if left <= 0 or self._closed.wait(min(left, PAUSE_SECONDS)):
                    raise

    def _current(self) -> _Session:
        with self._opening:
            if self._session is None or self._session.over:
                self._session = _Session(self._url, self._token, self._timeout)
            if self._closed.is_set():
                self._session.end()
            return self._session


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

    def __exit__(self, *error: object) -> None:
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
        given = _without_defaults(getattr(MneloClient, method), values)
        return self.call(f"memory_{method}", given)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call any of the server's tools by its name; its whole answer, notices included."""
        if not self._closing.alive:
            raise MneloError(_say("closed"))
        result = self._line.request(tool, arguments)
        texts = [block["text"] for block in result["content"] if block["type"] == "text"]
        if result.get("isError"):
            raise MneloError(" ".join(texts))
        return dict(result.get("structuredContent") or json.loads(texts[0]))


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
