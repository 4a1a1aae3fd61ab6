"""Queries of workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from horae.actions.jobs.reasons import SILENT
from horae.ports import Node, World


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker and whether it has been heard of lately."""

    id: str
    host: str
    pid: int
    version: str
    state: Literal["running", "stopping", "silent"]
    started_at: datetime
    seen_at: datetime
    queues: dict[str, int]
    release: str | None = None


def find_nodes(world: World) -> list[Node]:
    """Return all workers on record, silent ones included."""
    return world.route().store.read(lambda tx: tx.nodes.all())


def list_workers(world: World, *, owner: str | None = None) -> list[WorkerView]:
    """Return all workers; with *owner* none, because no worker belongs to a tenant."""
    if owner is not None:
        return []
    now = world.clock.now()
    return [_view(node, now) for node in find_nodes(world)]


def _view(node: Node, now: datetime) -> WorkerView:
    is_silent = node.seen_at <= now - SILENT
    state: Literal["running", "stopping", "silent"] = (
        "silent" if is_silent else "stopping" if node.state == "stopping" else "running"
    )
    return WorkerView(
        node.node_id, node.host, node.pid, node.version, state, node.started_at, node.seen_at, dict(node.queues),
        node.release,
    )  # fmt: skip
