"""All repairs of what Horae keeps, one after the other, as the janitor does them."""

from horae.actions.schedules.repairs import repair_schedules
from horae.ports.world import World
from horae.runtime.chores.repairs import end_left, repair_lanes


def repair(world: World) -> int:
    """How much was done."""
    return repair_schedules(world) + repair_lanes(world) + end_left(world)
