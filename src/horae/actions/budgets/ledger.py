"""Periods of budgets while they change inside one transaction: locked, changed in memory, written once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from horae.core.audit.entries import Entry
from horae.core.governance.budgets import Budget, BudgetPeriod, Draw, PeriodKey, Reservation, draws, period_start
from horae.core.jobs.job import Job
from horae.core.time.instants import iso
from horae.ports.store import Tx


class PeriodLedger:
    """The periods that a transaction changes."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._before: dict[PeriodKey, BudgetPeriod] = {}
        self._periods: dict[PeriodKey, BudgetPeriod] = {}
        self._entries: list[Entry] = []

    def open(self, budgets: Iterable[Budget], now: datetime, others: Collection[PeriodKey] = ()) -> None:
        """Lock the present periods of budgets, which are made where they are missing, and *others* that exist."""
        wanted = {(each.number, period_start(each.period, now)): each for each in budgets}
        old = set(others) - wanted.keys()
        known = self._tx.budgets.numbered({number for number, _ in old}) if old else {}
        pairs = [(each, start) for (_, start), each in wanted.items()]
        pairs += [(known[number], start) for number, start in old]
        self._take(self._tx.budgets.lock_periods(pairs))

    def lock(self, keys: Collection[PeriodKey]) -> None:
        """Lock periods that exist."""
        new = set(keys) - self._periods.keys()
        if new:
            self._take(self._tx.budgets.lock(new))

    def _take(self, locked: Mapping[PeriodKey, BudgetPeriod]) -> None:
        self._before.update(locked)
        self._periods.update(locked)

    def present(self, budget: Budget, now: datetime) -> BudgetPeriod:
        return self._periods[budget.number, period_start(budget.period, now)]

    def draws(self, budgets: Sequence[Budget], cost: Mapping[str, int], now: datetime) -> list[Draw]:
        """Return what a cost draws from the present periods of budgets, as they are by now."""
        return draws(cost, budgets, {each.number: self.present(each, now) for each in budgets})

    def reserve(self, job: Job, key: str, drawn: Iterable[Draw], now: datetime) -> list[Reservation]:
        """Take amounts that fit; return the reservations to store."""
        made = []
        for each in drawn:
            period = self._periods[each.period.key]
            self._periods[period.key] = period.reserve(each.amount)
            made.append(Reservation(job.number, job.token, key, *period.key, each.amount, at=now))
        return made

    def wait(self, job: Job, lacking: Iterable[Draw], now: datetime) -> list[Reservation]:
        """Note that a job found periods empty; return what it waits for, under the token with which it will wait."""
        waits = []
        for each in lacking:
            period = self._periods[each.period.key]
            self._periods[period.key] = replace(period, put_backs=period.put_backs + 1)
            waits.append(Reservation(job.number, job.token + 1, "", *period.key, each.amount, "waiting", at=now))
        return waits

    def settle(self, reservation: Reservation, spent: int, now: datetime, *, actor: str, run: str) -> Reservation:
        """Charge what was spent, in full, to the period in which it was reserved; an overdraft leaves an entry."""
        before = self._periods[reservation.period]
        after = before.settle(reservation.amount, spent)
        self._periods[after.key] = after
        if after.overdrawn > before.overdrawn:
            self._note_overdrawn(after, now, actor, run)
        return replace(reservation, state="settled", spent=spent, at=now)

    def release(self, reservation: Reservation) -> None:
        """Give back a reservation that was never used."""
        period = self._periods[reservation.period]
        self._periods[period.key] = period.settle(reservation.amount, 0)

    def change(self, period: BudgetPeriod) -> None:
        self._periods[period.key] = period

    def __getitem__(self, key: PeriodKey) -> BudgetPeriod:
        return self._periods[key]

    def write(self) -> None:
        """Write what has changed."""
        pairs = {key: (before, self._periods[key]) for key, before in self._before.items()}
        self._tx.budgets.save({key: pair for key, pair in pairs.items() if pair[0] != pair[1]})
        self._tx.audit.append_many(self._entries)

    def with_more_room(self) -> list[BudgetPeriod]:
        """Return the periods that have more room than before, and that jobs may be waiting for."""
        pairs = [(self._before[key], self._periods[key]) for key in sorted(self._periods)]
        return [after for before, after in pairs if after.put_backs and (after.left or 0) > (before.left or 0)]

    def _note_overdrawn(self, period: BudgetPeriod, now: datetime, actor: str, run: str) -> None:
        budget = self._tx.budgets.numbered([period.budget])[period.budget]
        figures = period_facts(period)
        evidence = (f"run:{run}",)
        entry = Entry(
            now, actor, "overdrawn", "budget", budget.id, budget.owner, after=figures, evidence=evidence
        )  # fmt: skip
        self._entries.append(entry)


def period_facts(period: BudgetPeriod) -> dict[str, int | str | None]:
    """Return a period as audit entries show it."""
    return {
        "starts_at": iso(period.starts_at),
        "capacity": period.capacity,
        "settled": period.settled,
        "reserved": period.reserved,
        "overdrawn": period.overdrawn,
    }


def explain(lacking: Draw) -> str:
    """Say which budget has no room; kept as the last error of a job that is put back."""
    budget, period = lacking.budget, lacking.period
    left = max(0, period.left or 0)
    return f"budget_empty: {budget.id} has {left} left of {period.capacity}, and {lacking.amount} are needed"
