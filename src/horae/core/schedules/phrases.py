"""Phrases that describe schedules: values with a meaning, before any language.

A choice is a union of parts; the empty choice :data:`EVERY` allows everything. In :class:`Weekdays`, Monday is 1 and
Sunday 7, because a week is written from Monday to Sunday.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Evenly spaced times of day, in seconds after midnight; round the clock when ``whole_day``."""

    step: int
    first: int
    last: int
    whole_day: bool


@dataclass(frozen=True, slots=True)
class OnClock:
    """Times by the hands of the clock; without seconds, second 0."""

    seconds: Choice | None
    minutes: Choice
    hours: Choice


Time = AtTimes | Rhythm | OnClock


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the month, by number or by place; a choice without parts means no day by number."""

    days: Choice
    last: bool
    last_workday: bool
    workdays_nearest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Days of the week: each of the kind, the n-th in the month, the last in the month."""

    weekdays: tuple[Part, ...]
    nth: tuple[tuple[int, int], ...]
    last: tuple[int, ...]


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
