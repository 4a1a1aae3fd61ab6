"""Queues: what waits in them, who serves them, and how."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator, BaseModel, Field

from horae.actions import queues
from horae.actions.queues import QueueView
from horae.core.access import Caller
from horae.ports import Queue
from horae.service.inputs import Because, one_line
from horae.service.job_shapes import Instant
from horae.service.problems import refuses
from horae.service.state import Here, needs

router = APIRouter(prefix="/queues", tags=["queues"])
Admin = Annotated[Caller, Depends(needs("admin", by_queue=True))]
Name = Annotated[str, Path(min_length=1, max_length=100, examples=["mail"]), AfterValidator(one_line)]


class QueueShape(BaseModel):
    name: str = Field(examples=["mail"])
    order: Literal["priority", "run_at"] = Field(description="By band first, or by due time first.")
    max_running: int | None = Field(description="Jobs at once, over all workers; null for no limit.")
    paused_at: Instant | None
    paused_by: str | None
    pause_reason: str | None

    @classmethod
    def of(cls, queue: Queue) -> Self:
        return cls(**{name: getattr(queue, name) for name in QueueShape.model_fields})


class QueueDetail(QueueShape):
    jobs: dict[str, int] = Field(default={}, description="By state.", examples=[{"queued": 12, "running": 3}])
    workers: list[str] = Field(default=[], description="Who serves it; for operators.")

    @classmethod
    def seen(cls, view: QueueView) -> Self:
        shown = cls.of(view.queue)
        return shown.model_copy(update={"jobs": view.counts, "workers": list(view.workers)})


class Queues(BaseModel):
    queues: list[QueueDetail]


class LimitQueue(Because):
    max_running: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(description="null lifts the limit.")


class OrderQueue(Because):
    order: Literal["priority", "run_at"]


@router.get("", operation_id="list_queues", summary="Every queue that has settings, jobs or a worker")
def list_queues(
    world: Here,
    caller: Admin,
    machinery: Annotated[bool, Query(description="Also the queue of Horae's own jobs.")] = False,
) -> Queues:
    found = queues.list_queues(world, **caller.reach, machinery=machinery)
    return Queues(queues=[QueueDetail.seen(view) for view in found])


@router.get("/{name:path}", operation_id="get_queue", summary="One queue", responses=refuses(404))
def get(world: Here, caller: Admin, name: Name) -> QueueDetail:
    return QueueDetail.seen(queues.get_queue(world, name, **caller.reach))


@router.post(
    "/{name:path}/pause", operation_id="pause_queue", summary="Hand out no more jobs of a queue", responses=refuses(409)
)
def pause(world: Here, caller: Admin, name: Name, told: Because | None = None) -> QueueShape:
    """Running jobs go on, enqueueing goes on."""
    caller.require_queue(name)
    reason = "" if told is None else told.reason
    return QueueShape.of(queues.pause_queue(world, name, actor=caller.actor, reason=reason))


@router.post(
    "/{name:path}/resume", operation_id="resume_queue", summary="Hand out jobs of a queue again", responses=refuses(409)
)
def resume(world: Here, caller: Admin, name: Name, told: Because | None = None) -> QueueShape:
    caller.require_queue(name)
    reason = "" if told is None else told.reason
    return QueueShape.of(queues.resume_queue(world, name, actor=caller.actor, reason=reason))


@router.post(
    "/{name:path}/limit", operation_id="limit_queue", summary="At most so many jobs at once", responses=refuses(409)
)
def limit(world: Here, caller: Admin, name: Name, told: LimitQueue) -> QueueShape:
    caller.require_queue(name)
    changed = queues.limit_queue(world, name, told.max_running, actor=caller.actor, reason=told.reason)
    return QueueShape.of(changed)


@router.post("/{name:path}/order", operation_id="order_queue", summary="Which job comes first", responses=refuses(409))
def order(world: Here, caller: Admin, name: Name, told: OrderQueue) -> QueueShape:
    caller.require_queue(name)
    return QueueShape.of(queues.order_queue(world, name, told.order, actor=caller.actor, reason=told.reason))
