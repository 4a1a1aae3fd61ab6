"""Verdicts: what a verifier found, as it travels, and the built-in verifier, which judges by stored evidence alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.governance.budgets import amounts_from
from horae.core.governance.machines import VERDICTS, Action, Verdict
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import MILLION, Policy, millionths
from horae.core.jobs.payloads import label
from horae.errors import InvalidInput

MAX_EVIDENCE = 100
MAX_REFERENCE = 500
MAX_NOTE = 4000
FIELDS = {"verdict", "evidence", "confidence", "counterexample", "cost", "note", "verifier"}
MAX_VERIFIER = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with its evidence."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()
    confidence: int | None = None  # parts of a million
    survived_counterexample: bool = False
    cost: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    verifier: str = ""  # by its own word; a door that knows its caller goes by that
    looked: bool = True  # False: no verifier looked, time alone has said so


def finding_from(answer: Any) -> Finding:
    """Read what a verifier returned or sent; refuse what is no verdict, in words."""
    if isinstance(answer, Finding):
        return answer
    if not isinstance(answer, Mapping) or not FIELDS.issuperset(answer):
        raise InvalidInput("verdict_unreadable", fields=sorted(FIELDS))
    verdict = answer.get("verdict")
    if verdict not in VERDICTS:
        given = repr(verdict[:100]) if isinstance(verdict, str) else type(verdict).__name__  # it may be huge, or deep
        raise InvalidInput("verdict_unknown", verdict=given, choices=VERDICTS)
    counterexample = answer.get("counterexample")
    if counterexample not in (None, "survived"):
        raise InvalidInput("counterexample_unreadable")
    confidence, note = answer.get("confidence"), answer.get("note") or ""
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise InvalidInput("verdict_note_unreadable", most=MAX_NOTE)
    return Finding(
        verdict,
        references(answer.get("evidence") or ()),
        None if confidence is None else millionths(confidence, "confidence"),
        counterexample == "survived",
        cost_from(answer.get("cost")),
        note,
        label(answer["verifier"], "verifier", MAX_VERIFIER) if answer.get("verifier") else "",
    )


def references(given: Any) -> tuple[str, ...]:
    """Return references to evidence, each once and in order."""
    if isinstance(given, str) or not isinstance(given, list | tuple) or len(given) > MAX_EVIDENCE:
        raise InvalidInput("evidence_unreadable", most=MAX_EVIDENCE)
    for each in given:
        if not isinstance(each, str) or not each.strip() or len(each) > MAX_REFERENCE:
            raise InvalidInput("evidence_without_reference", most=MAX_REFERENCE)
    return tuple(dict.fromkeys(given))


def cost_from(given: Any) -> dict[str, int]:
    """Return a cost in whole units: calls, tokens, micros of money."""
    if given is None:
        return {}
    return {unit: amount for unit, amount in amounts_from(given).items() if amount}


def judge(it: GovernedObject, action: Action, policy: Policy, *, evidence: int = 0, survived: bool = False) -> Finding:
    """Judge as the built-in verifier does: by stored evidence alone; *evidence* counts all pieces that are stored."""
    if action == "verify" and it.status == "candidate":
        verdict: Verdict = "confirmed" if evidence > 0 else "inconclusive"
        return Finding(verdict, survived_counterexample=survived, note="by stored evidence")
    confident = it.kind == "experience" and (it.confidence or 0) >= policy.review_confidence
    if it.has_signal or confident:
        return Finding("confirmed", confidence=it.confidence, survived_counterexample=survived, note="by a signal")
    return Finding("inconclusive", note="nothing new is stored", looked=action == "verify")


def reads_as_share(parts: int | None) -> float | None:
    """Return parts of a million as doors write them: between 0 and 1, with six decimals."""
    return None if parts is None else round(parts / MILLION, 6)
