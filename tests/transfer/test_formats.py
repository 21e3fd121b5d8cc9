"""What other programs store may be anything: what is wrong is named, nothing hangs or bursts."""

import copy
import io
import json
import os
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import import_db
import import_memories
from config import Config
from core.errors import InvalidInput
from irregular import IRREGULAR, dead_link, folder, link, pipe
from transfer import formats, importers
from transfer.formats import READERS, Bad, Found, Reader

ALL: dict[str, Reader] = {**READERS, "mnemosyne": formats.mnemosyne}
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="neither pipes nor devices")

NODES: dict[str, Any] = {
    "a": {"parent": None, "message": None},
    "b": {
        "parent": "a",
        "message": {
            "author": {"role": "user"},
            "create_time": 1.7e9,
            "content": {"content_type": "text", "parts": ["hello"]},
            "metadata": {"is_visually_hidden_from_conversation": False},
            "recipient": "all",
        },
    },
}
TALK = {"conversation_id": "s", "title": "t", "mapping": NODES, "current_node": "b"}
GOOD: dict[str, Any] = {
    "server-memory": {"type": "entity", "name": "n", "entityType": "k", "observations": ["o"]},
    "mem0": {
        "results": [
            {
                "memory": "m",
                "user_id": "u",
                "run_id": "r",
                "created_at": "2026-01-01",
                "categories": ["c"],
                "metadata": {"k": "v"},
            }
        ],
        "relations": [{"source": "a", "relationship": "r", "target": "b"}],
    },
    "mcp-memory-service": {
        "memories": [
            {"content": "c", "tags": ["t"], "memory_type": "m", "created_at": 1.7e9, "metadata": {}}
        ]
    },
    "claude": [
        {
            "uuid": "u",
            "name": "n",
            "chat_messages": [
                {
                    "sender": "human",
                    "created_at": "2026-01-01T00:00:00Z",
                    "content": [{"type": "text", "text": "hi"}],
                    "text": "hi",
                }
            ],
        }
    ],
    "chatgpt": [TALK],
    "mnemosyne": {
        "working_memory": [{"id": 1, "content": "c", "superseded_by": None, "importance": 0.5}],
        "episodic_memory": [{"id": "e", "content": "d", "session_id": "s", "timestamp": 1.7e9}],
        "annotations": [{"memory_id": 1, "kind": "k", "value": "v"}],
        "triples": [{"subject": "s", "predicate": "p", "object": "o", "confidence": 0.5}],
        "canonical_facts": [{"name": "n", "body": "b", "version": 1, "category": "c"}],
    },
    "holdings": {
        "asof": "2026-01-01",
        "holdings": [{"symbol_code": "600089", "name": "n", "quantity": 1}],
        "totals": {"a": 1},
    },
}
HOSTILE: list[Any] = [
    *(None, True, 0, -1, 10**400, 1e308, float("nan"), float("inf"), "", "x" * 300, "\ud800"),
    *([], ["x"], [[]], [None], {}, {"x": []}, {"parent": "a"}, [{}], 5, "\x1b[2J"),
]


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value in another, itself first."""
    yield way
    inner = isinstance(value, (dict, list))
    for key in list(value if isinstance(value, dict) else range(len(value))) if inner else ():
        yield from places(value[key], (*way, key))


def replaced(whole: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    whole = copy.deepcopy(whole)
    inner = whole
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return whole


@pytest.mark.parametrize("name", GOOD)
def test_any_shape_in_any_place_is_a_record_or_a_line_that_says_what_is_wrong(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / ("holdings_1.json" if name == "holdings" else "given.json")
    reader, given = (formats.holdings, tmp_path) if name == "holdings" else (ALL[name], file)
    config = Config.load(database_path=str(tmp_path / "none.db"), embedder_model="none")
    for way in places(GOOD[name]):
        for value in HOSTILE:
            file.write_text(json.dumps(replaced(GOOD[name], way, value)))
            said: list[object] = []
            try:
                found = list(reader(given))
                said += importers.import_records(found, config, dry_run=True).bad
            except InvalidInput as error:
                said.append(error)
            assert not [each for each in said if "\n" in str(each)]
    file.write_text(json.dumps(GOOD[name]))
    assert not any(isinstance(each, Bad) for each in reader(given))


@pytest.mark.parametrize("key", ["current_node", "parent"])
@pytest.mark.parametrize("value", [["a"], {"a": 1}])
def test_one_malformed_conversation_does_not_keep_the_others_out(
    key: str, value: Any, tmp_path: Path
) -> None:
    broken = copy.deepcopy(TALK)
    (broken if key == "current_node" else broken["mapping"]["b"])[key] = value  # type: ignore[index]
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([broken, TALK]))
    said = [each for each in formats.chatgpt(file) if isinstance(each, Found)]
    assert [each.item["content"] for each in said] == ["hello", "hello"]


# --- Files that are none ---------------------------------------------------------------


@posix_only
@pytest.mark.parametrize("irregular", IRREGULAR)
def test_no_note_is_read_that_is_no_regular_file_of_the_folder(
    irregular: Callable[[Path], None], tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "good.md").write_text("a good note")
    irregular(tmp_path / "outside.md")
    (notes / "out.md").symlink_to(tmp_path / "outside.md")
    irregular(notes / "in.md")
    found = list(formats.markdown(notes))
    good = [each.item["content"] for each in found if isinstance(each, Found)]
    assert good == ["a good note"]
    bad = sorted(each.place for each in found if isinstance(each, Bad))
    assert bad == ["in.md", "out.md"]


@posix_only
def test_a_folder_that_is_linked_is_not_entered(tmp_path: Path) -> None:
    notes, outside = tmp_path / "notes", tmp_path / "outside"
    notes.mkdir()
    outside.mkdir()
    (outside / "secret.md").write_text("a secret")
    (notes / "sub").symlink_to(outside)
    assert list(formats.markdown(notes)) == []


@posix_only
@pytest.mark.parametrize("irregular", [link, dead_link, pipe, folder])
@pytest.mark.parametrize(
    ("reader", "name"),
    [
        (formats.claude, "conversations.json"),
        (formats.chatgpt, "conversations-1.json"),
        (formats.holdings, "holdings_1.json"),
    ],
)
def test_a_folder_of_an_export_has_regular_files_only(
    reader: Reader, name: str, irregular: Callable[[Path], None], tmp_path: Path
) -> None:
    irregular(tmp_path / name)
    try:
        said = " ".join(map(str, reader(tmp_path)))
    except InvalidInput as error:
        said = str(error)
    assert "not a regular file" in said


@posix_only
@pytest.mark.parametrize("name", [*ALL, "export"])
def test_a_pipe_or_an_endless_file_is_refused_and_hangs_nobody(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for given in (str(tmp_path / "pipe"), "/dev/zero"):
        if name == "export":
            assert import_db.main([given]) == 1
            assert "not a regular file" in capsys.readouterr().err
        else:
            try:
                said = " ".join(map(str, ALL[name](Path(given))))
            except InvalidInput as error:
                said = str(error)
            assert "not a regular file" in said


# --- Files that are too much -----------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ALL if name != "markdown"])
def test_a_file_is_not_read_where_it_is_too_large(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "MOST_BYTES", 1 << 20)
    file = tmp_path / "large.json"
    file.touch()
    os.truncate(file, (1 << 20) + 1)
    with pytest.raises(InvalidInput, match="more than 1 MiB"):
        list(ALL[name](file))


class Growing(io.BytesIO):
    """A file that has no end, whatever is said of its size."""

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size >= 0, "all of it was asked for"
        return b" " * size


@posix_only
def test_a_file_that_goes_on_behind_its_size_is_read_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "MOST_BYTES", 1 << 20)
    file = tmp_path / "growing.json"
    file.touch()
    growing, small = Growing(), file.open("rb")
    monkeypatch.setattr(growing, "fileno", small.fileno, raising=False)
    monkeypatch.setattr("core.files.reading", lambda *given, **more: growing)
    with small, pytest.raises(InvalidInput, match="more than 1 MiB"):
        list(formats.mem0(file))


def archive(path: Path, *texts: str, packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as out:
        for number, text in enumerate(texts):
            out.writestr(f"conversations-{number}.json", text)
    return path


def test_an_archive_is_not_unpacked_where_its_files_are_together_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = archive(tmp_path / "bomb.zip", *[" " * (1 << 19)] * 3)
    monkeypatch.setattr(formats, "MOST_BYTES", 1 << 20)
    opened: list[object] = []
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *given: opened.append(given))
    with pytest.raises(InvalidInput, match="more than 1 MiB"):
        list(formats.chatgpt(bomb))
    assert opened == []


def test_an_archive_that_lies_about_its_size_is_not_unpacked_further(tmp_path: Path) -> None:
    file = archive(tmp_path / "lies.zip", " " * (1 << 20))
    content = file.read_bytes()
    real, said = struct.pack("<L", 1 << 20), struct.pack("<L", 10)
    assert content.count(real) == 2
    file.write_bytes(content.replace(real, said))
    with pytest.raises(InvalidInput, match="cannot be unpacked"):
        list(formats.chatgpt(file))


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_that_can_only_be_unpacked_whole_is_refused(
    packing: int, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="cannot be unpacked"):
        list(formats.chatgpt(archive(tmp_path / "x.zip", "[]", packing=packing)))


def test_a_damaged_archive_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    whole = archive(tmp_path / "x.zip", json.dumps([TALK] * 30)).read_bytes()
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        (tmp_path / "x.zip").write_bytes(damaged)
        import_memories.main(["--from", "chatgpt", str(tmp_path / "x.zip"), "--dry-run"])
        assert capsys.readouterr().err.count("\n") <= 1
