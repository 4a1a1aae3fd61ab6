"""All repairs of what Horae keeps, as the janitor does them: only where a look at the store says that there are any."""

from typing import Any

from horae.actions.jobs.claims import peek
from horae.actions.schedules.repairs import repair_schedules
from horae.ports.world import World
from horae.runtime.chores.janitor import CHORES
from horae.runtime.chores.repairs import end_left, repair_lanes

REPAIRS: tuple[Any, ...] = (repair_schedules, repair_lanes, end_left)


def repair(world: World) -> int:
    """How much was done."""
    look = peek(world, [])
    done: list[Any] = [
        each.work(world) for each in CHORES if each.work in REPAIRS and (each.when is None or each.when(look))
    ]
    return sum(done)
