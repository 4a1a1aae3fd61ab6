"""Follow a handler that runs on a cluster: submit it once, wait for it, stop it, collect how it ended.

The worker keeps the lease. Before a call is submitted its name is stored as the job's checkpoint, and what a call has
returned is stored before the cluster forgets it; whatever dies in between, the next attempt goes on from there:

    name stored → submitted → handle stored → waited for → collected → ending stored → forgotten by the cluster

A worker that shuts down or has lost the lease leaves the call alone: its successor follows it. Only a cancel of the
job and its time limit stop it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar, cast

from horae.core.jobs.job import Job
from horae.core.jobs.outcomes import Cancel, Snooze
from horae.core.jobs.remote import RETURNED, RemoteRun, read_run, remote_name
from horae.errors import ConfigurationError, ExecutorUnavailable, HoraeError, InvalidPayload
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteExecutor
from horae.ports.world import Clock
from horae.runtime.logs import job_fields
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import Handler, NotKept, TimeUp, ignore_result, time_limit
from horae.runtime.worker.messages import job_as_json
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import Reported, error_line

log = logging.getLogger("horae.worker")
T = TypeVar("T")
UNBOUNDED = 1_000_000  # threads: one or two for each running job, which the worker's slots bound
SLICE = timedelta(seconds=2)  # of waiting; progress is stored in between
CALL_LIMIT = 60.0  # seconds for one answer of an executor, beyond which it counts as unavailable
AWAY_LIMIT = 60.0  # seconds of trying again while a cluster is away; then the attempt is put back
PUT_BACK = timedelta(seconds=30)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds between two tries
STOP_LIMIT = 30.0  # seconds for a cluster to stop a call
LAST_LINES = 5.0  # seconds for what a call that is stopped has logged


class RemoteRuns:
    """Run the handlers of one worker that are declared with an executor outside it."""

    def __init__(self, clock: Clock, max_bytes: int, away_limit: float = AWAY_LIMIT) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self.away_limit = away_limit
        self._threads = Threads(UNBOUNDED, name="horae-remote")

    async def run(self, handler: Handler, ctx: Context) -> Any:
        """Run one attempt; return its result or raise how it ended."""
        executor = getattr(handler, "remote", None)
        if executor is None:
            raise ConfigurationError("executor_not_here", handler=handler.name, executor=handler.executor)
        follower = Follower(executor, handler, ctx, self._clock, self._threads, self._max_bytes, self.away_limit)
        return await follower.run()

    def close(self) -> None:
        self._threads.close()


class Follower:
    """One attempt that follows a call on a cluster."""

    def __init__(
        self,
        executor: RemoteExecutor,
        handler: Handler,
        ctx: Context,
        clock: Clock,
        threads: Threads,
        max_bytes: int,
        away_limit: float,
    ) -> None:
        self._executor = executor
        self._handler = handler
        self._ctx = ctx
        self._clock = clock
        self._threads = threads
        self._max_bytes = max_bytes
        self._away_limit = away_limit
        self._submitting: asyncio.Future[Handle] | None = None
        self._run: RemoteRun

    async def run(self) -> Any:
        job = self._ctx.claimed
        before = read_run(self._ctx.last_checkpoint, job, self._executor.name)
        if before is not None and before.ended is not None and before.ended.get("how") == RETURNED:
            return _result(RemoteEnding(json.dumps(dict(before.ended))))
        if before is not None and before.is_open:
            self._run = before
            self._say(f"following {before.name} on {before.executor}, which an earlier attempt has started")
        else:
            self._run = RemoteRun(self._executor.name, remote_name(job), job.id, self._clock.now())
            await self._store(self._run)
            self._say(f"runs as {self._run.name} on {self._run.executor}")
        left = self._time_left()
        limit = asyncio.timeout(left)
        try:
            async with limit:
                return await self._follow(left)
        except TimeoutError:
            if not limit.expired():
                raise
            stopped = await self._stop()
            whole = timedelta(seconds=time_limit(self._handler, job) or 0)
            raise TimeUp(f"timed_out: over {whole}; {stopped}") from None
        except asyncio.CancelledError:
            if getattr(self._ctx, "stop_reason", "") != "cancelled":
                raise  # the worker ends or has lost the lease: the next attempt follows the call
            raise Cancel(f"cancelled on request; {await self._stop()}") from None

    def _time_left(self) -> float | None:
        limit = time_limit(self._handler, self._ctx.claimed)
        spent = (self._clock.now() - self._run.submitted_at).total_seconds()
        return None if limit is None else max(0.0, limit - spent)

    async def _follow(self, left: float | None) -> Any:
        handle = await self._submit(left)
        progress: Any = None
        while True:
            status = await self._reach(lambda: self._executor.wait(handle, SLICE))
            if status.progress is not None and status.progress != progress:
                progress = status.progress
                with suppress(HoraeError):  # a lost lease is noticed elsewhere; a store that is away may come back
                    await self._ctx.progress_async(progress)
            if status.state == "ended":
                return await self._collect(handle)
            if status.state == "gone":
                await self._store(replace(self._run, ended={"how": "lost"}))
                detail = f": {status.detail}" if status.detail else ""
                raise Reported(
                    f"RemoteLost: {self._executor.name} does not know {self._run.name} (any more), so how it ended "
                    f"is not known{detail}"
                )

    async def _submit(self, left: float | None) -> Handle:
        """Return the handle of the call; submit it first unless an earlier attempt has stored one."""
        if self._run.handle is not None:
            return self._run.handle
        job = self._ctx.claimed
        timeout = None if left is None else timedelta(seconds=left)
        call = RemoteCall(self._run.name, job.id, self._ctx.attempt, self._document(), timeout)
        handle = await self._reach(lambda: self._executor.submit(call), is_submit=True)
        self._run = replace(self._run, handle=dict(handle))
        await self._store(self._run)
        return handle

    def _document(self) -> str:
        if self._handler.function.__module__ == "__main__":
            raise Reported(str(ConfigurationError("remote_handler_in_main", handler=self._handler.name)), is_final=True)
        return call_document(self._handler, self._ctx.claimed, self._max_bytes)

    async def _collect(self, handle: Handle) -> Any:
        """Store how the call ended, let the cluster forget it, and return its result or raise its error."""
        ending = await self._reach(lambda: self._executor.collect(handle))
        self._keep_lines(ending)
        known = json.loads(ending.ending) if ending.ending is not None else {"how": "died"}
        kept = known if known["how"] == RETURNED else {"how": known["how"]}
        with suppress(InvalidPayload):  # a result just as long as is allowed; then only a crash now repeats the call
            await self._store(replace(self._run, ended=kept))
        try:
            await self._within(CALL_LIMIT, lambda: self._executor.cancel(handle))
        except Exception as problem:
            self._warn("has ended, but %s could not be told to forget it: %s", problem)
        return _result(ending)

    # -- stopping ------------------------------------------------------------------------------------------------

    async def _stop(self) -> str:
        """Stop the call; return in words whether it is known to have stopped."""
        try:
            async with asyncio.timeout(STOP_LIMIT):
                handle = await self._handle_to_stop()
                with suppress(Exception):
                    self._keep_lines(await self._within(LAST_LINES, lambda: self._executor.collect(handle)))
                await self._reach(lambda: self._executor.cancel(handle))
        except Exception as problem:
            self._warn("could not be stopped on %s and may still run: %s", problem)
            return f"{self._executor.name} did not stop {self._run.name} in time, and it may still run there"
        with suppress(HoraeError):
            await self._store(replace(self._run, ended={"how": "stopped"}))
        return f"{self._executor.name} has stopped it"

    async def _handle_to_stop(self) -> Handle:
        """Return the handle, also of a call that is just being submitted or whose submission is not known."""
        if self._run.handle is not None:
            return self._run.handle
        if self._submitting is not None:
            with suppress(ExecutorUnavailable):
                return await asyncio.shield(self._submitting)
        call = RemoteCall(self._run.name, self._ctx.job_id, self._ctx.attempt, self._document(), timedelta(0))
        return await self._reach(lambda: self._executor.submit(call))  # finds what an earlier attempt has started

    # -- asking --------------------------------------------------------------------------------------------------

    async def _reach(self, work: Callable[[], T], *, is_submit: bool = False) -> T:
        """Ask the executor, again and again while it is away; then put the attempt back."""
        pause, began = FIRST_PAUSE, self._clock.monotonic()
        while True:
            try:
                return await self._within(CALL_LIMIT, work, is_submit=is_submit)
            except ExecutorUnavailable as problem:
                if self._clock.monotonic() - began > self._away_limit:
                    raise Snooze(PUT_BACK, f"{self._executor.name} does not answer: {problem}") from problem
                await self._clock.pause_async(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    async def _within(self, limit: float, work: Callable[[], T], *, is_submit: bool = False) -> T:
        asking: asyncio.Future[T] = self._threads.submit(work)
        asking.add_done_callback(ignore_result)  # also of one that is abandoned below
        if is_submit:
            self._submitting = cast("asyncio.Future[Handle]", asking)
        done, _ = await asyncio.wait([asking], timeout=limit)
        if done:
            return asking.result()
        raise ExecutorUnavailable("executor_silent", executor=self._executor.name, seconds=f"{limit:g}")

    async def _store(self, run: RemoteRun) -> None:
        await self._ctx.checkpoint_async(run.as_checkpoint())

    def _keep_lines(self, ending: RemoteEnding) -> None:
        for level, text in ending.lines:
            self._ctx.write_line(level, text)

    def _say(self, text: str) -> None:
        self._ctx.write_line("INFO", text)

    def _warn(self, text: str, problem: BaseException) -> None:
        job = self._ctx.claimed
        log.warning(
            f"%s: %s {text}", job.id, self._run.name, self._executor.name, error_line(problem), extra=job_fields(job)
        )


def call_document(handler: Handler, job: Job, max_bytes: int) -> str:
    """Return a call as the other side reads it: the names of a module and a function, and the job."""
    return json.dumps(
        {
            "name": handler.name,
            "module": handler.function.__module__,
            "qualname": handler.function.__qualname__,
            "takes_context": handler.takes_context,
            "max_bytes": max_bytes,
            "job": job_as_json(replace(job, checkpoint=None)),
        }
    )


def _result(ending: RemoteEnding) -> Any:
    """Return the result of a call, or raise what its handler raised."""
    if ending.ending is None:
        code = "" if ending.exit_code is None else f" (exit code {ending.exit_code})"
        raise Reported(f"RemoteDied: {ending.error or 'its process left no ending'}{code}")
    known = json.loads(ending.ending)
    match known["how"]:
        case "snoozed":
            raise Snooze(timedelta(seconds=known["seconds"]), known["error"])
        case "cancelled":
            raise Cancel(known["error"])
        case "raised":
            raise Reported(known["error"], is_final=known["final"])
    return NotKept(known["error"]) if known.get("error") else json.loads(known["result"])
