"""Taking the records of an export into a file.

Nothing that is there is changed: a record is put in, or is there already, or contradicts what is
there and is left out. What a record refers to may have another id or number here than where it
came from.
"""

import json
from collections.abc import Iterable, Sequence, Set
from functools import partial
from typing import Any

import apsw

from index.analysis import Indexed
from store.sqlite.entries import PUT_ENTRY, add_context
from store.sqlite.new_rows import NewRows
from store.sqlite.open_file import OpenFile
from store.sqlite.statements import (
    CHUNK_VERSION,
    ENDS,
    PLACE_OF_CHUNK,
    PUT_TURN,
    fetch_all,
    fetch_named,
    fetch_one,
    to_json,
)
from store.sqlite.writer import Writer
from store.types import Outcome
from text import words

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

# Which of some numbers are taken.
_TAKEN = "SELECT value FROM json_each(?) WHERE value IN (SELECT {1} FROM {0})"
# At which places of a list there is the key of some row.
KNOWN_CHUNKS = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM chunks WHERE id = k.value)
"""
KNOWN_ENTITIES = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM entities WHERE key = k.value)
"""
KNOWN_RELATIONS = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (
        SELECT 1 FROM relations WHERE source_id = k.value ->> 0
        AND target_id = k.value ->> 1 AND relation = k.value ->> 2
    )
"""
KNOWN_AUDIT = """
    SELECT k.key FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM audit WHERE target_id = k.value)
"""
# For NewRows: to insert a row, to find which numbers are taken and which keys are known.
_ENTITIES = (IMPORT_ENTITY, _TAKEN.format("entities", "seq"), KNOWN_ENTITIES)
_CHUNKS = (IMPORT_CHUNK, _TAKEN.format("chunks", "seq"), KNOWN_CHUNKS)
_RELATIONS = (IMPORT_RELATION, _TAKEN.format("relations", "id"), KNOWN_RELATIONS)
_AUDIT = (IMPORT_AUDIT, _TAKEN.format("audit", "id"), KNOWN_AUDIT)

VERSIONS_OF_KEY = """
    SELECT id, seq, kind, name, summary, properties_json, updated_at
    FROM entities WHERE key = ? ORDER BY seq
"""
# The relations here that an exported one may be: written at the same time, or both without end.
SAME_RELATION_HERE = """
    SELECT id, weight, properties_json, valid_until FROM relations
    WHERE source_id = :source_id AND target_id = :target_id AND relation = :relation
    AND (
        created_at = :created_at AND valid_from = :valid_from AND weight = :weight
        OR valid_until IS NULL AND :valid_until IS NULL
    )
    ORDER BY id <> :id, id
"""
SAME_RECORD_HERE = """
    SELECT id, detail_json FROM audit
    WHERE target_id = :target_id AND at = :at AND client = :client AND action = :action
    AND target_kind = :target_kind AND reason = :reason AND id >= :id ORDER BY id
"""

# A version is joined to the next one, of which the export tells, once that is there too.
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
METADATA_OF_CHUNKS = """
    SELECT seq, metadata FROM searchable WHERE seq IN (SELECT value FROM json_each(?))
"""
SET_PLACE = "UPDATE postings SET place = ?, rev = ? WHERE chunk_seq = ?"

_OPENED = ("kind", "name", "summary", "properties", "updated_at")
_WRITTEN_ONCE = ("content", "source", "session_id", "timestamp", "created_at", "valid_from")


class Intake:
    """Puts the records of one export into a file.

    Entities come first, then chunks, relations and the audit; what they refer to is there, or
    among them. Each call of put is one short transaction; a run that was killed is completed by
    another with the same records. Rows keep their numbers where these are free; otherwise they get
    new ones, and so does whatever refers to them.
    """

    def __init__(self, database: OpenFile, listed: Set[str], made_by: str = "") -> None:
        """`listed` are the keys of the export's entities, `made_by` is its vectors' model version.

        Vectors are put in while the file has that version; chunks without any wait for theirs.
        """
        self._database, self._listed, self._made_by = database, listed, made_by
        self._ids: dict[str, str] = {}  # entities that are spelled otherwise here
        kinds = ("chunk", "entity", "relation", "audit")
        self._numbers = {kind: dict[int, int]() for kind in kinds}
        self._meant: set[int] = set()  # relations here that some record is known to mean
        self._new_audits: set[int] = set()
        self._last_entity: int | None = None
        self._has_others = False  # entities here that the export does not list
        self._before: dict[str, dict[str, Any]] = {}  # versions whose next is not there, by its id

    def compare(self, kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        with self._database.reader() as db:
            return [self._find(db, kind, each)[0] for each in records]

    def put(self, kind: str, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        put = {
            "entity": self._put_entities,
            "chunk": self._put_chunks,
            "relation": self._put_relations,
            "audit": self._put_audits,
        }
        return put[kind](records)

    def absent(self, ids: Iterable[str]) -> list[str]:
        sql = """
            SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM chunks)
            AND value NOT IN (SELECT id FROM entities)
        """
        with self._database.reader() as db:
            return [row[0] for row in fetch_all(db, sql, (to_json(list(ids)),))]

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
        known = fetch_all(db, VERSIONS_OF_KEY, (words.identity(record["id"]),))
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
        with self._database.writing("") as writer:
            writer.texts.look_up(words.stems(terms))
            last = int(fetch_one(writer.db, "SELECT coalesce(max(seq), 0) FROM entities"))
            new = NewRows(writer.db, _ENTITIES, keys, numbers, last)
            return list(map(partial(self._put_entity, writer, new), keys, records))

    def _put_entity(
        self, writer: Writer, new: NewRows, key: str, record: dict[str, Any]
    ) -> Outcome:
        outcome: Outcome = "new"
        if new.may_have(key):
            outcome, _ = self._find_entity(writer.db, record)
        if outcome == "new":
            self._put_versions(new, key, record)
            new.write()
        entity_id = str(self._id(record["id"]))
        names = [each | {"entity_id": entity_id} for each in record["names"]]
        for (spelled,) in list(writer.db.executemany(IMPORT_NAME, names)):
            writer.entities.make_known(entity_id, spelled)
        return outcome

    def _put_versions(self, new: NewRows, key: str, record: dict[str, Any]) -> None:
        """The versions keep their order, and their numbers if all of these are free."""
        rows = [
            version
            | {"id": record["id"], "key": key, "properties": to_json(version["properties"])}
            | {"superseded_by": self._id(version["superseded_by"])}
            for version in record["versions"]
        ]
        given = [version["seq"] for version in record["versions"]]
        for before, number in zip(given, new.add(key, rows, given), strict=True):
            self._renumber("entity", before, number)

    # -- chunks --

    def _put_chunks(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        indexed = [Indexed(each["content"]) for each in records]
        with self._database.writing("") as writer:
            writer.texts.look_up(term for text in indexed for term in text.terms)
            self._look_for_others(writer.db)
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
        self, writer: Writer, records: Sequence[dict[str, Any]], indexed: Sequence[Indexed]
    ) -> list[tuple[Outcome, int]]:
        """Write the rows of those memories that are not there; the seq of each."""
        ids, seqs = [each["id"] for each in records], [each["seq"] for each in records]
        new = NewRows(writer.db, _CHUNKS, ids, seqs, writer.transaction.seq_before)
        places = [
            self._put_row(writer, new, record, text.hash)
            for record, text in zip(records, indexed, strict=True)
        ]
        new.write()
        return places

    def _put_row(
        self, writer: Writer, new: NewRows, record: dict[str, Any], content_hash: int
    ) -> tuple[Outcome, int]:
        outcome: Outcome = "new"
        seq: int | None = None
        if new.may_have(record["id"]):
            outcome, seq = _find_chunk(writer.db, record)
        if seq is None:
            pending = "vectors" not in record or not self._fits(writer)
            row = record | {"hash": content_hash, "metadata": to_json(record["metadata"])}
            (seq,) = new.add(record["id"], [row | {"pending": pending}], [record["seq"]])
        self._renumber("chunk", record["seq"], seq)
        return outcome, seq

    def _fits(self, writer: Writer) -> bool:
        """Whether the export's vectors are of the file's model."""
        return self._made_by != "" and self._made_by == writer.model_version

    def _complete(self, writer: Writer, new: Sequence[tuple[int, dict[str, Any], Indexed]]) -> None:
        """Write what hangs on new memories, and what they are found by."""
        db, seqs = writer.db, [seq for seq, _, _ in new]
        for seq, record, _ in new:
            self._put_beside(writer, seq, record)
        if seqs and min(seqs) <= writer.transaction.seq_before:
            # Cues are read in order, so from there on again.
            db.execute("DELETE FROM cue_postings WHERE chunk_seq > ?", (min(seqs),))
        metadata = dict(fetch_all(db, METADATA_OF_CHUNKS, (to_json(seqs),)))
        for seq, record, indexed in new:
            self._mention(writer, seq, record, indexed)
            source, session_id = record["source"], record["session_id"]
            live = record["valid_until"] is None
            writer.texts.index(seq, indexed, metadata[seq], source, session_id, None, live=live)
        writer.texts.write_postings()

    def _put_beside(self, writer: Writer, seq: int, record: dict[str, Any]) -> None:
        """Write a memory's tags, and vectors, a round or an entry where it has them."""
        writer.tag(seq, record["tags"])
        if "vectors" in record and self._fits(writer):
            live = record["valid_until"] is None
            writer.vectors.put(seq, record["vectors"], live=live)
        if turn := record.get("round"):
            writer.db.execute(PUT_TURN, (seq, turn["id"], turn["asked"]))
        if entry := record.get("entry"):
            writer.db.execute(PUT_ENTRY, (seq, entry["category"], entry["expires_at"]))
            add_context(writer.db, seq, entry["context"])

    def _look_for_others(self, db: apsw.Connection) -> None:
        """Find out, when there are new entities, whether the file has some of its own."""
        last = fetch_one(db, "SELECT max(seq) FROM entities")
        if last != self._last_entity:
            self._last_entity = last
            keys = db.execute("SELECT DISTINCT key FROM entities")
            self._has_others = any(key not in self._listed for (key,) in keys)

    def _renumber(self, kind: str, given: int | None, here: int | None) -> None:
        if given is not None and here is not None and given != here:
            self._numbers[kind][given] = here

    def _mention(self, writer: Writer, seq: int, record: dict[str, Any], indexed: Indexed) -> None:
        """Link a chunk as the export says, and with names in its text that only this file has."""
        for entity_id, origin in record["mentions"].items():
            writer.entities.mention(seq, [str(self._id(entity_id))], origin)
        if record["valid_until"] is not None or not self._has_others:
            return
        named = writer.entities.named_in(indexed)
        others = [each for each in named if words.identity(each) not in self._listed]
        writer.entities.mention(seq, others, "found")

    def _link(self, writer: Writer, record: dict[str, Any]) -> None:
        """Join a version to the next and to the one before, whichever of them is there."""
        pairs = [record] if record["superseded_by"] else []
        if (before := self._before.pop(record["id"], None)) is not None:
            pairs.append(before)
        for each in pairs:
            bound = {name: each[name] for name in ("id", "valid_until")}
            linked = fetch_one(writer.db, LINK_VERSION, bound | {"next": each["superseded_by"]})
            if linked is None:
                self._before[each["superseded_by"]] = bound | {
                    "superseded_by": each["superseded_by"]
                }
            while linked is not None:  # all that follow have the place of the first
                place = fetch_one(writer.db, PLACE_OF_CHUNK, (linked,))
                linked = fetch_one(writer.db, NEXT_VERSION, (linked,))
                writer.db.execute(SET_PLACE, (place, writer.transaction.rev, linked))

    # -- relations and the audit --

    def _find_relation(
        self, db: apsw.Connection, record: dict[str, Any]
    ) -> tuple[Outcome, int | None]:
        ends: dict[str, Any] = {end: self._id(record[end]) for end in ENDS}
        own = self._numbers["relation"].get(record["id"], record["id"])
        bound = record | ends | {"id": own}
        for relation_id, weight, properties, until in fetch_all(db, SAME_RELATION_HERE, bound):
            if relation_id not in self._meant or relation_id == own:
                same = weight == record["weight"] and json.loads(properties) == record["properties"]
                later = record["valid_until"] in (until, None)
                return "there" if same and later else "conflict", relation_id
        return "new", None

    def _put_relations(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        shown: list[tuple[int, str]] = []
        keys = [(*(self._id(each[end]) for end in ENDS), each["relation"]) for each in records]
        with self._database.writing("") as writer:
            db, last = writer.db, writer.relations.last_id
            new = NewRows(db, _RELATIONS, keys, [each["id"] for each in records], last)
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
        self, db: apsw.Connection, new: NewRows, key: tuple[Any, ...], record: dict[str, Any]
    ) -> tuple[Outcome, int]:
        outcome: Outcome = "new"
        number: int | None = None
        if new.may_have(key):
            outcome, number = self._find_relation(db, record)
        if number is None:
            ends = dict(zip(ENDS, key, strict=False))
            row = record | ends | {"properties": to_json(record["properties"])}
            (number,) = new.add(key, [row], [record["id"]])
        self._meant.add(number)
        self._renumber("relation", record["id"], number)
        return outcome, number

    def _find_audit(
        self, db: apsw.Connection, record: dict[str, Any]
    ) -> tuple[Outcome, int | None]:
        here = self._renumbered(record)
        own = self._numbers["audit"].get(record["id"], record["id"])
        for number, detail in fetch_all(db, SAME_RECORD_HERE, here | {"id": own or 0}):
            mine = number == own or number not in self._new_audits
            if mine and json.loads(detail) == here["detail"]:
                return "there", number
        return "new", None

    def _put_audits(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        with self._database.writing("") as writer:
            db = writer.db
            last = int(fetch_one(db, "SELECT coalesce(max(id), 0) FROM audit"))
            targets = [self._target(each) for each in records]
            new = NewRows(db, _AUDIT, targets, [each["id"] for each in records], last)
            outcomes = [self._put_audit(db, new, each) for each in records]
            new.write()
            return outcomes

    def _put_audit(self, db: apsw.Connection, new: NewRows, record: dict[str, Any]) -> Outcome:
        here, number = self._renumbered(record), None
        outcome: Outcome = "new"
        # Which number a merge has here may be known only since this batch began.
        if new.may_have(here["target_id"]) or record["target_kind"] == "merge":
            outcome, number = self._find_audit(db, record)
        if number is None:
            row = here | {"detail": to_json(here["detail"])}
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
        to_json(version["properties"]),
        version["updated_at"],
    ]


def _find_chunk(db: apsw.Connection, record: dict[str, Any]) -> tuple[Outcome, int | None]:
    """A memory that was closed here since is there; one that is closed only there is a conflict."""
    known = fetch_named(db, CHUNK_VERSION, record["id"])
    if known is None:
        return "new", None
    same = all(known[name] == record[name] for name in (*_WRITTEN_ONCE, "importance"))
    same = same and json.loads(known["metadata_json"]) == record["metadata"]
    later = record["valid_until"] in (known["valid_until"], None)
    return "there" if same and later else "conflict", known["seq"]
