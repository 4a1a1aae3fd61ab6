"""The focus of a lane: which task gets it, and whether it keeps it between two steps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from horae.actions.attention.endings import end_cancelled
from horae.actions.attention.lanes import LaneWriter
from horae.actions.attention.waits import close_event
from horae.core.attention.lanes import Lane, Task
from horae.core.attention.numbers import task_name
from horae.core.attention.task import Control, Policy, SafePoint, at_safe_point, choose, weight
from horae.core.time.instants import iso
from horae.ports.store import Tx

EXPIRED_BATCH = 100  # what has expired and is not ended yet is not offered either
STARVED = 5  # how many of the tasks that waited longest are checked
FAR = datetime(9999, 1, 1, tzinfo=UTC)
MAX_MEANWHILE = 50  # lines of the journal that a resumed task is given


def expire_old(writer: LaneWriter, policy: Policy) -> None:
    """Cancel expired tasks that have not begun, and close expired events."""
    for task in writer.tx.attention.expired(writer.lane.number, writer.now, limit=EXPIRED_BATCH):
        end_cancelled(writer, task, "expired")
    for event in writer.tx.attention.pending_events(writer.lane.number, limit=EXPIRED_BATCH):
        if event.posted_at + policy.keep_events > writer.now:
            break
        close_event(writer, event, "expired", reason="no task waited for it")
        writer.line("event_expired", None, event=event.number, key=event.key)


def contenders(tx: Tx, lane: Lane, now: datetime, policy: Policy) -> list[Task]:
    """Return the ready tasks among which :func:`choose` finds the same one as among all: a few, however many there are.

    Of each priority the one that is ready longest, for it has gained most by waiting, and the earliest deadline among
    those that have gained as much. A priority that waiting cannot lift to the best so far is left out.
    """
    found: list[Task] = []
    best, below = 0, 100
    while (oldest := tx.attention.next_ready(lane.number, now, kinds=lane.known_kinds, below=below)) is not None:
        if found and oldest.base + policy.aging_cap < best:
            break
        reached = weight(oldest.weighed, now, policy)
        since = now - (reached - oldest.base) * policy.aging_every if reached > oldest.base else FAR
        due = tx.attention.first_due(lane.number, oldest.base, now, since=since, kinds=lane.known_kinds)
        found += [oldest, *([] if due is None else [due])]
        best, below = max(best, reached), oldest.base
    return found


def strongest_rival(tx: Tx, lane: Lane, now: datetime) -> list[Task]:
    """Return the ready task that may interrupt, if there is a ready one at all."""
    found = tx.attention.next_ready(lane.number, now, kinds=lane.known_kinds)
    return [] if found is None else [found]


def dispatch(writer: LaneWriter, control: Control, policy: Policy) -> Task | None:
    """Give the focus to the task that is next, after resuming it where it comes from the stack (T4, T14)."""
    if not control.auto_continue:
        return None
    live = [task for task in writer.tx.attention.suspended(writer.lane.number) if writer.lane.knows(task)]
    live += (
        strongest_rival(writer.tx, writer.lane, writer.now)
        if live
        else contenders(writer.tx, writer.lane, writer.now, policy)
    )
    chosen = choose([task.weighed for task in live], writer.now, control, policy)
    if chosen is None:
        return None
    note_starved(writer, chosen.number, policy)
    task = next(task for task in live if task.number == chosen.number)
    if chosen.resumes:
        writer.fact(task, "resumed", {"note": task.note, "meanwhile": meanwhile(writer, task)})
        task = writer.move(task, "resumed", "resumed", stack_index=None, ready_since=writer.now)
    return writer.move(task, "focused", "focused", phase="think")


def note_starved(writer: LaneWriter, chosen: int, policy: Policy) -> None:
    """Note in the journal, once, each ready task that has waited too long: by design stronger ones go first."""
    lane, before = writer.lane.number, writer.now - policy.starved_after
    for task in writer.tx.attention.oldest_ready(lane, before, limit=STARVED + 1):
        since = task.ready_since
        if since is None or task.number == chosen or writer.tx.attention.is_noted(lane, task.number, "starved", since):
            continue
        writer.line("starved", task, since=iso(since))


def meanwhile(writer: LaneWriter, task: Task) -> list[dict[str, Any]]:
    """List what became of other tasks since this one was suspended."""
    since = max(0, writer.lane.seq - 1000)
    lines = writer.tx.attention.lines(writer.lane.number, since=since, limit=1000)
    left = max((line.seq for line in lines if line.task == task.number and line.after == "suspended"), default=0)
    others = [line for line in lines if line.seq > left and line.task != task.number and line.after is not None]
    last = others[-MAX_MEANWHILE:]
    return [{"at": iso(line.at), "task": task_name(line.task or 0), "became": line.after} for line in last]


def safe_point(writer: LaneWriter, focus: Task, control: Control, policy: Policy) -> Task | None:
    """Decide between two steps whether the focus goes on, ends or gives way; None when the focus is free."""
    if focus.held_since is not None and focus.holds and writer.now - focus.held_since > policy.longest_hold:
        writer.fact(focus, "hold_exceeded", {"since": iso(focus.held_since)})
        focus = writer.save(focus, replace(focus, held_since=None))
        writer.line("hold_exceeded", focus)
    if must_end(focus):
        end_cancelled(writer, focus, focus.reason)
        return None
    stack = writer.tx.attention.suspended(writer.lane.number)
    rivals = strongest_rival(writer.tx, writer.lane, writer.now)
    verdict = at_safe_point(focus.weighed, [task.weighed for task in (*stack, *rivals)], control, policy)
    if verdict.verdict != "cancel" and not writer.lane.knows(focus):
        verdict = SafePoint("unknown kind")
    if verdict.verdict == "cancel":
        end_cancelled(writer, focus, focus.reason)
        return None
    if verdict.verdict == "go on":
        return focus
    stack_index = max((task.stack_index or 0 for task in stack), default=-1) + 1
    by = None if verdict.by is None else task_name(verdict.by)
    cause = {"by": by, "why": verdict.verdict}
    writer.fact(focus, "interrupted", cause)
    writer.move(
        focus, "interrupted", "interrupted", cause, stack_index=stack_index, holds=False, held_since=None, phase="gap"
    )
    if verdict.by is None:
        return None
    return writer.move(rivals[0], "focused", "focused", phase="think")


def must_end(task: Task) -> bool:
    """Return whether a cancelled task has no step left: none was granted for cleaning up, or all are used."""
    return task.cancel_requested and not task.clean_up
