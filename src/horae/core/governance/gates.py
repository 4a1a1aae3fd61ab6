"""Gates: what may stop an action or a decision, and what a decision comes to. The strictest gate wins.

All of it is computed from rows: no code of an application runs inside a transaction.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.governance.machines import Standing
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Mode, Policy, Risk

Gate = Literal["pass", "degrade", "limit", "block"]
Outcome = Literal["executed", "limited", "blocked", "escalated", "abstained"]
STRICTNESS: dict[str, int] = {"pass": 0, "degrade": 1, "limit": 2, "block": 3}
_COGNITION: dict[Standing, Gate] = {"supported": "pass", "uncertain": "degrade", "refuted": "block"}
_WORST: dict[str, int] = {"supported": 0, "uncertain": 1, "refuted": 2}


@dataclass(frozen=True, slots=True)
class Boundary:
    """Something a persona does not do: found in a text, it blocks or limits."""

    text: str
    effect: Literal["block", "limit"] = "block"


@dataclass(frozen=True, slots=True)
class Gates:
    """What each gate says, and which boundaries were hit."""

    persona: Gate
    cognition: Gate
    risk: Gate
    hits: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    rollback_open: bool = False

    @property
    def strictest(self) -> Gate:
        stopped: Gate = "block" if self.contested or self.rollback_open else "pass"
        return max((self.persona, self.cognition, self.risk, stopped), key=STRICTNESS.__getitem__)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a decision comes to, in which mode, and why. The reason is never empty."""

    outcome: Outcome
    mode: Mode | Literal["normal"]
    reason: str
    gates: Gates


def folded(text: str) -> str:
    """Return a text as it is compared: one form of each character, one case, one space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def persona_gate(boundaries: Iterable[Boundary], *texts: str) -> tuple[Gate, tuple[str, ...]]:
    """Return what a persona's boundaries say about texts, and which were found in them."""
    within = [folded(text) for text in texts]
    hit = [each for each in boundaries if folded(each.text) and any(folded(each.text) in text for text in within)]
    effects: list[Gate] = [each.effect for each in hit]
    gate: Gate = max(effects, key=STRICTNESS.__getitem__) if effects else "pass"
    return gate, tuple(each.text for each in hit)


def worst_standing(objects: Iterable[GovernedObject]) -> Standing:
    """Return the weakest standing of what a decision rests on; supported where it rests on nothing."""
    standings = [each.standing for each in objects]
    worst = max(standings, key=_WORST.__getitem__, default="supported")
    return "refuted" if worst == "refuted" else "uncertain" if worst == "uncertain" else "supported"


def cognition_gate(standing: Standing) -> Gate:
    """Return what the weakest cognition behind an action says about it."""
    return _COGNITION[standing]


def risk_gate(standing: Standing, risk: Risk) -> Gate:
    if risk == "high" and standing != "supported":
        return "block"
    return "limit" if risk == "high" or (standing == "uncertain" and risk == "medium") else "pass"


def weigh(
    cited: Sequence[GovernedObject],
    risk: Risk,
    boundaries: Iterable[Boundary],
    texts: Sequence[str],
    *,
    rollback_open: bool = False,
) -> Gates:
    """Return what every gate says about an action that rests on these objects."""
    standing = worst_standing(cited)
    persona, hits = persona_gate(boundaries, *texts)
    contested = tuple(each.id for each in cited if each.contested)
    return Gates(persona, cognition_gate(standing), risk_gate(standing, risk), hits, contested, rollback_open)


def rule(cited: Sequence[GovernedObject], risk: Risk, gates: Gates) -> Ruling:
    """Return what a decision comes to; of high risk it is never ``executed``."""
    standing = worst_standing(cited)
    if gates.persona == "block":
        return Ruling("blocked", "abstain", f"a boundary of the persona is hit: {', '.join(gates.hits)}", gates)
    if gates.contested:
        return Ruling("blocked", "abstain", f"contested: {', '.join(gates.contested)}", gates)
    if gates.rollback_open:
        return Ruling("blocked", "abstain", "a rollback of this agent is not finished", gates)
    if standing == "refuted":
        return Ruling("abstained", "abstain", "it rests on something refuted", gates)
    if standing == "uncertain":
        if risk == "high":
            return Ruling("escalated", "escalate", "it rests on something uncertain, and the risk is high", gates)
        return Ruling("limited", _mode_of(cited, risk), f"it rests on something uncertain; the risk is {risk}", gates)
    if risk == "high":
        return Ruling("limited", "conservative", "the risk is high", gates)
    if gates.persona == "limit":
        return Ruling("limited", "conservative", f"the persona limits: {', '.join(gates.hits)}", gates)
    return Ruling("executed", "normal", "what it rests on is supported" if cited else "it rests on no object", gates)


def _mode_of(cited: Sequence[GovernedObject], risk: Risk) -> Mode:
    """Return the mode of an uncertain ground: its own at low risk, else conservative."""
    own = [each.mode for each in cited if each.standing == "uncertain" and each.mode is not None]
    return own[0] if risk == "low" and own else "conservative"


def may_act_on(it: GovernedObject, policy: Policy, now: datetime) -> str | None:
    """Return why an act may not cite this object yet; None where it may."""
    if it.risk != "high":
        return None
    if it.contested:
        return "contested"
    if it.status != "active" or it.standing != "supported":
        return "not_active"
    if it.verified_at is None or now - it.verified_at > policy.act_age:
        return "not_verified_lately"
    return None
