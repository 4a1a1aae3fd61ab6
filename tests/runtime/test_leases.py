"""Leases: kept by a thread of their own, and lost honestly."""

import asyncio
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from horae import Context, Horae
from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Enqueued
from horae.core.jobs.job import Job, Lease
from horae.errors import StoreUnavailable
from horae.ports.claims import Renewed
from horae.runtime.sources.store import StoreSource
from horae.runtime.worker.renewer import Renewer
from horae.runtime.worker.watchdog import LONGEST
from tests.runtime.serving import LIMIT, ended, outcomes, running, serving
from tests.support.waiting import eventually, pass_time, wait_until

LEASE = 4.0  # seconds: short enough to outlast in a test, long enough to be renewed in time by a busy machine


def block_until(event: threading.Event) -> None:
    """What no async handler should do."""
    wait_until(event.is_set)


def held_for_longer_than_its_lease(app: Horae, job: Enqueued) -> bool:
    held = app.get(job.id)
    if held.state != "running":
        return True  # the assertions that follow say what is wrong
    return held.started_at is not None and app.world.clock.now() - held.started_at > timedelta(seconds=LEASE * 1.2)


def test_a_handler_that_blocks_the_event_loop_longer_than_its_lease_keeps_it(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    started, go_on = threading.Event(), threading.Event()

    @app.job("block")
    async def block() -> str:
        started.set()
        block_until(go_on)
        return "kept"

    async def serve() -> None:
        async with serving(app, lease=LEASE):
            await ended(app, job)

    job = block.enqueue()
    worker = threading.Thread(target=lambda: asyncio.run(serve()))
    worker.start()
    assert started.wait(LIMIT)

    def outlived() -> bool:
        endings.lose_expired(app.world)  # what any other worker does all the time
        return held_for_longer_than_its_lease(app, job) and "has been blocked" in caplog.text

    wait_until(outlived)
    blamed = [record.getMessage() for record in caplog.records if "has been blocked" in record.getMessage()]
    go_on.set()
    worker.join(LIMIT)

    done = app.get(job.id)
    assert (done.result, done.attempt) == ("kept", 0)
    assert outcomes(app, job) == ["succeeded"]
    assert len(blamed) == 1
    assert "in block_until" in blamed[0]
    assert f"({job.id}.1)" in blamed[0]


async def test_nobody_is_blamed_while_handlers_wait_as_they_should(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job("wait")
    async def wait() -> None:
        await pass_time(2.5 * LONGEST.total_seconds())

    async with serving(app):
        await ended(app, wait.enqueue())

    assert "has been blocked" not in caplog.text


async def test_a_long_job_in_a_thread_keeps_its_lease(app: Horae) -> None:
    go_on = threading.Event()

    @app.job("long")
    def long() -> str:
        block_until(go_on)
        return "kept"

    async with serving(app, lease=LEASE):
        job = long.enqueue()
        await running(app, job)
        while not held_for_longer_than_its_lease(app, job):
            await asyncio.to_thread(endings.lose_expired, app.world)  # what any other worker does all the time
        go_on.set()
        await ended(app, job)

    assert outcomes(app, job) == ["succeeded"]


@pytest.mark.parametrize("kind", ["thread", "async"])
async def test_a_handler_whose_job_was_taken_away_is_told_and_its_result_does_not_count(app: Horae, kind: str) -> None:
    answer = threading.Event()

    def in_thread(ctx: Context) -> str:
        wait_until(lambda: ctx.cancelled)
        answer.set()
        return "too late"

    async def on_loop(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            answer.set()

    job = app.job("zombie")(in_thread if kind == "thread" else on_loop).enqueue()
    async with serving(app, slots=1, lease=0.6) as worker:
        held = await running(app, job)
        await asyncio.to_thread(endings.release, app.world, job.id, reason="an operator took it")
        await eventually(answer.is_set, "the handler's notice")
        await eventually(lambda: worker.counts["lost"] >= 1, "the free slot")

        assert app.get(job.id).token > held.token
        verbs.cancel(app.world, job.id)


async def test_progress_of_a_job_that_was_taken_away_is_refused(app: Horae) -> None:
    go_on = threading.Event()

    @app.job("zombie")
    def zombie(ctx: Context) -> None:
        if ctx.token == 1:
            go_on.wait(20)
            ctx.progress(1)

    async with serving(app, slots=1) as worker:
        job = zombie.enqueue()
        await running(app, job)
        await asyncio.to_thread(endings.release, app.world, job.id)
        go_on.set()
        await ended(app, job)

        assert app.get(job.id).progress is None
        assert worker.counts["stale"] == 1


class Fickle:
    """A store whose renewals fail for a while."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.problem: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def renew(self, leases: Iterable[Lease], *, until: datetime) -> Renewed:
        if self.problem is not None:
            raise self.problem
        renewed: Renewed = self._store.renew(leases, until=until)
        return renewed


class Watch:
    """A clock whose durations the test decides."""

    def __init__(self, clock: Any) -> None:
        self.now, self.steady, self.pause, self.pause_async = clock.now, clock.steady, clock.pause, clock.pause_async
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize("problem", [StoreUnavailable("away"), RuntimeError("a bug of ours")])
def test_the_renewer_outlives_every_failure_and_knows_when_a_lease_has_run_out(app: Horae, problem: Exception) -> None:
    fates: list[tuple[str, str]] = []
    job = _claimed(app)
    fickle, watch = Fickle(app.world.store), Watch(app.world.clock)
    world = type(app.world)(fickle, watch, app.world.dice)
    renewer = Renewer(
        StoreSource(world),
        world.clock,
        timedelta(seconds=30),
        lambda job, stop_reason: fates.append((job.id, stop_reason)),
    )
    renewer.hold([job])

    fickle.problem, watch.seconds = problem, 11
    renewer.round()
    assert fates == []
    fickle.problem, watch.seconds = None, 22
    renewer.round()
    assert fates == []
    fickle.problem, watch.seconds = problem, 53
    renewer.round()
    assert fates == [(job.id, "lost")]


def test_short_jobs_are_never_renewed(app: Horae) -> None:
    job = _claimed(app)
    fickle, watch = Fickle(app.world.store), Watch(app.world.clock)
    fickle.problem = AssertionError("renewed")
    world = type(app.world)(fickle, watch, app.world.dice)
    renewer = Renewer(StoreSource(world), world.clock, timedelta(seconds=30), lambda job, stop_reason: None)
    renewer.hold([job])

    watch.seconds = 9
    renewer.step()
    renewer.drop(job)
    watch.seconds = 100
    renewer.step()


def _claimed(app: Horae) -> Job:
    app.job("held")(lambda: None).enqueue()
    (job,) = claims.pull(app.world, worker_id="test")
    return job
