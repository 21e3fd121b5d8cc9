"""Upkeep in one background thread, by one process at a time of several on one file."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from filelock import Timeout

from core import timestamps
from store import JobLock

TICK_SECONDS = 0.5
LEAVE_SECONDS = 2.0  # how long a server that ends waits for the running step


class Upkeep(ABC):
    """Does twice a second what is due, and reports when each step was last done, or why it failed.

    `lock` is for who may do it; `name` is that of the thread and of the log.
    """

    def __init__(self, lock: JobLock, name: str) -> None:
        self._log = logging.getLogger(f"mnelo.{name}")
        self._lock = lock
        self._stop = threading.Event()
        self._done: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name=f"mnelo-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the running step."""
        self._stop.set()
        self._thread.join(LEAVE_SECONDS)
        self._leave()
        self._lock.release()

    def report(self) -> dict[str, object]:
        """Whether this process does the work, when each step was last done, and what failed."""
        failed = {"failed": dict(self._failed)} if self._failed else {}
        return {"keeping": self._lock.is_locked, **self._done, **failed}

    @abstractmethod
    def _tick(self, now: float) -> None:
        """Do what is due at a moment of time.monotonic()."""

    def _leave(self) -> None:  # noqa: B027 - most have nothing left to do
        """The last thing that is done."""

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            if self._has_the_job():
                self._tick(time.monotonic())

    def _has_the_job(self) -> bool:
        """Whether this process has the lock, or gets it now; a process that ends frees it."""
        if not self._lock.is_locked:
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                return False
            except OSError as error:
                self._note("lock", error)
                return False
            self._failed.pop("lock", None)
        return True

    def _do(self, name: str, step: Callable[[], object]) -> None:
        """One step; False means that there was nothing to do. Whatever fails, upkeep goes on."""
        try:
            if step() is not False:
                self._done[name] = timestamps.now()
            self._failed.pop(name, None)
        except Exception as error:
            self._note(name, error)

    def _note(self, name: str, error: Exception) -> None:
        said = str(error) or type(error).__name__
        if said != self._failed.get(name):  # it may be tried twice a second
            self._log.warning("%s: %s", name, said)
        self._failed[name] = said
