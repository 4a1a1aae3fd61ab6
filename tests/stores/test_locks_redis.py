"""What is particular to locks in Redis: the names of entries, the scripts, the server that goes away (S3-26)."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import redis

from horae import Horae
from horae.clock import SystemClock, SystemDice, pause
from horae.errors import ConfigurationError, InvalidName, StoreUnavailable
from horae.stores.locks.redis import RedisLocks
from tests.support.refusals import refused
from tests.support.servers import RedisServer

SECOND = timedelta(seconds=1)


def locks_on(server: str | redis.Redis, prefix: str = "horae") -> RedisLocks:
    return RedisLocks(server, SystemClock(), SystemDice(), pause, prefix)


def test_the_entry_is_prefix_lock_and_business_key_and_its_value_is_the_token(empty_redis_url: str) -> None:
    lock = locks_on(empty_redis_url, "neton").with_lock("job:clean-expired-tokens", 30)

    client = redis.Redis.from_url(empty_redis_url)
    assert client.keys() == [b"neton:lock:job:clean-expired-tokens"]
    assert client.get("neton:lock:job:clean-expired-tokens") == lock.token.encode()
    assert 29_000 < int(client.pttl("neton:lock:job:clean-expired-tokens")) <= 30_000


def test_the_default_prefix_is_ours(empty_redis_url: str) -> None:
    locks_on(empty_redis_url).with_lock("job:a", 30)

    assert redis.Redis.from_url(empty_redis_url).keys() == [b"horae:lock:job:a"]


@pytest.mark.parametrize(
    ("variable", "in_code", "prefix"), [("", None, "horae"), ("neton", None, "neton"), ("neton", "shop", "shop")]
)
def test_an_application_names_the_prefix_of_its_locks(
    empty_redis_url: str, monkeypatch: pytest.MonkeyPatch, variable: str, in_code: str | None, prefix: str
) -> None:
    """S3-26: {keyPrefix}:lock:job:{id}; in code, or by HORAE_LOCK_PREFIX."""
    monkeypatch.setenv("HORAE_LOCK_PREFIX", variable)
    with Horae("sqlite://") as app:
        app.locks, app.lock_prefix = empty_redis_url, in_code
        assert app.locks is not None
        app.locks.with_lock("job:clean-expired-tokens", 30)

    assert redis.Redis.from_url(empty_redis_url).keys() == [f"{prefix}:lock:job:clean-expired-tokens".encode()]


def test_a_prefix_that_would_not_be_one_is_refused(empty_redis_url: str) -> None:
    with Horae("sqlite://") as app:
        app.locks, app.lock_prefix = empty_redis_url, "a b"
        with refused(InvalidName, "name_unreadable", what="prefix of Redis keys"):
            _ = app.locks


def test_an_empty_prefix_is_refused(empty_redis_url: str) -> None:
    with refused(ConfigurationError, "redis_prefix_missing"):
        locks_on(empty_redis_url, "")


def test_a_url_that_cannot_be_read_is_refused() -> None:
    with refused(ConfigurationError, "redis_url_unreadable"):
        locks_on("http://example.org")


def test_a_server_that_has_lost_its_scripts_is_sent_them_again(empty_redis_url: str) -> None:
    locks, client = locks_on(empty_redis_url), redis.Redis.from_url(empty_redis_url)
    first = locks.with_lock("job:a", 30)
    assert first.extend(60)
    assert first.release()
    second = locks.with_lock("job:a", 30)

    client.script_flush()

    assert second.extend(60)
    client.script_flush()
    assert second.release()


def test_scripts_are_called_by_their_hash_once_the_server_knows_them(empty_redis_url: str) -> None:
    locks, client = locks_on(empty_redis_url), redis.Redis.from_url(empty_redis_url)
    client.script_flush()
    locks.with_lock("job:a", 30).release()
    client.config_resetstat()

    for _ in range(5):
        assert locks.with_lock("job:a", 30).release()

    calls = client.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] == 5
    assert "cmdstat_eval" not in calls


def test_an_application_s_own_client_may_decode_what_it_reads(empty_redis_url: str) -> None:
    locks = locks_on(redis.Redis.from_url(empty_redis_url, decode_responses=True))

    with locks.with_lock("job:a", 30) as lock:
        assert lock.extend(30)
        assert locks.try_lock("job:a", 30) is None


def test_a_command_that_the_client_repeats_finds_its_own_lock(empty_redis_url: str) -> None:
    locks = locks_on(empty_redis_url)

    assert [locks.put("job:a", "0" * 32, SECOND), locks.put("job:a", "0" * 32, SECOND)] == [True, True]
    assert locks.put("job:a", "1" * 32, SECOND) is False


def test_a_takeover_that_the_client_repeats_finds_its_own_lock(empty_redis_url: str) -> None:
    locks = locks_on(empty_redis_url)
    locks.put("job:a", "0" * 32, SECOND)

    assert [locks.swap("job:a", "0" * 32, "1" * 32, SECOND) for _ in range(2)] == [True, True]
    assert locks.swap("job:a", "0" * 32, "2" * 32, SECOND) is False


def test_a_lock_ends_by_the_server_s_own_clock(empty_redis_url: str) -> None:
    locks = locks_on(empty_redis_url)
    lost = locks.with_lock("job:a", 0.05)

    assert locks.try_lock("job:a", 30, wait=10, retry_interval=0.01) is not None
    assert lost.release() is False


def test_a_server_that_is_gone_is_told_in_our_words(own_server: Callable[..., RedisServer]) -> None:
    server = own_server(RedisServer)
    locks = locks_on(server.url)
    lock = locks.with_lock("job:a", 30)
    server.stop()

    for attempt in (lambda: locks.try_lock("job:a", 30), lambda: lock.extend(30), lock.release):
        with refused(StoreUnavailable, "redis_unreachable"):
            attempt()


def test_what_failed_inside_a_block_is_not_hidden_by_a_server_that_is_gone(
    own_server: Callable[..., RedisServer],
) -> None:
    server = own_server(RedisServer)

    def work() -> None:
        with locks_on(server.url).with_lock("job:a", 30):
            server.stop()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()


def test_after_a_restart_locks_work_again(own_server: Callable[..., RedisServer]) -> None:
    server = own_server(RedisServer)
    locks = locks_on(server.url)
    before = locks.with_lock("job:a", 30)

    server.restart()

    with locks.with_lock("job:a", 30) as lock:  # nothing was kept: the restart has freed it
        assert lock.extend(30)
    assert before.release() is False
