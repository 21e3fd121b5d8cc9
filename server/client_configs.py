"""What to paste into a client's settings, so that it finds the memory."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from access import address
from access.auth import VARIABLES, load_token
from config import ROOT, Config
from mnelo_locale import message

VARIABLE = VARIABLES[0]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server is reached, and how a client that only starts programs gets there."""

    url: str
    token: bool
    command: Sequence[str]
    env: Mapping[str, str]

    def header(self, variable: str) -> dict[str, Any]:
        """The header with the token, for a client that writes a variable this way."""
        return {"headers": {"Authorization": f"Bearer {variable}"}} if self.token else {}


def run(given: Namespace, config: Config) -> int:
    """Print the snippet of a client, or of all of them as a page of Markdown."""
    place = _place(given, config)
    if given.print_config == "all":
        print(page(place))
    else:
        client = CLIENTS[given.print_config]
        print(client.heading(), file=sys.stderr)
        print(client.snippet(place))
    if place.token:
        print(message("clients.token", variable=VARIABLE), file=sys.stderr)
    return 0


def page(place: Place) -> str:
    """Every client's snippet under a line that says where it goes."""
    return "\n\n".join(
        f"{each.heading()}\n\n```{each.language}\n{each.snippet(place)}\n```"
        for each in CLIENTS.values()
    )


def _place(given: Namespace, config: Config) -> Place:
    """The command names what its program would not find by itself: a client has its own env."""
    home = {} if config.home == Config.load({}).home else {"MNELO_HOME": str(config.home)}
    bare = Config.load(home)
    command = [sys.executable, str(ROOT / "mcp_server.py"), "--transport", "stdio"]
    flags = {"--host": "server_host", "--port": "server_port", "--db": "database_path"}
    for flag, name in flags.items():
        if (wanted := getattr(config, name)) != getattr(bare, name):
            command += [flag, str(wanted.absolute() if flag == "--db" else wanted)]
    token = load_token(config, given.auth_token_file, os.environ)
    env = dict(home)
    if given.auth_token_file:
        command += ["--auth-token-file", str(given.auth_token_file.expanduser().absolute())]
    elif token and token != load_token(bare, None, {}):
        env[VARIABLE] = token
    url = address.url(address.reachable(config.server_host), config.server_port)
    return Place(url, bool(token), command, env)


# --- The clients -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    file: str  # where the snippet goes; nowhere if it is a command
    language: str
    snippet: Callable[[Place], str]

    def heading(self) -> str:
        if not self.file:
            return message("clients.command", client=self.name)
        return message("clients.file", client=self.name, file=self.file)


def _json(table: Mapping[str, Any]) -> str:
    return json.dumps(table, indent=2, ensure_ascii=False)


def _servers(settings: Mapping[str, Any]) -> str:
    return _json({"mcpServers": {"mnelo": settings}})


def _claude_code(place: Place) -> str:
    added = f"claude mcp add --scope user --transport http mnelo {place.url}/mcp"
    header = f' --header "Authorization: Bearer ${{{VARIABLE}}}"'
    return added + (header if place.token else "")


def _claude_desktop(place: Place) -> str:
    program, *arguments = place.command
    env = {"env": dict(place.env)} if place.env else {}
    return _servers({"command": program, "args": arguments} | env)


def _remote(key: str, variable: str) -> Callable[[Place], str]:
    """For a client that wants the URL under this key, and writes the token's variable this way."""
    return lambda place: _servers({key: f"{place.url}/mcp"} | place.header(variable))


def _vscode(place: Place) -> str:
    server = {"type": "http", "url": f"{place.url}/mcp"} | place.header("${input:mnelo}")
    ask = {"type": "promptString", "id": "mnelo", "description": VARIABLE, "password": True}
    return _json({"servers": {"mnelo": server}} | ({"inputs": [ask]} if place.token else {}))


def _codex(place: Place) -> str:
    token = f'\nbearer_token_env_var = "{VARIABLE}"' if place.token else ""
    return f'[mcp_servers.mnelo]\nurl = "{place.url}/mcp"{token}'


def _hermes(place: Place) -> str:
    lines = ["mcp_servers:", "  mnelo:", f"    url: {place.url}/sse", "    transport: sse"]
    if place.token:
        lines += ["    headers:", f'      Authorization: "Bearer ${{{VARIABLE}}}"']
    return "\n".join(lines)


ENV = f"${{env:{VARIABLE}}}"

CLIENTS = {
    "claude-code": Client("Claude Code", "", "bash", _claude_code),
    "claude-desktop": Client(
        "Claude Desktop", "claude_desktop_config.json", "json", _claude_desktop
    ),
    "cursor": Client("Cursor", "~/.cursor/mcp.json", "json", _remote("url", ENV)),
    "vscode": Client("VS Code", ".vscode/mcp.json", "json", _vscode),
    "codex": Client("Codex", "~/.codex/config.toml", "toml", _codex),
    "gemini": Client(
        "Gemini CLI", "~/.gemini/settings.json", "json", _remote("httpUrl", f"${{{VARIABLE}}}")
    ),
    "windsurf": Client(
        "Windsurf", "~/.codeium/windsurf/mcp_config.json", "json", _remote("serverUrl", ENV)
    ),
    "hermes": Client("Hermes", "~/.hermes/config.yaml", "yaml", _hermes),
}
