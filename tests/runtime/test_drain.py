"""A worker that was asked to drain, and what workers report of themselves."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae import Horae, Retry
from horae.api.queues import Worker
from horae.runtime.worker.heartbeat import Heartbeat, resident_bytes
from horae.runtime.worker.worker import WorkerSettings
from horae.service.options import Options
from horae.testing.clock import NOON
from tests.runtime.serving import LIMIT, ended, running, serving
from tests.support.serving import Served
from tests.support.serving import serving as serving_http
from tests.support.waiting import eventually, pass_time

SECOND = timedelta(seconds=1)


async def listed(app: Horae, state: str) -> Worker:
    """The only worker, once it reports this state."""

    def found() -> Worker | None:
        return next((each for each in app.workers.list() if each.state == state), None)

    worker: Worker = await eventually(found, f"a worker that is {state}")
    return worker


def stored_state(app: Horae) -> str:
    """What the only worker says of itself, whatever it was asked."""
    [node] = app.world.store.read(lambda tx: tx.nodes.all())
    return node.state


async def test_a_drained_worker_finishes_what_it_runs_and_claims_nothing_more_until_it_is_resumed(app: Horae) -> None:
    gate = threading.Event()
    work = app.job("work", retry=Retry.none())(lambda: gate.wait(LIMIT))
    async with serving(app) as worker:
        first = work.enqueue()
        await running(app, first)
        await listed(app, "running")
        app.workers.drain(worker.node_id, reason="repairs")
        await eventually(lambda: stored_state(app) == "draining", "the worker to see it")
        second = work.enqueue()
        gate.set()
        done = await ended(app, first)
        drained = await listed(app, "drained")
        await pass_time(0.2)
        waiting = app.get(second.id).state
        app.workers.resume(worker.node_id)
        also_done = await ended(app, second)
        await listed(app, "running")

    assert (done.state, waiting, also_done.state) == ("succeeded", "queued", "succeeded")
    assert (drained.running, drained.drain_reason) == (0, "repairs")


async def test_a_worker_that_is_asked_to_leave_ends_after_its_last_job(app: Horae) -> None:
    gate = threading.Event()
    work = app.job("work", retry=Retry.none())(lambda: gate.wait(LIMIT))
    worker = app.worker(WorkerSettings(queues={"default": 2}))
    job = work.enqueue()
    life = asyncio.create_task(worker.run())
    await listed(app, "running")
    app.workers.drain(worker.node_id, leave=True)
    await eventually(lambda: stored_state(app) == "draining", "the worker to see it")
    assert not life.done()
    gate.set()
    await asyncio.wait_for(life, LIMIT)

    assert app.get(job.id).state == "succeeded"
    assert app.workers.list() == ()


async def test_a_worker_reports_its_busy_slots_its_memory_and_its_lag(app: Horae) -> None:
    gate = threading.Event()
    work = app.job("work", retry=Retry.none())(lambda: gate.wait(LIMIT))
    job = work.enqueue()
    async with serving(app, slots=3):
        node = await listed(app, "running")
        gate.set()
        await ended(app, job)

    assert (node.busy, node.running, node.slots) == ({"default": 1}, 1, 3)
    assert node.memory == pytest.approx(resident_bytes(), rel=0.5)
    assert node.loop_lag is not None


def test_a_report_waits_for_its_time_or_for_news() -> None:
    told = Heartbeat(WorkerSettings(look_every=timedelta(seconds=60)), "n", NOON)
    assert told.is_due(NOON, "running", {})
    told.sent(told.node(NOON, "running", {"mail": 0}))

    assert not told.is_due(NOON + 30 * SECOND, "running", {})
    assert told.is_due(NOON + 54 * SECOND, "running", {})
    assert told.is_due(NOON, "draining", {})
    assert not told.is_due(NOON + 4 * SECOND, "running", {"mail": 1})
    assert told.is_due(NOON + 5 * SECOND, "running", {"mail": 1})
    assert told.longest_pause({}) == 60 * SECOND
    assert told.longest_pause({"mail": 1}) == 5 * SECOND


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving_http(sqlite_database_url, Options(version="test")) as running:
        yield running


@pytest.mark.slow
async def test_a_worker_over_http_is_drained_too(served: Served) -> None:
    with Horae("sqlite:////nowhere/at/all.db", name="far") as far:
        far.use_service(served.url, served.token("system", "admin"))
        work = far.job("work", retry=Retry.none())(lambda: "done")
        async with serving(far) as worker:
            await eventually(lambda: [each.id for each in far.workers.list()] == [worker.node_id], "it to be listed")
            far.workers.drain(worker.node_id)
            await listed(far, "drained")
            job = work.enqueue()
            far.workers.resume(worker.node_id)
            await eventually(lambda: far.jobs.get(job.id).state == "succeeded", "the job to run")
