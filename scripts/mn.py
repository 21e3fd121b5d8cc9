"""mnelo's command line: one program, one command for each thing to do.

`mn.py COMMAND --help` says what a command takes and what its exit status means. The commands
of the seven tools ask the running server, and where none runs they work on the file.
"""

import argparse
import inspect
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import _root
from _root import ROOT

sys.path.append(str(ROOT / "api"))  # for the client that asks the server
from access import validation
from access.auth import load_token
from access.running import find_server
from config import Config
from core.errors import MneloError
from core.terminal import as_json, complain, say
from mnelo_client import MneloClient
from mnelo_client import MneloError as Refused
from mnelo_locale import message

Command = Callable[[argparse.Namespace], int]
Ask = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Calls a tool, by its name without memory_, and returns its answer."""

TOOLS = {
    "remember": "remember",
    "recall": "recall",
    "relate": "relate",
    "forget": "forget",
    "update": "update",
    "graph": "graph_query",
    "stats": "stats",
}
"""Commands that are tools, and the tools' names without memory_."""

SCRIPTS = {
    "health": "health_check",
    "backup": "backup_db",
    "restore": "restore_db",
    "export": "export_db",
    "import": "import_db",
    "reembed": "reembed",
    "erase": "erase",
}
"""Commands that are scripts of their own, which take their own arguments."""

MODEL_SECONDS = 10.0  # that a command without a server gives a model to load


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a timer's locale may not know every sign
    if arguments and arguments[0] in SCRIPTS:
        script: Callable[[Sequence[str]], int] = import_module(SCRIPTS[arguments[0]]).main
        return script(arguments[1:])
    try:
        given = _parser().parse_args(arguments)
        command: Command = given.command
        return command(given)
    except (MneloError, Refused) as error:
        complain(error)
        return 2


# --- What can be asked -----------------------------------------------------------------

_Plain = argparse.RawDescriptionHelpFormatter


def _parser() -> argparse.ArgumentParser:
    parser = _root.Parser(prog="mn.py", description=__doc__, formatter_class=_Plain)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, tool in TOOLS.items():
        _add_tool(_add(commands, globals()[name]), _fields(tool))
    _add(commands, show).add_argument("id", help=message("mn.id"))
    asked = _add(commands, history)
    asked.add_argument("--limit", type=int, default=20, help=message("mn.limit"))
    asked.add_argument("--target", help=message("mn.target"))
    asked.add_argument("--action", help=message("mn.action"))
    _add(commands, undo).add_argument("audit_id", type=int, help=message("mn.audit_id"))
    looked = _add(commands, doctor)
    looked.add_argument("--fix", action="store_true", help=message("mn.fix"))
    looked.add_argument("--salvage", metavar="FILE", type=Path, help=message("mn.salvage"))
    for name, script in SCRIPTS.items():
        commands.add_parser(name, help=message("mn.script", script=f"scripts/{script}.py"))
    return parser


def _add(
    commands: "argparse._SubParsersAction[_root.Parser]", command: Command
) -> argparse.ArgumentParser:
    """A command under its function's name; its docstring is the help."""
    about = inspect.getdoc(command) or ""
    first = about.partition("\n")[0]
    parser = commands.add_parser(
        command.__name__, help=first, description=about, formatter_class=_Plain
    )
    parser.add_argument(
        "--db", type=os.path.abspath, help="the database file, instead of the configured one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.set_defaults(command=command)
    return parser


def _fields(tool: str) -> Mapping[str, validation.Argument]:
    """The tool's arguments; of bounds, which the settings may change, nothing is said here."""
    plain = Config(home=Path(), database_path=Path())
    return validation.contract(plain).tools[f"memory_{tool}"].fields


def _add_tool(parser: argparse.ArgumentParser, fields: Mapping[str, validation.Argument]) -> None:
    """The tool's arguments: what it needs by position, the rest as options."""
    for name, argument in fields.items():
        about: dict[str, Any] = {"help": argument.doc.replace("%", "%%")}
        if isinstance(argument.kind, validation.Items):
            about["nargs"] = "+"
        elif isinstance(argument.kind, validation.Flag):
            about["action"] = argparse.BooleanOptionalAction
        flag = name if argument.required else f"--{name.replace('_', '-')}"
        parser.add_argument(flag, **about)


def _given(given: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The tool's arguments that were given; the tool reads an object's JSON itself."""
    found = {name: getattr(given, name) for name in names}
    return {
        name: [_read(each) for each in value] if isinstance(value, list) else value
        for name, value in found.items()
        if value is not None
    }


def _read(item: str) -> Any:
    """One of several: an object as JSON, or a plain text."""
    if item.startswith("{"):
        with suppress(ValueError):  # the tool says what is wrong with it
            return json.loads(item)
    return item


# --- Whom to ask -----------------------------------------------------------------------


@contextmanager
def _asking(given: argparse.Namespace) -> Iterator[Ask]:
    """The server, if one serves this file, else the file itself."""
    config = Config.load(database_path=given.db)
    server = find_server(config)
    if server.state == "ours":
        with MneloClient(f"{server.url}/mcp", load_token(config, None, os.environ)) as client:
            yield lambda tool, arguments: client.call(f"memory_{tool}", arguments)
        return
    with _opened(given, warm_up_embedder=None) as memory:
        memory.wait_for_model(MODEL_SECONDS)
        yield lambda tool, arguments: getattr(memory, tool)(**arguments)


@contextmanager
def _opened(given: argparse.Namespace, warm_up_embedder: bool | None = False) -> Iterator[Any]:
    """The file itself, which may be open in a server at the same time."""
    from memory import CLIENT, Memory

    CLIENT.set("mn")
    config = Config.load(database_path=given.db, warm_up_embedder=warm_up_embedder)
    with Memory(config=config) as memory:
        yield memory


def _call(given: argparse.Namespace, lines: Callable[[Mapping[str, Any]], Iterator[str]]) -> int:
    """Ask the command's tool and print its answer."""
    tool = TOOLS[given.command.__name__]
    with _asking(given) as ask:
        answer = ask(tool, _given(given, _fields(tool)))
    _print(given, answer, lines)
    return 0


def _print(
    given: argparse.Namespace,
    answer: Mapping[str, Any],
    lines: Callable[[Mapping[str, Any]], Iterator[str]],
) -> None:
    if given.json:
        say(as_json(answer))
        return
    for line in lines(answer):
        say(line)
    if notice := answer.get("notice"):
        say(f"⚠️ {notice}")


def _lines(answer: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Each key and its value; an object's own keys stand below it."""
    for key, value in answer.items():
        if key == "notice":
            continue
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        else:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"{indent}{key}: {shown}"


# --- The commands ----------------------------------------------------------------------


def remember(given: argparse.Namespace) -> int:
    """Store one fact.

    --entities takes ids, or objects as JSON; --relations objects as JSON.
    Exit status: 0 stored, or there already; 2 refused, with the reason.
    """
    return _call(given, _lines)


def recall(given: argparse.Namespace) -> int:
    """Search by meaning, words, names and relations at once; best first.

    --filters takes an object as JSON, such as '{"source": "travel"}'.
    Exit status: 0, also when nothing is found; 2 refused, with the reason.
    """
    return _call(given, _hits)


def _hits(answer: Mapping[str, Any]) -> Iterator[str]:
    for rank, hit in enumerate(answer["hits"], 1):
        yield f"{rank}. {hit['content']}"
        about = [hit["timestamp"][:10], hit["source"], hit["chunk_id"], *hit["lanes"]]
        yield f"   {' · '.join(str(each) for each in about if each)}"
        yield from _caution(hit, "   ")
    if not answer["hits"]:
        yield message("mn.nothing")


def _caution(shown: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    if caution := shown.get("caution"):
        yield f"{indent}⚠️ {caution}"


def relate(given: argparse.Namespace) -> int:
    """Say how two entities are related, and since when.

    --properties takes an object as JSON.
    Exit status: 0 done, or so already; 2 refused, with the reason.
    """
    return _call(given, _lines)


def forget(given: argparse.Namespace) -> int:
    """Close a memory, an entity or a relation; its history stays, and undo opens it again.

    Exit status: 0 closed, or closed already; 2 there is nothing of that name.
    """
    return _call(given, _lines)


def update(given: argparse.Namespace) -> int:
    """Replace a memory by a newer version; its history stays.

    Exit status: 0 done; 2 refused, with the reason.
    """
    return _call(given, _lines)


def graph(given: argparse.Namespace) -> int:
    """What an entity is tied to, along its relations both ways.

    Exit status: 0 found; 2 there is no such entity, with near names.
    """
    return _call(given, _ties)


def _ties(answer: Mapping[str, Any]) -> Iterator[str]:
    for node in answer["nodes"]:
        said = f": {node['summary']}" if node.get("summary") else ""
        yield f"{'  ' * node['hops']}{node['id']} ({node['kind']}){said}"
        yield from _caution(node, "  " * node["hops"])
    for edge in answer["edges"]:
        yield f"{edge['source_id']} -[{edge['relation']} {edge['weight']:g}]-> {edge['target_id']}"
        yield from _caution(edge)
    if answer["truncated"]:
        yield message("mn.truncated", shown=len(answer["nodes"]), total=answer["total_nodes"])


def stats(given: argparse.Namespace) -> int:
    """How much is stored, and which ways to search work.

    Exit status: 0.
    """
    return _call(given, _lines)


def show(given: argparse.Namespace) -> int:
    """All that is known of one memory, of whatever version, or of one entity.

    Exit status: 0 found; 2 there is nothing of that name.
    """
    with _opened(given) as memory:
        is_chunk = given.id.strip().startswith("chunk_")
        found = memory.show_chunk(given.id) if is_chunk else memory.show_entity(given.id)
    _print(given, found, _lines)
    return 0


def history(given: argparse.Namespace) -> int:
    """What was done, newest first, each with the number that undo takes.

    Exit status: 0.
    """
    with _opened(given) as memory:
        records = memory.history(given.limit, target=given.target, action=given.action)
    _print(given, {"records": records}, _records)
    return 0


def _records(answer: Mapping[str, Any]) -> Iterator[str]:
    for each in answer["records"]:
        done = [each["at"], each["client"], each["action"], each["kind"], each["target"]]
        reason = f" ({each['reason']})" if each["reason"] else ""
        yield f"{each['audit_id']:>7}  {'  '.join(done)}{reason}"
    if not answer["records"]:
        yield message("mn.nothing")


def undo(given: argparse.Namespace) -> int:
    """Put everything back as it was before a forget, an update, a relate or a merge.

    Exit status: 0 done; 2 refused, with the reason, and nothing was changed.
    """
    with _opened(given) as memory:
        done = memory.undo(given.audit_id)
    _print(given, done, _lines)
    return 0


def doctor(given: argparse.Namespace) -> int:
    """Look for whatever is wrong with file, model, settings, permissions, service and port.

    With --fix it mends what can be mended safely, and says so: permissions, indexes, vectors,
    rows that belong to nothing. No memory is ever deleted. With --salvage it only writes what can
    be read of a damaged file into a new one, and says how much that is.

    Exit status: 0 nothing is wrong (any more); 1 something is, each with what to do about it;
    2 the file cannot be used.
    """
    from admin import doctor as doctors

    config, broken = doctors.settings(given.db)
    if given.salvage:
        for line in doctors.salvaged(config, given.salvage):
            say(line)
        return 0
    found = doctors.examine(config, broken, fix=given.fix)
    if given.json:
        say(as_json(found.as_json()))
        return found.exit_status
    for sentence in found.mended:
        say(f"🔧 {sentence}")
    for each in found.findings:
        mark = "🔴" if each.severity == "error" else "⚠️"
        where = "" if each.where in each.what else f"{each.where}: "
        say(f"{mark} {where}{each.what} → {each.fix}")
    say(message("doctor.found" if found.findings else "doctor.sound", count=len(found.findings)))
    return found.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
