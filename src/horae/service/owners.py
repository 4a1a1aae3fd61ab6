"""Tenants, as the operator sees and sets them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from horae.actions import owners
from horae.core.access import Caller
from horae.core.cursors import cursor_from, read_cursor
from horae.core.owners import MOST_NETWORKS, MOST_PORTS, MOST_TASKS, OwnerSettings
from horae.errors import Forbidden
from horae.service.paging import Cursor, Limit
from horae.service.state import Here, needs

router = APIRouter(tags=["owners"])
Owner = Annotated[str, Path(min_length=1, max_length=255, description="The tenant's name.", examples=["alice"])]


def operator(caller: Annotated[Caller, Depends(needs("admin"))]) -> Caller:
    """For looking ``read`` is enough, but only the house looks at tenants: a tenant's own ``read`` does not do."""
    if not caller.is_operator:
        raise Forbidden("Only the operator sees tenants: this needs the scope admin, or a token of the house.")
    return caller


Operator = Annotated[Caller, Depends(operator)]


class OwnerPut(BaseModel):
    """What is special about a tenant; what is left out is as for everybody."""

    model_config = ConfigDict(extra="forbid")

    allow_networks: list[Annotated[str, Field(max_length=60)]] = Field(
        default=[],
        max_length=MOST_NETWORKS,
        description="Networks beyond the public internet that its webhooks may reach.",
        examples=[["10.1.0.0/16"]],
    )
    allow_http: StrictBool = Field(default=False, description="Whether its webhooks may use plain http.")
    ports: list[Annotated[StrictInt, Field(ge=1, le=65535)]] = Field(
        default=[],
        max_length=MOST_PORTS,
        description="The ports its webhooks may use; empty: 443, 8443, and 80 where http is allowed.",
        examples=[[443, 8080]],
    )
    max_enabled_tasks: Annotated[StrictInt, Field(ge=0, le=MOST_TASKS)] | None = Field(
        default=None, description="How many of its tasks may be enabled; 0: any number; null: as for everybody."
    )


class OwnerView(OwnerPut):
    owner: str = Field(examples=["alice"])


class OwnerList(BaseModel):
    items: list[OwnerView]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.", examples=[None])


@router.get("/owners", operation_id="list_owners", summary="Tenants and what is special about each")
def list_owners(world: Here, caller: Operator, limit: Limit = 100, cursor: Cursor = None) -> OwnerList:
    (after,) = read_cursor(cursor, str) or [None]
    found = owners.find_owners(world, limit=limit, after=after)
    further = cursor_from([found[-1][0]]) if len(found) == limit else None
    return OwnerList(items=[_view(*each) for each in found], next_cursor=further)


@router.get("/owners/{owner:path}", operation_id="get_owner", summary="What is special about a tenant")
def get_owner(owner: Owner, world: Here, caller: Operator) -> OwnerView:
    return _view(owner, owners.get_owner(world, owner))


@router.put("/owners/{owner:path}", operation_id="put_owner", summary="Decide about a tenant")
def put_owner(owner: Owner, body: OwnerPut, world: Here, caller: Operator) -> OwnerView:
    """Replaces what was decided before: networks, http, ports, and how many tasks may be enabled."""
    wanted = OwnerSettings(
        tuple(body.allow_networks), body.allow_http, tuple(body.ports), max_enabled_tasks=body.max_enabled_tasks
    )
    return _view(owner, owners.set_owner(world, owner, wanted, actor=caller.actor))


def _view(owner: str, settings: OwnerSettings) -> OwnerView:
    return OwnerView(
        owner=owner,
        allow_networks=list(settings.allow_networks),
        allow_http=settings.allow_http,
        ports=list(settings.ports),
        max_enabled_tasks=settings.max_enabled_tasks,
    )
