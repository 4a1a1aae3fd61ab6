"""The ends of tasks: cancelled, killed or failed; who hears of them, and what becomes of the children."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.actions.attention.lanes import LaneWriter, in_lane
from horae.actions.attention.waits import close_wait, close_waits, wake
from horae.actions.jobs.jobs import truncate
from horae.core.attention.facts import AWAITED
from horae.core.attention.lanes import Task, TaskWait
from horae.core.attention.numbers import task_name, task_number
from horae.core.attention.task import FINAL, Policy
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import decode, true_or_false
from horae.errors import NotFound
from horae.ports.world import World

MAX_REASON = 2000
OF_TASK = "task:"  # how the keys of waits for tasks begin


def cancel(
    world: World,
    lane: str,
    task_id: str,
    *,
    reason: str = "",
    graceful: bool = False,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    policy: Policy | None = None,
) -> Task:
    """End a task: at once unless it runs; the focus ends at its next safe point. Cancelling twice is no mistake."""
    number, how, reason = task_number(task_id), policy or Policy(), truncate(reason, MAX_REASON)
    true_or_false(graceful, "graceful")

    def write(writer: LaneWriter) -> Task:
        task = task_of_lane(writer, number)
        if task.state in FINAL:
            if task.state != "cancelled":
                writer.line("cancel_too_late", task, by=actor)
            return task
        return end_or_ask(writer, task, reason, by=actor, clean_up=how.clean_up_steps if graceful else None)

    return in_lane(world, lane, owner, write)


def end_or_ask(writer: LaneWriter, task: Task, reason: str, *, by: str, clean_up: int | None = None) -> Task:
    """Cancel a live task at once, or, where it has the focus, ask it to end at its next safe point."""
    if task.state != "running":
        return end_cancelled(writer, task, reason or f"by {by}", by=by)
    graceful = clean_up is not None
    if task.cancel_requested and (graceful or task.clean_up is None):
        return task
    asked = replace(task, cancel_requested=True, clean_up=clean_up, reason=reason or f"by {by}")
    if graceful:
        writer.fact(task, "cancel_requested", {"by": by, "reason": reason or None})
    writer.save(task, asked)
    writer.line("cancel_requested", asked, by=by, reason=reason or None, graceful=graceful)
    return asked


def end_cancelled(writer: LaneWriter, task: Task, reason: str | None, *, by: str | None = None) -> Task:
    """End a task as cancelled and drop its waits and planned jobs (T3, T5, T11, T13, T15).

    At a safe point *by* is left out: the journal names the actor since the request.
    """
    close_waits(writer, task, "cancelled")
    writer.forget(task.start_job)
    writer.forget(task.deadline_job)
    return writer.move(
        task, "cancelled", "cancelled", {"reason": reason, "by": by}, reason=reason, stack_index=None, intent=None,
        effect=None, holds=False, held_since=None, start_job=None, deadline_job=None,
    )  # fmt: skip


def kill(world: World, lane: str, task_id: str, *, reason: str, owner: str = SYSTEM, actor: str = SYSTEM) -> Task:
    """End the focus without waiting for a safe point: its driver loses the lane, and its open step is unknown."""
    number = task_number(task_id)

    def write(writer: LaneWriter) -> Task:
        task = task_of_lane(writer, number)
        if task.state in FINAL:
            return task
        if task.state == "running":
            writer.lane = replace(writer.lane, epoch=writer.lane.epoch + 1, driver=None, leased_until=None)
            if task.phase == "act":
                intent = decode(task.intent or "{}")
                writer.fact(
                    task, "action_unknown", {}, action=intent.get("action"), key=intent.get("key"), step=task.step
                )
        return end_cancelled(writer, task, truncate(reason, MAX_REASON) or f"killed by {actor}", by=actor)

    return in_lane(world, lane, owner, write)


def fail(writer: LaneWriter, task: Task, reason: str, **changes: Any) -> Task:
    """End a running task as failed (T10)."""
    writer.forget(task.deadline_job)
    gone: dict[str, Any] = {
        "intent": None, "effect": None, "holds": False, "held_since": None, "deadline_job": None, "charged": None
    }  # fmt: skip
    return writer.move(task, "failed", "failed", {"reason": reason}, reason=reason, **gone | changes)


# -- those who wait for a task -------------------------------------------------------------------------------------


def report_end(writer: LaneWriter, ended: Task) -> None:
    """Tell the parent and every task that waits for it that a task has ended; end the children that it leaves."""
    for wait in writer.tx.attention.open_waits_for(writer.lane.number, f"{OF_TASK}{ended.id}"):
        if wait.kind in ("task", "tasks"):
            resolve_by_end(writer, wait, ended)
    parent = None if ended.parent is None else writer.tx.attention.task(ended.parent)
    if parent is not None and parent.state not in FINAL and not _has_heard(writer, parent, ended):
        tell_end(writer, parent, ended)
        writer.line("task_ended", parent, ended=ended.id)
    for child in writer.tx.attention.children(ended.number):
        end_or_ask(writer, child, f"its parent {ended.id} has ended", by=f"task/{ended.id}")


def resolve_by_end(writer: LaneWriter, wait: TaskWait, ended: Task) -> None:
    """Close a wait for a task that has ended; wake the one who waits unless it still waits for others."""
    task = writer.tx.attention.task(wait.task)
    assert task is not None
    tell_end(writer, task, ended, came=AWAITED)
    others = [each for each in writer.tx.attention.waits_of(task.number) if each.number != wait.number]
    if wait.kind == "tasks" and others:
        close_wait(writer, wait, "event")
        writer.line("task_ended", task, ended=ended.id, wait=wait.number)
        return
    wake(writer, task, wait, "event")


def tell_end(writer: LaneWriter, task: Task, ended: Task, **about: Any) -> None:
    """Tell a task how another one ended."""
    result = None if ended.result is None else decode(ended.result)
    how = {"task": ended.id, "kind": ended.kind, "state": ended.state, "result": result, "reason": ended.reason}
    writer.fact(task, "task_ended", how, **about)


def _has_heard(writer: LaneWriter, task: Task, ended: Task) -> bool:
    """Return whether a wait of this task for that one is over by its end."""
    found = writer.tx.attention.last_wait_for(writer.lane.number, f"{OF_TASK}{ended.id}")
    return found is not None and found.task == task.number and found.state == "event"


def task_of_lane(writer: LaneWriter, number: int) -> Task:
    found = writer.tx.attention.task(number)
    if found is None or found.lane != writer.lane.number:
        raise NotFound("task_unknown", id=task_name(number), lane=writer.lane.name)
    return found
