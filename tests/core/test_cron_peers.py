"""Agreement with croniter and cronsim where the dialects coincide; docs/reference/cron.md lists where they do not."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim

from horae.core.time.cron import Cron
from horae.errors import NeverFires
from tests.core.cron_oracle import an_expression
from tests.support.cases import cases

WHOLE_HOUR_ZONES = ("Europe/Berlin", "America/New_York", "Asia/Shanghai", "America/Sao_Paulo", "Pacific/Auckland")


def a_shared_expression(dice: random.Random, *, seconds: bool = False, busy: float = 0.7) -> str:
    """One that all three read alike.

    croniter takes 23-23 for every hour and a weekday */1 for a restriction; cronsim takes 12-12/5 for 12/5.
    """
    while True:
        expression = an_expression(dice, seconds=seconds, busy=busy)
        if not re.search(r"\b([0-9]+)-\1\b|\*/1(?![0-9])", expression):
            return expression


def an_instant(dice: random.Random) -> datetime:
    return datetime(dice.randint(1990, 2035), 1, 1, tzinfo=UTC) + timedelta(minutes=dice.randrange(525_600))


def next_five(cron: Cron, instant: datetime) -> list[datetime]:
    found: list[datetime] = []
    for _ in range(5):
        following = cron.next_after(found[-1] if found else instant)
        assert following is not None
        found.append(following)
    return found


@pytest.mark.parametrize("day_match", ["and", "or"])
@pytest.mark.parametrize("seconds", [False, True], ids=["five fields", "six fields"])
def test_in_utc_croniter_finds_the_same_fires(day_match: str, seconds: bool) -> None:
    dice = random.Random(f"croniter {day_match} {seconds}")
    for _ in range(cases(120)):
        expression = a_shared_expression(dice, seconds=seconds)
        try:
            cron = Cron(expression, day_match=day_match)  # type: ignore[arg-type]
        except NeverFires:
            continue
        start = an_instant(dice)
        peer = croniter(
            expression, start, day_or=day_match == "or", second_at_beginning=True, max_years_between_matches=50
        )
        assert next_five(cron, start) == [peer.get_next(datetime) for _ in range(5)], (expression, start)


@pytest.mark.parametrize("seconds", [False, True], ids=["five fields", "six fields"])
def test_in_utc_cronsim_finds_the_same_fires(seconds: bool) -> None:
    dice = random.Random(f"cronsim {seconds}")
    for _ in range(cases(200)):
        expression = a_shared_expression(dice, seconds=seconds)
        days, _, weekdays = expression.split()[-3:]
        both_star = days.startswith("*") or weekdays.startswith("*")  # Debian's sign for AND
        try:
            cron = Cron(expression, day_match="and" if both_star else "or")
        except NeverFires:
            continue
        start = an_instant(dice)
        peer = CronSim(expression, start)
        assert next_five(cron, start) == [next(peer) for _ in range(5)], (expression, start)


@pytest.mark.parametrize("zone", WHOLE_HOUR_ZONES)
def test_cronsim_agrees_about_clocks_that_jump_by_whole_hours(zone: str) -> None:
    dice = random.Random(f"jumps {zone}")
    for _ in range(cases(60)):
        expression = a_shared_expression(dice, busy=1)
        start = an_instant(dice)
        peer = CronSim(expression, start.astimezone(ZoneInfo(zone)))
        theirs = [next(peer).astimezone(UTC) for _ in range(30)]
        found = list(Cron(expression, zone).between(start, theirs[-1]))
        assert found == sorted(set(theirs)), (expression, start)


@pytest.mark.parametrize("text", ["L", "LW", "L,5"])
def test_cronsim_agrees_about_last_days(text: str) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    peer = CronSim(f"0 0 {text} * *", start)

    assert next_five(Cron(f"0 0 {text} * *", lenient=True), start) == [next(peer) for _ in range(5)]


@pytest.mark.parametrize("text", ["5L", "1#2", "FRI#5", "7#1", "0L,3#1", "MON-FRI"])
def test_cronsim_agrees_about_weekdays_in_their_month(text: str) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    peer = CronSim(f"0 0 * * {text}", start)

    assert next_five(Cron(f"0 0 * * {text}", lenient=True), start) == [next(peer) for _ in range(5)]


@pytest.mark.parametrize("text", ["1W", "15W", "28W"])
def test_croniter_agrees_about_the_nearest_working_day(text: str) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    peer = croniter(f"0 0 {text} * *", start)

    assert next_five(Cron(f"0 0 {text} * *", lenient=True), start) == [peer.get_next(datetime) for _ in range(5)]
