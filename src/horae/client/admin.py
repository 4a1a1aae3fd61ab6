"""Document 003's administration: jobs, their log, and cleaning it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from horae.api.operation import DELETE, GET, PAGES, POST, PUT, Call, Listing, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.admin_answers import JobDetail, JobState, JobTriggered, LogCleaned, LogLine


class Admin(Room[S]):
    """Needs a token with the scope ``admin``; *owner* is whose, the house's own unless told."""

    @GET("/admin/job/list")
    def list(
        self, *, owner: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Call[tuple[JobState, ...]]:
        """All jobs and how they are doing, by id; *after* is the last id of the page before."""
        return Call(read=reading.many(JobState), query=given(owner=owner, limit=limit, after=after))

    @GET("/admin/job/get")
    def get(self, job_id: str, *, owner: str | None = None) -> Call[JobDetail]:
        """One job: how it is doing, what it runs."""
        return Call(read=reading.one(JobDetail), query=given(id=job_id, owner=owner))

    @POST("/admin/job/trigger")
    def trigger(
        self,
        job_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        owner: str | None = None,
        reason: str = "",
    ) -> Call[JobTriggered]:
        """Run a job once, now; *parameters* win over its own."""
        query = given(id=job_id, owner=owner, reason=reason or None)
        return Call(read=reading.one(JobTriggered), query=query, body=parameters)

    @PUT("/admin/job/update-status")
    def update_status(
        self, job_id: str, enabled: bool, *, ephemeral: bool = False, owner: str | None = None, reason: str = ""
    ) -> Call[JobState]:
        """Switch a job on or off: for good, or with *ephemeral* until a worker of its application starts again."""
        body = given(id=job_id, enabled=enabled, ephemeral=ephemeral or None, reason=reason or None)
        return Call(read=reading.one(JobState), query=given(owner=owner), body=body)

    @PAGES("/admin/job-log/page")
    def log(
        self,
        *,
        job_id: str | None = None,
        status: str | None = None,
        started_from: datetime | None = None,
        started_to: datetime | None = None,
        owner: str | None = None,
        limit: int | None = None,
    ) -> Listing[LogLine]:
        """The log, the newest run first."""
        query = {
            **given(jobId=job_id, status=status, to=started_to, owner=owner),
            "from": given(at=started_from).get("at"),
        }
        return Listing(Call(read=reading.page(LogLine, "list"), query=query), limit, size="pageSize", most=200)

    @GET("/admin/job-log/get")
    def log_line(self, run_id: str) -> Call[LogLine]:
        """One run, such as ``job_12.1``."""
        return Call(read=reading.one(LogLine), query={"id": run_id})

    @DELETE("/admin/job-log/clean")
    def clean_log(
        self,
        *,
        before: datetime | None = None,
        older_than_days: float | None = None,
        job_id: str | None = None,
        owner: str | None = None,
        dry_run: bool = False,
        confirm: bool = False,
        reason: str = "",
    ) -> Call[LogCleaned]:
        """Forget old runs, by age and by job; while ``more`` is true there are more than one call removes."""
        query = given(
            before=before,
            olderThanDays=older_than_days,
            jobId=job_id,
            owner=owner,
            dry_run=dry_run or None,
            confirm=confirm or None,
            reason=reason or None,
        )
        return Call(read=reading.one(LogCleaned), query=query)
