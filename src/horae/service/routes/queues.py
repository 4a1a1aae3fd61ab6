"""``/queues``, ``/limits`` and ``/workers``: what waits, how much of it runs at once, and who serves it."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import AfterValidator, ConfigDict, Field

from horae.api.operation import Page
from horae.api.queues import Limits, Queue, QueueDetail, Queues, RunningLimit, Worker, Workers
from horae.core.jobs.job import Order
from horae.core.jobs.running_limits import MOST
from horae.core.jobs.turns import Fair
from horae.service.fields import Instant, Path, Query
from horae.service.inputs import OperationReason, ReasonBody, ReasonQuery, check_one_line
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(tags=["queues"])
Name = Annotated[str, Path(min_length=1, max_length=100, examples=["mail"]), AfterValidator(check_one_line)]
LimitName = Annotated[str, Path(min_length=1, max_length=200, examples=["group:etl"]), AfterValidator(check_one_line)]
WorkerId = Annotated[
    str, Path(min_length=1, max_length=200, examples=["host-1:4711:9f2c11"]), AfterValidator(check_one_line)
]
Number = Annotated[int, Field(ge=1, le=MOST)]
NOTHING = ReasonBody()


class PauseQueue(OperationReason):
    """Until when, where the pause ends by itself."""

    until: Instant | None = Field(default=None, description="The pause ends then; without it, when it is resumed.")


PAUSED = PauseQueue()


class QuietQueue(OperationReason):
    """The hours in which no job of a queue starts."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"quiet_hours": "22:00-07:00", "zone": "Europe/Berlin"}]})

    quiet_hours: str | None = Field(
        max_length=200, description="Hours of the day, several with commas; null lifts them."
    )
    zone: str = Field(default="UTC", max_length=64, description="The IANA zone of the hours.")


class LimitQueue(OperationReason):
    """The limit of jobs of a queue that run at once."""

    max_running: Number | None = Field(description="null lifts the limit.")


class OrderQueue(OperationReason):
    """The order in which jobs of a queue are claimed."""

    order: Order


class ShareQueue(OperationReason):
    """Between whom a queue is shared by turns."""

    fair: Fair | None = Field(description="`owner`: owners take turns, by their weights; null: the order alone rules.")


class SetLimit(OperationReason):
    """The limit of jobs that run at once."""

    max_running: Number | None = Field(description="null: no limit, whatever code says.")


class DrainWorker(OperationReason):
    """What a drained worker does after its last job."""

    leave: bool = Field(default=False, description="End the process; else it stays idle until it is resumed.")


STAY = DrainWorker()


@router.get(
    "/queues", operation_id="list_queues", summary="Every queue that has settings, jobs or a worker",
    response_model=Page[QueueDetail],
)  # fmt: skip
async def list_queues(
    machinery: Annotated[bool, Query(description="Also the queue of Horae's own jobs.")] = False,
    rooms: CallerRooms = rooms_for(Queues.list),
) -> Response:
    return answer(await rooms.queues.list(machinery=machinery))


@router.get(
    "/queues/{name:path}", operation_id="get_queue", summary="One queue", response_model=QueueDetail,
    responses=refuses(404),
)  # fmt: skip
async def get(name: Name, rooms: CallerRooms = rooms_for(Queues.get)) -> Response:
    return answer(await rooms.queues.get(name))


@router.post(
    "/queues/{name:path}/pause", operation_id="pause_queue", summary="Hand out no more jobs of a queue",
    response_model=Queue, responses=refuses(409),
)  # fmt: skip
async def pause(name: Name, body: PauseQueue = PAUSED, rooms: CallerRooms = rooms_for(Queues.pause)) -> Response:
    """Running jobs go on, enqueueing goes on."""
    return answer(await rooms.queues.pause(name, until=body.until, reason=body.reason))


@router.post(
    "/queues/{name:path}/quiet", operation_id="quiet_queue", summary="Start no job of a queue in some hours",
    response_model=Queue, responses=refuses(409),
)  # fmt: skip
async def quiet(name: Name, body: QuietQueue, rooms: CallerRooms = rooms_for(Queues.quiet)) -> Response:
    """Running jobs go on; the queue is paused when the hours begin and resumed when they end."""
    return answer(await rooms.queues.quiet(name, body.quiet_hours, zone=body.zone, reason=body.reason))


@router.post(
    "/queues/{name:path}/resume", operation_id="resume_queue", summary="Hand out jobs of a queue again",
    response_model=Queue, responses=refuses(409),
)  # fmt: skip
async def resume(name: Name, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Queues.resume)) -> Response:
    return answer(await rooms.queues.resume(name, reason=body.reason))


@router.post(
    "/queues/{name:path}/limit", operation_id="limit_queue", summary="At most so many jobs at once",
    response_model=Queue, responses=refuses(409),
)  # fmt: skip
async def limit(name: Name, body: LimitQueue, rooms: CallerRooms = rooms_for(Queues.limit)) -> Response:
    return answer(await rooms.queues.limit(name, body.max_running, reason=body.reason))


@router.post(
    "/queues/{name:path}/order", operation_id="order_queue", summary="Which job comes first", response_model=Queue,
    responses=refuses(409),
)  # fmt: skip
async def order(name: Name, body: OrderQueue, rooms: CallerRooms = rooms_for(Queues.order)) -> Response:
    return answer(await rooms.queues.order(name, body.order, reason=body.reason))


@router.post(
    "/queues/{name:path}/fair", operation_id="share_queue", summary="Let owners take turns in a queue",
    response_model=Queue, responses=refuses(409),
)  # fmt: skip
async def share(name: Name, body: ShareQueue, rooms: CallerRooms = rooms_for(Queues.share)) -> Response:
    """The order of the queue holds among the jobs of one owner; `PUT /owners/{owner}` sets an owner's weight."""
    return answer(await rooms.queues.share(name, body.fair, reason=body.reason))


@router.get(
    "/limits", operation_id="list_limits", summary="Every limit, who set it, and how many jobs run under it",
    response_model=Page[RunningLimit],
)  # fmt: skip
async def list_limits(rooms: CallerRooms = rooms_for(Limits.list)) -> Response:
    return answer(await rooms.limits.list())


@router.put(
    "/limits/{name:path}", operation_id="set_limit", summary="Let at most so many jobs run at once",
    response_model=RunningLimit, responses=refuses(409),
)  # fmt: skip
async def set_limit(name: LimitName, body: SetLimit, rooms: CallerRooms = rooms_for(Limits.set)) -> Response:
    """Over all workers, and over what `jobs.conf` and code say, until it is reset."""
    return answer(await rooms.limits.set(name, body.max_running, reason=body.reason))


@router.delete(
    "/limits/{name:path}", operation_id="reset_limit", summary="Let file and code decide about a limit again",
    response_model=RunningLimit, responses=refuses(409),
)  # fmt: skip
async def reset_limit(
    name: LimitName,
    reason: ReasonQuery = "",
    rooms: CallerRooms = rooms_for(Limits.reset),
) -> Response:
    return answer(await rooms.limits.reset(name, reason=reason))


@router.get("/workers", operation_id="list_workers", summary="Who works here", response_model=Page[Worker])
async def list_workers(rooms: CallerRooms = rooms_for(Workers.list)) -> Response:
    """Operators see all workers, tenants see none. A worker over HTTP is listed when it peeks with `worker`."""
    return answer(await rooms.workers.list())


@router.get(
    "/workers/{worker_id}", operation_id="get_worker", summary="One worker: its slots, memory and lag",
    response_model=Worker, responses=refuses(404),
)  # fmt: skip
async def get_worker(worker_id: WorkerId, rooms: CallerRooms = rooms_for(Workers.get)) -> Response:
    return answer(await rooms.workers.get(worker_id))


@router.post(
    "/workers/{worker_id}/drain", operation_id="drain_worker", summary="Let a worker finish and claim nothing more",
    response_model=Worker, responses=refuses(404),
)  # fmt: skip
async def drain_worker(
    worker_id: WorkerId, body: DrainWorker = STAY, rooms: CallerRooms = rooms_for(Workers.drain)
) -> Response:
    """It sees this with its next look, and stays idle until it is resumed; with `leave` it ends."""
    return answer(await rooms.workers.drain(worker_id, leave=body.leave, reason=body.reason))


@router.post(
    "/workers/{worker_id}/resume", operation_id="resume_worker", summary="Let a drained worker claim jobs again",
    response_model=Worker, responses=refuses(404),
)  # fmt: skip
async def resume_worker(
    worker_id: WorkerId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Workers.resume)
) -> Response:
    return answer(await rooms.workers.resume(worker_id, reason=body.reason))
