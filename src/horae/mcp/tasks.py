"""Tools that read a lane and add to it, whichever process drives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from horae.actions.attention.queries import has_room
from horae.api.attention.values import LaneDetail
from horae.api.values import extended, published
from horae.errors import NotFound, QuotaExceeded
from horae.mcp.arguments import (
    MAX_ID,
    Data,
    Goal,
    Key,
    Limit,
    Moment,
    Priority,
    Reason,
    TaskId,
    TaskStates,
)
from horae.mcp.here import Here
from horae.mcp.shapes import (
    Driver,
    EventKept,
    JournalLine,
    JournalPage,
    TaskAdded,
    TaskEnded,
    TaskLine,
    TaskPage,
    View,
    WholeTask,
)

KIND = "goal"
MOST_TASKS = 200  # that are not ended, in one lane
MOST_SHOWN = 200  # of each kind in a view
LONGEST_DELAY = 366 * 86_400


class TaskTools:
    """Tasks, events and the journal."""

    def __init__(self, here: Here) -> None:
        self._here = here

    def attention_view(self) -> View:
        """See what has your focus, what was interrupted, what is ready, and what waits for an event and until when."""
        here = self._here
        try:
            detail = here.attention.get(here.lane, limit=MOST_SHOWN)
        except NotFound:  # a lane is made by its first task; until then there is nothing in it
            return View(lane=here.lane, at=here.world.clock.now())
        view: View = published(View, detail)
        return replace(view, driver=self._driver(detail))

    def _driver(self, detail: LaneDetail) -> Driver:
        lane = detail.lane
        if lane.driver is None or lane.driven_until is None or lane.driven_until <= detail.at:
            return "nobody"
        return "this server" if lane.driver == self._here.sessions.driver else "somebody else"

    def task_add(
        self,
        goal: Goal,
        idempotency_key: Key,
        priority: Priority = 50,
        start_at: Moment = None,
        delay_s: Annotated[
            float | None, Field(ge=0, le=LONGEST_DELAY, description="Or: start in so many seconds.")
        ] = None,
        payload: Data = None,
        expires_at: Moment = None,
    ) -> TaskAdded:
        """Put a task into your backlog. It is kept until it ends, through restarts; a stronger one interrupts your
        focus at its next safe point. For something that repeats use schedule_create.
        """
        here = self._here
        self._check_quota(here.who().owner, idempotency_key)
        added = here.attention.add(
            here.lane,
            KIND,
            {"goal": goal} if payload is None else {"goal": goal, "payload": payload},
            priority=priority,
            key=idempotency_key,
            start_at=start_at,
            delay=delay_s,
            expires_at=expires_at,
        )
        line = published(TaskLine, added)
        return extended(TaskAdded, line, deduplicated=added.deduplicated, durability=here.durability)

    def _check_quota(self, owner: str, key: str) -> None:
        """Stop an agent that adds tasks in a loop before it fills the store."""
        if not has_room(self._here.world, self._here.lane, key, most=MOST_TASKS, owner=owner):
            raise QuotaExceeded("tasks", MOST_TASKS, "too_many_live_tasks")

    def task_get(self, task_id: TaskId) -> WholeTask:
        """See one task: state, context, result."""
        return extended(WholeTask, self._here.attention.task(self._here.lane, task_id))

    def task_list(
        self,
        state: Annotated[TaskStates | None, Field(description="Only those in this state.")] = None,
        limit: Limit = 20,
        cursor: Annotated[str | None, Field(max_length=200, description="next_cursor of the page before.")] = None,
    ) -> TaskPage:
        """List your tasks, the newest first."""
        states = () if state is None else (state,)
        try:
            page = self._here.attention.tasks(self._here.lane, state=states).page(cursor, limit=limit)
        except NotFound:
            return TaskPage()
        return TaskPage(items=published(tuple[TaskLine, ...], page.items), next_cursor=page.next_cursor)

    def task_cancel(self, task_id: TaskId, reason: Reason = "") -> TaskEnded:
        """End a task that is not wanted any more: at once, or at its next safe point if it has the focus. For good."""
        here = self._here
        task = here.attention.cancel(here.lane, task_id, reason=reason)
        return extended(
            TaskEnded, published(TaskLine, task), cancel_requested=task.cancel_requested, durability=here.durability
        )

    def event_post(
        self,
        key: Annotated[str, Field(min_length=1, max_length=200, description="What a wait_for names.")],
        body: Data = None,
        event_id: Annotated[
            str | None, Field(min_length=1, max_length=255, description="Names the event: twice is the same event.")
        ] = None,
    ) -> EventKept:
        """Say that something happened. Who waits for it is woken; if nobody does, it is kept for a week."""
        here = self._here
        return extended(
            EventKept, here.attention.post(here.lane, key, body, event_id=event_id), durability=here.durability
        )

    def journal_read(
        self,
        since_seq: Annotated[int, Field(ge=0, le=MAX_ID, description="Only lines after this one.")] = 0,
        task_id: TaskId | None = None,
        limit: Limit = 50,
    ) -> JournalPage:
        """Read what happened to your tasks, line by line, the oldest first."""
        here = self._here
        if task_id is not None:
            here.attention.task(here.lane, task_id)  # one that is not there is an error, and not an empty page
        try:
            page = here.attention.journal(here.lane, since=since_seq, task=task_id).page(limit=limit)
        except NotFound:
            return JournalPage(last_seq=since_seq)
        last = page.items[-1].seq if page.items else since_seq
        return JournalPage(items=published(tuple[JournalLine, ...], page.items), last_seq=last)
