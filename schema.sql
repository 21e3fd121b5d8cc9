-- The newest schema of memory.db. A new file is made from this text; older files are brought
-- here by the numbered steps in store.py. Times are UTC, ISO 8601 with milliseconds and Z;
-- a row is live while its valid_until is NULL (a relation also while it lies ahead).
--
-- One table more, `vectors`, is made once a model is known, since vec0 needs its dimension:
--   CREATE VIRTUAL TABLE vectors USING vec0 (embedding float[DIM], live integer)

CREATE TABLE meta (
    key        TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Memories. An update closes a row and opens the next version; a forget only closes.
CREATE TABLE chunks (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, so no index can mix rows up
    id            TEXT    NOT NULL UNIQUE,
    content       TEXT    NOT NULL,
    content_hash  INTEGER NOT NULL,                  -- finds the same text without comparing all
    source        TEXT    NOT NULL,
    session_id    TEXT    NOT NULL,
    timestamp     TEXT    NOT NULL,                  -- the time it is about
    importance    REAL    NOT NULL CHECK (importance BETWEEN 0 AND 1),
    metadata_json TEXT    NOT NULL,                  -- free properties
    created_at    TEXT    NOT NULL,                  -- the time its first version was written
    valid_from    TEXT    NOT NULL,                  -- timestamp, or for a later version the change
    valid_until   TEXT,
    superseded_by TEXT,                              -- the id of the next version
    pending       INTEGER NOT NULL,                  -- 1 while it waits for its vectors
    recall_count  INTEGER NOT NULL DEFAULT 0,
    last_recalled TEXT
) STRICT;
CREATE INDEX chunks_same ON chunks (content_hash) WHERE valid_until IS NULL;
CREATE INDEX chunks_pending ON chunks (seq) WHERE pending = 1 AND valid_until IS NULL;
CREATE INDEX chunks_timestamp ON chunks (timestamp);
CREATE INDEX chunks_source ON chunks (source);
CREATE INDEX chunks_session ON chunks (session_id);
CREATE INDEX chunks_superseded ON chunks (superseded_by) WHERE superseded_by IS NOT NULL;

CREATE TABLE tags (
    chunk_seq INTEGER NOT NULL REFERENCES chunks (seq),
    tag       TEXT    NOT NULL COLLATE NOCASE,
    PRIMARY KEY (chunk_seq, tag)
) STRICT, WITHOUT ROWID;

-- Entities. Each change of one opens a new version with the same id.
CREATE TABLE entities (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT    NOT NULL,                -- as it was first spelled
    key             TEXT    NOT NULL,                -- the id case-folded: what makes it the same
    kind            TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    summary         TEXT    NOT NULL,
    properties_json TEXT    NOT NULL,
    source          TEXT    NOT NULL,
    importance      REAL    NOT NULL CHECK (importance BETWEEN 0 AND 1),
    created_at      TEXT    NOT NULL,                -- the time its first version was written
    updated_at      TEXT    NOT NULL,                -- the time this version was written
    valid_from      TEXT    NOT NULL,
    valid_until     TEXT,
    superseded_by   TEXT,                            -- the id it was merged into
    recall_count    INTEGER NOT NULL DEFAULT 0,
    last_recalled   TEXT
) STRICT;
CREATE UNIQUE INDEX entities_live ON entities (key) WHERE valid_until IS NULL;
CREATE INDEX entities_key ON entities (key, valid_from);
CREATE INDEX entities_id ON entities (id, valid_from, valid_until);

-- Every spelling that leads to an entity: its id, name, aliases and stock codes, folded.
CREATE TABLE aliases (
    key        TEXT NOT NULL,
    entity_id  TEXT NOT NULL,
    alias      TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('id', 'name', 'alias', 'code')),
    valid_from TEXT NOT NULL,
    PRIMARY KEY (key, entity_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_entity ON aliases (entity_id);

-- Where a term may begin in a spelling: the spelling from there on, cut short.
CREATE TABLE name_words (
    word TEXT NOT NULL,
    key  TEXT NOT NULL,                              -- of aliases
    PRIMARY KEY (word, key)
) STRICT, WITHOUT ROWID;

-- Which chunk is about which entity: said by the caller, shown by a relation, or read in the text.
CREATE TABLE mentions (
    entity_id TEXT    NOT NULL,
    chunk_seq INTEGER NOT NULL REFERENCES chunks (seq),
    origin    TEXT    NOT NULL CHECK (origin IN ('given', 'evidence', 'found')),
    PRIMARY KEY (entity_id, chunk_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_chunk ON mentions (chunk_seq);

-- Relations between entities, or chunks, by their ids.
CREATE TABLE relations (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id         TEXT NOT NULL,
    target_id         TEXT NOT NULL,
    relation          TEXT NOT NULL,
    weight            REAL NOT NULL CHECK (weight BETWEEN 0 AND 1),
    properties_json   TEXT NOT NULL,
    source            TEXT NOT NULL,
    confidence        REAL NOT NULL DEFAULT 1 CHECK (confidence BETWEEN 0 AND 1),
    created_at        TEXT NOT NULL,
    valid_from        TEXT NOT NULL,
    valid_until       TEXT,
    evidence_chunk_id TEXT                           -- the chunk that said so first
) STRICT;
-- Each answers a step of the graph by itself, heaviest first.
CREATE INDEX relations_source
ON relations (source_id, weight DESC, id, target_id, relation, valid_from, valid_until);
CREATE INDEX relations_target
ON relations (target_id, weight DESC, id, source_id, relation, valid_from, valid_until);
-- Finds the same relation again, however many others a node has.
CREATE INDEX relations_same ON relations (source_id, target_id, relation);

-- All chunks that say so: a relation ends with the last of them.
CREATE TABLE evidence (
    relation_id INTEGER NOT NULL REFERENCES relations (id),
    chunk_seq   INTEGER NOT NULL REFERENCES chunks (seq),
    PRIMARY KEY (relation_id, chunk_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX evidence_chunk ON evidence (chunk_seq);

-- The windows of a chunk's text, one vector each; rowid is the row of `vectors`.
CREATE TABLE windows (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    chunk_seq INTEGER NOT NULL REFERENCES chunks (seq),
    part      INTEGER NOT NULL                       -- 0 for the first window of the text
) STRICT;
CREATE INDEX windows_chunk ON windows (chunk_seq);

-- The terms of all texts (words.py), and for each chunk which of them it has and how often. From
-- these rows every process makes its index in memory (index.py); `rev` grows with each change of a
-- chunk and tells it what is new. No index holds closed chunks except for questions about the past.
CREATE TABLE terms (
    id   INTEGER PRIMARY KEY,
    term TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE postings (
    chunk_seq INTEGER PRIMARY KEY REFERENCES chunks (seq),
    rev       INTEGER NOT NULL,
    place     INTEGER NOT NULL,                      -- seq of its first version: its place in the session
    flags     INTEGER NOT NULL,                      -- 1 asks, 2 says when, 4 without spaces
    speaker   TEXT    NOT NULL,                      -- the name that the text begins with, if any
    terms     BLOB    NOT NULL,                      -- numbers of its terms, each 4 bytes
    weights   BLOB    NOT NULL                       -- how often each, in halves, each 1 byte
) STRICT;
CREATE INDEX postings_rev ON postings (rev);

-- The cues of all texts (cues.py), and for each chunk which of them it has. Nothing is written here
-- unless somebody recalls by cues; then every chunk gets its row, closed ones too, in order.
CREATE TABLE cues (
    id  INTEGER PRIMARY KEY AUTOINCREMENT,           -- never used again: an erased word's is no other's
    cue TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE cue_postings (
    chunk_seq INTEGER PRIMARY KEY REFERENCES chunks (seq),
    cues      BLOB    NOT NULL                       -- numbers of its cues, each 4 bytes
) STRICT;

-- Which chunks are rounds of a conversation (turns.py), and where in the text the answer begins.
CREATE TABLE turns (
    chunk_seq INTEGER PRIMARY KEY REFERENCES chunks (seq),
    round_id  TEXT    NOT NULL,
    asked     INTEGER NOT NULL                       -- characters of what the person said
) STRICT;

-- Entries of the timeline (timeline.py): chunks with five tags, whose text is a summary.
CREATE TABLE timeline (
    chunk_seq  INTEGER PRIMARY KEY REFERENCES chunks (seq),
    category   TEXT NOT NULL,
    expires_at TEXT                                  -- of what is time-sensitive: when it is closed
) STRICT;

-- What an entry sums up, in segments that together are the whole text.
CREATE TABLE contexts (
    chunk_seq INTEGER NOT NULL REFERENCES timeline (chunk_seq),
    part      INTEGER NOT NULL,                      -- 0 for the first segment
    text      TEXT    NOT NULL,
    PRIMARY KEY (chunk_seq, part)
) STRICT;

-- The mean of the vectors of an entry's summary and tags. It is no unit vector, so it is not in
-- `vectors`; entries without one of the file's model get it again.
CREATE TABLE merged_vectors (
    chunk_seq INTEGER PRIMARY KEY REFERENCES timeline (chunk_seq),
    made_by   TEXT NOT NULL,                         -- the mark of the model
    embedding BLOB NOT NULL                          -- float32, little-endian
) STRICT;

-- Which entries were grouped when groups were last looked for; meta has when, and how.
CREATE TABLE timeline_groups (
    group_id  TEXT    NOT NULL,
    chunk_seq INTEGER NOT NULL REFERENCES timeline (chunk_seq),
    PRIMARY KEY (group_id, chunk_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX timeline_groups_chunk ON timeline_groups (chunk_seq);

-- Settings of the timeline for whoever sets them here: config.toml and variables come first.
CREATE TABLE config (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What was changed of names, mentions and relations, in order, so that every process can mend what it
-- has of them in memory (links.py). New relations, and the mentions of new chunks, are known without
-- it. The oldest rows are dropped in time: who is behind them reads everything again.
CREATE TABLE changes (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('chunk', 'entity', 'relation')),
    what ANY  NOT NULL                               -- the chunk's seq, or the id
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

-- Pieces of texts as they stand; rowid is chunks.seq, the text is folded. Closed chunks move to a
-- table of their own: what was forgotten is in no index that current searches read.
CREATE VIRTUAL TABLE trigrams USING fts5 (
    text, content='', contentless_delete=1, detail=none, tokenize='trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE closed_trigrams USING fts5 (
    text, content='', contentless_delete=1, detail=none, tokenize='trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE trigram_terms USING fts5vocab (trigrams, instance);
CREATE VIRTUAL TABLE closed_trigram_terms USING fts5vocab (closed_trigrams, instance);

-- What the text lane searches of a chunk: its text, its tags, its properties and its context. Other
-- programs open this file too: SQLite 3.40 must know every word of this schema.
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

-- What was asked and answered, the best five with their ranks.
CREATE TABLE recall_log (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    query               TEXT    NOT NULL,
    strategy            TEXT    NOT NULL,
    results_json        TEXT    NOT NULL,            -- ids, best first
    recall_details_json TEXT    NOT NULL,            -- rank, chunk_id, method, distance, ...
    graph_hops          INTEGER NOT NULL,
    latency_ms          REAL    NOT NULL,
    client              TEXT    NOT NULL,
    created_at          TEXT    NOT NULL
) STRICT;
CREATE INDEX recall_log_created ON recall_log (created_at);

-- Who changed what, when and why.
CREATE TABLE audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          TEXT NOT NULL,
    client      TEXT NOT NULL,
    action      TEXT NOT NULL,
    target_kind TEXT NOT NULL,
    target_id   TEXT NOT NULL,
    reason      TEXT NOT NULL,
    detail_json TEXT NOT NULL
) STRICT;
CREATE INDEX audit_target ON audit (target_id);
