"""Limits over all databases of a cluster: shares of running limits and budgets, locks and rates in one of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from horae.actions import moves
from horae.actions.budgets import budgets
from horae.actions.jobs import claims, jobs
from horae.actions.jobs.requests import Request
from horae.actions.jobs.running_limits import declare_limits
from horae.actions.rules import job_rules
from horae.clock import SystemDice
from horae.core.jobs.running_limits import LimitSource
from horae.errors import InvalidInput, StoreError, StoreUnavailable
from horae.limits import DatabaseCalls, RateLimiter
from horae.limits.locks import open_locks
from horae.ports.world import World
from horae.runtime.worker.attempts import check_rate_limits
from horae.stores.store import SqlStore
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import lose, rooms
from tests.support.refusals import refused

LEASE = timedelta(minutes=1)


def shares(world: World) -> list[int | None]:
    return [
        source.max_running for shard in world.shards() for source in shard.store.read(lambda tx: tx.limits.sources())
    ]


def declared(most: int) -> dict[str, LimitSource]:
    return {"queue:default": LimitSource("queue:default", "shop", "code", most)}


# -- running limits ----------------------------------------------------------------------------------------------------


def test_a_limit_declared_in_code_is_shared_by_the_databases(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    assert declare_limits(world, "shop", declared(7)) == ["queue:default"]
    assert shares(world) == [3, 2, 2]
    assert declare_limits(world, "shop", declared(7)) == []
    [limit] = rooms(world).limits.list()
    assert (limit.max_running, limit.source) == (7, "code")
    for index in range(60):
        jobs.enqueue(world, Request("mail", {}, key=f"k{index}"))
    running = [
        job for shard in world.shards() for job in claims.claim(shard, "default", 50, worker_id="w", lease=LEASE)
    ]
    assert len(running) == 7
    assert declare_limits(world, "shop", {}) == ["queue:default"]
    assert shares(world) == []


# -- budgets -----------------------------------------------------------------------------------------------------------


def test_a_budget_of_the_house_is_a_share_in_each_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    made = rooms(world).budgets.set("llm", "calls", 7)
    assert (made.capacity, made.left) == (7, 7)
    held = [budgets.get(shard, "llm", "calls").period.capacity for shard in world.shards()]
    assert held == [3, 2, 2]
    for index in range(40):
        jobs.enqueue(world, Request("mail", {}, key=f"k{index}", budget="llm"))
    started = 0
    for shard in world.shards():
        ruled = replace(shard, rules=job_rules(shard.dice))
        started += len(claims.claim(ruled, "default", 50, worker_id="w", lease=LEASE))
    assert started == 7
    seen = rooms(world).budgets.get("llm", "calls")
    assert (seen.reserved, seen.left) == (7, 0)
    [listed] = rooms(world).budgets.list()
    assert (listed.capacity, listed.reserved, listed.left) == (7, 7, 0)


def test_a_correction_is_divided_and_gives_back_no_more_than_was_used(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    rooms(world).budgets.set("llm", "calls", 30)
    assert rooms(world).budgets.adjust("llm", "calls", 8, reason="elsewhere").settled == 8
    assert rooms(world).budgets.adjust("llm", "calls", -7, reason="refund").settled == 1
    with pytest.raises(InvalidInput):
        rooms(world).budgets.adjust("llm", "calls", -2, reason="refund")
    assert rooms(world).budgets.get("llm", "calls").settled == 1
    [period] = rooms(world).budgets.history("llm", "calls")
    assert (period.settled, period.capacity) == (1, 30)


def test_a_budget_that_cannot_be_shared_is_refused_and_none_at_all_is_not(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    with refused(InvalidInput, "limit_below_databases", databases=3):
        rooms(world).budgets.set("llm", "calls", 2)
    assert rooms(world).budgets.set("llm", "calls", 0).left == 0
    assert rooms(world).budgets.set("llm", "calls", None).left is None


def test_a_tenants_budget_is_whole_in_its_own_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    made = rooms(world).budgets.set("llm", "calls", 1, owner="ann")
    assert made.capacity == 1
    assert [each.owner for each in rooms(world).budgets.list()] == ["ann"]


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_budget_names_a_database_that_is_away(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    rooms(world).budgets.set("llm", "calls", 30)
    lose(world, urls, 2)
    world = clusters.open(urls[0])
    assert rooms(world).budgets.get("llm", "calls").incomplete == ("db-2",)
    assert rooms(world).budgets.set("llm", "calls", 60).incomplete == ("db-2",)
    assert rooms(world).budgets.list().page().incomplete == ("db-2",)


# -- locks and rates: each in one database, by the hash of its name ----------------------------------------------------


def rows_of(world: World, table: str) -> list[int]:
    """Return how many rows a table has in each database."""
    assert world.cluster is not None
    counts = []
    for number in [each.number for each in world.cluster.shard_map.members]:
        store = cast(SqlStore, world.cluster.store_of(number))
        [(count,)] = store.with_driver(lambda driver: driver.rows(f"SELECT count(*) FROM {table}"))
        counts.append(int(count))
    return counts


def test_locks_live_in_several_databases_and_each_excludes_others(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    ours, theirs = open_locks("database", world), open_locks("database", clusters.open(urls[1]))
    held = [ours.try_lock(f"job-{index}", 60) for index in range(20)]
    assert all(held)
    assert sum(counts := rows_of(world, "horae_locks")) == 20
    assert all(counts)
    assert [theirs.try_lock(f"job-{index}", 60) for index in range(20)] == [None] * 20
    first = held[0]
    assert first is not None
    assert first.extend(120)
    assert first.release()
    assert theirs.try_lock("job-0", 60) is not None
    assert not first.extend(60)


def test_a_lock_moves_with_its_shard_and_stays_held(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    locks = open_locks("database", world)
    keys = [f"job-{index}" for index in range(12)]
    held = {key: locks.try_lock(key, 600) for key in keys}
    limiter = RateLimiter(2, 60, name="api", calls=DatabaseCalls(cast(SqlStore, world.store), world.clock))
    assert [limiter.try_acquire() is None for _ in range(3)] == [True, True, False]
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    places = {shard_map.hash("name", key) for key in (*keys, "api")} - {0}
    moved = {vshard for vshard in places if shard_map.database_of(vshard) == 1}
    assert moved
    moves.move(clusters.open(urls[0]), sorted(moved), to="db-2", actor="ann")
    others = open_locks("database", clusters.open(urls[0]))
    assert [others.try_lock(key, 60) for key in keys] == [None] * len(keys)
    for lock in held.values():  # by a process that still has the map of before
        assert lock is not None
        assert lock.extend(600)
    assert limiter.try_acquire() is not None


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_lock_whose_database_is_away_is_an_error_and_the_others_can_be_had(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    lose(world, urls, 2)
    world = clusters.open(urls[0])
    locks = open_locks("database", world)
    for index in range(20):
        key = f"job-{index}"
        if shard_map.database_of(shard_map.hash("name", key)) == 2:
            with pytest.raises(StoreError):
                locks.try_lock(key, 60)
        else:
            assert locks.try_lock(key, 60) is not None


def test_a_rate_limit_is_counted_in_one_database_whoever_asks(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    limiters = [
        RateLimiter(3, 60, name="api", calls=DatabaseCalls(cast(SqlStore, each.store), each.clock), dice=SystemDice())
        for each in (world, clusters.open(urls[1]), clusters.open(urls[2]))
    ]
    taken = [limiter.try_acquire() for limiter in limiters * 2]
    assert [each is None for each in taken] == [True, True, True, False, False, False]
    assert sorted(rows_of(world, "horae_calls")) == [0, 0, 3]


async def test_an_attempt_whose_rate_limit_cannot_be_asked_is_put_back_uncounted() -> None:
    class Away:
        def try_acquire(self) -> float | None:
            raise StoreUnavailable("away")

    async def ask(work: Any) -> Any:
        return work()

    waits = await check_rate_limits(ask, Away())
    assert waits is not None
    assert waits.ending == "snoozed"
    assert waits.delay
