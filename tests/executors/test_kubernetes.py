"""Jobs of Kubernetes, against kmock and a kubelet that starts processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from horae.executors import KubernetesExecutor
from horae.ports.executors import RemoteExecutor
from horae.testing.conformance.executors import ExecutorConformance
from tests.executors.kubernetes import Kubernetes, kubernetes_cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with kubernetes_cluster(tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@pytest.fixture
def make_executor(kubernetes: Kubernetes) -> Callable[[], RemoteExecutor]:
    return lambda: KubernetesExecutor("registry/app:1", url=kubernetes.url, namespace="default", token="t")


class TestKubernetesExecutor(ExecutorConformance):
    pass
