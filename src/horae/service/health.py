"""Is it alive, is it ready, which version is it."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from horae.service.state import How

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: str = Field(examples=["ok"])


class Version(BaseModel):
    version: str = Field(examples=["0.1.0"])


@router.get("/healthz", operation_id="get_healthz", summary="The process answers")
async def healthz() -> Alive:
    return Alive(status="ok")


@router.get("/version", operation_id="get_version", summary="Which Horae this is")
async def version(service: How) -> Version:
    return Version(version=service.options.version)
