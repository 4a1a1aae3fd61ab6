"""What turns and steps of a lane take from budgets: charged before, corrected afterwards by what was reported.

A charge and the turn or step that it pays for are written together. One that is lost keeps its whole charge; tried
again it is charged again, so that nothing is spent that no budget has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.attention.lanes import LaneWriter
from horae.actions.budgets.ledger import PeriodLedger, explain
from horae.core.attention.lanes import Task
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import Draw, JobBudget, Reservation, amounts_from, back_at, concerned
from horae.core.jobs.payloads import decode, encode
from horae.core.time.instants import from_iso, iso

ONE_CALL = {"calls": 1}


@dataclass(frozen=True, slots=True)
class Costs:
    """What an agent pays from: a budget of its owner, and the most that a turn or a step may cost."""

    budget: JobBudget | None = None
    turns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by kind of task
    steps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by action


FREE = Costs()


@dataclass(frozen=True, slots=True)
class Lacking:
    """Why something cannot be paid now, and when to look again; None: it never can."""

    reason: str
    until: datetime | None


def charge(
    writer: LaneWriter, task: Task, costs: Costs, cost: Mapping[str, int] | None, *, overdraw: bool = False
) -> tuple[str | None, Lacking | None]:
    """Take what a turn or step may cost; return what to keep with the task, or why it cannot be paid now.

    With *overdraw* it is taken in any case.
    """
    if costs.budget is None:
        return None, None
    owner, now = writer.lane.owner, writer.now
    budgets = concerned(writer.tx.budgets.named({(owner, costs.budget.name)}), owner, costs.budget)
    ledger = PeriodLedger(writer.tx)
    ledger.open(budgets, now)
    drawn = ledger.draws(budgets, ONE_CALL | dict(cost or {}), now)
    lacking = [each for each in drawn if not each.fits]
    if lacking and not overdraw:
        return None, _explain(lacking, now, f"{writer.lane.name}:{task.id}")
    taken = []
    for each in drawn:
        _book(ledger, each.period.key, each.amount, writer, task)
        taken.append([each.period.budget, iso(each.period.starts_at), each.budget.unit, each.amount])
    ledger.write()
    return (encode(taken, "charge") if taken else None), None


def settle(writer: LaneWriter, task: Task, spent: Mapping[str, int] | None) -> Task:
    """Correct the open charge of a task by what was really spent; without a report all of it was."""
    if task.charged is None:
        return task
    if spent is not None:
        _correct(writer, task, decode(task.charged), amounts_from(spent))
    return writer.save(task, replace(task, charged=None))


def _correct(writer: LaneWriter, task: Task, taken: list[Any], spent: Mapping[str, int]) -> None:
    ledger = PeriodLedger(writer.tx)
    ledger.lock({(budget, from_iso(starts_at)) for budget, starts_at, _, _ in taken})
    for budget, starts_at, unit, amount in taken:
        _book(ledger, (budget, from_iso(starts_at)), spent.get(unit, amount) - amount, writer, task)
    ledger.write()


def _book(ledger: PeriodLedger, key: tuple[int, datetime], amount: int, writer: LaneWriter, task: Task) -> None:
    """Book an amount as spent; an overdraft leaves an entry in the audit."""
    nothing = Reservation(0, 0, "", *key, 0, at=writer.now)
    ledger.settle(nothing, amount, writer.now, actor=f"agent/{writer.lane.name}", run=task.id)


def _explain(lacking: list[Draw], now: datetime, key: str) -> Lacking:
    ever = all(each.can_ever_fit for each in lacking)
    return Lacking(explain(lacking[0]), back_at(lacking, now, key) if ever else None)


def pause_until(lacking: Lacking, now: datetime, longest: timedelta) -> timedelta:
    """Return how long a task waits for its budget."""
    assert lacking.until is not None
    return min(max(lacking.until - now, timedelta(seconds=1)), longest)
