"""The operations of attention in this process, on behalf of a caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from horae.actions.attention import events, inbox, journal, lanes, queries, waits
from horae.api.attention.values import (
    AddedTask,
    Confirmation,
    Lane,
    LaneConfirmation,
    LaneControl,
    LaneCounts,
    LaneDetail,
    LaneSummary,
    PastLane,
    PostedEvent,
    Task,
    TaskDetail,
    TaskFact,
    TaskStory,
    Wait,
    control_of,
    past_lane,
    task_id,
)
from horae.api.here import Here
from horae.api.operation import Tail
from horae.api.values import enrich, to_public
from horae.core.attention import lanes as core
from horae.core.attention.numbers import task_name, task_number
from horae.core.attention.task import Reach
from horae.core.cursors import cursor_from, page_size, read_cursor
from horae.core.jobs.masking import mask
from horae.core.jobs.payloads import decode
from horae.core.time.instants import iso
from horae.errors import Conflict
from horae.ports.attention import LaneTally

FOLLOWED_AT_ONCE = 200
Rows = tuple[list[Any], str | None]
T = TypeVar("T")
SENSITIVE = ("payload", "context", "result", "arguments", "data", "about")
GRANT = ("grant",)  # what a person allowed once; for the agent alone
NESTED = ("task", "waits", "waiting", "facts")  # fields that hold such values; a wait names its task by its id


def home(here: Here, owner: str | None) -> str:
    """Return the owner of the lane: the caller, unless an operator names another."""
    return here.owner if owner is None else here.caller.resolve_owner(owner)


# -- look --------------------------------------------------------------------------------------------------------------


def find_lanes(here: Here, owner: str | None, cursor: str | None, limit: int) -> Rows:
    after = _number(cursor) or 0
    found = lanes.find_lanes(here.world, owner=here.caller.filter_owner(owner), limit=page_size(limit), after=after)
    return found, cursor_from([found[-1].number]) if len(found) == limit else None


def overview(here: Here, owner: str | None, cursor: str | None, limit: int) -> Rows:
    found = queries.summaries(
        here.world, owner=here.caller.filter_owner(owner), limit=limit, after=_number(cursor) or 0
    )  # fmt: skip
    further = cursor_from([found[-1][0].number]) if len(found) == limit else None
    return [summary(lane, tally) for lane, tally in found], further


def summary(lane: core.Lane, tally: LaneTally) -> LaneSummary:
    """Return a lane and its tally as people see them."""
    last = tally.last
    return LaneSummary(
        lane=to_public(Lane, lane),
        focus=None if tally.focus is None else to_public(Task, tally.focus),
        counts=LaneCounts(**{name: tally.tasks.get(name, 0) for name in ("suspended", "ready", "waiting", "created")}),
        waits=sum(tally.waits.values()),
        confirmations=tally.waits.get("confirm", 0),
        last_at=None if last is None else last.at,
        last_cause=None if last is None else last.cause,
        last_task=None if last is None else task_id(last.task),
    )


def story(here: Here, lane: str, task: str, owner: str | None, limit: int) -> TaskStory:
    found, waited, facts = queries.story(here.world, lane, task, owner=home(here, owner), limit=limit)
    story = TaskStory(
        task=to_public(TaskDetail, found),
        waits=to_public(tuple[Wait, ...], waited),
        facts=to_public(tuple[TaskFact, ...], facts),
    )
    return masked(story)


def masked(value: T) -> T:
    """Return what readers see of tasks, waits and facts: a mask in the place of what is named like a secret.

    The agent itself gets the real values, with its turn.
    """
    if isinstance(value, tuple | list):
        return type(value)(masked(each) for each in value)
    changes: dict[str, Any] = {name: mask(getattr(value, name), GRANT) for name in SENSITIVE if hasattr(value, name)}
    changes |= {name: masked(getattr(value, name)) for name in NESTED if getattr(value, name, None)}
    return replace(value, **changes) if changes else value  # type: ignore[type-var]  # it is a dataclass


def find_tasks(
    here: Here, lane: str, states: tuple[str, ...], owner: str | None, cursor: str | None, limit: int
) -> Rows:
    before = _number(cursor)
    found = queries.find_tasks(
        here.world, lane, owner=home(here, owner), states=states, limit=limit,
        before="" if before is None else task_name(before),
    )  # fmt: skip
    return found, cursor_from([found[-1].number]) if len(found) == limit else None


def snapshot(here: Here, lane: str, owner: str | None, limit: int) -> LaneDetail:
    """Return a lane with at most *limit* tasks of each kind."""
    most = page_size(limit)
    seen: LaneDetail = to_public(LaneDetail, lanes.snapshot(here.world, lane, owner=home(here, owner)))
    return replace(
        seen, stack=seen.stack[:most], backlog=seen.backlog[:most], waiting=masked(seen.waiting[:most]),
        created=seen.created[:most],
    )  # fmt: skip


def find_waits(here: Here, lane: str, owner: str | None, limit: int) -> tuple[Wait, ...]:
    found = queries.find_waits(here.world, lane, owner=home(here, owner), limit=limit)
    return masked(tuple(to_public(Wait, each.wait) for each in found))


def confirmations(here: Here, lane: str, owner: str | None, limit: int) -> list[Confirmation]:
    found = queries.find_waits(here.world, lane, owner=home(here, owner), kind="confirm", limit=limit)
    return masked([enrich(Confirmation, each.wait, task_kind=each.task.kind) for each in found])


def confirmation(here: Here, wait: int) -> LaneConfirmation:
    """Return a confirmation and its lane, if the caller sees that lane."""
    found, lane = queries.confirmation(here.world, wait, owner=here.caller.sees)
    asked: LaneConfirmation = enrich(
        LaneConfirmation, found.wait, task_kind=found.task.kind, lane=lane.name, owner=lane.owner
    )
    return masked(asked)


# -- speak and decide --------------------------------------------------------------------------------------------------


def add(here: Here, lane: str, kind: str, payload: Any, owner: str | None, options: dict[str, Any]) -> AddedTask:
    made = inbox.add(
        here.world, lane, kind, payload, owner=home(here, owner), actor=here.actor, most=here.max_live_tasks, **options
    )
    task: AddedTask = enrich(AddedTask, made.task, deduplicated=not made.created)
    return task


def post(
    here: Here, lane: str, key: str, data: Any, event_id: str | None, to: Reach | None, owner: str | None
) -> PostedEvent:
    posted = events.post(
        here.world, lane, key, data, event_id=event_id, to=to, owner=home(here, owner), actor=here.actor,
        most=here.max_live_tasks,
    )  # fmt: skip
    event: PostedEvent = enrich(PostedEvent, posted.event, deduplicated=not posted.is_new)
    return event


def confirm(here: Here, lane: str, wait: int, approve: bool, reason: str, owner: str | None) -> Confirmation:
    """Answer as a person; an answer that is not the one that counts is a Conflict."""
    found = waits.confirm(
        here.world, lane, wait, approve, actor=here.actor, reason=reason, owner=home(here, owner)
    )  # fmt: skip
    answer: Confirmation = enrich(Confirmation, found, task_kind=None)
    if answer.state == "timeout":
        raise Conflict("confirmation_timed_out", id=wait, deadline=iso(answer.deadline))
    if answer.approved is None:
        raise Conflict("confirmation_not_needed", id=wait)
    if answer.approved != approve:
        verdict = "approved" if answer.approved else "denied"
        raise Conflict("confirmation_decided", id=wait, verdict=verdict, decided_by=answer.decided_by)
    return answer


def control(here: Here, lane: str, switches: dict[str, Any], reason: str, owner: str | None) -> LaneControl:
    changed = lanes.set_control(
        here.world, lane, switches, owner=home(here, owner), actor=here.actor, reason=reason
    )  # fmt: skip
    return control_of({} if changed.override is None else decode(changed.override))


# -- the journal -------------------------------------------------------------------------------------------------------


def read_journal(
    here: Here, lane: str, since: int, task: str | None, owner: str | None, cursor: str | None, limit: int
) -> Rows:
    """Return one page of a journal, the lines after *since*; a cursor wins over it."""
    number = None if task is None else task_number(task)
    after = _number(cursor) or since
    found = journal.read_journal(
        here.world, lane, owner=home(here, owner), since=after, limit=limit, task=number
    )  # fmt: skip
    return found, cursor_from([found[-1].seq]) if len(found) == limit else None


def at(here: Here, lane: str, seq: int, owner: str | None) -> PastLane:
    return past_lane(seq, journal.at(here.world, lane, seq, owner=home(here, owner)))


def follow(here: Here, lane: str, since: int | None, owner: str | None) -> Tail:
    """Begin to read what is written after a line, or from now on."""
    found = lanes.get_lane(here.world, lane, owner=home(here, owner))
    last = found.seq if since is None else since

    def read() -> list[core.Line]:
        nonlocal last
        lines = journal.read_journal(here.world, lane, owner=found.owner, since=last, limit=FOLLOWED_AT_ONCE)
        last = lines[-1].seq if lines else last
        return lines

    return Tail(read, lanes.hint(found.number))


# -- the parts ---------------------------------------------------------------------------------------------------------


def _number(cursor: str | None) -> int | None:
    values = read_cursor(cursor, int, least=1)
    return None if values is None else int(values[0])
