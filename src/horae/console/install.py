"""Mount the console into a service: its pages, its assets, and the way from ``/`` to it."""

from __future__ import annotations

import logging

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from horae.console import asset_files, live, sessions
from horae.console.pages import (
    attention,
    audit,
    batches,
    budgets,
    bulk,
    calendars,
    decisions,
    errors,
    forecast,
    governance,
    governance_report,
    governed_object,
    governing_rules,
    home,
    job,
    jobs,
    lane,
    lane_task,
    new_job,
    queues,
    reviews,
    schedule,
    schedules,
    settings,
    task_form,
    tasks,
    workers,
)
from horae.console.rendering import render_failure, render_problem
from horae.console.routing import Door, Doors, routes_of
from horae.console.visitor import Visit, speak
from horae.errors import NotFound
from horae.service.auth.sessions import PREFIX
from horae.service.problems import request_id

log = logging.getLogger("horae.console")

# One line for each module of pages.
PAGES: tuple[Doors, ...] = (
    sessions.doors,
    home.doors,
    jobs.doors,
    new_job.doors,
    bulk.doors,
    batches.doors,
    job.doors,
    errors.doors,
    schedules.doors,
    schedule.doors,
    calendars.doors,
    task_form.doors,
    tasks.doors,
    queues.doors,
    workers.doors,
    governance.doors,
    governed_object.doors,
    reviews.doors,
    decisions.doors,
    budgets.doors,
    governing_rules.doors,
    governance_report.doors,
    audit.doors,
    forecast.doors,
    attention.doors,
    lane_task.doors,
    lane.doors,
    settings.doors,
)  # fmt: skip


def doors() -> list[Door]:
    """Return every page and act of the console."""
    return [door for each in PAGES for door in each.doors]


def install(app: FastAPI) -> None:
    """Serve the console below ``/console``, and lead a browser there from ``/``."""
    console = Starlette(
        routes=[Route("/assets/{name:path}", asset_files.serve), live.route(), *routes_of(doors())],
        exception_handlers={404: _nothing_here, Exception: _failed},
    )
    console.router.redirect_slashes = False
    console.state.horae = app.state.horae
    console.state.service = app
    app.router.routes.append(Route(PREFIX, _to_console, include_in_schema=False))
    app.router.routes.append(Route("/", _from_root, include_in_schema=False))
    app.mount(PREFIX, Contained(console))


class Contained:
    """The console inside the service: an error that its handlers have answered is not raised a second time."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, is_answered = scope.get("app"), False

        async def send_noted(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except Exception as error:
            if not is_answered:  # the page of the failure failed as well
                raise
            log.error("a page failed: request %s", request_id(Request(scope)), exc_info=error)
        finally:
            scope["app"] = service


async def _to_console(request: Request) -> Response:
    """Lead to the console; nothing of the request's Host gets into the answer."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}{PREFIX}/", 307)


async def _from_root(request: Request) -> Response:
    """Lead a browser to the console; a program learns that there is nothing at this address."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return await _to_console(request)


async def _nothing_here(request: Request, _: Exception) -> Response:
    visit = Visit(request, None, None)
    speak(visit)
    return render_problem(visit, NotFound("page_unknown"), 404)


async def _failed(request: Request, _: Exception) -> Response:
    visit = Visit(request, None, None)
    speak(visit)
    return render_failure(visit)
