"""JSON that users make, through all four senders: stored as it is or refused, and never made into something else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from horae import Retry
from horae.actions.jobs.held_jobs import Ending
from horae.actions.jobs.requests import Request
from horae.api.jobs.room import Job
from horae.errors import InvalidPayload
from tests.api.conftest import Sent
from tests.support.refusals import refused

names = (f"free{number}" for number in count())
TASK = {"schedule_type": "cron", "schedule_expr": "0 7 * * *", "timezone": "UTC", "handler": "dispatch"}
Send = Callable[[Any, Job, Any], Any]
# What takes free JSON: the name of the operation, how it is called as a tenant, and what its field is called.
DOORS: dict[str, tuple[Send, str]] = {
    "jobs.enqueue": (lambda r, _, v: r.jobs.enqueue("dispatch", v), "payload"),
    "jobs.enqueue_many": (lambda r, _, v: r.jobs.enqueue_many([Request("dispatch", v)]), "payload"),
    "jobs.progress": (lambda r, job, v: r.jobs.progress(job.id, job.token, v), "progress"),
    "jobs.progress, checkpoint": (lambda r, job, v: r.jobs.progress(job.id, job.token, checkpoint=v), "checkpoint"),
    "jobs.ack": (lambda r, job, v: r.jobs.ack(job.id, job.token, result=v), "result"),
    "jobs.settle": (lambda r, job, v: r.jobs.settle([Ending(job.id, job.token, "succeeded", result=v)]), "result"),
    "batches.create": (lambda r, _, v: r.batches.create([Request("dispatch", v)]), "payload"),
    "batches.create, callback": (
        lambda r, _, v: r.batches.create([Request("dispatch")], on_end=Request("dispatch", v)), "payload"
    ),
    "attention.add": (lambda r, _, v: r.attention.add("lane", "kind", v), "payload"),
    "attention.post": (lambda r, _, v: r.attention.post("lane", "key", v), "event data"),
    "scheduled_tasks.create": (lambda r, _, v: r.scheduled_tasks.create(**TASK, payload=v), "payload"),
}  # fmt: skip
deep: list[Any] = []
for _ in range(120):
    deep = [deep]
UNFIT: dict[str, tuple[Any, str]] = {
    "two keys of one text": ({1: 2, "1": 3}, "key_not_text"),
    "no key": ({"in": {None: 1}}, "key_not_text"),
    "a set": ({"in": {1}}, "not_json"),
    "a span": ({"in": timedelta(1)}, "not_json"),
    "an instant": ({"in": datetime(2030, 1, 1, tzinfo=UTC)}, "not_json"),
    "a value": ({"in": Retry(attempts=2)}, "not_json"),
    "bytes": ({"in": b"x"}, "not_json"),
    "no number": ({"in": float("nan")}, "not_json"),
    "half a character": ({"in": "\ud800"}, "lone_surrogate"),
    "a NUL": ({"in": "a\x00"}, "nul_character"),
    "too deep": ({"in": deep}, "too_deep"),
}


@pytest.fixture
def job(rooms: Sent) -> Job:
    """A running job of the tenant's."""
    queue = next(names)
    rooms.alice.jobs.enqueue("dispatch", queue=queue)
    held: Job = rooms.alice.jobs.claim("w", queues=[queue])[0]
    return held


@pytest.mark.parametrize("door", DOORS)
def test_free_json_that_cannot_be_stored_is_refused_and_never_converted(rooms: Sent, job: Job, door: str) -> None:
    send, what = DOORS[door]
    for value, reason in UNFIT.values():
        with refused(InvalidPayload, reason, what=what):
            send(rooms.alice, job, value)


def test_the_payload_of_a_schedule_is_refused_alike(rooms: Sent) -> None:
    schedules, key = rooms.house.schedules, next(names)
    schedules.create(key, handler="dispatch", every=3600)
    for value, reason in UNFIT.values():
        with refused(InvalidPayload, reason, what="payload"):
            schedules.create(next(names), handler="dispatch", every=3600, payload=value)
        with refused(InvalidPayload, reason, what="payload"):
            schedules.change(key, payload=value)
        with refused(InvalidPayload, reason, what="payload"):
            schedules.trigger(key, value)
    assert schedules.get(key).payload == {}


def test_the_payload_of_a_job_that_is_run_again_is_refused_alike(rooms: Sent, job: Job) -> None:
    rooms.alice.jobs.ack(job.id, job.token)
    for value, reason in UNFIT.values():
        with refused(InvalidPayload, reason, what="payload"):
            rooms.alice.jobs.rerun(job.id, payload=value)


def test_the_result_of_a_step_is_refused_alike(rooms: Sent, job: Job) -> None:
    for value, _ in UNFIT.values():
        with refused(InvalidPayload, "step_not_storable", step="charge"):
            rooms.alice.jobs.keep_step(job.id, job.token, "charge", value)
    assert not rooms.alice.jobs.recall_step(job.id, job.token, "charge").kept


def test_the_payload_of_a_task_that_is_run_by_hand_is_refused_alike(rooms: Sent) -> None:
    made = rooms.alice.scheduled_tasks.create(**TASK, payload={"text": "hi"})
    for value, reason in UNFIT.values():
        with refused(InvalidPayload, reason, what="payload"):
            rooms.alice.scheduled_tasks.change(made.id, payload=value)
        with refused(InvalidPayload, reason, what="payload"):
            rooms.alice.scheduled_tasks.trigger(made.id, value)


@pytest.mark.parametrize("value", [{}, [], "x", 5, 1.5, True, {"a": [1, {"b": None}]}, {"é": "\u2028"}], ids=str)
def test_free_json_is_kept_as_it_was_given(rooms: Sent, value: Any) -> None:
    made = rooms.alice.jobs.enqueue("dispatch", value, queue=next(names))
    assert rooms.alice.jobs.get(made.id).payload == value
