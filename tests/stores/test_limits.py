"""One suite for all logs of calls: memory, the three databases, Redis. Memory is the model of the others (C-34)."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horae.clock import SystemClock
from horae.core.limits import Limit
from horae.errors import ConfigurationError, StoreUnavailable
from horae.limits import RateLimiter
from horae.ports.locks import CallLog
from horae.stores.limits.database import DatabaseCalls
from horae.stores.limits.memory import MemoryCalls
from horae.stores.limits.redis import RedisCalls
from horae.testing.clock import VirtualClock
from tests.stores.conftest import opened, url_of
from tests.support.cases import cases
from tests.support.refusals import refused
from tests.support.servers import RedisServer

SERVER = pytest.mark.server
KEEP = timedelta(seconds=5)
SHARED = ["sqlite", pytest.param("postgres", marks=SERVER), pytest.param("mysql", marks=SERVER)]
numbers = count()


@dataclass
class Ground:
    """One back end in virtual time; `another` is the same as another process sees it."""

    calls: CallLog
    another: CallLog
    clock: VirtualClock
    url: str | None = None

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))


@pytest.fixture(params=["memory", *SHARED, pytest.param("redis", marks=SERVER)])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    clock = VirtualClock()
    if request.param == "memory":
        calls = MemoryCalls(clock, KEEP)
        yield Ground(calls, calls, clock)
    elif request.param == "redis":
        url = request.getfixturevalue("empty_redis_url")
        yield Ground(RedisCalls(url, clock=clock), RedisCalls(url, clock=clock), clock, url)
    else:
        url = url_of(request.param, request)
        with ExitStack() as closing:
            stores = [opened(url) for _ in range(2)]
            for store in stores:
                closing.callback(store.close)
            yield Ground(DatabaseCalls(stores[0], clock), DatabaseCalls(stores[1], clock), clock, url)


def a_limit(max_calls: int = 3, window: float = 60, name: str = "tushare") -> Limit:
    return Limit(name, max_calls, timedelta(seconds=window))


def take(calls: CallLog, ticket: str = "", limit: Limit | None = None, *, stay: bool = False, ahead: int = 0) -> float:
    return calls.take(limit or a_limit(), ticket or f"ticket-{next(numbers)}", stay=stay, ahead=ahead)


def test_a_burst_may_use_the_whole_quota_and_not_one_call_more(ground: Ground) -> None:
    assert [take(ground.calls) for _ in range(4)] == [0, 0, 0, 60]


def test_processes_share_one_quota(ground: Ground) -> None:
    assert [take(ground.calls), take(ground.another), take(ground.calls)] == [0, 0, 0]

    assert take(ground.another) == 60
    assert take(ground.calls) == 60


def test_limits_of_other_names_are_counted_apart(ground: Ground) -> None:
    for _ in range(3):
        take(ground.calls)

    assert take(ground.calls, limit=a_limit(name="Tushare")) == 0
    assert take(ground.calls, limit=a_limit(name="another {odd} name")) == 0


def test_a_place_is_free_again_exactly_one_window_after_its_call(ground: Ground) -> None:
    for _ in range(3):
        take(ground.calls)
        ground.pass_time(10)

    assert take(ground.calls) == 30
    ground.pass_time(29.999999)
    assert take(ground.calls) == pytest.approx(0.000001)
    ground.pass_time(0.000001)
    assert take(ground.calls) == 0
    assert take(ground.calls) == 10


def test_a_question_that_is_refused_leaves_no_trace(ground: Ground) -> None:
    for _ in range(8):
        take(ground.calls)

    ground.pass_time(60)
    assert [take(ground.calls) for _ in range(4)] == [0, 0, 0, 60]


def test_a_waiter_that_stays_goes_before_those_who_come_later(ground: Ground) -> None:
    limit = a_limit(max_calls=1)
    take(ground.calls, limit=limit)
    assert take(ground.calls, "first", limit, stay=True) == 60
    assert take(ground.another, "second", limit, stay=True) == 120
    assert take(ground.another, "passer-by", limit) == 180

    ground.pass_time(4)
    assert take(ground.another, "second", limit, stay=True) == 116  # asking again does not lose the place
    assert take(ground.calls, "first", limit, stay=True) == 56
    ground.pass_time(4)
    assert take(ground.calls, "first", limit, stay=True) == 52


def test_the_first_in_line_goes_when_its_turn_has_come_and_nobody_before_it(ground: Ground) -> None:
    limit = a_limit(max_calls=1, window=2)
    take(ground.calls, limit=limit)
    take(ground.calls, "first", limit, stay=True)
    take(ground.another, "second", limit, stay=True)

    ground.pass_time(2)

    assert take(ground.another, "passer-by", limit) == 4
    assert take(ground.another, "second", limit, stay=True) == 2
    assert take(ground.calls, "first", limit, stay=True) == 0
    assert take(ground.another, "second", limit, stay=True) == 2


def test_a_waiter_that_leaves_lets_the_others_move_up(ground: Ground) -> None:
    limit = a_limit(max_calls=1, window=4)
    take(ground.calls, limit=limit)
    take(ground.calls, "first", limit, stay=True)
    assert take(ground.another, "second", limit, stay=True) == 8

    ground.calls.drop(limit, "first")

    assert take(ground.another, "second", limit, stay=True) == 4
    ground.pass_time(4)
    assert take(ground.another, "second", limit, stay=True) == 0


def test_a_call_that_was_counted_and_not_made_can_be_taken_back(ground: Ground) -> None:
    limit = a_limit(max_calls=1)
    assert take(ground.calls, "counted", limit) == 0

    ground.calls.drop(limit, "counted")

    assert take(ground.calls, limit=limit) == 0


def test_dropping_a_ticket_that_is_not_there_changes_nothing(ground: Ground) -> None:
    take(ground.calls, "mine")

    ground.calls.drop(a_limit(), "unknown")
    ground.calls.drop(a_limit(name="never used"), "mine")

    assert [take(ground.calls) for _ in range(3)] == [0, 0, 60]


def test_a_waiter_that_falls_silent_loses_its_place(ground: Ground) -> None:
    limit = a_limit(max_calls=1, window=10)
    take(ground.calls, limit=limit)
    take(ground.calls, "dead", limit, stay=True)
    assert take(ground.another, "alive", limit, stay=True) == 20

    ground.pass_time(4)
    take(ground.another, "alive", limit, stay=True)
    ground.pass_time(4)

    assert take(ground.another, "alive", limit, stay=True) == 2


def test_waiters_that_the_log_does_not_know_count_as_well(ground: Ground) -> None:
    take(ground.calls)

    assert [take(ground.calls, ahead=2), take(ground.calls, ahead=3)] == [60, 60]
    assert take(ground.calls, ahead=1) == 0


def test_a_lowered_limit_holds_at_once(ground: Ground) -> None:
    for _ in range(3):
        take(ground.calls)
        ground.pass_time(1)

    assert take(ground.calls, limit=a_limit(max_calls=1)) == 59


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 3_000)),
        st.tuples(st.just("take"), st.integers(0, 5), st.booleans(), st.integers(0, 2)),
        st.tuples(st.just("drop"), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=cases(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(max_calls=st.integers(1, 4), window=st.integers(1, 4_000), steps=STEPS)
def test_every_log_answers_as_the_one_in_memory(
    ground: Ground, max_calls: int, window: int, steps: list[tuple[Any, ...]]
) -> None:
    """Three tickets that stay, three that only ask; each used for one call at a time."""
    limit = Limit(f"model-{next(numbers)}", max_calls, timedelta(milliseconds=window))
    model = MemoryCalls(ground.clock, KEEP)
    tickets = {name: f"{limit.name}-{name}" for name in range(6)}
    for turn, step in enumerate(steps):
        calls = (ground.calls, ground.another)[turn % 2]
        match step:
            case ("wait", milliseconds):
                ground.pass_time(milliseconds / 1000)
            case ("drop", name):
                calls.drop(limit, tickets[name])
                model.drop(limit, tickets[name])
            case ("take", name, stay, ahead):
                answer = calls.take(limit, tickets[name], stay=stay and name < 3, ahead=ahead)
                expected = model.take(limit, tickets[name], stay=stay and name < 3, ahead=ahead)
                assert answer == pytest.approx(expected, abs=1e-9)
                if answer == 0:
                    tickets[name] = f"{limit.name}-{name}-{turn}"


@pytest.fixture(params=[*SHARED, pytest.param("redis", marks=SERVER)])
def real(request: pytest.FixtureRequest) -> Iterator[tuple[str, Callable[[], CallLog]]]:
    """A shared log in real time: its URL, and a way to open it."""
    if request.param == "redis":
        url = request.getfixturevalue("empty_redis_url")
        yield url, lambda: RedisCalls(url)
    else:
        url = url_of(request.param, request)
        with ExitStack() as closing:
            store = opened(url)
            closing.callback(store.close)
            yield url, lambda: DatabaseCalls(store, SystemClock())


def test_many_threads_together_stay_within_the_limit(real: tuple[str, Callable[[], CallLog]]) -> None:
    limiter = RateLimiter(5, 0.2, name="threads", calls=real[1]())
    clock = SystemClock()
    begun = clock.monotonic()

    def work() -> None:
        for _ in range(3):
            limiter.acquire_sync()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert clock.monotonic() - begun >= 0.2 * (18 // 5)  # the last of 18 is the first of the fourth window


CHILD = """
import sys
from horae.clock import SystemClock
from horae.limits import RateLimiter
from horae.stores.limits.database import DatabaseCalls
from horae.stores.limits.redis import RedisCalls
from tests.stores.conftest import opened, url_of
url = sys.argv[1]
calls = RedisCalls(url) if url.startswith("redis") else DatabaseCalls(opened(url), SystemClock())
limiter = RateLimiter(4, 0.5, name="shared", calls=calls)
for _ in range(6):
    before = SystemClock().now().timestamp()
    limiter.acquire_sync()
    print(before, SystemClock().now().timestamp(), flush=True)
"""


def test_many_processes_together_stay_within_the_limit(real: tuple[str, Callable[[], CallLog]]) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, real[0]], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    lines = [line.split() for child in children for line in child.communicate(timeout=60)[0].splitlines()]
    asked, granted = (sorted(float(line[place]) for line in lines) for place in (0, 1))

    assert [child.returncode for child in children] == [0, 0]
    assert len(granted) == 12
    # The first was counted after it was asked for, the ninth before its answer came: being late makes this longer.
    assert granted[8] - asked[0] >= 0.95


def test_a_stricter_isolation_level_does_not_count_in_an_old_snapshot(postgres_database_url: str) -> None:
    opened(postgres_database_url).close()
    strict = "options=-c%20default_transaction_isolation%3Drepeatable%5C%20read"
    store = opened(f"{postgres_database_url}{'&' if '?' in postgres_database_url else '?'}{strict}")
    calls, granted = DatabaseCalls(store, SystemClock()), list[float]()
    take(calls)
    start = threading.Barrier(12)

    def work() -> None:
        start.wait(60)
        granted.append(take(calls))

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert granted.count(0) == 2
    store.close()


@pytest.mark.parametrize("database", SHARED)
def test_a_clock_that_was_wrong_for_a_while_does_not_stop_everything(
    database: str, request: pytest.FixtureRequest
) -> None:
    store = opened(request.getfixturevalue(f"{database}_database_url"))
    wrong, right = VirtualClock(datetime(2031, 1, 1, tzinfo=UTC)), VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    for _ in range(3):
        take(DatabaseCalls(store, wrong))

    calls = DatabaseCalls(store, right)
    take(calls)

    assert take(calls) == 60
    store.close()


def test_a_clock_that_was_wrong_for_a_while_does_not_stop_redis_either(empty_redis_url: str) -> None:
    wrong, right = VirtualClock(datetime(2031, 1, 1, tzinfo=UTC)), VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    for _ in range(3):
        take(RedisCalls(empty_redis_url, clock=wrong))

    assert take(RedisCalls(empty_redis_url, clock=right)) == 60


def test_the_keys_in_redis_end_by_themselves(empty_redis_url: str) -> None:
    calls, client = RedisCalls(empty_redis_url, "app"), redis.Redis.from_url(empty_redis_url)
    for number in range(4):
        take(calls, f"ticket-{number}", stay=True)

    keys = sorted(str(key, "ascii") for key in client.scan_iter())
    assert keys == [f"app:limit:{{tushare}}:{part}" for part in ("calls", "line", "seen")]
    assert all(0 < int(client.pttl(key)) <= 66_000 for key in keys)


def test_a_redis_that_has_lost_its_scripts_still_counts(empty_redis_url: str) -> None:
    calls = RedisCalls(empty_redis_url)
    take(calls, "a")
    redis.Redis.from_url(empty_redis_url).script_flush()

    assert take(calls, "b") == 0
    redis.Redis.from_url(empty_redis_url).script_flush()
    calls.drop(a_limit(), "b")
    assert [take(calls) for _ in range(2)] == [0, 0]


def test_a_redis_that_is_gone_is_told_in_our_words(own_server: Callable[..., RedisServer]) -> None:
    server = own_server(RedisServer)
    calls = RedisCalls(server.url)
    server.stop()

    with refused(StoreUnavailable, "redis_unreachable"):
        take(calls)


def test_an_empty_prefix_is_refused(empty_redis_url: str) -> None:
    with refused(ConfigurationError, "redis_prefix_missing"):
        RedisCalls(empty_redis_url, "")
