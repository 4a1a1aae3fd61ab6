"""Tasks on their way into a lane: added by a caller, admitted when they start, reminded of their deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.attention.lanes import LaneWriter, in_known_lane, in_lane
from horae.actions.attention.waits import time_out, wake
from horae.core.attention.lanes import Task
from horae.core.attention.numbers import is_number
from horae.core.attention.task import FINAL, NORMAL, base_priority
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import DEADLINE, HANDLERS, START, TIMEOUT
from horae.core.jobs.payloads import encode, label, name
from horae.core.time.instants import aware, iso, later
from horae.errors import Conflict, InvalidInput, NotFound, QuotaExceeded
from horae.ports.world import World


@dataclass(frozen=True, slots=True)
class Added:
    """The task that now stands for a request; ``created`` is false when its key was known."""

    task: Task
    created: bool


def add(
    world: World,
    lane: str,
    kind: str,
    payload: Any = None,
    *,
    priority: int = NORMAL,
    key: str | None = None,
    start_at: datetime | None = None,
    delay: timedelta | None = None,
    due_by: datetime | None = None,
    expires_at: datetime | None = None,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    most: int = 0,
) -> Added:
    """Add a task to a lane; where the lane has a task with the same key, return that one.

    A lane with *most* tasks that have not ended takes no further one; 0 means no limit.
    """
    if start_at is not None and delay is not None:
        raise InvalidInput("start_at_and_delay")
    now = world.clock.now()
    begin = later(now, delay) if delay is not None else None if start_at is None else aware(start_at, "start_at")
    wanted = Task(
        number=0,
        lane=0,
        kind=name(kind, "kind of task"),
        state="created",
        base=base_priority(priority),
        payload=encode({} if payload is None else payload, max_bytes=world.max_payload_bytes),
        key=None if key is None else label(key, "key"),
        created_at=now,
        start_at=begin,
        due_by=None if due_by is None else aware(due_by, "due_by"),
        expires_at=None if expires_at is None else aware(expires_at, "expires_at"),
    )
    return in_lane(world, lane, owner, lambda writer: put(writer, wanted, actor, most))


def put(writer: LaneWriter, wanted: Task, actor: str, most: int = 0) -> Added:
    """Create a task (T1), and admit it at once unless it starts later (T2)."""
    lane = writer.lane.number
    known = None if wanted.key is None else writer.tx.attention.task_by_key(lane, wanted.key)
    if known is not None:
        if (known.kind, known.payload) != (wanted.kind, wanted.payload):
            raise Conflict("task_key_taken", key=wanted.key, id=known.id)
        return Added(known, created=False)
    if most and writer.tx.attention.count_live(lane) >= most:
        raise QuotaExceeded("tasks", most, "too_many_live_tasks")
    task = writer.add(replace(wanted, lane=lane, created_at=writer.now))
    planned = task
    if task.start_at is not None and task.start_at > writer.now:
        planned = replace(
            planned, start_job=writer.plan(START, task.start_at, f"start:{task.number}", task=task.number)
        )
    if task.due_by is not None:
        due = writer.plan(DEADLINE, task.due_by, f"deadline:{task.number}", task=task.number)
        planned = replace(planned, deadline_job=due)
    task = writer.save(task, planned)
    writer.fact(task, "started", {"at": iso(writer.now)})
    writer.line("added", task, after="created", by=actor)
    return Added(task if task.start_job is not None else admit(writer, task), created=True)


def admit(writer: LaneWriter, task: Task) -> Task:
    """Move a created task to ready (T2)."""
    return writer.move(task, "admitted", "admitted", ready_since=writer.now, start_job=None)


def start(world: World, lane: int, task: int) -> datetime | None:
    """Admit a delayed task; return its start where by this clock that has not come."""

    def write(writer: LaneWriter) -> datetime | None:
        found = writer.tx.attention.task(task)
        if found is None or found.lane != lane or found.state != "created":
            return None
        if found.start_at is not None and writer.now < found.start_at:
            return found.start_at
        admit(writer, found)
        return None

    return in_known_lane(world, lane, write)


def pass_deadline(world: World, lane: int, task: int) -> datetime | None:
    """Report a task's deadline to its cognition, and wake the task where it waits; return a deadline still to come."""

    def write(writer: LaneWriter) -> datetime | None:
        found = writer.tx.attention.task(task)
        if found is None or found.lane != lane or found.state in FINAL or found.due_by is None:
            return None
        if found.deadline_job is None:  # reported already, by a job that died before it ended
            return None
        if writer.now < found.due_by:
            return found.due_by
        writer.fact(found, "deadline_passed", {"due_by": iso(found.due_by)})
        found = writer.save(found, replace(found, deadline_job=None))
        waits = writer.tx.attention.waits_of(found.number)
        if found.state == "waiting" and waits and not any(each.kind == "confirm" for each in waits):
            wake(writer, found, waits[0], "cancelled")
        else:
            writer.line("deadline_passed", found)
        return None

    return in_known_lane(world, lane, write)


# -- what comes due --------------------------------------------------------------------------------------------------


def come_due(world: World, handler: str, payload: Any, *, owner: str) -> datetime | None:
    """Run one of Horae's own jobs; return the instant to run it again at, where by this clock it is not due.

    Any caller can enqueue a job that looks like one of them, so a job whose owner is not the lane's is refused.
    """
    fields = payload if isinstance(payload, Mapping) else {}
    lane, number = fields.get("lane"), fields.get("wait" if handler == TIMEOUT else "task")
    if handler not in HANDLERS or not (is_number(lane) and is_number(number)):
        raise InvalidInput("not_a_lane_job", handler=handler)
    here = world.route(owner=owner)
    found = world.route(owner=owner).store.read(lambda tx: tx.attention.lane_by_number(lane))
    if found is None or found.owner != owner:
        raise NotFound("lane_unknown", lane=str(lane))
    if handler == TIMEOUT:
        return time_out(here, lane, number)
    return start(here, lane, number) if handler == START else pass_deadline(here, lane, number)
