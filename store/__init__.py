"""The seam: all that the rest of the program may ask of a place where memories are kept.

`Store` writes and lends `View`s, which read. Whoever keeps memories in another way (`sqlite/` is
the one there is) has a class of the same name for each Protocol here; `opening.py` picks it. A part
of either has the name of what it is about: `store.entries.put(...)`, `view.entries.get(...)`.

Each call of a method that writes is one transaction, unless it says that it is several. Methods
raise MneloError: NotFound for an unknown id, InvalidInput for what is refused, StoreBusy after
waiting too long for others, StoreError where the place itself fails.

Rooms above import from here, `store.types` and `store.opening`, never from `store.sqlite`.

May import: config, core, index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from core.types import (
    Change,
    ChunkRow,
    EdgeRow,
    EntityNames,
    EntityRow,
    GraphBounds,
    LiveText,
    LogEntry,
    Merge,
    Model,
    Naming,
    NewChunk,
    NewRelation,
    Noise,
    Scope,
    StoredChunk,
    Vectors,
)
from store.types import (
    Counts,
    EntryMatrix,
    EntryRow,
    Erasing,
    Found,
    NewEntry,
    Outcome,
    Snapshot,
    TurnRow,
    WaitingText,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from index.chunks import Index
    from index.cue_index import CueHits, Edges

# --- Reading ---------------------------------------------------------------------------


class View(Protocol):
    """One borrowed way to read; for one thread at a time.

    Rows are live ones unless a Scope or `asof` looks back. `seq` is a chunk's number, `id` what a
    caller knows it by.
    """

    @property
    def cues(self) -> CueReads: ...
    @property
    def turns(self) -> TurnReads: ...
    @property
    def entries(self) -> EntryReads: ...
    @property
    def records(self) -> RecordReads: ...

    def reading(self) -> AbstractContextManager[None]:
        """Everything asked inside sees one moment, and is asked faster."""

    # -- for the lanes --

    def snapshot(self, *, past: bool = False) -> Snapshot:
        """The index and the links in memory, up to date: of live rows, or of all there ever was."""

    def term_numbers(self, terms: Sequence[str]) -> list[int | None]:
        """The number of each term in the index; None for one that no text ever had."""

    def chunks_with_tag_and_kind(self, scope: Scope) -> set[int] | None:
        """The seqs that a scope's tag and kind allow; None where it asks for neither."""

    def containing(
        self,
        literal: str,
        scope: Scope,
        limit: int,
        wanted: Callable[[list[int]], list[int]] = list,
    ) -> list[int]:
        """The first chunks, as they were stored, whose folded text has `literal` in it.

        `wanted` keeps those of some seqs that are in scope; it is asked for few at a time.
        """

    def filter_containing(self, literal: str, seqs: Sequence[int], limit: int) -> list[int]:
        """The first of some chunks whose folded text, tags or properties have `literal` in them."""

    def texts(self, seqs: Iterable[int]) -> dict[int, str]:
        """Text with tags and properties of each chunk."""

    def entities_named(self, keys: Iterable[str], scope: Scope) -> list[Naming]:
        """The entities that one of these keys names, longest name first."""

    def entities_named_like(self, parts: Iterable[str], scope: Scope) -> list[Naming]:
        """The entities with a word in a name that begins with one of the parts, in their order."""

    # -- the graph --

    def neighbours(self, nodes: Iterable[str], bounds: GraphBounds) -> list[str]:
        """The live nodes one relation away from any of some, heaviest relation first."""

    def edges_between(self, nodes: Iterable[str], bounds: GraphBounds) -> list[EdgeRow]:
        """Every relation with both ends among some nodes, heaviest first."""

    # -- rows --

    def chunks(self, keys: Iterable[str] | Iterable[int], scope: Scope) -> list[ChunkRow]:
        """Those of the chunks, meant by ids or by seqs, that are in scope, in the order given."""

    def chunk_ids(self, seqs: Iterable[int]) -> dict[int, str]:
        """The id of each chunk."""

    def latest_version(self, chunk_id: str) -> str:
        """The id of the last version of the memory that this id belongs to; NotFound if none."""

    def show_chunk(self, chunk_id: str) -> dict[str, Any]:
        """All that is known of a memory, live or closed, and the ids of its other versions."""

    def entities(self, ids: Iterable[str], scope: Scope) -> dict[str, EntityRow]:
        """Those of the entities that are live, or were at `asof`, and of the scope's kind."""

    def find_entity(self, reference: str, asof: str | None) -> str | None:
        """The id of the entity with this id, or with this name, alias or code and no other."""

    def show_entity(self, entity_id: str) -> dict[str, Any] | None:
        """All that is known of a live entity, but for its relations."""

    def entity_names(self, kind: str | None = None) -> list[EntityNames]:
        """Every live entity, of one kind or of all, with its names and its mentions counted."""

    def near_names(self, reference: str) -> list[str]:
        """Ids of live entities with a name that resembles this one, for an error's hint."""

    def history(self, limit: int, target: str | None, action: str | None) -> list[dict[str, Any]]:
        """The newest records of the audit, of one target or action where that is named."""

    # -- vectors, and counts --

    def model(self) -> Model | None:
        """The model whose vectors are stored, if any."""

    def model_version(self) -> str:
        """What that model and its vectors are known by; empty while there is none."""

    def pending(self, limit: int) -> list[ChunkRow]:
        """The oldest live chunks without vectors."""

    def pending_count(self) -> int: ...

    def vector_count(self) -> int:
        """How many vectors live chunks have."""

    def counts(self) -> dict[str, dict[str, int]]:
        """Chunks, entities and relations, each as total, active and deleted."""

    def latencies(self, since: str) -> list[tuple[float, bool]]:
        """Milliseconds of each recall since a moment, and whether it found nothing."""


class CueReads(Protocol):
    """Memories by their cues; only of a store that was opened with CueSettings."""

    def search(
        self,
        text: str,
        limit: int,
        edges: Edges,
        *,
        asof: str | None = None,
        allowed: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
    ) -> CueHits:
        """The memories that a text's cues lead to, best first; see index/cue_index.py."""

    def names(self, numbers: Iterable[int]) -> dict[int, str]:
        """What some cues are; an erased one is left out."""

    def waiting_count(self) -> int:
        """How many chunks, closed ones too, have no cues yet."""


class TurnReads(Protocol):
    """Rounds of conversations."""

    def of_session(self, session_id: str) -> list[TurnRow]:
        """The live rounds of a session, in the order in which they were."""

    def at(self, seqs: Iterable[int]) -> list[TurnRow]:
        """Those of some chunks that are live rounds, in the order given."""

    def versions(self, session_id: str, round_id: str) -> list[TurnRow]:
        """Every version of a round, live or closed."""

    def sessions(self) -> list[str]:
        """Every session that has a live round."""


class EntryReads(Protocol):
    """Entries of the timeline, live ones."""

    def get(self, entry_id: str) -> EntryRow:
        """The entry that an id, of any version, belongs to; NotFound where none is live."""

    def at(self, seqs: Iterable[int]) -> list[EntryRow]:
        """Those of some chunks that are entries, in the order given."""

    def of_group(self, group_id: str) -> list[EntryRow]:
        """The entries of a group, oldest first."""

    def segments(self, seq: int, limit: int, offset: int) -> list[str]:
        """Some segments of an entry's context, in order."""

    def groups(self) -> dict[str, set[int]]:
        """The entries of every group, by their seqs."""

    def last_grouping(self) -> dict[str, Any]:
        """How groups were last looked for; nothing where they never were."""

    def revision(self) -> tuple[int | None, int]:
        """What changes whenever some entry or its merged vector does."""

    def membership(self) -> tuple[int, int | None, int | None]:
        """What differs whenever other entries are live."""

    def matrix(self, made_by: str) -> EntryMatrix:
        """The merged vectors of all entries, of the model of that version."""

    def unmerged(self, made_by: str, limit: int) -> list[tuple[int, str, list[str]]]:
        """Some entries without a merged vector of that model: seq, summary, tags."""

    def unmerged_count(self, made_by: str) -> int: ...

    def lasting(self) -> tuple[list[tuple[int, str, str]], Vectors]:
        """Entries that do not expire and have a vector, oldest first: seq, id, summary; vectors."""

    def counts(self) -> dict[str, Any]:
        """How many entries there are, of each kind, and segments of contexts."""

    def settings_table(self) -> dict[str, str]:
        """What stands in the table of settings, where anybody may have put anything."""


class RecordReads(Protocol):
    """Everything that is stored, for an export, and texts for an import."""

    def counts(self) -> dict[str, int]:
        """How many records an export has, by their type."""

    def all(self, *, vectors: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every record with its type, in one order whatever the row numbers are."""

    def live_texts(self) -> Iterator[LiveText]:
        """Every live memory, oldest first, with the entities that it is linked with."""

    def texts_of_source(self, source: str) -> Iterator[tuple[str, str, str, bool]]:
        """Every text of a source with its session and time, and whether it is live; that last."""


# --- Writing ---------------------------------------------------------------------------


class Store(Protocol):
    """A memory that is open. Safe for many threads; several processes may have it open.

    `client` is who asks for a change, for the audit.
    """

    read_only: bool
    path: Path
    """What it is called: its file, or where it is reached."""
    schema_version: int
    """The newest version of the schema that this program knows."""

    @property
    def file(self) -> StoredFile | None:
        """What can be done with the file that holds it; None of a store that is no file."""

    @property
    def turns(self) -> TurnWrites: ...
    @property
    def entries(self) -> EntryWrites: ...
    @property
    def cues(self) -> CueWrites: ...
    @property
    def next_vectors(self) -> NextVectors: ...
    @property
    def erasure(self) -> Erasure: ...
    @property
    def upkeep(self) -> Upkeep: ...

    def close(self) -> None: ...

    def view(self) -> AbstractContextManager[View]:
        """Borrow one View; never waits, so whoever holds a set may do it."""

    def views(self) -> AbstractContextManager[Mapping[str, View]]:
        """Borrow a set of Views, one for each lane; waits while all sets are lent."""

    def job_lock(self, job: str) -> JobLock:
        """The right to do a job that one process at a time may do."""

    def intake(self, listed: Set[str], made_by: str = "", records: int = 0) -> Intake:
        """Takes in the records of an export, so many: `listed` are the keys of its entities,
        `made_by` the version of its vectors' model."""

    # -- memories --

    def put_chunks(self, chunks: Sequence[NewChunk], client: str) -> list[StoredChunk]:
        """Store memories, or find them stored, with all that hangs on them; all or none."""

    def replace_chunk(
        self, chunk_id: str, change: Change, reason: str, client: str
    ) -> tuple[str, str]:
        """Close the current version and open the next; ids of the new and the closed one.

        The ids are the same where the change changes nothing.
        """

    def forget_chunk(
        self, chunk_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        """Close a memory; how many chunks and how many relations were closed."""

    def written_index(self) -> Index:
        """The index of live chunks with what this process has just written."""

    # -- entities and relations --

    def put_relation(self, relation: NewRelation, client: str) -> tuple[int, str]:
        """Store a relation; its id and what was done."""

    def forget_relation(self, relation_id: int, reason: str, client: str) -> int:
        """Close a relation; 0 where it was closed."""

    def forget_entity(
        self, entity_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        """Close an entity; how many entities and how many relations were closed."""

    def merge_entities(self, keep: str, duplicate: str, reason: str, client: str) -> Merge | None:
        """Make two entities one; None where they are already."""

    def undo_merge(self, audit_id: int, client: str) -> int:
        """Take a merge back; how many were."""

    def undo(self, audit_id: int, client: str) -> dict[str, Any]:
        """Put every row back that a recorded action changed; what was undone, and its record."""

    # -- the model, and the log of recalls --

    def adopt_model(self, model: Model) -> Model:
        """Record the model of an untouched memory; the one it has, if another was first."""

    def put_noise(self, noise: Noise) -> None:
        """Record what the model makes of unrelated texts, where that is not known yet."""

    def put_vectors(self, rows: Sequence[tuple[int, Vectors]], made_by: str) -> int:
        """Give waiting chunks, by seq, their vectors; how many still waited and were live.

        None do where the memory has another model by now than the one of the version `made_by`.
        """

    def log_recalls(self, entries: Sequence[LogEntry]) -> None:
        """Write the log of recalls, and count each returned row; for one thread only."""


class JobLock(Protocol):
    """The right to do a job; whoever ends, or is killed, leaves it free."""

    @property
    def is_locked(self) -> bool: ...
    def acquire(self, timeout: float) -> object:
        """Raises filelock.Timeout where another process does the job."""

    def release(self) -> None: ...


class TurnWrites(Protocol):
    """Rounds of conversations."""

    def put(self, chunk: NewChunk, round_id: str | None, asked: int, client: str) -> str:
        """Store a round, by default the next of its session; its id.

        The same round again closes the row that it had; without a time it keeps the one that it
        had, and the same text again changes nothing.
        """

    def close(self, rounds: Iterable[tuple[str, str]], client: str) -> int:
        """Forget rounds, each by its session and its own id, in a transaction each; how many."""


class EntryWrites(Protocol):
    """Entries of the timeline."""

    def put(self, entry: NewEntry, client: str) -> StoredChunk:
        """Store an entry, or find the very same one; its context may have been added to since."""

    def add_context(self, entry_id: str, segments: Sequence[str], client: str) -> tuple[str, bool]:
        """Add segments to an entry's context; its current id, and whether they were new."""

    def put_merged(self, rows: Sequence[tuple[int, Vectors]], made_by: str) -> int:
        """Give live entries, by seq, their merged vectors, if the memory's model made them."""

    def put_groups(self, groups: Mapping[str, Iterable[int]], found_by: str) -> None:
        """Replace all groups by these, of seqs of entries; `found_by` says how, as JSON."""

    def expire(self, entry: tuple[int, str], at: str, reason: str, client: str) -> bool:
        """Let an entry, by its seq and id, end at a moment, unless it ends anyway."""

    def close_overdue(self, client: str) -> int:
        """Close every entry whose time is over, in a transaction each; how many."""


class CueWrites(Protocol):
    """Cues of memories, found in their texts."""

    def index(self, seconds: float) -> int:
        """Write the cues of chunks that have none, while there is time; how many are left."""


class NextVectors(Protocol):
    """The vectors of another model, which are made beside those in use and then replace them.

    Each step is one short transaction, and any may be the last: another run goes on from there.
    """

    def model(self) -> Model | None:
        """The model of vectors that were begun and do not serve yet."""

    def left(self, *, anew: bool) -> tuple[int, int]:
        """How many texts have no vectors of the next model, and their characters in all.

        `anew` counts every text.
        """

    def sample(self, most: int) -> list[WaitingText]:
        """Some texts from all over the memory."""

    def growth_bytes(self, windows: int, dim: int) -> int:
        """About by how much so many vectors let the store grow."""

    def begin(self, model: Model) -> None:
        """Make room for a model's vectors; what was begun of another one is dropped."""

    def texts(self, after: int, most: int) -> list[WaitingText]:
        """The next texts, in the order of `seq`, that have no vectors yet."""

    def put(self, rows: Sequence[tuple[WaitingText, Vectors]]) -> None:
        """Keep the vectors of some texts, but for those that were changed meanwhile."""

    def update_live(self) -> None:
        """Follow what was closed or opened meanwhile."""

    def switch(self, model: Model) -> None:
        """Let the next vectors be the memory's; texts that came last wait for theirs."""

    def drop(self, *, next_too: bool = True) -> None:
        """Drop the vectors that were in use before a switch, and those that were begun."""


class Intake(Protocol):
    """Records of an export on their way in; nothing that is there changes.

    Entities come first, then chunks, relations and the audit; what they refer to is there, or
    among them. A run that was killed is made whole by another with the same records.
    """

    def compare(self, kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        """What would become of each record; nothing is written."""

    def put(self, kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        """Put in those records that are not there; what became of each."""

    def absent(self, ids: Iterable[str]) -> list[str]:
        """Those of some ids that neither an entity nor a chunk has."""


# --- Care ------------------------------------------------------------------------------


class Upkeep(Protocol):
    """What keeps a memory small, quick and sound."""

    def trim_logs(self, log_rows: int, audit_rows: int) -> int:
        """Drop the oldest rows beyond these numbers, a thousand at a time; how many."""

    def purge(self, before: str, stop: Callable[[], bool]) -> int:
        """Remove for good what was closed before a moment, in small steps; how many rows went.

        `stop` is asked between them, and may take its time to let others write.
        """

    def optimize(self) -> bool:
        """Bring the statistics for plans up to date; False while somebody writes."""

    def check(
        self, seconds: float = float("inf"), *, whole: bool = True
    ) -> tuple[dict[str, int], bool]:
        """How many rows break what is promised, by fault, all 0 in a sound memory; and whether the
        time sufficed to look for all of them. Without `whole` no index is compared with its table.
        """

    def repair_vectors(self, *, dry_run: bool) -> dict[str, int]:
        """Mend vectors, windows and marks that are out of step; how many rows of each kind."""

    def reindex(self) -> int:
        """Write anew what the text indexes lack, hold wrongly or cannot read; how many rows."""

    def remove_orphans(self) -> int:
        """Remove what belongs to a chunk, a relation or an entity that never was; how many."""


class Erasure(Protocol):
    """Removing something for real, with its history and its bytes."""

    def find(self, what: Erasing) -> Found:
        """What an erasure would remove; NotFound where there is nothing of that name."""

    def erase(self, what: Erasing, client: str) -> Counter[str]:
        """Remove rows, their history and all that is known of them; how many of each kind.

        The bytes are gone after `finish`; until then `is_unfinished` says so.
        """

    def is_unfinished(self) -> bool:
        """Whether something was erased whose bytes may still be there."""

    def finish(self, seconds: float) -> bool:
        """Remove the bytes; False while others are using the memory for that long."""


class Inspection(Store, Protocol):
    """A memory as it is, of any version or damaged: opening it changes and migrates nothing."""

    version: int
    """The version of its schema."""
    log_lost: bool
    """Whether the log beside it was found missing or cut short when it was opened."""

    @property
    def file(self) -> StoredFile: ...

    def kinds(self) -> list[tuple[str, int]]:
        """The kinds of live entities, most frequent first, and how many there are of each."""

    def waiting_since(self) -> str | None:
        """When the chunk was written that has waited longest for its vectors."""

    def first_written(self) -> str | None:
        """When the first memory was written."""

    def newest_texts(self, limit: int) -> Iterator[tuple[str, str]]:
        """The newest live memories: the id of each, and its text with its context."""


# --- Files -----------------------------------------------------------------------------


class StoredFile(Protocol):
    """What only a memory in one file has."""

    def sizes(self) -> dict[str, int]:
        """`db_bytes` of the file and `wal_bytes` of its write-ahead log."""

    def has_large_log(self) -> bool:
        """Whether the log has grown so far that it should be brought in at once."""

    def checkpoint(self, seconds: float = 0.05) -> bool:
        """Bring the log into the file and empty it; False while somebody uses it that long."""


class FileCopies(Protocol):
    """Whole copies of a memory's file, for backups and restores."""

    def copy(self, path: Path, target: Path, stop: Callable[[], bool]) -> Counts:
        """Copy a memory as of one moment into an empty file, while others write; what it held.

        Raises StoreError, also where `stop` ends it, and OSError where the disk is full.
        """

    def examine(self, path: Path, shown: Path, stop: Callable[[], bool]) -> Counts:
        """Read a file that nobody writes to from end to end; what it holds.

        Raises StoreError, about the file `shown`, if anything is wrong with it.
        """

    def claimed_bytes(self, header: bytes) -> int:
        """How large a file is, by its first 100 bytes; 0 where they are not those of a database."""

    def exclusive(self, path: Path) -> AbstractContextManager[Callable[[BinaryIO], None]]:
        """Keep every other program from an existing file; gives a way to copy its bytes.

        Raises StoreBusy while any has it open.
        """
