"""Enqueue: what is stored, what is refused, when it is the same."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horae.actions.jobs import claims, endings, jobs, queues
from horae.actions.jobs.requests import Request
from horae.core.jobs.retry import Retry, time_limit
from horae.errors import HoraeError, InvalidInput, InvalidName, InvalidPayload, KeyConflict, PastDue
from horae.ports.world import World
from horae.testing.builders import a_request
from horae.testing.clock import NOON, VirtualClock
from tests.support.refusals import refused

SECOND = timedelta(seconds=1)


def stored(world: World) -> int:
    return len(jobs.find(world))


def test_what_enqueue_answers_is_what_is_stored(world: World) -> None:
    request = a_request(
        {"to": "you", "n": [1, 2]}, queue="mail", priority="high", delay=9 * SECOND, owner="ann", key="k",
        retry=Retry.exponential(2, attempts=4), timeout=SECOND, unique="u", concurrency_key="c", tags=("a",),
        trace_id="t",
    )  # fmt: skip

    answer = jobs.enqueue(world, request)

    assert answer.job == jobs.get(world, answer.id)


def test_a_job_is_due_now_unless_told_otherwise(world: World) -> None:
    assert jobs.enqueue(world, a_request()).job.run_at == NOON


def test_a_delay_counts_from_now(world: World) -> None:
    assert jobs.enqueue(world, a_request(delay=9 * SECOND)).job.run_at == NOON + 9 * SECOND


def test_a_past_time_is_taken_and_marked_late(world: World) -> None:
    """C-18."""
    assert jobs.enqueue(world, a_request(run_at=NOON - SECOND)).late


def test_a_strict_door_refuses_a_past_time(world: World) -> None:
    """S0-9."""
    with pytest.raises(PastDue):
        jobs.enqueue(world, a_request(run_at=NOON - 6 * SECOND, strict=True))


REFUSED: list[tuple[dict[str, Any], type[HoraeError]]] = [
    ({"payload": {"a": "\0"}}, InvalidPayload),
    ({"payload": {"a": "\ud800"}}, InvalidPayload),
    ({"payload": {"a": float("nan")}}, InvalidPayload),
    ({"payload": {"a": "x" * 1024 * 1024}}, InvalidPayload),
    ({"payload": {"a": Ellipsis}}, InvalidPayload),
    ({"handler": "no spaces"}, InvalidName),
    ({"handler": ""}, InvalidName),
    ({"queue": "line\nbreak"}, InvalidName),
    ({"owner": ""}, InvalidName),
    ({"key": ""}, InvalidName),
    ({"key": "x" * 256}, InvalidName),
    ({"key": "ends in space "}, InvalidName),
    ({"unique": "\0"}, InvalidName),
    ({"concurrency_key": "x" * 251}, InvalidName),
    ({"concurrency_limit": 0}, InvalidInput),
    ({"concurrency_limit": 2**40}, InvalidInput),
    ({"tags": ("\n",)}, InvalidName),
    ({"tags": tuple(map(str, range(51)))}, InvalidInput),
    ({"trace_id": "x" * 65}, InvalidName),
    ({"priority": "urgent"}, InvalidInput),
    ({"timeout": timedelta(0)}, InvalidInput),
    ({"run_at": datetime(2030, 1, 7)}, InvalidInput),  # noqa: DTZ001
    ({"run_at": NOON, "delay": SECOND}, InvalidInput),
    ({"object_type": "table", "object_id": "o", "action": "verify"}, InvalidInput),
    ({"object_type": "memory", "object_id": "o", "action": "explode"}, InvalidInput),
    ({"object_type": "memory", "action": "verify"}, InvalidInput),
]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [({"concurrency_limit": "5"}, "a whole number"), ({"concurrency_limit": 1.5}, "a whole number"),
     ({"concurrency_limit": True}, "a whole number"), ({"run_at": "2030-01-07T06:00:00Z"}, "an aware datetime"),
     ({"tags": "mail"}, "a list of texts"), ({"tags": 5}, "a list of texts"), ({"after": "job_1"}, "a list of texts")],
    ids=str,
)  # fmt: skip
def test_a_value_of_another_type_is_refused_by_its_name(world: World, wrong: dict[str, Any], expected: str) -> None:
    ((name, value),) = wrong.items()
    with refused(InvalidInput, "type_wrong", name=name, value=repr(value), expected=expected):
        jobs.enqueue(world, a_request(**wrong))
    assert stored(world) == 0


def test_true_is_no_span() -> None:
    with refused(InvalidInput, "span_unreadable", value="True"):
        Retry.fixed(True)
    with refused(InvalidInput, "span_unreadable", value="True"):
        time_limit(True)


@pytest.mark.parametrize("limit", ["5", 1.5, True], ids=repr)
def test_a_limit_that_is_no_whole_number_is_refused(world: World, limit: Any) -> None:
    with refused(InvalidInput, "limit_outside", value=repr(limit)):
        queues.limit_queue(world, "mail", limit)


@pytest.mark.parametrize(
    ("wrong", "error"), REFUSED, ids=lambda value: f"{value!s:.40}" if isinstance(value, dict) else ""
)
def test_what_cannot_be_kept_is_refused(world: World, wrong: dict[str, Any], error: type[HoraeError]) -> None:
    with pytest.raises(error):
        jobs.enqueue(world, a_request(**wrong))


def test_a_refused_request_leaves_nothing_of_its_batch(world: World) -> None:
    with pytest.raises(InvalidName):
        jobs.enqueue_many(world, [a_request(), a_request(queue="")])

    assert stored(world) == 0


@pytest.mark.slow
def test_a_million_levels_are_refused(world: World) -> None:
    value: Any = None
    for _ in range(1_000_000):
        value = [value]

    with pytest.raises(InvalidPayload):
        jobs.enqueue(world, a_request({"deep": value}))


def test_the_longest_delay_is_kept(world: World) -> None:
    assert jobs.enqueue(world, a_request(delay=timedelta.max)).job.run_at.year == 9999


def test_no_requests_are_no_trouble(world: World) -> None:
    assert jobs.enqueue_many(world, []) == []


# -- keys: S0-6, S0-8 --------------------------------------------------------------------------------------------------


def test_the_same_key_and_request_is_the_same_job(world: World, clock: VirtualClock) -> None:
    first = jobs.enqueue(world, a_request({"a": 1, "b": 2}, key="k"))
    clock.advance(60 * SECOND)

    again = jobs.enqueue(world, a_request({"a": 1, "b": 2}, key="k"))

    assert (again.job, again.deduplicated, first.deduplicated) == (first.job, True, False)


def test_the_order_of_names_in_a_payload_does_not_make_another_request(world: World) -> None:
    jobs.enqueue(world, a_request({"a": 1, "b": 2}, key="k"))

    assert jobs.enqueue(world, a_request({"b": 2, "a": 1}, key="k")).deduplicated


@pytest.mark.parametrize(
    "other", [{"payload": {"a": 2}}, {"handler": "h"}, {"queue": "q"}, {"priority": "low"}, {"delay": SECOND}], ids=str
)
def test_the_same_key_with_another_request_is_refused(world: World, other: dict[str, Any]) -> None:
    asked = {"payload": {"a": 1}, "key": "k"}
    jobs.enqueue(world, a_request(**asked))

    with pytest.raises(KeyConflict):
        jobs.enqueue(world, a_request(**(asked | other)))


def test_a_known_key_answers_with_the_finished_job(world: World) -> None:
    first = jobs.enqueue(world, a_request(key="k"))
    [job] = claims.pull(world, worker_id="w")
    endings.ack(world, job.id, job.token, result="done")

    again = jobs.enqueue(world, a_request(key="k"))

    assert (again.id, again.job.state, again.job.result) == (first.id, "succeeded", "done")


def governed(**fields: Any) -> Request:
    response = {"object_type": "memory", "object_id": "m1", "action": "verify", "run_at": NOON}
    return a_request(**(response | fields))


def test_a_governed_job_has_a_key_of_its_own_making(world: World) -> None:
    """S0-6: object, action and time, joined by colons."""
    assert jobs.enqueue(world, governed()).job.key == "m1:verify:2030-01-07T12:00:00Z"


def test_a_governed_job_is_never_queued_twice_for_one_time(world: World) -> None:
    """S0-8."""
    jobs.enqueue(world, governed())

    assert jobs.enqueue(world, governed()).deduplicated
    with pytest.raises(KeyConflict):
        jobs.enqueue(world, governed(priority="high"))


OLDER = "memory:m1:verify:2030-01-07T12:00:00Z"


def test_a_default_key_of_an_earlier_version_still_stands_for_its_request(world: World) -> None:
    """S0-8 across an upgrade: the type stood before the object then."""
    before = jobs.enqueue(world, governed(key=OLDER))

    again = jobs.enqueue(world, governed())

    assert (again.id, again.deduplicated) == (before.id, True)
    with pytest.raises(KeyConflict):
        jobs.enqueue(world, governed(priority="high"))
    assert not jobs.enqueue(world, governed(object_type="cognition")).deduplicated


@pytest.mark.parametrize("ended", [False, True])
def test_objects_of_two_types_that_share_an_id_are_two_jobs_however_often_they_are_asked_for(
    world: World, ended: bool
) -> None:
    """S0-6, S0-8: the document's key names no type, so the second one's key does."""
    first = jobs.enqueue(world, governed())
    if ended:
        [job] = claims.pull(world, worker_id="w")
        endings.ack(world, job.id, job.token)

    second = jobs.enqueue(world, governed(object_type="cognition"))

    assert not second.deduplicated
    assert second.job.key == "cognition:m1:verify:2030-01-07T12:00:00Z"
    assert jobs.get(world, second.id).key == second.job.key
    assert jobs.enqueue(world, governed(object_type="cognition")).id == second.id
    assert jobs.enqueue(world, governed()).id == first.id


def test_objects_of_two_types_in_one_call_are_two_jobs(world: World) -> None:
    asked = [governed(), governed(object_type="cognition"), governed(), governed(object_type="cognition")]

    placed = jobs.enqueue_many(world, asked)
    again = jobs.enqueue_many(world, asked)

    assert [each.deduplicated for each in placed] == [False, False, True, True]
    assert [each.number for each in again] == [each.number for each in placed]
    assert all(each.deduplicated for each in again)


def test_an_instant_is_the_same_in_any_zone(world: World) -> None:
    jobs.enqueue(world, a_request(run_at=NOON, key="k"))

    assert jobs.enqueue(world, a_request(run_at=NOON.astimezone(UTC), key="k")).deduplicated
