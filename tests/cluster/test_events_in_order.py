"""Events of one job stay in order when its shard moves, as long as they are published."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from horae.actions import bus, moves
from horae.actions.jobs import endings, jobs
from horae.actions.jobs.requests import Request
from horae.core.cluster.moves import Parcel
from horae.core.cluster.shard_map import HOME
from horae.core.jobs.job import Outcome
from horae.errors import StoreError
from horae.ports.world import World
from tests.cluster.conftest import Clusters
from tests.cluster.test_moving import count_rows, filled, map_of, shards_of, take

Told = list[tuple[str, str]]  # jobs, and what happened


def publish(world: World, told: Told) -> None:
    """Publish what waits, of the second database first: the order that a consumer must not see."""
    for shard in reversed(world.databases()):
        found = bus.next_messages(shard, limit=1000)
        told += [(each.body["job"], each.subject.split(".")[2]) for each in found]
        bus.forget(shard, [each.number for each in found])


def end_all(world: World) -> None:
    for shard, job in take(world):
        endings.settle(shard, [(job, Outcome("succeeded"))])


def in_order(told: Told) -> bool:
    kinds = {job: [kind for each, kind in told if each == job] for job, _ in told}
    return all(found == ["enqueued", "succeeded"] for found in kinds.values())


def publishing(
    clusters: Clusters, world: World, told: Told, also: Callable[[], object] = lambda: None
) -> pytest.MonkeyPatch:
    """Let a process publish, and do something more, whenever a mover waits."""

    def pause(seconds: float) -> None:
        clusters.clock.advance(timedelta(seconds=seconds))
        publish(world, told)
        also()

    patch = pytest.MonkeyPatch()
    patch.setattr(clusters.clock, "pause", pause)
    return patch


def test_events_that_wait_are_published_before_their_jobs_go_on_elsewhere(clusters: Clusters) -> None:
    world, ids = filled(clusters, 4)
    bus.ask_everywhere(world, bus.switch_on)
    ids |= {owner: jobs.enqueue(world, Request("mail", {}, owner=owner)).id for owner in ids}
    told: Told = []
    patch = publishing(clusters, world, told)
    moves.move(world, shards_of(world, ids), "db-2")
    patch.undo()
    end_all(world)
    publish(world, told)
    assert {job for job, kind in told if kind == "enqueued"} == set(ids.values())
    assert in_order([each for each in told if each[0] in ids.values()])


def test_an_event_that_is_noted_after_the_backlog_is_published_before_the_shard_opens(clusters: Clusters) -> None:
    world, ids = filled(clusters, 1)
    bus.ask_everywhere(world, bus.switch_on)
    [owner] = ids
    late, told = list[str](), list[tuple[str, str]]()

    def enqueue_late() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clusters.clock, "pause", clusters.clock.advance)
            try:
                if len(late) < 2:
                    late.append(jobs.enqueue(world, Request("mail", {}, owner=owner)).id)
            except StoreError:
                """The shard is closed."""

    first = jobs.enqueue(world, Request("mail", {}, owner=owner)).id
    patch = publishing(clusters, world, told, enqueue_late)
    moves.move(world, shards_of(world, ids), "db-2")
    patch.undo()
    assert {job for job, _ in told} >= {first, late[0]}
    end_all(world)
    publish(world, told)
    assert in_order([each for each in told if each[0] in (first, *late)])


def test_a_parcel_that_was_left_waits_for_its_events_when_it_is_finished(clusters: Clusters) -> None:
    world, ids = filled(clusters, 1)
    bus.ask_everywhere(world, bus.switch_on)
    [owner] = ids
    made = jobs.enqueue(world, Request("mail", {}, owner=owner)).id
    moves.pack(world, Parcel("p", 1, 2, tuple(shards_of(world, ids))))
    told: Told = []
    patch = publishing(clusters, world, told)
    moves.finish(world)
    patch.undo()
    assert (made, "enqueued") in told


def test_while_nobody_publishes_a_drain_waits_once_and_says_what_is_left(clusters: Clusters) -> None:
    world, ids = filled(clusters, 4)
    bus.ask_everywhere(world, bus.switch_on)
    for owner in ids:
        jobs.enqueue(world, Request("mail", {}, owner=owner))
    moves.move(world, [each for each in map_of(world).owned_by(1) if each != HOME], "db-2")
    for owner in ids:
        jobs.enqueue(world, Request("mail", {}, owner=owner))
    began = clusters.clock.now()
    assert moves.drain(world, "db-2").unpublished == 4
    assert clusters.clock.now() - began < timedelta(seconds=20)
    assert count_rows(world, "horae_jobs") == [12, 0]
