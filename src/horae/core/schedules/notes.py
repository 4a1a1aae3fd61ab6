"""Notes for the author of a schedule: changes of clocks, and where dialects of cron differ.

Nothing is guessed from the text. What a change of clocks does is found by asking the engine for the fires around it and
the same calendar, in a zone without changes, for the times of day that it skips or repeats. A note is a value with a
stable code; :mod:`horae.core.schedules.notes_words` puts it into a language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

from horae.core.dataclass import dataclass
from horae.core.schedules.rules import Cron, Every, Once, Rule
from horae.core.time.calendars import days_in
from horae.core.time.cron_hints import Field
from horae.core.time.cron_text import DAY, HOUR, MINUTE, MONTH, WEEKDAY, Parsed
from horae.core.time.instants import MICROSECOND, earlier, later
from horae.core.time.zones import spans_of, zone_named

AHEAD = timedelta(days=396)  # thirteen months: every yearly change of clocks, once at least
OFTEN = 1440  # fires a day from which on a note asks whether that is meant
RARE = timedelta(days=366)
_DAY = timedelta(days=1)
_WINDOWS = (timedelta(hours=3), timedelta(days=3))  # where the fires before a change are looked for

Outcome = Literal[
    "moved", "merged", "skipped", "once", "doubled", "even", "uneven", "shifted", "untouched",
    "before_change", "after_change", "first_pass", "second_pass",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    """One thing worth knowing: a stable code, and what is to be said with it."""

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)


# -- changes of clocks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """At an instant the clocks of a zone jump: forward (a gap in their readings) or back (a fold)."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def kind(self) -> Literal["gap", "fold"]:
        return "gap" if self.after > self.before else "fold"

    @property
    def size(self) -> timedelta:
        return abs(self.after - self.before)

    @property
    def readings(self) -> tuple[datetime, datetime]:
        """From which reading up to which (it is outside) wall clocks skip or repeat themselves."""
        ends = self.at + self.before, self.at + self.after
        return min(ends), max(ends)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a change of clocks on a schedule.

    ``readings`` are the times of day concerned, ``fires`` the instants at which the engine fires because of them. For
    a rhythm in a gap they are the fires on either side, and ``even`` means that their distance is the usual one.
    """

    change: Change
    outcome: Outcome
    readings: tuple[datetime, ...] = ()
    fires: tuple[datetime, ...] = ()


def changes(zone: str, start: datetime, end: datetime) -> list[Change]:
    """Return where the clocks of a zone jump after *start* and up to *end*."""
    years = range(start.year, end.year + 1)
    spans = [span for year in years for span in spans_of(zone_named(zone), year)]
    return [
        Change(now.start, before.offset, now.offset)
        for before, now in pairwise(spans)
        if before.offset != now.offset and start < now.start <= end
    ]


def effects(rule: Rule, zone: str, start: datetime, ahead: timedelta = AHEAD) -> list[Effect]:
    """Return what the changes of clocks in the time ahead do to a rule, in the words of a zone."""
    coming = changes(zone, start, later(start, ahead))
    if isinstance(rule, Cron):
        return [_on_cron(rule, change) for change in coming]
    if isinstance(rule, Every):
        return [_on_interval(rule, change) for change in coming]
    if isinstance(rule, Once):
        around = changes(zone, max(start, earlier(rule.at, _DAY)), later(rule.at, _DAY)) if rule.at > start else []
        return [_on_instant(rule, change) for change in sorted({*coming, *around}, key=lambda change: change.at)]
    return []


def _on_cron(rule: Cron, change: Change) -> Effect:
    low, high = change.readings
    undisturbed = replace(rule, zone="UTC")
    readings = tuple(undisturbed.between(low - MICROSECOND, high - MICROSECOND))
    if not readings:
        return Effect(change, "untouched")
    if change.kind == "fold":
        return _in_fold(rule, change, readings)
    if not rule.parsed.fixed_time:
        return _rhythm_in_gap(rule, undisturbed, change, readings)
    fires = tuple(rule.between(change.at - MICROSECOND, change.at))
    if rule.gap == "skip" or not fires:
        return Effect(change, "skipped", readings)
    regular = undisturbed.next_after(high - MICROSECOND) == high
    return Effect(change, "merged" if regular else "moved", readings, fires)


def _in_fold(rule: Cron, change: Change, readings: tuple[datetime, ...]) -> Effect:
    around = (change.at - change.size - MICROSECOND, change.at + change.size - MICROSECOND)
    fires = tuple(rule.between(*around))
    both = set(fires)
    twice = any(reading - change.before in both and reading - change.after in both for reading in readings)
    return Effect(change, "doubled" if twice else "once", readings, fires)


def _rhythm_in_gap(rule: Cron, undisturbed: Cron, change: Change, readings: tuple[datetime, ...]) -> Effect:
    """Describe a repeating rule in a gap: even if the time to the next fire is that of a clock without the gap."""
    following = rule.next_after(change.at - MICROSECOND)
    for window in _WINDOWS:
        past = [*rule.between(change.at - window, change.at - MICROSECOND)][-1:]
        if past and following is not None:
            reading = past[0] + change.before
            usual = undisturbed.next_after(reading)
            even = usual is not None and usual - reading == following - past[0]
            return Effect(change, "even" if even else "uneven", readings, (past[0], following))
    return Effect(change, "skipped", readings)


def _on_interval(rule: Every, change: Change) -> Effect:
    """Describe the effect on an interval: it counts elapsed time, so only the wall clock times of its fires move."""
    following = rule.next_after(change.at - MICROSECOND)
    moves = rule.anchor == "start" and following is not None and change.size % rule.period
    return Effect(change, "shifted" if moves else "untouched", fires=() if following is None else (following,))


def _on_instant(rule: Once, change: Change) -> Effect:
    """Describe the effect on a single instant: it stays where it is; in a fold, which of two readings it has."""
    before_change = rule.at < change.at
    reading = rule.at + (change.before if before_change else change.after)
    low, high = change.readings
    outcome: Outcome = "before_change" if before_change else "after_change"
    if change.kind == "fold" and low <= reading < high:
        outcome = "first_pass" if before_change else "second_pass"
    return Effect(change, outcome, (reading,), (rule.at,))


# -- where dialects differ, and what is easily overlooked -----------------------------------------------------------


def warnings(rule: Rule, start: datetime) -> list[Note]:
    """Return what is easily misread in a rule."""
    if isinstance(rule, Cron):
        return [*_about_days(rule), *_about_steps(rule), *_about_minutes(rule), *_about_rarity(rule, start)]
    if isinstance(rule, Every) and rule.anchor == "start" and rule.period <= _DAY / OFTEN:
        return [Note("often", {"count": _DAY // rule.period})]
    return []


def _about_days(rule: Cron) -> Iterator[Note]:
    parsed, columns = rule.parsed, _columns(rule)
    if not parsed.any_day and not parsed.any_weekday:
        values = {"day": columns[DAY.name], "weekday": columns[WEEKDAY.name]}
        starred = values["day"][0] == "*" or values["weekday"][0] == "*"
        yield Note("day_or_weekday" if rule.day_match == "or" else "star_and" if starred else "day_and_weekday", values)
    absent = _months_without(parsed)
    if absent and (parsed.any_weekday or rule.day_match == "and"):
        leap = parsed.days >> 29 & 1  # then February is the only one, and not in every year
        yield Note("leap_days") if leap else Note("absent_days", {"day": columns[DAY.name], "months": absent})
    if parsed.has_seconds:
        yield Note("seconds_first", {"second": columns["second"]})
        if not parsed.any_weekday and any(character.isdigit() for character in columns[WEEKDAY.name]):
            yield Note("sunday_is_zero", {"weekday": columns[WEEKDAY.name]})


def _about_steps(rule: Cron) -> Iterator[Note]:
    """Note a step that does not divide its field: it starts again with each new value of the next field."""
    parsed, columns = rule.parsed, _columns(rule)
    fields = ((MINUTE, parsed.minutes), (HOUR, parsed.hours), (DAY, parsed.days), (MONTH, parsed.months),
              (WEEKDAY, parsed.weekdays))  # fmt: skip
    for each, bits in fields:
        found = _uneven(each, bits)
        if found is not None and not (each is MINUTE and parsed.hours.bit_count() == 1):
            step, last, rest = found
            values = {"text": columns[each.name], "step": step, "last": last, "first": each.low, "rest": rest}
            yield Note(f"uneven_{each.name}", values)


def _uneven(each: Field, bits: int) -> tuple[int, int, int | None] | None:
    """Step, last value and the distance from there to the first, where it is another; None where all is even.

    Months differ in length, so that for days there is no single distance to tell.
    """
    values = [value for value in range(each.low, each.high + 1) if bits >> value & 1]
    if len(values) < 3:
        return None
    step = values[1] - values[0]
    if step == 1 or values != list(range(each.low, each.high + 1, step)):
        return None
    if each is DAY:
        return step, values[-1], None
    rest = each.high + 1 - values[-1]
    return None if rest == step else (step, values[-1], rest)


def _about_minutes(rule: Cron) -> Iterator[Note]:
    parsed = rule.parsed
    count = parsed.times_a_day
    if parsed.minutes == MINUTE.full and parsed.hours != HOUR.full:
        yield Note("each_minute", {"hour": _columns(rule)[HOUR.name], "count": count})
    elif count >= OFTEN:
        yield Note("often", {"count": count})


def _about_rarity(rule: Cron, start: datetime) -> Iterator[Note]:
    following = rule.next_after(start)
    if following is None:
        yield Note("never")
    elif following - start > RARE:
        yield Note("rare", {"days": (following - start) // _DAY})


def _months_without(parsed: Parsed) -> tuple[int, ...]:
    """Return months that are named and have none of the days that are named, in common years."""
    if parsed.any_day or parsed.has_day_marks:
        return ()
    months = [month for month in range(1, 13) if parsed.months >> month & 1]
    return tuple(month for month in months if not parsed.days & (2 << days_in(2001, month)) - 1)


def _columns(rule: Cron) -> dict[str, str]:
    """Return the fields as they were written; a nickname stands for all of them."""
    texts = rule.expression.split()
    names = ("second", MINUTE.name, HOUR.name, DAY.name, MONTH.name, WEEKDAY.name)
    if len(texts) == 1:
        return dict.fromkeys(names, texts[0])
    return dict(zip(names[-len(texts) :], texts, strict=True))
