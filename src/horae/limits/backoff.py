"""Waiting out a provider that says "too many requests": 3, 6, 12 seconds, then its own words to the caller.

Only errors that look like an exceeded limit are waited out; every other error passes untouched, and so does the last.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, ParamSpec, TypeVar, cast, overload

from horae import clock as house
from horae.core.dataclass import dataclass
from horae.core.time.instants import aware
from horae.core.time.spans import Span, span
from horae.errors import DefinitionError
from horae.limits.limiter import RateLimiter
from horae.ports.world import Clock, Dice

log = logging.getLogger("horae.backoff")
P = ParamSpec("P")
R = TypeVar("R")
TOO_MANY_REQUESTS = 429
LONGEST = 10.0**9  # seconds that a server may ask for; beyond that a number is just large
WORDS = re.compile(
    r"(?i:(?<![a-z])frequen(cy|t)|per[ -]minute|(?<![a-z])rate[ _-]?limit|too many requests)|RateLimit"
    r"|频率|频次|频繁|每分钟|限流|超过.{0,20}次"
)


def is_limit_error(error: BaseException) -> bool:
    """Return whether an error says that a limit was exceeded: by HTTP status 429, or in English or Chinese words."""
    return http_status(error) == TOO_MANY_REQUESTS or WORDS.search(_words(error)) is not None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error of httpx, requests, urllib, aiohttp and libraries like them."""
    for bearer in (getattr(error, "response", None), error):
        for name in ("status_code", "status", "code"):
            value = getattr(bearer, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return int(value)
    return None


def retry_after(error: BaseException, clock: Clock) -> timedelta | None:
    """Return how long the server asks to wait, in its ``Retry-After`` header: seconds, or a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    header = _header(headers, "retry-after")
    if header is None:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", header):
        return timedelta(seconds=min(float(header), LONGEST))
    try:
        return max(timedelta(0), aware(parsedate_to_datetime(header)) - clock.now())
    except ValueError:
        return None  # neither a number nor a date: as if it were not there


def _header(headers: Any, wanted: str) -> str | None:
    if not isinstance(headers, Mapping) and not hasattr(headers, "items"):
        return None
    found = next((value for name, value in headers.items() if str(name).lower() == wanted), None)
    return None if found is None else str(found).strip()


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """A policy of retries after an exceeded limit; applied to a function, or used once with :meth:`call`."""

    base: Span = 3.0
    factor: float = 2.0
    retries: int = 3
    jitter: float = 0.0  # up to this share is added to each wait
    max_wait: Span = 300.0  # a server that asks for more gets no retry
    is_limit_error: Callable[[BaseException], bool] = is_limit_error
    limiter: RateLimiter | None = None
    clock: Clock = field(default_factory=house.SystemClock)
    dice: Dice = field(default_factory=house.SystemDice)
    pause: Callable[[float], None] = house.pause
    pause_async: Callable[[float], Awaitable[None]] = house.pause_async

    def __post_init__(self) -> None:
        whole = isinstance(self.retries, int) and self.retries >= 0
        if not whole or self.factor < 1 or self.jitter < 0 or min(span(self.base), span(self.max_wait)) < timedelta(0):
            raise DefinitionError("backoff_outside")

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function, sync or async: pass every try through the limiter, wait out every exceeded limit."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError("backoff_on_generator", function=_name(function))
        if inspect.iscoroutinefunction(function):
            return cast(Callable[P, R], self._around_async(function))
        return self._around(function)

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it now; with an async function, await the answer."""
        return self(function)(*args, **kwargs)

    def _around(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def patient(*args: P.args, **kwargs: P.kwargs) -> R:
            for tried in range(self.retries + 1):
                if self.limiter is not None:
                    self.limiter.acquire_sync()
                try:
                    return function(*args, **kwargs)
                except Exception as error:
                    wait = self._wait(function, error, tried)
                    if wait is None:
                        raise
                self.pause(wait)
            raise AssertionError("the last try returns or raises")

        return patient

    def _around_async(self, function: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
        @functools.wraps(function)
        async def patient(*args: P.args, **kwargs: P.kwargs) -> Any:
            for tried in range(self.retries + 1):
                if self.limiter is not None:
                    await self.limiter.acquire()
                try:
                    return await function(*args, **kwargs)
                except Exception as error:
                    wait = self._wait(function, error, tried)
                    if wait is None:
                        raise
                await self.pause_async(wait)
            raise AssertionError("the last try returns or raises")

        return patient

    def _wait(self, function: Callable[..., Any], error: Exception, tried: int) -> float | None:
        """Return the seconds until the next try; None when the caller must see the error."""
        if not self.is_limit_error(error) or tried >= self.retries:
            return None
        try:
            wait = span(self.base) * self.factor**tried * (1 + self.jitter * self.dice.roll())
        except OverflowError:  # too long to wait for
            return None
        asked = retry_after(error, self.clock)
        if asked is not None and asked > span(self.max_wait):
            log.warning(
                "%s: limit exceeded, and the server asks for %s; giving up: %s", _name(function), asked, _words(error)
            )
            return None
        seconds = max(wait, asked or timedelta(0)).total_seconds()
        facts = (_name(function), tried + 1, self.retries, seconds, type(error).__name__, _words(error))
        log.warning("%s: limit exceeded, retry %d of %d in %.3g s: %s: %s", *facts)
        return seconds


def _words(error: BaseException) -> str:
    """Return the error's text, or its class where even that fails."""
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


@overload
def backoff(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def backoff(
    *,
    base: Span = ...,
    factor: float = ...,
    retries: int = ...,
    jitter: float = ...,
    max_wait: Span = ...,
    is_limit_error: Callable[[BaseException], bool] = ...,
    limiter: RateLimiter | None = ...,
    clock: Clock = ...,
    dice: Dice = ...,
    pause: Callable[[float], None] = ...,
    pause_async: Callable[[float], Awaitable[None]] = ...,
) -> Backoff: ...
def backoff(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Wait out exceeded limits: ``@backoff``, ``@backoff(limiter=…)`` or ``backoff(retries=5).call(fetch, day)``."""
    patient = Backoff(**options)
    return patient if function is None else patient(function)
