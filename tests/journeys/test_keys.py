"""One key, many callers at the same moment."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Enqueued
from horae.errors import KeyConflict
from tests.journeys.conftest import Journey
from tests.journeys.program import CALLERS

T = TypeVar("T")


def all_at_once(count: int, work: Callable[[int], T]) -> list[T]:
    gate = threading.Barrier(count)
    answers: list[T] = []
    problems: list[BaseException] = []

    def call(number: int) -> None:
        gate.wait()
        try:
            answers.append(work(number))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return answers


def test_fifty_threads_that_enqueue_one_key_get_one_job_and_equal_answers(journey: Journey) -> None:
    def enqueue(_: int) -> Enqueued:
        return verbs.enqueue(journey.app.world, journey.brief(7, key="order:7"))

    answers = all_at_once(50, enqueue)

    assert len(answers) == 50
    assert {answer.id for answer in answers} == {answers[0].id}
    assert [answer.deduplicated for answer in answers].count(False) == 1
    assert len({(answer.job.payload["number"], answer.job.handler, answer.job.state) for answer in answers}) == 1
    assert [job.id for job in verbs.find(journey.app.world)] == [answers[0].id]


def test_fifty_callers_in_five_processes_get_the_same_one_job(journey: Journey) -> None:
    processes = [journey.python("-m", "tests.journeys.program", "callers") for _ in range(5)]
    for process in processes:
        process.until("ready")
    journey.open("go")
    for process in processes:
        assert process.wait() == 0, process.log.read_text()

    result = [answer for effect in journey.ran("answered") for answer in effect.detail]
    assert len(result) == 5 * CALLERS
    assert len({job for job, _ in result}) == 1
    assert [deduplicated for _, deduplicated in result].count(False) == 1
    assert len(verbs.find(journey.app.world)) == 1


def test_another_request_with_the_same_key_is_a_conflict_even_after_the_job_has_ended(journey: Journey) -> None:
    first = verbs.enqueue(journey.app.world, journey.brief(1, key="k"))
    journey.acknowledged.append(first.job.number)

    with pytest.raises(KeyConflict) as refused:
        verbs.enqueue(journey.app.world, journey.brief(2, key="k"))
    journey.worker()
    journey.until_done([first])
    with pytest.raises(KeyConflict):
        verbs.enqueue(journey.app.world, journey.brief(2, key="k"))
    again = verbs.enqueue(journey.app.world, journey.brief(1, key="k"))

    assert (refused.value.key, refused.value.job_id) == ("k", first.id)
    assert (again.id, again.deduplicated, again.job.state) == (first.id, True, "succeeded")
    assert len(journey.ran()) == 1


def test_one_of_fifty_different_requests_with_one_key_wins_and_the_others_are_told(journey: Journey) -> None:
    def enqueue(number: int) -> str:
        try:
            return verbs.enqueue(journey.app.world, journey.brief(number, key="k")).id
        except KeyConflict as refused:
            return f"conflict with {refused.job_id}"

    answers = all_at_once(50, enqueue)

    (winner,) = verbs.find(journey.app.world)
    assert sorted(answers) == sorted([winner.id] + [f"conflict with {winner.id}"] * 49)
