"""Registering is cheap and opens nothing; calls carry what joins them with the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from horae import Context, Horae
from horae.errors import ConfigurationError
from horae.outgoing import Calls, Outgoing, register
from horae.outgoing.trace_context import trace_headers
from horae.testing.builders import a_job
from tests.outgoing.conftest import Telling
from tests.outgoing.ground import Names, answering, serving
from tests.support.refusals import refused

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_registering_opens_no_store_and_needs_no_setting(tmp_path: Path) -> None:
    app = Horae(f"sqlite:///{tmp_path / 'never.db'}")

    registered = register(app, Outgoing.read({}))

    assert (registered.webhook.name, registered.dispatch.name) == ("webhook", "dispatch")
    assert list(tmp_path.iterdir()) == []
    assert app.problems() == []


def test_a_job_that_the_application_has_already_stays() -> None:
    app = Horae("sqlite://")

    @app.job("dispatch")
    async def dispatch(ctx: Context, text: str) -> None: ...

    first = register(app, Outgoing.read({}))
    again = register(app, Outgoing.read({}))

    assert first.dispatch.definition is dispatch.definition
    assert again.webhook.definition is first.webhook.definition


def test_a_bad_key_is_refused_when_it_is_read() -> None:
    with refused(ConfigurationError, "key_unreadable", setting="HORAE_SECRET_KEY"):
        Outgoing.read({"HORAE_SECRET_KEY": "too short"})


@pytest.mark.parametrize("trace_id", [None, "", "trace 1", "ünicode", "a" * 200])
def test_a_trace_id_that_no_header_can_carry_is_replaced_by_the_run(trace_id: str | None) -> None:
    job = a_job(trace_id=trace_id)

    assert trace_headers(job) == {"x-trace-id": job.run_id}


@pytest.mark.parametrize("trace_id", ["trace-1", "0" * 32, TRACE.upper(), TRACE[:-1]])
def test_only_a_trace_id_by_w3c_makes_a_traceparent(trace_id: str) -> None:
    assert trace_headers(a_job(trace_id=trace_id)) == {"x-trace-id": trace_id}


def test_each_attempt_is_a_span_of_its_own_in_the_trace_of_its_job() -> None:
    first, second = (trace_headers(a_job(trace_id=TRACE, token=token))["traceparent"] for token in (1, 2))

    for answer in (first, second):
        version, trace, span, flags = answer.split("-")
        assert (version, trace, len(span), flags) == ("00", TRACE, 16, "01")
    assert first != second


def test_a_job_that_was_enqueued_inside_a_trace_goes_on_with_it() -> None:
    answer = trace_headers(a_job(trace_id=f"00-{TRACE}-00f067aa0ba902b7-00"))

    assert answer["x-trace-id"] == TRACE
    assert answer["traceparent"].startswith(f"00-{TRACE}-")
    assert answer["traceparent"].endswith("-00")
    assert "00f067aa0ba902b7" not in answer["traceparent"]


async def test_a_webhook_says_which_trace_it_belongs_to(telling: Telling) -> None:
    async with serving(answering()) as server, telling(server) as story:
        story.jobs.webhook.using(owner="alice", trace_id=TRACE).enqueue(url=server.url)
        story.jobs.webhook.using(owner="alice", trace_id=TRACE).enqueue(url=server.url, headers={"X-Trace-Id": "mine"})
        await story.lab.settle()

    first, second = (received.headers for received in server.received)
    assert (first["x-trace-id"], first["traceparent"].split("-")[1]) == (TRACE, TRACE)
    assert second["x-trace-id"] == "mine"


async def test_a_tracer_may_send_its_own_headers_along(telling: Telling) -> None:
    """The seam for OpenTelemetry: what the hook says wins over what the job says, and over nothing else."""
    theirs = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "content-type": "text/plain"}
    calls = Calls(resolve=Names(), headers=lambda: theirs)
    async with serving(answering()) as server, telling(server, calls=calls) as story:
        story.jobs.webhook.using(owner="alice", trace_id=TRACE).enqueue(url=server.url)
        await story.lab.settle()

    (got,) = server.received
    assert got.headers["traceparent"] == theirs["traceparent"]
    assert got.headers["content-type"] == "application/json"
