"""Calendars in a cluster: schedules of any database may use one."""

from __future__ import annotations

from horae.actions.schedules.calendars import MOST_NAMED, get_calendar
from horae.actions.shards import ask_each
from horae.errors import Conflict, NotFound
from horae.ports.world import World


def refuse_used(world: World, name: str) -> None:
    """Refuse to delete a calendar that a schedule of any database uses, as far as they answer.

    Where one is away, the calendar stays there until its schedules use it no more.
    """

    def ask(shard: World, _: int) -> list[str]:
        try:
            return [each.key for each in get_calendar(shard, name)[1]]
        except NotFound:
            return []

    found, _ = ask_each(world, ask)
    users = [key for keys in found.values() for key in keys]
    if users:
        raise Conflict("calendar_in_use", name=name, schedules=users[:MOST_NAMED])
