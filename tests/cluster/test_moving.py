"""Virtual shards move to another database: nothing is lost, nothing is doubled, ids stay valid."""

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text

from horae.actions import cluster as verbs
from horae.actions import moves
from horae.actions.access import owners, secrets
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.labels import label_jobs
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.core.cluster.moves import Parcel, drain_moves, even_moves, read_vshards
from horae.core.cluster.numbers import vshard_in
from horae.core.cluster.shard_map import HOME, ShardMap
from horae.core.jobs.job import Job, Lease, Outcome
from horae.core.jobs.labels import Label
from horae.errors import Conflict, InvalidInput, NotAllowed, StoreBusy
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.runtime.sources.store import StoreSource
from horae.stores.cluster.classes import CLASSES, Moves, Refuses
from horae.stores.metadata import metadata
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters

LEASE = timedelta(seconds=30)


def map_of(world: World) -> ShardMap:
    assert world.cluster is not None
    return world.cluster.refresh()


def vshard_of(world: World, owner: str) -> int:
    return map_of(world).vshard_of(owner=owner)


def filled(clusters: Clusters, count: int = 12) -> tuple[World, dict[str, str]]:
    """Return a cluster of two, and the jobs of some tenants who live in the first database, by owner."""
    world, _ = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    here = [f"owner-{n}" for n in range(200) if map_of(world).database_of(vshard_of(world, f"owner-{n}")) == 1]
    return world, {o: jobs.enqueue(world, Request("mail", {}, owner=o, key=f"key-{o}")).id for o in here[:count]}


def shards_of(world: World, owners: Collection[str]) -> list[int]:
    return sorted({vshard_of(world, owner) for owner in owners} - {HOME})


def take(world: World) -> list[tuple[World, Job]]:
    return [
        (shard, job)
        for shard in world.databases()
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)
    ]


def count_rows(world: World, table: str) -> list[int]:
    """Return how many rows each database has."""
    query = select(func.count()).select_from(metadata.tables[table])
    return [each.store.read(lambda tx: tx.connection.execute(query).scalar_one()) for each in world.databases()]


def test_every_table_is_classified() -> None:
    assert set(CLASSES) == set(metadata.tables), "say in stores/cluster/classes.py what becomes of its rows in a move"
    for name, kind in CLASSES.items():
        if isinstance(kind, Moves | Refuses):
            assert kind.column in metadata.tables[name].c


def test_lists_of_virtual_shards_are_read_and_the_home_is_refused() -> None:
    assert read_vshards("17-19,99") == [17, 18, 19, 99]
    for wrong in ("", "x", "5-3", "4096", "1-", "-1"):
        with pytest.raises(InvalidInput):
            read_vshards(wrong)
    with pytest.raises(NotAllowed):
        read_vshards("0-3")


def test_moved_jobs_have_the_same_ids_and_are_done_once(clusters: Clusters) -> None:
    world, ids = filled(clusters)
    assert count_rows(world, "horae_jobs") == [12, 0]
    done = moves.move(world, shards_of(world, ids), "db-2", reason="more room")
    assert done.rows >= 24  # jobs and keys at least
    assert count_rows(world, "horae_jobs") == [0, 12]
    assert count_rows(world, "horae_keys") == [0, 12]
    assert {jobs.get(world, each).owner for each in ids.values()} == set(ids)
    again = jobs.enqueue(world, Request("mail", {}, owner="owner-" + next(iter(ids)).split("-")[1], key="key-" + next(iter(ids))))
    assert again.deduplicated
    taken = take(world)
    assert sorted(job.id for _, job in taken) == sorted(ids.values())
    for shard, job in taken:
        assert endings.settle(shard, [(job, Outcome("succeeded"))])[job.id] is not None
    assert {jobs.get(world, each).state for each in ids.values()} == {"succeeded"}
    assert verbs.look(world).is_well
    assert moves.open_parcels(world) == []


def test_a_producer_with_the_old_map_follows_the_shard(clusters: Clusters) -> None:
    world, ids = filled(clusters)
    [url, *_] = clusters.urls(2) if False else [None]
    owner = next(iter(ids))
    number = map_of(world).database_of(vshard_of(world, owner))
    assert number == 1
    moves.move(world, shards_of(world, ids), "db-2")
    stored = jobs.enqueue(world, Request("mail", {}, owner=owner))
    assert vshard_in(stored.number) == vshard_of(world, owner)
    assert jobs.get(world, stored.id).owner == owner
    assert count_rows(world, "horae_jobs") == [0, 13]
