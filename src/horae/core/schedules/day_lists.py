"""Calendars: named lists of days, and quiet hours; their text read once, then asked about dates and times of day.

A day of a calendar is a date (``2027-12-25``), a range (``2027-12-24..2027-12-31``), a date of every year (``12-25``)
or a weekday (``sat``). Quiet hours are ``22:00-07:00``, or several of them with commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from datetime import date, datetime, timedelta
from functools import lru_cache

from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import name as checked_name
from horae.errors import InvalidInput

MOST_DAYS = 1000  # entries of one calendar
LONGEST_RANGE = 3700  # days of one entry
MAX_TITLE = 255
MINUTES = 1440
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_RANGE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:\.\.([0-9]{4}-[0-9]{2}-[0-9]{2}))?")
_YEARLY = re.compile(r"([0-9]{2})-([0-9]{2})")
_HOURS = re.compile(r"([0-9]{1,2}):([0-9]{2})\s*-\s*([0-9]{1,2}):([0-9]{2})")


@dataclass(frozen=True, slots=True)
class Calendar:
    """A named list of days that schedules refer to."""

    name: str
    days: tuple[str, ...]
    title: str | None = None
    version: int = 1
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DayList:
    """Days, to be asked whether a date is one of them."""

    dates: frozenset[date] = frozenset()
    yearly: frozenset[tuple[int, int]] = frozenset()
    weekdays: frozenset[int] = field(default_factory=frozenset)

    def __contains__(self, day: date) -> bool:
        return day in self.dates or (day.month, day.day) in self.yearly or day.weekday() in self.weekdays


def check_calendar(calendar: Calendar) -> Calendar:
    """Refuse a calendar that cannot be read; return it with its days in one form and order, each once."""
    checked_name(calendar.name, "calendar", 100)
    if calendar.title and not (calendar.title.isprintable() and len(calendar.title) <= MAX_TITLE):
        raise InvalidInput("title_unprintable", most=MAX_TITLE)
    days = calendar.days
    if not all(isinstance(day, str) for day in days):
        raise InvalidInput("type_wrong", name="days", value=repr(days), expected="a list of texts")
    if not 1 <= len(days) <= MOST_DAYS:
        raise InvalidInput("out_of_range", name="the number of days", value=len(days), least=1, most=MOST_DAYS)
    written = tuple(sorted({day.strip().lower() for day in days}))
    read_days(written)
    return Calendar(calendar.name, written, calendar.title or None, calendar.version, calendar.updated_at)


@lru_cache(maxsize=1024)
def read_days(days: tuple[str, ...]) -> DayList:
    """Return the days of a calendar; refuse text that is no day."""
    dates: set[date] = set()
    yearly: set[tuple[int, int]] = set()
    weekdays: set[int] = set()
    for text in days:
        try:
            if text in _WEEKDAYS:
                weekdays.add(_WEEKDAYS.index(text))
            elif match := _YEARLY.fullmatch(text):
                day = date(2000, int(match[1]), int(match[2]))  # a leap year, so that 02-29 is a day
                yearly.add((day.month, day.day))
            else:
                dates |= set(_dates(text))
        except ValueError:
            raise InvalidInput("calendar_day_unreadable", text=text) from None
    if len(weekdays) == len(_WEEKDAYS):
        raise InvalidInput("calendar_has_every_day")
    return DayList(frozenset(dates), frozenset(yearly), frozenset(weekdays))


def _dates(text: str) -> Iterable[date]:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    first, last = (date.fromisoformat(each or match[1]) for each in match.groups())
    if not 0 <= (last - first).days <= LONGEST_RANGE:
        raise ValueError(text)
    return (first + timedelta(days=count) for count in range((last - first).days + 1))


@lru_cache(maxsize=1024)
def read_quiet(text: str) -> tuple[tuple[int, int], ...]:
    """Return quiet hours as pairs of minutes of the day, in order and apart; the last may pass midnight."""
    quiet = [False] * MINUTES
    for item in text.split(",") if isinstance(text, str) else [repr(text)]:
        first, last = _minutes(item.strip())
        for minute in range(first, last if last > first else last + MINUTES):
            quiet[minute % MINUTES] = True
    starts = [minute for minute in range(MINUTES) if quiet[minute] and not quiet[minute - 1]]
    if not starts:
        raise InvalidInput("quiet_all_day", text=text)
    return tuple((start, next(m for m in range(start, 2 * MINUTES) if not quiet[m % MINUTES])) for start in starts)


def _minutes(text: str) -> tuple[int, int]:
    match = _HOURS.fullmatch(text)
    numbers = [] if match is None else [int(each) for each in match.groups()]
    if match is None or numbers[0] > 23 or numbers[2] > 24 or numbers[1] > 59 or numbers[3] > 59:
        raise InvalidInput("quiet_unreadable", text=text)
    first, last = numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
    if last > MINUTES or first == last:
        raise InvalidInput("quiet_unreadable", text=text)
    return first, last % MINUTES if last != MINUTES else MINUTES
