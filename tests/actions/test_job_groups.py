"""Counts by state, queue and handler, and what a job belongs to."""

from typing import Any

import pytest

from horae.actions.jobs import claims, endings, jobs, lists, queries
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.core.jobs.filters import narrow, parse_filter
from horae.core.jobs.fingerprints import fingerprint
from horae.core.jobs.job import Filter
from horae.core.schedules.schedule import Schedule
from horae.errors import NotFound
from horae.ports.world import World
from horae.testing.clock import VirtualClock


def counted(world: World, where: str = "", **wanted: Any) -> dict[tuple[str, str, str], int]:
    query = parse_filter(where, now=world.clock.now())
    found = queries.count_groups(world, narrow(Filter(**wanted), query))
    return {(each.state, each.queue, each.handler): each.count for each in found.groups}


def test_jobs_are_counted_by_state_queue_and_handler(world: World) -> None:
    jobs.enqueue_many(world, [Request("a"), Request("a"), Request("b", queue="mail"), Request("c", owner="alice")])
    first, second = claims.pull(world, worker_id="w", limit=2)
    endings.ack(world, first.id, first.token)
    endings.fail(world, second.id, second.token, "E: x", final=True)

    assert counted(world) == {
        ("succeeded", "default", "a"): 1, ("dead", "default", "a"): 1,
        ("queued", "mail", "b"): 1, ("queued", "default", "c"): 1,
    }  # fmt: skip
    assert counted(world, "queue:mail") == {("queued", "mail", "b"): 1}
    assert counted(world, "-state:queued") == {("succeeded", "default", "a"): 1, ("dead", "default", "a"): 1}
    assert counted(world, owner="alice") == {("queued", "default", "c"): 1}


def test_old_dead_jobs_are_counted_and_old_queued_ones_are_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LOOK_BACK", 2)
    jobs.enqueue_many(world, [Request("old"), Request("old")])
    (job,) = claims.pull(world, worker_id="w", limit=1)
    endings.fail(world, job.id, job.token, "E: x", final=True)
    jobs.enqueue_many(world, [Request("new")] * 3)

    found = queries.count_groups(world, Filter())
    assert {(each.state, each.handler): each.count for each in found.groups} == {
        ("dead", "old"): 1,
        ("queued", "new"): 3,
    }
    assert found.down_to is not None


def test_a_job_knows_its_schedule_its_parents_its_children_and_its_error(world: World, clock: VirtualClock) -> None:
    schedules.create(world, Schedule("nightly", "report", "cron", "0 3 * * *"))
    made = fires.trigger(world, "nightly")
    assert made.job_id is not None
    child = jobs.enqueue(world, Request("after", after=(made.job_id,)))
    (job,) = claims.pull(world, worker_id="w", limit=1)
    endings.fail(world, job.id, job.token, "E: x", final=True)

    parent = queries.related(world, made.job_id)
    assert (parent.schedule, parent.children) == ("nightly", (child.id,))
    assert parent.error_group == fingerprint("report", "E: x").hash
    assert [each.id for each in queries.related(world, child.id).parents] == [made.job_id]
    with pytest.raises(NotFound):
        queries.related(world, made.job_id, owner="alice")
