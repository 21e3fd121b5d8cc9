"""The one file: every SQL statement, connection and transaction of mnelo is in this module.

`SqliteStore` opens or makes the file and offers closed writes: each public write is one
transaction that leaves text, indexes, links and vectors in step, or nothing changed. `View`
is one read connection; the lanes ask it for candidates. Nothing here knows of embedding
models, ranking or tools.

Rows are closed, not deleted. A chunk's index rows move to the `closed_` tables when it is
closed, so current searches never see them and questions about the past still do.
"""

import errno
import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby, islice, takewhile
from operator import itemgetter
from pathlib import Path
from queue import Empty, LifoQueue
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, Protocol

import apsw
import numpy as np
import sqlite_vec
from numpy.typing import NDArray

import timestamps
import words
from calibration import Scripts
from config import ROOT, Config
from entity_resolve import differ_by_number
from errors import InvalidInput, NotFound, StoreBusy, StoreError
from file_check import beside, examine, identity, may_write
from index import UNSPACED, Index
from indexing import Indexed
from links import Links, Spellings
from postings import Rows
from rows import (
    AT_ONCE,
    Change,
    ChunkRow,
    EdgeRow,
    EntityNames,
    EntityRow,
    GraphBounds,
    IndexRow,
    LinkedRelation,
    LiveText,
    LogEntry,
    Merge,
    Model,
    Naming,
    NewChunk,
    NewEntity,
    NewRelation,
    Noise,
    Scope,
    StoredChunk,
    Vectors,
    Ways,
    is_chunk_id,
    milliseconds,
    new_chunk_id,
)

if TYPE_CHECKING:  # loaded by who recalls by cues
    from cues import CueHits, CueIndex, CueRow, Edges

log = logging.getLogger("mnelo")

APPLICATION_ID = 0x6D6E656C  # "mnel": tells our files from other programs'
CHECK_WHOLE_BELOW = 64 << 20  # bytes; larger files are checked whole by the health check
LARGE_LOG = 16 << 20  # bytes; a write-ahead log that has grown beyond is brought in at once
MOST_NAMES = 200  # names with a word that begins with a term, of which the closest are taken
CLOSEST_NAMES = 32  # of one term
KEPT_CHANGES = 20_000  # rows of what was changed; who is further behind reads everything again
EXACT_PIECE = 3  # characters of a piece up to which its trigrams say exactly where it stands
MOST_TRIGRAMS = 12  # about, by which the candidates for a longer piece are found
TEXTS_AT_ONCE = 64  # read to look for a piece in
MAX_BACKFILL = 1000  # texts searched for a name that is new
MOST_TERMS = 200_000  # whose numbers are kept in memory: some 20 MB
RELATIONS_AT_ONCE = 20_000  # ids whose relations are read in one go: some megabytes
SINCE_EVER = "0001-01-01T00:00:00.000Z"

# --- SQL: what is live -----------------------------------------------------------------

_LIVE = """
    CASE WHEN :asof IS NULL THEN {0}.valid_until IS NULL
    ELSE {0}.valid_from <= :asof AND ({0}.valid_until IS NULL OR {0}.valid_until > :asof) END
"""
LIVE_CHUNK = _LIVE.format("c")
LIVE_ENTITY = _LIVE.format("e")

# A relation may end, or begin, in the future: it holds at one moment, now or asof.
LIVE_RELATION = """
    r.valid_from <= :at AND (r.valid_until IS NULL OR r.valid_until > :at)
"""

IN_SCOPE = f"""
    {LIVE_CHUNK}
    AND (:source IS NULL OR c.source = :source COLLATE NOCASE)
    AND (:session_id IS NULL OR c.session_id = :session_id)
    AND (:time_from IS NULL OR c.timestamp >= :time_from)
    AND (:time_to IS NULL OR c.timestamp <= :time_to)
    AND (:min_importance IS NULL OR c.importance >= :min_importance)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM tags t WHERE t.chunk_seq = c.seq AND t.tag = :tag))
    AND (:kind IS NULL OR EXISTS (
        SELECT 1 FROM mentions m JOIN entities e ON e.id = m.entity_id
        WHERE m.chunk_seq = c.seq AND e.kind = :kind COLLATE NOCASE AND {LIVE_ENTITY}
    ))
"""

# --- SQL: searching --------------------------------------------------------------------

TERM_NUMBERS = """
    SELECT t.term, t.id FROM json_each(:terms) k JOIN terms t ON t.term = k.value
"""

_INDEX_ROWS = """
    SELECT p.chunk_seq, p.rev, p.place, p.flags, p.speaker, p.terms, p.weights, c.session_id,
        c.source, c.timestamp, c.importance, c.valid_from, c.valid_until
    FROM postings p JOIN chunks c ON c.seq = p.chunk_seq
"""
EVERY_INDEX_ROW = (
    _INDEX_ROWS + "WHERE :past OR c.valid_until IS NULL ORDER BY c.session_id, c.timestamp, p.place"
)
NEW_INDEX_ROWS = _INDEX_ROWS + "WHERE p.rev > ? ORDER BY p.rev"

PENDING = """
    SELECT count(*) FROM chunks INDEXED BY chunks_pending WHERE pending = 1 AND valid_until IS NULL
"""

OF_TAG = "SELECT chunk_seq FROM tags WHERE tag = :tag"
OF_KIND = f"""
    SELECT DISTINCT m.chunk_seq FROM entities e JOIN mentions m ON m.entity_id = e.id
    WHERE e.kind = :kind COLLATE NOCASE AND {LIVE_ENTITY}
"""

# Chunks that may have a piece, in the order in which they were stored: by its trigrams, or for one
# and two characters by the beginnings of trigrams. Up to three characters that is exact.
_BY_TRIGRAMS = """
    SELECT rowid FROM {0}trigrams WHERE {0}trigrams MATCH :trigrams AND rowid > :after
    ORDER BY rowid LIMIT :most
"""
_BY_BEGINNING = """
    SELECT DISTINCT doc FROM {0}trigram_terms WHERE term >= :low AND term < :high AND doc > :after
    ORDER BY doc LIMIT :most
"""

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
_ENDS = ("source_id", "target_id")
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
    for end in _ENDS
}
RELATION = _LINKED + "WHERE r.id = ?"
MARK = "SELECT value || ' ' || updated_at FROM meta WHERE key = 'embedding_model'"
LATEST = f"""
    SELECT (SELECT coalesce(max(rev), 0) FROM postings), (SELECT coalesce(max(id), 0) FROM changes),
        (SELECT coalesce(max(id), 0) FROM relations), coalesce(({MARK}), '')
"""
CHANGES = "SELECT DISTINCT kind, what FROM changes WHERE id > ?"
OLDEST_CHANGE = "SELECT min(id) FROM changes"
LAST_CHANGE = "SELECT coalesce(max(id), 0) FROM changes"
IS_LIVE = "SELECT 1 FROM entities WHERE id = ? AND valid_until IS NULL"
SPELLED = "SELECT key FROM aliases WHERE entity_id = ?"
MENTIONED = "SELECT entity_id FROM mentions WHERE chunk_seq = ?"

NAMED = f"""
    SELECT e.id, e.kind, a.key FROM json_each(:keys) k JOIN aliases a ON a.key = k.value
    JOIN entities e ON e.id = a.entity_id
    WHERE {LIVE_ENTITY} AND (:asof IS NULL OR a.valid_from <= :asof)
    AND (:kind IS NULL OR e.kind = :kind COLLATE NOCASE)
    ORDER BY length(a.key) DESC, e.importance DESC, e.id
"""

NAMES_FROM = "SELECT key FROM name_words WHERE word >= ? AND word < ? LIMIT ?"

# Of some spellings, in their order, the entities that they are names of.
NAMES_LIKE = f"""
    SELECT e.id, e.kind, a.key FROM json_each(:keys) k JOIN aliases a ON a.key = k.value
    JOIN entities e ON e.id = a.entity_id
    WHERE a.role <> 'code'
    AND {LIVE_ENTITY} AND (:asof IS NULL OR a.valid_from <= :asof)
    AND (:kind IS NULL OR e.kind = :kind COLLATE NOCASE)
    ORDER BY k.key, e.importance DESC, e.id
"""

EDGE_COLUMNS = """
    r.id, r.source_id, r.target_id, r.relation, r.weight, r.properties_json,
    r.valid_from, r.valid_until, r.evidence_chunk_id
"""
OF_TYPES = "(:types IS NULL OR r.relation IN (SELECT value FROM json_each(:types)))"

# What is one relation away from any of some nodes, each once, by its heaviest relation.
REACHED = f"""
    SELECT other, max(weight) AS heaviest FROM (
        SELECT r.target_id AS other, r.weight AS weight
        FROM json_each(:nodes) n JOIN relations r ON r.source_id = n.value
        WHERE {LIVE_RELATION} AND {OF_TYPES}
        UNION ALL
        SELECT r.source_id, r.weight
        FROM json_each(:nodes) n JOIN relations r ON r.target_id = n.value
        WHERE {LIVE_RELATION} AND {OF_TYPES}
    )
    WHERE EXISTS (SELECT 1 FROM entities e WHERE e.id = other AND {LIVE_ENTITY})
    OR EXISTS (SELECT 1 FROM chunks c WHERE c.id = other AND {LIVE_CHUNK})
    GROUP BY other ORDER BY heaviest DESC, other
"""

BETWEEN = f"""
    SELECT {EDGE_COLUMNS} FROM json_each(:nodes) n JOIN relations r ON r.source_id = n.value
    WHERE r.target_id IN (SELECT value FROM json_each(:nodes)) AND {LIVE_RELATION} AND {OF_TYPES}
    ORDER BY r.weight DESC, r.id
"""

_CHUNK = """
    SELECT c.seq, c.id, c.content, c.source, c.timestamp, c.importance
    FROM chunks c WHERE c.{0} = {1}
"""
# Most are asked for where every live chunk is in scope, and that is quicker found out.
LIVE_CHUNK_BY = {name: _CHUNK.format(name, "? AND c.valid_until IS NULL") for name in ("id", "seq")}
CHUNK_IN_SCOPE_BY = {name: _CHUNK.format(name, f":key AND {IN_SCOPE}") for name in ("id", "seq")}

TEXTS = """
    SELECT s.seq, s.content || char(10) || s.metadata
    FROM json_each(:seqs) i JOIN searchable s ON s.seq = i.value
"""

ENTITIES = f"""
    SELECT e.id, e.kind, e.name, e.summary, e.importance, e.valid_from
    FROM json_each(:ids) i JOIN entities e ON e.id = i.value
    WHERE {LIVE_ENTITY} AND (:kind IS NULL OR e.kind = :kind COLLATE NOCASE)
"""

ENTITY_NAMES = """
    SELECT e.id, e.kind, e.name,
        (SELECT json_group_array(alias) FROM aliases WHERE entity_id = e.id AND role = 'alias'),
        (SELECT count(*) FROM mentions WHERE entity_id = e.id)
    FROM entities e
    WHERE e.valid_until IS NULL AND (:kind IS NULL OR e.kind = :kind COLLATE NOCASE)
    ORDER BY e.id
"""

# --- SQL: writing ----------------------------------------------------------------------

SAME_CHUNK = """
    SELECT seq, id, pending FROM chunks
    WHERE content_hash = :hash AND valid_until IS NULL AND content = :content
    AND source = :source AND session_id = :session_id
    AND (:timestamp IS NULL OR timestamp = :timestamp)
    AND NOT EXISTS (SELECT 1 FROM timeline t WHERE t.chunk_seq = chunks.seq)
    ORDER BY seq LIMIT 1
"""

INSERT_CHUNK = """
    INSERT INTO chunks (
        seq, id, content, content_hash, source, session_id, timestamp, importance, metadata_json,
        created_at, valid_from, pending
    ) VALUES (
        :seq, :id, :content, :hash, :source, :session_id, :timestamp, :importance, :metadata,
        :created_at, :valid_from, :pending
    )
"""

CHUNK_VERSION = """
    SELECT seq, id, content, source, session_id, timestamp, importance, metadata_json, created_at,
        valid_from, valid_until, superseded_by
    FROM chunks WHERE id = ?
"""

# Versions are listed from the nearest to the farthest.
SHOWN_CHUNK = """
    WITH RECURSIVE
        shown AS (SELECT * FROM chunks WHERE id = ?),
        older (id, step) AS (
            SELECT c.id, 1 FROM chunks c JOIN shown ON c.superseded_by = shown.id
            UNION ALL
            SELECT c.id, step + 1 FROM older JOIN chunks c ON c.superseded_by = older.id
        ),
        newer (id, step) AS (
            SELECT superseded_by, 1 FROM shown WHERE superseded_by IS NOT NULL
            UNION ALL
            SELECT c.superseded_by, step + 1 FROM newer JOIN chunks c ON c.id = newer.id
            WHERE c.superseded_by IS NOT NULL
        )
    SELECT id AS chunk_id, content, source, session_id, timestamp, importance,
        (SELECT json_group_array(tag) FROM tags WHERE chunk_seq = seq) AS tags,
        metadata_json AS properties, created_at, valid_from, valid_until,
        (SELECT json_group_array(id ORDER BY step) FROM older) AS older_versions,
        (SELECT json_group_array(id ORDER BY step) FROM newer) AS newer_versions
    FROM shown
"""

SHOWN_ENTITY = """
    SELECT id AS entity_id, kind, name, summary, importance,
        (SELECT json_group_array(alias ORDER BY key) FROM aliases
            WHERE entity_id = e.id AND role = 'alias') AS aliases,
        properties_json AS properties, created_at, updated_at, valid_from
    FROM entities e WHERE id = ? AND valid_until IS NULL
"""

CLOSE_CHUNK = """
    UPDATE chunks SET valid_until = max(:at, valid_from), superseded_by = :next
    WHERE seq = :seq RETURNING valid_until
"""

PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)"

PUT_TERM = "INSERT INTO terms (term, id) VALUES (?, ?)"

# One transaction writes at a time, so a number above all others is above all that anybody saw.
_NEXT_REV = "(SELECT coalesce(max(rev), 0) + 1 FROM postings)"

_LAST = "(SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = '{0}')"
BEGINNING = f"""
    SELECT {_LAST.format("chunks")}, {_NEXT_REV}, (SELECT coalesce(max(id), 0) FROM terms),
        {_LAST.format("windows")}, {_LAST.format("relations")}
"""

LIVE_HASHES = """
    SELECT c.content_hash FROM json_each(?) k CROSS JOIN chunks c
    WHERE c.content_hash = k.value AND c.valid_until IS NULL
"""

PUT_NAME_WORD = "INSERT OR IGNORE INTO name_words VALUES (?, ?)"
PUT_EVIDENCE = "INSERT OR IGNORE INTO evidence VALUES (?, ?)"
PUT_ALIAS = "INSERT INTO aliases VALUES (?, ?, ?, ?, ?)"
PUT_WINDOW = "INSERT INTO windows (seq, chunk_seq, part) VALUES (?, ?, ?)"
PUT_VECTOR = "INSERT INTO vectors (rowid, embedding, live) VALUES (?, ?, 1)"

PUT_PIECES = "INSERT INTO {0} (rowid, text) VALUES (?, ?)"

PUT_POSTINGS = "INSERT OR REPLACE INTO postings VALUES (?, ?, ?, ?, ?, ?, ?)"

WITHOUT_POSTINGS = """
    SELECT c.seq, o.seq, c.source, c.session_id FROM chunks c
    LEFT JOIN chunks o ON o.superseded_by = c.id
    WHERE c.seq NOT IN (SELECT chunk_seq FROM postings) ORDER BY c.seq
"""

PLACE = "SELECT place FROM postings WHERE chunk_seq = ?"

CHANGED_ALL = f"UPDATE postings SET rev = {_NEXT_REV}"
CHANGED = "UPDATE postings SET rev = ? WHERE chunk_seq = ?"

PUT_MENTION = """
    INSERT INTO mentions VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET origin = excluded.origin WHERE origin = 'found'
"""

# Live texts that may have a piece of a name in them, newest first; for a piece of one or two
# characters by the beginnings of trigrams.
_HAVING = """
    SELECT s.seq, s.content || char(10) || s.metadata
    FROM ({0}) found CROSS JOIN searchable s ON s.seq = found.seq
    WHERE EXISTS (SELECT 1 FROM chunks c WHERE c.seq = found.seq AND c.valid_until IS NULL)
"""
HAVING_PIECE = _HAVING.format("""
    SELECT rowid AS seq FROM trigrams
    WHERE trigrams MATCH :trigrams AND rowid <= :last ORDER BY rowid DESC
""")
HAVING_SHORT_PIECE = _HAVING.format("""
    SELECT DISTINCT doc AS seq FROM trigram_terms
    WHERE term >= :low AND term < :high AND doc <= :last ORDER BY seq DESC
""")

INSERT_ENTITY = """
    INSERT INTO entities (
        id, key, kind, name, summary, properties_json, source, importance,
        created_at, updated_at, valid_from
    ) VALUES (
        :id, :key, :kind, :name, :summary, :properties, :source, :importance,
        :created_at, :now, :valid_from
    )
"""

LATEST_ENTITY = """
    SELECT seq, id, kind, name, summary, properties_json, source, importance, created_at,
        valid_from, valid_until, superseded_by
    FROM entities WHERE key = ? ORDER BY valid_until IS NULL DESC, seq DESC LIMIT 1
"""

CLOSE_ENTITY = "UPDATE entities SET valid_until = max(:at, valid_from) WHERE seq = :seq"

SAME_RELATION = f"""
    SELECT {EDGE_COLUMNS} FROM relations r
    WHERE r.source_id = :source_id AND r.target_id = :target_id AND r.relation = :relation
    AND (r.valid_until IS NULL OR r.valid_until > :now)
    ORDER BY r.id DESC LIMIT 1
"""

SAME_PAST_RELATION = """
    SELECT id FROM relations
    WHERE source_id = :source_id AND target_id = :target_id AND relation = :relation
    AND valid_from = :valid_from AND valid_until = :valid_until AND weight = :weight
"""

INSERT_RELATION = """
    INSERT INTO relations (
        id, source_id, target_id, relation, weight, properties_json, source, created_at,
        valid_from, valid_until, evidence_chunk_id
    ) VALUES (
        :id, :source_id, :target_id, :relation, :weight, :properties, :source, :now,
        :valid_from, :valid_until, :evidence
    )
"""

CLOSE_RELATION = """
    UPDATE relations SET valid_until = max(:at, valid_from)
    WHERE id = :id AND (valid_until IS NULL OR valid_until > :at) RETURNING id
"""

# What a forgotten chunk takes along: edges that end at it, and those that only it had shown.
EDGES_OF_CHUNK = """
    SELECT id FROM relations WHERE source_id = :id OR target_id = :id
    UNION
    SELECT v.relation_id FROM evidence v WHERE v.chunk_seq = :seq AND NOT EXISTS (
        SELECT 1 FROM evidence o JOIN chunks c ON c.seq = o.chunk_seq
        WHERE o.relation_id = v.relation_id AND o.chunk_seq <> :seq AND c.valid_until IS NULL
    )
"""

# An edge of a chunk that an update replaces goes on from its next version.
MOVE_EDGE = """
    INSERT INTO relations (
        source_id, target_id, relation, weight, properties_json, source, confidence, created_at,
        valid_from, valid_until, evidence_chunk_id
    )
    SELECT iif(source_id = :old, :new, source_id), iif(target_id = :old, :new, target_id),
        relation, weight, properties_json, source, confidence, created_at,
        max(valid_from, :at), valid_until, evidence_chunk_id
    FROM relations WHERE id = :id RETURNING id
"""

HOLDING_EDGES = """
    SELECT id FROM relations WHERE (source_id = :node OR target_id = :node)
    AND (valid_until IS NULL OR valid_until > :at)
"""

COPY_EVIDENCE = "INSERT INTO evidence SELECT ?, chunk_seq FROM evidence WHERE relation_id = ?"

TWIN_RELATION = """
    SELECT id FROM relations
    WHERE source_id = :source_id AND target_id = :target_id AND relation = :relation
    AND (valid_until IS NULL OR valid_until > :now)
"""

UNDO_ALIASES = """
    DELETE FROM aliases WHERE entity_id = ? AND key IN (SELECT value FROM json_each(?))
"""
UNDO_MENTIONS = """
    DELETE FROM mentions
    WHERE entity_id = :keep AND chunk_seq IN (SELECT value FROM json_each(:moved))
    AND NOT EXISTS (  -- said again since
        SELECT 1 FROM audit a JOIN chunks c ON c.id = a.target_id
        WHERE c.seq = chunk_seq AND a.action = 'remember' AND a.id > :merge
    )
"""
UNDO_EVIDENCE = """
    DELETE FROM evidence WHERE relation_id = ? AND chunk_seq IN (SELECT value FROM json_each(?))
"""
UNDO_RELATION = """
    DELETE FROM relations WHERE id = :id AND valid_until IS :ended
    AND NOT EXISTS (SELECT 1 FROM evidence WHERE relation_id = :id)
    AND NOT EXISTS (
        SELECT 1 FROM audit
        WHERE target_id = CAST(:id AS TEXT) AND action = 'relate' AND id > :merge
    )
"""
# What was forgotten since, by itself or with all that showed it, stays forgotten.
REOPEN_RELATION = """
    UPDATE relations SET valid_until = :ended WHERE id = :old AND NOT EXISTS (
        SELECT 1 FROM relations s WHERE s.id = :kept AND s.valid_until IS NOT :ended AND (
            EXISTS (
                SELECT 1 FROM audit WHERE target_id = CAST(s.id AS TEXT)
                AND action = 'forget' AND target_kind = 'relation' AND id > :merge
            )
            OR (
                SELECT count(*) > 0 AND count(*) FILTER (WHERE c.valid_until IS NULL) = 0
                FROM evidence v JOIN chunks c ON c.seq = v.chunk_seq WHERE v.relation_id = s.id
            )
        )
    )
"""
REOPEN_ENTITY = "UPDATE entities SET valid_until = NULL, superseded_by = NULL WHERE seq = ?"

INSERT_AUDIT = """
    INSERT INTO audit (at, client, action, target_kind, target_id, reason, detail_json)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""

INSERT_LOG = """
    INSERT INTO recall_log (
        query, strategy, results_json, recall_details_json, graph_hops, latency_ms, client,
        created_at
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

# --- Reading ---------------------------------------------------------------------------


class View:
    """One read connection: what the lanes and the answers ask of the store."""

    def __init__(self, db: apsw.Connection, indexes: "_Indexes") -> None:
        self._db, self._indexes = db, indexes

    def reading(self) -> AbstractContextManager[None]:
        """Everything asked inside sees one moment of the file, and is asked faster."""
        return _reading(self._db)

    # -- candidates --

    def index(self, *, past: bool = False) -> Index:
        """The index in memory, up to date: of live chunks, or of all there ever were."""
        return self._indexes.current(self._db, past).index

    def held(self, *, past: bool = False) -> "Held":
        """The index and the links in memory, both as of the same moment."""
        return self._indexes.current(self._db, past)

    def term_numbers(self, terms: Sequence[str]) -> list[int | None]:
        """The number of each term; None for one that no text ever had."""
        rows = _all(self._db, TERM_NUMBERS, {"terms": json.dumps(list(terms))})
        numbers: dict[str, int] = dict(rows)
        return [numbers.get(term) for term in terms]

    def named_one_by_one(self, scope: Scope) -> set[int] | None:
        """The chunks that a scope's tag and kind allow; None where it asks for neither."""
        sets = [
            {row[0] for row in _all(self._db, sql, scope.bound())}
            for sql, asked in ((OF_TAG, scope.tag), (OF_KIND, scope.kind))
            if asked is not None
        ]
        return set.intersection(*sets) if sets else None

    def containing(
        self,
        literal: str,
        scope: Scope,
        limit: int,
        wanted: Callable[[list[int]], list[int]] = list,
    ) -> list[int]:
        """The first chunks whose folded text has `literal` in it.

        `wanted` keeps those in scope of some chunks; without it all are. It is asked for few at
        a time, so that a piece that very many have costs no more than one that some have.
        """
        found: list[int] = []
        for closed in ("", "closed_") if scope.asof else ("",):
            for seqs in self._candidates(literal, closed, limit):
                some, left = wanted(seqs), limit - len(found)
                exact = len(literal) <= EXACT_PIECE
                found += some[:left] if exact else self.holding(literal, some, left)
                if len(found) == limit:
                    return found
        return found

    def _candidates(self, literal: str, closed: str, most: int) -> Iterator[list[int]]:
        """Live or closed chunks that may have `literal` in their text, as they were stored."""
        low, high = _beginning(literal)
        bound: dict[str, Any] = {"after": 0, "most": most, "low": low, "high": high}
        bound["trigrams"] = " AND ".join(map(_quoted, _some_trigrams(literal)))
        sql = (_BY_TRIGRAMS if len(literal) > 2 else _BY_BEGINNING).format(closed)
        while seqs := [row[0] for row in _all(self._db, sql, bound)]:
            yield seqs
            if len(seqs) < bound["most"]:
                return
            bound |= {"after": seqs[-1], "most": 4 * bound["most"]}

    def holding(self, literal: str, seqs: Sequence[int], limit: int) -> list[int]:
        """The first of some chunks whose folded text, tags or properties have `literal` in them."""
        found: list[int] = []
        for start in range(0, len(seqs), TEXTS_AT_ONCE):
            texts = self.texts(some := seqs[start : start + TEXTS_AT_ONCE])
            found += [seq for seq in some if literal in words.fold(texts.get(seq, ""))]
            if len(found) >= limit:
                break
        return found[:limit]

    def named(self, keys: Iterable[str], scope: Scope) -> list[Naming]:
        """The entities that one of these keys names, longest name first."""
        names = self._indexes.spellings(self._db).among(keys)
        if not names:
            return []
        bound = {"asof": scope.asof, "kind": scope.kind, "keys": json.dumps(names)}
        return [Naming(*row) for row in _all(self._db, NAMED, bound)]

    def names_like(self, parts: Iterable[str], scope: Scope) -> list[Naming]:
        """The entities with a word in a name that begins with one of the parts, in their order.

        Of those with the same part the closest name comes first.
        """
        keys: dict[str, None] = {}
        for part in parts:
            bounds = (*_beginning(part[: words.LONGEST_START]), MOST_NAMES)
            found = sorted({row[0] for row in _all(self._db, NAMES_FROM, bounds)})
            found.sort(key=len)
            keys |= dict.fromkeys(found[:CLOSEST_NAMES])
        if not keys:
            return []
        bound = {"asof": scope.asof, "kind": scope.kind, "keys": json.dumps(list(keys))}
        return [Naming(*row) for row in _all(self._db, NAMES_LIKE, bound)]

    # -- the graph --

    def reached(self, nodes: Iterable[str], bounds: GraphBounds) -> list[str]:
        """The live nodes one relation away from any of some, heaviest relation first."""
        return [row[0] for row in _all(self._db, REACHED, _graph(nodes, bounds))]

    def edges_between(self, nodes: Iterable[str], bounds: GraphBounds) -> list[EdgeRow]:
        """Every relation with both ends among some nodes, heaviest first."""
        return [EdgeRow(*row) for row in _all(self._db, BETWEEN, _graph(nodes, bounds))]

    # -- rows --

    def chunks(self, keys: Iterable[str] | Iterable[int], scope: Scope) -> list[ChunkRow]:
        """Those of the chunks, meant by ids or by seqs, that are in scope, in the order given."""
        wanted = list(keys)
        name = "id" if wanted and isinstance(wanted[0], str) else "seq"
        if scope.current:
            found = self._db.executemany(LIVE_CHUNK_BY[name], [(key,) for key in wanted])
        else:
            bound = scope.bound()
            found = self._db.executemany(
                CHUNK_IN_SCOPE_BY[name], [bound | {"key": key} for key in wanted]
            )
        return [ChunkRow(*row) for row in found]

    def chunk_ids(self, seqs: Iterable[int]) -> dict[int, str]:
        """The id of each chunk."""
        sql = "SELECT c.seq, c.id FROM json_each(?) i JOIN chunks c ON c.seq = i.value"
        return dict(_all(self._db, sql, (json.dumps(list(seqs)),)))

    def texts(self, seqs: Iterable[int]) -> dict[int, str]:
        """Text with tags and properties of each chunk."""
        return dict(_all(self._db, TEXTS, (json.dumps(list(seqs)),)))

    def entities(self, ids: Iterable[str], scope: Scope) -> dict[str, EntityRow]:
        """Those of the entities that are live, or were at `asof`, and of the scope's kind."""
        bound = scope.bound() | {"ids": json.dumps(list(ids))}
        return {row[0]: EntityRow(*row) for row in _all(self._db, ENTITIES, bound)}

    def find_entity(self, reference: str, asof: str | None) -> str | None:
        """The id of the entity with this id, or with this name, alias or code and no other."""
        return _entity_id(self._db, reference, asof)

    def show_chunk(self, chunk_id: str) -> dict[str, Any]:
        """All that is known of a memory, live or closed, and the ids of its other versions."""
        shown = _table(self._db, SHOWN_CHUNK, chunk_id)
        if shown is None:
            raise NotFound("missing.chunk", id=chunk_id)
        return _read_json(shown, "tags", "properties", "older_versions", "newer_versions")

    def show_entity(self, entity_id: str) -> dict[str, Any] | None:
        """All that is known of a live entity, but for its relations."""
        shown = _table(self._db, SHOWN_ENTITY, entity_id)
        return shown and _read_json(shown, "aliases", "properties")

    def latest_version(self, chunk_id: str) -> str:
        """The id of the last version of the memory that this id belongs to; NotFound if none."""
        return str(_version(self._db, chunk_id)["id"])

    def entity_names(self, kind: str | None = None) -> list[EntityNames]:
        """Every live entity, of one kind or of all, with its names and its mentions counted."""
        rows = _all(self._db, ENTITY_NAMES, {"kind": kind})
        return [
            EntityNames(row[0], row[1], (row[0], row[2], *json.loads(row[3])), row[4])
            for row in rows
        ]

    def near_names(self, reference: str, limit: int = 5) -> list[str]:
        """Ids of live entities with a name that resembles this one, for an error's hint."""
        wanted = _trigrams(f" {words.fold(reference)} ")
        if not wanted:
            return []
        sql = """
            SELECT e.id, sum(instr(' ' || a.key || ' ', k.value) > 0) AS shared
            FROM aliases a JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL,
                json_each(?) k
            GROUP BY e.id, a.key HAVING shared * 3 > ? ORDER BY shared DESC, e.id LIMIT ?
        """
        rows = _all(self._db, sql, (json.dumps(wanted), len(wanted), limit * 4))
        return list(dict.fromkeys(row[0] for row in rows))[:limit]

    def pending_count(self) -> int:
        return int(_one(self._db, PENDING) or 0)

    def pending(self, limit: int) -> list[ChunkRow]:
        """The oldest live chunks without vectors."""
        sql = """
            SELECT seq, id, content, source, timestamp, importance
            FROM chunks WHERE pending = 1 AND valid_until IS NULL ORDER BY seq LIMIT ?
        """
        return [ChunkRow(*row) for row in _all(self._db, sql, (limit,))]

    def model(self) -> Model | None:
        """The model whose vectors the file holds, if any."""
        return _model(self._db)

    def model_mark(self) -> str:
        """What that model and its vectors are known by; empty while there is none."""
        return str(_one(self._db, MARK) or "")

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows of each table, as total, active and deleted."""
        return {
            table: dict(zip(("total", "active", "deleted"), row, strict=True))
            for table, sql in COUNTS.items()
            for row in self._db.execute(sql, {"at": timestamps.now()})
        }

    def vector_count(self) -> int:
        """How many vectors live chunks have."""
        sql = """
            SELECT count(*) FROM windows w JOIN chunks c ON c.seq = w.chunk_seq
            WHERE c.valid_until IS NULL
        """
        return int(_one(self._db, sql) or 0)

    def latencies(self, since: str) -> list[tuple[float, bool]]:
        """Milliseconds of each recall since a moment, and whether it found nothing."""
        sql = "SELECT latency_ms, results_json = '[]' FROM recall_log WHERE created_at >= ?"
        return [(row[0], bool(row[1])) for row in _all(self._db, sql, (since,))]


# --- Small statements that reading and writing share ------------------------------------


def _all(db: apsw.Connection, sql: str, bound: Any = ()) -> list[Any]:
    """Every row, read to the end, so that the statement holds no lock."""
    return list(db.execute(sql, bound))


def _one(db: apsw.Connection, sql: str, bound: Any = ()) -> Any:
    """The first column of the first row, or None."""
    row = db.execute(sql, bound).fetchone()
    return None if row is None else row[0]


def _table(db: apsw.Connection, sql: str, key: str | int) -> dict[str, Any] | None:
    """The one row that a key leads to, by the names of its columns."""
    cursor = db.execute(sql, (key,))
    for row in cursor:
        return dict(zip((column[0] for column in cursor.get_description()), row, strict=True))
    return None


def _read_json(row: dict[str, Any], *columns: str) -> dict[str, Any]:
    """The row, with what is JSON in it read."""
    return row | {column: json.loads(row[column]) for column in columns}


def _version(db: apsw.Connection, chunk_id: str) -> dict[str, Any]:
    """The last version of the memory that this id, of any version, belongs to."""
    while True:
        version = _table(db, CHUNK_VERSION, chunk_id)
        if version is None:
            raise NotFound("missing.chunk", id=chunk_id)
        if version["superseded_by"] is None:
            return version
        chunk_id = version["superseded_by"]


def _graph(nodes: Iterable[str], bounds: GraphBounds) -> dict[str, Any]:
    types = json.dumps(list(bounds.types)) if bounds.types else None
    return {
        "nodes": json.dumps(list(nodes)),
        "at": bounds.at,
        "asof": bounds.asof,
        "types": types,
    }


def _has_vectors(db: apsw.Connection) -> bool:
    return _has_table(db, "vectors")


def _has_table(db: apsw.Connection, name: str) -> bool:
    # Asked by a statement, which sees a table that another connection has just made.
    return _one(db, "SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)) is not None


def _entity_id(db: apsw.Connection, reference: str, asof: str | None = None) -> str | None:
    """Ids come before names; a name that several entities share leads to none of them."""
    scope = Scope(asof=asof).bound()
    sql = f"SELECT e.id FROM entities e WHERE e.key = :key AND {LIVE_ENTITY}"
    found = _one(db, sql, scope | {"key": words.identity(reference)})
    if found is not None:
        return str(found)
    keys = words.lookup_keys({words.name_key(reference), *words.codes(words.fold(reference))})
    ids = {row[0] for row in _all(db, NAMED, scope | {"keys": json.dumps(list(keys))})}
    return str(ids.pop()) if len(ids) == 1 else None


_json = json.JSONEncoder(ensure_ascii=False).encode
"""A value as JSON, its text as it stands."""


@lru_cache(maxsize=64)
def _detail(name: str, value: str | int) -> str:
    """What nearly every row of the audit says beside what was done to what."""
    return _json({name: value})


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\x00", " ") + '"'


def _beginning(text: str) -> tuple[str, str]:
    """The bounds between which all that begins with a text sorts."""
    return text, text[:-1] + chr(min(ord(text[-1]) + 1, 0x10FFFF))


def _trigrams(text: str) -> list[str]:
    return list(dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2)))


def _some_trigrams(text: str) -> list[str]:
    """Every second trigram, or fewer of a long text: enough to have few false candidates."""
    step = max(2, len(text) // MOST_TRIGRAMS)
    places = [*range(0, len(text) - 2, step), len(text) - 3]
    return list(dict.fromkeys(text[at : at + 3] for at in places if at >= 0))


# --- The store -------------------------------------------------------------------------


class SqliteStore:
    """The file, its one writing connection and a small pool of reading ones.

    Safe for use by many threads; several processes may have the same file open. Raises
    StoreError, with a sentence that names the file, where it cannot be used.
    """

    # -- opening and closing --

    @classmethod
    def of(cls, config: Config) -> "SqliteStore":
        """The configured file, opened as the settings say."""
        return cls(
            config.database_path,
            busy_seconds=config.database_busy_seconds,
            synchronous=config.database_synchronous,
            cache_mb=config.database_cache_mb,
        )

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float = 5.0,
        synchronous: str = "NORMAL",
        cache_mb: int = 64,
        lanes: Sequence[str] = ("vector", "graph", "meta", "entity"),
        reader_sets: int = 4,
        cues: "CueSettings | None" = None,
    ) -> None:
        """`cues` is how memories are found by cues; without it no cue is read or written."""
        self.path = path
        self._busy_ms = int(busy_seconds * 1000)
        self._synchronous = synchronous
        self._lanes = tuple(lanes)
        # A quarter for the writer: what a long transaction changes should not be written twice.
        self._writer_kib = cache_mb * 1024 // 4
        self._reader_kib = 3 * self._writer_kib // (1 + reader_sets * len(self._lanes))
        self._write_lock = threading.Lock()
        self._all: list[apsw.Connection] = []
        # None stands for a set that is made when it is first needed.
        self._sets: LifoQueue[dict[str, View] | None] = LifoQueue()
        for _ in range(reader_sets):
            self._sets.put(None)
        self._singles: LifoQueue[View] = LifoQueue()
        self._log_db: apsw.Connection | None = None
        self._indexes = _Indexes(_HeldCues(cues) if cues else None)
        self._terms: dict[str, int] = {}  # numbers in the file, for who holds the write lock
        self._spelled: Spellings | None = None  # the names that were known with them
        with self._explained():
            self._db = self._open()

    def close(self) -> None:
        """Close every connection; the last one out leaves the whole memory in the one file."""
        for db in reversed(self._all):
            db.close()
        self._all.clear()

    def _open(self) -> apsw.Connection:
        self.read_only = not examine(self.path)
        self._identity = identity(self.path)
        db = self._connect()
        try:
            self._recognise(db)
            if not self.read_only:
                self._patiently(lambda: db.pragma("journal_mode", "wal"))
                self._patiently(lambda: migrate(db))
            if self.path.stat().st_size < CHECK_WHOLE_BELOW:
                _refuse_damaged(db, self.path)
        except BaseException:
            self.close()
            raise
        return db

    def _recognise(self, db: apsw.Connection) -> None:
        application, version = db.pragma("application_id"), db.pragma("user_version")
        if application != APPLICATION_ID and _one(db, "SELECT 1 FROM sqlite_master LIMIT 1"):
            raise StoreError("store.foreign", path=self.path)
        if version > SCHEMA_VERSION:
            raise StoreError("store.newer", path=self.path, version=version, known=SCHEMA_VERSION)
        if self.read_only and version < SCHEMA_VERSION:
            raise StoreError("store.read_only", path=self.path)

    def _connect(self, *, reader: bool = False) -> apsw.Connection:
        if self.read_only:
            db = self._read_only_connection()
        else:  # never made here: a file that was deleted must not come back empty
            db = apsw.Connection(str(self.path), apsw.SQLITE_OPEN_READWRITE)
        self._all.append(db)
        db.set_busy_timeout(self._busy_ms)
        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        db.enable_load_extension(False)
        db.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        # Plans that no value can change: else many a statement is planned anew for each value.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("cache_size", -(self._reader_kib if reader else self._writer_kib))
        db.pragma("foreign_keys", True)
        db.pragma("synchronous", self._synchronous)
        db.pragma("query_only", reader)
        db.pragma("journal_size_limit", LARGE_LOG)
        return db

    def _read_only_connection(self) -> apsw.Connection:
        """A connection that leaves no trace, to a file or in a folder that may not be written."""
        name = self.path.as_uri() + "?mode=ro"
        if not self.sizes()["wal_bytes"]:
            name += "&immutable=1"  # all is in the file, and no log can be made beside it
        return apsw.Connection(name, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)

    def _patiently(self, step: Any) -> None:
        """Run a step of opening again while another process holds the file.

        Changing to WAL does not wait by itself, and several processes may open at once.
        """
        deadline = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                step()
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    @contextmanager
    def views(self) -> Iterator[dict[str, View]]:
        """Borrow a set of reading connections, one for each lane; waits while all are lent."""
        with self._explained():
            views = self._sets.get()
            try:
                if views is None:
                    views = {lane: self._reader() for lane in self._lanes}
                yield views
            finally:
                self._sets.put(views)

    @contextmanager
    def view(self) -> Iterator[View]:
        """Borrow one reading connection; never waits, so whoever holds a set may do it."""
        with self._explained():
            try:
                view = self._singles.get_nowait()
            except Empty:
                view = self._reader()
            try:
                yield view
            finally:
                self._singles.put(view)

    def _reader(self) -> View:
        return View(self._connect(reader=True), self._indexes)

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        """Hold the write lock: threads queue for it here, processes for SQLite's."""
        with self._write_lock:
            try:
                with self._begun(self._db):
                    yield self._db
            except BaseException:
                self._terms.clear()  # some may be in no file
                raise

    @contextmanager
    def _writing(self, client: str, *, undoable: bool = False) -> Iterator["_Writer"]:
        """A transaction of what a client asked for, with all that follows from it.

        Of an undoable one the last record of the audit tells which rows it changed, and how.
        """
        with self._transaction() as db, _noting(db) if undoable else nullcontext() as changes:
            spellings = self._indexes.spellings(db, starts=True)
            if spellings is not self._spelled or len(self._terms) > MOST_TERMS:
                self._terms.clear()  # names that are read anew tell that rows were removed
                self._spelled = spellings
            writer = _Writer(db, timestamps.now(), client, self._terms, spellings)
            yield writer
            writer.finish()
            if changes is not None:
                writer.note(changes())
        self._read_cues()

    def _read_cues(self) -> None:
        """Read the cues of what was written, after it: nobody waits for it, nor is it undone.

        Where that fails, all is written and the chunks wait for the next who reads cues.
        """
        if (held := self._indexes.cues) is None:
            return
        try:
            held.index_more(self, wait=False)
        except Exception as error:
            log.warning("memories still wait for cues: %s", error)

    @contextmanager
    def _begun(self, db: apsw.Connection) -> Iterator[None]:
        """A transaction that writes: commit on success, roll back on any exception."""
        with self._explained():
            self._refuse_to_lose()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # some errors have already rolled back
                    db.execute("ROLLBACK")
                raise

    def _refuse_to_lose(self) -> None:
        """Refuse to write where it could not be kept: to a file that may not be, or is gone."""
        if self.read_only:
            raise StoreError("store.read_only", path=self.path)
        if identity(self.path) != self._identity:
            raise StoreError("store.replaced", path=self.path)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what SQLite's errors mean for the file."""
        try:
            yield
        except apsw.BusyError:
            seconds = self._busy_ms / 1000
            raise StoreBusy("store.busy", path=self.path, seconds=seconds) from None
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreError("store.damaged", path=self.path, error=error) from error
        except apsw.FullError as error:
            raise StoreError("store.full", path=self.path) from error
        except apsw.Error as error:
            raise StoreError("store.unreachable", path=self.path, error=error) from error

    # -- writing chunks --

    def put_chunks(self, chunks: Sequence[NewChunk], client: str) -> list[StoredChunk]:
        """Store memories, or find them stored, with all that hangs on them."""
        indexed = [Indexed(chunk.content) for chunk in chunks]
        with self._writing(client) as writer:
            writer.look_up(term for text in indexed for term in text.terms)
            writer.look_for([text.hash for text in indexed])
            return writer.put_chunks(chunks, indexed)

    def replace_chunk(
        self, chunk_id: str, change: Change, reason: str, client: str
    ) -> tuple[str, str]:
        """Close the current version and open the next; ids of the new and the closed one.

        The ids are the same where the change changes nothing.
        """
        indexed = None if change.content is None else Indexed(change.content)
        with self._writing(client, undoable=True) as writer:
            return writer.replace(chunk_id, change, indexed, reason)

    def close_chunk(
        self, chunk_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        """Forget a memory; how many chunks and how many relations were closed."""
        with self._writing(client, undoable=True) as writer:
            return writer.forget_chunk(chunk_id, reason, cascade)

    def written_index(self) -> Index:
        """The live index with what was just written.

        It is read on the connection that wrote, which still has those pages in memory.
        """
        with self._explained(), self._write_lock:
            return self._indexes.current(self._db, past=False).index

    # -- writing the graph --

    def put_relation(self, relation: NewRelation, client: str) -> tuple[int, str]:
        """Store a relation; its id and what was done."""
        with self._writing(client, undoable=True) as writer:
            return writer.put_relation(relation, source="manual", about=writer.now)

    def close_entity(
        self, entity_id: str, reason: str, cascade: bool, client: str
    ) -> tuple[int, int]:
        with self._writing(client, undoable=True) as writer:
            return writer.forget_entity(entity_id, reason, cascade)

    def close_relation(self, relation_id: int, reason: str, client: str) -> int:
        with self._writing(client, undoable=True) as writer:
            return writer.forget_relation(relation_id, reason)

    def merge_entities(self, keep: str, duplicate: str, reason: str, client: str) -> Merge | None:
        """Make two entities one; None where they are already."""
        with self._writing(client) as writer:
            return writer.merge_entities(keep, duplicate, reason)

    def undo_merge(self, audit_id: int, client: str) -> int:
        """Take a merge back; how many were."""
        with self._writing(client) as writer:
            return writer.undo_merge(audit_id)

    def undo(self, audit_id: int, client: str) -> dict[str, Any]:
        """Put every row back that a recorded action changed; what was undone, and its record."""
        with self._writing(client) as writer:
            return _undo(writer, audit_id)

    def history(self, limit: int, target: str | None, action: str | None) -> list[dict[str, Any]]:
        """The newest records of the audit, of one target or action where that is named."""
        with self.view() as view:
            return _history(view._db, limit, target, action)

    # -- vectors --

    def adopt_model(self, model: Model) -> Model:
        """Record the model of an untouched file; the one it has, if another was first."""
        with self._transaction() as db:
            if (known := _model(db)) is not None:
                return known
            _record_model(db, model)
            _make_vectors(db, "vectors", model.dim)
            return replace(model, mark=_one(db, MARK))

    def put_noise(self, noise: Noise) -> None:
        """Record what the file's model makes of unrelated texts, for a file that does not know."""
        with self._transaction() as db:
            db.execute(PUT_META, ("embedding_noise", json.dumps(noise), timestamps.now()))

    def put_vectors(self, rows: Sequence[tuple[int, Vectors]], made_by: str) -> int:
        """Give waiting chunks their vectors; how many still waited and were live.

        None do where the file has another model by now than the one of the mark `made_by`.
        """
        with self._writing("") as writer:
            if writer.mark != made_by:
                return 0
            return sum(writer.fill(seq, vectors) for seq, vectors in rows)

    def repair_vectors(self, *, dry_run: bool) -> dict[str, int]:
        """Mend what the invariant forbids; how many rows of each kind were found.

        Chunks without vectors are marked as pending, vectors without a chunk and windows
        without a vector removed, and marks of closed chunks put right.
        """
        with self._transaction() as db:
            found = {name: len(_all(db, sql)) for name, sql in _broken(db).items()}
            if not dry_run:
                for name, sql in _broken(db).items():
                    for row in _all(db, sql):
                        db.execute(MEND[name], row)
                if any(found.values()):
                    db.execute(CHANGED_ALL)
            return found

    # -- looking back --

    def log_recalls(self, entries: Sequence[LogEntry]) -> None:
        """Write recall_log, and count each returned row as recalled; for one thread only.

        On a connection of its own: while it waits for another process, memories must not wait
        behind it for their turn to wait.
        """
        if self._log_db is None:
            with self._explained():
                self._log_db = self._connect()
        db = self._log_db
        with self._begun(db):
            db.executemany(INSERT_LOG, map(_log_row, entries))
            for sql, prefix in ((COUNT_CHUNKS, ""), (COUNT_ENTITIES, "entity:")):
                db.executemany(sql, _recalled(entries, prefix))

    # -- upkeep --

    def check(self) -> dict[str, int]:
        """How many rows break what the file promises, by fault; all 0 in a sound one."""
        return self.look_over()[0]

    def look_over(
        self, seconds: float = float("inf"), *, whole: bool = True
    ) -> tuple[dict[str, int], bool]:
        """The faults that check() counts, and whether the time sufficed to look for all of them.

        It only reads, each fault as of its own moment, so that nobody waits: neither writers nor
        whoever brings in the log. Without `whole` an index of a table is not compared with it.
        """
        end, faults = time.monotonic() + seconds, dict[str, int]()
        with self.view() as view:
            db = view._db
            db.set_progress_handler(lambda: time.monotonic() > end, CHECK_STEPS)
            try:
                for name, count in _faults(db, "integrity_check" if whole else "quick_check"):
                    faults[name] = count
                    if time.monotonic() > end:
                        return faults, False
            except apsw.InterruptError:
                return faults, False
            finally:
                db.set_progress_handler(None)
        return faults, True

    def reindex(self) -> int:
        """Write anew what the text indexes lack, hold wrongly or cannot read; how many rows.

        In transactions of some hundred chunks each, so that it may run beside a server; what an
        end in the middle leaves is lacking, and found so the next time.
        """
        removed = self._unindex()
        with self.view() as view:
            lacking = sorted({row[0] for sql in LACKING for row in _all(view._db, sql)})
        for start in range(0, len(lacking), REINDEXED_AT_ONCE):
            with self._writing("") as writer:
                for seq in lacking[start : start + REINDEXED_AT_ONCE]:
                    _index_again(writer, seq)
        return removed + len(lacking)

    def _unindex(self) -> int:
        """Empty the text indexes that cannot be read, and drop rows that are of no such chunk."""
        with self.view() as view:  # before others would wait for it
            broken = [table for table in TEXT_INDEXES if _broken_index(view._db, table)]
            misread = any(count for _, count in _cue_faults(view._db))
        with self._transaction() as db:
            if misread:
                _drop_cues(db)
            for table in broken:
                db.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
            removed = 0
            for _, table, key in _EACH_INDEX:
                wrong = _all(db, CHECKS[f"wrongly in {table}"])
                db.executemany(f"DELETE FROM {table} WHERE {key} = ?", wrong)
                removed += len(wrong)
            return removed

    def remove_orphans(self) -> int:
        """Remove what belongs to a chunk, a relation or an entity that never was; how many rows.

        A round of which the person said more than there is becomes all theirs.
        """
        with self._transaction() as db:
            for seq, content in _all(db, ROUNDS_BEYOND):
                db.execute("UPDATE turns SET asked = ? WHERE chunk_seq = ?", (len(content), seq))
            return sum(len(_all(db, sql)) for sql in REMOVE_ORPHANS)

    def checkpoint(self, seconds: float = 0.05) -> bool:
        """Bring the write-ahead log into the file and empty it; False while somebody uses it.

        Waits that long for readers, and writers wait with it. Afterwards, until the next write,
        the one file is the whole memory.
        """
        with self._keeping() as db:
            db.set_busy_timeout(int(seconds * 1000))
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
            return True

    def trim_logs(self, log_rows: int, audit_rows: int) -> int:
        """Drop the oldest rows beyond these numbers, a thousand at a time; how many."""
        dropped = 0
        limits = {"recall_log": log_rows, "audit": audit_rows, "changes": KEPT_CHANGES}
        for table, rows in limits.items():
            count = 1
            while count:
                with self._transaction() as db:
                    count = len(_all(db, TRIM[table], (rows,)))
                dropped += count
        return dropped

    def purge(self, before: str, stop: Callable[[], bool]) -> int:
        """Remove for good what was closed before a moment, in small steps; how many rows went.

        `stop` is asked between them, and may take its time to let others write; what is left
        then goes the next time.
        """
        removed = 0
        for purging in _PURGES:
            for rows in self._aged(purging.found, before, stop):
                with self._writing("") as writer:
                    removed += purging.remove(writer._db, rows, before)
        if removed:
            with self._transaction() as db:
                _drop_unused_cues(db)
                _forget_changes(db)
        return removed

    def _aged(self, sql: str, before: str, stop: Callable[[], bool]) -> Iterator[list[int]]:
        """The numbers of rows that may be old enough, some at a time, in their order."""
        after = 0
        while not stop():
            with self.view() as view:
                bound = {"before": before, "after": after, "most": PURGED_AT_ONCE}
                rows = [row[0] for row in _all(view._db, sql, bound)]
            if not rows:
                return
            yield rows
            after = rows[-1]

    def erasing(self, what: "Erasing") -> "Found":
        """What an erasure would remove; NotFound where there is nothing of that name."""
        with self.view() as view, _reading(view._db):
            return _to_erase(view._db, what)

    def erase(self, what: "Erasing", client: str) -> Counter[str]:
        """Remove rows, their history and all that is known of them; how many of each kind.

        The bytes are gone after finish_erasing, and a file that waits for it knows.
        """
        done, more = Counter[str](), True
        with self._transaction() as db:
            db.execute(PUT_META, (ERASED, "1", timestamps.now()))
        while more:
            with self._overwriting(), self._writing(client) as writer:
                step = _erase_some(writer, what)
            done += step
            more = step["memories"] > 0
        with self._overwriting(), self._writing(client) as writer:
            done += _erase_entities(writer, what)
            writer._audit("erase", what.kind, what.shown, "", _json(dict(done)))
        return done

    @contextmanager
    def _overwriting(self) -> Iterator[None]:
        """Let SQLite overwrite what is deleted, until VACUUM leaves nothing of it."""
        self._db.pragma("secure_delete", True)
        try:
            yield
        finally:
            self._db.pragma("secure_delete", False)

    def waits_for_erasing(self) -> bool:
        """Whether something was erased whose bytes may still be in the file."""
        with self.view() as view:
            return _one(view._db, "SELECT 1 FROM meta WHERE key = ?", (ERASED,)) is not None

    def finish_erasing(self, seconds: float) -> bool:
        """Write the file anew without what was erased; False while others are using it.

        It waits that long for them. It can be called again, and needs the file's size once more.
        """
        # Of a change of model that was broken off, vectors of what was erased may be left.
        NextVectors(self).drop(next_too=False)
        with self._overwriting(), self._writing("") as writer:
            _drop_unused(writer._db)
        with self._keeping() as db:
            db.set_busy_timeout(int(seconds * 1000))
            try:
                for table in TEXT_INDEXES:
                    db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
                db.execute("VACUUM")
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                db.execute("DELETE FROM meta WHERE key = ?", (ERASED,))
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
        return True

    def optimize(self) -> None:
        """Let SQLite bring its statistics up to date where that pays."""
        with self._keeping() as db:
            db.pragma("optimize")

    @contextmanager
    def _keeping(self) -> Iterator[apsw.Connection]:
        """A connection for upkeep, which gives way to everybody else."""
        with self._explained():
            db = self._connect()
            db.set_busy_timeout(50)
            try:
                yield db
            finally:
                self._all.remove(db)
                db.close()

    def sizes(self) -> dict[str, int]:
        """Bytes of the file and of its write-ahead log."""
        wal = self.path.with_name(self.path.name + "-wal")
        return {
            "db_bytes": self.path.stat().st_size,
            "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        }


# --- Copies, for backup.py --------------------------------------------------------------

PAGES_AT_ONCE = 1000  # copied before it is asked again whether to stop
STEPS_AT_ONCE = 10_000  # of SQLite's, in the same sense

COPIED = """
    SELECT
        (SELECT count(*) FROM chunks WHERE valid_until IS NULL),
        (SELECT count(*) FROM chunks WHERE valid_until IS NOT NULL),
        (SELECT count(*) FROM entities WHERE valid_until IS NULL),
        (SELECT count(*) FROM relations WHERE valid_until IS NULL)
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a file holds: its schema, live memories and closed ones, live entities and relations."""

    schema: int
    memories: int
    closed: int
    entities: int
    relations: int


def copy_file(path: Path, target: Path, stop: Callable[[], bool]) -> Counts:
    """Copy a memory as of one moment into an empty file, while others write; what it then held.

    Raises StoreError, also where `stop` ends it, and OSError where the disk of `target` is full.
    """
    # Never through Python's own files: closing one would take the locks of the whole process.
    with _read_from(path), closing(_source(path)) as source, closing(_target(target)) as copy:
        source.execute("BEGIN")
        counts = _counts(source, path)
        with copy.backup("main", source, "main") as pages:
            while not pages.done:
                if stop():
                    raise StoreError("backup.stopped")
                pages.step(PAGES_AT_ONCE)
        return counts


def examine_copy(path: Path, shown: Path, stop: Callable[[], bool]) -> Counts:
    """Read a file that nobody writes to from end to end; what it holds.

    Raises StoreError, about the file `shown`, if anything is wrong with it.
    """
    with _read_from(shown), closing(_as_it_lies(path)) as db:
        db.set_progress_handler(stop, STEPS_AT_ONCE)
        counts = _counts(db, shown)
        problem = _one(db, "PRAGMA integrity_check(1)")
        if problem == "ok" and _all(db, "PRAGMA foreign_key_check"):
            problem = "foreign_key_check"
        if problem != "ok":
            raise StoreError("store.damaged", path=shown, error=problem)
        return counts


@contextmanager
def held_alone(path: Path) -> Iterator[Callable[[BinaryIO], None]]:
    """Keep every other program from an existing file, whose log is brought in where that works.

    Raises StoreBusy while any has it open, even an idle one. Gives a way to copy the file's bytes:
    reading it otherwise would give up the lock.
    """
    with _read_from(path):
        if path.stat().st_size:  # SQLite would delete the log of an empty file
            _bring_log_in(path)
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
        file = apsw.VFSFile("", str(path), [flags, 0])
        try:
            # By the locks alone, which a file has even if nothing in it can be read.
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            file.xLock(apsw.SQLITE_LOCK_RESERVED)
            file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
            yield lambda out: _copy_bytes(file, out)
        finally:
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
            file.xClose()


def _bring_log_in(path: Path) -> None:
    """Make the file the whole memory, with nothing beside it; a damaged one stays as it is."""
    with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)) as db:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        try:
            if _one(db, "SELECT 1 FROM sqlite_master LIMIT 1"):  # one just begun may be anybody's
                _refuse_foreign(db, path)
            # Only the one who is alone may leave WAL, and then the log is in the file and gone.
            if db.pragma("journal_mode", "delete") != "delete":
                raise StoreBusy("store.in_use", path=path)
        except apsw.BusyError:
            raise
        except apsw.Error:  # held_alone's caller keeps the log beside the file
            return


def _copy_bytes(file: apsw.VFSFile, out: BinaryIO) -> None:
    size, block = file.xFileSize(), 1 << 20
    for at in range(0, size, block):
        out.write(file.xRead(min(block, size - at), at))


def _source(path: Path) -> apsw.Connection:
    """A connection that reads, to a file that others may be using or that may not be written."""
    log = beside(path, "-wal")
    name, flags = path.as_uri(), apsw.SQLITE_OPEN_READWRITE
    if not (may_write(path) and may_write(path.parent)):
        if not log.exists() or not log.stat().st_size:
            return _as_it_lies(path)
        name, flags = name + "?mode=ro", apsw.SQLITE_OPEN_READONLY
    db = apsw.Connection(name, flags | apsw.SQLITE_OPEN_URI)
    db.set_busy_timeout(5000)
    db.pragma("query_only", True)
    return db


def _target(path: Path) -> apsw.Connection:
    """A connection that fills an empty file of which nobody knows yet: nothing can be lost."""
    db = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
    db.pragma("journal_mode", "off")
    db.pragma("synchronous", "off")
    return db


def _as_it_lies(path: Path) -> apsw.Connection:
    """A connection to a file that nobody changes; nothing is made beside it."""
    name = path.as_uri() + "?mode=ro&immutable=1"
    db = apsw.Connection(name, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.enable_load_extension(False)
    return db


def _refuse_foreign(db: apsw.Connection, path: Path) -> None:
    if db.pragma("application_id") != APPLICATION_ID:
        raise StoreError("store.foreign", path=path)


def _counts(db: apsw.Connection, path: Path) -> Counts:
    """What a file of ours, of this schema or an older one, holds."""
    _refuse_foreign(db, path)
    schema = int(db.pragma("user_version"))
    if schema > SCHEMA_VERSION:
        raise StoreError("store.newer", path=path, version=schema, known=SCHEMA_VERSION)
    return Counts(schema, *_all(db, COPIED)[0])


@contextmanager
def _read_from(path: Path) -> Iterator[None]:
    """Say what SQLite's errors mean for a file that is only read."""
    try:
        yield
    except apsw.BusyError:
        raise StoreBusy("store.in_use", path=path) from None
    except apsw.InterruptError:
        raise StoreError("backup.stopped") from None
    except apsw.NotADBError:
        raise StoreError("store.foreign", path=path) from None
    except apsw.FullError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
    except (apsw.CorruptError, apsw.SQLError) as error:  # a table that is not there
        raise StoreError("store.damaged", path=path, error=error) from error
    except apsw.Error as error:
        raise StoreError("store.unreadable", path=path, error=error) from error


# --- Another model, for reembedding.py ---------------------------------------------------

BLOCKS_AT_ONCE = 50  # of the old vectors, dropped in one transaction: some 100 MB

# Beside the vectors in use, those of another model. `live` is that of the vector: what was closed
# or opened since is found by it. A text that is erased or changed takes its vectors along, whose
# bytes vec0 would leave where they are.
NEXT_TABLES = """
    CREATE TABLE next_windows (
        seq       INTEGER PRIMARY KEY,
        chunk_seq INTEGER NOT NULL REFERENCES chunks (seq) ON DELETE CASCADE,
        part      INTEGER NOT NULL,
        live      INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX next_windows_chunk ON next_windows (chunk_seq);
    CREATE TRIGGER next_window_gone AFTER DELETE ON next_windows BEGIN
        UPDATE next_vectors SET embedding = zeroblob({0}) WHERE rowid = old.seq;
        DELETE FROM next_vectors WHERE rowid = old.seq;
    END;
    CREATE TRIGGER next_text_changed AFTER UPDATE OF content ON chunks BEGIN
        DELETE FROM next_windows WHERE chunk_seq = new.seq;
    END;
"""
DROP_NEXT_TABLES = """
    DROP TRIGGER next_text_changed;
    DROP TRIGGER next_window_gone;
    DROP TABLE next_windows;
"""

_WITHOUT_NEXT = "NOT EXISTS (SELECT 1 FROM next_windows w WHERE w.chunk_seq = c.seq)"
TEXTS_FOR_NEXT = f"""
    SELECT c.seq, c.content_hash, c.content, c.source, c.timestamp FROM chunks c
    WHERE c.seq > ? AND {_WITHOUT_NEXT} ORDER BY c.seq LIMIT ?
"""
LEFT_FOR_NEXT = "SELECT count(*), coalesce(sum(length(c.content)), 0) FROM chunks c WHERE {0}"
SOME_TEXTS = """
    SELECT c.seq, c.content_hash, c.content, c.source, c.timestamp FROM chunks c
    WHERE c.seq % max(1, (SELECT count(*) FROM chunks) / :most) = 0 ORDER BY c.seq LIMIT :most
"""

# Of a text that is still the one that was read.
PUT_NEXT_WINDOW = """
    INSERT INTO next_windows
    SELECT (SELECT coalesce(max(seq), 0) + 1 FROM next_windows), seq, :part, valid_until IS NULL
    FROM chunks WHERE seq = :seq AND content_hash = :hash RETURNING seq, live
"""
PUT_NEXT_VECTOR = "INSERT INTO next_vectors (rowid, embedding, live) VALUES (?, ?, ?)"

MARKED_WRONGLY = """
    SELECT w.seq FROM next_windows w JOIN chunks c ON c.seq = w.chunk_seq
    WHERE w.live <> (c.valid_until IS NULL)
"""
MARK_NEXT = (
    "UPDATE next_vectors SET live = 1 - live WHERE rowid = ?",
    "UPDATE next_windows SET live = 1 - live WHERE seq = ?",
)

# `windows` keeps its place, for its numbers are never used again.
SWITCH_WINDOWS = """
    DELETE FROM windows;
    INSERT INTO windows SELECT seq, chunk_seq, part FROM next_windows;
    UPDATE chunks SET pending = 0
    WHERE pending = 1 AND seq IN (SELECT chunk_seq FROM next_windows);
    UPDATE chunks SET pending = 1
    WHERE pending = 0 AND seq NOT IN (SELECT chunk_seq FROM next_windows);
"""

FORGET_NEXT = "DELETE FROM meta WHERE key GLOB 'next_*'"
FREE_BYTES = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
DROP_BLOCKS = """
    DELETE FROM {0}_vector_chunks00
    WHERE rowid IN (SELECT rowid FROM {0}_vector_chunks00 LIMIT ?) RETURNING 1
"""


@dataclass(frozen=True, slots=True)
class WaitingText:
    """A memory, of any time, that has no vectors of the next model yet."""

    seq: int
    hash: int
    content: str
    source: str
    timestamp: str


class NextVectors:
    """The vectors of another model, which come to be beside the file's own and then replace them.

    Each step is one short transaction, and any may be the last: what it left is gone on with.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    # -- looking --

    def model(self) -> Model | None:
        """The model of vectors that were begun and do not serve yet."""
        with self._store.view() as view:
            return _model(view._db, "next")

    def left(self, *, anew: bool) -> tuple[int, int]:
        """How many texts have no vectors of the next model, and their characters in all.

        `anew` counts every text.
        """
        with self._store.view() as view:
            begun = _has_table(view._db, "next_windows") and not anew
            sql = LEFT_FOR_NEXT.format(_WITHOUT_NEXT if begun else "1")
            ((texts, characters),) = _all(view._db, sql)
        return texts, characters

    def sample(self, most: int) -> list[WaitingText]:
        """Some texts from all over the file."""
        with self._store.view() as view:
            return [WaitingText(*row) for row in _all(view._db, SOME_TEXTS, {"most": most})]

    def free_bytes(self) -> int:
        """What the file has room for without growing."""
        with self._store.view() as view:
            return int(_one(view._db, FREE_BYTES))

    # -- making them --

    def begin(self, model: Model) -> None:
        """Make room for a model's vectors; what another one's were begun is dropped."""
        self.drop()
        with self._store._transaction() as db:
            _record_model(db, model, "next")
            _make_vectors(db, "next_vectors", model.dim)
            db.execute(NEXT_TABLES.format(4 * int(model.dim)))

    def texts(self, after: int, most: int) -> list[WaitingText]:
        """The next texts, in the order of `seq`, that have no vectors yet."""
        with self._store.view() as view:
            return [WaitingText(*row) for row in _all(view._db, TEXTS_FOR_NEXT, (after, most))]

    def put(self, rows: Sequence[tuple[WaitingText, Vectors]]) -> None:
        """Keep the vectors of some texts, but for those that were changed meanwhile."""
        with self._store._transaction() as db:
            for text, vectors in rows:
                for part, vector in enumerate(vectors):
                    window = {"part": part, "seq": text.seq, "hash": text.hash}
                    for seq, live in _all(db, PUT_NEXT_WINDOW, window):
                        kept = np.asarray(vector, np.float32).tobytes()
                        db.execute(PUT_NEXT_VECTOR, (seq, kept, live))

    def mark(self) -> None:
        """Follow what was closed or opened meanwhile."""
        with self._store._transaction() as db:
            _mark_next(db)

    def switch(self, model: Model) -> None:
        """Let the next vectors be the file's; texts that came last wait for theirs."""
        with self._store._transaction() as db:
            _mark_next(db)
            db.execute(SWITCH_WINDOWS)
            db.execute(DROP_NEXT_TABLES)
            if _has_vectors(db):
                _rename_vectors(db, "vectors", "old_vectors")
            _rename_vectors(db, "next_vectors", "vectors")
            db.execute(FORGET_NEXT)
            _record_model(db, model)

    def drop(self, *, next_too: bool = True) -> None:
        """Drop the vectors that were replaced and, as a rule, those that were only begun."""
        with self._store._transaction() as db:
            if next_too:
                if _has_table(db, "next_windows"):
                    db.execute(DROP_NEXT_TABLES)
                db.execute(FORGET_NEXT)
        for table in ("old_vectors", "next_vectors") if next_too else ("old_vectors",):
            self._drop_vectors(table)

    def _drop_vectors(self, table: str) -> None:
        dropped = BLOCKS_AT_ONCE
        while dropped == BLOCKS_AT_ONCE:
            with self._store._transaction() as db:
                if not _has_table(db, table):
                    return
                dropped = len(_all(db, DROP_BLOCKS.format(table), (BLOCKS_AT_ONCE,)))
        with self._store._transaction() as db:
            db.execute(f"DROP TABLE {table}")


def _mark_next(db: apsw.Connection) -> None:
    wrong = _all(db, MARKED_WRONGLY)
    for sql in MARK_NEXT:
        db.executemany(sql, wrong)


def _rename_vectors(db: apsw.Connection, old: str, new: str) -> None:
    """Rename a vec0 table, and the tables that it keeps its rows in, which vec0 does not."""
    db.execute(f"ALTER TABLE {old} RENAME TO {new}")
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ? || '_*'"
    for (name,) in _all(db, sql, (old,)):
        db.execute(f"ALTER TABLE {name} RENAME TO {new}{name.removeprefix(old)}")


# --- Export and import ------------------------------------------------------------------

HELD = """
    SELECT (SELECT count(DISTINCT id) FROM entities), (SELECT count(*) FROM chunks),
        (SELECT count(*) FROM relations), (SELECT count(*) FROM audit)
"""

EXPORTED_ENTITIES = """
    SELECT id, seq, kind, name, summary, properties_json AS properties, source, importance,
        created_at, updated_at, valid_from, valid_until, superseded_by, recall_count, last_recalled
    FROM entities ORDER BY id, seq
"""
EXPORTED_NAMES = """
    SELECT key, alias, role, valid_from FROM aliases WHERE entity_id = ? ORDER BY key
"""
EXPORTED_CHUNKS = """
    SELECT seq, id, content, source, session_id, timestamp, importance, metadata_json AS metadata,
        created_at, valid_from, valid_until, superseded_by, recall_count, last_recalled,
        (SELECT json_group_array(tag ORDER BY tag) FROM tags WHERE chunk_seq = seq) AS tags,
        (SELECT json_group_object(entity_id, origin) FROM mentions WHERE chunk_seq = seq)
            AS mentions,
        (SELECT json_object('id', round_id, 'asked', asked) FROM turns WHERE chunk_seq = seq)
            AS round,
        (
            SELECT json_object('category', category, 'expires_at', expires_at)
            FROM timeline WHERE chunk_seq = seq
        ) AS entry
    FROM chunks ORDER BY id
"""
EXPORTED_RELATIONS = """
    SELECT id, source_id, target_id, relation, weight, properties_json AS properties, source,
        confidence, created_at, valid_from, valid_until, evidence_chunk_id,
        (
            SELECT json_group_array(c.id ORDER BY c.id) FROM evidence v
            JOIN chunks c ON c.seq = v.chunk_seq WHERE v.relation_id = relations.id
        ) AS evidence
    FROM relations ORDER BY source_id, target_id, relation, valid_from, created_at, id
"""
EXPORTED_AUDIT = """
    SELECT id, at, client, action, target_kind, target_id, reason, detail_json AS detail
    FROM audit ORDER BY at, id
"""

IMPORT_CHUNK = """
    INSERT INTO chunks (
        seq, id, content, content_hash, source, session_id, timestamp, importance, metadata_json,
        created_at, valid_from, valid_until, pending, recall_count, last_recalled
    ) VALUES (
        :number, :id, :content, :hash, :source, :session_id, :timestamp, :importance, :metadata,
        :created_at, :valid_from, :valid_until, :pending, :recall_count, :last_recalled
    )
"""
IMPORT_ENTITY = """
    INSERT INTO entities VALUES (
        :number, :id, :key, :kind, :name, :summary, :properties, :source, :importance, :created_at,
        :updated_at, :valid_from, :valid_until, :superseded_by, :recall_count, :last_recalled
    )
"""
IMPORT_NAME = """
    INSERT OR IGNORE INTO aliases VALUES (:key, :entity_id, :alias, :role, :valid_from)
    RETURNING key
"""
IMPORT_RELATION = """
    INSERT INTO relations VALUES (
        :number, :source_id, :target_id, :relation, :weight, :properties, :source, :confidence,
        :created_at, :valid_from, :valid_until, :evidence_chunk_id
    )
"""
IMPORT_EVIDENCE = "INSERT OR IGNORE INTO evidence SELECT ?, seq FROM chunks WHERE id = ?"
IMPORT_AUDIT = """
    INSERT INTO audit VALUES (
        :number, :at, :client, :action, :target_kind, :target_id, :reason, :detail
    )
"""
IMPORT_VECTOR = "INSERT INTO vectors (rowid, embedding, live) VALUES (?, ?, ?)"

# Which of some numbers rows have, and at which places of a list something stands that rows have.
TAKEN = "SELECT value FROM json_each(?) WHERE value IN (SELECT {1} FROM {0})"
CHUNKS_THERE = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM chunks WHERE id = k.value)
"""
ENTITIES_THERE = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM entities WHERE key = k.value)
"""
RELATIONS_THERE = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (
        SELECT 1 FROM relations WHERE source_id = k.value ->> 0
        AND target_id = k.value ->> 1 AND relation = k.value ->> 2
    )
"""
AUDIT_THERE = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM audit WHERE target_id = k.value)
"""
# To put in a row, to find which numbers are taken and which keys are known.
_ENTITIES = (IMPORT_ENTITY, TAKEN.format("entities", "seq"), ENTITIES_THERE)
_CHUNKS = (IMPORT_CHUNK, TAKEN.format("chunks", "seq"), CHUNKS_THERE)
_RELATIONS = (IMPORT_RELATION, TAKEN.format("relations", "id"), RELATIONS_THERE)
_AUDIT = (IMPORT_AUDIT, TAKEN.format("audit", "id"), AUDIT_THERE)

VERSIONS_OF_KEY = """
    SELECT id, seq, kind, name, summary, properties_json, updated_at
    FROM entities WHERE key = ? ORDER BY seq
"""
# The one relation of a file that an export means: written then, or holding for ever as it does.
RELATION_WRITTEN = """
    SELECT id, weight, properties_json, valid_until FROM relations
    WHERE source_id = :source_id AND target_id = :target_id AND relation = :relation
    AND (
        created_at = :created_at AND valid_from = :valid_from AND weight = :weight
        OR valid_until IS NULL AND :valid_until IS NULL
    )
    ORDER BY id <> :id, id
"""
AUDIT_WRITTEN = """
    SELECT id, detail_json FROM audit
    WHERE target_id = :target_id AND at = :at AND client = :client AND action = :action
    AND target_kind = :target_kind AND reason = :reason AND id >= :id ORDER BY id
"""

# A version that an export says was replaced is joined to the next one once that is there too.
LINK_VERSION = """
    UPDATE chunks SET superseded_by = :next
    WHERE id = :id AND valid_until = :valid_until AND superseded_by IS NULL
    AND EXISTS (SELECT 1 FROM chunks WHERE id = :next)
    AND NOT EXISTS (SELECT 1 FROM chunks WHERE superseded_by = :next)
    RETURNING seq
"""
NEXT_VERSION = """
    SELECT n.seq FROM chunks c JOIN chunks n ON n.id = c.superseded_by WHERE c.seq = ?
"""
NAMED_IN = """
    SELECT DISTINCT a.entity_id FROM json_each(?) k JOIN aliases a ON a.key = k.value
    JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL
"""
SEARCHED_BESIDE = """
    SELECT seq, metadata FROM searchable WHERE seq IN (SELECT value FROM json_each(?))
"""
TAKE_PLACE = "UPDATE postings SET place = ?, rev = ? WHERE chunk_seq = ?"

Outcome = Literal["new", "there", "conflict"]
"""What becomes of a record: it is put in, it is there as it is, or it is there and says other."""

_OPENED = ("kind", "name", "summary", "properties", "updated_at")
_WRITTEN_ONCE = ("content", "source", "session_id", "timestamp", "created_at", "valid_from")


def held_records(view: View) -> dict[str, int]:
    """How many records an export of the file has, by their type."""
    return dict(zip(("entity", "chunk", "relation", "audit"), _all(view._db, HELD)[0], strict=True))


def export_rows(view: View, *, vectors: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every record with its type, by ids and times; numbers of rows are only carried along."""
    db = view._db
    for _, versions in groupby(_tables(db, EXPORTED_ENTITIES), itemgetter("id")):
        yield "entity", _exported_entity(db, list(versions))
    for row in _tables(db, EXPORTED_CHUNKS):
        beside = _exported_beside(db, row)
        chunk = _read_json(row, "metadata", "tags", "mentions") | beside
        found = _vectors_of(db, row["seq"]) if vectors else None
        yield "chunk", chunk if found is None else chunk | {"vectors": found}
    for row in _tables(db, EXPORTED_RELATIONS):
        yield "relation", _read_json(row, "properties", "evidence")
    for row in _tables(db, EXPORTED_AUDIT):
        yield "audit", _read_json(row, "detail")


def _tables(db: apsw.Connection, sql: str) -> Iterator[dict[str, Any]]:
    """The rows one by one, by the names of their columns."""
    cursor = db.cursor()
    names: list[str] = []
    for row in cursor.execute(sql):
        names = names or [column[0] for column in cursor.get_description()]
        yield dict(zip(names, row, strict=True))


def _exported_beside(db: apsw.Connection, row: dict[str, Any]) -> dict[str, Any]:
    """What is taken out of a chunk's row: it is a round or an entry, which most are not."""
    turn, entry = row.pop("round"), row.pop("entry")
    found = {} if turn is None else {"round": json.loads(turn)}
    if entry is not None:
        context = [text for (text,) in _all(db, SEGMENTS, (row["seq"], -1, 0))]
        found["entry"] = json.loads(entry) | {"context": context}
    return found


def _exported_entity(db: apsw.Connection, versions: list[dict[str, Any]]) -> dict[str, Any]:
    entity_id = versions[0]["id"]
    opened = [_read_json(version, "properties") for version in versions]
    for version in opened:
        del version["id"]
    names = [
        dict(zip(("key", "alias", "role", "valid_from"), row, strict=True))
        for row in _all(db, EXPORTED_NAMES, (entity_id,))
    ]
    return {"id": entity_id, "versions": opened, "names": names}


def imported_texts(view: View, source: str) -> Iterator[tuple[str, str, str, bool]]:
    """Every text of a source with its session and time, and whether it is live; that last."""
    sql = """
        SELECT content, session_id, timestamp, valid_until IS NULL FROM chunks
        WHERE source = ? ORDER BY valid_until IS NULL, seq
    """
    for content, session_id, timestamp, live in view._db.execute(sql, (source,)):
        yield content, session_id, timestamp, bool(live)


def live_texts(view: View) -> Iterator[LiveText]:
    """Every live memory, oldest first, with the entities that it is linked with."""
    sql = """
        SELECT id, content, source, session_id, timestamp,
            (SELECT json_group_array(entity_id) FROM mentions WHERE chunk_seq = seq)
        FROM chunks WHERE valid_until IS NULL ORDER BY seq
    """
    for chunk_id, content, source, session_id, timestamp, entities in view._db.execute(sql):
        known = json.loads(entities)
        yield LiveText(chunk_id, content, source, session_id, timestamp, known)


class Intake:
    """Records of an export on their way into a file, in which nothing that is there changes.

    Entities come first, then chunks, relations and the audit; what they refer to is there, or
    among them. Each call of put is one short transaction; a run that was killed is made whole by
    another with the same records. Numbers of rows are kept where they are free, and what refers
    to others is led to the new ones.
    """

    def __init__(self, store: SqliteStore, listed: Set[str], made_by: str = "") -> None:
        """`listed` are the keys of the export's entities, `made_by` the mark of its vectors' model.

        Vectors are kept as long as that is the file's mark; chunks without are to wait for theirs.
        """
        self._store, self._listed, self._made_by = store, listed, made_by
        self._ids: dict[str, str] = {}  # entities that are spelled otherwise here
        kinds = ("chunk", "entity", "relation", "audit")
        self._numbers = {kind: dict[int, int]() for kind in kinds}
        self._meant: set[int] = set()  # relations here that one of the export is already
        self._new_audits: set[int] = set()
        self._last_entity: int | None = None
        self._has_others = False  # entities of which the export knows nothing
        self._before: dict[str, dict[str, Any]] = {}  # what waits for its next version, by its id

    def compare(self, kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        """What would become of each record; nothing is written."""
        with self._store.view() as view:
            return [self._find(view._db, kind, each)[0] for each in records]

    def put(self, kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        """Put in those records that are not there; what became of each."""
        put = {
            "entity": self._put_entities,
            "chunk": self._put_chunks,
            "relation": self._put_relations,
            "audit": self._put_audits,
        }
        return put[kind](records)

    def absent(self, ids: Iterable[str]) -> list[str]:
        """Those of some ids that neither an entity nor a chunk of the file has."""
        sql = """
            SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM chunks)
            AND value NOT IN (SELECT id FROM entities)
        """
        with self._store.view() as view:
            return [row[0] for row in _all(view._db, sql, (_json(list(ids)),))]

    def _find(
        self, db: apsw.Connection, kind: str, record: dict[str, Any]
    ) -> tuple[Outcome, int | None]:
        """What becomes of a record, and the number of the row that is there."""
        find = {
            "entity": self._find_entity,
            "chunk": _find_chunk,
            "relation": self._find_relation,
            "audit": self._find_audit,
        }
        return find[kind](db, record)

    def _id(self, reference: str | None) -> str | None:
        return None if reference is None else self._ids.get(reference, reference)

    # -- entities --

    def _find_entity(
        self, db: apsw.Connection, record: dict[str, Any]
    ) -> tuple[Outcome, int | None]:
        known = _all(db, VERSIONS_OF_KEY, (words.identity(record["id"]),))
        if not known:
            return "new", None
        if known[0][0] != record["id"]:
            self._ids[record["id"]] = known[0][0]
        here = {_opened(row[2:]): row[1] for row in known}
        there = [here.get(_opened(_values(each))) for each in record["versions"]]
        for version, seq in zip(record["versions"], there, strict=True):
            if seq not in (None, version["seq"]):
                self._numbers["entity"][version["seq"]] = seq
        return "conflict" if there[-1] is None else "there", known[0][1]

    def _put_entities(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        keys = [words.identity(each["id"]) for each in records]
        numbers = [version["seq"] for each in records for version in each["versions"]]
        names = {name["key"] for each in records for name in each["names"]}
        terms = {term for name in names for term in words.folded_terms(name)}
        with self._store._writing("") as writer:
            writer.look_up(words.stems(terms))
            last = int(_one(writer._db, "SELECT coalesce(max(seq), 0) FROM entities"))
            new = _NewRows(writer._db, _ENTITIES, keys, numbers, last)
            return list(map(partial(self._put_entity, writer, new), keys, records))

    def _put_entity(
        self, writer: "_Writer", new: "_NewRows", key: str, record: dict[str, Any]
    ) -> Outcome:
        outcome: Outcome = "new"
        if new.may_have(key):
            outcome, _ = self._find_entity(writer._db, record)
        if outcome == "new":
            self._put_versions(new, key, record)
            new.write()
        entity_id = str(self._id(record["id"]))
        names = [each | {"entity_id": entity_id} for each in record["names"]]
        for (spelled,) in list(writer._db.executemany(IMPORT_NAME, names)):
            self._make_known(writer, entity_id, spelled)
        return outcome

    def _put_versions(self, new: "_NewRows", key: str, record: dict[str, Any]) -> None:
        """The versions keep their order, and their numbers if all of these are free."""
        rows = [
            version
            | {"id": record["id"], "key": key, "properties": _json(version["properties"])}
            | {"superseded_by": self._id(version["superseded_by"])}
            for version in record["versions"]
        ]
        given = [version["seq"] for version in record["versions"]]
        for before, number in zip(given, new.add(key, rows, given), strict=True):
            self._renumber("entity", before, number)

    def _make_known(self, writer: "_Writer", entity_id: str, key: str) -> None:
        """Let a new name be found, and be looked for in the texts that were here before."""
        writer._spellings.add([key])
        writer._put_name_words(key)
        if not words.is_common(key) and writer._may_stand(key):
            writer._new_names.append((entity_id, key, writer._last_indexed))

    # -- chunks --

    def _put_chunks(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        indexed = [Indexed(each["content"]) for each in records]
        with self._store._writing("") as writer:
            writer.look_up(term for text in indexed for term in text.terms)
            self._look_for_others(writer._db)
            places = self._put_rows(writer, records, indexed)
            new = [
                (seq, record, text)
                for (outcome, seq), record, text in zip(places, records, indexed, strict=True)
                if outcome == "new"
            ]
            self._complete(writer, new)
            for record in records:
                self._link(writer, record)
            return [outcome for outcome, _ in places]

    def _put_rows(
        self, writer: "_Writer", records: Sequence[dict[str, Any]], indexed: Sequence[Indexed]
    ) -> list[tuple[Outcome, int]]:
        """Write the rows of those memories that are not there; the seq of each."""
        ids, seqs = [each["id"] for each in records], [each["seq"] for each in records]
        new = _NewRows(writer._db, _CHUNKS, ids, seqs, writer._first_new)
        places = [
            self._put_row(writer, new, record, text.hash)
            for record, text in zip(records, indexed, strict=True)
        ]
        new.write()
        return places

    def _put_row(
        self, writer: "_Writer", new: "_NewRows", record: dict[str, Any], content_hash: int
    ) -> tuple[Outcome, int]:
        outcome: Outcome = "new"
        seq: int | None = None
        if new.may_have(record["id"]):
            outcome, seq = _find_chunk(writer._db, record)
        if seq is None:
            pending = "vectors" not in record or not self._fits(writer)
            row = record | {"hash": content_hash, "metadata": _json(record["metadata"])}
            (seq,) = new.add(record["id"], [row | {"pending": pending}], [record["seq"]])
        self._renumber("chunk", record["seq"], seq)
        return outcome, seq

    def _fits(self, writer: "_Writer") -> bool:
        """Whether the export's vectors are of the file's model."""
        return self._made_by != "" and self._made_by == writer.mark

    def _complete(
        self, writer: "_Writer", new: Sequence[tuple[int, dict[str, Any], Indexed]]
    ) -> None:
        """Write what hangs on new memories, and what they are found by."""
        db, seqs = writer._db, [seq for seq, _, _ in new]
        for seq, record, _ in new:
            self._put_beside(writer, seq, record)
        if seqs and min(seqs) <= writer._first_new:
            # Cues are read in order, so from there on again.
            db.execute("DELETE FROM cue_postings WHERE chunk_seq > ?", (min(seqs),))
        metadata = dict(_all(db, SEARCHED_BESIDE, (_json(seqs),)))
        for seq, record, indexed in new:
            self._mention(writer, seq, record, indexed)
            self._index(writer, seq, record, indexed, metadata[seq])
        writer._write_postings()

    def _put_beside(self, writer: "_Writer", seq: int, record: dict[str, Any]) -> None:
        """Write its tags, and what fewer memories have: vectors, a round, an entry."""
        writer._tag(seq, record["tags"])
        if "vectors" in record and self._fits(writer):
            _import_vectors(writer, seq, record["vectors"], record["valid_until"] is None)
        if turn := record.get("round"):
            writer._db.execute(PUT_TURN, (seq, turn["id"], turn["asked"]))
        if entry := record.get("entry"):
            writer._db.execute(PUT_ENTRY, (seq, entry["category"], entry["expires_at"]))
            _put_context(writer._db, seq, entry["context"])

    def _look_for_others(self, db: apsw.Connection) -> None:
        """Find out, when there are new entities, whether the file has some of its own."""
        last = _one(db, "SELECT max(seq) FROM entities")
        if last != self._last_entity:
            self._last_entity = last
            keys = db.execute("SELECT DISTINCT key FROM entities")
            self._has_others = any(key not in self._listed for (key,) in keys)

    def _renumber(self, kind: str, given: int | None, here: int | None) -> None:
        if given is not None and here is not None and given != here:
            self._numbers[kind][given] = here

    def _mention(
        self, writer: "_Writer", seq: int, record: dict[str, Any], indexed: Indexed
    ) -> None:
        """Link a chunk as the export says, and with names in its text that only this file has."""
        for entity_id, origin in record["mentions"].items():
            writer._mentions[str(self._id(entity_id)), seq] = origin
        if record["valid_until"] is not None or not self._has_others:
            return
        spelled = writer._spellings.among(indexed.names(writer._spellings.starts))
        for (entity_id,) in _all(writer._db, NAMED_IN, (_json(spelled),)):
            if words.identity(entity_id) not in self._listed:
                writer._mention(seq, [entity_id], "found")

    def _index(
        self,
        writer: "_Writer",
        seq: int,
        record: dict[str, Any],
        indexed: Indexed,
        metadata: str,
    ) -> None:
        weights = indexed.weights(metadata, record["source"], record["session_id"])
        writer._put_postings(seq, indexed, weights, None)
        writer._last_indexed = max(writer._last_indexed, seq)
        if record["valid_until"] is None:
            writer._pieces[seq] = indexed.pieces(metadata)
        else:
            pieces = (seq, indexed.pieces(metadata))
            writer._db.execute(PUT_PIECES.format("closed_trigrams"), pieces)

    def _link(self, writer: "_Writer", record: dict[str, Any]) -> None:
        """Join a version to the next and to the one before, whichever of them is there."""
        pairs = [record] if record["superseded_by"] else []
        if (before := self._before.pop(record["id"], None)) is not None:
            pairs.append(before)
        for each in pairs:
            bound = {name: each[name] for name in ("id", "valid_until")}
            linked = _one(writer._db, LINK_VERSION, bound | {"next": each["superseded_by"]})
            if linked is None:
                self._before[each["superseded_by"]] = bound | {
                    "superseded_by": each["superseded_by"]
                }
            while linked is not None:  # all that follow have the place of the first
                place = _one(writer._db, PLACE, (linked,))
                linked = _one(writer._db, NEXT_VERSION, (linked,))
                writer._db.execute(TAKE_PLACE, (place, writer._rev, linked))

    # -- relations and the audit --

    def _find_relation(
        self, db: apsw.Connection, record: dict[str, Any]
    ) -> tuple[Outcome, int | None]:
        ends: dict[str, Any] = {end: self._id(record[end]) for end in _ENDS}
        own = self._numbers["relation"].get(record["id"], record["id"])
        bound = record | ends | {"id": own}
        for relation_id, weight, properties, until in _all(db, RELATION_WRITTEN, bound):
            if relation_id not in self._meant or relation_id == own:
                same = weight == record["weight"] and json.loads(properties) == record["properties"]
                later = record["valid_until"] in (until, None)
                return "there" if same and later else "conflict", relation_id
        return "new", None

    def _put_relations(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        shown: list[tuple[int, str]] = []
        keys = [(*(self._id(each[end]) for end in _ENDS), each["relation"]) for each in records]
        with self._store._writing("") as writer:
            db, last = writer._db, writer._last_relation
            new = _NewRows(db, _RELATIONS, keys, [each["id"] for each in records], last)
            places = list(map(partial(self._put_relation, db, new), keys, records))
            new.write()
            for (_, number), record in zip(places, records, strict=True):
                shown += [(number, each) for each in record["evidence"]]
            db.executemany(IMPORT_EVIDENCE, shown)
            # What is below the last is below what processes have read already.
            below = [(number,) for each, number in places if each == "new" and number <= last]
            db.executemany("INSERT INTO changes (kind, what) VALUES ('relation', ?)", below)
            return [outcome for outcome, _ in places]

    def _put_relation(
        self, db: apsw.Connection, new: "_NewRows", key: tuple[Any, ...], record: dict[str, Any]
    ) -> tuple[Outcome, int]:
        outcome: Outcome = "new"
        number: int | None = None
        if new.may_have(key):
            outcome, number = self._find_relation(db, record)
        if number is None:
            ends = dict(zip(_ENDS, key, strict=False))
            row = record | ends | {"properties": _json(record["properties"])}
            (number,) = new.add(key, [row], [record["id"]])
        self._meant.add(number)
        self._renumber("relation", record["id"], number)
        return outcome, number

    def _find_audit(
        self, db: apsw.Connection, record: dict[str, Any]
    ) -> tuple[Outcome, int | None]:
        here = self._renumbered(record)
        own = self._numbers["audit"].get(record["id"], record["id"])
        for number, detail in _all(db, AUDIT_WRITTEN, here | {"id": own or 0}):
            mine = number == own or number not in self._new_audits
            if mine and json.loads(detail) == here["detail"]:
                return "there", number
        return "new", None

    def _put_audits(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        with self._store._writing("") as writer:
            db = writer._db
            last = int(_one(db, "SELECT coalesce(max(id), 0) FROM audit"))
            targets = [self._target(each) for each in records]
            new = _NewRows(db, _AUDIT, targets, [each["id"] for each in records], last)
            outcomes = [self._put_audit(db, new, each) for each in records]
            new.write()
            return outcomes

    def _put_audit(self, db: apsw.Connection, new: "_NewRows", record: dict[str, Any]) -> Outcome:
        here, number = self._renumbered(record), None
        outcome: Outcome = "new"
        # Which number a merge has here may be known only since this batch began.
        if new.may_have(here["target_id"]) or record["target_kind"] == "merge":
            outcome, number = self._find_audit(db, record)
        if number is None:
            row = here | {"detail": _json(here["detail"])}
            (number,) = new.add(here["target_id"], [row], [record["id"]])
        if number != record["id"]:
            self._new_audits.add(number)
        self._renumber("audit", record["id"], number)
        return outcome

    def _renumbered(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with the ids and numbers that its targets have here."""
        detail = record["detail"]
        if record["action"] == "merge":
            detail = self._merge_renumbered(detail)
        return record | {"target_id": self._target(record), "detail": detail}

    def _target(self, record: dict[str, Any]) -> str:
        target, kind = str(record["target_id"]), record["target_kind"]
        if kind == "entity":
            return str(self._id(target))
        if kind in ("relation", "merge") and target.isdigit():
            numbers = self._numbers["audit" if kind == "merge" else "relation"]
            return str(numbers.get(int(target), int(target)))
        return target

    def _merge_renumbered(self, detail: dict[str, Any]) -> dict[str, Any]:
        """What a merge wrote down for undo_merge, in the numbers that its rows have here."""

        def led(kind: str, numbers: Any) -> Any:
            if isinstance(numbers, list):
                return [led(kind, number) for number in numbers]
            return self._numbers[kind].get(numbers, numbers)

        moved = [
            each
            | {name: led("relation", each[name]) for name in ("old", "new", "twin")}
            | {"shown": led("chunk", each["shown"])}
            for each in detail["relations"]
        ]
        return detail | {
            "keep": self._id(detail["keep"]),
            "duplicate": self._id(detail["duplicate"]),
            "mentions": led("chunk", detail["mentions"]),
            "relations": moved,
            "closed": led("entity", detail["closed"]),
            "version": led("entity", detail["version"]),
        }


def _opened(values: Sequence[Any]) -> tuple[Any, ...]:
    """What tells a version of an entity from the others; its properties without their order."""
    kind, name, summary, properties, at = values
    return kind, name, summary, json.dumps(json.loads(properties), sort_keys=True), at


def _values(version: dict[str, Any]) -> list[Any]:
    return [version[name] for name in _OPENED[:3]] + [
        _json(version["properties"]),
        version["updated_at"],
    ]


def _find_chunk(db: apsw.Connection, record: dict[str, Any]) -> tuple[Outcome, int | None]:
    """A memory that was closed here since is there; one that is closed only there is a conflict."""
    known = _table(db, CHUNK_VERSION, record["id"])
    if known is None:
        return "new", None
    same = all(known[name] == record[name] for name in (*_WRITTEN_ONCE, "importance"))
    same = same and json.loads(known["metadata_json"]) == record["metadata"]
    later = record["valid_until"] in (known["valid_until"], None)
    return "there" if same and later else "conflict", known["seq"]


class _NewRows:
    """Rows of one transaction, which are written together.

    Which of them may be there already is asked of all at once, and most are not: only those that
    may be need to be looked for one by one.
    """

    def __init__(
        self,
        db: apsw.Connection,
        statements: tuple[str, str, str],
        keys: Sequence[Any],
        numbers: Sequence[int | None],
        last: int,
    ) -> None:
        """`statements` put a row in, tell which of these numbers are taken, and at which places
        of `keys` one stands that rows have; `last` is the highest number there was."""
        self._db, self._last = db, last
        self._put, taken, there = statements
        self._rows: list[dict[str, Any]] = []
        self._taken = {row[0] for row in _all(db, taken, (_json(numbers),))}
        self._keys = {keys[place] for (place,) in _all(db, there, (_json(keys),))}

    def may_have(self, key: Any) -> bool:
        """Whether there may be rows with that key, which then are in the file."""
        if key not in self._keys:
            return False
        self.write()
        return True

    def add(
        self, key: Any, rows: Sequence[dict[str, Any]], numbers: Sequence[int | None]
    ) -> list[int]:
        """Note new rows that belong together; their numbers.

        These are the ones they had, if all are free and in order, else the next ones.
        """
        given = [number for number in numbers if number is not None]
        in_order = len(given) == len(rows) and given == sorted(set(given))
        if not in_order or not self._taken.isdisjoint(given):
            given = list(range(self._last + 1, self._last + 1 + len(rows)))
        self._taken.update(given)
        self._last = max(self._last, *given)
        self._keys.add(key)
        for row, number in zip(rows, given, strict=True):
            row["number"] = number
        self._rows += rows
        return given

    def write(self) -> None:
        self._db.executemany(self._put, self._rows)
        self._rows = []


def _import_vectors(writer: "_Writer", seq: int, vectors: Vectors, live: bool) -> None:
    for part, vector in enumerate(vectors):
        writer._last_window += 1
        writer._windows.append((writer._last_window, seq, part))
        row = (writer._last_window, vector.tobytes(), int(live))
        writer._db.execute(IMPORT_VECTOR, row)


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


class _Indexes:
    """The indexes in memory of one file: of what is live and, once asked for, of all there was."""

    def __init__(self, cues: "_HeldCues | None" = None) -> None:
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
                held = self._held[past] = _load(db, past)
            return held

    def spellings(self, db: apsw.Connection, *, starts: bool = False) -> Spellings:
        """Which texts are names, as of the last commit; who writes needs their beginnings, too."""
        with self._lock:
            last, held = int(_one(db, LAST_CHANGE)), self._spellings
            if held is None or starts > held.has_starts or _is_behind(db, self._change):
                starts |= held is not None and held.has_starts
                keys = (row[0] for row in db.execute(SPELLINGS))
                held = self._spellings = Spellings(keys, starts=starts)
            elif last > self._change:
                for kind, what in _all(db, CHANGES, (self._change,)):
                    if kind == "entity":
                        held.add(row[0] for row in _all(db, SPELLED, (what,)))
            self._change = max(self._change, last)
            return held


@contextmanager
def _reading(db: apsw.Connection) -> Iterator[None]:
    """Several statements that see one moment of the file, and take its lock once."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


def _load(db: apsw.Connection, past: bool) -> Held:
    with _reading(db):
        ((rev, change, relation, mark),) = _all(db, LATEST)
        rows = map(IndexRow._make, db.execute(EVERY_INDEX_ROW, {"past": past}))
        index = Index(rows, lambda located: _all_vectors(db, located), past=past)
        index.rev, index.model = rev, mark
        which = {"past": past, "now": timestamps.now()}
        relations = _all_relations(db, which, relation)
        ways = Ways(relations, *(db.execute(EVERY_END[end], which) for end in _ENDS))
        links = Links(db.execute(ENTITY_IDS), db.execute(EVERY_MENTION), ways)
        return Held(index, links, change, relation)


def _all_relations(
    db: apsw.Connection, which: dict[str, Any], last: int
) -> Iterator[tuple[str, str, str, str]]:
    """What Ways has of relations, up to the last one."""
    for first in range(1, last + 1, RELATIONS_AT_ONCE):
        bound = which | {"first": first, "end": first + RELATIONS_AT_ONCE}
        (found,) = _all(db, RELATIONS_BETWEEN, bound)
        if found[0]:
            yield found


def _refreshed(db: apsw.Connection, held: Held) -> bool:
    """Read what was changed since; False where it is better to read everything anew."""
    if held.index.worn() or held.links.worn():
        return False
    ((rev, change, relation, mark),) = _all(db, LATEST)
    if mark == held.index.model and not held.behind(rev, change, relation):
        return True
    with _reading(db), held.index.lock:
        ((_, change, relation, mark),) = _all(db, LATEST)
        if mark != held.index.model or _is_behind(db, held.change):
            return False
        seqs = _refresh_index(db, held.index)
        _refresh_links(db, held, seqs)
        held.change, held.relation = max(held.change, change), max(held.relation, relation)
    return not held.links.worn()


def _is_behind(db: apsw.Connection, change: int) -> bool:
    """Whether changes after that one are no longer in the file."""
    oldest = _one(db, OLDEST_CHANGE)
    return oldest is not None and oldest > change + 1


def _refresh_index(db: apsw.Connection, index: Index) -> list[int]:
    """Read the changed chunks again; which ones."""
    rows = [IndexRow(*each) for each in _all(db, NEW_INDEX_ROWS, (index.rev,))]
    for row in rows:
        if row.valid_until is None or index.past:
            index.add(row, _vectors_of(db, row.seq))
        else:
            index.drop(row.seq, row.rev)
    return [row.seq for row in rows]


def _refresh_links(db: apsw.Connection, held: Held, seqs: Iterable[int]) -> None:
    """Read the mentions of changed chunks, and changed entities and relations, again."""
    changed: dict[str, set[Any]] = {"chunk": set(seqs), "entity": set(), "relation": set()}
    for kind, what in _all(db, CHANGES, (held.change,)):
        changed[kind].add(what)
    for entity_id in changed["entity"]:
        held.links.entity(entity_id, bool(_all(db, IS_LIVE, (entity_id,))))
    for seq in changed["chunk"]:
        held.links.mention(seq, [row[0] for row in _all(db, MENTIONED, (seq,))])
    since = {"id": held.relation, "past": held.index.past, "now": timestamps.now()}
    rows = _all(db, RELATIONS_SINCE, since)
    for relation_id in changed["relation"]:
        found = _all(db, RELATION, (relation_id,))
        rows += found
        if not found:
            held.links.drop_relation(relation_id)
    for row in rows:
        held.links.relation(LinkedRelation(*row))


def _all_vectors(
    db: apsw.Connection, located: Callable[[NDArray[np.int64]], Rows]
) -> tuple[int, Iterator[tuple[Vectors, Rows]]]:
    """How many vectors there are of chunks that are somewhere; and these, block by block."""
    if not (dim := _dimension(db)):
        return 0, iter(())
    found = db.execute(EVERY_PLACE)
    places = np.array(list(found), np.int64).reshape(-1, 3)
    places[:, 0] = located(places[:, 0])
    places = places[places[:, 0] >= 0]
    return len(places), _vectors_by_block(db, places, dim) if len(places) else iter(())


def _vectors_by_block(
    db: apsw.Connection, places: NDArray[np.int64], dim: int
) -> Iterator[tuple[Vectors, Rows]]:
    """The vectors at places of vec0's blocks, in the order of the blocks, and their owners."""
    blocks, starts = np.unique(places[:, 1], return_index=True)
    for block, part in zip(blocks.tolist(), np.split(places, starts[1:]), strict=True):
        whole = np.frombuffer(_one(db, BLOCK, (block,)), np.float32).reshape(-1, dim)
        yield whole[part[:, 2]], part[:, 0].astype(np.int32)


def _dimension(db: apsw.Connection) -> int:
    """How many dimensions the file's vectors have; 0 where it has no model yet."""
    return int(_one(db, "SELECT value FROM meta WHERE key = 'embedding_dim'") or 0)


def _vectors_at(db: apsw.Connection, places: Sequence[tuple[int, int, int]], dim: int) -> Vectors:
    """The vectors at some places of vec0's blocks, read without its slow look-up of single rows."""
    vectors = np.empty((len(places), dim), np.float32)
    if not places:
        return vectors
    block = places[0][1]
    with db.blob_open("main", "vectors_vector_chunks00", "vectors", block, False) as blob:
        for at, (_, wanted, offset) in enumerate(places):
            if wanted != block:
                blob.reopen(block := wanted)
            blob.seek(offset * dim * vectors.itemsize)
            blob.read_into(vectors[at])
    return vectors


def _vectors_of(db: apsw.Connection, seq: int) -> Vectors | None:
    """The windows of a chunk; None while it waits for them."""
    dim = _dimension(db)
    places = _all(db, PLACES_OF_CHUNK, (seq,)) if dim else []
    return _vectors_at(db, places, dim) if places else None


# --- Opening ---------------------------------------------------------------------------


def _refuse_damaged(db: apsw.Connection, path: Path) -> None:
    if (problem := db.pragma("quick_check", 1)) != "ok":
        raise StoreError("store.damaged", path=path, error=problem)


def _to_postings(db: apsw.Connection) -> None:
    """From version 1: words in FTS5 give way to postings for an index in memory."""
    db.execute("""
        DROP TABLE words;
        DROP TABLE closed_words;
        CREATE TABLE terms (
            id   INTEGER PRIMARY KEY,
            term TEXT NOT NULL UNIQUE
        ) STRICT;
        CREATE TABLE postings (
            chunk_seq INTEGER PRIMARY KEY REFERENCES chunks (seq),
            rev       INTEGER NOT NULL,
            place     INTEGER NOT NULL,
            flags     INTEGER NOT NULL,
            speaker   TEXT    NOT NULL,
            terms     BLOB    NOT NULL,
            weights   BLOB    NOT NULL
        ) STRICT;
        CREATE INDEX postings_rev ON postings (rev);
        CREATE TABLE name_words (
            word TEXT NOT NULL,
            key  TEXT NOT NULL,
            PRIMARY KEY (word, key)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX relations_same ON relations (source_id, target_id, relation);
    """)


def _to_changes(db: apsw.Connection) -> None:
    """From version 2: changes of names, mentions and relations are written down for links.py."""
    db.execute("""
        CREATE TABLE changes (
            id   INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL CHECK (kind IN ('chunk', 'entity', 'relation')),
            what ANY  NOT NULL
        ) STRICT;
        CREATE TRIGGER entity_opened AFTER INSERT ON entities BEGIN
            INSERT INTO changes (kind, what) VALUES ('entity', new.id);
        END;
        CREATE TRIGGER entity_changed AFTER UPDATE OF valid_until ON entities BEGIN
            INSERT INTO changes (kind, what) VALUES ('entity', new.id);
        END;
        CREATE TRIGGER entity_deleted AFTER DELETE ON entities BEGIN
            INSERT INTO changes (kind, what) VALUES ('entity', old.id);
        END;
        CREATE TRIGGER entity_named AFTER INSERT ON aliases
        WHEN (SELECT what FROM changes ORDER BY id DESC LIMIT 1) IS NOT new.entity_id BEGIN
            INSERT INTO changes (kind, what) VALUES ('entity', new.entity_id);
        END;
        CREATE TRIGGER mention_deleted AFTER DELETE ON mentions BEGIN
            INSERT INTO changes (kind, what) VALUES ('chunk', old.chunk_seq);
        END;
        CREATE TRIGGER relation_changed AFTER UPDATE OF valid_from, valid_until ON relations BEGIN
            INSERT INTO changes (kind, what) VALUES ('relation', new.id);
        END;
        CREATE TRIGGER relation_deleted AFTER DELETE ON relations BEGIN
            INSERT INTO changes (kind, what) VALUES ('relation', old.id);
        END;
    """)


def _to_cues(db: apsw.Connection) -> None:
    """From version 3: tables for recall by cues, which stay empty until somebody does that."""
    db.execute("""
        CREATE TABLE cues (
            id  INTEGER PRIMARY KEY AUTOINCREMENT,
            cue TEXT NOT NULL UNIQUE
        ) STRICT;
        CREATE TABLE cue_postings (
            chunk_seq INTEGER PRIMARY KEY REFERENCES chunks (seq),
            cues      BLOB    NOT NULL
        ) STRICT;
        CREATE TABLE turns (
            chunk_seq INTEGER PRIMARY KEY REFERENCES chunks (seq),
            round_id  TEXT    NOT NULL,
            asked     INTEGER NOT NULL
        ) STRICT;
    """)


def _to_timeline(db: apsw.Connection) -> None:
    """From version 4: tables for entries of the timeline, whose context is searched too."""
    db.execute("""
        CREATE TABLE timeline (
            chunk_seq  INTEGER PRIMARY KEY REFERENCES chunks (seq),
            category   TEXT NOT NULL,
            expires_at TEXT
        ) STRICT;
        CREATE TABLE contexts (
            chunk_seq INTEGER NOT NULL REFERENCES timeline (chunk_seq),
            part      INTEGER NOT NULL,
            text      TEXT    NOT NULL,
            PRIMARY KEY (chunk_seq, part)
        ) STRICT;
        CREATE TABLE merged_vectors (
            chunk_seq INTEGER PRIMARY KEY REFERENCES timeline (chunk_seq),
            made_by   TEXT NOT NULL,
            embedding BLOB NOT NULL
        ) STRICT;
        CREATE TABLE timeline_groups (
            group_id  TEXT    NOT NULL,
            chunk_seq INTEGER NOT NULL REFERENCES timeline (chunk_seq),
            PRIMARY KEY (group_id, chunk_seq)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX timeline_groups_chunk ON timeline_groups (chunk_seq);
        CREATE TABLE config (
            key   TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
    """)
    _search_contexts(db)


def _search_contexts(db: apsw.Connection) -> None:
    db.execute("""
        DROP VIEW searchable;
        CREATE VIEW searchable AS
        SELECT
            seq,
            content,
            concat_ws(
                char(10),
                (SELECT group_concat(tag, char(10)) FROM tags WHERE chunk_seq = seq),
                (SELECT group_concat(atom, char(10)) FROM json_tree(metadata_json)
                    WHERE atom IS NOT NULL),
                (SELECT group_concat(text, '' ORDER BY part) FROM contexts WHERE chunk_seq = seq)
            ) AS metadata
        FROM chunks;
    """)


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (
    _to_postings,
    _to_changes,
    _to_cues,
    _to_timeline,
)
"""Step n brings a file of version n to version n + 1, in the transaction that records it."""

SCHEMA_VERSION = 1 + len(MIGRATIONS)


def migrate(db: apsw.Connection) -> None:
    """Make the tables of a new file, or bring an older one up to date.

    Several processes may call it at once: one works, the others wait and find it done. What
    fails or is killed leaves nothing behind.
    """
    if db.pragma("user_version") == SCHEMA_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.pragma("user_version")
        if version == 0:
            db.execute((ROOT / "schema.sql").read_text("utf-8"))
            db.pragma("application_id", APPLICATION_ID)
        else:
            for step in MIGRATIONS[version - 1 :]:
                step(db)
            writer = _Writer(db, timestamps.now(), "", {}, Spellings(()))
            writer.index_rest()
            writer.finish()
        db.pragma("user_version", SCHEMA_VERSION)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


# --- Writing ---------------------------------------------------------------------------


class _Writer:
    """The steps of one transaction: all rows it writes share one moment and one client."""

    def __init__(
        self,
        db: apsw.Connection,
        now: str,
        client: str,
        terms: dict[str, int],
        spellings: Spellings,
    ) -> None:
        """`terms` are numbers known so far, in the file or in this transaction; some are added.

        `spellings` tells what may be a name; names that are new are added."""
        self._db, self.now, self._client, self._spellings = db, now, client, spellings
        self._view = View(db, _Indexes())  # sees what this transaction has written
        self.mark = self._view.model_mark()  # vectors of no other model are written
        self._terms = terms
        first, self._rev, *last = map(int, _all(db, BEGINNING)[0])
        self._last_term, self._last_window, self._last_relation = last
        self._first_new = first  # what is above was not there before this transaction
        self._last_indexed = self._last_seq = self._first_new
        self._new_terms: dict[str, int] = {}
        self._no_terms: set[str] = set()  # looked up, and not in the file
        self._hashes: set[int] = set()  # of live texts, of those that are looked for
        self._chunks: list[dict[str, Any]] = []
        self._postings: dict[int, tuple[Any, ...]] = {}
        self._vectors: list[tuple[int, bytes]] = []
        self._windows: list[tuple[int, int, int]] = []
        self._audits: list[tuple[str, ...]] = []
        self._last_audit: int | None = None  # the last record that was written
        self._mentions: dict[tuple[str, int], str] = {}
        self._pieces: dict[int, str] = {}
        self._new_names: list[tuple[str, str, int]] = []
        self._named: set[tuple[str, str]] = set()
        self._keys: dict[str, set[str]] = {}  # all by which an entity is found
        self._name_words: set[tuple[str, str]] = set()
        self._entities: dict[str, dict[str, Any] | None] = {}  # the latest version of each
        self._relations: list[dict[str, Any]] = []
        self._related: set[tuple[str, str, str]] = set()  # by what is not written yet
        self._evidence: list[tuple[int, int]] = []
        self._live: dict[str, str] = {}
        self._known_from: dict[str, str] = {}

    def finish(self) -> None:
        """Write what is written once for all: the last step of the transaction.

        FTS5 writes out what it holds before most other statements, so it comes after those.
        """
        self._db.executemany(PUT_TERM, sorted(self._new_terms.items()))
        self._write_postings()
        self._write_relations()
        self._db.executemany(PUT_NAME_WORD, sorted(self._name_words))
        self._db.executemany(PUT_WINDOW, self._windows)
        self._db.executemany(PUT_VECTOR, self._vectors)
        self._write_audits()
        known = [(seq,) for seq in self._pieces if seq <= self._first_new]
        self._db.executemany("DELETE FROM trigrams WHERE rowid = ?", known)
        self._db.executemany(PUT_PIECES.format("trigrams"), sorted(self._pieces.items()))
        for entity_id, key, last in self._new_names:
            self._link_texts(entity_id, key, last)
        rows = sorted((*linked, origin) for linked, origin in self._mentions.items())
        self._db.executemany(PUT_MENTION, rows)
        self._linked_late({seq for _, seq, _ in rows})

    def _linked_late(self, seqs: Iterable[int]) -> None:
        """Tell of new mentions of chunks that were there before (see links.py)."""
        late = [(seq,) for seq in sorted(seqs) if seq <= self._first_new]
        self._db.executemany("INSERT INTO changes (kind, what) VALUES ('chunk', ?)", late)

    # -- chunks --

    def put_chunks(
        self, chunks: Sequence[NewChunk], indexed: Sequence[Indexed]
    ) -> list[StoredChunk]:
        """Store memories: first their rows, at once, then what hangs on each."""
        places = list(map(self._find_or_put, chunks, indexed))
        self._write_chunks()
        return list(map(self._complete_chunk, chunks, indexed, places))

    def _find_or_put(self, chunk: NewChunk, indexed: Indexed) -> tuple[int, str, bool, bool]:
        """The seq and id of a memory, whether it waits for vectors, and whether it is new."""
        if indexed.hash in self._hashes:
            self._write_chunks()  # it may be in one of these
            same = {
                "hash": indexed.hash,
                "content": chunk.content,
                "source": chunk.source,
                "session_id": chunk.session_id,
                "timestamp": chunk.timestamp,
            }
            for seq, chunk_id, waits in _all(self._db, SAME_CHUNK, same):
                return seq, chunk_id, bool(waits), False
        self._hashes.add(indexed.hash)
        return *self._put_new(chunk, indexed.hash), True

    def _complete_chunk(
        self, chunk: NewChunk, indexed: Indexed, place: tuple[int, str, bool, bool]
    ) -> StoredChunk:
        """Write what hangs on a memory: tags, entities, relations, index and audit."""
        seq, chunk_id, waits, new = place
        self._tag(seq, chunk.tags)
        about = chunk.timestamp or self.now
        ids = [self.put_entity(entity, chunk.source, about) for entity in chunk.entities]
        self._mention(seq, ids, "given")
        for relation in chunk.relations:
            self.put_relation(relation, source=chunk.source, about=about, said_by=(chunk_id, seq))
        self._link_names(seq, indexed.names(self._spellings.starts))
        if new or chunk.tags:  # tags are searched too
            metadata = self._searchable(seq)[1] if chunk.tags else ""
            before = None if new else seq
            self._index(seq, indexed, metadata, chunk.source, chunk.session_id, before)
        self._audit(
            "remember", "chunk", chunk_id, "", _detail("status", "stored" if new else "exists")
        )
        return StoredChunk(seq, chunk_id, new, ids, waits)

    def _put_new(self, chunk: NewChunk, content_hash: int) -> tuple[int, str, bool]:
        chunk_id = new_chunk_id(self.now)
        row = {
            "id": chunk_id,
            "content": chunk.content,
            "hash": content_hash,
            "source": chunk.source,
            "session_id": chunk.session_id,
            "timestamp": chunk.timestamp or self.now,
            "importance": chunk.importance,
            "metadata": "{}",
            "created_at": self.now,
            "valid_from": chunk.timestamp or self.now,
        }
        vectors = self._own(chunk)
        return self._insert_chunk(row, vectors), chunk_id, vectors is None

    def _own(self, given: NewChunk | Change) -> Vectors | None:
        """The vectors that come with a text if the file's model made them."""
        return given.vectors if given.made_by == self.mark else None

    def _insert_chunk(self, row: dict[str, Any], vectors: Vectors | None) -> int:
        """Note a new version and its vectors, or that it waits for them; its seq."""
        self._last_seq = seq = self._last_seq + 1
        self._chunks.append(row | {"seq": seq, "pending": vectors is None})
        if vectors is not None:
            self._put_vectors(seq, vectors)
        return seq

    def _write_chunks(self) -> None:
        self._db.executemany(INSERT_CHUNK, self._chunks)
        self._chunks = []

    def _put_vectors(self, seq: int, vectors: Vectors) -> None:
        for part, vector in enumerate(vectors):
            self._last_window += 1
            self._windows.append((self._last_window, seq, part))
            self._vectors.append((self._last_window, np.asarray(vector, np.float32).tobytes()))

    def fill(self, seq: int, vectors: Vectors) -> bool:
        """Give a chunk its vectors if it is live and waits for them; whether it did."""
        sql = "UPDATE chunks SET pending = 0 WHERE seq = ? AND pending = 1 AND valid_until IS NULL"
        self._db.execute(sql, (seq,))
        waited = self._db.changes() > 0
        if waited:
            self._put_vectors(seq, vectors)
            self._changed(seq)
        return waited

    def _tag(self, seq: int, tags: Iterable[str]) -> None:
        for tag in tags:
            self._db.execute("INSERT OR IGNORE INTO tags VALUES (?, ?)", (seq, tag))

    def _mention(self, seq: int, entity_ids: Iterable[str], origin: str) -> None:
        """Link a chunk with entities; what was said of one weighs more than what was read."""
        for entity_id in entity_ids:
            linked = (entity_id, seq)
            if self._mentions.get(linked, "found") == "found":
                self._mentions[linked] = origin

    def _link_names(self, seq: int, names: Iterable[str]) -> None:
        """Link a chunk with the entities whose names, aliases or codes stand in its text."""
        sql = """
            SELECT DISTINCT a.entity_id FROM json_each(?) k JOIN aliases a ON a.key = k.value
            JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL
        """
        if spelled := self._spellings.among(names):
            rows = _all(self._db, sql, (_json(spelled),))
            self._mention(seq, [row[0] for row in rows], "found")

    def replace(
        self, chunk_id: str, change: Change, indexed: Indexed | None, reason: str
    ) -> tuple[str, str]:
        old = self._live_version(chunk_id)
        properties = json.loads(old["metadata_json"]) | change.properties
        row: dict[str, Any] = {
            "content": old["content"] if change.content is None else change.content,
            "importance": old["importance"] if change.importance is None else change.importance,
            "metadata": _json(properties),
        }
        same_text = row["content"] == old["content"]
        if (
            same_text
            and row["importance"] == old["importance"]
            and properties == json.loads(old["metadata_json"])
        ):
            return old["id"], old["id"]
        indexed = indexed if indexed is not None and not same_text else Indexed(row["content"])
        new_id = new_chunk_id(self.now)
        vectors = self._next_vectors(old["seq"], self._own(change), same_text)
        closed_at = self._close_chunk(old["seq"], self.now, new_id)
        row |= {
            "id": new_id,
            "hash": indexed.hash,
            "source": old["source"],
            "session_id": old["session_id"],
            "timestamp": old["timestamp"],
            "created_at": old["created_at"],
            "valid_from": closed_at,
        }
        seq = self._insert_chunk(row, vectors)
        self._write_chunks()
        self._carry_over(old["seq"], seq, old["id"], new_id, closed_at)
        self._link_names(seq, indexed.names(self._spellings.starts))
        metadata = self._searchable(seq)[1]
        self._index(seq, indexed, metadata, old["source"], old["session_id"], old["seq"])
        self._audit("update", "chunk", new_id, reason, _detail("supersedes", old["id"]))
        return new_id, str(old["id"])

    def _carry_over(self, old: int, new: int, old_id: str, new_id: str, at: str) -> None:
        """Give the next version the tags, links and edges of the one it replaces.

        What was read in the old text is read anew in the new one.
        """
        self._db.execute("INSERT INTO tags SELECT ?, tag FROM tags WHERE chunk_seq = ?", (new, old))
        self._db.execute(
            """
            INSERT INTO mentions SELECT entity_id, ?, origin FROM mentions
            WHERE chunk_seq = ? AND origin <> 'found'
            """,
            (new, old),
        )
        self._db.execute(
            "INSERT INTO evidence SELECT relation_id, ? FROM evidence WHERE chunk_seq = ?",
            (new, old),
        )
        self._carry_turn(old, new)
        for carry in CARRIED:
            self._db.execute(carry, {"old": old, "new": new})
        for (edge,) in _all(self._db, HOLDING_EDGES, {"node": old_id, "at": at}):
            moved = {"old": old_id, "new": new_id, "at": at, "id": edge}
            self._db.execute(COPY_EVIDENCE, (_one(self._db, MOVE_EDGE, moved), edge))
            self._close_relation(edge, at)

    def _carry_turn(self, old: int, new: int) -> None:
        """A text that no longer begins with what the person said is all theirs."""
        bound = {"old": old, "new": new}
        # Not compared in SQL, where a text ends at its first NUL.
        for round_id, asked, before, after in _all(self._db, TURN_TO_CARRY, bound):
            same = before[: asked + 1] == after[: asked + 1]
            self._db.execute(PUT_TURN, (new, round_id, asked if same else len(after)))

    def _next_vectors(self, old: int, vectors: Vectors | None, same_text: bool) -> Vectors | None:
        """The same text keeps its vectors; a new one has its own, or waits for them."""
        kept = _vectors_of(self._db, old) if same_text else None
        return vectors if kept is None else kept

    def forget_chunk(self, chunk_id: str, reason: str, cascade: bool) -> tuple[int, int]:
        row = _version(self._db, chunk_id)
        if row["valid_until"] is not None:
            return 0, 0
        edges = 0
        if cascade:
            bound = {"id": row["id"], "seq": row["seq"]}
            edges = self._close_relations(_all(self._db, EDGES_OF_CHUNK, bound), self.now)
        self._close_chunk(row["seq"], self.now, None)
        self._audit("forget", "chunk", row["id"], reason, _detail("edges_invalidated", edges))
        return 1, edges

    def _live_version(self, chunk_id: str) -> dict[str, Any]:
        version = _version(self._db, chunk_id)
        if version["valid_until"] is not None:
            raise NotFound("missing.forgotten", id=chunk_id)
        return version

    def _close_chunk(self, seq: int, at: str, superseded_by: str | None) -> str:
        closed_at = _one(self._db, CLOSE_CHUNK, {"seq": seq, "at": at, "next": superseded_by})
        self._db.execute("DELETE FROM trigrams WHERE rowid = ?", (seq,))
        text, metadata = self._searchable(seq)
        pieces = Indexed(text).pieces(metadata)
        self._db.execute(PUT_PIECES.format("closed_trigrams"), (seq, pieces))
        self._changed(seq)
        if _has_vectors(self._db):
            for (window,) in _all(self._db, WINDOWS_OF_CHUNK, (seq,)):
                self._db.execute("UPDATE vectors SET live = 0 WHERE rowid = ?", (window,))
        return str(closed_at)

    # -- text indexes --

    def _searchable(self, seq: int) -> tuple[str, str]:
        sql = "SELECT content, metadata FROM searchable WHERE seq = ?"
        ((text, metadata),) = _all(self._db, sql, (seq,))
        return text, metadata

    def _index(
        self,
        seq: int,
        indexed: Indexed,
        metadata: str,
        source: str,
        session_id: str,
        before: int | None,
    ) -> None:
        """Write what a live chunk is found by; `before` is what had its place, if any did."""
        self._pieces[seq] = indexed.pieces(metadata)
        self._last_indexed = max(self._last_indexed, seq)
        weights = indexed.weights(metadata, source, session_id)
        self._put_postings(seq, indexed, weights, before)

    def _put_postings(
        self, seq: int, indexed: Indexed, weights: Mapping[str, int], before: int | None
    ) -> None:
        """Write a chunk's terms; it takes the place of the version before, or of itself."""
        place = seq if before is None else self._place(before) or seq
        numbers = self._term_numbers(weights)
        terms = np.array([numbers[term] for term in weights], "<u4").tobytes()
        row = (seq, self._rev, place, indexed.flags, indexed.speaker, terms)
        self._postings[seq] = (*row, bytes(weights.values()))
        if len(self._postings) >= AT_ONCE:
            self._write_postings()

    def _place(self, seq: int) -> int | None:
        """The place of a chunk in its session, if it has terms yet."""
        written = self._postings.get(seq)
        place: int | None = written[2] if written else _one(self._db, PLACE, (seq,))
        return place

    def _write_postings(self) -> None:
        self._db.executemany(PUT_POSTINGS, self._postings.values())
        self._postings = {}

    def index_rest(self) -> None:
        """Write the terms of every chunk that has none yet, oldest first; and of every name."""
        sql = "SELECT key FROM aliases EXCEPT SELECT key FROM name_words"
        for (key,) in _all(self._db, sql):
            self._put_name_words(key)
        for seq, before, source, session_id in _all(self._db, WITHOUT_POSTINGS):
            text, metadata = self._searchable(seq)
            indexed = Indexed(text)
            weights = indexed.weights(metadata, source, session_id)
            self._put_postings(seq, indexed, weights, before)

    def look_up(self, terms: Iterable[str]) -> None:
        """Learn the numbers of all these terms that have one, at once."""
        known, absent = self._terms, self._no_terms
        missing = {term for term in terms if term not in known and term not in absent}
        if missing:
            self._terms.update(_all(self._db, TERM_NUMBERS, {"terms": _json(list(missing))}))
            self._no_terms.update(missing)

    def look_for(self, hashes: Sequence[int]) -> None:
        """Learn which of these texts may be stored already, at once."""
        self._hashes.update(row[0] for row in _all(self._db, LIVE_HASHES, (_json(hashes),)))

    def _term_numbers(self, terms: Iterable[str]) -> Mapping[str, int]:
        """The number of each term among others; a new one for a new term."""
        for term in self._unknown(terms):
            self._last_term += 1
            self._terms[term] = self._new_terms[term] = self._last_term
        return self._terms

    def _unknown(self, terms: Iterable[str]) -> list[str]:
        """Those of the terms that no text has so far, nor had."""
        known = self._terms
        missing = [term for term in terms if term not in known]
        if missing:
            self.look_up(missing)
        return [term for term in missing if term not in known]

    def _changed(self, seq: int) -> None:
        """Let every index in memory read a chunk again."""
        self._db.execute(CHANGED, (self._rev, seq))

    # -- entities --

    def put_entity(self, entity: NewEntity, source: str, about: str) -> str:
        """Make an entity, change it, or bring it back; its id as first spelled.

        One that was merged into another is that other now.
        """
        key = words.identity(entity.id)
        if key not in self._entities:
            self._entities[key] = _table(self._db, LATEST_ENTITY, key)
        known = self._entities[key]
        if known and known["superseded_by"]:
            return self.put_entity(replace(entity, id=known["superseded_by"]), source, about)
        live = known is not None and known["valid_until"] is None
        entity_id = str(known["id"]) if known else entity.id
        values = _entity_values(entity, known)
        if known is None or not live or any(known[name] != values[name] for name in values):
            if known is not None and live:
                self._db.execute(CLOSE_ENTITY, {"seq": known["seq"], "at": self.now})
            row = values | {
                "id": entity_id,
                "key": key,
                "properties": values["properties_json"],
                "source": known["source"] if known else source,
                "importance": known["importance"] if known else 0.5,
                "created_at": known["created_at"] if known else self.now,
                "now": self.now,
                "valid_from": self.now if known else min(about, self.now),
            }
            self._db.execute(INSERT_ENTITY, row)
            opened = {"seq": self._db.last_insert_rowid(), "valid_until": None}
            self._entities[key] = row | opened | {"superseded_by": None}
            self._audit("entity", "entity", entity_id, "", _detail("new", known is None))
        if known is None:
            self._known_from[entity_id] = about
            self._keys[entity_id] = set()
        self._known_since(entity_id, about)
        self._name(entity_id, values["name"], entity.aliases, about)
        self._live[key] = entity_id
        return entity_id

    def _known_since(self, entity_id: str, about: str) -> None:
        """A memory about an earlier time shows that the entity existed then."""
        since = self._known_from.get(entity_id)
        if since is not None and about >= since:
            return
        sql = """
            UPDATE entities SET valid_from = :about WHERE id = :id AND valid_from > :about
            AND seq = (SELECT min(seq) FROM entities WHERE id = :id)
        """
        self._db.execute(sql, {"id": entity_id, "about": about})
        sql = "UPDATE aliases SET valid_from = :about WHERE entity_id = :id AND valid_from > :about"
        self._db.execute(sql, {"id": entity_id, "about": about})
        self._known_from[entity_id] = about

    def _name(self, entity_id: str, name: str, aliases: Sequence[str], about: str) -> None:
        """Write every spelling that leads to an entity; the texts that have it are linked last."""
        given = [(entity_id, "id"), (name, "name"), *((alias, "alias") for alias in aliases)]
        spelled = [each for each in given if (entity_id, each[0]) not in self._named]
        self._named.update((entity_id, text) for text, _ in spelled)
        rows = [(words.name_key(text), text, role) for text, role in spelled]
        rows += [(key, text, "code") for text, _ in spelled for key in words.code_keys(text)]
        if entity_id not in self._keys:
            self._keys[entity_id] = {row[0] for row in _all(self._db, SPELLED, (entity_id,))}
        keys = self._keys[entity_id]
        for key, text, role in rows:
            if key not in keys:
                keys.add(key)
                self._put_name(key, entity_id, text, role, about)

    def _put_name(self, key: str, entity_id: str, text: str, role: str, about: str) -> None:
        self._db.execute(PUT_ALIAS, (key, entity_id, text, role, min(about, self.now)))
        self._spellings.add([key])
        self._known_from[entity_id] = about
        self._put_name_words(key)
        if not words.is_common(key) and self._may_stand(key):
            self._new_names.append((entity_id, key, self._last_indexed))

    def _put_name_words(self, key: str) -> None:
        self._name_words.update((word, key) for word in words.word_starts(key))

    def _may_stand(self, key: str) -> bool:
        """Whether a name may stand in a text so far: not where one of its words is in none."""
        if any(words.codes(key)):  # other spellings of a code are other words
            return True
        return not self._unknown(words.stems(words.folded_terms(key)))

    def _link_texts(self, entity_id: str, key: str, last: int) -> None:
        """Link the live chunks up to `last` that had a name before it was known as one."""
        # One piece is enough to find candidates by: how many spaces a text has is its own affair.
        literal = key.split(".")[0] if any(words.codes(key)) else max(key.split(" "), key=len)
        having = (row for row in self._having(literal, last) if literal in row[1])
        for seq, text in islice(having, MAX_BACKFILL):
            if words.has_folded_name(text, key):
                self._mention(seq, [entity_id], "found")

    def _having(self, piece: str, last: int) -> Iterator[tuple[int, str]]:
        """Live chunks up to `last` that may have a folded piece in them, and their folded texts."""
        low, high = _beginning(piece)
        trigrams = " AND ".join(map(_quoted, _trigrams(piece)))
        bound = {"trigrams": trigrams, "low": low, "high": high, "last": last}
        sql = HAVING_PIECE if trigrams else HAVING_SHORT_PIECE
        return ((seq, words.fold(text)) for seq, text in self._db.execute(sql, bound))

    def forget_entity(self, entity_id: str, reason: str, cascade: bool) -> tuple[int, int]:
        known = _table(self._db, LATEST_ENTITY, words.identity(entity_id))
        if known is None:
            near = ", ".join(self._view.near_names(entity_id)) or "-"
            raise NotFound("missing.entity", id=entity_id, near=near)
        if known["valid_until"] is not None:
            return 0, 0
        edges = 0
        if cascade:
            bound = {"node": known["id"], "at": self.now}
            edges = self._close_relations(_all(self._db, HOLDING_EDGES, bound), self.now)
        self._db.execute(CLOSE_ENTITY, {"seq": known["seq"], "at": self.now})
        self._audit("forget", "entity", known["id"], reason, _detail("edges_invalidated", edges))
        return 1, edges

    # -- merging entities --

    def merge_entities(self, keep: str, duplicate: str, reason: str) -> Merge | None:
        """Move names, mentions and relations to `keep` and close the other; None if that was done.

        The audit keeps every row that was written or closed, for undo_merge.
        """
        into, gone = self._known_entity(keep), self._known_entity(duplicate)
        if gone["superseded_by"] == into["id"]:
            return None
        for entity in (into, gone):
            if entity["valid_until"] is not None:
                raise NotFound("missing.forgotten_entity", id=entity["id"])
        if into["id"] == gone["id"]:
            raise InvalidInput("merge.same", id=into["id"])
        if differ_by_number([into["id"], into["name"]], [gone["id"], gone["name"]]):
            raise InvalidInput("merge.number", keep=into["id"], duplicate=gone["id"])
        done = {
            "aliases": self._move_names(into["id"], gone["id"]),
            "mentions": self._move_mentions(into["id"], gone["id"]),
            "relations": self._move_relations(into["id"], gone["id"]),
            "closed": gone["seq"],
            "version": self._complete(into, gone),
        }
        sql = "UPDATE entities SET valid_until = max(:at, valid_from), superseded_by = :id"
        sql += " WHERE seq = :seq"
        self._db.execute(sql, {"at": self.now, "id": into["id"], "seq": gone["seq"]})
        detail = {"keep": into["id"], "duplicate": gone["id"], **done}
        self._audit("merge", "entity", into["id"], reason, _json(detail))
        self._write_audits()
        return Merge(self._last_audit or 0, len(done["relations"]), len(done["mentions"]))

    def _known_entity(self, entity_id: str) -> dict[str, Any]:
        known = _table(self._db, LATEST_ENTITY, words.identity(entity_id))
        if known is None:
            near = ", ".join(self._view.near_names(entity_id)) or "-"
            raise NotFound("missing.entity", id=entity_id, near=near)
        return known

    def _move_names(self, into: str, gone: str) -> list[str]:
        """Give one entity the other's names; the keys that were new to it."""
        sql = """
            INSERT OR IGNORE INTO aliases
            SELECT key, ?, alias, iif(role = 'code', 'code', 'alias'), valid_from
            FROM aliases WHERE entity_id = ? RETURNING key
        """
        return [row[0] for row in _all(self._db, sql, (into, gone))]

    def _move_mentions(self, into: str, gone: str) -> list[int]:
        sql = """
            INSERT OR IGNORE INTO mentions
            SELECT ?, chunk_seq, origin FROM mentions WHERE entity_id = ? RETURNING chunk_seq
        """
        moved = [row[0] for row in _all(self._db, sql, (into, gone))]
        self._linked_late(moved)
        return moved

    def _move_relations(self, into: str, gone: str) -> list[dict[str, Any]]:
        """Open each relation of one entity anew with the other, but for loops and doubles."""
        moved = []
        for (edge,) in _all(self._db, HOLDING_EDGES, {"node": gone, "at": self.now}):
            before = _table(self._db, "SELECT * FROM relations WHERE id = ?", edge) or {}
            ends = {end: into if before[end] == gone else before[end] for end in _ENDS}
            twin = _one(self._db, TWIN_RELATION, {**before, **ends, "now": self.now})
            new = None
            if ends["source_id"] != ends["target_id"] and twin is None:
                step = {"old": gone, "new": into, "at": self.now, "id": edge}
                new = _one(self._db, MOVE_EDGE, step)
            shown = self._copy_evidence(edge, new or twin) if new or twin else []
            self._close_relation(edge, self.now)
            ended = before["valid_until"]
            moved.append({"old": edge, "ended": ended, "new": new, "twin": twin, "shown": shown})
        return moved

    def _copy_evidence(self, old: int, new: int) -> list[int]:
        sql = """
            INSERT OR IGNORE INTO evidence
            SELECT ?, chunk_seq FROM evidence WHERE relation_id = ? RETURNING chunk_seq
        """
        return [row[0] for row in _all(self._db, sql, (new, old))]

    def _complete(self, into: dict[str, Any], gone: dict[str, Any]) -> list[int] | None:
        """Let what is kept say what only the other said; its closed and its open version."""
        properties = json.loads(gone["properties_json"]) | json.loads(into["properties_json"])
        plain, named = into["kind"] == "concept", gone["name"] != gone["id"]
        self.put_entity(
            NewEntity(
                into["id"],
                kind=gone["kind"] if plain else None,
                name=gone["name"] if into["name"] == into["id"] and named else None,
                summary=None if into["summary"] else gone["summary"] or None,
                properties=properties,
            ),
            into["source"],
            self.now,
        )
        seq = self._known_entity(into["id"])["seq"]
        return None if seq == into["seq"] else [into["seq"], seq]

    def undo_merge(self, audit_id: int) -> int:
        """Put back every row as it was before a merge; 0 if that was done already."""
        audit = _table(self._db, "SELECT * FROM audit WHERE id = ? AND action = 'merge'", audit_id)
        if audit is None:
            raise NotFound("missing.merge", id=audit_id)
        sql = "SELECT 1 FROM audit WHERE action = 'undo' AND target_id = ?"
        if _one(self._db, sql, (str(audit_id),)):
            return 0
        done = json.loads(audit["detail_json"])
        if not _holds_undo("merge", done):
            raise InvalidInput(
                "undo.lacking", id=audit_id, action="merge", target=audit["target_id"]
            )
        for each in reversed(done["relations"]):
            self._put_relation_back(each, audit_id)
        taken = (done["keep"], json.dumps(done["aliases"]))
        self._db.execute(UNDO_ALIASES, taken)
        moved = {"keep": done["keep"], "moved": json.dumps(done["mentions"]), "merge": audit_id}
        self._db.execute(UNDO_MENTIONS, moved)
        if done["version"]:
            self._put_version_back(*done["version"])
        self._db.execute(REOPEN_ENTITY, (done["closed"],))
        self._audit("undo", "merge", str(audit_id), "", "{}")
        return 1

    def _put_relation_back(self, moved: dict[str, Any], merge: int) -> None:
        """Open a relation as it was; its successor goes unless it was changed or said since."""
        kept = moved["new"] or moved["twin"]
        opened = {"old": moved["old"], "ended": moved["ended"], "kept": kept, "merge": merge}
        self._db.execute(REOPEN_RELATION, opened)
        self._db.execute(UNDO_EVIDENCE, (kept, json.dumps(moved["shown"])))
        successor = {"id": moved["new"], "ended": moved["ended"], "merge": merge}
        self._db.execute(UNDO_RELATION, successor)

    def _put_version_back(self, old: int, new: int) -> None:
        sql = "DELETE FROM entities WHERE seq = ? AND valid_until IS NULL RETURNING seq"
        if _all(self._db, sql, (new,)):
            self._db.execute(REOPEN_ENTITY, (old,))

    # -- relations --

    def put_relation(
        self,
        relation: NewRelation,
        *,
        source: str,
        about: str,
        said_by: tuple[str, int] | None = None,
    ) -> tuple[int, str]:
        """Store a relation, or add to the same one that holds; its id and what was done.

        `about` is when it begins if it does not say; `said_by` is the live chunk, by id and seq,
        that says so if it names no other.
        """
        start = relation.valid_from or _starts(relation, about)
        row = {
            "source_id": self._endpoint(relation.source_id, source, start),
            "target_id": self._endpoint(relation.target_id, source, start),
            "relation": relation.relation,
            "weight": relation.weight,
            "properties": _json(relation.properties),
            "source": source,
            "now": self.now,
            "valid_from": start,
            "valid_until": relation.valid_until,
        }
        if relation.evidence_chunk_id:
            version = self._live_version(relation.evidence_chunk_id)
            said_by = (version["id"], version["seq"])
        row["evidence"] = said_by[0] if said_by else None
        relation_id, status = self._merge_relation(row, relation)
        if said_by:
            self._show(relation_id, row, said_by[1])
        self._audit("relate", "relation", str(relation_id), "", _detail("status", status))
        return relation_id, status

    def _merge_relation(self, row: dict[str, Any], given: NewRelation) -> tuple[int, str]:
        if (row["source_id"], row["target_id"], row["relation"]) in self._related:
            self._write_relations()
        found = _all(self._db, SAME_RELATION, row)
        over = row["valid_until"] is not None and row["valid_until"] <= self.now
        if over and (known := _one(self._db, SAME_PAST_RELATION, row)):
            return int(known), "exists"
        if over or not found:
            return self._insert_relation(row), "stored, already over" if over else "stored"
        same = EdgeRow(*found[0])
        if (
            same.weight == given.weight
            and same.valid_until == given.valid_until
            and given.valid_from in (None, same.valid_from)
            and json.loads(same.properties_json) == given.properties
        ):
            if row["valid_from"] < same.valid_from:
                sql = "UPDATE relations SET valid_from = ? WHERE id = ?"
                self._db.execute(sql, (row["valid_from"], same.id))
            return same.id, "exists"
        self._close_relation(same.id, row["valid_from"])
        relation_id = self._insert_relation(row)
        self._write_relations()
        self._db.execute(COPY_EVIDENCE, (relation_id, same.id))
        return relation_id, "updated"

    def _insert_relation(self, row: dict[str, Any]) -> int:
        self._last_relation += 1
        self._relations.append(row | {"id": self._last_relation})
        self._related.add((row["source_id"], row["target_id"], row["relation"]))
        return self._last_relation

    def _write_relations(self) -> None:
        """Write new relations, and then what shows them and others."""
        self._db.executemany(INSERT_RELATION, self._relations)
        self._db.executemany(PUT_EVIDENCE, self._evidence)
        self._relations, self._evidence = [], []
        self._related.clear()

    def _show(self, relation_id: int, row: dict[str, Any], seq: int) -> None:
        """Record that a chunk says so, which also links it with both ends."""
        self._evidence.append((relation_id, seq))
        ends = [row[end] for end in ("source_id", "target_id") if not is_chunk_id(row[end])]
        self._mention(seq, ends, "evidence")

    def _endpoint(self, reference: str, source: str, about: str) -> str:
        """What a relation's end means: a live chunk, a known entity by any name, or a new one."""
        if is_chunk_id(reference):
            return str(self._live_version(reference)["id"])
        key = words.identity(reference)
        if (live := self._live.get(key)) is not None:
            return live
        known = _entity_id(self._db, reference)
        if known is None:
            return self.put_entity(NewEntity(reference), source, about)
        if words.identity(known) == key:  # not by another name, which may come to mean others too
            self._live[key] = known
        return known

    def forget_relation(self, relation_id: int, reason: str) -> int:
        if not _one(self._db, "SELECT 1 FROM relations WHERE id = ?", (relation_id,)):
            raise NotFound("missing.relation", id=relation_id)
        closed = self._close_relation(relation_id, self.now)
        if closed:
            self._audit("forget", "relation", str(relation_id), reason, "{}")
        return closed

    def _close_relations(self, ids: Iterable[tuple[int]], at: str) -> int:
        """Close relations; how many of them held or would have."""
        return sum(self._close_relation(relation_id, at) for (relation_id,) in ids)

    def _close_relation(self, relation_id: int, at: str) -> int:
        return len(_all(self._db, CLOSE_RELATION, {"id": relation_id, "at": at}))

    def _audit(self, action: str, kind: str, target: str, reason: str, detail: str) -> None:
        """Note who did what; `detail` is JSON."""
        row = (self.now, self._client, action, kind, target, reason, detail)
        self._audits.append(row)

    def _write_audits(self) -> None:
        if self._audits:
            self._db.executemany(INSERT_AUDIT, self._audits)
            self._last_audit = self._db.last_insert_rowid()
        self._audits = []

    def note(self, changes: Sequence["RowChange"]) -> None:
        """Add to the last record which rows were changed, for who wants them back as they were."""
        if self._last_audit is None:
            return
        chunk, relation, change = _all(self._db, LATEST_NUMBERS)[0]
        after = {"chunk": chunk, "relation": relation, "change": change}
        noted = _json({"rows": changes, "after": after})
        self._db.execute(NOTE, (noted, self._last_audit))


def _entity_values(entity: NewEntity, known: dict[str, Any] | None) -> dict[str, str]:
    """What an entity says after this: given values over known ones, properties merged."""
    old = known or {"kind": "concept", "name": entity.id, "summary": "", "properties_json": "{}"}
    properties = old["properties_json"]
    if entity.properties:
        properties = _json(json.loads(properties) | entity.properties)
    return {
        "kind": entity.kind or old["kind"],
        "name": entity.name or old["name"],
        "summary": entity.summary or old["summary"],
        "properties_json": properties,
    }


def _starts(relation: NewRelation, about: str) -> str:
    """When a relation begins that does not say so; one already over then began at no known time."""
    over = relation.valid_until is not None and relation.valid_until <= about
    return SINCE_EVER if over else about


# --- Vectors ---------------------------------------------------------------------------

WINDOWS_OF_CHUNK = "SELECT seq FROM windows WHERE chunk_seq = ?"

# vec0 keeps vectors in blocks of a table of its own, and where each row's is in another.
EVERY_PLACE = """
    SELECT w.chunk_seq, r.chunk_id, r.chunk_offset
    FROM windows w JOIN vectors_rowids r ON r.rowid = w.seq ORDER BY r.chunk_id
"""
BLOCK = "SELECT vectors FROM vectors_vector_chunks00 WHERE rowid = ?"

PLACES_OF_CHUNK = """
    SELECT w.chunk_seq, r.chunk_id, r.chunk_offset
    FROM windows w JOIN vectors_rowids r ON r.rowid = w.seq
    WHERE w.chunk_seq = ? ORDER BY w.part
"""


def _model(db: apsw.Connection, prefix: str = "embedding") -> Model | None:
    sql = "SELECT key, value, value || ' ' || updated_at FROM meta WHERE key GLOB ? || '_*'"
    rows = {key.removeprefix(f"{prefix}_"): each for key, *each in _all(db, sql, (prefix,))}
    if not rows:
        return None
    noise = json.loads(rows["noise"][0]) if "noise" in rows else []
    (name, mark), (dim, _), (unrelated, _) = rows["model"], rows["dim"], rows["unrelated"]
    pairs = tuple((mean, deviation) for mean, deviation in noise)
    return Model(name, int(dim), float(unrelated), pairs, mark)


def _record_model(db: apsw.Connection, model: Model, prefix: str = "embedding") -> None:
    recorded = {
        "model": model.name,
        "dim": model.dim,
        "unrelated": model.unrelated,
        "noise": json.dumps(model.noise),
    }
    now = timestamps.now()
    for key, value in recorded.items():
        db.execute(PUT_META, (f"{prefix}_{key}", str(value), now))


def _make_vectors(db: apsw.Connection, table: str, dim: int) -> None:
    # The dimension is a number of ours; vec0 takes no bound parameter here.
    width = f"embedding float[{int(dim)}]"
    db.execute(f"CREATE VIRTUAL TABLE {table} USING vec0 ({width}, live integer)")


_UNMARKED = "SELECT seq FROM chunks c WHERE c.valid_until IS NULL AND c.pending = 0"

VECTOR_CHECKS = {
    "orphans": "SELECT rowid FROM vectors EXCEPT SELECT seq FROM windows",
    "windows": "SELECT seq FROM windows EXCEPT SELECT rowid FROM vectors",
    "marks": """
        SELECT v.rowid FROM vectors v JOIN windows w ON w.seq = v.rowid
        JOIN chunks c ON c.seq = w.chunk_seq WHERE v.live <> (c.valid_until IS NULL)
    """,
    "unmarked": _UNMARKED
    + " AND seq NOT IN (SELECT chunk_seq FROM windows WHERE seq IN (SELECT rowid FROM vectors))",
}
"""For each fault that vectors can have, the statement that finds its rows."""


def _broken(db: apsw.Connection) -> dict[str, str]:
    return VECTOR_CHECKS if _has_vectors(db) else {"unmarked": _UNMARKED}


_TRIM = """
    DELETE FROM {0} WHERE id IN (
        SELECT id FROM {0} WHERE id <= (SELECT max(id) FROM {0}) - ? ORDER BY id LIMIT 1000
    ) RETURNING id
"""
TRIM = {table: _TRIM.format(table) for table in ("recall_log", "audit", "changes")}

MEND = {
    "orphans": "DELETE FROM vectors WHERE rowid = ?",
    "windows": "DELETE FROM windows WHERE seq = ?",
    "marks": "UPDATE vectors SET live = 1 - live WHERE rowid = ?",
    "unmarked": "UPDATE chunks SET pending = 1 WHERE seq = ?",
}

# --- Cues ------------------------------------------------------------------------------

CUES_AT_ONCE = 200  # chunks of one transaction whose cues are read, while which others wait
CUES = "cues"
"""Of meta: what the cues in the file depend on, see cues.Extractor.signature."""

_BEHIND = """
    SELECT {0} FROM chunks
    WHERE seq > (SELECT coalesce(max(chunk_seq), 0) FROM cue_postings)
"""
UNCUED = _BEHIND.format("count(*)")
NEXT_TEXTS = _BEHIND.format("seq, content") + " ORDER BY seq LIMIT ?"
NEXT_UNCUED = _BEHIND.format("seq") + " ORDER BY seq LIMIT ?"
CUES_READ_BY = "SELECT value FROM meta WHERE key = 'cues'"
CUE_NUMBERS = "SELECT q.cue, q.id FROM json_each(?) k CROSS JOIN cues q ON q.cue = k.value"
CUE_NAMES = "SELECT q.id, q.cue FROM json_each(?) k CROSS JOIN cues q ON q.id = k.value"

# What the index in memory goes by: a change of chunks, a new row, cues that were all read again,
# and changes only for whether rows are gone of which nothing tells any more.
CUES_LATEST = """
    SELECT (SELECT coalesce(max(rev), 0) FROM postings),
        (SELECT coalesce(max(chunk_seq), 0) FROM cue_postings),
        (SELECT updated_at FROM meta WHERE key = 'cues'),
        (SELECT coalesce(max(id), 0) FROM changes)
"""
_CUE_ROW = f"""
    SELECT c.seq, p.place, c.session_id, c.timestamp, q.cues
    FROM {{0}} JOIN chunks c ON c.seq = q.chunk_seq JOIN postings p ON p.chunk_seq = q.chunk_seq
    WHERE {LIVE_CHUNK}
"""
EVERY_CUE_ROW = _CUE_ROW.format("cue_postings q")
NEW_CUE_ROWS = _CUE_ROW.format("cue_postings q") + " AND q.chunk_seq > :seq"
CHANGED_CUE_ROWS = _CUE_ROW.format("cue_postings q") + " AND p.rev > :rev"
CHANGED_CLOSED = """
    SELECT c.seq FROM postings p JOIN chunks c ON c.seq = p.chunk_seq
    WHERE p.rev > ? AND c.valid_until IS NOT NULL
"""

ROUND_AGAIN = "the same round again"
LAST_ROUND = """
    SELECT coalesce(max(CAST(t.round_id AS INTEGER)), 0) FROM chunks c
    JOIN turns t ON t.chunk_seq = c.seq WHERE c.session_id = ? AND c.valid_until IS NULL
"""
PUT_TURN = "INSERT OR REPLACE INTO turns VALUES (?, ?, ?)"
TURN_TO_CARRY = """
    SELECT t.round_id, t.asked, o.content, n.content
    FROM turns t JOIN chunks o ON o.seq = t.chunk_seq JOIN chunks n ON n.seq = :new
    WHERE t.chunk_seq = :old
"""
_TURN = """
    SELECT c.seq, c.id, c.session_id, t.round_id, c.content, t.asked, c.timestamp
    FROM {0} JOIN turns t ON t.chunk_seq = c.seq
"""
TURN_OF = (
    _TURN.format("chunks c")
    + """
    WHERE c.session_id = ? AND t.round_id = ? AND c.valid_until IS NULL
"""
)
TURN_VERSIONS = (
    _TURN.format("chunks c") + " WHERE c.session_id = ? AND t.round_id = ? ORDER BY c.seq"
)
TURNS_OF = (
    _TURN.format("chunks c JOIN postings p ON p.chunk_seq = c.seq")
    + """
    WHERE c.session_id = ? AND c.valid_until IS NULL ORDER BY c.timestamp, p.place
"""
)
TURNS_AT = (
    _TURN.format("json_each(?) i CROSS JOIN chunks c ON c.seq = i.value")
    + """
    WHERE c.valid_until IS NULL
"""
)
TURN_SESSIONS = """
    SELECT DISTINCT c.session_id FROM turns t JOIN chunks c ON c.seq = t.chunk_seq
    WHERE c.valid_until IS NULL ORDER BY c.session_id
"""


class CueReader(Protocol):
    """Reads the cues of a text (cues.Extractor)."""

    @property
    def signature(self) -> str: ...

    def __call__(self, text: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class CueSettings:
    """How memories are found by cues."""

    reader: CueReader
    pause_minutes: float


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A round of a conversation as it is stored."""

    seq: int
    id: str
    session_id: str
    round_id: str
    content: str
    asked: int
    timestamp: str


class _Seen(NamedTuple):
    """As of when something was read: see CUES_LATEST."""

    rev: int
    last: int
    read_at: str | None
    change: int


class _HeldCues:
    """The index of cues in memory, of what is live or was at one moment."""

    def __init__(self, settings: CueSettings) -> None:
        self._settings = settings
        self.lock = threading.RLock()
        self._index: CueIndex | None = None
        self._seen = _Seen(0, 0, None, 0)
        self._past: tuple[str, _Seen, CueIndex] | None = None
        self._begun = False
        self._reading = threading.Lock()

    def begin(self, store: SqliteStore) -> None:
        """Once: drop all cues that were read in another way than the settings say now."""
        if self._begun:
            return
        signature = self._settings.reader.signature
        with store.view() as view:
            known = _one(view._db, CUES_READ_BY)
        if known != signature:
            with store._transaction() as db:
                db.execute("DELETE FROM cue_postings")
                db.execute(PUT_META, (CUES, signature, timestamps.now()))
        self._begun = True

    def index_more(self, store: SqliteStore, *, wait: bool = True) -> bool:
        """Read and write the cues of the oldest chunks that have none; False if there is no more.

        They are read before the transaction: the first Chinese text takes a second, in which
        other writers should not wait. Without `wait` what another thread is reading is left to it.
        """
        if not self._reading.acquire(blocking=wait):
            return False
        try:
            self.begin(store)
            with store.view() as view:
                texts = _all(view._db, NEXT_TEXTS, (CUES_AT_ONCE,))
            read = {seq: self._settings.reader(text) for seq, text in texts}
            if not read:
                return False
            with store._transaction() as db:
                return self._write(db, read)
        finally:
            self._reading.release()

    def _write(self, db: apsw.Connection, read: Mapping[int, list[str]]) -> bool:
        """Write those cues that are still the next; False where others read in another way."""
        signature = self._settings.reader.signature
        if (known := _one(db, CUES_READ_BY)) is None:  # all were dropped
            db.execute(PUT_META, (CUES, signature, timestamps.now()))
        elif known != signature:
            return False
        behind = (row[0] for row in _all(db, NEXT_UNCUED, (len(read),)))
        due = list(takewhile(read.__contains__, behind))
        found = dict.fromkeys(cue for seq in due for cue in read[seq])
        numbers = _cue_numbers(db, found)
        for cue in found:
            if cue not in numbers:
                db.execute("INSERT INTO cues (cue) VALUES (?)", (cue,))
                numbers[cue] = db.last_insert_rowid()
        rows = [(seq, np.array([numbers[cue] for cue in read[seq]], "<u4")) for seq in due]
        sql = "INSERT INTO cue_postings VALUES (?, ?)"
        db.executemany(sql, [(seq, cues.tobytes()) for seq, cues in rows])
        return True

    def reads(self, text: str) -> list[str]:
        return self._settings.reader(text)

    def current(self, db: apsw.Connection, asof: str | None) -> "CueIndex":
        """The index as of the last commit of anybody, or of a moment; under its lock."""
        latest = _Seen(*_all(db, CUES_LATEST)[0])
        if asof is not None:
            if self._past is None or self._past[:2] != (asof, latest):
                self._past = asof, latest, self._load(db, asof)
            return self._past[2]
        index, seen = self._index, self._seen
        lost = latest.read_at != seen.read_at or _is_behind(db, seen.change)
        if index is None or index.is_worn or lost:
            index = self._index = self._load(db, None)
        elif latest != seen:
            self._refresh(db, index)
        self._seen = latest
        return index

    def _load(self, db: apsw.Connection, asof: str | None) -> "CueIndex":
        from cues import CueIndex

        rows = _cue_rows(db, EVERY_CUE_ROW, {"asof": asof})
        return CueIndex(rows, int(60_000 * self._settings.pause_minutes))

    def _refresh(self, db: apsw.Connection, index: "CueIndex") -> None:
        for (seq,) in _all(db, CHANGED_CLOSED, (self._seen.rev,)):
            index.remove(seq)
        bound = {"asof": None, "rev": self._seen.rev, "seq": self._seen.last}
        for sql in (CHANGED_CUE_ROWS, NEW_CUE_ROWS):
            for row in _cue_rows(db, sql, bound):
                if row.seq not in index:
                    index.add(row)


def _cue_rows(db: apsw.Connection, sql: str, bound: dict[str, Any]) -> "list[CueRow]":
    from cues import CueRow

    rows = _all(db, sql, bound)
    stamps = milliseconds([row[3] for row in rows]).tolist()
    return [
        CueRow(seq, place, session, stamp, cues)
        for (seq, place, session, _, cues), stamp in zip(rows, stamps, strict=True)
    ]


def _cue_numbers(db: apsw.Connection, cues: Iterable[str]) -> dict[str, int]:
    return dict(_all(db, CUE_NUMBERS, (_json(list(cues)),)))


def recall_by_cues(
    view: View,
    text: str,
    limit: int,
    edges: "Edges",
    *,
    asof: str | None = None,
    allowed: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
) -> "CueHits":
    """The memories that a text's cues lead to, best first; see cues.CueIndex.search."""
    held = view._indexes.cues
    assert held is not None  # noqa: S101 - who has no settings for cues does not ask
    cues = held.reads(text)
    with held.lock, view.reading():
        known = _cue_numbers(view._db, cues)
        index = held.current(view._db, asof)
        return index.search([known.get(cue) for cue in cues], limit, edges, allowed)


def cue_names(view: View, numbers: Iterable[int]) -> dict[int, str]:
    """What some cues are; an erased one is left out."""
    return dict(_all(view._db, CUE_NAMES, (_json(list(numbers)),)))


def uncued_count(view: View) -> int:
    """How many chunks, closed ones too, have no cues yet."""
    return int(_one(view._db, UNCUED) or 0)


def index_cues(store: SqliteStore, seconds: float) -> int:
    """Write the cues of chunks that have none, as long as there is time; how many are left.

    What was written stays, so another call goes on from there. Whoever only reads, and whoever
    would have to wait too long for another process, leaves them.
    """
    held, deadline = None if store.read_only else store._indexes.cues, time.monotonic() + seconds
    with suppress(StoreBusy):
        if held:
            held.begin(store)
    left = _left(store)
    with suppress(StoreBusy):
        while held and left and time.monotonic() < deadline and held.index_more(store):
            left = _left(store)
    return left


def _left(store: SqliteStore) -> int:
    with store.view() as view:
        return uncued_count(view)


def _drop_cues(db: apsw.Connection) -> None:
    """Drop all that was read of cues: whoever recalls by them reads them again."""
    for sql in ("cue_postings", "cues", "meta WHERE key = 'cues'"):
        db.execute(f"DELETE FROM {sql}")


def _drop_unused_cues(db: apsw.Connection) -> None:
    """Remove words that no chunk's cues have any more."""
    used = np.unique(_all_cues(db))
    known = np.array([row[0] for row in db.execute("SELECT id FROM cues")], np.int64)
    unused = [(each,) for each in np.setdiff1d(known, used).tolist()]
    db.executemany("DELETE FROM cues WHERE id = ?", unused)


def _all_cues(db: apsw.Connection) -> NDArray[np.uint32]:
    """The numbers of all chunks' cues, one after the other; of a damaged row what can be read."""
    rows = (row[0] for row in db.execute("SELECT cues FROM cue_postings"))
    return np.frombuffer(b"".join(row[: len(row) & ~3] for row in rows), "<u4")


# -- turns --


def put_turn(
    store: SqliteStore, chunk: NewChunk, round_id: str | None, asked: int, client: str
) -> str:
    """Store a round of a conversation, by default the next of its session; its id.

    The same round again closes the row that it had; without a time it keeps the one that it had,
    and the same text again changes nothing.
    """
    indexed = Indexed(chunk.content)
    with store._writing(client, undoable=round_id is not None) as writer:
        db = writer._db
        if round_id is None:
            round_id = _next_round(db, chunk.session_id)
        place = (chunk.session_id, round_id)
        old = next((TurnRow(*row) for row in _all(db, TURN_OF, place)), None)
        if old and chunk.timestamp in (None, old.timestamp):
            writer.replace(old.id, Change(chunk.content), indexed, ROUND_AGAIN)
            seq = int(_one(db, TURN_OF, place))
        else:
            if old:
                writer.forget_chunk(old.id, ROUND_AGAIN, cascade=True)
            seq, chunk_id, waits = writer._put_new(chunk, indexed.hash)
            writer._write_chunks()
            writer._complete_chunk(chunk, indexed, (seq, chunk_id, waits, True))
        db.execute(PUT_TURN, (seq, round_id, asked))
        return round_id


def _next_round(db: apsw.Connection, session_id: str) -> str:
    """The number after the highest of a session, of which SQLite knows up to 63 bits."""
    number = int(_one(db, LAST_ROUND, (session_id,))) + 1
    while _all(db, TURN_OF, (session_id, str(number))):
        number += 1
    return str(number)


def close_turns(store: SqliteStore, rounds: Iterable[tuple[str, str]], client: str) -> int:
    """Forget some rounds, each by its session and its own id; how many there were.

    Each in a transaction of its own, so that each can be undone.
    """
    count = 0
    for each in rounds:
        with store._writing(client, undoable=True) as writer:
            for _, chunk_id, *_rest in _all(writer._db, TURN_OF, each):
                count += writer.forget_chunk(chunk_id, "deleted", cascade=True)[0]
    return count


def turns_of(view: View, session_id: str) -> list[TurnRow]:
    """The live rounds of a session, in the order in which they were."""
    return [TurnRow(*row) for row in _all(view._db, TURNS_OF, (session_id,))]


def turns_at(view: View, seqs: Iterable[int]) -> list[TurnRow]:
    """Those of some chunks that are live rounds, in the order given."""
    return [TurnRow(*row) for row in _all(view._db, TURNS_AT, (_json(list(seqs)),))]


def turn_versions(view: View, session_id: str, round_id: str) -> list[TurnRow]:
    """Every version of a round, live or closed."""
    return [TurnRow(*row) for row in _all(view._db, TURN_VERSIONS, (session_id, round_id))]


def turn_sessions(view: View) -> list[str]:
    """Every session that has a live round."""
    return [row[0] for row in _all(view._db, TURN_SESSIONS)]


# --- Timeline --------------------------------------------------------------------------

GROUPED = "timeline_groups"
"""Of meta: how and when groups were last looked for, as JSON."""
EXPIRED = "expired"

_LIVE_ENTRY = "timeline t CROSS JOIN chunks c ON c.seq = t.chunk_seq AND c.valid_until IS NULL"

SAME_ENTRIES = """
    SELECT c.seq, c.id, c.pending FROM chunks c JOIN timeline t ON t.chunk_seq = c.seq
    WHERE c.content_hash = :hash AND c.valid_until IS NULL AND c.content = :content
    AND t.category = :category AND (t.expires_at IS NOT NULL) = :expires
    AND (t.expires_at IS NULL OR t.expires_at > :now)
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:tags) g LEFT JOIN tags x
        ON x.chunk_seq = c.seq AND x.tag = g.value COLLATE BINARY WHERE x.tag IS NULL
    )
"""
PUT_ENTRY = "INSERT INTO timeline VALUES (?, ?, ?)"
PUT_CONTEXT = "INSERT INTO contexts VALUES (?, ?, ?)"
PUT_MERGED = "INSERT OR REPLACE INTO merged_vectors VALUES (?, ?, ?)"
LAST_SEGMENTS = "SELECT text FROM contexts WHERE chunk_seq = ? ORDER BY part DESC LIMIT ?"
SEGMENTS = "SELECT text FROM contexts WHERE chunk_seq = ? ORDER BY part LIMIT ? OFFSET ?"
SEGMENT_COUNT = "SELECT count(*) FROM contexts WHERE chunk_seq = ?"

_ENTRY = """
    SELECT c.seq, c.id, c.content,
        (SELECT json_group_array(tag) FROM tags WHERE chunk_seq = c.seq),
        t.category, c.created_at, t.expires_at,
        (SELECT count(*) FROM contexts WHERE chunk_seq = c.seq),
        (SELECT json_group_array(group_id) FROM timeline_groups WHERE chunk_seq = c.seq)
    FROM {0} JOIN timeline t ON t.chunk_seq = c.seq WHERE c.valid_until IS NULL
"""
ENTRIES_AT = _ENTRY.format("json_each(?) i CROSS JOIN chunks c ON c.seq = i.value")
ENTRY_OF = _ENTRY.format("chunks c") + " AND c.id = ?"
ENTRIES_OF_GROUP = (
    _ENTRY.format("timeline_groups g CROSS JOIN chunks c ON c.seq = g.chunk_seq")
    + " AND g.group_id = ? ORDER BY c.seq"
)
GROUPS = """
    SELECT g.group_id, json_group_array(g.chunk_seq) FROM timeline_groups g
    JOIN chunks c ON c.seq = g.chunk_seq AND c.valid_until IS NULL GROUP BY g.group_id
"""

# What the matrix in memory goes by: every change of a chunk, and entries that were erased.
ENTRIES_LATEST = "SELECT (SELECT max(rev) FROM postings), (SELECT count(*) FROM timeline)"
ENTRIES_NOW = f"SELECT count(*), sum(c.seq), max(c.seq) FROM {_LIVE_ENTRY}"
MATRIX = f"""
    SELECT t.chunk_seq, t.expires_at, p.flags & {UNSPACED} > 0, m.embedding FROM {_LIVE_ENTRY}
    JOIN merged_vectors m ON m.chunk_seq = t.chunk_seq JOIN postings p ON p.chunk_seq = t.chunk_seq
    WHERE m.made_by = ? ORDER BY t.chunk_seq
"""
UNMERGED = f"""
    SELECT c.seq, c.content, (SELECT json_group_array(tag) FROM tags WHERE chunk_seq = c.seq)
    FROM {_LIVE_ENTRY} LEFT JOIN merged_vectors m ON m.chunk_seq = t.chunk_seq AND m.made_by = ?
    WHERE m.chunk_seq IS NULL ORDER BY c.seq LIMIT ?
"""
UNMERGED_COUNT = f"""
    SELECT count(*) FROM {_LIVE_ENTRY}
    LEFT JOIN merged_vectors m ON m.chunk_seq = t.chunk_seq AND m.made_by = ?
    WHERE m.chunk_seq IS NULL
"""
LASTING = f"""
    SELECT c.seq, c.id, c.content, c.created_at FROM {_LIVE_ENTRY}
    WHERE t.expires_at IS NULL ORDER BY c.created_at, c.seq
"""
OVERDUE = f"SELECT c.seq, c.id FROM {_LIVE_ENTRY} WHERE t.expires_at <= ? ORDER BY c.seq"
LAST = """
    UPDATE timeline SET expires_at = NULL WHERE chunk_seq = :seq AND expires_at <= :now
    AND EXISTS (SELECT 1 FROM chunks WHERE seq = :seq AND valid_until IS NULL)
"""
EXPIRE = """
    UPDATE timeline SET expires_at = :at WHERE chunk_seq = :seq AND expires_at IS NULL
    AND EXISTS (SELECT 1 FROM chunks WHERE seq = :seq AND valid_until IS NULL)
"""
ENTRY_COUNTS = f"""
    SELECT count(*), coalesce(sum(t.expires_at IS NOT NULL), 0),
        coalesce(sum(t.expires_at <= :now), 0),
        (SELECT count(*) FROM {_LIVE_ENTRY} JOIN contexts x ON x.chunk_seq = c.seq)
    FROM {_LIVE_ENTRY}
"""
CATEGORIES = f"SELECT t.category, count(*) FROM {_LIVE_ENTRY} GROUP BY t.category"

# What the next version of an entry takes over from the one before.
CARRIED = (
    "INSERT INTO timeline SELECT :new, category, expires_at FROM timeline WHERE chunk_seq = :old",
    "INSERT INTO contexts SELECT :new, part, text FROM contexts WHERE chunk_seq = :old",
    "INSERT INTO timeline_groups SELECT group_id, :new FROM timeline_groups WHERE chunk_seq = :old",
    """
    INSERT INTO merged_vectors SELECT n.seq, m.made_by, m.embedding
    FROM merged_vectors m JOIN chunks o ON o.seq = m.chunk_seq JOIN chunks n ON n.seq = :new
    WHERE m.chunk_seq = :old AND n.content = o.content
    """,
)


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


def put_entry(store: SqliteStore, entry: NewEntry, client: str) -> StoredChunk:
    """Store an entry, or find the very same one; its context may have been added to since."""
    chunk, indexed = entry.chunk, Indexed(entry.chunk.content)
    with store._writing(client) as writer:
        for seq, chunk_id, waits in _same_entries(writer, entry, indexed.hash):
            writer._audit("remember", "chunk", chunk_id, "", _detail("status", "exists"))
            return StoredChunk(seq, chunk_id, False, [], bool(waits))
        seq, chunk_id, waits = writer._put_new(chunk, indexed.hash)
        writer._write_chunks()
        writer._db.execute(PUT_ENTRY, (seq, entry.category, entry.expires_at))
        _put_context(writer._db, seq, entry.context)
        if entry.merged is not None and chunk.made_by == writer.mark:
            _put_merged(writer._db, seq, entry.merged, writer.mark)
        return writer._complete_chunk(chunk, indexed, (seq, chunk_id, waits, True))


def _same_entries(
    writer: _Writer, entry: NewEntry, content_hash: int
) -> Iterator[tuple[int, str, int]]:
    same = {
        "hash": content_hash,
        "content": entry.chunk.content,
        "category": entry.category,
        "expires": entry.expires_at is not None,
        "tags": _json(entry.chunk.tags),
        "now": writer.now,
    }
    context = "".join(entry.context)
    for found in _all(writer._db, SAME_ENTRIES, same):
        # Not compared in SQL, where a text ends at its first NUL.
        parts = _all(writer._db, SEGMENTS, (found[0], -1, 0))
        if "".join(text for (text,) in parts).startswith(context):
            yield found


def _put_context(db: apsw.Connection, seq: int, segments: Sequence[str]) -> None:
    first = int(_one(db, SEGMENT_COUNT, (seq,)))
    db.executemany(PUT_CONTEXT, [(seq, at, text) for at, text in enumerate(segments, first)])


def _put_merged(db: apsw.Connection, seq: int, merged: Vectors, made_by: str) -> None:
    db.execute(PUT_MERGED, (seq, made_by, np.asarray(merged, "<f4").tobytes()))


def put_context(
    store: SqliteStore, entry_id: str, segments: Sequence[str], client: str
) -> tuple[str, bool]:
    """Add segments to an entry's context; its current id, and whether they were new.

    What its context ends with already is not added again.
    """
    with store._writing(client) as writer:
        row = writer._live_version(entry_id)
        db, seq = writer._db, row["seq"]
        if not _one(db, "SELECT 1 FROM timeline WHERE chunk_seq = ?", (seq,)):
            raise NotFound("missing.entry", id=entry_id)
        last = [text for (text,) in _all(db, LAST_SEGMENTS, (seq, len(segments)))]
        if last[::-1] == list(segments):
            return row["id"], False
        _put_context(db, seq, segments)
        text, metadata = writer._searchable(seq)
        writer._index(seq, Indexed(text), metadata, row["source"], row["session_id"], seq)
        writer._audit("context", "chunk", row["id"], "", _detail("segments", len(segments)))
        return row["id"], True


def put_merged(store: SqliteStore, rows: Sequence[tuple[int, Vectors]], made_by: str) -> int:
    """Give live entries their merged vectors, if the file's model made them; how many got one."""
    live = "SELECT 1 FROM chunks WHERE seq = ? AND valid_until IS NULL"
    with store._writing("") as writer:
        if made_by != writer.mark:
            return 0
        alive = [row for row in rows if _one(writer._db, live, (row[0],))]
        for seq, merged in alive:
            _put_merged(writer._db, seq, merged, made_by)
            writer._changed(seq)
        return len(alive)


def expire_entry(
    store: SqliteStore, entry: tuple[int, str], at: str, reason: str, client: str
) -> bool:
    """Let an entry, by its seq and id, end at a moment, unless it ends anyway; whether it did."""
    seq, chunk_id = entry
    with store._writing(client) as writer:
        writer._db.execute(EXPIRE, {"at": at, "seq": seq})
        marked = writer._db.changes() > 0
        if marked:
            writer._changed(seq)
            writer._audit("mark", "chunk", chunk_id, reason, _detail("expires_at", at))
        return marked


def close_overdue(store: SqliteStore, client: str) -> int:
    """Close every entry whose time is over; how many. Each may be undone, and then lasts."""
    closed = 0
    with store.view() as view:
        overdue = _all(view._db, OVERDUE, (timestamps.now(),))
    for seq, chunk_id in overdue:
        with store._writing(client, undoable=True) as writer:
            writer._db.execute(LAST, {"seq": seq, "now": writer.now})
            if writer._db.changes():  # else somebody else did something with it meanwhile
                closed += writer.forget_chunk(chunk_id, EXPIRED, cascade=True)[0]
    return closed


def put_groups(store: SqliteStore, groups: Mapping[str, Iterable[int]], told: str) -> None:
    """Replace all groups by these, of seqs of entries; `told` is how they were found, as JSON."""
    rows = [(group, seq) for group, seqs in groups.items() for seq in seqs]
    sql = "INSERT INTO timeline_groups SELECT ?1, chunk_seq FROM timeline WHERE chunk_seq = ?2"
    with store._transaction() as db:
        db.execute("DELETE FROM timeline_groups")
        db.executemany(sql, rows)
        db.execute(PUT_META, (GROUPED, told, timestamps.now()))


def entry(view: View, entry_id: str) -> EntryRow:
    """The entry that an id, of any version, belongs to; NotFound where none is live."""
    latest = view.latest_version(entry_id)
    for row in _all(view._db, ENTRY_OF, (latest,)):
        return _entry(row)
    live = "SELECT 1 FROM chunks WHERE id = ? AND valid_until IS NULL"
    raise NotFound(
        "missing.entry" if _one(view._db, live, (latest,)) else "missing.forgotten", id=entry_id
    )


def entries_at(view: View, seqs: Iterable[int]) -> list[EntryRow]:
    """Those of some chunks that are live entries, in the order given."""
    return [_entry(row) for row in _all(view._db, ENTRIES_AT, (_json(list(seqs)),))]


def entries_of_group(view: View, group_id: str) -> list[EntryRow]:
    """The live entries of a group, oldest first."""
    return [_entry(row) for row in _all(view._db, ENTRIES_OF_GROUP, (group_id,))]


def _entry(row: Sequence[Any]) -> EntryRow:
    seq, chunk_id, summary, tags, category, created, expires, segments, groups = row
    read, ids = json.loads(tags), json.loads(groups)
    return EntryRow(seq, chunk_id, summary, read, category, created, expires, segments, ids)


def segments(view: View, seq: int, limit: int, offset: int) -> list[str]:
    """Some segments of an entry's context, in order."""
    return [row[0] for row in _all(view._db, SEGMENTS, (seq, limit, offset))]


def groups(view: View) -> dict[str, set[int]]:
    """The live entries of every group, by their seqs."""
    return {group: set(json.loads(seqs)) for group, seqs in _all(view._db, GROUPS)}


def told_of_groups(view: View) -> dict[str, Any]:
    """How groups were last looked for; nothing where they never were."""
    told: dict[str, Any] = json.loads(
        _one(view._db, "SELECT value FROM meta WHERE key = ?", (GROUPED,)) or "{}"
    )
    return told


def entries_latest(view: View) -> tuple[int | None, int]:
    """What changes whenever some entry or its merged vector does."""
    ((rev, entries),) = _all(view._db, ENTRIES_LATEST)
    return rev, entries


def entries_now(view: View) -> tuple[int, int | None, int | None]:
    """What differs whenever other entries are live."""
    ((count, total, last),) = _all(view._db, ENTRIES_NOW)
    return count, total, last


def entry_matrix(view: View, made_by: str) -> EntryMatrix:
    """What memory_query compares with; of the model with that mark."""
    rows = _all(view._db, MATRIX, (made_by,))
    seqs, expires, kinds, blobs = zip(*rows, strict=True) if rows else ((), (), (), ())
    vectors = np.frombuffer(b"".join(blobs), "<f4").reshape(len(rows), -1 if rows else 0)
    return EntryMatrix(
        np.array(seqs, np.int64),
        milliseconds(expires),
        np.array(kinds, np.intp),
        vectors,
        waiting=entries_now(view)[0] - len(rows),
    )


def unmerged(view: View, made_by: str, limit: int) -> list[tuple[int, str, list[str]]]:
    """Some live entries without a merged vector of that model: seq, summary, tags."""
    found = _all(view._db, UNMERGED, (made_by, limit))
    return [(seq, summary, json.loads(tags)) for seq, summary, tags in found]


def unmerged_count(view: View, made_by: str) -> int:
    return int(_one(view._db, UNMERGED_COUNT, (made_by,)))


def lasting(view: View) -> tuple[list[tuple[int, str, str]], Vectors]:
    """Entries that do not expire and have a vector, oldest first: seq, id and summary; vectors."""
    with view.reading():
        rows = _all(view._db, LASTING)
        order = {row[0]: at for at, row in enumerate(rows)}
        found = np.zeros((len(rows), _dimension(view._db)), np.float32)

        def located(seqs: NDArray[np.int64]) -> Rows:
            return np.array([order.get(seq, -1) for seq in seqs.tolist()], np.int32)

        for vectors, owners in _all_vectors(view._db, located)[1]:
            found[owners] = vectors
    there = np.flatnonzero(found.any(axis=1))
    return [rows[at][:3] for at in there.tolist()], found[there]


def entry_counts(view: View) -> dict[str, Any]:
    """How many live entries there are, of each kind, and segments of contexts."""
    ((entries, sensitive, overdue, parts),) = _all(
        view._db, ENTRY_COUNTS, {"now": timestamps.now()}
    )
    return {
        "entries": entries,
        "time_sensitive": sensitive,
        "overdue": overdue,
        "segments": parts,
        "categories": dict(_all(view._db, CATEGORIES)),
    }


def config_table(view: View) -> dict[str, str]:
    """What stands in the table of settings, where anybody may have put anything."""
    rows = _all(view._db, "SELECT CAST(key AS BLOB), CAST(value AS BLOB) FROM config")
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in rows}


# --- Checking --------------------------------------------------------------------------

TEXT_INDEXES = ("trigrams", "closed_trigrams")

_UNINDEXED = """
    SELECT seq FROM chunks WHERE {0} EXCEPT SELECT {2} FROM {1}
"""
_MISPLACED = """
    SELECT {2} FROM {1} EXCEPT SELECT seq FROM chunks WHERE {0}
"""
_EACH_INDEX = (
    ("1", "postings", "chunk_seq"),
    ("valid_until IS NULL", "trigrams", "rowid"),
    ("valid_until IS NOT NULL", "closed_trigrams", "rowid"),
)

CHECKS = {
    **{f"not in {index[1]}": _UNINDEXED.format(*index) for index in _EACH_INDEX},
    **{f"wrongly in {index[1]}": _MISPLACED.format(*index) for index in _EACH_INDEX},
    "halved postings": """
        SELECT chunk_seq FROM postings WHERE length(terms) <> 4 * length(weights)
    """,
    "two next versions": """
        SELECT superseded_by FROM chunks WHERE superseded_by IS NOT NULL
        GROUP BY superseded_by HAVING count(*) > 1
    """,
    "lost next version": """
        SELECT c.id FROM chunks c LEFT JOIN chunks n ON n.id = c.superseded_by
        WHERE c.superseded_by IS NOT NULL AND (n.id IS NULL OR c.valid_until IS NULL)
    """,
    "backward validity": """
        SELECT id FROM chunks WHERE valid_until < valid_from
        UNION ALL SELECT id FROM entities WHERE valid_until < valid_from
        UNION ALL SELECT id FROM relations WHERE valid_until < valid_from
    """,
    "mentions of nobody": """
        SELECT entity_id FROM mentions EXCEPT SELECT id FROM entities
    """,
    "names of nobody": "SELECT entity_id FROM aliases EXCEPT SELECT id FROM entities",
    "windows without vectors table": """
        SELECT seq FROM windows
        WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'vectors')
    """,
}


# Of what is only there for who recalls by cues.
CUE_CHECKS = {
    "not in cue_postings": """
        SELECT seq FROM chunks WHERE seq < (SELECT max(chunk_seq) FROM cue_postings)
        EXCEPT SELECT chunk_seq FROM cue_postings
    """,
    "halved cues": "SELECT chunk_seq FROM cue_postings WHERE length(cues) % 4 <> 0",
}
ROUNDS_BEYOND = """
    SELECT t.chunk_seq, c.content FROM turns t JOIN chunks c ON c.seq = t.chunk_seq
    WHERE t.asked NOT BETWEEN 0 AND octet_length(c.content)
"""


def _cue_faults(db: apsw.Connection) -> Iterator[tuple[str, int]]:
    """Faults of the cues that were read, if any were."""
    if not _count(db, "SELECT 1 FROM cue_postings LIMIT 1"):
        return
    for name, sql in CUE_CHECKS.items():
        yield name, _count(db, sql)
    try:
        known = [row[0] for row in db.execute("SELECT id FROM cues")]
        yield "cues of no word", len(np.setdiff1d(_all_cues(db), known))
    except apsw.CorruptError:
        yield "cues of no word", 1


def _broken_index(db: apsw.Connection, table: str) -> int:
    """FTS5's own check of one of its tables, which only reads: 1 where it fails."""
    return int(_problems(db, f"integrity_check({table})") != [])


def _problems(db: apsw.Connection, pragma: str) -> list[str]:
    """What one of SQLite's own checks finds, as of one moment."""
    try:
        with _reading(db):
            for table in TEXT_INDEXES:
                # Its check alone would go by what this connection knew of it before others wrote.
                _one(db, f"SELECT rowid FROM {table}")
            return [row[0] for row in _all(db, f"PRAGMA {pragma}") if row[0] != "ok"]
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]


def _faults(db: apsw.Connection, pages: str) -> Iterator[tuple[str, int]]:
    """Each fault with its number of rows, the quickest to find first."""
    checks = CHECKS | VECTOR_CHECKS if _has_vectors(db) else CHECKS
    for name, sql in checks.items():
        yield name, _count(db, sql)
    if _count(db, "SELECT 1 FROM turns LIMIT 1"):
        yield "rounds beyond their text", _count(db, ROUNDS_BEYOND)
    yield from _cue_faults(db)
    indexes = {table: _problems(db, f"{pages}({table})") for table in TEXT_INDEXES}
    for table, problems in indexes.items():
        yield f"index of {table}", int(problems != [])
    # SQLite reports a broken text index here as well.
    yield "pages", len(set(_problems(db, pages)).difference(*indexes.values()))
    yield "references", _count(db, "PRAGMA foreign_key_check")


def _count(db: apsw.Connection, sql: str) -> int:
    try:
        return len(_all(db, sql))
    except apsw.CorruptError:
        return 1


# --- Mending ---------------------------------------------------------------------------

CHECK_STEPS = 10_000  # of SQLite's machine, after which a check looks at the clock: some 0.1 ms
REINDEXED_AT_ONCE = 100  # chunks of one transaction, while which other writers wait

LACKING = (*(CHECKS[f"not in {index[1]}"] for index in _EACH_INDEX), CHECKS["halved postings"])

AGAIN = """
    SELECT valid_until IS NULL, source, session_id, coalesce(
        (SELECT chunk_seq FROM postings WHERE chunk_seq = c.seq),
        (SELECT max(seq) FROM chunks o WHERE o.superseded_by = c.id)
    )
    FROM chunks c WHERE seq = ?
"""

_OF_NO = "DELETE FROM {0} WHERE {1} NOT IN (SELECT {3} FROM {2}) RETURNING 1"
REMOVE_ORPHANS = [
    _OF_NO.format(*each)
    for each in (
        ("tags", "chunk_seq", "chunks", "seq"),
        ("mentions", "chunk_seq", "chunks", "seq"),
        ("mentions", "entity_id", "entities", "id"),
        ("aliases", "entity_id", "entities", "id"),
        ("evidence", "chunk_seq", "chunks", "seq"),
        ("evidence", "relation_id", "relations", "id"),
        ("windows", "chunk_seq", "chunks", "seq"),
        ("cue_postings", "chunk_seq", "chunks", "seq"),
        ("turns", "chunk_seq", "chunks", "seq"),
        ("timeline", "chunk_seq", "chunks", "seq"),
        ("contexts", "chunk_seq", "timeline", "chunk_seq"),
        ("merged_vectors", "chunk_seq", "timeline", "chunk_seq"),
        ("timeline_groups", "chunk_seq", "timeline", "chunk_seq"),
    )
]


def _index_again(writer: _Writer, seq: int) -> None:
    """Write what a chunk is found by; it keeps its place, or takes that of the version before."""
    db = writer._db
    for live, source, session_id, before in _all(db, AGAIN, (seq,)):
        text, metadata = writer._searchable(seq)
        indexed = Indexed(text)
        writer._put_postings(seq, indexed, indexed.weights(metadata, source, session_id), before)
        if live:
            writer._pieces[seq] = indexed.pieces(metadata)
        else:
            db.execute("DELETE FROM closed_trigrams WHERE rowid = ?", (seq,))
            pieces = indexed.pieces(metadata)
            db.execute(PUT_PIECES.format("closed_trigrams"), (seq, pieces))


# --- Undo ------------------------------------------------------------------------------

# What an action writes that can be undone, what hangs on others first: the key of each table, and
# the columns of its rows that ever change.
WATCHED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tags": (("chunk_seq", "tag"), ()),
    "evidence": (("relation_id", "chunk_seq"), ()),
    "mentions": (("entity_id", "chunk_seq"), ("origin",)),
    "aliases": (("key", "entity_id"), ("valid_from",)),
    "relations": (("id",), ("valid_from", "valid_until")),
    "entities": (("seq",), ("valid_from", "valid_until", "superseded_by")),
    "chunks": (("seq",), ("valid_until", "superseded_by")),
}

LATEST_NUMBERS = """
    SELECT (SELECT coalesce(max(seq), 0) FROM chunks),
        (SELECT coalesce(max(id), 0) FROM relations), (SELECT coalesce(max(id), 0) FROM changes)
"""
NOTE = """
    UPDATE audit SET detail_json = json_patch(detail_json, ?) WHERE id = ? AND action <> 'remember'
"""

_UNDONE_BY = """
    (SELECT u.id FROM audit u WHERE u.action = 'undo' AND u.target_id = CAST(a.id AS TEXT))
"""
RECORD = f"SELECT a.*, {_UNDONE_BY} AS undone_by FROM audit a WHERE a.id = ?"
RECORD_COLUMNS = (
    *("audit_id", "at", "client", "action", "kind", "target", "reason", "detail", "undone_by"),
)
RECORDS = f"""
    SELECT a.id, a.at, a.client, a.action, a.target_kind, a.target_id, a.reason, a.detail_json,
        {_UNDONE_BY}
    FROM audit a
    WHERE (:ids IS NULL OR a.target_id IN (SELECT value FROM json_each(:ids)))
    AND (:action IS NULL OR a.action = :action)
    ORDER BY a.id DESC LIMIT :limit
"""

# The first later record of what is named, by kind and id or by the beginning of a noted row.
LATER = f"""
    SELECT a.id, a.action, a.target_id, a.at FROM audit a
    WHERE a.id > :id AND a.action <> 'undo' AND {_UNDONE_BY} IS NULL
    AND (
        EXISTS (
            SELECT 1 FROM json_each(:targets) t
            WHERE t.value ->> 0 = a.target_kind AND t.value ->> 1 = a.target_id
            OR t.value ->> 1 IN (a.detail_json ->> 'duplicate', a.detail_json ->> 'supersedes')
            OR (a.action = 'merge' AND t.value ->> 0 = 'relation' AND EXISTS (
                SELECT 1 FROM json_each(a.detail_json, '$.relations') m
                WHERE CAST(m.value ->> 'old' AS TEXT) = t.value ->> 1
            ))
            OR (a.action = 'remember' AND t.value ->> 0 = 'entity' AND EXISTS (
                SELECT 1 FROM chunks c JOIN mentions m ON m.chunk_seq = c.seq
                WHERE c.id = a.target_id AND m.entity_id = t.value ->> 1 AND m.origin <> 'found'
            ))
            OR (a.action = 'relate' AND t.value ->> 0 = 'entity' AND EXISTS (
                SELECT 1 FROM relations r WHERE r.id = CAST(a.target_id AS INTEGER)
                AND t.value ->> 1 IN (r.source_id, r.target_id)
            ))
        )
        OR EXISTS (SELECT 1 FROM json_each(:rows) r WHERE instr(a.detail_json, r.value))
    )
    ORDER BY a.id LIMIT 1
"""

_IS_NEW = """
    NOT EXISTS (SELECT 1 FROM entities o WHERE o.id = e.id AND o.seq <> e.seq)
"""
_AT_CHUNK = """
    SELECT r.id FROM chunks c JOIN relations r ON r.{0} = c.id WHERE c.seq = :key
"""
_AT_ENTITY = f"""
    SELECT r.id FROM entities e JOIN relations r ON r.{{0}} = e.id
    WHERE e.seq = :key AND (r.id > :relation OR {_IS_NEW})
"""
# What hangs on a row that an action made: with what it did not make itself, it cannot go.
HANGING = {
    "chunks": (
        ("tags", "SELECT chunk_seq, tag FROM tags WHERE chunk_seq = :key"),
        (
            "mentions",
            """
            SELECT entity_id, chunk_seq FROM mentions
            WHERE chunk_seq = :key AND origin <> 'found'
            """,
        ),
        ("evidence", "SELECT relation_id, chunk_seq FROM evidence WHERE chunk_seq = :key"),
        *(("relations", _AT_CHUNK.format(end)) for end in _ENDS),
    ),
    "relations": (
        ("evidence", "SELECT relation_id, chunk_seq FROM evidence WHERE relation_id = :key"),
    ),
    "entities": (
        (
            "mentions",
            f"""
            SELECT m.entity_id, m.chunk_seq FROM entities e JOIN mentions m ON m.entity_id = e.id
            WHERE e.seq = :key AND m.origin <> 'found' AND (m.chunk_seq > :chunk OR {_IS_NEW})
            """,
        ),
        (
            "aliases",
            f"""
            SELECT a.key, a.entity_id FROM entities e JOIN aliases a ON a.entity_id = e.id
            WHERE e.seq = :key AND {_IS_NEW}
            """,
        ),
        *(("relations", _AT_ENTITY.format(end)) for end in _ENDS),
    ),
}

# What was made since and says what would be said again: the same text, entity or relation.
# Entries of the timeline with the same summary may be two: see SAME_ENTRIES.
_AS_ENTRY = """
    (
        SELECT json_array(t.category, t.expires_at IS NULL, (
            SELECT json_group_array(tag) FROM tags WHERE chunk_seq = t.chunk_seq
        )) FROM timeline t WHERE t.chunk_seq = {0}.seq
    )
"""
SAID_AGAIN = {
    "chunks": f"""
        SELECT 'chunk', n.id FROM chunks c JOIN chunks n ON n.content_hash = c.content_hash
        AND n.valid_until IS NULL AND n.content = c.content AND n.source = c.source
        AND n.session_id = c.session_id WHERE c.seq = :key AND n.seq > :chunk
        AND {_AS_ENTRY.format("n")} IS {_AS_ENTRY.format("c")}
        UNION
        SELECT 'chunk', n.id FROM turns t JOIN chunks c ON c.seq = t.chunk_seq
        JOIN chunks n ON n.session_id = c.session_id AND n.valid_until IS NULL AND n.seq <> c.seq
        JOIN turns o ON o.chunk_seq = n.seq AND o.round_id = t.round_id WHERE c.seq = :key
    """,
    "entities": """
        SELECT 'entity', n.id FROM entities c JOIN entities n
        ON n.key = c.key AND n.valid_until IS NULL AND n.seq <> c.seq WHERE c.seq = :key
    """,
    "relations": """
        SELECT 'relation', CAST(n.id AS TEXT) FROM relations c JOIN relations n
        ON n.source_id = c.source_id AND n.target_id = c.target_id AND n.relation = c.relation
        AND (n.valid_until IS NULL OR n.valid_until > :now)
        WHERE c.id = :key AND n.id > :relation
    """,
}
# The ends of a relation of which nothing is live.
DEAD_ENDS = """
    SELECT iif(o.id IN (SELECT id FROM chunks), 'chunk', 'entity'), o.id FROM (
        SELECT source_id AS id FROM relations WHERE id = :key
        UNION SELECT target_id FROM relations WHERE id = :key
    ) o
    WHERE NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = o.id AND c.valid_until IS NULL)
    AND NOT EXISTS (SELECT 1 FROM entities e WHERE e.id = o.id AND e.valid_until IS NULL)
"""

_OF_CHUNK = "SELECT 'chunk', id FROM chunks WHERE seq = "
TARGETS = {
    "chunks": _OF_CHUNK + "?1",
    "tags": _OF_CHUNK + "?1 AND ?2 IS NOT NULL",
    "entities": "SELECT 'entity', id FROM entities WHERE seq = ?1",
    "aliases": "SELECT 'entity', ?2",
    "mentions": f"SELECT 'entity', ?1 UNION ALL {_OF_CHUNK} ?2",
    "relations": "SELECT 'relation', CAST(?1 AS TEXT)",
    "evidence": f"SELECT 'relation', CAST(?1 AS TEXT) UNION ALL {_OF_CHUNK} ?2",
}
"""For each table what the audit calls that which a row is of, by the row's key."""

SAID = ("chunks", "relations")
"""What is said again without any row being changed."""

# Whether another relation shows that a chunk is about an entity, or the memory was told again.
MENTIONED_SINCE = """
    SELECT 1 FROM chunks c WHERE c.seq = :seq AND (
        EXISTS (
            SELECT 1 FROM audit a
            WHERE a.target_id = c.id AND a.action = 'remember' AND a.id > :id
        )
        OR EXISTS (
            SELECT 1 FROM evidence v JOIN relations r ON r.id = v.relation_id
            WHERE v.chunk_seq = c.seq AND :entity IN (r.source_id, r.target_id)
        )
    )
"""

NAMED_SINCE = """
    SELECT DISTINCT a.entity_id FROM json_each(:keys) k JOIN aliases a ON a.key = k.value
    JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL
    WHERE :since IS NULL
    OR a.entity_id IN (SELECT what FROM changes WHERE kind = 'entity' AND id > :since)
"""


class RowChange(NamedTuple):
    """One row that an action made or changed; before is None where it made it."""

    table: str
    key: list[Any]
    before: dict[str, Any] | None
    after: dict[str, Any]


@contextmanager
def _noting(db: apsw.Connection) -> Iterator[Callable[[], list[RowChange]]]:
    """Watch what is changed of memories and links; gives a way to ask what it is so far."""
    with closing(apsw.Session(db, "main")) as session:
        for table in WATCHED:
            session.attach(table)
        yield lambda: list(_row_changes(db, session.changeset()))


def _row_changes(db: apsw.Connection, changeset: bytes) -> Iterator[RowChange]:
    for each in apsw.Changeset.iter(changeset):
        keys, watched = WATCHED[each.name]
        columns = [row[1] for row in _all(db, f"PRAGMA table_info({each.name})")]
        old, new = (dict(zip(columns, row or (), strict=False)) for row in (each.old, each.new))
        before, after = (
            {name: row[name] for name in watched if row and row[name] is not apsw.no_change}
            for row in (old, new)
        )
        if before or not old:
            key = [(old or new)[name] for name in keys]
            yield RowChange(each.name, key, before if old else None, after)


def _history(
    db: apsw.Connection, limit: int, target: str | None, action: str | None
) -> list[dict[str, Any]]:
    ids = None if target is None else _json([target, *_versions_of(db, target)])
    bound = {"ids": ids, "action": action, "limit": limit}
    rows = _all(db, RECORDS, bound)
    return [_shown_record(dict(zip(RECORD_COLUMNS, row, strict=True))) for row in rows]


def _shown_record(row: dict[str, Any]) -> dict[str, Any]:
    detail = json.loads(row["detail"])
    can_undo = row["undone_by"] is None and _holds_undo(row["action"], detail)
    shown = {key: value for key, value in detail.items() if key not in ("rows", "after")}
    return row | {"detail": shown, "can_undo": can_undo}


def _holds_undo(action: str, detail: dict[str, Any]) -> bool:
    """Whether a record tells what an undo needs."""
    return "closed" in detail if action == "merge" else bool(detail.get("rows"))


def _undo(writer: _Writer, audit_id: int) -> dict[str, Any]:
    record = _table(writer._db, RECORD, audit_id)
    if record is None:
        raise NotFound("undo.unknown", id=audit_id)
    detail = json.loads(record["detail_json"])
    _refuse_undo(record, detail)
    undoing = _Undo(writer, record, detail)
    if record["action"] == "merge":
        undoing.refuse_merged_on()
        writer.undo_merge(audit_id)
    else:
        undoing.put_back()
        writer._audit("undo", record["action"], str(audit_id), "", "{}")
    writer._write_audits()
    return {
        "undone": audit_id,
        "action": record["action"],
        "kind": record["target_kind"],
        "target": record["target_id"],
        "audit_id": writer._last_audit,
    }


def _refuse_undo(record: dict[str, Any], detail: dict[str, Any]) -> None:
    """Raise InvalidInput for a record that cannot be undone, whatever the file holds."""
    told = {"id": record["id"], "action": record["action"], "target": record["target_id"]}
    if record["action"] == "undo":
        raise InvalidInput("undo.undo", id=record["id"])
    if record["action"] not in ("forget", "update", "relate", "merge"):
        raise InvalidInput("undo.no_undo", **told)
    if record["undone_by"] is not None:
        raise InvalidInput("undo.done", id=record["id"], by=record["undone_by"])
    if not _holds_undo(record["action"], detail):
        raise InvalidInput("undo.nothing" if "rows" in detail else "undo.lacking", **told)


class _Undo:
    """Puts back what one record changed; nothing where a later action builds on it."""

    def __init__(self, writer: _Writer, record: dict[str, Any], detail: dict[str, Any]) -> None:
        self._writer, self._db, self._record = writer, writer._db, record
        self._rows = [RowChange(*row) for row in detail.get("rows", ())]
        self._after: dict[str, Any] = detail.get("after", {}) | {"now": writer.now}
        self._detail = detail
        self._own = {(row.table, *row.key) for row in self._rows}

    def refuse_merged_on(self) -> None:
        """Refuse where what two entities became was merged into another one."""
        kept = self._writer._known_entity(self._detail["keep"])
        if kept["superseded_by"]:
            self._refuse([("entity", kept["id"])])

    def put_back(self) -> None:
        made = [row for row in self._rows if row.before is None]
        changed = [row for row in self._rows if row.before is not None]
        self._refuse_built_on(made)
        for table in WATCHED:
            for row in made:
                if row.table == table and not self._stays(row):
                    self._remove(row)
        for row in changed:
            if not self._stays(row):
                self._restore(row)
        for row in changed:
            self._refuse_doubled(row)
        if made:
            _forget_changes(self._db)

    # -- refusing --

    def _refuse_built_on(self, made: Sequence[RowChange]) -> None:
        for row in self._rows:
            if self._current(row) != row.after:
                self._refuse(self._targets(row), [row])
            if row.table == "entities" and row.before is not None:
                self._refuse_if(SAID_AGAIN["entities"], row)
        said = [each for row in made if row.table in SAID for each in self._targets(row)]
        if self._record["action"] == "relate":
            said.append(("relation", self._record["target_id"]))
            said += self._told_of_new(made)
        if later := self._later(said):
            self._refuse_for(later)
        for row in made:
            for table, sql in HANGING.get(row.table, ()):
                self._refuse_hanging(row, table, sql)

    def _told_of_new(self, made: Sequence[RowChange]) -> list[tuple[str, str]]:
        """The memories that tell of an entity that goes: each may be told again since."""
        if not any(row.table == "entities" for row in made):
            return []
        told = [row for row in made if row.table == "mentions" and row.after["origin"] != "found"]
        return [each for row in told for each in self._targets(row) if each[0] == "chunk"]

    def _refuse_hanging(self, row: RowChange, table: str, sql: str) -> None:
        for key in _all(self._db, sql, self._bound(row)):
            if (table, *key) not in self._own:
                hangs = RowChange(table, list(key), None, {})
                self._refuse([*self._targets(hangs), *self._targets(row)], [row])

    def _refuse_doubled(self, row: RowChange) -> None:
        """Refuse where what is open again was said anew, or leads to what is no longer there."""
        if row.table == "chunks":
            self._refuse_if(SAID_AGAIN["chunks"], row)
        elif row.table == "relations" and self._holds(row):
            self._refuse_if(SAID_AGAIN["relations"], row)
            ends = _all(self._db, DEAD_ENDS, {"key": row.key[0]})
            if later := self._later(ends):
                self._refuse_for(later)

    def _holds(self, row: RowChange) -> bool:
        until = (row.before or {}).get("valid_until")
        return "valid_until" in (row.before or {}) and (until is None or until > self._writer.now)

    def _refuse_if(self, sql: str, row: RowChange) -> None:
        if found := _all(self._db, sql, self._bound(row)):
            self._refuse(found)

    def _refuse(self, targets: Sequence[tuple[str, str]], rows: Sequence[RowChange] = ()) -> None:
        if later := self._later(targets, rows):
            self._refuse_for(later)
        told = {"action": self._record["action"], "target": self._record["target_id"]}
        raise InvalidInput("undo.changed", id=self._record["id"], **told)

    def _refuse_for(self, later: tuple[int, str, str, str]) -> None:
        record, action, target, at = later
        own = {"id": self._record["id"], "action": self._record["action"]}
        raise InvalidInput("undo.later", **own, later=record, what=action, target=target, at=at)

    def _later(
        self, targets: Sequence[tuple[str, str]], rows: Sequence[RowChange] = ()
    ) -> tuple[int, str, str, str] | None:
        """The first record since that is of one of the targets, or that changed one of the rows."""
        noted = [json.dumps(row[:2], ensure_ascii=False, separators=(",", ":")) for row in rows]
        bound = {
            "id": self._record["id"],
            "targets": _json(targets),
            "rows": _json([each.removesuffix("]") + "," for each in noted]),
        }
        found: list[tuple[int, str, str, str]] = _all(self._db, LATER, bound)
        return found[0] if found else None

    def _targets(self, row: RowChange) -> list[tuple[str, str]]:
        """What the audit calls that which a row is of."""
        return _all(self._db, TARGETS[row.table], row.key)

    # -- putting back --

    def _bound(self, row: RowChange) -> dict[str, Any]:
        return self._after | {"key": row.key[0]}

    def _current(self, row: RowChange) -> dict[str, Any] | None:
        """What a row says now where the action wrote; None where it is gone."""
        columns = list(row.after)
        sql = f"SELECT {', '.join(['1', *columns])} FROM {row.table} WHERE {_of_key(row.table)}"
        found = _all(self._db, sql, row.key)
        return dict(zip(columns, found[0][1:], strict=True)) if found else None

    def _stays(self, row: RowChange) -> bool:
        """Whether a mention is there for another reason by now."""
        if row.table != "mentions":
            return False
        entity, seq = row.key
        bound = {"id": self._record["id"], "entity": entity, "seq": seq}
        return _one(self._db, MENTIONED_SINCE, bound) is not None

    def _remove(self, row: RowChange) -> None:
        if row.table == "chunks":
            _remove_chunk(self._db, row.key[0])
        else:
            self._db.execute(f"DELETE FROM {row.table} WHERE {_of_key(row.table)}", row.key)
        if row.table == "aliases":
            self._db.execute(UNUSED_NAME_WORDS, (row.key[0],))
        if row.table == "entities":
            self._db.execute(MENTIONS_OF_NOBODY)

    def _restore(self, row: RowChange) -> None:
        before = row.before or {}
        columns = ", ".join(f"{name} = ?" for name in before)
        sql = f"UPDATE {row.table} SET {columns} WHERE {_of_key(row.table)}"
        self._db.execute(sql, (*before.values(), *row.key))
        if row.table == "chunks":
            self._reopen(row.key[0])

    def _reopen(self, seq: int) -> None:
        """Let current searches find a memory again, and whoever was named since in its text."""
        text, metadata = self._writer._searchable(seq)
        indexed = Indexed(text)
        self._db.execute("DELETE FROM closed_trigrams WHERE rowid = ?", (seq,))
        self._writer._pieces[seq] = indexed.pieces(metadata)
        self._writer._changed(seq)
        windows = _all(self._db, WINDOWS_OF_CHUNK, (seq,))
        self._db.executemany("UPDATE vectors SET live = 1 WHERE rowid = ?", windows)
        if not windows:  # whatever became of them while it was closed
            self._db.execute("UPDATE chunks SET pending = 1 WHERE seq = ?", (seq,))
        spelled = self._writer._spellings.among(indexed.names(self._writer._spellings.starts))
        since = None if _is_behind(self._db, self._after["change"]) else self._after["change"]
        named = _all(self._db, NAMED_SINCE, {"keys": _json(spelled), "since": since})
        known = {row[0] for row in _all(self._db, MENTIONED, (seq,))}
        self._writer._mention(seq, [row[0] for row in named if row[0] not in known], "found")


def _of_key(table: str) -> str:
    return " AND ".join(f"{name} = ?" for name in WATCHED[table][0])


# --- Purge and erase -------------------------------------------------------------------

PURGED_AT_ONCE = 100  # rows of one transaction, while which other writers wait
ERASED_AT_ONCE = 50  # memories, in the same sense
ERASED = "erased"
"""The key of meta that is there while bytes of something erased may be in the file."""

UNUSED_NAME_WORDS = """
    DELETE FROM name_words WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM aliases WHERE key = ?1)
"""
MENTIONS_OF_NOBODY = "DELETE FROM mentions WHERE entity_id NOT IN (SELECT id FROM entities)"

VERSIONS = """
    WITH RECURSIVE
        older (id) AS (
            VALUES (?1)
            UNION SELECT c.id FROM older JOIN chunks c ON c.superseded_by = older.id
        ),
        newer (id) AS (
            VALUES (?1)
            UNION SELECT c.superseded_by FROM newer JOIN chunks c ON c.id = newer.id
            WHERE c.superseded_by IS NOT NULL
        )
    SELECT c.id, c.seq FROM chunks c WHERE c.id IN (SELECT id FROM older UNION SELECT id FROM newer)
    ORDER BY c.seq
"""
"""All versions of the memory that one id belongs to, oldest first."""

# A relation goes on to name a chunk that is there, where another one shows it.
SHOWN_BY_ANOTHER = """
    UPDATE relations SET evidence_chunk_id = (
        SELECT c.id FROM evidence v JOIN chunks c ON c.seq = v.chunk_seq
        WHERE v.relation_id = relations.id AND c.seq <> :seq ORDER BY c.seq LIMIT 1
    )
    WHERE id IN (SELECT relation_id FROM evidence WHERE chunk_seq = :seq)
    AND evidence_chunk_id = (SELECT id FROM chunks WHERE seq = :seq)
"""


def _versions_of(db: apsw.Connection, chunk_id: str) -> dict[str, int]:
    """The ids and seqs of all versions of a memory, oldest first; none where it is not there."""
    return dict(_all(db, VERSIONS, (chunk_id,)))


def _forget_changes(db: apsw.Connection) -> None:
    """Let every process read everything anew: it cannot see which rows are no longer there."""
    sql = "INSERT INTO changes (kind, what) VALUES ('chunk', 0)"
    db.execute(sql)  # what comes after it is more than one beyond all that anybody has seen
    db.execute(sql)
    db.execute("DELETE FROM changes WHERE id < ?", (db.last_insert_rowid(),))


OF_CHUNK = (
    *("windows", "postings", "cue_postings", "turns", "tags", "mentions", "evidence"),
    *("timeline_groups", "merged_vectors", "contexts", "timeline"),
)
"""The tables whose rows are of a chunk and go with it."""


def _remove_chunk(db: apsw.Connection, seq: int) -> None:
    """Remove one version and all that is of it."""
    if _has_vectors(db):
        # Since 0.1.9 vec0 leaves zeros in its block where a vector was.
        windows = _all(db, WINDOWS_OF_CHUNK, (seq,))
        db.executemany("DELETE FROM vectors WHERE rowid = ?", windows)
    db.execute(SHOWN_BY_ANOTHER, {"seq": seq})
    for table in OF_CHUNK:
        db.execute(f"DELETE FROM {table} WHERE chunk_seq = ?", (seq,))
    for table in TEXT_INDEXES:
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (seq,))
    db.execute("DELETE FROM chunks WHERE seq = ?", (seq,))


def _keep_rev(db: apsw.Connection, rev: int) -> None:
    """Keep the number of the last change above all that anybody saw, though its row is gone."""
    sql = "UPDATE postings SET rev = ? WHERE chunk_seq = (SELECT max(chunk_seq) FROM postings)"
    db.execute(sql, (rev,))
    if not db.changes():  # no row is left to keep it
        _forget_changes(db)


def _remove_relation(db: apsw.Connection, relation_id: int) -> None:
    db.execute("DELETE FROM evidence WHERE relation_id = ?", (relation_id,))
    db.execute("DELETE FROM relations WHERE id = ?", (relation_id,))


# -- what is old --

# One that was over when it was written was told so: that is no closing.
_AGED_RELATIONS = """
    SELECT id FROM relations
    WHERE valid_until < :before AND created_at <= valid_until AND id > :after
    ORDER BY id LIMIT :most
"""
_AGED_CHUNKS = """
    SELECT seq FROM chunks WHERE valid_until < :before AND seq > :after ORDER BY seq LIMIT :most
"""
_AGED_ENTITIES = """
    SELECT seq FROM entities WHERE valid_until < :before AND seq > :after ORDER BY seq LIMIT :most
"""
_AGED_RECORDS = """
    SELECT id FROM audit WHERE at < :before AND id > :after
    AND (detail_json ->> 'rows' IS NOT NULL OR detail_json ->> 'closed' IS NOT NULL)
    ORDER BY id LIMIT :most
"""
_WITHOUT_UNDO = """
    UPDATE audit SET detail_json = json_remove(
        detail_json, '$.rows', '$.after',
        '$.closed', '$.aliases', '$.mentions', '$.relations', '$.version'
    )
    WHERE id = ?
"""
# A version that is still led to, by an older one or by a relation, stays.
_CHUNK_MAY_GO = """
    SELECT c.seq FROM chunks c WHERE c.seq = :key AND c.valid_until < :before
    AND NOT EXISTS (SELECT 1 FROM chunks o WHERE o.superseded_by = c.id)
    AND NOT EXISTS (SELECT 1 FROM relations r WHERE r.source_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM relations r WHERE r.target_id = c.id)
"""
# The last version stays while a relation hangs on it, or while it leads to what it was merged into.
_ENTITY_MAY_GO = """
    SELECT e.seq, e.id FROM entities e WHERE e.seq = :key AND e.valid_until < :before
    AND NOT EXISTS (SELECT 1 FROM entities k WHERE k.id = e.superseded_by)
    AND (
        EXISTS (SELECT 1 FROM entities o WHERE o.id = e.id AND o.seq > e.seq)
        OR NOT EXISTS (
            SELECT 1 FROM relations r WHERE r.source_id = e.id
            UNION ALL SELECT 1 FROM relations r WHERE r.target_id = e.id
            UNION ALL SELECT 1 FROM entities d WHERE d.superseded_by = e.id
        )
    )
"""
"""An older version of an entity that is there may go at once; a merged one leads on."""


@dataclass(frozen=True, slots=True)
class _Purging:
    """One kind of row that is purged: how old ones are found, and how they are removed."""

    found: str
    remove: Callable[[apsw.Connection, list[int], str], int]


def _purge_relations(db: apsw.Connection, ids: list[int], before: str) -> int:
    sql = "SELECT 1 FROM relations WHERE id = ? AND valid_until < ?"
    old = [each for each in ids if _one(db, sql, (each, before))]
    for relation_id in old:
        _remove_relation(db, relation_id)
        _forget_records(db, "relation", [str(relation_id)])
    return len(old)


def _purge_chunks(db: apsw.Connection, seqs: list[int], before: str) -> int:
    """Remove closed versions, oldest first, so that none leads to one that is gone."""
    rev, last = int(_one(db, f"SELECT {_NEXT_REV}")), int(_one(db, LAST_CHANGE))
    removed = 0
    for seq in seqs:
        if _one(db, _CHUNK_MAY_GO, {"key": seq, "before": before}):
            _forget_records(db, "chunk", [_one(db, "SELECT id FROM chunks WHERE seq = ?", (seq,))])
            _remove_chunk(db, seq)
            removed += 1
    if removed:
        _keep_rev(db, rev)
        # No current search shows closed chunks: their mentions need not be read anew each time.
        db.execute("DELETE FROM changes WHERE id > ? AND kind = 'chunk'", (last,))
    return removed


def _purge_entities(db: apsw.Connection, seqs: list[int], before: str) -> int:
    removed = 0
    for seq in seqs:
        for _, entity_id in _all(db, _ENTITY_MAY_GO, {"key": seq, "before": before}):
            db.execute("DELETE FROM entities WHERE seq = ?", (seq,))
            if not _one(db, "SELECT 1 FROM entities WHERE id = ?", (entity_id,)):
                _remove_names(db, entity_id)
                _forget_records(db, "entity", [entity_id])
            removed += 1
    return removed


def _purge_records(db: apsw.Connection, ids: list[int], before: str) -> int:
    """Take from records of that age what an undo would need, of which rows may be gone."""
    db.executemany(_WITHOUT_UNDO, [(each,) for each in ids])
    return 0


def _remove_names(db: apsw.Connection, entity_id: str) -> None:
    """Remove what leads to an entity of which no version is left."""
    db.execute("DELETE FROM mentions WHERE entity_id = ?", (entity_id,))
    sql = "DELETE FROM aliases WHERE entity_id = ? RETURNING key"
    db.executemany(UNUSED_NAME_WORDS, _all(db, sql, (entity_id,)))


def _forget_records(db: apsw.Connection, kind: str, targets: Iterable[str]) -> None:
    """Leave of records about something only that it was done, when and by whom."""
    sql = "UPDATE audit SET reason = '', detail_json = '{}' WHERE target_kind = ? AND target_id = ?"
    db.executemany(sql, [(kind, target) for target in targets])


_PURGES = (
    _Purging(_AGED_RECORDS, _purge_records),
    _Purging(_AGED_RELATIONS, _purge_relations),
    _Purging(_AGED_CHUNKS, _purge_chunks),
    _Purging(_AGED_ENTITIES, _purge_entities),
)

# -- what is to be forgotten for good --

FIRST_TEXTS = 3  # that are shown of what is to be erased
ALL_OF_THEM = -1  # no limit, for SQLite


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


_OF_ENTITIES = """
    SELECT c.id FROM json_each(:entities) e JOIN mentions m ON m.entity_id = e.value
    JOIN chunks c ON c.seq = m.chunk_seq
"""
_OF_SOURCE = """
    SELECT id FROM chunks WHERE source = :source COLLATE NOCASE
    AND (:session IS NULL OR session_id = :session)
"""
_MERGED_INTO = """
    WITH RECURSIVE same (id) AS (
        VALUES (?1)
        UNION SELECT e.id FROM same JOIN entities e ON e.superseded_by = same.id
    )
    SELECT id FROM same
"""
# Entities that a source told of first and that nobody else tells of.
_NOBODY_ELSES = """
    SELECT DISTINCT e.id FROM entities e WHERE e.source = :source COLLATE NOCASE
    AND NOT EXISTS (SELECT 1 FROM entities o WHERE o.superseded_by = e.id OR o.id = e.superseded_by)
    AND NOT EXISTS (
        SELECT 1 FROM relations r WHERE r.source_id = e.id AND r.source <> :source COLLATE NOCASE
        UNION ALL
        SELECT 1 FROM relations r WHERE r.target_id = e.id AND r.source <> :source COLLATE NOCASE
        UNION ALL
        SELECT 1 FROM mentions m JOIN chunks c ON c.seq = m.chunk_seq
        WHERE m.entity_id = e.id AND m.origin <> 'found' AND c.source <> :source COLLATE NOCASE
    )
"""
_SHOWN_BY_NOBODY = """
    SELECT id FROM relations r WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM evidence v WHERE v.relation_id = r.id)
"""
_FORGET_NAMED = """
    UPDATE audit SET reason = '', detail_json = '{}',
        target_id = iif(target_kind = 'entity' AND target_id IN (
            SELECT value FROM json_each(:ids)
        ), '-', target_id)
    WHERE id IN (SELECT value FROM json_each(:reasons))
    OR (target_kind = 'entity' AND target_id IN (SELECT value FROM json_each(:ids)))
    OR EXISTS (SELECT 1 FROM json_each(:quoted) q WHERE instr(detail_json, q.value))
"""
_FORGET_ANSWERS = """
    DELETE FROM recall_log WHERE EXISTS (
        SELECT 1 FROM json_each(results_json) r WHERE r.value IN (SELECT value FROM json_each(?))
    )
"""
REASONS = "SELECT id, reason FROM audit WHERE reason <> ''"
QUERIES = "SELECT id, query FROM recall_log"


def _entities_to_erase(db: apsw.Connection, what: Erasing) -> list[str]:
    """The ids of entities, with those that were merged into them."""
    if what.source and not what.session:  # of a session they may be known from another
        return [row[0] for row in _all(db, _NOBODY_ELSES, {"source": what.source})]
    if not what.entity:
        return []
    known = _table(db, LATEST_ENTITY, words.identity(what.entity.removeprefix("entity:")))
    if known is None:
        raise NotFound("erase.unknown", kind="entity", name=what.entity)
    if known["superseded_by"]:
        raise InvalidInput("erase.merged", name=what.entity, into=known["superseded_by"])
    return [row[0] for row in _all(db, _MERGED_INTO, (known["id"],))]


def _memories_to_erase(db: apsw.Connection, what: Erasing, most: int) -> list[str]:
    """Ids of some of the versions to be erased."""
    if what.chunk:
        return list(_versions_of(db, what.chunk))
    if what.source:
        bound: dict[str, Any] = {"source": what.source, "session": what.session, "most": most}
        found = _all(db, _OF_SOURCE + "ORDER BY seq LIMIT :most", bound)
    elif what.with_memories:
        entities = _json(_entities_to_erase(db, what))
        found = _all(db, _OF_ENTITIES + "LIMIT :most", {"entities": entities, "most": most})
    else:
        found = []
    return [row[0] for row in found]


def _to_erase(db: apsw.Connection, what: Erasing) -> Found:
    entities = _entities_to_erase(db, what)
    chains = dict[tuple[int, ...], None]()
    seen = set[str]()
    for chunk_id in _memories_to_erase(db, what, ALL_OF_THEM):
        if chunk_id not in seen:
            versions = _versions_of(db, chunk_id)
            seen.update(versions)
            chains[tuple(versions.values())] = None
    if not chains and not entities:
        name = what.chunk or what.entity or what.source
        raise NotFound("erase.unknown", kind=what.kind, name=name)
    sql = "SELECT content FROM chunks WHERE seq = ?"
    texts = [_one(db, sql, (chain[-1],)) for chain in islice(chains, FIRST_TEXTS)]
    return Found(len(chains), sum(map(len, chains)), len(entities), texts)


def _erase_some(writer: _Writer, what: Erasing) -> Counter[str]:
    """Erase some of the memories, each with all its versions; how many of what."""
    db, done, gone = writer._db, Counter[str](), set[str]()
    for chunk_id in _memories_to_erase(db, what, ERASED_AT_ONCE):
        if chunk_id not in gone:
            versions = _versions_of(db, chunk_id)
            done += _erase_memory(db, versions)
            gone.update(versions)
    if gone:
        _forget_records(db, "chunk", gone)
        db.execute(_FORGET_ANSWERS, (_json(sorted(gone)),))
        _keep_rev(db, writer._rev)
        _forget_changes(db)
    return done


def _erase_memory(db: apsw.Connection, versions: Mapping[str, int]) -> Counter[str]:
    relations = {row[0] for each in versions for row in _all(db, _ENDS_AT, (each,))}
    shown = {row[0] for seq in versions.values() for row in _all(db, _FIRST_SHOWN_BY, (seq,))}
    for relation_id in relations:
        _erase_relation(db, relation_id)
    for seq in versions.values():
        _remove_chunk(db, seq)
    orphans = [row[0] for row in _all(db, _SHOWN_BY_NOBODY, (_json(sorted(shown)),))]
    for relation_id in orphans:
        _erase_relation(db, relation_id)
    counts = {"versions": len(versions), "relations": len(relations) + len(orphans)}
    return Counter(memories=1, **counts)


_ENDS_AT = """
    SELECT id FROM relations WHERE source_id = ?1
    UNION SELECT id FROM relations WHERE target_id = ?1
"""
# One that was first told without a memory does not end with the memories that tell of it.
_FIRST_SHOWN_BY = """
    SELECT r.id FROM evidence v JOIN relations r ON r.id = v.relation_id
    WHERE v.chunk_seq = ? AND r.evidence_chunk_id IS NOT NULL
"""


def _erase_relation(db: apsw.Connection, relation_id: int) -> None:
    _remove_relation(db, relation_id)
    _forget_records(db, "relation", [str(relation_id)])


_OF_SOURCE_ALONE = """
    SELECT id FROM relations r WHERE r.source = ? COLLATE NOCASE
    AND NOT EXISTS (SELECT 1 FROM evidence v WHERE v.relation_id = r.id)
"""
_NAMES_OF = "SELECT alias, key FROM aliases WHERE entity_id = ?"


def _erase_entities(writer: _Writer, what: Erasing) -> Counter[str]:
    """Erase entities with their names, relations and mentions; how many of what."""
    db, ids = writer._db, _entities_to_erase(writer._db, what)
    ends = {row[0] for each in ids for row in _all(db, _ENDS_AT, (each,))}
    if what.source and not what.session:
        ends |= {row[0] for row in _all(db, _OF_SOURCE_ALONE, (what.source,))}
    for relation_id in ends:
        _erase_relation(db, relation_id)
    names = {name for each in ids for row in _all(db, _NAMES_OF, (each,)) for name in row}
    for entity_id in ids:
        _remove_names(db, entity_id)
        db.execute("DELETE FROM entities WHERE id = ?", (entity_id,))
    if ids:
        _forget_named(db, ids, names.union(ids))
    _forget_changes(db)
    return Counter(relations=len(ends), entities=len(ids))


def _forget_named(db: apsw.Connection, ids: Sequence[str], names: set[str]) -> None:
    """Forget what was done to entities, and what was asked and why where that names them."""
    bound = {
        "ids": _json(ids),
        "quoted": _json([_json(name) for name in names]),
        "reasons": _json(_naming(db, REASONS, names)),
    }
    db.execute(_FORGET_NAMED, bound)
    db.execute(_FORGET_ANSWERS, (_json([f"entity:{each}" for each in ids]),))
    asked = [(each,) for each in _naming(db, QUERIES, names)]
    db.executemany("DELETE FROM recall_log WHERE id = ?", asked)


def _naming(db: apsw.Connection, sql: str, names: set[str]) -> list[int]:
    """The ids of the rows whose text has one of the names."""
    keys = {words.name_key(name) for name in names}
    folded = ((number, words.fold(text)) for number, text in db.execute(sql))
    return [number for number, text in folded if any(words.has_folded_name(text, k) for k in keys)]


def _drop_unused(db: apsw.Connection) -> None:
    """Remove words that no text has any more, and what SQLite noted of the rows that there were."""
    used = np.zeros(1 + int(_one(db, "SELECT coalesce(max(id), 0) FROM terms")), np.bool_)
    for (terms,) in db.execute("SELECT terms FROM postings"):
        used[np.frombuffer(terms, "<u4")] = True
    unused = [(int(each),) for each in np.flatnonzero(~used)]
    db.executemany("DELETE FROM terms WHERE id = ?", unused)
    _drop_unused_cues(db)
    db.execute("DELETE FROM name_words WHERE key NOT IN (SELECT key FROM aliases)")
    if _one(db, "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4'"):
        db.execute("DELETE FROM sqlite_stat4")  # samples of what indexes hold
    _forget_changes(db)


# --- Looking without a trace -----------------------------------------------------------

KINDS = """
    SELECT kind, count(*) FROM entities WHERE valid_until IS NULL
    GROUP BY kind COLLATE NOCASE ORDER BY 2 DESC, kind
"""


class Inspector(SqliteStore):
    """A file as it is, be it of an older schema or damaged; for the health check and the doctor.

    Opening it makes and migrates nothing, and reading brings no log into the file. Only what is
    opened for `mending` may be written to.
    """

    def __init__(self, path: Path, *, mending: bool = False, busy_seconds: float = 5.0) -> None:
        self._mending = mending
        super().__init__(path, busy_seconds=busy_seconds)

    def _open(self) -> apsw.Connection:
        self._writable = examine(self.path)
        # Else the last one out would bring in a log that somebody has left.
        self.read_only = not self._writable or (not self._mending and self.sizes()["wal_bytes"] > 0)
        self._identity = identity(self.path)
        db = self._connect(reader=not self._mending)
        try:
            self._recognise(db)
        except BaseException:
            self.close()
            raise
        return db

    def _read_only_connection(self) -> apsw.Connection:
        if not self._writable:
            return super()._read_only_connection()
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(self.path.as_uri() + "?mode=ro", flags)

    def _recognise(self, db: apsw.Connection) -> None:
        self.version = int(db.pragma("user_version"))
        if db.pragma("application_id") != APPLICATION_ID:
            raise StoreError("store.foreign", path=self.path)
        if self.version > SCHEMA_VERSION:
            super()._recognise(db)

    def kinds(self) -> list[tuple[str, int]]:
        """The kinds of live entities, most frequent first, and how many there are of each."""
        with self.view() as view:
            return _all(view._db, KINDS)

    def waiting_since(self) -> str | None:
        """When the chunk was written that has waited longest for its vectors."""
        sql = PENDING.replace("count(*)", "min(id)")
        with self.view() as view:
            chunk_id = _one(view._db, sql) or ""
        return written_at(chunk_id) if is_chunk_id(chunk_id) else None

    def first_written(self) -> str | None:
        """When the first memory was written."""
        with self.view() as view:
            first: str | None = _one(view._db, "SELECT created_at FROM chunks ORDER BY seq LIMIT 1")
            return first


def written_at(chunk_id: str) -> str:
    """The time that a chunk's id begins with, as it is stored.

    >>> written_at("chunk_20260701T020304567Z_0123456789ab")
    '2026-07-01T02:03:04.567Z'
    """
    digits = chunk_id.split("_")[1]
    return (
        f"{digits[:4]}-{digits[4:6]}-{digits[6:11]}:{digits[11:13]}:{digits[13:15]}.{digits[15:]}"
    )


# --- Counting --------------------------------------------------------------------------

_TOTALS = "SELECT count(*), count(*) FILTER (WHERE {0}), count(*) FILTER (WHERE NOT ({0})) FROM {1}"
COUNTS = {
    "chunks": _TOTALS.format("valid_until IS NULL", "chunks"),
    "entities": """
        SELECT count(DISTINCT id), count(*) FILTER (WHERE valid_until IS NULL),
            count(DISTINCT id) - count(*) FILTER (WHERE valid_until IS NULL)
        FROM entities
    """,
    "relations": _TOTALS.format("valid_until IS NULL OR valid_until > :at", "relations"),
}

_COUNTED = """
    UPDATE {0} SET recall_count = recall_count + ?, last_recalled = ?
    WHERE id = ? AND valid_until IS NULL
"""
COUNT_CHUNKS, COUNT_ENTITIES = _COUNTED.format("chunks"), _COUNTED.format("entities")


def _log_row(entry: LogEntry) -> tuple[Any, ...]:
    """What INSERT_LOG takes."""
    return (
        entry.query,
        entry.strategy,
        json.dumps(entry.results),
        json.dumps(entry.details, ensure_ascii=False),
        entry.graph_hops,
        entry.latency_ms,
        entry.client,
        entry.created_at,
    )


def _recalled(entries: Sequence[LogEntry], prefix: str) -> list[tuple[int, str, str]]:
    """How often, and when last, each row was returned whose key in the results has the prefix."""
    times = [
        (key.removeprefix(prefix), entry.created_at)
        for entry in entries
        for key in entry.results
        if key.startswith("entity:") == bool(prefix)
    ]
    counts, last = Counter(key for key, _ in times), dict(times)
    return [(counts[key], last[key], key) for key in sorted(counts)]
