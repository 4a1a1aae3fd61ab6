"""Tools that read a lane and add to it, whichever process drives it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from pydantic import Field, StrictBool

from horae.api.attention.values import LaneDetail, TaskDetail
from horae.api.values import extend, to_public
from horae.core.attention.task import FINAL, NORMAL
from horae.errors import Conflict, NotFound
from horae.mcp.arguments import (
    LONGEST_CALL,
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
from horae.mcp.long_calls import until
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
ASKED_BY = "asked_by"  # in the payload of a task whose asker waits for its end: the actor to whom that is told
IS_HANDLE: ContextVar[bool] = ContextVar("is_handle", default=False)  # whether a handle stands for the wait of a call
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
        view: View = to_public(View, detail)
        return replace(view, driver=self._driver(detail))

    def _driver(self, detail: LaneDetail) -> Driver:
        lane = detail.lane
        if lane.driver is None or lane.driven_until is None or lane.driven_until <= detail.at:
            return "nobody"
        return "this server" if lane.driver == self._here.sessions.driver else "somebody else"

    async def task_add(
        self,
        goal: Goal,
        idempotency_key: Key,
        priority: Priority = NORMAL,
        start_at: Moment = None,
        delay_s: Annotated[
            float | None, Field(ge=0, le=LONGEST_DELAY, description="Or: start in so many seconds.")
        ] = None,
        payload: Data = None,
        expires_at: Moment = None,
        wait: Annotated[
            StrictBool,
            Field(
                description="True: answer when the task has ended, with its result, or after 50 seconds as it stands; "
                "the same call again waits on. Only where another agent works on this lane's tasks."
            ),
        ] = False,
    ) -> TaskAdded:
        """Put a task into your backlog. It is kept until it ends, through restarts; a stronger one interrupts your
        focus at its next safe point. For something that repeats use schedule_create.
        """
        here = self._here
        if wait and here.is_alone and here.sessions.at(here.lane, here.who().owner).is_driving:
            raise Conflict("wait_for_own_task", lane=here.lane)
        inside: dict[str, Any] = {"goal": goal} if payload is None else {"goal": goal, "payload": payload}
        options: dict[str, Any] = {
            "priority": priority, "key": idempotency_key, "start_at": start_at, "delay": delay_s,
            "expires_at": expires_at,
        }  # fmt: skip
        asked = inside | ({ASKED_BY: here.who().actor} if wait else {})
        added = await anyio.to_thread.run_sync(partial(here.attention.add, here.lane, KIND, asked, **options))
        if not wait or IS_HANDLE.get():
            return self.as_added(added, deduplicated=added.deduplicated)
        look = partial(here.attention.task, here.lane, added.id)
        ended = await until(here, look, lambda task: task.state in FINAL, LONGEST_CALL)
        return self.as_added(ended, deduplicated=added.deduplicated)

    def as_added(self, task: TaskDetail, *, deduplicated: bool) -> TaskAdded:
        """Return a task as the answer to the call that asked for it."""
        line, durability = to_public(TaskLine, task), self._here.durability
        return extend(TaskAdded, line, deduplicated=deduplicated, result=task.result, durability=durability)

    def task_get(self, task_id: TaskId) -> WholeTask:
        """See one task: state, context, result."""
        return extend(WholeTask, self._here.attention.task(self._here.lane, task_id))

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
        return TaskPage(items=to_public(tuple[TaskLine, ...], page.items), next_cursor=page.next_cursor)

    def task_cancel(self, task_id: TaskId, reason: Reason = "") -> TaskEnded:
        """End a task that is not wanted any more: at once, or at its next safe point if it has the focus. For good."""
        here = self._here
        task = here.attention.cancel(here.lane, task_id, reason=reason)
        return extend(
            TaskEnded, to_public(TaskLine, task), cancel_requested=task.cancel_requested, durability=here.durability
        )

    def event_post(
        self,
        key: Annotated[str, Field(min_length=1, max_length=200, description="What a wait_for names.")],
        body: Data = None,
        event_id: Annotated[
            str | None, Field(min_length=1, max_length=255, description="Names the event: twice is the same event.")
        ] = None,
    ) -> EventKept:
        """Post an event. A task that waits for it is woken; without one, the event is kept for a week."""
        here = self._here
        return extend(
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
        return JournalPage(items=to_public(tuple[JournalLine, ...], page.items), last_seq=last)
