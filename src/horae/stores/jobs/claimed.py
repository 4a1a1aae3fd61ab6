"""Claimed jobs: the columns of a candidate in the order in which most of them need not be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from horae.core.jobs.job import PRIORITIES, Job, make_job
from horae.stores.codecs import instant, read_hot, read_retry
from horae.stores.tables.jobs import JOBS

Row = tuple[Any, ...]
# First what every job has, then what few have, then what a claim writes.
USUAL = (
    "id", "handler", "payload", "band", "run_at", "planned_at", "created_at", "owner", "token", "attempt",
    "max_attempts", "linked",
)  # fmt: skip
WRITTEN = ("queue", "held", "state", "worker_id", "leased_until", "started_at")
RARE = tuple(name for name in JOBS.columns if name not in USUAL and name not in WRITTEN)
COLUMNS = (*USUAL, *RARE, *WRITTEN)
_IN_ORDER: Callable[[Sequence[Any]], Row] = itemgetter(*map(COLUMNS.index, JOBS.columns))
_PLAIN, _READ = len(USUAL) - 1, len(USUAL) + len(RARE)
_NOTHING_RARE = (0, *[None] * len(RARE))  # from "linked" on
_NOTHING_SENT = (0, False)  # the same where a flag stands for the rare columns
_TOKEN = COLUMNS.index("token")


def has_rare(row: Row) -> bool:
    """Return whether the job of a row that begins with USUAL and RARE has anything rare about it."""
    return row[_PLAIN:_READ] != _NOTHING_RARE


def read_claimed(
    rows: Iterable[Row], queue: str, worker_id: str, leased_until: int, started_at: int, *, raised: int = 0
) -> list[Job]:
    """Return claimed jobs, of rows that begin with USUAL and RARE, and of what their claim wrote.

    A row may also end after USUAL with a flag that nothing is rare. *raised* is added to the tokens, for rows that were
    read before their claim. A job with nothing rare about it, as most are, is made without looking at each field; the
    arguments stand in the order of the fields of ``Job``.
    """
    until, since = instant(leased_until), instant(started_at)
    jobs: list[Job] = []
    for row in rows:
        rest = row[_PLAIN:_READ]
        if rest != _NOTHING_SENT and rest != _NOTHING_RARE:
            known = [*row[:_READ], queue, "", "running", worker_id, leased_until, started_at]
            known[_TOKEN] += raised
            jobs.append(JOBS.read(_IN_ORDER(known)))
            continue
        number, handler, payload, band, run_at, planned_at, created_at, owner, token, attempt, attempts = row[:_PLAIN]
        due = instant(run_at)
        planned = due if planned_at == run_at else instant(planned_at)
        created = due if created_at == run_at else instant(created_at)
        job = make_job(
            number, handler, read_hot(payload), "running", queue, PRIORITIES[band], due, planned, created, owner,
            attempt, attempts, read_retry(None, attempts), None, token + raised, worker_id, until, since,
        )  # fmt: skip
        jobs.append(job)
    return jobs
