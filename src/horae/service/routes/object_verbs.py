"""``/governance/objects/{id}/…``: what can be done with one object."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response

from horae.api.governance.object_values import (
    AddedEvidence,
    GovernedObject,
)
from horae.api.governance.objects import Objects
from horae.service.inputs import IfMatch, Tenant, etag, version_from
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router
from horae.service.routes.decisions import Id
from horae.service.routes.object_bodies import (
    NO_EVIDENCE,
    NOTHING,
    NOW,
    Conclude,
    OnObject,
    Supersede,
    VerifyNow,
    WithEvidence,
    pieces,
)

router = make_router(prefix="/governance", tags=["governance"])


def _asked(body: OnObject, if_match: str | None, owner: str | None) -> dict[str, Any]:
    """Return what every verb on an object takes."""
    version = version_from(if_match)
    return {"kind": body.kind, "reason": body.reason, "expected_version": version, "owner": owner}


def _moved(it: GovernedObject) -> Response:
    return answer(it, ETag=etag(it.version))


@router.post(
    "/objects/{object_id}/evidence", operation_id="add_evidence", summary="Add evidence",
    response_model=AddedEvidence, responses=refuses(404, 409, 412),
)  # fmt: skip
async def evidence(
    object_id: Id,
    body: WithEvidence,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.evidence),
) -> Response:
    """A reference that is known is not new. What was archived comes back as uncertain."""
    added = await rooms.objects.evidence(object_id, pieces(body.evidence), **_asked(body, if_match, owner))
    return answer(added, ETag=etag(added.object.version))


@router.post(
    "/objects/{object_id}/conclude", operation_id="conclude_object", summary="Bring a verdict",
    response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def conclude(
    object_id: Id,
    body: Conclude,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.conclude),
) -> Response:
    version = version_from(if_match)
    done = await rooms.objects.conclude(object_id, **body.model_dump(), expected_version=version, owner=owner)
    return _moved(done)


@router.post(
    "/objects/{object_id}/verify", operation_id="verify_object", summary="Ask for a verification, or another action",
    response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def verify(
    object_id: Id,
    body: VerifyNow = NOW,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.verify_now),
) -> Response:
    version = version_from(if_match)
    done = await rooms.objects.verify_now(object_id, **body.model_dump(), expected_version=version, owner=owner)
    return _moved(done)


@router.post(
    "/objects/{object_id}/supersede", operation_id="supersede_object", summary="Replace it by another one",
    response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def supersede(
    object_id: Id,
    body: Supersede,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.supersede),
) -> Response:
    return _moved(await rooms.objects.supersede(object_id, body.by, **_asked(body, if_match, owner)))


@router.post(
    "/objects/{object_id}/use", operation_id="use_object",
    summary="Say that it was used", response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def use(
    object_id: Id,
    body: OnObject = NOTHING,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.use),
) -> Response:
    return _moved(await rooms.objects.use(object_id, **_asked(body, if_match, owner)))


@router.post(
    "/objects/{object_id}/archive", operation_id="archive_object",
    summary="Archive it", response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def archive(
    object_id: Id,
    body: OnObject = NOTHING,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.archive),
) -> Response:
    return _moved(await rooms.objects.archive(object_id, **_asked(body, if_match, owner)))


@router.post(
    "/objects/{object_id}/reinstate", operation_id="reinstate_object",
    summary="Bring an archived object back", response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def reinstate(
    object_id: Id,
    body: OnObject = NOTHING,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.reinstate),
) -> Response:
    return _moved(await rooms.objects.reinstate(object_id, **_asked(body, if_match, owner)))


@router.post(
    "/objects/{object_id}/retract", operation_id="retract_object",
    summary="Take it back for good", response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def retract(
    object_id: Id,
    body: OnObject = NOTHING,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.retract),
) -> Response:
    return _moved(await rooms.objects.retract(object_id, **_asked(body, if_match, owner)))


@router.post(
    "/objects/{object_id}/contest", operation_id="contest_object",
    summary="Say that it may be wrong", response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def contest(
    object_id: Id,
    body: WithEvidence = NO_EVIDENCE,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.contest),
) -> Response:
    evidence = pieces(body.evidence)
    return _moved(await rooms.objects.contest(object_id, evidence=evidence, **_asked(body, if_match, owner)))


@router.post(
    "/objects/{object_id}/clear", operation_id="clear_object",
    summary="Say as a person that it holds", response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def clear(
    object_id: Id,
    body: WithEvidence = NO_EVIDENCE,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.clear),
) -> Response:
    evidence = pieces(body.evidence)
    return _moved(await rooms.objects.clear(object_id, evidence=evidence, **_asked(body, if_match, owner)))


@router.post(
    "/objects/{object_id}/reject", operation_id="reject_object",
    summary="Say as a person that it is forged", response_model=GovernedObject, responses=refuses(404, 409, 412),
)  # fmt: skip
async def reject(
    object_id: Id,
    body: WithEvidence = NO_EVIDENCE,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Objects.reject),
) -> Response:
    evidence = pieces(body.evidence)
    return _moved(await rooms.objects.reject(object_id, evidence=evidence, **_asked(body, if_match, owner)))
