"""Locks of jobs that begin or end together, taken and released in one transaction, on all three databases."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from horae.core.jobs.locks import LockHolder
from horae.ports.locks import BatchLocks, Lock
from tests.stores.conftest import opened
from tests.stores.lock_grounds import Ground, in_database
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url

TTL = timedelta(seconds=30)
MANY = 60  # more than a statement lists by itself


@pytest.fixture
def ground(database_url: str) -> Iterator[Ground]:
    with ExitStack() as closing:
        stores = [opened(database_url) for _ in range(2)]
        for store in stores:
            closing.callback(store.close)
        yield in_database(stores[0], stores[1], database_url)


def batches(locks: object) -> BatchLocks:
    assert isinstance(locks, BatchLocks)
    return locks


def ask(*numbers: int) -> list[tuple[str, timedelta, LockHolder]]:
    return [(f"job:{number}", TTL, LockHolder(number, 1_900_000_000_000_000, 1)) for number in numbers]


def acquired(found: list[Lock | None]) -> list[Lock]:
    return [lock for lock in found if lock is not None]


def test_of_many_locks_each_free_one_is_taken_and_a_held_one_is_not(ground: Ground) -> None:
    assert ground.others.try_lock("job:7", TTL) is not None

    found = batches(ground.locks).try_lock_each(ask(*range(MANY)))

    assert [number for number, lock in enumerate(found) if lock is None] == [7]
    assert ground.others.try_lock("job:8", TTL) is None
    assert [lock.extend(TTL) for lock in acquired(found)] == [True] * (MANY - 1)


def test_of_two_attempts_that_ask_for_one_lock_together_one_gets_it(ground: Ground) -> None:
    found = batches(ground.locks).try_lock_each([*ask(1), *ask(2), *ask(1)])

    assert len(acquired(found)) == 2
    assert found[1] is not None


def test_releasing_many_locks_says_which_were_lost_and_leaves_those_of_others(ground: Ground) -> None:
    ours = acquired(batches(ground.locks).try_lock_each(ask(*range(MANY))))
    taken_over = ground.others.try_lock_for("job:3", TTL, LockHolder(3, 1_900_000_000_000_000, 2), lambda _: True)

    assert batches(ground.locks).release_each(ours) == [number != 3 for number in range(MANY)]
    assert taken_over is not None
    assert taken_over.release() is True
    assert batches(ground.locks).release_each(ours) == [False] * MANY


def test_a_lock_whose_time_has_run_out_is_left_to_its_own_verb_and_is_no_longer_released(ground: Ground) -> None:
    old = acquired(batches(ground.locks).try_lock_each(ask(1)))
    ground.pass_time(31)

    assert batches(ground.others).try_lock_each(ask(1)) == [None]
    assert batches(ground.locks).release_each(old) == [False]
    assert ground.others.try_lock("job:1", TTL) is not None


def test_nothing_asked_is_nothing_done(ground: Ground) -> None:
    assert batches(ground.locks).try_lock_each([]) == []
    assert batches(ground.locks).release_each([]) == []
