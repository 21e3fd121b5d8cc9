"""The log of recalls: it never keeps anybody waiting for good, whatever a signal interrupted."""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import memory as memories
from core.errors import StoreError
from memories import Open
from memory import Memory
from moments import eventually
from recall.log import RecallLog


def returns(call: Callable[[], object]) -> bool:
    """Whether a call comes to its end."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return eventually(lambda: not thread.is_alive())


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Whether a signal came in the call, at the given one of all steps at which one can come."""
    steps = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        if event != "call":
            steps += 1
            if steps == at:
                raise KeyboardInterrupt
        return step

    sys.settrace(step)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_a_memory_closes_wherever_a_signal_came_while_a_recall_was_noted(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = RecallLog.add
    at, came = 0, True
    while came:
        at, came = at + 1, False

        def add_interrupted(log: RecallLog, entry: Any, at: int = at) -> None:
            nonlocal came
            came = interrupted(lambda: add(log, entry), at)

        memory = open_memory()
        monkeypatch.setattr(RecallLog, "add", add_interrupted)
        memory.recall("kettle")
        assert returns(memory._log.close), "by itself, not because it is given up"
        assert returns(memory.close)
    assert at > 1, "it was interrupted"


@pytest.mark.parametrize("part", ["embedding", "_searcher", "_log"])
def test_a_memory_closes_though_a_part_of_it_never_ends(
    part: str, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "CLOSE_SECONDS", 0.1)
    memory = open_memory()
    memory.remember("the kettle is in the attic")
    monkeypatch.setattr(getattr(memory, part), "close", threading.Event().wait)
    assert returns(memory.close)
    with pytest.raises(StoreError, match="has been closed"):
        memory.store.put_noise(())  # the file is closed all the same


def test_what_was_noted_is_written_when_somebody_asks_and_when_it_closes(
    wordless: Memory, open_memory: Open
) -> None:
    for number in range(250):
        wordless.recall(f"kettle {number}")
    assert wordless.stats()["recall_24h"]["count"] == 250
    wordless.recall("once more")
    wordless.close()
    assert open_memory().stats()["recall_24h"]["count"] == 251
