"""The keeper: everything that a store needs beside its jobs being run.

It fires due schedules, hands on jobs whose worker fell silent, serves the queue ``horae`` (timeouts, starts, deadlines)
and does chores. A worker has one and looks at the store for it; a service without a worker runs one by itself
(:func:`keeping`). Any number of them get along: fires, endings and claims are fenced in the store, chores are taken in
turns (``janitor.py``). A keeper that dies leaves nothing behind that another does not take over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Protocol

from horae.actions import hints
from horae.actions.jobs.claims import peek
from horae.core.jobs.job import Job
from horae.core.jobs.machinery import MACHINERY
from horae.errors import HoraeError, StoreError
from horae.ports.workers import Upcoming
from horae.ports.world import Dice, World
from horae.runtime.chores.janitor import LEASE, Chore, Janitor
from horae.runtime.chores.machinery import Machinery
from horae.runtime.chores.reaper import Reaper
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm, Backoff, finish
from horae.runtime.schedules.scheduler import Fired, Scheduler

log = logging.getLogger("horae.keeper")
LOOK_EVERY = timedelta(seconds=30)  # by a keeper of its own; hints and due instants wake it earlier
LOOK_UNHINTED = timedelta(seconds=1)  # where no hints of other processes arrive
SPACING = timedelta(milliseconds=250)  # between two looks, however often it is woken
BLOCKED_WAIT = timedelta(milliseconds=250)  # before a lease that has run out, yet could not be taken back
LOOK_FOR_SHARDS = timedelta(seconds=15)  # a database of the cluster that was away or was added is kept after this
PATIENCE = 3.0  # seconds for what is under way when a keeper of its own ends


class Beside(Protocol):
    """A loop that goes on beside the chores, in every process that looks after a store."""

    async def run(self) -> None:
        """Go on until :meth:`stop`; errors are its own affair."""

    def stop(self) -> None:
        """Ask it to end; from the loop's thread."""


MakeBeside = Callable[[World, str], Beside]  # of a world and the name of the process


class Keeper:
    """The parts, and what a look at the store means for each."""

    def __init__(
        self,
        world: World,
        database: DatabaseThreads,
        name: str,
        chores: Sequence[Chore],
        tell_dead: Callable[[Job], None],
        fired: Fired | None = None,
        *,
        fires: bool = True,
        cleans: bool = True,
        lease: timedelta = LEASE,
        beside: Sequence[MakeBeside] = (),
    ) -> None:
        self._world = world
        self._beside = [make(world, name) for make in beside] if cleans else []
        self._database = database
        self._fires, self._cleans = fires, cleans
        self._reaper = Reaper(world, database, tell_dead)
        self._scheduler = Scheduler(world, database, fired)
        self._machinery = Machinery(world, database, name)
        self._janitor = Janitor(world, database, chores, name=name, lease=lease)
        self.heeds_hints = any(chore.hinted for chore in chores)
        self.is_stopping = False

    # -- for the process that looks at the store -------------------------------------------------------------------

    def start(self) -> list[asyncio.Task[None]]:
        """Start the loops that go on by themselves."""
        tasks = []
        if self._fires:
            tasks.append(asyncio.create_task(self._scheduler.run(), name="horae-scheduler"))
        if self._cleans:
            tasks.append(asyncio.create_task(self._janitor.run(), name="horae-janitor"))
        tasks += [asyncio.create_task(each.run(), name=f"horae-{type(each).__name__}") for each in self._beside]
        return tasks

    def expect(self, upcoming: Upcoming) -> None:
        """Take over what a look says of fires and chores."""
        self._scheduler.expect(upcoming.next_fire_at)
        self._janitor.expect(upcoming)

    async def serve(self, upcoming: Upcoming, now: datetime, again: Callable[[], None]) -> bool:
        """Begin with due jobs of Horae's own and hand on lost ones; true when more lost ones are probably waiting.

        *again* is called when there may be more of Horae's own.
        """
        self._machinery.serve(upcoming, now, again)
        return upcoming.next_expiry_at is not None and upcoming.next_expiry_at < now and await self._reaper.step()

    def next_looks(self, upcoming: Upcoming, now: datetime) -> list[datetime]:
        """Return the instants at which the store has to be looked at again for this."""
        expiry = upcoming.next_expiry_at
        if expiry is not None and expiry <= now:  # seen to just now
            expiry = now + BLOCKED_WAIT
        return [moment for moment in (expiry, self._machinery.next_look(upcoming, now)) if moment is not None]

    def note_hint(self) -> None:
        """Note, from any thread, that there may be jobs of Horae's own."""
        self._machinery.was_hinted = True

    def takes_hint(self) -> bool:
        """Return whether the last wake-up was for jobs of Horae's own."""
        return self._machinery.takes_hint()

    def stop(self) -> None:
        self.is_stopping = True
        self._scheduler.stop()
        self._janitor.stop()
        for each in self._beside:
            each.stop()

    async def ended(self) -> None:
        """Wait for jobs of Horae's own that are being served; they are short."""
        await self._machinery.wait_until_done()


class LoneKeeper:
    """A keeper in a process without a worker: it looks at the store itself."""

    def __init__(self, world: World, database: DatabaseThreads, keeper: Keeper) -> None:
        self._world = world
        self._database = database
        self._keeper = keeper
        self._alarm = Alarm(world.clock)

    def stop(self) -> None:
        """Ask it to end; from the loop's thread."""
        self._keeper.stop()
        self._alarm.ring()

    async def run(self) -> None:
        """Keep until :meth:`stop`, then give what is under way a moment."""
        backoff = Backoff(self._world.dice)
        unsubscribe = hints.subscribe(self._world, self._wake)
        tasks = self._keeper.start()
        try:
            while not self._keeper.is_stopping:
                try:
                    await self._round()
                    backoff.reset()
                except StoreError as problem:
                    if not backoff.failures:
                        log.warning("the store is not looked after while it does not answer: %s", problem)
                    await self._pause(backoff.next())
                except Exception:
                    log.exception("a round of the keeper failed; it goes on")
                    await self._pause(backoff.next())
        finally:
            unsubscribe()
            self._keeper.stop()
            await finish(PATIENCE, *tasks, asyncio.create_task(self._keeper.ended()))

    async def _round(self) -> None:
        upcoming = await self._database.call(lambda: peek(self._world, []))
        looked_at, now = self._world.clock.monotonic(), self._world.clock.now()
        self._keeper.expect(upcoming)
        if await self._keeper.serve(upcoming, now, self._alarm.ring):
            return
        at_most = LOOK_EVERY if hints.hears(self._world) else LOOK_UNHINTED
        await self._alarm.sleep(min(self._keeper.next_looks(upcoming, now), default=None), at_most)
        rested = self._world.clock.monotonic() - looked_at
        await self._pause(SPACING - timedelta(seconds=rested))

    async def _pause(self, duration: timedelta) -> None:
        await self._alarm.until(lambda: self._keeper.is_stopping, max(duration, timedelta(0)))

    def _wake(self, queue: str) -> None:
        if queue in ("*", MACHINERY) or self._keeper.heeds_hints:
            self._alarm.ring_from_elsewhere()


class MakeKeeper(Protocol):
    def __call__(self, world: World, database: DatabaseThreads, name: str, *, is_further: bool = False) -> Keeper:
        """Return the keeper of one database; *is_further* of a cluster, beside the one that the process opened."""


@asynccontextmanager
async def keeping(opens: Callable[[], World], make: MakeKeeper, dice: Dice) -> AsyncIterator[None]:
    """Keep a store while the block runs, in a cluster every database. *opens* may raise until the store answers; it is
    asked again.
    """
    keepers = _Keepers(opens, make, dice)
    task = asyncio.create_task(keepers.run(), name="horae-keeper")
    try:
        yield
    finally:
        keepers.stop()
        if not keepers.alone:
            task.cancel()
        await asyncio.wait([task], timeout=2 * PATIENCE)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        if task.done() and not task.cancelled() and task.exception() is not None:
            log.error("the keeper ended with an error: %s", task.exception())
        keepers.close()


class _Keepers:
    """The keepers of a process without a worker: one for each database."""

    def __init__(self, opens: Callable[[], World], make: MakeKeeper, dice: Dice) -> None:
        self._opens, self._make, self._dice = opens, make, dice
        self._name = f"{socket.gethostname()}:{os.getpid()}:{dice.name(6)}"
        self._databases = [DatabaseThreads(2, name="horae-keeper")]
        self._is_stopping = False
        self._alarm: Alarm | None = None
        self.alone: list[LoneKeeper] = []

    def stop(self) -> None:
        self._is_stopping = True
        if self._alarm is not None:
            self._alarm.ring()
        for each in self.alone:
            each.stop()

    def close(self) -> None:
        for each in self._databases:
            each.close()

    async def run(self) -> None:
        world = await self._open()
        if (cluster := world.cluster) is None:
            await self._keep(world, self._databases[0])
            return
        async with asyncio.TaskGroup() as kept:
            kept.create_task(self._keep(cluster.opened(world), self._databases[0]))
            self._alarm = Alarm(world.clock)
            find, looking = cluster.further(world), DatabaseThreads(1, name="horae-keeper")
            self._databases.append(looking)
            while not self._is_stopping:
                try:
                    further = await looking.call(find)
                except Exception:
                    log.exception("looking for further databases failed; trying again")
                    further = []
                for shard in [] if self._is_stopping else further:
                    self._databases.append(database := DatabaseThreads(2, name="horae-keeper"))
                    kept.create_task(self._keep(shard, database, is_further=True))
                await self._alarm.until(lambda: self._is_stopping, LOOK_FOR_SHARDS)

    async def _open(self) -> World:
        backoff = Backoff(self._dice)
        while True:
            try:
                return await self._databases[0].call(self._opens)
            except HoraeError as problem:
                log.debug("the store cannot be looked after yet: %s", problem)
                await backoff.pause()

    async def _keep(self, world: World, database: DatabaseThreads, *, is_further: bool = False) -> None:
        keeper = self._make(world, database, self._name, is_further=is_further)
        self.alone.append(one := LoneKeeper(world, database, keeper))
        await one.run()
