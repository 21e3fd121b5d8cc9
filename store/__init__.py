"""Where memories are kept. This face is all that the rooms above may import."""

from store.sqlite.connections import LARGE_LOG
from store.sqlite.copies import Counts, copy_file, examine_copy, held_alone
from store.sqlite.cue_snapshots import CueSettings
from store.sqlite.cues import cue_names, index_cues, recall_by_cues, uncued_count
from store.sqlite.erase import Erasing, Found
from store.sqlite.export import export_rows, held_records, imported_texts, live_texts
from store.sqlite.inspector import Inspector
from store.sqlite.intake import Intake, Outcome
from store.sqlite.migrations import SCHEMA_VERSION
from store.sqlite.next_vectors import NextVectors, WaitingText
from store.sqlite.snapshots import Held
from store.sqlite.store import SqliteStore
from store.sqlite.timeline import (
    EntryMatrix,
    EntryRow,
    NewEntry,
    close_overdue,
    config_table,
    entries_at,
    entries_latest,
    entries_now,
    entries_of_group,
    entry,
    entry_counts,
    entry_matrix,
    expire_entry,
    groups,
    lasting,
    put_context,
    put_entry,
    put_groups,
    put_merged,
    segments,
    told_of_groups,
    unmerged,
    unmerged_count,
)
from store.sqlite.turns import (
    TurnRow,
    close_turns,
    put_turn,
    turn_sessions,
    turn_versions,
    turns_at,
    turns_of,
)
from store.sqlite.view import View

__all__ = [
    "LARGE_LOG",
    "SCHEMA_VERSION",
    "Counts",
    "CueSettings",
    "EntryMatrix",
    "EntryRow",
    "Erasing",
    "Found",
    "Held",
    "Inspector",
    "Intake",
    "NewEntry",
    "NextVectors",
    "Outcome",
    "SqliteStore",
    "TurnRow",
    "View",
    "WaitingText",
    "close_overdue",
    "close_turns",
    "config_table",
    "copy_file",
    "cue_names",
    "entries_at",
    "entries_latest",
    "entries_now",
    "entries_of_group",
    "entry",
    "entry_counts",
    "entry_matrix",
    "examine_copy",
    "expire_entry",
    "export_rows",
    "groups",
    "held_alone",
    "held_records",
    "imported_texts",
    "index_cues",
    "lasting",
    "live_texts",
    "put_context",
    "put_entry",
    "put_groups",
    "put_merged",
    "put_turn",
    "recall_by_cues",
    "segments",
    "told_of_groups",
    "turn_sessions",
    "turn_versions",
    "turns_at",
    "turns_of",
    "uncued_count",
    "unmerged",
    "unmerged_count",
]
