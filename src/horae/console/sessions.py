"""Log in, log out, and what a reader chooses for this browser: language, theme, time zone."""

from __future__ import annotations

from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from horae.console import texts, times
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.visitor import THEMES, YEAR, Visit
from horae.core.access.callers import Caller
from horae.core.access.sessions import LONGEST, Session
from horae.errors import NotFound, TooManyRequests, Unauthorized
from horae.service.auth import sessions as browsers
from horae.service.problems import status_of
from horae.service.state import address_of

doors = Doors()


@doors.page("/login", public=True)
async def login(visit: Visit) -> Response:
    """Show the form, or log in at once with a code in the URL, which the next URL does not have any more."""
    after = _next(visit, visit.query.get("next"))
    if visit.query.get("code"):
        return await _log_in(visit, "code", visit.query["code"], after)
    if visit.caller is not None:
        return RedirectResponse(after or _landing(visit, visit.caller), 303)
    return render(visit, "login.html", after=after, problem=None)


@doors.act("/login", None, public=True)
async def log_in(visit: Visit) -> Response:
    after = _next(visit, visit.form.get("next"))
    given = visit.form.get("token", "").strip()
    return await _log_in(visit, "code" if len(given) == 40 else "token", given, after)


@doors.act("/logout", None, public=True)
async def log_out(visit: Visit) -> Response:
    if visit.session is not None:
        with suppress(NotFound):  # it has ended meanwhile
            await run_in_threadpool(browsers.log_out, visit.service, visit.session)
        visit.set_cookie(_cookie_name(visit), None)
    return visit.redirect("/login")


@doors.act("/preferences", None, public=True)
async def choose(visit: Visit) -> Response:
    """Keep what the reader chooses in cookies of this browser."""
    allowed = {"lang": tuple(texts.NAMES), "theme": THEMES, "zone": times.CHOICES}
    for name, choices in allowed.items():
        if visit.form.get(name) in choices:
            visit.set_cookie(f"horae_{name}", visit.form[name], max_age=YEAR)
    return RedirectResponse(_next(visit, visit.form.get("next")) or visit.url("/"), 303)


async def _log_in(visit: Visit, how: str, given: str, after: str) -> Response:
    log_in_with = browsers.log_in_with_code if how == "code" else browsers.log_in_with_token
    address = address_of(visit.request.scope)
    try:
        session, cookie = await run_in_threadpool(log_in_with, visit.service, given, address)
    except (Unauthorized, TooManyRequests) as error:
        visit.request.state.problem = error.code
        problem = error.in_words(texts.language())
        return render(visit, "login.html", status_of(error), after=after, problem=problem)
    _remember(visit, session, cookie)
    return RedirectResponse(after or _landing(visit, session.caller), 303)


def _landing(visit: Visit, caller: Caller) -> str:
    """Return the first page after the log-in: a tenant's own tasks, or Home."""
    return visit.url("/tasks" if caller.sees is not None and caller.may("tasks") else "/")


def _remember(visit: Visit, session: Session, cookie: str) -> None:
    visit.set_cookie(_cookie_name(visit), cookie, max_age=int(LONGEST.total_seconds()))


def _cookie_name(visit: Visit) -> str:
    return browsers.cookie_name(visit.request.headers.get("host", ""))


def _next(visit: Visit, wanted: str | None) -> str:
    """Return where to go afterwards, if that is a page of this console; empty for any other text."""
    return wanted if wanted and visit.is_local(wanted) else ""
