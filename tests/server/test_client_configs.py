"""What is printed for a client's settings: readable by the client, true, and in README."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mcp_server
from config import ROOT
from server import client_configs
from server.client_configs import CLIENTS, Place
from serving import SERVER, environment, serving

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOKEN = "s3cret-of-the-tests"  # noqa: S105
Shown = Callable[..., str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """What the command prints for a client; the rest of its arguments follow."""

    def show(client: str, *arguments: str) -> str:
        assert mcp_server.main(["--print-config", client, *arguments]) == 0
        return capsys.readouterr().out

    return show


def entry(text: str) -> dict[str, Any]:
    """What the settings of a client say about mnelo."""
    (servers,) = (
        table for key, table in json.loads(text).items() if key in ("mcpServers", "servers")
    )
    return dict(servers["mnelo"])


# --- Without a token -------------------------------------------------------------------


def test_each_client_gets_the_url_under_the_key_that_it_reads(shown: Shown) -> None:
    url = "http://127.0.0.1:8086/mcp"

    assert entry(shown("cursor")) == {"url": url}
    assert entry(shown("vscode")) == {"type": "http", "url": url}
    assert entry(shown("gemini")) == {"httpUrl": url}
    assert entry(shown("windsurf")) == {"serverUrl": url}
    assert tomllib.loads(shown("codex")) == {"mcp_servers": {"mnelo": {"url": url}}}
    assert shown("hermes").splitlines() == [
        *("mcp_servers:", "  mnelo:", "    url: http://127.0.0.1:8086/sse", "    transport: sse")
    ]
    assert shown("claude-code") == (f"claude mcp add --scope user --transport http mnelo {url}\n")


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "claude-desktop"])
def test_the_url_is_that_of_the_configured_host_and_port(
    shown: Shown, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "http://localhost:9191/" in shown(client, "--host", "localhost", "--port", "9191")
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", "9292")
    assert "http://[::1]:9292/" in shown(client, "--host", "::")


def test_only_the_snippet_is_on_stdout_and_where_it_goes_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mcp_server.main(["--print-config", "cursor"])

    printed = capsys.readouterr()
    assert json.loads(printed.out)
    assert printed.err == "Cursor, in `~/.cursor/mcp.json`:\n"


# --- With a token ----------------------------------------------------------------------


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNELO_AUTH_TOKEN", TOKEN)


@pytest.mark.usefixtures("guarded")
def test_each_client_gets_the_token_as_it_reads_variables(shown: Shown) -> None:
    def header(client: str) -> str:
        (name, value), *more = entry(shown(client))["headers"].items()
        assert (name, more) == ("Authorization", [])
        return str(value)

    assert header("cursor") == header("windsurf") == "Bearer ${env:MNELO_AUTH_TOKEN}"
    assert header("gemini") == "Bearer ${MNELO_AUTH_TOKEN}"
    assert header("vscode") == "Bearer ${input:mnelo}"
    assert json.loads(shown("vscode"))["inputs"][0]["password"] is True
    codex = tomllib.loads(shown("codex"))["mcp_servers"]["mnelo"]
    assert set(codex.items()) >= {("bearer_token_env_var", "MNELO_AUTH_TOKEN")}
    assert '      Authorization: "Bearer ${MNELO_AUTH_TOKEN}"' in shown("hermes").splitlines()
    assert '--header "Authorization: Bearer ${MNELO_AUTH_TOKEN}"' in shown("claude-code")


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "claude-desktop"])
def test_the_token_itself_is_not_printed_where_the_client_can_look_it_up(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mcp_server.main(["--print-config", client])

    printed = capsys.readouterr()
    assert TOKEN not in printed.out + printed.err
    assert "MNELO_AUTH_TOKEN" in printed.err


# --- Claude Desktop --------------------------------------------------------------------


def test_claude_desktop_starts_this_program_by_absolute_paths(shown: Shown) -> None:
    server = entry(shown("claude-desktop"))

    assert server["command"] == sys.executable
    assert server["args"][:3] == [str(ROOT / "mcp_server.py"), "--transport", "stdio"]


def test_claude_desktop_is_told_nothing_that_its_program_finds_by_itself(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MNELO_HOME")
    file = tmp_path / ".config/mnelo/auth_token"
    file.parent.mkdir(parents=True)
    file.write_text(TOKEN)
    file.chmod(0o600)

    server = entry(shown("claude-desktop"))

    assert server["args"][3:] == []
    assert "env" not in server


def test_claude_desktop_is_told_all_that_differs(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MNELO_AUTH_TOKEN", TOKEN)
    monkeypatch.setenv("MNELO_MEMORY_SERVER_PORT", "9393")

    server = entry(shown("claude-desktop", "--db", "other.db"))

    assert server["args"][3:] == ["--port", "9393", "--db", str(Path("other.db").absolute())]
    assert server["env"] == {"MNELO_HOME": str(tmp_path / "home"), "MNELO_AUTH_TOKEN": TOKEN}


def test_the_command_for_claude_desktop_reaches_the_server(tmp_path: Path) -> None:
    """A client starts it with its own environment, in which none of ours is."""
    with serving(tmp_path, MNELO_AUTH_TOKEN=TOKEN) as server:
        printed = subprocess.run(
            [sys.executable, *SERVER, "--print-config", "claude-desktop"],
            env=environment(
                tmp_path,
                {"MNELO_AUTH_TOKEN": TOKEN, "MNELO_MEMORY_SERVER_PORT": str(server.port)},
            ),
            capture_output=True,
            check=True,
            timeout=20,
        )
        said = entry(printed.stdout.decode())
        answered = subprocess.run(
            [said["command"], *said["args"]],
            env=said["env"],
            input=b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
            capture_output=True,
            check=True,
            timeout=20,
        )
        assert server.health(TOKEN)["pid"] == server.process.pid

    assert len(json.loads(answered.stdout)["result"]["tools"]) == 7


# --- README ----------------------------------------------------------------------------


@pytest.mark.parametrize(("file", "language"), [("README.md", "en"), ("README.zh.md", "zh")])
def test_the_readme_shows_what_is_printed(
    file: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", language)
    anywhere = Path("/path/to/mnelo")
    command = (f"{anywhere}/.venv/bin/python", f"{anywhere}/mcp_server.py", "--transport", "stdio")
    place = Place("http://127.0.0.1:8086", token=False, command=command, env={})

    readme = (ROOT / file).read_text("utf-8")

    assert client_configs.page(place) in readme
    assert all(f"`{name}`" in readme for name in (*CLIENTS, "all"))


def test_all_is_every_client_under_a_line_that_says_where_it_goes(shown: Shown) -> None:
    page = shown("all")

    for name, client in CLIENTS.items():
        assert client.heading() in page
        assert shown(name) in page
