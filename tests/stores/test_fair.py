"""Queues in which owners take turns: on three databases, with several processes, beside limits, bands and pauses."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae.core.jobs.job import Job
from horae.ports.queues import Queue
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import declare, end, put, read_job, take

FLOOD = 300
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def shared(store: SqlStore) -> None:
    declare(store)
    share(store)


def share(store: SqlStore, **settings: object) -> None:
    queue = Queue("default", **{"fair": "owner"} | settings)  # type: ignore[arg-type]
    store.transact(lambda tx: tx.queues.put(queue))


def flood(store: SqlStore, owner: str = "flood", count: int = FLOOD, **fields: Any) -> list[int]:
    return put(store, *[a_new_job({"n": number}, owner=owner, **fields) for number in range(count)])


def owners(jobs: Iterable[Job]) -> Counter[str]:
    return Counter(job.owner for job in jobs)


@pytest.mark.parametrize("other", ["other", "system"])
@pytest.mark.parametrize("limit", [1, 10])
def test_the_other_starts_by_the_second_claim(store: SqlStore, other: str, limit: int) -> None:
    flood(store)
    for _ in range(5):
        assert owners(take(store, limit)) == {"flood": limit}

    [number] = put(store, a_new_job(owner=other), now=NOON)
    second = [job.number for _ in range(2) for job in take(store, limit)]

    assert number in second


def test_a_claim_is_divided_between_owners(store: SqlStore) -> None:
    flood(store)
    for owner in ("b", "c", "d"):
        flood(store, owner, 100)

    assert owners(take(store, 40)) == {"flood": 10, "b": 10, "c": 10, "d": 10}


def test_what_others_leave_goes_to_whoever_has_work(store: SqlStore) -> None:
    flood(store)
    flood(store, "b", 3)

    assert owners(take(store, 100)) == {"flood": 97, "b": 3}
    assert owners(take(store, 1000)) == {"flood": 203}
    assert take(store, 10) == []


def test_shares_follow_the_weights(store: SqlStore) -> None:
    for owner in ("a", "b", "c"):
        flood(store, owner)
    store.transact(lambda tx: tx.owners.put("a", {"weight": 3}, NOON))
    store.transact(lambda tx: tx.owners.put("b", {"weight": 2}, NOON))

    taken = sum((owners(take(store, 20)) for _ in range(12)), Counter[str]())

    assert taken.total() == 240
    assert all(abs(taken[owner] - fair) <= 6 for owner, fair in {"a": 120, "b": 80, "c": 40}.items())


def test_owners_take_turns_whatever_priority_they_give_their_jobs(store: SqlStore) -> None:
    """Else a tenant that calls all of its jobs urgent would have the queue to itself."""
    flood(store, priority="high")
    flood(store, "other", 20, priority="low")

    assert owners(take(store, 20)) == {"flood": 10, "other": 10}


@pytest.mark.parametrize("order", ["priority", "run_at"])
def test_the_order_of_the_queue_holds_among_the_jobs_of_one_owner(store: SqlStore, order: str) -> None:
    share(store, order=order)
    low = put(store, *[a_new_job(owner="a", priority="low", run_at=NOON - HOUR) for _ in range(3)])
    high = put(store, *[a_new_job(owner="a", priority="high") for _ in range(3)])
    flood(store)

    mine = [job.number for job in take(store, 6) if job.owner == "a"]

    assert mine == (high if order == "priority" else low)


def test_jobs_of_the_future_are_left_alone(store: SqlStore) -> None:
    flood(store, "later", 50, run_at=NOON + HOUR)
    flood(store, "now", 5)

    assert owners(take(store, 20)) == {"now": 5}
    assert owners(take(store, 20, now=NOON + HOUR)) == {"later": 20}


def test_many_owners_with_few_jobs_come_before_a_flood(store: SqlStore) -> None:
    flood(store, "flood", 200)
    put(store, *[a_new_job(owner=f"o{number:03}") for number in range(150) for _ in range(2)])

    taken = sum((owners(take(store, 50)) for _ in range(5)), Counter[str]())

    assert len(taken) > 90
    assert taken["flood"] < 60  # of 250; in the order of the queue it would be 200


def test_a_newcomer_among_many_owners_starts_by_the_second_claim(store: SqlStore) -> None:
    put(store, *[a_new_job(owner=f"o{number:03}") for number in range(100) for _ in range(5)])
    take(store, 10)
    later = NOON + timedelta(seconds=1)
    [number] = put(store, a_new_job(owner="zz", run_at=later), now=later)

    assert number in [job.number for _ in range(2) for job in take(store, 10, now=later)]


def test_a_newcomer_starts_by_the_second_large_claim_whatever_is_at_the_head(store: SqlStore) -> None:
    put(store, *[a_new_job(owner=f"o{number % 60:03}") for number in range(600)])
    for _ in range(3):
        take(store, 60)
    [number] = put(store, a_new_job(owner="zz"), now=NOON)  # as late as those at the head, but stored since

    assert number in [job.number for _ in range(2) for job in take(store, 60)]


def test_a_flood_that_comes_to_a_mixed_head_gets_no_more_than_its_turns(store: SqlStore) -> None:
    put(store, *[a_new_job(owner=f"o{number % 60:03}") for number in range(300)])
    flood(store, "flood", 300)
    put(store, *[a_new_job(owner=f"p{number % 60:03}") for number in range(300)])

    taken = sum((owners(take(store, 60)) for _ in range(9)), Counter[str]())  # 540 of 900

    assert taken["flood"] < 200  # in the order of the queue it would be 240


def test_many_owners_with_one_job_each_are_served_in_the_order_of_the_queue(store: SqlStore) -> None:
    """Nobody is known after a claim that took all they had; the head says then that no look at each owner is needed."""
    numbers = put(store, *[a_new_job(owner=f"o{number:03}") for number in range(600)])
    take(store, 60)
    taken = [job.number for _ in range(3) for job in take(store, 60)]

    assert store.hot.fair.of("default").is_mixed
    assert len(set(taken) & set(numbers[:300])) > 150  # of 180; those whose turn it is come from anywhere


def test_an_empty_queue_keeps_no_owner_in_mind(store: SqlStore) -> None:
    put(store, *[a_new_job(owner=f"o{number % 60:03}") for number in range(300)])
    while take(store, 60):
        pass

    assert len(store.hot.fair.of("default").turns) == 0


def test_jobs_of_the_house_are_found_between_those_of_tenants(store: SqlStore) -> None:
    """No index names the house's jobs where there are partial ones: a walk along the due jobs finds them."""
    flood(store, "a", 200)
    house = put(store, *[a_new_job() for _ in range(5)])
    flood(store, "b", 200)

    taken = [job.number for _ in range(30) for job in take(store, 5)]

    assert set(house) <= set(taken)


def test_a_second_process_divides_its_claims_as_well(store: SqlStore, open_another: Callable[[], SqlStore]) -> None:
    other = open_another()
    for owner in ("a", "b", "c"):
        flood(store, owner, 120)

    taken = sum((owners(take(each, 9)) for _ in range(10) for each in (store, other)), Counter[str]())

    assert taken == {"a": 60, "b": 60, "c": 60}


def test_a_process_that_ends_after_each_claim_gives_nobody_a_lasting_advantage(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    for owner in ("a", "b", "c", "d"):
        flood(store, owner, 100)

    taken = sum((owners(take(open_another(), 8)) for _ in range(6)), Counter[str]())

    assert taken == {"a": 12, "b": 12, "c": 12, "d": 12}


def test_a_paused_queue_hands_out_nothing_and_a_resumed_one_goes_on_in_turns(store: SqlStore) -> None:
    flood(store)
    flood(store, "other", 20)
    take(store, 2)
    share(store, paused_at=NOON)

    assert take(store, 10) == []
    share(store)
    assert owners(take(store, 10)) == {"flood": 5, "other": 5}


def test_a_queue_that_is_no_longer_fair_is_served_in_its_order(store: SqlStore) -> None:
    flood(store, run_at=NOON - HOUR)
    flood(store, "other", 20)
    take(store, 2)
    store.transact(lambda tx: tx.queues.put(Queue("default")))

    assert owners(take(store, 10)) == {"flood": 10}
    share(store)
    assert owners(take(store, 10))["other"] >= 4


def test_a_full_key_of_one_owner_leaves_its_room_to_others(store: SqlStore) -> None:
    flood(store, "keyed", 50, concurrency_key="k", concurrency_limit=2)
    flood(store, "other", 50)

    assert owners(take(store, 20)) == {"keyed": 2, "other": 18}


def test_the_limit_of_the_queue_holds(store: SqlStore) -> None:
    store.transact(lambda tx: tx.limits.apply("queue:default", 6))
    flood(store)
    flood(store, "other", 50)

    assert owners(take(store, 20)) == {"flood": 3, "other": 3}
    assert take(store, 20) == []


def test_jobs_for_a_closed_handler_are_held_and_cost_their_owner_no_turn(store: SqlStore) -> None:
    [held] = put(store, a_new_job(handler="closed", owner="a"))
    flood(store, "a", 10)
    flood(store, "b", 10)

    assert owners(take(store, 10)) == {"a": 5, "b": 5}
    assert read_job(store, held).held == "closed"


def test_a_tenants_own_worker_sees_its_jobs_alone(store: SqlStore) -> None:
    flood(store)
    flood(store, "other", 5)

    assert owners(take(store, 10, owner="other")) == {"other": 5}


def test_an_order_that_a_claim_asks_for_leaves_the_turns_as_they_are(store: SqlStore) -> None:
    flood(store, run_at=NOON - HOUR)
    flood(store, "other", 20)
    for order in ("run_at", "priority", "run_at"):
        assert owners(take(store, 10, order=order)) == {"flood": 5, "other": 5}


def test_everything_is_claimed_once_and_nothing_is_left(store: SqlStore) -> None:
    given = flood(store) + flood(store, "b", 40, priority="high") + flood(store, "system", 40, priority="low")
    seen: list[int] = []
    while jobs := take(store, 37):
        seen += [job.number for job in jobs]
        for job in jobs[:5]:
            end(store, job)

    assert sorted(seen) == sorted(given)


def test_names_that_sort_strangely_are_served(store: SqlStore) -> None:
    names = ["Zoë", "a b", "a'b", "A", "a", "名前", "-", "_", "a%s"]
    for owner in names:
        flood(store, owner, 3)

    assert owners(take(store, 9)) == dict.fromkeys(names, 1)


def test_a_fair_claim_writes_nothing_but_its_jobs(store: SqlStore) -> None:
    flood(store)
    take(store, 10)

    with store.reading() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM horae_owners")).scalar() == 0
