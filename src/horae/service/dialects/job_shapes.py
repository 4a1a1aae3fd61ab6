"""Shapes of jobs in document 000's names and words, with Horae's own fields beside them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from horae.actions.jobs.keys import given_key, prefix_of, stored_key
from horae.actions.jobs.requests import Request
from horae.api import admin
from horae.core.cluster.shard_keys import without_shard
from horae.core.jobs.job import GOVERN, Job, Run, State
from horae.core.jobs.reasons import Reason
from horae.core.jobs.retry import DEFAULT_RETRY, Retry
from horae.core.traces import trace_id_of
from horae.errors import InvalidInput
from horae.service.fields import JOB_ID, LONGEST, Body, Instant, Seconds
from horae.service.inputs import ReasonBody
from horae.words.languages import Language

SCHEDULER = admin.SCHEDULER  # the default queue of this dialect: in-process workers serve it only where they name it
Status = Literal["queued", "running", "succeeded", "failed", "dead_letter", "cancelled"]
WORDS: dict[State, Status] = {
    "queued": "queued",
    "running": "running",
    "succeeded": "succeeded",
    "dead": "dead_letter",
    "cancelled": "cancelled",
}


Text = Annotated[str, Field(max_length=255)]


class RetryShape(Body):
    kind: Literal["none", "fixed", "exponential"] = "fixed"
    delay_sec: Seconds = 300
    factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 2.0
    cap_sec: Seconds = 3600
    jitter: bool = True

    def policy(self, attempts: int) -> Retry:
        if self.kind == "none":
            return Retry.none()
        delay, cap = timedelta(seconds=self.delay_sec), timedelta(seconds=self.cap_sec)
        return Retry(self.kind, attempts=attempts, delay=delay, factor=self.factor, cap=cap, jitter=self.jitter)


class RetryPolicy(BaseModel):
    """The retry policy of a job."""

    kind: str = Field(examples=["fixed"])
    delay_sec: float = Field(examples=[300])
    factor: float
    cap_sec: float
    jitter: bool

    @classmethod
    def of(cls, retry: Retry) -> Self:
        delay, cap = retry.delay.total_seconds(), retry.cap.total_seconds()
        return cls(kind=retry.kind, delay_sec=delay, factor=retry.factor, cap_sec=cap, jitter=retry.jitter)


class JobRequest(Body):
    """A job for a governed object, or any other for a handler of yours."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "object_type": "cognition",
                    "object_id": "cg_123",
                    "action": "revalidate",
                    "run_at": "2030-02-21T00:00:00Z",
                    "priority": "medium",
                },
                {"handler": "resize", "payload": {"image": 7}, "delay_sec": 60, "idempotency_key": "resize:7"},
            ]
        }
    )

    object_type: Literal["memory", "experience", "cognition"] | None = None
    object_id: Annotated[str, Field(max_length=150)] | None = None
    action: Literal["verify", "revalidate", "decay", "archive", "reinstate-check"] | None = None
    run_at: Instant | None = Field(default=None, description="Not before; the past is refused. Now, when left out.")
    delay_sec: Seconds | None = None
    priority: Literal["low", "medium", "high"] = "medium"
    max_attempts: Annotated[int, Field(ge=1, le=1000)] | None = None
    idempotency_key: Text | None = None
    handler: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description=f"What to run; `{GOVERN}` for a governed object."
    )
    payload: Any = None
    queue: Annotated[str, Field(max_length=100)] = SCHEDULER
    tags: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=50)] = Field(default=[])
    unique: Text | None = Field(default=None, description="A name that only one unfinished job may have.")
    timeout_sec: Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)] | None = None
    concurrency_key: Annotated[str, Field(max_length=100)] | None = None
    concurrency_limit: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    retry: RetryShape | None = None
    trace_id: Annotated[str, Field(max_length=64)] | None = None
    after: Annotated[list[Annotated[str, Field(pattern=JOB_ID.pattern)]], Field(max_length=100)] = Field(
        default=[], description="Jobs of yours that must succeed first."
    )
    on_parent_dead: Literal["cancel", "run", "wait"] = Field(
        default="cancel",
        description="When one of those dies or is cancelled: `cancel` this one too (reviving that one brings it back), "
        "`run` it all the same, or let it `wait`.",
    )
    shard_key: Annotated[str, Field(max_length=100)] | None = Field(
        default=None,
        description="In a cluster of databases: what decides where a job of the house is kept; its keys and names are "
        "unique within it. On a single database it changes nothing.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        named = [self.object_type, self.object_id, self.action]
        if any(part is not None for part in named) and None in named:
            raise InvalidInput("object_parts_missing")
        if self.handler is None and None in named:
            raise InvalidInput("object_or_handler_missing")
        if self.retry is not None and self.retry.kind == "none" and self.max_attempts not in (None, 1):
            raise InvalidInput("retry_none_with_attempts")
        return self

    def request(self, owner: str, key: str | None = None) -> Request:
        """Return the request to the queue for a tenant; *key* is that of the header."""
        if key is not None and self.idempotency_key not in (None, key):
            raise InvalidInput("idempotency_keys_differ", field="idempotency_key")
        attempts = self.max_attempts or DEFAULT_RETRY.attempts
        default = DEFAULT_RETRY if self.max_attempts is None else Retry.fixed(DEFAULT_RETRY.delay, attempts)
        return Request(
            GOVERN if self.handler is None else self.handler,
            payload=self.payload,
            queue=self.queue,
            priority=self.priority,
            run_at=self.run_at,
            delay=None if self.delay_sec is None else timedelta(seconds=self.delay_sec),
            owner=owner,
            retry=default if self.retry is None else self.retry.policy(attempts),
            timeout=None if self.timeout_sec is None else timedelta(seconds=self.timeout_sec),
            key=key if self.idempotency_key is None else self.idempotency_key,
            unique=self.unique,
            concurrency_key=stored_key(owner, self.concurrency_key),
            concurrency_limit=self.concurrency_limit,
            tags=tuple(self.tags),
            trace_id=self.trace_id,
            object_type=self.object_type,
            object_id=self.object_id,
            action=self.action,
            after=tuple(dict.fromkeys(self.after)),
            on_parent_dead=self.on_parent_dead,
            shard_key=self.shard_key,
            strict=True,
        )


EXAMPLE: dict[str, Any] = {
    "job_id": "job_12",
    "object_type": "cognition",
    "object_id": "cg_123",
    "action": "revalidate",
    "run_at": "2030-02-21T00:00:00Z",
    "priority": "medium",
    "attempt": 0,
    "max_attempts": 3,
    "idempotency_key": "cg_123:revalidate:2030-02-21T00:00:00Z",
    "status": "running",
    "last_error": None,
    "queue": SCHEDULER,
    "handler": GOVERN,
    "payload": {},
    "owner": "alice",
    "token": 1,
    "worker_id": "worker-1",
    "leased_until": "2030-02-21T00:02:00Z",
    "planned_at": "2030-02-21T00:00:00Z",
    "created_at": "2030-02-20T08:00:00Z",
    "started_at": "2030-02-21T00:00:00Z",
    "finished_at": None,
    "timeout_sec": None,
    "tags": [],
    "unique": None,
    "concurrency_key": None,
    "trace_id": None,
    "progress": None,
    "checkpoint": None,
    "result": None,
    "cancel_requested": False,
    "cancel_reason": None,
    "held": False,
    "retry": {"kind": "fixed", "delay_sec": 300.0, "factor": 2.0, "cap_sec": 3600.0, "jitter": True},
}


class JobShape(BaseModel):
    """A job, as the worker protocol shows it."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    job_id: str = Field(examples=["job_12"])
    object_type: str | None
    object_id: str | None
    action: str | None
    run_at: Instant
    priority: str
    attempt: int = Field(description="Ended failures and losses.")
    max_attempts: int
    idempotency_key: str | None
    status: Status
    last_error: str | None
    queue: str
    handler: str
    payload: Any
    owner: str
    token: int = Field(description="Names the current holder; the attempt can only be ended with it.")
    worker_id: str | None
    leased_until: Instant | None
    planned_at: Instant
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    timeout_sec: float | None
    tags: tuple[str, ...]
    unique: str | None
    concurrency_key: str | None
    trace_id: str | None
    progress: Any
    checkpoint: Any
    result: Any
    cancel_requested: bool
    cancel_reason: str | None
    held: bool = Field(description="It waits for others: a full limit, or jobs that must succeed first.")
    retry: RetryPolicy

    @classmethod
    def of(cls, job: Job, **more: Any) -> Self:
        same = {name: getattr(job, name) for name in SAME}
        return cls(
            job_id=job.id,
            idempotency_key=without_shard(job.key),
            unique=without_shard(job.unique),
            status=WORDS[job.state],
            timeout_sec=None if job.timeout is None else job.timeout.total_seconds(),
            concurrency_key=given_key(job.owner, job.concurrency_key),
            trace_id=trace_id_of(job.trace_id),
            held=bool(job.held),
            retry=RetryPolicy.of(job.retry),
            **same,
            **more,
        )


DERIVED = {
    "job_id", "idempotency_key", "unique", "status", "timeout_sec", "concurrency_key", "trace_id", "held", "retry",
}  # fmt: skip
SAME = tuple(name for name in JobShape.model_fields if name not in DERIVED)


class ObjectShape(BaseModel):
    """A stored object, as the worker protocol shows it."""

    object_type: str = Field(examples=["cognition"])
    object_id: str = Field(examples=["cg_123"])
    status: str = Field(examples=["active"])
    epistemic_state: str | None = Field(examples=["supported"])
    version: int = Field(examples=[4])
    next_action: str | None = Field(examples=["revalidate"])
    next_action_at: Instant | None


ABOUT: dict[str, Any] = {
    "object_type": "cognition",
    "object_id": "cg_123",
    "status": "active",
    "epistemic_state": "supported",
    "version": 4,
    "next_action": "revalidate",
    "next_action_at": "2030-03-07T00:00:00Z",
}
QUEUED = EXAMPLE | {"status": "queued", "deduplicated": False, "object": None}
ACKED = EXAMPLE | {"status": "succeeded", "object": ABOUT, "audit_event_id": "aud_7"}


class EnqueuedJob(JobShape):
    model_config = ConfigDict(json_schema_extra={"examples": [QUEUED]})

    deduplicated: bool = Field(description="It was there before: same key, same request.")
    object: ObjectShape | None = Field(
        default=None, description="The stored object whose one job this is; null where none is stored."
    )


class AckedJob(JobShape):
    model_config = ConfigDict(json_schema_extra={"examples": [ACKED]})

    object: ObjectShape | None = Field(description="The stored object after it; null where none is stored.")
    audit_event_id: str | None = Field(description="The entry about it in the audit; the caller's own stands beside.")


class Bulk(Body):
    jobs: Annotated[list[JobRequest], Field(min_length=1, max_length=1000)]


class BulkEnqueued(BaseModel):
    jobs: list[EnqueuedJob]
    created: int = Field(examples=[1000])


class JobPage(BaseModel):
    jobs: list[JobShape]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one.")


class RunShape(BaseModel):
    """One attempt."""

    run_id: str = Field(examples=["job_12.3"])
    job_id: str
    token: int
    outcome: str = Field(examples=["succeeded", "failed", "lost", "running"])
    attempt: int
    worker_id: str | None
    started_at: Instant | None
    finished_at: Instant | None
    error: str | None
    result: Any
    next_action_at: Instant | None
    audit_event_id: str | None
    trace_id: str | None

    @classmethod
    def of(cls, run: Run) -> Self:
        same = {name: getattr(run, name) for name in cls.model_fields if name not in ("run_id", "job_id")}
        return cls(run_id=run.id, job_id=run.job_id, **{**same, "trace_id": trace_id_of(run.trace_id)})


class Runs(BaseModel):
    runs: list[RunShape]


class ReasonShape(BaseModel):
    code: str = Field(examples=["scheduled"])
    text: str = Field(examples=["scheduled for 2030-01-07T06:00:00Z"])


class Reasons(BaseModel):
    job_id: str
    status: Status
    reasons: list[ReasonShape]

    @classmethod
    def of(cls, job: Job, reasons: tuple[Reason, ...], language: Language) -> Self:
        def text_of(reason: Reason) -> str:
            if reason.code == "no_worker":  # callers over HTTP are not listed as workers
                reason = Reason(reason.code, "no_worker_pulls", reason.facts)
            text = reason.in_words(language)
            return text.replace(prefix_of(job.owner), "") if job.concurrency_key else text

        shapes = [ReasonShape(code=reason.code, text=text_of(reason)) for reason in reasons]
        return cls(job_id=job.id, status=WORDS[job.state], reasons=shapes)


class RescheduleJob(ReasonBody):
    run_at: Instant | None = None
    priority: Literal["low", "medium", "high"] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.run_at is None and self.priority is None:
            raise InvalidInput("reschedule_empty")
        return self


class ReviveJobs(ReasonBody):
    """A filter for dead letters. By default they are only counted; `dry_run: false` revives them."""

    queue: Annotated[str, Field(max_length=100)] | None = None
    handler: Annotated[str, Field(max_length=200)] | None = None
    tag: Annotated[str, Field(max_length=100)] | None = None
    object_type: Annotated[str, Field(max_length=100)] | None = None
    object_id: Annotated[str, Field(max_length=150)] | None = None
    dry_run: bool = True


class RevivedJobs(BaseModel):
    matched: int = Field(examples=[17])
    revived: int
    refused: dict[str, str] = Field(description="By job id, what stood in the way.")
    dry_run: bool
    more: bool = Field(description="There are more than one call handles; call again.")
