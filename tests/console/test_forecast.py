"""Forecast: fires by hour in a reader's zone, what piles up, when it is quiet, and what really happened."""

import html
import re
from datetime import timedelta

import pytest

from horae.actions.schedules import fires, schedules, timetable
from horae.core.schedules.schedule import Schedule
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.agents import make_pile
from tests.console.conftest import Browser, LogIn

LIVED = timedelta(hours=5)


def text_of(page: str) -> str:
    main = page.partition("<main")[2].partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock("2030-01-07T12:00:00Z")  # a Monday


def test_an_empty_forecast_teaches_how_to_make_a_schedule(operator: Browser) -> None:
    page = operator.open("/forecast")
    assert "No schedule yet." in page
    assert "--url http://horae.test:8765" in page


def test_a_pile_is_named_in_a_sentence_and_leads_to_its_schedules(operator: Browser, world: World) -> None:
    make_pile(world, 37)
    said = text_of(operator.open("/forecast"))
    assert "37 fires at once on Monday 14 Jan at 03:00." in said
    assert "37 schedules fire 74 times." in said
    page = operator.open("/forecast?hour=2030-01-14T03:00:00Z")
    assert "The hour from Monday 14 Jan 03:00" in text_of(page)
    assert len(re.findall(r'class="name" href="/console/schedules/tenant-\d+-digest"', page)) == 37


def test_hours_follow_the_reader_s_zone(operator: Browser, world: World) -> None:
    make_pile(world)
    operator.http.cookies.set("horae_tz", "Asia/Shanghai", path="/console")
    assert "9 fires at once on Monday 14 Jan at 11:00." in text_of(operator.open("/forecast"))
    assert "1月14日 星期一 11:00 同时触发 9 次。" in text_of(operator.open("/forecast?lang=zh"))
    operator.http.cookies.set("horae_zone", "utc", path="/console")
    assert "9 fires at once on Monday 14 Jan at 03:00." in text_of(operator.open("/forecast"))


def test_what_happened_stands_beside_what_will(log_in: LogIn, world: World, clock: VirtualClock) -> None:
    schedules.create(world, Schedule("often", "ping", "cron", "5 * * * *", misfire="skip", overlap="allow"))
    for minutes in (5, 60, 60):
        clock.advance(timedelta(minutes=minutes))
        fires.fire_due(world)
    clock.advance(timedelta(days=1, minutes=10))
    fires.fire_due(world)
    page = log_in().open("/forecast?hour=2030-01-07T13:10:00Z")
    said = text_of(page)
    assert "In the past 7 days 3 fires ran, 24 did not." in said
    assert "often ping · default 1 0" in said
    assert 'class="past l' in page
    assert 'class="ahead l' in page


def test_cells_are_links_with_words_and_the_table_has_the_same_numbers(operator: Browser, world: World) -> None:
    make_pile(world)
    page = operator.open("/forecast")
    assert 'href="/console/forecast?hour=2030-01-14T03%3A00%3A00Z#hour" tabindex="-1"' in page
    assert "Mon 14 Jan 03:00: 9 fires to come" in page
    assert re.search(r"03:00&nbsp;<span class=\"count\">9</span>", page)


def test_quiet_windows_are_named(operator: Browser, world: World) -> None:
    make_pile(world)
    said = text_of(operator.open("/forecast"))
    assert "167 hours from Monday 14 Jan 04:00" in said
    assert "nothing fires" in said


def test_a_look_that_is_cut_says_how_far_it_went(
    operator: Browser, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timetable, "MOST_COMPUTED", 100)
    for minute in range(40):
        schedules.create(world, Schedule(f"hourly-{minute}", "ping", "cron", f"{minute} * * * *"))
    assert "the look ahead ends at Monday 7 Jan 14:" in text_of(operator.open("/forecast"))


def test_a_tenant_s_forecast_has_its_own_schedules_alone(log_in: LogIn, world: World) -> None:
    make_pile(world, 5)
    schedules.create(world, Schedule("mine", "ping", "cron", "0 4 * * *", owner="acme"))
    page = log_in("acme", "read").open("/forecast?hour=2030-01-08T04:00:00Z")
    assert "mine" in page
    assert "tenant-" not in page


def test_the_timetable_equals_the_fires_that_happen(world: World, clock: VirtualClock) -> None:
    """Rules of several kinds, forecast and lived through: no hour differs."""
    rules = [("cron", "*/7 * * * *"), ("cron", "0 3 * * 1-5"), ("every", "420"), ("every", "5400"), ("every", "45")]
    for number, (kind, expression) in enumerate(rules):
        schedules.create(world, Schedule(f"s{number}", "ping", kind, expression, misfire="catch_up", overlap="allow"))  # type: ignore[arg-type]
    ahead = timetable.timetable(world, days=1, past=0)
    start = clock.now()
    while clock.now() < start + LIVED:
        clock.advance(timedelta(seconds=15))
        fires.fire_due(world)
    clock.advance(timedelta(seconds=1))
    behind = timetable.timetable(world, days=1, past=2)
    expected = {at: hour.fires for at, hour in ahead.hours.items() if hour.fires}
    lived = {at: hour.ran + hour.missed for at, hour in behind.hours.items() if hour.ran + hour.missed}
    whole = [at for at in expected if at + timedelta(hours=1) <= start + LIVED]
    assert {at: lived.get(at) for at in whole} == {at: expected[at] for at in whole}
