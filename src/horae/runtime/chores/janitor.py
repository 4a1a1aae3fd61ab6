"""The janitor: periodic housekeeping. It deletes what is old, lets in jobs that were left waiting although there is
room, and does the chores of an application.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from horae.actions.attention.journal_chain import seal_left
from horae.actions.audit import seal_audit
from horae.actions.jobs import jobs, machinery
from horae.actions.jobs.acts import restart_lost
from horae.actions.jobs.leftovers import find_lost_parents, let_in_forgotten
from horae.actions.retention import BATCH, Retention, clean
from horae.errors import HandlerFailed, HoraeError
from horae.ports import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm
from horae.runtime.worker.calls import call_through
from horae.runtime.worker.tracebacks import error_line, loggable

log = logging.getLogger("horae.janitor")
EVERY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Chore:
    """Something short to be done now and then, by every worker, in a thread for the store; plain or async."""

    name: str
    every: timedelta
    work: Callable[[World], object]


# What every worker does beside an application's own chores.
CHORES = (
    Chore("seal the audit", timedelta(seconds=30), seal_audit),
    Chore("seal journals", timedelta(minutes=5), seal_left),
    Chore("repair what Horae keeps", timedelta(minutes=1), machinery.repair),
    Chore("settle children of ended jobs", timedelta(minutes=1), jobs.settle_children),
)


@dataclass(slots=True)
class _Round:
    """A chore and the moment, by the monotonic clock, when it is due."""

    at: float
    every: timedelta
    work: Callable[[], Awaitable[object]]


class Janitor:
    """Housekeeping of one process; any number of them get along."""

    def __init__(
        self, world: World, database: DatabaseThreads, retention: Retention, chores: Sequence[Chore] = ()
    ) -> None:
        self._world = world
        self._database = database
        self._retention = retention
        self._chores = tuple(chores)
        self._alarm: Alarm | None = None
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        if self._alarm is not None:
            self._alarm.ring()

    async def run(self) -> None:
        """Clean once an hour, and do each chore in its own rhythm, at moments that differ from process to process."""
        self._alarm = Alarm(self._world.clock)
        rounds = [self._round(EVERY, self._clean)]
        rounds += [self._round(chore.every, self._doing(chore)) for chore in self._chores]
        while not self._stopping:
            next_one = min(rounds, key=lambda each: each.at)
            wait = next_one.at - self._world.clock.monotonic()
            if wait > 0:
                await self._alarm.sleep(None, timedelta(seconds=wait))
                continue
            try:
                await next_one.work()
            except HoraeError as problem:
                log.warning("housekeeping is put off: %s", problem)
            except Exception:
                log.exception("housekeeping failed; it goes on")
            next_one.at = self._world.clock.monotonic() + next_one.every.total_seconds()

    def _round(self, every: timedelta, work: Callable[[], Awaitable[object]]) -> _Round:
        first = self._world.clock.monotonic() + every.total_seconds() * self._world.dice.roll()
        return _Round(first, every, work)

    def _doing(self, chore: Chore) -> Callable[[], Awaitable[object]]:
        async def do() -> None:
            _, problem = await call_through(chore.name, lambda: chore.work(self._world), self._database.call)
            if isinstance(problem, HoraeError) and not isinstance(problem, HandlerFailed):
                raise problem
            if problem is not None:
                log.error(
                    "the chore %s failed; it is tried again in %s: %s",
                    chore.name, chore.every, error_line(problem), exc_info=loggable(problem),
                )  # fmt: skip

        return do

    async def _clean(self) -> None:
        while not self._stopping and await self.step():
            continue

    async def step(self) -> bool:
        """Clean one small batch; return true when there is probably more."""
        freed = await self._database.call(lambda: let_in_forgotten(self._world))
        if freed:
            log.warning("jobs were held although there was room: queues %s", ", ".join(sorted(freed)))
        lost = await self._database.call(lambda: find_lost_parents(self._world))
        if lost:
            log.warning("%s jobs waited for jobs that had ended, and nobody had told them", lost)
        stopped = await self._database.call(lambda: restart_lost(self._world))
        if stopped:
            log.warning("%s bulk acts had no job that works on them, and got a new one", stopped)
        gone = await self._database.call(lambda: clean(self._world, self._retention))
        if any(gone.values()):
            forgotten = ", ".join(f"{count} of {table}" for table, count in gone.items() if count)
            log.debug("forgotten: %s", forgotten)
        return any(count >= BATCH for count in gone.values())
