"""A cluster of several databases: SQLite files, or databases of the PostgreSQL server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from horae.actions import cluster as verbs
from horae.ports.world import World
from horae.stores.cluster.addresses import public_address
from horae.stores.cluster.opening import with_cluster
from horae.stores.opening import create_store_engine, open_store
from horae.stores.store import SqlStore
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.killing import Watch, die_watched
from tests.support.prepared import Prepared

Urls = Callable[[int], list[str]]


class Clusters:
    """Opens worlds on databases, and makes clusters of them."""

    def __init__(self, urls: Urls, exits: ExitStack) -> None:
        self._urls = urls
        self._exits = exits
        self.clock = VirtualClock(NOON)
        self.dice = LoadedDice()

    def urls(self, count: int) -> list[str]:
        """Return so many databases without rows; those of PostgreSQL have their tables already."""
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

    def add(self, world: World, url: str, name: str, first: str, *, takes_shards: bool = True) -> verbs.ClusterState:
        address = public_address(url, first)
        return verbs.add(world, self.open_alone(url), name=name, address=address, takes_shards=takes_shards)


def die_in_cluster(
    number: int,
    clusters: Clusters,
    url: str,
    work: Callable[[World], object],
    before: Callable[[World], object] | None = None,
) -> bool:
    """Do *work* in a child that opens the cluster itself and is killed before its statement or commit of this number.

    Return whether it ended. What is done *before* does not count.
    """

    def begin(watch: Watch) -> None:
        with ExitStack() as exits:
            opened = Clusters(lambda _: [], exits)
            opened.clock = clusters.clock
            world = opened.open(url)
            if before is not None:
                before(world)
            watch(Engine)
            work(world)

    return die_watched(number, begin)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clusters]:
    with ExitStack() as exits:
        if request.param == "sqlite":
            yield Clusters(lambda count: [f"sqlite:///{tmp_path / f'{index}.db'}" for index in range(count)], exits)
            return
        prepared: Prepared = request.getfixturevalue("prepared_postgres")
        made: list[str] = []

        def urls(count: int) -> list[str]:
            made.extend(prepared.copy() for _ in range(count))
            return made[-count:]

        with ExitStack() as inner:
            yield Clusters(urls, inner)
        for url in made:
            prepared.server.drop_database(url)
