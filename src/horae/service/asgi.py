"""The application: the routers of all rooms, middleware and error handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute

from horae.actions.jobs.quotas import RoomLeft
from horae.ports.world import World
from horae.service import documents, health, metrics, problems
from horae.service.auth.holders import Holders
from horae.service.auth.recognised import Recognised
from horae.service.dialects import admin, jobs, scheduled_tasks, scheduler
from horae.service.dialects import held_jobs as pulling
from horae.service.direct import COMPRESSION, Direct
from horae.service.enqueues import Enqueues
from horae.service.guard.guard import Guard, untimed
from horae.service.guard.limits import Limits
from horae.service.options import Options
from horae.service.router import make_router
from horae.service.routes import access as access_routes
from horae.service.routes import acts as act_routes
from horae.service.routes import admin as admin_routes
from horae.service.routes import attention as attention_routes
from horae.service.routes import attention_overview as attention_overview_routes
from horae.service.routes import audit as audit_routes
from horae.service.routes import batches as batch_routes
from horae.service.routes import budgets as budget_routes
from horae.service.routes import calendars as calendar_routes
from horae.service.routes import decisions as decision_routes
from horae.service.routes import error_groups as error_group_routes
from horae.service.routes import expectations as expectation_routes
from horae.service.routes import governance as governance_routes
from horae.service.routes import held_jobs as held_job_routes
from horae.service.routes import jobs as job_routes
from horae.service.routes import live as live_routes
from horae.service.routes import object_verbs as object_verb_routes
from horae.service.routes import objects as object_routes
from horae.service.routes import overview as overview_routes
from horae.service.routes import policies as policy_routes
from horae.service.routes import queues as queue_routes
from horae.service.routes import schedules as schedule_routes
from horae.service.routes import statistics as statistic_routes
from horae.service.routes import views as view_routes
from horae.service.state import Service

# One line for each room; the order is the order of the OpenAPI document.
ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    metrics.router,
    overview_routes.router,
    held_job_routes.router,
    job_routes.router,
    act_routes.router,
    batch_routes.router,
    jobs.router,
    pulling.router,
    scheduled_tasks.router,
    attention_routes.router,
    attention_overview_routes.router,
    schedule_routes.router,
    calendar_routes.router,
    expectation_routes.router,
    scheduler.router,
    admin.router,
    queue_routes.router,
    statistic_routes.router,
    error_group_routes.router,
    object_routes.router,
    object_verb_routes.router,
    policy_routes.router,
    decision_routes.router,
    budget_routes.router,
    governance_routes.router,
    view_routes.router,
    live_routes.router,
    access_routes.router,
    audit_routes.router,
    admin_routes.router,
)  # fmt: skip


BESIDE_IDS = ("/scheduler/jobs/", "/scheduled-tasks/")  # ids there look like job_12 and task_0f3c…


def methods_beside_ids() -> dict[str, list[str]]:
    """Return the methods of paths that look like an id and never are one, such as ``/scheduler/jobs/pull``."""
    known: dict[str, list[str]] = {}
    for route in (each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute)):
        if "{" not in route.path and route.path.startswith(BESIDE_IDS):
            known.setdefault(route.path, []).extend(sorted(route.methods or ()))
    return known


@cache
def room_routes() -> tuple[BaseRoute, ...]:
    """Return the routes of every room, shared by all services of this process.

    FastAPI resolves the dependencies of an included router once per application, at its first request; shared routes
    are resolved once per process, which saves each further service 45 ms.
    """
    rooms = make_router()
    for router in ROUTERS:
        rooms.include_router(router)
    return tuple(rooms.routes)


@cache
def rooms_description() -> str:
    """Return the OpenAPI document of every room, shared as the routes are: writing it takes most of a second."""
    return documents.describe_routes(room_routes())


def _lifespan(options: Options) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Run what goes on beside the service; not where it is mounted, because the outer application has the lifespan."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with nullcontext() if options.beside is None else options.beside():
            yield

    return lifespan


def build(opens: Callable[[], World], options: Options | None = None) -> FastAPI:
    """Return the service over a store. *opens* returns the world, or raises the error that callers get."""
    how = options or Options()
    app = FastAPI(
        title="Horae",
        version=how.version or "0",
        summary="The time layer: jobs, schedules, users' scheduled tasks.",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the caller's Host header
        lifespan=_lifespan(how),
    )
    limits = Limits(how.rates, how.monotonic or untimed)
    room_left = None if how.monotonic is None else RoomLeft()
    service = app.state.horae = Service(opens, how, limits, Recognised(how.monotonic), room_left)
    app.state.enqueues = Enqueues()
    app.state.holders = Holders()
    problems.register(app)
    app.router.routes.extend(room_routes())
    app.add_middleware(GZipMiddleware, **COMPRESSION)
    app.add_middleware(Direct, routes=[each for router in ROUTERS for each in router.routes])
    app.add_middleware(Guard, service=service, methods=methods_beside_ids())
    app.include_router(documents.router)
    health.install(app)
    metrics.install(app)
    documents.describe(app, rooms_description, how.public_url)
    return app
