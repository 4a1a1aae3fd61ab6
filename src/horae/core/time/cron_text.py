"""Cron text to bit sets, or an error that points at the mistake.

Strict grammar: five fields (six with leading seconds) of ``*``, numbers, ranges ``a-b``, steps ``*/n`` and
``a-b/n``, and lists of these; Sunday is 0. Lenient grammar adds names, 7 for Sunday, ``a/n``, ranges over the end of
a field (``22-2``, ``FRI-MON``), ``?``, ``L``, ``L-3``, ``LW``, ``15W``, ``5L``, ``1#2`` and nicknames such as
``@daily``. What neither knows is refused, never guessed; :mod:`horae.core.time.cron_mistakes` says what is wrong.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from horae.core.time.cron_hints import Field, Mistake, hint_for_value, refuse_field, refuse_item, refuse_whole

LAST = -1  # as the number of a weekday within its month: the last one

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MAX_LENGTH = 1000

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ITEM = re.compile(r"(?:\*|([0-9]{1,4}|[A-Z]{3})(?:-([0-9]{1,4}|[A-Z]{3}))?)(?:/([0-9]{1,4}))?", re.IGNORECASE)


SECOND = Field("second", 0, 59, (1 << 60) - 1)
MINUTE = Field("minute", 0, 59, (1 << 60) - 1)
HOUR = Field("hour", 0, 23, (1 << 24) - 1)
DAY = Field("day", 1, 31, (1 << 32) - 2, marks=True)
MONTH = Field("month", 1, 12, (1 << 13) - 2, _MONTHS)
WEEKDAY = Field("weekday", 0, 6, (1 << 7) - 1, _WEEKDAYS, marks=True)

_SIX = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class Parsed(NamedTuple):
    """What an expression says: a bit for each allowed value, and the marks that depend on the month.

    ``fixed_time`` is Debian's distinction: neither minute nor hour begins with a star, so the schedule means times
    of day and not a rhythm. ``any_day`` and ``any_weekday`` tell that the column does not restrict at all.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    has_seconds: bool
    fixed_time: bool
    any_day: bool
    any_weekday: bool
    last_day: bool = False
    days_before_last: tuple[int, ...] = ()
    last_workday: bool = False
    workdays_nearest: tuple[int, ...] = ()
    nth_weekdays: tuple[tuple[int, int], ...] = ()

    @property
    def times_a_day(self) -> int:
        """How many times of day match."""
        return self.seconds.bit_count() * self.minutes.bit_count() * self.hours.bit_count()

    @property
    def has_day_marks(self) -> bool:
        """Whether some of its days depend on the length of the month or on its weekdays."""
        return bool(self.last_day or self.days_before_last or self.last_workday or self.workdays_nearest)


_Mark = tuple[str, int, int]  # what a bit set cannot hold: kind, day or weekday, which one in the month


def parse(expression: str, *, lenient: bool = False) -> Parsed:
    """Read an expression, or raise :class:`InvalidCron` with field, position, what was found and what is allowed."""
    columns = _columns(expression, lenient)
    has_seconds = len(columns) == 6
    if not has_seconds:
        columns.insert(0, "0")
    bits: list[int] = []
    marks: tuple[_Mark, ...] = ()
    for field, text in zip(_SIX, columns, strict=True):
        try:
            allowed, found = _read_field(field, text, lenient)
        except Mistake as mistake:
            raise refuse_field(expression, field, _SIX.index(field) - (not has_seconds), mistake, lenient) from None
        bits.append(allowed)
        marks += found
    seconds, minutes, hours, days, months, weekdays = bits
    any_day, any_weekday = _has_star(columns[3]), _has_star(columns[5])
    fixed_time = not (_has_rhythm(columns[1]) or _has_rhythm(columns[2]))
    parsed = Parsed(seconds, minutes, hours, days, months, weekdays, has_seconds, fixed_time, any_day, any_weekday)
    return _with_marks(parsed, set(marks)) if marks else parsed


def _has_star(column: str) -> bool:
    """Return whether a column leaves nothing out because it says so, wherever the star stands in its list."""
    return column == "?" or any(item in ("*", "*/1") for item in column.split(","))


def _has_rhythm(column: str) -> bool:
    return any(item.startswith("*") for item in column.split(","))


def _with_marks(parsed: Parsed, marks: set[_Mark]) -> Parsed:
    return parsed._replace(
        last_day=("last day", 0, 0) in marks,
        days_before_last=tuple(sorted(day for kind, day, _ in marks if kind == "before last")),
        last_workday=("last workday", 0, 0) in marks,
        workdays_nearest=tuple(sorted(day for kind, day, _ in marks if kind == "workday")),
        nth_weekdays=tuple(sorted((weekday, nth) for kind, weekday, nth in marks if kind == "weekday")),
    )


def _columns(expression: str, lenient: bool) -> list[str]:
    """Return the fields as text; nicknames are spelled out."""
    columns = expression.split() if isinstance(expression, str) and len(expression) <= MAX_LENGTH else []
    if len(columns) == 1 and lenient and columns[0].lower() in NICKNAMES:
        return NICKNAMES[columns[0].lower()].split()
    if len(columns) not in (5, 6) or columns[0].startswith("@") or "=" in columns[0]:
        raise refuse_whole(expression, MAX_LENGTH, NICKNAMES)
    return columns


@lru_cache(maxsize=4096)  # many schedules, few different fields
def _read_field(field: Field, text: str, lenient: bool) -> tuple[int, tuple[_Mark, ...]]:
    """Return the values and the marks of one column."""
    if text == "*" or (text == "?" and lenient and field.marks):
        return field.full, ()
    bits, marks, offset = 0, [], 0
    for item in text.split(","):
        try:
            mark = _read_mark(field, item.upper()) if lenient and field.marks else None
            if mark is None:
                bits |= _read_item(field, item, lenient)
            else:
                marks.append(mark)
        except Mistake as mistake:
            mistake.offset += offset
            raise
        offset += len(item) + 1
    return bits, tuple(marks)


def _read_item(field: Field, item: str, lenient: bool) -> int:
    """Return a star, a number or a range, each perhaps with a step."""
    if item.isdecimal() and item.isascii() and field.low <= int(item[:4]) <= field.high and len(item) <= 4:
        return 1 << int(item)
    match = _ITEM.fullmatch(item)
    if match is None:
        raise refuse_item(field, item, lenient, _ITEM)
    start, stop, step = match.groups()
    low, high = field.low, field.high
    if start is not None:
        low = _value(field, start, match.start(1), lenient)
        if stop is not None:
            high = _value(field, stop, match.start(2), lenient)
        elif step is None:
            high = low
        elif not lenient:
            raise Mistake(
                match.start(3) - 1, item, f"Write {start}-{field.high}/{step} for every {step} from {start} on."
            )
    if high < low and lenient:  # over the end of the field: 22-2, FRI-MON
        high += field.high - field.low + 1
    if high < low:
        both = f"{low}-{field.high},{field.low}-{high}"
        raise Mistake(0, item, f"The range runs backwards; write {both}, or pass lenient=True to allow it.")
    if step is not None and not 1 <= int(step) <= field.high - field.low:
        raise Mistake(match.start(3), step, f"A step is a number from 1 to {field.high - field.low}.")
    bits = _progression(low, high, int(step) if step else 1)
    return (bits | bits >> field.high - field.low + 1) & field.full


def _progression(low: int, high: int, step: int) -> int:
    if step == 1:
        return (2 << high) - (1 << low)
    bits = 0
    for value in range(low, high + 1, step):
        bits |= 1 << value
    return bits


def _value(field: Field, text: str, offset: int, lenient: bool) -> int:
    """Return a number or, where allowed, a name."""
    if not text.isdigit():
        name = text.upper()
        if name not in field.names:
            raise Mistake(offset, text, hint_for_value(field, text))
        number = field.names.index(name) + field.low
        if not lenient:
            raise Mistake(offset, text, f"Write {number}, or pass lenient=True to allow names.")
        return number
    number = int(text)
    if field is WEEKDAY and number == 7:
        if lenient:
            return 7
        raise Mistake(offset, text, "Sunday is 0; pass lenient=True to allow 7 as well.")
    if not field.low <= number <= field.high:
        raise Mistake(offset, text, hint_for_value(field, text))
    return number


def _read_mark(field: Field, item: str) -> _Mark | None:
    """Take ``L``, ``L-3``, ``LW``, ``15W``, ``5L`` or ``1#2``; None for anything that is not one of them."""
    if field is DAY:
        if item == "L":
            return "last day", 0, 0
        if item == "LW":
            return "last workday", 0, 0
        if item.startswith("L-"):
            return "before last", _before_last(item[2:]), 0
        if re.fullmatch(r"[0-9]{1,4}W", item):
            return "workday", _value(DAY, item[:-1], 0, True), 0
        return None
    weekday, mark, number = item.partition("#")
    if mark:
        if number not in ("1", "2", "3", "4", "5"):
            raise Mistake(len(weekday) + 1, number, "A month has a first to fifth weekday of a kind: 1#1 to 1#5.")
        return "weekday", _one_weekday(weekday, item), int(number)
    if item.endswith("L") and len(item) > 1:
        return "weekday", _one_weekday(item[:-1], item), LAST
    return None


def _before_last(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", text) or not 1 <= int(text) <= 30:
        raise Mistake(2, text or "nothing", "L-3 is three days before the last day of the month: L-1 to L-30.")
    return int(text)


def _one_weekday(text: str, item: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}|[A-Z]{3}", text):
        raise Mistake(0, item, "Put one weekday in front of the mark, as in 5L or 1#2.")
    return _value(WEEKDAY, text, 0, True) % 7
