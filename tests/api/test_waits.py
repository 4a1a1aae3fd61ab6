"""Wait for the end of a job: through all four senders, and how the rounds of a wait are spaced."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from horae import Horae, Retry
from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.api.operation import Call
from horae.api.waits import FIRST_PAUSE, LONGEST_PAUSE, LONGEST_ROUND, Rounds, Wait
from horae.core.jobs.job import Outcome, not_kept
from horae.errors import HoraeError, InvalidInput, JobFailed, NotFound, WaitTimeout
from horae.ports.world import World
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

SOON = 60.0  # seconds: what takes longer has failed
queues = (f"waits{number}" for number in count())


@pytest.fixture
def queue() -> str:
    """A queue of this test alone."""
    return next(queues)


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def end_one(world: World, queue: str, owner: str | None = None, **ending: Any) -> None:
    (job,) = claims.pull(world, worker_id="w", queues=[queue], owner=owner)
    if "error" in ending:
        endings.fail(world, job.id, job.token, **ending)
    else:
        endings.ack(world, job.id, job.token, **ending)


def test_a_job_that_has_ended_is_returned_at_once_however_often(rooms: Sent, served: Served, queue: str) -> None:
    made = rooms.alice.jobs.enqueue("a", queue=queue)
    end_one(served.world, queue, "alice", result={"n": 1})

    first, second = rooms.alice.jobs.wait(made.id, timeout=SOON), rooms.house.jobs.wait(made.id, timeout=0)

    assert (first.id, first.state, first.result) == (made.id, "succeeded", {"n": 1})
    assert first == second == rooms.alice.jobs.get(made.id)


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled"])
def test_each_end_ends_a_wait(rooms: Sent, served: Served, queue: str, beside: ThreadPoolExecutor, state: str) -> None:
    made = rooms.house.jobs.enqueue("a", queue=queue, retry=Retry.none())
    end = {
        "succeeded": lambda: end_one(served.world, queue),
        "dead": lambda: end_one(served.world, queue, error="no", final=True),
        "cancelled": lambda: verbs.cancel(served.world, made.id),
    }
    beside.submit(end[state])

    assert rooms.house.jobs.wait(made.id, timeout=SOON).state == state


def test_an_attempt_that_failed_is_not_the_end_of_its_job(
    rooms: Sent, served: Served, queue: str, beside: ThreadPoolExecutor
) -> None:
    made = rooms.house.jobs.enqueue("a", queue=queue, retry=Retry.fixed(0, attempts=2))

    def fail_then_succeed() -> None:
        end_one(served.world, queue, error="once")
        end_one(served.world, queue, result="twice")

    beside.submit(fail_then_succeed)
    ended = rooms.house.jobs.wait(made.id, timeout=SOON)

    assert (ended.state, ended.attempt, ended.result) == ("succeeded", 1, "twice")


def test_a_result_is_waited_for_and_returned(
    rooms: Sent, served: Served, queue: str, beside: ThreadPoolExecutor
) -> None:
    made = rooms.alice.jobs.enqueue("a", queue=queue)
    beside.submit(end_one, served.world, queue, "alice", result={"n": 1})

    assert rooms.alice.jobs.result(made.id, timeout="1m") == {"n": 1}


def test_a_job_without_a_result_raises_its_last_error(rooms: Sent, served: Served, queue: str) -> None:
    dead = rooms.house.jobs.enqueue("a", queue=queue).id
    end_one(served.world, queue, error="OSError: full\n\nTraceback …", final=True)
    stopped, late = (rooms.house.jobs.enqueue("a", queue=queue).id for _ in range(2))
    verbs.cancel(served.world, stopped, reason="not wanted")

    with refused(JobFailed, "job_is_dead", id=dead, attempts=1, error="OSError: full"):
        rooms.house.jobs.result(dead, timeout=SOON)
    with refused(JobFailed, "job_was_cancelled", id=stopped, why="not wanted"):
        rooms.house.jobs.result(stopped, timeout=SOON)
    with refused(WaitTimeout, "job_not_ended_in_time"):
        rooms.house.jobs.result(late, timeout="10ms")


async def test_a_process_that_reaches_a_service_only_waits_there_for_what_it_enqueues(
    served: Served, queue: str, beside: ThreadPoolExecutor
) -> None:
    app = Horae()
    add = app.job("add", queue=queue)(lambda a, b: a + b)
    app.use_service(served.url, served.token("system", "admin"))

    made = add.enqueue(1, 2)
    with refused(WaitTimeout, "job_not_ended_in_time"):
        made.result(0)
    beside.submit(end_one, served.world, queue, result=3)

    assert await made.result_async(SOON) == made.result(SOON) == made.wait(SOON).result == 3


def test_a_result_that_could_not_be_kept_is_not_told_as_none(rooms: Sent, served: Served, queue: str) -> None:
    made = rooms.house.jobs.enqueue("a", queue=queue)
    (job,) = claims.pull(served.world, worker_id="w", queues=[queue])
    endings.settle(served.world, [(job, Outcome("succeeded", error=not_kept("It is too large.")))])

    with refused(NotFound, "result_not_kept", id=made.id):
        rooms.house.jobs.result(made.id, timeout=SOON)


def test_a_wait_that_is_too_long_raises_and_leaves_the_job_alone(rooms: Sent, queue: str) -> None:
    made = rooms.alice.jobs.enqueue("a", queue=queue)
    before = rooms.alice.jobs.get(made.id)

    for timeout in (0, 0.1):
        with refused(WaitTimeout, "job_not_ended_in_time", id=made.id, state="queued", timeout=timeout) as caught:
            rooms.alice.jobs.wait(made.id, timeout=timeout)
        assert isinstance(caught.value, TimeoutError)

    assert rooms.alice.jobs.get(made.id) == before


def test_what_is_not_there_or_not_yours_cannot_be_waited_for(rooms: Sent, queue: str) -> None:
    ours = rooms.house.jobs.enqueue("a", queue=queue)

    with refused(NotFound, "job_unknown", id="job_999999999"):
        rooms.house.jobs.wait("job_999999999", timeout=SOON)
    with refused(NotFound, "job_unknown", id=ours.id):
        rooms.alice.jobs.wait(ours.id, timeout=SOON)


def test_a_timeout_below_zero_is_refused(rooms: Sent) -> None:
    with refused(InvalidInput, "wait_timeout_negative", timeout=-1.0):
        rooms.house.jobs.wait("job_1", timeout=-1)


# -- rounds ------------------------------------------------------------------------------------------------------------


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rounds_of(time: Time, timeout: float) -> tuple[Rounds[str], list[float]]:
    asked: list[float] = []

    def ask(seconds: float) -> Call[str]:
        asked.append(seconds)
        return Call(str)

    wait: Wait[str] = Wait(ask, lambda answer: answer == "ended", HoraeError, timeout)
    return Rounds(wait, time), asked


def test_rounds_that_answer_at_once_begin_further_and_further_apart() -> None:
    time = Time()
    rounds, _ = rounds_of(time, 3600)
    pauses = []
    for _ in range(20):
        rounds.next_call()
        pauses.append(rounds.pause_after("not yet"))
        time.now += pauses[-1]

    assert pauses[0] == pytest.approx(FIRST_PAUSE)
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE)


def test_after_a_round_that_was_held_open_the_next_one_begins_at_once() -> None:
    time = Time()
    rounds, asked = rounds_of(time, 50)
    for _ in range(3):
        rounds.next_call()
        time.now += asked[-1]
        if len(asked) < 3:
            assert rounds.pause_after("not yet") == 0.0

    assert asked == pytest.approx([LONGEST_ROUND, LONGEST_ROUND, 10.0])
    with pytest.raises(HoraeError):
        rounds.pause_after("not yet")


def test_a_wait_ends_though_the_clock_stands_still() -> None:
    rounds, asked = rounds_of(Time(), 2.0)
    pauses: list[float] = []

    def wait() -> None:
        while True:
            rounds.next_call()
            pauses.append(rounds.pause_after("not yet"))

    with pytest.raises(HoraeError):
        wait()
    assert sum(pauses) == pytest.approx(2.0)
    assert asked[-1] == pytest.approx(0.0)
