"""The Lab for tests without asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from horae.app import Horae
from horae.core.jobs.job import Job, Run, State
from horae.core.schedules.schedule import Fire
from horae.core.time.spans import Span
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from horae.testing.lab import AnyHandle, AnyJob, Lab, Point
from horae.testing.trace import Happening


class SyncLab:
    """A :class:`Lab` whose methods block, for plain test functions::

        with SyncLab(app) as lab:
            job = send_receipt.enqueue(order_id=42)
            lab.settle()
            assert lab.state_of(job) == "succeeded"

    It takes the options of a Lab and runs on an event loop of its own. ``lab.aio`` is the Lab itself, for handlers that
    ``await lab.aio.sleep(…)``.
    """

    def __init__(self, app: Horae, **options: Any) -> None:
        self.aio = Lab(app, **options)
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> Self:
        _refuse_running_loop()
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self.aio.__aenter__())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        try:
            self._runner.run(self.aio.__aexit__(kind, problem, trace))
        finally:
            self._runner.close()

    # -- moving --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Run everything that is due now, and whatever becomes due by that, until nothing is."""
        self._run(self.aio.settle())

    def advance(self, duration: Span) -> None:
        """Move the clock from one due instant to the next, running what is due at each, until *duration* is over."""
        self._run(self.aio.advance(duration))

    def until(self, predicate: Callable[[], Any], *, within: Span) -> None:
        """Advance only until the predicate holds; an ``AssertionError`` if it never does."""
        self._run(self.aio.until(predicate, within=within))

    def _run(self, work: Any) -> None:
        if self._runner is None:
            work.close()
            raise RuntimeError("A SyncLab works inside its block: with SyncLab(app) as lab: …")
        self._runner.run(work)

    # -- asking --------------------------------------------------------------------------------------------------

    @property
    def app(self) -> Horae:
        return self.aio.app

    @property
    def world(self) -> World:
        return self.aio.world

    @property
    def clock(self) -> VirtualClock:
        return self.aio.clock

    @property
    def now(self) -> datetime:
        return self.aio.now

    @property
    def trace(self) -> list[Happening]:
        """The events so far, in order."""
        return self.aio.trace

    def job(self, job: AnyJob) -> Job:
        """Return the job as the store has it now."""
        return self.aio.job(job)

    def state_of(self, job: AnyJob) -> State:
        return self.aio.state_of(job)

    def runs(self, job: AnyJob) -> list[Run]:
        """Return every attempt at a job, the oldest first."""
        return self.aio.runs(job)

    def enqueued(self, handle: AnyHandle) -> list[Job]:
        """Return every job of a handler that was ever enqueued here, the oldest first."""
        return self.aio.enqueued(handle)

    def fired(self, schedule: AnyHandle) -> list[str]:
        """Return the instants for which a schedule became a job, the oldest first."""
        return self.aio.fired(schedule)

    def fires(self, schedule: AnyHandle) -> list[Fire]:
        """Return what became of every fire of a schedule, the oldest first."""
        return self.aio.fires(schedule)

    # -- meddling ------------------------------------------------------------------------------------------------

    def replacing(self, handle: AnyHandle, function: Callable[..., Any]) -> AbstractContextManager[None]:
        """While the block lasts, run *function* instead of the handler."""
        return self.aio.replacing(handle, function)

    def breaking(self, handle: AnyHandle, error: BaseException | type[BaseException]) -> AbstractContextManager[None]:
        """While the block lasts, the handler raises *error* instead of running."""
        return self.aio.breaking(handle, error)

    def crash_next(self, handle: AnyHandle | None = None, *, at: Point = "run.before") -> None:
        """Let the worker die with the next attempt (of that handler)."""
        self.aio.crash_next(handle, at=at)


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("A SyncLab blocks, and an event loop runs here: use `async with Lab(app) as lab` instead.")
