"""Memory that agents share: one SQLite file, four ways to find things, one ranking.

The file reads top to bottom: the class, its tools (each one public method, which is an MCP
tool of the server), upkeep, and what is inside. Memory checks arguments, gives times and
vectors, plans a recall and explains it; the store knows the file, the lanes know how to look,
answers.py how to reply.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import embedder
import entity_resolve
from access import validation
from access.validation import Choice, Id, Integer, Name, Number
from config import LANES, VERSION, Config
from core import timestamps
from core.errors import ConfigError, InvalidInput, MneloError, ModelError, NotFound
from core.results import (
    Duplicates,
    Forgotten,
    Graph,
    Hit,
    Lane,
    Merged,
    Recalled,
    Related,
    Remembered,
    Similar,
    Updated,
)
from core.types import (
    TIMELINE,
    Change,
    ChunkRow,
    GraphBounds,
    LogEntry,
    Model,
    NewChunk,
    NewEntity,
    NewRelation,
    Scope,
    Vectors,
    is_chunk_id,
)
from embedder import Embedder, ModelLoader, OfFile
from index.calibration import scaled
from index.chunks import UNSPACED, Index
from index.names import NOBODY
from mnelo_locale import message
from recall import hits as hits_module
from recall.answerability import is_known
from recall.fusion import best_rows
from recall.hits import Fusion
from recall.lanes import SEEDS, cue_lane, entity_lane, graph_lane, meta_lane, vector_lane
from recall.log import RecallLog
from recall.neighbourhood import Walk, neighbourhood
from recall.query import ENTITY, Query, Ranking
from store import (
    SCHEMA_VERSION,
    CueSettings,
    Erasing,
    Found,
    SqliteStore,
    View,
    index_cues,
    uncued_count,
)
from text import dates, words
from text.guard import Guard
from upkeep import backup
from upkeep.keeper import Keeper

if TYPE_CHECKING:
    from timeline.timeline import Timeline

log = logging.getLogger("mnelo")

CLIENT: ContextVar[str] = ContextVar("mnelo_client", default="python")
"""Who is calling, for the audit and the log of recalls."""

ALONE: dict[Lane, Callable[[View, Query], Ranking]] = {
    "vector": vector_lane,
    "meta": meta_lane,
    "entity": entity_lane,
}
"""The lanes that start from the query; graph starts from what they found."""

ACTIONS = (
    *("remember", "entity", "relate", "update", "forget", "merge", "undo", "erase"),
    *("context", "mark"),
)
"""What the audit has records of."""

MOST_RECORDS = 10_000
READER_SETS = 4
MOST_IN_TURN = 500_000  # memories; of more the lanes gain by threads what handing over costs
INLINE_CHARACTERS = 4000  # a longer text gets its vectors after the answer
FILL_FIRST = 64  # waiting chunks that a recall embeds before it answers
CUES_SECONDS = 2.0  # that a recall spends on memories whose cues were never read
SIMILAR = 3
SIMILAR_FROM = 0.8  # of the way from unrelated (0) to identical (1)


class Memory:
    """The facade: every tool of the server is one public method with the tool's arguments.

    Opens or makes the file; `path` beats the settings, which are read from the environment and
    config.toml where none are given. Safe for use by many threads, and several processes may
    have the same file open. Methods raise MneloError, whose text is fit to show a person.

    >>> from tempfile import TemporaryDirectory
    >>> settings = Config.load({}, embedder_model="none")
    >>> with TemporaryDirectory() as folder, Memory(f"{folder}/m.db", config=settings) as memory:
    ...     _ = memory.remember("The kettle is in the attic.", source="home")
    ...     [hit["content"] for hit in memory.recall("kettle")["hits"]]
    ['The kettle is in the attic.']
    """

    # -- opening and closing --

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        config: Config | None = None,
        load_model: Callable[[str | None], Embedder] | None = None,
    ) -> None:
        """`load_model` replaces the choice of a model: it is given the name in the file, if any."""
        self.config = config or Config.load()
        self._contract = validation.contract(self.config)
        self._zone = timestamps.zone(self.config.timezone)
        self._fusion = _fusion(self.config)
        self._guard = Guard(self.config.guard_mode)
        self._placeholders = {words.name_key(each) for each in self.config.recall_placeholders}
        self._lanes = cast("tuple[Lane, ...]", _lanes(self.config))
        cues, self._cues_off = _cues(self.config)
        if self._cues_off:
            log.warning("%s", self._cues_off)
        self.path = Path(path or self.config.database_path).expanduser().absolute()
        self._store = self._open(cues)
        self._by_cues: dict[Lane, Callable[[View, Query], Ranking]] = (
            {"cue": _by_cues(self.config)} if cues else {}
        )
        self._load_model = load_model or (lambda recorded: embedder.load(self.config, recorded))
        self._models = ModelLoader(self._model_for_file)
        self._failed: set[tuple[str, int]] = set()  # by model and seq: what it failed over
        self._mark = ""  # of the file's model, when it was last loaded or could not be
        self._closing = threading.Event()
        self._work = threading.Event()
        self._fill_lock, self._start_lock = threading.Lock(), threading.Lock()
        self._log = RecallLog(self._store)
        self._keeper: Keeper | None = None
        self._pool = ThreadPoolExecutor(READER_SETS * len(ALONE), thread_name_prefix="mnelo-lane")
        self._filler = threading.Thread(target=self._fill_all, name="mnelo-vectors", daemon=True)
        if self.config.warm_up_embedder:
            self._model(0)

    def _open(self, cues: CueSettings | None) -> SqliteStore:
        return SqliteStore(
            self.path,
            busy_seconds=self.config.database_busy_seconds,
            synchronous=self.config.database_synchronous,
            cache_mb=self.config.database_cache_mb,
            lanes=self._lanes,
            reader_sets=READER_SETS,
            cues=cues,
        )

    def close(self) -> None:
        """Finish what was begun and close the file."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._work.set()
        if self._filler.ident is not None:
            self._filler.join(timeout=10)
        self._pool.shutdown()
        self._log.close()
        if self._keeper:
            self._keeper.stop()
        self._store.close()

    def __enter__(self) -> "Memory":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- writing --

    def remember(
        self,
        content: str,
        *,
        source: str = "manual",
        importance: float = 0.5,
        entities: Sequence[Any] = (),
        relations: Sequence[Mapping[str, Any]] = (),
        tags: Sequence[str] = (),
        session_id: str = "default",
        timestamp: str = "",
    ) -> Remembered:
        """Store a memory with what it is about; the same live memory again is folded into it."""
        given = {
            "content": content,
            "source": source,
            "importance": importance,
            "entities": entities,
            "relations": relations,
            "tags": tags,
            "session_id": session_id,
            "timestamp": timestamp,
        }
        (result,) = self._remember([self._contract.read("memory_remember", given)])
        return result

    def remember_many(self, items: Sequence[Mapping[str, Any]]) -> list[Remembered]:
        """Store many memories, each a mapping of remember's arguments, all of them or none."""
        return self._remember(self._contract.read_many("memory_remember", items), "items")

    def relate(
        self,
        source_id: str,
        target_id: str,
        relation: str,
        *,
        weight: float = 1.0,
        valid_from: str = "",
        valid_until: str = "",
        evidence_chunk_id: str = "",
        properties: Mapping[str, Any] | None = None,
    ) -> Related:
        """Connect two entities or memories; the same relation again is changed, not doubled."""
        given = {
            "source_id": source_id,
            "target_id": target_id,
            "relation": relation,
            "weight": weight,
            "valid_from": valid_from,
            "valid_until": valid_until,
            "evidence_chunk_id": evidence_chunk_id,
            "properties": properties,
        }
        safe = self._guard.check(self._contract.read("memory_relate", given))
        read = _relation(safe.arguments, "valid_until")
        relation_id, status = self._store.put_relation(read, CLIENT.get())
        return {"relation_id": relation_id, "status": status, **self._guard.told(safe.kinds)}

    def forget(
        self,
        target_id: str | int,
        *,
        target_kind: str = "chunk",
        reason: str = "outdated",
        cascade: bool = True,
    ) -> Forgotten:
        """Close a memory, an entity or a relation. The row stays, so its history does too."""
        given = {
            "target_id": target_id,
            "target_kind": target_kind,
            "reason": reason,
            "cascade": cascade,
        }
        read = self._contract.read("memory_forget", given)
        # Of the arguments only the reason is stored.
        read |= self._guard.check({"reason": read["reason"]}).arguments
        target, client = read["target_id"], CLIENT.get()
        edges = 0
        if read["target_kind"] == "relation":
            number = self._contract.relation_id(target)
            count = self._store.close_relation(number, read["reason"], client)
        elif read["target_kind"] == "entity":
            target = target.removeprefix(ENTITY)
            count, edges = self._store.close_entity(target, read["reason"], read["cascade"], client)
        else:
            count, edges = self._store.close_chunk(target, read["reason"], read["cascade"], client)
        return {"forgotten": count, "edges_invalidated": edges}

    def update(
        self,
        old_id: str,
        *,
        new_content: str = "",
        reason: str = "updated",
        new_importance: float | None = None,
        new_properties: Mapping[str, Any] | None = None,
    ) -> Updated:
        """Open the next version of a memory and close the current one, whichever id is given."""
        given = {
            "old_id": old_id,
            "new_content": new_content,
            "reason": reason,
            "new_importance": new_importance,
            "new_properties": new_properties,
        }
        safe = self._guard.check(self._contract.read("memory_update", given))
        read = safe.arguments
        content, importance = read["new_content"], read["new_importance"]
        if content is None and importance is None and not read["new_properties"]:
            raise InvalidInput("update.nothing")
        made = None if content is None else self._vectors_of_next(read["old_id"], content)
        change = Change(content, importance, read["new_properties"], *(made or ()))
        new, old = self._store.replace_chunk(read["old_id"], change, read["reason"], CLIENT.get())
        self._work.set()
        return {
            "new_chunk_id": new,
            "supersedes": old,
            "status": "unchanged" if new == old else "updated",
            **self._guard.told(safe.kinds),
        }

    # -- reading --

    def recall(
        self,
        query: str,
        *,
        top_k: int | None = None,
        graph_hops: int | None = None,
        filters: Mapping[str, Any] | None = None,
        strategy: str = "rrf",
        asof: str = "",
        explain: bool = False,
        max_tokens: int = 8000,
    ) -> Recalled:
        """The memories that the lanes together rank highest, best first, and why if asked.

        `top_k` is 5 and `graph_hops` 2 if not given, or less where the settings allow less.
        """
        given = {
            "query": query,
            "top_k": top_k,
            "graph_hops": graph_hops,
            "filters": filters,
            "strategy": strategy,
            "asof": asof,
            "explain": explain,
            "max_tokens": max_tokens,
        }
        read = self._contract.read("memory_recall", given)
        if words.name_key(read["query"]) in self._placeholders:
            return {"hits": [], "notice": message("notice.placeholder")}
        started, asked = time.perf_counter(), timestamps.now()
        found, notices = self._find(read, asked)
        shown = hits_module.fit(found, read["max_tokens"], read["query"])
        if len(shown) < len(found):
            notices.append(message("notice.budget", left=len(found) - len(shown)))
        if not self._store.read_only:
            logged = {**read, "query": self._guard.unlogged(read["query"])}
            self._log.add(_log_entry(logged, found, asked, time.perf_counter() - started))
        return {"hits": shown, "notice": " ".join(notices)} if notices else {"hits": shown}

    def graph_query(
        self,
        start_node: str,
        *,
        max_hops: int | None = None,
        edge_types: Sequence[str] = (),
        asof: str = "",
        limit: int | None = None,
    ) -> Graph:
        """What is connected with an entity or a memory, nearest and heaviest first.

        `max_hops` is 3 and `limit` 200 nodes if not given, or less where the settings allow less.
        """
        given = {
            "start_node": start_node,
            "max_hops": max_hops,
            "edge_types": edge_types,
            "asof": asof,
            "limit": limit,
        }
        read = self._contract.read("memory_graph_query", given)
        with self._store.view() as view:
            at = read["asof"] or timestamps.now()
            walk = Walk(
                start=_start(view, read["start_node"], read["asof"]),
                hops=read["max_hops"],
                limit=read["limit"],
                bounds=GraphBounds(at, read["asof"], read["edge_types"]),
            )
            return neighbourhood(view, walk)

    def stats(self) -> dict[str, Any]:
        """Counts, sizes, the state of model and lanes, and how recalls went in the last 24 h."""
        self._log.flush()
        self._follow()
        day_ago = timestamps.stamp(datetime.now(timezone.utc) - timedelta(days=1))
        with self._store.view() as view:
            counts, recalls = view.counts(), view.latencies(day_ago)
            vectors, pending, model = view.vector_count(), view.pending_count(), view.model()
            uncued = {"without_cues": uncued_count(view)} if self._by_cues else {}
        sizes = self._store.sizes()
        return {
            **counts,
            "vectors": vectors,
            "pending": pending,
            **uncued,
            "embedder": self._embedder_state(model),
            "lanes": {lane: self._lane_state(lane) for lane in self._lanes},
            # Whole: all is in the one file, so that a plain copy of it is a full backup.
            "db": {"path": str(self.path), **sizes, "whole": not sizes["wal_bytes"]},
            "recall_24h": latency(recalls),
            "upkeep": self._keeper.report() if self._keeper else {"keeping": False},
            "backup": backup.state(
                self.config.backup_folder, self.path.stem, self.config.backup_every_hours
            ),
            "version": VERSION,
            "schema": SCHEMA_VERSION,
        }

    def show_chunk(self, chunk_id: str) -> dict[str, Any]:
        """A memory with all that is known of it, also a closed one, by its own id."""
        with self._store.view() as view:
            return view.show_chunk(chunk_id.strip())

    def show_entity(self, entity_id: str) -> dict[str, Any]:
        """A live entity with all that is known of it and its heaviest relations."""
        around = self.graph_query(entity_id, max_hops=1)
        found = around["nodes"][0]["id"]
        with self._store.view() as view:
            shown = view.show_entity(found)
        if shown is None:
            raise NotFound("missing.entity", id=entity_id, near="-")
        relations = [
            edge for edge in around["edges"] if found in (edge["source_id"], edge["target_id"])
        ]
        return {**shown, "relations": relations}

    # -- entities --

    def find_duplicates(
        self, kind: str = "", *, threshold: float = entity_resolve.NEARLY
    ) -> Duplicates:
        """Pairs of entities that may be one, surest first; `partial` if time ran out."""
        only = Name(64).read("kind", kind) if kind else None
        least = Number(0, 1).read("threshold", threshold)
        with self._store.view() as view:
            known = view.entity_names(only)
        candidates, complete = entity_resolve.find(known, least)
        return {
            "candidates": [
                {
                    "keep": each.keep,
                    "duplicate": each.duplicate,
                    "score": each.score,
                    "reason": each.reason,
                }
                for each in candidates
            ],
            "partial": not complete,
        }

    def merge_entities(self, keep: str, duplicate: str, *, reason: str = "duplicate") -> Merged:
        """Make one entity of two: `keep` takes the other's names, mentions and relations."""
        ids = (Id().read("keep", keep), Id().read("duplicate", duplicate))
        done = self._store.merge_entities(*ids, Name(500).read("reason", reason), CLIENT.get())
        return {
            "merged": 0 if done is None else 1,
            "audit_id": None if done is None else done.audit_id,
            "relations": 0 if done is None else done.relations,
            "mentions": 0 if done is None else done.mentions,
        }

    def undo_merge(self, audit_id: int) -> int:
        """Put every row back as it was before a merge; 0 if that was done already."""
        number = Integer(1, (1 << 63) - 1).read("audit_id", audit_id)
        return self._store.undo_merge(number, CLIENT.get())

    # -- looking back, and out of mind --

    def undo(self, audit_id: int) -> dict[str, Any]:
        """Put everything back as it was before a forget, an update, a relate or a merge.

        `audit_id` is what history calls it. Refused, with the reason, where it was done already
        or where a later action builds on it; nothing is changed then.
        """
        number = Integer(1, (1 << 63) - 1).read("audit_id", audit_id)
        done = self._store.undo(number, CLIENT.get())
        self._work.set()
        return done

    def history(
        self, limit: int = 20, target: str | None = None, action: str | None = None
    ) -> list[dict[str, Any]]:
        """What was done, newest first: of all, of one target in all its versions, of one action."""
        most = Integer(1, MOST_RECORDS).read("limit", limit)
        wanted = None if target is None else Id().read("target", target)
        done = None if action is None else Choice(ACTIONS).read("action", action)
        return self._store.history(most, wanted, done)

    def erasing(self, what: Erasing) -> Found:
        """What an erasure would remove; NotFound where there is nothing of that name."""
        return self._store.erasing(what)

    def erase(self, what: Erasing) -> dict[str, int]:
        """Remove something for real, with its history; how much of what. finish_erasing follows."""
        return dict(self._store.erase(what, CLIENT.get()))

    def waits_for_erasing(self) -> bool:
        """Whether the bytes of something erased may still be in the file."""
        return self._store.waits_for_erasing()

    def finish_erasing(self, seconds: float) -> bool:
        """Write the file anew without what was erased; False while others are using it."""
        return self._store.finish_erasing(seconds)

    # -- the timeline --

    def timeline(self) -> "Timeline":
        """The tools for entries of the timeline, in this file and with this model."""
        from timeline.timeline import Surroundings, Timeline

        return Timeline(
            Surroundings(
                self._store,
                self.config,
                self._guard,
                CLIENT,
                self._model,
                self._vector_or_why,
                self._vectors_off,
                self._entries_by_words,
                self._work.set,
            )
        )

    def _entries_by_words(self, query: str, top_k: int) -> list[str]:
        hits = self.recall(query, top_k=top_k, filters={"source": TIMELINE}, max_tokens=0)["hits"]
        return [hit["chunk_id"] for hit in hits if is_chunk_id(hit["chunk_id"])]

    # -- upkeep --

    def keep(self) -> None:
        """Begin to keep the file in the background, until this memory is closed."""
        if self._keeper is None and not self._store.read_only:
            self._keeper = Keeper(self._store, self.config)
            self._keeper.start()

    def wait_for_model(self, seconds: float | None) -> bool:
        """Whether the model is there within that time; None waits until that is known."""
        return self._model(seconds) is not None

    def fill_pending(self, progress: Callable[[int], object] = lambda count: None) -> int:
        """Give every waiting memory its vectors now; how many got them.

        `progress` is told after each batch how many have. Raises ModelError without a model.
        """
        waiting = self._pending_count()
        model = self._model(None)
        if model is None:
            raise ModelError("notice.vectors_off", reason=self._models.reason)
        while self._fill(model):
            progress(waiting - self._pending_count())
        return waiting - self._pending_count()

    def _pending_count(self) -> int:
        with self._store.view() as view:
            return view.pending_count()

    def repair_vectors(self, *, dry_run: bool = False) -> dict[str, int]:
        """Mend what must not be: vectors, windows and marks out of step with the memories."""
        return self._store.repair_vectors(dry_run=dry_run)

    # -- inside: remembering --

    def _remember(self, items: Sequence[dict[str, Any]], name: str = "") -> list[Remembered]:
        """Store checked items; `name` is what the list is called in an error."""
        now, model = timestamps.now(), self._model(0)
        places = [f"{name}[{at}]" if name else "" for at in range(len(items))]
        safe = list(map(self._guard.check, items, places))
        items = [each.arguments for each in safe]
        vectors = self._vectors(
            model, [(item["content"], item["source"], item["timestamp"] or now) for item in items]
        )
        made_by = model.known.mark if model else ""
        chunks = [_chunk(item, each, made_by) for item, each in zip(items, vectors, strict=True)]
        stored = self._store.put_chunks(chunks, CLIENT.get())
        if any(each.pending for each in stored):
            self._work.set()
        off = self._off()
        results: list[Remembered] = [
            {
                "chunk_id": each.id,
                "status": "stored" if each.new else "exists",
                "entities": each.entity_ids,
                "embedding": "stored" if not each.pending else "off" if off else "pending",
            }
            for each in stored
        ]
        if model and len(items) == 1 and vectors[0] is not None:
            similar = self._similar(model, stored[0].seq, items[0]["content"], vectors[0])
            results[0].update({"similar": similar} if similar else {})
        told = [self._guard.told(each.kinds) for each in safe]
        return [{**result, **said} for result, said in zip(results, told, strict=True)]

    def _vectors(
        self, model: OfFile | None, texts: Sequence[tuple[str, str, str]]
    ) -> list[Vectors | None]:
        """The vectors of texts, each with its source and time; None for one that is to wait.

        It waits where it is too long to be waited for, and all do until the model is there.
        """
        short = [text for text in texts if len(text[0]) <= INLINE_CHARACTERS]
        if model is None or not short:
            return [None] * len(texts)
        made = iter(self._embed(model, [passage(*text, self._zone) for text in short]))
        return [next(made) if len(text[0]) <= INLINE_CHARACTERS else None for text in texts]

    def _vectors_of_next(self, chunk_id: str, content: str) -> tuple[Vectors | None, str] | None:
        """The vectors of the text that is to replace a memory's, and their model's mark."""
        if (model := self._model(0)) is None:
            return None
        with self._store.view() as view:
            current = view.chunks([view.latest_version(chunk_id)], Scope())
        texts = [(content, row.source, row.timestamp) for row in current]
        return (self._vectors(model, texts)[0], model.known.mark) if texts else None

    def _embed(self, model: Embedder, passages: Sequence[str]) -> list[Vectors | None]:
        """A model that fails over a text keeps no memory from being stored: it waits instead."""
        return embedder.embed(model, passages, self._closing.is_set)

    def _similar(self, model: OfFile, seq: int, text: str, vectors: Vectors) -> list[Similar]:
        """Live memories that say nearly the same as one, on the scale of every model."""
        index = self._store.written_index()
        if index.model != model.known.mark:
            return []
        zeros = model.zeros[int(words.is_unspaced(text))]
        with index.lock:
            live = index.field("live")
            cosine = index.meaning(vectors[0], live, live).cosine
            unspaced = index.field("flags") & UNSPACED > 0
            score = scaled(cosine, np.where(unspaced, zeros[1], zeros[0])) * live
            near = best_rows(score, index, SIMILAR + 1)
            found = zip(
                index.seqs_of(near), cosine[near].tolist(), score[near].tolist(), strict=True
            )
        told = {each[0]: each[1:] for each in found if each[0] != seq and each[2] >= SIMILAR_FROM}
        if not told:
            return []
        with self._store.view() as view:
            rows = view.chunks(list(told)[:SIMILAR], Scope())
        return [_similar(row.id, *told[row.seq]) for row in rows]

    # -- inside: recalling --

    def _find(self, read: Mapping[str, Any], asked: str) -> tuple[list[Hit], list[str]]:
        uses_vectors = self._uses("vector", read["strategy"])
        vector, failed = self._vector_or_why(read["query"]) if uses_vectors else (None, "")
        uncued = self._read_cues() if self._uses("cue", read["strategy"]) else 0
        fusion = self._fusion if read["strategy"] == "rrf" else self._fusion.of_one_lane()
        with self._store.views() as views:
            view = views["graph"]
            with view.reading():
                query = self._query(view, read, asked, vector)
                rankings, notices = self._rank(views, query, read["strategy"], failed)
            fused = hits_module.fuse(query, rankings, fusion)
            with view.reading():  # anew: what was changed meanwhile is shown as it is now
                found = hits_module.hits(
                    view, query, fused, top_k=read["top_k"], explain=read["explain"]
                )
                pending = view.pending_count() if uses_vectors and not self._off() else 0
        if found and not is_known(query, fused.rankings, fused.rows):
            notices.append(message("notice.weak"))
            for hit in found:
                hit["weak"] = True
        if pending:
            notices.append(message("notice.pending", count=pending))
        if uncued:
            notices.append(message("cues.left", count=uncued))
        return found, notices if found else [message("notice.nothing"), *notices]

    def _read_cues(self) -> int:
        """Read what cues there is time for; how many memories are left without."""
        if not self._by_cues:
            return 0
        try:
            return index_cues(self._store, CUES_SECONDS)
        except Exception:  # the other lanes still answer, and this one by what it has
            log.exception("cues cannot be read")
            with self._store.view() as view:
                return uncued_count(view)

    def _query(
        self,
        view: View,
        read: Mapping[str, Any],
        asked: str,
        vector: tuple[Vectors, Model] | None,
    ) -> Query:
        """What the lanes are given; `asked` is when it was."""
        at, enough = read["asof"] or asked, 2 * read["top_k"]
        if read["strategy"] != "cue_only":  # whose edges cost more where more is to be found
            enough = max(self.config.recall_lane_depth, enough)
        query = Query(
            view,
            read["query"],
            Scope(asof=read["asof"], **read["filters"]),
            at=at,
            depth=enough,
            hops=read["graph_hops"],
            fan_out=self.config.limits_fan_out,
            vector=vector and vector[0],
            noise=vector[1].noise if vector else (),
            spans=lambda index: self._spans(read["query"], at, index),
        )
        if vector and query.index.model != vector[1].mark:  # the file has another one since
            query.vector = None
            self._follow()
        return query

    def _spans(self, query: str, now: str, index: Index) -> list[dates.Span]:
        """The times that a query names, seen from a moment."""
        return dates.named(query, now, self._zone, index.years)

    def _rank(
        self, views: Mapping[str, View], query: Query, strategy: str, failed: str
    ) -> tuple[dict[Lane, Ranking], list[str]]:
        """Run the lanes that a strategy needs; a lane that fails leaves the others to answer.

        `failed` says why the query has no vector, where its model failed over it.
        """
        alone = strategy.removesuffix("_only")
        self._refuse_off(strategy)
        wanted = [lane for lane in (*ALONE, *self._by_cues) if self._uses(lane, strategy)]
        outcomes = self._run(views, query, wanted)
        rankings = {lane: each for lane, each in outcomes.items() if isinstance(each, Ranking)}
        if self._uses("graph", strategy):
            seeds = hits_module.seeds(rankings, query, self._fusion, SEEDS)
            outcomes["graph"] = _attempt("graph", graph_lane, views["graph"], query, seeds)
            if isinstance(outcomes["graph"], Ranking):
                rankings["graph"] = outcomes["graph"]
        faults = {lane: each for lane, each in outcomes.items() if isinstance(each, Exception)}
        if faults and not rankings:
            raise next(iter(faults.values()))
        notices = [message("notice.lane_failed", lane=lane) for lane in faults]
        if self._cues_off and self._uses("cue", strategy):
            notices.append(message("notice.cues_off", reason=self._cues_off))
        if "vector" in wanted and query.vector is None:
            notices.insert(0, failed or self._vectors_off() or message("notice.loading"))
        if strategy != "rrf":
            rankings = {lane: each for lane, each in rankings.items() if lane == alone}
        return rankings, notices

    def _refuse_off(self, strategy: str) -> None:
        """Raise where no lane can answer, whatever is asked."""
        lane, on = strategy.removesuffix("_only"), self.config.recall_lanes
        if strategy != "rrf" and lane not in on:
            raise InvalidInput("lane.off", lane=lane)
        if self._cues_off and (lane == "cue" or on == ("cue",)):
            raise ConfigError("notice.cues_off", reason=self._cues_off)

    def _uses(self, lane: Lane, strategy: str) -> bool:
        """Whether a strategy needs a lane; the graph needs all, since it starts from them."""
        wanted = strategy in ("rrf", "graph_only", f"{lane}_only")
        return wanted and lane in self.config.recall_lanes

    def _run(
        self, views: Mapping[str, View], query: Query, lanes: Sequence[Lane]
    ) -> dict[Lane, Ranking | Exception]:
        """Each lane's outcome: one after another on one connection, or each on its own."""
        how = ALONE | self._by_cues
        if not self._side_by_side(query.index):
            return {lane: _attempt(lane, how[lane], views["graph"], query) for lane in lanes}
        running = {
            lane: self._pool.submit(_attempt, lane, how[lane], views[lane], query)
            for lane in lanes[1:]
        }
        first = {lane: _attempt(lane, how[lane], views[lane], query) for lane in lanes[:1]}
        return {**first, **{lane: future.result() for lane, future in running.items()}}

    def _side_by_side(self, index: Index) -> bool:
        setting = self.config.recall_concurrent
        return setting == "on" or (setting == "auto" and index.size > MOST_IN_TURN)

    def _vector_or_why(self, text: str) -> tuple[tuple[Vectors, Model] | None, str]:
        """The vector of a query and its model; where the model failed, why there is none."""
        try:
            return self._query_vector(text), ""
        except ModelError as error:
            return None, str(error)

    def _query_vector(self, text: str) -> tuple[Vectors, Model] | None:
        """The vector of a query and the model that made it.

        Memories that wait for their vectors get them first, as time allows. Raises ModelError
        where the model fails over the text.
        """
        deadline = time.monotonic() + self.config.embedder_wait_seconds
        model = self._model(self.config.embedder_wait_seconds)
        if model is None:
            return None
        # More than these would not be done in time.
        if not self._store.read_only and 0 < self._pending_count() <= FILL_FIRST:
            self._fill(model, deadline, longest=INLINE_CHARACTERS)
        try:
            return self._models.query_vector(model, text), model.known
        except Exception as error:  # whatever a model's library raises
            log.exception("the model failed over a question")
            raise ModelError("notice.lane_failed", lane="vector") from error

    def _vectors_off(self) -> str:
        """Why the vector lane did not answer; empty where it did."""
        if self._models.state == "loading":
            return message("notice.loading")
        return message("notice.vectors_off", reason=self._models.reason) if self._off() else ""

    def _off(self) -> bool:
        return self._models.state == "off"

    # -- inside: the model and the memories that wait for it --

    def _model(self, seconds: float | None) -> OfFile | None:
        """The file's model if it is there within that time; the first call begins to load it."""
        with self._start_lock:
            if self._filler.ident is None:
                self._filler.start()
        self._follow()
        return self._models.wait(seconds)

    def _follow(self) -> bool:
        """Load anew where the file has another model since this one was loaded; whether it has."""
        with self._start_lock:
            if self._models.state not in ("ready", "off"):
                return False
            with self._store.view() as view:
                if view.model_mark() == self._mark:
                    return False
            if self._mark:  # else it has its first model, which is no change
                log.warning("%s", message("reembed.followed", path=self.path))
            self._models = ModelLoader(self._model_for_file)
            self._models.start()
        self._work.set()
        return True

    def _model_for_file(self) -> OfFile:
        """Load the model that the file was made with, or make the file one of this model's."""
        with self._store.view() as view:
            known = view.model()
        self._mark = known.mark if known else ""
        model = self._load_model(known.name if known else None)
        if known is None:
            known = self._store.adopt_model(embedder.measured(model))
            self._mark = known.mark
        if (known.name, known.dim) != (model.name, model.dim):
            raise ModelError("model.differs", configured=model.name, recorded=known.name)
        if not known.noise:
            known = replace(known, noise=embedder.noise(model))
            if not self._store.read_only:
                self._store.put_noise(known.noise)
        return OfFile(model, known)

    def _fill_all(self) -> None:
        """In the background: give memories their vectors whenever some wait."""
        while not self._store.read_only and not self._closing.is_set():
            filled = 0
            try:
                model = self._model(0.5)
                filled = self._fill(model) if model else 0
                idle = not filled and self._models.state != "loading" and not self._follow()
            except MneloError as error:
                log.warning("memories still wait for vectors: %s", error)
                idle = True
            if idle:
                self._work.wait()
                self._work.clear()

    def _fill(
        self, model: OfFile, deadline: float = math.inf, *, longest: int | None = None
    ) -> int:
        """Embed up to 64 waiting memories before the deadline; how many that settled.

        One that the model fails over is tried once: it keeps no other waiting.
        """
        left = -1 if deadline == math.inf else max(0.0, deadline - time.monotonic())
        if not self._pending_count() or not self._fill_lock.acquire(timeout=left):
            return 0
        try:
            due = self._due(model.known.mark, longest)
            settled = 0
            for start in range(0, len(due), embedder.PORTION):
                if time.monotonic() > deadline or self._closing.is_set():
                    break
                settled += self._fill_some(model, due[start : start + embedder.PORTION])
            return settled
        finally:
            self._fill_lock.release()

    def _due(self, mark: str, longest: int | None) -> list[ChunkRow]:
        """The next memories that wait, but for those that the model failed over."""
        with self._store.view() as view:
            waiting = view.pending(FILL_FIRST + len(self._failed))
        due = [row for row in waiting if (mark, row.seq) not in self._failed]
        return [row for row in due if longest is None or len(row.content) <= longest][:FILL_FIRST]

    def _fill_some(self, model: OfFile, rows: Sequence[ChunkRow]) -> int:
        mark = model.known.mark
        passages = [passage(row.content, row.source, row.timestamp, self._zone) for row in rows]
        made = list(zip(rows, self._embed(model, passages), strict=True))
        if self._closing.is_set():  # which leaves texts without vectors too
            return 0
        self._failed.update((mark, row.seq) for row, vectors in made if vectors is None)
        done = [(row.seq, vectors) for row, vectors in made if vectors is not None]
        return self._store.put_vectors(done, mark) + len(rows) - len(done)

    def _embedder_state(self, recorded: Model | None) -> dict[str, Any]:
        state: dict[str, Any] = {"state": self._models.state}
        if recorded:
            state |= {"model": recorded.name, "dim": recorded.dim}
        return state | ({"reason": self._models.reason} if self._off() else {})

    def _lane_state(self, lane: Lane) -> str:
        if lane not in self.config.recall_lanes:
            return message("lane.state_off", reason=message("lane.switched_off"))
        off = {"vector": self._vectors_off(), "cue": self._cues_off}.get(lane)
        if off:
            return message("lane.state_off", reason=off)
        return "on"


def _fusion(config: Config) -> Fusion:
    """How the settings say that rankings become one."""
    return Fusion(
        k=config.recall_rrf_k,
        weights={
            "vector": config.recall_vector_weight,
            "graph": config.recall_graph_weight,
            "meta": config.recall_meta_weight,
            "entity": config.recall_entity_weight,
            "cue": config.recall_cue_weight,
        },
        boost=config.recall_stock_boost,
        by_evidence=config.recall_rerank == "evidence",
    )


def _similar(chunk_id: str, cosine: float, score: float) -> Similar:
    return Similar(chunk_id=chunk_id, similarity=round(cosine, 4), score=round(score, 4))


def _lanes(config: Config) -> tuple[str, ...]:
    """The four lanes, on or off, and the one that is there only for who asks for it."""
    return tuple(dict.fromkeys((*LANES, *config.recall_lanes)))


def _cues(config: Config) -> tuple[CueSettings | None, str]:
    """How memories are found by cues, where the settings ask for that; or why they cannot be."""
    if "cue" not in config.recall_lanes:
        return None, ""
    from text.cues import extractor

    try:
        return CueSettings(extractor(config), config.cues_pause_minutes), ""
    except ConfigError as error:
        return None, str(error)


def _by_cues(config: Config) -> Callable[[View, Query], Ranking]:
    from index.cue_index import Edges

    return partial(cue_lane, edges=Edges(config.cues_associative, config.cues_discourse))


def _attempt(
    lane: Lane, function: Callable[..., Ranking], view: View, *arguments: Any
) -> Ranking | Exception:
    """A lane's ranking, or what it failed with: the other lanes still answer."""
    try:
        with view.reading():
            return function(view, *arguments)
    except Exception as error:
        log.exception("the %s lane failed", lane)
        return error


def passage(content: str, source: str, timestamp: str, zone: tzinfo) -> str:
    """What is embedded of a memory: when, who and what, though only the last is shown.

    What the text says itself at its start is not said again, and a summary of the timeline is
    embedded as it stands: two of them are compared.
    """
    if source == TIMELINE:
        return content
    when = "" if words.begins_with_time(content) else f"[{timestamps.day(timestamp, zone)}] "
    who = "" if source == NOBODY or words.speaker(content) else f"{source}: "
    return f"{when}{who}{content}"


def _chunk(read: Mapping[str, Any], vectors: Vectors | None, made_by: str) -> NewChunk:
    return NewChunk(
        content=read["content"],
        source=read["source"],
        session_id=read["session_id"],
        importance=read["importance"],
        timestamp=read["timestamp"],
        tags=read["tags"],
        entities=[NewEntity(**entity) for entity in read["entities"]],
        relations=[
            _relation(relation, f"relations[{at}].valid_until")
            for at, relation in enumerate(read["relations"])
        ],
        vectors=vectors,
        made_by=made_by,
    )


def _relation(read: Mapping[str, Any], name: str) -> NewRelation:
    start, end = read["valid_from"], read["valid_until"]
    if start and end and end <= start:
        raise InvalidInput("input.interval", name=name, start=start, end=end)
    ends = {key: read[key].removeprefix(ENTITY) for key in ("source_id", "target_id")}
    return NewRelation(**{**read, **ends})


def _start(view: View, reference: str, asof: str | None) -> str:
    """The node that a reference means: a memory by any of its ids, an entity by any name."""
    if is_chunk_id(reference):
        latest = view.latest_version(reference)
        for chunk_id in (reference, latest):
            if view.chunks([chunk_id], Scope(asof=asof)):
                return chunk_id
        raise NotFound("missing.forgotten", id=reference)
    found = view.find_entity(reference, asof) or view.find_entity(
        reference.removeprefix(ENTITY), asof
    )
    if found is None:
        near = ", ".join(view.near_names(reference)) or "-"
        raise NotFound("missing.entity", id=reference, near=near)
    return found


def latency(recalls: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    spent = [milliseconds for milliseconds, _ in recalls]
    p50, p95 = np.percentile(spent, [50, 95]) if spent else (0.0, 0.0)
    return {
        "count": len(recalls),
        "empty": sum(empty for _, empty in recalls),
        "p50_ms": round(float(p50), 2),
        "p95_ms": round(float(p95), 2),
    }


def _log_entry(
    read: Mapping[str, Any], found: Sequence[Hit], asked: str, seconds: float
) -> LogEntry:
    details = [
        {
            "rank": rank,
            "chunk_id": hit["chunk_id"],
            "method": hit["method"],
            "distance": hit.get("distance"),
            "rrf_score": hit["rrf_score"],
            "importance": hit["importance"],
        }
        for rank, hit in enumerate(found[:5], start=1)
    ]
    return LogEntry(
        query=read["query"],
        strategy=read["strategy"],
        results=[hit["chunk_id"] for hit in found],
        details=details,
        graph_hops=read["graph_hops"],
        latency_ms=round(seconds * 1000, 3),
        client=CLIENT.get(),
        created_at=asked,
    )
