"""Jobs: enqueue them, look at them, act on them; and a worker's side: claim, renew, settle."""

# size: one room, with every operation and value of it in one place

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.keys import given_key
from horae.actions.jobs.requests import Request
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.here import Here
from horae.api.jobs import local
from horae.api.jobs.logs import AttemptLog, read_logs
from horae.api.operation import GET, PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import Free, Get, drop_none, free, to_json
from horae.api.waits import WAIT, WAIT_TIMEOUT, Wait, check_timeout
from horae.core.checks import check_instant, texts, whole_number
from horae.core.cluster.numbers import job_id
from horae.core.cluster.shard_keys import without_shard
from horae.core.cursors import LARGEST
from horae.core.dataclass import dataclass
from horae.core.jobs.gathered_jobs import Collect, Debounce, collected
from horae.core.jobs.job import LIVE, NOT_KEPT, Filter, OnParentDead, Priority, State, job_number
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.payloads import label
from horae.core.jobs.retry import DEFAULT_RETRY, Retry, time_limit
from horae.core.jobs.steps import StepResult
from horae.core.time.spans import Span, span
from horae.core.traces import trace_id_of
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput, JobFailed, NotFound, WaitTimeout
from horae.words.languages import Language

if TYPE_CHECKING:  # what only a worker needs
    from horae.actions.jobs.held_jobs import Ending, Hold, Renewal, Settled
    from horae.api.jobs.held import Heartbeat, Upcoming
    from horae.core.governance.budgets import Spending

HIDDEN = {"number", "has_dependents", "held_for", "schedule_id"}  # fields of the core value that are not public
HIDDEN_RUN = {"job_number", "schedule_id"}
DEFAULT = Request("")
# Of a request: what a caller does not decide.
NOT_SENT = {"owner", "planned_at", "part_of", "strict", "checkpoint", "rerun_of"}
USER_OR_WORKER = ("tasks", "worker")
LONGEST_DELAY = timedelta(days=3660)  # before the next attempt
LONGEST_ERROR = 100_000  # characters that are sent; fewer are kept
HTTP_LEASE = timedelta(seconds=120)  # of a worker over HTTP, unless it asks for another


# -- values ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job. ``token`` names its current holder; ``attempt`` counts ended failures and losses; ``collected`` is how
    many values a job has that collects many calls.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "key": lambda job: without_shard(job.key),
        "unique": lambda job: without_shard(job.unique),
        "concurrency_key": lambda job: given_key(job.owner, job.concurrency_key),
        "trace_id": lambda job: trace_id_of(job.trace_id),
        "rerun_of": lambda job: None if job.rerun_of is None else job_id(job.rerun_of),
        "budget": lambda job: None if job.budget is None else job.budget.reference,
        "cost": lambda job: {} if job.budget is None else dict(job.budget.cost),
        "collected": lambda job: None if job.unique is None else collected(without_shard(job.unique), job.payload),
    }

    id: str
    state: State
    handler: str
    queue: str
    priority: Priority
    run_at: datetime
    planned_at: datetime
    created_at: datetime
    payload: Any = None
    owner: str = "system"
    attempt: int = 0
    max_attempts: int = 1
    retry: Retry = DEFAULT_RETRY
    timeout: timedelta | None = None
    token: int = 0
    worker_id: str | None = None
    leased_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    key: str | None = None
    unique: str | None = None
    concurrency_key: str | None = None
    held: str = ""
    tags: tuple[str, ...] = ()
    trace_id: str | None = None
    progress: Any = None
    progressed_at: datetime | None = None
    checkpoint: Any = None
    result: Any = None
    last_error: str | None = None
    cancel_requested: bool = False
    cancel_reason: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    action: str | None = None
    group: str | None = None
    fire_at: datetime | None = None
    rerun_of: str | None = None
    budget: str | None = None
    cost: dict[str, int] = field(default_factory=dict)
    collected: int | None = None

    @property
    def run_id(self) -> str:
        """The current or last attempt: the job and its token."""
        return f"{self.id}.{self.token}"


@dataclass(frozen=True)
class Enqueued:
    """The job that now stands for a request; ``deduplicated`` when it was there before, ``late`` when its time had
    passed. ``gathered``: how many calls it stands for where it is debounced, how many values where it collects.
    """

    __pydantic_config__ = PYDANTIC

    id: str
    state: State
    run_at: datetime
    deduplicated: bool = False
    late: bool = False
    gathered: int = 0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One attempt at a job; ``outcome`` is "running" while it is under way."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {"trace_id": lambda run: trace_id_of(run.trace_id)}

    id: str
    job_id: str
    token: int
    outcome: str
    attempt: int
    handler: str = ""
    queue: str = ""
    owner: str = "system"
    worker_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None
    result: Any = None
    next_action_at: datetime | None = None
    audit_event_id: str | None = None
    trace_id: str | None = None
    fire_at: datetime | None = None


@dataclass(frozen=True)
class Reason:
    """A reason for a job's state: a stable code for programs, and a sentence.

    ``reason`` says which sentence it is and ``facts`` what it is about, so that it can be put into other words.
    """

    code: str
    text: str
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def in_words(self, language: Language) -> str:
        """Return the sentence in a language; as it came where this release does not know it."""
        from horae.words.sentences import why_line

        return why_line(self.reason, self.facts, language) or self.text


@dataclass(frozen=True, kw_only=True)
class Parent:
    """A job that must succeed first; ``state`` is None where it is no longer on record."""

    __pydantic_config__ = PYDANTIC

    id: str
    state: str | None = None
    policy: OnParentDead = "cancel"


@dataclass(frozen=True, kw_only=True)
class Related:
    """What a job belongs to: the key of its schedule, the jobs it waits for, some that wait for it, the fingerprint
    of the group of its last error, and the batch that it is in or is a callback of. ``after`` names the first jobs
    that it was enqueued after, also those that it no longer waits for.
    """

    __pydantic_config__ = PYDANTIC

    schedule: str | None = None
    parents: tuple[Parent, ...] = ()
    children: tuple[str, ...] = ()
    error_group: str | None = None
    batch: str | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JobCount:
    """How many jobs share a state, a queue and a handler."""

    __pydantic_config__ = PYDANTIC

    state: State
    queue: str
    handler: str
    count: int


@dataclass(frozen=True, kw_only=True)
class JobCounts:
    """Counts by state, queue and handler, the largest first.

    Queued and finished jobs are counted down to the job ``down_to``; None means that all were. Running ones are counted
    whatever their age, dead ones among the newest 10,001 dead ones. ``incomplete`` names databases without an answer.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "down_to": lambda found: None if found.down_to is None else job_id(found.down_to),
    }

    groups: tuple[JobCount, ...] = ()
    down_to: str | None = None
    incomplete: tuple[str, ...] = ()


# -- the room ----------------------------------------------------------------------------------------------------------


class Jobs(Room[S]):
    """The job queue."""

    @POST("/jobs", *USER_OR_WORKER, by_queue=True)
    def enqueue(
        self,
        handler: str,
        payload: Any = None,
        *,
        queue: str = DEFAULT.queue,
        priority: Priority = DEFAULT.priority,
        run_at: datetime | None = None,
        delay: Span | None = None,
        key: str | None = None,
        unique: str | None = None,
        retry: Retry = DEFAULT_RETRY,
        timeout: Span | None = None,
        tags: Iterable[str] = (),
        concurrency_key: str | None = None,
        concurrency_limit: int = 1,
        after: Iterable[str] = (),
        on_parent_dead: OnParentDead = DEFAULT.on_parent_dead,
        trace_id: str | None = None,
        object_type: str | None = None,
        object_id: str | None = None,
        action: str | None = None,
        debounce: Debounce | Span | None = None,
        collect: Collect | None = None,
        expect: str | None = None,
        budget: str | None = None,
        cost: Mapping[str, int] | None = None,
        shard_key: str | None = None,
    ) -> Call[Enqueued]:
        """Store one job; it is durable when this returns.

        It is due at *run_at*, after *delay*, or now. The same *key* with the same request returns the job that is
        there; with another request it is a KeyConflict. Only one unfinished job may have the name *unique*. The jobs
        *after* must succeed first; if one of them dies or is cancelled, *on_parent_dead* decides: cancel, run or wait.
        Each attempt draws on *budget*, at most as much as *cost* says: calls, tokens, micros of money. With *debounce*
        only the last of many calls runs; with *collect* all of them run as one job, their lists joined. With *expect*,
        "within 10m" of being due or "by 06:00", a job that has not succeeded by then is recorded and alerted.
        In a cluster *shard_key* decides where a job of the house is kept; its other keys are unique within it.
        """
        if not isinstance(retry, Retry):
            raise InvalidInput("retry_unreadable", value=repr(retry))
        request = Request(
            handler,
            payload,
            queue=queue,
            priority=priority,
            run_at=check_instant(run_at, "run_at"),
            delay=_check_delay(delay),
            key=key,
            unique=unique,
            retry=retry,
            timeout=time_limit(timeout),
            tags=texts(tags, "tags"),
            concurrency_key=concurrency_key,
            concurrency_limit=concurrency_limit,
            after=texts(after, "after"),
            on_parent_dead=on_parent_dead,
            trace_id=trace_id,
            object_type=object_type,
            object_id=object_id,
            action=action,
            debounce=debounce if debounce is None or isinstance(debounce, Debounce) else Debounce(debounce),
            collect=collect,
            expect=None if expect is None else _job_expect(expect),
            budget=budget,
            cost=cost,
            shard_key=shard_key,
        )
        return Call(
            Enqueued,
            lambda here: local.enqueue(here, [request])[0],
            body=request_body(request),
            creates=key is None and object_type is None,  # a governed job has a key by what it is for
            repeats=key is not None or run_at is not None,
        )

    @POST("/jobs/batch", *USER_OR_WORKER, by_queue=True)
    def enqueue_many(self, jobs: Iterable[Request]) -> Call[tuple[Enqueued, ...]]:
        """Store up to a thousand jobs in one transaction: all of them, or, when one is refused, none."""
        requests = list(jobs)
        if not requests:
            raise InvalidInput("no_jobs_given")
        body = {"jobs": [request_body(request) for request in requests]}
        return Call(tuple[Enqueued, ...], lambda here: local.enqueue(here, requests), body=body, creates=True)

    @GET("/jobs/{job_id}", *USER_OR_WORKER, by_queue=True)
    def get(self, job_id: str) -> Call[Job]:
        """Return one job, live or finished."""
        return Call(Job, lambda here: verbs.get(here.world, job_id, **here.reach), at=_at(job_id))

    @PAGES("/jobs", *USER_OR_WORKER, by_queue=True)
    def list(
        self,
        *,
        state: State | Iterable[State] = (),
        queue: str | None = None,
        handler: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        object_type: str | None = None,
        object_id: str | None = None,
        owner: str | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> Listing[Job]:
        """List jobs, newest first; *limit* is for all pages together.

        *where* is a filter in words, such as ``queue:mail error:Timeout -state:dead ended:>-2h``; a mistake in it
        raises ``InvalidFilter`` with its position.
        """
        states = (state,) if isinstance(state, str) else tuple(state)
        wanted = Filter(states, queue, handler, owner, tag, key, object_type, object_id)
        query = drop_none(
            state=states, queue=queue, handler=handler, tag=tag, key=key,
            object_type=object_type, object_id=object_id, owner=owner, q=where,
        )  # fmt: skip
        first, by = Call[Page[Job]](Page[Job], query=query, is_scattered=True), partial(local.place_of, wanted, where)
        return Listing(first, limit, lambda here, *at: local.find(here, wanted, where, *at), order=by, drained=True)

    @GET("/jobs/counts", *USER_OR_WORKER, by_queue=True)
    def counts(self, *, owner: str | None = None, where: str | None = None) -> Call[JobCounts]:
        """Count the jobs that fit a filter by state, queue and handler, over a bounded number of the newest ones."""
        wanted = Filter(owner=owner)

        def fetch(here: Here) -> Any:
            return local.count_groups(here, wanted, where)

        query, gather = drop_none(owner=owner, q=where), over_all(fetch, merges.merge_counts, drained=True)
        return Call(JobCounts, fetch, query=query, gather=gather, is_scattered=True)

    @GET("/jobs/{job_id}/runs", *USER_OR_WORKER, by_queue=True)
    def runs(self, job_id: str) -> Call[tuple[Run, ...]]:
        """Return every attempt at a job, the oldest first."""
        return Call(tuple[Run, ...], lambda here: local.runs(here, job_id), at=_at(job_id))

    @GET("/jobs/{job_id}/logs", *USER_OR_WORKER, by_queue=True)
    def logs(self, job_id: str) -> Call[tuple[AttemptLog, ...]]:
        """Return what each attempt has logged through ``ctx.logger``, the oldest first; it comes when an attempt ends.

        The last 200 lines of an attempt are kept, up to 64 KiB, with secrets masked, for as long as its run. Attempts
        that logged nothing are left out, and so are lost ones, whose worker died with its lines.
        """
        return Call(tuple[AttemptLog, ...], lambda here: read_logs(here, job_id), at=_at(job_id))

    @GET("/jobs/{job_id}/why", *USER_OR_WORKER, by_queue=True)
    def why(self, job_id: str) -> Call[tuple[Reason, ...]]:
        """Return the reasons for a job's state, the strongest first."""
        return Call(tuple[Reason, ...], lambda here: local.reasons(here, job_id), at=_at(job_id))

    @GET("/jobs/{job_id}/related", *USER_OR_WORKER, by_queue=True)
    def related(self, job_id: str) -> Call[Related]:
        """Return what a job belongs to: its schedule, the jobs it waits for and some that wait for it."""
        return Call(Related, lambda here: local.related(here, job_id), at=_at(job_id))

    @WAIT("/jobs/{job_id}/wait", *USER_OR_WORKER, by_queue=True)
    def wait(self, job_id: str, *, timeout: Span = WAIT_TIMEOUT) -> Wait[Job]:
        """Wait until a job has ended, and return it: succeeded, dead or cancelled.

        ``WaitTimeout`` when it has not ended after *timeout* (five minutes unless given; zero looks once). The job is
        left alone, so waiting again is harmless. Any number may wait for one job.
        """
        return _wait(job_id, timeout)

    @WAIT("/jobs/{job_id}/result", *USER_OR_WORKER, by_queue=True)
    def result(self, job_id: str, *, timeout: Span = WAIT_TIMEOUT) -> Wait[Any]:
        """Wait until a job has ended, and return its result.

        ``JobFailed``, with its last error, when it is dead or was cancelled; ``WaitTimeout`` as :meth:`wait` says. A
        service masks sensitive values of the result, as for every reader.
        """
        return _wait(job_id, timeout, is_whole=True, finish=result_of)

    @POST("/jobs/{job_id}/cancel", *USER_OR_WORKER, by_queue=True)
    def cancel(self, job_id: str, *, reason: str = "") -> Call[Job]:
        """End a waiting job at once; ask a running one to stop."""
        return _act(verbs.cancel, job_id, reason)

    @POST("/jobs/{job_id}/revive", *USER_OR_WORKER, by_queue=True)
    def revive(self, job_id: str, *, reason: str = "") -> Call[Job]:
        """Give a dead job all its attempts again, due now."""
        return _act(verbs.revive, job_id, reason)

    @POST("/jobs/{job_id}/reschedule", *USER_OR_WORKER, by_queue=True)
    def reschedule(
        self, job_id: str, *, run_at: datetime | None = None, priority: Priority | None = None, reason: str = ""
    ) -> Call[Job]:
        """Move a waiting job to another time or priority; its planned time and its key stay what they were."""
        return _act(verbs.reschedule, job_id, reason, run_at=check_instant(run_at, "run_at"), priority=priority)

    @POST("/jobs/{job_id}/rerun", *USER_OR_WORKER, by_queue=True)
    def rerun(self, job_id: str, *, payload: Any = None, reason: str = "") -> Call[Enqueued]:
        """Enqueue a new job like one that has ended, due now; its ``rerun_of`` names that one.

        *payload* replaces the old one, for example after a mistake in it was found. Where it says ``[masked]``, as
        readers see sensitive values, the value of the old one stays.
        """

        def rerun_job(here: Here) -> Any:
            return verbs.rerun(here.world, job_id, payload=payload, actor=here.actor, reason=reason, **here.reach)

        return Call(Enqueued, rerun_job, at=_at(job_id), body=drop_none(payload=free(payload), reason=reason or None))

    # -- a worker's side -------------------------------------------------------------------------------------------

    @POST("/jobs/claim", "worker", by_queue=True)
    def claim(
        self,
        worker_id: str,
        *,
        queues: Iterable[str] = (DEFAULT.queue,),
        limit: int = 100,
        lease: Span = HTTP_LEASE,
        wait: Span = 0,
    ) -> Call[tuple[Job, ...]]:
        """Take due jobs under a lease; each is now running, and its ``token`` proves that it is yours.

        *wait* is how long a service holds the call open until there is one; in this process the call returns at once.
        """
        from horae.api.jobs import held

        names = held.check_queues(texts(queues, "queues"))
        held_for, patience = span(lease), held.check_wait(span(wait))
        body = drop_none(worker_id=worker_id, queues=names, limit=limit, lease=held_for, wait=patience or None)
        return Call(
            tuple[Job, ...],
            lambda here: held.claim(here, worker_id, names, limit, held_for),
            body=body,
            is_whole=True,
            longer=patience.total_seconds(),
        )

    @POST("/jobs/peek", "worker", by_queue=True)
    def peek(
        self,
        queues: Iterable[str],
        *,
        worker_id: str | None = None,
        worker: Heartbeat | None = None,
        node_id: str | None = None,
    ) -> Call[Upcoming]:
        """Return in how long the next job of these queues is due, and which jobs of *worker_id* were asked to stop.

        *worker* lists the caller among the workers; ``state="ended"`` takes it off the list. With *node_id*, its id on
        that list, the answer says whether it was asked to drain.
        """
        from horae.api.jobs import held

        names = tuple(dict.fromkeys(texts(queues, "queues")))
        for known, what in ((worker_id, "worker id"), (node_id, "node id")):
            if known is not None:
                label(known, what, 200)
        return Call(
            held.Upcoming,
            lambda here: held.peek(here, names, worker_id, worker, node_id),
            body=drop_none(queues=names, worker_id=worker_id, worker=worker, node_id=node_id),
            repeats=True,
        )

    @POST("/jobs/renew", "worker", by_queue=True)
    def renew(self, holds: Iterable[Hold], *, lease: Span = HTTP_LEASE) -> Call[tuple[Renewal, ...]]:
        """Keep jobs for longer, counted from now; each is answered by itself."""
        from horae.actions.jobs.held_jobs import Renewal, renew_held

        held, until = list(holds), span(lease)
        return Call(
            tuple[Renewal, ...],
            lambda here: renew_held(here.world, held, lease=until, by=here.actor, **here.reach),
            body=drop_none(holds=held, lease=until),
            repeats=True,
        )

    @POST("/jobs/settle", "worker", by_queue=True)
    def settle(self, endings: Iterable[Ending]) -> Call[tuple[Settled, ...]]:
        """End attempts; each is answered by itself, and one that came too late stops no other."""
        from horae.actions.jobs.held_jobs import OUTCOMES, Settled, settle_held

        ended = list(endings)
        for each in ended:
            _check_retry_delay(each.delay, "delay")
            if each.outcome not in OUTCOMES:
                raise InvalidInput("choice_unknown", name="outcome", value=str(each.outcome), choices=list(OUTCOMES))
        return Call(
            tuple[Settled, ...],
            lambda here: settle_held(here.world, ended, by=here.actor, **here.reach),
            body={"endings": [_ending_body(each) for each in ended]},
        )

    @POST("/jobs/{job_id}/ack", "worker", by_queue=True)
    def ack(
        self,
        job_id: str,
        token: int,
        *,
        result: Any = None,
        next_action_at: datetime | None = None,
        audit_event_id: str | None = None,
        spent: Mapping[str, int] | None = None,
    ) -> Call[Job]:
        """End the job as succeeded. LeaseLost means that another worker holds it now, and the result does not count.

        *spent* says what the attempt has cost; without it, what was reserved counts.
        """
        from horae.actions.jobs import endings

        fields = {"result": result, "next_action_at": next_action_at, "audit_event_id": audit_event_id, "spent": spent}
        return _hold(endings.ack, job_id, token, fields, with_actor=True, sent={"result": free(result, "result")})

    @POST("/jobs/{job_id}/fail", "worker", by_queue=True)
    def fail(
        self,
        job_id: str,
        token: int,
        error: str,
        *,
        retry_delay: Span | None = None,
        final: bool = False,
        spent: Mapping[str, int] | None = None,
    ) -> Call[Job]:
        """End the attempt as failed. It is retried by its policy or after *retry_delay*; with *final* never."""
        from horae.actions.jobs import endings

        delay = _check_retry_delay(retry_delay, "retry_delay")
        if len(error) > LONGEST_ERROR:
            raise InvalidInput("text_too_long", name="error", length=len(error), most=LONGEST_ERROR)
        fields = {"error": error, "retry_delay": delay, "final": final, "spent": spent}
        return _hold(endings.fail, job_id, token, fields)

    @POST("/jobs/{job_id}/release", "worker", by_queue=True)
    def release(
        self, job_id: str, token: int, *, reason: str = "", spent: Mapping[str, int] | None = None
    ) -> Call[Job]:
        """Give the job back to its queue at once; no attempt is counted. *spent* is ``{}`` if nothing has begun."""
        from horae.actions.jobs import endings

        return _hold(endings.release, job_id, token, {"reason": reason, "spent": spent})

    @POST("/jobs/{job_id}/progress", "worker", by_queue=True)
    def progress(self, job_id: str, token: int, value: Any = None, *, checkpoint: Any = None) -> Call[Job]:
        """Store the progress of a job, and in *checkpoint* what a later attempt needs to go on from there."""
        from horae.api.jobs import held

        fields = {"value": value, "checkpoint": checkpoint}
        sent = {"value": free(value, "progress"), "checkpoint": free(checkpoint, "checkpoint")}
        return _hold(held.note_progress, job_id, token, fields, repeats=True, sent=sent)

    @POST("/jobs/{job_id}/steps/recall", "worker", by_queue=True)
    def recall_step(self, job_id: str, token: int, name: str) -> Call[StepResult]:
        """Return what an attempt has kept for a step: ask before it runs, and run it only where nothing is kept."""
        from horae.api.jobs import held

        def read(here: Here) -> Any:
            return held.recall_step(here.world, job_id, token, name, **here.reach)

        return Call(StepResult, read, at=_held(job_id, token), body={"token": token, "name": name}, repeats=True)

    @POST("/jobs/{job_id}/steps", "worker", by_queue=True)
    def keep_step(self, job_id: str, token: int, name: str, value: Any = None) -> Call[StepResult]:
        """Keep the result of a step that has run; where one is kept already, that one counts and is returned.

        LeaseLost means that another worker holds the job now: the step has run, and its result is not kept.
        """
        from horae.actions.jobs.steps import encode_result
        from horae.api.jobs import held

        def act(here: Here) -> Any:
            return held.keep_step(here.world, job_id, token, name, value, **here.reach)

        body = {"token": token, "name": name, "value": Free(value, check=lambda made: encode_result(name, made))}
        return Call(StepResult, act, at=_held(job_id, token), body=body, repeats=True)

    @GET("/jobs/{job_id}/parents", "worker", by_queue=True)
    def parents(self, job_id: str) -> Call[tuple[ParentResult, ...]]:
        """Return the jobs that one was enqueued after, in that order, with what they returned: for its handler."""

        def read(here: Here) -> Any:
            return verbs.parent_results(here.world, job_id, **here.reach)

        return Call(tuple[ParentResult, ...], read, at=_at(job_id), is_whole=True)

    @POST("/jobs/{job_id}/spend", "worker", by_queue=True)
    def spend(self, job_id: str, token: int, cost: Mapping[str, int], *, key: str) -> Call[Spending]:
        """Reserve what the next step may cost, before it; the same *key* is reserved once in an attempt.

        Not ``granted``: snooze the job for ``wait``, when its budget is refilled.
        """
        from horae.api.jobs import held
        from horae.core.governance.budgets import Spending, amounts_from

        amounts = amounts_from(cost)

        def act(here: Here) -> Any:
            return held.spend(here.world, job_id, token, amounts, key, **here.reach)

        body = {"token": token, "cost": amounts, "key": key}
        return Call(Spending, act, at=_held(job_id, token), body=body, repeats=True)

    @POST("/jobs/{job_id}/spent", "worker", by_queue=True)
    def spent(self, job_id: str, token: int, cost: Mapping[str, int], *, key: str | None = None) -> Call[Job]:
        """Report what a step has cost, or, without a *key*, the attempt as a whole so far; the last report counts."""
        from horae.api.jobs import held
        from horae.core.governance.budgets import amounts_from

        return _hold(held.report_spent, job_id, token, {"cost": amounts_from(cost), "key": key}, repeats=True)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _at(job_id: str) -> dict[str, str]:
    """Return the id of a job as part of an address, which nothing but an id may be."""
    if not job_id.startswith("job_"):
        raise NotFound("job_id_unreadable", id=job_id)
    job_number(job_id)
    return {"job_id": job_id}


def _held(job_id: str, token: int) -> dict[str, str]:
    whole_number(token, "token", 0, LARGEST)
    return _at(job_id)


def has_ended(job: Job) -> bool:
    """Return whether nothing happens to a job any more, unless a person revives it."""
    return job.state not in LIVE


def _wait(
    job_id: str, timeout: Span, *, is_whole: bool = False, finish: Callable[[Job], Any] | None = None
) -> Wait[Any]:
    patience = check_timeout(timeout)

    def ask(seconds: float) -> Call[Job]:
        return Call(
            Job,
            lambda here: verbs.get(here.world, job_id, **here.reach),
            at=_at(job_id),
            query={"timeout": seconds},
            longer=seconds,
            is_whole=is_whole,
        )

    def overdue(job: Job) -> WaitTimeout:
        return WaitTimeout("job_not_ended_in_time", id=job.id, state=job.state, timeout=patience)

    return Wait(ask, has_ended, overdue, patience, finish)


def result_of(job: Job) -> Any:
    """Return the result of a job that has ended; raise where it has none to give."""
    if job.state == "succeeded":
        if job.result is None and (job.last_error or "").startswith(NOT_KEPT):
            raise NotFound("result_not_kept", id=job.id, why=job.last_error)
        return job.result
    if job.state == "cancelled":
        raise JobFailed("job_was_cancelled", id=job.id, why=job.cancel_reason or job.last_error or "without a reason")
    error = (job.last_error or "no error was recorded").splitlines()[0]
    raise JobFailed("job_is_dead", id=job.id, attempts=job.attempt, error=error)


def _job_expect(value: str) -> str | None:
    from horae.core.jobs.expectations import job_expect  # few jobs have any, and a list of jobs needs none of it

    return job_expect(value)


def _check_delay(delay: Span | None) -> timedelta | None:
    wait = None if delay is None else span(delay)
    if wait is not None and wait < timedelta(0):
        raise InvalidInput("delay_negative", delay=wait.total_seconds())
    return wait


def _check_retry_delay(delay: Span | None, what: str) -> timedelta | None:
    wait = _check_delay(delay)
    if wait is not None and wait > LONGEST_DELAY:
        value, most = wait.total_seconds(), LONGEST_DELAY.days
        raise InvalidInput("span_too_long", name=what, value=value, most_days=most)
    return wait


def _act(verb: Any, job_id: str, reason: str, **changes: Any) -> Call[Job]:
    def act(here: Here) -> Any:
        return verb(here.world, job_id, actor=here.actor, reason=reason, **changes, **here.reach)

    return Call(Job, act, at=_at(job_id), body=drop_none(reason=reason or None, **changes))


def _hold(
    verb: Any,
    job_id: str,
    token: int,
    fields: dict[str, Any],
    *,
    repeats: bool = False,
    with_actor: bool = False,
    sent: Mapping[str, Free | None] | None = None,
) -> Call[Job]:
    def act(here: Here) -> Any:
        by = {"by": here.actor} if with_actor else {}
        return verb(here.world, job_id, token, **fields, **by, **here.reach)

    body = {"token": token, **drop_none(**{**fields, **(sent or {})})}
    return Call(Job, act, at=_held(job_id, token), body=body, repeats=repeats, is_whole=True)


def options_of(request: Request) -> dict[str, Any]:
    """Return a request as the arguments of :meth:`Jobs.enqueue`."""
    return {each.name: getattr(request, each.name) for each in fields(request) if each.name not in NOT_SENT}


def request_body(request: Request) -> dict[str, Any]:
    """Return a request as JSON, without values that are the default."""
    options = options_of(request)
    given = {name: value for name, value in options.items() if value != getattr(DEFAULT, name)}
    return {name: Free(value) if name == "payload" else to_json(value) for name, value in given.items()}


def _ending_body(ending: Ending) -> dict[str, Any]:
    body: dict[str, Any] = to_json(replace(ending, result=None))
    return body if ending.result is None else {**body, "result": Free(ending.result, "result")}
