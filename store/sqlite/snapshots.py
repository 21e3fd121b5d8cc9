"""The index and the links in memory, made from the file and kept up to date."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from core import timestamps
from core.types import IndexRow, LinkedRelation, RelationColumns
from index.chunks import Index
from index.links import Links, Spellings
from store.sqlite.cue_snapshots import HeldCues
from store.sqlite.statements import (
    ENDS,
    LAST_CHANGE,
    MARK,
    MENTIONED,
    SPELLED,
    fetch_all,
    fetch_one,
    is_behind,
    reading,
)
from store.sqlite.vectors import all_vectors, vectors_of

RELATIONS_AT_ONCE = 20_000  # ids whose relations are read in one go: some megabytes


# --- SQL: searching --------------------------------------------------------------------


_INDEX_ROWS = """
    SELECT p.chunk_seq, p.rev, p.place, p.flags, p.speaker, p.terms, p.weights, c.session_id,
        c.source, c.timestamp, c.importance, c.valid_from, c.valid_until
    FROM postings p JOIN chunks c ON c.seq = p.chunk_seq
"""
EVERY_INDEX_ROW = (
    _INDEX_ROWS + "WHERE :past OR c.valid_until IS NULL ORDER BY c.session_id, c.timestamp, p.place"
)
NEW_INDEX_ROWS = _INDEX_ROWS + "WHERE p.rev > ? ORDER BY p.rev"

# What the links in memory are made of (links.py), and what of it was changed.
ENTITY_IDS = "SELECT id, max(valid_until IS NULL) FROM entities GROUP BY id"
SPELLINGS = "SELECT key FROM aliases"
EVERY_MENTION = "SELECT entity_id, group_concat(chunk_seq) FROM mentions GROUP BY entity_id"
_END = """
    iif(
        r.{0} GLOB 'chunk_[0-9]*',
        coalesce((SELECT seq FROM chunks WHERE id = r.{0}), r.{0}), r.{0}
    )
"""
_LINKED = f"""
    SELECT r.id, {_END.format("source_id")}, {_END.format("target_id")}, r.weight,
        r.valid_from, r.valid_until
    FROM relations r
"""
_NOT_OVER = "(:past OR r.valid_until IS NULL OR r.valid_until > :now)"
RELATIONS_SINCE = _LINKED + f"WHERE r.id > :id AND {_NOT_OVER} ORDER BY r.id"
RELATIONS_BETWEEN = f"""
    SELECT group_concat(r.id), group_concat(r.weight), group_concat(r.valid_from),
        group_concat(coalesce(r.valid_until, ''))
    FROM relations r WHERE r.id >= :first AND r.id < :end AND {_NOT_OVER}
"""
EVERY_END = {
    end: f"""
        SELECT {_END.format(end)}, r.ids FROM (
            SELECT r.{end}, group_concat(r.id) AS ids FROM relations r
            WHERE {_NOT_OVER} GROUP BY r.{end}
        ) r
    """
    for end in ENDS
}
RELATION = _LINKED + "WHERE r.id = ?"
LATEST = f"""
    SELECT (SELECT coalesce(max(rev), 0) FROM postings), (SELECT coalesce(max(id), 0) FROM changes),
        (SELECT coalesce(max(id), 0) FROM relations), coalesce(({MARK}), '')
"""
CHANGES = "SELECT DISTINCT kind, what FROM changes WHERE id > ?"
IS_LIVE = "SELECT 1 FROM entities WHERE id = ? AND valid_until IS NULL"


# --- The index in memory ---------------------------------------------------------------


@dataclass
class Held:
    """What a process has of the file in memory, under the index's lock."""

    index: Index
    links: Links
    change: int
    """The last of the changes that the links know of."""
    relation: int
    """The last relation that they know of."""

    def behind(self, rev: int, change: int, relation: int) -> bool:
        """Whether there are later changes than those."""
        return rev > self.index.rev or change > self.change or relation > self.relation


class Indexes:
    """The indexes in memory of one file: of what is live and, once asked for, of all there was."""

    def __init__(self, cues: "HeldCues | None" = None) -> None:
        self.cues = cues
        self._lock = threading.Lock()
        self._held: dict[bool, Held] = {}
        self._spellings: Spellings | None = None
        self._change = 0

    def current(self, db: apsw.Connection, past: bool) -> Held:
        """What is held, as of the last commit of anybody; whoever has an older one may go on."""
        with self._lock:
            held = self._held.get(past)
            if held is None or not _refreshed(db, held):
                held = self._held[past] = load_held(db, past)
            return held

    def spellings(self, db: apsw.Connection, *, starts: bool = False) -> Spellings:
        """Which texts are names, as of the last commit; who writes needs their beginnings, too."""
        with self._lock:
            last, held = int(fetch_one(db, LAST_CHANGE)), self._spellings
            if held is None or starts > held.has_starts or is_behind(db, self._change):
                starts |= held is not None and held.has_starts
                keys = (row[0] for row in db.execute(SPELLINGS))
                held = self._spellings = Spellings(keys, starts=starts)
            elif last > self._change:
                for kind, what in fetch_all(db, CHANGES, (self._change,)):
                    if kind == "entity":
                        held.add(row[0] for row in fetch_all(db, SPELLED, (what,)))
            self._change = max(self._change, last)
            return held


def load_held(db: apsw.Connection, past: bool) -> Held:
    with reading(db):
        ((rev, change, relation, mark),) = fetch_all(db, LATEST)
        rows = map(IndexRow._make, db.execute(EVERY_INDEX_ROW, {"past": past}))
        index = Index(rows, lambda located: all_vectors(db, located), past=past)
        index.rev, index.model = rev, mark
        which = {"past": past, "now": timestamps.now()}
        relations = _all_relations(db, which, relation)
        ways = RelationColumns(relations, *(db.execute(EVERY_END[end], which) for end in ENDS))
        links = Links(db.execute(ENTITY_IDS), db.execute(EVERY_MENTION), ways)
        return Held(index, links, change, relation)


def _all_relations(
    db: apsw.Connection, which: dict[str, Any], last: int
) -> Iterator[tuple[str, str, str, str]]:
    """What RelationColumns has of relations, up to the last one."""
    for first in range(1, last + 1, RELATIONS_AT_ONCE):
        bound = which | {"first": first, "end": first + RELATIONS_AT_ONCE}
        (found,) = fetch_all(db, RELATIONS_BETWEEN, bound)
        if found[0]:
            yield found


def _refreshed(db: apsw.Connection, held: Held) -> bool:
    """Read what was changed since; False where it is better to read everything anew."""
    if held.index.needs_rebuild() or held.links.needs_rebuild():
        return False
    ((rev, change, relation, mark),) = fetch_all(db, LATEST)
    if mark == held.index.model and not held.behind(rev, change, relation):
        return True
    with reading(db), held.index.lock:
        ((_, change, relation, mark),) = fetch_all(db, LATEST)
        if mark != held.index.model or is_behind(db, held.change):
            return False
        seqs = _refresh_index(db, held.index)
        _refresh_links(db, held, seqs)
        held.change, held.relation = max(held.change, change), max(held.relation, relation)
    return not held.links.needs_rebuild()


def _refresh_index(db: apsw.Connection, index: Index) -> list[int]:
    """Read the changed chunks again; which ones."""
    rows = [IndexRow(*each) for each in fetch_all(db, NEW_INDEX_ROWS, (index.rev,))]
    for row in rows:
        if row.valid_until is None or index.past:
            index.add(row, vectors_of(db, row.seq))
        else:
            index.drop(row.seq, row.rev)
    return [row.seq for row in rows]


def _refresh_links(db: apsw.Connection, held: Held, seqs: Iterable[int]) -> None:
    """Read the mentions of changed chunks, and changed entities and relations, again."""
    changed: dict[str, set[Any]] = {"chunk": set(seqs), "entity": set(), "relation": set()}
    for kind, what in fetch_all(db, CHANGES, (held.change,)):
        changed[kind].add(what)
    for entity_id in changed["entity"]:
        held.links.entity(entity_id, bool(fetch_all(db, IS_LIVE, (entity_id,))))
    for seq in changed["chunk"]:
        held.links.mention(seq, [row[0] for row in fetch_all(db, MENTIONED, (seq,))])
    since = {"id": held.relation, "past": held.index.past, "now": timestamps.now()}
    rows = fetch_all(db, RELATIONS_SINCE, since)
    for relation_id in changed["relation"]:
        found = fetch_all(db, RELATION, (relation_id,))
        rows += found
        if not found:
            held.links.drop_relation(relation_id)
    for row in rows:
        held.links.relation(LinkedRelation(*row))
