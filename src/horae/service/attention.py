"""Attention over HTTP: tasks and events for agents, what a lane looks like, and what only an operator may decide.

Agents themselves run elsewhere, over the same store. A lane belongs to a tenant; nobody else's exists. What the agent
may not do for itself (answer its own confirmations, lift a switch, kill) needs the scope ``admin``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from horae.actions import attending, journal, lanes, looking, waits
from horae.core.access import Caller
from horae.core.cursors import cursor_from, read_cursor
from horae.core.instants import iso
from horae.errors import Conflict, InvalidInput
from horae.service.attention_shapes import (
    Answered,
    CancelLaneTask,
    Confirmation,
    Confirmations,
    LaneControl,
    LaneEvent,
    LaneJournal,
    LaneLine,
    LanePage,
    LaneShape,
    LaneSnapshot,
    LaneTask,
    LaneTaskDetail,
    LaneTaskPage,
    LaneThen,
    LaneVerified,
    LaneWait,
    LaneWaits,
    NewLaneEvent,
    NewLaneTask,
    States,
    Switches,
)
from horae.service.fields import MOST
from horae.service.inputs import Because, Tenant
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.state import Here, needs
from horae.service.streaming import JournalStream, begin_at

router = APIRouter(prefix="/attention/lanes", tags=["attention"])
User = Annotated[Caller, Depends(needs("tasks"))]
Operator = Annotated[Caller, Depends(needs("admin"))]
LaneName = Annotated[
    str,
    Path(max_length=200, pattern="^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$", description="The agent's name.", examples=["ops"]),
]
TaskId = Annotated[str, Path(pattern="^t[0-9]{1,19}$", description="As in `t12`.", examples=["t12"])]
Since = Annotated[int, Query(ge=0, le=MOST, description="Only lines after this one.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key gives the same task; for another kind or payload 409.",
    ),
]
EVENTS = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"$ref": "#/components/schemas/LaneLine"},
}  # the data of each event
NOT_OURS = "This cursor was not made here; use next_cursor of the page before, as it is."


@router.get("", operation_id="list_lanes", summary="Agents' lanes, the oldest first", responses=refuses(404))
def list_lanes(world: Here, caller: User, owner: Tenant = None, limit: Limit = 100, cursor: Cursor = None) -> LanePage:
    """A lane is made by the first task or event. An operator sees everybody's, or those of `owner`."""
    found = lanes.find_lanes(world, owner=caller.among(owner), limit=limit, after=_number(cursor) or 0)
    more = cursor_from([found[-1].number]) if len(found) == limit else None
    return LanePage(items=[LaneShape.of(each) for each in found], next_cursor=more)


# -- tasks ---------------------------------------------------------------------------------------------------------


@router.get(
    "/{lane:path}/tasks",
    operation_id="list_lane_tasks",
    summary="A lane's tasks, the newest first",
    responses=refuses(404),
)
def list_tasks(
    lane: LaneName,
    world: Here,
    caller: User,
    state: Annotated[States | None, Query(max_length=8, description="Only in these states.")] = None,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> LaneTaskPage:
    before = _number(cursor)
    found = looking.find_tasks(
        world, lane, owner=_home(caller, owner), states=state or (), limit=limit,
        before="" if before is None else f"t{before}",
    )  # fmt: skip
    more = cursor_from([found[-1].number]) if len(found) == limit else None
    return LaneTaskPage(items=[LaneTask.of(each) for each in found], next_cursor=more)


@router.post(
    "/{lane:path}/tasks",
    operation_id="add_lane_task",
    summary="Give an agent something to attend to",
    status_code=201,
    responses={
        200: {"model": LaneTaskDetail, "description": "It was there before: same key, same task."},
        **refuses(404, 409),
    },
)
def add_task(
    lane: LaneName,
    body: NewLaneTask,
    request: Request,
    response: Response,
    world: Here,
    caller: User,
    owner: Tenant = None,
    key: Key = None,
) -> LaneTaskDetail:
    """It may interrupt the focus, at a safe point, if its priority is higher by the lane's margin (10)."""
    added = attending.add(
        world,
        lane,
        body.kind,
        body.payload,
        priority=body.priority,
        key=key,
        start_at=body.start_at,
        delay=None if body.delay_sec is None else timedelta(seconds=body.delay_sec),
        due_by=body.due_by,
        expires_at=body.expires_at,
        owner=_home(caller, owner),
        actor=caller.actor,
    )
    response.status_code = 201 if added.created else 200
    root = request.scope.get("root_path", "")
    response.headers["Location"] = f"{root}/attention/lanes/{lane}/tasks/{added.task.id}"
    return LaneTaskDetail.of(added.task)


@router.get(
    "/{lane:path}/tasks/{task_id}",
    operation_id="get_lane_task",
    summary="One task, with all it is about",
    responses=refuses(404),
)
def get_task(lane: LaneName, task_id: TaskId, world: Here, caller: User, owner: Tenant = None) -> LaneTaskDetail:
    return LaneTaskDetail.of(looking.get_task(world, lane, task_id, owner=_home(caller, owner)))


@router.post(
    "/{lane:path}/tasks/{task_id}/cancel",
    operation_id="cancel_lane_task",
    summary="End a task",
    responses=refuses(404, 409),
)
def cancel_task(
    lane: LaneName,
    task_id: TaskId,
    world: Here,
    caller: User,
    body: Annotated[CancelLaneTask | None, Body()] = None,
    owner: Tenant = None,
) -> LaneTaskDetail:
    """At once, unless it runs: the focus ends at its next safe point (`cancel_requested`). What has ended stays so."""
    asked = body or CancelLaneTask()
    task = attending.cancel(
        world, lane, task_id, reason=asked.reason, graceful=asked.graceful, owner=_home(caller, owner),
        actor=caller.actor,
    )  # fmt: skip
    return LaneTaskDetail.of(task)


@router.post(
    "/{lane:path}/tasks/{task_id}/kill",
    operation_id="kill_lane_task",
    summary="End a task without waiting",
    responses=refuses(404, 409),
)
def kill_task(
    lane: LaneName,
    task_id: TaskId,
    world: Here,
    caller: Operator,
    body: Annotated[Because | None, Body()] = None,
    owner: Tenant = None,
) -> LaneTaskDetail:
    """For a focus that never comes to a safe point: its driver loses the lane; whether its action happened is
    unknown.
    """
    reason = "" if body is None else body.reason
    task = attending.kill(world, lane, task_id, reason=reason, owner=_home(caller, owner), actor=caller.actor)
    return LaneTaskDetail.of(task)


# -- events and waits ----------------------------------------------------------------------------------------------


@router.post(
    "/{lane:path}/events",
    operation_id="post_lane_event",
    summary="Tell an agent that something happened",
    status_code=201,
    responses={200: {"model": LaneEvent, "description": "It was told before: same event_id."}, **refuses(404, 409)},
)
def post_event(
    lane: LaneName, body: NewLaneEvent, response: Response, world: Here, caller: User, owner: Tenant = None
) -> LaneEvent:
    """What follows is decided by the rules of the agent, as its last driver left them; without one the event wakes
    whoever waits for it, or is kept for seven days.
    """
    home = _home(caller, owner)
    posted = attending.post(world, lane, body.key, body.data, event_id=body.event_id, owner=home, actor=caller.actor)
    response.status_code = 201 if posted.is_new else 200
    return LaneEvent.of(posted)


@router.get(
    "/{lane:path}/waits",
    operation_id="list_lane_waits",
    summary="What is waited for, and until when",
    responses=refuses(404),
)
def list_waits(lane: LaneName, world: Here, caller: User, owner: Tenant = None, limit: Limit = 100) -> LaneWaits:
    found = looking.find_waits(world, lane, owner=_home(caller, owner), limit=limit)
    return LaneWaits(items=[LaneWait.of(each.wait) for each in found])


@router.get(
    "/{lane:path}/confirmations",
    operation_id="list_confirmations",
    summary="What waits for a person's word",
    responses=refuses(404),
)
def list_confirmations(
    lane: LaneName, world: Here, caller: User, owner: Tenant = None, limit: Limit = 100
) -> Confirmations:
    found = looking.find_waits(world, lane, owner=_home(caller, owner), kind="confirm", limit=limit)
    return Confirmations(items=[Confirmation.asked(each) for each in found])


@router.post(
    "/{lane:path}/confirmations/{wait}",
    operation_id="answer_confirmation",
    summary="Approve or deny",
    responses=refuses(404, 409),
)
def answer_confirmation(
    lane: LaneName,
    wait: Annotated[int, Path(ge=1, le=MOST, description="Its `id`.")],
    body: Answered,
    world: Here,
    caller: Operator,
    owner: Tenant = None,
) -> Confirmation:
    """Only an operator's token may answer; the agent is told whose it was. An approval permits exactly this action with
    these arguments, once, before the deadline. An answer after it changes nothing: 409.
    """
    home = _home(caller, owner)
    found = waits.confirm(world, lane, wait, body.approve, actor=caller.actor, reason=body.reason, owner=home)
    answer = Confirmation.about(found)
    if found.state == "timeout":
        raise Conflict(f"Nobody answered confirmation {wait} by {iso(found.deadline)}, so it has timed out.")
    if answer.approved is None:
        raise Conflict(f"Confirmation {wait} is no longer needed: its task does not wait for it any more.")
    if answer.approved != body.approve:
        said = "approved" if answer.approved else "denied"
        raise Conflict(f"Confirmation {wait} has already been {said} by {answer.decided_by}.")
    return answer


@router.put(
    "/{lane:path}/control",
    operation_id="set_lane_control",
    summary="Forbid an agent something, or no longer",
    responses=refuses(404, 409),
)
def set_control(lane: LaneName, body: Switches, world: Here, caller: Operator, owner: Tenant = None) -> LaneControl:
    """Replaces what was forbidden before; an empty body lifts it all. It can only narrow what the agent's own control
    allows.
    """
    home = _home(caller, owner)
    changed = lanes.set_control(world, lane, body.switches(), owner=home, actor=caller.actor, reason=body.reason)
    return LaneControl.of(changed)


# -- the journal ---------------------------------------------------------------------------------------------------


@router.get(
    "/{lane:path}/journal",
    operation_id="read_lane_journal",
    summary="What happened, line by line",
    responses=refuses(404),
)
def read_journal(
    lane: LaneName,
    world: Here,
    caller: User,
    since: Since = 0,
    limit: Limit = 100,
    task: Annotated[str | None, Query(pattern="^t[0-9]{1,19}$", description="Only lines about this task.")] = None,
    owner: Tenant = None,
) -> LaneJournal:
    number = None if task is None else attending.task_number(task)
    found = journal.read_journal(
        world, lane, owner=_home(caller, owner), since=since, limit=limit, task=number
    )  # fmt: skip
    more = found[-1].seq if len(found) == limit else None
    return LaneJournal(lines=[LaneLine.of(each) for each in found], next_since=more)


@router.get(
    "/{lane:path}/journal/verify",
    operation_id="verify_lane_journal",
    summary="Whether the journal is whole",
    responses=refuses(404),
)
def verify_journal(lane: LaneName, world: Here, caller: User, owner: Tenant = None) -> LaneVerified:
    """Without gaps, its chain unbroken, and folding to what the store holds."""
    return LaneVerified.of(journal.verify(world, lane, owner=_home(caller, owner)))


@router.get(
    "/{lane:path}/at/{seq}",
    operation_id="get_lane_at",
    summary="A lane as it was after a line of its journal",
    responses=refuses(404),
)
def get_at(
    lane: LaneName, seq: Annotated[int, Path(ge=0, le=MOST)], world: Here, caller: User, owner: Tenant = None
) -> LaneThen:
    return LaneThen.of(seq, journal.at(world, lane, seq, owner=_home(caller, owner)))


@router.get(
    "/{lane:path}/stream",
    operation_id="follow_lane",
    summary="The journal while it is written",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": EVENTS}}}, **refuses(404)},
)
async def follow(
    lane: LaneName,
    world: Here,
    caller: User,
    since: Annotated[int | None, Query(ge=0, le=MOST, description="Begin after this line; else at the end.")] = None,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", max_length=100, description="What a reader that comes back sends.")
    ] = None,
    owner: Tenant = None,
) -> JournalStream:
    """Server-sent events: each has the line's number as `id` and the line as `data`, as in the journal. A comment comes
    every 15 seconds. The stream ends after 15 minutes; readers come back by themselves and miss nothing. It ends within
    a second when its token is revoked or expires.
    """
    home = _home(caller, owner)
    found = await run_in_threadpool(lanes.get_lane, world, lane, owner=home)
    return JournalStream(world, found, begin_at(last_event_id, since, found.seq), caller)


@router.get(
    "/{lane:path}", operation_id="get_lane", summary="A lane now: focus, stack, backlog, waits", responses=refuses(404)
)
def get_lane(lane: LaneName, world: Here, caller: User, owner: Tenant = None, limit: Limit = 100) -> LaneSnapshot:
    """At most `limit` tasks of each kind; `counts` says how many there are. `lane.seq` is where to follow on from."""
    return LaneSnapshot.of(lanes.snapshot(world, lane, owner=_home(caller, owner)), limit)


def _home(caller: Caller, asked: str | None) -> str:
    """Whose lane is meant: the caller's own, unless an operator names somebody."""
    return caller.owner if asked is None else caller.whose(asked)


def _number(cursor: str | None) -> int | None:
    values = read_cursor(cursor, int)
    if values is not None and not 1 <= values[0] <= MOST:
        raise InvalidInput(NOT_OURS)
    return None if values is None else int(values[0])
