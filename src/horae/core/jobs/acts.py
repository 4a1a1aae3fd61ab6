"""Bulk acts: one verb done to every job that fits a filter, in bounded batches, with counts that survive a crash.

Filter and highest job number are frozen when an act begins. An act walks the live jobs by number; what it finds is
looked at again under a lock before it is changed, so that a job that changed in between is skipped with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.jobs.filters import AnyOf, JobQuery, Text, holds, narrow, read_frozen
from horae.core.jobs.job import SYSTEM, Filter, Job
from horae.core.jobs.machinery import MACHINERY
from horae.core.machine import Machine
from horae.errors import InvalidFilter, InvalidInput, NotFound

ActVerb = Literal["cancel", "revive", "reschedule", "undo"]
ActState = Literal["running", "paused", "done", "cancelled"]
# Which jobs a verb can change: a filter never reaches others. Only the first three are asked for by a filter.
STATES: dict[str, tuple[str, ...]] = {
    "cancel": ("queued", "running"),
    "revive": ("dead",),
    "reschedule": ("queued",),
    "undo": ("queued",),
}
FILTERED = ("cancel", "revive", "reschedule")
BATCH = 200  # jobs changed in one transaction: on SQLite every other writer waits for it
WINDOW = 5_000  # rows that one batch looks at for them
SAMPLE = 20  # skipped jobs that an act names; it counts them all
FIRST_FEW = 20  # jobs that a dry run names
MOST_COUNTED = 10_000  # jobs that a dry run counts
MOST_LOOKED_AT = 100_000  # rows that it looks at to count them
MOST_KEPT = 100_000  # former times that a reschedule keeps for its undoing

ACT: Machine[ActState] = Machine(
    "act",
    "running",
    {
        ("running", "pause"): "paused",
        ("paused", "resume"): "running",
        ("running", "finish"): "done",
        ("running", "cancel"): "cancelled",
        ("paused", "cancel"): "cancelled",
    },
)


@dataclass(frozen=True, slots=True)
class Act:
    """One bulk act, as stored."""

    number: int
    verb: ActVerb
    state: ActState
    filter: str  # frozen: relative times are instants
    highest: int  # the highest job number when it began
    position: int  # the number of the last job that was looked at
    created_at: datetime
    actor: str
    owner: str = SYSTEM  # a tenant's act reaches only its own jobs
    queues: tuple[str, ...] = ()  # the only ones that it reaches; none named means any
    reason: str = ""
    run_at: datetime | None = None  # where a reschedule moves jobs to
    undoes: int | None = None
    job: int | None = None  # the job in the queue of Horae's own that works on it
    matched: int = 0  # when it began, counted up to a bound
    more: bool = False  # whether there were more than were counted
    changed: int = 0
    skipped: int = 0
    kept: int = 0  # former times that are kept for its undoing
    skipped_for: Mapping[str, int] = field(default_factory=dict)
    sample: Mapping[str, str] = field(default_factory=dict)  # the first skipped jobs, each with its reason
    finished_at: datetime | None = None
    databases: tuple[str, ...] = ()  # of a cluster, by number: each that it is to reach has a row of its own

    @property
    def id(self) -> str:
        return f"act_{self.number}"

    @property
    def is_over(self) -> bool:
        return ACT.is_final(self.state)

    @property
    def wanted(self) -> Filter:
        """Which jobs it reaches, as the stores look for them."""
        reach = Filter(
            STATES[self.verb], owner=None if self.owner == SYSTEM else self.owner, queues=self.queues, machinery=True
        )
        return narrow(reach, self.query)

    @property
    def query(self) -> JobQuery:
        """Return its filter, without the jobs of Horae's own, which no bulk act may touch."""
        ours = AnyOf("queue", (Text(MACHINERY),), is_excluded=True)
        return JobQuery((*read_frozen(self.filter).terms, ours))


def act_number(act_id: str) -> int:
    """Return the number behind ``act_12``; anything else cannot name an act."""
    digits = act_id.removeprefix("act_")
    if digits.isascii() and digits.isdigit() and len(digits) < 19:
        return int(digits)
    raise NotFound("act_unknown", id=act_id)


def check_act(verb: str, query: JobQuery, run_at: datetime | None) -> None:
    """Refuse an act that would reach every job or none, or that does not say where to move jobs to."""
    if verb not in FILTERED:
        raise InvalidInput("choice_unknown", name="verb", value=verb, choices=list(FILTERED))
    if not query:
        raise InvalidFilter("filter_empty", expression="", position=1)
    for term in query.terms:
        if isinstance(term, AnyOf) and term.field == "state" and not term.is_excluded:
            named = [text.text for text in term.texts]
            if not set(named) & set(STATES[verb]):
                raise InvalidInput("act_states_impossible", verb=verb, named=named, states=list(STATES[verb]))
    if verb == "reschedule" and run_at is None:
        raise InvalidInput("act_time_missing", verb=verb)
    if verb != "reschedule" and run_at is not None:
        raise InvalidInput("act_time_unused", verb=verb)


def why_skipped(act: Act, job: Job | None) -> str | None:
    """Return why a job that was found is left alone after all; None where it still fits."""
    if job is None:
        return "ended"
    if job.state not in STATES[act.verb]:
        return job.state
    return None if holds(act.query, job) else "changed"


def advance(act: Act, *, position: int, changed: int, kept: int, skipped: Mapping[str, str], is_last: bool) -> Act:
    """Return an act after one batch: *skipped* are the jobs that were left alone, each with its reason."""
    reasons = dict(act.skipped_for)
    for reason in skipped.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    room = SAMPLE - len(act.sample)
    return replace(
        act,
        position=position,
        changed=act.changed + changed,
        skipped=act.skipped + len(skipped),
        kept=act.kept + kept,
        skipped_for=reasons,
        sample={**act.sample, **dict(list(skipped.items())[:room])},
        state=ACT.after(act.state, "finish") if is_last else act.state,
    )
