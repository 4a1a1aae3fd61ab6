"""Debounce and collect: many calls of one key become one job while that job waits to start.

A debounced job has the payload of the last call, a collecting one the lists of all. Either is open while it has never
been handed to a worker; a call that comes later opens the next one. The store holds the name of the open job and its
row locked while it asks what follows, so that each call is part of exactly one job.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.jobs.job import COLLECTED, DEBOUNCED
from horae.core.jobs.payloads import MAX_BYTES, label
from horae.core.time.instants import later
from horae.core.time.spans import Span, span
from horae.errors import InvalidInput

MOST_VALUES = 1000  # of one collection
MOST_BYTES = MAX_BYTES  # a call writes the whole collection, so that larger ones would cost more than they save
LONGEST = timedelta(days=30)
LONGEST_KEY, LONGEST_NAME = 200, 255


@dataclass(frozen=True, slots=True)
class Debounce:
    """Run only the last of many calls: each one replaces the payload and lets the job *wait* anew.

    ``max_wait`` after the first call it runs, however many come. Calls of different ``key`` are told apart; where a job
    is declared it is a template of its arguments, such as ``"{document_id}"``.
    """

    wait: timedelta
    max_wait: timedelta | None = None
    key: str | None = None

    def __init__(self, wait: Span, max_wait: Span | None = None, key: str | None = None) -> None:
        put = object.__setattr__
        put(self, "wait", _span(wait, "wait"))
        put(self, "max_wait", None if max_wait is None else _span(max_wait, "max_wait"))
        put(self, "key", _key(key))
        if self.max_wait is not None and self.max_wait < self.wait:
            raise InvalidInput(
                "max_wait_too_short", wait=self.wait.total_seconds(), max_wait=self.max_wait.total_seconds()
            )


@dataclass(frozen=True, slots=True)
class Collect:
    """Run many calls as one job, with the lists of all of them in one: when it has *n* values, or *within* a span.

    The payload of each call is an object with one list, as the arguments of a handler with one parameter are. ``key``
    is as in :class:`Debounce`.
    """

    n: int = 100
    within: timedelta = field(default=timedelta(seconds=5))
    key: str | None = None

    def __init__(self, n: int = 100, within: Span = timedelta(seconds=5), key: str | None = None) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_VALUES:
            raise InvalidInput("out_of_range", name="n", value=n, least=1, most=MOST_VALUES)
        put = object.__setattr__
        put(self, "n", n)
        put(self, "within", _span(within, "within"))
        put(self, "key", _key(key))


@dataclass(frozen=True, slots=True)
class Pending:
    """An open job: its payload as text, how many calls or values it has, since when, and when it is due."""

    payload: str
    count: int
    since: datetime
    run_at: datetime


@dataclass(frozen=True, slots=True)
class Gather:
    """How one call joins the open job of its name."""

    name: str
    wait: timedelta
    max_wait: timedelta | None = None
    size: int = 1  # values of this call
    most: int = 0  # values of a collection; 0: the last call wins
    head: str = ""  # how the text of a collection begins

    def open(self, payload: str, now: datetime) -> Pending:
        """Return the job that a call begins."""
        return Pending(payload, self.size, now, later(now, self.wait))

    def join(self, pending: Pending, payload: str, now: datetime) -> Pending | None:
        """Return the open job with one more call; None where it does not fit in."""
        if not self.most:
            run_at = later(now, self.wait)
            latest = run_at if self.max_wait is None else later(pending.since, self.max_wait)
            return Pending(payload, pending.count + 1, pending.since, min(run_at, latest))
        if not pending.payload.startswith(self.head) or pending.count + self.size > self.most:
            return None
        joined = f"{pending.payload[:-2]},{payload[len(self.head) :]}"
        if len(joined.encode()) > MOST_BYTES:
            return None
        return replace(pending, payload=joined, count=pending.count + self.size)

    def is_full(self, pending: Pending) -> bool:
        """Return whether no further call can join, so that it may start at once."""
        return bool(self.most) and (pending.count >= self.most or len(pending.payload) >= MOST_BYTES)


def gather_of(debounce: Debounce | None, collect: Collect | None, queue: str, handler: str, payload: Any) -> Gather:
    """Return how a call joins others of its handler, queue and key; refuse what cannot be joined."""
    if debounce is not None and collect is not None:
        raise InvalidInput("debounce_and_collect")
    if collect is None:
        assert debounce is not None
        return Gather(_name(DEBOUNCED, queue, handler, debounce.key), debounce.wait, debounce.max_wait)
    if not isinstance(payload, dict) or len(payload) != 1:
        raise InvalidInput("collect_without_list", handler=handler)
    [(parameter, values)] = payload.items()
    if not isinstance(values, list | tuple) or not values:
        raise InvalidInput("collect_without_list", handler=handler)
    head = f"{{{json.dumps(parameter, ensure_ascii=False)}:["
    name = _name(COLLECTED, queue, handler, collect.key)
    return Gather(name, collect.within, None, len(values), collect.n, head)


def collected(unique: str | None, payload: Any) -> int | None:
    """Return how many values a collecting job has; None for any other."""
    if unique is None or not unique.startswith(COLLECTED) or not isinstance(payload, dict):
        return None
    return sum(len(values) for values in payload.values() if isinstance(values, list))


def _name(prefix: str, queue: str, handler: str, key: str | None) -> str:
    """Return the name of the open job; neither queues nor handlers have spaces in their names."""
    rest = f"{queue} {handler}" if key is None else f"{queue} {handler} {key}"
    return prefix + (rest if len(prefix + rest) <= LONGEST_NAME else hashlib.sha256(rest.encode()).hexdigest())


def _key(key: str | None) -> str | None:
    return None if key is None else label(key, "key", LONGEST_KEY)


def _span(value: Span, name: str) -> timedelta:
    found = span(value)
    if not timedelta(milliseconds=1) <= found <= LONGEST:
        raise InvalidInput("gather_span_outside", name=name, seconds=found.total_seconds(), most_days=LONGEST.days)
    return found
