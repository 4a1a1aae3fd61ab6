"""Jobs that wait for others, where the port cannot look: the net, the migration, a caller's own transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.actions.retention import Retention, clean
from horae.core.jobs.retry import Retry
from horae.ports.world import World
from horae.stores.opening import create_store_engine
from horae.stores.store import SqlStore
from horae.testing.clock import LoadedDice, VirtualClock
from horae.testing.conformance.support import end, take
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url

ONCE = Retry.none()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(store: SqlStore, clock: VirtualClock) -> World:
    return World(store, clock, LoadedDice())


def change(store: SqlStore, sql: str, **values: Any) -> None:
    with store.engine.begin() as connection:
        connection.execute(text(sql), values)


def lost_family(world: World) -> tuple[str, str]:
    """A parent that has died, and the child that was cancelled for it."""
    parent = verbs.enqueue(world, Request("work", retry=ONCE))
    child = verbs.enqueue(world, Request("work", after=(parent.id,), retry=ONCE))
    [held] = take(world.store)
    assert end(world.store, held, "failed", final=True)
    return parent.id, child.id


def test_whoever_waits_for_an_ended_job_although_nobody_said_so_is_found(world: World, store: SqlStore) -> None:
    parent = verbs.enqueue(world, Request("work", retry=ONCE))
    child = verbs.enqueue(world, Request("work", after=(parent.id,), retry=ONCE))
    assert store.find_lost_parents() == 0
    change(store, "UPDATE horae_jobs SET linked = 0")  # as if its end concerned nobody
    [held] = take(store)
    assert end(store, held, "failed", final=True)
    assert verbs.get(world, child.id).state == "queued"

    assert store.find_lost_parents() == 1
    assert verbs.settle_children(world) == 1
    assert verbs.get(world, child.id).state == "cancelled"


def test_a_child_that_the_history_has_forgotten_does_not_come_back(
    world: World, store: SqlStore, clock: VirtualClock
) -> None:
    parent, child = lost_family(world)
    clock.advance(Retention().runs * 2)
    clean(world, Retention())
    assert store.read(lambda tx: tx.jobs.get(int(child.removeprefix("job_")))) is None

    verbs.revive(world, parent)

    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM horae_needs")).scalar() == 0
    assert verbs.counts(world)["default"]["queued"] == 1


def test_a_family_in_a_callers_transaction_is_stored_and_dealt_with_in_it(world: World, store: SqlStore) -> None:
    parent, _ = lost_family(world)

    def late(policy: Any) -> Request:
        return Request("work", after=(parent,), on_parent_dead=policy)

    with store.engine.connect() as connection, connection.begin() as transaction:
        verbs.enqueue_many(world, [late("cancel"), late("run")], connection=connection)
        transaction.rollback()
    assert take(store) == []

    with store.engine.begin() as connection:
        made = verbs.enqueue_many(world, [late("cancel"), late("run"), late("wait")], connection=connection)
    assert [verbs.get(world, each.id).state for each in made] == ["cancelled", "queued", "queued"]
    assert [job.id for job in take(store)] == [made[1].id]


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_store_engine(database_url)
    yield engine
    engine.dispose()
