"""Events on their way into a lane: what a rule makes of them, and whom they wake.

A wait is resolved once; the second to try finds it closed and changes nothing. Events that no task waits for are
kept, so that an early one is worth as much as one that comes in time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from horae.actions.attention.inbox import put
from horae.actions.attention.lanes import LaneWriter, in_lane
from horae.actions.attention.waits import close_event, resolve_by_event, tell_event
from horae.core.attention.facts import REPEATED
from horae.core.attention.lanes import Event, Lane, Task
from horae.core.attention.numbers import is_number
from horae.core.attention.task import FINAL, Reach, Rule, reach, rule_for
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import decode, encode, label
from horae.ports.world import World

MAX_KEY = 255
MAX_DIGITS = 20  # of the number of an event, and its sign


@dataclass(frozen=True, slots=True)
class Posted:
    """An event, and whether this call stored it."""

    event: Event
    is_new: bool = True


def post(
    world: World,
    lane: str,
    key: str,
    data: Mapping[str, Any] | None = None,
    *,
    event_id: str | None = None,
    rules: Sequence[Rule] | None = None,
    to: Reach | None = None,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    most: int = 0,
) -> Posted:
    """Post an event to a lane; what follows is decided by rules, never by the data of the event.

    Without *rules* those count that the lane's last driver stored. *to* says how many of those that wait for it are
    woken; left out, the rule says it. A lane with *most* live tasks refuses an event that would make another; 0 means
    no limit.
    """
    label(key, "event", 200)
    text = encode(dict(data or {}), "event data", world.max_payload_bytes)
    known_as = None if event_id is None else label(event_id, "event id")
    label(actor, "actor")
    wide = None if to is None else reach(to)

    def write(writer: LaneWriter) -> Posted:
        lane_number = writer.lane.number
        known = None if known_as is None else writer.tx.attention.event_by_id(lane_number, known_as)
        if known is not None:
            return Posted(known, is_new=False)
        event = writer.add(Event(0, lane_number, key, "pending", writer.now, text, known_as, actor=actor))
        known_rules = rules_of(writer.lane) if rules is None else rules
        rule = rule_for(known_rules, key)
        event = take_in(writer, event, rule if wide is None else replace(rule, to=wide), actor, most)
        writer.line("event", None, event=event.number, key=key, rule=rule.do, became=event.state, went_to=event.task)
        return Posted(event)

    return in_lane(world, lane, owner, write)


def rules_of(lane: Lane) -> list[Rule]:
    return [] if lane.rules is None else [Rule.from_json(each) for each in decode(lane.rules)]


def take_in(writer: LaneWriter, event: Event, rule: Rule, actor: str, most: int = 0) -> Event:
    """Do with an event what its rule says."""
    data = decode(event.data)
    if rule.do == "log":
        return close_event(writer, event, "dropped", reason="its rule only logs it")
    if rule.do == "steer":
        focus = writer.tx.attention.focus(writer.lane.number)
        if focus is None:
            return close_event(writer, event, "dropped", reason="no task had the focus")
        tell_event(writer, focus, "steer", event)
        return close_event(writer, event, "used", task=focus.number)
    if rule.do in ("task", "coalesce"):
        return _as_task(writer, event, rule, data, actor, most)
    return deliver(writer, event, rule.to)


def _as_task(writer: LaneWriter, event: Event, rule: Rule, data: Mapping[str, Any], actor: str, most: int) -> Event:
    """Make a task of an event, or give the event to a live task of the same key.

    ``coalesce`` never gives it to the focus, which may be about to end without reading it.
    """
    deaf = (*FINAL, "running") if rule.do == "coalesce" else FINAL
    key = None if rule.key is None else fill_template(rule.key, {"event": event.key, **data})
    known = None if key is None else writer.tx.attention.task_by_key(writer.lane.number, key)
    if known is not None and key is not None and known.state in deaf:
        known = next((task for task in _occasions(writer, key) if task.state not in deaf), None)
        key = f"{shorten_key(key, MAX_KEY - MAX_DIGITS)}#{event.number}"
    if known is not None:
        tell_event(writer, known, "event", event, came=REPEATED)
        return close_event(writer, event, "used", task=known.number)
    wanted = Task(
        0, 0, str(rule.kind), "created", rule.priority, encode({**rule.payload, **data}), key=key, created_at=writer.now
    )
    task = put(writer, wanted, actor, most).task
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


def deliver(writer: LaneWriter, event: Event, to: Reach = "one") -> Event:
    """Resolve the oldest open wait for an event, or all; else report it as late, or keep it for a wait to come."""
    found = writer.tx.attention.open_waits_for(writer.lane.number, event.key)
    waiting = [each for each in found if each.kind == "event"]
    for wait in waiting[: 1 if to == "one" else None]:
        event = resolve_by_event(writer, wait, event)
    if waiting:
        return event
    last = writer.tx.attention.last_wait_for(writer.lane.number, event.key)
    is_late = last is not None and last.kind == "event" and last.state == "timeout"
    task = writer.tx.attention.task(last.task) if last is not None and is_late else None
    if task is None or task.state in FINAL:
        return event
    tell_event(writer, task, "late_event", event)
    return close_event(writer, event, "late", task=task.number)
