"""Schedules: what fires next, in two languages and two zones; pause with undo, run now, backfill after a look."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.jobs import claims, endings, jobs, machinery
from horae.actions.schedules import fires, schedules
from horae.actions.schedules.calendars import set_calendar
from horae.core.schedules.schedule import Schedule
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.conftest import Browser, LogIn


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
def nightly(world: World) -> str:
    schedules.create(
        world, Schedule("nightly", "report", "cron", "30 2 * * *", zone="Europe/Berlin", title="Nightly report")
    )  # fmt: skip
    return "nightly"


def keys(page: str) -> list[str]:
    return re.findall(r'class="name" href="/console/schedules/([\w-]+)', page)


def test_schedules_are_listed_by_next_fire_with_their_rule_in_words(
    operator: Browser, world: World, nightly: str
) -> None:
    schedules.create(world, Schedule("often", "ping", "every", "600"))
    page = operator.open("/schedules")
    assert keys(page) == ["often", "nightly"]
    assert keys(operator.open("/schedules?order=key")) == ["nightly", "often"]
    assert "At 02:30 every day (Europe/Berlin)" in text_of(page) or "02:30" in text_of(page)
    assert "often fires next, in 10 min." in text_of(page)


def test_a_schedule_shows_its_quiet_hours_its_calendar_and_why_it_waits(operator: Browser, world: World) -> None:
    set_calendar(world, "bank", ["mon", "tue"])
    terms = {"calendar": "bank", "calendar_rule": "move", "quiet_hours": "22:00-07:00"}
    schedules.create(world, Schedule("digest", "report", "cron", "0 3 * * *", **terms))  # type: ignore[arg-type]
    page, chinese = (text_of(operator.open(f"/schedules/digest?lang={language}")) for language in ("en", "zh"))

    assert "Quiet hours 22:00-07:00" in page
    assert "Calendar bank its days move to the next other day" in page
    assert "is kept back by the calendar bank; it fires" in page
    assert "日历 bank 遇其中的日子则顺延" in chinese


def test_a_run_that_is_missing_is_shown_on_its_page_and_on_home(
    operator: Browser, world: World, clock: VirtualClock
) -> None:
    terms: dict[str, Any] = {"expect": "within 10m"}
    schedules.create(world, Schedule("hourly", "report", "cron", "0 * * * *", **terms))
    clock.advance(timedelta(hours=2))
    assert machinery.serve_due(world, "keeper") == 1
    page, chinese = (text_of(operator.open(f"/schedules/hourly?lang={language}")) for language in ("en", "zh"))

    assert "Expected a run has succeeded within 10 minutes of being due a run is missing" in page
    assert "it should have succeeded by" in page.lower()
    assert "期望 到期后10分钟内应有一次成功的运行 缺少一次应有的运行" in chinese
    assert "Schedules that should have succeeded by now: hourly." in text_of(operator.open("/?lang=en"))


def test_a_schedule_is_found_by_a_part_of_its_name(operator: Browser, world: World, nightly: str) -> None:
    schedules.create(world, Schedule("often", "ping", "every", "600"))
    assert keys(operator.open("/schedules?text=REPORT")) == ["nightly"]
    assert "No schedule has that in its name" in operator.open("/schedules?text=zzz")


def test_the_last_results_are_drawn(operator: Browser, world: World, clock: VirtualClock) -> None:
    schedules.create(world, Schedule("often", "ping", "every", "600"))
    for number in range(4):
        clock.advance(timedelta(minutes=10))
        fires.fire_due(world)
        (job,) = claims.pull(world, worker_id="w")
        if number == 2:
            endings.fail(world, job.id, job.token, "E: x", final=True)
        else:
            endings.ack(world, job.id, job.token)
    page = operator.open("/schedules")
    (strip,) = re.findall(r'<svg class="strip".*?</svg>', page)
    assert re.findall(r'rect class="(\w+)"', strip) == ["done", "done", "failed", "done"]
    assert 'aria-label="Last results: 3 succeeded, 1 failed"' in strip


def test_words_are_in_two_languages_and_the_readers_comes_first(operator: Browser, nightly: str) -> None:
    english, chinese = (text_of(operator.open(f"/schedules/nightly?lang={lang}")) for lang in ("en", "zh"))
    words = "每天 02:30（Europe/Berlin）"
    assert words in chinese
    assert words in english
    assert chinese.index(words) < chinese.index("02:30 ", chinese.index(words) + len(words))


def test_the_next_fires_are_on_both_clocks(operator: Browser, nightly: str) -> None:
    page = text_of(operator.open("/schedules/nightly"))
    assert "01:30 UTC" in page
    assert "02:30 UTC+1" in page


def test_a_change_of_clocks_is_marked(log_in: LogIn, clock: VirtualClock, nightly: str) -> None:
    from horae.core.time.instants import from_iso

    clock.advance(from_iso("2030-03-28T12:00:00Z") - clock.now())
    assert "after clocks go forward" in text_of(log_in().open("/schedules/nightly"))


def test_a_schedule_is_paused_and_that_can_be_taken_back(operator: Browser, world: World, nightly: str) -> None:
    operator.post("/schedules/nightly/pause", reason="the report is wrong")
    assert schedules.get(world, "nightly").pause_reason == "the report is wrong"
    page = operator.open("/schedules/nightly")
    assert "nightly is paused." in page
    assert 'action="/console/schedules/nightly/resume"' in page
    operator.post("/schedules/nightly/resume")
    assert schedules.get(world, "nightly").paused_at is None


def test_a_schedule_runs_now_and_leads_to_its_job(operator: Browser, world: World, nightly: str) -> None:
    answer = operator.post("/schedules/nightly/trigger")
    job = jobs.get(world, answer.headers["location"].rpartition("/")[2])
    assert job.handler == "report"
    again = operator.post("/schedules/nightly/trigger", follow=True)
    assert "It did not run" in text_of(again.text)


def test_what_became_of_each_fire_is_listed(log_in: LogIn, world: World, clock: VirtualClock, nightly: str) -> None:
    clock.advance(timedelta(days=1))
    fires.fire_due(world)
    page = text_of(log_in().open("/schedules/nightly"))
    assert "ran" in page
    assert "job_1" in page


def test_a_backfill_is_looked_at_before_it_is_done(operator: Browser, world: World, nightly: str) -> None:
    span: dict[str, Any] = {"start": "2030-01-05T00:00", "end": "2030-01-07T00:00"}
    looked = operator.post("/schedules/nightly/backfill", **span)
    assert "2 fires of this range have no job." in text_of(looked.text)
    assert world.store.read(lambda tx: tx.metrics.last_number()) == 0
    operator.post("/schedules/nightly/backfill", sure="yes", **span)
    assert world.store.read(lambda tx: tx.metrics.last_number()) == 2
    assert operator.post("/schedules/nightly/backfill", start="", end="x").status_code == 422


def test_a_change_says_who_made_it_and_what_differs(operator: Browser, world: World, nightly: str) -> None:
    schedules.change(world, "nightly", {"expression": "0 4 * * *"}, actor="user/ada", reason="too early")
    page = operator.open("/schedules/nightly")
    assert "<del>30 2 * * *</del> <ins>0 4 * * *</ins>" in page
    assert "too early" in page


def test_a_tenants_schedule_has_its_owner_in_the_address(operator: Browser, world: World) -> None:
    schedules.create(world, Schedule("mine", "report", "every", "600", owner="alice"))
    page = html.unescape(operator.open("/schedules"))
    assert "/console/schedules/mine?owner=alice" in page
    assert operator.get("/schedules/mine").status_code == 404
    operator.post("/schedules/mine/pause", owner="alice")
    assert schedules.get(world, "mine", owner="alice").paused_at is not None


def test_keys_with_slashes_and_other_signs_have_a_page(operator: Browser, world: World) -> None:
    key = "team/nightly report?#1 100%"
    schedules.create(world, Schedule(key, "report", "every", "600"))
    (link,) = re.findall(r'class="name" href="/console(/schedules/[^"]+)"', operator.open("/schedules"))
    assert key in html.unescape(operator.open(html.unescape(link)))


def test_a_reader_sees_schedules_and_no_acts(log_in: LogIn, nightly: str) -> None:
    page = log_in("system", "read").open("/schedules/nightly")
    assert "Run now" not in page
    assert "/backfill" not in page


def test_without_a_schedule_the_page_teaches(operator: Browser) -> None:
    page = text_of(operator.open("/schedules"))
    assert "No schedule yet." in page
    assert "horae schedule add nightly" in page
    assert "http://horae.test:8765" in page
