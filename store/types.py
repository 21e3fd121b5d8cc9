"""What passes through the seam of a store and nowhere else: settings, values, results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from core.types import NewChunk, Vectors
from index.calibration import Scripts
from index.chunks import Index
from index.links import Links

# --- Reading ---------------------------------------------------------------------------


@dataclass
class Snapshot:
    """What a process has of a memory in its own memory, as of one moment."""

    index: Index
    links: Links
    change: int
    """The last of the recorded changes that the links know of."""
    relation: int
    """The last relation that they know of."""

    def is_behind(self, rev: int, change: int, relation: int) -> bool:
        """Whether there are later changes than those."""
        return rev > self.index.rev or change > self.change or relation > self.relation


# --- Cues ------------------------------------------------------------------------------


class CueExtractor(Protocol):
    """Finds the cues of a text (text/cues.py)."""

    @property
    def signature(self) -> str:
        """What the cues depend on: those found in another way are found again."""

    def __call__(self, text: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class CueSettings:
    """How memories are found by cues."""

    extractor: CueExtractor
    pause_minutes: float
    """A longer pause in a session begins another event."""


# --- Rounds of conversations -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A round of a conversation as it is stored; `asked` characters of it are the person's."""

    seq: int
    id: str
    session_id: str
    round_id: str
    content: str
    asked: int
    timestamp: str


# --- Entries of the timeline -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to store: a chunk with five tags, and what comes with it."""

    chunk: NewChunk
    category: str
    expires_at: str | None
    context: Sequence[str]
    """The segments of its context, if it has one."""
    merged: Vectors | None
    """None where it waits for it; else made by the model of the chunk's vectors."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A live entry as it is stored; `segments` is how many its context has."""

    seq: int
    id: str
    summary: str
    tags: list[str]
    category: str
    created_at: str
    expires_at: str | None
    segments: int
    group_ids: list[str]


@dataclass(frozen=True, slots=True)
class EntryMatrix:
    """The merged vectors of all live entries that have one: float32, (entries, dim)."""

    seqs: NDArray[np.int64]
    expires: NDArray[np.int64]
    """When, in milliseconds; what never does is after all moments."""
    scripts: Scripts
    """1 for a summary in a script without spaces."""
    vectors: Vectors
    waiting: int
    """How many entries have none yet."""


# --- Another model ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitingText:
    """A memory, of any time, that has no vectors of the next model yet."""

    seq: int
    hash: int
    content: str
    source: str
    timestamp: str


# --- Imports, erasures, copies ---------------------------------------------------------


Outcome = Literal["new", "there", "conflict"]
"""What becomes of a record: it is put in, it is there as it is, or it is there and says other."""


@dataclass(frozen=True, slots=True)
class Erasing:
    """What is to be erased: one memory, one entity, or all that is from a source."""

    chunk: str | None = None
    entity: str | None = None
    source: str | None = None
    session: str | None = None
    with_memories: bool = False

    @property
    def kind(self) -> str:
        return "chunk" if self.chunk else "entity" if self.entity else "source"

    @property
    def shown(self) -> str:
        """What the audit may keep of its name: the id of a memory says nothing of it."""
        return self.chunk or "-"


@dataclass(frozen=True, slots=True)
class Found:
    """What an erasure finds: memories and their versions, entities, and how some memories begin."""

    memories: int
    versions: int
    entities: int
    texts: list[str]


@dataclass(frozen=True, slots=True)
class Counts:
    """What a file holds: its schema, live memories and closed ones, live entities and relations."""

    schema: int
    memories: int
    closed: int
    entities: int
    relations: int


Salvaged = Mapping[str, tuple[int, int]]
"""Of each table of a damaged file, how many rows were saved, and how many were lost."""
