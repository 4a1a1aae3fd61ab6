"""The scheduler: due fires become jobs, exactly when they are due.

Any process may fire any schedule; the store lets nobody fire the same one twice. It sleeps until the next fire that
a worker has read of, so that an idle process asks nothing extra.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from horae.actions.jobs.claims import peek
from horae.actions.schedules.fires import FIRE_BATCH, fire_due, recompute_zones
from horae.core.schedules.schedule import Firing
from horae.core.time.instants import iso
from horae.errors import StoreError
from horae.ports import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm, Backoff

log = logging.getLogger("horae.scheduler")
LONG = timedelta(hours=1)  # nothing to expect: whoever looks will ring
# Many due at one instant: the first small batch starts their jobs soon and leaves the next to other processes; only who
# goes on finding full batches takes more at a time.
FIRST_BATCH = 20
ELSEWHERE_WAIT = timedelta(milliseconds=20)  # due, and another process is at it: asking at once would only slow it down
Fired = Callable[[Firing, list[str]], None]


class Scheduler:
    """Fires schedules; one for each process."""

    def __init__(self, world: World, database: DatabaseThreads, fired: Fired | None = None) -> None:
        self._world = world
        self._database = database
        self._fired = fired
        self._alarm: Alarm | None = None
        self._next: datetime | None = None
        self._expectations = 0  # how often a caller said what is next
        self._batch = FIRST_BATCH
        self._zones_checked = False
        self._stopping = False

    def expect(self, moment: datetime | None) -> None:
        """Take over when the next fire is, as a worker has just read it."""
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
        """Fire what comes due until :meth:`stop`."""
        self._alarm = Alarm(self._world.clock)
        backoff = Backoff(self._world.dice)
        while not self._stopping:
            try:
                await self._serve()
                backoff.reset()
            except StoreError as problem:
                if not backoff.failures:
                    log.warning("no schedule can fire while the store does not answer: %s", problem)
                await self._alarm.sleep(None, backoff.next())
            except Exception:
                log.exception("a round of the scheduler failed; it goes on")
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
        if fired == self._batch:
            self._batch = min(self._batch * 2, FIRE_BATCH)
        else:
            self._batch = FIRST_BATCH
            await self._look()
        if not fired and self._is_due():
            await self._alarm.sleep(self._world.clock.now() + ELSEWHERE_WAIT, LONG)

    def _is_due(self) -> bool:
        return self._next is not None and self._next <= self._world.clock.now()

    async def _look(self) -> None:
        """Read when the next fire is; of that and what :meth:`expect` was given meanwhile, the earlier one counts."""
        before = self._expectations
        upcoming = await self._database.call(lambda: peek(self._world, []))
        known = [upcoming.next_fire_at, self._next if before != self._expectations else None]
        self._next = min((moment for moment in known if moment is not None), default=None)

    async def step(self) -> int:
        """Fire one batch; return how many schedules that were."""
        made = await self._database.call(lambda: fire_due(self._world, self._batch))
        for firing, job_ids in made:
            _log_firing(firing, job_ids)
            if self._fired is not None:
                self._fired(firing, job_ids)
        return len(made)

    async def check_zones(self) -> None:
        """On start, compute the fires of wall-clock rules again: a newer zone database may have moved them."""
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
