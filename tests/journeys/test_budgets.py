"""Workers that draw on a budget are killed at the worst moments: nothing is spent beyond it, and everything adds up."""

import random
import signal

import pytest

from horae.actions.budgets.repair import check
from horae.api.governance.budgets import Budget
from tests.journeys.conftest import STEADY, Journey
from tests.support.waiting import pass_time_in_thread, wait_until

CAPACITY = 1000


def tokens(journey: Journey) -> Budget:
    return journey.app.budgets.get("llm", "tokens", period="ever")


def really_spent(journey: Journey) -> int:
    return sum(effect.detail for effect in journey.effects() if effect.what == "spent")


def until_settled(journey: Journey) -> Budget:
    """Wait until no attempt holds a reservation; and everything adds up."""
    wait_until(lambda: tokens(journey).reserved == 0, "the end of all attempts")
    assert journey.app.world.store.read(check) == []
    return tokens(journey)


def set_out(journey: Journey, capacity: int = CAPACITY) -> None:
    journey.app.budgets.set("llm", "tokens", capacity, period="ever")


@pytest.mark.parametrize("point", ["claim.after", "run.before", "settle.before", "settle.after"])
def test_a_worker_killed_between_two_steps_leaves_a_budget_that_adds_up(journey: Journey, point: str) -> None:
    set_out(journey)
    jobs = [journey.enqueue("costly") for _ in range(3)]
    doomed = journey.worker(fault=f"{point}:kill:1", ready=False)
    assert doomed.wait() == -signal.SIGKILL

    journey.worker(lease=STEADY)
    journey.until_done(jobs)

    budget = until_settled(journey)
    assert really_spent(journey) <= budget.settled <= CAPACITY
    assert budget.settled >= 300, "each job has spent 100 at least once"


def test_workers_racing_for_the_last_unit_do_not_spend_it_twice(journey: Journey) -> None:
    set_out(journey, 450)
    for _ in range(12):
        journey.enqueue("costly")
    crew = [journey.worker(queues={"default": 3}, lease=STEADY) for _ in range(3)]

    wait_until(lambda: tokens(journey).put_backs > 0, "an empty budget")
    wait_until(
        lambda: tokens(journey).reserved == 0 and (tokens(journey).left or 0) < 100, "nothing that could be spent"
    )
    for member in crew:
        member.end()

    budget = until_settled(journey)
    assert really_spent(journey) <= budget.settled <= 450
    assert budget.overdrawn == 0


@pytest.mark.timeout(300)  # five crews on a busy machine
def test_workers_killed_at_random_spend_nothing_beyond_the_budget(journey: Journey) -> None:
    dice = random.Random(7)
    set_out(journey, 1000)
    jobs = [journey.enqueue("costly") for _ in range(20)]
    for _ in range(3):
        crew = [journey.worker(queues={"default": 4}) for _ in range(2)]
        pass_time_in_thread(dice.random())
        for member in crew:
            member.send(signal.SIGKILL)
            member.wait()

    journey.worker(lease=STEADY)
    wait_until(lambda: tokens(journey).reserved == 0 and tokens(journey).settled > 0, "the end of all attempts")
    budget = until_settled(journey)

    assert really_spent(journey) <= budget.settled <= 1000
    assert budget.overdrawn == 0
    assert len(jobs) == 20
