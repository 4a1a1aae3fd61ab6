"""The edges of lanes: odd controls and rules, jobs that come twice, values of full size, forged journals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions.attention import endings, inbox, lanes, turns
from horae.attention import Act, Attention, Control, Done, Facts, Policy, Rule, Turn, Wait
from horae.core.jobs.payloads import MAX_BYTES
from horae.errors import DefinitionError, InvalidInput, NotFound
from horae.runtime.lanes.spec import Step
from tests.attention.checker import look, wrong_with
from tests.attention.ground import LEASE, Ground, broken_ground

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with broken_ground(tmp_path) as ground:
        yield ground


@pytest.fixture
def agent(ground: Ground) -> Attention:
    return Attention("ops", ground.app)


def is_sound(agent: Attention, *controls: Control) -> bool:
    known = (Control(), *controls)
    assert wrong_with(look(agent.world, agent.name, policy=agent.policy, controls=known)) == []
    return agent.verify().is_sound


# -- rules -------------------------------------------------------------------------------------------------------------


def test_events_merge_into_the_live_task_of_their_key_on_every_occasion(agent: Attention, ground: Ground) -> None:
    """S2-28: not only into the first task that a key ever had."""
    agent.rule(Rule("db.down", do="coalesce", kind="alert", key="alert:{id}"))
    agent.cognition("alert")(lambda turn: Done())
    occasions = []
    for _ in range(3):
        occasions.append({agent.post("db.down", {"id": "db-1"}).event.task for _ in range(3)})
        ground.run(agent)

    assert occasions == [{1}, {2}, {3}]
    assert is_sound(agent)


def test_an_event_is_not_merged_into_a_task_that_may_be_about_to_end(agent: Attention, ground: Ground) -> None:
    """S2-28: what comes while the last turn is thought would be used, and heard by nobody."""
    agent.rule(Rule("news", do="coalesce", kind="reader", key="reader"))
    heard: list[tuple[str, int]] = []

    @agent.cognition("reader")
    def read(turn: Turn) -> Done:
        heard.append((turn.task_id, turn.payload["n"]))
        heard.extend((turn.task_id, fact["n"]) for fact in turn.facts.of("event"))
        if turn.task_id == "t1":
            for n in (2, 3, 4):
                agent.post("news", {"n": n})
        return Done()

    agent.post("news", {"n": 1})
    ground.run(agent)

    assert heard == [("t1", 1), ("t2", 2), ("t2", 3), ("t2", 4)]
    assert is_sound(agent)


def test_a_key_that_only_looks_like_an_occasion_of_another_is_left_alone(agent: Attention, ground: Ground) -> None:
    agent.rule(Rule("db.down", do="coalesce", kind="alert", key="alert:{id}"))
    agent.cognition("alert")(lambda turn: Done())
    first = agent.post("db.down", {"id": "a"}).event
    ground.run(agent)
    for odd in (f"a#{first.number}", "a#" + "9" * 30, "a#0"):
        agent.post("db.down", {"id": odd})

    assert agent.post("db.down", {"id": "a"}).event.task == 5


def test_keys_of_any_length_stay_apart_and_fit_into_every_database(agent: Attention, ground: Ground) -> None:
    agent.rule(Rule("db.down", do="task", kind="alert", key="{id}"))
    agent.cognition("alert")(lambda turn: Done())
    names = ["x" * 255, "x" * 300 + "a", "x" * 300 + "b"]
    for _ in range(2):
        assert len({agent.post("db.down", {"id": name}).event.task for name in names}) == 3
        ground.run(agent)

    tasks = agent.world.store.read(lambda tx: tx.attention.tasks(1, limit=10))
    assert len(tasks) == 6
    assert max(len(task.key or "") for task in tasks) == 255


@pytest.mark.parametrize(
    "result",
    [
        {"event": "e", "do": "bogus"},
        {"event": "", "do": "wake"},
        {"event": "e", "do": "task", "kind": "two words"},
        {"event": "e", "do": "task", "kind": "k", "key": "two\nlines"},
        {"event": "e", "do": "task", "kind": "k", "payload": {"x": {1, 2}}},
        {"event": "e", "do": "task", "kind": "k", "payload": [1]},
    ],
    ids=str,
)
def test_a_rule_that_cannot_be_followed_cannot_be_built(result: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Rule(**result)


# -- control -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        {"must_confirm": ["act"]},
        {"must_confirm": "act"},
        {"must_confirm": {1}},
        {"confirm_timeout": None},
        {"confirm_timeout": 30},
        {"confirm_timeout": timedelta(0)},
        {"auto_continue": "no"},
    ],
    ids=str,
)
def test_invariant_24_a_control_that_cannot_be_obeyed_is_closed(
    agent: Attention, ground: Ground, result: dict[str, Any]
) -> None:
    """It neither stops the driver nor lets anything through."""
    done = []
    agent.control(lambda: Control(**result))
    agent.action(name="act")(lambda step: done.append(step))
    agent.cognition("k")(lambda turn: Act("act"))
    agent.add("k")
    ground.run(agent)

    assert [task.id for task in agent.snapshot().backlog] == ["t1"]
    assert done == []


def test_a_set_of_actions_may_be_a_plain_set(agent: Attention, ground: Ground) -> None:
    agent.control(lambda: Control(must_confirm={"act"}))
    agent.action(name="act")(lambda step: Facts())
    agent.cognition("k")(lambda turn: Act("act"))
    agent.add("k")
    ground.run(agent)

    ((_, (wait,)),) = agent.snapshot().waiting
    assert wait.kind == "confirm"


# -- what comes due ----------------------------------------------------------------------------------------------------


def test_a_deadline_that_is_handled_twice_is_told_once(agent: Attention, ground: Ground) -> None:
    """Its job is delivered at least once: whoever dies before settling it leaves it to be run again (3.7)."""
    heard: list[str] = []

    @agent.cognition("k")
    def think(turn: Turn) -> Wait:
        heard.extend(fact.kind for fact in turn.facts)
        return Wait("never", timeout=5 * HOUR)

    agent.add("k", due_by=ground.clock.now() + MINUTE)
    ground.run(agent)
    ground.clock.jump(2 * MINUTE)
    ground.run(agent)
    assert inbox.pass_deadline(agent.world, 1, 1) is None
    ground.run(agent)

    assert heard == ["started", "deadline_passed"]
    assert [task.state for task, _ in agent.snapshot().waiting] == ["waiting"]
    assert is_sound(agent)


def test_the_time_of_all_keys_of_a_wait_is_up_together(agent: Attention, ground: Ground) -> None:
    """An event for any of them is late then, and reported as late (3.7)."""
    heard: list[tuple[str, Any]] = []

    @agent.cognition("k")
    def think(turn: Turn) -> Wait:
        heard.extend((fact.kind, fact.get("key")) for fact in turn.facts)
        return Wait(["a", "b"], timeout=MINUTE) if turn.number == 1 else Wait("c", timeout=HOUR)

    agent.add("k")
    ground.run(agent)
    ground.clock.jump(2 * MINUTE)
    ground.run(agent)
    assert [agent.post(key).event.state for key in ("b", "a")] == ["late", "late"]
    agent.post("c")
    ground.run(agent)

    assert heard[-3:] == [("late_event", "b"), ("late_event", "a"), ("event", "c")]
    assert is_sound(agent)


def test_invariant_17_a_hard_cancel_does_not_wait_for_a_graceful_one(agent: Attention) -> None:
    task = agent.add("k").task
    drive = lanes.acquire(agent.world, "ops", "me", lease=LEASE)
    assert drive is not None
    think = turns.next_work(agent.world, drive, Control(), Policy())
    assert isinstance(think, turns.Think)
    agent.cancel(task.id, graceful=True)
    agent.cancel(task.id, graceful=True)
    agent.cancel(task.id, reason="now")
    agent.cancel(task.id, graceful=True)
    assert agent.snapshot().focus is not None

    work = turns.commit_turn(agent.world, drive, think, Act("do"), policy=Policy(), effects={"do": "once"})
    assert work is None
    ended = agent.world.store.read(lambda tx: tx.attention.task(task.number))
    assert ended is not None
    assert (ended.state, ended.reason) == ("cancelled", "now")
    assert is_sound(agent)


def test_the_journal_says_who_ended_a_task_also_where_a_reason_is_given(agent: Attention) -> None:
    """S2-35: whoever takes something from an agent is accountable for it."""
    for ends in (endings.cancel, endings.kill):
        task = agent.add("k").task
        ends(agent.world, "ops", task.id, reason="not now", actor="user/ann")

        result = agent.journal()[-1].details
        assert (result["by"], result["reason"]) == ("user/ann", "not now")


# -- values of full size -----------------------------------------------------------------------------------------------


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_what_was_taken_in_can_be_told(agent: Attention, ground: Ground) -> None:
    """Facts of full size stop no driver, and an event of full size fails nobody who waits for it."""
    heard: list[str] = []
    agent.action(effect="idempotent", name="act")(lambda step: Facts(x="y" * (MAX_BYTES - 10)))

    @agent.cognition("k")
    def think(turn: Turn) -> Any:
        heard.extend(fact.kind for fact in turn.facts)
        return (Act("act"), Wait("news", timeout=HOUR), Done())[turn.number - 1]

    agent.post("news", {"x": "y" * (MAX_BYTES - 10)})
    agent.add("k")
    ground.run(agent)

    assert heard == ["started", "action_ok", "event"]
    assert agent.snapshot().is_idle


@pytest.mark.parametrize("answer", [True, False, None])
def test_what_a_person_is_asked_can_be_answered_or_time_out_at_any_depth(
    agent: Attention, ground: Ground, answer: bool | None
) -> None:
    """Or it would wait for ever (S2-23, I25)."""
    heard: list[str] = []
    agent.control(lambda: Control(must_confirm={"act"}, confirm_timeout=HOUR))
    agent.action(name="act")(lambda step, x: Facts())

    @agent.cognition("k")
    def think(turn: Turn) -> Any:
        heard.extend(fact.kind for fact in turn.facts)
        return Act("act", {"x": nested(98)}) if turn.number == 1 else Done()

    agent.add("k")
    ground.run(agent)
    ((_, (wait,)),) = agent.snapshot().waiting
    if answer is None:
        ground.clock.jump(2 * HOUR)
    else:
        agent.confirm(wait.number, answer, actor="user/ann")
    ground.run(agent)

    assert heard == ["started", {True: "confirmed", False: "denied", None: "timed_out"}[answer]]


# -- forgery -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("lane_id", 7), ("seq", 700), ("at", 1), ("cause", "x"), ("task_id", 7), ("state_before", "x"),
        ("state_after", "x"), ("changes", "[]"), ("changes", "no JSON"), ("changes", "7"), ("changes", '[["x",1,{}]]'),
        ("changes", '[["task","1",{}]]'), ("told", '{"x":1}'), ("told", "no JSON"), ("told", "7"), ("control", "x"),
        ("epoch", 7), ("hash", "x"), ("hash", None),
    ],
)  # fmt: skip
def test_invariant_19_a_journal_in_which_anything_was_changed_is_complained_about(
    agent: Attention, ground: Ground, column: str, value: Any
) -> None:
    agent.cognition("k")(lambda turn: Done())
    agent.add("k")
    ground.run(agent)
    assert agent.verify().sealed == len(agent.journal()) == 4
    with ground.app.engine.begin() as connection:
        connection.execute(text(f"UPDATE horae_journal SET {column} = :value WHERE seq = 2"), {"value": value})

    assert agent.verify().complaints


def test_invariant_19_what_an_operator_forbids_cannot_be_lifted_behind_the_journal(
    agent: Attention, ground: Ground
) -> None:
    assert agent.post("x").is_new
    for switches in ({"auto_continue": False, "must_confirm": ["b", "a"]}, {}, {"allow_interrupt": False}):
        lanes.set_control(agent.world, "ops", switches)
        assert agent.verify().is_sound
    with ground.app.engine.begin() as connection:
        connection.execute(text("UPDATE horae_lanes SET override = NULL"))

    assert agent.verify().complaints == ("the lane's control differs from the journal",)


def test_a_row_that_cannot_be_read_is_named(agent: Attention, ground: Ground) -> None:
    agent.add("k")
    with ground.app.engine.begin() as connection:
        connection.execute(text("UPDATE horae_tasks SET created_at = 'x'"))

    assert agent.verify().complaints == ("created_at of horae_tasks 1 is not an instant",)


# -- what an operator says ---------------------------------------------------------------------------------------------


def test_a_long_action_hears_of_what_an_operator_forbids_meanwhile(agent: Attention, ground: Ground) -> None:
    """Or it would go on to its own end, however long that takes (3.3, 3.8)."""
    asked: list[bool] = []

    @agent.action(effect="idempotent", name="read")
    def read(step: Step) -> Facts:
        asked.append(step.should_yield())
        lanes.set_control(agent.world, "ops", {"auto_continue": False})
        asked.append(step.should_yield())
        return Facts.partial()

    agent.cognition("k")(lambda turn: Act("read"))
    agent.add("k")
    ground.run(agent)

    assert asked == [False, True]
    assert [task.id for task in agent.snapshot().stack] == ["t1"]


def test_forbidding_something_in_a_lane_that_is_not_there_is_no_success(agent: Attention) -> None:
    """Whoever mistypes the name, or forgets whose lane it is, must not believe that the agent has stopped."""
    agent.add("k")
    for lane, owner in (("opps", "system"), ("ops", "ann")):
        with pytest.raises(NotFound):
            lanes.set_control(agent.world, lane, {"auto_continue": False}, owner=owner)
    assert [lane.name for lane in lanes.find_lanes(agent.world)] == ["ops"]


# -- what cannot work --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        {"turn_errors": 0}, {"crashes": 0}, {"clean_up_steps": -1}, {"longest_wait": timedelta(0)},
        {"keep_events": timedelta(-1)}, {"depth": 0},
    ],
    ids=str,
)  # fmt: skip
def test_a_policy_that_cannot_work_cannot_be_built(result: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Policy(**result)


@pytest.mark.parametrize(
    "result",
    [{"lease": timedelta(0)}, {"turn_timeout": timedelta(-1)}, {"owner": ""}, {"owner": "two\nlines"}],
    ids=str,
)
def test_an_agent_that_cannot_work_cannot_be_declared(ground: Ground, result: dict[str, Any]) -> None:
    """A lease of nothing would be renewed without a pause, and protect nobody."""
    with pytest.raises((DefinitionError, InvalidInput)):
        Attention("ops", ground.app, **result)


# -- many --------------------------------------------------------------------------------------------------------------


def test_pages_of_lanes_miss_none_and_repeat_none(ground: Ground) -> None:
    for number in range(5):
        inbox.add(ground.app.world, f"lane-{number}", "report", owner="alice" if number == 3 else "system")

    pages, after = [], 0
    while page := lanes.find_lanes(ground.app.world, limit=2, after=after):
        pages.append([lane.name for lane in page])
        after = page[-1].number
    assert pages == [["lane-0", "lane-1"], ["lane-2", "lane-3"], ["lane-4"]]
    assert [lane.name for lane in lanes.find_lanes(ground.app.world, owner="alice", limit=2)] == ["lane-3"]
