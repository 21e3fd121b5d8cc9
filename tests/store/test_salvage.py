"""What can be read of a damaged file is a sound memory again."""

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from core.errors import StoreError
from hash_embedder import HashEmbedder
from inside import sqlite_of
from memories import Open, dump, sound
from memory import Memory
from store.opening import SALVAGE

COUNT = 400


def filled(memory: Memory) -> Path:
    memory.remember_many(
        [
            {
                "content": f"On day {n} the ferry to Riga was {n} minutes late. " + "Waves. " * 20,
                "entities": [{"id": f"boat {n % 40}", "aliases": [f"B{n % 40}"]}],
                "tags": ["ferry", f"day {n}"],
            }
            for n in range(COUNT)
        ]
    )
    for number in range(40):
        memory.relate(f"boat {number}", f"boat {(number + 1) % 40}", "tows")
    first = memory.recall("day 7", top_k=1)["hits"][0]["chunk_id"]
    memory.update(first, new_content="On day 7 the ferry was on time.")
    memory.close()
    return memory.path


def test_a_sound_file_is_saved_whole(open_memory: Open, tmp_path: Path) -> None:
    path = filled(open_memory(model=HashEmbedder()))
    memory = open_memory(model=HashEmbedder())
    before = dump(memory)
    memory.close()
    done = SALVAGE(path, tmp_path / "new.db")
    assert not any(lost for _, lost in done.values())
    assert done["chunks"][0] == COUNT + 1
    new = open_memory(path=tmp_path / "new.db", model=HashEmbedder())
    after = dump(new)
    for table in ("entities", "aliases", "name_words", "mentions", "relations", "tags", "trigrams"):
        assert after[table] == before[table], table
    assert [row[:-1] for row in after["chunks"]] == [row[:-1] for row in before["chunks"]]
    assert sound(new)


def _scribbled(path: Path, share: float) -> None:
    """Overwrite some pages, but not the first: without the schema nothing is known of others."""
    content, rng = bytearray(path.read_bytes()), random.Random(7)  # noqa: S311
    for page in range(80, len(content) // 4096):
        if rng.random() < share:
            content[page * 4096 : page * 4096 + 4096] = rng.randbytes(4096)
    path.write_bytes(content)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_a_file_with_pages_lost_gives_what_is_on_the_others(
    open_memory: Open, tmp_path: Path, share: float
) -> None:
    path = filled(open_memory())
    _scribbled(path, share)
    saved, _ = SALVAGE(path, tmp_path / "new.db")["chunks"]
    assert saved > (1 - 3 * share) * COUNT / 2
    new = open_memory(path=tmp_path / "new.db")
    assert sound(new)
    assert new.recall("ferry")["hits"]


FAULTS: dict[str, Callable[[apsw.Connection], object]] = {
    "a trigger": lambda db: db.execute(
        "CREATE TRIGGER evil AFTER INSERT ON chunks BEGIN DELETE FROM tags; END"
    ),
    "an endless view": lambda db: db.execute(
        "DROP VIEW searchable; CREATE VIEW searchable AS WITH RECURSIVE n (seq) AS"
        " (SELECT 1 UNION ALL SELECT seq FROM n) SELECT seq, '' AS content, '' AS metadata FROM n"
    ),
    "a table that is a view": lambda db: db.execute(
        "DROP TABLE audit; CREATE VIEW audit AS WITH RECURSIVE n (id) AS"
        " (SELECT 1 UNION ALL SELECT id FROM n) SELECT id FROM n"
    ),
    "an index lost": lambda db: db.execute("DROP INDEX chunks_pending"),
    "a time": lambda db: db.execute("UPDATE chunks SET timestamp = 'noon' WHERE seq = 3"),
    "an end": lambda db: db.execute("UPDATE chunks SET valid_until = 'noon' WHERE seq = 3"),
    "a text": lambda db: db.execute(
        "UPDATE chunks SET content = CAST(x'46c3' AS TEXT) WHERE seq = 3"
    ),
    "a version": lambda db: db.pragma("user_version", 0),
    "a model": lambda db: db.execute("INSERT INTO meta VALUES ('embedding_dim', 'x', 'x')"),
    "a schema that nobody understands": lambda db: (
        db.pragma("writable_schema", True),
        db.execute("UPDATE sqlite_schema SET sql = 'CREATE VIEW x AS y' WHERE type = 'trigger'"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_opened_is_saved(open_memory: Open, tmp_path: Path, fault: str) -> None:
    path = filled(open_memory())
    db = apsw.Connection(str(path))
    FAULTS[fault](db)
    db.close()
    done = SALVAGE(path, tmp_path / "new.db")
    assert done["chunks"] == (COUNT + 1, 0)
    new = open_memory(path=tmp_path / "new.db")
    assert sound(new)
    with sqlite_of(new).reader() as db:
        live = 1 if fault != "an end" else 0
        assert list(db.execute("SELECT valid_until IS NULL FROM chunks WHERE seq = 3")) == [(live,)]


def test_nothing_is_written_over(open_memory: Open, tmp_path: Path) -> None:
    path = filled(open_memory())
    (tmp_path / "new.db").write_text("mine")
    with pytest.raises(StoreError, match="is there already"):
        SALVAGE(path, tmp_path / "new.db")
    with pytest.raises(StoreError):
        SALVAGE(tmp_path / "new.db", tmp_path / "newer.db")
    assert (tmp_path / "new.db").read_text() == "mine"
    assert not (tmp_path / "newer.db").exists()
