"""Run scheduled jobs under their lock, with log events and listeners (S3-21 … S3-23).

A declared SINGLE_NODE job takes the lock ``job:{id}`` when it runs, without waiting. If another attempt holds it, this
one is put back, and is skipped once the next occurrence is due. The lock of an attempt that is over is taken over. Fire
and lease already decide which worker runs an occurrence; the lock excludes runs outside this store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from horae.actions.schedules.occurrences import Occurrence, is_over, occurrences_of, put_back, snooze_for_lock
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.locks import LockHolder
from horae.core.time.instants import micros
from horae.errors import ConfigurationError, HandlerFailed
from horae.ports.locks import AttemptLocks, BatchLocks, Lock, LockManager
from horae.ports.world import World
from horae.runtime.logs import job_fields, logger_name, running_job
from horae.runtime.schedules.batches import Batches, Call
from horae.runtime.schedules.locks import LockKeeper
from horae.runtime.worker.calls import is_cancelled_from_outside
from horae.runtime.worker.context import Context
from horae.runtime.worker.listeners import Listeners
from horae.runtime.worker.tracebacks import for_log

Acquired = tuple[Lock, timedelta] | Outcome | None  # a lock and its lifetime; why there is none; or no need of one
Work = Callable[[], Awaitable[Outcome]]
Ttls = Mapping[str, timedelta | None]  # lifetime of each declared job's lock without extension
log = logging.getLogger("horae.worker")
LOCKED_WAIT = timedelta(seconds=5)  # until a worker without a store tries to lock again
START_PATIENCE = 5.0  # seconds a job waits at most for the listeners of its start


class Occurrences:
    """Run scheduled jobs as document 003 requires; run all other jobs unchanged."""

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
        self._acquiring = Batches(self._acquire_each)
        self._releasing = Batches(self._release_each)

    def run(self, ctx: Context, work: Work, call: Call) -> Awaitable[Outcome]:
        """Run one attempt; what it returns is to be awaited, for the outcome."""
        return work() if ctx.claimed.schedule_id is None else self._run_scheduled(ctx, work, call)

    async def _run_scheduled(self, ctx: Context, work: Work, call: Call) -> Outcome:
        job = ctx.claimed
        if not self._declares(job.handler):
            return await self._run_and_report(ctx, work)
        asked_at = self._world.clock.monotonic()
        try:
            answer = await self._acquire_in_thread(job, call)
        except Exception as problem:  # whatever a lock manager raises, the work has not begun
            log.warning("%s waits: its lock manager failed: %s", job.handler, problem, extra=job_fields(job))
            return snooze_for_lock(job, problem, self._world.clock.now())
        if isinstance(answer, Outcome):
            if answer.ending == "skipped":
                ctx.logger.logger.info("job.skipped %s", job.handler, extra=job_fields(job, fire_time=_fire_time(job)))
                self._tell(None, "on_skipped", job.handler, _fire_time(job))
            return answer
        if answer is None:
            return await self._run_and_report(ctx, work)
        lock, ttl = answer
        return await self._run_locked(ctx, lock, ttl, asked_at, work, call)

    async def run_local(self, ctx: Context, work: Work) -> Outcome:
        """Run an ALL_NODES job on this node; no lock is taken."""
        token = running_job.set(ctx.claimed)
        try:
            return await self._run_and_report(ctx, work)
        finally:
            running_job.reset(token)

    async def drain(self, limit: timedelta) -> None:
        """Wait until every listener has been called and every lock released, up to *limit*."""
        if self._beside:
            _, late = await asyncio.wait(self._beside, timeout=limit.total_seconds())
            for task in late:
                task.cancel()

    # -- the lock ------------------------------------------------------------------------------------------------

    async def _acquire_in_thread(self, job: Job, call: Call) -> Acquired:
        """Acquire the lock in a thread; if the attempt is cancelled meanwhile, release the lock that it may get."""
        asking = self._ask_for(job, call)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            undoing = asyncio.create_task(self._undo(asking, job, call), name="horae-unlock")
            self._beside.add(undoing)
            undoing.add_done_callback(self._beside.discard)
            raise

    def _ask_for(self, job: Job, call: Call) -> asyncio.Future[Acquired]:
        """Ask for the lock of a job, with others where the lock manager takes many in one step."""
        if self._ttls is None and isinstance(self._locks(), BatchLocks):
            return self._acquiring.ask(job, call)
        return asyncio.ensure_future(call(lambda: self._acquire(job)))

    async def _undo(self, asking: asyncio.Future[Acquired], job: Job, call: Call) -> None:
        with suppress(Exception):
            answer = await asking
            if isinstance(answer, tuple):
                await call(lambda: _release(answer[0], job))

    def _acquire(self, job: Job) -> Acquired:
        """Return the lock of a job and its lifetime; an outcome if the lock is busy; None if the job needs no lock.

        Blocks on store and lock manager.
        """
        if self._ttls is not None:
            return self._acquire_without_store(job, self._ttls.get(job.handler))
        answer = _lifetime(occurrences_of(self._world, [job])[0])
        return self._acquire_for(job, answer) if isinstance(answer, timedelta) else answer

    def _acquire_each(self, jobs: Sequence[Job]) -> list[Acquired | Exception]:
        """Do the same for jobs that began together: one read, and one write for all locks that are free."""
        answers = [_lifetime(each) for each in occurrences_of(self._world, jobs)]
        manager = self._manager()
        asked = [
            (_key(job), ttl, LockHolder.of(job))
            for job, ttl in zip(jobs, answers, strict=True)
            if isinstance(ttl, timedelta)
        ]
        taken = iter(manager.try_lock_each(asked) if isinstance(manager, BatchLocks) else [None] * len(asked))
        return [
            self._lock_or_ask(job, answer, next(taken)) if isinstance(answer, timedelta) else answer
            for job, answer in zip(jobs, answers, strict=True)
        ]

    def _lock_or_ask(self, job: Job, ttl: timedelta, taken: Lock | None) -> Acquired | Exception:
        """Return the lock, or ask for one that was not free by itself: its holder may be over."""
        if taken is not None:
            return taken, ttl
        try:
            return self._acquire_for(job, ttl)
        except Exception as problem:
            return problem

    def _acquire_for(self, job: Job, ttl: timedelta) -> tuple[Lock, timedelta] | Outcome:
        key, manager, seen = _key(job), self._manager(), list[LockHolder]()
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

    def _acquire_without_store(self, job: Job, ttl: timedelta | None) -> Acquired:
        """Acquire the lock without a store that knows whether its holder is alive; snooze the job if it is busy."""
        if ttl is None:
            return None
        lock = self._manager().try_lock(key := _key(job), ttl)
        if lock is None:
            return Outcome("snoozed", error=f"waits for the lock {key}, which another process holds", delay=LOCKED_WAIT)
        return lock, ttl

    def _manager(self) -> LockManager:
        manager = self._locks()
        if manager is None:
            raise ConfigurationError("lock_manager_missing")
        return manager

    async def _run_locked(
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
            await self._release_in_thread(lock, ctx.claimed, call)
        return _lost(lock) if hold.was_stopped(outcome) else outcome

    async def _release_in_thread(self, lock: Lock, job: Job, call: Call) -> None:
        """Release a lock, with others that are released at the same time where the lock manager can."""
        if isinstance(self._locks(), BatchLocks):
            await asyncio.shield(self._releasing.ask((lock, job), call))
        else:
            await call(lambda: _release(lock, job))

    def _release_each(self, held: Sequence[tuple[Lock, Job]]) -> list[None]:
        manager = self._manager()
        try:
            assert isinstance(manager, BatchLocks)
            released = manager.release_each([lock for lock, _ in held])
        except Exception as problem:
            for lock, _ in held:
                _log_unreleased(lock, problem)
        else:
            for (_, job), was_ours in zip(held, released, strict=True):
                if not was_ours:
                    _log_lost(job)
        return [None] * len(held)

    # -- events --------------------------------------------------------------------------------------------------

    async def _run_and_report(self, ctx: Context, work: Work) -> Outcome:
        job = ctx.claimed
        logger, fire_time = logging.getLogger(logger_name(job.handler)), _fire_time(job)
        is_noted = logger.isEnabledFor(logging.INFO)  # the fields of a line cost more than the rest of this
        if is_noted:
            logger.info("job.started %s", job.handler, extra=job_fields(job, fire_time=fire_time))
        begun = self._tell(None, "on_start", job.handler, fire_time)
        if begun is not None:
            await asyncio.wait([begun], timeout=START_PATIENCE)
        started = self._world.clock.monotonic()
        outcome = await work()
        duration = round((self._world.clock.monotonic() - started) * 1000)
        if outcome.ending == "succeeded":
            if is_noted:
                fields = job_fields(job, fire_time=fire_time, duration=duration)
                logger.info("job.done %s", job.handler, extra=fields)
            self._tell(begun, "on_success", job.handler, fire_time, duration)
        elif outcome.ending in ("failed", "timed_out"):
            text, problem = for_log(ctx.problem, outcome.error)
            fields = job_fields(job, fire_time=fire_time, duration=duration, error=text.partition("\n")[0])
            logger.error("job.failed %s: %s", job.handler, text, exc_info=problem, extra=fields)
            error = ctx.problem or HandlerFailed(outcome.error or outcome.ending)
            self._tell(begun, "on_failure", job.handler, fire_time, duration, error)
        return outcome

    def _tell(self, before: asyncio.Task[None] | None, event: str, *facts: Any) -> asyncio.Task[None] | None:
        """Call the listeners in a task of its own, after the task *before*, so that a run's events stay in order."""
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
    """One run under a lock. When the lock is lost, the handler is asked to stop; on the event loop it is cancelled."""

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
        """Note that the handler has ended: losing the lock from now on has no effect."""
        self._ended = True

    def took_back_the_cancellation(self) -> bool:
        """Return whether the cancellation came from the lost lock alone; if so, undo it."""
        if self._cancelled and self._task is not None:
            self._cancelled = False
            return self._task.uncancel() == 0
        return self.lost and not is_cancelled_from_outside()  # a thread's result is not awaited then

    def was_stopped(self, outcome: Outcome) -> bool:
        """Return whether the handler ended because its lock was lost; one that did not notice has done its work."""
        was_stopped = self.lost and (self._ctx.noticed or (self._cancelled and outcome.ending != "succeeded"))
        if self._cancelled and self._task is not None:  # it caught the cancellation and ended in its own way
            self._task.uncancel()
        return was_stopped


def _release(lock: Lock, job: Job) -> None:
    try:
        if not lock.release():
            _log_lost(job)
    except Exception as problem:
        _log_unreleased(lock, problem)


def _log_lost(job: Job) -> None:
    log.warning(
        "%s no longer held its lock when it ended; give it a longer lock_ttl", job.handler, extra=job_fields(job)
    )


def _log_unreleased(lock: Lock, problem: Exception) -> None:
    log.warning("lock %s could not be released and expires by itself: %s", lock.key, problem)


def _key(job: Job) -> str:
    return f"job:{job.handler}"


def _lifetime(occurrence: Occurrence) -> timedelta | Outcome | None:
    """Return how long the lock of an occurrence holds unrenewed; an outcome if a later occurrence has replaced it."""
    return Outcome("skipped", error="lock") if occurrence.is_replaced else occurrence.lock_ttl


def _lost(lock: Lock) -> Outcome:
    """Return an outcome that releases the attempt: a lost lock is no failure of the work."""
    return Outcome("released", error=f"LockLost: {lock.key} was lost while this was running, so it was stopped")


def _fire_time(job: Job) -> int:
    return micros(job.created_at) // 1000
