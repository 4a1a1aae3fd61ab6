"""``/governance/policies``: the numbers by which objects are governed."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import AfterValidator

from horae.api.governance.policies import Policies, Policy, Replanned
from horae.api.operation import Page
from horae.service.fields import Query
from horae.service.inputs import IfMatch, Tenant, check_one_line, etag, version_from
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router
from horae.service.routes.object_bodies import KindPath, Replan, SetPolicy

router = make_router(prefix="/governance", tags=["governance"])
AgentQuery = Annotated[
    str, Query(max_length=100, description="The agent; `*` for all."), AfterValidator(check_one_line)
]


@router.get(
    "/policies", operation_id="list_policies", summary="Policies, the built-in ones first",
    response_model=Page[Policy], responses=refuses(404),
)  # fmt: skip
async def list_policies(owner: Tenant = None, rooms: CallerRooms = rooms_for(Policies.list)) -> Response:
    return answer(await rooms.policies.list(owner=owner))


@router.get(
    "/policies/{kind}", operation_id="get_policy", summary="The policy of a kind", response_model=Policy,
    responses=refuses(404),
)  # fmt: skip
async def get_policy(
    kind: KindPath, agent: AgentQuery = "*", owner: Tenant = None, rooms: CallerRooms = rooms_for(Policies.get)
) -> Response:
    found = await rooms.policies.get(kind, agent=agent, owner=owner)
    return answer(found, ETag=etag(found.version))


@router.put(
    "/policies/{kind}", operation_id="set_policy", summary="Set the policy of a kind as a whole",
    response_model=Policy, responses=refuses(404, 409, 412),
)  # fmt: skip
async def set_policy(
    kind: KindPath,
    body: SetPolicy,
    agent: AgentQuery = "*",
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Policies.set),
) -> Response:
    """Objects follow it from their next action on; `POST /governance/replan` lets them follow at once."""
    changed = await rooms.policies.set(
        kind, body.settings, agent=agent, expected_version=version_from(if_match), reason=body.reason, owner=owner
    )
    return answer(changed, ETag=etag(changed.version))


@router.post(
    "/replan", operation_id="replan_objects", summary="Plan objects by the policies that hold now",
    response_model=Replanned, responses=refuses(404),
)  # fmt: skip
async def replan(body: Replan, owner: Tenant = None, rooms: CallerRooms = rooms_for(Policies.replan)) -> Response:
    """With `dry_run` only say what would move."""
    return answer(await rooms.policies.replan(dry_run=body.dry_run, reason=body.reason, owner=owner))
