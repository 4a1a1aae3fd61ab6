"""H in cron: a stable number for each schedule."""

from __future__ import annotations

from collections import Counter

import pytest

from horae.core.time.cron import Cron
from horae.core.time.cron_hash import spread_by_hash
from horae.errors import InvalidCron


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("H 3 * * *", "57 3 * * *"),
        ("h 3 * * *", "57 3 * * *"),
        ("H H * * *", "57 22 * * *"),
        ("H(0-29) 3 * * *", "27 3 * * *"),
        ("H/15 * * * *", "12-59/15 * * * *"),
        ("H(0-29)/10 * * * *", "7-29/10 * * * *"),
        ("H H H * *", "57 22 28 * *"),
        ("H * * * * *", "25 * * * * *"),
        ("0,H 3 * * *", "0,57 3 * * *"),
        ("0 3 * * *", "0 3 * * *"),
        ("@hourly", "@hourly"),
        ("0 3 * * THU", "0 3 * * THU"),
    ],
)
def test_the_same_name_always_gets_the_same_number(expression: str, expected: str) -> None:
    assert spread_by_hash(expression, "system/nightly") == expected


def test_many_names_are_spread_evenly_and_every_result_is_cron() -> None:
    minutes = Counter(spread_by_hash("H 3 H * *", f"system/{number}").split()[0] for number in range(6000))

    assert len(minutes) == 60
    assert max(minutes.values()) < 160
    assert all(Cron(spread_by_hash("H H H H H", str(number))).next_after for number in range(300))


@pytest.mark.parametrize(
    ("expression", "position", "advice"),
    [
        ("H(0-60) 3 * * *", 2, "H takes a range inside the field: H(0-59)."),
        ("0 3 1,H(20-10) * *", 8, "H takes a range inside the field: H(1-28)."),
        ("H/0 3 * * *", 3, "A step is a number from 1 to 59."),
        ("H(0-5)/9 3 * * *", 8, "A step is a number from 1 to 5."),
    ],
)
def test_a_range_outside_the_field_is_refused(expression: str, position: int, advice: str) -> None:
    with pytest.raises(InvalidCron) as refusal:
        spread_by_hash(expression, "k")

    assert (refusal.value.position, refusal.value.advice) == (position, advice)
