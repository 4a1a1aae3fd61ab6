"""Spending of a running attempt: reserve before an effect, report what it really cost.

Both are fenced by the token, and may come twice: a key that is reserved already is not reserved again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from horae.actions.budgets.attempts import lock_reservations
from horae.actions.budgets.ledger import PeriodLedger, explain
from horae.core.governance.budgets import (
    WHOLE,
    Budget,
    Draw,
    Reservation,
    Spending,
    amounts_from,
    back_at,
    concerned,
)
from horae.core.jobs.job import Job, Lease
from horae.core.jobs.payloads import label
from horae.errors import Conflict, InvalidInput, LeaseLost, NotAllowed
from horae.ports.store import Tx
from horae.ports.world import World

MAX_KEY = 200


GRANTED = Spending(True)


def spend(world: World, lease: Lease, cost: Mapping[str, int], *, key: str) -> Spending:
    """Reserve what an effect may cost, before it: from what the attempt reserved when it started, then from its budget.

    When a budget has no room the attempt must end, and its job come back after ``wait``.
    """
    wanted, name = amounts_from(cost), label(key, "key", MAX_KEY)

    def write(tx: Tx) -> Spending:
        now = world.clock.now()
        job, budgets = _budgets_of(tx, lease)
        if not budgets:
            return GRANTED
        ledger = PeriodLedger(tx)
        found = lock_reservations(tx, ledger, [lease], present=budgets, now=now)
        if any(each.key == name for each in found):
            _refuse_other_amount(name, [each for each in found if each.key == name], budgets, wanted)
            return GRANTED
        taken = _take_from_whole(found, budgets, wanted, name, now)
        moved = {part.budget: part.amount for _, part in taken}
        drawn = ledger.draws(budgets, wanted, now)
        rest = [replace(each, amount=each.amount - moved.get(each.budget.number, 0)) for each in drawn]
        lacking = [each for each in rest if not each.fits]
        if lacking:
            _refuse_what_never_fits(drawn)
            waits = ledger.wait(job, [_at_least(each, job, wanted) for each in lacking], now)
            ledger.write()
            tx.budgets.stop_waiting([job.number])
            tx.budgets.add(waits)
            tx.budgets.change(_unused(found, budgets, wanted))
            _check_held(tx, lease)
            return Spending(False, back_at(lacking, now, job.id) - now, explain(lacking[0]))
        made = ledger.reserve(job, name, [each for each in rest if each.amount > 0], now)
        ledger.write()
        tx.budgets.change(whole for whole, _ in taken)
        tx.budgets.add(_joined([part for _, part in taken], made))
        _check_held(tx, lease)
        return GRANTED

    return world.route(id=lease.job_id).store.transact(write)


def report(world: World, lease: Lease, spent: Mapping[str, int], *, key: str | None = None) -> None:
    """Say what an effect really cost, or, without a key, the attempt as a whole so far; the last report counts.

    What a key reserved and did not use is free again at once; what the attempt as a whole did not use, when it ends.
    """
    amounts, name = amounts_from(spent), WHOLE if key is None else label(key, "key", MAX_KEY)

    def write(tx: Tx) -> None:
        now = world.clock.now()
        job, known = _budgets_of(tx, lease)
        budgets = [each for each in known if each.unit in amounts]
        ledger = PeriodLedger(tx)
        ledger.open(budgets, now, {each.period for each in tx.budgets.of_attempts([lease])})
        found = [each for each in tx.budgets.of_attempts([lease]) if each.key == name]
        if budgets and not found and key is not None:
            raise InvalidInput("spending_unknown", key=name)
        for budget in budgets:
            own = [each for each in found if each.budget == budget.number]
            if not own and key is None:
                own = [Reservation(job.number, job.token, WHOLE, *ledger.present(budget, now).key, 0, at=now)]
                tx.budgets.add(own)
            tx.budgets.change(_charged(ledger, job, own, amounts[budget.unit], now))
        ledger.write()
        _check_held(tx, lease)

    world.route(id=lease.job_id).store.transact(write)


def _budgets_of(tx: Tx, lease: Lease) -> tuple[Job, list[Budget]]:
    """Return the job of a lease and the budgets that it draws on."""
    job = tx.jobs.get(lease.job_number)
    if job is None or job.state != "running" or job.token != lease.token:
        raise LeaseLost(lease.job_id, lease.token)
    if job.budget is None:
        raise InvalidInput("spending_without_budget", job_id=job.id, handler=job.handler)
    return job, concerned(tx.budgets.named({(job.owner, job.budget.name)}), job.owner, job.budget)


def _check_held(tx: Tx, lease: Lease) -> None:
    """Lock the job last, as everywhere; undo everything if it has another holder by now."""
    if not tx.jobs.lock_held([lease]):
        raise LeaseLost(lease.job_id, lease.token)


def _unused(
    found: Sequence[Reservation], budgets: Sequence[Budget], wanted: Mapping[str, int]
) -> Iterator[Reservation]:
    """Note that an attempt which accounts for its steps has used nothing of what it reserved as a whole."""
    units = {each.number: each.unit for each in budgets}
    for each in found:
        if each.key == WHOLE and each.spent is None and units.get(each.budget) in wanted:
            yield replace(each, spent=0)


def _take_from_whole(
    found: Sequence[Reservation], budgets: Sequence[Budget], wanted: Mapping[str, int], key: str, now: datetime
) -> list[tuple[Reservation, Reservation]]:
    """Move what the attempt reserved when it started to one effect: the changed reservation, and the part it gave."""
    units = {each.number: each.unit for each in budgets}
    taken = []
    for each in found:
        amount = min(each.amount, wanted.get(units.get(each.budget, ""), 0))
        if each.key == WHOLE and each.state == "reserved" and amount > 0:
            part = replace(each, key=key, amount=amount, spent=None, at=now)
            taken.append((replace(each, amount=each.amount - amount), part))
    return taken


def _joined(moved: Sequence[Reservation], made: Sequence[Reservation]) -> list[Reservation]:
    """Return one reservation for each period: part of it may be moved and part of it new."""
    by_period = {each.period: each for each in moved}
    for each in made:
        known = by_period.get(each.period)
        by_period[each.period] = each if known is None else replace(known, amount=known.amount + each.amount)
    return list(by_period.values())


def _charged(
    ledger: PeriodLedger, job: Job, own: Sequence[Reservation], spent: int, now: datetime
) -> Iterator[Reservation]:
    """Charge a report to what was reserved for it; the last reservation carries what is beyond all of them."""
    actor, left = f"worker/{job.worker_id}", spent
    for each in own:
        share = left if each is own[-1] else min(left, each.amount)
        left -= share
        if each.key == WHOLE:
            yield replace(each, spent=share)  # it is settled when the attempt ends
        elif each.state == "reserved":
            yield ledger.settle(each, share, now, actor=actor, run=job.run_id)
        elif each.spent != share:  # another report about the same effect
            ledger.settle(replace(each, amount=0), share - (each.spent or 0), now, actor=actor, run=job.run_id)
            yield replace(each, spent=share, at=now)


def _at_least(lacking: Draw, job: Job, wanted: Mapping[str, int]) -> Draw:
    """Return how much room the job needs to begin again: for a whole attempt, and for what it wanted now."""
    cost = {} if job.budget is None else job.budget.cost
    unit = lacking.budget.unit
    return replace(lacking, amount=max(cost.get(unit, 0), wanted.get(unit, 0)))


def _refuse_other_amount(
    key: str, known: Sequence[Reservation], budgets: Sequence[Budget], wanted: Mapping[str, int]
) -> None:
    """Refuse a key that was used for something else; whether it was settled meanwhile does not matter."""
    for budget in budgets:
        reserved = [each.amount for each in known if each.budget == budget.number]
        if reserved and sum(reserved) != wanted.get(budget.unit, 0):
            raise Conflict("spending_key_used", key=key, unit=budget.unit, amount=sum(reserved))


def _refuse_what_never_fits(drawn: Sequence[Draw]) -> None:
    for each in drawn:
        if not each.can_ever_fit:
            raise NotAllowed(
                "budget_too_small", budget=each.budget.id, amount=each.amount, capacity=each.period.capacity or 0
            )
