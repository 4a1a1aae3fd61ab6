"""Agents work while the shard of their lane moves back and forth, and the mover is killed after each of its commits."""

import asyncio
import json
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from horae.actions import cluster as verbs
from horae.actions import moves
from horae.actions.attention import inbox, journal, queries
from horae.actions.attention.lanes import get_lane
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.proposals import propose
from horae.actions.jobs import batch
from horae.actions.jobs.batch import BatchRequest
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.clock import SystemClock, SystemDice
from horae.core.access.callers import Caller
from horae.core.attention.directives import Act, Done
from horae.core.attention.task import Control
from horae.core.cluster.shard_map import HOME
from horae.core.governance.proposals import Proposal
from horae.errors import StoreBusy
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.runtime.lanes.driver import LaneDriver
from horae.runtime.lanes.spec import ActionDef, AgentSpec, Turn
from horae.stores.metadata import metadata
from tests.cluster.conftest import Clusters
from tests.cluster.test_moving_under_load import MOVER

TASKS = 12
LANES = ("horae_lanes", "horae_tasks", "horae_facts", "horae_journal", "horae_objects", "horae_object_versions",
         "horae_evidence", "horae_batches", "horae_batch_jobs")  # fmt: skip


def tenant(world: World) -> tuple[str, int]:
    """Return an owner in the first database, and its virtual shard."""
    assert world.cluster is not None
    shard_map = world.cluster.refresh()
    for owner in (f"owner-{n}" for n in range(100)):
        vshard = shard_map.vshard_of(owner=owner)
        if vshard != HOME and shard_map.database_of(vshard) == 1:
            return owner, vshard
    raise AssertionError("none lives there")


def counts(world: World) -> dict[str, int]:
    """Return how many rows all databases have together."""

    def count(shard: World, table: str) -> int:
        query = select(func.count()).select_from(metadata.tables[table])
        return shard.store.read(lambda tx: int(tx.connection.execute(query).scalar_one()))

    return {table: sum(count(shard, table) for shard in world.databases()) for table in LANES}


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_mover_killed_after_any_commit_loses_nothing_of_lanes_objects_and_batches(
    clusters: Clusters, tmp_path: Path
) -> None:
    clusters.dice = SystemDice()  # type: ignore[assignment]
    world, urls = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    owner, vshard = tenant(world)
    caller = Caller(owner, frozenset({"tasks", "admin"}), "app/shop")
    script = tmp_path / "mover.py"
    script.write_text(MOVER)
    tasks, batches = set[str](), set[str]()
    for commits in range(1, 20):
        tasks.add(inbox.add(world, "desk", "note", {"n": commits}, owner=owner, delay=timedelta(hours=1)).task.id)
        batches.add(batch.create(world, BatchRequest([Request("mail", {}, owner=owner)], owner=owner))[0].id)
        propose(world, Proposal("memory", f"fact {commits}", id=f"m{commits}"), owner=owner, caller=caller)
        before = counts(world)
        command = [sys.executable, str(script), urls[0], json.dumps([vshard]), str(commits)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode in (0, -9), ended.stderr
        assert verbs.check(world, repair=True).is_well
        assert counts(world) == before, f"killed after {commits} commits"
        assert {each.id for each in queries.find_tasks(world, "desk", owner=owner)} == tasks
        assert all(batch.get(world, each).open == 1 for each in batches)
        verified = journal.verify(world, "desk", owner=owner)
        assert verified.is_sound, (commits, verified.complaints)
        assert check_objects(world, owner=owner) == []
        if ended.returncode == 0:
            break
        moves.move(world, [vshard], "first")
    else:
        pytest.fail("the move never ended")


def agent(owner: str, done: list[int], moved: threading.Event) -> AgentSpec:
    """Return an agent that sends each note by an action that must not happen twice, and is then done with it.

    In the middle of its work it waits until its shard has moved.
    """

    def think(turn: Turn) -> Any:
        return Done() if turn.facts.last("action_ok") else Act("send", {"n": turn.payload["n"]})

    def send(_: Any, n: int) -> None:
        if n == TASKS // 2:
            moved.wait(60)
        done.append(n)

    action = ActionDef("send", send, "once", timedelta(seconds=80))
    return AgentSpec("desk", owner, {"note": think}, {"send": action}, Control)


def test_a_driver_works_through_its_lane_while_the_shard_moves_back_and_forth(clusters: Clusters) -> None:
    clusters.dice = SystemDice()  # type: ignore[assignment]
    clusters.clock = SystemClock()  # type: ignore[assignment]  # a virtual pause would not let the mover go on
    world, urls = clusters.make(2)
    owner, vshard = tenant(world)
    done, moved, problems, back = list[int](), 0, list[BaseException](), threading.Event()

    def add(n: int) -> None:
        for _ in range(50):  # as a caller would: a shard that is on the way is repeated
            with suppress(StoreBusy):
                inbox.add(world, "desk", "note", {"n": n}, key=f"n{n}", owner=owner)
                return
        raise AssertionError("it never arrived")

    def work() -> None:
        try:
            asyncio.run(LaneDriver(clusters.open(urls[0]), agent(owner, done, back), "d1").until_idle())
        except BaseException as problem:
            problems.append(problem)

    for n in range(TASKS):
        add(n)
    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        if moved < 10:
            add(TASKS + moved)
        moves.move(world, [vshard], ("db-2", "first")[moved % 2])
        moved += 1
        if moved == 2:
            back.set()
    assert problems == []
    assert moved >= 2
    work()  # what came after the last look
    assert problems == []
    added = TASKS + min(moved, 10)
    assert sorted(done) == list(range(added))  # each once: no second driver, no turn that was lost
    verified = journal.verify(world, "desk", owner=owner)
    assert verified.is_sound, verified.complaints
    assert get_lane(world, "desk", owner=owner).epoch == 2  # it went on as the driver that it was
    assert {each.state for each in queries.find_tasks(world, "desk", owner=owner)} == {"completed"}
