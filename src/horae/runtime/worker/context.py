"""The context of an attempt: what a handler can read and do while it runs its job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from horae.api.jobs.room import Job as PublicJob
from horae.api.values import to_public
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import Spending
from horae.core.jobs.job import Job, Lease
from horae.core.jobs.outcomes import BudgetEmpty
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.steps import KeptResult
from horae.runtime.steps import KeepsSteps, inside_transaction
from horae.runtime.worker.services import Scope, Services

if TYPE_CHECKING:
    from horae.runtime.worker.lines import Recorder

T = TypeVar("T")


class AttemptPort(Protocol):
    """Stores what a context reports: directly in a worker, or through the parent in a child process."""

    def progress(self, lease: Lease, value: Any) -> None: ...
    def checkpoint(self, lease: Lease, value: Any) -> None: ...
    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any: ...
    def recall(self, lease: Lease, step: str) -> KeptResult | None: ...
    def keep(self, lease: Lease, step: str, value: Any) -> Any: ...

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]: ...
    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending: ...
    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None: ...
    def keep_line(self, ctx: Context, level: str, text: str) -> None:
        """Keep a line that the handler has logged."""

    def call(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run a blocking call off the event loop."""


@dataclass(frozen=True, slots=True)
class AttemptSteps:
    """The steps of one attempt."""

    port: AttemptPort
    lease: Lease

    def recall(self, name: str) -> KeptResult | None:
        return self.port.recall(self.lease, name)

    def keep(self, name: str, value: Any) -> Any:
        return self.port.keep(self.lease, name, value)

    def call(self, work: Callable[[], T]) -> Awaitable[T]:
        return self.port.call(work)


class Context(KeepsSteps):
    """One attempt at a job, as its handler sees it."""

    # What few attempts change is a default of the class: thousands of contexts are made in a second.
    problem: BaseException | None = None  # what the handler raised, for listeners
    in_thread = False  # a handler in a thread cannot be cancelled, only asked to end
    noticed = False  # the handler has seen the request to stop, so its return may be early
    recorder: Recorder | None = None  # for the runtime: what was logged; most handlers log nothing
    has_scope = False  # for the runtime: there may be dependencies to close
    _stopped = False
    _wakes: tuple[Callable[[], None], ...] = ()

    def __init__(self, job: Job, port: AttemptPort, services: Services | None = None) -> None:
        self.claimed = job  # for the runtime: the job as its source returned it
        self.services = services
        self._port = port

    @property
    def lease(self) -> Lease:
        """For the runtime: the hold on the job, and its fence."""
        return Lease(self.claimed.number, self.claimed.token)

    @cached_property
    def _checkpoint(self) -> Any:
        return self.claimed.checkpoint

    @cached_property
    def _spends(self) -> Iterator[int]:
        return count(1)

    @cached_property
    def job(self) -> PublicJob:
        """The public job as it was when it was claimed."""
        seen: PublicJob = to_public(PublicJob, self.claimed)
        return seen

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the job's fields; its last lines are kept with the attempt."""
        from horae.runtime.worker.lines import RecordingLogger

        return RecordingLogger(self.claimed, self.write_line)

    def write_line(self, level: str, text: str) -> None:
        """For the runtime: keep a line with this attempt."""
        self._port.keep_line(self, level, text)

    @cached_property
    def scope(self) -> Scope:
        """For the runtime: the dependencies made for this run, closed when it ends."""
        self.has_scope = True
        return (self.services or Services()).scope({Context: self})

    def get(self, kind: type[T]) -> T:
        """Return the dependency of a type: ``ctx.get(TokenService)``."""
        return self.scope.get(kind)

    async def get_async(self, kind: type[T]) -> T:
        """Return the dependency of a type, also from an async factory."""
        return await self.scope.get_async(kind)

    @property
    def job_id(self) -> str:
        """The id of the job that this is an attempt at; :attr:`name` is the id of its declaration."""
        return self.claimed.id

    @property
    def name(self) -> str:
        """The id under which the job was declared."""
        return self.claimed.handler

    @property
    def fire_time(self) -> datetime:
        """When the job was made: its schedule fired, or it was triggered or enqueued.

        :attr:`planned_at` is the nominal instant of the fire; the handler starts later than both.
        """
        return self.claimed.created_at

    @property
    def attempt(self) -> int:
        """The number of this attempt; 1 for the first."""
        return self.claimed.attempt + 1

    @property
    def token(self) -> int:
        """The fencing token of this attempt: pass it to systems that can refuse an older one."""
        return self.claimed.token

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt at this job: pass it to services that accept such keys."""
        return self.claimed.key or self.claimed.id

    @property
    def planned_at(self) -> datetime:
        """The nominal time of the job; retries do not move it."""
        return self.claimed.planned_at

    @property
    def due_at(self) -> datetime:
        """When this attempt was due."""
        return self.claimed.run_at

    @property
    def owner(self) -> str:
        return self.claimed.owner

    @property
    def last_checkpoint(self) -> Any:
        """The checkpoint saved last, by this or an earlier attempt; None at first."""
        return self._checkpoint

    @property
    def cancelled(self) -> bool:
        """True once a cancel was requested, the worker shuts down, the time limit has passed, or the lease is lost.

        A handler that has seen this and returns counts as stopped, not as done: a cancelled job ends cancelled, one
        whose worker shuts down goes back to its queue.
        """
        if self._stopped:
            self.noticed = True
        return self._stopped

    @property
    def is_stopped(self) -> bool:
        """For the runtime: whether the handler was asked to stop; reading it does not count as noticing."""
        return self._stopped

    def cancel(self) -> None:
        """For the runtime: ask the handler to stop."""
        self._stopped = True
        for wake in self._wakes:
            wake()

    def progress(self, value: Any) -> None:
        """Store the progress of this attempt, any JSON value, for people and lists."""
        self._port.progress(self.lease, value)

    def checkpoint(self, value: Any) -> None:
        """Save any JSON value from which a later attempt can continue."""
        self._port.checkpoint(self.lease, value)
        self._checkpoint = value

    def once(self, step: str, work: Callable[[Any], T]) -> T:
        """Run ``work(connection)`` exactly once for this job, whatever the number of attempts.

        It runs inside the transaction that stores its result, so keep it short; what it writes through *connection*
        is committed together with that result.
        """

        def guarded(connection: Any) -> T:
            with inside_transaction("ctx.once"):
                return work(connection)

        result: T = self._port.once(self.lease, step, guarded)
        return result

    def step_log(self) -> AttemptSteps:
        """For the runtime: where the results of steps are kept."""
        return AttemptSteps(self._port, self.lease)

    def parents(self) -> tuple[ParentResult, ...]:
        """Return the jobs that this one was enqueued ``after``, in that order, with what they returned.

        For the callback of a batch these are the jobs of the batch.
        They are read in one statement, and at most 16 MiB of results together; beyond that it is refused.
        """
        return self._port.parents(self.lease)

    def spend(self, cost: Mapping[str, int], *, key: str | None = None) -> str:
        """Reserve what the next step may cost, such as ``{"tokens": 800}``, before it; return its key.

        It is taken from what ``cost=`` reserved when the attempt started, then from the budget. When that has no room,
        ``BudgetEmpty`` ends the attempt: the job comes back at the refill, without counting an attempt, and the handler
        begins again from its last checkpoint. The same *key* is reserved once in an attempt.
        """
        name = f"#{next(self._spends)}" if key is None else key
        answer = self._port.spend(self.lease, cost, name)
        if not answer.granted:
            raise BudgetEmpty(answer.wait or timedelta(0), answer.reason)
        return name

    def spent(self, cost: Mapping[str, int], *, key: str | None = None) -> None:
        """Report what a step really cost; without a *key*, what the attempt as a whole has cost so far.

        What is not reported counts as reserved. The last report counts.
        """
        self._port.spent(self.lease, cost, key)

    async def progress_async(self, value: Any) -> None:
        await self._port.call(lambda: self.progress(value))

    async def checkpoint_async(self, value: Any) -> None:
        await self._port.call(lambda: self.checkpoint(value))

    async def once_async(self, step: str, work: Callable[[Any], T]) -> T:
        return await self._port.call(lambda: self.once(step, work))

    async def parents_async(self) -> tuple[ParentResult, ...]:
        return await self._port.call(self.parents)

    async def spend_async(self, cost: Mapping[str, int], *, key: str | None = None) -> str:
        return await self._port.call(lambda: self.spend(cost, key=key))

    async def spent_async(self, cost: Mapping[str, int], *, key: str | None = None) -> None:
        await self._port.call(lambda: self.spent(cost, key=key))

    async def until_cancelled(self) -> None:
        """Wait for the request to stop; for handlers that wait for something else at the same time."""
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended, and its waiters with it
                loop.call_soon_threadsafe(rung.set)

        self._wakes = (*self._wakes, wake)
        try:
            if not self.cancelled:  # checked after `wake` is registered, so that no request is missed
                await rung.wait()
                self.noticed = True
        finally:
            self._wakes = tuple(other for other in self._wakes if other is not wake)
