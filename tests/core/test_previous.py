"""The previous fire: the last one strictly before an instant, for every rule."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from horae.core.schedules.rules import Every, Once, Rule
from horae.core.time.cron import Cron
from horae.errors import NeverFires
from tests.core.cron_oracle import ZONES, an_expression, at
from tests.support.cases import cases

TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("rule", "instant", "expected"),
    [
        (Cron("0 9 * * 1-5"), "2030-01-07 09:00", "2030-01-04 09:00"),
        (Cron("0 9 * * 1-5"), "2030-01-07 09:00:00.000001", "2030-01-07 09:00"),
        (Cron("*/15 * * * *"), "2030-01-01 00:00", "2029-12-31 23:45"),
        (Cron("* * * * * *"), "2030-01-01 00:00", "2029-12-31 23:59:59"),
        (Cron("0 0 29 2 *"), "2104-02-29 00:00", "2096-02-29 00:00"),  # 2100 is no leap year
        (Cron("0 0 29 2 1"), "2112-02-29 00:00", "2072-02-29 00:00"),  # forty years, the longest wait there is
        (Cron("30 2 * * *", "Europe/Berlin"), "2027-03-28 12:00", "2027-03-28 01:00"),  # moved to after the gap
        (Cron("30 2 * * *", "Europe/Berlin"), "2027-10-31 12:00", "2027-10-31 00:30"),  # the first of two
        (Cron("30 2 * * *", "Europe/Berlin", fold="both"), "2027-10-31 12:00", "2027-10-31 01:30"),
        (Every(3600), "2030-01-01 00:00", "2029-12-31 23:00"),
        (Every(90, start=at("2030-01-01 00:00")), "2030-01-01 00:03:01", "2030-01-01 00:03"),
        (Every(90, start=at("2030-01-01 00:00")), "2030-01-01 00:00", None),
        (Every(90, anchor="finish"), "2030-01-01 00:00", None),
        (Once(at("2030-01-01 00:00")), "2030-01-01 00:00:01", "2030-01-01 00:00"),
        (Once(at("2030-01-01 00:00")), "2030-01-01 00:00", None),
    ],
    ids=str,
)
def test_the_previous_fire_is(rule: Rule, instant: str, expected: str | None) -> None:
    assert rule.previous_before(at(instant)) == (None if expected is None else at(expected))


def test_previous_and_next_are_each_others_inverse() -> None:
    dice = random.Random("previous")
    for _ in range(cases(300)):
        try:
            cron = Cron(an_expression(dice, seconds=dice.random() < 0.2, busy=0.5), dice.choice(ZONES))
        except NeverFires:
            continue
        start = datetime(
            dice.randint(1990, 2040), dice.randint(1, 12), dice.randint(1, 28), dice.randrange(24), tzinfo=UTC
        )
        first = cron.next_after(start)
        assert first is not None
        second = cron.next_after(first)
        assert second is not None
        assert cron.previous_before(second) == first, cron
        assert cron.previous_before(first + TICK) == first, cron
        earlier = cron.previous_before(first)
        assert earlier is None or cron.next_after(earlier) == first, cron
