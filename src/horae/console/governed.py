"""Governed objects in words: their states, what they come due for and why, and the shape and colour of each state."""

from __future__ import annotations

import json
from typing import Any

from horae.api.governance.decisions import Decision
from horae.api.governance.object_values import GovernedObject
from horae.console.texts import gettext, listed, mark
from horae.core.jobs.masking import mask, mask_text

WORDS = {
    # kinds
    "memory": mark("memory"),
    "experience": mark("experience"),
    "cognition": mark("cognition"),
    # states
    "candidate": mark("candidate"),
    "verified": mark("verified"),
    "active": mark("in use"),
    "stale": mark("faded"),
    "stale_uncertain": mark("uncertain"),
    "quarantine": mark("in quarantine"),
    "rejected_poisoned": mark("forged"),
    "needs_review": mark("needs review"),
    "invalidated": mark("invalid"),
    "needs_revalidate": mark("to be checked again"),
    "refuted": mark("refuted"),
    "archived": mark("archived"),
    "retracted": mark("retracted"),
    "supported": mark("supported"),
    "uncertain": mark("uncertain"),
    # risks and impacts
    "low": mark("low"),
    "medium": mark("medium"),
    "high": mark("high"),
    "critical": mark("critical"),
    # categories
    "event": mark("event"),
    "fact": mark("fact"),
    "procedural": mark("know-how"),
    # actions
    "verify": mark("verify"),
    "revalidate": mark("check again"),
    "decay": mark("let fade"),
    "archive": mark("archive"),
    "reinstate-check": mark("see whether it comes back"),
    # evidence
    "supports": mark("supports it"),
    "contradicts": mark("contradicts it"),
    "reinforces": mark("reinforces it"),
    "counterexample": mark("counter-example"),
    "examined": mark("looked at"),
    # outcomes of decisions
    "executed": mark("executed"),
    "limited": mark("limited"),
    "blocked": mark("blocked"),
    "escalated": mark("escalated"),
    "abstained": mark("abstained"),
    # modes
    "normal": mark("as usual"),
    "explore": mark("explore"),
    "conservative": mark("conservative"),
    "abstain": mark("abstain"),
    "escalate": mark("escalate"),
    # unknown types
    "out_of_scope": mark("out of scope"),
    "multipath": mark("several ways possible"),
    "ontic_unknowable": mark("cannot be known"),
    # answers of reviews
    "approve": mark("approved"),
    "reject": mark("rejected"),
    "ask_more": mark("more was asked for"),
    "timeout": mark("not answered in time"),
    "open": mark("open"),
    "closed": mark("closed"),
    # budgets
    "calls": mark("calls"),
    "tokens": mark("tokens"),
    "micros": mark("micros of money"),
    "day": mark("a day"),
    "month": mark("a month"),
    "ever": mark("for ever"),
    # gates
    "pass": mark("pass"),
    "limit": mark("limit"),
    "block": mark("block"),
    "degrade": mark("degrade"),
}
# What a state means for those who would rely on it, by kind and status; by status alone where kinds do not differ.
MEANINGS = {
    "candidate": mark("Proposed and not verified yet."),
    "verified": mark("Verified, and not used yet."),
    "active": mark("Verified and in use."),
    "stale": mark("Not used or confirmed for long enough that it has faded."),
    "stale_uncertain": mark("A check brought nothing new, so it is uncertain."),
    "quarantine": mark("Suspected to be wrong or forged. It feeds nothing until that is decided."),
    "rejected_poisoned": mark("Found forged. What rested on it was taken back."),
    "needs_review": mark("Something that it rests on, or its age, raises a question."),
    "invalidated": mark("What it rested on was taken back."),
    "needs_revalidate": mark("In conflict with something newer; it has to be checked again."),
    "refuted": mark("Shown to be wrong."),
    "archived": mark("Put away. It comes back only with new evidence."),
    "retracted": mark("Taken back for good."),
}
USABLE = {
    "supported": mark("It may be relied on."),
    "retracted": mark("It must not be used: it was retracted."),
    "superseded": mark("It must not be used: another one has taken its place."),
    "archived": mark("It must not be used while it is archived."),
    "refuted": mark("It must not be used: it is refuted."),
    "expired": mark("It must not be used: it has expired."),
    "contested": mark("Use it with caution: it is contested."),
    "not_verified": mark("Use it with caution: nobody has verified it."),
    "uncertain": mark("Use it with caution: it is uncertain."),
    "due_for_a_look": mark("Use it with caution: it has not been checked for a while."),
}
# Why something comes due, by the rule that says so.
RULES = {
    "asked": mark("somebody asked for it"),
    "first": mark("it has never been verified"),
    "signal": mark("new evidence came"),
    "truth": mark("it was last verified long ago"),
    "weight": mark("it has not been used for long"),
    "uncertain": mark("its time of uncertainty ends"),
    "suspected": mark("it is suspected"),
    "recheck": mark("it is looked at from time to time"),
    "reinstate": mark("it may come back"),
    "expiry": mark("it expires"),
    "archive": mark("nobody has needed it"),
}
# What opened a review.
QUESTIONS = {
    "gate": mark("A gate has held it back three times. May it go on?"),
    "quarantine": mark("It is suspected to be wrong or forged. Does it hold?"),
    "decision": mark("A decision was escalated. May it be done?"),
    "asked": mark("Somebody asks: does it hold?"),
}
# The state whose shape and colour a state has.
KINDS = {
    "verified": "succeeded",
    "active": "succeeded",
    "candidate": "queued",
    "stale": "held",
    "stale_uncertain": "late",
    "uncertain": "late",
    "quarantine": "late",
    "needs_review": "late",
    "needs_revalidate": "late",
    "rejected_poisoned": "dead",
    "invalidated": "dead",
    "refuted": "dead",
    "archived": "skipped",
    "retracted": "cancelled",
    "executed": "succeeded",
    "limited": "held",
    "blocked": "dead",
    "escalated": "late",
    "abstained": "skipped",
}
# How a state is drawn on a band of time.
DRAWN = {"succeeded": "done", "late": "late", "dead": "dead", "held": "faded", "queued": "waiting"}


def word(code: str) -> str:
    """Return a code of governance in words; one that this release does not know is its own word."""
    return gettext(WORDS[code]) if code in WORDS else code


def state_word(status: str, epistemic: str | None = None) -> str:
    """Return a state in words; a cognition that is in use says also whether it is supported."""
    if status == "active" and epistemic == "uncertain":
        return f"{word(status)}, {word(epistemic)}"
    return word(status)


def kind(status: str, epistemic: str | None = None) -> str:
    """Return the state whose shape and colour it has."""
    return "late" if status == "active" and epistemic == "uncertain" else KINDS.get(status, "queued")


def drawn(status: str, epistemic: str | None = None) -> str:
    """Return how a state is drawn on a band of time."""
    return DRAWN.get(kind(status, epistemic), "away")


def meaning(it: GovernedObject) -> str:
    return gettext(MEANINGS[it.status]) if it.status in MEANINGS else ""


def usable(may: str, why: str) -> str:
    """Return whether an object may be used, and why."""
    if may == "no" and why == "contested":
        return gettext("It must not be used while it is contested.")
    return gettext(USABLE[why]) if why in USABLE else why


def question(kind: str) -> str:
    """Return what a person is asked where a review has no question of its own."""
    return gettext(QUESTIONS[kind]) if kind in QUESTIONS else kind


def rule(code: str | None) -> str:
    return gettext(RULES[code]) if code in RULES else (code or "")


def decided(decision: Decision) -> str:
    """Return why a decision came out as it did; what a review or a rollback says of it stands as it was written."""
    gates, hits = decision.gates, listed(decision.gates.get("hits") or ())
    if decision.review is not None or decision.predecessor is not None:
        return decision.reason
    if gates.get("persona") == "block":
        return gettext("A boundary of the persona is hit: %(hits)s", hits=hits)
    if gates.get("contested"):
        return gettext("Something that it rests on is contested.")
    if gates.get("rollback_open"):
        return gettext("A rollback of this agent is not finished.")
    if decision.standing == "refuted":
        return gettext("It rests on something refuted.")
    if decision.standing == "uncertain":
        return gettext("It rests on something uncertain; the risk is %(risk)s.", risk=word(decision.risk))
    if decision.risk == "high":
        return gettext("The risk is high.")
    if gates.get("persona") == "limit":
        return gettext("The persona limits: %(hits)s", hits=hits)
    return gettext("What it rests on is supported.") if decision.cites else gettext("It rests on no object.")


def masked(content: str | None) -> tuple[str, bool]:
    """Return content as readers see it, and whether something in it is masked."""
    if content is None:
        return "", False
    try:
        value: Any = json.loads(content)
    except ValueError:
        value = None
    if isinstance(value, dict | list):
        hidden = mask(value)
        if hidden is not value:
            return json.dumps(hidden, ensure_ascii=False, indent=2), True
    masked = mask_text(content)
    return masked, masked != content


def owner_of(owner: str) -> str | None:
    """Return the owner for an address; None for the house, which need not be named."""
    return None if owner == "system" else owner
