"""Serve Horae's own jobs (timeouts, starts, deadlines) in every worker, a small batch at a time, in a store thread.

These jobs need no slot of a queue: neither a full worker nor its choice of queues may delay a timeout. The worker's
``peek`` returns when the next one is due; until then nothing is claimed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from horae.actions.jobs.machinery import LEASE, serve_due
from horae.errors import StoreError
from horae.ports.workers import Upcoming
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads

log = logging.getLogger("horae.machinery")
PAUSE = timedelta(milliseconds=250)  # after a failure, and where another process was quicker


class Machinery:
    """Serve due jobs of Horae's own in batches, beside the worker's loop."""

    def __init__(self, world: World, database: DatabaseThreads, name: str) -> None:
        self._world = world
        self._database = database
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self.was_hinted = False  # set from any thread

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def serve(self, upcoming: Upcoming, now: datetime, done: Callable[[], None]) -> None:
        """Start serving due jobs unless a batch is under way; *done* is called when there may be more."""
        if upcoming.next_machinery_at is not None and upcoming.next_machinery_at <= now and not self.is_busy:
            self._task = asyncio.create_task(self._serve(done), name="horae-machinery")

    async def _serve(self, done: Callable[[], None]) -> None:
        try:
            served = await self._database.call(lambda: serve_due(self._world, self._name, hand_on=False))
        except StoreError as problem:
            log.debug("Horae's own jobs wait until the store answers: %s", problem)
        except Exception:
            log.exception("Horae's own jobs could not be served; they are tried again")
        else:
            if served:
                done()

    def next_look(self, upcoming: Upcoming, now: datetime) -> datetime | None:
        """Return when the worker has to peek again because of these jobs."""
        due = upcoming.next_machinery_at
        return due if due is None or due > now else now + PAUSE

    def takes_hint(self) -> bool:
        """Return whether a hint named these jobs, and reset it; one peek then covers all other work too."""
        hinted, self.was_hinted = self.was_hinted, False
        return hinted

    async def wait_until_done(self) -> None:
        """Wait for the batch under way, for at most the length of a lease: after that other workers take the jobs."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=LEASE.total_seconds())
