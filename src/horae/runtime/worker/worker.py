"""The worker: claim due jobs, run them, settle them.

It claims no more jobs than it has free slots, sleeps until the next due instant, and is woken by hints. A slot is free
again only after its job's outcome has been committed.

To stop, it claims nothing more, waits for running attempts up to the grace, cancels the rest, releases their leases so
that other workers need not wait for them to expire, and stops renewing last. A worker whose own task is cancelled, as
asyncio does with all tasks on Ctrl-C, does the same without the grace.
"""

# size: the whole life of a worker in one place; its parts are modules of their own

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from horae.actions.retention import Retention
from horae.core.jobs.job import SYSTEM, Change, Job, Lease, Outcome, handler_of
from horae.core.jobs.machinery import MACHINERY
from horae.errors import HoraeError, ServiceUnavailable, StoreError
from horae.ports.workers import Drain, JobSource, Node, Upcoming
from horae.ports.world import World
from horae.runtime.chores.janitor import cleaning
from horae.runtime.chores.keeper import Keeper
from horae.runtime.database import DatabaseThreads
from horae.runtime.logs import marking_logs
from horae.runtime.loop import Alarm, Backoff, finish, give_way
from horae.runtime.schedules.declared import Declared
from horae.runtime.worker.assignment import Assignment
from horae.runtime.worker.attempt_port import AttemptPort
from horae.runtime.worker.attempt_runner import AttemptRunner
from horae.runtime.worker.attempts import Attempt, ended_by, for_owner, log_ending, time_left, unspent, unstarted
from horae.runtime.worker.executor import Executor, Processes, Resolve
from horae.runtime.worker.faults import Faults
from horae.runtime.worker.heartbeat import Heartbeat
from horae.runtime.worker.lines import with_lines
from horae.runtime.worker.listeners import Listeners, Teller
from horae.runtime.worker.local_runs import LocalRuns
from horae.runtime.worker.metrics import Measures
from horae.runtime.worker.remote import RemoteRuns
from horae.runtime.worker.renewer import Key, Renewer
from horae.runtime.worker.settings import WorkerSettings
from horae.runtime.worker.settler import Settler, Written
from horae.runtime.worker.spans import with_tracing
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.turns import Turns
from horae.runtime.worker.watchdog import Watchdog

__all__ = ["Worker", "WorkerSettings"]

log = logging.getLogger("horae.worker")
SMALL_CLAIM = 50  # larger claims take half of the slots, so that one half is settled while the other is claimed
TOGETHER = 25  # attempts that are started before those started earlier may go on
LOOK_WHILE_BUSY = timedelta(seconds=1)  # a worker that always has work must see cancellations too
BLOCKED_WAIT = timedelta(milliseconds=250)
# How long a worker that ends may wait beyond its grace for a store that does not answer:
ROUND_PATIENCE = 2.0  # seconds for a claim or a peek under way
LAST_WORDS = timedelta(seconds=2)  # for outcomes to be written, the renewal under way, and leaving the list of nodes
QUIET_FIRST = timedelta(milliseconds=50)  # polling without hints: soon after work, then less and less often
QUIET_LAST = timedelta(seconds=1)


class Worker:
    """Serve queues in one process."""

    def __init__(
        self,
        world: World,
        source: JobSource,
        resolve: Resolve,
        settings: WorkerSettings,
        listeners: Listeners,
        processes: Processes,
        declared: Declared | None = None,
        measures: Measures | None = None,
    ) -> None:
        self.world = world
        self.source = source
        self.settings = settings
        self.listeners = listeners
        self.node_id = f"{socket.gethostname()}:{os.getpid()}:{world.dice.name(6)}"
        self.resolve = resolve
        self.declared = declared or Declared(world, listeners)
        self._claimed_at = world.clock.now()
        self._heartbeat = Heartbeat(settings, self.node_id, self._claimed_at)
        self._drain: Drain | None = None  # what an operator has asked of this worker
        self.has_left = False  # it ended because it was asked to leave
        self._task: asyncio.Task[Any] | None = None  # the task of `run`
        self.database = DatabaseThreads()
        self._threads = Threads(sum(settings.queues.values()))
        self.port = AttemptPort(source, self._threads, self._time_left, settings.lease, world.clock)
        self._processes = processes
        self.remotes = RemoteRuns(world.clock, world.max_payload_bytes)
        executor = Executor(self._threads, processes, world.max_payload_bytes, settings.grace, self.remotes)
        self._executor = with_tracing(executor, world.tracing)
        self._faults = Faults(settings.fault)
        self._runner = AttemptRunner(
            world.clock, resolve, settings.rates, self._executor, self.declared.run, self._faults
        )
        self._renewer = Renewer(source, world.clock, settings.lease, self._stop_from_renewer)
        self._teller = Teller(listeners)
        self.measures = measures or Measures()
        retention = settings.retention or Retention()
        chores = (cleaning(retention), *settings.chores)
        kept = replace(world, retention=retention)
        self._keeper = Keeper(
            kept, self.database, self.node_id, chores, self._teller.dead, self.measures.count_fired,
            fires=settings.fires, cleans=settings.cleans, beside=settings.beside,
        )  # fmt: skip
        self._held: dict[Key, Attempt] = {}
        self._busy: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()  # slots for which a claim is under way
        self._guests: dict[int, Worker] = {}  # workers of further shards in this process, by number of the database
        self._served: list[asyncio.Task[None]] = []  # their lives
        self._assignment: Assignment | None = None
        self._databases: list[int] = []  # of the cluster that keep something, as of the last look
        self._peers: list[Worker] = []  # all who share its slots
        self._turns = Turns()
        self._is_doubtful = False  # its store did not answer: it must not keep the slots of others waiting
        self._is_retired = False  # another process serves this shard: nothing more is claimed, and then it ends
        self._stopping, self._expects_work = False, True
        self._stop_requested = asyncio.Event()
        self._claiming: asyncio.Future[list[Job]] | None = None  # a claim under way
        self._quiet, self._looked_at = QUIET_FIRST, float("-inf")
        self.counts = self.measures.counts

    # -- life ----------------------------------------------------------------------------------------------------

    def host(self, assignment: Assignment, make: Callable[[World], Worker]) -> None:
        """Let workers of further shards live and end with this one, and share its slots; before :meth:`run`.

        *assignment* says at the start and then again and again which databases they serve.
        """
        self._assignment, self._make_guest, self._peers = assignment, make, [self]

    def worlds(self) -> list[World]:
        """Return the world of each database whose jobs this process is to run; all of them must answer."""
        return self.declared.everywhere.shards()

    async def _look_for_guests(self, assignment: Assignment) -> None:
        try:
            while not self._stopping:
                try:
                    self._follow_map(assignment)
                    idle = {number for number, each in self._here(assignment).items() if each._drain is not None}
                    for number, world in (await assignment.look(idle)).items():
                        if not self._stopping and number != assignment.cluster.number:
                            self._serve_shard(number, world)
                except Exception:
                    log.exception("looking for further shards failed; trying again")
                await self._guest_alarm.until(lambda: self._stopping, assignment.pause)
            await assignment.leave()
        finally:
            assignment.close()

    def _follow_map(self, assignment: Assignment) -> None:
        """Bring limits and schedules in line when the cluster has other databases than before: shares change."""
        databases = [number for number, count in assignment.cluster.shard_map.counts.items() if count]
        if self._databases and databases != self._databases:
            self.declared.reload()
        self._databases = databases

    def _here(self, assignment: Assignment) -> dict[int, Worker]:
        return {assignment.cluster.number: self, **self._guests}

    def _serve_shard(self, number: int, world: World | None) -> None:
        """Begin, go on or end to serve a database; one that a person asked this process to leave stays left."""
        guest = self._guests.get(number)
        if guest is None:
            if world is not None:
                self._take_in(number, self._make_guest(world))
        elif not guest.has_left:
            guest.retire(world is None)

    def _take_in(self, number: int, guest: Worker) -> None:
        guest._busy, guest._asked, guest._peers = self._busy, self._asked, self._peers
        guest._turns = self._turns
        self._peers.append(guest)
        self._guests[number] = guest
        served = asyncio.create_task(guest._run(), name="horae-shard")
        served.add_done_callback(lambda ended: self._on_guest_ended(number, ended))
        self._served.append(served)

    def retire(self, is_retired: bool = True) -> None:
        """Claim nothing more and end after what runs, because others serve this shard; or claim again."""
        if is_retired != self._is_retired and not self._stopping:
            self._is_retired = is_retired
            self._turns.leave(self)
            self.ring()

    async def run(self) -> None:
        """Serve until :meth:`stop` is called, then wait for attempts up to the grace; if cancelled, do not wait."""
        with marking_logs():
            await self._run()

    def _on_guest_ended(self, number: int, served: asyncio.Task[None]) -> None:
        """End with a guest that failed, so that the process is started anew; one that was asked to leave may go."""
        guest = self._guests[number]
        self._turns.leave(guest)
        self._peers.remove(guest)
        if not guest.has_left:  # else it stays known, so that its database is left alone
            del self._guests[number]
        if served in self._served and not self._stopping:
            self._served.remove(served)
        if not served.cancelled() and (problem := served.exception()) is not None:
            log.error("the worker of a shard has failed; this one ends, too", exc_info=problem)
            self.stop()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._alarm, self._guest_alarm = Alarm(self.world.clock), Alarm(self.world.clock)
        self._settler = Settler(self.source, self.world.dice, self.database, self._on_settled, self._faults)
        self._renewer.start()
        busy, expire = lambda: bool(self._held), self._renewer.expire
        self._watchdog = Watchdog(self.world.clock, self.settings.lease, busy, expire)
        self._watchdog.start()
        unsubscribe = self._subscribe()
        beside: list[asyncio.Task[None]] = []
        ends_by: float | None = None  # when the grace ends; an interrupted worker spends all of it on writing outcomes
        try:
            await self.declared.open(self.database, self._local_runs().fire)
            if self._assignment is not None:
                beside.append(asyncio.create_task(self._look_for_guests(self._assignment), name="horae-shards"))
            beside += self._keeper.start()
            beside.append(asyncio.create_task(self._serve_on(), name="horae-serving"))
            await self._stop_requested.wait()
            ends_by = self.world.clock.monotonic() + self.settings.grace.total_seconds()
            self._keeper.stop()
            *others, serving = beside
            await finish(ROUND_PATIENCE, serving)
            self.source.withdraw()
            await asyncio.gather(
                self._until_free(self.settings.grace),
                self.declared.close(self.settings.grace),
                self._keeper.ended(),
                finish(self.settings.cancel_grace.total_seconds(), *others),
            )
        except asyncio.CancelledError:
            log.warning("this worker was interrupted; it ends and releases its running jobs")
            for task in self._served:
                task.cancel()
            raise
        finally:
            unsubscribe()
            self.stop()
            if self._served:  # they use what this one closes at its end
                await asyncio.wait(self._served)
            self._stop_attempts()
            for task in beside:
                task.cancel()
            if beside:  # let each handle its cancellation: a claim that has just returned is released there
                await asyncio.wait(beside, timeout=ROUND_PATIENCE)
            await self._end(ends_by or self.world.clock.monotonic() + self.settings.grace.total_seconds())

    def _local_runs(self) -> LocalRuns:
        return LocalRuns(
            self.world, self.database, self.resolve, self._executor, self._renewer, self.port, self.declared,
            self.node_id, self.settings.lease,
        )  # fmt: skip

    async def _serve_on(self) -> None:
        backoff = Backoff(self.world.dice)
        try:
            while not self._stopping:
                try:
                    await self._serve()
                    backoff.reset()
                except (StoreError, ServiceUnavailable) as problem:
                    self._is_doubtful = True
                    self._turns.leave(self)
                    if not backoff.failures:
                        log.warning(
                            "%s does not answer; trying again: %s",
                            "the store" if isinstance(problem, StoreError) else "the service",
                            problem,
                        )
                    await self._pause(backoff.next())
                except Exception:
                    self._turns.leave(self)
                    log.exception("a round of this worker failed; trying again")
                    await self._pause(backoff.next())
        finally:
            self.stop()

    def reload(self) -> None:
        """Read jobs.conf again; from the loop's thread."""
        self.declared.reload()

    def stop(self) -> None:
        """Ask the worker to end; from the loop's thread."""
        self._stopping = True
        self._stop_requested.set()
        if hasattr(self, "_alarm"):
            self._alarm.ring()
            self._guest_alarm.ring()
        self._turns.leave(self)
        for guest in self._guests.values():
            guest.settings = replace(guest.settings, grace=self.settings.grace)
            guest.stop()

    async def _pause(self, duration: timedelta) -> None:
        """Pause for the whole duration, whatever rings; only :meth:`stop` ends it early."""
        self._expects_work = True  # a hint may have arrived during the pause
        await self._alarm.until(lambda: self._stopping, duration)

    def _subscribe(self) -> Callable[[], None]:
        def wake(queue: str) -> None:
            if queue == MACHINERY:
                self._keeper.note_hint()
            if queue in ("*", MACHINERY) or queue in self.settings.queues:
                self._alarm.ring_from_elsewhere()

        return self.source.subscribe(wake)

    async def _serve(self) -> None:
        """Run one round: claim and start due jobs; else peek when the next one is due and sleep until then."""
        if self._executor.stuck:
            log.error("a thread is stuck in a handler; this worker finishes its other jobs and ends, to be replaced")
            self.stop()
            return
        claimed, more = await self._claim_all() if self._expects_work else (0, False)
        looked = self.world.clock.monotonic() - self._looked_at < LOOK_WHILE_BUSY.total_seconds()
        if claimed:
            self._quiet = QUIET_FIRST
            if looked and more:
                return
        elif looked and self._is_full():  # due jobs must wait for a slot; a freed slot rings
            self._expects_work = True
            await self._alarm.sleep(None, LOOK_WHILE_BUSY)
            return
        upcoming = await self._peek()
        now = self.world.clock.now()
        if await self._keeper.serve(upcoming, now, self._alarm.ring):
            return
        newly_due = upcoming.next_due_at is not None and upcoming.next_due_at <= now
        if not (claimed and (more or newly_due)):
            await self._sleep(upcoming, now)

    async def _claim_all(self) -> tuple[int, bool]:
        """Claim for every queue with a free slot; return how many jobs were started, and whether more may be due."""
        started, more = 0, False
        self._claimed_at = self.world.clock.now()
        for queue, slots in self.settings.queues.items():
            if self._stopping or not self._is_open:
                continue
            left = slots - self._busy[queue] - self._asked[queue] - self._turns.ahead_of(self, queue)
            free = min(left, self.settings.batch, max(slots // 2, SMALL_CLAIM))
            if free > 0:
                free = 1 if self._is_doubtful and len(self._peers) > 1 else free
                self._turns.leave(self, queue)
                jobs = await self._claim(queue, free)
                self._is_doubtful = False
                if len(jobs) < free:
                    self._turns.call_next(queue)
                if jobs:
                    self._faults.at("claim.after")
                    await self._start(jobs)
                    started += len(jobs)
                    more = more or len(jobs) == free
            elif len(self._peers) > 1:
                self._turns.wait(self, queue)
        return started, more

    @property
    def _is_open(self) -> bool:
        """Whether it may claim jobs."""
        return self._drain is None and not self._is_retired

    async def _claim(self, queue: str, free: int) -> list[Job]:
        """Claim jobs; if this task is cancelled meanwhile, release what arrives at once."""
        self._claiming = claiming = self.database.submit(
            lambda: self.source.claim(queue, free, worker_id=self.node_id, lease=self.settings.lease)
        )
        self._asked[queue] += free
        try:
            jobs = await asyncio.shield(claiming)
            self._busy[queue] += len(jobs)
            return jobs
        except asyncio.CancelledError:
            if claiming.done():
                self._release_late_claim(claiming)
            else:
                claiming.add_done_callback(self._release_late_claim)
            raise
        finally:
            self._asked[queue] -= free

    def _release_late_claim(self, claiming: asyncio.Future[list[Job]]) -> None:
        for job in claiming.result() if claiming.exception() is None else ():
            self._settler.add(job, unstarted(job, Outcome("released", error="its worker shut down")))

    def _is_full(self) -> bool:
        return all(self._busy[queue] >= slots for queue, slots in self.settings.queues.items())

    async def _peek(self) -> Upcoming:
        """Read when the next work is due and which held jobs are cancelled; now and then send a heartbeat with it."""
        now = self.world.clock.now()
        queues = self.settings.queues if self._is_open else {}
        open_queues = [queue for queue, slots in queues.items() if self._busy[queue] < slots]
        node = self._node(now) if self._heartbeat.is_due(now, self._state, self._busy) else None
        worker_id = self.node_id if self._held else None
        upcoming = await self.database.call(
            lambda: self.source.peek(open_queues, node=node, node_id=self.node_id, worker_id=worker_id)
        )
        if node is not None:
            self._heartbeat.sent(node)
        self._looked_at = self.world.clock.monotonic()
        self._follow(upcoming.drain)
        self._keeper.expect(upcoming)
        for key in [key for key in self._held if key[0] in upcoming.cancelled]:
            self._stop_attempt(key, "cancelled")
        return upcoming

    def _follow(self, drain: Drain | None) -> None:
        """Do what an operator asked: claim nothing more, and then stay or leave; or claim again."""
        if drain != self._drain:
            self._drain, self._expects_work = drain, True
            log.info("asked to drain and to %s; nothing more is claimed", drain) if drain else log.info(
                "claiming again"
            )
            self._alarm.ring()  # look again, to report the new state and to find what is due
            self._turns.leave(self)
        if (drain == "leave" or self._is_retired) and not self._held and not self._stopping:
            log.info("drained; this worker leaves, as it was asked to") if drain else log.info(
                "other workers serve this database; this one leaves it"
            )
            self.has_left = drain == "leave"
            self.stop()

    @property
    def _state(self) -> str:
        if self._stopping:
            return "stopping"
        return "running" if self._drain is None else "draining" if self._held else "drained"

    def _node(self, now: datetime) -> Node:
        node = self._heartbeat.node(now, self._state, self._busy)
        return replace(node, loop_lag=self._watchdog.take_lag(), drain=self._drain)

    async def _sleep(self, upcoming: Upcoming, now: datetime) -> None:
        due = upcoming.next_due_at
        blocked = due is not None and due <= self._claimed_at and self._expects_work
        if blocked:  # it was due at the last claim but not claimed: a limit is full, or another worker takes it
            due = now + BLOCKED_WAIT
        at_most = min(self.settings.look_every, self._heartbeat.longest_pause(self._busy))
        if not self.source.hears():
            at_most = min(at_most, self._quiet)
            self._quiet = min(self._quiet * 1.5, QUIET_LAST)
        wakes = [*self._keeper.next_looks(upcoming, now), *([] if due is None else [due])]
        rang = await self._alarm.sleep(min(wakes, default=None), at_most)
        due_now = due is not None and due <= self.world.clock.now()
        self._expects_work = due_now or (rang and not self._keeper.takes_hint())

    # -- attempts ------------------------------------------------------------------------------------------------

    async def _start(self, jobs: list[Job]) -> None:
        """Start attempts a few at a time, in order: quick ones have ended before the next begin.

        Hundreds of tasks alive at once would make Python's collector walk the whole heap of the application again and
        again, a quarter of what a job costs. Outcomes of the jobs that end meanwhile are written together.
        """
        self._renewer.hold(jobs)
        begun = self.measures.count_started(jobs, self.world.clock)
        port, services = self.port, self.declared.services
        attempts = [Attempt(job, port, services, begun) for job in jobs]
        self._held.update({(job.number, job.token): attempt for job, attempt in zip(jobs, attempts, strict=True)})
        waiting = iter(attempts)
        try:
            with self._settler.collecting():
                while few := list(islice(waiting, TOGETHER)):
                    self._begin(few)
                    await give_way()
        finally:
            self._begin(waiting)  # this task was cancelled: each attempt sees to its own end

    def _begin(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            attempt.task = self._loop.create_task(self._attempt(attempt), name=attempt.claimed.run_id)

    async def _attempt(self, attempt: Attempt) -> None:
        job, attempt.entered = attempt.claimed, True
        outcome: Outcome | None
        try:
            if attempt.stop_reason:  # before it began
                outcome = ended_by(attempt)
            else:
                try:
                    outcome = await self._runner.begin(attempt, self.database.call)
                except BaseException as problem:
                    outcome = self._runner.catch(attempt, problem)
                if outcome is None or outcome.ending != "succeeded" or attempt.stop_reason:
                    outcome = self._runner.conclude(attempt, outcome, self._task)
            if job.owner != SYSTEM:
                outcome = for_owner(job, outcome, is_logged=attempt.problem is not None)
            if attempt.recorder is not None:
                outcome = with_lines(attempt, outcome, self.resolve(handler_of(job)))
        except BaseException:  # Ctrl-C: the loop is about to end, so the job is released
            self._settler.add(job, unspent(attempt, Outcome("released", error="its worker was interrupted")))
            raise
        finally:
            attempt.ended, attempt.task = True, None
        self.measures.count_duration(job, outcome.ending, self.world.clock.monotonic() - attempt.begun)
        if attempt.stop_reason == "lost":
            self._renewer.drop(job)
            self._free([(job.number, job.token)])
            self.measures.count_ended(job, "lost")
        elif attempt.stop_reason != "given back":
            self._settler.add(job, outcome)

    def _on_settled(self, written: Written) -> None:
        """Free the slots of attempts whose outcomes are committed, and report each."""
        keys = [(job.number, job.token) for job, _, _ in written]
        self._renewer.forget(keys)
        attempts = self._free(keys)
        self.measures.count_ends(
            (job.queue, job.handler, "stale" if change is None else outcome.ending) for job, outcome, change in written
        )
        for attempt, (job, outcome, change) in zip(attempts, written, strict=True):
            if change is None or outcome.ending != "succeeded":
                try:
                    self._report(attempt, job, outcome, change)
                except Exception:  # an error in one report must not keep others from being made
                    log.exception("the outcome of %s is written, but reporting it failed", job.id)

    def _report(self, attempt: Attempt | None, job: Job, outcome: Outcome, change: Change | None) -> None:
        """Log an outcome that is no success, and report a dead job to listeners."""
        log_ending(job, outcome, change, None if attempt is None else attempt.problem)
        if change is not None and change.state == "dead":
            self._teller.dead(replace(job, state="dead", attempt=change.attempt, last_error=change.error))

    def _free(self, keys: Sequence[Key]) -> list[Attempt | None]:
        """Free the slots of attempts that have ended; return them, None for one that this worker does not hold."""
        attempts = [self._held.pop(key, None) for key in keys]
        ended = Counter(attempt.claimed.queue for attempt in attempts if attempt is not None)
        for queue, count in ended.items():
            was_full = self._busy[queue] >= self.settings.queues.get(queue, 0)
            self._busy[queue] -= count
            if was_full or self._stopping or not self._is_open or self._executor.stuck:  # else there is another slot
                self._alarm.ring()
                for each in self._peers:  # another shard may have the job that this slot is for
                    each.ring()
        return attempts

    def ring(self) -> None:
        """Let this worker look for work; from the loop's thread."""
        self._expects_work = True
        if hasattr(self, "_alarm"):
            self._alarm.ring()

    def _stop_from_renewer(self, job: Job, stop_reason: str) -> None:
        """Stop an attempt whose lease is lost or whose job is cancelled; called from the renewing thread."""
        with suppress(RuntimeError):  # the loop has ended, and the attempt with it
            self._loop.call_soon_threadsafe(self._stop_attempt, (job.number, job.token), stop_reason)

    def _stop_attempts(self) -> None:
        for key in list(self._held):
            self._stop_attempt(key, "released")

    def _stop_attempt(self, key: Key, stop_reason: str) -> None:
        attempt = self._held.get(key)
        if attempt is None or attempt.stop_reason:
            return
        attempt.stop_reason = stop_reason
        attempt.cancel()
        task = attempt.task
        if task is None or not attempt.entered:
            return  # its first step checks stop_reason
        if not attempt.in_thread and not task.cancelling():  # a thread cannot be cancelled
            task.cancel()

    def _time_left(self, lease: Lease) -> timedelta | None:
        attempt = self._held.get((lease.job_number, lease.token))
        if attempt is None:
            return None
        return time_left(attempt, self.resolve(handler_of(attempt.claimed)), self.world.clock.monotonic())

    # -- the end -------------------------------------------------------------------------------------------------

    async def _end(self, ends_by: float) -> None:
        """Cancel and release the attempts that still run and write their outcomes; stop renewing in any case."""
        cancel_grace = self.settings.cancel_grace
        try:
            self._stop_attempts()
            hurrying = (self._attempts_over(cancel_grace), self.declared.close(timedelta(0)), self._claim_over())
            await asyncio.gather(*hurrying, return_exceptions=True)
            self._give_back()
            left = timedelta(seconds=max(0.0, ends_by - self.world.clock.monotonic()))
            if not await self._settler.drain(max(left, cancel_grace, LAST_WORDS)):
                log.error("the store did not answer in time; unwritten jobs run again when their leases expire")
            await self._teller.drain(cancel_grace)
            await self.declared.drain(cancel_grace)
            self._watchdog.stop()
            await asyncio.to_thread(self._renewer.stop, LAST_WORDS.total_seconds())
            async with asyncio.timeout(LAST_WORDS.total_seconds()):
                await self.database.call(lambda: self.source.leave(self._node(self.world.clock.now())))
        except (HoraeError, TimeoutError) as problem:
            log.debug("this node could not be removed from the list of nodes: %r", problem)
        finally:
            self._renewer.end()
            self._watchdog.stop()
            self._threads.close()
            self._processes.close()
            self.remotes.close()
            self.database.close()

    async def _attempts_over(self, limit: timedelta) -> None:
        """Wait for running attempts, but not for their outcomes to be written: the store may not answer."""
        tasks = [attempt.task for attempt in self._held.values() if attempt.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=limit.total_seconds())

    async def _claim_over(self) -> None:
        """Wait for a claim under way, so that its jobs are released."""
        if self._claiming is not None:
            await asyncio.wait([self._claiming], timeout=ROUND_PATIENCE)

    def give_back_now(self) -> None:
        """Release every attempt that has not ended, because the process is about to end; from any thread."""
        ended = {job.run_id: (job, outcome) for job, outcome in self._settler.pending}
        released = Outcome("released", error="its worker ended at once")
        held = list(self._held.values())
        given_back = {each.claimed.run_id: (each.claimed, unspent(each, released)) for each in held}
        self.source.settle(list((given_back | ended).values()))

    async def _until_free(self, limit: timedelta) -> None:
        """Wait until every attempt has ended and been settled, up to *limit*."""
        await self._alarm.until(lambda: not self._held, limit)

    def _give_back(self) -> None:
        """Release attempts that did not stop too; their late outcomes will be refused."""
        for attempt in list(self._held.values()):
            if not attempt.ended:  # otherwise its own outcome is already being written
                attempt.stop_reason = "given back"
                given_back = Outcome("released", error="its worker shut down")
                self._settler.add(attempt.claimed, unspent(attempt, given_back))
