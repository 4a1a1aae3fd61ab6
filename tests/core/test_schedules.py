"""Intervals and single instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.schedules.rules import Cron, Every, Once, Rule
from horae.errors import InvalidInput, InvalidInterval
from tests.support.refusals import refused

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
aware_instants = st.datetimes(timezones=st.just(UTC))
periods = st.timedeltas(timedelta(milliseconds=1), timedelta(days=400)).map(
    lambda span: max(timedelta(milliseconds=1), span - span % timedelta(milliseconds=1))
)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def test_a_number_means_seconds() -> None:
    assert Every(90) == Every(timedelta(seconds=90))
    assert Every(0.5).period == timedelta(milliseconds=500)
    assert hash(Every(90)) == hash(Every(90.0))


def test_every_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Every(60).period = minutes(2)  # type: ignore[misc]


def test_a_fixed_rate_keeps_its_grid_however_late_one_asks() -> None:
    every = Every(600).starting(NOON + minutes(3))

    assert every.next_after(NOON + minutes(3)) == NOON + minutes(13)
    assert every.next_after(NOON + minutes(44.5)) == NOON + minutes(53)
    assert every.next_after(NOON - minutes(1000)) == NOON + minutes(3)


def test_an_interval_without_a_start_lies_on_full_hours() -> None:
    assert Every(3600).next_after(NOON + minutes(1)) == NOON + minutes(60)
    assert Every(3600).next_after(datetime(1960, 1, 1, 0, 30, tzinfo=UTC)) == datetime(1960, 1, 1, 1, tzinfo=UTC)


def test_a_fixed_delay_counts_from_the_end_of_the_last_run() -> None:
    every = Every(60, anchor="finish", start=NOON)

    assert every.next_after(NOON + minutes(2.5)) == NOON + minutes(3.5)
    assert every.next_after(NOON - minutes(9)) == NOON


def test_the_first_fire_comes_at_once_or_after_the_initial_delay() -> None:
    assert Every(60).first_fire(NOON) == NOON
    assert Every(60, initial_delay=30).first_fire(NOON) == NOON + minutes(0.5)
    assert Every(60, initial_delay=30).starting(NOON).next_after(NOON) == NOON + minutes(0.5)
    assert Every(60, initial_delay=30).starting(NOON).next_after(NOON + minutes(0.5)) == NOON + minutes(1.5)


@pytest.mark.parametrize("period", [0, -1, 0.0001, float("nan"), float("inf"), "60 s", None, True, timedelta(0), 1e300])
def test_a_period_that_cannot_be_kept_is_refused(period: object) -> None:
    with refused(InvalidInterval, ("interval_invalid", "interval_too_short"), name="period"):
        Every(period)  # type: ignore[arg-type]


def test_a_negative_delay_and_an_unknown_anchor_are_refused() -> None:
    with refused(InvalidInterval, "interval_too_short", name="initial_delay"):
        Every(60, initial_delay=-1)
    with refused(InvalidInput, "choice_unknown", name="anchor"):
        Every(60, anchor="middle")  # type: ignore[arg-type]
    with refused(InvalidInput, "zone_missing"):
        Every(60, start=datetime(2030, 1, 1))  # noqa: DTZ001  the point of the test


@pytest.mark.parametrize("anchor", ["start", "finish"])
def test_an_interval_ends_with_the_calendar(anchor: str) -> None:
    every = Every(timedelta(days=9), anchor=anchor, start=NOON)  # type: ignore[arg-type]

    assert every.next_after(datetime(9999, 12, 31, tzinfo=UTC)) is None


@given(periods, aware_instants, aware_instants)
def test_an_interval_fires_strictly_later_on_its_grid_and_skips_nothing(
    period: timedelta, start: datetime, instant: datetime
) -> None:
    fire = Every(period, start=start).next_after(instant)

    if fire is not None:
        assert fire > instant
        assert (fire - start) % period == timedelta(0)
        assert fire - period <= instant or fire == start


@given(periods, st.datetimes(datetime(2000, 1, 1), datetime(2050, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_range_of_an_interval_is_the_iterated_next_fire(period: timedelta, start: datetime) -> None:
    every = Every(period, start=start)
    end = start + 7 * period

    assert list(every.between(start, end)) == [start + n * period for n in range(1, 8)]
    assert list(islice(every.between(end, start), 1)) == []


def test_once_fires_once() -> None:
    once = Once(datetime(2030, 1, 7, 20, tzinfo=timezone(timedelta(hours=8))))

    assert once == Once(NOON)
    assert once.next_after(NOON - minutes(1)) == NOON
    assert once.next_after(NOON) is None
    assert list(once.between(NOON - minutes(1), NOON)) == [NOON]
    assert list(once.between(NOON, NOON + minutes(1))) == []


def test_once_needs_a_zone() -> None:
    with refused(InvalidInput, "zone_missing"):
        Once(datetime(2030, 1, 1))  # noqa: DTZ001  the point of the test


@pytest.mark.parametrize("rule", [Cron("0 9 * * *"), Every(60), Once(NOON)], ids=["cron", "every", "once"])
def test_every_kind_answers_the_same_questions(rule: Rule) -> None:
    found = list(rule.between(NOON - minutes(2000), NOON + minutes(2000)))

    assert isinstance(rule, Rule)
    assert rule.next_after(NOON - minutes(2000)) == found[0]
    assert rule.describe("en") != rule.describe("zh")
