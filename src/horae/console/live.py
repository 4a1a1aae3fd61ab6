"""The stream behind live pages: it says that something has changed, and the page is fetched again.

It is that of the service, for those who are logged in; all streams of a process share one look at the store.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from horae.api.live import Live
from horae.console.routing import Door, routes_of
from horae.console.visitor import Visit
from horae.service.live import PulseStream


def route() -> Route:
    """Return the route of the stream; it is no page, and admits as one."""
    return routes_of([Door("GET", "/live", Live.follow, _follow, is_public=True)])[0]


async def _follow(visit: Visit) -> Response:
    if visit.caller is None:
        return Response(status_code=204)  # the browser does not come back
    Live.follow.needs.check(visit.caller, reads=True)
    request = visit.request
    request.scope["app"] = request.app.state.service  # whose waiting room and whose look are shared
    return PulseStream(visit.service.world, visit.caller, request.headers.get("last-event-id"))
