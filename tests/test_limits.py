"""The rate limiter that waits: exact, first come first served, in asyncio and in threads (S4-16…S4-18, C-34)."""

import asyncio
import heapq
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.limits import Limit
from horae.core.metrics import Spread
from horae.errors import ConfigurationError, DefinitionError, StoreUnavailable
from horae.limits import RateLimiter
from horae.limits.limiter import families
from horae.stores.limits.memory import MemoryCalls
from horae.testing.clock import VirtualClock
from tests.support.cases import cases
from tests.support.refusals import refused


class Stage:
    """Virtual time for asyncio: sleepers wake in order, each when everything else has come to rest."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.clock.monotonic() + seconds, next(self._numbers), future))
        await future

    def sleep_in_thread(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @property
    def sleeping(self) -> int:
        return sum(not future.done() for _, _, future in self._sleepers)

    async def rest(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def play(self) -> None:
        """Until nobody sleeps any more."""
        await self.rest()
        while self._sleepers:
            at, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self.clock.advance(timedelta(seconds=max(0.0, at - self.clock.monotonic())))
                future.set_result(None)
                await self.rest()

    def limiter(self, max_calls: int = 3, window: float = 60, calls: MemoryCalls | None = None) -> RateLimiter:
        return RateLimiter(
            max_calls,
            window,
            calls=calls,
            clock=self.clock,
            pause=self.sleep_in_thread,
            pause_async=self.sleep,
        )


@pytest.fixture
def stage() -> Stage:
    return Stage()


def most_in_any_window(times: list[float], window: float) -> int:
    micros = [round(time * 1_000_000) for time in sorted(times)]
    return max((sum(0 <= later - first < round(window * 1_000_000) for later in micros) for first in micros), default=0)


async def test_the_default_is_195_calls_a_minute() -> None:
    assert RateLimiter().limit == Limit("default", 195, timedelta(seconds=60))


async def test_a_burst_goes_at_once_and_the_next_call_waits_for_the_oldest_to_leave(stage: Stage) -> None:
    limiter, times = stage.limiter(), list[float]()

    async def caller() -> None:
        for _ in range(7):
            async with limiter:
                times.append(stage.clock.monotonic())

    task = asyncio.create_task(caller())
    await stage.play()

    assert times == [0, 0, 0, 60, 60, 60, 120]
    await task


def test_threads_wait_in_the_same_way(stage: Stage) -> None:
    limiter, times = stage.limiter(), list[float]()

    for _ in range(7):
        with limiter:
            times.append(stage.clock.monotonic())

    assert times == [0, 0, 0, 60, 60, 60, 120]


async def test_waiters_are_served_in_the_order_in_which_they_came(stage: Stage) -> None:
    limiter, served = stage.limiter(max_calls=2), list[int]()

    async def caller(number: int) -> None:
        await limiter.acquire()
        served.append(number)

    tasks = [asyncio.create_task(caller(number)) for number in range(20)]
    await stage.play()

    assert served == list(range(20))
    await asyncio.gather(*tasks)


async def test_only_the_first_in_line_sleeps(stage: Stage) -> None:
    limiter = stage.limiter(max_calls=1)
    tasks = [asyncio.create_task(limiter.acquire()) for _ in range(10)]

    await stage.rest()

    assert stage.sleeping == 1
    await stage.play()
    await asyncio.gather(*tasks)


async def test_a_late_caller_does_not_overtake_a_waiter_that_sleeps(stage: Stage) -> None:
    limiter, served = stage.limiter(max_calls=1, window=10), list[str]()

    async def caller(name: str, delay: float) -> None:
        await stage.sleep(delay)
        await limiter.acquire()
        served.append(name)

    tasks = [asyncio.create_task(caller(name, at)) for name, at in (("a", 0), ("b", 1), ("c", 2), ("d", 15))]
    await stage.play()

    assert served == ["a", "b", "c", "d"]
    await asyncio.gather(*tasks)


async def test_the_waiter_behind_a_cancelled_sleeper_takes_its_place(stage: Stage) -> None:
    limiter, times = stage.limiter(max_calls=1, window=10), list[float]()

    async def caller() -> None:
        await limiter.acquire()
        times.append(stage.clock.monotonic())

    tasks = [asyncio.create_task(caller()) for _ in range(4)]
    await stage.rest()
    tasks[1].cancel()
    await stage.play()

    assert times == [0, 10, 20]
    assert [task.cancelled() for task in tasks] == [False, True, False, False]


async def test_a_waiter_that_is_cancelled_in_the_middle_of_the_line_leaves_no_gap(stage: Stage) -> None:
    limiter, times = stage.limiter(max_calls=1, window=10), list[float]()

    async def caller() -> None:
        await limiter.acquire()
        times.append(stage.clock.monotonic())

    tasks = [asyncio.create_task(caller()) for _ in range(5)]
    await stage.rest()
    tasks[2].cancel()
    tasks[3].cancel()
    await stage.play()

    assert times == [0, 10, 20]


async def test_a_waiter_cancelled_in_the_moment_it_is_called_passes_the_call_on(stage: Stage) -> None:
    limiter = stage.limiter(max_calls=5)
    blocker = limiter._enter(lambda: None)  # somebody holds the line up
    first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
    await stage.rest()

    limiter._leave(blocker)  # tells the first …
    first.cancel()  # … which gives up before it hears it
    await stage.rest()

    assert first.cancelled()
    assert second.done()


@settings(max_examples=cases(150), deadline=None)
@given(
    max_calls=st.integers(1, 4),
    window=st.integers(1, 20),
    callers=st.lists(
        st.tuples(st.integers(0, 40), st.none() | st.integers(0, 60), st.booleans()), min_size=1, max_size=25
    ),
)
def test_no_window_is_ever_overfull_and_nobody_who_stays_is_forgotten(
    max_calls: int, window: int, callers: list[tuple[int, int | None, bool]]
) -> None:
    """Callers come at any time, some give up at any time, some only ask."""

    async def story() -> None:
        stage = Stage()
        limiter = stage.limiter(max_calls, window)
        made: list[float] = []
        served: list[tuple[float, int]] = []

        async def caller(number: int, comes_at: int, only_asks: bool) -> None:
            await stage.sleep(comes_at)
            if only_asks:
                if limiter.try_acquire() is None:
                    made.append(stage.clock.monotonic())
                return
            await limiter.acquire()
            made.append(stage.clock.monotonic())
            served.append((comes_at, number))

        async def canceller(task: asyncio.Task[None], at: int) -> None:
            await stage.sleep(at)
            task.cancel()

        tasks = [
            asyncio.create_task(caller(number, comes_at, asks)) for number, (comes_at, _, asks) in enumerate(callers)
        ]
        cancels = [
            asyncio.create_task(canceller(task, at))
            for task, (_, at, _) in zip(tasks, callers, strict=True)
            if at is not None
        ]
        await stage.play()

        assert most_in_any_window(made, window) <= max_calls
        assert all(task.done() for task in tasks)
        assert len(limiter._line) == 0
        assert all(a <= b for a, b in pairwise(served))
        await asyncio.gather(*tasks, *cancels, return_exceptions=True)

    asyncio.run(story())


@settings(max_examples=cases(150), deadline=None)
@given(max_calls=st.integers(1, 5), window=st.integers(1, 10_000), pauses=st.lists(st.integers(0, 5_000), max_size=40))
def test_a_thread_that_calls_at_any_rhythm_never_overfills_a_window(
    max_calls: int, window: int, pauses: list[int]
) -> None:
    stage = Stage()
    limiter, times = stage.limiter(max_calls, window / 1000), list[float]()

    for pause in pauses:
        stage.sleep_in_thread(pause / 1000)
        limiter.acquire_sync()
        times.append(stage.clock.monotonic())

    assert most_in_any_window(times, window / 1000) <= max_calls


def test_a_sleep_that_ends_too_early_does_not_break_the_limit(stage: Stage) -> None:
    limiter = RateLimiter(1, 10, clock=stage.clock, pause=lambda seconds: stage.sleep_in_thread(seconds / 3 + 0.001))
    times = []

    for _ in range(3):
        limiter.acquire_sync()
        times.append(stage.clock.monotonic())

    assert most_in_any_window(times, 10) == 1


def test_a_sleep_that_ends_too_late_counts_the_call_when_it_is_made(stage: Stage) -> None:
    limiter = RateLimiter(1, 10, clock=stage.clock, pause=lambda seconds: stage.sleep_in_thread(seconds + 7))
    times = []

    for _ in range(3):
        limiter.acquire_sync()
        times.append(stage.clock.monotonic())

    assert times == [0, 17, 34]


def test_asking_takes_a_call_or_tells_how_long_to_wait(stage: Stage) -> None:
    limiter = stage.limiter(max_calls=2)

    assert [limiter.try_acquire(), limiter.try_acquire(), limiter.try_acquire()] == [None, None, 60]
    stage.sleep_in_thread(59)
    assert limiter.try_acquire() == 1
    stage.sleep_in_thread(1)
    assert limiter.try_acquire() is None


async def test_who_only_asks_does_not_overtake_who_waits(stage: Stage) -> None:
    limiter = stage.limiter(max_calls=1, window=10)
    assert limiter.try_acquire() is None
    tasks = [asyncio.create_task(limiter.acquire()) for _ in range(3)]
    await stage.rest()

    assert limiter.try_acquire() == 40

    await stage.play()
    await asyncio.gather(*tasks)


def test_threads_and_coroutines_stand_in_one_line() -> None:
    limiter, served = RateLimiter(1, 1), list[str]()  # all three stand in line before the second comes to its turn
    limiter.acquire_sync()

    def in_thread() -> None:
        limiter.acquire_sync()
        served.append("thread")

    async def in_loop() -> None:
        task = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0)
        thread = threading.Thread(target=in_thread)
        thread.start()
        await asyncio.to_thread(until, lambda: len(limiter._line) != 1)
        last = asyncio.create_task(limiter.acquire())
        await task
        served.append("coroutine")
        await last
        thread.join(60)
        served.append("last")

    asyncio.run(in_loop())

    assert served == ["coroutine", "thread", "last"]


def until(condition: Callable[[], bool]) -> None:
    """For a signal that has no bell: the line has moved."""
    bell = threading.Event()
    for _ in range(1000):
        if condition():
            return
        bell.wait(0.001)


async def test_two_limiters_on_one_log_share_its_quota_by_name(stage: Stage) -> None:
    calls = MemoryCalls(stage.clock)
    one, other = (stage.limiter(max_calls=2, calls=calls) for _ in range(2))

    assert [one.try_acquire(), other.try_acquire(), one.try_acquire(), other.try_acquire()] == [None, None, 60, 60]


class SlowCalls(MemoryCalls):
    """A shared log whose answers come when the test lets them."""

    shared = True

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.asked, self.may_answer, self.dropped = threading.Event(), threading.Event(), threading.Event()

    def take(self, limit: Limit, ticket: str, *, stay: bool, ahead: int = 0) -> float:
        self.asked.set()
        assert self.may_answer.wait(60)
        return super().take(limit, ticket, stay=stay, ahead=ahead)

    def drop(self, limit: Limit, ticket: str) -> None:
        super().drop(limit, ticket)
        self.dropped.set()


async def test_a_call_that_was_granted_to_a_cancelled_waiter_is_given_back(stage: Stage) -> None:
    calls = SlowCalls(stage.clock)
    limiter = stage.limiter(max_calls=1, calls=calls)
    task = asyncio.create_task(limiter.acquire())
    await asyncio.to_thread(calls.asked.wait, 10)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    calls.may_answer.set()
    await asyncio.to_thread(calls.dropped.wait, 10)

    assert limiter.try_acquire() is None


async def test_a_place_in_a_shared_line_is_given_back_by_a_cancelled_waiter(stage: Stage) -> None:
    calls = SlowCalls(stage.clock)
    calls.may_answer.set()
    limiter = stage.limiter(max_calls=1, calls=calls)
    await limiter.acquire()
    task = asyncio.create_task(limiter.acquire())
    await asyncio.to_thread(until, lambda: stage.sleeping == 1)
    assert await asyncio.to_thread(limiter.try_acquire) == 120

    task.cancel()
    await asyncio.to_thread(calls.dropped.wait, 10)

    assert limiter.try_acquire() == 60


async def test_a_place_in_a_shared_line_is_shown_every_second(stage: Stage) -> None:
    calls = SlowCalls(stage.clock)
    calls.may_answer.set()
    pauses = list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        stage.sleep_in_thread(seconds)

    limiter = RateLimiter(1, 3, calls=calls, pause=pause)
    limiter.acquire_sync()
    limiter.acquire_sync()

    assert pauses == [1, 1, 1]


class BrokenCalls(MemoryCalls):
    """A log whose server is gone."""

    broken = True

    def take(self, limit: Limit, ticket: str, *, stay: bool, ahead: int = 0) -> float:
        if self.broken:
            raise StoreUnavailable("gone")
        return super().take(limit, ticket, stay=stay, ahead=ahead)

    def drop(self, limit: Limit, ticket: str) -> None:
        if self.broken:
            raise StoreUnavailable("gone")
        super().drop(limit, ticket)


async def test_a_log_that_cannot_be_reached_is_told_and_does_not_block_the_line(stage: Stage) -> None:
    calls = BrokenCalls(stage.clock)
    limiter = stage.limiter(calls=calls)

    with pytest.raises(StoreUnavailable):
        limiter.acquire_sync()
    with pytest.raises(StoreUnavailable):
        await limiter.acquire()

    calls.broken = False
    await limiter.acquire()
    assert limiter.try_acquire() is None


def test_a_waiter_whose_event_loop_has_ended_is_passed_over(stage: Stage) -> None:
    limiter = stage.limiter()
    first = limiter._enter(lambda: None)

    def ended() -> None:
        raise RuntimeError("Event loop is closed")

    limiter._enter(ended)
    answer = threading.Event()
    limiter._enter(answer.set)

    limiter._leave(first)

    assert answer.is_set()


def test_the_environment_sets_the_limit_under_the_names_of_document_004_and_under_ours() -> None:
    theirs = {"TUSHARE_RATE_LIMIT_MAX_CALLS": "480", "TUSHARE_RATE_LIMIT_WINDOW_SECONDS": "30.5"}
    ours = {"HORAE_RATE_LIMIT_MAX_CALLS": "7"}

    assert RateLimiter.from_environment("a", {}).limit == Limit("a", 195, timedelta(seconds=60))
    assert RateLimiter.from_environment("a", theirs).limit == Limit("a", 480, timedelta(seconds=30.5))
    assert RateLimiter.from_environment("a", theirs | ours).limit == Limit("a", 7, timedelta(seconds=30.5))


def test_without_a_mapping_the_real_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUSHARE_RATE_LIMIT_MAX_CALLS", "12")

    assert RateLimiter.from_environment(name="tushare").limit.max_calls == 12


@pytest.mark.parametrize("text", ["many", "0", "-3", "1.5", "nan", "1e12"])
def test_a_setting_that_is_not_a_number_of_calls_is_refused(text: str) -> None:
    with refused(ConfigurationError, ("rate_setting_not_positive", "rate_setting_not_whole")):
        RateLimiter.from_environment(environment={"TUSHARE_RATE_LIMIT_MAX_CALLS": text})


@pytest.mark.parametrize(("max_calls", "window"), [(0, 60), (5, 0), (5, -1)])
def test_a_limit_that_cannot_work_is_refused_when_it_is_made(max_calls: int, window: float) -> None:
    with pytest.raises(DefinitionError):
        RateLimiter(max_calls, window)


async def test_how_long_callers_waited_is_logged_and_measured(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """S4-18: what a team looks at before it changes the limit."""
    caplog.set_level(logging.INFO, "horae.limits")
    limiter = RateLimiter(2, 60, name="waits", clock=stage.clock, pause=stage.sleep_in_thread, pause_async=stage.sleep)

    def measured() -> Spread:
        [family] = families()
        point = family.points[("waits",)]
        assert isinstance(point, Spread)
        return point

    with limiter:
        pass
    task = asyncio.create_task(limiter.acquire())
    await stage.play()
    await task
    assert (measured().total, sum(measured().counts), caplog.messages) == (0.0, 2, [])

    with limiter:
        pass

    assert (measured().total, sum(measured().counts)) == (60.0, 3)
    assert caplog.messages == ["a call waited 60.000 s for the limit waits"]
