"""After a failed attempt: whether to try again, and how long to wait.

A policy is a value. It travels with the job as JSON, so that any process, also one that does not know the
handler, can decide what follows a failure or a lost lease.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, Literal, Self

from horae.core.dataclass import dataclass
from horae.core.time.spans import Span, span
from horae.core.values import PYDANTIC
from horae.errors import DefinitionError, InvalidInput

Failures = type[BaseException] | str | Iterable[type[BaseException] | str]  # exceptions, or their names
Kind = Literal["none", "fixed", "exponential", "external"]
KINDS: tuple[Kind, ...] = ("none", "fixed", "exponential", "external")
MAX_ATTEMPTS = 1_000_000  # beyond any job's life; and every database can count so far
MOST_TYPES, LONGEST_NAME = 50, 200
LONGEST = timedelta(seconds=10**10)  # some three hundred years: more than any calendar of jobs, less than a store keeps


def time_limit(value: Span | None, what: str = "timeout") -> timedelta | None:
    """Return how long an attempt may take; None means without limit."""
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

    ``on`` names the exceptions after which it is tried again, ``never`` those after which it is not; without ``on``
    every failure is tried again, and ``never`` wins over ``on``. Give classes, or their names as text:
    ``"requests.ConnectionError"`` with its module, or ``"ConnectionError"`` for any class of that name. A subclass
    counts as its base, and an attempt over its time limit as ``TimeoutError``. The worker that ran the attempt judges.
    """

    __pydantic_config__ = PYDANTIC

    kind: Kind = "fixed"
    attempts: int = 3
    delay: timedelta = timedelta(seconds=300)
    factor: float = 2.0
    cap: timedelta = timedelta(hours=1)
    jitter: bool = True
    deadline: timedelta = timedelta(seconds=30)
    gives_up: bool = False
    on: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.on != () or self.never != ():  # mostly there are none, and every claimed job makes a policy
            self._check_types()
        if self.kind not in KINDS:
            raise DefinitionError("retry_kind_unknown", kind=self.kind, choices=list(KINDS))
        if self.kind == "none":  # JSON may give only the kind, which means one attempt
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

    def _check_types(self) -> None:
        for option in ("on", "never"):
            object.__setattr__(self, option, _type_names(option, getattr(self, option)))
        both = sorted({*self.on} & {*self.never})
        if both:
            raise DefinitionError("retry_type_twice", name=both[0])

    @classmethod
    def none(cls) -> Self:
        """Make one attempt; a failure is final."""
        return cls("none", attempts=1, delay=timedelta(0))

    @classmethod
    def fixed(cls, delay: Span = 300, attempts: int = 3, *, on: Failures = (), never: Failures = ()) -> Self:
        """Wait equally long after each failure."""
        return cls("fixed", attempts, span(delay), on=_type_names("on", on), never=_type_names("never", never))

    @classmethod
    def exponential(
        cls,
        first: Span = 1,
        attempts: int = 5,
        factor: float = 2.0,
        cap: Span = 3600,
        jitter: bool = True,
        *,
        on: Failures = (),
        never: Failures = (),
    ) -> Self:
        """Let waits grow by *factor* up to *cap*; with jitter, draw each evenly from zero up to that bound."""
        return cls(
            "exponential", attempts, span(first), factor, span(cap), jitter,
            on=_type_names("on", on), never=_type_names("never", never),
        )  # fmt: skip

    @classmethod
    def external(
        cls,
        attempts: int = 3,
        deadline: Span = 30,
        default: Span | None = None,
        *,
        on: Failures = (),
        never: Failures = (),
    ) -> Self:
        """Ask the definition's ``decide`` callback, which must answer within *deadline*.

        Without an answer the job waits *default*, or, when that is None, counts as given up. It is not asked about an
        exception after which *on* and *never* rule another attempt out.
        """
        wait = timedelta(0) if default is None else span(default)
        return cls(
            "external", attempts, wait, deadline=span(deadline), gives_up=default is None,
            on=_type_names("on", on), never=_type_names("never", never),
        )  # fmt: skip

    @property
    def judges_types(self) -> bool:
        """Whether the type of an exception matters."""
        return bool(self.on or self.never)

    def rules_out(self, problems: Sequence[Collection[str]]) -> bool:
        """Return whether these exceptions must not be tried again; each is given by all names that it goes by.

        There are several where a handler raised a group: one that must not be repeated is enough to give up.
        """
        if any(not frozenset(names).isdisjoint(self.never) for names in problems):
            return True
        return bool(self.on) and any(frozenset(names).isdisjoint(self.on) for names in problems)

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
        if self.judges_types:
            stored |= {"on": list(self.on), "never": list(self.never)}
        return stored

    @classmethod
    def from_json(cls, data: dict[str, Any], attempts: int) -> Self:
        """Read a stored policy. What an older version accepted is brought within bounds: the job must be readable."""
        return cls(
            kind=data["kind"],
            attempts=min(attempts, MAX_ATTEMPTS),
            delay=_clamp(data.get("delay", 0)),
            factor=data.get("factor", 2.0),
            cap=_clamp(data.get("cap", 3600)),
            jitter=data.get("jitter", True),
            deadline=_clamp(data.get("deadline", 30)),
            gives_up=data.get("gives_up", False),
            on=tuple(data.get("on", ())),
            never=tuple(data.get("never", ())),
        )


def type_name(kind: type) -> str:
    """Return the name by which an exception is stored: with its module, unless that is Python's own or the program.

    A class of the program that was started has another module where a worker imports it: its bare name fits both.
    """
    bare = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if bare else f"{kind.__module__}.{kind.__qualname__}"


def _type_names(option: str, given: Failures) -> tuple[str, ...]:
    """Return exceptions by their names; refuse what is no exception, and no name of one."""
    if isinstance(given, str | type):
        given = (given,)
    try:
        kinds = tuple(given)
    except TypeError:
        raise DefinitionError("retry_type_unreadable", option=option, value=repr(given)[:100]) from None
    if len(kinds) > MOST_TYPES:
        raise DefinitionError("retry_types_too_many", option=option, count=len(kinds), most=MOST_TYPES)
    return tuple(dict.fromkeys(_type_name(option, each) for each in kinds))


def _type_name(option: str, given: object) -> str:
    if isinstance(given, type) and issubclass(given, BaseException):
        return type_name(given)
    if isinstance(given, str) and len(given) <= LONGEST_NAME and all(map(str.isidentifier, given.split("."))):
        return given
    raise DefinitionError("retry_type_unreadable", option=option, value=repr(given)[:100])


def _clamp(seconds: float) -> timedelta:
    return timedelta(seconds=min(seconds, LONGEST.total_seconds()))


def _scale(base: timedelta, factor: float, cap: timedelta) -> timedelta:
    seconds = base.total_seconds() * factor
    return cap if seconds >= cap.total_seconds() else timedelta(seconds=seconds)


DEFAULT_RETRY = Retry.fixed(300, attempts=3)  # of jobs that are only enqueued
