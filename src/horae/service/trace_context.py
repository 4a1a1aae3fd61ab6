"""Which trace a request belongs to: whatever it enqueues or triggers stays in it, without any endpoint's doing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from fastapi import Request

from horae.core.jobs.job import Job, Outcome
from horae.core.traces import parent_of
from horae.ports import TracedRun, Tracing, World


def trace_id_from(request: Request) -> str | None:
    """The header ``traceparent``; one that is none by W3C Trace Context is ignored, as that standard asks."""
    parent = parent_of(request.headers.get("traceparent"))
    return None if parent is None else str(parent)


def joined(world: World, request: Request) -> World:
    """The world as this request sees it: what it makes belongs to the caller's trace."""
    trace_id = trace_id_from(request)
    return world if trace_id is None else replace(world, tracing=Incoming(trace_id, world.tracing))


@dataclass(frozen=True, slots=True)
class Incoming:
    """The caller's span, below which things happen here, unless a tracer knows a nearer one."""

    parent: str
    tracer: Tracing | None = None

    def current(self) -> str | None:
        return (None if self.tracer is None else self.tracer.current()) or self.parent

    def running(self, job: Job) -> AbstractContextManager[TracedRun]:
        return nullcontext(UntracedRun()) if self.tracer is None else self.tracer.running(job)


class UntracedRun:
    """A run that nobody traces."""

    def ended(self, outcome: Outcome, problem: BaseException | None) -> None:
        return None
