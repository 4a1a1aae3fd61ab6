"""The trace of a request: jobs that it enqueues or triggers belong to it, without code in the endpoints."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from fastapi import Request

from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job, Outcome
from horae.core.traces import parent_of
from horae.ports.world import TracedRun, Tracing, World


def trace_id_from(request: Request) -> str | None:
    """Return the trace in the header ``traceparent``; an invalid one is ignored, as W3C Trace Context asks."""
    parent = parent_of(request.headers.get("traceparent"))
    return None if parent is None else str(parent)


def join_trace(world: World, request: Request) -> World:
    """Return the world in which new jobs belong to the trace of the request."""
    trace_id = trace_id_from(request)
    return world if trace_id is None else replace(world, tracing=Incoming(trace_id, world.tracing))


@dataclass(frozen=True, slots=True)
class Incoming:
    """The caller's span as the parent of new jobs, unless a tracer has a nearer one."""

    parent: str
    tracer: Tracing | None = None

    def current(self) -> str | None:
        return (None if self.tracer is None else self.tracer.current()) or self.parent

    def running(self, job: Job) -> AbstractContextManager[TracedRun]:
        return nullcontext(UntracedRun()) if self.tracer is None else self.tracer.running(job)


class UntracedRun:
    """A run without a trace."""

    def ended(self, outcome: Outcome, problem: BaseException | None) -> None:
        return None
