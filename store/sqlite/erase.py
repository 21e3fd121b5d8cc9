"""Erasing a memory, an entity or a source with all its traces.

A memory goes with its versions, an entity with its names, its relations and those that were merged
into it, a source with all that is from it: every row, what the audit says of it, recalls that
returned it, and for an entity also questions and reasons that name it. A question in words of a
memory is not known to be about it and stays in the log until that is trimmed. Entities of a source
go where nobody else mentions them; of one session of it only memories go. The audit notes that
something was erased, and of a memory its id.

vec0 leaves zeros where a vector was (a test looks for its bytes). FTS5 keeps what is deleted in its
segments, so these are merged into one. Words and cues that no text has any more go, and SQLite's
samples of indexes. VACUUM then writes the file anew, and the log is emptied: until both were
possible `meta` says `erased`, and another run finishes (`finish_erasing` of the store).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import apsw
import numpy as np

from core.errors import InvalidInput, NotFound
from store.sqlite.cue_snapshots import drop_unused_cues
from store.sqlite.purge import (
    forget_records,
    keep_rev,
    remove_chunk,
    remove_names,
    remove_relation,
    versions_of,
)
from store.sqlite.statements import (
    LATEST_ENTITY,
    fetch_all,
    fetch_named,
    fetch_one,
    forget_changes,
    to_json,
)
from store.sqlite.writer import Writer
from store.types import Erasing, Found
from text import words

# --- Purge and erase -------------------------------------------------------------------


ERASED_AT_ONCE = 50  # memories, in the same sense
ERASED = "erased"
"""The key of meta that is there while bytes of something erased may be in the file."""


# -- what is to be forgotten for good --


FIRST_TEXTS = 3  # that are shown of what is to be erased
ALL_OF_THEM = -1  # no limit, for SQLite


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
        return [row[0] for row in fetch_all(db, _NOBODY_ELSES, {"source": what.source})]
    if not what.entity:
        return []
    known = fetch_named(db, LATEST_ENTITY, words.identity(what.entity.removeprefix("entity:")))
    if known is None:
        raise NotFound("erase.unknown", kind="entity", name=what.entity)
    if known["superseded_by"]:
        raise InvalidInput("erase.merged", name=what.entity, into=known["superseded_by"])
    return [row[0] for row in fetch_all(db, _MERGED_INTO, (known["id"],))]


def _memories_to_erase(db: apsw.Connection, what: Erasing, most: int) -> list[str]:
    """Ids of some of the versions to be erased."""
    if what.chunk:
        return list(versions_of(db, what.chunk))
    if what.source:
        bound: dict[str, Any] = {"source": what.source, "session": what.session, "most": most}
        found = fetch_all(db, _OF_SOURCE + "ORDER BY seq LIMIT :most", bound)
    elif what.with_memories:
        entities = to_json(_entities_to_erase(db, what))
        found = fetch_all(db, _OF_ENTITIES + "LIMIT :most", {"entities": entities, "most": most})
    else:
        found = []
    return [row[0] for row in found]


def to_erase(db: apsw.Connection, what: Erasing) -> Found:
    entities = _entities_to_erase(db, what)
    chains = dict[tuple[int, ...], None]()
    seen = set[str]()
    for chunk_id in _memories_to_erase(db, what, ALL_OF_THEM):
        if chunk_id not in seen:
            versions = versions_of(db, chunk_id)
            seen.update(versions)
            chains[tuple(versions.values())] = None
    if not chains and not entities:
        name = what.chunk or what.entity or what.source
        raise NotFound("erase.unknown", kind=what.kind, name=name)
    sql = "SELECT content FROM chunks WHERE seq = ?"
    texts = [fetch_one(db, sql, (chain[-1],)) for chain in islice(chains, FIRST_TEXTS)]
    return Found(len(chains), sum(map(len, chains)), len(entities), texts)


def erase_some(writer: Writer, what: Erasing) -> Counter[str]:
    """Erase some of the memories, each with all its versions; how many of what."""
    db, done, gone = writer.db, Counter[str](), set[str]()
    for chunk_id in _memories_to_erase(db, what, ERASED_AT_ONCE):
        if chunk_id not in gone:
            versions = versions_of(db, chunk_id)
            done += _erase_memory(db, versions)
            gone.update(versions)
    if gone:
        forget_records(db, "chunk", gone)
        db.execute(_FORGET_ANSWERS, (to_json(sorted(gone)),))
        keep_rev(db, writer.rev)
        forget_changes(db)
    return done


def _erase_memory(db: apsw.Connection, versions: Mapping[str, int]) -> Counter[str]:
    relations = {row[0] for each in versions for row in fetch_all(db, _ENDS_AT, (each,))}
    shown = {row[0] for seq in versions.values() for row in fetch_all(db, _FIRST_SHOWN_BY, (seq,))}
    for relation_id in relations:
        _erase_relation(db, relation_id)
    for seq in versions.values():
        remove_chunk(db, seq)
    orphans = [row[0] for row in fetch_all(db, _SHOWN_BY_NOBODY, (to_json(sorted(shown)),))]
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
        "reasons": to_json(_naming(db, REASONS, names)),
    }
    db.execute(_FORGET_NAMED, bound)
    db.execute(_FORGET_ANSWERS, (to_json([f"entity:{each}" for each in ids]),))
    asked = [(each,) for each in _naming(db, QUERIES, names)]
    db.executemany("DELETE FROM recall_log WHERE id = ?", asked)


def _naming(db: apsw.Connection, sql: str, names: set[str]) -> list[int]:
    """The ids of the rows whose text has one of the names."""
    keys = {words.name_key(name) for name in names}
    folded = ((number, words.fold(text)) for number, text in db.execute(sql))
    return [number for number, text in folded if any(words.has_folded_name(text, k) for k in keys)]


def drop_unused(db: apsw.Connection) -> None:
    """Remove words that no text has any more, and what SQLite noted of the rows that there were."""
    used = np.zeros(1 + int(fetch_one(db, "SELECT coalesce(max(id), 0) FROM terms")), np.bool_)
    for (terms,) in db.execute("SELECT terms FROM postings"):
        used[np.frombuffer(terms, "<u4")] = True
    unused = [(int(each),) for each in np.flatnonzero(~used)]
    db.executemany("DELETE FROM terms WHERE id = ?", unused)
    drop_unused_cues(db)
    db.execute("DELETE FROM name_words WHERE key NOT IN (SELECT key FROM aliases)")
    if fetch_one(db, "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4'"):
        db.execute("DELETE FROM sqlite_stat4")  # samples of what indexes hold
    forget_changes(db)
