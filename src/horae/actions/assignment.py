"""The verbs of a worker of a cluster with many databases: hold, renew and give up the leases by which it serves one."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from horae.core.cluster.assignment import LEASE, Holding, count_chosen, is_needed
from horae.core.dataclass import dataclass
from horae.ports.store import Tx
from horae.ports.world import World

FORGOTTEN = timedelta(hours=1)  # after which the lease of a worker that died is deleted


@dataclass(frozen=True, slots=True)
class Service:
    """How a database is served: whether this worker does, and how many others have chosen it."""

    is_ours: bool
    chosen: int


def count_others(world: World, worker: str, queues: Collection[str]) -> int:
    """Return how many other workers have chosen this database, for the queue with the fewest."""
    now = world.clock.steady()
    return count_chosen(world.route().store.read(lambda tx: tx.cluster.holdings()), worker, queues, now)


def attend(
    world: World, worker: str, queues: Collection[str], *, is_chosen: bool, lease: timedelta = LEASE
) -> Service:  # fmt: skip
    """Hold this database by choice or where no other worker serves a queue, else give it up; leases are renewed."""

    def write(tx: Tx) -> Service:
        now = world.clock.steady()
        holdings = tx.cluster.holdings()
        is_ours = is_chosen or is_needed(holdings, worker, queues, now)
        held = [Holding(queue, worker, now + lease, is_chosen) for queue in sorted(queues)] if is_ours else []
        if held or any(each.worker == worker for each in holdings):
            tx.cluster.hold(worker, held)
        if any(each.leased_until < now - FORGOTTEN for each in holdings):
            tx.cluster.forget_holdings(now - FORGOTTEN)
        return Service(is_ours, count_chosen(holdings, worker, queues, now))

    return world.route().store.transact(write)


def leave(world: World, worker: str) -> None:
    """Give up what a worker holds, so that others step in at once."""
    world.route().store.transact(lambda tx: tx.cluster.hold(worker, []))
