"""Drive a lane: call cognition, run actions, store their answers; one step at a time, in one process at a time.

Cognition and actions may be plain functions (run in a thread) or coroutines. A thread of its own renews the lane's
lease, so that a turn that blocks the loop keeps it, and a frozen process loses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from horae.actions import hints
from horae.actions.attention import lanes, turns
from horae.actions.attention.journal_chain import seal
from horae.actions.attention.lanes import Drive
from horae.actions.attention.queries import would_yield
from horae.actions.attention.turns import ActionResult, Perform, Think
from horae.actions.jobs.claims import peek
from horae.actions.jobs.machinery import serve_due
from horae.core.attention.directives import Directive, Effect, FactList
from horae.core.attention.task import CLOSED, Control, Policy, Rule
from horae.core.jobs.payloads import decode
from horae.errors import HoraeError, InvalidInput, LaneLost, StoreError
from horae.ports import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.lanes.action_answers import line_of, result_of, run_transactional
from horae.runtime.lanes.lease import Keeper
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.worker.calls import Ended, Uncaught, call_through
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import loggable

T = TypeVar("T")
log = logging.getLogger("horae.attention")
SEAL_EVERY = 2.0  # seconds between two seals of a lane that always has work
QUIET = timedelta(seconds=1)  # how long to sleep where no hints arrive
LONG = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class ActionDef:
    """One action of the agent: its function, its effect and its time limit."""

    name: str
    run: Callable[..., Any]
    effect: Effect
    timeout: timedelta


@dataclass(frozen=True, slots=True)
class Turn:
    """The input of one call of cognition."""

    task_id: str
    kind: str
    payload: Any
    context: Any
    facts: FactList
    control: Control
    now: datetime
    number: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One run of an action. ``key`` is the same for every try of this step: pass it on as an idempotency key."""

    key: str
    task_id: str
    number: int
    effect: Effect
    asks: Callable[[], bool] = field(repr=False, compare=False)

    def should_yield(self) -> bool:
        """Return whether a more urgent task or a cancel waits for a safe point; long work may return partial facts."""
        return self.asks()


@dataclass(frozen=True)
class AgentSpec:
    """The definition of an agent: its lane, functions, policy and limits."""

    lane: str
    owner: str
    cognitions: Mapping[str, Callable[..., Any]]
    actions: Mapping[str, ActionDef]
    control: Callable[[], Any]
    policy: Policy = field(default_factory=Policy)
    turn_timeout: timedelta = timedelta(minutes=5)
    lease: timedelta = timedelta(seconds=30)
    rules: Sequence[Rule] = ()


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
        """Do everything that is due now; tasks that wait for a later time or for an event stay waiting."""
        try:
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

    async def _rest(self) -> None:
        assert self._alarm is not None
        upcoming = await self._ask(lambda: peek(self.world, []))
        at_most = LONG if hints.hears(self.world) else QUIET
        if self.drive is None:
            at_most = min(at_most, self.spec.lease / 3)
        await self._alarm.sleep(upcoming.next_machinery_at, at_most)

    # -- one thing at a time -------------------------------------------------------------------------------------

    async def step(self) -> bool:
        """Do one due job, turn or action; return False when this driver has nothing to do."""
        done = await self._ask(lambda: serve_due(self.world, self.name))
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
                self._keeper = Keeper(self.world, self.drive, self.spec.lease)
                self._keeper.start()
        return self.drive is not None

    async def _work(self) -> bool:
        drive = self._require_drive()
        control = await self.control()
        work = await self._ask(lambda: turns.next_work(self.world, drive, control, self.spec.policy))
        if work is None:
            return bool(await self._seal(drive))
        while work is not None:
            work = await (self._think(work) if isinstance(work, Think) else self._perform(work))
        if self.world.clock.monotonic() - self._sealed_at >= SEAL_EVERY:
            await self._seal(drive)
        return True

    async def _seal(self, drive: Drive) -> int:
        self._sealed_at = self.world.clock.monotonic()
        return await self._ask(lambda: seal(self.world, drive.lane))

    async def control(self) -> Control:
        """Return the control state now; if the control function fails, the most restrictive one."""
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

    async def _think(self, think: Think) -> turns.Work | None:
        drive, task = self._require_drive(), think.task
        cognition = self.spec.cognitions.get(task.kind)
        assert cognition is not None  # the lane offers only kinds that this driver declared
        try:
            turn = Turn(
                task.id, task.kind, decode(task.payload), None if task.context is None else decode(task.context),
                think.facts, think.control, self.world.clock.now(), task.turn + 1, task.note,
            )  # fmt: skip
            directive = await self._call(f"cognition {task.kind}", lambda: cognition(turn), self.spec.turn_timeout)
            if not isinstance(directive, Directive):
                kind = type(directive).__name__
                raise TypeError(f"cognition answered {kind}; answer Act, Wait, Proceed, Yield, Done or Fail")
        except Exception as problem:
            log.error("cognition for %s failed: %s", task.id, line_of(problem), exc_info=loggable(problem))
            await self._count_error(drive, think, line_of(problem))
            return None
        asked = replace(think, control=await self.control())  # it may have changed during the call
        try:
            return await self._ask(
                lambda: turns.commit_turn(
                    self.world, drive, asked, directive, policy=self.spec.policy, effects=self._effects
                )
            )
        except (LaneLost, StoreError):
            raise
        except Exception as problem:  # an invalid directive: asked again, cognition would repeat it
            error = str(problem) if isinstance(problem, InvalidInput) else line_of(problem)
            log.warning("the directive of cognition for %s is invalid: %s", task.id, error)
            await self._count_error(drive, asked, error)
            return None

    async def _count_error(self, drive: Drive, think: Think, error: str) -> None:
        await self._ask(lambda: turns.commit_error(self.world, drive, think, error, self.spec.policy))

    async def _perform(self, perform: Perform) -> None:
        drive, task = self._require_drive(), perform.task
        asks = partial(would_yield, self.world, task, perform.control, self.spec.policy)
        step = Step(perform.key, task.id, task.step, perform.effect, asks)
        try:
            action = self.spec.actions.get(perform.action)
            if action is None:
                raise LookupError("this driver has no such action")
            if perform.effect == "transactional":
                inside = partial(
                    run_transactional, self.spec.policy, action.name, partial(action.run, step), perform.arguments
                )
                await self._write_facts(drive, perform, inside, limit=action.timeout)
                return
            answer = await self._call(
                f"action {perform.action}", lambda: action.run(step, **perform.arguments), action.timeout
            )
        except (LaneLost, StoreError):
            raise
        except Exception as problem:  # a transactional action has been rolled back
            line = line_of(problem)
            log.warning("action %s of %s failed: %s", perform.action, task.id, line, exc_info=loggable(problem))
            unknown = isinstance(problem, TimeoutError) and perform.effect == "once"  # its thread may still be running
            found = ActionResult("unknown" if unknown else "failed", {"error": line})
        else:
            found = result_of(self.spec.policy, perform, answer)
        await self._write_facts(drive, perform, found)

    async def _write_facts(
        self,
        drive: Drive,
        perform: Perform,
        found: ActionResult | Callable[[Any], ActionResult],
        limit: timedelta | None = None,
    ) -> None:
        asked = replace(perform, control=await self.control())  # a safe point: the control state of now decides
        lasts = {"limit": limit, "held_for": self.spec.lease}
        await self._ask(lambda: turns.commit_facts(self.world, drive, asked, found, self.spec.policy, **lasts))

    # -- the parts -----------------------------------------------------------------------------------------------

    def _require_drive(self) -> Drive:
        if self.drive is None or (self._keeper is not None and self._keeper.lost):
            raise LaneLost(self.name, 0 if self.drive is None else self.drive.epoch)
        return self.drive

    def _stop_keeping(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        self._keeper = None

    async def _ask(self, work: Callable[[], T]) -> T:
        return await self._database.call(work)

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
