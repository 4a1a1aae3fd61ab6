"""Cron text to bit sets, or an error that points at the mistake.

Strict grammar: five fields (six with leading seconds) of ``*``, numbers, ranges ``a-b``, steps ``*/n`` and
``a-b/n``, and lists of these; Sunday is 0. Lenient grammar adds names, 7 for Sunday, ``a/n``, ``?``, ``L``, ``LW``,
``15W``, ``5L``, ``1#2`` and nicknames such as ``@daily``. What neither knows is refused, never guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from horae.errors import InvalidCron

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


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One column of a cron expression; ``full`` has a bit for every value, ``marks`` that L, W and # live there."""

    name: str
    low: int
    high: int
    full: int
    names: tuple[str, ...] = ()
    marks: bool = False


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
    last_workday: bool = False
    workdays_nearest: tuple[int, ...] = ()
    nth_weekdays: tuple[tuple[int, int], ...] = ()


_Mark = tuple[str, int, int]  # what a bit set cannot hold: kind, day or weekday, which one in the month


class _Mistake(Exception):
    """Found inside one field; the caller knows the field and where it stands."""

    def __init__(self, offset: int, found: str, advice: str = "") -> None:
        self.offset, self.found, self.advice = offset, found, advice


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
        except _Mistake as mistake:
            raise _refusal(expression, field, mistake, has_seconds, lenient) from None
        bits.append(allowed)
        marks += found
    seconds, minutes, hours, days, months, weekdays = bits
    any_day = days == DAY.full and columns[3][0] in "*?"
    any_weekday = weekdays == WEEKDAY.full and columns[5][0] in "*?"
    fixed_time = columns[1][0] != "*" and columns[2][0] != "*"
    parsed = Parsed(seconds, minutes, hours, days, months, weekdays, has_seconds, fixed_time, any_day, any_weekday)
    return _with_marks(parsed, set(marks)) if marks else parsed


def _with_marks(parsed: Parsed, marks: set[_Mark]) -> Parsed:
    return parsed._replace(
        last_day=("last day", 0, 0) in marks,
        last_workday=("last workday", 0, 0) in marks,
        workdays_nearest=tuple(sorted(day for kind, day, _ in marks if kind == "workday")),
        nth_weekdays=tuple(sorted((weekday, nth) for kind, weekday, nth in marks if kind == "weekday")),
    )


def _columns(expression: str, lenient: bool) -> list[str]:
    """Return the fields as text; nicknames are spelled out."""
    if not isinstance(expression, str) or not expression.strip():
        raise _whole(expression, "nothing", 'Write five fields, for example "0 9 * * 1-5" for nine on working days.')
    if len(expression) > MAX_LENGTH:
        raise _whole(expression[:20] + "…", f"{len(expression)} characters", f"At most {MAX_LENGTH} are read.")
    columns = expression.split()
    if columns[0].startswith("@"):
        return _nickname(expression, columns, lenient)
    if len(columns) not in (5, 6):
        advice = "Give minute, hour, day, month and weekday, with seconds in front of them where you need them."
        if len(columns) == 7:
            advice += " A year field is not known; end the schedule by its end date instead."
        raise _whole(expression, f"{len(columns)} field{'' if len(columns) == 1 else 's'}", advice)
    return columns


def _nickname(expression: str, columns: list[str], lenient: bool) -> list[str]:
    meaning = NICKNAMES.get(columns[0].lower())
    if lenient and meaning is not None and len(columns) == 1:
        return meaning.split()
    if meaning is not None and len(columns) == 1:
        advice = f'Write "{meaning}", or pass lenient=True to allow nicknames.'
    else:
        advice = f"Known nicknames, with lenient=True and alone, are {', '.join(NICKNAMES)}."
    raise _whole(expression, f'"{columns[0]}"', advice)


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
        except _Mistake as mistake:
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
        raise _explain_item(field, item, lenient)
    start, stop, step = match.groups()
    low, high = field.low, field.high
    if start is not None:
        low = _value(field, start, match.start(1), lenient)
        if stop is not None:
            high = _value(field, stop, match.start(2), lenient)
            if high == 0 and low > 0 and field is WEEKDAY and lenient and stop != "0":
                high = 7  # FRI-SUN: as the end of a range, Sunday closes the week
        elif step is None:
            high = low
        elif not lenient:
            raise _Mistake(0, item, f"Write {start}-{field.high}/{step} for every {step} from {start} on.")
    if high < low:
        raise _Mistake(0, item, f"The range runs backwards; write {low}-{field.high},{field.low}-{high} instead.")
    if step is not None and not 1 <= int(step) <= field.high - field.low:
        raise _Mistake(match.start(3), step, f"A step is a number from 1 to {field.high - field.low}.")
    bits = _progression(low, high, int(step) if step else 1)
    return (bits | bits >> 7) & 0x7F if field is WEEKDAY else bits


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
            raise _Mistake(offset, text)
        number = field.names.index(name) + field.low
        if not lenient:
            raise _Mistake(offset, text, f"Write {number}, or pass lenient=True to allow names.")
        return number
    number = int(text)
    if field is WEEKDAY and number == 7:
        if lenient:
            return 7
        raise _Mistake(offset, text, "Sunday is 0; pass lenient=True to allow 7 as well.")
    if not field.low <= number <= field.high:
        raise _Mistake(offset, text)
    return number


def _read_mark(field: Field, item: str) -> _Mark | None:
    """Take ``L``, ``LW``, ``15W``, ``5L`` or ``1#2``; None for anything that is not one of them."""
    if field is DAY:
        if item == "L":
            return "last day", 0, 0
        if item == "LW":
            return "last workday", 0, 0
        if re.fullmatch(r"[0-9]{1,4}W", item):
            return "workday", _value(DAY, item[:-1], 0, True), 0
        return None
    weekday, mark, number = item.partition("#")
    if mark:
        if number not in ("1", "2", "3", "4", "5"):
            raise _Mistake(len(weekday) + 1, number, "A month has a first to fifth weekday of a kind: 1#1 to 1#5.")
        return "weekday", _one_weekday(weekday, item), int(number)
    if item.endswith("L") and len(item) > 1:
        return "weekday", _one_weekday(item[:-1], item), LAST
    return None


def _one_weekday(text: str, item: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}|[A-Z]{3}", text):
        raise _Mistake(0, item, "Put one weekday in front of the mark, as in 5L or 1#2.")
    return _value(WEEKDAY, text, 0, True) % 7


def _explain_item(field: Field, item: str, lenient: bool) -> _Mistake:
    """Return the best account of text that fits no form at all."""
    if item == "":
        return _Mistake(0, "nothing", "Two commas in a row, or a comma at an end, leave a gap in the list.")
    if item == "L" and field is WEEKDAY:
        return _Mistake(0, item, "Write 6 for Saturday, or 6L for the last Saturday of the month.")
    if item == "?" and lenient and field.marks:
        return _Mistake(0, item, "The question mark stands alone in its field.")
    if not lenient and field.marks and re.fullmatch(r"\?|LW?|[0-9]{1,2}W|\w{1,3}L|\w{1,3}#[1-5]", item):
        return _Mistake(0, item, "Pass lenient=True to allow ?, L, W and #.")
    if re.fullmatch(r"-[0-9]+", item):
        return _Mistake(0, item, "Numbers are not negative.")
    wrong = re.search(r"[^0-9A-Z*,/-]", item, re.IGNORECASE)
    return _Mistake(wrong.start() if wrong and len(item) > 3 else 0, item)


def _allowed(field: Field, lenient: bool) -> str:
    names = f", names {field.names[0]} to {field.names[-1]}" if lenient and field.names else ""
    sunday = " (Sunday is 0 or 7)" if lenient else " (Sunday is 0)"
    marks = {DAY: ", ?, L, LW, 15W", WEEKDAY: ", ?, 5L, 1#2"}.get(field, "") if lenient else ""
    return f"{field.low}-{field.high}{sunday if field is WEEKDAY else ''}, *, a-b, */n, a-b/n, lists{names}{marks}"


def _refusal(expression: str, field: Field, mistake: _Mistake, has_seconds: bool, lenient: bool) -> InvalidCron:
    starts = [match.start() for match in re.finditer(r"\S+", expression)]
    column = _SIX.index(field) - (0 if has_seconds else 1)
    return InvalidCron(
        expression,
        field=field.name,
        position=starts[column] + mistake.offset + 1,
        found=mistake.found,
        allowed=_allowed(field, lenient),
        advice=mistake.advice,
    )


def _whole(expression: str, found: str, advice: str) -> InvalidCron:
    return InvalidCron(
        expression, field="expression", position=1, found=found, allowed="five or six fields", advice=advice
    )
