"""What a worker holds and does not find any more, because its virtual shard has moved to another database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from horae.actions.jobs import claims, endings
from horae.actions.moves import is_on_the_way
from horae.core.cluster.numbers import job_id, vshard_in
from horae.core.jobs.job import Change, Job, Lease, Outcome
from horae.errors import StoreBusy
from horae.ports.claims import Renewed
from horae.ports.world import World


def settle_moved(world: World, lost: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
    """End held jobs where they are now; one that is on the way is missing from the answer: try it again."""
    before = _version(world)
    there = [each for each in lost if not _is_on_the_way(world, each[0].number)]
    changes = endings.settle(world, there) if there else {}
    left = {job.id for job, _ in there if changes.get(job.id) is None and _has_left(world, job.number, before)}
    return {job: change for job, change in changes.items() if job not in left}


def renew_moved(world: World, renewed: Renewed, lost: Sequence[Lease], *, lease: timedelta) -> Renewed:
    """Extend leases where their jobs are now; one that is on the way is held, but not extended."""
    away = frozenset(each.job_number for each in lost if _is_on_the_way(world, each.job_number))
    there = [each for each in lost if each.job_number not in away]
    before = _version(world)
    more = claims.renew(world, there, lease=lease) if there else Renewed(frozenset(), frozenset())
    away |= {
        each.job_number
        for each in there
        if each.job_number not in more.held | more.busy and _has_left(world, each.job_number, before)
    }
    return Renewed(renewed.held | more.held, renewed.cancelled | more.cancelled, renewed.busy | more.busy | away)


def refuse_on_the_way(world: World, number: int) -> None:
    """Refuse what is asked for a job whose rows are in no database just now; repeat it in a moment."""
    if _is_on_the_way(world, number):
        raise StoreBusy("vshard_busy", vshard=_vshard_of(world, number))


def _is_on_the_way(world: World, number: int) -> bool:
    """Return whether a job is in no database just now. The map is read again, so that the next verb follows it."""
    vshard = _vshard_of(world, number)
    return vshard is not None and is_on_the_way(world, vshard)


def _version(world: World) -> int:
    """Return the version of the map as it is now; whoever finds another one later asks again."""
    return 0 if world.cluster is None else world.cluster.refresh().version


def _has_left(world: World, number: int, before: int) -> bool:
    """Return whether a job that was not found may have left between two looks at the map: its shard moved again."""
    return _version(world) != before or _is_on_the_way(world, number)


def _vshard_of(world: World, number: int) -> int | None:
    known = vshard_in(number)
    return known if known is not None or world.cluster is None else world.cluster.forward(job_id(number))
