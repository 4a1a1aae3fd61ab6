"""Agents' attention: tasks and events for them, what their lanes look like, and what an operator decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from horae.api.operation import GET, PAGES, POST, PUT, STREAM, Call, Listing, Room, S
from horae.api.values import given, to_json
from horae.client import reading
from horae.client.reading import Told


@dataclass(frozen=True)
class Lane(Told):
    """One agent's attention; ``seq`` is the last line of its journal."""

    name: str
    owner: str
    driver: str | None
    driven_until: datetime | None
    epoch: int
    seq: int
    created_at: datetime | None


@dataclass(frozen=True)
class LaneTask(Told):
    """A task as it stands, without what it is about."""

    id: str
    kind: str
    state: str
    phase: str
    priority: int
    key: str | None
    note: str | None
    turn: int
    step: int
    cancel_requested: bool
    reason: str | None
    created_at: datetime | None
    start_at: datetime | None
    ready_since: datetime | None
    due_by: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True)
class LaneTaskDetail(LaneTask):
    """A task with all that it is about; ``context`` is the agent's own."""

    payload: Any = None
    context: Any = None
    result: Any = None


@dataclass(frozen=True)
class LaneWait(Told):
    """What a task waits for, and until when."""

    id: int
    task: str
    key: str
    kind: str
    state: str
    deadline: datetime
    opened_at: datetime


@dataclass(frozen=True)
class Confirmation(LaneWait):
    """What an agent may not do without a person's word; ``approved`` is None while there is none."""

    task_kind: str | None = None
    action: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    intent_hash: str | None = None
    approved: bool | None = None
    decided_by: str | None = None


@dataclass(frozen=True)
class WaitingTask(Told):
    task: LaneTask
    waits: tuple[LaneWait, ...]


@dataclass(frozen=True)
class LaneCounts(Told):
    suspended: int
    ready: int
    waiting: int
    created: int


@dataclass(frozen=True)
class LaneControl(Told):
    """What an operator forbids; None: nothing."""

    auto_continue: bool | None = None
    allow_interrupt: bool | None = None
    confirm_everything: bool | None = None
    must_confirm: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaneSnapshot(Told):
    """A lane as of one moment; the first of the stack comes back first, the backlog is in the order of service."""

    lane: Lane
    at: datetime
    focus: LaneTask | None
    stack: tuple[LaneTask, ...]
    backlog: tuple[LaneTask, ...]
    waiting: tuple[WaitingTask, ...]
    created: tuple[LaneTask, ...]
    counts: LaneCounts
    control: LaneControl


@dataclass(frozen=True)
class LaneEvent(Told):
    """What became of an event: used, late, dropped, expired, or pending, which means kept."""

    id: int
    key: str
    event_id: str | None
    state: str
    task: str | None
    reason: str | None
    posted_at: datetime


@dataclass(frozen=True)
class LaneLine(Told):
    """One line of a journal."""

    seq: int
    at: datetime
    cause: str
    task: str | None
    before: str | None
    after: str | None
    told: dict[str, Any]
    changes: tuple[Any, ...]
    control: str
    epoch: int
    hash: str | None


@dataclass(frozen=True)
class LaneJournal(Told):
    """Some lines, and after which one the next page begins; None at the end."""

    lines: tuple[LaneLine, ...]
    next_since: int | None


@dataclass(frozen=True)
class LaneVerified(Told):
    """Whether a journal has no gap, its chain holds, and it folds to the tables."""

    lane: str
    sound: bool
    lines: int
    sealed: int
    complaints: tuple[str, ...]


@dataclass(frozen=True)
class LaneThen(Told):
    """A lane as it was after a line of its journal; texts by digest."""

    seq: int
    tasks: dict[str, dict[str, Any]]
    waits: dict[str, dict[str, Any]]
    events: dict[str, dict[str, Any]]
    facts: dict[str, dict[str, Any]]


class Attention(Room[S]):
    """Needs a token with the scope ``tasks``; ``admin`` to confirm, to kill and for control. *lane* is the agent's
    name, *owner* whose it is: only an operator may name somebody else.
    """

    # -- look ----------------------------------------------------------------------------------------------------

    @PAGES("/attention/lanes")
    def lanes(self, *, owner: str | None = None, limit: int | None = None) -> Listing[Lane]:
        """Agents' lanes, the oldest first; an operator sees everybody's."""
        return Listing(Call(read=reading.page(Lane), query=given(owner=owner)), limit)

    @GET("/attention/lanes/{lane}")
    def get(self, lane: str, *, owner: str | None = None, limit: int | None = None) -> Call[LaneSnapshot]:
        """Focus, stack, backlog and waits now, at most *limit* tasks of each."""
        return Call(read=reading.one(LaneSnapshot), at={"lane": lane}, query=given(owner=owner, limit=limit))

    @PAGES("/attention/lanes/{lane}/tasks")
    def tasks(
        self, lane: str, *, state: str | Iterable[str] | None = None, owner: str | None = None, limit: int | None = None
    ) -> Listing[LaneTask]:
        """A lane's tasks, the newest first; only those in a *state*, or in one of several."""
        states = [state] if isinstance(state, str) else None if state is None else list(state)
        return Listing(
            Call(read=reading.page(LaneTask), at={"lane": lane}, query=given(state=states, owner=owner)), limit
        )

    @GET("/attention/lanes/{lane}/tasks/{task_id}")
    def task(self, lane: str, task_id: str, *, owner: str | None = None) -> Call[LaneTaskDetail]:
        """One task, with all that it is about."""
        return Call(read=reading.one(LaneTaskDetail), at={"lane": lane, "task_id": task_id}, query=given(owner=owner))

    @GET("/attention/lanes/{lane}/waits")
    def waits(self, lane: str, *, owner: str | None = None, limit: int | None = None) -> Call[tuple[LaneWait, ...]]:
        """What is waited for, the next deadline first."""
        return Call(read=reading.many(LaneWait, "items"), at={"lane": lane}, query=given(owner=owner, limit=limit))

    # -- speak ---------------------------------------------------------------------------------------------------

    @POST("/attention/lanes/{lane}/tasks")
    def add(
        self,
        lane: str,
        kind: str,
        payload: Any = None,
        *,
        priority: int | None = None,
        start_at: datetime | None = None,
        delay_sec: float | timedelta | None = None,
        due_by: datetime | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
        owner: str | None = None,
    ) -> Call[LaneTaskDetail]:
        """Give an agent something to attend to; the same key twice is the same task, and each call has one."""
        body = given(
            kind=kind, payload=payload, priority=priority, start_at=start_at, delay_sec=delay_sec, due_by=due_by,
            expires_at=expires_at,
        )  # fmt: skip
        return Call(
            read=reading.one(LaneTaskDetail), at={"lane": lane}, query=given(owner=owner), body=body, creates=True,
            key=idempotency_key,
        )  # fmt: skip

    @POST("/attention/lanes/{lane}/events")
    def post(
        self,
        lane: str,
        key: str,
        data: Mapping[str, Any] | None = None,
        *,
        event_id: str | None = None,
        owner: str | None = None,
    ) -> Call[LaneEvent]:
        """Tell an agent that something happened; its rules decide what follows. The same *event_id* is the same event;
        without one, an answer that was lost is not asked for again.
        """
        body = given(key=key, data=data, event_id=event_id)
        query, repeats = given(owner=owner), event_id is not None
        return Call(read=reading.one(LaneEvent), at={"lane": lane}, query=query, body=body, repeats=repeats)

    @POST("/attention/lanes/{lane}/tasks/{task_id}/cancel")
    def cancel(
        self, lane: str, task_id: str, *, reason: str = "", graceful: bool = False, owner: str | None = None
    ) -> Call[LaneTaskDetail]:
        """End a task; the one in focus ends at its next safe point, with *graceful* after it has cleaned up."""
        at, body = {"lane": lane, "task_id": task_id}, {"reason": reason, "graceful": graceful}
        return Call(read=reading.one(LaneTaskDetail), at=at, query=given(owner=owner), body=body, repeats=True)

    # -- decide --------------------------------------------------------------------------------------------------

    @GET("/attention/lanes/{lane}/confirmations")
    def confirmations(
        self, lane: str, *, owner: str | None = None, limit: int | None = None
    ) -> Call[tuple[Confirmation, ...]]:
        """What waits for a person's word, the next deadline first."""
        return Call(read=reading.many(Confirmation, "items"), at={"lane": lane}, query=given(owner=owner, limit=limit))

    @POST("/attention/lanes/{lane}/confirmations/{wait}")
    def confirm(
        self, lane: str, wait: int, approve: bool, *, reason: str = "", owner: str | None = None
    ) -> Call[Confirmation]:
        """Approve exactly what was asked for, or deny it; Conflict when the deadline has passed."""
        body = {"approve": approve, "reason": reason}
        return Call(
            read=reading.one(Confirmation),
            at={"lane": lane, "wait": wait},
            query=given(owner=owner),
            body=body,
            repeats=True,
        )

    @PUT("/attention/lanes/{lane}/control")
    def control(
        self,
        lane: str,
        *,
        auto_continue: bool | None = None,
        allow_interrupt: bool | None = None,
        confirm_everything: bool | None = None,
        must_confirm: Iterable[str] = (),
        reason: str = "",
        owner: str | None = None,
    ) -> Call[LaneControl]:
        """Forbid an agent something from now on; whatever is not named is no longer forbidden."""
        body = given(
            auto_continue=auto_continue, allow_interrupt=allow_interrupt, confirm_everything=confirm_everything,
            must_confirm=list(must_confirm), reason=reason,
        )  # fmt: skip
        return Call(read=reading.one(LaneControl), at={"lane": lane}, query=given(owner=owner), body=to_json(body))

    @POST("/attention/lanes/{lane}/tasks/{task_id}/kill")
    def kill(self, lane: str, task_id: str, *, reason: str = "", owner: str | None = None) -> Call[LaneTaskDetail]:
        """End a task that never comes to a safe point; whether its action happened stays unknown."""
        at, body = {"lane": lane, "task_id": task_id}, {"reason": reason}
        return Call(read=reading.one(LaneTaskDetail), at=at, query=given(owner=owner), body=body, repeats=True)

    # -- the journal ---------------------------------------------------------------------------------------------

    @GET("/attention/lanes/{lane}/journal")
    def journal(
        self,
        lane: str,
        *,
        since: int | None = None,
        task: str | None = None,
        limit: int | None = None,
        owner: str | None = None,
    ) -> Call[LaneJournal]:
        """What happened, line by line, after the line *since*; only about one *task* where it is named."""
        query = given(since=since, task=task, limit=limit, owner=owner)
        return Call(read=reading.one(LaneJournal), at={"lane": lane}, query=query)

    @GET("/attention/lanes/{lane}/journal/verify")
    def verify(self, lane: str, *, owner: str | None = None) -> Call[LaneVerified]:
        """Whether the journal is whole and folds back to the tables."""
        return Call(read=reading.one(LaneVerified), at={"lane": lane}, query=given(owner=owner))

    @GET("/attention/lanes/{lane}/at/{seq}")
    def at(self, lane: str, seq: int, *, owner: str | None = None) -> Call[LaneThen]:
        """The lane as it was after a line of its journal."""
        return Call(read=reading.one(LaneThen), at={"lane": lane, "seq": seq}, query=given(owner=owner))

    @STREAM("/attention/lanes/{lane}/stream")
    def follow(self, lane: str, *, since: int | None = None, owner: str | None = None) -> Call[LaneLine]:
        """The journal while it is written, from the line after *since* or from now on, for as long as you iterate. A
        connection that breaks is made again, and no line is missed.
        """
        query = given(since=since, owner=owner)
        return Call(read=reading.one(LaneLine), at={"lane": lane}, query=query, longer=30)  # something comes every 15 s
