"""Ray, for real: a head and nodes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from horae import Horae
from horae.errors import ExecutorUnavailable
from horae.executors import RayExecutor
from horae.ports.executors import RemoteExecutor
from horae.testing.conformance.executors import ExecutorConformance
from tests.executors import heavy
from tests.executors.clusters import Ray, ray_cluster
from tests.executors.conftest import Program
from tests.runtime.serving import ended, outcomes, serving
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # a head and a node take seconds to start


@pytest.fixture(scope="module")
def ray() -> Iterator[Ray]:
    with ray_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ray_node(ray: Ray) -> None:
    ray.node(cpus=1)


@pytest.fixture(scope="module")
def bridges(ray: Ray, ray_node: None) -> Iterator[list[RayExecutor]]:
    made = [RayExecutor(ray.address, num_cpus=0.1) for _ in range(2)]
    yield made
    for each in made:
        each.close()


@pytest.fixture
def make_executor(bridges: list[RayExecutor]) -> Callable[[], RemoteExecutor]:
    """Two executors are used in turn: each connects a process to the cluster, which takes seconds."""
    left = [*bridges]
    return lambda: left.pop()


class TestRayExecutor(ExecutorConformance):
    pass


async def test_a_worker_killed_in_the_middle_leaves_its_actor_to_the_next(
    heavy_app: Horae, worker_program: Program, ray: Ray, bridges: list[RayExecutor], tmp_path: Path
) -> None:
    job = heavy.hold.enqueue(folder=str(tmp_path))
    killed = worker_program("ray", ray.address)
    await eventually((tmp_path / "alive").exists, "the start")
    killed.kill()
    killed.wait(60)

    heavy.chosen.real = bridges[0]
    (tmp_path / "go").touch()
    async with serving(heavy_app, lease=2.0):
        done = await ended(heavy_app, job)

    assert (done.state, done.result) == ("succeeded", "let go")
    assert len((tmp_path / "began").read_text().split()) == 1


async def test_a_killed_node_is_a_lost_attempt_and_the_next_runs_on_another(
    heavy_app: Horae, bridges: list[RayExecutor], tmp_path: Path
) -> None:
    with ray_cluster("nodes") as ray:  # of its own, so that it is known where the call starts
        await lose_a_node(heavy_app, ray, tmp_path)


async def lose_a_node(heavy_app: Horae, ray: Ray, tmp_path: Path) -> None:
    doomed = ray.node()
    heavy.chosen.real = RayExecutor(ray.address, num_cpus=2)
    async with serving(heavy_app):
        job = heavy.hold.enqueue(folder=str(tmp_path))
        await eventually((tmp_path / "alive").exists, "the start")
        doomed.kill()
        await eventually(lambda: outcomes(heavy_app, job)[:1] == ["failed"], "the lost attempt")
        (tmp_path / "go").touch()
        ray.node()
        done = await ended(heavy_app, job)
    heavy.chosen.real.close()

    assert outcomes(heavy_app, job) == ["failed", "succeeded"]
    assert done.result == "let go"


def test_a_cluster_that_is_gone_ends_the_bridge_and_not_the_worker() -> None:
    with ray_cluster("gone") as ray:
        executor = RayExecutor(ray.address)
        assert executor.look({"name": "unknown", "namespace": "horae"}).state == "gone"

    with pytest.raises(ExecutorUnavailable):
        executor.look({"name": "unknown", "namespace": "horae"})
    executor.close()
