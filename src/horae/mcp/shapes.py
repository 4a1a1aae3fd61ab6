"""What the tools answer with. Each shape becomes the schema of its tool's structured output."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from horae.actions.lanes import Snapshot, shown
from horae.core.directives import Fact
from horae.core.fires import Schedule
from horae.core.instants import iso
from horae.core.lanes import Line, Task, TaskWait
from horae.core.payloads import decode
from horae.core.standing import described

UTC_ONLY = "UTC"


class TaskLine(BaseModel):
    """A task in a list: without its payload, context and result, which may be large."""

    id: str = Field(examples=["t12"])
    kind: str
    state: str
    priority: int
    goal: str | None = None
    note: str | None = None
    key: str | None = None
    start_at: str | None = None
    due_by: str | None = None


class TaskShape(TaskLine):
    """A whole task."""

    payload: Any = None
    context: Any = Field(None, description="What was handed over at its last safe point, unchanged.")
    turn: int = Field(description="The turn that the next safe_point, wait_for, task_done or task_fail answers.")
    result: Any = None
    reason: str | None = None
    cancel_requested: bool = False
    created_at: str | None = None
    expires_at: str | None = None


class WaitShape(BaseModel):
    """One key that a task waits for."""

    wait_id: int
    task_id: str
    key: str
    kind: str
    deadline: str
    intent: Any = None
    intent_hash: str | None = None


class View(BaseModel):
    """The agent's attention at one moment; all times are UTC."""

    lane: str
    driver: Literal["this server", "somebody else", "nobody"]
    focus: TaskLine | None
    stack: list[TaskLine] = Field(description="Interrupted tasks, the one that comes back first on top.")
    backlog: list[TaskLine] = Field(description="Ready tasks in the order in which they would be served.")
    waiting: list[TaskLine]
    waits: list[WaitShape]
    delayed: list[TaskLine] = Field(description="Tasks whose start has not come.")
    control: dict[str, Any] = Field(description="What an operator forbids just now.")
    at: str
    timezone: str = UTC_ONLY


class TaskAdded(BaseModel):
    task_id: str
    state: str
    created: bool = Field(description="False: the key was known, and this is the task that it made.")
    start_at: str | None
    durability: str
    timezone: str = UTC_ONLY


class TaskPage(BaseModel):
    tasks: list[TaskLine]
    next_cursor: str | None = Field(None, description="Hand it in as cursor for the next page; none: that was all.")


class TaskEnded(BaseModel):
    task_id: str
    state: str
    reason: str | None = None
    durability: str


class FactShape(BaseModel):
    """Something that happened; told once for each committed turn."""

    kind: str
    at: str
    data: dict[str, Any] = Field(description="What the event or the action said.")
    about: dict[str, Any] = Field(description="What it is: `key` and `event` of an event, `action` of an action.")


class SafePoint(BaseModel):
    """Whether to go on, and with what."""

    answer: Literal["continue", "yield", "idle"] = Field(
        description="continue: go on with the task. yield: stop working on the one you named; `task`, if any, has the "
        "focus now. idle: nothing to do before an event, a time or a new task."
    )
    reason: str | None = None
    task: TaskShape | None = None
    facts: list[FactShape] = Field(default_factory=list, description="What happened since its last turn.")
    timezone: str = UTC_ONLY


class Waiting(BaseModel):
    """A wait was opened; or what it waits for had come already."""

    task_id: str
    state: str
    wait_id: int | None
    wait_ids: list[int]
    deadline: str | None
    early: FactShape | None = Field(None, description="The event that was there already; safe_point hands it over.")
    durability: str
    timezone: str = UTC_ONLY


class Asked(BaseModel):
    """A question to a person. Only an operator can answer it."""

    task_id: str
    wait_id: int
    intent_hash: str
    deadline: str
    durability: str
    timezone: str = UTC_ONLY


class EventPosted(BaseModel):
    event: int
    state: str
    matched: str = Field(description='The task that it went to, or "kept" for whoever will wait for it, or "dropped".')
    is_new: bool
    durability: str


class ScheduleShape(BaseModel):
    schedule_id: str
    name: str | None
    kind: str
    expr: str
    timezone: str
    goal: str | None
    priority: int | None
    paused: bool
    ends_at: str | None
    max_runs: int | None
    next_run_at: str | None
    in_words: str


class ScheduleMade(BaseModel):
    schedule_id: str
    created: bool
    next_times: list[str] = Field(description="The next three runs, in words, in the schedule's own time zone.")
    timezone: str
    ends_at: str | None
    max_runs: int | None
    durable: bool
    durability: str


class ScheduleList(BaseModel):
    schedules: list[ScheduleShape]
    most: int = Field(description="How many there may be.")


class ScheduleChanged(BaseModel):
    schedule_id: str
    state: Literal["active", "paused", "deleted"]
    next_run_at: str | None = None
    timezone: str
    durability: str


class JournalRow(BaseModel):
    seq: int
    at: str
    cause: str
    task_id: str | None
    before: str | None
    after: str | None
    told: dict[str, Any]


class JournalPage(BaseModel):
    rows: list[JournalRow]
    last_seq: int = Field(description="Hand it in as since_seq to read on.")
    timezone: str = UTC_ONLY


class Confirmation(BaseModel):
    """What an agent wants to do and may not do before a person says so."""

    wait_id: int
    owner: str
    lane: str
    task_id: str
    action: str | None
    arguments: Any
    intent_hash: str | None
    asked_at: str
    deadline: str
    timezone: str = UTC_ONLY


class ConfirmationList(BaseModel):
    confirmations: list[Confirmation]


class Answered(BaseModel):
    wait_id: int
    outcome: Literal["approved", "denied", "too late", "already decided", "withdrawn"]
    decided_by: str | None
    durability: str


# -- from rows -----------------------------------------------------------------------------------------------------


def task_shape(task: Task) -> TaskShape:
    told = shown(task)
    payload = told["payload"]
    goal = payload.get("goal") if isinstance(payload, dict) else None
    known = {name: told[name] for name in TaskShape.model_fields if name in told and name != "turn"}
    return TaskShape(**known, goal=goal if isinstance(goal, str) else None, turn=task.turn + 1)


def task_line(task: Task) -> TaskLine:
    whole = task_shape(task)
    return TaskLine(**{name: getattr(whole, name) for name in TaskLine.model_fields})


def wait_shape(wait: TaskWait) -> WaitShape:
    return WaitShape(
        wait_id=wait.number,
        task_id=f"t{wait.task}",
        key=wait.key,
        kind=wait.kind,
        deadline=iso(wait.deadline),
        intent=None if wait.intent is None else decode(wait.intent),
        intent_hash=wait.intent_hash,
    )


def fact_shape(fact: Fact) -> FactShape:
    return FactShape(kind=fact.kind, at=iso(fact.at), data=dict(fact.data), about=dict(fact.about))


def view_of(snapshot: Snapshot, driver: str | None) -> View:
    lane, now = snapshot.lane, snapshot.at
    alive = lane.driver is not None and lane.leased_until is not None and lane.leased_until > now
    return View(
        lane=lane.name,
        driver="nobody" if not alive else "this server" if lane.driver == driver else "somebody else",
        focus=None if snapshot.focus is None else task_line(snapshot.focus),
        stack=_tasks(snapshot.stack),
        backlog=_tasks(snapshot.backlog),
        waiting=_tasks([task for task, _ in snapshot.waiting]),
        waits=[wait_shape(wait) for _, waits in snapshot.waiting for wait in waits],
        delayed=_tasks(snapshot.created),
        control=dict(snapshot.control),
        at=iso(now),
    )


def empty_view(lane: str, now: datetime) -> View:
    """A lane is made by its first task; until then there is nothing in it."""
    return View(
        lane=lane, driver="nobody", focus=None, stack=[], backlog=[], waiting=[], waits=[], delayed=[], control={},
        at=iso(now),
    )  # fmt: skip


def _tasks(tasks: Sequence[Task]) -> list[TaskLine]:
    return [task_line(task) for task in tasks]


def journal_row(line: Line) -> JournalRow:
    return JournalRow(
        seq=line.seq, at=iso(line.at), cause=line.cause, task_id=None if line.task is None else f"t{line.task}",
        before=line.before, after=line.after, told=dict(line.told),
    )  # fmt: skip


def schedule_shape(schedule: Schedule) -> ScheduleShape:
    inside = schedule.payload.get("payload")
    return ScheduleShape(
        schedule_id=schedule.key,
        name=schedule.title,
        kind="interval" if schedule.kind == "every" else schedule.kind,
        expr=schedule.expression,
        timezone=schedule.zone,
        goal=inside.get("goal") if isinstance(inside, dict) else None,
        priority=schedule.payload.get("priority"),
        paused=schedule.paused_at is not None,
        ends_at=None if schedule.ends_at is None else iso(schedule.ends_at),
        max_runs=schedule.max_fires,
        next_run_at=None if schedule.next_fire_at is None else iso(schedule.next_fire_at),
        in_words=described(schedule),
    )
