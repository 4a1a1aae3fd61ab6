"""Batches: jobs that belong together, their progress, and the callbacks that follow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from horae.actions.jobs import batch as verbs
from horae.actions.jobs.batch import BatchRequest
from horae.actions.jobs.requests import Request
from horae.api.here import Here
from horae.api.jobs import local
from horae.api.jobs.room import USER_OR_WORKER, request_body
from horae.api.operation import GET, PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none
from horae.api.waits import WAIT, WAIT_TIMEOUT, Wait, check_timeout
from horae.core.cluster.numbers import job_id
from horae.core.cursors import LARGEST, cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.jobs.batch import BatchState, Callback
from horae.core.time.spans import Span
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput, WaitTimeout


def _job(name: str) -> Get:
    def get(batch: Any) -> str | None:
        number = getattr(batch, name)
        return None if number is None else job_id(number)

    return get


@dataclass(frozen=True, kw_only=True)
class JobBatch:
    """Jobs that belong together; ``open``, ``succeeded`` and ``failed`` count them, without callbacks.

    ``state`` is open until the last job has ended; then succeeded, or failed where one is dead or was cancelled.
    ``on_end``, ``on_success`` and ``on_failure`` are the jobs that follow: held until then, and cancelled where their
    outcome did not come.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {name: _job(name) for name in ("on_end", "on_success", "on_failure")}

    id: str
    name: str
    state: BatchState
    total: int
    open: int
    succeeded: int
    failed: int
    created_at: datetime
    owner: str = "system"
    actor: str = ""
    key: str | None = None
    ended_at: datetime | None = None
    cancel_reason: str | None = None
    on_end: str | None = None
    on_success: str | None = None
    on_failure: str | None = None

    @property
    def progress(self) -> float:
        """Return the share of its jobs that have ended, from 0 to 1."""
        return (self.total - self.open) / self.total


@dataclass(frozen=True)
class BatchJob:
    """A job of a batch, by its id."""

    __pydantic_config__ = PYDANTIC

    id: str


class Batches(Room[S]):
    """Batches of jobs."""

    @POST("/batches", *USER_OR_WORKER)
    def create(
        self,
        jobs: Iterable[Request],
        *,
        name: str = "",
        key: str | None = None,
        on_end: Request | None = None,
        on_success: Request | None = None,
        on_failure: Request | None = None,
        reason: str = "",
    ) -> Call[JobBatch]:
        """Store jobs as one batch: all of them, or, when one is refused, none.

        When all of them have ended, *on_end* runs, and *on_success* or *on_failure*, each exactly once. The same *key*
        with the same request again is the batch that is there.
        """
        asked = list(jobs)
        if not asked:
            raise InvalidInput("batch_empty")
        given: dict[Callback, Request | None] = {
            "on_end": on_end, "on_success": on_success, "on_failure": on_failure
        }  # fmt: skip
        callbacks = {outcome: each for outcome, each in given.items() if each is not None}

        def store(here: Here) -> Any:
            return local.create_batch(here, BatchRequest(asked, name, key, callbacks=callbacks, reason=reason))

        body = {
            "jobs": [request_body(each) for each in asked],
            **drop_none(name=name or None, key=key, reason=reason or None),
        }
        body |= {outcome: request_body(each) for outcome, each in callbacks.items()}
        return Call(JobBatch, store, body=body, creates=key is None, repeats=key is not None)

    @PAGES("/batches", *USER_OR_WORKER)
    def list(
        self, *, state: BatchState | Iterable[BatchState] = (), owner: str | None = None, limit: int | None = None
    ) -> Listing[JobBatch]:
        """List batches, newest first."""
        states = (state,) if isinstance(state, str) else tuple(state)

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            (before,) = read_cursor(cursor, int, least=1, most=LARGEST - 1) or [None]
            seen = here.caller.filter_owner(owner)
            found, further = verbs.find(here.world, owner=seen, states=states, limit=size, before=before)
            return found, None if further is None else cursor_from([further])

        first = Call[Page[JobBatch]](Page[JobBatch], query=drop_none(state=states, owner=owner))
        return Listing(first, limit, fetch, order=attrgetter("created_at", "number"))

    @GET("/batches/{batch_id}", *USER_OR_WORKER)
    def get(self, batch_id: str) -> Call[JobBatch]:
        """Return one batch with its progress."""
        return Call(JobBatch, _read(batch_id), at={"batch_id": batch_id})

    @PAGES("/batches/{batch_id}/jobs", *USER_OR_WORKER)
    def jobs(self, batch_id: str, *, state: BatchState | None = None, limit: int | None = None) -> Listing[BatchJob]:
        """List the jobs of a batch in order; with *state* those that are open, have succeeded or have failed."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            (after,) = read_cursor(cursor, int, least=1, most=LARGEST - 1) or [0]
            owner = here.reach["owner"]
            found, further = verbs.members(here.world, batch_id, state=state, limit=size, after=after, owner=owner)
            numbers = [BatchJob(job_id(number)) for number in found]
            return numbers, None if further is None else cursor_from([further])

        first = Call[Page[BatchJob]](Page[BatchJob], at={"batch_id": batch_id}, query=drop_none(state=state))
        return Listing(first, limit, fetch)

    @WAIT("/batches/{batch_id}/wait", *USER_OR_WORKER)
    def wait(self, batch_id: str, *, timeout: Span = WAIT_TIMEOUT) -> Wait[JobBatch]:
        """Wait until all jobs of a batch have ended, and return it: succeeded or failed.

        ``WaitTimeout`` when some are still open then (five minutes unless given); they are left alone.
        """
        patience = check_timeout(timeout)

        def ask(seconds: float) -> Call[JobBatch]:
            query = {"timeout": seconds}
            return Call(JobBatch, _read(batch_id), at={"batch_id": batch_id}, query=query, longer=seconds)

        def overdue(batch: JobBatch) -> WaitTimeout:
            return WaitTimeout("batch_not_ended_in_time", id=batch.id, open=batch.open, timeout=patience)

        return Wait(ask, has_ended, overdue, patience)

    @POST("/batches/{batch_id}/cancel", *USER_OR_WORKER)
    def cancel(self, batch_id: str, *, reason: str = "") -> Call[JobBatch]:
        """Cancel every job of a batch that has not ended; running ones are asked to stop."""

        def act(here: Here) -> Any:
            return verbs.cancel(here.world, batch_id, actor=here.actor, reason=reason, owner=here.reach["owner"])

        return Call(JobBatch, act, at={"batch_id": batch_id}, body=drop_none(reason=reason or None))


def has_ended(batch: JobBatch) -> bool:
    """Return whether all jobs of a batch have ended."""
    return batch.state != "open"


def _read(batch_id: str) -> Any:
    return lambda here: verbs.get(here.world, batch_id, owner=here.reach["owner"])
