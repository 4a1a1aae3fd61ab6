"""GET /metrics: the right numbers, for the right eyes, at a bounded price."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from horae import Horae
from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.actions.metrics import families, survey
from horae.actions.retention import Retention, clean
from horae.actions.roll_up import roll_up
from horae.core.jobs.retry import Retry
from horae.core.metrics import MOST, Family
from horae.errors import StoreUnavailable
from horae.ports.workers import Node
from horae.ports.world import World
from horae.runtime.worker.metrics import Measures
from horae.service.asgi import build
from horae.service.options import Options
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.runtime.serving import ended, serving
from tests.service.conftest import Connect

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
SECOND = timedelta(seconds=1)
COUNTERS = ("horae_endings_total", "horae_enqueued_total")


def samples(text: str) -> dict[str, float]:
    """``name{label="value"}`` → value."""
    return {
        sample.name + "".join(f",{key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(client: TestClient) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return samples(answer.text)


def a_story(world: World, clock: VirtualClock) -> None:
    """Two succeed, one dies, one waits for a retry, one is due for 90 seconds, one lies ahead."""
    once = Retry.none()
    for handler, retry in (("good", once), ("good", once), ("bad", once), ("flaky", Retry())):
        verbs.enqueue(world, Request(handler, queue="mail", retry=retry))
    clock.advance(SECOND)
    for job in claims.pull(world, worker_id="w", queues=("mail",)):
        clock.advance(SECOND)
        if job.handler == "good":
            endings.ack(world, job.id, job.token)
        else:
            endings.fail(world, job.id, job.token, "no")
    verbs.enqueue(world, Request("late", queue="other"))
    verbs.enqueue(world, Request("ahead", queue="other", delay=timedelta(days=1)))
    clock.advance(timedelta(seconds=90))


def test_the_five_figures_of_document_000_have_its_names(
    operator: TestClient, world: World, clock: VirtualClock
) -> None:
    """S0-29 to S0-33, by the formulas of 0.2."""
    a_story(world, clock)
    response = scraped(operator)
    assert response["jobs_due_count"] == 1
    assert response["jobs_lag_seconds"] == 90
    assert response["job_success_rate"] == pytest.approx(2 / 3)
    assert response["job_retry_rate"] == pytest.approx(2 / 6)
    assert response["dead_letter_count"] == 1


def test_the_fleet_is_told_by_queue_and_handler(operator: TestClient, world: World, clock: VirtualClock) -> None:
    a_story(world, clock)
    clock.advance(timedelta(seconds=60))
    roll_up(world)
    now = clock.now()
    node = Node("host:1:a", "host", 1, "1", now, now, {"mail": 4})
    world.store.transact(lambda tx: tx.nodes.put(node))
    response = scraped(operator)
    assert response["horae_queue_depth,queue=mail,state=dead"] == 1
    assert response["horae_queue_depth,queue=other,state=queued"] == 2
    assert response["horae_queue_due,queue=other"] == 1
    assert response["horae_queue_lag_seconds,queue=other"] == 150
    assert response["horae_recent_runs,outcome=succeeded,queue=mail"] == 2
    assert response["horae_recent_runs,outcome=failed,queue=mail"] == 2
    assert response["horae_recent_handler_runs,handler=flaky,outcome=failed"] == 1
    assert 4 <= response["horae_recent_run_seconds_max,handler=flaky"] <= 4 * 1.19
    assert response["horae_recent_run_seconds_mean,handler=good"] == 1.5
    assert 1 <= response["horae_recent_start_delay_seconds_max,queue=mail"] <= 1.19
    assert response["horae_endings_total,outcome=dead,queue=mail"] == 1
    assert response["horae_endings_total,outcome=retried,queue=mail"] == 1
    assert (response["horae_workers"], response["horae_queue_workers,queue=mail"]) == (1, 1)
    assert response["horae_enqueued_total"] == 6
    assert response["horae_store_up"] == 1
    assert response["horae_build_info,version=test"] == 1


def test_every_database_tells_the_same(database_url: str) -> None:
    with Horae(database_url, clock=VirtualClock()) as app:
        migrate(app.engine)
        assert isinstance(app._clock, VirtualClock)
        a_story(app.world, app._clock)
        app._clock.advance(timedelta(seconds=60))
        roll_up(app.world)
        response = {family.name: family.points for family in families(survey(app.world))}
    assert response["horae_recent_runs"]["mail", "succeeded"] == 2
    assert response["horae_recent_run_seconds_mean"]["good",] == 1.5
    assert response["horae_recent_start_delay_seconds_mean"]["mail",] == 1
    assert response["horae_queue_depth"]["other", "queued"] == 2
    assert response["horae_queue_lag_seconds"]["other",] == 150
    assert response["dead_letter_count"][()] == 1


@pytest.mark.slow
def test_counters_only_grow_whatever_is_removed(world: World, clock: VirtualClock) -> None:
    """A job ends every 20 days for two years, and the history is cleaned as usual."""
    before: dict[tuple[str, ...], float] = {}
    for _ in range(37):
        verbs.enqueue(world, Request("work", queue="mail"))
        (job,) = claims.pull(world, worker_id="w", queues=("mail",))
        endings.ack(world, job.id, job.token)
        clock.advance(timedelta(days=20))
        clean(world, Retention(), limit=1000)
        for _ in range(3):
            clock.advance(timedelta(minutes=2))
            while roll_up(world):
                continue
        points = {family.name: family.points for family in families(survey(world))}
        now = {(name, *labels): value for name in COUNTERS for labels, value in points[name].items()}
        assert all(now[key] >= value for key, value in before.items())  # type: ignore[operator]
        before = now  # type: ignore[assignment]
    assert before["horae_endings_total", "mail", "succeeded"] == 37
    assert before["horae_enqueued_total",] == 37
    assert verbs.counts(world)["mail"]["succeeded"] == 37


def test_the_rates_are_the_same_before_and_after_the_roll_up(world: World, clock: VirtualClock) -> None:
    a_story(world, clock)
    clock.advance(timedelta(minutes=5))
    before, counted = verbs.metrics(world), verbs.counts(world)
    roll_up(world)
    assert clean(world, Retention(runs=timedelta(seconds=1)), limit=1000)["horae_runs"]

    assert verbs.metrics(world) == before
    assert verbs.counts(world) == counted


def test_only_an_operator_may_scrape(connect: Connect) -> None:
    """The figures are of all tenants together."""
    assert connect().get("/metrics").status_code == 401
    refused = connect("alice", "read").get("/metrics")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert connect("system", "worker").get("/metrics").status_code == 403
    assert connect("system", "read").get("/metrics").status_code == 200
    assert connect("system", "admin").get("/metrics").status_code == 200


def test_an_operator_can_open_it(connect: Connect) -> None:
    answer = connect(open_metrics=True).get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_labels_are_bounded_and_name_no_tenant(operator: TestClient, world: World) -> None:
    """Security check 20: neither owners nor ids nor error texts; whoever invents queues cannot flood the list."""
    secret = "canary-4711"
    requests = [
        Request("work", queue=f"q{n}", owner="alice-the-tenant", payload={"s": secret}) for n in range(MOST * 2)
    ]
    verbs.enqueue_many(world, requests)
    (job,) = claims.pull(world, worker_id="w", queues=("q7",), owner="alice-the-tenant")
    endings.fail(world, job.id, job.token, f"it broke: {secret}", final=True)
    text = operator.get("/metrics").text
    depths = [line for line in text.splitlines() if line.startswith("horae_queue_depth{")]
    assert len(depths) <= MOST + 3
    assert sum(float(line.rsplit(" ", 1)[1]) for line in depths) == MOST * 2
    assert 'queue="other"' in text
    for hidden in (secret, "alice", job.id):
        assert hidden not in text


def test_queues_that_a_worker_serves_keep_their_names(operator: TestClient, world: World, clock: VirtualClock) -> None:
    now = clock.now()
    node = Node("host:1:a", "host", 1, "1", now, now, {"zzz": 4})
    world.store.transact(lambda tx: tx.nodes.put(node))
    verbs.enqueue_many(world, [Request("work", queue=f"a{n}") for n in range(MOST * 2)])
    verbs.enqueue(world, Request("work", queue="zzz"))
    assert scraped(operator)["horae_queue_depth,queue=zzz,state=queued"] == 1


def test_scraping_often_asks_the_store_seldom(operator: TestClient, world: World, clock: VirtualClock) -> None:
    assert scraped(operator)["jobs_due_count"] == 0
    verbs.enqueue(world, Request("work"))
    clock.advance(4 * SECOND)
    assert scraped(operator)["jobs_due_count"] == 0
    clock.advance(SECOND)
    assert scraped(operator)["jobs_due_count"] == 1


def test_without_the_store_the_rest_is_still_told() -> None:
    def away() -> World:
        raise StoreUnavailable("postgresql://u:pw@db/x does not answer")

    client = TestClient(build(away, Options(version="1", open_metrics=True)))
    response = client.get("/metrics")
    assert response.status_code == 200
    assert samples(response.text)["horae_store_up"] == 0
    assert "jobs_due_count" not in response.text
    assert "pw" not in response.text


# -- the service itself ------------------------------------------------------------------------------------------


def test_requests_are_counted_by_the_template_of_their_route(connect: Connect) -> None:
    seconds = iter(range(1000))
    client = connect("system", "admin", monotonic=lambda: float(next(seconds)))
    client.get("/healthz")
    client.get("/healthz")
    client.get("/nowhere/at/all?token=secret")
    client.get("/scheduler/jobs/job_12")
    client.request("BREW", "/healthz")
    response = scraped(client)
    assert response["horae_http_requests_total,method=GET,route=/healthz,status=200"] == 2
    assert response["horae_http_requests_total,method=GET,route=unmatched,status=404"] == 1
    assert response["horae_http_requests_total,method=GET,route=/scheduler/jobs/{job_id},status=404"] == 1
    assert [name for name in response if "method=other" in name and "requests" in name]
    assert response["horae_http_request_seconds_count,method=GET,route=/healthz"] == 2
    assert response["horae_http_problems_total,code=not_found"] == 1


def test_an_ending_that_came_too_late_is_counted_once_for_each_source(
    connect: Connect, world: World, clock: VirtualClock
) -> None:
    measures = Measures()
    client = connect("system", "admin", figures=measures.families)
    made = verbs.enqueue(world, Request("work", queue="scheduler"))
    (held,) = claims.pull(world, worker_id="w", queues=("scheduler",))
    measures.count_ended(held, "stale")
    late = client.post(f"/scheduler/jobs/{made.id}/ack", json={"token": held.token + 1, "result": "succeeded"})
    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")
    response = scraped(client)
    assert response["horae_stale_acks_total,by=http"] == 1
    assert response["horae_stale_acks_total,by=worker"] == 1


def test_a_worker_in_the_same_process_tells_with_the_service(connect: Connect, world: World) -> None:
    measures = Measures()
    verbs.enqueue(world, Request("work"))
    (job,) = claims.pull(world, worker_id="w")
    measures.count_started([job], world.clock)
    measures.count_duration(job, "succeeded", 0.2)
    measures.count_ended(job, "succeeded")
    response = scraped(connect("system", "read", figures=measures.families))
    assert response["horae_runs_total,handler=work,outcome=succeeded,queue=default"] == 1
    assert response["horae_run_duration_seconds_bucket,handler=work,le=0.25,queue=default"] == 1
    assert response["horae_run_duration_seconds_bucket,handler=work,le=0.1,queue=default"] == 0
    assert response["horae_run_duration_seconds_sum,handler=work,queue=default"] == 0.2
    assert response["horae_start_delay_seconds_count,queue=default"] == 1


# -- the documents -----------------------------------------------------------------------------------------------


def test_the_reference_lists_exactly_what_is_exposed(connect: Connect) -> None:
    """Every row of the table: name, kind, labels and meaning as /metrics tells them."""
    with Horae("sqlite://") as own:
        own.worker()
        app = connect("system", "admin", figures=own.figures, open_metrics=True).app
    meter = app.state.meter  # type: ignore[attr-defined]
    response: list[Family] = meter.families()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|", PAGE.read_text(encoding="utf-8"), re.M)
    exposed = {family.name: (family.kind, ", ".join(f"`{label}`" for label in family.labels)) for family in response}
    assert {name: (kind, labels.strip()) for name, kind, labels, _ in rows} == exposed
    words = {family.name: family.text for family in response}
    assert {name: text.strip() for name, _, _, text in rows} == words


def test_every_alert_asks_for_a_metric_that_exists(connect: Connect) -> None:
    app = connect("system", "admin", figures=Measures().families, open_metrics=True).app
    known = {family.name for family in app.state.meter.families()}  # type: ignore[attr-defined]
    rules = (PAGE.parents[2] / "deploy" / "prometheus" / "horae-alerts.yml").read_text(encoding="utf-8")
    asked = set(
        re.findall(r"\b(?:horae_\w+|jobs?_\w+|dead_letter_count)\b", "\n".join(re.findall(r"expr: (.*)", rules)))
    )
    assert asked
    assert {re.sub(r"_(bucket|sum|count)$", "", name) if name not in known else name for name in asked} <= known


async def test_a_mounted_service_tells_of_the_worker_beside_it(tmp_path: Path) -> None:
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}") as app:
        job = app.job("work")(lambda: None).enqueue()
        outer = FastAPI()
        outer.mount("/horae", app.asgi(open_metrics=True))
        client = TestClient(outer)
        assert "horae_runs_total" not in client.get("/horae/metrics").text
        async with serving(app):
            await ended(app, job)
        response = samples(client.get("/horae/metrics").text)
        assert response["horae_runs_total,handler=work,outcome=succeeded,queue=default"] == 1
        assert response["horae_http_requests_total,method=GET,route=/metrics,status=200"] == 1
        assert client.get("/horae/readyz").status_code == 200
