"""One read connection: what the lanes and the answers ask of the store."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import apsw

from core import timestamps
from core.errors import NotFound
from core.types import ChunkRow, EdgeRow, EntityNames, EntityRow, GraphBounds, Model, Naming, Scope
from store.sqlite.cues import CueReads
from store.sqlite.entries import EntryReads
from store.sqlite.export import RecordReads
from store.sqlite.hardening import bounded
from store.sqlite.history import read_history
from store.sqlite.nul import quoted
from store.sqlite.snapshots import Snapshots
from store.sqlite.statements import (
    EDGE_COLUMNS,
    IN_SCOPE,
    LIVE_CHUNK,
    LIVE_ENTITY,
    LIVE_RELATION,
    MODEL_VERSION,
    NAMED,
    PENDING,
    TERM_NUMBERS,
    bound_scope,
    bounds_of_prefix,
    edge_of,
    entity_id_of,
    fetch_all,
    fetch_named,
    fetch_one,
    last_version,
    near_names,
    read_json,
    reading,
)
from store.sqlite.turns import TurnReads
from store.sqlite.vectors import model_of
from store.types import Snapshot
from text import words

MAX_NAMES = 200  # names with a word that begins with a term, of which the closest are taken
CLOSEST_NAMES = 32  # of one term
EXACT_PIECE = 3  # characters of a piece up to which its trigrams say exactly where it stands
MAX_TRIGRAMS = 12  # about, by which the candidates for a longer piece are found
BATCH_TEXTS = 64  # read to look for a piece in


# --- SQL: searching --------------------------------------------------------------------


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


# --- Reading ---------------------------------------------------------------------------


class View:
    """One read connection: what the lanes and the answers ask of the store."""

    def __init__(self, db: apsw.Connection, snapshots: Snapshots) -> None:
        self.db, self.snapshots = db, snapshots
        self.cues = CueReads(db, snapshots.cues)
        self.turns = TurnReads(db)
        self.entries = EntryReads(db)
        self.records = RecordReads(db)

    def reading(self) -> AbstractContextManager[None]:
        return reading(self.db)

    # -- candidates --

    def snapshot(self, *, past: bool = False) -> Snapshot:
        return self.snapshots.current(self.db, past)

    def term_numbers(self, terms: Sequence[str]) -> list[int | None]:
        rows = fetch_all(self.db, TERM_NUMBERS, {"terms": json.dumps(list(terms))})
        numbers: dict[str, int] = dict(rows)
        return [numbers.get(term) for term in terms]

    def chunks_with_tag_and_kind(self, scope: Scope) -> set[int] | None:
        sets = [
            {row[0] for row in fetch_all(self.db, sql, bound_scope(scope))}
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
                found += some[:left] if exact else self.filter_containing(literal, some, left)
                if len(found) == limit:
                    return found
        return found

    def _candidates(self, literal: str, closed: str, most: int) -> Iterator[list[int]]:
        """Live or closed chunks that may have `literal` in their text, as they were stored."""
        low, high = bounds_of_prefix(literal)
        bound: dict[str, Any] = {"after": 0, "most": most, "low": low, "high": high}
        bound["trigrams"] = " AND ".join(map(quoted, _some_trigrams(literal)))
        sql = (_BY_TRIGRAMS if len(literal) > 2 else _BY_BEGINNING).format(closed)
        while seqs := [row[0] for row in fetch_all(self.db, sql, bound)]:
            yield seqs
            if len(seqs) < bound["most"]:
                return
            bound |= {"after": seqs[-1], "most": 4 * bound["most"]}

    def filter_containing(self, literal: str, seqs: Sequence[int], limit: int) -> list[int]:
        found: list[int] = []
        for start in range(0, len(seqs), BATCH_TEXTS):
            texts = self.texts(some := seqs[start : start + BATCH_TEXTS])
            found += [seq for seq in some if literal in words.fold(texts.get(seq, ""))]
            if len(found) >= limit:
                break
        return found[:limit]

    def entities_named(self, keys: Iterable[str], scope: Scope) -> list[Naming]:
        names = self.snapshots.spellings(self.db).among(keys)
        if not names:
            return []
        bound = {"asof": scope.asof, "kind": scope.kind, "keys": json.dumps(names)}
        return [Naming(*row) for row in fetch_all(self.db, NAMED, bound)]

    def entities_named_like(self, parts: Iterable[str], scope: Scope) -> list[Naming]:
        """The entities with a word in a name that begins with one of the parts, in their order.

        Of those with the same part the closest name comes first.
        """
        keys: dict[str, None] = {}
        for part in parts:
            bounds = (*bounds_of_prefix(part[: words.MAX_START]), MAX_NAMES)
            found = sorted({row[0] for row in fetch_all(self.db, NAMES_FROM, bounds)})
            found.sort(key=len)
            keys |= dict.fromkeys(found[:CLOSEST_NAMES])
        if not keys:
            return []
        bound = {"asof": scope.asof, "kind": scope.kind, "keys": json.dumps(list(keys))}
        return [Naming(*row) for row in fetch_all(self.db, NAMES_LIKE, bound)]

    # -- the graph --

    def neighbours(self, nodes: Iterable[str], bounds: GraphBounds) -> list[str]:
        return [row[0] for row in fetch_all(self.db, REACHED, _graph(nodes, bounds))]

    def edges_between(self, nodes: Iterable[str], bounds: GraphBounds) -> list[EdgeRow]:
        return [edge_of(row) for row in fetch_all(self.db, BETWEEN, _graph(nodes, bounds))]

    # -- rows --

    def chunks(self, keys: Iterable[str] | Iterable[int], scope: Scope) -> list[ChunkRow]:
        wanted = list(keys)
        name = "id" if wanted and isinstance(wanted[0], str) else "seq"
        if scope.current:
            found = self.db.executemany(LIVE_CHUNK_BY[name], [(key,) for key in wanted])
        else:
            bound = bound_scope(scope)
            found = self.db.executemany(
                CHUNK_IN_SCOPE_BY[name], [bound | {"key": key} for key in wanted]
            )
        return [ChunkRow(*row) for row in found]

    def chunk_ids(self, seqs: Iterable[int]) -> dict[int, str]:
        sql = "SELECT c.seq, c.id FROM json_each(?) i JOIN chunks c ON c.seq = i.value"
        return dict(fetch_all(self.db, sql, (json.dumps(list(seqs)),)))

    def texts(self, seqs: Iterable[int]) -> dict[int, str]:
        with bounded(self.db):
            return dict(fetch_all(self.db, TEXTS, (json.dumps(list(seqs)),)))

    def entities(self, ids: Iterable[str], scope: Scope) -> dict[str, EntityRow]:
        bound = bound_scope(scope) | {"ids": json.dumps(list(ids))}
        return {row[0]: EntityRow(*row) for row in fetch_all(self.db, ENTITIES, bound)}

    def find_entity(self, reference: str, asof: str | None) -> str | None:
        return entity_id_of(self.db, reference, asof)

    def show_chunk(self, chunk_id: str) -> dict[str, Any]:
        shown = fetch_named(self.db, SHOWN_CHUNK, chunk_id)
        if shown is None:
            raise NotFound("missing.chunk", id=chunk_id)
        return read_json(shown, "tags", "properties", "older_versions", "newer_versions")

    def show_entity(self, entity_id: str) -> dict[str, Any] | None:
        shown = fetch_named(self.db, SHOWN_ENTITY, entity_id)
        return shown and read_json(shown, "aliases", "properties")

    def latest_version(self, chunk_id: str) -> str:
        return str(last_version(self.db, chunk_id)["id"])

    def entity_names(self, kind: str | None = None) -> list[EntityNames]:
        rows = fetch_all(self.db, ENTITY_NAMES, {"kind": kind})
        return [
            EntityNames(row[0], row[1], (row[0], row[2], *json.loads(row[3])), row[4])
            for row in rows
        ]

    def near_names(self, reference: str) -> list[str]:
        return near_names(self.db, reference)

    def history(self, limit: int, target: str | None, action: str | None) -> list[dict[str, Any]]:
        return read_history(self.db, limit, target, action)

    # -- vectors, and counts --

    def pending_count(self) -> int:
        return int(fetch_one(self.db, PENDING) or 0)

    def pending(self, limit: int) -> list[ChunkRow]:
        sql = """
            SELECT seq, id, content, source, timestamp, importance
            FROM chunks WHERE pending = 1 AND valid_until IS NULL ORDER BY seq LIMIT ?
        """
        return [ChunkRow(*row) for row in fetch_all(self.db, sql, (limit,))]

    def model(self) -> Model | None:
        return model_of(self.db)

    def model_version(self) -> str:
        return str(fetch_one(self.db, MODEL_VERSION) or "")

    def counts(self) -> dict[str, dict[str, int]]:
        return {
            table: dict(zip(("total", "active", "deleted"), row, strict=True))
            for table, sql in COUNTS.items()
            for row in self.db.execute(sql, {"at": timestamps.now()})
        }

    def vector_count(self) -> int:
        sql = """
            SELECT count(*) FROM windows w JOIN chunks c ON c.seq = w.chunk_seq
            WHERE c.valid_until IS NULL
        """
        return int(fetch_one(self.db, sql) or 0)

    def latencies(self, since: str) -> list[tuple[float, bool]]:
        sql = "SELECT latency_ms, results_json = '[]' FROM recall_log WHERE created_at >= ?"
        return [(row[0], bool(row[1])) for row in fetch_all(self.db, sql, (since,))]


# --- Small statements that reading and writing share ------------------------------------


def _graph(nodes: Iterable[str], bounds: GraphBounds) -> dict[str, Any]:
    types = json.dumps(list(bounds.types)) if bounds.types else None
    return {
        "nodes": json.dumps(list(nodes)),
        "at": bounds.at,
        "asof": bounds.asof,
        "types": types,
    }


def _some_trigrams(text: str) -> list[str]:
    """Every second trigram, or fewer of a long text: enough to have few false candidates."""
    step = max(2, len(text) // MAX_TRIGRAMS)
    places = [*range(0, len(text) - 2, step), len(text) - 3]
    return list(dict.fromkeys(text[at : at + 3] for at in places if at >= 0))


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
