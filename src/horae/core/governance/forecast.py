"""What becomes of an object if nothing new arrives: its timers followed, day by day, without living them through."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, cast

from horae.core.dataclass import dataclass
from horae.core.governance.machines import Action, Verdict
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Policy
from horae.core.governance.timers import Rule, may_look, next_action
from horae.core.governance.transitions import ALONE, Around, conclude
from horae.core.governance.verdicts import Finding, judge

Assume = Literal["confirmed", "inconclusive", "refuted", "none"]
MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One action that will come due, and the state that it leaves."""

    at: datetime
    action: Action
    rule: Rule
    events: tuple[str, ...]
    state: str


def forecast(
    it: GovernedObject,
    policy: Policy,
    now: datetime,
    until: datetime,
    *,
    assume: Assume = "none",
    around: Around = ALONE,
) -> Iterator[Step]:
    """Yield what comes due until then, if nothing new arrives; *assume* says what every verification will find.

    With ``none`` the built-in verifier judges by what is stored.
    """
    for _ in range(MOST_STEPS):
        planned = next_action(it, policy, now)
        if planned is None or planned.at > until:
            return
        now = planned.at
        finding = assumed(it, planned.action, policy, assume, around)
        done = conclude(it, planned.action, finding, policy, now, around)
        it = done.object
        yield Step(now, planned.action, planned.rule, done.events, it.state)


def assumed(it: GovernedObject, action: Action, policy: Policy, assume: Assume, around: Around) -> Finding | None:
    """Return the finding that an action is assumed to end with; none for those that carry no verdict."""
    if action in ("decay", "archive"):
        return None
    if assume == "none" or not may_look(it, action, policy):
        return judge(it, action, policy, evidence=around.evidence, survived=around.survived)
    return Finding(cast(Verdict, assume), survived_counterexample=assume == "confirmed")
