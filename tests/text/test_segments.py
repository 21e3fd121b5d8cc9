"""Long texts in segments: nothing lost, nothing broken that belongs together, good places first."""

import re
from itertools import accumulate

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from text.segments import HARD_LIMIT, cut

PARAGRAPH = "The depot in Riga opens on Mondays. Nobody is there before nine! "
LINES = "".join(f"line {number} of the code\n" for number in range(60))
PIECES = [
    *("# Title\n", "\n## Part\n", "###### Deep\n\n", "#hashtag\n", "# \n"),
    *(
        "```python\n# no heading\n\nx = 1\n```\n",
        "~~~\nopen\n",
        "````\n```\n````\n",
        "   ```\n",
        "```\n",
    ),
    *("\n", "\n\n", "\r\n", "\r\n\r\n", " ", "    ", "\t", "\u3000", "\r"),
    *("- item one\n", "1. first\n", "  * nested\n", "一、要点\n"),
    *(PARAGRAPH, "他在写代码。今天下雨！真的吗？", "中文", "word", "e\u0301", "\u0301", "।"),
    *("👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "🇩", "👍🏽", "\u200d", "각", "\u1100\u1161\u11a8", "क्षि", "\u0600", "1️⃣"),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=60).map("".join)
FENCED = re.compile(r"^ {0,3}(`{3,})[^`\n]*\n(?:.*\n)*? {0,3}\1`*[ \t]*$\n?", re.M)


def ends(segments: list[str]) -> list[int]:
    return list(accumulate(map(len, segments)))


@given(TEXTS, st.sampled_from([1, 2, 7, 40, 150, HARD_LIMIT]))
def test_segments_joined_are_the_text_and_no_character_is_broken(text: str, size: int) -> None:
    segments = cut(text, size)
    assert "".join(segments) == text
    assert all(0 < len(segment) <= HARD_LIMIT for segment in segments)
    whole = {match.end() for match in regex.finditer(r"\X", text)}
    assert whole.issuperset(ends(segments))


@given(
    TEXTS, st.lists(st.sampled_from(["\n# ", "\n~~~", "\n\n", "\n- ", "。", "👍", "中", ", ", ""]))
)
def test_any_separators_leave_the_text_whole(text: str, separators: list[str]) -> None:
    segments = cut(text, 20, separators)
    assert "".join(segments) == text
    assert {match.end() for match in regex.finditer(r"\X", text)}.issuperset(ends(segments))


@given(st.lists(st.sampled_from(["```\nx\n\ny z\n```\n", "# a\n", "b. c\n", "\n", "~~~\n~~~\n"])))
def test_fenced_code_is_never_broken(pieces: list[str]) -> None:
    text = "".join(pieces)
    inside = {at for match in FENCED.finditer(text) for at in range(match.start() + 1, match.end())}
    for size in (1, 9, 30):
        assert not inside.intersection(ends(cut(text, size)))


@given(st.lists(st.sampled_from(["# a\n", "## b\n\n", "some words here\n", "more\n\n", "- x\n"])))
def test_a_heading_stays_with_what_follows_it(pieces: list[str]) -> None:
    for segment in cut("".join(pieces) + "end of all", 60)[:-1]:
        assert not re.search(r"^#+ [ab]\s*\Z", segment, re.M)


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("", 10, []),
        ("short", 10, ["short"]),
        # A heading before a paragraph, whatever its level, and the blank lines before both.
        ("one one\n\ntwo\n\n###### Six\nthree", 20, ["one one\n\ntwo\n\n", "###### Six\nthree"]),
        ("a b c d\n\ne f\ng h i j", 15, ["a b c d\n\n", "e f\ng h i j"]),
        # An item of a list before a line that goes on.
        ("- one\n  more\n- two\n  more", 20, ["- one\n  more\n", "- two\n  more"]),
        ("1、甲乙丙\n丁戊己\n2、庚辛\n壬癸子丑", 16, ["1、甲乙丙\n丁戊己\n", "2、庚辛\n壬癸子丑"]),
        # Sentences before words, in either language.
        ("It rained. We left for Riga.", 18, ["It rained. ", "We left for Riga."]),
        ('"Go!" he said.', 10, ['"Go!" ', "he said."]),
        ("今天下雨了。我们没去里加", 10, ["今天下雨了。", "我们没去里加"]),
        ("“走吧！”他说完就走了", 8, ["“走吧！”", "他说完就走了"]),
        ("version 1.2.3 of it all", 14, ["version 1.2.3 ", "of it all"]),
        # White space stays with what is before it, indentation with its line.
        ("abcd      efgh ijk", 8, ["abcd      ", "efgh ijk"]),
        ("if a:\n        b\n        c", 12, ["if a:\n", "        b\n", "        c"]),
        ("abcdefgh\n\n\n\nijklmnop", 9, ["abcdefgh\n\n\n\n", "ijklmnop"]),
        # No crumb at the end, and none where there is no boundary.
        ("x" * 101, 100, ["x" * 76, "x" * 25]),
        ("a " + "x" * 30, 20, ["a " + "x" * 18, "x" * 12]),
        ("👩‍👩‍👧‍👦" * 2, 3, ["👩‍👩‍👧‍👦"] * 2),
    ],
)
def test_the_best_place_that_fits_is_taken(text: str, size: int, expected: list[str]) -> None:
    assert cut(text, size) == expected


def test_an_earlier_separator_is_a_better_place() -> None:
    text = "one, two\nthree, four, five"
    assert cut(text, 18, ["\n", ", "]) == ["one, two\n", "three, four, five"]
    assert cut(text, 18, [", ", "\n"]) == ["one, two\nthree, ", "four, five"]
    assert cut("one\n--- two\n--- three", 16, ["\n--- "]) == ["one\n--- two\n", "--- three"]
    assert cut("一二三丨四五六丨七", 6, ["丨"]) == ["一二三丨", "四五六丨七"]


def test_sentences_and_then_whole_characters_are_the_last_resort_of_any_separators() -> None:
    assert cut("One two. Three four five", 12, ["|"]) == ["One two. ", "Three four f", "ive"]
    assert cut("one two three", 8, []) == ["one two ", "three"]


def test_fenced_code_longer_than_the_size_is_a_segment_with_what_fits() -> None:
    code = f"```python\n# no heading\n\n{LINES}```\n"
    before, after = PARAGRAPH * 10, PARAGRAPH * 10
    for fence in (code, code.replace("```", "~~~~"), code.replace("```", "   ```")):
        assert cut(f"{before}\n{fence}\n{after}", 700)[1] == fence + "\n"
        # Its own heading is not left alone before it, nor a few words behind it.
        assert cut(f"{before}\n# Code\n\n{fence}\n{after}", 700)[1] == f"# Code\n\n{fence}\n"
        assert cut(f"{before}\n{fence}That is all.", 700)[1] == f"{fence}That is all."


def test_a_shorter_fence_inside_is_part_of_the_code_and_an_open_one_goes_to_the_end() -> None:
    outer = f"````\n{LINES}```\n{LINES}```\nmore\n````\n"
    assert outer in cut(PARAGRAPH * 10 + "\n" + outer + PARAGRAPH * 10, 500)
    opened = f"```\n{LINES}\n\n# comment\n{LINES}"
    assert cut(PARAGRAPH * 10 + "\n" + opened, 500)[-1] == opened


def test_code_too_long_for_one_segment_is_broken_at_lines_and_blank_lines_first() -> None:
    code = "```\n" + (LINES[:900].rpartition("\n")[0] + "\n\n") * 20 + "```\n"
    segments = cut(code, 1000)
    assert all(segment.endswith("\n\n") for segment in segments[:-1])
    long_line = "```\n" + "word " * 600 + "\n" + "word " * 1500 + "\n```\n"
    assert list(map(len, cut(long_line, 1000))) == [3005, 7501, 4]
    endless = "```\n" + "x" * 20_000
    assert max(map(len, cut(endless, 1000))) == 1000


def test_one_character_beyond_the_limit_is_cut_at_the_limit() -> None:
    assert list(map(len, cut("a" + "\u0301" * 20_000, 100))) == [8000, 8000, 4001]


@pytest.mark.parametrize("size", [0, -1, HARD_LIMIT + 1])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and {HARD_LIMIT}"):
        cut("text", size)


@pytest.mark.parametrize(
    "unit",
    ["x", "\n", "```\n", "\u0301", "🇩🇪", " ", "# a\n", "。”", ". ", " \u0301", "`", "#\n\n"],
)
def test_a_long_text_of_one_thing_only_is_cut_before_the_time_limit_of_a_test(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert "".join(cut(text)) == text
