"""Proposals: what a caller wants an agent to remember, checked, and the object that it becomes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import agent_name
from horae.core.governance.evidence import EVIDENCE_KINDS, EvidenceKind
from horae.core.governance.gates import folded
from horae.core.governance.machines import KINDS, MACHINES, Kind, is_uncertain
from horae.core.governance.objects import MAX_CONTENT, MAX_SUBJECT, PREFIXES, GovernedObject, changed, make_object
from horae.core.governance.policies import (
    CATEGORIES,
    IMPACTS,
    MODES,
    RISKS,
    UNKNOWN_TYPES,
    Category,
    Impact,
    Mode,
    Policy,
    Risk,
    UnknownType,
    millionths,
)
from horae.core.governance.references import MAX_ID, Reference, references
from horae.core.governance.timers import next_action
from horae.core.governance.transitions import Concluded, Move, begin_uncertainty, move
from horae.core.governance.verdicts import MAX_NOTE, MAX_REFERENCE
from horae.core.jobs.payloads import encode, label, name, true_or_false
from horae.core.time.instants import aware
from horae.errors import ContentTooLarge, InvalidInput

ID_LENGTH = 12
KEY_LENGTH = 32
MAX_SOURCE = 500


@dataclass(frozen=True, slots=True)
class GivenEvidence:
    """A piece of evidence as a caller gives it."""

    reference: str
    kind: EvidenceKind = "supports"
    source: str = ""
    survived: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a caller proposes to remember; everything but kind and content has a default."""

    kind: Kind
    content: str
    id: str | None = None
    subject: str = ""
    agent: str = "*"
    category: Category = "fact"
    risk: Risk = "medium"
    impact: Impact = "low"
    confidence: float | None = None
    tamper: float | None = None
    source_type: str = ""
    source: str = ""
    rests_on: Sequence[str] = ()
    evidence: Sequence[Any] = ()
    expires_at: datetime | None = None
    next_action_at: datetime | None = None
    protected: bool = False
    unknown_type: UnknownType | None = None
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A proposal after it was checked."""

    object: GovernedObject  # without number and plan
    content: str
    rests_on: tuple[Reference, ...] = ()
    evidence: tuple[GivenEvidence, ...] = ()
    next_action_at: datetime | None = None


def check(proposal: Proposal, *, owner: str, proposer: str, fresh: str, now: datetime, queue: str) -> Checked:
    """Check a proposal and return the object that it becomes; *fresh* is the random part of an id that is not given."""
    choices = (
        ("kind", proposal.kind, KINDS), ("category", proposal.category, CATEGORIES), ("risk", proposal.risk, RISKS),
        ("impact", proposal.impact, IMPACTS), ("mode", proposal.mode, (None, *MODES)),
        ("unknown_type", proposal.unknown_type, (None, *UNKNOWN_TYPES)),
    )  # fmt: skip
    for what, value, known in choices:
        if value not in known:
            raise InvalidInput(
                "choice_unknown", name=what, value=repr(value)[:40], choices=[each for each in known if each]
            )
    content = content_text(proposal.content)
    subject = "" if not proposal.subject else label(proposal.subject, "subject", MAX_SUBJECT)
    expires_at = None if proposal.expires_at is None else aware(proposal.expires_at, "expires_at")
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("expiry_passed", expires_at=expires_at.isoformat())
    made = make_object(
        0,
        owner,
        proposal.kind,
        PREFIXES[proposal.kind] + fresh if proposal.id is None else object_id(proposal.id),
        MACHINES[proposal.kind].start,
        now,
        now,
        agent=agent_name(proposal.agent),
        subject=subject,
        category=proposal.category,
        risk="high" if proposal.impact == "critical" else proposal.risk,
        impact=proposal.impact,
        confidence=None if proposal.confidence is None else millionths(proposal.confidence, "confidence"),
        tamper=None if proposal.tamper is None else millionths(proposal.tamper, "tamper"),
        protected=true_or_false(proposal.protected, "protected"),
        unknown_type=proposal.unknown_type,
        mode=proposal.mode,
        expires_at=expires_at,
        queue=queue,
        proposer=proposer,
        source_type=_named(proposal.source_type, "source_type", 40),
        source=_named(proposal.source, "source", MAX_SOURCE),
        subject_key=subject_key(subject),
        fingerprint=fingerprint(proposal.kind, subject, content),
    )
    rests_on = references(proposal.rests_on)
    for each in rests_on:
        if each.kind not in KINDS or KINDS.index(each.kind) >= KINDS.index(proposal.kind):
            raise InvalidInput("link_downwards", kind=proposal.kind, lower=each.kind, id=each.id)
    at = None if proposal.next_action_at is None else aware(proposal.next_action_at, "next_action_at")
    return Checked(made, content, rests_on, evidence_from(proposal.evidence), at)


def propose(
    it: GovernedObject, policy: Policy, now: datetime, *, known_as_rejected: bool, asked_at: datetime | None
) -> Concluded:
    """Return a new object with its first edges and its plan.

    A trusted source verifies a memory at once, never one of high risk. What a tamper score suspects, or what says again
    what was once rejected, is suspected at once; the second only a person may clear.
    """
    certain: dict[str, Any] = {"unknown_type": None, "mode": None}
    doubt = begin_uncertainty(it, policy, now) if is_uncertain(it.state) else certain
    it = changed(it, stability=policy.stability, needs_person=known_as_rejected, contested=known_as_rejected, **doubt)
    moves = [Move("proposed", it, it)]
    event = _first_event(it, policy, known_as_rejected)
    if event is not None:
        after = move(it, event, policy, now)
        moves.append(Move(event, it, after))
        it = after
    if asked_at is not None:
        it = changed(it, asked_action="verify", asked_at=max(asked_at, now))
    planned = next_action(it, policy, now)
    at = None if planned is None else planned.at
    it = changed(it, next_action=None if planned is None else planned.action, next_action_at=at)
    if event == "verified":
        it = changed(it, review_due_at=at)
    moves[-1] = Move(moves[-1].event, moves[-1].before, it)
    return Concluded(it, tuple(moves), planned)


def _first_event(it: GovernedObject, policy: Policy, known_as_rejected: bool) -> str | None:
    if it.kind == "memory":
        tampered = it.tamper is not None and it.tamper >= policy.tamper_at
        if tampered or known_as_rejected:
            return "suspected"
        is_trusted = it.risk != "high" and bool({it.source, it.source_type} & set(policy.trusted_sources))
        return "verified" if is_trusted else None
    return "questioned" if it.kind == "experience" and known_as_rejected else None


# -- the parts ---------------------------------------------------------------------------------------------------------


def content_text(content: Any) -> str:
    """Return content that can be kept; refuse what is too long, empty or no text."""
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput("content_missing")
    if len(content) > MAX_CONTENT or len(content.encode(errors="replace")) > MAX_CONTENT:
        raise ContentTooLarge("content_too_large", size=len(content.encode(errors="replace")), most=MAX_CONTENT)
    encode(content, "content", None)
    return content


def object_id(text: str) -> str:
    """Return a caller's own id of an object: one line, without the sign that joins kind and id."""
    return name(text, "id of an object", MAX_ID)


def subject_key(subject: str) -> str:
    """Return the digest by which objects about the same subject are found, in whatever writing."""
    return hashlib.sha256(folded(subject).encode(errors="surrogatepass")).hexdigest()


def fingerprint(kind: str, subject: str, content: str) -> str:
    """Return the digest by which a repetition is found: same kind, same subject, same content but for its writing."""
    text = "\x00".join((kind, folded(subject), folded(content)))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def content_digest(key: str, content: str) -> str:
    """Return the digest that entries name; without the key the content behind it cannot be guessed."""
    return hmac.new(key.encode(), content.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def evidence_from(given: Any, kind: EvidenceKind = "supports") -> tuple[GivenEvidence, ...]:
    """Read evidence: references, or objects with a reference and more; each reference once.

    *kind* is that of pieces which do not say it.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or len(given) > 100:
        raise InvalidInput("evidence_unreadable", most=100)
    return tuple({each.reference: each for each in (_one_evidence(each, kind) for each in given)}.values())


def _one_evidence(given: Any, usual: EvidenceKind) -> GivenEvidence:
    if isinstance(given, GivenEvidence):
        given = {each: getattr(given, each) for each in GivenEvidence.__slots__}
    if isinstance(given, str):
        given = {"reference": given}
    if not isinstance(given, Mapping) or not set(GivenEvidence.__slots__).issuperset(given):
        raise InvalidInput("evidence_fields_unknown", fields=list(GivenEvidence.__slots__))
    reference = given.get("reference")
    if not isinstance(reference, str) or not reference.strip() or len(reference) > MAX_REFERENCE:
        raise InvalidInput("evidence_without_reference", most=MAX_REFERENCE)
    kind = given.get("kind", usual)
    if kind not in EVIDENCE_KINDS:
        raise InvalidInput("choice_unknown", name="kind", value=repr(kind)[:40], choices=EVIDENCE_KINDS)
    survived = true_or_false(given.get("survived", False), "survived")
    if survived and kind != "counterexample":
        raise InvalidInput("survived_without_counterexample")
    note = given.get("note") or ""
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise InvalidInput("evidence_note_unreadable", most=MAX_NOTE)
    encode(note, "note", None)
    found = label(reference, "reference", MAX_REFERENCE)
    return GivenEvidence(found, kind, _named(given.get("source") or "", "source", MAX_SOURCE), survived, note)


def _named(text: str, what: str, most: int) -> str:
    return "" if text == "" else label(text, what, most)
