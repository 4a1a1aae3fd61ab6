"""Take jobs from the database that this process has opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from horae.actions import hints
from horae.actions.budgets import spending
from horae.actions.jobs import claims, endings, steps
from horae.actions.jobs.jobs import parent_results
from horae.core.governance.budgets import Spending
from horae.core.jobs.job import Change, Job, Lease, Outcome
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.steps import KeptResult
from horae.ports.claims import Renewed
from horae.ports.workers import Node, Upcoming
from horae.ports.world import World


class StoreSource:
    """The job source of a worker with a store: calls the verbs of claims and endings."""

    def __init__(self, world: World) -> None:
        self._world = world

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
        return endings.settle(self._world, batch)

    def renew(self, leases: Sequence[Lease], *, lease: timedelta) -> Renewed:
        return claims.renew(self._world, leases, lease=lease)

    def progress(self, lease: Lease, value: Any) -> None:
        claims.progress(self._world, lease, value)

    def checkpoint(self, lease: Lease, value: Any) -> None:
        claims.checkpoint(self._world, lease, value)

    def once(
        self,
        lease: Lease,
        step: str,
        work: Callable[[Any], Any],
        *,
        limit: timedelta | None = None,
        held_for: timedelta | None = None,
    ) -> Any:
        return claims.once(self._world, lease, step, work, limit=limit, held_for=held_for)

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        return steps.recall_step(self._world, lease, step)

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        return steps.keep_step(self._world, lease, step, value)

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        return parent_results(self._world, lease.job_id)

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        return spending.spend(self._world, lease, cost, key=key)

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        spending.report(self._world, lease, cost, key=key)

    def withdraw(self) -> None:
        """Do nothing: a claim is over when it returns."""

    def leave(self, node: Node) -> None:
        claims.leave(self._world, node.node_id)

    def hears(self) -> bool:
        return hints.hears(self._world)

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        return hints.subscribe(self._world, listener)
