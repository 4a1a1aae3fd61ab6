"""Times as people write them: with an offset, or as a wall clock of some zone shows them (C-7)."""

from datetime import UTC, datetime

import pytest

from horae.core.time.readings import instant_from, local, second_of
from horae.errors import InvalidInput, UnknownZone
from tests.support.refusals import refused


def test_an_offset_is_obeyed_whatever_the_zone() -> None:
    assert instant_from("2030-01-07T06:00:00+08:00", "Europe/Berlin") == datetime(2030, 1, 6, 22, tzinfo=UTC)
    assert instant_from("2030-01-07T06:00:00Z", None) == datetime(2030, 1, 7, 6, tzinfo=UTC)


def test_a_time_without_an_offset_is_read_in_the_zone() -> None:
    assert instant_from("2030-01-07T06:00:00", "Asia/Shanghai") == datetime(2030, 1, 6, 22, tzinfo=UTC)
    assert instant_from("2030-07-01", "Europe/Berlin") == datetime(2030, 6, 30, 22, tzinfo=UTC)


def test_without_offset_and_zone_it_is_refused_with_what_to_write() -> None:
    with refused(InvalidInput, "reading_zone_missing", without_zone="2030-01-07T00:00:00"):
        instant_from("2030-01-07", None)


def test_a_time_that_clocks_skip_is_refused_with_the_first_moment_after() -> None:
    with refused(InvalidInput, "reading_skipped", zone="Europe/Berlin", next_local="2027-03-28T03:00:00+02:00"):
        instant_from("2027-03-28T02:30:00", "Europe/Berlin")


def test_a_time_that_clocks_repeat_is_the_first_of_the_two() -> None:
    assert instant_from("2027-10-31T02:30:00", "Europe/Berlin") == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


def test_the_second_of_two_is_known_and_every_other_time_has_none() -> None:
    assert second_of("2027-10-31T02:30:00", "Europe/Berlin") == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)
    for text in ("2027-10-31T01:59:59", "2027-10-31T03:00:00", "2027-10-31T02:30:00+02:00", "2027-10-31"):
        assert second_of(text, "Europe/Berlin") is None


@pytest.mark.parametrize("text", ["soon", "", "2030-13-01", "07:00"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with refused(InvalidInput, "instant_unreadable", text=text):
        instant_from(text, "UTC")


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UnknownZone):
        instant_from("2030-01-07", "Mars/Base")


def test_an_instant_is_shown_with_the_offset_of_its_zone() -> None:
    assert local(datetime(2030, 1, 7, 6, tzinfo=UTC), "Asia/Shanghai").isoformat() == "2030-01-07T14:00:00+08:00"
