"""A worker whose own task is cancelled gives back what it runs; an attempt that cancels itself has failed."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae import Horae, Retry
from horae.actions.jobs.requests import Enqueued
from horae.errors import StoreUnavailable
from horae.runtime.worker.faults import Faults
from horae.runtime.worker.worker import Worker, WorkerSettings
from tests.runtime.fickle import fickle_world
from tests.runtime.serving import LIMIT, ended, outcomes, running, serving
from tests.support.waiting import eventually

NEVER = Retry.none()
PATIENT = WorkerSettings(grace=timedelta(seconds=LIMIT), cancel_grace=timedelta(seconds=LIMIT))


async def interrupted(worker: Worker, when: Any) -> None:
    """Run a worker, and cancel it when that has happened."""
    task = asyncio.create_task(worker.run())
    await when
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(task, LIMIT)
    assert task.cancelled()


def given_back(app: Horae, job: Enqueued) -> tuple[str, int, list[str]]:
    found = app.get(job.id)
    return found.state, found.attempt, outcomes(app, job)


@pytest.mark.parametrize("timeout", [None, 60])
async def test_an_interrupted_worker_gives_its_attempts_back(app: Horae, timeout: Any) -> None:
    @app.job("wait", retry=NEVER, timeout=timeout)
    async def wait() -> None:
        await asyncio.Event().wait()

    job = wait.enqueue()
    await interrupted(app.worker(PATIENT), running(app, job))

    assert given_back(app, job) == ("queued", 0, ["released"])


async def test_an_interrupted_worker_whose_handler_answers_with_an_error_gives_it_back_too(app: Horae) -> None:
    @app.job("wait", retry=NEVER)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("broken off") from None

    job = wait.enqueue()
    await interrupted(app.worker(PATIENT), running(app, job))

    assert given_back(app, job) == ("queued", 0, ["released"])


async def test_a_worker_interrupted_while_it_waits_for_its_jobs_gives_them_back(app: Horae) -> None:
    """The first Ctrl-C ends in order, the second interrupts that."""
    started = asyncio.Event()

    @app.job("wait", retry=NEVER)
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    job = wait.enqueue()
    worker = app.worker(PATIENT)

    async def stops() -> None:
        await started.wait()
        worker.stop()
        await eventually(lambda: worker._keeper.is_stopping, "the wait for its jobs")

    await interrupted(worker, stops())

    assert given_back(app, job) == ("queued", 0, ["released"])


class AfterTheClaim(Faults):
    """Lets something happen when a worker has claimed jobs, and has not begun to run them."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__("")
        self._happens = happens

    def at(self, point: str) -> None:
        if point == "claim.after":
            self._happens()


@pytest.mark.parametrize("everything", [False, True], ids=["the worker", "all tasks"])
async def test_an_attempt_whose_task_has_not_begun_when_its_worker_is_interrupted_goes_back(
    app: Horae, everything: bool
) -> None:
    """A task that is cancelled before its first step never runs a line, so nobody else would give its job back."""
    ran: list[int] = []
    job = app.job("work", retry=NEVER)(lambda: ran.append(1)).enqueue()
    worker = app.worker(PATIENT)
    mine = asyncio.current_task()
    task = asyncio.create_task(worker.run())

    def all_tasks() -> None:
        """As ``asyncio.run`` does after Ctrl-C."""
        for each in asyncio.all_tasks() - {mine}:
            each.cancel()

    loop = asyncio.get_running_loop()
    worker._faults = AfterTheClaim(lambda: loop.call_soon(all_tasks) if everything else task.cancel())
    await asyncio.wait([task], timeout=LIMIT)

    assert task.done()
    assert given_back(app, job) == ("queued", 0, ["released"])
    assert ran == []


async def interrupted_while_it_claims(app: Horae) -> None:
    world, store = fickle_world(app)
    claiming, go_on = threading.Event(), threading.Event()

    def slowly(*_: Any) -> None:
        claiming.set()
        go_on.wait(LIMIT)

    store.trouble["claim"] = slowly

    async def claims() -> None:
        await asyncio.to_thread(claiming.wait, LIMIT)
        asyncio.get_running_loop().call_later(0.05, go_on.set)

    with app.using_world(world):
        await interrupted(app.worker(PATIENT), claims())


async def test_what_an_interrupted_worker_was_just_claiming_goes_back_too(app: Horae) -> None:
    job = app.job("work", retry=NEVER)(lambda: None).enqueue()
    await interrupted_while_it_claims(app)
    assert given_back(app, job) == ("queued", 0, ["released"])


async def test_a_job_that_goes_back_before_it_began_costs_its_budget_nothing(app: Horae) -> None:
    app.budgets.set("llm", "tokens", 1000)
    job = app.job("work", budget="llm", cost={"tokens": 400}, retry=NEVER)(lambda: None).enqueue()
    await interrupted_while_it_claims(app)
    assert given_back(app, job) == ("queued", 0, ["released"])
    budget = app.budgets.get("llm", "tokens")
    assert (budget.settled, budget.reserved) == (0, 0)


async def test_an_ending_that_is_being_written_when_the_worker_is_interrupted_is_told_once_and_truly(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    """All tasks are cancelled at once, as ``asyncio.run`` does: also the one that writes."""
    world, store = fickle_world(app)
    writing, go_on = threading.Event(), threading.Event()

    def slowly(*_: Any) -> None:
        writing.set()
        go_on.wait(LIMIT)

    store.trouble["settle"] = slowly
    job = app.job("work", retry=NEVER)(lambda: "done").enqueue()
    with app.using_world(world):
        worker = app.worker(PATIENT)
        task = asyncio.create_task(worker.run())
        await asyncio.to_thread(writing.wait, LIMIT)
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        go_on.set()
        await asyncio.wait([task], timeout=LIMIT)

    assert (app.get(job.id).state, app.get(job.id).result, worker.counts["succeeded"]) == ("succeeded", "done", 1)
    assert "was refused" not in caplog.text


@pytest.mark.parametrize("timeout", [None, 60])
async def test_an_attempt_that_cancels_its_own_task_has_failed(app: Horae, timeout: Any) -> None:
    """Given back it would come again at once, for ever."""

    @app.job("cancel", retry=NEVER, timeout=timeout)
    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    async with serving(app):
        done = await ended(app, cancel.enqueue())

    assert (done.state, done.last_error) == ("dead", "CancelledError: the handler cancelled itself")


async def test_an_interrupted_worker_renews_nothing_any_more(app: Horae) -> None:
    worker = app.worker(PATIENT)
    await interrupted(worker, eventually(lambda: hasattr(worker, "_renewer") and worker._renewer.is_alive()))

    await eventually(lambda: not worker._renewer.is_alive(), "the end of the renewing thread")


async def test_a_worker_ends_what_the_application_provides(app: Horae) -> None:
    ended_ones: list[str] = []

    class Pool: ...

    def pool() -> Iterator[Pool]:
        yield Pool()
        ended_ones.append("pool")

    app.provide(Pool, pool)
    app.job("use")(lambda ctx: ctx.get(Pool) and None)
    job = app.enqueue("use")
    async with serving(app):
        await ended(app, job)
        assert ended_ones == []

    assert ended_ones == ["pool"]


async def test_running_inside_an_application_ends_in_peace_although_a_handler_cancelled_its_worker(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    mine = asyncio.current_task()

    @app.job("cancel", retry=NEVER)
    async def cancel() -> None:
        for task in asyncio.all_tasks() - {mine}:
            task.cancel()
        await asyncio.Event().wait()

    async with app.running() as hosted:
        job = await asyncio.to_thread(cancel.enqueue)
        await eventually(lambda: hosted._task.done(), "the end of the worker")

    assert given_back(app, job) == ("queued", 0, ["released"])
    assert "this worker was interrupted" in caplog.text


async def test_a_worker_that_ends_at_once_writes_what_has_ended_and_gives_back_the_rest(app: Horae) -> None:
    """From another thread, because the loop may be blocked; also endings that the store could not take yet."""
    world, store = fickle_world(app)
    started, go_on = threading.Event(), threading.Event()

    def stay() -> None:
        started.set()
        go_on.wait(LIMIT)

    stays = app.job("stay", retry=NEVER)(stay).enqueue()
    ends = app.job("end", retry=NEVER)(lambda: "done").enqueue()
    store.trouble["settle"] = lambda *_: StoreUnavailable("away")
    with app.using_world(world):
        worker = app.worker(WorkerSettings(grace=timedelta(0), cancel_grace=timedelta(seconds=1)))
        task = asyncio.create_task(worker.run())
        await eventually(lambda: started.is_set() and store.calls["settle"] > 0, "one that runs and one that has ended")
        worker.stop()
        del store.trouble["settle"]
        await asyncio.to_thread(worker.give_back_now)
        await asyncio.wait_for(task, LIMIT)
    go_on.set()

    assert given_back(app, stays) == ("queued", 0, ["released"])
    assert (app.get(ends.id).state, app.get(ends.id).result) == ("succeeded", "done")


async def test_a_worker_without_any_grace_ends_although_a_thread_goes_on(app: Horae) -> None:
    go_on, started = threading.Event(), threading.Event()

    def stay() -> None:
        started.set()
        go_on.wait(LIMIT)

    job = app.job("stay", retry=NEVER)(stay).enqueue()
    worker = app.worker(WorkerSettings(grace=timedelta(0), cancel_grace=timedelta(0)))
    task = asyncio.create_task(worker.run())
    await asyncio.to_thread(started.wait, LIMIT)
    worker.stop()
    try:
        await asyncio.wait_for(task, LIMIT)
    finally:
        go_on.set()

    await eventually(lambda: app.get(job.id).state == "queued", "the job to be given back")
