"""The shipped suite on a cluster of four databases: what a store promises holds behind the fence, too.

A test of the suite knows one store and reads back what it wrote. So all shards are in one of the four databases here;
every write enters its shard, and every number carries it. What concerns rows of several databases at once is in the
other tests of this folder; `test_any_order.py` has producers, moves and stale maps in any order.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from horae.core.cluster.numbers import VSHARDS
from horae.core.cluster.shard_map import HOME
from horae.ports.store import Store
from horae.stores.opening import create_store_engine
from horae.stores.tables.cluster import cluster, members, vshards
from horae.testing.conformance import StoreConformance
from tests.cluster.conftest import Clusters
from tests.support.prepared import Prepared, delete_rows

SHARDS = 4


def _make(clusters: Clusters) -> list[str]:
    """Make a cluster whose last database keeps all shards; return the databases."""
    world, urls = clusters.make(SHARDS)
    shards = world.cluster
    assert shards is not None
    moved = shards.shard_map.move(range(VSHARDS), SHARDS)
    for member in moved.members:
        shards.store_of(member.number).transact(lambda tx: tx.cluster.copy_map(moved))
    assert shards.refresh().version == moved.version
    return urls


def _urls(folder: Path) -> list[str]:
    return [f"sqlite:///{folder / f'{index}.db'}" for index in range(SHARDS)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of such a cluster."""
    folder = tmp_path_factory.mktemp("whole")
    with ExitStack() as exits:
        _make(Clusters(lambda _: _urls(folder), exits))
    return folder


@pytest.fixture
def sqlite_cluster(template: Path, tmp_path: Path) -> list[str]:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return _urls(tmp_path)


@pytest.fixture(scope="module")
def postgres_databases(prepared_postgres: Prepared) -> Iterator[list[str]]:
    with ExitStack() as exits:
        urls = _make(Clusters(lambda count: [prepared_postgres.copy() for _ in range(count)], exits))
    yield urls
    for url in urls:
        prepared_postgres.server.drop_database(url)


@pytest.fixture
def postgres_cluster(postgres_databases: list[str]) -> Iterator[list[str]]:
    yield postgres_databases
    engine = create_store_engine(postgres_databases[-1])  # all that a test writes is there
    with engine.begin() as connection:
        delete_rows(connection, but=(cluster, members, vshards))
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """The home of the house, in a database that keeps all shards: whatever owner or key a test uses, it is there."""
    urls: list[str] = request.getfixturevalue(f"{request.param}_cluster")
    with ExitStack() as exits:
        world = Clusters(lambda _: [], exits).open(urls[0])
        assert world.cluster is not None
        yield world.cluster.bind(world, HOME).store


class TestCluster(StoreConformance):
    # Who waits for a job of another shard, or for one that may have ended elsewhere, asks: test_messages.py has these.
    test_reviving_a_parent_revives_what_was_cancelled_for_it = None  # type: ignore[assignment]
    test_nobody_can_wait_for_a_job_that_never_was = None  # type: ignore[assignment]
