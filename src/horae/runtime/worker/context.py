"""What a handler gets told, and what it may ask, while it holds its job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, TypeVar

from horae.api.jobs.room import Job as PublicJob
from horae.api.values import to_public
from horae.core.jobs.job import Job, Lease
from horae.runtime.logs import JobLogger, job_fields
from horae.runtime.worker.services import Scope, Services

T = TypeVar("T")


class AttemptPort(Protocol):
    """Who carries out what a context asks for: the worker itself, or a child process through its parent."""

    def progress(self, lease: Lease, value: Any) -> None: ...
    def checkpoint(self, lease: Lease, value: Any) -> None: ...
    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any: ...
    def call(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run a blocking call off the event loop."""


class Context:
    """One attempt at a job, as its handler sees it."""

    def __init__(self, job: Job, port: AttemptPort, services: Services | None = None) -> None:
        self.claimed = job  # for the runtime: the job as its source returned it
        self.lease = Lease(job.number, job.token)
        self.services = services
        self.problem: BaseException | None = None  # what the handler raised, for those who listen
        self.in_thread = False  # where the handler is now; a thread can only be asked to end
        self.noticed = False  # the handler has seen that it should end, so its return may be an early one
        self._port = port
        self._checkpoint = job.checkpoint
        self._stopped = False
        self._wakes: tuple[Callable[[], None], ...] = ()

    @cached_property
    def job(self) -> PublicJob:
        """The job as everybody sees it, at the moment it was claimed."""
        seen: PublicJob = to_public(PublicJob, self.claimed)
        return seen

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the job."""
        return JobLogger(logging.getLogger(f"horae.jobs.{self.claimed.handler}"), job_fields(self.claimed))

    @cached_property
    def scope(self) -> Scope:
        """For the runtime: what was made for this run, to be ended with it."""
        return (self.services or Services()).scope({Context: self})

    def get(self, kind: type[T]) -> T:
        """What the application provides for a type: ``ctx.get(TokenService)``."""
        return self.scope.get(kind)

    async def get_async(self, kind: type[T]) -> T:
        """The same, also where its factory is async."""
        return await self.scope.get_async(kind)

    @property
    def job_id(self) -> str:
        """The due item that this is an attempt at; see :attr:`name` for what was declared."""
        return self.claimed.id

    @property
    def name(self) -> str:
        """The id under which the job was declared."""
        return self.claimed.handler

    @property
    def fire_time(self) -> datetime:
        """When it was decided that this runs: its schedule fired, somebody triggered or enqueued it.

        :attr:`planned_at` is the nominal instant of the fire; the handler starts later than both.
        """
        return self.claimed.created_at

    @property
    def attempt(self) -> int:
        """1 for the first try."""
        return self.claimed.attempt + 1

    @property
    def token(self) -> int:
        """The fencing number of this attempt: hand it to whatever can refuse an older one."""
        return self.claimed.token

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this job: hand it to services that know such keys."""
        return self.claimed.key or self.claimed.id

    @property
    def planned_at(self) -> datetime:
        """The nominal time; retries do not move it."""
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
        """What an earlier attempt, or this one, saved last; None at first."""
        return self._checkpoint

    @property
    def cancelled(self) -> bool:
        """True once somebody asked the job to stop, its worker shuts down, its time is up, or its lease is lost.

        A handler that has seen this and returns counts as stopped, not as done: a cancelled job ends cancelled, one
        whose worker shuts down goes back to its queue.
        """
        if self._stopped:
            self.noticed = True
        return self._stopped

    @property
    def is_stopped(self) -> bool:
        """For the runtime: whether the handler was told to end; asking does not count as the handler's noticing."""
        return self._stopped

    def cancel(self) -> None:
        """For the runtime: tell the handler to end."""
        self._stopped = True
        for wake in self._wakes:
            wake()

    def progress(self, value: Any) -> None:
        """Show how far this attempt has come: any JSON value."""
        self._port.progress(self.lease, value)

    def checkpoint(self, value: Any) -> None:
        """Save what a later attempt needs to go on from here: any JSON value."""
        self._port.checkpoint(self.lease, value)
        self._checkpoint = value

    def once(self, step: str, work: Callable[[Any], T]) -> T:
        """Run ``work(connection)`` exactly once for this job, whatever the number of attempts.

        It runs inside the transaction that remembers its result, so keep it short; what it writes through
        *connection* is committed together with the memory of it.
        """
        result: T = self._port.once(self.lease, step, work)
        return result

    async def progress_async(self, value: Any) -> None:
        await self._port.call(lambda: self.progress(value))

    async def checkpoint_async(self, value: Any) -> None:
        await self._port.call(lambda: self.checkpoint(value))

    async def once_async(self, step: str, work: Callable[[Any], T]) -> T:
        return await self._port.call(lambda: self.once(step, work))

    async def until_cancelled(self) -> None:
        """Wait for the request to stop; for handlers that wait for something else at the same time."""
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                loop.call_soon_threadsafe(rung.set)

        self._wakes = (*self._wakes, wake)
        try:
            if not self.cancelled:  # asked only after the bell is in place, so that no ring is missed
                await rung.wait()
                self.noticed = True
        finally:
            self._wakes = tuple(other for other in self._wakes if other is not wake)
