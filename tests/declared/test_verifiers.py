"""Verifiers of an application: what they see, what they may answer, and what becomes of the object when they cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from horae import Attend, Blueprint, Context, Horae, ObjectToVerify, Verdict
from horae.actions.budgets.repair import check as check_budgets
from horae.actions.governance.agent_answers import come_due
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.keeper import do_unclaimed
from horae.actions.jobs import jobs
from horae.api.governance.object_values import GovernedObject
from horae.attention import Attention, Done, Fail, Wait
from horae.core.governance.answers import answer_from
from horae.core.jobs.job import Filter
from horae.core.jobs.machinery import ASK, MACHINERY
from horae.errors import DefinitionError, InvalidInput
from horae.testing import Lab
from tests.support.refusals import refused

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
CONFIRMED = {"verdict": "confirmed", "evidence": ["web:1"]}


@pytest.fixture
def app() -> Horae:
    return Horae("sqlite://")


@asynccontextmanager
async def lab_of(app: Horae) -> AsyncIterator[Lab]:
    """A lab at whose end the invariants hold: those of objects, and those of budgets."""
    async with Lab(app) as lab:
        yield lab
        assert [str(each) for each in check_objects(lab.world)] == []
        assert lab.world.store.read(check_budgets) == []


def a_memory(app: Horae, content: str = "Ann likes tea", **fields: Any) -> GovernedObject:
    return app.objects.propose("memory", content, **({"subject": "Ann", "evidence": ["chat:1"]} | fields))


def now_of(app: Horae, it: GovernedObject) -> GovernedObject:
    return app.objects.get(it.id, kind=it.kind)


def verbs_of(app: Horae, it: GovernedObject) -> list[str]:
    return [each.verb for each in reversed(list(app.objects.history(it.id)))]


def last_of(app: Horae, it: GovernedObject) -> Any:
    return next(iter(app.objects.history(it.id)))


# -- what a verifier sees and answers ----------------------------------------------------------------------------------


async def test_a_verifier_sees_the_object_with_content_evidence_and_action(app: Horae) -> None:
    seen: list[ObjectToVerify] = []

    @app.verifier("memory")
    def look(memory: ObjectToVerify) -> Verdict:
        seen.append(memory)
        return Verdict.confirmed(evidence=["web:1"], confidence=0.9)

    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.settle()
        after, last = now_of(app, it), last_of(app, it)

    (memory,) = seen
    assert (memory.id, memory.content, memory.action, memory.subject) == (it.id, "Ann likes tea", "verify", "Ann")
    assert [each.reference for each in memory.evidence] == ["chat:1"]
    assert (after.status, after.next_action) == ("verified", "revalidate")
    assert last.after["verifier"] == f"{__name__}.{vars(look)['__qualname__']}"


async def test_a_verifier_may_be_async_and_ask_for_the_context(app: Horae) -> None:
    @app.verifier("memory")
    async def look(ctx: Context, memory: ObjectToVerify) -> dict[str, Any]:
        await asyncio.to_thread(len, memory.content or "")
        return {"verdict": "refuted", "evidence": [f"run:{ctx.attempt}"]}

    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.settle()
        assert now_of(app, it).status == "quarantine"


async def test_a_verifier_of_one_kind_leaves_the_others_to_the_stored_evidence(app: Horae) -> None:
    @app.verifier("cognition")
    def look(cognition: ObjectToVerify) -> Verdict:
        raise AssertionError("it is about memories here")

    async with lab_of(app) as lab:
        with_evidence, without = a_memory(app), a_memory(app, "Ann likes coffee", evidence=[])
        await lab.settle()

        assert now_of(app, with_evidence).status == "verified"
        assert (now_of(app, without).status, now_of(app, without).inconclusives) == ("candidate", 1)
        assert last_of(app, without).after["verifier"] == "built-in"


async def test_a_verifier_is_not_asked_where_time_alone_decides(app: Horae) -> None:
    asked: list[str] = []

    @app.verifier("memory")
    def look(memory: ObjectToVerify) -> Verdict:
        asked.append(memory.action)
        return Verdict.inconclusive()

    async with lab_of(app) as lab:
        it = a_memory(app, evidence=[])
        app.objects.conclude(it.id, "confirmed")
        await lab.advance(400 * DAY)
        after = now_of(app, it)

    assert set(asked) <= {"verify", "revalidate", "reinstate-check"}
    assert len(asked) < 10
    assert after.status in ("archived", "stale_uncertain")


async def test_a_verifier_of_a_blueprint_is_included(app: Horae) -> None:
    parts = Blueprint()

    @parts.verifier("experience")
    def look(experience: ObjectToVerify) -> Verdict:
        return Verdict.inconclusive(note="not now")

    app.include(parts)
    async with lab_of(app) as lab:
        it = app.objects.propose("experience", "Tea calms Ann", evidence=["chat:2"])
        await lab.settle()
        assert (now_of(app, it).status, last_of(app, it).reason) == ("candidate", "not now")
    assert look.app is app


async def test_a_job_about_an_object_that_is_kept_elsewhere_reaches_its_verifier(app: Horae) -> None:
    seen: list[ObjectToVerify] = []

    @app.verifier("memory")
    def look(memory: ObjectToVerify) -> Verdict:
        seen.append(memory)
        return Verdict.confirmed()

    async with lab_of(app) as lab:
        made = app.jobs.enqueue("govern", object_type="memory", object_id="m-1", action="verify", queue="governance")
        await lab.settle()
        assert lab.job(made.id).state == "succeeded"
        assert lab.job(made.id).result["verdict"] == "confirmed"
    assert [(each.id, each.stored, each.content) for each in seen] == [("m-1", False, None)]


# -- declarations ------------------------------------------------------------------------------------------------------


def two(first: Any, second: Any) -> Verdict:
    return Verdict.confirmed()


def endless(memory: Any) -> Any:
    yield memory


@pytest.mark.parametrize(("kind", "function", "options", "reason"), [
    ("dream", lambda memory: None, {}, "verifier_kind_unknown"),
    ("memory", two, {}, "verifier_parameters"),
    ("memory", endless, {}, "job_is_generator"),
    ("memory", lambda memory: None, {"timeout": 0}, "option_invalid"),
    ("memory", lambda memory: None, {"cost": {"tokens": -1}}, "option_invalid"),
    ("memory", lambda memory: None, {"cost": {"euros": 1}}, "option_invalid"),
])  # fmt: skip
def test_a_verifier_that_cannot_work_is_refused(
    app: Horae, kind: str, function: Callable[..., Any], options: dict[str, Any], reason: str
) -> None:
    with refused(DefinitionError, reason):
        app.verifier(kind, **options)(function)


def test_a_kind_has_one_verifier(app: Horae) -> None:
    app.verifier("memory")(lambda memory: Verdict.confirmed())
    with refused(DefinitionError, "job_declared_twice", handler="govern.memory"):
        app.verifier("memory")(lambda memory: Verdict.confirmed())


def test_a_verifier_is_called_like_the_function_it_is(app: Horae) -> None:
    @app.verifier("memory")
    def look(memory: Any) -> Verdict:
        return Verdict.refuted(note=memory)

    assert look("x").note == "x"


@pytest.mark.parametrize("given", [
    None, "confirmed", 7, [], {}, {"verdict": "sure"}, {"verdict": "confirmed", "evidence": "web:1"},
    {"verdict": "confirmed", "evidence": ["x"] * 101}, {"verdict": "confirmed", "evidence": ["x" * 501]},
    {"verdict": "confirmed", "confidence": 2}, {"verdict": "confirmed", "cost": {"tokens": 1.5}},
    {"verdict": "confirmed", "note": "x" * 4001}, {"verdict": "confirmed", "more": "x" * 10_000_000},
    {"attend": {"lane": "ops"}}, {"attend": {"lane": "ops", "kind": "x", "timeout": "soon"}},
    {"attend": {"lane": "ops", "kind": "x", "timeout": 60, "priority": 21}}, {"attend": []},
    {"attend": {"lane": "ops", "kind": "x", "timeout": 60}, "verdict": "confirmed"},
    {"attend": {"lane": "a/../tasks", "kind": "x", "timeout": 60}}, {"attend": {"lane": 1, "kind": "x", "timeout": 60}},
])  # fmt: skip
def test_an_answer_that_is_none_is_refused_in_words(given: Any) -> None:
    with pytest.raises(InvalidInput):
        answer_from(given)


# -- trouble -----------------------------------------------------------------------------------------------------------


def raises(memory: Any) -> Any:
    raise ConnectionError("the web is down")


async def hangs(memory: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("function", "error"), [
    (raises, "the web is down"), (hangs, "timed_out"), (lambda memory: None, "only verdict is needed"),
    (lambda memory: {"verdict": "x" * 10_000_000}, "Unknown verdict"), (lambda memory: object(), "only verdict"),
    (lambda memory: {"verdict": "confirmed", "evidence": [str(n) for n in range(100_000)]}, "at most 100"),
    (lambda memory: iter("verdict"), "only verdict is needed"),
])  # fmt: skip
async def test_an_error_is_a_retry_then_a_dead_letter_and_the_object_goes_on_ageing(
    app: Horae, function: Callable[..., Any], error: str
) -> None:
    app.verifier("memory", timeout=0.05 if function is hangs else 60)(function)
    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.settle()
        first = now_of(app, it)
        assert (first.status, first.stalled, verbs_of(app, it)[-1]) == ("candidate", False, "failed")
        assert error in (last_of(app, it).reason or "")

        await lab.advance(HOUR)
        after = now_of(app, it)
        dead = app.jobs.get(it.job or "")

    assert (dead.state, dead.attempt) == ("dead", 3)
    assert (after.status, after.stalled, after.inconclusives) == ("candidate", True, 0)
    assert after.next_action is not None
    assert after.job != it.job


async def test_what_is_stalled_recovers_with_the_next_verdict(app: Horae) -> None:
    answers: list[Any] = [None, None, None, CONFIRMED]
    app.verifier("memory")(lambda memory: answers.pop(0))
    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.advance(8 * DAY)
        after = now_of(app, it)
    assert (after.status, after.stalled) == ("verified", False)


async def test_a_worker_that_dies_with_its_verifier_is_followed_by_another(app: Horae) -> None:
    app.verifier("memory")(lambda memory: CONFIRMED)
    async with lab_of(app) as lab:
        lab.crash_next(at="settle.before")
        it = a_memory(app)
        await lab.advance(HOUR)
        assert now_of(app, it).status == "verified"
        assert "lost" in verbs_of(app, it)


async def test_a_process_without_the_verifier_leaves_its_jobs_to_the_one_that_has_it_for_an_hour(app: Horae) -> None:
    other = Horae("sqlite://", name="other")
    other.verifier("memory")(lambda memory: CONFIRMED)
    async with lab_of(app) as lab:
        with other.using_world(lab.world):
            other.declare_schedules()
        it = a_memory(app, evidence=[])
        await lab.settle()
        assert (now_of(app, it).inconclusives, last_of(app, it).reason) == (
            0, "the verifier of memory is in another process"
        )  # fmt: skip

        await lab.advance(2 * HOUR)
        assert (now_of(app, it).inconclusives, last_of(app, it).after["verifier"]) == (1, "built-in")


async def test_what_nobody_claims_for_an_hour_is_done_by_the_keeper_without_a_verifier(app: Horae) -> None:
    async with lab_of(app) as lab:
        it = a_memory(app)
        lab.clock.advance(HOUR)
        assert do_unclaimed(lab.world) == 1
        assert now_of(app, it).status == "verified"


# -- cost --------------------------------------------------------------------------------------------------------------


async def test_a_look_reserves_its_cost_and_pays_what_it_reports(app: Horae) -> None:
    @app.verifier("memory", cost={"tokens": 100})
    def look(memory: ObjectToVerify) -> Verdict:
        held.append(app.budgets.get("verify.memory", "tokens").reserved)
        return Verdict.confirmed(cost={"tokens": 40, "calls": 1})

    held: list[int] = []
    async with lab_of(app) as lab:
        app.budgets.set("verify.memory", "tokens", 1000)
        a_memory(app)
        await lab.settle()
        budget = app.budgets.get("verify.memory", "tokens")
    assert (held, budget.settled, budget.reserved) == ([100], 40, 0)


async def test_an_empty_budget_lets_objects_wait_and_room_lets_them_in(app: Horae) -> None:
    app.verifier("memory")(lambda memory: CONFIRMED)
    async with lab_of(app) as lab:
        app.budgets.set("verify.memory", "calls", 1)
        first, second = a_memory(app), a_memory(app, "Ann likes coffee")
        await lab.settle()
        assert [now_of(app, each).status for each in (first, second)] == ["verified", "candidate"]
        waits = now_of(app, second)
        assert waits.next_action_at == app.jobs.get(waits.job or "").run_at > lab.now

        app.budgets.set("verify.memory", "calls", 2)
        await lab.settle()
        assert now_of(app, second).status == "verified"


async def test_the_built_in_verifier_and_time_cost_nothing(app: Horae) -> None:
    async with lab_of(app) as lab:
        app.budgets.set("verify.memory", "calls", 1)
        for n in range(3):
            a_memory(app, f"Ann likes tea {n}")
            await lab.settle()
        assert app.budgets.get("verify.memory", "calls").settled == 0


async def test_budgets_of_an_agent_and_of_all_agents_hold_together(app: Horae) -> None:
    app.verifier("memory")(lambda memory: CONFIRMED)
    async with lab_of(app) as lab:
        app.budgets.set("verify.memory/bob", "calls", 0)
        bob, ann = a_memory(app, agent="bob"), a_memory(app, "Ann likes coffee", agent="ann")
        await lab.settle()
        assert [now_of(app, each).status for each in (bob, ann)] == ["candidate", "verified"]


# -- an agent that thinks ----------------------------------------------------------------------------------------------


def thinking(app: Horae, timeout: float = 3600) -> Attention:
    """An agent whose lane verifiers of memories ask; its cognition is the test's."""
    app.verifier("memory")(lambda memory: Attend("ops", "check", timeout, payload={"why": "it says so"}))
    return Attention("ops", app)


async def drive(agent: Attention) -> None:
    await agent.driver().until_idle()


async def test_an_agent_thinks_and_its_answer_ends_the_job(app: Horae) -> None:
    agent = thinking(app)
    seen: list[Any] = []

    @agent.cognition("check")
    def check(turn: Any) -> Done:
        seen.append(turn.payload)
        return Done({"verdict": "confirmed", "evidence": ["web:9"], "cost": {"calls": 3}})

    async with lab_of(app) as lab:
        app.budgets.set("verify.memory", "calls", 100)
        it = a_memory(app)
        await lab.settle()
        waits = now_of(app, it)
        assert (waits.status, waits.next_action_at) == ("candidate", lab.now + HOUR)
        (task,) = agent.snapshot().backlog
        assert task.base <= 20

        await drive(agent)
        after = now_of(app, it)
        assert (after.status, app.jobs.get(it.job or "").state) == ("verified", "succeeded")
        assert last_of(app, it).after["verifier"] == "lane/ops"
        assert app.budgets.get("verify.memory", "calls").settled == 1 + 3
    (payload,) = seen
    assert (payload["object"]["content"], payload["action"]) == ("Ann likes tea", "verify")
    assert payload["payload"] == {"why": "it says so"}


async def test_silence_is_inconclusive_and_the_question_is_taken_back(app: Horae) -> None:
    agent = thinking(app)
    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.advance(HOUR)
        after = now_of(app, it)
        assert (after.status, after.inconclusives, last_of(app, it).reason) == (
            "candidate", 1, "ops did not answer in time"
        )  # fmt: skip
        assert agent.snapshot().backlog == ()


@pytest.mark.parametrize("ends", [
    lambda turn: Fail("I cannot"), lambda turn: Done({"verdict": "sure"}), lambda turn: Done(None),
    lambda turn: Done({"attend": {"lane": "ops", "kind": "check", "timeout": 60}}),
])  # fmt: skip
async def test_a_task_that_fails_or_answers_garbage_is_a_failed_attempt_and_asked_anew(app: Horae, ends: Any) -> None:
    agent = thinking(app)
    agent.cognition("check")(ends)
    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.settle()
        await drive(agent)
        after, job = now_of(app, it), lab.job(it.job or "")
        assert (after.inconclusives, job.attempt, job.state) == (0, 1, "queued")

        for _ in range(2):
            await lab.advance(job.retry.delay * 4)
            await drive(agent)
        assert (app.jobs.get(it.job or "").state, now_of(app, it).stalled) == ("dead", True)


async def test_a_cancelled_task_is_inconclusive_at_once(app: Horae) -> None:
    agent = thinking(app)
    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.settle()
        (task,) = agent.snapshot().backlog
        agent.cancel(task.id, reason="not worth it")
        assert (now_of(app, it).inconclusives, app.jobs.get(it.job or "").state) == (1, "succeeded")


async def test_evidence_that_comes_while_an_agent_thinks_overtakes_its_answer(app: Horae) -> None:
    agent = thinking(app)
    answers = 0

    @agent.cognition("check")
    def check(turn: Any) -> Done | Wait:
        nonlocal answers
        answers += 1
        return Done({"verdict": "refuted" if len(turn.payload["object"]["evidence"]) == 1 else "confirmed"})

    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.settle()
        app.objects.evidence(it.id, ["chat:2"])
        await drive(agent)
        assert now_of(app, it).status == "candidate", "the answer was about less than is known now"

        await lab.settle()
        await drive(agent)
        assert (now_of(app, it).status, answers) == ("verified", 2)


async def test_a_question_ends_with_the_uncertainty_of_its_object(app: Horae) -> None:
    app.verifier("cognition")(lambda it: Attend("ops", "check", 20 * DAY))
    async with lab_of(app) as lab:
        it = app.objects.propose("cognition", "Ann is calm", subject="Ann")
        await lab.settle()
        assert now_of(app, it).next_action_at == it.uncertain_until


async def test_a_question_that_is_put_twice_is_one_task(app: Horae) -> None:
    """A process that dies after it has put the question, before its job is ended, leaves the job to another one."""
    agent = thinking(app)
    async with lab_of(app) as lab:
        a_memory(app)
        await lab.settle()
        (asked,) = jobs.find(lab.world, Filter(queue=MACHINERY, handler=ASK, machinery=True))
        come_due(lab.world, asked.payload)
        assert len(agent.snapshot().backlog) == 1


async def test_a_worker_that_dies_before_its_question_is_kept_asks_again_once(app: Horae) -> None:
    agent = thinking(app)
    agent.cognition("check")(lambda turn: Done(CONFIRMED))
    async with lab_of(app) as lab:
        lab.crash_next(at="settle.before")
        it = a_memory(app)
        await lab.advance(timedelta(minutes=2))
        assert len(agent.snapshot().backlog) == 1
        await drive(agent)
        assert now_of(app, it).status == "verified"


async def test_an_erased_object_takes_no_answer(app: Horae) -> None:
    agent = thinking(app)
    agent.cognition("check")(lambda turn: Done(CONFIRMED))
    async with lab_of(app) as lab:
        it = a_memory(app)
        await lab.settle()
        app.acting_as("user/carol").objects.erase(it.id, reason="asked to")
        await drive(agent)
        assert now_of(app, it).status == "retracted"
