"""The last results of schedules: with a page of them in one statement, and with one schedule."""

from __future__ import annotations

from itertools import count

import pytest

from horae.actions.schedules import fires, schedules
from horae.api.schedules.values import Schedule, ScheduleResult
from horae.errors import InvalidInput
from horae.testing.builders import a_schedule
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"resulting{number}" for number in count())


@pytest.fixture
def name() -> str:
    return next(names)


def run(rooms: Sent, served: Served, key: str, *, fails: bool = False) -> str:
    """Trigger a schedule and end its job; returns the id of the run."""
    fires.trigger(served.world, key)
    (job,) = rooms.house.jobs.claim("w", queues=[key])
    if fails:
        rooms.house.jobs.fail(job.id, job.token, "no route", final=True)
    else:
        rooms.house.jobs.ack(job.id, job.token)
    return f"{job.id}.{job.token}"


def test_a_page_of_schedules_has_their_last_results(rooms: Sent, served: Served, name: str) -> None:
    for key in (f"{name}-a", f"{name}-b", f"{name}-c"):
        schedules.create(served.world, a_schedule(key, handler=key, queue=key, group=name))
    first, second = run(rooms, served, f"{name}-a"), run(rooms, served, f"{name}-a", fails=True)
    third = run(rooms, served, f"{name}-b")

    with_results = list(rooms.house.schedules.list(group=name, results=20))
    without = list(rooms.house.schedules.list(group=name))
    one = list(rooms.house.schedules.list(group=name, results=1))

    assert [[each.id for each in found.results] for found in with_results] == [[second, first], [third], []]
    assert [found.results for found in without] == [(), (), ()]
    assert [len(found.results) for found in one] == [1, 1, 0]
    assert isinstance(with_results[0], Schedule)
    newest = with_results[0].results[0]
    assert isinstance(newest, ScheduleResult)
    assert (newest.outcome, f"{newest.job_id}.1") == ("failed", newest.id)
    assert newest.finished_at is not None
    assert [each.id for each in rooms.house.schedules.get(f"{name}-a").results] == [second, first]


def test_more_results_than_are_kept_together_are_refused(rooms: Sent) -> None:
    with refused(InvalidInput, "out_of_range"):
        list(rooms.house.schedules.list(results=21))
