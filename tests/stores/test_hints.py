"""A claim may begin where the last one ended, but never at the price of a job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae.core.jobs.job import Job, Outcome, settlement
from horae.ports.claims import Claim
from horae.stores.databases.postgres import PostgresStore
from horae.stores.jobs.hints import LASTS
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from tests.stores.conftest import opened, url_of

pytestmark = pytest.mark.server
MINUTE = timedelta(minutes=1)


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str:
    return url_of("postgres", request)


@pytest.fixture
def store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    store = opened(store_url)
    assert isinstance(store, PostgresStore)
    monkeypatch.setattr(store, "hears", lambda: True)
    yield store
    store.close()


def put(store: PostgresStore, *minutes: int) -> None:
    store.insert([a_new_job(run_at=NOON + MINUTE * minute) for minute in minutes], now=NOON)


def take(store: PostgresStore, limit: int, after: timedelta = MINUTE * 60) -> list[int]:
    return [int((job.run_at - NOON) / MINUTE) for job in claimed(store, limit, after)]


def claimed(store: PostgresStore, limit: int, after: timedelta = MINUTE * 60) -> list[Job]:
    return store.claim(Claim("default", limit, "w", timedelta(seconds=30)), now=NOON + after)


def test_full_claims_go_on_where_the_last_one_ended(store: PostgresStore) -> None:
    put(store, 1, 2, 3, 4, 5)

    assert [take(store, 2), take(store, 2), take(store, 2)] == [[1, 2], [3, 4], [5]]


def test_an_earlier_job_announced_in_between_comes_next(store: PostgresStore) -> None:
    put(store, 2, 3, 4, 5)
    take(store, 2)
    put(store, 1)

    assert take(store, 2) == [1, 4]


def test_a_job_put_back_behind_the_hint_fills_a_claim_that_came_back_short(store: PostgresStore) -> None:
    put(store, 1, 2, 3)
    first, _ = claimed(store, 2)
    store.settle([settlement(first, Outcome("released"), now=NOON, roll=0.5)], now=NOON)

    assert take(store, 2) == [1, 3]


def test_a_job_put_back_behind_the_hint_waits_no_longer_than_a_second(store: PostgresStore) -> None:
    put(store, *range(1, 9))
    first, _ = claimed(store, 2)
    store.settle([settlement(first, Outcome("released"), now=NOON, roll=0.5)], now=NOON)

    assert take(store, 2, after=MINUTE * 60 + timedelta(microseconds=LASTS + 1)) == [1, 3]


def test_a_more_urgent_job_is_never_passed_over(store: PostgresStore) -> None:
    put(store, 1, 2, 3, 4)
    take(store, 2)
    store.insert([a_new_job(run_at=NOON, priority="high")], now=NOON)

    assert take(store, 2) == [0, 3]
