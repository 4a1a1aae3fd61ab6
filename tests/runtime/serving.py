"""A worker in the test's own process, and how to wait for what it does."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from horae import Horae, Job
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Enqueued
from horae.runtime.worker.worker import Worker, WorkerSettings

LIMIT = 60.0  # seconds; how long anything may take on a slow machine before we call it never
LIVE = ("queued", "running")


@asynccontextmanager
async def serving(
    app: Horae,
    *,
    slots: int = 4,
    lease: float = 30.0,
    grace: float = 10.0,
    cancel_grace: float = 6.0,
    queues: dict[str, int] | None = None,
    batch: int = 500,
    look_every: float = 60.0,
) -> AsyncIterator[Worker]:
    """A worker for as long as the block runs; then it is stopped and has ended."""
    settings = WorkerSettings(
        queues=queues or {"default": slots},
        lease=timedelta(seconds=lease),
        grace=timedelta(seconds=grace),
        cancel_grace=timedelta(seconds=cancel_grace),
        batch=batch,
        look_every=timedelta(seconds=look_every),
    )
    worker = app.worker(settings)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, LIMIT)


async def until(predicate: Callable[[], Any], what: str = "it", within: float = LIMIT) -> Any:
    """The first true answer, asked for every few milliseconds; a failure when there is none in time."""
    ends = time.monotonic() + within
    while True:
        answer = predicate()
        if answer:
            return answer
        assert time.monotonic() < ends, f"{what} did not happen within {within:g} s"
        await asyncio.sleep(0.005)


async def ended(app: Horae, enqueued: Enqueued) -> Job:
    """The job, once it is succeeded, dead or cancelled."""

    def final() -> Job | None:
        job = app.get(enqueued.id)
        return None if job.state in LIVE else job

    job: Job = await until(final, f"the end of {enqueued.id}")
    return job


async def running(app: Horae, enqueued: Enqueued) -> Job:
    job: Job = await until(
        lambda: job if (job := app.get(enqueued.id)).state == "running" else None, f"the start of {enqueued.id}"
    )
    return job


def outcomes(app: Horae, enqueued: Enqueued) -> list[str]:
    """How each attempt ended, the oldest first."""
    return [run.outcome for run in verbs.runs(app.world, enqueued.id)]
