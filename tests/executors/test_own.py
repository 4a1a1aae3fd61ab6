"""An executor of a user's own, against the suite for executors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from horae.ports.executors import RemoteExecutor
from horae.testing.conformance.executors import ExecutorConformance
from tests.executors.own import example

pytestmark = pytest.mark.slow


@pytest.fixture
def make_executor(tmp_path: Path) -> Callable[[], RemoteExecutor]:
    return lambda: example().DetachedExecutor(tmp_path / "calls")


class TestDetachedExecutor(ExecutorConformance):
    pass
