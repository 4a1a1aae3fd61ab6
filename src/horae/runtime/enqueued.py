"""A job that an application has just enqueued: wait for its end, take its result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from horae.actions.jobs.requests import Enqueued
from horae.api.waits import WAIT_TIMEOUT
from horae.core.dataclass import dataclass
from horae.core.time.spans import Span
from horae.core.values import swift
from horae.errors import NotAllowed, NotFound

if TYPE_CHECKING:
    from horae.api.application import Acting
    from horae.api.jobs.batch import JobBatch
    from horae.api.jobs.room import Job
    from horae.core.jobs.batch import BatchState


@dataclass(frozen=True, slots=True)
class Origin:
    """Through which application jobs were enqueued, and whether in a transaction of the caller's."""

    app: Acting
    is_joined: bool


make_origin = swift(Origin)


@dataclass(frozen=True, slots=True)
class EnqueuedJob(Enqueued):
    """The job that answers an enqueue; ``deduplicated`` when it was there before.

    Every wait has a limit: five minutes unless given, and then ``WaitTimeout``, which leaves the job alone.
    """

    def wait(self, timeout: Span = WAIT_TIMEOUT) -> Job:
        """Wait until the job has ended, and return it: succeeded, dead or cancelled."""
        with self._seen():
            return self._app.jobs.wait(self.id, timeout=timeout)

    def result(self, timeout: Span = WAIT_TIMEOUT) -> Any:
        """Wait for the job and return its result; ``JobFailed``, with its last error, when it did not succeed."""
        with self._seen():
            return self._app.jobs.result(self.id, timeout=timeout)

    async def wait_async(self, timeout: Span = WAIT_TIMEOUT) -> Job:  # noqa: ASYNC109 - the same word as in wait
        """Wait as :meth:`wait` does, while the event loop goes on."""
        with self._seen():
            return await self._app.aio.jobs.wait(self.id, timeout=timeout)

    async def result_async(self, timeout: Span = WAIT_TIMEOUT) -> Any:  # noqa: ASYNC109 - the same word as in result
        """Return the result as :meth:`result` does, while the event loop goes on."""
        with self._seen():
            return await self._app.aio.jobs.result(self.id, timeout=timeout)

    @property
    def _app(self) -> Acting:
        return cast(Origin, self.origin).app

    @contextmanager
    def _seen(self) -> Iterator[None]:
        """Say of a job that cannot be seen that its transaction may not be committed."""
        try:
            yield
        except NotFound as problem:
            if self.origin.is_joined and problem.reason == "job_unknown":
                raise NotAllowed("wait_before_commit", id=self.id) from None
            raise


@dataclass(frozen=True)
class EnqueuedBatch:
    """A batch that an application has just stored: ask for its progress, wait for it, cancel it."""

    id: str
    origin: Origin

    def status(self) -> JobBatch:
        """Return the batch as it is now, with its counts and its callbacks."""
        return self.origin.app.batches.get(self.id)

    @property
    def progress(self) -> float:
        """Return the share of its jobs that have ended now, from 0 to 1."""
        return self.status().progress

    def jobs(self, state: BatchState | None = None) -> Iterator[str]:
        """Return the ids of its jobs; with *state* of those that are open, have succeeded or have failed."""
        return (each.id for each in self.origin.app.batches.jobs(self.id, state=state))

    def wait(self, timeout: Span = WAIT_TIMEOUT) -> JobBatch:
        """Wait until all its jobs have ended; ``WaitTimeout`` after five minutes, unless given, leaves it alone."""
        return self.origin.app.batches.wait(self.id, timeout=timeout)

    async def wait_async(self, timeout: Span = WAIT_TIMEOUT) -> JobBatch:  # noqa: ASYNC109 - the same word as in wait
        """Wait as :meth:`wait` does, while the event loop goes on."""
        return await self.origin.app.aio.batches.wait(self.id, timeout=timeout)

    def cancel(self, reason: str = "") -> JobBatch:
        """Cancel every job of it that has not ended; running ones are asked to stop."""
        return self.origin.app.batches.cancel(self.id, reason=reason)


def waitable(placed: list[Enqueued], app: Acting, *, is_joined: bool) -> list[EnqueuedJob]:
    """Return the answers as jobs that can be waited for.

    They are the same objects: making thousands of new ones would cost a bulk enqueue what it saves.
    """
    origin, put = make_origin(app, is_joined), object.__setattr__
    for each in placed:
        put(each, "origin", origin)
        put(each, "__class__", EnqueuedJob)
    return cast("list[EnqueuedJob]", placed)
