"""Read what the attempts at a job have logged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from horae.actions.consistency import one_moment
from horae.actions.jobs import jobs
from horae.actions.jobs.masking import declared_names
from horae.core.jobs.lines import AttemptLines, mask_lines
from horae.core.jobs.masking import secrets_of
from horae.ports.world import World


@one_moment
def read_lines(
    world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()
) -> list[AttemptLines]:
    """Return the lines of every attempt that has ended and logged any, the oldest first, as readers may see them.

    Attempts that ended before a move of the shard stay where they ended, with their lines.
    """
    job = jobs.get(world, job_id, owner=owner, queues=queues)
    names = world.route(owner=owner, id=job_id).store.read(lambda tx: declared_names(tx, job.handler))
    places = [world] if world.cluster is None else world.databases()
    found = [each for place in places for each in place.route().store.read(lambda tx: tx.lines.of_job(job.number))]
    secrets = secrets_of(job.payload, names)
    return [replace(each, lines=mask_lines(each.lines, secrets)) for each in sorted(found, key=lambda it: it.token)]
