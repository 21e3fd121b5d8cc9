"""Rows of an import that are written together.

Which keys and numbers are in use is asked once for a whole batch. Most rows are new, so only few
have to be looked for one by one.
"""

from collections.abc import Sequence
from typing import Any

import apsw

from store.sqlite.statements import fetch_all, to_json


class NewRows:
    """Collects the rows of one transaction, gives them numbers, and writes them together."""

    def __init__(
        self,
        db: apsw.Connection,
        statements: tuple[str, str, str],
        keys: Sequence[Any],
        numbers: Sequence[int | None],
        bounds: tuple[int, int],
    ) -> None:
        """`statements` are three: to insert a row, to find which of `numbers` are in use, and to
        find at which places of `keys` there is one in use. `bounds` are the highest number in
        use, and the highest that is kept."""
        self._db, (self._last, self._most) = db, bounds
        self._insert, taken, there = statements
        self._rows: list[dict[str, Any]] = []
        self._taken = {row[0] for row in fetch_all(db, taken, (to_json(numbers),))}
        self._keys = {keys[place] for (place,) in fetch_all(db, there, (to_json(keys),))}

    def may_have(self, key: Any) -> bool:
        """Whether there may be rows with that key; if so, they are in the file afterwards."""
        if key not in self._keys:
            return False
        self.write()
        return True

    def add(
        self, key: Any, rows: Sequence[dict[str, Any]], numbers: Sequence[int | None]
    ) -> list[int]:
        """Collect new rows that belong together; their numbers.

        They keep the numbers that they had if all of these are free, in order and not too high,
        else they get the next ones.
        """
        given = [number for number in numbers if number is not None]
        in_order = len(given) == len(rows) and given == sorted(set(given))
        too_high = max(given, default=0) > self._most
        if too_high or not in_order or not self._taken.isdisjoint(given):
            given = list(range(self._last + 1, self._last + 1 + len(rows)))
        self._taken.update(given)
        self._last = max(self._last, *given)
        self._keys.add(key)
        for row, number in zip(rows, given, strict=True):
            row["number"] = number
        self._rows += rows
        return given

    def write(self) -> None:
        self._db.executemany(self._insert, self._rows)
        self._rows = []
