"""A world for the verbs: SQLite in memory, a clock that stands still, dice that repeat themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from horae.ports import World
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.templates import open_in_memory, put_tables


@pytest.fixture
def sqlite_database_url(tmp_path: Path) -> str:
    """A file that has its tables already: no test here is about making them."""
    return put_tables(tmp_path / "horae.db")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    store = open_in_memory()
    yield World(store, clock, LoadedDice())
    store.close()
