"""Queues, how many jobs run at once, and the workers that serve them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from horae.actions.jobs import nodes, queues, running_limits
from horae.actions.jobs.quiet_queues import quiet_queue
from horae.api import merges
from horae.api.everywhere import as_setting, as_shared_limit, over_all
from horae.api.here import Here
from horae.api.operation import DELETE, GET, POST, PUT, Call, Room, S
from horae.api.values import Get, drop_none
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Order
from horae.core.jobs.running_limits import QUEUE
from horae.core.jobs.turns import Fair
from horae.core.time.instants import iso
from horae.core.values import PYDANTIC

if TYPE_CHECKING:
    from horae.core.cluster.settings import Kind
    from horae.ports.store import Tx

ADMIN = ("admin",)


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue and how it is served; ``incomplete`` names databases without an answer.

    After a change these are of as many ``databases``, and follow by themselves when they are back.
    """

    __pydantic_config__ = PYDANTIC

    name: str
    order: Order = "priority"
    max_running: int | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    paused_until: datetime | None = None
    quiet_hours: str | None = None
    quiet_zone: str = "UTC"
    quiet_since: datetime | None = None
    fair: Fair | None = None
    quiet_at: datetime | None = None
    incomplete: tuple[str, ...] = ()
    databases: int | None = None


@dataclass(frozen=True, kw_only=True)
class QueueDetail(Queue):
    """A queue with its jobs by state, and who serves it."""

    jobs: dict[str, int] = field(default_factory=dict)
    workers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LimitSource:
    """One source of a limit; ``app`` is None where it was set by hand."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {"app": lambda source: source.app or None}

    source: Literal["api", "file", "code"]
    max_running: int | None = None
    app: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunningLimit:
    """A limit of jobs that run at once, how many do, and which source decides; databases of a cluster share it."""

    __pydantic_config__ = PYDANTIC

    name: str
    running: int = 0
    sources: tuple[LimitSource, ...] = ()
    max_running: int | None = None
    source: Literal["api", "file", "code"] | None = None
    incomplete: tuple[str, ...] = ()
    databases: int | None = None

    @property
    def decisive(self) -> LimitSource | None:
        """The source that decides; None where there is no limit."""
        decided = (self.source, self.max_running)
        return next((each for each in self.sources if (each.source, each.max_running) == decided), None)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A process that takes part; silent when it has not been seen for three minutes.

    ``queues`` are its slots by queue and ``slots`` all of them; ``busy`` and ``running`` are those in use at its last
    heartbeat, None where it does not tell. ``loop_lag`` is the longest that its event loop kept anything waiting since
    the heartbeat before, ``memory`` the bytes it takes. ``drain`` is what it was asked to do after its last job: to
    stay idle, or to leave.
    """

    __pydantic_config__ = PYDANTIC

    id: str
    host: str
    pid: int
    version: str
    state: nodes.WorkerState
    started_at: datetime
    seen_at: datetime
    queues: dict[str, int] = field(default_factory=dict)
    release: str | None = None
    busy: dict[str, int] | None = None
    slots: int = 0
    running: int | None = None
    loop_lag: timedelta | None = None
    memory: int | None = None
    drain: Literal["stay", "leave"] | None = None
    drain_at: datetime | None = None
    drain_by: str | None = None
    drain_reason: str | None = None
    incomplete: tuple[str, ...] = ()


class Queues(Room[S]):
    """Queues; needs the scope ``admin``."""

    @GET("/queues", *ADMIN, by_queue=True)
    def list(self, *, machinery: bool = False) -> Call[tuple[QueueDetail, ...]]:
        """List every queue that has settings, jobs or a worker; with *machinery* also that of Horae's own jobs."""

        def fetch(here: Here) -> Any:
            return queues.list_queues(here.world, **here.reach, machinery=machinery)

        query, gather = drop_none(machinery=machinery or None), over_all(fetch, merges.merge_queues)
        return Call(tuple[QueueDetail, ...], fetch, query=query, gather=gather)

    @GET("/queues/{name}", *ADMIN, by_queue=True)
    def get(self, name: str) -> Call[QueueDetail]:
        """Return one queue."""

        def fetch(here: Here) -> Any:
            return queues.get_queue(here.world, name, **here.reach)

        return Call(QueueDetail, fetch, at={"name": name}, gather=over_all(fetch, merges.merge_queue))

    @POST("/queues/{name}/pause", *ADMIN, by_queue=True)
    def pause(self, name: str, *, until: datetime | None = None, reason: str = "") -> Call[Queue]:
        """Hand out no more jobs of a queue; running ones go on, enqueueing goes on. *until* ends it by itself."""

        def act(here: Here) -> Any:
            here.caller.require_queue(name)
            return queues.pause_queue(here.world, name, until=until, actor=here.actor, reason=reason)

        def value(_: Tx) -> dict[str, Any]:
            return {"paused": True, "until": None if until is None else iso(until)}

        body = drop_none(until=until, reason=reason or None)
        gather = as_setting("queue.pause", name, value, act, merges.first_answer, reason=reason)
        return Call(Queue, act, at={"name": name}, body=body, repeats=True, gather=gather)

    @POST("/queues/{name}/resume", *ADMIN, by_queue=True)
    def resume(self, name: str, *, reason: str = "") -> Call[Queue]:
        """Hand out jobs of a queue again."""
        return _change("queue.pause", {"paused": False, "until": None}, queues.resume_queue, name, reason)

    @POST("/queues/{name}/quiet", *ADMIN, by_queue=True)
    def quiet(self, name: str, quiet_hours: str | None, *, zone: str = "UTC", reason: str = "") -> Call[Queue]:
        """Start no job of a queue in these hours of a *zone*, such as ``22:00-07:00``; None lifts them."""

        def act(here: Here) -> Any:
            here.caller.require_queue(name)
            return quiet_queue(here.world, name, quiet_hours, zone, actor=here.actor, reason=reason)

        value = {"quiet_hours": quiet_hours, "zone": zone}
        body = {**value, **drop_none(reason=reason or None)}
        gather = as_setting("queue.quiet", name, value, act, merges.first_answer, reason=reason)
        return Call(Queue, act, at={"name": name}, body=body, repeats=True, gather=gather)

    @POST("/queues/{name}/limit", *ADMIN, by_queue=True)
    def limit(self, name: str, max_running: int | None, *, reason: str = "") -> Call[Queue]:
        """Let at most so many jobs of a queue run at once, over all workers; None lifts the limit."""

        def act(here: Here, share: int | None = max_running) -> Any:
            here.caller.require_queue(name)
            return queues.limit_queue(here.world, name, share, actor=here.actor, reason=reason)

        body = {"max_running": max_running, **drop_none(reason=reason or None)}
        gather = as_shared_limit(f"{QUEUE}{name}", max_running, act, merges.merge_limited, reason=reason)
        return Call(Queue, act, at={"name": name}, body=body, repeats=True, gather=gather)

    @POST("/queues/{name}/order", *ADMIN, by_queue=True)
    def order(self, name: str, order: Order, *, reason: str = "") -> Call[Queue]:
        """Serve by ``priority`` first, or by ``run_at`` first."""
        return _change("queue.order", {"order": order}, queues.order_queue, name, reason, order=order)

    @POST("/queues/{name}/fair", *ADMIN, by_queue=True)
    def share(self, name: str, fair: Fair | None, *, reason: str = "") -> Call[Queue]:
        """Let owners take turns in a queue (``owner``), by the weights in their settings; None: its order alone rules.

        One that has just come is served by the next claims, however many jobs of others wait. The order of the queue
        holds among the jobs of one owner.
        """
        return _change("queue.fair", {"fair": fair}, queues.share_queue, name, reason, fair=fair)


class Limits(Room[S]):
    """Limits of jobs that run at once; their names are ``global``, ``group:etl`` or ``queue:mail``."""

    @GET("/limits", *ADMIN)
    def list(self) -> Call[tuple[RunningLimit, ...]]:
        """List every limit, who set it, and how many jobs run under it."""

        def fetch(here: Here) -> Any:
            return running_limits.list_limits(here.world)

        return Call(tuple[RunningLimit, ...], fetch, gather=over_all(fetch, merges.merge_limits))

    @PUT("/limits/{name}", *ADMIN)
    def set(self, name: str, max_running: int | None, *, reason: str = "") -> Call[RunningLimit]:
        """Let at most so many jobs run at once, whatever ``jobs.conf`` and code say; None means no limit."""

        def act(here: Here, most: int | None = max_running) -> Any:
            return running_limits.set_limit(here.world, name, most, actor=here.actor, reason=reason)

        body = {"max_running": max_running, **drop_none(reason=reason or None)}
        gather = as_shared_limit(name, max_running, act, merges.merge_limit, reason=reason)
        return Call(RunningLimit, act, at={"name": name}, body=body, gather=gather)

    @DELETE("/limits/{name}", *ADMIN)
    def reset(self, name: str, *, reason: str = "") -> Call[RunningLimit]:
        """Forget what was set by hand: file and code decide again."""

        def act(here: Here) -> Any:
            return running_limits.reset_limit(here.world, name, actor=here.actor, reason=reason)

        query, value = drop_none(reason=reason or None), {"is_set": False, "max_running": None}
        gather = as_setting("limit", name, value, act, merges.merge_limit, reason=reason)
        return Call(RunningLimit, act, at={"name": name}, query=query, repeats=True, gather=gather)


class Workers(Room[S]):
    """The processes that take part."""

    @GET("/workers", *ADMIN)
    def list(self) -> Call[tuple[Worker, ...]]:
        """List the house's workers; a tenant sees none."""

        def fetch(here: Here) -> Any:
            return nodes.list_workers(here.world, owner=here.caller.sees)

        return Call(tuple[Worker, ...], fetch, gather=over_all(fetch, merges.merge_workers))

    @GET("/workers/{worker_id}", *ADMIN)
    def get(self, worker_id: str) -> Call[Worker]:
        """Return one worker."""

        def fetch(here: Here) -> Any:
            return nodes.get_worker(here.world, worker_id, owner=here.caller.sees)

        return Call(Worker, fetch, at={"worker_id": worker_id}, gather=over_all(fetch, merges.first_answer))

    @POST("/workers/{worker_id}/drain", *ADMIN)
    def drain(self, worker_id: str, *, leave: bool = False, reason: str = "") -> Call[Worker]:
        """Ask a worker to claim nothing more and to finish what it runs; then it stays idle, or with *leave* it ends.

        It sees this with its next look: at once where hints arrive, else within a second while it is busy and within
        its poll otherwise. Schedules go on firing through it. A process that is started in its place works again.
        """

        def act(here: Here) -> Any:
            return nodes.drain_worker(here.world, worker_id, leave=leave, actor=here.actor, reason=reason)

        body = drop_none(leave=leave or None, reason=reason or None)
        gather = over_all(act, merges.first_answer)
        return Call(Worker, act, at={"worker_id": worker_id}, body=body, repeats=True, gather=gather)

    @POST("/workers/{worker_id}/resume", *ADMIN)
    def resume(self, worker_id: str, *, reason: str = "") -> Call[Worker]:
        """Let a drained worker claim jobs again; one that has left is started again by its operator."""

        def act(here: Here) -> Any:
            return nodes.resume_worker(here.world, worker_id, actor=here.actor, reason=reason)

        body = drop_none(reason=reason or None)
        gather = over_all(act, merges.first_answer)
        return Call(Worker, act, at={"worker_id": worker_id}, body=body, repeats=True, gather=gather)


def _change(
    kind: Kind, value: Mapping[str, Any], verb: Callable[..., Any], name: str, reason: str, **changes: Any
) -> Call[Queue]:
    def act(here: Here) -> Any:
        here.caller.require_queue(name)
        return verb(here.world, name, *changes.values(), actor=here.actor, reason=reason)

    body = {**changes, **drop_none(reason=reason or None)}
    gather = as_setting(kind, name, value, act, merges.first_answer, reason=reason)
    return Call(Queue, act, at={"name": name}, body=body, repeats=True, gather=gather)
