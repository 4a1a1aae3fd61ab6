"""Is it alive, is it ready, which version is it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from horae.actions.health import Report, checkup
from horae.service.fresh import Fresh
from horae.service.state import How, Service, ticks_of

FRESH = 1.0  # seconds

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: str = Field(examples=["ok"])


class Check(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "clock", "status": "ok", "detail": "The clocks agree.", "seconds": 0.002}]
        }
    )

    name: Literal["store", "migrations", "clock", "workers"]
    status: Literal["ok", "warning", "failed", "unknown"]
    detail: str
    seconds: float | None = Field(None, description="How far this host's clock is behind the database's.")
    count: int | None = Field(None, description="How many workers were seen lately.")


class Ready(BaseModel):
    status: Literal["ready", "degraded", "unready"] = Field(examples=["ready"])
    checks: list[Check]


class Version(BaseModel):
    version: str = Field(examples=["0.1.0"])


@router.get("/healthz", operation_id="get_healthz", summary="The process answers")
async def healthz() -> Alive:
    return Alive(status="ok")


@router.get("/version", operation_id="get_version", summary="Which Horae this is")
async def version(service: How) -> Version:
    return Version(version=service.options.version)


def install(app: FastAPI) -> None:
    """Let this application know how it is; looked at once a second at most, because anybody may ask."""
    service: Service = app.state.horae
    app.state.checkup = Fresh(lambda: checkup(service.opens), ticks_of(service), FRESH)


def report_of(request: Request) -> Report:
    found: Fresh[Report] = request.app.state.checkup
    return found.get()


@router.get(
    "/readyz",
    operation_id="get_readyz",
    summary="The process can serve",
    responses={503: {"model": Ready, "description": "Not ready: a check has failed."}},
)
def readyz(report: Annotated[Report, Depends(report_of)], response: Response) -> Ready:
    """Store, migrations, clock and workers. Work that no worker serves degrades; it sends no caller away."""
    response.status_code = 503 if report.status == "unready" else 200
    response.headers["Cache-Control"] = "no-store"
    return Ready.model_validate({"status": report.status, "checks": [asdict(check) for check in report.checks]})
