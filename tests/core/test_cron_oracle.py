"""The engine against a walk through real time, and the properties every answer must have."""

from __future__ import annotations

import calendar
import random
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.time.cron import Cron
from horae.errors import NeverFires
from tests.core.cron_oracle import ZONES, Oracle, a_field, an_expression, changes, date_matches
from tests.support.cases import cases

pytestmark = pytest.mark.slow  # thousands of days, walked minute by minute

OPTIONS = [(day, gap, fold) for day in ("and", "or") for gap in ("after", "skip") for fold in ("first", "both")]


def a_cron(dice: random.Random, zone: str, *, seconds: bool = False, busy: float = 0.8) -> tuple[Cron, Oracle]:
    """The same random schedule for the engine and for the oracle."""
    while True:
        expression = an_expression(dice, seconds=seconds, busy=busy)
        day_match, gap, fold = dice.choice(OPTIONS)
        try:
            cron = Cron(expression, zone, day_match=day_match, gap=gap, fold=fold)  # type: ignore[arg-type]
        except NeverFires:
            continue
        return cron, Oracle(expression, zone, day_match, gap, fold)


def a_window(dice: random.Random, zone: str, first: int = 1971, last: int = 2060) -> datetime:
    """An instant, mostly shortly before the offset of the zone changes."""
    year = dice.randint(first, last)
    if zone == "Pacific/Apia":
        year = dice.choice([2011, year])
    if zone == "Pacific/Kwajalein":
        year = dice.choice([1993, year])
    near = changes(zone, year)
    start = dice.choice(near) if near and dice.random() < 0.85 else datetime(year, dice.randint(1, 12), 28, tzinfo=UTC)
    return start - timedelta(minutes=dice.randrange(600))


@pytest.mark.parametrize("zone", ZONES)
def test_the_engine_fires_exactly_where_a_minute_by_minute_walk_does(zone: str) -> None:
    dice = random.Random(f"minutes {zone}")
    for _ in range(cases(80)):
        cron, oracle = a_cron(dice, zone)
        start = a_window(dice, zone)
        end = start + timedelta(hours=dice.choice([12, 34, 40]))
        assert list(cron.between(start, end)) == oracle.fires(start, end), (cron, start)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Antarctica/Troll"])
def test_with_seconds_the_engine_fires_exactly_where_a_second_by_second_walk_does(zone: str) -> None:
    dice = random.Random(f"seconds {zone}")
    for _ in range(cases(4)):
        cron, oracle = a_cron(dice, zone, seconds=True)
        change = dice.choice(changes(zone, dice.randint(2015, 2030)) or [datetime(2020, 2, 29, tzinfo=UTC)])
        start = change + timedelta(hours=dice.randrange(20))
        end = start + timedelta(hours=5)
        assert list(cron.between(start, end)) == oracle.fires(start, end, timedelta(hours=3)), (cron, start)


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        ("Europe/Amsterdam", datetime(1937, 6, 30, 22, tzinfo=UTC)),  # +0:19:32 becomes +0:20
        ("America/New_York", datetime(1883, 11, 18, 15, tzinfo=UTC)),  # local mean time ends, with a fold of 3:58
        ("Africa/Monrovia", datetime(1972, 1, 6, 22, tzinfo=UTC)),  # -0:44:30 until 1972
        ("Asia/Shanghai", datetime(1900, 12, 31, 14, tzinfo=UTC)),
        ("Europe/Paris", datetime(1911, 3, 10, 22, tzinfo=UTC)),
    ],
)
def test_offsets_with_seconds_are_kept_to_the_second(zone: str, start: datetime) -> None:
    dice = random.Random(zone)
    for expression in ("* * * * *", "*/7 * * * *", "0 0 * * *", "0-59 0-23 * * *", an_expression(dice, busy=1)):
        cron, oracle = Cron(expression, zone), Oracle(expression, zone)
        oracle.seconds, oracle.unit = {0}, timedelta(seconds=1)
        end = start + timedelta(hours=4)
        assert list(cron.between(start, end)) == oracle.fires(start, end, timedelta(hours=3)), expression


def test_dates_agree_with_a_day_by_day_walk_over_forty_years() -> None:
    dice = random.Random("dates")
    for _ in range(cases(60)):
        days = dice.choice(["*", "L", "L-3", "L-29,5", "LW", "1W", "31W", "15W,L", "29", "31", a_field(dice, 1, 31)])
        weekdays = dice.choice(["*", "1", "5L", "0L", "1#5", "3#1,2", "6#2", a_field(dice, 0, 6)])
        months = dice.choice(["*", "2", "2,4", a_field(dice, 1, 12)])
        day_match = dice.choice(["and", "or"])
        try:
            cron = Cron(f"0 0 {days} {months} {weekdays}", day_match=day_match, lenient=True)  # type: ignore[arg-type]
        except NeverFires:
            continue
        first = date(dice.randint(1900, 2100), 1, 1).toordinal()
        walked = (
            date.fromordinal(number)
            for number in range(first, first + 15_000)
            if date_matches([days, months, weekdays], date.fromordinal(number), day_match)
        )
        before = datetime.fromordinal(first).replace(tzinfo=UTC) - timedelta(seconds=1)
        fires = cron.between(before, before + timedelta(days=15_000))
        assert [fire.date() for fire in islice(fires, 6)] == list(islice(walked, 6)), cron


def test_never_is_said_exactly_when_no_day_of_four_hundred_years_matches() -> None:
    shapes = {}
    for number in range(date(2000, 1, 1).toordinal(), date(2400, 1, 1).toordinal()):
        day = date.fromordinal(number)
        following = date.fromordinal(number + 7)
        last_week, fourth = following.month != day.month, date.fromordinal(number + 3).month != day.month
        month = calendar.monthrange(day.year, day.month)
        shapes[day.month, day.day, day.weekday(), last_week, fourth, month] = day
    dice = random.Random("never")
    verdicts = set()
    for _ in range(cases(120)):
        days = dice.choice(
            ["30", "31", "29-31", "L-28", "L-30", "LW", "31W", "30W", "1-7", "22", "20,21", "L", a_field(dice, 1, 31)]
        )
        weekdays = dice.choice(["*", "0", "6", "0,6", "5L", "1#5", "2#4", "1#1", a_field(dice, 0, 6)])
        columns = [days, dice.choice(["2", "2", "4", "2,4", "11", "*"]), weekdays]
        matches = any(date_matches(columns, day, "and") for day in shapes.values())
        verdicts.add(matches)
        try:
            Cron(" ".join(["0 0", *columns]), lenient=True)
        except NeverFires:
            assert not matches, columns
        else:
            assert matches, columns
    assert verdicts == {True, False}


instants = st.datetimes(
    min_value=datetime(1900, 1, 1),  # noqa: DTZ001  made aware by the strategy
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
seeds = st.integers(0, 2**32)
zones = st.sampled_from(ZONES)


@settings(max_examples=cases(150), deadline=None)
@given(seeds, zones, instants)
def test_the_next_fire_is_strictly_later(seed: int, zone: str, instant: datetime) -> None:
    cron, _ = a_cron(random.Random(seed), zone)

    fire = cron.next_after(instant)

    assert fire is not None
    assert fire > instant
    assert fire.tzinfo is UTC


@settings(max_examples=cases(150), deadline=None)
@given(seeds, zones, instants, st.timedeltas(timedelta(0), timedelta(days=400)))
def test_a_later_question_never_has_an_earlier_answer(seed: int, zone: str, instant: datetime, wait: timedelta) -> None:
    cron, _ = a_cron(random.Random(seed), zone)

    sooner, later = cron.next_after(instant), cron.next_after(instant + wait)

    assert sooner is not None
    assert later is not None
    assert sooner <= later
    assert later == sooner or sooner <= instant + wait


@settings(max_examples=cases(100), deadline=None)
@given(seeds, zones, instants)
def test_no_fire_is_skipped_or_repeated_wherever_one_asks(seed: int, zone: str, instant: datetime) -> None:
    dice = random.Random(seed)
    cron, _ = a_cron(dice, zone)
    first = cron.next_after(instant)
    assert first is not None
    second = cron.next_after(first)
    assert second is not None

    between = first + (second - first) * dice.random()

    assert cron.next_after(min(between, second - timedelta(microseconds=1))) == second
    assert cron.next_after(first - timedelta(microseconds=1)) == first


@settings(max_examples=cases(60), deadline=None)
@given(seeds, zones, instants, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_a_range_is_the_iterated_next_fire_and_ranges_tile(
    seed: int, zone: str, start: datetime, length: timedelta
) -> None:
    cron, _ = a_cron(random.Random(seed), zone, busy=1)
    end, middle = start + length, start + length / 3
    iterated = []
    fire = cron.next_after(start)
    while fire is not None and fire <= end:
        iterated.append(fire)
        fire = cron.next_after(fire)

    assert list(cron.between(start, end)) == iterated
    assert [*cron.between(start, middle), *cron.between(middle, end)] == iterated
