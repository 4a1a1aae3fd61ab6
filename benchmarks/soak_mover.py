"""A mover of the cluster's soak, to be killed: ``python -m benchmarks.soak_mover URL``. Ends when its parent does."""

from __future__ import annotations

import os
import random
import sys
import time

from horae import Horae
from horae.actions import moves
from horae.core.cluster.numbers import VSHARDS
from horae.errors import HoraeError

AT_ONCE = 16
REST = 0.3  # seconds between two moves


def move_some(app: Horae) -> None:
    """Move some virtual shards to any database."""
    cluster = app.world.cluster
    assert cluster is not None
    first = random.randrange(1, VSHARDS - AT_ONCE)
    to = random.choice(cluster.refresh().members).name
    moves.move(app.world, range(first, first + AT_ONCE), to)


def main() -> None:
    parent, done = os.getppid(), 0
    with Horae(sys.argv[1]) as app:
        while os.getppid() == parent:
            try:
                move_some(app)
                done += 1
                print(done, flush=True)
            except HoraeError as problem:  # one of them is away, or another mover was faster
                print(f"# {type(problem).__name__}: {problem}", flush=True)
            time.sleep(REST)


if __name__ == "__main__":
    main()
