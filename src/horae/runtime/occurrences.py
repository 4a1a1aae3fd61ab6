"""What surrounds the run of a scheduled job: its lock, its log events, its listeners (S3-21 … S3-23).

A declared SINGLE_NODE job takes the lock ``job:{id}`` when it runs, without waiting; if somebody else holds it, the
run is skipped and says so. Fire and lease already decide which worker runs an occurrence; the lock keeps runs apart
that this store does not know of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from horae.core.instants import micros
from horae.core.jobs import Job, Outcome
from horae.errors import ConfigurationError, HandlerFailed, HoraeError
from horae.ports import Lock, LockManager, World
from horae.runtime.context import Context
from horae.runtime.listeners import Listeners
from horae.runtime.locking import LockKeeper

T = TypeVar("T")
Work = Callable[[], Awaitable[Outcome]]
log = logging.getLogger("horae.worker")
START_PATIENCE = 5.0  # seconds a job waits for listeners of its start, at most
LOCK_AWAY = timedelta(seconds=5)  # until a lock manager that does not answer is asked again


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
    ) -> None:
        self._world = world
        self._listeners = listeners
        self._locks = locks
        self._declares = declares
        self._keeper = keeper
        self._telling: set[asyncio.Task[None]] = set()

    async def run(self, ctx: Context, work: Work, call: Call, *, stops: bool = True) -> Outcome:
        """The outcome of one attempt; *stops* tells whether the handler can be stopped by cancelling its task."""
        job = ctx.job
        if job.schedule_id is None:
            return await work()
        try:
            ttl = await self._lock_ttl(job, call)
            lock = None if ttl is None else await call(lambda: self._manager().try_lock(f"job:{job.handler}", ttl))
        except HoraeError as problem:
            log.warning("%s waits: its lock cannot be asked for: %s", job.handler, problem, extra=_facts(job))
            return Outcome("snoozed", error=f"the lock manager does not answer: {problem}", delay=LOCK_AWAY)
        if ttl is None:
            return await self._told(ctx, work)
        if lock is None:
            ctx.logger.logger.info("job.skipped %s", job.handler, extra=_facts(job, fire_time=_fire_time(job)))
            self._tell(None, "on_skipped", job.handler, _fire_time(job))
            return Outcome("skipped", error="lock")
        return await self._locked(ctx, lock, ttl, work, call, stops)

    async def run_local(self, ctx: Context, work: Work) -> Outcome:
        """A run of this node's own: no lock is touched."""
        return await self._told(ctx, work)

    async def drained(self, limit: timedelta) -> None:
        """Until every listener has been told, or the time is up."""
        if self._telling:
            _, late = await asyncio.wait(self._telling, timeout=limit.total_seconds())
            for task in late:
                task.cancel()

    # -- the lock ------------------------------------------------------------------------------------------------

    async def _lock_ttl(self, job: Job, call: Call) -> timedelta | None:
        """How long the lock is to hold, as the schedule says now; None for a job that takes none."""
        if not self._declares(job.handler):
            return None
        number = job.schedule_id
        assert number is not None
        found = await call(lambda: self._world.store.read(lambda tx: tx.schedules.by_number([number])))
        schedule = found.get(number)
        return schedule.lock_ttl if schedule is not None and schedule.mode == "SINGLE_NODE" else None

    def _manager(self) -> LockManager:
        manager = self._locks()
        if manager is None:
            raise ConfigurationError("no lock manager is set; give the application one with app.locks = …")
        return manager

    async def _locked(self, ctx: Context, lock: Lock, ttl: timedelta, work: Work, call: Call, stops: bool) -> Outcome:
        hold = _Hold(ctx, stops)
        if self._keeper is not None:
            self._keeper.hold(lock, ttl, hold.lose_from_elsewhere)
        try:
            outcome = await self._told(ctx, work)
        except asyncio.CancelledError:
            if not hold.took_back_the_cancellation():
                raise
            outcome = _lost(lock)
        finally:
            if self._keeper is not None:
                self._keeper.drop(lock)
            await call(lambda: _release(lock, ctx.job))
        return _lost(lock) if hold.lost and ctx.noticed else outcome

    # -- events --------------------------------------------------------------------------------------------------

    async def _told(self, ctx: Context, work: Work) -> Outcome:
        job, logger = ctx.job, ctx.logger.logger
        fire_time = _fire_time(job)
        logger.info("job.started %s", job.handler, extra=_facts(job, fire_time=fire_time))
        begun = self._tell(None, "on_start", job.handler, fire_time)
        if begun is not None:
            await asyncio.wait([begun], timeout=START_PATIENCE)
        started = self._world.clock.monotonic()
        outcome = await work()
        duration = round((self._world.clock.monotonic() - started) * 1000)
        if outcome.ending == "succeeded":
            logger.info("job.done %s", job.handler, extra=_facts(job, fire_time=fire_time, duration=duration))
            self._tell(begun, "on_success", job.handler, fire_time, duration)
        elif outcome.ending in ("failed", "timed_out"):
            line = (outcome.error or "").partition("\n")[0]
            facts = _facts(job, fire_time=fire_time, duration=duration, error=line)
            logger.error("job.failed %s: %s", job.handler, line, extra=facts)
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
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        return task


class _Hold:
    """One run under a lock; when the lock is lost, the handler is asked to stop, and stopped where that is possible."""

    def __init__(self, ctx: Context, stops: bool) -> None:
        self.lost = False
        self._ctx = ctx
        self._stops = stops
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def lose_from_elsewhere(self) -> None:
        self._loop.call_soon_threadsafe(self._lose)

    def _lose(self) -> None:
        self.lost = True
        self._ctx.cancel()
        if self._stops and self._task is not None:
            self._task.cancel()

    def took_back_the_cancellation(self) -> bool:
        """Whether it was ours, and the only one."""
        return self.lost and self._stops and self._task is not None and self._task.uncancel() == 0


def _release(lock: Lock, job: Job) -> None:
    try:
        if not lock.release():
            facts = _facts(job)
            log.warning("%s no longer held its lock when it ended: give it a longer lock_ttl", job.handler, extra=facts)
    except HoraeError as problem:
        log.warning("lock %s could not be released and will end by itself: %s", lock.key, problem)


def _lost(lock: Lock) -> Outcome:
    return Outcome("failed", error=f"LockLost: {lock.key} was lost while this was running, so it was stopped")


def _fire_time(job: Job) -> int:
    return micros(job.created_at) // 1000


def _facts(job: Job, **more: Any) -> dict[str, Any]:
    return {"job_id": job.id, "run_id": job.run_id, "handler": job.handler, "queue": job.queue, **more}
