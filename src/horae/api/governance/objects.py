"""Governed objects: propose them; what is seen of them and what is done with them stands beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from horae.actions.governance.proposals import Proposed, propose, propose_many
from horae.api.governance.object_looks import ObjectLooks
from horae.api.governance.object_values import (
    ProposedObject,
)
from horae.api.governance.object_verbs import ObjectVerbs
from horae.api.here import Here
from horae.api.operation import POST, Call, S
from horae.api.values import drop_none, enrich, to_json
from horae.core.checks import whole_number
from horae.core.cursors import MAX_PAGE
from horae.core.governance.machines import Kind
from horae.core.governance.policies import Category, Impact, Mode, Risk, UnknownType
from horae.core.governance.proposals import Proposal
from horae.errors import InvalidInput

AGENT = ("tasks",)
DEFAULT = Proposal("memory", "-")
LISTS = ("rests_on", "evidence")  # fields of a proposal


class Objects(ObjectLooks[S], ObjectVerbs[S]):
    """Governed objects: what an agent remembers, and what becomes due about it.

    Every verb takes a *reason* for the audit and *expected_version*, the version that was read: a later one is refused.
    A person acts in Python as ``app.acting_as("user/carol")``.
    """

    @POST("/governance/objects", *AGENT)
    def propose(
        self,
        kind: Kind,
        content: str,
        *,
        id: str | None = None,  # noqa: A002  # the public name of the field
        subject: str = "",
        agent: str | None = None,
        category: Category = "fact",
        risk: Risk = "medium",
        impact: Impact = "low",
        confidence: float | None = None,
        tamper: float | None = None,
        source_type: str = "",
        source: str = "",
        rests_on: Sequence[str] = (),
        evidence: Sequence[Any] = (),
        expires_at: datetime | None = None,
        next_action_at: datetime | None = None,
        protected: bool = False,
        unknown_type: UnknownType | None = None,
        mode: Mode | None = None,
        reason: str = "",
        decision: str | None = None,
        correlation: str | None = None,
        owner: str | None = None,
    ) -> Call[ProposedObject]:
        """Propose something to remember; it is verified at once, and again when its time has come.

        *rests_on* are objects of a lower kind, as ``memory:mem_ab12``. The same *id* with the same content is the same
        object.
        """
        given = Proposal(
            kind, content, id, subject, agent or DEFAULT.agent, category, risk, impact, confidence, tamper, source_type,
            source, tuple(rests_on), tuple(evidence), expires_at, next_action_at, protected, unknown_type, mode,
        )  # fmt: skip

        def act(here: Here) -> ProposedObject:
            made = propose(
                here.world, _for_agent(here, given, agent), owner=here.caller.resolve_owner(owner), caller=here.caller,
                reason=reason, decision=decision, correlation=correlation, queue=here.queue,
            )  # fmt: skip
            return _proposed(made)

        body = proposal_body(given) | drop_none(reason=reason or None, decision=decision, correlation=correlation)
        return Call(ProposedObject, act, query=drop_none(owner=owner), body=body, creates=True)

    @POST("/governance/objects/bulk", *AGENT)
    def propose_many(
        self, objects: Iterable[Mapping[str, Any] | Proposal], *, reason: str = "", owner: str | None = None
    ) -> Call[tuple[ProposedObject, ...]]:
        """Propose up to a thousand objects in one transaction: all of them or none.

        Each is a mapping of what :meth:`propose` takes: ``{"kind": "memory", "content": "Ann likes tea", "id": "m1"}``.
        """
        given = [each if isinstance(each, Proposal) else _proposal(each) for each in objects]
        whole_number(len(given), "the number of objects", 1, MAX_PAGE)

        def act(here: Here) -> tuple[ProposedObject, ...]:
            mine = [_for_agent(here, each, None) for each in given]
            whose = here.caller.resolve_owner(owner)
            made = propose_many(here.world, mine, owner=whose, caller=here.caller, reason=reason, queue=here.queue)
            return tuple(_proposed(each) for each in made)

        body = {"objects": [proposal_body(each) for each in given], **drop_none(reason=reason or None)}
        return Call(tuple[ProposedObject, ...], act, query=drop_none(owner=owner), body=body, creates=True)


def _for_agent(here: Here, given: Proposal, asked: str | None) -> Proposal:
    """Return a proposal for the agent that holds the token, which proposes for no other."""
    named = None if given.agent == DEFAULT.agent else given.agent
    return replace(given, agent=here.caller.resolve_agent(asked or named) or DEFAULT.agent)


def _proposed(made: Proposed) -> ProposedObject:
    found: ProposedObject = enrich(ProposedObject, made.object, deduplicated=made.deduplicated)
    return found


def _proposal(given: Mapping[str, Any]) -> Proposal:
    """Read a proposal; refuse fields that there are not."""
    known = [each.name for each in fields(Proposal)]
    strange = next((name for name in given if name not in known), None)
    if strange is not None:
        raise InvalidInput("choice_unknown", name="field", value=repr(strange)[:40], choices=known)
    more = {name: tuple(value) if name in LISTS else value for name, value in given.items() if value is not None}
    return Proposal(**{"kind": "", "content": "", **more})  # type: ignore[arg-type]  # both are refused, where missing


def proposal_body(given: Proposal) -> dict[str, Any]:
    """Return a proposal as JSON, without values that are the default."""
    values = {each.name: getattr(given, each.name) for each in fields(given)}
    usual = {each.name: getattr(DEFAULT, each.name) for each in fields(given) if each.name not in ("kind", "content")}
    return {name: to_json(value) for name, value in values.items() if name not in usual or value != usual[name]}
