"""``ctx.step``: looked up, run outside any transaction, stored fenced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from horae import Context, Horae, Retry
from horae.actions.jobs import claims
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs import steps as step_verbs
from horae.actions.jobs.requests import Request
from horae.attention import Act, Attention, Done, Facts, Step, Turn
from horae.core.jobs.job import Lease
from horae.core.jobs.steps import KeptResult
from horae.errors import DefinitionError, InvalidPayload, LeaseLost, StoreUnavailable
from horae.runtime.steps import KeepsSteps, StepLog
from horae.testing import Lab
from tests.adapters.dying import deaths, kill, process
from tests.support.refusals import refused

AGAIN = Retry.fixed(1, attempts=3)


async def test_a_later_attempt_gets_the_result_and_does_not_run_the_step_again() -> None:
    ran: list[str] = []
    app = Horae("sqlite://")

    @app.job("order", retry=AGAIN)
    def order(ctx: Context) -> Any:
        paid = ctx.step("pay", lambda: {"receipt": 6 + len([ran.append("pay")])})  # type: ignore[func-returns-value]
        nothing = ctx.step("note", lambda: ran.append("note"))
        if ctx.attempt == 1:
            raise RuntimeError("the printer is on fire")
        return [paid, nothing]

    async with Lab(app) as lab:
        job = order.enqueue()
        await lab.advance(timedelta(minutes=1))
        assert lab.job(job).result == [{"receipt": 7}, None]
    assert ran == ["pay", "note"]


async def test_an_async_step_runs_on_the_loop_and_a_plain_one_beside_it() -> None:
    ran: list[str] = []
    app = Horae("sqlite://")

    async def think() -> str:
        ran.append("think")
        return "42"

    @app.job("answer", retry=AGAIN)
    async def answer(ctx: Context) -> Any:
        thought = await ctx.step_async("think", think)
        read = await ctx.step_async("read", lambda: len(ran))
        if ctx.attempt == 1:
            raise RuntimeError("once more")
        return [thought, read]

    async with Lab(app) as lab:
        job = answer.enqueue()
        await lab.advance(timedelta(minutes=1))
        assert lab.job(job).result == ["42", 1]
    assert ran == ["think"]


async def test_a_step_inside_once_is_refused_and_so_is_an_async_function_in_a_plain_step() -> None:
    refused: list[str] = []
    app = Horae("sqlite://")

    async def think() -> str:
        return "never"

    @app.job("wrong")
    def wrong(ctx: Context) -> None:
        for attempt in (
            lambda: ctx.once("booked", lambda _: ctx.step("charge", lambda: refused.append("it ran"))),
            lambda: ctx.step("think", think),
        ):
            with pytest.raises(DefinitionError) as error:
                attempt()
            refused.append(error.value.reason)

    async with Lab(app) as lab:
        job = wrong.enqueue()
        await lab.settle()
        assert lab.state_of(job) == "succeeded"
    assert refused == ["step_in_transaction", "step_is_async"]


async def test_a_result_that_cannot_be_stored_is_told_as_a_step_that_has_run() -> None:
    app, told = Horae("sqlite://"), []

    @app.job("send")
    def send(ctx: Context) -> None:
        for value in ({1, 2}, "x" * 2_000_000):
            with pytest.raises(InvalidPayload) as error:
                ctx.step("mail", lambda value=value: value)  # type: ignore[misc]
            told.append((error.value.reason, "has run, and its effect stands" in str(error.value)))

    async with Lab(app) as lab:
        job = send.enqueue()
        await lab.settle()
        assert lab.state_of(job) == "succeeded"
    assert told == [("step_not_storable", True)] * 2


def test_only_the_holder_of_the_job_reads_and_writes_its_steps(database_url: str) -> None:
    with Horae(database_url) as app:
        world = app.world
        verbs.enqueue(world, Request("order"))
        first = claims.pull(world, worker_id="w", limit=1)[0]
        lease = Lease(first.number, first.token)

        assert step_verbs.recall_step(world, lease, "pay") is None
        assert step_verbs.keep_step(world, lease, "pay", None) is None
        assert step_verbs.keep_step(world, lease, "pay", "second") is None, "the first result counts"
        assert step_verbs.recall_step(world, lease, "pay") == KeptResult(None)
        older = Lease(first.number, first.token - 1)
        with refused(LeaseLost, "lease_lost"):
            step_verbs.recall_step(world, older, "pay")
        with refused(LeaseLost, "lease_lost_after_step", step="mail"):
            step_verbs.keep_step(world, older, "mail", 1)


class Silent(KeepsSteps):
    """Steps over a store that does not answer when the result comes."""

    def step_log(self) -> StepLog:
        return self  # type: ignore[return-value]

    def recall(self, name: str) -> None:
        return None

    def keep(self, name: str, value: Any) -> Any:
        raise StoreUnavailable("database_not_reached", product="PostgreSQL", problem="gone")


def test_a_store_that_is_away_when_the_result_comes_leaves_the_effect_standing() -> None:
    ran: list[int] = []

    with refused(StoreUnavailable, "step_not_stored") as error:
        Silent().step("charge", lambda: ran.append(1))

    assert ran == [1]
    assert error.value.outcome_unknown


# -- an agent's actions and turns ----------------------------------------------------------------------------------


def shopper(app: Horae, effect: Callable[[str], Any]) -> Attention:
    agent = Attention("shop", app)

    @agent.action(effect="idempotent")
    def buy(step: Step, item: str) -> Facts:
        paid = step.step("pay", lambda: effect(f"pay {item}"))
        sent = step.step("send", lambda: effect(f"send {item}"))
        return Facts(paid=paid, sent=sent)

    @agent.cognition("order")
    async def order(turn: Turn) -> Any:
        if done := turn.facts.last("action_ok", "buy"):
            return Done(dict(done.data))
        item = await turn.step_async("choose", lambda: effect("choose"))
        return Act("buy", {"item": item})

    return agent


def live(app: Horae, effect: Callable[[str], Any]) -> None:
    agent = shopper(app, effect)
    agent.add("order", key="only")
    agent.run()


@pytest.mark.slow
def test_an_agent_that_dies_around_any_transaction_repeats_at_most_the_step_it_was_in(tmp_path: Path) -> None:
    done: list[str] = []
    seen = 0

    def effect(name: str) -> str:
        done.append(name)
        return name

    for where, file in deaths(tmp_path, lambda app: live(app, effect)):
        with process(file, life=1) as app:
            live(app, effect)
            agent = Attention("shop", app)
            assert agent.verify().is_sound, where
            assert agent.snapshot().is_idle, where
        counts = {name: done.count(name) for name in set(done)}
        assert sorted(counts) == ["choose", "pay choose", "send choose"], where
        assert sum(counts.values()) <= 4, f"{where}: {counts}"
        seen += sum(counts.values()) == 4
        done.clear()
    assert seen >= 3, "each of the steps was killed between its effect and its record once"


@pytest.mark.slow
def test_a_killed_agent_goes_on_where_its_steps_ended(tmp_path: Path) -> None:
    notes = tmp_path / "effects"
    for file in kill(tmp_path, lambda app: live(app, _noting(notes)), 45, 60):
        before = notes.read_text().split() if notes.exists() else []
        with process(file, life=1) as app:
            live(app, _noting(notes))
            assert Attention("shop", app).snapshot().is_idle
        after = notes.read_text().split()
        assert len(after) in (3, 4), f"{before} and then {after[len(before) :]}"
        notes.unlink()


def _noting(file: Path) -> Callable[[str], str]:
    def note(name: str) -> str:
        with file.open("a") as out:
            out.write(f"{name.replace(' ', '-')}\n")
        return name

    return note
