"""The scheduler: turn fires into jobs at the instant they are due.

Any process may fire any schedule; the store lets each fire happen once. The scheduler sleeps until the next fire that
the worker's peek returned, so that an idle process sends no queries of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from horae.actions.jobs.claims import peek
from horae.actions.schedules.fires import FIRE_BATCH, batches_at_once, fire_due, recompute_zones
from horae.core.schedules.schedule import Firing
from horae.core.time.instants import iso
from horae.errors import StoreError
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm, Backoff

log = logging.getLogger("horae.scheduler")
LONG = timedelta(hours=1)  # no fire is expected: the worker's next peek rings the alarm
# With many fires due at one instant a small first batch starts jobs soon and leaves the rest to other processes. The
# batch grows only while full batches are found.
FIRST_BATCH = 20
ELSEWHERE_WAIT = timedelta(milliseconds=20)  # another process is firing: retrying at once would only slow it down
Fired = Callable[[Firing, list[str]], None]


class Scheduler:
    """Fire due schedules; one instance per process."""

    def __init__(self, world: World, database: DatabaseThreads, fired: Fired | None = None) -> None:
        self._world = world
        self._database = database
        self._fired = fired
        self._alarm: Alarm | None = None
        self._next: datetime | None = None
        self._expectations = 0  # counts the calls of `expect`
        self._batch = FIRST_BATCH
        self._zones_checked = False
        self._stopping = False

    def expect(self, moment: datetime | None) -> None:
        """Set when the next fire is due, as a worker has just read it."""
        self._expectations += 1
        if moment != self._next:
            self._next = moment
            if self._alarm is not None:
                self._alarm.ring()

    def stop(self) -> None:
        self._stopping = True
        if self._alarm is not None:
            self._alarm.ring()

    async def run(self) -> None:
        """Fire due schedules until :meth:`stop`."""
        self._alarm = Alarm(self._world.clock)
        backoff = Backoff(self._world.dice)
        while not self._stopping:
            try:
                await self._serve()
                backoff.reset()
            except StoreError as problem:
                if not backoff.failures:
                    log.warning("schedules cannot fire until the store answers: %s", problem)
                await self._alarm.sleep(None, backoff.next())
            except Exception:
                log.exception("a round of the scheduler failed; trying again")
                await self._alarm.sleep(None, backoff.next())

    async def _serve(self) -> None:
        if not self._zones_checked:
            await self.check_zones()
            self._zones_checked = True
        assert self._alarm is not None
        if not self._is_due():
            await self._alarm.sleep(self._next, LONG)
            return
        fired = await self.step()
        if fired >= self._batch:
            self._batch = min(self._batch * 2, FIRE_BATCH)
        else:
            self._batch = FIRST_BATCH
            await self._peek()
        if not fired and self._is_due():
            await self._alarm.sleep(self._world.clock.now() + ELSEWHERE_WAIT, LONG)

    def _is_due(self) -> bool:
        return self._next is not None and self._next <= self._world.clock.now()

    async def _peek(self) -> None:
        """Read when the next fire is due; if :meth:`expect` was called meanwhile, the earlier of both counts."""
        before = self._expectations
        upcoming = await self._database.call(lambda: peek(self._world, []))
        known = [upcoming.next_fire_at, self._next if before != self._expectations else None]
        self._next = min((moment for moment in known if moment is not None), default=None)

    async def step(self) -> int:
        """Fire one batch, in a burst several at once; return the number of schedules fired."""
        at_once = 1 if self._batch == FIRST_BATCH else batches_at_once(self._world)
        writing = [self._database.submit(lambda: fire_due(self._world, self._batch)) for _ in range(at_once)]
        batches = await asyncio.gather(*writing, return_exceptions=True)
        made = [each for batch in batches if not isinstance(batch, BaseException) for each in batch]
        for firing, job_ids in made:
            _log_firing(firing, job_ids)
            if self._fired is not None:
                self._fired(firing, job_ids)
        for problem in batches:
            if isinstance(problem, BaseException):  # of one batch; the others have fired and were reported
                raise problem
        return len(made)

    async def check_zones(self) -> None:
        """Recompute the next fire of wall-clock rules on start: a newer zone database may have moved it."""
        for schedule, before in await self._database.call(lambda: recompute_zones(self._world)):
            after = "never" if schedule.next_fire_at is None else iso(schedule.next_fire_at)
            log.warning(
                "the next fire of %s moved from %s to %s with the zone database %s",
                schedule.key,
                "never" if before is None else iso(before),
                after,
                self._world.tzdata,
            )


def _log_firing(firing: Firing, job_ids: list[str]) -> None:
    """Log the fires that did not run; jobs log the others."""
    for fire in firing.fires:
        if fire.verdict != "ran":
            log.info(
                "%s: %d fire(s) from %s %s (%s)",
                firing.schedule.key,
                fire.count,
                iso(fire.fire_at),
                fire.verdict,
                fire.reason,
                extra={"schedule": firing.schedule.key, "verdict": fire.verdict, "reason": fire.reason},
            )
    if job_ids:
        log.debug("%s fired: %s", firing.schedule.key, ", ".join(job_ids), extra={"schedule": firing.schedule.key})
