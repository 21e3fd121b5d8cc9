"""Whether two texts that a model calls nearly equal still state different facts.

Models hardly notice a number, a day, a code or a "not". What each text states of these is brought
into one form, the same for English and Chinese, and compared. In doubt texts differ: two entries
that say nearly the same do no harm, but one taken for another's double is lost.
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from datetime import timezone
from decimal import Decimal
from functools import cached_property
from itertools import zip_longest

from text import dates, words


def difference(first: "Facts", second: "Facts") -> str | None:
    """In what two texts differ: number, date, weekday, code or negation; None where in nothing.

    >>> difference(read("The port is 5432."), read("The port is 5433."))
    'number'
    >>> difference(read("周五开会"), read("Meeting on Fri"))
    >>> difference(read("买入茅台"), read("卖出茅台"))
    'negation'
    """
    first, second = _settled(first, second)
    if _codes_differ(first, second) or _capitals_differ(first, second):
        return "code"
    if first.dates != second.dates:
        return "date"
    if first.weekdays != second.weekdays:
        return "weekday"
    if _numbers_differ(first, second) or _turned_round(first, second):
        return "number"
    return "negation" if _senses_differ(first, second) else None


@dataclass
class Facts:
    """What a text states, in one form for every way to say it."""

    given: str
    codes: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)  # stock codes with their exchange
    dates: set[str] = field(default_factory=set)
    weekdays: set[str] = field(default_factory=set)
    numbers: dict[Decimal, set[str]] = field(default_factory=dict)  # with what they count
    one: bool = False  # says one, a or an, which may be a number
    negated: list[str] = field(default_factory=list)  # what follows each negation
    text: str = ""

    @cached_property
    def capitals(self) -> set[str]:
        return {word.lower() for word in _CAPITALS.findall(self.given)}

    @cached_property
    def terms(self) -> set[str]:
        return set(words.folded_terms(words.fold(self.given)))

    @cached_property
    def ranges(self) -> set[tuple[str, ...]]:
        """From what to what something goes."""
        return {
            tuple(
                (part or "").rstrip(".,;!?")
                for part in (found["a"] or found["c"], found["b"] or found["d"])
            )
            for found in _FROM_TO.finditer(self.text)
        }

    @cached_property
    def content(self) -> set[str]:
        return set(_content(self.text))

    @cached_property
    def denied(self) -> str:
        return " ".join(map(_window, self.negated))

    @cached_property
    def subjects(self) -> set[str]:
        return set(map(_subject, self.negated)) - {""}

    @cached_property
    def sides(self) -> list[list[bool]]:
        """Which sides of each row of opposites a text has."""
        return [[bool(side.search(self.text)) for side in row] for row in _OPPOSITES]


def read(text: str) -> Facts:
    """What a text states; whatever one reader has taken is gone for those after it."""
    facts = Facts(text)
    rest = " ".join(words.fold(text.replace("’", "'")).translate(_SIMPLIFIED).split())
    facts.text = rest
    for reader in (_take_codes, _take_times, _take_weekdays, _take_dates, _take_numbers):
        rest = reader(rest, facts)
    facts.negated = list(_negated(facts.text))
    return facts


_SIMPLIFIED = str.maketrans(
    "週號個這後兩過禮幾沒無開關買賣漲點時間還別論對線進導刪啟傳萬億雙爾",
    "周号个这后两过礼几没无开关买卖涨点时间还别论对线进导删启传万亿双尔",
)

# --- Codes -----------------------------------------------------------------------------

_ALONE = "(?<![a-z0-9])"
_LISTED = re.compile(
    rf"{_ALONE}(?:(?:sh|sz|bj|hk)[.:]?[0-9]{{4,6}}|[0-9]{{4,6}}\.(?:sh|ss|sz|bj|hk))(?![a-z0-9])"
)
_ADDRESS = re.compile(
    r"(?<![a-z0-9])(?:https?|ftp|file|wss?)://[^\s，。；、）)>\"']+"
    r"|(?<![a-z0-9.+_-])[a-z0-9.+_-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+"
    r"|(?<![a-z0-9])[a-z]:\\[^\s,;，。；]+"
    r"|(?<![a-z0-9_/.~])(?:~|\.{1,2})?/[a-z0-9_.@+-]+(?:/[a-z0-9_.@+-]*)*"
    r"|(?<![a-z0-9_./-])[a-z_][a-z0-9_-]*(?:/[a-z0-9_.-]+){2,}"
    r"|(?<![a-z0-9_./-])(?:[a-z0-9_-]+/)*[a-z0-9_-]{2,}(?:\.[a-z0-9_-]+)*\.[a-z]{2,10}(?![a-z0-9])"
)
_VERSION = re.compile(
    rf"(?:{_ALONE}(?:version|ver\.?|v) ?|版本号?[是为]? ?)"
    r"([0-9]+(?:\.[0-9]+)*(?:[-.]?[a-z]+\.?[0-9]+)?)(?![0-9])|(?<![0-9.])([0-9]+(?:\.[0-9]+){2,}(?::[0-9]+)?)"
)
_ISO = re.compile(r"(?<![0-9])([0-9]{4})([-/.])([0-9]{1,2})\2([0-9]{1,2})(?:t(?=[0-9]))?(?![0-9])")
_TOKEN = re.compile(rf"{_ALONE}[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_COUNTED = re.compile(
    r"[0-9]+(?:\.[0-9]+)?(?:-[a-z]{3,}|st|nd|rd|th|k|bn|km|cm|mm|m|kg|mg|g|ml|l|tb|gb|mb|kb|ms|s|h|hrs?"
    r"|mins?|secs?|px|x|w|kw|kwh|v|a|hz|khz|mhz|ghz|am|pm|usd|eur|rmb|cny|kmh|mph)"
)
"""Numbers with a unit, which are no codes."""


def _take_codes(text: str, facts: Facts) -> str:
    def listed(found: re.Match[str]) -> str:
        facts.listed.update(words.codes(found[0]))
        return " "

    def address(found: re.Match[str]) -> str:
        facts.codes.add(found[0].rstrip(".,:;!?/"))
        return " "

    def version(found: re.Match[str]) -> str:
        facts.codes.add(found[1] or found[2])
        return " "

    def token(found: re.Match[str]) -> str:
        said = found[0]
        if said.isdigit() or not any(map(str.isdigit, said)) or said.replace(".", "").isdigit():
            return said
        if _COUNTED.fullmatch(said) or re.fullmatch("[0-9]+-[0-9]+", said):
            return said
        facts.codes.add(re.sub("[-_]", "", said))
        return " "

    text = _ADDRESS.sub(address, _LISTED.sub(listed, text))
    text = _ISO.sub(lambda found: f" {found[1]}-{found[3]}-{found[4]} ", text)
    # Dates look like tokens, and are read later.
    pieces = re.split("( [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} )", text)
    pieces[::2] = [_TOKEN.sub(token, _VERSION.sub(version, piece)) for piece in pieces[::2]]
    return "".join(pieces)


def _settled(first: Facts, second: Facts) -> tuple[Facts, Facts]:
    """The same facts, where a number that is a stock code in either text is one in both."""
    known = {code.partition(".")[0] for code in first.listed | second.listed}
    return (_with_codes(first, known), _with_codes(second, known)) if known else (first, second)


def _with_codes(facts: Facts, known: Iterable[str]) -> Facts:
    bare = {
        digits
        for digits in known
        if facts.numbers.get(Decimal(digits)) == set() and digits in facts.text
    }
    if not bare:
        return facts
    settled = copy(facts)
    settled.listed = facts.listed | bare
    codes = set(map(Decimal, bare))
    settled.numbers = {each: units for each, units in facts.numbers.items() if each not in codes}
    return settled


def _codes_differ(first: Facts, second: Facts) -> bool:
    if first.codes != second.codes:
        return True
    one, other = (
        dict(code.split(".") for code in facts.listed if "." in code) for facts in (first, second)
    )
    digits = ({code.partition(".")[0] for code in facts.listed} for facts in (first, second))
    return next(digits) != next(digits) or any(
        one[each] != other[each] for each in one.keys() & other.keys()
    )


_CAPITALS = re.compile(
    "(?<![A-Za-z0-9])[A-Z]{2,6}(?![A-Za-z0-9])"
    "|(?:(?<=[a-z] )|(?<=[\u4e00-\u9fff]))[A-HJ-Z](?![A-Za-z0-9'])"
)


def _capitals_differ(first: Facts, second: Facts) -> bool:
    """Whether each text has words in capitals (AAPL, plan B) that the other has in no way."""
    return bool(first.capitals - second.terms) and bool(second.capitals - first.terms)


# --- Times, weekdays and dates -----------------------------------------------------------

_HAN_DIGITS = dict(zip("零〇一二两三四五六七八九", (0, 0, 1, 2, 2, *range(3, 10)), strict=True))
_HAN_NUMBER = f"[{''.join(_HAN_DIGITS)}十百千万亿]"
_MORNING = "凌晨|清晨|早上|早晨|上午|(?<=[今明昨])早"
_LATER = "中午|下午|午后|傍晚|晚上|夜里|(?<=[今明昨])晚"
_TIME = re.compile(
    rf"(?:(?P<early>{_MORNING})|(?P<late>{_LATER}))? ?(?<![0-9.])"
    r"(?:(?P<h>[0-9]{1,2}|[一二两三四五六七八九十]{1,3})点"
    r"(?:(?P<half>半)|(?P<quarter>一刻)|(?P<m>[0-9]{1,2}|[一二三四五六七八九十]{1,3})分?|[钟整])?"
    r"|(?P<ch>[0-9]{1,2}):(?P<cm>[0-5][0-9])(?::[0-5][0-9])?(?![0-9])(?! ?[ap]\.?m| in the))"
    r"|(?<![0-9.:])(?P<eh>[0-9]{1,2})(?:[:.](?P<em>[0-5][0-9]))? ?"
    r"(?:(?P<am>a\.?m(?![a-z])\.?|in the morning)"
    r"|(?P<pm>p\.?m(?![a-z])\.?|(?:in the|at) (?:afternoon|evening|night))|o'clock)"
    r"|(?P<noon>\bnoon\b|正午)|(?P<midnight>\bmidnight\b|午夜)"
)
_PERIODS = {
    "morning": re.compile(r"\bmornings?\b|上午|早上|早晨|清晨"),
    "afternoon": re.compile(r"\bafternoons?\b|下午|午后"),
    "night": re.compile(r"\b(?:evening|night|tonight)s?\b|晚上|夜里|傍晚|[今明昨]晚"),
    "dawn": re.compile(r"\bdawn\b|凌晨"),
}


def _take_times(text: str, facts: Facts) -> str:
    def time(found: re.Match[str]) -> str:
        said = {name: part for name, part in found.groupdict().items() if part}
        if "noon" in said or "midnight" in said:
            facts.dates.add("12:00" if "noon" in said else "0:00")
            return " "
        hour = _han_value(said.get("h") or said.get("ch") or said["eh"])
        if hour > 24:
            return found[0]
        minute = _han_value(said.get("m") or said.get("cm") or said.get("em") or "0")
        minute = 30 if "half" in said else 15 if "quarter" in said else minute
        if ("pm" in said or "late" in said) and hour < (11 if "中午" in found[0] else 12):
            hour += 12
        elif ("am" in said or "early" in said) and hour == 12:
            hour = 0
        facts.dates.add(f"{hour}:{minute:02}")
        return "天 " if found[0][0] in "早晚" else " "

    rest = _TIME.sub(time, text)
    if not facts.dates:  # a time says more than its part of the day
        facts.dates.update(name for name, part in _PERIODS.items() if part.search(rest))
    return rest


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HAN_DAYS = dict(zip("一二三四五六日天", (*_DAYS, "sun"), strict=True))
_WEEKDAY = re.compile(
    r"\b(?:(?P<which>last|this|next) )?(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|mon|tues?|wed|thu(?:rs?)?|fri|(?<!\bthe )(?:sat|sun)(?=[,.;]|$| [0-9]))\b"
    r"|(?P<week>上上|上|下下|下|这|本)?个?(?:周|星期|礼拜)"
    r"(?P<han>一(?![起直般些样])|[二三四五六]|日(?![程常报志记期])|天(?!气))(?![次个])"
    r"|(?P<end>\bweekends?\b|周末)"
)
_STEPS = {"上上": "-2", "上": "-1", "last": "-1", "下": "+1", "next": "+1", "下下": "+2"}


def _take_weekdays(text: str, facts: Facts) -> str:
    def weekday(found: re.Match[str]) -> str:
        day = "weekend" if found["end"] else _HAN_DAYS.get(found["han"] or "") or found["day"][:3]
        facts.weekdays.add(day)
        if step := _STEPS.get(found["which"] or found["week"] or ""):
            facts.dates.add(f"week {step}")
        return " "

    return _WEEKDAY.sub(weekday, text)


_NOW, _SOME_YEAR = "2300-06-14T12:00:00.000Z", 2400
"""Far from every year that is said, so that `tomorrow` and `July 1` equal only themselves."""


def _take_dates(text: str, facts: Facts) -> str:
    text = " ".join(text.split())
    spans = dates.named(words.fold(text), _NOW, timezone.utc, lambda: (_SOME_YEAR, _SOME_YEAR))
    for span in sorted(spans, key=lambda span: -len(span.words)):
        text = text.replace(span.words, " ")
        if span.unit == "year" and span.start < _NOW[:3]:
            _count(facts, Decimal(span.start[:4]))  # others write it without any sign of a date
        else:
            facts.dates.add(f"{span.start[:10]} {span.end[:10]}")
    return text


# --- Numbers ---------------------------------------------------------------------------

_UNITS = {
    "day": "days?|天|日",
    "week": "weeks?|周|星期|礼拜",
    "month": "months?|个?月",
    "year": "years?|yrs?|年|岁",
    "hour": "hours?|hrs?|h|个?小时|个?钟头",
    "minute": "minutes?|mins?|分钟",
    "second": "seconds?|secs?|s|秒",
    "ms": "milliseconds?|ms|毫秒",
    "%": "%|percent|per cent|个?百分点",
    "dollar": "dollars?|usd|美元|美金",
    "euro": "euros?|eur|欧元",
    "yuan": "yuan|rmb|cny|元|块",
    "km": "km|kilomet(?:er|re)s?|公里|千米",
    "mile": "miles?|英里",
    "m": "m|met(?:er|re)s?|米",
    "kg": "kg|kilos?|kilograms?|公斤|千克",
    "g": "g|grams?|克",
    "mg": "mg|milligrams?|毫克",
    "ml": "ml|millilit(?:er|re)s?|毫升",
    "l": "l|lit(?:er|re)s?|升",
    "kb": "kb|kilobytes?",
    "mb": "mb|megabytes?|兆",
    "gb": "gb|gigabytes?",
    "tb": "tb|terabytes?",
}
_UNIT = "|".join(f"(?P<u{at}>{names})(?![a-z])" for at, names in enumerate(_UNITS.values()))
_UNIT_NAMES = tuple(_UNITS)
_SCALES = {"k": 3, "thousand": 3, "million": 6, "billion": 9, "bn": 9, "百": 2, "千": 3, "万": 4}
_SCALES |= {"百万": 6, "千万": 7, "亿": 8, "十亿": 9}
_ROWS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen",
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: number for row in _ROWS for number, word in enumerate(row.split())}
_VALUES |= {word: 10 * ten for ten, word in enumerate(_TENS.split(), 2)}
_VALUES |= {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_VALUES |= {"dozen": 12, "twice": 2}
_ENGLISH = "|".join(sorted(_VALUES, key=len, reverse=True))
_MEASURES = (
    "个台次天日号月年周秒点人位名条件本元块份倍层楼章节页行列步种类项家辆张只米度岁期届级轮组批套部座间句遍季股"
    "成折版分斤杯瓶门颗棵篇首场把支枚口户道幅匹头根片"
)
_SPOKEN = (
    r"十(?:分(?!钟)|足|字|全)|千万(?=[别不要记注])|万一|百(?:姓|货|度|合|科)|三(?:星|明治|亚|角)|四(?:川|周|处)"
    r"|二(?:维码|手)|零(?:食|售|件|钱|散)|八卦|一些|第?一"
)
"""Of these only 一 may be a number: whether it is, the other text says."""
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])-)?(?P<money>[$€¥])? ?"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9])|[0-9]+(?:\.[0-9]+)?)(?:st|nd|rd|th)?(?![a-z]*[0-9])"
    r"(?: ?(?P<scale>thousand|million|billion|bn|k(?![a-z])|百万|千万|十亿|[百千万亿]))?"
    rf"(?:[ -]?(?:{_UNIT}))?"
)
_WORDS = re.compile(
    rf"(?<![a-z])(?P<said>(?:{_ENGLISH})"
    rf"(?:(?:[ -]|(?<=hundred) and |(?<=thousand) and )(?:{_ENGLISH}))*)(?![a-z])"
    rf"(?:[ -](?:{_UNIT}))?"
)
_HAN = re.compile(
    rf"百分之(?P<part>{_HAN_NUMBER}+|[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<half>一半|(?<![两点])半(?=个?(?:年|月|天|日|小时|钟头)))"
    rf"|(?P<spoken>{_SPOKEN})(?!{_HAN_NUMBER})"
    rf"|(?<![0-9.])(?<![0-9] )(?P<said>第?{_HAN_NUMBER}+)"
    rf"(?: ?(?:{_UNIT})|(?P<measure>[{_MEASURES}]))?"
)
_MAX_NUMERALS = 20  # numerals or words in a row; more are no number
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}


def _count(facts: Facts, value: Decimal, unit: str = "") -> None:
    units = facts.numbers.setdefault(value, set())
    if unit:
        units.add(unit)


def _unit(found: re.Match[str]) -> str:
    return next((name for at, name in enumerate(_UNIT_NAMES) if found[f"u{at}"]), "")


def _take_numbers(text: str, facts: Facts) -> str:
    facts.one = re.search(r"\b(?:an?|one|first|once)\b|一", text) is not None
    if re.search(r"\bhalf\b", text):
        _count(facts, Decimal("0.5"))
    text = _HAN.sub(lambda found: _take_han(found, facts), text)
    text = _NUMBER.sub(lambda found: _take_digits(found, facts), text)
    return _WORDS.sub(lambda found: _take_words(found, facts), text)


def _take_han(found: re.Match[str], facts: Facts) -> str:
    if len(found[0]) > _MAX_NUMERALS:
        facts.codes.add(found[0])
    elif part := found["part"]:
        _count(facts, Decimal(part) if part.isascii() else Decimal(_han_value(part)), "%")
    elif found["half"]:
        _count(facts, Decimal("0.5"))
    elif said := found["said"]:
        number, unit = said.removeprefix("第"), _unit(found)
        counts = unit or found["measure"] or number != said or len(number) > 1
        if not counts or number in "百千万亿":
            return found[0]
        if number != "一":  # whether this is a number, the other text says
            _count(facts, Decimal(_han_value(number)), unit)
    return " "


def _take_digits(found: re.Match[str], facts: Facts) -> str:
    digits, scale = found["digits"].replace(",", ""), _SCALES.get(found["scale"] or "", 0)
    # Read from text as a whole: arithmetic would round what is longer than 28 digits.
    value = Decimal(f"{found['sign'] or ''}{digits}e{scale}")
    money = {"$": "dollar", "€": "euro", "¥": "yuan"}.get(found["money"] or "", "")
    _count(facts, value, _unit(found) or money)
    return " "


def _take_words(found: re.Match[str], facts: Facts) -> str:
    said = [word for word in re.findall("[a-z]+", found["said"]) if word != "and"]
    if len(said) > _MAX_NUMERALS:
        facts.codes.add(found[0])
        return " "
    if said in (["one"], ["first"]) or (said == ["second"] and _is_unit(found)):
        return found[0]
    _count(facts, Decimal(_english_value(said)), _unit(found))
    return " "


def _is_unit(found: re.Match[str]) -> bool:
    """Whether `second` is a stretch of time: a second, per second, 30 second."""
    before = found.string[max(0, found.start() - 8) : found.start()]
    return re.search(r"(?:[0-9]|\b(?:an?|per|each|every|one))[ -]$", before) is not None


def _han_value(said: str) -> int:
    """The number that digits or Chinese numerals say.

    >>> [_han_value(text) for text in ("15", "十五", "两百零三", "二〇二六", "三万")]
    [15, 15, 203, 2026, 30000]
    """
    if said.replace(".", "").isdigit() and said.isascii():
        return int(Decimal(said))
    if not _HAN_SCALES.keys() & set(said):
        return int("".join(str(_HAN_DIGITS[char]) for char in said))
    total = section = digit = 0
    for char in said:
        if char in _HAN_DIGITS:
            digit = _HAN_DIGITS[char]
        elif char in "万亿":
            total, section, digit = (total + section + digit or 1) * _HAN_SCALES[char], 0, 0
        else:
            section, digit = section + (digit or 1) * _HAN_SCALES[char], 0
    return total + section + digit


def _english_value(said: Iterable[str]) -> int:
    """The number that words say.

    >>> _english_value(["two", "hundred", "thirty", "five"]), _english_value(["three", "thousand"])
    (235, 3000)
    """
    total = section = 0
    for value in map(_VALUES.__getitem__, said):
        if value >= 1000:
            total, section = total + (section or 1) * value, 0
        elif value == 100:
            section = (section or 1) * value
        else:
            section += value
    return total + section


def _numbers_differ(first: Facts, second: Facts) -> bool:
    one = Decimal(1)
    for facts, others in ((first, second), (second, first)):
        alone = facts.numbers.keys() - others.numbers.keys()
        if alone - ({one} if others.one else set()):
            return True
    return any(
        units and second.numbers[value] and units != second.numbers[value]
        for value, units in first.numbers.items()
        if value in second.numbers
    )


_FROM_TO = re.compile(
    r"\bfrom (?P<a>[^\s]{1,30}) to (?P<b>[^\s]{1,30})"
    r"|从(?P<c>[0-9][0-9.,%]*)[^0-9到]{0,6}[^0-9]{0,3}到(?P<d>[0-9][0-9.,%]*)"
)


def _turned_round(first: Facts, second: Facts) -> bool:
    """Whether one text says from 3 to 5 and the other from 5 to 3."""
    other = second.ranges
    return any(pair[::-1] in other and pair not in other for pair in first.ranges)


# --- Negations and opposites -------------------------------------------------------------

_NEUTRAL = re.compile(
    r"not only|not to mention|no doubt|no problem|no matter|or not\b|why not|no\. ?(?=[0-9])"
    r"|(.)不\1|有没有|不得不|不能不|不可不"
    r"|(?<![^，。；,;.!?！？\s])不过|不(?:错|管|论|仅|但|只|光|断|久|少|妨|同(?!意)|禁|如|愧|料|得了|由|锈|动产|客气|好意思)|(?:差|对|要|了)不[多起然得]"
    r"|没(?:错|关系|准|事|收|落|问题)|[淹沉埋出]没"
    r"|无(?:论|非|疑|所谓|线|锡|数|穷|比|聊|辜|奈|极|名|意中)|未(?:来|必|免|婚|知|成年)"
    r"|[是除莫无南北东西]非|非(?:常|洲|典|得|凡)|[特区分性级类识个告离辨差派]别"
    r"|别(?:人|的|墅|名|致|称|扭|处|样|具|国|家)|莫(?:斯科|名)"
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|without|cannot|nothing|nobody|nowhere|neither|nor|hardly|unable to"
    r"|fail(?:s|ed)? to)\b(?:\s+longer\b)?|n't\b|不再|不[是会能要用]?|没有?|无法?|未|并?非|别|勿"
)
_NEGATED_WORDS, _NEGATED_CHARACTERS = 3, 4


def _negated(text: str) -> Iterator[str]:
    """What follows each negation in a text, a few words of it."""
    text = _NEUTRAL.sub(" ", text)
    for found in _NEGATION.finditer(text):
        yield text[found.end() :].strip()[:60]


def _subject(after: str) -> str:
    """The first denied word, which tells two negations apart."""
    if words.is_unspaced(after[:2]):
        return after[:2]
    return next(iter(_content(after)), "")


def _content(text: str) -> list[str]:
    return words.stems(term for term in words.folded_terms(text) if term not in words.STOPWORDS)


def _window(after: str) -> str:
    if words.is_unspaced(after[:2]):
        return after[:_NEGATED_CHARACTERS]
    return " ".join(_content(after)[:_NEGATED_WORDS])


_SWITCHED = r"\b(?:turn\w*|switch\w*|powered|is|are|was|set to)(?: \w+)?"
_OPPOSITES = tuple(
    tuple(re.compile(side) for side in row)
    for row in (
        (r"\bbefore\b|[之以]前", r"\bafter\b|[之以]后"),
        (r"\benabl\w+|启用|开启|打开", r"\bdisabl\w+|禁用|停用|关闭|关掉"),
        (
            rf"{_SWITCHED} on\b(?! \w+day)|打开|开着|开灯",
            rf"{_SWITCHED} off\b|关闭|关掉|关着|关灯",
        ),
        (r"\bopen(?:s|ed)?\b|开门|打开", r"\bclos(?:es|ed|e)\b|关门|关闭"),
        (
            r"\b(?:increas\w+|rose|ris(?:es?|ing|en)|grew|grow\w*|gain\w*|went up)\b"
            r"|增加|增长|提高|升|涨",
            r"\b(?:decreas\w+|fell|fall\w*|drop\w*|declin\w+|lost|went down)\b|减少|降|跌",
        ),
        (r"\b(?:buy\w*|bought|purchas\w+)\b|买", r"\b(?:sell\w*|sold|sale)\b|卖"),
        (r"\bleft\b|左", r"\bright\b|右"),
        (r"\bup\b|向上", r"\bdown\b|向下"),
        (r"\bmore\b|更多|多于|超过", r"\b(?:less|fewer)\b|更少|少于|不到"),
        (r"\b(?:start|begin|began|begun)\w*|开始", r"\b(?:stop|end|finish)\w*|停止|结束"),
        (r"\b(?:allow|permit)\w*|允许", r"\b(?:forbid|forbad|deny|denie|prohibit|block)\w*|禁止"),
        (r"\b(?:accept|approv)\w*|接受|同意|批准", r"\b(?:reject|refus|declin)\w*|拒绝|驳回"),
        (r"\b(?:wins?|won)\b|赢", r"\b(?:lose|loses|lost)\b|输了|输给"),
        (r"\btrue\b", r"\bfalse\b"),
        (r"\b(?:succe|pass)\w*|成功|通过", r"\bfail\w*|失败|未通过"),
        (r"\b(?:likes?|loves?|enjoys?)\b|喜欢|爱", r"\b(?:dislikes?|hates?)\b|讨厌|不喜欢"),
        (r"\badd\w*|添加|新增", r"\b(?:remov|delet)\w*|删除|移除"),
        (r"\bimport\w*|导入|进口", r"\bexport\w*|导出|出口"),
        (
            r"\b(?:max\w*|highest|most)\b|最大|最高|最多",
            r"\b(?:min(?!ut)\w*|lowest|least)\b|最小|最低|最少",
        ),
        (r"\bpublic\b|公开|公有", r"\bprivate\b|私有|私密"),
        (
            r"\b(?:go|went|going|buy) long\b|做多|多头",
            r"\b(?:go|went|going|sell) short\b|做空|空头",
        ),
        (r"\bhigh(?:er)?\b|较高|偏高", r"\blow(?:er)?\b|较低|偏低"),
        (r"\bhot\b|热", r"\bcold\b|冷"),
        (r"\bearl(?:y|ier)\b|提前", r"\blate(?:r)?\b|推迟|延后"),
        (r"\binclud\w+|包括|包含", r"\bexclud\w+|除外|排除"),
        (r"\binput\b|输入", r"\boutput\b|输出"),
        (r"\bupload\w*|上传", r"\bdownload\w*|下载"),
        (r"\bupgrad\w*|升级", r"\bdowngrad\w*|降级"),
        (r"\bnorth\w*", r"\bsouth\w*", r"\beast\w*", r"\bwest\w*"),
        (r"\bsame\b|相同|一样", r"\bdifferent\b|不同"),
        (r"\bfirst\b", r"\blast\b"),
        (r"\bwith\b", r"\bwithout\b"),
    )
)
"""Sides that exclude one another, in both languages; each row stands for itself."""


def _senses_differ(first: Facts, second: Facts) -> bool:
    """Whether one denies what the other says, or says its opposite."""
    if bool(first.negated) != bool(second.negated):
        return True
    if _denies_another(first, second) or _denies_another(second, first):
        return True
    for one, other in zip(first.sides, second.sides, strict=True):
        if any(one) and any(other) and not any(a and b for a, b in zip_longest(one, other)):
            return True
    return False


def _denies_another(facts: Facts, others: Facts) -> bool:
    """Whether one text denies a thing that the other names and does not deny."""
    denied = set(others.denied.split())
    return any(
        subject in others.content and subject not in denied
        if subject.isascii()
        else subject in others.text and subject not in others.denied
        for subject in facts.subjects
    )
