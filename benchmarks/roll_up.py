"""What the roll-up costs at 1,000 jobs a second: processor time of the process, for each minute of 60,000 endings.

    python -m benchmarks.roll_up sqlite:////tmp/roll_up.db [minutes]

A job costs its worker about 290 µs (``benchmarks.pairs``), so a minute of 60,000 jobs 17.4 s; the last column is the
share of that. On PostgreSQL and MariaDB the server's own time is not in it; the wall time shows it.
"""

from __future__ import annotations

import random
import sys
import time
from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from horae.actions.roll_up import roll_up
from horae.clock import SystemClock, SystemDice
from horae.core.statistics import MINUTE
from horae.core.time.instants import micros
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.tables.jobs import runs
from horae.testing.clock import VirtualClock

A_MINUTE = 60_000
OF_WORKERS = A_MINUTE * 290e-6  # seconds of processor time
FAILED = 0.01


def rows(start: int, first: int, dice: random.Random) -> list[dict[str, Any]]:
    found = []
    for number in range(A_MINUTE):
        end = start + number * MINUTE // A_MINUTE
        failed = dice.random() < FAILED
        took = int(dice.lognormvariate(11, 1))
        found.append(
            {
                "job_id": first + number, "token": 1, "outcome": "failed" if failed else "succeeded",
                "state": None if failed else "succeeded", "attempt": 0, "queue": f"q{number % 5}",
                "handler": f"handler{number % 40}", "owner": "system", "started_at": end - took,
                "run_at": None if failed else end - took - int(dice.lognormvariate(8, 1)), "finished_at": end,
                "error": f"ValueError: order {number} is gone\\n  File \"a.py\", line 3, in pay" if failed else None,
            }
        )  # fmt: skip
    return found


def main(url: str, minutes: int = 12) -> None:
    engine = create_store_engine(url)
    migrate(engine)
    store = open_store(engine)
    dice = random.Random(1)
    begin = SystemClock().now().replace(second=0, microsecond=0) - timedelta(hours=3)
    clock = VirtualClock(begin)
    world = World(store, clock, SystemDice())
    spent, waited = [], []
    for minute in range(minutes):
        batch = rows(micros(begin) + minute * MINUTE, 1 + minute * A_MINUTE, dice)
        for at in range(0, A_MINUTE, 5000):
            chunk = batch[at : at + 5000]
            store.transact(lambda tx, chunk=chunk: tx.connection.execute(insert(runs), chunk))  # type: ignore[misc]
        clock.advance(timedelta(minutes=1))
        before, wall = time.process_time(), time.perf_counter()
        while roll_up(world):
            continue
        spent.append(time.process_time() - before)
        waited.append(time.perf_counter() - wall)
    late = spent[3:]
    mean = sum(late) / len(late)
    print(
        f"processor {mean:.3f} s a minute, wall {sum(waited[3:]) / len(late):.3f} s: {mean / OF_WORKERS:.2%} of workers"
    )
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], *(int(text) for text in sys.argv[2:]))
