"""Clocks that jump: gaps and folds, by example."""

from __future__ import annotations

from datetime import timedelta

import pytest

from horae.core.time.cron import Cron
from tests.core.cron_oracle import at, fires

BERLIN, NEW_YORK, HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("30 2 * * *", BERLIN, "2030-03-30 12:00", ["2030-03-31 01:00", "2030-04-01 00:30"]),
        ("0,30 2 * * *", BERLIN, "2030-03-30 12:00", ["2030-03-31 01:00", "2030-04-01 00:00"]),
        ("0,30 2,3 * * *", BERLIN, "2030-03-30 12:00", ["2030-03-31 01:00", "2030-03-31 01:30"]),
        ("0 3 * * *", BERLIN, "2030-03-30 12:00", ["2030-03-31 01:00", "2030-04-01 01:00"]),
        ("30 1 * * *", BERLIN, "2030-03-30 12:00", ["2030-03-31 00:30", "2030-03-31 23:30"]),
        ("10 2 * * *", HOWE, "2030-10-05 00:00", ["2030-10-05 15:30", "2030-10-06 15:10"]),
        ("0 0 * * *", "Africa/Cairo", "2030-04-25 12:00", ["2030-04-25 22:00", "2030-04-26 21:00"]),
        ("0 0 * * *", "Asia/Beirut", "2030-03-30 12:00", ["2030-03-30 22:00", "2030-03-31 21:00"]),
        ("30 1,2 * * *", "Antarctica/Troll", "2030-03-30 12:00", ["2030-03-31 01:00", "2030-03-31 23:30"]),
        ("0 9 * * *", "Pacific/Apia", "2011-12-29 12:00", ["2011-12-29 19:00", "2011-12-30 10:00", "2011-12-30 19:00"]),
        ("30 0 * * *", "Africa/Niamey", "1959-12-31 12:00", ["1960-01-01 00:00", "1960-01-01 23:30"]),
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-01", ["2011-12-30 10:00", "2012-12-29 19:00"]),
        ("0 9 21 8 *", "Pacific/Kwajalein", "1993-08-01", ["1993-08-21 12:00", "1994-08-20 21:00"]),
    ],
)
def test_a_time_of_day_inside_a_gap_fires_once_at_its_end(
    expression: str, zone: str, after: str, expected: list[str]
) -> None:
    assert fires(Cron(expression, zone), after, len(expected)) == expected


def test_a_gap_can_be_skipped() -> None:
    cron = Cron("30 2 * * *", BERLIN, gap="skip")

    assert fires(cron, "2030-03-30 00:00", 2) == ["2030-03-30 01:30", "2030-04-01 00:30"]


@pytest.mark.parametrize(
    ("expression", "zone", "after", "first", "both"),
    [
        (
            "30 2 * * *", BERLIN, "2030-10-26 12:00",
            ["2030-10-27 00:30", "2030-10-28 01:30"], ["2030-10-27 00:30", "2030-10-27 01:30"],
        ),
        (
            "30 1 * * *", NEW_YORK, "2030-11-02 12:00",
            ["2030-11-03 05:30", "2030-11-04 06:30"], ["2030-11-03 05:30", "2030-11-03 06:30"],
        ),
        (
            "45 1 * * *", HOWE, "2030-04-06 12:00",
            ["2030-04-06 14:45", "2030-04-07 15:15"], ["2030-04-06 14:45", "2030-04-06 15:15"],
        ),
        (
            "30 23 * * *", "Asia/Beirut", "2030-10-26 12:00",
            ["2030-10-26 20:30", "2030-10-27 21:30"], ["2030-10-26 20:30", "2030-10-26 21:30"],
        ),
    ],
)  # fmt: skip
def test_a_repeated_time_of_day_fires_first_or_both(
    expression: str, zone: str, after: str, first: list[str], both: list[str]
) -> None:
    assert fires(Cron(expression, zone), after, 2) == first
    assert fires(Cron(expression, zone, fold="both"), after, 2) == both


def test_asking_from_within_the_second_pass_does_not_find_the_first_pass_again() -> None:
    assert fires(Cron("30 2 * * *", BERLIN), "2030-10-27 01:00", 1) == ["2030-10-28 01:30"]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "hours", "count"),
    [
        ("*/30 * * * *", BERLIN, "2030-10-26 22:00", 25, 50),  # the long day
        ("*/30 * * * *", BERLIN, "2030-03-30 23:00", 23, 46),  # the short day
        ("0 * * * *", HOWE, "2030-04-06 13:00", 24, 24),
        ("*/30 2 * * *", BERLIN, "2030-10-26 22:00", 25, 4),  # a star in the minute field: both passes
        ("*/30 2 * * *", BERLIN, "2030-03-30 23:00", 23, 0),  # and nothing in a gap
        ("30 */2 * * *", BERLIN, "2030-03-30 23:00", 23, 11),
        ("0-59/30 0-23 * * *", BERLIN, "2030-10-26 22:00", 25, 48),  # no star: times of day
    ],
)
def test_a_rhythm_follows_elapsed_time(expression: str, zone: str, start: str, hours: int, count: int) -> None:
    just_before = at(start) - timedelta(microseconds=1)

    day = list(Cron(expression, zone).between(just_before, just_before + timedelta(hours=hours)))

    assert len(day) == count


def test_the_second_pass_is_found_even_when_the_next_match_lies_a_year_ahead() -> None:
    cron = Cron("*/30 2 27 10 *", BERLIN)

    assert fires(cron, "2030-10-27 00:45", 2) == ["2030-10-27 01:00", "2030-10-27 01:30"]


def test_seconds_have_no_say_in_what_a_fixed_time_is() -> None:
    cron = Cron("*/20 30 2 * * *", BERLIN)

    assert fires(cron, "2030-03-30 12:00", 2) == ["2030-03-31 01:00", "2030-04-01 00:30"]
    assert fires(cron, "2030-10-27 00:30", 3) == ["2030-10-27 00:30:20", "2030-10-27 00:30:40", "2030-10-28 01:30"]
