"""Claims: a request for due jobs, a renewal, and rules that take part in the beginning and the end of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.jobs.job import Change, Job, Order, Outcome
    from horae.ports.store import Tx


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's request for due jobs of one queue."""

    queue: str
    limit: int
    worker_id: str
    lease: timedelta
    order: Order | None = None  # None: the queue's own
    owner: str | None = None  # only this tenant's jobs; None: those of all tenants, for a house worker
    steady: datetime | None = None  # now on the lease line; None: the same as now

    def until(self, now: datetime) -> datetime:
        """Return the end of the lease, on the lease line."""
        return (self.steady or now) + self.lease


@dataclass(frozen=True, slots=True)
class Renewed:
    """The result of a renewal: the jobs that are still held, and those that should stop.

    ``busy``: held, but not extended, because a transaction has the row locked. The reaper skips such rows too.
    """

    held: frozenset[int]
    cancelled: frozenset[int]
    busy: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PutBack:
    """A claimed job that may not start yet: it goes back to its queue, without a run and without an attempt."""

    number: int
    token: int
    run_at: datetime
    reason: str | None = None  # kept as the job's last error; None: what was there stays


@dataclass(frozen=True, slots=True)
class JobEnding:
    """The end of an attempt as a rule sees it, before it is written."""

    job: Job  # as its claim returned it
    outcome: Outcome  # as its holder reported it, or as an earlier rule replaced it
    change: Change  # what follows: whether it is retried, dead, ended
    put_back: bool = False  # a later rule did not admit the job: nothing began, and there is no run


class JobRule(Protocol):
    """A rule that takes part in the beginning and the end of the jobs it concerns: governed objects, budgets.

    The verbs that claim and end jobs ask it, for every kind of worker; a worker decides nothing. Rules stand in
    ``World.rules`` in the order of their locks: objects, then budgets. Jobs are locked last.

    Each call is part of a transaction that may be rolled back and run again, also with fewer jobs. So a rule keeps
    nothing in memory, does nothing outside the database, and wakes queues by ``tx.wake``.
    """

    def concerns(self, job: Job) -> bool:
        """Return whether the rule has a say, from the job alone; the other jobs cost nothing."""

    def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> Sequence[PutBack]:
        """Admit claimed jobs, and write what that takes; return those that may not start now.

        Only jobs that earlier rules have admitted are asked about. It commits only if all of them are still held.
        """

    def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> Mapping[int, Outcome]:
        """Write what these endings mean; return the outcomes that take the place of others, by number of the job.

        Every kind of ending comes here, also of jobs that were never admitted, because their holder died before. It
        commits together with the endings, and only if each of them is still its holder's to report. An ending with
        ``put_back`` takes back what ``admit`` wrote in the same transaction; nothing can take its place.
        """
