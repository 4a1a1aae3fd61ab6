"""Users' own scheduled tasks (document 001)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from horae.api.operation import DELETE, GET, PAGES, POST, PUT, Call, Listing, Room, S, matching
from horae.api.values import given, to_json
from horae.client import reading
from horae.client.schedule_answers import Task, TaskPreview, TaskReasons, TaskRun, TaskTriggered


class Terms(TypedDict, total=False):
    """What a user says about a task. A ``next_run_at`` without an offset is a time of the task's own zone."""

    name: str
    enabled: bool
    schedule_type: str
    schedule_expr: str | int
    timezone: str
    payload: Mapping[str, Any]
    next_run_at: datetime | str
    handler: str
    day_match: str
    lenient: bool


class Tasks(Room[S]):
    """Needs a token with the scope ``tasks``; everybody sees only their own. *lang* is en or zh, for words."""

    @PAGES("/scheduled-tasks")
    def list(self, *, user_id: str | None = None, lang: str | None = None, limit: int | None = None) -> Listing[Task]:
        """Your tasks, the last changed first; an operator sees everybody's, or those of *user_id*."""
        return Listing(Call(read=reading.page(Task), query=given(user_id=user_id, lang=lang)), limit)

    @POST("/scheduled-tasks")
    def create(
        self, *, idempotency_key: str | None = None, lang: str | None = None, **terms: Unpack[Terms]
    ) -> Call[Task]:
        """Make a task; ``schedule_type`` is cron (the default), interval or once.

        Each call has a key of its own, so that a try that is repeated because its answer was lost makes no second one.
        """
        query, body = given(lang=lang), _told(terms)
        return Call(read=reading.one(Task), query=query, body=body, creates=True, key=idempotency_key)

    @GET("/scheduled-tasks/{task_id}")
    def get(self, task_id: str, *, lang: str | None = None) -> Call[Task]:
        """One task, with all that is needed to see why it does or does not run."""
        return Call(read=reading.one(Task), at={"task_id": task_id}, query=given(lang=lang))

    @PUT("/scheduled-tasks/{task_id}")
    def update(
        self, task_id: str, *, version: int | None = None, lang: str | None = None, **terms: Unpack[Terms]
    ) -> Call[Task]:
        """Change what is named; the rest stays. With *version*, only if it is still that; else VersionConflict."""
        query, headers = given(lang=lang), matching(version)
        return Call(read=reading.one(Task), at={"task_id": task_id}, query=query, body=_told(terms), headers=headers)

    @DELETE("/scheduled-tasks/{task_id}")
    def delete(self, task_id: str, *, version: int | None = None) -> Call[None]:
        """Delete a task and its runs; an attempt under way goes on to its end."""
        return Call(read=reading.nothing, at={"task_id": task_id}, headers=matching(version))

    @PAGES("/scheduled-tasks/{task_id}/runs")
    def runs(self, task_id: str, *, limit: int | None = None) -> Listing[TaskRun]:
        """What a task ran, the newest first, an attempt under way among them."""
        return Listing(Call(read=reading.page(TaskRun), at={"task_id": task_id}), limit)

    @POST("/scheduled-tasks/{task_id}/trigger")
    def trigger(
        self, task_id: str, payload: Mapping[str, Any] | None = None, *, reason: str = ""
    ) -> Call[TaskTriggered]:
        """Run a task once, now, enabled or not; *payload* wins over its own, this once."""
        body = given(payload=payload, reason=reason or None)
        return Call(read=reading.one(TaskTriggered), at={"task_id": task_id}, body=body)

    @GET("/scheduled-tasks/{task_id}/preview")
    def preview(self, task_id: str, *, count: int | None = None, lang: str | None = None) -> Call[TaskPreview]:
        """When a task will run, in UTC and in its zone, and what each change of clocks does to it."""
        return Call(read=reading.one(TaskPreview), at={"task_id": task_id}, query=given(count=count, lang=lang))

    @POST("/scheduled-tasks/preview")
    def preview_new(
        self, *, count: int | None = None, lang: str | None = None, **terms: Unpack[Terms]
    ) -> Call[TaskPreview]:
        """When a task would run that is only thought of; nothing is stored."""
        query = given(count=count, lang=lang)
        return Call(read=reading.one(TaskPreview), query=query, body=_told(terms), repeats=True)

    @GET("/scheduled-tasks/{task_id}/why")
    def why(self, task_id: str) -> Call[TaskReasons]:
        """Why a task does, or does not, run."""
        return Call(read=reading.one(TaskReasons), at={"task_id": task_id})

    @POST("/scheduled-tasks/{task_id}/release")
    def release(self, task_id: str, *, reason: str = "", lang: str | None = None) -> Call[Task]:
        """Take a running task from its worker; it runs again at once, and what that worker says no longer counts."""
        body = given(reason=reason or None)
        return Call(read=reading.one(Task), at={"task_id": task_id}, query=given(lang=lang), body=body)


def _told(terms: Terms) -> dict[str, Any]:
    """As JSON; a naive instant stays one, because it is read in the task's zone."""
    return {
        name: value.isoformat() if isinstance(value, datetime) and value.tzinfo is None else to_json(value)
        for name, value in terms.items()
    }
