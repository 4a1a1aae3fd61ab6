"""``python -m benchmarks.lanes``: four processes fight over eight lanes while some of them are killed; what was lost?

A private PostgreSQL on loopback. It ends by itself after ``--minutes`` and fails if a lane had two tasks running, an
event was lost, a task did not end, something was done twice, or a journal does not fold back to its tables.

``--backlog 10000`` measures instead how long a step takes on a SQLite file while so many tasks are ready.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select

from horae import Horae
from horae.attention import Act, Attention, Done, Facts, Step, Turn
from horae.stores.schema import migrate
from horae.stores.tables.attention import tasks
from tests.support.lanes import Battle
from tests.support.servers import Servers

BANDS = (20, 40, 44, 47)  # priorities, some of which waiting can lift above each other
FILLED_AT_ONCE = 5_000


def an_agent(app: Horae) -> Attention:
    """Each task does one thing and ends."""
    agent = Attention("backlog", app, lease=timedelta(minutes=5))

    @agent.action(effect="idempotent")
    def work(step: Step) -> Facts:
        return Facts()

    @agent.cognition("errand")
    def errand(turn: Turn) -> Any:
        return Done() if turn.facts.last("action_ok") else Act("work")

    return agent


def fill(app: Horae, agent: Attention, count: int) -> None:
    """Make so many ready tasks, as copies of one that was added."""
    agent.add("errand")
    with app.engine.begin() as connection:
        row = dict(connection.execute(select(tasks)).mappings().one())
        row.pop("id")
        for first in range(0, count, FILLED_AT_ONCE):
            numbers = range(first, min(first + FILLED_AT_ONCE, count))
            copies = [
                row | {"base": BANDS[number % len(BANDS)], "ready_since": row["ready_since"] - number * 10_000}
                for number in numbers
            ]
            connection.execute(insert(tasks), copies)


async def time_steps(agent: Attention, steps: int) -> tuple[list[float], float]:
    """Return how many milliseconds each of so many steps takes, the slowest last; and those of CPU for a step."""
    driver, took = agent.driver(), list[float]()
    await driver.step()
    worked = time.process_time()
    for _ in range(steps):
        began = time.perf_counter()
        await driver.step()
        took.append((time.perf_counter() - began) * 1000)
    worked = time.process_time() - worked
    await driver.close()
    return sorted(took), worked * 1000 / steps


def measure_backlog(count: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Horae(f"sqlite:///{folder}/lanes.db") as app:
        migrate(app.engine)
        agent = an_agent(app)
        fill(app, agent, count)
        took, worked = asyncio.run(time_steps(agent, steps))
    p50, p95 = statistics.median(took), took[int(len(took) * 0.95)]
    print(f"{count:>10,}  ready tasks: a step takes {p50:.1f} ms at p50, {p95:.1f} ms at p95, {worked:.1f} ms of CPU")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lanes", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds between two kill -9")
    parser.add_argument("--backlog", type=int, nargs="*", metavar="N", help="measure a step with N ready tasks")
    parser.add_argument("--steps", type=int, default=300, help="how many steps to measure")
    asked = parser.parse_args()
    if asked.backlog is not None:
        for count in asked.backlog or [100, 10_000, 100_000]:
            measure_backlog(count, asked.steps)
        return 0
    with Servers() as servers:
        battle = Battle(servers.postgres.create_database(), asked.processes, asked.kill_every)
        began = time.monotonic()
        counts = battle.run(asked.minutes * 60)
    for name, count in counts.items():
        print(f"{count:>10,}  {name}")
    print(f"{time.monotonic() - began:>10,.0f}  seconds")
    print("lost:", battle.losses or "nothing")
    return 1 if battle.losses else 0


if __name__ == "__main__":
    sys.exit(main())
