"""Which databases of a cluster a process serves: later ones, too; one that is away: see ``test_losing_a_database``."""

from datetime import timedelta

import pytest

from horae import Horae
from horae.actions import cluster as verbs
from horae.ports.world import World
from horae.runtime.chores.janitor import Chore
from horae.runtime.chores.keeper import Keeper, keeping
from horae.runtime.database import DatabaseThreads
from horae.stores.cluster.addresses import public_address
from tests.cluster.conftest import Clusters
from tests.support.waiting import eventually


def test_a_database_that_is_added_later_is_found_without_a_restart(clusters: Clusters) -> None:
    first, second = clusters.urls(2)
    verbs.init(clusters.open(first), name="first", address=public_address(first, first))
    serving = clusters.open(first)
    assert serving.cluster is not None
    further = serving.cluster.further(serving)
    assert further() == []
    clusters.add(clusters.open(first), second, "second", first)  # by another process
    assert len(further()) == 1
    assert further() == []


@pytest.mark.slow
@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
async def test_a_service_without_a_worker_keeps_every_database(clusters: Clusters) -> None:
    _, urls = clusters.make(3)
    kept, further = set[int](), list[bool]()
    with Horae(urls[0]) as app:
        chore = Chore("look", timedelta(seconds=1), lambda world: kept.add(id(world.store)))

        def make(world: World, database: DatabaseThreads, name: str, *, is_further: bool = False) -> Keeper:
            further.append(is_further)
            return Keeper(world, database, name, [chore], lambda _: None)

        async with keeping(lambda: app.world, make, app.world.dice):
            await eventually(lambda: len(kept) == 3, "a chore in each", within=60)
    assert sorted(further) == [False, True, True]
