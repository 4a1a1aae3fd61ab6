"""Driving a lane: ask cognition, run actions, write down what they say; one thing at a time, by one process at a time.

Cognition and actions may be plain functions (run in a thread) or coroutines. The lease of the lane is renewed by a
thread of its own, so that a turn that blocks the loop keeps it, and a frozen process loses it.
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
from horae.runtime.lanes.action_answers import found_after, found_inside, line_of
from horae.runtime.lanes.lease import Keeper
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.worker.calls import Ended, Uncaught, call_through
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import loggable

T = TypeVar("T")
log = logging.getLogger("horae.attention")
SEAL_EVERY = 2.0  # seconds, where a lane is never at rest
QUIET = timedelta(seconds=1)  # how long to sleep where no hints arrive
LONG = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class ActionDef:
    """Something the agent can do to the world."""

    name: str
    run: Callable[..., Any]
    effect: Effect
    timeout: timedelta


@dataclass(frozen=True, slots=True)
class Turn:
    """What cognition is asked with."""

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
    """One run of an action. ``key`` is the same however often this step is tried: hand it on to who can check it."""

    key: str
    task_id: str
    number: int
    effect: Effect
    asks: Callable[[], bool] = field(repr=False, compare=False)

    def should_yield(self) -> bool:
        """Whether something more urgent, or a cancel, waits for a safe point; long work may stop with partial facts."""
        return self.asks()


@dataclass(frozen=True)
class AgentSpec:
    """All that an agent brings with it."""

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
    """Drives one lane until told to stop, or until it is idle."""

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
        """From the loop's thread: end at the next safe point."""
        self._stopping = True
        if self._alarm is not None:
            self._alarm.ring()

    # -- life ----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Drive the lane whenever nobody else does, until :meth:`stop`."""
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
                        log.warning("the store does not answer: %s", problem)
                    await self._alarm.sleep(None, backoff.next())
                except Exception:
                    log.exception("a step in %s failed; it is tried again", self.spec.lane)
                    self._lose()
                    await self._alarm.sleep(None, backoff.next())
        finally:
            unsubscribe()
            await self.close()

    async def until_idle(self) -> None:
        """Do everything that can be done now. What waits for a later time or for an event stays waiting."""
        try:
            while await self.step():
                pass
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of the lane, so that the next driver need not wait."""
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
        """One due job, turn or action; false when there is nothing to do for this driver."""
        done = await self._ask(lambda: serve_due(self.world, self.name))
        if not await self._drives():
            return bool(done)
        try:
            return await self._work() or bool(done)
        except LaneLost as problem:
            log.warning("%s: %s", self.spec.lane, problem)
            self._lose()
            return True
        except StoreError:  # nobody knows what was written: begin again as a new driver would
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
        drive = self._held()
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
        """What is allowed now; when nobody can say, as little as possible."""
        try:
            state = await self._call("the control function", self.spec.control, self.spec.turn_timeout)
            if not isinstance(state, Control):
                raise TypeError(f"the control function answered {type(state).__name__}, not Control")
        except Exception as problem:
            lane, line = self.spec.lane, line_of(problem)
            log.error(
                "the control state of %s cannot be read, so nothing goes on by itself: %s",
                lane, line, exc_info=loggable(problem),
            )  # fmt: skip
            return CLOSED
        return state

    async def _think(self, think: Think) -> turns.Work | None:
        drive, task = self._held(), think.task
        cognition = self.spec.cognitions.get(task.kind)
        assert cognition is not None  # the lane knows which kinds this driver has
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
        asked = replace(think, control=await self.control())  # it may have changed while cognition was thinking
        try:
            return await self._ask(
                lambda: turns.commit_turn(
                    self.world, drive, asked, directive, policy=self.spec.policy, effects=self._effects
                )
            )
        except (LaneLost, StoreError):
            raise
        except Exception as problem:  # it answered something that cannot be followed, and would do so again
            error = str(problem) if isinstance(problem, InvalidInput) else line_of(problem)
            log.warning("what cognition for %s answered cannot be followed: %s", task.id, error)
            await self._count_error(drive, asked, error)
            return None

    async def _count_error(self, drive: Drive, think: Think, error: str) -> None:
        await self._ask(lambda: turns.commit_error(self.world, drive, think, error, self.spec.policy))

    async def _perform(self, perform: Perform) -> None:
        drive, task = self._held(), perform.task
        asks = partial(would_yield, self.world, task, perform.control, self.spec.policy)
        step = Step(perform.key, task.id, task.step, perform.effect, asks)
        try:
            action = self.spec.actions.get(perform.action)
            if action is None:
                raise LookupError("this driver has no such action")
            if perform.effect == "transactional":
                inside = partial(
                    found_inside, self.spec.policy, action.name, partial(action.run, step), perform.arguments
                )
                await self._write_facts(drive, perform, inside, limit=action.timeout)
                return
            answer = await self._call(
                f"action {perform.action}", lambda: action.run(step, **perform.arguments), action.timeout
            )
        except (LaneLost, StoreError):
            raise
        except Exception as problem:  # a transactional one is rolled back with whatever it did
            line = line_of(problem)
            log.warning("%s of %s failed: %s", perform.action, task.id, line, exc_info=loggable(problem))
            unknown = isinstance(problem, TimeoutError) and perform.effect == "once"  # it may go on without us
            found = ActionResult("unknown" if unknown else "failed", {"error": line})
        else:
            found = found_after(self.spec.policy, perform, answer)
        await self._write_facts(drive, perform, found)

    async def _write_facts(
        self,
        drive: Drive,
        perform: Perform,
        found: ActionResult | Callable[[Any], ActionResult],
        limit: timedelta | None = None,
    ) -> None:
        asked = replace(perform, control=await self.control())  # this is a safe point: what is allowed now counts
        lasts = {"limit": limit, "held_for": self.spec.lease}
        await self._ask(lambda: turns.commit_facts(self.world, drive, asked, found, self.spec.policy, **lasts))

    # -- the parts -----------------------------------------------------------------------------------------------

    def _held(self) -> Drive:
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
        """Run what may be plain or async, bounded in time. Whatever it raises, SystemExit and CancelledError included,
        arrives as an ``Exception``; only a cancellation of the driver itself, or a real signal, passes.
        """
        async with asyncio.timeout(limit.total_seconds()):
            answer, problem = await call_through(name, work, self._in_thread)
        if problem is None:
            return answer
        raise problem if isinstance(problem, Exception) else Uncaught(problem)

    async def _in_thread(self, work: Callable[[], Ended]) -> Ended:
        try:
            ended: Ended = await self._threads.submit(work)
        except asyncio.CancelledError:  # its thread may never come back
            self._threads.give_up_one()
            raise
        return ended
