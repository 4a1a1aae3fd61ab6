"""Who looks at a page, and everything that the page is made with: the caller's rooms, language, clock and URLs."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.api.senders.noticing import Noticing
from horae.console import texts, times
from horae.core.access.callers import Caller
from horae.core.access.sessions import SECRET_LENGTH, Session, csrf_of, is_csrf_of, mask_csrf
from horae.core.dataclass import dataclass
from horae.errors import Forbidden, HoraeError, InvalidInput
from horae.service import languages
from horae.service.auth import sessions as browsers
from horae.service.rooms import act_together, read_together
from horae.service.state import CALLER, Service, service_of
from horae.words.languages import Language

T = TypeVar("T")
THEMES = ("system", "light", "dark")
MOST_FIELDS = 1000
FLASH_SECONDS = 60
YEAR = 365 * 86400


@dataclass(frozen=True)
class Flash:
    """What an act has done, shown once on the next page; *undo* is the path of the act that takes it back."""

    text: str
    kind: str = "done"  # or "problem"
    undo: str | None = None
    undo_fields: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Visit:
    """One request of a browser."""

    request: Request
    caller: Caller | None
    session: Session | None
    form: Mapping[str, str] = field(default_factory=dict)
    form_lists: Mapping[str, list[str]] = field(default_factory=dict)
    cookies_set: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)  # databases of a cluster that gave no answer for this page

    # -- the request ---------------------------------------------------------------------------------------------

    @property
    def service(self) -> Service:
        return service_of(self.request)

    @cached_property
    def cookies(self) -> dict[str, str]:
        return browsers.cookies_of(self.request.headers.get("cookie", ""))

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def is_partial(self) -> bool:
        """Whether htmx asks for the content alone."""
        return self.request.headers.get("hx-request-type") == "partial"

    @property
    def known(self) -> Caller:
        """The caller of a page that only those who are logged in see."""
        assert self.caller is not None
        return self.caller

    # -- what the reader has chosen ------------------------------------------------------------------------------

    @cached_property
    def locale(self) -> texts.Locale:
        accepted = self.request.headers.get("accept-language", "")
        return texts.locale_from(self.query.get("lang"), self.cookies.get("horae_lang"), accept_language=accepted)

    @cached_property
    def theme(self) -> str:
        chosen = self.cookies.get("horae_theme", "")
        return chosen if chosen in THEMES else "system"

    @cached_property
    def clock(self) -> times.Clock:
        choice = self.cookies.get("horae_zone", "")
        browser = self.cookies.get("horae_tz", "").replace("%2F", "/")
        return times.Clock(
            self.now,
            next((each for each in times.CHOICES if each == choice), "mine"),
            browser if times.zone_named(browser) is not None else None,
        )

    @cached_property
    def now(self) -> datetime:
        """The present instant, by the clock that decides what is due."""
        return self.service.world.clock.now()

    # -- the rooms -----------------------------------------------------------------------------------------------

    async def read(self, work: Callable[[Rooms[Sender]], T]) -> T:
        """Read through the caller's rooms, all in one moment."""
        return await read_together(self.request, self.known, lambda rooms: work(self._noticing(rooms)))

    def _noticing(self, rooms: Rooms[Sender]) -> Rooms[Sender]:
        """Return rooms that tell this page which databases gave no answer."""
        return Rooms(Noticing(rooms._sender, lambda databases, _: self.missing.update(databases)))

    async def act(self, work: Callable[[Rooms[Sender]], T]) -> T:
        """Change something through the caller's rooms."""
        return await act_together(self.request, self.known, lambda rooms: work(self._noticing(rooms)))

    def may(self, *scopes: str) -> bool:
        return self.caller is not None and self.caller.may(*scopes)

    # -- URLs and answers ----------------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        """The path under which the console is mounted."""
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    def url(self, path: str = "/", **query: Any) -> str:
        """Return the URL of a page of the console, under whatever prefix it is mounted."""
        given = [(name, str(value)) for name, value in query.items() if value is not None]
        return f"{self.root}{quote(path, safe='/:@')}" + (f"?{urlencode(given)}" if given else "")

    @property
    def here(self) -> str:
        """The URL of the page that is shown, without a language that was asked for once."""
        kept = [
            (name, value) for name, value in self.request.query_params.multi_items() if name not in ("lang", "code")
        ]
        path = self.request.url.path
        return f"{path}?{urlencode(kept)}" if kept else path

    @property
    def address(self) -> str:
        """Where the service is reached, for commands that a reader copies."""
        base = self.root.removesuffix(browsers.PREFIX)
        return self.service.options.public_url or f"{self.request.url.scheme}://{self.request.url.netloc}{base}"

    @property
    def language(self) -> Language:
        """The language of the sentences that rooms give."""
        return texts.language()

    def is_local(self, url: str) -> bool:
        """Return whether a URL is a path of this console, to which a browser may be led."""
        plain = url.isprintable() and "\\" not in url and not url.startswith("//")
        return plain and (url == self.root or url.startswith(f"{self.root}/"))

    @property
    def is_secure(self) -> bool:
        return self.request.url.scheme == "https" or self.service.options.public_url.startswith("https://")

    def redirect(self, path: str, flash: Flash | None = None, **query: Any) -> Response:
        """Lead the browser to a page after an act."""
        if flash is not None:
            self.set_cookie("horae_flash", self._pack(flash), max_age=FLASH_SECONDS)
        answer = RedirectResponse(self.url(path, **query), 303)
        return self.finish(answer)

    # -- cookies -------------------------------------------------------------------------------------------------

    def set_cookie(self, name: str, value: str | None, **options: Any) -> None:
        """Set a cookie with the answer, or delete it."""
        self.cookies_set.append((name, value, options))

    def finish(self, answer: Response) -> Response:
        """Add the cookies to an answer."""
        path = self.root or "/"
        for name, value, options in self.cookies_set:
            shared: dict[str, Any] = {"path": path, "secure": self.is_secure, "httponly": True, "samesite": "lax"}
            if value is None:
                answer.delete_cookie(name, path=path, secure=self.is_secure, httponly=True, samesite="lax")
            else:
                answer.set_cookie(name, value, **{**shared, **options})
        return answer

    # -- forms ---------------------------------------------------------------------------------------------------

    @cached_property
    def csrf_secret(self) -> str:
        if self.session is not None:
            return self.session.csrf
        visitor = self.cookies.get("horae_visitor", "")
        if len(visitor) != SECRET_LENGTH:
            visitor = secrets.token_hex(SECRET_LENGTH // 2)
            self.set_cookie("horae_visitor", visitor)
        return csrf_of(visitor)

    def csrf(self) -> str:
        """Return the token for a form of this page, masked anew."""
        return mask_csrf(self.csrf_secret, secrets.token_hex(SECRET_LENGTH // 2))

    def instant(self, name: str) -> datetime | None:
        """Return the instant of a field, which the reader has written on the clock that is shown; None if empty."""
        text = self.form.get(name, "").strip()
        if not text:
            return None
        try:
            there = datetime.fromisoformat(text)
            return (there if there.tzinfo else there.replace(tzinfo=self.clock.zone_for())).astimezone(UTC)
        except (ValueError, OverflowError):
            raise InvalidInput("instant_unreadable", name=name, text=text[:40]) from None

    def check_csrf(self) -> None:
        if not is_csrf_of(self.csrf_secret, self.form.get("csrf", "")):
            raise Forbidden("form_not_from_here")

    # -- what the last act has done ------------------------------------------------------------------------------

    def take_flash(self) -> Flash | None:
        """Return what the last act has done, once."""
        packed = self.cookies.get("horae_flash")
        if packed is None:
            return None
        self.set_cookie("horae_flash", None)
        return self._unpack(packed)

    def _pack(self, flash: Flash) -> str:
        body = [flash.text, flash.kind, flash.undo, dict(flash.undo_fields)]
        data = urlsafe_b64encode(json.dumps(body).encode()).decode()
        return f"{data}.{self._sign(data)}"

    def _unpack(self, packed: str) -> Flash | None:
        data, _, signature = packed.partition(".")
        if not hmac.compare_digest(signature, self._sign(data)):
            return None
        text, kind, undo, fields = json.loads(urlsafe_b64decode(data))
        return Flash(text, kind, undo, fields)

    def _sign(self, data: str) -> str:
        return hmac.new(self.csrf_secret.encode(), data.encode(), hashlib.sha256).hexdigest()


async def recognise(request: Request) -> Visit:
    """Return the visit of a request, with its caller where the browser is logged in."""
    if browsers.SESSION in request.scope:  # the guard has looked already, before it read a body
        return Visit(request, request.scope[CALLER], request.scope[browsers.SESSION])
    if browsers.REFUSED in request.scope:
        return _refused(request, request.scope[browsers.REFUSED])
    cookie = browsers.session_cookie(Headers(scope=request.scope))
    service = service_of(request)
    if cookie is None and not service.options.open_to_all:
        return Visit(request, None, None)
    try:
        caller, session = await run_in_threadpool(browsers.authenticate_browser, service, cookie)
    except HoraeError as error:
        return _refused(request, error)
    request.state.caller = caller  # for the log
    return Visit(request, caller, session)


def _refused(request: Request, error: HoraeError) -> Visit:
    """Return the visit of a browser that is not logged in; anything else that went wrong is raised."""
    if error.code != "unauthorized":
        raise error
    return Visit(request, None, None)


async def read_form(visit: Visit) -> None:
    """Read the fields of a form; the guard has limited its size."""
    body = await visit.request.body()
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise InvalidInput("form_unreadable") from None
    if any("\x00" in value for _, value in fields):
        raise InvalidInput("form_unreadable")
    lists: dict[str, list[str]] = {}
    for name, value in fields:
        lists.setdefault(name, []).append(value.replace("\r\n", "\n"))
    visit.form_lists = lists
    visit.form = {name: values[-1] for name, values in lists.items()}


def speak(visit: Visit) -> None:
    """Let everything that is said while this request is answered be in its language."""
    texts.choose(visit.locale)
    languages.choose("zh" if texts.language() == "zh" else "en")
