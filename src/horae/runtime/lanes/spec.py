"""What an agent declares, and what its functions are given: a turn to decide, a step to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from horae.actions.attention.charges import FREE, Costs
from horae.core.attention.directives import Effect
from horae.core.attention.facts import FactList
from horae.core.attention.task import Control, Policy, Rule
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import amounts_from
from horae.runtime.lanes.steps import WithSteps


@dataclass(frozen=True, slots=True)
class ActionDef:
    """One action of the agent: its function, its effect and its time limit."""

    name: str
    run: Callable[..., Any]
    effect: Effect
    timeout: timedelta


class Bill:
    """What a turn or a step says that it has cost; the last word counts."""

    def __init__(self) -> None:
        self.spent: Mapping[str, int] | None = None

    def report(self, cost: Mapping[str, int]) -> None:
        self.spent = amounts_from(cost)


@dataclass(frozen=True, slots=True)
class Turn(WithSteps):
    """The input of one call of cognition."""

    task_id: str
    kind: str
    payload: Any
    context: Any
    facts: FactList
    control: Control
    now: datetime
    number: int
    note: str | None = None
    _bill: Bill = field(default_factory=Bill, repr=False, compare=False)

    def spent(self, cost: Mapping[str, int]) -> None:
        """Say what this turn has really cost, as ``{"tokens": 812}``; without it the whole of its cost is charged."""
        self._bill.report(cost)


@dataclass(frozen=True, slots=True)
class Step(WithSteps):
    """One run of an action. ``key`` is the same for every try of this step: pass it on as an idempotency key."""

    key: str
    task_id: str
    number: int
    effect: Effect
    asks: Callable[[], bool] = field(repr=False, compare=False)
    _bill: Bill = field(default_factory=Bill, repr=False, compare=False)

    def should_yield(self) -> bool:
        """Return whether a more urgent task or a cancel waits for a safe point; long work may return partial facts."""
        return self.asks()

    def spent(self, cost: Mapping[str, int]) -> None:
        """Say what this step has really cost; without it the whole of its cost is charged."""
        self._bill.report(cost)


@dataclass(frozen=True)
class AgentSpec:
    """The definition of an agent: its lane, functions, policy and limits."""

    lane: str
    owner: str
    cognitions: Mapping[str, Callable[..., Any]]
    actions: Mapping[str, ActionDef]
    control: Callable[[], Any]
    policy: Policy = field(default_factory=Policy)
    turn_timeout: timedelta = timedelta(minutes=5)
    lease: timedelta = timedelta(seconds=30)
    rules: Sequence[Rule] = ()
    costs: Costs = FREE
