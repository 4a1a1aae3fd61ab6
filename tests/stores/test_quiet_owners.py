"""Quiet hours of owners, on every database: no job of the owner starts in them, and others are not kept waiting."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from horae.actions.jobs import claims, jobs
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.quiet_owners import lift_owner, list_owners, quiet_owner
from horae.actions.jobs.reasons import why
from horae.actions.jobs.requests import Request
from horae.errors import InvalidInput, NotFound
from horae.ports.world import World
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.stores.conftest import opened

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(store_url: str, clock: VirtualClock) -> Iterator[World]:
    store = opened(store_url)
    yield World(store, clock, LoadedDice())
    store.close()


def put(world: World, owner: str, count: int = 1) -> list[str]:
    asked = [Request("attend", {"n": n}, owner=owner) for n in range(count)]  # a handler that is open to tenants
    return [made.id for made in jobs.enqueue_many(world, asked)]


def take(world: World, limit: int = 100) -> list[str]:
    return [job.id for job in claims.claim(world, "default", limit, worker_id="w", lease=HOUR)]


def serve(world: World, clock: VirtualClock, at: datetime) -> None:
    clock.advance(at - clock.now())
    serve_due(world, "keeper")


def test_no_job_of_an_owner_starts_in_its_hours_and_others_do(world: World, clock: VirtualClock) -> None:
    quiet_owner(world, "ann", "13:00-15:00", "Europe/Berlin")  # 12:00 to 14:00 in UTC
    hers, his, house = put(world, "ann", 3), put(world, "ben"), put(world, "system")
    assert take(world) == [*his, *house]
    assert [job.id for job in claims.pull(world, worker_id="w", owner="ann")] == []

    serve(world, clock, NOON + HOUR)
    assert take(world) == []
    serve(world, clock, NOON + 2 * HOUR)
    assert take(world) == hers


def test_the_job_of_an_object_runs_when_its_object_says(world: World) -> None:
    quiet_owner(world, "ann", "11:00-15:00")
    named = Request("attend", {}, owner="ann", object_type="memory", object_id="m1", action="verify")
    looked_at = jobs.enqueue(world, named).id
    put(world, "ann")

    assert take(world) == [looked_at]


def test_many_quiet_jobs_do_not_keep_one_of_another_owner_waiting(world: World) -> None:
    quiet_owner(world, "ann", "11:00-15:00")
    put(world, "ann", 50)
    other = put(world, "ben")

    assert take(world, 1) == other


def test_hours_hold_where_no_process_lived_when_they_began(world: World, clock: VirtualClock) -> None:
    quiet_owner(world, "ann", "13:00-15:00")
    [job] = put(world, "ann")
    clock.advance(HOUR)
    assert take(world) == []

    serve(world, clock, NOON + HOUR)
    clock.advance(timedelta(seconds=5))
    assert take(world) == []
    serve(world, clock, NOON + 3 * HOUR)
    assert take(world) == [job]


def test_why_names_the_quiet_hours_of_the_owner(world: World) -> None:
    quiet_owner(world, "ann", "11:00-15:00")
    [job] = put(world, "ann")
    first = why(world, jobs.get(world, job))[0]

    assert (first.code, first.text) == ("owner_quiet", "its owner ann has quiet hours until 2030-01-07T15:00:00Z")


def test_hours_that_are_lifted_or_changed_end_their_job(world: World, clock: VirtualClock) -> None:
    quiet_owner(world, "ann", "13:00-15:00")
    quiet_owner(world, "ann", "20:00-21:00")
    [job] = put(world, "ann")
    serve(world, clock, NOON + HOUR)
    assert take(world) == [job]

    lift_owner(world, "ann", actor="ben", reason="day shift")
    assert list_owners(world) == []
    serve(world, clock, NOON + 8 * HOUR)
    assert len(put(world, "ann")) == len(take(world)) == 1
    with pytest.raises(NotFound):
        lift_owner(world, "ann")


@pytest.mark.parametrize(("owner", "hours"), [("system", "22:00-07:00"), ("ann", "late"), (" ", "22:00-07:00")])
def test_hours_that_cannot_be_kept_are_refused(world: World, owner: str, hours: str) -> None:
    with pytest.raises(InvalidInput):
        quiet_owner(world, owner, hours)
