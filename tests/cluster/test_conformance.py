"""The shipped suite on a cluster of four SQLite files: what a store promises holds behind the fence, too.

A test of the suite knows one store and reads back what it wrote. So all shards are in one of the four databases here;
every write enters its shard, and every number carries it.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from horae.core.cluster.numbers import VSHARDS
from horae.core.cluster.shard_map import HOME
from horae.ports.store import Store
from horae.ports.world import World
from horae.testing.conformance.claim import ClaimConformance
from horae.testing.conformance.enqueue import EnqueueConformance
from horae.testing.conformance.lease import LeaseConformance
from horae.testing.conformance.links import LinkConformance
from horae.testing.conformance.parents import ParentConformance
from horae.testing.conformance.schedules import ScheduleConformance
from horae.testing.conformance.settle import SettleConformance
from tests.cluster.conftest import Clusters

SHARDS = 4


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a cluster whose last database keeps all shards."""
    folder = tmp_path_factory.mktemp("whole")
    with ExitStack() as exits:
        world, _ = Clusters(lambda count: [_url(folder, index) for index in range(count)], exits).make(SHARDS)
        shards = world.cluster
        assert shards is not None
        moved = shards.shard_map.move(range(VSHARDS), SHARDS)
        for member in moved.members:
            shards.store_of(member.number).transact(lambda tx: tx.cluster.copy_map(moved))
        assert shards.refresh().version == moved.version
    return folder


def _url(folder: Path, index: int) -> str:
    return f"sqlite:///{folder / f'{index}.db'}"


@pytest.fixture
def cluster(template: Path, tmp_path: Path) -> Iterator[World]:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    with ExitStack() as exits:
        yield Clusters(lambda _: [], exits).open(_url(tmp_path, 0))


@pytest.fixture
def store(cluster: World) -> Store:
    """The home of the house, in a database that keeps all shards: whatever owner or key a test uses, it is there."""
    assert cluster.cluster is not None
    return cluster.cluster.bind(cluster, HOME).store


class TestCluster(
    EnqueueConformance,
    ClaimConformance,
    SettleConformance,
    LeaseConformance,
    LinkConformance,
    ParentConformance,
    ScheduleConformance,
):
    """Without control, locks, access, definitions and console: those are of each database by itself."""

    # Who waits for a job of another shard, or for one that may have ended elsewhere, asks: test_messages.py has these.
    test_reviving_a_parent_revives_what_was_cancelled_for_it = None  # type: ignore[assignment]
    test_nobody_can_wait_for_a_job_that_never_was = None  # type: ignore[assignment]
