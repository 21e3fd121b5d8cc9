"""Import of what other programs have stored."""

import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from typing import Any

from access.validation import contract
from config import Config
from core.errors import InvalidInput, ModelError
from core.terminal import as_json, complain, say
from memory import Memory
from mnelo_locale import message
from store import Store
from store.opening import inspect
from text import words
from transfer.formats import OWNER, Bad, Found
from transfer.importing import looked_at, progress_bar
from transfer.records import Progress

BATCH_MEMORIES = 50


@dataclass(slots=True)
class Done:
    """What an import did, or would do."""

    new: int = 0
    there: int = 0
    bad: list[Bad] = field(default_factory=list)
    vectors_off: str = ""


# --- Storing ---------------------------------------------------------------------------


def import_records(
    found: Iterable[Found | Bad],
    config: Config,
    *,
    dry_run: bool,
    fill: bool = True,
    progress: Progress = lambda done, of: None,
) -> Done:
    """Store what a reader finds, and give it vectors if `fill`; a dry run only counts.

    Every memory goes through Memory.remember_many, with all its checks.
    """
    done = Done()
    good: Iterator[Found] = _checked(found, config, done)
    if dry_run:
        with looked_at(config.database_path) as store:
            known = _Known(store)
            for each in good:
                known.count(each, done)
        return done
    first = list(islice(good, 1))  # a file that cannot be read leaves no database behind
    if not first:
        return done
    good = chain(first, good)
    with Memory(config=config) as memory:
        # A second store on the file would, when it closes, take the locks of the first one.
        known = _Known(memory.store)
        while batch := list(islice(good, BATCH_MEMORIES)):
            _store(memory, [each for each in batch if not known.count(each, done)], done)
            progress(len(batch), 0)
        if fill and done.new:
            try:
                memory.fill_pending()
            except ModelError as error:
                done.vectors_off = str(error)
    return done


def _checked(found: Iterable[Found | Bad], config: Config, done: Done) -> Iterator[Found]:
    """What remember will accept; texts that are too long for one memory come in pieces."""
    arguments, limit = contract(config), config.limits_content_bytes
    for each in found:
        if isinstance(each, Bad):
            done.bad.append(each)
            continue
        content = each.item.get("content")
        for piece in [content] if each.again else _pieces(content, limit):
            item = {**each.item, "content": piece}
            try:
                read = arguments.read("memory_remember", item)
            except InvalidInput as error:
                done.bad.append(Bad(each.place, str(error)))
            else:
                given = {"timestamp": read["timestamp"] or "", "content": read["content"]}
                yield replace(each, item=item | given)


def _pieces(text: Any, limit: int) -> Sequence[Any]:
    """A text in pieces of at most so many bytes, cut at ends of lines where that works."""
    if not isinstance(text, str) or len(text.encode(errors="replace")) <= limit:
        return [text]
    pieces, room = [], limit // 4  # no character has more than four bytes
    while len(text) > room:
        cut = text.rfind("\n", 1, room) + 1 or room
        pieces.append(text[:cut])
        text = text[cut:]
    return [piece for piece in [*pieces, text] if piece.strip()]


def _store(memory: Memory, batch: Sequence[Found], done: Done) -> None:
    """Store a batch; where one of it is refused, each by itself."""
    if not batch:
        return
    try:
        results = memory.remember_many([each.item for each in batch])
    except InvalidInput as error:
        if len(batch) == 1:
            done.new -= 1
            done.bad.append(Bad(batch[0].place, str(error)))
            return
        for each in batch:
            _store(memory, [each], done)
        return
    for each, result in zip(batch, results, strict=True):
        if each.closed:
            memory.forget(result["chunk_id"], reason=each.closed, cascade=False)


_Key = tuple[int, str, str]
"""The hash of a text, its session, and its time or nothing: texts themselves may be many."""


class _Known:
    """What was imported before, live or not, by its source."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._sources: dict[str, dict[_Key, bool]] = {}

    def count(self, found: Found, done: Done) -> bool:
        """Whether a memory is there already; it is counted, and known from now on."""
        if found.again:
            done.new += 1
            return False
        item = found.item
        source = item.get("source") or "manual"
        if source not in self._sources:
            self._sources[source] = self._read(source)
        known = self._sources[source]
        session, content = item.get("session_id") or "default", hash(item["content"])
        keys = [(content, session, item["timestamp"]), (content, session, "")]
        live = known.get(keys[0])
        # One that was to be forgotten, and is not yet, is taken up again.
        there = live is not None and not (live and found.closed)
        for key in keys:
            known[key] = not found.closed
        done.there += there
        done.new += not there
        return there

    def _read(self, source: str) -> dict[_Key, bool]:
        known: dict[_Key, bool] = {}
        if self._store:
            with self._store.view() as view:
                for content, session, at, live in view.records.texts_of_source(source):
                    text = hash(content)
                    known[text, session, at] = known[text, session, ""] = live
        return known


def run(found: Iterable[Found | Bad], config: Config, given: Namespace) -> int:
    """Import for a script: say what was done and what was wrong; the exit status."""
    dry_run, fill = given.dry_run, config.embedder_model != "none"
    with progress_bar() as progress:
        done = import_records(found, config, dry_run=dry_run, fill=fill, progress=progress)
    for bad in done.bad:
        complain(bad)
    counts = {"new": done.new, "there": done.there, "refused": len(done.bad)}
    if given.json:
        problems = [asdict(bad) for bad in done.bad]
        report = {"imported": not dry_run, **counts, "problems": problems}
        say(as_json(report))
    else:
        sentence = "importers.would" if dry_run else "importers.done"
        say(message(sentence, path=config.database_path, **counts))
        if done.vectors_off:
            say(done.vectors_off)
    return 1 if done.bad else 0


# --- Facts about the owner -------------------------------------------------------------


def identity_facts(config: Config) -> list[Found | Bad]:
    """What live memories say about their owner, by the rules in [identity] of the settings."""
    if not config.identity_rules:
        raise InvalidInput("importers.no_rules")
    if not config.database_path.exists():
        raise InvalidInput("importers.no_database", path=config.database_path)
    rules = [
        (predicate, re.compile(pattern))
        for predicate, patterns in config.identity_rules
        for pattern in patterns
    ]
    found: list[Found | Bad] = []
    with closing(inspect(config.database_path)) as store, store.view() as view:
        for chunk in view.records.live_texts():
            facts = {
                (predicate, match[(match.lastindex and 1) or 0].strip())
                for predicate, rule in rules
                for match in rule.finditer(chunk.content)
            }
            if new := _new_facts(facts, chunk.entities):
                same = ("content", "source", "session_id", "timestamp")
                item = {name: getattr(chunk, name) for name in same}
                found.append(Found(chunk.id, item | new, again=True))
    return found


def _new_facts(facts: Iterable[tuple[str, str]], known: Sequence[str]) -> dict[str, Any]:
    """Entities and relations for facts that their memory is not linked with yet."""
    entities: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    for predicate, value in sorted(facts):
        entity_id = f"identity:{predicate}:{words.identity(value).replace(' ', '-')}"
        if value and entity_id not in known:
            entities.append({"id": entity_id, "kind": "identity_fact", "name": value})
            edges.append({"source_id": OWNER, "target_id": entity_id, "relation": predicate})
    return {"entities": entities, "relations": edges} if entities else {}
