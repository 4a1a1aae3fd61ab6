"""``/healthz``, ``/readyz`` and ``/version``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from horae.actions.health import Report, checkup
from horae.api.health import Ready
from horae.api.values import to_public
from horae.service.fresh import Fresh
from horae.service.rooms import answer
from horae.service.router import make_router
from horae.service.state import CurrentService, Service, ticks_of

FRESH = 1.0  # seconds

router = make_router(tags=["health"])


class Alive(BaseModel):
    status: str = Field(examples=["ok"])


class ServiceVersion(BaseModel):
    version: str = Field(examples=["0.1.0"])


@router.get("/healthz", operation_id="get_healthz", summary="The process answers")
async def healthz() -> Alive:
    return Alive(status="ok")


@router.get("/version", operation_id="get_version", summary="Which Horae this is")
async def version(service: CurrentService) -> ServiceVersion:
    return ServiceVersion(version=service.options.version)


def install(app: FastAPI) -> None:
    """Add the checkup to an application; cached for a second, because it needs no token."""
    service: Service = app.state.horae
    app.state.checkup = Fresh(lambda: checkup(service.opens), ticks_of(service), FRESH)


def report_of(request: Request) -> Report:
    found: Fresh[Report] = request.app.state.checkup
    return found.get()


@router.get(
    "/readyz",
    operation_id="get_readyz",
    summary="The process can serve",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "Not ready: a check has failed."}},
)
def readyz(report: Annotated[Report, Depends(report_of)]) -> Response:
    """Store, migrations, clock and workers. Work that no worker serves degrades; it sends no caller away."""
    status = 503 if report.status == "unready" else 200
    return answer(to_public(Ready, report), status, **{"Cache-Control": "no-store"})
