"""Rules inside windows: fires outside quiet hours, and fires on the days that a calendar leaves.

A window is a rule around a rule, so that previews, forecasts, misfires and backfills see what really fires. Times of
day that quiet hours swallow fire once, when they end, as times do that a change of clocks swallows. With ``move`` a
fire on a day of the calendar comes at the same time of the next day that is not one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from horae.core.dataclass import dataclass
from horae.core.schedules.day_lists import read_days, read_quiet
from horae.core.schedules.rules import Cron, Every, Rule
from horae.core.time.cron import last_before
from horae.core.time.instants import MICROSECOND, aware
from horae.core.time.zones import span_at, zone_named
from horae.errors import InvalidInput
from horae.words.languages import Language

CalendarRule = Literal["exclude", "include", "move"]
CALENDAR_RULES: tuple[CalendarRule, ...] = ("exclude", "include", "move")
MOST_TIMES = 24  # a day, of a rule whose fires are moved
_DAY = timedelta(days=1)
_MOST_CLOSED = 3700  # days in a row without one that is left: then nothing ever fires
_MOST_TRIES = 2000  # fires in a row that fall on days that are left out


@dataclass(frozen=True, slots=True)
class Awake:
    """The fires of a rule outside quiet hours; what these swallow fires once, when they end."""

    rule: Rule
    zone: str
    quiet: str

    def next_after(self, instant: datetime) -> datetime | None:
        try:
            return self._next_after(aware(instant))
        except OverflowError:  # the calendar ends here
            return None

    def _next_after(self, instant: datetime) -> datetime | None:
        here = None if _rests(self.rule) else self._window_at(instant)
        if here is not None:
            swallowed = self.rule.next_after(here[0] - MICROSECOND)
            if swallowed is not None and swallowed < here[1]:
                return here[1]
        fire = self.rule.next_after(instant)
        window = None if fire is None else self._window_at(fire)
        return fire if window is None else window[1]

    def previous_before(self, instant: datetime) -> datetime | None:
        return None if _rests(self.rule) else last_before(self, instant)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        return _between(self, start, end)

    def count(self, start: datetime, end: datetime) -> int:
        """Count the fires after *start* up to and including *end*: those between windows, and one for each window."""
        after, until, found = aware(start, "start"), aware(end, "end"), 0
        cursor = after
        for opens, closes in self._windows(after, until):
            if opens - MICROSECOND > cursor:
                found += self.rule.count(cursor, min(opens - MICROSECOND, until))
            if after < closes <= until:
                found += self.rule.count(opens - MICROSECOND, closes) > 0
            cursor = max(cursor, closes)
        return found + (self.rule.count(cursor, until) if cursor < until else 0)

    def describe(self, language: Language = "en") -> str:
        hours = " and ".join(f"{_clock(first)}-{_clock(last)}" for first, last in read_quiet(self.quiet))
        if language == "zh":
            return f"{self.rule.describe(language)}，{hours.replace(' and ', '、')} 静默，结束时补一次"
        return f"{self.rule.describe(language)}, quiet {hours}: what falls there fires once at its end"

    def _window_at(self, instant: datetime) -> tuple[datetime, datetime] | None:
        return next((each for each in self._windows(instant, instant) if each[0] <= instant < each[1]), None)

    def _windows(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        return quiet_windows(self.quiet, self.zone, start, end)


@dataclass(frozen=True, slots=True)
class OnDays:
    """The fires of a rule on the days that a calendar leaves (exclude), names (include), or moves to (move)."""

    rule: Rule
    zone: str
    days: tuple[str, ...]
    how: CalendarRule
    name: str = ""

    def next_after(self, instant: datetime) -> datetime | None:
        after = aware(instant)
        try:
            return self._next_moved(after) if self.how == "move" else self._next_on(after)
        except OverflowError:  # the calendar ends here
            return None

    def previous_before(self, instant: datetime) -> datetime | None:
        return None if _rests(self.rule) else last_before(self, instant)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        return _between(self, start, end)

    def count(self, start: datetime, end: datetime) -> int:
        """Count the fires after *start* up to and including *end*; days in a row that are left are counted at once."""
        after, until = aware(start, "start"), aware(end, "end")
        zone, is_open, found = zone_named(self.zone), self._opens(), 0
        day, last = _local_date(after, zone), _local_date(until, zone)
        while day <= last:
            first = day
            while day <= last and is_open(day):
                day += _DAY
            if day > first and self.how == "move" and not is_open(first - _DAY):  # what was moved comes on it
                found += len({each for each in self._landings(first, zone) if after < each <= until})
                first += _DAY
            if day > first:
                opens, closes = _midnight(first, zone) - MICROSECOND, _midnight(day, zone) - MICROSECOND
                found += self.rule.count(max(opens, after), min(closes, until)) if opens < until else 0
            day += _DAY
        return found

    def describe(self, language: Language = "en") -> str:
        texts = _CHINESE if language == "zh" else _ENGLISH
        return texts[self.how].format(rule=self.rule.describe(language), name=self.name)

    def _opens(self) -> Callable[[date], bool]:
        """Return the test whether a day may have fires."""
        days = read_days(self.days)
        return days.__contains__ if self.how == "include" else lambda day: day not in days

    def _next_on(self, after: datetime) -> datetime | None:
        zone, is_open = zone_named(self.zone), self._opens()
        for _ in range(_MOST_TRIES):
            fire = self.rule.next_after(after)
            if fire is None:
                return None
            day = _local_date(fire, zone)
            if is_open(day):
                return fire
            following = _first_open(day, is_open)
            if following is None:
                return None
            after = _midnight(following, zone) - MICROSECOND
        return None

    def _next_moved(self, after: datetime) -> datetime | None:
        zone, is_open = zone_named(self.zone), self._opens()
        day: date | None = _local_date(after, zone)
        for _ in range(_MOST_TRIES):
            day = None if day is None else _first_open(day, is_open)
            if day is None:
                return None
            landed = min((each for each in self._landings(day, zone) if each > after), default=None)
            if landed is not None:
                return landed
            ahead = self.rule.next_after(max(after, _midnight(day + _DAY, zone) - MICROSECOND))
            day = None if ahead is None else _local_date(ahead, zone)
        return None

    def _landings(self, day: date, zone: ZoneInfo) -> Iterator[datetime]:
        """Yield the fires of an open day, in no order: its own, and those of the closed days right before it."""
        days, source = read_days(self.days), day
        while (source == day or source in days) and (day - source).days <= _MOST_CLOSED:
            for fire in self.rule.between(*(_midnight(each, zone) - MICROSECOND for each in (source, source + _DAY))):
                yield fire if source == day else _instant(datetime.combine(day, _local(fire, zone).time()), zone)
            source -= _DAY


_ENGLISH = {
    "exclude": "{rule}, except on days of the calendar {name}",
    "include": "{rule}, only on days of the calendar {name}",
    "move": "{rule}; on days of the calendar {name}, on the next day that is not one",
}
_CHINESE = {
    "exclude": "{rule}，日历 {name} 中的日子除外",
    "include": "{rule}，仅在日历 {name} 中的日子",
    "move": "{rule}；遇日历 {name} 中的日子，顺延至其后第一个不在其中的日子",
}


def in_windows(
    rule: Rule, zone: str, quiet: str | None, name: str | None, days: tuple[str, ...], how: CalendarRule
) -> Rule:
    """Return a rule inside its quiet hours and its calendar, where it has any."""
    shaped = rule if quiet is None else Awake(rule, zone, quiet)
    return shaped if name is None else OnDays(shaped, zone, days, how, name)


def next_window(quiet: str, zone: str, now: datetime) -> tuple[datetime, datetime]:
    """Return when the quiet hours of this moment, or the next ones, begin and end."""
    return next(iter(quiet_windows(quiet, zone, now, now + 3 * _DAY)))


def quiet_windows(quiet: str, zone: str, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the quiet hours that end after *start* and begin no later than *end*, in order."""
    clock = zone_named(zone)
    day, last = _local_date(start, clock) - _DAY, _local_date(end, clock)
    while day <= last:
        for first, until in read_quiet(quiet):
            opens, closes = _at_minute(day, first, clock), _at_minute(day, until, clock)
            if closes > start and opens <= end and opens < closes:
                yield opens, closes
        day += _DAY


def check_windows(rule: Rule | None, kind: str, quiet: str | None, calendar: str | None, how: str) -> None:
    """Refuse windows that cannot be read, or that the kind of rule cannot have."""
    if how not in CALENDAR_RULES:
        raise InvalidInput("choice_unknown", name="calendar_rule", value=str(how), choices=list(CALENDAR_RULES))
    if quiet is None and calendar is None:
        return
    if kind not in ("cron", "every"):
        raise InvalidInput("window_without_rhythm", kind=kind)
    if quiet is not None:
        read_quiet(quiet)
    if calendar is not None and how == "move":
        times = rule.parsed.times_a_day if isinstance(rule, Cron) else 0
        if not 1 <= times <= MOST_TIMES:
            raise InvalidInput("move_too_often", most=MOST_TIMES)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _rests(rule: Rule) -> bool:
    """Return whether a rule counts from the end of its runs, so that it has no fires of its own to look back on."""
    inner = rule.rule if isinstance(rule, Awake) else rule
    return isinstance(inner, Every) and inner.anchor == "finish"


def _between(rule: Rule, start: datetime, end: datetime) -> Iterator[datetime]:
    until = aware(end, "end")
    fire = rule.next_after(aware(start, "start"))
    while fire is not None and fire <= until:
        yield fire
        fire = rule.next_after(fire)


def _first_open(day: date, is_open: Callable[[date], bool]) -> date | None:
    for _ in range(_MOST_CLOSED):
        if is_open(day):
            return day
        if day >= date.max - _DAY:
            return None
        day += _DAY
    return None


def _local(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _local_date(moment: datetime, zone: ZoneInfo) -> date:
    return moment.astimezone(zone).date()


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return when a day begins on the clocks of a zone."""
    return _at_minute(day, 0, zone)


def _at_minute(day: date, minute: int, zone: ZoneInfo) -> datetime:
    return _instant(datetime.combine(day, time()) + timedelta(minutes=minute), zone)


def _instant(reading: datetime, zone: ZoneInfo) -> datetime:
    """Return when clocks show a reading first; for one that they skip, the first instant after it."""
    found = reading.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return found if _local(found, zone) == reading else span_at(zone, found).start


def _clock(minute: int) -> str:
    return f"{minute % 1440 // 60:02}:{minute % 60:02}"
