"""How many jobs run at once: over all, in a group, in a queue; with the source of each limit (S3-53)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator, BaseModel, Field

from horae.actions import running_limits
from horae.core.access import Caller
from horae.core.running_limits import MOST, RunningLimit
from horae.service.inputs import Because, one_line, storable
from horae.service.problems import refuses
from horae.service.state import Here, needs

router = APIRouter(prefix="/limits", tags=["limits"])
Admin = Annotated[Caller, Depends(needs("admin"))]
Name = Annotated[
    str,
    Path(min_length=1, max_length=110, description="`global`, `group:NAME` or `queue:NAME`.", examples=["group:etl"]),
    AfterValidator(one_line),
]
Source = Literal["api", "file", "code"]


class LimitSourceShape(BaseModel):
    """What one source says."""

    app: str | None = Field(description="The application that declares it; null where somebody set it.")
    source: Source
    max_running: int | None


class LimitShape(BaseModel):
    name: str = Field(examples=["group:etl"])
    max_running: int | None = Field(description="Jobs at once, over all workers; null for no limit.", examples=[3])
    source: Source | None = Field(description="Who decides: somebody through this API, `jobs.conf`, or code.")
    running: int = Field(description="How many run under it now.")
    sources: list[LimitSourceShape] = Field(description="Everything that is said about it.")

    @classmethod
    def of(cls, limit: RunningLimit) -> Self:
        sources = [
            LimitSourceShape(app=each.app or None, source=each.source, max_running=each.max_running)
            for each in limit.sources
        ]
        return cls(
            name=limit.name,
            max_running=limit.max_running,
            source=limit.source,
            running=limit.running,
            sources=sources,
        )


class Limits(BaseModel):
    limits: list[LimitShape]


class SetLimit(Because):
    max_running: Annotated[int, Field(ge=1, le=MOST)] | None = Field(description="null: no limit, whatever code says.")


@router.get("", operation_id="list_limits", summary="Every limit, who set it, and how many jobs run under it")
def list_limits(world: Here, caller: Admin) -> Limits:
    return Limits(limits=[LimitShape.of(each) for each in running_limits.list_limits(world)])


@router.put(
    "/{name:path}", operation_id="set_limit", summary="Let at most so many jobs run at once", responses=refuses(409)
)
def set_limit(world: Here, caller: Admin, name: Name, body: SetLimit) -> LimitShape:
    """Over all workers, and over what `jobs.conf` and code say, until it is reset."""
    done = running_limits.set_limit(world, name, body.max_running, actor=caller.actor, reason=body.reason)
    return LimitShape.of(done)


@router.delete(
    "/{name:path}",
    operation_id="reset_limit",
    summary="Let file and code decide about a limit again",
    responses=refuses(409),
)
def reset_limit(
    world: Here,
    caller: Admin,
    name: Name,
    reason: Annotated[str, Query(max_length=2000), AfterValidator(storable)] = "",
) -> LimitShape:
    return LimitShape.of(running_limits.reset_limit(world, name, actor=caller.actor, reason=reason))
