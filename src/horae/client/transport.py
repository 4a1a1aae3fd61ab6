"""The two senders: one connection pool, time limits, and tries again where that can do no harm."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, NoReturn, TypeVar, get_origin
from urllib.parse import SplitResult, urlsplit

import httpx

from horae.api.operation import Answer, Call
from horae.api.values import Unreadable, from_json
from horae.client.problems import error_from, retry_after
from horae.client.streams import Events
from horae.clock import SystemClock, SystemDice, pause, pause_async
from horae.errors import HoraeError, InvalidInput, ServiceUnavailable
from horae.version import VERSION

T = TypeVar("T")
AGAIN_LATER = (429, 503)
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # the service has seen nothing of it
_clock, _dice = SystemClock(), SystemDice()


@dataclass(frozen=True)
class Patience:
    """How long a client waits, and how often it tries."""

    timeout: float = 30.0  # seconds for an answer, beside what a long poll asks for
    connect_timeout: float = 5.0
    retries: int = 3
    backoff: float = 0.25  # seconds before the second try; doubled before each further one
    longest: float = 30.0  # a Retry-After beyond this is the caller's to wait for


@dataclass(frozen=True)
class Place:
    """Where the service is, and what it is told about the caller."""

    url: str
    token: str | None = field(default=None, repr=False)
    patience: Patience = Patience()

    def __post_init__(self) -> None:
        parts = _parts(self.url)
        if (
            parts is None
            or parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
        ):
            raise InvalidInput(
                f"{_shown(self.url)!r} is not the URL of a service; write for example http://127.0.0.1:8765."
            )
        if parts.username or parts.password:
            raise InvalidInput("The URL of a service holds no password; give the token as token=….")
        if self.token is not None and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            raise InvalidInput("The token holds characters that no token has; was more than the token copied?")
        if self.token and parts.scheme == "http" and not is_loopback(parts.hostname):
            said = f"The token goes to {parts.hostname} unencrypted; whoever listens can use it. Use https://."
            warnings.warn(said, UserWarning, stacklevel=4)

    @property
    def settings(self) -> dict[str, Any]:
        """What httpx needs to know."""
        patience = self.patience
        headers = {"User-Agent": f"horae-client/{VERSION}", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        timeout = httpx.Timeout(patience.timeout, connect=patience.connect_timeout)
        return {"base_url": self.url.rstrip("/") + "/", "headers": headers, "timeout": timeout}


class Tries:
    """One call while it is being sent: after each try, whether and when there is another."""

    def __init__(self, place: Place, call: Call[Any]) -> None:
        self._place, self._call, self._made = place, call, 0
        self._key = (call.key or _dice.name(32)) if call.creates else None

    def request(self, http: httpx.Client | httpx.AsyncClient, more: Mapping[str, str] | None = None) -> httpx.Request:
        call, headers = self._call, {**self._call.headers, **(more or {})}
        if self._key is not None:
            headers["Idempotency-Key"] = self._key  # the same in every try, so that the work is done once
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = _encoded(call.body)
        timeout = httpx.Timeout(
            self._place.patience.timeout + call.longer, connect=self._place.patience.connect_timeout
        )
        return http.build_request(
            call.method,
            call.url.lstrip("/"),
            params=_parameters(call.query),
            content=content,
            headers=headers,
            timeout=timeout,
        )

    def after_error(self, problem: httpx.HTTPError) -> float:
        """The wait before the next try, or the end of it."""
        may = isinstance(problem, NEVER_SENT) or self._call.is_repeatable
        if not may or not self._another():
            self._give_up(problem)
        return self._backoff()

    def after_answer(self, answer: httpx.Response) -> float | None:
        """None where the answer is one to keep; the wait before the next try; or the error it stands for."""
        if answer.is_success or answer.status_code in self._call.accepts:
            return None
        wait = retry_after(answer.headers, _clock.now())
        harmless = answer.status_code == 429 or self._call.is_repeatable
        short = wait is None or wait <= self._place.patience.longest
        if answer.status_code in AGAIN_LATER and harmless and short and self._another():
            return self._backoff() if wait is None else wait
        raise error_from(answer.status_code, answer.headers, answer.text, request=self._asked, wait=wait)

    def read(self, answer: httpx.Response, call: Call[T]) -> T:
        return _read(call, Answer(answer.status_code, answer.headers, answer.text, _decoded(answer)))

    def heard(self, answer: httpx.Response, said: str, call: Call[T]) -> T:
        """One event of a stream."""
        try:
            body = json.loads(said)
        except ValueError:
            body = None
        return _read(call, Answer(answer.status_code, answer.headers, said, body))

    def _another(self) -> bool:
        self._made += 1
        return self._made <= self._place.patience.retries

    def _backoff(self) -> float:
        return self._place.patience.backoff * float(2 ** (self._made - 1)) * (0.5 + _dice.roll() / 2)

    def _give_up(self, problem: httpx.HTTPError) -> NoReturn:
        patience, url = self._place.patience, self._place.url
        match problem:
            case httpx.ConnectTimeout():
                said = f"did not take the connection within {patience.connect_timeout:g} s"
            case httpx.ConnectError():
                said = f"cannot be reached ({problem})"
            case httpx.TimeoutException():
                said = f"did not answer within {patience.timeout + self._call.longer:g} s"
            case _:
                said = f"broke off the connection ({type(problem).__name__})"
        advice = (
            "" if isinstance(problem, NEVER_SENT) else " Whether it was done is unknown; look before you repeat it."
        )
        if self._call.method == "GET" or not advice:
            advice = " Is the service running, and is the URL right?"
        error = ServiceUnavailable(f"The service at {url} {said}.{advice}")
        error.add_note(f"asked for {self._asked}")
        raise error from problem

    @property
    def _asked(self) -> str:
        return f"{self._call.method} {self._call.url}"


class SyncTransport:
    """Sends in the caller's thread; threads may share it."""

    is_async = False

    def __init__(self, place: Place, transport: httpx.BaseTransport | None = None) -> None:
        self.place = place
        self.http = httpx.Client(transport=transport, **place.settings)

    def send(self, call: Call[T]) -> T:
        tries = Tries(self.place, call)
        while True:
            try:
                answer = self.http.send(tries.request(self.http))
            except httpx.HTTPError as problem:
                pause(tries.after_error(problem))
                continue
            if (wait := tries.after_answer(answer)) is None:
                return tries.read(answer, call)
            pause(wait)

    def monotonic(self) -> float:
        return _clock.monotonic()

    def pause(self, seconds: float) -> None:
        pause(seconds)

    def follow(self, call: Call[T]) -> Iterator[T]:
        """What a stream says, for as long as somebody listens; after a break it goes on where it was."""
        tries, heard = Tries(self.place, call), Events()
        while True:
            heard.begin()
            try:
                with closing(self.http.send(tries.request(self.http, heard.headers), stream=True)) as answer:
                    if not answer.is_success:
                        answer.read()
                    wait = tries.after_answer(answer)
                    for line in answer.iter_lines() if wait is None else ():
                        tries = Tries(self.place, call)  # it speaks, so that the next break is a first one
                        if (said := heard.hear(line)) is not None:
                            yield tries.heard(answer, said, call)
            except httpx.HTTPError as problem:
                wait = tries.after_error(problem)
            pause(self.place.patience.backoff if wait is None else wait)


class AsyncTransport:
    """Sends from an event loop; tasks may share it."""

    is_async = True

    def __init__(self, place: Place, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.place = place
        self.http = httpx.AsyncClient(transport=transport, **place.settings)

    async def send(self, call: Call[T]) -> T:
        tries = Tries(self.place, call)
        while True:
            try:
                answer = await self.http.send(tries.request(self.http))
            except httpx.HTTPError as problem:
                await pause_async(tries.after_error(problem))
                continue
            if (wait := tries.after_answer(answer)) is None:
                return tries.read(answer, call)
            await pause_async(wait)

    def monotonic(self) -> float:
        return _clock.monotonic()

    async def pause(self, seconds: float) -> None:
        await pause_async(seconds)

    async def follow(self, call: Call[T]) -> AsyncIterator[T]:
        """What a stream says, for as long as somebody listens; after a break it goes on where it was."""
        tries, heard = Tries(self.place, call), Events()
        while True:
            heard.begin()
            try:
                async with aclosing(
                    await self.http.send(tries.request(self.http, heard.headers), stream=True)
                ) as answer:
                    if not answer.is_success:
                        await answer.aread()
                    wait = tries.after_answer(answer)
                    if wait is None:
                        async for line in answer.aiter_lines():
                            tries = Tries(self.place, call)
                            if (said := heard.hear(line)) is not None:
                                yield tries.heard(answer, said, call)
            except httpx.HTTPError as problem:
                wait = tries.after_error(problem)
            await pause_async(self.place.patience.backoff if wait is None else wait)


def _read(call: Call[T], answer: Answer) -> T:
    """Read an answer as the type that the operation promises; lists come in one envelope."""
    try:
        value: T = call.read(answer) if call.read else from_json(call.answer, _content(call.answer, answer))
    except ServiceUnavailable:  # the reader has said so already
        raise
    except (Unreadable, HoraeError) as problem:
        raise strange(problem) from None
    return value


def _content(kind: Any, answer: Answer) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(answer.body, dict) or not isinstance(answer.body.get("items"), list):
            raise Unreadable("a list", answer.text)
        return answer.body["items"]
    if kind is not None and not isinstance(answer.body, dict):
        raise Unreadable("an object", answer.text)
    return answer.body


def _parts(url: str) -> SplitResult | None:
    """A URL in its parts; None where it is none."""
    try:
        parts = urlsplit(url)
        return parts if parts.port is None or parts.port else None
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _encoded(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as problem:
        raise InvalidInput(
            f"This cannot be sent as JSON: {problem}. Give plain values: text, numbers, lists …"
        ) from None


def _decoded(answer: httpx.Response) -> Any:
    if "json" not in answer.headers.get("Content-Type", "") or not answer.content:
        return None
    try:
        return answer.json()
    except ValueError:
        return None


def _parameters(query: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Lists are repeated, None is left out, truth is written in small letters."""
    return tuple(
        (name, str(each).lower() if isinstance(each, bool) else str(each))
        for name, value in query.items()
        if value is not None
        for each in (value if isinstance(value, list | tuple) else [value])
    )


def _shown(url: str) -> str:
    """Without what stands before the @."""
    return url.rpartition("@")[2]


def strange(problem: Exception) -> ServiceUnavailable:
    """Say that a service answered with something else than it should."""
    return ServiceUnavailable(
        f"The service answered {problem}. Is the URL that of a Horae service, and of a release that this client knows?"
    )
