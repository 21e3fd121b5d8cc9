"""The log of recalls, and how often each row was recalled."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from core.types import LogEntry

INSERT_LOG = """
    INSERT INTO recall_log (
        query, strategy, results_json, recall_details_json, graph_hops, latency_ms, client,
        created_at
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

_COUNTED = """
    UPDATE {0} SET recall_count = recall_count + ?, last_recalled = ?
    WHERE id = ? AND valid_until IS NULL
"""
COUNT_CHUNKS, COUNT_ENTITIES = _COUNTED.format("chunks"), _COUNTED.format("entities")


def log_row(entry: LogEntry) -> tuple[Any, ...]:
    """What INSERT_LOG binds for one recall."""
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


def recalled_rows(entries: Sequence[LogEntry], prefix: str) -> list[tuple[int, str, str]]:
    """How often and when last each row of one table was returned, and its id, as COUNT_... bind it.

    The prefix is what keys of that table have in results.
    """
    times = [
        (key.removeprefix(prefix), entry.created_at)
        for entry in entries
        for key in entry.results
        if key.startswith("entity:") == bool(prefix)
    ]
    counts, last = Counter(key for key, _ in times), dict(times)
    return [(counts[key], last[key], key) for key in sorted(counts)]
