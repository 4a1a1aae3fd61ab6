"""Times as a person reads them: how long ago, on which clock, how long it took.

Every instant is shown in the zone that the reader has chosen (*mine*, a schedule's own, or UTC), with that zone beside
it. What a machine reads, the attribute ``datetime``, is always UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from babel.dates import format_date

from horae.console import texts
from horae.console.texts import _
from horae.core.dataclass import dataclass

ZoneChoice = Literal["mine", "schedule", "utc"]
CHOICES: tuple[ZoneChoice, ...] = ("mine", "schedule", "utc")
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
UNITS = (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND))


@dataclass(frozen=True)
class Clock:
    """The reader's clock: the present instant, the zone chosen, and the browser's own zone where it is known."""

    now: datetime
    choice: ZoneChoice = "mine"
    browser: str | None = None

    def zone_for(self, schedule: str | None = None) -> tzinfo:
        """Return the zone to show a time in; *schedule* is the zone of the schedule that it belongs to."""
        if self.choice == "schedule" and schedule is not None:
            return zone_named(schedule) or UTC
        if self.choice == "mine" and self.browser is not None:
            return zone_named(self.browser) or UTC
        return UTC


@lru_cache(maxsize=64)
def zone_named(name: str) -> tzinfo | None:
    """Return a zone by its IANA name; None for any other text."""
    if name not in available_timezones():
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def zone_label(at: datetime) -> str:
    """Return the zone of an aware time as its distance to UTC: abbreviations such as CST mean several zones."""
    offset = at.utcoffset() or timedelta(0)
    if not offset:
        return "UTC"
    minutes = abs(offset) // MINUTE
    sign = "+" if offset > timedelta(0) else "−"
    return f"UTC{sign}{minutes // 60}" + (f":{minutes % 60:02d}" if minutes % 60 else "")


def relative(at: datetime, now: datetime) -> str:
    """Return how far an instant is from now: "8 min ago", "in 2 h 5 min"."""
    away = at - now
    if abs(away) < timedelta(seconds=1):
        return _("now")
    length = _long(timedelta(seconds=round(abs(away).total_seconds())))
    return _("in %(span)s", span=length) if at > now else _("%(span)s ago", span=length)


def clock_time(at: datetime, now: datetime, zone: tzinfo, *, seconds: bool = False) -> str:
    """Return an instant on the reader's clock, with its day unless that is today."""
    there, today = at.astimezone(zone), now.astimezone(zone)
    time = f"{there:%H:%M:%S}" if seconds else f"{there:%H:%M}"
    if there.date() == today.date():
        return time
    if abs(at - now) < 300 * DAY:
        return f"{day(there)} {time}"
    return f"{there:%Y-%m-%d} {time}"


def exact(at: datetime, zone: tzinfo) -> str:
    """Return an instant to the millisecond, with its zone."""
    there = at.astimezone(zone)
    return f"{there:%Y-%m-%d %H:%M:%S}.{there.microsecond // 1000:03d} {zone_label(there)}"


def span(length: timedelta | None) -> str:
    """Return a duration, as precise as a person needs: 840 ms, 3.2 s, 4 min 10 s, 2 h 5 min."""
    if length is None:
        return "–"
    seconds = length.total_seconds()
    if seconds < 0:
        return f"−{span(-length)}"
    if seconds < 1:
        return _("%(count)s ms", count=round(seconds * 1000))
    if seconds < 60:
        return _("%(count)s s", count=f"{seconds:.1f}".removesuffix(".0"))
    return _long(length)


def _long(length: timedelta) -> str:
    """Return a length by its largest unit, and by the next one where the first is a small number."""
    names = {"d": _("%(count)s d"), "h": _("%(count)s h"), "min": _("%(count)s min"), "s": _("%(count)s s")}
    for (unit, size), (smaller, part) in pairwise(UNITS):
        count = length // size
        if count:
            rest = (length % size) // part if count < (2 if unit == "min" else 10) else 0
            first = names[unit] % {"count": count}
            return f"{first} {names[smaller] % {'count': rest}}" if rest else first
    return names["s"] % {"count": length // SECOND}


def day(at: datetime) -> str:
    """Return the day of a time without its year, as the reader's language writes it."""
    return format_date(at.date(), "d MMM" if texts.current() != "zh" else "M月d日", locale=_babel())


def _babel() -> str:
    return texts.BABEL[texts.current()]
