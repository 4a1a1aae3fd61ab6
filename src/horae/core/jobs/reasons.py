"""Why a job is not running: every reason that holds, the strongest first.

A job that waits always has at least one; when its cause goes away, the job moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from horae.core.jobs.job import CLOSED, Job, OnParentDead, Run
from horae.core.time.instants import iso


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence, and a stable word for programs."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A job that must succeed first; ``state`` is None where it is no longer on record."""

    id: str
    state: str | None
    policy: OnParentDead = "cancel"
    lost: str | None = None  # of one that waits itself: the dead or cancelled job at the root of it

    @property
    def is_lost(self) -> bool:
        """Whether it will never succeed unless somebody revives it."""
        return self.state not in ("queued", "running")


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a job: its queue, who serves it, who is in its way."""

    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    max_running: int | None = None
    running: int = 0
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # name: at most, and how many run under it
    workers: int = 0
    holders: tuple[str, ...] = ()
    parents: tuple[Parent, ...] = ()
    last_run: Run | None = None
    shows_others: bool = True  # whether the reader may know how much others run; a tenant may not


def why(job: Job, around: Around, *, now: datetime) -> tuple[Reason, ...]:
    """Explain why the job is in its state."""
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
            unkept = "" if job.last_error is None else ", but its result could not be kept"
            return (Reason("succeeded", f"done{unkept}"),)


def _running(job: Job) -> Reason:
    if job.cancel_requested:
        return Reason("stopping", f"asked to stop ({job.cancel_reason}); its worker obeys at the next safe moment")
    until = "" if job.leased_until is None else f" until {iso(job.leased_until)}"
    return Reason("running", f"held by worker {job.worker_id}{until}")


def _waiting(job: Job, around: Around, now: datetime) -> Iterator[Reason]:
    if around.paused_at is not None:
        because = f": {around.pause_reason}" if around.pause_reason else ""
        yield Reason("queue_paused", f"its queue {job.queue} was paused by {around.paused_by or 'somebody'}{because}")
    if job.held == "needs":
        yield from _parents(around.parents)
    elif job.held:
        yield _held(job, around)
    if job.run_at > now:
        yield _later(job, around)
    if not around.workers:
        yield Reason("no_worker", f"no worker serves the queue {job.queue}")
    if around.max_running is not None and around.running >= around.max_running:
        full = f"its queue runs at most {around.max_running} at once, and {around.running} are running"
        yield Reason("queue_limit", full if around.shows_others else "its queue runs as many jobs at once as it may")
    most, running = around.limits.get("global", (0, 0))
    is_full = bool(most) and running >= most
    if is_full:
        full = f"at most {most} jobs run at once over all, and {running} are running"
        yield Reason("global_limit", full if around.shows_others else "as many jobs run at once over all as may")
    nothing_else = around.paused_at is None and not job.held and job.run_at <= now and not is_full
    if nothing_else and around.workers and (around.max_running is None or around.running < around.max_running):
        yield Reason("due", f"due since {iso(job.run_at)}; next when a worker of its queue has a free slot")


def _parents(parents: Sequence[Parent]) -> Iterator[Reason]:
    """Name the jobs it waits for, first those that will never succeed."""
    for parent in parents:
        if parent.is_lost:
            yield Reason("parent_dead", _lost(parent))
        elif parent.lost is not None:
            yield Reason("parent_dead", f"it waits for {parent.id}, which waits for {parent.lost}, which is lost")
    alive = [f"{each.id} ({each.state})" for each in parents if not each.is_lost and each.lost is None]
    if alive or not parents:
        yield Reason("held", f"it waits for {', '.join(alive) or 'other jobs'} to succeed")


def _lost(parent: Parent) -> str:
    ended = {"dead": "is dead", "cancelled": "was cancelled"}.get(parent.state or "", "is no longer on record")
    waiting = f"it waits for {parent.id}, which {ended}"
    if parent.policy != "wait":
        follows = "is cancelled for it" if parent.policy == "cancel" else "runs without it"
        return f"{waiting}; it {follows} as soon as a worker looks after it"
    if parent.state == "dead":
        return f"{waiting}, and waits on (on_parent_dead=wait); revive {parent.id}, or cancel this job"
    return f"{waiting} and cannot be revived (on_parent_dead=wait); cancel this job"


def _held(job: Job, around: Around) -> Reason:
    if job.held_for is not None and job.held_for.startswith("group:"):
        most, running = around.limits.get(job.held_for, (0, 0))
        group = job.held_for.removeprefix("group:")
        full = f"its group {group} runs at most {most} at once, and {running} are running"
        return Reason("group_limit", full if around.shows_others else f"its group {group} runs as many as it may")
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
