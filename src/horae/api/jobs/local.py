"""The operations of jobs in this process, on behalf of a caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from horae.actions.consistency import moment
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs import lists
from horae.actions.jobs.batch import BatchRequest, create
from horae.actions.jobs.keys import stored_key
from horae.actions.jobs.masking import mask_for_readers
from horae.actions.jobs.quotas import enqueue_within, has_ample_room, may_meet_another_queue
from horae.actions.jobs.requests import Enqueued, Request
from horae.actions.jobs.together import Asked, enqueue_together
from horae.api.here import Here
from horae.core.cluster.numbers import job_id
from horae.core.cursors import LARGEST, cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.jobs.batch import Batch
from horae.core.jobs.job import Filter, Job, Run
from horae.core.jobs.payloads import label, name
from horae.errors import HoraeError

if TYPE_CHECKING:
    from horae.actions.jobs.queries import GroupCounts, Related
    from horae.core.jobs.reasons import Reason
    from horae.ports.jobs import End

REVIVED_AT_ONCE = 1000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # whatever instant a filter is read at, it leads along the same order


@dataclass(frozen=True, kw_only=True)
class Revived:
    """The number of dead jobs that matched, and the results; ``more`` if one call could not handle them all."""

    matched: int
    revived: int
    dry_run: bool
    more: bool
    refused: dict[str, str]


def enqueue(here: Here, requests: list[Request]) -> list[Enqueued]:
    """Store jobs for the caller: its queues, its limit of unfinished jobs, its own parents."""
    caller = here.caller
    for request in requests:
        caller.require_queue(request.queue)
    for parent in sorted({each for request in requests for each in request.after}):
        verbs.get(here.world, parent, **here.reach)  # waiting for another tenant's job would reveal its state
    owned = [_with_owner(request, caller.owner) for request in requests]
    return enqueue_within(
        here.world, owned, owner=caller.owner, allowed=_allowed(here), queues=caller.queues, actor=here.actor,
        room_left=here.room_left,
    )  # fmt: skip


def enqueue_each(asked: Sequence[tuple[Here, Request]]) -> list[Enqueued | Exception | None]:
    """Store a job for each caller, with one commit; None where a request has to go its own way, as with little room."""
    answers: list[Enqueued | Exception | None] = [None] * len(asked)
    shared: dict[int, Asked] = {}
    for index, (here, request) in enumerate(asked):
        try:
            here.caller.require_queue(request.queue)
            if not may_meet_another_queue([request], here.caller.queues) and has_ample_room(
                here.world, here.owner, _allowed(here), here.room_left
            ):
                shared[index] = Asked(here.world, _with_owner(request, here.owner))
        except HoraeError as refusal:
            answers[index] = refusal
    for index, answer in zip(shared, enqueue_together(list(shared.values())), strict=True):
        answers[index] = answer
    return answers


def create_batch(here: Here, asked: BatchRequest) -> Batch:
    """Store a batch for the caller, under the rules of an enqueue."""
    caller = here.caller
    for parent in sorted({each for request in asked.jobs for each in request.after}):
        verbs.get(here.world, parent, **here.reach)  # waiting for another tenant's job would reveal its state
    owned = BatchRequest(
        [_with_owner(each, caller.owner) for each in asked.jobs],
        asked.name,
        asked.key,
        caller.owner,
        {name: _with_owner(each, caller.owner) for name, each in asked.callbacks.items()},
        asked.reason,
    )
    return create(here.world, owned, actor=here.actor, allowed=_allowed(here))[0]


def _allowed(here: Here) -> int:
    return 0 if here.caller.is_operator else here.max_unfinished_jobs


def _with_owner(request: Request, owner: str) -> Request:
    if owner == request.owner:
        return request
    return replace(request, owner=owner, concurrency_key=stored_key(owner, request.concurrency_key))


def find(
    here: Here, wanted: Filter, where: str | None, cursor: str | None, limit: int, before: str | None = None
) -> tuple[list[Job], str | None]:
    """Return one page of the jobs that the caller sees, those older than *before*; a cursor wins over it.

    *where* is a filter in words; it narrows *wanted*.
    """
    if where is not None:
        from horae.core.jobs.filters import narrow, parse_filter

        wanted = narrow(wanted, parse_filter(where, now=here.world.clock.now()))
    wanted = _check_filter(here, wanted)
    after: str | End | None = before
    if cursor is not None and before is None and lists.is_by_end(wanted):
        end, number = read_cursor(cursor, int, int, most=LARGEST - 1) or (0, 0)
        after = (end, number)
    elif at := read_cursor(cursor, int, least=1, most=LARGEST - 1):
        after = job_id(at[0])
    found, further = verbs.find_page(here.world, wanted, limit=limit, before=after)
    if further is None:
        return found, None
    return found, cursor_from([further] if isinstance(further, int) else list(further))


def place_of(wanted: Filter, where: str | None, job: Job) -> tuple[datetime, int]:
    """Return by what jobs of several databases are merged: when they were made, or ended where the list is by end."""
    is_by_end = job.finished_at is not None and where is not None and "ended" in where and _is_by_end(wanted, where)
    return (job.finished_at or job.created_at) if is_by_end else job.created_at, job.number


@lru_cache(maxsize=256)
def _is_by_end(wanted: Filter, where: str) -> bool:
    from horae.core.jobs.filters import narrow, parse_filter

    return lists.is_by_end(narrow(wanted, parse_filter(where, now=EPOCH)))


def count_groups(here: Here, wanted: Filter, where: str | None) -> GroupCounts:
    """Count the jobs that the caller sees by state, queue and handler."""
    from horae.actions.jobs.queries import count_groups
    from horae.core.jobs.filters import narrow, parse_filter

    if where is not None:
        from horae.core.jobs.filters import narrow, parse_filter

        wanted = narrow(wanted, parse_filter(where, now=here.world.clock.now()))
    return count_groups(here.world, _check_filter(here, wanted))


def related(here: Here, job_id: str) -> Related:
    """Return what a job belongs to."""
    from horae.actions.jobs.queries import related

    return related(here.world, job_id, **here.reach)


def _check_filter(here: Here, wanted: Filter) -> Filter:
    """Return a filter limited to what the caller sees; a value that no job can have is refused."""
    return replace(
        wanted,
        owner=here.caller.filter_owner(wanted.owner),
        queues=tuple(sorted(here.caller.queues)),
        queue=None if wanted.queue is None else name(wanted.queue, "queue"),
        handler=None if wanted.handler is None else name(wanted.handler, "handler", 200),
        tag=None if wanted.tag is None else label(wanted.tag, "tag", 100),
        key=None if wanted.key is None else label(wanted.key, "key"),
        object_type=None if wanted.object_type is None else label(wanted.object_type, "object_type"),
        object_id=None if wanted.object_id is None else label(wanted.object_id, "object_id"),
    )


def runs(here: Here, job_id: str) -> list[Run]:
    """Return the attempts at a job, without the sensitive values of its payload in their errors."""
    found = verbs.runs(here.world, job_id, **here.reach)
    if not any(run.error or run.result for run in found):
        return found
    return mask_for_readers(here.world, found, about=verbs.get(here.world, job_id, **here.reach).payload)


def reasons(here: Here, job_id: str) -> tuple[Reason, ...]:
    return explain(here, job_id)[1]


def explain(here: Here, job_id: str) -> tuple[Job, tuple[Reason, ...]]:
    """Return a job and the reasons for its state, read in one moment."""
    from horae.actions.jobs.reasons import why as explain_job

    with moment(here.world):
        job = mask_for_readers(here.world, [verbs.get(here.world, job_id, **here.reach)])[0]
        return job, explain_job(here.world, job, owner=here.caller.sees)


def revive_many(here: Here, wanted: Filter, dry_run: bool, reason: str) -> Revived:
    found = _find_first(here, _check_filter(here, wanted))
    answers: dict[str, str] = {}
    if not dry_run:
        ids = [job.id for job in found[:REVIVED_AT_ONCE]]
        answers = verbs.each(here.world, verbs.revive, ids, actor=here.actor, reason=reason, **here.reach)
    return Revived(
        matched=min(len(found), REVIVED_AT_ONCE),
        revived=sum(answer == "ok" for answer in answers.values()),
        refused={job_id: answer for job_id, answer in answers.items() if answer != "ok"},
        dry_run=dry_run,
        more=len(found) > REVIVED_AT_ONCE,
    )


def _find_first(here: Here, wanted: Filter) -> list[Job]:
    """Return as many jobs as one call handles, and one more if there are more."""
    found = verbs.find(here.world, wanted, limit=REVIVED_AT_ONCE)
    return found + (
        verbs.find(here.world, wanted, limit=1, before=found[-1].id) if len(found) == REVIVED_AT_ONCE else []
    )
