"""To which virtual shard a new job belongs."""

from __future__ import annotations

from horae.core.cluster.numbers import VSHARDS
from horae.core.cluster.shard_map import ShardMap
from horae.core.jobs.job import SYSTEM, NewJob
from horae.errors import InvalidInput


def vshard_of_job(shard_map: ShardMap, job: NewJob, roll: float) -> int:
    """Return the virtual shard of a new job: of its owner; of the house's by shard key, else by its one key, else
    drawn by *roll*.

    Two kinds of key without a shard key are refused: their rows could not be in one transaction.
    """
    if job.owner != SYSTEM:
        return shard_map.vshard_of(owner=job.owner)
    if job.shard_key is not None:
        return shard_map.vshard_of(shard_key=job.shard_key)
    kinds = keys_of(job)
    if len(kinds) > 1:
        raise InvalidInput("shard_key_needed", handler=job.handler, kinds=list(kinds))
    if kinds:
        [key] = kinds.values()
        return shard_map.vshard_of(key=key)
    return int(roll * VSHARDS)


def keys_of(job: NewJob) -> dict[str, str]:
    """Return the kinds of key that a job has, by the name of their option."""
    given = {"key": job.key, "unique": job.unique, "concurrency_key": job.concurrency_key}
    return {kind: key for kind, key in given.items() if key is not None}


def has_one_place(job: NewJob) -> bool:
    """Return whether a job's virtual shard follows from what it is, not from a roll."""
    return job.owner != SYSTEM or job.shard_key is not None or bool(keys_of(job))
