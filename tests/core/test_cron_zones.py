"""The line of spans against the compiled zone files, which this test, unlike the core, may read."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import pytest

from horae.core.time.zones import span_at, spans_of, zone_named
from tests.core.cron_oracle import ZONES
from tests.support.cases import DEPTH

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = sorted(name for name in available_timezones() if name != "localtime")


def recorded_changes(name: str) -> list[datetime]:
    """Where a zone file says that the offset changes, between 1850 and 2037."""
    file = zone_file(name)
    counts = struct.unpack(">6l", file[20:44])
    begin = 44 + counts[3] * 5 + counts[4] * 6 + counts[5] + counts[2] * 8 + counts[1] + counts[0]
    _, _, _, times, kinds, _ = struct.unpack(">6l", file[begin + 20 : begin + 44])
    at = begin + 44
    instants = struct.unpack(f">{times}q", file[at : at + 8 * times])
    which = file[at + 8 * times : at + 9 * times]
    at += 9 * times
    offsets = [struct.unpack(">l", file[at + 6 * kind : at + 6 * kind + 4])[0] for kind in range(kinds)]
    found, offset = [], offsets[0]
    for instant, kind in zip(instants, which, strict=True):
        if offsets[kind] != offset:
            found.append(EPOCH + timedelta(seconds=instant))
        offset = offsets[kind]
    return [change for change in found if 1850 <= change.year < 2037]


def zone_file(name: str) -> bytes:
    for folder in TZPATH:
        try:
            with open(f"{folder}/{name}", "rb") as file:
                return file.read()
        except OSError:
            continue
    return resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()


@pytest.mark.parametrize("name", NAMES if DEPTH > 1 else [*ZONES, "America/Juneau", "Africa/Tunis", "Asia/Manila"])
def test_spans_begin_exactly_where_the_zone_file_says(name: str) -> None:
    zone = zone_named(name)
    line = [span for year in range(1849, 2037) for span in spans_of(zone, year)]
    found = [
        later.start for earlier, later in pairwise(line) if earlier.offset != later.offset and later.start.year >= 1850
    ]

    assert found == recorded_changes(name)


def test_no_two_changes_are_so_close_that_the_search_could_step_over_them() -> None:
    closest = min(later - earlier for name in NAMES for earlier, later in pairwise(recorded_changes(name)))

    assert closest > timedelta(days=3)


@pytest.mark.parametrize("name", ZONES)
def test_spans_leave_no_hole_and_their_readings_are_those_of_the_clock(name: str) -> None:
    zone = ZoneInfo(name)
    for year in (1971, 1993, 2011, 2012, 2030, 9998, 9999):
        spans = spans_of(zone, year)
        assert spans[0].start == datetime(year, 1, 1, tzinfo=UTC)
        assert all(earlier.end == later.start for earlier, later in pairwise(spans))
        for span in spans[:-1]:
            shown = span.start.astimezone(zone).replace(tzinfo=UTC)
            assert span.opens == shown
            assert span_at(zone, span.start) == span


def test_a_gap_at_the_turn_of_the_year_is_still_a_gap() -> None:
    after = spans_of(ZoneInfo("Pacific/Apia"), 2011)[-1]

    assert (after.fresh, after.opens) == (datetime(2011, 12, 30, tzinfo=UTC), datetime(2011, 12, 31, tzinfo=UTC))
