"""Document 002 as a story: interrupted at a safe point, resumed with its context, waits that always end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from horae.app import Horae
from horae.attention import Act, Attention, Done, Facts, Turn, Wait
from horae.core.attention.lanes import Task
from horae.testing.clock import VirtualClock
from tests.attention.stories import MINUTES, an_agent, trace


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(tmp_path: Path, clock: VirtualClock) -> Iterator[Horae]:
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}", clock=clock) as app:
        yield app


def ended(agent: Attention, task_id: str) -> Task:
    number = int(task_id[1:])
    found = agent.world.store.read(lambda tx: tx.attention.task(number))
    assert found is not None
    return found


def test_a_report_runs_to_its_end(app: Horae) -> None:
    agent, _ = an_agent(app)
    task = agent.add("report", priority=40).task

    agent.run()

    assert (ended(agent, task.id).state, ended(agent, task.id).result) == ("completed", '{"lines":170}')
    assert agent.verify().complaints == ()


def test_an_alert_takes_the_focus_waits_and_gives_it_back(app: Horae, clock: VirtualClock) -> None:
    """Section 4, until Alice has been silent and Bob answers."""
    agent, pager = an_agent(app)
    fresh = agent.cognition("slow")
    seen: list[Any] = []

    @fresh
    def slow(turn: Turn) -> Any:
        seen.append(turn.context)
        if len(seen) == 2:  # the outside speaks while the focus is at work
            agent.post("db.down", {"id": "db-1"}, event_id="pd-1")
        return Done() if len(seen) == 4 else Act("read_source", {"n": 1}, context=len(seen))

    report = agent.add("slow", priority=40).task
    agent.run()
    alert = next(task for task, _ in agent.snapshot().waiting)
    assert pager.paged == ["alice"]
    assert ended(agent, report.id).state == "completed"
    assert seen == [None, 1, 2, 3]  # resumed with its own context, byte by byte

    clock.advance(10 * MINUTES)
    agent.run()
    assert pager.paged == ["alice", "bob"]
    agent.post("ack:db-1", {"by": "bob"})
    agent.run()

    assert ended(agent, alert.id).result == '{"by":"bob"}'
    assert [step for step in trace(agent) if step[0] == report.id] == [
        (report.id, None, "created"), (report.id, "created", "ready"), (report.id, "ready", "running"),
        (report.id, "running", "suspended"), (report.id, "suspended", "ready"), (report.id, "ready", "running"),
        (report.id, "running", "completed"),
    ]  # fmt: skip
    assert agent.verify().complaints == ()


def test_an_event_that_comes_early_counts_as_one_in_time(app: Horae) -> None:
    """Invariant 9."""
    agent, pager = an_agent(app)
    agent.post("ack:db-1", {"by": "eve"})
    agent.post("db.down", {"id": "db-1"})
    agent.run()

    (alert,) = agent.world.store.read(lambda tx: tx.attention.tasks(1, limit=5))
    assert (alert.state, alert.result, pager.paged) == ("completed", '{"by":"eve"}', ["alice"])


def test_an_event_too_late_for_one_wait_is_early_for_the_next(app: Horae, clock: VirtualClock) -> None:
    """Invariant 9: Alice was silent, and Bob answers while he is still being paged."""
    agent, pager = an_agent(app)
    page = agent._actions["page"]

    def answered_at_once(step: Any, who: str) -> Any:
        pending = page.run(step, who)
        if who == "bob":
            agent.post("ack:db-1", {"by": "bob"})
        return pending

    agent._actions["page"] = replace(page, run=answered_at_once)
    agent.post("db.down", {"id": "db-1"})
    agent.run()
    clock.advance(10 * MINUTES)
    agent.run()

    (alert,) = agent.world.store.read(lambda tx: tx.attention.tasks(1, limit=5))
    assert (alert.state, alert.result, pager.paged) == ("completed", '{"by":"bob"}', ["alice", "bob"])
    assert [event.state for event in _events(agent)] == ["used", "used"]
    assert agent.verify().complaints == ()


def _events(agent: Attention) -> list[Any]:
    return agent.world.store.read(lambda tx: tx.attention.everything(1)["event"])


def test_a_refund_waits_for_a_person_and_runs_exactly_what_was_approved(app: Horae) -> None:
    agent, pager = an_agent(app, must_confirm=frozenset({"refund"}))
    task = agent.add("refund").task
    agent.run()
    ((_, (wait,)),) = agent.snapshot().waiting
    assert pager.paged == []

    agent.confirm(wait.number, True, actor="user/carol")
    agent.run()

    assert pager.paged == ["refund 40 to c-17"]
    assert ended(agent, task.id).state == "completed"
    assert agent.verify().complaints == ()


def test_silence_is_a_time_out_and_never_a_refusal(app: Horae, clock: VirtualClock) -> None:
    """Invariant 18."""
    agent, pager = an_agent(app, must_confirm=frozenset({"refund"}))
    task = agent.add("refund").task
    agent.run()
    ((_, (wait,)),) = agent.snapshot().waiting
    clock.advance(timedelta(hours=8))

    agent.confirm(wait.number, True, actor="user/carol")  # too late: it authorises nothing
    agent.run()

    assert (ended(agent, task.id).state, ended(agent, task.id).reason) == ("failed", "no decision in time")
    assert pager.paged == []


def test_a_driver_that_died_inside_an_action_leaves_it_unknown(app: Horae, clock: VirtualClock) -> None:
    """Invariant 14: once is at most once."""
    agent, pager = an_agent(app)
    agent.post("db.down", {"id": "db-1"})
    first = agent.driver("first")
    _die_inside_an_action(agent, first)
    clock.advance(timedelta(minutes=5))

    agent.run()

    assert pager.paged == []  # the first one may have paged; nobody pages a second time
    ((alert, (wait,)),) = agent.snapshot().waiting
    assert wait.key == "ack:db-1"
    assert ended(agent, alert.id).step == 1
    assert agent.verify().complaints == ()


def _die_inside_an_action(agent: Attention, driver: Any) -> None:
    """Decide to page, write the intent down, and never come back."""
    from horae.actions.attention import lanes, turns

    drive = lanes.acquire(agent.world, agent.name, driver.name, lease=timedelta(seconds=30))
    assert drive is not None
    control = agent._control()
    think = turns.next_work(agent.world, drive, control, agent.policy)
    assert isinstance(think, turns.Think)
    effects: Any = {name: action.effect for name, action in agent._actions.items()}
    step = turns.commit_turn(
        agent.world, drive, think, Act("page", {"who": "alice"}), policy=agent.policy, effects=effects
    )
    assert isinstance(step, turns.Perform)


def test_the_word_of_an_older_driver_changes_nothing(app: Horae, clock: VirtualClock) -> None:
    """Invariant 16."""
    from horae.actions.attention import lanes, turns
    from horae.errors import LaneLost

    agent, _ = an_agent(app)
    agent.add("report")
    old = lanes.acquire(agent.world, agent.name, "old", lease=timedelta(seconds=30))
    assert old is not None
    think = turns.next_work(agent.world, old, agent._control(), agent.policy)
    assert isinstance(think, turns.Think)
    assert lanes.acquire(agent.world, agent.name, "new", lease=timedelta(seconds=30)) is None
    clock.advance(timedelta(seconds=31))
    assert lanes.acquire(agent.world, agent.name, "new", lease=timedelta(seconds=30)) is not None
    before = agent.journal()

    with pytest.raises(LaneLost):
        turns.commit_turn(agent.world, old, think, Done(), policy=agent.policy, effects={})

    assert agent.journal() == before


def test_cognition_that_fails_rests_and_then_fails_the_task(app: Horae, clock: VirtualClock) -> None:
    agent, _ = an_agent(app)

    @agent.cognition("broken")
    def broken(turn: Turn) -> Any:
        raise RuntimeError("no idea")

    task = agent.add("broken").task
    for _ in range(3):
        agent.run()
        clock.advance(timedelta(minutes=1))

    assert ended(agent, task.id).state == "failed"
    assert "no idea" in (ended(agent, task.id).reason or "")


def test_five_nested_interrupts_come_back_last_in_first_out(app: Horae) -> None:
    """Invariants 3 and 4."""
    agent, _ = an_agent(app)
    depth = 0

    @agent.cognition("nest")
    def nest(turn: Turn) -> Any:
        nonlocal depth
        if turn.context is None and depth < 5:
            depth += 1
            agent.add("nest", priority=10 + 10 * depth, key=f"n{depth}")
            return Act("read_source", {"n": 1}, context="begun")
        return Done()

    agent.add("nest", priority=10, key="n0")
    agent.run()

    ends = [who for who, _, after in trace(agent) if after == "completed"]
    assert ends == ["t6", "t5", "t4", "t3", "t2", "t1"]
    assert agent.verify().complaints == ()


def test_a_transactional_action_commits_with_its_record(app: Horae) -> None:
    from sqlalchemy import text

    agent, _ = an_agent(app)
    with app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE booking (seat TEXT)"))

    @agent.action(effect="transactional")
    def book(step: Any, connection: Any, session: str) -> Facts:
        connection.execute(text("INSERT INTO booking VALUES (:seat)"), {"seat": session})
        if session == "taken":
            raise RuntimeError("that seat is taken")
        return Facts(session=session)

    @agent.cognition("travel")
    def travel(turn: Turn) -> Any:
        if turn.facts.last("action_ok"):
            return Done()
        return Act("book", {"session": "12A" if turn.facts.last("action_failed") else "taken"})

    agent.add("travel")
    agent.run()

    with app.engine.begin() as connection:
        assert list(connection.execute(text("SELECT seat FROM booking")).scalars()) == ["12A"]


def test_a_task_can_wait_start_later_and_be_cancelled_in_every_state(app: Horae, clock: VirtualClock) -> None:
    """Invariant 17."""
    agent, _ = an_agent(app)

    @agent.cognition("sleepy")
    def sleepy(turn: Turn) -> Any:
        return Wait("never", timeout=timedelta(days=1))

    later = agent.add("sleepy", delay=timedelta(hours=1)).task
    waiting = agent.add("sleepy").task
    agent.run()
    ready = agent.add("sleepy").task
    assert [each.state for each in (later, ended(agent, waiting.id), ready)] == ["created", "waiting", "ready"]

    for task in (later, waiting, ready):
        assert agent.cancel(task.id).state == agent.cancel(task.id).state == "cancelled"

    assert agent.snapshot().is_idle
    clock.advance(timedelta(days=2))
    agent.run()
    assert agent.verify().complaints == ()
    assert agent.world.store.peek(["attention"]).next_due_at is None  # nothing planned is left behind


def test_texts_that_no_database_can_keep_do_not_stop_a_lane(app: Horae) -> None:
    agent, _ = an_agent(app)

    @agent.action(effect="idempotent")
    def curse(step: Any) -> Facts:
        raise RuntimeError("a\x00b")

    @agent.cognition("angry")
    def angry(turn: Turn) -> Any:
        failed = turn.facts.last("action_failed")
        return Done(failed["error"]) if failed else Act("curse")

    task = agent.add("angry").task
    agent.run()
    assert ended(agent, task.id).state == "completed"
    other = agent.add("angry").task
    assert agent.cancel(other.id, reason="no\x00more \ud800").state == "cancelled"


def test_a_once_action_that_takes_too_long_may_have_done_it_all_the_same(app: Horae) -> None:
    agent, _ = an_agent(app)

    @agent.action(effect="once", timeout=timedelta(milliseconds=20))
    async def slow(step: Any) -> Facts:
        await asyncio.Event().wait()
        return Facts()

    @agent.cognition("patient")
    def patient(turn: Turn) -> Any:
        unknown = turn.facts.last("action_unknown", "slow")
        return Done(unknown["key"]) if unknown else Act("slow")

    task = agent.add("patient").task
    agent.run()
    assert ended(agent, task.id).state == "completed"


def test_whoever_has_been_passed_over_for_too_long_is_spoken_of_once(app: Horae, clock: VirtualClock) -> None:
    """Section 3.5."""
    agent, _ = an_agent(app)
    weak = agent.add("report", priority=0).task
    clock.advance(timedelta(days=2))
    for number in range(3):
        agent.add("refund", priority=90, key=f"r{number}")
    agent.run()

    assert [line.task for line in agent.journal() if line.cause == "starved"] == [weak.number]
    assert agent.verify().complaints == ()
