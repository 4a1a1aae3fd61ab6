"""Take jobs from a service over HTTP, in a process without a database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn, TypeVar, cast

from horae.actions.jobs.claims import MAX_PULL
from horae.actions.jobs.held_jobs import Ending, EndingOutcome, Hold, Settled
from horae.actions.jobs.steps import encode_result
from horae.api.admin import Admin, definition_body
from horae.api.jobs.held import Heartbeat, WorkerState
from horae.api.jobs.remote import core_job
from horae.api.jobs.room import Jobs
from horae.api.operation import Sender
from horae.core.governance.budgets import Spending
from horae.core.jobs.job import Change, Job, Lease, Outcome, job_number, settlement
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.payloads import decode, encode
from horae.core.jobs.steps import KeptResult
from horae.errors import (
    Forbidden,
    HoraeError,
    LeaseLost,
    NeedsDatabase,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from horae.ports.claims import Renewed
from horae.ports.definitions import StoredDefinition
from horae.ports.workers import Node, Upcoming
from horae.ports.world import Clock

log = logging.getLogger("horae.worker")
T = TypeVar("T")
# Only an operator can resolve these errors: the worker keeps its jobs and retries, as with a service that is away.
NOT_NOW = (Unauthorized, Forbidden, TooManyRequests)


def _not_now(settled: Settled) -> bool:
    """Return whether an ending could not be written now; then it is missing from the answer, and is tried again."""
    return not settled.accepted and settled.state == "running"


class HttpSource:
    """The job source of a worker that talks to a service.

    *jobs* gives up soon, because the worker's loops retry by themselves and leases expire meanwhile. *patient* retries
    longer; it is for calls of handlers, which would fail otherwise. *declare* says before the first claim what the
    worker can run, so that the service masks what is sensitive and can ask for arguments.
    """

    def __init__(
        self,
        jobs: Jobs[Sender],
        patient: Jobs[Sender],
        clock: Clock,
        max_bytes: int,
        declare: Callable[[], object] | None = None,
    ) -> None:
        self._declare = declare
        self._jobs = jobs
        self._patient = patient
        self._clock = clock
        self._max_bytes = max_bytes

    def claim(self, queue: str, limit: int, *, worker_id: str, lease: timedelta) -> list[Job]:
        self._declare_once()
        most = min(limit, MAX_PULL)
        taken = _ask(lambda: self._jobs.claim(worker_id, queues=[queue], limit=most, lease=lease))
        return [core_job(job) for job in taken]

    def _declare_once(self) -> None:
        declare = self._declare
        if declare is not None:
            try:
                _ask(declare)
            except ServiceUnavailable as problem:
                if not isinstance(problem.__cause__, Forbidden):
                    raise
                log.debug("the token may not declare what this worker can run: %s", problem.__cause__)
            self._declare = None

    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        worker = None if node is None else _heartbeat(node)
        upcoming = _ask(lambda: self._jobs.peek(queues, worker_id=worker_id, worker=worker, node_id=node_id))
        due = None if upcoming.due_in is None else self._clock.now() + upcoming.due_in
        stopped = frozenset(job_number(job_id) for job_id in upcoming.cancelled)
        return Upcoming(due, None, cancelled=stopped, drain=upcoming.drain)

    def settle(self, batch: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        settled = _ask(lambda: self._jobs.settle([ending_of(job, outcome) for job, outcome in batch]))
        answers = zip(batch, settled, strict=True)
        return {job.id: self._change(job, outcome, each) for (job, outcome), each in answers if not _not_now(each)}

    def _change(self, job: Job, outcome: Outcome, settled: Settled) -> Change | None:
        """Return the change of a settled job. The service decides it; only the state is known here."""
        if not settled.accepted or settled.state is None:
            return None
        return replace(settlement(job, outcome, now=self._clock.now(), roll=0.0).change, state=settled.state)

    def renew(self, leases: Sequence[Lease], *, lease: timedelta) -> Renewed:
        holds = [Hold(each.job_id, each.token) for each in leases]
        found = [
            renewal
            for first in range(0, len(holds), MAX_PULL)
            for renewal in _ask(lambda first=first: self._jobs.renew(holds[first : first + MAX_PULL], lease=lease))  # type: ignore[misc]
        ]
        return Renewed(
            held=frozenset(job_number(each.job_id) for each in found if each.held),
            cancelled=frozenset(job_number(each.job_id) for each in found if each.cancel_requested),
            busy=frozenset(job_number(each.job_id) for each in found if each.busy),
        )

    def progress(self, lease: Lease, value: Any) -> None:
        encode(value, "progress", self._max_bytes)
        self._note(lease, value=value)

    def checkpoint(self, lease: Lease, value: Any) -> None:
        encode(value, "checkpoint", self._max_bytes)
        self._note(lease, checkpoint=value)

    def _note(self, lease: Lease, **values: Any) -> None:
        try:
            self._patient.progress(lease.job_id, lease.token, **values)
        except NotFound:  # the job has ended and was deleted, so no worker holds it
            raise LeaseLost(lease.job_id, lease.token) from None

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        return self._patient.parents(lease.job_id)

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        try:
            return self._patient.spend(lease.job_id, lease.token, cost, key=key)
        except NotFound:
            raise LeaseLost(lease.job_id, lease.token) from None

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        try:
            self._patient.spent(lease.job_id, lease.token, cost, key=key)
        except NotFound:
            raise LeaseLost(lease.job_id, lease.token) from None

    def once(
        self,
        lease: Lease,
        step: str,
        work: Callable[[Any], Any],
        *,
        limit: timedelta | None = None,
        held_for: timedelta | None = None,
    ) -> NoReturn:
        raise NeedsDatabase("once_needs_database", step=step)

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        try:
            known = _ask(lambda: self._patient.recall_step(lease.job_id, lease.token, step))
        except NotFound:
            raise LeaseLost(lease.job_id, lease.token) from None
        return KeptResult(known.value) if known.kept else None

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        encode_result(step, value, self._max_bytes)
        try:
            return _ask(lambda: self._patient.keep_step(lease.job_id, lease.token, step, value)).value
        except (NotFound, LeaseLost):
            raise LeaseLost(lease.job_id, lease.token, step=step) from None

    def withdraw(self) -> None:
        """Do nothing: a claim over HTTP has its answer or none."""

    def leave(self, node: Node) -> None:
        _ask(lambda: self._jobs.peek((), worker=replace(_heartbeat(node), state="ended")))

    def hears(self) -> bool:
        return False

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None


class NoStore:
    """The store of a process that only talks to a service: every use raises ``NeedsDatabase`` with what to do."""

    def close(self) -> None:
        """Do nothing: nothing was opened."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsDatabase("store_needs_database", name=name)


def declare_to(admin: Admin[Sender], definitions: Sequence[StoredDefinition], app: str) -> None:
    """Tell a service what a worker can run."""
    for start in range(0, len(definitions), MAX_PULL):
        some = [definition_body(each) for each in definitions[start : start + MAX_PULL]]
        admin.store_definitions(some, app=app)


def _ask(ask: Callable[[], T]) -> T:
    """Call the service; report a refusal or an internal error of the service as ``ServiceUnavailable``."""
    try:
        return ask()
    except NOT_NOW as problem:
        raise ServiceUnavailable("service_refuses_worker", problem=str(problem)) from problem
    except HoraeError as problem:
        if type(problem) is HoraeError:  # an error of the service itself, such as status 500
            raise ServiceUnavailable("service_failed", problem=str(problem)) from problem
        raise


def ending_of(job: Job, outcome: Outcome) -> Ending:
    """Return an outcome as it is reported."""
    return Ending(
        job.id,
        job.token,
        cast("EndingOutcome", outcome.ending),
        error=outcome.error,
        result=None if outcome.result is None else decode(outcome.result),
        delay=outcome.delay,
        final=outcome.final,
        next_action_at=outcome.next_action_at,
        audit_event_id=outcome.audit_event_id,
        spent=None if outcome.spent is None else dict(outcome.spent),
        lines=() if outcome.lines is None else outcome.lines.lines,
        lines_dropped=0 if outcome.lines is None else outcome.lines.dropped,
    )


def _heartbeat(node: Node) -> Heartbeat:
    return Heartbeat(
        id=node.node_id,
        host=node.host,
        pid=node.pid,
        version=node.version,
        started_at=node.started_at,
        queues=dict(node.queues),
        state=cast("WorkerState", node.state),
        release=node.release,
        busy=None if node.busy is None else dict(node.busy),
        loop_lag=node.loop_lag,
        memory=node.memory,
    )
