"""What an object comes due for next, and when: the earliest of its timers.

Every state has its rules, and each rule is one timer: the clock of truth, the clock of use, the end of uncertainty, an
expiry. One job per object follows from it; nothing is ever found by looking through all objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.governance.decay import until_retrievability, until_weight
from horae.core.governance.machines import Action, way_to_archive
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import MILLION, Policy, half_life

Rule = Literal[
    "asked", "first", "signal", "truth", "weight", "uncertain", "suspected", "recheck", "reinstate", "expiry", "archive"
]
RULES: Mapping[str, Mapping[str, tuple[Rule, ...]]] = {
    "memory": {
        "candidate": ("first", "signal", "expiry"),
        "verified": ("truth", "weight", "expiry"),
        "active": ("truth", "weight", "expiry"),
        "stale": ("recheck", "signal", "archive"),
        "stale_uncertain": ("uncertain", "signal", "archive"),
        "quarantine": ("suspected", "archive"),
        "rejected_poisoned": ("archive",),
        "archived": ("reinstate",),
    },
    "experience": {
        "candidate": ("first", "signal", "expiry"),
        "active": ("truth", "weight", "expiry"),
        "needs_review": ("recheck", "signal", "archive"),
        "invalidated": ("archive",),
        "archived": ("reinstate",),
    },
    "cognition": {
        "candidate/uncertain": ("uncertain", "signal", "expiry"),
        "active/supported": ("truth", "expiry"),
        "active/uncertain": ("uncertain", "signal", "expiry"),
        "needs_revalidate/uncertain": ("uncertain", "signal", "expiry"),
        "stale/uncertain": ("recheck", "signal", "archive"),
        "refuted/refuted": ("archive",),
        "archived/uncertain": ("reinstate",),
        "archived/refuted": ("reinstate",),
    },
}
UNKNOWABLE: tuple[Rule, ...] = ("reinstate", "expiry")
FADING = ("stale", "stale_uncertain", "needs_review", "stale/uncertain")  # archived so long after they became stale
LOOKS: tuple[Action, ...] = ("verify", "revalidate", "reinstate-check")  # actions that end with a verdict


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
        held = [each for each in timers if _holds_beside(it, each)]
        timers = [*held, *_end_of_uncertainty(it, policy), Planned(it.asked_action, it.asked_at, "asked")]
    if not timers:
        return None
    first = min(timers, key=lambda each: each.at)
    return first if first.at >= now else Planned(first.action, now, first.rule)


def _holds_beside(it: GovernedObject, timer: Planned) -> bool:
    """Return whether a timer holds beside a caller's request: an expiry, or, where no verifier can look, time alone."""
    return timer.rule == "expiry" or timer.at == it.expires_at or (it.stalled and timer.action not in LOOKS)


def _end_of_uncertainty(it: GovernedObject, policy: Policy) -> Iterator[Planned]:
    if it.is_uncertain and not it.is_unknowable and it.uncertain_until is not None:
        action: Action = "verify" if it.verify_used < policy.verify_budget else "revalidate"
        yield Planned(action, it.uncertain_until, "uncertain")


def may_look(it: GovernedObject, action: str, policy: Policy) -> bool:
    """Return whether a verifier may be asked for this action, or time alone decides it.

    An uncertain object whose budget is used up only waits for the end of its time (S0-35).
    """
    if action not in LOOKS:
        return False
    return action == "reinstate-check" or not it.is_uncertain or it.verify_used < policy.verify_budget


def _timers(it: GovernedObject, policy: Policy) -> Iterator[Planned]:
    for rule in UNKNOWABLE if it.is_unknowable else RULES[it.kind].get(it.state, ()):
        found = _timer(rule, it, policy)
        if found is not None:
            yield Planned(*found, rule)


def _timer(rule: Rule, it: GovernedObject, policy: Policy) -> tuple[Action, datetime] | None:
    match rule:
        case "first":
            return "verify", _first_look(it, policy)
        case "signal":
            return _after_signal(it, policy)
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
            return _recheck(it, policy)
        case "reinstate":
            return None if it.rejected or it.superseded_by is not None else _reinstate_check(it, policy)
        case "expiry":
            is_over = it.expires_at is not None and not it.protected and way_to_archive(it.kind, it.state)
            return ("archive", _not_before(it, it.expires_at)) if is_over and it.expires_at is not None else None
        case "archive":
            return None if it.protected else ("archive", _not_before(it, archive_at(it, policy)))
        case _:
            return None


def archive_at(it: GovernedObject, policy: Policy) -> datetime:
    """Return when an object whose time is over goes into the archive."""
    began = it.stale_since or it.state_since if it.state in FADING else it.state_since
    return it.expires_at or began + policy.archive_after


def crossing(it: GovernedObject, policy: Policy) -> timedelta:
    """Return after how long what was verified has to be looked at again."""
    return until_retrievability(policy.target / MILLION, it.stability)


def retry_delay(it: GovernedObject, policy: Policy) -> timedelta:
    """Return how long to wait after a verdict that decided nothing: longer each time."""
    return policy.inconclusive_delay * int(3 ** max(0, it.inconclusives - 1))


def _first_look(it: GovernedObject, policy: Policy) -> datetime:
    """Verify at once; later after what decided nothing; every week what was confirmed and lacks something else."""
    if it.checked_at is None:
        return it.created_at
    return it.checked_at + (retry_delay(it, policy) if it.inconclusives else policy.recheck_every)


def _not_before(it: GovernedObject, at: datetime) -> datetime:
    return at if it.kept_until is None else max(at, it.kept_until)


def _last_look(it: GovernedObject) -> datetime:
    """Return when the object was looked at last in its present state, or came into it."""
    return max(it.state_since, it.checked_at or it.state_since)


def _after_signal(it: GovernedObject, policy: Policy) -> tuple[Action, datetime] | None:
    """Look at once at what got new evidence since the last verdict."""
    if not it.has_signal:
        return None
    action: Action = "reinstate-check"
    if it.status == "needs_review":
        action = "revalidate"
    elif it.state in ("candidate", "candidate/uncertain", "active/uncertain", "needs_revalidate/uncertain"):
        action = "verify"
    return (action, it.state_since) if may_look(it, action, policy) else None


def _while_uncertain(it: GovernedObject, policy: Policy) -> tuple[Action, datetime] | None:
    """Verify while the budget lasts, at the latest when uncertainty ends; without a budget only its end counts."""
    if it.verify_used < policy.verify_budget:
        looked = it.checked_at is not None and it.checked_at >= it.state_since
        at = it.checked_at + retry_delay(it, policy) if looked and it.checked_at is not None else it.state_since
        in_time = it.uncertain_until is not None and (it.checked_at is None or it.checked_at < it.uncertain_until)
        return "verify", min(at, it.uncertain_until) if in_time and it.uncertain_until is not None else at
    if it.uncertain_until is not None:
        return "revalidate", it.uncertain_until
    return _reinstate_check(it, policy) if it.protected else None


def _after_suspicion(it: GovernedObject, policy: Policy) -> datetime:
    """Verify at once while the budget lasts, then after a week, three weeks and so on."""
    if it.checked_at is None or it.checked_at < it.state_since:
        return it.state_since
    over = it.verify_used - policy.verify_budget
    return it.checked_at + (policy.inconclusive_delay if over < 0 else policy.recheck_every * min(3**over, 500))


def _recheck(it: GovernedObject, policy: Policy) -> tuple[Action, datetime]:
    """Look again every week; the first time, at what has faded, a few days after."""
    if it.state == "needs_review":
        return "revalidate", _last_look(it) + policy.recheck_every
    is_first = it.state == "stale" and (it.checked_at is None or it.checked_at < it.state_since)
    return "reinstate-check", _last_look(it) + (policy.after_decay if is_first else policy.recheck_every)


def _reinstate_check(it: GovernedObject, policy: Policy) -> tuple[Action, datetime] | None:
    """Look again a few times in an object's life, ever later; after that it is dormant."""
    if it.reinstate_checks >= len(policy.reinstate_after):
        return None
    return "reinstate-check", _last_look(it) + policy.reinstate_after[it.reinstate_checks]
