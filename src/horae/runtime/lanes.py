"""Driving a lane: ask cognition, run actions, write down what they say; one thing at a time, by one process at a time.

Cognition and actions may be plain functions (run in a thread) or coroutines. The lease of the lane is renewed by a
thread of its own, so that a turn that blocks the loop keeps it, and a frozen process loses it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from horae.actions import jobs, lanes, turns
from horae.actions.attending import come_due
from horae.actions.jobs import shown
from horae.actions.lanes import QUEUE, Drive
from horae.actions.sealing import seal
from horae.actions.turns import Found, Perform, Think
from horae.core.attention import CLOSED, Control, Policy, Rule, at_safe_point, wait_span
from horae.core.directives import Directive, Effect, FactList, Facts, Pending, wait_keys
from horae.core.jobs import Job, Outcome
from horae.core.lanes import Task
from horae.core.payloads import decode
from horae.errors import HoraeError, InvalidInput, LaneLost, StoreBusy, StoreError
from horae.ports import Tx, World
from horae.runtime.database import DatabaseThreads
from horae.runtime.keeping import Keeper
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.threads import Threads

T = TypeVar("T")
log = logging.getLogger("horae.attention")
DUE_BATCH = 20
LEFT_BATCH = 1000
SEAL_EVERY = 2.0  # seconds, where a lane is never at rest
DUE_LEASE = timedelta(seconds=10)
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
class Mind:
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

    def __init__(self, world: World, mind: Mind, name: str) -> None:
        self.world = world
        self.mind = mind
        self.name = name
        self.drive: Drive | None = None
        self._database = DatabaseThreads(2)
        self._threads = Threads(2, "horae-mind")
        self._effects = {each.name: each.effect for each in mind.actions.values()}
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
        unsubscribe = self.world.store.subscribe(lambda _: alarm.ring_from_elsewhere())
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
        glance = await self._ask(lambda: self.world.store.glance([QUEUE]))
        at_most = LONG if self.world.store.hears() else QUIET
        if self.drive is None:
            at_most = min(at_most, self.mind.lease / 3)
        await self._alarm.sleep(glance.next_due_at, at_most)

    # -- one thing at a time -------------------------------------------------------------------------------------

    async def step(self) -> bool:
        """One due job, turn or action; false when there is nothing to do for this driver."""
        done = await self._ask(lambda: serve_due(self.world, self.name))
        if not await self._drives():
            return bool(done)
        try:
            return await self._work() or bool(done)
        except LaneLost as problem:
            log.warning("%s: %s", self.mind.lane, problem)
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
                    self.world, self.mind.lane, self.name, owner=self.mind.owner, lease=self.mind.lease,
                    policy=self.mind.policy, rules=self.mind.rules,
                )
            )  # fmt: skip
            if self.drive is not None:
                self._keeper = Keeper(self.world, self.drive, self.mind.lease)
                self._keeper.start()
        return self.drive is not None

    async def _work(self) -> bool:
        drive = self._held()
        control = await self.control()
        work = await self._ask(lambda: turns.next_work(self.world, drive, control, self.mind.policy))
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
            told = await self._call(self.mind.control, self.mind.turn_timeout)
            if not isinstance(told, Control):
                raise TypeError(f"the control function answered {type(told).__name__}, not Control")
        except Exception:
            log.exception("the control state of %s cannot be read: nothing goes on by itself", self.mind.lane)
            return CLOSED
        return told

    async def _think(self, think: Think) -> turns.Work | None:
        drive, task = self._held(), think.task
        cognition = self.mind.cognitions.get(task.kind)
        try:
            if cognition is None:
                raise LookupError(f"no cognition is declared for tasks of kind {task.kind!r}")
            turn = Turn(
                task.id, task.kind, decode(task.payload), None if task.context is None else decode(task.context),
                think.facts, think.control, self.world.clock.now(), task.turn + 1, task.note,
            )  # fmt: skip
            directive = await self._call(lambda: cognition(turn), self.mind.turn_timeout)
            if not isinstance(directive, Directive):
                told = type(directive).__name__
                raise TypeError(f"cognition answered {told}; answer Act, Wait, Proceed, Yield, Done or Fail")
        except Exception as problem:
            log.exception("cognition for %s failed", task.id)
            told = shown(f"{type(problem).__name__}: {problem}")
            await self._ask(lambda: turns.commit_error(self.world, drive, think, told, self.mind.policy))
            return None
        asked = replace(think, control=await self.control())  # it may have changed while cognition was thinking
        try:
            return await self._ask(
                lambda: turns.commit_turn(
                    self.world, drive, asked, directive, policy=self.mind.policy, effects=self._effects
                )
            )
        except InvalidInput as problem:
            told = str(problem)
            await self._ask(lambda: turns.commit_error(self.world, drive, asked, told, self.mind.policy))
            return None

    async def _perform(self, perform: Perform) -> None:
        drive, task = self._held(), perform.task
        asks = partial(would_yield, self.world, task, perform.control, self.mind.policy)
        step = Step(perform.key, task.id, task.step, perform.effect, asks)
        try:
            action = self.mind.actions.get(perform.action)
            if action is None:
                raise LookupError("this driver has no such action")
            if perform.effect == "transactional":
                inside = partial(_inside, action, step, perform.arguments)
                await self._write_facts(drive, perform, inside, limit=action.timeout)
                return
            found = _as_found(await self._call(lambda: action.run(step, **perform.arguments), action.timeout))
            if found.timeout is not None:
                wait_span(found.timeout, self.mind.policy)
        except (LaneLost, StoreError):
            raise
        except Exception as problem:  # a transactional one is rolled back with whatever it did
            log.warning("%s of %s failed: %s", perform.action, task.id, problem)
            told = str(problem) if isinstance(problem, _Raised) else shown(f"{type(problem).__name__}: {problem}")
            unknown = isinstance(problem, TimeoutError) and perform.effect == "once"  # it may go on without us
            found = (
                Found("unknown", {"error": told, "key": perform.key}) if unknown else Found("failed", {"error": told})
            )
        await self._write_facts(drive, perform, found)

    async def _write_facts(
        self, drive: Drive, perform: Perform, found: Found | Callable[[Any], Found], limit: timedelta | None = None
    ) -> None:
        asked = replace(perform, control=await self.control())  # this is a safe point: what is allowed now counts
        lasts = {"limit": limit, "held_for": self.mind.lease}
        await self._ask(lambda: turns.commit_facts(self.world, drive, asked, found, self.mind.policy, **lasts))

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

    async def _call(self, work: Callable[[], Any], limit: timedelta) -> Any:
        """Run what may be plain or a coroutine, bounded in time."""
        async with asyncio.timeout(limit.total_seconds()):
            try:
                answer = await self._threads.submit(work)
            except asyncio.CancelledError:  # its thread may never come back
                self._threads.give_up_one()
                raise
            return await answer if inspect.isawaitable(answer) else answer


class _Raised(Exception):
    """What a transactional action raised, so that the store does not take it for trouble of its own."""


def _inside(action: ActionDef, step: Step, arguments: Mapping[str, Any], connection: Any) -> Found:
    try:
        answer = action.run(step, connection, **arguments)
    except Exception as problem:
        raise _Raised(shown(f"{type(problem).__name__}: {problem}")) from problem
    if inspect.isawaitable(answer):
        raise TypeError("a transactional action shares a synchronous transaction, so it is a plain function")
    return _as_found(answer)


def _as_found(answer: Any) -> Found:
    if isinstance(answer, Facts):
        return Found("partial" if answer.is_partial else "ok", answer.data)
    if isinstance(answer, Pending):
        timeout = answer.timeout if isinstance(answer.timeout, timedelta) else timedelta(seconds=answer.timeout)
        return Found("pending", {}, wait_keys(answer.on), timeout)
    if answer is None:
        return Found("ok", {})
    raise TypeError(f"an action answers Facts(...), Pending(...) or nothing, not {type(answer).__name__}")


def serve_due(world: World, name: str) -> int:
    """Handle what has come due in any lane: the effect is the same whoever does it."""
    left = [job for job in world.store.expired(now=world.clock.steady(), limit=LEFT_BATCH) if job.queue == QUEUE]
    jobs.lose(world, left)  # by a driver that died between taking and settling
    taken = jobs.pull(world, worker_id=name, queues=[QUEUE], limit=DUE_BATCH, lease=DUE_LEASE)
    if taken:
        jobs.settle(world, [(job, outcome_of_due(world, job)) for job in taken])
    return len(taken)


def outcome_of_due(world: World, job: Job) -> Outcome:
    try:
        again = come_due(world, job.handler, job.payload, owner=job.owner)
    except StoreBusy:  # somebody froze with this lane locked: the due things of other lanes must not wait with it
        return Outcome("snoozed", error="its lane is locked by another transaction", delay=DUE_LEASE)
    except StoreError:
        raise
    except HoraeError as problem:
        return Outcome("failed", error=str(problem))
    return Outcome("succeeded") if again is None else Outcome("snoozed", delay=again - world.clock.now())


def would_yield(world: World, task: Task, control: Control, policy: Policy) -> bool:
    """Whether the focus would change at a safe point now, also by what an operator has forbidden since it began."""

    def read(tx: Tx) -> bool:
        found, lane = tx.attention.task(task.number), tx.attention.lane_by_number(task.lane)
        if found is None or lane is None or found.state != "running" or found.cancel_requested:
            return True
        live = [each.weighed for each in tx.attention.live_tasks(task.lane)]
        between = replace(found.weighed, phase="gap")
        return at_safe_point(between, live, lanes.effective(lane, control), policy).verdict != "go on"

    return world.store.read(read)
