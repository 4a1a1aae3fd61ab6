"""Document 004's scheduler, for programs that were written for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from horae.api.operation import GET, POST, Call, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.admin_answers import Arranged, Execution, ExecutionStarted, SchedulerStatus


class Compat(Room[S]):
    """Needs a token with the scope ``admin``."""

    @GET("/scheduler/status")
    def status(self) -> Call[SchedulerStatus]:
        """What is scheduled, and what could be."""
        return Call(read=reading.one(SchedulerStatus))

    @POST("/scheduler/jobs/{key}/start")
    def start(self, key: str, interval_minutes: float | None = None) -> Call[Arranged]:
        """Run a job now and then every so many minutes; without a number, one that was stopped at its old times."""
        body = given(interval_minutes=interval_minutes) or None
        return Call(read=reading.one(Arranged), at={"key": key}, body=body, repeats=body is None)

    @POST("/scheduler/jobs/{key}/schedule")
    def schedule(self, key: str, hour: int, minute: int = 0, *, timezone: str | None = None) -> Call[Arranged]:
        """Run a job every day at a time of day."""
        body = given(hour=hour, minute=minute, timezone=timezone)
        return Call(read=reading.one(Arranged), at={"key": key}, body=body, repeats=True)

    @POST("/scheduler/jobs/{key}/stop")
    def stop(self, key: str) -> Call[Arranged]:
        """Let a job fire no more; it can be started again."""
        return Call(read=reading.one(Arranged), at={"key": key}, repeats=True)

    @POST("/scheduler/jobs/{key}/trigger")
    def trigger(self, key: str, params: Mapping[str, Any] | None = None) -> Call[ExecutionStarted]:
        """Run a job once, now."""
        return Call(read=reading.one(ExecutionStarted), at={"key": key}, body={"params": params} if params else None)

    @GET("/scheduler/executions")
    def executions(self, *, job_id: str | None = None, limit: int | None = None) -> Call[tuple[Execution, ...]]:
        """The last runs, the newest first; at most 100."""
        return Call(read=reading.many(Execution), query=given(job_id=job_id, limit=limit))
