"""Waits: opened with a deadline and a job that keeps it, resolved once, by an event, a person or the deadline.

A confirmation is a wait that only a person can resolve; silence is a time-out, never a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.attention.lanes import LaneWriter, in_known_lane, in_lane
from horae.core.attention.directives import intent_hash
from horae.core.attention.facts import AWAITED, FactKind
from horae.core.attention.lanes import Event, Task, TaskWait
from horae.core.attention.task import FINAL
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import TIMEOUT
from horae.core.jobs.payloads import decode, label, true_or_false
from horae.core.time.instants import iso, later
from horae.errors import NotFound
from horae.ports.world import World


def resolve_by_event(writer: LaneWriter, wait: TaskWait, event: Event) -> Event:
    """Wake the task of a wait with the event that it waited for."""
    task = writer.tx.attention.task(wait.task)
    assert task is not None
    late_by = max(0.0, (writer.now - wait.deadline).total_seconds())
    tell_event(writer, task, "event", event, late_by=late_by, came=AWAITED)
    event = close_event(writer, event, "used", task=task.number)
    wake(writer, task, wait, "event", event=event.number)
    return event


def tell_event(writer: LaneWriter, task: Task, kind: FactKind, event: Event, **about: Any) -> None:
    """Tell a task what an event said, and which one it was."""
    writer.fact(task, kind, decode(event.data), key=event.key, event=event.number, **about)


def close_event(
    writer: LaneWriter, event: Event, state: Any, *, reason: str | None = None, task: int | None = None
) -> Event:
    return writer.save(event, replace(event, state=state, reason=reason, task=task, closed_at=writer.now))


def wake(writer: LaneWriter, task: Task, wait: TaskWait, outcome: Any, **changes: Any) -> Task:
    """Resolve a wait, close the task's other waits, and make the task ready again (T12)."""
    close_wait(writer, wait, outcome, **changes)
    close_waits(writer, task, "timeout" if outcome == "timeout" else "cancelled")
    return writer.move(task, "woken", f"woken by {outcome}", {"wait": wait.number}, ready_since=writer.now)


def close_waits(writer: LaneWriter, task: Task, state: Any) -> None:
    for wait in writer.tx.attention.waits_of(task.number):
        close_wait(writer, wait, state)


def close_wait(writer: LaneWriter, wait: TaskWait, state: Any, **changes: Any) -> None:
    writer.save(wait, replace(wait, state=state, closed_at=writer.now, **changes))
    writer.forget(wait.job)


def open_waits(
    writer: LaneWriter, task: Task, keys: Sequence[str], timeout: timedelta, **fields: Any
) -> list[TaskWait]:
    """Open one wait, with a job that ends it, for each key; all have the same deadline."""
    deadline = later(writer.now, timeout)
    opened = []
    for key in keys:
        wait = writer.add(
            TaskWait(0, writer.lane.number, task.number, key, fields.get("kind", "event"), "open", deadline, writer.now,
                     intent=fields.get("intent"), intent_hash=fields.get("intent_hash"))
        )  # fmt: skip
        job = writer.plan(TIMEOUT, deadline, f"wait:{wait.number}", wait=wait.number)
        opened.append(writer.save(wait, replace(wait, job=job)))
    return opened


def take_early(writer: LaneWriter, task: Task, waits: Sequence[TaskWait], since: datetime | None = None) -> Task:
    """Resolve a new wait with an event that came before it, and not before *since*; the oldest one counts."""
    for wait in waits:
        pending = writer.tx.attention.pending_events(writer.lane.number, wait.key, limit=1, since=since)
        event = pending[0] if pending else _late_for_the_last(writer, task, wait)
        if wait.kind == "event" and event is not None:
            resolve_by_event(writer, wait, event)
            return writer.tx.attention.task(task.number) or task
    return task


def _late_for_the_last(writer: LaneWriter, task: Task, wait: TaskWait) -> Event | None:
    """Return an event that was late for the last wait for its key and is unread: it is early for this wait."""
    for stored in writer.tx.attention.new_facts(task.number):
        about = stored.fact.about
        if wait.kind == "event" and stored.kind == "late_event" and about["key"] == wait.key and "event" in about:
            writer.save(stored, replace(stored, turn=task.turn))  # so that it is not reported as late as well
            return writer.tx.attention.event(about["event"])
    return None


def time_out(world: World, lane: int, wait_number: int) -> datetime | None:
    """End a wait whose deadline has come; return the deadline where by this clock it has not. A closed wait stays."""

    def write(writer: LaneWriter) -> datetime | None:
        wait = writer.tx.attention.wait(wait_number)
        if wait is None or wait.lane != lane or wait.state != "open":
            return None
        if writer.now < wait.deadline:
            return wait.deadline
        expire(writer, wait)
        return None

    return in_known_lane(world, lane, write)


def expire(writer: LaneWriter, wait: TaskWait) -> Task:
    """Wake the task of a wait whose deadline has passed."""
    task = writer.tx.attention.task(wait.task)
    assert task is not None
    late_by = max(0.0, (writer.now - wait.deadline).total_seconds())
    if wait.kind == "sleep":
        writer.fact(task, "slept", {"since": iso(wait.opened_at), "late_by": late_by})
    elif wait.kind not in ("backoff", "budget"):
        keys = [each.key for each in writer.tx.attention.waits_of(task.number)]
        intent = {} if wait.intent is None else {"intent": decode(wait.intent)}
        writer.fact(task, "timed_out", {"keys": keys, "kind": wait.kind, "late_by": late_by, **intent})
    return wake(writer, task, wait, "timeout")


# -- confirmation --------------------------------------------------------------------------------------------------


def confirm(
    world: World,
    lane: str,
    wait_number: int,
    approve: bool,
    *,
    actor: str,
    reason: str = "",
    owner: str = SYSTEM,
) -> TaskWait:
    """Answer a confirmation as a person. After the deadline it authorises nothing: silence has already answered."""
    true_or_false(approve, "approve")
    label(actor, "actor")

    def write(writer: LaneWriter) -> TaskWait:
        wait = writer.tx.attention.wait(wait_number)
        if wait is None or wait.lane != writer.lane.number or wait.kind != "confirm":
            raise NotFound("confirmation_unknown", id=wait_number, lane=lane)
        task = writer.tx.attention.task(wait.task)
        if wait.state == "open" and writer.now >= wait.deadline:
            task = expire(writer, wait)
            wait = writer.tx.attention.wait(wait_number) or wait
        if wait.state != "open":
            if wait.state == "timeout" and task is not None and task.state not in FINAL:
                writer.fact(task, "late_event", {"by": actor, "approve": approve}, key=wait.key)
                writer.line("late_confirmation", task, by=actor, wait=wait.number)
            return wait
        return decide(writer, wait, approve=approve, actor=actor, reason=reason)

    return in_lane(world, lane, owner, write)


def decide(writer: LaneWriter, wait: TaskWait, *, approve: bool, actor: str, reason: str = "") -> TaskWait:
    """Grant or deny what an open confirmation asks for, and wake its task."""
    task = writer.tx.attention.task(wait.task)
    assert task is not None
    intent = decode(wait.intent or "{}")
    grant = writer.world.dice.name(32) if approve else None
    answer = {**intent, "by": actor, "wait": wait.number, "reason": reason or None}
    writer.fact(task, "confirmed" if approve else "denied", answer if grant is None else {**answer, "grant": grant})
    wake(writer, task, wait, "event", grant=grant, granted_at=writer.now if grant else None, decided_by=actor)
    return writer.tx.attention.wait(wait.number) or wait


def find_grant(writer: LaneWriter, task: Task, grant: str) -> TaskWait | None:
    """Return the confirmation behind a grant, if the grant is still valid: unused, and before its deadline."""
    waits = writer.tx.attention.waits_of(task.number, only_open=False)
    found = next((each for each in waits if each.grant is not None and each.grant == grant), None)
    if found is None or found.used_at is not None or found.intent is None or writer.now > found.deadline:
        return None
    return found if found.intent_hash == intent_hash(decode(found.intent)) else None
