"""A file from anywhere: it is refused by name, and nothing that it says is done."""

from pathlib import Path

import apsw
import pytest

from inside import sqlite_of
from memories import Open


def test_no_connection_of_a_memory_reaches_another_file(open_memory: Open, tmp_path: Path) -> None:
    store = sqlite_of(open_memory())
    sql = f"ATTACH '{tmp_path / 'other.db'}' AS other"
    with store.write_connection() as db, pytest.raises(apsw.SQLError, match="too many attached"):
        db.execute(sql)
    with store.reader() as db, pytest.raises(apsw.SQLError, match="too many attached"):
        db.execute(sql)
    with store.keeping() as db, pytest.raises(apsw.SQLError, match="too many attached"):
        db.execute(sql)
