"""Budgets under seeded crashes: whatever dies wherever, everything adds up and nothing is spent beyond the capacity."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from horae.actions.budgets import budgets
from horae.actions.budgets.repair import check, settle_leftovers
from horae.actions.budgets.rule import BudgetRule
from horae.actions.budgets.spending import report, spend
from horae.actions.jobs import claims, endings
from horae.core.governance.budgets import JobBudget
from horae.core.jobs.job import Ending, Job, Lease, Outcome
from horae.core.jobs.payloads import encode
from horae.errors import LeaseLost
from horae.ports.claims import Claim, JobEnding, PutBack
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import LoadedDice, VirtualClock
from horae.testing.conformance.support import put
from tests.stores.conftest import opened

SEEDS = range(12)
STEPS = 120
MOST = 60  # of one job
ENDINGS: tuple[Ending, ...] = ("succeeded", "failed", "snoozed", "released", "cancelled")


class Crash(Exception):
    """Stands for the death of the process: its transaction is rolled back."""


@dataclass
class CrashingRule(BudgetRule):
    """The rule, in a process that may die before it commits."""

    dice: random.Random
    crashes: int = 0

    def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> list[PutBack]:
        put_back = super().admit(tx, jobs, now)
        self._perhaps_die()
        return put_back

    def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> dict[int, Outcome]:
        replaced = super().settle(tx, endings, now)
        self._perhaps_die()
        return replaced

    def _perhaps_die(self) -> None:
        if self.dice.random() < 0.15:
            self.crashes += 1
            raise Crash


@dataclass
class Story:
    """Workers that hold jobs, spend, die and come late; and what they really spent."""

    world: World
    dice: random.Random
    held: list[Job] = field(default_factory=list)
    zombies: list[Job] = field(default_factory=list)  # of workers that fell silent
    really_spent: int = 0
    keys: int = 0

    def step(self) -> None:
        moves = [self.enqueue, self.claim, self.claim, self.spend, self.spend, self.end, self.end, self.die, self.late]
        moves += [self.claim_and_die, self.wait, self.set_capacity, self.repair, self.overspend]
        try:
            self.dice.choice(moves)()
        except Crash:
            return  # whoever it was, it has written nothing, and its jobs are lost like any other

    def enqueue(self) -> None:
        cost = {"calls": 1, "tokens": self.dice.randrange(MOST)}
        put(self.world.store, a_new_job(budget=encode(JobBudget("llm", cost).as_json())), now=self.world.clock.now())

    def claim(self) -> None:
        self.held += claims.claim(self.world, "default", self.dice.randrange(1, 4), worker_id="w", lease=LEASE)

    def claim_and_die(self) -> None:
        self.world.store.claim(Claim("default", 1, "w", LEASE), now=self.world.clock.now())

    def spend(self) -> None:
        if not self.held:
            return
        job = self.dice.choice(self.held)
        self.keys += 1
        amount, key = self.dice.randrange(1, MOST), f"k{self.keys}"
        try:
            if not spend(self.world, Lease(job.number, job.token), {"tokens": amount}, key=key).granted:
                self.held.remove(job)
                endings.settle(self.world, [(job, Outcome("snoozed", delay=timedelta(hours=1)))])
                return
            real = self.dice.randrange(amount + 1)
            self.really_spent += real
            if self.dice.random() < 0.6:
                report(self.world, Lease(job.number, job.token), {"tokens": real}, key=key)
        except LeaseLost:
            self.held.remove(job)

    def overspend(self) -> None:
        """Report more than was reserved, now and then: it is charged in full. If the report is lost, nobody knows."""
        if self.held and self.dice.random() < 0.3:
            job, real = self.held.pop(), 3 * MOST
            ended = endings.settle(self.world, [(job, Outcome("succeeded", spent={"tokens": real}))])
            self.really_spent += 0 if ended[job.id] is None else real

    def end(self) -> None:
        count = self.dice.randrange(1, 4)
        ended, self.held = self.held[:count], self.held[count:]
        endings.settle(self.world, [(job, Outcome(self.dice.choice(ENDINGS), error="no")) for job in ended])

    def die(self) -> None:
        """A worker falls silent: its leases run out, and it comes back later."""
        if self.held and self.dice.random() < 0.5:
            self.zombies += self.held
            self.held = []

    def late(self) -> None:
        if self.zombies:
            job = self.zombies.pop()
            endings.settle(self.world, [(job, Outcome("succeeded", spent={}))])

    def wait(self) -> None:
        clock = self.world.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(self.dice.choice((timedelta(seconds=20), 2 * LEASE, timedelta(hours=7))))
        endings.lose_expired(self.world)
        self.held = [job for job in self.held if self._is_held(job)]

    def _is_held(self, job: Job) -> bool:
        [*found] = self.world.store.read(lambda tx: tx.jobs.some([job.number]))
        return bool(found) and found[0].state == "running" and found[0].token == job.token

    def set_capacity(self) -> None:
        if self.dice.random() < 0.2:
            budgets.set_budget(self.world, "llm", "tokens", self.dice.randrange(3 * MOST, 12 * MOST))

    def repair(self) -> None:
        assert settle_leftovers(self.world) >= 0

    def verify(self) -> None:
        assert self.world.store.read(check) == []
        charged = sum(each.settled + each.reserved for each in budgets.history(self.world, "llm", "tokens", limit=99))
        assert charged >= self.really_spent, "what was spent is charged, or still reserved"


@pytest.fixture(scope="module")
def quick_store() -> Iterator[SqlStore]:
    with closing(opened("sqlite://")) as store:
        yield store


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_dies_wherever_everything_adds_up(quick_store: SqlStore, seed: int) -> None:
    dice = random.Random(seed)
    rule, clock = CrashingRule(dice), VirtualClock()
    world = World(quick_store, clock, LoadedDice(), rules=(rule,))
    story = Story(world, dice)
    budgets.set_budget(world, "llm", "tokens", 6 * MOST, reason=f"seed {seed}")
    quick_store.transact(lambda tx: [tx.connection.exec_driver_sql(f"DELETE FROM {name}") for name in
                                     ("horae_jobs", "horae_reservations", "horae_budget_periods")])  # fmt: skip

    for _ in range(10):
        story.enqueue()
    for _ in range(STEPS):
        story.step()
        story.verify()

    calm = replace(world, rules=(BudgetRule(),))
    clock.advance(timedelta(days=40))
    endings.lose_expired(calm)
    settle_leftovers(calm)
    story.verify()
    open_ones = quick_store.read(lambda tx: tx.budgets.leftovers(limit=9))
    assert open_ones == []
    assert sum(each.reserved for each in quick_store.read(lambda tx: tx.budgets.all_periods())) == 0
    assert rule.crashes > 0, "choose another seed"
