"""The doctor names a database, or a queue in it, that no live worker serves: by leases in a cluster of many, by
heartbeats in one of few.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.clock import SystemClock
from horae.core.cluster.assignment import Holding
from horae.doctor.cluster import cluster_members
from horae.doctor.findings import Installation
from horae.ports.workers import Node
from horae.ports.world import World
from horae.settings import Settings
from horae.stores.store import SqlStore
from tests.cluster.conftest import Clusters
from tests.cluster.test_settings import only_files, shards

MANY, FEW = 5, 3
Serve = Callable[[World, int, str], None]


def examine(clusters: Clusters, url: str) -> list[tuple[str, object, object]]:
    """Return what the doctor says: the reason, the database and the queues."""
    alone = clusters.open_alone(url)
    assert isinstance(alone.store, SqlStore)
    here = Installation(Settings.read({}), {}, alone.clock, world=alone)
    found = list(cluster_members(alone.store, here))
    return [(each.why.reason, each.why.facts.get("name"), each.why.facts.get("queues")) for each in found]


def lease(world: World, number: int, queue: str) -> None:
    shard = shards(world)[number - 1]
    until = shard.clock.steady() + timedelta(minutes=5)
    worker = f"{queue}-{number}"
    shard.store.transact(lambda tx: tx.cluster.hold(worker, [Holding(queue, worker, until, True)]))


def beat(world: World, number: int, queue: str) -> None:
    shard = shards(world)[number - 1]
    now = shard.clock.now()
    node = Node(f"{queue}-{number}", "a", 1, "1", now, now, {queue: 1})
    shard.store.transact(lambda tx: tx.nodes.put(node))


@only_files
@pytest.mark.parametrize(("count", "serve"), [(MANY, lease), (FEW, beat)])
def test_a_queue_that_is_served_elsewhere_is_named_where_it_is_not(
    clusters: Clusters, count: int, serve: Serve
) -> None:
    clusters.clock = SystemClock()  # type: ignore[assignment]
    world, urls = clusters.make(count)
    for number in range(1, count + 1):
        serve(world, number, "mail")
    serve(world, 2, "sms")
    found = examine(clusters, urls[0])
    assert found == [
        ("cluster_queues_unserved", name, ["sms"])
        for name in ["first", *(f"db-{number}" for number in range(3, count + 1))]
    ]
    for number in {1, *range(3, count + 1)}:
        serve(world, number, "sms")
    assert [each[0] for each in examine(clusters, urls[0])] == ["cluster_well"]


@only_files
@pytest.mark.parametrize(("count", "serve"), [(MANY, lease), (FEW, beat)])
def test_a_database_without_any_worker_is_named_with_what_is_served_elsewhere(
    clusters: Clusters, count: int, serve: Serve
) -> None:
    clusters.clock = SystemClock()  # type: ignore[assignment]
    world, urls = clusters.make(count)
    for number in range(2, count + 1):
        serve(world, number, "mail")
    assert examine(clusters, urls[0]) == [("cluster_queues_unserved", "first", ["mail"])]


@only_files
@pytest.mark.parametrize("count", [MANY, FEW])
def test_a_database_whose_jobs_wait_while_no_worker_lives_at_all_is_named(clusters: Clusters, count: int) -> None:
    clusters.clock = SystemClock()  # type: ignore[assignment]
    world, urls = clusters.make(count)
    assert [each[0] for each in examine(clusters, urls[0])] == ["cluster_well"]
    long_ago = clusters.clock.now() - timedelta(minutes=10)
    job = jobs.enqueue(world, Request("mail", {}, owner="ann", run_at=long_ago))
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    place = shard_map.member(shard_map.database_of(shard_map.vshard_of(owner="ann")))
    assert examine(clusters, urls[0]) == [("cluster_member_unserved", place.name, None)]
    assert job.run_at == long_ago


@only_files
def test_a_lease_that_has_run_out_serves_nothing(clusters: Clusters) -> None:
    clusters.clock = SystemClock()  # type: ignore[assignment]
    world, urls = clusters.make(MANY)
    for number in range(1, MANY + 1):
        lease(world, number, "mail")
    late = shards(world)[3]
    over = late.clock.steady() - timedelta(seconds=1)
    late.store.transact(lambda tx: tx.cluster.hold("mail-4", [Holding("mail", "mail-4", over, True)]))
    assert examine(clusters, urls[0]) == [("cluster_queues_unserved", "db-4", ["mail"])]
