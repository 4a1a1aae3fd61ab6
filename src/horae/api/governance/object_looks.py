"""What is seen of governed objects: lists, one with its reasons, its past and its future, an export."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from typing import Any

from horae.actions.consistency import moment
from horae.actions.governance import queries
from horae.actions.governance.queries import Order
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.governance.exports import export_lines
from horae.api.governance.object_values import (
    CitingDecision,
    Evidence,
    ForecastStep,
    GovernanceOverview,
    GovernedObject,
    ObjectEntry,
    ObjectLinks,
    ObjectVersion,
    RecalledObject,
    WhyObject,
    recalled,
)
from horae.api.governance.object_verbs import ObjectVerbs, Rollback
from horae.api.here import Here
from horae.api.jobs.room import Reason
from horae.api.operation import GET, LINES, PAGES, Call, Listing, Page, Room, S
from horae.api.values import drop_none, to_public
from horae.core.audit.exports import Line
from horae.core.cursors import cursor_from, read_cursor
from horae.core.governance.forecast import Assume
from horae.core.governance.machines import Kind
from horae.core.governance.policies import Risk
from horae.core.time.instants import instant, micros

ADMIN, USER = ("admin",), ("tasks", "review")
READER = (*USER, "worker")  # a verifier sees what it judges
LONGER = 300.0  # seconds that a service may take to read all objects of an owner
LATEST = 2**55  # microseconds: nothing is due later, and a year can still be written


class ObjectLooks(Room[S]):
    """The operations that change nothing."""

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
        by = attrgetter("next_action_at" if order == "due" else "created_at", "id")
        return Listing(Call(Page[GovernedObject], query=query), limit, fetch, order=by, is_rising=order == "due")

    @GET("/governance/overview", *READER)
    def overview(self, *, owner: str | None = None) -> Call[GovernanceOverview]:
        """Count objects by kind and state, those that are due, and open reviews; no count goes beyond 10,000."""

        def fetch(here: Here) -> Any:
            return queries.overview(here.world, owner=here.caller.filter_owner(owner))

        gather = over_all(fetch, merges.merge_standings)
        return Call(GovernanceOverview, fetch, query=drop_none(owner=owner), gather=gather)

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
                verbs=tuple(verb for verb in found.verbs if caller.may(*getattr(ObjectVerbs, verb).needs.scopes)),
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

        All lines are as of one moment, which is when the first one is asked for; in a cluster those of each database.
        What was erased is not among them. A tenant exports its own objects.
        """

        def act(here: Here) -> Iterator[Line]:
            return export_lines(here.world, owner=here.caller.filter_owner(owner))

        return Call(dict[str, Any], act, query=drop_none(owner=owner), longer=LONGER)


def _begin(order: Order, cursor: str | None) -> dict[str, Any]:
    """Return where a page of a list begins, as its verb takes it."""
    if order == "due":
        values = read_cursor(cursor, int, int, most=LATEST)
        return {"after": None if values is None else (instant(values[0]), values[1])}
    begin = read_cursor(cursor, int)
    return {"before": None if begin is None else begin[0]}


def _further(order: Order, last: Any) -> str:
    return cursor_from([micros(last.next_action_at), last.number] if order == "due" else [last.number])


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
