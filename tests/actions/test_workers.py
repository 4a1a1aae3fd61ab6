"""The verbs of workers: each effect, each refusal, each audit entry."""

from datetime import timedelta

import pytest

from horae.actions.jobs import jobs, nodes, queues
from horae.actions.jobs.reasons import why
from horae.errors import NotFound
from horae.ports.workers import Node
from horae.ports.world import World
from horae.testing.builders import a_request
from horae.testing.clock import NOON, VirtualClock
from tests.actions.test_queues import entries

NODE = Node("w1", "host", 7, "0.1", NOON, NOON, {"default": 4}, busy={"default": 1}, memory=1024)


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.store.peek([], node=NODE)


def test_a_drained_worker_is_told_and_the_audit_says_who_and_why(world: World) -> None:
    drained = nodes.drain_worker(world, "w1", actor="ann", reason="repairs")

    assert (drained.state, drained.drain, drained.drain_by, drained.drain_at) == ("draining", "stay", "ann", NOON)
    assert world.store.peek([], node_id="w1").drain == "stay"
    [entry] = entries(world, "w1")
    assert (entry.verb, entry.object_type, entry.actor, entry.reason) == ("drain", "worker", "ann", "repairs")
    assert (entry.before or {})["drain"] is None


def test_a_worker_can_be_asked_to_leave_and_to_stay_after_all(world: World) -> None:
    nodes.drain_worker(world, "w1", leave=True)
    assert nodes.drain_worker(world, "w1").drain == "stay"


def test_a_resumed_worker_has_nothing_asked_of_it(world: World) -> None:
    nodes.drain_worker(world, "w1", reason="repairs")
    resumed = nodes.resume_worker(world, "w1", actor="bob")

    assert (resumed.state, resumed.drain, resumed.drain_reason) == ("running", None, None)
    assert [entry.verb for entry in entries(world, "w1")] == ["resume", "drain"]


def test_a_drained_worker_serves_no_queue(world: World) -> None:
    job = jobs.enqueue(world, a_request()).job
    assert queues.get_queue(world, "default").workers == ("w1",)
    nodes.drain_worker(world, "w1")

    assert queues.get_queue(world, "default").workers == ()
    assert "no_worker" in [reason.code for reason in why(world, job)]


def test_a_worker_that_left_or_never_was_cannot_be_drained(world: World) -> None:
    world.store.transact(lambda tx: tx.nodes.remove("w1"))
    for act in (nodes.drain_worker, nodes.resume_worker, nodes.get_worker):
        with pytest.raises(NotFound):
            act(world, "w1")


def test_a_worker_shows_its_slots_and_a_tenant_sees_none(world: World, clock: VirtualClock) -> None:
    worker = nodes.get_worker(world, "w1")

    assert (worker.slots, worker.running, worker.busy, worker.memory) == (4, 1, {"default": 1}, 1024)
    with pytest.raises(NotFound):
        nodes.get_worker(world, "w1", owner="alice")
    clock.advance(timedelta(minutes=5))
    assert nodes.get_worker(world, "w1").state == "silent"
