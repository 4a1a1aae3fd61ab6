"""Drive a lane: call cognition, run actions, store their answers; one step at a time, in one process at a time.

Cognition and actions may be plain functions (run in a thread) or coroutines. A thread of its own renews the lane's
lease, so that a turn that blocks the loop keeps it, and a frozen process loses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any, TypeVar

from horae.actions import hints
from horae.actions.attention import lanes, turns
from horae.actions.attention.journal_chain import BATCH, seal
from horae.actions.attention.lanes import Drive
from horae.actions.attention.queries import find_holder, would_yield
from horae.actions.attention.turns import ActionResult, Perform, Think, Work
from horae.actions.jobs.claims import peek
from horae.actions.jobs.machinery import serve_due
from horae.core.attention.directives import DIRECTIVES, Directive
from horae.core.attention.task import CLOSED, Control
from horae.core.jobs.payloads import decode
from horae.core.time.instants import iso
from horae.errors import HoraeError, InvalidInput, LaneLost, StoreBusy, StoreError
from horae.ports.store import LoanExpired
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.lanes.action_answers import Raised, line_of, result_of, run_transactional
from horae.runtime.lanes.lease import Keeper
from horae.runtime.lanes.spec import AgentSpec, Bill, Step, Turn
from horae.runtime.lanes.steps import LaneSteps
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.steps import has_run
from horae.runtime.worker.calls import Ended, Uncaught, call_through
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import loggable

T = TypeVar("T")
log = logging.getLogger("horae.attention")
SEAL_EVERY = 2.0  # seconds between two seals of a lane that always has work
QUIET = timedelta(seconds=1)  # how long to sleep where no hints arrive
LONG = timedelta(seconds=30)
LOOK_EVERY = timedelta(milliseconds=500)  # at the lease of another driver
ON_THE_WAY = "vshard_busy"
ROLL_BACK = timedelta(seconds=5)  # for the end of a transactional action whose time is up


class LaneDriver:
    """Drive one lane until :meth:`stop`, or until it is idle."""

    def __init__(self, world: World, spec: AgentSpec, name: str) -> None:
        self.world = world
        self.spec = spec
        self.name = name
        self.drive: Drive | None = None
        self._database = DatabaseThreads(2)
        self._threads = Threads(2, "horae-mind")
        self._effects = {each.name: each.effect for each in spec.actions.values()}
        self._keeper: Keeper | None = None
        self._stopping = False
        self._sealed_at = world.clock.monotonic()
        self._alarm: Alarm | None = None

    def stop(self) -> None:
        """End at the next safe point; call it from the loop's thread."""
        self._stopping = True
        if self._alarm is not None:
            self._alarm.ring()

    # -- life ----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Drive the lane whenever no other driver does, until :meth:`stop`."""
        self._alarm = alarm = Alarm(self.world.clock)
        backoff = Backoff(self.world.dice)
        unsubscribe = hints.subscribe(self.world, lambda _: alarm.ring_from_elsewhere())
        try:
            while not self._stopping:
                try:
                    if not await self.step():
                        await self._rest()
                    backoff.reset()
                except StoreError as problem:
                    if not backoff.failures:
                        log.warning("the store does not answer; trying again: %s", problem)
                    await self._alarm.sleep(None, backoff.next())
                except Exception:
                    log.exception("a step in lane %s failed; trying again", self.spec.lane)
                    self._lose()
                    await self._alarm.sleep(None, backoff.next())
        finally:
            unsubscribe()
            await self.close()

    async def until_idle(self) -> None:
        """Do everything that is due now; tasks that wait for a later time or for an event stay waiting.

        A lane whose driver has died is free when its lease has run out; until then this waits, and says so.
        """
        try:
            await self._await_lease()
            while await self.step():
                pass
        finally:
            await self.close()

    async def close(self) -> None:
        """Release the lane, so that the next driver need not wait for the lease to expire."""
        drive, self.drive = self.drive, None
        self._stop_keeping()
        if drive is not None:
            with suppress(HoraeError):
                await self._ask(lambda: lanes.let_go(self.world, drive))
        self._threads.close()
        self._database.close()

    async def _await_lease(self) -> None:
        """Wait until the lease of another driver has run out, or until that driver renews it: then it is alive."""
        alarm, first = Alarm(self.world.clock), None
        while not await self._drives():
            holder = await self._ask(lambda: find_holder(self.world, self.spec.lane, owner=self.spec.owner))
            if holder is None:
                continue
            if first is None:
                first = holder
                log.warning(
                    "lane %s is driven by %s, whose lease ends at %s; waiting for it, unless it is renewed",
                    self.spec.lane, holder.driver, iso(holder.until),
                )  # fmt: skip
            elif (holder.driver, holder.leased_until) != (first.driver, first.leased_until):
                log.warning("lane %s: its driver %s is alive; nothing is done here", self.spec.lane, holder.driver)
                return
            await alarm.sleep(holder.until, min(LOOK_EVERY, self.spec.lease))

    async def _rest(self) -> None:
        assert self._alarm is not None
        upcoming = await self._ask(lambda: peek(self._database_of_lane(), []))
        at_most = LONG if hints.hears(self.world) else QUIET
        if self.drive is None:
            at_most = min(at_most, self.spec.lease / 3)
        await self._alarm.sleep(upcoming.next_machinery_at, at_most)

    # -- one thing at a time -------------------------------------------------------------------------------------

    async def step(self) -> bool:
        """Do one due job, turn or action; return False when this driver has nothing to do."""
        done = await self._ask(lambda: serve_due(self._database_of_lane(), self.name))
        if not await self._drives():
            return bool(done)
        try:
            return await self._work() or bool(done)
        except LaneLost as problem:
            log.warning("%s: %s", self.spec.lane, problem)
            self._lose()
            return True
        except StoreError:  # what was written is unknown: acquire the lane again, as a new driver would
            self._lose()
            raise

    def _lose(self) -> None:
        self._stop_keeping()
        self.drive = None

    async def _drives(self) -> bool:
        if self.drive is None:
            self.drive = await self._ask(
                lambda: lanes.acquire(
                    self.world, self.spec.lane, self.name, owner=self.spec.owner, lease=self.spec.lease,
                    policy=self.spec.policy, rules=self.spec.rules, kinds=self.spec.cognitions,
                )
            )  # fmt: skip
            if self.drive is not None:
                self.keep(self.drive)
        return self.drive is not None

    def keep(self, drive: Drive) -> None:
        """Renew the lease from now on, from a thread of its own."""
        self._keeper = Keeper(self.world, drive, self.spec.lease)
        self._keeper.start()

    async def _work(self) -> bool:
        drive = self._require_drive()
        control = await self.control()
        work = await self._ask(lambda: turns.next_work(self.world, drive, control, self.spec.policy, self.spec.costs))
        if work is None:
            return bool(await self._seal(drive))
        while work is not None:
            work = await (self._think(work) if isinstance(work, Think) else self._perform(work))
        if self.world.clock.monotonic() - self._sealed_at >= SEAL_EVERY:
            await self._seal(drive)
        return True

    async def _seal(self, drive: Drive) -> int:
        """Chain a batch of the journal; a full one leaves more, which the next step goes on with."""
        sealed = await self._ask(lambda: seal(self.world.route(owner=drive.owner), drive.lane))
        self._sealed_at = self.world.clock.monotonic() if sealed < BATCH else -inf
        return sealed

    async def control(self) -> Control:
        """Return the control state now; if the control function fails, the most restrictive one."""
        if self.spec.control is Control:  # none was declared: three of the nine thread hops of a step are saved
            return Control()
        try:
            state = await self._call("the control function", self.spec.control, self.spec.turn_timeout)
            if not isinstance(state, Control):
                raise TypeError(f"the control function answered {type(state).__name__}, not Control")
        except Exception as problem:
            lane, line = self.spec.lane, line_of(problem)
            log.error(
                "the control function of %s failed, so every action needs confirmation: %s",
                lane, line, exc_info=loggable(problem),
            )  # fmt: skip
            return CLOSED
        return state

    async def _think(self, think: Think) -> Work | None:
        drive, task = self._require_drive(), think.task
        cognition, bill = self.spec.cognitions.get(task.kind), Bill()
        assert cognition is not None  # the lane offers only kinds that this driver declared
        try:
            turn = Turn(
                task.id, task.kind, decode(task.payload), None if task.context is None else decode(task.context),
                think.facts, think.control, self.world.clock.now(), task.turn + 1, task.note, bill,
                steps=self._steps(drive, task.number, f"turn:{task.turn + 1}"),
            )  # fmt: skip
            directive = await self._call(f"cognition {task.kind}", lambda: cognition(turn), self.spec.turn_timeout)
            if not isinstance(directive, Directive):
                kind = type(directive).__name__
                raise TypeError(f"cognition answered {kind}; answer {', '.join(DIRECTIVES)}")
        except Exception as problem:
            log.error("cognition for %s failed: %s", task.id, line_of(problem), exc_info=loggable(problem))
            await self._count_error(drive, think, line_of(problem), bill)
            return None
        asked = replace(think, control=await self.control())  # it may have changed during the call
        try:
            return await self._ask(
                lambda: turns.commit_turn(
                    self.world,
                    drive,
                    asked,
                    directive,
                    policy=self.spec.policy,
                    effects=self._effects,
                    costs=self.spec.costs,
                    spent=bill.spent,
                )
            )  # fmt: skip
        except (LaneLost, StoreError):
            raise
        except Exception as problem:  # an invalid directive: asked again, cognition would repeat it
            error = str(problem) if isinstance(problem, InvalidInput) else line_of(problem)
            log.warning("the directive of cognition for %s is invalid: %s", task.id, error)
            await self._count_error(drive, asked, error, bill)
            return None

    async def _count_error(self, drive: Drive, think: Think, error: str, bill: Bill) -> None:
        await self._ask(lambda: turns.commit_error(self.world, drive, think, error, self.spec.policy, spent=bill.spent))

    async def _perform(self, perform: Perform) -> None:
        drive, task = self._require_drive(), perform.task
        asks = partial(would_yield, self.world.route(owner=drive.owner), task, perform.control, self.spec.policy)
        bill, kept = Bill(), self._steps(drive, task.number, f"step:{task.step}")
        step = Step(perform.key, task.id, task.step, perform.effect, asks, bill, steps=kept)
        try:
            action = self.spec.actions.get(perform.action)
            if action is None:
                raise LookupError("this driver has no such action")
            if perform.effect == "transactional":
                inside = partial(
                    run_transactional, self.spec.policy, action.name, partial(action.run, step), perform.arguments
                )
                await self._write_within(drive, perform, inside, bill, action.timeout)
                return
            answer = await self._call(
                f"action {perform.action}", lambda: action.run(step, **perform.arguments), action.timeout
            )
        except (LaneLost, StoreError):
            raise
        except Exception as problem:  # a transactional action has been rolled back
            line = line_of(problem)
            log.warning("action %s of %s failed: %s", perform.action, task.id, line, exc_info=loggable(problem))
            timed_out = (
                isinstance(problem, TimeoutError) and perform.effect == "once"
            )  # its thread may still be running
            unknown = timed_out or has_run(problem)
            found = ActionResult("unknown" if unknown else "failed", {"error": line})
        else:
            found = result_of(self.spec.policy, perform, answer)
        await self._write_facts(drive, perform, found, bill)

    async def _write_within(
        self, drive: Drive, perform: Perform, inside: Callable[[Any], ActionResult], bill: Bill, limit: timedelta
    ) -> None:
        """Run a transactional action within its time limit; one that takes longer is rolled back and left behind."""
        too_long = Raised(f"TimeoutError: it took longer than {limit.total_seconds():g} s and was rolled back")
        try:
            await self._write_facts(drive, perform, inside, bill, limit=limit)
        except (TimeoutError, LoanExpired):
            raise too_long from None

    async def _write_facts(
        self,
        drive: Drive,
        perform: Perform,
        found: ActionResult | Callable[[Any], ActionResult],
        bill: Bill,
        limit: timedelta | None = None,
    ) -> None:
        asked = replace(perform, control=await self.control())  # a safe point: the control state of now decides
        await self._ask(
            lambda: turns.commit_facts(
                self.world, drive, asked, found, self.spec.policy, limit=limit, held_for=self.spec.lease,
                spent=lambda: bill.spent,
            ),
            limit,
        )  # fmt: skip

    # -- the parts -----------------------------------------------------------------------------------------------

    def _database_of_lane(self) -> World:
        """Return the world of the database that keeps the lane now, for what is done there whatever its owner."""
        return self.world.within(owner=self.spec.owner)[0]

    def _require_drive(self) -> Drive:
        if self.drive is None or (self._keeper is not None and self._keeper.lost):
            raise LaneLost(self.name, 0 if self.drive is None else self.drive.epoch)
        return self.drive

    def _steps(self, drive: Drive, task: int, scope: str) -> LaneSteps:
        return LaneSteps(self.world, drive, task, scope, self._threads)

    def _stop_keeping(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        self._keeper = None

    async def _ask(self, work: Callable[[], T], limit: timedelta | None = None) -> T:
        """Call a verb in a thread. While the lane is on its way to another database nothing is written there, and the
        verb is called again, until the lease would have run out: by then another driver may have the lane.
        """
        ends_at = self.world.clock.monotonic() + self.spec.lease.total_seconds()
        while True:
            try:
                return await self._ask_once(work, limit)
            except StoreBusy as problem:  # the store has waited a second
                if problem.reason != ON_THE_WAY or self.world.clock.monotonic() >= ends_at:
                    raise

    async def _ask_once(self, work: Callable[[], T], limit: timedelta | None) -> T:
        """Call a verb in a thread; with a *limit*, which its own code keeps, do not wait much longer for it."""
        if limit is None:
            return await self._database.call(work)
        try:
            async with asyncio.timeout((limit + ROLL_BACK).total_seconds()):
                return await self._database.call(work)
        except TimeoutError:
            self._database.give_up_one()  # its thread may never finish
            raise

    async def _call(self, name: str, work: Callable[[], Any], limit: timedelta) -> Any:
        """Call a plain or async function within a time limit.

        Whatever it raises, SystemExit and CancelledError included, is raised as an ``Exception``; only a cancellation
        of the driver itself, or a real signal, passes through.
        """
        async with asyncio.timeout(limit.total_seconds()):
            answer, problem = await call_through(name, work, self._in_thread)
        if problem is None:
            return answer
        raise problem if isinstance(problem, Exception) else Uncaught(problem)

    async def _in_thread(self, work: Callable[[], Ended]) -> Ended:
        try:
            ended: Ended = await self._threads.submit(work)
        except asyncio.CancelledError:  # its thread may never finish
            self._threads.give_up_one()
            raise
        return ended
