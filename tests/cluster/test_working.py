"""Schedules, claims, endings and lost attempts over the databases of a cluster."""

from collections import Counter
from datetime import timedelta

import pytest

from horae.actions.jobs import claims, endings, held_jobs, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.actions.schedules import schedules
from horae.core.cluster.numbers import vshard_in
from horae.core.jobs.job import Job, Lease, Outcome
from horae.core.schedules.schedule import Schedule
from horae.ports.definitions import StoredDefinition
from horae.ports.schedules import ScheduleFilter
from horae.ports.workers import Node
from horae.ports.world import World
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters, fire_all
from tests.cluster.test_lists import lose, rooms

LEASE = timedelta(seconds=30)


def take(world: World) -> list[tuple[World, Job]]:
    """Claim everything that is due, in every database."""
    return [
        (shard, job)
        for shard in world.shards()
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)
    ]


def test_every_job_is_claimed_and_ended_once_where_it_lives(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    ids = {jobs.enqueue(world, Request("mail", {}, owner=f"owner-{n}", queue="default")).id for n in range(40)}
    taken = take(world)
    assert {job.id for _, job in taken} == ids
    assert len({id(shard.store) for shard, _ in taken}) == 3
    assert take(world) == []
    for shard, job in taken:
        assert endings.settle(shard, [(job, Outcome("succeeded"))])[job.id] is not None
        assert jobs.get(world, job.id).state == "succeeded"
        assert [run.outcome for run in jobs.runs(world, job.id)] == ["succeeded"]


def test_a_lost_attempt_is_handed_on_in_its_own_database(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    for index in range(10):
        jobs.enqueue(world, Request("mail", {}, key=f"k{index}"))
    first = take(world)
    assert len(first) == 10
    clusters.clock.advance(LEASE + timedelta(seconds=1))
    lost = [job for shard in world.shards() for job in endings.lose_expired(shard)]
    assert len(lost) == 10
    again = Counter(job.number for _, job in _take_later(clusters, world))
    assert set(again.values()) == {1}
    assert set(again) == {job.number for _, job in first}
    for shard, job in first:
        assert endings.settle(shard, [(job, Outcome("succeeded"))])[job.id] is None


def _take_later(clusters: Clusters, world: World) -> list[tuple[World, Job]]:
    clusters.clock.advance(timedelta(hours=1))
    return take(world)


def test_a_schedule_fires_once_in_its_shard_and_its_jobs_stay_there(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    made: list[Schedule] = [schedules.create(world, a_schedule(f"s{index}")) for index in range(12)]
    assert {each.key for each in schedules.iterate(world, ScheduleFilter())} == {each.key for each in made}
    assert world.cluster is not None
    clusters.clock.advance(timedelta(days=1))
    fire_all(world)
    for each in made:
        [(_, name), *_] = [row for row in schedules.history(world, each.key) if row[1] is not None]
        assert name is not None
        job = jobs.get(world, name)
        assert vshard_in(job.number) == world.cluster.shard_map.vshard_of(key=each.key)


def test_jobs_are_pulled_renewed_and_ended_through_the_cluster_as_through_one_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    asked = {jobs.enqueue(world, Request("mail", {}, owner=f"owner-{n}")).id for n in range(30)}
    own = claims.pull(world, worker_id="w", owner="owner-7")
    assert [job.owner for job in own] == ["owner-7"]
    taken = claims.pull(world, worker_id="w", limit=100)
    assert {job.id for job in (*own, *taken)} == asked
    held = [Lease(job.number, job.token) for job in taken]
    assert claims.renew(world, held).held == {job.number for job in taken}
    assert endings.ack(world, own[0].id, own[0].token).state == "succeeded"
    changes = endings.settle(world, [(job, Outcome("succeeded")) for job in taken])
    assert all(change is not None and change.state == "succeeded" for change in changes.values())
    assert set(changes) == {job.id for job in taken}


def test_a_worker_without_a_database_renews_and_ends_jobs_of_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    for n in range(20):
        jobs.enqueue(world, Request("mail", {}, owner=f"owner-{n}"))
    taken = claims.pull(world, worker_id="w", limit=100)
    renewed = held_jobs.renew_held(world, [held_jobs.Hold(job.id, job.token) for job in taken])
    assert [each.held for each in renewed] == [True] * 20
    endings_of = [held_jobs.Ending(job.id, job.token, "succeeded") for job in taken]
    late = held_jobs.Ending(taken[0].id, taken[0].token + 1, "succeeded")
    assert [each.accepted for each in held_jobs.settle_held(world, [late])] == [False]
    settled = held_jobs.settle_held(world, [*endings_of, held_jobs.Ending("nonsense", 1, "succeeded")])
    assert [each.accepted for each in settled] == [True] * 20 + [False]
    assert {jobs.get(world, job.id).state for job in taken} == {"succeeded"}
    again = held_jobs.recognise(world, endings_of, held_jobs.settle_held(world, endings_of))
    assert [each.accepted for each in again] == [True] * 20
    assert [each.held for each in held_jobs.renew_held(world, [held_jobs.Hold(taken[0].id, 1)])] == [False]


def test_a_worker_without_a_database_is_listed_once_and_serves_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    now = clusters.clock.now()
    claims.peek(world, ["default"], node=Node("w", "host", 1, "1", now, now, {"default": 2}), node_id="w")
    assert [each.id for each in rooms(world).workers.list()] == ["w"]
    assert all(shard.store.read(lambda tx: tx.nodes.get("w")) for shard in world.shards())
    rooms(world).workers.drain("w")
    assert claims.peek(world, ["default"], node_id="w").drain == "stay"
    claims.leave(world, "w")
    assert list(rooms(world).workers.list()) == []


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_the_ending_of_a_job_whose_database_is_away_is_to_be_sent_again(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    for n in range(12):
        jobs.enqueue(world, Request("mail", {}, key=f"k{n}"))
    taken = claims.pull(world, worker_id="w", limit=100)
    lose(world, urls, 2)
    world = clusters.open(urls[0])
    settled = held_jobs.settle_held(world, [held_jobs.Ending(job.id, job.token, "succeeded") for job in taken])
    assert {(each.accepted, each.state) for each in settled} == {(True, "succeeded"), (False, "running")}
    renewed = held_jobs.renew_held(world, [held_jobs.Hold(job.id, job.token) for job in taken])
    assert sum(each.busy for each in renewed) == sum(not each.accepted for each in settled) > 0


def test_a_step_is_done_once_in_the_database_of_its_job(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    jobs.enqueue(world, Request("mail", {}, key="a"))
    [job] = claims.pull(world, worker_id="w")
    lease = Lease(job.number, job.token)
    assert claims.once(world, lease, "step", lambda _: 1) == 1
    assert claims.once(world, lease, "step", lambda _: 2) == 1
