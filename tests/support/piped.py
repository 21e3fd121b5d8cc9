"""A memory in a process of its own, which does what it is told through a pipe."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from config import Config
from core.errors import MneloError
from inside import look_for_faults
from memory import Memory
from serving import processes

REFUSED = "refused"
_ALSO: dict[str, Callable[..., Any]] = {"check": look_for_faults}


def perform(memory: Memory, method: str, *given: Any, **named: Any) -> Any:
    """What a method of Memory returns, or how it was refused."""
    try:
        return (_ALSO.get(method) or getattr(Memory, method))(memory, *given, **named)
    except MneloError as error:
        return {REFUSED: error.msg_id}


class Here:
    """A memory of this process."""

    def __init__(self) -> None:
        self._memory: Memory | None = None

    def open(self, path: Path) -> None:
        self.close()
        self._memory = Memory(path, config=Config.load({}, embedder_model="none"))

    def __call__(self, method: str, *given: Any, **named: Any) -> Any:
        assert self._memory
        return perform(self._memory, method, *given, **named)

    def close(self) -> None:
        if self._memory:
            self._memory.close()
            self._memory = None


def obey(pipe: Connection) -> None:
    """Open the file that is named, and do with it what follows, until there is nothing more."""
    here = Here()
    while told := pipe.recv():
        method, given, named = told
        if method == "open":
            here.open(*given)
            pipe.send(None)
        elif method == "close":
            here.close()
            pipe.send(None)
        else:
            pipe.send(here(method, *given, **named))


class Elsewhere:
    """The other process, asked like one's own memory."""

    def __init__(self) -> None:
        self._pipe, theirs = processes().Pipe()
        self._process = processes().Process(target=obey, args=(theirs,), daemon=True)
        self._process.start()

    def open(self, path: Path) -> None:
        self("open", path)

    def close(self) -> None:
        self("close")

    def __call__(self, method: str, *given: Any, **named: Any) -> Any:
        self._pipe.send((method, given, named))
        assert self._pipe.poll(30), f"the other process does not answer: {method}"
        return self._pipe.recv()

    def end(self) -> None:
        self._pipe.send(None)
        self._process.join()
