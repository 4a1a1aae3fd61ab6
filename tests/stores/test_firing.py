"""Several processes fire the same schedules: fault 38, on each database."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import text

from horae.actions.jobs import jobs
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.actions.schedules.declared import declare
from horae.actions.schedules.schedules import with_next_fire
from horae.core.jobs.retry import Retry
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import at_once, end, take

COUNT = 1000
MINUTE = timedelta(minutes=1)


def world_on(store: SqlStore, clock: VirtualClock, seed: int = 1) -> World:
    return World(store, clock, LoadedDice(seed), tzdata="2030a")


def test_four_processes_fire_a_thousand_schedules_once_each(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    clock = VirtualClock()
    world = world_on(store, clock)

    def make(tx: Tx) -> None:
        for place in range(COUNT):
            rule = replace(a_schedule(f"s{place:04}"), created_at=NOON, updated_at=NOON)
            tx.schedules.add([with_next_fire(world, rule, NOON)])

    store.transact(make)
    clock.advance(MINUTE)
    worlds = [world_on(open_another(), clock, seed) for seed in range(4)]

    def fire(place: int) -> list[str]:
        fired: list[str] = []
        while world.store.peek([]).next_fire_at == clock.now():
            fired += [each.schedule.key for each, _ in firing.fire_due(worlds[place], 50)]
        return fired

    shares = at_once(4, fire)

    assert Counter(key for share in shares for key in share) == {f"s{place:04}": 1 for place in range(COUNT)}
    counts = text("SELECT COUNT(*), COUNT(DISTINCT schedule_id), COUNT(DISTINCT job_id) FROM horae_fires")
    assert tuple(store.read(lambda tx: tx.connection.execute(counts).one())) == (COUNT, COUNT, COUNT)
    assert jobs.counts(world)["default"]["queued"] == COUNT


def test_processes_that_start_at_the_same_moment_declare_each_schedule_once(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    clock = VirtualClock()
    worlds = [world_on(open_another(), clock, seed) for seed in range(4)]
    declared = [a_schedule(f"s{place}") for place in range(10)]

    at_once(4, lambda place: declare(worlds[place], declared))

    found = schedules.find(world_on(store, clock))
    assert [(each.key, each.version, each.declared) for each in found] == [(f"s{n}", 1, True) for n in range(10)]


def test_a_retry_that_is_claimed_while_the_next_occurrence_fires_does_not_run_beside_it(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    """C-13 and C-22 together: either the retry runs and the occurrence is skipped, or it yields."""
    clock = VirtualClock()
    world, other = world_on(store, clock), world_on(open_another(), clock, 2)
    retry = Retry.fixed(MINUTE, attempts=9)
    for place in range(20):
        schedules.create(world, a_schedule(f"s{place:02}", retry=retry))
    clock.advance(MINUTE)
    firing.fire_due(world)
    for job in take(store, now=clock.now()):
        end(store, job, "failed", now=clock.now())
    clock.advance(MINUTE)  # all retries and all next fires are due now
    started = threading.Barrier(2)

    def act(place: int) -> None:
        started.wait(30)
        if place:
            for _ in range(20):
                take(other.store, 1, now=clock.now())
        else:
            while firing.fire_due(world, 1):
                pass

    at_once(2, act)

    live = Counter(job.schedule_id for job in jobs.find(world, limit=1000) if job.state in ("queued", "running"))
    assert set(live.values()) == {1}, "two jobs of one schedule at once"
