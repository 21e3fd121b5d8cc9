"""The index and the links in memory, made from the file and kept up to date.

They are made when the first recall asks and brought up to date before each later one, whoever
wrote: another thread or another process. Every change of a chunk gets a number above all others
(`postings.rev`), and rows above the index's own number are read again. Changes of names, mentions
and relations are rows of the table `changes`, mostly written by triggers; a process reads on from
the last row it knows.

When an eighth of an index has changed, or when the file has another model, a new one is made; a
recall that has the old one goes on with it. A question with `asof` uses a second index, of every
version there ever was. Removed rows have no number by which others could see the change, so
whoever removes rows empties `changes`: every process is then behind and reads everything anew,
numbers of words included.

The file is not mapped into memory: reading in portions was as fast, and mapped pages count as the
process's own.
"""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from core import timestamps
from core.types import IndexRow, LinkedRelation, RelationColumns
from index.chunks import Index
from index.links import Links, Spellings
from store.sqlite.cue_snapshots import CueSnapshots
from store.sqlite.statements import (
    ENDS,
    LAST_CHANGE,
    MENTIONED,
    MODEL_VERSION,
    SPELLED,
    fetch_all,
    fetch_one,
    is_behind,
    misread_is_damage,
    reading,
)
from store.sqlite.vectors import all_vectors, vectors_of
from store.types import Snapshot

BATCH_RELATIONS = 20_000  # ids whose relations are read in one go: some megabytes


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
NEXT_RELATION = "SELECT min(id) FROM relations WHERE id >= ?"  # ids may lie far apart
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
        (SELECT coalesce(max(id), 0) FROM relations), coalesce(({MODEL_VERSION}), '')
"""
CHANGES = "SELECT DISTINCT kind, what FROM changes WHERE id > ?"
IS_LIVE = "SELECT 1 FROM entities WHERE id = ? AND valid_until IS NULL"


# --- The index in memory ---------------------------------------------------------------


class Snapshots:
    """The snapshots of one file: of what is live and, once asked for, of all there ever was."""

    def __init__(self, cues: CueSnapshots | None = None) -> None:
        self.cues = cues
        self._lock = threading.Lock()
        self._snapshots: dict[bool, Snapshot] = {}
        self._spellings: Spellings | None = None
        self._change = 0

    def current(self, db: apsw.Connection, past: bool) -> Snapshot:
        """The snapshot as of the last commit of anybody; whoever has an older one may go on."""
        with self._lock, misread_is_damage(db):
            snapshot = self._snapshots.get(past)
            if snapshot is None or not _refreshed(db, snapshot):
                self._snapshots.pop(past, None)  # where it fails half of it may be new
                snapshot = self._snapshots[past] = load_snapshot(db, past)
            return snapshot

    def spellings(self, db: apsw.Connection, *, starts: bool = False) -> Spellings:
        """Which texts are names, as of the last commit; who writes needs their beginnings, too."""
        with self._lock:
            last, known = int(fetch_one(db, LAST_CHANGE)), self._spellings
            if known is None or starts > known.has_starts or is_behind(db, self._change):
                starts |= known is not None and known.has_starts
                keys = (row[0] for row in db.execute(SPELLINGS))
                known = self._spellings = Spellings(keys, starts=starts)
            elif last > self._change:
                for kind, what in fetch_all(db, CHANGES, (self._change,)):
                    if kind == "entity":
                        known.add(row[0] for row in fetch_all(db, SPELLED, (what,)))
            self._change = max(self._change, last)
            return known


def load_snapshot(db: apsw.Connection, past: bool) -> Snapshot:
    with reading(db):
        ((rev, change, relation, version),) = fetch_all(db, LATEST)
        rows = map(IndexRow._make, db.execute(EVERY_INDEX_ROW, {"past": past}))
        index = Index(rows, lambda located: all_vectors(db, located), past=past)
        index.rev, index.model = rev, version
        which = {"past": past, "now": timestamps.now()}
        relations = _all_relations(db, which, relation)
        columns = RelationColumns(relations, *(db.execute(EVERY_END[end], which) for end in ENDS))
        links = Links(db.execute(ENTITY_IDS), db.execute(EVERY_MENTION), columns)
        return Snapshot(index, links, change, relation)


def _all_relations(
    db: apsw.Connection, which: dict[str, Any], last: int
) -> Iterator[tuple[str, str, str, str]]:
    """What RelationColumns has of relations, up to the last one."""
    first: int | None = 0
    while (first := fetch_one(db, NEXT_RELATION, (first,))) is not None and first <= last:
        bound = which | {"first": first, "end": first + BATCH_RELATIONS}
        (found,) = fetch_all(db, RELATIONS_BETWEEN, bound)
        if found[0]:
            yield found
        first += BATCH_RELATIONS


def _refreshed(db: apsw.Connection, snapshot: Snapshot) -> bool:
    """Read what was changed since; False where it is better to read everything anew."""
    if snapshot.index.needs_rebuild() or snapshot.links.needs_rebuild():
        return False
    ((rev, change, relation, version),) = fetch_all(db, LATEST)
    if version == snapshot.index.model and not snapshot.is_behind(rev, change, relation):
        return True
    with reading(db), snapshot.index.lock:
        ((_, change, relation, version),) = fetch_all(db, LATEST)
        if version != snapshot.index.model or is_behind(db, snapshot.change):
            return False
        seqs = _refresh_index(db, snapshot.index)
        _refresh_links(db, snapshot, seqs)
        snapshot.change, snapshot.relation = (
            max(snapshot.change, change),
            max(snapshot.relation, relation),
        )
    return not snapshot.links.needs_rebuild()


def _refresh_index(db: apsw.Connection, index: Index) -> list[int]:
    """Read the changed chunks again; which ones."""
    rows = [IndexRow(*each) for each in fetch_all(db, NEW_INDEX_ROWS, (index.rev,))]
    for row in rows:
        if row.valid_until is None or index.past:
            index.add(row, vectors_of(db, row.seq))
        else:
            index.drop(row.seq, row.rev)
    return [row.seq for row in rows]


def _refresh_links(db: apsw.Connection, snapshot: Snapshot, seqs: Iterable[int]) -> None:
    """Read the mentions of changed chunks, and changed entities and relations, again."""
    changed: dict[str, set[Any]] = {"chunk": set(seqs), "entity": set(), "relation": set()}
    for kind, what in fetch_all(db, CHANGES, (snapshot.change,)):
        changed[kind].add(what)
    for entity_id in changed["entity"]:
        snapshot.links.entity(entity_id, bool(fetch_all(db, IS_LIVE, (entity_id,))))
    for seq in changed["chunk"]:
        snapshot.links.mention(seq, [row[0] for row in fetch_all(db, MENTIONED, (seq,))])
    since = {"id": snapshot.relation, "past": snapshot.index.past, "now": timestamps.now()}
    rows = fetch_all(db, RELATIONS_SINCE, since)
    for relation_id in changed["relation"]:
        found = fetch_all(db, RELATION, (relation_id,))
        rows += found
        if not found:
            snapshot.links.drop_relation(relation_id)
    for row in rows:
        snapshot.links.relation(LinkedRelation(*row))
