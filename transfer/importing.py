"""Import of an export: the whole file is checked first, then imported in batches."""

import codecs
import json
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from tqdm import tqdm

from access.validation import Integer, Name, Number
from config import Config
from core import files
from core.errors import InvalidInput
from core.types import Model
from mnelo_locale import message
from store import Store
from store.opening import inspect, open_store
from store.types import Outcome
from text import words
from text.guard import Guard
from transfer.records import FORMAT, KINDS, RECORDS, VERSION, Progress, Watch, guarded, read_record

BATCH_RECORDS = {"entity": 150, "chunk": 150, "relation": 1000, "audit": 3000}
BATCH_BYTES = 400_000
"""Records of one transaction and bytes of their lines, at most: some 50 ms, in which other
writers wait."""

PAUSE = 0.025
"""Seconds between transactions, in which others find the file free: they look that often."""


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

    guard: Watch
    secrets: set[str] = field(default_factory=set)  # the kinds that it found
    header: dict[str, Any] | None = None
    model: Model | None = None  # the model whose vectors the export has, if it has any
    problems: list[Problem] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """How many records cannot be taken, by their type, or as `line` where that is unknown."""
    places: "dict[str, array[int]]" = field(
        default_factory=lambda: {kind: array("q") for kind in KINDS}
    )
    """For each type the offset, the number and the checksum of the line of every good record, one
    after the other; the number is below 0 where the record was not written as it is read."""
    keys: set[str] = field(default_factory=set)  # the keys of all entities
    known: set[str] = field(default_factory=set)  # the ids of all entities and chunks
    next: dict[str, str] = field(default_factory=dict)
    """What took the place of each memory or entity that something did."""
    wanted: dict[str, int] = field(default_factory=dict)
    """Every id that is referred to, and the first line that does so."""
    absent: set[str] = field(default_factory=set)  # those of them that are nowhere

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
    conflicts: list[Problem]  # records that the file has with other values, which it keeps
    vectors: bool  # whether the export has vectors that fit
    wrote: bool
    secrets: list[str]
    """The kinds of secrets that it has, and SPEAKS, of which `[guard]` says what becomes."""


def import_file(
    file: Path,
    config: Config,
    *,
    strict: bool,
    dry_run: bool,
    progress: Progress = lambda done, of: None,
) -> Imported:
    """Import an export into the configured file; what is there already stays as it is.

    With `strict` nothing is imported if anything is wrong with the export; with `dry_run` nothing
    in any case.
    """
    with _source(file) as source:
        judged = _judge(source, Watch(Guard(config.guard_mode, config.guard_instructions)))
        if not judged.is_export:
            raise InvalidInput("transfer.not_export", file=file)
        model = judged.model
        with looked_at(config.database_path) as store:
            _look_for_absent(judged, store)
            fits = _fits(model, store)
            if dry_run or (strict and judged.problems):
                compare = store.intake(judged.keys).compare if store else _all_new
                return _imported(_Work(source, judged, compare, progress), fits, wrote=False)
        with closing(open_store(config)) as store:
            version = store.adopt_model(model).version if model and fits else ""
            intake = store.intake(judged.keys, version, judged.good())
            return _imported(
                _Work(source, judged, intake.put, progress, pause=PAUSE), fits, wrote=True
            )


def _all_new(kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
    """What would become of records where there is no file yet."""
    return ["new"] * len(records)


def _imported(work: "_Work", fits: bool, *, wrote: bool) -> Imported:
    counts = {kind: work.do(kind) for kind in KINDS}
    problems = sorted(work.judged.problems, key=lambda each: each.line)
    secrets = sorted(work.judged.secrets)
    return Imported(counts, problems, work.conflicts, fits, wrote, secrets)


@contextmanager
def looked_at(database: Path) -> Iterator[Store | None]:
    """The database, opened to read only; None where there is none yet."""
    if not database.exists() or not database.stat().st_size:
        yield None
        return
    with closing(inspect(database)) as store:
        yield store


@contextmanager
def _source(file: Path) -> Iterator[IO[bytes]]:
    try:
        with files.reading(file) as source:
            yield source
    except OSError as error:
        raise InvalidInput("transfer.unreadable", file=file, error=error.strerror) from None


def _judge(source: IO[bytes], guard: Watch) -> Judged:
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
    """Refuse versions that follow each other in a circle."""
    arrives: set[str] = set()
    for start in following:
        path, each = dict[str, None](), start
        while each in following and each not in arrives:
            if each in path:
                raise InvalidInput("transfer.loop", id=each)
            path[each] = None
            each = following[each]
        arrives.update(path)


def _count(judged: Judged) -> None:
    """Compare the number of lines with what the header says, which tells a file cut short."""
    promised = (judged.header or {}).get("records")
    if not isinstance(promised, dict):
        return
    lines = judged.good() + judged.refused.total()
    expected = sum(count for count in promised.values() if isinstance(count, int))
    if lines < expected:
        judged.refuse("line", 1, message("transfer.cut_short", expected=expected, found=lines))


def _look_for_absent(judged: Judged, store: Store | None) -> None:
    """Find what is referred to and is neither in the export nor in the file."""
    missing = [each for each in judged.wanted if each not in judged.known]
    if store and missing:
        missing = store.intake(set()).absent(missing)
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


def _fits(model: Model | None, store: Store | None) -> bool:
    """Whether an export's vectors are of the file's model, or the file has none yet."""
    if model is None or store is None:
        return model is not None
    with store.view() as view:
        known = view.model()
    return known is None or (known.name, known.dim) == (model.name, model.dim)


def _some(
    records: Iterator[tuple[int, dict[str, Any], int]], limit: int
) -> Iterator[tuple[int, dict[str, Any], int]]:
    """The next records for one transaction."""
    length = 0
    for each in islice(records, limit):
        yield each
        length += each[2]
        if length > BATCH_BYTES:
            return


@dataclass(slots=True)
class _Work:
    """The second pass: imports the good records in batches, and counts the outcomes."""

    source: IO[bytes]
    judged: Judged
    put: Callable[[str, Sequence[dict[str, Any]]], list[Outcome]]
    progress: Progress
    pause: float = 0.0  # seconds between two transactions
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
            self.progress(len(batch), whole)
        return {name: done[name] for name in ("new", "there", "conflict", "refused")}

    def _note(self, lines: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        for line, outcome in zip(lines, outcomes, strict=True):
            if outcome == "conflict":
                self.conflicts.append(Problem(line, message("transfer.conflict")))

    def _batches(self, kind: str) -> Iterator[list[tuple[int, dict[str, Any]]]]:
        """The good records with their lines; of each batch those that were written first lead."""
        number = "id" if kind in ("relation", "audit") else "seq"
        records = self._read(kind)
        while batch := list(_some(records, BATCH_RECORDS[kind])):
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
        """Drop a record's references to absent ones; False where it means nothing without them."""
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
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr, if that is a terminal."""
    with tqdm(disable=not sys.stderr.isatty(), unit=" records", leave=False) as bar:

        def progress(done: int, whole: int) -> None:
            bar.total = whole or None
            bar.update(done)

        yield progress
