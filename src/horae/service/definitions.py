"""What the house's workers can run: stored by them at start, so that it decides which handlers tenants' jobs reach."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from horae.actions.definitions import find_definitions, store_definitions
from horae.core.access import Caller
from horae.errors import Forbidden
from horae.ports import StoredDefinition
from horae.service.inputs import Line
from horae.service.job_shapes import SCHEDULER, Body, Instant
from horae.service.state import Here, needs

router = APIRouter(prefix="/definitions", tags=["definitions"])
Anybody = Annotated[Caller, Depends(needs("tasks", "worker", by_queue=True))]
MOST = 1000


def house_worker(caller: Annotated[Caller, Depends(needs("worker", by_queue=True))]) -> Caller:
    """Only the house says what is open to tenants: a tenant's own token could open the house's handlers to itself."""
    if not caller.is_operator:
        raise Forbidden(
            "Only a worker of the house stores definitions: this needs a token of the owner system with the scope "
            "worker. A worker with a tenant's token needs none; it pulls all jobs of that tenant."
        )
    return caller


class NewDefinition(Body):
    name: Annotated[str, Field(min_length=1, max_length=200, description="What jobs call it.", examples=["resize"])]
    queue: Annotated[str, Field(min_length=1, max_length=100)] = SCHEDULER
    tenants: StrictBool = Field(default=False, description="Whether tenants' jobs may run it.")


class Definitions(Body):
    """All that one worker can run, or a part of it; what is not named stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"app": "images", "definitions": [{"name": "resize", "tenants": True}]}]}
    )

    app: Line = Field(default="", description="Which program declares them.")
    definitions: Annotated[list[NewDefinition], Field(min_length=1, max_length=MOST)]


class DefinitionShape(BaseModel):
    name: str = Field(examples=["resize"])
    queue: str = Field(description="Where its jobs go unless they say otherwise.", examples=[SCHEDULER])
    tenants: bool = Field(description="Whether the house's workers run it for tenants.")
    app: str | None = Field(description="Which program declared it; for operators.")
    stored_at: Instant | None = Field(description="For operators.")
    stored_by: str | None = Field(description="For operators.")

    @classmethod
    def of(cls, stored: StoredDefinition, *, whole: bool) -> Self:
        same = {name: getattr(stored, name) for name in ("name", "queue", "tenants")}
        rest = {name: getattr(stored, name) if whole else None for name in ("app", "stored_at", "stored_by")}
        return cls(**same, **rest)


class DefinitionList(BaseModel):
    definitions: list[DefinitionShape]


@router.get("", operation_id="list_definitions", summary="What the house's workers can run")
def list_definitions(world: Here, caller: Anybody) -> DefinitionList:
    """By name. A tenant sees what is open to tenants, and nothing of who stored it."""
    whole = caller.is_operator
    found = [each for each in find_definitions(world) if whole or each.tenants]
    found = [each for each in found if not caller.queues or each.queue in caller.queues]
    return DefinitionList(definitions=[DefinitionShape.of(each, whole=whole) for each in found])


@router.put("", operation_id="store_definitions", summary="Say what a worker of the house can run")
def put_definitions(world: Here, body: Definitions, caller: Annotated[Caller, Depends(house_worker)]) -> DefinitionList:
    """For workers over HTTP with a token of the house, when they start: tenants' jobs are handed to them only for
    handlers that are stored with `tenants: true`. The newest word rules; opening a handler releases what was held for
    it. Answers with all that were named, as they are stored now.
    """
    named = {each.name for each in body.definitions}
    known = [each.queue for each in find_definitions(world) if each.name in named] if caller.queues else []
    for queue in (*known, *(each.queue for each in body.definitions)):
        caller.require_queue(queue)
    wanted = [StoredDefinition(each.name, each.queue, each.tenants) for each in body.definitions]
    store_definitions(world, wanted, app=body.app, actor=caller.actor)
    found = [each for each in find_definitions(world) if each.name in named]
    return DefinitionList(definitions=[DefinitionShape.of(each, whole=True) for each in found])
