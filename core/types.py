"""What goes into the store and what comes out of it, as plain values."""

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

BATCH_ROWS = 2000  # rows of the file that are gone through at a time; more leave a core's cache
_NEVER = np.datetime64("10000-01-01", "ms").astype(np.int64)  # after all that can be stored

Row = TypeVar("Row")
Vectors = NDArray[np.float32]
"""One row per window of a text, each of length 1."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which chunks a search may return; None asks nothing. `asof` looks back in time."""

    asof: str | None = None
    source: str | None = None
    kind: str | None = None
    tag: str | None = None
    session_id: str | None = None
    time_from: str | None = None
    time_to: str | None = None
    min_importance: float | None = None

    @property
    def current(self) -> bool:
        """Whether every live chunk is in scope."""
        return not self._asked()

    @property
    def only_chunks(self) -> bool:
        """Whether something is asked that an entity cannot satisfy."""
        return bool(self._asked() - {"asof", "kind"})

    def _asked(self) -> set[str]:
        return {name for name in self.__slots__ if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True)
class NewEntity:
    """An entity as a caller gives it; None keeps what is known."""

    id: str
    kind: str | None = None
    name: str | None = None
    summary: str | None = None
    aliases: Sequence[str] = ()
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewRelation:
    source_id: str
    target_id: str
    relation: str
    weight: float = 1.0
    valid_from: str | None = None
    valid_until: str | None = None
    evidence_chunk_id: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)


TIMELINE = "timeline"
"""The source of entries of the timeline, whose vectors are of their text alone."""


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A memory to store; `vectors` None means it waits for them."""

    content: str
    source: str
    session_id: str
    importance: float
    timestamp: str | None
    tags: Sequence[str] = ()
    entities: Sequence[NewEntity] = ()
    relations: Sequence[NewRelation] = ()
    vectors: Vectors | None = None
    made_by: str = ""
    """The version of the model that made the vectors."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an update changes; None keeps what is there."""

    content: str | None = None
    importance: float | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    vectors: Vectors | None = None
    made_by: str = ""
    """As of NewChunk."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    seq: int
    id: str
    new: bool
    entity_ids: list[str]
    pending: bool


class IndexRow(NamedTuple):
    """What the index in memory knows of one chunk."""

    seq: int
    rev: int
    """Grows with every change of a chunk: what is above an index's own is news to it."""
    place: int
    """The seq of the memory's first version, which keeps its place in the session."""
    flags: int
    speaker: str
    terms: bytes
    """The numbers of its own terms, each once: uint32, little-endian."""
    weights: bytes
    """For each term how often it has it, in halves, at most 255: uint8."""
    session_id: str
    source: str
    timestamp: str
    importance: float
    valid_from: str
    valid_until: str | None


class LinkedRelation(NamedTuple):
    """What the links in memory know of one relation; an end that is a chunk is its seq."""

    id: int
    source: str | int
    target: str | int
    weight: float
    valid_from: str
    valid_until: str | None


Incidence = tuple[str | int, str]
"""An entity's id, or a chunk's seq, and numbers that hang on it, with commas between them."""


class RelationColumns(NamedTuple):
    """All relations, read as long texts: what takes longest is to make values of each row."""

    relations: Iterable[tuple[str, str, str, str]]
    """Ids, weights, and when they begin and end, of many in any order, with commas between."""
    sources: Iterable[Incidence]
    """The ids of the relations that lead from each node."""
    targets: Iterable[Incidence]
    """The ids of the relations that lead to each node."""


@dataclass(frozen=True, slots=True)
class ChunkRow:
    seq: int
    id: str
    content: str
    source: str
    timestamp: str
    importance: float


@dataclass(frozen=True, slots=True)
class LiveText:
    """A live memory as it was given, and the ids of the entities it is linked with."""

    id: str
    content: str
    source: str
    session_id: str
    timestamp: str
    entities: Sequence[str]


@dataclass(frozen=True, slots=True)
class EntityRow:
    id: str
    kind: str
    name: str
    summary: str
    importance: float
    valid_from: str


@dataclass(frozen=True, slots=True)
class EntityNames:
    """An entity by all its names, which begin with its id and its name."""

    id: str
    kind: str
    names: tuple[str, ...]
    mentions: int


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge of two entities did, and the number of its record."""

    audit_id: int
    relations: int
    mentions: int


@dataclass(frozen=True, slots=True)
class Naming:
    """A name of an entity that a search found, and the key it was found by."""

    entity_id: str
    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class EdgeRow:
    id: int
    source_id: str
    target_id: str
    relation: str
    weight: float
    properties: dict[str, Any]
    valid_from: str
    valid_until: str | None
    evidence_chunk_id: str | None


@dataclass(frozen=True, slots=True)
class GraphBounds:
    """Which relations a walk may use: those that hold at a moment, of some types or of any."""

    at: str
    asof: str | None = None
    types: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One answered recall, for recall_log."""

    query: str
    strategy: str
    results: Sequence[str]
    details: Sequence[dict[str, Any]]
    graph_hops: int
    latency_ms: float
    client: str
    created_at: str


Noise = tuple[tuple[float, float], ...]
"""How near a model puts a question and a text that have nothing to do with each other: mean
cosine and deviation, four pairs. The pair at 2 * q + t is that of questions (q) and texts (t) in
scripts with spaces (0) or without (1)."""


@dataclass(frozen=True, slots=True)
class Model:
    """The model whose vectors a file holds. `unrelated` is its median cosine of two texts that
    have nothing to do with each other."""

    name: str
    dim: int
    unrelated: float
    noise: Noise = ()
    version: str = ""
    """Its name and when the file took it: vectors of two versions are never compared."""


def in_batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Some thousand rows at a time: their texts are in memory no longer than needed."""
    left = iter(rows)
    while block := list(islice(left, BATCH_ROWS)):
        yield block


def milliseconds(moments: Sequence[str | None]) -> NDArray[np.int64]:
    """Stored times as numbers in the same order; None is after all of them.

    >>> milliseconds(["1970-01-01T00:00:01.500Z"]).tolist()
    [1500]
    """
    numbers = np.full(len(moments), _NEVER)
    given = [place for place, moment in enumerate(moments) if moment]
    without_zone = np.array([moments[place] for place in given], "S23")  # cut off
    numbers[given] = without_zone.astype("M8[ms]").astype(np.int64)
    return numbers


def new_chunk_id(now: str) -> str:
    """`chunk_`, the time and a random part: sortable, and unique across processes."""
    return f"chunk_{re.sub('[-:.]', '', now)}_{secrets.token_hex(6)}"


_CHUNK_ID = re.compile(r"chunk_\d{8}T\d{9}Z_[0-9a-f]{12}")


def is_chunk_id(reference: str) -> bool:
    """Whether an id has the form of a chunk's; any other names an entity."""
    return _CHUNK_ID.fullmatch(reference) is not None
