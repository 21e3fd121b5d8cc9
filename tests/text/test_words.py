"""Folding, terms, names and stock codes: examples, laws, and texts made to break them."""

import unicodedata
from itertools import combinations, groupby
from operator import itemgetter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from text import words
from text.words import (
    code_keys,
    codes,
    fold,
    has_folded_name,
    identity,
    index_terms,
    is_common,
    literals,
    lookup_keys,
    name_keys,
    query_terms,
    tells_time,
    tokens,
    word_starts,
)

HOSTILE = [
    "",
    " \t\n",
    "\x00",
    "a\x00b",
    "e\u0301\u0301\u0301" * 50,
    "\u0301\u0301",
    "👨‍👩‍👧‍👦 🇨🇳 👍🏽 ❤️",
    "שָׁלוֹם עולם",
    "\u202eevil\u202c مرحبا بالعالم",
    "\u200b\u2060\ufeff",
    "ﷺ ﬁ ½ Ⅷ ㍿ ㌀",
    "ẞ ß ſ İ ı ͅ",
    "\U000e0041\ue000\U0010ffff",
    "\ud800 lone \udfff",
    "' OR 1=1 -- \" * NEAR ( ) ^ :",
    "%_\\[]{}$^.*+?()|",
    "हिन्दी ไทย ខ្មែរ မြန်မာ 한국어 ひらがな カタカナ",
    "a" * 3000,
    "北" * 3000,
    "a b " * 1000,
    "600089" * 100,
]

anything = st.text(max_size=60) | st.text("ab 北门東한ไ'&.#-٠é\u0301ß1", max_size=40)
CJK = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF) | st.characters(
    min_codepoint=0x20000, max_codepoint=0x2A6DF
)


# --- Folding ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "CAFE\u0301"),
        ("ＳＨ６０００８９", "sh600089"),
        ("Straße", "STRASSE"),
        ("ﬁrst", "first"),
        ("Zażółć", "zazołc"),  # a stroke is a letter of its own, no accent
        ("İstanbul", "istanbul"),
        ("Ⅷ", "viii"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("모두", unicodedata.normalize("NFD", "모두")),
        ("مُحَمَّد أحمد", "محمد احمد"),
        ("שָׁלוֹם", "שלום"),
    ],
)
def test_spellings_of_the_same_word_fold_to_one(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("北门", "北門"), ("が", "か"), ("हिन्दी", "हनद"), ("ø", "o"), ("a b", "ab"), ("c#", "c")],
)
def test_different_words_stay_different(one: str, other: str) -> None:
    assert fold(one) != fold(other)


@given(anything)
@example("\u0345\u1fb3")
@example("ΐ\u0390")
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(anything)
def test_how_a_text_is_composed_makes_no_difference(text: str) -> None:
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Blue  Heron", " blue heron ", True),
        ("ＱＬＳ", "qls", True),
        ("a\u3000b", "A B", True),
        ("Café", "Cafe", False),
        ("blue heron", "blueheron", False),
    ],
)
def test_ids_are_the_same_but_for_case_width_and_spaces(one: str, other: str, same: bool) -> None:
    assert (identity(one) == identity(other)) is same


# --- Terms -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The quick-brown fox_trot", ["the", "quick", "brown", "fox", "trot"]),
        ("北门", ["北", "门", "北门"]),
        ("去QLS开会", ["去", "qls", "开", "会", "开会"]),
        ("3.5% of $40", ["3", "5", "of", "40"]),
        ("I ❤ NY 🚀🚀", ["i", "❤", "ny", "🚀", "🚀"]),
        ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
        ("カフェ", ["カ", "フ", "ェ", "カフ", "フェ"]),
        ("한국", ["한", "국", "한국"]),
        ("Ⅷ ½", ["viii", "1", "2"]),
        ("...", []),
    ],
)
def test_a_text_is_indexed_by_words_and_by_characters_and_pairs(
    text: str, terms: list[str]
) -> None:
    assert index_terms(text) == terms


@pytest.mark.parametrize("word", ["हिन्दी", "किताब", "தமிழ்", "తెలుగు", "ਪੰਜਾਬੀ", "বাংলা"])
def test_vowel_signs_do_not_break_a_word_into_letters(word: str) -> None:
    # Python's \w leaves these signs out, so that every consonant became a word of its own.
    assert index_terms(f"{word} {word}.") == [word, word]
    assert query_terms(word) == [word]
    assert not has_name(f"{word} and", word[0])
    assert starts_word(word, word[:3])
    assert not starts_word(word, word[2:])


@given(anything, CJK)
def test_every_cjk_character_can_be_found(text: str, character: str) -> None:
    assert fold(character) in index_terms(text + character)


@given(anything)
def test_terms_are_of_folded_text_and_hold_no_space_or_sign(text: str) -> None:
    terms = index_terms(text)
    assert terms == index_terms(fold(text))
    for term in terms:
        assert term
        assert term == fold(term)
        assert not any(character.isspace() for character in term)
        assert not set(term) & set("\"'*^:()%_")


@given(anything)
def test_a_query_asks_for_nothing_that_the_text_itself_lacks(text: str) -> None:
    asked = query_terms(text)
    assert set(asked) <= set(index_terms(text))
    assert len(asked) == len(set(asked))
    assert bool(asked) == bool(index_terms(text))


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What did Alice say about the boat?", ["alice", "say", "boat"]),
        ("the who", ["the", "who"]),
        ("为什么", ["为", "什", "么", "为什", "什么"]),
        ("我们的项目", ["项", "目", "的项", "项目"]),
        ("boat Boat BOAT", ["boat"]),
        ("?!", []),
    ],
)
def test_a_query_drops_what_says_nothing_unless_that_is_all(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms


@pytest.mark.parametrize(
    ("query", "pieces"),
    [
        ("100% c++ pre-build", ["100%", "c++", "pre-build"]),
        ('"quoted", (bracketed).', ["quoted", "bracketed"]),
        ("sh600089建仓", ["sh600089建仓", "sh600089", "建仓", "600089"]),
        ("600089.SH", ["600089.sh", "600089"]),
        ("the boat is", ["boat"]),
        ("the who", ["the", "who"]),
        ("%_", ["%_"]),
        ("...", ["..."]),
        ("boat BOAT", ["boat"]),
    ],
)
def test_pieces_of_a_query_are_also_looked_for_as_they_stand(query: str, pieces: list[str]) -> None:
    assert literals(query) == pieces


def test_a_long_query_is_looked_for_in_a_bounded_number_of_pieces() -> None:
    assert len(literals(" ".join(f"word{at}" for at in range(1000)))) == 24


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("北门", 2), ("北门 x", 3), ("한국", 2)],
)
def test_tokens_are_counted_by_script(text: str, count: int) -> None:
    assert tokens(text) == count


@given(anything, anything)
def test_tokens_of_two_texts_are_at_most_one_fewer_together(one: str, two: str) -> None:
    assert tokens(one) + tokens(two) - 1 <= tokens(one + two) <= tokens(one) + tokens(two)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met LAST Week.", True),
        ("in 2024,", True),
        ("Paid in May", True),
        ("上周开会", True),
        ("3月", True),
        ("20245 at 12:30", False),
        ("lasting dismay, a weekender", False),
        ("北门", False),
        ("", False),
    ],
)
def test_a_text_tells_a_time_by_whole_words(text: str, expected: bool) -> None:
    assert tells_time(text) is expected


# --- Names -----------------------------------------------------------------------------


def has_name(text: str, key: str) -> bool:
    return has_folded_name(fold(text), key)


def starts_word(name: str, term: str) -> bool:
    return any(start.startswith(term) for start in word_starts(name))


NAMES = [
    *("QLS", "Blue Heron", "O'Neil & Co", "team/blue", "北门", "C#", "at&t", "Ming-Na Wen"),
    *("Yahoo!", "Apple Inc.", ".NET", "Visual C++", "Washington D.C.", "$AAPL", "node.js"),
    *("हिन्दी", "特变电工", "한국어", "Société Générale", "The Lord of the Rings", "e=mc2"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["{}", "Ask {} today", "“{}”, he said", "x ({})", "{}: no"])
def test_a_name_is_read_out_of_a_text(name: str, text: str) -> None:
    """With the signs that belong to it: `Apple Inc.` used to be found nowhere."""
    key = fold(name)
    assert key in name_keys(text.format(name))
    assert has_name(text.format(name), key)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("QLSX", "qls"),
        ("xQLS", "qls"),
        ("qls2", "qls"),
        ("aqls qlsb", "qls"),
        ("an aqls", "qls"),
        ("qls2 x", "qls"),
        ("the bluebird heron", "blue heron"),
        ("", "qls"),
        ("anything", ""),
        ("c", "c#"),
    ],
)
def test_a_part_of_a_word_is_not_the_name(text: str, name: str) -> None:
    assert not has_name(text, name)
    assert name not in name_keys(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("东北门口", "北门"),
        ("去QLS开会", "qls"),
        ("aqls qls", "qls"),
        ("Blue\n  HERON", "blue heron"),
        ("xqls qls qls", "qls qls"),
        ("ＱＬＳ", "qls"),
    ],
)
def test_a_name_is_found_between_other_scripts_lines_and_lookalikes(text: str, name: str) -> None:
    assert has_name(text, name)
    assert name in name_keys(text)


WORD = st.text(
    # Two Catalan letters and a Greek one fold into two words each.
    st.characters(max_codepoint=0x5FF, categories=["L", "Nd"], exclude_characters="Ŀŀͺ"),
    min_size=2,
    max_size=30,
)
NAME = st.lists(WORD, min_size=1, max_size=6).map(" ".join)


@given(anything, NAME, anything)
@example("", "Project 202401", "")
@example("", "600089 Fund", "")
@example("", "sh600089", "")
def test_a_name_of_up_to_six_words_is_found_wherever_it_stands(
    before: str, name: str, after: str
) -> None:
    text = f"{before} {name} {after}"
    key = " ".join(fold(name).split())
    assert has_name(text, key)
    assert is_common(key) or key in name_keys(text)


def test_only_names_of_a_bounded_length_are_read_out_of_a_text() -> None:
    """A text has too many stretches to look all of them up."""
    text = "so one two three four five six seven eight and so on"
    assert "two three four five six seven" in name_keys(text)
    assert "two three four five six seven eight" not in name_keys(text)
    han = "一二三四五六七八九十甲乙丙丁"
    assert han[1:13] in name_keys(han + "x")
    assert han[:13] not in name_keys(han + "x")
    assert "alpha -- beta" not in name_keys("alpha -- beta or")
    assert "alpha & beta" in name_keys("alpha & beta or")
    whole = "word " * 51
    assert whole + "x" in name_keys(whole + "x")
    assert whole + "xy" not in name_keys(whole + "xy")


@given(st.text(CJK, min_size=2, max_size=12), st.text(CJK, max_size=20), st.text(CJK, max_size=20))
def test_a_chinese_name_is_read_out_of_a_sentence(name: str, before: str, after: str) -> None:
    text = before + name + after
    assert has_name(text, fold(name))
    assert is_common(fold(name)) or fold(name) in name_keys(text)


def plain_stretches(text: str) -> set[str]:
    """The same rule, one stretch after another: spaces part words, no sign touches any."""
    words = [list(word) if word[0] >= "一" else [word] for word in text.split()]
    units = [(unit, at) for at, word in enumerate(words) for unit in word]
    found = set()
    for first, last in combinations(range(len(units) + 1), 2):
        taken = units[first:last]
        if len(taken) <= 12 and sum(len(unit) > 1 for unit, _ in taken) <= 6:
            by_word = (group for _, group in groupby(taken, key=itemgetter(1)))
            found.add(" ".join("".join(unit for unit, _ in group) for group in by_word))
    return found


@given(st.lists(st.sampled_from(["qls", "the", "b2", "x", "北", "门口", "的", "我们的"])))
@example(["x"] * 14)
@example(["的" * 14, "qls"])
@example(["q2"] * 5 + ["北门"] * 6 + ["q3"] * 8)
def test_every_stretch_within_the_bounds_is_a_key_but_for_common_ones(words: list[str]) -> None:
    text = " ".join(words)
    keys = {key for key in {*plain_stretches(text), *words} if not is_common(key)}
    assert name_keys(text) == keys | ({text} if text else set())


@pytest.mark.parametrize("key", ["it", "the", "的", "我们", "我们的", "x", "1", "", "门"])
def test_what_is_common_is_a_name_only_where_it_stands_alone(key: str) -> None:
    assert is_common(key)
    assert key not in name_keys(f"so {key} goes")
    assert not key or key in name_keys(f" {key}. ")


@pytest.mark.parametrize("key", ["qls", "x2", "北门", "it team", "c#"])
def test_other_keys_are_not_common(key: str) -> None:
    assert not is_common(key)


@pytest.mark.parametrize(
    ("name", "term", "expected"),
    [
        ("kweichow moutai", "mou", True),
        ("kweichow moutai", "kweichow", True),
        ("kweichow moutai", "tai", False),
        ("o'neil", "neil", True),
        ("特变电工", "电工", True),
        ("特变abc", "abc", True),
        ("abc特变", "bc", False),
        ("ab ab2b", "2b", False),
        ("", "a", False),
    ],
)
def test_a_term_may_begin_any_word_of_a_name(name: str, term: str, expected: bool) -> None:
    assert starts_word(name, term) is expected


# --- Stock codes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SH600089", ["600089.sh"]),
        ("sh.600089 sh:600089", ["600089.sh", "600089.sh"]),
        ("600089.SH 600089.ss", ["600089.sh", "600089.sh"]),
        ("000001.SZ, bj430047", ["000001.sz", "430047.bj"]),
        ("ＳＨ６０００８９", ["600089.sh"]),
        ("600089", ["600089"]),
        ("买入600089。", ["600089"]),
        ("hk700 hk0700 hk00700 00700.HK", ["00700.hk", "00700.hk", "00700.hk"]),
        ("1234 12345 1234567 x600089 600089x", []),
        ("2026-07-01 10:00", []),
        ("hk600089 sh1234", []),
        ("3.600089", ["600089"]),
    ],
)
def test_stock_codes_have_one_spelling(text: str, found: list[str]) -> None:
    assert list(codes(fold(text))) == found


@pytest.mark.parametrize("name", ["2024", "1234", "12345", "sh1234", "hk600089", "stock:2024"])
def test_a_number_that_is_no_stock_code_has_no_keys(name: str) -> None:
    # An entity called 2024 could not be stored: the year looked like half a stock code.
    assert code_keys(name) == set()


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("SH600089", {"600089", "600089.sh"}),
        ("stock:600089.SS", {"600089", "600089.sh"}),
        ("600089", {"600089", "600089.*"}),
        ("hk0700", {"00700", "00700.hk"}),
        ("北门", set()),
        ("Fund 600089", set()),
        ("", set()),
    ],
)
def test_an_entity_is_found_by_its_code(name: str, keys: set[str]) -> None:
    assert code_keys(name) == keys


@pytest.mark.parametrize("text", ["sh600089", "SH600089", "600089", "600089.SH", "600089.ss"])
@pytest.mark.parametrize("name", ["sh600089", "stock:600089.SH", "600089"])
def test_a_stock_is_found_in_any_spelling_of_its_code(text: str, name: str) -> None:
    asked = lookup_keys(name_keys(f"买入 {text}，建仓"))
    assert code_keys(name) & asked
    assert any(has_name(f"买入 {text}，建仓", key) for key in code_keys(name))


def test_another_exchanges_stock_of_the_same_number_is_not_found() -> None:
    asked = lookup_keys(name_keys("买入 sz000001"))
    assert not code_keys("sh000001") & asked
    assert not any(has_name("买入 sz000001", key) for key in code_keys("sh000001"))
    assert code_keys("000001") & asked


def test_a_number_inside_a_name_does_not_make_the_name_a_stock_code() -> None:
    # Such a name was looked up as if it were a code, and so never found in a text.
    assert has_name("Invoice 100234 is paid", "invoice 100234")
    assert not has_name("Invoice 100235 is paid", "invoice 100234")


# --- Hostile texts ---------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_is_too_strange(text: str) -> None:
    for read in (fold, identity, index_terms, query_terms, literals, tokens, name_keys, code_keys):
        assert read(text) is not None
    for key in sorted(name_keys(text))[:200]:
        assert len(key) <= 3100
        assert has_name(text, key)
    assert has_name(f"{text} QLS {text}", "qls")
    assert "qls" in name_keys(f"{text} QLS {text}")
    assert "qls" in index_terms(f"{text} QLS {text}")


@given(anything)
def test_what_a_text_is_read_to_name_it_has(text: str) -> None:
    for key in name_keys(text):
        assert has_name(text, key)


@given(anything)
def test_every_term_of_a_name_in_a_text_is_a_term_of_the_text(text: str) -> None:
    terms = set(index_terms(text))
    for key in name_keys(text):
        assert any(codes(key)) or terms.issuperset(index_terms(key))


@given(st.text(), st.lists(st.text(max_size=20), max_size=5), st.data())
def test_known_beginnings_of_names_leave_out_no_name(
    text: str, others: list[str], data: st.DataObject
) -> None:
    folded = words.fold(text)
    keys = words.folded_name_keys(folded)
    names = set(others) | (data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set())
    known = {words.name_start(name) for name in names}
    found = words.folded_name_keys(folded, known)
    assert found <= keys
    assert found & names == keys & names
