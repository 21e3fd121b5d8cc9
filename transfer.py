"""The whole memory as one text file, and back: an export that another file can take in.

An export is JSON lines (docs/EXPORT.md): a header, then entities, memories, relations and the
audit. Importing reads the file twice. First every line is judged, so that all that is wrong is
known before anything is written; then the good records go in, some at a time, so that a server
goes on beside it. A run that was interrupted is finished by the next one.
"""

import base64
import codecs
import io
import json
import os
import sys
import tempfile
import time
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
from tqdm import tqdm

import words
from config import Config
from errors import InvalidInput
from guard import Checked, Guard
from mnelo_locale import message
from rows import Model, Vectors, is_chunk_id
from store import (
    SCHEMA_VERSION,
    Inspector,
    Intake,
    Outcome,
    SqliteStore,
    export_rows,
    held_records,
)
from turns import MOST_CHARACTERS
from validation import (
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

FORMAT = "mnelo-export"
VERSION = 1
KINDS = ("entity", "chunk", "relation", "audit")
"""In the order in which they are written and taken in: each refers to those before."""

AT_ONCE = {"entity": 150, "chunk": 150, "relation": 1000, "audit": 3000}
LENGTH = 400_000
"""Records of one transaction and bytes of their lines, at most: some 50 ms, in which other
writers wait."""

PAUSE = 0.025
"""Seconds between transactions, in which others find the file free: they look that often."""

Told = Callable[[int, int], object]
"""Is told how many more records are done, and of how many in all."""


# --- What a record may be --------------------------------------------------------------


LONGEST = 1 << 24  # bytes, the most that a setting may allow
FREE_JSON = Properties(LONGEST)
WHEN = Moment(timezone.utc)
SHARE = Number(0, 1)
COUNT = Integer(0, 1 << 62)
ROW = Integer(1, 1 << 48)
ORIGINS = ("given", "evidence", "found")


@dataclass(frozen=True, slots=True)
class _ChunkId:
    """The id of a version of a memory."""

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def read(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not is_chunk_id(value):
            raise InvalidInput("transfer.chunk_id", name=name)
        return value


@dataclass(frozen=True, slots=True)
class _Key:
    """A folded spelling, of which nothing may be left."""

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def read(self, name: str, value: Any) -> str:
        return "" if value == "" else Text(LONGEST).read(name, value)


@dataclass(frozen=True, slots=True)
class _Label:
    """The id of a session or of a round, which may be any text (turns.py)."""

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": MOST_CHARACTERS}

    def read(self, name: str, value: Any) -> str:
        text = Text(LONGEST).read(name, value)
        if len(text) > MOST_CHARACTERS:
            raise InvalidInput("input.chars", name=name, size=len(text), limit=MOST_CHARACTERS)
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

# Nearly every value of an export is what reading it would give. These tests tell so quickly;
# what they do not know is read.

Test = Callable[[Any], bool]
SMALL = 1000  # characters of a text or entries of a table that are looked at here
AN_ID, ID_NAME = Id(), Name(256)
A_TEXT, A_LABEL = Text(LONGEST), Name(MOST_CHARACTERS)


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


def _is_number(kind: Number, value: Any) -> bool:
    return type(value) is float and kind.low <= value <= kind.high


def _is_integer(kind: Integer, value: Any) -> bool:
    return type(value) is int and kind.low <= value <= kind.high


def _is_moment(kind: Moment, value: Any) -> bool:
    return type(value) is str and _is_stamp(value)


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


def _are_items(kind: Items, test: Test, value: Any) -> bool:
    return type(value) is list and len(value) <= kind.max_items and all(map(test, value))


_TESTS: Mapping[type, Callable[[Any, Any], bool]] = {
    Name: _is_name,
    Id: _is_id,
    Text: _is_text,
    Number: _is_number,
    Integer: _is_integer,
    Moment: _is_moment,
    Properties: _is_small,
    _Mentions: _are_mentions,
    _ChunkId: lambda kind, value: type(value) is str and is_chunk_id(value),
    _Key: lambda kind, value: _is_text(A_TEXT, value),
    _Label: lambda kind, value: _is_name(A_LABEL, value),
}


def _test(kind: Kind) -> Test:
    """Whether a value is as reading it would give it; False where there is no quick way to tell."""
    if isinstance(kind, Items):
        return partial(_are_items, kind, _test(kind.item))
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
        "summary": Argument(Text(LONGEST), default=""),
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
        "alias": _required(Name(LONGEST)),
        "role": _required(Choice(("id", "name", "alias", "code"))),
        "valid_from": _required(WHEN),
    }
)
ROUND = Fields({"id": _required(_Label()), "asked": _required(Integer(0, LONGEST))})
ENTRY = Fields(
    {
        "category": _required(Name(64)),
        "expires_at": Argument(WHEN),
        "context": Argument(Items(Text(LONGEST), LONGEST), default=list),
    }
)
RECORDS: Mapping[str, _Record] = {
    "entity": _Record(
        {
            "id": _required(Id()),
            "versions": _required(Items(ENTITY_VERSION, LONGEST)),
            "names": Argument(Items(ENTITY_NAME, LONGEST), default=list),
        }
    ),
    "chunk": _Record(
        {
            "id": _required(_ChunkId()),
            "seq": Argument(ROW),
            "content": _required(Text(LONGEST)),
            "source": Argument(Name(200), default="manual"),
            "session_id": Argument(_Label(), default="default"),
            "timestamp": _required(WHEN),
            "importance": Argument(SHARE, default=0.5),
            "metadata": Argument(FREE_JSON, default=dict),
            "created_at": _required(WHEN),
            "superseded_by": Argument(_ChunkId()),
            "tags": Argument(Items(Name(200), LONGEST), default=list),
            "mentions": Argument(_Mentions(), default=dict),
            "round": Argument(ROUND),
            "entry": Argument(ENTRY),
            "vectors": Argument(Items(Text(LONGEST), LONGEST)),
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
            "evidence": Argument(Items(_ChunkId(), LONGEST), default=list),
            **_VALID,
        }
    ),
    "audit": _Record(
        {
            "id": Argument(ROW),
            "at": _required(WHEN),
            "client": Argument(Text(LONGEST), default=""),
            "action": _required(Name(200)),
            "target_kind": _required(Name(200)),
            "target_id": _required(Text(LONGEST)),
            "reason": Argument(Text(LONGEST), default=""),
            "detail": Argument(FREE_JSON, default=dict),
        }
    ),
}


MERGE = Fields(
    {
        "keep": _required(Id()),
        "duplicate": _required(Id()),
        "aliases": _required(Items(_Key(), LONGEST)),
        "mentions": _required(Items(ROW, LONGEST)),
        "relations": _required(
            Items(
                Fields(
                    {
                        "old": _required(ROW),
                        "ended": Argument(WHEN),
                        "new": Argument(ROW),
                        "twin": Argument(ROW),
                        "shown": _required(Items(ROW, LONGEST)),
                    }
                ),
                LONGEST,
            )
        ),
        "closed": _required(ROW),
        "version": Argument(Items(ROW, 2)),
    }
)
"""What a merge wrote down, from which undo_merge takes it back."""


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
    elif kind == "audit" and record["action"] == "merge":
        record["detail"] = MERGE.read("audit.detail", record["detail"])
    return record


GUARDED: Mapping[str, Sequence[str]] = {
    "chunk": ("content", "source", "session_id", "tags", "metadata"),
    "version": ("name", "summary", "properties"),
    "relation": ("relation", "properties"),
    "audit": ("reason",),
}
"""Where secrets are looked for; ids stay as they are, since others refer to them."""

REPEATED = ("source", "session_id", "relation")
"""Of these a few values stand in many records."""

MOST_CLEAN = 10_000  # texts that are known to have no secret


class _Watch:
    """The guard, which looks at a text that stands in many records once."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._clean: set[str] = set()

    def check(self, arguments: Mapping[str, Any], place: str) -> Checked:
        asked = {name: each for name, each in arguments.items() if not self._knows(name, each)}
        if not asked:
            return Checked(dict(arguments), [])
        checked = self._guard.check(asked, place)
        if not checked.kinds:
            self._clean = self._clean if len(self._clean) < MOST_CLEAN else set()
            self._clean.update(asked[name] for name in REPEATED if name in asked)
        return Checked({**arguments, **checked.arguments}, checked.kinds)

    def _knows(self, name: str, value: Any) -> bool:
        return name in REPEATED and value in self._clean


def guarded(guard: _Watch, kind: str, record: dict[str, Any]) -> Checked:
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


# --- Out -------------------------------------------------------------------------------


def export(
    database: Path, to: str, *, vectors: bool, told: Told = lambda done, of: None
) -> dict[str, int]:
    """Write everything in a file to another, or for `-` to stdout; how many records of each type.

    What was acknowledged before it began is in it; others may write meanwhile. A file of that
    name gives way only when the new one is complete.
    """
    _refuse_missing(database)
    if to != "-" and Path(to).exists() and os.path.samefile(to, database):
        raise InvalidInput("transfer.itself", file=to)
    with (
        closing(Inspector(database)) as store,
        store.view() as view,
        view.reading(),
        _opened(to) as out,
    ):
        counts, model = held_records(view), view.model() if vectors else None
        whole = sum(counts.values())
        out.write(_line(_header(counts, model)))
        for kind, record in export_rows(view, vectors=vectors):
            out.write(_line({"type": kind, **_plain(record)}))
            told(1, whole)
        return counts


def _refuse_missing(database: Path) -> None:
    if not database.exists():
        raise InvalidInput("transfer.no_database", path=database)


def _header(counts: Mapping[str, int], model: Model | None) -> dict[str, Any]:
    """The first line; the model, where its vectors follow, with what was measured of it."""
    named = model and {
        "name": model.name,
        "dim": model.dim,
        "unrelated": model.unrelated,
        "noise": model.noise,
    }
    header = {"type": "header", "format": FORMAT, "version": VERSION, "schema": SCHEMA_VERSION}
    return {**header, "records": dict(counts), "model": named}


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its vectors, if any, as text."""
    if "vectors" not in record:
        return record
    windows = [base64.b64encode(each.astype("<f4").tobytes()) for each in record["vectors"]]
    return record | {"vectors": [each.decode() for each in windows]}


def _line(table: Mapping[str, Any]) -> str:
    return json.dumps(table, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n"


@contextmanager
def _opened(to: str) -> Iterator[IO[str]]:
    """Where to write: stdout, or a file that takes its name once it is complete."""
    try:
        if to == "-":
            plain = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
            yield plain
            plain.detach().flush()
        else:
            with _new_file(Path(to).absolute()) as out:
                yield out
    except OSError as error:
        raise InvalidInput("transfer.unwritable", file=to, error=error.strerror) from None


@contextmanager
def _new_file(target: Path) -> Iterator[IO[str]]:
    number, part = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with open(number, "w", encoding="utf-8", newline="\n") as out:
            yield out
            out.flush()
            os.fsync(number)
        os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise


# --- In --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line of the file, counted from 1."""

    line: int
    reason: str

    def __str__(self) -> str:
        return message("transfer.problem", line=self.line, reason=self.reason)


@dataclass(slots=True)
class Judged:
    """An export that was read from end to end: where its good records stand, and what is wrong."""

    guard: _Watch
    secrets: set[str] = field(default_factory=set)
    """The kinds that it found."""
    header: dict[str, Any] | None = None
    model: Model | None = None
    """The model whose vectors the export has, if it has any."""
    problems: list[Problem] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """How many records cannot be taken, by their type, or as `line` where that is unknown."""
    places: "dict[str, array[int]]" = field(
        default_factory=lambda: {kind: array("q") for kind in KINDS}
    )
    """For each type the offset, the number and the checksum of the line of every good record, one
    after the other; the number is below 0 where the record was not written as it is read."""
    keys: set[str] = field(default_factory=set)
    """The keys of all entities."""
    known: set[str] = field(default_factory=set)
    """The ids of all entities and chunks."""
    next: dict[str, str] = field(default_factory=dict)
    """What took the place of each memory or entity that something did."""
    wanted: dict[str, int] = field(default_factory=dict)
    """Every id that is referred to, and the first line that does so."""
    absent: set[str] = field(default_factory=set)
    """Those of them that are nowhere."""

    @property
    def is_export(self) -> bool:
        """Whether any line at least says that it is a record."""
        return (
            self.header is not None
            or any(self.places.values())
            or bool(set(self.refused) - {"line"})
        )

    def good(self) -> int:
        """How many records can be taken."""
        return sum(map(len, self.places.values())) // 3

    def refuse(self, kind: str, line: int, reason: str) -> None:
        self.refused[kind] += 1
        self.problems.append(Problem(line, reason))


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did, or would do: records by outcome and type, and what is to be said."""

    counts: dict[str, dict[str, int]]
    problems: list[Problem]
    conflicts: list[Problem]
    """Records that the file has with other values, which it keeps."""
    vectors: bool
    """Whether the export has vectors that fit."""
    wrote: bool
    secrets: list[str]
    """The kinds of secrets that it has, of which `[guard] mode` says what becomes."""


def take_in(
    file: Path,
    config: Config,
    *,
    strict: bool,
    dry_run: bool,
    told: Told = lambda done, of: None,
) -> Imported:
    """Import an export into the configured file; what is there already stays as it is.

    With `strict` nothing is imported if anything is wrong with the export; with `dry_run` nothing
    in any case. `told` is given how many more records are done, and of how many in all.
    """
    with _source(file) as source:
        judged = _judge(source, _Watch(Guard(config.guard_mode)))
        if not judged.is_export:
            raise InvalidInput("transfer.not_export", file=file)
        model = judged.model
        with looked_at(config.database_path) as store:
            _look_for_absent(judged, store)
            fits = _fits(model, store)
            if dry_run or (strict and judged.problems):
                compare = Intake(store, judged.keys).compare if store else _all_new
                return _imported(_Work(source, judged, compare, told), fits, wrote=False)
        with closing(SqliteStore.of(config)) as store:
            mark = store.adopt_model(model).mark if model and fits else ""
            intake = Intake(store, judged.keys, mark)
            return _imported(_Work(source, judged, intake.put, told, pause=PAUSE), fits, wrote=True)


def _all_new(kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
    """What would become of records where there is no file yet."""
    return ["new"] * len(records)


def _imported(work: "_Work", fits: bool, *, wrote: bool) -> Imported:
    counts = {kind: work.do(kind) for kind in KINDS}
    problems = sorted(work.judged.problems, key=lambda each: each.line)
    secrets = sorted(work.judged.secrets)
    return Imported(counts, problems, work.conflicts, fits, wrote, secrets)


@contextmanager
def looked_at(database: Path) -> Iterator[SqliteStore | None]:
    """The file as it is, without a trace; None where there is none yet."""
    if not database.exists() or not database.stat().st_size:
        yield None
        return
    with closing(Inspector(database)) as store:
        yield store


@contextmanager
def _source(file: Path) -> Iterator[IO[bytes]]:
    try:
        with file.open("rb") as source:
            yield source
    except OSError as error:
        raise InvalidInput("transfer.unreadable", file=file, error=error.strerror) from None


def _judge(source: IO[bytes], guard: _Watch) -> Judged:
    judged, offset = Judged(guard), 0
    for number, line in enumerate(source, start=1):
        if line.strip(b"\xef\xbb\xbf \t\r\n"):
            try:
                kind, record = _parsed(line)
            except InvalidInput as error:
                judged.refuse("line", number, str(error))
            else:
                if kind == "header" and not _begins(judged, record, number):
                    break
                if kind != "header":
                    _judge_record(judged, kind, record, (offset, number, crc32(line)))
        offset += len(line)
    _count(judged)
    _refuse_loops(judged.next)
    return judged


def _parsed(line: bytes) -> tuple[str, dict[str, Any]]:
    """The type of the record on a line, and the record without it."""
    try:
        table = _JSON.decode(line.removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError:
        raise InvalidInput("transfer.not_utf8") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput("transfer.not_json", error=error) from None
    kind = table.pop("type", None) if isinstance(table, dict) else None
    if kind != "header" and (not isinstance(kind, str) or kind not in RECORDS):
        raise InvalidInput("transfer.type", allowed=", ".join(KINDS))
    return kind, table


def _no_number(name: str) -> float:
    raise ValueError(name)


_JSON = json.JSONDecoder(parse_constant=_no_number)  # NaN and Infinity are no JSON


def _begins(judged: Judged, header: dict[str, Any], line: int) -> bool:
    """Whether a header may stand here; a file of several exports is read up to the second."""
    if judged.header is not None or any(judged.places.values()):
        judged.refuse("line", line, message("transfer.second"))
        return False
    version = header.get("version")
    if header.get("format") != FORMAT or version != VERSION:
        raise InvalidInput("transfer.version", version=version, known=VERSION)
    judged.header, judged.model = header, _model_in(header)
    return True


def _judge_record(
    judged: Judged, kind: str, table: dict[str, Any], place: tuple[int, int, int]
) -> None:
    offset, line, checksum = place
    try:
        record, secrets = guarded(judged.guard, kind, read_record(kind, table))
        _check_dimension(judged.model, record)
    except InvalidInput as error:
        judged.refuse(kind, line, str(error))
        return
    judged.secrets.update(secrets)
    plain = "vectors" not in record and record == table
    judged.places[kind].extend((offset, line if plain else -line, checksum))
    if kind == "entity":
        judged.keys.add(words.identity(record["id"]))
    if kind in ("entity", "chunk"):
        judged.known.add(record["id"])
        last = record["versions"][-1] if kind == "entity" else record
        if last["superseded_by"] is not None:
            judged.next[record["id"]] = last["superseded_by"]
    for each in _references(kind, record):
        judged.wanted.setdefault(each, line)


def _check_dimension(model: Model | None, record: Mapping[str, Any]) -> None:
    if model and "vectors" in record and record["vectors"].shape[1] != model.dim:
        raise InvalidInput("transfer.vectors")


def _references(kind: str, record: Mapping[str, Any]) -> Iterable[str]:
    """The ids that a record refers to."""
    if kind == "chunk":
        following = record["superseded_by"]
        return [*record["mentions"], *([following] if following else [])]
    if kind == "relation":
        return [record["source_id"], record["target_id"], *record["evidence"]]
    return []


def _refuse_loops(following: Mapping[str, str]) -> None:
    """Whoever follows versions to the last one has to arrive."""
    arrives: set[str] = set()
    for start in following:
        way, each = dict[str, None](), start
        while each in following and each not in arrives:
            if each in way:
                raise InvalidInput("transfer.loop", id=each)
            way[each] = None
            each = following[each]
        arrives.update(way)


def _count(judged: Judged) -> None:
    """Compare the number of lines with what the header says, which tells a file cut short."""
    promised = (judged.header or {}).get("records")
    if not isinstance(promised, dict):
        return
    lines = judged.good() + judged.refused.total()
    expected = sum(count for count in promised.values() if isinstance(count, int))
    if lines < expected:
        judged.refuse("line", 1, message("transfer.cut_short", expected=expected, found=lines))


def _look_for_absent(judged: Judged, store: SqliteStore | None) -> None:
    """Find what is referred to and is neither in the export nor in the file."""
    missing = [each for each in judged.wanted if each not in judged.known]
    if store and missing:
        missing = Intake(store, set()).absent(missing)
    judged.absent = set(missing)
    for each in missing:
        reason = message("transfer.absent", id=each)
        judged.problems.append(Problem(judged.wanted[each], reason))


def _model_in(header: Mapping[str, Any]) -> Model | None:
    """The model that a header names, if it does."""
    named = header.get("model")
    if named is None:
        return None
    try:
        return Model(
            Name(500).read("model.name", named["name"]),
            Integer(1, 8192).read("model.dim", named["dim"]),
            Number(-1, 1).read("model.unrelated", named["unrelated"]),
            tuple((float(mean), float(deviation)) for mean, deviation in named["noise"]),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("transfer.model") from None


def _fits(model: Model | None, store: SqliteStore | None) -> bool:
    """Whether an export's vectors are of the file's model, or the file has none yet."""
    if model is None or store is None:
        return model is not None
    with store.view() as view:
        known = view.model()
    return known is None or (known.name, known.dim) == (model.name, model.dim)


def _some(
    records: Iterator[tuple[int, dict[str, Any], int]], most: int
) -> Iterator[tuple[int, dict[str, Any], int]]:
    """The next records that make one transaction."""
    length = 0
    for each in islice(records, most):
        yield each
        length += each[2]
        if length > LENGTH:
            return


@dataclass(slots=True)
class _Work:
    """The second reading: good records, some at a time, and what became of them."""

    source: IO[bytes]
    judged: Judged
    put: Callable[[str, Sequence[dict[str, Any]]], list[Outcome]]
    told: Told
    pause: float = 0.0
    """Seconds between two transactions."""
    _pause_ends: float = 0.0
    conflicts: list[Problem] = field(default_factory=list)

    def do(self, kind: str) -> dict[str, int]:
        """Take in all records of a type; how many of each outcome."""
        done: Counter[str] = Counter(refused=self.judged.refused[kind])
        whole = self.judged.good()
        for batch in self._batches(kind):
            good = [each for each in batch if self._complete(kind, each[1])]
            time.sleep(max(0.0, self._pause_ends - time.monotonic()))
            outcomes = self.put(kind, [record for _, record in good])
            self._pause_ends = time.monotonic() + self.pause
            self._note([line for line, _ in good], outcomes)
            done.update(outcomes)
            done["refused"] += len(batch) - len(good)
            self.told(len(batch), whole)
        return {name: done[name] for name in ("new", "there", "conflict", "refused")}

    def _note(self, lines: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        for line, outcome in zip(lines, outcomes, strict=True):
            if outcome == "conflict":
                self.conflicts.append(Problem(line, message("transfer.conflict")))

    def _batches(self, kind: str) -> Iterator[list[tuple[int, dict[str, Any]]]]:
        """The good records with their lines; of each batch those that were written first lead."""
        number = "id" if kind in ("relation", "audit") else "seq"
        records = self._read(kind)
        while batch := list(_some(records, AT_ONCE[kind])):
            good = [(line, record) for line, record, _ in batch]
            yield sorted(good, key=lambda each: each[1].get(number) or 0)

    def _read(self, kind: str) -> Iterator[tuple[int, dict[str, Any], int]]:
        """Every good record of a type with the number of its line, and how long that is.

        Only what was judged is taken: raises InvalidInput where the file was changed since.
        """
        places = iter(self.judged.places[kind])
        for offset, line, checksum in zip(places, places, places, strict=True):
            self.source.seek(offset)
            content = self.source.readline()
            if crc32(content) != checksum:
                raise InvalidInput("transfer.changed", file=self.source.name)
            _, table = _parsed(content)
            if line < 0:
                table = guarded(self.judged.guard, kind, read_record(kind, table)).arguments
            yield abs(line), table, len(content)

    def _complete(self, kind: str, record: dict[str, Any]) -> bool:
        """Leave out of a record what it says of others that are nowhere; whether it still holds."""
        absent = self.judged.absent
        if kind == "chunk" and absent:
            mentions = record["mentions"].items()
            record["mentions"] = {each: origin for each, origin in mentions if each not in absent}
        if kind == "relation":
            record["evidence"] = [each for each in record["evidence"] if each not in absent]
            return not {record["source_id"], record["target_id"]} & absent
        return True


# --- Showing how far it is -------------------------------------------------------------


@contextmanager
def progress() -> Iterator[Told]:
    """A bar on stderr, if that is a terminal."""
    with tqdm(disable=not sys.stderr.isatty(), unit=" records", leave=False) as bar:

        def told(done: int, whole: int) -> None:
            bar.total = whole or None
            bar.update(done)

        yield told
