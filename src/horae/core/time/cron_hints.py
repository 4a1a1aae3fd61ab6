"""Mistakes in cron text: which character cannot be read, and what its author probably meant.

Habits of other schedulers (``H``, ``@every``, ``CRON_TZ=``, full names, a year) are recognised only here, to say how
Horae writes them; nothing is read because it was recognised.
"""

from __future__ import annotations

import re

from horae.core.dataclass import dataclass
from horae.errors import InvalidCron

EXAMPLE = 'Write five fields, for example "0 9 * * 1-5" for nine on working days.'
_FULL_NAMES = (
    "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "JANUARY", "FEBRUARY", "MARCH",
    "APRIL", "MAY", "JUNE", "JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER",
)  # fmt: skip
_LENIENT_ONLY = r"\?|L(W|-[0-9]+)?|[0-9]{1,2}W|\w{1,3}L|\w{1,3}#[1-5]"


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One column of a cron expression; ``full`` has a bit for every value, ``marks`` that L, W and # live there."""

    name: str
    low: int
    high: int
    full: int
    names: tuple[str, ...] = ()
    marks: bool = False


class Mistake(Exception):
    """Found inside one field; the caller knows the field and where it stands."""

    def __init__(self, offset: int, found: str, advice: str = "") -> None:
        self.offset, self.found, self.advice = offset, found, advice


def refuse_field(expression: str, field: Field, column: int, mistake: Mistake, lenient: bool) -> InvalidCron:
    """Return the refusal of an expression for a mistake in one of its columns."""
    starts = [match.start() for match in re.finditer(r"\S+", expression)]
    return InvalidCron(
        expression,
        field=field.name,
        position=starts[column] + mistake.offset + 1,
        found=mistake.found,
        allowed=_allowed(field, lenient),
        advice=mistake.advice,
    )


def _allowed(field: Field, lenient: bool) -> str:
    names = f", names {field.names[0]} to {field.names[-1]}" if lenient and field.names else ""
    sunday = "" if field.name != "weekday" else " (Sunday is 0 or 7)" if lenient else " (Sunday is 0)"
    marks = {"day": ", ?, L, L-3, LW, 15W", "weekday": ", ?, 5L, 1#2"}.get(field.name, "") if lenient else ""
    return f"{field.low}-{field.high}{sunday}, *, a-b, */n, a-b/n, lists{names}{marks}"


# -- one item of a list ----------------------------------------------------------------------------------------------


def refuse_item(field: Field, item: str, lenient: bool, form: re.Pattern[str]) -> Mistake:
    """Return the best account of text that fits no form at all, at its first character that cannot be read."""
    if item == "":
        return Mistake(0, "nothing", "Two commas in a row, or a comma at an end, leave a gap in the list.")
    return Mistake(_first_wrong(form, item), item, _hint_for_item(field, item, lenient))


def _first_wrong(form: re.Pattern[str], item: str) -> int:
    """Return where an item stops being the beginning of something that could be read."""
    match = form.match(item)
    if match is None or item.isdigit() or hint_for_name(item):
        return 0
    end = match.end()
    takes_more = {"/": match[3] is None, "-": match[1] is not None and match[2] is None and match[3] is None}
    return end + 1 if takes_more.get(item[end : end + 1], False) else end


def _hint_for_item(field: Field, item: str, lenient: bool) -> str:
    upper = item.upper()
    if upper == "L" and field.name == "weekday":
        return "Write 6 for Saturday, or 6L for the last Saturday of the month."
    if item == "?" and lenient and field.marks:
        return "The question mark stands alone in its field."
    if not lenient and field.marks and re.fullmatch(_LENIENT_ONLY, upper):
        return "Pass lenient=True to allow ?, L, W and #."
    if re.fullmatch(r"H(\(.*\))?(/.*)?", upper):
        return 'H spreads schedules by their key: give "H" to a schedule, not to Cron alone, or write a number.'
    if re.fullmatch(r"-[0-9]+", item):
        return "Numbers are not negative."
    if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?", item):
        hour, minute = (int(part) for part in item.split(":")[:2])
        return f'Write a time of day as minute and hour: "{minute} {hour} * * *".'
    return hint_for_name(item)


def hint_for_name(text: str) -> str:
    """Return how a name that is written out, or longer than three letters, is written here; nothing for others."""
    upper = re.split(r"[^A-Z]", text.upper())[0]
    full = next((name for name in _FULL_NAMES if len(upper) > 3 and name.startswith(upper)), None)
    if full is None:
        return ""
    number = _FULL_NAMES.index(full)
    return f"Write {number if number < 7 else number - 6}, or {full[:3]} with lenient=True."


def hint_for_value(field: Field, text: str) -> str:
    """Return what a number or a name outside its field was probably meant to be."""
    if not text.isdigit():
        return f"The names of {field.name}s are {', '.join(field.names)}." if field.names else ""
    if field.name == "hour" and int(text) == 24:
        return "Midnight is hour 0."
    if field.name in ("minute", "second") and int(text) == 60:
        return f"The full {'hour' if field.name == 'minute' else 'minute'} is {field.name} 0."
    if field.low == 1 and int(text) == 0:
        return f"The first {field.name} is 1."
    if field.name == "weekday" and int(text) >= 1970:
        return "A year field is not known; end the schedule by its end date instead."
    return ""


# -- the whole expression --------------------------------------------------------------------------------------------


def refuse_whole(expression: object, longest: int, nicknames: dict[str, str]) -> InvalidCron:
    """Return the refusal of text that is not five or six fields."""
    if not isinstance(expression, str) or not expression.strip():
        return _whole(str(expression or ""), 1, "nothing", EXAMPLE)
    if len(expression) > longest:
        return _whole(expression[:20] + "…", 1, f"{len(expression)} characters", f"At most {longest} are read.")
    columns = expression.split()
    begin = expression.index(columns[0]) + 1
    if columns[0].startswith("@"):
        return _whole(expression, begin, f'"{columns[0]}"', _hint_for_nickname(columns, nicknames))
    variable, equals, value = columns[0].partition("=")
    if equals:
        zone = f'Leave it out and pass zone="{value}" instead.' if variable.upper() in ("CRON_TZ", "TZ") else ""
        return _whole(expression, begin, f'"{columns[0]}"', zone or "A schedule has no variables; leave it out.")
    return _wrong_count(expression, columns)


def _hint_for_nickname(columns: list[str], nicknames: dict[str, str]) -> str:
    word = columns[0].lower()
    if word == "@every":
        span = f"every={columns[1]!r}" if len(columns) > 1 else "every=…"
        return f"Pass {span} instead of cron: an interval counts elapsed time."
    if word == "@reboot":
        return "A schedule does not know when a host boots; enqueue the job where your application starts."
    if word in nicknames and len(columns) == 1:
        return f'Write "{nicknames[word]}", or pass lenient=True to allow nicknames.'
    return f"Known nicknames, with lenient=True and alone, are {', '.join(nicknames)}."


def _wrong_count(expression: str, columns: list[str]) -> InvalidCron:
    """Refuse too few fields where they end, and too many where the seventh begins."""
    advice = "Give minute, hour, day, month and weekday, with seconds in front of them where you need them."
    position = len(expression.rstrip()) + 1
    if len(columns) == 1 and re.fullmatch(r"[0-9.]+\s*[a-z]{1,7}", columns[0]):
        advice = f"Pass every={columns[0]!r} instead of cron for an interval."
    if len(columns) > 6:
        position = [match.start() for match in re.finditer(r"\S+", expression)][6] + 1
    if len(columns) == 7:
        advice += " A year field is not known; end the schedule by its end date instead."
    return _whole(expression, position, f"{len(columns)} field{'' if len(columns) == 1 else 's'}", advice)


def _whole(expression: str, position: int, found: str, advice: str) -> InvalidCron:
    allowed = "five or six fields"
    return InvalidCron(
        expression, field="expression", position=position, found=found, allowed=allowed, advice=advice
    )  # fmt: skip
