"""What is old enough is forgotten, in small steps; what is alive never is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae.actions import jobs
from horae.actions.retention import Retention, clean
from horae.actions.tracking import begin
from horae.clock import SystemDice
from horae.ports import Store, World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock

MONTHS = timedelta(days=60)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store: Store = open_store(engine)
    yield World(store, VirtualClock(), SystemDice())
    store.close()


def advance(world: World, span: timedelta) -> None:
    assert isinstance(world.clock, VirtualClock)
    world.clock.advance(span)


def finished(world: World, **options: str) -> str:
    jobs.enqueue(world, jobs.Request("h", **options))  # type: ignore[arg-type]
    [job] = jobs.pull(world, worker_id="w")
    jobs.ack(world, job.id, job.token)
    return job.id


def test_an_old_finished_job_is_forgotten_with_its_key(world: World) -> None:
    finished(world, key="monthly")
    advance(world, MONTHS)

    gone = clean(world, Retention())

    assert (gone["horae_runs"], gone["horae_keys"]) == (1, 1)


def test_a_recent_one_stays(world: World) -> None:
    job_id = finished(world, key="monthly")

    clean(world, Retention())

    assert jobs.get(world, job_id).state == "succeeded"


def test_a_key_stays_as_long_as_its_job_waits(world: World) -> None:
    jobs.enqueue(world, jobs.Request("h", key="slow", delay=MONTHS * 2))
    advance(world, MONTHS)

    assert clean(world, Retention())["horae_keys"] == 0


def test_a_step_never_takes_more_than_its_batch(world: World) -> None:
    for _ in range(5):
        finished(world)
    advance(world, MONTHS)

    assert [clean(world, Retention(), limit=2)["horae_runs"] for _ in range(4)] == [2, 2, 1, 0]


def test_what_is_running_is_never_forgotten(world: World) -> None:
    job = begin(world, "sync", worker_id="w", lease=timedelta(days=90))
    advance(world, MONTHS)
    clean(world, Retention())

    assert jobs.get(world, job.id).state == "running"
