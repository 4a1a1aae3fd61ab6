"""A world for the verbs: SQLite in memory, a clock that stands still, dice that repeat themselves."""

from collections.abc import Iterator

import pytest

from horae.ports import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import LoadedDice, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    store = open_store(create_store_engine("sqlite://"))
    yield World(store, clock, LoadedDice())
    store.close()
