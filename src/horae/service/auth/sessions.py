"""Browsers: log them in by a code or a token, and recognise them by their cookie.

The cookie counts under ``/console`` alone, and there nothing else does; every other path takes a bearer token alone. So
no page of another site can use a browser's cookie on the API, and no script needs a token.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from horae.actions.access import sessions
from horae.core.access.callers import Caller
from horae.core.access.sessions import Session
from horae.errors import Unauthorized
from horae.service.state import OPEN_CALLER, Service, authenticate

PREFIX = "/console"
LOGIN = f"{PREFIX}/login"
SMALL_BODY = 16 * 1024  # bytes that a browser may send before it is logged in
LONGEST_COOKIE = 4096
# Where the guard leaves, in the scope of a request with a body, the session it found, or why there is none.
SESSION, REFUSED = "horae.session", "horae.refused"


def is_console(path: str) -> bool:
    """Return whether a path, below the root of the service, belongs to the console."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def cookie_name(host: str, what: str = "session") -> str:
    """Return the name of a cookie; browsers do not tell ports apart, so that the name has to."""
    try:
        port = urlsplit(f"//{host}").port
    except ValueError:
        port = None
    return f"horae_{what}" if port is None else f"horae_{what}_{port}"


def cookies_of(header: str) -> dict[str, str]:
    """Return the cookies of a request; none where the header cannot be read."""
    try:
        return {name: each.value for name, each in SimpleCookie(header[:LONGEST_COOKIE]).items()}
    except CookieError:
        return {}


def session_cookie(headers: Headers) -> str | None:
    """Return the text of the session's cookie in a request."""
    return cookies_of(headers.get("cookie", "")).get(cookie_name(headers.get("host", "")))


def log_in_with_code(service: Service, code: str, address: str | None) -> tuple[Session, str]:
    """Log a browser in; a wrong code counts like a wrong token."""
    try:
        return sessions.redeem_code(service.world, code, address=address)
    except Unauthorized:
        service.limits.count_wrong_token(address)
        raise


def log_in_with_token(service: Service, token: str, address: str | None) -> tuple[Session, str]:
    """Log a browser in with whatever the API accepts as a token."""
    caller = authenticate(service, f"Bearer {token}", address)
    return sessions.log_in(service.world, caller, address=address)


def authenticate_browser(service: Service, cookie: str | None) -> tuple[Caller, Session | None]:
    """Authenticate a browser by its cookie; a service that is open to all asks for none."""
    if service.options.open_to_all:
        found: tuple[Caller, Session | None] = (OPEN_CALLER, None)
    else:
        if not cookie:
            raise Unauthorized("session_ended")
        session = sessions.recognise_session(service.world, cookie)
        found = (session.caller, session)
    service.limits.count_caller(found[0])
    return found


def log_out(service: Service, session: Session) -> None:
    """End a session, by the wish of its own browser."""
    sessions.end_session(service.world, session.session_id, actor=session.actor)
