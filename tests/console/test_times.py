"""Times as a person reads them, in two languages and any zone."""

from datetime import UTC, datetime, timedelta

import pytest

from horae.console import texts
from horae.console.times import Clock, clock_time, exact, relative, span, zone_label, zone_named
from horae.testing.clock import NOON

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def in_english() -> None:
    texts.choose("en")


@pytest.mark.parametrize(
    ("away", "english", "chinese"),
    [
        (timedelta(0), "now", "现在"),
        (8 * MINUTE, "in 8 min", "8 分钟后"),
        (-90 * timedelta(seconds=1), "1 min 30 s ago", "1 分钟 30 秒前"),
        (-125 * timedelta(seconds=1), "2 min ago", "2 分钟前"),
        (2 * HOUR + 5 * MINUTE, "in 2 h 5 min", "2 小时 5 分钟后"),
        (-13 * HOUR - 5 * MINUTE, "13 h ago", "13 小时前"),
        (3 * DAY + 4 * HOUR, "in 3 d 4 h", "3 天 4 小时后"),
        (-40 * DAY, "40 d ago", "40 天前"),
    ],
)
def test_how_far_an_instant_is(away: timedelta, english: str, chinese: str) -> None:
    assert relative(NOON + away, NOON) == english
    texts.choose("zh")
    assert relative(NOON + away, NOON) == chinese


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (timedelta(milliseconds=840), "840 ms"),
        (timedelta(seconds=3.25), "3.2 s"),
        (timedelta(seconds=3), "3 s"),
        (timedelta(minutes=1, seconds=10), "1 min 10 s"),
        (timedelta(hours=2, minutes=5), "2 h 5 min"),
        (timedelta(seconds=-3), "−3 s"),
        (None, "–"),
    ],
)
def test_how_long_something_took(length: timedelta | None, expected: str) -> None:
    assert span(length) == expected


def test_the_clock_shows_the_day_unless_it_is_today() -> None:
    assert clock_time(NOON, NOON, UTC) == "12:00"
    assert clock_time(NOON + DAY, NOON, UTC) == "8 Jan 12:00"
    assert clock_time(NOON + 365 * DAY, NOON, UTC) == "2031-01-07 12:00"
    texts.choose("zh")
    assert clock_time(NOON + DAY, NOON, UTC) == "1月8日 12:00"


@pytest.mark.parametrize(
    ("zone", "label"),
    [("UTC", "UTC"), ("Asia/Shanghai", "UTC+8"), ("Asia/Kolkata", "UTC+5:30"), ("America/New_York", "UTC−5")],
)
def test_a_zone_is_its_distance_to_utc(zone: str, label: str) -> None:
    found = zone_named(zone)
    assert found is not None
    assert zone_label(NOON.astimezone(found)) == label
    assert exact(NOON, found).endswith(label)


@pytest.mark.parametrize(
    ("choice", "browser", "schedule", "expected"),
    [
        ("mine", "Asia/Shanghai", "Europe/Berlin", "20:00"),
        ("schedule", "Asia/Shanghai", "Europe/Berlin", "13:00"),
        ("schedule", "Asia/Shanghai", None, "12:00"),
        ("utc", "Asia/Shanghai", "Europe/Berlin", "12:00"),
        ("mine", None, None, "12:00"),
    ],
)
def test_times_are_shown_in_the_zone_that_was_chosen(
    choice: str, browser: str | None, schedule: str | None, expected: str
) -> None:
    clock = Clock(NOON, choice, browser)  # type: ignore[arg-type]
    assert clock_time(NOON, NOON, clock.zone_for(schedule)) == expected


def test_a_name_that_is_no_zone_is_none() -> None:
    assert [zone_named(name) for name in ("", "../../etc/passwd", "Mars/Olympus", "<script>")] == [None] * 4
    assert zone_named("Europe/Berlin") is not None


def test_seconds_are_shown_where_they_matter() -> None:
    assert clock_time(datetime(2030, 1, 7, 12, 0, 5, tzinfo=UTC), NOON, UTC, seconds=True) == "12:00:05"
