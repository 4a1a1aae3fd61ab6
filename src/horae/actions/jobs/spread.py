"""New jobs in a cluster: each goes to its virtual shard; those of one shard are stored together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.actions.jobs.requests import Enqueued
from horae.core.cluster.placement import has_one_place, vshard_of_job
from horae.core.jobs.batches import AlikeJobs
from horae.core.jobs.job import NewJob
from horae.errors import PartlyStored

if TYPE_CHECKING:
    from horae.ports.world import World


def store_spread(world: World, new: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Store checked jobs, those of each virtual shard in one transaction; of the house's, those without a key together.

    All are placed before anything is stored, so that one that has no place refuses all. A shard that refuses its jobs
    or does not answer keeps no other from storing theirs: ``PartlyStored`` answers for each job by itself.
    """
    from horae.actions.jobs.jobs import answer_placed

    answers: dict[int, Enqueued] = {}
    problems: dict[int, Exception] = {}
    for routed, places in _places(world, new):
        jobs = new if len(places) == len(new) else [new[place] for place in places]
        try:
            placed = routed.route().store.insert(jobs, now=now)
            stored = answer_placed(routed, jobs, placed, now)
        except Exception as problem:
            problems |= dict.fromkeys(places, problem)
        else:
            answers |= dict(zip(places, stored, strict=True))
    if problems:
        first = problems[min(problems)]
        if not answers:
            raise first
        raise PartlyStored([answers[at].id if at in answers else problems[at] for at in range(len(new))]) from first
    return [answers[place] for place in range(len(new))]


def store_joined(world: World, new: Sequence[NewJob], now: datetime, connection: Any) -> list[Enqueued]:
    """Store checked jobs in the caller's transaction; one whose shard another database keeps is sent from there.

    Those of the house that no key leads anywhere go together to a shard of that database, where it keeps any.
    """
    from horae.actions.jobs.jobs import answer_placed

    assert world.cluster is not None
    joined, shard_map = world.cluster.join(connection), world.cluster.shard_map
    drawn: int | None = None
    places: dict[int, list[int]] = {}
    for place, job in enumerate(new):
        if has_one_place(job):
            vshard = vshard_of_job(shard_map, job, 0.0)
        else:
            vshard = drawn = joined.draw_vshard(world.dice.roll()) if drawn is None else drawn
        places.setdefault(vshard, []).append(place)
    answers: dict[int, Enqueued] = {}
    for vshard, chosen in places.items():
        jobs = [new[place] for place in chosen]
        placed = joined.insert(vshard, jobs, now=now)
        answers |= dict(zip(chosen, answer_placed(world, jobs, placed, now, connection), strict=True))
    return [answers[place] for place in range(len(new))]


def _places(world: World, new: Sequence[NewJob]) -> list[tuple[World, list[int]]]:
    """Return each shard's world with the positions of its jobs."""
    if type(new) is AlikeJobs:  # they have the same owner and keys
        return [(world.route_job(new.shared), list(range(len(new))))]
    drawn: World | None = None
    found: dict[int, tuple[World, list[int]]] = {}
    for place, job in enumerate(new):
        if has_one_place(job):
            routed = world.route_job(job)
        else:
            routed = drawn = drawn or world.route_job(job)
        found.setdefault(id(routed), (routed, []))[1].append(place)
    return list(found.values())
