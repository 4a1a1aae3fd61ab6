"""Take jobs from the database that this process has opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from horae.actions import hints
from horae.actions.budgets import spending
from horae.actions.jobs import claims, endings, steps
from horae.actions.jobs.jobs import parent_results
from horae.core.governance.budgets import Spending
from horae.core.jobs.job import Change, Job, Lease, Outcome
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.steps import KeptResult
from horae.errors import LeaseLost
from horae.ports.claims import Renewed
from horae.ports.workers import Node, Upcoming
from horae.ports.world import World

T = TypeVar("T")


class StoreSource:
    """The job source of a worker with a store: calls the verbs of claims and endings.

    In a cluster a job that is held may move to another database with its shard. *cluster* is the world of all of them:
    what this database does not have any more is asked for there.
    """

    def __init__(self, world: World, cluster: World | None = None) -> None:
        self._world = world
        self._cluster = None if cluster is None or cluster.cluster is None else cluster

    def claim(self, queue: str, limit: int, *, worker_id: str, lease: timedelta) -> list[Job]:
        return claims.claim(self._world, queue, limit, worker_id=worker_id, lease=lease)

    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        return claims.peek(self._world, queues, node=node, node_id=node_id, worker_id=worker_id)

    def settle(self, batch: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        changes = endings.settle(self._world, batch)
        lost = [(job, outcome) for job, outcome in batch if job.id in changes and changes[job.id] is None]
        if self._cluster is None or not lost:
            return changes
        for job, _ in lost:
            del changes[job.id]
        return changes | endings.settle(self._cluster, lost)

    def renew(self, leases: Sequence[Lease], *, lease: timedelta) -> Renewed:
        renewed = claims.renew(self._world, leases, lease=lease)
        lost = [each for each in leases if each.job_number not in renewed.held | renewed.busy]
        if self._cluster is None or not lost:
            return renewed
        return claims.merge_renewed([renewed, claims.renew(self._cluster, lost, lease=lease)])

    def progress(self, lease: Lease, value: Any) -> None:
        self._follow(lease, lambda world: claims.progress(world, lease, value))

    def checkpoint(self, lease: Lease, value: Any) -> None:
        self._follow(lease, lambda world: claims.checkpoint(world, lease, value))

    def once(
        self,
        lease: Lease,
        step: str,
        work: Callable[[Any], Any],
        *,
        limit: timedelta | None = None,
        held_for: timedelta | None = None,
    ) -> Any:
        return self._follow(lease, lambda world: claims.once(world, lease, step, work, limit=limit, held_for=held_for))

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        return self._follow(lease, lambda world: steps.recall_step(world, lease, step))

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        return self._follow(lease, lambda world: steps.keep_step(world, lease, step, value))

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        return parent_results(self._world, lease.job_id)

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        return self._follow(lease, lambda world: spending.spend(world, lease, cost, key=key))

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        self._follow(lease, lambda world: spending.report(world, lease, cost, key=key))

    def withdraw(self) -> None:
        """Do nothing: a claim is over when it returns."""

    def leave(self, node: Node) -> None:
        claims.leave(self._world, node.node_id)

    def hears(self) -> bool:
        return hints.hears(self._world)

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        return hints.subscribe(self._world, listener)

    def _follow(self, lease: Lease, work: Callable[[World], T]) -> T:
        """Do something for a held job here; where its shard has left, where that is now."""
        if self._cluster is None:
            return work(self._world)
        try:
            return work(self._world)
        except LeaseLost:
            return work(self._cluster)
