"""Waiting: for the clock to go on, and for what another thread does."""

import time
from collections.abc import Callable

from core import timestamps


def moment() -> str:
    """A moment after everything so far and before everything to come."""
    time.sleep(0.003)
    now = timestamps.now()
    time.sleep(0.003)
    return now


def eventually(is_so: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def never() -> bool:
    return False
