"""The overview and the next fires, through all four senders."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

from horae.actions.jobs import jobs, queues
from horae.actions.schedules import schedules
from horae.api.overview import Need, Overview
from horae.api.schedules.values import UpcomingFire
from horae.errors import InvalidInput
from horae.testing.builders import a_request, a_schedule
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"seen{number}" for number in count())


@pytest.fixture
def name() -> str:
    return next(names)


def test_what_needs_a_person_comes_with_a_sentence_and_a_filter(rooms: Sent, served: Served, name: str) -> None:
    job = jobs.enqueue(served.world, a_request(queue=name))
    (held,) = rooms.house.jobs.claim("w", queues=[name])
    rooms.house.jobs.fail(job.id, held.token, "no route", final=True)
    queues.pause_queue(served.world, name)
    seen = rooms.house.overview.get()
    needs = {each.code: each for each in seen.needs}

    assert isinstance(seen, Overview)
    assert seen.health.code == "trouble"
    assert isinstance(needs["dead"], Need)
    assert (needs["dead"].level, needs["dead"].room, needs["dead"].filter) == ("problem", "jobs", "state:dead")
    assert needs["dead"].facts["count"] >= 1
    assert "已放弃" in needs["dead"].in_words("zh")
    assert name in needs["paused"].facts["names"]
    assert "dead" not in {each.code for each in rooms.alice.overview.get().needs}


def test_the_next_fires_come_in_order_and_a_frequent_schedule_comes_often(
    rooms: Sent, served: Served, name: str
) -> None:
    schedules.create(served.world, a_schedule(f"{name}-often", "1", kind="every", owner=name))
    schedules.create(served.world, a_schedule(f"{name}-daily", "0 3 * * *", owner=name))
    found = rooms.house.schedules.next_fires(owner=name, limit=5)

    assert all(isinstance(each, UpcomingFire) for each in found)
    assert [each.key for each in found] == [f"{name}-often"] * 5
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert found[4].at - found[0].at <= timedelta(seconds=10)
    with refused(InvalidInput, "out_of_range"):
        rooms.house.schedules.next_fires(limit=101)
