"""The command line: each command through a server, and on the file where none runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mn
from config import Config
from memory import Memory
from serving import serving


@pytest.fixture(params=["file", "server"])
def home(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A home whose memory is asked for directly, or through its server."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("MNELO_HOME", str(home))
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    if request.param == "file":
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", "9")
        yield home
        return
    with serving(home) as served:
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(served.port))
        yield home


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command answers, as JSON."""
    capsys.readouterr()
    assert mn.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_memory_is_stored_found_replaced_forgotten_and_brought_back(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entities = ["Riga", '{"id": "depot", "kind": "place"}']
    text = "the depot in Riga opens on Mondays"
    stored = ask(capsys, "remember", text, "--entities", *entities, "--tags", "a", "b")
    assert stored["entities"] == ["Riga", "depot"]
    (hit, *_) = ask(capsys, "recall", "depot", "--top-k", "3", "--filters", '{"tag": "b"}')["hits"]
    assert hit["content"] == text
    assert "explain" in ask(capsys, "recall", "depot", "--explain")["hits"][0]
    newer = ask(capsys, "update", stored["chunk_id"], "--new-content", f"{text} at nine")
    assert ask(capsys, "show", newer["new_chunk_id"])["content"] == f"{text} at nine"
    assert ask(capsys, "forget", newer["new_chunk_id"])["forgotten"] == 1
    assert ask(capsys, "recall", "nine")["hits"] == []
    (last, *_) = ask(capsys, "history", "--action", "forget")["records"]
    assert last["target"] == newer["new_chunk_id"]
    ask(capsys, "undo", str(last["audit_id"]))
    assert ask(capsys, "recall", "nine")["hits"][0]["chunk_id"] == newer["new_chunk_id"]


def test_entities_are_tied_together_and_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(capsys, "relate", "北门", "Riga", "leads to", "--weight", "0.5")
    found = ask(capsys, "graph", "riga", "--max-hops", "1")
    assert [node["id"] for node in found["nodes"]] == ["Riga", "北门"]
    assert ask(capsys, "show", "北门")["relations"][0]["relation"] == "leads to"
    assert ask(capsys, "stats")["relations"]["active"] == 1


def test_answers_are_readable(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mn.main(["remember", "北门的钥匙在老王那里", "--source", "notes"]) == 0
    assert "status: stored" in capsys.readouterr().out
    assert mn.main(["recall", "钥匙"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1. 北门的钥匙在老王那里\n   ")
    assert "notes" in said
    assert "Vectors are off" in said
    assert mn.main(["relate", "a", "b", "knows"]) == 0
    capsys.readouterr()
    assert mn.main(["graph", "a"]) == 0
    assert "a -[knows 1]-> b" in capsys.readouterr().out
    assert mn.main(["history", "--limit", "1"]) == 0
    assert "relate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["recall", "x y", "--top-k", "0"], "top_k must be a whole number from 1 to 100"),
        (["forget", "chunk_of_nobody"], "chunk_of_nobody"),
        (["graph", "nobody"], "There is no entity nobody"),
        (["undo", "77"], "77"),
        (["remember", "x", "--relations", "{"], "relations"),
    ],
)
def test_what_is_refused_is_one_line_and_status_2(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert mn.main(arguments) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.count("\n") == 1
    assert not said.out


def test_another_file_is_not_asked_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    (tmp_path / "home").mkdir(exist_ok=True)
    with serving(tmp_path / "home") as served:
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(served.port))
        ask(capsys, "remember", "the other", "--db", str(tmp_path / "other.db"))
        assert ask(capsys, "recall", "other")["hits"] == []
    with Memory(config=Config.load(database_path=str(tmp_path / "other.db"))) as memory:
        assert memory.stats()["chunks"]["active"] == 1


def test_a_server_that_wants_a_token_gets_the_one_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    monkeypatch.setenv("MNELO_AUTH_TOKEN", "a-token-of-the-tests")
    with serving(tmp_path / "home", MNELO_AUTH_TOKEN="a-token-of-the-tests") as served:  # noqa: S106
        monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", str(served.port))
        assert ask(capsys, "stats")["upkeep"]


@pytest.mark.parametrize("script", mn.SCRIPTS)
def test_a_script_is_a_command_with_its_own_help(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        mn.main([script, "--help"])
    assert ended.value.code == 0
    assert f"{mn.SCRIPTS[script]}.py" in capsys.readouterr().out


def test_every_command_has_help_that_names_its_exit_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in (*mn.TOOLS, "show", "history", "undo", "doctor"):
        with pytest.raises(SystemExit) as ended:
            mn.main([command, "--help"])
        assert ended.value.code == 0
        assert "Exit status: 0" in capsys.readouterr().out


def test_help_needs_no_settings_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text("[server]\nport = 'none'\n")
    monkeypatch.setenv("MNELO_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        mn.main(["--help"])
    assert ended.value.code == 0
    assert mn.main(["recall", "x"]) == 2
    assert "server.port" in capsys.readouterr().err
