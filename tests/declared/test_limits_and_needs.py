"""Declared rates, stale timeouts and order: kept by the worker, named by refusals."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from horae import Context, Horae, RateLimiter, Retry
from horae.actions.jobs import jobs as verbs
from horae.errors import AlreadyRunning, ConfigurationError, DefinitionError
from horae.runtime.worker.worker import WorkerSettings
from horae.settings import stale_timeout
from horae.testing import Lab
from tests.support.refusals import refused
from tests.support.waiting import eventually


async def served(app: Horae, runs: int) -> dict[str, int]:
    """Let a real worker serve until so many attempts have ended; how each ended."""
    worker = app.worker(WorkerSettings(queues={"default": 5}))

    async def stop_when_done() -> None:
        await eventually(lambda: sum(worker.counts.values()) >= runs)
        worker.stop()

    async with asyncio.timeout(30):
        await asyncio.gather(worker.run(), stop_when_done())
    return dict(worker.counts)


async def test_a_definition_over_its_rate_waits_instead_of_running() -> None:
    app = Horae("sqlite://")

    @app.job("call", rate_limit=RateLimiter(2, 3600, name="provider"))
    async def call() -> None: ...

    call.enqueue_many([{}] * 5)

    assert await served(app, 5) == {"succeeded": 2, "snoozed": 3}


async def test_a_queue_over_its_rate_waits_and_says_why() -> None:
    app = Horae("sqlite://")
    app.limit_rate("default", RateLimiter(1, 3600))

    @app.job("call")
    async def call() -> None: ...

    jobs = call.enqueue_many([{}, {}])
    await served(app, 2)

    waiting = [app.get(job.id) for job in jobs if app.get(job.id).state == "queued"]
    assert [(job.last_error or "").split(":")[0] for job in waiting] == ["rate limit"]


async def test_a_job_runs_after_the_jobs_that_it_needs() -> None:
    app = Horae("sqlite://")
    order: list[str] = []

    @app.job("step")
    async def step(name: str) -> None:
        order.append(name)

    async with Lab(app) as lab:
        first = step.using(delay=60).enqueue(name="extract")
        other = step.using(delay=120).enqueue(name="transform")
        step.using(after=[first, other.id]).enqueue(name="load")
        await lab.settle()
        assert order == []

        await lab.advance(timedelta(minutes=3))

    assert order == ["extract", "transform", "load"]


async def test_what_was_cancelled_for_a_job_runs_after_it_was_revived() -> None:
    app = Horae("sqlite://")
    order: list[str] = []
    broken = True

    @app.job("step", retry=Retry.none())
    async def step(name: str) -> None:
        if name == "extract" and broken:
            raise ConnectionError("no")
        order.append(name)

    async with Lab(app) as lab:
        first = step.enqueue(name="extract")
        load = step.using(after=[first]).enqueue(name="load")
        step.using(after=[first], on_parent_dead="run").enqueue(name="report")
        await lab.settle()
        assert (order, app.get(load.id).state) == (["report"], "cancelled")

        broken = False
        verbs.revive(app.world, first.id)
        await lab.settle()

    assert order == ["report", "extract", "load"]


async def test_a_second_start_is_refused_while_the_first_shows_progress() -> None:
    """S4-22: a fresh one is refused with the running one's id."""
    app = Horae("sqlite://")
    refused: list[str] = []

    @app.job("sync", concurrency_key="sync:{kind}", stale_timeout=600)
    def sync(ctx: Context, kind: str) -> None:
        ctx.progress({"page": 1})
        try:
            app.enqueue("sync", kind=kind)
        except AlreadyRunning as problem:
            refused.append(problem.job_id)

    async with Lab(app) as lab:
        job = sync.enqueue(kind="daily")
        await lab.settle()

    assert refused == [job.id]


async def test_a_silent_one_is_closed_and_the_next_goes_on_from_its_checkpoint() -> None:
    """S4-21, S4-22: closed as lost, with its checkpoint handed on."""
    app = Horae("sqlite://")
    seen: list[object] = []

    @app.job("sync", concurrency_key="sync:{kind}", stale_timeout=600)
    def sync(ctx: Context, kind: str) -> None:
        seen.append(ctx.last_checkpoint)
        ctx.checkpoint({"page": 7})

    async with Lab(app) as lab:
        first = sync.enqueue(kind="daily")
        lab.crash_next(at="settle.before")
        await lab.settle()
        lab.clock.advance(timedelta(minutes=11))
        sync.enqueue(kind="daily")
        await lab.settle()

        outcomes = [run.outcome for run in lab.runs(first)]

    assert (seen, outcomes) == ([None, {"page": 7}], ["lost"])


def test_a_stale_timeout_of_nothing_is_refused() -> None:
    with refused(DefinitionError, "option_invalid", name="sync"):
        Horae("sqlite://").job("sync", stale_timeout=0)(lambda: None)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, timedelta(minutes=10)),
        ({"SYNC_TASK_STALE_TIMEOUT_MINUTES": "5"}, timedelta(minutes=5)),
        ({"HORAE_STALE_TIMEOUT_MINUTES": "0.5", "SYNC_TASK_STALE_TIMEOUT_MINUTES": "5"}, timedelta(seconds=30)),
    ],
)
def test_the_preset_of_document_004_comes_from_the_environment(
    environment: dict[str, str], expected: timedelta
) -> None:
    """S4-23: ten minutes unless the environment says otherwise."""
    assert stale_timeout(environment) == expected


@pytest.mark.parametrize("variable", ["HORAE_STALE_TIMEOUT_MINUTES", "SYNC_TASK_STALE_TIMEOUT_MINUTES"])
async def test_an_exclusive_job_is_let_past_a_silent_one_after_the_minutes_of_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-21, S4-22, S4-23, S4-27: its key is its own name unless it has one."""
    monkeypatch.setenv(variable, "3")
    app = Horae("sqlite://")

    @app.job("sync", exclusive=True)
    def sync(ctx: Context) -> None: ...

    async with Lab(app) as lab:
        first = sync.enqueue()
        lab.crash_next(at="settle.before")
        await lab.settle()
        lab.clock.advance(timedelta(minutes=2))
        with pytest.raises(AlreadyRunning) as refused:
            sync.enqueue()
        lab.clock.advance(timedelta(minutes=2))
        second = sync.enqueue()
        await lab.settle()

        assert refused.value.job_id == first.id
        assert [run.outcome for run in lab.runs(first)] == ["lost"]
        assert "stale" in (lab.runs(first)[0].error or "")
        assert lab.state_of(second) == "succeeded"


def test_an_exclusive_job_keeps_what_it_says_itself_and_its_schedule_obeys_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S4-23."""
    monkeypatch.setenv("SYNC_TASK_STALE_TIMEOUT_MINUTES", "3")
    app = Horae("sqlite://")
    own = app.job("own", exclusive=True, stale_timeout=60, concurrency_key="sync:{kind}")(lambda kind: None).definition
    timed = app.job("timed", exclusive=True, every=300)(lambda: None).definition
    plain = app.job("plain")(lambda: None).definition

    assert (own.stale_timeout, own.concurrency_key) == (timedelta(minutes=1), "sync:{kind}")
    assert timed.schedule is not None
    assert timed.schedule.stale_timeout == timedelta(minutes=3)
    assert (plain.stale_timeout, plain.concurrency_key) == (None, None)
    assert app.problems() == []
    with refused(DefinitionError, "exclusive_with_limit"):
        app.job("many", exclusive=True, concurrency_limit=2)(lambda: None)


def test_a_preset_that_is_no_number_is_refused() -> None:
    with refused(ConfigurationError, "setting_invalid", name="SYNC_TASK_STALE_TIMEOUT_MINUTES"):
        stale_timeout({"SYNC_TASK_STALE_TIMEOUT_MINUTES": "soon"})


@pytest.mark.parametrize("name", ["HORAE_TASK_INTERVAL_MIN_SECONDS", "SCHEDULED_TASK_INTERVAL_MIN_SECONDS"])
def test_workers_take_the_shortest_interval_of_tasks_from_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-29, S1-32: ten seconds unless it says otherwise; a mistake in another variable does not matter here."""
    monkeypatch.setenv("HORAE_PORT", "nonsense")
    with Horae("sqlite://") as app:
        assert app.world.shortest_interval == timedelta(seconds=10)
    monkeypatch.setenv(name, "300")
    with Horae("sqlite://") as app:
        assert app.world.shortest_interval == timedelta(minutes=5)
