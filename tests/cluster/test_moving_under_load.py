"""Shards move while others insert and work, and the mover is killed after each of its commits."""

import json
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from horae.actions import cluster as verbs
from horae.actions import moves
from horae.actions.jobs import claims, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.clock import SystemDice
from horae.core.cluster.shard_map import HOME
from horae.core.jobs.job import Outcome
from horae.errors import StoreBusy
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.runtime.sources.store import StoreSource
from tests.cluster.conftest import Clusters

LEASE = timedelta(minutes=10)
OWNERS = [f"owner-{n}" for n in range(8)]
# Ends itself by SIGKILL right after so many commits; prints nothing then.
MOVER = """
import json, os, signal, sys
from horae.actions import moves
from horae.clock import SystemDice
from horae.stores.store import SqlStore
from horae.testing.clock import NOON, VirtualClock
from horae.ports.world import World
from horae.stores.cluster.opening import with_cluster
from horae.stores.opening import create_store_engine, open_store

url, vshards, commits = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
store, clock = open_store(create_store_engine(url)), VirtualClock(NOON)
world = with_cluster(World(store, clock, SystemDice(), tzdata="2030a"), store, make_clock=lambda _: clock)
plain, done = SqlStore.transact, 0

def transact(self, work, *, hot=False):
    global done
    answer = plain(self, work, hot=hot)
    done += 1
    if done == commits:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer

SqlStore.transact = transact
moves.move(world, vshards, "db-2")
print("moved")
"""


def vshards_of(world: World) -> list[int]:
    assert world.cluster is not None
    shard_map = world.cluster.refresh()
    found = {shard_map.vshard_of(owner=owner) for owner in OWNERS} - {HOME}
    return sorted(each for each in found if shard_map.database_of(each) == 1)


def test_a_mover_killed_after_any_commit_loses_and_doubles_nothing(clusters: Clusters, tmp_path: Path) -> None:
    clusters.dice = SystemDice()  # type: ignore[assignment]
    world, urls = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    vshards, ids = vshards_of(world), set[str]()
    script = tmp_path / "mover.py"
    script.write_text(MOVER)
    for commits in range(1, 20):
        ids |= {jobs.enqueue(world, Request("mail", {}, owner=owner, key=f"{owner}-{commits}")).id for owner in OWNERS}
        ended = subprocess.run(
            [sys.executable, str(script), urls[0], json.dumps(vshards), str(commits)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode in (0, -9), ended.stderr
        assert verbs.check(world, repair=True).is_well
        found = Counter(job.id for shard in world.databases() for job in jobs.find(shard, limit=500))
        assert set(found) == ids, f"killed after {commits} commits"
        assert set(found.values()) == {1}, f"killed after {commits} commits"
        assert all(jobs.get(world, each).id == each for each in ids)
        if ended.returncode == 0:
            break
        moves.move(world, vshards, "first")
    else:
        pytest.fail("the move never ended")
    assert commits >= 7  # copy, expect, pack, switch, copies, unpack, discard


def test_shards_move_while_others_insert_and_work(clusters: Clusters) -> None:
    clusters.dice = SystemDice()  # type: ignore[assignment]
    first, urls = clusters.make(2)
    store_definitions(first, [StoredDefinition("mail", "default", tenants=True)])
    stored, started, ended = list[str](), list[str](), list[str]()
    producing, problems = threading.Event(), list[BaseException]()
    producing.set()

    def produce(number: int) -> None:
        world = clusters.open(urls[0])
        for index in range(60):
            for _ in range(200):  # as a caller would: a shard that is on the way is repeated
                with suppress(StoreBusy):
                    owner = OWNERS[index % len(OWNERS)]
                    stored.append(jobs.enqueue(world, Request("mail", {}, owner=owner, key=f"{number}-{index}")).id)
                    break

    def work() -> None:
        world = clusters.open(urls[0])
        shards = world.databases()
        while producing.is_set() or len(ended) < len(stored):
            for shard in shards:
                source = StoreSource(shard, world)
                held = claims.claim(shard, "default", 5, worker_id="w", lease=LEASE)
                started.extend(job.id for job in held)
                while held:
                    settled = source.settle([(job, Outcome("succeeded")) for job in held])
                    assert None not in settled.values(), "a held attempt was lost"
                    ended.extend(settled)
                    held = [job for job in held if job.id not in settled]

    def guarded(act: object, *given: object) -> None:
        try:
            act(*given)  # type: ignore[operator]
        except BaseException as problem:
            problems.append(problem)

    producers = [threading.Thread(target=guarded, args=(produce, number)) for number in range(2)]
    workers = [threading.Thread(target=guarded, args=(work,)) for _ in range(2)]
    for thread in (*producers, *workers):
        thread.start()
    vshards, moved = vshards_of(first), 0
    while any(thread.is_alive() for thread in producers) or moved < 4:
        moves.move(first, vshards, ("db-2", "first")[moved % 2])
        moved += 1
    for thread in producers:
        thread.join()
    producing.clear()
    for thread in workers:
        thread.join(60)
    assert problems == []
    assert len(stored) == len(set(stored)) == 120
    assert Counter(started) == Counter(ended) == Counter(stored)
    assert moves.open_parcels(first) == []
