"""Why a job is not running: every reason that holds, the strongest first.

A job that waits always has at least one; when its cause goes away, the job moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from horae.core.cluster.shard_keys import without_shard
from horae.core.dataclass import dataclass
from horae.core.jobs.batch import HELD_BY_BATCH, Batch
from horae.core.jobs.gathered_jobs import collected
from horae.core.jobs.job import CLOSED, Job, OnParentDead, Run
from horae.core.time.instants import iso
from horae.errors import Fact
from horae.words.languages import Language

UNKNOWN = "unknown"  # who did it, where it was not kept


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something stands where it stands: a stable code for programs, which sentence, and its facts.

    The code is coarse and the reason precise, as with errors; the sentence stands in the tables of :mod:`horae.words`.
    """

    code: str
    reason: str
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.in_words("en")

    def in_words(self, language: Language) -> str:
        from horae.words.sentences import why_line  # here, because most processes never explain anything

        return why_line(self.reason, self.facts, language) or self.reason


@dataclass(frozen=True, slots=True)
class Parent:
    """A job that must succeed first; ``state`` is None where it is no longer on record."""

    id: str
    state: str | None
    policy: OnParentDead = "cancel"
    lost: str | None = None  # of one that waits itself: the dead or cancelled job at the root of it

    @property
    def is_lost(self) -> bool:
        """Whether the parent can no longer succeed unless it is revived."""
        return self.state not in ("queued", "running")


@dataclass(frozen=True, slots=True)
class BudgetWait:
    """A budget that had no room for an attempt, as it is now."""

    budget: str
    amount: int
    capacity: int | None
    left: int | None  # None: without limit
    refilled: bool = True  # at the end of its period

    def reason(self, run_at: str) -> Reason:
        if self.left is None or self.capacity is None or self.left >= self.amount:
            return Reason("budget", "budget_has_room", {"budget": self.budget, "run_at": run_at})
        facts: dict[str, Fact] = {"budget": self.budget, "amount": self.amount, "capacity": self.capacity}
        if self.capacity < self.amount:
            return Reason("budget", "budget_never_enough", facts)
        facts |= {"left": max(0, self.left)}
        if not self.refilled:
            return Reason("budget", "budget_empty_for_good", facts)
        return Reason("budget", "budget_empty", {**facts, "run_at": run_at})


@dataclass(frozen=True, slots=True)
class Around:
    """The surroundings of a job: its queue, the workers of the queue, and the jobs that block it."""

    paused_at: datetime | None = None
    paused_by: str | None = None
    paused_until: datetime | None = None
    pause_reason: str | None = None
    max_running: int | None = None
    running: int = 0
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # name: at most, and how many run under it
    workers: int = 0
    holders: tuple[str, ...] = ()
    parents: tuple[Parent, ...] = ()
    batch: Batch | None = None  # of a callback: the one that it follows
    last_run: Run | None = None
    budgets: tuple[BudgetWait, ...] = ()  # those that it waits for
    in_turns: bool = False  # owners take turns in the queue
    owner_quiet_until: datetime | None = None  # when the quiet hours of its owner end, in which it is
    expected: tuple[Reason, ...] = ()  # what is expected of it, and whether it is missing
    shows_others: bool = True  # whether the reader may know how much others run; a tenant may not


def why(job: Job, around: Around, *, now: datetime) -> tuple[Reason, ...]:
    """Explain why the job is in its state."""
    return (*_reasons(job, around, now), *around.expected)


def _reasons(job: Job, around: Around, now: datetime) -> tuple[Reason, ...]:
    match job.state:
        case "queued":
            return tuple(_waiting(job, around, now))
        case "running":
            return (_running(job),)
        case "dead":
            return (Reason("dead", "job_dead", {"attempt": job.attempt, "max_attempts": job.max_attempts}),)
        case "cancelled":
            return (explained("cancelled", "cancelled", job.cancel_reason or job.last_error),)
        case "succeeded":
            return (Reason("succeeded", "done" if job.last_error is None else "done_without_result"),)


def explained(code: str, reason: str, because: str | None, **facts: Fact) -> Reason:
    """Return the reason that quotes what a person said, or its twin where nothing was said."""
    if because:
        return Reason(code, f"{reason}_because", {**facts, "because": because})
    return Reason(code, f"{reason}_unexplained", facts)


def _running(job: Job) -> Reason:
    if job.cancel_requested:
        return explained("stopping", "asked_to_stop", job.cancel_reason)
    worker = job.worker_id or ""
    if job.leased_until is None:
        return Reason("running", "held_by_worker", {"worker": worker})
    return Reason("running", "held_by_worker_until", {"worker": worker, "leased_until": iso(job.leased_until)})


def _waiting(job: Job, around: Around, now: datetime) -> Iterator[Reason]:
    if around.paused_at is not None:
        by = around.paused_by or UNKNOWN
        yield explained("queue_paused", "queue_paused", around.pause_reason, queue=job.queue, by=by)
        if around.paused_until is not None:
            yield Reason("queue_paused", "pause_ends", {"until": iso(around.paused_until)})
    if around.owner_quiet_until is not None:
        yield Reason("owner_quiet", "owner_is_quiet", {"owner": job.owner, "until": iso(around.owner_quiet_until)})
    if job.held == HELD_BY_BATCH and around.batch is not None:
        facts: dict[str, Fact] = {"batch": around.batch.id, "open": around.batch.open, "total": around.batch.total}
        yield Reason("held", "waits_for_batch", facts)
    elif job.held == "needs":
        yield from _parents(around.parents)
    elif job.held:
        yield _held(job, around)
    if job.run_at > now:
        yield from _later(job, around)
    if not around.workers:
        yield Reason("no_worker", "no_worker_serves", {"queue": job.queue})
    if around.max_running is not None and around.running >= around.max_running:
        yield _limited("queue_limit", around, around.max_running, around.running)
    most, running = around.limits.get("global", (0, 0))
    is_full = bool(most) and running >= most
    if is_full:
        yield _limited("global_limit", around, most, running)
    nothing_else = (
        around.paused_at is None
        and around.owner_quiet_until is None
        and not job.held
        and job.run_at <= now
        and not is_full
    )
    if nothing_else and around.workers and (around.max_running is None or around.running < around.max_running):
        since = {"run_at": iso(job.run_at)}
        yield Reason("due", "due_in_turns", since) if around.in_turns else Reason("due", "due_since", since)


def _limited(code: str, around: Around, most: int, running: int, **facts: Fact) -> Reason:
    """Say that a limit is reached; a tenant does not learn how much others run."""
    if not around.shows_others:
        return Reason(code, f"{code}_reached_for_tenant", facts)
    return Reason(code, f"{code}_reached", {**facts, "most": most, "running": running})


def _parents(parents: Sequence[Parent]) -> Iterator[Reason]:
    """Name the jobs it waits for, first those that will never succeed."""
    for parent in parents:
        if parent.is_lost:
            yield _lost(parent)
        elif parent.lost is not None:
            yield Reason("parent_dead", "parent_waits_for_lost", {"parent": parent.id, "lost": parent.lost})
    alive = [f"{each.id} ({each.state})" for each in parents if not each.is_lost and each.lost is None]
    if alive:
        yield Reason("held", "waits_for_jobs", {"jobs": alive})
    elif not parents:
        yield Reason("held", "waits_for_others")


def _lost(parent: Parent) -> Reason:
    ended = parent.state if parent.state in ("dead", "cancelled") else "gone"
    return Reason("parent_dead", f"parent_{ended}_{parent.policy}", {"parent": parent.id})


def _held(job: Job, around: Around) -> Reason:
    if job.held_for is not None and job.held_for.startswith("group:"):
        most, running = around.limits.get(job.held_for, (0, 0))
        return _limited("group_limit", around, most, running, group=job.held_for.removeprefix("group:"))
    if job.held == CLOSED:
        return Reason("closed", "handler_closed", {"handler": job.handler})
    if job.concurrency_key is None:
        return Reason("held", "waits_for_end")
    if not around.holders:
        return Reason("concurrency", "concurrency_taken", {"key": job.concurrency_key})
    return Reason("concurrency", "concurrency_taken_by", {"key": job.concurrency_key, "holders": around.holders})


def _later(job: Job, around: Around) -> Iterator[Reason]:
    when = iso(job.run_at)
    last = around.last_run
    if around.budgets:
        yield from (each.reason(when) for each in around.budgets)
    elif last is not None and last.outcome == "snoozed":
        yield explained("snoozed", "snoozed", last.error, run_at=when)
    elif last is not None and last.outcome in ("failed", "timed_out", "lost"):
        attempts = {"attempt": job.attempt, "max_attempts": job.max_attempts}
        yield Reason("retry", f"attempt_{last.outcome}", {**attempts, "run_at": when})
    elif job.unique is not None and not job.holds_name and job.token == 0:
        count = collected(without_shard(job.unique), job.payload)
        if count is None:
            yield Reason("gathering", "debounced", {"run_at": when})
        else:
            yield Reason("gathering", "collects", {"run_at": when, "count": count})
    else:
        yield Reason("scheduled", "scheduled_for", {"run_at": when})
