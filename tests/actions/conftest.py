"""A world for the verbs: SQLite in memory, a clock that stands still, dice that repeat themselves."""

from collections.abc import Iterator

import pytest

from horae.ports.world import World
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url
from tests.support.templates import open_in_memory


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    store = open_in_memory()
    yield World(store, clock, LoadedDice())
    store.close()
