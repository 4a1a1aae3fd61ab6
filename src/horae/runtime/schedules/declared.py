"""Serve declared jobs beside a worker: their schedules in the store, local timers, locks, listeners, dependencies.

On start the store is brought in line with code and file. A store that does not answer yet is no reason to fail (C-17):
local timers run, and the rest follows once the store answers. ``reload`` reads the file again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

from horae.actions.hints import subscribe
from horae.actions.schedules.declared import Plan, bring_in_line, local
from horae.core.jobs.job import Outcome
from horae.core.schedules.schedule import Schedule
from horae.errors import HoraeError, StoreError
from horae.ports.locks import LockManager
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.schedules.locks import LockKeeper
from horae.runtime.schedules.occurrences import Occurrences, Ttls, Work
from horae.runtime.worker.context import Context
from horae.runtime.worker.listeners import Listeners
from horae.runtime.worker.services import Services
from horae.runtime.worker.timers import Fire, Timers

log = logging.getLogger("horae.worker")
LOOK_EVERY = timedelta(seconds=60)  # re-read the schedules of local timers: they may have changed in the store
LOCK_THREADS = 2
LOOK_APART = timedelta(seconds=1)  # minimum between two reads, however many hints arrive


class Declared:
    """The declared jobs of one process. Without a plan it only runs what the worker hands it.

    *ttls* are the lifetimes of their locks, for a process without a store to read them from. In a cluster *world* is
    that of the shard whose jobs are run, *everywhere* that in which the plan is written; a guest, which serves another
    shard of the same process, leaves opening and closing the services to its host.
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
        everywhere: World | None = None,
        is_guest: bool = False,
    ) -> None:
        self.services = services or Services()
        self.everywhere = everywhere or world
        self._is_guest = is_guest
        self.trouble: str | None = None  # why schedules are not in the store yet
        self.in_line = plan is None  # whether store and timers match code and file
        self._world = world
        self._read_plan = plan
        self._plan = plan() if plan is not None else Plan("")
        self._keeper = LockKeeper(world.clock)
        # Own threads: a lock manager that takes seconds to time out must not delay claims and endings.
        self._lock_threads = DatabaseThreads(LOCK_THREADS, "horae-locks")
        self._keys = frozenset(ttls or (schedule.key for schedule in self._plan.schedules))
        self.occurrences = Occurrences(
            world, listeners, locks, declares=lambda name: name in self._keys, keeper=self._keeper, ttls=ttls
        )
        self._changed = True
        self._starts = True  # until the store has been brought in line for the first time
        self._started: set[int] = set()  # databases of a cluster where toggles have ended, while others are away
        self._stopping = False
        self._serving: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    # -- life ----------------------------------------------------------------------------------------------------

    async def open(self, database: DatabaseThreads, fire: Fire) -> None:
        """Start beside a worker: *database* are its threads for the store, *fire* runs a local schedule."""
        self._database = database
        self._alarm = Alarm(self._world.clock)
        self._pause = Alarm(self._world.clock)  # never rung: a plain pause
        self._timers = Timers(self._world, fire)
        try:
            if not self._is_guest:
                await self.services.open()
        except Exception:
            log.exception("an async factory failed; it is called again when a handler needs its type")
        if self._read_plan is not None:
            self._unsubscribe = subscribe(self._world, self._hint)
            self._serving = asyncio.create_task(self._serve(), name="horae-declared")

    def reload(self) -> None:
        """Read the file again and bring the store in line; from the loop's thread."""
        self._changed = True
        self._alarm.ring()

    async def close(self, grace: timedelta) -> None:
        """Fire nothing more here; wait for local runs, up to the grace. A second call with less grace hurries them."""
        self._stopping = True
        self._unsubscribe()
        self._alarm.ring()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])
        await self._timers.stop(grace)

    async def drain(self, limit: timedelta) -> None:
        """Finish after the last attempt: wait for listeners and locks, then close services and threads."""
        await self.occurrences.drain(limit)
        self._keeper.stop()
        self._lock_threads.close()
        try:
            if not self._is_guest:
                await self.services.close()
        except Exception:
            log.exception("a dependency of the application could not be closed")

    def _hint(self, queue: str) -> None:
        """Wake the loop because a schedule may have changed; from any thread."""
        if queue == "*" and (self._timers.next_fires or _local(self._plan)):
            self._alarm.ring_from_elsewhere()

    async def _serve(self) -> None:
        backoff = Backoff(self._world.dice)
        while not self._stopping:
            try:
                await self.step()
                backoff.reset()
                hinted = await self._alarm.sleep(None, LOOK_EVERY)
                if hinted and not self._changed:  # hints come in bursts; a reload is asked for once and must not wait
                    await self._pause.sleep(None, LOOK_APART)
            except StoreError as problem:
                self.trouble = str(problem)
                if not backoff.failures:
                    log.error("schedules could not be written to the store; trying again: %s", problem)
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
                    await self._database.call(
                        lambda: bring_in_line(self.everywhere, self._plan, starts=self._starts, started=self._started)
                    )
                self._starts = False
            except BaseException:
                self._changed = True
                raise
            self.trouble = None
        self._arm(await self._database.call(lambda: local(self.everywhere, self._plan)))
        self.in_line = True

    def _look_again(self) -> bool:
        """Read the plan again; if jobs.conf is invalid, log it, keep the old plan and return False.

        The old plan is not written again: the store may hold a newer one, from another process.
        """
        assert self._read_plan is not None
        try:
            self._plan = self._read_plan()
        except HoraeError as problem:
            log.error("jobs.conf is invalid and was not applied; the previous plan stays in force: %s", problem)
            return False
        self._keys = frozenset(schedule.key for schedule in self._plan.schedules)
        return True

    def _arm(self, known: dict[str, Schedule]) -> None:
        declared = {schedule.key: replace(schedule, inactive=self._plan.off) for schedule in _local(self._plan)}
        self._timers.set((declared | known).values())

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, ctx: Context, work: Work) -> Awaitable[Outcome]:
        """Run one attempt at a job from the queue under its lock, and report it to the listeners."""
        return self.occurrences.run(ctx, work, self._lock_threads.call)


def _local(plan: Plan) -> list[Schedule]:
    return [schedule for schedule in plan.schedules if schedule.mode == "ALL_NODES"]
