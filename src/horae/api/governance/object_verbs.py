"""The verbs on governed objects: bring evidence and verdicts, contest, use, put away, take back, erase."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from horae.actions.governance import erasure, lives, rollbacks, verdicts
from horae.actions.governance import evidence as evidence_verbs
from horae.actions.governance.verdicts import Given
from horae.api.governance.object_values import (
    AddedEvidence,
    Evidence,
    GovernedObject,
)
from horae.api.here import Here
from horae.api.operation import GET, POST, Call, Room, S, if_match_header
from horae.api.values import drop_none, to_json, to_public
from horae.core.dataclass import dataclass
from horae.core.governance import rollbacks as core
from horae.core.governance.machines import Action, Kind, Verdict
from horae.core.values import PYDANTIC

ADMIN, PERSON, USER = ("admin",), ("review",), ("tasks", "review")
AGENT, WORKER = ("tasks",), ("worker", "review")


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """What a forged memory takes back. At the end ``found`` is ``moved`` and ``final`` (nothing to take back) together.

    With ``dry_run`` nothing was changed: ``found`` counts what would be reached, and ``first`` names some of it.
    """

    __pydantic_config__ = PYDANTIC

    about: str
    state: Literal["dry_run", "open", "done"]
    id: str | None = None
    found: int = 0
    moved: int = 0
    final: int = 0
    first: tuple[str, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Erased:
    """How many objects, jobs about them and rows of attention were erased; call again while ``more`` is true.

    *conversations* are threads of checkpoints, sessions and documents of agent frameworks, deleted because they repeat
    what was erased; *unreadable* ones are encrypted, so delete those that are about the person by their thread id.
    """

    __pydantic_config__ = PYDANTIC

    objects: int
    jobs: int = 0
    attention: int = 0
    conversations: int = 0
    unreadable: int = 0
    more: bool = False


class ObjectVerbs(Room[S]):
    """The operations that change an object that there is."""

    # -- judge ---------------------------------------------------------------------------------------------------------

    @POST("/governance/objects/{object_id}/evidence", *AGENT)
    def evidence(
        self,
        object_id: str,
        evidence: Sequence[Any],
        *,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[AddedEvidence]:
        """Add evidence: references, or objects with ``reference``, ``kind``, ``source``, ``survived`` and ``note``.

        A reference that is known is not new. What was archived comes back as uncertain.
        """
        given = list(evidence) if isinstance(evidence, tuple) else evidence

        def act(here: Here) -> AddedEvidence:
            added = evidence_verbs.add_evidence(
                here.world, object_id, given, owner=here.caller.resolve_owner(owner), caller=here.caller, kind=kind,
                reason=reason, expected_version=expected_version,
            )  # fmt: skip
            return AddedEvidence(
                object=to_public(GovernedObject, added.object),
                new=tuple(to_public(Evidence, each) for each in added.new),
                known=tuple(to_public(Evidence, each) for each in added.known),
            )

        body = {"evidence": [to_json(each) for each in given], **drop_none(kind=kind, reason=reason or None)}
        headers = if_match_header(expected_version)
        at, query = {"object_id": object_id}, drop_none(owner=owner)
        return Call(AddedEvidence, act, at=at, query=query, body=body, headers=headers, repeats=True)

    @POST("/governance/objects/{object_id}/conclude", *WORKER)
    def conclude(
        self,
        object_id: str,
        verdict: Verdict,
        *,
        evidence: Sequence[str] = (),
        confidence: float | None = None,
        counterexample: Literal["survived"] | None = None,
        note: str = "",
        next_action_at: datetime | None = None,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Bring a verdict: ``confirmed``, ``refuted``, ``inconclusive`` or ``unknowable``; of high risk as a person."""
        found = {"verdict": verdict, "evidence": list(evidence)}
        found |= drop_none(confidence=confidence, counterexample=counterexample, note=note or None)

        def verb(world: Any, given: Given) -> Any:
            return verdicts.conclude(world, given, found, next_action_at=next_action_at)

        more = found | drop_none(next_action_at=next_action_at)
        return _change(verb, object_id, kind, reason, expected_version, owner, more)

    @POST("/governance/objects/{object_id}/verify", *AGENT)
    def verify_now(
        self,
        object_id: str,
        *,
        action: Action | None = None,
        at: datetime | None = None,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Ask for a verification, or another action, now or at a time: the object's one job moves there."""

        def verb(world: Any, given: Given) -> Any:
            return verdicts.verify_now(world, given, action=action, at=at)

        return _change(verb, object_id, kind, reason, expected_version, owner, drop_none(action=action, at=at))

    @POST("/governance/objects/{object_id}/contest", *USER)
    def contest(
        self,
        object_id: str,
        *,
        evidence: Sequence[Any] = (),
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Say that an object may be wrong: a memory is quarantined, others are asked about, until that is cleared."""
        return _change(verdicts.contest, object_id, kind, reason, expected_version, owner, evidence=evidence)

    @POST("/governance/objects/{object_id}/clear", *PERSON)
    def clear(
        self,
        object_id: str,
        *,
        evidence: Sequence[Any] = (),
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Say as a person that an object holds after all."""
        return _change(verdicts.clear, object_id, kind, reason, expected_version, owner, evidence=evidence)

    @POST("/governance/objects/{object_id}/reject", *PERSON)
    def reject(
        self,
        object_id: str,
        *,
        evidence: Sequence[Any] = (),
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Say as a person that a suspected memory is forged, or a cognition refuted; what rests on it is taken back."""
        return _change(verdicts.reject, object_id, kind, reason, expected_version, owner, evidence=evidence)

    # -- use and end ---------------------------------------------------------------------------------------------------

    @POST("/governance/objects/{object_id}/use", *AGENT)
    def use(
        self,
        object_id: str,
        *,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Say that an object was used: its clock of use starts again."""
        return _change(lives.use, object_id, kind, reason, expected_version, owner, repeats=True)

    @POST("/governance/objects/{object_id}/archive", *AGENT)
    def archive(
        self,
        object_id: str,
        *,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Archive an object; protection, the day's cap and citations hold."""
        return _change(lives.archive, object_id, kind, reason, expected_version, owner)

    @POST("/governance/objects/{object_id}/reinstate", *AGENT)
    def reinstate(
        self,
        object_id: str,
        *,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Bring an archived object back as uncertain; what was once rejected only a person may."""
        return _change(lives.reinstate, object_id, kind, reason, expected_version, owner)

    @POST("/governance/objects/{object_id}/supersede", *AGENT)
    def supersede(
        self,
        object_id: str,
        by: str,
        *,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Archive an object because another one of its kind has taken its place."""

        def verb(world: Any, given: Given) -> Any:
            return lives.supersede(world, given, by)

        return _change(verb, object_id, kind, reason, expected_version, owner, {"by": by})

    @POST("/governance/objects/{object_id}/retract", *USER)
    def retract(
        self,
        object_id: str,
        *,
        kind: Kind | None = None,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[GovernedObject]:
        """Take an object back for good; of high risk only a person may."""
        return _change(lives.retract, object_id, kind, reason, expected_version, owner)

    @POST("/governance/objects/{object_id}/rollback", *PERSON)
    def rollback(
        self,
        object_id: str,
        *,
        dry_run: bool = False,
        reason: str = "",
        expected_version: int | None = None,
        owner: str | None = None,
    ) -> Call[Rollback]:
        """Reject a suspected memory as forged, as a person, and take back all that rests on it.

        Up to 500 objects and decisions are taken back at once, more by a job; :meth:`get_rollback` tells how far it is.
        """

        def act(here: Here) -> Rollback:
            whose = here.caller.resolve_owner(owner)
            about = f"memory:{object_id.removeprefix('memory:')}"
            if dry_run:
                seen = rollbacks.preview_rollback(
                    here.world, object_id, owner=whose, expected_version=expected_version
                )  # fmt: skip
                found = seen.experiences + seen.cognitions + seen.decisions
                return Rollback(about=about, state="dry_run", found=found, first=seen.first)
            done = rollbacks.roll_back(
                here.world, object_id, owner=whose, person=here.caller, reason=reason, expected_version=expected_version
            )  # fmt: skip
            return _rollback(about, done)

        body, headers = {"dry_run": dry_run, **drop_none(reason=reason or None)}, if_match_header(expected_version)
        query = drop_none(owner=owner)
        return Call(Rollback, act, at={"object_id": object_id}, query=query, body=body, headers=headers)

    @GET("/governance/rollbacks/{rollback_id}", *USER)
    def get_rollback(self, rollback_id: str, *, owner: str | None = None) -> Call[Rollback]:
        """Return how far a rollback is."""

        def fetch(here: Here) -> Rollback:
            whose = here.caller.resolve_owner(owner)
            return _rollback(*rollbacks.get_rollback(here.world, rollback_id, owner=whose))

        return Call(Rollback, fetch, at={"rollback_id": rollback_id}, query=drop_none(owner=owner))

    @POST("/governance/objects/erase", *ADMIN)
    def erase(
        self,
        object_id: str | None = None,
        *,
        subject: str | None = None,
        kind: str | None = None,
        reason: str = "",
        owner: str | None = None,
    ) -> Call[Erased]:
        """Erase one object, or all about a subject: content, payloads, results, errors and notes, wherever repeated.

        Ids, states and times stay, and so does every chain. What is of high risk only a person erases.
        """

        def act(here: Here) -> erasure.Erased:
            return erasure.erase(
                here.world,
                owner=here.caller.resolve_owner(owner),
                caller=here.caller,
                object_id=object_id,
                subject=subject,
                kind=kind,
                reason=reason,
            )

        body = drop_none(id=object_id, subject=subject, kind=kind, reason=reason or None)
        return Call(Erased, act, query=drop_none(owner=owner), body=body, repeats=True)


def _rollback(about: str, done: core.Rollback) -> Rollback:
    return Rollback(
        about=about,
        state=done.state,
        id=done.id,
        found=done.found,
        moved=done.moved,
        final=done.final,
        started_at=done.started_at,
        finished_at=done.finished_at,
    )


def _change(
    verb: Callable[..., Any],
    object_id: str,
    kind: Kind | None,
    reason: str,
    expected_version: int | None,
    owner: str | None,
    more: Mapping[str, Any] | None = None,
    evidence: Sequence[Any] = (),
    *,
    repeats: bool = False,
) -> Call[GovernedObject]:
    """Return the call of a verb on one object; *more* is what its body says beside kind, reason and *evidence*."""

    def act(here: Here) -> Any:
        whose = here.caller.resolve_owner(owner)
        given = Given(object_id, whose, here.caller, kind, reason, expected_version, evidence=tuple(evidence))
        return verb(here.world, given)

    brought = [to_json(each) for each in evidence]
    body = {**(more or {}), **drop_none(kind=kind, reason=reason or None, evidence=brought or None)}
    headers, query = if_match_header(expected_version), drop_none(owner=owner)
    at = {"object_id": object_id}
    return Call(GovernedObject, act, at=at, query=query, body=body, headers=headers, repeats=repeats)
