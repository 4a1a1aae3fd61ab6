"""Expectations: how they are read, when each deadline is, and what was missed, by example and step by step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horae.core.schedules.expect import Expect, expect_text, read_expect
from horae.core.schedules.expectations import after_success, begin, judge, next_deadline
from horae.core.schedules.schedule import Schedule, check
from horae.errors import InvalidInput, UnknownZone
from tests.core.cron_oracle import at
from tests.support.refusals import refused

BERLIN = "Europe/Berlin"


def nightly(expect: str, since: str = "2030-06-03 00:00", **more: Any) -> Schedule:
    plain = Schedule("nightly", "report", "cron", "0 2 * * *", expect=expect, created_at=at("2030-01-01 00:00"))
    return check(replace(plain, expected_since=at(since), **more))


def deadlines(schedule: Schedule, count: int) -> list[str]:
    since, found = schedule.expected_since, []
    assert since is not None
    for _ in range(count):
        deadline = next_deadline(schedule, since)
        if deadline is None:
            break
        found.append(f"{deadline.at:%m-%d %H:%M}")
        since = deadline.judged
    return found


# -- read ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("within 10m", "within 10m"),
        ("  within   90m ", "within 1h30m"),
        ("within 86400", "within 1d"),
        ("by 6:00", "by 06:00"),
        ("by 06:00 Europe/Berlin", "by 06:00 Europe/Berlin"),
        ("every 25h", "every 1d1h"),
        ("every 1w", "every 7d"),
        ("every 1500ms", "every 1s500ms"),
        ("by 2030-01-07T07:00+01:00", "by 2030-01-07T06:00:00Z"),
    ],
)
def test_an_expectation_is_stored_in_one_form(text: str, stored: str) -> None:
    assert expect_text(text) == stored
    assert expect_text(read_expect(stored)) == stored


def test_an_expectation_is_text_or_a_value() -> None:
    assert expect_text(Expect(within="10m")) == "within 10m"
    assert expect_text(Expect(every=timedelta(days=1))) == "every 1d"
    assert expect_text(Expect(by="6:30", zone=BERLIN)) == "by 06:30 Europe/Berlin"
    assert expect_text(Expect(by=datetime(2030, 1, 7, 12, tzinfo=UTC))) == "by 2030-01-07T12:00:00Z"
    assert expect_text(None) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expect_unreadable"),
        ("soon", "expect_unreadable"),
        ("before 06:00", "expect_unreadable"),
        ("10m", "expect_bare_span"),
        ("06:00", "expect_bare_time"),
        ("by 25:00", "expect_time_unreadable"),
        ("by noon", "expect_time_unreadable"),
        ("within 10m Europe/Berlin", "expect_zone_unused"),
        ("within 0", "expect_span_outside"),
        ("every 100ms", "expect_span_outside"),
        ("within ten", "duration_unreadable"),
        ("by 2030-01-07T06:00:00", "offset_missing"),
        ("by 2030-13-07T06:00:00Z", "instant_unreadable"),
        ("by 2030-01-07T06:00:00Z Europe/Berlin", "expect_zone_unused"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_hint(text: str, reason: str) -> None:
    with refused(InvalidInput, reason):
        expect_text(text)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UnknownZone):
        expect_text("by 06:00 Mars/Olympus")


def test_an_expectation_says_one_thing() -> None:
    with refused(InvalidInput, "expect_not_one"):
        Expect()
    with refused(InvalidInput, "expect_not_one"):
        Expect(within="10m", by="06:00")
    with refused(InvalidInput, "type_wrong"):
        expect_text(10)  # type: ignore[arg-type]


def test_a_follower_and_a_local_schedule_cannot_have_every_expectation() -> None:
    follower = Schedule("clean", "clean", "after", "", after=("nightly",))
    with refused(InvalidInput, "expect_without_times"):
        check(replace(follower, expect="within 10m"))
    check(replace(follower, expect="by 06:00"))
    with refused(InvalidInput, "expect_on_all_nodes"):
        nightly("within 10m", mode="ALL_NODES")
    with refused(InvalidInput, "expect_instant_on_schedule"):
        nightly("by 2030-01-07T06:00:00Z")


@pytest.mark.parametrize(
    ("text", "english", "chinese"),
    [
        ("within 10m", "a run has succeeded within 10 minutes of being due", "到期后10分钟内应有一次成功的运行"),
        (
            "by 06:00 Europe/Berlin",
            "a run has succeeded by 06:00 (Europe/Berlin) on each day that it is due",
            "在到期的每一天，06:00（Europe/Berlin）之前应有一次成功的运行",
        ),
        ("every 1d", "a run has succeeded at least every 1 day", "至少每1天应有一次成功的运行"),
    ],
)
def test_an_expectation_in_words(text: str, english: str, chinese: str) -> None:
    assert (read_expect(text).describe(), read_expect(text).describe("zh")) == (english, chinese)


# -- deadlines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expect", "more", "expected"),
    [
        ("within 10m", {}, ["06-03 02:10", "06-04 02:10", "06-05 02:10"]),
        ("within 10m", {"jitter": timedelta(minutes=5)}, ["06-03 02:15", "06-04 02:15", "06-05 02:15"]),
        ("within 10m", {"quiet_hours": "01:00-07:00"}, ["06-03 07:10", "06-04 07:10", "06-05 07:10"]),
        ("by 06:00", {}, ["06-03 06:00", "06-04 06:00", "06-05 06:00"]),
        ("by 06:00", {"zone": BERLIN}, ["06-04 04:00", "06-05 04:00", "06-06 04:00"]),
        ("by 06:00 Asia/Tokyo", {}, ["06-03 21:00", "06-04 21:00", "06-05 21:00"]),
        ("by 02:00", {}, ["06-04 02:00", "06-05 02:00", "06-06 02:00"]),
        ("every 25h", {}, ["06-04 01:00", "06-05 02:00", "06-06 03:00"]),
        ("within 10m", {"ends_at": at("2030-06-04 12:00")}, ["06-03 02:10", "06-04 02:10"]),
        ("by 06:00", {"expression": "0 2 * * 1"}, ["06-03 06:00", "06-10 06:00", "06-17 06:00"]),
        ("by 06:00", {"expression": "0 * * * *"}, ["06-03 06:00", "06-04 06:00", "06-05 06:00"]),
    ],
)
def test_deadlines_follow_the_fires(expect: str, more: dict[str, Any], expected: list[str]) -> None:
    assert deadlines(nightly(expect, **more), 3) == expected


def test_days_that_a_calendar_leaves_out_have_no_deadline() -> None:
    weekdays = {"calendar": "bank", "calendar_days": ("sat", "sun")}
    friday = "2030-06-07 12:00"
    assert deadlines(nightly("within 10m", friday, **weekdays), 1) == ["06-10 02:10"]
    assert deadlines(nightly("by 06:00", friday, **weekdays), 1) == ["06-10 06:00"]
    assert deadlines(nightly("every 1d", friday, **weekdays), 1) == ["06-11 02:00"], "from the first fire after it"


@pytest.mark.parametrize(
    "state",
    [
        {"paused_at": at("2030-06-01 00:00")},
        {"enabled": False},
        {"toggled": False},
        {"inactive": "its handler is gone"},
    ],
)
def test_nothing_is_expected_of_a_schedule_that_is_off(state: dict[str, Any]) -> None:
    assert deadlines(nightly("within 10m", **state), 1) == []
    assert judge(nightly("every 1d", **state), at("2031-01-01 00:00")).open is None


def test_a_spent_schedule_is_expected_to_finish_its_last_run_only() -> None:
    spent = nightly("within 10m", max_fires=3, fire_count=3, last_fire_at=at("2030-06-03 02:00"))
    assert deadlines(spent, 3) == ["06-03 02:10"]


def test_an_hour_that_clocks_skip_has_a_deadline_after_the_gap() -> None:
    spring = nightly("by 02:30", "2030-03-30 00:00", zone=BERLIN, expression="0 1 * * *")
    assert deadlines(spring, 2) == ["03-31 01:00", "04-01 00:30"]


def test_a_follower_is_expected_every_day() -> None:
    follower = Schedule("clean", "clean", "after", "", after=("nightly",), expect="by 06:00")
    follower = replace(follower, expected_since=at("2030-06-03 00:00"))
    assert deadlines(follower, 2) == ["06-03 06:00", "06-04 06:00"]


def test_what_is_due_already_when_it_is_made_is_expected() -> None:
    now = at("2030-06-03 12:00")
    once = Schedule("x", "x", "once", "2030-06-01T00:00:00Z", expect="within 10m", next_fire_at=at("2030-06-01 00:00"))
    deadline = next_deadline(once, begin(once, now))
    assert deadline is not None
    assert deadline.at == at("2030-06-01 00:10")


# -- success and judgement -------------------------------------------------------------------------------------------


def succeed(schedule: Schedule, moment: str) -> Schedule:
    return after_success(schedule, at(moment)) or schedule


def test_a_success_in_time_moves_the_expectation_on() -> None:
    done = succeed(nightly("within 10m"), "2030-06-03 02:05")
    assert done.succeeded_at is None
    judged = judge(done, at("2030-06-03 02:10"))
    assert (judged.open, judged.late, judged.again_at) == (None, None, at("2030-06-04 02:10"))


def test_a_success_before_it_was_due_does_not_count() -> None:
    assert after_success(nightly("within 10m"), at("2030-06-03 01:00")) is None
    assert judge(nightly("within 10m"), at("2030-06-03 02:10")).open is not None


def test_a_missed_deadline_is_found_once() -> None:
    first = judge(nightly("within 10m"), at("2030-06-03 02:10"))
    assert first.open is not None
    assert (first.open.first.since, first.open.first.at) == (at("2030-06-03 02:00"), at("2030-06-03 02:10"))
    assert (first.schedule.missed_at, first.again_at) == (at("2030-06-03 02:10"), at("2030-06-04 02:10"))
    again = judge(first.schedule, at("2030-06-03 02:10"))
    assert (again.open, again.schedule) == (None, first.schedule)


def test_a_clock_that_steps_back_finds_nothing_twice() -> None:
    first = judge(nightly("within 10m"), at("2030-06-03 02:10")).schedule
    stepped = judge(first, at("2030-06-02 00:00"))
    assert (stepped.open, stepped.schedule, stepped.again_at) == (None, first, at("2030-06-04 02:10"))


def test_a_late_success_closes_what_is_open() -> None:
    open_ = judge(nightly("within 10m"), at("2030-06-03 02:10")).schedule
    late = succeed(open_, "2030-06-03 05:00")
    judged = judge(late, at("2030-06-03 05:00"))
    assert (judged.recovered_at, judged.open, judged.late) == (at("2030-06-03 05:00"), None, None)
    assert (judged.schedule.missed_at, judged.schedule.succeeded_at) == (None, None)
    assert judged.again_at == at("2030-06-04 02:10")


def test_a_late_check_tells_late_from_missing() -> None:
    late = succeed(nightly("within 10m"), "2030-06-03 05:00")
    assert late.succeeded_at == at("2030-06-03 05:00")
    judged = judge(late, at("2030-06-05 03:00"))
    assert judged.late is not None
    assert judged.open is not None
    assert (judged.late.count, judged.late.first.at, judged.recovered_at) == (
        1,
        at("2030-06-03 02:10"),
        late.succeeded_at,
    )
    assert (judged.open.count, judged.open.first.at) == (2, at("2030-06-04 02:10"))
    assert judged.schedule.missed_at == at("2030-06-04 02:10")


def test_a_late_check_counts_what_was_missed_in_a_row() -> None:
    minutely = nightly("within 30s", expression="* * * * *")
    judged, rounds, count = judge(minutely, at("2030-06-04 00:00")), 1, 0
    while judged.open is not None:
        count += judged.open.count
        judged, rounds = judge(judged.schedule, at("2030-06-04 00:00")), rounds + 1
    assert (count, rounds) == (1439, 3)


def test_every_counts_from_the_last_success() -> None:
    daily = succeed(succeed(nightly("every 25h"), "2030-06-03 02:05"), "2030-06-03 08:00")
    assert judge(daily, at("2030-06-04 08:00")).again_at == at("2030-06-04 09:00")
    missed = judge(daily, at("2030-06-04 09:00"))
    assert missed.open is not None
    assert missed.again_at == at("2030-06-05 10:00")
    recovered = judge(succeed(missed.schedule, "2030-06-04 12:00"), at("2030-06-04 12:00"))
    assert (recovered.recovered_at, recovered.again_at) == (at("2030-06-04 12:00"), at("2030-06-05 13:00"))
    assert judge(recovered.schedule, at("2030-06-04 12:00")).again_at == recovered.again_at


def test_by_is_met_by_one_success_of_the_day() -> None:
    hourly = succeed(nightly("by 06:00", expression="0 * * * *"), "2030-06-03 01:01")
    judged = judge(hourly, at("2030-06-03 06:00"))
    assert (judged.open, judged.again_at) == (None, at("2030-06-04 06:00"))


def test_a_run_of_random_length_is_judged_like_a_list_of_all_occurrences() -> None:
    """Whatever order successes and checks come in, an occurrence is missed just when no success fell into its span."""
    import random

    dice = random.Random(16)
    for _ in range(60):
        schedule, now = nightly("within 20m", expression="0 * * * *"), at("2030-06-03 00:00")
        successes: list[datetime] = []
        found = 0
        for _ in range(60):
            now += timedelta(minutes=dice.randint(1, 40))
            if dice.random() < 0.4:
                successes.append(now)
                schedule = after_success(schedule, now) or schedule
            judged = judge(schedule, now)  # at once, as a check that a success has pulled forward
            schedule = judged.schedule
            found += sum(each.count for each in (judged.late, judged.open) if each is not None)
        fires = [at("2030-06-03 00:00") + timedelta(hours=n) for n in range(1, 60)]
        due = [fire for fire in fires if fire + timedelta(minutes=20) <= now]
        missed = [f for f in due if not any(f <= each <= f + timedelta(minutes=20) for each in successes)]
        assert found == len(missed)
