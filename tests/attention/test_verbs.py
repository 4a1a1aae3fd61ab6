"""What cognition may answer beside acting and waiting: sleep, wait for tasks, start children; and what bounds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from horae import Horae
from horae.actions.attention import events, inbox
from horae.actions.budgets import budgets
from horae.attention import (
    Act,
    Attention,
    Child,
    Done,
    Facts,
    Fail,
    Join,
    Policy,
    Rule,
    Sleep,
    Start,
    Step,
    Turn,
    Wait,
    Yield,
)
from horae.errors import Conflict, DefinitionError, InvalidInput, QuotaExceeded
from horae.testing import Lab
from tests.support.refusals import refused

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    async with Lab(Horae("sqlite://")) as lab:
        yield lab


def attended(lab: Lab, **options: Any) -> Attention:
    agent = Attention("ops", lab.app, **options)
    lab.attend(agent)
    return agent


# -- context -----------------------------------------------------------------------------------------------------------


async def test_a_context_that_is_left_out_stays_and_none_clears_it(lab: Lab) -> None:
    agent, seen = attended(lab), list[tuple[Any, str | None]]()

    @agent.cognition("count")
    def count(turn: Turn) -> Any:
        seen.append((turn.context, turn.note))
        return [Yield(context=[1], note="one"), Yield(), Sleep(HOUR), Yield(context=None, note=None), Done()][
            turn.number - 1
        ]

    agent.add("count")
    await lab.advance(DAY)
    assert seen == [(None, None), ([1], "one"), ([1], "one"), ([1], "one"), (None, None)]


# -- waits -------------------------------------------------------------------------------------------------------------


async def test_a_sleep_ends_in_time_and_no_event_ends_it(lab: Lab) -> None:
    agent = attended(lab)

    @agent.cognition("nap")
    def nap(turn: Turn) -> Any:
        return Done([fact.kind for fact in turn.facts.awaited]) if turn.facts.awaited else Sleep(2 * HOUR)

    task = agent.add("nap").task.id
    await lab.settle()
    (wait,) = agent.snapshot().waiting[0][1]
    agent.post(wait.key)
    await lab.advance(HOUR)
    assert agent.task(task).state == "waiting"
    await lab.advance(HOUR)
    assert agent.result(task) == ["slept"]
    assert agent.verify().is_sound


@pytest.mark.parametrize(("to", "woken"), [("one", 1), ("all", 3), (None, 1)])
async def test_an_event_wakes_the_first_that_waits_or_all(lab: Lab, to: Any, woken: int) -> None:
    agent = attended(lab)

    @agent.cognition("listen")
    def listen(turn: Turn) -> Any:
        return Done([fact["n"] for fact in turn.facts.awaited]) if turn.facts.awaited else Wait("bell", timeout=DAY)

    tasks = [agent.add("listen").task.id for _ in range(3)]
    await lab.settle()
    agent.post("bell", {"n": 7}, to=to)
    await lab.settle()
    ended = [task for task in tasks if agent.task(task).state == "completed"]
    assert (ended, [agent.result(task) for task in ended]) == (tasks[:woken], [[7]] * woken)
    assert agent.verify().is_sound


async def test_a_rule_may_say_that_an_event_is_for_all(lab: Lab) -> None:
    agent = attended(lab)
    agent.rule(Rule("deploy.*", do="wake", to="all"))

    @agent.cognition("listen")
    def listen(turn: Turn) -> Any:
        return Done() if turn.facts.awaited else Wait("deploy.done", timeout=DAY)

    tasks = [agent.add("listen").task.id for _ in range(2)]
    await lab.settle()
    agent.post("deploy.done")
    await lab.settle()
    assert [agent.task(task).state for task in tasks] == ["completed", "completed"]


@pytest.mark.parametrize(("since", "heard"), [("ever", "old"), ("task", "new"), ("now", "later")])
async def test_a_wait_may_take_only_events_since_its_task_began(lab: Lab, since: Any, heard: str) -> None:
    agent = attended(lab)

    @agent.cognition("listen")
    def listen(turn: Turn) -> Any:
        if word := turn.facts.last("event"):
            return Done(word["which"])
        return Wait("word", timeout=DAY, since=since) if turn.facts.last("slept") else Sleep(HOUR)

    agent.post("word", {"which": "old"})
    await lab.advance(HOUR)
    task = agent.add("listen").task.id
    agent.post("word", {"which": "new"})
    await lab.advance(2 * HOUR)
    agent.post("word", {"which": "later"})
    await lab.settle()
    assert agent.result(task) == heard


async def test_a_task_tells_what_it_waited_for_from_its_rule_firing_again(lab: Lab) -> None:
    agent, heard = attended(lab), list[Any]()
    agent.rule(Rule("db.*", do="task", kind="alert", key="{event}:{id}"))

    @agent.cognition("alert")
    def alert(turn: Turn) -> Any:
        heard.append(([fact.key for fact in turn.facts.awaited], [fact.key for fact in turn.facts.repeated]))
        return Done() if turn.facts.awaited else Wait("ack", timeout=DAY)

    agent.post("db.down", {"id": 1})
    await lab.settle()
    agent.post("db.down", {"id": 1})
    agent.post("db.slow", {"id": 1})  # another event of the pattern is another task
    agent.post("ack")
    await lab.settle()
    assert heard == [([], []), (["ack"], ["db.down"]), ([], [])]


# -- tasks that start others -------------------------------------------------------------------------------------------


def teach_family(agent: Attention, every: bool = True) -> None:
    @agent.cognition("parent")
    def parent(turn: Turn) -> Any:
        if turn.facts.last("started"):
            return Start([Child("child", {"n": n}) for n in range(3)], timeout=DAY, every=every)
        return Done([(fact.kind, fact.get("result")) for fact in turn.facts.awaited])

    @agent.cognition("child")
    def child(turn: Turn) -> Any:
        return Sleep(HOUR * (1 + turn.payload["n"])) if turn.number == 1 else Done(turn.payload["n"])


async def test_a_parent_hears_of_all_its_children(lab: Lab) -> None:
    agent = attended(lab)
    teach_family(agent)
    task = agent.add("parent").task.id
    await lab.advance(2 * HOUR)
    assert agent.task(task).state == "waiting"
    await lab.advance(2 * HOUR)
    assert agent.result(task) == [["task_ended", 0], ["task_ended", 1], ["task_ended", 2]]
    assert agent.verify().is_sound


async def test_a_parent_that_waits_for_the_first_child_cancels_the_others_when_it_ends(lab: Lab) -> None:
    agent = attended(lab)
    teach_family(agent, every=False)
    task = agent.add("parent").task.id
    await lab.advance(DAY)
    assert agent.result(task) == [["task_ended", 0]]
    assert [agent.task(each).state for each in ("t2", "t3", "t4")] == ["completed", "cancelled", "cancelled"]
    assert agent.verify().is_sound


async def test_children_are_started_once_however_often_their_parent_dies(lab: Lab) -> None:
    agent = attended(lab)
    teach_family(agent)
    task = agent.add("parent").task.id
    lab.crash_next(agent, at="decide.before")
    await lab.advance(DAY)
    assert len(agent.result(task)) == 3
    assert [each.kind for each in lab.world.store.read(lambda tx: tx.attention.tasks(1, limit=9))].count("child") == 3


async def test_a_task_waits_for_another_that_it_did_not_start_and_for_one_that_has_ended(lab: Lab) -> None:
    agent = attended(lab)
    teach_family(agent)

    @agent.cognition("watch")
    def watch(turn: Turn) -> Any:
        if turn.facts.awaited:
            return Done([fact["state"] for fact in turn.facts.awaited])
        return Join(turn.payload, timeout=DAY)

    child = agent.add("child", {"n": 5}).task.id
    first = agent.add("watch", [child]).task.id
    await lab.settle()
    agent.cancel(child)
    late = agent.add("watch", [child, first]).task.id
    await lab.settle()
    assert (agent.result(first), agent.result(late)) == (["cancelled"], ["cancelled", "completed"])


async def test_a_join_times_out_and_one_with_itself_is_refused(lab: Lab) -> None:
    agent = attended(lab)
    teach_family(agent)

    @agent.cognition("watch")
    def watch(turn: Turn) -> Any:
        if turn.facts.awaited:
            return Done(turn.facts.awaited[0].kind)
        return Join(turn.task_id if turn.payload == "self" else turn.payload, timeout=HOUR)

    slow = agent.add("child", {"n": 9}).task.id
    late, selfish = agent.add("watch", slow).task.id, agent.add("watch", "self").task.id
    await lab.advance(2 * HOUR)
    assert (agent.result(late), agent.task(selfish).state) == ("timed_out", "failed")
    assert "its own end" in (agent.task(selfish).reason or "")


# -- results -----------------------------------------------------------------------------------------------------------


async def test_a_result_is_there_when_the_task_is_done_and_else_says_why_not(lab: Lab) -> None:
    agent = attended(lab)

    @agent.cognition("work")
    def work(turn: Turn) -> Any:
        return Fail("no paper") if turn.payload == "fail" else Done({"pages": 3})

    good, bad = agent.add("work").task.id, agent.add("work", "fail").task.id
    with refused(Conflict, "task_not_ended", state="ready"):
        agent.result(good)
    await lab.settle()
    assert await agent.aio.result(good) == {"pages": 3}
    assert (await agent.aio.task(good)).turn == 1
    with refused(Conflict, "task_without_result", reason="no paper"):
        agent.result(bad, timeout=timedelta(seconds=1))


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_a_task_that_never_ends_is_failed_after_its_turns(lab: Lab) -> None:
    agent = attended(lab, policy=Policy(max_turns=5))
    agent.cognition("loop")(lambda _: Yield())
    task = agent.add("loop").task.id
    await lab.settle()
    assert (agent.task(task).state, agent.task(task).turn) == ("failed", 5)
    assert agent.verify().is_sound


async def test_a_task_that_acts_without_end_is_failed_after_its_steps(lab: Lab) -> None:
    agent, ran = attended(lab, policy=Policy(max_steps=3)), list[int]()

    @agent.action(effect="once")
    def act(step: Step) -> Facts:
        ran.append(step.number)
        return Facts()

    agent.cognition("loop")(lambda _: Act("act"))
    task = agent.add("loop").task.id
    await lab.settle()
    assert (agent.task(task).state, ran) == ("failed", [1, 2, 3])


async def test_an_agent_stops_when_its_budget_is_empty_and_goes_on_when_it_is_refilled(lab: Lab) -> None:
    agent = attended(lab, budget="llm")
    budgets.set_budget(lab.world, "llm", "tokens", 100, period="day", actor="user/ann")

    @agent.cognition("think", cost={"tokens": 40})
    def think(turn: Turn) -> Any:
        turn.spent({"tokens": 30})
        return Done(turn.number) if turn.number == 5 else Yield()

    task = agent.add("think").task.id
    await lab.settle()
    used = budgets.get(lab.world, "llm", "tokens", period="day")
    assert (agent.task(task).turn, agent.task(task).state, used.period.settled) == (3, "waiting", 90)
    await lab.advance(DAY)
    assert agent.result(task) == 5
    assert agent.verify().is_sound


async def test_a_lost_step_stays_paid_and_is_paid_again(lab: Lab) -> None:
    agent = attended(lab, budget="llm")
    budgets.set_budget(lab.world, "llm", "micros", 1000, period="ever", actor="user/ann")

    @agent.action(effect="idempotent", cost={"micros": 100})
    def buy(step: Step) -> Facts:
        step.spent({"micros": 60})
        return Facts()

    agent.cognition("shop")(lambda turn: Done() if turn.facts.last("action_ok") else Act("buy"))
    task = agent.add("shop").task.id
    lab.crash_next(agent, at="facts.before")
    await lab.advance(HOUR)
    assert agent.task(task).state == "completed"
    assert budgets.get(lab.world, "llm", "micros", period="ever").period.settled == 160


async def test_a_step_that_no_budget_can_ever_pay_is_refused(lab: Lab) -> None:
    agent = attended(lab, budget="llm")
    budgets.set_budget(lab.world, "llm", "micros", 10, period="day", actor="user/ann")
    agent.action(effect="once", name="buy", cost={"micros": 11})(lambda step: Facts())

    @agent.cognition("shop")
    def shop(turn: Turn) -> Any:
        failed = turn.facts.last("action_failed")
        return Act("buy") if failed is None else Done(failed["error"])

    task = agent.add("shop").task.id
    await lab.settle()
    assert "llm:micros:day" in agent.result(task)
    with pytest.raises(DefinitionError):
        Attention("poor", lab.app).cognition("x", cost={"tokens": 1})(lambda _: Done())


async def test_a_cap_on_live_tasks_holds_for_tasks_that_rules_make(lab: Lab) -> None:
    agent = attended(lab)
    rules = [Rule("mail", do="task", kind="read")]
    inbox.add(lab.world, "ops", "read", most=2)
    events.post(lab.world, "ops", "mail", rules=rules, most=2)
    with pytest.raises(QuotaExceeded):
        events.post(lab.world, "ops", "mail", rules=rules, most=2)
    assert len(agent.snapshot().backlog) == 2


def test_an_agent_takes_spans_as_text_wherever_it_takes_one() -> None:
    agent = Attention(
        "spans", store="sqlite://", policy=Policy(longest_wait="2d"),  # type: ignore[arg-type]
        turn_timeout="2m", lease="10s",
    )  # fmt: skip
    agent.action(timeout="5s", name="call")(lambda step: None)
    added = agent.add("report", delay="1h")

    assert agent.policy.longest_wait == timedelta(days=2)
    assert agent.task(added.task.id).state == "created"
    with refused(InvalidInput, "duration_unreadable"):
        agent.add("report", delay="soon")
