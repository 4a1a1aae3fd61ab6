"""What checks ask of every database: the same answers on each."""

from datetime import datetime, timedelta

import pytest

from horae.actions.access.tokens import create_token, revoke_token
from horae.actions.attention import inbox, lanes
from horae.actions.jobs import claims, endings, jobs
from horae.actions.schedules import schedules
from horae.core.jobs.retry import Retry
from horae.ports.access import Sealed
from horae.ports.queues import DueBacklog
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import a_request, a_schedule
from horae.testing.clock import LoadedDice, VirtualClock

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(store: SqlStore, clock: VirtualClock) -> World:
    return World(store, clock, LoadedDice())


def test_due_jobs_are_counted_by_queue(world: World, clock: VirtualClock) -> None:
    began = clock.now()
    jobs.enqueue(world, a_request(queue="mail"))
    clock.advance(MINUTE)
    jobs.enqueue(world, a_request(queue="mail"))
    jobs.enqueue(world, a_request(queue="mail", delay=DAY))
    jobs.enqueue(world, a_request(queue="sums", delay=DAY))

    due = world.store.read(lambda tx: tx.health.due(clock.now()))

    assert due == [DueBacklog("mail", 2, began)]


def test_leases_that_ended_and_dead_jobs_are_found(world: World, clock: VirtualClock) -> None:
    jobs.enqueue(world, a_request(retry=Retry.fixed(0, attempts=1)))
    jobs.enqueue(world, a_request())
    dead, held = claims.pull(world, worker_id="w", limit=2)
    endings.fail(world, dead.id, dead.token, "no")
    assert held.leased_until is not None
    ends = held.leased_until

    assert world.store.read(lambda tx: tx.health.expired_leases(ends, limit=10)) == []
    assert world.store.read(lambda tx: tx.health.expired_leases(ends + MINUTE, limit=10)) == [held.number]
    assert world.store.read(lambda tx: tx.health.count_dead()) == 1
    assert world.store.read(lambda tx: tx.health.count_unsettled_needs()) == 0
    assert world.store.read(lambda tx: tx.health.closed_handlers(limit=10)) == []


def test_lanes_with_ready_tasks_and_no_driver_are_found(world: World, clock: VirtualClock) -> None:
    inbox.add(world, "ops", "report")
    later = clock.now() + MINUTE

    def left(steady: datetime) -> list[tuple[str, str]]:
        return world.store.read(lambda tx: tx.health.undriven_lanes(later, steady, limit=10))

    assert left(clock.steady()) == [("ops", "system")]
    lanes.acquire(world, "ops", "d", lease=MINUTE)
    assert left(clock.steady()) == []
    assert left(clock.steady() + 2 * MINUTE) == [("ops", "system")]
    assert world.store.read(lambda tx: tx.health.undriven_lanes(clock.now(), later, limit=10)) == []


def test_schedules_that_should_have_fired_are_found(world: World, clock: VirtualClock) -> None:
    made = schedules.create(world, a_schedule())
    clock.advance(2 * MINUTE)

    assert world.store.read(lambda tx: tx.health.overdue_schedules(clock.now(), limit=10)) == [made.key]
    assert world.store.read(lambda tx: tx.health.overdue_schedules(clock.now() - DAY, limit=10)) == []
    assert world.store.read(lambda tx: tx.health.inactive_schedules(limit=10)) == []
    assert world.store.read(lambda tx: tx.health.count_enabled_schedules(made.handler)) == 1
    assert world.store.read(lambda tx: tx.health.count_enabled_schedules("other")) == 0


def test_tokens_that_end_soon_are_found(world: World, clock: VirtualClock) -> None:
    now = clock.now()
    lives = (("soon", 15 * DAY), ("later", 30 * DAY), ("never", None), ("gone", 15 * DAY), ("meant to", 3 * DAY))
    made = {owner: create_token(world, owner=owner, scopes=["tasks"], expires_in=life)[0] for owner, life in lives}
    revoke_token(world, made["gone"].token_id, actor="test")
    then = now + 2 * DAY

    ending = world.store.read(lambda tx: tx.health.expiring_tokens(then, then + 14 * DAY, limit=10))

    assert ending == [(made["soon"].token_id, "soon", now + 15 * DAY)]
    assert world.store.read(lambda tx: tx.health.count_valid_tokens(now)) == 4
    assert world.store.read(lambda tx: tx.health.count_valid_tokens(now + 16 * DAY)) == 2


def test_sizes_and_sealed_secrets_are_listed(world: World, clock: VirtualClock) -> None:
    now = clock.now()
    world.store.transact(lambda tx: tx.secrets.put("alice", Sealed("key", "sealed", None, None, now, now)))
    jobs.enqueue(world, a_request(handler="done", queue="mail"))
    [job] = claims.pull(world, worker_id="w", queues=["mail"])
    endings.ack(world, job.id, job.token)
    jobs.enqueue(world, a_request(handler="waits", queue="mail"))

    sizes = world.store.read(lambda tx: tx.health.table_sizes())

    assert (sizes["horae_jobs"], sizes["horae_runs"], sizes["horae_secrets"]) == (1, 1, 1)
    assert world.store.read(lambda tx: tx.health.jobs_by_handler()) == [("mail", "waits", "queued", 1)]
    assert world.store.read(lambda tx: tx.health.runs_by_handler()) == [("done", "succeeded", 1)]
    assert world.store.read(lambda tx: tx.health.sealed_secrets(limit=10)) == [("alice", "key", "sealed")]
