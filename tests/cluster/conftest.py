"""A cluster of several databases: SQLite files, or databases of the PostgreSQL server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from horae.actions import cluster as verbs
from horae.ports.world import World
from horae.stores.cluster.addresses import public_address
from horae.stores.cluster.opening import with_cluster
from horae.stores.opening import create_store_engine, open_store
from horae.stores.store import SqlStore
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.servers import PostgresServer

Urls = Callable[[int], list[str]]


class Clusters:
    """Opens worlds on databases, and makes clusters of them."""

    def __init__(self, urls: Urls, exits: ExitStack) -> None:
        self._urls = urls
        self._exits = exits
        self.clock = VirtualClock(NOON)
        self.dice = LoadedDice()

    def urls(self, count: int) -> list[str]:
        return self._urls(count)

    def open(self, url: str) -> World:
        """Open a database as a process would: with its cluster, if it is in one."""
        store = self._store(url)
        world = World(store, self.clock, self.dice, tzdata="2030a")
        opened = with_cluster(world, store, make_clock=lambda _: self.clock)
        self._exits.callback(opened.store.close)
        return opened

    def open_alone(self, url: str) -> World:
        """Open one database as it is, whatever cluster it may be in."""
        store = self._store(url)
        self._exits.callback(store.close)
        return World(store, self.clock, self.dice, tzdata="2030a")

    def _store(self, url: str) -> SqlStore:
        engine = create_store_engine(url)
        if engine.dialect.name != "sqlite":
            from horae.stores.schema import migrate

            migrate(engine)
        return open_store(engine)

    def make(self, count: int) -> tuple[World, list[str]]:
        """Make a cluster of so many empty databases; they share everything evenly."""
        first, *others = urls = self.urls(count)
        verbs.init(self.open(first), name="first", address=public_address(first, first))
        world = self.open(first)
        for index, url in enumerate(others, 2):
            self.add(world, url, f"db-{index}", first)
        return self.open(first), urls

    def add(self, world: World, url: str, name: str, first: str) -> verbs.ClusterState:
        return verbs.add(world, self.open_alone(url), name=name, address=public_address(url, first))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clusters]:
    with ExitStack() as exits:
        if request.param == "sqlite":
            yield Clusters(lambda count: [f"sqlite:///{tmp_path / f'{index}.db'}" for index in range(count)], exits)
            return
        server: PostgresServer = request.getfixturevalue("postgres_server")
        made: list[str] = []

        def urls(count: int) -> list[str]:
            made.extend(server.create_database() for _ in range(count))
            return made[-count:]

        with ExitStack() as inner:
            yield Clusters(urls, inner)
        for url in made:
            server.release_database(url)
