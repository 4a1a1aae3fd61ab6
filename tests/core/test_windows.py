"""Quiet hours and calendars: what fires inside them, by example and against a list of all fires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from horae.core.schedules.day_lists import Calendar, check_calendar, read_days, read_quiet
from horae.core.schedules.rules import Cron, Every, Rule
from horae.core.schedules.schedule import Schedule, check, first_fire
from horae.core.schedules.windows import Awake, OnDays
from horae.errors import InvalidInput
from tests.core.cron_oracle import at
from tests.support.refusals import refused

TICK = timedelta(microseconds=1)
BERLIN = "Europe/Berlin"
HOLIDAYS = ("2030-12-25", "2030-12-26", "sat", "sun")


def few(rule: Rule, after: str, count: int) -> list[str]:
    fires = islice(rule.between(at(after), datetime(9999, 1, 1, tzinfo=UTC)), count)
    return [f"{fire:%Y-%m-%d %H:%M}" for fire in fires]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("22:00-07:00", ((1320, 1860),)),
        ("12:00-13:00", ((720, 780),)),
        ("12:00-13:00, 22:00-24:00", ((720, 780), (1320, 1440))),
        ("12:00-13:00,12:30-14:00", ((720, 840),)),
        ("23:00-1:00,1:00-2:30", ((1380, 1590),)),
        ("00:00-06:00", ((0, 360),)),
    ],
)
def test_quiet_hours_are_read(text: str, expected: tuple[tuple[int, int], ...]) -> None:
    assert read_quiet(text) == expected


@pytest.mark.parametrize("text", ["", "22", "22:00", "7:00-7:00", "25:00-26:00", "22:00-7:60", "22:00-24:01", "a-b"])
def test_hours_that_cannot_be_read_are_refused(text: str) -> None:
    with refused(InvalidInput, "quiet_unreadable"):
        read_quiet(text)


def test_a_whole_day_of_quiet_is_refused() -> None:
    with refused(InvalidInput, "quiet_all_day"):
        read_quiet("00:00-12:00,12:00-24:00")


@pytest.mark.parametrize(
    ("entry", "inside", "outside"),
    [
        ("2030-12-25", "2030-12-25", "2031-12-25"),
        ("2030-12-24..2030-12-31", "2030-12-28", "2031-01-01"),
        ("12-25", "2047-12-25", "2030-12-26"),
        ("02-29", "2032-02-29", "2030-03-01"),
        ("sat", "2030-01-05", "2030-01-06"),
    ],
)
def test_a_day_of_a_calendar_is(entry: str, inside: str, outside: str) -> None:
    days = read_days((entry,))

    assert date.fromisoformat(inside) in days
    assert date.fromisoformat(outside) not in days


@pytest.mark.parametrize("entry", ["", "monday", "2030-13-01", "02-30", "2030-12-31..2030-12-01", "1-1", "2030-1-1"])
def test_a_day_that_cannot_be_read_is_refused(entry: str) -> None:
    with refused(InvalidInput, "calendar_day_unreadable"):
        check_calendar(Calendar("holidays", (entry,)))


def test_a_calendar_is_kept_in_order_and_each_day_once() -> None:
    assert check_calendar(Calendar("h", ("SAT", "2030-12-25", " sat "))).days == ("2030-12-25", "sat")
    with refused(InvalidInput, "calendar_has_every_day"):
        check_calendar(Calendar("h", ("mon", "tue", "wed", "thu", "fri", "sat", "sun")))
    with refused(InvalidInput, "out_of_range"):
        check_calendar(Calendar("h", ()))


@pytest.mark.parametrize(
    ("rule", "after", "expected"),
    [
        (Awake(Cron("0 * * * *"), "UTC", "22:00-06:00"), "2030-01-01 20:30", ["2030-01-01 21:00", "2030-01-02 06:00"]),
        (Awake(Cron("0 3 * * *"), "UTC", "22:00-06:30"), "2030-01-01 00:00", ["2030-01-01 06:30", "2030-01-02 06:30"]),
        (Awake(Cron("0 3 * * *"), "UTC", "22:00-06:30"), "2030-01-01 05:00", ["2030-01-01 06:30", "2030-01-02 06:30"]),
        (Awake(Cron("0 9 * * *"), "UTC", "22:00-06:30"), "2030-01-01 05:00", ["2030-01-01 09:00"]),
        (
            OnDays(Cron("0 9 * * *", BERLIN), BERLIN, HOLIDAYS, "exclude"), "2030-12-24 12:00",
            ["2030-12-27 08:00", "2030-12-30 08:00"],
        ),
        (
            OnDays(Cron("0 9 * * *"), "UTC", ("2030-12-25", "12-31"), "include"), "2030-12-01 00:00",
            ["2030-12-25 09:00", "2030-12-31 09:00", "2031-12-31 09:00"],
        ),
        (OnDays(Cron("0 9 * * *"), "UTC", ("2029-12-25",), "include"), "2030-01-01 00:00", []),
        (
            OnDays(Cron("0 9 25 * *"), "UTC", HOLIDAYS, "move"), "2030-10-26 00:00",
            ["2030-11-25 09:00", "2030-12-27 09:00", "2031-01-27 09:00"],
        ),
        (
            OnDays(Cron("0 9 * * 5,6"), "UTC", HOLIDAYS, "move"), "2030-01-04 08:00",
            ["2030-01-04 09:00", "2030-01-07 09:00", "2030-01-11 09:00"],
        ),
        (  # never in quiet hours, and never on a day of the calendar
            OnDays(Awake(Cron("0 23 * * 5"), "UTC", "22:00-07:00"), "UTC", HOLIDAYS, "move"), "2030-01-04 12:00",
            ["2030-01-07 07:00", "2030-01-14 07:00"],
        ),
        (  # clocks skip 02:00 to 03:00, where the quiet hours end: they end with the gap
            Awake(Cron("0 1 * * *", BERLIN), BERLIN, "00:30-02:30"), "2030-03-30 12:00",
            ["2030-03-31 01:00", "2030-04-01 00:30"],
        ),
    ],
    ids=lambda value: getattr(value, "describe", lambda: str(value))(),
)  # fmt: skip
def test_what_fires_in_a_window_is(rule: Rule, after: str, expected: list[str]) -> None:
    assert few(rule, after, max(1, len(expected))) == expected


def swallowed(zone: ZoneInfo, fire: datetime) -> datetime:
    """What 22:00-07:00 makes of a fire."""
    shown = fire.astimezone(zone).replace(tzinfo=None)
    if 7 <= shown.hour < 22:
        return fire
    day = shown.date() + timedelta(days=shown.hour >= 22)
    return datetime.combine(day, time(7), zone).astimezone(UTC)


def moved(zone: ZoneInfo, fire: datetime) -> datetime:
    """What a calendar with the days HOLIDAYS makes of a fire that it moves."""
    shown, days = fire.astimezone(zone).replace(tzinfo=None), read_days(HOLIDAYS)
    while shown.date() in days:
        shown += timedelta(days=1)
    return shown.replace(tzinfo=zone).astimezone(UTC)


@pytest.mark.parametrize("expression", ["0 * * * *", "30 2 * * *", "*/45 5-8 * * 1-5", "15 23 * * 0,5", "0 7,22 * * *"])
@pytest.mark.parametrize(
    ("window", "oracle"),
    [
        (lambda rule: Awake(rule, BERLIN, "22:00-07:00"), swallowed),
        (lambda rule: OnDays(rule, BERLIN, HOLIDAYS, "move"), moved),
        (lambda rule: OnDays(rule, BERLIN, HOLIDAYS, "exclude"), None),
    ],
    ids=["quiet", "move", "exclude"],
)
def test_a_window_agrees_with_a_list_of_all_fires(
    expression: str, window: Callable[[Rule], Rule], oracle: Callable[[ZoneInfo, datetime], datetime] | None
) -> None:
    zone, plain = ZoneInfo(BERLIN), Cron(expression, BERLIN)
    rule, days = window(plain), read_days(HOLIDAYS)
    start, end = at("2030-10-20 11:13"), at("2031-01-08 03:20")
    fires = list(plain.between(start - timedelta(days=20), end))
    if oracle is None:
        answer = [fire for fire in fires if fire.astimezone(zone).date() not in days]
    else:
        answer = sorted({oracle(zone, fire) for fire in fires})
    expected = [fire for fire in answer if start < fire <= end]

    assert list(rule.between(start, end)) == expected
    assert rule.count(start, end) == len(expected)
    for hours in range(0, 1920, 97):  # wherever it begins or ends, also inside a day or a window
        middle = start + timedelta(hours=hours)
        assert rule.count(middle, end) == sum(fire > middle for fire in expected)
        assert rule.count(start, middle) == sum(fire <= middle for fire in expected)
    assert rule.previous_before(expected[-1]) == expected[-2]
    assert rule.previous_before(expected[-1] + TICK) == expected[-1]


# -- a schedule in windows ---------------------------------------------------------------------------------------------


def test_an_interval_in_quiet_hours_begins_when_they_end() -> None:
    schedule = Schedule("k", "h", "every", "900", quiet_hours="22:00-07:00", created_at=at("2030-01-01 23:00"))

    assert first_fire(schedule, at("2030-01-01 23:00")) == at("2030-01-02 07:00")
    assert first_fire(Schedule("k", "h", "every", "900", quiet_hours="22:00-07:00"), at("2030-01-01 12:00")) is not None


def test_an_interval_that_rests_waits_for_the_end_of_quiet_hours() -> None:
    rule = Awake(Every(3600, anchor="finish"), "UTC", "22:00-07:00")

    assert rule.next_after(at("2030-01-01 20:00")) == at("2030-01-01 21:00")
    assert rule.next_after(at("2030-01-01 21:30")) == at("2030-01-02 07:00")
    assert rule.next_after(at("2030-01-02 06:30")) == at("2030-01-02 07:30")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"quiet_hours": "late"}, "quiet_unreadable"),
        ({"quiet_hours": 7}, "type_wrong"),
        ({"calendar": "h", "calendar_rule": "swap"}, "choice_unknown"),
        ({"calendar": "h", "calendar_rule": "move", "expression": "*/5 * * * *"}, "move_too_often"),
        ({"calendar": "h", "calendar_rule": "move", "kind": "every", "expression": "60"}, "move_too_often"),
        ({"quiet_hours": "22:00-07:00", "kind": "once", "expression": "2030-01-01T00:00:00Z"}, "window_without_rhythm"),
    ],
)
def test_a_window_that_cannot_be_kept_is_refused(fields: dict[str, object], reason: str) -> None:
    terms: dict[str, object] = {"key": "k", "handler": "h", "kind": "cron", "expression": "0 9 * * *"}
    with refused(InvalidInput, reason):
        check(Schedule(**{**terms, **fields}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "english", "chinese"),
    [
        (
            {"quiet_hours": "22:00-7:00"},
            "At 09:00 every day (UTC), quiet 22:00-07:00: what falls there fires once at its end",
            "每天 09:00（UTC），22:00-07:00 静默，结束时补一次",
        ),
        (
            {"calendar": "bank"},
            "At 09:00 every day (UTC), except on days of the calendar bank",
            "每天 09:00（UTC），日历 bank 中的日子除外",
        ),
        (
            {"calendar": "bank", "calendar_rule": "move"},
            "At 09:00 every day (UTC); on days of the calendar bank, on the next day that is not one",
            "每天 09:00（UTC）；遇日历 bank 中的日子，顺延至其后第一个不在其中的日子",
        ),
        (
            {"calendar": "fairs", "calendar_rule": "include"},
            "At 09:00 every day (UTC), only on days of the calendar fairs",
            "每天 09:00（UTC），仅在日历 fairs 中的日子",
        ),
    ],
)
def test_windows_are_said(fields: dict[str, str], english: str, chinese: str) -> None:
    schedule = Schedule("k", "h", "cron", "0 9 * * *", **fields)  # type: ignore[arg-type]

    assert (schedule.describe(), schedule.describe("zh")) == (english, chinese)


def test_fires_that_were_moved_for_ten_years_are_counted_without_walking_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule that was down so long is decided inside a transaction."""
    walked: list[datetime] = []
    monkeypatch.setattr(OnDays, "next_after", lambda _, instant: walked.append(instant))
    rule = OnDays(Cron("0 * * * *", BERLIN), BERLIN, HOLIDAYS, "move")
    assert rule.count(at("2027-01-01 00:00"), at("2037-01-01 00:00")) > 60_000
    assert walked == []
