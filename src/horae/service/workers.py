"""The processes that take part, as shown to people."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from horae.actions.reasons import SILENT
from horae.core.access import Caller
from horae.ports import Node
from horae.service.job_shapes import Instant
from horae.service.state import Here, needs

router = APIRouter(prefix="/workers", tags=["workers"])
Admin = Annotated[Caller, Depends(needs("admin"))]


class Worker(BaseModel):
    id: str = Field(examples=["host:71:9f2c4e"])
    host: str
    pid: int
    version: str
    state: Literal["running", "stopping", "silent"] = Field(description="silent: not seen for three minutes.")
    started_at: Instant
    seen_at: Instant
    queues: dict[str, int] = Field(description="What it serves, with how many slots.", examples=[{"default": 50}])

    @classmethod
    def of(cls, node: Node, now: datetime) -> Self:
        is_silent = node.seen_at <= now - SILENT
        return cls(
            id=node.node_id,
            host=node.host,
            pid=node.pid,
            version=node.version,
            state="silent" if is_silent else "stopping" if node.state == "stopping" else "running",
            started_at=node.started_at,
            seen_at=node.seen_at,
            queues=dict(node.queues),
        )


class Workers(BaseModel):
    workers: list[Worker]


@router.get("", operation_id="list_workers", summary="Who works here")
def list_workers(world: Here, caller: Admin) -> Workers:
    """For operators; to a tenant, none of them is its own. Workers that pull over HTTP do not register."""
    nodes = world.store.read(lambda tx: tx.nodes.all()) if caller.sees is None else []
    return Workers(workers=[Worker.of(node, world.clock.now()) for node in nodes])
