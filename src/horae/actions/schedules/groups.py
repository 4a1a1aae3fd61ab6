"""The verbs of a group of schedules: pause, resume."""

from __future__ import annotations

from datetime import datetime

from horae.actions.pauses import check_until
from horae.actions.schedules.schedules import iterate, pause, resume
from horae.core.jobs.job import SYSTEM
from horae.core.schedules.schedule import Schedule
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World


def pause_group(
    world: World,
    group: str,
    *,
    until: datetime | None = None,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
) -> list[Schedule]:
    """Pause every schedule of a group that is not paused."""
    check_until(until, world.clock.now())
    members = [each for each in iterate(world, ScheduleFilter(owner=owner, group=group)) if not each.paused_at]
    return [pause(world, each.key, until=until, owner=owner, actor=actor, reason=reason) for each in members]


def resume_group(
    world: World, group: str, *, owner: str = SYSTEM, actor: str = SYSTEM, reason: str = ""
) -> list[Schedule]:
    members = iterate(world, ScheduleFilter(owner=owner, group=group))
    return [resume(world, each.key, owner=owner, actor=actor, reason=reason) for each in members if each.paused_at]
