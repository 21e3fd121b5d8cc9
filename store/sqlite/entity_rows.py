"""Writing entities, the names that lead to them, and which chunks mention them.

An entity is led to by its id, its name, its aliases, and the codes in these. A name that is new is
looked for in the texts that were there before, newest first (name_search.py). Which chunk mentions
which entity is collected, and written at the very end of the transaction.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from core.errors import NotFound
from core.types import NewEntity
from index.analysis import Indexed
from index.links import Spellings
from store.sqlite.name_search import (
    READ_AT_ONCE,
    put_unread_names,
    seqs_with_name,
    unread_names,
)
from store.sqlite.statements import (
    LATEST_ENTITY,
    SPELLED,
    detail_json,
    entity_id_of,
    fetch_all,
    fetch_named,
    near_names,
    to_json,
)
from store.sqlite.text_rows import TextRows
from store.sqlite.transaction import Transaction
from text import words

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

PUT_ALIAS = "INSERT INTO aliases VALUES (?, ?, ?, ?, ?)"
PUT_NAME_WORD = "INSERT OR IGNORE INTO name_words VALUES (?, ?)"
ENTITIES_NAMED = """
    SELECT DISTINCT a.entity_id FROM json_each(?) k JOIN aliases a ON a.key = k.value
    JOIN entities e ON e.id = a.entity_id AND e.valid_until IS NULL
"""

PUT_MENTION = """
    INSERT INTO mentions VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET origin = excluded.origin WHERE origin = 'found'
"""


class EntityRows:
    """Writes `entities`, `aliases`, `name_words` and `mentions`."""

    def __init__(self, transaction: Transaction, texts: TextRows, spellings: Spellings) -> None:
        """`spellings` tells which texts may be names; names that are new are added."""
        self._transaction, self._texts, self._spellings = transaction, texts, spellings
        self._db, self._now = transaction.db, transaction.now
        self._latest: dict[str, dict[str, Any] | None] = {}  # the last version of each, by its key
        self._live: dict[str, str] = {}  # the id of each that is live, by its key
        self._known_from: dict[str, str] = {}
        self._keys: dict[str, set[str]] = {}  # all by which an entity is found
        self._named: set[tuple[str, str]] = set()
        self._name_words: set[tuple[str, str]] = set()
        self._new_names: list[tuple[str, str, int]] = []
        self._mentions: dict[tuple[str, int], str] = {}

    # -- entities --

    def put(self, entity: NewEntity, source: str, about: str) -> str:
        """Make an entity, change it, or bring it back; its id as it was first spelled.

        Where it was merged into another one, that one is changed. `about` is the time of the
        memory that tells of it.
        """
        key = words.identity(entity.id)
        if key not in self._latest:
            self._latest[key] = fetch_named(self._db, LATEST_ENTITY, key)
        known = self._latest[key]
        if known and known["superseded_by"]:
            return self.put(replace(entity, id=known["superseded_by"]), source, about)
        live = known is not None and known["valid_until"] is None
        entity_id = str(known["id"]) if known else entity.id
        values = _entity_values(entity, known)
        if known is None or not live or any(known[name] != values[name] for name in values):
            if known is not None and live:
                self.close(known["seq"])
            row = values | {
                "id": entity_id,
                "key": key,
                "properties": values["properties_json"],
                "source": known["source"] if known else source,
                "importance": known["importance"] if known else 0.5,
                "created_at": known["created_at"] if known else self._now,
                "now": self._now,
                "valid_from": self._now if known else min(about, self._now),
            }
            self._db.execute(INSERT_ENTITY, row)
            opened = {"seq": self._db.last_insert_rowid(), "valid_until": None}
            self._latest[key] = row | opened | {"superseded_by": None}
            detail = detail_json("new", known is None)
            self._transaction.audit("entity", "entity", entity_id, "", detail)
        if known is None:
            self._known_from[entity_id] = about
            self._keys[entity_id] = set()
        self._known_since(entity_id, about)
        self._name(entity_id, values["name"], entity.aliases, about)
        self._live[key] = entity_id
        return entity_id

    def close(self, seq: int) -> None:
        """Let a version of an entity end now."""
        self._db.execute(CLOSE_ENTITY, {"seq": seq, "at": self._now})

    def known(self, entity_id: str) -> dict[str, Any]:
        """The latest version of an entity; NotFound where there never was one."""
        known = fetch_named(self._db, LATEST_ENTITY, words.identity(entity_id))
        if known is None:
            near = ", ".join(near_names(self._db, entity_id)) or "-"
            raise NotFound("missing.entity", id=entity_id, near=near)
        return known

    def find_or_put(self, reference: str, source: str, about: str) -> str:
        """The id of the live entity that a text names, or of a new one."""
        key = words.identity(reference)
        if (live := self._live.get(key)) is not None:
            return live
        known = entity_id_of(self._db, reference)
        if known is None:
            return self.put(NewEntity(reference), source, about)
        if words.identity(known) == key:  # not by another name, which may come to mean others too
            self._live[key] = known
        return known

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

    # -- names --

    def _name(self, entity_id: str, name: str, aliases: Sequence[str], about: str) -> None:
        """Write every spelling that leads to an entity."""
        given = [(entity_id, "id"), (name, "name"), *((alias, "alias") for alias in aliases)]
        spelled = [each for each in given if (entity_id, each[0]) not in self._named]
        self._named.update((entity_id, text) for text, _ in spelled)
        rows = [(words.name_key(text), text, role) for text, role in spelled]
        rows += [(key, text, "code") for text, _ in spelled for key in words.code_keys(text)]
        if entity_id not in self._keys:
            self._keys[entity_id] = {row[0] for row in fetch_all(self._db, SPELLED, (entity_id,))}
        keys = self._keys[entity_id]
        for key, text, role in rows:
            if key not in keys:
                keys.add(key)
                since = min(about, self._now)
                self._db.execute(PUT_ALIAS, (key, entity_id, text, role, since))
                self._known_from[entity_id] = about
                self.make_known(entity_id, key)

    def make_known(self, entity_id: str, key: str) -> None:
        """Let a new name be found, and be looked for in the texts that were there before."""
        self._spellings.add([key])
        self.put_name_words(key)
        if not words.is_common(key) and self._may_stand(key):
            self._new_names.append((entity_id, key, self._texts.last_indexed))

    def put_name_words(self, key: str) -> None:
        self._name_words.update((word, key) for word in words.word_starts(key))

    def _may_stand(self, key: str) -> bool:
        """Whether a name may stand in a text so far: not where one of its words is in none."""
        if any(words.codes(key)):  # other spellings of a code are other words
            return True
        return not self._texts.unknown(words.stems(words.folded_terms(key)))

    def write_name_words(self) -> None:
        self._db.executemany(PUT_NAME_WORD, sorted(self._name_words))

    # -- mentions --

    def mention(self, seq: int, entity_ids: Iterable[str], origin: str) -> None:
        """Link a chunk with entities; what was said of one weighs more than what was read."""
        for entity_id in entity_ids:
            linked = (entity_id, seq)
            if self._mentions.get(linked, "found") == "found":
                self._mentions[linked] = origin

    def names_in(self, indexed: Indexed) -> list[str]:
        """The keys of what may be names in a text."""
        return self._spellings.among(indexed.names(self._spellings.starts))

    def named_in(self, indexed: Indexed) -> list[str]:
        """The live entities whose names, aliases or codes stand in a text."""
        if not (names := self.names_in(indexed)):
            return []
        return [row[0] for row in fetch_all(self._db, ENTITIES_NAMED, (to_json(names),))]

    def link_new_names(self) -> None:
        """Link the live chunks that had a name before it was known as one.

        While this transaction goes on others wait, so most of many names wait until it is over.
        """
        left, waiting = READ_AT_ONCE, unread_names(self._db) if self._new_names else []
        known = len(waiting)
        for entity_id, key, last in self._new_names:
            if left <= 0:
                waiting.append((key, last))
                continue
            seqs, count = seqs_with_name(self._db, key, last)
            left -= count
            for seq in seqs:
                self.mention(seq, [entity_id], "found")
        if len(waiting) > known:
            put_unread_names(self._db, waiting)

    def write_mentions(self) -> None:
        rows = sorted((*linked, origin) for linked, origin in self._mentions.items())
        self._db.executemany(PUT_MENTION, rows)
        self.note_mentioned({seq for _, seq, _ in rows})

    def note_mentioned(self, seqs: Iterable[int]) -> None:
        """Tell of new mentions of chunks that were there before (see links.py)."""
        known = [(seq,) for seq in sorted(seqs) if seq <= self._transaction.seq_before]
        self._db.executemany("INSERT INTO changes (kind, what) VALUES ('chunk', ?)", known)


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
