"""The verbs of the room: set budgets, look at them, correct them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from horae.actions.budgets.ledger import PeriodLedger, period_facts
from horae.actions.budgets.waits import let_in
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import (
    MOST,
    PERIODS,
    UNITS,
    Budget,
    BudgetPeriod,
    Period,
    Reservation,
    Unit,
    period_end,
    period_start,
    reference_from,
)
from horae.core.jobs.job import SYSTEM, Job
from horae.core.jobs.payloads import label
from horae.core.jobs.reasons import BudgetWait
from horae.core.time.instants import micros
from horae.errors import InvalidInput, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

Choose = Callable[[Tx, BudgetPeriod], int | None]
LET_IN_AT_ONCE = 1000  # jobs that waited and are moved when a budget is raised; the others come at the refill


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A budget, and what its present period has used of it."""

    budget: Budget
    period: BudgetPeriod
    refill_at: datetime | None


def set_budget(
    world: World,
    name: str,
    unit: Unit,
    capacity: int | None,
    *,
    period: Period = "day",
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
    choose: Choose | None = None,
) -> BudgetView:
    """Set what may be spent in each period, from the present one on; None: no limit, it only counts.

    Jobs that wait for it are due now, where there may be room for them. *choose* returns the capacity of the present
    period, where that is to be another one.
    """
    if capacity is not None:
        check_amount("capacity", capacity, least=0)
    wanted, now = replace(named(name, unit, period, owner), capacity=capacity), world.clock.now()

    def write(tx: Tx) -> BudgetView:
        known = tx.budgets.get(wanted, lock=True)
        stored = replace(known or replace(wanted, created_at=now), capacity=capacity, changed_at=now, changed_by=actor)
        stored = replace(stored, number=tx.budgets.put(stored))
        ledger = PeriodLedger(tx)
        ledger.open([stored], now)
        before = ledger.present(stored, now)
        after = replace(before, capacity=capacity if choose is None else choose(tx, before)).noted()
        ledger.change(after)
        ledger.write()
        old = {} if known is None else {"capacity": known.capacity}
        _append(tx, "set_budget", stored, actor, reason, now, old, {"capacity": capacity, **_used(after)})
        let_in(tx, after, now, LET_IN_AT_ONCE)
        return _view(stored, after, now)

    return world.route(owner=owner).store.transact(write)


def adjust(
    world: World,
    name: str,
    unit: Unit,
    amount: int,
    *,
    period: Period = "day",
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str,
) -> BudgetView:
    """Correct what the present period has used: what was spent elsewhere counts, a refund is below zero."""
    check_amount("amount", amount, least=-MOST)
    if not reason.strip():
        raise InvalidInput("adjust_reason_missing", budget=name)
    now, wanted = world.clock.now(), named(name, unit, period, owner)

    def write(tx: Tx) -> BudgetView:
        stored = _known(tx.budgets.get(wanted), wanted)
        ledger = PeriodLedger(tx)
        ledger.open([stored], now)
        before = ledger.present(stored, now)
        if before.settled + amount < 0:
            raise InvalidInput("adjust_below_zero", budget=stored.id, settled=before.settled, amount=amount)
        after = replace(before, settled=before.settled + amount).noted()
        ledger.change(after)
        ledger.write()
        line = Reservation(0, micros(now), world.dice.name(), *after.key, 0, "settled", amount, now)
        tx.budgets.add([line])
        _append(tx, "adjust_budget", stored, actor, reason, now, _used(before), _used(after))
        let_in(tx, after, now, LET_IN_AT_ONCE)
        return _view(stored, after, now)

    return world.route(owner=owner).store.transact(write)


def get(world: World, name: str, unit: Unit, *, period: Period = "day", owner: str = SYSTEM) -> BudgetView:
    """Return one budget with its present period."""
    wanted = named(name, unit, period, owner)
    now = world.clock.now()
    read = world.route(owner=owner).store.read
    return read(lambda tx: _views(tx, [_known(tx.budgets.get(wanted), wanted)], now)[0])


def find(
    world: World,
    *,
    owner: str | None = None,
    name: str | None = None,
    limit: int = 100,
    after: tuple[str, ...] | None = None,
) -> list[BudgetView]:
    """Return budgets with their present periods, by owner, name, agent, unit and period."""
    now = world.clock.now()
    read = world.route(owner=owner).store.read
    return read(lambda tx: _views(tx, tx.budgets.find(owner=owner, name=name, limit=limit, after=after), now))


def some(world: World, keys: Iterable[tuple[str, str, str, Unit, Period]]) -> list[BudgetView]:
    """Return those of the budgets, by owner, name, agent, unit and period, that there are."""
    now = world.clock.now()
    wanted = [Budget(name, unit, period, owner=owner, agent=agent) for owner, name, agent, unit, period in keys]

    def read(tx: Tx) -> list[BudgetView]:
        found = [tx.budgets.get(each) for each in wanted]
        return _views(tx, [each for each in found if each is not None], now)

    return world.route().store.read(read)


def divide_correction(amount: int, periods: Mapping[int, BudgetPeriod]) -> dict[int, int]:
    """Return what each database of a cluster corrects: all alike, but none gives back more than it has used."""
    if amount >= 0:
        whole, rest = divmod(amount, len(periods))
        return {number: whole + (index < rest) for index, number in enumerate(sorted(periods))}
    settled = sum(each.settled for each in periods.values())
    if settled + amount < 0:
        raise InvalidInput("adjust_below_zero", budget="of the house", settled=settled, amount=amount)
    parts, left = dict[int, int](), -amount
    for number, each in sorted(periods.items()):
        back = min(left, each.settled)
        parts[number], left = -back, left - back
    return {number: part for number, part in parts.items() if part}


def history(
    world: World,
    name: str,
    unit: Unit,
    *,
    period: Period = "day",
    owner: str = SYSTEM,
    limit: int = 30,
    before: datetime | None = None,
) -> list[BudgetPeriod]:
    """Return the periods in which a budget was used, the latest first."""
    wanted = named(name, unit, period, owner)

    def read(tx: Tx) -> list[BudgetPeriod]:
        known = _known(tx.budgets.get(wanted), wanted)
        return tx.budgets.history(known.number, limit=limit, before=before)

    return world.route(owner=owner).store.read(read)


def budget_views(tx: Tx, now: datetime, *, limit: int, owner: str | None = None) -> list[BudgetView]:
    """Return the first budgets with their present periods, inside a transaction."""
    return _views(tx, tx.budgets.find(owner=owner, name=None, limit=limit), now)


def find_overdrawn(world: World, *, limit: int = 100) -> list[BudgetView]:
    """Return budgets whose present period has been exceeded."""
    now = world.clock.now()

    def read(tx: Tx) -> list[BudgetView]:
        found = tx.budgets.overdrawn(period_start("month", now), limit=limit)
        known = tx.budgets.numbered({each.budget for each in found}) if found else {}
        views = _views(tx, known.values(), now)
        return [view for view in views if view.period.overdrawn]

    return world.route().store.read(read)


def waits_of(tx: Tx, job: Job, now: datetime) -> tuple[BudgetWait, ...]:
    """Return the budgets that a job waits for, as they are now."""
    waits = [each for each in tx.budgets.waits([job.number]) if each.token == job.token]
    known = tx.budgets.numbered({each.budget for each in waits}) if waits else {}
    views = {view.budget.number: view for view in _views(tx, known.values(), now)}
    return tuple(
        BudgetWait(
            view.budget.id, each.amount, view.period.capacity, view.period.left, refilled=view.refill_at is not None
        )
        for each in waits
        if (view := views.get(each.budget)) is not None
    )


def named(name: str, unit: str, period: str, owner: str = SYSTEM) -> Budget:
    """Return a budget by what callers write; refuse what names none."""
    if unit not in UNITS:
        raise InvalidInput("choice_unknown", name="unit", value=str(unit), choices=list(UNITS))
    if period not in PERIODS:
        raise InvalidInput("choice_unknown", name="period", value=str(period), choices=list(PERIODS))
    known, agent = reference_from(name)
    return Budget(known, unit, period, owner=label(owner, "owner"), agent=agent)


def check_amount(what: str, amount: int, *, least: int) -> None:
    """Refuse what is no whole number, or outside of what every reader of JSON reads alike."""
    if isinstance(amount, bool) or not isinstance(amount, int) or not least <= amount <= MOST:
        raise InvalidInput("out_of_range", name=what, value=str(amount)[:40], least=least, most=MOST)


def _known(found: Budget | None, wanted: Budget) -> Budget:
    if found is None:
        raise NotFound("budget_unknown", budget=wanted.id)
    return found


def _views(tx: Tx, found: Iterable[Budget], now: datetime) -> list[BudgetView]:
    budgets = list(found)
    keys = {each.number: (each.number, period_start(each.period, now)) for each in budgets}
    periods = tx.budgets.periods(keys.values()) if keys else {}
    unused = {each.number: BudgetPeriod(*keys[each.number], each.capacity) for each in budgets}
    return [_view(each, periods.get(keys[each.number], unused[each.number]), now) for each in budgets]


def _view(budget: Budget, period: BudgetPeriod, now: datetime) -> BudgetView:
    return BudgetView(budget, period, period_end(budget.period, now))


def _used(period: BudgetPeriod) -> dict[str, int | str | None]:
    facts = period_facts(period)
    return {name: facts[name] for name in ("starts_at", "settled", "reserved", "overdrawn")}


def _append(
    tx: Tx,
    verb: str,
    budget: Budget,
    actor: str,
    reason: str,
    now: datetime,
    before: Mapping[str, int | str | None],
    after: Mapping[str, int | str | None],
) -> None:
    tx.audit.append(Entry(now, actor, verb, "budget", budget.id, budget.owner, reason or None, before, after))
