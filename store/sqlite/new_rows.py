"""Rows of an import that are written together."""

from collections.abc import Sequence
from typing import Any

import apsw

from store.sqlite.statements import fetch_all, to_json


class NewRows:
    """Rows of one transaction, which are written together.

    Which of them may be there already is asked of all at once, and most are not: only those that
    may be need to be looked for one by one.
    """

    def __init__(
        self,
        db: apsw.Connection,
        statements: tuple[str, str, str],
        keys: Sequence[Any],
        numbers: Sequence[int | None],
        last: int,
    ) -> None:
        """`statements` put a row in, tell which of these numbers are taken, and at which places
        of `keys` one stands that rows have; `last` is the highest number there was."""
        self._db, self._last = db, last
        self._put, taken, there = statements
        self._rows: list[dict[str, Any]] = []
        self._taken = {row[0] for row in fetch_all(db, taken, (to_json(numbers),))}
        self._keys = {keys[place] for (place,) in fetch_all(db, there, (to_json(keys),))}

    def may_have(self, key: Any) -> bool:
        """Whether there may be rows with that key, which then are in the file."""
        if key not in self._keys:
            return False
        self.write()
        return True

    def add(
        self, key: Any, rows: Sequence[dict[str, Any]], numbers: Sequence[int | None]
    ) -> list[int]:
        """Note new rows that belong together; their numbers.

        These are the ones they had, if all are free and in order, else the next ones.
        """
        given = [number for number in numbers if number is not None]
        in_order = len(given) == len(rows) and given == sorted(set(given))
        if not in_order or not self._taken.isdisjoint(given):
            given = list(range(self._last + 1, self._last + 1 + len(rows)))
        self._taken.update(given)
        self._last = max(self._last, *given)
        self._keys.add(key)
        for row, number in zip(rows, given, strict=True):
            row["number"] = number
        self._rows += rows
        return given

    def write(self) -> None:
        self._db.executemany(self._put, self._rows)
        self._rows = []
