"""The trace of a lab, in order: one line for each enqueue, attempt and outcome."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select

from horae.actions.jobs import jobs as verbs
from horae.core.jobs.job import Filter, Job
from horae.core.time.instants import iso
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.tables.jobs import jobs, runs

FEW, MANY = 10, 1000  # jobs looked at in one go


class Happening(NamedTuple):
    """One line of a trace."""

    at: datetime
    event: str  # enqueued, pulled, crashed, refused, or what the state machine calls it: acked, failed, lost …
    job_id: str
    handler: str
    outcome: str = ""

    def __str__(self) -> str:
        return f"{iso(self.at)} {self.event:<9} {self.job_id} {self.handler} {self.outcome}".rstrip()


class Trace:
    """Records what happens. Enqueues are read from the store, before anything else is recorded."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines: list[Happening] = []
        self._newest = 0
        self._has_news = True

    def expect_news(self) -> None:
        """Note that something may have been enqueued; from any thread."""
        self._has_news = True

    def note(self, event: str, job: Job, outcome: str = "") -> None:
        self._note_news()
        self._lines.append(Happening(self._world.clock.now(), event, job.id, job.handler, outcome))

    def lines(self) -> list[Happening]:
        self.expect_news()
        self._note_news()
        return list(self._lines)

    def _note_news(self) -> None:
        if not self._has_news:
            return
        self._has_news = False
        if self._world.store.read(_newest_job) <= self._newest:
            return
        for job in find_jobs(self._world, Filter(), after=self._newest):
            self._lines.append(Happening(job.created_at, "enqueued", job.id, job.handler))
            self._newest = job.number


def find_jobs(world: World, wanted: Filter, *, after: int = 0) -> list[Job]:
    """Return all jobs that fit, the oldest first; those up to number *after* are known."""
    jobs_found: list[Job] = []
    size, before = FEW, None  # newest first, and mostly only a few are new
    while page := verbs.find(world, wanted, limit=size, before=before):
        jobs_found += [job for job in page if job.number > after]
        if len(page) < size or page[-1].number <= after:
            break
        size, before = MANY, page[-1].id
    return sorted(jobs_found, key=lambda job: job.number)


def queues_in_use(tx: Tx) -> list[str]:
    """Return the queues of live jobs; also those that a transaction of the application's own has filled silently."""
    return list(tx.connection.execute(select(jobs.c.queue).distinct()).scalars())


def _newest_job(tx: Tx) -> int:
    newest = select(select(func.max(jobs.c.id)).scalar_subquery(), select(func.max(runs.c.job_id)).scalar_subquery())
    return max(number or 0 for number in tx.connection.execute(newest).one())
