"""Reservations that nothing ends any more, and a check of all totals."""

from __future__ import annotations

from datetime import datetime

from horae.actions.budgets.ledger import PeriodLedger
from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import PeriodKey, Reservation
from horae.ports.store import Tx
from horae.ports.world import World

BATCH = 200


def settle_leftovers(world: World, limit: int = BATCH) -> int:
    """Charge reservations whose attempt has ended without them, and forget waits of jobs that no longer wait.

    An attempt that ended without its rule, such as in a process of an earlier release, may have spent all of it. So it
    counts as spent. It may be done twice, or by two processes at once.
    """
    found = world.route().store.read(lambda tx: tx.budgets.leftovers(limit=limit))
    return world.route().store.transact(lambda tx: _settle(tx, limit, world.clock.now())) if found else 0


def _settle(tx: Tx, limit: int, now: datetime) -> int:
    first = tx.budgets.leftovers(limit=limit)
    ledger = PeriodLedger(tx)
    ledger.lock({each.period for each in first if each.state == "reserved"})
    still = set(tx.budgets.leftovers(limit=limit))
    found = [each for each in first if each in still]  # what another process settled meanwhile is gone
    tx.budgets.remove(each for each in found if each.state == "waiting")
    paid = [
        ledger.settle(each, max(each.amount, each.spent or 0), now, actor="system/budgets", run=_run(each))
        for each in found
        if each.state == "reserved"
    ]
    ledger.write()
    tx.budgets.change(paid)
    return len(found)


def _run(each: Reservation) -> str:
    return f"{job_id(each.job)}.{each.token}"


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A period whose totals are not what its reservations add up to, or that exceeds its capacity unnoticed."""

    period: PeriodKey
    problem: str


def check(tx: Tx) -> list[Discrepancy]:
    """Compare every period with its reservations: their sum is what it says is reserved, and nothing is exceeded.

    Settled reservations are deleted with the history, so their sum is at most what the period says is settled.
    """
    sums = tx.budgets.sums()
    found = []
    for each in tx.budgets.all_periods():
        reserved, settled = sums.pop(each.key, (0, 0))
        if reserved != each.reserved:
            found.append(Discrepancy(each.key, f"{each.reserved} reserved, but reservations add up to {reserved}"))
        if settled > each.settled:
            found.append(Discrepancy(each.key, f"{each.settled} settled, but reservations add up to {settled}"))
        if each.left is not None and each.left < 0 and not each.overdrawn:
            found.append(Discrepancy(each.key, f"{-each.left} above its capacity, and not marked as overdrawn"))
    return found + [Discrepancy(key, "reservations without a period") for key in sums]
