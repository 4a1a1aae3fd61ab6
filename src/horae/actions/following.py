"""What a worker holds and does not find any more, because its virtual shard has moved to another database.

Whoever misses something takes a look: the map as it is now, and which of the shards are on the way. What is on the way
is to be tried again; the rest is asked for where it is. What is not found there either has left once more if the map
has changed since the look, or the shard is on the way by now; otherwise it is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from horae.actions.jobs import claims, endings
from horae.core.cluster.numbers import job_id, vshard_in
from horae.core.jobs.job import Change, Job, Lease, Outcome
from horae.errors import LeaseLost, StoreBusy
from horae.ports.claims import Renewed
from horae.ports.world import World

if TYPE_CHECKING:
    from horae.ports.store import Tx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """The map at one moment: its version, and which of some jobs were in no database."""

    version: int
    away: frozenset[int]


def look(world: World, numbers: Iterable[int]) -> Look:
    """Read the map once, and once from each database that is to keep one of these jobs, so that verbs follow it.

    A new map is in the first database before it is in the one that a shard goes to: until that one knows that it keeps
    the shard, and has opened it, its rows have not come.
    """
    cluster = world.cluster
    assert cluster is not None
    shard_map = cluster.refresh()
    vshards = {number: _vshard_of(world, number) for number in numbers}
    wanted: dict[int, set[int]] = {}
    for vshard in vshards.values():
        if vshard is not None:
            wanted.setdefault(shard_map.database_of(vshard), set()).add(vshard)
    there = {
        vshard for place, few in wanted.items() for vshard in cluster.store_of(place).read(partial(_kept, vshards=few))
    }
    away = (number for number, vshard in vshards.items() if vshard is not None and vshard not in there)
    return Look(shard_map.version, frozenset(away))


def _kept(tx: Tx, vshards: Iterable[int]) -> set[int]:
    return tx.cluster.kept(sorted(vshards))


def _vshard_of(world: World, number: int) -> int | None:
    known = vshard_in(number)
    return known if known is not None or world.cluster is None else world.cluster.forward(job_id(number))


def left_since(world: World, before: Look, missed: Sequence[int]) -> frozenset[int]:
    """Return which jobs that were not found may have left since a look: their shard has moved again."""
    if not missed:
        return frozenset()
    now = look(world, missed)
    return frozenset(missed) if now.version != before.version else now.away


# -- what a worker asks for --------------------------------------------------------------------------------------------


def settle_moved(world: World, lost: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
    """End held jobs where they are now; one that is on the way is missing from the answer: try it again."""
    before = look(world, [job.number for job, _ in lost])
    there = [each for each in lost if each[0].number not in before.away]
    changes = endings.settle(world, there) if there else {}
    left = left_since(world, before, [job.number for job, _ in there if changes.get(job.id) is None])
    again = {job.id for job, _ in there if job.number in left}
    return {job: change for job, change in changes.items() if job not in again}


def renew_moved(world: World, renewed: Renewed, lost: Sequence[Lease], *, lease: timedelta) -> Renewed:
    """Extend leases where their jobs are now; one that is on the way is held, but not extended."""
    before = look(world, [each.job_number for each in lost])
    there = [each for each in lost if each.job_number not in before.away]
    more = claims.renew(world, there, lease=lease) if there else Renewed(frozenset(), frozenset())
    missed = [each.job_number for each in there if each.job_number not in more.held | more.busy]
    away = before.away | left_since(world, before, missed)
    return Renewed(renewed.held | more.held, renewed.cancelled | more.cancelled, renewed.busy | more.busy | away)


def act_on_moved(world: World, number: int, act: Callable[[World], T]) -> T:
    """Do something for a held job where it is now; refuse it while the job is on the way: repeat it in a moment."""
    before = look(world, [number])
    if number in before.away:
        raise _busy(world, number)
    try:
        return act(world)
    except LeaseLost:
        if number in left_since(world, before, [number]):
            raise _busy(world, number) from None
        raise


def _busy(world: World, number: int) -> StoreBusy:
    return StoreBusy("vshard_busy", vshard=_vshard_of(world, number))
