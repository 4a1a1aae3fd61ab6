"""Tools of governance: whether an action may be done, by what it rests on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from horae.api.governance.decisions import ACTION
from horae.api.values import enrich
from horae.core.governance.policies import Risk
from horae.mcp.arguments import Cites, Reason, Text
from horae.mcp.here import Here
from horae.mcp.shapes import UTC_ONLY, DecisionMade

# What to do with an outcome, for a model.
ADVICE = {
    "executed": "You may do it.",
    "limited": "You may do it within its limits: the least that serves, nothing that cannot be undone.",
    "blocked": "Do not do it, and do not try it in other words.",
    "escalated": "Do not do it yet: a person is asked. Cite this decision in confirm_request, or come back later.",
    "abstained": "Do not do it: what it rests on does not hold.",
}


class GovernanceTools:
    """Decisions of the agent that calls."""

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
