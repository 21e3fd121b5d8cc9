"""What other programs store, read as memories."""

import io
import json
import os
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, BinaryIO

from core import files, timestamps
from core.errors import InvalidInput
from mnelo_locale import message

HOLDINGS = "holdings-screenshot-ocr"
MNEMOSYNE = "mnemosyne-import"
OWNER = "user"
NAME_LENGTH = 200  # characters of a tag, source or session
MOST_BYTES = 512 << 20  # of a text that is read at once: JSON takes several times as much memory


@dataclass(frozen=True, slots=True)
class Found:
    """A memory to store: where it stands, and remember's arguments."""

    place: str
    item: dict[str, Any]
    closed: str = ""
    """Why it is not live: it is stored and then forgotten, so that its history is there."""
    again: bool = False  # whether it adds to a memory that is there


@dataclass(frozen=True, slots=True)
class Bad:
    """What cannot be imported, and why."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


Reader = Callable[[Path], Iterator[Found | Bad]]


# --- Files -----------------------------------------------------------------------------


def _text(path: Path, *, follow: bool = True) -> str:
    """The text of a regular file, with `follow` also behind a link.

    Raises InvalidInput, which names the file, where it cannot be read.
    """
    try:
        with files.reading(path, follow=follow) as file:
            return _decoded(file, os.fstat(file.fileno()).st_size, path)
    except OSError as error:
        raise InvalidInput("transfer.unreadable", file=path, error=error.strerror) from None


def _decoded(file: IO[bytes], size: int, name: object) -> str:
    """The text that a file holds; its size is what is said of it, so the reading is bounded too."""
    content = b"" if size > MOST_BYTES else file.read(MOST_BYTES + 1)
    if max(size, len(content)) > MOST_BYTES:
        raise InvalidInput("importers.large", file=name, mib=MOST_BYTES >> 20)
    try:
        return io.TextIOWrapper(io.BytesIO(content), "utf-8-sig").read()
    except UnicodeDecodeError:
        raise InvalidInput("importers.not_utf8", file=name) from None


def _json(text: str, file: object) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("importers.not_json", file=file, error=error) from None


def _listed(value: Any, file: object, *names: str) -> list[Any]:
    """A list, or the one that an object has under the first of some names."""
    if isinstance(value, dict):
        value = next((value[name] for name in names if name in value), None)
    if not isinstance(value, list):
        raise InvalidInput("importers.no_list", file=file, names=", ".join(names))
    return value


def _each(records: Iterable[Any], place: str) -> Iterator[tuple[str, dict[str, Any] | Bad]]:
    """Each record with its place, counted from 1; those that are no objects are bad."""
    for number, record in enumerate(records, start=1):
        where = f"{place}[{number}]"
        good = isinstance(record, dict)
        yield where, record if good else Bad(where, message("importers.no_object"))


def _key(value: Any) -> Any:
    """What is looked up by it; a list or an object is the name of nothing."""
    return None if isinstance(value, (list, dict)) else value


def _when(value: Any) -> Any:
    """A time as remember reads it; numbers are seconds or milliseconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value or ""
    try:
        seconds = value / 1000 if abs(value) > 1e11 else value
        return timestamps.stamp(datetime.fromtimestamp(seconds, timezone.utc))
    except (ValueError, OverflowError, OSError):
        return str(value)  # which remember refuses by name


def _label(text: Any) -> str:
    """A text as a tag, source or session: on one line, cut to what these may be long."""
    visible = "".join(char if char.isprintable() else " " for char in str(text))
    return " ".join(visible.split())[:NAME_LENGTH].strip()


def _labels(*texts: Any) -> list[str]:
    """Labels, each once, without empty ones."""
    made = (_label(text) for text in texts if text is not None)
    return list(dict.fromkeys(label for label in made if label))


def _strings(value: Any) -> list[str]:
    """The strings of a list, or of a text with commas."""
    parts = value.split(",") if isinstance(value, str) else value
    return [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []


def _fact(source: Any, relation: Any, target: Any, **more: Any) -> dict[str, Any]:
    """A relation as a memory that says so."""
    edge = {"source_id": source, "target_id": target, "relation": relation, **more}
    said = str(relation).replace("_", " ")
    return {"content": f"{source} {said} {target}", "relations": [edge]}


# --- The official memory server --------------------------------------------------------


def server_memory(path: Path) -> Iterator[Found | Bad]:
    """JSON lines of entities with observations, and of relations."""
    for number, line in enumerate(_text(path).split("\n"), start=1):
        place = f"{path.name}:{number}"
        if not line.strip():
            continue
        try:
            record = _json(line, place)
        except InvalidInput as error:
            yield Bad(place, str(error))
            continue
        kind = record.get("type") if isinstance(record, dict) else None
        if kind == "entity":
            yield from _observed(place, record)
        elif kind == "relation":
            edge = [record.get(name) for name in ("from", "relationType", "to")]
            if all(isinstance(part, str) for part in edge):
                yield Found(place, {"source": "server-memory", **_fact(*edge)})
            else:
                wanted = "from, relationType, to"
                yield Bad(place, message("importers.lacks", names=wanted))
        else:
            yield Bad(place, message("transfer.type", allowed="entity, relation"))


def _observed(place: str, record: dict[str, Any]) -> Iterator[Found | Bad]:
    name, kind = record.get("name"), record.get("entityType")
    observations = record.get("observations", [])
    if not isinstance(name, str) or not isinstance(observations, list):
        yield Bad(place, message("importers.lacks", names="name, observations"))
        return
    entity = {"id": name, "kind": _label(kind)[:64] if kind else None}
    base = {"source": "server-memory", "entities": [entity]}
    if not observations:
        yield Found(place, {**base, "content": f"{name} ({kind})" if kind else name})
    for observation in observations:
        if isinstance(observation, str):
            yield Found(place, {**base, "content": f"{name}: {observation}"})
        else:
            yield Bad(place, message("importers.no_text", name="observations"))


# --- mem0 and mcp-memory-service -------------------------------------------------------


def mem0(path: Path) -> Iterator[Found | Bad]:
    """What get_all returns or an export holds: memories, and of a graph its relations."""
    whole = _json(_text(path), path)
    edges = _own_list(whole, "relations") if isinstance(whole, dict) else []
    for place, record in _each(_listed(whole, path, "results", "memories"), path.name):
        if isinstance(record, Bad):
            yield record
            continue
        people = [("user_id", "user"), ("agent_id", "agent"), ("app_id", "app")]
        metadata = record.get("metadata")
        yield Found(
            place,
            {
                "content": record.get("memory", record.get("text")),
                "source": "mem0",
                "session_id": _label(record.get("run_id") or ""),
                "timestamp": _when(record.get("created_at")),
                "entities": [
                    {"id": record[name], "kind": kind} for name, kind in people if record.get(name)
                ],
                "tags": _labels(*_strings(record.get("categories")), *_scalars(metadata)),
            },
        )
    for place, edge in _each(edges, f"{path.name}: relations"):
        if isinstance(edge, Bad):
            yield edge
            continue
        target = edge.get("target", edge.get("destination"))
        parts = (edge.get("source"), edge.get("relationship"), target)
        if all(isinstance(part, str) for part in parts):
            yield Found(place, {"source": "mem0", **_fact(*parts)})
        else:
            yield Bad(place, message("importers.lacks", names="source, relationship, target"))


def _scalars(metadata: Any) -> list[str]:
    """Free properties as labels `key: value`, as far as they are plain values."""
    if not isinstance(metadata, dict):
        return []
    return [f"{key}: {value}" for key, value in metadata.items() if _is_plain(value)]


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and value != ""


def mcp_memory_service(path: Path) -> Iterator[Found | Bad]:
    """Its JSON export: memories with tags, a type and times."""
    whole = _json(_text(path), path)
    for place, record in _each(_listed(whole, path, "memories"), path.name):
        if isinstance(record, Bad):
            yield record
            continue
        when = record.get("created_at") or record.get("created_at_iso")
        tags = [*_strings(record.get("tags")), record.get("memory_type")]
        yield Found(
            place,
            {
                "content": record.get("content"),
                "source": "mcp-memory-service",
                "timestamp": _when(when),
                "tags": _labels(*tags, *_scalars(record.get("metadata"))),
            },
        )


# --- Markdown --------------------------------------------------------------------------

HEADING = re.compile(r"#{1,6}\s+\S")
FENCE = re.compile(r"\s{0,3}(```|~~~)")
WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]+)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")


def markdown(path: Path) -> Iterator[Found | Bad]:
    """A file or a folder of notes: a memory for each section, links between notes as relations."""
    notes = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    root = path if path.is_dir() else path.parent
    for file in notes:
        name = file.relative_to(root).as_posix()
        if any(part.startswith(".") for part in file.relative_to(root).parts):
            continue
        try:
            yield from _note(_text(file, follow=not path.is_dir()), file.stem, name)
        except InvalidInput as error:
            yield Bad(name, str(error))


def _note(text: str, stem: str, name: str) -> Iterator[Found]:
    front, body, first = _front_matter(text.splitlines())
    base = {
        "source": name[-NAME_LENGTH:],
        "session_id": name[-NAME_LENGTH:],
        "timestamp": next(iter(front.get("date", front.get("created", []))), ""),
        "tags": _labels(*(tag.lstrip("#") for tag in front.get("tags", front.get("tag", [])))),
    }
    note = {"id": stem, "kind": "note", "aliases": _labels(*front.get("aliases", []))}
    for line, text in _sections(body, first):
        targets = dict.fromkeys(link.strip() for link in WIKI_LINK.findall(text))
        linked = [{"id": each.rpartition("/")[2], "kind": "note"} for each in targets]
        edges = [
            {"source_id": note["id"], "target_id": each["id"], "relation": "links_to"}
            for each in linked
            if each["id"] != note["id"]
        ]
        item = {**base, "content": text, "entities": [note, *linked], "relations": edges}
        yield Found(f"{name}:{line}", item)


def _front_matter(lines: list[str]) -> tuple[dict[str, list[str]], list[str], int]:
    """The fields between two lines `---`, the lines behind them, and the number of the first."""
    if not lines or lines[0].strip() != "---" or "---" not in map(str.strip, lines[1:]):
        return {}, lines, 1
    end = next(at for at, line in enumerate(lines) if at and line.strip() == "---")
    fields: dict[str, list[str]] = defaultdict(list)
    key = ""
    for line in lines[1:end]:
        if item := re.fullmatch(r"\s*-\s+(.*)", line):
            fields[key].append(_unquoted(item[1]))
        elif pair := re.fullmatch(r"([\w-]+):\s*(.*)", line):
            key = pair[1].lower()
            parts = pair[2].strip().removeprefix("[").removesuffix("]").split(",")
            fields[key] += filter(None, map(_unquoted, parts))
    return dict(fields), lines[end + 1 :], end + 2


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()


def _sections(lines: Sequence[str], first: int) -> Iterator[tuple[int, str]]:
    """Each heading with what is below it, and its line; a heading with nothing is left out."""
    begin, fenced = 0, False
    starts = []
    for at, line in enumerate(lines):
        fenced ^= bool(FENCE.match(line))
        if not fenced and HEADING.match(line):
            starts.append(at)
    for end in [*starts, len(lines)]:
        section = lines[begin:end]
        below = section[1:] if begin in starts else section
        if any(line.strip() for line in below):
            yield first + begin, "\n".join(section).strip()
        begin = end


# --- Conversations ---------------------------------------------------------------------

PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def claude(path: Path) -> Iterator[Found | Bad]:
    """Claude's data export: each message a memory, each conversation a session."""
    for place, talk in _conversations(path):
        if isinstance(talk, Bad):
            yield talk
            continue
        messages = talk.get("chat_messages")
        if not isinstance(messages, list) or not isinstance(talk.get("uuid"), str):
            yield Bad(place, message("importers.lacks", names="uuid, chat_messages"))
            continue
        for where, each in _each(messages, place):
            if isinstance(each, Bad):
                yield each
            elif text := _claude_text(each):
                role, at = each.get("sender"), each.get("created_at") or talk.get("created_at")
                yield _said("claude", where, talk["uuid"], talk.get("name"), role, at, text)


def _claude_text(said: Mapping[str, Any]) -> str:
    """What a message says; newer exports have it in blocks, and tools beside it."""
    blocks = said.get("content")
    parts = [
        block["text"]
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]
    plain = said.get("text")
    text = "\n\n".join(parts) or (plain if isinstance(plain, str) else "")
    return text if text.strip() else ""


def chatgpt(path: Path) -> Iterator[Found | Bad]:
    """ChatGPT's data export: of each conversation the branch that was shown last."""
    for place, talk in _conversations(path):
        if isinstance(talk, Bad):
            yield talk
            continue
        session = talk.get("conversation_id") or talk.get("id")
        if not isinstance(talk.get("mapping"), dict) or not isinstance(session, str):
            yield Bad(place, message("importers.lacks", names="id, mapping"))
            continue
        for node, each in _branch(talk["mapping"], talk.get("current_node")):
            author = each.get("author")
            role = author.get("role") if isinstance(author, dict) else None
            if role in ("user", "assistant") and (text := _chatgpt_text(each)):
                at = each.get("create_time") or talk.get("create_time")
                where = f"{place}: {node}"
                yield _said("chatgpt", where, session, talk.get("title"), role, at, text)


def _branch(mapping: dict[str, Any], current: Any) -> list[tuple[str, dict[str, Any]]]:
    """The messages that lead to a node, first one first; to the last leaf if it is not there."""
    current = _key(current)
    if current not in mapping:
        nodes = [node for node in mapping.values() if isinstance(node, dict)]
        parents = {_key(node.get("parent")) for node in nodes}
        current = next((each for each in reversed(mapping) if each not in parents), None)
    way: dict[str, dict[str, Any]] = {}
    while isinstance(current, str) and current not in way:
        node = mapping.get(current)
        if not isinstance(node, dict):
            break
        said = node.get("message")
        way[current] = said if isinstance(said, dict) else {}
        current = _key(node.get("parent"))
    return list(reversed(way.items()))


def _chatgpt_text(said: Mapping[str, Any]) -> str:
    """What a message says to the other one: neither what is hidden nor what is for a tool."""
    content, metadata = said.get("content"), said.get("metadata")
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation")
    if hidden or said.get("recipient", "all") != "all" or not isinstance(content, dict):
        return ""
    parts = content.get("parts")
    listed = parts if isinstance(parts, list) else []
    text = "\n".join(part for part in listed if isinstance(part, str))
    return text if text.strip() else ""


def _said(
    source: str, place: str, session: str, title: Any, role: Any, at: Any, text: str
) -> Found:
    item = {
        "content": text,
        "source": source,
        "session_id": session,
        "timestamp": _when(at),
        "tags": _labels(role, title),
    }
    return Found(place, item)


def _conversations(path: Path) -> Iterator[tuple[str, dict[str, Any] | Bad]]:
    """Every conversation of an export: a file, the folder with it, or the archive as it came."""
    for name, text in _conversation_files(path):
        yield from _each(_listed(_json(text, name), name, "conversations"), name)


def _conversation_files(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        found = sorted(path.glob("conversations*.json"))
        if not found:
            raise InvalidInput("importers.no_conversations", file=path)
        for file in found:
            yield file.name, _text(file, follow=False)
        return
    try:
        with files.reading(path) as opened:
            packed = zipfile.is_zipfile(opened)
            if packed:
                yield from _archived(opened, path)
    except OSError as error:
        raise InvalidInput("transfer.unreadable", file=path, error=error.strerror) from None
    if not packed:
        yield path.name, _text(path)


def _archived(file: BinaryIO, path: Path) -> Iterator[tuple[str, str]]:
    """The conversations in an archive, none of which is unpacked where all are too large."""
    wanted = re.compile(r"(?:.*/)?conversations[^/]*\.json")
    try:
        with zipfile.ZipFile(file) as archive:
            members = [each for each in archive.infolist() if wanted.fullmatch(each.filename)]
            if not members:
                raise InvalidInput("importers.no_conversations", file=path)
            if sum(each.file_size for each in members) > MOST_BYTES:
                raise InvalidInput("importers.large", file=path, mib=MOST_BYTES >> 20)
            for member in sorted(members, key=lambda each: each.filename):
                yield member.filename, _unpacked(archive, member, f"{path}: {member.filename}")
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
        raise InvalidInput("importers.archive", file=path, error=error) from None


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> str:
    if member.compress_type not in PACKED:  # others cannot be unpacked bit by bit
        raise zipfile.BadZipFile(f"compression {member.compress_type}")
    with archive.open(member) as opened:
        return _decoded(opened, member.file_size, name)


READERS: Mapping[str, Reader] = {
    "server-memory": server_memory,
    "mem0": mem0,
    "mcp-memory-service": mcp_memory_service,
    "markdown": markdown,
    "claude": claude,
    "chatgpt": chatgpt,
}


# --- Mnemosyne -------------------------------------------------------------------------


def mnemosyne(path: Path) -> Iterator[Found | Bad]:
    """One JSON object with lists: memories, triples, annotations and canonical facts.

    Its embeddings are of another model and are left out.
    """
    whole = _json(_text(path), path)
    if not isinstance(whole, dict) or not {"working_memory", "episodic_memory"} & whole.keys():
        raise InvalidInput("importers.no_list", file=path, names="working_memory, episodic_memory")
    noted: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    yield from _annotations(_own_list(whole, "annotations"), noted)
    for name in ("working_memory", "episodic_memory"):
        for place, each in _each(_own_list(whole, name), name):
            if isinstance(each, Bad):
                yield each
            else:
                yield _recorded(place, name, each, noted.pop(_key(each.get("id")), []))
    for memory_id in noted:
        yield Bad("annotations", message("importers.no_memory", id=memory_id))
    yield from _triples(_own_list(whole, "triples"))
    yield from _canonical(_own_list(whole, "canonical_facts"))


def _annotations(records: Iterable[Any], noted: dict[Any, list[dict[str, Any]]]) -> Iterator[Bad]:
    """Collect what is noted of each memory, as entities."""
    for place, each in _each(records, "annotations"):
        if isinstance(each, Bad):
            yield each
        elif isinstance(each.get("value"), str):
            kind = _label(each.get("kind") or "concept")[:64]
            noted[_key(each.get("memory_id"))].append({"id": each["value"][:256], "kind": kind})
        else:
            yield Bad(place, message("importers.lacks", names="value"))


def _own_list(whole: Mapping[str, Any], name: str) -> list[Any]:
    value = whole.get(name) or []
    return _listed(value, name, name)


def _recorded(
    place: str, name: str, record: Mapping[str, Any], entities: list[dict[str, Any]]
) -> Found:
    item = {
        "content": record.get("content"),
        "source": MNEMOSYNE,
        "session_id": _label(record.get("session_id") or ""),
        "timestamp": _when(record.get("timestamp") or record.get("created_at")),
        "importance": record.get("importance"),
        "entities": entities,
        "tags": _labels(record.get("source"), name.removesuffix("_memory")),
    }
    following = record.get("superseded_by")
    return Found(place, item, f"superseded by {following}"[:500] if following else "")


def _triples(records: Iterable[Any]) -> Iterator[Found | Bad]:
    for place, each in _each(records, "triples"):
        if isinstance(each, Bad):
            yield each
            continue
        parts = [each.get(name) for name in ("subject", "predicate", "object")]
        if not all(isinstance(part, str) for part in parts):
            yield Bad(place, message("importers.lacks", names="subject, predicate, object"))
            continue
        more = {"valid_from": _when(each.get("valid_from")), "weight": each.get("confidence")}
        more["valid_until"] = _when(each.get("valid_until"))
        item = {"source": MNEMOSYNE, "timestamp": more["valid_from"], **_fact(*parts, **more)}
        yield Found(place, item)


def _canonical(records: Sequence[Any]) -> Iterator[Found | Bad]:
    """Facts by name, of which the highest version holds."""
    versions = [each for each in records if isinstance(each, dict)]
    newest = {_key(each.get("name")): each for each in sorted(versions, key=_version)}
    for place, each in _each(records, "canonical_facts"):
        if isinstance(each, Bad):
            yield each
            continue
        holds = newest[_key(each.get("name"))] is each
        entity = {"id": each.get("name"), "kind": "canonical_fact", "summary": each.get("body")}
        item = {
            "content": each.get("body"),
            "source": MNEMOSYNE,
            "timestamp": _when(each.get("valid_from")),
            "entities": [entity if holds else {"id": each.get("name")}],
            "tags": _labels(each.get("category")),
        }
        yield Found(place, item, "" if holds else "a later version holds")


def _version(record: Mapping[str, Any]) -> float:
    version = record.get("version")
    return version if isinstance(version, (int, float)) else 0.0


# --- Holdings --------------------------------------------------------------------------

POSITION = ("quantity", "cost_price", "current_price", "market_value_yuan", "pnl_yuan", "pnl_pct")


def holdings(folder: Path) -> Iterator[Found | Bad]:
    """Every snapshot of stock positions in a folder: files holdings_*.json."""
    for file in sorted(folder.glob("holdings_*.json")):
        try:
            whole = _json(_text(file, follow=False), file)
            positions = _listed(whole, file, "holdings")
            asof = _asof(whole)
        except InvalidInput as error:
            yield Bad(file.name, str(error))
            continue
        good = []
        for place, each in _each(positions, f"{file.name}: holdings"):
            if isinstance(each, Bad):
                yield each
            elif not isinstance(each.get("symbol_code"), (str, int)):
                yield Bad(place, message("importers.lacks", names="symbol_code"))
            else:
                good.append(each)
        if good:
            yield Found(file.name, _snapshot(asof, whole, good))


def _asof(whole: Any) -> str:
    asof = whole.get("asof") if isinstance(whole, dict) else None
    if not isinstance(asof, str) or not asof.strip():
        raise InvalidInput("importers.lacks", names="asof")
    return asof.strip()


def _snapshot(
    asof: str, whole: Mapping[str, Any], positions: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """One memory with a stock and a position for each line; what is not known is left out."""
    lines = [f"Holdings as of {asof}"]
    entities: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    for each in positions:
        code, name = str(each["symbol_code"]), str(each.get("name") or each["symbol_code"])
        known = {key: each[key] for key in (*POSITION, "direction") if each.get(key) is not None}
        said = ", ".join(f"{key} {value}" for key, value in known.items())
        lines.append(f"{name} ({code}): {said}" if said else f"{name} ({code})")
        stock, position = f"stock:{code}", f"holding:{asof}:{code}"
        entities.append({"id": stock, "kind": "stock", "name": name, "aliases": [code]})
        entities.append(
            {"id": position, "kind": "position_snapshot", "properties": {**known, "asof": asof}}
        )
        edges.append({"source_id": OWNER, "target_id": position, "relation": "holds_position"})
        edges.append({"source_id": position, "target_id": stock, "relation": "snapshot_of"})
    for name in ("totals", "correction_notes"):
        if whole.get(name):
            lines.append(f"{name}: {json.dumps(whole[name], ensure_ascii=False, sort_keys=True)}")
    item = {"content": "\n".join(lines), "source": HOLDINGS, "session_id": HOLDINGS}
    moment = _moment(asof)
    return item | {"timestamp": moment, "entities": entities, "relations": edges}


def _moment(text: str) -> str:
    """A time as it is, or nothing where it is written in words."""
    try:
        return timestamps.parse(text, timezone.utc) and text
    except ValueError:
        return ""
