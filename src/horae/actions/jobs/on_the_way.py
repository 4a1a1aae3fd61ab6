"""Jobs of callers' transactions that have not arrived in their shard yet: found where they wait, refused by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from horae.actions.jobs.requests import as_stored
from horae.core.cluster.numbers import FIRST_NUMBER, birthplace, job_id
from horae.core.cluster.sent_jobs import ON_THE_WAY
from horae.core.jobs.job import SYSTEM, Job, job_number
from horae.errors import StoreBusy

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import ShardMap
    from horae.ports.world import World


def find_on_the_way(world: World, number: int) -> Job | None:
    """Return a job that waits in the database of its caller's transaction; None where it waits no more.

    That database gave the number, so it alone is asked. A caller that finds nothing looks at the shard again: it may
    have arrived between the two looks.
    """
    source = _source(world, number)
    sent = None if source is None else source.route().store.read(lambda tx: tx.sent_jobs.find(number))
    return None if sent is None else replace(as_stored(sent.job, number, sent.created_at), held=ON_THE_WAY)


def is_on_the_way(world: World, number: int) -> bool:
    """Return whether a job has not arrived in its shard yet."""
    source = _source(world, number)
    return source is not None and bool(source.route().store.read(lambda tx: tx.sent_jobs.waiting([number])))


def _source(world: World, number: int) -> World | None:
    cluster = world.cluster
    if cluster is None or number < FIRST_NUMBER:
        return None
    place = birthplace(number)
    if not _knows(cluster.shard_map, place) and not _knows(cluster.refresh(), place):  # it may have been added since
        return None
    return cluster.whole(world, place)


def _knows(shard_map: ShardMap, number: int) -> bool:
    return any(each.number == number for each in shard_map.members)


def refuse_on_the_way(world: World, name: str, owner: str | None, queues: Collection[str]) -> None:
    """Refuse an act on a job that has not arrived, where the caller may see it."""
    found = find_on_the_way(world, job_number(name))
    if found is not None and (owner is None or found.owner == owner) and (not queues or found.queue in queues):
        raise StoreBusy("job_on_the_way", id=name)


def refuse_owner_on_the_way(world: World, owner: str) -> None:
    """Refuse what must reach all jobs of an owner while some have not arrived; every database is asked."""
    if world.cluster is None:
        return
    shard_map = world.cluster.shard_map
    vshard = None if owner == SYSTEM else shard_map.vshard_of(owner=owner)
    for member in shard_map.members:
        for each in world.cluster.store_of(member.number).read(lambda tx: tx.sent_jobs.of_vshard(vshard)):
            if each.job.owner == owner:
                raise StoreBusy("job_on_the_way", id=job_id(each.number))
