"""Counting fires without visiting them: as many as a walk finds, however long the range."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.schedules.rules import Every, Once, Rule
from horae.core.time.cron import Cron
from tests.core.cron_oracle import ZONES
from tests.core.test_cron_oracle import a_cron, a_window
from tests.support.cases import cases

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SECONDS_OF_A_DAY = 86_400


@pytest.mark.parametrize("zone", ZONES)
def test_a_count_is_what_a_walk_finds_also_where_clocks_change(zone: str) -> None:
    dice = random.Random(f"counts {zone}")
    for _ in range(cases(60)):
        cron, _ = a_cron(dice, zone, seconds=dice.random() < 0.2, busy=dice.choice([0.2, 0.8]))
        start = a_window(dice, zone) + timedelta(microseconds=dice.choice([0, 1, 999_999]))
        end = start + timedelta(minutes=dice.choice([0, 30, 61, 600, 2000, 5000]))
        assert cron.count(start, end) == len(list(cron.between(start, end))), (cron, start, end)


@pytest.mark.parametrize("zone", ZONES)
def test_a_count_over_years_is_what_a_walk_finds(zone: str) -> None:
    dice = random.Random(f"years {zone}")
    for _ in range(cases(4)):
        cron, _ = a_cron(dice, zone, busy=0.1)
        start = a_window(dice, zone)
        end = start + timedelta(days=dice.randint(300, 900), minutes=dice.randrange(1440))
        assert cron.count(start, end) == len(list(cron.between(start, end))), (cron, start, end)


@pytest.mark.parametrize("expression", ["0 0 L * *", "30 2 15W * *", "*/5 1 * * 5L", "0 2,3 * * 0#1"])
def test_a_count_knows_the_days_that_depend_on_the_month(expression: str) -> None:
    cron = Cron(expression, "Europe/Berlin", lenient=True)

    assert cron.count(NOON, NOON + 2000 * DAY) == len(list(cron.between(NOON, NOON + 2000 * DAY)))


def test_every_change_of_clocks_of_a_century_is_counted_over() -> None:
    """A day is one fire, whether it has 23, 24 or 25 hours; a rhythm follows elapsed time."""
    start, end = datetime(1980, 1, 1, 12, tzinfo=UTC), datetime(2080, 1, 1, 12, tzinfo=UTC)

    assert Cron("30 2 * * *", "Europe/Berlin").count(start, end) == (end - start) // DAY
    assert Cron("* * * * * *", "Europe/Berlin").count(start, end) == (end - start) // timedelta(seconds=1)


@given(st.integers(1, 10**7), st.integers(0, 10**13), st.integers(0, 10**9))
def test_neighbouring_ranges_share_no_fire_and_lose_none(period: int, start: int, length: int) -> None:
    rules: list[Rule] = [
        Every(timedelta(milliseconds=period)),
        Once(NOON),
        Cron("*/7 * * * * *", "Europe/Berlin"),
        Cron("0,30 1-3 * * *", "Europe/Berlin"),
    ]
    marks = [NOON + timedelta(microseconds=start + part * length) for part in range(4)]
    for rule in rules:
        whole = rule.count(marks[0], marks[-1])
        assert whole == sum(rule.count(before, after) for before, after in pairwise(marks)), rule


def test_an_interval_counts_like_its_walk() -> None:
    bound = Every(7, initial_delay=3).starting(NOON)
    for rule in (Every(7), Every(7).starting(NOON), bound, Every(7, anchor="finish")):
        for begins in (NOON - DAY / 100, NOON, NOON + timedelta(seconds=5)):
            end = NOON + timedelta(minutes=20)
            assert rule.count(begins, end) == len(list(rule.between(begins, end))), rule


def test_a_range_that_ends_before_it_begins_has_no_fires() -> None:
    for rule in (Every(7), Cron("* * * * *"), Once(NOON - DAY / 2)):
        assert rule.count(NOON, NOON - DAY) == 0
