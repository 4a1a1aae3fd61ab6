"""The clock that all hosts on one database share."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from horae.clock import StoreClock
from tests.support.waiting import eventually

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)


def test_it_follows_the_database_and_not_the_host() -> None:
    clock = StoreClock(lambda: NOON)

    assert NOON <= clock.now() < NOON + timedelta(minutes=5)
    assert clock.offset > timedelta(days=30)


def test_it_is_never_ahead_of_the_database_however_long_the_first_connection_takes() -> None:
    """I9: half of what the connection took would be half of that too early, for a minute."""

    def slow_to_connect() -> datetime:
        ready_at = time.monotonic() + 0.05
        while time.monotonic() < ready_at:
            pass
        return datetime.now(UTC)

    clock = StoreClock(slow_to_connect)

    assert all(clock.now() <= datetime.now(UTC) for _ in range(100))


def test_without_a_first_answer_there_is_no_time() -> None:
    def away() -> datetime:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        StoreClock(away).now()


async def test_a_database_that_does_not_answer_holds_nobody_up() -> None:
    answers, asked = threading.Event(), threading.Event()

    def silent() -> datetime:
        if asked.is_set():
            answers.wait(20)
            return NOON + timedelta(hours=1)
        return NOON

    clock = StoreClock(silent, every=0.0)
    clock.now()
    asked.set()

    assert clock.now() < NOON + timedelta(minutes=5)
    assert clock.now() < NOON + timedelta(minutes=5)
    answers.set()
    await eventually(lambda: clock.now() >= NOON + timedelta(hours=1), "the new measurement")


async def test_a_failed_measurement_leaves_the_old_one_in_place() -> None:
    tries: list[int] = []

    def flaky() -> datetime:
        tries.append(1)
        if len(tries) > 1:
            raise ConnectionError
        return NOON

    clock = StoreClock(flaky, every=0.0)

    await eventually(lambda: clock.now() < NOON or len(tries) > 3, "some failures")
    assert clock.now() < NOON + timedelta(seconds=40)
