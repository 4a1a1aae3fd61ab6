"""A cluster of several databases: SQLite files, or databases of the PostgreSQL server."""

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from horae.actions import cluster as verbs
from horae.actions.schedules import fires
from horae.ports.world import World
from horae.stores.cluster.addresses import public_address
from horae.stores.cluster.opening import with_cluster
from horae.stores.opening import create_store_engine, open_store
from horae.stores.store import SqlStore
from horae.stores.tables.cluster import members
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.killing import Watch, die_watched
from tests.support.prepared import Prepared
from tests.support.servers import PostgresServer

Urls = Callable[[int], list[str]]


class Clusters:
    """Opens worlds on databases, and makes clusters of them."""

    def __init__(self, urls: Urls, exits: ExitStack, copy_made: "CopyMade | None" = None) -> None:
        self._urls = urls
        self._exits = exits
        self._copy_made = copy_made
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
        return open_store(create_store_engine(url))  # databases of PostgreSQL have their tables already

    def make(self, count: int, *, guest: bool = False) -> tuple[World, list[str]]:
        """Return a cluster of so many empty databases, which share everything evenly: where one was made, a copy of it.

        With *guest* one more is there for callers' transactions alone. Making a cluster takes a PostgreSQL server three
        seconds, copying it a third of one.
        """
        if self._copy_made is None:
            return self._make(count, guest)
        urls, self.dice = self._copy_made(count, guest)
        return self.open(urls[0]), urls

    def _make(self, count: int, guest: bool) -> tuple[World, list[str]]:
        first, *others = urls = self.urls(count + guest)
        verbs.init(self.open(first), name="first", address=public_address(first, first))
        world = self.open(first)
        for index, url in enumerate(others[: count - 1], 2):
            self.add(world, url, f"db-{index}", first)
        for url in others[count - 1 :]:
            self.add(world, url, "shop", first, takes_shards=False)
        return self.open(first), urls

    def add(self, world: World, url: str, name: str, first: str, *, takes_shards: bool = True) -> verbs.ClusterState:
        address = public_address(url, first)
        return verbs.add(world, self.open_alone(url), name=name, address=address, takes_shards=takes_shards)


def fire_all(world: World) -> None:
    """Fire what is due in every database."""
    for shard in world.shards():
        while fires.fire_due(shard):
            continue


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


CopyMade = Callable[[int, bool], tuple[list[str], LoadedDice]]


class Templates:
    """Clusters that were made once and that no test has used, by how many databases they have."""

    def __init__(self, urls: Urls) -> None:
        self._urls = urls
        self._made: dict[tuple[int, bool], tuple[list[str], LoadedDice]] = {}

    def find(self, count: int, guest: bool) -> tuple[list[str], LoadedDice]:
        """Return databases to which nothing is connected, and the dice as they were when the cluster was made."""
        if (count, guest) not in self._made:
            with ExitStack() as exits:
                clusters = Clusters(self._urls, exits)
                _, urls = clusters._make(count, guest)
            self._made[count, guest] = urls, clusters.dice
        urls, dice = self._made[count, guest]
        return urls, copy.deepcopy(dice)


@pytest.fixture(scope="session")
def sqlite_templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    def urls(count: int) -> list[str]:
        folder = tmp_path_factory.mktemp("cluster")
        return [f"sqlite:///{folder / f'{index}.db'}" for index in range(count)]

    return Templates(urls)


@pytest.fixture(scope="session")
def postgres_templates(prepared_postgres: Prepared) -> Templates:
    return Templates(lambda count: [prepared_postgres.copy() for _ in range(count)])


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def clusters(request: pytest.FixtureRequest) -> Clusters:
    made: Clusters = request.getfixturevalue(f"{request.param}_clusters")
    return made


@pytest.fixture
def sqlite_clusters(sqlite_templates: Templates, tmp_path: Path) -> Iterator[Clusters]:
    def urls(count: int) -> list[str]:
        return [f"sqlite:///{tmp_path / f'{index}.db'}" for index in range(count)]

    def copy_made(count: int, guest: bool) -> tuple[list[str], LoadedDice]:
        found, dice = sqlite_templates.find(count, guest)
        for url in found:
            shutil.copy(url.removeprefix("sqlite:///"), tmp_path)
        return urls(len(found)), dice  # addresses beside the first are names of files alone

    with ExitStack() as exits:
        yield Clusters(urls, exits, copy_made)


@pytest.fixture
def postgres_clusters(postgres_templates: Templates, prepared_postgres: Prepared) -> Iterator[Clusters]:
    server, made = prepared_postgres.server, list[str]()

    def urls(count: int) -> list[str]:
        made.extend(prepared_postgres.copy() for _ in range(count - len(made)))
        return made[:count]

    def copy_made(count: int, guest: bool) -> tuple[list[str], LoadedDice]:
        assert isinstance(server, PostgresServer)
        found, dice = postgres_templates.find(count, guest)
        copies = [server.copy_database(url) for url in found]
        made.extend(copies)
        for url in copies:
            _name_members(url, found, copies)
        return copies, dice

    with ExitStack() as exits:
        yield Clusters(urls, exits, copy_made)
    for url in made:
        server.drop_database(url)


def _name_members(url: str, old: list[str], new: list[str]) -> None:
    """Tell a copied database where the copies of the others are."""
    engine = create_store_engine(url)
    with engine.begin() as connection:
        for before, after in zip(old, new, strict=True):
            here = members.c.address == public_address(before, before)
            connection.execute(members.update().where(here).values(address=public_address(after, after)))
    engine.dispose()
