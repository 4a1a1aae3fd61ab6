"""Dask, for real: a scheduler and workers of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from horae import Horae
from horae.errors import ExecutorUnavailable
from horae.executors import DaskExecutor, probes
from horae.ports.executors import RemoteExecutor
from horae.testing.conformance.executors import ExecutorConformance, a_call
from tests.executors import heavy
from tests.executors.clusters import Dask, dask_cluster
from tests.executors.conftest import Program
from tests.runtime.serving import ended, outcomes, serving
from tests.support.refusals import refused
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    with dask_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def make_executor(dask: Dask, dask_worker: None) -> Iterator[Callable[[], RemoteExecutor]]:
    made: list[DaskExecutor] = []

    def make() -> RemoteExecutor:
        made.append(DaskExecutor(dask.address))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def dask_worker(dask: Dask) -> None:
    dask.worker()


class TestDaskExecutor(ExecutorConformance):
    pass


async def test_a_worker_killed_in_the_middle_leaves_its_task_to_the_next(
    heavy_app: Horae, worker_program: Program, dask: Dask, dask_worker: None, tmp_path: Path
) -> None:
    job = heavy.hold.enqueue(folder=str(tmp_path))
    killed = worker_program("dask", dask.address)
    await eventually((tmp_path / "alive").exists, "the start")
    killed.kill()
    killed.wait(60)

    heavy.chosen.real = DaskExecutor(dask.address)
    (tmp_path / "go").touch()
    async with serving(heavy_app, lease=2.0):
        done = await ended(heavy_app, job)
    heavy.chosen.real.close()

    assert (done.state, done.result) == ("succeeded", "let go")
    assert len((tmp_path / "began").read_text().split()) == 1


async def test_a_killed_node_is_a_lost_attempt_and_not_a_second_run_by_dask(
    heavy_app: Horae, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    with dask_cluster(tmp_path_factory.mktemp("nodes")) as dask:
        first = dask.worker()
        heavy.chosen.real = DaskExecutor(dask.address)
        async with serving(heavy_app):
            job = heavy.hold.enqueue(folder=str(tmp_path))
            await eventually((tmp_path / "alive").exists, "the start")
            dask.worker()
            first.kill()
            await eventually(lambda: len((tmp_path / "began").read_text().split()) == 2, "the second attempt")
            (tmp_path / "go").touch()
            done = await ended(heavy_app, job)
        heavy.chosen.real.close()

    assert outcomes(heavy_app, job) == ["failed", "succeeded"]
    assert done.result == "let go"


def test_a_scheduler_that_is_away_is_unavailable(tmp_path: Path) -> None:
    executor = DaskExecutor("tcp://127.0.0.1:1")

    with refused(ExecutorUnavailable, "executor_away", executor="dask"):
        executor.submit(a_call(probes.add, a=1, b=2))
