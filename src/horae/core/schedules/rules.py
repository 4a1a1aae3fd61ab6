"""Rules of schedules: cron, intervals, and single instants.

A rule is a frozen value and answers five questions: the next fire after an instant, the last one before it, the fires
of a range, how many there are, and how to say it in words. It reads no clock; the scheduler hands it instants. All
instants are aware, all answers are in UTC.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol, Self, runtime_checkable

from horae.core.dataclass import dataclass
from horae.core.time.cron import Cron
from horae.core.time.instants import EPOCH, MICROSECOND, aware, later
from horae.core.time.spans import Span, span
from horae.errors import InvalidInput, InvalidInterval
from horae.words.languages import Language

if TYPE_CHECKING:
    from horae.words.languages import Language

__all__ = ["Anchor", "Cron", "Every", "Once", "Rule"]

Anchor = Literal["start", "finish"]

_FINEST = timedelta(milliseconds=1)


@runtime_checkable
class Rule(Hashable, Protocol):
    """The common interface of rules."""

    def next_after(self, instant: datetime) -> datetime | None: ...
    def previous_before(self, instant: datetime) -> datetime | None: ...
    def between(self, start: datetime, end: datetime) -> Iterator[datetime]: ...
    def count(self, start: datetime, end: datetime) -> int: ...
    def describe(self, language: Language = "en") -> str: ...


@dataclass(frozen=True, slots=True)
class Every:
    """An interval: ``Every(60)`` or ``Every(timedelta(minutes=1))``; a number is taken as seconds, text as in ``"5m"``.

    ``anchor="start"`` is a fixed rate. Fires lie on a grid that begins at ``start`` plus ``initial_delay`` and do not
    drift, however long a run takes. The scheduler binds the grid with :meth:`starting`, at the instant the schedule was
    created; until then the grid begins at 1970 and reaches into the past too, so that ``Every(3600)`` alone means
    every full hour in UTC.

    ``anchor="finish"`` is a fixed delay: the next fire is one period after the instant given, which must be the
    end of the last run. :meth:`between` then tells the fires as if runs took no time.

    The first fire, at once unless ``initial_delay`` says otherwise, is :meth:`first_fire`.
    """

    period: timedelta
    anchor: Anchor = field(default="start", kw_only=True)
    initial_delay: timedelta = field(default=timedelta(0), kw_only=True)
    start: datetime | None = field(default=None, kw_only=True)

    def __init__(
        self,
        period: Span,
        *,
        anchor: Anchor = "start",
        initial_delay: Span = timedelta(0),
        start: datetime | None = None,
    ) -> None:
        if anchor not in ("start", "finish"):
            raise InvalidInput("choice_unknown", name="anchor", value=str(anchor), choices=["start", "finish"])
        put = object.__setattr__
        put(self, "period", _duration(period, "period", _FINEST))
        put(self, "anchor", anchor)
        put(self, "initial_delay", _duration(initial_delay, "initial_delay", timedelta(0)))
        put(self, "start", None if start is None else aware(start, "start"))

    def starting(self, start: datetime) -> Self:
        """Return the same interval with its grid bound to an instant."""
        return replace(self, start=start)

    def first_fire(self, created_at: datetime) -> datetime:
        """Return the very first fire of a schedule created at this instant."""
        return later(self.start or aware(created_at), self.initial_delay)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly later than the instant, in UTC; None where none is before the year 10000."""
        instant = aware(instant)
        try:
            first = (self.start or EPOCH) + self.initial_delay
            if self.start is not None and instant < first:
                return first
            if self.anchor == "finish":
                return instant + self.period
            return first + ((instant - first) // self.period + 1) * self.period
        except OverflowError:
            return None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly earlier than the instant; None before the first one.

        None too with ``anchor="finish"``: its fires follow the ends of runs, which only the store knows.
        """
        if self.anchor == "finish":
            return None
        try:
            first = (self.start or EPOCH) + self.initial_delay
            fire = first + ((aware(instant) - first - MICROSECOND) // self.period) * self.period
        except OverflowError:
            return None
        return None if self.start is not None and fire < first else fire

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Return the fires after *start* up to and including *end*, computed as they are asked for."""
        end = aware(end, "end")
        fire = self.next_after(start)
        while fire is not None and fire <= end:
            yield fire
            fire = self.next_after(fire)

    def count(self, start: datetime, end: datetime) -> int:
        """Count the fires after *start* up to and including *end*, without visiting each of them."""
        first, end = self.next_after(start), aware(end, "end")
        return 0 if first is None or first > end else (end - first) // self.period + 1

    def describe(self, language: Language = "en") -> str:
        """Return the interval in words; ``"en"`` or ``"zh"``."""
        from horae.core.schedules.words import describe_every

        return describe_every(self.period, self.anchor, self.initial_delay, language)


@dataclass(frozen=True, slots=True)
class Once:
    """A single fire at an instant."""

    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", aware(self.at, "at"))

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the fire, when it is strictly later than the instant."""
        return self.at if self.at > aware(instant) else None

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the fire, when it is strictly earlier than the instant."""
        return self.at if self.at < aware(instant) else None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Return the fire, when it lies after *start* and not after *end*."""
        if aware(start, "start") < self.at <= aware(end, "end"):
            yield self.at

    def count(self, start: datetime, end: datetime) -> int:
        """Return 1 when the fire lies after *start* and not after *end*; otherwise 0."""
        return sum(1 for _ in self.between(start, end))

    def describe(self, language: Language = "en") -> str:
        """Return the instant in words; ``"en"`` or ``"zh"``."""
        from horae.core.schedules.words import describe_once

        return describe_once(self.at, language)


def _duration(value: Span, name: str, least: timedelta) -> timedelta:
    """Return a span in whole milliseconds and not below the least."""
    try:
        length = span(value)
    except InvalidInput:
        raise InvalidInterval("interval_invalid", name=name, value=repr(value)) from None
    if isinstance(value, bool) or length < least or length % _FINEST:
        raise InvalidInterval("interval_too_short", name=name, value=str(value), least=least.total_seconds())
    return length
