"""Find the rooms of a client or an application, which are made when they are first entered."""

from functools import cached_property
from typing import Any

from horae.api.rooms import Rooms


def rooms_of(home: Rooms[Any]) -> dict[str, Any]:
    """Enter every room, and return them by name."""
    return {name: getattr(home, name) for name, value in vars(Rooms).items() if isinstance(value, cached_property)}
