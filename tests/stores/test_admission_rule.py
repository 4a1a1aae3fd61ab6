"""Jobs that a rule has to admit: asked about in the verbs that claim, in one transaction that the token fences."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.admission import AGAIN, admit
from horae.core.jobs.job import Job, Lease, Outcome
from horae.ports.claims import Claim, JobEnding, PutBack
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import attempts, lose, put, read_job
from tests.stores.test_statements import counting

REFILL = timedelta(hours=1)


@dataclass
class Budget:
    """A rule: jobs that name an object cost one unit each; what cannot be paid waits for the refill."""

    asked: list[list[int]] = field(default_factory=list)
    before: Callable[[Sequence[Job]], None] = lambda _: None  # what happens between the claim and the decision

    def concerns(self, job: Job) -> bool:
        return job.object_id is not None

    def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> Sequence[PutBack]:
        self.asked.append([job.number for job in jobs])
        self.before(jobs)
        spend = text("UPDATE test_budget SET units = units - 1 WHERE units > 0")
        paid = {job.number for job in jobs if tx.connection.execute(spend).rowcount == 1}
        refused = [job for job in jobs if job.number not in paid]
        return [PutBack(job.number, job.token, now + REFILL, "the budget is empty") for job in refused]

    def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> dict[int, Outcome]:
        return {}


def set_budget(store: SqlStore, units: int) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE test_budget SET units = :units"), {"units": units})


def units(store: SqlStore) -> int:
    with store.engine.connect() as connection:
        return int(connection.execute(text("SELECT units FROM test_budget")).scalar_one())


@pytest.fixture
def rule(store: SqlStore) -> Iterator[Budget]:
    with store.engine.begin() as connection:
        connection.execute(text("CREATE TABLE test_budget (units INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO test_budget VALUES (0)"))
    yield Budget()
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE test_budget"))


@pytest.fixture
def world(store: SqlStore, rule: Budget) -> World:
    return World(store, VirtualClock(), LoadedDice(), rules=(rule,))


def enqueue(world: World, *, plain: int = 0, costly: int = 0) -> tuple[list[str], list[str]]:
    new = [a_new_job() for _ in range(plain)]
    new += [a_new_job(object_type="memory", object_id=f"o{n}") for n in range(costly)]
    made = [f"job_{number}" for number in put(world.store, *new)]
    return made[:plain], made[plain:]


def claim_as_worker(world: World, limit: int) -> list[Job]:
    return claims.claim(world, "default", limit, worker_id="w", lease=LEASE)


def claim_over_http(world: World, limit: int) -> list[Job]:
    return claims.pull(world, worker_id="w", limit=limit, lease=LEASE)


@pytest.mark.parametrize("take", [claim_as_worker, claim_over_http])
def test_what_is_not_admitted_goes_back_and_everything_else_starts(
    store: SqlStore, world: World, take: Callable[[World, int], list[Job]]
) -> None:
    plain, costly = enqueue(world, plain=2, costly=3)
    set_budget(store, 1)

    started = [job.id for job in take(world, 10)]

    assert started[:2] == plain
    assert len(started) == 3
    assert started[2] in costly
    assert units(store) == 0
    for job_id in set(costly) - set(started):
        job = jobs.get(world, job_id)
        assert (job.state, job.attempt, job.run_at, job.token) == ("queued", 0, NOON + REFILL, 2)
        assert job.last_error == "the budget is empty"
        assert attempts(store, job.number) == []


def test_the_place_of_what_goes_back_is_filled_in_the_same_claim(store: SqlStore, world: World, rule: Budget) -> None:
    enqueue(world, costly=4)
    plain, _ = enqueue(world, plain=2)

    assert [job.id for job in claim_as_worker(world, 2)] == plain
    assert len(rule.asked) == 2


def test_what_goes_back_can_be_had_after_the_refill(store: SqlStore, world: World) -> None:
    _, [job_id] = enqueue(world, costly=1)
    assert claim_as_worker(world, 1) == []
    set_budget(store, 1)
    later = replace(world, clock=VirtualClock(NOON + REFILL))

    [job] = claim_as_worker(later, 1)
    ended = endings.ack(later, job.id, job.token, result="done")

    assert (ended.id, ended.state, [run.outcome for run in attempts(store, job.number)]) == (
        job_id, "succeeded", ["succeeded"],
    )  # fmt: skip


def test_many_workers_never_spend_more_than_there_is(
    store: SqlStore, world: World, open_another: Callable[[], SqlStore]
) -> None:
    enqueue(world, plain=4, costly=16)
    set_budget(store, 5)
    worlds = [replace(world, store=open_another()) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        started = [job for found in pool.map(lambda each: claim_as_worker(each, 5), worlds) for job in found]

    assert sum(job.object_id is not None for job in started) <= 5
    assert units(store) == 5 - sum(job.object_id is not None for job in started)
    assert len({job.number for job in started}) == len(started)


def test_a_job_that_was_lost_before_it_was_admitted_costs_nothing(
    store: SqlStore, world: World, rule: Budget, open_another: Callable[[], SqlStore]
) -> None:
    """The process froze between claim and admission; meanwhile another handed its job on."""
    enqueue(world, plain=1, costly=2)
    set_budget(store, 9)
    taken = store.claim(Claim("default", 9, "w", LEASE), now=NOON)
    lost = [job for job in taken if job.object_id == "o0"]
    renewed = [Lease(job.number, job.token) for job in taken if job not in lost]
    store.renew(renewed, until=NOON + timedelta(days=1))
    assert lose(open_another(), NOON + 2 * LEASE) == {job.number for job in lost}

    kept = admit(world, taken)

    assert [job.number for job in kept] == [job.number for job in taken if job not in lost]
    assert units(store) == 8, "what was written for the lost one was rolled back"


def test_a_job_to_be_cancelled_is_not_put_back_but_ended(store: SqlStore, world: World, rule: Budget) -> None:
    _, [job_id] = enqueue(world, costly=1)
    taken = store.claim(Claim("default", 1, "w", LEASE), now=NOON)
    jobs.cancel(world, job_id, reason="changed my mind")

    assert admit(world, taken) == []

    assert jobs.get(world, job_id).state == "cancelled"


def test_a_rule_that_fails_costs_plain_jobs_nothing(
    store: SqlStore, world: World, rule: Budget, caplog: pytest.LogCaptureFixture
) -> None:
    plain, [costly] = enqueue(world, plain=2, costly=1)

    def fail(_: Sequence[Job]) -> None:
        raise RuntimeError("a bug")

    rule.before = fail
    assert [job.id for job in claim_as_worker(world, 9)] == plain

    job = jobs.get(world, costly)
    assert (job.state, job.attempt, job.run_at) == ("queued", 0, NOON + AGAIN)
    assert "admission failed" in caplog.text


def test_plain_jobs_cost_the_same_statements_with_a_rule_and_without(store: SqlStore, world: World) -> None:
    counts = []
    for each in (world, replace(world, rules=())):
        for _ in range(8):  # drivers prepare what they have seen a few times
            put(store, a_new_job())
            claim_as_worker(each, 1)
        put(store, *(a_new_job() for _ in range(10)))
        with counting(store) as statements:
            assert len(claim_as_worker(each, 10)) == 10
            counts.append(statements())

    assert counts[0] == counts[1]


def test_a_rule_that_wants_a_job_at_once_again_does_not_make_the_claim_run_in_circles(
    store: SqlStore, world: World, rule: Budget
) -> None:
    class Impatient(Budget):
        def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> Sequence[PutBack]:
            return [PutBack(job.number, job.token, NOON) for job in jobs]

    _, [job_id] = enqueue(world, costly=1)

    assert claim_as_worker(replace(world, rules=(Impatient(),)), 5) == []
    assert read_job(store, int(job_id.removeprefix("job_"))).token == 2
