"""The chores of a cluster's databases: each applies the settings of the house that it lacks, and brings bulk acts to
those that lack them.
"""

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


def parts_of_acts(everywhere: World) -> Chore:
    """Return the chore that brings bulk acts of the house to databases that they did not reach."""

    def work(world: World) -> int:
        from horae.actions.jobs.act_parts import complete_parts  # few installations are clusters

        return complete_parts(everywhere, world)

    return Chore("bring bulk acts to all databases", EVERY, work, goes_on=False)
