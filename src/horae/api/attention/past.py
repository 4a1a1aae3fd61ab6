"""A lane as of a line of its journal, sorted as people see lanes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from horae.api.attention.values import PastLane, Task, Wait, WaitingTask
from horae.core.attention.numbers import task_name
from horae.core.attention.task import Policy, Weighed, in_order
from horae.core.dataclass import dataclass
from horae.core.time.instants import from_iso

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PastView:
    """A lane as it was after a line of its journal; contexts and payloads are known by their digests only."""

    seq: int
    at: datetime
    focus: Task | None
    stack: tuple[Task, ...]
    backlog: tuple[Task, ...]
    waiting: tuple[WaitingTask, ...]
    created: tuple[Task, ...]
    ended: tuple[Task, ...]


def view_after(past: PastLane, at: datetime) -> PastView:
    """Sort the rows of a past lane into focus, stack, backlog and waits."""
    rows = list(past.tasks.values())
    tasks = {row["number"]: _task(row) for row in rows}
    weighed = [
        Weighed(row["number"], "ready", row["base"], _at(row["ready_since"]), _at(row["due_by"]))
        for row in rows
        if row["state"] == "ready"
    ]

    def of(*states: str) -> tuple[Task, ...]:
        return tuple(task for state in states for task in tasks.values() if task.state == state)

    interrupted = sorted((row for row in rows if row["state"] == "suspended"), key=lambda row: -row["place"])
    return PastView(
        seq=past.seq,
        at=at,
        focus=next(iter(of("running")), None),
        stack=tuple(tasks[row["number"]] for row in interrupted),
        backlog=tuple(tasks[each.number] for each in in_order(weighed, at, Policy())),
        waiting=tuple(WaitingTask(task=task, waits=_open_waits(past, task)) for task in of("waiting")),
        created=of("created"),
        ended=of("completed", "failed", "cancelled"),
    )


def _task(row: Row) -> Task:
    kept = ("kind", "state", "phase", "key", "turn", "step", "reason", "cancel_requested")
    moments = ("created_at", "start_at", "ready_since", "due_by", "expires_at")
    same: Row = {name: row[name] for name in kept} | {name: _at(row[name]) for name in moments}
    parent = row.get("parent")  # a journal of before does not know it
    above = None if parent is None else task_name(parent)
    return Task(id=task_name(row["number"]), priority=row["base"], parent=above, **same)


def _open_waits(past: PastLane, task: Task) -> tuple[Wait, ...]:
    own = (row for row in past.waits.values() if row["state"] == "open" and task_name(row["task"]) == task.id)
    return tuple(
        Wait(
            id=row["number"], task=task.id, key=row["key"], kind=row["kind"], state=row["state"],
            deadline=from_iso(row["deadline"]), opened_at=from_iso(row["opened_at"]), intent_hash=row["intent_hash"],
        )
        for row in own
    )  # fmt: skip


def _at(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)
