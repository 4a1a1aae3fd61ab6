"""The verbs of callers outside a lane: add a task, post an event, cancel, kill; and of the jobs that come due in it.

A wait is resolved once; the second to try finds it closed and changes nothing. Events that no task waits for are
kept, so that an early one is worth as much as one that comes in time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeGuard

from horae.actions.attention.lanes import LaneWriter, in_known_lane, in_lane
from horae.actions.attention.waits import close_event, close_waits, resolve_by_event, tell_event, time_out, wake
from horae.actions.jobs.jobs import truncate
from horae.core.attention.lanes import Event, Lane, Task
from horae.core.attention.task import FINAL, NORMAL, Policy, Rule, base_priority
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import DEADLINE, HANDLERS, START, TIMEOUT
from horae.core.jobs.payloads import decode, encode, label, name, true_or_false
from horae.core.time.instants import aware, iso, later
from horae.errors import Conflict, InvalidInput, NotFound
from horae.ports import World

STARTS_WITH = "t"
MAX_NUMBER = 2**63 - 1
MAX_REASON = 2000
MAX_KEY = 255
MAX_DIGITS = 20  # of the number of an event, and its sign


@dataclass(frozen=True, slots=True)
class Added:
    """The task that now stands for a request; ``created`` is false when its key was known."""

    task: Task
    created: bool


@dataclass(frozen=True, slots=True)
class Posted:
    """An event, and whether this call stored it."""

    event: Event
    is_new: bool = True


def task_number(task_id: str) -> int:
    """Return the number in a task id: 12 for ``t12``."""
    digits = task_id.removeprefix(STARTS_WITH) if isinstance(task_id, str) else ""
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits[:20]) <= MAX_NUMBER) or digits == task_id:
        raise NotFound("task_id_unreadable", id=task_id)
    return int(digits)


# -- add -----------------------------------------------------------------------------------------------------------


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
) -> Added:
    """Add a task to a lane; where the lane has a task with the same key, return that one."""
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
    return in_lane(world, lane, owner, lambda writer: put(writer, wanted, actor))


def put(writer: LaneWriter, wanted: Task, actor: str) -> Added:
    """Create a task (T1), and admit it at once unless it starts later (T2)."""
    lane = writer.lane.number
    known = None if wanted.key is None else writer.tx.attention.task_by_key(lane, wanted.key)
    if known is not None:
        if (known.kind, known.payload) != (wanted.kind, wanted.payload):
            raise Conflict("task_key_taken", key=wanted.key, id=known.id)
        return Added(known, created=False)
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


# -- cancel --------------------------------------------------------------------------------------------------------


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
        if task.state != "running":
            return end_cancelled(writer, task, reason or f"by {actor}", by=actor)
        if task.cancel_requested and (graceful or task.clean_up is None):
            return task
        asked = replace(
            task,
            cancel_requested=True,
            clean_up=how.clean_up_steps if graceful else None,
            reason=reason or f"by {actor}",
        )
        if graceful:
            writer.fact(task, "cancel_requested", {"by": actor, "reason": reason or None})
        writer.save(task, asked)
        writer.line("cancel_requested", asked, by=actor, reason=reason or None, graceful=graceful)
        return asked

    return in_lane(world, lane, owner, write)


def end_cancelled(writer: LaneWriter, task: Task, reason: str | None, *, by: str | None = None) -> Task:
    """End a task as cancelled and drop its waits and planned jobs (T3, T5, T11, T13, T15).

    At a safe point *by* is left out: the journal names the actor since the request.
    """
    close_waits(writer, task, "cancelled")
    writer.forget(task.start_job)
    writer.forget(task.deadline_job)
    return writer.move(
        task, "cancelled", "cancelled", {"reason": reason, "by": by}, reason=reason, place=None, intent=None,
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


# -- events --------------------------------------------------------------------------------------------------------


def post(
    world: World,
    lane: str,
    key: str,
    data: Mapping[str, Any] | None = None,
    *,
    event_id: str | None = None,
    rules: Sequence[Rule] | None = None,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
) -> Posted:
    """Post an event to a lane; what follows is decided by rules, never by the data of the event.

    Without *rules* those count that the lane's last driver stored.
    """
    label(key, "event", 200)
    text = encode(dict(data or {}), "event data", world.max_payload_bytes)
    known_as = None if event_id is None else label(event_id, "event id")
    label(actor, "actor")

    def write(writer: LaneWriter) -> Posted:
        lane_number = writer.lane.number
        known = None if known_as is None else writer.tx.attention.event_by_id(lane_number, known_as)
        if known is not None:
            return Posted(known, is_new=False)
        event = writer.add(Event(0, lane_number, key, "pending", writer.now, text, known_as, actor=actor))
        known_rules = rules_of(writer.lane) if rules is None else rules
        rule = next((each for each in known_rules if each.event == key), Rule(key, "wake"))
        event = take_in(writer, event, rule, actor)
        writer.line("event", None, event=event.number, key=key, rule=rule.do, became=event.state, went_to=event.task)
        return Posted(event)

    return in_lane(world, lane, owner, write)


def rules_of(lane: Lane) -> list[Rule]:
    return [] if lane.rules is None else [Rule.from_json(each) for each in decode(lane.rules)]


def take_in(writer: LaneWriter, event: Event, rule: Rule, actor: str) -> Event:
    """Do with an event what its rule says."""
    data = decode(event.data)
    if rule.do == "log":
        return close_event(writer, event, "dropped", reason="its rule only logs it")
    if rule.do == "steer":
        focus = writer.tx.attention.focus(writer.lane.number)
        if focus is None:
            return close_event(writer, event, "dropped", reason="nobody had the focus")
        tell_event(writer, focus, "steer", event)
        return close_event(writer, event, "used", task=focus.number)
    if rule.do in ("task", "coalesce"):
        return _as_task(writer, event, rule, data, actor)
    return deliver(writer, event)


def _as_task(writer: LaneWriter, event: Event, rule: Rule, data: Mapping[str, Any], actor: str) -> Event:
    """Make a task of an event, or give the event to a live task of the same key.

    ``coalesce`` never gives it to the focus, which may be about to end without reading it.
    """
    deaf = (*FINAL, "running") if rule.do == "coalesce" else FINAL
    key = None if rule.key is None else fill_template(rule.key, data)
    known = None if key is None else writer.tx.attention.task_by_key(writer.lane.number, key)
    if known is not None and key is not None and known.state in deaf:
        known = next((task for task in _occasions(writer, key) if task.state not in deaf), None)
        key = f"{shorten_key(key, MAX_KEY - MAX_DIGITS)}#{event.number}"
    if known is not None:
        tell_event(writer, known, "event", event)
        return close_event(writer, event, "used", task=known.number)
    wanted = Task(
        0, 0, str(rule.kind), "created", rule.priority, encode({**rule.payload, **data}), key=key, created_at=writer.now
    )
    task = put(writer, wanted, actor).task
    return close_event(writer, event, "used", task=task.number)


def _occasions(writer: LaneWriter, key: str) -> Iterator[Task]:
    """Yield the live tasks of a key after its first; their keys end with the number of the event that made them."""
    for task in writer.tx.attention.live_tasks(writer.lane.number):
        first, _, digits = (task.key or "").rpartition("#")
        if first != shorten_key(key, MAX_KEY - MAX_DIGITS) or not (digits.isascii() and digits.isdigit()):
            continue
        number = int(digits)
        made_by = writer.tx.attention.event(number) if is_number(number) else None
        if made_by is not None and made_by.task == task.number:
            yield task


def shorten_key(key: str, most: int) -> str:
    """Cut a key to *most* characters; long keys that differ stay different."""
    return key if len(key) <= most else f"{key[: most - 33]}~{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def fill_template(template: str, data: Mapping[str, Any]) -> str:
    """Fill ``alert:{id}`` with the event's data; names that the data lacks stay as they are written."""
    key = template
    for name_, value in data.items():
        if isinstance(value, str | int) and "{" + name_ + "}" in key:
            key = key.replace("{" + name_ + "}", str(value))
    return label(shorten_key(key, MAX_KEY), "key")


def deliver(writer: LaneWriter, event: Event) -> Event:
    """Resolve the oldest open wait for an event; else report it as late, or keep it for a wait to come."""
    waits = [each for each in writer.tx.attention.waits_for(writer.lane.number, event.key) if each.kind == "event"]
    waiting = next((each for each in waits if each.state == "open"), None)
    if waiting is not None:
        return resolve_by_event(writer, waiting, event)
    last = waits[-1] if waits else None
    task = None if last is None or last.state != "timeout" else writer.tx.attention.task(last.task)
    if task is None or task.state in FINAL:
        return event
    tell_event(writer, task, "late_event", event)
    return close_event(writer, event, "late", task=task.number)


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


def task_of_lane(writer: LaneWriter, number: int) -> Task:
    found = writer.tx.attention.task(number)
    if found is None or found.lane != writer.lane.number:
        raise NotFound("task_unknown", id=f"t{number}", lane=writer.lane.name)
    return found


# -- what comes due --------------------------------------------------------------------------------------------------


def come_due(world: World, handler: str, payload: Any, *, owner: str) -> datetime | None:
    """Run one of Horae's own jobs; return the instant to run it again at, where by this clock it is not due.

    Any caller can enqueue a job that looks like one of them, so a job whose owner is not the lane's is refused.
    """
    fields = payload if isinstance(payload, Mapping) else {}
    lane, number = fields.get("lane"), fields.get("wait" if handler == TIMEOUT else "task")
    if handler not in HANDLERS or not (is_number(lane) and is_number(number)):
        raise InvalidInput("not_a_lane_job", handler=handler)
    found = world.route(owner=owner).store.read(lambda tx: tx.attention.lane_by_number(lane))
    if found is None or found.owner != owner:
        raise NotFound("lane_unknown", lane=str(lane))
    if handler == TIMEOUT:
        return time_out(world, lane, number)
    return start(world, lane, number) if handler == START else pass_deadline(world, lane, number)


def is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER
