"""Record runs of code that Horae does not schedule (document 004).

::

    with ExecutionTracker(app, "sync_daily"):
        sync()

Start, success, failure (``Type: message``) and duration are written; a failing write never breaks the work. While it
lasts its lease is renewed; when its process dies, the run is closed as lost once the lease has run out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from horae.actions.jobs import outside_runs
from horae.actions.jobs.jobs import truncate
from horae.core.jobs.job import Job, Outcome
from horae.ports.world import World
from horae.runtime.sources.store import StoreSource
from horae.runtime.worker.renewer import Renewer

log = logging.getLogger("horae.tracker")


class HasWorld(Protocol):
    @property
    def world(self) -> World: ...


class ExecutionTracker:
    """A context manager, sync or async, around one piece of work."""

    def __init__(
        self,
        app: HasWorld,
        name: str,
        *,
        payload: dict[str, Any] | None = None,
        lease: timedelta = timedelta(minutes=10),
    ) -> None:
        self._app = app
        self._name = name
        self._payload = payload
        self._lease = lease
        self._renewer: Renewer | None = None
        self.job: Job | None = None

    def __enter__(self) -> Self:
        try:
            world = self._app.world
            self.job = outside_runs.begin(
                world,
                self._name,
                worker_id=f"{socket.gethostname()}:{os.getpid()}",
                payload=self._payload,
                lease=self._lease,
            )
            self._renewer = Renewer(StoreSource(world), world.clock, self._lease, self._warn)
            self._renewer.hold([self.job])
            self._renewer.start()
        except Exception:
            log.exception("the start of %s could not be recorded; the work goes on", self._name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self.job is None:
            return
        try:
            if self._renewer is not None:
                self._renewer.stop()
            outside_runs.end(self._app.world, self.job, _outcome(problem))
        except Exception:
            log.exception("the end of %s could not be recorded", self._name)

    def _warn(self, job: Job, stop_reason: str) -> None:
        """Report a lost lease, from the renewing thread; the work goes on."""
        log.warning("the run of %s (%s) is %s; it goes on without being recorded", self._name, job.id, stop_reason)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, problem, traceback)


def _outcome(problem: BaseException | None) -> Outcome:
    if problem is None:
        return Outcome("succeeded")
    try:
        words = str(problem)
    except Exception:
        words = "(it cannot be put into words)"
    return Outcome("failed", error=truncate(f"{type(problem).__name__}: {words}"))
