"""Sources, speakers and sessions as numbers, found by their names."""

from collections.abc import Iterable, Sequence

from text import words

NOBODY = "manual"  # the source of whoever names none
UNKNOWN = -1  # the number of no name


class Names:
    """Gives names the numbers 0, 1, ... in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._named: dict[str, list[int]] = {}  # by key; without names that are their own keys
        self._same: dict[str, list[int]] = {}  # of sources

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, name: str) -> int:
        """The number of a name; a new one for a new name."""
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._numbers)
            key = words.name_key(name)
            self._keys.append(name if key == name else key)  # one text in memory, not two
            if key != name:
                self._named.setdefault(key, []).append(known)
        return known

    def numbers(self, names: Sequence[str]) -> list[int]:
        """The number of each name."""
        numbers = {name: self.number(name) for name in dict.fromkeys(names)}
        return [numbers[name] for name in names]

    def of_sources(self, names: Sequence[str]) -> list[int]:
        """The numbers of sources, which are also found in upper or lower case."""
        for name in dict.fromkeys(names):
            same = self._same.setdefault(_ascii_lower(name), [])
            if self.number(name) not in same:
                same.append(self.number(name))
        return self.numbers(names)

    def of_speakers(self, names: Sequence[str]) -> list[int]:
        """The numbers of speakers; speakers with the same key are the same."""
        keys = {name: words.name_key(name) for name in dict.fromkeys(names)}
        return self.numbers([name if keys[name] == NOBODY else keys[name] for name in names])

    def having(self, part: str, numbers: Iterable[int]) -> list[int]:
        """The numbers whose folded name contains a text."""
        return [number for number in numbers if part in self._keys[number]]

    def known(self, name: str) -> int:
        return self._numbers.get(name, UNKNOWN)

    def same(self, source: str) -> list[int]:
        """The numbers of a source in any case, compared like SQLite's NOCASE."""
        return self._same.get(_ascii_lower(source), [])

    def named(self, keys: Iterable[str]) -> list[list[int]]:
        """The numbers of each key (see words.name_keys) that is a name."""
        groups = []
        for key in keys:
            itself = [self._numbers[key]] if key in self._numbers and key != NOBODY else []
            groups.append(itself + self._named.get(key, []))
        return [group for group in groups if group]


def _ascii_lower(text: str) -> str:
    return text.encode().lower().decode()
