"""What an object comes due for next, and when: the earliest of its timers.

Every state has its rules, and each rule is one timer: the clock of truth, the clock of use, the end of uncertainty, an
expiry, a review's deadline. One job per object follows from it; nothing is ever found by looking through all objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from horae.core.governance.decay import until_retrievability, until_weight
from horae.core.governance.machines import Action, way_to_archive
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import MILLION, Policy, half_life

Rule = Literal[
    "asked", "first", "truth", "weight", "uncertain", "suspected", "recheck", "reinstate", "expiry", "archive", "review"
]
RULES: Mapping[str, Mapping[str, tuple[Rule, ...]]] = {
    "memory": {
        "candidate": ("first", "expiry"),
        "verified": ("truth", "weight", "expiry"),
        "active": ("truth", "weight", "expiry"),
        "stale": ("recheck", "archive"),
        "stale_uncertain": ("uncertain", "archive"),
        "quarantine": ("suspected", "archive"),
        "rejected_poisoned": ("archive",),
        "archived": ("reinstate",),
    },
    "experience": {
        "candidate": ("first", "expiry"),
        "active": ("truth", "weight", "expiry"),
        "needs_review": ("recheck", "archive"),
        "invalidated": ("archive",),
        "archived": ("reinstate",),
    },
    "cognition": {
        "candidate/uncertain": ("uncertain", "expiry"),
        "active/supported": ("truth", "expiry"),
        "active/uncertain": ("uncertain", "expiry"),
        "needs_revalidate/uncertain": ("uncertain", "expiry"),
        "stale/uncertain": ("recheck", "archive"),
        "refuted/refuted": ("archive",),
        "archived/uncertain": ("reinstate",),
        "archived/refuted": ("reinstate",),
    },
}
UNKNOWABLE: tuple[Rule, ...] = ("reinstate", "expiry")


@dataclass(frozen=True, slots=True)
class Planned:
    """The next action, its time, and the rule that says so."""

    action: Action
    at: datetime
    rule: Rule


def next_action(it: GovernedObject, policy: Policy, now: datetime) -> Planned | None:
    """Return what the object comes due for next; None where it is final or dormant.

    A time that has passed means now. What a caller asked for wins, but not beyond the end of uncertainty or expiry.
    """
    if it.is_final:
        return None
    timers = list(_timers(it, policy))
    if it.asked_action is not None and it.asked_at is not None:
        bounds = [each for each in timers if each.rule in ("uncertain", "expiry") and _is_an_end(it, each)]
        timers = [*bounds, Planned(it.asked_action, it.asked_at, "asked")]
    if not timers:
        return None
    first = min(timers, key=lambda each: each.at)
    return first if first.at >= now else Planned(first.action, now, first.rule)


def _is_an_end(it: GovernedObject, timer: Planned) -> bool:
    return timer.at in (it.uncertain_until, it.expires_at)


def _timers(it: GovernedObject, policy: Policy) -> Iterator[Planned]:
    rules = UNKNOWABLE if it.is_unknowable and it.status != "archived" else RULES[it.kind].get(it.state, ())
    for rule in rules:
        found = _timer(rule, it, policy)
        if found is not None:
            yield Planned(*found, rule)
    if it.review_deadline is not None:
        yield Planned("revalidate", it.review_deadline, "review")


def _timer(rule: Rule, it: GovernedObject, policy: Policy) -> tuple[Action, datetime] | None:
    match rule:
        case "first":
            return "verify", it.created_at if it.checked_at is None else it.checked_at + retry_delay(it, policy)
        case "truth":
            return "revalidate", (it.verified_at or it.state_since) + crossing(it, policy)
        case "weight":
            fades = half_life(policy, it.category)
            used = it.used_at or it.verified_at or it.created_at
            return None if fades is None else ("decay", used + until_weight(policy.stale_below / MILLION, fades))
        case "uncertain":
            return _while_uncertain(it, policy)
        case "suspected":
            return "verify", _after_suspicion(it, policy)
        case "recheck":
            action: Action = "revalidate" if it.state == "needs_review" else "reinstate-check"
            return action, max(it.state_since, it.checked_at or it.state_since) + policy.recheck_every
        case "reinstate":
            if it.reinstate_checks >= len(policy.reinstate_after):
                return None
            began = max(it.state_since, it.checked_at or it.state_since)
            return "reinstate-check", began + policy.reinstate_after[it.reinstate_checks]
        case "expiry":
            is_over = it.expires_at is not None and not it.protected and way_to_archive(it.kind, it.state)
            return ("archive", it.expires_at) if is_over and it.expires_at is not None else None
        case "archive":
            at = it.expires_at or (it.stale_since or it.state_since) + policy.archive_after
            return None if it.protected else ("archive", at)
        case _:
            return None


def crossing(it: GovernedObject, policy: Policy) -> timedelta:
    """Return after how long what was verified has to be looked at again."""
    return until_retrievability(policy.target / MILLION, it.stability)


def retry_delay(it: GovernedObject, policy: Policy) -> timedelta:
    """Return how long to wait after a verdict that decided nothing: longer each time."""
    return policy.inconclusive_delay * int(3 ** max(0, it.inconclusives - 1))


def _while_uncertain(it: GovernedObject, policy: Policy) -> tuple[Action, datetime] | None:
    """Verify while the budget lasts, at the latest when uncertainty ends; without a budget only its end counts."""
    if it.verify_used < policy.verify_budget:
        looked = it.checked_at is not None and it.checked_at >= it.state_since
        at = it.checked_at + retry_delay(it, policy) if looked and it.checked_at is not None else it.state_since
        in_time = it.uncertain_until is not None and (it.checked_at is None or it.checked_at < it.uncertain_until)
        return "verify", min(at, it.uncertain_until) if in_time and it.uncertain_until is not None else at
    return None if it.uncertain_until is None else ("revalidate", it.uncertain_until)


def _after_suspicion(it: GovernedObject, policy: Policy) -> datetime:
    """Verify at once while the budget lasts, then after a week, three weeks and so on."""
    if it.checked_at is None or it.checked_at < it.state_since:
        return it.state_since
    over = it.verify_used - policy.verify_budget
    return it.checked_at + (policy.inconclusive_delay if over < 0 else policy.recheck_every * 3**over)
