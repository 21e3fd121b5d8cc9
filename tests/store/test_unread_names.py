"""Many new names at once: they are looked for in older texts without a writer waiting for it."""

from collections.abc import Callable
from typing import Any

import pytest

from crash_worker import look
from inside import look_for_faults, sqlite_of
from memories import Open
from memory import Memory
from store.sqlite import entity_rows, unread_names
from store.sqlite.name_search import seqs_with_name
from store.sqlite.unread_names import UnreadNames
from store.types import Erasing

TEXTS = [f"page {n}: oak {n}, elm {n}, ash {n % 7}" for n in range(30)]
NEW = [{"id": f"oak {n}", "aliases": [f"elm {n}", f"ash {n}"]} for n in range(12)]
WAITING = "SELECT value FROM meta WHERE key = 'unread_names'"
MENTIONS = "SELECT entity_id, chunk_seq, origin FROM mentions ORDER BY 1, 2"


@pytest.fixture
def filled(wordless: Memory) -> Memory:
    wordless.remember_many([{"content": text} for text in TEXTS])
    return wordless


@pytest.fixture
def expected(open_memory: Open, tmp_path: Any) -> list[tuple[Any, ...]]:
    """The mentions where all names are looked for at once."""
    memory = open_memory(path=tmp_path / "at_once.db")
    memory.remember_many([{"content": text} for text in TEXTS])
    memory.remember("all the trees", entities=NEW)
    mentions = look(memory.path, MENTIONS)
    assert len(mentions) > len(TEXTS)
    return mentions


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction, and what comes between two, reads only a few texts."""
    monkeypatch.setattr(entity_rows, "READ_AT_ONCE", 5)
    monkeypatch.setattr(unread_names, "READ_BETWEEN", 5)


def _killed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """As if this process ended before it looked for names; what it gives back takes that back."""
    read = UnreadNames.read
    monkeypatch.setattr(UnreadNames, "read", lambda self: None)
    return lambda: monkeypatch.setattr(UnreadNames, "read", read)


@pytest.mark.usefixtures("little")
def test_many_new_names_are_found_in_older_texts_by_the_time_they_are_stored(
    filled: Memory, expected: list[tuple[Any, ...]]
) -> None:
    filled.recall("oak 3")
    filled.remember("all the trees", entities=NEW)
    assert look(filled.path, MENTIONS) == expected
    assert look(filled.path, WAITING) == []
    found = filled.recall("oak 3", strategy="entity_only", top_k=5)["hits"]
    assert TEXTS[3] in [hit["content"] for hit in found]
    assert not any(look_for_faults(filled).values())


@pytest.mark.usefixtures("little")
def test_others_write_while_many_new_names_are_looked_for(
    filled: Memory, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, gone = open_memory(database_busy_seconds=0.1), list[int]()
    sqlite_of(other).after_writing = lambda: None  # it leaves the names to who brought them
    ids = dict(look(filled.path, "SELECT seq, id FROM chunks"))

    def search_while_another_writes(db: Any, key: str, last: int) -> tuple[list[int], int]:
        found = seqs_with_name(db, key, last)
        if key == "oak 5":
            gone.extend(found[0])
            other.forget(ids[gone[0]])
        return found

    monkeypatch.setattr(unread_names, "seqs_with_name", search_while_another_writes)
    filled.remember("all the trees", entities=NEW)
    assert len(gone) == 1
    mentions = [row[:2] for row in look(filled.path, MENTIONS)]
    assert ("oak 5", gone[0]) not in mentions
    assert ("oak 6", gone[0] + 1) in mentions


def test_few_texts_are_read_while_others_wait(
    filled: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_rows, "READ_AT_ONCE", 40)
    read = list[int]()

    def counted(*name: Any) -> tuple[list[int], int]:
        seqs, count = seqs_with_name(*name)
        read.append(count)
        return seqs, count

    monkeypatch.setattr(entity_rows, "seqs_with_name", counted)
    filled.remember("all the trees", entities=NEW)
    assert 40 <= sum(read) < 40 + len(TEXTS)


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("next_step", ["opening", "write"])
def test_names_that_a_kill_left_are_looked_for_by_the_next(
    filled: Memory,
    open_memory: Open,
    expected: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    next_step: str,
) -> None:
    come_back = _killed(monkeypatch)
    filled.remember("all the trees", entities=NEW)
    assert look(filled.path, MENTIONS) != expected
    assert len(look(filled.path, WAITING)) == 1
    come_back()
    if next_step == "opening":
        open_memory()
    else:
        filled.forget(filled.remember("a shrub")["chunk_id"])
    assert look(filled.path, MENTIONS) == expected
    assert look(filled.path, WAITING) == []


@pytest.mark.usefixtures("little")
def test_what_was_erased_merged_or_forgotten_while_names_waited_stays_so(
    filled: Memory, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    come_back = _killed(monkeypatch)
    filled.remember("all the trees", entities=[*NEW, "beech"])
    ids = dict(look(filled.path, "SELECT content, id FROM chunks"))
    filled.forget(ids[TEXTS[9]])
    filled.merge_entities("beech", "oak 10")
    sqlite_of(filled).erasure.erase(Erasing(entity="oak 11"), "test")
    come_back()
    open_memory()
    mentions = [row[:2] for row in look(filled.path, MENTIONS)]
    seqs = dict(look(filled.path, "SELECT content, seq FROM chunks"))
    assert ("beech", seqs[TEXTS[10]]) in mentions
    assert ("oak 9", seqs[TEXTS[9]]) not in mentions
    assert not [name for name, _ in mentions if name == "oak 11"]
    assert not any(look_for_faults(filled).values())
