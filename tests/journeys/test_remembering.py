"""A season of governed memories with scripted truth: a small run of ``python -m benchmarks.governance``."""

from __future__ import annotations

import pytest

from benchmarks.remembering import Result, Year
from tests.support.templates import open_in_memory


def lived(seed: int, *, objects: int = 16, days: int = 45) -> Result:
    store = open_in_memory()
    try:
        return Year(store, objects, days, seed).run()
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_under_crashes_and_budgets_nothing_false_comes_back_and_all_is_written_down(seed: int) -> None:
    found = lived(seed)

    assert (found.resurrections, found.overspent, found.audit_complete) == (0, 0, 1.0)
    assert found.contested_resolved_in_time == 1.0
    assert found.stale_share_served < found.stale_share_believed
    assert found.looks > found.objects


@pytest.mark.slow
def test_the_same_seed_gives_the_same_figures() -> None:
    assert lived(3, objects=8, days=20) == lived(3, objects=8, days=20)
