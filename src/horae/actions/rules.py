"""The rules that take part in jobs wherever Horae runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horae.actions.budgets.rule import BudgetRule
from horae.actions.governance.rule import ObjectRule

if TYPE_CHECKING:
    from horae.ports.claims import JobRule
    from horae.ports.world import Dice


def job_rules(dice: Dice) -> tuple[JobRule, ...]:
    """Return the rules in the order of their locks: objects, then budgets."""
    return ObjectRule(dice), BudgetRule()
