"""Agents' attention: give them tasks and events, look at their lanes, decide what only an operator may decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from horae.actions.attention import endings, journal, queries
from horae.api.attention import local
from horae.api.attention.values import (
    AddedTask,
    Confirmation,
    JournalEntry,
    Lane,
    LaneConfirmation,
    LaneControl,
    LaneDetail,
    LaneSummary,
    PastLane,
    PostedEvent,
    Task,
    TaskDetail,
    TaskStory,
    VerifiedJournal,
    Wait,
)
from horae.api.here import Here
from horae.api.operation import GET, PAGES, POST, PUT, STREAM, Call, Listing, Page, Room, S
from horae.api.values import drop_none, free, to_public
from horae.core.attention.lanes import lane_name
from horae.core.attention.task import NORMAL, Reach, TaskState
from horae.core.cursors import LARGEST
from horae.core.jobs.payloads import label
from horae.core.time.spans import Span, span
from horae.errors import InvalidInput

USER, OPERATOR = ("tasks",), ("admin",)
LANES = "/attention/lanes"
LANE = f"{LANES}/{{lane}}"
TASK = f"{LANE}/tasks/{{task_id}}"
_TASK_ID = re.compile("t([0-9]{1,4}x)?[0-9]{1,19}")


class Attention(Room[S]):
    """Agents' lanes. *lane* is the agent's name; *owner* is its tenant; only an operator may name another."""

    # -- look ------------------------------------------------------------------------------------------------------

    @PAGES(LANES, *USER)
    def lanes(self, *, owner: str | None = None, limit: int | None = None) -> Listing[Lane]:
        """List agents' lanes, the oldest first; an operator sees all tenants', or those of *owner*."""
        call = Call[Page[Lane]](Page[Lane], query=drop_none(owner=owner))
        return Listing(
            call, limit, lambda here, *page: local.find_lanes(here, owner, *page), order=_age, is_rising=True
        )

    @PAGES("/attention/overview", *USER)
    def overview(self, *, owner: str | None = None, limit: int | None = None) -> Listing[LaneSummary]:
        """List lanes in numbers, the oldest first: focus, stack, backlog, waits, confirmations to answer, last step."""
        call = Call[Page[LaneSummary]](Page[LaneSummary], query=drop_none(owner=owner))
        return Listing(call, limit, lambda here, *page: local.overview(here, owner, *page), order=_age, is_rising=True)

    @GET(LANE, *USER)
    def get(self, lane: str, *, limit: int = 100, owner: str | None = None) -> Call[LaneDetail]:
        """Return focus, stack, backlog and waits now, at most *limit* tasks of each; ``counts`` has all of them."""
        name = lane_name(lane)
        return Call(
            LaneDetail,
            lambda here: local.snapshot(here, name, owner, limit),
            at={"lane": name},
            query=drop_none(limit=limit, owner=owner),
        )

    @PAGES(f"{LANE}/tasks", *USER)
    def tasks(
        self,
        lane: str,
        *,
        state: TaskState | Iterable[TaskState] = (),
        limit: int | None = None,
        owner: str | None = None,
    ) -> Listing[Task]:
        """List a lane's tasks, the newest first; only those in a *state*, or in one of several."""
        name, states = lane_name(lane), (state,) if isinstance(state, str) else tuple(state)
        call = Call[Page[Task]](Page[Task], at={"lane": name}, query=drop_none(state=states, owner=owner))
        return Listing(call, limit, lambda here, *page: local.find_tasks(here, name, states, owner, *page))

    @GET(TASK, *USER)
    def task(self, lane: str, task_id: str, *, owner: str | None = None) -> Call[TaskDetail]:
        """Return one task, with its payload, context and result."""
        where = _task(lane, task_id)

        def fetch(here: Here) -> Any:
            found = queries.get_task(here.world, lane, task_id, owner=local.home(here, owner))
            return local.masked(to_public(TaskDetail, found))

        return Call(TaskDetail, fetch, at=where, query=drop_none(owner=owner))

    @GET(f"{TASK}/story", *USER)
    def story(self, lane: str, task_id: str, *, limit: int = 100, owner: str | None = None) -> Call[TaskStory]:
        """Return a task, what it waits or waited for and what it was told: *limit* of each at most, newest first."""
        where = _task(lane, task_id)
        return Call(
            TaskStory,
            lambda here: local.story(here, lane, task_id, owner, limit),
            at=where,
            query=drop_none(limit=limit, owner=owner),
        )

    @GET(f"{LANE}/waits", *USER)
    def waits(self, lane: str, *, limit: int = 100, owner: str | None = None) -> Call[tuple[Wait, ...]]:
        """Return open waits, the next deadline first."""
        name, query = lane_name(lane), drop_none(limit=limit, owner=owner)
        return Call(
            tuple[Wait, ...], lambda here: local.find_waits(here, name, owner, limit), at={"lane": name}, query=query
        )

    # -- speak -----------------------------------------------------------------------------------------------------

    @POST(f"{LANE}/tasks", *USER)
    def add(
        self,
        lane: str,
        kind: str,
        payload: Any = None,
        *,
        priority: int = NORMAL,
        key: str | None = None,
        start_at: datetime | None = None,
        delay: Span | None = None,
        due_by: datetime | None = None,
        expires_at: datetime | None = None,
        owner: str | None = None,
    ) -> Call[AddedTask]:
        """Give an agent something to attend to; it is durable when this returns, and makes the lane if there is none.

        The same *key* with the same kind and payload is the same task; with others it is a Conflict. It begins at
        *start_at*, after *delay*, or now; at *due_by* the agent hears that its time is up; it is cancelled if it has
        not begun at *expires_at*. A priority ten above that of the focus interrupts it at its next safe point.
        """
        name = lane_name(lane)
        options: dict[str, Any] = {
            "priority": priority,
            "key": key,
            "start_at": start_at,
            "delay": None if delay is None else span(delay),
            "due_by": due_by,
            "expires_at": expires_at,
        }
        return Call(
            AddedTask,
            lambda here: local.add(here, name, kind, payload, owner, options),
            at={"lane": name},
            query=drop_none(owner=owner),
            body=drop_none(kind=kind, payload=free(payload), **options),
            creates=key is None,
            repeats=key is not None,
        )

    @POST(f"{LANE}/events", *USER)
    def post(
        self,
        lane: str,
        key: str,
        data: Mapping[str, Any] | None = None,
        *,
        event_id: str | None = None,
        to: Reach | None = None,
        owner: str | None = None,
    ) -> Call[PostedEvent]:
        """Tell an agent that something happened; the rules of its last driver decide what follows.

        The same *event_id* is the same event. Without one, a call over HTTP whose answer was lost is not repeated.
        It wakes *one* task that waits for it, the first, or *all*; left out, its rule decides, and without one: one.
        """
        name = lane_name(lane)
        return Call(
            PostedEvent,
            lambda here: local.post(here, name, key, data, event_id, to, owner),
            at={"lane": name},
            query=drop_none(owner=owner),
            body=drop_none(key=key, data=free(data, "event data"), event_id=event_id, to=to),
            repeats=event_id is not None,
        )

    @POST(f"{TASK}/cancel", *USER)
    def cancel(
        self, lane: str, task_id: str, *, graceful: bool = False, reason: str = "", owner: str | None = None
    ) -> Call[TaskDetail]:
        """End a task; the one in focus ends at its next safe point, with *graceful* after it has cleaned up."""
        return _end(endings.cancel, lane, task_id, reason, owner, graceful=graceful)

    # -- decide ----------------------------------------------------------------------------------------------------

    @GET(f"{LANE}/confirmations", *USER)
    def confirmations(self, lane: str, *, limit: int = 100, owner: str | None = None) -> Call[tuple[Confirmation, ...]]:
        """Return open confirmations, the next deadline first."""
        name = lane_name(lane)
        return Call(
            tuple[Confirmation, ...],
            lambda here: local.confirmations(here, name, owner, limit),
            at={"lane": name},
            query=drop_none(limit=limit, owner=owner),
        )

    @GET("/attention/confirmations/{wait}", *USER)
    def confirmation(self, wait: int) -> Call[LaneConfirmation]:
        """Return a confirmation, open or answered, and its lane: for a caller that has its number alone."""
        number = _number(wait, 1, "wait")
        return Call(LaneConfirmation, lambda here: local.confirmation(here, number), at={"wait": number})

    @POST(f"{LANE}/confirmations/{{wait}}", *OPERATOR)
    def confirm(
        self, lane: str, wait: int, approve: bool, *, reason: str = "", owner: str | None = None
    ) -> Call[Confirmation]:
        """Approve exactly what was asked for, or deny it; Conflict when the deadline has passed."""
        name, number = lane_name(lane), _number(wait, 1, "wait")
        return Call(
            Confirmation,
            lambda here: local.confirm(here, name, number, approve, reason, owner),
            at={"lane": name, "wait": number},
            query=drop_none(owner=owner),
            body=drop_none(approve=approve, reason=reason or None),
            repeats=True,
        )

    @PUT(f"{LANE}/control", *OPERATOR)
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
        name, actions = lane_name(lane), [label(each, "action", 100) for each in must_confirm]
        switches = drop_none(
            auto_continue=auto_continue, allow_interrupt=allow_interrupt, confirm_everything=confirm_everything,
            must_confirm=actions or None,
        )  # fmt: skip
        return Call(
            LaneControl,
            lambda here: local.control(here, name, switches, reason, owner),
            at={"lane": name},
            query=drop_none(owner=owner),
            body={**switches, **drop_none(reason=reason or None)},
        )

    @POST(f"{TASK}/kill", *OPERATOR)
    def kill(self, lane: str, task_id: str, *, reason: str = "", owner: str | None = None) -> Call[TaskDetail]:
        """End a task that never comes to a safe point; whether its action happened stays unknown."""
        return _end(endings.kill, lane, task_id, reason, owner)

    # -- the journal -----------------------------------------------------------------------------------------------

    @PAGES(f"{LANE}/journal", *USER)
    def journal(
        self, lane: str, *, since: int = 0, task: str | None = None, limit: int | None = None, owner: str | None = None
    ) -> Listing[JournalEntry]:
        """List what happened, line by line, after the line *since*; only about one *task* where it is named."""
        name, after = lane_name(lane), _number(since, 0, "since")
        if task is not None:
            _task(lane, task)
        call = Call[Page[JournalEntry]](
            Page[JournalEntry], at={"lane": name}, query=drop_none(since=after or None, task=task, owner=owner)
        )
        return Listing(call, limit, lambda here, *page: local.read_journal(here, name, after, task, owner, *page))

    @GET(f"{LANE}/journal/verify", *USER)
    def verify(self, lane: str, *, owner: str | None = None) -> Call[VerifiedJournal]:
        """Check that the journal is whole and folds back to the tables."""
        name = lane_name(lane)

        def fetch(here: Here) -> Any:
            return journal.verify(here.world, name, owner=local.home(here, owner))

        return Call(VerifiedJournal, fetch, at={"lane": name}, query=drop_none(owner=owner))

    @GET(f"{LANE}/at/{{seq}}", *USER)
    def at(self, lane: str, seq: int, *, owner: str | None = None) -> Call[PastLane]:
        """Return the lane as it was after a line of its journal; what had ended before is left out."""
        name, line = lane_name(lane), _number(seq, 0, "line")
        return Call(
            PastLane,
            lambda here: local.at(here, name, line, owner),
            at={"lane": name, "seq": line},
            query=drop_none(owner=owner),
        )

    @STREAM(f"{LANE}/stream", *USER)
    def follow(self, lane: str, *, since: int | None = None, owner: str | None = None) -> Call[JournalEntry]:
        """Iterate over the journal while it is written, from the line after *since* or from now on.

        It goes on for as long as you iterate. A connection that breaks is made again, and no line is missed.
        """
        name, after = lane_name(lane), None if since is None else _number(since, 0, "since")
        return Call(
            JournalEntry,
            lambda here: local.follow(here, name, after, owner),
            at={"lane": name},
            query=drop_none(since=after, owner=owner),
            longer=30,  # seconds; a service says something every 15
        )


# -- the parts ---------------------------------------------------------------------------------------------------------


def _task(lane: str, task_id: str) -> dict[str, str | int]:
    """Return the lane and id of a task, checked."""
    if not isinstance(task_id, str) or not _TASK_ID.fullmatch(task_id):
        raise InvalidInput("task_id_malformed", id=str(task_id))
    return {"lane": lane_name(lane), "task_id": task_id}


def _number(value: int, least: int, what: str) -> int:
    if not least <= value <= LARGEST:
        raise InvalidInput("out_of_range", name=what, value=value, least=least, most=LARGEST)
    return value


def _end(
    verb: Callable[..., Any], lane: str, task_id: str, reason: str, owner: str | None, **how: Any
) -> Call[TaskDetail]:
    where = _task(lane, task_id)

    def act(here: Here) -> Any:
        home = local.home(here, owner)
        ended = verb(here.world, lane, task_id, reason=reason, owner=home, actor=here.actor, **how)
        return local.masked(to_public(TaskDetail, ended))

    body = drop_none(reason=reason or None, **how)
    return Call(TaskDetail, act, at=where, query=drop_none(owner=owner), body=body, repeats=True)


def _age(found: Any) -> Any:
    """Return by what lanes are merged, the oldest first: a lane, or one in numbers."""
    lane = getattr(found, "lane", found)
    return lane.created_at is not None, lane.created_at, lane.owner, lane.name
