"""The memories of the soak: proposed, verified within seconds, contested, cleared and retracted while things break."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from threading import Event
from typing import Any, Final, TypeVar

from sqlalchemy import text

from horae import Horae, ObjectToVerify, Verdict
from horae.actions.audit import seal_all, verify_audit
from horae.actions.budgets.repair import check as check_budgets
from horae.actions.governance.invariants import check_objects
from horae.core.time.instants import micros
from horae.errors import HoraeError, StoreError

T = TypeVar("T")
BUDGET = "verify.memory"
UNIT: Final = "tokens"
COST, ROOM = 10, 300  # tokens: the most that a look may take, and what is added now and then
ADDED_EVERY = 40  # acts
MOST = 300  # memories that live at once
LATE = 30.0  # seconds: nothing may be due for longer when the load has ended
SHOWN = 5  # of what does not hold
IN_SECONDS = {
    "stability": 4, "longest_stability": 20, "inconclusive_delay": 2, "recheck_every": 6, "uncertain_for": 15,
    "after_decay": 3, "archive_after": 20, "verify_budget": 3,
}  # fmt: skip


def declare_verifier(app: Horae) -> None:
    """Declare a verifier that confirms most of what it sees, takes its time, and fails now and then."""

    @app.verifier("memory", timeout=5, cost={UNIT: COST})
    def look(memory: ObjectToVerify) -> Verdict:
        time.sleep(random.choice([0, 0, 0, random.uniform(0, 1.5)]))
        drawn = random.random()
        if drawn < 0.05:
            raise RuntimeError("the source does not answer")
        cost, seen = {UNIT: random.randint(1, COST)}, [f"web:{random.randrange(10**9)}"]
        if drawn < 0.15:
            return Verdict.refuted(evidence=seen, cost=cost)
        return Verdict.inconclusive(cost=cost) if drawn < 0.25 else Verdict.confirmed(evidence=seen, cost=cost)


class Memories:
    """What an agent and a person do with memories, and whether everything holds at the end."""

    def __init__(self, app: Horae, rate: float) -> None:
        self.app, self.rate = app, rate
        self.person = app.acting_as("user/carol")
        self.capacity, self.acts, self.number = 0, 0, 0
        self.alive: list[str] = []
        app.policies.set("memory", IN_SECONDS, reason="a life within seconds")
        self._add_room()

    def feed(self, ended: Event) -> None:
        """Act at random; what the state of a memory forbids is refused, and that is fine."""
        while not ended.wait(random.expovariate(self.rate)):
            self.acts += 1
            if self.acts % ADDED_EVERY == 0:
                self._add_room()
            if len(self.alive) < MOST and random.random() < 0.5:
                self._propose()
            elif self.alive:
                self._change(random.choice(self.alive))

    def _propose(self) -> None:
        self.number += 1
        name = f"mem_soak{self.number}"
        below = [f"memory:{each}" for each in random.sample(self.alive, min(2, len(self.alive)))]
        _persistently(lambda: self._remember("memory", name, ()))
        self.alive.append(name)
        if random.random() < 0.2:
            _persistently(lambda: self._remember("experience", f"exp_soak{self.number}", below))

    def _remember(self, kind: Any, name: str, rests_on: Any) -> Any:
        content = f"fact {name}"
        return self.app.objects.propose(kind, content, id=name, evidence=[f"chat:{name}"], rests_on=rests_on)

    def _change(self, name: str) -> None:
        agent, person = self.app.objects, self.person.objects
        verbs: list[tuple[int, Callable[[], Any]]] = [
            (6, lambda: agent.use(name)),
            (4, lambda: agent.evidence(name, [f"chat:{self.acts}"])),
            (4, lambda: agent.verify_now(name)),
            (3, lambda: agent.contest(name, reason="it may be wrong")),
            (3, lambda: person.clear(name, reason="it holds")),
            (1, lambda: person.reject(name, reason="it is forged")),
            (2, lambda: agent.archive(name)),
            (2, lambda: agent.reinstate(name)),
            (1, lambda: self._retract(name)),
        ]
        (chosen,) = random.choices([verb for _, verb in verbs], [weight for weight, _ in verbs])
        _persistently(chosen)

    def _retract(self, name: str) -> None:
        self.app.objects.retract(name)
        self.alive.remove(name)

    def _add_room(self) -> None:
        self.capacity += ROOM
        _persistently(lambda: self.app.budgets.set(BUDGET, UNIT, self.capacity, reason="more room"))

    # -- the end -----------------------------------------------------------------------------------------------------

    def catch_up(self, seconds: float) -> None:
        """Let what waits for the budget go on, and wait until nothing is due for long."""
        self.capacity += 10**9
        self._add_room()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._late():
            time.sleep(0.5)

    def _late(self) -> int:
        sql = text("SELECT count(*) FROM horae_objects WHERE next_action_at < :before")
        with self.app.engine.connect() as connection:
            before = micros(self.app.world.clock.now()) - int(LATE * 1e6)
            return int(connection.execute(sql, {"before": before}).scalar_one())

    def counted(self) -> dict[str, int]:
        """Count what was done, and what does not hold: invariants, sums of budgets, chains of the audit."""
        world = self.app.world
        broken = check_objects(world)
        unbalanced = world.store.read(check_budgets)
        seal_all(world)
        chains = [complaint for each in verify_audit(world) for complaint in each.complaints]
        for each in (*broken[:SHOWN], *unbalanced[:SHOWN], *chains[:SHOWN]):
            print(f"does not hold: {each}", flush=True)
        with self.app.engine.connect() as connection:
            looks = text("SELECT count(*) FROM horae_runs WHERE queue = 'governance' AND state = 'succeeded'")
            verified = int(connection.execute(looks).scalar_one())
        return {
            "memories": self.number, "looks": verified, "late objects": self._late(), "broken objects": len(broken),
            "broken budgets": len(unbalanced), "broken chains": len(chains),
        }  # fmt: skip


def _persistently(act: Callable[[], T]) -> T | None:
    """Act until the database has answered; None where it was refused."""
    while True:
        try:
            return act()
        except StoreError:
            time.sleep(0.2)
        except HoraeError:
            return None
