"""Enqueues of several threads that share one commit.

A thread that finds no other one writing writes at once and does not wait. Enqueues that arrive meanwhile are written
together by the first of them that gets the turn, in the order in which they came. See docs/decisions/0108.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from horae.core.jobs.job import NewJob
from horae.errors import StoreBusy
from horae.stores.tables.jobs import payloads_of

MOST_TEXT = 4_000_000  # characters of payloads in one group, as in one statement of a batch


class Ticket:
    """One enqueue that waits to be written, and what became of it."""

    __slots__ = ("jobs", "now", "numbers", "problem")

    def __init__(self, jobs: Sequence[NewJob], now: datetime) -> None:
        self.jobs = jobs
        self.now = now
        self.numbers: list[int] | None = None
        self.problem: Exception | None = None

    def is_written(self) -> bool:
        return self.numbers is not None or self.problem is not None

    def result(self) -> list[int]:
        if self.problem is not None:
            raise self.problem
        assert self.numbers is not None
        return self.numbers


class Turn:
    """The turn to write: one thread at a time has it, and no thread waits for it longer than *patience* seconds.

    *refuse* makes the error of a thread whose turn does not come; it is told whether that thread waits for itself.
    """

    def __init__(self, patience: float, refuse: Callable[[bool], StoreBusy]) -> None:
        self._patience, self._refuse = patience, refuse
        self._lock = threading.Lock()
        self._holder: int | None = None

    def take_at_once(self) -> bool:
        """Take the turn, unless a thread has it; the caller gives it back."""
        if not self._lock.acquire(blocking=False):
            return False
        self._holder = threading.get_ident()
        return True

    def take(self, patience: float) -> bool:
        """Take the turn within so many seconds."""
        if not self._lock.acquire(timeout=patience):
            return False
        self._holder = threading.get_ident()
        return True

    def give_back(self) -> None:
        self._holder = None
        self._lock.release()

    def __enter__(self) -> None:
        if self.take_at_once():
            return
        waits_for_itself = self._holder == threading.get_ident()
        if waits_for_itself or not self.take(self._patience):
            raise self._refuse(waits_for_itself)

    def __exit__(self, *_: object) -> None:
        self.give_back()


class GroupCommit:
    """The line of one store. *write* writes a group and sets the result of each ticket in it, while it has the *turn*.

    Where the turn does not come in time (``StoreBusy``), *is_exclusive* decides: refuse, or write without it.
    """

    def __init__(self, turn: Turn, write: Callable[[list[Ticket]], None], *, most: int, is_exclusive: bool) -> None:
        self._turn, self._write = turn, write
        self._most, self._is_exclusive = most, is_exclusive
        self._waiting: deque[Ticket] = deque()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def submit(self, *tickets: Ticket) -> None:
        """Wait until each ticket has its result, or the turn of one does not come."""
        if len(tickets) == 1 and not self._waiting and self._turn.take_at_once():
            try:  # no thread writes or waits, as for most enqueues: there is no line to stand in
                self._write([*tickets])
            finally:
                self._turn.give_back()
            return
        self._waiting.extend(tickets)
        for ticket in tickets:
            try:
                self._wait_for(ticket)
            except StoreBusy as problem:
                ticket.problem = problem

    def _wait_for(self, ticket: Ticket) -> None:
        """Write this ticket and those waiting behind it, unless another thread already has."""
        while not ticket.is_written():
            try:
                with self._turn:
                    if not ticket.is_written():
                        self._write(self._next_group(ticket))
            except StoreBusy:
                try:
                    self._waiting.remove(ticket)
                except ValueError:
                    continue  # another thread is writing it right now and will set its result
                if self._is_exclusive:
                    raise
                self._write([ticket])

    def _next_group(self, ticket: Ticket) -> list[Ticket]:
        with suppress(ValueError):
            self._waiting.remove(ticket)
        group, size, text = [ticket], len(ticket.jobs), _text(ticket)
        while self._waiting and size < self._most and text < MOST_TEXT:
            try:
                other = self._waiting.popleft()
            except IndexError:  # its own thread has just withdrawn it
                break
            group.append(other)
            size += len(other.jobs)
            text += _text(other)
        return group


def _text(ticket: Ticket) -> int:
    return sum(map(len, payloads_of(ticket.jobs)))
