"""Budgets and their periods, and what attempts have reserved of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, or_, select, update

from horae.core.governance.budgets import EPOCH, Budget, BudgetPeriod, PeriodKey, Reservation
from horae.core.jobs.job import SYSTEM, Lease
from horae.core.time.instants import instant, micros
from horae.errors import StoreBusy
from horae.stores.cluster.numbered import NumberedRows
from horae.stores.databases.dialects import BY_NAME, Dialect
from horae.stores.databases.driver import CallerDriver, marks
from horae.stores.tables.budgets import (
    BUDGETS,
    PERIODS,
    RESERVATIONS,
    budget_periods,
    budgets,
    reservations,
)
from horae.stores.tables.jobs import jobs

AT_ONCE = 500
NAME = (budgets.c.owner, budgets.c.name, budgets.c.agent, budgets.c.unit, budgets.c.period)


class Budgets(NumberedRows):
    """Budgets inside one transaction. Periods are locked in the order of their keys, after objects and before jobs."""

    @property
    def dialect(self) -> Dialect:
        return BY_NAME[self.connection.dialect.name]

    # -- budgets ---------------------------------------------------------------------------------------------------

    def named(self, names: Collection[tuple[str, str]]) -> list[Budget]:
        """Return the budgets of these owners and names."""
        owners, wanted = {owner for owner, _ in names}, {name for _, name in names}
        query = select(*BUDGETS.select).where(budgets.c.owner.in_(owners), budgets.c.name.in_(wanted))
        found = (BUDGETS.read(row) for row in self.connection.execute(query.order_by(budgets.c.id)))
        return [each for each in found if (each.owner, each.name) in names]

    def numbered(self, numbers: Collection[int]) -> dict[int, Budget]:
        query = select(*BUDGETS.select).where(budgets.c.id.in_(numbers))
        return {each.number: each for each in map(BUDGETS.read, self.connection.execute(query))}

    def get(self, budget: Budget, *, lock: bool = False) -> Budget | None:
        """Return the stored budget of the same owner, name, agent, unit and period."""
        query = select(*BUDGETS.select).where(
            budgets.c.owner == budget.owner,
            budgets.c.name == budget.name,
            budgets.c.agent == budget.agent,
            budgets.c.unit == budget.unit,
            budgets.c.period == budget.period,
        )
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else BUDGETS.read(row)

    def find(
        self, *, owner: str | None, name: str | None, limit: int, after: tuple[str, ...] | None = None
    ) -> list[Budget]:
        """Return a page of budgets by owner, name, agent, unit and period."""
        query = select(*BUDGETS.select).where(*BUDGETS.equal({"owner": owner, "name": name}))
        if after is not None:
            query = query.where(_greater(NAME, after))
        return [BUDGETS.read(row) for row in self.connection.execute(query.order_by(*NAME).limit(limit))]

    def put(self, budget: Budget) -> int:
        """Store a budget; return its number."""
        if budget.number:
            self.connection.execute(
                update(budgets).where(budgets.c.id == budget.number).values(BUDGETS.changes(budget))
            )
            return budget.number
        new = BUDGETS.row(budget)
        row = self.with_own_number(new) if budget.owner == SYSTEM else self.with_number(new, budget.owner)
        made = self.connection.execute(insert(budgets), row).inserted_primary_key
        assert made is not None
        return int(made[0])

    # -- periods ---------------------------------------------------------------------------------------------------

    def lock_periods(self, wanted: Iterable[tuple[Budget, datetime]]) -> dict[PeriodKey, BudgetPeriod]:
        """Lock periods of budgets, each with its beginning; one that is used for the first time is made."""
        by_key = {(budget.number, start): budget for budget, start in wanted}
        found = self.lock(by_key)
        new = [BudgetPeriod(*key, by_key[key].capacity) for key in sorted(by_key.keys() - found.keys())]
        if not new:
            return found
        driver, (before, behind) = CallerDriver(self.connection), self.dialect.insert_ignore
        values = f"horae_budget_periods ({', '.join(PERIODS.written)}) VALUES ({marks(len(PERIODS.written))})"
        for each in new:
            driver.change(f"{before} {values} {behind}", PERIODS.values(each))
        return self.lock(by_key)

    def lock(self, keys: Collection[PeriodKey]) -> dict[PeriodKey, BudgetPeriod]:
        """Lock those of these periods that exist, in the order of their keys."""
        found = self._periods(keys, lock=True)
        return {each.key: each for each in found}

    def periods(self, keys: Collection[PeriodKey]) -> dict[PeriodKey, BudgetPeriod]:
        return {each.key: each for each in self._periods(keys)}

    def _periods(self, keys: Collection[PeriodKey], *, lock: bool = False) -> Iterator[BudgetPeriod]:
        ordered = sorted(keys)
        for first in range(0, len(ordered), AT_ONCE):
            chunk = ordered[first : first + AT_ONCE]
            query = select(*PERIODS.select).where(or_(*(_is_period(budget_periods.c, key) for key in chunk)))
            query = query.order_by(budget_periods.c.budget_id, budget_periods.c.starts_at)
            rows = self.connection.execute(query.with_for_update() if lock else query).all()
            yield from map(PERIODS.read, rows)

    def history(self, number: int, *, limit: int, before: datetime | None = None) -> list[BudgetPeriod]:
        """Return the periods of a budget, the latest first."""
        query = select(*PERIODS.select).where(budget_periods.c.budget_id == number)
        if before is not None:
            query = query.where(budget_periods.c.starts_at < micros(before))
        query = query.order_by(budget_periods.c.starts_at.desc()).limit(limit)
        return [PERIODS.read(row) for row in self.connection.execute(query)]

    def overdrawn(self, since: datetime, *, limit: int) -> list[BudgetPeriod]:
        """Return periods that are overdrawn and began since then, or never end."""
        recent = or_(budget_periods.c.starts_at >= micros(since), budget_periods.c.starts_at == micros(EPOCH))
        query = select(*PERIODS.select).where(budget_periods.c.overdrawn > 0, recent)
        query = query.order_by(budget_periods.c.budget_id, budget_periods.c.starts_at).limit(limit)
        return [PERIODS.read(row) for row in self.connection.execute(query)]

    def save(self, changed: Mapping[PeriodKey, tuple[BudgetPeriod, BudgetPeriod]]) -> None:
        """Write locked periods, each as it was and as it is now; only if nothing else has changed it."""
        for key in sorted(changed):
            before, after = changed[key]
            same = (
                _is_period(budget_periods.c, key),
                budget_periods.c.settled == before.settled,
                budget_periods.c.reserved == before.reserved,
            )
            values = PERIODS.changes(after)
            if self.connection.execute(update(budget_periods).where(*same).values(values)).rowcount != 1:
                raise StoreBusy("budget_changed", budget=key[0])

    # -- reservations ----------------------------------------------------------------------------------------------

    def of_attempts(self, leases: Iterable[Lease]) -> list[Reservation]:
        """Return what these attempts have reserved and settled, by key and budget."""
        tokens = {lease.job_number: lease.token for lease in leases}
        found = self._of_jobs(list(tokens), reservations.c.state != "waiting")
        return [each for each in found if each.token == tokens[each.job]]

    def waits(self, numbers: Collection[int]) -> list[Reservation]:
        """Return what these jobs wait for."""
        return self._of_jobs(list(numbers), reservations.c.state == "waiting")

    def _of_jobs(self, numbers: Sequence[int], which: ColumnElement[bool]) -> list[Reservation]:
        found: list[Reservation] = []
        for first in range(0, len(numbers), AT_ONCE):
            query = select(*RESERVATIONS.select).where(reservations.c.job_id.in_(numbers[first : first + AT_ONCE]))
            found += [RESERVATIONS.read(row) for row in self.connection.execute(_in_order(query.where(which)))]
        return found

    def waiting_for(self, number: int, *, limit: int) -> list[Reservation]:
        """Return waits for a budget."""
        waits = (reservations.c.budget_id == number, reservations.c.state == "waiting")
        query = _in_order(select(*RESERVATIONS.select).where(*waits)).limit(limit)
        return [RESERVATIONS.read(row) for row in self.connection.execute(query)]

    def add(self, new: Sequence[Reservation]) -> None:
        if new:
            self.connection.execute(insert(reservations), [RESERVATIONS.row(each) for each in new])

    def change(self, changed: Iterable[Reservation]) -> None:
        for each in changed:
            query = update(reservations).where(_is_reservation(each)).values(RESERVATIONS.changes(each))
            self.connection.execute(query)

    def remove(self, gone: Iterable[Reservation]) -> None:
        for each in gone:
            self.connection.execute(delete(reservations).where(_is_reservation(each)))

    def stop_waiting(self, numbers: Collection[int]) -> None:
        """Forget what these jobs waited for."""
        ordered = sorted(numbers)
        for first in range(0, len(ordered), AT_ONCE):
            chunk = ordered[first : first + AT_ONCE]
            waits = (reservations.c.job_id.in_(chunk), reservations.c.state == "waiting")
            self.connection.execute(delete(reservations).where(*waits))

    def leftovers(self, *, limit: int) -> list[Reservation]:
        """Return reservations whose attempt has ended, and waits of jobs that no longer wait: nothing ends them."""
        held = and_(reservations.c.state == "reserved", jobs.c.state == "running")
        waits = and_(reservations.c.state == "waiting", jobs.c.state == "queued")
        same = and_(jobs.c.id == reservations.c.job_id, jobs.c.token == reservations.c.token, or_(held, waits))
        query = select(*RESERVATIONS.select).where(reservations.c.state != "settled")
        query = _in_order(query.where(~select(jobs.c.id).where(same).exists())).limit(limit)
        return [RESERVATIONS.read(row) for row in self.connection.execute(query)]

    def sums(self) -> dict[PeriodKey, tuple[int, int]]:
        """Add up, for each period, what is reserved and what is settled; for a check of the totals."""
        columns = (reservations.c.budget_id, reservations.c.starts_at, reservations.c.state)
        total = func.sum(func.coalesce(reservations.c.spent, 0))
        query = select(*columns, func.sum(reservations.c.amount), total).group_by(*columns)
        found: dict[PeriodKey, tuple[int, int]] = {}
        for number, starts_at, state, amount, spent in self.connection.execute(query):
            key = (number, instant(starts_at))
            reserved, settled = found.get(key, (0, 0))
            if state == "reserved":
                found[key] = (reserved + int(amount), settled)
            elif state == "settled":
                found[key] = (reserved, settled + int(spent))
        return found

    def all_periods(self) -> list[BudgetPeriod]:
        """Return every period of every budget; for a check of the totals."""
        return [PERIODS.read(row) for row in self.connection.execute(select(*PERIODS.select))]


def _in_order(query: Select[tuple[object, ...]]) -> Select[tuple[object, ...]]:
    by = reservations.c
    return query.order_by(by.job_id, by.token, by.step, by.budget_id, by.starts_at)


def _is_period(columns: object, key: PeriodKey) -> ColumnElement[bool]:
    return and_(columns.budget_id == key[0], columns.starts_at == micros(key[1]))  # type: ignore[attr-defined]  # the columns of either table


def _is_reservation(each: Reservation) -> ColumnElement[bool]:
    by = reservations.c
    attempt = and_(by.job_id == each.job, by.token == each.token, by.step == each.key)
    return and_(attempt, _is_period(by, each.period))


def _greater(columns: Sequence[ColumnElement[str]], after: Sequence[str]) -> ColumnElement[bool]:
    """Return whether columns stand behind a value, compared one after the other."""
    first, *rest = columns
    if not rest:
        return first > after[0]
    return or_(first > after[0], and_(first == after[0], _greater(rest, after[1:])))
