"""Jobs that wait although nothing holds them, and jobs that wait for ever."""

from __future__ import annotations

from collections.abc import Sequence

from horae.ports.world import World


def let_in_forgotten(world: World) -> set[str]:
    """Let in jobs that were held although there was room; return their queues."""
    return world.route().store.let_in_forgotten()


def find_lost_parents(world: World) -> int:
    """Mark jobs that wait for a dead or missing one although nothing says so; return how many there were."""
    return world.route().store.find_lost_parents()


def find_stuck(world: World, queues: Sequence[str], *, limit: int) -> list[tuple[int, int]]:
    """Return jobs that wait for one that will never succeed, each with that one."""
    return world.route().store.read(lambda tx: tx.jobs.waits_for_ever(queues, limit=limit))


def are_sent(world: World) -> bool:
    """Return whether jobs of callers' transactions have not arrived in their shards yet; every database is asked."""
    cluster = world.cluster
    if cluster is None:
        return False
    stores = (cluster.store_of(each.number) for each in cluster.shard_map.members)
    return any(store.read(lambda tx: tx.sent_jobs.are_there()) for store in stores)


def may_move(world: World, queues: Sequence[str]) -> bool:
    """Return whether these queues hold running jobs, or jobs that may run without a person's help."""
    return world.route().store.read(lambda tx: tx.jobs.may_move(queues) or tx.acts.are_worked_on())
