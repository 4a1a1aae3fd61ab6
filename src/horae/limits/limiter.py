"""A rate limiter that waits: exact, first come first served, for threads and asyncio alike, alone or shared.

Callers of one process stand in one line. Only the first of them asks the log and sleeps, with no lock held; the
others wait for a signal that it is their turn. So no caller is overtaken, and one that gives up leaves the line.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from horae import clock as house
from horae.core.limits import Limit
from horae.core.metrics import MOST, OTHER, Buckets, Family, Point
from horae.core.time.spans import Span, span
from horae.errors import ConfigurationError, HoraeError
from horae.ports.locks import CallLog
from horae.ports.world import Clock, Dice
from horae.stores.limits.memory import MemoryCalls

log = logging.getLogger("horae.limits")
MAX_CALLS, WINDOW = 195, 60.0  # five in reserve where a provider allows two hundred a minute
LONG_WAIT = 1.0  # seconds: a wait that is worth a line of the log
WAITS = (0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LOOK_AGAIN = 1.0  # seconds: how long a place in a shared line is left alone
# Ours first, then the names that document 004 uses.
MAX_CALLS_NAMES = ("HORAE_RATE_LIMIT_MAX_CALLS", "TUSHARE_RATE_LIMIT_MAX_CALLS")
WINDOW_NAMES = ("HORAE_RATE_LIMIT_WINDOW_SECONDS", "TUSHARE_RATE_LIMIT_WINDOW_SECONDS")


class RateLimiter:
    """At most *max_calls* in any *window* of time, wherever the window begins; a burst may use them all at once.

    ``async with limiter:`` or ``with limiter:`` waits for a call to be allowed; so do :meth:`acquire` and
    :meth:`acquire_sync`. Without *calls* the quota is this object's own; with a shared log it belongs to all
    processes that use the same *name* there.
    """

    def __init__(
        self,
        max_calls: int = MAX_CALLS,
        window: Span = WINDOW,
        *,
        name: str = "default",
        calls: CallLog | None = None,
        clock: Clock | None = None,
        dice: Dice | None = None,
        pause: Callable[[float], None] = house.pause,
        pause_async: Callable[[float], Awaitable[None]] = house.pause_async,
    ) -> None:
        self.limit = Limit(name, max_calls, span(window))
        self._clock = clock or house.SystemClock()
        self._calls = calls or MemoryCalls(self._clock)
        self._dice = dice or house.SystemDice()
        self._pause = pause
        self._pause_async = pause_async
        self._line: deque[_Waiter] = deque()
        self._guard = threading.Lock()

    @classmethod
    def from_environment(
        cls, name: str = "default", environment: Mapping[str, str] | None = None, **options: Any
    ) -> Self:
        """Make a limiter from ``HORAE_RATE_LIMIT_MAX_CALLS`` and ``HORAE_RATE_LIMIT_WINDOW_SECONDS``."""
        variables = os.environ if environment is None else environment
        max_calls = _number(variables, MAX_CALLS_NAMES, MAX_CALLS)
        if max_calls != int(max_calls):
            names = " or ".join(MAX_CALLS_NAMES)
            raise ConfigurationError("rate_setting_not_whole", names=names, value=max_calls)
        return cls(int(max_calls), _number(variables, WINDOW_NAMES, WINDOW), name=name, **options)

    @property
    def counts_in_database(self) -> bool:
        """Whether its calls are counted in a database, which a worker behind a service does not reach."""
        return getattr(self._calls, "in_database", False)

    # -- waiting -------------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Wait until a call is allowed, and count it."""
        begun = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        waiter = self._enter(lambda: loop.call_soon_threadsafe(_settle, turn))
        try:
            if waiter.must_wait:
                await turn
            while (wait := await self._ask_async(waiter)) > 0:
                await self._pause_async(self._nap(wait))
        except BaseException:
            if self._abandon(waiter):
                self._forget_async(loop, waiter)
            raise
        finally:
            self._leave(waiter)
        self._note(begun)

    def acquire_sync(self) -> None:
        """Wait in this thread until a call is allowed, and count it."""
        begun = self._clock.monotonic()
        turn = threading.Event()
        waiter = self._enter(turn.set)
        try:
            if waiter.must_wait:
                turn.wait()
            while (wait := self._ask(waiter)) > 0:
                self._pause(self._nap(wait))
        except BaseException:
            if self._abandon(waiter):
                self._forget(waiter)
            raise
        finally:
            self._leave(waiter)
        self._note(begun)

    def try_acquire(self) -> float | None:
        """Count a call and answer None, or answer how many seconds to wait before asking again; never waits itself."""
        with self._guard:
            unknown = sum(not waiter.known for waiter in self._line)
        wait = self._calls.take(self.limit, self._ticket(), stay=False, ahead=unknown)
        return wait if wait > 0 else None

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        return None

    def __enter__(self) -> None:
        self.acquire_sync()

    def __exit__(self, *_: object) -> None:
        return None

    def _note(self, begun: float) -> None:
        """Log and measure how long a caller waited: what there is to see of a limit that is too narrow (S4-18)."""
        waited = self._clock.monotonic() - begun
        _waited.add(self.limit.name, waited)
        if waited > 0:
            level = logging.INFO if waited >= LONG_WAIT else logging.DEBUG
            facts = {"limiter": self.limit.name, "waited": waited}
            log.log(level, "a call waited %.3f s for the limit %s", waited, self.limit.name, extra=facts)

    # -- asking the log ------------------------------------------------------------------------------------------

    def _ask(self, waiter: _Waiter) -> float:
        with self._guard:
            waiter.asking, goes_on = True, not waiter.abandoned
            waiter.known |= goes_on
        try:
            return self._calls.take(self.limit, waiter.ticket, stay=True) if goes_on else 0.0
        finally:
            with self._guard:
                waiter.asking = False
                abandoned = waiter.abandoned
            if abandoned:  # given up while this thread was asking: what it was given is given back
                self._forget(waiter)

    async def _ask_async(self, waiter: _Waiter) -> float:
        if not self._calls.shared:
            return self._ask(waiter)
        with self._guard:
            waiter.asking = True  # from now on, even before the thread has begun
        asking = asyncio.get_running_loop().run_in_executor(None, self._ask, waiter)
        return await asyncio.shield(asking)  # cancelled or not, it must run to its end, or it could not clean up

    def _abandon(self, waiter: _Waiter) -> bool:
        """Give up; return whether the log must be informed (a thread that is asking it does so itself)."""
        with self._guard:
            waiter.abandoned = True
            return waiter.known and not waiter.asking

    def _forget(self, waiter: _Waiter) -> None:
        try:
            self._calls.drop(self.limit, waiter.ticket)
        except HoraeError as problem:
            log.warning("A call counted for %s could not be taken back: %s", self.limit.name, problem)

    def _forget_async(self, loop: asyncio.AbstractEventLoop, waiter: _Waiter) -> None:
        if self._calls.shared:
            loop.run_in_executor(None, self._forget, waiter)
        else:
            self._forget(waiter)

    def _nap(self, wait: float) -> float:
        """Return how long to sleep: with a shared log not long, because the queue may move up and tickets expire."""
        return min(wait, LOOK_AGAIN) if self._calls.shared else wait

    # -- the line of this process --------------------------------------------------------------------------------

    def _ticket(self) -> str:
        return self._dice.name(24)

    def _enter(self, tell: Callable[[], Any]) -> _Waiter:
        waiter = _Waiter(self._ticket(), tell)
        with self._guard:
            waiter.must_wait = bool(self._line)
            self._line.append(waiter)
        return waiter

    def _leave(self, waiter: _Waiter) -> None:
        """Leave the line and wake the first waiter; pass over one whose event loop has ended."""
        with self._guard:
            was_first = self._line[0] is waiter
            self._line.remove(waiter)
            while was_first and self._line:
                try:
                    self._line[0].tell()
                    return
                except RuntimeError:
                    self._line.popleft()


class _Waited:
    """Histograms of the waits of this process, by the name of the limiter."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._by_name: dict[str, Buckets] = {}

    def add(self, name: str, seconds: float) -> None:
        with self._guard:
            known = name in self._by_name or len(self._by_name) < MOST
            self._by_name.setdefault(name if known else OTHER, Buckets(WAITS)).add(seconds)

    def family(self) -> Family:
        with self._guard:
            points: dict[tuple[str, ...], Point] = {(name,): each.spread() for name, each in self._by_name.items()}
        return Family(
            "horae_rate_limit_wait_seconds",
            "histogram",
            "How long callers in this process waited for a rate limiter.",
            ("limiter",),
            points,
        )


_waited = _Waited()


def families() -> list[Family]:
    """Return the figures of all rate limiters of this process, for ``/metrics``."""
    return [_waited.family()]


class _Waiter:
    """One caller in the line."""

    __slots__ = ("abandoned", "asking", "known", "must_wait", "tell", "ticket")

    def __init__(self, ticket: str, tell: Callable[[], Any]) -> None:
        self.ticket = ticket
        self.tell = tell  # that it is first now
        self.must_wait = False  # until it is signalled
        self.known = False  # to the log
        self.asking = False
        self.abandoned = False


def _settle(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


def _number(variables: Mapping[str, str], names: tuple[str, ...], default: float) -> float:
    name = next((name for name in names if variables.get(name)), None)
    if name is None:
        return default
    try:
        number = float(variables[name])
        if not 0 < number < 10**9:
            raise ValueError(number)
    except ValueError:
        raise ConfigurationError("rate_setting_not_positive", name=name, value=variables[name]) from None
    return number
