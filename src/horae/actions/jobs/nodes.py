"""The verbs of workers: list them, look at one, drain it and resume it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal, cast

from horae.actions.jobs.reasons import SILENT
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import iso
from horae.errors import NotFound
from horae.ports.store import Tx
from horae.ports.workers import Drain, Node
from horae.ports.world import World

WorkerState = Literal["running", "draining", "drained", "stopping", "silent"]


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker and whether it has been heard of lately."""

    id: str
    host: str
    pid: int
    version: str
    state: WorkerState
    started_at: datetime
    seen_at: datetime
    queues: dict[str, int]
    release: str | None = None
    busy: dict[str, int] | None = None
    slots: int = 0
    running: int | None = None
    loop_lag: timedelta | None = None
    memory: int | None = None
    drain: Drain | None = None
    drain_at: datetime | None = None
    drain_by: str | None = None
    drain_reason: str | None = None


def find_nodes(world: World) -> list[Node]:
    """Return all workers on record, silent ones included."""
    return world.route().store.read(lambda tx: tx.nodes.all())


def list_workers(world: World, *, owner: str | None = None) -> list[WorkerView]:
    """Return all workers; with *owner* none, because no worker belongs to a tenant."""
    if owner is not None:
        return []
    now = world.clock.now()
    return [_view(node, now) for node in find_nodes(world)]


def get_worker(world: World, worker_id: str, *, owner: str | None = None) -> WorkerView:
    """Return one worker; for a tenant there is none."""
    node = None if owner is not None else world.route().store.read(lambda tx: tx.nodes.get(worker_id))
    return _view(_known(node, worker_id), world.clock.now())


def drain_worker(
    world: World, worker_id: str, *, leave: bool = False, actor: str = SYSTEM, reason: str = ""
) -> WorkerView:
    """Ask a worker to claim nothing more and to finish what it runs; then it stays idle, or with *leave* it ends.

    It sees this with its next look, which a hint hastens. The wish is about this process: one that is started in its
    place works again.
    """
    return _ask(world, worker_id, "drain", "leave" if leave else "stay", actor, reason)


def resume_worker(world: World, worker_id: str, *, actor: str = SYSTEM, reason: str = "") -> WorkerView:
    """Let a drained worker claim jobs again."""
    return _ask(world, worker_id, "resume", None, actor, reason)


def _ask(world: World, worker_id: str, verb: str, wish: Drain | None, actor: str, reason: str) -> WorkerView:
    now = world.clock.now()

    def write(tx: Tx) -> Node:
        before = _known(tx.nodes.get(worker_id, lock=True), worker_id)
        if wish is None:
            after = replace(before, drain=None, drain_at=None, drain_by=None, drain_reason=None)
        else:
            after = replace(before, drain=wish, drain_at=now, drain_by=actor, drain_reason=reason or None)
        tx.nodes.set_drain(after)
        facts = (_audited(each) for each in (before, after))
        tx.audit.append(
            Entry(now, actor, verb, "worker", worker_id, reason=reason or None, before=next(facts), after=next(facts))
        )
        return after

    store = world.route().store
    node = store.transact(write)
    store.wake(node.queues)
    return _view(node, now)


def _audited(node: Node) -> dict[str, str | None]:
    return {"drain": node.drain, "drain_at": None if node.drain_at is None else iso(node.drain_at)}


def _known(node: Node | None, worker_id: str) -> Node:
    if node is None:
        raise NotFound("worker_unknown", id=worker_id)
    return node


def _view(node: Node, now: datetime) -> WorkerView:
    busy = None if node.busy is None else dict(node.busy)
    return WorkerView(
        node.node_id,
        node.host,
        node.pid,
        node.version,
        _state(node, now),
        node.started_at,
        node.seen_at,
        dict(node.queues),
        node.release,
        busy,
        sum(node.queues.values()),
        None if busy is None else sum(busy.values()),
        node.loop_lag,
        node.memory,
        node.drain,
        node.drain_at,
        node.drain_by,
        node.drain_reason,
    )


def _state(node: Node, now: datetime) -> WorkerState:
    if node.seen_at <= now - SILENT:
        return "silent"
    if node.drain is not None and node.state == "running":
        return "draining"  # it has not looked since
    known = ("running", "draining", "drained", "stopping")
    return cast("WorkerState", node.state) if node.state in known else "running"
