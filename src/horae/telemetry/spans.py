"""OpenTelemetry: an enqueue, its runs and what they call as one trace. Needs the extra ``otel``.

Nothing is imported and nothing is asked until :func:`instrument` is called or ``HORAE_OTEL=1`` is set. Exporters,
sampling and resources are the application's, set up as for everything else it traces. Trouble with tracing is logged
and never touches a job.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from horae.core.jobs.job import Job, Outcome
from horae.core.traces import Parent, origin_of
from horae.errors import MissingExtra
from horae.ports.world import Tracing
from horae.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

log = logging.getLogger("horae.telemetry")
FAILED = frozenset({"failed", "timed_out", "lost"})


class HasTracing(Protocol):
    """An application, as far as this module needs it."""

    def trace(self, tracing: Tracing | None) -> None: ...


def instrument(app: HasTracing, tracer_provider: TracerProvider | None = None) -> None:
    """Trace what *app* enqueues and runs, with the given provider or the process's own."""
    app.trace(OpenTelemetry(tracer_provider))


def headers() -> Mapping[str, str]:
    """Return the headers that keep an outgoing call in the trace; none where tracing is off."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    parent = _current()
    return {} if parent is None else {"traceparent": str(parent)}


class OpenTelemetry:
    """The port ``Tracing`` over OpenTelemetry's API."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise MissingExtra("tracing_extra_missing") from None
        self._tracer: Tracer = trace.get_tracer("horae", VERSION, tracer_provider=provider)

    def current(self) -> str | None:
        parent = _current()
        return None if parent is None else str(parent)

    @contextmanager
    def running(self, job: Job) -> Iterator[Ending]:
        """Open a span around one attempt, below the span that enqueued the job."""
        from opentelemetry import context, trace

        ending = Ending()
        try:
            span = self._start_span(job)
            token = context.attach(trace.set_span_in_context(span))
        except Exception:
            log.exception("the run of %s is not traced", job.id)
            yield ending
            return
        try:
            yield ending
        finally:
            context.detach(token)
            _end(span, ending)

    def _start_span(self, job: Job) -> Span:
        from opentelemetry.trace import SpanKind

        attributes: dict[str, Any] = {
            "messaging.system": "horae",
            "messaging.operation.name": "run",
            "messaging.operation.type": "process",
            "messaging.destination.name": job.queue,
            "messaging.message.id": job.id,
            "horae.handler": job.handler,
            "horae.attempt": job.attempt + 1,
            "horae.run_id": job.run_id,
        }
        parent = origin_of(job.trace_id)
        if parent is None and job.trace_id:
            attributes["horae.trace_label"] = job.trace_id
        return self._tracer.start_span(
            f"run {job.handler}", _below(parent), kind=SpanKind.CONSUMER, attributes=attributes
        )


class Ending:
    """The outcome of an attempt; empty if the attempt was cut off."""

    outcome: Outcome | None = None
    problem: BaseException | None = None

    def ended(self, outcome: Outcome, problem: BaseException | None) -> None:
        self.outcome, self.problem = outcome, problem


def _end(span: Span, ending: Ending) -> None:
    from opentelemetry.trace import StatusCode

    try:
        outcome = ending.outcome
        span.set_attribute("horae.outcome", "interrupted" if outcome is None else outcome.ending)
        if ending.problem is not None:
            span.record_exception(ending.problem)
            span.set_attribute("error.type", type(ending.problem).__qualname__)
        if outcome is not None and outcome.ending in FAILED:
            span.set_status(StatusCode.ERROR, (outcome.error or outcome.ending).partition("\n")[0][:500])
        span.end()
    except Exception:
        log.exception("the end of a run was not traced")


def _current() -> Parent | None:
    from opentelemetry import trace

    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return None
    return Parent(f"{current.trace_id:032x}", f"{current.span_id:016x}", int(current.trace_flags) & 0xFF)


def _below(parent: Parent | None) -> Context:
    """Return a context whose current span is the parent, or none: never the worker's own."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

    if parent is None:
        return Context()
    above = SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), True, TraceFlags(parent.flags))
    return trace.set_span_in_context(NonRecordingSpan(above), Context())
