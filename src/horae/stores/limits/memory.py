"""The calls of one process, for its own rate limits."""

from __future__ import annotations

import threading
from dataclasses import field
from datetime import timedelta

from horae.core.dataclass import dataclass
from horae.core.limits import MICROSECOND, Limit
from horae.ports.world import Clock

SECOND = 1_000_000  # in microseconds


@dataclass(slots=True)
class _Book:
    """The state of one limit: calls in order with their tickets, and the waiting tickets with their expiry."""

    calls: list[int] = field(default_factory=list)
    tickets: list[str] = field(default_factory=list)
    line: dict[str, int] = field(default_factory=dict)

    def forget_calls_before(self, index: int) -> None:
        del self.calls[:index], self.tickets[:index]


class MemoryCalls:
    """By the monotonic clock. *keep* is how long a silent waiter keeps its place; None: for ever, as it cannot die."""

    shared = False

    def __init__(self, clock: Clock, keep: timedelta | None = None) -> None:
        self._clock = clock
        self._keep = None if keep is None else keep // MICROSECOND
        self._books: dict[str, _Book] = {}
        self._guard = threading.Lock()

    def take(self, limit: Limit, ticket: str, *, stay: bool, ahead: int = 0) -> float:
        with self._guard:
            now = round(self._clock.monotonic() * SECOND)
            book = self._books.setdefault(limit.name, _Book())
            book.forget_calls_before(limit.first_counted(book.calls, now))
            if self._keep is not None:
                book.line = {who: until for who, until in book.line.items() if until > now or who == ticket}
            ahead += list(book.line).index(ticket) if ticket in book.line else len(book.line)
            turn = limit.turn_at(book.calls, ahead, now)
            if turn <= now:
                book.line.pop(ticket, None)
                book.calls.append(now)
                book.tickets.append(ticket)
            elif stay:
                book.line[ticket] = now + (self._keep or 0)
            return (turn - now) / SECOND

    def drop(self, limit: Limit, ticket: str) -> None:
        with self._guard:
            book = self._books.setdefault(limit.name, _Book())
            book.line.pop(ticket, None)
            if ticket in book.tickets:
                index = book.tickets.index(ticket)
                del book.calls[index], book.tickets[index]
