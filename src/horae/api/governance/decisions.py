"""Decisions: what an action comes to, by what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from horae.actions.governance import decisions
from horae.api.here import Here
from horae.api.operation import GET, PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none, to_public
from horae.core.cursors import cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.governance.gates import Outcome
from horae.core.governance.machines import Standing
from horae.core.governance.policies import Risk
from horae.core.values import PYDANTIC

USER = ("tasks",)
ACTION = decisions.MAX_ACTION


def _of_decision(name: str) -> Get:
    return lambda view: getattr(view.decision, name)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What an action came to. It never changes; later it may be rolled back, or have a ``successor``.

    ``gates`` are what persona, cognition and risk said; ``review`` is the one that approved it, ``opened_review`` the
    one that was opened because of it.
    """

    __pydantic_config__ = PYDANTIC
    FROM_DECISION: ClassVar[tuple[str, ...]] = (
        "id", "owner", "agent", "action", "risk", "outcome", "mode", "reason", "standing", "decided_at", "actor",
        "correlation", "review", "predecessor", "successor", "rolled_back_at",
    )  # fmt: skip
    DERIVED: ClassVar[dict[str, Get]] = {
        **{name: _of_decision(name) for name in FROM_DECISION},
        "gates": lambda view: dict(view.decision.gates),
        "cites": lambda view: tuple(str(each) for each in view.cites),
        "opened_review": lambda view: view.review,
    }

    id: str
    owner: str
    agent: str
    action: str
    risk: Risk
    outcome: Outcome
    mode: str
    reason: str
    standing: Standing
    decided_at: datetime
    actor: str
    gates: dict[str, Any] = field(default_factory=dict)
    cites: tuple[str, ...] = ()
    correlation: str | None = None
    review: str | None = None
    opened_review: str | None = None
    predecessor: str | None = None
    successor: str | None = None
    rolled_back_at: datetime | None = None


class Decisions(Room[S]):
    """Decisions of agents. A tenant sees its own; an operator names another owner than the house."""

    @POST("/governance/decisions", *USER)
    def decide(
        self,
        action: str,
        *,
        cites: Sequence[str] = (),
        risk: Risk | None = None,
        agent: str | None = None,
        correlation: str | None = None,
        reason: str = "",
        owner: str | None = None,
    ) -> Call[Decision]:
        """Decide whether an action may be done that rests on these objects, and write it down.

        *cites* are references such as ``memory:mem_ab12cd34ef56``. The risk is at least that of the riskiest object
        cited; of high risk nothing is ever ``executed``.
        """

        def act(here: Here) -> decisions.DecisionView:
            return decisions.decide(
                here.world,
                owner=here.caller.resolve_owner(owner),
                action=action,
                cites=cites,
                risk=risk,
                agent=here.caller.resolve_agent(agent) or EVERY_AGENT,
                correlation=correlation,
                actor=here.actor,
                reason=reason,
            )

        given = list(cites) if isinstance(cites, list | tuple) else cites
        body = drop_none(
            action=action, cites=given, risk=risk, agent=agent, correlation=correlation, reason=reason or None
        )
        return Call(Decision, act, body=body, query=drop_none(owner=owner))

    @GET("/governance/decisions/{decision_id}", *USER)
    def get(self, decision_id: str, *, owner: str | None = None) -> Call[Decision]:
        """Return one decision."""

        def fetch(here: Here) -> decisions.DecisionView:
            return decisions.get_decision(here.world, decision_id, owner=here.caller.resolve_owner(owner))

        return Call(Decision, fetch, at={"decision_id": decision_id}, query=drop_none(owner=owner))

    @PAGES("/governance/decisions", *USER)
    def list(
        self,
        *,
        agent: str | None = None,
        outcome: Outcome | None = None,
        risk: Risk | None = None,
        owner: str | None = None,
        limit: int | None = None,
    ) -> Listing[Decision]:
        """List decisions, newest first."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Decision], str | None]:
            begin = read_cursor(cursor, int)
            found = decisions.find_decisions(
                here.world,
                owner=here.caller.filter_owner(owner),
                agent=agent,
                outcome=outcome,
                risk=risk,
                limit=size,
                before=None if begin is None else begin[0],
            )
            further = cursor_from([found[-1].decision.number]) if len(found) == size else None
            return [to_public(Decision, each) for each in found], further

        query = drop_none(agent=agent, outcome=outcome, risk=risk, owner=owner)
        return Listing(Call(Page[Decision], query=query), limit, fetch, order=attrgetter("decided_at", "id"))
