"""Keys of schedules in paths: a key may hold slashes, as long as its path has one meaning.

HTTP refuses a key whose path has two meanings. Code can create one; then such a path is refused, not guessed.
"""

from __future__ import annotations

from horae.errors import Conflict, InvalidName, NotFound
from horae.service.rooms import CallerRooms

GROUPS = "groups"
VERBS = ("pause", "resume", "trigger", "backfill", "preview", "history", "versions")


def check_key(key: str) -> str:
    """Return the key of a new schedule; refuse one whose path means something else, or does not arrive as sent."""
    first, *others = key.split("/")
    if not others:
        return key
    suggestion = "-".join(part for part in (first, *others) if part.strip(".")) or "another"
    if first == GROUPS:
        raise ValueError(
            f"would be taken for a group, because it begins with groups/; choose another, say {suggestion!r}"
        )
    if others[-1] in VERBS:
        raise ValueError(
            f"would be taken for a verb, because it ends in /{others[-1]}; choose another, say {suggestion!r}"
        )
    if any(part in ("", ".", "..") for part in (first, *others)):
        raise ValueError(f"has a part that clients and proxies take out of a path; choose another, say {suggestion!r}")
    return key


async def refuse_ambiguous(rooms: CallerRooms, what: str, path: str, owner: str | None) -> None:
    """Refuse a path that is also the whole key of a schedule made in code."""
    try:
        await rooms.schedules.get(path, owner=owner)
    except (NotFound, InvalidName):
        return
    raise Conflict("schedule_path_ambiguous", meaning=what, key=path)
