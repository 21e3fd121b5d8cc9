"""Erasing a memory, an entity or a source with all its traces.

A memory goes with all its versions, an entity with those that were merged into it. The audit keeps
only that something was erased; words, names and logged recalls that tell of it go too. Until the
file is written anew, its bytes may still be there: `finish_erasing` of the store does that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import apsw
import numpy as np

from core.errors import InvalidInput, NotFound
from store.sqlite.cue_snapshots import drop_unused_cues
from store.sqlite.removal import (
    forget_records,
    keep_rev,
    remove_chunk,
    remove_names,
    remove_relation,
)
from store.sqlite.statements import (
    LATEST_ENTITY,
    fetch_all,
    fetch_named,
    fetch_one,
    forget_changes,
    to_json,
    versions_of,
)
from store.sqlite.writer import Writer
from store.types import Erasing, Found
from text import words

BATCH_MEMORIES = 50  # erased in one transaction, while which other writers wait
MAX_SHOWN_TEXTS = 3  # of what is to be erased
NO_LIMIT = -1  # for SQLite
ERASED = "erased"
"""The key of meta that is there while bytes of something erased may be in the file."""


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
# Entities that a source was the first to name, and that no other source mentions.
_ONLY_OF_SOURCE = """
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
_WITHOUT_EVIDENCE = """
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
AUDIT_REASONS = "SELECT id, reason FROM audit WHERE reason <> ''"
LOGGED_QUERIES = "SELECT id, query FROM recall_log"


def _entities_to_erase(db: apsw.Connection, what: Erasing) -> list[str]:
    """The ids of entities, with those that were merged into them."""
    if what.source and not what.session:  # another session may mention them too
        return [row[0] for row in fetch_all(db, _ONLY_OF_SOURCE, {"source": what.source})]
    if not what.entity:
        return []
    known = fetch_named(db, LATEST_ENTITY, words.identity(what.entity.removeprefix("entity:")))
    if known is None:
        raise NotFound("erase.unknown", kind="entity", name=what.entity)
    if known["superseded_by"]:
        raise InvalidInput("erase.merged", name=what.entity, into=known["superseded_by"])
    return [row[0] for row in fetch_all(db, _MERGED_INTO, (known["id"],))]


def _versions_to_erase(db: apsw.Connection, what: Erasing, limit: int) -> list[str]:
    """Ids of versions of memories to be erased, at most so many; of one memory all."""
    if what.chunk:
        return list(versions_of(db, what.chunk))
    if what.source:
        bound: dict[str, Any] = {"source": what.source, "session": what.session, "limit": limit}
        found = fetch_all(db, _OF_SOURCE + "ORDER BY seq LIMIT :limit", bound)
    elif what.with_memories:
        entities = to_json(_entities_to_erase(db, what))
        found = fetch_all(db, _OF_ENTITIES + "LIMIT :limit", {"entities": entities, "limit": limit})
    else:
        found = []
    return [row[0] for row in found]


def to_erase(db: apsw.Connection, what: Erasing) -> Found:
    """What an erasure would remove; NotFound where there is nothing of that name."""
    entities = _entities_to_erase(db, what)
    chains = dict[tuple[int, ...], None]()
    seen = set[str]()
    for chunk_id in _versions_to_erase(db, what, NO_LIMIT):
        if chunk_id not in seen:
            versions = versions_of(db, chunk_id)
            seen.update(versions)
            chains[tuple(versions.values())] = None
    if not chains and not entities:
        name = what.chunk or what.entity or what.source
        raise NotFound("erase.unknown", kind=what.kind, name=name)
    sql = "SELECT content FROM chunks WHERE seq = ?"
    texts = [fetch_one(db, sql, (chain[-1],)) for chain in islice(chains, MAX_SHOWN_TEXTS)]
    return Found(len(chains), sum(map(len, chains)), len(entities), texts)


def erase_some(writer: Writer, what: Erasing) -> Counter[str]:
    """Erase some of the memories, each with all its versions; how many of what."""
    db, done, gone = writer.db, Counter[str](), set[str]()
    for chunk_id in _versions_to_erase(db, what, BATCH_MEMORIES):
        if chunk_id not in gone:
            versions = versions_of(db, chunk_id)
            done += _erase_memory(db, versions)
            gone.update(versions)
    if gone:
        forget_records(db, "chunk", gone)
        db.execute(_FORGET_ANSWERS, (to_json(sorted(gone)),))
        keep_rev(db, writer.transaction.rev)
        forget_changes(db)
    return done


def _erase_memory(db: apsw.Connection, versions: Mapping[str, int]) -> Counter[str]:
    relations = {row[0] for each in versions for row in fetch_all(db, _ENDS_AT, (each,))}
    shown = {
        row[0] for seq in versions.values() for row in fetch_all(db, _STORED_WITH_EVIDENCE, (seq,))
    }
    for relation_id in relations:
        _erase_relation(db, relation_id)
    for seq in versions.values():
        remove_chunk(db, seq)
    orphans = [row[0] for row in fetch_all(db, _WITHOUT_EVIDENCE, (to_json(sorted(shown)),))]
    for relation_id in orphans:
        _erase_relation(db, relation_id)
    counts = {"versions": len(versions), "relations": len(relations) + len(orphans)}
    return Counter(memories=1, **counts)


_ENDS_AT = """
    SELECT id FROM relations WHERE source_id = ?1
    UNION SELECT id FROM relations WHERE target_id = ?1
"""
# A relation stored without evidence outlives the chunks that mention it.
_STORED_WITH_EVIDENCE = """
    SELECT r.id FROM evidence v JOIN relations r ON r.id = v.relation_id
    WHERE v.chunk_seq = ? AND r.evidence_chunk_id IS NOT NULL
"""


def _erase_relation(db: apsw.Connection, relation_id: int) -> None:
    remove_relation(db, relation_id)
    forget_records(db, "relation", [str(relation_id)])


_OF_SOURCE_ALONE = """
    SELECT id FROM relations r WHERE r.source = ? COLLATE NOCASE
    AND NOT EXISTS (SELECT 1 FROM evidence v WHERE v.relation_id = r.id)
"""
_NAMES_OF = "SELECT alias, key FROM aliases WHERE entity_id = ?"


def erase_entities(writer: Writer, what: Erasing) -> Counter[str]:
    """Erase entities with their names, relations and mentions; how many of what."""
    db, ids = writer.db, _entities_to_erase(writer.db, what)
    ends = {row[0] for each in ids for row in fetch_all(db, _ENDS_AT, (each,))}
    if what.source and not what.session:
        ends |= {row[0] for row in fetch_all(db, _OF_SOURCE_ALONE, (what.source,))}
    for relation_id in ends:
        _erase_relation(db, relation_id)
    names = {name for each in ids for row in fetch_all(db, _NAMES_OF, (each,)) for name in row}
    for entity_id in ids:
        remove_names(db, entity_id)
        db.execute("DELETE FROM entities WHERE id = ?", (entity_id,))
    if ids:
        _forget_named(db, ids, names.union(ids))
    forget_changes(db)
    return Counter(relations=len(ends), entities=len(ids))


def _forget_named(db: apsw.Connection, ids: Sequence[str], names: set[str]) -> None:
    """Forget what was done to entities, and what was asked and why where that names them."""
    bound = {
        "ids": to_json(ids),
        "quoted": to_json([to_json(name) for name in names]),
        "reasons": to_json(_naming(db, AUDIT_REASONS, names)),
    }
    db.execute(_FORGET_NAMED, bound)
    db.execute(_FORGET_ANSWERS, (to_json([f"entity:{each}" for each in ids]),))
    asked = [(each,) for each in _naming(db, LOGGED_QUERIES, names)]
    db.executemany("DELETE FROM recall_log WHERE id = ?", asked)


def _naming(db: apsw.Connection, sql: str, names: set[str]) -> list[int]:
    """The ids of the rows whose text has one of the names."""
    keys = {words.name_key(name) for name in names}
    folded = ((number, words.fold(text)) for number, text in db.execute(sql))
    return [number for number, text in folded if any(words.has_folded_name(text, k) for k in keys)]


def drop_unused(db: apsw.Connection) -> None:
    """Remove terms, cues and names that nothing has any more, and SQLite's samples of rows."""
    terms = [np.frombuffer(row, "<u4") for (row,) in db.execute("SELECT terms FROM postings")]
    known = np.array([row[0] for row in db.execute("SELECT id FROM terms")], np.int64)
    unused = np.setdiff1d(known, np.unique(np.concatenate([np.zeros(0, np.uint32), *terms])))
    db.executemany("DELETE FROM terms WHERE id = ?", [(each,) for each in unused.tolist()])
    drop_unused_cues(db)
    db.execute("DELETE FROM name_words WHERE key NOT IN (SELECT key FROM aliases)")
    if fetch_one(db, "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4'"):
        db.execute("DELETE FROM sqlite_stat4")
    forget_changes(db)
