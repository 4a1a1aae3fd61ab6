"""Phrases that describe schedules: values with a meaning, before any language.

A choice is a union of parts; the empty choice :data:`EVERY` allows everything. In :class:`Weekdays`, Monday is 1 and
Sunday 7, because a week is written from Monday to Sunday.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from horae.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Values:
    """These values."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Every value from the first to the last."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Steps:
    """Every step-th value, beginning with the first and ending with the last."""

    first: int
    last: int
    step: int


Part = Values | Run | Steps
Choice = tuple[Part, ...]
EVERY: Choice = ()


@dataclass(frozen=True, slots=True)
class AtTimes:
    """These times of day: hour, minute, second."""

    times: tuple[tuple[int, int, int], ...]

    @property
    def is_daily(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Evenly spaced times of day, in seconds after midnight; round the clock when ``whole_day``."""

    step: int
    first: int
    last: int
    whole_day: bool

    @property
    def is_daily(self) -> bool:
        """Whether its words leave room for "every day"."""
        return not self.whole_day


@dataclass(frozen=True, slots=True)
class OnClock:
    """Times by the hands of the clock; without seconds, second 0."""

    seconds: Choice | None
    minutes: Choice
    hours: Choice

    @property
    def is_daily(self) -> bool:
        return self.hours != EVERY


Time = AtTimes | Rhythm | OnClock


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the month, by number or by place; a choice without parts means no day by number."""

    days: Choice
    last: bool
    before_last: tuple[int, ...]
    last_workday: bool
    workdays_nearest: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The days by number; a range is spelled out."""
        return tuple(number for part in self.days for number in members(part))

    @property
    def has_marks(self) -> bool:
        return bool(self.last or self.before_last or self.last_workday or self.workdays_nearest)

    @property
    def is_single(self) -> bool:
        """Whether it names one day of a month."""
        marks = self.last + len(self.before_last) + self.last_workday + len(self.workdays_nearest)
        return len(self.numbers) + marks == 1

    @property
    def is_within_a_week(self) -> bool:
        """Whether at most one of its days falls on any given weekday."""
        numbers = self.numbers
        return not self.has_marks and numbers[-1] - numbers[0] < 7


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Days of the week: each of the kind, the n-th in the month, the last in the month."""

    weekdays: tuple[Part, ...]
    nth: tuple[tuple[int, int], ...]
    last: tuple[int, ...]

    @property
    def is_single(self) -> bool:
        """Whether it names one weekday, whichever place it has in the month."""
        return not (self.nth or self.last) and sum(len(members(part)) for part in self.weekdays) == 1


@dataclass(frozen=True, slots=True)
class Dates:
    """Which days: None where a field does not restrict."""

    months: Choice
    days: Days | None
    weekdays: Weekdays | None
    joined: Literal["and", "or"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """All there is to say about a cron schedule."""

    time: Time
    dates: Dates
    zone: str


def members(part: Part) -> range | tuple[int, ...]:
    """Return the values that a part allows."""
    match part:
        case Values(values):
            return values
        case Run(first, last):
            return range(first, last + 1)
        case Steps(first, last, step):
            return range(first, last + 1, step)


def is_one(choice: Choice) -> bool:
    """Return whether a choice allows a single value."""
    return len(choice) == 1 and len(members(choice[0])) == 1


def spread(parts: Sequence[Part], render: Callable[[int], str], run: str) -> list[str]:
    """Return every value and every run, each as one text; *run* joins the first and the last of a run."""
    texts: list[str] = []
    for part in parts:
        match part:
            case Values(values):
                texts += [render(value) for value in values]
            case Run(first, last) | Steps(first, last):
                texts.append(run.format(render(first), render(last)))
    return texts


def clock_time(seconds: int) -> str:
    """Return a time of day from its seconds after midnight: 09:30, or 09:30:15."""
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    return text if seconds % 60 == 0 else f"{text}:{seconds % 60:02}"
