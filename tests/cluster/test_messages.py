"""Jobs that wait for jobs of another shard: asked and answered by messages."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.actions import messages
from horae.actions.jobs import endings, jobs, reasons
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.cluster.messages import HINT, Message
from horae.core.cluster.numbers import vshard_in
from horae.core.jobs.job import OnParentDead, Outcome
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from tests.cluster.conftest import Clusters
from tests.cluster.mail import LEASE, deliver, ids, keys_in, map_of, put, run, state, take, waiting

POLICIES: list[OnParentDead] = ["cancel", "run", "wait"]


def make(clusters: Clusters, count: int = 2) -> World:
    return clusters.make(count)[0]


# -- a parent succeeds -----------------------------------------------------------------------------------------------


def test_a_child_in_another_shard_starts_when_its_parent_has_succeeded(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    assert vshard_in(parent.number) != vshard_in(child.number)
    assert state(world, child) == ("queued", "needs")
    deliver(world)
    run(world, parent, result='{"sum": 7}')
    assert take(world) == []
    deliver(world)
    assert ids(take(world)) == [child.id]
    assert waiting(world) == 0


def test_a_child_of_a_parent_that_has_ended_is_answered_at_once(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    run(world, parent)
    child = put(world, 2, parent)
    assert take(world) == []
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_the_result_of_a_parent_in_another_shard_reaches_the_child(clusters: Clusters) -> None:
    world = make(clusters, 3)
    parents = [put(world, 1), put(world, 3)]
    child = put(world, 2, *parents)
    deliver(world)
    run(world, *parents, result='{"sum": 7}')
    deliver(world)
    found = jobs.parent_results(world, child.id)
    assert [(each.id, each.state, each.result) for each in found] == [
        (each.id, "succeeded", {"sum": 7}) for each in parents
    ]
    assert {each.handler for each in found} == {"mail"}


def test_a_child_waits_for_all_its_parents_near_and_far(clusters: Clusters) -> None:
    world = make(clusters, 3)
    far, farther = put(world, 2), put(world, 3)
    near = put(world, 1)
    child = jobs.enqueue(world, Request("mail", {}, after=(near.id, far.id, farther.id)))
    assert vshard_in(child.number) == vshard_in(near.number)
    deliver(world)
    for shard, job in take(world):
        assert state(world, child) == ("queued", "needs")
        endings.settle(shard, [(job, Outcome("succeeded"))])
        deliver(world)
    assert ids(take(world)) == [child.id]


def test_a_chain_goes_through_three_databases(clusters: Clusters) -> None:
    world = make(clusters, 3)
    first = put(world, 1)
    second = put(world, 2, first)
    third = put(world, 3, second)
    for job in (first, second, third):
        deliver(world)
        run(world, job)
    assert state(world, third)[0] == "succeeded"


def test_shards_of_one_database_ask_each_other_as_those_of_two_do(clusters: Clusters) -> None:
    world = make(clusters, 1)
    parent = put(world, 1)
    child = put(world, 1, parent, prefix="child")
    assert vshard_in(parent.number) != vshard_in(child.number)
    deliver(world)
    run(world, parent, result="3")
    deliver(world)
    assert ids(take(world)) == [child.id]
    assert [each.result for each in jobs.parent_results(world, child.id)] == [3]


def test_tenants_wait_for_each_other(clusters: Clusters) -> None:
    world = make(clusters)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    parent = put(world, 1)
    owner = next(o for o in (f"o{n}" for n in range(99)) if _database_of(world, o) == 2)
    child = jobs.enqueue(world, Request("mail", {}, owner=owner, after=(parent.id,)))
    deliver(world)
    run(world, parent)
    deliver(world)
    assert ids(take(world)) == [child.id]


# -- a parent does not succeed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("end", ["dead", "cancelled", "lost"])
def test_a_parent_that_will_not_succeed_is_dealt_with_by_policy(clusters: Clusters, policy: str, end: str) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent, on_parent_dead=policy)
    deliver(world)
    _end(clusters, world, parent, end)
    deliver(world)
    expected = {"cancel": ("cancelled", ""), "run": ("queued", ""), "wait": ("queued", "needs")}
    assert state(world, child) == expected[policy]
    assert ids(take(world)) == ([child.id] if policy == "run" else [])
    if policy == "cancel":
        words = "was cancelled" if end == "cancelled" else "is dead"
        assert jobs.get(world, child.id).cancel_reason == f"{parent.id}, which it waited for, {words}"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_parent_that_was_never_is_dealt_with_as_one_that_is_dead(clusters: Clusters, policy: str) -> None:
    world = make(clusters)
    parent = put(world, 1)
    run(world, parent)
    unknown = parent.number + (1 << 20)
    name = f"job_{vshard_in(unknown)}x{unknown}"
    [key] = keys_in(world, 2)
    child = jobs.enqueue(world, Request("mail", {}, key=key, after=(name,), on_parent_dead=policy))  # type: ignore[arg-type]
    deliver(world)
    assert state(world, child)[0] == ("cancelled" if policy == "cancel" else "queued")
    assert bool(take(world)) == (policy == "run")
    if policy == "cancel":
        assert jobs.get(world, child.id).cancel_reason == f"{name}, which it waited for, is not known"


def test_why_names_parents_in_other_shards_and_how_they_stand(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent, on_parent_dead="wait")
    deliver(world)
    assert "held" in _why(world, child)
    run(world, parent, ending="failed", error="no")
    deliver(world)
    assert "parent_dead" in _why(world, child)


def test_a_revived_parent_brings_its_child_back_from_another_shard(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    run(world, parent, ending="failed", error="no")
    deliver(world)
    assert state(world, child)[0] == "cancelled"
    jobs.revive(world, parent.id)
    deliver(world)
    assert state(world, child) == ("queued", "needs")
    run(world, parent, result="1")
    deliver(world)
    assert ids(take(world)) == [child.id]
    assert [each.result for each in jobs.parent_results(world, child.id)] == [1]


def test_a_child_that_comes_back_is_what_it_was(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    fields: dict[str, Any] = {
        "unique": "u",
        "concurrency_key": "c",
        "concurrency_limit": 3,
        "priority": "high",
        "tags": ("t",),
    }
    shard_key = next(k for k in (f"s{n}" for n in range(99)) if _place_of(world, k) == 2)
    child = jobs.enqueue(world, Request("mail", {"n": 1}, key="k", shard_key=shard_key, after=(parent.id,), **fields))
    before = jobs.get(world, child.id)
    deliver(world)
    run(world, parent, ending="failed", error="no")
    deliver(world)
    jobs.revive(world, parent.id)
    deliver(world)
    after = jobs.get(world, child.id)
    assert after.token > before.token
    assert replace(after, token=before.token) == replace(before, has_dependents=True)


def test_a_parent_that_dies_again_cancels_the_child_that_came_back(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    for _ in range(3):
        run(world, parent, ending="failed", error="no")
        deliver(world)
        assert state(world, child)[0] == "cancelled"
        jobs.revive(world, parent.id)
        deliver(world)
        assert state(world, child) == ("queued", "needs")


def test_death_and_revival_between_two_deliveries_leave_the_child_waiting(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    run(world, parent, ending="failed", error="no")
    jobs.revive(world, parent.id)
    deliver(world)
    assert state(world, child) == ("queued", "needs")
    run(world, parent)
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_a_parent_revived_and_succeeded_between_two_deliveries_brings_the_child_back(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    run(world, parent, ending="failed", error="no")
    deliver(world)
    jobs.revive(world, parent.id)
    run(world, parent)
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_a_death_cascades_over_three_databases_and_so_does_the_revival(clusters: Clusters) -> None:
    world = make(clusters, 3)
    first = put(world, 1)
    second = put(world, 2, first)
    third = put(world, 3, second)
    near = jobs.enqueue(world, Request("mail", {}, after=(third.id,)))
    deliver(world)
    run(world, first, ending="failed", error="no")
    deliver(world)
    assert [state(world, each)[0] for each in (second, third, near)] == ["cancelled"] * 3
    jobs.revive(world, first.id)
    deliver(world)
    assert [state(world, each) for each in (second, third, near)] == [("queued", "needs")] * 3
    for job in (first, second, third, near):
        run(world, job)
        deliver(world)


def test_a_child_that_was_cancelled_by_hand_hears_of_its_parent_no_more(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    jobs.cancel(world, child.id)
    run(world, parent)
    deliver(world)
    assert state(world, child)[0] == "cancelled"
    assert waiting(world) == 0


# -- who comes twice, late or never ------------------------------------------------------------------------------------


def test_messages_that_are_delivered_twice_change_nothing(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    _deliver_twice(world)
    run(world, parent, ending="failed", error="no")
    _deliver_twice(world)
    assert state(world, child)[0] == "cancelled"
    jobs.revive(world, parent.id)
    _deliver_twice(world)
    assert state(world, child) == ("queued", "needs")
    run(world, parent)
    _deliver_twice(world)
    assert ids(take(world)) == [child.id]
    assert waiting(world) == 0


def test_a_late_answer_does_not_undo_a_later_one(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    run(world, parent, ending="failed", error="no")
    late = _peek(world, 1)
    deliver(world)
    jobs.revive(world, parent.id)
    deliver(world)
    messages.hand_over(world, 2, late)
    assert state(world, child) == ("queued", "needs")
    run(world, parent)
    deliver(world)
    messages.hand_over(world, 2, late)
    assert ids(take(world)) == [child.id]


def test_a_process_that_dies_after_taking_messages_delays_them_only(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    assert len(messages.take(world.databases()[1], range(4096))) == 1
    assert deliver(world) == 0
    clusters.clock.advance(timedelta(seconds=31))
    run(world, parent)
    assert deliver(world) == 2
    assert ids(take(world)) == [child.id]


def test_a_database_that_was_restored_from_a_copy_is_asked_again(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    first = world.databases()[0]
    first.store.transact(lambda tx: tx.connection.exec_driver_sql("DELETE FROM horae_asks"))
    run(world, parent)
    deliver(world)
    assert take(world) == []
    messages.ask_again(world)
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_an_ask_that_was_left_without_an_answer_is_found(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    child = put(world, 2, parent)
    deliver(world)
    first = world.databases()[0]
    first.store.transact(lambda tx: tx.connection.exec_driver_sql("UPDATE horae_jobs SET linked = 0"))
    run(world, parent)
    deliver(world)
    assert take(world) == []
    assert messages.find_lost_asks(first) == 1
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_a_settle_that_many_ask_about_leaves_the_rest_to_the_messenger(clusters: Clusters) -> None:
    world = make(clusters)
    parent = put(world, 1)
    children = [
        jobs.enqueue(world, Request("mail", {}, key=key, after=(parent.id,))) for key in keys_in(world, 2, 130, "many")
    ]
    deliver(world)
    run(world, parent)
    assert waiting(world) == 100
    deliver(world)
    taken = ids(take(world)) + ids(take(world))
    assert sorted(taken) == sorted(each.id for each in children)


def test_hints_tell_of_messages(clusters: Clusters) -> None:
    world = make(clusters)
    heard: list[str] = []
    ends = [shard.store.subscribe(heard.append) for shard in world.databases()]
    parent = put(world, 1)
    put(world, 2, parent)
    assert HINT in heard
    deliver(world)
    heard.clear()
    run(world, parent)
    assert HINT in heard
    for end in ends:
        end()


# -- helpers -----------------------------------------------------------------------------------------------------------


def _why(world: World, job: Enqueued) -> list[str]:
    return [each.code for each in reasons.why(world, jobs.get(world, job.id))]


def _database_of(world: World, owner: str) -> int:
    shard_map = map_of(world)
    return shard_map.database_of(shard_map.vshard_of(owner=owner))


def _place_of(world: World, shard_key: str) -> int:
    shard_map = map_of(world)
    return shard_map.database_of(shard_map.vshard_of(shard_key=shard_key))


def _end(clusters: Clusters, world: World, parent: Enqueued, end: str) -> None:
    if end == "cancelled":
        jobs.cancel(world, parent.id)
    elif end == "dead":
        run(world, parent, ending="failed", error="no")
    else:
        for _ in range(3):
            assert ids(take(world)) == [parent.id]
            clusters.clock.advance(2 * LEASE)
            endings.lose_expired(world)
        assert state(world, parent)[0] == "dead"


def _peek(world: World, number: int) -> list[Message]:
    """Return the messages of a database without taking them."""
    shard = world.databases()[number - 1]
    now = shard.clock.now()
    return shard.store.transact(lambda tx: tx.messages.take(range(4096), now=now, until=now, limit=100))


def _deliver_twice(world: World) -> None:
    """Deliver everything, each message twice, as by a process that died before it could delete it."""
    for _ in range(10):
        found = False
        for number in range(1, 3):
            for each in _peek(world, number):
                place = map_of(world).database_of(each.vshard)
                messages.hand_over(world, place, [each])
                messages.hand_over(world, place, [each, each])
                found = True
        deliver(world)
        if not found:
            return
