"""The roll-up equals a recount after kill -9, late commits and several keepers: with real processes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from horae.actions.roll_up import roll_up
from horae.clock import SystemClock, SystemDice
from horae.core.statistics import MINUTE
from horae.core.time.instants import micros
from horae.ports.store import Store, Tx
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.tables.jobs import runs
from horae.testing.clock import VirtualClock
from tests.support.recount import recount, rolled_up

# A keeper that counts for ever, in steps as small as possible, and says so after each.
KEEPER = """
import sys
from datetime import datetime, timedelta
from horae.actions import roll_up
from horae.clock import SystemDice
from horae.errors import StoreError
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import VirtualClock

roll_up.AT_ONCE = 60_000_000
store = open_store(create_store_engine(sys.argv[1]))
clock = VirtualClock(datetime.fromisoformat(sys.argv[2]))
world = World(store, clock, SystemDice())
while True:
    try:
        more = roll_up.roll_up(world)
    except StoreError:
        continue  # the other one was writing
    if not more:
        clock.advance(timedelta(seconds=61))
    print("step", flush=True)
"""


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store: Store = open_store(engine)
    yield World(store, SystemClock(), SystemDice())
    store.close()


def run_row(number: int, end: int, dice: random.Random) -> dict[str, Any]:
    outcome = dice.choice(("succeeded", "succeeded", "failed"))
    done = outcome == "succeeded"
    return {
        "job_id": number, "token": 1, "outcome": outcome, "state": outcome if done else None, "attempt": 0,
        "queue": dice.choice(("mail", "default")), "handler": dice.choice("abc"), "owner": "system",
        "error": None if done else f"ValueError: order {number} is gone", "started_at": end - dice.randrange(10**7),
        "run_at": end - 10**7 if done else None, "finished_at": end,
    }  # fmt: skip


def test_it_equals_a_recount_after_kills_late_commits_and_two_keepers(world: World, database_url: str) -> None:
    dice = random.Random(7)
    begin = world.clock.now().replace(second=0, microsecond=0) - timedelta(hours=10)
    numbers = iter(range(1, 100_000))

    def commit(minutes: range, count: int) -> None:
        """Commit endings of minutes that may have been counted long ago."""
        rows = [
            run_row(next(numbers), micros(begin) + dice.choice(minutes) * MINUTE + dice.randrange(MINUTE), dice)
            for _ in range(count)
        ]
        world.store.transact(lambda tx: tx.connection.execute(insert(runs), rows))

    commit(range(120), 400)
    keepers = [start_keeper(database_url, begin) for _ in range(2)]
    try:
        for round_ in range(6):
            commit(range(120 + 20 * round_), 40)
            victim = dice.randrange(2)
            for _ in range(dice.randrange(1, 6)):
                assert keepers[victim].stdout is not None
                assert keepers[victim].stdout.readline() == "step\n"  # type: ignore[union-attr]
            keepers[victim].send_signal(signal.SIGKILL)
            keepers[victim].wait()
            keepers[victim] = start_keeper(database_url, begin + timedelta(minutes=20 * round_))
    finally:
        for each in keepers:
            each.kill()
            each.wait()

    clock = VirtualClock(world.clock.now() + timedelta(hours=1))
    later = World(world.store, clock, SystemDice())
    for _ in range(3):
        clock.advance(timedelta(minutes=2))
        while roll_up(later):
            continue
    state = world.store.read(lambda tx: tx.statistics.state())
    assert state is not None
    for grain in ("minute", "hour"):
        expected = recount(world.store, grain, until=state.rolled_until)
        assert rolled_up(world.store, grain) == expected
    assert sum(each.runs for (_, scope, _), each in rolled_up(world.store, "hour").items() if scope == "total") == 640
    assert errors_counted(world) == failures(world)


def errors_counted(world: World) -> int:
    def read(tx: Tx) -> int:
        found = tx.error_groups.find(
            owner=None, handler=None, muted=None, seen_since=None, now=world.clock.now(), limit=100, before=None
        )
        return sum(each.count for each in found)

    return world.store.read(read)


def failures(world: World) -> int:
    total = [each for (_, scope, _), each in rolled_up(world.store, "hour").items() if scope == "total"]
    return sum(each.failed for each in total)


def start_keeper(database_url: str, now: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", KEEPER, database_url, now.isoformat()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
