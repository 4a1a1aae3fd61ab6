"""Jobs that wait for a budget come back before its refill where there is room again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from horae.core.governance.budgets import BudgetPeriod
from horae.core.jobs.job import Job, NewJob
from horae.core.jobs.machinery import LET_IN, MACHINERY
from horae.core.jobs.payloads import encode
from horae.ports.store import Tx


def let_in(tx: Tx, period: BudgetPeriod, now: datetime, limit: int) -> None:
    """Make jobs due now for which a period has room again; one that finds none after all is put back again."""
    room = period.left
    if room is not None and room <= 0:
        return
    tokens: dict[int, int] = {}
    for each in tx.budgets.waiting_for(period.budget, limit=limit):
        if room is None or each.amount <= room:
            tokens[each.job] = each.token
            room = None if room is None else room - each.amount
    locked = tx.jobs.lock_many(sorted(tokens)) if tokens else []
    found = [job for job in locked if job.state == "queued" and job.token == tokens[job.number] and job.run_at > now]
    moved = [job for job in found if job.object_type is None]
    _let_in_objects(tx, [job for job in found if job.object_type is not None], now)
    tx.jobs.requeue_many(moved, run_at=now, revive=False, now=now)
    tx.wake({job.queue for job in moved})


def _let_in_objects(tx: Tx, jobs: Sequence[Job], now: datetime) -> None:
    """Let the jobs of objects be moved by a job of Horae's own: an object is locked before budgets, never after."""
    if not jobs:
        return
    payload = encode({"jobs": [job.number for job in jobs]})
    tx.jobs.insert([NewJob(LET_IN, payload, MACHINERY, 0, now, now, owner=jobs[0].owner)], now)
    tx.wake([MACHINERY])
