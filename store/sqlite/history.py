"""The audit, read: what was done, by whom, and whether it can be undone."""

import json
from typing import Any

import apsw

from store.sqlite.row_changes import tells_undo, without_rows
from store.sqlite.statements import fetch_all, to_json, versions_of

UNDONE_BY = """
    (SELECT u.id FROM audit u WHERE u.action = 'undo' AND u.target_id = CAST(a.id AS TEXT))
"""
RECORD_COLUMNS = (
    *("audit_id", "at", "client", "action", "kind", "target", "reason", "detail", "undone_by"),
)
RECORDS = f"""
    SELECT a.id, a.at, a.client, a.action, a.target_kind, a.target_id, a.reason, a.detail_json,
        {UNDONE_BY}
    FROM audit a
    WHERE (:ids IS NULL OR a.target_id IN (SELECT value FROM json_each(:ids)))
    AND (:action IS NULL OR a.action = :action)
    ORDER BY a.id DESC LIMIT :limit
"""


def read_history(
    db: apsw.Connection, limit: int, target: str | None, action: str | None
) -> list[dict[str, Any]]:
    """The newest records of the audit, of one target or action where that is named."""
    ids = None if target is None else to_json([target, *versions_of(db, target)])
    bound = {"ids": ids, "action": action, "limit": limit}
    rows = fetch_all(db, RECORDS, bound)
    return [_shown_record(dict(zip(RECORD_COLUMNS, row, strict=True))) for row in rows]


def _shown_record(row: dict[str, Any]) -> dict[str, Any]:
    detail = json.loads(row["detail"])
    can_undo = row["undone_by"] is None and tells_undo(row["action"], detail)
    return row | {"detail": without_rows(detail), "can_undo": can_undo}
