"""When a user's task runs: what its ``schedule_expr`` may say, and the shortest interval that an operator allows."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import timedelta

from horae.core.jobs.reasons import Reason
from horae.core.schedules.schedule import Schedule
from horae.core.time.cron import DAY_MATCHES, Cron
from horae.errors import IntervalRefused, InvalidCron, InvalidInput

PREFIX = "task_"
EVERY_MINUTE = "* * * * *"
FALLBACK = 60  # seconds: what an interval of zero or less means (S1-29)
LONGEST_INTERVAL = 10**9
_INTEGER = re.compile(r"[+-]?[0-9]{1,12}")
# The parser's advice is for callers of Python; these are the words of this door.
_ADVICE = (
    (re.compile(r"\bPass lenient=True"), "Send lenient: true"),
    (re.compile(r"\bpass lenient=True"), "send lenient: true"),
    (re.compile(r"\bwith lenient=True"), "with lenient: true"),
    (re.compile(r'\bpass day_match="or"'), 'send day_match: "or"'),
    (re.compile(r"\bPass every=\S+"), "Send an interval in seconds"),
    (re.compile(r"\bpass zone="), "send timezone: "),
    (re.compile(r", with seconds.*"), ""),
)


def is_task(schedule: Schedule) -> bool:
    """Return whether a schedule is a user's task (document 001)."""
    return schedule.key.startswith(PREFIX)


def apply_shortest_interval(schedule: Schedule, shortest: timedelta) -> Schedule:
    """Return the schedule at which a task runs: its own, or at the shortest interval allowed now (S1-29, S1-32).

    The stored wish stays, so that an operator who lowers the minimum again gives every task its own interval back.
    """
    if schedule.kind != "every" or not is_task(schedule):
        return schedule
    least = math.ceil(shortest.total_seconds())
    return schedule if float(schedule.expression) >= least else replace(schedule, expression=str(least))


def explain_interval(schedule: Schedule, shortest: timedelta) -> Reason | None:
    """Tell a user that a task runs less often than it says; None where it runs as it says."""
    runs = apply_shortest_interval(schedule, shortest)
    if runs is schedule:
        return None
    return Reason("interval", "interval_lengthened", {"asked": schedule.expression, "runs": runs.expression})


def expression_of(schedule: Schedule, text: str, shortest: timedelta, warnings: list[Reason]) -> str:
    """Check what a user says about when, and return it as it is stored."""
    if schedule.kind == "every":
        return _seconds(text, shortest, warnings)
    if not text:
        warnings.append(Reason("expression", "expression_empty", {"expression": EVERY_MINUTE}))
        return EVERY_MINUTE
    if _cron(schedule, text).parsed.has_seconds:
        raise InvalidInput("cron_has_seconds", expression=text)
    return text


def day_match_of(word: str) -> str:
    if word not in DAY_MATCHES:
        raise InvalidInput("choice_unknown", name="day_match", value=word, choices=list(DAY_MATCHES))
    return word


def _cron(schedule: Schedule, text: str) -> Cron:
    """Read cron text; a refusal gives advice that a user over HTTP can follow."""
    try:
        return Cron(text, schedule.zone, day_match=schedule.day_match, lenient=schedule.lenient)
    except InvalidCron as wrong:
        advice = wrong.advice
        for pattern, words in _ADVICE:
            advice = pattern.sub(words, advice)
        raise type(wrong)(
            wrong.expression,
            field=wrong.field,
            position=wrong.position,
            found=wrong.found,
            allowed=wrong.allowed.replace("five or six fields", "five fields"),
            advice=f"{advice.rstrip('.')}." if advice else "",
        ) from None


def _seconds(text: str, shortest: timedelta, warnings: list[Reason]) -> str:
    if not _INTEGER.fullmatch(text):
        raise IntervalRefused("task_interval_unreadable", expression=text)
    seconds, least = int(text), shortest.total_seconds()
    if seconds <= 0:
        seconds = max(FALLBACK, math.ceil(least))
        warnings.append(Reason("interval", "interval_replaced", {"asked": text, "runs": seconds}))
    if seconds < least:
        raise IntervalRefused("task_interval_too_short", seconds=seconds, least=least)
    if seconds > LONGEST_INTERVAL:
        raise IntervalRefused("task_interval_too_long", seconds=seconds, most=LONGEST_INTERVAL)
    return str(seconds)
