"""Cron schedules: the next instant at which wall clocks in a zone show a matching time.

The calendar (:mod:`horae.core.time.calendars`) knows which readings match; the zone (:mod:`horae.core.time.zones`)
is a line of spans, each with one offset. Inside a span the answer is an addition. Only where a span ends do the rules
for gaps and folds speak::

    fixed time   no item of the minute and the hour field begins with a star: times of day
                 in a gap   one fire at the first instant after it for all the times it swallowed (gap="after"),
                            or none ("skip")
                 in a fold  the first of the two (fold="first"), or each ("both")
    elapsed      anything else: a rhythm. Every real minute (second) whose reading matches fires, in both passes of
                 a fold; a gap has no such minutes.

The seconds field has no say in which of the two a schedule is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol
from zoneinfo import ZoneInfo

from horae.core.dataclass import dataclass
from horae.core.time.calendars import Calendar, DayMatch
from horae.core.time.cron_text import Parsed, parse
from horae.core.time.instants import aware
from horae.core.time.zones import EARLIEST, Span, shift, span_at, spans_of, zone_named
from horae.errors import InvalidInput, NeverFires
from horae.words.languages import Language

if TYPE_CHECKING:
    from horae.words.languages import Language

Gap = Literal["after", "skip"]
Fold = Literal["first", "both"]

DAY_MATCHES, GAPS, FOLDS = ("and", "or"), ("after", "skip"), ("first", "both")
_TICK = timedelta(microseconds=1)
_EDGE = timedelta(days=2)  # no change of offset reaches further
_WINDOWS = tuple(timedelta(days=days) for days in (0.002, 0.05, 1.5, 40, 400, 3700, 15_000, 150_000))
_CYCLE = 400  # years after which the calendar repeats: what did not fire in so many will not fire


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a zone: ``Cron("0 9 * * 1-5", "Europe/Berlin")`` is nine o'clock on working days.

    Five fields (minute, hour, day, month, weekday with Sunday = 0), or six with leading seconds. Day and weekday must
    both match; ``day_match="or"`` lets one suffice. ``gap`` and ``fold`` say what becomes of a time of day that a
    change of offset skips or repeats. ``lenient=True`` reads the wider dialect of docs/reference/cron.md. Text that
    cannot be read raises :class:`InvalidCron`; a date no year has (30 February) raises its kind :class:`NeverFires`.

    Values are equal when text (apart from spacing), zone and options are equal.
    """

    expression: str
    zone: str = "UTC"
    day_match: DayMatch = field(default="and", kw_only=True)
    gap: Gap = field(default="after", kw_only=True)
    fold: Fold = field(default="first", kw_only=True)
    lenient: bool = field(default=False, kw_only=True)
    parsed: Parsed = field(init=False, repr=False, compare=False)
    _calendar: Calendar = field(init=False, repr=False, compare=False)
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)
    _once_in_folds: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parsed = parse(self.expression, lenient=self.lenient)
        if not (self.day_match in DAY_MATCHES and self.gap in GAPS and self.fold in FOLDS):
            raise _unknown_option(self)
        calendar = Calendar(parsed, self.day_match)
        if not (parsed.any_day and parsed.any_weekday) and calendar.never():
            raise _never(self.expression)
        put = object.__setattr__
        put(self, "_zone", zone_named(self.zone))
        put(self, "expression", " ".join(self.expression.split()))
        put(self, "parsed", parsed)
        put(self, "_calendar", calendar)
        put(self, "_once_in_folds", parsed.fixed_time and self.fold == "first")

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly later than the instant, in UTC; None where none is before the year 10000."""
        if instant.tzinfo is not UTC:
            instant = aware(instant)
        try:
            span = span_at(self._zone, instant)
            reading = instant + span.offset
            found = self._calendar.first_after(reading)
            if found is not None and found < span.closes and (found >= span.fresh or not self._once_in_folds):
                return found - span.offset
            return self._beyond(instant, found)
        except OverflowError:  # the calendar ends here: some zone's clock shows year 0 or year 10000
            early = EARLIEST + _EDGE
            return self.next_after(early) if instant < early else None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly earlier than the instant, in UTC; None where there is none."""
        return last_before(self, instant)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Return the fires after *start* up to and including *end*, computed as they are asked for.

        So neighbouring ranges share no fire and lose none: (a, b] and (b, c] make (a, c].
        """
        end = aware(end, "end")
        fire = self.next_after(aware(start, "start"))
        while fire is not None and fire <= end:
            yield fire
            fire = self.next_after(fire)

    def count(self, start: datetime, end: datetime) -> int:
        """Count the fires after *start* up to and including *end*, span by span, without visiting each of them."""
        after, until = aware(start, "start"), aware(end, "end")
        return sum(
            self._count_within(span, after, until)
            for year in range(after.year, until.year + 1)
            for span in spans_of(self._zone, year)
            if span.end > after and span.start <= until
        )

    def _count_within(self, span: Span, after: datetime, until: datetime) -> int:
        """Count the fires of one span after an instant and up to another.

        All times that a gap swallowed fire once, at the start of the span; a reading there fires at the same instant.
        """
        begins, ends = span.opens, span.closes
        if span.start <= after:
            begins = shift(after, span.offset + _TICK)
        if until < span.end:
            ends = min(ends, shift(until, span.offset + _TICK))
        after_gap = 0
        if begins == span.opens and span.start > after and span.fresh < span.opens and self._fires_after_gaps:
            after_gap = self._calendar.count(span.fresh, span.opens) > 0
            begins = shift(begins, _TICK) if after_gap else begins
        if self._once_in_folds:
            begins = max(begins, span.fresh)
        return after_gap + self._calendar.count(begins, ends)

    def describe(self, language: Language = "en") -> str:
        """Return the schedule in words, generated from what was parsed; ``"en"`` or ``"zh"``."""
        from horae.core.schedules.words import describe_cron

        return describe_cron(self.parsed, self.day_match, self.zone, language)

    def _beyond(self, instant: datetime, found: datetime | None) -> datetime | None:
        """Go on where the span of the instant ends.

        Soon after the instant every span is asked, because a fold may show earlier readings again. Later ones only
        when they reach up to *found*, the next match on an undisturbed clock: before that there is nothing in them.
        """
        year = instant.year
        last = min(year + _CYCLE, 9999)
        while year <= last:
            for span in spans_of(self._zone, year):
                if span.end <= instant or (span.start <= instant and (found is None or found >= span.closes)):
                    continue
                if span.start - instant > _EDGE and (found is None or span.closes <= found):
                    continue
                fire, found = self._within(span, instant)
                if fire is not None:
                    return fire
            if found is None:
                return None
            year = max(year + 1, (found - _EDGE).year)
        return None

    def _within(self, span: Span, instant: datetime) -> tuple[datetime | None, datetime | None]:
        """Return the first fire of a span after an instant, and the reading where a later search goes on."""
        first_after = self._calendar.first_after
        if span.start > instant:
            if span.fresh < span.opens and self._fires_after_gaps:
                missed = first_after(span.fresh - _TICK)
                if missed is not None and missed < span.opens:
                    return span.start, missed
            after = span.opens - _TICK
        else:
            after = instant + span.offset
        if self._once_in_folds and after < span.fresh:
            after = span.fresh - _TICK
        found = first_after(after)
        if found is not None and found < span.closes:
            return found - span.offset, found
        return None, found

    @property
    def _fires_after_gaps(self) -> bool:
        return self.parsed.fixed_time and self.gap == "after"


class Countable(Protocol):
    """A rule that can count its fires without visiting each of them."""

    def next_after(self, instant: datetime) -> datetime | None: ...
    def count(self, start: datetime, end: datetime) -> int: ...


def last_before(rule: Countable, instant: datetime) -> datetime | None:
    """Return the last fire of a rule strictly earlier than an instant.

    Fires are counted in a window that grows until it has one, then in halves of it until it has only that one.
    """
    until = shift(aware(instant), -_TICK)
    for window in _WINDOWS:
        since = shift(until, -window)
        if rule.count(since, until):
            return _last_in(rule, since, until)
    return None


def _last_in(rule: Countable, since: datetime, until: datetime) -> datetime | None:
    """Return the last fire after *since* and up to *until*, where there is one."""
    while rule.count(since, until) > 1:
        middle = since + (until - since) / 2
        since, until = (middle, until) if rule.count(middle, until) else (since, middle)
    return rule.next_after(since)


def _unknown_option(cron: Cron) -> InvalidInput:
    given = (("day_match", cron.day_match, DAY_MATCHES), ("gap", cron.gap, GAPS), ("fold", cron.fold, FOLDS))
    name, value, allowed = next(each for each in given if each[1] not in each[2])
    return InvalidInput("choice_unknown", name=name, value=value, choices=list(allowed))


def _never(expression: str) -> NeverFires:
    day, month, weekday = list(re.finditer(r"\S+", expression))[-3:]
    return NeverFires(
        expression,
        field="day",
        position=day.start() + 1,
        found=f"day {day[0]} in month {month[0]} on weekday {weekday[0]}, which never fires",
        allowed="a day that exists in at least one of the months of some year",
        advice='Change day, month or weekday, or pass day_match="or" when one of day and weekday should suffice.',
    )
