"""GET /metrics: the fleet's figures from the store, this process's own, and what the service itself does.

The store is read every few seconds at most, however many scrape. When it does not answer, the other metrics are still
shown.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import MutableMapping
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horae.actions.metrics import (
    DATABASE_UP,
    families,
    fleet_families,
    history_families,
    survey,
    undelivered_families,
)
from horae.core.metrics import MOST, OTHER, Family, Spread
from horae.errors import Forbidden, HoraeError
from horae.ports.world import World
from horae.service.fresh import Fresh
from horae.service.prometheus import MEDIA, expose
from horae.service.router import make_router
from horae.service.state import REQUIRED_SCOPES, Service, bearer, caller_of, service_of, ticks_of

log = logging.getLogger("horae.service")
FRESH, FRESH_HISTORY = 5.0, 600.0  # seconds
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
UNMATCHED = "unmatched"
EXAMPLE = "# TYPE jobs_due_count gauge\njobs_due_count 3.0\n"

router = make_router(tags=["health"])


def _history(world: World) -> list[Family]:
    found = fleet_families(world, history_families)
    return [each for each in found if each.name != DATABASE_UP]  # the survey says it


class Meter:
    """The metrics of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._survey = Fresh(self._look, ticks_of(service), FRESH)
        self._history = Fresh(lambda: _history(service.world), ticks_of(service), FRESH_HISTORY)
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._latencies: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
        self._problems: Counter[str] = Counter()

    def families(self) -> list[Family]:
        return [*self._survey.get(), *self._service.options.figures(), *self._own()]

    def _look(self) -> list[Family]:
        up = "Whether the store answered when it was last asked."
        try:
            world = self._service.world
            stored = [*fleet_families(world, lambda each: families(survey(each))), *self._history.get()]
            stored += undelivered_families(world)
        except HoraeError as problem:
            log.warning("metrics of the store are missing: %s", problem)
            return [Family("horae_store_up", "gauge", up, (), {(): 0.0})]
        return [Family("horae_store_up", "gauge", up, (), {(): 1.0}), *stored]

    # -- the service itself --------------------------------------------------------------------------------------

    def began(self) -> float:
        given = self._service.options.monotonic
        return math.nan if given is None else given()

    def count_answer(self, scope: Scope, status: int, began: float) -> None:
        """Count an answer; called from the event loop only, so that no lock is needed."""
        route = getattr(scope.get("route"), "path", UNMATCHED)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        self._requests[route, method, str(status)] += 1
        state: MutableMapping[str, Any] = scope.get("state") or {}
        if "problem" in state:
            self._problems[state["problem"]] += 1
        took = self.began() - began
        if not math.isnan(took):
            counts, total = self._latencies.setdefault((route, method), ([0] * (len(LATENCIES) + 1), [0.0]))
            counts[bisect_left(LATENCIES, took)] += 1
            total[0] += took

    def _own(self) -> list[Family]:
        version = self._service.options.version
        return [
            Family("horae_build_info", "gauge", "Which Horae this is.", ("version",), {(version,): 1.0}),
            Family(
                "horae_http_requests_total", "counter", "Requests answered by this process, by the route's template.",
                ("route", "method", "status"),
                {labels: float(count) for labels, count in list(self._requests.items())},
            ),
            Family(
                "horae_http_request_seconds", "histogram", "How long they took; a long poll's wait is part of it.",
                ("route", "method"),
                {
                    labels: Spread(LATENCIES, tuple(counts), total[0])
                    for labels, (counts, total) in list(self._latencies.items())
                },
            ),
            Family(
                "horae_http_problems_total", "counter", "Requests refused by this process, by the code of the problem.",
                ("code",), {(code,): float(count) for code, count in list(self._problems.items())[:MOST]},
            ),
            Family(
                "horae_stale_acks_total", "counter", "Endings refused because the job had been handed on.",
                ("by",), {("http",): float(self._problems["lease_lost"])},
            ),
        ]  # fmt: skip


class Counted:
    """Count every answer; outermost, so that refusals of other middleware are counted as well."""

    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self._app, self._meter = app, meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = self._meter.began(), 500

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            self._meter.count_answer(scope, status, began)


def install(app: FastAPI) -> None:
    """Count what this application answers."""
    meter = Meter(app.state.horae)
    app.state.meter = meter
    app.add_middleware(Counted, meter=meter)


async def scraper(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)] = None
) -> None:
    """Admit operators, or every caller where metrics are open; the figures are of all tenants together."""
    if service_of(request).options.open_metrics:
        return
    caller = await caller_of(request, given)
    caller.require("read")
    caller.require_all_queues()
    if not caller.is_operator:
        raise Forbidden("metrics_for_operator_only")


REQUIRED_SCOPES[scraper] = ("read",)


@router.get(
    "/metrics",
    operation_id="get_metrics",
    summary="Figures for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": EXAMPLE}}}},
    dependencies=[Depends(scraper)],
)
def metrics(request: Request) -> Response:
    """The text format of Prometheus, for an operator's token with the scope `read`, or for all where it is open."""
    meter: Meter = request.app.state.meter
    return Response(expose(meter.families), media_type=MEDIA)
