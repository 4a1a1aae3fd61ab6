"""The rooms in which calls of the bus act."""

from __future__ import annotations

from horae.api.admin import Admin
from horae.api.here import Here, house
from horae.api.jobs.room import Jobs
from horae.api.operation import Sender
from horae.api.senders.local import Local
from horae.core.dataclass import dataclass
from horae.ports.world import World

ACTOR = "bus"


@dataclass(frozen=True)
class Rooms:
    """The operations that workers reach over the bus."""

    world: World
    jobs: Jobs[Sender]
    admin: Admin[Sender]
    looks: Jobs[Sender]  # those in which a worker is listed and looks for what it should stop


def rooms_of(world: World, here: World | None = None) -> Rooms:
    """Return the rooms in which calls of the bus act: those of the house.

    The relay of one database of a cluster looks *here* alone, because a worker asks each relay. Everything else follows
    the map: a job that it has handed out may have moved.
    """
    sender, nearby = _sender(world), _sender(here or world)
    return Rooms(world, Jobs[Sender](sender), Admin[Sender](sender), Jobs[Sender](nearby))


def _sender(world: World) -> Local:
    return Local(lambda: Here(world, house(ACTOR)))
