"""Cognitions and actions that raise what no code should raise, or answer what nobody can use; with the real driver."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae import Horae
from horae.attention import Act, Attention, Control, Done, Facts, Fail, Pending, Turn, Yield
from horae.core.attention.directives import Directive
from horae.core.jobs.payloads import decode
from horae.errors import DefinitionError
from horae.testing.clock import VirtualClock
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)


class ExitsWhenPrinted(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)


POISON = [
    asyncio.CancelledError, functools.partial(SystemExit, 3), KeyboardInterrupt, GeneratorExit,
    functools.partial(BaseException, "odd"), ExitsWhenPrinted, Endless, StopIteration,
]  # fmt: skip
NAMES = ["CancelledError", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException", "exits", "endless",
         "StopIteration"]  # fmt: skip
poisons = pytest.mark.parametrize("poison", POISON, ids=NAMES)
both_ways = pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def agent(clock: VirtualClock) -> Iterator[Attention]:
    with Horae("sqlite://", clock=clock) as app:
        yield Attention("ops", app)


def plain_or_async(function: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return coroutine if is_async else function


def run_through(agent: Attention, clock: VirtualClock) -> None:
    """All that can be done now, and again after each rest that a failure costs."""
    for _ in range(5):
        agent.run()
        clock.advance(MINUTE)


def ended(agent: Attention, task_id: str) -> tuple[str, str]:
    found = agent.world.store.read(lambda tx: tx.attention.tasks(1, limit=100))
    task = next(task for task in found if task.id == task_id)
    return task.state, task.reason or ""


def facts_of(agent: Attention, kind: str) -> list[dict[str, Any]]:
    """Return the facts that cognition of tasks "act" got, and ends with."""
    (task,) = agent.world.store.read(lambda tx: tx.attention.tasks(1, limit=100))
    assert task.state == "completed"
    response: list[dict[str, Any]] = decode(task.result or "[]")
    return [fact for fact in response if fact["kind"] == kind]


def acting(agent: Attention, action: str) -> None:
    """A cognition that acts once and then ends with all it has heard."""

    @agent.cognition("act")
    def act(turn: Turn) -> Any:
        if turn.number == 1:
            return Act(action)
        return Done([{"kind": fact.kind, **fact.about, **fact.data} for fact in turn.facts])

    agent.add("act")


# -- what nobody should raise ------------------------------------------------------------------------------------


@poisons
@both_ways
def test_whatever_a_cognition_raises_is_counted_and_never_blocks_its_lane(
    agent: Attention, clock: VirtualClock, poison: Callable[[], BaseException], is_async: bool
) -> None:
    """It used to end the driver politely: nothing was counted, and every restart began with it again."""

    def raises(turn: Turn) -> Any:
        raise poison()

    agent.cognition("poison")(plain_or_async(raises, is_async))
    agent.cognition("other")(lambda turn: Done())
    bad, good = agent.add("poison", priority=90).task, agent.add("other", priority=10).task

    run_through(agent, clock)

    state, reason = ended(agent, bad.id)
    assert (state, reason.startswith("cognition failed 3 times: ")) == ("failed", True)
    assert ended(agent, good.id)[0] == "completed"


def test_a_cognition_that_cancels_the_task_it_runs_in_is_counted(agent: Attention, clock: VirtualClock) -> None:
    @agent.cognition("poison")
    async def poison(turn: Turn) -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    bad = agent.add("poison").task
    run_through(agent, clock)

    assert ended(agent, bad.id)[0] == "failed"


class NotOurs(Directive):
    """A directive that the runtime has never heard of."""

    context = None
    note = None


@pytest.mark.parametrize("answer", [NotOurs(), "done", object()], ids=["not ours", "text", "an object"])
def test_whatever_a_cognition_answers_is_counted_and_never_blocks_its_lane(
    agent: Attention, clock: VirtualClock, answer: Any
) -> None:
    agent.cognition("poison")(lambda turn: answer)
    bad = agent.add("poison").task
    run_through(agent, clock)

    assert ended(agent, bad.id)[0] == "failed"


def produces(*_: Any) -> Any:
    yield Done()


def test_a_generator_function_is_refused_when_it_is_declared(agent: Attention) -> None:
    for declare in (agent.cognition("poison"), agent.action(name="pay"), agent.control):
        with refused(DefinitionError, "agent_function_is_generator"):
            declare(produces)


def test_a_cognition_that_returns_a_generator_has_not_run_and_is_counted(agent: Attention, clock: VirtualClock) -> None:
    agent.cognition("poison")(lambda turn: produces(turn))
    bad = agent.add("poison").task
    run_through(agent, clock)

    assert "returned a generator" in ended(agent, bad.id)[1]


async def test_a_driver_that_is_cancelled_from_outside_counts_nothing(agent: Attention) -> None:
    thinking = asyncio.Event()

    @agent.cognition("slow")
    async def slow(turn: Turn) -> Any:
        thinking.set()
        await asyncio.Event().wait()

    task = agent.add("slow").task
    driving = asyncio.create_task(agent.serve())
    await thinking.wait()
    driving.cancel()
    await asyncio.wait([driving])

    (found,) = agent.world.store.read(lambda tx: tx.attention.live_tasks(1))
    assert (driving.cancelled(), found.id, found.errors) == (True, task.id, 0)


@poisons
@both_ways
@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_whatever_an_action_raises_is_told_as_its_failure(
    agent: Attention, clock: VirtualClock, poison: Callable[[], BaseException], is_async: bool, effect: Any
) -> None:
    def act(step: Any) -> Any:
        raise poison()

    agent.action(effect=effect, name="act")(plain_or_async(act, is_async))
    acting(agent, "act")
    run_through(agent, clock)

    (response,) = facts_of(agent, "action_failed")
    assert response["error"]


@poisons
def test_whatever_a_transactional_action_raises_takes_back_what_it_did(
    agent: Attention, clock: VirtualClock, poison: Callable[[], BaseException]
) -> None:
    with agent.app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE charges (name VARCHAR(50))"))

    @agent.action(effect="transactional", name="act")
    def act(step: Any, connection: Any) -> Any:
        connection.execute(text("INSERT INTO charges VALUES ('a')"))
        raise poison()

    acting(agent, "act")
    run_through(agent, clock)

    assert len(facts_of(agent, "action_failed")) == 1
    assert charges(agent) == 0


def charges(agent: Attention) -> int:
    with agent.app.engine.connect() as connection:
        return int(connection.execute(text("SELECT COUNT(*) FROM charges")).scalar_one())


@poisons
def test_a_control_that_raises_anything_lets_nothing_go_on(
    agent: Attention, poison: Callable[[], BaseException]
) -> None:
    ran: list[int] = []

    @agent.cognition("work")
    def work(turn: Turn) -> Any:
        ran.append(turn.number)
        return Yield() if turn.number < 3 else Done()

    @agent.control
    def control() -> Control:
        raise poison()

    agent.add("work")
    agent.run()

    assert agent.snapshot().is_idle is False
    assert ran in ([], [1])


# -- answers that cannot be used ---------------------------------------------------------------------------------

UNUSABLE: dict[str, Callable[[], Any]] = {
    "a dict": lambda: {"receipt": 7},
    "a text": lambda: "done",
    "an object": object,
    "a directive": lambda: Fail("no"),
    "facts that are no JSON": lambda: Facts(receipt=object()),
    "facts that are too large": lambda: Facts(receipt="x" * 2_000_000),
    "facts with odd keys": lambda: Facts(receipt={1: 2, "1": 3}),
    "a wait that is too long": lambda: Pending("paid", timedelta(days=31)),
    "a wait without an end": lambda: Pending("paid", float("inf")),
    "a wait for nothing": lambda: Pending([], 60),
}
unusable = pytest.mark.parametrize("answer", UNUSABLE)


@unusable
@both_ways
@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_an_action_that_ran_is_told_as_having_run_with_what_is_wrong_about_its_answer(
    agent: Attention, clock: VirtualClock, answer: str, is_async: bool, effect: Any
) -> None:
    """Told as failed, it would be done again: who retries pays twice."""
    ran: list[int] = []

    def pay(step: Any) -> Any:
        ran.append(1)
        return UNUSABLE[answer]()

    agent.action(effect=effect, name="pay")(plain_or_async(pay, is_async))
    acting(agent, "pay")
    run_through(agent, clock)

    (response,) = facts_of(agent, "action_ok")
    assert len(response["invalid_answer"]) > 20
    assert (ran, response["action"]) == ([1], "pay")
    assert facts_of(agent, "action_failed") == facts_of(agent, "action_unknown") == []


def test_as_much_of_an_unusable_answer_as_can_be_kept_is_told(agent: Attention, clock: VirtualClock) -> None:
    agent.action(name="pay")(lambda step: {"receipt": 7})
    acting(agent, "pay")
    run_through(agent, clock)

    (response,) = facts_of(agent, "action_ok")
    assert response["answer"] == {"receipt": 7}


@unusable
def test_a_transactional_action_whose_answer_cannot_be_used_is_taken_back(
    agent: Attention, clock: VirtualClock, answer: str
) -> None:
    with agent.app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE charges (name VARCHAR(50))"))

    @agent.action(effect="transactional", name="pay")
    def pay(step: Any, connection: Any) -> Any:
        connection.execute(text("INSERT INTO charges VALUES ('a')"))
        return UNUSABLE[answer]()

    acting(agent, "pay")
    run_through(agent, clock)

    assert len(facts_of(agent, "action_failed")) == 1
    assert charges(agent) == 0


def test_an_action_that_returns_a_generator_has_not_run_and_is_told_as_failed(
    agent: Attention, clock: VirtualClock
) -> None:
    agent.action(name="pay")(lambda step: produces(step))
    acting(agent, "pay")
    run_through(agent, clock)

    (response,) = facts_of(agent, "action_failed")
    assert "returned a generator" in response["error"]
