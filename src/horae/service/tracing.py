"""Which trace a request belongs to, so that the jobs it makes stay in it."""

from __future__ import annotations

from fastapi import Request

from horae.core.traces import parent_of
from horae.service.state import world_of


def trace_id_from(request: Request) -> str | None:
    """For a new job's ``trace_id``: the span under way where somebody traces, else the header ``traceparent``.

    A header that is not a ``traceparent`` by W3C Trace Context is ignored, as that standard asks.
    """
    tracing = world_of(request).tracing
    here = None if tracing is None else tracing.current()
    parent = parent_of(request.headers.get("traceparent"))
    return here or (None if parent is None else str(parent))
