"""Three days of downtime with 10,000 schedules of every minute: fault 35."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions.schedules import fires as firing
from horae.actions.schedules.schedules import with_next_fire
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import micros
from horae.ports.store import Tx
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock

COUNT = 10_000
DOWN = timedelta(days=3)
MISSED = 3 * 1440
SPREAD = timedelta(minutes=10)
POLICIES: list[dict[str, Any]] = [
    {"misfire": "fire_once"},
    {"misfire": "skip", "grace": timedelta(seconds=10)},
    {"misfire": "catch_up", "catch_up": 3, "spread": SPREAD},
    {"misfire": "catch_up", "catch_up": 3, "spread": SPREAD, "overlap": "allow"},
]


def made(world: World, count: int) -> list[Schedule]:
    """Many schedules in one transaction, their policies in turn; every minute, in different zones."""

    def write(tx: Tx) -> list[Schedule]:
        wanted = [
            with_next_fire(world, replace(each, created_at=NOON, updated_at=NOON), NOON)
            for place in range(count)
            for each in [a_schedule(f"s{place:05}", **POLICIES[place % len(POLICIES)])]
        ]
        return [replace(each, number=number) for each, number in zip(wanted, tx.schedules.add(wanted), strict=True)]

    return world.store.transact(write)


def answer(world: World) -> Counter[tuple[str, str]]:
    """How many fires of each policy became what."""
    query = text(
        "SELECT s.misfire, f.verdict, SUM(f.fire_count) FROM horae_fires f JOIN horae_schedules s "
        "ON s.id = f.schedule_id GROUP BY s.misfire, f.verdict"
    )
    rows = world.store.read(lambda tx: list(tx.connection.execute(query)))
    return Counter({(misfire, verdict): int(count) for misfire, verdict, count in rows})


@pytest.mark.slow
@pytest.mark.timeout(300)  # the bound: seconds on an idle machine
def test_ten_thousand_minutely_schedules_recover_from_three_days_by_policy(world: World, clock: VirtualClock) -> None:
    made(world, COUNT)
    clock.advance(DOWN + timedelta(seconds=30))

    fired = 0
    while batch := firing.fire_due(world):
        fired += len(batch)

    each = COUNT // len(POLICIES)
    assert fired == COUNT
    assert answer(world) == {
        ("fire_once", "merged"): each * (MISSED - 1),
        ("fire_once", "ran"): each,
        ("skip", "skipped"): each * MISSED,
        ("catch_up", "skipped"): 2 * each * (MISSED - 3),
        ("catch_up", "ran"): 2 * each * 3,
    }
    assert sum(answer(world).values()) == COUNT * MISSED, "run + merged + skipped = due (I8)"

    rows = world.store.read(lambda tx: list(tx.connection.execute(text("SELECT run_at FROM horae_jobs"))))
    late = [row.run_at - micros(clock.now()) for row in rows]
    spread_out = [wait for wait in late if wait > 0]
    assert len(spread_out) == 2 * each * 2, "of each three, two wait for their turn"
    assert max(spread_out) == SPREAD * 2 / 3 / timedelta(microseconds=1)
    assert world.store.peek([]).next_fire_at == NOON + DOWN + timedelta(minutes=1), "and the rhythm goes on"
