"""Times: what is understood, what a bare date means, and that text sorts as time does."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import timestamps
from core.timestamps import Bound, now, parse, stamp, zone

UTC = timezone.utc
BERLIN = "Europe/Berlin"
MEANINGS: tuple[Bound, ...] = get_args(Bound)


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone for one test."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-01T10:00:00Z", "2026-07-01T10:00:00.000Z"),
        ("2026-07-01t10:00:00z", "2026-07-01T10:00:00.000Z"),
        ("2026-07-01 10:00", "2026-07-01T10:00:00.000Z"),
        (" 2026-07-01T10:00:00\n", "2026-07-01T10:00:00.000Z"),
        ("2026-07-01T10:00:00+08:00", "2026-07-01T02:00:00.000Z"),
        ("2026-07-01T10:00:00 +08:00", "2026-07-01T02:00:00.000Z"),
        ("2026-07-01T10:00:00+0530", "2026-07-01T04:30:00.000Z"),
        ("2026-07-01T10:00:00-05", "2026-07-01T15:00:00.000Z"),
        ("2026-07-01T10:00:00-00:00", "2026-07-01T10:00:00.000Z"),
        ("2026-07-01T00:30:00+14:00", "2026-06-30T10:30:00.000Z"),
        ("2026-12-31T23:00:00-12:00", "2027-01-01T11:00:00.000Z"),
        ("2026-07-01T10:00:00.5Z", "2026-07-01T10:00:00.500Z"),
        ("2026-07-01T10:00:00,25Z", "2026-07-01T10:00:00.250Z"),
        ("2026-07-01T10:00:00.123999Z", "2026-07-01T10:00:00.123Z"),
        ("2026-07-01T23:59:59.999999999Z", "2026-07-01T23:59:59.999Z"),
        ("2028-02-29", "2028-02-29T00:00:00.000Z"),
        ("0001-01-01", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_every_usual_spelling_becomes_one_form(text: str, expected: str) -> None:
    assert parse(text, UTC) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "next March", "yesterday", "now", "1767225600", "2026", "2026-07", "20260701"),
        *("2026-13-01", "2026-00-10", "2026-02-30", "2026-06-31", "2027-02-29", "2026-01-00"),
        *("0000-01-01", "-2026-01-01", "12026-01-01", "26-01-01", "2026-7-1"),
        *("2026-07-01T24:00", "2026-07-01T10:60", "2026-07-01T10:00:60", "2026-07-01T10"),
        *("2026-07-01T10:00:00+24:00", "2026-07-01T10:00+08:60", "2026-07-01T10:00+8"),
        *("2026-07-01T10:00:00Z!", "2026-07-01 or so", "2026-07-01T10:00:00 CEST", "2026-07-01Z"),
        *("2026-07-01T10:00:00.Z", "2026-07-01T10:00:00.1234567890Z", "2026/07/01"),
        *("٢٠٢٦-07-01", "２０２６-07-01", "2026−07−01", "2026-07-01\x00", "2026-W27-3", "2026-182"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - validation.py finds the words for it
        parse(text, UTC)


@pytest.mark.parametrize(
    ("text", "name", "means"),
    [
        ("0001-01-01", "Asia/Shanghai", "start"),
        ("0001-01-01T00:00+00:01", "utc", "start"),
        ("9999-12-31T23:59:59", "America/New_York", "start"),
        ("9999-12-31T23:59-00:01", "utc", "start"),
    ],
)
def test_a_moment_outside_the_calendar_is_refused(text: str, name: str, means: Bound) -> None:
    with pytest.raises(ValueError, match=r"0001|9999"):
        parse(text, zone(name), date_means=means)


# --- Bare dates and zones --------------------------------------------------------------


@pytest.mark.parametrize(
    ("date", "name", "start", "end"),
    [
        ("2026-07-01", "utc", "2026-07-01T00:00:00.000Z", "2026-07-02T00:00:00.000Z"),
        ("2026-07-01", "Asia/Shanghai", "2026-06-30T16:00:00.000Z", "2026-07-01T16:00:00.000Z"),
        ("2026-12-31", "Asia/Kolkata", "2026-12-30T18:30:00.000Z", "2026-12-31T18:30:00.000Z"),
        # The night on which clocks go forward is an hour short, the other one an hour long.
        ("2026-03-29", BERLIN, "2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"),
        ("2026-10-25", BERLIN, "2026-10-24T22:00:00.000Z", "2026-10-25T23:00:00.000Z"),
        # Here the day of the change has no midnight: its first instant is one o'clock.
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00.000Z", "2018-11-05T02:00:00.000Z"),
        # And here midnight comes twice: the day starts with the first.
        ("2025-11-02", "America/Havana", "2025-11-02T04:00:00.000Z", "2025-11-03T05:00:00.000Z"),
    ],
)
def test_a_bare_date_is_the_whole_day_of_its_zone(
    date: str, name: str, start: str, end: str
) -> None:
    home = zone(name)
    assert parse(date, home) == parse(date, home, date_means="start") == start
    assert parse(date, home, date_means="end") == end
    last = parse(date, home, date_means="last")
    tick = timedelta(milliseconds=1)
    assert datetime.fromisoformat(last[:-1]) + tick == datetime.fromisoformat(end[:-1])


def test_days_have_23_and_25_hours_when_clocks_change() -> None:
    def hours(date: str) -> float:
        start, end = (parse(date, zone(BERLIN), date_means=means) for means in ("start", "end"))
        span = datetime.fromisoformat(end[:-1]) - datetime.fromisoformat(start[:-1])
        return span.total_seconds() / 3600

    assert [hours(f"2026-{day}") for day in ("03-29", "10-25", "07-01")] == [23, 25, 24]


@pytest.mark.parametrize("means", MEANINGS)
def test_a_time_of_day_means_itself_whatever_a_date_would_mean(means: Bound) -> None:
    text = "2026-07-01T00:00:00+02:00"
    assert parse(text, zone(BERLIN), date_means=means) == "2026-06-30T22:00:00.000Z"


def test_a_time_without_an_offset_is_in_the_zone_of_the_settings() -> None:
    assert parse("2026-01-01T12:00", zone(BERLIN)) == "2026-01-01T11:00:00.000Z"
    assert parse("2026-07-01T12:00", zone(BERLIN)) == "2026-07-01T10:00:00.000Z"
    assert parse("2026-07-01T12:00Z", zone(BERLIN)) == "2026-07-01T12:00:00.000Z"


@pytest.mark.usefixtures("in_new_york")
def test_the_local_zone_is_the_machines_with_the_offset_of_each_season() -> None:
    home = zone("local")
    assert parse("2026-01-15T12:00", home) == "2026-01-15T17:00:00.000Z"
    assert parse("2026-07-15T12:00", home) == "2026-07-15T16:00:00.000Z"
    assert parse("2026-03-08", home, date_means="end") == "2026-03-09T04:00:00.000Z"
    assert parse("2026-11-01", home, date_means="last") == "2026-11-02T04:59:59.999Z"
    assert stamp(datetime(2026, 1, 15, 12, tzinfo=home)) == "2026-01-15T17:00:00.000Z"


@pytest.mark.parametrize("name", ["utc", "UTC", "Utc"])
def test_utc_may_be_written_in_any_case(name: str) -> None:
    assert zone(name) is UTC


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime"])
def test_an_unknown_zone_is_an_error(name: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        zone(name)


# --- The form --------------------------------------------------------------------------


def test_now_is_this_moment_in_the_stored_form() -> None:
    before, text, after = datetime.now(UTC), now(), datetime.now(UTC)
    assert stamp(before) <= text <= stamp(after)
    assert parse(text, UTC) == text


def test_years_before_1000_keep_four_digits() -> None:
    # strftime writes the year 987 without its zero on Linux: it then sorted after 2026.
    assert stamp(datetime(987, 7, 3, tzinfo=UTC)) == "0987-07-03T00:00:00.000Z"
    assert stamp(datetime(987, 7, 3, tzinfo=UTC)) < stamp(datetime(2026, 1, 1, tzinfo=UTC))


zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=zones
)


@given(moments, moments)
def test_stamps_sort_as_text_in_the_order_of_their_moments(one: datetime, two: datetime) -> None:
    earlier, later = sorted([one, two])
    assert stamp(earlier) <= stamp(later)
    if later - earlier >= timedelta(milliseconds=1):
        assert stamp(earlier) < stamp(later)


@given(moments, zones)
def test_a_stamp_is_understood_as_it_was_meant(moment: datetime, home: tzinfo) -> None:
    text = stamp(moment)
    assert timestamps.parse(text, home) == text
    assert timestamps.parse(moment.isoformat(), home) == text
    lost = moment - datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    assert timedelta(0) <= lost < timedelta(milliseconds=1)


@given(st.dates(), st.sampled_from(["utc", BERLIN, "America/Sao_Paulo", "Asia/Shanghai"]))
def test_a_day_ends_one_tick_before_the_next_begins(day: object, name: str) -> None:
    try:
        first, last, end = (parse(str(day), zone(name), date_means=means) for means in MEANINGS)
    except ValueError:
        assert str(day) in ("0001-01-01", "9999-12-31")
        return
    assert first < last < end
    assert datetime.fromisoformat(end[:-1]) - datetime.fromisoformat(last[:-1]) == timedelta(
        milliseconds=1
    )


@pytest.mark.parametrize("name", ["utc", "America/New_York", "Asia/Shanghai"])
def test_the_last_day_of_the_calendar_stands_for_ever(name: str) -> None:
    ends = {parse("9999-12-31", zone(name), date_means=means) for means in ("last", "end")}
    assert all(end.startswith("9999-12-31T") for end in ends)
