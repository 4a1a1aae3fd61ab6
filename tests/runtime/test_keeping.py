"""The lease of a lane: renewed while it is wanted, and lost honestly."""

from datetime import datetime, timedelta

import pytest

from horae import Horae
from horae.actions.attention import lanes
from horae.actions.attention.lanes import Drive
from horae.core.attention.task import Policy
from horae.ports.world import World
from horae.runtime.lanes.lease import Keeper

SHORT = timedelta(milliseconds=30)
SOON = 20.0


@pytest.fixture
def world(app: Horae) -> World:
    return app.world


def driving(world: World) -> Drive:
    drive = lanes.acquire(world, "main", "me", lease=timedelta(hours=1), policy=Policy())
    assert drive is not None
    return drive


def leased_until(world: World) -> datetime | None:
    return lanes.get_lane(world, "main").leased_until


def ended(keeper: Keeper) -> Keeper:
    keeper.start()
    keeper.join(SOON)
    assert not keeper.is_alive()
    return keeper


def test_a_lease_is_renewed_until_it_need_not_go_on(world: World) -> None:
    drive, answers = driving(world), iter([True, False])
    before = leased_until(world)
    keeper = ended(Keeper(world, drive, SHORT, lambda: next(answers)))
    assert (keeper.lost, leased_until(world) == before) == (False, False)


def test_a_lease_that_need_not_go_on_is_left_as_it_is(world: World) -> None:
    drive = driving(world)
    before = leased_until(world)
    keeper = ended(Keeper(world, drive, SHORT, lambda: False))
    assert (keeper.lost, leased_until(world)) == (False, before)


def test_a_lane_that_somebody_else_may_drive_is_lost(world: World) -> None:
    drive = driving(world)
    lanes.let_go(world, drive)
    assert ended(Keeper(world, drive, SHORT)).lost


def test_a_keeper_that_is_stopped_renews_nothing_more(world: World) -> None:
    drive = driving(world)
    before = leased_until(world)
    keeper = Keeper(world, drive, SHORT)
    keeper.stop()
    assert (ended(keeper).lost, leased_until(world)) == (False, before)
