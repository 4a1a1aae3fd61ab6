"""Every operation of queues, limits and workers, through all four senders."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from horae.api import queues as room
from horae.api.jobs.held import Heartbeat
from horae.api.queues import Queue, QueueDetail, RunningLimit, Worker
from horae.errors import Forbidden, InvalidInput, NotAllowed, NotFound
from horae.ports.queues import Queue as StoredQueue
from horae.testing.clock import NOON
from tests.api.conftest import Sent
from tests.support.refusals import refused

names = (f"line{number}" for number in count())


@pytest.fixture
def name() -> str:
    """A queue of this test alone."""
    return next(names)


def test_a_queue_is_paused_and_resumed(rooms: Sent, name: str) -> None:
    rooms.house.jobs.enqueue("a", queue=name)
    paused = rooms.house.queues.pause(name, reason="mending")
    seen = rooms.house.queues.get(name)
    resumed = rooms.house.queues.resume(name)

    assert isinstance(paused, Queue)
    assert (paused.pause_reason, resumed.paused_at, resumed.pause_reason) == ("mending", None, None)
    assert isinstance(seen, QueueDetail)
    assert (seen.name, seen.jobs["queued"], seen.paused_at) == (name, 1, paused.paused_at)
    assert name in [each.name for each in rooms.house.queues.list()]
    assert "horae" not in [each.name for each in rooms.house.queues.list()]
    assert "horae" in [each.name for each in rooms.house.queues.list(machinery=True)]


def test_a_queue_is_limited_and_ordered(rooms: Sent, name: str) -> None:
    limited = rooms.house.queues.limit(name, 2, reason="slow disk")
    ordered = rooms.house.queues.order(name, "run_at")
    lifted = rooms.house.queues.limit(name, None)

    assert (limited.max_running, ordered.order, lifted.max_running) == (2, "run_at", None)
    with refused(InvalidInput, "queue_limit_too_low"):
        rooms.house.queues.limit(name, 0)
    with refused(InvalidInput, "choice_unknown"):
        rooms.house.queues.order(name, "alphabet")
    with refused(NotFound, "queue_unknown"):
        rooms.house.queues.get(f"{name}-never")
    with refused(NotAllowed, "queue_reserved"):
        rooms.house.queues.pause("horae")


def test_a_limit_is_set_and_forgotten(rooms: Sent, name: str) -> None:
    limit = rooms.house.limits.set(f"group:{name}", 3, reason="slow disk")
    listed = {each.name: each for each in rooms.house.limits.list()}
    gone = rooms.house.limits.reset(f"group:{name}")

    assert isinstance(limit, RunningLimit)
    assert (limit.max_running, limit.source, limit.running) == (3, "api", 0)
    assert listed[f"group:{name}"] == limit
    assert limit.decisive is not None
    assert (limit.decisive.app, gone.max_running, gone.decisive) == (None, None, None)
    with refused(InvalidInput, "limit_scope_unknown"):
        rooms.house.limits.set("somewhere", 3)


def test_tenants_change_no_queue_and_see_no_worker(rooms: Sent, name: str) -> None:
    for act in (rooms.alice.queues.pause, rooms.alice.queues.resume):
        with refused(Forbidden, "scope_missing"):
            act(name)
    with refused(Forbidden, "scope_missing"):
        rooms.alice.limits.set("global", 1)
    assert rooms.house.workers.list() == ()


def test_a_worker_is_looked_at_drained_and_resumed(rooms: Sent, name: str) -> None:
    beat = Heartbeat(
        id=f"w:{name}", host="h", pid=7, version="1", started_at=NOON, queues={name: 2, f"{name}-b": 1},
        release="2030.1", busy={name: 1}, loop_lag=timedelta(milliseconds=250), memory=4096,
    )  # fmt: skip
    rooms.house.jobs.peek([name], worker=beat)

    seen = rooms.house.workers.get(beat.id)
    drained = rooms.house.workers.drain(beat.id, leave=True, reason="repairs")
    told = rooms.house.jobs.peek([name], node_id=beat.id)
    hers = rooms.alice.jobs.peek([name], node_id=beat.id)
    rooms.house.jobs.peek([], worker=replace(beat, state="drained", busy={}))
    idle = rooms.house.workers.get(beat.id)
    resumed = rooms.house.workers.resume(beat.id)
    rooms.house.jobs.peek([], worker=replace(beat, state="ended"))

    assert isinstance(seen, Worker)
    assert (seen.state, seen.slots, seen.running, seen.busy) == ("running", 3, 1, {name: 1})
    assert (seen.loop_lag, seen.memory, seen.release) == (timedelta(milliseconds=250), 4096, "2030.1")
    assert (drained.state, drained.drain, drained.drain_reason) == ("draining", "leave", "repairs")
    assert (told.drain, hers.drain) == ("leave", None)
    assert (idle.state, idle.running) == ("drained", 0)
    assert resumed.drain is None
    with refused(NotFound, "worker_unknown"):
        rooms.house.workers.drain(beat.id)
    for act in (rooms.alice.workers.drain, rooms.alice.workers.resume):
        with refused(Forbidden, "scope_missing"):
            act("w")


@pytest.mark.parametrize("wrong", [{"busy": {"a": -1}}, {"loop_lag": timedelta(seconds=-1)}, {"memory": 2**61}])
def test_figures_that_no_worker_can_have_are_refused(rooms: Sent, name: str, wrong: dict[str, Any]) -> None:
    beat = Heartbeat(id=f"w:{name}", host="h", pid=7, version="1", started_at=NOON, **wrong)
    with refused(InvalidInput, "out_of_range"):
        rooms.house.jobs.peek([], worker=beat)


def test_every_stored_field_of_a_queue_is_public() -> None:
    answered = {"incomplete", "databases"}  # about the databases that were asked, not about the queue
    assert {each.name for each in fields(StoredQueue)} | answered == {each.name for each in fields(room.Queue)}
