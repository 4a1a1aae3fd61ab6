"""The worker: claim what is due, run it, settle it.

It claims no more than it has free slots, sleeps exactly until the next due instant, and is woken by hints. A slot is
free again only after its job's ending has been committed.

Stopping, in this order: claim nothing more; wait for what runs, up to the grace; cancel it; give the leases back, so
that nobody has to wait for them to run out; stop renewing last.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from horae.actions import jobs as verbs
from horae.actions.retention import Retention
from horae.core.jobs import SLOTS, Change, Job, Lease, Outcome
from horae.errors import HoraeError, StoreError
from horae.ports import Claim, Glance, Limiter, Node, World
from horae.runtime.attempts import Attempt, as_fated, ended_by, facts, for_owner, is_closed, put_off, slowed_down
from horae.runtime.context import Context
from horae.runtime.database import DatabaseThreads
from horae.runtime.declared import Declared
from horae.runtime.executor import Executor, Handler, Processes, told
from horae.runtime.faults import Faults
from horae.runtime.janitor import Chore, Janitor
from horae.runtime.listeners import Listeners, Teller
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.measuring import Measures
from horae.runtime.reaper import Reaper
from horae.runtime.renewer import Renewer
from horae.runtime.scheduler import Scheduler
from horae.runtime.settler import Settler
from horae.runtime.threads import Threads
from horae.runtime.tracing import traced
from horae.runtime.watchdog import Watchdog

T = TypeVar("T")
log = logging.getLogger("horae.worker")
MAX_CLAIM = 500
SMALL_CLAIM = 50  # above it a claim takes half of the slots, so that one half is settled while the other is claimed
LOOK_WHILE_BUSY = timedelta(seconds=1)  # also a worker that never runs dry must see cancellations and lost leases
BLOCKED_WAIT = timedelta(milliseconds=250)
QUIET_FIRST = timedelta(milliseconds=50)  # how often to look where no hints arrive: soon after work, then less and less
QUIET_LAST = timedelta(seconds=1)


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker serves."""

    queues: Mapping[str, int] = field(default_factory=lambda: {"default": SLOTS})
    lease: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=30)
    cancel_grace: timedelta = timedelta(seconds=6)  # for what has been cancelled to end, before it is given back
    look_every: timedelta = timedelta(seconds=60)
    version: str = ""
    fault: str = ""
    retention: Retention = field(default_factory=Retention)
    rates: Mapping[str, Limiter] = field(default_factory=dict)  # how often jobs of a queue may start
    chores: tuple[Chore, ...] = ()


class Worker:
    """One process's share of the work."""

    def __init__(
        self,
        world: World,
        resolve: Callable[[str], Handler | None],
        settings: WorkerSettings,
        listeners: Listeners,
        processes: Processes,
        declared: Declared | None = None,
    ) -> None:
        self.world = world
        self.settings = settings
        self.listeners = listeners
        self.node_id = f"{socket.gethostname()}:{os.getpid()}:{world.dice.name(6)}"
        self.resolve = resolve
        self.declared = declared or Declared(world, listeners)
        self._started_at = world.clock.now()
        self._database = DatabaseThreads()
        self._threads = Threads(sum(settings.queues.values()))
        self._processes = processes
        executor = Executor(self._threads, processes, world.max_payload_bytes, settings.grace)
        self._executor = traced(executor, world.tracing)
        self._faults = Faults(settings.fault)
        self._teller = Teller(listeners)
        self._reaper = Reaper(world, self._database, self._teller.dead)
        self.measures = Measures()
        self._scheduler = Scheduler(world, self._database, self.measures.fired)
        self._janitor = Janitor(world, self._database, settings.retention, settings.chores)
        self._held: dict[tuple[int, int], Attempt] = {}
        self._busy: Counter[str] = Counter()
        self._beaten_at: datetime | None = None
        self._stopping, self._expects_work = False, True
        self._quiet = QUIET_FIRST
        self._looked_at = float("-inf")
        self._claimed_at = self._started_at
        self.counts = self.measures.counts

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until :meth:`stop` is called, then end in order."""
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self.world.clock)
        self._settler = Settler(self.world, self._database, self._settled, self._faults)
        self._renewer = Renewer(self.world, self.settings.lease, self._told_by_renewer)
        self._renewer.start()
        self._watchdog = Watchdog(self.world.clock, self.settings.lease, lambda: bool(self._held))
        self._watchdog.start()
        unsubscribe = self._subscribe()
        await self.declared.open(self)
        scheduling = asyncio.create_task(self._scheduler.run(), name="horae-scheduler")
        cleaning = asyncio.create_task(self._janitor.run(), name="horae-janitor")
        backoff = Backoff(self.world.dice)
        try:
            while not self._stopping:
                try:
                    await self._serve()
                    backoff.reset()
                except StoreError as problem:
                    if not backoff.failures:
                        log.warning("the store does not answer: %s", problem)
                    await self._pause(backoff.next())
                except Exception:
                    log.exception("a round of this worker failed; it goes on")
                    await self._pause(backoff.next())
        finally:
            unsubscribe()
            self._scheduler.stop()
            self._janitor.stop()
            await asyncio.gather(scheduling, cleaning)
            await self._end()

    def reload(self) -> None:
        """Read jobs.conf again; from the loop's thread."""
        self.declared.reload()

    def stop(self) -> None:
        """Ask the worker to end; from the loop's thread."""
        self._stopping = True
        if hasattr(self, "_alarm"):
            self._alarm.ring()

    async def _pause(self, duration: timedelta) -> None:
        """Rest however often the bell rings; only the end of the worker cuts it short."""
        self._expects_work = True  # whatever rings meanwhile is looked for afterwards
        with suppress(TimeoutError):
            async with asyncio.timeout(duration.total_seconds()):
                while not self._stopping:
                    await self._alarm.sleep(None, duration)

    def _subscribe(self) -> Callable[[], None]:
        def wake(queue: str) -> None:
            if queue == "*" or queue in self.settings.queues:
                self._alarm.ring_from_elsewhere()

        return self.world.store.subscribe(wake)

    async def _serve(self) -> None:
        """One round: claim and start what is due; otherwise look when the next thing is, and sleep until then."""
        if self._executor.stuck:
            log.error("a thread is stuck in a handler; this worker finishes what it has and ends, to be replaced")
            self.stop()
            return
        claimed, more = await self._claim_all() if self._expects_work else (0, False)
        looked = self.world.clock.monotonic() - self._looked_at < LOOK_WHILE_BUSY.total_seconds()
        if claimed:
            self._quiet = QUIET_FIRST
            if looked and more:
                return
        elif looked and self._is_full():  # whatever is due, it must wait for a slot; a freed one rings
            self._expects_work = True
            await self._alarm.sleep(None, LOOK_WHILE_BUSY)
            return
        glance = await self._look()
        now = self.world.clock.now()
        if glance.next_expiry_at is not None and glance.next_expiry_at < now and await self._reaper.step():
            return
        newly_due = glance.next_due_at is not None and glance.next_due_at <= now
        if not (claimed and (more or newly_due)):
            await self._sleep(glance, now)

    async def _claim_all(self) -> tuple[int, bool]:
        """Claim for every queue with a free slot; how many jobs were started, and may there be more to be had."""
        started, more = 0, False
        self._claimed_at = self.world.clock.now()
        for queue, slots in self.settings.queues.items():
            free = min(slots - self._busy[queue], MAX_CLAIM, max(slots // 2, SMALL_CLAIM))
            if free > 0 and not self._stopping:
                jobs = await self._database.call(partial(self._claim, queue, free))
                if jobs:
                    self._faults.at("claim.after")
                    self._start(jobs)
                    started += len(jobs)
                    more = more or len(jobs) == free
        return started, more

    def _is_full(self) -> bool:
        return all(self._busy[queue] >= slots for queue, slots in self.settings.queues.items())

    def _claim(self, queue: str, free: int) -> list[Job]:
        return self.world.store.claim(Claim(queue, free, self.node_id, self.settings.lease), now=self.world.clock.now())

    async def _look(self) -> Glance:
        """When is the next thing due, does anybody want a job of ours to stop; and now and then: we are alive."""
        now = self.world.clock.now()
        open_queues = [queue for queue, slots in self.settings.queues.items() if self._busy[queue] < slots]
        beat = self._beaten_at is None or now - self._beaten_at >= self.settings.look_every * 0.9
        node = self._node(now) if beat else None
        worker_id = self.node_id if self._held else None
        glance = await self._database.call(lambda: self.world.store.glance(open_queues, node=node, worker_id=worker_id))
        self._beaten_at = now if beat else self._beaten_at
        self._looked_at = self.world.clock.monotonic()
        self._scheduler.expect(glance.next_fire_at)
        for key in [key for key in self._held if key[0] in glance.cancelled]:
            self._stop_attempt(key, "cancelled")
        return glance

    async def _sleep(self, glance: Glance, now: datetime) -> None:
        due = glance.next_due_at
        blocked = due is not None and due <= self._claimed_at and self._expects_work
        if blocked:  # due when we claimed, yet not to be had: a limit is full, or somebody else is at it
            due = now + BLOCKED_WAIT
        at_most = self.settings.look_every
        if not self.world.store.hears():
            at_most = min(at_most, self._quiet)
            self._quiet = min(self._quiet * 1.5, QUIET_LAST)
        expiry = glance.next_expiry_at
        if expiry is not None and expiry <= now:  # seen to just now
            expiry = now + BLOCKED_WAIT
        wakes = [moment for moment in (due, expiry) if moment is not None]
        rang = await self._alarm.sleep(min(wakes, default=None), at_most)
        due_now = due is not None and due <= self.world.clock.now()
        self._expects_work = rang or due_now

    def _node(self, now: datetime) -> Node:
        return Node(
            self.node_id, socket.gethostname(), os.getpid(), self.settings.version, self._started_at, now,
            dict(self.settings.queues), "stopping" if self._stopping else "running",
        )  # fmt: skip

    # -- attempts ------------------------------------------------------------------------------------------------

    def _start(self, jobs: list[Job]) -> None:
        self._renewer.hold(jobs)
        begun = self.measures.started(jobs, self.world.clock)
        for job in jobs:
            attempt = Attempt(job, Context(job, self, self.declared.services), begun)
            self._held[job.number, job.token] = attempt
            self._busy[job.queue] += 1
            attempt.task = self._loop.create_task(self._attempt(attempt), name=job.run_id)

    async def _attempt(self, attempt: Attempt) -> None:
        job = attempt.job
        try:
            outcome = for_owner(job, as_fated(attempt, await self._outcome(attempt)))
        except asyncio.CancelledError:
            outcome = ended_by(attempt)
        except Exception as problem:  # ours, not the handler's; the slot must not be lost for it
            log.exception("an attempt at %s broke off", job.id)
            outcome = Outcome("failed", error=told(problem))
        self.measures.ran(job, outcome.ending, self.world.clock.monotonic() - attempt.begun)
        if attempt.fate == "lost":
            self._forget(job)
            self.measures.ended(job, "lost")
        elif attempt.fate != "given back":
            self._settler.add(job, outcome)

    async def _outcome(self, attempt: Attempt) -> Outcome:
        handler = self.resolve(attempt.job.handler)
        if handler is None or is_closed(attempt.job, handler):
            return put_off(attempt.job, handler, self.world.clock.now())
        if attempt.job.cancel_requested:  # asked to stop while an earlier attempt was failing
            return Outcome("cancelled", error=attempt.job.cancel_reason)
        waits = await slowed_down(self._database.call, self.settings.rates.get(attempt.job.queue), handler.rate_limit)
        if waits is not None:
            return waits
        attempt.in_thread = handler.executor == "thread"
        self._faults.at("run.before")
        return await self.declared.run(handler, attempt.ctx, lambda: self._executor.run(handler, attempt.ctx))

    def _settled(self, job: Job, outcome: Outcome, change: Change | None) -> None:
        """After the commit: the slot is free, whoever wants to know is told."""
        self._forget(job)
        self.measures.ended(job, "stale" if change is None else outcome.ending)
        if change is None:
            log.warning("the ending of %s came too late: it has been handed on", job.id, extra=facts(job))
        elif outcome.ending in ("failed", "timed_out"):
            line = (outcome.error or "").partition("\n")[0]
            log.warning("%s (%s) failed, now %s: %s", job.id, job.handler, change.state, line, extra=facts(job))
        if change is not None and change.state == "dead":
            dead = replace(job, state="dead", attempt=change.attempt, last_error=change.error)
            self._teller.dead(dead)

    def _forget(self, job: Job) -> None:
        self._renewer.drop(job)
        if self._held.pop((job.number, job.token), None) is not None:
            was_full = self._busy[job.queue] >= self.settings.queues.get(job.queue, 0)
            self._busy[job.queue] -= 1
            if was_full or self._stopping or self._executor.stuck:  # one more free slot brings no work by itself
                self._alarm.ring()

    def _told_by_renewer(self, job: Job, fate: str) -> None:
        """From the renewing thread: the lease is gone, or somebody wants the job to stop."""
        with suppress(RuntimeError):  # the loop has ended, and the attempt with it
            self._loop.call_soon_threadsafe(self._stop_attempt, (job.number, job.token), fate)

    def _stop_attempt(self, key: tuple[int, int], fate: str) -> None:
        attempt = self._held.get(key)
        if attempt is None or attempt.fate:
            return
        attempt.fate = fate
        attempt.ctx.cancel()
        if attempt.task is not None and not attempt.in_thread:  # a thread can only be asked, and ends by itself
            attempt.task.cancel()

    # -- what a context may ask ----------------------------------------------------------------------------------

    def progress(self, lease: Lease, value: Any) -> None:
        verbs.progress(self.world, lease, value)

    def checkpoint(self, lease: Lease, value: Any) -> None:
        verbs.checkpoint(self.world, lease, value)

    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any:
        return verbs.once(self.world, lease, step, work)

    async def call(self, work: Callable[[], T]) -> T:
        """In the handlers' threads: what they do there may take long, and the worker's own calls must not wait."""
        answer: T = await self._threads.submit(work)
        return answer

    # -- what declared jobs may ask ------------------------------------------------------------------------------

    @property
    def lease(self) -> timedelta:
        return self.settings.lease

    async def ask(self, work: Callable[[], T]) -> T:
        """In the worker's own threads for the store, which no handler can fill."""
        return await self._database.call(work)

    async def execute(self, handler: Handler, ctx: Context) -> Outcome:
        """Run a handler for a job that did not come from the queue."""
        return await self._executor.run(handler, ctx)

    def keep(self, job: Job) -> None:
        self._renewer.hold([job])

    def let_go(self, job: Job) -> None:
        self._renewer.drop(job)

    # -- the end -------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        await asyncio.gather(self._until_free(self.settings.grace), self.declared.close(self.settings.grace))
        for key in list(self._held):
            self._stop_attempt(key, "released")
        await self._until_free(self.settings.cancel_grace)
        self._give_back()
        if not await self._settler.drained(max(self.settings.grace, self.settings.cancel_grace)):
            log.error("the store did not come back; what could not be written is tried again when its lease runs out")
        await self._teller.drained(self.settings.cancel_grace)
        self._watchdog.stop()
        await asyncio.to_thread(self._renewer.stop)
        try:
            await self._database.call(lambda: self.world.store.transact(lambda tx: tx.nodes.remove(self.node_id)))
        except HoraeError as problem:
            log.debug("this node could not take its name off the list: %s", problem)
        self._threads.close()
        self._processes.close()
        self._database.close()

    async def _until_free(self, limit: timedelta) -> None:
        """Until every attempt has ended and been settled, or the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit.total_seconds()):
                while self._held:
                    await self._alarm.sleep(None, limit)

    def _give_back(self) -> None:
        """What cannot be stopped is given back all the same: its late ending will be refused."""
        for attempt in list(self._held.values()):
            attended = attempt.task is not None and attempt.task.done()  # its own ending is on its way to the store
            if not attended:
                attempt.fate = "given back"
                self._settler.add(attempt.job, Outcome("released", error="its worker shut down"))
