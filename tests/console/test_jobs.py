"""The list of jobs: filter, facets, views, bulk acts, and a form that runs a job."""

import html
import re
from typing import Any

import pytest

from horae.actions.jobs import acts, claims, definitions, endings, jobs
from horae.actions.jobs.requests import Request
from horae.console import filters
from horae.core.jobs.parameters import Parameter
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from tests.console.conftest import Browser, LogIn


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
def some(world: World) -> list[str]:
    """Three in mail, one of them dead; one waits for next year."""
    wanted = [Request("send", {"to": n}, queue="mail", tags=("vip",) if n == 1 else ()) for n in range(3)]
    made = [each.id for each in jobs.enqueue_many(world, [*wanted, Request("resize", queue="images")])]
    (job,) = claims.pull(world, worker_id="w", queues=("mail",), limit=1)
    endings.fail(world, job.id, job.token, "Timeout: no answer\nmore", final=True)
    return made


def rows(page: str) -> list[str]:
    return re.findall(r'<a class="name" href="/console/jobs/(job_\d+)"', page)


def test_jobs_are_listed_newest_first_with_the_error_of_those_that_failed(operator: Browser, some: list[str]) -> None:
    page = operator.open("/jobs")
    assert rows(page) == some[::-1]
    assert "Timeout: no answer" in page
    assert "more</span>" not in page


def test_a_filter_narrows_the_list_and_stays_in_the_url(operator: Browser, some: list[str]) -> None:
    page = operator.open("/jobs?q=queue:mail+-state:dead")
    assert rows(page) == [some[2], some[1]]
    assert 'value="queue:mail -state:dead"' in page


def test_facets_count_and_lead_to_narrower_lists(operator: Browser, some: list[str]) -> None:
    page = html.unescape(operator.open("/jobs?q=queue:mail"))
    assert "/console/jobs?q=queue%3Amail+state%3Adead" in page
    assert "dead 1" in text_of(page)
    assert "queued 2" in text_of(page)


def test_a_mistake_in_a_filter_is_pointed_at(operator: Browser) -> None:
    answer = operator.get("/jobs?q=queue:mail+stat:dead")
    assert answer.status_code == 422
    assert "queue:mail <mark>stat:dead</mark>" in answer.text


def test_a_bare_word_gets_filters_that_it_may_have_meant(operator: Browser) -> None:
    page = text_of(operator.get("/jobs?q=timeout").text)
    assert "handler:timeout*" in page
    assert "error:timeout" in page


@pytest.mark.parametrize("typed", ["job_12", "12", " job_12 "])
def test_an_id_leads_to_its_job(typed: str, operator: Browser) -> None:
    assert operator.get("/jobs", params={"q": typed}).headers["location"] == "/console/jobs/job_12"


def test_older_jobs_are_a_link_away(operator: Browser, world: World) -> None:
    jobs.enqueue_many(world, [Request("many")] * 60)
    first = html.unescape(operator.open("/jobs"))
    (further,) = re.findall(r'rel="next" href="/console(/jobs\?[^"]+)"', first)
    second = operator.open(further)
    assert len(rows(first)) == 50
    assert len(rows(second)) == 10
    assert "data-live" not in second


def test_a_filter_is_kept_as_a_view(operator: Browser, some: list[str]) -> None:
    operator.post("/jobs/views", name="Mail that failed", q="queue:mail state:dead")
    page = operator.open("/jobs?q=queue:mail+state:dead")
    assert "Mail that failed" in page
    (view,) = re.findall(r"/console(/jobs/views/view_\d+/delete)", page)
    operator.post(view)
    assert "The view is gone" in operator.open("/jobs")
    assert "Mail that failed" not in operator.open("/jobs")


def test_selected_jobs_are_looked_at_before_they_are_cancelled(
    operator: Browser, world: World, some: list[str]
) -> None:
    page = text_of(operator.open(f"/jobs/bulk?verb=cancel&id={some[1]}&id={some[2]}"))
    assert "Cancel 2 jobs?" in page
    assert "Type 2 to confirm" in page
    where = f"id:{some[1]},{some[2]}"
    refused = operator.post("/jobs/bulk", verb="cancel", where=where, matched="2", typed="3", reason="x")
    assert refused.status_code == 422
    assert jobs.get(world, some[1]).state == "queued"

    begun = operator.post("/jobs/bulk", verb="cancel", where=where, matched="2", typed="2", reason="a mistake")
    assert begun.headers["location"] == "/console/acts/act_1"
    (found, _) = acts.find(world, limit=5)
    assert (found[0].verb, found[0].reason) == ("cancel", "a mistake")


def test_all_that_fit_are_revived(operator: Browser, world: World, some: list[str]) -> None:
    assert "Revive one job?" in operator.open("/jobs/bulk?verb=revive&all=yes&q=queue:mail+state:dead")
    begun = operator.post("/jobs/bulk", verb="revive", where="queue:mail state:dead", reason="fixed")
    page = text_of(operator.open(begun.headers["location"].removeprefix("/console")))
    assert "Revive jobs" in page
    assert "of 1 that fitted" in page
    assert "fixed" in page


def test_nothing_selected_is_asked_for_and_an_empty_filter_refused(operator: Browser) -> None:
    assert "Which jobs?" in operator.get("/jobs/bulk?verb=cancel").text
    assert operator.post("/jobs/bulk", verb="revive", where="", reason="x").status_code == 422
    assert operator.get("/jobs/bulk?verb=explode&all=yes&q=queue:mail").status_code == 422


def test_an_act_is_paused_goes_on_and_ends(operator: Browser, world: World, some: list[str]) -> None:
    operator.post("/jobs/bulk", verb="reschedule", where="queue:mail", delay="3600", reason="later")
    assert "Undo" in operator.post("/acts/act_1/pause", follow=True).text
    assert "paused" in text_of(operator.open("/acts/act_1"))
    operator.post("/acts/act_1/resume")
    operator.post("/acts/act_1/cancel")
    assert "cancelled" in text_of(operator.open("/acts/act_1"))
    assert "Move jobs to another time" in operator.open("/acts")


DEFINITION = StoredDefinition(
    "charge", "orders", sensitive=("card",), description="Charge a card.",
    parameters=(
        Parameter("order", "integer"), Parameter("rate", "number", required=False, default=1.5),
        Parameter("currency", "choice", choices=("EUR", "CNY")), Parameter("card", "text", sensitive=True),
        Parameter("capture", "boolean", required=False), Parameter("day", "date", required=False),
        Parameter("at", "instant", required=False), Parameter("lines", "json", required=False),
        Parameter("more", "extra", required=False),
    ),
)  # fmt: skip
GIVEN: dict[str, Any] = {
    "handler": "charge", "arg.order": "12345678901234567890", "arg.rate": "2", "arg.currency": "CNY",
    "arg.card": "4711", "arg.capture": "yes", "arg.day": "2030-02-01", "arg.at": "2030-02-01T08:00",
    "arg.lines": "[1, 2]", "arg.more": '{"x": null}', "queue": "orders",
}  # fmt: skip


def test_a_job_is_run_by_a_form_made_from_what_it_takes(operator: Browser, world: World) -> None:
    definitions.store_definitions(world, [DEFINITION])
    page = operator.open("/jobs/new?handler=charge")
    assert "Charge a card." in page
    assert 'type="password"' in page
    assert all(f'name="arg.{each.name}"' in page for each in DEFINITION.parameters or ())

    answer = operator.post("/jobs/new", **GIVEN)
    made = jobs.get(world, answer.headers["location"].rpartition("/")[2])
    assert made.payload == {
        "order": 12345678901234567890, "rate": 2, "currency": "CNY", "card": "4711", "capture": True,
        "day": "2030-02-01", "at": "2030-02-01T08:00:00Z", "lines": [1, 2], "x": None,
    }  # fmt: skip
    assert made.queue == "orders"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("arg.order", "twelve"), ("arg.order", ""), ("arg.rate", "true"), ("arg.currency", "DOGE"),
        ("arg.capture", "maybe"), ("arg.day", "tomorrow"), ("arg.at", "noon"), ("arg.lines", "[1"), ("arg.more", "[1]"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_said_beside_its_field(
    field: str, value: str, operator: Browser, world: World
) -> None:
    definitions.store_definitions(world, [DEFINITION])
    answer = operator.post("/jobs/new", **{**GIVEN, field: value})
    assert answer.status_code == 422
    assert f'id="{field}-problem"' in answer.text
    assert world.store.read(lambda tx: tx.metrics.last_number()) == 0


def test_a_handler_that_says_nothing_takes_json(operator: Browser, world: World) -> None:
    answer = operator.post("/jobs/new", handler="anything", payload='{"a": 1}', delay="3600")
    made = jobs.get(world, answer.headers["location"].rpartition("/")[2])
    assert made.payload == {"a": 1}
    assert (made.run_at - made.created_at).total_seconds() == 3600
    assert operator.post("/jobs/new", handler="anything", payload="{").status_code == 422
    assert operator.post("/jobs/new", handler="not a name", payload="{}").status_code == 422


def test_a_tenant_finds_its_own_jobs_alone(log_in: LogIn, world: World, some: list[str]) -> None:
    mine = jobs.enqueue(world, Request("mine", owner="alice"))
    alice = log_in("alice", "tasks")
    assert rows(alice.open("/jobs")) == [mine.id]
    assert alice.get("/jobs?q=owner:bob").status_code == 404


def test_a_reader_sees_no_boxes_and_no_acts(log_in: LogIn, some: list[str]) -> None:
    page = log_in("system", "read").open("/jobs")
    assert 'type="checkbox"' not in page
    assert "Run a job" not in page


@pytest.mark.parametrize(
    ("text", "field", "value", "expected"),
    [
        ("", "state", "dead", "state:dead"),
        ("queue:mail state:queued", "state", "dead", "queue:mail state:dead"),
        ('-state:dead error:"no answer"', "state", "dead", 'error:"no answer" state:dead'),
        ("", "tag", 'a "b" c', 'tag:"a \\"b\\" c"'),
        ("", "handler", "mail.send", "handler:mail.send"),
    ],
)
def test_a_term_takes_the_place_of_those_of_its_field(text: str, field: str, value: str, expected: str) -> None:
    assert filters.with_term(text, field, value) == expected
    assert filters.value_of(expected, field) == value


def test_terms_are_told_apart_as_they_are_written() -> None:
    assert filters.terms_of('queue:mail error:"no  answer" -tag:"a\\"b c"') == [
        "queue:mail", 'error:"no  answer"', '-tag:"a\\"b c"',
    ]  # fmt: skip
    assert filters.value_of("-state:dead", "state") is None
    assert filters.value_of("state:dead state:queued", "state") is None
    assert filters.job_named("job_x") is None
