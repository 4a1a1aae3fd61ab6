"""The chore of a cluster's databases: each applies the settings of the house that it lacks."""

from __future__ import annotations

from datetime import timedelta

from horae.ports.world import World
from horae.runtime.chores.janitor import Chore

EVERY = timedelta(seconds=30)  # so long, at most, a database that is back goes on with the settings that it had


def shared_settings(everywhere: World) -> Chore:
    """Return the chore for processes of a cluster; *everywhere* reaches all of its databases."""

    def work(world: World) -> int:
        from horae.actions.settings.catching_up import catch_up_here  # few installations are clusters

        return catch_up_here(everywhere, world)

    return Chore("bring settings up to date", EVERY, work, goes_on=False)
