"""The stretches of time that a query names: a day, last week, March 2023, 去年夏天.

A table of patterns and readers, the most specific first; what one row has read is blanked for
the rows after it, so that `2023年5月4日` is a day and not also a month and a year. A pattern
gives its parts names (`year`, `month`, `count`, ...), and the vocabularies say what a part
means; another language is rows in the table, words in the vocabularies and in `_CLUE`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Literal, NamedTuple, TypeVar

from core.timestamps import stamp

Unit = Literal["day", "week", "month", "year"]

MAX_SPANS = 40
MAX_YEARS = 30
"""A date without a year is looked for in this many years, the latest that have memories."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time that a query names: half-open, in the stored form of timestamps.py.

    `unit` says how precise it is (several days count as a week) and `words` what named it.
    """

    start: str
    end: str
    unit: Unit
    words: str


def named(folded: str, now: str, home: tzinfo, years: Callable[[], tuple[int, int]]) -> list[Span]:
    """The spans that a folded query names, in the order of time; `now` is in the stored form.

    Days are those of `home`. `years` gives the first and the last one that have memories, and is
    asked only where there may be a date: one without a year means that date in each of them.

    >>> from datetime import timezone
    >>> now = "2024-06-05T12:00:00.000Z"
    >>> for span in named("上周五 or 4 may?", now, timezone.utc, lambda: (2023, 2024)):
    ...     print(span.start[:10], span.end[:10], span.unit, span.words)
    2023-05-04 2023-05-05 day 4 may
    2024-05-04 2024-05-05 day 4 may
    2024-05-31 2024-06-01 day 上周五
    """
    text = " ".join(folded.split())
    rest = text.translate(_SIMPLIFIED)  # character for character, so that places stay the same
    if not _has_clue(rest):
        return []
    first, last = years()
    latest = range(last, max(first, last - MAX_YEARS + 1) - 1, -1)
    spans: dict[tuple[str, str], Span] = {}
    for days, words in _readings(text, rest, _Asked(_today(now, home), latest)):
        if span := _span(days, words, home):
            spans.setdefault((span.start, span.end), span)
        if len(spans) == MAX_SPANS:
            break
    return [spans[key] for key in sorted(spans)]


# --- Days ------------------------------------------------------------------------------

_DAY = timedelta(days=1)


class _Days(NamedTuple):
    """Whole days, from the first to the one after the last."""

    first: date
    after: date
    unit: Unit


def _midnight(day: date, home: tzinfo) -> str:
    return stamp(datetime(day.year, day.month, day.day, tzinfo=home))


def _today(now: str, home: tzinfo) -> date:
    """The day of `home` that holds this moment.

    Found by its midnights, as a span is; the machine's own zone converts only that way.
    """
    day = date.fromisoformat(now[:10])
    for ahead in (1, 0, -1):
        with suppress(OverflowError, ValueError):  # before the year 1 or after 9999
            if _midnight(day + ahead * _DAY, home) <= now:
                return day + ahead * _DAY
    return day


def _span(days: _Days, words: str, home: tzinfo) -> Span | None:
    with suppress(OverflowError, ValueError):
        start, end = _midnight(days.first, home), _midnight(days.after, home)
        if start < end:  # Samoa's 30 December 2011 never was
            return Span(start, end, days.unit, words)
    return None


def _one_day(day: date) -> _Days:
    return _Days(day, day + _DAY, "day")


def _month_start(year: int, month: int) -> date:
    """The first day of a month, counted on from January of that year.

    >>> _month_start(2024, 13), _month_start(2024, 0)
    (datetime.date(2025, 1, 1), datetime.date(2023, 12, 1))
    """
    years, months = divmod(month - 1, 12)
    return date(year + years, months + 1, 1)


def _months(year: int, month: int, count: int = 1) -> _Days:
    return _Days(_month_start(year, month), _month_start(year, month + count), "month")


def _calendar(today: date, unit: Unit, step: int) -> _Days:
    """The day, week, month or year that many steps from today's.

    >>> _calendar(date(2025, 1, 1), "week", 0)[:2]
    (datetime.date(2024, 12, 30), datetime.date(2025, 1, 6))
    """
    if unit == "day":
        return _one_day(today + step * _DAY)
    if unit == "week":
        monday = today + (7 * step - today.weekday()) * _DAY
        return _Days(monday, monday + 7 * _DAY, unit)
    if unit == "month":
        return _months(today.year, today.month + step)
    return _Days(date(today.year + step, 1, 1), date(today.year + step + 1, 1, 1), unit)


# --- Vocabularies ----------------------------------------------------------------------

_SIMPLIFIED = str.maketrans("週號個這後兩過禮幾", "周号个这后两过礼几")
_DIGITS = str.maketrans("〇零○一二三四五六七八九", "000123456789")

_Meaning = TypeVar("_Meaning")


def _by_word(meanings: Mapping[_Meaning, Iterable[str]]) -> dict[str, _Meaning]:
    return {word: meaning for meaning, words in meanings.items() for word in words}


_NUMBERS = _by_word(
    {
        1: ("a", "an", "one", "一"),
        2: ("two", "couple", "a couple", "couple of", "a couple of", "二", "两"),
        3: ("three", "三"),
        4: ("four", "四"),
        5: ("five", "few", "several", "五", "几"),  # a few are five at most
        6: ("six", "六"),
        7: ("seven", "七"),
        8: ("eight", "八"),
        9: ("nine", "九"),
        10: ("ten",),
        11: ("eleven",),
        12: ("twelve",),
    }
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = _by_word(
    {
        0: ("mon", "一"),
        1: ("tue", "二"),
        2: ("wed", "三"),
        3: ("thu", "四"),
        4: ("fri", "五"),
        5: ("sat", "六"),
        6: ("sun", "日", "天"),
    }
)
_SEASONS = _by_word(
    {3: ("spring", "春"), 6: ("summer", "夏"), 9: ("autumn", "fall", "秋"), 12: ("winter", "冬")}
)
"""The month in which a season begins; each has three."""

_UNITS: dict[str, Unit] = _by_word(
    {
        "day": ("day", "天", "日"),
        "week": ("week", "周", "星期", "礼拜"),
        "month": ("month", "月"),
        "year": ("year", "年"),
    }
)
# Half of a unit, in a smaller unit.
_HALVES: dict[Unit, tuple[int, Unit]] = {
    "day": (0, "day"),
    "week": (3, "day"),
    "month": (2, "week"),
    "year": (6, "month"),
}
_STEPS = _by_word(
    {
        -3: ("大前",),
        -2: ("day before yesterday", "前", "上上"),
        -1: ("last", "past", "previous", "yesterday", "昨", "去", "上"),
        0: ("this", "today", "tonight", "今", "这", "本"),
        1: ("next", "tomorrow", "明", "下"),
        2: ("day after tomorrow", "后", "下下"),
        3: ("大后",),
    }
)
"""How far from the present one a day, week, month or year is."""


def _number(text: str) -> int:
    """The number that digits or words say; ValueError where they say none.

    >>> [_number(text) for text in ("12", "three", "十", "十五", "二十三", "两")]
    [12, 3, 10, 15, 23, 2]
    """
    if text in _NUMBERS:
        return _NUMBERS[text]
    tens, ten, ones = text.partition("十")
    if not ten:
        return int(text)
    return 10 * (_number(tens) if tens else 1) + (_number(ones) if ones else 0)


def _month(text: str) -> int:
    """The number of a month by its name or number; there may be no such month."""
    return _MONTHS.index(text[:3]) + 1 if text[:3] in _MONTHS else _number(text)


# --- Readers ---------------------------------------------------------------------------
# From the named parts of a match to days. ValueError and OverflowError mean: no such days.

_Said = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Asked:
    """When the query was asked, and the years to look in, the latest first."""

    today: date
    years: Sequence[int]


_Reader = Callable[[_Said, _Asked], Iterable[_Days]]


def _years(said: _Said, asked: _Asked) -> Sequence[int]:
    """The year that was said, or every year there is."""
    if "year" not in said:
        return asked.years
    text = said["year"].removesuffix("年").removesuffix(" year").strip()
    if text in _STEPS:
        return (asked.today.year + _STEPS[text],)
    return (int(text.translate(_DIGITS)),)


def _year(said: _Said, asked: _Asked) -> Iterator[_Days]:
    for year in _years(said, asked):
        yield _Days(date(year, 1, 1), date(year + 1, 1, 1), "year")


def _month_or_day(said: _Said, asked: _Asked) -> Iterator[_Days]:
    """A month, or a day of it, in one year or in every year that has it."""
    month, day = _month(said["month"]), _number(said.get("day", "1"))
    for year in _years(said, asked):
        with suppress(ValueError, OverflowError):  # 29 February comes every fourth year
            first = date(year, month, day)
            yield _one_day(first) if "day" in said else _months(year, month)


def _month_near(said: _Said, asked: _Asked) -> Iterator[_Days]:
    """`last March`: the latest before this month; `next`: the first after it."""
    month, step = _month(said["month"]), _STEPS[said["which"]]
    ahead = month - asked.today.month
    other_year = step if ahead * step <= 0 else 0
    yield _months(asked.today.year + other_year, month)


def _day_of_month_near(said: _Said, asked: _Asked) -> Iterator[_Days]:
    month = _calendar(asked.today, "month", _STEPS[said["which"]]).first
    yield _one_day(date(month.year, month.month, _number(said["day"])))


def _season(said: _Said, asked: _Asked) -> Iterator[_Days]:
    month, today = _SEASONS[said["season"]], asked.today
    if "year" in said:
        yield from (_months(year, month, 3) for year in _years(said, asked))
        return
    step = _STEPS[said["which"]]
    nearby = [_months(today.year + ahead, month, 3) for ahead in (-2, -1, 0, 1)]
    if step < 0:
        yield [season for season in nearby if season.after <= today][-1]
    elif step > 0:
        yield next(season for season in nearby if season.first > today)
    else:
        running = (season for season in nearby if season.first <= today < season.after)
        yield next(running, nearby[2])


def _weekday(said: _Said, asked: _Asked) -> Iterator[_Days]:
    """A weekday of a week (上周五); or the latest one, the one before it, the one after it."""
    wanted, today = _WEEKDAYS[said["weekday"][:3]], asked.today
    if "week" in said:
        monday = _calendar(today, "week", _STEPS[said["week"]]).first
        yield _one_day(monday + wanted * _DAY)
        return
    back = (today.weekday() - wanted) % 7
    step = _STEPS[said["which"]] if "which" in said else 0
    if step > 0 or (step < 0 and back == 0):
        back -= 7 * step
    yield _one_day(today - back * _DAY)


def _weekend(said: _Said, asked: _Asked) -> Iterator[_Days]:
    """The weekend of a week, or else the latest that has begun."""
    begun = asked.today.weekday() >= _WEEKDAYS["sat"]
    step = _STEPS[said["week"]] if "week" in said else int(begun) - 1
    _, monday, unit = _calendar(asked.today, "week", step)
    yield _Days(monday - 2 * _DAY, monday, unit)


def _near(said: _Said, asked: _Asked) -> Iterator[_Days]:
    yield _calendar(asked.today, "day", _STEPS[said["near"].rstrip("天日早晨晚夜")])


def _step(said: _Said, asked: _Asked) -> Iterator[_Days]:
    yield _calendar(asked.today, _UNITS[said["unit"]], _STEPS[said["which"]])


def _amount(said: _Said) -> tuple[int, Unit]:
    """A count of units; half of one is a count of smaller ones."""
    count, unit = said.get("count", "one"), _UNITS[said["unit"]]
    return _HALVES[unit] if count.startswith(("half", "半")) else (_number(count), unit)


def _ago(said: _Said, asked: _Asked) -> Iterator[_Days]:
    count, unit = _amount(said)
    yield _calendar(asked.today, unit, -count)


def _lately(said: _Said, asked: _Asked) -> Iterator[_Days]:
    """Every day that the last so many days, weeks, months or years touch, today too."""
    today, (count, unit) = asked.today, _amount(said)
    if unit in ("day", "week"):
        first = today - count * (_DAY if unit == "day" else 7 * _DAY)
    else:
        month = _months(today.year, today.month - count * (12 if unit == "year" else 1))
        first = min(month.first + (today.day - 1) * _DAY, month.after - _DAY)
    yield _Days(first, today + _DAY, "week" if unit == "day" else unit)


# --- Patterns --------------------------------------------------------------------------
# They meet folded text with single spaces in it. No part repeats without a bound, so that no
# text makes the search long.

_YEAR_NUMBER = "(?:19|20)[0-9]{2}"
_BEGINS = "(?<![0-9a-z])(?<![0-9][-./:,])"
_ENDS = "(?![0-9])(?![-./][0-9])"

# "May" and "march" are verbs too: the words around them tell.
_MONTH = (
    r"(?P<month>(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?"
    r"|may(?! (?:be|have|not|also|only|need|well)\b)|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z]))\.?"
)
_CLEAR_MONTH = "(?P<month>january|february|july|september|october|november|december)"
_WORDS_BEFORE = "in|during|of|since|early|mid|late"
# Looked back at, not read: "of" must still stand after "the last week" when "of May" was found.
_AFTER_WORD = "|".join(rf"(?<=\b{word}[ -])" for word in _WORDS_BEFORE.split("|"))
_DAY_NUMBER = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?![0-9a-z%]|[.:][0-9]|,[0-9]{3}(?![0-9]))"
_YEAR = f"(?P<year>{_YEAR_NUMBER}|(?:last|this|next) year)(?![0-9a-z])"
_DAY_NAMES = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_SHORT_NAMES = "mon|tues?|wed|thu(?:rs?)?|fri"  # "sat" and "sun" are other words too
_WEEKDAY = rf"(?P<weekday>{_DAY_NAMES}|{_SHORT_NAMES})(?![a-z0-9]|\.[a-z])"
_WEEKDAY_FIRST = rf"(?:\b(?:{_DAY_NAMES}|{_SHORT_NAMES}|sat|sun)\.?,? (?:the )?)?"
_COUNT = (
    "[0-9]{1,3}|half an?|(?:a )?couple(?: of)?|an?|one|two|three|four|five|six|seven|eight"
    "|nine|ten|eleven|twelve"
)
_UNIT = "(?P<unit>day|week|month|year)"
_SEASON_NAME = r"(?P<season>spring|summer|autumn|fall|winter)\b"

_ZH_YEAR_BEGINS = "(?=[12一二大前去今明后])"  # asked first: it rules most places out
_ZH_YEAR = (
    rf"(?P<year>(?<![0-9]){_YEAR_NUMBER} ?年|[一二][〇零○一二三四五六七八九]{{3}} ?年"
    "|大前年|(?<![之以])前年(?!轻)|(?<!过)去年|今年|明年|(?<![之以今])后年)"
)
_ZH_YEAR_BEFORE = f"(?=[0-9一二三四五六七八九十大前去今明后])(?:{_ZH_YEAR}的? ?)?"
_ZH_BEGINS = r"(?<![0-9第一二两三四五六七八九十])(?<![0-9]\.)"
_ZH_NUMBER = "[0-9]{1,2}|[一二三四五六七八九十]{1,3}"
_ZH_COUNT = "[0-9]{1,3}|[一二两三四五六七八九十]{1,3}|半"
_ZH_MONTH = f"{_ZH_BEGINS}(?P<month>{_ZH_NUMBER}) ?月"
_ZH_DAY = f"(?P<day>{_ZH_NUMBER}) ?[日号]"
_ZH_WEEK = "(?:周|星期|礼拜)"
_ZH_WEEKDAY_AFTER = rf"(?: ?\(?{_ZH_WEEK}[一二三四五六日天]\)?)?"
# Not the 上 of 早上 and 马上, nor the 下 of 查一下. Each branch begins with its character, which
# lets the engine skip along.
_ZH_STEP = "上(?<![早晚马]上)上?|下(?<!一下)下?|这|本"
# Not 周日程, 周天气 and 周一起; nor 周三次 and 周三天, which count.
_ZH_WEEKDAY = (
    "(?P<weekday>一(?![起直般些样])|[二三四五六]|日(?![程常报志记期])|天(?!气))(?!次|天(?!气))"
)
_ZH_UNIT = "个?(?P<unit>天|日|周(?!期)|星期|礼拜|(?<=个)月|年)"

_ROWS: list[tuple[str, _Reader]] = [
    # A day of a month, perhaps of a year.
    (
        f"{_BEGINS}(?P<year>{_YEAR_NUMBER})(?P<sign>[-./])(?P<month>[0-9]{{1,2}})"
        f"(?P=sign)(?P<day>[0-9]{{1,2}}){_ENDS}",
        _month_or_day,
    ),
    (
        f"{_WEEKDAY_FIRST}{_BEGINS}{_DAY_NUMBER}(?: of |[ -]){_MONTH}(?:(?:,? |-| of ){_YEAR})?",
        _month_or_day,
    ),
    (f"{_BEGINS}(?P<year>{_YEAR_NUMBER}),?[ -]{_MONTH}[ -]{_DAY_NUMBER}", _month_or_day),
    (rf"{_WEEKDAY_FIRST}\b{_MONTH} (?:the )?{_DAY_NUMBER}(?:(?:,? ?| of ){_YEAR})?", _month_or_day),
    (f"{_BEGINS}{_DAY_NUMBER} of (?P<which>last|this|next) month\\b", _day_of_month_near),
    (f"{_ZH_YEAR_BEFORE}{_ZH_MONTH} ?{_ZH_DAY}{_ZH_WEEKDAY_AFTER}", _month_or_day),
    (f"(?P<which>{_ZH_STEP})个?月的? ?{_ZH_DAY}", _day_of_month_near),
    # A season, a month or a year.
    (f"{_BEGINS}(?P<year>{_YEAR_NUMBER})[-/](?P<month>[0-9]{{2}}){_ENDS}", _month_or_day),
    (rf"\b{_SEASON_NAME}(?:,? | of ){_YEAR}", _season),
    (rf"\b(?P<which>last|past|this|next) {_SEASON_NAME}(?! of\b)", _season),
    (rf"\b{_MONTH}(?:,? | of ){_YEAR}", _month_or_day),
    (rf"\b(?!this (?:may|march) [a-z])(?P<which>last|this|next) {_MONTH}", _month_near),
    (rf"\b(?:{_AFTER_WORD}){_MONTH}", _month_or_day),
    (rf"\b{_CLEAR_MONTH}\b", _month_or_day),
    (rf"\b(?:{_AFTER_WORD}|(?<=\byear ))(?P<year>{_YEAR_NUMBER})(?![a-z]){_ENDS}", _year),
    (f"{_ZH_YEAR_BEGINS}{_ZH_YEAR}的? ?(?P<season>[春夏秋冬])[天季]", _season),
    (f"(?P<which>{_ZH_STEP})个?(?P<season>[春夏秋冬])[天季]", _season),
    (f"{_ZH_YEAR_BEFORE}{_ZH_MONTH}(?!天)份?", _month_or_day),
    # So many days, weeks, months or years.
    (rf"{_BEGINS}(?<![a-z]-)(?P<count>{_COUNT}) {_UNIT}s? ago\b", _ago),
    (rf"\b(?:last|past|previous) (?!an? )(?P<count>{_COUNT}|few|several) {_UNIT}s?\b", _lately),
    (rf"\bpast {_UNIT}\b", _lately),
    (f"{_ZH_BEGINS}(?P<count>{_ZH_COUNT}) ?{_ZH_UNIT}[以之]?前", _ago),
    (f"(?:最近|过去|(?<!附)近)的? ?(?P<count>{_ZH_COUNT}|几) ?{_ZH_UNIT}", _lately),
    # A weekend, a weekday.
    (r"\b(?:(?P<week>last|this|next)|past|the|over|at) weekend\b(?! of\b)", _weekend),
    (rf"\b{_WEEKDAY} (?:of )?(?P<week>last|this|next) week\b", _weekday),
    (rf"\b(?P<week>last|this|next) week,? (?:on )?{_WEEKDAY}", _weekday),
    (rf"\b(?P<week>this) {_WEEKDAY}(?! of\b)", _weekday),
    (rf"\b(?P<which>last|past|previous|next) {_WEEKDAY}(?! of\b)", _weekday),
    (rf"\b(?<!every )(?<!each )(?:on |(?={_DAY_NAMES})){_WEEKDAY}(?! of\b)", _weekday),
    (f"(?:(?P<week>{_ZH_STEP})个?|(?<!每)(?<!每个))周末", _weekend),
    (f"(?P<week>{_ZH_STEP})个?{_ZH_WEEK}的?{_ZH_WEEKDAY}", _weekday),
    # The day, week, month or year that is so near that it has a name.
    (r"\b(?P<which>last|this|next) (?P<unit>week|month|year)\b(?! of\b)", _step),
    (r"\b(?P<near>last|this) (?:night|morning|afternoon|evening)\b(?! of\b)", _near),
    (
        r"\b(?P<near>day before yesterday|yesterday|today|tonight|tomorrow|day after tomorrow)\b",
        _near,
    ),
    (f"(?P<which>{_ZH_STEP})一?个?(?P<unit>周(?!期)|星期|礼拜|月)", _step),
    (f"(?<![每几整半单双多个]){_ZH_BEGINS}{_ZH_WEEK}{_ZH_WEEKDAY}", _weekday),
    (
        "(?P<near>大前天|前天(?<![之以目日]前天)(?!天)|前晚(?<![之以目]前晚)|昨[天日晚夜]|今[天日早晨晚夜]"
        "|明[天日早晚]|大后天|后天(?<![之以今最然]后天)(?!天))",
        _near,
    ),
    (_ZH_YEAR_BEGINS + _ZH_YEAR, _year),
]
_TABLE = [(re.compile(pattern, re.ASCII), reader) for pattern, reader in _ROWS]
_ASCII_TABLE = [row for row in _TABLE if row[0].pattern.isascii()]

_CLUE = re.compile(
    rf"(?<![0-9]){_YEAR_NUMBER}(?![0-9])"
    rf"|\b(?:(?!(?:may|march) (?!of |the |last |this |next )[a-z]){_MONTH}"
    rf"|(?:{_WORDS_BEFORE}|last|this|next|[0-9]{{1,2}}(?:st|nd|rd|th)?)[ -](?:may|march)"
    rf"|(?:{_DAY_NAMES}|{_SHORT_NAMES}|yesterday|today|tonight|tomorrow|ago|weekend"
    r"|(?:last|past|previous|this|next) (?:[a-z0-9]+ ){0,3}(?:days?|weeks?|months?|years?|night"
    r"|morning|afternoon|evening|spring|summer|autumn|fall|winter))\b)"
    r"|[0-9一二三四五六七八九十] ?月|[0-9〇零○一二三四五六七八九]{4} ?年"
    r"|[天日周期拜月年][以之]?前|(?:最近|过去|近)的? ?[0-9一二两三四五六七八九十半几]"
    r"|[周期拜]的?[一二三四五六日天末]|[今昨明前后去][年天日早晨晚夜]"
    r"|[上这本下]一?个?[周星礼月春夏秋冬]",
    re.ASCII,
)
"""Something of this stands in every date; most queries have none of it and end here.

"May" and "march" before another word count only after a word that makes months of them.
"""


_SIGN = re.compile("[0-9月年前近去周期拜今昨明后上这本下]")
_WORD = re.compile("[a-z]+")
_CLUE_WORDS = frozenset(
    """
    jan january feb february mar march apr april may jun june jul july aug august sep sept
    september oct october nov november dec december monday tuesday wednesday thursday friday
    saturday sunday mon tue tues wed thu thur thurs fri yesterday today tonight tomorrow ago
    weekend last past previous this next
    """.split()  # noqa: SIM905 - a table of words reads better than a list of strings
)
"""Every clue has a sign or one of these words, which are sooner looked for than `_CLUE`."""


def _has_clue(text: str) -> bool:
    if not _SIGN.search(text) and _CLUE_WORDS.isdisjoint(_WORD.findall(text)):
        return False
    return _CLUE.search(text) is not None


def _readings(text: str, rest: str, asked: _Asked) -> Iterator[tuple[_Days, str]]:
    """What each row of the table reads in a text, and its words; the same words only once."""
    seen: set[str] = set()
    for pattern, reader in _ASCII_TABLE if rest.isascii() else _TABLE:
        matches = list(pattern.finditer(rest))
        for match in matches:
            words = text[match.start() : match.end()]
            if words not in seen:
                seen.add(words)
                yield from ((days, words) for days in _read(match, reader, asked))
        if matches:
            rest = pattern.sub(lambda match: "\n" * len(match[0]), rest)


def _read(match: re.Match[str], reader: _Reader, asked: _Asked) -> list[_Days]:
    said = {part: words for part, words in match.groupdict().items() if words}
    with suppress(ValueError, OverflowError):
        return list(reader(said, asked))
    return []
