"""Entries of a timeline: a summary, five tags and a context each, in groups of what is alike.

An entry is a chunk of the same memory, so recall finds it too. Here it is found by one vector, the
mean of the vectors of its summary and its tags: a question's product with that is the mean of its
six products. Nothing of this is loaded unless the server offers the timeline tools.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from config import Config
from core import timestamps
from core.errors import NotFound
from core.types import TIMELINE, NewChunk, Scope, Vectors, milliseconds
from embedder import embed
from embedding.model import FileModel
from embedding.vectors import Embedding
from index.calibration import scaled
from index.fields import UNNAMED
from mnelo_locale import message
from store import Store, View
from store.types import EntryMatrix, EntryRow, NewEntry
from text import words
from text.guard import Guard
from text.segments import cut
from timeline.arguments import contract
from timeline.groups import Grouping
from timeline.keeper import Doubles, TimelineKeeper
from timeline.scale import EntryScale, measured, merged
from timeline.settings import Settings, in_force

BATCH_ENTRIES = 8  # entries that wait for their vectors and get them before a query is answered
TOP_TAGS = 3  # of a group, in the list of all
MAX_SHOWN = 100  # groups, or members of one, in one answer


@dataclass(frozen=True, slots=True)
class TimelineContext:
    """What the timeline uses of the memory whose file it shares."""

    store: Store
    config: Config
    guard: Guard
    client: ContextVar[str]
    embedding: Embedding
    by_words: Callable[[str, int], list[str]]
    """Ids of what is found without vectors, best first."""


class Timeline:
    """The ten tools for entries; each is one public method with the tool's arguments.

    Safe for use by many threads. Methods raise MneloError, whose text is fit to show a person.
    """

    def __init__(self, context: TimelineContext) -> None:
        self._context, self._store = context, context.store
        self._embedding = context.embedding
        self._contract = contract(context.config)
        self._matrices = Matrices()
        self._grouping = Grouping(context.store)
        self._keeper: TimelineKeeper | None = None
        self._doubles = Doubles()
        self._scale_lock = threading.Lock()
        self._measured: EntryScale | None = None
        self._failed: set[tuple[str, int]] = set()  # by model and seq: what it failed over

    def keep(self) -> None:
        """Begin to keep the entries in the background: vectors, groups, what expires."""
        if self._keeper is None and not self._store.read_only:
            self._keeper = TimelineKeeper(self._store, self.settings, self)
            self._keeper.start()

    def close(self) -> None:
        """End what runs in the background; the memory is closed by who opened it."""
        if self._keeper:
            self._keeper.stop()

    def settings(self) -> tuple[Settings, list[str]]:
        """The settings in force, and what is wrong in the table of them."""
        with self._store.view() as view:
            return in_force(self._context.config, view.entries.settings_table())

    # -- writing --

    def write(self, data: Any) -> dict[str, Any]:
        """Store an entry with all its vectors; the very same one again is found, not doubled."""
        read = self._contract.read("memory_write", {"data": data})["data"]
        safe = self._context.guard.check(read, "data")
        entry = self._new_entry(safe.arguments)
        stored = self._store.entries.put(entry, self._context.client.get())
        if stored.pending:
            self._embedding.wake()
        with self._store.view() as view:
            row = view.entries.get(stored.id)
        return {
            "timeline_id": row.id,
            "status": "stored" if stored.new else "exists",
            "segments": row.segments,
            "expires_at": row.expires_at,
            "embedding": self._embedding_state(waits=stored.pending),
            **self._context.guard.notice(safe.kinds),
        }

    def _new_entry(self, given: Mapping[str, Any]) -> NewEntry:
        settings, _ = self.settings()
        summary, mean, made_by = self._vectors(given["summary"], given["tags"])
        chunk = NewChunk(
            content=given["summary"],
            source=TIMELINE,
            session_id=UNNAMED,
            importance=0.5,
            timestamp=None,
            tags=given["tags"],
            vectors=summary,
            made_by=made_by,
        )
        passing = given["is_time_sensitive"]
        expires = timestamps.in_days(settings.default_ttl_days) if passing else None
        context = _segments(given["context_text"] or "", settings)
        return NewEntry(chunk, given["category"], expires, context, mean)

    def write_context(self, timeline_id: str, context_text: str) -> dict[str, Any]:
        """Add to an entry's context; what it ends with already is not added again."""
        given = {"timeline_id": timeline_id, "context_text": context_text}
        read = self._contract.read("memory_write_context", given)
        safe = self._context.guard.check({"context_text": read["context_text"]})
        added = _segments(safe.arguments["context_text"], self.settings()[0])
        entry, new = self._store.entries.add_context(
            read["timeline_id"], added, self._context.client.get()
        )
        with self._store.view() as view:
            count = view.entries.get(entry).segments
        return {
            "timeline_id": entry,
            "status": "stored" if new else "exists",
            "added": len(added) if new else 0,
            "segments": count,
            **self._context.guard.notice(safe.kinds),
        }

    # -- reading --

    def query(
        self, query: str, *, top_k: int | None = None, score_threshold: float | None = None
    ) -> dict[str, Any]:
        """The entries that fit a question best, and how well: `score` is 0 for an unrelated text
        and 1 for the same, `cosine` the mean of the six cosines as the model has them."""
        given = {"query": query, "top_k": top_k, "score_threshold": score_threshold}
        read = self._contract.read("memory_query", given)
        asked, why_none = self._embedding.of_question(read["query"])
        model = self._embedding.model(0)
        if asked is None or model is None or model.known.version != asked.model.version:
            return self._query_by_words(read["query"], read["top_k"], why_none)
        least = read["score_threshold"]
        if least is None:
            least = self.settings()[0].score_threshold
        zeros = self.scale(model).questions[int(words.is_unspaced(read["query"]))]
        with self._store.view() as view:
            matrix = self._matrices.current(view, model.known.version)
            if matrix.waiting and self.merge(BATCH_ENTRIES):
                matrix = self._matrices.current(view, model.known.version)
            cosines = matrix.vectors @ asked.vector if len(matrix.seqs) else np.zeros(0, np.float32)
            scores = scaled(cosines, zeros[matrix.scripts])
            best, most = _best(scores, matrix, least, read["top_k"])
            rows = {row.seq: row for row in view.entries.at(matrix.seqs[best].tolist())}
        found = [(rows.get(int(matrix.seqs[at])), at) for at in best]
        results = [
            self._shown(row)
            | {"score": round(float(scores[at]), 4), "cosine": round(float(cosines[at]), 4)}
            for row, at in found
            if row
        ]
        notices = [] if results else [_nothing(most, least)]
        notices += [message("notice.pending", count=matrix.waiting)] if matrix.waiting else []
        return {"results": results} | ({"notice": " ".join(notices)} if notices else {})

    def _query_by_words(self, query: str, top_k: int, why_none: str) -> dict[str, Any]:
        """Entries that have the question's words, where no vectors are to be had."""
        ids = self._context.by_words(query, top_k)
        with self._store.view() as view:
            seqs = [row.seq for row in view.chunks(ids, Scope())] if ids else []
            rows = view.entries.at(seqs)
        now = timestamps.now()
        there = [row for row in rows if row.expires_at is None or row.expires_at > now]
        results = [self._shown(row) | {"score": None, "cosine": None} for row in there]
        found = [] if results else [message("notice.nothing")]
        why_none = why_none or self._embedding.why_none()
        return {"results": results, "notice": " ".join([*found, why_none])}

    def get_context(
        self, timeline_id: str, *, offset: int | None = None, limit: int | None = None
    ) -> dict[str, Any]:
        """Segments of an entry's context, which follow one another without anything between."""
        given = {"timeline_id": timeline_id, "offset": offset, "limit": limit}
        read = self._contract.read("memory_get_context", given)
        first = read["offset"]
        with self._store.view() as view:
            row = view.entries.get(read["timeline_id"])
            texts = view.entries.segments(row.seq, read["limit"], first)
        return {
            "timeline_id": row.id,
            "segments": [
                {"index": at, "text": text, **self._context.guard.caution(text)}
                for at, text in enumerate(texts, first)
            ],
            "total": row.segments,
            "has_more": first + len(texts) < row.segments,
        }

    # -- groups --

    def get_groups(self, entry_id: str) -> dict[str, Any]:
        """The groups that an entry belongs to."""
        read = self._contract.read("memory_get_groups", {"entry_id": entry_id})
        with self._store.view() as view, view.reading():
            row, members = view.entries.get(read["entry_id"]), view.entries.groups()
        groups = [{"group_id": each, "members": len(members[each])} for each in row.group_ids]
        return {"entry_id": row.id, "groups": groups}

    def list_groups(self) -> dict[str, Any]:
        """The largest groups with their commonest tags, and how all were found."""
        with self._store.view() as view, view.reading():
            grouping = view.entries.last_grouping()
            members = view.entries.groups()
            seqs = sorted(set().union(*members.values()))
            tags = {row.seq: row.tags for row in view.entries.at(seqs)}
        listed = [
            {
                "group_id": group,
                "members": len(found),
                "tags": _commonest(tags[seq] for seq in sorted(found)),
            }
            for group, found in sorted(members.items(), key=lambda each: (-len(each[1]), each[0]))
        ]
        return {"groups": listed[:MAX_SHOWN], **grouping, **self._grouping.notice()}

    def get_group_members(self, group_id: str) -> dict[str, Any]:
        """The entries of a group, oldest first; of a very large one the first, and how many."""
        read = self._contract.read("memory_get_group_members", {"group_id": group_id})
        with self._store.view() as view:
            rows = view.entries.of_group(read["group_id"])
        if not rows:
            raise NotFound("missing.group", id=read["group_id"])
        shown = [self._shown(row) for row in rows[:MAX_SHOWN]]
        return {"group_id": read["group_id"], "total": len(rows), "members": shown}

    def rebuild_groups(self, *, threshold: float | None = None) -> dict[str, Any]:
        """Look for the groups now; where that takes too long the last ones stay, and it says so."""
        read = self._contract.read("memory_rebuild_groups", {"threshold": threshold})
        while self.merge(BATCH_ENTRIES):
            pass
        return self.regroup(read["threshold"])

    def regroup(self, threshold: float | None = None) -> dict[str, Any]:
        """The same, of checked arguments, and of entries that have their vectors."""
        model = self._embedding.model(self._context.config.embedder_wait_seconds)
        if model is None:
            return {"status": "off", "notice": self._embedding.why_off()}
        settings, _ = self.settings()
        with self._store.view() as view:
            matrix = self._matrices.current(view, model.known.version)
        zeros = self.scale(model).entries
        return self._grouping.rebuild(matrix, zeros, settings, threshold)

    def _shown(self, row: EntryRow) -> dict[str, Any]:
        return _entry(row) | self._context.guard.caution(row.summary, row.tags)

    # -- state --

    def init(self) -> dict[str, Any]:
        """Make sure that all is ready: the file is open, and the model loaded if there is one."""
        ready = self._embedding.model(self._context.config.embedder_wait_seconds) is not None
        notice = {} if ready else {"notice": self._embedding.why_off()}
        return {"status": "ready", "vectors": ready, **self._counted(), **notice}

    def status(self) -> dict[str, Any]:
        """What there is, which settings are in force, and what was last done to keep it."""
        settings, wrong = self.settings()
        with self._store.view() as view:
            known, grouping = view.model(), view.entries.last_grouping()
            waiting = view.entries.unmerged_count(known.version if known else "")
        return {
            **self._counted(),
            "pending": waiting,
            "model": known.name if known else None,
            "groups": grouping | self._grouping.notice(),
            "settings": {name: getattr(settings, name) for name in Settings.__slots__},
            "upkeep": self._keeper.report() if self._keeper else {"keeping": False},
            **({"wrong_settings": wrong} if wrong else {}),
        }

    def mark_duplicates(self) -> int:
        """Let the newer of two entries that say nearly the same expire; how many were marked."""
        model, (settings, _) = self._embedding.model(0), self.settings()
        return self._doubles.mark(self._store, model, settings) if model else 0

    def _counted(self) -> dict[str, Any]:
        with self._store.view() as view:
            return view.entries.counts() | {"database": str(self._store.path)}

    # -- vectors --

    def merge(self, limit: int) -> int:
        """Give some waiting entries their merged vector, if there is a model; how many it tried.

        One that the model fails over is tried only once, so it never blocks the others.
        """
        model = self._embedding.model(0)
        if model is None or self._store.read_only:
            return 0
        version, failed = model.known.version, len(self._failed)
        with self._store.view() as view:
            waiting = view.entries.unmerged(version, limit + failed)
        due = [row for row in waiting if (version, row[0]) not in self._failed][:limit]
        made = [(seq, _embedded(model, [text, *tags])) for seq, text, tags in due]
        self._failed.update((version, seq) for seq, vectors in made if vectors is None)
        rows = [(seq, merged(vectors)) for seq, vectors in made if vectors is not None]
        stored = self._store.entries.put_merged(rows, version) if rows else 0
        return stored + len(due) - len(rows)

    def _vectors(
        self, summary: str, tags: Sequence[str]
    ) -> tuple[Vectors | None, Vectors | None, str]:
        """The summary's own vector, the merged one, and their model's version; None without one."""
        model = self._embedding.model(0)
        made = _embedded(model, [summary, *tags]) if model else None
        if model is None or made is None:
            return None, None, ""
        return made[:1], merged(made), model.known.version

    def scale(self, model: FileModel) -> EntryScale:
        """The model's scale, measured when it is first needed."""
        with self._scale_lock:
            if self._measured is None or self._measured.version != model.known.version:
                self._measured = measured(model, model.known.version)
            return self._measured

    def _embedding_state(self, *, waits: bool) -> str:
        if not waits:
            return "stored"
        off = self._embedding.why_off() and self._embedding.model(0) is None
        return "off" if off else "pending"


class Matrices:
    """The merged vectors of all entries in memory, read anew when one has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: object = None
        self._matrix: EntryMatrix | None = None

    def current(self, view: View, version: str) -> EntryMatrix:
        with self._lock, view.reading():
            key = (version, view.entries.revision())
            if self._matrix is None or key != self._key:
                self._key, self._matrix = key, view.entries.matrix(version)
            return self._matrix


def _embedded(model: FileModel, texts: Sequence[str]) -> Vectors | None:
    """The vectors of short texts; None where the model fails over one, so that all wait."""
    made = [vectors[0] for vectors in embed(model, texts) if vectors is not None]
    return np.stack(made) if len(made) == len(texts) else None


def _best(
    scores: NDArray[np.float32], matrix: EntryMatrix, least: float, top_k: int
) -> tuple[list[int], float | None]:
    """The places of the best entries that reach a score, best first, and the best score of all."""
    now = milliseconds([timestamps.now()])[0]
    there = np.flatnonzero(matrix.expires > now)
    if not len(there):
        return [], None
    # Of equal scores the newer one is first.
    order = there[np.lexsort((-matrix.seqs[there], -scores[there]))][:top_k]
    return [at for at in order.tolist() if scores[at] >= least], float(scores[order[0]])


def _nothing(most: float | None, least: float) -> str:
    if most is None:
        return message("notice.nothing")
    return message("timeline.nothing", best=max(most, 0.0), least=least)


def _entry(row: EntryRow) -> dict[str, Any]:
    return {
        "timeline_id": row.id,
        "summary": row.summary,
        "tags": row.tags,
        "category": row.category,
        "create_timestamp": row.created_at,
        "is_time_sensitive": row.expires_at is not None,
        **({"expires_at": row.expires_at} if row.expires_at else {}),
        "group_ids": row.group_ids,
        "segments": row.segments,
    }


def _commonest(tags: Any) -> list[str]:
    counted = Counter(tag for each in tags for tag in each)
    return [tag for tag, _ in counted.most_common(TOP_TAGS)]


def _segments(text: str, settings: Settings) -> list[str]:
    return cut(text, settings.chunk_size, settings.context_separators)
