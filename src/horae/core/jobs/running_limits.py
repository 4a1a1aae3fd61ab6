"""Limits of jobs that run at once, in all, in a group or in a queue; and which source decides.

A limit that was set by hand wins over ``jobs.conf``, and that over code (S3-53). Where several applications declare the
same limit, the smallest holds.
"""

from __future__ import annotations

from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.payloads import name
from horae.errors import InvalidInput

Source = Literal["api", "file", "code"]
GLOBAL, GROUP, QUEUE = "global", "group:", "queue:"
BY_HAND = ""  # stands for the application where a limit was set through a verb
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class LimitSource:
    """The value of a limit from one source. None lifts the limit, which only a value set by hand can."""

    name: str
    app: str
    source: Source
    max_running: int | None


@dataclass(frozen=True, slots=True)
class RunningLimit:
    """A limit with everything that is said about it, and how many jobs it counts now."""

    name: str
    sources: tuple[LimitSource, ...] = ()
    running: int = 0

    @property
    def decisive(self) -> LimitSource | None:
        """The source that decides; None without any source."""
        by_hand = next((each for each in self.sources if each.app == BY_HAND), None)
        if by_hand is not None:
            return by_hand
        declared = [(MOST if each.max_running is None else each.max_running, each.app, each) for each in self.sources]
        return min(declared, key=lambda each: each[:2])[2] if declared else None

    @property
    def max_running(self) -> int | None:
        return None if self.decisive is None else self.decisive.max_running

    @property
    def source(self) -> Source | None:
        return None if self.decisive is None else self.decisive.source


def limit_name(*, group: str | None = None, queue: str | None = None) -> str:
    """Return the name of a limit: of a group, of a queue, or, with neither, over all."""
    if group is not None and queue is not None:
        raise InvalidInput("limit_for_two_things")
    if group is not None:
        return GROUP + name(group, "group")
    return GLOBAL if queue is None else QUEUE + queue_name(queue)


def check_limit_name(text: str) -> str:
    """Refuse a text that names no limit."""
    if text.startswith(GROUP):
        return limit_name(group=text.removeprefix(GROUP))
    if text.startswith(QUEUE):
        return limit_name(queue=text.removeprefix(QUEUE))
    if text != GLOBAL:
        raise InvalidInput("limit_scope_unknown", text=text)
    return text


def check_max_running(value: object) -> int:
    """Refuse a number of jobs that could never run, or is no number."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        raise InvalidInput("limit_outside", value=repr(value), most=MOST)
    return value
