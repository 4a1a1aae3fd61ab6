"""Waits: opened with a deadline and a job that keeps it, resolved once, by whoever comes first.

A confirmation is a wait that only a person can resolve; silence is a time-out, never a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.attention.lanes import Pen, in_known_lane, in_lane
from horae.core.attention.directives import FactKind, intent_hash
from horae.core.attention.lanes import Event, Task, TaskWait
from horae.core.attention.task import FINAL
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import TIMEOUT
from horae.core.jobs.payloads import decode, label, true_or_false
from horae.core.time.instants import later
from horae.errors import NotFound
from horae.ports import World


def resolve_by_event(pen: Pen, wait: TaskWait, event: Event) -> Event:
    task = pen.tx.attention.task(wait.task)
    assert task is not None
    late_by = max(0.0, (pen.now - wait.deadline).total_seconds())
    tell_event(pen, task, "event", event, late_by=late_by)
    event = closed(pen, event, "used", task=task.number)
    wake(pen, task, wait, "event", event=event.number)
    return event


def tell_event(pen: Pen, task: Task, kind: FactKind, event: Event, **about: Any) -> None:
    """Tell a task what an event said, and which one it was."""
    pen.fact(task, kind, decode(event.data), key=event.key, event=event.number, **about)


def closed(pen: Pen, event: Event, state: Any, *, reason: str | None = None, task: int | None = None) -> Event:
    return pen.save(event, replace(event, state=state, reason=reason, task=task, closed_at=pen.now))


def wake(pen: Pen, task: Task, wait: TaskWait, outcome: Any, **changes: Any) -> Task:
    """T12: this wait is resolved, its siblings are closed (their time is up with it), the task is ready again."""
    pen.save(wait, replace(wait, state=outcome, closed_at=pen.now, **changes))
    pen.forget(wait.job)
    close_waits(pen, task, "timeout" if outcome == "timeout" else "cancelled")
    return pen.move(task, "woken", f"woken by {outcome}", {"wait": wait.number}, ready_since=pen.now)


def close_waits(pen: Pen, task: Task, state: Any) -> None:
    for wait in pen.tx.attention.waits_of(task.number):
        pen.save(wait, replace(wait, state=state, closed_at=pen.now))
        pen.forget(wait.job)


def open_waits(pen: Pen, task: Task, keys: Sequence[str], timeout: timedelta, **told: Any) -> list[TaskWait]:
    """One row and one job for each key, with the same deadline."""
    deadline = later(pen.now, timeout)
    opened = []
    for key in keys:
        wait = pen.add(
            TaskWait(0, pen.lane.number, task.number, key, told.get("kind", "event"), "open", deadline, pen.now,
                     intent=told.get("intent"), intent_hash=told.get("intent_hash"))
        )  # fmt: skip
        job = pen.plan(TIMEOUT, deadline, f"wait:{wait.number}", wait=wait.number)
        opened.append(pen.save(wait, replace(wait, job=job)))
    return opened


def take_early(pen: Pen, task: Task, waits: Sequence[TaskWait]) -> Task:
    """An event that came before its wait: the oldest one counts."""
    for wait in waits:
        found = pen.tx.attention.pending_events(pen.lane.number, wait.key, limit=1)
        event = found[0] if found else _late_for_the_last(pen, task, wait)
        if wait.kind == "event" and event is not None:
            resolve_by_event(pen, wait, event)
            return pen.tx.attention.task(task.number) or task
    return task


def _late_for_the_last(pen: Pen, task: Task, wait: TaskWait) -> Event | None:
    """An event too late for the last wait for its key, of which cognition has not heard: it is early for this one."""
    for stored in pen.tx.attention.new_facts(task.number):
        about = stored.fact.about
        if wait.kind == "event" and stored.kind == "late_event" and about["key"] == wait.key and "event" in about:
            pen.save(stored, replace(stored, turn=task.turn))  # it is told as the event that it now is
            return pen.tx.attention.event(about["event"])
    return None


def time_out(world: World, lane: int, wait_number: int) -> datetime | None:
    """The deadline of a wait has come; answers with it when it has not, by this clock. Closed already: nothing."""

    def write(pen: Pen) -> datetime | None:
        wait = pen.tx.attention.wait(wait_number)
        if wait is None or wait.lane != lane or wait.state != "open":
            return None
        if pen.now < wait.deadline:
            return wait.deadline
        expire(pen, wait)
        return None

    return in_known_lane(world, lane, write)


def expire(pen: Pen, wait: TaskWait) -> Task:
    task = pen.tx.attention.task(wait.task)
    assert task is not None
    if wait.kind != "backoff":
        late_by = max(0.0, (pen.now - wait.deadline).total_seconds())
        keys = [each.key for each in pen.tx.attention.waits_of(task.number)]
        intent = {} if wait.intent is None else {"intent": decode(wait.intent)}
        pen.fact(task, "timed_out", {"keys": keys, "kind": wait.kind, "late_by": late_by, **intent})
    return wake(pen, task, wait, "timeout")


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

    def write(pen: Pen) -> TaskWait:
        wait = pen.tx.attention.wait(wait_number)
        if wait is None or wait.lane != pen.lane.number or wait.kind != "confirm":
            raise NotFound("confirmation_unknown", id=wait_number, lane=lane)
        task = pen.tx.attention.task(wait.task)
        if wait.state == "open" and pen.now >= wait.deadline:
            task = expire(pen, wait)
            wait = pen.tx.attention.wait(wait_number) or wait
        if wait.state != "open":
            if wait.state == "timeout" and task is not None and task.state not in FINAL:
                pen.fact(task, "late_event", {"by": actor, "approve": approve}, key=wait.key)
                pen.line("late_confirmation", task, by=actor, wait=wait.number)
            return wait
        assert task is not None
        intent = decode(wait.intent or "{}")
        grant = pen.world.dice.name(32) if approve else None
        told = {**intent, "by": actor, "wait": wait.number, "reason": reason or None}
        pen.fact(task, "confirmed" if approve else "denied", told if grant is None else {**told, "grant": grant})
        wake(pen, task, wait, "event", grant=grant, granted_at=pen.now if grant else None, decided_by=actor)
        return pen.tx.attention.wait(wait_number) or wait

    return in_lane(world, lane, owner, write)


def grant_for(pen: Pen, task: Task, grant: str) -> TaskWait | None:
    """The confirmation behind a grant, if it still permits what it permitted: once, and before its deadline."""
    waits = pen.tx.attention.waits_of(task.number, only_open=False)
    found = next((each for each in waits if each.grant is not None and each.grant == grant), None)
    if found is None or found.used_at is not None or found.intent is None or pen.now > found.deadline:
        return None
    return found if found.intent_hash == intent_hash(decode(found.intent)) else None
