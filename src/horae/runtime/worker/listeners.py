"""Telling the outside what happened; a listener can never break a job, nor hold one up."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from horae.api.jobs.room import Job as PublicJob
from horae.api.values import published
from horae.core.jobs.job import Job
from horae.errors import DefinitionError
from horae.runtime.worker.calls import Ended, Submit, call_through, here, is_generator_function
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import error_line, loggable

DeadListener = Callable[[PublicJob], Awaitable[None] | None]
TIME_LIMIT = 30.0  # seconds for one listener
EVENTS = ("on_start", "on_success", "on_failure", "on_skipped")
log = logging.getLogger("horae.listeners")


class JobExecutionListener:
    """Derive from this to hear of the runs of scheduled jobs; every method is optional, sync or async.

    ``job_id`` is the id under which the job was declared; ``fire_time`` is the moment it was decided to run it, in
    milliseconds since 1970, ``duration`` is in milliseconds.
    """

    def on_start(self, job_id: str, fire_time: int) -> Awaitable[None] | None:
        """Right before it runs."""
        return None

    def on_success(self, job_id: str, fire_time: int, duration: int) -> Awaitable[None] | None:
        return None

    def on_failure(self, job_id: str, fire_time: int, duration: int, error: BaseException) -> Awaitable[None] | None:
        return None

    def on_skipped(self, job_id: str, fire_time: int) -> Awaitable[None] | None:
        """The next occurrence has taken its place while somebody else held its lock."""
        return None


class Listeners:
    """Who wants to be told about what."""

    def __init__(self) -> None:
        self.on_dead: list[DeadListener] = []
        self.executions: list[JobExecutionListener] = []

    def add_dead(self, listener: DeadListener) -> None:
        _refuse_generator(listener, "on_dead")
        self.on_dead.append(listener)

    def add_execution(self, listener: JobExecutionListener) -> None:
        for event in EVENTS:
            _refuse_generator(getattr(listener, event, None), event)
        self.executions.append(listener)

    async def tell_execution(self, event: str, *facts: Any) -> None:
        for listener in list(self.executions):
            method = getattr(listener, event, None)
            if method is not None:
                await _call_listener(method, *facts)

    async def tell_dead(self, job: Job) -> None:
        seen = published(PublicJob, job) if self.on_dead else None
        for listener in list(self.on_dead):
            await _call_listener(listener, seen)


class Teller:
    """Tells listeners beside the work, one thing after another, so that a slow one delays only the news."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._waiting: deque[Job] = deque()
        self._telling: asyncio.Task[None] | None = None

    def dead(self, job: Job) -> None:
        if not self._listeners.on_dead:
            return
        self._waiting.append(job)
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_on())

    async def _tell_on(self) -> None:
        try:
            while self._waiting:
                await self._listeners.tell_dead(self._waiting.popleft())
        finally:
            self._telling = None

    async def drained(self, limit: timedelta) -> None:
        """Until everybody has been told, or the time is up."""
        if self._telling is not None:
            _, late = await asyncio.wait([self._telling], timeout=limit.total_seconds())
            for task in late:
                task.cancel()
                log.warning("%d dead jobs could not be told to the listeners in time", len(self._waiting) + 1)


async def _call_listener(listener: Callable[..., Any], *facts: Any) -> None:
    """A plain function runs in a thread of its own, because it may block; every listener has a time limit."""
    thread = Threads(1, name="horae-listener")
    name = _name(listener)

    def in_thread(work: Callable[[], Ended]) -> Awaitable[Ended]:
        return asyncio.shield(thread.submit(work))

    submit: Submit = here if inspect.iscoroutinefunction(listener) else in_thread
    problem: BaseException | None
    try:
        async with asyncio.timeout(TIME_LIMIT):
            _, problem = await call_through(name, lambda: listener(*facts), submit)
    except TimeoutError as late:
        problem = late
    finally:
        thread.close()
    if problem is not None:
        log.error(
            "a listener failed; the job is not affected: %s",
            error_line(problem),
            exc_info=loggable(problem),
            extra={"listener": name},
        )


def _refuse_generator(listener: Any, name: str) -> None:
    if is_generator_function(listener):
        raise DefinitionError("listener_is_generator", name=name)


def _name(listener: Callable[..., Any]) -> str:
    return getattr(listener, "__qualname__", None) or type(listener).__qualname__
