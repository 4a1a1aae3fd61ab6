"""Instants: aware, exact to the microsecond, readable (C-6)."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.time.instants import aware, from_iso, instant, iso, micros
from horae.errors import InvalidInput
from horae.testing.clock import NOON
from tests.support.refusals import refused

days = st.timedeltas(timedelta(0), timedelta(days=3_650_000))
moments = days.map(lambda since: datetime(1, 1, 2, tzinfo=UTC) + since)


@given(moments)
def test_microseconds_are_exact(moment: datetime) -> None:
    assert instant(micros(moment)) == moment


@given(moments, st.integers(-23, 23))
def test_the_wire_form_names_the_same_instant_in_any_zone(moment: datetime, hours: int) -> None:
    assert from_iso(iso(moment.astimezone(timezone(timedelta(hours=hours))))) == moment


@given(moments, moments)
def test_order_is_kept_in_storage(one: datetime, other: datetime) -> None:
    assert (one < other) == (micros(one) < micros(other))


def test_the_wire_form_ends_in_z() -> None:
    assert iso(NOON) == "2030-01-07T12:00:00Z"


def test_microseconds_are_shown_only_where_there_are_any() -> None:
    assert iso(NOON + timedelta(microseconds=5)) == "2030-01-07T12:00:00.000005Z"


def test_a_naive_datetime_is_refused_and_named() -> None:
    with refused(InvalidInput, "zone_missing", name="run_at", value="2030-01-07T12:00:00"):
        aware(datetime(2030, 1, 7, 12), "run_at")  # noqa: DTZ001


@pytest.mark.parametrize("text", ["", "tomorrow", "2030-01-07", "2030-01-07T06:00:00", "2030-13-01T00:00:00Z"])
def test_what_is_not_an_instant_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        from_iso(text)


def test_an_instant_beyond_the_calendar_in_utc_is_refused() -> None:
    with pytest.raises(InvalidInput):
        aware(datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))))
