"""A long text cut into segments at natural boundaries, nothing lost between them.

All boundaries of the text are found beforehand, one list of places for each kind; each segment then
ends at the last place of the best kind that fits. Fenced code stays whole, and so does whatever a
reader sees as one character.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import regex

from config import SEPARATORS

HARD_LIMIT = 8000  # no segment has more characters than this


def cut(text: str, size: int = 1800, separators: Sequence[str] = SEPARATORS) -> list[str]:
    r"""The segments of a text, each about `size` characters long; joined they are the text.

    Fenced code up to HARD_LIMIT is never broken, so its segment may be longer. A size that is
    not between 1 and HARD_LIMIT is a ValueError.

    >>> cut("# One\nFirst. Second.\n# Two\nThird. Fourth.\n", size=24)
    ['# One\nFirst. Second.\n', '# Two\nThird. Fourth.\n']
    """
    if not 1 <= size <= HARD_LIMIT:
        raise ValueError(f"size must be between 1 and {HARD_LIMIT}, not {size}")
    if len(text) <= size:
        return [text] if text else []
    places = _places(text, separators)
    segments, start = [], 0
    while start < len(text):
        end = _end(text, start, size, places)
        segments.append(text[start:end])
        start = end
    return segments


# --- Where a segment ends --------------------------------------------------------------


class _Span(NamedTuple):
    """A stretch of a text; a cut at its start or its end does not break it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a text may be cut: for each kind of boundary, the best first, its places in order.

    `kept` has only those that leave a heading with what follows it. `code` has blank lines and
    lines inside of fences that are too long to stay whole.
    """

    kept: list[list[int]]
    loose: list[list[int]]
    code: list[list[int]]
    fences: list[_Span]


def _end(text: str, start: int, size: int, places: _Places) -> int:
    if len(text) - start <= size:
        return len(text)
    # What is left for the last segment is no mere crumb.
    full = min(start + size, len(text) - size // 4)
    half, quarter = start + max(1, size // 2), start + max(1, size // 4)
    end = _best(places.kept, half, full) or _best(places.kept, quarter, full)
    fence = _around(places.fences, full)
    if not end and fence:
        if fence.end - fence.start <= HARD_LIMIT:
            return _end_by_fence(text, start, size, fence, places)
        return _end_in_code(text, start, full, places.code)
    end = end or _best(places.loose, quarter, full) or _whole_characters(text, start, full)
    return _past_space(text, end, min(size, start + HARD_LIMIT - end))


def _best(kinds: Iterable[list[int]], low: int, high: int) -> int:
    """The last place of the best kind from low to high, or 0."""
    for places in kinds:
        at = bisect_right(places, high) - 1
        if at >= 0 and places[at] >= low:
            return places[at]
    return 0


def _around(spans: Sequence[_Span], place: int) -> _Span | None:
    """The span that a cut at this place would break; spans are in order and apart."""
    at = bisect_left(spans, (place, 0)) - 1
    return spans[at] if at >= 0 and place < spans[at].end else None


def _end_by_fence(text: str, start: int, size: int, fence: _Span, places: _Places) -> int:
    """Behind the fenced code in which a segment is full, or before it if that is too far."""
    limit = start + HARD_LIMIT
    if fence.end > limit:
        return _best(places.kept, start + 1, fence.start) or fence.start
    if len(text) <= limit and len(text) - fence.end < size // 4:
        return len(text)
    return _past_space(text, fence.end, min(size, limit - fence.end))


def _end_in_code(text: str, start: int, full: int, code: list[list[int]]) -> int:
    """At a line's end, even if the line is long; blank lines are better."""
    _, lines = code
    quarter = start + max(1, (full - start) // 4)
    end = _best(code, (start + full) // 2, full) or _best([lines], quarter, full)
    after = bisect_right(lines, full)
    if not end and after < len(lines) and lines[after] <= start + HARD_LIMIT:
        return lines[after]
    return end or _best([lines], start + 1, full) or _whole_characters(text, start, full)


def _past_space(text: str, end: int, most: int) -> int:
    """The end moved past the white space that follows it, by `most` characters at most.

    The indentation of a line stays with its line.
    """
    after = _SPACE.match(text, end, end + most + 1)
    if not after or after.end() > end + most:
        return end
    if after.end() == len(text):
        return len(text)
    moved = text.rfind("\n", end - 1, after.end()) + 1 or after.end()
    return moved if _APART.match(text, moved) else end


# --- Characters as a reader sees them ----------------------------------------------------


def _classes(*names: str) -> str:
    return "".join(rf"\p{{Grapheme_Cluster_Break={name}}}" for name in names)


_SURELY_APART = (
    f"(?<![{_classes('Extend', 'ZWJ', 'Prepend', 'L', 'Regional_Indicator')}])"
    f"(?![{_classes('Extend', 'ZWJ', 'SpacingMark', 'V', 'T')}])"
    r"(?!(?<=\r)\n)"
)
"""A place between two characters, whatever stands farther away."""
_APART = regex.compile(_SURELY_APART)
_CHARACTER = regex.compile(r"\X")
_SPACE = re.compile(r"\s+")
_USUAL = 64  # code points: hardly a character has more


def _whole_characters(text: str, start: int, full: int) -> int:
    """The last place up to `full` that breaks no character, or the end of the only one there."""
    at = full
    while at > start and not _APART.match(text, at):
        at -= 1
    end = at
    while end <= full:
        at, end = end, _character_end(text, end)
    return at if at > start else min(end, start + HARD_LIMIT)


def _character_end(text: str, start: int) -> int:
    """Where the character ends that begins here, or a place more than HARD_LIMIT behind.

    Of a slice, since the engine looks back over all flags that stand before one.
    """
    end = start
    for reach in (_USUAL, HARD_LIMIT + 1):
        found = _CHARACTER.match(text[start : start + reach])
        end = start + found.end()
        if found.end() < reach:
            break
    return end


# --- Kinds of boundaries -----------------------------------------------------------------

_HEADING_LINE = re.compile(r"^ {0,3}#{1,6}(?:[ \t][^\n]*)?\r?(?:\n(?:[^\S\n]*\n)*|\Z)", re.M)
"""With the blank lines after it."""
_FENCE_LINE = re.compile(r"^ {0,3}(?P<mark>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>[^\n]*)\n?", re.M)
_HEADING_SEPARATOR = re.compile(r"\n#{1,6} ?")
_FENCE_SEPARATOR = re.compile(r"\n(?:`{3,}|~{3,})")

_LINE = re.compile(r"\n")
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_LIST_ITEM = re.compile(
    r"^(?=[ \t]*(?:(?:[-*+•]|[0-9]{1,9}[.)])[ \t]"
    r"|(?:[0-9]{1,3}|[一二三四五六七八九十]{1,3})[、．]))",
    re.M,
)
_CLOSING = '”’」』）】"'
_SENTENCE = regex.compile(
    rf"(?:(?<=[.!?])|(?<=[.!?][{_CLOSING}')\]]))\s+(?=\S){_SURELY_APART}"
    rf"|(?<=[。！？；…])[{_CLOSING}]{{0,2}}[^\S\n]*+(?![。！？；…{_CLOSING}\s]){_SURELY_APART}"
)
_SPACES = regex.compile(rf"(?<=\S)\s+(?=\S){_SURELY_APART}")
_PATTERNS: dict[str, tuple[Any, ...]] = {
    "\n\n": (_BLANK_LINES,),
    "\n": (_LIST_ITEM, _LINE),
    " ": (_SENTENCE, _SPACES),
}


def _places(text: str, separators: Sequence[str]) -> _Places:
    fences = list(_fences(text))
    headings = [_Span(*match.span()) for match in _HEADING_LINE.finditer(text)]
    starts = set(_outside([heading.start for heading in headings], fences))
    headings = [heading for heading in headings if heading.start in starts]
    loose = [
        _outside(places, fences) for places in _kinds(text, separators, fences, sorted(starts))
    ]
    guarded = [_Span(heading.start, heading.end + 1) for heading in headings]
    kept = [_outside(places, guarded) for places in loose]
    long = [fence for fence in fences if fence.end - fence.start > HARD_LIMIT]
    code = [
        [match.end() for fence in long for match in pattern.finditer(text, *fence)]
        for pattern in (_BLANK_LINES, _LINE)
    ]
    return _Places(kept, loose, code, fences)


def _kinds(
    text: str, separators: Sequence[str], fences: Sequence[_Span], headings: list[int]
) -> Iterator[list[int]]:
    """The places of each kind of boundary in order, the best kind first."""
    for separator in separators:
        if _HEADING_SEPARATOR.fullmatch(separator):
            yield headings
        elif _FENCE_SEPARATOR.fullmatch(separator):
            yield sorted({edge for fence in fences for edge in fence})
        else:
            for pattern in _PATTERNS.get(separator) or (_literal(separator),):
                yield [match.end() for match in pattern.finditer(text)]
    if " " not in separators:
        yield [match.end() for match in _SENTENCE.finditer(text)]


def _literal(separator: str) -> Any:
    """Matches up to the place of a cut: line breaks at its beginning end the segment before."""
    tail = separator.lstrip("\n")
    breaks = separator[: len(separator) - len(tail)]
    pattern = f"{breaks}(?={regex.escape(tail)})" if breaks else regex.escape(tail)
    return regex.compile(pattern + _SURELY_APART)


def _fences(text: str) -> Iterator[_Span]:
    """Each fenced block with both its fences; one that is never closed goes to the end."""
    start, mark = 0, ""
    for match in _FENCE_LINE.finditer(text):
        if not mark:
            start, mark = match.start(), match["mark"]
        elif match["mark"].startswith(mark) and not match["info"].strip():
            yield _Span(start, match.end())
            mark = ""
    if mark:
        yield _Span(start, len(text))


def _outside(places: Iterable[int], spans: Sequence[_Span]) -> list[int]:
    """The places, in order, where a cut breaks none of the spans, which are in order too."""
    outside, at = [], 0
    for place in places:
        while at < len(spans) and spans[at].end <= place:
            at += 1
        if at == len(spans) or place <= spans[at].start:
            outside.append(place)
    return outside
