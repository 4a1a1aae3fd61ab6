"""After a failed attempt: whether to try again, and how long to wait.

A policy is a value. It travels with the job as JSON, so that any process, also one that does not know the
handler, can decide what follows a failure or a lost lease.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self

from horae.errors import DefinitionError, InvalidInput

Kind = Literal["none", "fixed", "exponential", "external"]
KINDS: tuple[Kind, ...] = ("none", "fixed", "exponential", "external")
MAX_ATTEMPTS = 1_000_000  # beyond any job's life; and every database can count so far
LONGEST = timedelta(seconds=10**10)  # some three hundred years: more than any calendar of jobs, less than a store keeps


def span(value: timedelta | float) -> timedelta:
    """Return a timedelta; a number is taken as seconds."""
    try:
        return value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError):  # text, NaN, infinity or beyond any calendar
        raise InvalidInput("span_unreadable", value=repr(value)) from None


def time_limit(value: timedelta | float | None, what: str = "timeout") -> timedelta | None:
    """Return how long an attempt may take; None means without limit. A number is taken as seconds."""
    if value is None:
        return None
    limit = span(value)
    if limit <= timedelta(0):
        raise InvalidInput("no_time_left", name=what, value=limit.total_seconds())
    if limit > LONGEST:
        raise InvalidInput("span_too_long", name=what, value=limit.total_seconds(), most_days=LONGEST.days)
    return limit


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a job is tried, and how long it rests between attempts.

    ``attempts`` counts executions, not repetitions: three attempts are one try and two retries.
    Build one with :meth:`none`, :meth:`fixed`, :meth:`exponential` or :meth:`external`.
    """

    __pydantic_config__ = {"ser_json_timedelta": "float"}  # noqa: RUF012  as every value that crosses the wire

    kind: Kind = "fixed"
    attempts: int = 3
    delay: timedelta = timedelta(seconds=300)
    factor: float = 2.0
    cap: timedelta = timedelta(hours=1)
    jitter: bool = True
    deadline: timedelta = timedelta(seconds=30)
    gives_up: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DefinitionError("retry_kind_unknown", kind=self.kind, choices=list(KINDS))
        if self.kind == "none":  # whoever writes only the kind, as JSON may, means one attempt
            object.__setattr__(self, "attempts", 1)
            object.__setattr__(self, "delay", timedelta(0))
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool):
            raise DefinitionError("attempts_not_whole", value=repr(self.attempts))
        if self.attempts < 1:
            raise DefinitionError("attempts_too_few", attempts=self.attempts)
        if self.attempts > MAX_ATTEMPTS:
            raise DefinitionError("attempts_too_many", attempts=self.attempts, most=MAX_ATTEMPTS)
        if self.delay < timedelta(0) or self.cap < timedelta(0):
            raise DefinitionError("retry_delay_negative")
        if max(self.delay, self.cap, self.deadline) > LONGEST:
            raise DefinitionError("retry_delay_too_long", most_days=LONGEST.days)
        if not math.isfinite(self.factor) or self.factor < 1:
            raise DefinitionError("retry_factor_too_low", factor=self.factor)

    @classmethod
    def none(cls) -> Self:
        """Make one attempt; a failure is final."""
        return cls("none", attempts=1, delay=timedelta(0))

    @classmethod
    def fixed(cls, delay: timedelta | float = 300, attempts: int = 3) -> Self:
        """Wait equally long after each failure."""
        return cls("fixed", attempts=attempts, delay=span(delay))

    @classmethod
    def exponential(
        cls,
        first: timedelta | float = 1,
        attempts: int = 5,
        factor: float = 2.0,
        cap: timedelta | float = 3600,
        jitter: bool = True,
    ) -> Self:
        """Let waits grow by *factor* up to *cap*; with jitter, draw each evenly from zero up to that bound."""
        return cls("exponential", attempts=attempts, delay=span(first), factor=factor, cap=span(cap), jitter=jitter)

    @classmethod
    def external(
        cls, attempts: int = 3, deadline: timedelta | float = 30, default: timedelta | float | None = None
    ) -> Self:
        """Ask the definition's ``decide`` callback, which must answer within *deadline*.

        Without an answer the job waits *default*, or, when that is None, counts as given up.
        """
        wait = timedelta(0) if default is None else span(default)
        return cls("external", attempts=attempts, delay=wait, deadline=span(deadline), gives_up=default is None)

    def wait(self, failures: int, roll: float) -> timedelta:
        """Return how long to rest after the n-th failure; *roll* is a number in [0, 1)."""
        if self.kind != "exponential":
            return self.delay
        ceiling = self.cap
        if failures < 64:  # beyond that the power overflows a timedelta long after any cap has been reached
            ceiling = min(self.cap, _scale(self.delay, self.factor ** (failures - 1), self.cap))
        return ceiling * roll if self.jitter else ceiling

    def as_json(self) -> dict[str, Any]:
        """Return the policy as stored with a job; the number of attempts has a column of its own."""
        stored: dict[str, Any] = {"kind": self.kind, "delay": self.delay.total_seconds()}
        if self.kind == "exponential":
            stored |= {"factor": self.factor, "cap": self.cap.total_seconds(), "jitter": self.jitter}
        if self.kind == "external":
            stored |= {"deadline": self.deadline.total_seconds(), "gives_up": self.gives_up}
        return stored

    @classmethod
    def from_json(cls, told: dict[str, Any], attempts: int) -> Self:
        """Read a stored policy. What an older version accepted is brought within bounds: the job must be readable."""
        return cls(
            kind=told["kind"],
            attempts=min(attempts, MAX_ATTEMPTS),
            delay=_clamp(told.get("delay", 0)),
            factor=told.get("factor", 2.0),
            cap=_clamp(told.get("cap", 3600)),
            jitter=told.get("jitter", True),
            deadline=_clamp(told.get("deadline", 30)),
            gives_up=told.get("gives_up", False),
        )


def _clamp(seconds: float) -> timedelta:
    return timedelta(seconds=min(seconds, LONGEST.total_seconds()))


def _scale(base: timedelta, factor: float, cap: timedelta) -> timedelta:
    seconds = base.total_seconds() * factor
    return cap if seconds >= cap.total_seconds() else timedelta(seconds=seconds)


DEFAULT_RETRY = Retry.fixed(300, attempts=3)  # of jobs that are only enqueued
