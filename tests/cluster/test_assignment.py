"""Who serves which database of a cluster of many, by leases: every queue has a worker everywhere, whoever dies."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest

from horae import Horae
from horae.actions import assignment
from horae.actions.jobs import jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.core.cluster.assignment import CHOICE, LEASE, LOOK_EVERY, Holding, choose, count_chosen, is_needed
from horae.ports.definitions import StoredDefinition
from horae.runtime.worker.assignment import Assignment
from horae.runtime.worker.settings import WorkerSettings
from horae.runtime.worker.turns import Turns
from horae.testing.clock import NOON
from tests.cluster.conftest import Clusters
from tests.cluster.test_walk import Shop
from tests.support.waiting import eventually, wait_until

LATER = NOON + LEASE
MANY = 6


def holding(worker: str, queue: str = "mail", until: datetime = LATER, *, is_chosen: bool = True) -> Holding:
    return Holding(queue, worker, until, is_chosen)


# -- the rule ----------------------------------------------------------------------------------------------------------


def test_a_database_without_a_worker_for_a_queue_needs_one() -> None:
    assert is_needed([], "a", ["mail"], NOON)
    assert is_needed([holding("b", "other")], "a", ["mail"], NOON)
    assert is_needed([holding("b", until=NOON)], "a", ["mail"], NOON)
    assert not is_needed([holding("b")], "a", ["mail"], NOON)
    assert is_needed([holding("b")], "a", ["mail", "other"], NOON)


def test_a_worker_steps_back_for_one_that_chose_the_database_and_for_a_lower_name() -> None:
    own = holding("b", is_chosen=False)
    assert is_needed([own], "b", ["mail"], NOON)
    assert not is_needed([own, holding("c")], "b", ["mail"], NOON)
    assert not is_needed([own, holding("a", is_chosen=False)], "b", ["mail"], NOON)
    assert is_needed([own, holding("c", is_chosen=False)], "b", ["mail"], NOON)


def test_of_workers_that_stepped_in_together_exactly_one_stays() -> None:
    holdings = [holding(name, is_chosen=False) for name in ("c", "a", "b")]
    assert [name for name in ("a", "b", "c") if is_needed(holdings, name, ["mail"], NOON)] == ["a"]


def test_a_worker_chooses_its_own_database_and_those_that_the_fewest_have_chosen() -> None:
    counts = {1: 3, 2: 1, 3: 0, 4: 1, 5: 0, 6: 0}
    assert choose(counts, "w", own=1) == {1, 3, 5, 6}
    assert choose(counts, "w", own=1, chosen=(2, 4)) >= {1, 2, 4}
    assert len(choose(dict.fromkeys(range(1, 9), 0), "w", own=1)) == CHOICE
    different = {choose(dict.fromkeys(range(1, 20), 0), f"w{index}", own=1) for index in range(10)}
    assert len(different) > 5


def test_the_queue_with_the_fewest_workers_decides_how_well_a_database_is_served() -> None:
    holdings = [holding("a"), holding("b"), holding("a", "other"), holding("c", "other", NOON)]
    assert count_chosen(holdings, "w", ["mail", "other"], NOON) == 1
    assert count_chosen(holdings, "a", ["mail", "other"], NOON) == 0


# -- turns -------------------------------------------------------------------------------------------------------------


class Peer:
    def __init__(self) -> None:
        self.rings = 0

    def ring(self) -> None:
        self.rings += 1


def test_free_slots_go_to_those_who_wait_longest() -> None:
    turns, (first, second, third) = Turns(), (Peer(), Peer(), Peer())
    turns.wait(first, "q")
    turns.wait(second, "q")
    turns.wait(first, "q")
    assert [turns.ahead_of(each, "q") for each in (first, second, third)] == [0, 1, 2]
    assert turns.ahead_of(third, "other") == 0
    turns.leave(first, "q")
    turns.call_next("q")
    assert (first.rings, second.rings) == (0, 1)
    assert [turns.ahead_of(each, "q") for each in (second, first)] == [0, 1]
    turns.leave(second)
    assert turns.ahead_of(first, "q") == 0


# -- leases in databases -----------------------------------------------------------------------------------------------


def test_a_lease_runs_out_and_another_worker_steps_in(clusters: Clusters) -> None:
    world, _ = clusters.make(1)
    [shard] = world.shards()
    assert assignment.attend(shard, "a", ["mail", "other"], is_chosen=False).is_ours
    assert not assignment.attend(shard, "b", ["mail"], is_chosen=False).is_ours
    assert assignment.attend(shard, "b", ["mail", "new"], is_chosen=False).is_ours
    assignment.leave(shard, "b")
    clusters.clock.advance(LEASE + timedelta(seconds=1))
    assert assignment.attend(shard, "b", ["mail"], is_chosen=False).is_ours
    assert not assignment.attend(shard, "c", ["mail"], is_chosen=False).is_ours
    clusters.clock.advance(timedelta(hours=2))
    assignment.attend(shard, "d", ["mail"], is_chosen=True)
    assert [each.worker for each in shard.store.read(lambda tx: tx.cluster.holdings())] == ["d"]


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
async def test_every_database_is_served_and_a_second_worker_takes_over_its_part(clusters: Clusters) -> None:
    world, urls = clusters.make(MANY)
    first = Assignment(world, "a", ["mail"], patience=60)
    second = Assignment(clusters.open(urls[1]), "b", ["mail"], patience=60)
    try:
        assert _served(await first.look()) == set(range(1, MANY + 1))
        by_second = _served(await second.look())
        assert len(by_second) == CHOICE
        by_first = _served(await first.look())
        assert by_first | by_second == set(range(1, MANY + 1))
        assert len(by_first) == CHOICE
        assert first.pause == LOOK_EVERY
        clusters.clock.advance(LEASE + timedelta(seconds=1))  # the second one has died
        assert _served(await first.look()) == set(range(1, MANY + 1))
        await first.leave()
        assert all(not shard.store.read(lambda tx: tx.cluster.holdings())[1:] for shard in world.shards())
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
async def test_a_worker_for_another_queue_leaves_no_queue_without_one(clusters: Clusters) -> None:
    world, _ = clusters.make(MANY)
    mail, other = Assignment(world, "a", ["mail"], patience=60), Assignment(world, "b", ["other"], patience=60)
    try:
        await mail.look()
        assert _served(await other.look()) == set(range(1, MANY + 1))
        assert _served(await mail.look()) == set(range(1, MANY + 1))
    finally:
        mail.close()
        other.close()


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
async def test_a_worker_that_was_asked_to_drain_holds_no_lease(clusters: Clusters) -> None:
    world, _ = clusters.make(MANY)
    first, second = Assignment(world, "a", ["mail"], patience=60), Assignment(world, "b", ["mail"], patience=60)
    try:
        await first.look()
        await second.look()
        kept = _served(await first.look())
        assert 1 in kept
        await first.look(idle={1})
        assert 1 in _served(await second.look())
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
async def test_few_databases_are_served_whole_and_without_a_lease(clusters: Clusters) -> None:
    world, _ = clusters.make(CHOICE)
    one = Assignment(world, "a", ["mail"], patience=60)
    try:
        assert _served(await one.look()) == set(range(1, CHOICE + 1))
        assert all(not shard.store.read(lambda tx: tx.cluster.holdings()) for shard in world.shards())
    finally:
        one.close()


def _served(found: Mapping[int, object | None]) -> set[int]:
    return {number for number, world in found.items() if world is not None}


@pytest.mark.slow
@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
async def test_a_database_with_a_backlog_does_not_keep_the_slots_of_the_others(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    assert world.cluster is not None
    shard_map, ran = world.cluster.shard_map, list[int]()
    with Horae(urls[0]) as app:

        @app.job("mail", tenants=True)
        def mail(kept: int) -> None:
            ran.append(kept)

        store_definitions(app.world, [StoredDefinition("mail", "default", tenants=True)])
        counts = {1: 200, 2: 5, 3: 5}
        for index in range(1000):
            owner = f"owner-{index}"
            kept = shard_map.database_of(shard_map.vshard_of(owner=owner))
            if counts[kept]:
                counts[kept] -= 1
                jobs.enqueue(app.world, Request("mail", {"kept": kept}, owner=owner))
        assert not any(counts.values())
        worker = app.worker(WorkerSettings(queues={"default": 1}))
        running = asyncio.create_task(worker.run())
        try:
            await eventually(lambda: len(ran) >= 210, "every job", within=120)
        finally:
            worker.stop()
            await asyncio.wait_for(running, 60)
    few = [index for index, kept in enumerate(ran) if kept != 1]
    assert max(few) < len(ran) - 20, ran  # in turn with the one of the backlog, not behind it
    assert Counter(ran) == {1: 200, 2: 5, 3: 5}


# -- real processes ----------------------------------------------------------------------------------------------------


class ManyShop(Shop):
    def make_cluster(self) -> None:
        self.horae("cluster", "init")
        for index in range(2, MANY + 1):
            self.horae("cluster", "add", f"d{index}", f"sqlite:///{self.folder / f'd{index}.db'}")

    @property
    def files(self) -> list[Path]:
        return [self.folder / "a.db", *(self.folder / f"d{index}.db" for index in range(2, MANY + 1))]

    def holders(self) -> list[set[str]]:
        """Return the workers with a row in each database."""
        found = []
        for path in self.files:
            with sqlite3.connect(path) as connection:
                rows = connection.execute("SELECT worker FROM horae_serving").fetchall()
            found.append({worker for (worker,) in rows})
        return found

    def waiting(self) -> int:
        counts = []
        for path in self.files:
            with sqlite3.connect(path) as connection:
                query = "SELECT count(*) FROM horae_jobs WHERE queue = 'default'"
                counts.append(connection.execute(query).fetchone()[0])
        return sum(counts)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_workers_databases_are_served_by_another_within_the_lease(tmp_path: Path) -> None:
    shop = ManyShop(tmp_path)
    shop.make_cluster()
    workers = [shop.worker()]
    try:
        wait_until(lambda: all(shop.holders()), "leases in every database", within=120)
        workers.append(shop.worker())
        wait_until(lambda: sum(map(len, shop.holders())) >= 2 * CHOICE, "leases of the second", within=120)
        names = {name for each in shop.holders() for name in each}
        wait_until(lambda: any(len(each) == 1 for each in shop.holders()), "one steps back", within=60)
        assert len(names) == 2
        shop.run("-c", "import shop; shop.send(30)")
        wait_until(lambda: len(shop.sent()) == 30, "every job of two workers", within=120)
        workers[0].kill()
        workers[0].wait(60)
        killed_at = monotonic()
        shop.run("-c", "import shop; shop.send(60)")
        wait_until(lambda: shop.waiting() == 0 and len(shop.sent()) == 60, "every job of the one left", within=120)
        took = monotonic() - killed_at
        print(f"all databases were served {took:.1f} s after the kill; lease {LEASE.total_seconds():.0f} s")
        assert took < LEASE.total_seconds() + 45  # on a busy machine; a quiet one needs at most the lease and 5
        late = [sys.executable, "-m", "horae", "doctor", "--json"]
        ended = subprocess.run(late, cwd=shop.folder, env=shop.environment, capture_output=True, text=True, check=False)
        problems = [each["text"] for each in json.loads(ended.stdout)["doctor"]["checks"] if each["level"] == "problem"]
        assert not any("No live worker serves" in each for each in problems)
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.wait(90)
    left = [name for each in shop.holders() for name in each]
    assert len(set(left)) <= 1  # of the killed one, until it is forgotten; who ended well gave its leases up
