"""Tools that look at a lane and put things into it: anybody may use them, whoever drives."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from horae.actions import attending, journal, lanes
from horae.actions.attending import task_number
from horae.core.instants import iso
from horae.core.lanes import Task
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
    EventPosted,
    JournalPage,
    TaskAdded,
    TaskEnded,
    TaskPage,
    TaskShape,
    View,
    empty_view,
    journal_row,
    task_line,
    task_shape,
    view_of,
)
from horae.ports import Tx

KIND = "goal"
MOST_TASKS = 200  # that are not ended, in one lane
LONGEST_DELAY = 366 * 86_400


class TaskTools:
    """Tasks, events and the journal."""

    def __init__(self, here: Here) -> None:
        self._here = here

    def attention_view(self) -> View:
        """See what has your focus, what was interrupted, what is ready, and what waits for an event and until when."""
        here, who = self._here, self._here.who()
        try:
            found = lanes.snapshot(here.world, here.lane, owner=who.owner)
        except NotFound:
            return empty_view(here.lane, here.world.clock.now())
        return view_of(found, here.seats.driver)

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
        here, who = self._here, self._here.who()
        self._check_room(who.owner, idempotency_key)
        added = attending.add(
            here.world,
            here.lane,
            KIND,
            {"goal": goal} if payload is None else {"goal": goal, "payload": payload},
            priority=priority,
            key=idempotency_key,
            start_at=start_at,
            delay=None if delay_s is None else timedelta(seconds=delay_s),
            expires_at=expires_at,
            owner=who.owner,
            actor=who.actor,
        )
        task = added.task
        return TaskAdded(
            task_id=task.id,
            state=task.state,
            created=added.created,
            start_at=None if task.start_at is None else iso(task.start_at),
            durability=here.durability,
        )

    def _check_room(self, owner: str, key: str) -> None:
        """An agent that adds tasks in a loop is stopped before it fills the store."""

        def crowded(tx: Tx) -> bool:
            lane = tx.attention.lane(self._here.lane, owner)
            if lane is None or tx.attention.task_by_key(lane.number, key) is not None:
                return False
            return len(tx.attention.live_tasks(lane.number)) >= MOST_TASKS

        if self._here.world.store.read(crowded):
            raise QuotaExceeded(
                "tasks", MOST_TASKS, f"{MOST_TASKS} tasks have not ended, which is the most. End or cancel some first."
            )

    def task_get(self, task_id: TaskId) -> TaskShape:
        """See one task: state, context, result."""
        return task_shape(self._find(task_id))

    def task_list(
        self,
        state: Annotated[TaskStates | None, Field(description="Only those in this state.")] = None,
        limit: Limit = 20,
        cursor: Annotated[
            str | None, Field(pattern=r"^t[0-9]{1,19}$", description="next_cursor of the page before.")
        ] = None,
    ) -> TaskPage:
        """List your tasks, the newest first."""
        here, who = self._here, self._here.who()
        before = None if cursor is None else task_number(cursor)
        states = () if state is None else (state,)

        def read(tx: Tx) -> list[Task]:
            lane = tx.attention.lane(here.lane, who.owner)
            found: list[Task] = []
            if lane is not None:
                found = tx.attention.tasks(lane.number, states=states, limit=limit + 1, before=before)
            return found

        tasks = here.world.store.read(read)
        more = tasks[limit - 1].id if len(tasks) > limit else None
        return TaskPage(tasks=[task_line(task) for task in tasks[:limit]], next_cursor=more)

    def task_cancel(self, task_id: TaskId, reason: Reason = "") -> TaskEnded:
        """End a task that is not wanted any more: at once, or at its next safe point if it has the focus. For good."""
        here, who = self._here, self._here.who()
        self._find(task_id)  # or a lane would be made for a task that is not there
        task = attending.cancel(here.world, here.lane, task_id, reason=reason, owner=who.owner, actor=who.actor)
        told = "it ends at its next safe point" if task.state == "running" else task.reason
        return TaskEnded(task_id=task.id, state=task.state, reason=told, durability=here.durability)

    def event_post(
        self,
        key: Annotated[str, Field(min_length=1, max_length=200, description="What a wait_for names.")],
        body: Data = None,
        event_id: Annotated[
            str | None, Field(min_length=1, max_length=255, description="Names the event: twice is the same event.")
        ] = None,
    ) -> EventPosted:
        """Say that something happened. Who waits for it is woken; if nobody does, it is kept for a week."""
        here, who = self._here, self._here.who()
        posted = attending.post(here.world, here.lane, key, body, event_id=event_id, owner=who.owner, actor=who.actor)
        event = posted.event
        kept = "kept" if event.state == "pending" else "dropped"
        return EventPosted(
            event=event.number,
            state=event.state,
            matched=kept if event.task is None else f"t{event.task}",
            is_new=posted.is_new,
            durability=here.durability,
        )

    def journal_read(
        self,
        since_seq: Annotated[int, Field(ge=0, le=MAX_ID, description="Only lines after this one.")] = 0,
        task_id: TaskId | None = None,
        limit: Limit = 50,
    ) -> JournalPage:
        """Read what happened to your tasks, line by line, the oldest first."""
        here, who = self._here, self._here.who()
        task = None if task_id is None else self._find(task_id).number
        try:
            lines = journal.read_journal(
                here.world, here.lane, owner=who.owner, since=since_seq, limit=limit, task=task
            )
        except NotFound:
            lines = []
        return JournalPage(rows=[journal_row(line) for line in lines], last_seq=lines[-1].seq if lines else since_seq)

    def _find(self, task_id: str) -> Task:
        here = self._here
        return here.seats.at(here.lane, here.who().owner).task(task_id)
