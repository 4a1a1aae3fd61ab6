"""A destination that does not answer holds up no other, and a keeper delivers for its own database."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from horae.actions.jobs import endings
from horae.clock import SystemClock
from horae.core.jobs.job import Outcome
from horae.ports.world import World
from horae.runtime.chores.keeper import Beside
from horae.runtime.chores.messenger import Messenger, messengers
from tests.cluster.conftest import Clusters
from tests.cluster.mail import put, run, state, take, waiting
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
PROMPT = 10.0  # seconds, on a slow machine; a locked database is waited for longer


@pytest.fixture
def real_time(clusters: Clusters) -> Clusters:
    clusters.clock = SystemClock()  # type: ignore[assignment]
    return clusters


@asynccontextmanager
async def delivering(*parts: Beside) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in parts]
    try:
        yield
    finally:
        for each in parts:
            each.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)


def held(world: World, job: object) -> str:
    return state(world, job)[1]  # type: ignore[arg-type]


async def test_a_database_that_is_locked_holds_up_no_other(real_time: Clusters, tmp_path: Path) -> None:
    world, _ = real_time.make(3)
    parent = put(world, 1)
    slow, quick = put(world, 2, parent), put(world, 3, parent)
    async with delivering(*(Messenger(each, world) for each in world.databases())):
        await eventually(lambda: waiting(world) == 0, "both asks")
        [(first, job)] = take(world)
        with closing(sqlite3.connect(tmp_path / "1.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert endings.settle(first, [(job, Outcome("succeeded"))])[parent.id] is not None
            await eventually(lambda: held(world, quick) == "", "the child in the database that answers", within=PROMPT)
            assert held(world, slow) == "needs"
            other.execute("ROLLBACK")
        await eventually(lambda: held(world, slow) == "", "the other child, once its database answers")
        await eventually(lambda: waiting(world) == 0, "every message is deleted")


async def test_a_keeper_of_one_database_delivers_only_its_messages(real_time: Clusters) -> None:
    world, _ = real_time.make(2)
    parent = put(world, 1)
    child = put(world, 2, parent)
    run(world, parent)
    [make] = messengers(world)
    first, second = (make(each, "keeper") for each in world.databases())
    assert isinstance(first, Messenger)
    async with delivering(second):
        await eventually(lambda: waiting(world.databases()[0]) == 1, "the ask, which is answered")
    assert held(world, child) == "needs"
    async with delivering(first):
        await eventually(lambda: held(world, child) == "", "the answer")


async def test_a_single_database_has_no_messenger(real_time: Clusters) -> None:
    [url] = real_time.urls(1)
    assert messengers(real_time.open(url)) == ()
