"""Jobs of Horae's own, served by every worker beside its queues: a few at a time, in a thread for the store.

They have no slot in any queue, so that neither a full worker nor the choice of its queues keeps a timeout waiting. The
worker's look at the store says when the next one is due; nothing is asked for while none is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from horae.actions.jobs.machinery import LEASE, serve_due
from horae.errors import StoreError
from horae.ports import Upcoming, World
from horae.runtime.database import DatabaseThreads

log = logging.getLogger("horae.machinery")
PAUSE = timedelta(milliseconds=250)  # after a failure, and where another process was quicker


class Machinery:
    """Serves what is due, one batch after the other, while the worker goes on."""

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
        """Begin with what is due, unless it is being served; *done* is called when there may be more."""
        if upcoming.next_machinery_at is not None and upcoming.next_machinery_at <= now and not self.is_busy:
            self._task = asyncio.create_task(self._serve(done), name="horae-machinery")

    async def _serve(self, done: Callable[[], None]) -> None:
        try:
            served = await self._database.call(lambda: serve_due(self._world, self._name, hand_on=False))
        except StoreError as problem:
            log.debug("jobs of Horae's own wait for the store: %s", problem)
        except Exception:
            log.exception("jobs of Horae's own could not be served; they are tried again")
        else:
            if served:
                done()

    def next_look(self, upcoming: Upcoming, now: datetime) -> datetime | None:
        """When the worker has to look again for the sake of these jobs."""
        due = upcoming.next_machinery_at
        return due if due is None or due > now else now + PAUSE

    def takes_hint(self) -> bool:
        """Whether somebody was woken for these jobs: then a look suffices, and says of any other work as well."""
        hinted, self.was_hinted = self.was_hinted, False
        return hinted

    async def ended(self) -> None:
        """Wait for the batch under way, which is short; where the store hangs, its leases run out as well."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=LEASE.total_seconds())
