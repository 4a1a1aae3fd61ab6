"""A new field and a new verb stay cheap: few files, and they work through every sender."""

import pytest

from scripts.yardstick import MOST, PATCHES, touched, works


@pytest.mark.parametrize("name", MOST)
def test_a_change_touches_few_files(name: str) -> None:
    files = touched((PATCHES / f"{name}.patch").read_text(encoding="utf-8"))

    assert 0 < len(files) <= MOST[name]


@pytest.mark.slow
@pytest.mark.timeout(600)  # a process of its own that runs tests: each of those has the usual limit
@pytest.mark.parametrize("name", MOST)
def test_the_change_that_is_counted_works(name: str) -> None:
    assert works(PATCHES / f"{name}.patch"), "adapt the patch as scripts/yardstick.py says"
