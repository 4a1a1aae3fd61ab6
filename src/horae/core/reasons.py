"""Why a job is not running: every reason that holds, the strongest first.

A job that waits always has at least one; when its cause goes away, the job moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from horae.core.instants import iso
from horae.core.jobs import CLOSED, Job, Run


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence, and a stable word for programs."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a job: its queue, who serves it, who is in its way."""

    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    max_running: int | None = None
    running: int = 0
    workers: int = 0
    holders: tuple[str, ...] = ()
    last_run: Run | None = None
    shows_others: bool = True  # whether the reader may know how much others run; a tenant may not


def why(job: Job, around: Around, *, now: datetime) -> tuple[Reason, ...]:
    """Why the job stands where it stands."""
    match job.state:
        case "queued":
            return tuple(_waiting(job, around, now))
        case "running":
            return (_running(job),)
        case "dead":
            return (
                Reason(
                    "dead", f"gave up after {job.attempt} of {job.max_attempts} attempts; reviving it grants new ones"
                ),
            )
        case "cancelled":
            return (Reason("cancelled", f"cancelled: {job.cancel_reason or job.last_error or 'no reason was given'}"),)
        case "succeeded":
            return (Reason("succeeded", "done"),)


def _running(job: Job) -> Reason:
    if job.cancel_requested:
        return Reason("stopping", f"asked to stop ({job.cancel_reason}); its worker obeys at the next safe moment")
    until = "" if job.leased_until is None else f" until {iso(job.leased_until)}"
    return Reason("running", f"held by worker {job.worker_id}{until}")


def _waiting(job: Job, around: Around, now: datetime) -> Iterator[Reason]:
    if around.paused_at is not None:
        because = f": {around.pause_reason}" if around.pause_reason else ""
        yield Reason("queue_paused", f"its queue {job.queue} was paused by {around.paused_by or 'somebody'}{because}")
    if job.held:
        yield _held(job, around)
    if job.run_at > now:
        yield _later(job, around)
    if not around.workers:
        yield Reason("no_worker", f"no worker serves the queue {job.queue}")
    if around.max_running is not None and around.running >= around.max_running:
        full = f"its queue runs at most {around.max_running} at once, and {around.running} are running"
        yield Reason("queue_limit", full if around.shows_others else "its queue runs as many jobs at once as it may")
    nothing_else = around.paused_at is None and not job.held and job.run_at <= now
    if nothing_else and around.workers and (around.max_running is None or around.running < around.max_running):
        yield Reason("due", f"due since {iso(job.run_at)}; next when a worker of its queue has a free slot")


def _held(job: Job, around: Around) -> Reason:
    if job.held == CLOSED:
        return Reason(
            "closed",
            f"its handler {job.handler!r} is not open to tenants, so the house's workers leave it alone until it is "
            "declared with tenants=True; a worker with a token of the tenant's own may pull it",
        )
    if job.concurrency_key is None:
        return Reason("held", "it waits for other jobs to end")
    by = f", taken by {', '.join(around.holders)}" if around.holders else ""
    return Reason("concurrency", f"it waits for a slot of its concurrency key {job.concurrency_key!r}{by}")


def _later(job: Job, around: Around) -> Reason:
    when = iso(job.run_at)
    last = around.last_run
    if last is not None and last.outcome == "snoozed":
        because = f": {last.error}" if last.error else ""
        return Reason("snoozed", f"snoozed until {when}{because}")
    if last is not None and last.outcome in ("failed", "timed_out", "lost"):
        return Reason(
            "retry",
            f"attempt {job.attempt} of {job.max_attempts} {last.outcome.replace('_', ' ')}; the next is due {when}",
        )
    return Reason("scheduled", f"scheduled for {when}")
