"""stdin and stdout for clients that only start programs: a bridge to the one running server.

It finds the server at its port, knows it by /health (name and database file), and starts it
detached where nobody listens, one bridge at a time, under a lock in the home folder. That server
stays when the bridge ends, since all clients share it and its model. JSON-RPC lines go to /mcp and
the replies come back. A request that was lost with a server that ended is sent once more: what is
stored already is folded.

Only the standard library and light modules are imported, so that a client is connected at once:
the SDK alone takes a second to load.
"""

import base64
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

from access import address
from access.auth import load_token
from access.running import keeps_to_itself, same_file
from config import ROOT, Config
from core import files
from core.errors import MneloError
from core.terminal import complain

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

START_SECONDS = 10.0
"""How long a server may take until it answers, from its start or while it restarts."""
KNOWN_SECONDS = 5.0  # how long it is taken as known that the server is there, or that it is not
SILENT_SECONDS = 60.0
"""How long a server may say nothing while it works: it sends a sign of life every 15 s."""
PAUSE_SECONDS = 0.05
MAX_REQUESTS = 32  # requests that wait for their replies at the same time; the others queue
UNAVAILABLE = -32011  # the error code of a request that could not be passed on
PORT_TAKEN = 3  # the server's exit status when another one was faster


class Unavailable(MneloError):
    """There is no server to pass a request on to, or it does not answer it."""


def run(given: Namespace, config: Config) -> int:
    """Pass on what comes from stdin until it ends and every reply has been written."""
    # A client that ends its bridges with Ctrl-C's signal wants to see no traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    token = load_token(config, given.auth_token_file, os.environ)
    # The bytes as they are: a code page of Windows' own would mangle Chinese.
    finder = Finder(config, given.auth_token_file, token)
    Bridge(finder, token, sys.stdout.buffer).pass_on(sys.stdin.buffer)
    return 0


# --- Finding the server ----------------------------------------------------------------


class Finder:
    """Finds the server of these settings at its port, and starts it where nobody listens."""

    def __init__(self, config: Config, token_file: Path | None, token: str | None) -> None:
        self.host, self.port = address.reachable(config.server_host), config.server_port
        self.url = address.url(self.host, self.port)
        self._config = config
        self._token_file = token_file
        self._token = token
        self._lock = threading.Lock()
        self._failure: Unavailable | None = None
        self._known_until = 0.0

    def find(self) -> None:
        """Return once the server answers; raises Unavailable where it does not or is another."""
        with self._lock:
            if time.monotonic() > self._known_until:
                self._failure = None
                try:
                    self._look()
                except Unavailable as error:
                    self._failure = error
                self._known_until = time.monotonic() + KNOWN_SECONDS
            if self._failure:
                raise self._failure

    def lost(self) -> None:
        """The server did not answer: look for it anew before the next request."""
        self._known_until = 0.0

    def _look(self) -> None:
        end = time.monotonic() + START_SECONDS
        with closing(Starter(self._config, self._token_file)) as starter:
            while (left := end - time.monotonic()) > 0:
                try:
                    health = self._health(left)
                except ConnectionRefusedError:
                    starter.start()
                    health = None
                if health is not None:
                    self._refuse_another(health)
                    return
                time.sleep(PAUSE_SECONDS)
            raise Unavailable("bridge.silent", url=self.url, seconds=START_SECONDS, log=starter.log)

    def _health(self, seconds: float) -> Mapping[str, Any] | None:
        """What the program at the port says of itself; None while it starts or ends."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        try:
            answer, said = _told(connection, {})
            # Only mnelo is shown the token: another program may stand at its port by chance.
            if self._token and keeps_to_itself(said):
                answer, said = _told(connection, _bearer(self._token))
        except ConnectionRefusedError:
            raise
        except socket.gaierror as error:
            raise Unavailable("server.host", host=self.host, reason=error.strerror) from None
        except OSError:
            return None
        except http.client.HTTPException:
            raise Unavailable("bridge.foreign", url=self.url) from None
        finally:
            connection.close()
        return None if answer.status == 503 else said

    def _refuse_another(self, health: Mapping[str, Any]) -> None:
        if health.get("name") != "mnelo":
            raise Unavailable("bridge.foreign", url=self.url)
        if keeps_to_itself(health):
            raise Unavailable("bridge.token", url=self.url)
        found, wanted = str(health.get("database")), _absolute(self._config.database_path)
        if not same_file(found, wanted):
            raise Unavailable("bridge.other", url=self.url, found=found, wanted=wanted)


def _told(
    connection: http.client.HTTPConnection, headers: Mapping[str, str]
) -> tuple[http.client.HTTPResponse, Mapping[str, Any]]:
    connection.request("GET", "/health", headers=dict(headers))
    answer = connection.getresponse()
    return answer, _object(answer.read())


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


class Starter:
    """Starts the server at most once, holding its home's lock until it is found or given up."""

    def __init__(self, config: Config, token_file: Path | None) -> None:
        self.log = config.home / "logs" / "server.log"
        self._config = config
        self._token_file = token_file or config.auth_token_file
        self._lock: BinaryIO | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def start(self) -> None:
        """Called while nobody listens. Raises Unavailable where the server ended again."""
        try:
            if self._lock is None:
                # Whoever held the lock before may have started one: look again first.
                self._lock = _try_lock(self._config.home / "server.lock")
            elif self._process is None:
                self._process = self._launch()
            elif self._process.poll() not in (None, PORT_TAKEN):
                raise Unavailable("bridge.ended", reason=self._last_words(), log=self.log)
        except OSError as error:
            raise Unavailable("bridge.ended", reason=error, log=self.log) from None

    def close(self) -> None:
        if self._lock:
            self._lock.close()
        if self._process:
            # It is meant to outlive this program; Popen would warn of that.
            self._process.returncode = 0

    def _launch(self) -> "subprocess.Popen[bytes]":
        config = self._config
        command = [sys.executable, str(ROOT / "mcp_server.py"), "--host", config.server_host]
        command += ["--port", str(config.server_port), "--db", _absolute(config.database_path)]
        if self._token_file:
            command += ["--auth-token-file", _absolute(self._token_file)]
        self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.appending(self.log) as log:
            self._log_start = log.tell()
            return subprocess.Popen(  # noqa: S603 - our own server
                command,
                # Not the client's folder, which could not be removed while the server runs.
                cwd=config.home,
                env={**os.environ, "MNELO_HOME": str(config.home)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **_detached(),
            )

    def _last_words(self) -> str:
        said = self.log.read_bytes()[self._log_start :].decode("utf-8", "replace")
        lines = said.split("\n")
        return next((line for line in reversed(lines) if line.strip()), "-").strip()


def _detached() -> dict[str, Any]:
    """What keeps a signal that is meant for the client's programs away from the server."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _try_lock(file: Path) -> BinaryIO | None:
    """The file, locked until it is closed; None where another program has the lock."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = files.appending(file)
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    return handle


def _absolute(path: Path) -> str:
    return str(path.expanduser().absolute())


# --- Passing on ------------------------------------------------------------------------


class Call:
    """One request on its way: its line as it came, and what it says."""

    def __init__(self, line: bytes, request: Mapping[str, Any]) -> None:
        self.line = line
        self.id = request.get("id")
        self.method = str(request.get("method"))
        params = request.get("params")
        self.params: Mapping[str, Any] = params if isinstance(params, dict) else {}
        self.cancelled = False
        self._socket: socket.socket | None = None

    @property
    def modern_version(self) -> str:
        """The protocol version that a request of 2026-07-28 or later brings along."""
        meta = self.params.get("_meta")
        known = meta if isinstance(meta, dict) else {}
        return str(known.get("io.modelcontextprotocol/protocolVersion", ""))

    def cancel(self) -> None:
        """Hang up: that tells the server to give up, and the reader that nothing comes."""
        self.cancelled = True
        if self._socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def connect(self, connection: http.client.HTTPConnection) -> None:
        connection.connect()
        self._socket = connection.sock
        if self.cancelled:
            raise ConnectionAbortedError


class Bridge:
    """JSON-RPC lines to the server, and its replies to `out`, in the order they come."""

    def __init__(self, finder: Finder, token: str | None, out: BinaryIO) -> None:
        self._finder = finder
        self._token = token
        self._out = out
        self._writing = threading.Lock()
        self._calls: dict[str, Call] = {}
        self._version = ""
        self._said = ""

    def pass_on(self, lines: Iterable[bytes]) -> None:
        """Pass on each line; returns when all have their replies."""
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            for line in lines:
                request = _object(line)
                if request.get("method") == "notifications/cancelled":
                    self._cancel(request)
                elif request.get("method") == "initialize":
                    # Answered before anything else is read: the others need its version.
                    self._answer(Call(line, request))
                # Of what needs no reply only a cancellation means anything to /mcp, which
                # keeps no sessions; what is no JSON at all is for the server to refuse.
                elif line.strip() and ("id" in request or not request):
                    call = self._calls[_key(request.get("id"))] = Call(line, request)
                    pool.submit(self._answer, call)

    def _cancel(self, notification: Mapping[str, Any]) -> None:
        params = notification.get("params")
        if isinstance(params, dict) and (call := self._calls.get(_key(params.get("requestId")))):
            call.cancel()

    def _answer(self, call: Call) -> None:
        """See to it that the request has its reply, be it an error."""
        try:
            self._deliver(call)
        except Exception as error:
            self._refuse(call, str(error))
        else:
            self._said = ""
        finally:
            self._calls.pop(_key(call.id), None)

    def _deliver(self, call: Call) -> None:
        """Have the request answered. One that got lost with a server that ended is sent again.

        mnelo folds what it has stored already, so nothing is there twice.
        """
        for _ in range(2):
            self._finder.find()
            if call.cancelled or self._forward(call):
                return
            self._finder.lost()
        raise Unavailable("bridge.lost", url=self._finder.url)

    def _forward(self, call: Call) -> bool:
        """Whether the request was answered, or is no longer to be."""
        finder = self._finder
        connection = http.client.HTTPConnection(finder.host, finder.port, timeout=SILENT_SECONDS)
        try:
            call.connect(connection)
            connection.request("POST", "/mcp", call.line, self._headers(call))
            return self._relay(connection.getresponse(), call) or call.cancelled
        except (OSError, http.client.HTTPException):
            return call.cancelled
        finally:
            connection.close()

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **_bearer(self._token),
        }
        if version := call.modern_version:
            headers["MCP-Protocol-Version"] = _header(version)
            headers["Mcp-Method"] = _header(call.method)
            name = call.params.get("uri" if call.method == "resources/read" else "name")
            if isinstance(name, str):
                headers["Mcp-Name"] = _header(name)
        elif self._version and call.method != "initialize":
            headers["MCP-Protocol-Version"] = _header(self._version)
        return headers

    def _relay(self, answer: http.client.HTTPResponse, call: Call) -> bool:
        """Whether the answer had the reply in it; if so, that has been written."""
        if answer.getheader("Content-Type", "").startswith("text/event-stream"):
            return self._relay_events(answer, call)
        reply = _object(answer.read())
        if answer.status in (202, 503):
            # It was a reply itself, and needs none; or the server is ending.
            return answer.status == 202
        if "jsonrpc" not in reply:
            known = {401: "bridge.token", 413: "bridge.large"}
            sentence = known.get(answer.status, "bridge.status")
            raise Unavailable(sentence, url=self._finder.url, status=answer.status)
        # A refusal that came before the server read the request does not know its id.
        self._write(json.dumps({**reply, "id": call.id}).encode(), call)
        return True

    def _relay_events(self, events: Iterable[bytes], call: Call) -> bool:
        answered, data = False, b""
        for line in events:
            if line.startswith(b"data:"):
                data += line[5:].strip()
            elif not line.strip() and data:
                answered |= self._relay_message(data, call)
                data = b""
        return answered

    def _relay_message(self, data: bytes, call: Call) -> bool:
        """Whether it is the reply; if not, it is about how the request gets on."""
        event = _object(data)
        if call.method == "initialize" and isinstance(result := event.get("result"), dict):
            self._version = str(result.get("protocolVersion", ""))
        self._write(data, call)
        return "method" not in event

    def _refuse(self, call: Call, sentence: str) -> None:
        error = {"code": UNAVAILABLE, "message": sentence}
        reply = {"jsonrpc": "2.0", "id": call.id, "error": error}
        self._write(json.dumps(reply).encode(), call)
        if sentence != self._said:
            self._said = sentence
            complain(sentence)

    def _write(self, line: bytes, call: Call) -> None:
        if call.cancelled:
            return
        with self._writing:
            try:
                self._out.write(line + b"\n")
                self._out.flush()
            except OSError:
                # The client is gone, and there is nothing to be put in order for anybody.
                os._exit(0)


def _object(text: bytes) -> Mapping[str, Any]:
    """The JSON object that the text is; an empty one where it is something else."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _key(request_id: object) -> str:
    """1 and "1" are two requests."""
    return json.dumps(request_id)


def _header(value: str) -> str:
    """A header value, in MCP's own wrapping where the text is no plain ASCII.

    >>> _header("memory_recall"), _header("北门")
    ('memory_recall', '=?base64?5YyX6Zeo?=')
    """
    if re.fullmatch(r"(?! )[\x20-\x7e]*(?<! )", value) and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="
