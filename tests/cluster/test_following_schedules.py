"""A schedule that follows one of another shard fires when that has succeeded."""

from datetime import timedelta

import pytest

from horae.actions import messages, moves
from horae.actions.jobs import endings
from horae.actions.schedules import fires, schedules
from horae.core.jobs.job import Outcome
from horae.errors import Conflict, NotFound
from horae.ports.world import World
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters
from tests.cluster.mail import deliver, keys_in, map_of, take, waiting
from tests.cluster.test_messages import _deliver_twice
from tests.cluster.test_restoring import Ground
from tests.cluster.test_settings import only_files
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)


def make(clusters: Clusters, count: int = 2) -> tuple[World, str, str]:
    """Return a cluster with a leader in its first database, and a follower of it in the second."""
    world, _ = clusters.make(count)
    [leader], [follower] = keys_in(world, 1), keys_in(world, 2)
    schedules.create(world, a_schedule(leader, "60", kind="every"))
    schedules.create(world, a_schedule(follower, "", kind="after", after=(leader,)))
    return world, leader, follower


def lead(clusters: Clusters, world: World, outcome: str = "succeeded") -> None:
    """Let a minute pass and all that is due run."""
    clusters.clock.advance(MINUTE)
    fire(world)
    for shard, job in take(world):
        endings.settle(shard, [(job, Outcome(outcome))])  # type: ignore[arg-type]


def fire(world: World) -> list[str]:
    """Fire what is due in every database; return the keys."""
    return [each.schedule.key for shard in world.databases() for each, _ in fires.fire_due(shard)]


def test_a_follower_in_another_shard_fires_when_its_leader_has_succeeded(clusters: Clusters) -> None:
    world, _, follower = make(clusters)
    deliver(world)
    for _ in range(3):
        lead(clusters, world)
        assert fire(world) == []
        deliver(world)
        assert fire(world) == [follower]
        [(shard, job)] = take(world)
        endings.settle(shard, [(job, Outcome("succeeded"))])
    assert waiting(world) == 0


def test_a_leader_that_did_not_succeed_is_not_followed_elsewhere(clusters: Clusters) -> None:
    world, _, _ = make(clusters)
    deliver(world)
    lead(clusters, world, "failed")
    assert deliver(world) == 0
    assert fire(world) == []


def test_a_follower_waits_for_all_its_leaders_near_and_far(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    [one], [other], [follower] = keys_in(world, 1), keys_in(world, 3), keys_in(world, 2)
    schedules.create(world, a_schedule(one, "60", kind="every"))
    schedules.create(world, a_schedule(other, "120", kind="every"))
    schedules.create(world, a_schedule(follower, "", kind="after", after=(one, other)))
    deliver(world)
    fire(world)
    for shard, job in take(world):
        assert fire(world) == []
        endings.settle(shard, [(job, Outcome("succeeded"))])
        deliver(world)
    assert fire(world) == [follower]


def test_what_a_follower_is_told_twice_fires_once(clusters: Clusters) -> None:
    world, _, follower = make(clusters)
    _deliver_twice(world)
    lead(clusters, world)
    _deliver_twice(world)
    assert fire(world) == [follower]
    _deliver_twice(world)
    assert fire(world) == []


def test_a_late_success_does_not_fire_a_follower_again(clusters: Clusters) -> None:
    world, _, follower = make(clusters)
    deliver(world)
    lead(clusters, world)
    first = world.databases()[0]
    now = first.clock.now()
    late = first.store.transact(lambda tx: tx.messages.take(range(4096), now=now, until=now, limit=9))
    deliver(world)
    assert fire(world) == [follower]
    take(world)
    messages.hand_over(world, 2, late)
    assert fire(world) == []


def test_a_schedule_that_follows_no_more_is_told_nothing(clusters: Clusters) -> None:
    world, leader, follower = make(clusters)
    deliver(world)
    schedules.change(world, follower, {"after": (), "kind": "every", "expression": "86400"})
    deliver(world)
    lead(clusters, world)
    assert waiting(world) == 0
    schedules.delete(world, leader)


def test_a_leader_of_a_schedule_elsewhere_cannot_be_deleted_before_its_follower(clusters: Clusters) -> None:
    world, leader, follower = make(clusters)
    deliver(world)
    with refused(Conflict, "schedule_followed", followers=[follower]):
        schedules.delete(world, leader)
    schedules.delete(world, follower)
    deliver(world)
    schedules.delete(world, leader)


def test_leaders_that_are_not_there_and_circles_are_refused_across_shards(clusters: Clusters) -> None:
    world, leader, follower = make(clusters)
    [missing] = keys_in(world, 1, prefix="missing")
    with refused(NotFound, "followed_unknown", missing=missing):
        schedules.create(world, a_schedule("late", "", kind="after", after=(missing,)))
    with refused(Conflict, "schedules_in_circle"):
        schedules.change(world, leader, {"kind": "after", "expression": "", "after": (follower,)})


def test_a_declared_leader_may_be_stored_after_its_follower(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    [leader], [follower] = keys_in(world, 1), keys_in(world, 2)
    schedules.create(world, a_schedule(follower, "", kind="after", after=(leader,), declared=True))
    deliver(world)
    assert waiting(world) == 1
    schedules.create(world, a_schedule(leader, "60", kind="every", declared=True))
    clusters.clock.advance(MINUTE)
    deliver(world)
    lead(clusters, world)
    deliver(world)
    assert fire(world) == [follower]


@pytest.mark.parametrize("moved", ["leader", "follower"])
def test_schedules_follow_each_other_wherever_they_move(clusters: Clusters, moved: str) -> None:
    world, leader, follower = make(clusters, 3)
    deliver(world)
    lead(clusters, world)  # a message is under way
    vshard = map_of(world).vshard_of(key=leader if moved == "leader" else follower)
    moves.move(world, [vshard], "db-3")
    deliver(world)
    assert fire(world) == [follower]
    take(world)
    lead(clusters, world)
    deliver(world)
    assert fire(world) == [follower]


def test_a_restored_leader_is_told_again_who_follows_it(clusters: Clusters) -> None:
    world, _, follower = make(clusters)
    deliver(world)
    lead(clusters, world)
    deliver(world)
    assert fire(world) == [follower]
    take(world)
    for table in ("horae_followers", "horae_follows"):
        first = world.databases()[0]
        first.store.transact(lambda tx, table=table: tx.connection.exec_driver_sql(f"DELETE FROM {table}"))  # type: ignore[misc]
    messages.ask_again(world)
    deliver(world)
    lead(clusters, world)
    deliver(world)
    assert fire(world) == [follower]


@only_files
def test_a_restored_follower_is_heard_although_its_leader_knows_a_later_version(clusters: Clusters) -> None:
    ground = Ground(clusters)
    [leader], [follower] = keys_in(ground.world, 1), keys_in(ground.world, 2)
    schedules.create(ground.world, a_schedule(leader, "60", kind="every"))
    schedules.create(ground.world, a_schedule(follower, "", kind="after", after=(leader,)))
    deliver(ground.world)
    copy = ground.copy(2)
    schedules.change(ground.world, follower, {"kind": "every", "expression": "3600", "after": ()})
    deliver(ground.world)  # the leader has heard that nobody follows it any more
    ground.put_back(2, copy)
    ground.restore(2)
    world = ground.anew()
    assert schedules.get(world, follower).after == (leader,)
    deliver(world)
    lead(clusters, world)
    deliver(world)
    assert fire(world) == [follower]
    assert schedules.get(world, follower).version == 3
