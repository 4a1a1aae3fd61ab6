"""Counts, figures and settings over several databases: they add up, reach all, and name one that is away."""

from __future__ import annotations

from datetime import timedelta

import pytest

from horae.actions.jobs import claims, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.core.cluster.numbers import vshard_of_id
from horae.errors import InvalidInput, NotFound
from horae.ports.definitions import StoredDefinition
from horae.ports.workers import Node
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import fill, lose, rooms
from tests.support.refusals import refused


def test_counts_of_jobs_add_up(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill(clusters, world, 20)
    [group] = rooms(world).jobs.counts().groups
    assert (group.state, group.queue, group.handler, group.count) == ("queued", "default", "mail", 20)
    [queue] = rooms(world).queues.list()
    assert queue.jobs["queued"] == 20
    assert rooms(world).queues.get("default").jobs["queued"] == 20
    with pytest.raises(NotFound):
        rooms(world).queues.get("unheard")


def test_the_overview_is_about_all_databases(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill(clusters, world, 20)
    clusters.clock.advance(timedelta(minutes=5))
    seen = rooms(world).overview.get()
    assert (seen.due, seen.late, seen.has_jobs) == (20, 20, True)
    assert seen.unserved == ("default",)


def test_workers_of_every_database_are_listed_and_drained(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index, shard in enumerate(world.shards()):
        now = clusters.clock.now()
        node = Node(f"w{index}", "host", index + 1, "1", now, now, {"default": 2})
        shard.store.transact(lambda tx, node=node: tx.nodes.put(node))  # type: ignore[misc]
    assert sorted(each.id for each in rooms(world).workers.list()) == ["w0", "w1", "w2"]
    assert rooms(world).workers.drain("w2").drain == "stay"
    assert rooms(world).workers.get("w2").drain == "stay"
    with pytest.raises(NotFound):
        rooms(world).workers.get("w9")


def test_a_pause_reaches_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    fill(clusters, world, 12)
    rooms(world).queues.pause("default", reason="repairs")
    assert claims.pull(world, queues=["default"], worker_id="w", lease=timedelta(minutes=1), limit=20) == []
    rooms(world).queues.resume("default")
    assert claims.pull(world, queues=["default"], worker_id="w", lease=timedelta(minutes=1), limit=20)


def test_a_limit_is_shared_by_the_databases(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    assert rooms(world).limits.set("queue:default", 7).max_running == 7
    [limit] = rooms(world).limits.list()
    assert limit.max_running == 7
    shares = [shard.store.read(lambda tx: tx.limits.sources())[0].max_running for shard in world.shards()]
    assert sorted(share or 0 for share in shares) == [2, 2, 3]
    assert rooms(world).queues.limit("default", 4).max_running == 4
    with refused(InvalidInput, "limit_below_databases"):
        rooms(world).limits.set("queue:default", 2)
    assert rooms(world).limits.set("queue:default", None).max_running is None


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_database_that_is_away_is_named_in_every_picture(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill(clusters, world, 9)
    lose(world, urls, 2)
    world = clusters.open(urls[0])
    seen = rooms(world)
    assert seen.jobs.counts().incomplete == ("db-2",)
    assert seen.overview.get().incomplete == ("db-2",)
    listed = seen.queues.list()
    assert listed.incomplete == ("db-2",)  # type: ignore[attr-defined]
    assert seen.queues.pause("default").incomplete == ("db-2",)
    assert seen.queues.get("default").paused_at is not None


def test_a_house_job_is_counted_wherever_it_was_drawn(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    stored = [jobs.enqueue(world, Request("mail", {}, key=f"k{index}")) for index in range(20)]
    assert len({vshard_of_id(each.id) for each in stored}) > 3
    assert rooms(world).jobs.counts(owner="system").groups[0].count == 20
    assert len(list(rooms(world).jobs.list(owner="system"))) == 20
