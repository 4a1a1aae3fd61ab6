"""Tools of governance: remember, recall, add evidence, and ask whether an action may be done."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from horae.api.governance.decisions import ACTION
from horae.api.values import enrich, to_public
from horae.core.governance.evidence import EvidenceKind
from horae.core.governance.machines import Kind
from horae.core.governance.objects import MAX_CONTENT
from horae.core.governance.policies import Category, Risk
from horae.core.governance.verdicts import MAX_NOTE
from horae.mcp.arguments import Cites, Key, Limit, ObjectName, Reason, References, RestsOn, Subject, Text
from horae.mcp.here import Here
from horae.mcp.shapes import UTC_ONLY, DecisionMade, Recalled, RecalledLine, Remembered

# What to do with an outcome, for a model.
ADVICE = {
    "executed": "You may do it.",
    "limited": "You may do it within its limits: the least that serves, nothing that cannot be undone.",
    "blocked": "Do not do it, and do not try it in other words.",
    "escalated": "Do not do it yet: a person is asked. Cite this decision in confirm_request, or come back later.",
    "abstained": "Do not do it: what it rests on does not hold.",
}


# What may be done with what was just remembered, for a model.
STANDING_ADVICE = {
    "supported": "It holds; you may rely on it and cite it.",
    "uncertain": "It is not verified yet: do not rely on it alone. Recall it later, or add evidence.",
    "refuted": "It does not hold. Do not use it, and do not propose it in other words.",
}


class GovernanceTools:
    """What the agent that calls remembers and decides."""

    def __init__(self, here: Here) -> None:
        self._here = here

    def decide(
        self,
        action: Annotated[Text, Field(min_length=1, max_length=ACTION, description="What is to be done, in words.")],
        cites: Cites = None,
        risk: Annotated[Risk | None, Field(description="At least that of what is cited; else medium.")] = None,
        reason: Reason = "",
    ) -> DecisionMade:
        """Ask whether an action may be done before you do it, and have it written down. Name what your decision rests
        on in cites. The answer never changes; follow its advice.
        """
        made = self._here.decisions.decide(action, cites=cites or [], risk=risk, agent=self._here.agent, reason=reason)
        advice, durability = ADVICE[made.outcome], self._here.durability
        kept: DecisionMade = enrich(DecisionMade, made, advice=advice, durability=durability, timezone=UTC_ONLY)
        return kept

    def propose(
        self,
        content: Annotated[
            Text,
            Field(
                min_length=1, max_length=MAX_CONTENT, description="One fact in one sentence, so that it can be checked."
            ),
        ],
        subject: Subject,
        evidence: References | None = None,
        kind: Annotated[
            Kind,
            Field(description="memory: what was seen or said. experience: what worked. cognition: a belief from both."),
        ] = "memory",
        rests_on: RestsOn = None,
        category: Annotated[
            Category, Field(description="How it ages: event fades in a month, fact in months, procedural not at all.")
        ] = "fact",
        risk: Annotated[Risk, Field(description="What acting on it could do if it were wrong.")] = "medium",
        confidence: Annotated[float | None, Field(ge=0, le=1, description="How sure you are, from 0 to 1.")] = None,
        idempotency_key: Key | None = None,
        reason: Reason = "",
    ) -> Remembered:
        """Remember something for later. It is verified by evidence or a verifier, looked at again when its time has
        come, and forgotten when nothing supports it. Give evidence wherever you can.
        """
        made = self._here.objects.propose(
            kind, content, id=idempotency_key, subject=subject, agent=self._here.agent, category=category, risk=risk,
            confidence=confidence, evidence=evidence or [], rests_on=rests_on or [], source_type="agent", reason=reason,
        )  # fmt: skip
        return self._remembered(made, deduplicated=made.deduplicated)

    def recall(
        self,
        subject: Subject,
        strict: Annotated[bool, Field(description="True leaves out what needs caution.")] = False,
        limit: Limit = 20,
    ) -> Recalled:
        """Recall what is known about a subject, the most usable first. Reading changes nothing: say that you relied on
        something by citing its name when you decide or act.
        """
        found = self._here.objects.recall(subject, strict=strict, limit=limit)
        return Recalled(items=tuple(to_public(RecalledLine, each) for each in found))

    def evidence(
        self,
        name: ObjectName,
        references: References,
        kind: Annotated[
            EvidenceKind,
            Field(description="supports: it speaks for it. contradicts: against it. reinforces: it was useful again."),
        ] = "supports",
        note: Annotated[Text, Field(max_length=MAX_NOTE, description="What it shows, in plain words.")] = "",
        reason: Reason = "",
    ) -> Remembered:
        """Add evidence to what is remembered. A reference that is known is not new. What was doubtful or forgotten is
        looked at again.
        """
        pieces = [{"reference": each, "kind": kind} | ({"note": note} if note else {}) for each in references]
        added = self._here.objects.evidence(name, pieces, reason=reason)
        return self._remembered(added.object, new=len(added.new))

    def _remembered(self, it: Any, **more: Any) -> Remembered:
        said = {"name": f"{it.kind}:{it.id}", "advice": STANDING_ADVICE[it.standing], "timezone": UTC_ONLY}
        usual = {"deduplicated": False, "new": None}
        kept: Remembered = enrich(Remembered, it, durability=self._here.durability, **(usual | said | more))
        return kept
