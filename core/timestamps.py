"""Time, in one form everywhere: UTC, ISO 8601 with milliseconds and `Z`.

The form sorts as text in the order of time, so SQL compares stored times as they stand.
"""

import re
from datetime import MAXYEAR, datetime, timedelta, timezone, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

Bound = Literal["start", "last", "end"]
"""What a bare date means: its first instant, its last one, or the first one after it."""

FOREVER = "9999-12-31T23:59:59.999Z"
_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d\d(?::?[0-5]\d)?)?)?",
    re.IGNORECASE | re.ASCII,
)
_TICK = timedelta(milliseconds=1)


def zone(name: str) -> tzinfo:
    """The timezone of a setting: `local`, `utc` or an IANA name.

    Raises KeyError or ValueError where there is no such zone.
    """
    if name.lower() == "local":
        # Asked anew for each time, so that a moment in summer gets the summer's offset.
        return _Local()
    return timezone.utc if name.lower() == "utc" else ZoneInfo(name)


def stamp(moment: datetime) -> str:
    """The stored form of a moment.

    >>> stamp(datetime(2026, 7, 1, 10, 0, tzinfo=timezone(timedelta(hours=8))))
    '2026-07-01T02:00:00.000Z'
    """
    utc = moment.astimezone(timezone.utc).replace(tzinfo=None)
    return utc.isoformat(timespec="milliseconds") + "Z"


def now() -> str:
    """This moment, in the stored form."""
    return stamp(datetime.now(timezone.utc))


def in_days(days: float) -> str:
    """So many days from now, in the stored form."""
    return stamp(datetime.now(timezone.utc) + timedelta(days=days))


def parse(text: str, home: tzinfo, *, date_means: Bound = "start") -> str:
    """The stored form of an ISO 8601 time; without an offset it is meant in `home`.

    Raises ValueError for anything else, and for a moment outside the years 1 to 9999.

    >>> parse("2026-07-01T10:00:00.1239+08:00", timezone.utc)
    '2026-07-01T02:00:00.123Z'
    >>> parse("2026-07-01", timezone.utc, date_means="last")
    '2026-07-01T23:59:59.999Z'
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    microsecond = int((fraction or "").ljust(6, "0")[:6] or 0)
    clock = (int(hour or 0), int(minute or 0), int(second or 0), microsecond)
    moment = datetime(int(year), int(month), int(day), *clock, tzinfo=_offset(offset) or home)
    try:
        if hour is None and date_means != "start":
            moment = _next_midnight(moment) - (_TICK if date_means == "last" else timedelta(0))
        return stamp(moment)
    except OverflowError:
        if hour is None and int(year) == MAXYEAR:  # what many write for "for ever"
            return FOREVER
        raise ValueError(text) from None


def day(moment: str, home: tzinfo) -> str:
    """The date of a stored time in a zone.

    >>> day("2026-07-01T23:30:00.000Z", timezone(timedelta(hours=8)))
    '2026-07-02'
    """
    try:
        utc = datetime.fromisoformat(moment[:-1]).replace(tzinfo=timezone.utc)
        return utc.astimezone(home).date().isoformat()
    except (OverflowError, ValueError):  # in the first or the last hours of all time; or no time
        return moment[:10]


def _next_midnight(midnight: datetime) -> datetime:
    """The start of the following day, as an instant: a day need not have 24 hours."""
    following = (midnight.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=midnight.tzinfo)
    return following.astimezone(timezone.utc)


def _offset(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text in "Zz":
        return timezone.utc
    hours, minutes = int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0
    span = timedelta(hours=hours, minutes=minutes)
    return timezone(-span if text[0] == "-" else span)


class _Local(tzinfo):
    """The machine's own zone, with the rules it has at each moment."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        naive = (when or datetime.now()).replace(tzinfo=None)
        return naive.astimezone().utcoffset() or timedelta(0)

    def fromutc(self, when: datetime) -> datetime:
        there = when.replace(tzinfo=timezone.utc).astimezone()
        return there.replace(tzinfo=self)

    def dst(self, when: datetime | None) -> timedelta | None:
        return None

    def tzname(self, when: datetime | None) -> str:
        return "local"
