"""`make quick`: the tests that need no server and no process, and take no second each.

`--quick` leaves out what carries the marker `server` or `slow` and refuses to start a process, so that a test which
needs one is marked instead of making every quick run slower. Where no path is given it looks at `FOLDERS` alone.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

LEFT_OUT = ("server", "slow")
STARTS_A_PROCESS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}
TESTS = Path(__file__).parents[1]
FOLDERS = ("architecture", "core", "actions", "service", "stores/test_conformance.py")
EXAMPLES = 20  # of a property that names no number; everything else tries the hundred of Hypothesis


class Quick:
    """A plugin that selects quick tests and watches that they stay quick."""

    def __init__(self) -> None:
        self.testing: str | None = None  # the test that runs now
        settings.register_profile("quick", max_examples=EXAMPLES)
        settings.load_profile("quick")
        sys.addaudithook(self.watch)

    def watch(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if self.testing is not None and event in STARTS_A_PROCESS:
            raise RuntimeError(f"{self.testing} starts a process ({event}); mark it with pytest.mark.slow")

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        if config.args_source is not config.ArgsSource.TESTPATHS:
            return None
        wanted = [TESTS / folder for folder in FOLDERS]
        is_near = any(collection_path in (each, *each.parents) or each in collection_path.parents for each in wanted)
        return None if is_near else True

    @pytest.hookimpl(trylast=True)  # the fixtures have added their markers by then
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if any(item.get_closest_marker(name) for name in LEFT_OUT)]
        config.hook.pytest_deselected(items=left_out)
        leave = set(left_out)
        items[:] = [item for item in items if item not in leave]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.testing = item.nodeid
        try:
            return (yield)
        finally:
            self.testing = None
