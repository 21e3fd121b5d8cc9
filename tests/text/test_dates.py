"""Dates in a query: what names a stretch of time, what does not, and texts made to break it."""

import time
from collections.abc import Iterator
from datetime import date, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core import timestamps
from text import dates
from text.dates import MAX_SPANS, MAX_YEARS, Span, named

UTC = timezone.utc
BERLIN, SHANGHAI = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Shanghai")
WEDNESDAY = "2024-06-05T12:00:00.000Z"


def read(
    query: str, now: str = WEDNESDAY, home: tzinfo = UTC, years: tuple[int, int] = (2023, 2024)
) -> list[str]:
    """The spans of a query in short: a day by its date, the others with both ends."""
    return [_short(span) for span in named(query, now, home, lambda: years)]


def _short(span: Span) -> str:
    if span.unit == "day":
        return span.start[:10]
    return f"{span.start[:10]} {span.end[:10]} {span.unit}"


def noon(day: str) -> str:
    return f"{day}T12:00:00.000Z"


MAYS = ["2023-05-01 2023-06-01 month", "2024-05-01 2024-06-01 month"]
FOURTHS = ["2023-05-04", "2024-05-04"]


# --- Dates that stand by themselves ----------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        *("2023-05-04", "2023/5/4", "2023.5.4", "see 2023-05-04T10:30 again", "(2023-5-4)."),
        *(
            "notes/2023/05/04/index",
            "我在2023-05-04去了",
            "4 May 2023",
            "04 May 2023",
            "4-May-2023",
        ),
        *(
            "May 4, 2023",
            "May 4th, 2023",
            "may 4 2023",
            "2023 May 4",
            "2023-May-04",
            "the 4th of May, 2023",
            "MAY 4th of 2023",
        ),
        *("on Thursday, May 4th, 2023", "Thu 4 May 2023", "4 May last year", "May 4th last year"),
        *("2023年5月4日", "2023 年 5 月 4 日", "2023年5月4号", "２０２３年５月４日"),
        *("二〇二三年五月四日", "二零二三年五月四号", "2023年5月4日(星期四)", "2023年5月4日周四"),
        *("去年5月4日", "去年的五月四号", "我2023年5月4日和谁吃饭"),
    ],
)
def test_one_day_in_any_spelling_is_that_day_alone(query: str) -> None:
    assert read(query) == ["2023-05-04"]


@pytest.mark.parametrize(
    "query",
    [
        *(
            "What did I do on 4 May?",
            "4th of May",
            "May 4th",
            "May the 4th",
            "may 4",
            "on sat, may 4th",
        ),
        *("我5月4号去了哪里?", "5月4日", "五月四日", "05月04日", "５月４号", "5月4號"),
    ],
)
def test_a_day_without_a_year_is_one_in_each(query: str) -> None:
    assert read(query) == FOURTHS


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("in March 2023", "2023-03-01 2023-04-01 month"),
        ("Jan. 2023", "2023-01-01 2023-02-01 month"),
        ("Sept 2023", "2023-09-01 2023-10-01 month"),
        ("December, 2023", "2023-12-01 2024-01-01 month"),
        ("March of last year", "2023-03-01 2023-04-01 month"),
        ("2023-05", "2023-05-01 2023-06-01 month"),
        ("2023年5月", "2023-05-01 2023-06-01 month"),
        ("2023年5月份", "2023-05-01 2023-06-01 month"),
        ("二〇二三年十二月", "2023-12-01 2024-01-01 month"),
        ("去年5月", "2023-05-01 2023-06-01 month"),
        ("in 2023", "2023-01-01 2024-01-01 year"),
        ("what was the plan of 2023?", "2023-01-01 2024-01-01 year"),
        ("the year 2023", "2023-01-01 2024-01-01 year"),
        ("2023年", "2023-01-01 2024-01-01 year"),
        ("二〇二三年的计划", "2023-01-01 2024-01-01 year"),
        ("Dec 25, 1999", "1999-12-25"),
        ("in the summer of 2023", "2023-06-01 2023-09-01 month"),
        ("winter 2023", "2023-12-01 2024-03-01 month"),
        ("2023年春天", "2023-03-01 2023-06-01 month"),
        ("2023年的秋季", "2023-09-01 2023-12-01 month"),
        ("29 Feb 2024", "2024-02-29"),
        ("29 February", "2024-02-29"),
        ("2月29日", "2024-02-29"),
    ],
)
def test_months_seasons_and_years(query: str, expected: str) -> None:
    assert read(query) == [expected]


@pytest.mark.parametrize("query", ["in May", "early May", "since May.", "5月", "五月份", "in may?"])
def test_a_month_without_a_year_is_one_in_each(query: str) -> None:
    assert read(query) == MAYS


def test_a_full_name_that_only_a_month_has_needs_no_word_before_it() -> None:
    assert read("the December party") == [
        "2023-12-01 2024-01-01 month",
        "2024-12-01 2025-01-01 month",
    ]
    assert read("ask April and June") == []


# --- Dates that count from now ---------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what is on today", "2024-06-05"),
        ("Yesterday's notes", "2024-06-04"),
        ("tomorrow", "2024-06-06"),
        ("the day before yesterday", "2024-06-03"),
        ("the day after tomorrow", "2024-06-07"),
        ("this morning", "2024-06-05"),
        ("tonight", "2024-06-05"),
        ("last night", "2024-06-04"),
        ("three days ago", "2024-06-02"),
        ("a couple of days ago", "2024-06-03"),
        ("36 days ago", "2024-04-30"),
        ("a week ago", "2024-05-27 2024-06-03 week"),
        ("3 weeks ago", "2024-05-13 2024-05-20 week"),
        ("a month ago", "2024-05-01 2024-06-01 month"),
        ("half a year ago", "2023-12-01 2024-01-01 month"),
        ("two years ago", "2022-01-01 2023-01-01 year"),
        ("what happened last week", "2024-05-27 2024-06-03 week"),
        ("this week", "2024-06-03 2024-06-10 week"),
        ("next week", "2024-06-10 2024-06-17 week"),
        ("last month", "2024-05-01 2024-06-01 month"),
        ("this year", "2024-01-01 2025-01-01 year"),
        ("last weekend", "2024-06-01 2024-06-03 week"),
        ("over the weekend", "2024-06-01 2024-06-03 week"),
        ("this weekend", "2024-06-08 2024-06-10 week"),
        ("last 3 days", "2024-06-02 2024-06-06 week"),
        ("the past week", "2024-05-29 2024-06-06 week"),
        ("in the past two weeks", "2024-05-22 2024-06-06 week"),
        ("past few days", "2024-05-31 2024-06-06 week"),
        ("last six months", "2023-12-05 2024-06-06 month"),
        ("the past year", "2023-06-05 2024-06-06 year"),
        ("on Friday", "2024-05-31"),
        ("on Wednesday", "2024-06-05"),
        ("last Friday", "2024-05-31"),
        ("last Wednesday", "2024-05-29"),
        ("next Wednesday", "2024-06-12"),
        ("this fri", "2024-06-07"),
        ("next Friday", "2024-06-07"),
        ("Monday of last week", "2024-05-27"),
        ("last week on Monday", "2024-05-27"),
        ("the 5th of last month", "2024-05-05"),
        ("last March", "2024-03-01 2024-04-01 month"),
        ("last June", "2023-06-01 2023-07-01 month"),
        ("this June", "2024-06-01 2024-07-01 month"),
        ("next June", "2025-06-01 2025-07-01 month"),
        ("next July", "2024-07-01 2024-08-01 month"),
        ("this May?", "2024-05-01 2024-06-01 month"),
        ("last summer", "2023-06-01 2023-09-01 month"),
        ("this spring", "2024-03-01 2024-06-01 month"),
        ("next fall", "2024-09-01 2024-12-01 month"),
    ],
)
def test_english_counts_from_now(query: str, expected: str) -> None:
    assert read(query) == [expected]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("今天有什么安排", "2024-06-05"),
        ("昨天", "2024-06-04"),
        ("前天", "2024-06-03"),
        ("大前天", "2024-06-02"),
        ("明天", "2024-06-06"),
        ("后天", "2024-06-07"),
        ("後天", "2024-06-07"),
        ("今早", "2024-06-05"),
        ("昨晚吃了什么", "2024-06-04"),
        ("三天前", "2024-06-02"),
        ("十五天以前", "2024-05-21"),
        ("二十三天之前", "2024-05-13"),
        ("两周前", "2024-05-20 2024-05-27 week"),
        ("兩個星期前", "2024-05-20 2024-05-27 week"),
        ("3个月前", "2024-03-01 2024-04-01 month"),
        ("半年前", "2023-12-01 2024-01-01 month"),
        ("半个月前", "2024-05-20 2024-05-27 week"),
        ("十年前", "2014-01-01 2015-01-01 year"),
        ("最近三天", "2024-06-02 2024-06-06 week"),
        ("过去一周", "2024-05-29 2024-06-06 week"),
        ("近两个月", "2024-04-05 2024-06-06 month"),
        ("最近几天", "2024-05-31 2024-06-06 week"),
        ("过去半年", "2023-12-05 2024-06-06 month"),
        ("上周", "2024-05-27 2024-06-03 week"),
        ("上上周", "2024-05-20 2024-05-27 week"),
        ("上个星期", "2024-05-27 2024-06-03 week"),
        ("上礼拜", "2024-05-27 2024-06-03 week"),
        ("本周", "2024-06-03 2024-06-10 week"),
        ("这周", "2024-06-03 2024-06-10 week"),
        ("這週", "2024-06-03 2024-06-10 week"),
        ("下个月", "2024-07-01 2024-08-01 month"),
        ("上个月", "2024-05-01 2024-06-01 month"),
        ("本月", "2024-06-01 2024-07-01 month"),
        ("这个月", "2024-06-01 2024-07-01 month"),
        ("上个月5号", "2024-05-05"),
        ("上周五谁来过", "2024-05-31"),
        ("本周三", "2024-06-05"),
        ("下周一", "2024-06-10"),
        ("上星期天", "2024-06-02"),
        ("周五", "2024-05-31"),
        ("星期三", "2024-06-05"),
        ("查一下周五的会议", "2024-05-31"),
        ("周末", "2024-06-01 2024-06-03 week"),
        ("上周末", "2024-06-01 2024-06-03 week"),
        ("这周末", "2024-06-08 2024-06-10 week"),
        ("去年", "2023-01-01 2024-01-01 year"),
        ("今年", "2024-01-01 2025-01-01 year"),
        ("前年", "2022-01-01 2023-01-01 year"),
        ("明年", "2025-01-01 2026-01-01 year"),
        ("去年夏天", "2023-06-01 2023-09-01 month"),
        ("今年春天", "2024-03-01 2024-06-01 month"),
        ("上个冬天", "2023-12-01 2024-03-01 month"),
        # Where the words run on, the week remains.
        ("上周一起吃饭的人", "2024-05-27 2024-06-03 week"),
        ("上周天气", "2024-05-27 2024-06-03 week"),
        ("本周日程", "2024-06-03 2024-06-10 week"),
        ("周五天气", "2024-05-31"),
    ],
)
def test_chinese_counts_from_now(query: str, expected: str) -> None:
    assert read(query) == [expected]


@pytest.mark.parametrize(
    ("now", "query", "expected"),
    [
        ("2024-06-03", "last week", "2024-05-27 2024-06-03 week"),  # a Monday
        ("2024-06-03", "last Monday", "2024-05-27"),
        ("2024-06-09", "this week", "2024-06-03 2024-06-10 week"),  # a Sunday
        ("2024-06-09", "周末", "2024-06-08 2024-06-10 week"),
        ("2024-06-09", "last weekend", "2024-06-01 2024-06-03 week"),
        ("2025-01-01", "this week", "2024-12-30 2025-01-06 week"),
        ("2025-01-01", "上周五", "2024-12-27"),
        ("2025-01-01", "yesterday", "2024-12-31"),
        ("2025-01-01", "last month", "2024-12-01 2025-01-01 month"),
        ("2025-01-01", "last March", "2024-03-01 2024-04-01 month"),
        ("2025-01-15", "this winter", "2024-12-01 2025-03-01 month"),
        ("2025-01-15", "last winter", "2023-12-01 2024-03-01 month"),
        ("2025-03-15", "last winter", "2024-12-01 2025-03-01 month"),
        ("2024-12-15", "next winter", "2025-12-01 2026-03-01 month"),
        ("2024-12-31", "明天", "2025-01-01"),
        ("2024-12-31", "next month", "2025-01-01 2025-02-01 month"),
        ("2024-03-01", "yesterday", "2024-02-29"),
        ("2023-03-01", "昨天", "2023-02-28"),
        ("2024-03-31", "a month ago", "2024-02-01 2024-03-01 month"),
        ("2024-03-31", "past month", "2024-02-29 2024-04-01 month"),
        ("2024-02-29", "the past year", "2023-02-28 2024-03-01 year"),
        ("2024-03-31", "上个月30号", None),
    ],
)
def test_the_ends_of_weeks_months_and_years(now: str, query: str, expected: str | None) -> None:
    assert read(query, noon(now)) == ([expected] if expected else [])


# --- What is no date -------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        *(
            "",
            " ",
            "?",
            "how do I sail",
            "项目的部署方式",
            "聊天",
            "日本的信号",
            "一天",
            "三个月的房租",
        ),
        *("what may I eat", "you may be right", "this may cause trouble", "section 4 may be wrong"),
        *("march to the store", "the long march", "mayor marching", "a second opinion", "decent"),
        *(
            "sun and moon",
            "he sat down",
            "every Friday",
            "each Monday",
            "Fridays",
            "ask monday.com",
            "weekend plans",
        ),
        *(
            "600089",
            "SH600089",
            "hk00700",
            "3.5",
            "10.1.2",
            "v2023.5.4",
            "1.2023.5.4",
            "2023.5.4.1",
        ),
        *("138-0013-8000", "010-2023-0504", "2023-0504", "12/25", "24/7", "192.168.20.23", "2023"),
        *("2000 steps", "the 1990s", "in 2000s", "in 2023.5", "room 2023-5", "2023-24", "20230504"),
        *("30 February 2023", "Feb 30", "2月30日", "2023-02-30", "2023-13-01", "2023-00-10"),
        *("May 0", "May 32nd, 2023", "5月0日", "13月", "0月", "十三月", "2023年13月", "31 June"),
        *("29 Feb 2023", "2023年2月29日", "二月三十日", "一五月", "十一二月"),
        *("it will last a week", "many days", "two weeks of rest", "1.5 years ago", "long ago"),
        *("two and a half years ago", "ago", "last", "last but not least", "this and that"),
        *("每周五", "一周三次", "每个星期三", "两个星期一次", "每周末", "早上周会", "马上周报"),
        *(
            "以前天天",
            "目前天气",
            "以后天天",
            "之前年轻",
            "下周期",
            "第三天前",
            "1.5年前",
            "五月天",
        ),
        *("May 5% of users", "at 4:15 may", "Mar 10:30"),
    ],
)
def test_what_is_no_date_names_nothing(query: str) -> None:
    assert read(query) == []


# --- Several at once -------------------------------------------------------------------


def test_the_most_specific_reading_wins_and_its_words_are_not_read_again() -> None:
    assert named("2023年5月4日", WEDNESDAY, UTC, lambda: (2020, 2024)) == [
        Span("2023-05-04T00:00:00.000Z", "2023-05-05T00:00:00.000Z", "day", "2023年5月4日")
    ]
    assert read("Friday last week") == ["2024-05-31"]
    assert read("the last week of May 2023") == ["2023-05-01 2023-06-01 month"]
    assert read("the last Friday of March 2023") == ["2023-03-01 2023-04-01 month"]


def test_several_dates_come_in_the_order_of_time_and_each_once() -> None:
    assert read("today or yesterday, 上周五 or 2023年?") == [
        "2023-01-01 2024-01-01 year",
        "2024-05-31",
        "2024-06-04",
        "2024-06-05",
    ]
    assert read("yesterday, that is 4 June 2024, 昨天") == ["2024-06-04"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What did I do on  THE 4th  of May 2023?", "4th of may 2023"),
        ("我２０２３年５月４号去了哪里", "2023年5月4号"),
        ("上個月5號", "上個月5號"),
        ("In März or in March 2023", "march 2023"),
    ],
)
def test_the_words_are_those_of_the_query(query: str, words: str) -> None:
    assert [span.words for span in named(query, WEDNESDAY, UTC, lambda: (2023, 2024))] == [words]


def test_many_years_and_many_dates_are_cut_off() -> None:
    starts = read("5月4日", years=(1, 2024))
    assert (len(starts), starts[0], starts[-1]) == (MAX_YEARS, "1995-05-04", "2024-05-04")
    assert len(read("in May, in June, in July", years=(1900, 2024))) == MAX_SPANS
    assert read("in May", years=(2024, 2023)) == []
    assert read("in May 2023", years=(2024, 2023)) == ["2023-05-01 2023-06-01 month"]


# --- Zones -----------------------------------------------------------------------------


def ends(query: str, now: str, home: tzinfo) -> tuple[str, str]:
    (span,) = named(query, now, home, lambda: (2023, 2024))
    return span.start[:16], span.end[:16]


@pytest.mark.parametrize(
    ("query", "now", "home", "expected"),
    [
        ("31 March 2024", WEDNESDAY, BERLIN, ("2024-03-30T23:00", "2024-03-31T22:00")),
        ("27 Oct 2024", WEDNESDAY, BERLIN, ("2024-10-26T22:00", "2024-10-27T23:00")),
        ("2023年", WEDNESDAY, SHANGHAI, ("2022-12-31T16:00", "2023-12-31T16:00")),
        ("today", "2024-06-05T15:59:59.999Z", SHANGHAI, ("2024-06-04T16:00", "2024-06-05T16:00")),
        ("今天", "2024-06-05T16:00:00.000Z", SHANGHAI, ("2024-06-05T16:00", "2024-06-06T16:00")),
        ("yesterday", "2024-03-31T22:30:00.000Z", BERLIN, ("2024-03-30T23:00", "2024-03-31T22:00")),
    ],
)
def test_days_are_those_of_the_zone(
    query: str, now: str, home: tzinfo, expected: tuple[str, str]
) -> None:
    assert ends(query, now, home) == expected


def test_a_day_that_a_zone_left_out_is_none() -> None:
    assert read("30 December 2011", home=ZoneInfo("Pacific/Apia")) == []


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone for one test."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_the_machines_own_zone_serves_too() -> None:
    now, home = "2024-03-11T03:30:00.000Z", timestamps.zone("local")
    assert ends("today", now, home) == ("2024-03-10T05:00", "2024-03-11T04:00")


# --- Texts made to break it ------------------------------------------------------------

HOSTILE = [
    "5月" * 1300,
    "13月" * 1300,
    "last " * 800,
    "may " * 1000,
    "in  " * 1000,
    " " * 4000 + "in May",
    "9" * 4000,
    "十" * 4000,
    "周" * 4000,
    "2023-" * 800,
    "2023.5." * 580,
    "2023年的" * 680,
    "二〇" * 2000,
    "a couple of " * 340,
    "last a" + "a" * 4000,
    "monday, " * 500,
    "上个" * 2000,
    "前天" * 2000,
    "".join(f"{month}月{day}日" for month in range(1, 13) for day in range(1, 32)),
    "".join(f"{count} days ago " for count in range(300)),
]
PIECES = """
    last this next past a couple of three half 0 5 31 99 2023 year month week days weekend ago in on
    may march december jan. 4th friday mon summer today yesterday day before night
    年 月 日 号 天 周 星期 礼拜 个 前 以 后 的 最近 过去 上 下 这 本 去年 今 昨
    大 一 三 十 五 二〇二三 半 两 几 夏天 末 晚 每 , - . / : % ( ) é ﷺ ５ 號
""".split()  # noqa: SIM905 - a table of words reads better than a list of strings
patchworks = st.lists(st.sampled_from([*PIECES, " ", " ", " ", "\n", "\ud800"]), max_size=14).map(
    "".join
)
zones = st.sampled_from([UTC, BERLIN, SHANGHAI, ZoneInfo("Pacific/Apia"), timestamps.zone("local")])
moments = st.datetimes(timezones=st.just(UTC)).map(timestamps.stamp)
year_pairs = st.tuples(st.integers(-5, 12000), st.integers(-5, 12000))


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: query[:8])
def test_no_text_makes_the_search_long(query: str) -> None:
    spans = named(query, WEDNESDAY, SHANGHAI, lambda: (1900, 2024))
    # One that took long would be ended by the suite's limit; it takes 10 ms.
    assert len(spans) <= MAX_SPANS


@given(st.text(max_size=60) | patchworks, moments, zones, year_pairs)
@example("next year, tomorrow, this week", "9999-12-31T23:59:59.999Z", SHANGHAI, (9990, 9999))
@example("last year, yesterday, last winter", "0001-01-01T00:00:00.000Z", BERLIN, (1, 1))
@example("999 years ago, 999 days ago, past 999 weeks", "0002-01-01T00:00:00.000Z", UTC, (1, 2))
@example("十十月二十三十日 十十十天前", WEDNESDAY, UTC, (2023, 2024))
def test_any_text_gives_spans_that_are_well_formed(
    query: str, now: str, home: tzinfo, years: tuple[int, int]
) -> None:
    spans = named(query, now, home, lambda: years)
    assert len(spans) <= MAX_SPANS
    assert spans == sorted(spans, key=lambda span: (span.start, span.end))
    assert len({(span.start, span.end) for span in spans}) == len(spans)
    for span in spans:
        assert span.start < span.end
        assert span.words
        assert {timestamps.parse(each, UTC) for each in (span.start, span.end)} == {
            span.start,
            span.end,
        }


@given(patchworks)
def test_the_clue_stands_in_all_that_the_table_reads(text: str) -> None:
    # Read without the clue first: nothing may be found where there is none.
    if not dates._CLUE.search(text):
        assert not any(pattern.search(text) for pattern, _ in dates._TABLE)


@given(patchworks | st.text(max_size=60))
def test_what_is_looked_for_first_stands_wherever_there_is_a_clue(text: str) -> None:
    assert dates._has_clue(text) is bool(dates._CLUE.search(text))


@pytest.mark.parametrize("word", sorted(dates._CLUE_WORDS))
def test_years_are_asked_for_only_where_there_may_be_a_date(word: str) -> None:
    def years() -> tuple[int, int]:
        asked.append(word)
        return (2023, 2024)

    asked: list[str] = []
    assert named(f"the {word}ish boat of Mel", WEDNESDAY, UTC, years) == []
    assert not asked
    assert named(f"the boat on {word} 4 May", WEDNESDAY, UTC, years)
    assert asked


@given(st.dates(), st.integers(-40, 40))
def test_a_day_is_read_back_from_its_own_date(day: date, ahead: int) -> None:
    if 1900 <= day.year <= 2098:
        other = day + timedelta(days=ahead)
        assert read(f"on {other.isoformat()}, then") == [other.isoformat()]
        assert read(f"{day.year}年{day.month}月{day.day}日") == [day.isoformat()]
        if ahead >= 0:
            past = (day - timedelta(days=ahead)).isoformat()
            assert read(f"{ahead} days ago", noon(day.isoformat())) == [past]
