"""Whatever the rule, the downtime and the policy: every due fire is recorded once, nothing is early, nothing twice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.schedules.decisions import decide
from horae.core.schedules.schedule import Fire, Firing, Schedule, Unfinished, due_at, first_fire, next_fire
from tests.support.cases import cases

START = datetime(2030, 3, 30, tzinfo=UTC)  # the night before Paris and Berlin change the hour
TICK = timedelta(microseconds=1)

crons = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 * * 1-5", "15,45 */3 * * *", "0 12 29 2 *", "*/20 * * * * *"]
)
zones = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai"])
spans = st.integers(0, 3 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
shorts = st.integers(0, 600).map(lambda seconds: timedelta(seconds=seconds))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    created_at = START + draw(st.integers(0, 86_400 * 10**6).map(lambda micros: timedelta(microseconds=micros)))
    common: dict[str, Any] = {
        "misfire": draw(st.sampled_from(["fire_once", "skip", "catch_up"])),
        "catch_up": draw(st.integers(1, 20)),
        "spread": draw(shorts),
        "grace": draw(shorts),
        "overlap": draw(st.sampled_from(["skip", "queue_one", "allow"])),
        "jitter": draw(st.sampled_from([timedelta(0), timedelta(seconds=30)])),
        "ends_at": draw(st.none() | spans.map(lambda span: created_at + span)),
        "starts_at": draw(st.none() | shorts.map(lambda span: created_at + span)),
        "max_fires": draw(st.none() | st.integers(1, 10)),
        "created_at": created_at,
    }
    if draw(st.booleans()):
        return Schedule("s", "h", "cron", draw(crons), draw(zones), **common)
    period = draw(st.integers(30_000, 7_200_000)) / 1000
    return Schedule("s", "h", "every", str(period), initial_delay=draw(shorts), **common)


@st.composite
def unfinished(draw: st.DrawFn) -> Unfinished:
    groups = st.lists(st.integers(1, 3), unique=True, max_size=2).map(tuple)
    return Unfinished(draw(groups), draw(groups), dict.fromkeys(draw(groups), START))


def due_fires(schedule: Schedule, now: datetime) -> list[datetime]:
    """One after the other, as nobody would do it in earnest."""
    found = []
    fire = schedule.next_fire_at
    while fire is not None and fire <= now:
        found.append(fire)
        fire = next_fire(schedule, fire)
    return found


def answer(firing: Firing) -> int:
    return sum(fire.count for fire in firing.fires)


@settings(max_examples=cases(150), deadline=None)
@given(schedules(), spans.filter(bool), unfinished(), st.floats(0, 1, exclude_max=True))
def test_every_due_fire_is_told_exactly_once(
    schedule: Schedule, late: timedelta, there: Unfinished, roll: float
) -> None:
    """I8: run + merged + skipped = due."""
    assert schedule.created_at is not None
    first = first_fire(schedule, schedule.created_at)
    if first is None:
        return
    schedule = replace(schedule, next_fire_at=first, next_due_at=due_at(schedule, first, roll))
    assert schedule.next_due_at is not None
    now = schedule.next_due_at + late

    firing = decide(schedule, now, there, roll)

    due = due_fires(schedule, now)
    assert answer(firing) == len(due)
    assert firing.fires[0].fire_at == due[0]
    instants = [moment for fire in firing.fires for moment in (fire.fire_at, fire.last_at) if moment is not None]
    assert instants == sorted(set(instants)), "records overlap"
    assert set(instants) <= set(due)
    ran = [fire for fire in firing.fires if fire.verdict == "ran"]
    for fire in ran:
        assert fire.due_at is not None
        assert fire.due_at >= fire.fire_at, "early (I9)"
    assert firing.fire_count == schedule.fire_count + len(ran)
    assert schedule.max_fires is None or firing.fire_count <= schedule.max_fires
    if firing.next_fire_at is not None:
        assert firing.next_fire_at > max(now, due[-1]), "the next is not later than what has come"
        assert firing.next_due_at is not None
        assert firing.next_due_at >= firing.next_fire_at


@settings(max_examples=cases(60), deadline=None)
@given(schedules(), st.lists(spans, min_size=2, max_size=6), st.floats(0, 1, exclude_max=True))
def test_a_life_of_downtimes_leaves_no_gap_and_no_double(
    schedule: Schedule, naps: list[timedelta], roll: float
) -> None:
    """I7, I8: the records of a whole life, laid side by side, are the fires of its rule."""
    schedule = replace(schedule, max_fires=None)
    assert schedule.created_at is not None
    now = schedule.created_at
    first = first_fire(schedule, now)
    schedule = replace(schedule, next_fire_at=first, next_due_at=due_at(schedule, first, roll))
    life = schedule
    records: list[Fire] = []
    for nap in naps:
        now += nap
        while schedule.next_due_at is not None and schedule.next_due_at <= now:
            firing = decide(schedule, now, Unfinished(), roll)
            records += firing.fires
            schedule = replace(schedule, next_fire_at=firing.next_fire_at, next_due_at=firing.next_due_at)

    covered = [moment for fire in records for moment in (fire.fire_at, fire.last_at or fire.fire_at)]
    assert all(before <= after for before, after in pairwise(covered))
    ended = schedule.next_fire_at or datetime.max.replace(tzinfo=UTC)
    expected = due_fires(life, min(now, ended - TICK))
    assert sum(fire.count for fire in records) == len(expected)
