"""The verbs of queues: each effect, each refusal, each audit entry."""

from collections.abc import Callable
from typing import Any

import pytest

from horae.actions.jobs import claims, jobs, queues
from horae.core.audit.entries import Entry
from horae.errors import InvalidInput
from horae.ports.world import World
from horae.testing.builders import a_request
from horae.testing.clock import NOON


def entries(world: World, queue: str = "default") -> list[Entry]:
    found = world.store.read(lambda tx: tx.audit.find(object_id=queue, limit=10, before=None))
    return [entry for _, entry in found]


def test_a_paused_queue_hands_out_nothing_and_still_takes_jobs(world: World) -> None:
    queues.pause_queue(world, "default", actor="ann", reason="repairs")

    jobs.enqueue(world, a_request())

    assert claims.pull(world, worker_id="w") == []


def test_a_pause_says_who_when_and_why(world: World) -> None:
    paused = queues.pause_queue(world, "default", actor="ann", reason="repairs")

    assert (paused.paused_at, paused.paused_by, paused.pause_reason) == (NOON, "ann", "repairs")
    [entry] = entries(world)
    assert (entry.verb, entry.actor, entry.reason, entry.object_type) == ("pause", "ann", "repairs", "queue")


def test_a_resumed_queue_goes_on(world: World) -> None:
    jobs.enqueue(world, a_request())
    queues.pause_queue(world, "default")

    queues.resume_queue(world, "default", actor="ann")

    assert len(claims.pull(world, worker_id="w")) == 1
    assert [entry.verb for entry in entries(world)] == ["resume", "pause"]


def test_a_limited_queue_runs_no_more_at_once(world: World) -> None:
    jobs.enqueue_many(world, [a_request() for _ in range(3)])

    queues.limit_queue(world, "default", 2, actor="ann")

    assert len(claims.pull(world, worker_id="w")) == 2
    assert entries(world)[0].verb == "limit"


def test_a_lifted_limit_lets_the_rest_in(world: World) -> None:
    jobs.enqueue_many(world, [a_request() for _ in range(3)])
    queues.limit_queue(world, "default", 1)
    claims.pull(world, worker_id="w")

    queues.limit_queue(world, "default", None)

    assert len(claims.pull(world, worker_id="w")) == 2


def test_a_queue_can_be_served_by_due_time(world: World) -> None:
    low = jobs.enqueue(world, a_request(priority="low", run_at=NOON.replace(hour=11))).id
    jobs.enqueue(world, a_request(priority="high"))

    queues.order_queue(world, "default", "run_at", actor="ann")

    assert claims.pull(world, worker_id="w", limit=1)[0].id == low
    assert entries(world)[0].verb == "order"


def test_one_setting_leaves_the_others_alone(world: World) -> None:
    queues.limit_queue(world, "default", 2)
    queues.order_queue(world, "default", "run_at")

    paused = queues.pause_queue(world, "default")

    assert (paused.max_running, paused.order) == (2, "run_at")


WRONG: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (queues.pause_queue, ("",)),
    (queues.pause_queue, ("no spaces",)),
    (queues.resume_queue, ("",)),
    (queues.limit_queue, ("default", 0)),
    (queues.limit_queue, ("default", -1)),
    (queues.order_queue, ("default", "random")),
]


@pytest.mark.parametrize(("verb", "given"), WRONG)
def test_what_makes_no_sense_is_refused_without_an_entry(
    world: World, verb: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidInput):
        verb(world, *given)
    assert entries(world, given[0]) == []


def test_the_list_shows_queues_with_settings_and_queues_with_jobs(world: World) -> None:
    queues.pause_queue(world, "a")
    jobs.enqueue(world, a_request(queue="b"))

    answer = {view.name: (view.paused_at is not None, view.jobs.get("queued", 0)) for view in queues.list_queues(world)}

    assert answer == {"a": (True, 0), "b": (False, 1)}


def test_what_is_not_set_is_nothing_in_the_audit_too(world: World) -> None:
    queues.pause_queue(world, "mail", actor="ann")
    queues.resume_queue(world, "mail", actor="ann")
    resumed, paused = entries(world, "mail")
    assert (paused.before["paused_by"], paused.after["paused_by"]) == (None, "ann")
    assert (resumed.before["paused_by"], resumed.after["paused_by"]) == ("ann", None)
