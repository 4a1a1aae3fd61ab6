"""What the operations of the attention room do in this process, on behalf of a caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.actions.attention import inbox, journal, lanes, queries, waits
from horae.api.attention.values import (
    AddedTask,
    Confirmation,
    LaneControl,
    LaneDetail,
    PastLane,
    PostedEvent,
    control_of,
    past_lane,
)
from horae.api.here import Here
from horae.api.operation import Tail
from horae.api.values import enriched, published
from horae.core.attention import lanes as core
from horae.core.cursors import cursor_from, page_size, read_cursor
from horae.core.jobs.payloads import decode
from horae.core.time.instants import iso
from horae.errors import Conflict

FOLLOWED_AT_ONCE = 200
Rows = tuple[list[Any], str | None]


def home(here: Here, owner: str | None) -> str:
    """Return the owner of the lane: the caller, unless an operator names another."""
    return here.owner if owner is None else here.caller.resolve_owner(owner)


# -- look --------------------------------------------------------------------------------------------------------------


def find_lanes(here: Here, owner: str | None, cursor: str | None, limit: int) -> Rows:
    after = _number(cursor) or 0
    found = lanes.find_lanes(here.world, owner=here.caller.filter_owner(owner), limit=page_size(limit), after=after)
    return found, cursor_from([found[-1].number]) if len(found) == limit else None


def find_tasks(
    here: Here, lane: str, states: tuple[str, ...], owner: str | None, cursor: str | None, limit: int
) -> Rows:
    before = _number(cursor)
    found = queries.find_tasks(
        here.world, lane, owner=home(here, owner), states=states, limit=limit,
        before="" if before is None else f"t{before}",
    )  # fmt: skip
    return found, cursor_from([found[-1].number]) if len(found) == limit else None


def snapshot(here: Here, lane: str, owner: str | None, limit: int) -> LaneDetail:
    """Return a lane with at most *limit* tasks of each kind."""
    most = page_size(limit)
    seen: LaneDetail = published(LaneDetail, lanes.snapshot(here.world, lane, owner=home(here, owner)))
    return replace(
        seen, stack=seen.stack[:most], backlog=seen.backlog[:most], waiting=seen.waiting[:most],
        created=seen.created[:most],
    )  # fmt: skip


def find_waits(here: Here, lane: str, owner: str | None, limit: int) -> list[core.TaskWait]:
    return [each.wait for each in queries.find_waits(here.world, lane, owner=home(here, owner), limit=limit)]


def confirmations(here: Here, lane: str, owner: str | None, limit: int) -> list[Confirmation]:
    found = queries.find_waits(here.world, lane, owner=home(here, owner), kind="confirm", limit=limit)
    return [enriched(Confirmation, each.wait, task_kind=each.task.kind) for each in found]


# -- speak and decide --------------------------------------------------------------------------------------------------


def add(here: Here, lane: str, kind: str, payload: Any, owner: str | None, options: dict[str, Any]) -> AddedTask:
    made = inbox.add(here.world, lane, kind, payload, owner=home(here, owner), actor=here.actor, **options)
    task: AddedTask = enriched(AddedTask, made.task, deduplicated=not made.created)
    return task


def post(here: Here, lane: str, key: str, data: Any, event_id: str | None, owner: str | None) -> PostedEvent:
    posted = inbox.post(
        here.world, lane, key, data, event_id=event_id, owner=home(here, owner), actor=here.actor
    )  # fmt: skip
    event: PostedEvent = enriched(PostedEvent, posted.event, deduplicated=not posted.is_new)
    return event


def confirm(here: Here, lane: str, wait: int, approve: bool, reason: str, owner: str | None) -> Confirmation:
    """Answer as a person; an answer that is not the one that counts is a Conflict."""
    found = waits.confirm(
        here.world, lane, wait, approve, actor=here.actor, reason=reason, owner=home(here, owner)
    )  # fmt: skip
    answer: Confirmation = enriched(Confirmation, found, task_kind=None)
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
    number = None if task is None else inbox.task_number(task)
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
