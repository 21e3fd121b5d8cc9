"""Making the tables of a new file, and bringing an older one up to date.

A new file gets the tables of schema.sql. An older one goes through the steps of MIGRATIONS that
it lacks, and then gets terms for what has none, all in one transaction.
"""

from collections.abc import Callable
from pathlib import Path

import apsw

from config import ROOT
from core import timestamps
from index.analysis import Indexed
from index.links import Spellings
from store.sqlite import schema_check
from store.sqlite.statements import APPLICATION_ID, fetch_all
from store.sqlite.writer import Writer

NAMES_WITHOUT_WORDS = "SELECT key FROM aliases EXCEPT SELECT key FROM name_words"
CHUNKS_WITHOUT_POSTINGS = """
    SELECT c.seq, o.seq, c.source, c.session_id FROM chunks c
    LEFT JOIN chunks o ON o.superseded_by = c.id
    WHERE c.seq NOT IN (SELECT chunk_seq FROM postings) ORDER BY c.seq
"""


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
    """From version 3: tables for recall by cues, which stay empty until somebody uses it."""
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
    """From version 4: tables for entries of the timeline, whose contexts are searched too."""
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


def _to_plain_view(db: apsw.Connection) -> None:
    """From version 5: a view that older programs of SQLite can read, which refused the schema."""
    db.execute("""
        DROP VIEW searchable;
        CREATE VIEW searchable AS
        SELECT
            seq,
            content,
            coalesce((
                SELECT group_concat(line, char(10)) FROM (
                    SELECT group_concat(tag, char(10)) AS line FROM tags WHERE chunk_seq = seq
                    UNION ALL
                    SELECT group_concat(atom, char(10)) FROM json_tree(metadata_json)
                    WHERE atom IS NOT NULL
                    UNION ALL
                    SELECT group_concat(text, '') FROM (
                        SELECT text FROM contexts WHERE chunk_seq = seq ORDER BY part
                    )
                )
            ), '') AS metadata
        FROM chunks;
    """)


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (
    _to_postings,
    _to_changes,
    _to_cues,
    _to_timeline,
    _to_plain_view,
)
"""Step n brings a file of version n to version n + 1, in the transaction that records it."""

SCHEMA_VERSION = 1 + len(MIGRATIONS)


def migrate(db: apsw.Connection) -> None:
    """Make the tables of a new file, or bring an older one up to date.

    Several processes may call it at once: one works, the others wait and find it done. What
    fails or is killed leaves nothing behind.
    """
    path = Path(db.filename)
    version = db.pragma("user_version")
    if version == SCHEMA_VERSION:
        schema_check.refuse_strange(db, path)
        return
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)  # the file's own, which may be anybody's
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.pragma("user_version")
        if version == 0:
            db.execute((ROOT / "schema.sql").read_text("utf-8"))
            db.pragma("application_id", APPLICATION_ID)
        elif version < SCHEMA_VERSION:
            schema_check.refuse_strange(db, path, older=True)
            for step in MIGRATIONS[version - 1 :]:
                step(db)
            writer = Writer(db, timestamps.now(), "", {}, Spellings(()))
            index_rest(writer)
            writer.finish()
        schema_check.refuse_strange(db, path)
        db.pragma("user_version", SCHEMA_VERSION)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    finally:
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)


def index_rest(writer: Writer) -> None:
    """Write the words of every name that has none yet, and the terms of every such chunk.

    Oldest first, since a version takes the place of the one before.
    """
    for (key,) in fetch_all(writer.db, NAMES_WITHOUT_WORDS):
        writer.entities.put_name_words(key)
    for seq, before, source, session_id in fetch_all(writer.db, CHUNKS_WITHOUT_POSTINGS):
        text, metadata = writer.transaction.searchable(seq)
        indexed = Indexed(text)
        weights = indexed.weights(metadata, source, session_id)
        writer.texts.put_postings(seq, indexed, weights, before)
