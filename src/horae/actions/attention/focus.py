"""The focus of a lane: which task gets it, and whether it keeps it between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from horae.actions.attention.inbox import end_cancelled
from horae.actions.attention.lanes import LaneWriter
from horae.actions.attention.waits import close_event
from horae.core.attention.lanes import Task
from horae.core.attention.task import Control, Policy, SafePoint, at_safe_point, choose
from horae.core.time.instants import iso

EXPIRED_BATCH = 100
STARVED = 5  # how many of the tasks that waited longest are checked
MAX_MEANWHILE = 50  # lines of the journal that a resumed task is given


def expire_old(writer: LaneWriter, policy: Policy) -> list[Task]:
    """Cancel expired tasks that have not begun, close expired events, and return the live tasks that stay."""
    stay: list[Task] = []
    for task in writer.tx.attention.live_tasks(writer.lane.number):
        if task.state in ("created", "ready") and task.expires_at is not None and task.expires_at <= writer.now:
            end_cancelled(writer, task, "expired")
        else:
            stay.append(task)
    for event in writer.tx.attention.pending_events(writer.lane.number, limit=EXPIRED_BATCH):
        if event.posted_at + policy.keep_events > writer.now:
            break
        close_event(writer, event, "expired", reason="nobody waited for it")
        writer.line("event_expired", None, event=event.number, key=event.key)
    return stay


def dispatch(writer: LaneWriter, live: Sequence[Task], control: Control, policy: Policy) -> Task | None:
    """Give the focus to the task that is next, after resuming it where it comes from the stack (T4, T14)."""
    known = [task.weighed for task in live if writer.lane.knows(task)]
    chosen = choose(known, writer.now, control, policy)
    if chosen is None:
        return None
    note_starved(writer, [task for task in live if task.number != chosen.number], policy)
    task = next(task for task in live if task.number == chosen.number)
    if chosen.resumes:
        writer.fact(task, "resumed", {"note": task.note, "meanwhile": meanwhile(writer, task)})
        task = writer.move(task, "resumed", "resumed", place=None, ready_since=writer.now)
    return writer.move(task, "focused", "focused", phase="think")


def note_starved(writer: LaneWriter, tasks: Sequence[Task], policy: Policy) -> None:
    """Note in the journal, once, each ready task that has waited too long: by design stronger ones go first."""
    ready = [(task.ready_since, task) for task in tasks if task.state == "ready" and task.ready_since is not None]
    for since, task in sorted(ready, key=lambda each: each[0])[:STARVED]:
        if writer.now - since >= policy.starved_after:
            lines = writer.tx.attention.lines(writer.lane.number, limit=1000, task=task.number)
            if not any(line.cause == "starved" and line.at >= since for line in lines):
                writer.line("starved", task, since=iso(since))


def meanwhile(writer: LaneWriter, task: Task) -> list[dict[str, Any]]:
    """List what became of other tasks since this one was suspended."""
    since = max(0, writer.lane.seq - 1000)
    lines = writer.tx.attention.lines(writer.lane.number, since=since, limit=1000)
    left = max((line.seq for line in lines if line.task == task.number and line.after == "suspended"), default=0)
    others = [line for line in lines if line.seq > left and line.task != task.number and line.after is not None]
    return [{"at": iso(line.at), "task": f"t{line.task}", "became": line.after} for line in others[-MAX_MEANWHILE:]]


def safe_point(writer: LaneWriter, focus: Task, live: Sequence[Task], control: Control, policy: Policy) -> Task | None:
    """Decide between two steps whether the focus goes on, ends or gives way; None when the focus is free."""
    if focus.held_since is not None and focus.holds and writer.now - focus.held_since > policy.longest_hold:
        writer.fact(focus, "hold_exceeded", {"since": iso(focus.held_since)})
        focus = writer.save(focus, replace(focus, held_since=None))
        writer.line("hold_exceeded", focus)
    if must_end(focus):
        end_cancelled(writer, focus, focus.reason)
        return None
    verdict = at_safe_point(focus.weighed, writer.lane.rivals(live), control, policy)
    if verdict.verdict != "cancel" and not writer.lane.knows(focus):
        verdict = SafePoint("unknown kind")
    if verdict.verdict == "cancel":
        end_cancelled(writer, focus, focus.reason)
        return None
    if verdict.verdict == "go on":
        return focus
    stack_index = max((task.place or 0 for task in live if task.state == "suspended"), default=-1) + 1
    by = None if verdict.by is None else f"t{verdict.by}"
    cause = {"by": by, "why": verdict.verdict}
    writer.fact(focus, "interrupted", cause)
    writer.move(
        focus, "interrupted", "interrupted", cause, place=stack_index, holds=False, held_since=None, phase="gap"
    )
    if verdict.by is None:
        return None
    rival = next(task for task in live if task.number == verdict.by)
    return writer.move(rival, "focused", "focused", phase="think")


def must_end(task: Task) -> bool:
    """Return whether a cancelled task has no step left: none was granted for cleaning up, or all are used."""
    return task.cancel_requested and not task.clean_up
