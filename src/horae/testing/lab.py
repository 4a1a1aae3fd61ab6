"""The Lab: an application under virtual time, step by step.

What runs is the real thing: the application's handlers, the verbs, the state machine and a real store. Only the world
around them is replaced: the store is SQLite in memory, the clock stands still until the test moves it, and chance
is loaded. One job runs at a time, in the order in which a worker would claim it, so that the same seed gives the
same trace, and a story over days takes milliseconds.
"""

# size: one object with everything that a test of an application needs

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeVar

from horae.actions.budgets import spending
from horae.actions.jobs import claims, endings, steps
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.requests import Enqueued
from horae.actions.rules import job_rules
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.app import Horae, JobHandle
from horae.attention import Attention
from horae.clock import zone_database_version
from horae.core.governance.budgets import Spending
from horae.core.jobs.job import Filter, Job, Lease, Outcome, Run, State, handler_of, renewal_pause
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.steps import KeptResult
from horae.core.schedules.schedule import Fire
from horae.core.time.instants import iso
from horae.core.time.spans import Span, span
from horae.declare.definitions import Definition
from horae.ports.world import World
from horae.runtime.schedules.occurrences import Occurrences
from horae.runtime.worker.attempts import for_owner
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import HERE, Executor, Handler
from horae.runtime.worker.lines import record, with_lines
from horae.runtime.worker.threads import Threads
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.agents import AGENT_POINTS, AgentPoint, AttendedAgent
from horae.testing.clock import LoadedDice, VirtualClock
from horae.testing.trace import Happening, Trace, find_jobs, queues_in_use

T = TypeVar("T")
AnyJob = str | Job | Enqueued
AnyHandle = str | JobHandle[Any, Any]
Point = Literal["run.before", "settle.before"]
IN_MEMORY = "sqlite://"
PAGE = 1000
MAX_RUNS = 10_000
TICK = timedelta(microseconds=1)


class Lab:
    """Run an application under a virtual clock::

        async with Lab(app, starts_at="2030-01-07T05:59:00Z", seed=1) as lab:
            with lab.breaking(send_receipt, ConnectionError("mail is down")):
                job = send_receipt.enqueue(order_id=42)
                await lab.settle()                          # everything that is due now
            assert lab.state_of(job) == "queued"            # to be tried again

            await lab.advance(timedelta(minutes=5))         # from due instant to due instant
            assert lab.state_of(job) == "succeeded"
            assert lab.fired("weekday-digest") == ["2030-01-07T06:00:00Z"]

    While the block runs, whatever the application enqueues goes to the lab. Leaving it gives the application its own
    world back. *database* may name another one than SQLite in memory, for code that joins its own transactions with
    ``connection=``; *lease* is how long a crashed attempt holds its job; after *max_runs* at one instant the lab stops
    and says so, because such work never ends.

    A handler takes no virtual time, and its time limit counts real seconds. One that calls ``asyncio.sleep`` really
    sleeps; put another in its place with :meth:`replacing` and let that one ``await lab.sleep(…)``. Handlers declared
    ``executor="process"`` or with a cluster run in a thread here. Agents are driven too, once :meth:`attend` has named
    them.
    """

    def __init__(
        self,
        app: Horae,
        *,
        starts_at: datetime | str = "2030-01-07T06:00:00Z",
        seed: int = 1,
        lease: timedelta = timedelta(seconds=30),
        database: str = IN_MEMORY,
        max_runs: int = MAX_RUNS,
    ) -> None:
        self.app = app
        self.clock = VirtualClock(starts_at)
        self.lease = lease
        self.max_runs = max_runs
        self._dice = LoadedDice(seed)
        self._database = database
        self._instead: dict[str, list[Definition]] = {}
        self._crashes: list[tuple[Point | AgentPoint, str | None]] = []
        self._agents: list[AttendedAgent] = []
        self._queues: dict[str, None] = {}  # in order of appearance
        self._held: Context | None = None
        self._driven = False
        self._exits = ExitStack()

    async def __aenter__(self) -> Self:
        engine = create_store_engine(self._database)
        if self._database != IN_MEMORY:
            migrate(engine)
        store = open_store(engine)
        self._exits.callback(store.close)
        tzdata, most = zone_database_version(), self.app.max_payload_bytes
        rules = job_rules(self._dice)
        self.world = World(
            store, self.clock, self._dice, max_payload_bytes=most, tzdata=tzdata, rules=rules, lenient=self.app.lenient
        )
        self._trace = Trace(self.world)
        self._exits.callback(store.subscribe(self._notice))
        threads = Threads(32)
        self._exits.callback(threads.close)
        self._executor = Executor(threads, _NoProcesses(), self.world.max_payload_bytes)
        self._exits.enter_context(self.app.using_world(self.world))
        declared = {schedule.key for schedule in self.app.declare_schedules()}
        self._occurrences = Occurrences(
            self.world, self.app.listeners, lambda: self.app.locks, declares=declared.__contains__
        )
        await self.app.services.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            for agent in self._agents:
                await agent.close()
            await self._occurrences.drain(self.lease)
            await self.app.services.close()
        finally:
            self._exits.close()

    # -- moving --------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def settle(self) -> None:
        """Run everything that is due now, and whatever becomes due by that, until nothing is."""
        with self._claim_turn():
            await self._settle()

    async def advance(self, duration: Span) -> None:
        """Move the clock from one due instant to the next, running what is due at each, until *duration* is over."""
        with self._claim_turn():
            await self._walk(self.now + span(duration))

    async def until(self, predicate: Callable[[], Any], *, within: Span) -> None:
        """Advance only until the predicate, sync or async, holds; an ``AssertionError`` if it never does."""
        limit = span(within)
        with self._claim_turn():
            if not await self._walk(self.now + limit, predicate):
                last = "\n".join(f"  {happening}" for happening in self.trace[-10:])
                raise AssertionError(
                    f"The predicate did not hold within {limit} of virtual time. What happened last:\n{last}"
                )

    async def sleep(self, duration: Span) -> None:
        """Let a handler of the test work for a virtual time; its lease is renewed, as by a worker.

        Nothing else runs meanwhile: the lab runs one handler at a time.
        """
        ctx = self._running_context("sleep")
        end = self.now + span(duration)
        while self.now < end:
            self.clock.move_to(min(end, self.now + renewal_pause(self.lease)))
            answer = claims.renew(self.world, [ctx.lease], lease=self.lease)
            if ctx.lease.job_number not in answer.held or ctx.lease.job_number in answer.cancelled:
                ctx.cancel()

    async def freeze(self, duration: Span) -> None:
        """Suspend the process for a virtual time, from a handler of the test; its lease is not renewed.

        If that takes longer than the lease, the job is handed on and the late outcome of this attempt is refused.
        """
        self._running_context("freeze")
        self.clock.advance(span(duration))
        await self._hand_on_lost_jobs()

    def attend(self, agent: Attention) -> None:
        """Drive an agent from now on, whenever the lab settles or advances: its turns, actions, waits and deadlines.

        The agent may have been declared with this application or with a store of its own.
        """
        known = (self.app, *(each.agent.app for each in self._agents))
        if all(each is not agent.app for each in known):  # to compare its world would open its real store
            self._exits.enter_context(agent.app.using_world(self.world))
        if all(each.agent is not agent for each in self._agents):
            self._agents.append(AttendedAgent(self.world, agent, self._agent_dies_at))

    # -- asking --------------------------------------------------------------------------------------------------

    def job(self, job: AnyJob) -> Job:
        """Return the job as the store has it now."""
        return verbs.get(self.world, _id(job))

    def state_of(self, job: AnyJob) -> State:
        return self.job(job).state

    def runs(self, job: AnyJob) -> list[Run]:
        """Return every attempt at a job, the oldest first."""
        return verbs.runs(self.world, _id(job))

    def enqueued(self, handle: AnyHandle) -> list[Job]:
        """Return every job of a handler that was ever enqueued here, the oldest first."""
        return find_jobs(self.world, Filter(handler=_name(handle)))

    def fired(self, schedule: AnyHandle) -> list[str]:
        """Return the instants for which a schedule became a job, the oldest first; by hand and after the fact too."""
        return [iso(fire.fire_at) for fire in self.fires(schedule) if fire.verdict == "ran"]

    def fires(self, schedule: AnyHandle) -> list[Fire]:
        """Return what became of every fire of a schedule, the oldest first: run, skipped or merged, with the reason."""
        fires: list[Fire] = []
        key = _name(schedule)
        while page := schedules.history(self.world, key, limit=PAGE, before=fires[-1].fire_at if fires else None):
            fires += [fire for fire, _ in page]
        return fires[::-1]

    @property
    def trace(self) -> list[Happening]:
        """The events so far, in order. Two labs with the same seed and story have the same trace."""
        return self._trace.lines()

    # -- meddling ------------------------------------------------------------------------------------------------

    @contextmanager
    def replacing(self, handle: AnyHandle, function: Callable[..., Any]) -> Iterator[None]:
        """While the block lasts, run *function* instead; it takes the same arguments as the handler, with context."""
        definition = self.app.definitions.get(_name(handle))
        executor: Literal["async", "thread"] = "async" if inspect.iscoroutinefunction(function) else "thread"
        stand_in = replace(definition, function=function, executor=executor)
        self._instead.setdefault(definition.name, []).append(stand_in)
        try:
            yield
        finally:
            self._instead[definition.name].remove(stand_in)

    @contextmanager
    def breaking(self, handle: AnyHandle, error: BaseException | type[BaseException]) -> Iterator[None]:
        """While the block lasts, the handler raises *error* instead of running."""

        async def broken(*_: Any, **__: Any) -> None:
            raise error if isinstance(error, type) else error.with_traceback(None)

        with self.replacing(handle, broken):
            yield

    def crash_next(self, handle: AnyHandle | Attention | None = None, *, at: Point | AgentPoint = "run.before") -> None:
        """Let the worker die with the next attempt (of that handler), before it runs or before its end is written.

        The job stays leased until the lease has run out in virtual time; then it is lost and handed on. The process
        of an agent dies before it thinks (``think.before``), before its decision is written (``decide.before``), before
        an action (``act.before``) or after it, before its facts are written (``facts.before``); another process takes
        the lane when the lease has run out.
        """
        if isinstance(handle, Attention) and at not in AGENT_POINTS:
            raise ValueError(f"an agent dies at one of {', '.join(AGENT_POINTS)}, not at {at!r}")
        self._crashes.append((at, None if handle is None else _name(handle)))

    # -- one thing after another ---------------------------------------------------------------------------------

    @contextmanager
    def _claim_turn(self) -> Iterator[None]:
        if self._driven:
            raise RuntimeError("This lab is already being driven: a handler cannot settle or advance it.")
        self._driven = True
        self._trace.expect_news()  # a transaction of the application's own may have enqueued without a word
        try:
            yield
        finally:
            self._driven = False

    async def _walk(self, target: datetime, predicate: Callable[[], Any] | None = None) -> bool:
        """Move from due instant to due instant up to the target; return True as soon as the predicate holds."""
        while True:
            await self._settle()
            if predicate is not None and await _holds(predicate):
                return True
            instant = self._next_instant()
            if instant is None or instant > target:
                break
            self.clock.move_to(instant)
        self.clock.move_to(max(target, self.now))
        return False

    def _next_instant(self) -> datetime | None:
        """Return when something becomes due that is not due now; what is due and waits is held by something else."""
        store, now = self.world.store, self.now
        dues = [store.peek([queue]).next_due_at for queue in self._known_queues()]
        upcoming = store.peek([])
        expiry = upcoming.next_expiry_at
        moments = [*dues, upcoming.next_fire_at, upcoming.next_machinery_at, None if expiry is None else expiry + TICK]
        moments += [agent.next_instant() for agent in self._agents]
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    async def _settle(self) -> None:
        self._queues = self._queues | dict.fromkeys(self.world.store.read(queues_in_use))
        for _ in range(self.max_runs):
            if not await self._step():
                return
        raise AssertionError(f"After {self.max_runs:,} runs there is still work due at {iso(self.now)}.")

    async def _step(self) -> bool:
        """Hand lost jobs on, fire, or run one due job; false when there is nothing to do at this instant."""
        if await self._hand_on_lost_jobs() or firing.fire_due(self.world):
            return True
        if serve_due(self.world, "lab"):
            return True
        due = claims.pull(self.world, worker_id="lab", queues=self._known_queues(), limit=1, lease=self.lease)
        for job in due:
            await self._attempt(job)
        return bool(due) or await self._step_agents()

    async def _step_agents(self) -> bool:
        """Let each agent do one thing."""
        return any([await agent.step() for agent in self._agents])

    async def _hand_on_lost_jobs(self) -> bool:
        lost = endings.lose_expired(self.world)
        for job, dead in lost:
            self._trace.note("exhausted" if dead else "lost", job, "lost")
            if dead:
                await self.app.listeners.tell_dead(self.job(job))
        return bool(lost)

    async def _attempt(self, job: Job) -> None:
        self._trace.note("pulled", job)
        if self._crashes_at("run.before", job):
            return
        ctx = self._held = Context(job, self, self.app.services)
        try:
            outcome = await self._outcome(ctx)
        finally:
            self._held = None
        if self._crashes_at("settle.before", job):
            return
        outcome = with_lines(ctx, for_owner(job, outcome), self._handler(handler_of(job)))
        change = endings.settle(self.world, [(job, outcome)])[job.id]
        self._trace.note("refused" if change is None else change.event, job, outcome.ending)
        if change is not None and change.state == "dead":
            await self.app.listeners.tell_dead(self.job(job))

    async def _outcome(self, ctx: Context) -> Outcome:
        handler = self._handler(handler_of(ctx.claimed))
        try:
            return await self._occurrences.run(ctx, lambda: self._executor.run(handler, ctx), self.call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Outcome("failed", error="CancelledError: the handler cancelled itself")

    def _handler(self, name: str) -> Definition:
        stand_ins = self._instead.get(name)
        if stand_ins:
            return stand_ins[-1]
        definition = self.app.find_handler(name) or self.app.definitions.get(name)
        if definition.executor in HERE:
            return definition
        return replace(definition, executor="async" if definition.is_async else "thread")

    def _agent_dies_at(self, lane: str, point: AgentPoint) -> bool:
        planned = next((each for each in self._crashes if each[0] == point and each[1] in (None, lane)), None)
        if planned is not None:
            self._crashes.remove(planned)
        return planned is not None

    def _crashes_at(self, point: Point, job: Job) -> bool:
        for planned in self._crashes:
            if planned[0] == point and planned[1] in (None, job.handler):
                self._crashes.remove(planned)
                self._trace.note("crashed", job, point)
                return True
        return False

    def _running_context(self, verb: str) -> Context:
        if self._held is None:
            raise RuntimeError(f"lab.{verb} is for handlers that run in the lab; elsewhere use advance.")
        return self._held

    # -- noticing ------------------------------------------------------------------------------------------------

    def _notice(self, queue: str) -> None:
        """Note from any thread that something was enqueued, or may be claimed again."""
        if queue != "*":
            self._queues = self._queues | {queue: None}
        self._trace.expect_news()

    def _known_queues(self) -> list[str]:
        known = dict.fromkeys(definition.queue for definition in self.app.definitions) | self._queues
        return [queue for queue in known if queue != MACHINERY]

    # -- what a context may ask ----------------------------------------------------------------------------------

    def progress(self, lease: Lease, value: Any) -> None:
        claims.progress(self.world, lease, value)

    def checkpoint(self, lease: Lease, value: Any) -> None:
        claims.checkpoint(self.world, lease, value)

    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any:
        return claims.once(self.world, lease, step, work)

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        return steps.recall_step(self.world, lease, step)

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        return steps.keep_step(self.world, lease, step, value)

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        return verbs.parent_results(self.world, lease.job_id)

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        return spending.spend(self.world, lease, cost, key=key)

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        spending.report(self.world, lease, cost, key=key)

    def keep_line(self, ctx: Context, level: str, text: str) -> None:
        record(ctx, self.clock.now(), level, text)

    async def call(self, work: Callable[[], T]) -> T:
        return work()


class _NoProcesses:
    """The lab keeps everything in one process; a handler never gets here."""

    async def run(self, handler: Handler, ctx: Context) -> Any:
        raise NotImplementedError(handler.name)

    def close(self) -> None:
        return


async def _holds(predicate: Callable[[], Any]) -> bool:
    answer = predicate()
    return bool(await answer if isinstance(answer, Awaitable) else answer)


def _id(job: AnyJob) -> str:
    return job if isinstance(job, str) else job.id


def _name(handle: AnyHandle | Attention) -> str:
    return handle if isinstance(handle, str) else handle.name
