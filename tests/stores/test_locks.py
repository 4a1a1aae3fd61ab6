"""One suite for all lock managers: memory, the three databases, Redis (S3-26…S3-28, S3-47, C-9, C-10)."""

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest

from horae.core.jobs.locks import LockHolder
from horae.errors import InvalidInput, InvalidName, LockNotAcquired
from horae.ports.locks import Lock, LockManager
from tests.stores.conftest import opened, url_of
from tests.stores.lock_grounds import Ground, in_database, in_memory, in_redis, real_locks
from tests.support.refusals import refused

KEY = "job:clean-expired-tokens"
SERVER = pytest.mark.server
T = TypeVar("T")


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=SERVER),
        pytest.param("mysql", marks=SERVER),
        pytest.param("redis", marks=SERVER),
    ]
)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    if request.param == "memory":
        yield in_memory()
    elif request.param == "redis":
        yield in_redis(request.getfixturevalue("empty_redis_url"))
    else:
        url = url_of(request.param, request)
        with ExitStack() as closing:
            stores = [opened(url) for _ in range(2)]
            for store in stores:
                closing.callback(store.close)
            yield in_database(stores[0], stores[1], url)


def acquired(lock: Lock | None) -> Lock:
    assert lock is not None
    return lock


def test_a_held_lock_is_refused_to_everyone_else_at_once(ground: Ground) -> None:
    manager: LockManager = ground.locks
    acquired(manager.try_lock(KEY, 30))

    assert ground.others.try_lock(KEY, 30) is None
    assert ground.pauses == []


def test_a_lock_is_not_re_entrant(ground: Ground) -> None:
    acquired(ground.locks.try_lock(KEY, 30))

    assert ground.locks.try_lock(KEY, 30) is None


def test_two_keys_do_not_exclude_each_other(ground: Ground) -> None:
    acquired(ground.locks.try_lock(KEY, 30))

    assert ground.others.try_lock("job:Clean-Expired-Tokens", 30) is not None
    assert ground.others.try_lock("job:other", 30) is not None


def test_a_released_lock_can_be_acquired_again(ground: Ground) -> None:
    assert acquired(ground.locks.try_lock(KEY, 30)).release() is True

    assert ground.others.try_lock(KEY, 30) is not None


def test_a_second_release_says_that_there_was_nothing_to_release(ground: Ground) -> None:
    lock = acquired(ground.locks.try_lock(KEY, 30))

    assert [lock.release(), lock.release()] == [True, False]


def test_a_lock_ends_by_itself(ground: Ground) -> None:
    acquired(ground.locks.try_lock(KEY, 30))

    ground.pass_time(29)
    assert ground.others.try_lock(KEY, 30) is None

    ground.pass_time(1)
    assert ground.others.try_lock(KEY, 30) is not None


def test_a_stale_holder_cannot_release_its_successors_lock(ground: Ground) -> None:
    stale = acquired(ground.locks.try_lock(KEY, 30))
    ground.pass_time(31)
    acquired(ground.others.try_lock(KEY, 30))

    assert stale.release() is False
    assert ground.locks.try_lock(KEY, 30) is None


def test_a_lock_that_ran_out_is_reported_as_lost_on_release(ground: Ground) -> None:
    lock = acquired(ground.locks.try_lock(KEY, 30))
    ground.pass_time(31)

    assert lock.release() is False
    assert ground.others.try_lock(KEY, 30) is not None


def test_an_extended_lock_outlives_its_first_end(ground: Ground) -> None:
    lock = acquired(ground.locks.try_lock(KEY, 30))
    ground.pass_time(20)

    assert lock.extend(30) is True

    ground.pass_time(20)
    assert ground.others.try_lock(KEY, 30) is None
    ground.pass_time(10)
    assert ground.others.try_lock(KEY, 30) is not None


def test_a_lost_lock_cannot_be_extended(ground: Ground) -> None:
    stale = acquired(ground.locks.try_lock(KEY, 30))
    ground.pass_time(31)
    assert stale.extend(30) is False

    acquired(ground.others.try_lock(KEY, 30))
    assert stale.extend(3000) is False

    ground.pass_time(31)
    assert ground.locks.try_lock(KEY, 30) is not None


def test_a_released_lock_cannot_be_extended(ground: Ground) -> None:
    lock = acquired(ground.locks.try_lock(KEY, 30))
    lock.release()

    assert lock.extend(30) is False
    assert ground.others.try_lock(KEY, 30) is not None


def test_every_acquisition_draws_a_new_token_of_128_bits(ground: Ground) -> None:
    tokens = set()
    for _ in range(20):
        lock = acquired(ground.locks.try_lock(KEY, 30))
        tokens.add(lock.token)
        lock.release()

    assert len(tokens) == 20
    assert all(re.fullmatch("[0-9a-f]{32}", token) for token in tokens)


def test_waiting_sleeps_between_tries_and_gives_up_in_time(ground: Ground) -> None:
    acquired(ground.locks.try_lock(KEY, 30))

    assert ground.others.try_lock(KEY, 30, wait=1, retry_interval=0.3) is None
    assert ground.pauses == pytest.approx([0.3, 0.3, 0.3, 0.1])


def test_a_waiter_gets_the_lock_when_it_ends(ground: Ground) -> None:
    acquired(ground.locks.try_lock(KEY, 1))

    assert ground.others.try_lock(KEY, 30, wait=5, retry_interval=0.25) is not None
    assert sum(ground.pauses) == pytest.approx(1)


def test_waiting_without_a_pause_between_tries_is_refused(ground: Ground) -> None:
    with refused(InvalidInput, "retry_interval_too_short"):
        ground.locks.try_lock(KEY, 30, wait=1, retry_interval=0)


@pytest.mark.parametrize(
    ("ttl", "reason"),
    [
        (0, "lock_ttl_too_short"),
        (-1, "lock_ttl_too_short"),
        (0.0001, "lock_ttl_too_short"),
        (timedelta.max, "lock_ttl_too_long"),
    ],
)
def test_a_lock_without_an_end_is_refused(ground: Ground, ttl: timedelta | float, reason: str) -> None:
    with refused(InvalidInput, reason):
        ground.locks.try_lock(KEY, ttl)
    with refused(InvalidInput, reason):
        acquired(ground.locks.try_lock(KEY, 1)).extend(ttl)


@pytest.mark.parametrize("key", ["", "x" * 201, "two\nlines"])
def test_a_key_that_a_back_end_could_change_is_refused(ground: Ground, key: str) -> None:
    with refused(InvalidName, "lock_key_unreadable"):
        ground.locks.try_lock(key, 30)


def test_a_block_holds_the_lock_and_releases_it_at_the_end(ground: Ground) -> None:
    with ground.locks.with_lock(KEY, 30):
        assert ground.others.try_lock(KEY, 30) is None

    assert ground.others.try_lock(KEY, 30) is not None


def test_a_block_without_the_lock_is_not_entered(ground: Ground) -> None:
    acquired(ground.locks.try_lock(KEY, 30))

    with refused(LockNotAcquired, "lock_held", key=KEY), ground.others.with_lock(KEY, 30):
        pytest.fail("entered")


def test_a_block_that_fails_releases_the_lock_and_keeps_its_error(ground: Ground) -> None:
    with pytest.raises(ZeroDivisionError), ground.locks.with_lock(KEY, 30):
        raise ZeroDivisionError

    assert ground.others.try_lock(KEY, 30) is not None


def test_a_block_that_outlives_its_lock_is_told_so(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "horae.locks"), ground.locks.with_lock(KEY, 30):
        ground.pass_time(31)

    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_lock_released_inside_its_block_is_not_released_again(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    with ground.locks.with_lock(KEY, 30) as lock:
        lock.release()

    assert caplog.records == []


def test_the_token_does_not_appear_where_a_lock_is_shown(ground: Ground) -> None:
    lock = acquired(ground.locks.try_lock(KEY, 30))

    assert lock.token not in repr(lock)


def test_of_fifty_threads_exactly_one_wins(ground: Ground) -> None:
    won = in_threads(50, lambda: ground.locks.try_lock(KEY, 30))

    assert sum(lock is not None for lock in won) == 1


def test_of_fifty_threads_exactly_one_takes_over_a_lock_that_ran_out(ground: Ground) -> None:
    acquired(ground.locks.try_lock(KEY, 1))
    ground.pass_time(2)

    won = in_threads(50, lambda: ground.others.try_lock(KEY, 30))

    assert sum(lock is not None for lock in won) == 1


def test_threads_that_acquire_and_release_never_meet_inside(ground: Ground) -> None:
    inside, most = [0], [0]
    counting = threading.Lock()

    def work() -> bool:
        lock = ground.locks.try_lock(KEY, 30)
        if lock is None:
            return False
        with counting:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        with counting:
            inside[0] -= 1
        return lock.release()

    results = in_threads(12, lambda: [work() for _ in range(10)])

    assert most[0] == 1
    assert any(any(result) for result in results)


# -- locks of attempts -------------------------------------------------------------------------------------------

FIRST = LockHolder(number=7, created_at=1_900_000_000_000_000, token=1)
SECOND = replace(FIRST, token=3)
STRANGER = replace(FIRST, created_at=FIRST.created_at + 1)
OTHER_JOB = LockHolder(number=8, created_at=1_900_000_000_000_001, token=1)


def never(_: LockHolder) -> bool:
    return False


def always(_: LockHolder) -> bool:
    return True


def test_a_later_attempt_at_the_same_job_takes_over_and_the_old_holder_finds_out(ground: Ground) -> None:
    """S3-27: one atomic step, and nobody waits."""
    old = acquired(ground.locks.try_lock_for(KEY, 30, FIRST, never))

    new = acquired(ground.others.try_lock_for(KEY, 60, SECOND, never))

    assert (old.extend(30), old.release()) == (False, False)
    ground.pass_time(31)
    assert new.extend(30) is True
    assert new.release() is True


def test_an_earlier_attempt_at_the_same_job_is_refused(ground: Ground) -> None:
    acquired(ground.locks.try_lock_for(KEY, 30, SECOND, never))

    assert ground.others.try_lock_for(KEY, 30, FIRST, never) is None
    assert ground.others.try_lock_for(KEY, 30, SECOND, never) is None


@pytest.mark.parametrize("other", [OTHER_JOB, STRANGER], ids=["another job", "the same number in another store"])
def test_the_lock_of_another_jobs_attempt_is_refused_unless_that_is_over(ground: Ground, other: LockHolder) -> None:
    held = acquired(ground.locks.try_lock_for(KEY, 30, other, never))
    asked: list[LockHolder] = []

    def still_runs(holder: LockHolder) -> bool:
        asked.append(holder)
        return False

    assert ground.others.try_lock_for(KEY, 30, FIRST, still_runs) is None
    assert asked == [other]

    acquired(ground.others.try_lock_for(KEY, 30, FIRST, always))
    assert held.extend(30) is False


def test_a_lock_that_no_attempt_took_is_never_taken_over(ground: Ground) -> None:
    held = acquired(ground.locks.try_lock(KEY, 30))

    assert ground.others.try_lock_for(KEY, 30, FIRST, always) is None
    assert held.release() is True


def test_the_lock_of_an_attempt_is_refused_to_those_who_ask_without_one(ground: Ground) -> None:
    acquired(ground.locks.try_lock_for(KEY, 30, FIRST, never))

    assert ground.others.try_lock(KEY, 30) is None


def test_a_lock_that_changed_hands_after_it_was_looked_at_is_not_taken_over(ground: Ground) -> None:
    acquired(ground.locks.try_lock_for(KEY, 30, OTHER_JOB, never))

    def changes_hands(_: LockHolder) -> bool:
        acquired(ground.locks.try_lock_for(KEY, 30, replace(OTHER_JOB, token=3), never))
        return True

    assert ground.others.try_lock_for(KEY, 30, FIRST, changes_hands) is None


def test_the_value_of_an_attempts_lock_names_it_and_is_new_each_time(ground: Ground) -> None:
    """S3-26: 128 random bits, in every back end."""
    values = set()
    for _ in range(20):
        lock = acquired(ground.locks.try_lock_for(KEY, 30, FIRST, never))
        values.add(lock.token)
        assert LockHolder.read(ground.others.peek(KEY) or "") == FIRST
        lock.release()

    assert len({value.partition(".")[0] for value in values}) == 20


def test_of_fifty_threads_exactly_one_takes_over_the_lock_of_an_attempt_that_is_over(ground: Ground) -> None:
    acquired(ground.locks.try_lock_for(KEY, 30, OTHER_JOB, never))

    won = in_threads(
        50, lambda: ground.others.try_lock_for(KEY, 30, FIRST, lambda holder: holder.number == OTHER_JOB.number)
    )

    assert sum(lock is not None for lock in won) == 1


def test_a_lock_that_its_back_end_forgot_can_be_put_back_unless_somebody_has_it(ground: Ground) -> None:
    lock = ground.locks.try_lock_for(KEY, 30, FIRST, never)
    assert lock is not None
    ground.pass_time(31)

    assert lock.restore(30) is True
    assert ground.others.try_lock(KEY, 30) is None
    ground.pass_time(31)
    acquired(ground.others.try_lock(KEY, 30))
    assert lock.restore(30) is False


CHILD = """
import os, sys
from tests.stores.lock_grounds import real_locks
with real_locks(sys.argv[1]) as locks:
    print(locks.try_lock("job:held", 600) is not None, locks.try_lock("job:fresh", 600) is not None, flush=True)
    os._exit(0)  # without releasing anything
"""


def test_another_process_is_excluded_and_what_it_held_when_it_died_stays_held(ground: Ground) -> None:
    if ground.url is None:
        pytest.skip("memory is for one process")
    with real_locks(ground.url) as locks:
        held = acquired(locks.try_lock("job:held", 600))

        child = subprocess.run([sys.executable, "-c", CHILD, ground.url], capture_output=True, text=True, timeout=60)

        assert child.stdout.split() == ["False", "True"], child.stderr
        assert held.release() is True
        assert locks.try_lock("job:fresh", 600) is None


def in_threads(count: int, work: Callable[[], T]) -> list[T]:
    """Run it in that many threads at the same moment; what each answered."""
    start, answers = threading.Barrier(count), list[T]()

    def run() -> None:
        start.wait(30)
        answers.append(work())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == count
    return answers
