"""Databases whose history lies in partitions, and a world on the day on which they were made."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from horae.clock import SystemDice
from horae.core.partitions import DAY
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.testing.clock import VirtualClock
from tests.stores.conftest import KINDS

RUNS, FIRES = "horae_runs", "horae_fires"
PARTITIONED = KINDS[1:]


@pytest.fixture(params=PARTITIONED)
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_database_url")
    return found


@contextmanager
def opened(url: str, *, later: timedelta = timedelta(0)) -> Iterator[World]:
    """Open a world at noon of the day of its migration, or so much later."""
    engine = create_store_engine(url)
    migrate(engine)
    store = open_store(engine)
    first = store.read(lambda tx: tx.partitions.all(RUNS))[0].high
    assert first is not None
    yield World(store, VirtualClock(first - DAY / 2 + later), SystemDice())
    store.close()


def store_of(world: World) -> SqlStore:
    assert isinstance(world.store, SqlStore)
    return world.store
