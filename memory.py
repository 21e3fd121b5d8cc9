"""Memory that agents share: one SQLite file, several lanes to find things, one ranking.

The file reads top to bottom: the class, its tools (each one public method, which is an MCP tool
of the server), upkeep, and what its parts are made of. Memory checks arguments and hands them on:
`embedding` makes vectors, `store` keeps the file, the searcher in recall/search.py finds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import entity_resolve
from access import validation
from access.validation import Choice, Id, Integer, Name, Number
from config import VERSION, Config
from core import timestamps
from core.errors import InvalidInput, NotFound
from core.results import (
    Duplicate,
    Duplicates,
    Forgotten,
    Graph,
    Merged,
    Recalled,
    Related,
    Remembered,
    Updated,
)
from core.types import (
    TIMELINE,
    Change,
    GraphBounds,
    NewChunk,
    NewEntity,
    NewRelation,
    StoredChunk,
    is_chunk_id,
)
from embedder import Embedder
from embedding.vectors import Embedding
from mnelo_locale import message
from recall.hits import fit
from recall.log import RecallLog, latency, log_entry
from recall.neighbourhood import Walk, find_node, neighbourhood
from recall.query import ENTITY, Question
from recall.search import READER_SETS, Searcher, all_lanes, cue_settings
from recall.similar import similar
from store.opening import open_store
from store.types import Erasing
from text import words
from text.guard import Guard
from upkeep import backup
from upkeep.keeper import Keeper

if TYPE_CHECKING:
    from timeline.timeline import Timeline

CLIENT: ContextVar[str] = ContextVar("mnelo_client", default="python")
"""Who is calling, for the audit and the log of recalls."""

ACTIONS = (
    *("remember", "entity", "relate", "update", "forget", "merge", "undo", "erase"),
    *("context", "mark"),
)
"""What the audit has records of."""

CLOSE_SECONDS = 12.0
"""How long each part may take to end: more than a batch of texts, which is finished, takes."""

MAX_RECORDS = 10_000  # of the audit, that history tells at a time


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
        self.path = Path(path or self.config.database_path).expanduser().absolute()
        self._contract = validation.contract(self.config)
        self._guard = Guard(self.config.guard_mode, self.config.guard_instructions)
        self._placeholders = {words.name_key(each) for each in self.config.recall_placeholders}
        cues, cues_off = cue_settings(self.config)
        self._has_cues = cues is not None
        self.store = open_store(
            self.config, self.path, lanes=all_lanes(self.config), reader_sets=READER_SETS, cues=cues
        )
        self.embedding = Embedding(self.config, self.store, load_model)
        self._searcher = Searcher(self.config, self.store, self.embedding, cues_off)
        self._log = RecallLog(self.store)
        self._keeper: Keeper | None = None
        self._closed = False
        if self.config.warm_up_embedder:
            self.embedding.model(0)

    def close(self) -> None:
        """Finish what was begun, as far as that ends, and close the file."""
        if self._closed:
            return
        self._closed = True
        ends = [self.embedding.close, self._searcher.close, self._log.close]
        for end in [*ends, self._keeper.stop] if self._keeper else ends:
            _in_time(end)
        self.store.close()

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *error: object) -> None:
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
        relation_id, status = self.store.put_relation(read, CLIENT.get())
        return {"relation_id": relation_id, "status": status, **self._guard.notice(safe.kinds)}

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
            count = self.store.forget_relation(number, read["reason"], client)
        elif read["target_kind"] == "entity":
            target = target.removeprefix(ENTITY)
            count, edges = self.store.forget_entity(target, read["reason"], read["cascade"], client)
        else:
            count, edges = self.store.forget_chunk(target, read["reason"], read["cascade"], client)
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
        vectors, made_by = self.embedding.of_next_version(read["old_id"], content)
        change = Change(content, importance, read["new_properties"], vectors, made_by)
        new, old = self.store.replace_chunk(read["old_id"], change, read["reason"], CLIENT.get())
        self.embedding.wake()
        return {
            "new_chunk_id": new,
            "supersedes": old,
            "status": "unchanged" if new == old else "updated",
            **self._guard.notice(safe.kinds),
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
        question = Question(**read)
        found, notices = self._searcher.search(question, asked)
        shown = fit(found, question.max_tokens, question.query, self._guard.caution)
        if len(shown) < len(found):
            notices.append(message("notice.budget", left=len(found) - len(shown)))
        if not self.store.read_only:
            logged = replace(question, query=self._guard.unlogged(question.query))
            spent, client = time.perf_counter() - started, CLIENT.get()
            self._log.add(log_entry(logged, found, asked=asked, seconds=spent, client=client))
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
        bounds = GraphBounds(read["asof"] or timestamps.now(), read["asof"], read["edge_types"])
        with self.store.view() as view:
            start = find_node(view, read["start_node"], read["asof"])
            walk = Walk(start, read["max_hops"], read["limit"], bounds, self._guard.caution)
            return neighbourhood(view, walk)

    def stats(self) -> dict[str, Any]:
        """Counts, sizes, the state of model and lanes, and how recalls went in the last 24 h."""
        self._log.flush()
        self.embedding.follow()
        day_ago = timestamps.stamp(datetime.now(timezone.utc) - timedelta(days=1))
        with self.store.view() as view:
            counts, recalls = view.counts(), view.latencies(day_ago)
            vectors, pending, model = view.vector_count(), view.pending_count(), view.model()
            uncued = {"without_cues": view.cues.waiting_count()} if self._has_cues else {}
        sizes = self.store.file.sizes() if self.store.file else {}
        return {
            **counts,
            "vectors": vectors,
            "pending": pending,
            **uncued,
            "embedder": self.embedding.report(model),
            "lanes": self._searcher.lane_states(),
            # Whole: all is in the one file, so that a plain copy of it is a full backup.
            "db": {"path": str(self.path), **sizes, "whole": not sizes.get("wal_bytes")},
            "recall_24h": latency(recalls),
            "upkeep": self._keeper.report() if self._keeper else {"keeping": False},
            "backup": backup.state(self.config, self.path),
            "version": VERSION,
            "schema": self.store.schema_version,
        }

    def show_chunk(self, chunk_id: str) -> dict[str, Any]:
        """A memory with all that is known of it, also a closed one, by its own id."""
        with self.store.view() as view:
            shown = view.show_chunk(Id().read("chunk_id", chunk_id))
        return {**shown, **self._guard.caution(shown)}

    def show_entity(self, entity_id: str) -> dict[str, Any]:
        """A live entity with all that is known of it and its heaviest relations."""
        around = self.graph_query(entity_id, max_hops=1)
        found = around["nodes"][0]["id"]
        with self.store.view() as view:
            shown = view.show_entity(found)
        if shown is None:
            raise NotFound("missing.entity", id=entity_id, near="-")
        own = [edge for edge in around["edges"] if found in (edge["source_id"], edge["target_id"])]
        return {**shown, "relations": own, **self._guard.caution(shown, own)}

    # -- entities --

    def find_duplicates(
        self, kind: str = "", *, threshold: float = entity_resolve.NEARLY
    ) -> Duplicates:
        """Pairs of entities that may be one, surest first; `partial` if time ran out."""
        only = Name(64).read("kind", kind) if kind else None
        least = Number(0, 1).read("threshold", threshold)
        with self.store.view() as view:
            known = view.entity_names(only)
        candidates, complete = entity_resolve.find(known, least)
        pairs = cast("list[Duplicate]", [asdict(each) for each in candidates])
        return {"candidates": pairs, "partial": not complete}

    def merge_entities(self, keep: str, duplicate: str, *, reason: str = "duplicate") -> Merged:
        """Make one entity of two: `keep` takes the other's names, mentions and relations."""
        ids = (Id().read("keep", keep), Id().read("duplicate", duplicate))
        done = self.store.merge_entities(*ids, Name(500).read("reason", reason), CLIENT.get())
        if done is None:
            return {"merged": 0, "audit_id": None, "relations": 0, "mentions": 0}
        return cast("Merged", {"merged": 1, **asdict(done)})

    def undo_merge(self, audit_id: int) -> int:
        """Put every row back as it was before a merge; 0 if that was done already."""
        number = Integer(1, (1 << 63) - 1).read("audit_id", audit_id)
        return self.store.undo_merge(number, CLIENT.get())

    # -- looking back, and out of mind --

    def undo(self, audit_id: int) -> dict[str, Any]:
        """Put everything back as it was before a forget, an update, a relate or a merge.

        `audit_id` is what history calls it. Refused, with the reason, where it was done already
        or where a later action builds on it; nothing is changed then.
        """
        number = Integer(1, (1 << 63) - 1).read("audit_id", audit_id)
        done = self.store.undo(number, CLIENT.get())
        self.embedding.wake()
        return done

    def history(
        self, limit: int = 20, target: str | None = None, action: str | None = None
    ) -> list[dict[str, Any]]:
        """What was done, newest first: of all, of one target in all its versions, of one action."""
        most = Integer(1, MAX_RECORDS).read("limit", limit)
        wanted = None if target is None else Id().read("target", target)
        done = None if action is None else Choice(ACTIONS).read("action", action)
        with self.store.view() as view:
            return view.history(most, wanted, done)

    def erase(self, what: Erasing) -> dict[str, int]:
        """Remove something for real, with its history; how much of what.

        The bytes may stay in the file until `store.erasure.finish` has written it anew.
        """
        return dict(self.store.erasure.erase(what, CLIENT.get()))

    # -- the timeline --

    def timeline(self) -> "Timeline":
        """The tools for entries of the timeline, in this file and with this model."""
        from timeline.timeline import Timeline, TimelineContext

        parts = (self.store, self.config, self._guard, CLIENT, self.embedding)
        return Timeline(TimelineContext(*parts, by_words=self._entries_by_words))

    def _entries_by_words(self, query: str, top_k: int) -> list[str]:
        hits = self.recall(query, top_k=top_k, filters={"source": TIMELINE}, max_tokens=0)["hits"]
        return [hit["chunk_id"] for hit in hits if is_chunk_id(hit["chunk_id"])]

    # -- upkeep --

    def keep(self) -> None:
        """Begin to keep the file in the background, until this memory is closed."""
        if self._keeper is None and not self.store.read_only:
            self._keeper = Keeper(self.store, self.config)
            self._keeper.start()

    def wait_for_model(self, seconds: float | None) -> bool:
        """Whether the model is there within that time; None waits until that is known."""
        return self.embedding.model(seconds) is not None

    def fill_pending(self, progress: Callable[[int], object] = lambda count: None) -> int:
        """Give every waiting memory its vectors now, as Embedding.fill says; how many got them."""
        return self.embedding.fill(progress)

    # -- inside: remembering --

    def _remember(self, items: Sequence[dict[str, Any]], name: str = "") -> list[Remembered]:
        """Store checked items; `name` is what the list is called in an error."""
        places = [f"{name}[{at}]" if name else "" for at in range(len(items))]
        safe = [self._guard.check(item, place) for item, place in zip(items, places, strict=True)]
        new = [_chunk(each.arguments) for each in safe]
        model = self.embedding.model(0)
        chunks = self.embedding.with_vectors(model, new, timestamps.now())
        stored = self.store.put_chunks(chunks, CLIENT.get())
        if any(each.pending for each in stored):
            self.embedding.wake()
        results = [_remembered(each, off=self.embedding.is_off()) for each in stored]
        if model and len(chunks) == 1:
            near = similar(self.store, model, chunks[0], stored[0].seq)
            results[0].update({"similar": near} if near else {})
        notices = [self._guard.notice(each.kinds) for each in safe]
        return [{**result, **notice} for result, notice in zip(results, notices, strict=True)]


def _in_time(end: Callable[[], None]) -> None:
    """Wait for a part to end, but not for one that a signal has left locked for good."""
    thread = threading.Thread(target=end, name="mnelo-close", daemon=True)
    thread.start()
    thread.join(CLOSE_SECONDS)


def _remembered(stored: StoredChunk, *, off: bool) -> Remembered:
    """What the answer says of a stored memory; `off` where there is no model."""
    return {
        "chunk_id": stored.id,
        "status": "stored" if stored.new else "exists",
        "entities": stored.entity_ids,
        "embedding": "stored" if not stored.pending else "off" if off else "pending",
    }


def _chunk(read: Mapping[str, Any]) -> NewChunk:
    """A memory from checked arguments, without its vectors."""
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
    )


def _relation(read: Mapping[str, Any], name: str) -> NewRelation:
    """A relation from checked arguments; `name` is what its end is called in an error."""
    start, end = read["valid_from"], read["valid_until"]
    if start and end and end <= start:
        raise InvalidInput("input.interval", name=name, start=start, end=end)
    ends = {key: read[key].removeprefix(ENTITY) for key in ("source_id", "target_id")}
    return NewRelation(**{**read, **ends})
