"""Writing entities and all the names that lead to them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from core.errors import NotFound
from core.types import NewEntity
from index.analysis import Indexed
from store.sqlite.statements import (
    LATEST_ENTITY,
    SPELLED,
    bounds_of_prefix,
    detail_json,
    fetch_all,
    fetch_named,
    near_names,
    quoted,
    to_json,
    trigrams_of,
)
from store.sqlite.text_rows import TextRows
from text import words

MAX_BACKFILL = 1000  # texts searched for a name that is new


# --- SQL: writing ----------------------------------------------------------------------


PUT_ALIAS = "INSERT INTO aliases VALUES (?, ?, ?, ?, ?)"

WITHOUT_POSTINGS = """
    SELECT c.seq, o.seq, c.source, c.session_id FROM chunks c
    LEFT JOIN chunks o ON o.superseded_by = c.id
    WHERE c.seq NOT IN (SELECT chunk_seq FROM postings) ORDER BY c.seq
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

CLOSE_ENTITY = "UPDATE entities SET valid_until = max(:at, valid_from) WHERE seq = :seq"

HOLDING_EDGES = """
    SELECT id FROM relations WHERE (source_id = :node OR target_id = :node)
    AND (valid_until IS NULL OR valid_until > :at)
"""


# --- Writing ---------------------------------------------------------------------------


class EntityRows(TextRows):
    """Entities, and the names that lead to them."""

    def _link_names(self, seq: int, names: Iterable[str]) -> None:
        """Link a chunk with the entities whose names, aliases or codes stand in its text."""
        sql = """
            SELECT DISTINCT a.entity_id FROM json_each(?) k JOIN aliases a ON a.key = k.value
            JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL
        """
        if spelled := self.spellings.among(names):
            rows = fetch_all(self.db, sql, (to_json(spelled),))
            self.mention(seq, [row[0] for row in rows], "found")

    def index_rest(self) -> None:
        """Write the terms of every chunk that has none yet, oldest first; and of every name."""
        sql = "SELECT key FROM aliases EXCEPT SELECT key FROM name_words"
        for (key,) in fetch_all(self.db, sql):
            self.put_name_words(key)
        for seq, before, source, session_id in fetch_all(self.db, WITHOUT_POSTINGS):
            text, metadata = self.searchable(seq)
            indexed = Indexed(text)
            weights = indexed.weights(metadata, source, session_id)
            self.put_postings(seq, indexed, weights, before)

    def put_entity(self, entity: NewEntity, source: str, about: str) -> str:
        """Make an entity, change it, or bring it back; its id as first spelled.

        One that was merged into another is that other now.
        """
        key = words.identity(entity.id)
        if key not in self._entities:
            self._entities[key] = fetch_named(self.db, LATEST_ENTITY, key)
        known = self._entities[key]
        if known and known["superseded_by"]:
            return self.put_entity(replace(entity, id=known["superseded_by"]), source, about)
        live = known is not None and known["valid_until"] is None
        entity_id = str(known["id"]) if known else entity.id
        values = _entity_values(entity, known)
        if known is None or not live or any(known[name] != values[name] for name in values):
            if known is not None and live:
                self.db.execute(CLOSE_ENTITY, {"seq": known["seq"], "at": self.now})
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
            self.db.execute(INSERT_ENTITY, row)
            opened = {"seq": self.db.last_insert_rowid(), "valid_until": None}
            self._entities[key] = row | opened | {"superseded_by": None}
            self.audit("entity", "entity", entity_id, "", detail_json("new", known is None))
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
        self.db.execute(sql, {"id": entity_id, "about": about})
        sql = "UPDATE aliases SET valid_from = :about WHERE entity_id = :id AND valid_from > :about"
        self.db.execute(sql, {"id": entity_id, "about": about})
        self._known_from[entity_id] = about

    def _name(self, entity_id: str, name: str, aliases: Sequence[str], about: str) -> None:
        """Write every spelling that leads to an entity; the texts that have it are linked last."""
        given = [(entity_id, "id"), (name, "name"), *((alias, "alias") for alias in aliases)]
        spelled = [each for each in given if (entity_id, each[0]) not in self._named]
        self._named.update((entity_id, text) for text, _ in spelled)
        rows = [(words.name_key(text), text, role) for text, role in spelled]
        rows += [(key, text, "code") for text, _ in spelled for key in words.code_keys(text)]
        if entity_id not in self._keys:
            self._keys[entity_id] = {row[0] for row in fetch_all(self.db, SPELLED, (entity_id,))}
        keys = self._keys[entity_id]
        for key, text, role in rows:
            if key not in keys:
                keys.add(key)
                self._put_name(key, entity_id, text, role, about)

    def _put_name(self, key: str, entity_id: str, text: str, role: str, about: str) -> None:
        self.db.execute(PUT_ALIAS, (key, entity_id, text, role, min(about, self.now)))
        self.spellings.add([key])
        self._known_from[entity_id] = about
        self.put_name_words(key)
        if not words.is_common(key) and self.may_stand(key):
            self.new_names.append((entity_id, key, self.last_indexed))

    def put_name_words(self, key: str) -> None:
        self._name_words.update((word, key) for word in words.word_starts(key))

    def may_stand(self, key: str) -> bool:
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
                self.mention(seq, [entity_id], "found")

    def _having(self, piece: str, last: int) -> Iterator[tuple[int, str]]:
        """Live chunks up to `last` that may have a folded piece in them, and their folded texts."""
        low, high = bounds_of_prefix(piece)
        trigrams = " AND ".join(map(quoted, trigrams_of(piece)))
        bound = {"trigrams": trigrams, "low": low, "high": high, "last": last}
        sql = HAVING_PIECE if trigrams else HAVING_SHORT_PIECE
        return ((seq, words.fold(text)) for seq, text in self.db.execute(sql, bound))

    def forget_entity(self, entity_id: str, reason: str, cascade: bool) -> tuple[int, int]:
        known = fetch_named(self.db, LATEST_ENTITY, words.identity(entity_id))
        if known is None:
            near = ", ".join(near_names(self.db, entity_id)) or "-"
            raise NotFound("missing.entity", id=entity_id, near=near)
        if known["valid_until"] is not None:
            return 0, 0
        edges = 0
        if cascade:
            bound = {"node": known["id"], "at": self.now}
            edges = self._close_relations(fetch_all(self.db, HOLDING_EDGES, bound), self.now)
        self.db.execute(CLOSE_ENTITY, {"seq": known["seq"], "at": self.now})
        self.audit("forget", "entity", known["id"], reason, detail_json("edges_invalidated", edges))
        return 1, edges


def _entity_values(entity: NewEntity, known: dict[str, Any] | None) -> dict[str, str]:
    """What an entity says after this: given values over known ones, properties merged."""
    old = known or {"kind": "concept", "name": entity.id, "summary": "", "properties_json": "{}"}
    properties = old["properties_json"]
    if entity.properties:
        properties = to_json(json.loads(properties) | entity.properties)
    return {
        "kind": entity.kind or old["kind"],
        "name": entity.name or old["name"],
        "summary": entity.summary or old["summary"],
        "properties_json": properties,
    }
