"""What surrounds the run of a scheduled job: its lock, its log events, its listeners (S3-21 … S3-23).

A declared SINGLE_NODE job takes the lock ``job:{id}`` when it runs, without waiting. If somebody else holds it, the
attempt is put back, and is skipped once the next occurrence has taken its place. A lock of an attempt that is over
stops nobody. Fire and lease already decide which worker runs an occurrence; the lock keeps runs apart that this store
does not know of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from horae.actions.schedules.occurrences import is_over, occurrence_of, put_back, snooze_for_lock
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.locks import LockHolder
from horae.core.time.instants import micros
from horae.errors import ConfigurationError, HandlerFailed
from horae.ports import AttemptLocks, Lock, LockManager, World
from horae.runtime.logs import job_fields, running_job
from horae.runtime.schedules.locks import LockKeeper
from horae.runtime.worker.calls import is_cancelled_from_outside
from horae.runtime.worker.context import Context
from horae.runtime.worker.listeners import Listeners
from horae.runtime.worker.tracebacks import for_log

T = TypeVar("T")
Work = Callable[[], Awaitable[Outcome]]
Ttls = Mapping[str, timedelta | None]  # how long the lock of each declared job is held unrenewed
log = logging.getLogger("horae.worker")
LOCKED_WAIT = timedelta(seconds=5)  # before a worker without a store asks for a lock again
START_PATIENCE = 5.0  # seconds a job waits for listeners of its start, at most


class Call(Protocol):
    """Runs a blocking call off the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Occurrences:
    """Runs scheduled jobs as document 003 wants them run; other jobs pass through untouched."""

    def __init__(
        self,
        world: World,
        listeners: Listeners,
        locks: Callable[[], LockManager | None],
        declares: Callable[[str], bool],
        *,
        keeper: LockKeeper | None = None,
        ttls: Ttls | None = None,
    ) -> None:
        self._world = world
        self._listeners = listeners
        self._locks = locks
        self._declares = declares
        self._keeper = keeper
        self._ttls = ttls
        self._beside: set[asyncio.Task[None]] = set()

    async def run(self, ctx: Context, work: Work, call: Call) -> Outcome:
        """The outcome of one attempt."""
        job = ctx.claimed
        if job.schedule_id is None:
            return await work()
        if not self._declares(job.handler):
            return await self._run_and_report(ctx, work)
        asked_at = self._world.clock.monotonic()
        try:
            answer = await self._asked(job, call)
        except Exception as problem:  # whatever a lock manager raises, the work itself has not been tried
            log.warning("%s waits: its lock cannot be asked for: %s", job.handler, problem, extra=job_fields(job))
            return snooze_for_lock(job, problem, self._world.clock.now())
        if isinstance(answer, Outcome):
            if answer.ending == "skipped":
                ctx.logger.logger.info("job.skipped %s", job.handler, extra=job_fields(job, fire_time=_fire_time(job)))
                self._tell(None, "on_skipped", job.handler, _fire_time(job))
            return answer
        if answer is None:
            return await self._run_and_report(ctx, work)
        lock, ttl = answer
        return await self._locked(ctx, lock, ttl, asked_at, work, call)

    async def run_local(self, ctx: Context, work: Work) -> Outcome:
        """A run of this node's own: no lock is touched."""
        token = running_job.set(ctx.claimed)
        try:
            return await self._run_and_report(ctx, work)
        finally:
            running_job.reset(token)

    async def drained(self, limit: timedelta) -> None:
        """Wait until every listener has been told and every lock let go, or the time is up."""
        if self._beside:
            _, late = await asyncio.wait(self._beside, timeout=limit.total_seconds())
            for task in late:
                task.cancel()

    # -- the lock ------------------------------------------------------------------------------------------------

    async def _asked(self, job: Job, call: Call) -> tuple[Lock, timedelta] | Outcome | None:
        """Ask for the lock; an attempt that is stopped meanwhile must not leave one behind that nobody releases."""
        asking = asyncio.ensure_future(call(lambda: self._acquire(job)))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            undoing = asyncio.create_task(self._undo(asking, job, call), name="horae-unlock")
            self._beside.add(undoing)
            undoing.add_done_callback(self._beside.discard)
            raise

    async def _undo(
        self, asking: asyncio.Future[tuple[Lock, timedelta] | Outcome | None], job: Job, call: Call
    ) -> None:
        with suppress(Exception):
            answer = await asking
            if isinstance(answer, tuple):
                await call(lambda: _release(answer[0], job))

    def _acquire(self, job: Job) -> tuple[Lock, timedelta] | Outcome | None:
        """Return the lock of a job and its time; what to do instead where it is not to be had; None if it needs none.

        Blocks on store and lock manager.
        """
        if self._ttls is not None:
            return self._acquire_without_store(job, self._ttls.get(job.handler))
        occurrence = occurrence_of(self._world, job)
        if occurrence.is_replaced:
            return Outcome("skipped", error="lock")
        ttl = occurrence.lock_ttl
        if ttl is None:
            return None
        key, manager, seen = f"job:{job.handler}", self._manager(), list[LockHolder]()
        if not isinstance(manager, AttemptLocks):
            lock = manager.try_lock(key, ttl)
        else:

            def is_over_now(holder: LockHolder) -> bool:
                seen.append(holder)
                return is_over(self._world, holder)

            lock = manager.try_lock_for(key, ttl, LockHolder.of(job), is_over_now)
        if lock is None:
            return put_back(self._world, job, key, seen[-1] if seen else None, self._world.clock.now())
        return lock, ttl

    def _acquire_without_store(self, job: Job, ttl: timedelta | None) -> tuple[Lock, timedelta] | Outcome | None:
        """Acquire the lock where no store says whether its holder still lives; one that is held is asked for again."""
        if ttl is None:
            return None
        lock = self._manager().try_lock(key := f"job:{job.handler}", ttl)
        if lock is None:
            return Outcome("snoozed", error=f"waits for the lock {key}, which somebody else holds", delay=LOCKED_WAIT)
        return lock, ttl

    def _manager(self) -> LockManager:
        manager = self._locks()
        if manager is None:
            raise ConfigurationError("lock_manager_missing")
        return manager

    async def _locked(
        self, ctx: Context, lock: Lock, ttl: timedelta, asked_at: float, work: Work, call: Call
    ) -> Outcome:
        hold = _Hold(ctx)
        if self._keeper is not None:
            self._keeper.hold(lock, ttl, hold.lose_from_elsewhere, since=asked_at)
        try:
            outcome = await self._run_and_report(ctx, work)
        except asyncio.CancelledError:
            if not hold.took_back_the_cancellation():
                raise
            outcome = _lost(lock)
        finally:
            hold.end()
            if self._keeper is not None:
                self._keeper.drop(lock)
            await call(lambda: _release(lock, ctx.claimed))
        return _lost(lock) if hold.stopped(outcome) else outcome

    # -- events --------------------------------------------------------------------------------------------------

    async def _run_and_report(self, ctx: Context, work: Work) -> Outcome:
        job, logger = ctx.claimed, ctx.logger.logger
        fire_time = _fire_time(job)
        logger.info("job.started %s", job.handler, extra=job_fields(job, fire_time=fire_time))
        begun = self._tell(None, "on_start", job.handler, fire_time)
        if begun is not None:
            await asyncio.wait([begun], timeout=START_PATIENCE)
        started = self._world.clock.monotonic()
        outcome = await work()
        duration = round((self._world.clock.monotonic() - started) * 1000)
        if outcome.ending == "succeeded":
            logger.info("job.done %s", job.handler, extra=job_fields(job, fire_time=fire_time, duration=duration))
            self._tell(begun, "on_success", job.handler, fire_time, duration)
        elif outcome.ending in ("failed", "timed_out"):
            text, problem = for_log(ctx.problem, outcome.error)
            fields = job_fields(job, fire_time=fire_time, duration=duration, error=text.partition("\n")[0])
            logger.error("job.failed %s: %s", job.handler, text, exc_info=problem, extra=fields)
            error = ctx.problem or HandlerFailed(outcome.error or outcome.ending)
            self._tell(begun, "on_failure", job.handler, fire_time, duration, error)
        return outcome

    def _tell(self, before: asyncio.Task[None] | None, event: str, *facts: Any) -> asyncio.Task[None] | None:
        """Beside the work; of one run, one thing after another."""
        if not self._listeners.executions:
            return None

        async def tell() -> None:
            if before is not None:
                await asyncio.wait([before])
            await self._listeners.tell_execution(event, *facts)

        task = asyncio.create_task(tell(), name=f"horae-tell-{event}")
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        return task


class _Hold:
    """One run under a lock; when the lock is lost, the handler is asked to stop, and stopped where that is possible."""

    def __init__(self, ctx: Context) -> None:
        self.lost = False
        self._cancelled = False
        self._ended = False
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def lose_from_elsewhere(self) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the run with it
            self._loop.call_soon_threadsafe(self._lose)

    def _lose(self) -> None:
        if self._ended:
            return
        self.lost = True
        self._ctx.cancel()
        if self._task is not None and not self._ctx.in_thread:
            self._cancelled = True
            self._task.cancel()

    def end(self) -> None:
        """The handler has ended; that its lock is lost from now on stops nothing any more."""
        self._ended = True

    def took_back_the_cancellation(self) -> bool:
        """Whether it was ours, and the only one."""
        if self._cancelled and self._task is not None:
            self._cancelled = False
            return self._task.uncancel() == 0
        return self.lost and not is_cancelled_from_outside()  # what a thread returned is not awaited any more

    def stopped(self, outcome: Outcome) -> bool:
        """Whether the handler ended because its lock was lost; one that did not notice has done its work."""
        stopped = self.lost and (self._ctx.noticed or (self._cancelled and outcome.ending != "succeeded"))
        if self._cancelled and self._task is not None:  # it caught the cancellation and ended in its own way
            self._task.uncancel()
        return stopped


def _release(lock: Lock, job: Job) -> None:
    try:
        if not lock.release():
            fields = job_fields(job)
            log.warning(
                "%s no longer held its lock when it ended: give it a longer lock_ttl", job.handler, extra=fields
            )
    except Exception as problem:
        log.warning("lock %s could not be released and will end by itself: %s", lock.key, problem)


def _lost(lock: Lock) -> Outcome:
    """Give the attempt back: that its lock was lost says nothing about the work."""
    return Outcome("released", error=f"LockLost: {lock.key} was lost while this was running, so it was stopped")


def _fire_time(job: Job) -> int:
    return micros(job.created_at) // 1000
