"""Home: what needs a person, said once; what comes, as far as the picture reaches (S3-54)."""

import re
from datetime import timedelta

from horae import Horae
from horae.actions import roll_up
from horae.actions.jobs import claims, endings
from horae.console.ahead import look_ahead
from horae.console.menu import ENTRIES
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.conftest import Browser
from tests.console.ground import make_day
from tests.console.test_schedules import text_of

HOUR = timedelta(hours=1)


def test_the_menu_has_ten_entries_and_the_rest_lies_under_them() -> None:
    outer = [each.path for each in ENTRIES if not each.under]
    assert len(outer) == 10
    assert all(each.under in outer for each in ENTRIES if each.under)


def test_many_new_errors_are_one_line(operator: Browser, app: Horae, world: World, clock: VirtualClock) -> None:
    for name in ("charge", "print"):
        app.jobs.enqueue(name, {})
    for job in claims.pull(world, worker_id="w", queues=("default",), limit=2):
        endings.fail(world, job.id, job.token, f"ValueError: {job.handler} is broken")
    clock.advance(timedelta(minutes=3))
    roll_up.keep_up(world)
    said = text_of(operator.open("/"))
    assert "New kinds of errors in the last day: 2 (ValueError: print is broken, ValueError: charge is broken)." in said


def test_each_schedule_is_listed_once_with_its_title_and_words(operator: Browser, app: Horae) -> None:
    app.schedules.create("often", handler="greet", every=20, title="Greet everybody")
    app.schedules.create("rarely", handler="greet", cron="0 0 1 1 *")
    page = operator.open("/")
    assert len(re.findall('href="/console/schedules/often"', page)) == 1
    assert "Greet everybody" in page
    assert "Every 20 seconds" in page
    assert "/schedules/rarely" not in page  # not within a day


def test_the_picture_reaches_as_far_as_it_says_however_much_fires(app: Horae, clock: VirtualClock) -> None:
    app.schedules.create("often", handler="greet", every=10)
    ahead = look_ahead(app, clock.now(), 12 * HOUR)
    counts = ahead.counts(clock.now(), HOUR)
    assert len(ahead.fires) == 1000
    assert len(counts) == 12
    assert all(abs(count - 360) <= 1 for count in counts)
    assert abs(ahead.total - 12 * 360) <= 1


def test_what_can_be_listed_is_not_counted_twice(app: Horae, clock: VirtualClock) -> None:
    app.schedules.create("hourly", handler="greet", cron="30 * * * *")
    ahead = look_ahead(app, clock.now(), 12 * HOUR)
    assert sum(ahead.counts(clock.now(), HOUR)) == ahead.total == len(ahead.fires) == 12


def test_a_worker_is_silent_as_soon_as_its_report_is_overdue(
    operator: Browser, world: World, clock: VirtualClock
) -> None:
    make_day(world, clock, hours=1)
    assert "2 workers are at work." in text_of(operator.open("/workers"))
    clock.advance(timedelta(seconds=91))
    said = text_of(operator.open("/workers"))
    assert "2 workers have gone silent." in said
    assert "Drain" not in said


def test_a_schedule_that_should_have_fired_is_late(operator: Browser, app: Horae, clock: VirtualClock) -> None:
    app.schedules.create("often", handler="greet", every=60)
    assert "late" not in text_of(operator.open("/schedules"))
    clock.advance(timedelta(minutes=3))
    assert "late" in text_of(operator.open("/schedules"))
