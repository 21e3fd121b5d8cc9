"""What each tool accepts: one table that yields the JSON schemas and does the checking.

A kind knows its schema and reads a value: it returns what Memory works with or raises
InvalidInput, one line that names the argument and what is allowed. Harmless spellings are
understood (null or "" for "not given", "5" for 5, a JSON string for a list or an object);
everything else is refused, and nothing is clamped in silence.
"""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, Protocol

from config import Config
from core import timestamps
from core.errors import InvalidInput
from mnelo_locale import message

Schema = dict[str, Any]

STRATEGIES = ("rrf", "vector_only", "graph_only", "meta_only", "entity_only", "cue_only")
MAX_BATCH = 10_000
MAX_NAMES = 500  # of all entities of one call: each is looked for in the texts that are there
TARGETS = ("chunk", "entity", "relation")
CONTROLS = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))  # categories of control characters


class Kind(Protocol):
    """One kind of value; in JSON a text, unless it says otherwise."""

    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, name: str, value: Any) -> Any:
        """The checked value of the argument `name`; InvalidInput where it has none."""


def _wrong(name: str, value: Any, wanted: str, **bounds: Any) -> InvalidInput:
    said = message(wanted, **bounds)
    return InvalidInput("input.wrong", name=name, wanted=said, got=_shown(value))


def _shown(value: Any) -> str:
    """A value as a message may quote it: short, on one line, of characters that print."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    return printable(text if len(text) <= 60 else text[:57] + "...")


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _whole(text: str) -> str:
    """The text without the lone surrogates that no file can hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


# --- Kinds -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """Free text, kept as it is; only lone surrogates, which no file can hold, are replaced."""

    max_bytes: int

    def schema(self) -> Schema:
        # A schema counts characters, of which there are never more than bytes.
        return {"type": "string", "maxLength": self.max_bytes}

    def read(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _wrong(name, value, "wanted.text")
        text = _whole(value)
        size = len(text.encode())
        if size > self.max_bytes:
            raise InvalidInput("input.long", name=name, size=size, limit=self.max_bytes)
        if not _visible(text):
            raise InvalidInput("input.blank", name=name)
        return text


@dataclass(frozen=True, slots=True)
class Name:
    """A short label without control characters, trimmed."""

    max_chars: int

    def schema(self) -> Schema:
        return {"type": "string", "maxLength": self.max_chars}

    def read(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _wrong(name, value, "wanted.text")
        if not value.isprintable() and not CONTROLS.isdisjoint(map(unicodedata.category, value)):
            raise InvalidInput("input.control", name=name)
        text = value.strip()
        if not text:
            raise InvalidInput("input.blank", name=name)
        if len(text) > self.max_chars:
            raise InvalidInput("input.chars", name=name, size=len(text), limit=self.max_chars)
        return text


@dataclass(frozen=True, slots=True)
class Id(Kind):
    """An id in its one spelling: NFKC, outer space trimmed, inner runs of space made one."""

    def read(self, name: str, value: Any) -> str:
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
            value = str(value)
        if isinstance(value, str):
            # First of all: one character may stand for eighteen.
            value = unicodedata.normalize("NFKC", value)
        return " ".join(Name(256).read(name, value).split())


@dataclass(frozen=True, slots=True)
class Number:
    low: float
    high: float

    def schema(self) -> Schema:
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def read(self, name: str, value: Any) -> float:
        number = _number(value)
        if number is None or not self.low <= number <= self.high:
            raise _wrong(name, value, "wanted.number", low=self.low, high=self.high)
        return number


@dataclass(frozen=True, slots=True)
class Integer:
    low: int
    high: int

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def read(self, name: str, value: Any) -> int:
        number = _number(value)
        if number is None or number % 1 or not self.low <= number <= self.high:
            raise _wrong(name, value, "wanted.integer", low=self.low, high=self.high)
        return int(number)


@dataclass(frozen=True, slots=True)
class Flag:
    def schema(self) -> Schema:
        return {"type": "boolean"}

    def read(self, name: str, value: Any) -> bool:
        words = {"true": True, "false": False}
        if isinstance(value, bool):
            return value
        if not isinstance(value, str) or value.strip().lower() not in words:
            raise _wrong(name, value, "wanted.flag")
        return words[value.strip().lower()]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[str, ...]

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.options)}

    def read(self, name: str, value: Any) -> str:
        if value not in self.options:
            raise _wrong(name, value, "wanted.choice", options=", ".join(self.options))
        return str(value)


@dataclass(frozen=True, slots=True)
class Moment(Kind):
    """A time, read into the stored form; see timestamps.parse for what a bare date means."""

    home: tzinfo
    date_means: timestamps.Bound = "start"

    def read(self, name: str, value: Any) -> str:
        try:
            return timestamps.parse(value, self.home, date_means=self.date_means)
        except (ValueError, TypeError, AttributeError):
            raise _wrong(name, value, "wanted.time") from None


@dataclass(frozen=True, slots=True)
class Items:
    """A list of one kind of thing."""

    item: Kind
    max_items: int = 200

    def schema(self) -> Schema:
        return {"type": "array", "items": self.item.schema()}

    def read(self, name: str, value: Any) -> list[Any]:
        items = _from_json(value)
        if not isinstance(items, (list, tuple)):
            raise _wrong(name, value, "wanted.list")
        if len(items) > self.max_items:
            raise InvalidInput("input.items", name=name, size=len(items), limit=self.max_items)
        return [self.item.read(f"{name}[{at}]", item) for at, item in enumerate(items)]


@dataclass(frozen=True, slots=True)
class Entities(Items):
    """A list of entities, with no more ids, names and aliases in all than one call may bring."""

    max_names: int = MAX_NAMES

    def read(self, name: str, value: Any) -> list[Any]:
        entities = Items.read(self, name, value)
        size = sum(1 + bool(each["name"]) + len(each["aliases"]) for each in entities)
        if size > self.max_names:
            raise InvalidInput("input.names", name=name, size=size, limit=self.max_names)
        return entities


@dataclass(frozen=True, slots=True)
class Properties:
    """A free JSON object, no deeper than every writer of JSON can follow."""

    max_bytes: int = 16384
    max_depth: int = 100

    def schema(self) -> Schema:
        return {"type": "object"}

    def read(self, name: str, value: Any) -> dict[str, Any]:
        table = _from_json(value)
        if not isinstance(table, dict):
            raise _wrong(name, value, "wanted.object")
        try:
            text = _whole(json.dumps(table, ensure_ascii=False, allow_nan=False))
            plain = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise InvalidInput("input.json", name=name) from None
        if _deeper(plain, self.max_depth):
            raise InvalidInput("input.json", name=name)
        size = len(text.encode())
        if size > self.max_bytes:
            raise InvalidInput("input.long", name=name, size=size, limit=self.max_bytes)
        return plain


@dataclass(frozen=True, slots=True)
class Argument:
    """A named value of a tool or an object; one without `required` has a default."""

    kind: Kind
    doc: str = ""
    default: Any = None
    required: bool = False

    def schema(self) -> Schema:
        schema = self.kind.schema()
        if self.doc:
            schema["description"] = self.doc
        if self.default is not None and not callable(self.default):
            schema["default"] = self.default
        return schema

    def read(self, name: str, value: Any) -> Any:
        if not self.required and (value is None or (isinstance(value, str) and not value.strip())):
            return self.absent()
        return self.kind.read(name, value)

    def read_given(self, name: str, value: Any) -> Any:
        """The same, of what may be missing though it is required."""
        return self.read(name, _given(name, self, value))

    def absent(self) -> Any:
        """The value of one that is not given."""
        return self.default() if callable(self.default) else self.default


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of known arguments; `plain` turns a bare string into one."""

    fields: Mapping[str, Argument]
    plain: Callable[[str], dict[str, Any]] | None = None

    def schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {name: field.schema() for name, field in self.fields.items()},
            "required": [name for name, field in self.fields.items() if field.required],
        }

    def read(self, name: str, value: Any) -> dict[str, Any]:
        table = _from_json(value)
        if self.plain and isinstance(value, str) and not isinstance(table, dict):
            table = self.plain(value)
        if not isinstance(table, dict):
            raise _wrong(name, value, "wanted.object")
        self.refuse_unknown(name, table)
        return {
            key: field.read_given(f"{name}.{key}", value)
            if (value := table.get(key)) is not None or field.required
            else field.absent()
            for key, field in self.fields.items()
        }

    def refuse_unknown(self, name: str, table: Mapping[Any, Any]) -> None:
        if table.keys() <= self.fields.keys():
            return
        if unknown := sorted({str(key) for key in table} - set(self.fields)):
            allowed = ", ".join(self.fields) or "-"
            named = printable(", ".join(unknown)[:200])
            raise InvalidInput("input.unknown", name=name, unknown=named, allowed=allowed)


def _given(name: str, argument: Argument, value: Any) -> Any:
    if argument.required and value is None:
        raise InvalidInput("input.missing", name=name)
    return value


def _number(value: Any) -> float | None:
    """The finite number that `value` is or spells; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _from_json(value: Any) -> Any:
    """What a string of JSON says; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects lie inside one another on more levels than that."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_deeper(each, levels - 1) for each in inner)


def _visible(text: str) -> bool:
    """Whether there is anything to read: not only spaces, controls and zero-width signs."""
    # Characters newer than this Python's tables (Cn) and private ones (Co) do show.
    hidden = ("Cc", "Cf", "Zs", "Zl", "Zp")
    return any(unicodedata.category(char) not in hidden for char in text)


# --- The tools -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contract:
    """The arguments of each tool."""

    tools: Mapping[str, Fields]

    def schema(self, tool: str) -> Schema:
        """The tool's input schema: a plain object that says it takes nothing else."""
        return self.tools[tool].schema() | {"additionalProperties": False}

    def accept(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same arguments, if the tool knows each and has all it needs."""
        fields = self.tools[tool]
        fields.refuse_unknown(tool, arguments)
        for name, field in fields.fields.items():
            _given(name, field, arguments.get(name))
        return dict(arguments)

    def read(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Every argument of the tool, checked, defaults filled in."""
        fields = self.tools[tool].fields
        return {name: field.read_given(name, arguments.get(name)) for name, field in fields.items()}

    def read_many(self, tool: str, items: Any) -> list[dict[str, Any]]:
        """Every item, checked as the arguments of the tool."""
        return list(Items(self.tools[tool], max_items=MAX_BATCH).read("items", items))

    def relation_id(self, value: str) -> int:
        """The number that a relation's id is."""
        return Integer(1, (1 << 63) - 1).read("target_id", value)


Table = dict[str, Argument]
NAMES = Items(Name(200))
FREE = Properties()


def contract(config: Config) -> Contract:
    """The seven tools' arguments, with the bounds and the timezone of the settings."""
    home = timestamps.zone(config.timezone)
    tables = {
        "memory_remember": _remember(config, home),
        "memory_recall": _recall(config, home),
        "memory_relate": _relation(home),
        "memory_forget": _forget(),
        "memory_update": _update(config),
        "memory_graph_query": _graph_query(config, home),
        "memory_stats": {},
    }
    return Contract({tool: Fields(table) for tool, table in tables.items()})


def _remember(config: Config, home: tzinfo) -> Table:
    edge = {name: replace(field, doc="") for name, field in _relation(home).items()}
    entities = Fields(_entity(), lambda text: {"id": text})
    about = f"What it is about; or just ids; at most {MAX_NAMES} ids, names and aliases"
    return {
        "content": Argument(
            Text(config.limits_content_bytes), "One self-contained fact", None, True
        ),
        "source": Argument(Name(200), "Where it is from", "manual"),
        "importance": Argument(Number(0, 1), "0 trivial, 1 vital", 0.5),
        "entities": Argument(Entities(entities), about, list),
        "relations": Argument(Items(Fields(edge)), "Facts between entities", list),
        "tags": Argument(NAMES, "Labels to filter by", list),
        "session_id": Argument(Name(200), "Conversation or project", "default"),
        "timestamp": Argument(Moment(home), "When it happened, ISO 8601; default now"),
    }


def _entity() -> Table:
    return {
        "id": Argument(Id(), required=True),
        "kind": Argument(Name(64)),
        "name": Argument(Name(200)),
        "summary": Argument(Text(4000)),
        "aliases": Argument(NAMES, default=list),
        "properties": Argument(FREE, default=dict),
    }


def _relation(home: tzinfo) -> Table:
    return {
        "source_id": Argument(Id(), "From: entity or chunk id; new entities are made", None, True),
        "target_id": Argument(Id(), "To: entity or chunk id", required=True),
        "relation": Argument(Name(128), "Verb, e.g. works_at", required=True),
        "weight": Argument(Number(0, 1), "Strength", 1.0),
        "valid_from": Argument(Moment(home), "ISO 8601; default now"),
        "valid_until": Argument(Moment(home, "end"), "ISO 8601; default open"),
        "evidence_chunk_id": Argument(Id(), "Chunk that says so"),
        "properties": Argument(FREE, "Free JSON", dict),
    }


def _recall(config: Config, home: tzinfo) -> Table:
    hits, hops = Integer(1, config.limits_top_k), Integer(0, config.limits_hops)
    return {
        "query": Argument(Text(config.limits_query_bytes), "Words or a question", required=True),
        "top_k": Argument(hits, "Most memories", min(5, config.limits_top_k)),
        "graph_hops": Argument(hops, "Reach of the graph lane", min(2, config.limits_hops)),
        "filters": Argument(Fields(_filters(home)), "All must hold", dict),
        "strategy": Argument(Choice(STRATEGIES), "rrf = all lanes", "rrf"),
        "asof": _asof(home),
        "explain": Argument(Flag(), "Say why each hit is here", False),
        "max_tokens": Argument(Integer(0, 1_000_000), "Reply budget; 0 = none", 8000),
    }


def _filters(home: tzinfo) -> Table:
    return {
        "source": Argument(Name(200)),
        "kind": Argument(Name(64)),
        "tag": Argument(Name(200)),
        "session_id": Argument(Name(200)),
        "time_from": Argument(Moment(home)),
        "time_to": Argument(Moment(home, "last")),
        "min_importance": Argument(Number(0, 1)),
    }


def _asof(home: tzinfo) -> Argument:
    return Argument(Moment(home, "last"), "Answer as of this ISO 8601 time")


def _forget() -> Table:
    return {
        "target_id": Argument(Id(), "chunk_id, entity id or relation_id", required=True),
        "target_kind": Argument(Choice(TARGETS), "What it is", "chunk"),
        "reason": Argument(Name(500), "Kept in the history", "outdated"),
        "cascade": Argument(Flag(), "Close its relations too", True),
    }


def _update(config: Config) -> Table:
    return {
        "old_id": Argument(Id(), "chunk_id", required=True),
        "new_content": Argument(Text(config.limits_content_bytes), "Empty keeps the text"),
        "reason": Argument(Name(500), "Kept in the history", "updated"),
        "new_importance": Argument(Number(0, 1), "Default: as it was"),
        "new_properties": Argument(FREE, "Merged into the old ones", dict),
    }


def _graph_query(config: Config, home: tzinfo) -> Table:
    hops, nodes = Integer(0, config.limits_hops), Integer(1, config.limits_graph_nodes)
    return {
        "start_node": Argument(Id(), "Entity id, name or alias; or chunk_id", required=True),
        "max_hops": Argument(hops, "Reach", min(3, config.limits_hops)),
        "edge_types": Argument(NAMES, "Relation names; empty = all", list),
        "asof": _asof(home),
        "limit": Argument(nodes, "Most nodes", min(200, config.limits_graph_nodes)),
    }
