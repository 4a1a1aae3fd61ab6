"""Show the end of a lease in wall-clock time, although it is stored on the lease line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from horae.core.attention.lanes import Lane
    from horae.core.jobs.job import Job
    from horae.ports.world import World

L = TypeVar("L", "Job", "Lane")


def with_wall_lease(world: World, leased: L) -> L:
    """Convert the end of a job's or lane's lease to wall-clock time."""
    until = world.wall_time(leased.leased_until)
    return leased if until == leased.leased_until else replace(leased, leased_until=until)
