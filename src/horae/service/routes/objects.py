"""``/governance/objects``: propose, list, recall, explain, forecast; take back what a forgery led to, and erase."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from pydantic import AfterValidator

from horae.actions.governance.queries import Order
from horae.api.governance.object_values import (
    ForecastStep,
    GovernanceOverview,
    GovernedObject,
    ObjectEntry,
    ObjectLinks,
    ObjectVersion,
    ProposedObject,
    RecalledObject,
    WhyObject,
)
from horae.api.governance.object_verbs import Erased, Rollback
from horae.api.governance.objects import Objects
from horae.api.operation import Page
from horae.core.access.callers import Caller
from horae.core.governance.forecast import Assume
from horae.core.governance.machines import Kind
from horae.core.governance.objects import MAX_SUBJECT
from horae.core.governance.policies import Risk
from horae.core.governance.proposals import Proposal
from horae.core.governance.references import MAX_ID
from horae.service.fields import Instant, Query
from horae.service.inputs import IfMatch, Tenant, TextFilter, check_one_line, etag, version_from
from horae.service.lines import DESCRIBED, answer_lines
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, answer_in_words, caller_for, rooms_for, rooms_of
from horae.service.router import make_router
from horae.service.routes.decisions import Id
from horae.service.routes.object_bodies import Erase, KindFilter, ProposeMany, ProposeOne, RollBack
from horae.service.state import world_of

router = make_router(prefix="/governance", tags=["governance"])


@router.post(
    "/objects", operation_id="propose_object", summary="Propose something to remember", status_code=201,
    response_model=ProposedObject, responses={200: {"model": ProposedObject}, **refuses(404, 409)},
)  # fmt: skip
async def propose(body: ProposeOne, owner: Tenant = None, rooms: CallerRooms = rooms_for(Objects.propose)) -> Response:
    """Verified at once, and again when its time has come. The same id with the same content answers 200."""
    links: Any = {"reason": body.reason, "decision": body.decision, "correlation": body.correlation}
    made = await rooms.objects.propose(**body.fields(), **links, owner=owner)
    return answer(made, 200 if made.deduplicated else 201, ETag=etag(made.version))


@router.post(
    "/objects/bulk", operation_id="propose_objects", summary="Propose up to a thousand objects, all or none",
    status_code=201, response_model=Page[ProposedObject], responses=refuses(404, 409),
)  # fmt: skip
async def propose_many(
    body: ProposeMany, owner: Tenant = None, rooms: CallerRooms = rooms_for(Objects.propose_many)
) -> Response:
    asked = [Proposal(**{**each.fields(), "agent": each.agent or "*"}) for each in body.objects]
    return answer(await rooms.objects.propose_many(asked, reason=body.reason, owner=owner), 201)


@router.get(
    "/objects", operation_id="list_objects", summary="Objects, newest first", response_model=Page[GovernedObject],
    responses=refuses(404),
)  # fmt: skip
async def list_objects(
    kind: Kind | None = None,
    status: TextFilter = None,
    agent: TextFilter = None,
    subject: TextFilter = None,
    risk: Risk | None = None,
    contested: bool | None = None,
    stalled: bool | None = None,
    due_before: Instant | None = None,
    order: Order = "newest",
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Objects.list),
) -> Response:
    found = rooms.objects.list(
        kind=kind, status=status, agent=agent, subject=subject, risk=risk, contested=contested, stalled=stalled,
        due_before=due_before, order=order, owner=owner,
    )  # fmt: skip
    return answer(await found.page(cursor, limit=limit))


@router.get(
    "/export", operation_id="export_objects", summary="Objects whole, with links, evidence and versions",
    response_class=StreamingResponse, responses={200: DESCRIBED, **refuses(404)},
)  # fmt: skip
async def export_objects(
    request: Request, owner: Tenant = None, caller: Caller = caller_for(Objects.export)
) -> StreamingResponse:
    """Lines of JSON, all as of one moment: a header, each object, its evidence and its versions, then an end. What was
    erased is not in it. A tenant gets its own objects.
    """
    lines = rooms_of(request, caller).objects.export(owner=owner)
    return await answer_lines(lines, world_of(request), caller)


@router.get(
    "/overview", operation_id="get_governance_overview", summary="Objects by kind and state, and what is due",
    response_model=GovernanceOverview, responses=refuses(404),
)  # fmt: skip
async def overview(owner: Tenant = None, rooms: CallerRooms = rooms_for(Objects.overview)) -> Response:
    """No count goes beyond 10,000; counts by state are of the newest 10,000 objects."""
    return answer(await rooms.objects.overview(owner=owner))


@router.get(
    "/recall", operation_id="recall", summary="What is remembered about a subject",
    response_model=Page[RecalledObject], responses=refuses(404),
)  # fmt: skip
async def recall(
    subject: Annotated[str, Query(min_length=1, max_length=MAX_SUBJECT), AfterValidator(check_one_line)],
    agent: TextFilter = None,
    strict: bool = False,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Objects.recall),
) -> Response:
    """The most usable first, with content; `strict` leaves out what needs caution. Reading writes nothing."""
    return answer(await rooms.objects.recall(subject, agent=agent, strict=strict, limit=limit, owner=owner))


@router.get(
    "/forecast", operation_id="forecast_object", summary="What becomes of an object if nothing new arrives",
    response_model=Page[ForecastStep], responses=refuses(404),
)  # fmt: skip
async def forecast(
    object_id: Annotated[str, Query(min_length=1, max_length=MAX_ID), AfterValidator(check_one_line)],
    until: Instant | None = None,
    assume: Assume = "none",
    kind: KindFilter = None,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Objects.forecast),
) -> Response:
    return answer(await rooms.objects.forecast(object_id, until=until, assume=assume, kind=kind, owner=owner))


@router.get(
    "/schemas", operation_id="get_schemas", summary="JSON Schemas of objects, evidence, decisions and entries",
    response_model=dict[str, Any],
)  # fmt: skip
async def schemas(rooms: CallerRooms = rooms_for(Objects.schemas)) -> Response:
    return answer(await rooms.objects.schemas())


@router.get(
    "/objects/{object_id}", operation_id="get_object", summary="One object with its content",
    response_model=RecalledObject, responses=refuses(404),
)  # fmt: skip
async def get(
    object_id: Id, kind: KindFilter = None, owner: Tenant = None, rooms: CallerRooms = rooms_for(Objects.get)
) -> Response:
    """Reading moves no clock."""
    found = await rooms.objects.get(object_id, kind=kind, owner=owner)
    return answer(found, ETag=etag(found.version))


@router.get(
    "/objects/{object_id}/why", operation_id="explain_object", summary="Why an object stands as it does",
    response_model=WhyObject, responses=refuses(404),
)  # fmt: skip
async def why(
    object_id: Id, kind: KindFilter = None, owner: Tenant = None, rooms: CallerRooms = rooms_for(Objects.why)
) -> Response:
    return answer_in_words(await rooms.objects.why(object_id, kind=kind, owner=owner))


@router.get(
    "/objects/{object_id}/history", operation_id="list_object_history", summary="What the audit says about an object",
    response_model=Page[ObjectEntry], responses=refuses(404),
)  # fmt: skip
async def history(
    object_id: Id,
    kind: KindFilter = None,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Objects.history),
) -> Response:
    found = rooms.objects.history(object_id, kind=kind, owner=owner)
    return answer(await found.page(cursor, limit=limit))


@router.get(
    "/objects/{object_id}/links", operation_id="get_object_links",
    summary="What an object rests on, what rests on it, and what was decided on it", response_model=ObjectLinks,
    responses=refuses(404),
)  # fmt: skip
async def links(
    object_id: Id,
    kind: KindFilter = None,
    limit: Limit = 100,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Objects.links),
) -> Response:
    return answer(await rooms.objects.links(object_id, kind=kind, limit=limit, owner=owner))


@router.get(
    "/objects/{object_id}/versions", operation_id="list_object_versions", summary="An object after each change",
    response_model=Page[ObjectVersion], responses=refuses(404),
)  # fmt: skip
async def versions(
    object_id: Id,
    kind: KindFilter = None,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Objects.versions),
) -> Response:
    found = rooms.objects.versions(object_id, kind=kind, owner=owner)
    return answer(await found.page(cursor, limit=limit))


@router.post(
    "/objects/erase", operation_id="erase_objects", summary="Erase what is known about a person",
    response_model=Erased, responses=refuses(404),
)  # fmt: skip
async def erase(body: Erase, owner: Tenant = None, rooms: CallerRooms = rooms_for(Objects.erase)) -> Response:
    """Content, payloads, results, errors and notes go; ids, states and the audit's chain stay. Repeat while `more`."""
    found = await rooms.objects.erase(
        body.id, subject=body.subject, kind=body.kind, reason=body.reason, owner=owner
    )  # fmt: skip
    return answer(found)


@router.post(
    "/objects/{object_id}/rollback", operation_id="roll_back_object",
    summary="Reject a forged memory and take back what rests on it", response_model=Rollback,
    responses=refuses(404, 409, 412),
)  # fmt: skip
async def roll_back(
    object_id: Id,
    body: RollBack,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.rollback),
) -> Response:
    """Only a person may, and not the actor who proposed it. More than 500 are taken back by a job."""
    done = await rooms.objects.rollback(
        object_id, dry_run=body.dry_run, reason=body.reason, expected_version=version_from(if_match), owner=owner
    )
    return answer(done)


@router.get(
    "/rollbacks/{rollback_id}", operation_id="get_rollback", summary="How far a rollback is", response_model=Rollback,
    responses=refuses(404),
)  # fmt: skip
async def get_rollback(
    rollback_id: Id, owner: Tenant = None, rooms: CallerRooms = rooms_for(Objects.get_rollback)
) -> Response:
    return answer(await rooms.objects.get_rollback(rollback_id, owner=owner))
