"""Take jobs from a relay over NATS JetStream, in a process without a database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from horae.api.admin import Admin
from horae.api.jobs.remote import core_job
from horae.api.jobs.room import Job as PublicJob
from horae.api.jobs.room import Jobs
from horae.api.operation import Call, Sender, operations_of
from horae.api.values import from_json, to_json
from horae.core.dispatch import CALLS, ENQUEUES, MOST_SLOTS
from horae.core.jobs.job import Change, Job, Outcome
from horae.errors import BusUnavailable, NeedsDatabase
from horae.ports.workers import Node, Upcoming
from horae.ports.world import Clock, Dice
from horae.runtime.nats import encode
from horae.runtime.sources.bus_line import BusLine
from horae.runtime.sources.http import HttpSource, ending_of

T = TypeVar("T")
BRISK, LONGEST = 2.0, 10.0  # seconds for an answer to a worker's own calls, which its loops repeat
PATIENT = 30.0  # seconds for an answer to a call of a handler
TRIES = 3  # in which it is sent, where it may be sent again
KEY_LENGTH = 32
LOOK_BUSY, LOOK_IDLE = 1.0, 5.0  # seconds between two looks for cancelled jobs, and for a drain
TOGETHER = 100  # endings in one message
PART = 256 * 1024  # bytes of endings in one message, unless one alone is longer
NAMES = {
    (each.method, each.path): name
    for room in (Jobs, Admin)
    for name, each in operations_of(room).items()
    if name in CALLS
}


class BusSender:
    """Run those operations over the bus that belong to the worker's side of jobs."""

    is_async = False

    def __init__(self, line: BusLine, limit: float) -> None:
        self._line, self._limit = line, limit

    def send(self, call: Call[T]) -> T:
        name = NAMES.get((call.method, call.path))
        if name is None:
            raise executes_only(call)
        arguments = {**call.at, **(call.body or {})}
        answer: T = from_json(call.answer, self._line.call(name, to_json(arguments), limit=self._limit))
        return answer

    def follow(self, call: Call[T]) -> Iterator[T]:
        raise executes_only(call)

    def download(self, call: Call[T]) -> Iterator[T]:
        raise executes_only(call)


class BusOperations:
    """The sender of an application on a bus: its jobs may enqueue others, and no other operation can be sent.

    A call has a key, the same in every try, so that a message or an answer that got lost stores nothing twice.
    """

    is_async = False

    def __init__(self, line: Callable[[Call[Any]], BusLine], dice: Callable[[], Dice]) -> None:
        self._line, self._dice = line, dice

    def send(self, call: Call[T]) -> T:
        name = NAMES.get((call.method, call.path))
        if name is None or name not in ENQUEUES:
            raise executes_only(call)
        line, arguments = self._line(call), to_json(call.body)
        if call.creates:
            arguments["key"] = call.key or self._dice().name(KEY_LENGTH)
        for _ in range(TRIES - 1):
            with suppress(BusUnavailable):
                return self._try(line, name, arguments, call)
        return self._try(line, name, arguments, call)

    def _try(self, line: BusLine, name: str, arguments: dict[str, Any], call: Call[T]) -> T:
        answer: T = from_json(call.answer, line.call(name, arguments, limit=PATIENT / TRIES))
        return answer

    def follow(self, call: Call[T]) -> NoReturn:
        raise executes_only(call)

    def download(self, call: Call[T]) -> NoReturn:
        raise executes_only(call)


class AsyncBusOperations:
    """The same for an event loop, in threads."""

    is_async = True

    def __init__(self, operations: BusOperations) -> None:
        self._operations = operations

    async def send(self, call: Call[T]) -> T:
        return await asyncio.to_thread(self._operations.send, call)

    def follow(self, call: Call[T]) -> NoReturn:
        raise executes_only(call)

    def download(self, call: Call[T]) -> NoReturn:
        raise executes_only(call)


def executes_only(call: Call[T]) -> NeedsDatabase:
    """Return the error for an operation that does not travel over the bus."""
    return NeedsDatabase("bus_executes_only", operation=f"{call.method} {call.path}")


class NatsSource(HttpSource):
    """The job source of a worker on a bus: jobs come to it, everything else is called as over HTTP.

    Jobs are asked for by free slots and arrive by themselves, so that a claim takes what is there and never waits.
    """

    def __init__(self, line: BusLine, clock: Clock, max_bytes: int, lease: timedelta) -> None:
        brisk = BusSender(line, min(max(lease.total_seconds() / 6, BRISK), LONGEST))
        super().__init__(Jobs[Sender](brisk), Jobs[Sender](BusSender(line, PATIENT)), clock, max_bytes)
        self.admin = Admin[Sender](brisk)
        self._line = line
        self._looked_at, self._last = float("-inf"), Upcoming(None, None)

    def declares(self, declare: Callable[[], object]) -> NatsSource:
        """Call *declare* before the first claim."""
        self._declare = declare
        return self

    def claim(self, queue: str, limit: int, *, worker_id: str, lease: timedelta) -> list[Job]:
        self._declare_once()
        taken = self._line.take(queue, min(limit, MOST_SLOTS), worker=worker_id, lease=lease)
        return [core_job(from_json(PublicJob, each)) for each in taken]

    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        self._line.rest(queues)
        now = self._clock.monotonic()
        pause = LOOK_IDLE if worker_id is None else LOOK_BUSY
        if node is not None or now - self._looked_at >= pause:
            self._last = super().peek((), node=node, node_id=node_id, worker_id=worker_id)
            self._looked_at = now
        due = self._clock.now() if self._line.has_arrived(queues) else None
        return Upcoming(due, None, cancelled=self._last.cancelled, drain=self._last.drain)

    def settle(self, batch: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        found: dict[str, Change | None] = {}
        for part in _parts(batch):
            found |= super().settle(part)
        return found

    def withdraw(self) -> None:
        self._line.withdraw()

    def leave(self, node: Node) -> None:
        self._line.withdraw()
        try:
            super().leave(node)
        finally:
            self._line.close()

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        self._line.listener = listener

        def unsubscribe() -> None:
            self._line.listener = lambda queue: None

        return unsubscribe


def _parts(batch: Sequence[tuple[Job, Outcome]]) -> Iterator[list[tuple[Job, Outcome]]]:
    """Divide endings into messages that a server takes."""
    part: list[tuple[Job, Outcome]] = []
    size = 0
    for job, outcome in batch:
        length = len(encode(to_json(ending_of(job, outcome))))
        if part and (len(part) == TOGETHER or size + length > PART):
            yield part
            part, size = [], 0
        part.append((job, outcome))
        size += length
    if part:
        yield part
