"""``/governance/budgets``: how much may be spent, and how much is."""

from __future__ import annotations

from typing import Annotated

import fastapi
from fastapi.responses import Response
from pydantic import AfterValidator, Field

from horae.api.governance.budgets import Budget, Budgets, PeriodUsage
from horae.api.operation import Page
from horae.core.governance.budgets import MOST, Period, Unit
from horae.service.fields import Path, Query
from horae.service.inputs import AuditReason, OperationReason, Tenant, TextFilter, check_one_line
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/governance/budgets", tags=["governance"])
Name = Annotated[str, Path(min_length=1, max_length=100, examples=["llm"]), AfterValidator(check_one_line)]
Agent = Annotated[
    str | None,
    fastapi.Query(min_length=1, max_length=100, description="The budget of this agent; else that of all agents."),
]
In = Annotated[Period, Query(description="The period after which it is refilled, in UTC; `ever`: never.")]


class SetBudget(OperationReason):
    """A capacity."""

    capacity: Annotated[int, Field(ge=0, le=MOST)] | None = Field(description="Without one it only counts.")


class AdjustBudget(OperationReason):
    """A correction."""

    amount: Annotated[int, Field(ge=-MOST, le=MOST, description="Spent elsewhere; a refund is below zero.")]
    reason: AuditReason


def _reference(name: str, agent: str | None) -> str:
    return name if agent is None else f"{name}/{agent}"


@router.get(
    "", operation_id="list_budgets", summary="Budgets and what is used of them", response_model=Page[Budget],
    responses=refuses(404),
)  # fmt: skip
async def list_budgets(
    name: TextFilter = None,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Budgets.list),
) -> Response:
    return answer(await rooms.budgets.list(name=name, owner=owner).page(cursor, limit=limit))


@router.get(
    "/{name}/{unit}", operation_id="get_budget", summary="One budget", response_model=Budget, responses=refuses(404)
)
async def get_budget(
    name: Name,
    unit: Unit,
    agent: Agent = None,
    period: In = "day",
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Budgets.get),
) -> Response:
    return answer(await rooms.budgets.get(_reference(name, agent), unit, period=period, owner=owner))


@router.put(
    "/{name}/{unit}", operation_id="set_budget", summary="Set what may be spent", response_model=Budget,
    responses=refuses(404),
)  # fmt: skip
async def set_budget(
    name: Name,
    unit: Unit,
    body: SetBudget,
    agent: Agent = None,
    period: In = "day",
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Budgets.set),
) -> Response:
    """It holds from the present period on. Jobs that wait for it are due at once."""
    changed = await rooms.budgets.set(
        _reference(name, agent), unit, body.capacity, period=period, reason=body.reason, owner=owner
    )
    return answer(changed)


@router.post(
    "/{name}/{unit}/adjust", operation_id="adjust_budget", summary="Correct what was spent", response_model=Budget,
    responses=refuses(404),
)  # fmt: skip
async def adjust_budget(
    name: Name,
    unit: Unit,
    body: AdjustBudget,
    agent: Agent = None,
    period: In = "day",
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Budgets.adjust),
) -> Response:
    """What was spent elsewhere counts; a refund is below zero."""
    changed = await rooms.budgets.adjust(
        _reference(name, agent), unit, body.amount, period=period, reason=body.reason, owner=owner
    )
    return answer(changed)


@router.get(
    "/{name}/{unit}/history", operation_id="budget_history", summary="What each period has used",
    response_model=Page[PeriodUsage], responses=refuses(404),
)  # fmt: skip
async def budget_history(
    name: Name,
    unit: Unit,
    agent: Agent = None,
    period: In = "day",
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Budgets.history),
) -> Response:
    found = rooms.budgets.history(_reference(name, agent), unit, period=period, owner=owner)
    return answer(await found.page(cursor, limit=limit))
