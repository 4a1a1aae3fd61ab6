"""A lane under random work and thousands of crashes: at every commit, between statements, around every call.

Invariant 15 of section 3.9, and with it 1 to 14: after every crash a new driver goes on, and every task ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions.attention import inbox, waits
from horae.actions.jobs.machinery import serve_due
from horae.attention import (
    Act,
    Attention,
    Control,
    Done,
    Facts,
    Fail,
    Pending,
    Policy,
    Proceed,
    Rule,
    Turn,
    Wait,
    Yield,
)
from horae.core.attention.directives import step_key
from horae.core.attention.lanes import Line
from horae.core.jobs.machinery import TIMEOUT
from horae.core.jobs.payloads import decode
from horae.errors import StoreError
from horae.runtime.lanes.spec import Step
from tests.attention.checker import Scene, look, unaccounted, unfinished, wrong_with
from tests.attention.ground import FAULTS, LEASE, Death, Fault, Ground, PlainDriver, broken_ground

KEYS = ("a", "b", "c")
OPS = ("once", "idem", "tx", "hold", "part", "pend", "wait", "either", "yield", "release", "ask", "stumble")
STORY = ("once", "tx", "pend", "ask", "stumble")
POLICY = Policy(crashes=1_000_000)  # here no task is given up: all must get through
CONTROL = Control(must_confirm=frozenset({"ask"}), confirm_timeout=timedelta(minutes=5))
LOCKED = Control(auto_continue=False, must_confirm=frozenset({"ask"}), confirm_timeout=timedelta(minutes=5))
MINUTE = timedelta(minutes=1)


def _keeps(place: int) -> dict[str, Any]:
    return {"context": place}


class Life:
    """One lane, what it did to the world, and the outside that talks to it."""

    def __init__(self, ground: Ground, name: str, seed: int) -> None:
        self.ground, self.random = ground, Random(seed)
        self.ran: Counter[str] = Counter()  # what the world saw, by the key of the step
        self.stumbled: set[tuple[str, int]] = set()
        self.posted: set[str] = set()
        self.added = 0
        self.allowed = CONTROL
        self.takeovers = False
        self.agent = Attention(name, ground.app, policy=POLICY)
        self._teach(self.agent)
        self.driver = ground.driver(self.agent)
        self.deaths = 0

    # -- the mind --------------------------------------------------------------------------------------------------

    def _teach(self, agent: Attention) -> None:
        agent.control(lambda: self.allowed)
        for name, effect in (("once", "once"), ("idem", "idempotent"), ("hold", "once"), ("part", "idempotent"),
                             ("pend", "once"), ("ask", "once")):  # fmt: skip
            agent.action(effect=effect, name=name)(self._acting(name))  # type: ignore[arg-type]
        agent.action(effect="transactional", name="tx")(self._book)
        agent.cognition("script")(self._think)
        agent.rule(Rule("alarm", do="task", kind="script", priority=90, key="alarm:{id}", payload={"ops": ["once"]}))
        agent.rule(Rule("hint", do="steer"))
        agent.rule(Rule("noise", do="log"))

    def _acting(self, name: str) -> Any:
        def act(step: Step, op: int) -> Any:
            self._is_intended(step)
            late = self.ground.faults.around(name)
            self.ran[step.key] += 1
            self._may_lose_the_lane()
            if late is not None:
                raise Death("after the effect")
            if name == "pend":
                return Pending(on="pend", timeout=MINUTE)
            return Facts.partial(op=op) if name == "part" and step.should_yield() else Facts(op=op)

        return act

    def _book(self, step: Step, connection: Any, op: int) -> Facts:
        connection.execute(text("INSERT INTO booking VALUES (:key)"), {"key": step.key})
        return Facts(op=op)

    def _is_intended(self, step: Step) -> None:
        """Invariant 13: what runs is written down, under a key that anyone can work out."""
        number = int(step.task_id[1:])
        task = self.ground.app.world.store.read(lambda tx: tx.attention.task(number))
        assert task is not None
        assert (task.state, task.phase, decode(task.intent or "{}")["key"]) == ("running", "act", step.key)
        assert step.key == step_key(self.agent.name, number, task.step)

    def _think(self, turn: Turn) -> Any:
        late = self.ground.faults.around("cognition")
        self._may_lose_the_lane()
        answer = self._answer(turn)
        if late is not None:
            raise Death("after thinking")
        return answer

    def _answer(self, turn: Turn) -> Any:
        ops, place = turn.payload["ops"], turn.context or 0
        if granted := turn.facts.last("confirmed"):
            return Proceed(granted.grant, context=place)
        if place == len(ops):
            return Done(place)
        op, after = ops[place], _keeps(place + 1)
        if op == "wait":
            return Wait("a", timeout=MINUTE, **after)
        if op == "either":
            return Wait(["b", "c"], timeout=2 * MINUTE, **after)
        if op in ("yield", "release"):
            return Yield(release=op == "release", **after)
        if op == "fail":
            return Fail("as the script says", **after)
        if op == "stumble":
            if (turn.task_id, place) not in self.stumbled:
                self.stumbled.add((turn.task_id, place))
                raise RuntimeError("no idea")
            return Yield(**after)
        return Act(op, {"op": place}, interruptible=op != "hold", **after)

    def _may_lose_the_lane(self) -> None:
        """Now and then the world moves on while this process thinks: it comes back as a zombie."""
        if not self.takeovers or self.random.random() > 0.03:
            return
        self.takeovers = False
        choose, self.ground.faults.choose = self.ground.faults.choose, no_fault
        self.ground.clock.jump(LEASE + MINUTE)
        heir = self.ground.driver(self.agent)
        for _ in range(self.random.randint(1, 4)):
            heir.once()
        if self.random.random() < 0.5:
            heir.end()
        self.ground.faults.choose = choose
        self.takeovers = True

    # -- the outside -------------------------------------------------------------------------------------------------

    def certainly(self, work: Any) -> Any:
        """Try until it is acknowledged, as a careful caller does: keys make that safe."""
        while True:
            try:
                return work()
            except (Death, StoreError):
                continue

    def add(self, ops: Any, priority: int, delay: timedelta | None = None) -> None:
        self.added += 1
        key = f"k{self.added}"
        self.certainly(lambda: self.agent.add("script", {"ops": ops}, priority=priority, key=key, delay=delay))

    def post(self, key: str) -> None:
        event_id = f"e{len(self.posted) + 1}"
        self.posted.add(event_id)
        data = {"id": self.random.randint(1, 3)} if key == "alarm" else {}
        self.certainly(lambda: self.agent.post(key, data, event_id=event_id))

    def meddle(self) -> None:
        """Something that an outside does."""
        dice, tasks = self.random, self._tasks()
        what = dice.choice(["add", "add", "post", "post", "post", "cancel", "confirm", "clock", "clock", "control"])
        if what == "add" and self.added < 60:
            ops = [dice.choice(OPS) for _ in range(dice.randint(1, 5))]
            ops += ["fail"] if dice.random() < 0.1 else []
            self.add(ops, dice.randrange(100), dice.choice([None, None, None, 30 * MINUTE]))
        elif what == "post":
            self.post(dice.choice([*KEYS, "pend", "alarm", "hint", "noise"]))
        elif what == "cancel" and tasks and dice.random() < 0.3:
            chosen, graceful = dice.choice(tasks), dice.random() < 0.5
            self.certainly(lambda: self.agent.cancel(chosen.id, graceful=graceful))
        elif what == "confirm":
            asked = [wait for _, found in self.agent.snapshot().waiting for wait in found if wait.kind == "confirm"]
            for wait in asked:
                yes = dice.random() < 0.7
                self.certainly(partial(self.agent.confirm, wait.number, yes, actor="user/carol"))
        elif what == "clock":
            self.ground.clock.jump(dice.choice([-2, 1, 1, 5, 600]) * MINUTE / 2)
        elif what == "control":
            self.allowed = dice.choice([CONTROL, CONTROL, LOCKED])

    def _tasks(self) -> list[Any]:
        lane = self.agent.snapshot().lane.number
        return list(self.ground.app.world.store.read(lambda tx: tx.attention.live_tasks(lane)))

    # -- time passes ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One step of whoever drives; a dead one is replaced by a new one, after the lease or before it."""
        try:
            return self.driver.once()
        except Death:
            self.deaths += 1
            self.driver = self.ground.driver(self.agent)
            if self.random.random() < 0.9:
                self.ground.clock.jump(LEASE + timedelta(seconds=1))
            return True
        except StoreError:
            return True

    def to_the_end(self, rounds: int = 400) -> None:
        """No more faults: now everything must come to an end by itself."""
        self.ground.faults.choose = no_fault
        self.allowed, self.takeovers = CONTROL, False
        for _ in range(rounds):
            while self.step():
                pass
            if not self._tasks():
                return
            self.ground.clock.jump(MINUTE)

    def judged(self) -> list[str]:
        scene = look(self.ground.app.world, self.agent.name, policy=POLICY, controls=(CONTROL, LOCKED))
        return [*wrong_with(scene), *unfinished(scene), *unaccounted(scene, len(self.posted)), *self.effects(scene)]

    def effects(self, scene: Scene) -> list[str]:
        """Invariant 14: what the world saw, against what the journal says was done."""
        with self.ground.app.engine.begin() as connection:
            booked = Counter(connection.execute(text("SELECT step_key FROM booking")).scalars())
        found = list[str]()
        intended: dict[str, Line] = {}
        for line in scene.lines:
            if line.cause not in ("step_intended", "step_facts"):
                continue
            action = line.details["action"]
            if line.cause == "step_intended":
                intended[step_key(self.agent.name, line.task or 0, int(line.details["step"]))] = line
                continue
            key = [key for key, begun in intended.items() if begun.task == line.task][-1]
            seen = booked[key] if action == "tx" else self.ran[key]
            if action in ("idem", "part") and not seen:
                found.append(f"14: {action} {key} was never done")
            elif action not in ("idem", "part") and seen != 1:
                found.append(f"14: {action} {key} was done {seen} times")
        once = {key: line for key, line in intended.items() if line.details["action"] not in ("idem", "part", "tx")}
        found += [f"14: {key} was done {self.ran[key]} times" for key in once if self.ran[key] > 1]
        found += [f"14: {key} was booked {count} times" for key, count in booked.items() if count > 1]
        return found + [f"13: {key} was done without an intent" for key in self.ran if key not in intended]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with broken_ground(tmp_path_factory.mktemp("random")) as ground:
        with ground.app.engine.begin() as connection:
            connection.execute(text("CREATE TABLE booking (step_key TEXT NOT NULL)"))
        yield ground


@pytest.mark.parametrize("seed", range(6))
def test_random_work_survives_crashes_everywhere(ground: Ground, seed: int) -> None:
    """Invariants 1 to 15: hundreds of crashes in each lane, one driver after the other."""
    life = Life(ground, f"random-{seed}", seed)
    ground.faults.random = life.random
    life.takeovers = True
    before = ground.faults.crashes
    life.add(["once", "wait"], 40)
    for _ in range(600):
        ground.faults.choose = lambda _point, _what: life.random.choice(FAULTS) if life.random.random() < 0.4 else None
        life.step() if life.random.random() < 0.75 else life.meddle()

    life.to_the_end()

    assert life.judged() == []
    assert ground.faults.crashes - before > 200


def the_story(ground: Ground, name: str) -> Life:
    """Every kind of step once, and an alarm in between."""
    life = Life(ground, name, seed=7)
    life.add(STORY, 40)
    return life


def play(life: Life) -> None:
    """The same inputs at the same moments, however often somebody dies."""
    result = Counter[str]()
    for _ in range(500):
        if not life.step():
            for _, (wait, *_) in life.agent.snapshot().waiting:
                if wait.kind == "confirm":
                    life.certainly(partial(life.agent.confirm, wait.number, True, actor="user/carol"))
                elif wait.key in ("a", "b", "pend") and not result[wait.key]:
                    result[wait.key] += 1
                    life.post(wait.key)
            if not life._tasks():
                return
            life.ground.clock.jump(timedelta(seconds=5))
        elif not result["alarm"] and life.ground.faults.points > 15:
            result["alarm"] += 1
            life.post("alarm")
    raise AssertionError("the story does not end")


def no_fault(_point: int, _what: str) -> None:
    return None


def only_at(point: int, fault: Fault) -> Callable[[int, str], Fault | None]:
    return lambda now, _what: fault if now == point else None


def test_a_crash_at_every_single_point_of_a_story(ground: Ground) -> None:
    """Invariant 15: each commit and each call of the story is the place of a crash once, the kinds taking turns."""
    ground.faults.points, ground.faults.choose = 0, no_fault
    calm = the_story(ground, "calm")
    play(calm)
    assert calm.judged() == []
    points = ground.faults.points
    assert points > 40

    for point in range(1, points + 1):
        fault = FAULTS[point % len(FAULTS)]
        ground.faults.points, ground.faults.choose = 0, only_at(point, fault)
        life = the_story(ground, f"{fault}-{point}")
        play(life)
        ground.faults.choose = no_fault
        assert life.judged() == [], f"{fault} at point {point}"


# -- what a random driver misses ---------------------------------------------------------------------------------------


def test_the_scripted_race_of_an_event_and_its_time_out(ground: Ground) -> None:
    """Invariant 6: an event that is posted between listing and handling a due job; one of them wins, once."""
    ground.faults.choose = no_fault
    life = Life(ground, "race", 1)
    life.add(["wait"], 40)
    while life.step():
        pass
    ((task, (wait,)),) = life.agent.snapshot().waiting
    ground.clock.jump(2 * MINUTE)
    real, store = waits.time_out, ground.app.world.store
    listed = store.read(lambda tx: tx.jobs.get(wait.job))  # type: ignore[arg-type]
    assert listed is not None
    assert (listed.handler, listed.run_at) == (TIMEOUT, wait.deadline)

    def late(*given: Any) -> Any:  # the job is taken; before it is handled, somebody posts
        life.post("a")
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inbox, "time_out", late)
        serve_due(ground.app.world, "somebody")
    life.to_the_end()

    facts = [fact.kind for fact in look(ground.app.world, "race").facts if fact.task == task.number]
    assert facts.count("event") == 1
    assert facts.count("timed_out") == 0
    assert life.judged() == []


def test_the_other_way_round_the_event_is_late(ground: Ground) -> None:
    ground.faults.choose = no_fault
    life = Life(ground, "race-2", 1)
    life.add(["wait", "yield", "idem"], 40)
    while life.step():
        pass
    ((task, _),) = life.agent.snapshot().waiting
    ground.clock.jump(2 * MINUTE)
    serve_due(ground.app.world, "somebody")
    life.post("a")
    life.to_the_end()

    facts = [fact.kind for fact in look(ground.app.world, "race-2").facts if fact.task == task.number]
    assert (facts.count("event"), facts.count("timed_out"), facts.count("late_event")) == (0, 1, 1)
    assert life.judged() == []


def test_a_task_that_kills_its_process_three_times_in_one_step_is_given_up(ground: Ground) -> None:
    """Section 3.2: a poison task cannot block the agent."""
    ground.faults.choose = no_fault
    agent = Attention("poison", ground.app)
    calls = 0

    @agent.cognition("poison")
    def poison(turn: Turn) -> Any:
        nonlocal calls
        calls += 1
        raise Death("poison")

    @agent.cognition("fine")
    def fine(turn: Turn) -> Any:
        return Done()

    agent.add("poison", priority=50)
    agent.add("fine", priority=10)
    driver: PlainDriver = ground.driver(agent)
    for _ in range(3):
        with pytest.raises(Death):
            driver.all()
        ground.clock.jump(LEASE + MINUTE)
        driver = ground.driver(agent)
    driver.all()

    scene = look(ground.app.world, "poison")
    assert [(task.state, task.reason) for task in scene.tasks] == [("failed", "crash_loop"), ("completed", None)]
    assert calls == 3
    assert wrong_with(scene) == []


def test_the_file_is_a_real_one(ground: Ground) -> None:
    assert Path(ground.app.engine.url.database or "").stat().st_size > 0
