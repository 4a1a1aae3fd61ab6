"""The twenty-five invariants of section 3.9, one test for each; and the judge, who must notice when one is broken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from horae.actions.attention import inbox, lanes, turns
from horae.actions.jobs.machinery import serve_due
from horae.attention import Act, Attention, Control, Done, Facts, Pending, Policy, Proceed, Rule, Turn, Wait, Yield
from horae.core.attention.directives import check_answer, step_key
from horae.core.attention.lanes import Task
from horae.core.attention.task import TASK, Weighed, choose
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import TIMEOUT
from horae.errors import InvalidInput, LaneLost, NotAllowed, NotFound
from horae.runtime.lanes.spec import Step
from tests.attention.checker import Scene, look, unaccounted, unfinished, wrong_with
from tests.attention.ground import LEASE, Death, Ground, broken_ground
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)
HOLD = Control(auto_continue=False)
CAREFUL = Control(must_confirm=frozenset({"do"}), confirm_timeout=timedelta(hours=1))


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with broken_ground(tmp_path) as ground:
        yield ground


class Agent:
    """An agent whose tasks do what their payload says, step after step, and write down what they hear."""

    def __init__(self, ground: Ground, name: str = "ops", policy: Policy | None = None) -> None:
        self.ground = ground
        self.lane = Attention(name, ground.app, policy=policy)
        self.allowed: Control | Exception = Control()
        self.heard: list[tuple[str, str]] = []
        self.done: list[str] = []
        self.keys: list[str] = []
        self.during: Callable[[str], None] = lambda _op: None
        self.lane.control(self._control)
        self.lane.cognition("script")(self._think)
        self.lane.action(effect="once", name="do")(self._do)
        self.lane.action(effect="idempotent", name="again")(self._do)
        self.lane.action(effect="once", name="begin")(lambda step, op: Pending(on="begun", timeout=10 * MINUTE))

    def _control(self) -> Control:
        if isinstance(self.allowed, Exception):
            raise self.allowed
        return self.allowed

    def _do(self, step: Step, op: str) -> Facts:
        self.keys.append(step.key)
        self.done.append(f"{step.task_id} {op}")
        self.during(op)
        return Facts(op=op)

    def _think(self, turn: Turn) -> Any:
        self.heard += [(turn.task_id, fact.kind) for fact in turn.facts]
        ops, place = turn.payload, turn.context or 0
        if granted := turn.facts.last("confirmed"):
            return Proceed(granted.grant, context=place)
        if place == len(ops):
            return Done(place)
        kind, _, rest = ops[place].partition(" ")
        self.during(f"think {ops[place]}")
        if kind == "wait":
            return Wait(rest.split(), timeout=10 * MINUTE, context=place + 1)
        if kind == "yield":
            return Yield(release=rest == "release", context=place + 1)
        if kind == "loop":
            return Act("do", {"op": rest}, context=place)
        return Act(kind, {"op": rest}, interruptible=not rest.startswith("held"), context=place + 1)

    def add(self, *ops: str, priority: int = 40, **response: Any) -> Task:
        return self.lane.add("script", list(ops), priority=priority, **response).task

    def run(self) -> None:
        self.ground.run(self.lane)

    def task(self, task: Task) -> Task:
        found = self.ground.app.world.store.read(lambda tx: tx.attention.task(task.number))
        assert found is not None
        return found

    def scene(self, *controls: Control) -> Scene:
        known = (Control(), HOLD, CAREFUL, *controls)
        return look(self.ground.app.world, self.lane.name, policy=self.lane.policy, controls=known)

    def is_sound(self, *controls: Control) -> bool:
        assert wrong_with(self.scene(*controls)) == []
        return True

    def trace(self, task: Task | None = None) -> list[str]:
        return [str(line.after) for line in self.scene().lines if line.after and task and line.task == task.number]


@pytest.fixture
def agent(ground: Ground) -> Agent:
    return Agent(ground)


def interrupting(agent: Agent, *bases: int) -> None:
    """While each one is at its first step, the next comes."""
    left = list(bases)

    def during(op: str) -> None:
        if op == "work" and left:
            agent.add("do work", "do rest", priority=left.pop(0))

    agent.during = during


# -- one focus, legal moves, a stack -----------------------------------------------------------------------------------


def test_invariant_01_at_most_one_task_runs_in_a_lane(agent: Agent, ground: Ground) -> None:
    """The database refuses a second one; that N processes cannot do it either is shown in tests/journeys."""
    agent.add("do a")
    agent.add("do b")
    driver = ground.driver(agent.lane)
    drive = lanes.acquire(ground.app.world, "ops", driver.name, lease=LEASE)
    assert drive is not None
    assert turns.next_work(ground.app.world, drive, Control(), Policy()) is not None

    with pytest.raises(IntegrityError), ground.app.engine.begin() as connection:
        connection.execute(text("UPDATE horae_tasks SET state = 'running', focus = lane_id WHERE state = 'ready'"))
    with pytest.raises(IntegrityError), ground.app.engine.begin() as connection:
        connection.execute(text("UPDATE horae_tasks SET state = 'running' WHERE state = 'ready'"))
    assert agent.is_sound()


def test_invariant_02_every_move_is_drawn_and_nothing_leaves_a_final_state(agent: Agent) -> None:
    interrupting(agent, 60, 90)
    agent.add("do work", "wait a", "yield release", "begin x")
    agent.run()
    agent.ground.clock.jump(11 * MINUTE)
    agent.run()
    agent.ground.clock.jump(11 * MINUTE)
    agent.run()

    scene = agent.scene()
    assert unfinished(scene) == []
    assert wrong_with(scene) == []
    for state in ("completed", "failed", "cancelled"):
        for event in TASK.events:
            with pytest.raises(NotAllowed):
                TASK.after(state, event)


def test_invariant_03_the_stack_is_the_suspended_tasks_and_grows_upwards(agent: Agent, ground: Ground) -> None:
    interrupting(agent, 30, 50, 70)
    agent.add("do work", "do rest", priority=10)
    agent.during = _then(agent.during, lambda op: op == "work" and len(agent.done) == 4 and agent.is_sound())
    agent.run()

    assert max(line.details.get("why") == "interrupt" for line in agent.scene().lines)
    assert sum(line.after == "suspended" for line in agent.scene().lines) == 3
    assert agent.is_sound()


def _then(first: Callable[[str], Any], second: Callable[[str], Any]) -> Callable[[str], None]:
    def both(op: str) -> None:
        first(op)
        second(op)

    return both


def test_invariant_04_resume_order_is_the_reverse_of_suspend_order(agent: Agent) -> None:
    """Through five nested interrupts, one of which is cancelled in the middle of the stack."""
    tasks = [agent.add("do work", "do rest", priority=5)]
    bases = [20, 35, 50, 65, 80]

    def during(op: str) -> None:
        if op == "work" and bases:
            tasks.append(agent.add("do work", "do rest", priority=bases.pop(0)))
        elif op == "work":
            agent.lane.cancel(tasks[2].id)

    agent.during = during
    agent.run()

    lines = agent.scene().lines
    suspended = [line.task for line in lines if line.after == "suspended" and line.task != tasks[2].number]
    resumed = [line.task for line in lines if line.before == "suspended" and line.after == "ready"]
    assert len(suspended) == 4
    assert resumed == suspended[::-1]
    assert agent.task(tasks[2]).state == "cancelled"
    assert agent.is_sound()


# -- waits and events --------------------------------------------------------------------------------------------------


def test_invariant_05_waiting_means_an_open_wait_with_one_live_job(agent: Agent) -> None:
    agent.add("wait a b")
    agent.run()

    scene = agent.scene()
    assert [wait.state for wait in scene.waits] == ["open", "open"]
    assert {job.run_at for job in scene.jobs} == {wait.deadline for wait in scene.waits}
    assert len(scene.jobs) == 2
    assert wrong_with(scene) == []
    agent.lane.post("b")
    assert agent.scene().jobs == []
    assert agent.is_sound()


def _too_late(agent: Agent) -> None:
    agent.ground.clock.jump(11 * MINUTE)
    serve_due(agent.ground.app.world, "x")


@pytest.mark.parametrize("outcome", ["event", "timeout", "cancelled"])
def test_invariant_06_a_wait_resolves_exactly_once(agent: Agent, outcome: str) -> None:
    task = agent.add("wait a")
    agent.run()
    resolve: dict[str, Callable[[], Any]] = {
        "event": lambda: agent.lane.post("a"),
        "timeout": lambda: _too_late(agent),
        "cancelled": lambda: agent.lane.cancel(task.id),
    }
    for each in [outcome, *resolve]:
        resolve[each]()

    assert [wait.state for wait in agent.scene().waits] == [outcome]
    assert agent.is_sound()


def test_invariant_07_each_resolution_reaches_cognition_exactly_once_across_crashes(agent: Agent) -> None:
    task = agent.add("wait a", "wait b")
    agent.run()
    agent.lane.post("a")
    ground, heard = agent.ground, 0
    for _ in range(2):  # thinks, and dies before it could say what it thought
        ground.faults.choose = lambda _point, what: "after" if what == "never" else None
        driver = ground.driver(agent.lane)
        agent.during = _dies
        with pytest.raises(Death):
            driver.all()
        heard += agent.heard.count((task.id, "event"))
        agent.heard.clear()
        ground.clock.jump(LEASE + MINUTE)
    agent.during = lambda _op: None
    agent.run()
    ground.clock.jump(11 * MINUTE)
    agent.run()

    response = [fact for fact in agent.scene().facts if fact.kind in ("event", "timed_out")]
    assert heard == 2  # cognition was asked again with the same fact
    assert [(fact.kind, fact.turn) for fact in response] == [("event", 2), ("timed_out", 3)]
    assert agent.heard.count((task.id, "event")) == agent.heard.count((task.id, "timed_out")) == 1
    assert agent.is_sound()


def _dies(op: str) -> None:
    if op.startswith("think"):
        raise Death(op)


def test_invariant_08_no_event_is_lost(agent: Agent) -> None:
    agent.lane.rule(Rule("noise", do="log"))
    agent.lane.rule(Rule("hint", do="steer"))
    agent.lane.rule(Rule("alarm", do="task", kind="script", priority=90, key="alarm:{id}", payload={}))
    agent.add("wait a", "wait z")
    agent.run()
    for key in ("a", "early", "noise", "hint"):
        agent.lane.post(key)
        agent.lane.post(key, event_id=f"id-{key}")
        agent.lane.post(key, event_id=f"id-{key}")  # the same one again
    agent.run()
    agent.ground.clock.jump(11 * MINUTE)
    serve_due(agent.ground.app.world, "x")
    agent.lane.post("z")  # too late for the wait, and its task still lives
    agent.ground.clock.jump(timedelta(days=8))
    agent.run()

    scene = agent.scene()
    states = [event.state for event in scene.events]
    assert unaccounted(scene, 9) == []
    assert {state: states.count(state) for state in set(states)} == {"used": 1, "late": 1, "dropped": 4, "expired": 3}
    assert wrong_with(scene) == []


def test_invariant_09_an_early_event_is_worth_as_much_as_one_in_time(ground: Ground) -> None:
    def story(name: str, early: bool) -> tuple[list[Any], Any]:
        agent = Agent(ground, name)
        if early:
            agent.lane.post("a", {"by": "eve"})
        task = agent.add("wait a b", "do x")
        agent.run()
        if not early:
            agent.lane.post("a", {"by": "eve"})
            agent.run()
        assert agent.is_sound()
        return [kind for _, kind in agent.heard], (agent.task(task).state, agent.task(task).result)

    assert story("early", True) == story("in-time", False)


# -- safe points and choosing ------------------------------------------------------------------------------------------


def test_invariant_10_nobody_is_suspended_inside_an_action_or_a_hold(agent: Agent) -> None:
    def during(op: str) -> None:
        if op == "held":
            agent.add("do urgent", priority=99)

    agent.during = during
    task = agent.add("do held", "do rest")
    agent.run()

    causes = [(line.task, line.cause) for line in agent.scene().lines]
    begun, ended = causes.index((task.number, "step_intended")), causes.index((task.number, "step_facts"))
    assert (task.number, "interrupted") not in causes[begun : ended + 2]  # nor right after the facts: the hold is on
    assert agent.done == [f"{task.id} held", f"{task.id} rest", "t2 urgent"]
    assert agent.is_sound()


def test_invariant_10_also_for_what_a_person_approved(agent: Agent) -> None:
    agent.allowed = CAREFUL

    def during(op: str) -> None:
        if op == "held":
            agent.add("again urgent", priority=99)

    agent.during = during
    task = agent.add("do held", "again rest")
    agent.run()
    ((_, (wait,)),) = agent.lane.snapshot().waiting
    agent.lane.confirm(wait.number, True, actor="user/carol")
    agent.run()

    assert agent.done == [f"{task.id} held", f"{task.id} rest", "t2 urgent"]
    assert any(line.details.get("holds") for line in agent.scene().lines)
    assert agent.is_sound()


@pytest.mark.parametrize(
    ("rival", "allowed", "happens"),
    [(50, Control(), True), (49, Control(), False), (99, Control(allow_interrupt=False), False), (0, HOLD, True)],
)
def test_invariant_11_a_suspension_obeys_the_rule_under_the_control_of_that_moment(
    agent: Agent, rival: int, allowed: Control, happens: bool
) -> None:
    def during(op: str) -> None:
        agent.allowed = allowed  # changed while the action runs: the safe point after it counts
        if op == "first":
            agent.add("again x", priority=rival)

    agent.during = during
    task = agent.add("again first", "again second", priority=40)
    agent.run()

    assert ("suspended" in agent.trace(task)) is happens
    assert agent.is_sound(allowed)


def test_invariant_12_aging_never_suspends_and_everybody_of_a_band_runs_eventually(agent: Agent) -> None:
    """A simulation: one task is a little weaker than those that keep coming, and is served all the same."""
    weak = agent.add("again x", priority=40)
    dice = Random(3)
    for number in range(60):
        agent.add("again y", "again z", priority=dice.randint(44, 49), key=f"n{number}")
        driver = agent.ground.driver(agent.lane, "one")
        for _ in range(3):
            driver.once()
        driver.end()
        agent.ground.clock.jump(5 * MINUTE)

    assert agent.task(weak).state == "completed"
    assert not any(line.after == "suspended" for line in agent.scene().lines)
    assert agent.is_sound()


# -- actions, crashes, epochs ------------------------------------------------------------------------------------------


def test_invariant_13_no_action_without_a_committed_intent_and_one_key_for_one_step(agent: Agent) -> None:
    seen: list[tuple[Any, ...]] = []

    def during(op: str) -> None:
        if not op.startswith("think"):
            (task,) = agent.scene().tasks
            seen.append((task.phase, task.step, task.intent is not None))

    agent.during = during
    task = agent.add("do a", "again b")
    agent.run()

    assert seen == [("act", 1, True), ("act", 2, True)]
    assert agent.keys == [step_key("ops", task.number, 1), step_key("ops", task.number, 2)]
    assert len(set(agent.keys)) == 2
    assert agent.is_sound()


@pytest.mark.parametrize(
    ("action", "times", "response"),
    [("do", 1, "action_unknown"), ("again", 2, "action_ok")],
    ids=["once", "idempotent"],
)
def test_invariant_14_once_is_at_most_once_and_idempotent_at_least_once(
    agent: Agent, action: str, times: int, response: str
) -> None:
    """Every crash point of every class is in test_random_driver; here the one inside the action."""
    agent.during = lambda op: _dies("think") if op == "x" and len(agent.done) == 1 else None
    task = agent.add(f"{action} x")
    with pytest.raises(Death):
        agent.run()
    agent.ground.clock.jump(LEASE + MINUTE)
    agent.run()

    assert agent.done == [f"{task.id} x"] * times
    assert len(set(agent.keys)) == 1
    assert (task.id, response) in agent.heard
    assert agent.is_sound()


@pytest.mark.parametrize("fault", ["refused", "unheard"])
def test_invariant_14_a_store_that_does_not_answer_repeats_nothing(agent: Agent, fault: Any) -> None:
    """The same driver goes on; the facts of its action could not be written, or nobody heard that they were."""
    ground, task = agent.ground, agent.add("do x", "do y")
    driver = ground.driver(agent.lane)

    def during(op: str) -> None:
        if op == "x":
            ground.faults.choose = lambda _point, what: fault if what == "transact" else None

    agent.during = during
    with pytest.raises(Exception, match=r"not now|was lost"):
        driver.all()
    ground.faults.choose = lambda _point, _what: None
    driver.all()

    assert agent.done == [f"{task.id} x", f"{task.id} y"]
    assert agent.task(task).state == "completed"
    assert agent.is_sound()


def test_invariant_14_a_driver_that_lets_go_inside_an_action_leaves_it_unknown(agent: Agent) -> None:
    """A cancelled ``serve()``: the lane is free at once, and the action is still half done."""
    task, driver = agent.add("do x"), agent.ground.driver(agent.lane)
    agent.during = lambda op: _dies("think") if op == "x" and len(agent.done) == 1 else None
    with pytest.raises(Death):
        driver.all()
    driver.end()
    agent.run()

    assert agent.done == [f"{task.id} x"]
    assert (task.id, "action_unknown") in agent.heard
    assert agent.is_sound()


@pytest.mark.parametrize("state", ["created", "ready", "think", "act", "gap", "waiting", "suspended"])
def test_invariant_15_a_restart_in_each_state_goes_on_to_the_end(agent: Agent, state: str) -> None:
    """The process dies while a task is in this state or phase; the next one brings everything to its end."""
    ground = agent.ground

    def during(op: str) -> None:
        if op == "work" and state == "suspended":
            agent.add("again other", priority=90)
        dies = {"think": "think again rest", "act": "rest", "suspended": "other", "gap": "work"}
        if op == dies.get(state):
            if state == "gap":  # the facts are written; then it dies
                ground.faults.choose = lambda _point, what: "after" if what == "transact" else None
                return
            agent.during = lambda _op: None
            raise Death(state)

    agent.during = during
    response: dict[str, Any] = {"delay": MINUTE} if state == "created" else {}
    task = agent.add("again work", "again rest", "wait a", **response)
    driver = ground.driver(agent.lane)
    if state not in ("ready", "created", "waiting"):
        with pytest.raises(Death):
            driver.all()
    elif state != "ready":
        driver.all()
    ground.faults.choose = lambda _point, _what: None
    agent.during = lambda _op: None
    found = agent.task(task)
    assert state in (found.state, found.phase if found.state == "running" else found.state)
    for _ in range(4):
        ground.clock.jump(11 * MINUTE)
        agent.run()

    scene = agent.scene()
    assert unfinished(scene) == []
    assert wrong_with(scene) == []


def test_invariant_16_a_commit_with_an_old_epoch_changes_nothing(agent: Agent) -> None:
    world, task = agent.ground.app.world, agent.add("do x")
    old = lanes.acquire(world, "ops", "old", lease=LEASE)
    assert old is not None
    think = turns.next_work(world, old, Control(), Policy())
    assert isinstance(think, turns.Think)
    agent.ground.clock.jump(LEASE + MINUTE)
    new = lanes.acquire(world, "ops", "new", lease=LEASE)
    assert new is not None
    before = agent.scene()

    attempts: list[Callable[[], Any]] = [
        lambda: turns.next_work(world, old, Control(), Policy()),
        lambda: turns.commit_turn(world, old, think, Done(), policy=Policy(), effects={}),
        lambda: turns.commit_error(world, old, think, "no idea", Policy()),
        lambda: lanes.renew(world, old, LEASE),
        lambda: lanes.let_go(world, old),
    ]
    for attempt in attempts[:-1]:
        with pytest.raises(LaneLost):
            attempt()
    attempts[-1]()

    assert agent.scene() == before
    assert agent.task(task).state == "running"


@pytest.mark.parametrize("state", ["created", "ready", "running", "waiting", "suspended", "completed"])
def test_invariant_17_cancel_ends_a_task_from_each_state_and_twice_is_once(agent: Agent, state: str) -> None:
    response: dict[str, Any] = {"delay": MINUTE} if state == "created" else {}
    ops = {"waiting": ["wait a"], "running": ["do stop", "do never"], "suspended": ["do work", "do never"]}
    task = agent.add(*ops.get(state, ["do x"]), **response)

    def during(op: str) -> None:
        if op == "work":
            agent.add("do stop", priority=90)
        elif op == "stop":
            assert agent.task(task).state == state
            for _ in range(2):
                agent.lane.cancel(task.id)

    agent.during = during
    if state != "ready":
        agent.run()
    for _ in range(2):
        agent.lane.cancel(task.id)
    agent.ground.clock.jump(timedelta(hours=1))
    agent.run()

    assert agent.task(task).state == ("completed" if state == "completed" else "cancelled")
    assert f"{task.id} never" not in agent.done
    assert agent.scene().jobs == []
    assert agent.is_sound()


@pytest.mark.parametrize("op", ["loop x", "wait a", "yield release", "yield"])
def test_invariant_17_a_graceful_cancel_is_bounded_whatever_cognition_answers(agent: Agent, op: str) -> None:
    asked: list[Task] = []

    def during(now: str) -> None:
        if now.startswith("think") and not asked:
            asked.append(agent.lane.cancel("t1", graceful=True))
        agent.lane.post("a")

    agent.during = during
    task = agent.add(*[op] * 20)
    for _ in range(20):
        agent.run()
        agent.ground.clock.jump(11 * MINUTE)

    assert agent.task(task).state == "cancelled"
    assert agent.task(task).turn <= 1 + Policy().clean_up_steps
    assert agent.is_sound()


def test_invariant_17_a_cancel_is_not_forgotten_when_cognition_fails(agent: Agent) -> None:
    def during(op: str) -> None:
        agent.lane.cancel("t1")
        raise RuntimeError("no idea")

    agent.during = during
    task = agent.add("do x")
    agent.run()

    assert agent.task(task).state == "cancelled"
    assert agent.is_sound()


# -- confirmation, journal, blindness ----------------------------------------------------------------------------------


def test_invariant_18_silence_is_never_a_refusal_and_a_grant_works_once(agent: Agent) -> None:
    agent.allowed = CAREFUL
    silent, asked = agent.add("do a"), agent.add("do b")
    agent.run()
    waits = {task.id: found[0] for task, found in agent.lane.snapshot().waiting}
    agent.lane.confirm(waits[asked.id].number, True, actor="user/carol")
    grants: list[str] = []
    real = agent._think

    def again(turn: Turn) -> Any:
        grants.extend(fact.grant for fact in turn.facts.of("confirmed"))
        if grants and turn.facts.last("action_ok"):
            return Proceed(grants[0], context=turn.context)  # a second time
        return real(turn)

    agent.lane._cognitions["script"] = again
    agent.run()
    agent.ground.clock.jump(timedelta(hours=2))
    agent.lane.confirm(waits[silent.id].number, True, actor="user/carol")  # too late
    agent.run()

    kinds = {task.id: [kind for who, kind in agent.heard if who == task.id] for task in (silent, asked)}
    assert agent.done == [f"{asked.id} b"]
    assert "grant_refused" in [fact.kind for fact in agent.scene().facts if fact.task == asked.number]
    assert "denied" not in kinds[silent.id]
    assert {"timed_out", "late_event"} <= set(kinds[silent.id])
    assert agent.is_sound()


def test_invariant_18_a_grant_is_bound_to_its_deadline_and_its_hash(agent: Agent) -> None:
    agent.allowed = CAREFUL
    late, changed = agent.add("do late"), agent.add("do changed")
    agent.run()
    for _, (wait,) in agent.lane.snapshot().waiting:
        agent.lane.confirm(wait.number, True, actor="user/carol")
    with agent.ground.app.engine.begin() as connection:
        sql = text("UPDATE horae_waits SET intent = replace(intent, 'changed', 'more') WHERE task_id = :task")
        connection.execute(sql, {"task": changed.number})
    agent.allowed = CAREFUL
    driver = agent.ground.driver(agent.lane)
    agent.ground.clock.jump(timedelta(hours=2))
    driver.all()

    assert agent.done == []
    refused = [fact.task for fact in agent.scene().facts if fact.kind == "grant_refused"]
    assert sorted(refused) == [late.number, changed.number]


def test_invariant_19_folding_the_journal_gives_the_tables(agent: Agent) -> None:
    interrupting(agent, 60, 90)
    agent.add("do work", "wait a", "begin x")
    agent.run()
    agent.lane.post("a")
    agent.run()

    response = agent.lane.verify()
    assert response.complaints == ()
    assert response.sealed == response.lines > 20
    assert [line.seq for line in agent.scene().lines] == list(range(1, response.lines + 1))


def test_invariant_20_blindness_is_shown_for_random_stories_in_test_blindness() -> None:
    """What choosing is given has no room for content in the first place."""
    assert {"payload", "context", "kind", "intent", "note"}.isdisjoint(Weighed.__slots__)


def test_invariant_21_choosing_is_deterministic(ground: Ground) -> None:
    now, dice = ground.clock.now(), Random(5)
    for _ in range(30):
        rows = [
            Weighed(number, "ready", dice.randrange(100), now - dice.randrange(100) * MINUTE, None)
            for number in range(1, 5)
        ]
        chosen = {choose(each, now, Control(), Policy()) for each in permutations(rows)}
        assert len(chosen) == 1


def test_invariant_21_the_same_inputs_at_the_same_times_give_the_same_journal(tmp_path: Path) -> None:
    """Replay: two stores, the same inputs, the same clock; every line and the last hash are equal."""

    def story(folder: Path) -> list[Any]:
        folder.mkdir()
        with broken_ground(folder) as ground:
            agent = Agent(ground)
            agent.allowed = CAREFUL
            interrupting(agent, 60, 90)
            agent.add("again work", "wait a", "do x")
            for _ in range(6):
                driver = ground.driver(agent.lane, "one")
                driver.all()
                driver.end()
                agent.lane.post("a", {"n": 1})
                for _, (wait, *_) in agent.lane.snapshot().waiting:
                    if wait.kind == "confirm":
                        agent.lane.confirm(wait.number, True, actor="user/carol")
                ground.clock.jump(3 * MINUTE)
            return [(line.seq, line.cause, line.hash) for line in agent.scene().lines]

    first, second = story(tmp_path / "a"), story(tmp_path / "b")
    assert len(first) > 30
    assert first == second


# -- clocks, neighbours, failures --------------------------------------------------------------------------------------


def test_invariant_22_a_clock_that_jumps_fires_nothing_early_or_twice(agent: Agent) -> None:
    waiting, later = agent.add("wait a"), agent.add("again x", delay=5 * MINUTE)
    agent.run()
    agent.ground.clock.jump(-3 * timedelta(days=1))
    for _ in range(5):
        agent.run()
        agent.ground.clock.jump(MINUTE)
    assert (agent.task(waiting).state, agent.task(later).state) == ("waiting", "created")

    agent.ground.clock.jump(timedelta(days=30))
    for _ in range(3):
        agent.run()
        agent.ground.clock.jump(-timedelta(days=1))
    agent.ground.clock.jump(timedelta(days=60))
    agent.run()

    facts = [fact.kind for fact in agent.scene().facts]
    assert (facts.count("timed_out"), agent.done) == (1, [f"{later.id} x"])
    assert unfinished(agent.scene()) == []
    assert agent.is_sound()


def test_invariant_22_a_job_that_is_handled_too_early_by_another_clock_comes_again(agent: Agent) -> None:
    agent.add("wait a")
    agent.run()
    (wait,) = agent.scene().waits
    again = inbox.come_due(agent.ground.app.world, TIMEOUT, {"lane": wait.lane, "wait": wait.number}, owner=SYSTEM)

    assert again == wait.deadline
    assert agent.is_sound()


def test_invariant_23_one_agent_never_changes_the_rows_of_another(ground: Ground) -> None:
    quiet, busy = Agent(ground, "quiet"), Agent(ground, "busy")
    kept = quiet.add("wait a")
    quiet.run()
    quiet.add("do later", priority=1)
    before = quiet.scene()

    interrupting(busy, 60, 90)
    busy.add("do work", "wait a", "begin x")
    busy.run()
    busy.lane.post("a")
    busy.run()
    busy.lane.cancel(busy.add("do x").id)
    with refused(NotFound, "task_unknown"):
        busy.lane.cancel(kept.id)

    assert quiet.scene() == before
    assert busy.is_sound()


def test_invariant_24_a_control_that_cannot_be_read_is_closed(agent: Agent) -> None:
    """Nothing goes on by itself, everything needs a person; even when it breaks while cognition thinks."""

    def during(op: str) -> None:
        if op == "think do x":
            agent.allowed = RuntimeError("the control store is down")

    agent.during = during
    task = agent.add("do x", "do y")
    agent.run()
    assert (agent.done, agent.task(task).state) == ([], "waiting")
    ((_, (wait,)),) = agent.lane.snapshot().waiting
    assert wait.kind == "confirm"

    agent.lane.confirm(wait.number, True, actor="user/carol")
    agent.run()
    assert agent.task(task).state == "ready"  # nobody continues it
    agent.allowed = Control()
    agent.during = lambda _op: None
    agent.run()
    assert agent.done == [f"{task.id} x", f"{task.id} y"]


@pytest.mark.parametrize("timeout", [None, 0, -1, math.inf, math.nan, timedelta(0), "soon", True])
def test_invariant_25_a_wait_without_a_finite_positive_timeout_cannot_be_built(timeout: Any) -> None:
    with pytest.raises(InvalidInput):
        Wait("a", timeout=timeout)
    with pytest.raises(InvalidInput):  # of an action that has run already, so it is the answer that is refused
        check_answer(Pending("a", timeout=timeout), Policy())
    for build in (Wait, Pending):
        with pytest.raises(TypeError):
            build("a")  # type: ignore[call-arg]


def test_invariant_25_a_wait_longer_than_the_lane_allows_is_nonsense_and_not_a_crash(agent: Agent) -> None:
    @agent.lane.cognition("patient")
    def patient(turn: Turn) -> Any:
        return Wait("a", timeout=timedelta(days=1000))

    task = agent.lane.add("patient").task
    for _ in range(3):
        agent.run()
        agent.ground.clock.jump(MINUTE)

    assert agent.task(task).state == "failed"
    assert "longer than this lane allows" in (agent.task(task).reason or "")
    assert agent.is_sound()


# -- the judge himself -------------------------------------------------------------------------------------------------


@pytest.fixture
def a_scene(agent: Agent) -> Scene:
    """A sound one with a little of everything: an interrupted hold-free task, a wait that is open, one that is not."""
    interrupting(agent, 60)
    agent.add("do work", "wait a", "do held", "wait b")
    agent.run()
    agent.lane.post("a")
    agent.run()
    scene = agent.scene()
    assert wrong_with(scene) == []
    return scene


def line_of(scene: Scene, **wanted: Any) -> int:
    return next(
        place
        for place, line in enumerate(scene.lines)
        if all(getattr(line, name) == value for name, value in wanted.items())
    )


def doctored(scene: Scene, place: int, **changes: Any) -> Scene:
    lines = list(scene.lines)
    lines[place] = replace(lines[place], **changes)
    return replace(scene, lines=lines)


def with_told(scene: Scene, place: int, **response: Any) -> Scene:
    return doctored(scene, place, details={**scene.lines[place].details, **response})


FORGERIES: list[tuple[str, Callable[[Scene], Scene]]] = [
    ("1:", lambda s: replace(s, tasks=[replace(task, state="running") for task in s.tasks])),
    ("1:", lambda s: doctored(s, line_of(s, before="running", after="suspended"), before=None, after=None)),
    ("2:", lambda s: doctored(s, line_of(s, after="running"), before="waiting")),
    ("3:", lambda s: replace(s, tasks=[replace(task, stack_index=0) for task in s.tasks])),
    ("4:", lambda s: doctored(s, line_of(s, before="running", after="suspended"), task=99)),
    ("5:", lambda s: replace(s, jobs=[])),
    ("5:", lambda s: replace(s, jobs=[*s.jobs, *s.jobs])),
    ("5:", lambda s: replace(s, jobs=[replace(job, planned_at=job.planned_at + MINUTE) for job in s.jobs])),
    ("5:", lambda s: replace(s, waits=[replace(wait, state="timeout") for wait in s.waits])),
    ("6:", lambda s: _twice(s, "wait")),
    ("7:", lambda s: _twice(s, "fact")),
    ("8:", lambda s: _twice(s, "event")),
    ("8:", lambda s: replace(s, events=[replace(event, task=None) for event in s.events])),
    ("10:", lambda s: _hold_everything(s)),
    ("11:", lambda s: with_told(s, line_of(s, after="suspended"), by="t1")),
    ("11:", lambda s: with_told(s, line_of(s, after="suspended"), why="hold")),
    ("11:", lambda s: doctored(s, line_of(s, after="suspended"), control="unknown")),
    ("13:", lambda s: doctored(s, line_of(s, cause="step_intended"), cause="nothing")),
    ("missing", lambda s: replace(s, lines=[*s.lines[:5], *s.lines[6:]])),
    ("changed after it was sealed", lambda s: doctored(s, 3, cause="something else")),
    ("differs from the journal", lambda s: replace(s, tasks=[replace(task, base=99) for task in s.tasks])),
    ("not in the journal", lambda s: replace(s, facts=[*s.facts, replace(s.facts[0], number=10**6)])),
]


def _twice(scene: Scene, table: str) -> Scene:
    """The last change of some row, once more on the last line."""
    changes = [each for line in scene.lines for each in line.changes if each[0] == table]
    ended = [each for each in changes if {"state", "turn"} & set(each[2]) and "lane" not in each[2]]
    last = len(scene.lines) - 1
    return doctored(scene, last, changes=[*scene.lines[last].changes, ended[-1]])


def _hold_everything(scene: Scene) -> Scene:
    lines = [
        replace(line, details={**line.details, "holds": True}) if line.cause == "step_intended" else line
        for line in scene.lines
    ]
    return replace(scene, lines=lines)


@pytest.mark.parametrize(
    ("complaint", "forge"), FORGERIES, ids=[f"{n}-{what}" for n, (what, _) in enumerate(FORGERIES)]
)
def test_the_judge_notices_a_forgery(a_scene: Scene, complaint: str, forge: Callable[[Scene], Scene]) -> None:
    found = wrong_with(forge(a_scene))

    assert any(complaint in each for each in found), found


def test_the_judge_notices_who_has_not_ended_and_what_is_lost(a_scene: Scene) -> None:
    assert unfinished(a_scene) == ["15: t1 is waiting"]
    assert unaccounted(a_scene, 2) != []
