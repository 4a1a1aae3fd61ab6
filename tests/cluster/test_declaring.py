"""Declared schedules are brought in line in the databases that answer, and in the others when they are back."""

from __future__ import annotations

from collections.abc import Collection

from horae.actions.schedules import schedules
from horae.actions.schedules.declared import Plan, bring_in_line
from horae.actions.schedules.toggles import switch
from horae.core.schedules.schedule import Schedule
from horae.errors import StoreUnavailable
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters
from tests.cluster.mail import keys_in
from tests.cluster.test_settings import Absence, only_files
from tests.support.refusals import refused


def plan_of(*declared: Schedule) -> Plan:
    return Plan("shop", schedules=declared)


def stored(world: World, numbers: Collection[int]) -> set[str]:
    assert world.cluster is not None
    worlds = [world.cluster.whole(world, number) for number in numbers]
    return {each.key for shard in worlds for each in schedules.iterate(shard, ScheduleFilter())}


@only_files
def test_a_database_that_is_away_keeps_no_schedule_of_the_others_from_being_written(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    [one], [two], [three] = (keys_in(world, number) for number in (1, 2, 3))
    far = f"{one}-follower"
    plan = plan_of(
        *(a_schedule(key, "60", kind="every") for key in (one, two, three)),
        a_schedule(far, "", kind="after", after=(two,)),
    )
    absence = Absence(urls, 2)
    absence.begin(world, 2)
    world, started = clusters.open(urls[0]), set[int]()
    with refused(StoreUnavailable, "schedules_partly_in_line"):
        bring_in_line(world, plan, starts=True, started=started)
    assert stored(world, (1, 3)) == {one, three}  # what follows one that is away waits with it
    assert started == {1, 3}
    switch(world, one, False, ephemeral=True)
    absence.end()
    world = clusters.open(urls[0])
    bring_in_line(world, plan, starts=True, started=started)
    assert stored(world, (1, 2, 3)) == {one, two, three, far}
    assert schedules.get(world, one).toggled is False  # switched since the start, so it lasts


def test_a_start_ends_toggles_in_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    keys = [key for number in (1, 2, 3) for key in keys_in(world, number)]
    plan = plan_of(*(a_schedule(key, "60", kind="every") for key in keys))
    bring_in_line(world, plan)
    for key in keys:
        switch(world, key, False, ephemeral=True)
    bring_in_line(world, plan, starts=True)
    assert {schedules.get(world, key).toggled for key in keys} == {None}
