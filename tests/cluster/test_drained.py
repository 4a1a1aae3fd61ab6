"""A database that was drained is looked after: what happened there is published, sealed and deleted there."""

from collections.abc import Sequence

import pytest

from horae import Horae
from horae.actions import bus, moves
from horae.actions.audit import has_unsealed
from horae.actions.jobs import jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.bus.relay import EVERY, Relay
from horae.core.bus import PUBLISH, BusMessage
from horae.core.retention import Retention
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.runtime.chores.janitor import CHORES, Chore, cleaning
from horae.runtime.chores.keeper import Keeper, keeping
from horae.runtime.chores.settings import parts_of_acts, shared_settings
from horae.runtime.database import DatabaseThreads
from horae.runtime.worker.assignment import Assignment
from tests.cluster.conftest import Clusters
from tests.cluster.test_moving import map_of, vshard_of
from tests.support.waiting import eventually


def drained(clusters: Clusters, *, guest: bool = False) -> tuple[World, list[str]]:
    """Return a cluster as a process opens it whose second database was drained while events were not published."""
    world, urls = clusters.make(2, guest=guest)
    bus.ask_everywhere(world, bus.switch_on)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    names = (f"owner-{index}" for index in range(999))
    here = (each for each in names if map_of(world).database_of(vshard_of(world, each)) == 2)
    for _ in range(4):
        jobs.enqueue(world, Request("mail", {}, owner=next(here)))
    moves.drain(world, "db-2")
    return clusters.open(urls[0]), urls


def second(world: World) -> World:
    assert world.cluster is not None
    return world.cluster.whole(world, 2)


async def test_a_worker_that_starts_after_a_drain_serves_the_drained_database_and_no_guest(clusters: Clusters) -> None:
    world, _ = drained(clusters, guest=True)
    assignment = Assignment(world, "w", ["mail"], patience=60)
    try:
        assert sorted(await assignment.look()) == [1, 2]
    finally:
        assignment.close()


def test_a_service_that_starts_after_a_drain_keeps_the_drained_database_and_no_guest(clusters: Clusters) -> None:
    world, _ = drained(clusters, guest=True)
    assert world.cluster is not None
    [further] = world.cluster.further(world)()
    assert further.store is second(world).store


def test_every_chore_can_be_done_in_a_drained_database(clusters: Clusters) -> None:
    world, _ = drained(clusters)
    here = second(world)
    for chore in (*CHORES, cleaning(Retention()), shared_settings(world), parts_of_acts(world)):
        for _ in range(3):
            chore.work(here)


def test_the_status_of_the_bus_counts_what_waits_in_a_drained_database(clusters: Clusters) -> None:
    world, _ = drained(clusters)
    assert bus.status(second(world)).waiting == 4
    assert bus.ask_everywhere(world, bus.status)[0].waiting == 4
    assert [(each.name, each.status.waiting) for each in bus.look_everywhere(world)[0]] == [("first", 0), ("db-2", 4)]


class Bus:
    """A message bus that acknowledges everything."""

    def __init__(self) -> None:
        self.published: list[BusMessage] = []

    async def publish(self, messages: Sequence[BusMessage]) -> list[int]:
        self.published += messages
        return [each.number for each in messages]

    async def close(self) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
async def test_events_and_entries_of_a_drained_database_are_published_and_sealed_after_a_restart(
    clusters: Clusters,
) -> None:
    world, urls = drained(clusters)
    told = Bus()
    publish = Chore(PUBLISH, EVERY, Relay(told).turn, lambda look: "outbox" in look.open, lock=PUBLISH)

    def make(world: World, database: DatabaseThreads, name: str, *, is_further: bool = False) -> Keeper:
        return Keeper(world, database, name, [*CHORES, publish], lambda _: None)

    with Horae(urls[0]) as app:
        async with keeping(lambda: app.world, make, app.world.dice):
            await eventually(lambda: len(told.published) >= 4, "the events", within=60)
            await eventually(lambda: not has_unsealed(second(world)), "the seals", within=60)
    assert bus.ask_everywhere(world, bus.status)[0].waiting == 0
