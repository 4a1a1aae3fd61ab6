"""A worker that takes its jobs from a service and has no database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import horae
from horae import Context, Horae, Retry
from horae.actions.access.tokens import create_token, revoke_token
from horae.adapters.pydantic_ai import durable
from horae.api.jobs.remote import core_job
from horae.core.governance.budgets import JobBudget
from horae.core.jobs.job import Lease, Outcome
from horae.errors import (
    ConfigurationError,
    Forbidden,
    LeaseLost,
    NeedsDatabase,
    NotFound,
    ServiceUnavailable,
    StoreUnavailable,
)
from horae.limits import RateLimiter
from horae.runtime.worker.attempt_port import AttemptPort
from horae.runtime.worker.worker import WorkerSettings
from horae.service.options import Options
from horae.testing.builders import a_job
from tests.adapters.test_pydantic_ai import guide
from tests.support.refusals import refused
from tests.support.serving import Served, serving
from tests.support.waiting import eventually

SOON = timedelta(seconds=20)


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving(sqlite_database_url, Options(version="test")) as running:
        yield running


@pytest.fixture
def app(served: Served) -> Iterator[Horae]:
    made = Horae("sqlite:////nowhere/at/all.db", name="far")
    made.use_service(served.url, served.token("system", "worker"))
    with made:
        yield made


def settings(**options: Any) -> WorkerSettings:
    return WorkerSettings(queues={"default": 4}, grace=timedelta(seconds=5), **options)


def _has_ended(app: Horae, job_id: str) -> bool:
    return app.jobs.get(job_id).state not in ("queued", "running")


async def until_done(app: Horae, *ids: str, worker_settings: WorkerSettings | None = None) -> dict[str, Any]:
    """Run a worker until these jobs have ended; the jobs by their ids."""
    worker = app.worker(worker_settings or settings())
    running = asyncio.create_task(worker.run())
    try:
        await eventually(lambda: running.done() or all(_has_ended(app, job_id) for job_id in ids), "the end of them")
        return {job_id: app.jobs.get(job_id) for job_id in ids}
    finally:
        worker.stop()
        await running


def test_it_runs_what_the_service_has_and_opens_no_database(app: Horae) -> None:
    @app.job("add", retry=Retry.none())
    def add(ctx: Context, a: int, b: int) -> int:
        ctx.progress({"done": 1})
        ctx.checkpoint({"at": 1})
        return a + b

    made = add.enqueue(2, 3)
    job = asyncio.run(until_done(app, made.id))[made.id]

    assert (job.state, job.result, job.progress, job.checkpoint) == ("succeeded", 5, {"done": 1}, {"at": 1})


def test_it_tells_the_service_what_its_handlers_take(app: Horae, served: Served) -> None:
    @app.job("pay", retry=Retry.none(), sensitive=["iban"])
    def pay(iban: str) -> str:
        """Pay somebody."""
        return iban[:2]

    made = pay.enqueue("DE02")
    job = asyncio.run(until_done(app, made.id))[made.id]
    stored = {each.name: each for each in served.world.store.read(lambda tx: tx.definitions.all())}["pay"]

    assert (job.result, job.payload) == ("DE", {"iban": "[masked]"})
    assert (stored.sensitive, stored.app, stored.description) == (("iban",), "far", "Pay somebody.")
    assert [each.name for each in stored.parameters or ()] == ["iban"]


def test_it_tells_the_service_which_budget_tenants_draw_on(app: Horae, served: Served) -> None:
    @app.job("ask", retry=Retry.none(), budget="llm", cost={"tokens": 7}, tenants=True)
    def ask() -> None:
        """Ask somebody."""

    made = ask.enqueue()
    asyncio.run(until_done(app, made.id))

    [stored] = [each for each in served.world.store.read(lambda tx: tx.definitions.all()) if each.name == "ask"]
    assert stored.budget == JobBudget("llm", {"calls": 1, "tokens": 7})


def test_a_worker_of_a_tenant_declares_nothing_and_works(served: Served) -> None:
    with Horae("sqlite:////nowhere/at/all.db", name="hers") as app:
        app.use_service(served.url, served.token("alice", "worker", "tasks"))
        work = app.job("work", retry=Retry.none(), tenants=True)(lambda: "done")
        made = work.enqueue()
        job = asyncio.run(until_done(app, made.id))[made.id]

    assert job.result == "done"
    assert "work" not in [each.name for each in served.world.store.read(lambda tx: tx.definitions.all())]


def test_what_a_handler_enqueues_goes_to_the_same_service(app: Horae, served: Served) -> None:
    @app.job("second", retry=Retry.none())
    def second() -> str:
        return "second"

    @app.job("first", retry=Retry.none())
    def first() -> str:
        return second.using(key="only-once").enqueue().id

    made = first.enqueue()
    done = asyncio.run(until_done(app, made.id))[made.id]
    again = second.using(key="only-once").enqueue()

    assert (again.id, again.deduplicated) == (done.result, True)
    with horae.Client(served.url, served.token("system", "admin")) as client:
        assert client.jobs.get(done.result).handler == "second"


def test_a_failure_is_told_and_tried_again_by_the_policy_of_the_job(app: Horae) -> None:
    dead: list[str] = []

    @app.job("fails", retry=Retry.fixed(0, attempts=2))
    def fails() -> None:
        raise RuntimeError("out of paper")

    app.on_dead(lambda job: dead.append(job.id))
    made = fails.enqueue()
    job = asyncio.run(until_done(app, made.id))[made.id]

    assert (job.state, job.attempt) == ("dead", 2)
    assert "out of paper" in job.last_error
    assert dead == [made.id]


def test_a_job_that_is_asked_to_stop_stops(app: Horae, served: Served) -> None:
    began = threading.Event()

    @app.job("endless", retry=Retry.none())
    async def endless(ctx: Context) -> None:
        began.set()
        await ctx.until_cancelled()

    made = endless.enqueue()

    def cancel() -> None:
        assert began.wait(SOON.total_seconds())
        app.jobs.cancel(made.id)

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    job = asyncio.run(until_done(app, made.id))[made.id]
    cancelling.join()

    assert job.state == "cancelled"


def test_it_is_listed_among_the_workers_and_leaves_the_list(app: Horae, served: Served) -> None:
    with horae.Client(served.url, served.token("system", "admin")) as client:
        seen: list[str] = []

        @app.job("look", retry=Retry.none())
        def look() -> None:
            for _ in range(200):
                seen[:] = [worker.id for worker in client.workers.list()]
                if seen:
                    return

        made = look.enqueue()
        asyncio.run(until_done(app, made.id))

        assert len(seen) == 1
        assert client.workers.list() == ()


def test_a_step_over_http_runs_once_and_a_later_attempt_gets_its_result(app: Horae) -> None:
    ran: list[str] = []

    def charge() -> dict[str, int]:
        ran.append("charge")
        return {"id": 7}

    @app.job("steps", retry=Retry.fixed(0, attempts=3))
    async def steps(ctx: Context) -> list[Any]:
        charged = await ctx.step_async("charge/1#a", charge)
        nothing = await ctx.step_async("nothing", lambda: ran.append("nothing"))
        if ctx.attempt == 1:
            raise RuntimeError("died behind its steps")
        return [charged, nothing]

    made = steps.enqueue()
    job = asyncio.run(until_done(app, made.id))[made.id]

    assert (job.state, job.result, job.attempt) == ("succeeded", [{"id": 7}, None], 1)
    assert ran == ["charge", "nothing"]


def test_a_step_over_http_of_a_lost_lease_is_not_kept_and_says_that_it_has_run(app: Horae) -> None:
    @app.job("steps", retry=Retry.none())
    def steps(ctx: Context) -> None:
        """Have steps."""

    steps.enqueue()
    source = app.worker(settings()).source
    (first,) = app.jobs.claim("first", queues=["default"])
    lease = Lease(core_job(first).number, first.token)
    assert source.recall(lease, "charge") is None
    app.jobs.release(first.id, first.token)
    with pytest.raises(LeaseLost):
        source.recall(lease, "charge")
    with refused(LeaseLost, "lease_lost_after_step", step="charge"):
        source.keep(lease, "charge", 1)


def test_a_step_over_http_that_is_too_large_has_run_and_says_so(app: Horae) -> None:
    @app.job("steps", retry=Retry.none())
    def steps(ctx: Context) -> None:
        ctx.step("large", lambda: "x" * 2_000_000)

    made = steps.enqueue()
    job = asyncio.run(until_done(app, made.id))[made.id]

    assert job.state == "dead"
    assert "'large' has run" in job.last_error


def test_a_step_whose_result_the_service_does_not_take_says_that_it_has_run(app: Horae, served: Served) -> None:
    made, text = create_token(served.world, owner="system", scopes=("worker",))
    app.use_service(served.url, text)
    app.job("steps", retry=Retry.none())(lambda: None).enqueue()
    source = app.worker(settings()).source
    (job,) = app.jobs.claim("w", queues=["default"])
    ctx = Context(core_job(job), AttemptPort(source, None, None, SOON, served.world.clock))  # type: ignore[arg-type]
    with refused(StoreUnavailable, "step_not_stored", step="charge") as caught:
        ctx.step("charge", lambda: bool(revoke_token(served.world, made.token_id)))
    assert str(caught.value).count("has run") == 1


def test_a_tenants_worker_reaches_the_steps_of_its_own_jobs_alone(app: Horae, served: Served) -> None:
    held = app.job("held", retry=Retry.none())(lambda: None).enqueue()
    with horae.Client(served.url, served.token("system", "worker")) as system:
        (mine,) = system.jobs.claim("w", queues=["default"])
        assert system.jobs.keep_step(mine.id, mine.token, "charge", {"card": 4242}).value == {"card": 4242}
        assert system.jobs.keep_step(mine.id, mine.token, "charge", "another").value == {"card": 4242}
        with pytest.raises(LeaseLost):
            system.jobs.recall_step(mine.id, mine.token + 1, "charge")
    with horae.Client(served.url, served.token("alice", "worker")) as alice, pytest.raises(NotFound):
        alice.jobs.recall_step(held.id, mine.token, "charge")
    with horae.Client(served.url, served.token("system", "read")) as reader, pytest.raises(Forbidden):
        reader.jobs.keep_step(held.id, mine.token, "charge", 1)


def test_an_agent_of_pydantic_ai_is_durable_in_a_worker_over_http(app: Horae) -> None:
    done: list[str] = []
    thinker = guide(done.append)

    @app.job("ask", retry=Retry.fixed(0, attempts=3))
    async def ask(ctx: Context) -> str:
        with durable(ctx):
            output = (await thinker.run("How is the weather?")).output
        if ctx.attempt == 1:
            raise RuntimeError("died behind the model")
        return output

    made = ask.enqueue()
    job = asyncio.run(until_done(app, made.id))[made.id]

    assert (job.state, job.result) == ("succeeded", "sunny in Athens and sunny in Rome")
    assert done == ["request-1", "Athens", "Rome", "request-3"]


def test_what_takes_a_database_is_refused_where_it_is_used(app: Horae) -> None:
    @app.job("ledger", retry=Retry.none())
    def ledger(ctx: Context) -> None:
        ctx.once("charge", lambda connection: None)

    made = ledger.enqueue()
    job = asyncio.run(until_done(app, made.id))[made.id]

    assert (job.state, "NeedsDatabase" in job.last_error) == ("dead", True)
    with pytest.raises(NeedsDatabase):
        ledger.using(owner="alice").enqueue()
    with pytest.raises(NeedsDatabase):
        app.snapshot()
    with pytest.raises(NeedsDatabase), Horae("sqlite://").engine.connect() as connection:
        ledger.using(connection=connection).enqueue()


def test_what_takes_a_database_is_listed_before_a_worker_starts(app: Horae) -> None:
    @app.job("everywhere", cron="0 3 * * *", mode="ALL_NODES")
    def everywhere() -> None: ...

    @app.job("alone", cron="0 4 * * *", lock_ttl=60)
    def alone() -> None: ...

    @app.job("plain")
    def plain() -> None: ...

    assert sorted(each.where for each in app.needs_database()) == ["alone", "everywhere"]
    with pytest.raises(NeedsDatabase) as refused:
        app.worker()
    assert isinstance(refused.value, ConfigurationError)
    assert refused.value.code == "needs_database"
    app.locks = "memory"
    assert [each.where for each in app.needs_database()] == ["everywhere"]


def test_an_unreachable_service_is_told_once_and_nothing_is_lost(
    app: Horae, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = Horae("sqlite:////nowhere/at/all.db", name="lost")
    nowhere.use_service("http://127.0.0.1:9", "hk_none")
    with nowhere:
        worker = nowhere.worker(settings())

        async def for_a_while() -> None:
            running = asyncio.create_task(worker.run())
            await eventually(lambda: "the service does not answer" in caplog.text, "the warning")
            worker.stop()
            await running

        asyncio.run(for_a_while())
        with pytest.raises(ServiceUnavailable):
            worker.source.settle([(a_job("running"), Outcome("succeeded"))])
    assert caplog.text.count("the service does not answer") == 1


def test_a_rate_limit_in_the_database_is_listed(app: Horae) -> None:
    class InDatabase:
        in_database, shared = True, True

    app.limit_rate("default", RateLimiter(1, 1, calls=InDatabase()))  # type: ignore[arg-type]

    assert [each.where for each in app.needs_database()] == ["queue default"]


def test_a_handler_and_a_listener_see_the_public_job(app: Horae) -> None:
    seen: list[object] = []

    @app.job("shown", retry=Retry.none())
    def shown(ctx: Context) -> None:
        seen.append(ctx.job)
        raise RuntimeError("on purpose")

    app.on_dead(seen.append)
    made = shown.using(tags=["a"]).enqueue()
    asyncio.run(until_done(app, made.id))

    assert [type(each) for each in seen] == [horae.Job, horae.Job]
    assert [each.id for each in seen if isinstance(each, horae.Job)] == [made.id, made.id]
