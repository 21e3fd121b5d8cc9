"""What tests look at behind the seam: the file that a memory is kept in."""

from collections.abc import Iterator
from contextlib import contextmanager

from memory import Memory
from recall.turns import TurnMemory
from store.sqlite.store import SqliteStore
from store.sqlite.view import View


def sqlite_of(memory: Memory | TurnMemory) -> SqliteStore:
    """The memory's store, as the class that it is."""
    store = memory.store
    assert isinstance(store, SqliteStore)
    return store


def look_for_faults(memory: Memory | TurnMemory) -> dict[str, int]:
    """How many rows break what the file promises, by fault."""
    return memory.store.upkeep.check()[0]


@contextmanager
def view_of(memory: Memory | TurnMemory) -> Iterator[View]:
    """A borrowed reading connection, as the class that it is."""
    with sqlite_of(memory).view() as view:
        yield view
