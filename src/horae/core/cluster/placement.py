"""To which virtual shard a new job belongs."""

from __future__ import annotations

from horae.core.cluster.numbers import VSHARDS, birthplace, number_of_id, vshard_in, vshard_of_id
from horae.core.cluster.shard_map import HOME, ShardMap
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM, NewJob
from horae.errors import InvalidInput


def vshard_of_job(shard_map: ShardMap, job: NewJob, roll: float) -> int:
    """Return the virtual shard of a new job: of its owner; of the house's by shard key, else by its one key, else of
    the first job that it waits for, else drawn by *roll*.

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
    if job.after:
        return vshard_in(job.after[0]) or HOME
    return int(roll * VSHARDS)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is: in a virtual shard, or in a database of which only the number is known."""

    vshard: int | None = None
    database: int | None = None


def find_place(
    shard_map: ShardMap,
    *,
    owner: str | None = None,
    key: str | None = None,
    shard_key: str | None = None,
    id: str | None = None,  # noqa: A002
) -> Place:
    """Return where something is, by what a verb knows of it: its id first; with nothing known, at home.

    An id that names no virtual shard is asked where its tenant is, else of the database that drew its number.
    """
    number = None if id is None else number_of_id(id)
    is_house = owner is None or owner == SYSTEM
    if id is not None and number is not None:
        vshard = vshard_of_id(id)
        if vshard is not None:
            return Place(vshard)
        if is_house:
            return Place(database=birthplace(number))
    return Place(shard_map.vshard_of(owner=None if is_house else owner, key=key, shard_key=shard_key))


def keys_of(job: NewJob) -> dict[str, str]:
    """Return the kinds of key that a job has, by the name of their option."""
    given = {"key": job.key, "unique": job.unique, "concurrency_key": job.concurrency_key}
    return {kind: key for kind, key in given.items() if key is not None}


def has_one_place(job: NewJob) -> bool:
    """Return whether a job's virtual shard follows from what it is, not from a roll."""
    return job.owner != SYSTEM or job.shard_key is not None or bool(job.after) or bool(keys_of(job))
