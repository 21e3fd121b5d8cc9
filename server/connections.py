"""The connections of the port: how many there may be, and how long one may keep the server waiting.

uvicorn by itself waits without end for a header or a body, and once all places are taken it
refuses everybody. Here a connection that waits for its client gives way to a newer one, oldest
first, and some places are kept for those that are always answered.
"""

import asyncio
import errno
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Literal

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from mnelo_locale import message

if sys.platform != "win32":
    import resource

log = logging.getLogger("mnelo.transport")

CONNECTIONS = 256  # that may be at work at the same time, where there are descriptors for them
LEAST = 8  # the same where there are hardly any
RESERVE = 16  # places beyond them, for /health and what belongs to open sessions
ACCEPTED = 4  # connections that are accepted in one go, before the oldest can give way
FILES = 112  # descriptors of the database, of logs, of libraries, of what was just accepted
QUEUE = 1024  # connections that the system keeps until they are accepted
ASK_SECONDS = 10.0  # what a header may take, from its first byte or the connection's start; a body
UNREAD_SECONDS = 60.0  # how long a client may leave what was sent to it unread
SAID_SECONDS = 60.0  # between two lines of the log that say the same

Stage = Literal["idle", "head", "body", "busy"]
"""Between two requests, in a header, in a body, or with a request that the server has whole."""


def most_connections() -> int:
    """How many may be at work; as many descriptors as they need are asked for."""
    if sys.platform == "win32":
        return CONNECTIONS
    spare = RESERVE + FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + spare
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    allowed = CONNECTIONS if soft == resource.RLIM_INFINITY else soft - spare
    return max(LEAST, min(CONNECTIONS, allowed))


class Connection(H11Protocol):
    """uvicorn's connection, but it does not wait for its client without end."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # With every request, so that the app can ask whether too many are at work.
        super().__init__(config, server_state, {**app_state, "connection": self}, _loop)
        # uvicorn itself would refuse everybody beyond its limit.
        self._most, self.limit_concurrency = config.limit_concurrency or CONNECTIONS, None
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._asked = False
        self.kept = False  # it brought a message of an open session, so others give way first
        self.stage: Stage = "busy"
        self.since = 0.0  # when it came to that stage

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self._most + RESERVE:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._deadline, self._unread):
            if timer:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if not answering and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
            return
        if answering:  # a body that is nonsense, whose request has an answer under way
            self.cycle.disconnected = True
        self.give_up()

    def give_up(self) -> None:
        """Leave the client, at once and without a word."""
        self.connections.discard(self)
        self.transport.abort()

    @property
    def crowded(self) -> bool:
        """Whether as many others as may be at work are."""
        others = [each for each in self._all() if each is not self and each.stage == "busy"]
        return len(others) >= self._most

    def _watch(self) -> None:
        """Note what the connection has come to, and give a new header or body its time."""
        before, self.stage = self.stage, self._stage()
        if self.stage == before:
            return
        self._asked |= self.stage in ("body", "busy")
        self.since = self.loop.time()
        if self._deadline:
            self._deadline.cancel()
        if self.stage in ("head", "body"):
            self._deadline = self.loop.call_later(ASK_SECONDS, self.give_up)

    def _stage(self) -> Stage:
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.conn.their_state is not h11.IDLE:
            return "busy"
        return "head" if not self._asked or self.conn.trailing_data[0] else "idle"

    def _make_room(self) -> None:
        waiting = [each for each in self._all() if each.stage != "busy" and each is not self]
        oldest = min(waiting, key=lambda each: (each.kept, each.since), default=self)
        oldest.give_up()

    def _all(self) -> "list[Connection]":
        return [each for each in self.connections if isinstance(each, Connection)]


class Complaints:
    """What asyncio cannot tell anybody else; that descriptors ran out is said once a minute."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif (now := self._clock()) >= self._next:
            self._next = now + SAID_SECONDS
            log.warning(message("server.descriptors"))
