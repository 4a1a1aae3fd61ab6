"""``/attention/lanes``: tasks and events for agents, what a lane looks like, and what only an operator may decide.

Agents themselves run elsewhere, over the same store. A lane belongs to a tenant; those of others are not found. What
the agent may not do for itself (answer its own confirmations, lift a switch, kill) needs the scope ``admin``.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from pydantic import AfterValidator, ConfigDict, Field, StrictBool

from horae.actions.attention.lanes import get_lane
from horae.api.attention.room import Attention
from horae.api.attention.values import (
    AddedTask,
    Confirmation,
    JournalEntry,
    Lane,
    LaneControl,
    LaneDetail,
    PastLane,
    PostedEvent,
    Task,
    TaskDetail,
    TaskStory,
    VerifiedJournal,
    Wait,
)
from horae.api.operation import Page
from horae.core.access.callers import Caller
from horae.core.attention.task import HIGHEST, LOWEST, NORMAL, Reach, TaskState
from horae.errors import InvalidInput
from horae.service.event_stream import JournalStream, begin_at
from horae.service.fields import MOST, Instant, OperationBody, Path, Query, SpanField
from horae.service.inputs import OperationReason, ReasonBody, Tenant, check_one_line
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, answer_in_words, caller_for, rooms_for
from horae.service.router import make_router
from horae.service.state import CurrentWorld

router = make_router(prefix="/attention/lanes", tags=["attention"])
OneLine = AfterValidator(check_one_line)
LaneName = Annotated[
    str,
    Path(max_length=200, pattern="^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$", description="The agent's name.", examples=["ops"]),
]
TASK_ID = "^t([0-9]{1,4}x)?[0-9]{1,19}$"  # in a cluster the id names the shard
TaskId = Annotated[str, Path(pattern=TASK_ID, description="As in `t12`.", examples=["t12"])]
IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=255, description="The same as `key` in the body."),
]
LINE = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"$ref": "#/components/schemas/JournalEntry"},
}
EVENT = {"type": "object", "properties": {"id": {"type": "string"}, "data": LINE}, "required": ["data"]}
NO_DATA: dict[str, Any] = {}


class NewTask(OperationBody):
    """Something to attend to."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "report", "payload": {"day": "2030-01-07"}, "priority": 40}]}
    )

    kind: Annotated[str, Field(max_length=100, description="Which of the agent's cognitions decides about it.")]
    payload: Any = None
    priority: Annotated[int, Field(ge=LOWEST, le=HIGHEST)] = NORMAL
    key: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="The same key gives the same task; for another kind or payload 409."
    )
    start_at: Instant | None = Field(default=None, description="Not before; now, when left out.")
    delay: SpanField | None = Field(default=None, description="Instead of start_at.")
    due_by: Instant | None = Field(default=None, description="When the agent gets the message that its time is up.")
    expires_at: Instant | None = Field(default=None, description="Cancelled if it has not begun by then.")


class NewEvent(OperationBody):
    """Something that happened."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"key": "db.down", "data": {"id": "db-1"}, "event_id": "pd-8841"}]}
    )

    key: Annotated[str, Field(min_length=1, max_length=200), OneLine] = Field(description="What happened.")
    data: dict[str, Any] = Field(default=NO_DATA, description="What the agent gets with it.")
    event_id: Annotated[str, Field(min_length=1, max_length=255), OneLine] | None = Field(
        default=None, description="The same id twice is the same event."
    )
    to: Reach | None = Field(default=None, description="Wake one task that waits, or all; else its rule says it.")


class CancelTask(OperationReason):
    """Options of cancelling a task."""

    graceful: StrictBool = Field(default=False, description="Let a running task clean up, in a few steps.")


class AnswerConfirmation(OperationReason):
    """A person's answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"approve": True, "reason": "called the customer"}]})

    approve: StrictBool


class SetControl(OperationReason):
    """The restrictions that an operator sets; for those left out the agent's own control decides."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"auto_continue": False, "reason": "release day"}]})

    auto_continue: StrictBool | None = Field(default=None, description="False: nothing gets the focus.")
    allow_interrupt: StrictBool | None = Field(default=None, description="False: nothing interrupts the focus.")
    confirm_everything: StrictBool | None = Field(default=None, description="True: a person confirms every action.")
    must_confirm: Annotated[list[Annotated[str, Field(max_length=100), OneLine]], Field(max_length=100)] = Field(
        default=[], description="Actions that a person must confirm."
    )


NOTHING, CANCEL = ReasonBody(), CancelTask()


@router.get(
    "", operation_id="list_lanes", summary="Agents' lanes, the oldest first", response_model=Page[Lane],
    responses=refuses(404),
)  # fmt: skip
async def list_lanes(
    owner: Tenant = None, limit: Limit = 100, cursor: Cursor = None, rooms: CallerRooms = rooms_for(Attention.lanes)
) -> Response:
    """A lane is made by the first task or event. An operator sees those of all tenants, or of `owner`."""
    return answer(await rooms.attention.lanes(owner=owner).page(cursor, limit=limit))


# -- tasks -------------------------------------------------------------------------------------------------------------


@router.get(
    "/{lane:path}/tasks", operation_id="list_lane_tasks", summary="A lane's tasks, the newest first",
    response_model=Page[Task], responses=refuses(404),
)  # fmt: skip
async def list_tasks(
    lane: LaneName,
    state: Annotated[list[TaskState] | None, Query(max_length=8, description="Only in these states.")] = None,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Attention.tasks),
) -> Response:
    return answer_in_words(await rooms.attention.tasks(lane, state=state or (), owner=owner).page(cursor, limit=limit))


@router.post(
    "/{lane:path}/tasks",
    operation_id="add_lane_task",
    summary="Give an agent something to attend to",
    status_code=201,
    response_model=AddedTask,
    responses={
        200: {"model": AddedTask, "description": "It was there before: same key, same task."},
        **refuses(404, 409),
    },
)
async def add_task(
    lane: LaneName,
    body: NewTask,
    request: Request,
    owner: Tenant = None,
    key: IdempotencyKey = None,
    rooms: CallerRooms = rooms_for(Attention.add),
) -> Response:
    """It may interrupt the focus, at a safe point, if its priority is higher by the lane's margin (10)."""
    made = await rooms.attention.add(lane, owner=owner, **{**dict(body), "key": _key(body.key, key)})
    location = f"{request.scope.get('root_path', '')}/attention/lanes/{lane}/tasks/{made.id}"
    return answer(made, 200 if made.deduplicated else 201, Location=location)


@router.get(
    "/{lane:path}/tasks/{task_id}", operation_id="get_lane_task", summary="One task, with all it is about",
    response_model=TaskDetail, responses=refuses(404),
)  # fmt: skip
async def get_task(
    lane: LaneName, task_id: TaskId, owner: Tenant = None, rooms: CallerRooms = rooms_for(Attention.task)
) -> Response:
    return answer_in_words(await rooms.attention.task(lane, task_id, owner=owner))


@router.get(
    "/{lane:path}/tasks/{task_id}/story", operation_id="get_lane_task_story",
    summary="One task, what it waits or waited for, and what it was told", response_model=TaskStory,
    responses=refuses(404),
)  # fmt: skip
async def get_story(
    lane: LaneName,
    task_id: TaskId,
    limit: Limit = 100,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Attention.story),
) -> Response:
    """The newest first, at most `limit` waits and facts. Values whose names are those of secrets are masked."""
    return answer_in_words(await rooms.attention.story(lane, task_id, limit=limit, owner=owner))


@router.post(
    "/{lane:path}/tasks/{task_id}/cancel", operation_id="cancel_lane_task", summary="End a task",
    response_model=TaskDetail, responses=refuses(404, 409),
)  # fmt: skip
async def cancel_task(
    lane: LaneName,
    task_id: TaskId,
    body: CancelTask = CANCEL,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Attention.cancel),
) -> Response:
    """A task that does not run ends at once; the focus ends at its next safe point (`cancel_requested`)."""
    return answer(await rooms.attention.cancel(lane, task_id, owner=owner, **dict(body)))


@router.post(
    "/{lane:path}/tasks/{task_id}/kill", operation_id="kill_lane_task", summary="End a task without waiting",
    response_model=TaskDetail, responses=refuses(404, 409),
)  # fmt: skip
async def kill_task(
    lane: LaneName,
    task_id: TaskId,
    body: ReasonBody = NOTHING,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Attention.kill),
) -> Response:
    """For a focus that never comes to a safe point: its driver loses the lane; whether its action happened is
    unknown.
    """
    return answer(await rooms.attention.kill(lane, task_id, owner=owner, reason=body.reason))


# -- events and waits --------------------------------------------------------------------------------------------------


@router.post(
    "/{lane:path}/events",
    operation_id="post_lane_event",
    summary="Tell an agent that something happened",
    status_code=201,
    response_model=PostedEvent,
    responses={200: {"model": PostedEvent, "description": "It was posted before: same event_id."}, **refuses(404, 409)},
)
async def post_event(
    lane: LaneName, body: NewEvent, owner: Tenant = None, rooms: CallerRooms = rooms_for(Attention.post)
) -> Response:
    """What follows is decided by the rules of the agent, as its last driver left them; without one the event wakes
    the task that waits for it, or is kept for seven days.
    """
    posted = await rooms.attention.post(lane, owner=owner, **dict(body))
    return answer(posted, 200 if posted.deduplicated else 201)


@router.get(
    "/{lane:path}/waits", operation_id="list_lane_waits", summary="What is waited for, the next deadline first",
    response_model=Page[Wait], responses=refuses(404),
)  # fmt: skip
async def list_waits(
    lane: LaneName, owner: Tenant = None, limit: Limit = 100, rooms: CallerRooms = rooms_for(Attention.waits)
) -> Response:
    return answer(await rooms.attention.waits(lane, owner=owner, limit=limit))


@router.get(
    "/{lane:path}/confirmations", operation_id="list_confirmations", summary="What waits for a person's word",
    response_model=Page[Confirmation], responses=refuses(404),
)  # fmt: skip
async def list_confirmations(
    lane: LaneName, owner: Tenant = None, limit: Limit = 100, rooms: CallerRooms = rooms_for(Attention.confirmations)
) -> Response:
    """Open ones, the next deadline first. Silence is never a refusal."""
    return answer(await rooms.attention.confirmations(lane, owner=owner, limit=limit))


@router.post(
    "/{lane:path}/confirmations/{wait}", operation_id="answer_confirmation", summary="Approve or deny",
    response_model=Confirmation, responses=refuses(404, 409),
)  # fmt: skip
async def answer_confirmation(
    lane: LaneName,
    wait: Annotated[int, Path(ge=1, le=MOST, description="Its `id`.")],
    body: AnswerConfirmation,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Attention.confirm),
) -> Response:
    """Only an operator's token may answer; the agent learns whose it was. An approval permits exactly this action with
    these arguments, once, before the deadline. An answer after it changes nothing: 409.
    """
    return answer(await rooms.attention.confirm(lane, wait, owner=owner, **dict(body)))


@router.put(
    "/{lane:path}/control", operation_id="set_lane_control", summary="Forbid an agent something, or no longer",
    response_model=LaneControl, responses=refuses(404, 409),
)  # fmt: skip
async def set_control(
    lane: LaneName, body: SetControl, owner: Tenant = None, rooms: CallerRooms = rooms_for(Attention.control)
) -> Response:
    """Replaces what was forbidden before; an empty body lifts it all. It can only narrow what the agent's own control
    allows.
    """
    return answer(await rooms.attention.control(lane, owner=owner, **dict(body)))


# -- the journal -------------------------------------------------------------------------------------------------------


@router.get(
    "/{lane:path}/journal", operation_id="read_lane_journal", summary="What happened, line by line",
    response_model=Page[JournalEntry], responses=refuses(404),
)  # fmt: skip
async def read_journal(
    lane: LaneName,
    since: Annotated[int, Query(ge=0, le=MOST, description="Only lines after this one.")] = 0,
    limit: Limit = 100,
    cursor: Cursor = None,
    task: Annotated[str | None, Query(pattern=TASK_ID, description="Only lines about this task.")] = None,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Attention.journal),
) -> Response:
    """`cursor` goes on where a page ended, and wins over `since`."""
    return answer(await rooms.attention.journal(lane, since=since, task=task, owner=owner).page(cursor, limit=limit))


@router.get(
    "/{lane:path}/journal/verify", operation_id="verify_lane_journal", summary="Whether the journal is whole",
    response_model=VerifiedJournal, responses=refuses(404),
)  # fmt: skip
async def verify_journal(
    lane: LaneName, owner: Tenant = None, rooms: CallerRooms = rooms_for(Attention.verify)
) -> Response:
    """Checks that there are no gaps, that the chain is unbroken, and that the journal folds to the stored rows."""
    return answer(await rooms.attention.verify(lane, owner=owner))


@router.get(
    "/{lane:path}/at/{seq}", operation_id="get_lane_at", summary="A lane as it was after a line of its journal",
    response_model=PastLane, responses=refuses(404),
)  # fmt: skip
async def get_at(
    lane: LaneName,
    seq: Annotated[int, Path(ge=0, le=MOST)],
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Attention.at),
) -> Response:
    return answer(await rooms.attention.at(lane, seq, owner=owner))


@router.get(
    "/{lane:path}/stream",
    operation_id="follow_lane",
    summary="The journal while it is written",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": EVENT}}}, **refuses(404)},
)
async def follow(
    lane: LaneName,
    world: CurrentWorld,
    since: Annotated[int | None, Query(ge=0, le=MOST, description="Begin after this line; else at the end.")] = None,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", max_length=100, description="What a reader that comes back sends.")
    ] = None,
    owner: Tenant = None,
    caller: Caller = caller_for(Attention.follow),
) -> JournalStream:
    """Server-sent events: each has the line's number as `id` and the line as `data`, as in the journal. A comment comes
    every 15 seconds. The stream ends after 15 minutes; readers come back by themselves and miss nothing. It ends within
    a second when its token is revoked or expires.
    """
    home = caller.owner if owner is None else caller.resolve_owner(owner)
    found = await run_in_threadpool(get_lane, world, lane, owner=home)
    return JournalStream(world, found, begin_at(last_event_id, since, found.seq), caller)


@router.get(
    "/{lane:path}", operation_id="get_lane", summary="A lane now: focus, stack, backlog, waits",
    response_model=LaneDetail, responses=refuses(404),
)  # fmt: skip
async def get_lane_now(
    lane: LaneName, owner: Tenant = None, limit: Limit = 100, rooms: CallerRooms = rooms_for(Attention.get)
) -> Response:
    """At most `limit` tasks of each kind; `counts` says how many there are. `lane.seq` is where to follow on from."""
    return answer_in_words(await rooms.attention.get(lane, owner=owner, limit=limit))


def _key(sent: str | None, header: str | None) -> str | None:
    if sent is not None and header not in (None, sent):
        raise InvalidInput("idempotency_keys_differ", field="key")
    return sent if header is None else header
