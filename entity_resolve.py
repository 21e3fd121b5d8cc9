"""Entities that may be one and the same: finding them, and saying why.

Nothing here merges anything. Two entities are candidates when a name or alias of one is that of
the other but for case, width, spacing and signs, when they have the same stock code, or when two
of one kind are spelled nearly alike (difflib, at least 0.85). The search ends after two seconds
and then says that its list is partial. What differs by a number (in digits, Chinese or English) or
by a stock code is never the same: pump 7 is not pump 8.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations

from core.types import EntityNames
from text import words

SAME_NAME = 1.0
SAME_CODE = 0.98
SHARED_ALIAS = 0.95
NEARLY = 0.85  # names less alike than this are different names

MIN_LETTERS = 5  # of names that may be alike by spelling: short ones differ by one letter
MAX_SHARING = 40  # a piece of a name that more entities share is ignored
SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two entities that may be one: `keep` is the one more often mentioned."""

    keep: str
    duplicate: str
    score: float
    reason: str


def find(
    entities: Sequence[EntityNames], threshold: float = NEARLY, seconds: float = SECONDS
) -> tuple[list[Candidate], bool]:
    """Every pair that may be one, surest first, and whether all pairs were looked at in time."""
    deadline = time.monotonic() + seconds
    by_id = {entity.id: entity for entity in entities}
    found: dict[tuple[str, str], tuple[float, str]] = {}
    complete = True
    for first, second, score, reason in _pairs(entities):
        if time.monotonic() > deadline:
            complete = False
            break
        pair = (min(first, second), max(first, second))
        if score > found.get(pair, (0.0, ""))[0]:
            found[pair] = (score, reason)
    candidates = [
        _candidate(by_id[first], by_id[second], score, reason)
        for (first, second), (score, reason) in found.items()
        if score >= threshold and not differ_by_number(by_id[first].names, by_id[second].names)
    ]
    return sorted(candidates, key=lambda each: (-each.score, each.keep, each.duplicate)), complete


def _candidate(first: EntityNames, second: EntityNames, score: float, reason: str) -> Candidate:
    keep, other = sorted((first, second), key=lambda each: (-each.mentions, each.id))
    return Candidate(keep.id, other.id, round(score, 3), reason)


def _pairs(entities: Sequence[EntityNames]) -> Iterator[tuple[str, str, float, str]]:
    """Pairs with a score and a reason: those that share a key first, they are quickly found."""
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entity in entities:
        for shared in _keys(entity):
            keys[shared].append(entity.id)
    own = {entity.id: {squash(name) for name in entity.names[:2]} for entity in entities}
    for (sort, key), ids in keys.items():
        for first, second in combinations(ids, 2):
            if sort == "code":
                yield first, second, SAME_CODE, "code"
            elif key in own[first] and key in own[second]:
                yield first, second, SAME_NAME, "name"
            else:
                yield first, second, SHARED_ALIAS, "alias"
    yield from _alike(entities)


def _keys(entity: EntityNames) -> set[tuple[str, str]]:
    squashed = {("name", squash(name)) for name in entity.names}
    digits = {key.split(".")[0] for name in entity.names[:2] for key in words.code_keys(name)}
    codes = {("code", each) for each in digits}
    return {key for key in squashed | codes if key[1]}


def _alike(entities: Sequence[EntityNames]) -> Iterator[tuple[str, str, float, str]]:
    """Entities of one kind whose ids or names are spelled alike; compared if they share a piece."""
    names = {
        entity.id: [name for name in map(squash, entity.names[:2]) if len(name) >= MIN_LETTERS]
        for entity in entities
    }
    pieces = {
        entity.id: {p for name in names[entity.id] for p in _pieces(name)} for entity in entities
    }
    sharing: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entity in entities:
        for piece in pieces[entity.id]:
            sharing[entity.kind, piece].append(entity.id)
    seen: set[tuple[str, str]] = set()
    for ids in sorted(sharing.values(), key=len):
        for first, second in combinations(sorted(ids), 2) if len(ids) <= MAX_SHARING else ():
            a, b = pieces[first], pieces[second]
            # Three letters in a row are quickly compared, and one slip spoils at most three rows.
            if (first, second) not in seen and len(a & b) * 6 >= len(a) + len(b):
                spellings = (_ratio(one, other) for one in names[first] for other in names[second])
                yield first, second, max(spellings, default=0.0), "spelling"
            seen.add((first, second))


def _pieces(name: str) -> set[str]:
    return {name[at : at + 3] for at in range(len(name) - 2)}


def _ratio(first: str, second: str) -> float:
    """How much of two names is the same letters in the same order, 0 to 1."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    close = matcher.real_quick_ratio() >= NEARLY and matcher.quick_ratio() >= NEARLY
    return matcher.ratio() if close else 0.0


# --- Names and numbers -----------------------------------------------------------------


def squash(name: str) -> str:
    """The letters and digits of a name, folded.

    >>> squash("Ｂlue-Heron  Ltd."), squash("C++")
    ('blueheronltd', 'c++')
    """
    folded = words.fold(name)
    return "".join(filter(str.isalnum, folded)) if len(folded) > 3 else folded.strip()


_NUMERALS = {char: str(number) for number, char in enumerate("零一二三四五六七八九十")} | {
    "两": "2"
}
_CARDINALS = "zero one two three four five six seven eight nine ten"
_ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth"
_ROMANS = "nulla i ii iii iv v vi vii viii ix x"
_WORDS = {
    word: str(number)
    for row in (_CARDINALS, _ORDINALS, _ROMANS)
    for number, word in enumerate(row.split())
}
_NUMBER = re.compile(rf"\d+|[{''.join(_NUMERALS)}百千]+|(?<![a-z])(?:{'|'.join(_WORDS)})(?![a-z])")


def numbers(name: str) -> tuple[tuple[str, ...], str]:
    """The numbers in a name, said in digits, Chinese or English, and what is left without them.

    >>> numbers("Pump 07"), numbers("第二医院"), numbers("Phase II")
    ((('7',), 'pump'), (('2',), '第医院'), (('2',), 'phase'))
    """
    folded = words.fold(name)
    said = tuple(
        match.lstrip("0") or "0"
        if match.isdecimal()
        else _NUMERALS.get(match, _WORDS.get(match, match))
        for match in _NUMBER.findall(folded)
    )
    return said, squash(_NUMBER.sub(" ", folded))


def differ_by_number(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two entities, by their ids and names, are alike but for a number or a stock code.

    >>> differ_by_number(["QLS-2"], ["QLS 3"]), differ_by_number(["QLS-2"], ["qls 2"])
    (True, False)
    >>> differ_by_number(["sh600089"], ["sz600089"]), differ_by_number(["Pump"], ["Pump 7"])
    (True, True)
    """
    one, other = _exchange_codes(first), _exchange_codes(second)
    if one and other and not one & other:
        return True
    for a in map(numbers, first[:2]):
        for b in map(numbers, second[:2]):
            if a[0] != b[0] and (a[1] == b[1] or _ratio(a[1], b[1]) >= NEARLY):
                return True
    return False


def _exchange_codes(names: Sequence[str]) -> set[str]:
    keys = {key for name in names[:2] for key in words.code_keys(name) if "." in key}
    return {key for key in keys if not key.endswith(words.ANY_EXCHANGE)}
