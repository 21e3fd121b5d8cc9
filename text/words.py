"""Text as the indexes see it: folding, terms, literal pieces, names and stock codes.

Nothing here touches what is stored. Folding makes case, width and accents equal; terms are
whole words and, in scripts that put no spaces between words, characters and pairs of them,
which needs no dictionary and finds two-character Chinese words inside a sentence.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from operator import add

from py_rust_stemmers import SnowballStemmer

UNSPACED = (
    "\u3041-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7a3"  # Hangul syllables: words carry their particles
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_MARKS = "".join(
    char for char in map(chr, range(0x483, 0xAC00)) if unicodedata.category(char) in ("Mn", "Mc")
)
"""Vowel signs and points: part of the word before them, though Python's \\w leaves them out."""
_SPACED = f"[^\\W_{UNSPACED}]"
_PICTURES = "\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_TERM = re.compile(
    "[a-z0-9]+(?![a-z0-9\x80-\U0010ffff])"  # nearly every word of a folded text, and quickly read
    f"|[{UNSPACED}]+|{_SPACED}+(?:[{_MARKS}]+{_SPACED}*)*|[{_PICTURES}]"
)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")

STOPWORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be been before being
    below between both but by can could d did do does doing done down during each few for from
    further had has have having he her here hers him his how i if in into is it its just ll m me
    mine more most must my no nor not now of off on once only or other our ours out over own re s
    same shall she should so some such t than that the their theirs them then there these they
    this those through to too under until up us ve very was we were what when where which while
    who whom whose why will with would y you your yours
    """.split()  # noqa: SIM905 - a table of words reads better than a list of strings
)
FUNCTION_CHARACTERS = frozenset(
    "的了是我你他她它们在和与吗呢吧啊有过着给什么哪些怎为如何曾对还也都就这那个一不没关于到要会能可以"
)
"""Chinese characters that carry grammar: a term of nothing else says nothing about a topic."""
FUNCTION_WORDS = frozenset(
    "哪个 哪里 多少 里面 记得 名字 最近 当时 因为 所以 我们 你们 他们 天 号 日 月 说 去".split()  # noqa: SIM905
)
"""Chinese terms that questions are made of, and the units of dates, which dates.py reads."""

_COMBINING = re.compile(
    "[\u0300-\u036f"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points
    "\u064b-\u065f\u0670]"  # Arabic vowel signs
)
_EDGE = " \t\r\n.,;:!?\"'`^()[]{}<>，。；：！？、“”‘’（）【】《》「」『』…·~"
_MAX_LITERALS = 24


def fold(text: str) -> str:
    """The form in which texts are compared: case, width and accents made equal.

    >>> fold("Ｃafé ＳＨ600089 北门")
    'cafe sh600089 北门'
    """
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _COMBINING.sub("", apart))


def identity(text: str) -> str:
    """The form in which two ids are the same: NFKC and case-folded, one space for many.

    >>> identity("  Blue  HERON ") == identity("ｂlue heron")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def name_key(name: str) -> str:
    """The form in which a name is kept and looked up: folded, one space for many.

    >>> name_key("Blue  HERON")
    'blue heron'
    """
    return " ".join(fold(name).split())


# --- Terms -----------------------------------------------------------------------------


def index_terms(text: str) -> list[str]:
    """Every term of a text, in order, as the index of words holds them.

    >>> index_terms("项目周会 moved!")
    ['项', '目', '周', '会', '项目', '目周', '周会', 'moved']
    """
    return folded_terms(fold(text))


def folded_terms(folded: str) -> list[str]:
    """index_terms of a text that is folded already."""
    terms: list[str] = []
    for run in _TERM.findall(folded):
        if run.isascii() or not _UNSPACED_RUN.match(run):
            terms.append(run)
        else:
            terms += run
            terms += map(add, run, run[1:])
    return terms


def query_terms(query: str) -> list[str]:
    """The distinct terms of a query that say what it is about; all of them if none does.

    >>> query_terms("When is the weekly meeting?")
    ['weekly', 'meeting']
    """
    terms = list(dict.fromkeys(index_terms(query)))
    return [term for term in terms if not says_nothing(term)] or terms


def says_nothing(term: str) -> bool:
    """Whether a term is of grammar alone, and of no topic."""
    return term in STOPWORDS or term in FUNCTION_WORDS or FUNCTION_CHARACTERS.issuperset(term)


_stem = lru_cache(maxsize=1 << 14)(SnowballStemmer("english").stem_word)


def stems(terms: Iterable[str]) -> list[str]:
    """Each term as the index keeps it: English words without their endings, all else as it is.

    >>> stems(["painted", "paintings", "周会", "600089"])
    ['paint', 'paint', '周会', '600089']
    """
    return [_stem(term) if term.isascii() else term for term in terms]


# --- What a text is like ---------------------------------------------------------------

_STAMP = re.compile(r"\s*\[[^\]\n]{1,80}\]\s*")
_SPEAKER = re.compile(r"([^\W\d_][\w .'’-]{0,29})\s*[:：]\s*(?=[^\s/])")
_QUESTION = re.compile(r"[?？][\s\"'”’」)）]*(\[[^\]]*\])?\s*$")
_TIME = re.compile(
    r"\b(?=[adfjlmnostwy\d])(?:yesterday|today|tomorrow|tonight|last|next|ago|weeks?|weekend|months?|years?|days?"
    r"|morning|evening|recently|soon|january|february|march|april|may|june|july|august"
    r"|september|october|november|december|monday|tuesday|wednesday|thursday|friday|saturday"
    r"|sunday|\d{4})\b|[昨今明前后]天|上周|下周|上个月|去年|今年|周末|月|号"
)
_ASKS_WHEN = re.compile(
    r"^\s*(?:when|how long)\b|\bwhat (?:date|day|month|year|time)\b"
    r"|什么时候|何时|几点|哪天|哪年|哪一年|几月|几号|多久",
    re.IGNORECASE,
)


def speaker(text: str) -> str:
    """Who says a text that begins with a name and a colon, perhaps after a time in brackets.

    >>> speaker("[1:56 pm on 8 May, 2023] Caroline: Hey Mel!"), speaker("Note to self: buy milk")
    ('Caroline', 'Note to self')
    """
    found = _SPEAKER.match(text, _body_start(text))
    return str(found[1]).strip() if found else ""


def begins_with_time(text: str) -> bool:
    """Whether a text begins with brackets, as in `[2023-05-08] Mel: ...`."""
    return _STAMP.match(text) is not None


def body(text: str) -> str:
    """The text without the time in brackets and the speaker that it may begin with.

    >>> body("[2023-05-08] Mel: Swam a mile today.")
    'Swam a mile today.'
    """
    start = _body_start(text)
    found = _SPEAKER.match(text, start)
    return text[found.end() if found else start :]


def _body_start(text: str) -> int:
    found = _STAMP.match(text)
    return found.end() if found else 0


def is_question(text: str) -> bool:
    """Whether a text ends by asking, so that what follows it may be the answer."""
    return _QUESTION.search(text[-300:]) is not None


def tells_time(text: str) -> bool:
    """Whether a text says when something is: a day, a month, `last week`, 上周."""
    return _TIME.search(text.casefold()) is not None


def is_unspaced(text: str) -> bool:
    """Whether a third or more of a text's letters belong to scripts without spaces.

    >>> is_unspaced("他在用 Python 写代码"), is_unspaced("the 周会 of the team")
    (True, False)
    """
    if text.isascii():
        return False
    unspaced = sum(map(len, _UNSPACED_RUN.findall(text)))
    return 3 * unspaced >= max(1, sum(map(str.isalpha, text)))


def asks_when(query: str) -> bool:
    """Whether a question asks for a time."""
    return _ASKS_WHEN.search(query) is not None


def literals(query: str) -> list[str]:
    """The pieces of a query that are also looked for as they stand, inside words too.

    Pieces between spaces without their outer punctuation (`100%`, `c++`, `pre-build`), and
    within a piece of mixed scripts each run on its own; of a stock code also its digits.
    Pieces that say nothing are left out unless there are no others.

    >>> literals("what is 'sh600089建仓' at 100%?")
    ['sh600089建仓', 'sh600089', '建仓', '600089', '100%']
    """
    pieces: dict[str, None] = {}
    spaced = [raw.strip(_EDGE) or raw for raw in fold(query).split()]
    for piece in spaced:
        runs = _TERM.findall(piece)
        mixed = len(runs) > 1 and any(map(_UNSPACED_RUN.match, runs))
        for text in (piece, *runs) if mixed else (piece,):
            if not says_nothing(text):
                pieces[text] = None
        for code in codes(piece):
            pieces[code.split(".")[0]] = None
    return list(pieces or dict.fromkeys(spaced))[:_MAX_LITERALS]


def is_plain(piece: str) -> bool:
    """Whether a piece is an ordinary word of a script with spaces: no digit, no sign.

    >>> is_plain("boat"), is_plain("600089"), is_plain("c++"), is_plain("周会")
    (True, False, False, False)
    """
    return piece.isalpha() and not _UNSPACED_RUN.search(piece)


def tokens(text: str) -> int:
    """About how many tokens a language model reads: 1 per CJK character, 1 per 4 others.

    >>> tokens("周会 moved"), tokens("")
    (4, 0)
    """
    wide = len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // 4)


# --- Names -----------------------------------------------------------------------------

MAX_START = 32  # characters by which the beginning of a word in a name is found
_MAX_WORDS, _MAX_CHARACTERS, _MAX_GAP, _MAX_SIGNS = 6, 12, 3, 2
_STARTS = range(2, 7)  # characters; a name of one is common
_LETTER = re.compile(f"{_SPACED}|[{_MARKS}]")
_SIGNS = re.compile(f"[^\\w\\s{_MARKS}]+")


def name_keys(text: str) -> set[str]:
    """Every stretch of a text that could be the name of something, folded.

    Up to six words, or twelve characters of an unspaced script, that follow one another, with
    and without the signs that touch them (`visual c++`, `yahoo!`, `.net`); pieces between
    spaces as they stand (`c#`, `at&t`); and stock codes in their one spelling.
    What is too common to be read out of a text counts only when it is the whole text.

    >>> {"c#", "o'neil & co"} <= name_keys("Ask O'Neil & Co about C#.")
    True
    >>> "600089.sh" in name_keys("买入 SH600089。")
    True
    """
    return folded_name_keys(fold(text))


def folded_name_keys(folded: str, known: Set[str] | None = None) -> set[str]:
    """name_keys of a text that is folded already.

    Where the beginnings of all names are known (see name_start), stretches that begin in no such
    way are left out.
    """
    pieces = folded.split()
    text = " ".join(pieces)
    keys = _stretches(text, known)
    stripped = {piece.strip(_EDGE) for piece in pieces}
    keys |= stripped if known is None else {key for key in stripped if name_start(key) in known}
    _drop_common(keys, text)
    keys.update(codes(text))
    whole = text.strip(_EDGE)
    if 0 < len(whole) <= 256:
        keys.add(whole)
    return keys


def name_start(key: str) -> str:
    """By what a name is known to begin at a place of a text; shorter ones by the whole of them."""
    return key[: _STARTS[-1]]


def is_common(key: str) -> bool:
    """Whether a name is too common to be read out of a text: a stopword, a lone character.

    >>> is_common("it"), is_common("的"), is_common("qls")
    (True, True, False)
    """
    return says_nothing(key) or len(key) == 1


def word_starts(name: str) -> list[str]:
    """A folded name from each place on where a word begins, cut short; in unspaced scripts
    each character begins one.

    >>> word_starts("kweichow moutai"), word_starts("特变电工")
    (['kweichow moutai', 'moutai'], ['特变电工', '变电工', '电工', '工'])
    """
    places = [
        at
        for at, char in enumerate(name)
        if not char.isspace() and (_UNSPACED_RUN.match(char) or not _joined(name, at))
    ]
    return list(dict.fromkeys(name[at : at + MAX_START] for at in places))


def has_folded_name(folded: str, key: str) -> bool:
    """Whether a name stands in a folded text as a whole, or a stock code in any spelling.

    >>> has_folded_name("ask the qls team", "qls"), has_folded_name("qlsx", "qls")
    (True, False)
    """
    folded = " ".join(folded.split())
    if key.removesuffix(f".{ANY_EXCHANGE}") in codes(key):
        return key in lookup_keys(set(codes(folded)))
    starts = _starts(key, folded) if key else ()
    return any(not (_joined(folded, at) or _joined(folded, at + len(key))) for at in starts)


def _starts(piece: str, text: str) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + 1)


def _joined(text: str, at: int) -> bool:
    """Whether a word of a spaced script runs on over this place."""
    return 0 < at < len(text) and all(map(_LETTER.match, text[at - 1 : at + 1]))


def _stretches(text: str, known: Set[str] | None) -> set[str]:
    if known is not None and not known:
        return set()
    spans = _spans(text)
    signs = dict([match.span() for match in _SIGNS.finditer(text)])
    before = set(signs.values())
    starts = {start for start, _ in spans}
    starts |= {start - 1 for start in starts & before}
    if known is not None:
        starts = {at for size in _STARTS for at in starts if text[at : at + size] in known}
    keys: set[str] = set()
    for first, (start, _) in enumerate(spans):
        begins = [
            at for at in (start, start - 1) if at in starts and (at == start or start in before)
        ]
        if begins:
            ends = _ends(spans, first, signs)
            keys.update([text[at:end] for at in begins for end in ends])
    return keys


def _spans(text: str) -> list[tuple[int, int]]:
    """Where each word of a text stands, and each character of an unspaced script."""
    if text.isascii():
        return [match.span() for match in _TERM.finditer(text)]
    spans: list[tuple[int, int]] = []
    for match in _TERM.finditer(text):
        start, end = match.span()
        if _UNSPACED_RUN.match(text, start):
            spans += zip(range(start, end), range(start + 1, end + 1), strict=True)
        else:
            spans.append((start, end))
    return spans


def _ends(spans: Sequence[tuple[int, int]], first: int, signs: Mapping[int, int]) -> list[int]:
    """Where a stretch from a span on may end, signs and all: not too far away for one name."""
    ends: list[int] = []
    words, end = 0, spans[first][0]
    for start, stop in spans[first : first + _MAX_CHARACTERS]:
        words += stop - start > 1
        if words > _MAX_WORDS or start - end > _MAX_GAP:
            break
        ends.append(stop)
        if stop in signs:
            ends += range(stop + 1, min(signs[stop], stop + _MAX_SIGNS) + 1)
        end = stop
    return ends


_COMMON = STOPWORDS | FUNCTION_WORDS | {""}
_FUNCTION_RUN = re.compile(f"[{''.join(sorted(FUNCTION_CHARACTERS))}]{{2,}}")


def _drop_common(keys: set[str], text: str) -> None:
    """Take out the keys of a text that are common (see is_common), without a look at each."""
    keys -= _COMMON
    keys.difference_update(text)  # its characters, each a key of length 1
    for run in _FUNCTION_RUN.findall(text):
        keys.discard(run)
        for at in range(len(run) - 1):
            keys.difference_update(run[at : at + size] for size in range(2, _MAX_CHARACTERS + 1))


_EXCHANGES = {"sh": "sh", "ss": "sh", "sz": "sz", "bj": "bj", "hk": "hk"}
_CODE = re.compile(
    r"(?<![a-z0-9])(?:(sh|sz|bj|hk)[.:]?)?(\d{4,6})(?:\.(sh|ss|sz|bj|hk))?(?![a-z0-9])"
)
_ONE_SPELLING = re.compile(r"\d{6}\.(?:sh|sz|bj)|\d{5}\.hk")
_DIGITS = re.compile(r"\d{4}")
ANY_EXCHANGE = "*"


def codes(folded: str) -> Iterator[str]:
    """The stock codes of a folded text in their one spelling, `600089.sh`.

    A code without its exchange is six digits (`600089`). Hong Kong's have four or five.

    >>> list(codes("sh600089, 600089.ss, 600089 or hk00700"))
    ['600089.sh', '600089.sh', '600089', '00700.hk']
    """
    for before, digits, after in _CODE.findall(folded) if _DIGITS.search(folded) else ():
        exchange = _EXCHANGES.get(before or after, "")
        if exchange == "hk" and len(digits) < 6:
            yield f"{digits.zfill(5)}.hk"
        elif len(digits) == 6 and exchange != "hk":
            yield f"{digits}.{exchange}" if exchange else digits


def code_keys(name: str) -> set[str]:
    """The keys under which an entity with this id or name is found by its stock code.

    Its digits alone find it always; with an exchange only the same one does, or any where the
    entity itself names none.

    >>> sorted(code_keys("stock:SH600089")), sorted(code_keys("600089"))
    (['600089', '600089.sh'], ['600089', '600089.*'])
    """
    folded = fold(name).rpartition(":")[2].strip()
    code = next(codes(folded), "") if _CODE.fullmatch(folded) else ""
    if not code:
        return set()
    digits, _, exchange = code.partition(".")
    return {digits, f"{digits}.{exchange or ANY_EXCHANGE}"}


def lookup_keys(keys: set[str]) -> set[str]:
    """The keys to look up for those of a text: a code with its exchange also finds bare ones.

    >>> sorted(lookup_keys({"600089.sh", "qls"}))
    ['600089.*', '600089.sh', 'qls']
    """
    return keys | any_exchange(key for key in keys if key[-3:-2] == ".")


def any_exchange(found: Iterable[str]) -> set[str]:
    """For each code that names its exchange the key of an entity that names none.

    >>> any_exchange(["600089.sh", "600089"])
    {'600089.*'}
    """
    dotted = (code.partition(".") for code in found if _ONE_SPELLING.fullmatch(code))
    return {f"{digits}.{ANY_EXCHANGE}" for digits, _, _ in dotted}
