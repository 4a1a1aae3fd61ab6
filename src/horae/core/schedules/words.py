"""A schedule in words, built in two steps: first what is to be said, then how a language says it.

:func:`sentence` turns parsed bit sets into phrases. A phrase is a value with a meaning of its own ("every 15 minutes
from 09:00 to 17:45"), so that a test can compare what the words mean with what the engine does. The renderers
(:mod:`horae.core.schedules.words_english` and ``words_chinese``) put phrases into text and decide nothing.
The text of the expression is never looked at.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product
from typing import Literal, Protocol

from horae.core.schedules import words_chinese, words_english
from horae.core.schedules.phrases import (
    EVERY,
    AtTimes,
    Choice,
    Dates,
    Days,
    OnClock,
    Part,
    Rhythm,
    Run,
    Sentence,
    Steps,
    Time,
    Values,
    Weekdays,
)
from horae.core.time.cron_hints import Field
from horae.core.time.cron_text import DAY, HOUR, LAST, MINUTE, MONTH, SECOND, WEEKDAY, Parsed
from horae.core.time.readings import local
from horae.errors import InvalidInput
from horae.words.languages import Language


class Renderer(Protocol):
    """The phrases of a language; each language is a module."""

    def cron(self, sentence: Sentence) -> str: ...
    def every(self, period: timedelta, after_finish: bool, initial_delay: timedelta) -> str: ...
    def once(self, at: datetime, zone: str) -> str: ...
    def length(self, span: timedelta) -> str: ...


_RENDERERS: dict[str, Renderer] = {"en": words_english, "zh": words_chinese}
_DAY_SECONDS = 86_400
_MAX_LISTED_TIMES = 8  # more times of day than this are described by minute and hour


def describe_cron(parsed: Parsed, day_match: Literal["and", "or"], zone: str, language: Language = "en") -> str:
    """Return a cron schedule in words."""
    return _renderer(language).cron(sentence(parsed, day_match, zone))


def describe_every(period: timedelta, anchor: str, initial_delay: timedelta, language: Language = "en") -> str:
    """Return an interval in words."""
    return _renderer(language).every(period, anchor == "finish", initial_delay)


def describe_once(at: datetime, language: Language = "en", zone: str = "UTC") -> str:
    """Return a single instant in words, as clocks in a zone show it."""
    return _renderer(language).once(local(at, zone), zone)


def length(span: timedelta, language: Language = "en") -> str:
    """Return a duration in words."""
    return _renderer(language).length(span)


def _renderer(language: str) -> Renderer:
    if language not in _RENDERERS:
        raise InvalidInput("language_unknown", language=language)
    return _RENDERERS[language]


def sentence(parsed: Parsed, day_match: Literal["and", "or"], zone: str) -> Sentence:
    """Return what is to be said about a parsed expression."""
    months = _choice(_members(parsed.months), MONTH)
    days, weekdays = _days(parsed), _weekdays(parsed)
    is_free = parsed.any_day or parsed.any_weekday
    if day_match == "or" and not is_free and (days is None or weekdays is None):
        days = weekdays = None  # one of them allows every day, so that the other does not matter
    return Sentence(_time(parsed), Dates(months, days, weekdays, day_match), zone)


def _days(parsed: Parsed) -> Days | None:
    """Return the days of the month; None where all are allowed, whether by a star or by a list of them."""
    if parsed.any_day or parsed.days == DAY.full:
        return None
    numbers = _members(parsed.days)
    marks = parsed.last_day, parsed.days_before_last, parsed.last_workday, parsed.workdays_nearest
    return Days(_choice(numbers, DAY) or _parts(numbers), *marks)


def _weekdays(parsed: Parsed) -> Weekdays | None:
    if parsed.any_weekday or parsed.weekdays == WEEKDAY.full:
        return None
    nth = tuple(pair for pair in parsed.nth_weekdays if pair[1] != LAST)
    last = tuple(weekday for weekday, number in parsed.nth_weekdays if number == LAST)
    week = sorted(weekday or 7 for weekday in _members(parsed.weekdays))  # written from Monday to Sunday
    return Weekdays(_parts(week), nth, last)


def _time(parsed: Parsed) -> Time:
    """Return the shortest true account of the times of day."""
    seconds, minutes, hours = _members(parsed.seconds), _members(parsed.minutes), _members(parsed.hours)
    count = len(seconds) * len(minutes) * len(hours)
    step = _even_step(seconds, minutes, hours, count)
    if step:
        first = hours[0] * 3600 + minutes[0] * 60 + seconds[0]
        last = first + step * (count - 1)
        whole_day = first < step and last + step - first == _DAY_SECONDS
        if count > 3 or whole_day:
            return Rhythm(step, first, last, whole_day)
    if count <= _MAX_LISTED_TIMES:
        return AtTimes(tuple(product(hours, minutes, seconds)))
    second = None if seconds == [0] else _choice(seconds, SECOND)
    return OnClock(second, _choice(minutes, MINUTE), _choice(hours, HOUR))


def _even_step(seconds: list[int], minutes: list[int], hours: list[int], count: int) -> int | None:
    """Return the distance between neighbouring times of day, in seconds, when it is always the same."""
    if count < 3:
        return None
    if len(seconds) == 1:
        times = [hour * 3600 + minute * 60 + seconds[0] for hour, minute in product(hours, minutes)]
        return _step(times)
    step = seconds[1] - seconds[0]
    if seconds != list(range(seconds[0], 60, step)) or seconds[0] + 60 - seconds[-1] != step:
        return None
    beats = _step([hour * 60 + minute for hour, minute in product(hours, minutes)])
    return step if beats == 1 else None


def _step(values: list[int]) -> int | None:
    """Return the common difference of three or more ascending values."""
    if len(values) < 3:
        return None
    step = values[1] - values[0]
    return step if values == list(range(values[0], values[-1] + 1, step)) else None


def _choice(values: list[int], field: Field) -> Choice:
    """Return allowed values as phrases; none when all are allowed."""
    if len(values) == field.high - field.low + 1:
        return EVERY
    step = _step(values)
    if step is not None and step > 1 and len(values) > 4:
        return (Steps(values[0], values[-1], step),)
    return _parts(values)


def _parts(values: list[int]) -> tuple[Part, ...]:
    """Join three or more neighbours into a run; keep the rest as single values."""
    parts: list[Part] = []
    start = 0
    for index in range(1, len(values) + 1):
        if index < len(values) and values[index] == values[index - 1] + 1:
            continue
        group = values[start:index]
        if len(group) > 2:
            parts.append(Run(group[0], group[-1]))
        elif parts and isinstance(parts[-1], Values):
            parts[-1] = Values(parts[-1].values + tuple(group))
        else:
            parts.append(Values(tuple(group)))
        start = index
    return tuple(parts)


def _members(bits: int) -> list[int]:
    return [value for value in range(bits.bit_length()) if bits >> value & 1]
