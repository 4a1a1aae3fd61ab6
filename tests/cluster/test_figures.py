"""Counts, figures and settings over several databases: they add up, reach all, and name one that is away."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from horae.actions import roll_up
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.actions.statistics import Figures
from horae.api.merges import merge_figures
from horae.core.cluster.numbers import vshard_of_id
from horae.core.jobs.job import Outcome
from horae.core.statistics import Statistic
from horae.errors import InvalidInput, NotFound
from horae.ports.definitions import StoredDefinition
from horae.ports.workers import Node
from horae.testing.clock import NOON
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


def test_figures_of_all_databases_are_those_of_one_that_had_everything(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    fill(clusters, world, 20)
    spans, ended = list[timedelta](), Counter[str]()
    for index, shard in enumerate(world.shards(), 1):
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=timedelta(minutes=1)):
            clusters.clock.advance(timedelta(seconds=index))
            spans.append(clusters.clock.now() - (job.started_at or NOON))
            outcome = Outcome("failed", error="no route", final=True) if index == 3 else Outcome("succeeded")
            ended[outcome.ending] += 1
            endings.settle(shard, [(job, outcome)])
    clusters.clock.advance(timedelta(hours=2))
    for shard in world.shards():
        roll_up.keep_up(shard)
    seen = rooms(world).statistics
    for figures in (*seen.list("queue"), *seen.list("handler"), *seen.list("total")):
        assert (figures.runs, figures.succeeded, figures.failed) == (20, ended["succeeded"], ended["failed"])
        assert figures.dead == ended["failed"]
        assert figures.duration_mean == sum(spans, timedelta(0)) / 20
        assert figures.duration_p99 is not None
        assert max(spans) <= figures.duration_p99 <= 1.2 * max(spans)
    assert sum(each.runs for each in seen.series("queue", "default", grain="minute", since=NOON)) == 20
    assert len(seen.list("owner")) == 20
    assert [each.runs for each in seen.list("owner", limit=3)] == [1, 1, 1]


def test_figures_of_one_name_and_span_become_one_and_the_largest_come_first() -> None:
    def figures(name: str, runs: int, *, hour: int = 0, depth: int | None = None) -> Figures:
        at = NOON + timedelta(hours=hour)
        return Figures(name, at, at + timedelta(hours=1), Statistic(runs=runs, succeeded=runs), depth)

    first = [figures("mail", 5, depth=3), figures("print", 4)]
    second = [figures("print", 4), figures("mail", 1, depth=2), figures("scan", 7)]
    found = merge_figures([first, second], limit=2)
    assert [(each.name, each.figures.runs, each.depth) for each in found] == [("print", 8, None), ("scan", 7, None)]
    assert [(each.name, each.depth) for each in merge_figures([first, second], limit=9)][2] == ("mail", 5)
    assert first[0].figures.runs == 5  # what a database has said is left as it was
    series = merge_figures([[figures("", 1, hour=2)], [figures("", 2), figures("", 3, hour=2)]])
    assert [(each.at - NOON, each.figures.succeeded) for each in series] == [(timedelta(0), 2), (timedelta(hours=2), 4)]
    assert merge_figures([[], []], limit=5) == []
