"""Governed objects: propose, judge, recall and end them, and see why each stands as it does."""

# size: every operation on an object in one room, so that a door finds them all in one place

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal

from horae.actions.consistency import moment
from horae.actions.governance import erasure, judging, lives, queries, rollbacks
from horae.actions.governance import evidence as evidence_verbs
from horae.actions.governance.judging import Given
from horae.actions.governance.proposing import Proposed, propose, propose_many
from horae.actions.governance.queries import Order
from horae.api.governance.exporting import export_lines
from horae.api.governance.object_values import (
    AddedEvidence,
    CitingDecision,
    Evidence,
    ForecastStep,
    GovernanceOverview,
    GovernedObject,
    ObjectEntry,
    ObjectLinks,
    ObjectVersion,
    ProposedObject,
    RecalledObject,
    WhyObject,
    recalled,
)
from horae.api.here import Here
from horae.api.jobs.room import Reason
from horae.api.operation import GET, LINES, PAGES, POST, Call, Listing, Page, Room, S, if_match_header
from horae.api.values import drop_none, enrich, to_json, to_public
from horae.core.audit.exports import Line
from horae.core.cursors import cursor_from, read_cursor
from horae.core.governance import rollbacks as core
from horae.core.governance.forecast import Assume
from horae.core.governance.machines import Action, Kind, Verdict
from horae.core.governance.policies import Category, Impact, Mode, Risk, UnknownType
from horae.core.governance.proposals import Proposal
from horae.core.time.instants import instant, micros
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput

ADMIN, PERSON, USER = ("admin",), ("review",), ("tasks", "review")
AGENT, WORKER = ("tasks",), ("worker", "review")
READER = (*USER, "worker")  # a verifier sees what it judges
DEFAULT = Proposal("memory", "-")
LISTS = ("rests_on", "evidence")  # fields of a proposal
LONGER = 300.0  # seconds that a service may take to read all objects of an owner
LATEST = 2**55  # microseconds: nothing is due later, and a year can still be written


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
    """How many objects, jobs about them and rows of attention were erased; call again while ``more`` is true."""

    __pydantic_config__ = PYDANTIC

    objects: int
    jobs: int = 0
    attention: int = 0
    more: bool = False


class Objects(Room[S]):
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
        id: str | None = None,  # noqa: A002
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

        def act(here: Here) -> tuple[ProposedObject, ...]:
            mine = [_for_agent(here, each, None) for each in given]
            whose = here.caller.resolve_owner(owner)
            made = propose_many(here.world, mine, owner=whose, caller=here.caller, reason=reason, queue=here.queue)
            return tuple(_proposed(each) for each in made)

        body = {"objects": [proposal_body(each) for each in given], **drop_none(reason=reason or None)}
        return Call(tuple[ProposedObject, ...], act, query=drop_none(owner=owner), body=body, creates=True)

    # -- look ----------------------------------------------------------------------------------------------------------

    @PAGES("/governance/objects", *USER)
    def list(
        self,
        *,
        kind: Kind | None = None,
        status: str | None = None,
        agent: str | None = None,
        subject: str | None = None,
        risk: Risk | None = None,
        contested: bool | None = None,
        stalled: bool | None = None,
        due_before: datetime | None = None,
        order: Order = "newest",
        owner: str | None = None,
        limit: int | None = None,
    ) -> Listing[GovernedObject]:
        """List objects, newest first; with *order* ``due`` those that come due for something, the next ones first."""
        wanted: dict[str, Any] = {
            "kind": kind, "status": status, "agent": agent, "subject": subject, "risk": risk, "contested": contested,
            "stalled": stalled, "due_before": due_before,
        }  # fmt: skip

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            whose, begin = here.caller.filter_owner(owner), _begin(order, cursor)
            found = queries.find(here.world, owner=whose, limit=size, order=order, **begin, **wanted)
            further = _further(order, found[-1]) if len(found) == size else None
            return [to_public(GovernedObject, each) for each in found], further

        query = drop_none(owner=owner, order=None if order == "newest" else order, **wanted)
        return Listing(Call(Page[GovernedObject], query=query), limit, fetch)

    @GET("/governance/overview", *READER)
    def overview(self, *, owner: str | None = None) -> Call[GovernanceOverview]:
        """Count objects by kind and state, those that are due, and open reviews; no count goes beyond 10,000."""

        def fetch(here: Here) -> Any:
            return queries.overview(here.world, owner=here.caller.filter_owner(owner))

        return Call(GovernanceOverview, fetch, query=drop_none(owner=owner))

    @GET("/governance/objects/{object_id}/links", *READER)
    def links(
        self, object_id: str, *, kind: Kind | None = None, limit: int = 100, owner: str | None = None
    ) -> Call[ObjectLinks]:
        """Return what an object rests on, what rests on it and the decisions that cite it, the newest of each."""

        def fetch(here: Here) -> ObjectLinks:
            whose = here.caller.resolve_owner(owner)
            found = queries.links(here.world, object_id, owner=whose, kind=kind, limit=limit)
            return ObjectLinks(
                rests_on=tuple(to_public(GovernedObject, each) for each in found.rests_on),
                carries=tuple(to_public(GovernedObject, each) for each in found.carries),
                decisions=tuple(to_public(CitingDecision, each) for each in found.decisions),
                more=limit in (len(found.rests_on), len(found.carries), len(found.decisions)),
            )

        query = drop_none(owner=owner, kind=kind, limit=limit)
        return Call(ObjectLinks, fetch, at={"object_id": object_id}, query=query)

    @PAGES("/governance/objects/{object_id}/versions", *READER)
    def versions(
        self, object_id: str, *, kind: Kind | None = None, owner: str | None = None, limit: int | None = None
    ) -> Listing[ObjectVersion]:
        """List the versions of an object, the newest first; content stands where it changed."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            begin, whose = read_cursor(cursor, int), here.caller.resolve_owner(owner)
            before = None if begin is None else begin[0]
            found = queries.versions(here.world, object_id, owner=whose, kind=kind, limit=size, before=before)
            further = cursor_from([found[-1].version]) if len(found) == size else None
            return [to_public(ObjectVersion, each) for each in found], further

        query = drop_none(owner=owner, kind=kind)
        return Listing(Call(Page[ObjectVersion], at={"object_id": object_id}, query=query), limit, fetch)

    @GET("/governance/objects/{object_id}", *READER)
    def get(self, object_id: str, *, kind: Kind | None = None, owner: str | None = None) -> Call[RecalledObject]:
        """Return an object with its content and whether it may be used. Reading moves no clock."""

        def fetch(here: Here) -> RecalledObject:
            whose = here.caller.resolve_owner(owner)
            return recalled(queries.get(here.world, object_id, owner=whose, kind=kind))

        query = drop_none(owner=owner, kind=kind)
        return Call(RecalledObject, fetch, at={"object_id": object_id}, query=query)

    @GET("/governance/recall", *USER)
    def recall(
        self,
        subject: str,
        *,
        agent: str | None = None,
        strict: bool = False,
        limit: int = 50,
        owner: str | None = None,
    ) -> Call[tuple[RecalledObject, ...]]:
        """Return what is remembered about a subject, the most usable first; *strict* leaves out what needs caution.

        Nothing is written: recalling a memory does not make it last.
        """

        def fetch(here: Here) -> tuple[RecalledObject, ...]:
            whose, of = here.caller.resolve_owner(owner), here.caller.resolve_agent(agent)
            found = queries.recall(here.world, subject, owner=whose, agent=of, strict=strict, limit=limit)
            return tuple(recalled(each) for each in found)

        query = drop_none(subject=subject, agent=agent, strict=strict or None, limit=limit, owner=owner)
        return Call(tuple[RecalledObject, ...], fetch, query=query)

    @GET("/governance/objects/{object_id}/why", *READER)
    def why(self, object_id: str, *, kind: Kind | None = None, owner: str | None = None) -> Call[WhyObject]:
        """Say why an object stands as it does: what moved it last, what it waits for, and by which rule."""

        def fetch(here: Here) -> WhyObject:
            caller = here.caller
            with moment(here.world):
                found = queries.explain(
                    here.world, object_id, owner=caller.resolve_owner(owner), kind=kind, caller=caller
                )  # fmt: skip
                waits = queries.waits(here.world, found, owner=caller.sees)
            return WhyObject(
                object=to_public(GovernedObject, found.object),
                usable=found.usability.usable,
                why=found.usability.why,
                policy=found.policy.version,
                rule=None if found.planned is None else found.planned.rule,
                waits=to_public(tuple[Reason, ...], waits),
                last=None if found.last is None else to_public(ObjectEntry, found.last),
                evidence=tuple(to_public(Evidence, each) for each in found.evidence),
                verbs=tuple(verb for verb in found.verbs if caller.may(*getattr(Objects, verb).needs.scopes)),
            )

        return Call(WhyObject, fetch, at={"object_id": object_id}, query=drop_none(owner=owner, kind=kind))

    @PAGES("/governance/objects/{object_id}/history", *USER)
    def history(
        self, object_id: str, *, kind: Kind | None = None, owner: str | None = None, limit: int | None = None
    ) -> Listing[ObjectEntry]:
        """List what the audit says about an object, newest first."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            begin, whose = read_cursor(cursor, int), here.caller.resolve_owner(owner)
            before = None if begin is None else begin[0]
            found = queries.history(here.world, object_id, owner=whose, kind=kind, limit=size, before=before).entries
            further = cursor_from([found[-1][0]]) if len(found) == size else None
            return [to_public(ObjectEntry, each) for each in found], further

        query = drop_none(owner=owner, kind=kind)
        return Listing(Call(Page[ObjectEntry], at={"object_id": object_id}, query=query), limit, fetch)

    @GET("/governance/forecast", *USER)
    def forecast(
        self,
        object_id: str,
        *,
        until: datetime | None = None,
        assume: Assume = "none",
        kind: Kind | None = None,
        owner: str | None = None,
    ) -> Call[tuple[ForecastStep, ...]]:
        """Say what becomes of an object if nothing new arrives; *assume* says what every verification will find."""

        def fetch(here: Here) -> tuple[ForecastStep, ...]:
            whose = here.caller.resolve_owner(owner)
            steps = queries.forecast(here.world, object_id, owner=whose, kind=kind, until=until, assume=assume)
            return tuple(to_public(ForecastStep, each) for each in steps)

        query = drop_none(object_id=object_id, until=until, assume=assume, kind=kind, owner=owner)
        return Call(tuple[ForecastStep, ...], fetch, query=query)

    @GET("/governance/schemas", *USER)
    def schemas(self) -> Call[dict[str, Any]]:
        """Return the JSON Schemas of objects, evidence, decisions, entries, reviews and reports, by name."""
        return Call(dict[str, Any], lambda here: published_schemas())

    @LINES("/governance/export", *ADMIN)
    def export(self, *, owner: str | None = None) -> Call[Line]:
        """Iterate over the lines of an export: a header, each object, its evidence and versions, and an end.

        All lines are as of one moment, which is when the first one is asked for. What was erased is not among them. A
        tenant exports its own objects.
        """

        def act(here: Here) -> Iterator[Line]:
            return export_lines(here.world, owner=here.caller.filter_owner(owner))

        return Call(dict[str, Any], act, query=drop_none(owner=owner), longer=LONGER)

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
            return judging.conclude(world, given, found, next_action_at=next_action_at)

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
            return judging.verify_now(world, given, action=action, at=at)

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
        return _change(judging.contest, object_id, kind, reason, expected_version, owner, evidence=evidence)

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
        return _change(judging.clear, object_id, kind, reason, expected_version, owner, evidence=evidence)

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
        return _change(judging.reject, object_id, kind, reason, expected_version, owner, evidence=evidence)

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
        self, object_id: str, *, dry_run: bool = False, reason: str = "", owner: str | None = None
    ) -> Call[Rollback]:
        """Reject a suspected memory as forged, as a person, and take back all that rests on it.

        Up to 500 objects and decisions are taken back at once, more by a job; :meth:`get_rollback` tells how far it is.
        """

        def act(here: Here) -> Rollback:
            whose = here.caller.resolve_owner(owner)
            about = f"memory:{object_id.removeprefix('memory:')}"
            if dry_run:
                seen = rollbacks.preview_rollback(here.world, object_id, owner=whose)
                found = seen.experiences + seen.cognitions + seen.decisions
                return Rollback(about=about, state="dry_run", found=found, first=seen.first)
            done = rollbacks.roll_back(here.world, object_id, owner=whose, person=here.caller, reason=reason)
            return _rollback(about, done)

        body = {"dry_run": dry_run, **drop_none(reason=reason or None)}
        return Call(Rollback, act, at={"object_id": object_id}, query=drop_none(owner=owner), body=body)

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
                id=object_id,
                subject=subject,
                kind=kind,
                reason=reason,
            )

        body = drop_none(id=object_id, subject=subject, kind=kind, reason=reason or None)
        return Call(Erased, act, query=drop_none(owner=owner), body=body, repeats=True)


def _begin(order: Order, cursor: str | None) -> dict[str, Any]:
    """Return where a page of a list begins, as its verb takes it."""
    if order == "due":
        values = read_cursor(cursor, int, int, most=LATEST)
        return {"after": None if values is None else (instant(values[0]), values[1])}
    begin = read_cursor(cursor, int)
    return {"before": None if begin is None else begin[0]}


def _further(order: Order, last: Any) -> str:
    return cursor_from([micros(last.next_action_at), last.number] if order == "due" else [last.number])


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
    told = {each.name: getattr(given, each.name) for each in fields(given)}
    usual = {each.name: getattr(DEFAULT, each.name) for each in fields(given) if each.name not in ("kind", "content")}
    return {name: to_json(value) for name, value in told.items() if name not in usual or value != usual[name]}


def published_schemas() -> dict[str, Any]:
    """Return the JSON Schemas of what the doors return."""
    from horae.api.governance.decisions import Decision
    from horae.api.governance.report import GovernanceReport
    from horae.api.governance.reviews import Review
    from horae.api.schemas import schema_of

    kinds = {
        "object": GovernedObject, "recalled_object": RecalledObject, "evidence": Evidence, "decision": Decision,
        "entry": ObjectEntry, "forecast_step": ForecastStep, "review": Review, "rollback": Rollback,
        "report": GovernanceReport,
    }  # fmt: skip
    return {name: schema_of(kind) for name, kind in kinds.items()}
