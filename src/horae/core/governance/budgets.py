"""Budgets: how much may be spent in a period, in calls, tokens or micros of money.

A cost is an upper bound. It is reserved before the effect and settled after it by what was really spent; what is lost
counts as spent. A reservation belongs to one attempt at a job and to one period of one budget, which it never leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import label
from horae.core.jobs.payloads import name as checked_name
from horae.errors import InvalidInput

Unit = Literal["calls", "tokens", "micros"]
Period = Literal["day", "month", "ever"]
ReservationState = Literal["reserved", "settled", "waiting"]

UNITS: tuple[Unit, ...] = ("calls", "tokens", "micros")  # micros are millionths of a unit of money
PERIODS: tuple[Period, ...] = ("day", "month", "ever")
EVERY_AGENT = "*"
MOST = 2**53 - 1  # so that every reader of JSON reads the same number
SPREAD = timedelta(minutes=10)  # over which the jobs that waited for a refill come back
LOOK_AGAIN = timedelta(days=1)  # for a budget that is never refilled; raising it lets its jobs in at once
WHOLE = ""  # the key of what an attempt reserved when it started
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JobBudget:
    """What a job draws on: a budget by name, and the most that one attempt may cost in each unit."""

    name: str
    cost: Mapping[str, int]
    agent: str = EVERY_AGENT

    @property
    def reference(self) -> str:
        """The form in which doors take and show it: ``llm``, or ``llm/agent``."""
        return self.name if self.agent == EVERY_AGENT else f"{self.name}/{self.agent}"

    def as_json(self) -> dict[str, Any]:
        agent = {} if self.agent == EVERY_AGENT else {"agent": self.agent}
        return {"name": self.name, "cost": dict(self.cost), **agent}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> JobBudget:
        return cls(stored["name"], stored["cost"], stored.get("agent", EVERY_AGENT))


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget as someone has set it; without a capacity it only counts."""

    name: str
    unit: Unit
    period: Period
    capacity: int | None = None
    owner: str = "system"
    agent: str = EVERY_AGENT
    number: int = 0
    created_at: datetime | None = None
    changed_at: datetime | None = None
    changed_by: str = ""

    @property
    def reference(self) -> str:
        """The form in which doors take it: ``llm``, or ``llm/agent``."""
        return JobBudget(self.name, {}, self.agent).reference

    @property
    def id(self) -> str:
        """The budget within its owner, as the audit names it: ``llm:tokens:day``."""
        return f"{self.reference}:{self.unit}:{self.period}"


@dataclass(frozen=True, slots=True)
class BudgetPeriod:
    """What one budget has left in one period; settled and reserved together do not exceed the capacity.

    They do where an attempt reported more than it had reserved, or the capacity was lowered: then ``overdrawn`` says by
    how much they did at most.
    """

    budget: int  # its number
    starts_at: datetime
    capacity: int | None
    settled: int = 0
    reserved: int = 0
    overdrawn: int = 0
    put_backs: int = 0  # starts and spends that found it empty

    @property
    def key(self) -> PeriodKey:
        return self.budget, self.starts_at

    @property
    def left(self) -> int | None:
        """What can still be reserved, below zero where it is overdrawn; None: without limit."""
        return None if self.capacity is None else self.capacity - self.settled - self.reserved

    def has_room_for(self, amount: int) -> bool:
        return self.left is None or amount <= self.left

    def reserve(self, amount: int) -> BudgetPeriod:
        return replace(self, reserved=self.reserved + amount)

    def settle(self, reserved: int, spent: int) -> BudgetPeriod:
        """Turn a reservation into what was really spent, in full."""
        return replace(self, reserved=self.reserved - reserved, settled=self.settled + spent).noted()

    def noted(self) -> BudgetPeriod:
        """Note by how much the capacity is exceeded, where it is by more than before."""
        excess = 0 if self.left is None else max(0, -self.left)
        return self if excess <= self.overdrawn else replace(self, overdrawn=excess)


PeriodKey = tuple[int, datetime]  # of a budget, by its number, and the beginning of a period


@dataclass(frozen=True, slots=True)
class Reservation:
    """A part of a budget that one attempt at a job has taken, or that a job waits for.

    ``key`` names what it is for: empty for what the attempt reserved as a whole when it started.
    """

    job: int
    token: int
    key: str
    budget: int
    starts_at: datetime
    amount: int
    state: ReservationState = "reserved"
    spent: int | None = None  # as reported; once settled, as charged
    at: datetime = EPOCH

    @property
    def period(self) -> PeriodKey:
        return self.budget, self.starts_at


@dataclass(frozen=True, slots=True)
class Spending:
    """The answer to an attempt that wants to spend: granted, or how long until the budget is refilled, and why."""

    granted: bool
    wait: timedelta | None = None
    reason: str = ""


# -- what callers write ------------------------------------------------------------------------------------------------


def amounts_from(given: Any) -> dict[str, int]:
    """Return amounts by unit: whole numbers from 0 on."""
    if not isinstance(given, Mapping) or not set(UNITS).issuperset(given):
        raise InvalidInput("cost_unreadable", units=list(UNITS))
    for unit, amount in given.items():
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= MOST:
            raise InvalidInput("cost_not_whole", unit=unit)
    return dict(given)


def job_budget(budget: str | None, cost: Mapping[str, int] | None) -> JobBudget | None:
    """Return what a job draws on, from the options ``budget`` and ``cost``; an attempt is one call unless cost says so.

    ``budget`` is a name, or a name and an agent: ``llm/researcher`` draws on both the agent's budget and everyone's.
    """
    if budget is None:
        if cost is not None:
            raise InvalidInput("cost_without_budget")
        return None
    name, agent = reference_from(budget)
    return JobBudget(name, {"calls": 1} | ({} if cost is None else amounts_from(cost)), agent)


def verify_budget(kind: str) -> str:
    """Return the name of the budget that verifications of a kind of objects draw on, unless its verifier names one."""
    return f"verify.{kind}"


def reference_from(budget: Any) -> tuple[str, str]:
    """Return name and agent of a budget that is written as ``llm`` or ``llm/researcher``."""
    if not isinstance(budget, str):
        raise InvalidInput("budget_unreadable", given=repr(budget)[:100])
    name, _, agent = budget.partition("/")
    return checked_name(name, "budget", 100), label(agent, "agent", 100) if agent else EVERY_AGENT


# -- periods -----------------------------------------------------------------------------------------------------------


def period_start(period: Period, now: datetime) -> datetime:
    """Return when the present period began, in UTC; a new period is a new row."""
    if period == "ever":
        return EPOCH
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day if period == "day" else day.replace(day=1)


def period_end(period: Period, now: datetime) -> datetime | None:
    """Return when the present period ends and the next one begins, in UTC; None: never."""
    if period == "ever":
        return None
    start = period_start(period, now)
    return start + timedelta(days=1) if period == "day" else (start + timedelta(days=32)).replace(day=1)


def refill_at(period: Period, now: datetime, key: str) -> datetime | None:
    """Return when to come back for a budget that is empty, spread by a hash of the key; None: it is never refilled."""
    end = period_end(period, now)
    return None if end is None else end + SPREAD * _share(key)


def _share(key: str) -> float:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32


# -- reserve -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """An amount that is wanted from one budget, in its present period."""

    budget: Budget
    period: BudgetPeriod
    amount: int

    @property
    def fits(self) -> bool:
        return self.period.has_room_for(self.amount)

    @property
    def can_ever_fit(self) -> bool:
        return self.period.capacity is None or self.amount <= self.period.capacity


def draws(wanted: Mapping[str, int], budgets: Iterable[Budget], periods: Mapping[int, BudgetPeriod]) -> list[Draw]:
    """Return what a cost draws from budgets; a unit without a budget is unlimited, and costs nothing here."""
    return [Draw(each, periods[each.number], wanted[each.unit]) for each in budgets if wanted.get(each.unit, 0) > 0]


def concerned(budgets: Iterable[Budget], owner: str, wanted: JobBudget) -> list[Budget]:
    """Return the budgets that a job draws on: that of its agent and that of all agents, in every unit and period."""
    agents = (EVERY_AGENT, wanted.agent)
    return [each for each in budgets if each.owner == owner and each.name == wanted.name and each.agent in agents]


def back_at(lacking: Sequence[Draw], now: datetime, key: str) -> datetime:
    """Return when a job comes back whose budgets have no room: at the last of their refills."""
    refills = [refill_at(each.budget.period, now, key) or now + LOOK_AGAIN for each in lacking]
    return max(refills)


# -- settle ------------------------------------------------------------------------------------------------------------


def charges(
    reservations: Sequence[Reservation], units: Mapping[int, str], spent: Mapping[str, int] | None, *, lost: bool
) -> list[tuple[Reservation, int]]:
    """Decide what an ended attempt pays for each of its reservations; *units* gives the unit of each budget.

    *spent* is what its ending reports for the attempt as a whole. Without a report the attempt pays for all that it
    reserved, except that one which accounts for single steps pays for those steps. Lost counts as spent.
    """
    by_step = {each.budget for each in reservations if each.key != WHOLE}
    open_ones = [each for each in reservations if each.state == "reserved"]
    paid = []
    for each in open_ones:
        reported = each.spent
        if each.key == WHOLE and spent is not None:
            reported = spent.get(units[each.budget], 0)
        if lost:
            amount = max(each.amount, each.spent or 0)
        elif reported is not None:
            amount = reported
        else:
            amount = 0 if each.key == WHOLE and each.budget in by_step else each.amount
        paid.append((each, amount))
    return paid
