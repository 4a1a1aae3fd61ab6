"""Lanes, their tasks, waits, events and journals as they cross the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool

from horae.actions.attending import Posted
from horae.actions.journal import Verified
from horae.actions.lanes import Snapshot
from horae.actions.looking import Waiting
from horae.core.attention import HIGHEST, LOWEST, NORMAL, Phase, TaskState
from horae.core.lanes import EventState, Lane, Line, Task, TaskWait, WaitKind, WaitState
from horae.core.payloads import decode
from horae.service.fields import Body, Instant, Seconds
from horae.service.inputs import Why, one_line

OneLine = AfterValidator(one_line)
NOTHING: dict[str, Any] = {}


def task_id(number: int | None) -> str | None:
    return None if number is None else f"t{number}"


def decoded(text: str | None) -> Any:
    return None if text is None else decode(text)


# -- what is sent --------------------------------------------------------------------------------------------------


class NewLaneTask(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "report", "payload": {"day": "2030-01-07"}, "priority": 40}]}
    )

    kind: Annotated[str, Field(max_length=100, description="Which of the agent's cognitions decides about it.")]
    payload: Any = None
    priority: Annotated[int, Field(ge=LOWEST, le=HIGHEST)] = NORMAL
    start_at: Instant | None = Field(default=None, description="Not before; now, when left out.")
    delay_sec: Seconds | None = Field(default=None, description="Instead of start_at.")
    due_by: Instant | None = Field(default=None, description="When the agent is told that its time is up.")
    expires_at: Instant | None = Field(default=None, description="Cancelled if it has not begun by then.")


class NewLaneEvent(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"key": "db.down", "data": {"id": "db-1"}, "event_id": "pd-8841"}]}
    )

    key: Annotated[str, Field(min_length=1, max_length=200), OneLine] = Field(description="What happened.")
    data: dict[str, Any] = Field(default=NOTHING, description="What the agent is told about it.")
    event_id: Annotated[str, Field(min_length=1, max_length=255), OneLine] | None = Field(
        default=None, description="The same id twice is the same event."
    )


class CancelLaneTask(Body):
    reason: Why = ""
    graceful: StrictBool = Field(default=False, description="Let a running task clean up, in a few steps.")


class Answered(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"approve": True, "reason": "called the customer"}]})

    approve: StrictBool
    reason: Why = ""


class Switches(Body):
    """What an operator forbids; whatever is left out is for the agent's own control to say."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"auto_continue": False, "reason": "release day"}]})

    auto_continue: StrictBool | None = Field(default=None, description="False: nothing gets the focus.")
    allow_interrupt: StrictBool | None = Field(default=None, description="False: nothing interrupts the focus.")
    confirm_everything: StrictBool | None = Field(default=None, description="True: a person confirms every action.")
    must_confirm: Annotated[list[Annotated[str, Field(max_length=100), OneLine]], Field(max_length=100)] = Field(
        default=[], description="Actions that a person must confirm."
    )
    reason: Why = ""

    def switches(self) -> dict[str, Any]:
        told = self.model_dump(exclude={"reason"}, exclude_none=True)
        return {name: value for name, value in told.items() if value != []}


# -- what is told --------------------------------------------------------------------------------------------------


class LaneShape(BaseModel):
    """One agent's attention."""

    name: str = Field(examples=["ops"])
    owner: str = Field(examples=["alice"])
    driver: str | None = Field(description="The process that drives it.")
    driven_until: Instant | None = Field(description="Until when, unless it goes on.")
    epoch: int = Field(description="Grows with every new driver.", examples=[3])
    seq: int = Field(description="The last line of its journal.", examples=[12])
    created_at: Instant | None

    @classmethod
    def of(cls, lane: Lane) -> Self:
        return cls(
            name=lane.name, owner=lane.owner, driver=lane.driver, driven_until=lane.leased_until, epoch=lane.epoch,
            seq=lane.seq, created_at=lane.created_at,
        )  # fmt: skip


class LanePage(BaseModel):
    items: list[LaneShape]
    next_cursor: str | None = None


class LaneTask(BaseModel):
    """A task as it stands, without what it is about."""

    id: str = Field(examples=["t12"])
    kind: str = Field(examples=["report"])
    state: TaskState = Field(examples=["running"])
    phase: Phase = Field(description="Of the focus: it thinks, acts, or is between two steps.")
    priority: int = Field(examples=[40])
    key: str | None
    note: str | None = Field(description="A cue that the agent left for coming back to it.")
    turn: int = Field(description="How often cognition has decided about it.")
    step: int = Field(description="How many actions were begun.")
    cancel_requested: bool
    reason: str | None = Field(description="Why it failed, was cancelled, or is left alone.")
    created_at: Instant | None
    start_at: Instant | None
    ready_since: Instant | None
    due_by: Instant | None
    expires_at: Instant | None

    @classmethod
    def told(cls, task: Task) -> dict[str, Any]:
        plain = {name: getattr(task, name) for name in LaneTask.model_fields if name not in ("id", "priority")}
        return {**plain, "id": task.id, "priority": task.base}

    @classmethod
    def of(cls, task: Task) -> Self:
        return cls(**cls.told(task))


class LaneTaskDetail(LaneTask):
    """A task with all that it is about."""

    payload: Any
    context: Any = Field(description="What the agent keeps with it; opaque to Horae.")
    result: Any

    @classmethod
    def of(cls, task: Task) -> Self:
        told = {"payload": decode(task.payload), "context": decoded(task.context), "result": decoded(task.result)}
        return cls(**cls.told(task), **told)


class LaneTaskPage(BaseModel):
    items: list[LaneTask]
    next_cursor: str | None = None


class LaneWait(BaseModel):
    """What a task waits for, and until when."""

    id: int = Field(examples=[7])
    task: str = Field(examples=["t12"])
    key: str = Field(examples=["ack:db-1"])
    kind: WaitKind = Field(description="`event`; `confirm`: a person must answer; `backoff`: a rest after an error.")
    state: WaitState
    deadline: Instant
    opened_at: Instant

    @classmethod
    def told(cls, wait: TaskWait) -> dict[str, Any]:
        plain = {name: getattr(wait, name) for name in ("key", "kind", "state", "deadline", "opened_at")}
        return {**plain, "id": wait.number, "task": task_id(wait.task)}

    @classmethod
    def of(cls, wait: TaskWait) -> Self:
        return cls(**cls.told(wait))


class LaneWaits(BaseModel):
    items: list[LaneWait] = Field(description="The next deadline first.")


class Confirmation(LaneWait):
    """What an agent wants to do and may not do without a person's word."""

    task_kind: str | None = Field(description="What kind of task asks.", examples=["refund"])
    action: str | None = Field(examples=["refund"])
    arguments: dict[str, Any]
    intent_hash: str | None = Field(description="An approval is bound to exactly this action and these arguments.")
    approved: bool | None = Field(description="The answer; null while there is none.")
    decided_by: str | None

    @classmethod
    def about(cls, wait: TaskWait, task: Task | None = None) -> Self:
        intent = decode(wait.intent or "{}")
        return cls(
            **cls.told(wait),
            task_kind=None if task is None else task.kind,
            action=intent.get("action"),
            arguments=intent.get("arguments", {}),
            intent_hash=wait.intent_hash,
            approved=None if wait.decided_by is None else wait.grant is not None,
            decided_by=wait.decided_by,
        )

    @classmethod
    def asked(cls, waiting: Waiting) -> Self:
        return cls.about(waiting.wait, waiting.task)


class Confirmations(BaseModel):
    items: list[Confirmation] = Field(description="Open ones, the next deadline first. Silence is never a refusal.")


class WaitingTask(BaseModel):
    task: LaneTask
    waits: list[LaneWait]


class LaneControl(BaseModel):
    """What an operator forbids; null: nothing."""

    auto_continue: bool | None = None
    allow_interrupt: bool | None = None
    confirm_everything: bool | None = None
    must_confirm: list[str] = []

    @classmethod
    def of(cls, lane: Lane) -> Self:
        return cls(**(decoded(lane.override) or {}))


class LaneCounts(BaseModel):
    suspended: int
    ready: int
    waiting: int
    created: int


class LaneSnapshot(BaseModel):
    """A lane as of one moment."""

    lane: LaneShape
    at: Instant
    focus: LaneTask | None
    stack: list[LaneTask] = Field(description="Interrupted; the first comes back first.")
    backlog: list[LaneTask] = Field(description="Ready, in the order in which it would be served.")
    waiting: list[WaitingTask]
    created: list[LaneTask] = Field(description="Their time has not come.")
    counts: LaneCounts = Field(description="Of all, where a list shows only the first ones.")
    control: LaneControl

    @classmethod
    def of(cls, seen: Snapshot, limit: int) -> Self:
        return cls(
            lane=LaneShape.of(seen.lane),
            at=seen.at,
            focus=None if seen.focus is None else LaneTask.of(seen.focus),
            stack=[LaneTask.of(each) for each in seen.stack[:limit]],
            backlog=[LaneTask.of(each) for each in seen.backlog[:limit]],
            waiting=[
                WaitingTask(task=LaneTask.of(task), waits=[LaneWait.of(each) for each in waits])
                for task, waits in seen.waiting[:limit]
            ],
            created=[LaneTask.of(each) for each in seen.created[:limit]],
            counts=LaneCounts(
                suspended=len(seen.stack), ready=len(seen.backlog), waiting=len(seen.waiting), created=len(seen.created)
            ),
            control=LaneControl.of(seen.lane),
        )


class LaneEvent(BaseModel):
    """What became of an event."""

    id: int = Field(examples=[3])
    key: str = Field(examples=["db.down"])
    event_id: str | None
    state: EventState = Field(
        description="`used`, `late`, `dropped` by its rule, `expired`, or `pending`: kept for whoever will wait for it."
    )
    task: str | None = Field(description="Whom it made, woke or told.", examples=["t12"])
    reason: str | None
    posted_at: Instant

    @classmethod
    def of(cls, posted: Posted) -> Self:
        event = posted.event
        plain = {name: getattr(event, name) for name in ("key", "event_id", "state", "reason", "posted_at")}
        return cls(id=event.number, task=task_id(event.task), **plain)


class LaneLine(BaseModel):
    """One line of a journal."""

    seq: int = Field(examples=[12])
    at: Instant
    cause: str = Field(examples=["interrupted"])
    task: str | None = Field(examples=["t12"])
    before: str | None = Field(description="The state that the task left.", examples=["running"])
    after: str | None = Field(description="The state that it entered.", examples=["suspended"])
    told: dict[str, Any] = Field(description="By whom, why, which one.")
    changes: list[Any] = Field(description="Table, number and new values; texts by digest. They fold to the tables.")
    control: str = Field(description="The digest of what control allowed.")
    epoch: int
    hash: str | None = Field(description="Holds all lines before it in place; null until it is sealed.")

    @classmethod
    def of(cls, line: Line) -> Self:
        plain = {name: getattr(line, name) for name in ("seq", "at", "cause", "before", "after", "control", "epoch")}
        return cls(
            **plain, task=task_id(line.task), told=dict(line.told), changes=list(line.changes), hash=line.hash
        )  # fmt: skip


class LaneJournal(BaseModel):
    lines: list[LaneLine]
    next_since: int | None = Field(description="`since` of the next page; null at the end.")


class LaneVerified(BaseModel):
    """Whether a journal has no gap, its chain holds, and it folds to the tables."""

    lane: str = Field(examples=["ops"])
    sound: bool
    lines: int
    sealed: int
    complaints: list[str]

    @classmethod
    def of(cls, found: Verified) -> Self:
        return cls(
            lane=found.lane, sound=found.is_sound, lines=found.lines, sealed=found.sealed,
            complaints=list(found.complaints[:100]),
        )  # fmt: skip


class LaneThen(BaseModel):
    """A lane as it was after a line of its journal; texts by digest."""

    seq: int
    tasks: dict[str, dict[str, Any]]
    waits: dict[str, dict[str, Any]]
    events: dict[str, dict[str, Any]]
    facts: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, seq: int, then: dict[str, dict[int, dict[str, Any]]]) -> Self:
        named = {f"{table}s": {str(number): row for number, row in rows.items()} for table, rows in then.items()}
        named["tasks"] = {f"t{number}": row for number, row in named["tasks"].items()}
        return cls(seq=seq, **named)


States = list[Literal["created", "ready", "running", "waiting", "suspended", "completed", "failed", "cancelled"]]
