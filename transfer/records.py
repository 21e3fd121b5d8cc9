"""What a record of an export may be."""

import base64
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import Any

import numpy as np

from access.validation import (
    Argument,
    Choice,
    Fields,
    Id,
    Integer,
    Items,
    Kind,
    Moment,
    Name,
    Number,
    Properties,
    Text,
)
from core.errors import InvalidInput
from core.types import Vectors, is_chunk_id
from recall.turns import MAX_CHARACTERS
from text.guard import Checked, Guard

FORMAT = "mnelo-export"
VERSION = 1
KINDS = ("entity", "chunk", "relation", "audit")
"""In the order in which they are written and imported: each refers to those before."""

Progress = Callable[[int, int], object]
"""Called with how many more records are done, and how many there are in all."""


# --- What a record may be --------------------------------------------------------------

MAX_BYTES = 1 << 24  # bytes, the most that a setting may allow
FREE_JSON = Properties(MAX_BYTES)
WHEN = Moment(timezone.utc)
SHARE = Number(0, 1)
COUNT = Integer(0, 1 << 62)
ROW = Integer(1, 1 << 48)
ORIGINS = ("given", "evidence", "found")


@dataclass(frozen=True, slots=True)
class _ChunkId(Kind):
    """The id of a version of a memory."""

    def read(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not is_chunk_id(value):
            raise InvalidInput("transfer.chunk_id", name=name)
        return value


@dataclass(frozen=True, slots=True)
class _Key(Kind):
    """A folded spelling, which may be empty."""

    def read(self, name: str, value: Any) -> str:
        return "" if value == "" else Text(MAX_BYTES).read(name, value)


@dataclass(frozen=True, slots=True)
class _Label(Kind):
    """The id of a session or of a round, which may be any text (turns.py)."""

    def read(self, name: str, value: Any) -> str:
        text = Text(MAX_BYTES).read(name, value)
        if len(text) > MAX_CHARACTERS:
            raise InvalidInput("input.chars", name=name, size=len(text), limit=MAX_CHARACTERS)
        return text


@dataclass(frozen=True, slots=True)
class _Mentions:
    """Entities by their ids, and how each link came about."""

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}

    def read(self, name: str, value: Any) -> dict[str, str]:
        origin, table = Choice(ORIGINS), FREE_JSON.read(name, value)
        return {Id().read(name, key): origin.read(f"{name}.{key}", table[key]) for key in table}


# --- What is as an export writes it ----------------------------------------------------

Test = Callable[[Any], bool]
SMALL = 1000  # characters of a text or entries of a table that are looked at here
AN_ID, ID_NAME = Id(), Name(256)
A_TEXT, A_LABEL = Text(MAX_BYTES), Name(MAX_CHARACTERS)


def _is_name(kind: Name, value: Any) -> bool:
    """Of all that is printable only the space is space."""
    return (
        type(value) is str
        and value.isprintable()
        and value == value.strip() != ""
        and len(value) <= kind.max_chars
    )


def _is_id(kind: Id, value: Any) -> bool:
    return (
        _is_name(ID_NAME, value) and "  " not in value and unicodedata.is_normalized("NFKC", value)
    )


def _is_text(kind: Text, value: Any) -> bool:
    return (
        type(value) is str
        and value.replace("\n", "").isprintable()
        and value != ""
        and not value.isspace()
        and 4 * len(value) <= kind.max_bytes
    )


@lru_cache(maxsize=1 << 14)
def _is_stamp(text: str) -> bool:
    try:
        moment = datetime.fromisoformat(text[:-1])
    except ValueError:
        return False
    return moment.tzinfo is None and moment.isoformat(timespec="milliseconds") + "Z" == text


def _is_small(kind: Properties, value: Any) -> bool:
    """A flat table with little in it."""
    return (
        type(value) is dict
        and len(value) <= SMALL
        and all(map(_is_plain, value))
        and all(map(_is_plain, value.values()))
    )


def _is_plain(value: Any) -> bool:
    if type(value) is str:
        return len(value) <= SMALL and value.isprintable()
    return value is None or type(value) in (int, bool)


def _are_mentions(kind: _Mentions, value: Any) -> bool:
    return (
        type(value) is dict
        and len(value) <= SMALL
        and all(each in ORIGINS for each in value.values())
        and all(_is_id(AN_ID, each) for each in value)
    )


_TESTS: Mapping[type, Callable[[Any, Any], bool]] = {
    Name: _is_name,
    Id: _is_id,
    Text: _is_text,
    Number: lambda kind, value: type(value) is float and kind.low <= value <= kind.high,
    Integer: lambda kind, value: type(value) is int and kind.low <= value <= kind.high,
    Moment: lambda kind, value: type(value) is str and _is_stamp(value),
    Properties: _is_small,
    _Mentions: _are_mentions,
    _ChunkId: lambda kind, value: type(value) is str and is_chunk_id(value),
    _Key: lambda kind, value: _is_text(A_TEXT, value),
    _Label: lambda kind, value: _is_name(A_LABEL, value),
}


def _test(kind: Kind) -> Test:
    """Whether a value is as reading it would give it; False where there is no quick way to tell."""
    if isinstance(kind, Items):
        limit, test = kind.max_items, _test(kind.item)
        return lambda items: type(items) is list and len(items) <= limit and all(map(test, items))
    return partial(_TESTS.get(type(kind), lambda kind, value: False), kind)


class _Record:
    """An object of known fields, like Fields; what is as an export writes it is not read."""

    def __init__(self, fields: Mapping[str, Argument]) -> None:
        self._all = Fields(fields)
        self._fields = [(name, each, _test(each.kind)) for name, each in fields.items()]

    def schema(self) -> dict[str, Any]:
        return self._all.schema()

    def read(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return self._all.read(name, value)
        self._all.refuse_unknown(name, value)
        read: dict[str, Any] = {}
        for key, argument, test in self._fields:
            each = value.get(key)
            if (each is None or each == "") and not argument.required:
                read[key] = argument.absent()
            else:
                read[key] = each if test(each) else argument.read_given(f"{name}.{key}", each)
        return read


# --- The records -----------------------------------------------------------------------


def _required(kind: Kind) -> Argument:
    return Argument(kind, required=True)


_VALID = {"valid_from": _required(WHEN), "valid_until": Argument(WHEN)}
_RECALLED = {"recall_count": Argument(COUNT, default=0), "last_recalled": Argument(WHEN)}

ENTITY_VERSION = _Record(
    {
        "seq": Argument(ROW),
        "kind": _required(Name(64)),
        "name": _required(Name(256)),
        "summary": Argument(Text(MAX_BYTES), default=""),
        "properties": Argument(FREE_JSON, default=dict),
        "source": Argument(Name(200), default="manual"),
        "importance": Argument(SHARE, default=0.5),
        "created_at": _required(WHEN),
        "updated_at": _required(WHEN),
        "superseded_by": Argument(Id()),
        **_VALID,
        **_RECALLED,
    }
)
ENTITY_NAME = _Record(
    {
        "key": _required(_Key()),
        "alias": _required(Name(MAX_BYTES)),
        "role": _required(Choice(("id", "name", "alias", "code"))),
        "valid_from": _required(WHEN),
    }
)
ROUND = Fields({"id": _required(_Label()), "asked": _required(Integer(0, MAX_BYTES))})
ENTRY = Fields(
    {
        "category": _required(Name(64)),
        "expires_at": Argument(WHEN),
        "context": Argument(Items(Text(MAX_BYTES), MAX_BYTES), default=list),
    }
)
RECORDS: Mapping[str, _Record] = {
    "entity": _Record(
        {
            "id": _required(Id()),
            "versions": _required(Items(ENTITY_VERSION, MAX_BYTES)),
            "names": Argument(Items(ENTITY_NAME, MAX_BYTES), default=list),
        }
    ),
    "chunk": _Record(
        {
            "id": _required(_ChunkId()),
            "seq": Argument(ROW),
            "content": _required(Text(MAX_BYTES)),
            "source": Argument(Name(200), default="manual"),
            "session_id": Argument(_Label(), default="default"),
            "timestamp": _required(WHEN),
            "importance": Argument(SHARE, default=0.5),
            "metadata": Argument(FREE_JSON, default=dict),
            "created_at": _required(WHEN),
            "superseded_by": Argument(_ChunkId()),
            "tags": Argument(Items(Name(200), MAX_BYTES), default=list),
            "mentions": Argument(_Mentions(), default=dict),
            "round": Argument(ROUND),
            "entry": Argument(ENTRY),
            "vectors": Argument(Items(Text(MAX_BYTES), MAX_BYTES)),
            **_VALID,
            **_RECALLED,
        }
    ),
    "relation": _Record(
        {
            "id": Argument(ROW),
            "source_id": _required(Id()),
            "target_id": _required(Id()),
            "relation": _required(Name(128)),
            "weight": Argument(SHARE, default=1.0),
            "properties": Argument(FREE_JSON, default=dict),
            "source": Argument(Name(200), default="manual"),
            "confidence": Argument(SHARE, default=1.0),
            "created_at": _required(WHEN),
            "evidence_chunk_id": Argument(_ChunkId()),
            "evidence": Argument(Items(_ChunkId(), MAX_BYTES), default=list),
            **_VALID,
        }
    ),
    "audit": _Record(
        {
            "id": Argument(ROW),
            "at": _required(WHEN),
            "client": Argument(Text(MAX_BYTES), default=""),
            "action": _required(Name(200)),
            "target_kind": _required(Name(200)),
            "target_id": _required(Text(MAX_BYTES)),
            "reason": Argument(Text(MAX_BYTES), default=""),
            "detail": Argument(FREE_JSON, default=dict),
        }
    ),
}


def read_record(kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """A record as the store takes it. Each one comes through here on its way in.

    Raises InvalidInput, which names the field and what it may be.
    """
    record: dict[str, Any] = RECORDS[kind].read(kind, dict(table))
    for span in record["versions"] if kind == "entity" else [record]:
        if span.get("valid_until") is not None and span["valid_until"] < span["valid_from"]:
            raise InvalidInput(
                "input.interval",
                name="valid_until",
                end=span["valid_until"],
                start=span["valid_from"],
            )
    if kind == "entity":
        _check_versions(record["versions"])
    elif kind == "chunk":
        _check_next(record)
        _check_beside(record)
    return record


GUARDED: Mapping[str, Sequence[str]] = {
    "chunk": ("content", "source", "session_id", "tags", "metadata"),
    "version": ("name", "summary", "properties"),
    "relation": ("relation", "properties"),
    "audit": ("reason",),
}
"""Where secrets are looked for; ids stay as they are, since others refer to them."""

REPEATED = ("source", "session_id", "relation")  # of these a few values stand in many records

MAX_CLEAN = 10_000  # texts that are known to have no secret


class Watch:
    """The guard, which looks at a text that stands in many records once."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._clean: set[str] = set()

    def check(self, arguments: Mapping[str, Any], place: str) -> Checked:
        asked = {
            name: value
            for name, value in arguments.items()
            if name not in REPEATED or value not in self._clean
        }
        if not asked:
            return Checked(dict(arguments), [])
        checked = self._guard.check(asked, place)
        if not checked.kinds:
            self._clean = self._clean if len(self._clean) < MAX_CLEAN else set()
            self._clean.update(asked[name] for name in REPEATED if name in asked)
        return Checked({**arguments, **checked.arguments}, checked.kinds)


def guarded(guard: Watch, kind: str, record: dict[str, Any]) -> Checked:
    """A record as the guard lets it pass, and the kinds of secrets that it had.

    Raises InvalidInput for one with a secret where these are refused.
    """
    if kind != "entity":
        asked = {name: record[name] for name in GUARDED[kind] if record[name]}
        safe, kinds = guard.check(asked, kind) if asked else Checked({}, [])
        if safe != asked:
            record.pop("vectors", None)  # they are those of the text with the secret
        if "entry" in record:
            context = guard.check({"context": record["entry"]["context"]}, f"{kind}.entry")
            safe |= {"entry": record["entry"] | context.arguments}
            kinds = sorted({*kinds, *context.kinds})
        if "round" in record and safe["content"] != asked["content"]:
            record["round"] = _round_of(record, safe["content"])
        return Checked(record | safe, kinds)
    versions = [guarded(guard, "version", each) for each in record["versions"]]
    names = [(each, guard.check({"alias": each["alias"]}, kind)) for each in record["names"]]
    kept = [each for each, checked in names if checked.arguments["alias"] == each["alias"]]
    checks = (*versions, *(checked for _, checked in names))
    found = {name for each in checks for name in each.kinds}
    safe = {"versions": [each.arguments for each in versions], "names": kept}
    return Checked(record | safe, sorted(found))


def _round_of(record: Mapping[str, Any], safe: str) -> dict[str, Any]:
    """The round of a text without its secret: all is the person's if the question had one."""
    asked = record["round"]["asked"]
    same = safe[: asked + 1] == record["content"][: asked + 1]
    return {"id": record["round"]["id"], "asked": asked if same else len(safe)}


def _check_versions(versions: Sequence[Mapping[str, Any]]) -> None:
    live = sum(version["valid_until"] is None for version in versions)
    if not versions or live > 1:
        raise InvalidInput("transfer.versions", live=live)


def _check_next(record: dict[str, Any]) -> None:
    """Only a closed version has a next one; read the vectors, if there are any."""
    if record["superseded_by"] is not None and record["valid_until"] is None:
        raise InvalidInput("transfer.next")
    if (windows := record.pop("vectors")) is not None:
        record["vectors"] = _vectors(windows)


def _check_beside(record: dict[str, Any]) -> None:
    """Most memories are no round and no entry; a round says no more of itself than there is."""
    for name in ("round", "entry"):
        if record[name] is None:
            del record[name]
    if "round" in record and record["round"]["asked"] > len(record["content"]):
        raise InvalidInput("transfer.asked", size=len(record["content"]))


def _vectors(windows: Sequence[str]) -> Vectors:
    try:
        rows = [np.frombuffer(base64.b64decode(each, validate=True), "<f4") for each in windows]
        vectors = np.stack(rows).astype(np.float32)
    except ValueError:
        raise InvalidInput("transfer.vectors") from None
    if not np.isfinite(vectors).all():
        raise InvalidInput("transfer.vectors")
    return vectors
