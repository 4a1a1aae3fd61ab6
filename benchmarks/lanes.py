"""``python -m benchmarks.lanes``: four processes fight over eight lanes while some of them are killed; what was lost?

A private PostgreSQL on loopback. It ends by itself after ``--minutes`` and fails if a lane had two tasks running, an
event was lost, a task did not end, something was done twice, or a journal does not fold back to its tables.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.support.lanes import Battle
from tests.support.servers import Servers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lanes", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds between two kill -9")
    asked = parser.parse_args()
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
