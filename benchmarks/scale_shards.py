"""``python -m benchmarks.scale_shards``: does a job cost more processor time when there are more databases?

Clusters of 1, 2 and 4 databases, each on a PostgreSQL server of its own; jobs that do nothing are enqueued in batches
and drained by one worker, in turns. Each database gets as many jobs, and the worker as many slots for each, whatever
their number: that is what several databases are for. (With ``--same-total`` all of them together get as many as one
would: then what a database costs by itself, and claims in smaller batches, are shared by fewer jobs.) Chores and
vacuum are left out: they follow by minutes, and would fall into whichever round lasts longer. Printed for a
job: processor time of all servers and of the process that enqueues and works, as the median over the rounds, and the
ratio to one database. That of the servers must stay within ten per cent.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import text

from benchmarks.meter import tree_seconds
from horae import Horae, Retry
from horae.actions import cluster as verbs
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.cluster.addresses import public_address
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from tests.support.servers import PostgresServer, Servers

SIZES = (1, 2, 4)
BATCH, SLOTS, MUST = 500, 500, 1.10
GIVE_UP = 300.0  # seconds


@dataclass
class Figures:
    """Microseconds of processor time for a job, a value for each round."""

    server: list[float] = field(default_factory=list)
    here: list[float] = field(default_factory=list)

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.server), statistics.median(self.here)


def make(servers: Sequence[PostgresServer]) -> str:
    """Make a cluster with a new database on each server; return the URL of the first."""
    urls = [each.create_database() for each in servers]
    for url in urls:
        with Horae(url) as app:
            migrate(app.engine)
    first = urls[0]
    with Horae(first) as app:
        verbs.init(app.world, name="db-1", address=public_address(first, first))
    with Horae(first) as app:
        for number, url in enumerate(urls[1:], 2):
            with Horae(url) as joining:
                verbs.add(app.world, joining.world, name=f"db-{number}", address=public_address(url, first))
    return first


def vacuum(url: str) -> None:
    """Clean up after the round before, in every database of a cluster, so that no round pays for another."""
    with Horae(url) as app:
        assert app.world.cluster is not None
        members = [app.world.cluster.store_of(each.number) for each in app.world.cluster.shard_map.members]
        for store in cast("list[SqlStore]", members):
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM (ANALYZE) horae_jobs"))
                connection.execute(text("CHECKPOINT"))


async def measure(url: str, servers: Sequence[PostgresServer], jobs: int, slots: int) -> tuple[float, float]:
    """Enqueue and drain once; return the processor time of the servers and of this process for a job."""
    with Horae(url) as app:
        done = 0

        @app.job("nothing", retry=Retry.none())
        async def nothing(number: int) -> None:
            nonlocal done
            done += 1

        worker = app.worker(WorkerSettings(queues={"default": slots}, cleans=False))
        before, here, ends = _seconds(servers), time.process_time(), time.monotonic() + GIVE_UP
        for first in range(0, jobs, BATCH):  # each batch goes to a shard that is drawn
            nothing.enqueue_many({"number": first + place} for place in range(BATCH))
        serving = asyncio.create_task(worker.run())
        while done < jobs and not serving.done() and time.monotonic() < ends:
            await asyncio.sleep(0.05)
        worker.stop()
        await serving
        assert done == jobs, f"{done} of {jobs} jobs were done"
        took = time.process_time() - here
    await asyncio.sleep(0.3)  # until the servers' processes have ended, which counts what they cost
    return (_seconds(servers) - before) / jobs * 1e6, took / jobs * 1e6


def _seconds(servers: Sequence[PostgresServer]) -> float:
    return sum(tree_seconds(each.pid) for each in servers)


def tell(found: dict[int, Figures], load: str, rounds: int) -> bool:
    """Print the table; return whether the must is met."""
    base, met = found[SIZES[0]].medians, True
    print(f"{load} a round, {rounds} rounds in turns, median of processor time a job")
    print("databases    servers        ratio   enqueue + worker   ratio   must     met")
    for size, figures in found.items():
        server, here = figures.medians
        ratio = server / base[0]
        is_met = ratio <= MUST
        met = met and is_met
        print(f"{size:>9}   {server:6.1f} µs   {ratio:9.2f}   {here:11.1f} µs   {here / base[1]:7.2f}   "
              f"≤ {MUST:.2f}   {'yes' if is_met else 'NO'}")  # fmt: skip
    return met


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_shards", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="for each database and round, a multiple of 500")
    parser.add_argument("--same-total", action="store_true", help="so many for all databases together")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    jobs = asked.jobs // BATCH * BATCH
    with Servers() as servers:
        hosts = [servers.own(PostgresServer, durable=True) for _ in range(max(SIZES))]
        urls = {size: make(hosts[:size]) for size in SIZES}
        found = {size: Figures() for size in SIZES}
        for turn in range(asked.rounds + 1):  # the first round fills caches and counts for nothing
            for size in SIZES if turn % 2 else SIZES[::-1]:
                share = 1 if asked.same_total else size
                vacuum(urls[size])
                server, here = asyncio.run(measure(urls[size], hosts, jobs * share, SLOTS * share))
                if turn:
                    found[size].server.append(server)
                    found[size].here.append(here)
        load = f"{jobs:,} jobs {'in all' if asked.same_total else 'for each database'}"
        return 0 if tell(found, load, asked.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
