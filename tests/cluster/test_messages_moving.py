"""Messages find whom they are for wherever its shard has moved, and survive whoever dies or is away."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from horae.actions import cluster as verbs
from horae.actions import messages, moves
from horae.actions.jobs import claims, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.cluster.moves import Parcel
from horae.core.cluster.numbers import vshard_in
from horae.core.jobs.job import Outcome
from horae.errors import StoreUnavailable
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.runtime.sources.store import StoreSource
from tests.cluster.conftest import Clusters, die_in_cluster
from tests.cluster.mail import LEASE, deliver, ids, map_of, put, run, state, take, waiting
from tests.support.refusals import refused


def pair(clusters: Clusters, count: int = 3) -> tuple[World, Enqueued, Enqueued]:
    """Return a cluster, a parent in its first database and a child in its second."""
    world, _ = clusters.make(count)
    parent = put(world, 1)
    return world, parent, put(world, 2, parent)


def vshard(job: Enqueued) -> int:
    found = vshard_in(job.number)
    assert found is not None
    return found


# -- moving ------------------------------------------------------------------------------------------------------------


def test_a_parent_that_moves_between_ask_and_answer_answers_from_where_it_is(clusters: Clusters) -> None:
    world, parent, child = pair(clusters)
    deliver(world)
    moves.move(world, [vshard(parent)], "db-3")
    run(world, parent, result="5")
    deliver(world)
    assert ids(take(world)) == [child.id]
    assert [each.result for each in jobs.parent_results(world, child.id)] == [5]


def test_a_parent_that_moves_before_the_ask_arrives_is_found(clusters: Clusters) -> None:
    world, parent, child = pair(clusters)
    moves.move(world, [vshard(parent)], "db-3")
    deliver(world)
    run(world, parent)
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_a_parent_that_ended_where_its_shard_was_before_is_found(clusters: Clusters) -> None:
    world, parent, child = pair(clusters)
    run(world, parent, result="6")
    moves.move(world, [vshard(parent)], "db-3")
    deliver(world)
    near = jobs.enqueue(world, Request("mail", {}, after=(parent.id,)))  # in the shard of its parent
    deliver(world)
    assert sorted(ids(take(world))) == sorted([child.id, near.id])
    for each in (child, near):
        assert [found.result for found in jobs.parent_results(world, each.id)] == [6]


def test_a_running_parent_that_moves_answers_when_its_worker_ends_it(clusters: Clusters) -> None:
    world, parent, child = pair(clusters)
    [(shard, held)] = take(world)
    deliver(world)
    moves.move(world, [vshard(parent)], "db-3")
    assert StoreSource(shard, world).settle([(held, Outcome("succeeded"))])[parent.id] is not None
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_a_child_that_moves_hears_its_answer_where_it_is(clusters: Clusters) -> None:
    world, parent, child = pair(clusters)
    deliver(world)
    run(world, parent, result="7")
    moves.move(world, [vshard(child)], "db-3")
    deliver(world)
    assert ids(take(world)) == [child.id]
    moves.move(world, [vshard(child)], "db-2")
    assert [each.result for each in jobs.parent_results(world, child.id)] == [7]


def test_messages_leave_a_drained_database_with_their_shards(clusters: Clusters) -> None:
    world, parent, child = pair(clusters, 2)
    assert waiting(world) == 1
    moves.drain(world, "db-2")
    second = world.databases()[1]
    assert second.store.read(lambda tx: tx.messages.waiting()) == []
    deliver(world)
    run(world, parent)
    deliver(world)
    assert ids(take(world)) == [child.id]


@pytest.mark.parametrize("moved", ["parent", "child"])
def test_messages_wait_while_a_shard_is_on_the_way(clusters: Clusters, moved: str) -> None:
    world, parent, child = pair(clusters)
    subject = parent if moved == "parent" else child
    if moved == "child":
        deliver(world)
        run(world, parent)
    parcel = Parcel("p", 1 if moved == "parent" else 2, 3, (vshard(subject),))
    moves.pack(world, parcel)
    deliver(world)
    assert waiting(world) == 1
    assert moves.finish(world) == 1
    _later(clusters)
    deliver(world)
    if moved == "parent":
        run(world, parent)
        deliver(world)
    assert ids(take(world)) == [child.id]


def test_parents_from_before_the_cluster_are_asked_where_they_are(clusters: Clusters) -> None:
    first, second = clusters.urls(2)
    alone = clusters.open(first)
    stays = jobs.enqueue(alone, Request("mail", {}))
    goes = jobs.enqueue(alone, Request("mail", {}, key="goes"))
    verbs.init(alone, name="first", address=first)
    world = clusters.open(first)
    clusters.add(world, second, "db-2", first)
    vshards = [map_of(world).vshard_of(key="goes")]
    moves.move(world, vshards, "db-2")
    children = [jobs.enqueue(world, Request("mail", {}, owner=owner, after=(stays.id, goes.id))) for owner in "ab"]
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    deliver(world)
    run(world, stays, goes)
    deliver(world)
    assert sorted(ids(take(world))) == sorted(each.id for each in children)


# -- away and back -----------------------------------------------------------------------------------------------------


@contextmanager
def away(folder: Path, name: str) -> Iterator[None]:
    """Take a file away; whoever opens it meanwhile is refused."""
    for each in folder.glob(f"{name}*"):
        each.rename(folder / f"away-{each.name}")
    try:
        yield
    finally:
        for each in folder.glob(f"{name}*"):
            each.unlink()
        for each in folder.glob("away-*"):
            each.rename(folder / each.name.removeprefix("away-"))


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_database_that_is_away_holds_up_no_other_and_gets_its_messages_when_it_is_back(
    clusters: Clusters, tmp_path: Path
) -> None:
    before, parent, child = pair(clusters)
    other = put(before, 3, parent)
    deliver(before)
    run(before, parent)
    before.store.close()
    with away(tmp_path, "1.db"):
        world = clusters.open(f"sqlite:///{tmp_path / '0.db'}")
        assert world.cluster is not None
        first = world.cluster.whole(world, 1)
        vshards = messages.find_due(first, world.cluster).now[2]
        for _ in range(3):
            with refused(StoreUnavailable, "database_unreachable"):
                messages.deliver(first, world, 2, vshards)
            deliver(world, without=2)
        assert [each.count for each in first.store.read(lambda tx: tx.messages.waiting())] == [1]
        third = world.cluster.whole(world, 3)
        assert [job.id for job in claims.claim(third, "default", 9, worker_id="w", lease=LEASE)] == [other.id]
    deliver(world)
    assert ids(take(world)) == [child.id]


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_parent_is_not_called_unknown_while_a_database_that_may_know_it_is_away(
    clusters: Clusters, tmp_path: Path
) -> None:
    before, _ = clusters.make(3)
    parent = put(before, 3)
    child = put(before, 2, parent)
    run(before, parent)
    moves.move(before, [vshard(parent)], "first")
    before.store.close()
    with away(tmp_path, "2.db"):  # where it ended
        world = clusters.open(f"sqlite:///{tmp_path / '0.db'}")
        assert deliver(world, without=3) == 1
        assert state(world, child) == ("queued", "needs")
        assert waiting_in(world, 2) == 1
    _later(clusters)
    deliver(world)
    assert ids(take(world)) == [child.id]


def waiting_in(world: World, number: int) -> int:
    assert world.cluster is not None
    found = world.cluster.whole(world, number).store.read(lambda tx: tx.messages.waiting())
    return sum(each.count for each in found)


def test_what_is_undelivered_is_shown_by_destination(clusters: Clusters) -> None:
    world, parent, _ = pair(clusters)
    put(world, 3, parent)
    clusters.clock.advance(verbs.UNDELIVERED + verbs.UNDELIVERED)
    first, second, third = verbs.look(world).members
    assert first.undelivered == ()
    for each in (second, third):
        [found] = each.undelivered
        assert (found.to, found.count) == ("first", 1)
        assert found.age >= verbs.UNDELIVERED.total_seconds()
    deliver(world)
    assert [each.undelivered for each in verbs.look(world).members] == [(), (), ()]


# -- who dies in the middle --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
@pytest.mark.parametrize("policy", ["cancel", "run"])
def test_whoever_is_killed_before_any_statement_the_child_starts_or_ends_once(clusters: Clusters, policy: str) -> None:
    world, urls = clusters.make(2)
    ends = {"cancel": "cancelled", "run": "succeeded"}
    steps = 0
    for round_ in range(200):
        parent = put(world, 1, prefix=f"p{round_}")
        child = put(world, 2, parent, prefix=f"c{round_}", on_parent_dead=policy)
        ended = die_in_cluster(round_, clusters, urls[0], deliver)
        _later(clusters)
        deliver(world)
        run(world, parent, ending="failed", error="no")
        ended &= die_in_cluster(round_, clusters, urls[0], deliver)
        _later(clusters)
        deliver(world)
        assert waiting(world) == 0
        assert state(world, child) == (("cancelled", "") if policy == "cancel" else ("queued", ""))
        if policy == "run":
            run(world, child)
        assert [each.outcome for each in jobs.runs(world, child.id)] == [ends[policy]]
        steps += 1
        if ended:
            break
    assert steps > 5


def _later(clusters: Clusters) -> None:
    clusters.clock.advance(2 * messages.HELD)
