"""Keys in paths: a schedule's key may hold slashes, as long as nobody can take it for something else.

Over HTTP no key is given that could be. In code it can, so that a path with two meanings is refused instead of guessed.
"""

from __future__ import annotations

from horae.errors import Conflict, InvalidName, NotFound
from horae.service.rooms import CallerRooms

GROUPS = "groups"
VERBS = ("pause", "resume", "trigger", "backfill", "preview", "history", "versions")


def addressable(key: str) -> str:
    """The key of a new schedule, unless its path would mean something else, or would not arrive as it was sent."""
    first, *others = key.split("/")
    if not others:
        return key
    rather = "-".join(part for part in (first, *others) if part.strip(".")) or "another"
    if first == GROUPS:
        raise ValueError(f"would be taken for a group, because it begins with groups/; choose another, say {rather!r}")
    if others[-1] in VERBS:
        raise ValueError(f"would be taken for a verb, because it ends in /{others[-1]}; choose another, say {rather!r}")
    if any(part in ("", ".", "..") for part in (first, *others)):
        raise ValueError(f"has a part that clients and proxies take out of a path; choose another, say {rather!r}")
    return key


async def only_meaning(rooms: CallerRooms, what: str, path: str, owner: str | None) -> None:
    """Refuse what a path asks for where it is the whole key of a schedule made in code, too."""
    try:
        await rooms.schedules.get(path, owner=owner)
    except (NotFound, InvalidName):
        return
    raise Conflict("schedule_path_ambiguous", meaning=what, key=path)
