"""What declared jobs ask of a worker: their schedules in the store, local timers, locks, listeners, dependencies.

On start the store is brought in line with what code and file say. A store that does not answer yet is no reason to
fail (C-17): local timers run, and the rest is made up for when it comes back. ``reload`` reads the file again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from horae.actions.hints import subscribe
from horae.actions.schedules.declared import Plan, bring_in_line, local
from horae.core.jobs.job import Outcome
from horae.core.schedules.schedule import Schedule
from horae.errors import HoraeError, StoreError
from horae.ports import LockManager, World
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.schedules.locks import LockKeeper
from horae.runtime.schedules.occurrences import Occurrences, Ttls, Work
from horae.runtime.worker.context import Context
from horae.runtime.worker.listeners import Listeners
from horae.runtime.worker.services import Services
from horae.runtime.worker.timers import Fire, Timers

log = logging.getLogger("horae.worker")
LOOK_EVERY = timedelta(seconds=60)  # at the schedules of local timers, which somebody may have changed
LOCK_THREADS = 2
LOOK_APART = timedelta(seconds=1)  # however often the store hints at changes


class Declared:
    """One process's declared jobs. Without a plan it only runs what the worker hands it.

    *ttls* are the times of their locks, for a process that cannot look them up in a store.
    """

    def __init__(
        self,
        world: World,
        listeners: Listeners,
        *,
        plan: Callable[[], Plan] | None = None,
        ttls: Ttls | None = None,
        services: Services | None = None,
        locks: Callable[[], LockManager | None] = lambda: None,
    ) -> None:
        self.services = services or Services()
        self.trouble: str | None = None  # why schedules are not in the store yet
        self.in_line = plan is None  # whether store and timers say what code and file say
        self._world = world
        self._read_plan = plan
        self._plan = plan() if plan is not None else Plan("")
        self._keeper = LockKeeper(world.clock)
        # A lock manager that takes seconds to say that it is away must not hold up claims and endings.
        self._lock_threads = DatabaseThreads(LOCK_THREADS, "horae-locks")
        self._keys = frozenset(ttls or (schedule.key for schedule in self._plan.schedules))
        self.occurrences = Occurrences(
            world, listeners, locks, declares=lambda name: name in self._keys, keeper=self._keeper, ttls=ttls
        )
        self._changed = True
        self._starts = True  # until the store has been brought in line for the first time
        self._stopping = False
        self._serving: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    # -- life ----------------------------------------------------------------------------------------------------

    async def open(self, database: DatabaseThreads, fire: Fire) -> None:
        """Begin beside a worker: *database* are its threads for the store, *fire* runs a local schedule."""
        self._database = database
        self._alarm = Alarm(self._world.clock)
        self._pause = Alarm(self._world.clock)  # nobody rings this one
        self._timers = Timers(self._world, fire)
        try:
            await self.services.open()
        except Exception:
            log.exception("an async factory failed; whoever asks for its type tries again")
        if self._read_plan is not None:
            self._unsubscribe = subscribe(self._world, self._hint)
            self._serving = asyncio.create_task(self._serve(), name="horae-declared")

    def reload(self) -> None:
        """Read the file again and bring the store in line; from the loop's thread."""
        self._changed = True
        self._alarm.ring()

    async def close(self, grace: timedelta) -> None:
        """Fire nothing more here; wait for local runs, up to the grace. Closing again hurries those."""
        self._stopping = True
        self._unsubscribe()
        self._alarm.ring()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])
        await self._timers.stop(grace)

    async def drained(self, limit: timedelta) -> None:
        """After the last attempt: tell the last news, end what was made."""
        await self.occurrences.drained(limit)
        self._keeper.stop()
        self._lock_threads.close()
        try:
            await self.services.close()
        except Exception:
            log.exception("something that the application provides could not be ended")

    def _hint(self, queue: str) -> None:
        """From any thread: a schedule may have changed."""
        if queue == "*" and (self._timers.next_fires or _local(self._plan)):
            self._alarm.ring_from_elsewhere()

    async def _serve(self) -> None:
        backoff = Backoff(self._world.dice)
        while not self._stopping:
            try:
                await self.step()
                backoff.reset()
                hinted = await self._alarm.sleep(None, LOOK_EVERY)
                if hinted and not self._changed:  # many hints may follow one another; a reload is asked for once
                    await self._pause.sleep(None, LOOK_APART)
            except StoreError as problem:
                self.trouble = str(problem)
                if not backoff.failures:
                    log.error("schedules are not in the store yet, and are tried again: %s", problem)
                if not self._timers.next_fires:
                    self._arm({})  # local timers need no store
                await self._alarm.sleep(None, backoff.next())
            except Exception:
                log.exception("schedules could not be brought in line; trying again")
                await self._alarm.sleep(None, backoff.next())

    async def step(self) -> None:
        """Bring the store in line where something changed, and local timers with the store."""
        if self._changed:
            self._changed = self.in_line = False  # before reading, so that a reload meanwhile is not lost
            try:
                if self._look_again() or self._starts:
                    await self._database.call(lambda: bring_in_line(self._world, self._plan, starts=self._starts))
                self._starts = False
            except BaseException:
                self._changed = True
                raise
            self.trouble = None
        self._arm(await self._database.call(lambda: local(self._world, self._plan)))
        self.in_line = True

    def _look_again(self) -> bool:
        """A file that has become wrong changes nothing, loudly; the store may know a newer one than this process."""
        assert self._read_plan is not None
        try:
            self._plan = self._read_plan()
        except HoraeError as problem:
            log.error("jobs.conf is not taken over, everything stays as it was: %s", problem)
            return False
        self._keys = frozenset(schedule.key for schedule in self._plan.schedules)
        return True

    def _arm(self, known: dict[str, Schedule]) -> None:
        declared = {schedule.key: replace(schedule, inactive=self._plan.off) for schedule in _local(self._plan)}
        self._timers.set((declared | known).values())

    # -- running -------------------------------------------------------------------------------------------------

    async def run(self, ctx: Context, work: Work) -> Outcome:
        """One attempt at a job from the queue, under its lock, told to whoever listens."""
        return await self.occurrences.run(ctx, work, self._lock_threads.call)


def _local(plan: Plan) -> list[Schedule]:
    return [schedule for schedule in plan.schedules if schedule.mode == "ALL_NODES"]
