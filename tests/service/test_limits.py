"""How often one may call: for each token, for each address, and for wrong tokens."""

from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from horae.core.access.callers import Caller
from horae.errors import TooManyRequests
from horae.service.guard.limits import Buckets, Limits, Rates, address_group
from horae.testing.clock import VirtualClock
from tests.service.conftest import Connect


def test_a_bucket_lets_its_burst_through_and_then_the_rate() -> None:
    buckets = Buckets(rate=10, burst=2.0)
    assert [buckets.take("a", 0.0) for _ in range(20)] == [0.0] * 20
    assert buckets.take("a", 0.0) == pytest.approx(0.1)
    assert buckets.take("b", 0.0) == 0.0
    assert [buckets.take("a", 0.1), buckets.take("a", 0.1) > 0] == [0.0, True]
    assert [buckets.take("a", 100.0) for _ in range(20)] == [0.0] * 20


def test_who_asks_while_the_bucket_is_empty_is_not_punished_for_asking() -> None:
    buckets = Buckets(rate=1, burst=1.0)
    buckets.take("a", 0.0)
    for tenth in range(1, 10):
        assert buckets.take("a", tenth / 10) == pytest.approx(1 - tenth / 10)
    assert buckets.take("a", 1.0) == 0.0


def test_buckets_are_bounded_in_number() -> None:
    buckets = Buckets(rate=1, burst=1.0, most=100)
    for number in range(10_000):
        buckets.take(str(number), 0.0)
    assert len(buckets) == 100


def test_no_rate_means_no_limit() -> None:
    limits = Limits(Rates(), lambda: 0.0)
    for _ in range(1000):
        limits.count_address("192.0.2.1")
        limits.count_caller(Caller("alice", frozenset(), "user/alice"))
        limits.count_wrong_token("192.0.2.1")


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_one_customer_of_ipv6_counts_as_one(address: str | None, counted: str) -> None:
    assert address_group(address) == counted


def test_users_of_one_jwt_issuer_have_a_bucket_each() -> None:
    limits = Limits(Rates(per_token=1), lambda: 0.0)
    for owner in ("alice", "bob"):
        for _ in range(2):
            limits.count_caller(Caller(owner, frozenset(), f"user/{owner}"))
        with pytest.raises(TooManyRequests):
            limits.count_caller(Caller(owner, frozenset(), f"user/{owner}"))


def limited(connect: Connect, clock: VirtualClock, owner: str = "", **rates: int) -> TestClient:
    return connect(owner, rates=Rates(**rates), monotonic=clock.monotonic)


def test_too_many_calls_with_one_token_are_told_when_to_come_again(connect: Connect, clock: VirtualClock) -> None:
    """Security check 18: 429 with the limit's name."""
    alice = limited(connect, clock, "alice", per_token=1)
    assert [alice.get("/scheduler/jobs").status_code for _ in range(4)] == [200, 200, 429, 429]
    answer = alice.get("/scheduler/jobs")
    assert (answer.json()["code"], answer.json()["limit"]) == ("too_many_requests", "calls_per_token")
    assert answer.headers["retry-after"] == "1"
    assert alice.get("/healthz").status_code == 200
    clock.advance(timedelta(seconds=1))
    assert alice.get("/scheduler/jobs").status_code == 200


def test_too_many_calls_from_one_address_reach_nothing(connect: Connect, clock: VirtualClock) -> None:
    nobody = limited(connect, clock, per_address=1)
    assert [nobody.get("/healthz").status_code for _ in range(3)] == [200, 200, 429]
    assert nobody.get("/healthz").json()["limit"] == "calls_per_address"


@pytest.mark.slow
def test_wrong_tokens_are_slowed_and_a_right_one_still_enters(connect: Connect, clock: VirtualClock) -> None:
    """Security check 14: delay, not ban; a neighbour behind the same address is not locked out."""
    alice = limited(connect, clock, "alice", wrong_per_address=30)
    right = alice.headers["Authorization"]
    wrong = f"{right[:-9]}{'0' if right[-9] != '0' else '1'}{right[-8:]}"
    statuses = [alice.get("/scheduler/jobs", headers={"Authorization": wrong}).status_code for _ in range(200)]
    assert statuses == [401] * 10 + [429] * 190
    assert alice.get("/scheduler/jobs").status_code == 200
    clock.advance(timedelta(seconds=2))
    assert alice.get("/scheduler/jobs", headers={"Authorization": wrong}).status_code == 401
