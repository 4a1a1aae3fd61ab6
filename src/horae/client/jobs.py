"""Jobs: enqueue them, look at them, act on them by hand; and the worker's side: pull, and say how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from horae.client import reading
from horae.client.answers import Enqueued, Job, Pulled, Reason, Revived, Run
from horae.client.calls import GET, PAGES, POST, Call, Listing, Room, S, given
from horae.clock import SystemDice
from horae.errors import InvalidInput

_dice = SystemDice()


class Jobs(Room[S]):
    """The job queue."""

    # -- enqueue -------------------------------------------------------------------------------------------------

    @POST("/scheduler/jobs")
    def enqueue(
        self,
        handler: str | None = None,
        payload: Any = None,
        *,
        object_type: str | None = None,
        object_id: str | None = None,
        action: str | None = None,
        run_at: datetime | None = None,
        delay_sec: float | None = None,
        priority: str | None = None,
        max_attempts: int | None = None,
        idempotency_key: str | None = None,
        queue: str | None = None,
        tags: Iterable[str] = (),
        unique: str | None = None,
        timeout_sec: float | None = None,
        concurrency_key: str | None = None,
        concurrency_limit: int | None = None,
        retry: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
        after: Iterable[str] = (),
        on_parent_dead: str | None = None,
    ) -> Call[Enqueued]:
        """Store one job: for a handler of yours, or for a governed object (type, id and action).

        It is durable when this returns. Without an *idempotency_key* each call is given one, so that a try that is
        repeated because its answer was lost does not make a second job. The jobs *after*, by id, must succeed first;
        when one of them dies or is cancelled, *on_parent_dead* is ``cancel`` (the default), ``run`` or ``wait``.
        """
        job = given(
            handler=handler,
            payload=payload,
            object_type=object_type,
            object_id=object_id,
            action=action,
            run_at=run_at,
            delay_sec=delay_sec,
            priority=priority,
            max_attempts=max_attempts,
            idempotency_key=idempotency_key,
            queue=queue,
            tags=list(tags) or None,
            unique=unique,
            timeout_sec=timeout_sec,
            concurrency_key=concurrency_key,
            concurrency_limit=concurrency_limit,
            retry=retry,
            trace_id=trace_id,
            after=list(after) or None,
            on_parent_dead=on_parent_dead,
        )
        return Call(reading.one(Enqueued), body=_keyed(job), repeats=_repeats(job))

    @POST("/scheduler/jobs/bulk")
    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> Call[tuple[Enqueued, ...]]:
        """Store up to a thousand jobs in one transaction: all of them, or, when one is refused, none.

        Each is a mapping with the names that :meth:`enqueue` takes.
        """
        told = [given(**job) for job in jobs]
        if not told:
            raise InvalidInput("There is nothing to enqueue; give at least one job.")
        body = {"jobs": [_keyed(job) for job in told]}
        return Call(reading.many(Enqueued, "jobs"), body=body, repeats=all(_repeats(job) for job in told))

    # -- the worker's side ---------------------------------------------------------------------------------------

    @POST("/scheduler/jobs/pull")
    def pull(
        self,
        worker_id: str,
        *,
        limit: int | None = None,
        queues: Iterable[str] | None = None,
        lease_sec: float | None = None,
        wait: float = 0.0,
        now: datetime | None = None,
    ) -> Call[Pulled]:
        """Take due jobs under a lease, waiting up to *wait* seconds (at most 30) for one. *now* is for simulations."""
        body = given(
            worker_id=worker_id,
            limit=limit,
            queues=None if queues is None else list(queues),
            lease_sec=lease_sec,
            wait=wait or None,
            now=now,
        )
        return Call(reading.one(Pulled), body=body, longer=wait)

    @POST("/scheduler/jobs/{job_id}/ack")
    def ack(
        self,
        job_id: str,
        token: int | None = None,
        *,
        result: Any = None,
        worker_id: str | None = None,
        audit_event_id: str | None = None,
        next_action_at: datetime | None = None,
    ) -> Call[Job]:
        """The job is done. Show the *token* of your pull; LeaseLost means that the result no longer counts."""
        body = given(
            token=token,
            result=result,
            worker_id=worker_id,
            audit_event_id=audit_event_id,
            next_action_at=next_action_at,
        )
        return Call(reading.one(Job), at={"job_id": job_id}, body=body)

    @POST("/scheduler/jobs/{job_id}/fail")
    def fail(
        self,
        job_id: str,
        error: str,
        token: int | None = None,
        *,
        retry_delay_sec: float | None = None,
        final: bool = False,
        worker_id: str | None = None,
    ) -> Call[Job]:
        """The attempt failed. It is tried again by its policy or after *retry_delay_sec*; *final*: never again."""
        body = given(
            error=error, token=token, retry_delay_sec=retry_delay_sec, final=final or None, worker_id=worker_id
        )
        return Call(reading.one(Job), at={"job_id": job_id}, body=body)

    @POST("/scheduler/jobs/{job_id}/renew")
    def renew(
        self, job_id: str, token: int, *, lease_sec: float | None = None, worker_id: str | None = None
    ) -> Call[Job]:
        """Keep the job for longer; ``cancel_requested`` in the answer asks you to stop."""
        body = given(token=token, lease_sec=lease_sec, worker_id=worker_id)
        return Call(reading.one(Job), at={"job_id": job_id}, body=body, repeats=True)

    @POST("/scheduler/jobs/{job_id}/progress")
    def progress(
        self, job_id: str, token: int, value: Any = None, *, checkpoint: Any = None, worker_id: str | None = None
    ) -> Call[Job]:
        """Show how far the job is, and keep in *checkpoint* what a later attempt needs to go on from there."""
        body = given(token=token, value=value, checkpoint=checkpoint, worker_id=worker_id)
        return Call(reading.one(Job), at={"job_id": job_id}, body=body, repeats=True)

    @POST("/scheduler/jobs/{job_id}/release")
    def release(self, job_id: str, token: int, *, reason: str = "", worker_id: str | None = None) -> Call[Job]:
        """Give the job back to its queue at once; no attempt is counted."""
        body = given(token=token, reason=reason or None, worker_id=worker_id)
        return Call(reading.one(Job), at={"job_id": job_id}, body=body)

    # -- look ----------------------------------------------------------------------------------------------------

    @GET("/scheduler/jobs/{job_id}")
    def get(self, job_id: str) -> Call[Job]:
        """One job, live or finished."""
        return Call(reading.one(Job), at={"job_id": job_id})

    @PAGES("/scheduler/jobs")
    def list(
        self,
        *,
        status: Iterable[str] = (),
        queue: str | None = None,
        handler: str | None = None,
        tag: str | None = None,
        object_type: str | None = None,
        object_id: str | None = None,
        idempotency_key: str | None = None,
        owner: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Listing[Job]:
        """Jobs, newest first, those older than the job *before*; *limit* is for all pages together.

        The next page is fetched when it is needed.
        """
        query = {
            **given(status=list(status), queue=queue, handler=handler, tag=tag),
            **given(object_type=object_type, object_id=object_id),
            **given(idempotency_key=idempotency_key, owner=owner, before=before),
        }
        return Listing(Call(reading.page(Job, "jobs"), query=query), limit)

    @PAGES("/scheduler/dead-letters")
    def dead_letters(
        self,
        *,
        queue: str | None = None,
        handler: str | None = None,
        tag: str | None = None,
        object_type: str | None = None,
        object_id: str | None = None,
        limit: int | None = None,
    ) -> Listing[Job]:
        """Jobs that gave up, newest first."""
        query = given(queue=queue, handler=handler, tag=tag, object_type=object_type, object_id=object_id)
        return Listing(Call(reading.page(Job, "jobs"), query=query), limit)

    @GET("/scheduler/jobs/{job_id}/runs")
    def runs(self, job_id: str) -> Call[tuple[Run, ...]]:
        """Every attempt at a job, the oldest first."""
        return Call(reading.many(Run, "runs"), at={"job_id": job_id})

    @GET("/scheduler/jobs/{job_id}/why")
    def why(self, job_id: str) -> Call[tuple[Reason, ...]]:
        """Why a job stands where it stands: every reason that holds, the strongest first."""
        return Call(reading.many(Reason, "reasons"), at={"job_id": job_id})

    # -- act -----------------------------------------------------------------------------------------------------

    @POST("/scheduler/jobs/{job_id}/cancel")
    def cancel(self, job_id: str, *, reason: str = "") -> Call[Job]:
        """End a waiting job at once; ask a running one to stop."""
        return Call(reading.one(Job), at={"job_id": job_id}, body=given(reason=reason or None))

    @POST("/scheduler/jobs/{job_id}/revive")
    def revive(self, job_id: str, *, reason: str = "") -> Call[Job]:
        """Give a dead letter all its attempts again, due now."""
        return Call(reading.one(Job), at={"job_id": job_id}, body=given(reason=reason or None))

    @POST("/scheduler/jobs/revive")
    def revive_many(
        self,
        *,
        queue: str | None = None,
        handler: str | None = None,
        tag: str | None = None,
        object_type: str | None = None,
        object_id: str | None = None,
        dry_run: bool = True,
        reason: str = "",
    ) -> Call[Revived]:
        """Give all dead letters that match a new life; only counts them unless *dry_run* is False.

        While ``more`` is true there are more than one call handles.
        """
        body = {
            **given(queue=queue, handler=handler, tag=tag, object_type=object_type, object_id=object_id),
            **given(dry_run=dry_run, reason=reason or None),
        }
        return Call(reading.one(Revived), body=body)

    @POST("/scheduler/jobs/{job_id}/reschedule")
    def reschedule(
        self, job_id: str, *, run_at: datetime | None = None, priority: str | None = None, reason: str = ""
    ) -> Call[Job]:
        """Move a waiting job to another time or priority."""
        body = given(run_at=run_at, priority=priority, reason=reason or None)
        return Call(reading.one(Job), at={"job_id": job_id}, body=body)


def _keyed(job: dict[str, Any]) -> dict[str, Any]:
    """With a key. A governed job has one by what it is for, and ours would hide that two requests mean the same."""
    if "idempotency_key" in job or "object_type" in job:
        return job
    return {**job, "idempotency_key": f"call-{_dice.name(32)}"}


def _repeats(job: dict[str, Any]) -> bool:
    """Whether a second try finds the job of the first: by its key, or a governed one by its planned time."""
    return "object_type" not in job or "idempotency_key" in job or "run_at" in job
