"""When the disk fails: clear words, nothing half-written; recall goes on, work does so later."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from core.errors import StoreError
from hash_embedder import HashEmbedder
from inside import look_for_faults, sqlite_of
from memories import Open
from memory import Memory
from unprivileged import not_root

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter")


def contents(memory: Memory, query: str) -> list[str]:
    return [hit["content"] for hit in memory.recall(query)["hits"]]


# --- A full disk -----------------------------------------------------------------------


def test_a_full_disk_is_said_nothing_is_half_written_and_work_goes_on_with_space(
    open_memory: Open,
) -> None:
    memory = open_memory(model=HashEmbedder())
    memory.remember("the red boat", entities=["boat"])
    db = sqlite_of(memory)._db
    db.pragma("max_page_count", db.pragma("page_count") + 2)
    stored, refused = 0, 0
    for number in range(60):
        try:
            memory.remember(f"note {number} " + "x" * 2000, entities=[f"e{number}"], tags=["t"])
            stored += 1
        except StoreError as error:
            assert "is full; nothing was stored" in str(error)  # noqa: PT017
            refused += 1
        assert contents(memory, "red boat")[0] == "the red boat"
    assert refused > 50
    db.pragma("max_page_count", 1 << 30)
    assert sum(look_for_faults(memory).values()) == 0
    assert memory.stats()["chunks"]["active"] == 1 + stored
    memory.remember("space again")
    assert contents(memory, "space again")[0] == "space again"


@pytest.mark.parametrize("tool", ["update", "forget", "relate"])
def test_every_write_is_all_or_nothing_on_a_full_disk(open_memory: Open, tool: str) -> None:
    memory = open_memory()
    chunk_id = memory.remember("before " + "x" * 50_000)["chunk_id"]
    db = sqlite_of(memory)._db
    db.pragma("max_page_count", db.pragma("page_count"))
    calls: dict[str, Callable[[], object]] = {
        "update": lambda: memory.update(chunk_id, new_content="after " + "y" * 60_000),
        "forget": lambda: memory.forget(chunk_id),
        "relate": lambda: [memory.relate("a", f"b{n}" + "z" * 200, "r") for n in range(200)],
    }
    with pytest.raises(StoreError, match="is full"):
        calls[tool]()
    assert contents(memory, "before")[0].startswith("before")
    db.pragma("max_page_count", 1 << 30)
    assert sum(look_for_faults(memory).values()) == 0
    calls[tool]()


# --- A file that is gone ---------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_deleted_or_replaced_takes_no_more_memories(
    open_memory: Open, replaced: bool
) -> None:
    memory = open_memory(model=HashEmbedder())
    memory.remember("the red boat")
    assert contents(memory, "boat") == ["the red boat"]
    kept = memory.path.with_name("kept.db")
    memory.path.rename(kept)
    if replaced:
        shutil.copyfile(kept, memory.path)
    with pytest.raises(StoreError, match="was deleted or replaced"):
        memory.remember("into the void")
    assert contents(memory, "boat") == ["the red boat"]
    memory.path.unlink(missing_ok=True)
    kept.rename(memory.path)
    memory.remember("back again")
    assert set(contents(memory, "boat back")) == {"the red boat", "back again"}


# --- A file or folder that may only be read --------------------------------------------


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that another user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="mnelo-shelf-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def as_nobody(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Root may write everywhere: be somebody who may not."""
    monkeypatch.setenv("HOME", str(shelf))
    monkeypatch.setenv("MNELO_HOME", str(shelf))
    with not_root():
        yield


def stocked(shelf: Path, open_memory: Open) -> Path:
    path = shelf / "memory.db"
    memory = open_memory(model=HashEmbedder(), path=path)
    memory.remember("the red boat", entities=["boat"])
    memory.close()
    path.chmod(0o444)
    return path


@pytest.fixture
def protected(shelf: Path, open_memory: Open) -> Path:
    path = stocked(shelf, open_memory)
    shelf.chmod(0o555)
    return path


def test_a_protected_file_is_read_and_not_written(
    protected: Path, as_nobody: None, open_memory: Open
) -> None:
    before = protected.read_bytes()
    memory = open_memory(model=HashEmbedder(), path=protected)
    assert contents(memory, "red boat")[0] == "the red boat"
    assert memory.recall("red boat")["hits"][0]["lanes"].keys() >= {"vector", "meta"}
    writes: list[Callable[[], object]] = [
        lambda: memory.remember("no"),
        lambda: memory.relate("a", "b", "r"),
        lambda: memory.forget("boat", target_kind="entity"),
    ]
    for write in writes:
        with pytest.raises(StoreError, match="may only be read"):
            write()
    memory.keep()
    assert memory.stats()["chunks"]["active"] == 1
    memory.close()
    assert protected.read_bytes() == before
    assert [each.name for each in protected.parent.iterdir()] == ["memory.db"]


def test_a_file_that_may_not_be_read_is_refused_by_name(
    shelf: Path, open_memory: Open, request: pytest.FixtureRequest
) -> None:
    path = stocked(shelf, open_memory)
    path.chmod(0)
    request.getfixturevalue("as_nobody")
    with pytest.raises(StoreError, match="cannot be opened: Permission denied"):
        open_memory(path=path)


def test_a_new_file_in_a_protected_folder_is_refused_by_name(
    shelf: Path, open_memory: Open, as_nobody: None
) -> None:
    with pytest.raises(StoreError, match="cannot be opened: Permission denied"):
        open_memory(path=shelf / "new.db")


def test_an_older_file_that_may_only_be_read_is_refused(
    shelf: Path, open_memory: Open, request: pytest.FixtureRequest
) -> None:
    path = stocked(shelf, open_memory)
    path.chmod(0o644)
    db = apsw.Connection(str(path))
    db.pragma("user_version", 1)
    db.close()
    path.chmod(0o444)
    shelf.chmod(0o555)
    request.getfixturevalue("as_nobody")
    with pytest.raises(StoreError, match="may only be read"):
        open_memory(path=path)
