"""Senders over HTTP: one connection pool, time limits, and retries where they can do no harm."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import field
from functools import cache
from ipaddress import ip_address
from typing import Any, NoReturn, TypeVar, get_origin
from urllib.parse import SplitResult, urlsplit

import httpx

from horae.api.operation import Answer, Call, name_missing
from horae.api.values import Unreadable, from_json
from horae.client.problems import error_from, retry_after
from horae.client.requests import encode_body, query_parameters
from horae.client.streams import Events
from horae.clock import SystemClock, SystemDice, pause, pause_async
from horae.core.dataclass import dataclass
from horae.errors import HoraeError, InvalidInput, ServiceUnavailable
from horae.version import VERSION
from horae.words.languages import TAGS, Language

T = TypeVar("T")
RETRY_STATUSES = (429, 503)
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # the request never reached the service
_clock, _dice = SystemClock(), SystemDice()
_certificates = cache(httpx.create_ssl_context)  # once for all clients of a process: reading them takes 27 ms


@dataclass(frozen=True)
class Patience:
    """The timeouts and retries of a client."""

    timeout: float = 30.0  # seconds for an answer, beside what a long poll asks for
    connect_timeout: float = 5.0
    retries: int = 3
    backoff: float = 0.25  # seconds before the second try; doubled before each further one
    longest: float = 30.0  # a longer Retry-After is left to the caller


@dataclass(frozen=True)
class Endpoint:
    """The URL of a service, the token for it, and how patient to be."""

    url: str
    token: str | None = field(default=None, repr=False)
    patience: Patience = Patience()
    language: Language = "en"

    def __post_init__(self) -> None:
        parts = _split_url(self.url)
        if (
            parts is None
            or parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
        ):
            raise InvalidInput("service_url_unreadable", url=_without_credentials(self.url))
        if parts.username or parts.password:
            raise InvalidInput("service_url_has_credentials")
        if self.token is not None and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            raise InvalidInput("service_token_unreadable")
        if self.token and parts.scheme == "http" and not is_loopback(parts.hostname):
            message = (
                f"The token goes to {parts.hostname} unencrypted; anyone on the way can read and use it. Use https://."
            )
            warnings.warn(message, UserWarning, stacklevel=4)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of an httpx client."""
        patience = self.patience
        headers = {"User-Agent": f"horae-client/{VERSION}", "Accept": "application/json"}
        headers["Accept-Language"] = TAGS[self.language]
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        base, timeout = self.url.rstrip("/") + "/", httpx.Timeout(patience.timeout, connect=patience.connect_timeout)
        return {"base_url": base, "headers": headers, "timeout": timeout, "verify": _certificates()}


class Tries:
    """The tries of one call: after each, whether and when there is another."""

    def __init__(self, endpoint: Endpoint, call: Call[Any]) -> None:
        self._endpoint, self._call, self._count = endpoint, call, 0
        self._key = (call.key or _dice.name(32)) if call.creates else None

    def request(self, http: httpx.Client | httpx.AsyncClient, more: Mapping[str, str] | None = None) -> httpx.Request:
        call, headers = self._call, {**self._call.headers, **(more or {})}
        if self._key is not None:
            headers["Idempotency-Key"] = self._key  # the same in every try, so that the work is done once
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = encode_body(call.body)
        timeout = httpx.Timeout(
            self._endpoint.patience.timeout + call.longer, connect=self._endpoint.patience.connect_timeout
        )
        return http.build_request(
            call.method,
            call.url.lstrip("/"),
            params=query_parameters(call.query),
            content=content,
            headers=headers,
            timeout=timeout,
        )

    def after_error(self, problem: httpx.HTTPError) -> float:
        """Return the wait before the next try, or raise where there is none."""
        may = isinstance(problem, NEVER_SENT) or self._call.is_repeatable
        if not may or not self._another():
            self.give_up(problem)
        return self._backoff()

    def after_answer(self, answer: httpx.Response) -> float | None:
        """Return None for an answer to keep, or the wait before the next try; raise the error it stands for."""
        if answer.is_success or answer.status_code in self._call.accepts:
            return None
        wait = retry_after(answer.headers, _clock.now())
        harmless = answer.status_code == 429 or self._call.is_repeatable
        short = wait is None or wait <= self._endpoint.patience.longest
        if answer.status_code in RETRY_STATUSES and harmless and short and self._another():
            return self._backoff() if wait is None else wait
        raise error_from(answer.status_code, answer.headers, answer.text, request=self._asked, wait=wait)

    def read(self, answer: httpx.Response, call: Call[T]) -> T:
        return _read(call, Answer(answer.status_code, answer.headers, answer.text, _decode(answer)))

    def read_event(self, answer: httpx.Response, message: str, call: Call[T]) -> T:
        """Read one event of a stream."""
        try:
            body = json.loads(message)
        except ValueError:
            body = None
        return _read(call, Answer(answer.status_code, answer.headers, message, body))

    def _another(self) -> bool:
        self._count += 1
        return self._count <= self._endpoint.patience.retries

    def _backoff(self) -> float:
        return self._endpoint.patience.backoff * float(2 ** (self._count - 1)) * (0.5 + _dice.roll() / 2)

    def give_up(self, problem: httpx.HTTPError) -> NoReturn:
        error = self._unavailable(problem)
        error.add_note(f"asked for {self._asked}")
        raise error from problem

    def _unavailable(self, problem: httpx.HTTPError) -> ServiceUnavailable:
        """Return the error for a failed connection; it says where a request that changes something may have arrived."""
        patience, url = self._endpoint.patience, self._endpoint.url
        may_be_done = not isinstance(problem, NEVER_SENT) and self._call.method != "GET"
        seconds, kind = patience.timeout + self._call.longer, type(problem).__name__
        match problem:
            case httpx.ConnectTimeout():
                return ServiceUnavailable("service_connect_timeout", url=url, seconds=patience.connect_timeout)
            case httpx.ConnectError():
                return ServiceUnavailable("service_unreachable", url=url, problem=str(problem))
            case httpx.TimeoutException() if may_be_done:
                return ServiceUnavailable("service_silent_outcome_unknown", url=url, seconds=seconds)
            case httpx.TimeoutException():
                return ServiceUnavailable("service_silent", url=url, seconds=seconds)
            case _ if may_be_done:
                return ServiceUnavailable("service_broke_off_outcome_unknown", url=url, problem=kind)
            case _:
                return ServiceUnavailable("service_broke_off", url=url, problem=kind)

    @property
    def _asked(self) -> str:
        return f"{self._call.method} {self._call.url}"


class SyncTransport:
    """Send in the caller's thread; threads may share it."""

    is_async = False

    def __init__(self, endpoint: Endpoint, transport: httpx.BaseTransport | None = None) -> None:
        self.endpoint = endpoint
        self.http = httpx.Client(transport=transport, **endpoint.settings)

    def send(self, call: Call[T]) -> T:
        tries = Tries(self.endpoint, call)
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
        """Iterate over a stream; after a broken connection it goes on where it was."""
        tries, events = Tries(self.endpoint, call), Events()
        while True:
            events.begin()
            try:
                with closing(self.http.send(tries.request(self.http, events.headers), stream=True)) as answer:
                    if not answer.is_success:
                        answer.read()
                    wait = tries.after_answer(answer)
                    for line in answer.iter_lines() if wait is None else ():
                        tries = Tries(self.endpoint, call)  # it sends, so the next break is counted as the first
                        if (message := events.feed(line)) is not None:
                            yield tries.read_event(answer, message, call)
            except httpx.HTTPError as problem:
                wait = tries.after_error(problem)
            pause(self.endpoint.patience.backoff if wait is None else wait)

    def download(self, call: Call[T]) -> Generator[T, None, None]:
        """Iterate over an answer line by line; a connection that breaks halfway is an error."""
        tries = Tries(self.endpoint, call)
        answer = self._open(tries)
        with closing(answer):
            lines = answer.iter_lines()
            while (line := self._next(tries, lines)) is not None:
                yield tries.read_event(answer, line, call)

    def _open(self, tries: Tries) -> httpx.Response:
        """Return the answer as soon as it begins."""
        while True:
            try:
                answer = self.http.send(tries.request(self.http), stream=True)
                if not answer.is_success:
                    answer.read()
            except httpx.HTTPError as problem:
                pause(tries.after_error(problem))
                continue
            if (wait := tries.after_answer(answer)) is None:
                return answer
            answer.close()
            pause(wait)

    def _next(self, tries: Tries, lines: Iterator[str]) -> str | None:
        try:
            return next(lines, None)
        except httpx.HTTPError as problem:
            tries.give_up(problem)


class AsyncTransport:
    """Send from an event loop; tasks may share it."""

    is_async = True

    def __init__(self, endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.endpoint = endpoint
        self.http = httpx.AsyncClient(transport=transport, **endpoint.settings)

    async def send(self, call: Call[T]) -> T:
        tries = Tries(self.endpoint, call)
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
        """Iterate over a stream; after a broken connection it goes on where it was."""
        tries, events = Tries(self.endpoint, call), Events()
        while True:
            events.begin()
            try:
                async with aclosing(
                    await self.http.send(tries.request(self.http, events.headers), stream=True)
                ) as answer:
                    if not answer.is_success:
                        await answer.aread()
                    wait = tries.after_answer(answer)
                    if wait is None:
                        async for line in answer.aiter_lines():
                            tries = Tries(self.endpoint, call)
                            if (message := events.feed(line)) is not None:
                                yield tries.read_event(answer, message, call)
            except httpx.HTTPError as problem:
                wait = tries.after_error(problem)
            await pause_async(self.endpoint.patience.backoff if wait is None else wait)

    async def download(self, call: Call[T]) -> AsyncIterator[T]:
        """Iterate over an answer line by line; a connection that breaks halfway is an error."""
        tries = Tries(self.endpoint, call)
        async with aclosing(await self._open(tries)) as answer:
            lines = answer.aiter_lines()
            while (line := await self._next(tries, lines)) is not None:
                yield tries.read_event(answer, line, call)

    async def _open(self, tries: Tries) -> httpx.Response:
        """Return the answer as soon as it begins."""
        while True:
            try:
                answer = await self.http.send(tries.request(self.http), stream=True)
                if not answer.is_success:
                    await answer.aread()
            except httpx.HTTPError as problem:
                await pause_async(tries.after_error(problem))
                continue
            if (wait := tries.after_answer(answer)) is None:
                return answer
            await answer.aclose()
            await pause_async(wait)

    async def _next(self, tries: Tries, lines: AsyncIterator[str]) -> str | None:
        try:
            return await anext(lines, None)
        except httpx.HTTPError as problem:
            tries.give_up(problem)


def _read(call: Call[T], answer: Answer) -> T:
    """Read an answer as the type that the operation promises; lists come in one envelope."""
    try:
        value: T = call.read(answer) if call.read else from_json(call.answer, _content(call.answer, answer))
    except ServiceUnavailable:  # already raised by the reader
        raise
    except (Unreadable, HoraeError) as problem:
        raise ServiceUnavailable("service_answer_unreadable", problem=str(problem)) from None
    return name_missing(value, answer.body)


def _content(kind: Any, answer: Answer) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(answer.body, dict) or not isinstance(answer.body.get("items"), list):
            raise Unreadable("a list", answer.text)
        return answer.body["items"]
    if kind is not None and not isinstance(answer.body, dict):
        raise Unreadable("an object", answer.text)
    return answer.body


def _split_url(url: str) -> SplitResult | None:
    """Split a URL; return None where it is not one."""
    try:
        parts = urlsplit(url)
        return parts if parts.port is None or parts.port else None
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _decode(answer: httpx.Response) -> Any:
    if "json" not in answer.headers.get("Content-Type", "") or not answer.content:
        return None
    try:
        return answer.json()
    except ValueError:
        return None


def _without_credentials(url: str) -> str:
    """Return a URL without what stands before the @, which may be a password."""
    return url.rpartition("@")[2]
