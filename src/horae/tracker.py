"""Record runs of code that Horae does not schedule (document 004).

::

    with ExecutionTracker(app, "sync_daily"):
        sync()

Start, success, failure (``Type: message``) and duration are written; a failing write never breaks the work.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from horae.actions import tracking
from horae.core.jobs import Job, Outcome
from horae.ports import World

log = logging.getLogger("horae.tracker")


class HasWorld(Protocol):
    @property
    def world(self) -> World: ...


class ExecutionTracker:
    """A context manager, sync or async, around one piece of work."""

    def __init__(
        self, app: HasWorld, name: str, *, payload: dict[str, Any] | None = None, lease: timedelta = timedelta(hours=1)
    ) -> None:
        self._app = app
        self._name = name
        self._payload = payload
        self._lease = lease
        self.job: Job | None = None

    def __enter__(self) -> Self:
        try:
            self.job = tracking.begin(
                self._app.world,
                self._name,
                worker_id=f"{socket.gethostname()}:{os.getpid()}",
                payload=self._payload,
                lease=self._lease,
            )
        except Exception:
            self.job = None
            log.exception("the start of %s could not be recorded; the work goes on", self._name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self.job is None:
            return
        outcome = Outcome("succeeded")
        if problem is not None:
            outcome = Outcome("failed", error=f"{type(problem).__name__}: {problem}")
        try:
            tracking.end(self._app.world, self.job, outcome)
        except Exception:
            log.exception("the end of %s could not be recorded", self._name)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, problem, traceback)
