"""One trace from the enqueue over the run to the outgoing call; and nothing at all where nobody traces."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from horae import Context, Horae, Retry, telemetry
from horae.actions.jobs import jobs as verbs
from horae.core.traces import Parent, origin_of, parent_of, trace_id_of
from horae.errors import ConfigurationError
from horae.outgoing.trace_context import trace_headers
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.service.trace_context import trace_id_from
from tests.runtime.serving import ended, serving
from tests.support.refusals import refused
from tests.support.waiting import eventually

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


@pytest.fixture
def app(provider: TracerProvider) -> Iterator[Horae]:
    with Horae("sqlite://") as app:
        telemetry.instrument(app, provider)
        yield app


def hexadecimal(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


async def the_span(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    found: list[ReadableSpan] = await eventually(
        lambda: [span for span in exporter.get_finished_spans() if span.name == name], f"the span {name}"
    )
    return found[0]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_enqueue_run_and_outgoing_call_share_one_trace(
    app: Horae, provider: TracerProvider, exporter: InMemorySpanExporter, kind: str
) -> None:
    sent: list[Mapping[str, str]] = []

    async def in_loop() -> None:
        sent.append(telemetry.headers())

    def in_thread() -> None:
        sent.append(telemetry.headers())

    handle: Any = app.job("call")(in_loop if kind == "async" else in_thread)
    with provider.get_tracer("test").start_as_current_span("request") as request:
        job = handle.enqueue()
    async with serving(app):
        done = await ended(app, job)
    run = await the_span(exporter, "run call")
    asked = request.get_span_context()
    assert run.parent is not None
    assert (run.parent.span_id, run.parent.is_remote) == (asked.span_id, True)
    called = parent_of(sent[0]["traceparent"])
    assert called is not None
    assert run.context is not None
    assert called.span_id == f"{run.context.span_id:016x}"
    assert {hexadecimal(run), called.trace_id, trace_id_of(done.trace_id)} == {f"{asked.trace_id:032x}"}


async def test_a_run_is_described_by_the_messaging_conventions(app: Horae, exporter: InMemorySpanExporter) -> None:
    job = app.job("work")(lambda: None).enqueue()
    async with serving(app):
        await ended(app, job)
    run = await the_span(exporter, "run work")
    answer = dict(run.attributes or {})
    assert run.kind is SpanKind.CONSUMER
    assert run.parent is None
    assert answer["messaging.system"] == "horae"
    assert answer["messaging.destination.name"] == "default"
    assert answer["messaging.message.id"] == job.id
    assert (answer["horae.outcome"], answer["horae.attempt"]) == ("succeeded", 1)


async def test_a_failure_is_recorded_with_its_exception(app: Horae, exporter: InMemorySpanExporter) -> None:
    def work() -> None:
        raise ValueError("paper jam")

    job = app.job("work", retry=Retry.none())(work).enqueue()
    async with serving(app):
        await ended(app, job)
    run = await the_span(exporter, "run work")
    assert run.status.status_code is StatusCode.ERROR
    assert run.status.description == "ValueError: paper jam"
    assert [event.name for event in run.events] == ["exception"]
    assert (run.attributes or {})["error.type"] == "ValueError"


async def test_what_a_handler_enqueues_hangs_below_its_run(app: Horae, exporter: InMemorySpanExporter) -> None:
    second = app.job("second")(lambda: None)
    made: list[Any] = []
    first = app.job("first")(lambda: made.append(second.enqueue())).enqueue()
    async with serving(app):
        await ended(app, first)
        await ended(app, made[0])
    outer, inner = await the_span(exporter, "run first"), await the_span(exporter, "run second")
    assert outer.context is not None
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id


async def test_a_job_with_a_bare_trace_id_runs_in_that_trace(app: Horae, exporter: InMemorySpanExporter) -> None:
    """S1-13: the trace id on record is the one that the tracer shows."""
    job = app.job("work")(lambda: None).using(trace_id=TRACE).enqueue()
    async with serving(app):
        await ended(app, job)
    assert hexadecimal(await the_span(exporter, "run work")) == TRACE


async def test_a_run_that_is_cut_off_ends_its_span(app: Horae, exporter: InMemorySpanExporter) -> None:
    begun = asyncio.Event()

    async def work(ctx: Context) -> None:
        begun.set()
        await asyncio.Event().wait()

    app.job("work")(work).enqueue()
    async with serving(app, grace=0.01):
        await begun.wait()
    run = await the_span(exporter, "run work")
    assert (run.attributes or {})["horae.outcome"] == "interrupted"


async def test_a_broken_tracer_breaks_no_job(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    """C-25: what watches the work must never break it."""

    class Broken(TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> Any:
            return object()

    telemetry.instrument(app, Broken())
    job = app.job("work")(lambda: "done").enqueue()
    async with serving(app):
        assert (await ended(app, job)).result == "done"
    assert "is not traced" in caplog.text


# -- where nobody traces -----------------------------------------------------------------------------------------


def test_nothing_of_opentelemetry_is_imported_until_asked_for() -> None:
    code = (
        "import sys, horae, horae.telemetry\n"
        "app = horae.Horae('sqlite://')\n"
        "app.job('work')(lambda: None).enqueue()\n"
        "assert horae.telemetry.headers() == {}\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_environment_switches_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_OTEL", "1")
    with Horae("sqlite://") as app:
        assert isinstance(app.world.tracing, telemetry.OpenTelemetry)
    monkeypatch.setenv("HORAE_OTEL", "perhaps")
    with refused(ConfigurationError, "setting_invalid", name="HORAE_OTEL"):
        Horae("sqlite://")


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with Horae("sqlite://") as app, refused(ConfigurationError, "tracing_extra_missing"):
        telemetry.instrument(app)


# -- the text that a job keeps -----------------------------------------------------------------------------------


def test_a_traceparent_is_read_as_w3c_says() -> None:
    assert parent_of(PARENT) == Parent(TRACE, "00f067aa0ba902b7", 1)
    assert str(parent_of(PARENT)) == PARENT
    assert parent_of(f"cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-adds") == Parent(TRACE, "00f067aa0ba902b7", 1)
    assert trace_id_of(PARENT) == TRACE
    assert trace_id_of("my own label") == "my own label"
    assert trace_id_of(None) is None
    assert origin_of("my own label") is None


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", f"ff-{TRACE}-00f067aa0ba902b7-01", f"00-{'0' * 32}-00f067aa0ba902b7-01",
     f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-00f067aa0ba902b7-01", PARENT + "-more", PARENT + "\x00",
     "é" * 55],
)  # fmt: skip
def test_what_is_not_a_traceparent_is_ignored(text: str) -> None:
    assert parent_of(text) is None


def test_an_outgoing_call_shows_the_trace_id_and_its_own_span(app: Horae) -> None:
    made = app.job("work")(lambda: None).using(trace_id=PARENT).enqueue()
    job = verbs.get(app.world, made.id)
    answer = trace_headers(job)
    assert answer["x-trace-id"] == TRACE
    assert answer["traceparent"].startswith(f"00-{TRACE}-")
    assert answer["traceparent"] != PARENT


@pytest.mark.parametrize(("header", "stored"), [(PARENT, PARENT), ("nonsense", None), (None, None)])
def test_a_request_hands_its_trace_on(header: str | None, stored: str | None, app: Horae) -> None:
    service = build(lambda: app.world, Options())

    @service.get("/echo")
    def echo(request: Request) -> dict[str, str | None]:
        return {"trace": trace_id_from(request)}

    client = TestClient(service)
    given = {} if header is None else {"traceparent": header}
    assert client.get("/echo", headers=given).json() == {"trace": stored}


def test_a_server_span_wins_over_the_header(app: Horae, provider: TracerProvider) -> None:
    world: World = app.world
    assert world.tracing is not None
    with provider.get_tracer("test").start_as_current_span("server") as span:
        parent = parent_of(world.tracing.current())
    assert parent is not None
    assert parent.span_id == f"{span.get_span_context().span_id:016x}"


def test_a_job_that_a_request_makes_stays_in_its_trace_and_shows_its_id(app: Horae) -> None:
    client = TestClient(build(lambda: app.world, Options(open_to_all=True)))
    body = {"handler": "work", "run_at": "2999-01-01T00:00:00Z"}
    made = client.post("/scheduler/jobs", json=body, headers={"traceparent": PARENT})
    assert made.status_code < 300, made.text
    job_id = made.json()["job_id"]
    assert verbs.get(app.world, job_id).trace_id == PARENT
    assert client.get(f"/scheduler/jobs/{job_id}").json()["trace_id"] == TRACE


def test_what_is_triggered_by_hand_stays_in_the_trace(app: Horae, provider: TracerProvider) -> None:
    app.job("nightly", cron="0 3 * * *")(lambda: None)
    with provider.get_tracer("test").start_as_current_span("click") as span:
        by_hand = app.trigger("nightly")
    assert by_hand is not None
    assert trace_id_of(app.get(by_hand).trace_id) == f"{span.get_span_context().trace_id:032x}"
