"""A parsed cron expression as a calendar of wall-clock readings: which days match, and which reading comes next.

Everything is bit arithmetic on one month at a time, so that the distance to the next match costs next to nothing.
Zones are handled in :mod:`horae.core.time.cron`. A reading is a datetime labelled UTC.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Literal

from horae.core.time.cron_text import LAST, Parsed

DayMatch = Literal["and", "or"]

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LONG, _MIDDLE = 0b1010110101010, 0b0101001010000  # the months of 31 and of 30 days, as bits
_EACH = (1 << 32) - 2
_WEEKS = 0x10204081 << 1  # a pattern of seven bits times this repeats it from day 1 on, five weeks long


def days_in(year: int, month: int) -> int:
    """Return the length of a month."""
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


class Calendar:
    """The readings that match a parsed expression, in order.

    With ``day_match="and"`` a day must fit the day field and the weekday field; with ``"or"`` one of the two suffices,
    unless one is ``*`` and so leaves the decision to the other.
    """

    __slots__ = (
        "_every_day", "_first_hour", "_first_minute", "_first_second",
        "_hours", "_joins", "_minutes", "_months", "_parsed", "_plain", "_seconds",
    )  # fmt: skip

    def __init__(self, parsed: Parsed, day_match: DayMatch) -> None:
        self._parsed = parsed
        self._seconds, self._minutes, self._hours = parsed.seconds, parsed.minutes, parsed.hours
        self._months = parsed.months
        self._first_second, self._first_minute = _lowest(parsed.seconds), _lowest(parsed.minutes)
        self._first_hour = _lowest(parsed.hours)
        self._every_day = parsed.any_day and parsed.any_weekday
        self._joins = day_match == "or" and not parsed.any_day and not parsed.any_weekday
        self._plain = not (parsed.has_day_marks or parsed.nth_weekdays)

    def first_after(self, reading: datetime) -> datetime | None:
        """Return the first matching reading strictly later than this one; None when the calendar ends before it."""
        year, month, day = reading.year, reading.month, reading.day
        if self._months >> month & 1:
            days = _EACH if self._every_day else self.days(year, month)
            if days >> day & 1:
                hour, minute = reading.hour, reading.minute
                if self._hours >> hour & 1:
                    if self._minutes >> minute & 1:
                        later = self._seconds >> (second := reading.second) + 1
                        if later:
                            second += (later & -later).bit_length()
                            return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
                    later = self._minutes >> minute + 1
                    if later:
                        minute += (later & -later).bit_length()
                        return datetime(year, month, day, hour, minute, self._first_second, tzinfo=UTC)
                later = self._hours >> hour + 1
                if later:
                    hour += (later & -later).bit_length()
                    return datetime(year, month, day, hour, self._first_minute, self._first_second, tzinfo=UTC)
            if self._every_day:
                days = self.days(year, month)
            later = days >> day + 1
            if later:
                return self._opening(year, month, day + (later & -later).bit_length())
        return self._in_months_after(year, month)

    def _in_months_after(self, year: int, month: int) -> datetime | None:
        while True:
            later = self._months >> month + 1
            if later:
                month += (later & -later).bit_length()
                days = self.days(year, month)
                if days:
                    return self._opening(year, month, _lowest(days))
            elif year < 9999:
                year, month = year + 1, 0
            else:
                return None

    def _opening(self, year: int, month: int, day: int) -> datetime:
        """Return the first matching time of a matching day."""
        return datetime(year, month, day, self._first_hour, self._first_minute, self._first_second, tzinfo=UTC)

    def days(self, year: int, month: int) -> int:
        """Return the matching days of a month, bit 1 for the first; the month field is not asked."""
        length = days_in(year, month)
        if self._every_day:
            return (2 << length) - 2
        return self._pattern(date(year, month, 1).isoweekday() % 7, length)

    def count(self, begins: datetime, ends: datetime) -> int:
        """Count the matching readings from *begins* up to, but not including, *ends*.

        Whole months are counted by their bits, so that ten years of seconds cost no more than ten years of days.
        """
        if ends <= begins:
            return 0
        first, last = (begins.year, begins.month), (ends.year, ends.month)
        readings = self._in_month_before(ends) - self._in_month_before(begins)
        days = 0
        while first < last:
            days += self._matching_days(*first).bit_count()
            first = (first[0] + 1, 1) if first[1] == 12 else (first[0], first[1] + 1)
        return readings + days * self._readings_in_a_day

    @property
    def _readings_in_a_day(self) -> int:
        return self._hours.bit_count() * self._minutes.bit_count() * self._seconds.bit_count()

    def _matching_days(self, year: int, month: int) -> int:
        """Return the matching days of a month; none when the month field leaves it out."""
        return self.days(year, month) if self._months >> month & 1 else 0

    def _in_month_before(self, reading: datetime) -> int:
        """Count the matching readings of the reading's month that are earlier than it."""
        days = self._matching_days(reading.year, reading.month)
        earlier = (days & (1 << reading.day) - 1).bit_count() * self._readings_in_a_day
        return earlier + (self._in_day_before(reading) if days >> reading.day & 1 else 0)

    def _in_day_before(self, reading: datetime) -> int:
        """Count the matching times of day that are earlier than the reading's."""
        hour, minute = reading.hour, reading.minute
        second = reading.second + (reading.microsecond > 0)  # a reading matches on the full second only
        minutes, seconds = self._minutes.bit_count(), self._seconds.bit_count()
        count = (self._hours & (1 << hour) - 1).bit_count() * minutes * seconds
        if self._hours >> hour & 1:
            count += (self._minutes & (1 << minute) - 1).bit_count() * seconds
            if self._minutes >> minute & 1:
                count += (self._seconds & (1 << second) - 1).bit_count()
        return count

    def never(self) -> bool:
        """Return whether no day of any year matches.

        A month is one of 28 shapes: its length and the weekday of its first day. Over the 400 years after which the
        calendar repeats, each month takes all seven first weekdays with each of its lengths, so looking at the shapes
        proves it for all time.
        """
        months = self._months
        lengths = [31] if months & _LONG else []
        lengths += [30] if months & _MIDDLE else []
        lengths += [29, 28] if months & 0b100 else []
        for length in lengths:
            for first in range(7):
                if self._pattern(first, length):
                    return False
        return True

    def _pattern(self, first: int, length: int) -> int:
        """Return the matching days of a month that begins on weekday *first* (Sunday is 0)."""
        parsed = self._parsed
        days, weekdays = parsed.days, parsed.weekdays
        weekdays = ((weekdays | weekdays << 7) >> first & 0x7F) * _WEEKS
        if not self._plain:
            days |= self._marked_days(first, length)
            weekdays |= self._marked_weekdays(first, length)
        return (days | weekdays if self._joins else days & weekdays) & (2 << length) - 2

    def _marked_days(self, first: int, length: int) -> int:
        parsed, bits = self._parsed, 0
        if parsed.last_day:
            bits |= 1 << length
        for days in parsed.days_before_last:
            bits |= 1 << length - days if days < length else 0
        if parsed.last_workday:
            bits |= 1 << _nearest_workday(length, first, length)
        for day in parsed.workdays_nearest:
            if day <= length:
                bits |= 1 << _nearest_workday(day, first, length)
        return bits

    def _marked_weekdays(self, first: int, length: int) -> int:
        bits = 0
        for weekday, nth in self._parsed.nth_weekdays:
            day = 1 + (weekday - first) % 7
            day += 7 * ((length - day) // 7 if nth == LAST else nth - 1)
            bits |= 1 << day  # a fifth one beyond the end of the month is cut off by the caller
        return bits


def _lowest(bits: int) -> int:
    """Return the position of the lowest bit set; -1 when there is none."""
    return (bits & -bits).bit_length() - 1


def _nearest_workday(day: int, first: int, length: int) -> int:
    """Return the Monday to Friday nearest to a day, without leaving its month."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
