"""The chore of a cluster's databases: each applies the settings of the house that it lacks."""

from __future__ import annotations

from datetime import timedelta

from horae.ports.world import World
from horae.runtime.chores.janitor import Chore

EVERY = timedelta(seconds=30)  # so long, at most, a database that is back goes on with the settings that it had


def shared_settings(everywhere: World) -> Chore:
    """Return the chore for processes of a cluster; *everywhere* reaches all of its databases."""

    def work(world: World) -> int:
        from horae.actions.settings.catching_up import catch_up, catch_up_all  # few installations are clusters

        if world.cluster is not None:  # a process without a worker looks after the home, and has them all
            return catch_up_all(everywhere)
        standing = world.route().store.read(lambda tx: tx.cluster.standing())
        return 0 if standing is None else catch_up(everywhere, standing.number)

    return Chore("bring settings up to date", EVERY, work, goes_on=False)
