"""The janitor: what has to be done now and then, by one process at a time over all that share a store.

A chore is a line in ``CHORES``. The process that takes it holds it under a stored lease, judged by the line of leases
that all processes agree on, and extends that while it works; another takes over when it dies or freezes. The lease
spares work, it is not what makes a chore correct: a process that wakes up late may finish the step that it was in. So
every step must be one or more transactions that are safe to repeat and to do twice at once; a late process does no
further step, and the database refuses what it writes about its turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import timedelta

from horae.actions import chores as verbs
from horae.actions import partitions, roll_up
from horae.actions.audit import seal_audit
from horae.actions.chores import HeldChore
from horae.actions.jobs import jobs
from horae.actions.jobs.labels import label_jobs
from horae.actions.metrics import count_live
from horae.actions.retention import Retention, clean_step
from horae.actions.schedules.repairs import repair_schedules
from horae.core.dataclass import dataclass
from horae.errors import HandlerFailed, HoraeError, StoreError
from horae.ports.workers import Upcoming
from horae.ports.world import World
from horae.runtime.chores import repairs
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm
from horae.runtime.worker.calls import call_through
from horae.runtime.worker.tracebacks import error_line, loggable

log = logging.getLogger("horae.janitor")
LEASE = timedelta(seconds=30)  # after which another process takes over from one that died
FIRST = timedelta(minutes=1)  # within which a process that starts asks for each chore; most are not due then
AWAY = timedelta(minutes=1)  # how long a chore rests, at most, after the store did not answer
HOUR, HALF_HOUR = timedelta(hours=1), timedelta(minutes=30)
REPAIR = timedelta(minutes=10)  # between two looks at what might have been left behind
SOON = timedelta(milliseconds=50)  # before a chore that another process has just given back is asked for again
LONGEST_REST = timedelta(seconds=1)  # of a chore that is done gently, between two steps
LONG = timedelta(days=1)  # nothing to expect: the next look rings


@dataclass(frozen=True, slots=True)
class Chore:
    """Something short to be done now and then, in a thread for the store; plain or async.

    *work* does one bounded step. When it returns true or a number above 0 there may be more: the next step follows at
    once, and other chores get their turn in between. With *when* it is done only while the last look at the store says
    that there is something to do, and no more often than *every*. A process that starts begins at once with what has a
    *when*, and with the rest after a random part of *every*; so too with what is *spread*, because no caller waits for
    it and a process that starts has jobs to run.
    """

    name: str
    every: timedelta
    work: Callable[[World], object]
    when: Callable[[Upcoming], bool] | None = None
    lock: str | None = None  # the name under which processes take turns; None: the chore's own name
    goes_on: bool = True  # False: one step each time, whatever it returns
    spread: bool = False
    hinted: bool = False  # also a process without a worker looks when it hears of new work or endings
    gently: bool = False  # after each step rest much longer than it took: no caller waits for it, and jobs do


# What is done on every store, by one process at a time. Add a line here to have something done.
CHORES = (
    Chore(
        "seal the audit",
        timedelta(seconds=10),
        lambda world: seal_audit(world).more,
        lambda look: look.unsealed,
    ),
    Chore("roll up endings", timedelta(minutes=1), roll_up.keep_up, lambda look: look.unrolled),
    Chore(
        "label jobs",
        timedelta(seconds=10),
        label_jobs,
        lambda look: look.unlabelled or look.unrolled,
        spread=True,
        gently=True,
    ),
    Chore(
        "count live jobs",
        timedelta(minutes=1),
        count_live,
        lambda look: look.unlabelled or look.unrolled,
        goes_on=False,
        spread=True,
    ),
    Chore("settle children", timedelta(seconds=10), jobs.settle_children, lambda look: look.unsettled),
    Chore("seal journals", timedelta(minutes=5), repairs.seal_lines, lambda look: look.unsealed_lines),
    Chore("repair what Horae keeps", HALF_HOUR, repair_schedules, goes_on=False),
    Chore("repair lanes", HALF_HOUR, repairs.repair_lanes, lambda look: "lanes" in look.open, goes_on=False),
    Chore(
        "end reviews and rollbacks left behind",
        HALF_HOUR,
        repairs.end_left,
        lambda look: "governed" in look.open,
        goes_on=False,
    ),
    Chore("look after governed objects", REPAIR, repairs.look_after, lambda look: "objects" in look.open),
    Chore("count endings that came late", 2 * HOUR, roll_up.keep_up, goes_on=False),
    Chore("keep the partitions of the history", 3 * HOUR, partitions.keep_history),
    # Repairs: only while there is something that could have been left behind.
    Chore("let in forgotten jobs", REPAIR, repairs.let_in, lambda look: "slots" in look.open, goes_on=False),
    Chore("give lost acts a job again", REPAIR, repairs.restart_acts, lambda look: "acts" in look.open, goes_on=False),
    Chore(
        "settle reservations left behind",
        REPAIR,
        repairs.settle_left,
        lambda look: "reservations" in look.open,
    ),
    Chore("find lost parents", REPAIR, repairs.find_lost, lambda look: "needs" in look.open, goes_on=False),
    Chore("mend batches", REPAIR, repairs.mend, lambda look: "batches" in look.open, goes_on=False),
)


def cleaning(retention: Retention) -> Chore:
    """Return the chore that deletes what has been kept long enough; processes that keep it differently do their own."""
    spans = ", ".join(f"{each.name} {getattr(retention, each.name)}" for each in fields(retention))
    lock = f"delete what is older than {spans}"[:255]
    return Chore("delete what is old", 6 * HOUR, lambda world: clean_step(world, retention), lock=lock)


class _Round:
    """One chore in this process: when to ask for it next, and whether there is a reason to."""

    def __init__(self, chore: Chore, at: float, alarm: Alarm) -> None:
        self.chore, self.at, self.alarm = chore, at, alarm
        self.is_wanted = chore.when is None


class Janitor:
    """The chores of one process; any number of them take turns."""

    def __init__(
        self,
        world: World,
        database: DatabaseThreads,
        chores: Sequence[Chore],
        *,
        name: str = "",
        lease: timedelta = LEASE,
    ) -> None:
        self._world = world
        self._database = database
        self._chores = tuple(chores)
        self._name = name
        self._lease = lease
        self._rounds: list[_Round] = []
        self._upcoming: Upcoming | None = None
        self._stopping = False
        self._is_away = False  # the store did not answer, which was logged

    def expect(self, upcoming: Upcoming) -> None:
        """Take over what a look at the store says is to be done."""
        self._upcoming = upcoming
        for each in self._rounds:
            if each.chore.when is not None:
                each.is_wanted = each.chore.when(upcoming)
                if each.is_wanted:
                    each.alarm.ring()

    def stop(self) -> None:
        self._stopping = True
        for each in self._rounds:
            each.alarm.ring()

    async def run(self) -> None:
        """Do each chore in its own rhythm until :meth:`stop`, one step of one chore at a time."""
        self._turn = asyncio.Lock()
        self._rest = Alarm(self._world.clock)  # never rung: a plain pause
        self._rounds = [self._round(chore) for chore in self._chores]
        if self._upcoming is not None:
            self.expect(self._upcoming)
        async with asyncio.TaskGroup() as all_chores:
            for each in self._rounds:
                all_chores.create_task(self._attend(each), name=f"horae-chore {each.chore.name}")

    def _round(self, chore: Chore) -> _Round:
        clock, is_spread = self._world.clock, chore.spread or chore.when is None
        first = min(chore.every, FIRST).total_seconds() * self._world.dice.roll() if is_spread else 0.0
        return _Round(chore, clock.monotonic() + first, Alarm(clock))

    async def _attend(self, each: _Round) -> None:
        while not self._stopping:
            wait = each.at - self._world.clock.monotonic()
            if wait > 0 or not each.is_wanted:
                await each.alarm.sleep(None, timedelta(seconds=wait) if each.is_wanted else LONG)
                continue
            try:
                rest = await self._do(each)
            except StoreError as problem:
                log.log(logging.DEBUG if self._is_away else logging.WARNING, "chores wait for the store: %s", problem)
                self._is_away = True
                rest = min(each.chore.every, AWAY)
            except Exception:
                log.exception("the chore %s failed; it is tried again in %s", each.chore.name, each.chore.every)
                rest = each.chore.every
            each.at = self._world.clock.monotonic() + rest.total_seconds()

    async def _do(self, each: _Round) -> timedelta:
        """Take the chore and do it until nothing is left; return how long it rests then.

        Where the store fails on the way, or there is no time at the end, nothing is given back: the lease runs out.
        """
        chore = each.chore
        async with self._turn:
            held = await self._database.call(lambda: self._take(chore))
        self._is_away = False
        if isinstance(held, timedelta):
            return min(max(held, SOON), chore.every)
        hold = _Hold(self._world, self._database, held, self._lease)
        is_done, rest = await self._steps(chore, hold)
        await self._database.call(lambda: verbs.end(self._world, held, every=rest, is_done=is_done))
        each.is_wanted = chore.when is None
        return chore.every

    def _take(self, chore: Chore) -> HeldChore | timedelta:
        name = chore.lock or chore.name
        return verbs.take(self._world, name, holder=self._name, every=chore.every, lease=self._lease)

    async def _steps(self, chore: Chore, hold: _Hold) -> tuple[bool, timedelta]:
        """Do one step after the other; return whether the last one ended well, and when the chore is due again."""
        while await hold.is_kept():
            async with self._turn:
                began = self._world.clock.monotonic()
                result, problem = await self._step(chore, hold)
            if isinstance(problem, StoreError):
                raise problem
            if problem is not None:
                expected = isinstance(problem, HoraeError) and not isinstance(problem, HandlerFailed)
                log.error(
                    "chore %r failed; it is tried again in %s: %s",
                    chore.name, chore.every, error_line(problem), exc_info=None if expected else loggable(problem),
                )  # fmt: skip
                return False, chore.every
            if not (chore.goes_on and isinstance(result, int) and result > 0):
                return True, chore.every
            if self._stopping:
                return True, timedelta(0)  # another process goes on with it
            if chore.gently:
                took = timedelta(seconds=self._world.clock.monotonic() - began)
                await self._rest.sleep(None, min(10 * took, LONGEST_REST))
        log.warning("this process lost the chore %s: a step took longer than its lease", chore.name)
        return False, chore.every

    async def _step(self, chore: Chore, hold: _Hold) -> tuple[object, BaseException | None]:
        """Do one step, and hold the chore meanwhile; return its result and what went wrong."""
        work = asyncio.ensure_future(call_through(chore.name, lambda: chore.work(self._world), self._database.call))
        try:
            while not work.done():
                await asyncio.wait([work], timeout=hold.pause)
                if not work.done():
                    await hold.is_kept()
            return work.result()
        finally:
            work.cancel()


class _Hold:
    """The lease of a chore: extended at a third of its time, asked for before each step."""

    def __init__(self, world: World, database: DatabaseThreads, held: HeldChore, lease: timedelta) -> None:
        self._world, self._database, self._held, self._lease = world, database, held, lease
        self.pause = lease.total_seconds() / 3
        self._known_at = world.clock.monotonic()

    async def is_kept(self) -> bool:
        """Return whether this process still holds the chore; ask the store only when a third of the lease is over."""
        now = self._world.clock.monotonic()
        if now - self._known_at < self.pause:
            return True
        self._known_at = now
        return await self._database.call(lambda: verbs.extend(self._world, self._held, lease=self._lease))
