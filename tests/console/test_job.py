"""The page of one job: why it stands where it stands, and what a person can do about it."""

import html
import json
import re
from datetime import timedelta

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.console.install import install
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Schedule
from horae.core.traces import trace_id_of
from horae.errors import ConfigurationError
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.settings import Settings
from horae.testing.clock import VirtualClock
from tests.console.conftest import Browser, LogIn
from tests.console.ground import a_token, fail_loudly
from tests.support.refusals import refused

BIG = 12345678901234567890
SECOND = timedelta(seconds=1)


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


@pytest.fixture
def dead(world: World, clock: VirtualClock) -> str:
    """A job that failed twice and gave up."""
    made = jobs.enqueue(world, Request("charge", {"amount": BIG}, retry=Retry.fixed(5, attempts=2), tags=("card",)))
    for error in ("TimeoutError: the bank is slow", "CardRefused: expired\n\nTraceback (most recent call last):\n  x"):
        (job,) = claims.pull(world, worker_id="w1")
        clock.advance(SECOND)
        endings.fail(world, job.id, job.token, error)
        clock.advance(10 * SECOND)
    return made.id


def test_what_each_attempt_has_logged_stands_on_the_page_the_last_one_first(operator: Browser, world: World) -> None:
    made = jobs.enqueue(world, Request("charge", {"password": "hunter22"}, retry=Retry.fixed(0, attempts=2)))
    for text in ("first try", "second try with hunter22"):
        (job,) = claims.pull(world, worker_id="w1")
        fail_loudly(world, job, "E: x", "before", text)

    page = text_of(operator.open(f"/jobs/{made.id}"))
    assert re.search(r"Attempt 2\s+2 lines", page)
    assert page.index("second try with …") < page.index("first try")
    assert "hunter22" not in page


def test_a_dead_job_says_why_shows_the_latest_error_first_and_can_be_revived(
    operator: Browser, world: World, dead: str
) -> None:
    page = text_of(operator.open(f"/jobs/{dead}"))
    assert "Gave up after 2 of 2 attempts" in page
    assert page.index("CardRefused: expired") < page.index("TimeoutError: the bank is slow")
    assert "Revive" in page

    answer = operator.post(f"/jobs/{dead}/revive", reason="a new card")
    assert answer.headers["location"] == f"/console/jobs/{dead}"
    assert jobs.get(world, dead).state == "queued"
    after = text_of(operator.open(f"/jobs/{dead}"))
    assert "has all its attempts again" in after
    assert "has all its attempts again" not in operator.open(f"/jobs/{dead}")  # said once


def test_numbers_are_exact(operator: Browser, dead: str) -> None:
    assert str(BIG) in operator.open(f"/jobs/{dead}")


def test_attempts_are_drawn_one_after_the_other(operator: Browser, dead: str) -> None:
    page = operator.open(f"/jobs/{dead}")
    assert len(re.findall(r'<rect class="failed"', page)) == 2
    assert 'class="waiting ahead"' in page
    assert "attempt 2: failed, 1 s" in page


def test_a_job_runs_again_with_an_edited_payload(operator: Browser, world: World, dead: str) -> None:
    answer = operator.post(f"/jobs/{dead}/rerun", payload='{"amount": 7}', reason="the amount was wrong")
    made = answer.headers["location"].rpartition("/")[2]
    assert jobs.get(world, made).payload == {"amount": 7}
    page = operator.open(f"/jobs/{made}")
    assert f"/jobs/{dead}" in page


def test_what_is_no_json_is_said_beside_the_field_and_nothing_is_lost(operator: Browser, dead: str) -> None:
    answer = operator.post(f"/jobs/{dead}/rerun", payload='{"amount": 7')
    assert answer.status_code == 422
    assert "This is not JSON" in answer.text
    assert "{&#34;amount&#34;: 7</textarea>" in answer.text


def test_a_waiting_job_runs_now_and_the_change_can_be_taken_back(
    operator: Browser, world: World, clock: VirtualClock
) -> None:
    made = jobs.enqueue(world, Request("later", run_at=clock.now() + timedelta(hours=3)))
    before = jobs.get(world, made.id).run_at
    operator.post(f"/jobs/{made.id}/reschedule")
    assert jobs.get(world, made.id).run_at == clock.now()

    page = operator.open(f"/jobs/{made.id}")
    assert "Undo" in page
    (run_at,) = re.findall(r'name="run_at" value="([^"]+)"', page)
    operator.post(f"/jobs/{made.id}/reschedule", run_at=run_at)
    assert jobs.get(world, made.id).run_at == before


def test_cancelling_asks_why_and_offers_to_run_again(operator: Browser, world: World) -> None:
    made = jobs.enqueue(world, Request("mistake"))
    assert "Why? It is kept in the audit." in operator.open(f"/jobs/{made.id}")
    operator.post(f"/jobs/{made.id}/cancel", reason="twice")
    assert jobs.get(world, made.id).state == "cancelled"
    page = text_of(operator.open(f"/jobs/{made.id}"))
    assert "run it again below" in page
    assert "Cancelled: twice." in page


def test_a_running_job_shows_its_progress_and_who_holds_it(operator: Browser, world: World) -> None:
    from horae.core.jobs.job import Lease

    made = jobs.enqueue(world, Request("long"))
    (job,) = claims.pull(world, worker_id="w1")
    claims.progress(world, Lease(job.number, job.token), {"done": 3, "of": 4})
    page = operator.open(f"/jobs/{made.id}")
    assert '<progress value="3.0" max="4.0"' in page
    assert "w1" in page
    assert "data-live" in page


def test_times_in_the_why_line_are_on_the_readers_clock(operator: Browser, world: World, clock: VirtualClock) -> None:
    made = jobs.enqueue(world, Request("later", run_at=clock.now() + timedelta(hours=3)))
    operator.http.cookies.set("horae_tz", "Asia%2FShanghai", domain="horae.test", path="/console")
    page = text_of(operator.open(f"/jobs/{made.id}"))
    assert "23:00:00 UTC+8" in page
    assert "T15:00:00" not in page


def test_the_same_job_can_be_asked_for_from_elsewhere(operator: Browser, world: World) -> None:
    made = jobs.enqueue(world, Request("mail", {"to": "o'brien"}, queue="mail"))
    page = html.unescape(operator.open(f"/jobs/{made.id}"))
    assert """horae job enqueue mail --args '{"to": "o'"'"'brien"}' --queue mail""" in page
    assert "curl http://horae.test:8765/jobs" in page
    assert """client.jobs.enqueue('mail', {'to': "o'brien"}, queue='mail')""" in page


def test_a_job_of_a_schedule_leads_to_it(operator: Browser, world: World) -> None:
    from horae.actions.schedules import fires, schedules

    schedules.create(world, Schedule("nightly", "report", "cron", "0 3 * * *"))
    done = fires.trigger(world, "nightly")
    assert '/console/schedules/nightly"' in operator.open(f"/jobs/{done.job_id}")


@pytest.mark.parametrize(
    ("trace_id", "link"),
    [
        ("4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("a label of our own", None),
        ('"><script>', None),
    ],
)
def test_a_job_leads_to_its_trace_where_traces_are_shown(
    trace_id: str, link: str | None, world: World, operator: Browser
) -> None:
    made = jobs.enqueue(world, Request("charge", {}, trace_id=trace_id))
    service = build(lambda: world, Options(trace_url='https://jaeger.example/trace/{trace_id}?a=1&b="'))
    install(service)
    traced = Browser(service)
    traced.log_in(a_token(world))
    page = operator.open(f"/jobs/{made.id}")
    assert str(trace_id_of(trace_id)) in html.unescape(page)
    assert "jaeger" not in page
    links = re.findall(r'href="(https://jaeger[^"]*)"', traced.open(f"/jobs/{made.id}"))
    assert links == ([f"https://jaeger.example/trace/{link}?a=1&amp;b=&#34;"] if link else [])


@pytest.mark.parametrize("wrong", ["javascript:alert('{trace_id}')", "https://jaeger.example/", "jaeger/{trace_id}"])
def test_only_a_web_page_with_a_place_for_the_id_can_show_traces(wrong: str) -> None:
    with refused(ConfigurationError, "setting_invalid", name="HORAE_TRACE_URL"):
        Settings.read({"HORAE_TRACE_URL": wrong})


def test_a_tenant_sees_its_own_jobs_alone(log_in: LogIn, world: World) -> None:
    mine, other = (jobs.enqueue(world, Request("x", owner=owner)).id for owner in ("alice", "bob"))
    alice = log_in("alice", "tasks")
    assert alice.open(f"/jobs/{mine}")
    assert alice.get(f"/jobs/{other}").status_code == 404
    assert alice.post(f"/jobs/{other}/cancel").status_code == 404


def test_a_reader_sees_no_button_that_would_be_refused(log_in: LogIn, dead: str) -> None:
    page = log_in("system", "read").open(f"/jobs/{dead}")
    assert "Revive" not in page
    assert "/rerun" not in page


def test_chinese_says_the_same(operator: Browser, dead: str) -> None:
    page = text_of(operator.open(f"/jobs/{dead}?lang=zh"))
    assert "已尝试 2 次" in page
    assert json.dumps(BIG) in page
