"""The answers of the tools: public values of the rooms, or fewer of their fields where a model would read too much,
with what a reply states besides. Each becomes the schema of its tool's structured output.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from horae.api.attention.values import LaneConfirmation, LaneControl, PostedEvent, TaskDetail, Wait
from horae.api.schedules.values import Schedule
from horae.api.values import Get
from horae.core.dataclass import dataclass
from horae.core.time.instants import iso
from horae.core.values import PYDANTIC

UTC_ONLY = "UTC"
Driver = Literal["this server", "somebody else", "nobody"]


# -- what replies state ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class InUtc:
    """A reply whose times are UTC."""

    __pydantic_config__ = PYDANTIC

    timezone: str = UTC_ONLY


@dataclass(frozen=True, kw_only=True)
class Kept(InUtc):
    """A reply to something that was written; ``durability`` says what the write is worth."""

    durability: str = ""


# -- tasks -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TaskLine:
    """A task in a list: without its payload, context and result, which may be large."""

    __pydantic_config__ = PYDANTIC

    id: str
    kind: str
    state: str
    priority: int
    goal: str | None = None
    note: str | None = None
    key: str | None = None
    reason: str | None = None
    start_at: datetime | None = None
    due_by: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class WaitingLine:
    """A task, and all that it waits for."""

    task: TaskLine
    waits: tuple[Wait, ...] = ()


@dataclass(frozen=True, kw_only=True)
class View(InUtc):
    """The agent's attention at one moment."""

    DERIVED: ClassVar[dict[str, Get]] = {
        "lane": lambda detail: detail.lane.name,
        "driver": lambda detail: "nobody",
        "timezone": lambda detail: UTC_ONLY,
    }

    lane: str
    at: datetime
    driver: Driver = "nobody"
    focus: TaskLine | None = None
    stack: Annotated[
        tuple[TaskLine, ...], Field(description="Interrupted tasks, the one that comes back first on top.")
    ] = ()
    backlog: Annotated[
        tuple[TaskLine, ...], Field(description="Ready tasks in the order in which they would be served.")
    ] = ()
    waiting: tuple[WaitingLine, ...] = ()
    created: Annotated[tuple[TaskLine, ...], Field(description="Tasks whose start has not come.")] = ()
    control: Annotated[LaneControl | None, Field(description="What an operator forbids just now.")] = None


@dataclass(frozen=True, kw_only=True)
class WholeTask(TaskDetail, InUtc):
    """A whole task; ``context`` is what was handed over at its last safe point, unchanged."""


@dataclass(frozen=True, kw_only=True)
class TaskAdded(TaskLine, Kept):
    """The task that now stands for a request; ``deduplicated``: the key was known, and this is the task it made.

    ``result`` is there once it is completed; ``state`` says whether it is.
    """

    deduplicated: bool = False
    result: Any = None


@dataclass(frozen=True, kw_only=True)
class TaskPage(InUtc):
    """Some tasks; hand ``next_cursor`` in as cursor for the next page, none: that was all."""

    items: tuple[TaskLine, ...] = ()
    next_cursor: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskEnded(TaskLine, Kept):
    """A task that has ended, or will: ``cancel_requested`` where it ends at its next safe point."""

    cancel_requested: bool = False


@dataclass(frozen=True, kw_only=True)
class EventKept(PostedEvent, Kept):
    """What became of an event: used by ``task``, ``pending`` (kept for a task that will wait for it), or dropped."""


@dataclass(frozen=True, kw_only=True)
class JournalLine:
    """One line of the journal."""

    __pydantic_config__ = PYDANTIC

    seq: int
    at: datetime
    cause: str
    task: str | None = None
    before: str | None = None
    after: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JournalPage(InUtc):
    """Some lines; hand ``last_seq`` in as since_seq to read on."""

    items: tuple[JournalLine, ...] = ()
    last_seq: int = 0


# -- turns -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FactLine:
    """Something that happened; handed over once for each committed turn.

    ``data`` is what the event or the action said; ``about`` what it is: ``key`` and ``event`` of an event, ``action``
    of an action.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "data": lambda fact: dict(fact.data),
        "about": lambda fact: dict(fact.about),
    }

    kind: str
    at: datetime
    data: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ApprovedStep:
    """What a person approved and you may do now, once: exactly this action with exactly these arguments."""

    __pydantic_config__ = PYDANTIC

    action: str
    args: dict[str, Any] = field(default_factory=dict)
    key: Annotated[str, Field(description="The same for every try: hand it on as the idempotency key of the effect.")]


@dataclass(frozen=True, kw_only=True)
class Redeemed(Kept):
    """A grant that is used up now; do the step, then call action_report."""

    task_id: str
    step: ApprovedStep


@dataclass(frozen=True, kw_only=True)
class SafePoint(InUtc):
    """Whether to go on, and with what."""

    answer: Annotated[
        Literal["continue", "yield", "idle"],
        Field(
            description="continue: go on with the task. yield: stop working on the one you named; `task`, if any, has "
            "the focus now. idle: nothing to do before an event, a time or a new task; next_work waits for it."
        ),
    ]
    reason: str | None = None
    task: TaskDetail | None = None
    turn: Annotated[
        int | None, Field(description="The turn that the next safe_point, wait_for, task_done or task_fail answers.")
    ] = None
    facts: Annotated[tuple[FactLine, ...], Field(description="What happened since its last turn.")] = ()
    step: Annotated[
        ApprovedStep | None,
        Field(description="You redeemed a grant for this and have not said how it ended: call action_report first."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class WaitingTask(TaskLine, Kept):
    """The waits that were opened; or ``early``, the event that had come already: safe_point hands it over."""

    waits: tuple[Wait, ...] = ()
    early: FactLine | None = None


@dataclass(frozen=True, kw_only=True)
class Asked(Wait, Kept):
    """A question to a person. Only an operator can answer it."""


# -- confirmations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ConfirmationList(InUtc):
    """Open ones, the next deadline first."""

    items: tuple[LaneConfirmation, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Answered(LaneConfirmation, Kept):
    """An answer that counts."""


# -- governance --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DecisionMade(Kept):
    """What an action comes to; ``advice`` says what to do now, ``opened_review`` is the question to a person."""

    id: str
    outcome: Literal["executed", "limited", "blocked", "escalated", "abstained"]
    mode: str
    risk: str
    reason: str
    advice: str
    cites: tuple[str, ...] = ()
    opened_review: str | None = None


@dataclass(frozen=True, kw_only=True)
class Remembered(Kept):
    """What was remembered, as it stands now; cite it as ``name``. ``new`` counts the evidence that was not known."""

    name: str
    status: str
    epistemic_state: str | None = None
    deduplicated: bool = False
    contested: bool = False
    new: int | None = None
    next_action: str | None = None
    next_action_at: datetime | None = None
    advice: str


@dataclass(frozen=True, kw_only=True)
class RecalledLine:
    """One thing that is remembered. Use it where ``usable`` is yes; with caution say that it may be outdated."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {"name": lambda found: f"{found.kind}:{found.id}"}

    name: str
    content: str | None = None
    usable: Literal["yes", "caution", "no"]
    why: str
    status: str
    risk: str
    contested: bool = False
    verified_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Recalled(InUtc):
    """What is remembered about a subject, the most usable first."""

    items: tuple[RecalledLine, ...] = ()


# -- schedules ---------------------------------------------------------------------------------------------------------


class ScheduleShape(BaseModel):
    schedule_id: str
    name: str | None
    kind: str
    expr: str
    timezone: str
    goal: str | None
    priority: int | None
    paused: bool
    ends_at: str | None
    max_runs: int | None
    next_run_at: str | None
    in_words: str


class ScheduleMade(BaseModel):
    schedule_id: str
    created: bool
    next_times: list[str] = Field(description="The next three runs, in words, in the schedule's own time zone.")
    timezone: str
    ends_at: str | None
    max_runs: int | None
    durable: bool
    durability: str
    warning: str | None = Field(default=None, description="Why it would not fire as things are; none: it will.")


class ScheduleList(BaseModel):
    schedules: list[ScheduleShape]
    most: int = Field(description="How many there may be.")


class ScheduleChanged(BaseModel):
    schedule_id: str
    state: Literal["active", "paused", "deleted"]
    next_run_at: str | None = None
    timezone: str
    durability: str


def schedule_shape(schedule: Schedule) -> ScheduleShape:
    inside = schedule.payload.get("payload")
    return ScheduleShape(
        schedule_id=schedule.key,
        name=schedule.title,
        kind="interval" if schedule.kind == "every" else schedule.kind,
        expr=schedule.expression,
        timezone=schedule.zone,
        goal=inside.get("goal") if isinstance(inside, dict) else None,
        priority=schedule.payload.get("priority"),
        paused=schedule.paused_at is not None,
        ends_at=None if schedule.ends_at is None else iso(schedule.ends_at),
        max_runs=schedule.max_fires,
        next_run_at=None if schedule.next_fire_at is None else iso(schedule.next_fire_at),
        in_words=schedule.words,
    )
