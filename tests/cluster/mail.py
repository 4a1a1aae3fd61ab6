"""Deliver the messages of a cluster in a test, and find names that live in a database."""

from datetime import timedelta
from typing import Any

from horae.actions import messages
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.cluster.shard_map import ShardMap
from horae.core.jobs.job import Ending, Job, Outcome
from horae.core.jobs.retry import Retry
from horae.ports.world import World

LEASE = timedelta(seconds=30)
ROUNDS = 50


def map_of(world: World) -> ShardMap:
    assert world.cluster is not None
    return world.cluster.refresh()


def keys_in(world: World, database: int, count: int = 1, prefix: str = "key") -> list[str]:
    """Return keys of the house that a database keeps."""
    shard_map = map_of(world)
    names = (f"{prefix}-{index}" for index in range(10_000))
    found = (name for name in names if shard_map.database_of(shard_map.vshard_of(key=name)) == database)
    return [next(found) for _ in range(count)]


def put(world: World, database: int, *after: Enqueued | Job, prefix: str = "key", **fields: Any) -> Enqueued:
    """Enqueue a job that a database keeps, after others."""
    [key] = keys_in(world, database, prefix=prefix)
    fields.setdefault("retry", Retry.none())
    return jobs.enqueue(world, Request("mail", {}, key=key, after=tuple(each.id for each in after), **fields))


def deliver(world: World, *, without: int | None = None) -> int:
    """Deliver until nothing is due, except of and to one database; return how many messages were taken."""
    assert world.cluster is not None
    total = 0
    for _ in range(ROUNDS):
        taken = 0
        for member in map_of(world).members:
            if member.number == without:
                continue
            shard = world.cluster.whole(world, member.number)
            messages.settle_asks(shard)
            for number, vshards in messages.find_due(shard, world.cluster).now.items():
                if number != without:
                    taken += messages.deliver(shard, world, number, vshards)
        if not taken:
            return total
        total += taken
    raise AssertionError("messages go on for ever")


def take(world: World) -> list[tuple[World, Job]]:
    """Claim everything that is due, in every database."""
    found = []
    for shard in world.databases():
        found += [(shard, job) for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)]
    return found


def ids(taken: list[tuple[World, Job]]) -> list[str]:
    return [job.id for _, job in taken]


def run(world: World, *wanted: Enqueued, ending: Ending = "succeeded", **fields: Any) -> None:
    """Claim these jobs, and nothing else may be due, and end them."""
    taken = take(world)
    assert sorted(ids(taken)) == sorted(each.id for each in wanted)
    for shard, job in taken:
        assert endings.settle(shard, [(job, Outcome(ending, **fields))])[job.id] is not None


def state(world: World, job: Enqueued) -> tuple[str, str]:
    found = jobs.get(world, job.id)
    return found.state, found.held


def waiting(world: World) -> int:
    """Return how many messages wait, in all databases."""
    return sum(each.count for shard in world.databases() for each in shard.store.read(lambda tx: tx.messages.waiting()))
