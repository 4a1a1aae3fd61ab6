"""What the rule of budgets does: an attempt reserves its cost when it starts, and pays when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from horae.actions.budgets.ledger import PeriodLedger, explain
from horae.actions.budgets.waits import let_in
from horae.core.governance.budgets import WHOLE, Budget, PeriodKey, Reservation, back_at, charges, concerned
from horae.core.jobs.job import Job, Lease, Outcome
from horae.ports.claims import JobEnding, PutBack
from horae.ports.store import Tx

LET_IN_AT_ONCE = 20  # jobs that waited and come back because an attempt cost less than it had reserved


def admit(tx: Tx, jobs: Sequence[Job], now: datetime) -> list[PutBack]:
    """Reserve the cost of each job, in the order of the claim; those without room come back at the refill."""
    wanted = [(job, job.budget) for job in jobs if job.budget is not None]
    again = [job.number for job, _ in wanted if job.token > 1]  # claimed before, so it may have waited
    if again:
        tx.budgets.stop_waiting(again)
    known = tx.budgets.named({(job.owner, budget.name) for job, budget in wanted})
    if not known:
        return []
    ledger = PeriodLedger(tx)
    ledger.open(known, now)
    rows: list[Reservation] = []
    refused: list[PutBack] = []
    for job, budget in wanted:
        drawn = ledger.draws(concerned(known, job.owner, budget), budget.cost, now)
        lacking = [each for each in drawn if not each.fits]
        if lacking:
            rows += ledger.wait(job, lacking, now)
            refused.append(PutBack(job.number, job.token, back_at(lacking, now, job.id), explain(lacking[0])))
        else:
            rows += ledger.reserve(job, WHOLE, drawn, now)
    ledger.write()
    tx.budgets.add(rows)
    return refused


def settle(tx: Tx, endings: Sequence[JobEnding], now: datetime) -> dict[int, Outcome]:
    """Charge each attempt for what it reserved: by its report, or in full."""
    ledger = PeriodLedger(tx)
    reporting = [each for each in endings if each.outcome.spent and not each.put_back]
    known = _budgets_of(tx, [each.job for each in reporting])
    found = lock_reservations(
        tx, ledger, [Lease(each.job.number, each.job.token) for each in endings], present=known, now=now
    )
    extra = [each for ending in reporting for each in _unreserved(ledger, ending, known, found, now)]
    if not extra and all(each.state != "reserved" for each in found):
        return {}
    tx.budgets.add(extra)
    found += extra
    units = {number: each.unit for number, each in tx.budgets.numbered({each.budget for each in found}).items()}
    paid: list[Reservation] = []
    for ending in endings:
        own = [each for each in found if each.job == ending.job.number]
        if ending.put_back:
            for each in own:
                ledger.release(each)
            tx.budgets.remove(own)
            continue
        lost = ending.outcome.ending == "lost"
        actor, run = f"worker/{ending.job.worker_id}", ending.job.run_id
        for each, amount in charges(own, units, ending.outcome.spent, lost=lost):
            paid.append(ledger.settle(each, amount, now, actor=actor, run=run))
    ledger.write()
    tx.budgets.change(paid)
    for period in ledger.with_more_room():
        let_in(tx, period, now, LET_IN_AT_ONCE)
    return {}


def _budgets_of(tx: Tx, jobs: Sequence[Job]) -> list[Budget]:
    names = {(job.owner, job.budget.name) for job in jobs if job.budget is not None}
    return tx.budgets.named(names) if names else []


def _unreserved(
    ledger: PeriodLedger, ending: JobEnding, known: Sequence[Budget], found: Sequence[Reservation], now: datetime
) -> Iterator[Reservation]:
    """Return what an ending reports for budgets of which the attempt has reserved nothing as a whole."""
    job, spent = ending.job, ending.outcome.spent or {}
    assert job.budget is not None
    reserved = {each.budget for each in found if each.job == job.number and each.key == WHOLE}
    for budget in concerned(known, job.owner, job.budget):
        if spent.get(budget.unit, 0) > 0 and budget.number not in reserved:
            yield Reservation(job.number, job.token, WHOLE, *ledger.present(budget, now).key, 0, at=now)


def lock_reservations(
    tx: Tx, ledger: PeriodLedger, leases: Sequence[Lease], *, present: Sequence[Budget] = (), now: datetime
) -> list[Reservation]:
    """Return what attempts have reserved and settled, with the periods of what is reserved locked.

    So are the *present* periods of budgets. Read a second time behind the locks: the attempt may have spent more just
    before.
    """
    found = tx.budgets.of_attempts(leases)
    locked: set[PeriodKey] = set()
    if present:
        locked = {each.period for each in found if each.state == "reserved"}
        ledger.open(present, now, locked)
        found = tx.budgets.of_attempts(leases)
    while keys := {each.period for each in found if each.state == "reserved"} - locked:
        ledger.lock(keys)
        locked |= keys
        found = tx.budgets.of_attempts(leases)
    return found
