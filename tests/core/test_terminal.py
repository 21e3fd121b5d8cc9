"""What is printed: nothing that a terminal would obey, and JSON that means the same."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import erase
import export_db
import import_db
import import_memories
import mn
import restore_db
from config import Config
from core.terminal import as_json, shown
from memory import Memory

OBEYED = [
    *map(chr, (*range(9), *range(11, 32), *range(0x7F, 0xA0))),
    *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xD800, 0xDC9B, 0xDFFF)),
]
HOSTILE = "kettle \x1b]0;owned\x07\x1b[2J \x9b31m a\bb\rc \u202eevil\u2066 \x7f\x85"


def harmless(text: str) -> bool:
    return not [sign for sign in OBEYED if sign in text]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory whose texts, names and reasons all try to move the terminal."""
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", "9")
    config = Config.load()
    with Memory(config=config) as memory:
        entity = {"id": "kettle", "summary": HOSTILE}
        memory.remember(HOSTILE, entities=[entity, "attic"])
        memory.relate("kettle", "attic", "stands in", properties={"why": HOSTILE})
        memory.recall("kettle")
    return config.database_path


def ids(database: Path) -> str:
    with Memory(database) as memory:
        return memory.recall("kettle")["hits"][0]["chunk_id"]


@pytest.mark.parametrize("sign", OBEYED, ids=lambda sign: f"{ord(sign):04x}")
def test_each_sign_that_a_terminal_obeys_is_shown_as_text(sign: str) -> None:
    assert shown(f"a{sign}b") == f"a\\u{ord(sign):04x}b"
    assert json.loads(as_json({"text": f"a{sign}b"})) == {"text": f"a{sign}b"}
    assert harmless(as_json({"text": sign}))


def test_what_people_write_is_shown_as_it_is() -> None:
    text = "two\nlines,\ta tab, 北门, naïve, 👩‍👩‍👧, العربية, עברית, \\u001b"
    assert shown(text) == text


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_command_prints_what_a_terminal_obeys(
    options: list[str], database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chunk = ids(database)
    said = []
    for command in (
        *(["recall", "kettle"], ["recall", "kettle", "--explain"], ["show", chunk]),
        *(["show", "kettle"], ["graph", "kettle"], ["history"], ["stats"], ["doctor"]),
        *(["erase", "--chunk", chunk, "--dry-run"], ["forget", chunk, "--reason", "old"]),
    ):
        capsys.readouterr()
        assert mn.main([*command, *options]) in (0, 1)
        printed = capsys.readouterr()
        assert harmless(printed.out + printed.err), command
        said.append(printed.out)
    assert sum("\\u202e" in text for text in said) >= 6
    if options:
        assert json.loads(said[0])["hits"][0]["content"] == HOSTILE


def test_what_is_to_be_erased_is_shown_without_its_power(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert erase.main(["--entity", "kettle", "--with-memories", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert harmless(said)
    assert "\\u001b]0;owned\\u0007" in said


def test_an_export_to_a_terminal_is_harmless_and_says_the_same(
    database: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert export_db.main([]) == 0
    said = capfdbinary.readouterr().out.decode()
    assert harmless(said)
    records = [json.loads(line) for line in said.splitlines()]
    assert HOSTILE in [each["content"] for each in records if each["type"] == "chunk"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files as bytes")
@pytest.mark.parametrize(
    "run",
    [
        lambda path: import_db.main([path]),
        lambda path: import_memories.main(["--from", "markdown", path]),
        lambda path: import_memories.main(["--from", "claude", path]),
        lambda path: restore_db.main([path]),
        lambda path: export_db.main(["--to", path + "/none/there"]),
        lambda path: mn.main(["show", "kettle", "--db", path]),
        lambda path: import_db.main([path, path]),
        lambda path: mn.main(["show", "kettle", "more" + path]),
    ],
)
def test_errors_quote_names_without_their_power(
    run: Callable[[str], int], database: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/a\x1b[2J\x9b\x07")
    Path(path).write_text("\x1b[2J no file of any format")
    with suppress(SystemExit):  # argparse ends so
        assert run(path)
    printed = capfd.readouterr()
    assert "\\u001b" in printed.err
    assert harmless(printed.out + printed.err)
