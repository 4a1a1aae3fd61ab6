"""Jobs that draw on a budget: what they reserve, spend and report, and when an empty one lets them come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae import BudgetEmpty, Context, Horae, Retry, Snooze
from horae.actions.budgets.repair import check
from horae.core.jobs.job import Filter
from horae.errors import DefinitionError, InvalidInput
from horae.runtime.worker.worker import WorkerSettings
from horae.service.options import Options
from horae.testing import Lab
from tests.support.refusals import refused
from tests.support.serving import Served, serving
from tests.support.waiting import eventually

DAY = timedelta(days=1)


@pytest.fixture
def app() -> Iterator[Horae]:
    with Horae("sqlite://") as made:
        yield made


def used(app: Horae) -> tuple[int, int]:
    """What is settled and reserved of the tokens; and everything adds up."""
    assert app.world.store.read(check) == []
    budget = app.budgets.get("llm", "tokens")
    return budget.settled, budget.reserved


# -- in the lab --------------------------------------------------------------------------------------------------------


async def test_a_job_costs_what_it_declares_unless_it_reports_something_else(app: Horae) -> None:
    @app.job("ask", budget="llm", cost={"tokens": 400}, retry=Retry.none())
    def ask(ctx: Context, real: int) -> None:
        if real:
            ctx.spent({"tokens": real})

    async with Lab(app) as lab:
        app.budgets.set("llm", "tokens", 10_000)
        ask.enqueue(real=0)
        await lab.settle()
        assert used(app) == (400, 0)
        ask.enqueue(real=150)
        await lab.settle()
        assert used(app) == (550, 0)
        ask.using(cost={"tokens": 7}).enqueue(real=0)
        await lab.settle()
        assert used(app) == (557, 0)


async def test_an_empty_budget_lets_a_job_begin_again_at_the_refill_from_its_checkpoint(app: Horae) -> None:
    pages: list[tuple[int, int]] = []

    @app.job("read", budget="llm", cost={"tokens": 0}, retry=Retry.none())
    async def read(ctx: Context) -> str:
        first = ctx.last_checkpoint or 0
        for page in range(first, 5):
            key = await ctx.spend_async({"tokens": 300}, key=f"page-{page}")
            pages.append((ctx.token, page))
            await ctx.spent_async({"tokens": 250}, key=key)
            await ctx.checkpoint_async(page + 1)
        return "done"

    async with Lab(app) as lab:
        app.budgets.set("llm", "tokens", 1000)
        job = read.enqueue()
        await lab.settle()

        waiting = app.jobs.get(job.id)
        assert (waiting.state, waiting.attempt, waiting.checkpoint) == ("queued", 0, 3)
        assert [run.outcome for run in app.jobs.runs(job.id)] == ["snoozed"]
        assert app.jobs.why(job.id)[0].code == "budget"
        assert used(app) == (750, 0)
        await lab.advance(DAY)

        assert app.jobs.get(job.id).state == "succeeded"
        assert [page for _, page in pages] == [0, 1, 2, 3, 4]
        assert used(app) == (500, 0)


async def test_a_budget_that_is_raised_lets_the_job_go_on_at_once(app: Horae) -> None:
    @app.job("ask", budget="llm", cost={"tokens": 400})
    def ask() -> None: ...

    async with Lab(app) as lab:
        app.budgets.set("llm", "tokens", 100)
        job = ask.enqueue()
        await lab.settle()
        assert app.jobs.get(job.id).state == "queued"

        app.budgets.set("llm", "tokens", 1000, reason="it was too small")
        await lab.settle()

        assert app.jobs.get(job.id).state == "succeeded"


async def test_a_scheduled_job_draws_on_its_budget(app: Horae) -> None:
    @app.job("digest", every=3600, budget="llm/editor", cost={"tokens": 400})
    def digest() -> None: ...

    async with Lab(app) as lab:
        app.budgets.set("llm", "tokens", 1000)
        app.budgets.set("llm/editor", "calls", 1)
        await lab.advance(timedelta(hours=2, minutes=30))

        assert app.budgets.get("llm/editor", "calls").settled == 1
        assert used(app) == (400, 0)
        [waiting] = app.world.store.read(lambda tx: tx.jobs.find(Filter(states=("queued",)), limit=9, before=None))
        assert waiting.last_error is not None
        assert waiting.last_error.startswith("budget_empty: llm/editor:calls:day")


async def test_lost_counts_as_spent(app: Horae) -> None:
    @app.job("ask", budget="llm", cost={"tokens": 400}, retry=Retry.none())
    def ask(ctx: Context) -> None:
        ctx.spend({"tokens": 100})

    async with Lab(app) as lab:
        app.budgets.set("llm", "tokens", 10_000)
        job = ask.enqueue()
        lab.crash_next(at="settle.before")
        await lab.settle()
        await lab.advance(timedelta(minutes=2))

        assert [run.outcome for run in app.jobs.runs(job.id)] == ["lost", "succeeded"]
        assert used(app) == (500, 0), "400 with the lost attempt, and the 100 that the second one says it spent"


def test_an_empty_budget_is_a_snooze_for_those_who_catch_it() -> None:
    assert issubclass(BudgetEmpty, Snooze)


def test_what_cannot_be_declared_is_refused(app: Horae) -> None:
    with refused(DefinitionError, "option_invalid"):
        app.job("a", cost={"tokens": 1})(lambda: None)
    with refused(DefinitionError, "option_invalid"):
        app.job("b", budget="llm", cost={"euros": 1})(lambda: None)
    with refused(DefinitionError, "option_invalid"):
        app.job("c", budget=5)(lambda: None)  # type: ignore[arg-type]


async def test_a_job_that_each_node_runs_for_itself_can_draw_on_no_budget(app: Horae) -> None:
    """Nobody admits it: it comes from no queue (S3-4)."""
    with refused(InvalidInput, "budget_on_all_nodes"):
        app.job("a", every=60, mode="ALL_NODES", budget="llm")(lambda: None)


# -- by real workers ---------------------------------------------------------------------------------------------------


async def served(app: Horae, runs: int) -> dict[str, int]:
    """Let a real worker serve until so many attempts have ended; how each ended."""
    worker = app.worker(WorkerSettings(queues={"default": 5}, grace=timedelta(seconds=5)))

    async def stop_when_done() -> None:
        await eventually(lambda: sum(worker.counts.values()) >= runs)
        worker.stop()

    async with asyncio.timeout(30):
        await asyncio.gather(worker.run(), stop_when_done())
    return dict(worker.counts)


def declare_spender(app: Horae) -> Any:
    @app.job("spend", budget="llm", cost={"tokens": 100}, retry=Retry.none())
    def spend(ctx: Context, amount: int) -> str:
        key = ctx.spend({"tokens": amount})
        ctx.spent({"tokens": amount - 10}, key=key)
        return key

    return spend


async def test_a_worker_settles_what_its_handlers_report(app: Horae) -> None:
    spend = declare_spender(app)
    app.budgets.set("llm", "tokens", 1000)
    job = spend.enqueue(amount=200)

    assert await served(app, 1) == {"succeeded": 1}

    assert app.jobs.get(job.id).result == "#1"
    assert used(app) == (190, 0)


async def test_what_a_worker_did_not_begin_is_given_back(app: Horae) -> None:
    """It knows no such handler, so that it puts the job off."""
    app.budgets.set("llm", "tokens", 1000)
    app.jobs.enqueue("unknown", budget="llm", cost={"tokens": 300})

    assert await served(app, 1) == {"snoozed": 1}

    assert used(app) == (0, 0)


@pytest.fixture
def service(sqlite_database_url: str) -> Iterator[Served]:
    with serving(sqlite_database_url, Options(version="test")) as running:
        yield running


async def test_a_worker_without_a_database_spends_through_its_service(
    service: Served, sqlite_database_url: str
) -> None:
    with Horae("sqlite:////nowhere/at/all.db", name="far") as app, Horae(sqlite_database_url) as house:
        app.use_service(service.url, service.token("system", "worker"))
        spend = declare_spender(app)
        house.budgets.set("llm", "tokens", 260)
        spend.enqueue(amount=150)
        spend.enqueue(amount=150)
        app.jobs.enqueue("unknown", budget="llm", cost={"tokens": 1})

        counts = await served(app, 3)

        assert counts == {"succeeded": 1, "snoozed": 2}
        assert used(house) == (140, 0)
