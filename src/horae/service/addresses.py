"""Keys of schedules in paths: one that was declared in code may have a path with two meanings, which is refused."""

from __future__ import annotations

from horae.errors import Conflict, InvalidName, NotFound
from horae.service.rooms import CallerRooms


async def refuse_ambiguous(rooms: CallerRooms, what: str, path: str, owner: str | None) -> None:
    """Refuse a path that is also the whole key of a schedule made in code."""
    try:
        await rooms.schedules.get(path, owner=owner)
    except (NotFound, InvalidName):
        return
    raise Conflict("schedule_path_ambiguous", meaning=what, key=path)
