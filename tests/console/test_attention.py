"""Attention: what agents are at, answers to their questions, what steers them, and the past as the journal tells it."""

import html
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.attention import events, inbox, journal, lanes, queries
from horae.actions.attention.journal_chain import seal_within
from horae.core.attention.directives import Act, Wait
from horae.core.attention.lanes import Task
from horae.core.pulse import PARTS
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.agents import Agent, make_agents
from tests.console.conftest import Browser, LogIn


def text_of(page: str) -> str:
    main = page.partition("<main")[2].partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


@pytest.fixture
def asking(world: World, clock: VirtualClock) -> tuple[Agent, str]:
    """An agent that may not refund without a person's word, and the task that asks."""
    agent = Agent(world, clock, "support", owner="acme")
    task = agent.add("refund", "Refund order 4711", payload={"api_key": "sk_live_9"})
    agent.turn(Act("refund", arguments={"amount": 40}, context={"password": "hush", "order": 4711}))
    agent.go()
    return agent, task


# -- the list ----------------------------------------------------------------------------------------------------------


def test_an_empty_house_teaches_how_an_agent_gets_its_lane(operator: Browser) -> None:
    page = operator.open("/attention")
    assert "No agent yet." in page
    assert "horae attention add report --lane ops" in page
    assert "--url http://horae.test:8765" in page


def test_every_lane_has_its_focus_its_numbers_and_its_last_step(
    operator: Browser, world: World, clock: VirtualClock
) -> None:
    make_agents(world, clock)
    said = text_of(operator.open("/attention"))
    assert "An agent waits for your answer." in said
    assert "4 lanes, 1 with a focus." in said
    assert "support asks: refund amount=40 to=c-17" in said
    assert "night-watch has work and no driver." in said
    assert "ops Nightly backup is late acting, step 2 1 1 1" in said
    assert "t8 was added" in said


def test_a_tenant_sees_its_own_lanes_and_no_other(
    log_in: LogIn, world: World, clock: VirtualClock, asking: tuple[Agent, str]
) -> None:
    Agent(world, clock, "secret").add("report", "Of the house")
    tenant = log_in("acme", "tasks")
    said = text_of(tenant.open("/attention"))
    assert "support" in said
    assert "secret" not in said
    assert tenant.get("/attention/secret").status_code == 404
    assert tenant.get("/attention/support?owner=system").status_code == 404
    page = text_of(tenant.open("/attention/support"))
    assert "Only an operator may answer." in page
    assert tenant.post("/attention/support/confirmations/1", answer="approve").status_code == 403


def test_lanes_come_in_pages(operator: Browser, world: World) -> None:
    for number in range(51):
        inbox.add(world, f"agent-{number:02d}", "report")
    page = operator.open("/attention")
    further = re.search(r'rel="next" href="/console(/attention\?cursor=[^"]+)"', page)
    assert further is not None
    assert "agent-50" not in page
    assert "agent-50" in operator.open(html.unescape(further[1]))


# -- a lane ------------------------------------------------------------------------------------------------------------


def test_a_lane_shows_focus_stack_backlog_waits_and_journal(
    operator: Browser, world: World, clock: VirtualClock
) -> None:
    make_agents(world, clock)
    page = operator.open("/attention/ops")
    said = text_of(page)
    order = ["Nightly backup is late", "Write the weekly report", "The stock database", "Count the returns"]
    assert [said.index(each) for each in order] == sorted(said.index(each) for each in order)
    assert "interrupted, comes back next" in said
    assert "ack:db-1 in 19 min" in said
    assert "Plan the shifts of next week" in said
    assert "29 lines, sound" in said
    assert "t6 begins a step action restart; step 2" in said
    assert 'class="now"' in page


def test_the_journal_comes_in_pages_from_the_newest_on(operator: Browser, world: World) -> None:
    for number in range(30):
        inbox.add(world, "ops", "report", {"goal": f"Report {number}"})
    page = operator.open("/attention/ops")
    assert lines_of(page) == list(range(60, 35, -1))
    further = re.search(r'rel="next" href="/console([^"#]+)#journal"', page)
    assert further is not None
    assert lines_of(operator.open(html.unescape(further[1]))) == list(range(35, 10, -1))


def lines_of(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'<td class="right number">(\d+)</td>', page)]


def test_a_lane_can_be_seen_as_of_any_line(operator: Browser, world: World, clock: VirtualClock) -> None:
    make_agents(world, clock)
    page = operator.open("/attention/ops?at=9")
    said = text_of(page)
    assert "ops after line 9" in said
    assert "You look at the past" in said
    focus = said.index("Write the weekly report")
    assert focus < said.index("Backlog") or "Backlog" not in said
    assert "Nightly backup is late" not in said.partition("Journal")[0]
    assert "Give it a task" not in said
    assert "at=8" in page
    assert "at=10" in page
    assert operator.get("/attention/ops?at=999").status_code == 422


def test_a_journal_that_was_touched_is_called_not_sound(
    operator: Browser, world: World, clock: VirtualClock, asking: tuple[Agent, str]
) -> None:
    assert "lines, sound" in text_of(operator.open("/attention/support?owner=acme"))
    number = lanes.get_lane(world, "support", owner="acme").number
    world.route().store.transact(lambda tx: seal_within(tx, number))
    task = queries.get_task(world, "support", asking[1], owner="acme")
    world.route().store.transact(lambda tx: tx.attention.save(changed(task)))
    said = text_of(operator.open("/attention/support?owner=acme"))
    assert "not sound" in said
    assert "differs from the journal in base" in said


def changed(task: Task) -> Task:
    return replace(task, base=task.base + 1)


# -- acts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "approved"), [("approve", True), ("refuse", False)])
def test_an_operator_answers_with_a_reason(
    operator: Browser, world: World, asking: tuple[Agent, str], answer: str, approved: bool
) -> None:
    page = operator.open("/attention/support?owner=acme")
    assert "refund amount=40" in page
    (wait,) = re.findall(r"/attention/support/confirmations/(\d+)", page)
    answered = operator.post(
        f"/attention/support/confirmations/{wait}", answer=answer, reason="called the customer", owner="acme",
        follow=True,
    )  # fmt: skip
    assert ("You approved" if approved else "You refused") in answered.text
    task, waits, facts = queries.story(world, "support", asking[1], owner="acme")
    assert task.state == "ready"
    assert (waits[0].decided_by is not None, waits[0].grant is not None) == (True, approved)
    assert f"You act as {waits[0].decided_by}." in html.unescape(page)
    assert facts[0].kind == ("confirmed" if approved else "denied")
    assert facts[0].fact.data["reason"] == "called the customer"


def test_an_answer_after_the_deadline_is_a_page_that_says_so(
    operator: Browser, clock: VirtualClock, asking: tuple[Agent, str]
) -> None:
    page = operator.open("/attention/support?owner=acme")
    (wait,) = re.findall(r"/attention/support/confirmations/(\d+)", page)
    clock.advance(timedelta(hours=9))
    answered = operator.post(f"/attention/support/confirmations/{wait}", answer="approve", owner="acme")
    assert answered.status_code == 409
    assert "has timed out" in answered.text
    assert operator.post(f"/attention/support/confirmations/{wait}", owner="acme").status_code == 422


def test_an_event_reaches_the_task_that_waits_for_it(operator: Browser, world: World, clock: VirtualClock) -> None:
    agent = Agent(world, clock, "ops")
    task = agent.add("alert", "The database is down")
    agent.turn(Wait("ack:db-1", timedelta(minutes=20)))
    done = operator.post("/attention/ops/events", key="ack:db-1", data='{"by": "ann"}', follow=True)
    assert f"ack:db-1 reached {task}." in html.unescape(done.text)
    assert queries.get_task(world, "ops", task).state == "ready"
    kept = operator.post("/attention/ops/events", key="later", data="", follow=True)
    assert "later is kept until a task asks for it." in kept.text
    wrong = operator.post("/attention/ops/events", key="x", data="[1]")
    assert wrong.status_code == 422
    assert "This is not JSON" in wrong.text


def test_a_task_is_given_and_cancelled(operator: Browser, world: World) -> None:
    inbox.add(world, "ops", "report")
    given = operator.post(
        "/attention/ops/tasks", kind="report", goal="Count the stock", priority="55", payload='{"n": 3}', follow=True
    )
    assert "t2 is added." in given.text
    task = queries.get_task(world, "ops", "t2")
    assert (task.base, task.payload) == (55, '{"goal":"Count the stock","n":3}')
    gone = operator.post("/attention/ops/tasks/t2/cancel", reason="not needed", follow=True)
    assert "t2 is cancelled." in gone.text
    assert "not needed" in text_of(gone.text)


def test_a_focus_ends_at_its_safe_point_or_at_once(operator: Browser, world: World, clock: VirtualClock) -> None:
    agent = Agent(world, clock, "ops")
    agent.add("alert", "The database is down")
    agent.turn(Act("restart"))
    asked = operator.post("/attention/ops/tasks/t1/cancel", graceful="yes", follow=True)
    assert "t1 ends at its next safe point." in asked.text
    ended = operator.post("/attention/ops/tasks/t1/kill", reason="hangs", follow=True)
    assert "Whether its last action happened is unknown." in ended.text
    assert queries.get_task(world, "ops", "t1").state == "cancelled"


def test_what_is_forbidden_is_said_and_can_be_taken_back(operator: Browser, world: World) -> None:
    inbox.add(world, "ops", "report")
    fields = {"auto_continue": "no", "must_confirm": "refund, ban", "reason": "release day"}
    done = operator.post("/attention/ops/control", **fields, follow=True)
    said = text_of(done.text)
    assert "Nothing new gets the focus." in said
    assert "A person must confirm: ban, refund." in said
    assert "Undo" in said
    lifted = operator.post("/attention/ops/control", follow=True)
    assert "Nothing new gets the focus." not in text_of(lifted.text)
    assert journal.verify(world, "ops").is_sound


# -- a task ------------------------------------------------------------------------------------------------------------


def test_a_task_tells_its_story_and_no_secret(operator: Browser, asking: tuple[Agent, str]) -> None:
    page = operator.open(f"/attention/support/tasks/{asking[1]}?owner=acme")
    said = text_of(page)
    assert "Refund order 4711" in said
    assert "sk_live_9" not in page
    assert "hush" not in page
    assert said.count("[masked]") == 2
    assert "a person's answer: refund amount=40" in said
    assert "got the focus" in said
    assert "<svg" in page


def test_lanes_are_part_of_the_pulse_and_pages_of_them_are_live(
    operator: Browser, world: World, asking: tuple[Agent, str]
) -> None:
    def look() -> Any:
        return world.route().store.read(lambda tx: tx.pulse.look())["attention"]

    assert "attention" in PARTS
    before = look()
    events.post(world, "support", "x", owner="acme")
    assert look() != before
    for path in ("/attention", "/attention/support?owner=acme", f"/attention/support/tasks/{asking[1]}?owner=acme"):
        assert "data-live" in operator.open(path)
    assert "data-live" not in operator.open("/attention/support?owner=acme&at=2")
