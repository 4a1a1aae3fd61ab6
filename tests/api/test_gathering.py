"""Debounced and collected jobs, through all four senders."""

from __future__ import annotations

from itertools import count

import pytest

from horae import Collect, Debounce
from horae.actions.jobs.requests import Request
from horae.errors import InvalidInput
from tests.api.conftest import Sent
from tests.support.refusals import refused

numbers = count()


@pytest.fixture
def key() -> str:
    return f"key {next(numbers)}"


def test_calls_that_are_debounced_are_one_job_and_the_answer_says_so(rooms: Sent, key: str) -> None:
    how = Debounce("1h", max_wait="2h", key=key)
    first = rooms.house.jobs.enqueue("index", {"n": 1}, debounce=how)
    second = rooms.house.jobs.enqueue("index", {"n": 2}, debounce=how)
    found = rooms.house.jobs.get(first.id)

    assert (first.deduplicated, first.gathered) == (False, 1)
    assert (second.id, second.deduplicated, second.gathered) == (first.id, True, 2)
    assert second.run_at >= first.run_at
    assert (found.payload, found.run_at, found.collected) == ({"n": 2}, second.run_at, None)
    assert found.unique == f"horae:debounce:default index {key}"
    assert rooms.house.jobs.why(first.id)[0].code == "gathering"


def test_a_span_alone_debounces_all_calls_of_a_handler(rooms: Sent, key: str) -> None:
    handler = f"index-{next(numbers)}"
    made = [rooms.house.jobs.enqueue(handler, {"n": n}, debounce="1h") for n in range(2)]

    assert made[0].id == made[1].id


def test_calls_that_are_collected_are_one_job_with_all_values(rooms: Sent, key: str) -> None:
    how = Collect(100, "1h", key=key)
    first = rooms.house.jobs.enqueue("index", {"items": [1]}, collect=how, key=f"{key} a")
    again = rooms.house.jobs.enqueue("index", {"items": [1]}, collect=how, key=f"{key} a")
    many = rooms.house.jobs.enqueue_many([Request("index", {"items": [n]}, collect=how) for n in (2, 3)])
    found = rooms.house.jobs.get(first.id)

    assert (again.id, again.deduplicated) == (first.id, True)
    assert [(each.id, each.gathered, each.run_at) for each in many] == [(first.id, n, first.run_at) for n in (2, 3)]
    assert (found.payload, found.collected) == ({"items": [1, 2, 3]}, 3)
    assert next(each for each in rooms.house.jobs.list(limit=5) if each.id == first.id).collected == 3
    assert "it has 3 values so far" in rooms.house.jobs.why(first.id)[0].text


def test_a_tenants_calls_do_not_join_those_of_others(rooms: Sent, key: str) -> None:
    how = Collect(100, "1h", key=key)
    mine = rooms.alice.jobs.enqueue("index", {"items": [1]}, collect=how)
    theirs = rooms.house.jobs.enqueue("index", {"items": [2]}, collect=how)

    assert mine.id != theirs.id
    assert rooms.alice.jobs.get(mine.id).payload == {"items": [1]}


def test_what_cannot_be_joined_is_refused_by_every_door(rooms: Sent, key: str) -> None:
    for payload, options in (
        ({"items": 1}, {"collect": Collect()}),
        ({}, {"debounce": "1h", "delay": 5}),
        ({}, {"debounce": "1h", "unique": key}),
        ({"items": [1]}, {"debounce": "1h", "collect": Collect()}),
    ):
        with pytest.raises(InvalidInput):
            rooms.house.jobs.enqueue("index", payload, **options)
    with refused(InvalidInput, "gather_not_with"):
        rooms.house.batches.create([Request("index", {"items": [1]}, collect=Collect())])
